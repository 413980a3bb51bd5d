"""Memory: how long each buffer is needed, and its offset in the graph's scratch."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.plan import Work, lie_alike, read_beyond

LINE = 64
ATTEMPTS = 200  # random orders at most, tried if the order by size leaves holes
WORK = 1 << 20  # pairs of buffers at most that are compared for random orders
MANY = 500  # with more buffers, pairs are not compared, and each is placed in the order of the calls


class Life(NamedTuple):
    """The first and the last call that need a buffer, and its bytes."""

    first: int
    last: int
    bytes: int


class Layout(NamedTuple):
    """The offset of each buffer, and the bytes of the scratch."""

    offsets: Mapping[int, int]
    bytes: int


def laid_in_scratch(checked: CheckedGraph, operators: Sequence[Work], may: Sequence[Collection[str]]) -> Layout:
    """The layout of the scratch. Buffers that are not needed at the same time share memory.

    The scratch holds tensors that are written and not bound, and outputs that a call reads beyond the written elements.
    may: for each call, the inputs that its output may be identical to.
    """
    sizes = _sizes(checked, operators)
    copied = {b.buffer for b in checked.outputs} & sizes.keys()  # outputs in the scratch, which are copied after the last call
    taken = in_place(operators, {b: n for b, n in sizes.items() if b not in copied}, may)
    found = lives(operators, sizes, taken)
    found = {b: life._replace(last=len(operators)) if b in copied else life for b, life in found.items()}
    offsets, size = laid_out(found)
    return Layout({b: offsets[taken.get(b, b)] for b in sizes}, size)


def laid_apart(checked: CheckedGraph, operators: Sequence[Work]) -> Layout:
    """The layout of the scratch with separate memory for each buffer."""
    offsets, end = dict[int, int](), 0
    for buffer, size in _sizes(checked, operators).items():
        offsets[buffer] = end
        end += -(-size // LINE) * LINE
    return Layout(offsets, end)


def _sizes(checked: CheckedGraph, operators: Sequence[Work]) -> dict[int, int]:
    """The bytes of the buffers in the scratch."""
    bound = {b.buffer for b in checked.outputs} - read_beyond(checked, operators)
    between = {use.buffer for work in operators for use in work.writes.values()} - bound
    return {b: checked.buffers[b].bytes for b in between}


def lives(operators: Sequence[Work], sizes: Mapping[int, int], taken: Mapping[int, int]) -> dict[int, Life]:
    """The life of each buffer in `sizes`: from the call that writes it to the last one that reads it.

    taken: buffers that reuse the memory of another one. The life of this one then includes theirs.
    """
    found: dict[int, Life] = {}
    for at, work in enumerate(operators):
        for use in (*work.writes.values(), *work.reads.values()):
            if use.buffer in sizes:
                place = taken.get(use.buffer, use.buffer)
                first = found[place].first if place in found else at
                found[place] = Life(first, at, -(-sizes[place] // LINE) * LINE)
    return found


def in_place(operators: Sequence[Work], sizes: Mapping[int, int], may: Sequence[Collection[str]]) -> dict[int, int]:
    """The outputs that reuse the memory of an input of their call, each with the buffer that had this memory first.

    The call must be the last one that reads the input. may: for each call, the inputs that its output may be identical to.
    """
    last = {use.buffer: at for at, work in enumerate(operators) for use in work.reads.values()}
    first: dict[int, int] = {}
    for at, work in enumerate(operators):
        for use in work.writes.values():
            first.setdefault(use.buffer, at)
    taken: dict[int, int] = {}
    for at, work in enumerate(operators):
        if len(work.writes) != 1:
            continue
        (output,) = work.writes.values()
        if first[output.buffer] != at:  # an earlier call wrote a part of it
            continue
        if not may[at]:
            continue
        read = Counter([use.buffer for use in work.reads.values()])
        for name in may[at]:
            use = work.reads[name]
            if (
                {use.buffer, output.buffer} <= sizes.keys()
                and last[use.buffer] == at
                and read[use.buffer] == 1
                and sizes[use.buffer] == sizes[output.buffer]
                and lie_alike(use, output)
            ):
                taken[output.buffer] = taken.get(use.buffer, use.buffer)
                break
    return taken


def most_alive(found: Mapping[int, Life]) -> int:
    """The largest number of bytes that are needed at the same time."""
    changes: dict[int, int] = {}
    for life in found.values():
        changes[life.first] = changes.get(life.first, 0) + life.bytes
        changes[life.last + 1] = changes.get(life.last + 1, 0) - life.bytes
    alive = most = 0
    for at in sorted(changes):
        alive += changes[at]
        most = max(most, alive)
    return most


def laid_out(found: Mapping[int, Life]) -> Layout:
    """A layout in which buffers that are needed at the same time do not overlap. Offsets are multiples of a cache line.

    Buffers are placed one by one, each at the lowest offset that is free during its whole life. The order determines the total
    size: the largest first is nearly always best. If it leaves holes, random orders are tried, the same ones in each process.
    If there are very many buffers, they are placed in the order of the calls, or in reverse, each in the smallest free hole.
    """
    if len(found) > MANY:
        ends = max(life.last for life in found.values())
        backwards = {b: Life(ends - life.last, ends - life.first, life.bytes) for b, life in found.items()}
        return min((_in_turn(found), _in_turn(backwards)), key=lambda layout: layout.bytes)
    least = most_alive(found)
    orders = [
        sorted(found, key=lambda b: (-found[b].bytes, found[b].first)),
        sorted(found, key=lambda b: (found[b].first, -found[b].bytes)),
        sorted(found, key=lambda b: (found[b].first - found[b].last, -found[b].bytes)),
        sorted(found, key=lambda b: -found[b].bytes * (found[b].last - found[b].first + 1)),
    ]
    best, order = min(((_placed(found, o), o) for o in orders), key=lambda x: x[0].bytes)
    rng = random.Random(len(found))
    attempts = min(ATTEMPTS, WORK // max(1, len(found) ** 2))
    while best.bytes > least and attempts:
        attempts -= 1
        changed = [*order]
        for _ in range(rng.randint(1, 3)):
            changed.insert(rng.randrange(len(changed)), changed.pop(rng.randrange(len(changed))))
        made = _placed(found, changed)
        if made.bytes <= best.bytes:
            best, order = made, changed
    return best


def _placed(found: Mapping[int, Life], order: Sequence[int]) -> Layout:
    offsets: dict[int, int] = {}
    most = 0
    for buffer in order:
        life, at = found[buffer], 0
        near = sorted(
            (offsets[other], offsets[other] + found[other].bytes)
            for other in offsets
            if found[other].first <= life.last and life.first <= found[other].last
        )
        for begin, end in near:
            if at + life.bytes <= begin:
                break
            at = max(at, end)
        offsets[buffer] = at
        most = max(most, at + life.bytes)
    return Layout(offsets, most)


def _in_turn(found: Mapping[int, Life]) -> Layout:
    """The layout made in the order of the calls: a buffer is placed in the smallest hole that is free when its life begins.

    Of buffers whose lives begin with the same call, the largest is placed first.
    """
    ending: dict[int, list[int]] = {}
    for buffer, life in found.items():
        ending.setdefault(life.last, []).append(buffer)
    holes: list[tuple[int, int]] = []  # (size, offset), sorted
    begins: dict[int, int] = {}  # the size of the hole that begins at an offset
    ends: dict[int, int] = {}  # the offset where the hole begins that ends at an offset
    offsets: dict[int, int] = {}
    most = now = 0

    def take(begin: int) -> int:
        size = begins.pop(begin)
        del holes[bisect_left(holes, (size, begin))], ends[begin + size]
        return size

    def leave(begin: int, size: int) -> None:
        if begin in ends:
            before = ends[begin]
            begin, size = before, size + take(before)
        if begin + size in begins:
            size += take(begin + size)
        insort(holes, (size, begin))
        begins[begin], ends[begin + size] = size, begin

    for buffer in sorted(found, key=lambda b: (found[b].first, -found[b].bytes)):
        life = found[buffer]
        for time in range(now, life.first):
            for over in ending.get(time, ()):
                leave(offsets[over], found[over].bytes)
        now = life.first
        k = bisect_left(holes, (life.bytes, 0))
        if k < len(holes):
            at = holes[k][1]
            size = take(at)
            if size > life.bytes:
                leave(at + life.bytes, size - life.bytes)
        else:  # no hole fits: place the buffer at the end, or in a hole before the end, which it enlarges
            at = ends.get(most, most)
            if at < most:
                take(at)
            most = at + life.bytes
        offsets[buffer] = at
    return Layout(offsets, most)
