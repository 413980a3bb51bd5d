"""Sines, cosines and tangents of float32 arguments so large that float64 cannot hold the multiple of pi, by Payne and Hanek's
method.

x is m 2^s with an integer m below 2^24. Whole parts of x / (2 pi) do not matter, so neither do the digits of 1 / (2 pi) before
the place 2^(-s - 1): W, an integer below 2^96, consists of the 96 that follow. T is the integer part of m W 2^-32 modulo 2^64:
it is x / (2 pi) in units of 2^-64, at most 1.01 units too small. D is a signed integer of 64 bits: the distance of T from the
nearest multiple of pi, in half units, or of pi / 2, in quarters of units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.functions.approximate import Approximate
from anydml.kernels.numbers.functions.circular import FARTHEST, SIN_REL, TAN_REL, of_half_turn, of_quarter_turn

# 1 / (2 pi) in words of 32 bits, after two zeros: for the least arguments, W begins in the first word
_WORDS = tuple(0x0A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163A >> 32 * (6 - i) & 0xFFFFFFFF for i in range(7))
_FIRST = 127 + 21  # the exponent field of the least arguments
assert FARTHEST == 2.0**21

# r = D unit: D has an error of 2.02 or 4.04, which is 1.01 u of it, and of u where it is converted; the unit has 0.4 u, and the
# product u. In `circular`, the error of r is larger, so its bounds hold here, too
_LEAST_OF_HALF, _LEAST_OF_QUARTER = 2.0**54, 2.0**55


def _shifted(first: Value, second: Value, by: Value) -> Value:
    """The upper word of two adjacent words that are shifted to the left."""
    return first.body.intrinsic("fshl", first, second, by)


def _turns(x: Value) -> Value:
    """|x| / (2 pi) without its whole part, in units of 2^-64."""
    body, bits = x.body, x.magnitude().bits()
    place = bits.shifted_right(23, signed=False) - _FIRST
    far, odd = ((place & mask).compared("ne", 0) for mask in (64, 32))
    # the words from the one where W begins: there are four such positions
    constants = [body.constant(place.kind, word) for word in _WORDS]
    found = [body.chosen(far, constants[k + 2], constants[k]) for k in range(5)]
    found = [body.chosen(odd, found[k + 1], found[k]) for k in range(4)]
    by = place & 31
    words = [_shifted(found[k], found[k + 1], by) for k in range(3)]
    wide = place.kind.of("i64")
    m = ((bits & 0x7FFFFF) | 0x800000).converted("zext", wide)
    first, second, third = (m * word.converted("zext", wide) for word in words)
    return ((first << 32) + second) + third.shifted_right(32, signed=False)


def _signed(d: Value) -> Value:
    """A signed integer as a float64, rounded once."""
    kind = d.kind.of("double")
    features = d.body.target.features
    if "avx512dq" in features or d.body.target.architecture == "aarch64":
        return d.converted("sitofp", kind)
    # the bits of 2^52 with the lower half, and those of 2^84 + 2^63 with the upper half
    lower = ((d & 0xFFFFFFFF) | 0x4330000000000000).cast(kind)
    upper = (d.shifted_right(32, signed=False) ^ 0x4530000080000000).cast(kind)
    return (upper - (2.0**84 + 2.0**63 + 2.0**52)) + lower


def _nan_if_near(value: Value, d: Value, least: float) -> Value:
    """The value, or NaN if the argument is so near to a multiple that the bound does not hold."""
    return value.body.chosen(d.magnitude().compared("olt", least), math.nan, value)


def _sine(turns: Value) -> Value:
    d = _signed(turns << 1)
    value = of_half_turn(d * (math.pi * 2.0**-64), (turns + (1 << 62)).shifted_right(63, signed=False))
    return _nan_if_near(value, d, _LEAST_OF_HALF)


def _with_sign(value: Value, x: Value) -> Value:
    """The value of an odd function at x, from its value at |x|."""
    sign = x.bits().converted("zext", value.kind.integer).shifted_right(31, signed=False) << 63
    return (value.bits() ^ sign).cast(value.kind)


def _sin(x: Value) -> Value:
    return _with_sign(_sine(_turns(x)), x)


def _cos(x: Value) -> Value:
    """The sine after another quarter of a turn."""
    return _sine(_turns(x) + (1 << 62))


def _tan(x: Value) -> Value:
    turns = _turns(x)
    d = _signed(turns << 2)
    value = of_quarter_turn(d * (math.pi * 2.0**-65), (turns + (1 << 61)).shifted_right(62, signed=False))
    return _with_sign(_nan_if_near(value, d, _LEAST_OF_QUARTER), x)


FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {"sin": _sin, "cos": _cos, "tan": _tan}
RELS = {"sin": SIN_REL, "cos": SIN_REL, "tan": TAN_REL}


def of_far(op: str, x: Value) -> Value:
    """A call of the function for float32 arguments from FARTHEST on; NaN if the bound of smaller arguments does not hold."""
    kind = x.kind.of("double")
    inner = Body(x.body.target)
    made = FUNCTIONS[op](Value(inner, "%x", x.kind))
    name = f"far_{op}_{x.kind.lanes}"
    head = f"define internal {kind.text} @{name}({x.kind.text} %x) noinline {{"
    text = "\n".join([head, "entry:", *inner.lines, f"  ret {made!r}", "}"])
    x.body.declared |= inner.declared | {text: None}
    return x.body.value(f"call {kind.text} @{name}({x!r})", kind)


def completed(op: str, x: Value, near: Approximate) -> Approximate:
    """The float64 result; if an argument of the vector is far, the far lanes are computed by `of_far`."""
    body, value, guard = x.body, near.value, near.guard
    assert guard is not None
    assert near.rel == RELS[op]
    size = x.magnitude()
    far = size.compared("oge", FARTHEST) & size.compared("one", math.inf)
    lanes = far.kind.lanes
    any_ = far.name
    if lanes:
        any_ = body.op(f"icmp ne i{lanes} {body.op(f'bitcast {far.kind.text} {far.name} to i{lanes}')}, 0")

    def computed() -> list[Value]:
        found = body.chosen(far, of_far(op, x), value)
        return [found, (guard & ~far) | (far & found.compared("uno", found))]

    made, undecided = body.either(any_, computed, lambda: [value, guard], seldom=True)
    return Approximate(made, near.rel, undecided)
