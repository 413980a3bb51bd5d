"""The search for causes: which well-known deviation gives the output at hand, and in how many places.

A deviation is a row of a table: its name, the same in words as a noun, and a function. A quantised product goes through three
tables, its inputs, its accumulators and its requantisation; another operator with accumulators can use the last two as they
are. FINDERS says which search serves which operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain import deviations, patches, weights
from anydml.explain.changes import PRODUCT_INPUTS, Deviation, Inputs
from anydml.explain.comparison import Cause
from anydml.kernels.numpy.contract import aligned
from anydml.operators.convolution import Convolution
from anydml.operators.convolution_integer import ConvolutionInteger
from anydml.operators.gemm import Gemm
from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger
from anydml.operators.quantized_linear_convolution import QuantizedLinearConvolution
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.operators.slice import Slice1
from anydml.schema.enumerations import ConvolutionDirection, ConvolutionMode, MatrixTransform
from anydml.schema.operator import Desc

Array = NDArray[Any]
Arrays = Mapping[str, Array]

MULTIPLICATIONS = 2**27  # how much of a large product is looked at: a second or two
OUTPUTS = 2**18  # the same, in outputs
ELEMENTS = 2**25  # of B, in the batches that are looked at
COPIED = 2**24  # elements of a copy; no cause is looked for in a larger one
PATCHES = 2**24  # elements of a convolution's patches; no cause is looked for in a larger one
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

OF_CONVOLUTIONS = {  # the changed inputs of a product that a convolution may have, too
    "no_a_zero_point", "no_b_zero_point", "no_input_zero_points", "no_output_zero_point", "no_zero_points",
    "a_and_output_zero_points_swapped", "a_signedness", "b_signedness", "a_and_zero_point_signedness",
    "b_and_zero_point_signedness", "output_signedness",
}  # fmt: skip

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
    right, found = _three(expected), _three(np.ascontiguousarray(actual))
    batches, rows = _looked_at(right != found, arrays["a_tensor"].shape[-1])
    whole = _inputs(d, arrays, batches)
    return _searched(whole, rows, right[batches], found[batches], PRODUCT_ACCUMULATORS, PRODUCT_INPUTS)


def _of_convolution(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    three = patches.positions(d, expected), patches.positions(d, np.ascontiguousarray(actual))
    k = math.prod(d.filter_tensor.sizes[1:])
    if three[0].size // three[0].shape[-1] * k > PATCHES:
        return ()
    whole = patches.inputs(d, arrays)
    _, rows = _looked_at(three[0] != three[1], k)

    def channels_last(p: Inputs) -> Array:
        a = patches.patches(d, arrays["input_tensor"], int(p["a_zero_point"].flat[0]), channels_last=True)[:, rows]
        b = patches.filters(d, arrays["filter_tensor"], channels_last=True)
        return deviations.pair_saturation(a, b, p["a_zero_point"], p["b_zero_point"])

    other_order = Deviation("pair_saturation", "16-bit pair saturation of neighbouring channels", channels_last)
    changes = tuple(change for change in PRODUCT_INPUTS if change.name in OF_CONVOLUTIONS)

    def at(batch: int, k: int, column: int) -> tuple[int, ...]:
        return patches.place(d, batch, k, column)

    return _searched(whole, rows, *three, (*PRODUCT_ACCUMULATORS, other_order), changes, at)


def _searched(
    whole: Inputs,
    rows: Array,
    expected: Array,
    actual: Array,
    products: Sequence[Deviation],
    changes: Sequence[Deviation],
    place: Callable[[int, int, int], tuple[int, ...]] = lambda batch, k, column: (k, column),
) -> tuple[Cause, ...]:
    """The causes of a product, looked for in some of its rows. place: the index of a weight, for sentences."""

    def chosen(x: Array) -> Array:
        """Of an array of the output's sizes, or ones, those rows."""
        return x[:, rows] if x.shape[-2] > 1 else x

    def selected(p: Inputs) -> Inputs:
        kept = ("b", "b_zero_point", "output_data_type", "bias")
        return {name: x if name in kept else chosen(x) for name, x in p.items()}

    search = Search(expected[:, rows], actual[:, rows])
    base = selected(whole)
    q = _accumulated(base)
    quantised = "a_scale" in base
    if quantised:
        for deviation in REQUANTISATIONS:
            search.tried(deviation, _requantised(base, q, deviation))

    def altered() -> Iterator[tuple[Deviation, Inputs, Array]]:
        """Each deviation before requantisation, with the inputs and the accumulators that it has."""
        for deviation in products:
            yield deviation, base, deviation.function(base) + base.get("bias", 0)
        for deviation in ACCUMULATORS:
            yield deviation, base, deviation.function(q)
        for deviation in changes:
            if (changed := deviation.function(whole)) is not None:
                p = selected(changed)
                yield deviation, p, _accumulated(p)
        if (found := _changed_weight(base, q, expected[:, rows], actual[:, rows], place)) is not None:
            deviation, p = found
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


def _changed_weight(
    p: Inputs, q: Array, expected: Array, actual: Array, place: Callable[[int, int, int], tuple[int, ...]]
) -> tuple[Deviation, Inputs] | None:
    """One weight that is another: the deviation, and the inputs with it."""

    def outputs(sums: Array, batch: int, column: int) -> Array:
        if "a_scale" not in p:
            return sums.astype(np.int32)
        a, b, y = (_of_column(p[f"{name}_scale"], batch, column).astype(np.float64) for name in ("a", "b", "output"))
        zero_point = _of_column(p["output_zero_point"], batch, column).astype(np.int64)
        limits = np.iinfo(p["output_data_type"])
        return np.clip(np.rint(sums * a * b / y) + zero_point, limits.min, limits.max)

    uniform = all(x.shape[-2] == 1 for name, x in p.items() if name in ("a_scale", "output_scale", "output_zero_point"))
    if not uniform or len({len(p["a"]), len(p["b"])}) > 1:
        return None
    found = weights.of_integers(p, q, expected, actual, outputs)
    if found is None:
        return None
    b = p["b"].copy()
    own, b[found.batch, found.k, found.column] = b[found.batch, found.k, found.column], int(found.value)
    at = list(place(found.batch, found.k, found.column))
    return Deviation("changed_weight", f"the product with weight {at} {found.value} instead of {own}", outputs), {**p, "b": b}


def _of_column(x: Array, batch: int, column: int) -> Array:
    """A scale or zero point of one column of a batch."""
    own = x[batch if len(x) > 1 else 0]
    found: Array = own[:1, column : column + 1] if own.shape[-1] > 1 else own[:1]
    return found


def _of_float_convolution(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    k = math.prod(d.filter_tensor.sizes[1:])
    forward = d.direction == ConvolutionDirection.FORWARD and d.mode == ConvolutionMode.CROSS_CORRELATION
    if not forward or d.fused_activation is not None or expected.size // expected.shape[1] * k > PATCHES:
        return ()
    a, b = patches.patches(d, arrays["input_tensor"], 0), patches.filters(d, arrays["filter_tensor"])
    three = patches.positions(d, expected), patches.positions(d, np.ascontiguousarray(actual))
    return _float_weight(a, b, *three, 1.0, lambda batch, k, column: patches.place(d, batch, k, column))


def _of_float_product(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    if d.fused_activation is not None or expected.size * d.b_tensor.sizes[-1] > PATCHES * 64:
        return ()
    a, b = (_three(arrays[f"{name}_tensor"]) for name in "ab")
    a = a.swapaxes(-2, -1) if d.trans_a == MatrixTransform.TRANSPOSE else a
    b = b.swapaxes(-2, -1) if d.trans_b == MatrixTransform.TRANSPOSE else b
    three = _three(expected), _three(np.ascontiguousarray(actual))

    def at(batch: int, k: int, column: int) -> tuple[int, ...]:
        return (column, k) if d.trans_b == MatrixTransform.TRANSPOSE else (k, column)

    return _float_weight(a, b, *three, float(d.alpha), at)


def _float_weight(
    a: Array, b: Array, expected: Array, actual: Array, factor: float, place: Callable[[int, int, int], tuple[int, ...]]
) -> tuple[Cause, ...]:
    found = weights.of_floats(a, b, expected, actual, factor)
    if found is None:
        return ()
    changed, explained = found
    at = list(place(changed.batch, changed.k, changed.column))
    own = float(b[changed.batch, changed.k, changed.column])
    exact = expected == actual
    sentence = f"the product with weight {at} {changed.value:.6g} instead of {own:.6g}"
    equal, right, more = (int(np.count_nonzero(x)) for x in (explained, exact, explained & ~exact))
    return (Cause("changed_weight", sentence, expected.size, equal, right, more),)


EXACT = Deviation("exact_requantisation", "the exact result", deviations.exact_requantisation)


def _requantised(p: Inputs, q: Array, deviation: Deviation) -> Array:
    names = ("a_scale", "b_scale", "output_scale", "output_zero_point")
    result: Array = deviation.function(q, *(p[name] for name in names), output_data_type=p["output_data_type"])
    return result


def _accumulated(p: Inputs) -> Array:
    sums: Array = deviations.accumulator(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"]) + p.get("bias", 0)
    return sums


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
    QuantizedLinearConvolution: _of_convolution,
    ConvolutionInteger: _of_convolution,
    Convolution: _of_float_convolution,
    Gemm: _of_float_product,
    Slice1: _of_copy,
}
