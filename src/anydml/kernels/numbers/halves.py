"""FLOAT16 elements as float32 and back, with the processor's conversions or without them."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value


def widened(bits: Value) -> Value:
    """The numbers of FLOAT16's bits (i16) as float32, exactly; NaN stays NaN."""
    body, kind = bits.body, bits.kind
    if body.has_halves:
        return bits.cast(kind.of("half")).converted("fpext", kind.of("float"))
    words = bits.converted("zext", kind.of("i32"))
    magnitude = words & 0x7FFF
    # the exponent and fraction of a half, moved to a float's, give a number 2^112 times too small; this holds for subnormal
    # ones, too
    scaled = (magnitude << 13).cast(kind.of("float")) * 2.0**112
    special = magnitude.compared("uge", 0x7C00)
    infinite = ((magnitude << 13) | 0x7F800000).cast(kind.of("float"))
    sign = ((words & 0x8000) << 16).cast(kind.of("float"))
    return body.chosen(special, infinite, scaled).signed_as(sign)


def narrowed(x: Value) -> Value:
    """A float32 as FLOAT16's bits (i16), rounded half to even; NaN is 0x7E00."""
    body, kind = x.body, x.kind
    nan = x.compared("uno", x)
    if body.has_halves:  # these convert this NaN to 0x7E00
        return body.chosen(nan, math.nan, x).converted("fptrunc", kind.of("half")).bits()
    words = kind.of("i32")
    sign = (x.bits() & -0x80000000).shifted_right(16, signed=False)
    size = x.magnitude()
    # below 2^-14, halves are multiples of 2^-24, which is the last place of a float32 at 0.5
    small = (size + 0.5).bits() - body.constant(Value(body, "", words).kind, 0x3F000000)
    # elsewhere: round off 13 places, half to even, and carry into the exponent
    raw = size.bits()
    even = raw.shifted_right(13, signed=False) & 1
    large = (raw - 0x38000000 + 0xFFF + even).shifted_right(13, signed=False)
    found = body.chosen(size.compared("olt", 2.0**-14), small, large)
    found = body.chosen(size.compared("oge", 65520.0), 0x7C00, found)
    found = body.chosen(nan, 0x7E00, found | sign)
    return found.converted("trunc", kind.of("i16"))


def odd_single(x: Value) -> Value:
    """A float64 as float32, rounded to odd, so that rounding it to a half is correct.

    Below the normal float32 numbers, the last bit may be lost; no half is near.
    """
    return odd_double(x).converted("fptrunc", x.kind.of("float"))


def odd_double(x: Value) -> Value:
    """A float64 with the significand of a float32, rounded to odd; infinities and NaN lose nothing of what makes them so."""
    bits = x.bits()
    lost = (1 << 29) - 1
    sticky = ((bits & lost) + lost) & (1 << 29)
    return ((bits & ~lost) | sticky).cast(x.kind)
