"""ONNX models run by torch, node by node: onnx2pytorch makes a module of each node."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from anydml.onnx.compare_models import cut, named, reads
from anydml.onnx.compare_runtimes import Run, RuntimeFailed
from anydml.onnx.values import Array


def torch_on(device: str) -> Run:
    """torch on one of its devices, such as cpu or cuda; RuntimeFailed if it has no such device, or does not run the model.

    Every node is a module of its own, with the weights as parameters, so that no fusion hides a tensor.
    """
    if missing := [name for name in ("torch", "onnx2pytorch") if find_spec(name) is None]:
        raise RuntimeFailed(f"torch runs ONNX models by onnx2pytorch, and {' and '.join(missing)} cannot be found")
    import torch

    try:
        place = torch.device(device.lower())
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RuntimeFailed(f"torch has no device {device} here: {error}") from None

    def run(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        proto = named(model)
        constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer if t.name not in inputs}
        values = {**constants, **inputs}
        for node in proto.graph.node:
            values |= _made(proto, node, values, constants, place)
        return {x.name: values[x.name] for x in proto.graph.output}

    return run


def _made(
    proto: ModelProto, node: NodeProto, values: Mapping[str, Array], constants: Mapping[str, Array], place: Any
) -> dict[str, Array]:
    """The outputs of a node. Where onnx2pytorch asks for parameters, such as weights, all inputs but the first are fixed."""
    import torch

    names = [name for name in node.output if name]
    read = reads(node)
    first = next((name for name in read if name not in constants), "")
    reason = ""
    for fixed in ([name for name in read if name in constants], [name for name in read if name != first]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of onnx2pytorch, about what it converts
            try:
                from onnx2pytorch import ConvertModel

                alone, given = cut(proto, [node], values, fixed, names)
                module = ConvertModel(alone, experimental=True).eval().to(place)
                with torch.no_grad():
                    made = module(*(torch.from_numpy(np.array(x, order="C")).to(place) for x in given.values()))
                break
            except Exception as error:  # of any class, by operators that it does not know, or runs otherwise
                reason = reason or f"{type(error).__name__}: {error}"
    else:
        raise RuntimeFailed(f"torch does not run {node.name} ({node.op_type}) through onnx2pytorch: {reason}")
    tensors = made if isinstance(made, (list, tuple)) else [made]
    return {name: x.detach().cpu().numpy() for name, x in zip(names, tensors, strict=True)}
