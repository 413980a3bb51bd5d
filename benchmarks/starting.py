"""The time from the start of a process to its first result: with an empty cache of machine code, and with a filled one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.network_layers import CLASSES, NETWORKS
from benchmarks.networks import network
from benchmarks.starting_models import maps, mobilenet

TURNS = 3  # turns, of which the best counts


def first(name: str, quantised: bool) -> None:
    """The first result of a network, in this process."""
    made = network(name, quantised=quantised)
    output = np.empty((1, CLASSES, 1, 1), np.float32)
    made.graph.compile(dml.Device(threads=1)).bind(x=made.image, output=output).execute()
    print(time.process_time())


def first_of_model(path: str) -> None:
    """The first result of an ONNX model, in this process."""
    from anydml.onnx import load

    model = load(path)
    (signature,) = model.inputs.values()
    model.run({signature.name: np.ones(signature.sizes, np.float32)})
    print(time.process_time())


def imported() -> None:
    """Print the processor time of `import anydml.onnx`, with what loads a model, after NumPy and onnx."""
    import onnx.external_data_helper
    import onnx.helper
    import onnx.numpy_helper  # noqa: F401  # imported before the clock starts

    before = time.process_time()
    import anydml.onnx.model  # noqa: F401  # the import is what is timed

    print(time.process_time() - before)


def timed(call: str, folder: str, bytecode: str) -> tuple[float, float]:
    """Wall-clock and processor seconds of a process that runs a call of this module.

    bytecode: the folder in which Python keeps it, as if installed by pip; otherwise some environments would compile it in every
    process.
    """
    code = f"from benchmarks.starting import *; {call}"
    began = time.perf_counter()
    environment = {**os.environ, "ANYDML_CACHE": folder, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return time.perf_counter() - began, float(done.stdout)


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(f"\n{'a process, to the first image':34} {'cold, s':>8} {'warm, s':>8}  of the processor: cold, warm")
    kinds = (False, "float32"), (True, "int8")
    calls = {f"{name}, {kind}": f"first({name!r}, {quantised})" for name in NETWORKS for quantised, kind in kinds}
    with tempfile.TemporaryDirectory() as models, tempfile.TemporaryDirectory() as bytecode:
        for name, model in (("MobileNetV2 of {} ONNX nodes", mobilenet()), ("maps, {} ONNX nodes", maps(5000))):
            path = os.path.join(models, name[:4])
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
            calls[name.format(len(model.graph.node))] = f"first_of_model({path!r})"
        for name, call in calls.items():
            timed(call, "0", bytecode)  # this run writes bytecode
            cold, warm = [], []
            for _ in range(TURNS):
                with tempfile.TemporaryDirectory() as folder:
                    cold.append(timed(call, folder, bytecode))
                    warm.append(timed(call, folder, bytecode))
            (c, cold_time), (w, warm_time) = (tuple(map(min, zip(*times, strict=True))) for times in (cold, warm))
            rows.append({"what": name, "cold": c, "warm": w, "cold_time": cold_time, "warm_time": warm_time})
            print(f"{name:34} {c:8.2f} {w:8.2f} {cold_time:25.2f}, {warm_time:.2f}", flush=True)
        importing = min(timed("imported()", "0", bytecode)[1] for _ in range(TURNS))
    rows.append({"what": "import anydml.onnx", "warm_time": importing})
    print(f"import anydml.onnx, after NumPy and onnx: {importing:.3f} s of the processor")
    return rows
