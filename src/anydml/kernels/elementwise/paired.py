"""Functions in pairs of float32: a head and a tail, by which most results are rounded before float64 is asked.

A pair is two values of the tail between which the function of a float32 argument lies. Only multiply-adds that are rounded
once, sums, quotients and picks from tables are used, each the same on every processor, so that a proof for all 2^32
arguments on one (`tools/prove_pairs.py`) holds on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import paired_tables as tables
from anydml.kernels.elementwise.approximate import at_least, at_most

ROUNDER = 1.5 * 2.0**23  # what is added to it is rounded to an integer, which its low bits show
EXP_MARGIN = 2.0**-32.5
EXP_FAR = 77.0  # beyond, the tail loses digits below float32's least numbers

SIGMOID_MARGIN = 2.0**-32.4
SIGMOID_LEAST = 2.0**-8  # a part of the margin that does not depend on e^-x
TANH_MARGIN = 2.0**-21.1  # a part of the terms p
TANH_FAR, TANH_NEAR = 20.0, 2.0**-8


class Pair(NamedTuple):
    """A number between head + low and head + high, but in the lanes of `outside`; with the sign of `sign`, if there is one."""

    head: Value
    low: Value
    high: Value
    outside: Value | None
    sign: Value | None = None


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


def power(x: Value, terms: Sequence[float], trim: float = 0.0) -> Power:
    """e^x for |x| <= 77, less the share `trim` of it."""
    body = x.body
    fused = body.fused
    shifted = fused(x, tables.EXP_EIGHTHS, ROUNDER)
    k = shifted - ROUNDER
    r = fused(k, -tables.EXP_STEP, x)  # exact
    index = shifted.bits()
    scale = (picked(tables.EXP_HEADS, "i32", index) + (index << 20)).cast(x.kind)
    rest = fused(k, -tables.EXP_STEP_TAIL, picked([t - trim for t in tables.EXP_TAILS], "float", index))
    squared = r * r
    q = x.lift(terms[-1])
    for c in reversed(terms[:-1]):
        q = fused(q, r, c)
    p = fused(r, fused(squared, q, rest), rest)
    p = fused(squared, fused(rest, 0.5, 0.5), p)
    head = fused(scale, r, scale)
    error = fused(scale, r, scale - head)
    return Power(head, fused(scale, p, error), scale, p)


def exp(x: Value) -> Pair:
    y = power(x, tables.EXP, EXP_MARGIN)
    high = x.body.fused(y.scale, EXP_MARGIN * 2.3, y.tail)
    return Pair(y.head, y.tail, high, _beyond(x, EXP_FAR))


def _beyond(x: Value, far: float) -> Value:
    return x.magnitude().compared("ugt", far)


def _summed(large: Value, small: Value) -> tuple[Value, Value]:
    """Their sum, rounded, and what that leaves: exact where the second is not the larger one."""
    total = large + small
    return total, small - (total - large)


def _inverse(d: Value, tail: Value) -> tuple[Value, Value]:
    """1 / (d + tail) = z + z u, where d is positive and the tail below 2^-22 d: z and u, which is off by 2^-44."""
    fused = d.body.fused
    z = _estimate(d)
    z = fused(z, fused(-z, d, 1.0), z)
    return z, fused(-z, tail, fused(-z, d, 1.0))


def _estimate(d: Value) -> Value:
    """1 / d within 1.5 / 2^12 of it: the one thing here that depends on the processor; what it is off by is corrected."""
    parts = [_part(d, k, 8) for k in range(0, d.kind.lanes, 8)]
    return _whole([d.body.call("llvm.x86.avx.rcp.ps.256", x.kind, x) for x in parts])


def sigmoid(x: Value) -> Pair:
    """1 / (1 + e^-x). The error of e^-x is a share of it, and the result's is e^-x / (1 + e^-x) of that."""
    fused = x.body.fused
    y = power(-x, tables.EXP)
    a, rest = _summed(y.head, y.tail)
    d, lost = _summed(at_least(a, 1.0), at_most(a, 1.0))
    z, u = _inverse(d, lost + rest)
    share = fused(z, y.scale, SIGMOID_LEAST)
    low, high = (z * fused(share, m, u) for m in (-SIGMOID_MARGIN, SIGMOID_MARGIN))
    return Pair(z, low, high, _beyond(x, EXP_FAR))


def tanh(x: Value) -> Pair:
    """(e^2x - 1) / (e^2x + 1); x - x^3 / 3 beside a small x. The relative error of e^2x becomes an absolute one of
    2 e^2x / (e^2x + 1)^2 as much; it is that of the terms p, which are small beside a small x."""
    fused = x.body.fused
    size = x.magnitude()
    doubled = at_most(size, TANH_FAR)
    y = power(doubled + doubled, tables.EXP)
    a, rest = _summed(y.head, y.tail)
    above, lost = _summed(a, x.lift(-1.0))
    n, tail = _summed(above, lost + rest)
    d, lost = _summed(a, x.lift(1.0))
    z, u = _inverse(d, lost + rest)
    head = n * z
    middle = fused(head, u, fused(tail, z, fused(n, z, -head)))
    share = fused(z * z * y.scale, fused(y.p.magnitude(), TANH_MARGIN, TANH_MARGIN * 2.0**-18), 2.0**-43)
    near = size.compared("olt", TANH_NEAR)
    head = x.body.chosen(near, size, head)
    cube = size * size * size
    middle = x.body.chosen(near, cube * (-1 / 3), middle)
    share = x.body.chosen(near, cube * 2.0**-18, share)
    return Pair(head, middle - share, middle + share, x.compared("uno", x), x.bits() & -(1 << 31))


FUNCTIONS: dict[str, Callable[[Value], Pair]] = {"exp": exp, "sigmoid": sigmoid, "tanh": tanh}


def serves(body: Body) -> bool:
    """Whether a target has what pairs take: fused multiply-adds, and picks from tables."""
    return body.has_fma and "avx2" in body.target.features
