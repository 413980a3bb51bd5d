"""Graphs that keep every rule: descs, and the buffer of each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from anydml.feature_level import FeatureLevel
from anydml.graphs.desc import ConstantNode, GraphDesc
from anydml.schema.check import Checked
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc


class Bound(NamedTuple):
    """A tensor that the caller binds. tensor: with explicit strides; own_total: the total that a desc gives, or 0."""

    name: str
    tensor: TensorDesc
    own_total: int
    buffer: int


class Buffer(NamedTuple):
    """The memory of a tensor between its writer and its readers. node: its writer, or the constant; None for an input."""

    node: int | None
    bytes: int
    owned: bool = False


@dataclass(frozen=True, eq=False)
class CheckedGraph:
    """A graph that keeps every rule at `feature_level`; made by `check_graph` alone.

    nodes: the checked desc of each, None for a constant. reads, writes: for each node, the buffer of a tensor by its name.
    order: nodes, each after those that it reads. inputs, outputs: what the caller binds.
    """

    desc: GraphDesc
    feature_level: FeatureLevel
    nodes: tuple[Checked[Desc] | None, ...]
    buffers: tuple[Buffer, ...]
    reads: tuple[Mapping[str, int], ...]
    writes: tuple[Mapping[str, int], ...]
    order: tuple[int, ...]
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]

    def constant(self, buffer: int) -> ConstantNode | None:
        """The constant that a buffer has the bytes of."""
        node = self.buffers[buffer].node
        found = None if node is None else self.desc.nodes[node]
        return found if isinstance(found, ConstantNode) else None
