"""A float model whose tensors and weights can be given errors, which are carried to its outputs exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper

from anydml.onnx.compare_models import reads
from anydml.onnx.model import load
from anydml.onnx.values import Array

CHANNELS = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": -1}
"""The axis of the output channels in the weights of products."""


class Carrier:
    """A float model on known inputs. weights: its constants by name. tensors, of_weights: what errors can be added to."""

    def __init__(
        self,
        proto: ModelProto,
        inputs: Mapping[str, Array],
        signals: Mapping[str, Array],
        weights: Mapping[str, Array],
        tensors: Sequence[str],
        of_weights: Sequence[str],
    ) -> None:
        self.proto, self.inputs, self.weights = proto, inputs, weights
        self._floats = {name: x for name, x in {**signals, **weights}.items() if name in tensors or name in of_weights}
        self._nothing = {name: np.zeros(x.shape, x.dtype) for name, x in self._floats.items()}
        self._model = load(_with_errors(proto, self._floats))
        self._tensors = set(tensors)

    def outputs(self, errors: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs with errors added to some tensors and weights, by name."""
        added = {name: errors[name].astype(x.dtype) if name in errors else x for name, x in self._nothing.items()}
        return self._model.run({**self.inputs, **{f"{name} error": x for name, x in added.items()}})

    def weights_of(self, tensor: str) -> list[str]:
        """The weights of the nodes between a tensor that can have errors and those before it."""
        makers = {name: node for node in self.proto.graph.node for name in node.output if name}
        found: dict[str, None] = {}
        rest, seen = [tensor], {tensor}
        while rest:
            node = makers.get(rest.pop())
            for name in reads(node) if node else ():
                if name in self._floats and name not in self._tensors:
                    found[name] = None
                elif name not in self._tensors and name not in seen:
                    seen.add(name)
                    rest.append(name)
        return [*found]

    def channels(self, weight: str) -> int | None:
        """The axis of the output channels of weights, from 0 on; None if no product reads them as weights."""
        for node in self.proto.graph.node:
            if node.op_type in CHANNELS and len(node.input) > 1 and node.input[1] == weight:
                transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
                return 0 if transposed else CHANNELS[node.op_type] % self.weights[weight].ndim
        return None


def _with_errors(proto: ModelProto, tensors: Mapping[str, Array]) -> ModelProto:
    """The model with an input for the error of each of some tensors, constants and inputs among them."""
    made = ModelProto()
    made.CopyFrom(proto)
    graph = made.graph
    del graph.value_info[:]
    written = {name for node in graph.node for name in node.output}
    given = [name for name in tensors if name not in written]
    nodes = [helper.make_node("Add", [name, f"{name} error"], [f"{name} changed"]) for name in given]
    for node in graph.node:
        node.input[:] = [f"{name} changed" if name in tensors and name not in written else name for name in node.input]
        nodes.append(node)
        for i, name in enumerate(node.output):
            if name in tensors:
                node.output[i] = f"{name} exact"
                nodes.append(helper.make_node("Add", [f"{name} exact", f"{name} error"], [name]))
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    for name, x in tensors.items():
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph.input.append(helper.make_tensor_value_info(f"{name} error", kind, x.shape))
    return made
