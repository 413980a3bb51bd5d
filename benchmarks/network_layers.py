"""ResNet-18 and MobileNetV2, layer by layer, in our operators and in ONNX's, in float32 and in 8-bit integers.

Batch normalisation is folded into the convolutions, as in models that are deployed. A network is a function of a writer: one
writer calls eager functions, on arrays or on tensors of a graph; another collects ONNX nodes. Both use the same weights. In
integer networks, activations are uint8, and filters int8 with a scale for each output channel; a RELU is the saturation at a
zero point of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from benchmarks.onnx_session import Node

Array = NDArray[Any]
SIX = 6.0  # RELU6's bound
RELU = float("inf")
CLASSES = 1000
REACH = 63  # of quantised filters: then the sum of two products with bytes fits 16 bits, in which x86 without VNNI adds
ZERO = 1 / 16, 128  # scale and zero point of tensors with negative numbers


class Layer(NamedTuple):
    """A convolution. read, written: channels; side: of the window; upto: RELU or SIX, None for neither."""

    read: int
    written: int
    taps: int = 1
    stride: int = 1
    groups: int = 1
    upto: float | None = None

    @property
    def terms(self) -> int:
        return self.read // self.groups * self.taps**2

    @property
    def quantised(self) -> tuple[float, int]:
        """The scale and zero point of the output."""
        return ZERO if self.upto is None else (6 / 255, 0)


class Weights:
    """Filters and biases by the number of the layer that reads them, the same for every writer."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Layer, Array, Array]] = {}

    def of(self, number: int, layer: Layer) -> tuple[Array, Array]:
        """Filters and their biases, with which outputs have about the magnitude of inputs."""
        if number not in self._made:
            drawn = np.random.default_rng(number)
            filters = drawn.standard_normal((layer.written, layer.read // layer.groups, layer.taps, layer.taps))
            filters *= (2 / layer.terms) ** 0.5
            bias = drawn.standard_normal(layer.written) / 8
            self._made[number] = layer, filters.astype(np.float32), bias.astype(np.float32)
        kept, filters, bias = self._made[number]
        assert kept == layer
        return filters, bias

    def quantised(self, number: int, layer: Layer, scale: float) -> tuple[Array, Array, Array]:
        """Filters as int8, their scales, and biases as int32. scale: the input's."""
        filters, bias = self.of(number, layer)
        scales = (np.abs(filters).max((1, 2, 3)) / REACH).astype(np.float32)
        whole = np.rint(filters / scales[:, None, None, None]).astype(np.int8)
        return whole, scales, np.rint(bias / (np.float32(scale) * scales)).astype(np.int32)


class Writer(Protocol):
    """Layers as operators; x and y are the writer's representations of tensors."""

    def begin(self, x: Any) -> Any: ...
    def convolution(self, x: Any, layer: Layer) -> Any: ...
    def add(self, x: Any, y: Any, upto: float | None) -> Any: ...
    def largest(self, x: Any) -> Any: ...
    def mean(self, x: Any, size: int) -> Any: ...
    def classes(self, x: Any, read: int) -> Any: ...


def resnet18(net: Writer, x: Any, size: int = 224, part: int = 1) -> Any:
    """A residual network of 18 layers; part: a divisor of its channels."""
    read = 64 // part
    x = net.largest(net.convolution(net.begin(x), Layer(3, read, 7, 2, upto=RELU)))
    for stage, written in enumerate((64 // part, 128 // part, 256 // part, 512 // part)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = net.convolution(x, Layer(read, written, 3, stride, upto=RELU))
            past = net.convolution(x, Layer(read, written, 1, stride)) if stride == 2 else x
            x = net.add(net.convolution(inner, Layer(written, written, 3)), past, RELU)
            read = written
    return net.classes(net.mean(x, size // 32), read)


BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(net: Writer, x: Any, size: int = 224, part: int = 1) -> Any:
    """A network of depthwise convolutions between narrow tensors; part: a divisor of its channels."""
    read = 32 // part
    x = net.convolution(net.begin(x), Layer(3, read, 3, 2, upto=SIX))
    for factor, wide, count, first in BLOCKS:
        for block in range(count):
            stride, written = 1 if block else first, wide // part
            hidden = read * factor
            inner = net.convolution(x, Layer(read, hidden, upto=SIX)) if factor > 1 else x
            inner = net.convolution(inner, Layer(hidden, hidden, 3, stride, hidden, upto=SIX))
            narrow = net.convolution(inner, Layer(hidden, written))
            x = net.add(narrow, x, None) if stride == 1 and read == written else narrow
            read = written
    x = net.convolution(x, Layer(read, 1280 // part, upto=SIX))
    return net.classes(net.mean(x, size // 32), 1280 // part)


NETWORKS: dict[str, Callable[..., Any]] = {"ResNet-18": resnet18, "MobileNetV2": mobilenet_v2}


def _around(taps: int) -> dict[str, Any]:
    return {"start_padding": (taps // 2,) * 2, "end_padding": (taps // 2,) * 2}


class Floats:
    """Our operators of float32."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._count = weights, 0

    def begin(self, x: Any) -> Any:
        return x

    def convolution(self, x: Any, layer: Layer) -> Any:
        filters, bias = self._weights.of(self._count, layer)
        self._count += 1
        bias = bias.reshape(1, -1, 1, 1)
        made = dml.convolution(x, filters, bias, strides=(layer.stride,) * 2, group_count=layer.groups, **_around(layer.taps))
        return _kept(made, layer.upto)

    def add(self, x: Any, y: Any, upto: float | None) -> Any:
        return _kept(dml.element_wise_add(x, y), upto)

    def largest(self, x: Any) -> Any:
        return dml.max_pooling(x, (2, 2), window_size=(3, 3), **_around(3))

    def mean(self, x: Any, size: int) -> Any:
        return dml.average_pooling(x, window_size=(size, size))

    def classes(self, x: Any, read: int) -> Any:
        return self.convolution(x, Layer(read, CLASSES))


def _kept(x: Any, upto: float | None) -> Any:
    if upto is None:
        return x
    return dml.activation_relu(x) if upto == RELU else dml.element_wise_clip(x, min=0.0, max=upto)


class Integers:
    """Our operators of quantised tensors. A tensor comes with its scale and zero point."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._count = weights, 0

    def begin(self, x: Any) -> Any:
        scale, zero = ZERO
        return dml.element_wise_quantize_linear(x, np.float32(scale), np.uint8(zero)), ZERO

    def convolution(self, x: Any, layer: Layer) -> Any:
        x, (scale, zero) = x
        filters, scales, bias = self._weights.quantised(self._count, layer, scale)
        self._count += 1
        output_scale, output_zero = layer.quantised
        made = dml.quantized_linear_convolution(
            x, np.float32(scale), filters, scales.reshape(1, -1, 1, 1), np.float32(output_scale), np.uint8(zero),
            bias=bias.reshape(1, -1, 1, 1), output_zero_point=np.uint8(output_zero),
            strides=(layer.stride,) * 2, group_count=layer.groups, **_around(layer.taps),
        )  # fmt: skip
        return made, layer.quantised

    def add(self, x: Any, y: Any, upto: float | None) -> Any:
        (x, (scale, zero)), (y, (other_scale, other_zero)) = x, y
        wanted = Layer(1, 1, upto=upto).quantised
        made = dml.element_wise_quantized_linear_add(
            x, np.float32(scale), y, np.float32(other_scale), np.float32(wanted[0]),
            np.uint8(zero), np.uint8(other_zero), np.uint8(wanted[1]),
        )  # fmt: skip
        return made, wanted

    def largest(self, x: Any) -> Any:
        return dml.max_pooling(x[0], (2, 2), window_size=(3, 3), **_around(3)), x[1]

    def mean(self, x: Any, size: int) -> Any:
        x, (scale, zero) = x
        scale, zero = np.float32(scale), np.uint8(zero)
        return dml.quantized_linear_average_pooling(x, scale, scale, zero, zero, window_size=(size, size)), (scale, zero)

    def classes(self, x: Any, read: int) -> Any:
        x, (scale, zero) = self.convolution(x, Layer(read, CLASSES))
        return dml.element_wise_dequantize_linear(x, np.float32(scale), np.uint8(zero))


class Onnx:
    """Collects ONNX nodes and constants in `nodes` and `constants`.

    A tensor is a name; in integer networks, a name with its scale and zero point.
    """

    def __init__(self, weights: Weights, quantised: bool) -> None:
        self._weights, self._count, self._quantised = weights, 0, quantised
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def _node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append((operator, inputs, [name], attributes))
        return name

    def _constant(self, x: Any, dtype: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(x, dtype)
        return name

    def _parameters(self, quantised: tuple[float, int]) -> tuple[str, str]:
        return self._constant(quantised[0], np.float32), self._constant(quantised[1], np.uint8)

    def begin(self, x: Any) -> Any:
        return (self._node("QuantizeLinear", x, *self._parameters(ZERO)), ZERO) if self._quantised else x

    def convolution(self, x: Any, layer: Layer) -> Any:
        attributes = {"strides": [layer.stride] * 2, "group": layer.groups, "pads": [layer.taps // 2] * 4}
        number, self._count = self._count, self._count + 1
        if not self._quantised:
            filters, bias = (self._constant(w, np.float32) for w in self._weights.of(number, layer))
            return self._kept(self._node("Conv", x, filters, bias, **attributes), layer.upto)
        whole, whole_bias = self._filters(number, layer, x[1][0])
        inputs = x[0], *self._parameters(x[1]), *whole, *self._parameters(layer.quantised)
        return self._node("QLinearConv", *inputs, self._constant(whole_bias, np.int32), **attributes), layer.quantised

    def _filters(self, number: int, layer: Layer, scale: float) -> tuple[Any, Array]:
        filters, scales, bias = self._weights.quantised(number, layer, scale)
        names = (
            self._constant(filters, np.int8),
            self._constant(scales, np.float32),
            self._constant(np.zeros(len(scales)), np.int8),
        )
        return names, bias

    def _kept(self, x: Any, upto: float | None) -> Any:
        if upto is None:
            return x
        if upto == RELU:
            return self._node("Relu", x)
        return self._node("Clip", x, self._constant(0, np.float32), self._constant(upto, np.float32))

    def add(self, x: Any, y: Any, upto: float | None) -> Any:
        if not self._quantised:
            return self._kept(self._node("Add", x, y), upto)
        wanted = Layer(1, 1, upto=upto).quantised
        inputs = x[0], *self._parameters(x[1]), y[0], *self._parameters(y[1]), *self._parameters(wanted)
        return self._node("QLinearAdd", *inputs, domain="com.microsoft"), wanted

    def largest(self, x: Any) -> Any:
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        return (self._node("MaxPool", x[0], **window), x[1]) if self._quantised else self._node("MaxPool", x, **window)

    def mean(self, x: Any, size: int) -> Any:
        if not self._quantised:
            return self._node("GlobalAveragePool", x)
        inputs = x[0], *self._parameters(x[1]), *self._parameters(x[1])
        return self._node("QLinearGlobalAveragePool", *inputs, domain="com.microsoft", channels_last=0), x[1]

    def classes(self, x: Any, read: int) -> Any:
        layer = Layer(read, CLASSES)
        number, self._count = self._count, self._count + 1
        if not self._quantised:
            filters, bias = self._weights.of(number, layer)
            names = self._constant(filters[:, :, 0, 0], np.float32), self._constant(bias, np.float32)
            return self._node("Gemm", self._node("Flatten", x), *names, transB=1)
        filters, scales, bias = self._weights.quantised(number, layer, x[1][0])
        inputs = (
            self._node("Flatten", x[0]), *self._parameters(x[1]), self._constant(filters[:, :, 0, 0].T, np.int8),
            self._constant(scales, np.float32), self._constant(np.zeros(CLASSES), np.int8),
            self._constant(bias, np.int32), *self._parameters(ZERO),
        )  # fmt: skip
        made = self._node("QGemm", *inputs, domain="com.microsoft", alpha=1.0, transA=0, transB=0)
        return self._node("DequantizeLinear", made, *self._parameters(ZERO))
