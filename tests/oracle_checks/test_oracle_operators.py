"""The oracle's operators, compared with worked examples, with NumPy and `math`, and with independent computations."""

from __future__ import annotations

import ast
import math
import struct
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
import oracle
from oracle import arithmetic, numbers
from oracle.arithmetic import multiply, negative, sign, subtract
from oracle.functions import exponential, exponential_less_one, gaussian_linear_unit, logistic, softplus
from oracle.numbers import FORMATS, ONE, Format, fraction_bits, half_even, square_root, truncated, wrapped
from oracle.reals import Real

Array = NDArray[Any]
f32, f16 = np.float32, np.float16
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1.0, -1.0, 20.0, -20.0]


def one(operator: str, array: Any, attributes: Mapping[str, Any] | None = None, dtype: Any = f32) -> Array:
    """The output of an operator with one input, and an output with its sizes and type."""
    array = np.asarray(array, dtype)
    result: Array = oracle.compute(
        operator, attributes or {}, {"input_tensor": array}, {"output_tensor": (array.shape, array.dtype)}
    )["output_tensor"]
    return result


def steps_apart(a: Array, b: Array) -> Any:
    """The largest number of steps between elements, in units of the format."""

    def order(x: Array) -> Any:
        bits = x.view(f"i{x.itemsize}").astype(np.int64)
        return np.where(bits < 0, np.iinfo(f"i{x.itemsize}").min - bits, bits)

    return np.abs(order(a) - order(b)).max()


def same_bits(a: Array, b: Array) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def outputs_of(operator: str, attributes: Mapping[str, Any], inputs: Mapping[str, Any], **outputs: Any) -> dict[str, Array]:
    return oracle.compute(operator, attributes, inputs, outputs)


def test_casts_are_those_of_worked_examples_and_of_numpy() -> None:
    def cast(x: Any, from_: Any, to: Any) -> list[Any]:
        array = np.array(x, from_)
        made: list[Any] = outputs_of("CAST", {}, {"input_tensor": array}, output_tensor=(array.shape, np.dtype(to)))[
            "output_tensor"
        ].tolist()
        return made

    assert cast([2.7, -2.7, -0.9, 300, -300, math.nan, math.inf, -math.inf], f32, np.int8) == [
        2,
        -2,
        0,
        127,
        -128,
        0,
        127,
        -128,
    ]
    assert cast([127, 128, 256, -129], np.int32, np.int8) == [127, -128, 0, 127]
    assert cast([-1, 2**63], np.float64, np.uint64) == [0, 2**63]
    assert cast([2**24 + 1, 2**24 + 3, -1], np.int64, f32) == [2**24, 2**24 + 4, -1]
    assert cast([65519, 65520, 1e-8, -0.0], f32, f16) == [65504, math.inf, 0, 0]
    rng = np.random.default_rng(40)
    types: tuple[Any, ...] = (np.int8, np.uint16, np.int32, np.uint64, np.int64)
    for a, b in product(types, repeat=2):
        x = rng.integers(np.iinfo(a).min, np.iinfo(a).max, 50, a, endpoint=True)
        assert cast(x, a, b) == x.astype(b).tolist()


def test_quantised_sums_and_products_are_those_of_fractions() -> None:
    rng = np.random.default_rng(41)
    a, b = (rng.integers(0, 256, 200).astype(np.uint8) for _ in range(2))
    scales = [np.array([s], f32) for s in (0.1, 0.25, 0.3)]
    zero_points = [np.array([z], np.uint8) for z in (128, 3, 64)]
    names = ("a", "b", "output")
    inputs: dict[str, Array] = {f"{n}_scale_tensor": s for n, s in zip(names, scales, strict=True)}
    inputs |= {f"{n}_zero_point_tensor": z for n, z in zip(names, zero_points, strict=True)}
    inputs |= {"a_tensor": a, "b_tensor": b}
    found = outputs_of("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", {}, inputs, output_tensor=((200,), np.dtype(np.uint8)))
    sa, sb, sy = (Fraction(float(s[0])) for s in scales)
    wanted = [
        min(255, max(0, round(((x - 128) * sa + (y - 3) * sb) / sy) + 64)) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert found["output_tensor"].tolist() == wanted
    inputs = {"input_tensor": a, "scale_tensor": np.full(200, 0.1, f32), "zero_point_tensor": np.full(200, 128, np.uint8)}
    real = outputs_of("ELEMENT_WISE_DEQUANTIZE_LINEAR", {}, inputs, output_tensor=((200,), np.dtype(f32)))["output_tensor"]
    same_bits(real, ((a.astype(np.float64) - 128) * np.float64(f32(0.1))).astype(f32))


def test_the_dynamic_quantisation_is_onnxs() -> None:
    """The three cases of ONNX's own test of DynamicQuantizeLinear."""
    one = np.dtype(np.uint8)
    for x, scale, zero_point, quantized in (
        ([0, 2, -3, -2.5, 1.34, 0.5], 0.0196078438, 153, [153, 255, 0, 26, 221, 179]),
        ([-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], 0.0156862754, 255, [191, 121, 172, 96, 42, 0]),
        ([1, 2.1, 1.3, 2.5, 3.34, 4, 1.5, 2.6, 3.9, 4, 3, 2.345], 0.0156862754, 0,
         [64, 134, 83, 159, 213, 255, 96, 166, 249, 255, 191, 149]),
    ):  # fmt: skip
        asked = {"output_tensor": ((len(x),), one), "output_scale_tensor": ((1,), np.dtype(f32))}
        asked["output_zero_point_tensor"] = ((1,), one)
        found = outputs_of("DYNAMIC_QUANTIZE_LINEAR", {}, {"input_tensor": np.array(x, f32)}, **asked)
        assert found["output_scale_tensor"].tolist() == [float(f32(scale))]
        assert found["output_zero_point_tensor"].tolist() == [zero_point]
        assert found["output_tensor"].tolist() == quantized


def test_blocks_are_those_of_worked_examples() -> None:
    """With scales of two rows and two columns; without zero points, they are the middle of an unsigned type."""
    x = np.array([[0, 2, 4, 6], [-1, 1, 3, 5]], f32)
    scales = np.array([[1, 2], [0.5, 1]], f32)
    for name, wanted in (
        (ml_dtypes.int4, [[0, 2, 2, 3], [-2, 2, 3, 5]]),
        (ml_dtypes.uint4, [[8, 10, 10, 11], [6, 10, 11, 13]]),
    ):
        inputs = {"input_tensor": x, "quantization_tensors": [scales]}
        found = outputs_of("QUANTIZE", {}, inputs, output_tensor=((2, 4), np.dtype(name)))["output_tensor"]
        assert found.astype(int).tolist() == wanted
        inputs["input_tensor"] = found
        real = outputs_of("DEQUANTIZE", {}, inputs, output_tensor=((2, 4), np.dtype(f32)))["output_tensor"]
        assert real.tolist() == [[0, 2, 4, 6], [-1, 1, 3, 5]]


def test_images_are_scaled_with_a_term_for_each_channel() -> None:
    x = np.random.default_rng(42).standard_normal((2, 3, 4, 5)).astype(f32)
    attributes = {"scale": 0.5, "bias": (1.0, -2.0, 0.25), "channel_count": 3}
    found = outputs_of("VALUE_SCALE_2D", attributes, {"input_tensor": x}, output_tensor=(x.shape, x.dtype))["output_tensor"]
    wanted = x.astype(np.float64) * 0.5 + np.array([1.0, -2.0, 0.25]).reshape(1, 3, 1, 1)
    same_bits(found, wanted.astype(f32))


def test_nothing_of_anydml_takes_part() -> None:
    for path in Path(oracle.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in (
                    "__future__", "collections", "dataclasses", "fractions", "functools", "itertools", "math", "typing",
                    "gmpy2", "ml_dtypes", "numpy",
                ), path  # fmt: skip


# --- numbers ---


def test_every_float16_comes_back() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    halves = patterns.view(f16)
    back = numbers.stored(numbers.values(halves), halves.shape, f16).view(np.uint16)
    nan = np.isnan(halves)
    assert (back[~nan] == patterns[~nan]).all()
    assert (back[nan] == 0x7E00).all()


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype.itemsize > 1])
def test_bits_are_read_and_rounded_as_everywhere(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(1)
    f = FORMATS[dtype]
    for kind in hostile_data.KINDS:
        array = hostile_data.values(dtype.name.upper(), 300, rng, kind)
        with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaN
            array = array[array == array]
        same_bits(numbers.stored(numbers.values(array), array.shape, dtype), array)
        for value, x in zip(numbers.values(array), array.tolist(), strict=True):
            assert value == x if type(value) is not float else repr(value) == repr(x)
    assert f.infinity == int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
    assert f.nan == int(np.abs(np.array(np.nan, dtype)).view(f"u{dtype.itemsize}"))


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype.itemsize == 1])
def test_eight_bit_floats_are_those_of_ml_dtypes(dtype: np.dtype[Any]) -> None:
    """All elements as float32; and float32 of every exponent, ties and the elements next to them, as elements."""
    every = np.arange(256, dtype=np.uint8).view(dtype)
    wide = every.astype(f32)
    assert np.array_equal(numbers.stored(numbers.values(every), every.shape, f32), wide, equal_nan=True)
    known = np.unique(np.abs(wide[np.isfinite(wide)]))
    ties = ((known[1:].astype(np.float64) + known[:-1]) / 2).astype(f32)
    beyond = [2 * known[-1], 1.01 * known[-1], np.inf, 0.0]
    at = np.concatenate([known, ties, beyond, np.exp2(np.arange(-149, 127, 5))]).astype(f32)
    x = np.concatenate([at, np.nextafter(at, f32(0)), np.nextafter(at, f32(np.inf))])
    for given in (x, -x):
        wanted = given.astype(dtype).view(np.uint8)
        found = numbers.stored(numbers.values(given), given.shape, dtype).view(np.uint8)
        nan = np.isnan(found.view(dtype).astype(f32))  # ml_dtypes keeps the sign of what becomes NaN
        assert np.array_equal(nan, np.isnan(wanted.view(dtype).astype(f32)))
        assert np.array_equal(found[~nan], wanted[~nan])
        assert set(found[nan].tolist()) <= {FORMATS[dtype].nan}


def by_mpfr(x: Fraction, f: Format) -> int:
    """The number rounded by MPFR at the format's precision, with subnormal numbers."""
    context = gmpy2.context(precision=f.precision, emin=f.least + 1, emax=f.top, subnormalize=True)
    rounded = gmpy2.mpfr(gmpy2.mpq(x), 0, context)
    code = "<f" if f.precision == 8 else {16: "<e", 32: "<f", 64: "<d"}[f.width]
    bits = int.from_bytes(struct.pack(code, float(rounded)), "little")
    return bits >> 16 if f.precision == 8 else bits  # BFLOAT16 are the upper halves of float32


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype.itemsize > 1])
def test_fractions_are_rounded_half_to_even(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(2)
    f = FORMATS[dtype]
    least, largest = Fraction(2) ** f.least, Fraction(2) ** f.top - Fraction(2) ** (f.top - f.precision)
    last = Fraction(2) ** (f.top - f.precision)
    assert fraction_bits(least / 2, f) == 0
    assert fraction_bits(least * 3 / 2, f) == 2
    assert fraction_bits(-least / 2 * Fraction(1000001, 1000000), f) == f.sign | 1
    assert fraction_bits(largest + last / 2, f) == f.infinity
    assert fraction_bits(largest + last / 2 - least, f) == f.infinity - 1
    assert fraction_bits(-largest * 2**5000, f) == f.sign | f.infinity
    assert fraction_bits(Fraction(1, 3**5000), f) == 0
    for _ in range(2000):
        exponent = int(rng.integers(f.least - 3, f.top + 2))
        n = int(rng.integers(2**61, 2**62)) >> int(rng.integers(0, 61))
        x = Fraction(n) * Fraction(2) ** (exponent - n.bit_length())
        if rng.random() < 0.5:
            x += Fraction(2) ** (exponent - f.precision - 1) * int(rng.integers(-1, 2))
        if rng.random() < 0.3:
            x /= int(rng.integers(1, 1000))
        if x:
            assert fraction_bits(x, f) == by_mpfr(x, f), x


def test_integers_wrap_saturate_and_truncate() -> None:
    assert [wrapped(x, np.int8) for x in (127, 128, -129, 256, 383)] == [127, -128, 127, 0, 127]
    assert [wrapped(x, np.uint8) for x in (-1, 256)] == [255, 0]
    mpq = gmpy2.mpq
    assert [truncated(x, np.int8) for x in (mpq(-7, 2), mpq(7, 2), mpq(128), mpq(-1000), math.nan, -math.inf, -0.0)] == [
        -3, 3, 127, -128, 0, -128, 0,
    ]  # fmt: skip
    for n in range(-20, 21):
        assert half_even(Fraction(n, 4)) == half_even(mpq(n, 4)) == round(Fraction(n, 4))


def test_a_square_root_rounds_as_the_root_does() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        x = abs(float(hostile_data.values("FLOAT64", 1, rng, "wide")[0])) or 1.0
        assert fraction_bits(square_root(gmpy2.mpq(x)), FORMATS[np.dtype(np.float64)]) == int(
            np.array(math.sqrt(x)).view(np.uint64)
        )
    half = gmpy2.mpq(2**24 + 1)  # a tie in float32
    assert square_root(half * half) == half
    for nearly, bits in ((half * half + gmpy2.mpq(1, 2**900), 0x4B800001), (half * half - gmpy2.mpq(1, 2**900), 0x4B800000)):
        assert fraction_bits(square_root(nearly), FORMATS[np.dtype(f32)]) == bits


# --- reals ---


def test_what_is_nearer_to_a_boundary_than_any_precision_lies_on_it() -> None:
    """1 + 3 * 2**-24 is a tie of float32, which is rounded to the even number above."""
    tie = gmpy2.mpq(2**24 + 3, 2**24)

    def near(exponent: int, sign: int) -> int:
        moved = tie + gmpy2.mpq(sign, 2**exponent)
        return Real(lambda k: k.rising("log", k.rising("exp", k.of(moved)))).rounded(FORMATS[np.dtype(f32)])

    assert [near(exponent, 1) for exponent in (60, 1020, 1030, 1060, 1200, 6000)] == [0x3F800002] * 6
    assert [near(exponent, -1) for exponent in (60, 500, 1000, 1020)] == [0x3F800001] * 4
    assert [near(exponent, -1) for exponent in (1030, 1060, 1200, 6000)] == [0x3F800002] * 4


def test_sums_nearer_to_zero_than_their_terms_are_zero() -> None:
    def rest(x: int) -> float:
        return sign(subtract(ONE, logistic(gmpy2.mpq(x))))

    assert [rest(x) for x in (1, 700, 709)] == [1, 1, 1]
    assert [rest(x) for x in (711, 750, 1000, 10**40)] == [0, 0, 0, 0]
    less, more = (multiply(gmpy2.mpq(-3), logistic(gmpy2.mpq(-x))) for x in (2 * 10**30, 10**30))
    for smaller in (less, exponential(gmpy2.mpq(-(10**31))), softplus(gmpy2.mpq(-(10**31)))):
        assert sign(arithmetic.add(smaller, more)) == sign(arithmetic.add(more, smaller)) == -1
    assert sign(arithmetic.add(negative(more), less)) == 1
    assert sign(arithmetic.add(negative(more), more)) == 0
    gelu = gaussian_linear_unit(gmpy2.mpq(-(10**20)))  # e**(-10**40 / 2)
    assert sign(arithmetic.add(gelu, exponential(gmpy2.mpq(-(10**39))))) == 1
    assert sign(arithmetic.add(gelu, exponential(gmpy2.mpq(-(10**41))))) == -1


def test_fused_activations_next_to_a_tie() -> None:
    """The activation is of the unrounded sum. 2**24 + 1 is a tie, and GELU and SOFTPLUS are closer to it than 2**-1024; for 88
    + 2**-17, the part that SOFTPLUS adds decides."""

    def add1(a: float, b: float, name: str, **attributes: float) -> float:
        arrays = {"a_tensor": np.array([a], f32), "b_tensor": np.array([b], f32)}
        fused = {"fused_activation": (f"ACTIVATION_{name}", attributes)}
        return float(oracle.compute("ELEMENT_WISE_ADD1", fused, arrays, {"output_tensor": ((1,), f32)})["output_tensor"][0])

    assert add1(2**24, 1, "GELU") == 2**24
    assert add1(2**24 + 2, 1, "GELU") == 2**24 + 4
    assert add1(2**24, 1, "SOFTPLUS", steepness=1.0) == 2**24
    assert add1(2**24, 1, "LINEAR", alpha=3.0, beta=0.0) == 3 * 2**24 + 4  # 3 (2**24 + 1), rounded once
    step = 2.0**-17  # the distance of float32 numbers between 64 and 128
    assert add1(88, step / 2, "IDENTITY") == 88
    assert add1(88, step / 2, "SOFTPLUS", steepness=1.0) == 88 + step
    assert add1(88, step / 2, "GELU") == 88  # smaller by 2**-5592: a tie
    # smaller by 2**-292: below the tie, which would round to 2 steps
    assert add1(20 + 2.0**-19, 2.0**-20, "GELU") == 20 + 2.0**-19
    # the intermediate sum does not overflow
    assert add1(3e38, 3e38, "HARD_SIGMOID", alpha=1e-39, beta=0.0) == pytest.approx(0.6)
    assert add1(3e38, -3e38, "RELU") == 0
    clip = {"fused_activation": ("ELEMENT_WISE_CLIP", {"min": -0.5, "max": 2.0**24 + 4, "scale_bias": (1.0, 1.0)})}
    arrays = {"a_tensor": np.array([2**24, -3, 2**25], f32), "b_tensor": np.array([2, 1, 1], f32)}
    clipped = oracle.compute("ELEMENT_WISE_ADD1", clip, arrays, {"output_tensor": ((3,), f32)})["output_tensor"]
    assert clipped.tolist() == [2**24 + 4, -0.5, 2**24 + 4]  # 2**24 + 3 is a tie


# --- activations ---

GELU_LIKE = {"alpha": 1.5, "beta": 0.25, "gamma": 1.25, "bias": 0.25, "threshold": 0.5, "steepness": 2.0}
GELU_LIKE["sigmoid_input_scale"] = 0.5


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


IN_FLOATS: dict[str, Callable[[float], float]] = {
    "IDENTITY": lambda x: x,
    "LINEAR": lambda x: 1.5 * x + 0.25,
    "RELU": lambda x: max(0, x),
    "LEAKY_RELU": lambda x: x if x >= 0 else 1.5 * x,
    "THRESHOLDED_RELU": lambda x: x if x > 1.5 else 0,
    "ELU": lambda x: x if x >= 0 else 1.5 * math.expm1(x),
    "CELU": lambda x: max(0, x) + min(0, 1.5 * math.expm1(x / 1.5)),
    "SCALED_ELU": lambda x: 1.25 * x if x > 0 else 1.25 * (1.5 * math.expm1(x)),
    "SIGMOID": sigmoid,
    "HARD_SIGMOID": lambda x: max(0, min(1.5 * x + 0.25, 1)),
    "TANH": math.tanh,
    "SCALED_TANH": lambda x: 1.5 * math.tanh(0.25 * x),
    "SOFTPLUS": lambda x: (max(2 * x, 0) + math.log1p(math.exp(-abs(2 * x)))) / 2,
    "PARAMETRIC_SOFTPLUS": lambda x: 1.5 * math.log1p(math.exp(0.25 * x)),
    "SOFTSIGN": lambda x: x / (1 + abs(x)),
    "SHRINK": lambda x: x - 0.25 if x > 0.5 else x + 0.25 if x < -0.5 else 0,
    "GELU": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "SWISH": lambda x: x * sigmoid(0.5 * x),
    "HARD_SWISH": lambda x: x * max(0, min(1.5 * x + 0.25, 1)),
}


@pytest.mark.parametrize("dtype", [f32, f16])
@pytest.mark.parametrize("name", oracle.activation.ACTIVATIONS)
def test_activations_are_those_of_math(name: str, dtype: Any) -> None:
    x = (np.random.default_rng(4).standard_normal(300) * 4).astype(dtype)
    assert name in IN_FLOATS, "IN_FLOATS needs a line for each activation of the oracle: the same formula in floats"
    wanted = np.array([IN_FLOATS[name](v) for v in x.tolist()]).astype(dtype)
    assert steps_apart(one(f"ACTIVATION_{name}", x, GELU_LIKE, dtype), wanted) <= 1


NAN, INF = math.nan, math.inf
TINY, HUGE = float(f32(1e-45)), float(f32(3e38))
ON_SPECIALS: dict[str, list[float]] = {  # in the order of SPECIAL
    "LINEAR": [NAN, INF, -INF, 0.25, 0.25, 0.25, 0.25, INF, -INF, 1.75, -1.25, 30.25, -29.75],
    "RELU": [NAN, INF, 0.0, 0.0, 0.0, TINY, 0.0, HUGE, 0.0, 1, 0.0, 20, 0.0],
    "LEAKY_RELU": [NAN, INF, -INF, 0.0, -0.0, TINY, -2 * TINY, HUGE, -INF, 1, -1.5, 20, -30],
    "THRESHOLDED_RELU": [NAN, INF, 0.0, 0.0, 0.0, 0.0, 0.0, HUGE, 0.0, 0.0, 0.0, 20, 0.0],
    "ELU": [NAN, INF, -1.5, 0.0, -0.0, TINY, -TINY, HUGE, -1.5, 1, -0.9481808382428365, 20, -1.5],
    "CELU": [NAN, INF, -1.5, 0.0, 0.0, TINY, -TINY, HUGE, -1.5, 1, -0.7298743214542671, 20, -1.4999975717653],
    "SCALED_ELU": [NAN, INF, -1.875, 0.0, 0.0, TINY, -2 * TINY, INF, -1.875, 1.25, -1.1852260478035457, 25, -1.875],
    "SIGMOID": [NAN, 1, 0.0, 0.5, 0.5, 0.5, 0.5, 1, 0.0, 0.7310585786300049, 0.2689414213699951, 1, 2.061153618190204e-09],
    "HARD_SIGMOID": [NAN, 1, 0.0, 0.25, 0.25, 0.25, 0.25, 1, 0.0, 1, 0.0, 1, 0.0],
    "TANH": [NAN, 1, -1, 0.0, -0.0, TINY, -TINY, 1, -1, 0.7615941559557649, -0.7615941559557649, 1, -1],
    "SOFTPLUS": [NAN, INF, 0.0, *[math.log(2) / 2] * 4, HUGE, 0.0, 1.0634640055214863, 0.06346400552148632, 20, 2.124177e-18],
    "SOFTSIGN": [NAN, 1, -1, 0.0, -0.0, TINY, -TINY, 1, -1, 0.5, -0.5, 20 / 21, -20 / 21],
    "SHRINK": [NAN, INF, -INF, 0.0, 0.0, 0.0, 0.0, HUGE, -HUGE, 0.75, -0.75, 19.75, -19.75],
    "GELU": [NAN, INF, -0.0, 0.0, -0.0, TINY, -0.0, HUGE, -0.0, 0.8413447460685429, -0.15865525393145707, 20, -0.0],
    "SWISH": [NAN, INF, -0.0, 0.0, -0.0, TINY, -0.0, HUGE, -0.0, 0.62245933120, -0.377540668, 19.9990920, -9.079574e-04],
    "HARD_SWISH": [NAN, INF, -0.0, 0.0, -0.0, 0.0, -0.0, HUGE, -0.0, 1, -0.0, 20, -0.0],
}  # fmt: skip


@pytest.mark.parametrize("name", ON_SPECIALS)
def test_activations_at_the_ends(name: str) -> None:
    same = np.array(ON_SPECIALS[name], f32)
    result = one(f"ACTIVATION_{name}", SPECIAL, GELU_LIKE)
    nan = np.isnan(same)
    assert (result.view(np.uint32)[nan] == 0x7FC00000).all()
    assert (np.signbit(result) == np.signbit(same)).all()
    np.testing.assert_allclose(result, same, rtol=1e-6, atol=0)
    assert (result[same == 0] == 0).all()


def test_attributes_at_the_ends() -> None:
    def at(name: str, x: float, **attributes: float) -> float:
        return float(one(f"ACTIVATION_{name}", [x], attributes)[0])

    assert math.isnan(at("LINEAR", INF, alpha=0.0, beta=1.0))
    assert math.isnan(at("CELU", 1.0, alpha=0.0))
    assert at("SOFTPLUS", 1.0, steepness=0.0) == INF
    assert at("SOFTPLUS", 1.0, steepness=-1.0) == pytest.approx(-math.log1p(math.exp(-1)))
    assert at("CELU", -1.0, alpha=-2.0) == pytest.approx(-2 * math.expm1(0.5))
    assert at("CELU", 1e10, alpha=-2.0) == f32(1e10)
    assert math.copysign(1, at("ELU", -1.0, alpha=0.0)) == -1
    assert math.isnan(at("SWISH", -INF, sigmoid_input_scale=0.0))
    assert math.copysign(1, at("SWISH", INF, sigmoid_input_scale=-1.0)) == 1
    assert at("SWISH", INF, sigmoid_input_scale=-1.0) == 0


def test_activations_that_take_two_tensors_or_integers() -> None:
    x = np.array([-2, -0.0, 3, NAN, NAN], f32)
    slope = np.array([0.5, 7, 7, 1, NAN], f32)
    outputs = {"output_tensor": (x.shape, f32)}
    result = oracle.compute("ACTIVATION_PARAMETERIZED_RELU", {}, {"input_tensor": x, "slope_tensor": slope}, outputs)
    same_bits(result["output_tensor"], np.array([-1, -0.0, 3, NAN, NAN], f32))
    integers: dict[str, Any] = {"input_tensor": np.array([-100, 5], np.int8), "slope_tensor": np.array([3, 3], np.int8)}
    wrapping = oracle.compute("ACTIVATION_PARAMETERIZED_RELU", {}, integers, {"output_tensor": ((2,), np.int8)})
    assert wrapping["output_tensor"].tolist() == [-44, 5]
    payload = np.array([0xFFC12345, 0x3F800000, 0x3F800000], np.uint32).view(f32)
    grad = {"input_tensor": np.array([1, -0.0, NAN], f32), "input_gradient_tensor": payload}
    result = oracle.compute("ACTIVATION_RELU_GRAD", {}, grad, {"output_gradient_tensor": ((3,), f32)})
    assert result["output_gradient_tensor"].view(np.uint32).tolist() == [0xFFC12345, 0, 0]
    assert one("ACTIVATION_RELU", [-3, 4], dtype=np.int8).tolist() == [0, 4]
    shrink = {"bias": 0.5, "threshold": 1.0}
    assert one("ACTIVATION_SHRINK", [5, -5, 1], shrink, np.int32).tolist() == [4, -4, 0]
    moved = np.array([0xFF812345], np.uint32)
    assert one("ACTIVATION_IDENTITY", moved.view(f32)).view(np.uint32) == moved


# --- element-wise ---


def add(a: Array, b: Array) -> Array:
    outputs = {"output_tensor": (a.shape, a.dtype)}
    result: Array = oracle.compute("ELEMENT_WISE_ADD", {}, {"a_tensor": a, "b_tensor": b}, outputs)["output_tensor"]
    return result


@pytest.mark.parametrize("kind", hostile_data.KINDS)
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8", "UINT32", "INT64"])
def test_sums_are_those_of_numpy(data_type: str, kind: str) -> None:
    """IEEE 754 rounds one addition correctly, so NumPy's sum is right."""
    rng = np.random.default_rng(5)
    a, b = (hostile_data.values(data_type, 300, rng, kind) for _ in range(2))
    with np.errstate(all="ignore"):
        wanted = a + b
    wanted = np.where(wanted == wanted, wanted, np.array(NAN).astype(f32)).astype(a.dtype) if a.dtype.kind == "f" else wanted
    same_bits(add(a, b), wanted)


def test_exponential() -> None:
    x = np.concatenate([np.random.default_rng(6).standard_normal(500) * 30, [88.72, 88.73, -103.9, -104, -87.5]]).astype(f32)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(x.astype(np.float64)).astype(f32)
    same_bits(one("ELEMENT_WISE_EXP", x), wanted)
    ends = one("ELEMENT_WISE_EXP", [NAN, INF, -INF, 0.0, -0.0, 3e38, -3e38])
    same_bits(ends, np.array([NAN, INF, 0.0, 1, 1, INF, 0.0], f32))
    scaled = one("ELEMENT_WISE_EXP", [1e30, 2, -INF], {"scale_bias": (1e-30, -1.0)})
    np.testing.assert_allclose(scaled, [math.exp(float(f32(1e30)) * 1e-30 - 1), math.exp(-1), 0], rtol=1e-6)
    assert np.isnan(one("ELEMENT_WISE_EXP", [INF], {"scale_bias": (0.0, 1.0)}))


@pytest.mark.parametrize(("operator", "function"), [("ELEMENT_WISE_EXP", "exp"), ("ACTIVATION_TANH", "tanh")])
def test_functions_of_float16_are_mpfrs(operator: str, function: str) -> None:
    """Compared with MPFR, which rounds once to 11 bits, also for subnormal numbers."""
    x = np.arange(3, 0x7C00, 29, dtype=np.uint16).view(f16)
    x = np.concatenate([x, -x])
    context = gmpy2.context(precision=11, emin=-23, emax=16, subnormalize=True)
    wanted = [float(getattr(context, function)(gmpy2.mpfr(v))) for v in x.tolist()]
    same_bits(one(operator, x, dtype=f16), np.array(wanted).astype(f16))


def test_angles() -> None:
    rng = np.random.default_rng(7)
    ends = [*SPECIAL, -NAN]
    pairs = [*product(ends, ends), *(rng.standard_normal((200, 2)).tolist())]
    y, x = np.array(pairs, f32).T
    with np.errstate(all="ignore"):
        wanted = np.array([math.atan2(a, b) for a, b in zip(y.tolist(), x.tolist(), strict=True)]).astype(f32)
    wanted = np.where(np.isnan(wanted), np.abs(wanted), wanted)
    outputs = {"output_tensor": (y.shape, f32)}
    result = oracle.compute("ELEMENT_WISE_ATAN_YX", {}, {"a_tensor": y, "b_tensor": x}, outputs)["output_tensor"]
    same_bits(result, wanted)


# --- rows ---


def test_hardmax() -> None:
    x = np.array([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]], f32)
    for axes, wanted in (
        ((1,), [[[1, 0], [0, 1]], [[1, 1], [0, 0]]]),
        ((0,), [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]),
        ((0, 2), [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]),
    ):
        assert one("ACTIVATION_HARDMAX1", x, {"axes": axes}).tolist() == wanted
    assert one("ACTIVATION_HARDMAX", [[1, 2, 2], [0.0, -0.0, 0.0], [1, NAN, INF]]).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 2), (2, 0, 1)])
def test_softmax_in_floats(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(8).standard_normal((3, 4, 5)).astype(f32) * 5
    e = np.exp(x.astype(np.float64) - x.max(axes, keepdims=True))
    s = e.sum(axes, keepdims=True)
    assert steps_apart(one("ACTIVATION_SOFTMAX1", x, {"axes": axes}), (e / s).astype(f32)) <= 1
    logarithm = (x.astype(np.float64) - x.max(axes, keepdims=True) - np.log(s)).astype(f32)
    assert steps_apart(one("ACTIVATION_LOG_SOFTMAX1", x, {"axes": axes}), logarithm) <= 1


def test_softmax_at_the_ends() -> None:
    x = [[0, -INF, 0, 0], [INF, 0, 0, 0], [-INF, -INF, -INF, -INF], [NAN, 0, 0, 0], [-3e38, 3e38, 1, 0], [7, -INF, -INF, -INF]]
    third = float(f32(1) / f32(3))
    wanted = [[third, 0, third, third], [NAN] * 4, [NAN] * 4, [NAN] * 4, [0, 1, 0, 0], [1, 0, 0, 0]]
    same_bits(one("ACTIVATION_SOFTMAX", x), np.array(wanted, f32))
    minus = float(f32(-math.log(3)))
    wanted = [[minus, -INF, minus, minus], [NAN] * 4, [NAN] * 4, [NAN] * 4, [-INF, -0.0, -3e38, -3e38], [0, -INF, -INF, -INF]]
    same_bits(one("ACTIVATION_LOG_SOFTMAX", x), np.array(wanted, f32))


# --- reductions ---


def reduced(function: str, array: Any, axes: tuple[int, ...], dtype: Any = f32, to: Any = None) -> Array:
    array = np.asarray(array, dtype)
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(array.shape))
    attributes = {"function": function, "axes": axes}
    result: Array = oracle.compute("REDUCE", attributes, {"input_tensor": array}, {"output_tensor": (sizes, to or dtype)})[
        "output_tensor"
    ]
    return result


def test_worked_reductions() -> None:
    x = [[1, 2, 3], [3, 0, 4], [2, 4, 2]]
    assert reduced("SUM", x, (0,)).tolist() == [[6, 6, 9]]
    assert reduced("SUM", x, (1,)).tolist() == [[6], [7], [8]]
    assert reduced("SUM", x, (0, 1)).tolist() == [[21]]
    y = [[1, 2, 3], [3, 0, 4], [2, 5, 2]]
    assert reduced("ARGMAX", y, (0,), to=np.uint32).tolist() == [[1, 2, 1]]
    assert reduced("ARGMAX", y, (1,), to=np.uint32).tolist() == [[2], [2], [1]]
    assert reduced("ARGMAX", y, (1, 0), to=np.int64).tolist() == [[7]]
    on_123 = {"AVERAGE": 2, "L1": 6, "L2": 3.7416574, "LOG_SUM": 1.7917595, "LOG_SUM_EXP": 3.4076060, "SUM_SQUARE": 14}
    for function, wanted in {**on_123, "MULTIPLY": 6, "MAX": 3, "MIN": 1}.items():
        assert reduced(function, [1, 2, 3], (0,)) == f32(wanted)


def test_reductions_at_the_ends() -> None:
    def of(function: str, *row: float) -> float:
        return float(reduced(function, row, (0,))[0])

    assert math.copysign(1, of("SUM", -0.0, -0.0)) == -1
    assert math.copysign(1, of("SUM", -0.0, 0.0)) == 1
    assert math.copysign(1, of("SUM", 1, -1)) == 1
    assert math.copysign(1, of("AVERAGE", -0.0, -0.0)) == -1
    assert math.copysign(1, of("L1", -0.0)) == 1
    assert math.copysign(1, of("MULTIPLY", -0.0, 5, -1)) == 1
    assert math.copysign(1, of("MAX", -0.0, 0.0, -0.0)) == 1
    assert math.copysign(1, of("MIN", 0.0, -0.0, 0.0)) == -1
    assert math.isnan(of("SUM", INF, -INF, 1))
    assert math.isnan(of("MULTIPLY", INF, 0, 2))
    assert math.isnan(of("MAX", NAN, INF))
    assert of("MULTIPLY", 1e30, 1e30, 1e-30, 1e-30) == pytest.approx(1)  # intermediate products do not overflow
    assert of("L2", 3e38) == HUGE
    assert of("L2", 3e30, 4e30) == pytest.approx(5e30)
    assert of("AVERAGE", 3e38, 3e38) == HUGE
    assert of("SUM", 1e30, 1, -1e30) == 1
    assert math.isnan(of("LOG_SUM", -1))
    assert of("LOG_SUM", 1, -1) == -INF
    assert of("LOG_SUM", 1, -1, INF) == INF
    assert math.copysign(1, of("LOG_SUM", 0.25, 0.75)) == 1
    assert of("LOG_SUM_EXP", -INF, -INF) == -INF
    assert of("LOG_SUM_EXP", -INF, INF) == INF
    assert math.isnan(of("LOG_SUM_EXP", NAN, INF))
    assert of("LOG_SUM_EXP", 7, -INF) == 7
    assert math.copysign(1, of("LOG_SUM_EXP", -0.0, -INF)) == 1
    assert of("LOG_SUM_EXP", 0, -3e38) == 0
    assert of("LOG_SUM_EXP", 3e38, 3e38) == HUGE
    assert of("LOG_SUM_EXP", -0.6931472, -0.6931472) == pytest.approx(-1.90465e-09, rel=1e-4)
    assert reduced("ARGMAX", [1, NAN, INF, NAN], (0,), to=np.uint32) == 1
    assert reduced("ARGMIN", [0.0, -0.0], (0,), to=np.uint32) == 0
    assert reduced("L1", [-128], (0,), np.int8) == -128
    assert reduced("SUM_SQUARE", [2**16, 3], (0,), np.int32) == 9
    assert reduced("MULTIPLY", [2**31, 2, 5], (0,), np.uint32) == 0
    assert reduced("MIN", [-5, 3], (0,), np.int64) == -5


@pytest.mark.parametrize("kind", ["ordinary", "ties", "cancelling", "wide", "small"])
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_reductions_in_fractions(data_type: str, kind: str) -> None:
    """Compared with Python's fractions, element by element."""
    array = hostile_data.values(data_type, (4, 30, 3), np.random.default_rng(9), kind)
    f = FORMATS[array.dtype]
    roads: list[tuple[str, Callable[[list[Fraction]], Any]]] = [
        ("SUM", sum),
        ("AVERAGE", lambda row: sum(row) / len(row)),
        ("L1", lambda row: sum(map(abs, row))),
        ("SUM_SQUARE", lambda row: sum(x * x for x in row)),
        ("MULTIPLY", math.prod),
        ("MAX", max),
        ("MIN", min),
    ]
    for function, wanted in roads:
        result = reduced(function, array, (1,), array.dtype)
        for i, j in product(range(4), range(3)):
            exact = wanted([Fraction(x) for x in array[i, :, j].tolist()])
            bits = int(result[i, 0, j].view(f"u{array.itemsize}"))
            assert (bits == fraction_bits(exact, f)) if exact else bits & ~f.sign == 0, function


# --- convolution ---


def convolved(x: Any, filters: Any, sizes: tuple[int, ...], bias: Any = None, dtype: Any = f32, **attributes: Any) -> Array:
    x, filters = np.asarray(x, dtype), np.asarray(filters, dtype)
    rank = x.ndim - 2
    given: dict[str, Any] = {"mode": "CROSS_CORRELATION", "direction": "FORWARD", "group_count": 1, "fused_activation": None}
    for name, default in (("strides", 1), ("dilations", 1), ("start_padding", 0), ("end_padding", 0), ("output_padding", 0)):
        given[name] = (default,) * rank
    inputs = {"input_tensor": x, "filter_tensor": filters}
    if bias is not None:
        inputs["bias_tensor"] = np.asarray(bias, dtype)
    result: Array = oracle.compute("CONVOLUTION", {**given, **attributes}, inputs, {"output_tensor": (sizes, x.dtype)})[
        "output_tensor"
    ]
    return result


def test_worked_convolutions() -> None:
    nine = np.arange(1, 10).reshape(1, 1, 3, 3)
    four = np.arange(1, 5).reshape(1, 1, 2, 2)
    assert convolved(nine, four * 0 + 0.5, (1, 1, 2, 2)).ravel().tolist() == [6, 8, 12, 14]
    assert convolved(np.ones((1, 1, 3, 3, 3)), np.full((1, 1, 2, 2, 2), 0.5), (1, 1, 2, 2, 2)).ravel().tolist() == [4] * 8
    assert convolved(nine, four, (1, 1, 2, 2)).ravel().tolist() == [37, 47, 67, 77]
    assert convolved(nine, four, (1, 1, 2, 2), mode="CONVOLUTION").ravel().tolist() == [23, 33, 53, 63]
    backward = {"direction": "BACKWARD"}
    assert convolved(four, four, (1, 1, 3, 3), **backward).ravel().tolist() == [1, 4, 4, 6, 20, 16, 9, 24, 16]
    assert convolved(four, four, (1, 1, 3, 3), **backward, mode="CONVOLUTION").ravel().tolist() == [
        4, 11, 6, 14, 30, 14, 6, 11, 4,
    ]  # fmt: skip
    wanted = [[1, 2, 2, 4, 0], [3, 4, 6, 8, 0], [3, 6, 4, 8, 0], [9, 12, 12, 16, 0], [0] * 5]
    assert convolved(four, four, (1, 1, 5, 5), **backward, strides=(2, 2))[0, 0].tolist() == wanted
    line = np.array([[[1, 2, 3]]])
    padded: dict[str, Any] = dict(direction="BACKWARD", strides=(2,), start_padding=(1,), end_padding=(1,))
    assert convolved(line, line, (1, 1, 5), **padded).ravel().tolist() == [2, 5, 4, 9, 6]
    assert convolved(line, line, (1, 1, 6), **padded).ravel().tolist() == [2, 5, 4, 9, 6, 9]
    assert convolved(line, line, (1, 1, 6), **padded, output_padding=(1,)).ravel().tolist() == [2, 5, 4, 9, 6, 0]
    fused = ("ACTIVATION_RELU", dict[str, Any]())
    last = convolved(line, line, (1, 1, 6), [[[-3]]], **padded, output_padding=(1,), fused_activation=fused)
    assert last.ravel().tolist() == [0, 2, 1, 6, 3, 0]


def test_what_lies_in_padding_is_no_term() -> None:
    filters = [[[INF, 1, 1]]]
    assert convolved([[[1, 2]]], filters, (1, 1, 2), start_padding=(1,), end_padding=(1,)).ravel().tolist() == [3, INF]
    assert convolved([[[-0.0]]], [[[1.0]]], (1, 1, 1)).view(np.uint32) == 0x80000000
    assert math.isnan(convolved([[[0.0]]], [[[INF]]], (1, 1, 1)).item())


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"mode": "CONVOLUTION", "strides": (2, 1), "dilations": (1, 2), "start_padding": (1, 3), "end_padding": (2, 0)},
    {"group_count": 2, "output_padding": (1, 0), "strides": (3, 2), "start_padding": (2, 0), "end_padding": (2, 2)},
]


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("kind", ["ordinary", "ties", "cancelling", "wide", "small"])
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_convolutions_in_fractions(case: int, kind: str, direction: str) -> None:
    """Compared with a sum by input: every pair of an input element and a filter element adds to one output."""
    rng = np.random.default_rng(10)
    attributes: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    attributes = {**attributes, "output_padding": (0, 0), "group_count": 1, "mode": "CROSS_CORRELATION", **CONVOLUTIONS[case]}
    groups = attributes["group_count"]
    backward = direction == "BACKWARD"
    x = hostile_data.values("FLOAT32", (2, 2 * groups, 4, 5), rng, kind)
    f = hostile_data.values("FLOAT32", (2 * groups, 3, 2, 3) if backward else (3 * groups, 2, 2, 3), rng, kind)
    bias = hostile_data.values("FLOAT32", (1, 3 * groups, 1, 1), rng, kind)
    strides, dilations, start, end, extra = (
        attributes[name] for name in ("strides", "dilations", "start_padding", "end_padding", "output_padding")
    )
    computed = []
    for i, taps, s, d, p, q in zip(x.shape[2:], f.shape[2:], strides, dilations, start, end, strict=True):
        span = 1 + (taps - 1) * d
        computed.append((i - 1) * s + span - p - q if backward else 1 + (i + p + q - span) // s)
    sums: dict[tuple[int, ...], Fraction] = {}
    for n, c, *i in product(*map(range, x.shape)):
        group, there = c // 2, (n, c, *i)
        for m, *k in product(range(3), *map(range, f.shape[2:])):
            flipped = [size - 1 - t for t, size in zip(k, f.shape[2:], strict=True)]
            tap = tuple(flipped) if attributes["mode"] == "CONVOLUTION" else tuple(k)
            in_filter = (c, m, *tap) if backward else (group * 3 + m, c % 2, *tap)
            at: list[int] = []
            for a, b, s, d, p in zip(i, k, strides, dilations, start, strict=True):
                if backward:
                    at.append(a * s + b * d - p)
                else:
                    o, rest = divmod(a + p - b * d, s)
                    at.append(-1 if rest else o)
            if all(0 <= o < size for o, size in zip(at, computed, strict=True)):
                where = (n, group * 3 + m, *at)
                sums[where] = sums.get(where, Fraction(0)) + Fraction(x[there].item()) * Fraction(f[in_filter].item())
    sizes = (2, 3 * groups, *(o + e for o, e in zip(computed, extra, strict=True)))
    result = convolved(x, f, sizes, bias, direction=direction, **attributes).view(np.uint32)
    form = FORMATS[np.dtype(f32)]
    for where in product(*map(range, sizes)):
        exact = sums.get(where, Fraction(0)) + Fraction(float(bias[0, where[1], 0, 0]))
        bits = int(result[where])
        assert bits == fraction_bits(exact, form) if exact else bits & ~form.sign == 0


# --- moving ---


def test_join_and_split() -> None:
    payload = np.array([0x7F812345, 0x80000000], np.uint32).view(f32).reshape(1, 2)
    joined = oracle.compute(
        "JOIN", {"axis": 1}, {"input_tensors": [payload, payload[:, :1]]}, {"output_tensor": ((1, 3), f32)}
    )["output_tensor"]
    assert joined.view(np.uint32).tolist() == [[0x7F812345, 0x80000000, 0x7F812345]]
    whole = np.arange(1, 13, dtype=np.int16).reshape(1, 1, 6, 2)
    outputs = {"output_tensors": [((1, 1, rows, 2), np.int16) for rows in (2, 1, 3)]}
    parts = oracle.compute("SPLIT", {"axis": 2}, {"input_tensor": whole}, outputs)["output_tensors"]
    assert [part.ravel().tolist() for part in parts] == [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11, 12]]
    back = oracle.compute("JOIN", {"axis": 2}, {"input_tensors": parts}, {"output_tensor": (whole.shape, np.int16)})
    same_bits(back["output_tensor"], whole)


GATHERS: list[tuple[int, int, Any, Any, Any]] = [
    (0, 1, [11, 12, 13, 14], [3, 1, 3, 0, 2], [14, 12, 14, 11, 13]),
    (0, 1, [[1, 2], [3, 4], [5, 6]], [[0, 1, 1, 2]], [[1, 2], [3, 4], [3, 4], [5, 6]]),
    (1, 1, [[1, 2], [3, 4], [5, 6]], [[1, 0]], [[2, 1], [4, 3], [6, 5]]),
    (2, 2, [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]], [[[0, 2]]], [[[1, 3]], [[4, 6]], [[7, 9]]]),
    (1, 2, [[[1, 2], [3, 4], [5, 6]]], [[[0, 1], [1, 2]]], [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]),
    (0, 0, [[1, 2], [3, 4]], [[-1]], [[3, 4]]),
]


@pytest.mark.parametrize(("axis", "dimensions", "source", "indices", "wanted"), GATHERS)
def test_gather(axis: int, dimensions: int, source: Any, indices: Any, wanted: Any) -> None:
    inputs: dict[str, Any] = {"input_tensor": np.array(source, f32), "indices_tensor": np.array(indices, np.int64)}
    outputs = {"output_tensor": (np.shape(wanted), f32)}
    attributes = {"axis": axis, "index_dimensions": dimensions}
    assert oracle.compute("GATHER", attributes, inputs, outputs)["output_tensor"].tolist() == wanted
    for wrong in (-5, 4):
        inputs["indices_tensor"].flat[0] = wrong
        with pytest.raises(IndexError):
            oracle.compute("GATHER", attributes, inputs, outputs)


PADDED = {
    "CONSTANT": "9999999999 9912349999 9956789999 9912349999 9956789999 9999999999 9999999999 9999999999",
    "EDGE": "1112344444 1112344444 5556788888 1112344444 5556788888 5556788888 5556788888 5556788888",
    "REFLECTION": "7656787656 3212343212 7656787656 3212343212 7656787656 3212343212 7656787656 3212343212",
    "SYMMETRIC": "2112344321 2112344321 6556788765 2112344321 6556788765 6556788765 2112344321 6556788765",
    "WRAP": "7856785678 3412341234 7856785678 3412341234 7856785678 3412341234 7856785678 3412341234",
}


@pytest.mark.parametrize("dtype", [f16, np.float64, np.uint8, np.int32])
@pytest.mark.parametrize("mode", PADDED)
def test_padding(mode: str, dtype: Any) -> None:
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]] * 2, dtype).reshape(1, 1, 4, 4)
    attributes = {"padding_mode": mode, "padding_value": 9.75 if dtype in (np.uint8, np.int32) else 9.0}
    attributes |= {"start_padding": (0, 0, 1, 2), "end_padding": (0, 0, 3, 4)}
    result = oracle.compute("PADDING", attributes, {"input_tensor": x}, {"output_tensor": ((1, 1, 8, 10), dtype)})
    assert " ".join("".join(str(int(v)) for v in row) for row in result["output_tensor"][0, 0]) == PADDED[mode]


def test_padding_values_of_other_types() -> None:
    def value(x: float, dtype: Any, operator: str = "PADDING") -> Any:
        attributes = {"padding_mode": "CONSTANT", "padding_value": x, "start_padding": (1,), "end_padding": (0,)}
        outputs = {"output_tensor": ((2,), dtype)}
        return oracle.compute(operator, attributes, {"input_tensor": np.zeros(1, dtype)}, outputs)["output_tensor"][0]

    assert value(10.6, np.int8) == 10
    assert value(-10.6, np.int8) == -10
    assert value(1e30, np.uint64) == 2**64 - 1
    assert value(NAN, np.int32) == 0
    assert value(2049.0, f16) == 2048
    assert value(-7, np.int64, "PADDING1") == -7
    assert math.copysign(1, value(-0.0, f32)) == -1


# --- order ---


def test_top_k() -> None:
    def top(x: Any, k: int, axis: int = 1, direction: str | None = None, dtype: Any = f32) -> tuple[Any, Any]:
        x = np.asarray(x, dtype)
        sizes = tuple(k if a == axis else size for a, size in enumerate(x.shape))
        attributes: dict[str, Any] = {"axis": axis, "k": k}
        if direction is not None:
            attributes["axis_direction"] = direction
        outputs = {"output_value_tensor": (sizes, x.dtype), "output_index_tensor": (sizes, np.uint64)}
        result = oracle.compute("TOP_K1" if direction else "TOP_K", attributes, {"input_tensor": x}, outputs)
        return result["output_value_tensor"], result["output_index_tensor"].tolist()

    x = [[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]
    values, indices = top(x, 2)
    assert (values.tolist(), indices) == ([[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]])
    values, indices = top(x, 2, axis=0)
    assert (values.tolist(), indices) == ([[4, 5, 10, 11], [3, 2, 9, 8]], [[2, 2, 0, 0], [1, 1, 1, 1]])
    x = [[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]
    values, indices = top(x, 3, dtype=np.int8)
    assert (values.tolist(), indices) == ([[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]])
    values, indices = top(x, 3, direction="INCREASING")
    assert (values.tolist(), indices) == ([[1, 2, 2], [3, 4, 5], [6, 6, 6]], [[0, 1, 2]] * 3)
    row = np.array([[0x80000000, 0xFFC12345, 0x7F800000, 0, 0x7F800001]], np.uint32).view(f32)
    values, indices = top(row, 5, direction="DECREASING")
    assert indices == [[1, 4, 2, 0, 3]]
    assert values.view(np.uint32)[0, 0] == 0xFFC12345
    assert top(row, 5, direction="INCREASING")[1] == [[0, 3, 2, 1, 4]]


# --- recurrence ---

STANDARD = tuple((f"ACTIVATION_{name}", dict[str, Any]()) for name in ("SIGMOID", "TANH", "TANH"))


def lstm(tensors: Mapping[str, Any], direction: str = "FORWARD", dtype: Any = f32, **attributes: Any) -> dict[str, Array]:
    inputs = {f"{name}_tensor": array for name, array in tensors.items()}
    _, sequence, batch, _ = tensors["input"].shape
    _, directions, _, hidden = tensors["recurrence"].shape
    one_state = (1, directions, batch, hidden)
    outputs = {"output_sequence_tensor": ((sequence, *one_state[1:]), dtype)}
    outputs |= {"output_single_tensor": (one_state, dtype), "output_cell_single_tensor": (one_state, dtype)}
    given = {"activation_descs": STANDARD * directions, "direction": direction, "clip_threshold": 0.0}
    given |= {"use_clip_threshold": False, "couple_input_forget": False}
    return oracle.compute("LSTM", {**given, **attributes}, inputs, outputs)


def example(cell: float) -> dict[str, Array]:
    x = {"weight": [0.1, 0.2, 0.3, 0.4], "recurrence": [0.5, 0.6, 0.7, 0.8], "hidden_init": [0.1], "cell_mem_init": [cell]}
    tensors = {name: np.array(v, f32).reshape(1, 1, -1, 1) for name, v in x.items()}
    tensors["input"] = np.array([1, 2], f32).reshape(1, 2, 1, 1)
    tensors["bias"] = np.array([0.01, 0.02, 0.03, 0.04, 0, 0, 0, 0], f32).reshape(1, 1, 1, 8)
    tensors["peephole"] = np.array([0.05, 0.06, 0.07], f32).reshape(1, 1, 1, 3)
    return tensors


@pytest.mark.parametrize(
    ("cell", "attributes", "wanted", "last"),
    [
        (0.2, {}, (0.20835685, 0.39145183), 0.7073263),
        (0.2, {"couple_input_forget": True}, (0.19363164, 0.33768794), 0.5878975),
        (0.2, {"use_clip_threshold": True, "clip_threshold": 0.5}, (0.20407702, 0.28758927), 0.4998777),
        (2, {"use_clip_threshold": True, "clip_threshold": 0.5}, (0.53605646, 0.52356064), None),
    ],
)
def test_worked_recurrences(cell: float, attributes: Any, wanted: Any, last: float | None) -> None:
    result = lstm(example(cell), **attributes)
    np.testing.assert_allclose(result["output_sequence_tensor"].ravel(), wanted, rtol=3e-7)
    assert result["output_single_tensor"].item() == result["output_sequence_tensor"].ravel()[-1]
    if last is not None:
        assert result["output_cell_single_tensor"].item() == pytest.approx(last, rel=3e-7)


def random_lstm(rng: np.random.Generator, directions: int, dtype: Any) -> dict[str, Array]:
    sequence, batch, width, hidden = 4, 3, 2, 3
    sizes = {
        "input": (1, sequence, batch, width),
        "weight": (1, directions, 4 * hidden, width),
        "recurrence": (1, directions, 4 * hidden, hidden),
        "bias": (1, 1, directions, 8 * hidden),
        "hidden_init": (1, directions, batch, hidden),
        "cell_mem_init": (1, directions, batch, hidden),
        "peephole": (1, 1, directions, 3 * hidden),
    }
    return {name: rng.standard_normal(size).astype(dtype) for name, size in sizes.items()}


def in_floats(t: Mapping[str, Array], direction: int, lengths: list[int], backward: bool) -> Array:
    """An independent computation in float64 with rounded states: every H, and 0 after the length."""
    dtype = t["input"].dtype
    x, w, r = (t[name].astype(float)[0] for name in ("input", "weight", "recurrence"))
    w, r, hidden = w[direction], r[direction], r.shape[2]
    bias = t["bias"].astype(float)[0, 0, direction].reshape(2, -1).sum(0)
    peephole = t["peephole"].astype(float)[0, 0, direction].reshape(3, hidden)
    result = np.zeros((x.shape[0], x.shape[1], hidden), dtype)
    for b, length in enumerate(lengths):
        h, c = (t[name].astype(float)[0, direction, b] for name in ("hidden_init", "cell_mem_init"))
        for step in range(length)[:: -1 if backward else 1]:
            i, o, f, g = (w @ x[step, b] + r @ h + bias).reshape(4, hidden)
            i, f = (1 / (1 + np.exp(-(v + p * c))) for v, p in ((i, peephole[0]), (f, peephole[2])))
            c = (f * c + i * np.tanh(g)).astype(dtype).astype(float)
            h = (np.tanh(c) / (1 + np.exp(-(o + peephole[1] * c)))).astype(dtype).astype(float)
            result[step, b] = h
    return result


@pytest.mark.parametrize("dtype", [f32, f16])
def test_recurrences_in_floats(dtype: Any) -> None:
    tensors = random_lstm(np.random.default_rng(11), 2, dtype)
    lengths = [4, 0, 2]
    tensors["sequence_lengths"] = np.array([9, 0, 2], np.uint32).reshape(1, 1, 1, 3)
    result = lstm(tensors, "BIDIRECTIONAL", dtype)
    for direction in range(2):
        wanted = in_floats(tensors, direction, lengths, direction == 1)
        assert steps_apart(result["output_sequence_tensor"][:, direction], wanted) <= 2
    single = result["output_single_tensor"][0]
    assert (single[0, 0] == result["output_sequence_tensor"][3, 0, 0]).all()
    assert (single[0, 2] == result["output_sequence_tensor"][1, 0, 2]).all()
    assert (single[1] == result["output_sequence_tensor"][0, 1]).all()
    assert (single[:, 1] == 0).all()
    backward = lstm({name: a[:, 1:] if name in HALVED else a[:, :, 1:] if name in LAST else a for name, a in tensors.items()},
                    "BACKWARD", dtype)  # fmt: skip
    same_bits(backward["output_sequence_tensor"][:, 0], np.ascontiguousarray(result["output_sequence_tensor"][:, 1]))


def test_what_a_recurrence_may_lack_is_zero() -> None:
    tensors = random_lstm(np.random.default_rng(15), 1, f32)
    lacking = ("bias", "hidden_init", "cell_mem_init", "peephole")
    without = lstm({name: array for name, array in tensors.items() if name not in lacking})
    zeros = lstm({name: array * (name not in lacking) for name, array in tensors.items()})
    for name, array in without.items():
        same_bits(array, zeros[name])


HALVED, LAST = ("weight", "recurrence", "hidden_init", "cell_mem_init"), ("bias", "peephole")


def test_recurrences_that_cancel_and_saturate() -> None:
    tensors = random_lstm(np.random.default_rng(12), 1, f32)
    for name in ("input", "weight"):
        tensors[name] = tensors[name] * f32(1e20)
    for couple in (False, True):
        result = lstm(tensors, couple_input_forget=couple)
        assert np.isfinite(result["output_sequence_tensor"]).all()
    linear: Any = (("ACTIVATION_SIGMOID", {}), ("ACTIVATION_IDENTITY", {}), ("ACTIVATION_TANH", {}))
    flat = example(1.0)
    flat["weight"][...] = np.array([0.3, 0.2, 0.3, -1]).reshape(1, 1, 4, 1)
    flat["input"] = flat["input"][:, :1]
    for name in ("recurrence", "bias", "peephole", "hidden_init"):
        flat[name] = flat[name] * 0
    result = lstm(flat, activation_descs=linear)  # i = F and c = -C: the sum is zero, which no precision shows
    assert result["output_cell_single_tensor"].view(np.uint32).item() == 0
    assert result["output_sequence_tensor"].item() == 0


# --- the rest ---


def quantized(x: Any, s: Any, z: Any, dtype: Any, source: Any = f32, scale: Any = f32) -> list[int]:
    x = np.asarray(x, source)
    inputs = {"input_tensor": x, "scale_tensor": np.broadcast_to(np.asarray(s, scale), x.shape)}
    if z is not None:
        inputs["zero_point_tensor"] = np.full(x.shape, z, dtype)
    result = oracle.compute("ELEMENT_WISE_QUANTIZE_LINEAR", {}, inputs, {"output_tensor": (x.shape, dtype)})["output_tensor"]
    values: list[int] = result.tolist()
    return values


def test_quantize_linear() -> None:
    assert quantized([0, 2, 3, 1000, -254, -1000], 2, 128, np.uint8) == [128, 129, 130, 255, 1, 0]
    assert quantized([3], 2, None, np.uint8) == [2]
    ties = [-1.25, -0.75, -0.25, 0.25, 0.75, 1.25]
    assert quantized(ties, 0.5, 0, np.int8) == [-2, -2, 0, 0, 2, 2]
    assert quantized(ties, 0.5, 1, np.int8) == [-1, -1, 1, 1, 3, 3]
    assert quantized([5, -5], 0.039215686, -23, np.int8) == [104, -128]
    assert quantized([INF, -INF, NAN], 1, 5, np.uint8) == [255, 0, 0]
    assert quantized([1, -1, 0], 0, 5, np.int8) == [127, -128, -128]
    assert quantized([1, NAN, INF], INF, 5, np.int8) == [5, -128, -128]
    assert quantized([3], -2, 0, np.int8, f16, f16) == [-2]
    assert quantized([2**31 - 1, 255], 2**24, 0, np.uint8, np.int32) == [128, 0]
    # x / s is slightly above 5/2, by less than float32 has digits for: it is rounded to the tie, and that to 2.
    x, s = float.fromhex("0x1.05e9f4p+2"), float.fromhex("0x1.a30fecp+0")
    assert Fraction(x) / Fraction(s) > Fraction(5, 2)
    assert quantized([x, -x], s, 0, np.int8) == [2, -2]
    assert quantized([x, -x], s, 1, np.int8) == [3, -1]


def test_fill_value_sequence() -> None:
    def fill(start: float, delta: float, sizes: tuple[int, ...], dtype: Any) -> Array:
        attributes = {"value_start": start, "value_delta": delta}
        outputs = {"output_tensor": (sizes, dtype)}
        result: Array = oracle.compute("FILL_VALUE_SEQUENCE", attributes, {}, outputs)["output_tensor"]
        return result

    assert fill(3.0, 2.0, (3,), f32).tolist() == [3, 5, 7]
    assert fill(10, 254, (1, 1, 2, 2), np.uint8).ravel().tolist() == [10, 8, 6, 4]
    near = fill(float(f32(3.2)), 1.5, (5,), f32)
    np.testing.assert_allclose(near, [3.2, 4.7, 6.2, 7.7, 9.2], rtol=1e-7)
    tenth = float(f32(0.1))
    same_bits(fill(0.0, tenth, (1000,), f32), np.array([k * Fraction(tenth) for k in range(1000)], np.float64).astype(f32))
    assert fill(1, 2**62, (3,), np.int64).tolist() == [1, 1 + 2**62, 1 - 2**63]


def test_random_generator() -> None:
    def draw(state: list[int], count: int) -> tuple[list[int], list[int]]:
        outputs = {"output_tensor": ((1, count), np.uint32), "output_state_tensor": ((1, 1, 1, 6), np.uint32)}
        inputs = {"input_state_tensor": np.array(state, np.uint32).reshape(1, 1, 1, 6)}
        result = oracle.compute("RANDOM_GENERATOR", {"type": "PHILOX_4X32_10"}, inputs, outputs)
        return result["output_tensor"].ravel().tolist(), result["output_state_tensor"].ravel().tolist()

    assert draw([0] * 6, 4) == ([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [1, 0, 0, 0, 0, 0])
    full = 2**32 - 1
    assert draw([full] * 6, 4) == ([0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], [0, 0, 0, 0, full, full])
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
    assert draw(pi, 4)[0] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    assert draw([1, 0, 0, 0, 0, 0], 4)[0] == [0xF8E4CCA4, 0x5CB200DB, 0xB1A574EB, 0x097EFF67]
    drawn, state = draw([0, 0, 0, 0, 1, 2], 5)
    assert (drawn, state) == ([93904442, 2563932206, 655331230, 3937864147, 1593998110], [2, 0, 0, 0, 1, 2])
    assert draw([full, full, 0, 0, 0, 0], 5)[1] == [1, 0, 1, 0, 0, 0]


# --- hostile arrays ---


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT64"])
def test_every_kind_is_drawn(data_type: str) -> None:
    for kind in hostile_data.KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            array = hostile_data.values(data_type, (5, 7), np.random.default_rng(13), kind)
        assert (array.shape, array.dtype.name.upper()) == ((5, 7), data_type)
    with pytest.raises(ValueError, match="is none of"):
        hostile_data.values(data_type, 3, np.random.default_rng(13), "pleasant")


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
def test_they_hurt(data_type: str) -> None:
    rng = np.random.default_rng(14)

    def drawn(kind: str) -> Array:
        return hostile_data.values(data_type, 2000, rng, kind)

    special = drawn("specials")
    info = np.finfo(special.dtype)
    patterns = special.view(f"u{special.itemsize}")
    assert len(set(patterns[np.isnan(special)].tolist())) == 6
    assert np.isinf(special).any()
    assert ((special == 0) & np.signbit(special)).any()
    assert ((special != 0) & (np.abs(special) < info.tiny)).any()
    a, b = drawn("ties"), drawn("ties")
    sums = [Fraction(x) + Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    ties = sum(x != 0 and is_tie(x, FORMATS[a.dtype]) for x in sums)
    assert ties > 100
    pairs = drawn("cancelling").reshape(-1, 2)
    assert (pairs[:, 0] == -pairs[:, 1]).all()
    crossed = drawn("cancelling") + drawn("cancelling")
    assert (crossed == 0).sum() < 2000
    a, b = drawn("wide").astype(np.float64), drawn("wide").astype(np.float64)
    assert (np.abs(a * b) > float(info.max)).any()
    assert (np.abs(a * b) < float(info.smallest_subnormal)).any()
    assert np.isfinite(a).all()
    small = drawn("small")
    assert (np.abs(small) <= 4).all()
    assert ((small == 0) & np.signbit(small)).any()


def is_tie(x: Fraction, f: Format) -> bool:
    """Whether numbers slightly above and below are rounded to different sides."""
    return fraction_bits(x * (1 + Fraction(1, 2**60)), f) != fraction_bits(x * (1 - Fraction(1, 2**60)), f)


# --- numbers with too many digits ---


def test_sums_of_huge_numbers_that_cancel_are_told_to_be_zero() -> None:
    """Their digits would fill the memory: they are compared without being computed."""
    huge = exponential(gmpy2.mpq(10**15))
    assert arithmetic.add(huge, arithmetic.negative(huge)) == 0.0
    small = exponential(gmpy2.mpq(-(10**15)))
    assert arithmetic.add(small, arithmetic.negative(small)) == 0.0
    more = arithmetic.add(multiply(gmpy2.mpq(2), huge), arithmetic.negative(huge))
    assert numbers.value_bits(more, FORMATS[np.dtype(f32)]) == 0x7F800000


def test_products_of_numbers_that_no_exponent_reaches_are_told_by_their_logarithms() -> None:
    x = gmpy2.mpq(10**30)
    large, small = exponential_less_one(x), exponential(-x)
    form = FORMATS[np.dtype(f32)]

    def bits(value: Any) -> int:
        return int(numbers.value_bits(value, form))

    assert bits(arithmetic.multiply(large, exponential(-2 * x))) == 0
    assert bits(arithmetic.negative(arithmetic.multiply(exponential_less_one(3 * x), small))) == 0xFF800000
