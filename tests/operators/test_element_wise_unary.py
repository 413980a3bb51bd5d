"""Element-wise operators of one input, powers and clipping: the reference compared with the oracle, on hostile data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from test_moves_and_maps import ATTRIBUTES, SPECIAL_ATTRIBUTES, drawn, named, shaped

import anydml as dml
import oracle
from agreement import SOAK, agree, bits, computed
from anydml import DataType, TensorDesc
from anydml.schema.enumerations import IsInfinityMode, RoundingMode
from anydml.schema.kinds import ScaleBias, stored_in
from anydml.schema.operator import Desc
from anydml.schema.types import EIGHT, ELEVEN, FLOATS, SIGNED, TEN, UNSIGNED

Rng = np.random.Generator
TRANSCENDENTAL, RATIONAL = 4_000, 6_000  # outputs of an operator that are compared
HALF_PI = math.pi / 2
SIGNED_TYPES = (*FLOATS, *SIGNED, DataType.INT64)
BOUNDS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, 3.7, 100.0, -128.5, 127.0, 255.0, 65504.0, 7e4, 3e9, -3e9, 1e19, 2.0**-149)


class Case(NamedTuple):
    """The random cases of an operator. near: arguments close to which its formula changes. attributes: those besides
    ScaleBias."""

    near: Sequence[float] = ()
    types: Sequence[DataType] = FLOATS
    outputs: int = TRANSCENDENTAL
    scale_bias: bool = True
    attributes: Callable[[Rng, DataType], dict[str, Any]] = lambda rng, data_type: {}
    truths: Sequence[DataType] = ()  # the output's types, if they are not the input's


def a_float(rng: Rng, usual: Sequence[float] = ATTRIBUTES) -> float:
    return float(rng.choice(usual if rng.random() < 0.9 else SPECIAL_ATTRIBUTES))


def float_bounds(rng: Rng, data_type: DataType) -> dict[str, Any]:
    return {"min": a_float(rng, BOUNDS), "max": a_float(rng, BOUNDS)}


def typed_bounds(rng: Rng, data_type: DataType) -> dict[str, Any]:
    low, high = (stored_in(bound, data_type) for bound in float_bounds(rng, data_type).values())
    return {"min_max_data_type": data_type, "min": low, "max": high}


CASES = {
    "IDENTITY": Case((), ELEVEN, RATIONAL),
    "ABS": Case((), SIGNED_TYPES, RATIONAL),
    "ACOS": Case((1.0, -1.0, 0.5, -0.5, 0.9999)),
    "ASIN": Case((1.0, -1.0, 0.5, 2.0**-12, 0.9999)),
    "ATAN": Case((1.0, 2.0**-12, 2.0**24, -1.0)),
    "CEIL": Case((-0.5, 2.0**23, 2.0**22 + 0.5, -1.0, 2.0**10), outputs=RATIONAL),
    "COS": Case((HALF_PI, math.pi, 3 * HALF_PI, 11 * HALF_PI, 2.0**-12, 16367173.0 * 2.0**72)),
    "FLOOR": Case((-0.5, 2.0**23, 2.0**22 + 0.5, 1.0, 2.0**10), outputs=RATIONAL),
    "LOG": Case((1.0, 0.5, math.e, 2.0**-126)),
    "RECIP": Case((1.0, 3.0, 2.0**127, 2.0**-128, 2.0**15), outputs=RATIONAL),
    "SIN": Case((HALF_PI, math.pi, 2 * math.pi, 22 * math.pi, 2.0**-12, 16367173.0 * 2.0**72)),
    "SQRT": Case((4.0, 2.0, 9.0, 2.0**-126), outputs=RATIONAL),
    "TAN": Case((HALF_PI, math.pi, 3 * HALF_PI, 11 * HALF_PI, 2.0**-12, 16367173.0 * 2.0**72)),
    "ERF": Case((0.5, 3.8, 3.9, 2.0**-12, -4.0)),
    "SINH": Case((88.7, 89.4, -89.4, 11.7, 2.0**-12)),
    "COSH": Case((88.7, 89.4, -89.4, 11.7, 2.0**-12)),
    "TANH": Case((9.01, 8.3, -4.5, 0.55, 2.0**-12)),
    "ASINH": Case((1.0, 2.0**-12, 2.0**24, 2.0**64)),
    "ACOSH": Case((1.0, 2.0, 2.0**24, 2.0**64)),
    "ATANH": Case((1.0, -1.0, 0.5, 2.0**-12, 0.9999)),
    "SIGN": Case((), TEN, RATIONAL, False),
    "NEGATE": Case((), SIGNED_TYPES, RATIONAL, False),
    "ROUND": Case(
        (0.5, -0.5, 1.5, 2.5, 2.0**23 + 1, 2.0**22 + 0.5, 0.49999997),
        FLOATS,
        RATIONAL,
        False,
        lambda rng, data_type: {"rounding_mode": rng.choice([*RoundingMode])},
    ),
    "IS_NAN": Case((), FLOATS, RATIONAL, False, truths=(DataType.UINT32, DataType.UINT8)),
    "IS_INFINITY": Case(
        (),
        FLOATS,
        RATIONAL,
        False,
        lambda rng, data_type: {"infinity_mode": rng.choice([*IsInfinityMode])},
        (DataType.UINT8,),
    ),
    "THRESHOLD": Case(BOUNDS, EIGHT, RATIONAL, True, lambda rng, data_type: {"min": a_float(rng, BOUNDS)}),
    "CLIP": Case(BOUNDS, TEN, RATIONAL, True, float_bounds),
    "CLIP1": Case(BOUNDS, TEN, RATIONAL, True, typed_bounds),
    "CONSTANT_POW": Case(
        (1.0, -1.0, 2.0, 4.0, 9.0),
        attributes=lambda rng, data_type: {"exponent": a_float(rng, (*ATTRIBUTES, 2.0, 3.0, -2.0, 1.5, 0.25, 1000.0))},
    ),
}


def scale_bias_of(rng: Rng) -> ScaleBias | None:
    return None if rng.random() < 0.4 else ScaleBias(a_float(rng), a_float(rng))


def case_of(rng: Rng, name: str, data_type: DataType) -> tuple[Desc, dict[str, Any]]:
    case, count = CASES[name], 100
    x = drawn(rng, data_type, count, case.near).reshape(shaped(rng, count))
    t = TensorDesc(data_type, x.shape)
    output = TensorDesc(case.truths[int(rng.integers(0, len(case.truths)))], x.shape) if case.truths else t
    fields = {"scale_bias": scale_bias_of(rng)} if case.scale_bias else {}
    fields |= case.attributes(rng, data_type)
    return named(f"ELEMENT_WISE_{name}")(input_tensor=t, output_tensor=output, **fields), {"input_tensor": x}


@pytest.mark.parametrize("name", CASES)
def test_operators_of_one_input_give_the_oracles_bits(name: str) -> None:
    rng, compared = np.random.default_rng(30), 0
    while compared < CASES[name].outputs * SOAK:
        for data_type in CASES[name].types:
            compared += agree(*case_of(rng, name, data_type))
    print(f"{name}: {compared} outputs")


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].types is FLOATS])
def test_float16_elements_give_the_oracles_bits(name: str) -> None:
    """Some of the 65536 elements; in `make soak`, all of them."""
    every = np.arange(0, 2**16, 1 if SOAK > 1 else 61, dtype=np.uint16).view(np.float16)
    t = TensorDesc(DataType.FLOAT16, every.shape)
    output = TensorDesc(CASES[name].truths[-1], every.shape) if CASES[name].truths else t
    attributes = {"exponent": 3.0} if name == "CONSTANT_POW" else {}
    desc = named(f"ELEMENT_WISE_{name}")(input_tensor=t, output_tensor=output, **attributes)
    assert agree(desc, {"input_tensor": every}) == every.size


OF_NUMPY: dict[str, Callable[..., NDArray[Any]]] = {
    **{
        name: getattr(np, name.lower())
        for name in ("CEIL", "COS", "FLOOR", "LOG", "SIN", "SQRT", "TAN", "SINH", "COSH", "TANH")
    },
    **{name: getattr(np, name.lower().replace("a", "arc", 1)) for name in ("ACOS", "ASIN", "ATAN", "ASINH", "ACOSH", "ATANH")},
    "ERF": np.vectorize(math.erf, [float]),
    "ABS": np.abs,
    "RECIP": np.reciprocal,
    "SIGN": lambda x: np.sign(x) + 0.0,
    "NEGATE": np.negative,
    "ROUND": np.rint,
    "CONSTANT_POW": lambda x: np.power(x, 0.75),
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_the_oracle_says_what_numpy_says(name: str) -> None:
    """In float64, whose error is far below half a ULP of float32, so that hardly any result is rounded differently."""
    rng = np.random.default_rng(33)
    x = np.concatenate([drawn(rng, DataType.FLOAT32, 400, CASES[name].near), special(DataType.FLOAT32)])
    attributes = {"exponent": 0.75, "rounding_mode": "HALVES_TO_NEAREST_EVEN"}
    said = oracle.compute(f"ELEMENT_WISE_{name}", attributes, {"input_tensor": x}, {"output_tensor": (x.shape, x.dtype)})
    found = said["output_tensor"]
    with np.errstate(all="ignore"):
        wanted = OF_NUMPY[name](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=2e-7, atol=2.0**-149)
    present = ~np.isnan(wanted)
    assert (np.signbit(found) == np.signbit(wanted))[present].all()
    assert np.mean(bits(found)[present] == bits(wanted)[present]) > 0.999


# --- two inputs ---


def special(data_type: DataType) -> NDArray[Any]:
    """Numbers of all kinds: for floats NaN, infinities, zeros, extremes and halves; for integers extremes and small ones."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        info = np.finfo(dtype)
        positive = [0, info.smallest_subnormal, info.tiny, 1 / 3, 0.5, 1 - info.epsneg, 1, 1 + info.eps, 1.5, 2, 3, 4, 9]
        numbers = np.array([*positive, 1023, 1024, info.max, np.inf, np.nan], dtype)
        return np.concatenate([numbers, -numbers])
    limits = np.iinfo(dtype)
    integers = [limits.min, limits.min + 1, *range(-4, 11), 31, 32, 63, 64, limits.max - 1, limits.max]
    return np.array([n for n in integers if limits.min <= n <= limits.max], dtype)


def power_of(x: NDArray[Any], y: NDArray[Any], scale_bias: ScaleBias | None = None) -> tuple[Desc, dict[str, Any]]:
    t, exponents = TensorDesc(DataType[x.dtype.name.upper()], x.shape), TensorDesc(DataType[y.dtype.name.upper()], y.shape)
    desc = named("ELEMENT_WISE_POW")(input_tensor=t, exponent_tensor=exponents, output_tensor=t, scale_bias=scale_bias)
    return desc, {"input_tensor": x, "exponent_tensor": y}


def test_powers_of_every_special_number_give_the_oracles_bits() -> None:
    pairs = list(itertools.product((*FLOATS, DataType.INT32, DataType.UINT8), repeat=2))
    compared = 0
    for x_type, y_type in pairs:
        x, y = np.meshgrid(special(x_type), special(y_type))
        compared += agree(*power_of(np.ascontiguousarray(x), np.ascontiguousarray(y)))
    print(f"{compared} outputs")
    assert compared > 8_000


def test_powers_give_the_oracles_bits() -> None:
    """Exponents are often small integers and halves, so that powers are exact, ties, or close to ties."""
    rng, compared = np.random.default_rng(31), 0
    while compared < TRANSCENDENTAL * SOAK:
        for x_type in EIGHT:
            y_type = EIGHT[int(rng.integers(0, len(EIGHT)))]
            x = drawn(rng, x_type, 50, (1.0, 2.0, 3.0, 4097.0, 1.5))
            least = 0 if y_type in UNSIGNED else -4
            small = rng.integers(least, 9, 50) / (rng.choice([1, 1, 2, 4], 50) if y_type in FLOATS else 1)
            y = np.where(rng.random(50) < 0.5, small.astype(y_type.dtype), drawn(rng, y_type, 50))
            compared += agree(*power_of(x, y, scale_bias_of(rng) if rng.random() < 0.5 else None))
    print(f"{compared} outputs")


@pytest.mark.parametrize(("name", "bounds"), [("CLIP_GRAD", float_bounds), ("CLIP_GRAD1", typed_bounds)])
def test_gradients_of_clipping_give_the_oracles_bits(name: str, bounds: Callable[[Rng, DataType], dict[str, Any]]) -> None:
    rng, compared = np.random.default_rng(32), 0
    while compared < RATIONAL * SOAK:
        for data_type in TEN:
            attributes = bounds(rng, data_type)
            near = [bound for bound in (attributes["min"], attributes["max"]) if abs(bound) < 6e4]
            x, gradient = drawn(rng, data_type, 100, near), drawn(rng, data_type, 100)
            t = TensorDesc(data_type, shaped(rng, 100))
            desc = named(f"ELEMENT_WISE_{name}")(
                input_tensor=t, input_gradient_tensor=t, output_gradient_tensor=t, **attributes
            )
            inputs = {"input_tensor": x.reshape(t.sizes), "input_gradient_tensor": gradient.reshape(t.sizes)}
            compared += agree(desc, inputs)
    print(f"{name}: {compared} outputs")


# --- descriptions in words ---


def one(name: str, x: Any, dtype: Any = np.float32, **attributes: Any) -> NDArray[Any]:
    array = np.array(x, dtype)
    t = TensorDesc(DataType[array.dtype.name.upper()], array.shape)
    desc = named(f"ELEMENT_WISE_{name}")(input_tensor=t, output_tensor=t, **attributes)
    found: NDArray[Any] = computed(desc, {"input_tensor": array})["output_tensor"]
    return found


@pytest.mark.parametrize("name", ["ASIN", "ATAN", "SIN", "TAN", "ERF", "SINH", "TANH", "ASINH", "ATANH", "SQRT", "CEIL"])
def test_zeros_keep_their_signs(name: str) -> None:
    assert bits(one(name, [0.0, -0.0])).tolist() == [0, 1 << 31]


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].types is FLOATS and not CASES[name].truths])
def test_nan_gives_the_positive_quiet_nan_without_payload(name: str) -> None:
    payloads = np.array([0x7FC00001, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    attributes = {"exponent": 3.0} if name == "CONSTANT_POW" else {}
    assert bits(one(name, payloads, **attributes)).tolist() == [0x7FC00000] * 3


def test_identity_moves_bits_without_a_scale_bias() -> None:
    payloads = np.array([0x7FC00001, 0xFF800001, 0x80000000], np.uint32).view(np.float32)
    assert bits(one("IDENTITY", payloads)).tolist() == bits(payloads).tolist()
    assert bits(one("IDENTITY", payloads, scale_bias=(1, 0))).tolist() == [0x7FC00000, 0x7FC00000, 0]


def test_identity_of_other_strides_is_a_copy_that_is_compiled() -> None:
    x = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
    t = TensorDesc(DataType.FLOAT32, (256, 256))
    transposed = TensorDesc(DataType.FLOAT32, (256, 256), strides=(1, 256))
    compiled = dml.Device("cpu").compile(named("ELEMENT_WISE_IDENTITY")(input_tensor=transposed, output_tensor=t))
    assert compiled.kernel_name.startswith("copy:")
    out = np.zeros_like(x)
    compiled.bind(input_tensor=x.T, output_tensor=out).execute()
    assert (out == x.T).all()


def test_an_integer_scale_and_bias_of_nothing_changes_no_integer() -> None:
    for data_type in (DataType.INT64, DataType.UINT64, DataType.INT8):
        limits = np.iinfo(data_type.dtype)
        x = [limits.min, limits.min + 1, 0, limits.max - 1, limits.max]
        assert one("IDENTITY", x, data_type.dtype, scale_bias=(1, 0)).tolist() == x


def test_magnitudes_and_negatives_of_the_lowest_integer_wrap() -> None:
    for name in ("ABS", "NEGATE"):
        assert one(name, [-128], np.int8).tolist() == [-128]
        assert one(name, [-(2**63)], np.int64).tolist() == [-(2**63)]
    assert one("ABS", [-128], np.int8, scale_bias=(1, 0)).tolist() == [127]


def test_eager_calls_of_truths_give_bytes() -> None:
    x = np.array([np.nan, np.inf, 1], np.float32)
    assert dml.element_wise_is_nan(x).tolist() == [1, 0, 0]
    assert dml.element_wise_is_nan(x).view(bool).tolist() == [True, False, False]
    assert dml.element_wise_is_infinity(x, "NEGATIVE").tolist() == [0, 0, 0]


def test_eager_clips_have_one_bound_or_two() -> None:
    x = np.array([-np.inf, -3, 3, np.inf], np.float32)
    assert dml.element_wise_clip1(x, min=0.0).tolist() == [0, 0, 3, math.inf]
    assert dml.element_wise_clip(x, max=0.0).tolist() == [-math.inf, -3, 0, 0]
    assert dml.element_wise_clip1(np.array([-128, 127], np.int8), max=5).tolist() == [-128, 5]
    assert dml.element_wise_clip(np.array([-128, 127], np.int8)).tolist() == [-128, 127]


def test_an_eager_exponent_may_be_a_number() -> None:
    assert dml.element_wise_pow(np.array([4, 9], np.float32), 0.5).tolist() == [2, 3]
    assert dml.element_wise_pow(np.array([4, 9], np.int32), 2).tolist() == [16, 81]
    with pytest.raises(dml.BindingError, match="is not an integer"):
        dml.element_wise_pow(np.array([4, 9], np.int32), 0.5)
