"""Random graphs: the same bits fused, unfused and operator by operator, in guarded memory; and their scratch."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import guard_pages
from anydml import TensorDesc
from anydml.devices import graph_call
from anydml.graphs import layouts
from anydml.graphs.memory import LINE, Layout, Life, laid_out, most_alive
from anydml.kernels.code.targets import targets
from every_kernel import SOAK, Ran
from fitting_graphs import fitting_graph
from map_chains import chain_of_maps
from random_graphs import random_net
from wired_graphs import EXAMPLES, Wired, random_wiring

NETS, LAYOUTS, FITTING, CHAINS = 80, 300, 16, 20
WIRINGS = {"cpu": 40, "reference": 80}
# 10^4 graphs in `make soak-graphs`, and 500 on each other instruction set
ISAS = [None, *(target.name for target in targets()[:-1] if SOAK > 1)]
OTHERS = 500
EACH = 5  # operators of a graph wired by bytes, besides those that slice and join for them


TURN = 3  # operators of a fitting graph, besides those before and after them
APART = 2  # their distance in the list of operators, so that few graphs contain operators of all kinds


def cases(count: int, isa: str | None) -> int:
    return count * SOAK if isa is None else OTHERS * count // (NETS + WIRINGS["cpu"] + FITTING)


def apart(layout: Layout, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """Each buffer of a scratch between unmapped pages, filled with bytes that no operator wrote."""
    made = {}
    for buffer in layout.offsets:
        made[buffer] = guard_pages.guarded(sizes[buffer], at_end=buffer % 2 == 0)
        made[buffer][:] = 0xA5
    return made


def together(layout: Layout, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """One scratch between unmapped pages, with overlapping buffers, filled with bytes that no operator wrote."""
    memory = guard_pages.guarded(max(layout.bytes, 1), at_end=True)
    memory[:] = 0xA5
    return {buffer: memory[at : at + sizes[buffer]] for buffer, at in layout.offsets.items()}


def bits_of(x: NDArray[Any]) -> bytes:
    return x.tobytes()


def left(nbytes: int) -> NDArray[np.uint8]:
    """Memory filled with NaN, as another kernel may leave it, up to an unmapped page."""
    made = guard_pages.guarded(nbytes, at_end=True)
    made[...] = 0xFF
    return made


needs_pages = pytest.mark.skipif(not guard_pages.AVAILABLE, reason="there is no mprotect")


@needs_pages
@pytest.mark.parametrize("isa", ISAS)
def test_nets_of_functions(isa: str | None, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs made by dml.graph: matrices and images, casts, moves, sums, products, shared inputs, several outputs."""
    device = dml.Device("cpu", threads=1, isa=isa)
    monkeypatch.setattr(graph_call, "passing", left)
    fewer = 0
    for case in range(count := cases(NETS, isa)):
        rng = random.Random(f"net {case}")
        net = random_net(rng)
        monkeypatch.setattr(layouts, "RUN", (1, 256)[case % 2])  # short rows, too, are read and written in place
        made = dml.graph(net.run, **{name: TensorDesc.of(net.values[at]) for name, at in net.inputs.items()})
        for fuse in (True, False):
            compiled: Any = device.compile(made.desc, fuse=fuse)
            fewer += len(compiled.call.parts) * (-1 if fuse else 1)
            outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.outputs.items()}
            for scratch in (apart, together):
                monkeypatch.setattr(graph_call, "scratch", scratch)
                compiled.bind(**{name: net.values[at] for name, at in net.inputs.items()}, **outputs).execute()
                for x, at in zip(outputs.values(), net.outputs, strict=True):
                    assert bits_of(x) == bits_of(net.values[at]), (case, fuse, net.steps)
    ran(count, count)
    assert fewer > count // 2


@needs_pages
@pytest.mark.parametrize(("name", "isa"), [("reference", None), *(("cpu", isa) for isa in ISAS)])
def test_any_operators_wired_by_bytes(
    name: str,
    isa: str | None,
    ran: Ran,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Examples of all operators, each of which reads bytes of others' results: outputs are those of operators alone."""
    device = dml.Device(name, threads=1, isa=isa)
    monkeypatch.setattr(graph_call, "passing", left)
    drawn: Counter[str] = Counter()
    wirings = 0
    for case in range(count := cases(WIRINGS[name], isa)):
        rng = random.Random(f"{name} {case}")
        # in turn, so that each operator is in one of the few graphs
        names = rng.sample([*itertools.islice(itertools.cycle(EXAMPLES), case * EACH, (case + 1) * EACH)], EACH)
        if (wired := random_wiring(rng, device, names)) is None:
            continue
        wirings += 1
        monkeypatch.setattr(layouts, "RUN", (1, 256)[case % 2])
        drawn.update(node.desc.spec.name for node in wired.desc.nodes if isinstance(node, dml.OperatorNode))
        agrees(device, wired, case, monkeypatch)
    ran(wirings, count * 3 // 4)
    every_operator(drawn, record_property)


@needs_pages
@pytest.mark.parametrize("isa", ISAS)
def test_any_operators_that_fit(
    isa: str | None, ran: Ran, record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All operators with sizes, types and layouts of other results than their examples', between maps, sums and moves.

    Also with gaps, constants, owned inputs and fused activations. In `make soak`, each small node is compared with the
    reference, too.
    """
    devices = [dml.Device("cpu", threads=threads, isa=isa) for threads in (1, 3)]
    judge = dml.Device("reference") if SOAK > 1 else None
    monkeypatch.setattr(graph_call, "passing", left)
    drawn: Counter[str] = Counter()
    every = [*EXAMPLES]
    for case in range(count := cases(FITTING, isa)):
        names = [every[(case * TURN + k) * APART % len(every)] for k in range(TURN)]
        rng = random.Random(f"fitting {case}")
        monkeypatch.setattr(layouts, "RUN", (1, 256)[case % 2])
        device = devices[case % 2]
        fitting = fitting_graph(rng, device, names, judge)
        nodes = [node.desc.spec.name for node in fitting.desc.nodes if isinstance(node, dml.OperatorNode)]
        assert {*names} <= {*nodes}
        drawn.update(nodes)
        agrees(device, fitting, case, monkeypatch)
    ran(count, count)
    if count * TURN >= len(every):
        every_operator(drawn, record_property)


@needs_pages
@pytest.mark.parametrize("isa", ISAS)
def test_chains_of_maps(isa: str | None, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of any maps of all types, with hostile data; most are one kernel."""
    device = dml.Device("cpu", threads=1, isa=isa)
    monkeypatch.setattr(graph_call, "passing", left)
    fewer = 0
    for case in range(count := CHAINS * SOAK if isa is None else OTHERS // 5):
        chain = chain_of_maps(random.Random(f"chain {case}"), device)
        fewer += agrees(device, chain, case, monkeypatch)
    ran(count, count)
    assert fewer > count // 3


def agrees(device: dml.Device, wired: Wired, case: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Assert that outputs have the bits of operators alone; return the number of calls that fusion saves.

    Fused and unfused, with buffers apart and together.
    """
    fewer = 0
    for fuse in (True, False):
        compiled: Any = device.compile(wired.desc, fuse=fuse)
        fewer += len(compiled.call.parts) * (-1 if fuse else 1)
        if wired.owned:
            compiled.initialize(**wired.owned)
        for scratch in (apart, together):
            monkeypatch.setattr(graph_call, "scratch", scratch)
            outputs = {output: np.zeros_like(x) for output, x in wired.outputs.items()}
            compiled.bind(**wired.inputs, **outputs).execute()
            for output, x in outputs.items():
                assert bits_of(x) == bits_of(wired.outputs[output]), (case, output, fuse, wired.desc)
    return fewer


def every_operator(drawn: Counter[str], record_property: Callable[[str, object], None]) -> None:
    """Assert that each operator was drawn, and record the counts."""
    least, most = min(drawn.values()), max(drawn.values())
    print(f"{len(drawn)} operators, each drawn {least} to {most} times")
    record_property("operators as nodes", sum(drawn.values()))
    assert drawn.keys() == EXAMPLES.keys()


def test_scratch_is_hardly_more_than_what_is_alive_and_never_shared() -> None:
    """Up to 40 buffers of very different sizes with random lifetimes: buffers that overlap in time do not overlap in memory."""
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
