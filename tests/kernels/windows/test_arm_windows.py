"""The kernels of windows for Arm, emulated: the reference's bits, in buffers between unmapped pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of
from test_pooled_bytes import asked_for, bytes_of, graph_of, over_all, pooled
from test_windows import USUAL, drawn, of_kinds, pooling

import anydml
import emulated
from agreement import bits_of, expected
from anydml import check
from anydml.kernels.code.targets import ARM
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.match.between import quantised_means
from anydml.kernels.problem import problem_of
from anydml.kernels.undecided.state import COUNT
from anydml.kernels.windows import family, quantised
from anydml.kernels.windows import tuning as windows_tuning
from anydml.kernels.windows.key import DEQUANTIZED, ESTIMATED
from emulated import Bytes, Case, Recorder, steps_of
from quantised_graphs import problems_of
from tensors import laid_over
from tuned import tuned

pytestmark = emulated.needed
GENERIC = ARM[0]  # windows are the same for the other Arm targets


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def case_of(desc: Any, x: NDArray[Any], general: bool, monkeypatch: pytest.MonkeyPatch) -> Case:
    tuned(monkeypatch, windows_tuning, general=1 << 30 if general else 0)
    made = family.lower(problem_of(check(desc)), Machine(None, 1))
    assert isinstance(made, Lowered), made
    buffers: dict[str, Bytes] = {"input_tensor": memory_of(desc.input_tensor, x), "scratch": np.zeros(made.scratch, np.uint8)}
    wanted: dict[str, Bytes] = {}
    for name, result in expected(desc, {"input_tensor": x}).items():
        t = getattr(desc, name)
        buffers[name] = np.full(t.element_bytes, 0xA5, np.uint8)
        wanted[name] = buffers[name].copy()
        bits_of(laid_over(t, wanted[name]))[...] = bits_of(result)
    ((phase,),) = (rounds.phases for rounds in made.rounds)
    steps = steps_of([phase])
    return Case(str(desc), buffers, steps, wanted, judge=partial(judged, made, desc, x, wanted))


def judged(
    made: Lowered, desc: Any, x: NDArray[Any], wanted: Mapping[str, Bytes], status: int, written: Mapping[str, Bytes]
) -> None:
    """Assert that the outputs are exact after listed elements have been decided, as after any call."""
    scratch = written["scratch"].view(np.int64)
    count = int(scratch[COUNT])
    if made.decide is None:
        assert status == 0
    else:
        assert status == (1 if count else 0)
    for name, want in wanted.items():
        got = written[name].copy()
        if made.decide is not None:
            made.decide(scratch, {"input_tensor": x, name: laid_over(getattr(desc, name), got)})
        np.testing.assert_array_equal(got, want, str(desc))


def test_every_kind(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = []
    for at, (name, data_type, fields) in enumerate(of_kinds()):
        for general in (False, True):
            sizes, given = USUAL[(at + general) % len(USUAL)]
            desc = pooling(name, data_type, sizes, **given, **fields)
            for kind in ("ordinary", "ties", "specials"):
                with np.errstate(all="ignore"):
                    cases.append(case_of(desc, drawn(data_type, sizes, at, kind), general, monkeypatch))
    emulated.run(emulated.build(tmp_path, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
    assert len(cases) > 90


def test_means_between_bytes(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of graphs: both kinds of sums, estimates that decide nothing, whole images and lines of any kind."""
    monkeypatch.setattr(quantised, "wanted", lambda name, stage: GENERIC)
    cases = []
    for general, slack in ((False, 0.0), (False, 0.75), (True, 0.75)):
        tuned(monkeypatch, windows_tuning, general=1 << 30 if general else 0)
        for kind in (ESTIMATED, DEQUANTIZED):
            asked_for(monkeypatch, kind, slack)
            for x, averaged in (
                (bytes_of((1, 2, 9, 20)), pooled(strides=(2, 2), window_size=(3, 3), start_padding=(1, 1))),
                (bytes_of((1, 2, 7, 30), np.int8), pooled(3.0, strides=(1, 1), window_size=(2, 2), dilations=(2, 1))),
                (bytes_of((2, 5, 7, 7)), over_all(2, 3)),
                (bytes_of((2, 4, 4, 18)), over_all(1, 2)),
            ):
                graph = graph_of(x, (0.1, 0.1), (x.dtype.type(3), np.uint8(9)), averaged)
                (problem,) = problems_of(graph.desc)
                tensors, ((written,)) = problem.tensors, problem.statement
                made = quantised.lower(problem, Machine(None, 1))
                assert isinstance(made, Lowered), made
                assert made.constants is not None
                ((phase,),) = (rounds.phases for rounds in made.rounds)
                found = quantised_means(problem)
                assert not isinstance(found, str)
                read = found.source
                buffers = {read: memory_of(tensors[read], x), "constants": made.constants}
                buffers |= {"scratch": np.zeros(made.scratch, np.uint8)}
                y = np.zeros(tensors[written].sizes, np.uint8)
                anydml.Device("reference").compile(graph.desc).bind(x=x, output=y).execute()
                buffers[written] = np.full(y.size, 0xA5, np.uint8)
                cases.append(Case(f"{kind} {slack} {x.shape}", buffers, steps_of([phase]), {written: y.ravel()}))
    emulated.run(emulated.build(tmp_path, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
    assert len(cases) == 24
