"""Functions in pairs of float32: a head and a tail, by which most results are rounded before float64 is asked.

A pair is two values of the tail between which the function of a float32 argument lies. Only multiply-adds that are rounded
once, sums, quotients and picks from tables are used, each the same on every processor, so that a proof for all 2^32
arguments on one (`tools/prove_pairs.py`) holds on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.functions import paired_tables as tables
from anydml.kernels.elementwise.functions.approximate import at_most
from anydml.kernels.elementwise.functions.polynomials import evaluated

ROUNDER = 1.5 * 2.0**23  # what is added to it is rounded to an integer, which its low bits show
EXP_MARGIN = 2.0**-32.5
EXP_FAR = 77.0  # beyond, the tail loses digits below float32's least numbers

LOG_MARGIN = 2.0**-23  # a part of r^3, beside one of the result
LOG_LEAST = 2.0**-34.8
SIGMOID_MARGIN = 2.0**-34  # what does not depend on e^-x
SIGMOID_FAR = 18.0
TANH_MARGIN = 2.0**-20.9  # a part of the terms p
TANH_LEAST = 2.0**-34.4
SCALED_MARGIN = 2.0**-23.9  # a tail's product and its difference from the margin are rounded by 2^-25 of the tail each
SCALED_LEAST = 2.0**-90
TANH_FAR, TANH_NEAR = 20.0, 2.0**-4
ERF_MARGIN = 2.0**-34.4
GELU_MARGIN = 2.0**-37.9  # a part of the argument
TINY = (127 - 90) << 23  # the bits of 2^-90, below which tails of float64 lose digits


class Pair(NamedTuple):
    """A number between head + low and head + high, but in the lanes of `outside`; the sign bit of `sign` then flips its own.

    size: what part of the head the tails are at most.
    """

    head: Value
    low: Value
    high: Value
    outside: Value | None
    sign: Value | None = None
    size: float = 2.0**-9


class Power(NamedTuple):
    """e^x = head + tail = scale (1 + r + p ..), where |r| < 0.044."""

    head: Value
    tail: Value
    scale: Value
    p: Value


def picked(table: Sequence[int | float], element: str, index: Value) -> Value:
    """Entries of a table of eight float32 or int32, by the low three bits of an index."""
    body, lanes = index.body, index.kind.lanes
    size = min(lanes, body.target.vector_bytes // 4)
    suffix = "ps" if element == "float" else "d"
    name = f"avx2.perm{suffix}" if size == 8 else f"avx512.permvar.s{'f' if element == 'float' else 'i'}.512"
    entries = body.constants(element, [*table] * (size // 8))
    parts = [body.call(f"llvm.x86.{name}", entries.kind, entries, _part(index, k, size)) for k in range(0, lanes, size)]
    return _whole(parts)


def _whole(parts: list[Value]) -> Value:
    while len(parts) > 1:
        parts = [_shuffled(a, b, range(2 * a.kind.lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _part(x: Value, first: int, count: int) -> Value:
    return _shuffled(x, x, range(first, first + count))


def _shuffled(a: Value, b: Value, places: range) -> Value:
    mask = ", ".join(f"i32 {k}" for k in places)
    kind = Kind(a.kind.element, len(places))
    return a.body.value(f"shufflevector {a.kind.text} {a.name}, {b.kind.text} {b.name}, <{len(places)} x i32> <{mask}>", kind)


def power(x: Value, trim: float = 0.0, *, far: bool = False) -> Power:
    """e^x, less the share `trim` of it, for |x| <= 77; the error grows from |x| = 10 on, but not if it is `far`."""
    body = x.body
    fused = body.fused
    shifted = fused(x, tables.EXP_EIGHTHS, ROUNDER)
    k = shifted - ROUNDER
    r = fused(k, -tables.EXP_STEP, x)  # exact
    index = shifted.bits()
    scale = (picked(tables.EXP_HEADS, "i32", index) + (index << 20)).cast(x.kind)
    rest = fused(k, -tables.EXP_STEP_TAIL, picked([t - trim for t in tables.EXP_TAILS], "float", index))
    squared = r * r
    q = fused(fused(r, tables.EXP[2], tables.EXP[1]), r, tables.EXP[0])
    p = fused(r, fused(squared, q, rest), rest)
    p = fused(squared, fused(rest, 0.5, 0.5) if far else 0.5, p)
    head = fused(scale, r, scale)
    error = fused(scale, r, scale - head)
    return Power(head, fused(scale, p, error), scale, p)


def exp(x: Value) -> Pair:
    y = power(x, EXP_MARGIN, far=True)
    high = x.body.fused(y.scale, EXP_MARGIN * 2.3, y.tail)
    return Pair(y.head, y.tail, high, _beyond(x, EXP_FAR))


def _beyond(x: Value, far: float) -> Value:
    return x.magnitude().compared("ugt", far)


def _inverse(first: Value | None, second: Value, tail: Value) -> tuple[Value, Value]:
    """1 / (first + second + tail) = z + z w: z has 12 bits, and |w| < 2^-9.4, which is off by 2^-36.

    One of the first two is 1 (None for the first) and the other below 2^12, or the first one is above; the tail is below
    2^-10 of the sum. Then the first difference here is exact: of multiples of 2^-24, or about z, of 36 bits but 12 zeros.
    """
    fused = second.body.fused
    quotient = 1 / (second + (1.0 if first is None else first))
    z = (quotient.bits() & -(1 << 12)).cast(second.kind)
    u = fused(-z, second, 1 - z if first is None else fused(-z, first, 1.0))
    u = fused(-z, tail, u)
    return z, fused(fused(u, u, u), u, u)


def sigmoid(x: Value) -> Pair:
    """1 / (1 + e^-x). The error of e^-x is a share of it, and the result's is e^-x / (1 + e^-x) of that."""
    fused = x.body.fused
    y = power(-x)
    large = y.head.compared("ogt", 2.0**12)
    first, second = x.body.chosen(large, y.head, 1.0), x.body.chosen(large, x.lift(1.0), y.head)
    z, w = _inverse(first, second, y.tail)
    least = (y.scale.bits() - (32 << 23)).cast(x.kind)
    share, middle = z * fused(z, least, SIGMOID_MARGIN), z * w
    return Pair(z, middle - share, middle + share, _beyond(x, SIGMOID_FAR))


def tanh(x: Value) -> Pair:
    """1 - 2 / (e^2x + 1); x + x^3 p(x^2) beside a small x. The relative error of e^2x becomes an absolute one of
    2 e^2x / (e^2x + 1)^2 as much; it is that of the terms p, which are small beside a small x."""
    fused = x.body.fused
    size = x.magnitude()
    doubled = at_most(size, TANH_FAR)
    y = power(doubled + doubled)
    z, w = _inverse(None, y.head, y.tail)
    double = z + z
    head = 1 - double
    middle = fused(-double, w, (1 - head) - double)
    share = fused(z * z * y.scale, fused(y.p.magnitude(), TANH_MARGIN, TANH_LEAST), TANH_LEAST)
    near = size.compared("olt", TANH_NEAR)
    head = x.body.chosen(near, size, head)
    squared = size * size
    cube = size * squared
    series = fused(fused(squared, tables.TANH[2], tables.TANH[1]), squared, tables.TANH[0])
    middle = x.body.chosen(near, cube * series, middle)
    share = x.body.chosen(near, cube * 2.0**-23, share)
    return Pair(head, middle - share, middle + share, x.compared("uno", x), x.bits() & -(1 << 31), 2.0**-5)


def log(x: Value) -> Pair:
    """e log 2 + log m, by a table of eight; for normal positive x. 1 + r is m and an entry's product."""
    fused = x.body.fused
    bits = x.bits()
    moved = bits - tables.LOG_FIRST
    exponent = moved.shifted_right(23, signed=True)
    index = moved.shifted_right(20, signed=False)
    k = exponent.converted("sitofp", x.kind)
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
    normal = (bits - (1 << 23)).compared("ult", 0x7F000000)
    return Pair(total, tail - share, tail + share, ~normal)


def _of_square(x: Value, coefficients: Sequence[float], far: float) -> Value:
    """A polynomial, in float64, of the distance of x^2 from the middle of what it serves."""
    t = x.body.fused(x, x, -(far * far / 2))
    return evaluated(t, coefficients, 1, x.body.fused, lambda a: a * a)


def _halved(y: Value, single: Kind) -> tuple[Value, Value]:
    """A float64 as a head and a tail of float32."""
    head = y.converted("fptrunc", single)
    return head, (y - head.converted("fpext", y.kind)).converted("fptrunc", single)


def _without_tails(size: Value) -> Value:
    """The lanes of a magnitude whose tails are too small for float32; a zero's are right."""
    least = -(1 << 31)  # of integers, which 1 becomes, and 0 the largest
    return (size.bits() + (least - 1)).compared("slt", least - 1 + TINY)


def erf(x: Value) -> Pair:
    """x times a polynomial of x^2 in float64, which is what it takes while 1 - erf is no less than a float32 shows of 1."""
    size = x.magnitude()
    z = at_most(size, tables.ERF_FAR).converted("fpext", x.kind.of("double"))
    head, tail = _halved(z * _of_square(z, tables.ERF, tables.ERF_FAR), x.kind)
    share = head * ERF_MARGIN
    # between what it is there, and 1
    beyond = x.body.chosen(size.compared("ogt", tables.ERF_FAR), 2.0**-25, share)
    return Pair(head, tail - share, tail + beyond, _without_tails(size), x.bits() & -(1 << 31), 2.0**-23)


def gelu(x: Value) -> Pair:
    """x Phi(x) = x (1/2 + x p(x^2)): the error is a part of x, which may be all of the result for a negative x."""
    body, far = x.body, tables.GELU_FAR
    size = x.magnitude()
    z = at_most(size, far).signed_as(x).converted("fpext", x.kind.of("double"))
    share = body.fused(z, _of_square(z, tables.GELU, far), 0.5)
    head, tail = _halved(z.magnitude() * share, x.kind)
    # beyond, the tail is that of `far`, and the result between x and x Phi(far), which is x (1 - 2^-26.68)
    beyond = size.compared("ogt", far)
    head = body.chosen(beyond, size, head)
    margin = size * body.chosen(beyond, 2.0**-25.7, x.lift(GELU_MARGIN))
    outside = _without_tails(size) | x.compared("olt", -far)
    return Pair(head, tail - margin, tail + margin, outside, x.bits() & -(1 << 31), 2.0**-23)


def negative(x: Pair) -> Pair:
    ones = x.head.body.constant(x.head.kind.integer, -(1 << 31))
    return x._replace(sign=ones if x.sign is None else x.sign ^ ones)


def _steeper(x: Pair) -> Pair:
    """The same pair with a head that is rounded, and tails of what that leaves."""
    head = x.head + x.low
    low = x.low - (head - x.head)
    return x._replace(head=head, low=low, high=low + (x.high - x.low), size=2.0**-20)


def scaled(x: Pair, factor: Value) -> Pair:
    """The product with a float32; both ends move out by more than the roundings of the tails."""
    body, fused = factor.body, factor.body.fused
    if x.size > 2.0**-9:
        x = _steeper(x)
    if x.sign is not None:
        factor = (factor.bits() ^ x.sign).cast(factor.kind)
    head = x.head * factor
    size = head.magnitude()
    error = fused(x.head, factor, -head)
    ends = [fused(tail, factor, error) for tail in (x.low, x.high)]
    width = size * (x.size * SCALED_MARGIN)
    upward = factor.compared("oge", 0.0)
    low, high = body.chosen(upward, ends[0], ends[1]), body.chosen(upward, ends[1], ends[0])
    # what is too small for exact products of 48 bits, zeros too; an infinity's ends are NaN, and differ
    return Pair(head, low - width, high + width, size.compared("ult", SCALED_LEAST), None, 2 * x.size)


def chosen(condition: Value, x: Pair | Value, y: Pair | Value) -> Pair:
    """x in the lanes where the condition holds, else y: of pairs whose lanes outside do not count, and float32."""
    body = condition.body
    zero = body.constant((x.head if isinstance(x, Pair) else x).kind, -0.0)  # which keeps the sign of a zero
    a, b = (v if isinstance(v, Pair) else Pair(v, zero, zero, None) for v in (x, y))
    none = body.constant(zero.kind.integer, 0)
    sign = None
    if a.sign is not None or b.sign is not None:
        sign = body.chosen(condition, a.sign or none, b.sign or none)
    head, low, high = (body.chosen(condition, v, w) for v, w in ((a.head, b.head), (a.low, b.low), (a.high, b.high)))
    return Pair(head, low, high, None, sign, max(a.size, b.size))


FUNCTIONS: dict[str, Callable[[Value], Pair]] = {f.__name__: f for f in (exp, sigmoid, tanh, log, erf, gelu)}
MIXED = {"erf", "gelu"}  # in float64 up to their heads and tails


def serves(body: Body) -> bool:
    """Whether a target has what pairs take: fused multiply-adds, and picks from tables."""
    return body.has_fma and "avx2" in body.target.features
