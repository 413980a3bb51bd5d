"""Order, scatters, running sums, random bits, stages and 4-bit elements on OpenCL devices, beside the CPU device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, TensorDesc, UnsupportedError
from anydml.kernels.code import llvm
from anydml.kernels.opencl import calls, order, scans
from anydml.schema.enumerations import AxisDirection
from anydml.schema.operator import Desc
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = NDArray[Any]
Rng = np.random.Generator
Inputs = Mapping[str, Any]
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
INTEGERS = (DataType.INT32, DataType.UINT8, DataType.INT16, DataType.INT64, DataType.UINT64)
DIRECTIONS = tuple(AxisDirection)


@pytest.fixture(scope="module")
def there() -> dml.Device:
    try:
        return dml.Device("opencl")
    except UnsupportedError as error:
        pytest.skip(str(error))


# --- descs and data ---


def one_of(rng: Rng, types: Sequence[DataType]) -> DataType:
    return types[int(rng.integers(len(types)))]


def laid_out(rng: Rng, data_type: DataType, sizes: tuple[int, ...]) -> TensorDesc:
    """A tensor in any order of dimensions, half of the time with gaps."""
    if rng.integers(2):
        return TensorDesc(data_type, sizes)
    strides, step = [0] * len(sizes), 1
    for d in rng.permutation(len(sizes)).tolist():
        strides[d] = step
        step *= sizes[d] + int(rng.integers(3))
    return TensorDesc(data_type, sizes, strides=strides)


def elements(rng: Rng, t: TensorDesc) -> Array:
    """Memory of a tensor: numbers of any size, equal ones, zeros of both signs, infinities and NaN."""
    dtype, count = t.data_type.dtype, t.total // t.data_type.dtype.itemsize
    made = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    kind = rng.integers(5)
    if kind == 1:
        return np.where(rng.random(count) < 0.7, made[0], made)
    if dtype.kind != "f":
        return made if kind else (made % 3).astype(dtype)
    if kind == 2:
        return rng.standard_normal(count).astype(dtype)
    if kind == 3:
        return rng.choice(np.array([0.0, -0.0, 1, 2, 0.5, -1, 3], dtype), count)
    if kind == 4:
        return (rng.standard_normal(count) * 2.0 ** rng.integers(-14, 14, count)).astype(dtype)
    return made


def sizes_of(rng: Rng, most: int) -> tuple[int, ...]:
    """Sizes of two to five dimensions; one of them is long."""
    sizes = rng.integers(1, 5, int(rng.integers(2, 6)))
    sizes[rng.integers(len(sizes))] = rng.integers(1, most)
    return tuple(sizes.tolist())


def sorted_lines(rng: Rng) -> tuple[Desc, Inputs]:
    sizes = sizes_of(rng, 700)
    axis = int(rng.integers(len(sizes)))
    k = (1, sizes[axis], int(rng.integers(1, sizes[axis] + 1)))[rng.integers(3)]
    data_type = one_of(rng, [*FLOATS, *INTEGERS])
    t = laid_out(rng, data_type, sizes)
    made = tuple(k if d == axis else n for d, n in enumerate(sizes))
    desc = dml.TopK1(
        input_tensor=t,
        output_value_tensor=laid_out(rng, data_type, made),
        output_index_tensor=laid_out(rng, one_of(rng, [DataType.UINT32, DataType.UINT64]), made),
        axis=axis,
        k=k,
        axis_direction=DIRECTIONS[rng.integers(2)],
    )
    return desc, dict(input_tensor=elements(rng, t))


def nonzeros(rng: Rng) -> tuple[Desc, Inputs]:
    sizes = sizes_of(rng, 700)
    t = laid_out(rng, one_of(rng, [*FLOATS, DataType.INT32, DataType.UINT8]), sizes)
    desc = dml.NonzeroCoordinates(
        input_tensor=t,
        output_count_tensor=TensorDesc(DataType.UINT32, (1,) * len(sizes)),
        output_coordinates_tensor=TensorDesc(DataType.UINT32, (*(1,) * max(0, len(sizes) - 2), prod(sizes), len(sizes))),
    )
    x = elements(rng, t)
    return desc, dict(input_tensor=np.where(rng.random(x.shape) < rng.random(), x, np.zeros_like(x)))


def scattered(rng: Rng) -> tuple[Desc, Inputs]:
    sizes = sizes_of(rng, 300)
    axis = int(rng.integers(len(sizes)))
    data_type, index = one_of(rng, [*FLOATS, *INTEGERS]), one_of(rng, [DataType.INT32, DataType.UINT32, DataType.INT64])
    updates = tuple(int(rng.integers(1, 90)) if d == axis else n for d, n in enumerate(sizes))
    t, u, i = laid_out(rng, data_type, sizes), laid_out(rng, data_type, updates), TensorDesc(index, updates)
    desc = dml.ScatterElements(
        input_tensor=t, indices_tensor=i, updates_tensor=u, output_tensor=laid_out(rng, data_type, sizes), axis=axis
    )
    least = 0 if index == DataType.UINT32 else -sizes[axis]
    at = rng.integers(least, sizes[axis], updates).astype(index.dtype)
    return desc, dict(input_tensor=elements(rng, t), indices_tensor=at, updates_tensor=elements(rng, u))


def scattered_tuples(rng: Rng) -> tuple[Desc, Inputs]:
    sizes = tuple(rng.integers(1, 30, 3).tolist())
    data_type, count, named = one_of(rng, [*FLOATS, *INTEGERS]), int(rng.integers(1, 200)), int(rng.integers(1, 4))
    updates = (1,) * (named - 1) + (count, *sizes[named:])
    t, u = laid_out(rng, data_type, sizes), laid_out(rng, data_type, updates)
    desc = dml.ScatterNd(
        input_tensor=t,
        indices_tensor=TensorDesc(DataType.INT32, (1, count, named)),
        updates_tensor=u,
        output_tensor=laid_out(rng, data_type, sizes),
        input_dimension_count=3,
        indices_dimension_count=2,
    )
    at = np.stack([rng.integers(-n, n, (1, count)) for n in sizes[:named]], -1).astype(np.int32)
    return desc, dict(input_tensor=elements(rng, t), indices_tensor=at, updates_tensor=elements(rng, u))


def unpooled(rng: Rng) -> tuple[Desc, Inputs]:
    sizes, made = (tuple(rng.integers(1, most, 4).tolist()) for most in (9, 14))
    data_type, index = one_of(rng, [*FLOATS, *INTEGERS]), one_of(rng, [DataType.UINT32, DataType.UINT64])
    t = laid_out(rng, data_type, sizes)
    desc = dml.MaxUnpooling(
        input_tensor=t, indices_tensor=TensorDesc(index, sizes), output_tensor=laid_out(rng, data_type, made)
    )
    at = rng.integers(0, prod(made), sizes).astype(index.dtype)
    return desc, dict(input_tensor=elements(rng, t), indices_tensor=at)


def running(rng: Rng) -> tuple[Desc, Inputs]:
    sizes = sizes_of(rng, 500)
    product, exclusive = bool(rng.integers(2)), bool(rng.integers(2))
    data_type = one_of(rng, [*FLOATS, DataType.INT32, DataType.UINT64] if rng.integers(3) else FLOATS)
    t = laid_out(rng, data_type, sizes)
    given: dict[str, Any] = dict(input_tensor=t, output_tensor=laid_out(rng, data_type, sizes))
    given |= dict(axis=int(rng.integers(len(sizes))), axis_direction=DIRECTIONS[rng.integers(2)])
    if product:
        return dml.CumulativeProduct(**given, has_exclusive_product=exclusive), dict(input_tensor=elements(rng, t))
    return dml.CumulativeSummation(**given, has_exclusive_sum=exclusive), dict(input_tensor=elements(rng, t))


def random_words(rng: Rng) -> tuple[Desc, Inputs]:
    state = TensorDesc(DataType.UINT32, (1, 1, 1, 6))
    desc = dml.RandomGenerator(
        input_state_tensor=state,
        output_tensor=laid_out(rng, DataType.UINT32, sizes_of(rng, 900)),
        output_state_tensor=state if rng.integers(2) else None,
    )
    words = rng.choice([0, 1, 2**32 - 1, 2**32 - 2, 12345678], 6)
    return desc, dict(input_state_tensor=words.astype(np.uint32))


def dynamically_quantized(rng: Rng) -> tuple[Desc, Inputs]:
    sizes, made = sizes_of(rng, 900), one_of(rng, [DataType.INT8, DataType.UINT8])
    t, ones = laid_out(rng, one_of(rng, FLOATS), sizes), (1,) * len(sizes)
    desc = dml.DynamicQuantizeLinear(
        input_tensor=t,
        output_tensor=laid_out(rng, made, sizes),
        output_scale_tensor=TensorDesc(DataType.FLOAT32, ones),
        output_zero_point_tensor=TensorDesc(made, ones),
    )
    return desc, dict(input_tensor=elements(rng, t))


def four_bits(rng: Rng) -> tuple[Desc, Inputs]:
    sizes, four = sizes_of(rng, 500), one_of(rng, [DataType.INT4, DataType.UINT4])
    scale, x, narrow = (TensorDesc(t, sizes) for t in (DataType.FLOAT32, DataType.FLOAT32, four))
    by: dict[str, Any] = dict(quantization_type="SCALE_ZERO_POINT", quantization_tensors=(scale, narrow))
    bytes_ = [rng.integers(0, 256, narrow.total, np.uint8) for _ in range(2)]
    tensors = [elements(rng, scale), bytes_[0]]
    if rng.integers(2):
        desc = dml.Quantize(input_tensor=x, output_tensor=narrow, **by)
        return desc, dict(input_tensor=elements(rng, x), quantization_tensors=tensors)
    dequantize = dml.Dequantize(input_tensor=narrow, output_tensor=x, **by)
    return dequantize, dict(input_tensor=bytes_[1], quantization_tensors=tensors)


def quantized_pooling(rng: Rng) -> tuple[Desc, Inputs]:
    size = int(rng.integers(1, 4))
    sizes = (1, 2, *rng.integers(size, 12, 2).tolist())
    a, b = (one_of(rng, [DataType.INT8, DataType.UINT8]) for _ in range(2))
    given: dict[str, Any] = dict(window_size=(size, size), strides=(1, 1), dilations=(1, 1), start_padding=(0, 0))
    made = (1, 2, sizes[2] - size + 1, sizes[3] - size + 1)
    t, one = TensorDesc(a, sizes), TensorDesc(DataType.FLOAT32, (1,))
    desc = dml.QuantizedLinearAveragePooling(
        input_tensor=t,
        input_scale_tensor=one,
        input_zero_point_tensor=TensorDesc(a, (1,)),
        output_scale_tensor=one,
        output_zero_point_tensor=TensorDesc(b, (1,)),
        output_tensor=TensorDesc(b, made),
        end_padding=(0, 0),
        **given,
    )
    scales = [rng.choice(np.array([0.5, 0.25, 0.0123, 1], np.float32), 1) for _ in range(2)]
    zeros = [rng.integers(0, 100, 1).astype(x.dtype) for x in (a, b)]
    return desc, dict(
        input_tensor=elements(rng, t).reshape(-1)[: prod(sizes)].reshape(sizes),
        input_scale_tensor=scales[0],
        input_zero_point_tensor=zeros[0],
        output_scale_tensor=scales[1],
        output_zero_point_tensor=zeros[1],
    )


def long_windows(rng: Rng) -> tuple[Desc, Inputs]:
    """Sums of hundreds of terms, each divided among the work items of a group."""
    size, data_type = int(rng.integers(17, 40)), one_of(rng, FLOATS)
    sizes = (1, 3, *rng.integers(size, 45, 2).tolist())
    made = (1, 3, sizes[2] - size + 2, sizes[3] - size + 1)
    t = laid_out(rng, data_type, sizes)
    given: dict[str, Any] = dict(input_tensor=t, output_tensor=laid_out(rng, data_type, made), strides=(1, 1))
    given |= dict(window_size=(size, size), start_padding=(1, 0), end_padding=(0, 0))
    desc: Desc = dml.AveragePooling(**given, include_padding=False) if rng.integers(2) else dml.LpPooling(**given, p=1)
    return desc, dict(input_tensor=elements(rng, t))


DRAWN: dict[str, tuple[Callable[[Rng], tuple[Desc, Inputs]], str]] = {
    "sorted lines": (sorted_lines, "order"),
    "nonzero elements": (nonzeros, "order"),
    "scattered elements": (scattered, "irregular"),
    "scattered rows": (scattered_tuples, "irregular"),
    "unpooled": (unpooled, "irregular"),
    "running sums and products": (running, "scan"),
    "random words": (random_words, "random"),
    "quantized by their range": (dynamically_quantized, "staged"),
    "of four bits": (four_bits, "elementwise"),
    "quantized means": (quantized_pooling, "nests"),
    "long windows": (long_windows, "nests"),
}


# --- the tests ---


def computed(device: dml.Device, desc: Desc, inputs: Inputs, family: str = "") -> dict[str, Array]:
    """The memory of all outputs, gaps included, after two executions."""
    compiled = device.compile(desc)
    assert not family or compiled.kernel_name == f"{family}:opencl"
    outputs = {t.field.name: np.full(t.desc.total, 77, np.uint8) for t in desc.tensors() if t.field in desc.spec.outputs}
    bound = compiled.bind(**inputs, **outputs)
    for _ in range(2):
        bound.execute()
    return outputs


def compared(there: dml.Device, drawn: Callable[[Rng], tuple[Desc, Inputs]], family: str, cases: int) -> int:
    outputs, here = 0, dml.Device("cpu")
    for case in range(cases):
        desc, inputs = drawn(np.random.default_rng([39, case]))
        got, want = computed(there, desc, inputs, family), computed(here, desc, inputs)
        for name, x in want.items():
            np.testing.assert_array_equal(got[name], x, f"case {case}, {name} of {desc}")
        outputs += sum(prod(t.desc.sizes) for t in desc.tensors() if t.field in desc.spec.outputs)
    return outputs


@pytest.mark.parametrize("name", DRAWN)
def test_generated_calls_have_the_bytes_of_the_cpu(name: str, there: dml.Device, ran: Ran) -> None:
    drawn, family = DRAWN[name]
    few = 1 if family == "nests" else 2  # their kernels take a driver longest to compile
    ran(compared(there, drawn, family, few if SOAK == 1 else 100 * SOAK), 1)


def test_no_random_word_is_written_beside_the_tensor(there: dml.Device) -> None:
    """The seventh element of six would be in a gap."""
    state = TensorDesc(DataType.UINT32, (1, 1, 1, 6))
    output = TensorDesc(DataType.UINT32, (2, 1, 1, 3), strides=(1, 12, 12, 4))
    desc = dml.RandomGenerator(input_state_tensor=state, output_tensor=output)
    inputs = dict(input_state_tensor=np.arange(6, dtype=np.uint32).reshape(1, 1, 1, 6))
    got, want = computed(there, desc, inputs, "random"), computed(dml.Device("cpu"), desc, inputs)
    np.testing.assert_array_equal(got["output_tensor"], want["output_tensor"])


def test_long_lines_and_work_in_pieces(there: dml.Device, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Several levels of sums, several batches of lines, chunks of more elements, and launches of a few numbers."""
    monkeypatch.setattr(order, "BLOCK", 4)
    monkeypatch.setattr(order, "AT_ONCE", 1000)
    monkeypatch.setattr(order, "PIECES", 3)
    monkeypatch.setattr(order, "SHORT", 8)
    monkeypatch.setattr(scans, "LEAST", 3)
    monkeypatch.setattr(calls, "UNITS", 1 << 12)
    order.program.cache_clear()
    try:
        ran(sum(compared(there, *DRAWN[name], cases=2 * SOAK) for name in DRAWN if DRAWN[name][1] in ("order", "scan")), 1)
    finally:
        order.program.cache_clear()


@pytest.mark.parametrize("room", [3, 1 << 17])
def test_products_can_be_left_to_the_last_decision(room: int, there: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, too, and where the list is too short for all of them."""
    monkeypatch.setattr(calls, "ROOM", room)
    exact = dml.Device("opencl", stage="exact")
    x = np.random.default_rng(3).standard_normal((1, 1, 7, 60)).astype(np.float32)
    t = TensorDesc.of(x)
    desc = dml.CumulativeProduct(
        input_tensor=t, output_tensor=t, axis=3, axis_direction=AxisDirection.DECREASING, has_exclusive_product=False
    )
    (want,) = computed(dml.Device("cpu"), desc, dict(input_tensor=x)).values()
    memory = exact.buffer(x)
    compiled = exact.compile(desc)
    compiled.bind(input_tensor=memory, output_tensor=memory).execute()
    np.testing.assert_array_equal(memory.numpy().reshape(-1).view(np.uint8), want)
    assert compiled.counters().undecided == x.size
