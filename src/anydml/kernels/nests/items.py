"""Indices and truths in machine code: 64-bit integers with a known range, and masks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers.known import RING, Known, known_integer
from anydml.kernels.numbers.lanes import Truth, broadcast, chosen, either
from anydml.kernels.numbers.measured.real import Real

WORD = Kind("i64")
BIT = Kind("i1")
WIDE = 1 << 62  # integers above this count as unknown
REACH = 1 << 58  # numbers become indices up to this magnitude, so that sums of a few need no guard
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # the range of a word
ANY_WORD = known_integer(LEAST, MOST)
ANY_INDEX = known_integer(-WIDE, WIDE)
DOUBLED = 1 << 52  # integers up to this are divided in float64


@dataclass(frozen=True, eq=False)
class Index:
    """An integer. guard: the lanes in which nothing is known.

    side: for consecutive indices, the first one and their dimension; also for offsets of contiguous elements.
    """

    value: Value
    known: Known
    guard: Value | None = None
    side: tuple[str, int] | None = None

    @property
    def constant(self) -> int | None:
        low, high = self.known.integers
        return low if low == high and self.guard is None else None


@dataclass(frozen=True, eq=False)
class Bits:
    """The bits of an element that is copied."""

    value: Value
    guard: Value | None = None


Item = Index | Truth | Real | Bits


def whole(body: Body, n: int) -> Index:
    return Index(body.constant(WORD, n), known_integer(n, n))


def truth(body: Body, known: bool) -> Truth:
    return Truth(body.constant(BIT, known), None, known)


def _wrapped(known: Known) -> Known:
    """The knowledge of a word that holds an integer, or has wrapped around."""
    return known if known.low >= LEAST and known.high <= MOST else ANY_WORD


def arithmetic(op: str, a: Index, b: Index) -> Index:
    x, y = broadcast(a.value, b.value)
    guard = either(a.guard, b.guard)
    if op in ("add", "sub", "mul"):
        made = _scaled(x, y, a, b) if op == "mul" else x + y if op == "add" else x - y
        return Index(made, _wrapped(RING[op](a.known, b.known)), guard)
    if op in ("max", "min"):
        return Index(extreme(op, x, y), a.known.larger(b.known) if op == "max" else a.known.smaller(b.known), guard)
    assert b.constant is not None
    return quotient(a, b.constant) if op == "floordiv" else remainder(a, b.constant)


def overflowing(op: str, a: Index, b: Index) -> Value | None:
    """The lanes in which a sum, a difference or a product may exceed a word; None if none can."""
    if op not in ("add", "sub", "mul"):
        return None
    known = RING[op](a.known, b.known)
    if _wrapped(known) == known:
        return None
    x, y = (value.converted("sitofp", value.kind.of("double")) for value in broadcast(a.value, b.value))
    made: Value = RING[op](x, y)
    return made.magnitude().compared("ogt", float(WIDE))


def _scaled(x: Value, y: Value, a: Index, b: Index) -> Value:
    for p, n in ((x, b.constant), (y, a.constant)):
        if n is not None and n > 0 and n & (n - 1) == 0:
            return p << (n.bit_length() - 1)
    return x * y


def extreme(op: str, x: Value, y: Value) -> Value:
    return x.body.chosen(x.compared("sgt" if op == "max" else "slt", y), x, y)


def quotient(a: Index, by: int) -> Index:
    """The quotient, rounded down."""
    x, body = a.value, a.value.body
    known = known_integer(*(end // by for end in a.known.integers))
    if by & (by - 1) == 0:
        return Index(x.shifted_right(by.bit_length() - 1, signed=True), known, a.guard)
    if x.kind.lanes and a.known.largest < DOUBLED:
        # float64's error is smaller than the distance of a fractional quotient from an integer
        near = x.converted("sitofp", x.kind.of("double")) / float(by)
        cut = near.converted("fptosi", x.kind)
        down = cut.converted("sitofp", near.kind).compared("ogt", near)
        return Index(cut - down.converted("zext", x.kind), known, a.guard)
    divisor = body.constant(x.kind, by)
    cut = body.value(f"sdiv {x.kind.text} {x.name}, {divisor.name}", x.kind)
    below = (cut * divisor).compared("sgt", x)
    return Index(cut - below.converted("zext", x.kind), known, a.guard)


def remainder(a: Index, by: int) -> Index:
    x = a.value
    if by & (by - 1) == 0:
        return Index(x & (by - 1), known_integer(0, by - 1), a.guard)
    return Index(x - quotient(a, by).value * by, known_integer(0, by - 1), a.guard)


def compared(op: str, a: Index, b: Index) -> Truth:
    x, y = broadcast(a.value, b.value)
    how = {"less": "slt", "less_equal": "sle", "equal": "eq"}[op]
    return Truth(x.compared(how, y), either(a.guard, b.guard))


def select(condition: Truth, a: Index, b: Index) -> Index:
    guard = condition.guards(a.guard, b.guard)
    return Index(chosen(condition.mask, a.value, b.value), a.known | b.known, guard)


def position(a: Index) -> Real:
    """The index as a number."""
    value = a.value.converted("sitofp", a.value.kind.of("double"))
    known, guard = a.known, a.guard
    if known.largest > 1 << 53:
        guard = either(guard, value.magnitude().compared("ogt", float(DOUBLED)))
        known = replace(known, digits=53)
    return Real(value, known=known, guard=guard)


def index(a: Real) -> Index:
    """A number whose value is an integer, as an index."""
    value, body = a.value, a.value.body
    guard = a.guard
    if a.err is not None:
        guard = either(guard, a.err.compared("une", 0.0))
    if not (a.known.finite and a.known.largest < REACH):
        guard = either(guard, ~value.magnitude().compared("ole", float(REACH)))
    limit = min(float(a.known.largest), float(REACH))
    clipped = body.chosen(value.compared("ogt", -limit), value, -limit)  # also for NaN
    clipped = body.chosen(clipped.compared("olt", limit), clipped, limit)
    return Index(clipped.converted("fptosi", value.kind.of("i64")), known_integer(-int(limit), int(limit)), guard)
