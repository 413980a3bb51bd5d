"""The integer arithmetic of phones, step by step in Python integers, as it is written in the sources named beside each step.

gemmlowp: fixedpoint/fixedpoint.h. TFLite: kernels/internal/common.cc, quantization_util.cc and reference/. CMSIS-NN:
Include/arm_nnsupportfunctions.h and Source/. Integers of C do not overflow here; a check says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def int32(x: int) -> int:
    assert INT32_MIN <= x <= INT32_MAX, x
    return x


def c_quotient(x: int, y: int) -> int:
    """C's division: towards zero."""
    return x // y if (x < 0) == (y < 0) else -(-x // y)


# --- gemmlowp ---


def saturating_rounding_doubling_high_mul(a: int, b: int) -> int:
    overflow = a == b == INT32_MIN
    ab = a * b
    nudge = 1 << 30 if ab >= 0 else 1 - (1 << 30)
    return INT32_MAX if overflow else int32(c_quotient(ab + nudge, 1 << 31))


def rounding_divide_by_pot(x: int, exponent: int) -> int:
    assert 0 <= exponent <= 31
    mask = (1 << exponent) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if remainder > threshold else 0)


# --- TFLite ---


class Multiplier(NamedTuple):
    value: int
    shift: int


def quantize_multiplier(double_multiplier: float) -> Multiplier:
    if double_multiplier == 0:
        return Multiplier(0, 0)
    q, shift = math.frexp(double_multiplier)
    q_fixed = int(math.copysign(math.floor(abs(q) * (1 << 31) + 0.5), q))  # TfLiteRound, half away from zero
    assert abs(q_fixed) <= 1 << 31
    if abs(q_fixed) == 1 << 31:
        q_fixed = c_quotient(q_fixed, 2)
        shift += 1
    return Multiplier(0, 0) if shift < -31 else Multiplier(q_fixed, shift)


def multiply_by_quantized_multiplier(x: int, m: Multiplier) -> int:
    left_shift = max(m.shift, 0)
    right_shift = 0 if m.shift > 0 else -m.shift
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(int32(x * (1 << left_shift)), m.value), right_shift)


def multiply_by_quantized_multiplier_single_rounding(x: int, m: Multiplier) -> int:
    total_shift = 31 - m.shift
    return int32((x * m.value + (1 << (total_shift - 1))) >> total_shift)


def multiply_by_quantized_multiplier_neon(x: int, m: Multiplier) -> int:
    """The four rows of Arm's vectors: VSHL, VQRDMULH and VRSHL, which rounds half up."""
    left_shift, right_shift = max(m.shift, 0), -min(m.shift, 0)
    high = (2 * int32(x << left_shift) * m.value + (1 << 31)) >> 32
    return high if right_shift == 0 else (high + (1 << (right_shift - 1))) >> right_shift


def multiply_by_quantized_multiplier_int64(x: int, m: Multiplier) -> int:
    reduced_multiplier = (m.value + (1 << 15)) >> 16 if m.value < 0x7FFF0000 else 0x7FFF
    total_shift = 15 - m.shift
    return int32((x * reduced_multiplier + (1 << (total_shift - 1))) >> total_shift)


def add(
    x: tuple[int, ...], y: tuple[int, ...], scales: tuple[float, float, float], zero_points: tuple[int, int, int]
) -> list[int]:
    """AddElementwise of int8 with the parameters of CalculateOpDataAdd."""
    left_shift = 20
    twice_max_input_scale = 2 * max(scales[:2])
    one, other = (quantize_multiplier(s / twice_max_input_scale) for s in scales[:2])
    output = quantize_multiplier(twice_max_input_scale / ((1 << left_shift) * scales[2]))
    result = []
    for a, b in zip(x, y, strict=True):
        scaled = (
            multiply_by_quantized_multiplier(int32((a - zero_points[0]) * (1 << left_shift)), one),
            multiply_by_quantized_multiplier(int32((b - zero_points[1]) * (1 << left_shift)), other),
        )
        raw = multiply_by_quantized_multiplier(int32(sum(scaled)), output) + zero_points[2]
        result.append(min(max(raw, -128), 127))
    return result


def average(acc: int, filter_count: int) -> int:
    """The rounding of AveragePool, and of arm_avgpool_s8."""
    half = filter_count // 2
    acc = c_quotient(acc + half, filter_count) if acc > 0 else c_quotient(acc - half, filter_count)
    return min(max(acc, -128), 127)


# --- CMSIS-NN ---


def arm_nn_doubling_high_mult(m1: int, m2: int) -> int:
    mult = 1 << 30
    if (m1 < 0) ^ (m2 < 0):
        mult = 1 - mult
    mult = mult + m1 * m2
    return INT32_MAX if m1 == m2 == INT32_MIN else int32(c_quotient(mult, 1 << 31))


def arm_nn_divide_by_power_of_two(dividend: int, exponent: int) -> int:
    remainder_mask = (1 << exponent) - 1
    remainder = remainder_mask & dividend
    result = dividend >> exponent
    threshold = remainder_mask >> 1
    if result < 0:
        threshold += 1
    if remainder > threshold:
        result += 1
    return result


def arm_nn_requantize(val: int, m: Multiplier) -> int:
    left, right = max(m.shift, 0), max(-m.shift, 0)
    return arm_nn_divide_by_power_of_two(arm_nn_doubling_high_mult(int32(val * (1 << left)), m.value), right)


def arm_nn_requantize_single_rounding(val: int, m: Multiplier) -> int:
    total_shift = 31 - m.shift
    return int32(((val * m.value >> (total_shift - 1)) + 1) >> 1)


def arm_nn_requantize_s64(val: int, reduced_multiplier: int, shift: int) -> int:
    return int32(((val * reduced_multiplier >> (14 - shift)) + 1) >> 1)
