"""The kernels of rows for Arm, emulated: the reference's bits, in buffers between unmapped pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of
from test_rows import ACROSS, EVERY, LAYOUTS, MAPPED, TYPES, desc_of

import emulated
import hostile_data
from agreement import bits_of
from anydml import DataType, TensorDesc, check, operators
from anydml.kernels.code.targets import ARM
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.reduce import family
from anydml.kernels.reduce.key import ALL
from anydml.kernels.reference import evaluated
from anydml.kernels.undecided.state import COUNT, STATE_WORDS
from anydml.schema.operator import Desc
from emulated import Bytes, Case, Open, Recorder, steps_of
from every_kernel import SOAK
from tensors import laid_over

pytestmark = emulated.needed
GENERIC = ARM[0]  # rows are the same for the other Arm targets
F32 = DataType.FLOAT32


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def case_of(desc: Any, x: NDArray[Any], seen: Open) -> Case:
    checked = check(desc)
    made = family.lower(problem_of(checked), Machine(None, 1))
    assert isinstance(made, Lowered), made
    given, t = memory_of(desc.input_tensor, x), desc.output_tensor
    wanted: Bytes = np.full(t.element_bytes, 0xA5, np.uint8)
    buffers = {"input_tensor": given, "output_tensor": wanted.copy(), "scratch": np.zeros(made.scratch, np.uint8)}
    x = laid_over(desc.input_tensor, given)  # if elements overlap, the last one remains
    bits_of(laid_over(t, wanted))[...] = bits_of(evaluated(desc, {"input_tensor": x})["output_tensor"])
    ((phase,),) = (rounds.phases for rounds in made.rounds)
    steps = steps_of([phase])
    judge = partial(judged, made, desc, x, wanted, seen)
    return Case(str(desc), buffers, steps, {"output_tensor": wanted}, judge=judge)


def judged(
    made: Lowered, desc: Any, x: NDArray[Any], wanted: Bytes, seen: Open, status: int, written: Mapping[str, Bytes]
) -> None:
    """Assert that the output is exact after listed elements have been decided, as after any call."""
    t: TensorDesc = desc.output_tensor
    got, scratch = written["output_tensor"].copy(), written["scratch"].view(np.int64)
    count = int(scratch[COUNT])
    assert status == (1 if count else 0)
    places = scratch[STATE_WORDS : STATE_WORDS + 2 * count].reshape(count, 2)[:, 1]
    whole = math.prod(t.sizes[a] for a in desc.axes)
    seen.left += sum(whole if place == ALL else 1 for place in places.tolist())
    seen.compared += math.prod(t.sizes)
    assert made.decide is not None
    made.decide(scratch, {"input_tensor": x, "output_tensor": laid_over(t, got)})
    np.testing.assert_array_equal(got, wanted, str(desc))


def of_kind(name: str, data_type: DataType, sizes: Sequence[int], axes: Sequence[int], *strides: Any) -> Desc | None:
    """A desc with this layout; the output's strides are given for the input's sizes."""
    given, out = strides or (None, None)
    return desc_of(name, data_type, sizes, axes, given, out if name in MAPPED else None)


def run(recorder: Recorder, cases: list[Case], directory: Path) -> None:
    emulated.run(emulated.build(directory, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)


def test_every_reduction(recorder: Recorder, tmp_path: Path) -> None:
    """FLOAT32 and another data type of each, along rows, across them and over separate axes; in `make soak`, every data
    type."""
    seen, cases = Open(), []
    kinds: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((3, 21), (1,)), ((21, 18), (0,)), ((3, 2, 19), (0, 2))]
    for at, name in enumerate(EVERY):
        types = [t for t in TYPES if t != DataType.FLOAT64 and of_kind(name, t, (3, 21), (1,)) is not None]
        others = [t for t in types if t != F32]
        for data_type in types if SOAK > 1 else (F32, others[at % len(others)]):
            for k, (sizes, axes) in enumerate(kinds):
                desc = of_kind(name, data_type, sizes, axes)
                for kind in hostile_data.KINDS:
                    x = hostile_data.values(data_type.name, sizes, np.random.default_rng(k), kind)
                    cases.append(case_of(desc, x, seen))
    run(recorder, cases, tmp_path)
    assert len(cases) >= len(EVERY) * 2 * len(kinds) * len(hostile_data.KINDS)
    assert seen.left < seen.compared / 20


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX1", "SUM", "ARGMAX"])
def test_layouts(name: str, recorder: Recorder, tmp_path: Path) -> None:
    seen, cases = Open(), []
    for layout in (*LAYOUTS, *ACROSS):
        desc = of_kind(name, F32, *layout)
        x = hostile_data.values("FLOAT32", layout[0], np.random.default_rng(3), "ordinary")
        cases.append(case_of(desc, x, seen))
    run(recorder, cases, tmp_path)
    assert seen.left < seen.compared / 20


def test_normalisation(recorder: Recorder, tmp_path: Path) -> None:
    """By a row's own mean and variance, along rows, across them and over separate axes."""
    normalise: Any = operators.find("MEAN_VARIANCE_NORMALIZATION2")
    seen, cases = Open(), []
    for sizes, axes in (((3, 21), (1,)), ((21, 18), (0,)), ((3, 2, 19), (0, 2))):
        t = TensorDesc(F32, sizes)
        desc = normalise(input_tensor=t, output_tensor=t, axes=axes)
        drawn = [hostile_data.values("FLOAT32", sizes, np.random.default_rng(4), kind) for kind in hostile_data.KINDS]
        cases += [case_of(desc, x, seen) for x in drawn]
    run(recorder, cases, tmp_path)
    assert seen.left < seen.compared / 20
