"""Sort keys of elements: unsigned integers in the order of the output, equal for elements that count as equal."""

from __future__ import annotations

from anydml.kernels.code.values import Value
from anydml.tensor import DataType

INFINITIES = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}


def keys(bits: Value, data_type: DataType, *, decreasing: bool) -> Value:
    """The keys of elements from their bits: zeros of both signs are equal, all NaN are equal and larger than +infinity."""
    body, width, kind = bits.body, bits.kind.bits, data_type.dtype.kind
    sign = -(1 << width - 1)
    found = bits
    if kind == "i":
        found = bits ^ sign
    elif kind == "f":
        size = bits & ((1 << width - 1) - 1)
        found = bits ^ (bits.shifted_right(width - 1, signed=True) | sign)
        found = body.chosen(size.compared("eq", 0), sign, found)
        found = body.chosen(size.compared("ugt", INFINITIES[width]), -1, found)
    return ~found if decreasing else found
