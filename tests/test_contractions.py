"""Sums of products, with what is done to them: the reference beside the oracle, on inputs drawn to hurt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hurting
from agreement import SOAK, agree
from anydml import DataType, TensorDesc, operators
from anydml.schema.operator import Desc

Rng = np.random.Generator
Case = tuple[Desc, dict[str, Any]]
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def drawn(rng: Rng, data_type: DataType, sizes: tuple[int, ...], kind: str) -> NDArray[Any]:
    """Elements of one kind, some of them perhaps replaced by infinities, NaN and other ends."""
    with np.errstate(all="ignore"):
        made = hurting.values(data_type.name, sizes, rng, kind)
        if rng.random() < 0.2:
            special = hurting.values(data_type.name, sizes, rng, "specials")
            made = np.where(rng.random(sizes) < 0.1, special, made)
    return made


def some_sizes(rng: Rng, most: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, most + 1, count))


FACTORS = (1.0, 1.0, 1.0, 0.0, -0.0, -1.0, 0.5, 0.1, 3.0, 2.0**-149, 3e38, float("inf"), float("nan"))


# --- cases ---


def gemm(rng: Rng) -> Case:
    data_type, count, kind = pick(rng, FLOATS), int(rng.integers(2, 5)), pick(rng, hurting.KINDS)
    batch, (m, n) = some_sizes(rng, 2, count - 2), some_sizes(rng, 9, 2)
    k = int(rng.integers(1, 13))
    trans_a, trans_b = (bool(rng.random() < 0.5) for _ in range(2))
    inputs = {
        "a_tensor": drawn(rng, data_type, (*batch, k, m) if trans_a else (*batch, m, k), kind),
        "b_tensor": drawn(rng, data_type, (*batch, n, k) if trans_b else (*batch, k, n), kind),
    }
    output = TensorDesc(data_type, (*batch, m, n))
    if rng.random() < 0.6:
        broadcast = some_sizes(rng, 2, count)
        c = drawn(rng, data_type, tuple(n if one > 1 else 1 for n, one in zip(output.sizes, broadcast, strict=True)), kind)
        inputs["c_tensor"] = np.broadcast_to(c, output.sizes)
    choice, f = rng.random(), None
    if choice < 0.3:
        f = pick(rng, (
            named("ACTIVATION_RELU")(), named("ACTIVATION_LEAKY_RELU")(alpha=0.1), named("ACTIVATION_TANH")(),
            named("ACTIVATION_GELU")(), named("ACTIVATION_LINEAR")(alpha=-2.0, beta=1.0),
            named("ELEMENT_WISE_CLIP")(min=-1.0, max=2.5),
        ))  # fmt: skip
    elif choice < 0.4:
        axes = rng.permutation(count)[: int(rng.integers(1, count + 1))].tolist()
        plain = all(size == 1 for size in batch) and rng.random() < 0.5
        f = named("ACTIVATION_SOFTMAX")() if plain else named("ACTIVATION_SOFTMAX1")(axes=axes)
    desc = named("GEMM")(
        **{name: TensorDesc.of(array) for name, array in inputs.items()}, output_tensor=output,
        trans_a="TRANSPOSE" if trans_a else "NONE", trans_b="TRANSPOSE" if trans_b else "NONE", alpha=pick(rng, FACTORS),
        beta=pick(rng, FACTORS), fused_activation=f,
    )  # fmt: skip
    return desc, inputs


CASES: dict[str, tuple[Callable[[Rng], Case], int]] = {"GEMM": (gemm, 10_000)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_reference_gives_the_oracles_bits(name: str) -> None:
    case, count = CASES[name]
    rng = np.random.default_rng(41)
    compared = 0
    while compared < count * SOAK:
        desc, inputs = case(rng)
        compared += agree(desc, inputs)
    print(f"{name}: {compared} outputs")
