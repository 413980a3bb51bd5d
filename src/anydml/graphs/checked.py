"""Graphs that keep every rule, with the buffer of each tensor."""

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
    """A tensor that the caller binds. tensor: with explicit strides. own_total: the total size that its desc gives, or 0."""

    name: str
    tensor: TensorDesc
    own_total: int
    buffer: int


class Buffer(NamedTuple):
    """The memory of a tensor. node: the operator that writes it, or the constant; None for an input of the graph."""

    node: int | None
    bytes: int
    owned: bool = False


@dataclass(frozen=True, eq=False)
class CheckedGraph:
    """A graph that keeps every rule at `feature_level`. Only `check_graph` makes one.

    nodes: the checked desc of each node, None for a constant. reads, writes: for each node, the buffers of its tensors by
    name. order: the nodes, each after those whose results it reads. inputs, outputs: the tensors that the caller binds.
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
        """The constant whose bytes a buffer holds; None if it holds no constant."""
        node = self.buffers[buffer].node
        found = None if node is None else self.desc.nodes[node]
        return found if isinstance(found, ConstantNode) else None
