"""Expressions, which are tensors of a graph that is being built, and the functions that add operators to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from anydml import operators
from anydml.devices.device import ExecutionFlags
from anydml.errors import DescError, GraphError
from anydml.graphs.desc import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, tensor_names
from anydml.pydirectml.device import Device, Model
from anydml.pydirectml.tensors import TensorDesc, TensorPolicy
from anydml.schema.check import check
from anydml.schema.desc import Desc
from anydml.schema.kinds import ScaleBias
from anydml.tensor import DataType


class InputSource(NamedTuple):
    """An input of the graph, by its index."""

    number: int


class OutputSource(NamedTuple):
    """An output of a node, by the index that edges have."""

    node: int
    slot: int


class GraphBuilder:
    """A graph of operators, which grows with each expression, and the policy for the layout of its operators' outputs."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.policy = TensorPolicy.default
        self.nodes: list[OperatorNode | ConstantNode] = []
        self.feeds: list[list[InputSource | OutputSource | None]] = []  # for each node, by input
        self._scope: list[str] = []

    def set_tensor_policy(self, policy: TensorPolicy) -> None:
        """Set the policy by which the outputs of further operators are laid out."""
        self.policy = policy

    def get_tensor_policy(self) -> TensorPolicy:
        """The policy by which operators' outputs are laid out."""
        return self.policy

    def push_name(self, name: str) -> None:
        """Add a part to the prefix of node names, after those that were pushed before, until `pop_name`."""
        self._scope.append(name)

    def pop_name(self) -> None:
        """Remove the last part of the prefix, if there is one."""
        if self._scope:
            self._scope.pop()

    @contextmanager
    def create_name_scope(self, name: str) -> Iterator[None]:
        """`push_name` and `pop_name` around a block."""
        self.push_name(name)
        try:
            yield
        finally:
            self.pop_name()

    def add(self, desc: Desc, feeds: Sequence[InputSource | OutputSource | None]) -> int:
        """Check a node and add it. -> its number. DescError if its desc breaks rules."""
        try:
            check(desc, self.device.cpu.feature_level)
        except DescError as error:
            self.device.explain(error)
            raise
        self.nodes.append(OperatorNode(desc, "_".join(self._scope)))
        self.feeds.append(list(feeds))
        return len(self.nodes) - 1

    def build(self, flags: ExecutionFlags, outputs: Sequence[Expression]) -> Model:
        """Compile the graph of all nodes, with these outputs. ValueError if one is not a node's; else GraphError."""
        sources = [x.source for x in outputs]
        for at, source in enumerate(sources):
            if not isinstance(source, OutputSource):
                raise ValueError(f"output {at} is an input of the graph, not a node's output; use activation_identity(input)")
        edges = [(source, node, at) for node, feeds in enumerate(self.feeds) for at, source in enumerate(feeds) if source]
        read = sorted({source.number for source, *_ in edges if isinstance(source, InputSource)})
        desc = GraphDesc(
            tuple(self.nodes),
            tuple(InputEdge(read.index(s.number), node, at) for s, node, at in edges if isinstance(s, InputSource)),
            tuple(OutputEdge(s.node, s.slot, k) for k, s in enumerate(sources) if isinstance(s, OutputSource)),
            tuple(IntermediateEdge(s.node, s.slot, node, at) for s, node, at in edges if isinstance(s, OutputSource)),
        )
        try:
            return Model(self.device.cpu, desc, read, ExecutionFlags(flags))
        except GraphError as error:
            self.device.explain(error)
            raise


class Expression:
    """A tensor of a graph: an input, or an output of an operator. Python's operators add operators to the graph.

    A number becomes a ScaleBias of float32 numbers: `x / n` multiplies by the float32 that is nearest to 1 / n, and `n / x` is
    RECIP with this ScaleBias, as in DirectMLX. `+=` and the like change the expression object itself.
    `Expression()` is empty: no tensor.
    """

    def __init__(self, builder: GraphBuilder | None = None, source: Any = None, desc: TensorDesc | None = None) -> None:
        self._builder, self._source, self._desc = builder, source, desc

    def __bool__(self) -> bool:
        return self._builder is not None

    def _there(self, value: Any) -> Any:
        if value is None:
            raise ValueError("the expression is empty: it is neither an input nor an operator's output")
        return value

    @property
    def builder(self) -> GraphBuilder:
        """The graph; ValueError if the expression is empty."""
        found: GraphBuilder = self._there(self._builder)
        return found

    @property
    def source(self) -> InputSource | OutputSource:
        """The input or output that this is; ValueError if the expression is empty."""
        found: InputSource | OutputSource = self._there(self._source)
        return found

    @property
    def input_index(self) -> int:
        """The index of the graph's input that this is; ValueError if it is an operator's output."""
        if not isinstance(self.source, InputSource):
            raise ValueError("a binding must be for an input, and this expression is an operator's output")
        return self.source.number

    def get_output_desc(self) -> TensorDesc:
        """The desc of the tensor."""
        found: TensorDesc = self._there(self._desc)
        return found

    def _become(self, other: Expression) -> Expression:
        self._builder, self._source, self._desc = other._builder, other._source, other._desc
        return self

    def __add__(self, other: Expression | float) -> Expression:
        return _both("ADD", self, other) if isinstance(other, Expression) else self._scaled(1.0, other)

    def __radd__(self, other: float) -> Expression:
        return self._scaled(1.0, other)

    def __sub__(self, other: Expression | float) -> Expression:
        return _both("SUBTRACT", self, other) if isinstance(other, Expression) else self._scaled(1.0, -other)

    def __rsub__(self, other: float) -> Expression:
        return self._scaled(-1.0, other)

    def __mul__(self, other: Expression | float) -> Expression:
        return _both("MULTIPLY", self, other) if isinstance(other, Expression) else self._scaled(other, 0.0)

    def __rmul__(self, other: float) -> Expression:
        return self._scaled(other, 0.0)

    def __truediv__(self, other: Expression | float) -> Expression:
        if isinstance(other, Expression):
            return _both("DIVIDE", self, other)
        with np.errstate(divide="ignore"):
            return self._scaled(float(np.float32(1) / np.float32(other)), 0.0)

    def __rtruediv__(self, other: float) -> Expression:
        return result("ELEMENT_WISE_RECIP", input_tensor=self, scale_bias=ScaleBias(other, 0.0))

    def __mod__(self, other: Expression) -> Expression:
        return _both("MODULUS_TRUNCATE", self, other)

    def __and__(self, other: Expression) -> Expression:
        return _both("BIT_AND", self, other)

    def __or__(self, other: Expression) -> Expression:
        return _both("BIT_OR", self, other)

    def __xor__(self, other: Expression) -> Expression:
        return _both("BIT_XOR", self, other)

    def __lshift__(self, other: Expression) -> Expression:
        return _both("BIT_SHIFT_LEFT", self, other)

    def __rshift__(self, other: Expression) -> Expression:
        return _both("BIT_SHIFT_RIGHT", self, other)

    def __gt__(self, other: Expression) -> Expression:
        return _both("LOGICAL_GREATER_THAN", self, other, DataType.UINT8)

    def __lt__(self, other: Expression) -> Expression:
        return _both("LOGICAL_LESS_THAN", self, other, DataType.UINT8)

    def __ge__(self, other: Expression) -> Expression:
        return _both("LOGICAL_GREATER_THAN_OR_EQUAL", self, other, DataType.UINT8)

    def __le__(self, other: Expression) -> Expression:
        return _both("LOGICAL_LESS_THAN_OR_EQUAL", self, other, DataType.UINT8)

    def __iadd__(self, other: Expression | float) -> Expression:
        return self._become(self + other)

    def __isub__(self, other: Expression | float) -> Expression:
        return self._become(self - other)

    def __imul__(self, other: Expression | float) -> Expression:
        return self._become(self * other)

    def __itruediv__(self, other: Expression | float) -> Expression:
        return self._become(self / other)

    def __imod__(self, other: Expression) -> Expression:
        return self._become(self % other)

    def __iand__(self, other: Expression) -> Expression:
        return self._become(self & other)

    def __ior__(self, other: Expression) -> Expression:
        return self._become(self | other)

    def __ixor__(self, other: Expression) -> Expression:
        return self._become(self ^ other)

    def __ilshift__(self, other: Expression) -> Expression:
        return self._become(self << other)

    def __irshift__(self, other: Expression) -> Expression:
        return self._become(self >> other)

    def __neg__(self) -> Expression:
        return result("ELEMENT_WISE_NEGATE", input_tensor=self)

    def __pos__(self) -> Expression:
        return result("ELEMENT_WISE_IDENTITY", input_tensor=self)

    def __invert__(self) -> Expression:
        return result("ELEMENT_WISE_BIT_NOT", input_tensor=self)

    def _scaled(self, scale: float, bias: float) -> Expression:
        return result("ELEMENT_WISE_IDENTITY", input_tensor=self, scale_bias=ScaleBias(scale, bias))


def _both(name: str, a: Expression, b: Expression, data_type: DataType | None = None) -> Expression:
    t = a.get_output_desc()
    forms = {"output_tensor": (t.sizes, t.data_type if data_type is None else data_type)}
    return result(f"ELEMENT_WISE_{name}", forms, a_tensor=a, b_tensor=b)


def tensors(found: Any) -> Any:
    """The descs of an expression, of a sequence of them, or None."""
    if isinstance(found, Expression):
        return found.get_output_desc().desc
    return None if found is None else [x.get_output_desc().desc for x in found]


def node(
    operator_name: str, outputs: Mapping[str, Any] | None = None, *, builder: GraphBuilder | None = None, **fields: Any
) -> dict[str, Any]:
    """Add an operator to the graph of its inputs. -> its outputs by field, as expressions or lists of them

    fields: those of the desc, with inputs as expressions, or None for an absent one. outputs: sizes and data types of outputs
    that do not follow from the fields, or None for an absent one. builder: the graph of an operator without inputs.
    DescError if the desc breaks rules; ValueError for inputs of two graphs.
    """
    operator = operators.find(operator_name)
    assert operator is not None
    names = [f.name for f in operator.spec.inputs]
    given = [x for name in names for x in _each(fields.get(name))]
    owners: dict[int, GraphBuilder | None] = {id(x.builder): x.builder for x in given if x is not None} or {0: builder}
    if len(owners) > 1:
        raise ValueError(f"the inputs of {operator_name} are of {len(owners)} graphs, and must be of one")
    (owner,) = owners.values()
    assert owner is not None
    known = {name: tensors(x) if name in names else x for name, x in fields.items()}
    forms = dict(outputs or {})
    if any(f.name not in forms for f in operator.spec.outputs):
        stand_in = TensorDesc(DataType.FLOAT32, (1,)).desc
        whole = operator(**{**{f.name: (stand_in,) if f.sized_by else stand_in for f in operator.spec.outputs}, **known})
        forms = {**operator.outputs(whole), **forms}
    made: dict[str, Any] = {}
    for f in operator.spec.outputs:
        form = forms.get(f.name)
        if f.sized_by:
            made[f.name] = [TensorDesc(data_type, sizes, tensor_policy=owner.policy) for sizes, data_type in form or ()]
        elif form is not None:
            made[f.name] = TensorDesc(form[1], form[0], tensor_policy=owner.policy)
    described = {name: [t.desc for t in x] if isinstance(x, list) else x.desc for name, x in made.items()}
    absent = {f.name: None for f in operator.spec.outputs if f.name not in described}
    desc = operator(**{**known, **absent, **described})
    index = owner.add(desc, [None if x is None else x.source for x in given])
    places = tensor_names(desc, "output")

    def expression(name: str, t: TensorDesc) -> Expression:
        return Expression(owner, OutputSource(index, places.index(name)), t)

    return {
        name: [expression(f"{name}[{i}]", t) for i, t in enumerate(x)] if isinstance(x, list) else expression(name, x)
        for name, x in made.items()
    }


def result(operator_name: str, outputs: Mapping[str, Any] | None = None, **fields: Any) -> Expression:
    """The first output of an operator that `node` adds to the graph."""
    found: Expression = next(iter(node(operator_name, outputs, **fields).values()))
    return found


def _each(x: Any) -> Sequence[Expression | None]:
    return [x] if x is None or isinstance(x, Expression) else list(x)
