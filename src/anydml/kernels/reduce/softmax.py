"""e^(x - m) / sum of e^(x - m), where m is the largest x of a row: a common factor of all powers makes no difference.

With c = 0 and an integer k near m / log 2, or c = m and k = 0 if |m| is larger than 700, powers are e^(x - c) 2^-k instead: x -
c is then exact in float64 if x matters. The largest power is between 0.7 and 1.42. An x more than 300 below m is replaced by m
- 300: its quotient is below 2^-430 and stored as 0, and its power is nothing beside a sum of 0.7.

If m is between -`MODERATE` and `MODERATE`, c = 0 and k = 0 do as well, so that m need not be known before: powers are between
2^-866 and 2^433 then, and an x below -600, which is more than 300 below m, is replaced by -600.

The logarithm of that quotient has the rest of the sum of e^(x - m), without the first x that is m. Terms of it that are not
replaced are above 2^-434; replaced ones make no difference: a rest below 2^-160 is stored as 0, or is added to a larger number.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise.standardised import KNOWN, LEAST, NOTHING, Standardised, are_known
from anydml.kernels.match.normal_form import Node, NormalForm, used
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

LN2 = float.fromhex("0x1.62e42fefa39efp-1")  # with an error of 2^-55.2
FAR = 700.0  # for a largest element beyond this, differences from it are exact
BELOW = 300.0
MODERATE = 300.0
VANISHING = 420  # quotients below 2^-420 are stored as 0, and need not be known better
CLOSE, FARTHEST = 600.0, 800.0  # between these gaps, e^-gap reaches 2^-1024
# An entry, the product and r each have an error of u. The error of LN2 counts as often as n differs from that of m; powers
# below 2^-200 of the largest are stored as 0, or are so small a part of a rest above 2^-160 that their error is nothing.
PICKED_REL = EXP_NEAR.rel + 3.1 * U + 203 * 2.0**-55.2
# what rounding a quotient to float32 and multiplying it by an end may move it, for FLOAT16 and for BFLOAT16
OF_HALVES = 2.0**-23
OF_BRAINS = 2.0**-22


def powers(formula: NormalForm) -> int | None:
    """The place of e^(x - m) if a formula is the softmax of x, and x is read; else None."""
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
    return e if formula.users[difference] == (e,) and len(formula.users[e]) == 2 else None


def with_rests(formula: NormalForm) -> NormalForm:
    """The formula with "row_rest" of x and m for each sum of e^(x - m) without the first x that is m.

    This is done in logarithms, which store log1p(rest) + (m - m), added to a difference or an element.
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


def _of_logarithm(formula: NormalForm, rest: int, found: tuple[int, int]) -> bool:
    """Whether a rest is used as `with_rests` says."""
    x, m = found
    uses, place = formula.users, rest
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


def _rest(formula: NormalForm, e: int, condition: int) -> tuple[int, int] | None:
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


def less(formula: NormalForm) -> tuple[int, int, int] | None:
    """The places of x, m and L if a formula is the log-softmax (x - m) - L: m is a row's largest x, L comes from a rest."""
    op, args, _ = formula[-1]
    if op != "sub" or formula[args[0]].op != "sub":
        return None
    x, m = formula[args[0]].args
    rests = [node for node in formula if node.op == "row_rest"]
    same = formula[m] == ("row_max", (x,), False) and [node.args for node in rests] == [(x, m)]
    return (x, m, args[1]) if same else None


def closely(x: Number, m: Number, log: Number, gap: Value, count: int, data_type: DataType) -> tuple[Value, Value]:
    """The bits of (x - m) - L, and the undecided lanes, possibly too many; count: the most elements of a row.

    x - m is exactly a float64 and a remainder, so that it is known on which side of it the result is, however small L is. gap:
    the distance of m from all others. A difference within 2^-1024 |b| of a tie b counts as b; of n terms, L is between e^-gap
    and n e^-gap, up to 2^-800 of it. Below, `limit` is between 2^1022.8 e^-gap and 2^1023.8 e^-gap if gap is between 600 and
    800. Differences below it are below 2^1023.8 L, those from 4 n times it on are above 2^1024.8 L, and those between stay
    undecided. Elements other than m differ from it by at least gap, and by at most 2^130, so that this holds for all gaps.
    """
    body, nothing = x.body, x.wide().lift(0.0)
    head, tail = two_sum(x.wide(), -m.wide())
    shifted = at_most(at_least(gap, CLOSE), FARTHEST) * -LOG2_E + 1023.3 + ROUNDER
    limit = ((shifted.bits() << 52) + (1023 << 52)).cast(nothing.kind)
    size = head.magnitude()
    ahead = size.compared("oge", limit * (4.0 * count))
    small, err = (body.chosen(ahead, 0.0, value) for value in (log.wide(), log.error()))
    left = tail - small  # this and the sums with a bound are rounded, unless L is left out
    err = (err + body.chosen(ahead, 0.0, left.magnitude() * (3 * U))) * SLACK
    if body.target.probe is not None:
        unclaimed = either(log.guard, ~ahead & size.compared("oge", limit))
        return recorded.claimed(head, left, err, unclaimed, data_type.element_bits)
    low, high = (singles.narrowed(odd_of(*two_sum(head, left + end)), data_type) for end in (-err, err))
    unsure = either(log.guard, ~ahead & size.compared("oge", limit), low.compared("ne", high), ~size.compared("olt", math.inf))
    assert unsure is not None
    return high, unsure


class Shares:
    """The powers and quotients of a row whose largest element is known."""

    def __init__(self, body: Body, m: Value, below: float = BELOW, *, moderate: bool = False) -> None:
        self.body, self.moderate = body, moderate
        far = m.magnitude().compared("ugt", FAR)
        self.c = body.chosen(far, m, 0.0)
        near = body.chosen(far, 0.0, m)
        self.least = near - below
        single = near.kind.of("float")
        self.singles = self.c.converted("fptrunc", single), self.least.converted("fptrunc", single)
        # k log 2 has 52 bits: |k| is below 2^11, for x - c between -1300 and 700
        whole = (near * LOG2_E + ROUNDER) - ROUNDER
        self.rounder = ROUNDER - whole
        self.picks = "avx512f" in body.target.features and near.kind.lanes >= 8
        self.fine_rounder = ROUNDER / 16 - whole
        self.rel = PICKED_REL if self.picks else EXP_REL
        self.ends: tuple[Value, Value] | None = None
        self.reciprocal: Value | None = None

    def begun(self, x: Value) -> list[Value]:
        """The first half of a power: r and 2^(n - k), or the bits of n - k, where x - c = n log 2 + r.

        n counts 16ths if 2^n is looked up in a table. Halves of different elements overlap in time; a whole power would be one
        long chain of dependent instructions.
        """
        # in float32, x - c is exact, too, if x matters: both have one sign, and neither is twice the other
        c, least = self.singles if x.kind.element == "float" else (self.c, self.least)
        d = at_least(x if self.moderate else x - c, least).converted("fpext", self.c.kind)
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
        """e^(x - c) 2^-k, or the least power if x is too far below m to matter."""
        r, exponent = halves
        # a NaN, from an element or from infinities, has no low bits, so that adding to its exponent is harmless
        made = EXP_NEAR(r) * exponent if self.picks else (EXP(r).bits() + exponent).cast(r.kind)
        return Number(self.body, lambda: made, Known(0.0, 2.0), rel=self.rel)

    def nothing(self) -> list[Value]:
        """The halves of a power that is 0."""
        kind = self.c.kind
        zero = self.body.constant(kind, 0.0)
        return [zero, zero if self.picks else self.body.constant(kind.integer, -1023 << 52)]

    def divide(self, total: Value, depth: int) -> None:
        """Set the sum of a row's powers; depth: of its additions.

        Powers have an error of `rel`, and so does their sum, besides its additions; the reciprocal, the factors for the ends,
        and the products with them have one rounding each.
        """
        share = (2 * self.rel + (depth + 6) * U) * SLACK
        reciprocal = 1 / total
        self.reciprocal = reciprocal if share < KNOWN / 2 else None
        self.ends = reciprocal * (1 - share), reciprocal * (1 + share)

    def share(self, e: Number) -> Standardised:
        """A power divided by the sum, which `known` tests where its error is at most half of `KNOWN`."""
        assert self.ends is not None
        (low, high), near = self.ends, self.reciprocal
        number = Number(
            self.body,
            lambda: e.wide() * high,
            Known(0.0, 1.0),
            rel=1.0,
            saturated=VANISHING,
            ends=lambda: (e.wide() * low, e.wide() * high),
        )

        def known(data_type: DataType) -> tuple[Value, Value]:
            assert near is not None
            y = e.wide() * near
            made = y.converted("fptrunc", y.kind.of("float"))
            return made, are_known(y, made, self.body.constant(made.kind, LEAST), data_type)

        def between(data_type: DataType) -> tuple[Value, Value]:
            assert near is not None
            y = (e.wide() * near).converted("fptrunc", e.wide().kind.of("float"))
            if data_type == DataType.FLOAT16:  # numbers below 2^-126 are 0
                return y * (1 - OF_HALVES), y * (1 + OF_HALVES)
            return self.body.fused(y, 1 - OF_BRAINS, -NOTHING), self.body.fused(y, 1 + OF_BRAINS, NOTHING)

        return Standardised(number, None, *((None, None) if near is None else (known, between)))
