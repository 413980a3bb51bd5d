"""ONNX's interface of backends, `onnx.backend.base`, which ONNX's own tests use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend as Base
from onnx.backend.base import BackendRep

from anydml.onnx.model import Model, load
from anydml.onnx.values import Array


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **_: Any) -> tuple[Array, ...]:
        """The outputs in the model's order, for inputs in its order or by name."""
        named = inputs if isinstance(inputs, Mapping) else dict(zip(self.model.inputs, _listed(inputs), strict=False))
        return tuple(self.model.run(dict(named)).values())


def _listed(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, (list, tuple)) else [inputs]


class Backend(Base):
    """anydml as a backend of ONNX."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        """The model, ready to run; ModelError if it is refused."""
        return Prepared(load(model))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Array, ...]:
        """The outputs of a model for inputs."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **_: Any) -> Any:
        """The outputs of one node of the newest opset for inputs."""
        arrays = [*_listed(inputs)]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for name, x in zip(filter(None, node.input), arrays, strict=True)
            ],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        return cls.run_model(onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph)), arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is supported: only the CPU is."""
        return device.upper().split(":")[0] == "CPU"


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
is_compatible = Backend.is_compatible
