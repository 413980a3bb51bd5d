"""Whole networks with few channels and small images: the same bits fused, unfused, and operator by operator."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import anydml as dml

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.network_layers import CLASSES, NETWORKS
from benchmarks.networks import kind_of, network


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("name", [*NETWORKS])
def test_a_network_has_the_bits_of_its_operators(name: str, quantised: bool) -> None:
    made = network(name, quantised=quantised, size=32, part=8)
    wanted = made.eager(made.image)
    assert np.isfinite(wanted).all()
    assert len(np.unique(wanted)) > CLASSES // 50
    found = np.empty_like(wanted)
    calls = {}
    for fuse in (True, False):
        compiled = made.graph.compile(fuse=fuse)
        calls[fuse] = len(compiled.call.parts)
        assert all(part.kernel_name.endswith(":compiled") for part in compiled.call.parts)
        found[...] = np.nan
        compiled.bind(x=made.image, output=found).execute()
        assert found.tobytes() == wanted.tobytes(), fuse
    assert calls[True] <= calls[False] - (0 if quantised else 16)
    kept = made.graph.run({"x": made.image}, keep="all")
    assert kept["output"].tobytes() == wanted.tobytes()
    assert len(kept) > 20


def test_calls_are_counted_by_the_kind_of_their_first_operator() -> None:
    assert kind_of("convolution_12 + element_wise_clip_3") == "convolution"
    assert kind_of("element_wise_quantized_linear_add") == "element_wise_quantized_linear_add"


def test_onnxruntime_is_asked_for_the_same_layers() -> None:
    for name, convolutions in (("ResNet-18", 20), ("MobileNetV2", 52)):
        for quantised, operator in ((False, "Conv"), (True, "QLinearConv")):
            made = network(name, quantised=quantised, size=32, part=8)
            titles = [node[0] for node in made.theirs.nodes]
            assert titles.count(operator) == convolutions
            ours = [n for n in made.graph.desc.nodes if isinstance(n, dml.OperatorNode) and "CONVOLUTION" in n.desc.spec.name]
            assert len(ours) == convolutions + 1  # and the classes
