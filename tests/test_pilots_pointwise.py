"""Operators that move and map elements one by one: the reference beside the oracle, on inputs drawn to hurt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agreement import SOAK, agree, matches
from anydml import DataType, FeatureLevel, TensorDesc, operators
from anydml.errors import DescError
from anydml.schema.check import check
from anydml.schema.operator import Desc, example_desc

FLOAT32, FLOAT16 = DataType.FLOAT32, DataType.FLOAT16
TINY, HUGE = 2.0**-149, float(np.finfo(np.float32).max)
CHUNK = 250


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


# --- inputs that hurt ---


def specials(data_type: DataType) -> NDArray[Any]:
    """Zeros, the borders of subnormals, of the range and of exactness, infinities and NaNs, of both signs."""
    info = np.finfo(data_type.dtype)
    width = info.nmant
    sizes = [
        0.0, info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny - info.smallest_subnormal, info.tiny, info.max,
        info.eps, info.eps / 2, info.eps / 4, 1 - info.eps / 2, 1.0, 1 + info.eps, 0.5, 1.5, 2.0, 2.5, 3.0, 2.0**width,
        2.0 ** (width + 1), np.inf, np.nan,
    ]  # fmt: skip
    magnitudes = np.array(sizes, np.float64).astype(data_type.dtype)
    return np.concatenate([magnitudes, -magnitudes])


def drawn(rng: np.random.Generator, data_type: DataType, count: int, near: Iterable[float] = ()) -> NDArray[Any]:
    """A row of elements: specials, any bit patterns, middling numbers, few digits, and neighbours of chosen numbers."""
    dtype = data_type.dtype
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = rng.integers(max(info.min, -3), 4, count)
        any_one = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
        return np.where(rng.random(count) < 0.3, small.astype(dtype), any_one)
    unsigned = f"u{dtype.itemsize}"
    with np.errstate(over="ignore", under="ignore"):
        signs = rng.choice([-1.0, 1.0], count)
        spread = (signs * 2.0 ** rng.uniform(-30, 10, count)).astype(dtype)
        short = (rng.integers(-64, 65, count) * 2.0 ** rng.integers(-8, 3, count)).astype(dtype)
        chosen = np.array([*near, 1.0], np.float64)[rng.integers(0, len([*near]) + 1, count)].astype(dtype)
    beside = np.where(np.isfinite(chosen), (chosen.view(unsigned) + rng.integers(-2, 3, count).astype(unsigned)).view(dtype), 1)
    columns = [
        specials(data_type)[rng.integers(0, len(specials(data_type)), count)],
        np.frombuffer(rng.bytes(count * dtype.itemsize), dtype),
        spread,
        short,
        beside.astype(dtype),
    ]
    return np.stack(columns)[rng.integers(0, len(columns), count), np.arange(count)]


def shaped(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """Sizes with so many elements in one to eight dimensions."""
    sizes = [count]
    for _ in range(int(rng.integers(0, 8))):
        last = sizes.pop()
        divisor = int(rng.choice([n for n in (1, 2, 5) if last % n == 0]))
        sizes += [divisor, last // divisor]
    return tuple(sizes)


# --- point-wise activations ---

ATTRIBUTES = (1.0, 0.5, 0.0, -0.0, -1.0, 0.1, 0.2, 1.0507, 1.6732632, 7.25, -0.3, TINY, -TINY, 1e-20, 3e38, -3e38, 1e10)
SPECIAL_ATTRIBUTES = (float("inf"), float("-inf"), float("nan"))
# name: the usual attributes, and arguments beside which something happens
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
    "GELU": ({}, (-14.2, -13.1, 5.4, -5.4, 2.0**-24)),
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
    count = 4 * CHUNK // 10
    x = drawn(rng, data_type, count, near).reshape(shaped(rng, count))
    t = TensorDesc(data_type, x.shape)
    return named(f"ACTIVATION_{name}")(input_tensor=t, output_tensor=t, **chosen), {"input_tensor": x}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_give_the_oracles_bits(name: str) -> None:
    rng = np.random.default_rng(20)
    compared = 0
    while compared < 10_000 * SOAK:
        for data_type in TYPES.get(name, (FLOAT32, FLOAT16)):
            desc, inputs = activation_case(rng, name, data_type)
            compared += agree(desc, inputs)
    print(f"{name}: {compared} outputs")


def test_fused_activations_act_on_the_exact_sum() -> None:
    rng = np.random.default_rng(21)
    compared = 0
    while compared < 10_000 * SOAK:
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


# --- examples, and what breaks a rule ---

ALL = [f"ACTIVATION_{name}" for name in ACTIVATIONS]


@pytest.mark.parametrize("name", ALL)
def test_examples_hold(name: str) -> None:
    op = named(name)
    for example in op.spec.examples:
        desc = op(**example.fields)
        check(desc)
        matches(desc, example.inputs, example.outputs)


@pytest.mark.parametrize("name", ALL)
def test_each_rule_has_an_example_that_breaks_it_alone(name: str) -> None:
    op = named(name)
    broken = set()
    for rejecting in op.spec.rejecting:
        with pytest.raises(DescError) as raised:
            check(example_desc(op, rejecting.fields), rejecting.at, strict=rejecting.strict)
        assert [v.constraint for v in raised.value.violations] == [rejecting.constraint]
        broken.add(rejecting.constraint)
    for rule in op.spec.constraints:
        if rule.breaks is None:
            assert rule.name in broken, f"no example breaks {rule.name}"
            continue
        with pytest.raises(DescError) as raised:
            check(example_desc(op, rule.breaks(example_desc(op))), level_of(op, rule.before))
        assert {v.constraint for v in raised.value.violations} == {rule.name}


def level_of(op: type[Desc], before: FeatureLevel | None) -> FeatureLevel:
    return FeatureLevel.FL_6_4 if before is None else max(level for level in FeatureLevel if op.spec.since <= level < before)
