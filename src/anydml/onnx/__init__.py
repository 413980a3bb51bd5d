"""ONNX models, run exactly: `load` reads one, `prepare` and `run_model` are ONNX's own interface of backends.

`compare` judges another runtime node by node, and `page` and `comparison_picture` show the outcome. `report` says how
accurate a quantised model is.

The extra `onnx` installs what it needs: `pip install "anydml[onnx]"`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from anydml.fork_safety import guard

if TYPE_CHECKING:
    from anydml.onnx.backend import Backend, is_compatible, prepare, run_model, run_node, supports_device
    from anydml.onnx.compare_page import page
    from anydml.onnx.compare_picture import comparison_picture
    from anydml.onnx.compare_results import Deviation, ModelComparison, NodeComparison
    from anydml.onnx.comparing import compare
    from anydml.onnx.errors import ModelError, Refusal
    from anydml.onnx.model import Model, load
    from anydml.onnx.reporting import Layer, Report, report

__all__ = [
    "Backend",
    "Deviation",
    "Layer",
    "Model",
    "ModelComparison",
    "ModelError",
    "NodeComparison",
    "Refusal",
    "Report",
    "compare",
    "comparison_picture",
    "is_compatible",
    "load",
    "page",
    "prepare",
    "report",
    "run_model",
    "run_node",
    "supports_device",
]


_MODULES = {
    "backend": ("Backend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"),
    "compare_page": ("page",),
    "compare_picture": ("comparison_picture",),
    "compare_results": ("Deviation", "ModelComparison", "NodeComparison"),
    "comparing": ("compare",),
    "errors": ("ModelError", "Refusal"),
    "model": ("Model", "load"),
    "reporting": ("Layer", "Report", "report"),
}


def _imported(name: str) -> Any:
    """A name from its module, which is imported at first use: models of other formats need no package `onnx`."""
    for module, names in _MODULES.items():
        if name in names:
            with guard:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker knows every name

    def __getattr__(name: str) -> Any:
        globals()[name] = value = _imported(name)  # found there from now on
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
