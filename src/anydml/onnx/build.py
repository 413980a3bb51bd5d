"""The walk over a model's nodes, which makes graphs from them.

A node whose inputs are known is computed at once; the others become nodes of a graph. If the elements of a tensor determine
the sizes of a node's tensors, the graph ends before this node, and the walk continues when they are known. Each such part is a
segment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from anydml.devices.memory import memory_bytes
from anydml.functional.graph import part
from anydml.functional.tracing import Building, GraphTensor
from anydml.gc_pause import paused
from anydml.graphs.weights import FEWEST
from anydml.onnx.bodies import Frames, own_body, read_by, read_later
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, NOT_YET, ModelError, NeedsValue, Refusal, Refused, RunsAlone, UseBody
from anydml.onnx.evaluate import evaluate
from anydml.onnx.mapping import MAPPINGS
from anydml.onnx.nodes import Body, Node, branch_body, function_body, node_of
from anydml.onnx.read import MOST_NODES
from anydml.onnx.segments import Segment, State, member
from anydml.onnx.types import DTYPES, FOUR_BIT, output_types, type_of
from anydml.onnx.values import Value, known
from anydml.tensor import TensorDesc

MULTIPLYING = {"MatMul", "Gemm", "Transpose", "FusedMatMul"}  # operators that a graph may join with dequantised weights
MOST_DEEP = 24  # nested bodies at most
TURNS = ("Loop", "Scan")  # these run by themselves, one turn after another
MOST_ELEMENTS = 2**46  # elements of a tensor at most, counting those that strides of 0 repeat


class Walk:
    """One walk from a state to the next cut or to the end. refusals: the refused nodes so far."""

    def __init__(self, state: State, functions: Mapping[tuple[str, str], Any]) -> None:
        self.env: dict[str, Value] = dict(state.known)
        self.types = dict(state.types)
        self.functions = functions
        self.refusals: list[Refusal] = []
        self.lost: set[str] = set()  # tensors of nodes that were refused
        self._frames = [*state.frames]
        self._count = state.count
        self._at = ""
        self._building = Building(lambda: self._at)
        self._given: list[GraphTensor] = []
        self._later: set[str] = set()  # tensors of types that graphs do not support
        self._names: dict[int, str] = {}
        self._readers: dict[int, dict[str, set[str]]] = {}  # by body and tensor: the operators of its nodes that read it
        for name, (sizes, dtype) in state.sizes.items():
            if math.prod(sizes) > MOST_ELEMENTS:
                self.refusals.append(Refusal(name, "input", INVALID, f"sizes {sizes} are too many elements"))
                self.lost.add(name)
            elif 0 in sizes:
                self.env[name] = np.empty(sizes, dtype)
            elif state.types.get(name) in FOUR_BIT:
                self._later.add(name)
            else:
                t = GraphTensor(self._building, name, TensorDesc(dtype, sizes or (1,)), (None, len(self._given)))
                self._given.append(t)
                self.env[name] = t if sizes else t.reshape(())
                self._names[id(self.env[name])] = name

        for name, length in state.sequences.items():
            self.env[name] = tuple(self.env[member(name, i)] for i in range(length))

    @paused
    def run(self, outputs: frozenset[str], keep_all: bool) -> Segment:
        """The segment that begins at the state; ModelError if nodes are refused."""
        wanted: tuple[str, ...] = ()
        alone = None
        made: set[str] = set()
        while self._frames:
            body, at = self._frames[-1]
            if at == len(body.nodes):
                self._frames.pop()
                continue
            self._frames[-1] = body, at + 1
            self._count += 1
            node = node_of(body.nodes[at], body)
            if self._count > MOST_NODES:
                raise ModelError(
                    [Refusal("", "", INVALID, f"the model has more than {MOST_NODES} nodes, with those of functions")]
                )
            self._at = str(node)
            try:
                self._step(self._typed(node), body.opsets)
                made.update(filter(None, node.outputs))
            except _Cut as cut:
                wanted = cut.wanted
                if wanted:
                    self._frames[-1] = body, at
                    self._count -= 1
                else:
                    alone = cut.node
                break
        if not self._frames:
            missing = outputs - self.env.keys() - self.lost - self._later
            self.refusals += [Refusal(name, "output", INVALID, "no node computes it") for name in sorted(missing)]
        if self.refusals:
            raise ModelError(self.refusals)
        frames = tuple(self._frames)
        live = outputs | read_later(frames) | set(wanted) | (read_by(alone) if alone else set())
        return self._segment(frozenset(live), frozenset(live | made) if keep_all else frozenset(live), frames, wanted, alone)

    def _segment(
        self, live: frozenset[str], kept: frozenset[str], frames: Frames, wanted: tuple[str, ...], alone: Node | None
    ) -> Segment:
        sequences = {name: x for name in kept & self.env.keys() if isinstance(x := self.env[name], tuple)}
        for name, tensors in sequences.items():
            for i, x in enumerate(tensors):
                self.env[member(name, i)], self.types[member(name, i)] = x, self.types[name]
        kept = (kept - sequences.keys()).union(member(name, i) for name, x in sequences.items() for i in range(len(x)))
        lengths = {name: len(x) for name, x in sequences.items()}
        made = part(self._building, self._given, {name: self.env[name] for name in kept & self.env.keys()}, self._names)
        types = {name: t for name, t in self.types.items() if name in kept or name in lengths}
        return Segment(*made, types, frames, self._count, live, wanted, alone, lengths)

    def _typed(self, node: Node) -> Node:
        types = tuple(self.types.get(name) if name else None for name in node.inputs)
        schema = node.schema
        return replace(node, types=types, output_types=tuple(output_types(schema, node.attributes, types, len(node.outputs))))

    def _step(self, node: Node, opsets: Mapping[str, int]) -> None:
        if self.lost.intersection(node.inputs):
            self.lost.update(filter(None, node.outputs))
            if not has_way(node, self.functions):
                self._refuse(node, *_missing(node))
            return
        if late := self._later.intersection(node.inputs):
            raise _Cut(node=node) if node.key in MAPPINGS else Refused(f"graphs do not support the type of {sorted(late)[0]}")
        try:
            values = [self._value(name) for name in node.inputs]
            if node.key in TURNS:
                raise _Cut(node=node)
            if node.key == "If":
                self._push(self._branch(node, values[0], opsets))
            elif node.key in MAPPINGS and self._taken(node, values):
                pass
            elif (body := self._body(node, values, opsets)) is not None:
                self._push(body)
            else:
                reason, kind = _missing(node)
                raise Refused(reason, kind)
        except Refused as refused:
            self._refuse(node, refused.reason, refused.kind)
            self.lost.update(filter(None, node.outputs))
        except NeedsValue as needs:
            names = [name for name in node.inputs if name and self.env.get(name) is needs.value]
            raise (_Cut(wanted=tuple(names)) if names else _Cut(node=node)) from None
        except RunsAlone:
            raise _Cut(node=node) from None

    def _value(self, name: str) -> Value:
        if name and name not in self.env:
            raise Refused(f"no node before it computes {name!r}", INVALID)
        return self.env[name] if name else None

    def _refuse(self, node: Node, reason: str, kind: str) -> None:
        self.refusals.append(Refusal(node.name, node.key, kind, reason))

    def _take(self, node: Node, results: list[Value]) -> None:
        for i, (name, value) in enumerate(zip(node.outputs, results, strict=False)):
            if not name or value is None:
                continue
            if isinstance(value, tuple):
                self.env[name] = value
                self.types[name] = next((type_of_value(x) for x in value), TensorProto.FLOAT)
                if node.types and node.types[0] is not None and node.operator != "SequenceEmpty":
                    self.types[name] = node.types[0]
                continue
            if isinstance(value, GraphTensor):
                if value.data_type.element_bits < 8:
                    raise RunsAlone
                _fitting(value)
            self.env[name] = value
            declared = node.output_types[i]
            self.types[name] = declared if declared in DTYPES and declared is not None else type_of_value(value)
        if missing := [name for name in node.outputs[len(results) :] if name]:
            raise Refused(f"its output {missing[0]!r} is not computed", NOT_YET)

    def _kept_in_bits(self, node: Node, values: list[Value]) -> list[Value]:
        """The inputs of a dequantisation of constant weights in blocks, as a part of the graph if they are only multiplied.

        A graph keeps their few bits, and dequantises while it multiplies.
        """
        x, scale = values[0], values[1]
        if not all(isinstance(v, np.ndarray) for v in values) or x.ndim != 2 or scale.ndim != 2 or x.size < FEWEST:
            return values
        body = self._frames[-1][0]
        if id(body) not in self._readers:
            found = self._readers[id(body)] = {}
            for proto in body.nodes:
                for name in proto.input:
                    found.setdefault(body.scope.name(name), set()).add(proto.op_type)
        readers = self._readers[id(body)].get(node.outputs[0], set())
        return [self._building.constant(x), *values[1:]] if readers and readers <= MULTIPLYING else values

    def _taken(self, node: Node, values: list[Value]) -> bool:
        """Whether a mapping computes a node; if not, ONNX's own definition of the operator does."""
        if node.operator == "DequantizeLinear" and len(values) > 1:
            values = self._kept_in_bits(node, values)
        try:
            results = evaluate(node, values)
        except UseBody:
            return False
        self._take(node, results)
        return True

    def _branch(self, node: Node, condition: Value, opsets: Mapping[str, int]) -> Body:
        taken = "then_branch" if bool(np.all(known(condition))) else "else_branch"
        return branch_body(node, node.attributes[taken], opsets, self._count)

    def _body(self, node: Node, values: list[Value], opsets: Mapping[str, int]) -> Body | None:
        function = self.functions.get((node.domain, node.operator)) or own_body(node, values)
        return None if function is None else function_body(node, function, opsets, self._count)

    def _push(self, body: Body) -> None:
        if body.scope.depth > MOST_DEEP:
            raise Refused(f"functions and branches are nested more than {MOST_DEEP} deep", INVALID)
        self._frames.append((body, 0))


def has_way(node: Node, functions: Mapping[tuple[str, str], Any]) -> bool:
    """Whether an operator is mapped, or defined by other operators."""
    schema = node.schema
    return (
        node.key in MAPPINGS
        or (node.domain, node.operator) in functions
        or node.key in ("If", *TURNS)
        or (schema is not None and bool(schema.has_function or schema.has_context_dependent_function))
    )


def refused_later(frames: Frames, functions: Mapping[tuple[str, str], Any]) -> tuple[Refusal, ...]:
    """The nodes after a cut, and within loops and branches, whose operators cannot be computed for any tensors."""
    found = []
    bodies = [(body, body.nodes[at:]) for body, at in frames]
    while bodies:
        body, nodes = bodies.pop(0)
        for proto in nodes:
            node = node_of(proto, body)
            if not has_way(node, functions):
                reason, kind = _missing(node)
                found.append(Refusal(node.name, node.key, kind, reason))
            for a in proto.attribute:
                bodies += [(body, graph.node) for graph in (*([a.g] if a.HasField("g") else ()), *a.graphs)]
    return tuple(dict.fromkeys(found))


class _Cut(Exception):
    """The end of a segment. wanted: tensors whose values are needed. node: the next node, if it runs by itself."""

    def __init__(self, wanted: tuple[str, ...] = (), node: Node | None = None) -> None:
        super().__init__(wanted, node)
        self.wanted, self.node = wanted, node


def type_of_value(value: Value) -> int:
    """The element type of a tensor by its dtype, if the model does not give it."""
    return type_of(np.empty(0, value.dtype))


def _fitting(t: GraphTensor) -> None:
    if math.prod(t.sizes) > MOST_ELEMENTS or t.tensor.total > memory_bytes():
        raise Refused(f"a tensor of sizes {t.sizes} takes {t.tensor.total} bytes; this machine has {memory_bytes()}", INVALID)


def _missing(node: Node) -> tuple[str, str]:
    if node.domain:
        return f"operators of the domain {node.domain} are not supported", NOT_IN_DIRECTML
    if node.schema is None:
        return f"ONNX has no such operator in opset {node.opset}", INVALID
    return f"DirectML has no operator for {node.operator}", NOT_IN_DIRECTML
