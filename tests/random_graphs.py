"""Random graphs: of functions on arrays, with the results of each call; and of any operators, wired by bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
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
ONE: tuple[Callable[..., Any], ...] = (
    dml.activation_relu,
    dml.activation_sigmoid,
    dml.activation_gelu,
    dml.element_wise_abs,
    dml.element_wise_exp,
    lambda x: dml.element_wise_clip(x, min=-2.0, max=3.5),
    lambda x: dml.activation_linear(x, 1.25, -0.1),
)
SMALL = 2048  # bytes of all tensors of an operator, which the reference has computed in milliseconds
TWO = (dml.element_wise_add, dml.element_wise_subtract, dml.element_wise_multiply, dml.element_wise_max)


class Step(NamedTuple):
    """A call: the function and the places of its arguments among all values."""

    function: Callable[..., Any]
    places: tuple[int, ...]


class Net(NamedTuple):
    """Calls on inputs and constants, the arrays that all values had, and the places of the outputs."""

    inputs: dict[str, int]
    values: list[Array]
    constants: int
    steps: list[Step]
    outputs: list[int]

    def run(self, **inputs: Any) -> tuple[Any, ...]:
        """The outputs, of arrays or of tensors of a graph."""
        values: list[Any] = [*self.values[: self.constants]]
        for name, place in self.inputs.items():
            values[place] = inputs[name]
        for step in self.steps:
            values.append(step.function(*(values[at] for at in step.places)))
        return tuple(values[at] for at in self.outputs)


def random_net(rng: random.Random) -> Net:
    """Two to nine calls on matrices or images of float32; what nothing reads is an output, and now and then more."""
    data = np.random.default_rng(rng.getrandbits(32))
    images = rng.random() < 0.3
    sizes = (1, 2, rng.choice((4, 5)), 6) if images else (rng.choice((3, 4)), rng.choice((4, 7, 16)))
    values: list[Array] = [data.normal(size=sizes).astype(np.float32) for _ in range(rng.randint(2, 3))]
    count = len(values)
    steps: list[Step] = []
    for _ in range(rng.randint(2, 9)):
        step = _step(rng, values, data)
        values.append(step.function(*(values[at] for at in step.places)))
        steps.append(step)
    read = {at for step in steps for at in step.places}
    inputs = {f"x{k}": k for k in range(count) if k in read and (k == min(read) or rng.random() < 0.7)}
    traced = set(inputs.values())  # what depends on inputs: of constants alone, a call happens while the graph is built
    for k, step in enumerate(steps):
        if traced & {*step.places}:
            traced.add(count + k)
    made = sorted(traced - {*range(count)})
    outputs = [at for at in made if at not in read] + [at for at in made if at in read and rng.random() < 0.1]
    return Net(inputs, values, count, steps, outputs)


def _step(rng: random.Random, values: list[Array], data: np.random.Generator) -> Step:
    at = rng.randrange(max(0, len(values) - 4), len(values))
    x = values[at]
    if x.dtype != np.float32 or (x.size < 8 and rng.random() < 0.5):
        return Step(lambda x: dml.cast(x, output_data_type="FLOAT32"), (at,)) if x.dtype != np.float32 else Step(ONE[0], (at,))
    alike = [k for k, y in enumerate(values) if y.shape == x.shape and y.dtype == x.dtype]
    kind = rng.random()
    if kind < 0.3:
        return Step(rng.choice(ONE), (at,))
    if kind < 0.6:
        return Step(rng.choice(TWO), (at, rng.choice(alike)))
    return rng.choice(_moves(rng, x, at, alike) + (_images(rng, x, at, data) if x.ndim == 4 else _matrices(x, at, values)))


def _moves(rng: random.Random, x: Array, at: int, alike: list[int]) -> list[Step]:
    axis = rng.randrange(x.ndim)
    offsets = [rng.randrange(n) for n in x.shape]
    windows = [rng.randint(1, n - o) for n, o in zip(x.shape, offsets, strict=True)]
    half = rng.choice(("FLOAT16", "INT32", "UINT8"))
    return [
        Step(lambda x: dml.slice1(x, offsets, windows), (at,)),
        Step(lambda x, y: dml.join([x, y], axis), (at, rng.choice(alike))),
        Step(lambda x: dml.cast(x, output_data_type=half), (at,)),
        Step(lambda x: dml.reduce(x, function="MAX", axes=(axis,)), (at,)),
        Step(lambda x: dml.reduce(x, function="SUM", axes=(axis,)), (at,)),
        Step(lambda x: dml.activation_softmax1(x, axes=(axis,)), (at,)),
        Step(lambda x: dml.element_wise_add(x, 0.75), (at,)),
        Step(dml.element_wise_identity, (at,)),
    ]


def _matrices(x: Array, at: int, values: list[Array]) -> list[Step]:
    found = [k for k, y in enumerate(values) if y.ndim == 2 and y.dtype == x.dtype and y.shape[1] == x.shape[-1]]
    return [Step(lambda x, y: dml.gemm(x, y, trans_b="TRANSPOSE"), (at, k)) for k in found[:2] if x.ndim == 2]


def _images(rng: random.Random, x: Array, at: int, data: np.random.Generator) -> list[Step]:
    filters = data.normal(size=(rng.choice((1, 3)), x.shape[1], 1, 1)).astype(np.float32)
    return [Step(lambda x: dml.convolution(x, filters), (at,))]


class Wired(NamedTuple):
    """A graph of operators, its inputs, those that are owned, and the operators' own results, by node and name."""

    desc: GraphDesc
    inputs: dict[str, Array]
    owned: dict[str, Array]
    outputs: dict[str, Array]


class Made(NamedTuple):
    """An output of a node, its desc, and its bytes. whole: there are none that nobody writes."""

    node: int
    slot: int
    tensor: TensorDesc
    data: Array

    @property
    def whole(self) -> bool:
        return self.tensor.element_bytes == self.tensor.total and self.tensor.strides is None


class Wiring:
    """A graph as it grows: each node is computed at once, alone. judge: a device on which small ones come to the same."""

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
        """A node that reads sources, constants, and arrays that become inputs of the graph, or are one that there is already.

        DataError, and no node, where its values break a rule about data.
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
        """The input of the graph that is bound to these bytes: one that there is, or a new one of this name."""
        alike = [k for k, (x, y) in enumerate(self.inputs.items()) if (x in self.owned) == owned and np.array_equal(y, data)]
        if alike:
            return self.rng.choice(alike)
        if owned:
            self.owned.add(name)
        self.inputs[name] = data
        return len(self.inputs) - 1

    def source(self, nbytes: int) -> Made:
        """An output of so many bytes: one that there is, or elements sliced out of one, or joined of several."""
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
        """The graph, with what nothing reads as outputs, and a part of the others."""
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
    """Operators by name on the tensors of their examples, which read bytes of one another's results.

    None where their values break a rule about data on the way.
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
    """The bytes of an operator's outputs, as it computes them by itself."""
    made = {name: np.zeros(tensor_of(desc, name).total, np.uint8) for name in tensor_names(desc, "output") if name}
    compiled, owned = device.compile(desc), owned_inputs(desc)
    if owned:
        compiled.initialize(**nested(desc, {name: x for name, x in arrays.items() if name in owned}))
    unowned = {name: x for name, x in arrays.items() if name not in owned}
    compiled.bind(**nested(desc, {**unowned, **made})).execute()
    return made


def nested(desc: Desc, arrays: dict[str, Array]) -> dict[str, Any]:
    """Arrays as bind takes them: those of an array of tensors in a list."""
    made: dict[str, Any] = {}
    for name, array in arrays.items():
        field = name.partition("[")[0]
        if field == name:
            made[name] = array
        else:
            made.setdefault(field, []).append(array)
    return made
