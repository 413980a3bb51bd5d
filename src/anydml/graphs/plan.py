"""The calls that compute a graph, in order. A `Work` is one call: an operator, or several that were fused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anydml.graphs.checked import CheckedGraph
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest
from anydml.schema.traversal import walk
from anydml.tensor import TensorDesc

OUTPUT = "output"  # the name of a fused statement's output


class Use(NamedTuple):
    """A tensor of a call: its buffer, its desc with explicit strides, and the byte where it begins in the buffer."""

    buffer: int
    tensor: TensorDesc
    offset: int = 0


class Reason(NamedTuple):
    """The reason why a pass left an operator unchanged. node: that operator."""

    node: int
    text: str


class Passed(NamedTuple):
    """The calls after a pass. reasons: one for each call that the pass could have changed and did not."""

    operators: tuple[Work, ...]
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Work:
    """One call of a graph: an operator, or several that were fused.

    nodes: the nodes that it computes; only the result of the last one is written. reads, writes: its tensors, by name.
    nest: the fused statement of several nodes; None for a single node, which has its own statement. floats: the buffers of
    dequantised tensors that the statement replaces.
    """

    nodes: tuple[int, ...]
    reads: Mapping[str, Use]
    writes: Mapping[str, Use]
    nest: Nest | None = field(default=None, compare=False)
    floats: tuple[int, ...] = field(default=(), compare=False)

    @property
    def node(self) -> int:
        return self.nodes[-1]


def operators_of(checked: CheckedGraph) -> tuple[Work, ...]:
    """A call for each operator, in order."""
    made = []
    for node in checked.order:
        if (operator := checked.nodes[node]) is None:
            continue
        reads = {name: Use(buffer, operator.tensors[name]) for name, buffer in checked.reads[node].items()}
        writes = {name: Use(buffer, operator.tensors[name]) for name, buffer in checked.writes[node].items()}
        made.append(Work((node,), reads, writes))
    return tuple(made)


def unread_outputs(checked: CheckedGraph, operators: Sequence[Work]) -> dict[int, frozenset[str]]:
    """By node, the outputs that may be absent, and that nothing reads."""
    read = {bound.buffer for bound in checked.outputs} | {use.buffer for work in operators for use in work.reads.values()}
    found = {}
    for work in operators:
        operator = checked.nodes[work.node]
        assert operator is not None
        names = [n for n, use in work.writes.items() if use.buffer not in read and operator.fields[n].field.optional]
        if names and len(names) < len(work.writes):
            found[work.node] = frozenset(names)
    return found


def lie_alike(a: Use, b: Use) -> bool:
    """Whether two tensors in one buffer have the same data type, sizes and layout."""
    s, t = a.tensor, b.tensor
    if (s.data_type, s.sizes, a.offset) != (t.data_type, t.sizes, b.offset):
        return False
    return all(x == y for n, x, y in zip(s.sizes, s.explicit_strides, t.explicit_strides, strict=True) if n > 1)


def spelled(nest: Nest) -> Hashable:
    """A key of a statement. Statements that differ only in their variables have equal keys."""
    places: dict[Expr, int] = {}
    variables: dict[Variable, int] = {}

    def plain(x: Any) -> Any:
        if isinstance(x, Variable):
            return variables.setdefault(x, len(variables)), x.size
        if isinstance(x, Tensor):
            return x if x.definition is not None else (x.name, x.sizes, x.data_type)
        return tuple(map(plain, x)) if type(x) is tuple else (type(x), x)

    index = [plain(i.data) for i in nest.index]
    nodes = []
    for e in walk(nest.body):
        places[e] = len(places)
        nodes.append((e.op, e.sort, plain(e.data), *(places[a] for a in e.args)))
    return (*index, nest.moves, *nodes)


def fixed_buffers(checked: CheckedGraph, operators: Sequence[Work]) -> frozenset[int]:
    """The buffers that do not change after initialize: constants, owned inputs, and tensors computed from these alone."""
    fixed = {i for i, b in enumerate(checked.buffers) if b.owned or checked.constant(i) is not None}
    for work in operators:
        if all(use.buffer in fixed for use in work.reads.values()):
            fixed.update(use.buffer for use in work.writes.values())
    return frozenset(fixed)


def split(operators: Sequence[Work], fixed: frozenset[int]) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """The calls that initialize runs once, and the calls that each execution runs."""
    once = [all(use.buffer in fixed for use in work.writes.values()) for work in operators]
    return (
        tuple(work for work, first in zip(operators, once, strict=True) if first),
        tuple(work for work, first in zip(operators, once, strict=True) if not first),
    )


def read_beyond(checked: CheckedGraph, operators: Sequence[Work]) -> frozenset[int]:
    """The buffers in which a call reads bytes after the last element that another call writes."""
    written: dict[int, int] = {}
    for use in (use for work in operators for use in work.writes.values()):
        written[use.buffer] = max(written.get(use.buffer, 0), use.offset + use.tensor.element_bytes)
    return frozenset(
        use.buffer
        for work in operators
        for use in work.reads.values()
        if use.offset + use.tensor.element_bytes > written.get(use.buffer, checked.buffers[use.buffer].bytes)
    )
