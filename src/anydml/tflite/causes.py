"""Known deviations of TensorFlow Lite's kernels from exact results, for operators that DirectML lacks."""

from __future__ import annotations

from collections.abc import Mapping

from anydml.explain.comparison import Cause
from anydml.onnx.values import Array
from anydml.tflite.read import Node


def cause(node: Node, values: Mapping[str, Array], known: Mapping[str, Array]) -> Cause | None:
    """The deviation that explains most of the differing elements of a node's output; None if none explains any."""
    return None
