"""The table of TensorFlow Lite's operators: each has a function of its node and inputs, and the name of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anydml.tflite.mapping import maths, moves, windows

MAPPINGS: Mapping[str, tuple[Callable[..., Any], str]] = {**maths.TABLE, **moves.TABLE, **windows.TABLE}
