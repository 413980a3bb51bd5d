"""Dequantised layers whose tiles are stored as bytes: with wrong estimates, the listed outputs must still be decided."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_arm_matmul import PROCESSORS, one_by_one
from test_quantised_graphs import compiled_of, outputs

import anydml as dml
import emulated
from anydml import TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import ARM, Target, targets
from anydml.kernels.contract.quantised import bounds, family
from anydml.kernels.kernel import Lowered, Machine
from every_kernel import DOT_PRODUCTS, SOAK, Ran
from guard_pages import AVAILABLE, place
from quantised_graphs import INT8, UINT8, Array, Case, Recipe, make, problems_of

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
OFF = 0.04
KINDS: dict[str, Recipe] = {
    # channels in fours and filters: a line of positions, lines of few, panels that overlap, groups
    "places": Recipe(UINT8, INT8, UINT8, (1, 16, 19, 19), (60, 3, 3), padding=1, clamp="relu"),
    "few places": Recipe(INT8, INT8, INT8, (2, 8, 9, 5), (57, 3, 3), clamp="clip", bias="float"),
    "groups": Recipe(UINT8, UINT8, UINT8, (1, 16, 7, 7), (64, 1, 1), groups=2, by_channel=False),
    # one channel with its filter: lines, two lines in one vector, every second column
    "lines": Recipe(UINT8, INT8, UINT8, (1, 8, 9, 40), (8, 3, 3), groups=8, padding=1, clamp="relu"),
    "narrow lines": Recipe(INT8, INT8, UINT8, (2, 8, 15, 13), (8, 3, 3), groups=8, clamp="clip"),
    "strided lines": Recipe(UINT8, UINT8, INT8, (1, 8, 21, 41), (8, 5, 5), groups=8, stride=2, padding=2),
    # rows of filters by columns of positions
    "rows": Recipe(UINT8, INT8, UINT8, (2, 3, 12, 12), (9, 3, 3), padding=1, stride=1, clamp="relu"),
    "rows of groups": Recipe(INT8, INT8, INT8, (1, 6, 21, 9), (6, 3, 3), groups=2, by_channel=False, zero="none"),
    # matrices with many rows and with few
    "columns": Recipe(UINT8, INT8, UINT8, (20, 64), (70,), clamp="relu"),
    "one for all": Recipe(INT8, INT8, INT8, (9, 33), (64,), by_channel=False, transposed=True, bias="none", zero="none"),
    "few rows": Recipe(UINT8, INT8, INT8, (2, 200), (97,), transposed=True, clamp="clip", bias="float", zero="none"),
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each region that is lowered, whether its tiles are stored as bytes."""
    found: list[bool] = []

    def noted(*arguments: Any) -> Any:
        made = in_tiles(*arguments)
        found.append(made is not None)
        return made

    in_tiles = family.in_tiles
    monkeypatch.setattr(family, "in_tiles", noted)
    return found


def estimates_off(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    """Make every estimate wrong by `off`, and its limit lower: bytes are wrong unless all listed ones are decided."""
    estimate = bounds.estimate

    def wrong(*arguments: Any) -> Any:
        made = estimate(*arguments)
        assert not isinstance(made, str)
        limit = np.minimum(made.limit, np.float32(0.5)) - np.float32(off)
        return made._replace(term=made.term + np.float32(off), limit=limit)

    monkeypatch.setattr(bounds, "estimate", wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_listed_is_decided(kind: str, taken: list[bool], monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Estimates that are wrong by 0.04, so that one byte in 25 would be wrong, on every instruction set."""
    recipe, rng, count = KINDS[kind], random.Random(kind), 0
    case, wanted = make(recipe, 7), stated()[kind]
    estimates_off(monkeypatch, OFF)
    rows = targets() if SOAK > 1 else (targets()[-1], rng.choice(targets()))
    for row in rows:
        taken.clear()
        np.testing.assert_array_equal(outputs(case, isa=row.name, threads=rng.choice((1, 2, 3))), wanted, row.name)
        # without 512-bit vectors, one channel is summed in pairs of 16 bits, and sums are stored
        own = DOT_PRODUCTS - {"avxvnni"} if "lines" in kind else DOT_PRODUCTS
        assert taken == [True] or (taken == [False] and own.isdisjoint(row.features))
        count += wanted.size
    assert len(np.unique(wanted)) > 5
    ran(count, 200)


@pytest.mark.parametrize("scales", [np.float32(0.0053), np.linspace(0.002, 0.009, 12, dtype=np.float32)[:, None]])
def test_weights_that_come_first(scales: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """A product of weights with a dequantised tensor, whose rows are channels: with one scale, and with a scale for each
    row."""
    rng = np.random.default_rng(3)
    w, x = rng.integers(-99, 99, (12, 40)).astype(np.int8), rng.integers(0, 256, (40, 70)).astype(np.uint8)

    def layer(x: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.0371), np.uint8(7))
        sums = dml.gemm(dml.element_wise_dequantize_linear(w, scales), floats)
        return {"y": dml.element_wise_quantize_linear(sums, np.float32(0.513), np.uint8(120))}

    case = Case(dml.graph(layer, x=TensorDesc("UINT8", (40, 70))).desc, {"x": x}, (12, 70), UINT8)
    wanted = outputs(case, fuse=False)
    estimates_off(monkeypatch, OFF)
    for threads in (1, 2):
        np.testing.assert_array_equal(outputs(case, threads=threads), wanted)
    assert taken == [True] * 2
    assert len(np.unique(wanted)) > 60
    ran(2 * wanted.size, 1_680)


def test_lists_that_are_too_short(taken: list[bool], monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Estimates that are wrong by 0.4: more outputs than lists can hold, so that all are decided."""
    case = make(Recipe(UINT8, INT8, UINT8, (1, 4, 20, 40), (8, 1, 1), clamp="relu"), 1)
    wanted = outputs(case, fuse=False)
    estimates_off(monkeypatch, 0.4)
    for threads in (1, 3):
        np.testing.assert_array_equal(outputs(case, threads=threads), wanted)
    assert taken == [True] * 2
    assert len(np.unique(wanted)) > 30
    ran(2 * wanted.size, 12_800)


@pytest.mark.skipif(not AVAILABLE, reason="no page can be made inaccessible here")
def test_no_output_is_listed_behind_the_last_line(taken: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines share a row of a tile, and the last one is alone."""
    case = make(Recipe(INT8, INT8, UINT8, (1, 8, 9, 13), (8, 3, 3), groups=8, clamp="clip"), 0)
    estimates_off(monkeypatch, 2 * OFF)
    y, _ = place(case.sizes, np.cumprod([1, *case.sizes[:0:-1]])[::-1].tolist(), case.dtype, at_end=True)
    compiled_of(case.desc).bind(**case.inputs, y=y).execute()
    assert len(np.unique(y)) > 5
    assert taken == [not DOT_PRODUCTS.isdisjoint(targets()[-1].features)]


@cache
def stated() -> dict[str, Array]:
    """The outputs of all kinds in unfused graphs."""
    return {kind: outputs(make(recipe, 7), fuse=False) for kind, recipe in KINDS.items()}


@emulated.needed
@pytest.mark.parametrize("row", ARM)
def test_arm(row: Target, taken: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same on emulated processors."""
    wanted = stated()
    recorder = emulated.recording(monkeypatch, row, family)
    estimates_off(monkeypatch, OFF)
    cases = []
    for kind, recipe in KINDS.items():
        case = make(recipe, 7)
        (problem,) = problems_of(case.desc)
        constants, made = problem.promises.constants, family.lower(problem, Machine(None, 1))
        assert isinstance(made, Lowered)
        buffers = {
            name: constants[name].view(np.uint8).reshape(-1)
            if name in constants
            else case.inputs["x"].view(np.uint8).reshape(-1)
            for name in problem.tensors
            if name != "output"
        }
        buffers |= {name: array.view(np.uint8).reshape(-1) for name, array in made.own.items()}
        output = wanted[kind].view(np.uint8).reshape(-1)
        assert made.constants is not None
        buffers |= {"output": np.full_like(output, 0xA5), "constants": made.constants}
        sizes = {"scratch": made.scratch, "passing": made.passing, "packed": made.packed, "spare": made.spare}
        buffers |= {name: np.full(size, 0xFF if name == "passing" else 0, np.uint8) for name, size in sizes.items() if size}
        assert not any(rounds.times for rounds in made.rounds)
        planned = [*made.packing, *(s for rounds in made.rounds for phase in rounds.phases for piece in phase for s in piece)]
        steps = [step for s in planned for step in one_by_one(s)]
        cases.append(emulated.Case(kind, buffers, steps, {"output": output}))
    emulated.run(emulated.build(tmp_path, row, recorder.texts), PROCESSORS[row.name], cases)
    assert any(taken)
