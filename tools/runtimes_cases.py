"""Float operators as anydml, NumPy, onnxruntime and torch compute them: the cases of `tools/runtimes.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import anydml as dml
from runtimes_maps import BINARY, F32, REDUCED, UNARY, Array, Inputs, Operator, by_torch, node

EPSILON = 1e-5


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _log_softmax(x: Array) -> Array:
    less = x - x.max(-1, keepdims=True)
    return np.asarray(less - np.log(np.exp(less).sum(-1, keepdims=True)))


def _layer(a: Inputs) -> Array:
    x = a["input"]
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + F32(EPSILON)) * a["scale"] + a["bias"])


def _batch(a: Inputs) -> Array:
    scale = a["scale"] / np.sqrt(a["variance"] + F32(EPSILON))
    return np.asarray(a["input"] * scale + (a["bias"] - a["mean"] * scale))


def _instance(a: Inputs) -> Array:
    x, axes = a["input"], (2, 3)
    mean = x.mean(axes, keepdims=True)
    variance = np.maximum((x * x).mean(axes, keepdims=True) - mean * mean, 0)
    return np.asarray((x - mean) / np.sqrt(variance + F32(EPSILON)) * a["scale"] + a["bias"])


def _flat(a: Inputs) -> list[Array]:
    return [x.reshape(-1) if name not in ("input",) else x for name, x in a.items()]


def _torch_batch(t: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any) -> Any:
    return t.nn.functional.batch_norm(
        x, mean.reshape(-1), variance.reshape(-1), scale.reshape(-1), bias.reshape(-1), eps=EPSILON
    )


def _onnx_batch(a: Inputs) -> Array:
    x, mean, variance, scale, bias = _flat(a)
    return node("BatchNormalization", x, scale, bias, mean, variance, epsilon=EPSILON)


def _lp_numpy(a: Inputs) -> Array:
    x = a["input"]
    return np.asarray(x / np.sqrt((x * x).sum(1, keepdims=True)))


CHANNELS = (1, 6, 1, 1)
NORMALISED = {"normalize_variance": True, "epsilon": EPSILON}
ROWS = (
    Operator(
        "softmax",
        dml.activation_softmax1,
        {"axes": (1,)},
        {"input": (24, 257)},
        {
            "numpy": lambda a: _softmax(a["input"]),
            "onnxruntime": lambda a: node("Softmax", a["input"], axis=1),
            "torch": by_torch(lambda t, x: x.softmax(1)),
        },
    ),
    Operator(
        "log softmax",
        dml.activation_log_softmax1,
        {"axes": (1,)},
        {"input": (24, 257)},
        {
            "numpy": lambda a: _log_softmax(a["input"]),
            "onnxruntime": lambda a: node("LogSoftmax", a["input"], axis=1),
            "torch": by_torch(lambda t, x: x.log_softmax(1)),
        },
    ),
    Operator(
        "batch normalisation",
        dml.batch_normalization,
        {"epsilon": EPSILON},
        {"input": (2, 6, 14, 15), "mean": CHANNELS, "variance": CHANNELS},
        {"numpy": _batch, "onnxruntime": _onnx_batch, "torch": by_torch(_torch_batch)},
        {"scale": CHANNELS, "bias": CHANNELS},
        ("variance",),
    ),
    Operator(
        "batch normalisation, training",
        dml.batch_normalization_training,
        {"epsilon": EPSILON},
        {"input": (2, 6, 14, 15)},
        {
            "torch": by_torch(
                lambda t, x, scale, bias: t.nn.functional.batch_norm(
                    x, None, None, scale.reshape(-1), bias.reshape(-1), training=True, eps=EPSILON
                )
            )
        },
        {"scale": CHANNELS, "bias": CHANNELS},
        output="output",
    ),
    Operator(
        "layer normalisation",
        dml.mean_variance_normalization1,
        {"axes": (1,), **NORMALISED},
        {"input": (24, 257)},
        {
            "numpy": _layer,
            "onnxruntime": lambda a: node(
                "LayerNormalization", a["input"], a["scale"].reshape(-1), a["bias"].reshape(-1), axis=-1, epsilon=EPSILON
            ),
            "torch": by_torch(
                lambda t, x, s, b: t.nn.functional.layer_norm(x, (257,), s.reshape(-1), b.reshape(-1), eps=EPSILON)
            ),
        },
        {"scale": (1, 257), "bias": (1, 257)},
    ),
    Operator(
        "instance normalisation",
        dml.mean_variance_normalization1,
        {"axes": (2, 3), **NORMALISED},
        {"input": (2, 6, 14, 15)},
        {
            "numpy": _instance,
            "onnxruntime": lambda a: node(
                "InstanceNormalization", a["input"], a["scale"].reshape(-1), a["bias"].reshape(-1), epsilon=EPSILON
            ),
            "torch": by_torch(
                lambda t, x, s, b: t.nn.functional.instance_norm(x, weight=s.reshape(-1), bias=b.reshape(-1), eps=EPSILON)
            ),
        },
        {"scale": CHANNELS, "bias": CHANNELS},
    ),
    Operator(
        "L2 normalisation",
        dml.lp_normalization,
        {"axis": 1, "epsilon": 0.0, "p": 2},
        {"input": (24, 257)},
        {
            "numpy": _lp_numpy,
            "onnxruntime": lambda a: node("LpNormalization", a["input"], axis=1, p=2),
            "torch": by_torch(lambda t, x: t.nn.functional.normalize(x, dim=1, eps=0.0)),
        },
    ),
    Operator(
        "running sum",
        dml.cumulative_summation,
        {"axis": 1},
        {"input": (24, 257)},
        {
            "numpy": lambda a: np.cumsum(a["input"], axis=1, dtype=F32),
            "torch": by_torch(lambda t, x: x.cumsum(1)),
        },
    ),
)


def _product(a: Inputs) -> Array:
    return np.asarray(a["a"] @ a["b"])


def _windows(x: Array, size: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))


def _local_numpy(a: Inputs) -> Array:
    x = a["input"]
    squares = np.pad(x * x, ((0, 0), (2, 2), (0, 0), (0, 0)))
    total = np.lib.stride_tricks.sliding_window_view(squares, 5, axis=1).sum(-1)
    return np.asarray(x / (F32(1) + F32(1e-4 / 5) * total) ** F32(0.75))


IMAGE, FILTER = (1, 8, 13, 15), (7, 8, 3, 3)
WINDOW = {"window_size": (3, 3)}
PRODUCTS = (
    Operator(
        "matrix product",
        dml.gemm,
        {},
        {"a": (33, 257), "b": (257, 35)},
        {
            "numpy": _product,
            "onnxruntime": lambda a: node("MatMul", a["a"], a["b"]),
            "torch": by_torch(lambda t, x, y: x @ y),
        },
    ),
    Operator(
        "convolution",
        dml.convolution,
        {},
        {"input": IMAGE},
        {
            "numpy": lambda a: np.asarray(np.einsum("ncyxhw,ochw->noyx", _windows(a["input"], 3), a["filter"], dtype=F32)),
            "onnxruntime": lambda a: node("Conv", a["input"], a["filter"]),
            "torch": by_torch(lambda t, x, w: t.nn.functional.conv2d(x, w)),
        },
        {"filter": FILTER},
    ),
    Operator(
        "transposed convolution",
        dml.convolution,
        {"direction": "BACKWARD"},
        {"input": (1, 7, 9, 11)},
        {
            "onnxruntime": lambda a: node("ConvTranspose", a["input"], a["filter"]),
            "torch": by_torch(lambda t, x, w: t.nn.functional.conv_transpose2d(x, w)),
        },
        {"filter": FILTER},
    ),
    Operator(
        "average pooling",
        dml.average_pooling,
        WINDOW,
        {"input": IMAGE},
        {
            "numpy": lambda a: _windows(a["input"], 3).mean((-1, -2)),
            "onnxruntime": lambda a: node("AveragePool", a["input"], kernel_shape=(3, 3)),
            "torch": by_torch(lambda t, x: t.nn.functional.avg_pool2d(x, 3, stride=1)),
        },
    ),
    Operator(
        "L2 pooling",
        dml.lp_pooling,
        {**WINDOW, "p": 2},
        {"input": IMAGE},
        {
            "numpy": lambda a: np.sqrt((_windows(a["input"], 3) ** 2).sum((-1, -2))),
            "onnxruntime": lambda a: node("LpPool", a["input"], kernel_shape=(3, 3), p=2),
            "torch": by_torch(lambda t, x: t.nn.functional.lp_pool2d(x, 2.0, 3, stride=1)),
        },
    ),
    Operator(
        "local response normalisation",
        dml.local_response_normalization,
        {"local_size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
        {"input": IMAGE},
        {
            "numpy": _local_numpy,
            "onnxruntime": lambda a: node("LRN", a["input"], size=5, alpha=1e-4, beta=0.75, bias=1.0),
            "torch": by_torch(lambda t, x: t.nn.functional.local_response_norm(x, 5, 1e-4, 0.75, 1.0)),
        },
    ),
)


# --- recurrences and attention ---

STEPS, BATCH, SIZE, HIDDEN = 6, 2, 5, 8


def _recurrent(name: str, onnx: str, function: Any, gates: int, torch: str, order: Sequence[int], **fields: Any) -> Operator:
    """order: which of ONNX's gates each of torch's gates is."""

    def by_onnxruntime(a: Inputs) -> Array:
        x, w, r, b = a["input"][0], a["weight"][0], a["recurrence"][0], a["bias"][0, 0]
        more: dict[str, Any] = {"linear_before_reset": 1} if name == "GRU" else {}
        return node(onnx, x, w, r, b, hidden_size=HIDDEN, **more)

    def gated(x: Any) -> Any:
        return x.reshape(gates, HIDDEN, -1)[list(order)].reshape(gates * HIDDEN, -1)

    def found(t: Any, x: Any, w: Any, r: Any, b: Any) -> Any:
        layer = getattr(t.nn, torch)(SIZE, HIDDEN)
        half = b.reshape(2, gates * HIDDEN)
        for p, own in zip(layer.parameters(), (w[0, 0], r[0, 0], half[0], half[1]), strict=True):
            p.copy_(gated(own).reshape(p.shape))
        return layer(x[0])[0].reshape(STEPS, 1, BATCH, HIDDEN)

    return Operator(
        name,
        function,
        fields,
        {"input": (1, STEPS, BATCH, SIZE)},
        {"onnxruntime": by_onnxruntime, "torch": by_torch(found)},
        {
            "weight": (1, 1, gates * HIDDEN, SIZE),
            "recurrence": (1, 1, gates * HIDDEN, HIDDEN),
            "bias": (1, 1, 1, 2 * gates * HIDDEN),
        },
        output="output_sequence",
    )


HEADS = 4


def _heads(x: Array) -> Array:
    return np.asarray(x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2))


def _attention(a: Inputs) -> Array:
    q, k, v = map(_heads, a.values())
    scores = _softmax((q @ k.swapaxes(-1, -2)) * F32(1 / math.sqrt(q.shape[-1])))
    return np.asarray((scores @ v).swapaxes(1, 2).reshape(a["query"].shape))


def _torch_attention(t: Any, *tensors: Any) -> Any:
    q, k, v = (x.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for x in tensors)
    found = t.nn.functional.scaled_dot_product_attention(q, k, v)
    return found.transpose(1, 2).reshape(tensors[0].shape)


TOKENS = (1, 24, 64)
OTHERS = (
    _recurrent("RNN", "RNN", dml.rnn, 1, "RNN", (0,)),
    _recurrent("LSTM", "LSTM", dml.lstm, 4, "LSTM", (0, 2, 3, 1)),
    _recurrent("GRU", "GRU", dml.gru, 3, "GRU", (1, 0, 2), linear_before_reset=True),
    Operator(
        "attention",
        dml.multihead_attention1,
        {"scale": 1 / math.sqrt(16), "query_head_count": HEADS, "key_value_head_count": HEADS},
        dict.fromkeys(("query", "key", "value"), TOKENS),
        {
            "numpy": _attention,
            "onnxruntime": lambda a: node("MultiHeadAttention", *a.values(), domain="com.microsoft", num_heads=HEADS),
            "torch": by_torch(_torch_attention),
        },
        output="output",
    ),
)

OPERATORS = (*UNARY, *BINARY, *REDUCED, *ROWS, *PRODUCTS, *OTHERS)
