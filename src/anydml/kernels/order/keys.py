"""Sort keys of elements: unsigned integers in the order of the output, equal for elements that count as equal."""

from __future__ import annotations

from anydml.exact.formats import FORMATS
from anydml.kernels.code.values import Value
from anydml.tensor import DataType


def keys(bits: Value, data_type: DataType, *, decreasing: bool) -> Value:
    """The keys of elements from their bits: zeros of both signs are equal, all NaN are equal and larger than +infinity."""
    body, width = bits.body, bits.kind.bits
    sign = -(1 << width - 1)
    found = bits
    if data_type.dtype.kind == "i":
        found = bits ^ sign
    elif data_type.is_float:
        size = bits & ((1 << width - 1) - 1)
        found = bits ^ (bits.shifted_right(width - 1, signed=True) | sign)
        found = body.chosen(size.compared("eq", 0), sign, found)
        found = body.chosen(size.compared("ugt", FORMATS[data_type].infinity), -1, found)
    return ~found if decreasing else found
