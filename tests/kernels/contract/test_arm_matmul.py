"""The integer kernels for Arm, emulated: the oracle's bits for every target, in buffers between unmapped pages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_slice_and_matmul import quantized_desc

import emulated
import hard_cases
from agreement import bits_of, expected
from anydml import DataType, MatrixMultiplyInteger, QuantizedLinearMatrixMultiply, Slice1, TensorDesc, TensorFlags, check
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import ARM, Target
from anydml.kernels.contract.plan import CONSTANTS
from anydml.kernels.copy import copies
from anydml.kernels.copy import tuning as copy_tuning
from anydml.schema.operator import Desc
from emulated import Case, Recorder
from every_kernel import SOAK, plan_of
from strategies import arrays_for, descs
from tensors import SETTINGS, laid_over
from tuned import tuned

# the oldest processor of each target: an instruction that it lacks ends the program
PROCESSORS = {"generic": "cortex-a72", "dotprod": "cortex-a76", "i8mm": "max"}
ROWS = [pytest.param(row, id=row.name) for row in ARM]
Inputs = dict[str, NDArray[Any]]

pytestmark = [
    emulated.needed,
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(engine, "compiled", made.compiled)
    return made


def memory_of(t: TensorDesc, x: NDArray[Any]) -> emulated.Bytes:
    """The bytes from a tensor's first element to its last."""
    memory: emulated.Bytes = np.random.default_rng(x.size).integers(0, 256, t.element_bytes, np.uint8)
    bits_of(laid_over(t, memory))[...] = bits_of(x)
    return memory


def case_of(name: str, target: Target, desc: Any, inputs: Inputs, status: int = 0) -> Case:
    """The case of a desc: its buffers, its steps, and the expected bytes of the output."""
    tensors = {x: getattr(desc, x) for x in inputs}
    buffers = {x: memory_of(tensors[x], value) for x, value in inputs.items()}
    output = np.full(desc.output_tensor.element_bytes, 0xA5, np.uint8)
    wanted = output.copy()
    if status == 0:
        bits_of(laid_over(desc.output_tensor, wanted))[...] = bits_of(expected(desc, inputs)["output_tensor"])
    buffers["output_tensor"] = output
    newest = desc.as_newest()
    if isinstance(newest, Slice1):
        steps = list(_copy_steps(target, newest))
        if any(isinstance(x, At) and x.base == "scratch" for step in steps for x in step.arguments):
            buffers["scratch"] = np.zeros(1 << 20, np.uint8)
    else:
        plan = plan_of(check(newest), target, threads=1)
        phases = [phase for rounds in plan.rounds for phase in rounds.phases]
        assert not any(rounds.times for rounds in plan.rounds)
        planned = [*(plan.packing if plan.owned else ()), *(s for phase in phases for piece in phase for s in piece)]
        steps = [step for s in planned for step in one_by_one(s)]
        for scratch in (plan.scratch, plan.packed, plan.spare):
            if scratch.size:
                buffers[scratch.base] = np.zeros(scratch.size, np.uint8)
        buffers["constants"] = CONSTANTS
    return Case(name, buffers, steps, {"output_tensor": wanted}, status=status)


def one_by_one(step: Step | Repeat) -> Iterator[Step]:
    """A step, or all steps of a repetition."""
    if isinstance(step, Step):
        yield step
        return
    for i in range(step.times):
        for a, b in zip(step.first, step.second, strict=True):
            yield from one_by_one(moved(a, b, i))


def moved(a: Step | Repeat, b: Step | Repeat, times: int) -> Step | Repeat:
    """A step with the difference of `a` and `b` added this many times."""
    if isinstance(a, Repeat):
        assert isinstance(b, Repeat)
        first, second = ([moved(x, y, times) for x, y in zip(*pair, strict=True)] for pair in zip(a[2:], b[2:], strict=True))
        return a._replace(first=first, second=second)
    assert isinstance(b, Step)
    arguments: list[At | int] = []
    for x, y in zip(a.arguments, b.arguments, strict=True):
        if isinstance(x, At):
            assert isinstance(y, At)
            arguments.append(x + times * (y.offset - x.offset))
        else:
            assert isinstance(y, int)
            arguments.append(x + times * (y - x))
    return Step(a.code, tuple(arguments))


def _copy_steps(target: Target, d: Slice1) -> Iterator[Step]:
    """The steps of a copy, with one thread or more, with stores past the cache or not."""
    rng = random.Random(str(d))
    itemsize = d.input_tensor.data_type.dtype.itemsize
    strides = d.input_tensor.explicit_strides
    start = sum(at * s for at, s in zip(d.start(), strides, strict=True)) * itemsize
    sources = [s * t * itemsize for s, t in zip(strides, d.input_window_strides, strict=True)]
    into = [s * itemsize for s in d.output_tensor.explicit_strides]
    streams = rng.random() < 0.7
    made = copies.copy(target, d.output_tensor.sizes, sources, into, itemsize, threads=rng.randint(1, 3), stream=streams)
    for step in made.steps(At("input_tensor", start), At("output_tensor"), At("scratch")):
        output = step.arguments[1]
        assert isinstance(output, At)
        # the output's address is a multiple of this
        boundary = step.aligned.boundary if step.aligned else 1
        aligned = output.offset % boundary == 0 and d.output_tensor.element_bytes % boundary == 0
        yield Step(step.aligned.code if step.aligned and aligned else step.code, step.arguments)


def drawn(operator: type[Desc], count: int) -> list[tuple[Desc, Inputs]]:
    """Descs and inputs from the strategies of the other tests."""
    found: list[tuple[Desc, Inputs]] = []

    @settings(SETTINGS, max_examples=count, derandomize=True, database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        desc, _ = data.draw(descs(operator))
        found.append((desc, {name: x.tensor for name, x in data.draw(arrays_for(desc)).items()}))

    draw()
    return found


def products(rng: random.Random, count: int) -> Iterator[tuple[Desc, Inputs]]:
    """Matmuls that have whole tiles and panels, with every remainder; some with strides, batches and owned B."""
    for i in range(count):
        signs = [np.dtype((np.uint8, np.int8)[i >> bit & 1]) for bit in range(3)]
        m = rng.choice((1, 1, 5, 12, 25))  # heights of tiles: these and 9 and 8
        k = rng.choice((rng.randint(1, 20), rng.randint(1, 90), 8 * rng.randint(1, 16)))
        n = rng.choice((rng.randint(1, 9), rng.randint(8, 40)))
        batch = rng.choice(((), (), (2,), (2, 2)))
        generator = np.random.default_rng(i)

        def numbers(sizes: tuple[int, ...], dtype: np.dtype[Any], fill: np.random.Generator = generator) -> NDArray[Any]:
            return fill.integers(0, 256, sizes, np.uint8).view(dtype)

        def parameter(sizes: tuple[int, ...], dtype: np.dtype[Any], fill: Any = numbers) -> NDArray[Any] | None:
            return None if rng.random() < 0.2 else fill(sizes if rng.random() < 0.4 else (1, 1), dtype)

        fields: dict[str, NDArray[Any] | None] = {
            "a_tensor": numbers((*batch, m, k), signs[0]),
            "b_tensor": numbers((*batch, k, n), signs[1]),
            "a_zero_point_tensor": parameter((m, 1), signs[0]),
            "b_zero_point_tensor": parameter((1, n), signs[1]),
        }
        output_type: np.dtype[Any] = np.dtype(np.int32)
        if quantized := i % 4 != 0:
            output_type = signs[2]
            scales = {"a_scale_tensor": ((m, 1), 1), "b_scale_tensor": ((1, n), 1), "output_scale_tensor": ((m, 1), 60 * k)}
            for name, (sizes, factor) in scales.items():
                shape = sizes if rng.random() < 0.5 else (1, 1)
                fields[name] = (factor * generator.uniform(0.5, 2, shape)).astype(np.float32)
            fields["output_zero_point_tensor"] = parameter((m, 1), signs[2])
        inputs = {name: x for name, x in fields.items() if x is not None}
        tensors = {name: _tensor(rng, x.shape, DataType.of(x.dtype)) for name, x in inputs.items()}
        if rng.random() < 0.3:
            b = tensors["b_tensor"]
            tensors["b_tensor"] = TensorDesc(b.data_type, b.sizes, strides=b.strides, flags=TensorFlags.OWNED_BY_DML)
        output = _tensor(rng, (*batch, m, n), DataType.of(output_type))
        operator = QuantizedLinearMatrixMultiply if quantized else MatrixMultiplyInteger
        yield operator(**tensors, output_tensor=output), inputs


def _tensor(rng: random.Random, sizes: tuple[int, ...], data_type: DataType, often: float = 0.15) -> TensorDesc:
    """A packed tensor, or with gaps and another order of dimensions, for which the test needs another kernel."""
    strides = None
    if rng.random() < often:
        order = list(range(len(sizes)))
        rng.shuffle(order)
        steps, step = [0] * len(sizes), 1
        for i in order:
            steps[i] = step
            step = step * sizes[i] + rng.choice((0, 0, 1, 5))
        strides = tuple(steps)
    return TensorDesc(data_type, sizes, strides=strides)


def windows(rng: random.Random, count: int) -> Iterator[tuple[Desc, Inputs]]:
    """Copies of every element size, large enough for blocks and tiles, in both directions and any order."""
    for i in range(count):
        dtype = np.dtype(("uint8", "float16", "float32", "int64")[i % 4])
        rank = rng.randint(1, 4)
        sizes = tuple(rng.choice((1, 2, 3, rng.randint(1, (0, 3000, 70, 20, 8)[rank]))) for _ in range(rank))
        t = _tensor(rng, sizes, DataType.of(dtype), 0.4)
        step = [rng.choice((1, 1, 1, -1, 2, 3, -2, 5, -7)) for _ in sizes]
        out = tuple(1 + (n - 1) // abs(s) for n, s in zip(sizes, step, strict=True))
        desc = Slice1(
            input_tensor=t,
            output_tensor=_tensor(rng, out, t.data_type, 0.4),
            input_window_offsets=(0,) * rank,
            input_window_sizes=sizes,
            input_window_strides=tuple(step),
        )
        bytes_ = np.frombuffer(rng.randbytes(int(np.prod(sizes)) * dtype.itemsize), dtype)
        yield desc, {"input_tensor": bytes_.reshape(sizes)}


def large_windows(rng: random.Random) -> Iterator[tuple[Desc, Inputs]]:
    """Copies of each kind with stores past the cache: long rows, short ones close together, transpositions in blocks."""
    for dtype in map(np.dtype, ("uint8", "float16", "float32", "int64")):
        for (rows, columns), taken, transposed in (
            ((5, 3000), 2900, False),
            ((90, 100), 97, False),
            ((128, 512 // dtype.itemsize), 512 // dtype.itemsize, True),
            ((100, 67), 67, True),
            ((33, 300), 290, True),
        ):
            x = np.frombuffer(rng.randbytes(rows * columns * dtype.itemsize), dtype).reshape(rows, columns)
            for step in (1, -1, 2):
                y = x.T if transposed else x
                sizes = y.shape if transposed else (rows, taken)
                out = (1 + (sizes[0] - 1) // abs(step), sizes[1])
                desc = Slice1(
                    input_tensor=TensorDesc.of(y),
                    output_tensor=TensorDesc(DataType.of(dtype), out),
                    input_window_offsets=(0, 0),
                    input_window_sizes=sizes,
                    input_window_strides=(step, 1),
                )
                yield desc, {"input_tensor": y}


def _run(recorder: Recorder, row: Target, cases: list[Case], directory: Path) -> None:
    emulated.run(emulated.build(directory, row, recorder.texts), PROCESSORS[row.name], cases)


@pytest.mark.parametrize("row", ROWS)
def test_products_are_exact(row: Target, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = (MatrixMultiplyInteger, QuantizedLinearMatrixMultiply)
    every = [x for operator in operators for x in drawn(operator, 6 * SOAK)] + list(products(random.Random(1), 20 * SOAK))
    cases = [case_of(f"{i}: {desc}", row, desc, inputs) for i, (desc, inputs) in enumerate(every)]
    assert len(cases) >= 32 * SOAK
    _run(recorder, row, cases, tmp_path)


def _quantized(case: hard_cases.QuantizedCase) -> tuple[Desc, Inputs]:
    desc = quantized_desc(case)
    named = zip(desc.spec.inputs, case.operands, strict=True)
    return desc, {field.name: x for field, x in named if x is not None}


HARD: tuple[tuple[Callable[[], Iterator[hard_cases.QuantizedCase]], int], ...] = (
    (hard_cases.near_ties, 1),
    (hard_cases.exact_ties, 1),
    (hard_cases.extreme_scales, 1),
    (hard_cases.granularities, 1),
    (hard_cases.long_sums, 9),
)


@pytest.mark.parametrize("row", ROWS)
def test_hard_products_are_exact(row: Target, recorder: Recorder, tmp_path: Path) -> None:
    """Targets take turns with the cases; in `make soak`, each has all of them."""
    turn, turns = (ARM.index(row), 3 * len(ARM)) if SOAK == 1 else (0, 1)
    every = [case for generate, step in HARD for case in islice(generate(), 0, None, step)]
    chosen = every[turn::turns]
    cases = [case_of(case.name, row, *_quantized(case)) for case in chosen]
    for bad in (0.0, -0.0, np.inf, -np.inf, np.nan):  # the call ends before it writes anything
        desc, inputs = _quantized(chosen[0])
        for name in ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"):
            wrong = {**inputs, name: np.full_like(inputs[name], bad)}
            cases.append(case_of(f"{name} is {bad}", row, desc, wrong, status=1))
    assert len(every) >= 400
    assert len(cases) > len(every) // turns
    _run(recorder, row, cases, tmp_path)


@pytest.mark.parametrize("row", ROWS[:1])  # copies are the same for the other targets
def test_copies_are_exact(row: Target, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, copy_tuning, stream=0, stream_tiles=0, long_row=512)
    share = 2 * SOAK if SOAK > 1 else 1
    every = drawn(Slice1, 12 * share) + list(windows(random.Random(2), 45 * share)) + list(large_windows(random.Random(3)))
    cases = [case_of(f"{i}: {desc}", row, desc, inputs) for i, (desc, inputs) in enumerate(every)]
    assert len(cases) >= 100
    emitted = recorder.emitters()
    assert {"contiguous", "groups", "elements", "tiles", "blocks"} == {name for name, *_ in emitted}
    assert {("contiguous", False, False), ("contiguous", True, False), ("contiguous", False, True)} <= {
        found[:3] for found in emitted
    }
    _run(recorder, row, cases, tmp_path)
