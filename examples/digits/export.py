"""The digits' networks as ONNX models: the convolutional one in float32 and, quantised, in two forms, and the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from digits.networks import HEADS, PIXELS, WIDTH

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


class Writer:
    """Nodes and initializers of a model, in order."""

    def __init__(self, constants: Arrays) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = constants

    def node(self, kind: str, inputs: str, output: str, **attributes: Any) -> str:
        """Add a node, whose name is its output's; inputs are separated by blanks."""
        self.nodes.append(helper.make_node(kind, inputs.split(), [output], name=output, **attributes))
        return output

    def model(self, shape: Sequence[Any], output: str) -> onnx.ModelProto:
        read = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes,
            "digits",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", 10])],
            [numpy_helper.from_array(x, name) for name, x in self.constants.items() if name in read],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9, producer_name="anydml")
        onnx.checker.check_model(model, full_check=True)
        return model


CONVOLUTION = dict(pads=[1, 1, 1, 1], kernel_shape=[3, 3])
POOLING = dict(kernel_shape=[2, 2], strides=[2, 2])


def cnn(p: Arrays) -> onnx.ModelProto:
    """The convolutional network in float32."""
    to = Writer(p)
    x = "image"
    for i in ("1", "2"):
        x = to.node("Conv", f"{x} conv{i}.weight conv{i}.bias", f"conv{i}", **CONVOLUTION)
        x = to.node("Relu", x, f"relu{i}")
        x = to.node("MaxPool", x, f"pool{i}", **POOLING)
    x = to.node("Flatten", x, "flat")
    return to.model([1, PIXELS, PIXELS], to.node("MatMul", f"{x} classify.weight", "logits"))


def quantised(p: Arrays, ranges: dict[str, tuple[float, float]]) -> Arrays:
    """The integer network's constants: of activations uint8, of weights int8 with a scale for each output channel.

    ranges: the least and the largest value of `image`, `conv1`, `conv2` (after RELU) and `logits` on calibration images.
    """
    made: Arrays = {}
    for name, (low, high) in ranges.items():
        scale = np.float32((high - low) / 255)
        made[f"{name}.scale"], made[f"{name}.zero_point"] = scale, np.rint(-low / scale).astype(np.uint8)
    for name, source, axes in (("conv1", "image", (1, 2, 3)), ("conv2", "conv1", (1, 2, 3)), ("classify", "", (0,))):
        weight = p[f"{name}.weight"]
        scale = (np.abs(weight).max(axis=axes) / 127).astype(np.float32)
        divisor = scale.reshape(-1, 1, 1, 1) if source else scale
        made[f"{name}.weight"] = np.rint(weight / divisor).astype(np.int8)
        made[f"{name}.weight_scale"], made[f"{name}.weight_zero_point"] = scale, np.zeros(len(scale), np.int8)
        if source:
            made[f"{name}.bias_scale"] = made[f"{source}.scale"] * scale
            made[f"{name}.bias"] = np.rint(p[f"{name}.bias"] / made[f"{name}.bias_scale"]).astype(np.int32)
            made[f"{name}.bias_zero_point"] = np.zeros(len(scale), np.int32)
    return made


def _encoding(name: str) -> str:
    return f"{name}.scale {name}.zero_point"


def _weight(name: str) -> str:
    return f"{name}.weight {name}.weight_scale {name}.weight_zero_point"


def qlinear_cnn(q: Arrays) -> onnx.ModelProto:
    """The integer network of QLinear operators, which compute on integers."""
    to = Writer(q)
    x, encoding = to.node("QuantizeLinear", f"image {_encoding('image')}", "quantized"), _encoding("image")
    for i in ("1", "2"):
        name = f"conv{i}"
        reads = f"{x} {encoding} {_weight(name)} {_encoding(name)} {name}.bias"
        x, encoding = to.node("QLinearConv", reads, name, **CONVOLUTION), _encoding(name)
        x = to.node("MaxPool", x, f"pool{i}", **POOLING)
    x = to.node("Flatten", x, "flat")
    x = to.node("QLinearMatMul", f"{x} {encoding} {_weight('classify')} {_encoding('logits')}", "classify")
    return to.model([1, PIXELS, PIXELS], to.node("DequantizeLinear", f"{x} {_encoding('logits')}", "logits"))


def qdq_cnn(q: Arrays) -> onnx.ModelProto:
    """The integer network of float operators between QuantizeLinear and DequantizeLinear."""
    to = Writer(q)

    def through(x: str, encoding: str) -> str:
        """The float values that are left of x in 8 bits."""
        quantized = to.node("QuantizeLinear", f"{x} {_encoding(encoding)}", f"{x}_quantized")
        return to.node("DequantizeLinear", f"{quantized} {_encoding(encoding)}", f"{x}_dequantized")

    def constant(name: str, part: str, axis: int) -> str:
        reads = f"{name}.{part} {name}.{part}_scale {name}.{part}_zero_point"
        return to.node("DequantizeLinear", reads, f"{name}_{part}", axis=axis)

    x = through("image", "image")
    for i in ("1", "2"):
        name = f"conv{i}"
        weight, bias = constant(name, "weight", 0), constant(name, "bias", 0)
        x = to.node("Conv", f"{x} {weight} {bias}", name, **CONVOLUTION)
        x = through(to.node("Relu", x, f"relu{i}"), name)
        x = through(to.node("MaxPool", x, f"pool{i}", **POOLING), name)
    x = through(to.node("Flatten", x, "flat"), "conv2")
    x = through(to.node("MatMul", f"{x} {constant('classify', 'weight', 1)}", "classify"), "logits")
    return to.model([1, PIXELS, PIXELS], to.node("Identity", x, "logits"))


def encoder(p: Arrays) -> onnx.ModelProto:
    """The transformer encoder in float32."""
    constants = p | {
        "heads": np.array([0, PIXELS, HEADS, WIDTH // HEADS], np.int64),
        "tokens": np.array([0, PIXELS, WIDTH], np.int64),
        "factor": np.float32((HEADS / WIDTH) ** 0.5),
        "axis": np.array([1], np.int64),
    }
    to = Writer({name: np.asarray(x) for name, x in constants.items()})

    def normal(x: str, name: str) -> str:
        return to.node("LayerNormalization", f"{x} {name}.scale {name}.bias", name, axis=-1, epsilon=1e-5)

    def heads(x: str, name: str, order: Sequence[int]) -> str:
        product = to.node("MatMul", f"{x} {name}.weight", name)
        return to.node("Transpose", to.node("Reshape", f"{product} heads", f"{name}_heads"), f"{name}_turned", perm=order)

    def dense(x: str, name: str) -> str:
        return to.node("Add", f"{to.node('MatMul', f'{x} {name}.weight', f'{name}_product')} {name}.bias", name)

    x = to.node("MatMul", "image embed.weight", "embed")
    x = to.node("Add", f"{x} embed.position", "placed")
    y = normal(x, "norm1")
    query, value = (heads(y, name, [0, 2, 1, 3]) for name in ("query", "value"))
    scores = to.node("MatMul", f"{query} {heads(y, 'key', [0, 2, 3, 1])}", "scores")
    weights = to.node("Softmax", to.node("Mul", f"{scores} factor", "scaled"), "weights", axis=-1)
    mixed = to.node("Transpose", to.node("MatMul", f"{weights} {value}", "mixed"), "mixed_turned", perm=[0, 2, 1, 3])
    attended = to.node("MatMul", f"{to.node('Reshape', f'{mixed} tokens', 'mixed_tokens')} attended.weight", "attended")
    x = to.node("Add", f"{x} {attended}", "with_attention")
    y = dense(to.node("Gelu", dense(normal(x, "norm2"), "inner"), "gelu"), "outer")
    x = to.node("Add", f"{x} {y}", "with_dense")
    x = to.node("ReduceMean", f"{normal(x, 'norm3')} axis", "mean", keepdims=0)
    product = to.node("MatMul", f"{x} classify.weight", "classify")
    return to.model([PIXELS, PIXELS], to.node("Add", f"{product} classify.bias", "logits"))
