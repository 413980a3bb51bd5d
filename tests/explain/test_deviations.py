"""Deviations against literal computations in integers and fractions, and their names in what `compare` says."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import fixed_point
import oracle
from anydml.explain import causes_of_products, changes
from anydml.explain.changes import PRODUCT_INPUTS
from anydml.explain.known import ACCUMULATORS, PRODUCT_ACCUMULATORS, REQUANTISATIONS, WINDOWS
from anydml.explain.quotient import Quotient
from every_kernel import SOAK

Array = NDArray[Any]
deviations = dml.deviations
HALF = Fraction(1, 2)


# --- requantisations, literally ---


def float32(x: Fraction) -> Fraction:
    """A fraction rounded to 24 bits, half to even; the tests stay within float32's normal range."""
    if x == 0:
        return x
    exponent = math.frexp(float(x))[1]  # of the double next to it, which may be one too high
    unit = Fraction(2) ** (exponent - 24)
    if abs(x) < unit * 2**23:
        unit /= 2
    return oracle.round_half_even(x / unit) * unit


def away(x: Fraction) -> int:
    return math.floor(x + HALF) if x > 0 else math.ceil(x - HALF)


def wrapped(x: int) -> int:
    return (x + 128) % 256 - 128


def clamped(x: int) -> int:
    return min(max(x, -128), 127)


def power_of_two(x: Fraction) -> Fraction:
    """The nearest power of two, of the sign of x, in logarithms: x^2 lies between a half and twice its square."""
    n = math.frexp(float(x))[1]
    n = next(k for k in (n - 1, n, n + 1) if x * x < 2 * (Fraction(2) ** k) ** 2)
    return Fraction(2) ** n * (1 if x > 0 else -1)


def in_fixed_point(
    scaled: Callable[[int, fixed_point.Multiplier], int],
) -> Callable[[int, Fraction, Fraction, Fraction, int], int]:
    """A requantisation of the accumulator in int32, with the real multiplier in float64."""

    def requantised(q: int, a: Fraction, b: Fraction, y: Fraction, z: int) -> int:
        return clamped(scaled(q, fixed_point.quantize_multiplier(float(a) * float(b) / float(y))) + z)

    return requantised


LITERAL: dict[str, Callable[[int, Fraction, Fraction, Fraction, int], int]] = {
    "exact_requantisation": lambda q, a, b, y, z: clamped(oracle.round_half_even(q * a * b / y) + z),
    "float32_requantisation": lambda q, a, b, y, z: clamped(
        oracle.round_half_even(float32(float32(Fraction(q)) * float32(float32(a * b) / y))) + z
    ),
    "float32_dequantised_product": lambda q, a, b, y, z: clamped(
        oracle.round_half_even(float32(float32(float32(Fraction(q)) * float32(a * b)) / y)) + z
    ),
    "reciprocal_output_scale": lambda q, a, b, y, z: clamped(
        oracle.round_half_even(float32(float32(float32(Fraction(q)) * float32(a * b)) * float32(1 / y))) + z
    ),
    "reciprocal_multiplier": lambda q, a, b, y, z: clamped(
        oracle.round_half_even(float32(float32(Fraction(q)) * float32(float32(a * b) * float32(1 / y)))) + z
    ),
    "half_away_from_zero": lambda q, a, b, y, z: clamped(away(q * a * b / y) + z),
    "half_up": lambda q, a, b, y, z: clamped(math.floor(q * a * b / y + HALF) + z),
    "truncation": lambda q, a, b, y, z: clamped(math.trunc(q * a * b / y) + z),
    "rounding_down": lambda q, a, b, y, z: clamped(math.floor(q * a * b / y) + z),
    "zero_point_before_rounding": lambda q, a, b, y, z: clamped(oracle.round_half_even(q * a * b / y + z)),
    "wrapping_output": lambda q, a, b, y, z: wrapped(oracle.round_half_even(q * a * b / y) + z),
    "fixed_point_double_rounding": in_fixed_point(fixed_point.multiply_by_quantized_multiplier),
    "fixed_point_ties_up": in_fixed_point(fixed_point.multiply_by_quantized_multiplier_neon),
    "fixed_point_single_rounding": in_fixed_point(fixed_point.multiply_by_quantized_multiplier_single_rounding),
    "fixed_point_16_bits": in_fixed_point(fixed_point.multiply_by_quantized_multiplier_int64),
    "float32_multiplier_in_integers": lambda q, a, b, y, z: clamped(math.floor(q * float32(float32(a * b) / y) + HALF) + z),
    "power_of_two_multiplier": lambda q, a, b, y, z: clamped(math.floor(q * power_of_two(a * b / y) + HALF) + z),
}


def exact(x: np.float32) -> Fraction:
    return oracle.float32_fraction(int(x.view(np.uint32)))


@pytest.mark.parametrize("name", LITERAL)
def test_a_requantisation_is_what_its_formula_says(name: str) -> None:
    assert name == "exact_requantisation" or name in [deviation.name for deviation in REQUANTISATIONS]
    function = getattr(deviations, name)
    assert function.__name__ == name
    random = np.random.default_rng(len(name))
    scales = [(0.5, 1.0, 1.0), (0.25, -0.5, 2.0), (0.3, 0.3, 0.2), (0.0066, 0.00705, 0.0107), (1 / 3, 7.0, 11.0)]
    for a, b, y in np.array(scales, np.float32):
        for reach in (40, 3000, 2**25):
            q = random.integers(-reach, reach, 60 * SOAK)
            for zero_point in (0, 1, -100):
                got = function(q, a, b, y, zero_point, output_data_type=np.int8)
                assert got.dtype == np.int8
                expected = [LITERAL[name](x, exact(a), exact(b), exact(y), zero_point) for x in q.tolist()]
                assert got.tolist() == expected


def test_scales_broadcast_and_every_requantisation_takes_uint8() -> None:
    q = np.arange(-6, 6).reshape(2, 6)
    a, b = np.array([[0.5], [1.5]], np.float32), np.array([[1, 2, 3, 4, 5, 6]], np.float32)
    for deviation in REQUANTISATIONS:
        whole = deviation.function(q, a, b, 2.0, np.array([[3], [7]]), output_data_type=dml.DataType.UINT8)
        assert whole.dtype == np.uint8
        for i, j in np.ndindex(2, 6):
            one = deviation.function(q[i, j], a[i, 0], b[0, j], 2.0, (3, 7)[i], output_data_type="uint8")
            assert one.item() == whole[i, j]


def test_a_quotient_next_to_an_integer_or_a_tie_is_decided_exactly() -> None:
    """a * b / y is 1 +- 2^-47: the estimate in float64 of 2^16 such steps lies as near to integers and halves as it can."""
    near = (2**24 - 1, 2**24 + 2, 2**24)  # (2^24 - 1) * (2^24 + 2) / 2^48 is a little above 1
    a, b = (np.float32(x / 2**24) for x in near[:2])
    for scale in (1.0, 2.0, 2.0**-10, -1.0):
        y = np.float32(scale)
        for q in (2**16, 2**16 + 1, -(2**16), 3 * 2**15, 2**26 + 1):
            real = q * exact(a) * exact(b) / exact(y)
            quotient = Quotient(np.array([q]), *(np.array([s], np.float32) for s in (a, b, y)))
            rest = real - math.floor(real)
            assert quotient.floor.tolist() == [math.floor(real)]
            assert quotient.half.tolist() == [(rest > HALF) - (rest < HALF)]
            assert quotient.whole.tolist() == [rest == 0]
            assert quotient.exact((0,)) == real


def test_arguments_that_mean_nothing_are_refused() -> None:
    with pytest.raises(TypeError, match="accumulators must be integers, not float64"):
        deviations.truncation(np.array([0.5]), 1.0, 1.0, 1.0, output_data_type="int8")
    with pytest.raises(TypeError, match="output_data_type is int32; it must be int8 or uint8"):
        deviations.float32_requantisation([1], 1.0, 1.0, 1.0, output_data_type="int32")
    with pytest.raises(TypeError, match="a zero point must be an integer"):
        deviations.float32_requantisation([1], 1.0, 1.0, 1.0, 0.5, output_data_type="int8")
    with pytest.raises(TypeError, match="a is float32; it must be a matrix of int8 or uint8"):
        deviations.pair_saturation(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int8))
    with pytest.raises(ValueError, match="2\\^53 or more"):
        deviations.half_up([2**53], 1.0, 1.0, 1.0, output_data_type="int8")
    with pytest.raises(dml.DataError, match=r"output_scale\[0\] is 0.0; a scale must not be 0"):
        deviations.half_up([1], 1.0, 1.0, 1e-60, output_data_type="int8")
    with pytest.raises(dml.DataError, match=r"a_scale\[1\] is inf"):
        deviations.float32_requantisation([1, 2], [1.0, 1e60], 1.0, 1.0, output_data_type="int8")


# --- accumulators ---


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize("types", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)])
def test_pair_saturation_is_that_of_vpmaddubsw(types: tuple[type, type], k: int) -> None:
    random = np.random.default_rng(k)
    extremes = [np.array([np.iinfo(t).min, np.iinfo(t).max, np.iinfo(t).max, 1]) for t in types]
    a: Array = random.choice(extremes[0], (2, 3, k)).astype(types[0])
    b: Array = random.choice(extremes[1], (2, k, 4)).astype(types[1])
    za, zb = (np.iinfo(t).min + 3 for t in types)
    shift_a = 128 if types == (np.int8, np.int8) else 0
    shift_b = -128 if types == (np.uint8, np.uint8) else 0
    expected = np.zeros((2, 3, 4), np.int64)
    for batch, m, n in np.ndindex(2, 3, 4):
        left = [int(x) + shift_a for x in a[batch, m]]
        right = [int(x) + shift_b for x in b[batch, :, n]]
        products = [x * y for x, y in zip(left, right, strict=True)]
        pairs = [min(max(sum(products[i : i + 2]), -32768), 32767) for i in range(0, k, 2)]
        # sum of (x - z) (y - w), with the products summed in pairs
        z, w = za + shift_a, zb + shift_b
        expected[batch, m, n] = sum(pairs) - w * sum(left) - z * sum(right) + k * z * w
    got = deviations.pair_saturation(a, b, za, zb)
    np.testing.assert_array_equal(got, expected)
    if k == 8:
        assert (got != deviations.accumulator(a, b, za, zb)).any()


def test_int32_accumulators_wrap_or_saturate() -> None:
    sums = [2**31 - 1, 2**31, -(2**31) - 1, 2**32 + 5, 7]
    assert deviations.int32_wrap(sums).tolist() == [2**31 - 1, -(2**31), 2**31 - 1, 5, 7]
    assert deviations.int32_saturation(sums).tolist() == [2**31 - 1, 2**31 - 1, -(2**31), 2**31 - 1, 7]


def test_int16_accumulators_wrap_or_saturate() -> None:
    sums = [2**15 - 1, 2**15, -(2**15) - 1, 2**16 + 5, 7]
    assert deviations.int16_wrap(sums).tolist() == [2**15 - 1, -(2**15), 2**15 - 1, 5, 7]
    assert deviations.int16_saturation(sums).tolist() == [2**15 - 1, 2**15 - 1, -(2**15), 2**15 - 1, 7]


def test_an_accumulator_of_16_bits_saturates_at_each_product() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(0, 256, (2, 3, 9)).astype(np.uint8), random.integers(-128, 128, (2, 9, 4)).astype(np.int8)
    expected = np.zeros((2, 3, 4), np.int64)
    for batch, m, n in np.ndindex(2, 3, 4):
        total = 0
        for x, y in zip(a[batch, m].tolist(), b[batch, :, n].tolist(), strict=True):
            total = min(max(total + (x - 3) * (y + 1), -32768), 32767)
        expected[batch, m, n] = total
    got = deviations.int16_accumulation(a, b, 3, -1)
    np.testing.assert_array_equal(got, expected)
    assert (got != deviations.int16_saturation(deviations.accumulator(a, b, 3, -1))).any()


# --- fixed point ---


def test_the_arithmetic_of_cmsis_nn_is_that_of_tflite() -> None:
    random = np.random.default_rng(4)
    for _ in range(3000):
        m = fixed_point.quantize_multiplier(float(2.0 ** random.uniform(-20, 3)))
        x = int(random.integers(-(2**27), 2**27))
        assert fixed_point.arm_nn_requantize(x, m) == fixed_point.multiply_by_quantized_multiplier(x, m)
        single = fixed_point.multiply_by_quantized_multiplier_single_rounding(x, m)
        assert fixed_point.arm_nn_requantize_single_rounding(x, m) == single
        reduced = (m.value + (1 << 15)) >> 16
        if m.value < 0x7FFF0000:
            wide = fixed_point.multiply_by_quantized_multiplier_int64(x, m)
            assert fixed_point.arm_nn_requantize_s64(x, reduced, m.shift) == wide


def test_two_roundings_take_a_value_far_from_a_tie_across_it() -> None:
    """0.26 in steps of a half is 0.5, which goes to 1."""
    scales: dict[str, Any] = dict(a_scale=0.26, b_scale=1.0, output_scale=1.0, output_data_type="int8")
    assert deviations.exact_requantisation([1], **scales).tolist() == [0]
    assert deviations.fixed_point_double_rounding([1], **scales).tolist() == [1]
    assert deviations.fixed_point_single_rounding([1], **scales).tolist() == [0]


@pytest.mark.parametrize("single_rounding", [False, True])
def test_an_addition_is_that_of_tflite(single_rounding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if single_rounding:
        single = fixed_point.multiply_by_quantized_multiplier_single_rounding
        monkeypatch.setattr(fixed_point, "multiply_by_quantized_multiplier", single)
    random = np.random.default_rng(2)
    for scales in ((0.1, 0.2, 0.15), (0.5, 0.5, 1.0), (0.013, 0.37, 0.4), (1.0, 2.0**-12, 3.0)):
        a, b = random.integers(-128, 128, (2, 500)).astype(np.int8)
        zero_points = (-7, 30, int(random.integers(-128, 128)))
        s = np.array(scales, np.float32)
        got = deviations.fixed_point_addition(
            a, s[0], zero_points[0], b, s[1], zero_points[1], s[2], zero_points[2], output_data_type="int8",
            single_rounding=single_rounding,
        )  # fmt: skip
        expected = fixed_point.add(tuple(a.tolist()), tuple(b.tolist()), tuple(s.astype(float).tolist()), zero_points)
        assert got.tolist() == expected


def test_a_mean_is_that_of_tflite() -> None:
    sums, counts = np.meshgrid(np.arange(-600, 600), [1, 2, 4, 5, 9, 49])
    got = deviations.mean_of_integers(sums, counts, output_data_type="int8")
    expected = [fixed_point.average(q, n) for q, n in zip(sums.ravel().tolist(), counts.ravel().tolist(), strict=True)]
    assert got.ravel().tolist() == expected


# --- windows ---


def test_windows_go_wrong_as_they_say() -> None:
    x = np.arange(10, dtype=np.float32)
    window = ((1,), (7,), (-2,), (3,))  # 7 5 3 of 7 5 3 1
    assert dml.slice1(x, *window[:3]).tolist() == [7, 5, 3, 1]
    assert deviations.step_then_reverse(x, (1,), (8,), (-2,), (3,)).tolist() == x[1:9][::2][::-1][:3].tolist() == [7, 5, 3]
    assert dml.slice1(x, (1,), (8,), (-2,)).tolist() == [8, 6, 4, 2]
    assert deviations.reverse_then_step(x, *window).tolist() == x[::-1][1::2][:3].tolist()
    assert deviations.first_element(x, *window).tolist() == [1, None, None]
    assert deviations.sign_ignored(x, *window).tolist() == x[1::2][:3].tolist()
    assert deviations.one_element_off(x, *window, dimension=0).tolist() == [8, 6, 4]
    assert deviations.one_element_off(x, (3,), (7,), (2,), (4,), dimension=0).tolist() == [4, 6, 8, None]
    assert deviations.one_element_off(x, *window, dimension=0, by=-1).tolist() == [6, 4, 2]
    square = np.arange(16).reshape(4, 4)
    assert deviations.maximum_output_sizes(square, (0, 1), (4, 3), (1, 1), (2, 2)).tolist() == [[1, 2], [3, 5]]
    assert deviations.sign_ignored(square, (0, 1), (4, 3), (-2, 2), (2, 2)).tolist() == square[0::2, 1::2].tolist()


def test_windows_keep_every_bit() -> None:
    bits = np.array([0x7F800001, 0x80000000, 0x7FC00001], np.uint32)
    moved = deviations.sign_ignored(bits.view(np.float32), (0,), (3,), (-1,), (3,))
    assert np.ma.getdata(moved).view(np.uint32).tolist() == bits.tolist()


# --- what compare says ---

SIZE = 12


def product(lead: tuple[int, ...] = (), scale: float = 0.02) -> dict[str, Any]:
    """An eager call, square so that everything can be mistaken, with parameters per row and column."""
    random = np.random.default_rng(7)
    rows, columns = (SIZE, 1), (1, SIZE)
    return {
        "a": random.integers(0, 256, (*lead, SIZE, SIZE)).astype(np.uint8),
        "a_scale": random.uniform(scale / 2, scale, rows).astype(np.float32),
        "a_zero_point": random.integers(100, 130, rows).astype(np.uint8),
        "b": random.integers(-128, 128, (*lead, SIZE, SIZE)).astype(np.int8),
        "b_scale": random.uniform(scale / 2, scale, columns).astype(np.float32),
        "b_zero_point": random.integers(-20, -3, columns).astype(np.int8),
        "output_scale": random.uniform(0.1, 0.2, rows).astype(np.float32),
        "output_zero_point": random.integers(-20, 20, rows).astype(np.int8) | np.int8(1),
    }


def requantised(call: dict[str, Any], q: Array, function: Any) -> Array:
    scales = (call[f"{of}_scale"] for of in ("a", "b", "output"))
    output: Array = function(q, *scales, call["output_zero_point"], output_data_type=np.int8)
    return output


def sums(call: dict[str, Any], function: Any = None) -> Array:
    matrices = (call[name] for name in ("a", "b", "a_zero_point", "b_zero_point"))
    q: Array = (function or deviations.accumulator)(*matrices)
    return q


def cause_of(call: dict[str, Any], actual: Array) -> dml.Comparison:
    return dml.compare(dml.quantized_linear_matrix_multiply, **call, actual=actual)


def best(comparison: dml.Comparison) -> list[str]:
    most = comparison.causes[0].equal
    assert most == comparison.total
    return [cause.name for cause in comparison.causes if cause.equal == most]


def halves() -> dict[str, Any]:
    """A call whose quotients are halves, quarters and integers, and its zero points odd."""
    call = product()
    ones, odd = np.ones((1, 1), np.float32), np.full((1, 1), 3, np.int8)
    b = np.eye(SIZE, dtype=np.int8) - np.eye(SIZE, k=3, dtype=np.int8)
    return {**call, "a_scale": ones / 4, "b": b, "b_scale": ones, "output_scale": ones, "output_zero_point": odd,
            "b_zero_point": None, "a_zero_point": np.full((1, 1), 128, np.uint8)}  # fmt: skip


@pytest.mark.parametrize("name", [deviation.name for deviation in REQUANTISATIONS])
def test_every_requantisation_is_named(name: str) -> None:
    if "float32" in name or "reciprocal" in name:
        random = np.random.default_rng(1)
        a, b = random.integers(-3, 4, (256, 8)).astype(np.int8), random.integers(-3, 4, (8, 256)).astype(np.int8)
        call: dict[str, Any] = dict(a=a, a_scale=0.3, a_zero_point=None, b=b, b_scale=0.7, b_zero_point=None,
                                    output_scale=0.14, output_zero_point=np.array([[1]], np.int8))  # fmt: skip
        q = deviations.accumulator(a, b)
    else:
        call = halves()
        q = deviations.accumulator(call["a"], call["b"], call["a_zero_point"])
    if name == "wrapping_output":
        call["a_scale"] = np.full((1, 1), 2, np.float32)
    actual = requantised(call, q, getattr(deviations, name))
    comparison = cause_of(call, actual)
    assert name in best(comparison)
    assert f"in all {actual.size} outputs; the exact result in {actual.size - comparison.differing}" in str(comparison)
    if name in ("truncation", "rounding_down"):  # a way of rounding, though no tie is near
        assert "tie" not in str(comparison)
        assert "not a rounding difference" not in str(comparison)


def test_float32_requantisation_is_told_in_one_sentence() -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(-128, 128, (64, 33)).astype(np.int8), random.integers(-128, 128, (33, 64)).astype(np.int8)
    a_scale, b_scale = np.float32(0.0173), np.float32(0.0219)
    q = deviations.accumulator(a, b)

    def both(y_scale: float) -> tuple[Array, Array]:
        ways = deviations.float32_requantisation, deviations.exact_requantisation
        usual, right = (way(q, a_scale, b_scale, y_scale, output_data_type=np.int8) for way in ways)
        return usual, right

    # an output's scale for which some of these sums lie next to a tie
    y_scale = next(y for y in np.arange(0.22, 0.25, 1e-5).tolist() if not np.array_equal(*both(y)))
    actual, exact_result = both(y_scale)
    right = int(np.count_nonzero(actual == exact_result))
    comparison = dml.compare(
        dml.quantized_linear_matrix_multiply, a, a_scale, None, b, b_scale, None, y_scale, None, actual=actual
    )
    assert f"of a tie. It equals float32 requantisation in all 4096 outputs; the exact result in {right}" in str(comparison)


@pytest.mark.parametrize("name", [deviation.name for deviation in PRODUCT_ACCUMULATORS])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_every_way_to_accumulate_is_named(name: str, lead: tuple[int, ...]) -> None:
    call = product(lead)
    q = sums(call, getattr(deviations, name))
    comparison = cause_of(call, requantised(call, q, deviations.exact_requantisation))
    assert best(comparison) == [name]
    assert "tie" not in str(comparison)
    sentence = next(d.sentence for d in PRODUCT_ACCUMULATORS if d.name == name)
    assert f"this is not a rounding difference. It equals {sentence} in all" in str(comparison)
    # and with a requantisation of its own, which turns some of its outputs at least
    other = requantised(call, q, deviations.truncation)
    assert f"{name}, truncation" in best(cause_of(call, other))


@pytest.mark.parametrize("name", [deviation.name for deviation in ACCUMULATORS])
def test_sums_beyond_int32_are_named(name: str) -> None:
    bits = 16 if "16" in name else 32
    k, size = (70_000, 255) if bits == 32 else (7, 70)
    a, b = np.full((3, k), size, np.uint8), np.full((k, 4), size, np.uint8)
    a[1] = 1
    q = getattr(deviations, name)(deviations.accumulator(a, b))
    scales: dict[str, Any] = dict(a_scale=1.0, b_scale=1.0, output_scale=2.0 ** (bits - 7))
    scales |= dict(output_zero_point=0, output_data_type="uint8")
    call = dict(a=a, a_zero_point=None, b=b, b_zero_point=None, **scales)
    found = best(cause_of(call, deviations.exact_requantisation(q, **scales)))
    assert found == [name] or (name == "int16_saturation" and found[1:] == [name])  # sums that only grow saturate at any step
    if name == "int32_saturation":
        comparison = dml.compare(
            dml.matrix_multiply_integer, a=a, a_zero_point=None, b=b, b_zero_point=None, actual=q.astype(np.int32)
        )
        assert best(comparison) == [name]


def other(array: Array) -> Array:
    return array.view(np.int8 if array.dtype == np.uint8 else np.uint8)


MISTAKES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "b_transposed": lambda c: {"b": c["b"].T},
    "a_transposed": lambda c: {"a": c["a"].T},
    "both_transposed": lambda c: {"a": c["a"].T, "b": c["b"].T},
    "no_a_zero_point": lambda c: {"a_zero_point": None},
    "no_b_zero_point": lambda c: {"b_zero_point": None},
    "no_input_zero_points": lambda c: {"a_zero_point": None, "b_zero_point": None},
    "no_output_zero_point": lambda c: {"output_zero_point": None},
    "no_zero_points": lambda c: {"a_zero_point": None, "b_zero_point": None, "output_zero_point": None},
    "a_signedness": lambda c: {"a": other(c["a"]), "a_zero_point": c["a_zero_point"]},
    "b_signedness": lambda c: {"b": other(c["b"]), "b_zero_point": c["b_zero_point"]},
    "a_and_zero_point_signedness": lambda c: {"a": other(c["a"]), "a_zero_point": other(c["a_zero_point"])},
    "b_and_zero_point_signedness": lambda c: {"b": other(c["b"]), "b_zero_point": other(c["b_zero_point"])},
    "a_and_b_zero_points_swapped": lambda c: {"a_zero_point": c["b_zero_point"].T, "b_zero_point": c["a_zero_point"].T},
    "a_and_output_zero_points_swapped": lambda c: {
        "a_zero_point": c["output_zero_point"],
        "output_zero_point": c["a_zero_point"],
    },
    "b_and_output_zero_points_swapped": lambda c: {
        "b_zero_point": c["output_zero_point"].T,
        "output_zero_point": c["b_zero_point"].T,
    },
    "a_scale_per_column": lambda c: {"a_scale": c["a_scale"].T},
    "b_scale_per_row": lambda c: {"b_scale": c["b_scale"].T},
    "output_scale_per_column": lambda c: {"output_scale": c["output_scale"].T},
    "output_signedness": lambda c: {"output_zero_point": other(c["output_zero_point"])},
}


def mistaken(call: dict[str, Any], limits: tuple[int, int]) -> Any:
    """The output of a call by integers and fractions, whatever the shapes and types of its parameters."""

    def wide(x: Any) -> Array:
        return np.zeros((1, 1), np.int64) if x is None else x.astype(np.int64)

    q = (wide(call["a"]) - wide(call["a_zero_point"])) @ (wide(call["b"]) - wide(call["b_zero_point"]))
    parameters = [call["a_scale"], call["b_scale"], call["output_scale"], wide(call["output_zero_point"])]
    each = [np.broadcast_to(x, q.shape).ravel() for x in parameters]
    result = [
        min(max(oracle.round_half_even(x * exact(a) * exact(b) / exact(y)) + int(z), limits[0]), limits[1])
        for x, a, b, y, z in zip(q.ravel().tolist(), *each, strict=True)
    ]
    return np.array(result, np.int64).reshape(q.shape)


def test_the_tables_are_tested_row_by_row() -> None:
    assert set(MISTAKES) == {deviation.name for deviation in PRODUCT_INPUTS}
    assert {d.name for d in (*REQUANTISATIONS, *PRODUCT_ACCUMULATORS, *ACCUMULATORS, *WINDOWS)} <= set(deviations.__all__)
    assert set(LITERAL) <= set(deviations.__all__)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistaken_input_is_named(name: str) -> None:
    call = product()
    limits = (0, 255) if name == "output_signedness" else (-128, 127)
    actual = mistaken({**call, **MISTAKES[name](call)}, limits).astype(np.uint8).view(np.int8)
    comparison = cause_of(call, actual)
    assert name in best(comparison)
    assert "tie" not in str(comparison)
    sentence = next(d.sentence for d in PRODUCT_INPUTS if d.name == name)
    assert f"It equals {sentence} in all 144 outputs; the exact result in " in str(comparison)


def test_a_matrix_read_column_by_column_is_named_whatever_its_sizes() -> None:
    a, b = (np.arange(n, dtype=np.uint8).reshape(sizes) for n, sizes in ((15, (3, 5)), (20, (5, 4))))
    read = b.ravel().reshape(4, 5).T.astype(np.int32)
    wrong = a.astype(np.int32) @ read
    arguments: dict[str, Any] = dict(a=a, a_zero_point=None, b=b, b_zero_point=None)
    assert best(dml.compare(dml.matrix_multiply_integer, **arguments, actual=wrong)) == ["b_transposed"]


def test_a_cause_that_explains_most_says_how_many() -> None:
    call = product()
    actual = requantised(call, sums(call, deviations.pair_saturation), deviations.exact_requantisation)
    comparison = cause_of(call, actual)
    right = comparison.total - comparison.differing
    at = tuple(np.argwhere(actual != mistaken(call, (-128, 127)))[0].tolist())
    actual[at] ^= 1
    comparison = cause_of(call, actual)
    assert comparison.causes[0].equal == 143
    assert str(comparison).endswith(
        f"It equals 16-bit pair saturation in 143 of 144 outputs ({comparison.differing - 1} of the "
        f"{comparison.differing} that differ); the exact result in {right}"
    )


def test_what_nothing_explains_has_no_cause() -> None:
    call = product()
    actual = np.random.default_rng(3).integers(-128, 128, (SIZE, SIZE)).astype(np.int8)
    comparison = cause_of(call, actual)
    assert comparison.causes == ()
    assert str(comparison).endswith("this is not a rounding difference")


def test_of_a_large_product_the_rows_that_differ_most_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    call = product((2, 3))
    actual = mistaken({**call, "b": call["b"].swapaxes(-2, -1)}, (-128, 127)).astype(np.int8)
    monkeypatch.setattr(causes_of_products, "MULTIPLICATIONS", SIZE**3 // 3)
    comparison = cause_of(call, actual)
    assert comparison.causes[0].name == "b_transposed"
    assert f"B transposed in all {SIZE * SIZE // 3} outputs looked at; the exact result in " in str(comparison)
    monkeypatch.setattr(causes_of_products, "MULTIPLICATIONS", 3 * SIZE**3)
    assert f"in all {3 * SIZE**2} outputs looked at" in str(cause_of(call, actual))
    few = mistaken(call, (-128, 127)).astype(np.int8)
    few[1, 2, 5] = actual[1, 2, 5]
    assert cause_of(call, few).causes == ()  # one row of three batches: B transposed equals 12 outputs of 432
    monkeypatch.setattr(causes_of_products, "MULTIPLICATIONS", 1)
    assert f"in all {SIZE} outputs looked at" in str(cause_of(call, few))


CUBE = np.arange(6 * 7 * 8, dtype=np.int16).reshape(6, 7, 8)
WINDOW = ((1, 1, 2), (4, 5, 5), (1, -3, -2), (3, 2, 2))  # max sizes 4, 2, 3


@pytest.mark.parametrize("deviation", WINDOWS, ids=lambda deviation: deviation.name)
def test_every_mistaken_window_is_named(deviation: changes.Deviation) -> None:
    offsets, sizes, strides, output_sizes = WINDOW
    if deviation.name == "first_element":
        offsets, sizes = (1, 4, 5), (4, 3, 3)
        strides, output_sizes = (1, -2, -2), (3, 2, 2)
    predicted = deviation.function(CUBE, offsets, sizes, strides, output_sizes)
    assert not np.ma.is_masked(predicted)
    comparison = dml.compare(
        dml.slice1, CUBE, offsets, sizes, strides, output_sizes=output_sizes, actual=np.ma.getdata(predicted)
    )
    assert deviation.name in best(comparison)
    assert f"It equals {deviation.sentence} in all 12 outputs; the exact result in " in str(comparison)


def test_a_window_one_element_off_is_named_with_its_dimension() -> None:
    offsets, sizes, strides, output_sizes = WINDOW
    for dimension in range(3):
        moved = list(offsets)
        moved[dimension] += 1
        actual = dml.slice1(CUBE, moved, sizes, strides, output_sizes=output_sizes)
        said = str(dml.compare(dml.slice1, CUBE, offsets, sizes, strides, output_sizes=output_sizes, actual=actual))
        assert f"It equals a copy that starts one element too late in dimension {dimension} in all 12 outputs" in said
    early = dml.slice(CUBE, (0, 0, 1), (3, 3, 3), (2, 2, 2))
    said = str(dml.compare(dml.slice, CUBE, (0, 0, 2), (3, 3, 3), (2, 2, 2), actual=early))
    assert "It equals a copy that starts one element too early in dimension 2 in all 27 outputs" in said
