"""The search for causes in products of integers: in their inputs, their accumulators and their requantisation.

The last two serve any operator with accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.explain import deviations, patches, weights
from anydml.explain.changes import NO_BIAS, PRODUCT_INPUTS, Deviation, Inputs
from anydml.explain.comparison import Cause
from anydml.explain.known import ACCUMULATORS, EXACT, IN_INTEGERS, PRODUCT_ACCUMULATORS, REQUANTISATIONS
from anydml.explain.search import PATCHES, Array, Arrays, Search, three
from anydml.kernels.numpy.contract import aligned
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply

MULTIPLICATIONS = 2**27  # of a large product that are examined, in a second or two
OUTPUTS = 2**18  # of a large product that are examined
ELEMENTS = 2**25  # of B, in the batches that are examined

OF_CONVOLUTIONS = {  # the changed inputs of a product that apply to a convolution, too
    "no_a_zero_point", "no_b_zero_point", "no_input_zero_points", "no_output_zero_point", "no_zero_points",
    "a_and_output_zero_points_swapped", "a_signedness", "b_signedness", "a_and_zero_point_signedness",
    "b_and_zero_point_signedness", "output_signedness",
}  # fmt: skip


def of_product(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    right, found = three(expected), three(np.ascontiguousarray(actual))
    batches, rows = _looked_at(right != found, arrays["a_tensor"].shape[-1])
    whole = _inputs(d, arrays, batches)
    return _searched(whole, rows, right[batches], found[batches], PRODUCT_ACCUMULATORS, PRODUCT_INPUTS)


def of_convolution(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    both = patches.positions(d, expected), patches.positions(d, np.ascontiguousarray(actual))
    k = math.prod(d.filter_tensor.sizes[1:])
    if both[0].size // both[0].shape[-1] * k > PATCHES:
        return ()
    whole = patches.inputs(d, arrays)
    _, rows = _looked_at(both[0] != both[1], k)

    def channels_last(p: Inputs) -> Array:
        a = patches.patches(d, arrays["input_tensor"], int(p["a_zero_point"].flat[0]), channels_last=True)[:, rows]
        b = patches.filters(d, arrays["filter_tensor"], channels_last=True)
        return deviations.pair_saturation(a, b, p["a_zero_point"], p["b_zero_point"])

    other_order = Deviation("pair_saturation", "16-bit pair saturation of neighbouring channels", channels_last)
    changes = (NO_BIAS, *(change for change in PRODUCT_INPUTS if change.name in OF_CONVOLUTIONS))

    def at(batch: int, k: int, column: int) -> tuple[int, ...]:
        return patches.place(d, batch, k, column)

    return _searched(whole, rows, *both, (*PRODUCT_ACCUMULATORS, other_order), changes, at)


def _searched(
    whole: Inputs,
    rows: Array,
    expected: Array,
    actual: Array,
    products: Sequence[Deviation],
    changes: Sequence[Deviation],
    place: Callable[[int, int, int], tuple[int, ...]] = lambda batch, k, column: (k, column),
) -> tuple[Cause, ...]:
    """The causes in a product, from some of its rows. place: gives a weight's index for sentences."""

    def chosen(x: Array) -> Array:
        """These rows of an array whose sizes are the output's or 1."""
        return x[:, rows] if x.shape[-2] > 1 else x

    def selected(p: Inputs) -> Inputs:
        kept = ("b", "b_zero_point", "output_data_type", "bias")
        return {name: x if name in kept else chosen(x) for name, x in p.items()}

    search = Search(expected[:, rows], actual[:, rows])
    base = selected(whole)
    q = _accumulated(base)
    quantised = "a_scale" in base
    if quantised:
        wraps = bool(np.any((q < -(2**31)) | (q >= 2**31)))  # then accumulators that wrap are the cause, not what follows
        for deviation in REQUANTISATIONS:
            if not (wraps and deviation.name in IN_INTEGERS):
                search.tried(deviation, _requantised(base, q, deviation))

    def altered() -> Iterator[tuple[Deviation, Inputs, Array]]:
        """Each deviation before requantisation, with its inputs and accumulators."""
        for deviation in products:
            if (sums := deviation.function(base)) is not None:
                yield deviation, base, sums + base.get("bias", 0)
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
    if quantised and best and most < search.actual.size:  # then two deviations at once
        first, p, sums = best
        for second in REQUANTISATIONS:
            both = Deviation(f"{first.name}, {second.name}", f"{first.sentence} and {second.sentence}", second.function)
            search.tried(both, _requantised(p, sums, second), more_than=most)
    return search.found()


def _changed_weight(
    p: Inputs, q: Array, expected: Array, actual: Array, place: Callable[[int, int, int], tuple[int, ...]]
) -> tuple[Deviation, Inputs] | None:
    """One changed weight: the deviation, and the inputs with that weight."""

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


def _requantised(p: Inputs, q: Array, deviation: Deviation) -> Array:
    names = ("a_scale", "b_scale", "output_scale", "output_zero_point")
    result: Array = deviation.function(q, *(p[name] for name in names), output_data_type=p["output_data_type"])
    return result


def _accumulated(p: Inputs) -> Array:
    sums: Array = deviations.accumulator(p["a"], p["b"], p["a_zero_point"], p["b_zero_point"]) + p.get("bias", 0)
    return sums


def _looked_at(differs: Array, k: int) -> tuple[Array, Array]:
    """The batches and rows of a product to examine: as many as are affordable, those that differ most."""
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
