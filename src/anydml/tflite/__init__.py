"""TensorFlow Lite models, run exactly: `load` reads a .tflite file, also of an int8 model for microcontrollers.

`compare` judges another runtime node by node, and `page` shows the outcome. `litert` is such a runtime.

The extra `tflite` installs what it needs: `pip install "anydml[tflite]"`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from anydml.fork_safety import guard

if TYPE_CHECKING:
    from anydml.onnx.compare_page import page
    from anydml.onnx.compare_results import Deviation, ModelComparison, NodeComparison
    from anydml.onnx.errors import ModelError, Refusal
    from anydml.tflite.comparing import compare
    from anydml.tflite.model import Model, Signature, load
    from anydml.tflite.runtimes import litert

__all__ = [
    "Deviation",
    "Model",
    "ModelComparison",
    "ModelError",
    "NodeComparison",
    "Refusal",
    "Signature",
    "compare",
    "litert",
    "load",
    "page",
]

_MODULES = {
    "onnx.compare_page": ("page",),
    "onnx.compare_results": ("Deviation", "ModelComparison", "NodeComparison"),
    "onnx.errors": ("ModelError", "Refusal"),
    "tflite.comparing": ("compare",),
    "tflite.model": ("Model", "Signature", "load"),
    "tflite.runtimes": ("litert",),
}


def _imported(name: str) -> Any:
    """A name from its module, which is imported at first use."""
    for module, names in _MODULES.items():
        if name in names:
            with guard:
                try:
                    return getattr(importlib.import_module(f"anydml.{module}"), name)
                except ModuleNotFoundError as error:
                    if error.name not in ("tflite", "flatbuffers"):
                        raise
                    message = 'models of TensorFlow Lite need the package tflite: pip install "anydml[tflite]"'
                    raise ModuleNotFoundError(message, name=error.name) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker knows every name

    def __getattr__(name: str) -> Any:
        globals()[name] = value = _imported(name)  # found there from now on
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
