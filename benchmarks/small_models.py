"""Small networks as ONNX models, whole, beside onnxruntime on one thread: part `models` of `make bench`.

Architectures are those that were published, without the last steps that choose boxes; weights are random. A model is run by
`Model.run`, as users run it, and as the bound call of its graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anydml as dml
import anydml.onnx
from benchmarks.timing import best

Array = NDArray[Any]
TWICE = 2.0  # the most of onnxruntime's time for a network, and in the median
MEDIAN = 1.4


class Net:
    """Collects the nodes of a model. Tensors are names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.random = np.random.default_rng(0)

    def constant(self, x: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def weights(self, *sizes: int, scale: float = 0.125) -> str:
        return self.constant((scale * self.random.standard_normal(sizes)).astype(np.float32))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def convolution(
        self, x: str, read: int, written: int, taps: int = 3, stride: int = 1, groups: int = 1, then: str = "Relu",
        padding: int | None = None, bias: bool = True,
    ) -> str:  # fmt: skip
        scale = (2 / (read // groups * taps**2)) ** 0.5
        inputs = [x, self.weights(written, read // groups, taps, taps, scale=scale)]
        inputs += [self.weights(written)] if bias else []
        pads = [taps // 2 if padding is None else padding] * 4
        return self.then(self.node("Conv", *inputs, strides=[stride] * 2, pads=pads, group=groups), then)

    def then(self, x: str, operator: str) -> str:
        if operator == "Silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        return self.node(operator, x) if operator else x

    def doubling(self, x: str, read: int, written: int) -> str:
        """A transposed convolution that doubles both sides, and RELU."""
        inputs = self.weights(read, written, 2, 2, scale=(2 / read) ** 0.5), self.weights(written)
        return self.then(self.node("ConvTranspose", x, *inputs, strides=[2, 2]), "Relu")

    def largest(self, x: str, size: int = 2, stride: int = 2) -> str:
        return self.node("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2 if size % 2 else 0] * 4)

    def doubled(self, x: str) -> str:
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.node(
            "Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )

    def rows(self, x: str, width: int) -> str:
        """Places as rows, channels innermost."""
        return self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 3, 1]), self.constant(np.array([1, -1, width])))

    def model(self, sizes: Sequence[int], outputs: Sequence[str]) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def yunet() -> ModelProto:
    """YuNet, a detector of faces."""
    net = Net()

    def pair(x: str, read: int, written: int, then: str = "Relu") -> str:
        return net.convolution(net.convolution(x, read, written, 1, then=""), written, written, groups=written, then=then)

    x = net.largest(pair(net.convolution("x", 3, 16, stride=2), 16, 16))
    x = net.largest(pair(pair(x, 16, 16), 16, 64))
    kept = []
    for _ in range(3):
        kept.append(pair(pair(x, 64, 64), 64, 64))
        x = net.largest(kept[-1])
    found = [pair(kept[2], 64, 64)]
    for other in (kept[1], kept[0]):
        found.append(pair(net.node("Add", other, net.doubled(found[-1])), 64, 64))
    outputs = []
    for x in found:
        own = pair(x, 64, 64)
        for width, then in ((1, "Sigmoid"), (1, "Sigmoid"), (4, ""), (10, "")):
            outputs.append(net.then(net.rows(pair(own, 64, width, ""), width), then))
    return net.model([1, 3, 320, 320], outputs)


def yolox_nano() -> ModelProto:
    """YOLOX-nano, a detector of objects."""
    net, silu = Net(), "Silu"

    def separable(x: str, read: int, written: int, stride: int = 1) -> str:
        return net.convolution(net.convolution(x, read, read, 3, stride, read, silu), read, written, 1, then=silu)

    def crossed(x: str, read: int, written: int, count: int, adds: bool = True) -> str:
        half = written // 2
        own, past = (net.convolution(x, read, half, 1, then=silu) for _ in range(2))
        for _ in range(count):
            made = separable(net.convolution(own, half, half, 1, then=silu), half, half)
            own = net.node("Add", made, own) if adds else made
        return net.convolution(net.node("Concat", own, past, axis=1), written, written, 1, then=silu)

    def every_second(x: str, first: int, axis: int) -> str:
        return net.node("Slice", x, *(net.constant(np.array([n])) for n in (first, 1 << 31, axis, 2)))

    def joined(*xs: str) -> str:
        return net.node("Concat", *xs, axis=1)

    lines = [every_second("x", n, 2) for n in range(2)]
    x = joined(*(every_second(line, n, 3) for n in range(2) for line in lines))
    x = separable(net.convolution(x, 12, 16, then=silu), 16, 32, 2)
    kept = []
    for read, count in ((32, 1), (64, 3), (128, 3)):
        kept.append(crossed(x, read, read, count))
        x = separable(kept[-1], read, 2 * read, 2)
    x = net.convolution(x, 256, 128, 1, then=silu)
    x = net.convolution(joined(x, *(net.largest(x, n, 1) for n in (5, 9, 13))), 512, 256, 1, then=silu)
    x = net.convolution(crossed(x, 256, 256, 1, adds=False), 256, 128, 1, then=silu)
    y = net.convolution(crossed(joined(net.doubled(x), kept[2]), 256, 128, 1, adds=False), 128, 64, 1, then=silu)
    first = crossed(joined(net.doubled(y), kept[1]), 128, 64, 1, adds=False)
    second = crossed(joined(separable(first, 64, 64, 2), y), 128, 128, 1, adds=False)
    third = crossed(joined(separable(second, 128, 128, 2), x), 256, 256, 1, adds=False)
    heads = []
    for x, read in ((first, 64), (second, 128), (third, 256)):
        stem = net.convolution(x, read, 64, 1, then=silu)
        classes, boxes = (separable(separable(stem, 64, 64), 64, 64) for _ in range(2))
        parts = [(boxes, 4, ""), (boxes, 1, "Sigmoid"), (classes, 80, "Sigmoid")]
        head = joined(*(net.convolution(x, 64, width, 1, then=then) for x, width, then in parts))
        heads.append(net.node("Reshape", head, net.constant(np.array([1, 85, -1]))))
    return net.model([1, 3, 416, 416], [net.node("Transpose", net.node("Concat", *heads, axis=2), perm=[0, 2, 1])])


def yolov3_tiny() -> ModelProto:
    """YOLOv3-tiny's layers up to its first head, with batch normalisation that is not folded."""
    net, x, read = Net(), "x", 3
    for written in (16, 32, 64, 128, 256, 512):
        x = net.convolution(x, read, written, then="", bias=False)
        scales = [net.constant(net.random.uniform(0.5, 1.5, written).astype(np.float32)) for _ in range(2)]
        x = net.node("BatchNormalization", x, scales[0], net.weights(written), net.weights(written), scales[1])
        x, read = net.node("LeakyRelu", x, alpha=0.1), written
        x = x if written == 512 else net.largest(x)
    return net.model([1, 3, 416, 416], [net.convolution(x, 512, 255, 1, then="")])


def yolov2_tiny() -> ModelProto:
    """Tiny YOLOv2 of the ONNX model zoo, with batch normalisation that is not folded."""
    net, x, read = Net(), "x", 3
    for written in (16, 32, 64, 128, 256, 512, 1024, 1024):
        x = net.convolution(x, read, written, then="", bias=False)
        scales = [net.constant(net.random.uniform(0.5, 1.5, written).astype(np.float32)) for _ in range(2)]
        x = net.node("BatchNormalization", x, scales[0], net.weights(written), net.weights(written), scales[1])
        x, read = net.node("LeakyRelu", x, alpha=0.1), written
        x = net.largest(x) if written < 512 else x
    return net.model([1, 3, 416, 416], [net.convolution(x, 1024, 125, 1, then="")])


def resnet_8() -> ModelProto:
    """ResNet-8 for images of 32 x 32, as in MLPerf Tiny."""
    net = Net()
    x, read = net.convolution("x", 3, 16), 16
    for written, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.convolution(net.convolution(x, read, written, stride=stride), written, written, then="")
        past = x if stride == 1 else net.convolution(x, read, written, 1, stride, then="")
        x, read = net.node("Relu", net.node("Add", y, past)), written
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model([1, 3, 32, 32], [net.node("Softmax", net.node("Gemm", x, net.weights(64, 10), net.weights(10)))])


def keywords() -> ModelProto:
    """DS-CNN for spoken words, as in MLPerf Tiny."""
    net = Net()
    first = net.weights(64, 1, 10, 4), net.weights(64)
    x = net.then(net.node("Conv", "x", *first, strides=[2, 2], pads=[4, 1, 5, 1]), "Relu")
    for _ in range(4):
        x = net.convolution(net.convolution(x, 64, 64, groups=64), 64, 64, 1)
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model([1, 1, 49, 10], [net.node("Softmax", net.node("Gemm", x, net.weights(64, 12), net.weights(12)))])


def u_net() -> ModelProto:
    """A small U-Net that marks regions, with transposed convolutions."""
    net, x, read, kept = Net(), "x", 3, []
    for written in (16, 32, 64):
        x = net.convolution(net.convolution(x, read, written), written, written)
        kept.append(x)
        x, read = net.largest(x), written
    x, read = net.convolution(net.convolution(x, 64, 128), 128, 128), 128
    for written in (64, 32, 16):
        x = net.node("Concat", net.doubling(x, read, written), kept.pop(), axis=1)
        x, read = net.convolution(net.convolution(x, 2 * written, written), written, written), written
    return net.model([1, 3, 128, 128], [net.convolution(x, 16, 1, 1, then="Sigmoid")])


def rfb_640() -> ModelProto:
    """The faces network version-RFB-640."""
    net = Net()

    def pair(x: str, read: int, written: int, stride: int = 1) -> str:
        return net.convolution(net.convolution(x, read, read, 3, stride, read), read, written, 1)

    x = net.convolution("x", 3, 16, stride=2)
    for read, written, stride in ((16, 32, 1), (32, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)):
        x = pair(x, read, written, stride)
    ways = []
    for widths in ((8, 16, 16), (8, 16, 16), (8, 12, 16, 16)):
        way = net.convolution(x, 64, 8, 1, then="")
        for k, (read, written) in enumerate(pairwise(widths)):
            way = net.convolution(way, read, written, then="Relu" if k + 2 < len(widths) else "")
        ways.append(way)
    y = net.convolution(net.node("Concat", *ways, axis=1), 48, 64, 1, then="")
    kept = [net.node("Relu", net.node("Add", y, net.convolution(x, 64, 64, 1, then="")))]
    kept.append(pair(pair(pair(kept[0], 64, 128, 2), 128, 128), 128, 128))
    kept.append(pair(pair(kept[1], 128, 256, 2), 256, 256))
    small = net.convolution(kept[2], 256, 64, 1)
    kept.append(net.convolution(net.convolution(small, 64, 64, 3, 2, 64), 64, 256, 1))
    found = []
    for width in (2, 4):
        rows = []
        for x, read, boxes in zip(kept, (64, 128, 256, 256), (3, 2, 2, 3), strict=True):
            if read == 256 and boxes == 3:
                head = net.convolution(x, read, boxes * width, then="")
            else:
                head = net.convolution(net.convolution(x, read, read, groups=read), read, boxes * width, 1, then="")
            rows.append(net.rows(head, width))
        found.append(net.node("Concat", *rows, axis=1))
    return net.model([1, 3, 480, 640], [net.node("Softmax", found[0], axis=2), found[1]])


def signs() -> ModelProto:
    """A classifier of traffic signs, as tutorials have it."""
    net = Net()
    x = net.convolution(net.convolution("x", 3, 32, 5, padding=0), 32, 32, 5, padding=0)
    x = net.largest(net.convolution(net.convolution(net.largest(x), 32, 64, padding=0), 64, 64, padding=0))
    x = net.node("Relu", net.node("Gemm", net.node("Flatten", x), net.weights(1024, 256, scale=0.05), net.weights(256)))
    return net.model([1, 3, 32, 32], [net.node("Softmax", net.node("Gemm", x, net.weights(256, 43), net.weights(43)))])


def mnist() -> ModelProto:
    """The network for MNIST in the ONNX model zoo, of 2016."""
    net, x, read = Net(), "x", 1
    for written, size in ((8, 2), (16, 3)):
        x = net.convolution(x, read, written, 5, then="", bias=False)
        x, read = net.largest(net.node("Relu", net.node("Add", x, net.weights(written, 1, 1))), size, size), written
    flat = net.node("Reshape", x, net.constant(np.array([1, -1])))
    product = net.node("MatMul", flat, net.weights(400, 10))
    return net.model([1, 1, 28, 28], [net.node("Add", product, net.weights(1, 10))])


NETWORKS: dict[str, Callable[[], ModelProto]] = {
    "YuNet, 320 x 320": yunet,
    "YOLOX-nano, 416 x 416": yolox_nano,
    "YOLOv3-tiny, 416 x 416": yolov3_tiny,
    "RFB-640, 480 x 640": rfb_640,
    "YOLOv2-tiny, 416 x 416": yolov2_tiny,
    "ResNet-8, 32 x 32": resnet_8,
    "DS-CNN, 49 x 10": keywords,
    "U-Net, 128 x 128": u_net,
    "traffic signs, 32 x 32": signs,
    "MNIST of 2016, 28 x 28": mnist,
}


def run(seconds: float = 0.5) -> list[dict[str, Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    device = dml.Device(threads=1, feature_level="EXTENDED")
    rows, ratios = [], []
    for name, made in NETWORKS.items():
        proto = made()
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        sizes = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
        x = np.random.default_rng(0).uniform(0, 1, sizes).astype(np.float32)
        model = anydml.onnx.load(proto)
        graph = model.graph()
        outputs = {n: np.empty(t.sizes, np.float32) for n, t in graph.outputs.items()}
        bound = graph.compile(device).bind(x=x, **outputs).execute
        for y, other in zip(model.run({"x": x}, device=device).values(), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(y, other, rtol=1e-2, atol=1e-2)
        calls: dict[str, Callable[[], object]] = {
            "ours": partial(model.run, {"x": x}, device=device),
            "bound": bound,
            "onnxruntime": partial(session.run, None, {"x": x}),
        }
        found = best(calls, seconds=seconds, clock=time.thread_time)
        ratios.append(found["ours"] / found["onnxruntime"])
        rows.append({"model": name, "milliseconds": {k: 1e3 * s for k, s in found.items()}, "ratio": ratios[-1]})
        print(
            f"{name:26} {1e3 * found['ours']:8.3f} ms, bound {1e3 * found['bound']:8.3f}, onnxruntime "
            f"{1e3 * found['onnxruntime']:8.3f}: {ratios[-1]:.2f} of its time, at most {TWICE}: "
            f"{'met' if ratios[-1] <= TWICE else 'MISSED'}",
            flush=True,
        )
    print(f"median {median(ratios):.2f}, at most {MEDIAN}: {'met' if median(ratios) <= MEDIAN else 'MISSED'}")
    return rows
