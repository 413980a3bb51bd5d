"""The check of a graph: every node's desc, every edge, and that there is no cycle. All faults are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.errors import BindingError, DescError, Fault, GraphError
from anydml.feature_level import FeatureLevel
from anydml.graphs.checked import Bound, Buffer, CheckedGraph
from anydml.graphs.desc import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, tensor_names
from anydml.graphs.order import ordered
from anydml.rule_messages import listed
from anydml.schema.check import Checked, as_feature_level, check
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, TensorFlags

GRAPHS_SINCE, CONSTANTS_SINCE = FeatureLevel.FL_2_1, FeatureLevel.FL_6_2


def check_graph(desc: GraphDesc, feature_level: FeatureLevel | str = FeatureLevel.FL_6_4) -> CheckedGraph:
    """Check that a graph can be compiled at a feature level. GraphError lists every fault that was found.

    Source: the page of nf-directml-idmldevice1-compilegraph, and the pages of the edges' descs.
    """
    level = as_feature_level(feature_level)
    found = _Checking(desc, level)
    if found.faults:
        raise GraphError(found.faults)
    return found.checked()


class _Checking:
    """The check of a graph: its faults, or the checked graph."""

    def __init__(self, desc: GraphDesc, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        self.input_count, self.output_count = desc.counts
        self.faults: list[Fault] = []
        self._known: dict[Desc, Checked[Desc]] = {}  # descs that keep every rule; equal descs are checked once
        self.nodes = tuple(self._node(i, node) for i, node in enumerate(desc.nodes))
        self.inputs_of = [_tensors(node, INPUT) for node in desc.nodes]
        self.outputs_of = [_tensors(node, OUTPUT) for node in desc.nodes]
        if level < GRAPHS_SINCE:
            self._fault("", f"graphs came with feature level {GRAPHS_SINCE}; this is {level}")
        if not any(isinstance(node, OperatorNode) for node in desc.nodes):
            self._fault("nodes", "has no operator")
        self.edges_to: dict[tuple[int, str], list[str]] = {}  # the edges that lead to each input of a node
        self.input_edges = [e for i, e in enumerate(desc.input_edges) if self._input_edge(f"input_edges[{i}]", e)]
        self.between = [e for i, e in enumerate(desc.intermediate_edges) if self._between(f"intermediate_edges[{i}]", e)]
        self.output_edges = [e for i, e in enumerate(desc.output_edges) if self._output_edge(f"output_edges[{i}]", e)]
        self._fed()
        order = ordered(len(desc.nodes), [(e.from_node_index, e.to_node_index) for e in self.between])
        self.order = order
        if isinstance(order, list):
            path = " -> ".join(self._called(node) for node in (*order, order[0]))
            self._fault(self._called(order[0]), f"reads what follows from it: {path}")
        self.inputs, self.outputs = self._inputs(), self._outputs()
        self._names()

    def _fault(self, pointer: str, message: str, violation: Any = None) -> None:
        self.faults.append(Fault(pointer, message, violation))

    def _called(self, node: int) -> str:
        name = self.desc.nodes[node].name
        return f"nodes[{node}]" + (f" {name!r}" if name else "")

    def _node(self, i: int, node: Any) -> Checked[Desc] | None:
        if isinstance(node, ConstantNode):
            if self.level < CONSTANTS_SINCE:
                since = f"these came with feature level {CONSTANTS_SINCE}; this is {self.level}"
                self._fault(self._called(i), f"is a constant, and {since}")
            if not node.data.size:
                self._fault(self._called(i), "is a constant of no bytes")
            return None
        if not isinstance(node, OperatorNode):
            raise TypeError(f"nodes[{i}] takes an OperatorNode or a ConstantNode, not {node!r}")
        at = f" ({node.where})" if node.where else ""
        try:
            return self._checked(node.desc)
        except DescError as error:
            for violation in error.violations:
                self._fault(self._called(i) + at, str(violation), violation)
        except BindingError as error:
            self._fault(self._called(i) + at, error.faults[0].message)
        return None

    def _checked(self, desc: Desc) -> Checked[Desc]:
        """The checked desc. Equal descs are checked once."""
        try:
            known = self._known.get(desc)
        except TypeError:  # the desc has no hash if a value of a wrong type has none; the check reports such a value
            known = None
        if known is None:
            self._known[desc] = known = check(desc, self.level)
        return known

    def _in_range(self, at: str, what: str, index: int, count: int) -> bool:
        if not 0 <= index < count:
            self._fault(at, f"{what} is {index}, and there are {count}")
        return 0 <= index < count

    def _tensor(self, node: int, name: str) -> TensorDesc | None:
        checked = self.nodes[node]
        return None if checked is None else checked.tensors[name]

    def _from(self, at: str, e: OutputEdge | IntermediateEdge) -> bool:
        return self._in_range(at, "from_node_index", e.from_node_index, len(self.nodes)) and self._slot(
            at, "from_node_output_index", e.from_node_index, e.from_node_output_index, self.outputs_of
        )

    def _to(self, at: str, e: InputEdge | IntermediateEdge) -> bool:
        if not self._in_range(at, "to_node_index", e.to_node_index, len(self.nodes)):
            return False
        if isinstance(self.desc.nodes[e.to_node_index], ConstantNode):
            self._fault(at, f"leads to {self._called(e.to_node_index)}, which is a constant")
            return False
        if not self._slot(at, "to_node_input_index", e.to_node_index, e.to_node_input_index, self.inputs_of):
            return False
        name = self.inputs_of[e.to_node_index][e.to_node_input_index]
        self.edges_to.setdefault((e.to_node_index, name or ""), []).append(at)
        return True

    def _slot(self, at: str, what: str, node: int, index: int, names: Sequence[Sequence[str | None]]) -> bool:
        if not self._in_range(at, f"{what} of {self._called(node)}", index, len(names[node])):
            return False
        if names[node][index] is None:
            self._fault(at, f"{what} of {self._called(node)} is {index}, a tensor that its desc leaves out")
        return names[node][index] is not None

    def _input_edge(self, at: str, e: InputEdge) -> bool:
        within = self._in_range(at, "graph_input_index", e.graph_input_index, self.input_count)
        return self._to(at, e) and within

    def _output_edge(self, at: str, e: OutputEdge) -> bool:
        within = self._in_range(at, "graph_output_index", e.graph_output_index, self.output_count)
        if not self._from(at, e):
            return False
        if isinstance(self.desc.nodes[e.from_node_index], ConstantNode):
            self._fault(at, f"leads from {self._called(e.from_node_index)}, which is a constant: only operators have outputs")
            return False
        return within

    def _between(self, at: str, e: IntermediateEdge) -> bool:
        if not (self._from(at, e) & self._to(at, e)):
            return False
        to = self._tensor(e.to_node_index, self.to_name(e))
        source = self.desc.nodes[e.from_node_index]
        if isinstance(source, ConstantNode):
            total: int | None = source.data.nbytes
        else:
            made = self._tensor(e.from_node_index, self.from_name(e))
            total = None if made is None else made.total_tensor_size_in_bytes
        into = f"{self._called(e.to_node_index)}.{self.to_name(e)}"
        if to is not None and total is not None and to.total_tensor_size_in_bytes != total:
            self._fault(
                at,
                f"leads from {total} bytes of {self._called(e.from_node_index)} to {into}, a tensor of "
                f"{to.total_tensor_size_in_bytes}: TotalTensorSizeInBytes must be equal",
            )
        if to is not None and to.flags & TensorFlags.OWNED_BY_DML:
            self._fault(at, f"leads to {into}, which is OWNED_BY_DML: only inputs of the graph lead there")
        return True

    def to_name(self, e: InputEdge | IntermediateEdge) -> str:
        return self.inputs_of[e.to_node_index][e.to_node_input_index] or ""

    def from_name(self, e: OutputEdge | IntermediateEdge) -> str:
        return self.outputs_of[e.from_node_index][e.from_node_output_index] or ""

    def _fed(self) -> None:
        for node, names in enumerate(self.inputs_of):
            for name in names:
                edges = self.edges_to.get((node, name), []) if name is not None else [""]
                if len(edges) != 1:
                    told = (
                        f"has {len(edges)} edges, {listed(edges, 'and')}, and takes one"
                        if edges
                        else "has no edge that leads to it"
                    )
                    self._fault(f"{self._called(node)}.{name}", told)

    def _names(self) -> None:
        seen: set[str] = set()
        for bound in (*self.inputs, *self.outputs):
            if bound.name in seen:
                self._fault("", f"two inputs or outputs are called {bound.name!r}; their names must differ")
            seen.add(bound.name)

    def _given(self, which: str, tensors: Sequence[TensorDesc | None], count: int, index: int) -> TensorDesc | None:
        if len(tensors) not in (0, count) and index == 0:
            self._fault(which, f"has {len(tensors)} entries, and the graph has {count}")
        return tensors[index] if index < len(tensors) else None

    def _inputs(self) -> tuple[Bound, ...]:
        by_index: dict[int, list[InputEdge]] = {}
        for e in self.input_edges:
            by_index.setdefault(e.graph_input_index, []).append(e)
        self._all_there("input", {e.graph_input_index for e in self.desc.input_edges}, self.input_count)
        return tuple(self._bound("input", i, self._led_to(i, edges), edges) for i, edges in sorted(by_index.items()))

    def _led_to(self, index: int, edges: Sequence[InputEdge]) -> list[TensorDesc]:
        tensors = [t for e in edges if (t := self._tensor(e.to_node_index, self.to_name(e))) is not None]
        at = f"graph input {index}"
        if len(totals := {t.total_tensor_size_in_bytes for t in tensors}) > 1:
            self._fault(
                at,
                f"leads to tensors of {listed([*map(str, sorted(totals))], 'and')} bytes: TotalTensorSizeInBytes must be equal",
            )
        if len({t.flags for t in tensors}) > 1:
            self._fault(at, "leads to tensors of which some are OWNED_BY_DML and others are not")
        return tensors

    def _outputs(self) -> tuple[Bound, ...]:
        by_index: dict[int, list[OutputEdge]] = {}
        for e in self.output_edges:
            by_index.setdefault(e.graph_output_index, []).append(e)
        self._all_there("output", {e.graph_output_index for e in self.desc.output_edges}, self.output_count)
        made = []
        for i, edges in sorted(by_index.items()):
            if len(edges) > 1:
                self._fault(f"graph output {i}", f"has {len(edges)} edges, and takes one")
            t = self._tensor(edges[0].from_node_index, self.from_name(edges[0]))
            made.append(self._bound("output", i, [] if t is None else [t], edges))
        return tuple(made)

    def _all_there(self, role: str, found: set[int], count: int) -> None:
        missing = next((i for i in range(min(count, len(found) + 1)) if i not in found), None)
        if missing is not None:
            self._fault(f"{role}_count", f"is {count}, and no edge has graph {role} {missing}")

    def _bound(self, role: str, index: int, tensors: list[TensorDesc], edges: Sequence[Any]) -> Bound:
        names = sorted({e.name for e in edges if e.name})
        if len(names) > 1:
            self._fault(f"graph {role} {index}", f"is called {listed([*map(repr, names)], 'and')} by its edges")
        which = f"{role}_tensors"
        count = self.input_count if role == "input" else self.output_count
        given = self._given(which, getattr(self.desc, which), count, index)
        name = names[0] if names else f"{role}_{index}"
        widest = max(tensors, key=lambda t: t.element_bytes, default=TensorDesc("UINT8", (1,)))
        if given is None or not tensors:
            return Bound(name, widest.spelled_out(), 0, -1)
        if given.total != widest.total_tensor_size_in_bytes or given.element_bytes < widest.element_bytes:
            self._fault(
                f"{which}[{index}]",
                f"has {given.element_bytes} bytes of elements, {given.total} in all, and the tensor of the node has "
                f"{widest.element_bytes} and {widest.total_tensor_size_in_bytes}",
            )
        return Bound(name, given.spelled_out(), given.total_tensor_size_in_bytes, -1)

    def checked(self) -> CheckedGraph:
        """The checked graph, with a buffer for each tensor: outputs of operators, inputs of the graph, and constants."""
        buffers: list[Buffer] = []
        reads: list[dict[str, int]] = [{} for _ in self.nodes]
        writes: list[dict[str, int]] = [{} for _ in self.nodes]
        made: dict[tuple[int, int], int] = {}
        leading: dict[int, InputEdge] = {}
        for edge in sorted(self.input_edges, key=lambda edge: edge.graph_input_index):
            leading.setdefault(edge.graph_input_index, edge)
            reads[edge.to_node_index][self.to_name(edge)] = edge.graph_input_index
        for i in range(len(self.inputs)):
            first = self._tensor(leading[i].to_node_index, self.to_name(leading[i]))
            assert first is not None
            buffers.append(Buffer(None, first.total_tensor_size_in_bytes, bool(first.flags)))
        inputs = tuple(b._replace(buffer=i, tensor=_flagged(b.tensor, buffers[i].owned)) for i, b in enumerate(self.inputs))
        for node, names in enumerate(self.outputs_of):
            for k, name in enumerate(names):
                if name is None:
                    continue
                made[node, k] = len(buffers)
                source = self.desc.nodes[node]
                if isinstance(source, ConstantNode):
                    buffers.append(Buffer(node, source.data.nbytes))
                    continue
                t = self._tensor(node, name)
                assert t is not None
                writes[node][name] = len(buffers)
                buffers.append(Buffer(node, t.total_tensor_size_in_bytes))
        for e in self.between:
            reads[e.to_node_index][self.to_name(e)] = made[e.from_node_index, e.from_node_output_index]
        targets = {e.graph_output_index: made[e.from_node_index, e.from_node_output_index] for e in self.output_edges}
        outputs = tuple(b._replace(buffer=targets[i]) for i, b in enumerate(self.outputs))
        assert isinstance(self.order, tuple)
        return CheckedGraph(
            self.desc, self.level, self.nodes, tuple(buffers), tuple(reads), tuple(writes), self.order, inputs, outputs
        )


def _tensors(node: OperatorNode | ConstantNode, role: str) -> list[str | None]:
    """The names of a node's tensors of a role, in the order in which edges count them. A constant has one output."""
    if isinstance(node, ConstantNode):
        return [] if role == INPUT else [""]
    return tensor_names(node.desc, role) if isinstance(node.desc, Desc) else []


def _flagged(t: TensorDesc, owned: bool) -> TensorDesc:
    made = t.spelled_out()
    made.__dict__["flags"] = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
    return made
