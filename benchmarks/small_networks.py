"""Convolutions of small networks, layer by layer: part `layers` of `make bench`.

The shapes are of published networks, the weights random: YuNet and RFB-640 (faces), YOLOX-nano and YOLOv3-tiny (objects),
a classifier of traffic signs, the MNIST network of the ONNX model zoo, and a decoder with transposed convolutions. A layer is
a convolution with a bias, fused with the function that follows it in the network. The limit is the time of its multiply-adds in
float64 registers, which Winograd's algorithm exceeds. Onnxruntime computes in float32, so that a layer that both compute at
their limit takes us twice its time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from math import exp, log, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from benchmarks.limits import multiply_adds
from benchmarks.onnx_session import Node, session
from benchmarks.timing import best

Array = NDArray[Any]


class Layer(NamedTuple):
    """A convolution. read, written: channels; high, wide: of the input; equal: the number of such layers.

    turned: transposed, for which `taps` and `stride` are equal.
    """

    read: int
    written: int
    taps: int
    stride: int
    high: int
    wide: int
    groups: int = 1
    then: str = ""
    equal: int = 1
    turned: bool = False

    def __str__(self) -> str:
        kind = "transposed" if self.turned else "depthwise" if self.groups > 1 else ""
        stride = f" / {self.stride}" if self.stride > 1 else ""
        return f"{self.read} to {self.written}, {self.taps} x {self.taps}{stride}, {self.high} x {self.wide} {self.then} {kind}"

    @property
    def padding(self) -> int:
        return 0 if self.turned or self.taps == self.stride else self.taps // 2

    @property
    def filter(self) -> tuple[int, ...]:
        first, second = (self.read, self.written) if self.turned else (self.written, self.read // self.groups)
        return first, second, self.taps, self.taps

    @property
    def output(self) -> tuple[int, ...]:
        sides = ((n * self.stride if self.turned else (n - 1) // self.stride + 1) for n in (self.high, self.wide))
        return 1, self.written, *sides

    @property
    def multiply_adds(self) -> int:
        return prod(self.output) * self.read // self.groups * (1 if self.turned else self.taps**2)


def separable(read: int, written: int, high: int, wide: int, then: str, equal: int = 1) -> list[Layer]:
    """1 x 1 and depthwise 3 x 3, as in YuNet."""
    point = Layer(read, written, 1, 1, high, wide, equal=equal)
    return [point, Layer(written, written, 3, 1, high, wide, written, then, equal)]


def depthwise_first(read: int, written: int, stride: int, high: int, wide: int, then: str, equal: int = 1) -> list[Layer]:
    """Depthwise 3 x 3 and 1 x 1, as in RFB-640 and YOLOX-nano."""
    first = Layer(read, read, 3, stride, high, wide, read, then, equal)
    return [first, Layer(read, written, 1, 1, -(-high // stride), -(-wide // stride), then=then, equal=equal)]


YUNET = [
    Layer(3, 16, 3, 2, 320, 320, then="relu"),
    *separable(16, 16, 160, 160, "relu"),
    *separable(16, 16, 80, 80, "relu"),
    *separable(16, 64, 80, 80, "relu"),
    *separable(64, 64, 40, 40, "relu", 4),
    *separable(64, 64, 20, 20, "relu", 3),
    *separable(64, 64, 10, 10, "relu", 3),
    *separable(64, 1, 40, 40, "sigmoid", 2),
    *separable(64, 10, 40, 40, ""),
    *separable(64, 4, 20, 20, ""),
]
RFB_640 = [
    Layer(3, 16, 3, 2, 480, 640, then="relu"),
    *depthwise_first(16, 32, 1, 240, 320, "relu"),
    *depthwise_first(32, 32, 2, 240, 320, "relu"),
    *depthwise_first(32, 32, 1, 120, 160, "relu", 2),
    *depthwise_first(32, 64, 2, 120, 160, "relu"),
    *depthwise_first(64, 64, 1, 60, 80, "relu", 3),
    Layer(64, 8, 1, 1, 60, 80, equal=4),
    Layer(8, 16, 3, 1, 60, 80, equal=3),
    *depthwise_first(64, 128, 2, 60, 80, "relu"),
    *depthwise_first(128, 128, 1, 30, 40, "relu", 2),
    *depthwise_first(128, 256, 2, 30, 40, "relu"),
    *depthwise_first(256, 256, 1, 15, 20, "relu"),
]
YOLOX_NANO = [
    Layer(12, 16, 3, 1, 208, 208, then="silu"),
    *depthwise_first(16, 32, 2, 208, 208, "silu"),
    Layer(32, 16, 1, 1, 104, 104, then="silu", equal=2),
    Layer(16, 16, 1, 1, 104, 104, then="silu"),
    *depthwise_first(16, 16, 1, 104, 104, "silu"),
    Layer(32, 32, 1, 1, 104, 104, then="silu"),
    *depthwise_first(32, 64, 2, 104, 104, "silu"),
    Layer(64, 32, 1, 1, 52, 52, then="silu", equal=4),
    *depthwise_first(32, 32, 1, 52, 52, "silu", 5),
    *depthwise_first(64, 128, 2, 52, 52, "silu", 2),
    *depthwise_first(64, 64, 1, 26, 26, "silu", 9),
    *depthwise_first(128, 128, 1, 13, 13, "silu", 3),
    Layer(256, 128, 1, 1, 13, 13, then="silu", equal=2),
]
YOLO_TINY = [
    Layer(3, 16, 3, 1, 416, 416, then="leaky"),
    Layer(16, 32, 3, 1, 208, 208, then="leaky"),
    Layer(32, 64, 3, 1, 104, 104, then="leaky"),
    Layer(64, 128, 3, 1, 52, 52, then="leaky"),
    Layer(128, 256, 3, 1, 26, 26, then="leaky"),
    Layer(256, 512, 3, 1, 13, 13, then="leaky"),
    Layer(512, 255, 1, 1, 13, 13),
]
SIGNS = [
    Layer(3, 32, 5, 1, 30, 30, then="relu"),
    Layer(32, 32, 5, 1, 26, 26, then="relu"),
    Layer(32, 64, 3, 1, 13, 13, then="relu"),
    Layer(64, 64, 3, 1, 11, 11, then="relu"),
]
DS_CNN = [
    Layer(64, 64, 3, 1, 25, 5, 64, "relu", 4),
    Layer(64, 64, 1, 1, 25, 5, then="relu", equal=4),
]
RESNET_8 = [
    Layer(3, 16, 3, 1, 32, 32, then="relu"),
    Layer(16, 16, 3, 1, 32, 32, then="relu", equal=2),
    Layer(16, 32, 3, 2, 32, 32, then="relu"),
    Layer(16, 32, 1, 2, 32, 32),
    Layer(32, 32, 3, 1, 16, 16),
    Layer(32, 64, 3, 2, 16, 16, then="relu"),
    Layer(32, 64, 1, 2, 16, 16),
    Layer(64, 64, 3, 1, 8, 8),
]
MNIST = [
    Layer(1, 8, 5, 1, 28, 28, then="relu"),
    Layer(8, 16, 5, 1, 14, 14, then="relu"),
    Layer(16, 10, 4, 4, 4, 4),
]
FIRST = [
    Layer(3, 64, 11, 4, 224, 224, then="relu"),
    Layer(3, 64, 7, 2, 224, 224, then="relu"),
    Layer(3, 32, 3, 2, 224, 224, then="relu"),
    Layer(1, 32, 3, 1, 28, 28, then="relu"),
    Layer(3, 8, 3, 1, 32, 32, then="relu"),
]
DECODER = [
    Layer(64, 32, 2, 2, 28, 28, then="relu", turned=True),
    Layer(16, 8, 2, 2, 56, 56, then="relu", turned=True),
    Layer(8, 1, 2, 2, 112, 112, turned=True),
    Layer(16, 3, 3, 1, 112, 112),
]
NETWORKS = {
    "YuNet": YUNET,
    "RFB-640": RFB_640,
    "YOLOX-nano": YOLOX_NANO,
    "YOLOv3-tiny": YOLO_TINY,
    "traffic signs": SIGNS,
    "MNIST, 2016": MNIST,
    "DS-CNN": DS_CNN,
    "ResNet-8": RESNET_8,
    "first layers": FIRST,
    "decoder": DECODER,
}


def weights(layer: Layer) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    scale = (2 / (layer.read // layer.groups * layer.taps**2)) ** 0.5
    return (scale * rng.standard_normal(layer.filter)).astype(np.float32), rng.standard_normal(layer.written).astype(np.float32)


def ours(layer: Layer, x: Array, y: Array, threads: int = 1) -> Callable[[], object]:
    f, bias = weights(layer)
    padding = (layer.padding,) * 2

    def network(x: Any) -> Any:
        made = dml.convolution(
            x, f, bias.reshape(1, -1, 1, 1), strides=(layer.stride,) * 2, start_padding=padding, end_padding=padding,
            group_count=layer.groups, direction="BACKWARD" if layer.turned else "FORWARD",
        )  # fmt: skip
        if layer.then == "relu":
            return dml.activation_relu(made)
        if layer.then == "leaky":
            return dml.activation_leaky_relu(made, alpha=0.1)
        if layer.then:
            gate = dml.activation_sigmoid(made)
            return dml.element_wise_multiply(made, gate) if layer.then == "silu" else gate
        return made

    graph = dml.graph(network, x=dml.TensorDesc.of(x))
    compiled = graph.compile(dml.Device(threads=threads))
    return compiled.bind(x=x, output=y).execute


def theirs(layer: Layer, x: Array, y: Array, threads: int = 1) -> Callable[[], object] | None:
    f, bias = weights(layer)
    attributes = {"strides": [layer.stride] * 2, "group": layer.groups, "pads": [layer.padding] * 4}
    nodes: list[Node] = [
        ("ConvTranspose" if layer.turned else "Conv", ["x", "f", "b"], ["c" if layer.then else "y"], attributes)
    ]
    if layer.then in ("relu", "leaky", "sigmoid"):
        name = {"relu": "Relu", "leaky": "LeakyRelu", "sigmoid": "Sigmoid"}[layer.then]
        nodes.append((name, ["c"], ["y"], {"alpha": 0.1} if layer.then == "leaky" else {}))
    elif layer.then:
        nodes += [("Sigmoid", ["c"], ["s"], {}), ("Mul", ["c", "s"], ["y"], {})]
    return session(nodes, {"x": x}, {"y": y}, {"f": f, "b": bias}, threads)


def run(only: str = "", threads: int = 1, seconds: float = 0.1) -> list[dict[str, Any]]:
    """only: a word of the names of networks."""
    rows: list[dict[str, Any]] = []
    ratios: list[float] = []
    limit = multiply_adds()
    for network, layers in NETWORKS.items():
        if only not in network:
            continue
        sums = {"ours": 0.0, "theirs": 0.0}
        print(f"{network}: microseconds, of the limit, onnxruntime's microseconds, and our time over these")
        for layer in layers:
            x = np.random.default_rng(1).standard_normal((1, layer.read, layer.high, layer.wide)).astype(np.float32)
            y, z = np.empty(layer.output, np.float32), np.empty(layer.output, np.float32)
            calls = {"ours": ours(layer, x, y, threads)}
            if (other := theirs(layer, x, z, threads)) is not None:
                calls["theirs"] = other
            if limit is not None:
                calls["limit"] = limit[0]
            # other processes may interrupt a call on one thread
            found = best(calls, seconds=seconds, clock=time.thread_time if threads == 1 else time.perf_counter)
            if other is not None:
                np.testing.assert_allclose(y, z, rtol=1e-3, atol=1e-3)
            spent = found.pop("limit", float("nan"))
            share = layer.multiply_adds / limit[1] * spent / found["ours"] / threads if limit is not None else spent
            row = {"network": network, "layer": str(layer), "count": layer.equal, "of_limit": share} | {
                k: 1e3 * s for k, s in found.items()
            }
            if other is not None:
                ratios.append(found["ours"] / found["theirs"])
                row["ratio"] = ratios[-1]
                sums = {k: sums[k] + layer.equal * s for k, s in found.items()}
                more = f"{1e6 * found['theirs']:9.1f} {ratios[-1]:6.2f}"
            rows.append(row)
            ours_ = f"{1e6 * found['ours']:9.1f} {share:5.2f}"
            print(f"  {layer!s:60} {ours_} {more if other is not None else ''}  x {layer.equal}", flush=True)
        print(f"  all: {1e6 * sums['ours']:.1f} {1e6 * sums['theirs']:.1f} {sums['ours'] / sums['theirs']:.2f}")
    print(f"geometric mean of {len(ratios)} layers: {exp(sum(map(log, ratios)) / len(ratios)):.2f}")
    return rows


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "")
