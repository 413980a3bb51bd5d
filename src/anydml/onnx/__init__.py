"""ONNX models, run exactly: `load` reads one, `prepare` and `run_model` are ONNX's own interface of backends.

`compare` judges another runtime node by node, and `page` shows the outcome.

The extra `onnx` installs what it needs: `pip install "anydml[onnx]"`.
"""

from typing import TYPE_CHECKING, Any

from anydml.fork_safety import guard

if TYPE_CHECKING:
    from anydml.onnx.backend import Backend, is_compatible, prepare, run_model, run_node, supports_device
    from anydml.onnx.compare_page import page
    from anydml.onnx.compare_results import Deviation, ModelComparison, NodeComparison
    from anydml.onnx.comparing import compare
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


def _imported(name: str) -> Any:
    """A public name. Modules are imported at first use: some need no onnx package, and comparisons need half of all modules."""
    with guard:
        if name == "compare":
            from anydml.onnx.comparing import compare

            return compare
        if name == "page":
            from anydml.onnx.compare_page import page

            return page
        if name in ("Deviation", "ModelComparison", "NodeComparison"):
            from anydml.onnx import compare_results

            return getattr(compare_results, name)
        if name in ("ModelError", "Refusal"):
            from anydml.onnx import errors

            return getattr(errors, name)
        if name in ("Model", "load"):
            from anydml.onnx import model

            return getattr(model, name)
        if name in __all__:
            from anydml.onnx import backend

            return getattr(backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker knows every name

    def __getattr__(name: str) -> Any:
        globals()[name] = value = _imported(name)  # found there from now on
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
