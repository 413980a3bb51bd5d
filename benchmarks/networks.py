"""Whole networks as graphs, compared with onnxruntime's session of the same layers: one image and one thread, with its own
times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.devices.profile import Profile
from benchmarks.network_layers import CLASSES, NETWORKS, Array, Floats, Integers, Onnx, Weights
from benchmarks.onnx_session import session
from benchmarks.timing import best

SIZE = 224


class Network(NamedTuple):
    """A network for one image: as our graph, as eager calls on arrays, and as ONNX nodes with their constants."""

    graph: dml.Graph
    eager: Callable[[Array], Array]
    theirs: Onnx
    image: Array


def network(name: str, *, quantised: bool, size: int = SIZE, part: int = 1) -> Network:
    """A network of images of size x size. part: a divisor of its channels."""
    function, weights, writer = NETWORKS[name], Weights(), Integers if quantised else Floats
    image = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)
    theirs = Onnx(weights, quantised)
    last = function(theirs, "x", size, part)
    operator, read, _, attributes = theirs.nodes[-1]
    theirs.nodes[-1] = (operator, read, ["z"], attributes)
    assert last == f"t{len(theirs.nodes) - 1}"

    def eager(x: Any) -> Any:
        return function(writer(weights), x, size, part)

    return Network(dml.graph(eager, x=dml.TensorDesc.of(image)), eager, theirs, image)


def kind_of(title: str) -> str:
    """A call's kind for shares: its first operator."""
    return title.split(" + ")[0].rstrip("0123456789").rstrip("_")


def shares(profile: Profile) -> dict[str, float]:
    """The share of the time of each kind of call, the largest first."""
    spent: dict[str, float] = {}
    for call in profile:
        kind = kind_of(call.nodes)
        spent[kind] = spent.get(kind, 0.0) + call.microseconds
    total = sum(spent.values())
    return {kind: one / total for kind, one in sorted(spent.items(), key=lambda item: -item[1])}


def run(seconds: float = 2.0) -> list[dict[str, Any]]:
    rows = []
    print(f"\n{'network, one image, one thread':34} {'ms':>8} {'unfused':>8} {'onnxruntime':>12} {'x':>6}  shares")
    for name in NETWORKS:
        for quantised in (False, True):
            made = network(name, quantised=quantised)
            device = dml.Device(threads=1)
            found: dict[str, Array] = {}
            calls: dict[str, Callable[[], object]] = {}
            for way, fuse in (("fused", True), ("unfused", False)):
                found[way] = np.empty((1, CLASSES, 1, 1), np.float32)
                compiled = made.graph.compile(device, fuse=fuse)
                calls[way] = compiled.bind(x=made.image, output=found[way]).execute
                calls[way]()
            assert found["fused"].tobytes() == found["unfused"].tobytes()
            profile = made.graph.compile(device).profile(x=made.image, output=np.empty_like(found["fused"]))
            theirs = np.empty((1, CLASSES), np.float32)
            peer = session(made.theirs.nodes, {"x": made.image}, {"z": theirs}, made.theirs.constants)
            assert peer is not None, "onnxruntime takes all of them"
            peer()
            agreement = float(np.corrcoef(theirs.ravel(), found["fused"].ravel())[0, 1])
            assert agreement > (0.9 if quantised else 0.9999), agreement
            spent = best(calls | {"onnxruntime": peer}, seconds=seconds, clock=time.thread_time)
            row: dict[str, Any] = {
                "network": name,
                "type": "int8" if quantised else "float32",
                **{way: s * 1e3 for way, s in spent.items()},
                "x": spent["onnxruntime"] / spent["fused"],
                "agreement": agreement,
                "shares": shares(profile),
            }
            rows.append(row)
            listed = ", ".join(f"{kind} {part:.0%}" for kind, part in row["shares"].items())
            print(
                f"{name + ', ' + row['type']:34} {row['fused']:8.2f} {row['unfused']:8.2f} {row['onnxruntime']:12.2f} "
                f"{row['x']:6.2f}  {listed}",
                flush=True,
            )
    return rows
