"""Operators that convert, quantise and activate: the reference compared with the oracle, on hostile data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from agreement import agree, agree_on, computed
from anydml import DataType, Device, TensorDesc, operators
from anydml.exact import reals
from anydml.schema.operator import Desc
from anydml.tensor import EIGHT_BIT_FLOATS

FLOAT32, FLOAT16 = DataType.FLOAT32, DataType.FLOAT16
FLOATS = (FLOAT32, FLOAT16)
SIGNED = (DataType.INT32, DataType.INT16, DataType.INT8)
ELEVEN = tuple(t for t in DataType if t.element_bits >= 8 and t not in (DataType.BFLOAT16, *EIGHT_BIT_FLOATS))
INTEGERS = tuple(t for t in ELEVEN if not t.name.startswith("FLOAT"))
SIX = tuple(t for t in INTEGERS if t.element_bits <= 32)
EIGHT_BIT = (DataType.INT8, DataType.UINT8)
ATTRIBUTES = (1.0, 0.5, 0.0, -0.0, -1.0, 0.1, 1 / 6, 1.702, 7.25, -0.3, 2.0**-149, 1e-20, 3e38, -3e38, math.inf, -math.inf)
Array = NDArray[Any]
Rng = np.random.Generator
Case = tuple[Desc, dict[str, Any]]


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(0, len(values)))]


def drawn(rng: Rng, data_type: DataType, sizes: tuple[int, ...], kind: str = "") -> Array:
    """Hostile elements: of one kind of `hostile_data`, or of all kinds mixed."""
    kinds = hostile_data.KINDS if not kind else (kind,)
    with np.errstate(all="ignore"):
        each = np.stack([hostile_data.values(data_type.name, math.prod(sizes), rng, one) for one in kinds])
    chosen = each[rng.integers(0, len(kinds), each.shape[1]), np.arange(each.shape[1])]
    made: Array = chosen.reshape(sizes)
    return made


def beside_halves(rng: Rng, data_type: DataType, scale: Array) -> Array:
    """Elements whose quotients by the scales are halves or close to halves, mixed with others."""
    with np.errstate(all="ignore"):
        halves = rng.integers(-260, 520, scale.shape) / 2 * scale.astype(np.float64)
    fits = np.isfinite(halves) & (abs(halves) < 6e4)
    steered = np.where(fits, halves, 0).astype(data_type.dtype)
    if data_type in FLOATS:
        unsigned = f"u{steered.itemsize}"
        steered = (steered.view(unsigned) + rng.integers(-1, 2, scale.shape).astype(unsigned)).view(data_type.dtype)
    return np.where(rng.random(scale.shape) < 0.6, steered, drawn(rng, data_type, scale.shape))


def some_sizes(rng: Rng, most: int, rank: int = 0) -> tuple[int, ...]:
    """Sizes of at most this many elements."""
    sizes = []
    for _ in range(rank or int(rng.integers(1, 5))):
        sizes.append(int(rng.integers(1, min(most, 9) + 1)))
        most //= sizes[-1]
    return tuple(rng.permutation(sizes).tolist())


# --- cases ---


def cast(rng: Rng) -> Case:
    sizes = some_sizes(rng, 200)
    a, b = pick(rng, ELEVEN), pick(rng, ELEVEN)
    x = drawn(rng, a, sizes)
    if a.name.startswith("FLOAT") and b in INTEGERS and rng.random() < 0.5:  # numbers around the ends of the integers
        with np.errstate(over="ignore"):
            ends = rng.choice([float(np.iinfo(b.dtype).min), float(np.iinfo(b.dtype).max), 0.0], sizes)
            x = (ends + rng.integers(-3, 4, sizes) / 2).astype(a.dtype)
    return named("CAST")(input_tensor=TensorDesc(a, sizes), output_tensor=TensorDesc(b, sizes)), {"input_tensor": x}


def constant(rng: Rng) -> Case:
    data_type = pick(rng, ELEVEN)
    value = drawn(rng, data_type, (1,)).item()
    t = TensorDesc(data_type, some_sizes(rng, 60))
    return named("FILL_VALUE_CONSTANT")(output_tensor=t, value_data_type=data_type, value=value), {}


def value_scale(rng: Rng) -> Case:
    data_type, channels = pick(rng, FLOATS), pick(rng, (1, 3))
    sizes = (int(rng.integers(1, 4)), channels, int(rng.integers(1, 9)), int(rng.integers(1, 9)))
    t = TensorDesc(data_type, sizes)
    bias = tuple(float(b) for b in drawn(rng, FLOAT32, (channels,)))
    scale = float(pick(rng, ATTRIBUTES))
    desc = named("VALUE_SCALE_2D")(input_tensor=t, output_tensor=t, scale=scale, bias=bias)
    return desc, {"input_tensor": drawn(rng, data_type, sizes)}


def dequantize_linear(rng: Rng) -> Case:
    data_type, to, sizes = pick(rng, SIX), pick(rng, FLOATS), some_sizes(rng, 200)
    x, s = TensorDesc(data_type, sizes), TensorDesc(to, sizes)
    inputs = {"input_tensor": drawn(rng, data_type, sizes), "scale_tensor": drawn(rng, to, sizes)}
    zero_point = rng.random() < 0.7
    if zero_point:
        inputs["zero_point_tensor"] = drawn(rng, data_type, sizes)
    desc = named("ELEMENT_WISE_DEQUANTIZE_LINEAR")(
        input_tensor=x, scale_tensor=s, zero_point_tensor=x if zero_point else None, output_tensor=s
    )
    return desc, inputs


def quantized_linear_add(rng: Rng) -> Case:
    """With scales that cause ties and saturation, and with any scales."""
    sizes = some_sizes(rng, 200)
    ones = (1,) * len(sizes)
    inputs: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    usual = rng.random() < 0.7
    for name in ("a", "b", "output"):
        data_type = pick(rng, EIGHT_BIT)
        tensors[f"{name}_tensor"] = TensorDesc(data_type, sizes)
        tensors[f"{name}_scale_tensor"] = TensorDesc(FLOAT32, ones)
        scale = np.full(ones, pick(rng, (0.5, 0.25, 1.0, 3.0, 0.1, -0.75)), np.float32)
        inputs[f"{name}_scale_tensor"] = scale if usual else drawn(rng, FLOAT32, ones)
        if name != "output":
            inputs[f"{name}_tensor"] = drawn(rng, data_type, sizes)
        if rng.random() < 0.7:
            tensors[f"{name}_zero_point_tensor"] = TensorDesc(data_type, ones)
            inputs[f"{name}_zero_point_tensor"] = drawn(rng, data_type, ones)
    return named("ELEMENT_WISE_QUANTIZED_LINEAR_ADD")(**tensors), inputs


def dynamic_quantize_linear(rng: Rng) -> Case:
    data_type, to, sizes = pick(rng, FLOATS), pick(rng, EIGHT_BIT), some_sizes(rng, 100)
    kind = pick(rng, (*hostile_data.KINDS, "ordinary", "ordinary"))
    x = drawn(rng, data_type, sizes, kind)
    with np.errstate(all="ignore"):
        if rng.random() < 0.3:  # multiples of half a power of two, so that there are ties
            x = (rng.integers(-255, 256, sizes) * 2.0 ** rng.integers(-8, 2)).astype(x.dtype)
            x.flat[0] = 255 * 2.0**-3
        if rng.random() < 0.2:
            x = abs(x)
        elif rng.random() < 0.2:
            x = -abs(x)
    one = TensorDesc(to, (1,) * len(sizes))
    desc = named("DYNAMIC_QUANTIZE_LINEAR")(
        input_tensor=TensorDesc(data_type, sizes), output_tensor=TensorDesc(to, sizes),
        output_scale_tensor=TensorDesc(FLOAT32, one.sizes), output_zero_point_tensor=one,
    )  # fmt: skip
    return desc, {"input_tensor": x}


def blocks(name: str) -> Callable[[Rng], Case]:
    """QUANTIZE or DEQUANTIZE with blocks of every size, elements of 8 and of 4 bits, and inputs with gaps."""

    def case(rng: Rng) -> Case:
        real, quantized = pick(rng, FLOATS), pick(rng, (*EIGHT_BIT, DataType.INT4, DataType.UINT4))
        count = some_sizes(rng, 40)
        sizes = tuple(n * int(rng.integers(1, 4)) for n in count)
        scale = drawn(rng, real, count, pick(rng, ("ordinary", "ordinary", "ties", *hostile_data.KINDS)))
        scales, zero_points = TensorDesc(real, count), strided(rng, quantized, count)
        given = rng.random() < 0.6
        parameters = [scale, elements(rng, zero_points)] if given else [scale]
        fields: dict[str, Any] = dict(
            quantization_type="SCALE_ZERO_POINT" if given else "SCALE",
            quantization_tensors=(scales, zero_points) if given else (scales,),
        )
        if name == "DEQUANTIZE":
            t = strided(rng, quantized, sizes)
            desc = named(name)(input_tensor=t, output_tensor=TensorDesc(real, sizes), **fields)
            return desc, {"input_tensor": elements(rng, t), "quantization_tensors": parameters}
        for axis, (n, m) in enumerate(zip(sizes, count, strict=True)):
            scale = np.repeat(scale, n // m, axis)
        desc = named(name)(input_tensor=TensorDesc(real, sizes), output_tensor=TensorDesc(quantized, sizes), **fields)
        return desc, {"input_tensor": beside_halves(rng, real, scale), "quantization_tensors": parameters}

    return case


def strided(rng: Rng, data_type: DataType, sizes: tuple[int, ...]) -> TensorDesc:
    """A packed tensor or, if elements have 4 bits, one with any strides."""
    if data_type.element_bits > 4 or rng.random() < 0.5:
        return TensorDesc(data_type, sizes)
    return TensorDesc(data_type, sizes, strides=rng.integers(0, 4, len(sizes)).tolist())


def elements(rng: Rng, t: TensorDesc) -> Array:
    """Elements for a tensor of integers, as they are bound: for 4 bits, any bytes."""
    if t.data_type.element_bits == 4:
        return rng.integers(0, 256, t.element_bytes, np.uint8)
    return drawn(rng, t.data_type, t.sizes)


def rows(name: str) -> Callable[[Rng], Case]:
    def case(rng: Rng) -> Case:
        data_type = pick(rng, FLOATS)
        first = rng.random() < 0.3
        sizes = (*(1,) * int(rng.integers(0, 3)), *some_sizes(rng, 60, 2)) if first else some_sizes(rng, 60)
        x = drawn(rng, data_type, sizes, pick(rng, hostile_data.KINDS))
        if rng.random() < 0.3:  # close to each other
            with np.errstate(all="ignore"):
                x = (pick(rng, [0.0, 1.0, 87.0, -1e4]) + x * pick(rng, [2.0**-10, 1.0])).astype(x.dtype)
        t = TensorDesc(data_type, sizes)
        if first:
            return named(name)(input_tensor=t, output_tensor=t), {"input_tensor": x}
        axes = tuple(rng.permutation(len(sizes))[: int(rng.integers(1, len(sizes) + 1))].tolist())
        return named(f"{name}1")(input_tensor=t, output_tensor=t, axes=axes), {"input_tensor": x}

    return case


def two(name: str, fields: str, types: tuple[DataType, ...]) -> Callable[[Rng], Case]:
    def case(rng: Rng) -> Case:
        data_type, sizes = pick(rng, types), some_sizes(rng, 200)
        t = TensorDesc(data_type, sizes)
        first, second, output = fields.split()
        inputs = {name: drawn(rng, data_type, sizes) for name in (first, second)}
        return named(name)(**{first: t, second: t, output: t}), inputs

    return case


def activation(name: str, *attributes: str) -> Callable[[Rng], Case]:
    def case(rng: Rng) -> Case:
        data_type, sizes = pick(rng, FLOATS), some_sizes(rng, 200)
        x = drawn(rng, data_type, sizes)
        if rng.random() < 0.3:
            x = (rng.standard_normal(sizes) * 10).astype(x.dtype)
        t = TensorDesc(data_type, sizes)
        chosen = {} if rng.random() < 0.4 else {a: float(pick(rng, ATTRIBUTES)) for a in attributes}
        return named(name)(input_tensor=t, output_tensor=t, **chosen), {"input_tensor": x}

    return case


RELUS = {
    "ACTIVATION_PARAMETERIZED_RELU": "input_tensor slope_tensor output_tensor",
    "ACTIVATION_RELU_GRAD": "input_tensor input_gradient_tensor output_gradient_tensor",
}
CASES: dict[str, tuple[Callable[[Rng], Case], int]] = {
    **{name: (two(name, fields, (*FLOATS, *SIGNED)), 6_000) for name, fields in RELUS.items()},
    "ACTIVATION_HARDMAX": (rows("ACTIVATION_HARDMAX"), 4_000),
    "ACTIVATION_HARD_SWISH": (activation("ACTIVATION_HARD_SWISH", "alpha", "beta"), 6_000),
    "ACTIVATION_LOG_SOFTMAX": (rows("ACTIVATION_LOG_SOFTMAX"), 6_000),
    "ACTIVATION_SWISH": (activation("ACTIVATION_SWISH", "sigmoid_input_scale"), 4_000),
    "CAST": (cast, 6_000),
    "DEQUANTIZE": (blocks("DEQUANTIZE"), 4_000),
    "DYNAMIC_QUANTIZE_LINEAR": (dynamic_quantize_linear, 4_000),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": (dequantize_linear, 6_000),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": (quantized_linear_add, 4_000),
    "FILL_VALUE_CONSTANT": (constant, 5_000),
    "QUANTIZE": (blocks("QUANTIZE"), 4_000),
    "VALUE_SCALE_2D": (value_scale, 4_000),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reference_gives_the_oracles_bits(name: str) -> None:
    print(f"{name}: {agree_on(*CASES[name], seed=31)} outputs")


@pytest.mark.parametrize("name", RELUS)
@pytest.mark.parametrize("data_type", [*FLOATS, *SIGNED], ids=str)
def test_every_special_value_meets_every_other(name: str, data_type: DataType) -> None:
    pool = np.unique(
        hostile_data.values(data_type.name, 400, np.random.default_rng(5), "specials").view(f"u{data_type.dtype.itemsize}")
    )
    pairs = np.array(list(itertools.product(pool, pool)), pool.dtype).view(data_type.dtype)
    t = TensorDesc(data_type, (len(pairs),))
    first, second, output = RELUS[name].split()
    inputs = {first: pairs[:, 0].copy(), second: pairs[:, 1].copy()}
    assert agree(named(name)(**{first: t, second: t, output: t}), inputs) == len(pairs)


@pytest.mark.parametrize("data_type", ELEVEN, ids=str)
def test_a_cast_to_the_same_type_moves_bits(data_type: DataType) -> None:
    x = hostile_data.values(data_type.name, (3, 40), np.random.default_rng(6), "specials")
    t = TensorDesc(data_type, x.shape)
    for device in ("reference", "cpu"):
        output = np.zeros_like(x)
        compiled = Device(device).compile(named("CAST")(input_tensor=t, output_tensor=t))
        assert (compiled.kernel_name == "reference") == (device == "reference")
        compiled.bind(input_tensor=x, output_tensor=output).execute()
        assert output.tobytes() == x.tobytes()


# --- rows ---


@pytest.mark.parametrize("row", [
    [0, -1e30, -1e30, -1e31], [0, -50, -100, -400], [0, -104, -150, -1e4], [0, -3e38, 3e38, 1], [5, 5, 5, 5],
    [0, 2.0**-149, 0, -(2.0**-149)], [-math.inf, 0, -math.inf, -math.inf], [0, -math.inf, 1, 1], [1, 1 + 2.0**-23, 1, 1],
])  # fmt: skip
def test_a_logarithm_beside_zero_has_its_sign_and_ends(row: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """ln(1 + e^-1e30) is not 0: its negative, too small for a float, is -0."""
    monkeypatch.setattr(reals, "LAST", reals.CUTOFF)  # the number of bits that decide everything
    x = np.array([row], np.float32)
    t = TensorDesc.of(x)
    agree(named("ACTIVATION_LOG_SOFTMAX1")(input_tensor=t, output_tensor=t, axes=(1,)), {"input_tensor": x})


def test_a_row_with_an_infinity_or_of_minus_infinities_alone_is_nan() -> None:
    inf = math.inf
    x = np.array([[inf, 0], [-inf, -inf], [inf, inf], [inf, -inf], [math.nan, 0], [-inf, 0]], np.float32)
    t = TensorDesc.of(x)
    found = computed(named("ACTIVATION_LOG_SOFTMAX1")(input_tensor=t, output_tensor=t, axes=(1,)), {"input_tensor": x})
    assert found["output_tensor"].view(np.uint32)[:5].tolist() == [[0x7FC00000] * 2] * 5
    assert found["output_tensor"][5].tolist() == [-inf, 0]


# --- activations at infinities ---


@pytest.mark.parametrize(("name", "attributes", "want"), [
    ("SWISH", {}, [-0.0, math.inf]),
    ("SWISH", {"sigmoid_input_scale": -2.0}, [-math.inf, 0.0]),
    ("SWISH", {"sigmoid_input_scale": 0.0}, [math.nan, math.nan]),
    ("HARD_SWISH", {}, [-0.0, math.inf]),
    ("HARD_SWISH", {"alpha": -1.0}, [-math.inf, 0.0]),
    ("HARD_SWISH", {"alpha": 0.0}, [math.nan, math.nan]),
    ("HARD_SWISH", {"beta": math.inf}, [math.nan, math.inf]),
])  # fmt: skip
def test_a_gate_that_closes_has_its_limit(name: str, attributes: dict[str, float], want: list[float]) -> None:
    x = np.array([-math.inf, math.inf], np.float32)
    t = TensorDesc.of(x)
    desc = named(f"ACTIVATION_{name}")(input_tensor=t, output_tensor=t, **attributes)
    np.testing.assert_array_equal(computed(desc, {"input_tensor": x})["output_tensor"].view(np.uint32),
                                  np.array(want, np.float32).view(np.uint32))  # fmt: skip
    agree(desc, {"input_tensor": x})


# --- dynamic quantisation ---


@pytest.mark.parametrize(("row", "scale", "zero_point", "quantized"), [
    ([math.inf, 1, -1], math.inf, 0, [0, 0, 0]),
    ([math.inf, -math.inf, 1], math.inf, 0, [0, 0, 0]),
    ([math.nan, 255, math.nan], 1.0, 0, [0, 255, 0]),
    ([math.nan, math.nan], 1.0, 0, [0, 0]),
    ([2.0**-149, 0.0], 1.0, 0, [0, 0]),
    ([-255, 0, -0.5], 1.0, 255, [0, 255, 255]),
])  # fmt: skip
def test_ranges_that_are_none(row: list[float], scale: float, zero_point: int, quantized: list[int]) -> None:
    x = np.array(row, np.float32)
    t, one = TensorDesc(DataType.UINT8, x.shape), TensorDesc(DataType.UINT8, (1,))
    desc = named("DYNAMIC_QUANTIZE_LINEAR")(
        input_tensor=TensorDesc.of(x), output_tensor=t, output_scale_tensor=TensorDesc(FLOAT32, (1,)),
        output_zero_point_tensor=one,
    )  # fmt: skip
    found = computed(desc, {"input_tensor": x})
    assert found["output_scale_tensor"].tolist() == [scale]
    assert found["output_zero_point_tensor"].tolist() == [zero_point]
    assert found["output_tensor"].tolist() == quantized
    agree(desc, {"input_tensor": x})
