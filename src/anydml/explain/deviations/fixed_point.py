"""Deviations of phones and NPUs: requantisation in integers alone, by a multiplier and a shift, and narrow accumulators.

Scales, zero points and output types are those of `quantised`. Accumulators wrap to int32 first, as there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from anydml.explain.deviations.quantised import (
    Array,
    Requantisation,
    accumulators,
    clamped,
    eight_bit,
    zero_points,
)
from anydml.explain.deviations.quantised import scales as usable
from anydml.tensor import DataType

Integers = NDArray[np.int64]
GRID = 20  # binary places that TFLite's addition keeps


Scales = tuple[Array, Array, Array]  # of A, B and the output, in float32


def _in_integers(scaled: Callable[[Integers, Scales], Integers]) -> Requantisation:
    """A saturating requantisation, from a function that scales int32 accumulators."""

    def requantise(
        accumulator: ArrayLike,
        a_scale: ArrayLike,
        b_scale: ArrayLike,
        output_scale: ArrayLike,
        output_zero_point: ArrayLike = 0,
        *,
        output_data_type: DTypeLike | DataType,
    ) -> Array:
        a, b, y = usable(a_scale, b_scale, output_scale)
        q = _wrapped(accumulators(accumulator))
        return clamped(scaled(q, (a, b, y)) + zero_points(output_zero_point), output_data_type)

    requantise.__name__, requantise.__doc__ = scaled.__name__, scaled.__doc__
    return requantise


@_in_integers
def fixed_point_double_rounding(q: Integers, scales: Scales) -> Integers:
    """The accumulator times a 31-bit integer, rounded to an integer, and shifted right, rounded again, half away from zero.

    TFLite's MultiplyByQuantizedMultiplier, gemmlowp's, and CMSIS-NN's arm_nn_requantize.
    """
    return multiplied(q, *multiplier_and_shift(_multiplier(scales)))


@_in_integers
def fixed_point_ties_up(q: Integers, scales: Scales) -> Integers:
    """The accumulator times a 31-bit integer, rounded to an integer, and shifted right, rounded again, half up.

    TFLite's MultiplyByQuantizedMultiplier on Arm's vector units, VQRDMULH and VRSHL.
    """
    m, shift = multiplier_and_shift(_multiplier(scales))
    return _shifted(_high_product(_wrapped(q << np.maximum(shift, 0)), m), np.maximum(-shift, 0))


@_in_integers
def fixed_point_single_rounding(q: Integers, scales: Scales) -> Integers:
    """The accumulator times a 31-bit integer, shifted right, rounded once, half up.

    TFLite's MultiplyByQuantizedMultiplier with TFLITE_SINGLE_ROUNDING, arm_nn_requantize with CMSIS_NN_USE_SINGLE_ROUNDING.
    """
    m, shift = multiplier_and_shift(_multiplier(scales))
    return _shifted(q * m, 31 - np.minimum(shift, 30))


@_in_integers
def fixed_point_16_bits(q: Integers, scales: Scales) -> Integers:
    """The accumulator times a 15-bit integer, shifted right, rounded once, half up: TFLite's for accumulators of 64 bits.

    CMSIS-NN's arm_nn_requantize_s64 is the same.
    """
    return multiplied_in_16_bits(q, *multiplier_and_shift(_multiplier(scales)))


@_in_integers
def float32_multiplier_in_integers(q: Integers, scales: Scales) -> Integers:
    """The accumulator times the multiplier rounded to float32, rounded once, half up: XNNPACK's rndnu on Arm."""
    a, b, y = scales
    with np.errstate(all="ignore"):
        m, exponent = np.frexp(np.nan_to_num(a * b / y).astype(np.float64))
    return _shifted(q * np.ldexp(m, 24).astype(np.int64), np.maximum(24 - exponent.astype(np.int64), 0))


@_in_integers
def power_of_two_multiplier(q: Integers, scales: Scales) -> Integers:
    """The accumulator shifted by the whole number nearest to the multiplier's binary logarithm, rounded half up.

    Right for scales that are powers of two, as many NPUs demand, and a deviation for others.
    """
    multiplier = _multiplier(scales)
    with np.errstate(all="ignore"):
        shift = np.nan_to_num(np.rint(np.log2(np.abs(multiplier))), neginf=-62).astype(np.int64)
    sign = np.sign(multiplier).astype(np.int64)
    return _shifted(sign * q << np.clip(shift, 0, 30), np.maximum(-shift, 0))


def _multiplier(scales: Scales) -> NDArray[np.float64]:
    a, b, y = (x.astype(np.float64) for x in scales)
    multiplier: NDArray[np.float64] = a * b / y
    return multiplier


def multiplier_and_shift(multiplier: NDArray[np.float64]) -> tuple[Integers, Integers]:
    """Integers m, below 2^31, and shifts such that multipliers are about m * 2^(shift - 31): TFLite's QuantizeMultiplier."""
    significand, exponent = np.frexp(multiplier)
    scaled = np.ldexp(significand, 31)
    m = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    whole = np.abs(m) == 1 << 31
    m, shift = np.where(whole, m // 2, m), exponent.astype(np.int64) + whole
    small = shift < -31
    return np.where(small, 0, m), np.where(small, 0, shift)


def multiplied(x: Integers, m: Integers, shift: Integers) -> Integers:
    """x * m * 2^(shift - 31), rounded twice: TFLite's MultiplyByQuantizedMultiplier."""
    return _divided(_high_product(_wrapped(x << np.maximum(shift, 0)), m), np.maximum(-shift, 0))


def multiplied_in_16_bits(x: Integers, m: Integers, shift: Integers) -> Integers:
    """x * m * 2^(shift - 31) with the upper 16 bits of m, rounded once: that function of accumulators of 64 bits."""
    reduced = np.where(m < 0x7FFF0000, m + (1 << 15) >> 16, 0x7FFF)
    return _shifted(x * reduced, np.maximum(15 - shift, 1))


def _high_product(x: Integers, m: Integers) -> Integers:
    """x * m / 2^31 rounded to an integer, half up: gemmlowp's SaturatingRoundingDoublingHighMul, Arm's VQRDMULH."""
    return x * m + (1 << 30) >> 31


def _divided(x: Integers, exponent: Integers) -> Integers:
    """x / 2^exponent rounded to an integer, half away from zero: gemmlowp's RoundingDivideByPOT."""
    half = np.where(exponent > 0, 1 << np.maximum(exponent - 1, 0), 0)
    rounded: Integers = np.sign(x) * (np.abs(x) + half >> exponent)
    return rounded


def _shifted(x: Integers, places: Integers) -> Integers:
    """x / 2^places rounded to an integer, half up."""
    places = np.minimum(places, 62)
    rounded: Integers = np.where(places > 0, (x >> np.maximum(places - 1, 0)) + 1 >> 1, x)
    return rounded


def _wrapped(x: Integers) -> Integers:
    return x.astype(np.int32).astype(np.int64)


# --- additions and means ---


def fixed_point_addition(
    a: Array,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: Array,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike = 0,
    *,
    output_data_type: DTypeLike | DataType,
    single_rounding: bool = False,
) -> Array:
    """The sum of two quantised tensors as TFLite and CMSIS-NN add them: in integers, with 20 more binary places.

    Both terms are brought to twice the larger scale, added, and requantised, each by a multiplier and a shift.
    single_rounding: as in `fixed_point_single_rounding`; otherwise as in `fixed_point_double_rounding`.
    """
    one, other, y = (x.astype(np.float64) for x in usable(a_scale, b_scale, output_scale))
    twice = 2 * np.maximum(one, other)

    def multiplied(x: Integers, multiplier: NDArray[np.float64]) -> Integers:
        m, shift = multiplier_and_shift(multiplier)
        if single_rounding:
            return _shifted(x * m, 31 - shift)
        return _divided(_high_product(x, m), -shift)

    total: Integers = np.zeros((), np.int64)
    for x, scale, zero_point in ((a, one, a_zero_point), (b, other, b_zero_point)):
        total = total + multiplied((eight_bit("a term", x).astype(np.int64) - zero_points(zero_point)) << GRID, scale / twice)
    return clamped(multiplied(total, twice / (2.0**GRID * y)) + zero_points(output_zero_point), output_data_type)


def mean_of_integers(total: ArrayLike, count: ArrayLike, *, output_data_type: DTypeLike | DataType) -> Array:
    """The mean of quantised elements themselves, half away from zero, as TFLite and CMSIS-NN average windows.

    total: sums of the elements, without subtracting zero points; count: the number of elements in each.
    """
    q, n = accumulators(total), accumulators(count)
    return clamped(np.sign(q) * ((np.abs(q) + n // 2) // n), output_data_type)


# --- accumulators ---


def int16_saturation(accumulator: ArrayLike) -> Integers:
    """The accumulators, clamped to the limits of int16."""
    return np.clip(accumulators(accumulator), -(2**15), 2**15 - 1)


def int16_wrap(accumulator: ArrayLike) -> Integers:
    """The accumulators wrapped modulo 2^16 to int16."""
    return accumulators(accumulator).astype(np.int16).astype(np.int64)


def int16_accumulation(a: Array, b: Array, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0) -> Integers:
    """The sums if each product is added in order to an accumulator of 16 bits, which saturates at each step."""
    left = eight_bit("a", a).astype(np.int64) - zero_points(a_zero_point)
    right = eight_bit("b", b).astype(np.int64) - zero_points(b_zero_point)
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.int64)
    for k in range(a.shape[-1]):
        total = np.clip(total + left[..., :, k, None] * right[..., k, None, :], -(2**15), 2**15 - 1)
    return total
