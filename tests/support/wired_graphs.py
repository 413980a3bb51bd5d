"""Random graphs of any operators, whose nodes are also computed alone: of examples that read the bytes of other results."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    TensorDesc,
    TensorFlags,
    operators,
)
from anydml.graphs.desc import tensor_names
from anydml.schema.operator import Desc

Array = NDArray[Any]
SMALL = 2048  # the most bytes of an operator's tensors for the reference, which computes them in milliseconds


class Wired(NamedTuple):
    """A graph of operators, its inputs, those that are owned, and the results of operators computed alone, by node and name."""

    desc: GraphDesc
    inputs: dict[str, Array]
    owned: dict[str, Array]
    outputs: dict[str, Array]


class Made(NamedTuple):
    """An output of a node, its desc, and its bytes. whole: the node writes all of them."""

    node: int
    slot: int
    tensor: TensorDesc
    data: Array

    @property
    def whole(self) -> bool:
        return self.tensor.element_bytes == self.tensor.total and self.tensor.strides is None


class Wiring:
    """A graph that is being made: each node is computed alone at once. judge: a device that must agree on small nodes."""

    def __init__(self, rng: random.Random, device: dml.Device, judge: dml.Device | None = None) -> None:
        self.rng, self.device, self._judge = rng, device, judge
        self.nodes: list[OperatorNode | ConstantNode] = []
        self.input_edges: list[InputEdge] = []
        self.between: list[IntermediateEdge] = []
        self.output_edges: list[OutputEdge] = []
        self.inputs: dict[str, Array] = {}
        self.owned: set[str] = set()
        self.outputs: dict[str, Array] = {}
        self.made: list[Made] = []

    def add(self, desc: Desc, given: dict[str, Array], sources: dict[str, Made], constants: Collection[str] = ()) -> None:
        """Add a node that reads sources, constants, and other arrays, which are inputs of the graph.

        DataError, and no node, if values break a data rule.
        """
        arrays: dict[str, Array] = {}
        owned = owned_inputs(desc)
        for name in tensor_names(desc, "input"):
            if name in sources:
                arrays[name] = sources[name].data
            elif name is not None:
                arrays[name] = np.zeros(tensor_of(desc, name).total, np.uint8)
                arrays[name][: given[name].nbytes] = given[name].reshape(-1).view(np.uint8)
        made = alone(self.device, desc, arrays)
        if self._judge is not None and sum(x.nbytes for x in (*arrays.values(), *made.values())) <= SMALL:
            for name, x in alone(self._judge, desc, arrays).items():
                assert x.tobytes() == made[name].tobytes(), (desc, name, arrays)
        fixed = {}
        for name in constants:
            fixed[name] = len(self.nodes)
            self.nodes.append(ConstantNode(arrays[name]))
        node = len(self.nodes)
        self.nodes.append(OperatorNode(desc))
        for slot, name in enumerate(tensor_names(desc, "input")):
            if name in sources:
                self.between.append(IntermediateEdge(sources[name].node, sources[name].slot, node, slot))
            elif name in fixed:
                self.between.append(IntermediateEdge(fixed[name], 0, node, slot))
            elif name is not None:
                index = self._input(f"{node}.{name}", arrays[name], name in owned)
                self.input_edges.append(InputEdge(index, node, slot, [*self.inputs][index]))
        for slot, name in enumerate(tensor_names(desc, "output")):
            if name is not None:
                self.made.append(Made(node, slot, tensor_of(desc, name), made[name]))
                self.output_edges.append(OutputEdge(node, slot, len(self.outputs), f"{node}.{name}"))
                self.outputs[f"{node}.{name}"] = made[name]

    def _input(self, name: str, data: Array, owned: bool) -> int:
        """The index of the graph's input that is bound to these bytes: an existing one, or a new one of this name."""
        alike = [k for k, (x, y) in enumerate(self.inputs.items()) if (x in self.owned) == owned and np.array_equal(y, data)]
        if alike:
            return self.rng.choice(alike)
        if owned:
            self.owned.add(name)
        self.inputs[name] = data
        return len(self.inputs) - 1

    def source(self, nbytes: int) -> Made:
        """An output of this many bytes: an existing one, or a new node that slices elements from one or from several joined."""
        rng = self.rng
        whole_ones = [m for m in self.made if m.whole]
        if (fits := [m for m in whole_ones if m.data.nbytes == nbytes]) and rng.random() < 0.7:
            return rng.choice(fits)
        parts = [rng.choice(whole_ones)]
        while sum(m.data.nbytes for m in parts) < nbytes and len(parts) < 5:
            parts.append(rng.choice(whole_ones))
        whole = parts[0]
        if sum(m.data.nbytes for m in parts) < nbytes:
            repeats = -(-nbytes // whole.data.nbytes)
            tiled = TensorDesc("UINT32", (1, repeats * whole.data.nbytes // 4))
            desc: Desc = dml.Tile(input_tensor=_words(whole), output_tensor=tiled, repeats=(1, repeats))
            self.add(desc, {}, {"input_tensor": whole})
            whole = self.made[-1]
        elif len(parts) > 1:
            joined = TensorDesc("UINT32", (1, sum(m.data.nbytes for m in parts) // 4))
            desc = dml.Join(input_tensors=tuple(_words(m) for m in parts), output_tensor=joined, axis=1)
            self.add(desc, {}, {f"input_tensors[{k}]": m for k, m in enumerate(parts)})
            whole = self.made[-1]
        words = nbytes // 4
        every = whole.data.nbytes // 4
        step = rng.choice([k for k in (1, 1, 2, 3) if (words - 1) * k < every])
        span = (words - 1) * step + 1
        desc = dml.Slice1(
            input_tensor=_words(whole),
            output_tensor=TensorDesc("UINT32", (1, words)),
            input_window_offsets=(0, rng.randint(0, every - span)),
            input_window_sizes=(1, span),
            input_window_strides=(1, rng.choice((step, -step))),
        )
        self.add(desc, {}, {"input_tensor": whole})
        return self.made[-1]

    def wired(self) -> Wired:
        """The graph. Its outputs are all results that no node reads, and some others."""
        read = {(e.from_node_index, e.from_node_output_index) for e in self.between}
        kept = [
            e for e in self.output_edges if (e.from_node_index, e.from_node_output_index) not in read or self.rng.random() < 0.2
        ]
        renumbered = tuple(e._replace(graph_output_index=k) for k, e in enumerate(kept))
        graph = GraphDesc(tuple(self.nodes), tuple(self.input_edges), renumbered, tuple(self.between))
        owned = {name: x for name, x in self.inputs.items() if name in self.owned}
        inputs = {name: x for name, x in self.inputs.items() if name not in self.owned}
        return Wired(graph, inputs, owned, {e.name: self.outputs[e.name] for e in kept})


def _words(made: Made) -> TensorDesc:
    return TensorDesc("UINT32", (1, made.data.nbytes // 4))


def random_wiring(rng: random.Random, device: dml.Device, names: Sequence[str]) -> Wired | None:
    """Operators by name with the tensors of their examples, which read bytes of earlier results.

    None if their values break a data rule.
    """
    wiring = Wiring(rng, device)
    for name in names:
        desc, given = example_of(rng, name)
        ruled = {f.name for f in desc.spec.inputs if f.wire in desc.spec.ruled}
        sources = {}
        for tensor in tensor_names(desc, "input"):
            if (
                tensor is not None
                and tensor.split("[")[0] not in ruled
                and any(m.whole for m in wiring.made)
                and rng.random() < 0.6
            ):
                sources[tensor] = wiring.source(tensor_of(desc, tensor).total)
        try:
            wiring.add(desc, given, sources)
        except dml.DataError:
            return None
    return wiring.wired()


EXAMPLES: dict[str, list[tuple[type[Desc], Any]]] = {}
for _operator in operators.every():
    for _one in _operator.spec.examples:
        if not any(t.desc.flags or t.desc.strides for t in _operator(**_one.fields).tensors()):
            EXAMPLES.setdefault(_operator.spec.name, []).append((_operator, _one))


MAPS = [name for name in EXAMPLES if name.startswith(("ELEMENT_WISE", "ACTIVATION", "CAST"))]


def example_of(rng: random.Random, name: str) -> tuple[Desc, dict[str, Array]]:
    operator, example = rng.choice(EXAMPLES[name])
    desc = operator(**example.fields)
    given: dict[str, Array] = {}
    for field, value in example.inputs.items():
        if isinstance(value, list):
            given |= {f"{field}[{i}]": np.ascontiguousarray(x) for i, x in enumerate(value)}
        elif value is not None:
            given[field] = np.ascontiguousarray(value)
    return desc, given


def tensor_of(desc: Desc, name: str) -> TensorDesc:
    return next(found.desc for found in desc.tensors() if found.name == name)


def owned_inputs(desc: Desc) -> set[str]:
    return {found.name for found in desc.tensors() if found.desc.flags & TensorFlags.OWNED_BY_DML}


def alone(device: dml.Device, desc: Desc, arrays: dict[str, Array]) -> dict[str, Array]:
    """The bytes of an operator's outputs if it is computed alone."""
    made = {name: np.zeros(tensor_of(desc, name).total, np.uint8) for name in tensor_names(desc, "output") if name}
    compiled, owned = device.compile(desc), owned_inputs(desc)
    if owned:
        compiled.initialize(**nested(desc, {name: x for name, x in arrays.items() if name in owned}))
    unowned = {name: x for name, x in arrays.items() if name not in owned}
    compiled.bind(**nested(desc, {**unowned, **made})).execute()
    return made


def nested(desc: Desc, arrays: dict[str, Array]) -> dict[str, Any]:
    """Arrays in the form that `bind` takes: those of an array of tensors in a list."""
    made: dict[str, Any] = {}
    for name, array in arrays.items():
        field = name.partition("[")[0]
        if field == name:
            made[name] = array
        else:
            made.setdefault(field, []).append(array)
    return made


def with_tensors(desc: Desc, changes: dict[str, TensorDesc]) -> Desc:
    """The desc with some tensors replaced, by name."""
    fields: dict[str, Any] = {}
    for f in desc.spec.tensors:
        value = getattr(desc, f.name)
        if f.sized_by:
            fields[f.name] = value and tuple(changes.get(f"{f.name}[{i}]", t) for i, t in enumerate(value))
        elif f.name in changes:
            fields[f.name] = changes[f.name]
    return replace(desc, **fields)


def valid(desc: Desc, level: dml.FeatureLevel = dml.FeatureLevel.FL_6_4) -> bool:
    """Whether a desc keeps all rules of a feature level."""
    try:
        dml.check(desc, level)
    except dml.DescError:
        return False
    return True
