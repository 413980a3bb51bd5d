"""The eager functions of all operators: made from the operator files, documented with examples that hold, told in words."""

from __future__ import annotations

import copy
import doctest
import importlib.util
import inspect
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
from anydml import operators
from anydml.functional import call as calls
from anydml.functional import functions
from anydml.functional.inference import axis_fields
from anydml.functional.inputs import array_of_number
from anydml.schema.operator import Desc

REFERENCE = dml.Device("reference")
X = np.array([1, 2, 3], np.float32)
every_operator = pytest.mark.parametrize("operator", operators.every(), ids=lambda operator: operator.spec.name)


def test_what_is_made_from_the_operator_files_is_as_they_say() -> None:
    path = Path(__file__).parent.parent / "tools" / "functions.py"
    spec = importlib.util.spec_from_file_location("make_functions", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for file, text in made.files().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is not what the operator files say: make functions"


@every_operator
def test_a_page_is_the_source_that_the_file_names(operator: type[Desc]) -> None:
    sources = sys.modules[operator.__module__].__doc__ or ""
    assert re.search(rf"{operator.spec.page.rsplit('/', 1)[1]}\b", sources)


@every_operator
def test_a_function_is_documented_and_its_example_holds(operator: type[Desc]) -> None:
    function = getattr(dml, operator.spec.name.lower())
    text = inspect.getdoc(function) or ""
    for heading in ("Parameters", "Returns", "Raises", "Notes", "Examples"):
        assert f"\n{heading}\n{'-' * len(heading)}\n" in text
    assert operator.spec.page in text
    assert list(inspect.signature(function).parameters)[-2:] == ["out", "device"]
    for name in inspect.signature(function).parameters:
        assert f"\n{name} : " in text
    names = {"np": np, "dml": dml, "ml_dtypes": ml_dtypes}
    test = doctest.DocTestParser().get_doctest(text, names, function.__name__, None, None)
    runner = doctest.DocTestRunner()
    failed, tried = runner.run(test, out=sys.stdout.write)
    assert failed == 0
    assert tried == len(test.examples) > 0


def test_what_has_no_dimensions_gains_those_of_the_tensors_it_goes_with() -> None:
    a, b = np.array([[0, 100], [200, 255]], np.uint8), np.array([[10, 20], [30, 40]], np.uint8)
    named: dict[str, Any] = dict(a_zero_point=128, output_zero_point=np.uint8(64))
    found = dml.element_wise_quantized_linear_add(a, 0.1, b, np.float32(0.5), np.array(0.2, np.float32), **named)
    assert found.tolist() == [[25, 100], [175, 227]]
    with pytest.raises(dml.DescError, match=r"a_scale\.dimension_count is 1"):
        dml.element_wise_quantized_linear_add(a, np.array([0.1], np.float32), b, 0.5, 0.2)


def test_sizes_broadcast_as_numpys_do() -> None:
    column = X[:, None]
    total = dml.element_wise_add(column, X, device=REFERENCE)
    np.testing.assert_array_equal(total, column + X, strict=True)
    np.testing.assert_array_equal(dml.element_wise_add(X, np.float32(1), device=REFERENCE), X + 1, strict=True)
    np.testing.assert_array_equal(
        dml.element_wise_add(np.float32(2), 1, device=REFERENCE), np.array(3, np.float32), strict=True
    )
    np.testing.assert_array_equal(dml.element_wise_add(column[::-1], X[::-1], device=REFERENCE), column[::-1] + X[::-1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32])
def test_python_numbers_take_the_arrays_type(dtype: Any) -> None:
    x = np.array([1, 2], dtype)
    for number in (3, 3.0):
        result = dml.element_wise_add(x, number, device=REFERENCE)
        assert result.dtype == dtype
        assert result.tolist() == [4, 5]


@pytest.mark.parametrize("value", [0.1, -0.0, 0.0, 1e-45, 2.0**-149, 3e38, float("inf"), -1e300, float("nan"), 2**24 + 1])
def test_a_number_is_rounded_once(value: float) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        for data_type in (dml.DataType.FLOAT16, dml.DataType.FLOAT32, dml.DataType.FLOAT64):
            wanted = np.array(value, data_type.dtype)
            np.testing.assert_array_equal(array_of_number(value, data_type), wanted, strict=True)
            assert np.isnan(value) or array_of_number(value, data_type).tobytes() == wanted.tobytes()


def test_attributes_that_differ_in_the_sign_of_zero_are_different_calls() -> None:
    negative = np.array([-1], np.float32)
    results = [dml.activation_elu(negative, alpha, device=REFERENCE) for alpha in (0.0, -0.0, 0.0, -0.0)]
    assert [np.signbit(r[0]) for r in results] == [True, False, True, False]
    nan = float("nan")
    before = REFERENCE.cached.cache_info().misses  # type: ignore[attr-defined]
    assert all(np.isnan(dml.activation_elu(negative, alpha, device=REFERENCE))[0] for alpha in (nan, -nan, float("nan")))
    assert REFERENCE.cached.cache_info().misses <= before + 2  # type: ignore[attr-defined]


def test_a_device_keeps_what_it_compiled_and_no_more_than_it_may() -> None:
    device = dml.Device("reference")
    info = device.cached.cache_info  # type: ignore[attr-defined]
    for _ in range(3):
        dml.element_wise_add(X, X, device=device)
        dml.slice1(X, (0,), (2,), device=device)
    assert (info().misses, info().hits) == (2, 4)
    assert info().maxsize is not None
    for same in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert repr(same) == repr(device)
        np.testing.assert_array_equal(dml.element_wise_add(X, X, device=same), X + X)


def test_arrays_of_too_few_dimensions_gain_leading_ones_which_the_result_loses() -> None:
    old = dml.Device("reference", feature_level="1_0")
    np.testing.assert_array_equal(dml.element_wise_add(X, X, device=old), X + X, strict=True)
    out = np.zeros(3, np.float32)
    assert dml.element_wise_add(X, 1, out=out, device=old) is out
    assert out.tolist() == [2, 3, 4]


def test_empty_arrays_give_empty_results_and_are_checked() -> None:
    empty = np.zeros((0, 3), np.float32)
    for result in (dml.activation_gelu(empty, device=REFERENCE), dml.element_wise_add(empty, X, device=REFERENCE)):
        assert (result.shape, result.dtype) == ((0, 3), np.dtype(np.float32))
    with pytest.raises(dml.BindingError, match="input is int32; feature level 6_4 takes float32 or float16 here"):
        dml.activation_gelu(empty.astype(np.int32), device=REFERENCE)


def test_results_are_written_where_they_are_wanted() -> None:
    for out in (np.zeros(3, np.float32), np.zeros(6, np.float32)[::2], np.zeros(3, np.float32)[::-1]):
        assert dml.element_wise_add(X, X, out=out, device=REFERENCE) is out
        np.testing.assert_array_equal(out, X + X)
    x = X.copy()
    assert dml.element_wise_add(x, x, out=x, device=REFERENCE) is x
    np.testing.assert_array_equal(x, X + X)


def test_other_libraries_arrays_and_subclasses_are_taken_for_their_memory() -> None:
    class Foreign:
        def __dlpack__(self, **_: Any) -> Any:
            return X.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    for x in (Foreign(), X.view(np.recarray), np.asarray(X.view(np.recarray))):
        assert dml.element_wise_add(x, 1, device=REFERENCE).tolist() == [2, 3, 4]  # type: ignore[arg-type]


def add(*arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: dml.element_wise_add(*arguments, **{"device": REFERENCE, **keywords})


INTEGERS = X.astype(np.int8)
LOCKED = np.zeros(3, np.float32)
LOCKED.flags.writeable = False
LEVEL_5_0 = dml.Device("reference", feature_level="5_0")
TOLD: dict[str, tuple[Callable[[], Any], type[dml.Error], str]] = {
    "a list": (add([1, 2], X), dml.BindingError, "a takes an array, not list: wrap it in np.array(...)"),
    "a complex number": (add(X, 1j), dml.BindingError, "b takes an array, not complex"),
    "nothing": (add(X, None), dml.BindingError, "b takes an array, not None"),
    "a masked array": (
        add(X, np.ma.masked_array(X, X > 1)),
        dml.BindingError,
        "b is a masked array, and a tensor has no mask",
    ),
    "numbers alone": (
        add(1, 2),
        dml.BindingError,
        "a is a Python number, and nothing tells its type: it takes an array\n"
        "b is a Python number, and nothing tells its type: it takes an array",
    ),
    "unlike types": (
        add(X, X.astype(np.float64)),
        dml.BindingError,
        "b is float64, but a is float32: their types are equal",
    ),
    "unlike shapes": (
        add(X, X[:2]),
        dml.BindingError,
        "b has shape (2,), which does not broadcast with that of a, (3,)",
    ),
    "an inexact number": (add(INTEGERS, 1.5), dml.BindingError, "b = 1.5 is no integer, and goes with int8"),
    "a number too large": (add(INTEGERS, 300), dml.BindingError, "b = 300 does not fit int8, -128..127"),
    "truth values": (
        lambda: dml.activation_gelu(X > 1, device=REFERENCE),
        dml.BindingError,
        "input is bool; feature level 6_4 takes float32 or float16 here",
    ),
    "an attribute, and a type": (
        lambda: dml.activation_elu(INTEGERS, "a", device=REFERENCE),  # type: ignore[arg-type]
        dml.BindingError,
        "input is int8; feature level 6_4 takes float32 or float16 here\nalpha takes a number, not 'a'",
    ),
    "out of another shape, read-only, shared": (
        add(X, 1, out=X[:2]),
        dml.BindingError,
        "out is float32, shape (2,), where the result is float32, shape (3,)",
    ),
    "out read-only": (add(X, 1, out=LOCKED), dml.BindingError, "out is read-only"),
    "out over half of an input": (
        lambda: (lambda x: dml.element_wise_add(x[:3], x[:3], out=x[1:4], device=REFERENCE))(np.zeros(4, np.float32)),
        dml.BindingError,
        "out shares memory with a; in place, both are the same elements in the same layout\n"
        "out shares memory with b; in place, both are the same elements in the same layout",
    ),
    "a level's rule, in the call's names": (
        lambda: dml.element_wise_quantize_linear(X, 1, device=LEVEL_5_0),
        dml.DescError,
        "ElementWiseQuantizeLinear.zero_point_present: zero_point is absent; it must be there below feature level 6_2",
    ),
    "an axis before the first": (
        lambda: dml.reduce(X, "SUM", [-2], device=REFERENCE),
        dml.BindingError,
        "axes is (-2,), and axes go from -1 to 0",
    ),
    "a name of no function": (
        lambda: dml.reduce(X, "SUMS", device=REFERENCE),
        dml.BindingError,
        "function: there is no DML_REDUCE_FUNCTION_SUMS; the names are ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM, LOG_SUM_EXP, "
        "MAX, MIN, MULTIPLY, SUM, SUM_SQUARE",
    ),
    "a rule broken before the output's sizes are known, in the call's names": (
        lambda: dml.gather(X.reshape(1, 3), np.array([0]), device=REFERENCE),
        dml.DescError,
        "Gather.same_dimension_count: input.dimension_count and output.dimension_count are 2, and indices.dimension_count is "
        "1; they must be equal\n    would fit: indices.dimension_count = 2",
    ),
    "a device": (
        add(X, 1, device="gpu"),
        dml.UnsupportedError,
        "there is no device 'gpu'; the devices are cpu, reference",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_a_failed_call_says(case: str) -> None:
    call, kind, text = TOLD[case]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_a_number_takes_the_type_that_the_rules_tell() -> None:
    assert dml.element_wise_quantize_linear(X * 10, 0.5, device=REFERENCE).tolist() == [20, 40, 60]
    assert dml.element_wise_quantize_linear(X * 10, 0.5, 3, device=REFERENCE).tolist() == [23, 43, 63]
    zero = np.array(3, np.int8)
    assert dml.element_wise_quantize_linear(X * 10, np.float32(0.5), zero, device=REFERENCE).dtype == np.int8


def test_negative_axes_count_from_the_end() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(3):
        assert np.array_equal(dml.join([x, x + 1], axis=axis - 3), np.concatenate([x, x + 1], axis - 3))
        assert np.array_equal(dml.cumulative_summation(x, axis=axis - 3), x.cumsum(axis - 3))
        wanted = dml.activation_softmax1(x, axes=(axis,))
        assert np.array_equal(dml.activation_softmax1(x, axes=(axis - 3,)), wanted)
    assert dml.reduce(x, "SUM", [0, -1]).ravel().tolist() == x.sum((0, 2)).tolist()
    traced = dml.graph(lambda x: dml.reduce(x, "SUM", [-1]), x=dml.TensorDesc("FLOAT32", (2, 3, 4)))
    assert np.array_equal(traced(x=x), x.sum(-1, keepdims=True))
    # every attribute that is an axis is known as one, so that all of them are taken
    for operator in operators.every():
        axes = {f.wire for f in operator.spec.attributes if f.wire in ("Axis", "Axes")}
        assert set(axis_fields(operator.spec)) == axes, operator


def test_compare_takes_every_function() -> None:
    assert dml.compare(dml.element_wise_add, X, 1, actual=X + 1).equal
    assert not dml.compare(dml.element_wise_add, X, 1, actual=X + 2).equal


def test_every_function_goes_through_the_generic_call_or_is_special() -> None:
    special = {"slice", "slice1", "matrix_multiply_integer", "quantized_linear_matrix_multiply"}
    for operator in operators.every():
        names = functions.__dict__[operator.spec.name.lower()].__code__.co_names
        assert ("call" in names) is (operator.spec.name.lower() not in special)
    assert calls.call.__module__ == "anydml.functional.call"
