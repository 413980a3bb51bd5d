"""Elements beyond rounding: elements of an output that rounding at each step cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Unbounded, exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.case import Case
from anydml.explain.compiled import statements
from anydml.explain.forms import FOLDED, FORMS
from anydml.explain.magnitudes import batch_normalised, rooms
from anydml.explain.precision import PRECISIONS, widest
from anydml.explain.slack import always_bounded, differs, left
from anydml.operators.batch_normalization import BatchNormalization
from anydml.schema.statement import Nest
from anydml.schema.traversal import most_terms
from anydml.tensor import DataType

PIECE = 1 << 16  # elements whose ranges are computed at once
FEW = 1 << 10  # elements that are evaluated in the time of any other way to tell
MANY = 1 << 16  # terms that are evaluated in the time of a compiled sum of magnitudes


class Beyond(NamedTuple):
    """The elements beyond rounding: how many, the index of the one farthest off, and what rounding gives there."""

    elements: int
    at: tuple[int, ...]
    low: str
    high: str


class Judged(NamedTuple):
    """The part that is beyond rounding; None if rounding explains all elements.

    forms: how many elements each form explains that rounding at each step of the operator's own formula does not, by the
    sentence of the `Form`.
    """

    beyond: Beyond | None
    forms: Mapping[str, int]


def judged(case: Case, precision: str | None = None, sample: int | None = None) -> Judged:
    """The differing elements that rounding at each step of the operator's formula, or of a form of it, does not explain.

    precision: the type that rounds, see `PRECISIONS`; by default, that of the operator's floats. sample: how many elements are
    evaluated at most. Unbounded if no bound is known for a float output. Integers without a bound, and copies, must be exact.
    """
    desc, inputs, expected, actual, output = case
    floats = expected.dtype.kind == "f"
    tensors = {found.name: found.desc for found in desc.tensors()}
    numbers = {name: exactly(x) for name, x in inputs.items()}
    nest = statements(desc)[output]
    data_types = [t.data_type for t in tensors.values()]
    unit = None if DataType.FLOAT64 in data_types else unit_of(data_types) if precision is None else PRECISIONS[precision]
    nest, *plain = widest(nest, precision)
    flat = _undecided(case, nest, unit) if floats and unit is not None else np.flatnonzero(differs(expected, actual))
    forms: dict[str, int] = {}
    if not flat.size:
        return Judged(None, forms)
    if len(flat) > FEW and unit is not None and isinstance(desc, BatchNormalization) and desc.fused_activation is None:
        own, folded = batch_normalised(desc, inputs, unit, flat, expected, actual)
        if by_form := int(np.count_nonzero(folded & ~own)):
            forms[FOLDED.sentence] = by_form
        flat = flat[~folded & ~own]
        if not flat.size:
            return Judged(None, forms)
    if sample is not None and len(flat) > sample:
        flat = _sampled(flat, expected, actual, sample)
    at = np.stack(np.unravel_index(flat, expected.shape), axis=-1)
    wanted, got = (x[tuple(at.T)] for x in (expected, actual))
    data_type = tensors[output].data_type

    def found(nest: Nest, at: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        own = unit_of(data_types) if unit is None else unit
        parts = [ranges(nest, data_type, numbers, at[begin : begin + PIECE], own) for begin in range(0, len(at), PIECE)]
        return np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts])

    try:
        if any(t.data_type.element_bits == 4 for t in tensors.values()):
            raise Unbounded("4-bit elements")
        low, high = found(nest, at)
    except Unbounded:
        if plain:
            nest = plain[0]
            low, high = found(nest, at)
        elif floats and not nest.moves:
            raise
        else:
            low = high = wanted
    inside = _inside(got, wanted, low, high)
    rest = np.flatnonzero(~inside)
    already = dict(forms)
    for form in FORMS if rest.size else ():
        rewritten = form.of(nest)
        if rewritten is None:
            continue
        with suppress(Unbounded):
            least, most = found(rewritten, at[rest])
            explained = _inside(got[rest], wanted[rest], least, most)
            if explained.all():  # by this form alone
                return Judged(None, {**already, form.sentence: rest.size + already.get(form.sentence, 0)})
            if count := int(np.count_nonzero(explained & ~inside[rest])):
                forms[form.sentence] = forms.get(form.sentence, 0) + count
            inside[rest] |= explained
            low[rest], high[rest] = np.fmin(low[rest], least), np.fmax(high[rest], most)
    if inside.all():
        return Judged(None, forms)
    wide, least, most, exact = (x.astype(np.float64) for x in (got, low, high, wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.nan_to_num(np.abs(wide - exact) / np.maximum(most - least, np.finfo(np.float64).tiny), nan=np.inf)
    farthest = int(np.argmax(np.where(inside, -1.0, far)))
    place = tuple(int(i) for i in at[farthest])
    ends = (x[farthest].astype(expected.dtype) for x in (low, high))
    return Judged(Beyond(int(np.count_nonzero(~inside)), place, *map(str, ends)), forms)


def _inside(actual: NDArray[Any], exact: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.bool_]:
    wide, least, most = (x.astype(np.float64) for x in (actual, low, high))
    with np.errstate(invalid="ignore"):
        inside = (least <= wide) & (wide <= most)
    if actual.dtype.kind == "f":
        inside &= np.isfinite(exact) | np.isfinite(wide)  # infinities are exact
    return np.asarray(inside)


def _undecided(case: Case, nest: Nest, unit: float) -> NDArray[np.int64]:
    """The positions of float elements to evaluate: those that differ and that no cheaper bound explains.

    If there are none, and the statement may have no bound at all, one that differs.
    """
    desc, inputs, expected, actual, _ = case
    flat = left(nest.body, unit, expected, actual)
    if len(flat) * most_terms(nest.body) > MANY and (room := rooms(desc, nest, inputs, unit, flat)) is not None:
        flat = flat[~_nearer(case, flat, room)]
    if not flat.size and not always_bounded(nest.body):
        flat = np.flatnonzero(differs(expected, actual))[:1]  # which tells whether there is a bound
    return flat


def _nearer(case: Case, flat: NDArray[np.int64], room: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the elements at some positions are within some distances of the exact ones."""
    wide, exact = (x.reshape(-1)[flat].astype(np.float64) for x in (case.actual, case.expected))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(wide - exact) <= room)


def _sampled(flat: NDArray[np.int64], expected: NDArray[Any], actual: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Some of the positions: half of them are those of the largest differences, the others are spread evenly."""
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(actual.reshape(-1)[flat].astype(np.float64) - expected.reshape(-1)[flat])
    largest = np.argsort(-np.nan_to_num(away, nan=np.inf), kind="stable")[: count - count // 2]
    evenly = np.linspace(0, len(flat) - 1, count // 2).astype(np.int64)
    found: NDArray[np.int64] = flat[np.unique(np.concatenate([largest, evenly]))]
    return found
