"""Operators that move or map elements: the reference compared with the oracle, on hostile data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from agreement import SOAK, agree, computed, matches
from anydml import DataType, Device, TensorDesc, operators
from anydml.schema.check import check
from anydml.schema.enumerations import PaddingMode
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from anydml.spelling import snake_case
from anydml.tensor import EIGHT_BIT_FLOATS

FLOAT32, FLOAT16 = DataType.FLOAT32, DataType.FLOAT16
TINY = 2.0**-149
ELEVEN = [t for t in DataType if t.element_bits >= 8 and t not in (DataType.BFLOAT16, *EIGHT_BIT_FLOATS)]
TEN = [t for t in ELEVEN if t != DataType.FLOAT64]


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


# --- hostile inputs ---


def drawn(rng: np.random.Generator, data_type: DataType, count: int, near: Iterable[float] = ()) -> NDArray[Any]:
    """A row of hostile elements: random ones of every kind of `hostile_data`, and neighbours of the numbers `near`."""
    dtype = data_type.dtype
    columns = [hostile_data.values(data_type.name, count, rng, kind) for kind in hostile_data.KINDS]
    if dtype.kind == "f":
        unsigned = f"u{dtype.itemsize}"
        columns += [rng.standard_normal(count).astype(dtype) * dtype.type(10)]
        with np.errstate(over="ignore", under="ignore"):
            chosen = rng.choice([*near, 1.0], count).astype(dtype).view(unsigned)
        columns += [(chosen + rng.integers(-2, 3, count).astype(unsigned)).view(dtype)] * 2
    return np.stack(columns)[rng.integers(0, len(columns), count), np.arange(count)]


def shaped(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """Sizes with this many elements in one to eight dimensions."""
    sizes = [count]
    for _ in range(int(rng.integers(0, 8))):
        last = sizes.pop()
        divisor = int(rng.choice([n for n in (1, 2, 5) if last % n == 0]))
        sizes += [divisor, last // divisor]
    return tuple(sizes)


# --- point-wise activations ---

ATTRIBUTES = (1.0, 0.5, 0.0, -0.0, -1.0, 0.1, 0.2, 1.0507, 1.6732632, 7.25, -0.3, TINY, -TINY, 1e-20, 3e38, -3e38, 1e10)
SPECIAL_ATTRIBUTES = (float("inf"), float("-inf"), float("nan"))
# name: the usual attributes, and arguments close to which the formula changes
ACTIVATIONS: dict[str, tuple[dict[str, float], tuple[float, ...]]] = {
    "RELU": ({}, ()),
    "SIGMOID": ({}, (2.0**-23, 2.0**-24, 17.3, 16.6, 88.7, -88.7, -103.97, -104.0, -87.3, -9.7, -16.6)),
    "TANH": ({}, (2.0**-12, 2.0**-11, 9.01, 8.3, 0.55, 4.5)),
    "LINEAR": ({"alpha": 2.0, "beta": 1.0}, (-0.5, 2.0**24)),
    "IDENTITY": ({}, ()),
    "LEAKY_RELU": ({"alpha": 0.01}, ()),
    "ELU": ({"alpha": 1.0}, (-17.33, -16.6, -(2.0**-24), -8.3)),
    "CELU": ({"alpha": 1.0}, (-17.33, -16.6, -(2.0**-24), -8.3)),
    "SCALED_ELU": ({"alpha": 1.6732632, "gamma": 1.0507}, (-17.33, -16.6, -(2.0**-24), -8.3)),
    "HARD_SIGMOID": ({"alpha": 0.2, "beta": 0.5}, (2.5, -2.5)),
    "SCALED_TANH": ({"alpha": 1.0, "beta": 0.5}, (2.0**-12, 18.02)),
    "SOFTPLUS": ({"steepness": 1.0}, (-103.97, -87.3, 16.6, 17.3, -17.3)),
    "PARAMETRIC_SOFTPLUS": ({"alpha": 1.0, "beta": 1.0}, (-103.97, -87.3, 16.6, 17.3, -17.3)),
    "SOFTSIGN": ({}, (2.0**24, 2.0**11, 2.0**-24)),
    "THRESHOLDED_RELU": ({"alpha": 1.0}, ATTRIBUTES),
    "SHRINK": ({"bias": 0.0, "threshold": 0.5}, ATTRIBUTES),
    "GELU": ({}, (-14.2, -13.1, 5.4, -5.4, 2.0**-24, -7.5e5, -1e6, -2e6)),
}
TYPES = {
    "RELU": (FLOAT32, FLOAT16, DataType.INT32, DataType.INT16, DataType.INT8),
    "SHRINK": (FLOAT32, FLOAT16, *(t for t in DataType if t.name[-2:] in ("32", "16", "T8") and "INT" in t.name)),
}


def activation_case(rng: np.random.Generator, name: str, data_type: DataType) -> tuple[Desc, dict[str, Any]]:
    usual, near = ACTIVATIONS[name]
    chosen = dict(usual)
    for attribute in usual:
        kind = rng.random()
        if kind < 0.5:
            chosen[attribute] = float(rng.choice(ATTRIBUTES))
        elif kind < 0.6:
            chosen[attribute] = float(rng.choice(SPECIAL_ATTRIBUTES))
    count = 100
    x = drawn(rng, data_type, count, near).reshape(shaped(rng, count))
    t = TensorDesc(data_type, x.shape)
    return named(f"ACTIVATION_{name}")(input_tensor=t, output_tensor=t, **chosen), {"input_tensor": x}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_give_the_oracles_bits(name: str) -> None:
    rng = np.random.default_rng(20)
    compared = 0
    while compared < 4_000 * SOAK:
        for data_type in TYPES.get(name, (FLOAT32, FLOAT16)):
            desc, inputs = activation_case(rng, name, data_type)
            compared += agree(desc, inputs)
    print(f"{name}: {compared} outputs")


def test_fused_activations_act_on_the_exact_sum() -> None:
    rng = np.random.default_rng(21)
    compared = 0
    while compared < 4_000 * SOAK:
        for name in ACTIVATIONS:
            data_type = (FLOAT32, FLOAT16)[int(rng.integers(0, 2))]
            usual, near = ACTIVATIONS[name]
            a, b = drawn(rng, data_type, 50, near), drawn(rng, data_type, 50)
            b = np.where(rng.random(50) < 0.3, -a, b)
            t = TensorDesc(data_type, (50,))
            fused = named(f"ACTIVATION_{name}")(**usual)
            desc = named("ELEMENT_WISE_ADD1")(a_tensor=t, b_tensor=t, output_tensor=t, fused_activation=fused)
            compared += agree(desc, {"a_tensor": a, "b_tensor": b})
    print(f"{compared} outputs")


# --- with numbers ---


@pytest.mark.parametrize(("name", "types"), [("ELEMENT_WISE_ADD", TEN), ("ELEMENT_WISE_ATAN_YX", (FLOAT32, FLOAT16))])
def test_operators_of_two_inputs_give_the_oracles_bits(name: str, types: Sequence[DataType]) -> None:
    """Some pairs are opposite or equal, so that sums cancel and angles are exact."""
    rng, compared = np.random.default_rng(27), 0
    while compared < 4_000 * SOAK:
        for data_type in types:
            a, b = (drawn(rng, data_type, 100) for _ in range(2))
            with np.errstate(over="ignore"):
                b = np.where(rng.random(100) < 0.2, np.where(rng.random(100) < 0.5, a, np.negative(a)), b).astype(a.dtype)
            t = TensorDesc(data_type, shaped(rng, 100))
            desc = named(name)(a_tensor=t, b_tensor=t, output_tensor=t)
            compared += agree(desc, {"a_tensor": a.reshape(t.sizes), "b_tensor": b.reshape(t.sizes)})
    print(f"{name}: {compared} outputs")


def test_exp_gives_the_oracles_bits() -> None:
    rng, compared = np.random.default_rng(22), 0
    near = (88.72, -103.97, -87.3, 11.09, -17.33, -16.6, 2.0**-24, -(2.0**-25))
    while compared < 4_000 * SOAK:
        for data_type in (FLOAT32, FLOAT16):
            x = drawn(rng, data_type, 100, near).reshape(shaped(rng, 100))
            t = TensorDesc(data_type, x.shape)
            pair = [float(rng.choice(ATTRIBUTES if rng.random() < 0.8 else SPECIAL_ATTRIBUTES)) for _ in range(2)]
            scale_bias = None if rng.random() < 0.4 else ScaleBias(*pair)
            desc = named("ELEMENT_WISE_EXP")(input_tensor=t, output_tensor=t, scale_bias=scale_bias)
            compared += agree(desc, {"input_tensor": x})
    print(f"ELEMENT_WISE_EXP: {compared} outputs")


def test_quantize_linear_gives_the_oracles_bits() -> None:
    rng, compared = np.random.default_rng(23), 0
    while compared < 4_000 * SOAK:
        for data_type in (FLOAT32, FLOAT16, DataType.INT32):
            scale_type = FLOAT32 if data_type == DataType.INT32 else data_type
            output_type = (DataType.INT8, DataType.UINT8)[int(rng.integers(0, 2))]
            scale = drawn(rng, scale_type, 100, (0.1, 0.05, 0.039215686, 2.0**24))
            x = drawn(rng, data_type, 100)
            # quotients close to halves, for which both roundings matter
            with np.errstate(invalid="ignore"):
                halves = rng.integers(-260, 520, 100) / 2 * scale.astype(np.float64)
            steered = np.where(np.isfinite(halves) & (abs(halves) < 6e4), halves, 0).astype(data_type.dtype)
            if data_type != DataType.INT32:
                unsigned = f"u{steered.itemsize}"
                steered = (steered.view(unsigned) + rng.integers(-1, 2, 100).astype(unsigned)).view(data_type.dtype)
            x = np.where(rng.random(100) < 0.6, steered, x)
            inputs = {"input_tensor": x, "scale_tensor": scale}
            t, quantized = TensorDesc(data_type, (100,)), TensorDesc(output_type, (100,))
            tensors = dict(input_tensor=t, scale_tensor=TensorDesc(scale_type, (100,)), output_tensor=quantized)
            if rng.random() < 0.7:
                inputs["zero_point_tensor"] = drawn(rng, output_type, 100)
                tensors["zero_point_tensor"] = quantized
            compared += agree(named("ELEMENT_WISE_QUANTIZE_LINEAR")(**tensors), inputs)
    print(f"ELEMENT_WISE_QUANTIZE_LINEAR: {compared} outputs")


def test_float16_quotients_are_rounded_to_float32() -> None:
    """The quotient is above a tie in float32, which gives 3; in float16 it would be the tie, which gives 2."""
    x, scale = np.array([2.505859375], np.float16), np.array([1.001953125], np.float16)
    assert x.astype(np.float32) / scale.astype(np.float32) > 2.5
    assert x / scale == 2.5
    t = TensorDesc(FLOAT16, (1,))
    output = TensorDesc(DataType.UINT8, (1,))
    desc = named("ELEMENT_WISE_QUANTIZE_LINEAR")(input_tensor=t, scale_tensor=t, output_tensor=output)
    assert computed(desc, {"input_tensor": x, "scale_tensor": scale})["output_tensor"].tolist() == [3]


def test_sequences_give_the_oracles_bits() -> None:
    rng, compared = np.random.default_rng(24), 0
    while compared < 4_000 * SOAK:
        for data_type in TEN:
            start, delta = (x.item() for x in drawn(rng, data_type, 2))
            count = int(rng.choice([1, 2, 7, 20, 50, 100]))
            desc = named("FILL_VALUE_SEQUENCE")(
                output_tensor=TensorDesc(data_type, shaped(rng, count)),
                value_data_type=data_type,
                value_start=start,
                value_delta=delta,
            )
            compared += agree(desc, {})
    print(f"FILL_VALUE_SEQUENCE: {compared} outputs")


def test_random_words_are_the_oracles() -> None:
    rng, compared = np.random.default_rng(25), 0
    while compared < 4_000 * SOAK:
        words = rng.choice([0, 1, 2**32 - 1, 2**32 - 2, 2**31, int(rng.integers(0, 2**32))], 6)
        state = words.astype(np.uint32).reshape((1,) * int(rng.integers(0, 8)) + (6,))
        count = int(rng.integers(1, 120))
        t = TensorDesc(DataType.UINT32, state.shape)
        desc = named("RANDOM_GENERATOR")(
            input_state_tensor=t,
            output_tensor=TensorDesc(DataType.UINT32, shaped(rng, count)),
            output_state_tensor=t if rng.random() < 0.8 else None,
        )
        compared += agree(desc, {"input_state_tensor": state})
    print(f"RANDOM_GENERATOR: {compared} outputs")


# --- elements that are moved ---


def parted(rng: np.random.Generator) -> tuple[DataType, int, list[tuple[int, ...]], tuple[int, ...]]:
    """A data type, an axis, the sizes of parts along it, and those of the whole tensor."""
    rank = int(rng.integers(1, 9))
    axis = int(rng.integers(0, rank))
    sizes = [int(rng.integers(1, 4 if rank < 5 else 3)) for _ in range(rank)]
    along = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 7)))]
    parts = [(*sizes[:axis], n, *sizes[axis + 1 :]) for n in along]
    return ELEVEN[int(rng.integers(0, len(ELEVEN)))], axis, parts, (*sizes[:axis], sum(along), *sizes[axis + 1 :])


def test_join_and_split_give_the_oracles_bits() -> None:
    rng, compared = np.random.default_rng(26), 0
    while compared < 6_000 * SOAK:
        data_type, axis, parts, whole = parted(rng)
        arrays = [drawn(rng, data_type, int(np.prod(sizes))).reshape(sizes) for sizes in parts]
        descs = [TensorDesc(data_type, sizes) for sizes in parts]
        t = TensorDesc(data_type, whole)
        compared += agree(named("JOIN")(input_tensors=descs, output_tensor=t, axis=axis), {"input_tensors": arrays})
        array = drawn(rng, data_type, int(np.prod(whole))).reshape(whole)
        compared += agree(named("SPLIT")(input_tensor=t, output_tensors=descs, axis=axis), {"input_tensor": array})
    print(f"JOIN and SPLIT: {compared} outputs")


def test_a_thousand_tensors_are_joined_and_split() -> None:
    sizes = [(2, 1 + n % 3) for n in range(1000)]
    whole = (2, sum(n for _, n in sizes))
    array = np.arange(np.prod(whole), dtype=np.int32).reshape(whole)
    ends = np.cumsum([n for _, n in sizes])[:-1]
    parts = [np.ascontiguousarray(part) for part in np.split(array, ends, axis=1)]
    t, descs = TensorDesc(DataType.INT32, whole), [TensorDesc(DataType.INT32, s) for s in sizes]
    matches(named("JOIN")(input_tensors=descs, output_tensor=t, axis=1), {"input_tensors": parts}, {"output_tensor": array})
    matches(named("SPLIT")(input_tensor=t, output_tensors=descs, axis=1), {"input_tensor": array}, {"output_tensors": parts})


@pytest.mark.parametrize("mode", PaddingMode)
@pytest.mark.parametrize("name", ["PADDING", "PADDING1"])
def test_padding_gives_the_oracles_bits(name: str, mode: PaddingMode) -> None:
    rng, compared = np.random.default_rng(27), 0
    while compared < 4_000 * SOAK:
        data_type = ELEVEN[int(rng.integers(0, len(ELEVEN)))]
        rank = int(rng.integers(1, 9))
        largest = {1: 9, 2: 5, 3: 3}.get(rank, 2)
        sizes, start, end = (
            tuple(map(int, rng.integers(low, high + 1, rank)))
            for low, high in ((1, largest), (0, 3 * largest if rank < 3 else 1), (0, 3 * largest if rank < 3 else 1))
        )
        padded = tuple(map(sum, zip(sizes, start, end, strict=True)))
        x = drawn(rng, data_type, int(np.prod(sizes))).reshape(sizes)
        value = drawn(rng, FLOAT32 if name == "PADDING" else data_type, 1, (10.6, -0.5, 127.5, -129.0, 3e9, 1e19)).item()
        desc = named(name)(
            input_tensor=TensorDesc(data_type, sizes),
            output_tensor=TensorDesc(data_type, padded),
            padding_mode=mode,
            padding_value=value,
            start_padding=start,
            end_padding=end,
            **({} if name == "PADDING" else {"padding_value_data_type": data_type}),
        )
        compared += agree(desc, {"input_tensor": x})
    print(f"{name} {mode}: {compared} outputs")


# --- examples, and violations of rules ---

ALL = [
    *(f"ACTIVATION_{name}" for name in ACTIVATIONS),
    *("ELEMENT_WISE_ADD", "ELEMENT_WISE_ADD1", "ELEMENT_WISE_EXP", "ELEMENT_WISE_QUANTIZE_LINEAR"),
    *("FILL_VALUE_SEQUENCE", "RANDOM_GENERATOR", "JOIN", "SPLIT", "PADDING", "PADDING1"),
]


@pytest.mark.parametrize("name", ALL)
def test_examples_hold(name: str) -> None:
    op = named(name)
    for example in op.spec.examples:
        desc = op(**example.fields)
        check(desc)
        matches(desc, example.inputs, example.outputs)


@pytest.mark.parametrize("name", ALL)
def test_in_place_is_as_in_separate_memory(name: str) -> None:
    op = named(name)
    example = op.spec.examples[0]
    for wire in op.spec.in_place:
        at = snake_case(wire)
        arrays = {n: a.copy() for n, a in example.inputs.items()}
        compiled = Device("reference").compile(op(**example.fields))
        compiled.bind(**arrays, output_tensor=arrays[at]).execute()
        assert arrays[at].tobytes() == example.output.tobytes()
