"""Compiled RNN, GRU and LSTM, compared with the oracle: guard pages, hostile data, and calls that continue after a stop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_instructions import FORBIDDEN, TRIPLES, frame, instructions

import anydml as dml
import guard_pages
import hostile_data
from agreement import SOAK, bits, expected
from anydml import DataType, TensorDesc
from anydml.kernels.call.steps import At
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.code.targets import ARM, X86, Target
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.kernel import Machine, Refused
from anydml.kernels.match.recurrences import recurrence
from anydml.kernels.problem import Problem
from anydml.kernels.recurrence import finer, plan
from anydml.kernels.recurrence import tuning as recurrence_tuning
from anydml.kernels.recurrence.undecided import Deciding
from anydml.kernels.undecided.state import UndecidedLists
from anydml.schema.check import check
from anydml.schema.expression import Indices, Sum, Tensor, each, select, tanh
from anydml.schema.node import number
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, meaning, nest, stored
from drawn_contractions import activations, named, pick
from tuned import tuned

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
COMPILED = "recurrence:compiled"
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
GATES = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}  # gates in the weights, and functions
NEEDED = ("input_tensor", "weight_tensor", "recurrence_tensor")
CANARY = 0xA5
Rng = np.random.Generator
Arrays = Mapping[str, NDArray[Any]]
needs_code = pytest.mark.skipif(not ISAS, reason="there is no code for this processor")


def usual(name: str, directions: int = 1) -> list[Desc]:
    functions = [named("ACTIVATION_TANH")()] * GATES[name][1]
    if name != "RNN":
        functions[0] = named("ACTIVATION_SIGMOID")()
    return functions * directions


def tensors(name: str, directions: int, steps: int, sequences: int, width: int, hidden: int) -> dict[str, tuple[int, ...]]:
    gates = GATES[name][0]
    found: dict[str, tuple[int, ...]] = {
        "input_tensor": (1, steps, sequences, width),
        "weight_tensor": (1, directions, gates * hidden, width),
        "recurrence_tensor": (1, directions, gates * hidden, hidden),
        "bias_tensor": (1, 1, directions, 2 * gates * hidden),
        "hidden_init_tensor": (1, directions, sequences, hidden),
    }
    if name == "LSTM":
        found["cell_mem_init_tensor"] = found["hidden_init_tensor"]
        found["peephole_tensor"] = (1, 1, directions, 3 * hidden)
    return found


def results(name: str, directions: int, steps: int, sequences: int, hidden: int) -> dict[str, tuple[int, ...]]:
    last = (1, directions, sequences, hidden)
    found: dict[str, tuple[int, ...]] = {"output_sequence_tensor": (steps, *last[1:]), "output_single_tensor": last}
    return found | ({"output_cell_single_tensor": last} if name == "LSTM" else {})


def laid_out(rng: Rng, data_type: DataType, sizes: tuple[int, ...], *, output: bool) -> TensorDesc:
    """A tensor with gaps and any order of dimensions; elements of an input may repeat."""
    if rng.random() < 0.5:
        return TensorDesc(data_type, sizes)
    strides, step = [0] * len(sizes), 1
    for d in rng.permutation(len(sizes)).tolist():
        strides[d] = step
        step = step * sizes[d] + int(rng.random() < 0.3)
    if not output and rng.random() < 0.2:
        strides[int(rng.integers(len(sizes)))] = 0
    return TensorDesc(data_type, sizes, strides=tuple(strides))


def drawn(name: str, rng: Rng) -> Any:
    """A desc with any options."""
    data_type, direction = pick(rng, FLOATS), pick(rng, ("FORWARD", "BACKWARD", "BIDIRECTIONAL"))
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    steps, sequences, width = (int(rng.integers(1, most)) for most in (6, 4, 6))
    hidden = int(rng.choice((1, 2, 5, 9, 17 if name == "RNN" or SOAK > 1 else 3)))  # which takes the oracle seconds
    given: dict[str, Any] = {
        field: laid_out(rng, data_type, sizes, output=False)
        for field, sizes in tensors(name, directions, steps, sequences, width, hidden).items()
        if field in NEEDED or rng.random() < 0.7
    }
    if rng.random() < 0.6:
        given["sequence_lengths_tensor"] = laid_out(rng, DataType.UINT32, (1, 1, 1, sequences), output=False)
    outputs = results(name, directions, steps, sequences, hidden)
    asked = rng.permutation(len(outputs))[: int(rng.integers(1, len(outputs) + 1))]
    for k, (field, sizes) in enumerate(outputs.items()):
        if k in asked:
            given[field] = laid_out(rng, data_type, sizes, output=True)
    functions = usual(name, directions)
    if rng.random() < 0.4:
        functions = [pick(rng, activations()[:-1]) for _ in functions]
    if name == "GRU":
        given["linear_before_reset"] = bool(rng.random() < 0.5)
    if name == "LSTM":
        given |= dict(
            clip_threshold=pick(rng, (0.0, 0.5, 1.0, 3e38)),
            use_clip_threshold=bool(rng.random() < 0.3),
            couple_input_forget=bool(rng.random() < 0.3),
        )
    return named(name)(**given, activation_descs=functions, direction=direction)


def placed(desc: Any, rng: Rng, *, at_end: bool) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Inputs, and outputs with their buffers, directly before or after an unmapped page."""
    inputs, outputs, buffers = {}, {}, []
    written = {f.name for f in desc.spec.outputs}
    for found in desc.tensors():
        t = found.desc
        array, buffer = guard_pages.place(t.sizes, t.explicit_strides, t.data_type.dtype, at_end=at_end, canary=CANARY)
        if found.name in written:
            outputs[found.name] = array
            buffers.append((array, buffer))
        else:
            inputs[found.name] = array
    return inputs, outputs, buffers


def fill(desc: Any, inputs: Arrays, rng: Rng, kind: str) -> None:
    """Write data into the inputs."""
    for field, array in inputs.items():
        t = getattr(desc, field)
        lengths = t.data_type == DataType.UINT32
        array[...] = rng.integers(0, 8, t.sizes) if lengths else hostile_data.values(t.data_type.name, t.sizes, rng, kind)


def untouched(array: NDArray[Any], buffer: NDArray[np.uint8]) -> bool:
    """Whether only elements were written."""
    array.view(f"u{array.itemsize}")[...] = int.from_bytes([CANARY] * array.itemsize, "little")
    return bool((buffer == CANARY).all())


@needs_code
@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="guard pages are made with mprotect")
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_states_have_the_oracles_bits(isa: str, name: str, ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tile registers, if there are any, in every second case."""
    rng = np.random.default_rng([7, ISAS.index(isa), len(name)])
    wanted, compared, drawings = 600 * SOAK if isa == ISAS[-1] else 80 * SOAK, 0, 0
    while compared < wanted:
        desc = drawn(name, rng)
        tuned(monkeypatch, recurrence_tuning, digits=-(1 << 40) if drawings % 4 < 2 else 1 << 40)
        compiled = dml.Device("cpu", isa=isa, threads=1 + drawings % 2).compile(desc)
        assert compiled.kernel_name == COMPILED
        inputs, outputs, buffers = placed(desc, rng, at_end=drawings % 2 == 0)
        bound = compiled.bind(**inputs, **outputs)
        for kind in ("ordinary", *rng.permutation(hostile_data.KINDS)[:3], "ordinary"):
            fill(desc, inputs, rng, kind)
            want = expected(desc, inputs)
            bound.execute()
            for field, have in outputs.items():
                different = np.flatnonzero(bits(have) != bits(want[field]))
                assert not different.size, f"{field} at {different[:3]} of {have.size}, {kind}: {desc}"
            compared += sum(have.size for have in outputs.values())
        assert all(untouched(*pair) for pair in buffers)
        drawings += 1
    ran(compared, wanted)


def plain(name: str, steps: int, sequences: int, width: int, hidden: int, direction: str = "FORWARD", **fields: Any) -> Any:
    """A desc of packed FLOAT32 with all tensors except lengths."""
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    sizes = tensors(name, directions, steps, sequences, width, hidden) | results(name, directions, steps, sequences, hidden)
    made = {field: TensorDesc(DataType.FLOAT32, size) for field, size in sizes.items()}
    functions = fields.pop("activation_descs", usual(name, directions))
    return named(name)(**made, activation_descs=functions, direction=direction, **fields)


def filled(desc: Any, rng: Rng, scale: float = 0.5) -> tuple[dict[str, Any], dict[str, Any]]:
    written = {f.name for f in desc.spec.outputs}
    inputs = {
        t.name: (rng.standard_normal(t.desc.sizes) * scale).astype(np.float32) for t in desc.tensors() if t.name not in written
    }
    return inputs, {t.name: np.full(t.desc.sizes, 7, np.float32) for t in desc.tensors() if t.name in written}


@needs_code
@pytest.mark.parametrize("name", GATES)
def test_many_sequences_and_steps_are_the_same_on_every_instruction_set(name: str) -> None:
    """In tiles of all heights, divided into chunks of steps, and shared by threads."""
    rng = np.random.default_rng(5)
    for sequences, hidden in ((1, 70), (3, 40), (18, 24))[:: 1 + (SOAK == 1)]:
        desc = plain(name, 40, sequences, 33, hidden, "BIDIRECTIONAL" if sequences == 3 else "BACKWARD")
        inputs, outputs = filled(desc, rng, 0.3)
        found = []
        for isa, threads in ((ISAS[-1], 1), (ISAS[-1], 4), (ISAS[0], 1)):
            compiled = dml.Device("cpu", isa=isa, threads=threads).compile(desc)
            assert compiled.kernel_name == COMPILED
            compiled.bind(**inputs, **outputs).execute()
            found.append({field: bits(x).copy() for field, x in outputs.items()})
        for other in found[1:]:
            for field, x in other.items():
                np.testing.assert_array_equal(x, found[0][field])
        assert np.isfinite(outputs["output_sequence_tensor"]).all()


def linear(name: str) -> dict[str, Any]:
    """Functions with which everything is exact: states of small integers are often ties."""
    half = named("ACTIVATION_LINEAR")(alpha=0.5, beta=0.25)
    return dict(activation_descs=[half] * GATES[name][1])


@needs_code
@pytest.mark.parametrize("isa", dict.fromkeys((ISAS[0], ISAS[-1])) if ISAS else ())
@pytest.mark.parametrize("name", ["GRU", "LSTM", "GRU with other functions"])
def test_what_bounds_leave_open_is_decided_in_machine_code(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds that are far too large, nearly all elements reach the finer stage, and none the reference."""
    tuned(monkeypatch, recurrence_tuning, digits=-(1 << 40))
    monkeypatch.setattr(plan, "ONE", 2.0**-30)
    left: list[int] = []
    monkeypatch.setattr(Deciding, "_exactly", lambda self, *arguments: left.append(len(arguments[3])))
    finer_calls: list[int] = []
    run = Deciding._finer

    def counted(self: Deciding, *arguments: Any) -> None:
        finer_calls.append(1)
        run(self, *arguments)

    monkeypatch.setattr(Deciding, "_finer", counted)
    name, *other = name.split(" ", 1)
    functions = [named("ACTIVATION_SOFTPLUS")(), named("ACTIVATION_GELU")()] if other else usual(name)
    desc = plain(name, 3, 2, 3, 11, activation_descs=functions)
    inputs, outputs = filled(desc, np.random.default_rng(3))
    dml.Device("cpu", isa=isa).compile(desc).bind(**inputs, **outputs).execute()
    want = expected(desc, inputs)
    assert finer_calls
    assert not left
    for field, have in outputs.items():
        np.testing.assert_array_equal(bits(have), bits(want[field]))


@needs_code
@pytest.mark.parametrize("name", GATES)
def test_what_no_bound_decides_is_the_references(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the finer stage, and with stops after every operation, the bits are the same."""
    desc = plain(name, 4, 3, 3, 5, **linear(name))
    rng = np.random.default_rng(4)
    inputs, outputs = filled(desc, rng)
    for x in inputs.values():
        x[...] = np.round(x * 8) / 8
    want = expected(desc, inputs)

    def none(*_: Any) -> str:
        raise engine.Uncompilable("not now")

    monkeypatch.setattr(finer, "emitted", none)
    tuned(monkeypatch, recurrence_tuning, budget=1)
    dml.Device("cpu").compile(desc).bind(**inputs, **outputs).execute()
    for field, have in outputs.items():
        np.testing.assert_array_equal(bits(have), bits(want[field]))


@needs_code
def test_a_call_that_was_broken_off_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    desc = plain("GRU", 4, 2, 3, 5, **linear("GRU"))
    inputs, outputs = filled(desc, np.random.default_rng(6))
    bound = dml.Device("cpu").compile(desc).bind(**inputs, **outputs)
    bound.execute()
    first = {field: bits(x).copy() for field, x in outputs.items()}
    tuned(monkeypatch, recurrence_tuning, budget=1)  # it stops after every operation
    decide, calls = UndecidedLists.decide, []

    def broken(self: UndecidedLists, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        decide(self, *arguments)

    monkeypatch.setattr(UndecidedLists, "decide", broken)
    stopping = dml.Device("cpu").compile(desc).bind(**inputs, **outputs)
    with pytest.raises(KeyboardInterrupt):
        stopping.execute()
    for x in outputs.values():
        x[...] = 0
    stopping.execute()
    assert len(calls) >= 5
    for field, x in outputs.items():
        np.testing.assert_array_equal(bits(x), first[field])


# in quick tests, the target with the largest frames, and another processor's; the others resemble one of these
NAMES = ("avx512bw", "dotprod") if SOAK == 1 else ("generic", "avx2", "avx512bw")
ROWS = [row for row in X86 + ARM if row.name in NAMES]


@pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.architecture}-{row.name}")
def test_code_is_of_its_row_and_takes_less_than_a_page_of_the_stack(row: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = re.compile("|".join(f"(?:{x})" for x in FORBIDDEN[row.architecture, row.name]))
    many = ("SOFTPLUS", "GELU", "ELU")
    for functions in (usual("LSTM"), [named(f"ACTIVATION_{name}")() for name in many]):
        texts: list[str] = []

        def kept(emit: Any, target: Target, *arguments: Any, texts: list[str] = texts) -> engine.Code:
            texts.append(emit(target, *arguments))
            return engine.Code(None, 0)

        desc = plain("LSTM", 2, 3, 3, 40, activation_descs=functions)
        found = recurrence(meaning(desc))
        assert not isinstance(found, str)
        monkeypatch.setattr(engine, "compiled", kept)
        undecided = (
            plan.Planner(found, 0, range(3), check(desc).tensors, row, Scratch("scratch"), At("constants")).piece().undecided
        )
        texts += [finer.emitted(row, undecided.key, 0)]
        for text in texts:
            assembly = engine.assembly(text, row, TRIPLES[row.architecture][0])
            for function in re.split(r"\n(?=\w+:)", assembly):
                assert frame(instructions(function)) < 4096, function[:60]
            assert not [line for line in instructions(assembly) if forbidden.match(line)]
            own = set(re.findall(r"^(\w+):", assembly, re.MULTILINE))
            called = {line.split()[-1] for line in instructions(assembly) if re.match(r"(callq?|bl) (?!\*)", line)}
            assert called <= own


# --- which statements are recurrences ---

T, R, B, J = 3, 1, 2, 4
F32 = DataType.FLOAT32
X, W, H = Tensor("x", (1, T, B, 5), F32), Tensor("w", (J, 5), F32), Tensor("h", (J, J), F32)


def of_input(i: Indices, step: Any = None) -> Any:
    t, _, b, j = i
    (k,) = ks = each((5,))
    return Sum(ks, W[j, k] * X[0, t if step is None else step, b, k])


def of_state(i: Indices, state: Tensor, back: int = 1) -> Any:
    t, r, b, j = i
    (u,) = us = each((J,))
    return Sum(us, state[t - back, r, b, u] * H[j, u])


def made(define: Any, result: Any = None) -> dict[str, Nest]:
    (state,) = stored("S", (T, R, B, J), F32, lambda i, s: [define(i, s)])
    i = each((T, R, B, J))
    return {"output": nest(i, state[i] if result is None else result(i, state))}


def first_or(i: Indices, later: Any, first: Any) -> Any:
    return select(i[0] > 0, later, first)


def test_one_with_its_mathematics_in_another_order() -> None:
    def define(i: Indices, s: Tensor) -> Any:
        t, r, b, j = i
        gate = first_or(i, of_state(i, s), Sum((us := each((J,))), 0 * H[j, us[0]]))
        return tanh(gate * 2.0 + of_input(i)) - first_or(i, s[t - 1, r, b, j], 0)

    found = recurrence(made(define))
    assert not isinstance(found, str), found
    assert found.sizes == (T, R, B, J)
    assert [len(d.stages) for d in found.directions] == [1]
    assert found.directions[0].starts == (None,)


UNLIKE: dict[str, tuple[Any, str]] = {
    "two steps back": (
        lambda i, s: of_input(i) + first_or(i, of_state(i, s, 2), 0.0),
        "the first step differs from the others in more than its initial values",
    ),
    "another first step": (
        lambda i, s: first_or(i, of_input(i) + of_state(i, s), of_input(i) * 2.0),
        "the first step differs from the others in more than its initial values",
    ),
    "no first step": (
        lambda i, s: of_input(i) + of_state(i, s, 2),
        "an element depends on other elements of its step, or on steps earlier than the one before",
    ),
    "by position": (lambda i, s: of_input(i) + number(i[3]), "an element depends on its position"),
    "another input": (lambda i, s: of_input(i, T - 2 - i[0]), "a step reads an input at another step"),
    "an extreme": (
        lambda i, s: of_input(i) + X[0, i[0], i[2], 0],
        "an index depends on another variable",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_only_looks_like_a_recurrence(name: str) -> None:
    define, reason = UNLIKE[name]
    assert recurrence(made(define)) == reason


def test_an_output_of_another_place_is_none() -> None:
    def other(i: Indices, s: Tensor) -> Any:
        t, r, b, j = i
        return s[t, r, b, J - 1 - j]

    assert recurrence(made(lambda i, s: of_input(i), other)) == "an output is another element of a state"


def test_what_is_no_recurrence_is_said_to_be_none() -> None:
    relu = named("ACTIVATION_RELU")(input_tensor=TensorDesc(F32, (3,)), output_tensor=TensorDesc(F32, (3,)))
    assert recurrence(meaning(relu)) == "no tensor is computed step by step"


@needs_code
def test_what_is_out_of_bounds_is_refused() -> None:
    """A statement may read outside of a tensor if its operator lacks a rule."""
    from anydml.kernels.recurrence.family import lower

    desc = plain("RNN", 2, 1, 1, 1)
    checked = check(desc)
    short = {**checked.tensors, "bias_tensor": TensorDesc(F32, (1, 1, 1, 1)).spelled_out()}
    answer: Any = lower(Problem(meaning(desc), short), Machine(None, 1))
    assert answer == Refused("an element lies outside of an input")
