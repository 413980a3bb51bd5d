"""The bounds of a recurrence's sums: the kernel's scratch after a step, compared with exact sums."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_recurrences import ISAS, filled, needs_code, plain

from agreement import SOAK
from anydml.devices.link import link
from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import At
from anydml.kernels.code import targets
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.match.states import Before, Scaled
from anydml.kernels.match.stepped import SteppedElement
from anydml.kernels.problem import problem_of
from anydml.kernels.recurrence import family
from anydml.kernels.recurrence import tuning as recurrence_tuning
from anydml.kernels.recurrence.key import signature
from anydml.kernels.recurrence.plan import Planner
from anydml.schema.check import check
from anydml.schema.statement import meaning
from tuned import tuned

WIDE = np.longdouble
Array = NDArray[Any]


def of_place(place: SteppedElement, inputs: dict[str, Any], units: int, terms: int) -> Array:
    """The weights, by unit and term."""
    array = inputs[place.name]
    start, unit, term = (np.array(x) for x in (place.start, place.unit, place.term))
    return np.array([[array[tuple(start + j * unit + k * term)] for k in range(terms)] for j in range(units)], np.float64)


def exactly(rows: Array, weights: Array) -> Array:
    """Sums of products that float64 represents exactly, rounded once."""
    return np.array([[math.fsum((row * weight).tolist()) for weight in weights] for row in rows])


class Step:
    """The first step of a desc: its plan, and the scratch after its call."""

    def __init__(self, desc: Any, inputs: dict[str, Any], outputs: dict[str, Any], isa: str) -> None:
        found, checked = recurrence(meaning(desc)), check(desc)
        assert not isinstance(found, str)
        target = targets.named(isa)
        assert target is not None
        self.sequences, self.units = found.sizes[2:]
        self.planner = Planner(found, 0, range(self.sequences), checked.tensors, target, Scratch("scratch"), At("constants"))
        undecided = self.planner.piece().undecided
        self.numbers: dict[str, Any] = dict(zip(signature(undecided.key).names, undecided.arguments, strict=True))
        made = family.lower(problem_of(checked), Machine(isa, 1))
        assert isinstance(made, Lowered)
        memory = np.zeros(made.scratch + 128, np.uint8)
        stopped: list[Array] = []

        def stop(*_: object) -> None:
            stopped.append(memory.copy())
            raise StopIteration

        with suppress(StopIteration):
            link(made._replace(decide=stop)).bind({**inputs, **outputs, "scratch": memory})()
        start = -address_of(memory) % 64
        (memory,) = stopped or [memory]  # the sums are complete before anything is undecided
        self.memory = memory[start : start + made.scratch // 8 * 8]

    def floats(self, name: str, count: int) -> Array:
        """Numbers of the scratch, beginning at the address of an argument."""
        first = self.numbers[name].offset
        found: Array = self.memory[first : first + 8 * count].view(np.float64)
        return found

    def source(self, n: int, blocks: int) -> tuple[Array, Array]:
        """The sums of a source, by block, sequence and unit, and their bounds."""
        row, block = self.numbers[f"sums_row{n}"] // 8, self.numbers[f"block{n}"] // 8
        sums = self.floats(f"sums{n}", row * self.sequences).reshape(self.sequences, row)
        columns = self.floats(f"columns{n}", row)
        factor = np.array([self.numbers[f"factor{n}"]]).view(np.float64)[0]
        norms = self.floats(f"norms{n}", self.sequences) * factor
        if f"lost{n}" in self.numbers:
            norms = norms + self.floats(f"lost{n}", self.sequences)
        parts = [slice(k * block, k * block + self.units) for k in range(blocks)]
        return np.array([sums[:, p] for p in parts]), np.array([norms[:, None] * columns[p] for p in parts])


@needs_code
@pytest.mark.parametrize("isa", ISAS if SOAK > 1 else ISAS[:: max(1, len(ISAS) - 1)])
@pytest.mark.parametrize("name", ["LSTM", "GRU"])
@pytest.mark.parametrize(("sequences", "least"), [(1, -6), (9, -6), (18, -9), (18, -24)])
def test_sums_are_within_their_bounds(
    name: str, isa: str, sequences: int, least: int, ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """least: the exponent of the smallest magnitudes. Numbers far below the largest one are more than their digits."""
    width, hidden = 150, 70
    if sequences > 1:
        tuned(monkeypatch, recurrence_tuning, digits=-(1 << 40))
    desc = plain(name, 1, sequences, width, hidden)
    rng = np.random.default_rng(sequences)
    inputs, outputs = filled(desc, rng)
    for array in inputs.values():  # very different magnitudes, half of which cancel
        array *= np.ldexp(np.float32(1), rng.integers(least, 3, array.shape))
        array.reshape(-1)[1::2] = -array.reshape(-1)[: array.size // 2 * 2 : 2]
    for array in (inputs["input_tensor"][0, 0], inputs["hidden_init_tensor"][0, 0]):
        array[1:8] *= np.ldexp(np.float32(1), np.arange(-60, 10, 10))[: sequences - 1, None]
        array[17:] = 0  # zeros have no digits: these rows are multiplied as they are
    step = Step(desc, inputs, outputs, isa)
    registers = sequences > 1 and isa == "amx_int8"
    assert {bool(source.digits) for source in step.planner.sources.values()} == {registers}
    read = inputs["input_tensor"][0, 0].astype(np.float64)
    before = inputs["hidden_init_tensor"][0, 0].astype(np.float64)
    compared, used = 0, 0.0
    gate = np.zeros((sequences, hidden), WIDE)  # the second gate of a GRU
    for n, (source, places) in enumerate(step.planner.blocks.items()):
        weights = [of_place(p, inputs, hidden, step.planner.terms[source]) for p in places]
        sums, bounds = step.source(n, len(places))
        if isinstance(source, Scaled):
            bias = inputs["bias_tensor"][0, 0, 0].astype(WIDE).reshape(2, 3, hidden).sum(0)[1]
            rows = before / (1 + np.exp(-(gate + bias)))
            wanted = np.array([rows @ w.T.astype(WIDE) for w in weights])
        else:
            rows = before if isinstance(source, Before) else read
            wanted = np.array([exactly(rows, w) for w in weights])
            for p, found in zip(places, wanted, strict=True):
                gate += found if p.start[2] == hidden else 0
        off = np.abs(sums - wanted).astype(np.float64)
        assert (off <= bounds).all()
        assert (bounds < 2.0**-28 * (np.abs(rows).sum() + 1)).all()
        used = max(used, float((off / np.maximum(bounds, 1e-300)).max()))
        compared += off.size
    assert used > 2.0**-12  # the bounds are not too large
    ran(compared, sequences * hidden * 6)
