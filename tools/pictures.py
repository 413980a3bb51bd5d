"""Pictures of the documentation, made by anydml: writes docs/pictures/*.svg, which a test makes anew and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import operators
from anydml.schema.operator import example_desc

ROOT = Path(__file__).parents[1]
TO = ROOT / "docs" / "pictures"
DIGITS = ROOT / "examples" / "digits"
Array = NDArray[Any]


def of_slice() -> dml.Picture:
    """Every second row from the last one up, every second column."""
    image = np.arange(1, 25, dtype=np.float32).reshape(1, 1, 4, 6)
    return dml.picture(dml.slice1, image, (0, 0, 0, 1), (1, 1, 4, 5), (1, 1, -2, 2))


def of_broken_slice() -> dml.Picture:
    """A window that leaves the input."""
    return dml.picture(example_desc(_operator("SLICE1"), {"input_window_offsets": (0, 0, 0, 2)}))


def of_convolution() -> dml.Picture:
    """A corner of a padded image, with the weights of an edge filter."""
    image = (np.arange(36) % 7).astype(np.float32).reshape(1, 1, 6, 6)
    edge = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32).reshape(1, 1, 3, 3)
    return dml.picture(dml.convolution, image, edge, start_padding=(1, 1), end_padding=(1, 1), at=(0, 0, 0, 3))


def of_resampling() -> dml.Picture:
    """The weights of an output between four elements."""
    image = np.array([[10, 20, 40], [30, 60, 70], [50, 80, 90]], np.float32)
    return dml.picture(dml.resample3, image, "LINEAR", "DECREASING", (2, 2), output_sizes=(6, 6), at=(2, 3))


def of_quantised_product() -> dml.Picture:
    """Scales, zero points, saturation and ties."""
    random = np.random.default_rng(7)
    a, b = random.integers(90, 166, (8, 16), np.uint8), random.integers(-60, 61, (16, 8), np.int8)
    return dml.picture(dml.quantized_linear_matrix_multiply, a, 0.5, 128, b, 0.25, None, 8.0, np.uint8(128))


def of_attention() -> dml.Picture:
    """The flow of data."""
    operator = _operator("MULTIHEAD_ATTENTION1")
    return dml.picture(example_desc(operator))


def of_comparison() -> dml.Picture:
    """The digits' network, whose second convolution rounds its factors to bfloat16."""
    from anydml.onnx import comparison_picture
    from anydml.onnx.comparing import compare

    model, image, tensors = departing()
    found = compare(model, {"image": image}, actual=tensors, progress=False, details=True)
    return comparison_picture(found, "cnn.onnx by a runtime that computes conv2 in bfloat16")


def departing() -> tuple[Any, Array, dict[str, Array]]:
    """The model, an input, and all tensors of a runtime whose second convolution reads bfloat16."""
    import onnx
    from onnx import numpy_helper

    from anydml.onnx import load
    from anydml.onnx.compare_models import cut

    model = onnx.load(DIGITS / "cnn.onnx")
    image = (np.random.default_rng(5).integers(0, 17, (8, 1, 8, 8)) / 16).astype(np.float32)
    exact = load(model).run({"image": image}, keep="all")
    nodes = [*model.graph.node]
    at = next(i for i, node in enumerate(nodes) if node.name == "conv2")
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    read = {name: rounded(x) for name, x in {**weights, **exact}.items() if name in nodes[at].input[:2]}
    values: dict[str, Array] = {"image": image, **weights, **exact}
    made = dict(exact)
    for i, node in enumerate(nodes[at:], at):
        alone, given = cut(model, [node], {**values, **(read if i == at else {})}, weights, [*node.output])
        values |= load(alone).run(given)
        made |= {name: values[name] for name in node.output}
    return model, image, made


def rounded(x: Array) -> Array:
    """Float32 rounded to bfloat16, half to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _operator(name: str) -> Any:
    found = operators.find(name)
    assert found is not None
    return found


PICTURES: Mapping[str, Callable[[], dml.Picture]] = {
    "slice": of_slice,
    "broken-slice": of_broken_slice,
    "convolution": of_convolution,
    "resampling": of_resampling,
    "quantised-product": of_quantised_product,
    "attention": of_attention,
    "comparison": of_comparison,
}

if __name__ == "__main__":
    for name, make in PICTURES.items():
        make().save(TO / f"{name}.svg")
