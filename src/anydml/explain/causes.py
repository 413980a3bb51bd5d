"""The search for causes: which well-known deviation gives the output at hand, and in how many places.

A deviation is a row of a table: its name, the same in words as a noun, and a function. A quantised product goes through three
tables, its inputs, its accumulators and its requantisation; another operator with accumulators can use the last two as they
are. FINDERS says which search serves which operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain import deviations
from anydml.explain.changes import PRODUCT_INPUTS, Deviation, Inputs
from anydml.explain.comparison import Cause
from anydml.kernels.numpy.contract import aligned
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice1
from anydml.schema.operator import Desc

Array = NDArray[Any]
Arrays = Mapping[str, Array]

MULTIPLICATIONS = 2**27  # how much of a large product is looked at: a second or two
OUTPUTS = 2**18  # the same, in outputs
ELEMENTS = 2**25  # of B, in the batches that are looked at
COPIED = 2**24  # elements of a copy; no cause is looked for in a larger one
KEPT = 5  # causes


REQUANTISATIONS = (  # (accumulators, the three scales, zero point, output_data_type=) -> outputs
    Deviation("float32_requantisation", "float32 requantisation", deviations.float32_requantisation, True),
    Deviation("float32_dequantised_product", "a float32 dequantised product", deviations.float32_dequantised_product, True),
    Deviation("reciprocal_output_scale", "a float32 reciprocal of the output scale", deviations.reciprocal_output_scale, True),
    Deviation(
        "reciprocal_multiplier",
        "a float32 multiplier with the reciprocal of the output scale",
        deviations.reciprocal_multiplier,
        True,
    ),
    Deviation("half_away_from_zero", "rounding half away from zero", deviations.half_away_from_zero, True),
    Deviation("half_up", "rounding half up", deviations.half_up, True),
    Deviation("truncation", "truncation", deviations.truncation, True),
    Deviation("rounding_down", "rounding down", deviations.rounding_down, True),
    Deviation(
        "zero_point_before_rounding",
        "the zero point added before rounding",
        deviations.zero_point_before_rounding,
        True,
    ),
    Deviation("wrapping_output", "results that wrap where they should saturate", deviations.wrapping_output),
)

ACCUMULATORS = (  # accumulators -> accumulators
    Deviation("int32_wrap", "accumulators that wrap in int32", deviations.int32_wrap),
    Deviation("int32_saturation", "accumulators that saturate in int32", deviations.int32_saturation),
)


PRODUCT_ACCUMULATORS = (  # inputs -> accumulators
    Deviation(
        "pair_saturation",
        "16-bit pair saturation",
        lambda p: deviations.pair_saturation(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"]),
    ),
)

WINDOWS = (  # (input, offsets, sizes, strides, output sizes) -> output, masked where it is not known
    Deviation(
        "step_then_reverse",
        "a copy that steps from the window's first element and then reverses",
        deviations.step_then_reverse,
    ),
    Deviation(
        "reverse_then_step",
        "a copy that reverses the whole input and then steps from the offset",
        deviations.reverse_then_step,
    ),
    Deviation(
        "first_element",
        "a copy that starts at the window's first element and steps backwards",
        deviations.first_element,
    ),
    Deviation("sign_ignored", "a copy that ignores the sign of the stride", deviations.sign_ignored),
    Deviation(
        "maximum_output_sizes",
        "a copy of all that the window meets, packed",
        deviations.maximum_output_sizes,
    ),
)


# --- the search ---


class Search:
    """Deviations tried on one output; those that explain more than half of what differs, on balance, are causes."""

    def __init__(self, expected: Array, actual: Array) -> None:
        self.bits = f"u{expected.itemsize}"
        self.actual = np.ascontiguousarray(actual).view(self.bits)
        self.right = np.ascontiguousarray(expected).view(self.bits) == self.actual
        self.exact = int(np.count_nonzero(self.right))
        self.causes: list[Cause] = []

    def tried(self, deviation: Deviation, output: Array, more_than: int = 0) -> int:
        """In how many outputs the actual one equals that of a deviation (masked where it is not known); it may be a cause.

        more_than: no cause is kept that equals no more than these.
        """
        same = np.ascontiguousarray(np.ma.getdata(output)).view(self.bits) == self.actual
        same &= ~np.ma.getmaskarray(output)
        equal, total = int(np.count_nonzero(same)), self.right.size
        if equal <= more_than or 2 * (equal - self.exact) <= total - self.exact:
            return equal
        explained = int(np.count_nonzero(same & ~self.right))
        self.causes.append(Cause(deviation.name, deviation.sentence, total, equal, self.exact, explained, deviation.rounding))
        return equal

    def found(self) -> tuple[Cause, ...]:
        """The causes, the one that explains most first, of equal ones the first in its table."""
        return tuple(sorted(self.causes, key=lambda cause: -cause.equal)[:KEPT])


def causes(d: Desc, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    """The causes of differences in one output of an operator's newest desc; none where no search is known for it."""
    finder = FINDERS.get(type(d))
    return finder(d, arrays, expected, actual) if finder else ()


def _of_copy(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    if expected.size > COPIED:
        return ()
    search = Search(expected, actual)
    window = d.input_window_offsets, d.input_window_sizes, d.input_window_strides, d.output_tensor.sizes
    for deviation in (*WINDOWS, *_one_element_off(expected.ndim)):
        search.tried(deviation, deviation.function(arrays["input_tensor"], *window))
    return search.found()


def _one_element_off(dimension_count: int) -> Iterator[Deviation]:
    for dimension in range(dimension_count):
        for by, when in ((1, "late"), (-1, "early")):

            def off(*window: Any, dimension: int = dimension, by: int = by) -> Array:
                return deviations.one_element_off(*window, dimension=dimension, by=by)

            sentence = f"a copy that starts one element too {when} in dimension {dimension}"
            yield Deviation("one_element_off", sentence, off)


def _of_product(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    differs = _three(np.ascontiguousarray(expected) != actual)
    batches, rows = _looked_at(differs, arrays["a_tensor"].shape[-1])

    def chosen(x: Array) -> Array:
        """Of an array of the output's sizes, or ones, those rows."""
        return x[:, rows] if x.shape[-2] > 1 else x

    def selected(p: Inputs) -> Inputs:
        kept = ("b", "b_zero_point", "output_data_type")
        return {name: x if name in kept else chosen(x) for name, x in p.items()}

    search = Search(*(_three(x)[batches][:, rows] for x in (expected, actual)))
    whole = _inputs(d, arrays, batches)
    base = selected(whole)
    q = _accumulated(base)
    quantised = "a_scale" in base
    if quantised:
        for deviation in REQUANTISATIONS:
            search.tried(deviation, _requantised(base, q, deviation))

    def altered() -> Iterator[tuple[Deviation, Inputs, Array]]:
        """Each deviation before requantisation, with the inputs and the accumulators that it has."""
        for deviation in PRODUCT_ACCUMULATORS:
            yield deviation, base, deviation.function(base)
        for deviation in ACCUMULATORS:
            yield deviation, base, deviation.function(q)
        for deviation in PRODUCT_INPUTS:
            if (changed := deviation.function(whole)) is not None:
                p = selected(changed)
                yield deviation, p, _accumulated(p)

    nearest, best = search.exact, None
    for found in altered():
        deviation, p, sums = found
        equal = search.tried(deviation, _requantised(p, sums, EXACT) if quantised else sums.astype(np.int32))
        if equal > nearest:
            nearest, best = equal, found
    most = max((cause.equal for cause in search.causes), default=search.exact)
    if quantised and best and most < search.actual.size:  # two deviations at once, then
        first, p, sums = best
        for second in REQUANTISATIONS:
            both = Deviation(f"{first.name}, {second.name}", f"{first.sentence} and {second.sentence}", second.function)
            search.tried(both, _requantised(p, sums, second), more_than=most)
    return search.found()


EXACT = Deviation("exact_requantisation", "the exact result", deviations.exact_requantisation)


def _requantised(p: Inputs, q: Array, deviation: Deviation) -> Array:
    names = ("a_scale", "b_scale", "output_scale", "output_zero_point")
    result: Array = deviation.function(q, *(p[name] for name in names), output_data_type=p["output_data_type"])
    return result


def _accumulated(p: Inputs) -> Array:
    return deviations.accumulator(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"])


def _three(x: Array) -> Array:
    """The array with its leading dimensions as one."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def _looked_at(differs: Array, k: int) -> tuple[Array, Array]:
    """The batches and rows of a product that are looked at: as many as are affordable, those that differ most."""
    rows, columns = differs.shape[1:]
    affordable = max(1, min(MULTIPLICATIONS // (k * columns), OUTPUTS // columns))
    counts = np.count_nonzero(differs, axis=-1)
    most = np.sort(
        np.argsort(-counts.sum(axis=-1), kind="stable")[: max(1, min(affordable // rows, ELEMENTS // (k * columns)))]
    )
    return most, np.sort(np.argsort(-counts[most].sum(axis=0), kind="stable")[:affordable])


def _inputs(d: Any, arrays: Arrays, batches: Array) -> Inputs:
    """Matrices, scales and zero points of some batches; absent zero points are 0."""
    a = arrays["a_tensor"]
    rank, lead = a.ndim, a.shape[:-2] or (1,)
    at = np.unravel_index(batches, lead)

    def these(x: Array) -> Array:
        x = aligned(x, rank)
        x = x.reshape((1,) * max(0, 2 - x.ndim) + x.shape)
        picked: Array = np.broadcast_to(x, (*lead, *x.shape[-2:]))[at]
        return picked

    p: dict[str, Any] = {name.removesuffix("_tensor"): these(x) for name, x in arrays.items()}
    names = ["a", "b"]
    if isinstance(d, QuantizedLinearMatrixMultiply):
        names.append("output")
        p["output_data_type"] = d.output_tensor.data_type.dtype
    for name in names:
        dtype = p["output_data_type"] if name == "output" else p[name].dtype
        p.setdefault(f"{name}_zero_point", np.zeros((1, 1, 1), dtype))
    return p


FINDERS: Mapping[type[Desc], Callable[[Any, Arrays, Array, Array], tuple[Cause, ...]]] = {
    MatrixMultiplyInteger: _of_product,
    QuantizedLinearMatrixMultiply: _of_product,
    Slice1: _of_copy,
}
