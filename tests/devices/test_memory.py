"""Memory: compiling has a bound, and memory is compared with the machine's before it is allocated.

With zero strides, tensors of any size need only a few bytes, and every desc here is legal.
"""

from __future__ import annotations

import io
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices import choice as choice_module
from anydml.devices import compiled as compiled_module
from anydml.devices import graph as graph_module
from anydml.devices import judging
from anydml.devices.compiled import CompiledOperator
from anydml.functional import run
from anydml.kernels.call.steps import Step
from anydml.kernels.code import llvm
from anydml.kernels.contract import tuning
from anydml.kernels.contract.epilogue import plan as matmul_records_plan
from anydml.kernels.contract.panels import source as matmul_source
from anydml.kernels.contract.panels import work as matmul_work
from anydml.program import check as checking
from anydml.program import load
from anydml.schema.operator import Desc, example_desc
from every_kernel import SOAK

MOST = 50 << 20  # the most bytes that a compilation may use
STEPS = 4000  # the most steps of a plan, for four threads
SPAN = 2**32 - 1  # the most elements of a tensor
SEEDS = 48 * SOAK  # the number of random descs

needs_code = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))


# --- compilation ---


def zeros(data_type: str, sizes: tuple[int, ...], **others: Any) -> TensorDesc:
    return TensorDesc(data_type, sizes, strides=(0,) * len(sizes), **others)


def integer(a: TensorDesc, b: TensorDesc, **others: TensorDesc) -> dml.MatrixMultiplyInteger:
    output = TensorDesc("INT32", (*a.sizes[:-1], b.sizes[-1]))
    return dml.MatrixMultiplyInteger(a_tensor=a, b_tensor=b, output_tensor=output, **others)


def quantized(a: TensorDesc, b: TensorDesc, scale: TensorDesc | None = None) -> dml.QuantizedLinearMatrixMultiply:
    one = TensorDesc("FLOAT32", (1,) * a.dimension_count)
    output = TensorDesc("UINT8", (*a.sizes[:-1], b.sizes[-1]))
    return dml.QuantizedLinearMatrixMultiply(
        a_tensor=a, b_tensor=b, a_scale_tensor=scale or one, b_scale_tensor=one, output_scale_tensor=one, output_tensor=output
    )


def uneven(n: int) -> dml.MatrixMultiplyInteger:
    return integer(TensorDesc("UINT8", (n, 2, 1, 1), strides=(3, 1, 1, 1)), TensorDesc("UINT8", (n, 2, 1, 1)))


KNOWN: dict[str, Desc] = {
    "batches at an uneven pace": uneven(131_072),
    "very many of them": uneven(2**29),
    "rows": integer(zeros("UINT8", (2**31, 3)), TensorDesc("UINT8", (3, 1))),
    "columns": integer(zeros("INT8", (1, 3)), zeros("INT8", (3, SPAN))),
    "K": integer(zeros("INT8", (1, SPAN)), zeros("INT8", (SPAN, 1))),
    "K of many blocks": quantized(zeros("INT8", (1, 2**24)), zeros("INT8", (2**24, 2**20))),
    "products": quantized(zeros("UINT8", (65_535, 2**24)), zeros("UINT8", (2**24, 65_535))),
    "owned": integer(zeros("UINT8", (2**15, 2, 3, 2**16)), zeros("UINT8", (2**15, 2, 2**16, 5), flags="OWNED_BY_DML")),
    "batches": quantized(zeros("UINT8", (SPAN, 1, 1)), zeros("UINT8", (SPAN, 1, 1))),
    "a scale for each batch": quantized(
        zeros("UINT8", (2**20, 3, 1, 9)), zeros("UINT8", (2**20, 3, 9, 1)), zeros("FLOAT32", (2**20, 3, 1, 1))
    ),
}  # fmt: skip


def sizes_within(rng: Random, product: int, count: int) -> list[int]:
    """Sizes whose product is at most `product`; most are small or very large."""
    found = []
    for _ in range(count):
        longest = max(1, min(product, 2 ** rng.choice((0, 1, 2, 3, 8, 17, 31, 32)) - 1))
        found.append(rng.choice((1, longest, rng.randint(1, longest), min(2, longest))))
        product //= found[-1]
    rng.shuffle(found)
    return found


def strides_within(rng: Random, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an input: packed, random, or 0 in some or all dimensions; the span stays legal."""
    packed = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    strides = [rng.choice((0, 0, 1, 2, 3, packed[i], packed[i] + 1, rng.randint(0, 2**32 - 1))) for i in range(len(sizes))]
    room = SPAN - 1
    for i, n in enumerate(sizes):
        strides[i] = min(strides[i], room // (n - 1)) if n > 1 else min(strides[i], SPAN)
        room -= (n - 1) * strides[i]
    return tuple(strides)


def matmul(rng: Random) -> Desc:
    is_quantized, rank = rng.random() < 0.5, rng.randint(2, 4)
    *lead, m, n = sizes_within(rng, SPAN, rank)
    k = rng.choice((1, 3, 8, 40_000, 2**20, 2**24, 2**24 + 1, SPAN, rng.randint(1, 2**20)))

    def put(data_type: str, *sizes: int, owned: bool = True) -> TensorDesc:
        flags = "OWNED_BY_DML" if owned and rng.random() < 0.2 else "NONE"
        return TensorDesc(data_type, sizes, strides=strides_within(rng, sizes), flags=flags)

    def parameter(data_type: str, *finer: int) -> TensorDesc:
        batch = lead if rng.random() < 0.4 else [1] * len(lead)
        return put(data_type, *batch, *(finer if rng.random() < 0.5 else (1, 1)))

    a, b = (rng.choice(("INT8", "UINT8")) for _ in range(2))
    tensors = {
        "a_tensor": put(a, *lead, m, k),
        "b_tensor": put(b, *lead, k, n),
        "a_zero_point_tensor": rng.choice((None, parameter(a, m, 1))),
        "b_zero_point_tensor": rng.choice((None, parameter(b, 1, n))),
    }
    if not is_quantized:
        return dml.MatrixMultiplyInteger(**tensors, output_tensor=TensorDesc("INT32", (*lead, m, n)))  # type: ignore[arg-type]
    tensors |= {
        "a_scale_tensor": parameter("FLOAT32", m, 1),
        "b_scale_tensor": parameter("FLOAT32", 1, n),
        "output_scale_tensor": parameter("FLOAT32", m, 1),
        "output_zero_point_tensor": rng.choice((None, parameter("UINT8", m, 1))),
    }
    return dml.QuantizedLinearMatrixMultiply(**tensors, output_tensor=TensorDesc("UINT8", (*lead, m, n)))  # type: ignore[arg-type]


def copy(rng: Random) -> Desc:
    rank = rng.randint(1, 8)
    sizes = tuple(sizes_within(rng, SPAN, rank))  # the output's sizes
    data_type = rng.choice(("UINT8", "INT16", "FLOAT32", "FLOAT64"))
    offsets, windows, window_strides, lengths = (list[int]() for _ in range(4))
    for n in sizes:
        stride = rng.choice((1, 1, 2, 3, 2**31 - 1)) * rng.choice((1, -1))
        if (n - 1) * abs(stride) >= 2**32 - 1:
            stride = rng.choice((1, -1))
        window = min(1 + (n - 1) * abs(stride) + rng.choice((0, 0, 1, 5)), 2**32 - 1)
        offset = rng.choice((0, 1, 2**32 - 1 - window))
        offset = min(offset, 2**32 - 1 - window)
        offsets.append(offset)
        windows.append(window)
        window_strides.append(stride)
        lengths.append(offset + window)
    order = list(range(rank))
    rng.shuffle(order)
    strides, step = [0] * rank, 1
    for i in order:
        strides[i] = step
        step *= sizes[i]
    output = TensorDesc(data_type, sizes, strides=rng.choice((None, strides)))
    input = TensorDesc(data_type, lengths, strides=strides_within(rng, tuple(lengths)))
    return dml.Slice1(
        input_tensor=input,
        output_tensor=output,
        input_window_offsets=tuple(offsets),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(window_strides),
    )


def measured(device: dml.Device, desc: Desc, planned: list[Step]) -> tuple[int, CompiledOperator | None]:
    """The bytes used to check and compile a desc, and the operator if the machine has memory for it."""
    planned.clear()
    tracemalloc.start()
    try:
        made = device.compile(desc)
    except MemoryError:
        made = None
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak, made


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The list of all steps that plans of matmuls make."""
    made: list[Step] = []

    def step(*members: Any) -> Step:
        made.append(Step(*members))
        return made[-1]

    for module in (matmul_records_plan, matmul_source, matmul_work):
        monkeypatch.setattr(module, "Step", step)
    return made


@pytest.mark.parametrize("name", KNOWN)
def test_descs_that_took_minutes_or_gigabytes_to_compile(name: str, planned: list[Step]) -> None:
    peak, _ = measured(dml.Device(threads=4), KNOWN[name], planned)
    assert peak < MOST
    assert len(planned) < STEPS


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("draw", [matmul, copy])
def test_whatever_sizes_and_strides_a_desc_has(draw: Callable[[Random], Desc], threads: int, planned: list[Step]) -> None:
    names: dict[str, int] = {}
    for seed in range(SEEDS):
        desc = draw(Random(seed))
        peak, made = measured(dml.Device(threads=threads), desc, planned)
        assert peak < MOST, desc
        assert len(planned) < STEPS, desc
        name = made.kernel_name.split(":")[1] if made else "none"
        names[name] = names.get(name, 0) + 1
    print(names)
    if llvm.unavailable() is None:
        assert names["compiled"] > SEEDS * 3 // 8
    assert names["numpy"] > SEEDS // 40


@needs_code
def test_many_batches_at_an_uneven_pace_are_computed_by_code() -> None:
    n = 131_072
    memory = np.arange(3 * n, dtype=np.uint32).astype(np.uint8)
    a = np.lib.stride_tricks.as_strided(memory, (n, 2, 1, 1), (3, 1, 1, 1))
    b = np.arange(2 * n, dtype=np.uint32).astype(np.uint8).reshape(n, 2, 1, 1)
    output = np.empty((n, 2, 1, 1), np.int32)
    operator = dml.Device().compile(uneven(n))
    assert operator.kernel_name == "contract:compiled"
    operator.bind(a_tensor=a, b_tensor=b, output_tensor=output).execute()
    np.testing.assert_array_equal(output, a.astype(np.int32) * b)


@needs_code
@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_are_computed_by_code_a_part_at_a_time(threads: int) -> None:
    m = 20 * tuning.TUNING.most_rows + 5
    a = (np.arange(3 * m) % 251).astype(np.uint8).reshape(m, 3)
    b = np.array([[1], [2], [3]], np.uint8)
    output = np.empty((m, 1), np.int32)
    operator = dml.Device(threads=threads).compile(integer(TensorDesc.of(a), TensorDesc.of(b)))
    assert operator.kernel_name == "contract:compiled"
    operator.bind(a_tensor=a, b_tensor=b, output_tensor=output).execute()
    np.testing.assert_array_equal(output, a.astype(np.int32) @ b.astype(np.int32))


# --- the machine's memory ---


def test_all_of_the_machines_memory_may_be_taken_and_no_byte_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an output, by a kernel, by a graph, and by a program's resources."""
    t = TensorDesc("FLOAT32", (8, 8))
    desc = dml.ActivationSoftmax1(input_tensor=t, output_tensor=t, axes=(1,))
    graph = dml.graph(lambda x: dml.activation_softmax1(dml.element_wise_add(x, x), axes=(0,)), x=t)
    resource = {"initialValuesDataType": "UINT8", "initialValues": [1] * 100}
    program = load(io.StringIO(json.dumps({"resources": {"x": resource}, "dispatchables": {}, "commands": []})))
    device, reference = dml.Device(threads=1), dml.Device("reference")
    calls: tuple[tuple[Any, int, Callable[[], Any], type[Exception]], ...] = (
        (run, 64, lambda: run.allocate((4, 4), np.dtype(np.float32), 0), MemoryError),
        (run, 80, lambda: run.allocate((4, 4), np.dtype(np.float32), 16), MemoryError),
        (choice_module, reference.compile(desc).most_bytes, lambda: dml.Device("reference").compile(desc), MemoryError),
        (graph_module, graph.compile(device).most_bytes, lambda: graph.compile(dml.Device(threads=1)), MemoryError),
        (checking, 100, program.check, dml.ProgramError),
    )
    for module, size, call, error in calls:
        assert size
        with monkeypatch.context() as patch:
            patch.setattr(module, "memory_bytes", lambda size=size: size)
            call()
            patch.setattr(module, "memory_bytes", lambda size=size: size - 1)
            with pytest.raises(error):
                call()


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A machine of 16 MB, of which no test uses more than half."""
    size = 16 << 20
    for module in (choice_module, run):
        monkeypatch.setattr(module, "memory_bytes", lambda: size)
    tracemalloc.start()
    try:
        yield size
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_what_is_owned_counts(name: str, small_machine: int) -> None:
    owned = TensorDesc("FLOAT64", (small_machine // 8 + 1,), flags="OWNED_BY_DML")
    desc = dml.Slice1(
        input_tensor=owned,
        output_tensor=TensorDesc("FLOAT64", (1,)),
        input_window_offsets=(0,),
        input_window_sizes=(1,),
        input_window_strides=(1,),
    )
    with pytest.raises(MemoryError, match=r"SLICE1 takes at least 167772\d\d bytes of scratch and persistent memory"):
        dml.Device(name).compile(desc)


@needs_code
def test_what_is_packed_and_scratch_count(small_machine: int) -> None:
    """A kernel that needs more memory than the machine has leaves the desc to the next kernel."""
    columns = small_machine // 100
    for flags in ("NONE", "OWNED_BY_DML"):
        # one B for two batches: K rows of N columns are packed, although B is one byte
        desc = integer(zeros("UINT8", (2, 1, 128)), zeros("UINT8", (2, 128, columns), flags=flags))
        made = dml.Device().compile(desc)
        assert made.kernel_name == "contract:numpy"
        assert sum(made.binding_properties) <= small_machine
    made = dml.Device().compile(integer(zeros("UINT8", (2, 1, 128)), zeros("UINT8", (2, 128, columns // 10))))
    assert made.kernel_name == "contract:compiled"


def test_the_reference_counts_what_it_computes_with(small_machine: int) -> None:
    with pytest.raises(MemoryError, match="MATRIX_MULTIPLY_INTEGER takes at least"):
        dml.Device("reference").compile(integer(zeros("UINT8", (2**11, 1)), zeros("UINT8", (1, 2**12))))
    small = dml.Device("reference").compile(integer(zeros("UINT8", (16, 8)), zeros("UINT8", (8, 4))))
    assert small.binding_properties == (4 * 16 * 4, 0)  # the output, which is written last


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_an_eager_call_counts_output_and_scratch_together(name: str, small_machine: int) -> None:
    a, b = np.broadcast_to(np.uint8(1), (2000, 200)), np.broadcast_to(np.uint8(1), (200, 2000))
    with pytest.raises(MemoryError, match=str(small_machine)):  # 16,000,000 bytes of output, and the kernel's scratch
        dml.matrix_multiply_integer(a, b, device=name)


def test_a_copy_of_what_no_desc_can_spell_counts(small_machine: int) -> None:
    backwards = np.broadcast_to(np.arange(2, dtype=np.uint8)[:, None], (2, small_machine))[::-1]
    odd = np.lib.stride_tricks.as_strided(np.zeros(4, np.uint16), (2, small_machine), (3, 0))
    scale = np.broadcast_to(np.array([1, 2], np.float32)[:, None, None], (2, small_machine, 1))[::-1]
    one = np.ones((1, 1, 1), np.uint8)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: dml.slice1(odd, (0, 0), (1, 1)),
        lambda: dml.slice(odd, (0, 0), (1, 1)),
        lambda: dml.matrix_multiply_integer(backwards, backwards.T),
        lambda: dml.quantized_linear_matrix_multiply(one, scale, None, one, 1.0, None, 1.0, None, output_data_type="UINT8"),
    )
    for call in calls:
        with pytest.raises(MemoryError, match="this machine has"):
            call()


def test_data_rules_are_judged_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the first element that breaks the rule."""
    scale = np.ones((3, 5, 7, 1), np.float32)
    rule, desc = dml.QuantizedLinearMatrixMultiply.spec.data_rules[0], example_desc(dml.QuantizedLinearMatrixMultiply)
    for at in ((0, 0, 0, 0), (0, 4, 6, 0), (1, 0, 0, 0), (2, 3, 4, 0), (2, 4, 6, 0)):
        spoilt = scale.copy()
        spoilt[at] = spoilt[2, 4, 6, 0] = 0
        for judged in (1, 2, 6, 7, 8, 34, 35, 36, 70, 104, 105, 106):
            monkeypatch.setattr(judging, "JUDGED", judged)
            judging.data_check(desc, "a_scale_tensor", rule, scale, desc.a_scale_tensor.data_type)()
            with pytest.raises(dml.DataError) as caught:
                judging.data_check(desc, "a_scale_tensor", rule, spoilt, desc.a_scale_tensor.data_type)()
            assert (caught.value.index, caught.value.value) == (at, 0)
    monkeypatch.undo()
    large = np.ones(1 << 22, np.float32)
    tracemalloc.start()
    try:
        judging.data_check(desc, "a_scale_tensor", rule, large, desc.a_scale_tensor.data_type)()
        assert tracemalloc.get_traced_memory()[1] < large.nbytes // 4
    finally:
        tracemalloc.stop()


def test_what_a_bound_operator_takes_is_what_it_says() -> None:
    """Scratch and packed memory, as allocated: at most a page more."""
    taken: list[int] = []
    for desc in (
        integer(zeros("UINT8", (3, 700, 129)), zeros("UINT8", (3, 129, 500))),
        integer(zeros("UINT8", (3, 70, 129)), zeros("UINT8", (3, 129, 500), flags="OWNED_BY_DML")),
        quantized(zeros("UINT8", (40, 70_000)), zeros("UINT8", (70_000, 90))),
    ):
        made = dml.Device(threads=1).compile(desc)
        arrays = {
            name: np.broadcast_to(np.ones((), t.data_type.dtype), t.sizes)
            for name, t in dml.check(desc).tensors.items()
            if name != "output_tensor"
        }
        owned = {name: arrays.pop(name) for name in list(arrays) if getattr(desc, name).flags}
        output = np.empty(desc.output_tensor.sizes, desc.output_tensor.data_type.dtype)
        tracemalloc.start()
        try:
            if owned:
                made.initialize(**owned)
            before = tracemalloc.get_traced_memory()[0]
            bound = compiled_module.CompiledOperator.bind(made, **arrays, output_tensor=output)
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        temporary, persistent = made.binding_properties
        assert abs(after - before - temporary) < 1 << 16
        assert abs(before - persistent) < 1 << 16
        taken.append(temporary + persistent)
        del bound
    assert max(taken) > 1 << 20
