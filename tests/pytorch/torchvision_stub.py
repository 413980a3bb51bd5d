"""A stand-in for torchvision, which onnx2pytorch imports for operators of detection: its wheels need torch with CUDA."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def stub() -> None:
    """Put modules in the place of torchvision whose functions are never called; nothing if they are there."""
    if "torchvision" in sys.modules:
        return
    for name in ("torchvision", "torchvision.ops", "torchvision.io"):
        made = ModuleType(name)
        made.__spec__, made.__path__, made.__file__ = ModuleSpec(name, None), [], name
        vars(made)["__getattr__"] = _never
        sys.modules[name] = made


def _never(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def never(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torchvision's {name}")

    return never
