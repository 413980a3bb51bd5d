"""Models as people quantise them: small networks in the style of three exporters, quantised by onnxruntime's own tools."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from onnx import ModelProto, TensorProto, helper
from onnxruntime.quantization import QuantizationMode, QuantType
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData
from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry

Array = Any  # of NumPy
STYLES = ("pytorch", "keras", "tflite")


class Form(NamedTuple):
    """A form of quantised models. kind: "qdq", "qoperator" or "dynamic"; weights, activations: their types.

    narrow: 7-bit weights and symmetric activations, which change scales and zero points.
    """

    kind: str
    weights: QuantType
    activations: QuantType
    per_channel: bool = False
    narrow: bool = False

    def __str__(self) -> str:
        return f"{self.kind}-{self.activations}-{self.weights}{'-channels' * self.per_channel}{'-narrow' * self.narrow}"


U8, S8, U16, S16 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt16
WIDE = (
    Form("qdq", S8, U8), Form("qdq", S8, S8, True), Form("qdq", U8, U8), Form("qdq", S8, U16, True), Form("qdq", S16, S16),
    Form("qoperator", S8, U8), Form("qoperator", S8, U8, True), Form("qoperator", U8, U8), Form("qoperator", S8, S8),
    Form("dynamic", S8, U8), Form("dynamic", U8, U8, True),
)  # fmt: skip
FORMS = (*WIDE, *(form._replace(narrow=True) for form in WIDE))


class Net:
    """A float network that is being made: its nodes, constants, and the sizes of its tensors."""

    def __init__(self, seed: int) -> None:
        self.opset = (13, 17, 21)[seed // 3 % 3]
        self.random = np.random.default_rng(seed)
        self.style = STYLES[seed % 3]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.sizes: dict[str, tuple[int, ...]] = {}

    def named(self, operator: str) -> str:
        """A name in the exporter's style."""
        count = len(self.nodes)
        if self.style == "pytorch":
            return f"/layer{count}/{operator.lower()}/{operator}_output_0"
        return f"model/{operator.lower()}_{count}/BiasAdd:0" if self.style == "keras" else f"{operator.lower()}_{count}"

    def node(self, operator: str, *inputs: str, sizes: tuple[int, ...], **attributes: Any) -> str:
        name = self.named(operator)
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{len(self.nodes)}", **attributes))
        self.sizes[name] = sizes
        return name

    def constant(self, x: Any, scale: float = 1.0) -> str:
        """A constant: an array, or a random one of these sizes."""
        array = x if isinstance(x, np.ndarray) else (self.random.normal(size=x) * scale).astype(np.float32)
        name = f"const.{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def choice(self, *of: Any) -> Any:
        return of[self.random.integers(len(of))]

    def activation(self, x: str) -> str:
        """One of the activations in this exporter's models."""
        sizes = self.sizes[x]
        kinds = {
            "pytorch": ("Relu", "LeakyRelu", "Sigmoid", "silu", "gelu", "", *(["HardSwish"] if self.opset >= 14 else [])),
            "keras": ("Relu", "Tanh", "Sigmoid", "Softplus", ""),
            "tflite": ("relu6", "Relu", "HardSigmoid", "Sigmoid", ""),
        }
        kind = self.choice(*kinds[self.style])
        if kind == "relu6":
            return self.node(
                "Clip", x, self.constant(np.array(0, np.float32)), self.constant(np.array(6, np.float32)), sizes=sizes
            )
        if kind == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x, sizes=sizes), sizes=sizes)
        if kind == "gelu":
            root, one, half = (self.constant(np.array(v, np.float32)) for v in (2**0.5, 1, 0.5))
            erf = self.node("Erf", self.node("Div", x, root, sizes=sizes), sizes=sizes)
            product = self.node("Mul", x, self.node("Add", erf, one, sizes=sizes), sizes=sizes)
            return self.node("Mul", product, half, sizes=sizes)
        return self.node(kind, x, sizes=sizes) if kind else x

    def convolved(self, x: str, channels: int, side: int, groups: int = 1) -> str:
        n, c, h, w = self.sizes[x]
        weights = self.constant((channels, c // groups, side, side), (c // groups * side * side) ** -0.5)
        bias = [self.constant((channels,), 0.1)] if self.random.random() < 0.8 else []
        sizes, pads = (n, channels, h, w), [side // 2] * 4
        return self.node("Conv", x, weights, *bias, sizes=sizes, pads=pads, group=groups, kernel_shape=[side, side])

    def image_layer(self, x: str) -> str:
        """A layer of a network for images."""
        n, c, h, w = self.sizes[x]
        kind = self.choice("conv", "conv", "depthwise", "residual", "concat", "max", "average", "scale")
        if kind == "conv":
            return self.activation(self.convolved(x, 8, self.choice(1, 3)))
        if kind == "depthwise":
            return self.activation(self.convolved(self.activation(self.convolved(x, c, 3, c)), 8, 1))
        if kind == "residual":
            return self.activation(self.node("Add", self.convolved(x, c, 3), x, sizes=(n, c, h, w)))
        if kind == "concat" and c <= 8:
            parts = [self.activation(self.convolved(x, 4, side)) for side in (1, 3)]
            return self.node("Concat", *parts, sizes=(n, 8, h, w), axis=1)
        if kind == "scale":
            squeezed = self.node("GlobalAveragePool", x, sizes=(n, c, 1, 1))
            gate = self.node("Sigmoid", self.convolved(squeezed, c, 1), sizes=(n, c, 1, 1))
            return self.node("Mul", x, gate, sizes=(n, c, h, w))
        if h < 4:
            return self.activation(x)
        pool = "AveragePool" if kind == "average" else "MaxPool"
        return self.node(pool, x, sizes=(n, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])

    def product(self, x: str, columns: int) -> str:
        """A layer of rows: Gemm with two dimensions, or MatMul and Add."""
        sizes = self.sizes[x]
        k, made = sizes[-1], (*sizes[:-1], columns)
        if len(sizes) == 2 and self.choice(True, False):
            return self.node("Gemm", x, self.constant((columns, k), k**-0.5), self.constant((columns,)), sizes=made, transB=1)
        y = self.node("MatMul", x, self.constant((k, columns), k**-0.5), sizes=made)
        return self.node("Add", y, self.constant((columns,), 0.1), sizes=made) if self.choice(True, False) else y

    def row_layer(self, x: str) -> str:
        """A layer of a transformer, or of a network of dense layers."""
        sizes = self.sizes[x]
        kind = self.choice("dense", "dense", *(["norm"] if self.opset >= 17 else []), "attention", "softmax", "gate")
        if kind == "dense":
            return self.activation(self.product(x, 16))
        if kind == "norm":
            width = sizes[-1]
            return self.node("LayerNormalization", x, self.constant((width,)), self.constant((width,)), sizes=sizes, axis=-1)
        if kind == "attention" and len(sizes) == 3:
            n, length, width = sizes
            q, k, v = (self.product(x, 8) for _ in range(3))
            turned = self.node("Transpose", k, sizes=(n, 8, length), perm=[0, 2, 1])
            scores = self.node("MatMul", q, turned, sizes=(n, length, length))
            weights = self.node("Softmax", scores, sizes=(n, length, length), axis=-1)
            made = self.product(self.node("MatMul", weights, v, sizes=(n, length, 8)), width)
            return self.node("Add", x, made, sizes=sizes)
        if kind == "softmax":
            return self.node("Softmax", x, sizes=sizes, axis=-1)
        return self.node("Mul", x, self.node("Sigmoid", self.product(x, sizes[-1]), sizes=sizes), sizes=sizes)

    def made(self) -> ModelProto:
        """A network of a few layers."""
        if self.choice(True, True, False):
            channels_last = self.style != "pytorch"
            given = (1, 8, 8, 3) if channels_last else (1, 3, 8, 8)
            self.sizes["input"] = given
            x = self.node("Transpose", "input", sizes=(1, 3, 8, 8), perm=[0, 3, 1, 2]) if channels_last else "input"
            x = self.activation(self.convolved(x, 8, 3))
            for _ in range(self.random.integers(1, 3)):
                x = self.image_layer(x)
            n, c, h, w = self.sizes[x]
            if self.choice(True, False):
                x = self.node("Flatten", self.node("GlobalAveragePool", x, sizes=(n, c, 1, 1)), sizes=(n, c))
                x = self.product(x, 10)
            elif channels_last:
                x = self.node("Transpose", x, sizes=(n, h, w, c), perm=[0, 2, 3, 1])
        else:
            given = self.sizes["input"] = self.choice((4, 16), (1, 6, 16))
            x = "input"
            for _ in range(self.random.integers(1, 4)):
                x = self.row_layer(x)
        if x == "input" or not any(t.op_type in ("Conv", "MatMul", "Gemm") for t in self.nodes):
            x = self.product(x, 8)
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("input", TensorProto.FLOAT, given)],
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, self.sizes[x])], self.constants,
        )  # fmt: skip
        proto = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8 if self.opset < 21 else 10
        )
        return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def ranges(proto: ModelProto, given: Array) -> TensorsData:
    """The smallest and the largest element of every tensor, for one input."""
    every = ModelProto()
    every.CopyFrom(proto)
    own = {o.name for o in every.graph.output}
    names = [name for node in every.graph.node for name in node.output]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(every.SerializeToString(), options, ["CPUExecutionProvider"])
    order = [o.name for o in session.get_outputs()]
    found = {"input": given, **dict(zip(order, session.run(order, {"input": given}), strict=True))}
    limits = {name: TensorData(lowest=np.array(x.min()), highest=np.array(x.max())) for name, x in found.items()}
    return TensorsData(CalibrationMethod.MinMax, limits)


def quantised(proto: ModelProto, form: Form, limits: TensorsData) -> ModelProto:
    """The model after onnxruntime's quantiser."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    narrow = form.narrow and form.weights in (U8, S8)
    extra = {"ActivationSymmetric": form.narrow and form.activations in (S8, S16)}
    quantiser: Any
    if form.kind == "qdq":
        quantiser = QDQQuantizer(
            copy, form.per_channel, narrow, form.weights, form.activations, limits, [], [], [*QDQRegistry], extra
        )
    elif form.kind == "qoperator":
        quantiser = ONNXQuantizer(
            copy, form.per_channel, narrow, QuantizationMode.QLinearOps, True, form.weights, form.activations, limits, [], [],
            [*QLinearOpsRegistry], extra,
        )  # fmt: skip
    else:
        quantiser = ONNXQuantizer(
            copy, form.per_channel, narrow, QuantizationMode.IntegerOps, False, form.weights, QuantType.QUInt8, None, [], [],
            [*IntegerOpsRegistry], {"MatMulConstBOnly": True},
        )  # fmt: skip
    quantiser.quantize_model()
    made: ModelProto = quantiser.model.model
    return made


def models(first: int, count: int) -> Iterator[tuple[str, ModelProto, Array]]:
    """Quantised models, each with its title and an input: every network in all forms, except those that a quantiser refuses."""
    logging.getLogger().setLevel(logging.ERROR)  # hides the advice of the quantisers
    seed = first - 1
    while count:
        net = Net(seed := seed + 1)
        proto = net.made()
        x = net.random.normal(size=net.sizes["input"]).astype(np.float32)
        limits = ranges(proto, x)
        for form in FORMS[:count]:
            try:
                made = quantised(proto, form, limits)
            except ValueError:  # the quantiser has no scale for a bias whose input is not quantised
                continue
            count -= 1
            yield f"{seed}-{net.style}-{net.opset}-{form}", made, x
