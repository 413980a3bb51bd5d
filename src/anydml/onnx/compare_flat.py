"""A model without If, Loop and Scan: the nodes of the branches that are taken, and those of every turn, for known decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anydml.onnx.values import Array

Sizes = Mapping[str, tuple[int, ...]]
MOST_ADDED = 4000  # nodes of the branches and turns at most; the rest stay as they are


def flat(proto: ModelProto, decided: Mapping[str, Array], sizes: Sizes) -> ModelProto:
    """The model with the bodies of its outermost If, Loop and Scan nodes in place of these nodes.

    decided: a condition, or an array with as many elements as there are turns, by the name of the node. sizes: those of
    tensors, by name. Nodes whose decisions are not known stay, and so do loops of no or of too many turns.
    """
    made = _Flat(proto, decided, sizes)
    return made.model()


def body_of(node: NodeProto) -> GraphProto:
    """The body of a Loop or Scan."""
    found: GraphProto = next(a.g for a in node.attribute if a.name == "body")
    return found


class _Flat:
    def __init__(self, proto: ModelProto, decided: Mapping[str, Array], sizes: Sizes) -> None:
        self.proto, self.decided, self.sizes = proto, decided, sizes
        self.opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        graph = proto.graph
        self.taken = {t.name for t in (*graph.input, *graph.initializer)} | {n for x in graph.node for n in x.output}
        self.added = 0

    def model(self) -> ModelProto:
        for node in self.proto.graph.node:
            known = self.decided.get(node.name)
            if node.domain not in ("", "ai.onnx") or not self._expanded(node, known):
                self.nodes.append(node)
        made = ModelProto()
        made.CopyFrom(self.proto)
        kept = [NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        del made.graph.node[:]
        made.graph.node.extend(kept)
        made.graph.initializer.extend(self.constants)
        made.ir_version = max(made.ir_version, 4)  # initializers that are not inputs
        return made

    def _expanded(self, node: NodeProto, known: Array | None) -> bool:
        """Whether a node was replaced by those of its body."""
        if node.op_type == "If" and known is not None and known.size == 1:
            branch = "then_branch" if bool(known.reshape(-1)[0]) else "else_branch"
            body = next(a.g for a in node.attribute if a.name == branch)
            return self._fits(len(body.node)) and self._taken(node, body)
        if node.op_type == "Loop" and known is not None and known.size:
            return self._fits(known.size * len(body_of(node).node)) and self._repeated(node, body_of(node), known.size)
        if node.op_type == "Scan" and self.opset >= 9:
            return self._scanned(node, body_of(node))
        return False

    def _fits(self, count: int) -> bool:
        self.added += count
        return self.added <= MOST_ADDED

    def _taken(self, node: NodeProto, body: GraphProto) -> bool:
        written = {name for inner in body.node for name in inner.output if name}
        pairs = zip((t.name for t in body.output), node.output, strict=False)
        names = self._copied(body, "", f"{node.name}/", {old: new for old, new in pairs if new and old in written})
        self._equal(node, [(names.get(t.name, t.name), y) for t, y in zip(body.output, node.output, strict=False)])
        return True

    def _repeated(self, node: NodeProto, body: GraphProto, turns: int) -> bool:
        states = list(node.input[2:])
        each: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
        for turn in range(turns):
            number, true = (self._constant(f"{node.name}[{turn}] {word}", x) for word, x in
                            (("number", np.array(turn, np.int64)), ("condition", np.array(True))))  # fmt: skip
            given = dict(zip((t.name for t in body.input), [number, true, *states], strict=True))
            names = self._copied(body, f"{node.name}[{turn}]/", f"{node.name}[{turn}]/", given)
            made = [names.get(t.name, t.name) for t in body.output]
            states = made[1 : 1 + len(states)]
            for so_far, name in zip(each, made[1 + len(states) :], strict=True):
                so_far.append(name)
        outputs = [*node.output, *[""] * (len(states) + len(each) - len(node.output))]
        self._equal(node, list(zip(states, outputs, strict=False)))
        for parts, output in zip(each, outputs[len(states) :], strict=True):
            self._stacked(node, parts, output, 0)
        return True

    def _scanned(self, node: NodeProto, body: GraphProto) -> bool:
        attributes: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        count = attributes.get("num_scan_inputs", 0)
        states, tensors = list(node.input[: len(node.input) - count]), list(node.input[len(node.input) - count :])
        if not count or any(name not in self.sizes for name in tensors):
            return False
        axes = [a % len(self.sizes[n]) for n, a in zip(tensors, attributes.get("scan_input_axes", [0] * count), strict=True)]
        backward = attributes.get("scan_input_directions", [0] * count)
        turns = self.sizes[tensors[0]][axes[0]]
        if not turns or not self._fits(turns * len(body.node)):
            return False
        infos = body.output[len(states) :]
        each: list[list[str]] = [[] for _ in infos]
        for turn in range(turns):
            prefix = f"{node.name}[{turn}]/"
            slices = []
            for name, axis, back in zip(tensors, axes, backward, strict=True):
                index = self._constant(f"{prefix}{name} index", np.array(turns - 1 - turn if back else turn, np.int64))
                slices.append(f"{prefix}{name} slice")
                self._add("Gather", [name, index], slices[-1], axis=axis)
            given = dict(zip((t.name for t in body.input), [*states, *slices], strict=True))
            names = self._copied(body, prefix, prefix, given)
            made = [names.get(t.name, t.name) for t in body.output]
            states = made[: len(states)]
            for so_far, name in zip(each, made[len(states) :], strict=True):
                so_far.append(name)
        self._equal(node, list(zip(states, node.output, strict=False)))
        out_axes = attributes.get("scan_output_axes", [0] * len(infos))
        flipped = attributes.get("scan_output_directions", [0] * len(infos))
        for parts, output, axis, back in zip(each, node.output[len(states) :], out_axes, flipped, strict=True):
            self._stacked(node, parts[::-1] if back else parts, output, axis)
        return True

    # --- parts of bodies ---

    def _copied(self, body: GraphProto, prefix: str, instead: str, given: dict[str, str]) -> dict[str, str]:
        """Add the nodes and constants of a body, and return the new names of its tensors.

        prefix: comes before their names, or `instead` if a name is taken. given: new names that are known already.
        """
        names = dict(given)
        written = {name for node in body.node for name in node.output if name} | {t.name for t in body.initializer}
        for name in (t.name for t in body.input):
            names.setdefault(name, name)
        for name in written - names.keys():
            new = prefix + name
            if new in self.taken:
                new = instead + name
            while new in self.taken:
                new += "'"
            self.taken.add(new)
            names[name] = new
        for tensor in body.initializer:
            copy = TensorProto.FromString(tensor.SerializeToString())
            copy.name = names[tensor.name]
            self.constants.append(copy)
        for node in body.node:
            copied = NodeProto.FromString(node.SerializeToString())
            _renamed(copied, names)
            copied.name = instead + (node.name or next(filter(None, node.output), node.op_type))
            self.nodes.append(copied)
        return names

    def _constant(self, name: str, x: Array) -> str:
        self.taken.add(name)
        self.constants.append(numpy_helper.from_array(x, name))
        return name

    def _add(self, operator: str, inputs: Iterable[str], output: str, **attributes: Any) -> None:
        self.taken.add(output)
        self.nodes.append(helper.make_node(operator, list(inputs), [output], output, **attributes))

    def _equal(self, node: NodeProto, pairs: Iterable[tuple[str, str]]) -> None:
        """Give the tensors of a body the names of the node's outputs, where they have others."""
        for name, output in pairs:
            if output and name != output:
                self._add("Identity", [name], output)

    def _stacked(self, node: NodeProto, parts: list[str], output: str, axis: int) -> None:
        """Stack the tensors of all turns along a new axis."""
        if not output:
            return
        rows = []
        for part in parts:
            rows.append(f"{part} of {output}")
            while rows[-1] in self.taken:
                rows[-1] += "'"
            if self.opset < 13:
                self._add("Unsqueeze", [part], rows[-1], axes=[axis])
            else:
                at = f"{output} axis"
                if at not in self.taken:
                    self._constant(at, np.array([axis], np.int64))
                self._add("Unsqueeze", [part, at], rows[-1])
        self._add("Concat", rows, output, axis=axis)


def _renamed(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename the tensors of a node; its bodies' own tensors keep their names."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            own = {t.name for t in (*graph.input, *graph.initializer)} | {n for x in graph.node for n in x.output}
            around = {old: new for old, new in names.items() if old not in own}
            for inner in graph.node:
                _renamed(inner, around)
            for t in graph.output:
                t.name = around.get(t.name, t.name)
