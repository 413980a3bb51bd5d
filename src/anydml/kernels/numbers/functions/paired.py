"""Functions in pairs of float32, which decide most results before float64 is needed.

A result is a head and two tails, between which the function of a float32 argument is. Only fused multiply-adds, sums, quotients
and table look-ups are used; each gives the same bits on every processor, so that a proof for all 2^32 arguments on one
(`tools/prove_pairs.py`) holds on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.functions import paired_tables as tables
from anydml.kernels.numbers.functions.approximate import at_most
from anydml.kernels.numbers.functions.pair_intervals import ROUNDER, PairInterval
from anydml.kernels.numbers.functions.paired_circular import cos, sin
from anydml.kernels.numbers.functions.picks import fine, picked
from anydml.kernels.numbers.functions.polynomials import evaluated

EXP_MARGIN = {False: 2.0**-32.5, True: 2.0**-35.3}  # with tables of 8 entries, and of 32
EXP_FAR = 77.0  # beyond, the tail is subnormal and loses digits

LOG_MARGIN = 2.0**-23  # relative to r^3; LOG_LEAST is relative to the result
LOG_LEAST = 2.0**-34.8
SIGMOID_MARGIN = {False: 2.0**-32.5, True: 2.0**-35.3}
SIGMOID_FAR = 18.0  # the sigmoid is refused below minus this
SIGMOID_FULL = 40.0  # from here on, it is 1 within 2^-57
TANH_MARGIN = {False: 2.0**-33, True: 2.0**-32.8}
TANH_TAIL, TANH_LEAST = 2.0**-22, 2.0**-33.6  # with tables of 8 entries: relative to x^3 p(x^2), and elsewhere to 1
TANH_FAR, TANH_NEAR = 20.0, 2.0**-4.5
ERF_MARGIN = 2.0**-34.4
GELU_MARGIN = 2.0**-37.9  # relative to the argument
GELU_COARSE = -4.2  # up to here, the head is not within `COARSE` places
TINY = (127 - 90) << 23  # the bits of 2^-90; smaller numbers have tails that lose digits


class Power(NamedTuple):
    """e^x = scale (1 + r + p), where |r| < 0.044 and |p| < 0.001."""

    scale: Value
    r: Value
    p: Value

    def pair(self) -> tuple[Value, Value]:
        """A head, scale + scale r rounded, and a tail, the rest."""
        fused = self.r.body.fused
        head = fused(self.scale, self.r, self.scale)
        return head, fused(self.scale, self.p, fused(self.scale, self.r, self.scale - head))

    def rounded(self) -> tuple[Value, Value]:
        """A head, the rounded result, and a tail below 2^-23 of it."""
        fused = self.r.body.fused
        head = fused(self.scale, self.r + self.p, self.scale)
        return head, fused(self.scale, self.p, fused(self.scale, self.r, self.scale - head))


def power(x: Value, trim: float = 0.0, *, far: bool = False) -> Power:
    """e^x (1 - trim), for |x| <= 77. With tables of 8 entries, the error grows from |x| = 10 on, unless `far` is set."""
    return _power_of_32(x, trim) if fine(x) else _power_of_8(x, trim, far=far)


def _power_of_8(x: Value, trim: float, *, far: bool) -> Power:
    fused = x.body.fused
    shifted = fused(x, tables.EXP8_INVERSE, ROUNDER)
    k = shifted - ROUNDER
    r = fused(k, -tables.EXP8_STEP, x)  # exact
    index = shifted.bits()
    scale = (picked(tables.EXP8_HEADS, "i32", index) + (index << 20)).cast(x.kind)
    rest = fused(k, -tables.EXP8_STEP_TAIL, picked([t - trim for t in tables.EXP8_TAILS], "float", index))
    squared = r * r
    q = fused(fused(r, tables.EXP8_TERMS[2], tables.EXP8_TERMS[1]), r, tables.EXP8_TERMS[0])
    p = fused(r, fused(squared, q, rest), rest)
    return Power(scale, r, fused(squared, fused(rest, 0.5, 0.5) if far else 0.5, p))


def _power_of_32(x: Value, trim: float) -> Power:
    fused = x.body.fused
    shifted = fused(x, tables.EXP32_INVERSE, ROUNDER)
    k = shifted - ROUNDER
    r = fused(k, -tables.EXP32_STEP, x)  # exact
    index = shifted.bits()
    scale = (picked(tables.EXP32_HEADS, "i32", index) + (index << 18)).cast(x.kind)
    rest = fused(k, -tables.EXP32_STEP_TAIL, picked([t - trim for t in tables.EXP32_TAILS], "float", index))
    q = fused(fused(r, tables.EXP32_TERMS[1], tables.EXP32_TERMS[0]), r, 0.5)
    return Power(scale, r, fused(r, fused(r, q, rest), rest))


def exp(x: Value) -> PairInterval:
    margin = EXP_MARGIN[fine(x)]
    y = power(x, margin, far=True)
    head, tail = y.pair()
    high = x.body.fused(y.scale, margin * 2.3, tail)
    return PairInterval(head, tail, high, _beyond(x, EXP_FAR), close=True, coarse=_coarse_power(x))


def _coarse_power(x: Value) -> Value:
    """e^x: the table's tails and the last terms of the polynomial are left out, and so are most instructions."""
    fused, many = x.body.fused, fine(x)
    inverse, step, tail, heads, places, last = (
        (tables.EXP32_INVERSE, tables.EXP32_STEP, tables.EXP32_STEP_TAIL, tables.EXP32_HEADS, 18, 0.5)
        if many
        else (tables.EXP8_INVERSE, tables.EXP8_STEP, tables.EXP8_STEP_TAIL, tables.EXP8_HEADS, 20, None)
    )
    shifted = fused(x, inverse, ROUNDER)
    k = shifted - ROUNDER
    r = fused(k, -tail, fused(k, -step, x))
    index = shifted.bits()
    scale = (picked(heads, "i32", index) + (index << places)).cast(x.kind)
    p = fused(r, last, 1.0) if last else fused(fused(r, 1 / 6, 0.5), r, 1.0)
    return fused(scale, r * p, scale)


def _beyond(x: Value, far: float) -> Value:
    return x.magnitude().compared("ugt", far)


def sigmoid(x: Value) -> PairInterval:
    """1 / (1 + e^-x) = z (1 + u + u^2), where z is the rounded inverse of a rounded sum.

    With tables of 32 entries, |u| is below 2^-13, and z need not wait for the tail; with tables of 8, u is so small that u^2 is
    negligible.
    """
    fused, chosen = x.body.fused, x.body.chosen
    y = power(-at_most(x, SIGMOID_FULL), far=True)
    head, tail = y.pair() if fine(x) else y.rounded()
    large, small = chosen(head.compared("ogt", 1.0), head, 1.0), chosen(head.compared("olt", 1.0), head, 1.0)
    total = large + small
    z = 1 / total
    u = fused(-z, (small - (total - large)) + tail, fused(-z, total, 1.0))
    if fine(x):
        u = fused(u, u, u)
    margin = SIGMOID_MARGIN[fine(x)]
    low, high = u - margin, u + margin
    sums, coarse = (fused(z, low, z), fused(z, high, z)), 1 / (_coarse_power(-at_most(x, SIGMOID_FULL)) + 1.0)
    return PairInterval(z, z * low, z * high, x.compared("ult", -SIGMOID_FAR), None, 2.0**-12, sums, close=True, coarse=coarse)


def tanh(x: Value) -> PairInterval:
    """(e^2x - 1) / (e^2x + 1); near 0, where the error of e^2x is large compared to e^2x - 1, x + x^3 p(x^2)."""
    body, fused = x.body, x.body.fused
    size = x.magnitude()
    most = at_most(size, TANH_FAR)
    head, tail = power(most + most).rounded()
    above, below = head - 1.0, head + 1.0
    above_tail, below_tail = ((head - above) - 1.0) + tail, (1.0 - (below - head)) + tail
    z = 1 / below
    quotient = above * z
    rest = z * fused(-quotient, below_tail, above_tail + fused(-quotient, below, above))
    near = size.compared("olt", TANH_NEAR)
    squared = size * size
    series = fused(fused(squared, tables.TANH[2], tables.TANH[1]), squared, tables.TANH[0])
    quotient = body.chosen(near, size, quotient)
    rest = body.chosen(near, size * squared * series, rest)
    share = quotient * TANH_MARGIN[fine(x)]
    if not fine(x):
        share = share + body.chosen(near, rest.magnitude() * TANH_TAIL, TANH_LEAST)
    # for NaN, the ends are NaN, and differ
    return PairInterval(quotient, rest - share, rest + share, None, x.bits() & -(1 << 31), close=True)


def log(x: Value) -> PairInterval:
    """log x for a normal positive x."""
    return _log(x)._replace(outside=~(x.bits() - (1 << 23)).compared("ult", 0x7F000000))


def log_of_subnormal(x: Value) -> PairInterval:
    """log x for a positive x below 2^-126."""
    scaled_up = (x.bits() & 0x7FFFFF).converted("sitofp", x.kind) * 2.0 ** (32 - 149)
    return _log(scaled_up, 32)._replace(outside=(x.bits() - 1).compared("uge", (1 << 23) - 1))


def _log(x: Value, less: int = 0) -> PairInterval:
    """e log 2 + log m, with tables of 8 entries; for normal positive x. 1 + r is the product of m and an entry. less:
    subtracted from e."""
    fused = x.body.fused
    bits = x.bits()
    moved = bits - tables.LOG_FIRST
    exponent = moved.shifted_right(23, signed=True)
    index = moved.shifted_right(20, signed=False)
    k = (exponent - less if less else exponent).converted("sitofp", x.kind)
    m = (bits - (exponent << 23)).cast(x.kind)
    r = fused(m, picked(tables.LOG_FACTORS, "float", index), -1.0)  # exact
    head = fused(k, tables.LN2_HEAD, picked(tables.LOG_HEADS, "float", index))  # exact
    rest = fused(k, tables.LN2_TAIL, picked(tables.LOG_TAILS, "float", index))
    squared = r * r
    lost = fused(r, r, -squared)
    near = fused(squared, -0.5, r)
    rest_near = fused(squared, -0.5, r - near)
    q = x.lift(tables.LOG[-1])
    for c in reversed(tables.LOG[:-1]):
        q = fused(q, r, c)
    total = head + near
    cube = squared * r
    tail = fused(lost, -0.5, fused(cube, q, rest)) + (rest_near + (near - (total - head)))
    share = fused(cube.magnitude(), LOG_MARGIN, total.magnitude() * LOG_LEAST)
    return PairInterval(total, tail - share, tail + share, None, close=True)


def _of_square(x: Value, coefficients: Sequence[float], far: float) -> Value:
    """A polynomial, in float64, of x^2 minus the middle of its range 0 .. far^2."""
    t = x.body.fused(x, x, -(far * far / 2))
    return evaluated(t, coefficients, 1, x.body.fused, lambda a: a * a)


def halved(y: Value, single: Kind) -> tuple[Value, Value]:
    """A float64 as a head and a tail of float32."""
    head = y.converted("fptrunc", single)
    return head, (y - head.converted("fpext", y.kind)).converted("fptrunc", single)


def _without_tails(size: Value) -> Value:
    """The lanes whose magnitude is so small that a float32 tail loses digits; zeros have none."""
    least = -(1 << 31)  # of integers; the bits of 1 become it, and those of 0 the largest
    return (size.bits() + (least - 1)).compared("slt", least - 1 + TINY)


def erf(x: Value) -> PairInterval:
    """x times a polynomial of x^2 in float64, for x whose 1 - erf is not negligible beside 1."""
    size = x.magnitude()
    z = at_most(size, tables.ERF_FAR).converted("fpext", x.kind.of("double"))
    head, tail = halved(z * _of_square(z, tables.ERF, tables.ERF_FAR), x.kind)
    share = head * ERF_MARGIN
    # beyond, erf is between its value at the limit and 1
    beyond = x.body.chosen(size.compared("ogt", tables.ERF_FAR), 2.0**-25, share)
    return PairInterval(head, tail - share, tail + beyond, _without_tails(size), x.bits() & -(1 << 31), 2.0**-23)


def gelu(x: Value) -> PairInterval:
    """x Phi(x) = x (1/2 + x p(x^2)): the error is relative to x, and for a negative x it may exceed the result."""
    body, far = x.body, tables.GELU_FAR
    size = x.magnitude()
    z = at_most(size, far).signed_as(x).converted("fpext", x.kind.of("double"))
    share = body.fused(z, _of_square(z, tables.GELU, far), 0.5)
    head, tail = halved(z.magnitude() * share, x.kind)
    # beyond, the tail is that of `far`, and the result is between x and x Phi(far), which is x (1 - 2^-26.68)
    beyond = size.compared("ogt", far)
    head = body.chosen(beyond, size, head)
    margin = size * body.chosen(beyond, 2.0**-25.7, x.lift(GELU_MARGIN))
    outside = _without_tails(size) | x.compared("olt", -far)
    # the share is at least 2^-16.2 there, so that the margin is less than `COARSE` places of the head; other lanes are ties
    coarse = body.chosen(x.compared("ult", GELU_COARSE), 1 + 2.0**-8, head).signed_as(x)
    return PairInterval(head, tail - margin, tail + margin, outside, x.bits() & -(1 << 31), 2.0**-23, coarse=coarse)


FUNCTIONS: dict[str, Callable[[Value], PairInterval]] = {f.__name__: f for f in (exp, sigmoid, tanh, log, erf, gelu, sin, cos)}
MIXED = {"erf", "gelu"}  # computed in float64, and only split into pairs at the end


def serves(body: Body) -> bool:
    """Whether a target has the instructions that pairs need: fused multiply-adds, and look-ups in vector registers."""
    return body.has_fma and "avx2" in body.target.features
