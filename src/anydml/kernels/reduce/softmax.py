"""e^(x - m) / sum of e^(x - m), where m is the largest x of a row: a quotient to which a common factor does not matter.

With c = 0 and an integer k near m / log 2, or c = m and k = 0 where |m| is larger than 700, powers are e^(x - c) 2^-k instead:
x - c is then exact in float64 where x counts. The largest power is between 0.7 and 1.42. Of what is more than 300 below m, a
power of m - 300 is taken: its quotient is below 2^-430 and stored as 0, and beside a sum of 0.7 it does not count.

The logarithm of that quotient has the rest of the sum of e^(x - m), without the first x that is m. Of its terms, those that
are not 0 are above 2^-434, and where they are more than that it does not show: a rest below 2^-160 is stored as 0, or is
added to what is not.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise.combined import used
from anydml.kernels.match.maps import Formula, Node
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, odd_of
from anydml.kernels.numbers.functions.approximate import ROUNDER, at_least, at_most
from anydml.kernels.numbers.functions.coefficients import EXP, EXP_NEAR
from anydml.kernels.numbers.functions.exponentials import EXP_REL, LN2_HEAD, LN2_TAIL, LOG2_E
from anydml.kernels.numbers.functions.paired_tables import SIXTEENTHS
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.functions.picks import picked
from anydml.kernels.numbers.known import Known
from anydml.kernels.numbers.lanes import either
from anydml.tensor import DataType

LN2 = float.fromhex("0x1.62e42fefa39efp-1")  # off by 2^-55.2
FAR = 700.0  # largest elements beyond have others near them as exact differences
BELOW = 300.0
VANISHING = 420  # quotients below 2^-420 are stored as 0, and not known any nearer
CLOSE, FARTHEST = 600.0, 800.0  # e^-gap is 2^-1024 in between, by far
# An entry, the product and r are off by u each. What LN2 is off by counts as often as n differs from that of m;
# what is below 2^-200 of the largest power is stored as 0, or is so little of a rest above 2^-160 that its error is nothing
PICKED_REL = EXP_NEAR.rel + 3.1 * U + 203 * 2.0**-55.2


def powers(formula: Formula) -> int | None:
    """The place of e^(x - m) where a formula is the softmax of x, which is read; None where it is anything else."""
    last = len(formula) - 1
    op, args, _ = formula[last]
    if op != "div" or formula[args[1]] != ("row_sum", (args[0],), False):
        return None
    e = args[0]
    op, args, _ = formula[e]
    if op != "exp" or formula[args[0]].op != "sub":
        return None
    difference = args[0]
    x, m = formula[difference].args
    if formula[x].op != "stream" or formula[m] != ("row_max", (x,), False):
        return None
    uses = {p: [q for q, node in enumerate(formula) if p in node.args] for p in (e, difference)}
    return e if uses[difference] == [e] and len(uses[e]) == 2 else None


def with_rests(formula: Formula) -> Formula:
    """A formula with "row_rest" of x and m for the sums of e^(x - m) without the first x that is m.

    It is that of a logarithm: what is stored is log1p(rest) + (m - m), added to a difference or an element.
    """
    made = list(formula)
    for place, (op, args, _) in enumerate(formula):
        if (
            op == "row_sum"
            and len(args) == 2
            and (found := _rest(formula, *args)) is not None
            and _of_logarithm(formula, place, found)
        ):
            made[place] = Node("row_rest", found, False)
    return used(made)


def _of_logarithm(formula: Formula, rest: int, found: tuple[int, int]) -> bool:
    """Whether a rest is used as `with_rests` says."""
    x, m = found
    uses = [[q for q, node in enumerate(formula) if p in node.args] for p in range(len(formula))]
    place = rest
    for op in ("log1p", "add"):
        if len(uses[place]) != 1 or formula[uses[place][0]].op != op:
            return False
        (place,) = uses[place]
    zero = next((formula[a] for a in formula[place].args if formula[a].op == "sub"), None)
    if zero is None or zero.args != (m, m) or len(uses[place]) != 1:
        return False
    (last,) = uses[place]
    op, args, _ = formula[last]
    beside = [formula[a] for a in args if a != place]
    known = [node in (formula[m], formula[x]) or (node.op, node.args) == ("sub", (x, m)) for node in beside]
    if op not in ("add", "sub") or known != [True]:
        return False
    return last == len(formula) - 1 or [formula[q].op for q in uses[last]] == ["limits"]


def _rest(formula: Formula, e: int, condition: int) -> tuple[int, int] | None:
    power, other = formula[e], formula[condition]
    if power.op != "exp" or formula[power.args[0]].op != "sub" or other.op != "not":
        return None
    x, m = formula[power.args[0]].args
    if formula[x].op != "stream" or formula[x].data[1] not in singles.SINGLES:
        return None
    where = formula[other.args[0]]
    if formula[m] != ("row_max", (x,), False) or where.op != "equal":
        return None
    place, first = (formula[a] for a in where.args)
    if first == ("row_first_largest", (x,), False) and place.op == "stream" and place.data[1] == DataType.INT64:
        return x, m
    return None


def less(formula: Formula) -> tuple[int, int, int] | None:
    """The places of x, m and L where a formula is the log-softmax (x - m) - L: m is a row's largest x, L known of a rest."""
    op, args, _ = formula[-1]
    if op != "sub" or formula[args[0]].op != "sub":
        return None
    x, m = formula[args[0]].args
    rests = [node for node in formula if node.op == "row_rest"]
    same = formula[m] == ("row_max", (x,), False) and [node.args for node in rests] == [(x, m)]
    return (x, m, args[1]) if same else None


def closely(x: Number, m: Number, log: Number, gap: Value, count: int, data_type: DataType) -> tuple[Value, Value]:
    """The bits of (x - m) - L, and the lanes that stay undecided, which may be too many; count: of a row's elements, at most.

    x - m is exactly a float64 and what is left of it, and so it is known on which side of it the result is, however small L is.
    gap: how far m is ahead of all others. What is within 2^-1024 |b| of a tie b counts as b; of n terms, L is between e^-gap
    and n e^-gap, but for 2^-800 of it. Below, `limit` is between 2^1022.8 e^-gap and 2^1023.8 e^-gap where gap is between 600
    and 800. Differences below that are below 2^1023.8 L, those from 4 n times as much on are above 2^1024.8 L; what is between
    stays undecided. Elements that are not m differ from it by gap at least, and by 2^130 at most, so that this holds beyond 600
    and 800, too.
    """
    body, nothing = x.body, x.wide().lift(0.0)
    head, tail = two_sum(x.wide(), -m.wide())
    shifted = at_most(at_least(gap, CLOSE), FARTHEST) * -LOG2_E + 1023.3 + ROUNDER
    limit = ((shifted.bits() << 52) + (1023 << 52)).cast(nothing.kind)
    size = head.magnitude()
    ahead = size.compared("oge", limit * (4.0 * count))
    small, err = (body.chosen(ahead, 0.0, value) for value in (log.wide(), log.error()))
    left = tail - small  # this and the sums with a bound are rounded, but where L is left out
    err = (err + body.chosen(ahead, 0.0, left.magnitude() * (3 * U))) * SLACK
    if body.target.probe is not None:
        unclaimed = either(log.guard, ~ahead & size.compared("oge", limit))
        return recorded.claimed(head, left, err, unclaimed, data_type.element_bits)
    low, high = (singles.narrowed(odd_of(*two_sum(head, left + end)), data_type) for end in (-err, err))
    unsure = either(log.guard, ~ahead & size.compared("oge", limit), low.compared("ne", high), ~size.compared("olt", math.inf))
    assert unsure is not None
    return high, unsure


class Shares:
    """The powers and quotients of a row, whose largest element is known."""

    def __init__(self, body: Body, m: Value) -> None:
        self.body = body
        far = m.magnitude().compared("ugt", FAR)
        self.c = body.chosen(far, m, 0.0)
        near = body.chosen(far, 0.0, m)
        self.least = near - BELOW
        single = near.kind.of("float")
        self.singles = self.c.converted("fptrunc", single), self.least.converted("fptrunc", single)
        # k log 2 has 52 bits: |k| is below 2^11 for x - c between -1000 and 700
        whole = (near * LOG2_E + ROUNDER) - ROUNDER
        self.rounder = ROUNDER - whole
        self.picks = "avx512f" in body.target.features and near.kind.lanes >= 8
        self.fine_rounder = ROUNDER / 16 - whole
        self.rel = PICKED_REL if self.picks else EXP_REL
        self.ends: tuple[Value, Value] | None = None

    def begun(self, x: Value) -> list[Value]:
        """The first half of a power: r and 2^(n - k), or the bits of n - k, where x - c = n log 2 + r.

        n counts 16ths where 2^n is picked from a table. Halves of different elements overlap in time, where one would be a
        long chain that waits for itself.
        """
        # of float32, x - c is exact where x counts, too: both are of one sign, and neither is twice the other
        c, least = self.singles if x.kind.element == "float" else (self.c, self.least)
        d = at_least(x - c, least).converted("fpext", self.c.kind)
        if self.picks:
            shifted = self.body.fused(d, LOG2_E, self.fine_rounder)
            index = shifted.bits()
            scale = (picked(SIXTEENTHS, "double", index).bits() + (index << 48)).cast(d.kind)
            return [self.body.fused(shifted - self.fine_rounder, -LN2, d), scale]
        shifted = self.body.fused(d, LOG2_E, self.rounder)
        n = shifted - self.rounder
        r = self.body.fused(n, -LN2_TAIL, self.body.fused(n, -LN2_HEAD, d))
        return [r, shifted.bits() << 52]

    def ended(self, halves: list[Value]) -> Number:
        """e^(x - c) 2^-k, or what stands for it where it does not count."""
        r, exponent = halves
        # a NaN has no low bits, which would move its exponent: it comes of an element or of infinities
        made = EXP_NEAR(r) * exponent if self.picks else (EXP(r).bits() + exponent).cast(r.kind)
        return Number(self.body, lambda: made, Known(0.0, 2.0), rel=self.rel)

    def nothing(self) -> list[Value]:
        """Halves of a power that is 0."""
        kind = self.c.kind
        zero = self.body.constant(kind, 0.0)
        return [zero, zero if self.picks else self.body.constant(kind.integer, -1023 << 52)]

    def divide(self, total: Value, depth: int) -> None:
        """Take a row's sum of powers; depth: of its additions.

        Powers are off by `rel`, and so is their sum, besides its additions; the reciprocal, the factors that are the ends and
        the products with them have one rounding each.
        """
        share = (2 * self.rel + (depth + 6) * U) * SLACK
        reciprocal = 1 / total
        self.ends = reciprocal * (1 - share), reciprocal * (1 + share)

    def share(self, e: Number) -> Number:
        """A power divided by the sum."""
        assert self.ends is not None
        low, high = self.ends
        return Number(
            self.body,
            lambda: e.wide() * high,
            Known(0.0, 1.0),
            rel=1.0,
            saturated=VANISHING,
            ends=lambda: (e.wide() * low, e.wide() * high),
        )
