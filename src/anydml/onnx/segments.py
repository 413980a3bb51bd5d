"""The states between a model's nodes at which its graphs end, and the segments from one state to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.functional.graph import Graph
from anydml.onnx.values import Array

if TYPE_CHECKING:  # models of other formats have segments, too
    from anydml.onnx.bodies import Frames
    from anydml.onnx.calls import Idle
    from anydml.onnx.nodes import Node


def member(name: str, place: int) -> str:
    """The name of a tensor of a sequence."""
    return f"{name}[{place}]"


@dataclass(frozen=True)
class State:
    """The model before a node. known: tensors whose elements are known. sizes: sizes and dtypes of the other tensors.

    types: element types by tensor. frames: the nodes that follow. count: the number of nodes before. sequences: the lengths of
    sequences by name; `member` names their tensors.
    """

    known: Mapping[str, Array]
    sizes: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    types: Mapping[str, int]
    frames: Frames
    count: int = 0
    sequences: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Segment:
    """Nodes that are computed as one graph, and the state after them.

    graph: None if there is nothing to compute. shapes: those of the graph's outputs. aliases: tensors that are equal to others.
    known: tensors whose elements are known already. rest: the state after the segment, without sizes. wanted: the tensors
    whose values the next segment depends on. alone: the node that runs by itself before the next segment.
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
    spare: dict[Any, Idle | None] = field(default_factory=dict, compare=False, repr=False)
    """By device, calls of the graph that are bound to their own arrays and idle; None if such calls are not kept."""

    @property
    def last(self) -> bool:
        return not self.wanted and self.alone is None
