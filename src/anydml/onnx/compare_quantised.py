"""Float nodes between DequantizeLinear and QuantizeLinear, and the integer node that a runtime may compute instead of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, helper

from anydml.errors import Error
from anydml.explain.comparison import Cause
from anydml.onnx import compare_models as models
from anydml.onnx.compare_judge import Cut, Judgement
from anydml.onnx.model import load
from anydml.onnx.values import Array

INTEGER = {  # with the dimension of the second factor along which scales may differ
    "Conv": ("QLinearConv", 0), "MatMul": ("QLinearMatMul", 1), "Gemm": ("QGemm", 1), "Add": ("QLinearAdd", None),
    "AveragePool": ("QLinearAveragePool", None), "GlobalAveragePool": ("QLinearGlobalAveragePool", None),
}  # fmt: skip
MICROSOFT = "com.microsoft"
BYTE = np.dtype(np.uint8)


class _Encoded(NamedTuple):
    """The names of an integer tensor, its scale and its zero point ("" if there is none). axis: that of several scales."""

    tensor: str
    scale: str
    zero_point: str
    axis: int

    @classmethod
    def of(cls, node: NodeProto, tensor: str) -> _Encoded:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        return cls(tensor, node.input[1], node.input[2] if len(node.input) > 2 else "", axis)


def cause(
    proto: ModelProto,
    nodes: Sequence[NodeProto],
    values: Mapping[str, Array],
    constants: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> Cause | None:
    """The cause, if the outputs of nodes judged as one are those of an integer node, or of a known deviation of it.

    values: the tensors that the nodes read, by name. constants: those that are initializers.
    """
    found = _cut(proto, nodes, values, constants, actual)
    if found is None:
        return None
    named, got, cut = found
    ((output, exact),) = cut.exact.items()
    if np.array_equal(exact, got):
        return Cause("integer_product", f"{named} of the integers, rounded once", got.size, got.size, 0, 0)
    found_cause = cut.cause(output, got)
    return None if found_cause is None else replace(found_cause, sentence=f"{named} with {found_cause.sentence}")


def judged(
    own: Judgement,
    proto: ModelProto,
    nodes: Sequence[NodeProto],
    values: Mapping[str, Array],
    constants: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> Judgement:
    """The judgement of nodes beyond rounding; if rounding in an integer node explains all elements, none of them is beyond."""
    found = _cut(proto, nodes, values, constants, actual)
    if found is None:
        return own
    named, got, cut = found
    in_integers = cut.judged(dict.fromkeys(cut.exact, got), "none")
    if in_integers.beyond != 0:
        return own
    forms = tuple(f"{named} with {form}" for form in in_integers.forms) or (named,)
    return own._replace(beyond=0, excess=0.0, forms=forms)


def _cut(
    proto: ModelProto,
    nodes: Sequence[NodeProto],
    values: Mapping[str, Array],
    constants: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> tuple[str, Array, Cut] | None:
    """The integer node that computes the same as some nodes, as a noun, its actual output and the node by itself."""
    found = _Found(proto, values, constants)
    node = found.node(nodes)
    if node is None:
        return None
    output = node.output[0]
    try:
        made, given = models.cut(
            _with_microsoft(proto), [node], {**found.values, **found.made}, {*constants, *found.made}, [output]
        )
        cut = Cut(load(made), given)
    except Error:
        return None
    exact, got = cut.exact[output], actual[output]
    if (exact.shape[: got.ndim], exact.dtype, exact.size) != (got.shape, got.dtype, got.size):
        return None
    title = INTEGER[next(n.op_type for n in nodes if n.op_type in INTEGER)][0]
    return f"a {title}", got.reshape(exact.shape), cut


def _with_microsoft(proto: ModelProto) -> ModelProto:
    """A model without nodes that imports what the model does, and onnxruntime's operators."""
    made = ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    if all(x.domain != MICROSOFT for x in made.opset_import):
        made.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return made


class _Found:
    """A model's nodes by the tensors that they write. made: new constants by name, such as zero points."""

    def __init__(self, proto: ModelProto, values: Mapping[str, Array], constants: Mapping[str, Array]) -> None:
        self.writers = {name: node for node in proto.graph.node for name in node.output}
        self.values, self.constants = dict(values), constants
        self.made: dict[str, Array] = {}

    def node(self, nodes: Sequence[NodeProto]) -> NodeProto | None:
        """The integer node that computes the same as some nodes, without the roundings between them; None if there is none."""
        computing = [n for n in nodes if n.op_type != "DequantizeLinear"]
        operators = [n.op_type for n in computing]
        if any(n.domain for n in computing) or len(computing) not in (2, 3):
            return None
        product, quantising = computing[0], computing[-1]
        if product.op_type not in INTEGER or operators[1:] not in (["QuantizeLinear"], ["Relu", "QuantizeLinear"]):
            return None
        chain = all(before.output[0] == after.input[0] for before, after in pairwise(computing))
        factors = [self._encoded(name) for name in product.input[:2]]
        if not chain or None in factors:
            return None
        name, axis = INTEGER[product.op_type]
        x, *others = (f for f in factors if f is not None)
        y = _Encoded.of(quantising, quantising.output[0])
        if not (self._whole(x) and self._whole(y)):
            return None
        zero_points = [self._zero_point(e, dtype) for e, dtype in ((x, None), *((w, None) for w in others), (y, BYTE))]
        if "Relu" in operators and not self._lowest(zero_points[-1]):
            return None
        if axis is None:
            if not all(map(self._whole, others)):
                return None
            terms = [(e.tensor, e.scale, zero) for e, zero in zip((x, *others), zero_points, strict=False)]
            return self._node(product, name, [*sum(terms, ()), y.scale, zero_points[-1]], y.tensor, MICROSOFT)
        (w,) = others
        if product.op_type == "Gemm":
            return self._gemm(product, x, w, y, zero_points)
        if not (self._whole(w) or w.axis == axis):
            return None
        bias: list[str] = []
        if len(product.input) > 2:
            term = self._encoded(product.input[2])
            if term is None or not self._fits(term, x, w):
                return None
            bias = [term.tensor]
        reads = [x.tensor, x.scale, zero_points[0], w.tensor, w.scale, zero_points[1], y.scale, zero_points[2], *bias]
        return self._node(product, name, reads, y.tensor)

    def _node(self, like: NodeProto, operator: str, reads: list[str], output: str, domain: str = "") -> NodeProto | None:
        """A node with the attributes of another one; None if an input is not known."""
        if not all(n in self.values or n in self.made for n in reads):
            return None
        made = helper.make_node(operator, reads, [output], like.name, domain=domain)
        made.attribute.extend(like.attribute)
        return made

    def _gemm(self, node: NodeProto, x: _Encoded, w: _Encoded, y: _Encoded, zero_points: list[str]) -> NodeProto | None:
        """A Gemm of a plain A as a convolution at one place, whose bias is added to the accumulators."""
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        by_rows = bool(given.get("transB", 0))
        if given.get("transA", 0) or given.get("alpha", 1.0) != 1 or not (self._whole(w) or w.axis == (0 if by_rows else 1)):
            return None
        a, b = self.values[x.tensor], self.values[w.tensor]
        names = [f"{e.tensor} as {what}" for e, what in ((x, "an image"), (w, "filters"))]
        filters = np.ascontiguousarray(b if by_rows else b.T)[..., None, None]
        self.values[names[0]] = a[..., None, None]
        self.made[names[1]] = filters
        reads = [names[0], x.scale, zero_points[0], names[1], w.scale, zero_points[1], y.scale, zero_points[2]]
        if len(node.input) > 2 and given.get("beta", 1.0) != 0:
            term = self._encoded(node.input[2])
            if term is None or given.get("beta", 1.0) != 1 or not self._fits(term, x, w):
                return None
            name = f"{term.tensor} of all columns"
            self.made[name] = np.ascontiguousarray(np.broadcast_to(self.values[term.tensor].reshape(-1), (len(filters),)))
            reads.append(name)
        if not all(n in self.values or n in self.made for n in reads):
            return None
        return helper.make_node("QLinearConv", reads, [y.tensor], node.name)

    def _encoded(self, name: str) -> _Encoded | None:
        node = self.writers.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.domain:
            return None
        known = all(n in self.values for n in node.input if n)
        return _Encoded.of(node, node.input[0]) if known else None

    def _whole(self, e: _Encoded) -> bool:
        """Whether a tensor has one scale."""
        return e.scale in self.values and self.values[e.scale].size == 1

    def _zero_point(self, e: _Encoded, dtype: np.dtype[np.uint8] | None) -> str:
        if e.zero_point:
            return e.zero_point
        scale = self.values[e.scale]
        name = f"{e.tensor} zero point"
        self.made[name] = np.zeros(scale.shape, dtype or self.values[e.tensor].dtype)
        return name

    def _fits(self, term: _Encoded, x: _Encoded, w: _Encoded) -> bool:
        """Whether a bias has the scale of the accumulators, and no zero point."""
        values = self.values
        scales = (values[x.scale].reshape(-1) * values[w.scale].reshape(-1), values[term.scale].reshape(-1))
        plain = not term.zero_point or not values[term.zero_point].any()
        return values[term.tensor].dtype == np.int32 and plain and np.array_equal(*scales)

    def _lowest(self, zero_point: str) -> bool:
        """Whether a zero point is the least integer of its type, so that negative numbers saturate to it."""
        found = {**self.values, **self.made}.get(zero_point)
        return found is not None and bool(np.all(found == np.iinfo(found.dtype).min))
