"""`compare`: sentences for differences made on purpose, and counts against the oracle."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

import anydml as dml
import hard_cases
import oracle
from anydml.explain.compare import compare
from anydml.explain.comparison import Comparison, Difference
from anydml.schema.operator import Example
from every_kernel import SOAK, Operator, flat
from hard_cases import QuantizedCase, quantized_cases
from tables import EXAMPLES, for_each
from tensors import elements_of

Array = NDArray[Any]
Parts = tuple[Any, dict[str, Array], Array]  # a desc, its inputs, its output
HALF = Fraction(1, 2)
PLACES = 2 if SOAK == 1 else 6  # of an example, that are changed one by one


def tensor(data_type: str, sizes: Sequence[int], **members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType[data_type], tuple(sizes), **members)


def halves(products: list[int], output_zero_point: int = 0, data_type: str = "INT8") -> Parts:
    """A desc whose real outputs are half of each product, its inputs, and the exact result."""
    n = len(products)
    b = np.array([products], np.int8)
    scale = tensor("FLOAT32", (1,))
    output = tensor(data_type, (1, n))
    desc = dml.QuantizedLinearMatrixMultiply(
        a_tensor=tensor("INT8", (1, 1)),
        a_scale_tensor=scale,
        b_tensor=dml.TensorDesc.of(b),
        b_scale_tensor=scale,
        output_scale_tensor=scale,
        output_zero_point_tensor=tensor(data_type, (1,)),
        output_tensor=output,
    )
    inputs: dict[str, Array] = {
        "a_tensor": np.ones((1, 1), np.int8),
        "a_scale_tensor": np.array([0.5], np.float32),
        "b_tensor": b,
        "b_scale_tensor": np.ones(1, np.float32),
        "output_scale_tensor": np.ones(1, np.float32),
        "output_zero_point_tensor": np.array([output_zero_point], output.data_type.dtype),
    }
    limits = np.iinfo(output.data_type.dtype)
    exact = [min(max(oracle.round_half_even(Fraction(p, 2)) + output_zero_point, limits.min), limits.max) for p in products]
    return desc, inputs, np.array([exact], output.data_type.dtype)


def integers(a: Array, b: Array) -> Parts:
    output = tensor("INT32", (a.shape[0], b.shape[1]))
    desc = dml.MatrixMultiplyInteger(a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc.of(b), output_tensor=output)
    return desc, {"a_tensor": a, "b_tensor": b}, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def test_what_is_equal_says_so_with_ties_and_saturations() -> None:
    desc, inputs, exact = halves([1, 3, 5, 2, -128, 100], output_zero_point=-70)
    comparison = compare(desc, inputs, exact)
    assert comparison == Comparison(6, 0, saturated_low=1, ties=3)
    assert comparison.equal
    assert str(comparison) == "all 6 are equal (3 ties, 1 saturates low)"
    assert str(compare(*halves([1, 127, 126], 100))) == "all 3 are equal (2 ties, 2 saturate high)"
    assert str(compare(*halves([2, 4]))) == "all 2 are equal"


def test_one_step_at_a_tie() -> None:
    desc, inputs, exact = halves([1, 2, 3, 4])
    actual = exact + np.array([[1, 0, 0, 0]], np.int8)  # 0.5 rounded up, not to even
    comparison = compare(desc, inputs, actual)
    assert str(comparison) == (
        "1 of 4 differs by 1, at a tie. It equals rounding half away from zero in all 4 outputs; the exact result in 3. "
        "Equally often it equals rounding half up and fixed-point requantisation, rounded twice"
    )
    assert comparison.steps == {1: 1}
    (worst,) = comparison.worst
    assert (worst.coordinates, worst.expected, worst.actual, worst.exact, worst.distance_to_tie) == ((0, 0), 0, 1, "0.5", 0.0)
    assert str(compare(desc, inputs, exact + np.array([[1, 0, -1, 0]], np.int8))) == "2 of 4 differ by 1, all at a tie"
    # 1.4 is one step wrong and not near to a tie
    inputs["a_scale_tensor"] = np.array([0.7], np.float32)
    comparison = compare(desc, inputs, np.array([[1, 2, 2, 3]], np.int8))
    assert str(comparison) == "1 of 4 differs by 1; this is not a rounding difference"


def test_one_step_next_to_a_tie() -> None:
    """a scale just above 1/2: 1, 3, .. of it are a hair above a tie."""
    desc, inputs, _ = halves([1, 3, 5, 20])
    inputs["a_scale_tensor"] = np.array([0.5 + 2**-13], np.float32)
    exact = np.array([[1, 2, 3, 10]], np.int8)
    assert compare(desc, inputs, exact).equal
    assert compare(desc, inputs, exact).ties == 0
    comparison = compare(desc, inputs, np.array([[0, 2, 2, 10]], np.int8))
    assert str(comparison) == "2 of 4 differ by 1, all within 0.00062 of a tie"  # 5 * 2^-13 is 0.0006103515625, rounded up
    assert comparison.within == 5 * 2**-13
    assert [worst.coordinates for worst in comparison.worst] == [(0, 2), (0, 0)]  # equally wrong: the farther from a tie first
    assert comparison.worst[0].exact == "2.5006103515625"
    inputs["a_scale_tensor"] = np.array([0.5 + 2**-14], np.float32)
    assert str(compare(desc, inputs, np.array([[0, 2, 3, 10]], np.int8))) == "1 of 4 differs by 1, within 6.2e-5 of a tie"


def test_several_steps_far_from_a_tie() -> None:
    desc, inputs, exact = halves([20, 40, 60])
    comparison = compare(desc, inputs, exact + np.array([[1, -3, 0]], np.int8))
    assert str(comparison) == "2 of 3 differ by 1 to 3; this is not a rounding difference"
    assert comparison.steps == {-3: 1, 1: 1}
    assert [worst.coordinates for worst in comparison.worst] == [(0, 1), (0, 0)]


def test_a_result_that_wraps_where_it_should_saturate() -> None:
    desc, inputs, exact = halves([100, 127, 126, 2], output_zero_point=100)
    assert exact.tolist() == [[127, 127, 127, 101]]
    wrapped = np.array([[150 - 256, 164 - 256, 163 - 256, 101]], np.int8)
    comparison = compare(desc, inputs, wrapped)
    assert str(comparison) == (
        "3 of 4 differ by 219 to 233, all where the exact result saturates; this is not a rounding difference. "
        "It equals results that wrap where they should saturate in all 4 outputs; the exact result in 1. "
        "Equally often it equals results quantised in the other signedness"
    )
    assert (comparison.saturated_low, comparison.saturated_high, comparison.differing_clamped) == (0, 3, 3)
    assert comparison.within is None
    wrapped[0, 3] = 102
    assert str(compare(desc, inputs, wrapped)) == (
        "4 of 4 differ by 1 to 233, 3 where the exact result saturates; this is not a rounding difference. "
        "It equals results that wrap where they should saturate in 3 of 4 outputs (3 of the 4 that differ); "
        "the exact result in 0. Equally often it equals results quantised in the other signedness"
    )
    exact[0, 1] = 126
    assert str(compare(desc, inputs, exact)) == (
        "1 of 4 differs by 1, where the exact result saturates; this is not a rounding difference"
    )


def test_sums_that_wrap_are_counted() -> None:
    k = 33_100  # 255 * 255 * 33,026 is more than INT32 holds
    a = np.full((2, k), 255, np.uint8)
    a[1] = 1
    desc, inputs, exact = integers(a, np.full((k, 2), 255, np.uint8))
    assert exact[0, 0] < 0
    assert str(compare(desc, inputs, exact)) == "all 4 are equal (2 sums wrap)"
    clamped = exact.copy()
    clamped[0] = 2**31 - 1
    comparison = compare(desc, inputs, clamped)
    step = 2**31 - 1 - int(exact[0, 0])
    assert str(comparison) == (
        f"2 of 4 differ by {step}, all where the exact sum wraps. "
        "It equals accumulators that saturate in int32 in all 4 outputs; the exact result in 2"
    )
    assert comparison.wrapped == 2
    assert comparison.worst[0].exact == str(255 * 255 * k)
    clamped[1, 1] += 1
    assert str(compare(desc, inputs, clamped)) == (
        f"3 of 4 differ by 1 to {step}, 2 where the exact sum wraps. It equals accumulators that saturate in int32 "
        "in 3 of 4 outputs (2 of the 3 that differ); the exact result in 1"
    )
    exact[1, 0] -= 2
    assert str(compare(desc, inputs, exact)) == "1 of 4 differs by 2"


def test_a_copy_names_the_first_wrong_coordinate_and_where_it_comes_from() -> None:
    example = dml.Slice1.spec.examples[1]  # strides -2 and 2: 14 16 / 6 8
    desc = dml.Slice1(**example.fields)
    actual = example.output.copy()
    actual[0, 0, 1] = (8, 6)
    comparison = compare(desc, example.inputs, actual)
    assert str(comparison) == "2 of 4 differ, the first at [0, 0, 1, 0]: 8.0, not input_tensor[0, 0, 1, 1] = 6.0"
    assert not comparison.steps
    assert [worst.coordinates for worst in comparison.worst] == [(0, 0, 1, 0), (0, 0, 1, 1)]
    actual[0, 0, 1, 0] = 6
    assert str(compare(desc, example.inputs, actual)) == (
        "1 of 4 differs, at [0, 0, 1, 1]: 6.0, not input_tensor[0, 0, 1, 3] = 8.0"
    )


def test_an_older_slice_is_compared_as_the_newest() -> None:
    example = dml.Slice.spec.examples[1]
    actual = example.output.copy()
    actual[0, 0, 0, 1] = 6
    assert str(compare(dml.Slice(**example.fields), example.inputs, actual)) == (
        "1 of 4 differs, at [0, 0, 0, 1]: 6.0, not input_tensor[0, 0, 1, 3] = 8.0"
    )


def test_copies_are_compared_by_their_bits() -> None:
    t = tensor("FLOAT32", (4,))
    desc = dml.Slice1(
        input_tensor=t, output_tensor=t, input_window_offsets=(0,), input_window_sizes=(4,), input_window_strides=(-1,)
    )
    bits = np.array([0x7F800001, 0x80000000, 0x7F800000, 0x3F800000], np.uint32)
    assert compare(desc, {"input_tensor": bits.view(np.float32)}, bits[::-1].copy().view(np.float32)).equal
    wrong = np.array([0x3F800000, 0x7F7FFFFF, 0, 0x7FC00001], np.uint32).view(np.float32)
    comparison = compare(desc, {"input_tensor": bits.view(np.float32)}, wrong)
    assert [(worst.expected, worst.actual) for worst in comparison.worst] == [
        ("inf", 3.4028234663852886e38),
        (-0.0, 0.0),
        ("nan (0x7f800001)", "nan (0x7fc00001)"),
    ]
    assert str(comparison.worst[1].expected) == "-0.0"
    json.dumps(comparison.to_dict(), allow_nan=False)


def shown(x: Any) -> int | float | str:
    """An element as a Difference has it: infinities and NaNs in words."""
    if np.isnan(x):
        return f"nan ({int(x.view(f'u{x.itemsize}')):#x})"
    value: int | float = x.item()
    return value if np.isfinite(x) else str(value)


@for_each(EXAMPLES, at_least=90, parts=4)
def test_every_example_is_equal_to_its_output(operator: Operator, example: Example) -> int:
    desc = operator(**example.fields)
    outputs = flat(desc, example.outputs)
    for name, wanted in outputs.items():
        comparison = compare(desc, example.inputs, wanted, name)
        assert comparison.equal
        assert comparison.total == math.prod(next(t.desc.sizes for t in desc.tensors() if t.name == name))
    return len(outputs)


@for_each(EXAMPLES, at_least=180, parts=4)
def test_one_changed_output_is_found_whatever_the_operator(operator: Operator, example: Example) -> int:
    desc = operator(**example.fields)
    tensors = {t.name: t.desc for t in desc.tensors()}
    outputs = {name: elements_of(tensors[name], x) for name, x in flat(desc, example.outputs).items()}
    places = [(name, at) for name, x in outputs.items() for at in itertools.product(*map(range, x.shape))]
    chosen = places[:: max(1, len(places) // PLACES)]
    for name, at in chosen:
        wanted = outputs[name]
        actual = wanted.copy()
        if np.isnan(wanted[at]):  # which equals every other NaN
            actual[at] = 1
        else:
            actual.view(f"u{actual.itemsize}")[at] ^= 1
        comparison = compare(desc, example.inputs, actual, name)
        assert comparison.differing == 1
        assert comparison.worst[0].coordinates == at
        assert comparison.worst[0].expected == shown(wanted[at])
        assert comparison.worst[0].actual == shown(actual[at])
        facts = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert facts["sentence"] == str(comparison)
        assert facts["equal"] is False
        assert facts["worst"][0]["coordinates"] == list(at)
    return len(chosen)


def test_owned_inputs_strided_outputs_and_flat_arrays_are_taken() -> None:
    desc, inputs, exact = halves([1, 3, 5, 7])
    owned = replace(desc, b_tensor=tensor("INT8", (1, 4), flags="OWNED_BY_DML"))
    assert compare(owned, inputs, exact).equal
    assert compare(desc, inputs, exact.ravel()).equal
    assert compare(desc, inputs, np.repeat(exact, 2, axis=1)[:, ::2]).equal
    apart = replace(desc, output_tensor=tensor("INT8", (1, 4), strides=(8, 2)))
    flat = np.full(7, 99, np.int8)
    flat[::2] = exact
    assert compare(apart, inputs, flat).equal
    assert compare(apart, inputs, exact).equal
    flat[4] = 9
    assert compare(apart, inputs, flat).worst[0].coordinates == (0, 2)


def test_a_promised_alignment_is_not_asked_of_arrays_from_files() -> None:
    desc, inputs, exact = halves([1, 3])
    aligned = replace(desc, b_tensor=tensor("INT8", (1, 2), guaranteed_base_offset_alignment=2**20))
    assert compare(aligned, inputs, exact).equal


def test_which_of_several_outputs_is_meant_is_asked() -> None:
    example = dml.TopK1.spec.examples[0]
    desc = dml.TopK1(**example.fields)
    value, index = example.outputs.values()
    with pytest.raises(
        dml.BindingError,
        match="output must name the output that `actual` is; TOP_K1 has output_value_tensor, output_",
    ):
        compare(desc, example.inputs, value)
    with pytest.raises(dml.BindingError, match="there is no output 'values'"):
        compare(desc, example.inputs, value, "values")
    assert compare(desc, example.inputs, index, "output_index_tensor").equal
    x = example.inputs["input_tensor"]
    made = dml.top_k1(x, desc.axis, desc.k, desc.axis_direction)
    again = compare(dml.top_k1, x, desc.axis, desc.k, desc.axis_direction, actual=made[0], output="output_value_tensor")
    assert again.equal


def test_floats_differ_in_units_in_the_last_place() -> None:
    x = np.array([0.5, -0.0, np.inf, np.nan, 2], np.float32)
    y = dml.activation_gelu(x)
    assert compare(dml.activation_gelu, x, actual=y).equal
    z = y.copy()
    z[0] = np.nextafter(np.nextafter(z[0], np.float32(9)), np.float32(9))
    z[4] = np.nextafter(z[4], np.float32(0))
    comparison = compare(dml.activation_gelu, x, actual=z)
    assert str(comparison) == (
        "2 of 5 differ by 1 to 2 ULP, the farthest at [0] 0.345731288, not 0.345731229 "
        "(absolute error 5.76e-08, relative 1.66e-07, 1.93 ULP)"
    )
    assert comparison.max_step == 2
    assert comparison.worst[0].exact.startswith("0.345731230")
    z[2] = np.nan
    assert compare(dml.activation_gelu, x, actual=z).differing == 3


@pytest.mark.parametrize("data_type", ["INT64", "UINT64"])
def test_differences_of_64_bits_do_not_wrap(data_type: str) -> None:
    """2^64 - 1 less than the exact result, which int64 does not hold."""
    dtype = dml.DataType[data_type].dtype
    least, most = (np.array([x], dtype) for x in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    tensor = dml.TensorDesc(data_type, (1,))
    desc = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    found = compare(desc, {"a_tensor": most, "b_tensor": np.zeros_like(most)}, least)
    assert found.steps == {1 - 2**64: 1}


def test_what_cannot_be_compared_is_refused() -> None:
    desc, inputs, exact = halves([1, 3])
    with pytest.raises(dml.BindingError, match=r"^actual: is int32"):
        compare(desc, inputs, exact.astype(np.int32))
    with pytest.raises(dml.BindingError, match=r"^actual: holds 1 bytes where the desc needs 2"):
        compare(desc, inputs, exact[0, :1].copy())
    with pytest.raises(dml.BindingError, match=r"^a_tensor: is missing"):
        compare(desc, {**inputs, "a_tensor": None}, exact)
    with pytest.raises(dml.DescError):
        compare(replace(desc, output_tensor=tensor("INT8", (1, 3))), inputs, exact)
    with pytest.raises(dml.DataError):
        compare(desc, {**inputs, "a_scale_tensor": np.zeros(1, np.float32)}, exact)


# --- the outcome ---


def test_a_comparison_is_neither_true_nor_false() -> None:
    desc, inputs, exact = halves([1, 3, 5])
    for actual in (exact, exact + np.int8(1)):
        with pytest.raises(TypeError, match=r"neither true nor false; use \.equal"):
            assert compare(desc, inputs, actual)
        with pytest.raises(TypeError, match=r"\.equal"):
            bool(not compare(desc, inputs, actual))


def test_the_greatest_step_is_told() -> None:
    desc, inputs, exact = halves([20, 40, 60])
    assert compare(desc, inputs, exact).max_step == 0
    assert compare(desc, inputs, exact + np.array([[1, -3, 0]], np.int8)).max_step == 3
    example = dml.Slice1.spec.examples[0]
    assert compare(dml.Slice1(**example.fields), example.inputs, example.output).max_step == 0
    assert compare(dml.Slice1(**example.fields), example.inputs, example.output + 1).max_step is None


def test_a_notebook_shows_the_sentence_and_the_worst() -> None:
    desc, inputs, exact = halves([20, 40, 60])
    assert compare(desc, inputs, exact)._repr_html_() == "<p>all 3 are equal</p>"
    shown = compare(desc, inputs, exact + np.array([[1, -3, 0]], np.int8))._repr_html_()
    assert shown.startswith("<p>2 of 3 differ by 1 to 3; this is not a rounding difference</p><table><tr><th>coordinates</th>")
    assert "<tr><td>[0, 1]</td><td>17</td><td>20</td><td>20.0</td><td>0.5</td></tr>" in shown
    assert shown.count("<tr>") == 3
    hostile = Comparison(1, 1, worst=(Difference((0,), 1, 2, "<script>"),))
    assert "<script>" not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile._repr_html_()


def test_causes_are_in_the_json() -> None:
    desc, inputs, exact = halves([1, 3, 5, 8])
    facts = compare(desc, inputs, exact + np.array([[1, 0, 1, 0]], np.int8)).to_dict()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["causes"][0] == {
        "name": "half_away_from_zero",
        "sentence": "rounding half away from zero",
        "outputs": 4,
        "equal": 4,
        "exact": 2,
        "explained": 2,
        "rounding": True,
        "near": False,
    }


def test_a_difference_near_to_a_tie_speaks_of_it_and_one_that_is_not_does_not() -> None:
    """1, 3, .. of a scale just above 1/2: the greater their product, the farther from a tie."""
    desc, inputs, _ = halves([1, 17])
    inputs["a_scale_tensor"] = np.array([0.5 + 2**-14], np.float32)
    near = compare(desc, inputs, np.array([[1, 8]], np.int8))  # 8.501
    assert near.within == 17 * 2**-14
    assert "tie" not in str(near)
    assert str(near).startswith("1 of 2 differs by 1")
    assert "within 6.2e-5 of a tie" in str(compare(desc, inputs, np.array([[0, 9]], np.int8)))


# --- an eager call ---


def test_an_eager_call_is_compared() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(-128, 128, (2, 5, 7)).astype(np.int8), random.integers(0, 256, (7, 3)).astype(np.uint8)
    arguments = (a, 0.02, np.arange(5, dtype=np.int8), b, np.full(3, 0.03), 7, 0.5, np.array([9], np.uint8))
    y = dml.quantized_linear_matrix_multiply(*arguments)
    comparison = dml.compare(dml.quantized_linear_matrix_multiply, *arguments, actual=y)
    assert comparison.equal
    assert comparison.total == 30
    y[1, 2, 0] ^= 1
    (worst,) = dml.compare(dml.quantized_linear_matrix_multiply, *arguments, actual=y).worst
    assert worst.coordinates == (1, 2, 0)
    integers = a.astype(np.int32) @ b.astype(np.int32)
    assert dml.compare(dml.matrix_multiply_integer, a=a, a_zero_point=None, b=b, b_zero_point=None, actual=integers).equal
    image = np.arange(42, dtype=np.float16).reshape(6, 7)
    assert dml.compare(dml.slice1, image, (0, 0), (6, 7), (-1, 2), actual=image[::-1, ::2]).equal
    assert dml.compare(dml.slice, image, (1, 0), (2, 7), actual=image[1:3].copy()).equal


def test_an_eager_call_on_a_mirrored_array_is_told_in_its_own_coordinates() -> None:
    x = np.arange(8)[::-1]
    actual = dml.slice1(x, (1,), (4,))
    actual[2] = 99
    assert str(dml.compare(dml.slice1, x, (1,), (4,), actual=actual)) == "1 of 4 differs, at [2]: 99, not input_tensor[3] = 4"


def test_an_eager_call_that_is_compared_writes_nothing_and_leaves_nothing_behind() -> None:
    x = np.arange(8)
    out = np.full(4, 7)
    assert dml.compare(dml.slice1, x, (1,), (4,), out=out, actual=np.arange(1, 5)).equal
    assert (out == 7).all()
    assert dml.slice1(x, (1,), (4,), out=out) is out
    assert out.tolist() == [1, 2, 3, 4]


def test_an_output_of_another_shape_is_not_compared_with_a_call() -> None:
    """Beside a desc, a one-dimensional array is memory; a call has a result with a shape."""
    x = np.arange(4, dtype=np.float32)
    for actual in (np.arange(5, dtype=np.float32), x.reshape(2, 2), x[None]):
        with pytest.raises(dml.BindingError, match=r"^actual is float32, shape \(.*\), where the result has shape \(4,\)$"):
            dml.compare(dml.activation_relu, x, actual=actual)
    with pytest.raises(dml.BindingError, match=r"shape \(4,\), where the result has shape \(2, 2\)$"):
        dml.compare(dml.activation_relu, x.reshape(2, 2), actual=x)
    # fewer dimensions than the operator takes
    y = np.arange(4, dtype=np.float32).reshape(2, 2)
    level = dml.Device(feature_level="1_0")
    assert dml.compare(dml.activation_relu, y, device=level, actual=y).equal
    with pytest.raises(dml.BindingError, match=r"where the result has shape \(2, 2\)$"):
        dml.compare(dml.activation_relu, y, device=level, actual=y[None, None])
    # one of several outputs
    value, place = dml.top_k1(x, axis=0, k=2)
    assert dml.compare(dml.top_k1, x, axis=0, k=2, actual=value, output="output_value_tensor").equal
    with pytest.raises(dml.BindingError, match=r"where the result has shape \(2,\)$"):
        dml.compare(dml.top_k1, x, axis=0, k=2, actual=place[:1], output="output_index_tensor")


def test_calls_that_cannot_be_compared_are_refused() -> None:
    x = np.arange(8)
    with pytest.raises(TypeError, match="actual=output"):
        dml.compare(dml.slice1, x, (1,), (4,), x[1:5])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="neither a desc nor an eager function of anydml"):
        dml.compare(np.matmul, x, x, actual=x)
    with pytest.raises(dml.DescError):
        dml.compare(dml.slice1, x, (1,), (9,), actual=x)
    with pytest.raises(dml.BindingError, match=r"^actual: is int64"):
        dml.compare(dml.slice1, x.astype(np.int32), (1,), (4,), actual=np.arange(1, 5))
    with pytest.raises(dml.BindingError, match=r"^input takes an array, not list"):
        dml.compare(dml.slice1, [1, 2], (1,), (1,), actual=np.arange(1))
    assert dml.slice1(x, (1,), (4,)).tolist() == [1, 2, 3, 4]  # an error does not leave calls unexecuted


# --- against the oracle ---


def parts(case: QuantizedCase) -> Parts:
    """A case of the oracle as a desc with its inputs, and the exact result."""
    case = case.in_four_dimensions()
    lead = np.broadcast_shapes(case.a.shape[:-2], case.b.shape[:-2])
    inputs = {
        "a_tensor": np.broadcast_to(case.a, (*lead, *case.a.shape[-2:])),
        "a_scale_tensor": case.a_scale,
        "a_zero_point_tensor": case.a_zero_point,
        "b_tensor": np.broadcast_to(case.b, (*lead, *case.b.shape[-2:])),
        "b_scale_tensor": case.b_scale,
        "b_zero_point_tensor": case.b_zero_point,
        "output_scale_tensor": case.output_scale,
        "output_zero_point_tensor": case.output_zero_point,
    }
    present = {name: array for name, array in inputs.items() if array is not None}
    output = dml.TensorDesc(dml.DataType.of(case.output_type), (*lead, case.a.shape[-2], case.b.shape[-1]))
    tensors = {name: dml.TensorDesc.of(array) for name, array in present.items()}
    desc = dml.QuantizedLinearMatrixMultiply(**tensors, output_tensor=output)
    return desc, present, hard_cases.expected(case).reshape(output.sizes)


def real_values(case: QuantizedCase, sizes: tuple[int, ...]) -> tuple[list[Fraction], list[int]]:
    """The exact quotient of every output, and the zero points, by the oracle."""
    case = case.in_four_dimensions()

    def each(array: Array) -> list[int]:
        return np.broadcast_to(array, sizes).ravel().tolist()  # type: ignore[no-any-return]

    sums = np.broadcast_to(oracle.accumulate_bulk(case.a, case.a_zero_point, case.b, case.b_zero_point), sizes).ravel()
    scales = [map(oracle.float32_fraction, each(s.view(np.uint32))) for s in (case.a_scale, case.b_scale, case.output_scale)]
    reals = [q * a * b / y for q, a, b, y in zip(sums.tolist(), *scales, strict=True)]
    return reals, each(np.zeros(1, np.int64) if case.output_zero_point is None else case.output_zero_point)


def distance(x: Fraction) -> Fraction:
    return abs(x - math.floor(x) - HALF)


def confirm(case: QuantizedCase) -> Comparison:
    """The counts of `compare` are the oracle's, for the exact result and for one that is a step off everywhere."""
    desc, inputs, exact = parts(case)
    reals, zero_points = real_values(case, exact.shape)
    low, high = hard_cases.limits(case.output_type)
    raw = [oracle.round_half_even(x) + z for x, z in zip(reals, zero_points, strict=True)]
    comparison = compare(desc, inputs, exact)
    assert comparison.equal
    assert comparison.ties == sum(distance(x) == 0 for x in reals)
    assert comparison.saturated_low == sum(r < low for r in raw)
    assert comparison.saturated_high == sum(r > high for r in raw)

    off = compare(desc, inputs, exact ^ 1)
    assert off.differing == off.total == exact.size
    assert set(off.steps) <= {-1, 1}
    free = [distance(x) for x, r in zip(reals, raw, strict=True) if low <= r <= high]
    assert off.differing_clamped == exact.size - len(free)
    assert off.within == (float(max(free)) if free else None)
    for worst in off.worst:
        at = np.ravel_multi_index(worst.coordinates, exact.shape)
        assert worst.distance_to_tie == float(distance(reals[at]))
        assert worst.exact == repr(float(reals[at] + zero_points[at]))
        assert (worst.expected, worst.actual) == (exact[worst.coordinates], exact[worst.coordinates] ^ 1)
    return comparison


def test_ties_made_on_purpose_are_counted() -> None:
    cases = list(hard_cases.exact_ties())
    assert sum(confirm(case).ties for case in cases) > 100


def test_numbers_next_to_a_tie_are_not_ties() -> None:
    for case, _ in itertools.islice(hard_cases.with_expected(hard_cases.near_ties), 0, None, 16 if SOAK == 1 else 1):
        comparison = confirm(case)
        assert comparison.ties == 0 or case.distance_to_tie == 0


def test_scales_at_the_ends_of_float32() -> None:
    for case in itertools.islice(hard_cases.extreme_scales(), 0, None, 4 if SOAK == 1 else 1):
        confirm(case)


def test_scales_and_zero_points_of_every_granularity() -> None:
    for case in hard_cases.granularities(count=16 if SOAK == 1 else 40):
        confirm(case)


@given(quantized_cases())
@settings(max_examples=50, deadline=None)
def test_any_exact_result_is_equal_and_counted_as_the_oracle_does(case: QuantizedCase) -> None:
    confirm(case)


def test_many_differences_are_told_by_the_farthest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer differences examined than there are, the farthest is still found, and blocks of rows are put together."""
    desc, inputs, _ = halves([1, 3, 5, 20, 7])
    inputs["a_scale_tensor"] = np.array([0.5 + 2**-13], np.float32)
    desc = replace(desc, a_tensor=tensor("INT8", (3, 1)), output_tensor=tensor("INT8", (3, 5)))
    inputs["a_tensor"] = np.array([[1], [-1], [1]], np.int8)
    whole = compare(desc, inputs, np.zeros((3, 5), np.int8) + 77)
    monkeypatch.setattr("anydml.explain.compare.ROWS", 2)
    monkeypatch.setattr("anydml.explain.compare.EXAMINED", 1)
    assert compare(desc, inputs, np.zeros((3, 5), np.int8) + 77) == whole
    assert whole.worst[0].coordinates == (1, 3)
    assert whole.within == float(HALF - 20 * Fraction(1, 2**13))


def test_a_large_product_is_compared_within_seconds() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(-128, 128, (1024, 1024), np.int8), random.integers(-128, 128, (1024, 1024), np.int8)
    scale = np.array([[0.05]], np.float32)
    desc = dml.QuantizedLinearMatrixMultiply(
        a_tensor=dml.TensorDesc.of(a),
        a_scale_tensor=dml.TensorDesc.of(scale),
        b_tensor=dml.TensorDesc.of(b),
        b_scale_tensor=dml.TensorDesc.of(scale),
        output_scale_tensor=dml.TensorDesc.of(scale),
        output_tensor=tensor("INT8", (1024, 1024)),
    )
    inputs = {"a_tensor": a, "a_scale_tensor": scale, "b_tensor": b, "b_scale_tensor": scale, "output_scale_tensor": scale}
    began = time.process_time()
    comparison = compare(desc, inputs, np.zeros((1024, 1024), np.int8))
    assert time.process_time() - began < 60  # 1 s; element by element in Python, it would be an hour
    assert comparison.total == 2**20
