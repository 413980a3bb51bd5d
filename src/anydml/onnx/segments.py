"""States between the nodes of a model, and the segments that a walk makes from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anydml.functional.graph import Graph
from anydml.onnx.bodies import Frames
from anydml.onnx.nodes import Node
from anydml.onnx.values import Array


def member(name: str, place: int) -> str:
    """The name of a tensor of a sequence."""
    return f"{name}[{place}]"


@dataclass(frozen=True)
class State:
    """The model before a node. known: tensors whose elements are known. sizes: the others', with their dtypes.

    types: element types by tensor. frames: the nodes to come. count: of the nodes that were met. sequences: their lengths by
    name; their tensors are named by `member`.
    """

    known: Mapping[str, Array]
    sizes: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    types: Mapping[str, int]
    frames: Frames
    count: int = 0
    sequences: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Segment:
    """Nodes that are one graph, and the way on.

    graph: None where there is nothing to compute. shapes: of the graph's outputs. aliases: tensors that are others as they
    are. known: tensors that need no computing. rest: the state behind, but for sizes; wanted: the tensors whose values
    decide how it goes on; alone: the node that runs by itself before it does.
    """

    graph: Graph | None
    shapes: Mapping[str, tuple[int, ...]]
    aliases: Mapping[str, str]
    known: Mapping[str, Array]
    types: Mapping[str, int]
    frames: Frames
    count: int
    live: frozenset[str]
    wanted: tuple[str, ...] = ()
    alone: Node | None = None
    sequences: Mapping[str, int] = field(default_factory=dict)
    spare: dict[Any, list[Any] | None] = field(default_factory=dict, compare=False, repr=False)
    """By device, calls of the graph that are bound to arrays of their own and that nobody runs; None where there are none."""

    @property
    def last(self) -> bool:
        return not self.wanted and self.alone is None
