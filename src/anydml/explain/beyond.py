"""Elements beyond rounding: elements of an output that rounding at each step cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Unbounded, exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.compare import Case
from anydml.explain.forms import FORMS
from anydml.explain.slack import within
from anydml.schema.statement import Nest, stated
from anydml.tensor import DataType

PIECE = 1 << 16  # elements whose ranges are computed at once


class Beyond(NamedTuple):
    """The elements beyond rounding: how many, the index of the one farthest off, and what rounding gives there."""

    elements: int
    at: tuple[int, ...]
    low: str
    high: str


class Judged(NamedTuple):
    """What is beyond rounding; None if rounding explains all elements.

    forms: how many elements each form explains that rounding at each step of the operator's own formula does not, by the
    sentence of the `Form`.
    """

    beyond: Beyond | None
    forms: Mapping[str, int]


def judged(case: Case) -> Judged:
    """The differing elements that rounding at each step of the operator's formula, or of a form of it, does not explain.

    Unbounded if no bound is known for a float output. Integers without a bound, and copies, must be exact.
    """
    desc, inputs, expected, actual, output = case
    floats = expected.dtype.kind == "f"
    differs = _differs(expected, actual)
    if not differs.any():
        return Judged(None, {})
    tensors = {found.name: found.desc for found in desc.tensors()}
    numbers = {name: exactly(x) for name, x in inputs.items()}
    nest = stated(desc)[output]
    data_types = [t.data_type for t in tensors.values()]
    if floats and DataType.FLOAT64 not in data_types:
        first = np.unravel_index(int(np.argmax(differs)), differs.shape)
        differs &= ~within(nest.body, unit_of(data_types), expected, actual)
        differs[first] = True  # which tells whether there is a bound
    at = np.argwhere(differs)
    wanted, got = (x[tuple(at.T)] for x in (expected, actual))
    data_type = tensors[output].data_type

    def found(nest: Nest, at: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        unit = unit_of(data_types)
        parts = [ranges(nest, data_type, numbers, at[begin : begin + PIECE], unit) for begin in range(0, len(at), PIECE)]
        return np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts])

    try:
        if any(t.data_type.element_bits == 4 for t in tensors.values()):
            raise Unbounded("4-bit elements")
        low, high = found(nest, at)
    except Unbounded:
        if floats and not nest.moves:
            raise
        low = high = wanted
    inside = _inside(got, wanted, low, high)
    rest = np.flatnonzero(~inside)
    forms: dict[str, int] = {}
    for form in FORMS if rest.size else ():
        rewritten = form.of(nest)
        if rewritten is None:
            continue
        with suppress(Unbounded):
            least, most = found(rewritten, at[rest])
            explained = _inside(got[rest], wanted[rest], least, most)
            if explained.all():  # by this form alone
                return Judged(None, {form.sentence: rest.size})
            if count := int(np.count_nonzero(explained & ~inside[rest])):
                forms[form.sentence] = count
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


def _differs(expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_]:
    if expected.dtype.kind != "f":
        return np.asarray(expected != actual)
    bits = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (expected, actual)]
    return np.asarray((bits[0] != bits[1]) & ~(np.isnan(expected) & np.isnan(actual)))
