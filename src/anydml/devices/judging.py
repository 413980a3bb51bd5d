"""Rules about data, checked for every element of a tensor before anything is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.errors import DataError
from anydml.schema.constraint import DataRule
from anydml.schema.operator import Desc
from anydml.tensor import DataType

JUDGED = 1 << 18  # elements that are checked at a time; the check takes a few bytes for each


def data_check(desc: Desc, name: str, rule: DataRule, view: NDArray[Any], data_type: DataType) -> Callable[[], None]:
    """A function that raises DataError if an element of a tensor breaks a rule."""
    # an element that a zero stride repeats is checked once
    once = view[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in view.strides])] if 0 in view.strides else view
    breaks = rule.breaks

    def judge() -> None:
        for before, at, part in _parts(once):
            mask = breaks(desc, _numbers(part, data_type))
            if mask.any():
                first, *rest = (int(i) for i in np.argwhere(mask)[0])
                index = (*before, at + first, *rest)
                raise DataError(name, index, _numbers(once[index], data_type).item(), rule.sentence)

    return judge


def _numbers(elements: Any, data_type: DataType) -> Any:
    """Elements as NumPy's numbers: BFLOAT16, of which there are only the bits, as float32. No rule is about 8-bit floats."""
    if data_type != DataType.BFLOAT16:
        return elements
    return (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _parts(view: NDArray[Any], before: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], int, NDArray[Any]]]:
    """The parts of a tensor in order, of at most JUDGED elements each, as (leading indices, first row, part)."""
    rows = JUDGED * len(view) // view.size
    if rows:
        yield from ((before, at, view[at : at + rows]) for at in range(0, len(view), rows))
    else:
        for at in range(len(view)):
            yield from _parts(view[at], (*before, at))
