"""Sloped elements y = (d + e c) a of a line, where d = x - m and e = z - n, as one operation with one bound.

u is 2^-53. The errors of m, n and c are at most o, p and q, and the relative error of a is r <= 1/4. Then the error of d is o +
u |d|, and that of e c is |c| (p + 2 u |e|) + q (|e| + p), its own rounding included; |d| is at most |d + e c| + |e c|. So the
error of the sum is 2 u of itself plus s = o + |c| p + q p + |e| (q + 4 u |c|), and that of y is (r + 7 u) |y| + (1 + r) |a| s,
with room for the roundings of ends. Elements are FLOAT32 or FLOAT16, and a line's numbers are moderate, so that nothing leaves
float64's range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.standardised import MOST, ROUNDED, Standardised, are_known, far, limits_of, shares
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, decided_size, once
from anydml.kernels.numbers.known import Known
from anydml.kernels.numbers.lanes import either
from anydml.tensor import DataType


class SlopedLine(NamedTuple):
    """Numbers and bounds that a line shares; the error of an element is share |y| + slope |e| + base. None means absent.

    near: the error of n. parts: slope and base of d + e c.
    limits: a float32 factor of |z| and a float32 constant, whose sum |y| has to reach, as in `standardised`.
    """

    m: Value
    n: Value
    near: Value
    c: Value
    a: Value | None
    parts: tuple[Value, Value]
    share: Value
    slope: Value
    base: Value
    guard: Value | None
    limits: tuple[Value, Value]


def line(roles: str, numbers: Sequence[Number]) -> SlopedLine:
    """A line of these numbers, by their roles."""
    of = {role: decided_size(number) for role, number in zip(roles, numbers, strict=True)}
    m, n, c = (of[role] for role in "mnc")
    guards = [x.guard for x in of.values()] + [far(x.wide()) for x in (m, n, c)]
    # infinities: the result depends on signs that are not known here, unless a number is NaN, so that all are; for c: `element`
    infinite = either(*(x.wide().magnitude().compared("oeq", math.inf) for role, x in of.items() if role in "na"))
    assert infinite is not None
    for x in of.values():
        infinite = infinite & x.wide().compared("ord", x.wide())
    guards.append(infinite)
    o, p, q = (x.error() for x in (m, n, c))
    size = c.wide().magnitude()
    slope = q + size * (4 * U)
    base = o + (size + q) * p
    parts = slope * SLACK, base * SLACK
    share, a = m.body.constant(size.kind, ROUNDED * SLACK), None
    if "a" in of:
        share, unsure = shares(of["a"])
        a = of["a"].wide()
        factor = a.magnitude() * (1 + share) * SLACK
        slope, base = slope * factor, base * factor
        guards.append(unsure)
    slope, base, guard = slope * SLACK, base * SLACK, either(*guards)
    # e is at most |z| + |n|
    _, of_z, least = limits_of(share, slope, (base + slope * n.wide().magnitude()) * SLACK, guard)
    return SlopedLine(m.wide(), n.wide(), p, c.wide(), a, parts, share, slope, base, guard, (of_z, least))


def element(shared: SlopedLine, x: Number, z: Number) -> Standardised:
    """The elements of a group in a line."""
    body = x.body
    d, e = x.wide() - shared.m, z.wide() - shared.n
    total = body.fused(e, shared.c, d)
    y = total if shared.a is None else total * shared.a
    bound = once(lambda: body.fused(y.magnitude(), shared.share, body.fused(e.magnitude(), shared.slope, shared.base)))
    single = z.single
    assert single is not None, "elements are float32 numbers"

    def odd() -> Value:
        # if d is -0, the sign of e c decides, and c may be a sum of zeros, whose sign is not known; if c is infinite and e may
        # be 0, the sign of e is not known
        minus = d.bits().compared("eq", -(1 << 63))
        unsure = e.magnitude().compared("ole", shared.near) & shared.near.compared("une", 0.0)
        unknown = minus | (unsure & shared.c.magnitude().compared("oeq", math.inf))
        if shared.a is None:
            return unknown
        # a product with 0 has the sum's sign, which is not known within the sum's error
        either_sign = total.magnitude().compared("ole", body.fused(e.magnitude(), *shared.parts))
        return unknown | (either_sign & shared.a.compared("oeq", 0.0))

    def known(data_type: DataType) -> tuple[Value, Value]:
        made = y.converted("fptrunc", single.kind)
        of_z, least = shared.limits
        return made, are_known(y, made, body.fused(single.magnitude(), of_z, least), data_type)

    return Standardised(Number(body, lambda: y, Known(-MOST, MOST), err=bound, guard=shared.guard), odd, known)
