"""ONNX models whose first results are timed: a MobileNetV2 as exporters quantise it, and maps with thousands of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class _Nodes:
    """The nodes so far; each tensor is named after the node that makes it. Scales, zero points and bounds are nodes, too."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._node, self._tensor = helper.make_node, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(self._node(operator, inputs, [f"{operator}_{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def constant(self, x: Any) -> str:
        return self.add("Constant", value=self._tensor(np.asarray(x)))

    def weight(self, x: Any, scale: Any) -> str:
        self.weights.append(self._tensor(x, f"weights_{len(self.weights)}"))
        zeros = np.zeros(scale.shape, x.dtype)
        return self.add("DequantizeLinear", self.weights[-1].name, self.constant(scale), self.constant(zeros), axis=0)

    def quantised(self, x: str) -> str:
        scale = self.constant(np.float32(self.rng.uniform(0.01, 0.05)))
        zero = self.constant(np.uint8(self.rng.integers(0, 140)))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, scale, zero), scale, zero)

    def parameters(self, *sizes: int) -> tuple[str, str]:
        """Weights and biases of random bytes, by channel."""
        scale = (self.rng.uniform(0.5, 1.5, sizes[0]) * 0.02).astype(np.float32)
        weights = self.weight(self.rng.integers(-127, 128, sizes).astype(np.int8), scale)
        return weights, self.weight(self.rng.integers(-2000, 2000, sizes[0]).astype(np.int32), scale * np.float32(0.02))

    def convolution(self, x: str, outputs: int, inputs: int, size: int, stride: int = 1, *, clipped: bool = True) -> str:
        """inputs: 1 if each channel has a filter of its own."""
        group, pads = outputs if inputs == 1 else 1, [size // 2] * 4
        weights = self.parameters(outputs, inputs, size, size)
        x = self.add("Conv", x, *weights, strides=[stride] * 2, pads=pads, group=group)
        return self.quantised(self.add("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6))) if clipped else x)

    def model(self, inputs: tuple[int, ...], output: str, outputs: tuple[int, ...]) -> Any:
        from onnx import TensorProto, helper

        def values(name: str, sizes: tuple[int, ...]) -> list[Any]:
            return [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)]

        graph = helper.make_graph(self.nodes, "model", values("x", inputs), values(output, outputs), self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mobilenet() -> Any:
    """A MobileNetV2 with random bytes as weights, for an image of 224 x 224."""
    made = _Nodes()
    x, channels = made.convolution(made.quantised("x"), 32, 3, 3, 2), 32
    for factor, outputs, count, first in BLOCKS:
        for stride in (first, *[1] * (count - 1)):
            inner = channels * factor
            y = made.convolution(x, inner, channels, 1) if factor > 1 else x
            y = made.convolution(made.convolution(y, inner, 1, 3, stride), outputs, inner, 1, clipped=False)
            x = made.quantised(made.add("Add", x, y)) if stride == 1 and channels == outputs else y
            channels = outputs
    x = made.quantised(made.add("GlobalAveragePool", made.convolution(x, 1280, channels, 1)))
    x = made.quantised(made.add("Gemm", made.add("Flatten", x), *made.parameters(1000, 1280), transB=1))
    return made.model((1, 3, 224, 224), x, (1, 1000))


def maps(count: int) -> Any:
    """Residual layers of maps of 64 elements."""
    made, x = _Nodes(), "x"
    for _ in range(count // 3):
        x = made.add("Add", x, made.add("Sigmoid", made.add("Relu", x)))
    return made.model((1, 64), x, (1, 64))
