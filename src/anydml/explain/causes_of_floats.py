"""The search for causes in floats: one changed weight of a product, and the mistakes of `mistakes`.

A mistake is tried on a few elements that rounding does not explain. If most of them lie within the bounds of the mistaken
operator, more elements are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from anydml.explain import patches, weights
from anydml.explain.bounded import Unbounded, exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.comparison import Cause
from anydml.explain.compiled import statements
from anydml.explain.forms import FORMS
from anydml.explain.mistakes import Mistake, mistakes
from anydml.explain.search import KEPT, PATCHES, Array, Arrays, three
from anydml.explain.slack import differs
from anydml.schema.enumerations import ConvolutionDirection, ConvolutionMode, MatrixTransform
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, stated
from anydml.schema.traversal import most_terms

TRIED, LOOKED_AT = 48, 2048  # elements on which a mistake is tried, and those that are counted then
TERMS = 1 << 21  # terms that are evaluated at most, of all elements in one turn
FOLDED = FORMS[:1]  # by which correct normalisations may be computed, and mistaken ones


def of_floats(d: Desc, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    """The mistakes that explain elements of a float output which rounding does not explain."""
    nests = statements(d)
    if expected.dtype.kind != "f" or len(nests) != 1:
        return ()
    ((output, nest),) = nests.items()
    try:
        search = _Search(d, output, nest, arrays, expected, np.ascontiguousarray(actual))
    except Unbounded:
        return ()
    if not search.tried.size:
        return ()
    found = [cause for mistake in mistakes(d, arrays) if (cause := search.cause(mistake)) is not None]
    found += search.of_less_precision()
    found.sort(key=lambda cause: -cause.equal)
    return tuple(found[:KEPT])


class _Search:
    """A float output and some of its elements. tried: a few that rounding does not explain, as row-major positions."""

    def __init__(self, d: Desc, output: str, nest: Nest, arrays: Arrays, expected: Array, actual: Array) -> None:
        self.desc, self.output, self.nest, self.arrays = d, output, nest, arrays
        tensors = {found.name: found.desc for found in d.tensors()}
        self.unit = unit_of([t.data_type for t in tensors.values()])
        self.type = tensors[output].data_type
        self.expected, self.actual = expected.reshape(-1), actual.reshape(-1)
        affordable = max(2, TERMS // most_terms(nest.body))
        differing = np.flatnonzero(differs(self.expected, self.actual))
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(self.actual[differing].astype(np.float64) - self.expected[differing])
        far = differing[np.argsort(-np.nan_to_num(away, nan=np.inf), kind="stable")]
        some = np.unique(np.concatenate([far[: TRIED // 2], _thinned(differing, TRIED // 2)]))[: affordable // 4 + 1]
        self.tried = some[~self.inside(nest, arrays, some)]
        every = np.arange(self.expected.size)
        wanted = min(LOOKED_AT, affordable)
        self.counted = np.unique(np.concatenate([_thinned(differing, wanted // 2), _thinned(every, wanted // 2)]))
        self.right = self.inside(nest, arrays, self.counted) if self.tried.size else np.zeros(0, bool)

    def inside(self, nest: Nest, arrays: Mapping[str, Array], at: Array, unit: float | None = None) -> Array:
        """A mask of the actual elements at some positions that rounding explains, if this were the statement."""
        own = next((form for f in FOLDED if (form := f.of(nest)) is not None), nest)
        inputs = {name: exactly(x) for name, x in arrays.items()}
        points = np.stack(np.unravel_index(at, [i.data.size for i in nest.index]), axis=-1)
        found = ranges(own, self.type, inputs, points, unit or self.unit)
        with np.errstate(invalid="ignore"):
            low, high, got = (x.astype(np.float64) for x in (found.low, found.high, self.actual[at]))
            inside = (low <= got) & (got <= high) & (np.isfinite(low) | np.isfinite(high))
        return np.asarray(inside | (np.isnan(found.value) & np.isnan(got)) | (found.value == got))

    def cause(self, mistake: Mistake) -> Cause | None:
        """A mistake that explains more elements than the exact result, by more than half of those that it does not explain."""
        nest: Nest | None = self.nest if mistake.desc is self.desc else stated(mistake.desc)[self.output]
        assert nest is not None
        if mistake.formula is not None and (nest := mistake.formula.of(nest)) is None:
            return None
        with suppress(Unbounded):
            if 2 * np.count_nonzero(self.inside(nest, mistake.inputs, self.tried)) > self.tried.size:
                counted = self.inside(nest, mistake.inputs, self.counted)
                return self._cause(mistake.name, mistake.sentence, counted, rounding=mistake.rounding)
        return None

    def of_less_precision(self) -> list[Cause]:
        """Arithmetic in float16 or bfloat16, if all results are numbers of that type."""
        found: list[Cause] = []
        if self.expected.dtype != np.float32:
            return found
        for name, (said, unit, lost) in LESS.items():
            got = np.ascontiguousarray(self.actual[np.isfinite(self.actual)])
            with np.errstate(over="ignore"):
                whole = got.astype(np.float16) == got if name.startswith("float16") else got.view(np.uint32) & lost == 0
            if not whole.all():
                continue
            with suppress(Unbounded):
                counted = self.inside(self.nest, self.arrays, self.counted, unit)
                if (cause := self._cause(name, said, counted, rounding=True)) is not None:
                    found.append(cause)
        return found

    def _cause(self, name: str, sentence: str, counted: Array, *, rounding: bool) -> Cause | None:
        total, equal, exact = len(counted), int(np.count_nonzero(counted)), int(np.count_nonzero(self.right))
        if 2 * (equal - exact) <= total - exact:
            return None
        explained = int(np.count_nonzero(counted & ~self.right))
        return Cause(name, sentence, total, equal, exact, explained, rounding, near=True)


LESS = {  # name -> sentence, rounding unit, bits of float32 that are lost
    "float16_arithmetic": ("the result of arithmetic in float16", 2.0**-11, 0x1FFF),
    "bfloat16_arithmetic": ("the result of arithmetic in bfloat16", 2.0**-8, 0xFFFF),
}


def _thinned(positions: Array, count: int) -> Array:
    """At most so many of the positions, from all parts of them."""
    if len(positions) <= count:
        return positions
    found: Array = positions[np.linspace(0, len(positions) - 1, count).astype(np.int64)]
    return found


def of_float_convolution(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    k = math.prod(d.filter_tensor.sizes[1:])
    forward = d.direction == ConvolutionDirection.FORWARD and d.mode == ConvolutionMode.CROSS_CORRELATION
    if not forward or d.fused_activation is not None or expected.size // expected.shape[1] * k > PATCHES:
        return of_floats(d, arrays, expected, actual)
    a, b = patches.patches(d, arrays["input_tensor"], 0), patches.filters(d, arrays["filter_tensor"])
    both = patches.positions(d, expected), patches.positions(d, np.ascontiguousarray(actual))
    found = _float_weight(a, b, *both, 1.0, lambda batch, k, column: patches.place(d, batch, k, column))
    return found or of_floats(d, arrays, expected, actual)


def of_float_product(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    if d.fused_activation is not None or expected.size * d.b_tensor.sizes[-1] > PATCHES * 64:
        return of_floats(d, arrays, expected, actual)
    a, b = (three(arrays[f"{name}_tensor"]) for name in "ab")
    a = a.swapaxes(-2, -1) if d.trans_a == MatrixTransform.TRANSPOSE else a
    b = b.swapaxes(-2, -1) if d.trans_b == MatrixTransform.TRANSPOSE else b
    both = three(expected), three(np.ascontiguousarray(actual))

    def at(batch: int, k: int, column: int) -> tuple[int, ...]:
        return (column, k) if d.trans_b == MatrixTransform.TRANSPOSE else (k, column)

    return _float_weight(a, b, *both, float(d.alpha), at) or of_floats(d, arrays, expected, actual)


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
