"""Integer networks with one fault: the tensors that a runtime with this fault would compute, in NumPy's integers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, numpy_helper

from anydml.onnx.compare_models import cut, named
from anydml.onnx.model import load

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from digits import export  # of the folder above

Array = npt.NDArray[Any]

NODES = ("conv1", "conv2", "classify")  # the nodes with weights, in order
SCALES = (0.02, 0.03, 0.05, 0.1, 0.15)  # decimal scales, which make many results nearly ties


def network(random: np.random.Generator, images: int) -> tuple[ModelProto, dict[str, Array]]:
    """The digits' integer network with random weights and scales, and random images."""
    q: dict[str, Array] = {"image.scale": np.float32(1 / 255), "image.zero_point": np.array(0, np.uint8)}
    shapes = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "classify": (64, 10)}
    for name, shape in shapes.items():
        output = "logits" if name == "classify" else name
        columns = shape[1] if name == "classify" else shape[0]
        q[f"{name}.weight"] = random.integers(-127, 128, shape).astype(np.int8)
        q[f"{name}.weight_scale"] = random.choice(SCALES, columns).astype(np.float32)
        q[f"{name}.weight_zero_point"] = np.zeros(columns, np.int8)
        q[f"{name}.bias"] = random.integers(-2000, 2000, columns).astype(np.int32)
        source = q["image.scale"] if name == "conv1" else q[f"{'conv1' if name == 'conv2' else 'conv2'}.scale"]
        terms = np.prod(shape) / columns
        # standard deviation of the real outputs, about
        spread = float(source) * float(np.mean(q[f"{name}.weight_scale"])) * 73 * 100 * np.sqrt(terms)
        q[f"{output}.scale"] = np.float32(round(spread / 60, 1 - int(np.floor(np.log10(spread / 60)))))
        q[f"{output}.zero_point"] = np.array(128 if name == "classify" else 0, np.uint8)
    image = (random.integers(0, 256, (images, 1, 8, 8)) / 255).astype(np.float32)
    return named(export.qlinear_cnn(q)), {"image": image}


def tensors(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor, computed exactly."""
    return load(model).run(inputs, keep="all")


def followed(model: ModelProto, known: dict[str, Array], node: str, output: Array) -> dict[str, Array]:
    """The tensors after one node's output is replaced, with all later nodes computed from it."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    found = {**known, node: output}
    later = False
    for proto in model.graph.node:
        if later:
            made, given = cut(model, [proto], {**constants, **found}, constants, list(proto.output))
            found |= load(made).run(given)
        later = later or proto.name == node
    return found


def operands(model: ModelProto, node: NodeProto, known: Mapping[str, Array]) -> list[Array]:
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return [known[name] if name in known else constants[name] for name in node.input]


def rows(node: NodeProto, given: list[Array], channels_last: bool) -> tuple[Array, Array]:
    """The matrices of a product, or of a 3 x 3 convolution that keeps height and width."""
    x, w = given[0], given[3]
    if node.op_type == "QLinearMatMul":
        return x, w
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    turned = windows.transpose((0, 2, 3, 4, 5, 1) if channels_last else (0, 2, 3, 1, 4, 5))
    w = w.transpose((2, 3, 1, 0) if channels_last else (1, 2, 3, 0))
    return turned.reshape(-1, w[..., 0].size), w.reshape(-1, w.shape[-1])


def with_fault(model: ModelProto, node: NodeProto, known: Mapping[str, Array], fault: str, channels_last: bool) -> Array:
    """A node's output with a fault: "saturation", each sum of two products in 16 bits, or "float32" requantisation."""
    given = operands(model, node, known)
    x_scale, w_scale, y_scale, y_zero_point = given[1], given[4], given[6], given[7]
    a, b = (m.astype(np.int64) for m in rows(node, given, channels_last))
    if fault == "saturation":
        products = np.pad(a[:, :, None] * b[None], ((0, 0), (0, a.shape[1] % 2), (0, 0)))
        sums = np.clip(products[:, ::2] + products[:, 1::2], -32768, 32767).sum(axis=1)
    else:
        sums = a @ b
    if len(given) > 8:
        sums = sums + given[8]
    if fault == "float32":
        scaled = sums.astype(np.float32) * (x_scale * w_scale / y_scale)
        assert scaled.dtype == np.float32
        rounded = np.rint(scaled).astype(np.int64)
    else:  # exact, in integers: in float64, ties of decimal scales would be undecided
        m, n = [], []
        for s in np.broadcast_to(w_scale, sums.shape[-1:]):
            top, bottom = (float(x_scale) * float(s)).as_integer_ratio()
            up, down = float(y_scale).as_integer_ratio()
            m.append(top * down)
            n.append(bottom * up)
        rounded = np.array([[_half_even(int(q) * t, d) for q, t, d in zip(row, m, n, strict=True)] for row in sums])
    flat: Array = np.clip(rounded + int(y_zero_point), 0, 255).astype(np.uint8)
    if node.op_type == "QLinearMatMul":
        return flat
    n, _, height, width = given[0].shape
    return np.ascontiguousarray(flat.reshape(n, height, width, -1).transpose(0, 3, 1, 2))


def _half_even(top: int, bottom: int) -> int:
    low, rest = divmod(top, bottom)
    twice = 2 * rest
    return low + (twice > bottom or (twice == bottom and low % 2 == 1))
