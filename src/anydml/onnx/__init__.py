"""ONNX models, run exactly: `load` reads one, `prepare` and `run_model` are ONNX's own interface of backends.

The extra `onnx` installs what it needs: `pip install "anydml[onnx]"`.
"""

from anydml.onnx.backend import Backend, is_compatible, prepare, run_model, run_node, supports_device
from anydml.onnx.errors import ModelError, Refusal
from anydml.onnx.model import Model, load

__all__ = [
    "Backend",
    "Model",
    "ModelError",
    "Refusal",
    "is_compatible",
    "load",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
