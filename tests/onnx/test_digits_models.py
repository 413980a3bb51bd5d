"""The digits' models: one result on every instruction set, for any number of threads, fused and operator by operator."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from agreement import SOAK
from anydml.devices.graph import CompiledGraph
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets

pytest.importorskip("onnx")
from anydml.onnx import load

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

MODELS = Path(__file__).parents[2] / "examples" / "digits"
NAMES = ("cnn", "cnn-qlinear", "cnn-qdq", "encoder")
IMAGES = 3


@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_one_result(name: str) -> None:
    model = load(MODELS / f"{name}.onnx")
    shape = (IMAGES, 8, 8) if name == "encoder" else (IMAGES, 1, 8, 8)
    rng = np.random.default_rng(3)
    image = np.where(rng.random(shape) < 0.4, 0, rng.integers(0, 17, shape) / 16).astype(np.float32)
    graph = model.graph(image=shape)
    given = image.reshape(graph.inputs["image"].sizes)
    wanted = graph.run({"image": given}, "reference")["logits"]
    assert len(np.unique(wanted)) > IMAGES
    # code is compiled for each instruction set, which takes long: models share the sets; in `make soak` each has all
    sets, first = [row.name for row in targets()], NAMES.index(name)
    some = {(sets[-1], True), (sets[first % len(sets)], True), (sets[(first + 1) % len(sets)], False)}
    for at, (isa, fuse) in enumerate(product(sets, (True, False)) if SOAK > 1 else sorted(some)):
        found = np.full_like(wanted, np.nan)
        compiled = graph.compile(dml.Device("cpu", isa=isa, threads=1 + at % 2), fuse=fuse)
        assert isinstance(compiled, CompiledGraph)
        assert all(part.kernel_name.endswith(":compiled") for part in compiled.call.parts)
        compiled.bind(image=given, logits=found).execute()
        assert found.tobytes() == wanted.tobytes(), (isa, fuse)
