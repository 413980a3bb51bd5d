"""Layouts: operators that only move elements are removed, if other operators can read or write these elements in place.

Slices, parts of a split, and reshaped or transposed tensors are read from the buffer of their source. Tensors that are joined
are written directly to their place in the joined tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from anydml.graphs.checked import CheckedGraph
from anydml.graphs.plan import Passed, Reason, Use, Work
from anydml.graphs.show import called
from anydml.schema.operator import Desc
from anydml.schema.statement import meaning
from anydml.schema.traversal import loops_in
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from anydml.kernels.match.moves import Move

RUN = 256  # bytes: with contiguous rows of this length, a map is as fast as on a packed tensor


class BufferLayout(NamedTuple):
    """The layout of one buffer's elements within another buffer.

    tensor: the elements with the layout in their own buffer. buffer, offset: the other buffer, and the byte in it where the
    elements begin. strides: the strides of the tensor's dimensions in the other buffer.
    """

    tensor: TensorDesc
    buffer: int
    offset: int
    strides: tuple[int, ...]

    @property
    def packed(self) -> bool:
        """Whether the elements have the same strides in both buffers."""
        t = self.tensor
        return all(a == b for n, a, b in zip(t.sizes, t.explicit_strides, self.strides, strict=True) if n > 1)


def laid(checked: CheckedGraph, operators: Sequence[Work], moves: Mapping[int, Sequence[Move]]) -> Passed:
    """The operators, without those moves whose input and output can share memory. moves: the moves of operators, by node.

    A move is removed only if every other operator that uses the tensor can use its new layout without loss of speed: it has to
    be a map or a move, and rows have to be long and contiguous. An output of the graph keeps its own memory.
    """
    plan = _Plan(checked, operators)
    reasons = dict[int, str]()
    for work in operators:
        if work.node in moves:
            reasons[work.node] = plan.leave_out(work.node, plan.read_in_place(work.node, moves[work.node]))
    for work in reversed(operators):
        if work.node in moves and work.node in plan:
            reasons[work.node] += "; " + plan.leave_out(work.node, plan.written_in_place(work.node, moves[work.node]))
    return Passed(plan.operators(), tuple(Reason(node, text) for node, text in reasons.items() if node in plan))


class _User(NamedTuple):
    """A tensor of an operator, by its name. written: whether the operator writes it."""

    node: int
    written: bool
    name: str


class _Plan:
    """The operators while moves are removed. Tensors are replaced one by one, since an operator may have very many."""

    def __init__(self, checked: CheckedGraph, operators: Sequence[Work]) -> None:
        self._checked = checked
        self._operators = {work.node: work for work in operators}
        self._uses = {work.node: ({**work.reads}, {**work.writes}) for work in operators}
        self._changed: set[int] = set()
        self._kept = {bound.buffer for bound in checked.outputs}
        self._written = {use.buffer for work in operators for use in work.writes.values()}
        self._users: dict[int, dict[_User, None]] = {}  # of a buffer
        for node, both in self._uses.items():
            for written, uses in enumerate(both):
                for name, use in uses.items():
                    self._users.setdefault(use.buffer, {})[_User(node, bool(written), name)] = None
        self._reduces: dict[Desc, bool] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._operators

    def operators(self) -> tuple[Work, ...]:
        """The operators that remain."""
        return tuple(
            replace(work, reads=self._uses[node][0], writes=self._uses[node][1]) if node in self._changed else work
            for node, work in self._operators.items()
        )

    def read_in_place(self, node: int, moves: Sequence[Move]) -> dict[int, BufferLayout] | str:
        """The layout of each output of a move within its source, from which readers can read it; or the reason for none."""
        reads, writes = self._uses[node]
        by_output = {move.target: move for move in moves}
        if len(by_output) != len(moves) or by_output.keys() != writes.keys():
            return "an output is moved from several places"
        placed = {}
        for name, use in writes.items():
            layout = _source_of(by_output[name], reads[by_output[name].source], use)
            if use.buffer in self._kept:
                return "what it moves is an output of the graph"
            if layout is None:
                return "no strides say where its elements are read"
            placed[use.buffer] = layout
        return placed

    def written_in_place(self, node: int, moves: Sequence[Move]) -> dict[int, BufferLayout] | str:
        """The layout of each input of a move within the target, to which its writer can write it; or the reason for none."""
        reads, writes = self._uses[node]
        if len(writes) != 1 or len({use.buffer for use in reads.values()}) != len(moves):
            return "it reads a tensor twice"
        (target,) = writes.values()
        placed: dict[int, BufferLayout] = {}
        for move in moves:
            source = reads[move.source]
            layout = _target_of(move, source, target)
            if source.buffer in self._kept or source.buffer not in self._written or source.buffer in placed:
                return "it moves an input or an output of the graph, or a constant"
            if layout is None:
                return "no strides say where its elements are written"
            placed[source.buffer] = layout
        return placed

    def leave_out(self, node: int, placed: Mapping[int, BufferLayout] | str) -> str:
        """Remove a move, if every other operator that uses the buffers in `placed` can use them in their new layouts.

        placed: the new layouts by buffer, or the reason why there are none. Returns "" or the reason why the move stays.
        """
        if isinstance(placed, str):
            return placed
        made: dict[_User, Use] = {}
        for buffer, layout in placed.items():
            for user in self._users[buffer]:
                if user.node == node:
                    continue
                use = self._uses[user.node][user.written][user.name]
                there = within(layout, use)
                if there is None or not (there.tensor is use.tensor or self._serves(user.node, there.tensor)):
                    return f"{called(self._checked, user.node)} would be slower with its elements in another layout"
                made[user] = there
        del self._operators[node]
        for written, uses in enumerate(self._uses.pop(node)):
            for name, use in uses.items():
                del self._users[use.buffer][_User(node, bool(written), name)]
        for buffer in placed:
            del self._users[buffer]
        for user, use in made.items():
            self._uses[user.node][user.written][user.name] = use
            self._users.setdefault(use.buffer, {})[user] = None
            self._changed.add(user.node)
        return ""

    def _serves(self, node: int, t: TensorDesc) -> bool:
        """Whether an operator is as fast on this tensor, which is not packed, as on a packed one."""
        if self._operators[node].nest is not None:  # a region has been compiled for the layouts of its tensors
            return False
        operator = self._checked.nodes[node]
        assert operator is not None
        if (reduces := self._reduces.get(operator.desc)) is None:
            found = meaning(operator.desc.as_newest())
            reduces = self._reduces[operator.desc] = any(loops_in(n.body) for n in found.values())
        if reduces:
            return False
        run = 1
        for n, stride in sorted(zip(t.sizes, t.explicit_strides, strict=True), key=lambda x: x[1]):
            if n > 1 and stride == run:
                run *= n
        return run * t.data_type.dtype.itemsize >= min(RUN, prod(t.sizes) * t.data_type.dtype.itemsize)


def _source_of(move: Move, source: Use, target: Use) -> BufferLayout | None:
    """The layout of a move's output within its source; None if no strides describe it."""
    t = target.tensor
    if any(move.first) or move.sizes != t.sizes or move.places or not _whole(target):
        return None
    along = source.tensor.explicit_strides
    strides = tuple(sum(a * b for a, b in zip(step, along, strict=True)) for step in move.steps)
    if any(stride < 0 for n, stride in zip(t.sizes, strides, strict=True) if n > 1):
        return None
    start = sum(a * b for a, b in zip(move.start, along, strict=True))
    itemsize = t.data_type.dtype.itemsize
    return BufferLayout(t, source.buffer, source.offset + start * itemsize, tuple(max(0, s) for s in strides))


def _target_of(move: Move, source: Use, target: Use) -> BufferLayout | None:
    """The layout of a move's input within its target; None if no strides describe it."""
    t, into = source.tensor, target.tensor.explicit_strides
    if any(move.start) or move.places or source.offset or not _whole(source) or prod(move.sizes) != prod(t.sizes):
        return None
    strides = [0] * len(t.sizes)
    for n, step, stride in zip(move.sizes, move.steps, into, strict=True):
        if n == 1:
            continue
        ones = [k for k, factor in enumerate(step) if factor]
        if len(ones) != 1 or step[ones[0]] != 1 or t.sizes[ones[0]] != n:
            return None
        strides[ones[0]] = stride
    first = sum(a * b for a, b in zip(move.first, into, strict=True))
    return BufferLayout(t, target.buffer, target.offset + first * t.data_type.dtype.itemsize, tuple(strides))


def _whole(use: Use) -> bool:
    """Whether a tensor fills its buffer from the start without gaps, in some order of dimensions. Not for 4-bit elements."""
    t = use.tensor
    return (
        not use.offset
        and t.data_type.element_bits >= 8
        and t.span == prod(t.sizes)
        and all(s for n, s in zip(t.sizes, t.explicit_strides, strict=True) if n > 1)
    )


def within(layout: BufferLayout, use: Use) -> Use | None:
    """A use of a buffer, translated to the buffer that contains it; None if no strides describe its elements there."""
    t, u = layout.tensor, use.tensor
    if u.data_type.element_bits < 8:
        return None
    if layout.packed:
        inside = use.offset + u.element_bytes <= t.element_bytes
        return Use(layout.buffer, u, layout.offset + use.offset) if inside else None
    itemsize = u.data_type.dtype.itemsize
    if itemsize != t.data_type.dtype.itemsize or use.offset % itemsize:
        return None
    runs = _runs(t, layout.strides)
    start, left = 0, use.offset // itemsize
    room = []
    for size, weight, stride in runs:
        index, left = divmod(left, weight)
        start += index * stride
        room.append(size - 1 - index)
    if left:
        return None
    strides = []
    for n, step in zip(u.sizes, u.explicit_strides, strict=True):
        if n == 1 or step == 0:
            strides.append(0 if n > 1 else step)
            continue
        at = next((k for k, (_, weight, _) in enumerate(runs) if weight <= step), None)
        if at is None or step % runs[at][1]:
            return None
        times = step // runs[at][1]
        room[at] -= (n - 1) * times
        strides.append(times * runs[at][2])
    if any(left < 0 for left in room):
        return None
    return Use(layout.buffer, replace(u, strides=tuple(strides)), layout.offset + start * itemsize)


def _runs(t: TensorDesc, strides: Sequence[int]) -> list[tuple[int, int, int]]:
    """A tensor's dimensions, outermost first, as (size, own stride, stride in the other buffer).

    Neighbouring dimensions are merged if both buffers store them as one dimension.
    """
    along = sorted(
        ((weight, n, stride) for n, weight, stride in zip(t.sizes, t.explicit_strides, strides, strict=True) if n > 1)
    )
    found: list[tuple[int, int, int]] = []
    for weight, n, stride in along:
        if found:
            size, inner, step = found[-1]
            if weight == size * inner and stride == size * step:
                found[-1] = (size * n, inner, step)
                continue
        found.append((n, weight, stride))
    return found[::-1]
