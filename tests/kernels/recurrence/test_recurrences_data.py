"""RNN, GRU and LSTM on data that resemble those of layers: the oracle's bits, from machine code only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_recurrences import COMPILED, FLOATS, GATES, results, tensors, usual

import anydml as dml
from agreement import SOAK, bits, expected
from anydml import DataType, TensorDesc
from anydml.kernels.code import targets
from anydml.kernels.recurrence.undecided import Deciding
from drawn_contractions import activations, named, pick
from every_kernel import CallsOf, Ran
from layers_data import KINDS, recurrent

ISAS = list({target.vector_bytes: target.name for target in targets.targets()}.values())
pytestmark = [
    pytest.mark.skipif(not ISAS, reason="there is no code for this processor"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value"),
]
Rng = np.random.Generator


STEPS, SEQUENCES, WIDTH, HIDDEN = 3, 2, 3, 5
FORMS: dict[str, dict[str, Any]] = {
    "RNN": dict(name="RNN", data_type=DataType.FLOAT32),
    "RNN of halves": dict(name="RNN", data_type=DataType.FLOAT16, direction="BIDIRECTIONAL", lengths=True),
    "GRU": dict(name="GRU", data_type=DataType.FLOAT32),
    "GRU of halves": dict(name="GRU", data_type=DataType.FLOAT16, direction="BACKWARD", linear_before_reset=True),
    "GRU, linear before reset": dict(name="GRU", data_type=DataType.FLOAT32, linear_before_reset=True, lengths=True),
    "LSTM": dict(name="LSTM", data_type=DataType.FLOAT32),
    "LSTM of halves": dict(name="LSTM", data_type=DataType.FLOAT16, direction="BACKWARD", lengths=True),
    "LSTM, coupled and clipped": dict(
        name="LSTM", data_type=DataType.FLOAT32, direction="BACKWARD", couple_input_forget=True,
        use_clip_threshold=True, clip_threshold=3.0,
    ),
}  # fmt: skip


def made(
    name: str,
    data_type: DataType,
    functions: list[Any] | None = None,
    *,
    lengths: bool = False,
    hidden: int = HIDDEN,
    **options: Any,
) -> Any:
    """A desc of packed tensors with all inputs, lengths only if `lengths`."""
    directions = 2 if options.get("direction") == "BIDIRECTIONAL" else 1
    shape = name, directions, STEPS, SEQUENCES
    sizes = tensors(*shape, WIDTH, hidden) | results(*shape, hidden)
    given: dict[str, Any] = {field: TensorDesc(data_type, size) for field, size in sizes.items()}
    if lengths:
        given["sequence_lengths_tensor"] = TensorDesc(DataType.UINT32, (1, 1, 1, SEQUENCES))
    return named(name)(**given, activation_descs=functions or usual(name, directions), **options)


def agree(desc: Any, compiled: Any, rng: Rng, kind: str) -> int:
    """Assert that all states have the oracle's bits; return their number."""
    written = {f.name for f in desc.spec.outputs}
    inputs, outputs = {}, {}
    for found in desc.tensors():
        t, dtype = found.desc, found.desc.data_type.dtype
        if found.name in written:
            outputs[found.name] = np.full(t.sizes, 7, dtype)
        elif dtype == np.uint32:
            inputs[found.name] = rng.integers(0, STEPS + 2, t.sizes).astype(np.uint32)
        else:
            inputs[found.name] = recurrent(found.name, t.sizes, dtype, rng, kind)
    compiled.bind(**inputs, **outputs).execute()
    want = expected(desc, inputs)
    for field, have in outputs.items():
        different = np.flatnonzero(bits(have) != bits(want[field]))
        assert not different.size, f"{field} at {different[:3]} of {have.size}, {kind}: {desc}"
    return sum(have.size for have in outputs.values())


@pytest.mark.parametrize("form", FORMS)
def test_no_state_is_left_to_python(form: str, calls_of: CallsOf, ran: Ran) -> None:
    """With the usual functions, on every kind of data."""
    number = list(FORMS).index(form)
    rng = np.random.default_rng(number)
    left = calls_of(Deciding, "_exactly")
    desc, compared = made(**FORMS[form]), 0
    for isa in ISAS if SOAK > 1 else ISAS[:: 1 - 2 * (number % 2)][:1]:
        compiled = dml.Device("cpu", isa=isa, threads=1).compile(desc)
        assert compiled.kernel_name == COMPILED
        for kind in KINDS * SOAK:
            compared += agree(desc, compiled, rng, kind)
            assert not left, kind
    ran(compared, 20 * len(KINDS))


@pytest.mark.parametrize("name", GATES)
def test_other_functions_agree_on_every_kind(name: str, ran: Ran) -> None:
    rng = np.random.default_rng(len(name))
    compared = 0
    for turn in range(2 * SOAK):
        functions = [pick(rng, activations()[:-1]) for _ in range(GATES[name][1])]
        desc = made(name, FLOATS[turn % 2], functions, hidden=2)
        compiled = dml.Device("cpu", isa=pick(rng, ISAS), threads=1).compile(desc)
        for kind in KINDS:
            compared += agree(desc, compiled, rng, kind)
    ran(compared, 10 * len(KINDS))


# functions, and whether only gates have them: states grow, cancel and become infinite
GIVEN: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "RELU": ("GRU", True, dict(data_type=DataType.FLOAT32)),
    "ELU": ("GRU", False, dict(data_type=DataType.FLOAT32, direction="BACKWARD")),
    "CELU": ("LSTM", False, dict(data_type=DataType.FLOAT16)),
    "GELU": ("LSTM", False, dict(data_type=DataType.FLOAT32, direction="BIDIRECTIONAL")),
    "SOFTSIGN": ("GRU", True, dict(data_type=DataType.FLOAT32, linear_before_reset=True)),
}


@pytest.mark.parametrize("function", GIVEN)
def test_other_gates_are_hardly_ever_left_to_python(function: str, ran: Ran) -> None:
    """At most one state in a hundred: squares of GELU may be above 2^200."""
    number, (name, alone, options) = list(GIVEN).index(function), GIVEN[function]
    rng = np.random.default_rng(number)
    given = named(f"ACTIVATION_{function}")()
    functions = [given, *usual(name)[1:]] if alone else [given] * GATES[name][1]
    directions = 2 if options.get("direction") == "BIDIRECTIONAL" else 1
    desc = made(name, functions=functions * directions, hidden=2, **options)
    compiled = dml.Device("cpu", isa=ISAS[number % len(ISAS)], threads=1).compile(desc)
    assert compiled.kernel_name == COMPILED
    found = sum(agree(desc, compiled, rng, kind) for kind in KINDS)
    assert compiled.counters().exact * 100 <= found, compiled.counters()
    ran(found, 10 * len(KINDS))


@pytest.mark.parametrize("function", ["LINEAR", "THRESHOLDED_RELU"])
def test_factors_that_no_bound_decides_leave_their_sums_open(function: str) -> None:
    """A reset gate of 2^250 + 1 - 2^250: float64 has 0, or takes the wrong side of a threshold, and the state depends on it."""
    given = {"LINEAR": dict(alpha=2.0**127, beta=0.0), "THRESHOLDED_RELU": dict(alpha=0.5)}[function]
    functions = [named(f"ACTIVATION_{function}")(**given), named("ACTIVATION_TANH")()]
    sizes = tensors("GRU", 1, 1, 1, WIDTH, 2) | results("GRU", 1, 1, 1, 2)
    asked = ("input_tensor", "weight_tensor", "recurrence_tensor", "hidden_init_tensor", "output_single_tensor")
    desc = named("GRU")(
        **{name: TensorDesc(DataType.FLOAT32, sizes[name]) for name in asked},
        activation_descs=functions, direction="FORWARD", linear_before_reset=False,
    )  # fmt: skip
    inputs = {name: np.zeros(sizes[name], np.float32) for name in asked[:-1]}
    inputs["input_tensor"][...] = 2.0**125, 1, 2.0**125
    inputs["weight_tensor"][0, 0, 2:4] = 2.0**125, 1, -(2.0**125)  # of the reset gate
    inputs["recurrence_tensor"][0, 0, 4:] = 1
    inputs["hidden_init_tensor"][...] = 2.0**120, 2.0**120 if function == "LINEAR" else 0
    for isa in ISAS if SOAK > 1 else ISAS[:1]:
        state = np.zeros(sizes["output_single_tensor"], np.float32)
        dml.Device("cpu", isa=isa, threads=1).compile(desc).bind(**inputs, output_single_tensor=state).execute()
        assert state.ravel().tolist() == [1, 1]


def test_a_zero_whose_sign_the_second_stage_does_not_know() -> None:
    """-0 times a reset gate of 2^77 - 2^70, which the second stage takes for about -2^70."""
    sizes = tensors("GRU", 1, 1, 1, 6, 1) | results("GRU", 1, 1, 1, 1)
    asked = ("input_tensor", "weight_tensor", "recurrence_tensor", "hidden_init_tensor", "output_single_tensor")
    desc = named("GRU")(
        **{name: TensorDesc(DataType.FLOAT32, sizes[name]) for name in asked},
        activation_descs=[named("ACTIVATION_LINEAR")(alpha=1.0, beta=0.0), named("ACTIVATION_TANH")()],
        direction="FORWARD", linear_before_reset=False,
    )  # fmt: skip
    inputs = {name: np.zeros(sizes[name], np.float32) for name in asked[:-1]}
    inputs["input_tensor"][...] = 2.0**125, 2.0**65, 2.0**38, 2.0**65, 2.0**35, 2.0**125
    inputs["weight_tensor"][0, 0, 1] = 2.0**125, 2.0**65, 2.0**39, -(2.0**65), -(2.0**35), -(2.0**125)
    inputs["weight_tensor"][0, 0, 2] = -0.0
    inputs["recurrence_tensor"][0, 0, 2] = 1
    inputs["hidden_init_tensor"][...] = -0.0
    state = np.ones(sizes["output_single_tensor"], np.float32)
    dml.Device("cpu", isa=ISAS[0], threads=1).compile(desc).bind(**inputs, output_single_tensor=state).execute()
    assert bits(state).ravel().tolist() == [1 << 31]
