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
EIGHT_BIT = (DataType.INT8, DataType.UINT8)
INTEGERS = (*EIGHT_BIT, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.UINT32)


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


def zero_point(rng: Rng, data_type: DataType, sizes: tuple[int, ...]) -> NDArray[Any]:
    return hurting.values(data_type.name, sizes, rng, pick(rng, hurting.KINDS))


def per_channel(rng: Rng, channels: int) -> tuple[int, ...]:
    """The sizes of a scale or zero point in one to four dimensions: one element, or one for each channel."""
    rank, count = int(rng.integers(1, 5)), pick(rng, (1, channels))
    return tuple(count if a == min(1, rank - 1) else 1 for a in range(rank))


def windows(rng: Rng) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes and the data of a convolution of integers: strides, dilations, groups, and padding at every edge."""
    spatial, groups = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    read, written = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    inner, taps, strides, dilations = (some_sizes(rng, most, spatial) for most in (7, 3, 3, 3))
    start, end = ([int(n) for n in rng.integers(0, 4, spatial)] for _ in range(2))
    outer = []
    for a in range(spatial):
        extent = 1 + (taps[a] - 1) * dilations[a]
        end[a] += max(extent - inner[a] - start[a] - end[a], 0)
        outer.append(1 + (inner[a] + start[a] + end[a] - extent) // strides[a])
    x_type, f_type, batches, channels = pick(rng, EIGHT_BIT), pick(rng, EIGHT_BIT), int(rng.integers(1, 3)), groups * written
    kind = pick(rng, hurting.KINDS)
    inputs = {
        "input_tensor": hurting.values(x_type.name, (batches, groups * read, *inner), rng, kind),
        "filter_tensor": hurting.values(f_type.name, (channels, read, *taps), rng, kind),
    }
    if rng.random() < 0.7:
        sizes = (1,) * int(rng.integers(1, 5))
        inputs["input_zero_point_tensor"] = zero_point(rng, x_type, sizes)
    if rng.random() < 0.7:
        sizes = per_channel(rng, channels)
        inputs["filter_zero_point_tensor"] = zero_point(rng, f_type, sizes)
    attributes = dict(strides=strides, dilations=dilations, start_padding=start, end_padding=end, group_count=groups)
    return attributes | {"sizes": (batches, channels, *outer)}, inputs


def convolution_integer(rng: Rng) -> Case:
    attributes, inputs = windows(rng)
    output = TensorDesc(DataType.INT32, attributes.pop("sizes"))
    if "input_zero_point_tensor" in inputs and "filter_zero_point_tensor" in inputs:  # as many dimensions as the other
        there = inputs["filter_zero_point_tensor"]
        inputs["input_zero_point_tensor"] = inputs["input_zero_point_tensor"].reshape((1,) * there.ndim)
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    return named("CONVOLUTION_INTEGER")(**tensors, output_tensor=output, **attributes), inputs


def quantized_linear_convolution(rng: Rng) -> Case:
    """Scales whose quotients make ties, saturation, and any."""
    attributes, inputs = windows(rng)
    sizes, usual = attributes.pop("sizes"), rng.random() < 0.8

    def scale(sizes: tuple[int, ...]) -> NDArray[Any]:
        if usual:
            return rng.choice(np.array([0.5, 0.25, 1, 3, 0.1, -0.75], np.float32), sizes)
        made = hurting.values("FLOAT32", sizes, rng, pick(rng, hurting.KINDS))
        return np.where(np.isfinite(made) & (made != 0), made, np.float32(2.0**-149))

    ones = (1,) * int(rng.integers(1, 5))
    inputs |= {"input_scale_tensor": scale(ones), "output_scale_tensor": scale(ones) * np.float32(8 if usual else 1)}
    inputs["filter_scale_tensor"] = scale(per_channel(rng, sizes[1]))
    y_type = pick(rng, EIGHT_BIT)
    if rng.random() < 0.6:
        bias = rng.integers(-500, 500, (1, sizes[1], *(1,) * (len(sizes) - 2)))
        inputs["bias_tensor"] = (bias << int(pick(rng, (0, 0, 22)))).astype(np.int32)
    if rng.random() < 0.7:
        inputs["output_zero_point_tensor"] = zero_point(rng, y_type, ones)
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    return named("QUANTIZED_LINEAR_CONVOLUTION")(**tensors, output_tensor=TensorDesc(y_type, sizes), **attributes), inputs


def matrix_multiply_integer_to_float(rng: Rng) -> Case:
    bits, count, real = pick(rng, (8, 8, 16, 32)), int(rng.integers(2, 5)), pick(rng, FLOATS)
    a_type, b_type = (pick(rng, [t for t in INTEGERS if t.element_bits == bits]) for _ in range(2))
    batch, (m, n) = some_sizes(rng, 2, count - 2), some_sizes(rng, 7, 2)
    k, kind, rank = int(rng.integers(1, 10)), pick(rng, hurting.KINDS), int(rng.integers(1, 5))
    of_a, of_b = ((*(1,) * 3, m, 1)[-rank:] if rank > 1 else (1,), (*(1,) * 4, n)[-rank:])
    inputs = {
        "a_tensor": hurting.values(a_type.name, (*batch, m, k), rng, kind),
        "b_tensor": hurting.values(b_type.name, (*batch, k, n), rng, kind),
        "a_scale_tensor": drawn(rng, real, pick(rng, (of_a, (1,) * rank)), pick(rng, hurting.KINDS)),
        "b_scale_tensor": drawn(rng, real, pick(rng, (of_b, (1,) * rank)), pick(rng, hurting.KINDS)),
    }
    if rng.random() < 0.6:
        inputs["a_zero_point_tensor"] = zero_point(rng, a_type, pick(rng, (of_a, (1,) * rank)))
    if rng.random() < 0.6:
        inputs["b_zero_point_tensor"] = zero_point(rng, b_type, pick(rng, (of_b, (1,) * rank)))
    if rng.random() < 0.6:
        inputs["bias_tensor"] = drawn(rng, real, (*batch, m, n), pick(rng, hurting.KINDS))
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    output = TensorDesc(real, (*batch, m, n))
    return named("MATRIX_MULTIPLY_INTEGER_TO_FLOAT")(**tensors, output_tensor=output), inputs


CASES: dict[str, tuple[Callable[[Rng], Case], int]] = {
    "CONVOLUTION_INTEGER": (convolution_integer, 10_000),
    "GEMM": (gemm, 10_000),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": (matrix_multiply_integer_to_float, 10_000),
    "QUANTIZED_LINEAR_CONVOLUTION": (quantized_linear_convolution, 10_000),
}


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
