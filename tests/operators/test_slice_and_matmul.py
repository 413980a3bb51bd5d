"""SLICE1 exhaustively for small sizes, SLICE compared with SLICE1, and integer products that other implementations get
wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hard_cases
import oracle
from agreement import bits_of, expected
from anydml import (
    DataType,
    DescError,
    Device,
    FeatureLevel,
    MatrixMultiplyInteger,
    QuantizedLinearMatrixMultiply,
    Slice,
    Slice1,
    TensorDesc,
    TensorFlags,
    check,
)
from anydml.devices.device import NAMES as DEVICES
from anydml.kernels.reference import evaluated
from every_kernel import SOAK, Ran, run
from hard_cases import QuantizedCase
from strategies import arrays_for, descs
from tensors import SETTINGS

# Hypothesis shows a failing desc together with its operator's whole specification, and then warns that this is long.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
by_device = pytest.mark.parametrize("device", DEVICES)


# --- SLICE compared with SLICE1 ---


@by_device
def test_slice_is_slice1_in_other_words(device: str, ran: Ran) -> None:
    cases = 0

    @settings(SETTINGS, max_examples=100 * SOAK)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal cases
        drawn, level = data.draw(descs(Slice))
        assert isinstance(drawn, Slice)
        x = data.draw(arrays_for(drawn))["input_tensor"].tensor
        # only the reference supports UINT strides of SLICE that exceed SLICE1's INT ones
        newest = drawn.as_newest()
        assert type(newest) is Slice1
        wanted = bits_of(expected(drawn, {"input_tensor": x})["output_tensor"])
        for desc in (drawn, newest):
            np.testing.assert_array_equal(bits_of(evaluated(desc.as_newest(), {"input_tensor": x})["output_tensor"]), wanted)
        within = replace(drawn, strides=tuple(min(stride, 2**31 - 1) for stride in drawn.strides))
        plain: dict[str, Any] = {
            "input_tensor": replace(drawn.input_tensor, flags=TensorFlags.NONE, guaranteed_base_offset_alignment=0),
            "output_tensor": TensorDesc(drawn.input_tensor.data_type, drawn.sizes),
        }
        on = Device(device, feature_level=max(level, FeatureLevel.FL_2_1))
        for desc in (within, within.as_newest()):
            output = np.zeros(drawn.sizes, x.dtype)
            run(on.compile(replace(desc, **plain)), {"input_tensor": x}, output)
            np.testing.assert_array_equal(bits_of(output), wanted)
        cases += 1

    agree()
    ran(cases, 100)


# --- SLICE1, exhaustively for small sizes ---


def is_legal(n: int, offset: int, size: int, stride: int, output: int) -> bool:
    """The page's rules for one dimension."""
    if offset < 0 or size < 0:  # UINT
        return False
    if not (size >= 1 and offset + size <= n and stride != 0):
        return False
    return 1 <= output <= 1 + (size - 1) // abs(stride)


Window = tuple[int, int, int, int, int]  # input size, offset, window size, stride, output size


def slice1_of(windows: tuple[Window, ...]) -> Slice1:
    sizes, offsets, window_sizes, strides, outputs = zip(*windows, strict=True)
    return Slice1(
        input_tensor=TensorDesc(DataType.UINT8, sizes),
        output_tensor=TensorDesc(DataType.UINT8, outputs),
        input_window_offsets=offsets,
        input_window_sizes=window_sizes,
        input_window_strides=strides,
    )


def assert_slice1_agrees(windows: tuple[Window, ...]) -> bool:
    """Whether `check` accepts the windows, after a check that the page agrees, and that both devices copy what the page
    says."""
    desc = slice1_of(windows)
    legal = all(itertools.starmap(is_legal, windows))
    try:
        checked = check(desc)
    except DescError:
        assert not legal, windows
        return False
    assert legal, windows
    x = np.arange(1, 1 + math.prod(desc.input_tensor.sizes), dtype=np.uint8).reshape(desc.input_tensor.sizes)
    wanted = expected(desc, {"input_tensor": x})["output_tensor"]
    for device in DEVICES:
        output = np.zeros(desc.output_tensor.sizes, np.uint8)
        Device(device).compile(checked).bind(input_tensor=x, output_tensor=output).execute()
        assert output.tolist() == wanted.tolist(), windows
    return True


def test_slice1_in_one_dimension_exhaustively(ran: Ran) -> None:
    judged = accepted = 0
    most = 5 if SOAK == 1 else 6
    for n in range(1, most + 1):
        around = range(-n - 1, n + 2)
        for window in itertools.product([n], around, around, around, range(1, n + 2)):
            accepted += assert_slice1_agrees((window,))
            judged += 1
    print(f"{accepted} accepted")
    assert accepted == sum(
        min(w - 1, n - 1) // s + 1  # for either sign of each stride, there are as many outputs as the window has elements
        for n in range(1, most + 1)
        for offset in range(n)
        for w in range(1, n - offset + 1)
        for s in range(1, n + 2)
        for _ in range(2)
    )
    ran(judged, 23_000)


def test_slice1_in_two_dimensions_exhaustively(ran: Ran) -> None:
    judged = accepted = 0
    for sizes in ((1, 1), (3, 1), (1, 2), (3, 2)):
        boxes = [list(itertools.product([n], range(n + 1), range(n + 1), range(-n, n + 1), range(1, n + 1))) for n in sizes]
        for windows in itertools.product(*boxes):
            accepted += assert_slice1_agrees(windows)
            judged += 1
    print(f"{accepted} accepted")
    assert accepted > 700
    ran(judged, 30_000)


@st.composite
def any_windows(draw: st.DrawFn) -> tuple[Window, ...]:
    """Windows close to the limits of the rules, in any number of dimensions."""
    windows = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 5))
        near = st.integers(-n - 1, n + 1)
        windows.append((n, draw(near), draw(near), draw(near), draw(st.integers(1, n + 1))))
    return tuple(windows)


@st.composite
def legal_windows(draw: st.DrawFn) -> tuple[Window, ...]:
    windows = []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(1, 5))
        offset = draw(st.integers(0, n - 1))
        size = draw(st.integers(1, n - offset))
        stride = draw(st.integers(1, n)) * draw(st.sampled_from((1, -1)))
        windows.append((n, offset, size, stride, draw(st.integers(1, 1 + (size - 1) // abs(stride)))))
    return tuple(windows)


@settings(SETTINGS, max_examples=400 * SOAK)
@given(st.one_of(any_windows(), legal_windows()))
def test_slice1_as_the_page_says_it(windows: tuple[Window, ...]) -> None:
    """Like the exhaustive test, but with larger sizes, and examples shrink."""
    assert_slice1_agrees(windows)


# --- quantised products that other implementations get wrong ---


def quantized_desc(case: QuantizedCase) -> QuantizedLinearMatrixMultiply:
    named = zip(QuantizedLinearMatrixMultiply.spec.inputs, case.operands, strict=True)
    sizes = (*np.broadcast_shapes(case.a.shape[:-2], case.b.shape[:-2]), case.a.shape[-2], case.b.shape[-1])
    return QuantizedLinearMatrixMultiply(
        **{field.name: TensorDesc(DataType.of(x.dtype), x.shape) for field, x in named if x is not None},
        output_tensor=TensorDesc(DataType.of(case.output_type), sizes),
    )


def compare_quantized(case: QuantizedCase, device: Device, wanted: NDArray[Any] | None = None) -> int:
    """Compare outputs with the oracle's, or with given ones; return their number."""
    desc = quantized_desc(case)
    compiled = device.compile(desc)
    assert (compiled.kernel_name == "reference") == (device.name == "reference")
    named = zip(desc.spec.inputs, case.operands, strict=True)
    output = np.zeros(desc.output_tensor.sizes, case.output_type)
    run(compiled, {field.name: x for field, x in named if x is not None}, output)
    np.testing.assert_array_equal(output, hard_cases.expected(case) if wanted is None else wanted, err_msg=case.name)
    return output.size


@by_device
@pytest.mark.parametrize("generate", hard_cases.GENERATORS, ids=lambda generate: generate.__name__)
def test_hard_cases(generate: Callable[[], Iterator[QuantizedCase]], device: str, ran: Ran) -> None:
    on = Device(device)
    counts = [compare_quantized(case, on, wanted) for case, wanted in hard_cases.with_expected(generate)]
    print(f"{sum(counts)} outputs")
    ran(len(counts), 48)


@settings(SETTINGS, max_examples=200 * SOAK)
@given(hard_cases.quantized_cases())
def test_quantized_products_of_any_kind(case: QuantizedCase) -> None:
    for device in DEVICES:
        compare_quantized(case, Device(device))


@pytest.mark.parametrize(
    ("device", "step", "at_least"),
    [("cpu", 1, 84_934_656) if SOAK > 1 else ("cpu", 5, 16_900_000), ("reference", 400, 200_000)],
)
def test_every_number_by_every_number(device: str, step: int, at_least: int, ran: Ran) -> None:
    """All 65,536 products of two numbers at once, for types, scales and zero points: one in five of these in `make test`, and
    few by the reference."""
    on = Device(device)
    cases = itertools.islice(hard_cases.exhaustive_one_element(), 0, None, step)
    ran(sum(compare_quantized(case, on) for case in cases), at_least)


@by_device
def test_sums_of_large_odd_products_are_exact(device: str, ran: Ran) -> None:
    """From K = 259 on, such sums may need more than the 24 bits of a float32; all of their bits must be exact."""
    random = np.random.default_rng(0)
    cases = 0
    for k, (a_low, b_low) in itertools.product(
        (258, 259, 300, 511, 512, 513, 1024, 5000), itertools.product((0, 240), repeat=2)
    ):
        # the largest UINT8, or the smallest with the largest as zero point
        left, right = random.integers(a_low, a_low + 16, (5, k), np.uint8), random.integers(b_low, b_low + 16, (k, 9), np.uint8)
        zero_points = 255 * (a_low == 0), 255 * (b_low == 0)
        tensors = {"a_tensor": left, "b_tensor": right}
        tensors |= {f"{n}_zero_point_tensor": np.array([z], np.uint8) for n, z in zip("ab", zero_points, strict=True)}
        desc = MatrixMultiplyInteger(
            **{name: TensorDesc(DataType.of(x.dtype), x.shape) for name, x in tensors.items()},
            output_tensor=TensorDesc(DataType.INT32, (5, 9)),
        )
        output = np.zeros((5, 9), np.int32)
        run(Device(device).compile(desc), tensors, output)
        wanted = (left.astype(np.int64) - zero_points[0]) @ (right.astype(np.int64) - zero_points[1])
        assert output.tolist() == wanted.tolist(), k
        cases += output.size
    ran(cases, 8 * 4 * 45)


@by_device
@pytest.mark.parametrize("k", [33_025, 33_026, 140_000])
def test_long_integer_sums_wrap(k: int, device: str, ran: Ran) -> None:
    cases = 0
    for (a_type, a), (b_type, b) in itertools.product([(np.uint8, 255), (np.int8, -128)], repeat=2):
        left, right = np.full((2, k), a, a_type), np.full((k, 3), b, b_type)
        left[1], right[:, 2] = np.arange(k) % 101, np.arange(k) % 97
        inputs = {"a_tensor": left, "b_tensor": right}
        desc = MatrixMultiplyInteger(
            **{name: TensorDesc(DataType.of(x.dtype), x.shape) for name, x in inputs.items()},
            output_tensor=TensorDesc(DataType.INT32, (2, 3)),
        )
        output = np.zeros((2, 3), np.int32)
        run(Device(device).compile(desc), inputs, output)
        sums = oracle.accumulate_bulk(left, None, right, None)
        assert output.tolist() == ((sums + 2**31) % 2**32 - 2**31).tolist()
        cases += output.size
    ran(cases, 24)
