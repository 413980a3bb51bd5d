"""Elements of arrays: the numbers that they represent, and the single rounding of a number to an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import fmpq
from numpy.typing import NDArray

from anydml.exact import reals
from anydml.exact.formats import FORMATS, wrapped
from anydml.exact.reals import Real, decoded, encoded, whole
from anydml.schema.node import Expr
from anydml.schema.traversal import integral
from anydml.tensor import DataType, limits

KEPT = 1 << 16  # decoded elements, and values of a reduction, that are cached at most


class ElementValues(dict[int, Any]):
    """The numbers that elements of a data type represent, by the elements' `raw` integers."""

    def __init__(self, data_type: DataType) -> None:
        self._format = FORMATS.get(data_type)

    def __missing__(self, bits: int) -> Real:
        if len(self) >= KEPT:
            self.clear()
        self[bits] = found = fmpq(bits) if self._format is None else decoded(bits, self._format)
        return found


def raw(array: NDArray[Any]) -> memoryview:
    """An array as integers: the bits of floats, the values of integers."""
    if not array.flags.aligned:  # a memoryview cannot read unaligned elements
        array = array.copy()
    return (array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array).data


def stores(data_type: DataType, body: Expr) -> Callable[[Real], int]:
    """The single rounding: a function from a number to the `raw` integer of the element that stores it."""
    form = FORMATS.get(data_type)
    if form is not None:
        return lambda a: encoded(a, form)
    low, high = limits(data_type)
    if integral(body):
        return lambda a: wrapped(whole(a), data_type.element_bits, low < 0)

    def saturated(a: Real) -> int:
        if type(a) is float:
            return 0 if a == 0 or a != a else low if a < 0 else high
        if reals.less(a, fmpq(low)):
            return low
        return high if reals.less(fmpq(high), a) else whole(reals.truncate(a))

    return saturated
