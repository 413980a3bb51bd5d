"""The eager functions of all operators: made from the operator files, with examples that hold and descriptions in words."""

from __future__ import annotations

import ast
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
from anydml.catalog import FUNCTIONS
from anydml.functional import functions
from anydml.functional.inference import axis_fields
from anydml.functional.inputs import array_of_number
from every_kernel import Operator
from tables import OPERATORS, for_each

REFERENCE = dml.Device("reference")
X = np.array([1, 2, 3], np.float32)


def tool(name: str) -> Any:
    """A module of the folder `tools`."""
    path = Path(__file__).parents[2] / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tools_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_what_is_made_from_the_operator_files_is_as_they_say() -> None:
    for file, text in tool("functions").files().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is not what the operator files say: make functions"


def test_editors_show_the_signatures_and_docstrings_that_python_shows() -> None:
    editors = tool("editors")
    assert editors.differing() == []
    assert not editors.same("slice1", editors.stubs() | {"slice1": editors.stubs()["slice"]})


@for_each(OPERATORS, at_least=177)
def test_a_page_is_the_source_that_the_file_names(operator: Operator) -> int:
    sources = sys.modules[operator.__module__].__doc__ or ""
    assert re.search(rf"{operator.spec.page.rsplit('/', 1)[1]}\b", sources)
    return 1


@for_each(OPERATORS, at_least=177)
def test_a_function_is_documented_and_its_example_holds(operator: Operator) -> int:
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
    return tried


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
    assert (info().misses, len(device.calls)) == (2, 2)
    assert info().maxsize is not None
    for same in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert repr(same) == repr(device)
        np.testing.assert_array_equal(dml.element_wise_add(X, X, device=same), X + X)


@pytest.mark.parametrize(
    ("function", "arguments", "types", "others"),
    [
        (dml.argmax, dict(axes=(1,)), "int64 int32 uint64 uint32", "float32 int8 uint16"),
        (dml.argmin, dict(axes=(1,)), "int64 int32 uint64 uint32", "float32 int8 uint16"),
        (dml.reduce, dict(function="ARGMAX", axes=(1,)), "int64 int32 uint64 uint32", "float32 int8 uint16"),
        (dml.reduce, dict(function="SUM", axes=(1,)), "float32", "int64 float16"),
        (dml.element_wise_is_nan, {}, "uint8 uint32", "int8 uint64"),
        (dml.element_wise_logical_equals, dict(b=1), "uint8 uint32", "int8 uint64"),
        (dml.element_wise_quantize_linear, dict(scale=np.float32(1)), "uint8 int8", "float32"),
        (dml.element_wise_quantize_linear, dict(scale=np.float32(1), zero_point=np.int8(0)), "int8", "uint8"),
    ],
)
def test_out_may_have_any_data_type_that_the_page_lists(function: Any, arguments: Any, types: str, others: str) -> None:
    """If it does not follow from an input; the result equals a cast of the default's result."""
    x = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    wanted = function(x, **arguments)
    for device in (dml.Device(), REFERENCE):
        for name in types.split():
            out = np.zeros(wanted.shape, name)
            for _ in range(2):  # the second call is a cached one
                assert function(x, **arguments, out=out, device=device) is out
                np.testing.assert_array_equal(out, wanted.astype(name), strict=True)
            wide = np.zeros((*wanted.shape[:-1], 2 * wanted.shape[-1]), name)
            function(x, **arguments, out=wide[:, ::-2], device=device)  # copied afterwards: no desc has its strides
            np.testing.assert_array_equal(wide[:, ::-2], wanted.astype(name), strict=True)
        for name in others.split():
            with pytest.raises(dml.BindingError, match=f"^out is {name}, .* where the result is {wanted.dtype}"):
                function(x, **arguments, out=np.zeros(wanted.shape, name), device=device)


def test_one_of_several_outputs_may_have_another_data_type() -> None:
    x = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    places = np.zeros((2, 2), np.uint64)
    found = dml.top_k1(x, k=2, axis=1, out=(None, places))
    assert found.output_index is places
    assert places.tolist() == [[0, 2], [1, 2]]
    with pytest.raises(dml.BindingError, match=r"out\[1\] is int64, .* where the result is uint32"):
        dml.top_k1(x, k=2, axis=1, out=(None, places.view(np.int64)))
    places = np.zeros((1, 1, 2, 3), np.uint64)
    dml.max_pooling2(x[None, None], window_size=(1, 1), strides=(1, 1), out=(None, places))
    assert places.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(dml.BindingError, match=r"out is int32, shape .* where the result is int8"):
        dml.cast(x, output_data_type="INT8", out=np.zeros((2, 3), np.int32))  # the requested type
    with pytest.raises(dml.DescError, match=r"^Argmax.axis_in_range: axes\[0\] is 7[^;]*; [^;]*$"):
        dml.argmax(x, axes=(7,), out=np.zeros((2, 1), np.int64))  # another fault does not cause this one


def test_one_axis_may_be_named_as_one() -> None:
    x = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    named = [f for f in FUNCTIONS if "axes" in inspect.signature(getattr(dml, f)).parameters]
    assert len(named) >= 8
    assert all("axis" in inspect.signature(getattr(dml, f)).parameters for f in named)
    functions: Any = ((dml.activation_softmax1, {}), (dml.reduce, {"function": "SUM"}), (dml.argmax, {}))
    for function, one in functions:
        wanted = function(x, **one, axes=(1,))
        for given in ({"axis": 1}, {"axis": -1}, {"axes": 1}, {"axes": np.int64(1)}, {"axes": [1]}, {"axis": np.int32(-1)}):
            np.testing.assert_array_equal(function(x, **one, **given), wanted)
        for wrong in ({"axis": 2}, {"axes": 2}):
            with pytest.raises(dml.DescError, match=r"axes\[0\] is 2; it must be less than input.dimension_count"):
                function(x, **one, **wrong)
        with pytest.raises(dml.BindingError, match=r"^axis and axes are both given, and are the same$"):
            function(x, **one, axis=1, axes=(1,))


def test_names_may_be_in_lower_case_and_others_say_which_is_meant() -> None:
    x = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    np.testing.assert_array_equal(dml.reduce(x, "sum", axis=0), [[3, 6, 6]])
    assert dml.TensorDesc("float32", (1,)).data_type == dml.DataType.FLOAT32
    for name, meant in (("MEAN", "AVERAGE"), ("mean", "AVERAGE"), ("prod", "MULTIPLY")):
        told = f"^function: there is no DML_REDUCE_FUNCTION_{name}; did you mean {meant}\\? The names are ARGMAX"
        with pytest.raises(dml.BindingError, match=told):
            dml.reduce(x, name, axis=0)
    for mixed in ("Sum", "sUM"):
        with pytest.raises(dml.BindingError, match="; the names are"):
            dml.reduce(x, mixed, axis=0)
    for wanted in ("int8", np.int8, np.dtype("i1"), "INT8", dml.DataType.INT8):
        np.testing.assert_array_equal(dml.cast(x, wanted), x.astype(np.int8), strict=True)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: loose.activation_relu(x), "float16, int32, int16 or int8 here: use input.astype(np.float32)"),
        (lambda x: loose.gemm(x, x), "here: use a.astype(np.float32)"),
        (lambda x: loose.gemm(x, x.astype(np.float32)), "b is float32, but a is float64: .*, with a.astype(np.float32)"),
        (
            lambda x: loose.element_wise_add(x.astype(np.float32), np.float64(2)),
            "b is float64, .*, with b.astype(np.float32)",
        ),
        (lambda x: loose.activation_relu(x.tolist()), "not list: wrap it in np.array(..., np.float32)"),
        (lambda x: loose.element_wise_add([[1, 2]], x), "not list: wrap it in np.array(...)"),
        (lambda x: loose.activation_relu(2.0), "give an array, such as np.float32(1)"),
    ],
)
def test_arrays_of_float64_lists_and_numbers_are_told_what_to_be(call: Any, text: str) -> None:
    with pytest.raises(dml.BindingError, match=re.escape(text).replace(r"\.\*", ".*") + "(\n|$)"):
        call(np.ones((2, 2)))


loose: Any = dml  # for calls that type checkers refuse


def rng(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)


# a call, its inputs, its vectors, and their dimensions
VECTORS: dict[str, tuple[Any, list[Any], list[Any], tuple[int, ...]]] = {
    "convolution": (lambda x, f, b: dml.convolution(x, f, b), [rng(2, 4, 5, 6), rng(6, 4, 3, 3)], [rng(6)], (1, 6, 1, 1)),
    "quantized_linear_convolution": (
        lambda x, f, b: dml.quantized_linear_convolution(x, 0.5, f, 0.25, 2.0, bias=b),
        [(9 * rng(1, 2, 5, 5)).astype(np.int8), (9 * rng(3, 2, 3, 3)).astype(np.int8)],
        [(99 * rng(3)).astype(np.int32)], (1, 3, 1, 1)
    ),
    "batch_normalization": (
        lambda x, *v: dml.batch_normalization(x, *v), [rng(2, 4, 5, 4)], [rng(4), abs(rng(4)), rng(4), rng(4)], (1, 4, 1, 1)
    ),
    "batch_normalization_training": (
        lambda x, *v: dml.batch_normalization_training(x, *v).output, [rng(2, 4, 5, 4)], [rng(4), rng(4)], (1, 4, 1, 1)
    ),
    "layer": (
        lambda x, *v: loose.mean_variance_normalization2(x, *v, axes=(2,)), [rng(2, 3, 24)], [rng(24), rng(24)], (1, 1, 24)
    ),
    "layer, from the end": (
        lambda x, *v: loose.mean_variance_normalization1(x, *v, axis=-1), [rng(2, 3, 24)], [rng(24), rng(24)], (1, 1, 24)
    ),
    "not the last": (
        lambda x, *v: loose.mean_variance_normalization1(x, *v, axes=[1]), [rng(2, 3, 3)], [rng(3), rng(3)], (1, 3, 1)
    ),
    "instance": (
        lambda x, *v: loose.mean_variance_normalization1(x, *v, axes=(2, 3)), [rng(2, 4, 5, 4)], [rng(4), rng(4)], (1, 4, 1, 1)
    ),
    "by default": (lambda x, *v: loose.mean_variance_normalization1(x, *v), [rng(2, 4, 5, 4)], [rng(4), rng(4)], (1, 4, 1, 1)),
    "of the oldest version": (
        lambda x, *v: loose.mean_variance_normalization(x, *v), [rng(2, 4, 5, 4)], [rng(4), rng(4)], (1, 4, 1, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VECTORS)
def test_vectors_lie_along_the_channel_or_the_axis(case: str) -> None:
    call, inputs, vectors, sizes = VECTORS[case]
    wanted = call(*inputs, *[v.reshape(sizes) for v in vectors])
    for given in (vectors, [np.repeat(v, 2)[::2] for v in vectors], [v[::-1].copy()[::-1] for v in vectors]):
        for _ in range(2):  # the second call is a cached one
            np.testing.assert_array_equal(call(*inputs, *given), wanted, strict=True)
    tensors = {f"x{at}": dml.TensorDesc.of(x) for at, x in enumerate([*inputs, *vectors])}
    graph = dml.graph(lambda **t: call(*t.values()), **tensors)
    arrays = {f"x{at}": x for at, x in enumerate([*inputs, *vectors])}
    np.testing.assert_array_equal(graph(**arrays), wanted, strict=True)
    with pytest.raises(dml.Error):
        call(*inputs, *[np.append(v, v[:1]) for v in vectors])


def test_a_vector_that_may_lie_along_several_dimensions_is_refused() -> None:
    with pytest.raises(dml.DescError, match="dimension_count"):
        dml.mean_variance_normalization1(rng(2, 4, 4, 4), rng(4), rng(4), axes=(1, 2, 3))


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ((3, 4), (4, 5), (5,)),
        ((3, 4), (4, 5), (3, 1)),
        ((3, 4), (4, 5), ()),
        ((2, 3, 4), (4, 5), None),
        ((3, 4), (2, 4, 5), (1, 5)),
        ((2, 1, 3, 4), (6, 4, 5), (6, 1, 1)),
        ((3, 4), (4, 5), (2, 3, 5)),
    ],
)
def test_gemm_broadcasts_batches_and_what_is_added(a: Any, b: Any, c: Any) -> None:
    """As in NumPy's functions; integers are exact in float32."""
    x, y = (np.round(4 * rng(*sizes)) for sizes in (a, b))
    z = None if c is None else np.round(4 * rng(*c)) if c else np.float32(3)
    wanted = x @ y + (0 if z is None else z)
    for device in (dml.Device(), REFERENCE):
        for _ in range(2):
            np.testing.assert_array_equal(dml.gemm(x, y, z, device=device), wanted, strict=True)
    if z is not None and c:
        turned = dml.gemm(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2), z, "TRANSPOSE", "TRANSPOSE")
        np.testing.assert_array_equal(turned, wanted, strict=True)
        graph = dml.graph(dml.gemm, a=dml.TensorDesc.of(x), b=dml.TensorDesc.of(y), c=z)
        np.testing.assert_array_equal(graph(a=x, b=y), wanted, strict=True)
    if not c:
        np.testing.assert_array_equal(dml.gemm(x, y, 3.0 if c == () else None), wanted, strict=True)  # type: ignore[arg-type]
    old = dml.Device(feature_level="1_0")
    np.testing.assert_array_equal(dml.gemm(x, y, z, device=old), wanted, strict=True)
    with pytest.raises(dml.DescError):
        dml.gemm(x, y, np.ones(4, np.float32))


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
        "a is a Python number, and no other input determines its type: give an array, such as np.float32(1)\n"
        "b is a Python number, and no other input determines its type: give an array, such as np.float32(1)",
    ),
    "unlike types": (
        add(X, X.astype(np.float64)),
        dml.BindingError,
        "b is float64, but a is float32: their types must be equal, with b.astype(np.float32)",
    ),
    "unlike shapes": (
        add(X, X[:2]),
        dml.BindingError,
        "b has shape (2,), which does not broadcast with that of a, (3,)",
    ),
    "an inexact number": (add(INTEGERS, 1.5), dml.BindingError, "b = 1.5 is not an integer, and its tensor is int8"),
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
        "there is no device 'gpu'; the devices are cpu, reference, opencl",
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
    # every attribute that is an axis must be known as one, so that any form of it is accepted
    for operator in operators.every():
        axes = {f.wire for f in operator.spec.attributes if f.wire in ("Axis", "Axes")}
        assert set(axis_fields(operator.spec)) == axes, operator


def test_compare_takes_every_function() -> None:
    assert dml.compare(dml.element_wise_add, X, 1, actual=X + 1).equal
    assert not dml.compare(dml.element_wise_add, X, 1, actual=X + 2).equal


def test_the_stubs_are_what_python_sees_at_run_time() -> None:
    """Every signature, every class of outputs, and the beginning of every docstring, as editors show them."""
    tree = ast.parse((Path(functions.__file__ or "").with_suffix(".pyi")).read_text(encoding="utf-8"))
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert {*dir(functions)} == {*stubs}
    for name, node in stubs.items():
        made = getattr(functions, name)
        assert made.__module__ == functions.__name__
        if isinstance(node, ast.ClassDef):
            fields = {ast.unparse(x.target): ast.unparse(x.annotation) for x in node.body if isinstance(x, ast.AnnAssign)}
            assert fields == {field: getattr(kind, "__forward_arg__", kind) for field, kind in made.__annotations__.items()}
            continue
        assert inspect.isfunction(made)
        found = ast.parse(f"def f{inspect.signature(made)}: ...").body[0]
        assert isinstance(found, ast.FunctionDef)
        assert ast.unparse(node.args) == _plain(found.args)
        assert node.returns is not None
        assert found.returns is not None
        assert ast.unparse(node.returns) == _plain(found.returns)
        told, shown = inspect.getdoc(made) or "", ast.get_docstring(node) or ""
        summary, _, parameters = shown.partition("\n\nParameters\n")
        assert told.startswith(f"{summary}\n\nParameters\n{parameters}"), name


def _plain(node: ast.AST) -> str:
    """The text of annotations that are strings."""

    class Plain(ast.NodeTransformer):
        def visit_arg(self, arg: ast.arg) -> ast.arg:
            if isinstance(arg.annotation, ast.Constant):
                arg.annotation = ast.parse(str(arg.annotation.value), mode="eval").body
            return arg

    if isinstance(node, ast.Constant):
        return ast.unparse(ast.parse(str(node.value), mode="eval"))
    return ast.unparse(Plain().visit(node))


def test_a_function_is_defined_once_and_pickled_by_name() -> None:
    for name in ("gemm", "top_k1"):
        assert getattr(dml, name) is getattr(functions, name) is pickle.loads(pickle.dumps(getattr(dml, name)))
    assert type(dml.top_k1(X, k=1, axis=0)) is functions.TopK1Outputs
    with pytest.raises(AttributeError, match="has no attribute 'gemn'"):
        _ = functions.gemn  # type: ignore[attr-defined]
