"""Random graphs: fused, unfused and operator by operator the same bits, within guarded memory; and their scratch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guarded
from anydml import TensorDesc
from anydml.devices import graph_call
from anydml.graphs.memory import LINE, Layout, Life, laid_out, most_alive
from random_graphs import random_net, random_wiring

NETS, LAYOUTS = 100, 300
WIRINGS = {"cpu": 20, "reference": 80}  # most kernels are compiled for a single graph


def apart(layout: Layout, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """Each buffer of a scratch between unmapped pages, full of what no operator wrote."""
    made = {}
    for buffer in layout.offsets:
        made[buffer] = guarded.guarded(sizes[buffer], at_end=buffer % 2 == 0)
        made[buffer][:] = 0xA5
    return made


def together(layout: Layout, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """One scratch between unmapped pages, in which buffers lie over one another, full of what no operator wrote."""
    memory = guarded.guarded(max(layout.bytes, 1), at_end=True)
    memory[:] = 0xA5
    return {buffer: memory[at : at + sizes[buffer]] for buffer, at in layout.offsets.items()}


def bits_of(x: NDArray[Any]) -> bytes:
    return x.tobytes()


needs_pages = pytest.mark.skipif(not guarded.AVAILABLE, reason="there is no mprotect")


@needs_pages
def test_nets_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that dml.graph makes: matrices and images, casts, moves, sums, products, shared inputs, several outputs."""
    rng, device = random.Random(5), dml.Device("cpu", threads=1)
    fewer = ran = 0
    for _ in range(NETS):
        net = random_net(rng)
        made = dml.graph(net.run, **{name: TensorDesc.of(net.values[at]) for name, at in net.inputs.items()})
        for fuse in (True, False):
            compiled: Any = device.compile(made.desc, fuse=fuse)
            fewer += len(compiled.call.parts) * (-1 if fuse else 1)
            outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.outputs.items()}
            for scratch in (apart, together):
                monkeypatch.setattr(graph_call, "scratch", scratch)
                compiled.bind(**{name: net.values[at] for name, at in net.inputs.items()}, **outputs).execute()
                for x, at in zip(outputs.values(), net.outputs, strict=True):
                    assert bits_of(x) == bits_of(net.values[at]), (fuse, net.steps)
        ran += 1
    print(f"{ran} graphs, {fewer} operators fused away")
    assert ran == NETS
    assert fewer > NETS // 2


@needs_pages
@pytest.mark.parametrize("name", WIRINGS)
def test_any_operators_wired_by_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples of all operators, each reading bytes of the others' results: what they are alone."""
    rng, device = random.Random(6), dml.Device(name, threads=1)
    seen: set[str] = set()
    ran = 0
    while ran < WIRINGS[name]:
        if (wired := random_wiring(rng, device)) is None:
            continue
        seen |= {type(node.desc).__name__ for node in wired.desc.nodes if isinstance(node, dml.OperatorNode)}
        for fuse in (True, False):
            compiled = device.compile(wired.desc, fuse=fuse)
            for scratch in (apart, together):
                monkeypatch.setattr(graph_call, "scratch", scratch)
                outputs = {output: np.zeros_like(x) for output, x in wired.outputs.items()}
                compiled.bind(**wired.inputs, **outputs).execute()
                for output, x in outputs.items():
                    assert bits_of(x) == bits_of(wired.outputs[output]), (output, fuse, wired.desc)
        ran += 1
    print(f"{ran} graphs of {len(seen)} operators")
    assert len(seen) > WIRINGS[name]


def test_scratch_is_hardly_more_than_what_is_alive_and_never_shared() -> None:
    """Random lives of up to 40 buffers, of sizes of all magnitudes: no two that overlap in time do in memory."""
    rng = random.Random(7)
    worst = 1.0
    for _ in range(LAYOUTS):
        found = {}
        for buffer in range(rng.randint(1, 40)):
            first = rng.randrange(30)
            size = LINE * rng.choice((1, 2, 3, 5, 16, 100, rng.randint(1, 4000)))
            found[buffer] = Life(first, first + rng.choice((1, 1, 1, 2, 3, rng.randrange(12))), size)
        layout = laid_out(found)
        for a, x in found.items():
            assert layout.offsets[a] % LINE == 0
            assert layout.offsets[a] + x.bytes <= layout.bytes
            for b, y in found.items():
                if a < b and x.first <= y.last and y.first <= x.last:
                    begin, other = layout.offsets[a], layout.offsets[b]
                    assert begin + x.bytes <= other or other + y.bytes <= begin
        worst = max(worst, layout.bytes / most_alive(found))
    print(f"{LAYOUTS} layouts, at most {worst:.3f} of what is alive")
    assert worst <= 1.1
