"""Maps and reductions as anydml, NumPy, onnxruntime and torch compute them, for `tools/runtimes.py`."""

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
