"""Evaluates the graphs of the binding's samples in float64, with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from anydml import GraphDesc, OperatorNode
from anydml.graphs.desc import tensor_names

Array = NDArray[np.float64]


def evaluate(desc: GraphDesc, inputs: Mapping[int, NDArray[np.float32]]) -> list[Array]:
    """The outputs of a graph for the arrays that are bound to its inputs, in memory order."""
    memory: dict[tuple[int, int], Array] = {}
    for number, node in enumerate(desc.nodes):
        assert isinstance(node, OperatorNode)
        sources: dict[int, Array] = {
            e.to_node_input_index: inputs[e.graph_input_index].astype(np.float64)
            for e in desc.input_edges
            if e.to_node_index == number
        }
        for e in desc.intermediate_edges:
            if e.to_node_index == number:
                sources[e.to_node_input_index] = memory[e.from_node_index, e.from_node_output_index]
        names = tensor_names(node.desc, "input")
        tensors = {name: t for name, _, t in node.desc.tensors()}
        given = {name: laid_out(sources[i], tensors[name]) for i, name in enumerate(names) if name}
        made = OPERATORS[node.desc.spec.name](node.desc, given)
        memory[number, 0] = np.ascontiguousarray(made).reshape(-1)
    return [memory[e.from_node_index, e.from_node_output_index] for e in desc.output_edges]


def laid_out(x: Array, t: Any) -> Array:
    return as_strided(x, t.sizes, [8 * s for s in t.explicit_strides])


def activated(desc: Any, x: Array) -> Array:
    activation = desc.fused_activation
    return x if activation is None else OPERATORS[activation.spec.name](activation, {"input_tensor": x})


def windows(x: Array, sizes: Any, desc: Any, fill: float) -> Array:
    """The windows of an image, with dimensions batch, channel, position (two), element within the window (two)."""
    pads = [(0, 0), (0, 0), *zip(desc.start_padding, desc.end_padding, strict=True)]
    found = sliding_window_view(np.pad(x, pads, constant_values=fill), tuple(sizes), (2, 3))
    return found[:, :, :: desc.strides[0], :: desc.strides[1]]


def convolution(d: Any, x: dict[str, Array]) -> Array:
    image, filters, steps = x["input_tensor"], x["filter_tensor"], d.strides
    assert (set(d.dilations), d.mode.name) == ({1}, "CROSS_CORRELATION")
    first, last = d.start_padding, d.end_padding
    if d.direction.name == "BACKWARD":  # an image with zeros between its elements, and a reversed filter
        (n, c, h, w), (s, t) = image.shape, steps
        dilated = np.zeros((n, c, (h - 1) * s + 1, (w - 1) * t + 1))
        dilated[:, :, ::s, ::t] = image
        image, steps = dilated, (1, 1)
        filters = filters.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
        first = [k - 1 - p for k, p in zip(filters.shape[2:], first, strict=True)]
        along = zip(d.output_tensor.sizes[2:], filters.shape[2:], image.shape[2:], first, strict=True)
        last = [o + k - 1 - n - before for o, k, n, before in along]
    padded = np.pad(image, [(0, 0), (0, 0), *zip(first, last, strict=True)])
    made = np.zeros(d.output_tensor.sizes)
    (h, w), (s, t) = made.shape[2:], steps
    of_group, groups = filters.shape[1], d.group_count
    each = made.shape[1] // groups
    for group in range(groups):
        channels = padded[:, group * of_group : (group + 1) * of_group]
        outputs = slice(group * each, (group + 1) * each)
        for u, v in np.ndindex(*filters.shape[2:]):
            moved = channels[:, :, u : u + (h - 1) * s + 1 : s, v : v + (w - 1) * t + 1 : t]
            made[:, outputs] += np.tensordot(filters[outputs, :, u, v], moved, (1, 1)).swapaxes(0, 1)
    return activated(d, made + x["bias_tensor"] if "bias_tensor" in x else made)


def normalized(d: Any, x: dict[str, Array]) -> Array:
    axes = tuple(d.axes)
    centred = x["input_tensor"] - x["input_tensor"].mean(axes, keepdims=True)
    made = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + d.epsilon)
    return activated(d, made * x["scale_tensor"] + x["bias_tensor"])


def batch_normalized(d: Any, x: dict[str, Array]) -> Array:
    made = (x["input_tensor"] - x["mean_tensor"]) / np.sqrt(x["variance_tensor"] + d.epsilon)
    return activated(d, made * x["scale_tensor"] + x["bias_tensor"])


def softmax(d: Any, x: dict[str, Array]) -> Array:
    powers = np.exp(x["input_tensor"] - x["input_tensor"].max())
    made: Array = powers / powers.sum()  # of one row, as in the samples
    return made


def sliced(d: Any, x: dict[str, Array]) -> Array:
    along = zip(d.input_window_offsets, d.input_window_sizes, d.input_window_strides, strict=True)
    return x["input_tensor"][tuple(slice(o, o + n, s) for o, n, s in along)]


def padded(d: Any, x: dict[str, Array]) -> Array:
    modes: dict[str, Any] = {"REFLECTION": "reflect", "CONSTANT": "constant", "EDGE": "edge"}
    pads = [*zip(d.start_padding, d.end_padding, strict=True)]
    return np.pad(x["input_tensor"], pads, mode=modes[d.padding_mode.name])


OPERATORS: dict[str, Callable[[Any, dict[str, Array]], Array]] = {
    "CONVOLUTION": convolution,
    "MEAN_VARIANCE_NORMALIZATION1": normalized,
    "BATCH_NORMALIZATION": batch_normalized,
    "ACTIVATION_SOFTMAX": softmax,
    "SLICE1": sliced,
    "PADDING": padded,
    "ACTIVATION_RELU": lambda d, x: np.maximum(x["input_tensor"], 0),
    "ACTIVATION_TANH": lambda d, x: np.tanh(x["input_tensor"]),
    "ACTIVATION_IDENTITY": lambda d, x: x["input_tensor"],
    "ACTIVATION_LINEAR": lambda d, x: d.alpha * x["input_tensor"] + d.beta,
    "ELEMENT_WISE_ADD1": lambda d, x: activated(d, x["a_tensor"] + x["b_tensor"]),
    "ELEMENT_WISE_MULTIPLY": lambda d, x: x["a_tensor"] * x["b_tensor"],
    "GEMM": lambda d, x: d.alpha * (x["a_tensor"] @ x["b_tensor"]),
    "JOIN": lambda d, x: np.concatenate([x[f"input_tensors[{i}]"] for i in range(len(x))], d.axis),
    "MAX_POOLING2": lambda d, x: windows(x["input_tensor"], d.window_size, d, -np.inf).max((4, 5)),
    "AVERAGE_POOLING": lambda d, x: windows(x["input_tensor"], d.window_size, d, 0.0).mean((4, 5)),
    "VALUE_SCALE_2D": lambda d, x: x["input_tensor"] * d.scale + np.reshape(d.bias, (1, -1, 1, 1)),
}
