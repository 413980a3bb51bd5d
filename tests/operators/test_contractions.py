"""Sums of products with fused functions: the reference compared with the oracle, on hostile data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from agreement import agree, agree_on, computed, expected
from anydml import DataError, DataType, DescError, Device, FeatureLevel, TensorDesc, check, operators
from anydml.schema.operator import Desc, example_desc
from anydml.tensor import limits

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
    """Elements of one kind, some of them possibly replaced by infinities, NaN and other extremes."""
    with np.errstate(all="ignore"):
        made = hostile_data.values(data_type.name, sizes, rng, kind)
        if rng.random() < 0.2:
            special = hostile_data.values(data_type.name, sizes, rng, "specials")
            made = np.where(rng.random(sizes) < 0.1, special, made)
    return made


def some_sizes(rng: Rng, most: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, most + 1, count))


FACTORS = (*[1.0] * 9, 0.0, -0.0, -1.0, 0.5, 0.1, 3.0, 2.0**-149, 3e38, float("inf"), float("nan"))


# --- cases ---


def gemm(rng: Rng) -> Case:
    data_type, count, kind = pick(rng, FLOATS), int(rng.integers(2, 5)), pick(rng, hostile_data.KINDS)
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
    return hostile_data.values(data_type.name, sizes, rng, pick(rng, hostile_data.KINDS))


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
    kind = pick(rng, hostile_data.KINDS)
    inputs = {
        "input_tensor": hostile_data.values(x_type.name, (batches, groups * read, *inner), rng, kind),
        "filter_tensor": hostile_data.values(f_type.name, (channels, read, *taps), rng, kind),
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
    if "input_zero_point_tensor" in inputs and "filter_zero_point_tensor" in inputs:  # with as many dimensions as the other
        there = inputs["filter_zero_point_tensor"]
        inputs["input_zero_point_tensor"] = inputs["input_zero_point_tensor"].reshape((1,) * there.ndim)
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    return named("CONVOLUTION_INTEGER")(**tensors, output_tensor=output, **attributes), inputs


def quantized_linear_convolution(rng: Rng) -> Case:
    """With scales whose quotients are ties, with saturation, and with any scales."""
    attributes, inputs = windows(rng)
    sizes, usual = attributes.pop("sizes"), rng.random() < 0.8

    def scale(sizes: tuple[int, ...]) -> NDArray[Any]:
        if usual:
            return rng.choice(np.array([0.5, 0.25, 1, 3, 0.1, -0.75], np.float32), sizes)
        made = hostile_data.values("FLOAT32", sizes, rng, pick(rng, hostile_data.KINDS))
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
    k, kind, rank = int(rng.integers(1, 10)), pick(rng, hostile_data.KINDS), int(rng.integers(1, 5))
    of_a, of_b = ((*(1,) * 3, m, 1)[-rank:] if rank > 1 else (1,), (*(1,) * 4, n)[-rank:])
    inputs = {
        "a_tensor": hostile_data.values(a_type.name, (*batch, m, k), rng, kind),
        "b_tensor": hostile_data.values(b_type.name, (*batch, k, n), rng, kind),
        "a_scale_tensor": drawn(rng, real, pick(rng, (of_a, (1,) * rank)), pick(rng, hostile_data.KINDS)),
        "b_scale_tensor": drawn(rng, real, pick(rng, (of_b, (1,) * rank)), pick(rng, hostile_data.KINDS)),
    }
    if rng.random() < 0.6:
        inputs["a_zero_point_tensor"] = zero_point(rng, a_type, pick(rng, (of_a, (1,) * rank)))
    if rng.random() < 0.6:
        inputs["b_zero_point_tensor"] = zero_point(rng, b_type, pick(rng, (of_b, (1,) * rank)))
    if rng.random() < 0.6:
        inputs["bias_tensor"] = drawn(rng, real, (*batch, m, n), pick(rng, hostile_data.KINDS))
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    output = TensorDesc(real, (*batch, m, n))
    return named("MATRIX_MULTIPLY_INTEGER_TO_FLOAT")(**tensors, output_tensor=output), inputs


CASES: dict[str, tuple[Callable[[Rng], Case], int]] = {
    "CONVOLUTION_INTEGER": (convolution_integer, 5_000),
    "GEMM": (gemm, 5_000),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": (matrix_multiply_integer_to_float, 5_000),
    "QUANTIZED_LINEAR_CONVOLUTION": (quantized_linear_convolution, 5_000),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_reference_gives_the_oracles_bits(name: str) -> None:
    print(f"{name}: {agree_on(*CASES[name], seed=41)} outputs")


# --- the formulas, literally ---


def fraction(x: Any) -> Fraction:
    return Fraction(x.item())


def literal_convolution(d: Any, x: NDArray[Any], zx: int, f: NDArray[Any], zf: Sequence[int]) -> NDArray[Any]:
    """The sums of an integer convolution, term by term, as Python's integers."""
    groups, (_, of_group, *taps) = d.group_count, f.shape
    sums = np.zeros(d.output_tensor.sizes, object)
    for there in product(*map(range, sums.shape)):
        n, m, *o = there
        for c, *k in product(range(of_group), *map(range, taps)):
            window = zip(o, k, d.strides, d.dilations, d.start_padding, strict=True)
            at = [i * stride + t * dilation - start for i, t, stride, dilation, start in window]
            if all(0 <= i < size for i, size in zip(at, x.shape[2:], strict=True)):
                read, weight = (n, m // (len(f) // groups) * of_group + c, *at), (m, c, *k)
                sums[there] += (int(x[read]) - zx) * (int(f[weight]) - zf[m])
    return sums


def zero_points(inputs: dict[str, Any], channels: int) -> tuple[int, list[int]]:
    x, f = inputs.get("input_zero_point_tensor"), inputs.get("filter_zero_point_tensor")
    return 0 if x is None else int(x.item()), [0] * channels if f is None else np.resize(f.ravel(), channels).tolist()


def test_the_oracle_convolves_integers_as_the_formula_says() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        desc, inputs = convolution_integer(rng)
        zx, zf = zero_points(inputs, inputs["filter_tensor"].shape[0])
        sums = literal_convolution(desc, inputs["input_tensor"], zx, inputs["filter_tensor"], zf)
        assert expected(desc, inputs)["output_tensor"].tolist() == sums.tolist()


def test_the_oracle_quantises_a_convolution_as_the_formula_says() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        desc, inputs = quantized_linear_convolution(rng)
        d: Any = desc
        channels = inputs["filter_tensor"].shape[0]
        zx, zf = zero_points(inputs, channels)
        sums = literal_convolution(d, inputs["input_tensor"], zx, inputs["filter_tensor"], zf)
        sx, sy = fraction(inputs["input_scale_tensor"]), fraction(inputs["output_scale_tensor"])
        sf = list(map(Fraction, np.resize(inputs["filter_scale_tensor"].ravel(), channels).tolist()))
        zy = inputs["output_zero_point_tensor"].item() if "output_zero_point_tensor" in inputs else 0
        bias = inputs["bias_tensor"].ravel().tolist() if "bias_tensor" in inputs else [0] * channels
        low, high = limits(d.output_tensor.data_type)
        found = expected(desc, inputs)["output_tensor"]
        for at in product(*map(range, sums.shape)):
            m = at[1]
            wanted = round((sums[at] + bias[m]) * sx * sf[m] / sy) + zy
            assert found[at] == min(max(wanted, low), high)


@pytest.mark.parametrize("case", [gemm, matrix_multiply_integer_to_float])
def test_the_oracle_multiplies_matrices_as_the_formula_says(case: Callable[[Rng], Case]) -> None:
    """Of finite numbers whose results are normal: no other number of the type is closer to the exact fraction."""
    rng, compared = np.random.default_rng(7), 0
    while compared < 200:
        desc, inputs = case(rng)
        d: Any = desc
        if not all(np.isfinite(x).all() for x in inputs.values()) or getattr(d, "fused_activation", None) is not None:
            continue
        found = expected(desc, inputs)["output_tensor"]
        alpha, beta = (getattr(d, name, 1.0) for name in ("alpha", "beta"))
        if not math.isfinite(alpha + beta):
            continue
        whole = {name: array.astype(object) for name, array in inputs.items()}
        a, b = (np.vectorize(Fraction, otypes=[object])(whole[f"{name}_tensor"]) for name in "ab")
        a = a - whole.get("a_zero_point_tensor", 0)
        b = b - whole.get("b_zero_point_tensor", 0)
        a = a.swapaxes(-1, -2) if getattr(d, "trans_a", 0) else a
        b = b.swapaxes(-1, -2) if getattr(d, "trans_b", 0) else b
        factors = [np.vectorize(Fraction, otypes=[object])(whole.get(f"{n}_scale_tensor", np.ones(1))) for n in "ab"]
        added = np.vectorize(Fraction, otypes=[object])(whole.get("c_tensor", whole.get("bias_tensor", np.zeros(1))))
        exact = Fraction(alpha) * ((a @ b) * factors[0] * factors[1]) + Fraction(beta) * added
        info = np.finfo(found.dtype)
        exact = exact.reshape(found.shape)
        for at in product(*map(range, found.shape)):
            if info.tiny <= abs(exact[at]) < info.max:
                ulp = Fraction(float(np.spacing(abs(found[at]))))
                error = abs(Fraction(float(found[at])) - exact[at])
                assert error <= ulp / 2
                compared += 1


# --- large products ---


def test_sums_that_int32_lacks_wrap() -> None:
    k = 33_026
    fields = {name: TensorDesc(DataType.UINT8, (1, 1, k), strides=(0, 0, 0)) for name in ("input_tensor", "filter_tensor")}
    desc = named("CONVOLUTION_INTEGER")(
        **fields, output_tensor=TensorDesc(DataType.INT32, (1, 1, 1)), strides=(1,), dilations=(1,), start_padding=(0,),
        end_padding=(0,),
    )  # fmt: skip
    inputs = dict.fromkeys(fields, np.broadcast_to(np.uint8(255), (1, 1, k)))
    assert computed(desc, inputs)["output_tensor"].item() == 255**2 * k - 2**32
    assert agree(desc, inputs) == 1


@pytest.mark.parametrize("bad", [0.0, -0.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["input", "filter", "output"])
def test_a_scale_that_cannot_be_used_is_an_error_before_anything_is_written(name: str, bad: float) -> None:
    operator = named("QUANTIZED_LINEAR_CONVOLUTION")
    (example, *_) = operator.spec.examples
    output = np.full(example.output.shape, 85, np.uint8)
    inputs = example.inputs | {f"{name}_scale_tensor": np.array([bad], np.float32)}
    for device in ("reference", "cpu"):
        bound = Device(device).compile(operator(**example.fields)).bind(**inputs, output_tensor=output)
        with pytest.raises(DataError, match="a scale must not be 0, infinite or NaN"):
            bound.execute()
    assert (output == 85).all()


def test_softmax_of_a_product_is_no_product_s_softmax() -> None:
    """The fused activation has exact sums: 2^24 and 2^24 + 1 would be equal in float32, but differ by 1 here."""
    desc = named("GEMM")(
        a_tensor=TensorDesc(FLOATS[0], (1, 2)), b_tensor=TensorDesc(FLOATS[0], (2, 2)),
        output_tensor=TensorDesc(FLOATS[0], (1, 2)), fused_activation=named("ACTIVATION_SOFTMAX")(),
    )  # fmt: skip
    a, b = np.array([[2.0**24, 1]], np.float32), np.array([[1, 1], [0, 1]], np.float32)
    found = computed(desc, {"a_tensor": a, "b_tensor": b})["output_tensor"]
    assert np.allclose(found, [[1 / (1 + math.e), math.e / (1 + math.e)]])


def test_softmax_is_gemm_s_alone_and_from_6_1_on() -> None:
    softmax, gemm = named("ACTIVATION_SOFTMAX1")(axes=(1,)), example_desc(named("GEMM"))
    check(replace(gemm, fused_activation=softmax), FeatureLevel.FL_6_1)
    with pytest.raises(DescError, match="as an activation, which came with 6_1"):
        check(replace(gemm, fused_activation=softmax), FeatureLevel.FL_6_0)
    with pytest.raises(DescError, match="fused_activation_fusable"):
        check(replace(example_desc(named("CONVOLUTION")), fused_activation=softmax))
