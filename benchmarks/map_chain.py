"""Chains of four maps: fused into one kernel, in NumPy with `out=`, and in onnxruntime, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from anydml import operators
from anydml.devices.link import link
from anydml.graphs.fusion import Producer, fused
from anydml.kernels.elementwise.family import lower
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import Problem
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest, stated
from benchmarks.map_cases import Array
from benchmarks.onnx_session import Node, session

F32 = dml.DataType.FLOAT32
LOW, HIGH = np.float32(0.1), np.float32(2.0)
# each step: the operator, its attributes, and onnx's node; y is the second of two tensors
Step = tuple[str, Mapping[str, Any], str]
ADD: Step = ("ELEMENT_WISE_ADD", {}, "Add")
MULTIPLY: Step = ("ELEMENT_WISE_MULTIPLY", {}, "Mul")
CLIP: Step = ("ELEMENT_WISE_CLIP", {"min": float(LOW), "max": float(HIGH)}, "Clip")
CHAINS: Mapping[str, tuple[Step, ...]] = {
    "add, multiply, relu, clip": (ADD, MULTIPLY, ("ACTIVATION_RELU", {}, "Relu"), CLIP),
    "add, sigmoid, multiply, clip": (ADD, ("ACTIVATION_SIGMOID", {}, "Sigmoid"), MULTIPLY, CLIP),
}


def fused_call(steps: tuple[Step, ...], x: Array, y: Array, out: Array) -> Callable[[], object]:
    """One kernel for all steps."""
    t = dml.TensorDesc(F32, x.shape)
    nest: Nest | None = None
    for name, attributes, _ in steps:
        operator: Any = operators.find(name)
        first = "made" if nest else "x"
        two = "a_tensor" in {f.name for f in operator.spec.inputs}
        names = {"a_tensor": first, "b_tensor": "y"} if two else {"input_tensor": first}
        desc = operator(output_tensor=t, **dict.fromkeys(names, t), **attributes).as_newest()
        (consumer,) = stated(desc, partial(_named, names)).values()
        made = fused(consumer, {"made": Producer(nest, F32)}) if nest else consumer
        assert isinstance(made, Nest), made
        nest = made
    assert nest is not None
    lowered = lower(Problem({"output": nest}, {"x": t, "y": t, "output": t}), Machine(None, 1))
    assert isinstance(lowered, Lowered), lowered
    return link(lowered).bind({"x": x, "y": y, "output": out})


def _named(names: Mapping[str, str], field: str, t: Any) -> Tensor:
    return Tensor(names[field], t.sizes, t.data_type)


def numpy_call(steps: tuple[Step, ...], x: Array, y: Array) -> Callable[[], object]:
    out = np.empty_like(x)

    def sigmoid() -> None:
        np.negative(out, out=out)
        np.exp(out, out=out)
        np.add(out, np.float32(1), out=out)
        np.divide(np.float32(1), out, out=out)

    calls: dict[str, Callable[[], object]] = {
        "Mul": partial(np.multiply, out, y, out=out),
        "Relu": partial(np.maximum, out, np.float32(0), out=out),
        "Sigmoid": sigmoid,
        "Clip": partial(np.clip, out, LOW, HIGH, out=out),
    }
    chain: list[Callable[[], object]] = [partial(np.add, x, y, out=out), *(calls[node] for _, _, node in steps[1:])]

    def call() -> None:
        for step in chain:
            step()

    return call


def onnxruntime_call(steps: tuple[Step, ...], x: Array, y: Array) -> Callable[[], object] | None:
    """A model of all steps."""
    nodes: list[Node] = []
    for k, (_, _, node) in enumerate(steps):
        more = ["y"] if node in ("Add", "Mul") else ["low", "high"] if node == "Clip" else []
        nodes.append((node, [f"t{k - 1}" if k else "x", *more], [f"t{k}"], {}))
    constants = {"low": np.array(LOW), "high": np.array(HIGH)}
    return session(nodes, {"x": x, "y": y}, {f"t{len(steps) - 1}": np.empty_like(x)}, constants)
