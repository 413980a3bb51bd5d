"""The digits' ONNX models: bound calls compared with onnxruntime's, and `run` with its `run`, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.timing import best

MODELS = Path(__file__).parents[1] / "examples" / "digits"
NAMES = ("cnn", "cnn-qlinear", "cnn-qdq", "encoder")
BATCHES = (1, 32, 360)


def calls(name: str, images: int) -> dict[str, Callable[[], object]]:
    """The calls of a model for this many images."""
    import onnxruntime as ort

    from anydml.onnx import load

    path = MODELS / f"{name}.onnx"
    shape = (images, 8, 8) if name == "encoder" else (images, 1, 8, 8)
    image = (np.random.default_rng(0).integers(0, 17, shape) / 16).astype(np.float32)
    model, device = load(path), dml.Device("cpu", threads=1)
    logits = np.empty((images, 10), np.float32)
    graph = model.graph(image=shape)
    bound = graph.compile(device).bind(image=image.reshape(graph.inputs["image"].sizes), logits=logits)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding, written = session.io_binding(), np.empty_like(logits)
    binding.bind_cpu_input("image", image)
    binding.bind_output("logits", "cpu", 0, np.float32, written.shape, written.ctypes.data)

    def other_bound(keep: object = (image, written)) -> None:  # onnxruntime's binding only has the addresses of these arrays
        session.run_with_iobinding(binding)

    return {
        "bound": bound.execute,
        "onnxruntime bound": other_bound,
        "run": lambda: model.run(image=image, device=device),
        "onnxruntime run": lambda: session.run(None, {"image": image}),
    }


def run() -> list[dict[str, Any]]:
    rows = []
    print(f"{'model':12} {'images':>6} {'bound':>10} {'x onnxruntime':>14} {'run':>10} {'x onnxruntime':>14}")
    for name in NAMES:
        for images in BATCHES:
            seconds = best(calls(name, images), clock=time.thread_time)
            bound, ran = (seconds[f"onnxruntime {way}"] / seconds[way] for way in ("bound", "run"))
            shown = [f"{seconds[way] * 1e6:8.1f}us" for way in ("bound", "run")]
            print(f"{name:12} {images:6} {shown[0]} {bound:14.2f} {shown[1]} {ran:14.2f}")
            rows.append({"model": name, "images": images, "seconds": seconds, "x onnxruntime": {"bound": bound, "run": ran}})
    return rows
