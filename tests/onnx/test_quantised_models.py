"""Models of onnxruntime's quantisers: all run, fused graphs have the bits of unfused ones, and results are close to its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto

import anydml.onnx
from every_kernel import SOAK, Ran
from quantised_models import models

COUNT = 120 if SOAK == 1 else 10_000
PARTS = 4


def unfused(model: Any, x: Any) -> Any:
    """The output of a model's graph, with one call for each operator."""
    graph = model.graph()
    (given,), ((name, made),) = graph.inputs.items(), graph.outputs.items()
    arrays = {given[0]: np.ascontiguousarray(x).reshape(given[1].sizes), name: np.empty(made.sizes, made.data_type.dtype)}
    graph.compile(fuse=False).bind(**arrays).execute()
    return arrays[name]


def theirs(proto: ModelProto, x: Any) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, {"input": x})[0]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")  # warnings of the quantisers' arithmetic
def test_models_of_onnxruntimes_quantisers(part: int, ran: Ran) -> None:
    done = compared = 0
    for title, proto, x in models(part * COUNT, COUNT // PARTS):  # networks that no other part has
        model = anydml.onnx.load(proto)
        (y,) = model.run({"input": x}).values()
        assert unfused(model, x).tobytes() == y.tobytes(), title
        done += 1
        if done % 5 == 0:
            wanted = theirs(proto, x)
            spread = max(float(np.ptp(wanted)), 1e-3)
            assert np.abs(y - wanted).max() <= 0.1 * spread, title
            compared += 1
    ran(done, COUNT // PARTS)
    ran(compared, COUNT // PARTS // 5)
