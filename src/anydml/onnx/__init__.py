"""ONNX models, run exactly: `load` reads one, `prepare` and `run_model` are ONNX's own interface of backends.

`compare` judges another runtime node by node, and `page` shows the outcome.

The extra `onnx` installs what it needs: `pip install "anydml[onnx]"`.
"""

from anydml.onnx.backend import Backend, is_compatible, prepare, run_model, run_node, supports_device
from anydml.onnx.compare import compare
from anydml.onnx.compare_page import page
from anydml.onnx.compare_results import Deviation, ModelComparison, NodeComparison
from anydml.onnx.errors import ModelError, Refusal
from anydml.onnx.model import Model, load

__all__ = [
    "Backend",
    "Deviation",
    "Model",
    "ModelComparison",
    "ModelError",
    "NodeComparison",
    "Refusal",
    "compare",
    "is_compatible",
    "load",
    "page",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
