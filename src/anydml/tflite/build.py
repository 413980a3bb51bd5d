"""The graph of a model for inputs of certain sizes: nodes whose inputs are known are computed at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anydml.devices.memory import memory_bytes
from anydml.functional.graph import built, computed
from anydml.functional.tracing import Building, GraphTensor
from anydml.gc_pause import paused
from anydml.onnx.calling import called
from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, NOT_YET, ModelError, NeedsValue, Refusal, Refused
from anydml.onnx.segments import Segment
from anydml.onnx.values import Array, Value
from anydml.tensor import TensorDesc
from anydml.tflite.mapping import MAPPINGS
from anydml.tflite.read import MOST_ELEMENTS, OPERATORS, Node, Read, Tensor

Sizes = Mapping[str, tuple[int, ...]]
STATEFUL = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"})


def stored(x: Array) -> Array:
    """An array as graphs hold it: booleans as UINT8, at least one dimension."""
    held = x.view(np.uint8) if x.dtype == np.bool_ else x
    return held.reshape(1) if held.ndim == 0 else held


def dtype_in_graph(t: Tensor) -> np.dtype[Any]:
    """The type of a tensor's elements in a graph."""
    return np.dtype(np.uint8) if t.dtype == np.bool_ else t.dtype


class Walk:
    """The graph of some nodes on inputs of these sizes. refusals: the nodes that are refused.

    as_in_file: whether all inputs have the file's sizes, so that those of other tensors must be the file's, too.
    """

    def __init__(self, read: Read, nodes: Sequence[Node], sizes: Sizes, *, as_in_file: bool, constants: Mapping[str, Array]):
        self.nodes, self.as_in_file = nodes, as_in_file
        self.refusals: list[Refusal] = []
        self.lost: set[str] = set()  # tensors of nodes that were refused
        self._at = ""
        self._building = Building(lambda: self._at)
        self._given: list[GraphTensor] = []
        self.env: dict[str, Value] = {name: stored(x) for name, x in constants.items()}
        by_name = {t.name: t for t in read.tensors}
        for name, own in sizes.items():
            t = by_name[name]
            if math.prod(own) > MOST_ELEMENTS or 0 in own:
                self.refusals.append(Refusal(name, "input", INVALID, f"sizes {own} are no elements or too many"))
                self.lost.add(name)
                continue
            made = GraphTensor(self._building, name, TensorDesc(dtype_in_graph(t), own or (1,)), (None, len(self._given)))
            self._given.append(made)
            self.env[name] = made

    @paused
    def run(self, outputs: Mapping[str, Tensor], keep_all: bool) -> Segment:
        """The whole graph; ModelError if nodes are refused."""
        made: dict[str, Tensor] = {}
        for node in self.nodes:
            self._at = str(node)
            try:
                self._step(node)
                made |= {t.name: t for t in node.outputs}
            except Refused as refused:
                self.refusals.append(Refusal(node.name, node.operator, refused.kind, refused.reason))
            except NeedsValue as needs:
                name = next((n for n in node.reads if self.env.get(n) is needs.value), node.name)
                reason = f"the values of {name} determine its sizes or attributes, and are not known before the run"
                self.refusals.append(Refusal(node.name, node.operator, NOT_YET, reason))
            else:
                continue
            self.lost.update(t.name for t in node.outputs)
        missing = [name for name in outputs if name not in self.env and name not in self.lost]
        self.refusals += [Refusal(name, "output", INVALID, "no node computes it") for name in missing]
        if self.refusals:
            raise ModelError(self.refusals)
        return self._segment({**made, **outputs} if keep_all else outputs)

    def _segment(self, kept: Mapping[str, Tensor]) -> Segment:
        found: dict[str, GraphTensor] = {}
        shapes, aliases, values = {}, {}, {}
        by_identity = {id(self.env[t.name]): t.name for t in self._given}
        for name in sorted(kept):
            value = self.env[name]
            if not isinstance(value, GraphTensor):
                values[name] = value
            elif id(value) in by_identity:
                aliases[name] = by_identity[id(value)]
            else:
                by_identity[id(value)] = name
                found[name], shapes[name] = computed(value), value.sizes
        aliases = {name: other for name, other in aliases.items() if name != other}
        graph = built(self._building, self._given, found, {name: name for name in found}) if found else None
        return Segment(graph, shapes, aliases, values, {}, (), len(self.nodes), frozenset(kept))

    def _step(self, node: Node) -> None:
        if node.operator not in MAPPINGS:
            raise Refused(*_missing(node))
        mapping, options = MAPPINGS[node.operator]
        if options and node.options[1] is not None and node.options[0] != options:
            raise Refused(f"its options are {node.options[0]}, and must be {options}", INVALID)
        if self.lost.intersection(node.reads):
            self.lost.update(t.name for t in node.outputs)
            return
        if not node.outputs:
            raise Refused("it has no outputs", INVALID)
        absent = [k for k, t in enumerate(node.inputs) if t is None and k < OPTIONAL.get(node.operator, len(node.inputs))]
        if absent:
            raise Refused(f"its input {absent[0]} is absent, and is not optional", INVALID)
        for t in (*node.inputs, *node.outputs):
            if t is not None and t.dtype in UNSUPPORTED:
                raise Refused(f"{t.name} has elements of {t.dtype}")
            if t is not None and 0 in t.sizes:
                raise Refused(f"{t.name} has no elements", NOT_YET)
        results = called(mapping, node, [self._value(t) for t in node.inputs])
        if len(results) != len(node.outputs):
            raise Refused(f"it has {len(node.outputs)} outputs, and computes {len(results)}", INVALID)
        for t, value in zip(node.outputs, results, strict=True):
            self._take(t, value)

    def _value(self, t: Tensor | None) -> Value:
        if t is not None and t.name not in self.env:
            raise Refused(f"no node before it computes {t.name!r}", INVALID)
        return self.env[t.name] if t is not None else None

    def _take(self, t: Tensor, value: Value) -> None:
        if not isinstance(value, GraphTensor):
            value = stored(np.asarray(value))
        if value.size == 0:
            raise Refused("it computes no elements", NOT_YET)
        if value.dtype != dtype_in_graph(t):
            raise Refused(f"it computes {value.dtype}, and {t.name} has elements of {t.dtype}", INVALID)
        unknown = any(n < 0 for n in t.signature)
        if self.as_in_file and not unknown and tuple(value.shape) != (t.sizes or (1,)) and (t.sizes or value.size != 1):
            raise Refused(f"it computes sizes {tuple(value.shape)}, and {t.name} has sizes {t.sizes}", INVALID)
        if t.name in self.env:
            raise Refused(f"{t.name} is written twice, or is an input or a constant", INVALID)
        if isinstance(value, GraphTensor) and value.tensor.total > memory_bytes():
            raise Refused(f"its output takes {value.tensor.total} bytes, more than this machine has", INVALID)
        self.env[t.name] = value


OPTIONAL = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "RESHAPE": 1, "TRANSPOSE_CONV": 3}
"""By operator, the first input that may be absent."""
UNSUPPORTED = (np.dtype(np.float64),)


def _missing(node: Node) -> tuple[str, str]:
    """The reason why an operator is refused, and the kind of the refusal."""
    if node.operator in STATEFUL:
        return "it keeps a state from one run to the next", NOT_IN_DIRECTML
    if node.operator not in OPERATORS.values():
        return f"TensorFlow Lite's schema has no {node.operator}", NOT_IN_DIRECTML
    return f"{node.operator} is not mapped", NOT_YET
