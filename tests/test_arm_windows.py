"""The kernels of windows for Arm, emulated: bit for bit the reference's results, in buffers between inaccessible pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import emulated
from agreement import bits_of, expected
from anydml import check
from anydml.kernels.code.targets import ARM
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.windows import family
from anydml.kernels.windows.undecided import STATE_WORDS
from anydml.schema.statement import stated
from emulated import Bytes, Case, Recorder, steps_of
from tensors import laid_over
from test_arm import PROCESSORS, memory_of
from test_windows import USUAL, drawn, of_kinds, pooling

pytestmark = emulated.needed
GENERIC = ARM[0]  # there is nothing in windows that the other rows of the table do otherwise


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def case_of(desc: Any, x: NDArray[Any], general: bool, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(family, "GENERAL", 1 << 30 if general else 0)
    made = family.lower(stated(desc), check(desc), Machine(None, 1))
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
    """Assert that the outputs are as they are wanted once what is listed has been decided, as after any call."""
    scratch = written["scratch"].view(np.int64)
    count = int(scratch[2])
    assert STATE_WORDS > 2
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
