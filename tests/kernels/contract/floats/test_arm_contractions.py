"""The contractions of floats for Arm, emulated: the oracle's bits, in buffers between unmapped pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of, one_by_one

import emulated
import hostile_data
from agreement import bits_of, expected
from anydml import DataType, TensorDesc, check
from anydml.kernels.code.targets import ARM
from anydml.kernels.contract.floats import family, tuning
from anydml.kernels.contract.floats.winograd import plan
from anydml.kernels.contract.floats.winograd.plan import WinogradPlan
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from drawn_contractions import Rng, convolution, fill, gemm, named, pick
from emulated import Bytes, Case, Open, Recorder
from every_kernel import SOAK
from tensors import laid_over
from tuned import tuned

pytestmark = [
    emulated.needed,
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
GENERIC = ARM[0]  # contractions are the same for the other Arm targets


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def case_of(desc: Any, rng: Rng, kind: str, seen: Open) -> Case:
    """The case of a desc with some data, with the steps of a single thread."""
    made = family.lower(problem_of(check(desc)), Machine(None, 1))
    assert isinstance(made, Lowered), made
    inputs: dict[str, NDArray[Any]] = {}
    buffers: dict[str, Bytes] = {}
    for name, field, t in desc.tensors():
        if field.role == "output":
            continue
        x = np.zeros(t.sizes, t.data_type.dtype)
        fill(rng, x, kind)
        buffers[name] = memory_of(t, x)
        inputs[name] = laid_over(t, buffers[name])  # if elements overlap, the last one remains
    t = desc.output_tensor
    wanted: Bytes = np.full(t.element_bytes, 0xA5, np.uint8)
    buffers |= {"output_tensor": wanted.copy(), "scratch": np.zeros(made.scratch, np.uint8)}
    buffers["passing"] = np.full(made.passing, 0xFF, np.uint8)  # filled with what other kernels may leave
    assert made.constants is not None
    buffers["constants"] = made.constants
    given = {name: np.ascontiguousarray(x) for name, x in inputs.items()}
    bits_of(laid_over(t, wanted))[...] = bits_of(expected(desc, given)["output_tensor"])
    steps = [step for r in made.rounds for phase in r.phases for piece in phase for s in piece for step in one_by_one(s)]
    return Case(str(desc), buffers, steps, {"output_tensor": wanted}, judge=partial(judged, made, desc, inputs, wanted, seen))


def judged(
    made: Lowered,
    desc: Any,
    inputs: Mapping[str, NDArray[Any]],
    wanted: Bytes,
    seen: Open,
    status: int,
    written: Mapping[str, Bytes],
) -> None:
    """Assert that the output is exact after undecided elements have been decided, as after any call."""
    got = written["output_tensor"].copy()
    seen.compared += desc.output_tensor.element_bytes // desc.output_tensor.data_type.dtype.itemsize
    if status:
        assert made.decide is not None
        before = got.copy()
        made.decide(written["scratch"].view(np.int64), {**inputs, "output_tensor": laid_over(desc.output_tensor, got)})
        seen.left += int((before != got).sum())
    np.testing.assert_array_equal(got, wanted, str(desc))


def run(recorder: Recorder, cases: list[Case], directory: Path) -> None:
    emulated.run(emulated.build(directory, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)


def test_generated(recorder: Recorder, tmp_path: Path) -> None:
    seen, cases = Open(), []
    for n in range(8 * SOAK):
        rng = np.random.default_rng((13, n))
        desc = gemm(rng, (24, 20, 30)) if n % 2 else convolution(rng, most=6)
        kinds = ("ordinary", pick(rng, hostile_data.KINDS), "cancelling", "specials")
        cases += [case_of(desc, rng, kind, seen) for kind in kinds]
    run(recorder, cases, tmp_path)
    print(f"{len(cases)} cases, {seen.compared} outputs")
    assert seen.compared > 2000
    assert seen.left < seen.compared / 20


def test_blocks(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, chunks of columns, and tiles of two heights."""
    tuned(monkeypatch, tuning, far_columns=0, depth=7, group=48, chunk=1 << 10, block=1 << 10, column_bytes=8)
    seen = Open()
    sizes = {"a_tensor": (17, 9), "b_tensor": (9, 110), "output_tensor": (17, 110)}
    desc = named("GEMM")(**{name: TensorDesc(DataType.FLOAT32, s) for name, s in sizes.items()})
    cases = [case_of(desc, np.random.default_rng(1), kind, seen) for kind in ("ordinary", "cancelling", "small")]
    run(recorder, cases, tmp_path)
    assert seen.compared >= 3 * 17 * 110
    assert seen.left == 0


def test_winograd(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 3 x 3 by Winograd's algorithm, with borders and sizes that are not multiples of 4."""
    taken: list[WinogradPlan] = []

    def noted(*arguments: Any) -> WinogradPlan:
        taken.append(WinogradPlan(*arguments))
        return taken[-1]

    monkeypatch.setattr(family, "pays", lambda *found: True)
    monkeypatch.setattr(family, "WinogradPlan", noted)
    seen, cases = Open(), []
    for data_type in (DataType.FLOAT32, DataType.FLOAT16):
        x, f, y = (TensorDesc(data_type, sizes) for sizes in ((1, 5, 9, 10), (7, 5, 3, 3), (1, 7, 9, 10)))
        desc = named("CONVOLUTION")(
            input_tensor=x, filter_tensor=f, output_tensor=y, mode="CROSS_CORRELATION", direction="FORWARD", strides=(1, 1),
            dilations=(1, 1), start_padding=(1, 1), end_padding=(1, 1), output_padding=(0, 0), group_count=1,
        )  # fmt: skip
        cases += [case_of(desc, np.random.default_rng(2), kind, seen) for kind in ("ordinary", "cancelling", "specials")]
        with monkeypatch.context() as patch:  # and with bounds that decide nothing, so that blocks are summed again
            patch.setattr(plan, "SLACK", 2.0**60)
            cases.append(case_of(desc, np.random.default_rng(2), "specials", seen))
    run(recorder, cases, tmp_path)
    assert len(taken) == len(cases) == 8
    assert seen.compared >= 8 * 7 * 90
    assert seen.left == 0
