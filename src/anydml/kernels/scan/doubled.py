"""Sums of contiguous lines that float64 no longer holds: a head and a tail, the sum of the additions' rounding errors.

Within a vector, prefixes are exact as long as its elements are multiples of one power of two and not much larger. The sum
before the vector is head + tail. An element is decided if both ends of the interval of its sum round to it.
"""

from __future__ import annotations

from anydml.kernels.code import probe
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.scan.sizes import may_be_inexact, size
from anydml.kernels.scan.vectors import LineVectors

LOST = 2.0**-51  # exceeds the relative rounding error of adding a prefix and the tail


def further(line: LineVectors, begin: str, sums: Value) -> tuple[str, Value, Value]:
    """Continue with whole blocks. -> where that ends, and the sum there as a head and a tail"""
    body, kind = line.body, sums.kind
    before, head, inside, stores, done = map(body.name, ("before", "blocks", "inside", "stores", "done"))
    i, j, high, low, high_after, low_after = (f"%{body.name(x)}" for x in ("i", "j", "high", "low", "high", "low"))
    body.jump(before)
    body.label(before)
    body.jump(head)
    body.label(head)
    zero = body.constant(kind, 0.0)
    body.do(f"{i} = phi i64 [ {begin}, %{before} ], [ {j}, %{stores} ]")
    body.do(f"{high} = phi {kind.text} [ {sums.name}, %{before} ], [ {high_after}, %{stores} ]")
    body.do(f"{low} = phi {kind.text} [ {zero.name}, %{before} ], [ {low_after}, %{stores} ]")
    now = Value(body, high, kind), Value(body, low, kind)
    body.do(f"{j} = add i64 {i}, {line.block}")
    body.branch(body.op(f"icmp ule i64 {j}, %n"), inside, done)
    body.label(inside)
    source, target = line.whole_block(i)
    vectors = [line.loaded(source, k) for k in range(line.block // line.lanes)]
    made, after, unsure = _summed(line, vectors, now)
    body.branch(unsure, done, stores)
    body.label(stores)
    for k, value in enumerate(made):
        body.stored(line.in_direction(value), line.vector(target, k))
    for name, value in zip((high_after, low_after), after, strict=True):
        body.do(f"{name} = bitcast {kind.text} {value.name} to {kind.text}")
    body.jump(head)
    body.label(done)
    return i, *now


def _summed(line: LineVectors, vectors: list[Value], sums: tuple[Value, Value]) -> tuple[list[Value], tuple[Value, Value], str]:
    """The elements to store, the sum after them, and whether an element is undecided or the sum is not exact."""
    body, half = line.body, line.lanes // 2
    data_type, wide = line.key.data_type, sums[0].kind
    high, low = sums
    nothing = body.constant(wide.of("i1"), False)
    unsure, made = nothing, []
    sizes = []
    for bits in vectors:
        x = singles.widened(bits, data_type)
        sizes.append(size(x))
        parts = []
        for first in (0, half):
            prefixes = line.prefixes(line.half(x, first).converted("fpext", wide))
            through = line.moved(prefixes, 1) if line.key.exclusive else prefixes
            near, rest = two_sum(high, through)
            rest = rest + low
            bound = (rest.magnitude() + near.magnitude()) * LOST
            ends = [singles.narrowed(near + (rest + side), data_type) for side in (-bound, bound)]
            plain = rest.compared("oeq", 0.0)
            if body.target.probe is not None:
                parts.append(probe.record(near, rest, body.chosen(plain, 0.0, bound), data_type.element_bits))
                high, low, unsure = _after(line, prefixes, high, low, unsure)
                continue
            exactly = singles.narrowed(near, data_type)
            unsure = unsure | (ends[0].compared("ne", ends[1]) & (plain ^ True))
            parts.append(body.chosen(plain, exactly, ends[1]))
            high, low, unsure = _after(line, prefixes, high, low, unsure)
        made.append(line.whole(parts))
    undecided = body.op(f"icmp ne i64 {lanes_as_bits(unsure)}, 0")
    return made, (high, low), body.op(f"or i1 {undecided}, {may_be_inexact(sizes)}")


def _after(line: LineVectors, prefixes: Value, high: Value, low: Value, unsure: Value) -> tuple[Value, Value, Value]:
    """The sum after a vector, as a head and a tail, and where it is not exact."""
    high, more = two_sum(high, line.last(prefixes))
    low, lost = two_sum(low, more)
    return high, low, unsure | lost.compared("une", 0.0)
