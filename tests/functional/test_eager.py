"""The eager functions: arrays in, arrays out, with inferred sizes; and the errors that name the arguments."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anydml as dml
import hard_cases
import oracle
from anydml.devices.device import NAMES as DEVICES
from anydml.exact.float32 import round_to_float32
from anydml.functional import parameters, run
from hard_cases import QuantizedCase, quantized_cases
from tensors import SETTINGS, strided_arrays

Array = NDArray[Any]

by_device = pytest.mark.parametrize("device", DEVICES)

FOREIGN = ">" if sys.byteorder == "little" else "<"
X: Array = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
A: Array = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
B: Array = np.array([[1, 0], [0, 1], [1, 1]], np.uint8)
PRODUCT = [[4, 5], [10, 11]]


def quantized(a: Any = A, b: Any = B, /, **changes: Any) -> Array:
    """A @ B with scales of 1 and no zero points, with some arguments changed."""
    scales = dict.fromkeys(("a_scale", "b_scale", "output_scale"), 1.0)
    zero_points = dict.fromkeys(("a_zero_point", "b_zero_point", "output_zero_point"))
    operands: dict[str, Any] = {"a": a, "b": b, **scales, **zero_points, **changes}
    return dml.quantized_linear_matrix_multiply(**operands)


# --- slices ---


@by_device
def test_slice1(device: str) -> None:
    x = X.reshape(1, 1, 4, 4)
    window = ((0, 0, 0, 1), (1, 1, 4, 3))
    assert dml.slice1(x, *window, (1, 1, 2, 2), device=device).tolist() == [[[[2, 4], [10, 12]]]]
    assert dml.slice1(x, *window, (1, 1, -2, 2), device=device).tolist() == [[[[14, 16], [6, 8]]]]
    assert dml.slice1(x, *window, (1, 1, -2, 2), output_sizes=(1, 1, 1, 1), device=device).tolist() == [[[[14]]]]
    assert dml.slice1(x, *window, device=device).tolist() == x[:, :, :, 1:].tolist()
    assert dml.slice1(X[0], [1], (np.int64(3),), [np.int8(-1)], device=device).tolist() == [4, 3, 2]


@by_device
def test_slice(device: str) -> None:
    x = X.reshape(1, 1, 4, 4)
    assert dml.slice(x, (0, 0, 1, 2), (1, 1, 3, 2), device=device).tolist() == [[[[7, 8], [11, 12], [15, 16]]]]
    assert dml.slice(x, (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), device=device).tolist() == [[[[5, 8], [13, 16]]]]


SLICED_TYPES = ["float32", "float16", "int32", "int16", "uint32", "uint16", "int8", "uint8", "float64", "int64", "uint64"]


@by_device
@pytest.mark.parametrize("dtype", SLICED_TYPES)
def test_slices_of_every_type_move_bits(dtype: str, device: str) -> None:
    itemsize = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * itemsize), 64, f"u{itemsize}", endpoint=False)
    if dtype.startswith("float"):  # with signalling NaNs and -0.0
        signalling = {2: 0x7C01, 4: 0x7F800001, 8: 0x7FF0000000000001}[itemsize]
        bits[:3] = (signalling, signalling | 1 << 8 * itemsize - 1, 1 << 8 * itemsize - 1)
    x = bits.view(dtype)
    backwards = dml.slice1(x, (0,), (64,), (-3,), device=device)
    forwards = dml.slice(x, (0,), (22,), (3,), device=device)
    assert backwards.dtype == forwards.dtype == dtype
    assert backwards.view(bits.dtype).tolist() == bits[::-3].tolist()
    assert forwards.view(bits.dtype).tolist() == bits[::3].tolist()


@st.composite
def strided_windows(draw: st.DrawFn) -> tuple[Array, list[slice], list[int], list[int], list[int]]:
    """An array of any layout, also with negative strides, and a window of it."""
    x = draw(strided_arrays())
    offsets, sizes, strides = [], [], []
    for n in x.shape:
        offsets.append(draw(st.integers(0, n - 1)))
        sizes.append(draw(st.integers(1, n - offsets[-1])))
        strides.append(draw(st.integers(1, n)) * draw(st.sampled_from((1, -1))))
    window = []
    for offset, size, stride in zip(offsets, sizes, strides, strict=True):
        start = offset if stride > 0 else offset + size - 1
        stop = offset + size if stride > 0 else offset - 1
        window.append(slice(start, None if stop < 0 else stop, stride))
    return x, window, offsets, sizes, strides


@settings(SETTINGS, max_examples=150)
@given(strided_windows(), st.sampled_from(DEVICES))
def test_slice1_is_numpy_s_slicing_of_any_array(
    drawn: tuple[Array, list[slice], list[int], list[int], list[int]], device: str
) -> None:
    x, window, offsets, sizes, strides = drawn
    result = dml.slice1(x, offsets, sizes, strides, device=device)
    np.testing.assert_array_equal(result, x[tuple(window)])
    assert result.dtype == x.dtype
    assert result.flags.c_contiguous
    assert result.flags.owndata or result.base is not x
    assert not np.shares_memory(result, x)
    forward = [abs(stride) for stride in strides]
    taken = x[tuple(slice(o, o + n, s) for o, n, s in zip(offsets, sizes, forward, strict=True))]
    np.testing.assert_array_equal(dml.slice(x, offsets, taken.shape, forward, device=device), taken)


def test_slices_refuse_what_is_not_there() -> None:
    with pytest.raises(dml.DescError) as caught:
        dml.slice1(X[::-1], (0, 2), (4, 3))
    (violation,) = caught.value.violations
    assert (violation.constraint, violation.dimension) == ("window_inside_input", 1)
    assert violation.values == {"InputWindowOffsets[1]": 2, "InputWindowSizes[1]": 3, "InputTensor.Sizes[1]": 4}
    with pytest.raises(dml.DescError) as caught:  # the message shows the caller's negative stride
        dml.slice1(X[::-1], (3, 0), (2, 4), (-1, 1))
    assert caught.value.violations[0].values["InputWindowOffsets[0]"] == 3
    for wrong in (((0,), (4, 4)), ((0, 0), (4,)), ((0, 0, 0), (4, 4, 1)), ((-1, 0), (4, 4)), ((0, 0), (0, 4))):
        with pytest.raises(dml.DescError):
            dml.slice1(X, *wrong)
        with pytest.raises(dml.DescError):
            dml.slice(X, *wrong)
    for strides in ((1,), (0, 1), (1, 1, 1), (2**31, 1)):
        with pytest.raises(dml.DescError):
            dml.slice1(X, (0, 0), (4, 4), strides)
    with pytest.raises(dml.DescError):
        dml.slice1(X, (0, 0), (4, 4), output_sizes=(4, 5))
    with pytest.raises(dml.DescError):
        dml.slice1(np.zeros((1,) * 9), (0,) * 9, (1,) * 9)
    with pytest.raises(TypeError, match="input_window_sizes"):
        dml.slice1(X, (0, 0), (4, 2.5))  # type: ignore[arg-type]


# --- out ---

Eager = Callable[..., Array]
CALLS: dict[str, tuple[Eager, Array]] = {
    "slice1": (lambda **o: dml.slice1(X, (1, 0), (3, 4), (-1, 2), **o), X[3:0:-1, ::2]),
    "slice": (lambda **o: dml.slice(X, (0, 1), (4, 3), **o), X[:, 1:]),
    "matrix_multiply_integer": (lambda **o: dml.matrix_multiply_integer(A, B, **o), np.array(PRODUCT, np.int32)),
    "quantized_linear_matrix_multiply": (lambda **o: quantized(**o), np.array(PRODUCT, np.uint8)),
}
by_call = pytest.mark.parametrize(("call", "result"), CALLS.values(), ids=CALLS)


@by_call
@by_device
def test_results_are_fresh_and_packed(call: Eager, result: Array, device: str) -> None:
    first, second = call(device=device), call(device=dml.Device(device))
    for x in (first, second):
        assert type(x) is np.ndarray
        assert x.dtype == result.dtype
        assert x.flags.c_contiguous
        assert x.flags.writeable
        np.testing.assert_array_equal(x, result)
    assert not np.shares_memory(first, second)


@by_call
@by_device
def test_out_is_written_and_returned(call: Eager, result: Array, device: str) -> None:
    rows, columns = result.shape
    wide = np.full((2 * rows, 3 * columns), 77, result.dtype)
    lying = {
        "packed": np.empty_like(result),
        "columns": np.empty(result.shape[::-1], result.dtype).T,
        "strided": wide[::2, ::3],
        "negative": np.empty_like(result)[::-1, ::-1],
        "negative columns": np.empty_like(result)[:, ::-1],
        "odd": np.zeros((rows, columns * result.itemsize + 1), np.int8)[:, 1:].view(result.dtype),
    }
    for out in lying.values():
        for _ in range(2):  # the second time by a cached call
            out[...] = 1
            assert call(out=out, device=device) is out
            np.testing.assert_array_equal(out, result)
    wide[::2, ::3] = 77
    assert (wide == 77).all()


@by_call
@by_device
def test_out_has_the_exact_shape_and_type_and_is_writable(call: Eager, result: Array, device: str) -> None:
    locked = np.empty_like(result)
    locked.flags.writeable = False
    wrong = {
        "shape": np.empty((*result.shape[:-1], 7), result.dtype),
        "rank": np.empty((1, *result.shape), result.dtype),
        "dtype": np.empty(result.shape, np.float16),
        "other sign": np.empty(result.shape, np.int16),
        "transposed": np.empty((*result.shape[::-1], 1), result.dtype),
        "byte order": np.empty(result.shape, FOREIGN + "i4"),
        "bool": np.empty(result.shape, np.bool_),
        "masked": np.ma.MaskedArray(np.empty_like(result)),
        "read-only": locked,
        "read-only, negative": locked[::-1],
    }
    for name, out in wrong.items():
        before = out.tobytes()
        with pytest.raises((dml.BindingError, dml.DescError)):
            call(out=out, device=device)
        assert out.tobytes() == before, name
    with pytest.raises(dml.BindingError, match="out takes an array, not list"):
        call(out=result.tolist(), device=device)


@by_device
def test_out_may_not_share_memory_with_an_input(device: str) -> None:
    """Whatever their layout, also with negative strides."""
    memory = np.arange(16, dtype=np.int32)
    halves = memory[:8], memory[4:12]
    for x, out in product((halves[0], halves[0][::-1]), (halves[1], halves[1][::-1], halves[0])):
        for sliced in (dml.slice1, dml.slice):
            with pytest.raises(dml.BindingError, match="shares memory"):
                sliced(x, (0,), (8,), out=out, device=device)
    assert memory.tolist() == list(range(16))
    matrices: Array = np.ones((4, 4), np.uint8)
    for a, out in product((matrices[:2, :2], matrices[:2, 1::-1]), (matrices[1:3, :2], matrices[2:0:-1, :2])):
        with pytest.raises(dml.BindingError, match="shares memory"):
            quantized(a, a.copy(), out=out, device=device)
        with pytest.raises(dml.BindingError, match="shares memory"):
            quantized(a.copy(), a, out=out, device=device)
    assert (matrices == 1).all()


@by_device
def test_out_may_lie_between_the_elements_of_an_input(device: str) -> None:
    memory = np.arange(8, dtype=np.int32)
    dml.slice1(memory[::2], (0,), (4,), out=memory[1::2], device=device)
    assert memory.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    dml.slice1(memory[::2], (0,), (4,), (-1,), out=memory[::-2], device=device)
    assert memory.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]


def test_out_is_not_touched_where_a_scale_is_unusable() -> None:
    for out in (np.full((2, 2), 77, np.uint8), np.full((2, 2), 77, np.uint8)[::-1]):
        for scale in (0.0, -0.0, float("inf"), float("nan"), 1e-60, 1e39):
            for name in ("a_scale", "b_scale", "output_scale"):
                with pytest.raises(dml.DataError) as caught:
                    quantized(out=out, **{name: scale})
                assert (caught.value.tensor, caught.value.index) == (name, ())
        assert (out == 77).all()


# --- matrices ---


@st.composite
def broadcast_operands(draw: st.DrawFn) -> tuple[Array, Array]:
    """Matrices of 2 to 4 dimensions with any layout, whose leading dimensions broadcast."""
    lead = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    m, k, n = draw(st.tuples(*[st.integers(1, 5)] * 3))
    random = np.random.default_rng(draw(st.integers(0, 1000)))

    def matrices(rows: int, columns: int) -> Array:
        batch = [draw(st.sampled_from((1, size))) for size in lead][draw(st.integers(0, 2)) :]
        sizes = (*batch, rows, columns)
        x: Array = random.integers(0, 256, sizes, np.uint8).view(draw(st.sampled_from((np.int8, np.uint8))))
        order = draw(st.permutations(range(x.ndim)))
        x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        flips = tuple(slice(None, None, draw(st.sampled_from((1, -1)))) for _ in sizes)
        x = np.ascontiguousarray(x[flips])[flips] if draw(st.booleans()) else x
        return np.repeat(x, 2, axis=-1)[..., ::2] if draw(st.booleans()) else x

    return matrices(m, k), matrices(k, n)


@settings(SETTINGS, max_examples=120)
@given(broadcast_operands(), st.sampled_from(DEVICES))
def test_leading_dimensions_broadcast_as_matmul_s_do(operands: tuple[Array, Array], device: str) -> None:
    a, b = operands
    wanted = np.matmul(a.astype(np.int64), b.astype(np.int64))
    result = dml.matrix_multiply_integer(a, b, device=device)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, wanted)
    low, high = np.iinfo(a.dtype).min, np.iinfo(a.dtype).max
    np.testing.assert_array_equal(quantized(a, b, device=device), np.clip(wanted, low, high).astype(a.dtype))


def test_matrices_that_do_not_fit_are_refused() -> None:
    ones = np.ones((2, 3, 4, 5), np.uint8)
    calls: tuple[Callable[[Any, Any], Any], ...] = (dml.matrix_multiply_integer, quantized)
    for call in calls:
        with pytest.raises(dml.BindingError, match=r"a has 3 columns but b has 2 rows: the shapes are \(2, 3\) and \(2, 3\)"):
            call(A, A)
        with pytest.raises(dml.BindingError, match=r"b has shape \(3, 2, 5, 4\), whose leading sizes do not broadcast"):
            call(ones, np.ones((3, 2, 5, 4), np.uint8))
        with pytest.raises(dml.BindingError, match=r"a has shape \(5,\), and a matrix has 2 to 4 dimensions"):
            call(ones[0, 0, 0], B)
        with pytest.raises(dml.BindingError, match=r"b has shape \(3,\)"):
            call(A, B[:, 0])
        with pytest.raises(dml.BindingError, match=r"a has shape \(1, 2, 3, 4, 5\), and a matrix has 2 to 4 dimensions"):
            call(ones[None], np.ones((5, 4), np.uint8))
        for dtype in (np.int16, np.float32, np.int32):
            with pytest.raises(dml.BindingError, match=f"a is {np.dtype(dtype)}; feature level 6_4 takes int8 or uint8 here"):
                call(A.astype(dtype), B)


def test_zero_points_of_matrices_of_other_types_leave_the_refusal_to_the_check() -> None:
    with pytest.raises(dml.BindingError, match=r"^a is float32; feature level 6_4 takes int8 or uint8 here$"):
        dml.matrix_multiply_integer(A.astype(np.float32), B, 1, 1)
    with pytest.raises(dml.BindingError, match=r"^output_data_type is float32; feature level 6_4 takes int8 or uint8 here$"):
        quantized(output_data_type=np.float32, output_zero_point=0)


@by_device
def test_integer_products(device: str) -> None:
    a = np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8)
    b = np.array([[1, 4], [2, 5], [3, 6]], np.uint8)
    wanted = [[-38, -83], [-44, -98], [-50, -113], [-56, -128]]
    twelve = np.uint8(12)
    for zero_point in (12, twelve, np.array(12, np.uint8), np.array([12], np.uint8), np.full((4,), 12, np.uint8)):
        for shaped in (zero_point, np.full((4, 1), 12, np.uint8), np.full((1, 1, 1), 12, np.uint8)):
            assert dml.matrix_multiply_integer(a, b, shaped, 0, device=device).tolist() == wanted
    per_column = np.array([1, 2], np.uint8)
    by_hand = (a.astype(int) - 12) @ (b.astype(int) - [1, 2])
    for b_zero_point in (per_column, per_column[None, :], np.array([2, 1], np.uint8)[::-1]):
        assert dml.matrix_multiply_integer(a, b, 12, b_zero_point, device=device).tolist() == by_hand.tolist()


# --- scales and zero points ---


@settings(SETTINGS, max_examples=120)
@given(quantized_cases(), st.sampled_from(DEVICES))
def test_eager_is_the_object_model_is_the_oracle(case: QuantizedCase, device: str) -> None:
    result = dml.quantized_linear_matrix_multiply(*case.operands, output_data_type=case.output_type, device=device)
    assert result.dtype == case.output_type
    np.testing.assert_array_equal(result, hard_cases.expected(case))


@by_device
def test_a_scale_is_a_number_or_per_row_or_column_or_of_full_sizes(device: str) -> None:
    rows, columns = np.array([1, 2], np.float32), np.array([1, 0.5], np.float32)
    by_row, by_column = [[4, 5], [20, 22]], [[4, 2], [10, 6]]  # 2.5 is rounded to 2, 5.5 to 6
    for scale in (rows, rows.astype(np.float64), rows[:, None], rows[::-1].copy()[::-1], rows.reshape(1, 1, 2, 1)):
        assert quantized(a_scale=scale, device=device).tolist() == by_row
        assert quantized(output_scale=1 / scale, device=device).tolist() == by_row
    for scale in (columns, columns.astype(np.float64), columns[None], columns[::-1].copy()[::-1], columns.reshape(1, 1, 1, 2)):
        assert quantized(b_scale=scale, device=device).tolist() == by_column
    halves = (0.5, np.float32(0.5), np.float64(0.5), np.array(0.5), np.array([0.5], np.float32), np.array([[0.5]], np.float32))
    for scale in halves:
        assert quantized(a_scale=scale, output_scale=scale, device=device).tolist() == PRODUCT
        assert quantized(a_scale=2, b_scale=scale, device=device).tolist() == PRODUCT


@by_device
def test_a_zero_point_is_an_integer_or_an_array_of_its_matrix_s_type(device: str) -> None:
    rows = np.array([1, 2], np.uint8)
    shapes = (rows, rows[:, None], rows[::-1].copy()[::-1], rows.reshape(1, 1, 2, 1))
    for zero_point in shapes:
        assert quantized(a_zero_point=zero_point, device=device).tolist() == [[2, 3], [6, 7]]
        assert quantized(output_zero_point=zero_point, device=device).tolist() == [[5, 6], [12, 13]]
    assert quantized(b_zero_point=rows, device=device).tolist() == [[0, 0], [0, 0]]
    for one in (1, np.uint8(1), np.array(1, np.uint8), np.array([1], np.uint8), np.array([[1]], np.uint8)):
        assert quantized(A + 1, a_zero_point=one, device=device).tolist() == PRODUCT
    for wrong in (256, -1, 2**70):
        with pytest.raises(dml.BindingError, match=f"a_zero_point = {wrong} does not fit uint8, 0..255"):
            quantized(a_zero_point=wrong)
    with pytest.raises(dml.BindingError, match="output_zero_point = 128 does not fit int8"):
        quantized(output_zero_point=128, output_data_type="INT8")
    with pytest.raises(dml.DescError, match="a_zero_point_data_type"):
        quantized(a_zero_point=np.array([1], np.int8))
    for no_integer in (1.0, True, "1", [1, 2], np.array([1.0]), np.array(1.0), np.array([True])):
        with pytest.raises(dml.BindingError, match="b_zero_point"):
            quantized(b_zero_point=no_integer)


def test_what_is_no_scale_is_refused_by_name() -> None:
    wrong: tuple[Any, ...] = (
        *(np.array([1]), np.array([1], np.uint8), np.array(1), np.int64(1), np.float16(1), np.array([1], np.float16)),
        *(True, np.True_, "1", None, [1.0], Fraction(1), 1j),
        *(np.array([True]), np.array([1.0], object), np.array([1], FOREIGN + "f4"), np.array(1, FOREIGN + "f8")),
        *(np.ma.MaskedArray([1.0]), np.ma.MaskedArray(1.0), np.zeros(0, np.float32)),
    )
    for scale in wrong:
        for name in ("a_scale", "b_scale", "output_scale"):
            with pytest.raises(dml.BindingError, match=f"^{name} "):
                quantized(**{name: scale})


def test_scales_of_other_sizes_are_refused() -> None:
    for name, size in (("a_scale", 3), ("b_scale", 3), ("output_scale", 5)):
        with pytest.raises(dml.DescError, match=f"{name}_sizes"):
            quantized(**{name: np.ones(size, np.float32)})
    with pytest.raises(dml.DescError, match="a_scale_sizes"):
        quantized(a_scale=np.ones((1, 2), np.float32))


def test_a_1_d_scale_goes_with_every_batch() -> None:
    a, b = np.stack([A, A]), np.stack([B, B])
    result = quantized(a, b, a_scale=np.array([1, 2], np.float32), b_zero_point=np.array([1, 1], np.uint8))
    one = quantized(A, B, a_scale=np.array([1, 2], np.float32), b_zero_point=1)
    assert result.tolist() == [one.tolist()] * 2


@by_device
@pytest.mark.parametrize("level", ["2_1", "4_0", "6_4"])
def test_parameters_take_as_many_dimensions_as_the_level_asks(level: str, device: str) -> None:
    on = dml.Device(device, feature_level=level)
    a, b = A.reshape(1, 1, 2, 3), B.reshape(1, 1, 3, 2)
    rows = np.array([1, 1], np.uint8)
    assert quantized(a + 1, b, a_zero_point=rows, output_zero_point=1, device=on).tolist() == [[[[5, 6], [11, 12]]]]
    assert dml.matrix_multiply_integer(a + 1, b, rows, 0, device=on).tolist() == [[PRODUCT]]


# --- float64 to float32, once ---


def nearest_bits(x: float) -> int:
    """The bits of the float32 nearest to a float64, half to even, in fractions; also for zero and infinity."""
    sign = int(np.float64(x).view(np.uint64)) >> 63 << 31
    if x != x or abs(x) == float("inf"):
        return sign | (0x7FC00000 if x != x else 0x7F800000)
    size = abs(Fraction(x))
    unit = Fraction(1, 2**149)
    while size / unit >= 2**24:
        unit *= 2
    significand = oracle.round_half_even(size / unit)
    if significand * unit >= 2**128:
        return sign | 0x7F800000
    exponent = (unit * 2**149).numerator.bit_length()  # 1 for subnormal numbers and the first normal ones
    return sign | ((exponent - 1 << 23) + significand)


EDGES = [
    *(0.0, 1.0, 0.1, 1e-45, 1e-46, 1.5e-45, 2**-149, 2**-150, 2**-151, 2**-126, 2**-127, 5e-324, 1e-310, 2.0**-1022),
    *(2**-150 * (1 + 2**-52), 3 * 2**-150, 5 * 2**-150, 2**-126 - 2**-149, 2**-126 - 2**-150, 2**-126 - 2**-151),
    *(1 + 2**-24, 1 + 3 * 2**-24, 1 + 2**-24 + 2**-52, 1 + 2**-24 - 2**-52, 2 - 2**-24, 2 - 2**-25, 16777217.0, 16777219.0),
    *(2.0**128 - 2.0**104, 2.0**128 - 2.0**103, 2.0**128 - 2.0**103 - 2.0**75, 2.0**128, 1e300, float("inf"), float("nan")),
]


def test_rounding_at_the_edges() -> None:
    x = np.array([*EDGES, *(-edge for edge in EDGES)], np.float64)
    result = round_to_float32(x)
    assert result.dtype == np.float32
    for value, rounded in zip(x.tolist(), result.view(np.uint32).tolist(), strict=True):
        assert rounded & 0x7FFFFFFF == nearest_bits(value) & 0x7FFFFFFF, value
        assert value != value or rounded == nearest_bits(value), value


@settings(SETTINGS, max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.floats(),
            st.builds(lambda f, e: float(f * Fraction(2) ** e), st.integers(-(2**26), 2**26), st.integers(-180, 110)),
            st.builds(lambda f, e: (2 * f + 1) * 2.0**e, st.integers(0, 2**24), st.integers(-152, 100)),  # many ties
        ),
        min_size=1,
        max_size=20,
    )
)
def test_rounding_is_half_to_even(numbers: list[float]) -> None:
    result = round_to_float32(np.array(numbers, np.float64)).view(np.uint32).tolist()
    for value, rounded in zip(numbers, result, strict=True):
        assert value != value or rounded == nearest_bits(value), value


def test_rounding_agrees_with_the_processor_on_random_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2**64, 200_000, np.uint64, endpoint=False)
    # around the ends of float32's range
    near = np.random.default_rng(1).integers(870, 1160, 200_000, np.uint64) << np.uint64(52)
    for x in (bits.view(np.float64), ((bits & np.uint64(2**63 | 2**52 - 1)) | near).view(np.float64)):
        with np.errstate(all="ignore"):
            wanted = x.astype(np.float32)
        result = round_to_float32(x)
        number = ~np.isnan(x)
        assert np.isnan(result[~number]).all()
        np.testing.assert_array_equal(result[number].view(np.uint32), wanted[number].view(np.uint32))


def test_a_float64_scale_is_rounded_once_however_it_comes() -> None:
    """With this scale, the product 1 is a tie or close to one, so the result shows the float32 that is used."""
    for value in (0.1, 1 + 2**-24, 2**-149, 3 * 2**-150, 1e-40):
        scale = np.array([[value]], np.float32)  # in the default state, the processor rounds as anydml does
        assert int(scale.view(np.uint32).item()) == nearest_bits(value)
        for given_scale in (value, np.float64(value), np.array(value), np.array([value]), np.array([[value]])):
            rounded = parameters.scale("a_scale", given_scale, "row")
            assert rounded.dtype == np.float32
            assert rounded.tobytes() == scale.tobytes()
            assert quantized(a_scale=given_scale, output_scale=scale).tolist() == PRODUCT


def test_an_integer_scale_is_rounded_once_too() -> None:
    """Rounded to float64 first, this one would become a tie, and be rounded to the other side."""
    tie = (2**24 + 1) << 40
    for value, bits in (
        (3, 0x40400000),
        (2**24 + 1, 0x4B800000),
        (tie, 0x5F800000),
        (tie + 1, 0x5F800001),
        (tie - 1, 0x5F800000),
    ):
        assert parameters.scale("a_scale", value, "row").view(np.uint32).tolist() == [[bits]], value


def test_an_integer_scale_beyond_float64_is_infinite() -> None:
    for value in (10**400, -(10**400)):
        with pytest.raises(dml.DataError):
            quantized(a_scale=value)


# --- the output's type ---


def test_the_output_s_type_is_told_or_follows_from_a() -> None:
    a, b = A.view(np.int8), B
    assert quantized(a, b).dtype == np.int8
    assert quantized(A, B.view(np.int8)).dtype == np.uint8
    for told in (dml.DataType.UINT8, "UINT8", "DML_TENSOR_DATA_TYPE_UINT8", "uint8", np.uint8, np.dtype(np.uint8)):
        assert quantized(a, b, output_data_type=told).dtype == np.uint8
    assert quantized(a, b, output_zero_point=np.array([3], np.uint8)).dtype == np.uint8
    assert quantized(a, b, output_zero_point=np.array(3, np.uint8)).dtype == np.uint8
    assert quantized(a, b, output_zero_point=3).dtype == np.int8  # a number has no type
    assert quantized(a, b, output_zero_point=200, output_data_type=np.uint8).dtype == np.uint8
    out = np.zeros((2, 2), np.uint8)
    assert quantized(a, b, out=out) is out
    everything = {"output_zero_point": np.array([0], np.uint8), "output_data_type": "UINT8", "out": out}
    assert quantized(a, b, **everything).tolist() == PRODUCT


@pytest.mark.parametrize("left_out", ["output_zero_point", "output_data_type", "out", None])
def test_what_tells_the_output_s_type_must_agree(left_out: str | None) -> None:
    told: dict[str, Any] = {
        "output_zero_point": np.array([0], np.uint8),
        "output_data_type": np.int8,
        "out": np.zeros((2, 2), np.uint8),
    }
    if left_out:
        del told[left_out]
        if left_out == "output_data_type":
            told["out"] = np.zeros((2, 2), np.int8)
    with pytest.raises(dml.BindingError, match="two different types are given") as caught:
        quantized(**told)
    assert all(f"{name} is" in str(caught.value) for name in told)


def test_output_types_that_cannot_be() -> None:
    for told in ("FLOAT32", np.float32, "INT32", dml.DataType.INT16):
        with pytest.raises(
            dml.BindingError, match=r"output_data_type is (float32|int32|int16); feature level 6_4 takes int8 or uint8 here"
        ):
            quantized(output_data_type=told)
    nonsense: tuple[Any, ...] = ("INT9", "foo", "UINT4", np.complex64, ">f8", 99, list)
    for told in nonsense:
        with pytest.raises(
            dml.BindingError, match=r"output_data_type = .* is not a data type of the result, which is int8 or uint8"
        ):
            quantized(output_data_type=told)


# --- arguments that are neither arrays nor tensors ---

NO_TENSORS: dict[str, tuple[Any, str]] = {
    "list": ([[1, 2], [3, 4]], "list"),
    "number": (3, "int"),
    "NumPy scalar": (np.uint8(3), "uint8"),
    "bytes": (b"1234", "bytes"),
    "None": (None, "None"),
    "rank 0": (np.array(3, np.uint8), "no dimensions"),
    "size 0": (np.zeros((2, 0), np.uint8), r"shape \(2, 0\)"),
    "byte order": (np.ones((2, 2), FOREIGN + "i4"), "foreign byte order"),
    "bool": (np.ones((2, 2), np.bool_), "bool"),
    "object": (np.ones((2, 2), np.object_), "object"),
    "structured": (np.ones((2, 2), [("x", np.uint8)]), "structured"),
    "text": (np.array([["a"]]), "<U1|>U1"),
    "masked": (np.ma.MaskedArray(np.ones((2, 2), np.uint8)), "masked"),
}


@pytest.mark.parametrize(("x", "name"), NO_TENSORS.values(), ids=NO_TENSORS)
def test_what_is_no_tensor_is_refused_by_name(x: Any, name: str) -> None:
    fine = np.ones((2, 2), np.uint8)
    calls: dict[str, Callable[[], Any]] = {
        "input": lambda: dml.slice1(x, (0, 0), (1, 1)),
        "input ": lambda: dml.slice(x, (0, 0), (1, 1)),
        "a": lambda: quantized(x, fine),
        "b": lambda: quantized(fine, x),
        "a ": lambda: dml.matrix_multiply_integer(x, fine),
        "b ": lambda: dml.matrix_multiply_integer(fine, x),
    }
    for argument, call in calls.items():
        with pytest.raises(dml.BindingError, match=f"^{argument.strip()} .*({name})"):
            call()


def test_complex_numbers_are_no_type_of_directml() -> None:
    for dtype in (np.complex64, np.complex128, np.longdouble):
        if np.dtype(dtype) == np.float64:
            continue  # where both are the same type
        with pytest.raises(dml.BindingError, match=f"^input is {np.dtype(dtype)}, which DirectML has no data type for$"):
            dml.slice1(np.ones(2, dtype), (0,), (1,))


def test_a_memory_mapped_array_is_an_array(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.uint8, "w+", shape=(2, 3))
    mapped[...] = A
    assert quantized(mapped, B).tolist() == PRODUCT
    assert dml.slice1(mapped, (0, 0), (2, 3), (-1, -1)).tolist() == A[::-1, ::-1].tolist()
    assert dml.slice(mapped[::-1], (0, 0), (2, 3), out=np.empty_like(A)).tolist() == A[::-1].tolist()
    out = np.memmap(tmp_path / "product", np.uint8, "w+", shape=(2, 2))
    assert quantized(out=out) is out
    assert out.tolist() == PRODUCT


class Contrary(np.ndarray[Any, Any]):
    """A subclass with other meanings of all operations, like np.matrix or arrays with units."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("a subclass's own indexing was used")

    def ravel(self, *arguments: Any) -> Any:
        raise AssertionError("a subclass's own ravel was used")

    def __array_ufunc__(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError("a subclass's own arithmetic was used")


@by_device
def test_a_subclass_is_taken_for_the_array_it_is(device: str) -> None:
    a, b = A.view(Contrary), B.view(Contrary)
    assert np.asarray(quantized(a, b, device=device)).tolist() == PRODUCT
    assert np.asarray(dml.matrix_multiply_integer(a, b, device=device)).tolist() == PRODUCT
    assert np.asarray(dml.slice1(a, (0, 0), (2, 2), device=device)).tolist() == A[:, :2].tolist()
    assert np.asarray(dml.slice(a, (0, 0), (2, 2), device=device)).tolist() == A[:, :2].tolist()


class Exporter:
    def __init__(self, x: Array) -> None:
        self._x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self._x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


def test_arrays_of_other_libraries_come_through_dlpack() -> None:
    a, b = Exporter(A.copy()), Exporter(B.copy())
    assert quantized(a, b).tolist() == PRODUCT
    assert dml.slice1(a, (0, 0), (1, 2)).tolist() == [[1, 2]]  # type: ignore[arg-type]
    assert quantized(a_scale=Exporter(np.ones((2, 1), np.float32))).tolist() == PRODUCT


# --- devices and memory ---


def test_devices_go_by_name() -> None:
    for call, result in CALLS.values():
        np.testing.assert_array_equal(call(device=None), result)
        with pytest.raises(dml.UnsupportedError, match="there is no device 'gpu'; the devices are cpu, reference"):
            call(device="gpu")
    with pytest.raises(dml.DescError, match="available"):
        dml.slice1(X, (0, 0), (1, 1), device=dml.Device(feature_level="1_0"))


@by_device
def test_an_output_too_large_for_memory(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs with zero strides take two bytes; the output would need all of its memory."""
    monkeypatch.setattr(run, "memory_bytes", lambda: 2**30)
    a, b = np.broadcast_to(np.uint8(1), (2**15, 1)), np.broadcast_to(np.uint8(1), (1, 2**16))
    tall = np.broadcast_to(np.float64(1), (2**28,))
    tracemalloc.start()
    try:
        calls: tuple[Callable[[], Any], ...] = (
            lambda: quantized(a, b, device=device),
            lambda: dml.matrix_multiply_integer(a, b, device=device),
            lambda: dml.slice1(tall, (0,), tall.shape, device=device),
            lambda: dml.slice(tall, (0,), tall.shape, device=device),
        )
        for call in calls:
            with pytest.raises(MemoryError):
                call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**22


def test_a_desc_beyond_the_limit_is_a_desc_error() -> None:
    with pytest.raises(dml.DescError, match="span_in_range"):
        quantized(np.broadcast_to(np.uint8(1), (2**16, 1)), np.broadcast_to(np.uint8(1), (1, 2**16)))


# --- eager is the object model ---


@by_device
def test_eager_calls_are_those_of_the_object_model(device: str) -> None:
    rng = np.random.default_rng(0)
    for dtype, output_type in product((np.int8, np.uint8), repeat=2):
        a = rng.integers(0, 256, (2, 5, 7), np.uint8).view(dtype)
        b = rng.integers(0, 256, (2, 7, 3), np.uint8).view(dtype)
        scales = {"a_scale": 0.01, "b_scale": np.linspace(0.1, 0.2, 3), "output_scale": np.float32(3)}
        eager = quantized(a, b, **scales, a_zero_point=3, output_data_type=output_type, device=device)
        arrays: dict[str, Array] = {
            "a_tensor": a,
            "a_scale_tensor": np.full((1, 1, 1), 0.01, np.float32),
            "a_zero_point_tensor": np.full((1, 1, 1), 3, dtype),
            "b_tensor": b,
            "b_scale_tensor": np.linspace(0.1, 0.2, 3).astype(np.float32).reshape(1, 1, 3),
            "output_scale_tensor": np.full((1, 1, 1), 3, np.float32),
        }
        output = np.zeros((2, 5, 3), output_type)
        desc = dml.QuantizedLinearMatrixMultiply(
            **{name: dml.TensorDesc.of(x) for name, x in arrays.items()}, output_tensor=dml.TensorDesc.of(output)
        )
        dml.Device(device).compile(desc).bind(**arrays, output_tensor=output).execute()
        np.testing.assert_array_equal(eager, output)
        assert len(np.unique(output)) > 3


def test_a_large_fresh_result_has_its_pages_taken_from_their_ends() -> None:
    huge = run.HUGE
    memory = np.full(3 * huge + 5, 7, np.uint8)
    run._take_pages(memory)
    written = np.flatnonzero(memory == 0)
    assert written.size == 3
    assert ((written + memory.ctypes.data) % huge == huge - 1).all()


def test_a_large_fresh_result_is_the_copy() -> None:
    x = np.random.default_rng(0).integers(0, 256, (3000, 3001), np.uint8)
    assert x.nbytes > 2 * run.HUGE
    np.testing.assert_array_equal(dml.slice1(x, (0, 1), (3000, 3000)), x[:, 1:])
