"""Rules about data, checked for every element of a tensor before anything is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.errors import DataError
from anydml.schema.constraint import DataRule
from anydml.schema.operator import Desc

JUDGED = 1 << 18  # elements that are checked at a time; the check takes a few bytes for each


def data_check(desc: Desc, name: str, rule: DataRule, view: NDArray[Any]) -> Callable[[], None]:
    # an element that a zero stride repeats is checked once
    once = view[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in view.strides])] if 0 in view.strides else view
    breaks = rule.breaks

    def judge() -> None:
        for before, at, part in _parts(once):
            mask = breaks(desc, part)
            if mask.any():
                first, *rest = (int(i) for i in np.argwhere(mask)[0])
                index = (*before, at + first, *rest)
                raise DataError(name, index, once[index].item(), rule.sentence)

    return judge


def _parts(view: NDArray[Any], before: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], int, NDArray[Any]]]:
    """The parts of a tensor in order, of at most JUDGED elements each, as (leading indices, first row, part)."""
    rows = JUDGED * len(view) // view.size
    if rows:
        yield from ((before, at, view[at : at + rows]) for at in range(0, len(view), rows))
    else:
        for at in range(len(view)):
            yield from _parts(view[at], (*before, at))
