"""DML_GRAPH_DESC: operators, constants, and the edges between them. Values are converted here, and not checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, integer


@dataclass(frozen=True)
class OperatorNode:
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator by its desc. where: the line of the program that made it, for messages."""

    desc: Desc
    name: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True, eq=False)
class ConstantNode:
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: the bytes of a tensor, copied from an array or from a bytes-like object.

    Zeros are appended up to a multiple of 4 bytes, since the total size of a tensor is such a multiple.
    """

    data: NDArray[Any]
    name: str = ""

    def __post_init__(self) -> None:
        given: Any = self.data
        flat = np.frombuffer(given, np.uint8) if not isinstance(given, np.ndarray) else given
        copied = np.ascontiguousarray(flat).reshape(-1).view(np.uint8)
        data = np.zeros(-(-copied.nbytes // 4) * 4, np.uint8)
        data[: copied.nbytes] = copied
        data.flags.writeable = False
        object.__setattr__(self, "data", data)

    def __repr__(self) -> str:
        return f"ConstantNode(<{self.data.nbytes} bytes>{f', name={self.name!r}' if self.name else ''})"


class InputEdge(NamedTuple):
    """DML_INPUT_GRAPH_EDGE_DESC: an input of the graph is an input of a node.

    The inputs of a node are counted in DirectML's order. Absent inputs count, and so does each tensor of an array.
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""


class OutputEdge(NamedTuple):
    """DML_OUTPUT_GRAPH_EDGE_DESC: an output of a node is an output of the graph."""

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str = ""


class IntermediateEdge(NamedTuple):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: an output of a node, or a constant, is an input of a node."""

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""


@dataclass(frozen=True, eq=False)
class GraphDesc:
    """DML_GRAPH_DESC. `Device.compile` checks and compiles it. Arrays are bound by the names of input and output edges.

    An edge without a name is called `input_0` or `output_0`, by its graph index. input_count, output_count: by default the
    numbers of inputs and outputs that the edges mention. input_tensors, output_tensors: for each input and output of the
    graph, the desc of the array that is bound to it, or None for the desc of the node's tensor. If an input leads to several
    tensors, None means the desc of the tensor with the most bytes.
    Source: ns-directml-dml_graph_desc.
    """

    nodes: tuple[OperatorNode | ConstantNode, ...]
    input_edges: tuple[InputEdge, ...] = ()
    output_edges: tuple[OutputEdge, ...] = ()
    intermediate_edges: tuple[IntermediateEdge, ...] = ()
    input_count: int | None = None
    output_count: int | None = None
    input_tensors: tuple[TensorDesc | None, ...] = ()
    output_tensors: tuple[TensorDesc | None, ...] = ()

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the class is frozen, so assignment needs object.__setattr__
            object.__setattr__(self, name, value)

        put("nodes", tuple(self.nodes))
        put("input_edges", _edges(InputEdge, self.input_edges))
        put("output_edges", _edges(OutputEdge, self.output_edges))
        put("intermediate_edges", _edges(IntermediateEdge, self.intermediate_edges))
        for name in ("input_count", "output_count"):
            if (given := getattr(self, name)) is not None:
                put(name, integer(given, name))
        put("input_tensors", tuple(self.input_tensors))
        put("output_tensors", tuple(self.output_tensors))

    @property
    def counts(self) -> tuple[int, int]:
        """The given numbers of inputs and outputs, or else the numbers that the edges mention."""
        inputs = max((e.graph_input_index for e in self.input_edges), default=-1) + 1
        outputs = max((e.graph_output_index for e in self.output_edges), default=-1) + 1
        return (
            inputs if self.input_count is None else self.input_count,
            outputs if self.output_count is None else self.output_count,
        )


def _edges(kind: type[Any], given: Iterable[Any]) -> tuple[Any, ...]:
    made = []
    for edge in given:
        *indices, name = kind(*edge)
        made.append(kind(*(integer(i, f) for i, f in zip(indices, kind._fields, strict=False)), name))
    return tuple(made)


def tensor_names(desc: Desc, role: str) -> list[str | None]:
    """The names of the tensors of a role in the order in which edges count them; None for an absent tensor.

    A tensor in an array has a name such as `input_tensors[1]`.
    """
    found: list[str | None] = []
    for f in desc.spec.inputs if role == "input" else desc.spec.outputs:
        value = getattr(desc, f.name)
        if f.sized_by:
            found += [f"{f.name}[{i}]" for i in range(len(value or ()))]
        else:
            found.append(None if value is None else f.name)
    return found
