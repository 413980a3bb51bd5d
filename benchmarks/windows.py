"""Pooling compared with onnxruntime, on one thread: the windows of usual networks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import anydml as dml
from anydml import operators
from benchmarks.onnx_session import session
from benchmarks.timing import best

Array = NDArray[Any]


class Window(NamedTuple):
    """channels and size: of the input, one image; width, stride, padding: of the window, along both dimensions."""

    name: str
    channels: int
    size: int
    width: int
    stride: int
    padding: int

    @property
    def output(self) -> int:
        return (self.size + 2 * self.padding - self.width) // self.stride + 1


WINDOWS = (
    Window("3 x 3 by 2, 112 x 112 x 64", 64, 112, 3, 2, 1),
    Window("2 x 2 by 2, 112 x 112 x 64", 64, 112, 2, 2, 0),
    Window("3 x 3 by 1, 28 x 28 x 192", 192, 28, 3, 1, 1),
    Window("global, 7 x 7 x 512", 512, 7, 7, 1, 0),
)
KINDS = {  # our operators: the name, whether with indices, the type, onnxruntime's node
    "max": ("MAX_POOLING", False, np.float32, "MaxPool"),
    "max, positions": ("MAX_POOLING1", True, np.float32, None),
    "max of int8": ("MAX_POOLING", False, np.int8, "MaxPool"),
    "average": ("AVERAGE_POOLING", False, np.float32, "AveragePool"),
    "length": ("LP_POOLING", False, np.float32, "LpPool"),
    "quantised average": ("QUANTIZED_LINEAR_AVERAGE_POOLING", False, np.uint8, None),
}
SCALES = ((0.1, 0.1), (0.1, 0.1234))  # of regions between bytes: with means that may be ties, and without


def run(seconds: float = 0.3) -> list[dict[str, Any]]:
    rows = []
    print(f"{'':48}{'us':>8}{'onnxruntime':>13}{'x':>7}  kernel")
    for window in WINDOWS:
        for kind in KINDS:
            rows.append(row := _case(window, kind, seconds))
            theirs, ratio = (format(row[k], f) if row[k] else "-" for k, f in (("onnxruntime", ".1f"), ("ratio", ".2f")))
            print(
                f"{window.name + ', ' + kind:48}{row['microseconds']:>8.1f}{theirs:>13}{ratio:>7}  {row['kernel']}", flush=True
            )
    return rows + [_between(window, scales, seconds) for window in WINDOWS for scales in SCALES]


def _between(window: Window, scales: tuple[float, float], seconds: float) -> dict[str, Any]:
    """Means of dequantised bytes that are quantised again, compared with the same float operators and with the integer
    operator."""
    x = np.random.default_rng(0).integers(0, 256, (1, window.channels, window.size, window.size)).astype(np.uint8)
    y = np.empty((1, window.channels, window.output, window.output), np.uint8)
    around = (window.padding,) * 2

    def averaged(x: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(scales[0]), np.uint8(128))
        means = dml.average_pooling(
            floats, (window.stride,) * 2, window_size=(window.width,) * 2, start_padding=around, end_padding=around
        )
        return dml.element_wise_quantize_linear(means, np.float32(scales[1]), np.uint8(128))

    graph, device = dml.graph(averaged, x=dml.TensorDesc.of(x)), dml.Device("cpu", threads=1)
    calls: dict[str, Callable[[], object]] = {
        name: device.compile(graph.desc, fuse=fuse).bind(x=x, output=y).execute
        for name, fuse in (("fused", True), ("floats", False))
    }
    calls["integers"] = ours(window, "QUANTIZED_LINEAR_AVERAGE_POOLING", False, x, y, scales)[1]
    spent = {name: time * 1e6 for name, time in best(calls, seconds=seconds, clock=thread_time).items()}
    print(
        f"{window.name}, between bytes, scales {scales}: {spent['fused']:.1f} us; of floats {spent['floats']:.1f}, "
        f"the integer operator {spent['integers']:.1f}",
        flush=True,
    )
    return {"window": window.name, "kind": f"between bytes, {scales}", **spent}


def _case(window: Window, kind: str, seconds: float) -> dict[str, Any]:
    name, indexed, dtype, node = KINDS[kind]
    rng = np.random.default_rng(0)
    sizes = (1, window.channels, window.size, window.size)
    x = (rng.standard_normal(sizes) * (1 if dtype == np.float32 else 40)).astype(np.int8 if dtype != np.float32 else dtype)
    x = x.view(dtype)
    y = np.empty((1, window.channels, window.output, window.output), dtype)
    compiled, call = ours(window, name, indexed, x, y)
    calls: dict[str, Callable[[], object]] = {"anydml": call}
    if node is not None:
        with contextlib.suppress(ImportError):
            if (peer := onnxruntime(window, node, x, y)) is not None:
                calls["onnxruntime"] = peer
    spent = best(calls, seconds=seconds)
    theirs = spent.get("onnxruntime")
    return {
        "window": window.name,
        "kind": kind,
        "kernel": compiled.kernel_name,
        "microseconds": spent["anydml"] * 1e6,
        "onnxruntime": None if theirs is None else theirs * 1e6,
        "ratio": None if theirs is None else theirs / spent["anydml"],
    }


def ours(
    window: Window, name: str, indexed: bool, x: Array, y: Array, scales: tuple[float, float] = (0.02, 0.03)
) -> tuple[Any, Callable[[], object]]:
    operator: Any = operators.find(name)
    pair = {
        "strides": window.stride,
        "window_size": window.width,
        "start_padding": window.padding,
        "end_padding": window.padding,
    }
    fields: dict[str, Any] = {key: (value, value) for key, value in pair.items()}
    arrays: dict[str, Array] = {"input_tensor": x, "output_tensor": y}
    if indexed:
        arrays["output_indices_tensor"] = np.empty(y.shape, np.uint32)
    if name == "LP_POOLING":
        fields["p"] = 2
    if name.startswith("QUANTIZED"):
        fields["dilations"] = (1, 1)
        for side, scale in zip(("input", "output"), scales, strict=True):
            arrays[f"{side}_scale_tensor"] = np.array([scale], np.float32)
            arrays[f"{side}_zero_point_tensor"] = np.array([128], np.uint8)
    tensors = {key: dml.TensorDesc.of(array) for key, array in arrays.items()}
    compiled = dml.Device("cpu", threads=1).compile(operator(**tensors, **fields))
    return compiled, compiled.bind(**arrays).execute


def onnxruntime(window: Window, node: str, x: Array, y: Array) -> Callable[[], object] | None:
    """A model of one node."""
    attributes: dict[str, Any] = dict(kernel_shape=[window.width] * 2, strides=[window.stride] * 2, pads=[window.padding] * 4)
    return session([(node, ["x"], ["y"], attributes)], {"x": x}, {"y": np.empty_like(y)})
