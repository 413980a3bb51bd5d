"""The walk over an exported program's nodes, which makes a graph of DirectML's operators from them.

A node whose tensors are all known is computed at once; the others become nodes of the graph. A node that is left to torch ends
the graph, and the walk continues when its results are there. Each such part is a segment.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx.node import map_arg

from anydml.devices.memory import memory_bytes
from anydml.errors import BindingError, DataError, DescError
from anydml.functional.graph import Graph, part
from anydml.functional.tracing import Building, GraphTensor
from anydml.gc_pause import paused
from anydml.onnx.calls import Idle
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, NOT_YET, ModelError, NeedsValue, Refusal, Refused
from anydml.onnx.values import Value
from anydml.tensor import TensorDesc
from anydml.torch.mapping import MAPPINGS
from anydml.torch.read import Array, Node

MOST_ELEMENTS = 2**46  # elements of a tensor at most, counting those that strides of 0 repeat


@dataclass(frozen=True)
class Segment:
    """Nodes that are computed as one graph, and the state after them.

    graph: None if there is nothing to compute. shapes: those of the graph's outputs. aliases: tensors that are equal to others.
    known: tensors and numbers that are known already. stop: the place of the node that is left to torch, None at the end.
    """

    graph: Graph | None
    shapes: Mapping[str, tuple[int, ...]]
    aliases: Mapping[str, str]
    known: Mapping[str, Any]
    stop: int | None
    spare: dict[Any, Idle | None] = field(default_factory=dict, compare=False, repr=False)
    """By device, calls of the graph that are bound to their own arrays and idle; None if such calls are not kept."""


def member(name: str, place: int) -> str:
    """The name of one of several results of a node."""
    return f"{name}[{place}]"


def reads(node: Node) -> set[str]:
    """The names of the tensors and numbers that a node reads."""
    if node.inner.target is operator.getitem:
        return {member(node.inner.args[0].name, node.inner.args[1])}
    return {inner.name for inner in node.inner.all_input_nodes}


class Walk:
    """One walk from a node to the next one that is left to torch, or to the end.

    nodes: those of the whole program. at: the place of the first one. known: tensors and numbers that are known. sizes: sizes
    and dtypes of the other tensors. fallback: whether nodes that cannot be mapped are left to torch.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        at: int,
        known: Mapping[str, Any],
        sizes: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
        fallback: bool,
    ) -> None:
        self.nodes, self.at, self.fallback = nodes, at, fallback
        self.env: dict[str, Any] = dict(known)
        self.refusals: list[Refusal] = []
        self.lost: set[str] = set()  # results of nodes that were refused
        self._place = ""
        self._building = Building(lambda: self._place)
        self._given: list[GraphTensor] = []
        self._names: dict[int, str] = {}
        for name, (shape, dtype) in sizes.items():
            if math.prod(shape) > MOST_ELEMENTS:
                raise ModelError([Refusal(name, "input", INVALID, f"sizes {shape} are too many elements")])
            if 0 in shape:
                self.env[name] = np.empty(shape, dtype)
                continue
            t = GraphTensor(self._building, name, TensorDesc(dtype, shape or (1,)), (None, len(self._given)))
            self._given.append(t)
            self.env[name] = t if shape else t.reshape(())
            self._names[id(self.env[name])] = name

    @paused
    def run(self, kept: Callable[[int | None], frozenset[str] | None]) -> Segment:
        """The segment; ModelError if nodes are refused. kept: the tensors that are needed after a stop, None for all."""
        stop = None
        before = set(self.env)
        for i in range(self.at, len(self.nodes)):
            node = self.nodes[i]
            self._place = f"{node.title} ({node.operator})" + (f", {node.line}" if node.line else "")
            if self.lost & reads(node):
                self._lose(node)
                if not _has_way(node):
                    self._refuse(node, "it is not mapped to DirectML's operators", NOT_IN_DIRECTML)
                continue
            try:
                self._step(node)
            except Refused as refused:
                if self.fallback and isinstance(node.inner.target, torch._ops.OpOverload):
                    stop = i
                    break
                self._refuse(node, refused.reason, refused.kind)
                self._lose(node)
        if self.refusals:
            raise ModelError(self.refusals)
        wanted = kept(stop)
        return self._segment(frozenset(self.env.keys() - before) if wanted is None else wanted, stop)

    def _lose(self, node: Node) -> None:
        self.lost |= {node.name, *(member(node.name, i) for i in range(_count(node)))}

    def _refuse(self, node: Node, reason: str, kind: str) -> None:
        where = f"{reason}; at {node.line}" if node.line else reason
        self.refusals.append(Refusal(node.title, node.operator, kind, where))

    def _segment(self, kept: frozenset[str], stop: int | None) -> Segment:
        values = {name: self.env[name] for name in kept & self.env.keys()}
        return Segment(*part(self._building, self._given, values, self._names), stop)

    def _step(self, node: Node) -> None:
        inner = node.inner
        if inner.target is operator.getitem:
            base, place = inner.args
            if member(base.name, place) not in self.env:
                raise Refused(f"result {place} of {base.target} is not computed", NOT_YET)
            self.env[node.name] = self.env[member(base.name, place)]
            return
        args, kwargs = map_arg((inner.args, inner.kwargs), lambda a: self.env[a.name])
        mapping = MAPPINGS.get(node.operator)
        if mapping is None:
            if isinstance(inner.target, torch._ops.OpOverload):
                raise Refused("it is not mapped to DirectML's operators")
            self.env[node.name] = inner.target(*args, **kwargs)  # arithmetic of sizes
            return
        keep(self.env, node, _called(mapping, node, args, kwargs))


def keep(env: dict[str, Any], node: Node, made: Any) -> None:
    """Enter a node's result, or each of several, by name."""
    if not isinstance(made, (tuple, list)):
        env[node.name] = _fitting(made)
        return
    for i, value in enumerate(made):
        if value is not None:
            env[member(node.name, i)] = _fitting(value)


def _count(node: Node) -> int:
    value = node.inner.meta.get("val")
    return len(value) if isinstance(value, (tuple, list)) else 0


def _has_way(node: Node) -> bool:
    return node.operator in MAPPINGS or not isinstance(node.inner.target, torch._ops.OpOverload)


def _fitting(value: Value) -> Value:
    if isinstance(value, GraphTensor) and (math.prod(value.sizes) > MOST_ELEMENTS or value.tensor.total > memory_bytes()):
        raise Refused(f"a tensor of sizes {value.sizes} takes {value.tensor.total} bytes", INVALID)
    return value


def _called(mapping: Callable[..., Any], node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A node's result by its mapping. Errors of DirectML's operators become refusals."""
    try:
        return mapping(node, *args, **kwargs)
    except NeedsValue:
        raise Refused("the elements of a tensor determine its sizes or its numbers") from None
    except DescError as error:
        raise Refused("; ".join(map(str, error.violations))) from None
    except BindingError as error:
        raise Refused("; ".join(map(str, error.faults))) from None
    except DataError as error:
        raise Refused(str(error), INVALID) from None


def left_to_torch(
    node: Node, env: dict[str, Any], tensor: Callable[[Array, Any], Any], array: Callable[[Any, str], Array]
) -> None:
    """Compute a node by torch, and enter its results. tensor, array: convert from arrays, and to them."""

    def given(a: Any) -> Any:
        value = env[a.name]
        return tensor(np.array(value), a.meta["val"].dtype) if isinstance(value, np.ndarray) else value

    args, kwargs = map_arg((node.inner.args, node.inner.kwargs), given)
    with torch.no_grad():
        made = node.inner.target(*args, **kwargs)

    def taken(x: Any) -> Any:
        return array(x, node.name) if isinstance(x, torch.Tensor) else x

    keep(env, node, [taken(x) for x in made] if isinstance(made, (tuple, list)) else taken(made))
