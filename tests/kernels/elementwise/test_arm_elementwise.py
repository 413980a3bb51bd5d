"""The kernels of maps for Arm, emulated: the reference's bits, in buffers between unmapped pages."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_arm_matmul import PROCESSORS, memory_of
from test_elementwise_layouts import SAMPLES, example_with, nested, sizes_of

import emulated
from agreement import bits_of
from anydml import Cast, TensorDesc, check
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import ARM
from anydml.kernels.elementwise import family
from anydml.kernels.kernel import Lowered, Machine
from anydml.kernels.problem import problem_of
from anydml.kernels.reference import evaluated
from anydml.kernels.undecided.state import COUNT, STATE_WORDS
from anydml.schema.field import INPUT
from anydml.schema.operator import Desc
from emulated import Bytes, Case, Open, Recorder, steps_of
from every_kernel import SOAK, newest_of
from map_operators import MAPPED, drawn_for, variants
from tensors import laid_over

pytestmark = emulated.needed
GENERIC = ARM[0]  # maps are the same for the other Arm targets
Arrays = dict[str, NDArray[Any]]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return emulated.recording(monkeypatch, GENERIC, family)


def case_of(desc: Desc, inputs: Arrays, seen: Open) -> Case | None:
    """The case of a desc; None if it is not compiled."""
    (output,) = desc.spec.outputs
    t: TensorDesc = getattr(desc, output.name)
    newest = newest_of(check(desc))
    try:
        made = family.lower(problem_of(newest), Machine(None, 1))
    except Uncompilable:
        return None
    assert isinstance(made, Lowered), made
    buffers = {name: memory_of(getattr(desc, name), x) for name, x in inputs.items()}
    buffers[output.name] = np.full(t.element_bytes, 0xA5, np.uint8)
    if made.scratch:
        buffers["scratch"] = np.zeros(made.scratch, np.uint8)
    wanted = buffers[output.name].copy()
    bits_of(laid_over(t, wanted))[...] = bits_of(evaluated(newest.desc, inputs)[output.name])
    ((phase,),) = (rounds.phases for rounds in made.rounds)
    steps = steps_of([phase])
    results = {output.name: wanted}
    judge = partial(judged, desc, output.name, list(inputs.values()), wanted, len(phase) if made.scratch else 0, seen)
    return Case(str(desc), buffers, steps, results, judge=judge)


def judged(
    desc: Desc,
    output: str,
    inputs: list[NDArray[Any]],
    wanted: Bytes,
    pieces: int,
    seen: Open,
    status: int,
    written: Mapping[str, Bytes],
) -> None:
    """Assert that all outputs are exact, except for listed elements, which are identified by their inputs."""
    t: TensorDesc = getattr(desc, output)
    left_undecided = np.zeros(t.sizes, bool)
    if pieces:
        for piece in written["scratch"].view(np.int64).reshape(pieces, -1):
            count = int(piece[COUNT])
            entries = piece[STATE_WORDS:][: count * (1 + len(inputs))].reshape(count, 1 + len(inputs))[:, 1:]
            for entry in entries:
                alike = np.ones(t.sizes, bool)
                for x, word in zip(inputs, entry, strict=True):
                    alike &= bits_of(x) == np.int64(word).astype(f"u{x.itemsize}")
                left_undecided |= alike
            assert count == 0 or status == 1
    elif status:
        raise AssertionError(f"status {status} of {desc}")
    got, expected = written[output].copy(), wanted.copy()
    for memory in (got, expected):
        bits_of(laid_over(t, memory))[left_undecided] = 0
    np.testing.assert_array_equal(got, expected, str(desc))
    seen.compared += left_undecided.size
    seen.left += int(left_undecided.sum())


def run(recorder: Recorder, cases: list[Case | None], directory: Path) -> None:
    compiled = [case for case in cases if case is not None]
    emulated.run(emulated.build(directory, GENERIC, recorder.texts), PROCESSORS[GENERIC.name], compiled)


def test_every_operator(recorder: Recorder, tmp_path: Path) -> None:
    """One data type of each; in `make soak`, all of them."""
    rng, seen = np.random.default_rng(40), Open()
    cases = []
    for at, operator in enumerate(MAPPED):
        every = [v.desc for v in variants(operator, (3, 1, 1, 23))]
        chosen = every if SOAK > 1 else every[at % len(every) :] + every
        for desc in chosen:
            # if inputs were equal, a listed element could not be distinguished from others
            cases.append(case_of(desc, drawn_for(desc, rng), seen))
            if SOAK == 1 and cases[-1] is not None:
                break
    run(recorder, cases, tmp_path)
    assert sum(case is not None for case in cases) >= len(MAPPED)
    assert seen.compared > 100 * len(MAPPED)
    assert seen.left < seen.compared / 20


def test_nans_become_integers(recorder: Recorder, tmp_path: Path) -> None:
    """Arm's maximum of a number and a signalling NaN is a NaN; its maximum of a number and a quiet one is the number."""
    nans = np.array([0x7F800001, 0xFF800001, 0x7FC00000, 0xFFFFFFFF], np.uint32).view(np.float32)
    x, seen = np.resize(np.append(nans, np.array([1.5, -1.5, np.inf, -np.inf], np.float32)), 40), Open()
    source, names = TensorDesc("FLOAT32", x.shape), ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64")
    targets = [TensorDesc(name, x.shape) for name in names]
    cases = [case_of(Cast(input_tensor=source, output_tensor=target), {"input_tensor": x}, seen) for target in targets]
    run(recorder, cases, tmp_path)
    assert seen.compared >= len(names) * x.size
    assert not seen.left


def test_layouts(recorder: Recorder, tmp_path: Path) -> None:
    seen, cases = Open(), []
    examples = [example_with(name, types) for name, types in SAMPLES]
    for case in range(4 * len(SAMPLES) * SOAK):
        rng = random.Random(case)
        example, sizes = examples[case % len(examples)], sizes_of(rng)
        tensors = {}
        for found in example.tensors():
            strides = nested(rng, sizes)
            if found.field.role == INPUT and rng.random() < 0.3:
                strides = [0 if rng.random() < 0.5 else s for s in strides]
            tensors[found.name] = TensorDesc(found.desc.data_type, tuple(sizes), strides=tuple(strides))
        desc: Desc = replace(example, **tensors)
        inputs = drawn_for(desc, np.random.default_rng(case))
        for name, x in inputs.items():  # as repeated elements are read
            bits_of(x)[...] = bits_of(laid_over(tensors[name], memory_of(tensors[name], x)))
        cases.append(case_of(desc, inputs, seen))
    assert None not in cases
    run(recorder, cases, tmp_path)
    assert seen.left < seen.compared / 20
