"""Elements of FLOAT16 as float32 and back, with the processor's conversions or without them."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value


def widened(bits: Value) -> Value:
    """The numbers of FLOAT16's bits (i16) as float32, exactly; a NaN stays one."""
    body, kind = bits.body, bits.kind
    if body.has_halves:
        return bits.cast(kind.of("half")).converted("fpext", kind.of("float"))
    words = bits.converted("zext", kind.of("i32"))
    magnitude = words & 0x7FFF
    # a half's exponent and fraction, placed as a float's, are 2^112 times too small; subnormal ones too
    scaled = (magnitude << 13).cast(kind.of("float")) * 2.0**112
    special = magnitude.compared("uge", 0x7C00)
    infinite = ((magnitude << 13) | 0x7F800000).cast(kind.of("float"))
    sign = ((words & 0x8000) << 16).cast(kind.of("float"))
    return body.chosen(special, infinite, scaled).signed_as(sign)


def narrowed(x: Value) -> Value:
    """A float32 as FLOAT16's bits (i16), rounded half to even; NaN is 0x7E00."""
    body, kind = x.body, x.kind
    nan = x.compared("uno", x)
    if body.has_halves:  # which make 0x7E00 of this NaN
        return body.chosen(nan, math.nan, x).converted("fptrunc", kind.of("half")).bits()
    words = kind.of("i32")
    sign = (x.bits() & -0x80000000).shifted_right(16, signed=False)
    size = x.magnitude()
    # below 2^-14, halves are multiples of 2^-24: adding 0.5 leaves as many places of a float32
    small = (size + 0.5).bits() - body.constant(Value(body, "", words).kind, 0x3F000000)
    # elsewhere: round the 13 places that go, half to even, and carry into the exponent
    raw = size.bits()
    even = raw.shifted_right(13, signed=False) & 1
    large = (raw - 0x38000000 + 0xFFF + even).shifted_right(13, signed=False)
    found = body.chosen(size.compared("olt", 2.0**-14), small, large)
    found = body.chosen(size.compared("oge", 65520.0), 0x7C00, found)
    found = body.chosen(nan, 0x7E00, found | sign)
    return found.converted("trunc", kind.of("i16"))


def odd_single(x: Value) -> Value:
    """A float64 as float32, rounded to odd, so that rounding it to a half is correct.

    Below float32's normal numbers, the last bit may be lost; no half is near.
    """
    return odd_double(x).converted("fptrunc", x.kind.of("float"))


def odd_double(x: Value) -> Value:
    """A float64 with the significand of a float32, rounded to odd; infinities and NaN lose nothing of what makes them so."""
    bits = x.bits()
    lost = (1 << 29) - 1
    sticky = ((bits & lost) + lost) & (1 << 29)
    return ((bits & ~lost) | sticky).cast(x.kind)
