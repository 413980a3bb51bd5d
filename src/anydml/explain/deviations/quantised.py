"""Deviations of quantised products and convolutions, as functions of accumulators, scales and zero points.

Scales are float32 numbers or arrays (others are rounded to float32). They and the output's zero point broadcast against the
accumulators, which are integers below 2^53 in magnitude. Outputs saturate at the limits of `output_data_type`, int8 or uint8.
TypeError or ValueError for other arguments; DataError for a scale that is 0, infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from anydml.errors import DataError
from anydml.explain.quotient import Quotient
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.tensor import DataType

Array = NDArray[Any]
LARGEST_ACCUMULATOR = 2**53

# --- accumulators ---


def accumulator(a: Array, b: Array, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0) -> NDArray[np.int64]:
    """The exact sums (a - a_zero_point) @ (b - b_zero_point) of int8 or uint8 matrices, which never wrap."""
    left, right = (eight_bit(name, x) for name, x in (("a", a), ("b", b)))
    # exact in any order of summation: every partial sum is an integer below 2^53
    sums: Array = (left.astype(np.float64) - zero_points(a_zero_point)) @ (right.astype(np.float64) - zero_points(b_zero_point))
    return sums.astype(np.int64)


def pair_saturation(a: Array, b: Array, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0) -> NDArray[np.int64]:
    """The sums if two neighbouring products are added in 16 bits, saturating, as x86's VPMADDUBSW does.

    That instruction multiplies unsigned by signed bytes. If both matrices have the same type, 128 is added to an int8 `a` or
    subtracted from a uint8 `b`; an int8 `a` and a uint8 `b` are swapped. The zero points are applied in 32 bits.
    """
    left, right = (eight_bit(name, x).astype(np.int32) for name, x in (("a", a), ("b", b)))
    shift_a = 128 if a.dtype == np.int8 and b.dtype == np.int8 else 0
    shift_b = -128 if a.dtype == np.uint8 and b.dtype == np.uint8 else 0
    lost = _saturated(left + shift_a, right + shift_b)
    return accumulator(a, b, a_zero_point, b_zero_point) + lost


def _saturated(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int64]:
    """The change that saturation in 16 bits makes to the sums of the products."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = np.zeros((*lead, a.shape[-2], b.shape[-1]), np.int64)
    for i in range(0, a.shape[-1] - 1, 2):  # a last product without a neighbour fits 16 bits
        x, y = a[..., i : i + 2], b[..., i : i + 2, :]
        if sum(int(np.abs(x[..., j]).max()) * int(np.abs(y[..., j, :]).max()) for j in (0, 1)) > 32767:
            pair = x[..., 0, None] * y[..., None, 0, :] + x[..., 1, None] * y[..., None, 1, :]
            result += np.clip(pair, -32768, 32767) - pair
    return result


def int32_wrap(accumulator: ArrayLike) -> NDArray[np.int64]:
    """The accumulators wrapped modulo 2^32 to int32."""
    return accumulators(accumulator).astype(np.int32).astype(np.int64)


def int32_saturation(accumulator: ArrayLike) -> NDArray[np.int64]:
    """The accumulators, clamped to the limits of int32."""
    return np.clip(accumulators(accumulator), -(2**31), 2**31 - 1)


# --- from accumulators to outputs ---


class Requantisation(Protocol):
    """A function from accumulators to quantised outputs."""

    def __call__(
        self,
        accumulator: ArrayLike,
        a_scale: ArrayLike,
        b_scale: ArrayLike,
        output_scale: ArrayLike,
        output_zero_point: ArrayLike = 0,
        *,
        output_data_type: DTypeLike | DataType,
    ) -> Array: ...


def _of_quotient(rounded: Callable[[Quotient, Array], Any]) -> Requantisation:
    """A saturating requantisation, from a function of the exact quotient and the output's zero point."""

    def requantise(
        accumulator: ArrayLike,
        a_scale: ArrayLike,
        b_scale: ArrayLike,
        output_scale: ArrayLike,
        output_zero_point: ArrayLike = 0,
        *,
        output_data_type: DTypeLike | DataType,
    ) -> Array:
        quotient = Quotient(accumulators(accumulator), *scales(a_scale, b_scale, output_scale))
        return clamped(rounded(quotient, zero_points(output_zero_point)), output_data_type)

    requantise.__name__, requantise.__doc__ = rounded.__name__, rounded.__doc__
    return requantise


def _in_float32(scaled: Callable[[Array, Array, Array, Array], Any]) -> Requantisation:
    """A requantisation that rounds half to even and saturates, from a function that scales accumulators in float32."""

    def requantise(
        accumulator: ArrayLike,
        a_scale: ArrayLike,
        b_scale: ArrayLike,
        output_scale: ArrayLike,
        output_zero_point: ArrayLike = 0,
        *,
        output_data_type: DTypeLike | DataType,
    ) -> Array:
        q = accumulators(accumulator).astype(np.float32)
        with np.errstate(all="ignore"):
            x = np.rint(scaled(q, *scales(a_scale, b_scale, output_scale)))
        # a NaN, the result of 0 * infinity, goes to the lower limit
        wide = np.nan_to_num(x.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        return clamped(wide + zero_points(output_zero_point), output_data_type)

    requantise.__name__, requantise.__doc__ = scaled.__name__, scaled.__doc__
    return requantise


@_of_quotient
def exact_requantisation(x: Quotient, zero_point: Array) -> Any:
    """The exact result: accumulator * a_scale * b_scale / output_scale, rounded once, half to even: no deviation."""
    return x.half_even + zero_point


@_in_float32
def float32_requantisation(q: Array, a: Array, b: Array, y: Array) -> Any:
    """rint(float32(accumulator) * float32(float32(a_scale * b_scale) / output_scale)), every step rounded to float32."""
    return q * (a * b / y)


@_in_float32
def float32_dequantised_product(q: Array, a: Array, b: Array, y: Array) -> Any:
    """rint(float32(accumulator) * float32(a_scale * b_scale) / output_scale), every step rounded to float32."""
    return q * (a * b) / y


@_in_float32
def reciprocal_output_scale(q: Array, a: Array, b: Array, y: Array) -> Any:
    """rint(float32(accumulator) * float32(a_scale * b_scale) * float32(1 / output_scale)), every step rounded to float32."""
    return q * (a * b) * (np.float32(1) / y)


@_in_float32
def reciprocal_multiplier(q: Array, a: Array, b: Array, y: Array) -> Any:
    """rint(float32(accumulator) * float32(a_scale * b_scale * float32(1 / output_scale))), every step rounded to float32."""
    return q * (a * b * (np.float32(1) / y))


@_of_quotient
def half_away_from_zero(x: Quotient, zero_point: Array) -> Any:
    """The exact quotient rounded to the nearest integer; at a tie, away from zero, as C's round() does."""
    return x.floor + ((x.half > 0) | (x.ties & (x.floor >= 0))) + zero_point


@_of_quotient
def half_up(x: Quotient, zero_point: Array) -> Any:
    """The exact quotient rounded to the nearest integer; at a tie, up, as floor(x + 0.5) does."""
    return x.floor + (x.half >= 0) + zero_point


@_of_quotient
def truncation(x: Quotient, zero_point: Array) -> Any:
    """The exact quotient rounded towards zero, as a conversion from float to int in C does."""
    return x.floor + ((x.floor < 0) & ~x.whole) + zero_point


@_of_quotient
def rounding_down(x: Quotient, zero_point: Array) -> Any:
    """The exact quotient rounded to the integer at or below it, as an arithmetic shift does."""
    return x.floor + zero_point


@_of_quotient
def zero_point_before_rounding(x: Quotient, zero_point: Array) -> Any:
    """The exact quotient rounded half to even after the zero point is added; an odd zero point reverses every tie."""
    return x.floor + ((x.half > 0) | (x.ties & ((x.floor + zero_point) & 1 == 1))) + zero_point


def wrapping_output(
    accumulator: ArrayLike,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike = 0,
    *,
    output_data_type: DTypeLike | DataType,
) -> Array:
    """The exact result wrapped modulo 2^8 where it should saturate."""
    quotient = Quotient(accumulators(accumulator), *scales(a_scale, b_scale, output_scale))
    result: Array = (quotient.half_even + zero_points(output_zero_point)).astype(_limits(output_data_type).dtype)
    return result


def scales(*values: ArrayLike) -> tuple[NDArray[np.float32], ...]:
    """The scales of A, B and the output as float32; DataError for one that is of no use."""
    result = []
    for name, value in zip(("a_scale", "b_scale", "output_scale"), values, strict=True):
        with np.errstate(all="ignore"):  # values beyond float32's range are refused below
            scale = np.atleast_1d(np.asarray(value, np.float32))
        unusable = QuantizedLinearMatrixMultiply.scale_usable.breaks(None, scale)
        if unusable.any():
            index = tuple(np.argwhere(unusable)[0].tolist())
            raise DataError(name, index, scale[index].item(), QuantizedLinearMatrixMultiply.scale_usable.sentence)
        result.append(scale)
    return tuple(result)


def accumulators(values: ArrayLike) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "iu":
        raise TypeError(f"accumulators must be integers, not {array.dtype}")
    if array.itemsize == 8 and array.size and max(int(array.max()), -int(array.min())) >= LARGEST_ACCUMULATOR:
        raise ValueError("an accumulator is 2^53 or more in magnitude")
    return array.astype(np.int64)


def zero_points(value: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"a zero point must be an integer, not {array.dtype}")
    return array.astype(np.int64)


def eight_bit(name: str, matrix: Array) -> Array:
    if not isinstance(matrix, np.ndarray) or matrix.dtype not in (np.int8, np.uint8):
        found = matrix.dtype if isinstance(matrix, np.ndarray) else type(matrix).__name__
        raise TypeError(f"{name} is {found}; it must be a matrix of int8 or uint8")
    return matrix


def _limits(data_type: DTypeLike | DataType) -> np.iinfo[Any]:
    dtype = data_type.dtype if isinstance(data_type, DataType) else np.dtype(data_type)
    if dtype not in (np.int8, np.uint8):
        raise TypeError(f"output_data_type is {dtype}; it must be int8 or uint8")
    return np.iinfo(dtype)


def clamped(values: Array, data_type: DTypeLike | DataType) -> Array:
    limits = _limits(data_type)
    return np.clip(values, limits.min, limits.max).astype(limits.dtype)
