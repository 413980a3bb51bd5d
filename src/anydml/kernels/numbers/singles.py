"""Elements of the types of floats whose numbers float32 holds: FLOAT32, FLOAT16 and BFLOAT16, as float32 and back."""

from __future__ import annotations

from anydml.kernels.code.values import Value
from anydml.kernels.numbers import halves
from anydml.tensor import DataType

SINGLES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)


def widened(bits: Value, data_type: DataType) -> Value:
    """The numbers of elements' bits as float32, exactly; a NaN stays one."""
    if data_type == DataType.FLOAT32:
        return bits.cast(bits.kind.of("float"))
    if data_type == DataType.FLOAT16:
        return halves.widened(bits)
    assert data_type == DataType.BFLOAT16, data_type
    return (bits.converted("zext", bits.kind.of("i32")) << 16).cast(bits.kind.of("float"))


def narrowed(x: Value, data_type: DataType) -> Value:
    """Float64 or float32 as the bits of elements, rounded once, half to even; NaN is quiet and positive but in FLOAT32.

    A NaN of FLOAT32 keeps its sign and payload.
    """
    wide = x.kind.element == "double"
    if data_type == DataType.FLOAT32:
        return (x.converted("fptrunc", x.kind.of("float")) if wide else x).bits()
    if data_type == DataType.FLOAT16:
        return halves.narrowed(halves.odd_single(x) if wide else x)
    assert data_type == DataType.BFLOAT16, data_type
    return _brain(_odd_single(x) if wide else x)


def _odd_single(x: Value) -> Value:
    """Float64 as float32 that rounds to the same BFLOAT16: rounded to odd, or below the normal numbers to BFLOAT16 itself.

    There, BFLOAT16 are multiples of 2^-133, the last place of 2^-81, and of 2^-80 in its binade.
    """
    body, size = x.body, x.magnitude()
    small = (size + 2.0**-81) - 2.0**-81
    kept = body.chosen(size.compared("olt", 2.0**-126), small.signed_as(x), halves.odd_double(x))
    return kept.converted("fptrunc", x.kind.of("float"))


def _brain(x: Value) -> Value:
    """A float32 as BFLOAT16's bits (i16): the upper half, rounded half to even; a carry goes into the exponent."""
    body, bits = x.body, x.bits()
    even = bits.shifted_right(16, signed=False) & 1
    found = (bits + 0x7FFF + even).shifted_right(16, signed=False)
    found = body.chosen(x.compared("uno", x), 0x7FC0, found)
    return found.converted("trunc", x.kind.of("i16"))


__all__ = ["SINGLES", "narrowed", "widened"]
