"""The search for causes in products of floats: one changed weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.explain import patches, weights
from anydml.explain.comparison import Cause
from anydml.explain.search import PATCHES, Array, Arrays, three
from anydml.schema.enumerations import ConvolutionDirection, ConvolutionMode, MatrixTransform


def of_float_convolution(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    k = math.prod(d.filter_tensor.sizes[1:])
    forward = d.direction == ConvolutionDirection.FORWARD and d.mode == ConvolutionMode.CROSS_CORRELATION
    if not forward or d.fused_activation is not None or expected.size // expected.shape[1] * k > PATCHES:
        return ()
    a, b = patches.patches(d, arrays["input_tensor"], 0), patches.filters(d, arrays["filter_tensor"])
    both = patches.positions(d, expected), patches.positions(d, np.ascontiguousarray(actual))
    return _float_weight(a, b, *both, 1.0, lambda batch, k, column: patches.place(d, batch, k, column))


def of_float_product(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    if d.fused_activation is not None or expected.size * d.b_tensor.sizes[-1] > PATCHES * 64:
        return ()
    a, b = (three(arrays[f"{name}_tensor"]) for name in "ab")
    a = a.swapaxes(-2, -1) if d.trans_a == MatrixTransform.TRANSPOSE else a
    b = b.swapaxes(-2, -1) if d.trans_b == MatrixTransform.TRANSPOSE else b
    both = three(expected), three(np.ascontiguousarray(actual))

    def at(batch: int, k: int, column: int) -> tuple[int, ...]:
        return (column, k) if d.trans_b == MatrixTransform.TRANSPOSE else (k, column)

    return _float_weight(a, b, *both, float(d.alpha), at)


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
