"""The kernels of attention for Arm, emulated: the reference's bits, in buffers between unmapped pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of

import emulated
from agreement import bits_of
from anydml.kernels.attention import family
from anydml.kernels.code.targets import ARM
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.reference import evaluated
from anydml.schema.check import check
from anydml.schema.operator import Desc
from attention_cases import FORMS, MASKS, described, made
from emulated import Bytes, Case, steps_of
from every_kernel import SOAK
from tensors import laid_over

pytestmark = emulated.needed
GENERIC = ARM[0]  # attention is the same for the other Arm targets


def case_of(desc: Desc, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> Case:
    checked = check(desc)
    lowered = family.lower(problem_of(checked), Machine(None, 1))
    assert isinstance(lowered, Lowered), lowered
    buffers = {name: memory_of(checked.tensors[name], x) for name, x in inputs.items()}
    wanted: dict[str, Bytes] = {}
    for name, x in evaluated(desc, inputs).items():
        t = checked.tensors[name]
        buffers[name] = np.full(t.element_bytes, 0xA5, np.uint8)
        wanted[name] = buffers[name].copy()
        bits_of(laid_over(t, wanted[name]))[...] = bits_of(x)
    assert lowered.constants is not None
    buffers["constants"] = lowered.constants
    buffers["scratch"] = np.zeros(lowered.scratch, np.uint8)
    steps = steps_of(phase for rounds in lowered.rounds for phase in rounds.phases)
    judge = partial(judged, lowered, checked.tensors, inputs, wanted)
    return Case(str(desc), buffers, steps, wanted, judge=judge)


def judged(
    lowered: Lowered, tensors: Any, inputs: Any, wanted: Mapping[str, Bytes], status: int, written: Mapping[str, Bytes]
) -> None:
    """Assert that the outputs are exact after undecided elements have been decided, as after any call."""
    got = {name: written[name].copy() for name in wanted}
    if status:
        assert lowered.decide is not None
        arrays = {**inputs, **{name: laid_over(tensors[name], memory) for name, memory in got.items()}}
        lowered.decide(written["scratch"].view(np.int64), arrays)
    for name, memory in got.items():
        np.testing.assert_array_equal(memory, wanted[name])


def test_forms_masks_and_types(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorder, cases = emulated.recording(monkeypatch, GENERIC, family), []
    for at, form in enumerate(FORMS):
        for mask in MASKS if SOAK > 1 else (MASKS[at % 5],):
            rng = np.random.default_rng(at)
            dtype, more = np.float16 if at % 2 else np.float32, dict(bias=at % 3 == 0, term=at % 2 == 0, present=True)
            found = made(rng, form, mask, dtype, 1, queries=3, **more)
            inputs, outputs, fields = found
            if at == 0:
                inputs["query_tensor"][...] = 0
            cases.append(case_of(described(inputs, outputs, fields), inputs, outputs))
    emulated.run(emulated.build(tmp_path, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
    assert len(cases) >= 7
