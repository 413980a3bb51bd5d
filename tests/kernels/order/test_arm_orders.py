"""The kernels of running sums, sorting and reversed lines for Arm, emulated: the oracle's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of

import emulated
import hostile_data
from agreement import bits_of, expected
from anydml import DataType, TensorDesc, check, operators
from anydml.kernels.code.targets import ARM
from anydml.kernels.irregular import family as irregular
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.order import family as order
from anydml.kernels.problem import problem_of
from anydml.kernels.scan import family as scan
from emulated import Bytes, Case, Recorder, steps_of
from tensors import laid_over

pytestmark = emulated.needed
GENERIC = ARM[0]  # these kernels are the same for the other Arm targets


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, scan, order, irregular)


def case_of(family: Any, desc: Any, **inputs: NDArray[Any]) -> Case:
    made = family.lower(problem_of(check(desc)), Machine(None, 1))
    assert isinstance(made, Lowered), made
    buffers: dict[str, Bytes] = {name: memory_of(getattr(desc, name), x) for name, x in inputs.items()}
    wanted: dict[str, Bytes] = {}
    if made.scratch:
        buffers["scratch"] = np.zeros(made.scratch, np.uint8)
    for name, result in expected(desc, inputs).items():
        t = getattr(desc, name)
        buffers[name] = np.full(t.element_bytes, 0xA5, np.uint8)
        wanted[name] = buffers[name].copy()
        bits_of(laid_over(t, wanted[name]))[...] = bits_of(result)
    (rounds,) = made.rounds
    steps = steps_of(rounds.phases)
    return Case(str(desc), buffers, steps, wanted)


def described(name: str) -> Any:
    found = operators.find(name)
    assert found is not None
    return found


def sums() -> list[Case]:
    """Lines in several columns and contiguous ones, from both ends, some of which are summed in groups."""
    cases = []
    for at, (sizes, axis) in enumerate((((3, 70), 1), ((70, 7), 0), ((2, 5, 33), 1), ((40, 3), 0)) * 2):
        rng = np.random.default_rng(at)
        for data_type in ("FLOAT32", "FLOAT16", "INT32"):
            t = TensorDesc(DataType[data_type], sizes)
            x = hostile_data.values(data_type, sizes, rng, "ordinary")
            if data_type != "INT32":
                x.flat[int(rng.integers(x.size))] = (np.inf, 1e-30, -0.0, np.nan)[at % 4]
            direction = ("INCREASING", "DECREASING")[at // 4]
            cases.append(
                case_of(
                    scan,
                    described("CUMULATIVE_SUMMATION")(
                        input_tensor=t, output_tensor=t, axis=axis, axis_direction=direction, has_exclusive_sum=at % 3 == 0
                    ),
                    input_tensor=x,
                )
            )
    return cases


def orders() -> list[Case]:
    """Lines that are sorted completely, and lines from which candidates are selected; and lists."""
    cases = []
    for at, (n, k) in enumerate(((130, 3), (60, 60), (20, 7))):
        rng = np.random.default_rng(at)
        for data_type in ("FLOAT32", "FLOAT16", "UINT8", "INT64"):
            x = hostile_data.values(data_type, (2, n), rng, ("specials", "small", "ordinary")[at])
            of, taken = DataType[data_type], (2, k)
            desc = described("TOP_K1")(
                input_tensor=TensorDesc(of, (2, n)),
                output_value_tensor=TensorDesc(of, taken),
                output_index_tensor=TensorDesc("UINT32", taken),
                axis=1,
                k=k,
                axis_direction=("INCREASING", "DECREASING")[at % 2],
            )
            cases.append(case_of(order, desc, input_tensor=x))
        x = hostile_data.values("FLOAT32", (3, n), rng, "small")
        desc = described("NONZERO_COORDINATES")(
            input_tensor=TensorDesc("FLOAT32", (3, n)),
            output_count_tensor=TensorDesc("UINT32", (1,)),
            output_coordinates_tensor=TensorDesc("UINT32", (3 * n, 2)),
        )
        cases.append(case_of(order, desc, input_tensor=x))
    return cases


def reversals() -> list[Case]:
    cases = []
    for sizes, axis in (((3, 40), 1), ((40, 3), 0), ((2, 9, 33), 1)):
        rng = np.random.default_rng(axis)
        t, one = TensorDesc("FLOAT16", sizes), tuple(1 if d == axis else n for d, n in enumerate(sizes))
        shared = TensorDesc("UINT32", one, strides=(1, 0, 0)) if len(sizes) == 3 else TensorDesc("UINT32", one)
        lengths = np.broadcast_to(rng.integers(0, 50, (one[0], *(1,) * (len(one) - 1)), np.uint32), one)
        desc = described("REVERSE_SUBSEQUENCES")(input_tensor=t, sequence_lengths_tensor=shared, output_tensor=t, axis=axis)
        x = rng.standard_normal(sizes).astype(np.float16)
        cases.append(case_of(irregular, desc, input_tensor=x, sequence_lengths_tensor=lengths))
    return cases


def test_sums_orders_and_reversals(recorder: Recorder, tmp_path: Path) -> None:
    cases = [*sums(), *orders(), *reversals()]
    emulated.run(emulated.build(tmp_path, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], cases)
    assert len(cases) > 40
