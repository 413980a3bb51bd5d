"""The errors of eager calls: all faults at once, in terms of the call, with values that would be valid."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.functional import faults

Array = NDArray[Any]

A: Array = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
B: Array = np.array([[1, 0], [0, 1], [1, 1]], np.uint8)
X: Array = np.arange(16, dtype=np.float32).reshape(4, 4)
LOCKED: Array = np.zeros((2, 2), np.uint8)
LOCKED.flags.writeable = False
FOREIGN = ">" if sys.byteorder == "little" else "<"


def quantized(a: Any = A, b: Any = B, **changes: Any) -> Array:
    given: dict[str, Any] = {"a": a, "a_scale": 1.0, "a_zero_point": None, "b": b, "b_scale": 1.0, "b_zero_point": None}
    return dml.quantized_linear_matrix_multiply(**{**given, "output_scale": 1.0, "output_zero_point": None, **changes})


def integer(a: Any = A, b: Any = B, **changes: Any) -> Array:
    return dml.matrix_multiply_integer(**{"a": a, "a_zero_point": None, "b": b, "b_zero_point": None, **changes})


def at(level: str) -> dml.Device:
    return dml.Device(feature_level=level)


EIGHT = "float32, float16, int32, int16, int8, uint32, uint16 or uint8"
K = "a has {3} columns but b has {2} rows: the shapes are {1} and {0}"
TOLD: dict[str, tuple[Callable[[], Any], type[dml.Error], str]] = {
    "a float matrix, not its zero point": (
        lambda: quantized(A * 1.0, a_zero_point=0),
        dml.BindingError,
        "a is float64; feature level 6_4 takes int8 or uint8 here",
    ),
    "both matrices": (
        lambda: integer(A * 1.0, B.astype(np.int16), a_zero_point=3, b_zero_point=np.array([3], np.int16)),
        dml.BindingError,
        "a is float64; feature level 6_4 takes int8 or uint8 here\nb is int16; feature level 6_4 takes int8 or uint8 here\n"
        "b_zero_point is int16; feature level 6_4 takes int8, uint8 or a Python integer here",
    ),
    "everything at once": (
        lambda: quantized(A * 1.0, [[1]], a_scale=1e-50, b_scale="1", a_zero_point=0, output_scale=None, out=LOCKED),
        dml.BindingError,
        "a is float64; feature level 6_4 takes int8 or uint8 here\n"
        "a_scale is 1e-50, which underflows to 0 in float32; a scale must not be 0, infinite or NaN\n"
        "b takes an array, not list: wrap it in np.array(...)\n"
        "b_scale takes a number or an array, not str\n"
        "output_scale takes a number or an array, not NoneType\n"
        "out is read-only",
    ),
    "rules besides faults": (
        lambda: quantized(A * 1.0, output_scale=np.ones(5, np.float32)),
        dml.BindingError,
        "a is float64; feature level 6_4 takes int8 or uint8 here\n"
        "QuantizedLinearMatrixMultiply.output_scale_sizes: output_scale.sizes is (5, 1); it must be all 1 (per tensor), or "
        "equal the second last of output.sizes (2) in that place alone (per row)\n"
        "    would fit: (1, 1) or (2, 1)",
    ),
    "rules alone": (
        lambda: quantized(b_scale=np.ones(3, np.float32)),
        dml.DescError,
        "QuantizedLinearMatrixMultiply.b_scale_sizes: b_scale.sizes is (1, 3); it must be all 1 (per tensor), or "
        "equal the last of b.sizes (2) in that place alone (per column)\n"
        "    would fit: (1, 1) or (1, 2)",
    ),
    "a level's types": (
        lambda: dml.slice1(X.astype(np.int64), (0, 0), (4, 4), device=at("4_0")),
        dml.BindingError,
        f"input is int64; feature level 4_0 takes {EIGHT} here, and 4_1 takes int64",
    ),
    "a level's dimensions": (
        lambda: integer(device=at("2_1")),
        dml.DescError,
        "MatrixMultiplyInteger.dimension_count_supported: a.dimension_count is 2; feature level 2_1 takes 4 dimensions here\n"
        "    would fit: feature level 4_0\n"
        "MatrixMultiplyInteger.dimension_count_supported: b.dimension_count is 2; feature level 2_1 takes 4 dimensions here\n"
        "    would fit: feature level 4_0",
    ),
    # scales as given
    "underflow": (
        lambda: quantized(a_scale=1e-50),
        dml.DataError,
        "a_scale is 1e-50, which underflows to 0 in float32; a scale must not be 0, infinite or NaN",
    ),
    "overflow of an element": (
        lambda: quantized(b_scale=np.array([1, 1e39])),
        dml.DataError,
        "b_scale[1] is 1e+39, which overflows to infinity in float32; a scale must not be 0, infinite or NaN",
    ),
    "underflow of a scalar": (
        lambda: quantized(np.stack([A, A]), B, output_scale=np.float64(-1e-60)),
        dml.DataError,
        "output_scale is -1e-60, which underflows to 0 in float32; a scale must not be 0, infinite or NaN",
    ),
    "an integer beyond float32": (
        lambda: quantized(a_scale=10**40),
        dml.DataError,
        f"a_scale is {10**40}, which overflows to infinity in float32; a scale must not be 0, infinite or NaN",
    ),
    "a zero among full sizes": (
        lambda: quantized(np.stack([A, A]), a_scale=np.array([[1], [0]], np.float32)),
        dml.DataError,
        "a_scale[1, 0] is 0.0; a scale must not be 0, infinite or NaN",
    ),
    "NaN": (lambda: quantized(a_scale=float("nan")), dml.DataError, "a_scale is nan; a scale must not be 0, infinite or NaN"),
    # out
    "read-only": (lambda: quantized(out=LOCKED), dml.BindingError, "out is read-only"),
    "read-only, reversed": (lambda: quantized(out=LOCKED[::-1]), dml.BindingError, "out is read-only"),
    "out of another type": (
        lambda: integer(out=LOCKED),
        dml.BindingError,
        "out is read-only\nout is uint8, shape (2, 2), where the result is int32, shape (2, 2)",
    ),
    "out tells a type that no result has": (
        lambda: quantized(out=np.zeros((2, 2))),
        dml.BindingError,
        "out is float64; feature level 6_4 takes int8 or uint8 here",
    ),
    "out among the inputs": (
        lambda: integer(X.view(np.int8), X.view(np.int8), out=X.view(np.int32)),
        dml.BindingError,
        f"{K.format('(4, 16)', '(4, 16)', 4, 16)}; did you mean b.T?\n"
        "out shares memory with a, and the operator does not work in place\n"
        "out shares memory with b, and the operator does not work in place\n"
        "out is int32, shape (4, 4), where the result is int32, shape (4, 16)",
    ),
    # types
    "a scalar's type is not A's": (
        lambda: quantized(A.view(np.int8), a_zero_point=np.uint8(3)),
        dml.DescError,
        "QuantizedLinearMatrixMultiply.a_zero_point_data_type: a_zero_point.data_type is UINT8; it must equal "
        "a.data_type (INT8)",
    ),
    "a scalar of no zero point's type": (
        lambda: integer(a_zero_point=np.int64(3)),
        dml.BindingError,
        "a_zero_point is int64; feature level 6_4 takes int8, uint8 or a Python integer here",
    ),
    "a scalar that tells the output's type": (
        lambda: quantized(output_zero_point=np.int16(3)),
        dml.BindingError,
        "output_zero_point is int16; feature level 6_4 takes int8, uint8 or a Python integer here",
    ),
    "no type at all": (
        lambda: quantized(output_data_type="foo"),
        dml.BindingError,
        "output_data_type = 'foo' is not a data type of the result, which is int8 or uint8",
    ),
    "told twice": (
        lambda: quantized(output_zero_point=np.int8(1), output_data_type="UINT8"),
        dml.BindingError,
        "output_zero_point is int8, output_data_type is uint8: two different types are given for the output",
    ),
    "bool": (
        lambda: quantized(A > 1),
        dml.BindingError,
        "a is bool, which DirectML has no data type for: use x.view(np.uint8)",
    ),
    "complex": (
        lambda: dml.slice(X * 1j, (0, 0), (1, 1)),
        dml.BindingError,
        "input is complex64, which DirectML has no data type for",
    ),
    "byte order": (
        lambda: dml.slice(X.astype(FOREIGN + "f4"), (0, 0), (1, 1)),
        dml.BindingError,
        f"input is {FOREIGN}f4, in foreign byte order: give x.astype(np.float32)",
    ),
    "lists": (
        lambda: quantized([[1, 2]], ((1,), (2,)), a_zero_point=[1]),
        dml.BindingError,
        "a takes an array, not list: wrap it in np.array(...)\n"
        "a_zero_point takes an integer or an array, not list: wrap it in np.array(...)\n"
        "b takes an array, not tuple: wrap it in np.array(...)",
    ),
    # sizes
    "b.T would fit": (lambda: quantized(A, A), dml.BindingError, f"{K.format('(2, 3)', '(2, 3)', 2, 3)}; did you mean b.T?"),
    "a.T would fit": (
        lambda: integer(A, B[:2]),
        dml.BindingError,
        f"{K.format('(2, 2)', '(2, 3)', 2, 3)}; did you mean a.T?",
    ),
    "batches of b.mT would fit": (
        lambda: integer(A, np.stack([A, A])),
        dml.BindingError,
        f"{K.format('(2, 2, 3)', '(2, 3)', 2, 3)}; did you mean b.mT?",
    ),
    "neither would fit": (
        lambda: integer(np.ones((3, 4), np.int8), np.ones((5, 6), np.int8)),
        dml.BindingError,
        K.format("(5, 6)", "(3, 4)", 5, 4),
    ),
    "batches": (
        lambda: integer(np.ones((2, 3, 4), np.int8), np.ones((3, 5, 6), np.int8), a_zero_point=300),
        dml.BindingError,
        "b has shape (3, 5, 6), whose leading sizes do not broadcast with those of a, (2, 3, 4)",
    ),
    "dimensions": (
        lambda: integer(np.ones((1, 1, 1, 2, 3), np.int8), B[:, 0]),
        dml.BindingError,
        "a has shape (1, 1, 1, 2, 3), and a matrix has 2 to 4 dimensions\nb has shape (3,), and a matrix has 2 to 4 dimensions",
    ),
    # slices
    "a negative stride of slice": (
        lambda: dml.slice(X, (0, 3), (4, 4), (1, -1)),
        dml.DescError,
        "Slice.strides_fits: strides is (1, -1); each must fit UINT, 0 to 4294967295; slice1 takes negative strides",
    ),
    "an offset that is negative is no stride": (
        lambda: dml.slice(X, (0, -1), (4, 1)),
        dml.DescError,
        "Slice.offsets_fits: offsets is (0, -1); each must fit UINT, 0 to 4294967295",
    ),
    "a window of a reversed array": (
        lambda: dml.slice1(X[::-1], (0, 0), (4, 4), output_sizes=(5, 4), out=np.zeros((5, 4), np.int8)),
        dml.BindingError,
        "out is int8, shape (5, 4), where the result is float32, shape (5, 4)\n"
        "Slice1.output_within_window: output_sizes[0] is 5, input_window_sizes[0] is 4 and input_window_strides[0] is 1; "
        "output_sizes[0] must be at most 1 + (input_window_sizes[0] - 1) / |input_window_strides[0]|, rounded down: the "
        "elements that the window has\n"
        "    would fit: output_sizes[0] = 1 to 4",
    ),
    "a list, and what is no number": (
        lambda: dml.slice1([1, 2], (0,), (0.5,), output_sizes=3),  # type: ignore[arg-type]
        dml.BindingError,
        "input takes an array, not list: wrap it in np.array(...)\n"
        "input_window_sizes takes a sequence of integers, not (0.5,)\n"
        "output_sizes takes a sequence of integers, not 3",
    ),
    "a list, and nothing": (
        lambda: dml.slice([1, 2], None, (1,)),  # type: ignore[arg-type]
        dml.BindingError,
        "input takes an array, not list: wrap it in np.array(...)\noffsets takes a sequence of integers, not None",
    ),
    "a list, and a stride of 0": (
        lambda: dml.slice1([1, 2], (0,), (2,), (0,)),  # type: ignore[arg-type]
        dml.BindingError,
        "input takes an array, not list: wrap it in np.array(...)\n"
        "Slice1.stride_not_zero: input_window_strides[0] is 0; it must not be 0",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), TOLD.values(), ids=TOLD)
def test_what_a_failed_call_says(call: Callable[[], Any], kind: type[dml.Error], text: str) -> None:
    for _ in range(2):  # nothing of the first call is kept
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
        assert str(caught.value) == text
        assert str(pickle.loads(pickle.dumps(caught.value))) == text
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_faults_hold_the_argument_and_the_rule() -> None:
    with pytest.raises(dml.BindingError) as caught:
        quantized(A * 1.0, output_scale=np.ones(5, np.float32))
    a, scale = caught.value.faults
    assert a.pointer == "a"
    assert a.violation is not None
    assert (a.violation.constraint, a.violation.values["ATensor.DataType"]) == ("data_type_supported", dml.DataType.FLOAT64)
    assert scale.pointer == ""
    assert scale.violation is not None
    assert scale.violation.wire_text().startswith(
        "DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY.output_scale_sizes: OutputScale"
    )


def test_data_errors_hold_what_was_given() -> None:
    with pytest.raises(dml.DataError) as caught:
        quantized(b_scale=np.array([1, 1e-50]))
    error = caught.value
    assert (error.tensor, error.index, error.value, error.rounded) == ("b_scale", (1,), 1e-50, 0.0)
    with pytest.raises(dml.DataError) as caught:
        quantized(b_scale=0.0)
    assert (caught.value.index, caught.value.value, caught.value.rounded) == ((), 0.0, None)


def test_a_scalar_s_type_is_the_output_s() -> None:
    signed = A.view(np.int8)
    assert quantized(signed, output_zero_point=np.uint8(12)).dtype == np.uint8
    assert quantized(signed, output_zero_point=12).dtype == np.int8
    one, two = quantized(A, output_zero_point=np.uint8(12)), quantized(A, output_zero_point=np.array(12, np.uint8))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("device", [0, "", False, 1.5, [], b"cpu"], ids=repr)
def test_what_is_no_device_is_refused_by_every_call(device: Any) -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: dml.slice1(X, (0, 0), (1, 1), device=device),
        lambda: dml.slice([1], (0,), (1,), device=device),  # type: ignore[arg-type]
        lambda: integer(device=device),
        lambda: quantized([1], device=device),
    )
    for call in calls:
        with pytest.raises(dml.UnsupportedError, match=r"there is no device .*; the devices are cpu, reference"):
            call()


class Exporter:
    """An array of a library with a defect."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __dlpack__(self, **options: Any) -> Any:
        raise self._error

    def __dlpack_device__(self) -> Any:
        return (1, 0)


@pytest.mark.parametrize(
    "kind", [AssertionError, AttributeError, BufferError, KeyError, NotImplementedError, OSError, RuntimeError]
)
def test_whatever_an_exporter_raises_is_a_fault(kind: type[Exception]) -> None:
    broken = Exporter(kind("moved"))
    with pytest.raises(dml.BindingError, match=f"^a cannot be had through DLPack: {kind.__name__}: .*moved"):
        quantized(broken)
    with pytest.raises(dml.BindingError, match=f"^a_scale cannot be had through DLPack: {kind.__name__}: "):
        quantized(a_scale=broken)
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc.of(A), b_tensor=dml.TensorDesc.of(B), output_tensor=dml.TensorDesc("int32", (2, 2))
    )
    with pytest.raises(dml.BindingError, match=f"^a_tensor: cannot be had through DLPack: {kind.__name__}: "):
        dml.Device().compile(desc).bind(a_tensor=broken, b_tensor=B, output_tensor=np.zeros((2, 2), np.int32))


def test_a_list_is_told_to_be_wrapped_at_bind_too() -> None:
    desc = dml.Slice(
        input_tensor=dml.TensorDesc.of(X), output_tensor=dml.TensorDesc.of(X), offsets=(0, 0), sizes=(4, 4), strides=(1, 1)
    )
    with pytest.raises(dml.BindingError, match=r"^input_tensor: takes .*, not list: wrap it in np.array\(...\)$"):
        dml.Device().compile(desc).bind(input_tensor=X.tolist(), output_tensor=np.empty_like(X))


def test_calls_that_succeed_do_nothing_for_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a call that succeeds looked for faults")

    for name in ("matmul_error", "slice_error", "Report"):
        monkeypatch.setattr(faults, name, never)
    quantized(a_zero_point=1, output_zero_point=np.uint8(3), out=np.zeros((2, 2), np.uint8))
    integer()
    dml.slice(X[::-1], (0, 0), (2, 2))
    dml.slice1(X, (0, 0), (2, 2), (-1, 1))


def test_messages_about_huge_arrays_take_no_memory() -> None:
    """With zero strides these arrays take a few bytes; the search for faults copies nothing of their size."""
    huge = np.broadcast_to(np.uint8(1), (2**15, 2**14))
    tracemalloc.start()
    try:
        with pytest.raises(dml.BindingError, match=r"^a has 16384 columns but b has 32768 rows: .*; did you mean b\.T\?$"):
            quantized(huge, huge)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


JUNK: tuple[Any, ...] = (
    *(
        None,
        0,
        300,
        -1,
        True,
        1.5,
        float("nan"),
        1e-60,
        10**400,
        "1",
        b"1",
        [],
        [1],
        {},
        object(),
        1j,
        np.uint8(3),
        np.int64(3),
    ),
    *(
        np.float64(1e-60),
        np.bool_(1),
        np.str_("x"),
        np.zeros(0),
        np.zeros((0, 2), np.uint8),
        np.array(3, np.uint8),
        A * 1.0,
        A * 1j,
    ),
    *(A > 1, A.T, A[None], A[::-1], A.astype(object), A.astype(FOREIGN + "i4"), np.ones((1,) * 9, np.uint8), LOCKED, LOCKED[0]),
    *(np.ones((2, 1), np.float32), np.zeros((1, 2), np.float64), np.ma.MaskedArray(A), np.array("x"), A.view("u1,u1,u1")),
    *(np.broadcast_to(np.uint8(1), (2**20, 2**20)), np.ones((3, 7, 2, 3), np.int8), np.zeros(2, "M8[s]"), memoryview(b"12")),
)


def outcome(call: Callable[..., Any], given: dict[str, Any]) -> str:
    try:
        call(**given)
    except dml.Error as error:
        return "dml.Error" if str(error) else "an error without words"
    except TypeError as error:
        told = "takes a sequence of integers"
        return f"TypeError: {told}" if f" {told}, not " in str(error) else str(error)
    return "computed"


def test_junk_is_refused_or_computed() -> None:
    """For any arguments, the call returns a result or raises an error of anydml (for integers, Python's TypeError)."""
    quantized_names = (
        *("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "output_scale", "output_zero_point"),
        *("output_data_type", "out", "device"),
    )
    calls: dict[Callable[..., Any], tuple[str, ...]] = {
        quantized: quantized_names,
        integer: ("a", "a_zero_point", "b", "b_zero_point", "out", "device"),
        lambda **o: dml.slice1(**{"input": X, "input_window_offsets": (0, 0), "input_window_sizes": (2, 2), **o}): (
            *("input", "input_window_offsets", "input_window_sizes", "input_window_strides", "output_sizes", "out", "device"),
        ),
        lambda **o: dml.slice(**{"input": X, "offsets": (0, 0), "sizes": (2, 2), **o}): (
            *("input", "offsets", "sizes", "strides", "out", "device"),
        ),
    }
    random = np.random.default_rng(0)
    outcomes: list[str] = []
    for call, names in calls.items():
        for at_once in (1, 2, 3):
            for _ in range(len(names) * (len(JUNK) if at_once == 1 else 12)):
                which = random.choice(len(names), at_once, replace=False)
                given = {names[i]: JUNK[random.integers(len(JUNK))] for i in which}
                outcomes.append(outcome(call, given))
    assert set(outcomes) == {"computed", "dml.Error", "TypeError: takes a sequence of integers"}
