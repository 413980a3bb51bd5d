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

ROUNDER = 1.5 * 2.0**23  # what is added to it is rounded to an integer, which its low bits show
EXP_MARGIN = 2.0**-32.5
EXP_FAR = 77.0  # beyond, the tail loses digits below float32's least numbers


class Pair(NamedTuple):
    """A number between head + low and head + high, but in the lanes of `outside`."""

    head: Value
    low: Value
    high: Value
    outside: Value | None


class Power(NamedTuple):
    """e^x = head + tail, where `scale` <= head < 1.1 scale."""

    head: Value
    tail: Value
    scale: Value


def picked(table: Sequence[int | float], element: str, index: Value) -> Value:
    """Entries of a table of eight float32 or int32, by the low three bits of an index."""
    body, lanes = index.body, index.kind.lanes
    size = min(lanes, body.target.vector_bytes // 4)
    suffix = "ps" if element == "float" else "d"
    name = f"avx2.perm{suffix}" if size == 8 else f"avx512.permvar.s{'f' if element == 'float' else 'i'}.512"
    entries = body.constants(element, [*table] * (size // 8))
    parts = [body.call(f"llvm.x86.{name}", entries.kind, entries, _part(index, k, size)) for k in range(0, lanes, size)]
    while len(parts) > 1:
        parts = [_joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _part(x: Value, first: int, count: int) -> Value:
    return _shuffled(x, x, range(first, first + count))


def _joined(a: Value, b: Value) -> Value:
    return _shuffled(a, b, range(2 * a.kind.lanes))


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
    return Power(head, fused(scale, p, error), scale)


def exp(x: Value) -> Pair:
    y = power(x, tables.EXP, EXP_MARGIN)
    high = x.body.fused(y.scale, EXP_MARGIN * 2.3, y.tail)
    return Pair(y.head, y.tail, high, x.magnitude().compared("ugt", EXP_FAR))


FUNCTIONS: dict[str, Callable[[Value], Pair]] = {"exp": exp}


def serves(body: Body) -> bool:
    """Whether a target has what pairs take: fused multiply-adds, and picks from tables."""
    return body.has_fma and "avx2" in body.target.features
