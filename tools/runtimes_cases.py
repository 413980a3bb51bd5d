"""Float operators as anydml, NumPy, onnxruntime and torch compute them: the cases of `tools/runtimes.py`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml

Array = NDArray[Any]
Inputs = Mapping[str, Array]
F32 = np.float32
EPSILON = 1e-5


class Operator(NamedTuple):
    """One operator: what anydml computes, what is judged, the sizes of its tensors, and a function for each runtime.

    hostile: the sizes of the tensors that are drawn from the hostile inputs. ordinary: those of tensors of ordinary numbers.
    positive: the tensors that must not be negative, such as a variance.
    """

    name: str
    function: Callable[..., Any]
    fields: Mapping[str, Any]
    hostile: Mapping[str, tuple[int, ...]]
    runtimes: Mapping[str, Callable[[Inputs], Array]]
    ordinary: Mapping[str, tuple[int, ...]] = {}
    positive: Sequence[str] = ()
    output: str | None = None


@functools.cache
def _session(operator: str, domain: str, sizes: tuple[tuple[int, ...], ...], attributes: tuple[tuple[str, Any], ...]) -> Any:
    """A session of onnxruntime for one node. The axes of a reduction are a constant input."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    fields: dict[str, Any] = {**dict(attributes)}
    axes = fields.pop("axes", None)
    names = [f"x{i}" for i in range(len(sizes))]
    made = helper.make_node(operator, [*names, *(() if axes is None else ("axes",))], ["y"], domain=domain, **fields)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, sizes, strict=True)]
    constants = [] if axes is None else [numpy_helper.from_array(np.array(axes, np.int64), "axes")]
    graph = helper.make_graph([made], "it", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def node(operator: str, *arrays: Array, domain: str = "", **attributes: Any) -> Array:
    """The first output of one node of ONNX, by onnxruntime."""
    session = _session(operator, domain, tuple(x.shape for x in arrays), tuple(sorted(attributes.items())))
    return np.asarray(session.run(None, {f"x{i}": x for i, x in enumerate(arrays)})[0])


def by_torch(call: Callable[..., Any]) -> Callable[[Inputs], Array]:
    """A function of torch, the torch module and its tensors, as one of arrays."""

    def apply(arrays: Inputs) -> Array:
        import torch

        with torch.no_grad():
            found = call(torch, *(torch.from_numpy(x.copy()) for x in arrays.values()))
        return np.asarray(found.numpy())

    return apply


def _unary(name: str, function: Any, onnx: str, numpy: Any, torch: str, domain: str = "", **fields: Any) -> Operator:
    def found(torch_module: Any, x: Any) -> Any:
        where: Any = torch_module
        for part in torch.split("."):
            where = getattr(where, part)
        return where(x)

    return Operator(
        name,
        function,
        fields,
        {"input": (4096,)},
        {
            "numpy": lambda a: np.asarray(numpy(a["input"])),
            "onnxruntime": lambda a: node(onnx, a["input"], domain=domain),
            "torch": by_torch(found),
        },
    )


def _sigmoid(x: Array) -> Array:
    return np.asarray(F32(1) / (F32(1) + np.exp(-x)))


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.tolist()], F32)


UNARY = (
    _unary("exp", dml.element_wise_exp, "Exp", np.exp, "exp"),
    _unary("log", dml.element_wise_log, "Log", np.log, "log"),
    _unary("sqrt", dml.element_wise_sqrt, "Sqrt", np.sqrt, "sqrt"),
    _unary("reciprocal", dml.element_wise_recip, "Reciprocal", np.reciprocal, "reciprocal"),
    _unary("sin", dml.element_wise_sin, "Sin", np.sin, "sin"),
    _unary("cos", dml.element_wise_cos, "Cos", np.cos, "cos"),
    _unary("tan", dml.element_wise_tan, "Tan", np.tan, "tan"),
    _unary("asin", dml.element_wise_asin, "Asin", np.arcsin, "asin"),
    _unary("acos", dml.element_wise_acos, "Acos", np.arccos, "acos"),
    _unary("atan", dml.element_wise_atan, "Atan", np.arctan, "atan"),
    _unary("sinh", dml.element_wise_sinh, "Sinh", np.sinh, "sinh"),
    _unary("cosh", dml.element_wise_cosh, "Cosh", np.cosh, "cosh"),
    _unary("tanh", dml.element_wise_tanh, "Tanh", np.tanh, "tanh"),
    _unary("asinh", dml.element_wise_asinh, "Asinh", np.arcsinh, "asinh"),
    _unary("acosh", dml.element_wise_acosh, "Acosh", np.arccosh, "acosh"),
    _unary("atanh", dml.element_wise_atanh, "Atanh", np.arctanh, "atanh"),
    _unary("erf", dml.element_wise_erf, "Erf", _erf, "erf"),
    _unary("sigmoid", dml.activation_sigmoid, "Sigmoid", _sigmoid, "sigmoid"),
    _unary("softplus", dml.activation_softplus, "Softplus", lambda x: np.log1p(np.exp(x)), "nn.functional.softplus"),
    _unary(
        "gelu",
        dml.activation_gelu,
        "Gelu",
        lambda x: F32(0.5) * x * (1 + _erf(x * F32(0.70710677))),
        "nn.functional.gelu",
    ),
    _unary("elu", dml.activation_elu, "Elu", lambda x: np.where(x >= 0, x, np.exp(x) - F32(1)), "nn.functional.elu"),
    _unary("celu", dml.activation_celu, "Celu", lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)), "celu"),
    _unary("softsign", dml.activation_softsign, "Softsign", lambda x: x / (1 + np.abs(x)), "nn.functional.softsign"),
    _unary(
        "hard swish",
        dml.activation_hard_swish,
        "HardSwish",
        lambda x: x * np.clip(x * F32(1 / 6) + F32(0.5), 0, 1),
        "nn.functional.hardswish",
    ),
    Operator(
        "swish",
        dml.activation_swish,
        {"sigmoid_input_scale": 1.0},
        {"input": (4096,)},
        {
            "numpy": lambda a: a["input"] * _sigmoid(a["input"]),
            "onnxruntime": lambda a: node("QuickGelu", a["input"], domain="com.microsoft", alpha=1.0),
            "torch": by_torch(lambda t, x: t.nn.functional.silu(x)),
        },
    ),
)


def _binary(name: str, function: Any, onnx: str, numpy: Any, torch: str) -> Operator:
    names = ("input", "exponent") if name == "power" else ("a", "b")
    return Operator(
        name,
        function,
        {},
        dict.fromkeys(names, (4096,)),
        {
            "numpy": lambda a: np.asarray(numpy(*a.values())),
            "onnxruntime": lambda a: node(onnx, *a.values()),
            "torch": by_torch(lambda t, x, y: getattr(t, torch)(x, y)),
        },
        positive=("input",) if name == "power" else (),
    )


BINARY = (
    _binary("add", dml.element_wise_add, "Add", np.add, "add"),
    _binary("multiply", dml.element_wise_multiply, "Mul", np.multiply, "mul"),
    _binary("divide", dml.element_wise_divide, "Div", np.divide, "div"),
    _binary("power", dml.element_wise_pow, "Pow", np.power, "pow"),
)


def _reduced(name: str, function: str, onnx: str, numpy: Any, torch: Any) -> Operator:
    return Operator(
        name,
        dml.reduce,
        {"function": function, "axes": (1,)},
        {"input": (24, 513)},
        {
            "numpy": lambda a: np.asarray(numpy(a["input"])),
            "onnxruntime": lambda a: node(onnx, a["input"], axes=(1,), keepdims=1),
            "torch": by_torch(torch),
        },
    )


def _log_sum_exp(x: Array) -> Array:
    most = x.max(1, keepdims=True)
    return np.asarray(most + np.log(np.exp(x - most).sum(1, keepdims=True)))


REDUCED = (
    _reduced("sum", "SUM", "ReduceSum", lambda x: x.sum(1, keepdims=True), lambda t, x: x.sum(1, keepdim=True)),
    _reduced("mean", "AVERAGE", "ReduceMean", lambda x: x.mean(1, keepdims=True), lambda t, x: x.mean(1, keepdim=True)),
    _reduced("L1 norm", "L1", "ReduceL1", lambda x: np.abs(x).sum(1, keepdims=True), lambda t, x: x.abs().sum(1, keepdim=True)),
    _reduced(
        "L2 norm",
        "L2",
        "ReduceL2",
        lambda x: np.sqrt((x * x).sum(1, keepdims=True)),
        lambda t, x: t.linalg.vector_norm(x, dim=1, keepdim=True),
    ),
    _reduced(
        "sum of squares",
        "SUM_SQUARE",
        "ReduceSumSquare",
        lambda x: (x * x).sum(1, keepdims=True),
        lambda t, x: (x * x).sum(1, keepdim=True),
    ),
    _reduced("log of sum of exp", "LOG_SUM_EXP", "ReduceLogSumExp", _log_sum_exp, lambda t, x: t.logsumexp(x, 1, keepdim=True)),
)


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
