"""Elements beyond rounding: elements of an output that rounding at each step cannot give."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import Unbounded, exactly
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.compare import Case
from anydml.explain.slack import within
from anydml.schema.statement import stated
from anydml.tensor import DataType

PIECE = 1 << 16  # elements whose ranges are computed at once


class Beyond(NamedTuple):
    """The elements beyond rounding: how many, the index of the one farthest off, and what rounding gives there."""

    elements: int
    at: tuple[int, ...]
    low: str
    high: str


def beyond(case: Case) -> Beyond | None:
    """The differing elements that rounding at each step does not explain; None if it explains all.

    Unbounded if no bound is known for a float output. Integers without a bound, and copies, must be exact.
    """
    desc, inputs, expected, actual, output = case
    floats = expected.dtype.kind == "f"
    differs = _differs(expected, actual)
    if not differs.any():
        return None
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
    lows, highs = [], []
    try:
        unit = unit_of(data_types)
        if any(t.data_type.element_bits == 4 for t in tensors.values()):
            raise Unbounded("4-bit elements")
        for begin in range(0, len(at), PIECE):
            found = ranges(nest, tensors[output].data_type, numbers, at[begin : begin + PIECE], unit)
            lows.append(found.low)
            highs.append(found.high)
        low, high = np.concatenate(lows), np.concatenate(highs)
    except Unbounded:
        if floats and not nest.moves:
            raise
        low = high = wanted
    wide, least, most, exact = (x.astype(np.float64) for x in (got, low, high, wanted))
    with np.errstate(invalid="ignore"):
        inside = (least <= wide) & (wide <= most)
        if floats:
            inside &= np.isfinite(exact) | np.isfinite(wide)  # infinities are exact
        far = np.nan_to_num(np.abs(wide - exact) / np.maximum(most - least, np.finfo(np.float64).tiny), nan=np.inf)
    if inside.all():
        return None
    farthest = int(np.argmax(np.where(inside, -1.0, far)))
    place = tuple(int(i) for i in at[farthest])
    ends = (x[farthest].astype(expected.dtype) for x in (low, high))
    return Beyond(int(np.count_nonzero(~inside)), place, *map(str, ends))


def _differs(expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_]:
    if expected.dtype.kind != "f":
        return np.asarray(expected != actual)
    bits = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (expected, actual)]
    return np.asarray((bits[0] != bits[1]) & ~(np.isnan(expected) & np.isnan(actual)))
