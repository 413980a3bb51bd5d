"""The calls that compute a graph, in order. A `Work` is one call: an operator, or several that were fused."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.graphs.checked import CheckedGraph
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest
from anydml.schema.traversal import walk
from anydml.tensor import TensorDesc


class Use(NamedTuple):
    """A tensor of a call: its buffer, its desc with explicit strides, and the byte where it begins in the buffer."""

    buffer: int
    tensor: TensorDesc
    offset: int = 0


class Region(NamedTuple):
    """Sums of products of two dequantised tensors, x and constant weights, that are quantised.

    sums: the statement of the sums of centred integers (integer - zero point), on the tensors of the call. desc: the tensor of
    these sums, in INT32. channel: the output's dimension along which the weights differ. x: its scale and zero point. weights:
    scales and zero points by channel. norms: upper bounds, by channel, of the sums of |weight| and of
    |weight - scale * integer|. lean: the sums of weight - scale * integer by channel, if they are known. bias: by channel,
    added to a sum before it is rounded. other: scale and zero point of a dequantised tensor that is added to the rounded sum,
    if any. bounds: what the result is clamped to. rounding: scale and zero point of the output. arrays: tensors that are in
    no buffer, by name.
    """

    sums: Nest
    desc: TensorDesc
    channel: int | None
    x: tuple[float, int]
    weights: tuple[NDArray[np.float32], NDArray[np.int32]]
    norms: tuple[NDArray[np.float64], NDArray[np.float64]]
    lean: NDArray[np.float64] | None
    bias: NDArray[np.float32]
    other: tuple[float, int] | None
    bounds: tuple[float, float]
    rounding: tuple[float, int]
    arrays: Mapping[str, NDArray[np.int8]]


class Selection(NamedTuple):
    """Elements of a dequantised tensor that are selected and quantised with the same scale: the bytes can be selected instead.

    node: the operator that selects; its statement then applies to the tensors of the call.
    """

    node: int


class Pooling(NamedTuple):
    """Means of a dequantised tensor that are quantised.

    means: their statement, on float tensors with the names of the call's tensors. x: scale and zero point of the input.
    bounds: what the means are clamped to. rounding: scale and zero point of the output.
    """

    means: Nest
    x: tuple[float, int]
    bounds: tuple[float, float]
    rounding: tuple[float, int]


@dataclass(frozen=True)
class Work:
    """One call of a graph: an operator, or several that were fused.

    nodes: the nodes that it computes; only the result of the last one is written. reads, writes: its tensors, by name.
    nest: the fused statement of several nodes; None for a single node, which has its own statement. region: what several
    nodes compute together if it is not a statement. floats: the buffers of dequantised tensors that it replaces.
    """

    nodes: tuple[int, ...]
    reads: Mapping[str, Use]
    writes: Mapping[str, Use]
    nest: Nest | None = field(default=None, compare=False)
    region: Region | Selection | Pooling | None = field(default=None, compare=False)
    floats: tuple[int, ...] = field(default=(), compare=False)

    @property
    def node(self) -> int:
        return self.nodes[-1]

    @property
    def arrays(self) -> Mapping[str, NDArray[np.int8]]:
        """The tensors that are in no buffer, by name."""
        return self.region.arrays if isinstance(self.region, Region) else {}


def works_of(checked: CheckedGraph) -> tuple[Work, ...]:
    """A call for each operator, in order."""
    made = []
    for node in checked.order:
        if (operator := checked.nodes[node]) is None:
            continue
        reads = {name: Use(buffer, operator.tensors[name]) for name, buffer in checked.reads[node].items()}
        writes = {name: Use(buffer, operator.tensors[name]) for name, buffer in checked.writes[node].items()}
        made.append(Work((node,), reads, writes))
    return tuple(made)


def lie_alike(a: Use, b: Use) -> bool:
    """Whether two tensors in one buffer have the same data type, sizes and layout."""
    s, t = a.tensor, b.tensor
    if (s.data_type, s.sizes, a.offset) != (t.data_type, t.sizes, b.offset):
        return False
    return all(x == y for n, x, y in zip(s.sizes, s.explicit_strides, t.explicit_strides, strict=True) if n > 1)


def spelled(nest: Nest) -> Hashable:
    """A key of a statement, equal for statements that are equal except for their variables."""
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


def fixed_buffers(checked: CheckedGraph, works: Sequence[Work]) -> frozenset[int]:
    """The buffers that do not change after initialization: constants, owned inputs, and what is computed from them alone."""
    fixed = {i for i, b in enumerate(checked.buffers) if b.owned or checked.constant(i) is not None}
    for work in works:
        if all(use.buffer in fixed for use in work.reads.values()):
            fixed.update(use.buffer for use in work.writes.values())
    return frozenset(fixed)


def split(works: Sequence[Work], fixed: frozenset[int]) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """The calls that are made once, at initialization, and those that each execution makes."""
    once = [all(use.buffer in fixed for use in work.writes.values()) for work in works]
    return (
        tuple(work for work, first in zip(works, once, strict=True) if first),
        tuple(work for work, first in zip(works, once, strict=True) if not first),
    )


def read_beyond(checked: CheckedGraph, works: Sequence[Work]) -> frozenset[int]:
    """The buffers in which a call reads bytes beyond the elements that another one writes."""
    written: dict[int, int] = {}
    for use in (use for work in works for use in work.writes.values()):
        written[use.buffer] = max(written.get(use.buffer, 0), use.offset + use.tensor.element_bytes)
    return frozenset(
        use.buffer
        for work in works
        for use in work.reads.values()
        if use.offset + use.tensor.element_bytes > written.get(use.buffer, checked.buffers[use.buffer].bytes)
    )
