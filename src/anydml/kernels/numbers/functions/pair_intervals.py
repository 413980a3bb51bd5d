"""Numbers between two ends in pairs of float32: a head, and two tails."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.values import Value

ROUNDER = 1.5 * 2.0**23  # adding it rounds to an integer, which is then in the low bits
COARSE = 8  # places, a share of 2^-21 at least: e^x is within 2^-21.5, the sigmoid within 2^-21.2, GELU within 2^-21.4
SCALED_MARGIN = 2.0**-23.9  # the tail's product, and its difference from the margin, are each rounded by 2^-25 of the tail
SCALED_LEAST = 2.0**-90


class PairInterval(NamedTuple):
    """A number between head + low and head + high, except in the lanes of `outside`; sign: its sign bit flips the number's.

    size: the largest ratio of the middle of the tails and the head. sums: the float32 that head + low and head + high round to,
    if given. close: whether the ends are within 2^-26 of each other, relative to the head, so that head + high is less than a
    place of float32 from the number when it is rounded. coarse: the number within `COARSE` places of float32, for types of few
    digits.
    """

    head: Value
    low: Value
    high: Value
    outside: Value | None
    sign: Value | None = None
    size: float = 2.0**-9
    sums: tuple[Value, Value] | None = None
    close: bool = False
    coarse: Value | None = None

    def ends(self) -> tuple[Value, Value]:
        """The float32 of both ends: if they are equal, the number rounds to them, up to its sign."""
        return self.sums or (self.head + self.low, self.head + self.high)


def negative(x: PairInterval) -> PairInterval:
    ones = x.head.body.constant(x.head.kind.integer, -(1 << 31))
    return x._replace(sign=ones if x.sign is None else x.sign ^ ones, coarse=None if x.coarse is None else -x.coarse)


def scaled(x: PairInterval, factor: Value) -> PairInterval:
    """The product with a float32; the ends are moved apart by more than the roundings of the tails.

    Tails also have a margin, which is rounded by 2^-24 of itself at most: far less than what errors leave of it.
    """
    body, fused = factor.body, factor.body.fused
    if x.sign is not None:
        factor = (factor.bits() ^ x.sign).cast(factor.kind)
    head = x.head * factor
    size = head.magnitude()
    error = fused(x.head, factor, -head)
    ends = [fused(tail, factor, error) for tail in (x.low, x.high)]
    width = size * (x.size * SCALED_MARGIN)
    upward = factor.compared("oge", 0.0)
    low, high = body.chosen(upward, ends[0], ends[1]), body.chosen(upward, ends[1], ends[0])
    # outside: too small for exact products of 48 bits, and zeros; for an infinity, the ends are NaN, and differ
    return PairInterval(head, low - width, high + width, size.compared("ult", SCALED_LEAST), None, 2 * x.size)


def chosen(condition: Value, x: PairInterval | Value, y: PairInterval | Value) -> PairInterval:
    """x in the lanes where the condition holds, else y; the operands' `outside` is dropped."""
    body = condition.body
    zero = body.constant((x.head if isinstance(x, PairInterval) else x).kind, -0.0)  # adding -0 keeps the sign of a zero
    a, b = (v if isinstance(v, PairInterval) else PairInterval(v, zero, zero, None, coarse=v) for v in (x, y))
    none = body.constant(zero.kind.integer, 0)
    sign = None
    if a.sign is not None or b.sign is not None:
        sign = body.chosen(condition, a.sign or none, b.sign or none)
    head, low, high = (body.chosen(condition, v, w) for v, w in ((a.head, b.head), (a.low, b.low), (a.high, b.high)))
    coarse = None if a.coarse is None or b.coarse is None else body.chosen(condition, a.coarse, b.coarse)
    return PairInterval(head, low, high, None, sign, max(a.size, b.size), coarse=coarse)
