"""Models with one faulty node, whose outputs onnxruntime, or NumPy in float64, computes with a well-known mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anydml.onnx.compare_models import cut, marked, named
from anydml.onnx.compare_runtimes import onnxruntime

Array = npt.NDArray[Any]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
LEAST = 3e-4  # of the largest element: the least error of a float output that counts as a fault
LEAST_OF_TANH = 5e-5  # the same for GELU, whose approximation by tanh is off by up to 5e-4


class Faulty(NamedTuple):
    """A node's first output with a fault, and the names of the causes that are right."""

    fault: str
    output: Array
    causes: frozenset[str]


Maker = Callable[["Site"], "Array | None"]


class Site(NamedTuple):
    """A node with the arrays that it reads ("" is None), which of them are constants, and its right output."""

    node: NodeProto
    reads: list[Any]
    constant: list[bool]
    right: Array
    opsets: Any
    random: np.random.Generator

    def attribute(self, name: str, default: Any) -> Any:
        return next((helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)

    def computed(self, reads: list[Any] | None = None, **attributes: Any) -> Array | None:
        """The output of onnxruntime for other inputs or attributes; None if it has other sizes."""
        given = list(self.reads if reads is None else reads)
        while given[-1] is None:  # which onnxruntime may crash on
            given.pop()
        names = ["" if x is None else f"x{i}" for i, x in enumerate(given)]
        node = helper.make_node(self.node.op_type, names, ["y"], domain=self.node.domain)
        node.attribute.extend(a for a in self.node.attribute if a.name not in attributes)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        arrays = {name: np.asarray(x, order="C") for name, x in zip(names, given, strict=True) if name}
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in arrays.items()
        ]
        graph = helper.make_graph([node], "one", infos, [helper.make_empty_tensor_value_info("y")])
        made = onnxruntime(helper.make_model(graph, opset_imports=self.opsets, ir_version=9), arrays)["y"]
        return made if made.shape == self.right.shape else None

    def changed(self, place: int, x: Any) -> list[Any]:
        return [x if i == place else y for i, y in enumerate(self.reads)]


# --- the faults; each gives an output, or None where it does not apply ---


def _transposed(place: int) -> Maker:
    def made(s: Site) -> Array | None:
        x = s.reads[place]
        if min(x.shape[-2:]) == 1 or x.shape[-1] != x.shape[-2]:
            return None
        return s.computed(s.changed(place, x.swapaxes(-2, -1)))

    return made


def _other_weight(place: int) -> Maker:
    def made(s: Site) -> Array | None:
        if not s.constant[place]:
            return None
        w = s.reads[place].copy()
        flat = w.reshape(-1)
        at = int(s.random.integers(flat.size))
        if w.dtype.kind == "f":
            flat[at] += np.abs(flat).max() * s.random.choice([-1, 1]) * s.random.uniform(0.2, 1)
        else:
            flat[at] = s.random.choice([v for v in range(-127, 128) if abs(v - int(flat[at])) > 40])
        return s.computed(s.changed(place, w))

    return made


def _without(place: int) -> Maker:
    return lambda s: s.computed(s.changed(place, None)) if len(s.reads) > place and s.reads[place] is not None else None


def _flipped(s: Site) -> Array | None:
    w = s.reads[1]
    return s.computed(s.changed(1, np.ascontiguousarray(w[..., ::-1, ::-1]))) if w.ndim == 4 and w.shape[-1] > 1 else None


def _channel_order(s: Site) -> Array | None:
    n, c, h, w = s.reads[0].shape
    return s.computed(s.changed(0, s.reads[0].reshape(n, h, w, c).transpose(0, 3, 1, 2))) if c > 1 and h > 1 else None


def _shorter(place: int, axis: int) -> Maker:
    """The last of the terms that are added is missing."""

    def made(s: Site) -> Array | None:
        x = s.reads[place].copy()
        np.moveaxis(x, axis, 0)[-1] = 0
        return s.computed(s.changed(place, x))

    return made


def _narrowed(bits: int, *places: int) -> Maker:
    """Factors rounded to so many bits: 8 of bfloat16, 11 of float16."""

    def made(s: Site) -> Array | None:
        reads = list(s.reads)
        for place in places:
            m, e = np.frexp(reads[place].astype(np.float64))
            reads[place] = np.ldexp(np.rint(m * 2.0**bits) / 2.0**bits, e).astype(np.float32)
        return s.computed(reads)

    return made


def _epsilon(by: float) -> Maker:
    return lambda s: s.computed(epsilon=float(s.attribute("epsilon", 1e-5)) * by)


def _axis(s: Site) -> Array | None:
    count = s.right.ndim
    axis = s.attribute("axis", -1) % count
    others = [a for a in range(count) if a != axis and s.right.shape[a] > 1]
    if s.node.op_type == "LayerNormalization":
        return None
    return s.computed(axis=int(s.random.choice(others))) if others else None


def _unbiased(s: Site) -> Array | None:
    x = s.reads[0].astype(np.float64)
    axes = tuple(range(s.attribute("axis", -1) % x.ndim, x.ndim))
    n = math.prod(x.shape[a] for a in axes)
    variance = x.var(axes, keepdims=True) * n / (n - 1)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(variance + s.attribute("epsilon", 1e-5)) * s.reads[1]
    return np.asarray((y + (0 if len(s.reads) < 3 else s.reads[2])).astype(np.float32))


def _tanh_gelu(s: Site) -> Array | None:
    x = s.reads[0].astype(np.float64)
    return np.asarray((x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(np.float32))


def _padding_counted(s: Site) -> Array | None:
    counted = s.attribute("count_include_pad", 0)
    return s.computed(count_include_pad=1 - counted) if any(s.attribute("pads", [0])) else None


def _without_term(place: int) -> Maker:
    """An addition without one of its terms; of integers, without what its zero point and scale make of it."""

    def made(s: Site) -> Array | None:
        if s.node.op_type == "Add":
            return s.computed(s.changed(place, np.zeros_like(s.reads[place])))
        x, zero_point = s.reads[3 * place], s.reads[3 * place + 2]
        return s.computed(s.changed(3 * place, np.full_like(x, zero_point)))

    return made


def _wrapped(s: Site) -> Array | None:
    """Results modulo 256 where they should saturate."""
    x, w = s.reads[0].astype(np.int64) - int(s.reads[2]), s.reads[3].astype(np.int64)
    if np.any(s.reads[5]):
        return None
    if s.node.op_type == "QLinearConv":
        a = _windows(x)
        b = w.reshape(len(w), -1).T
    else:
        a, b = x, w
    q = a @ b + (s.reads[8] if len(s.reads) > 8 else 0)
    y = np.rint(q * (s.reads[1].astype(np.float64) * s.reads[4] / s.reads[6])).astype(np.int64) + int(s.reads[7])
    return _as_output(s, y.astype(np.uint8)) if ((y < 0) | (y > 255)).any() else None


def _windows(x: Array) -> Array:
    """The rows of windows of 3 x 3 with as much padding as keeps the sizes."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.asarray(windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 9 * x.shape[1]).astype(np.int64))


def _as_output(s: Site, y: Array) -> Array:
    if s.node.op_type == "QLinearConv":
        n, _, height, width = s.reads[0].shape
        y = y.reshape(n, height, width, -1).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(y)


def _of_integers(s: Site, fault: str) -> Array | None:
    """A quantised product or convolution of 3 x 3 in integers, with a fault."""
    x, w = s.reads[0], s.reads[3]
    if x.dtype != np.uint8 or w.dtype != np.int8 or np.any(s.reads[2]) or np.any(s.reads[5]):
        return None
    x = x.view(np.int8) if fault == "signed" else x
    w = w.view(np.uint8) if fault == "unsigned" else w
    if s.node.op_type == "QLinearMatMul":
        a, b = x.astype(np.int64), w.astype(np.int64)
    else:
        a = _windows(x)
        b = w.reshape(len(w), -1).T.astype(np.int64)
    if fault == "saturated":  # the products of neighbours are added in 16 bits, as x86's VPMADDUBSW does
        a, b = (np.pad(a, ((0, 0), (0, a.shape[1] % 2))), np.pad(b, ((0, a.shape[1] % 2), (0, 0))))
        pairs = a[:, 0::2, None] * b[None, 0::2] + a[:, 1::2, None] * b[None, 1::2]
        q = np.clip(pairs, -(1 << 15), (1 << 15) - 1).sum(axis=1)
    else:
        q = a @ b
    if len(s.reads) > 8:
        q = q + s.reads[8]
    zero_point = 0 if fault == "no zero point" else s.reads[7].astype(np.int64)
    y = np.clip(np.rint(q * (s.reads[1].astype(np.float64) * s.reads[4] / s.reads[6])) + zero_point, 0, 255).astype(np.uint8)
    return _as_output(s, y)


def _truncated(s: Site) -> Array | None:
    x = s.reads[0].astype(np.float32) / s.reads[1]
    limits = np.iinfo(s.right.dtype)
    zero_point = s.reads[2].astype(np.int64) if len(s.reads) > 2 else 0
    return np.asarray(np.clip(np.trunc(x) + zero_point, limits.min, limits.max).astype(s.right.dtype))


def _half_precision(s: Site) -> Array | None:
    """Everything is computed in float16."""
    a, b = (x.astype(np.float16) for x in s.reads[:2])
    if s.node.op_type == "MatMul":
        total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float16)
        for k in range(a.shape[-1]):
            total = (total + (a[..., :, k : k + 1] * b[..., k : k + 1, :]).astype(np.float16)).astype(np.float16)
        return total.astype(np.float32)
    return None


INTEGERS: Mapping[str, tuple[Maker, set[str]]] = {
    "saturation": (partial(_of_integers, fault="saturated"), {"pair_saturation"}),
    "bytes as signed": (partial(_of_integers, fault="signed"), {"a_signedness"}),
    "weights as unsigned": (partial(_of_integers, fault="unsigned"), {"b_signedness"}),
    "no zero point": (partial(_of_integers, fault="no zero point"), {"no_output_zero_point", "no_zero_points"}),
    "wrapping": (_wrapped, {"wrapping_output"}),
}
F16 = {"float16_inputs", "float16_arithmetic", "tf32_inputs"}  # of one value in the other's range
FAULTS: Mapping[str, Mapping[str, tuple[Maker, set[str]]]] = {
    "MatMul": {
        "B transposed": (_transposed(1), {"b_transposed"}),
        "A transposed": (_transposed(0), {"a_transposed"}),
        "one weight": (_other_weight(1), {"changed_weight"}),
        "missing term": (_shorter(0, -1), {"missing_term"}),
        "bfloat16": (_narrowed(8, 0, 1), {"bfloat16_inputs"}),
        "float16": (_narrowed(11, 0, 1), F16),
        "float16 sums": (_half_precision, F16),
    },
    "Conv": {
        "filter flipped": (_flipped, {"filter_flipped"}),
        "bias forgotten": (_without(2), {"no_bias"}),
        "one weight": (_other_weight(1), {"changed_weight"}),
        "channel order": (_channel_order, {"channel_order"}),
        "missing channel": (_shorter(1, 1), {"missing_term"}),
        "bfloat16": (_narrowed(8, 0, 1), {"bfloat16_inputs"}),
    },
    "LayerNormalization": {
        "epsilon": (_epsilon(1e3), {"epsilon"}),
        "unbiased variance": (_unbiased, {"unbiased_variance"}),
        "bias forgotten": (_without(2), {"no_bias"}),
    },
    "BatchNormalization": {"epsilon": (_epsilon(1e3), {"epsilon"})},
    "Softmax": {"wrong axis": (_axis, {"wrong_axis"})},
    "Gelu": {"tanh": (_tanh_gelu, {"tanh_gelu"})},
    "AveragePool": {"padding counted": (_padding_counted, {"padding_counted"})},
    "QLinearAveragePool": {"padding counted": (_padding_counted, {"padding_counted"})},
    "Add": {
        "first term forgotten": (_without_term(0), {"missing_term", "no_bias"}),
        "bias forgotten": (_without_term(1), {"missing_term", "no_bias"}),
    },
    "QLinearAdd": {
        "first term forgotten": (_without_term(0), {"missing_term"}),
        "second term forgotten": (_without_term(1), {"missing_term"}),
    },
    "QLinearConv": {
        "bias forgotten": (_without(8), {"no_bias"}),
        "one weight": (_other_weight(3), {"changed_weight"}),
        **INTEGERS,
    },
    "QLinearMatMul": {
        "one weight": (_other_weight(3), {"changed_weight"}),
        **INTEGERS,
    },
    "QuantizeLinear": {"truncation": (_truncated, {"truncation"})},
}


class Known:
    """A model with inputs, and all tensors as onnxruntime computes them."""

    def __init__(self, proto: ModelProto, inputs: Mapping[str, Array], random: np.random.Generator) -> None:
        self.proto, self.inputs, self.random = named(proto), dict(inputs), random
        every = [name for node in self.proto.graph.node for name in node.output if name]
        self.tensors = onnxruntime(marked(self.proto, every), inputs)
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.proto.graph.initializer}

    def faults(self) -> Iterator[tuple[str, Faulty]]:
        """Faults of nodes in random order, without end: the node's name, and what it gives."""
        nodes = [node for node in self.proto.graph.node if node.op_type in FAULTS]
        while True:
            node = nodes[int(self.random.integers(len(nodes)))]
            table = FAULTS[node.op_type]
            fault = str(self.random.choice([*table]))
            values = {**self.constants, **self.inputs, **self.tensors}
            reads = [values.get(name) if name else None for name in node.input]
            right = self.tensors[node.output[0]]
            constant = [name in self.constants for name in node.input]
            maker, causes = table[fault]
            made = maker(Site(node, reads, constant, right, self.proto.opset_import, self.random))
            if (
                made is not None
                and made.shape == right.shape
                and moves(right, made, LEAST_OF_TANH if fault == "tanh" else LEAST)
            ):
                yield node.name, Faulty(fault, made, frozenset(causes))

    def followed(self, name: str, output: Array) -> dict[str, Array]:
        """All tensors if a node's output is another, and onnxruntime computes the nodes after it."""
        at = next(i for i, node in enumerate(self.proto.graph.node) if node.name == name)
        changed = self.proto.graph.node[at].output[0]
        reached, after = {changed}, []
        for node in self.proto.graph.node[at + 1 :]:
            if reached.intersection(node.input):
                after.append(node)
                reached.update(node.output)
        found = {**self.tensors, changed: output}
        if after:
            values = {**self.constants, **self.inputs, **found}
            outputs = [n for node in after for n in node.output if n]
            made, given = cut(self.proto, after, values, self.constants, outputs)
            found |= onnxruntime(made, given)
        return found


def moves(right: Array, made: Array, least: float = LEAST) -> bool:
    """Whether a fault moves an output by more than any rounding does."""
    if right.dtype.kind != "f":
        return int(np.count_nonzero(np.abs(right.astype(np.int64) - made.astype(np.int64)) > 1)) >= 1
    off = np.abs(right.astype(np.float64) - made)
    return bool(np.isfinite(made).all()) and float(off.max()) > least * float(np.abs(right).max())


# --- the models ---


def squeezenet(random: np.random.Generator) -> tuple[ModelProto, dict[str, Array]]:
    """SqueezeNet of the onnx package, with random weights and an image of 40 x 40."""
    file = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    proto = onnx.load(file)
    graph = proto.graph
    sizes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    weights = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(n) for n in sizes[node.input[0]])
            scale = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else 0.1
            weights.append(numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), node.output[0]))
    made_here = {t.name for t in weights}
    read = {name for node in graph.node if node.op_type != "ConstantOfShape" for name in node.input}
    weights += [t for t in graph.initializer if t.name in read - made_here]
    nodes = [NodeProto.FromString(n.SerializeToString()) for n in graph.node if n.op_type not in ("ConstantOfShape", "Dropout")]
    dropped = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Dropout"}
    for node in nodes:
        node.input[:] = [dropped.get(name, name) for name in node.input]
    image = helper.make_tensor_value_info("data_0", TensorProto.FLOAT, [1, 3, 40, 40])
    outputs = [helper.make_empty_tensor_value_info(graph.output[0].name)]
    made = helper.make_graph(nodes, "squeezenet", [image], outputs, weights)
    found = helper.make_model(made, opset_imports=proto.opset_import, ir_version=8)
    return found, {"data_0": random.uniform(0, 1, (1, 3, 40, 40)).astype(np.float32)}


def digits(name: str, random: np.random.Generator) -> tuple[ModelProto, dict[str, Array]]:
    shape = (12, 8, 8) if name == "encoder" else (12, 1, 8, 8)
    return onnx.load(DIGITS / f"{name}.onnx"), {"image": (random.integers(0, 17, shape) / 16).astype(np.float32)}


def quantised_encoder(random: np.random.Generator) -> tuple[ModelProto, dict[str, Array]]:
    """The encoder, with QuantizeLinear and DequantizeLinear around each node, by onnxruntime's quantiser."""
    import logging
    import tempfile

    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    proto, inputs = digits("encoder", random)

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # it has no types
        def __init__(self) -> None:
            self.rest = iter([inputs])

        def get_next(self) -> Any:
            return next(self.rest, None)

    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        quantize_static(proto, f"{folder}/q.onnx", Reader(), quant_format=QuantFormat.QDQ)
        return onnx.load(f"{folder}/q.onnx"), inputs


def pooling(random: np.random.Generator) -> tuple[ModelProto, dict[str, Array]]:
    """Convolutions with GELU, average pooling with padding, and additions of a branch and of a bias."""
    f32 = np.float32
    w1, w2, w3 = (
        (random.standard_normal(s) * math.sqrt(2 / math.prod(s[1:]))).astype(f32) for s in ((8, 3, 3, 3), (8, 8, 3, 3), (8, 10))
    )
    constants = {"w1": w1, "w2": w2, "w3": w3, "b1": random.standard_normal(8).astype(f32) * f32(0.5)}
    constants |= {"b3": random.standard_normal(10).astype(f32)}
    pool: dict[str, Any] = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["conv1"], pads=[1] * 4),
        helper.make_node("Gelu", ["conv1"], ["gelu1"]),
        helper.make_node("AveragePool", ["gelu1"], ["pool1"], **pool),
        helper.make_node("Conv", ["pool1", "w2"], ["conv2"], pads=[1] * 4),
        helper.make_node("Add", ["conv2", "pool1"], ["branches"]),
        helper.make_node("Gelu", ["branches"], ["gelu2"]),
        helper.make_node("AveragePool", ["gelu2"], ["pool2"], strides=[2, 2], **pool),
        helper.make_node("GlobalAveragePool", ["pool2"], ["means"]),
        helper.make_node("Flatten", ["means"], ["mean"]),
        helper.make_node("MatMul", ["mean", "w3"], ["product"]),
        helper.make_node("Add", ["product", "b3"], ["logits"]),
    ]
    return _model(nodes, constants, ("image", TensorProto.FLOAT, [2, 3, 12, 12]), "logits"), {
        "image": random.standard_normal((2, 3, 12, 12)).astype(f32)
    }


def quantised_pooling(random: np.random.Generator) -> tuple[ModelProto, dict[str, Array]]:
    """Integer convolutions whose sums and results saturate, an addition, and average pooling with padding."""
    constants: dict[str, Array] = {
        "w1": random.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "w2": random.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8),
        "b1": random.integers(-40000, 40000, 8).astype(np.int32), "b2": random.integers(-40000, 40000, 8).astype(np.int32),
        "w3": random.integers(-127, 128, (8, 10)).astype(np.int8),
        "one": np.float32(0.02), "ws": np.float32(0.01), "y1": np.float32(0.15), "y2": np.float32(0.6),
        "zero": np.uint8(0), "wz": np.int8(0), "middle": np.uint8(128),
    }  # fmt: skip
    pool: dict[str, Any] = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], domain="com.microsoft")
    nodes = [
        helper.make_node(
            "QLinearConv", ["image", "one", "zero", "w1", "ws", "wz", "y1", "zero", "b1"], ["conv1"], pads=[1] * 4
        ),
        helper.make_node("QLinearAveragePool", ["conv1", "y1", "zero", "y1", "zero"], ["pool1"], **pool),
        helper.make_node(
            "QLinearConv", ["pool1", "y1", "zero", "w2", "ws", "wz", "y2", "middle", "b2"], ["conv2"], pads=[1] * 4
        ),
        helper.make_node(
            "QLinearAdd", ["conv2", "y2", "middle", "pool1", "y1", "zero", "y2", "middle"], ["branches"], domain="com.microsoft"
        ),
        helper.make_node(
            "QLinearAveragePool", ["branches", "y2", "middle", "y1", "middle"], ["pool2"], **{**pool, "strides": [2, 2]}
        ),
        helper.make_node(
            "QLinearGlobalAveragePool", ["pool2", "y1", "middle", "y1", "middle"], ["mean"], domain="com.microsoft"
        ),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("QLinearMatMul", ["flat", "y1", "middle", "w3", "ws", "wz", "y2", "middle"], ["logits"]),
    ]
    sizes = (4, 3, 9, 9)
    return _model(nodes, constants, ("image", TensorProto.UINT8, list(sizes)), "logits"), {
        "image": random.integers(0, 256, sizes).astype(np.uint8)
    }


def _model(nodes: list[NodeProto], constants: Mapping[str, Any], image: tuple[str, int, list[int]], output: str) -> ModelProto:
    graph = helper.make_graph(
        nodes, "model", [helper.make_tensor_value_info(*image)], [helper.make_empty_tensor_value_info(output)],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


MODELS: Mapping[str, Callable[[np.random.Generator], tuple[ModelProto, dict[str, Array]]]] = {
    "cnn": lambda random: digits("cnn", random),
    "encoder": lambda random: digits("encoder", random),
    "squeezenet": squeezenet,
    "cnn, QLinear": lambda random: digits("cnn-qlinear", random),
    "cnn, QDQ": lambda random: digits("cnn-qdq", random),
    "encoder, QDQ": quantised_encoder,
    "pooling": pooling,
    "pooling, QLinear": quantised_pooling,
}
