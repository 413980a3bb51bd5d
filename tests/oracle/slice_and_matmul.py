"""SLICE, SLICE1 and the integer matmuls, as their documentation pages define them, and tensors in memory.

Everything is decided in Python's integers and fractions; NumPy only holds arrays, and does integer work in the faster variants.
The literal functions follow the documentation page formula by formula, and are slow. The faster ones are independent of them,
and `test_oracle.py` requires that all agree. Scales and zero points have the sizes of a desc: right-aligned to {B, C, M, N},
where size 1 means one element for all. Batches of A and B broadcast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Array = NDArray[Any]
HALF = Fraction(1, 2)


# --- tensors in memory ---


@dataclass(frozen=True)
class Tensor(Generic[T]):
    """Sizes, and the elements in row-major order."""

    sizes: tuple[int, ...]
    elements: tuple[T, ...]

    def __post_init__(self) -> None:
        if len(self.elements) != prod(self.sizes):
            raise ValueError(f"{len(self.elements)} elements cannot have the sizes {self.sizes}")

    def at(self, coordinate: Sequence[int]) -> T:
        """The element at a coordinate; one outside is an error."""
        position = 0
        for c, size in zip(coordinate, self.sizes, strict=True):
            if not 0 <= c < size:
                raise IndexError(f"{tuple(coordinate)} lies outside {self.sizes}")
            position = position * size + c
        return self.elements[position]


def bits_of(array: Array) -> Tensor[int]:
    """The array's elements as bit patterns, which are compared when bits are copied, NaN payloads included."""
    packed = np.ascontiguousarray(array)
    return Tensor(array.shape, tuple(packed.view(f"u{array.itemsize}").ravel().tolist()))


def layout(sizes: Sequence[int], strides: Sequence[int] | None = None) -> list[int]:
    """The offset of every element, in elements and in row-major order; without strides the layout is packed."""
    if strides is None:
        strides = nested_strides(sizes)
    return [
        sum(c * stride for c, stride in zip(coordinate, strides, strict=True))
        for coordinate in product(*(range(size) for size in sizes))
    ]


def nested_strides(sizes: Sequence[int], order: Sequence[int] | None = None, gap: int = 0) -> tuple[int, ...]:
    """Strides that nest the dimensions in `order`, outermost first, with `gap` unused elements after each of them."""
    strides = [0] * len(sizes)
    step = 1
    for dimension in reversed(range(len(sizes)) if order is None else order):
        strides[dimension] = step
        step = step * sizes[dimension] + gap
    return tuple(strides)


def span(sizes: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """The number of elements that a buffer needs."""
    return 1 + max(layout(sizes, strides))


def gather(buffer: Sequence[T], sizes: Sequence[int], strides: Sequence[int] | None = None) -> Tensor[T]:
    """The tensor with these sizes and strides in a flat buffer."""
    return Tensor(tuple(sizes), tuple(buffer[offset] for offset in layout(sizes, strides)))


def scatter(tensor: Tensor[T], strides: Sequence[int] | None, buffer: Sequence[T]) -> list[T]:
    """A copy of the flat buffer, with only the tensor's elements replaced."""
    result = list(buffer)
    for offset, element in zip(layout(tensor.sizes, strides), tensor.elements, strict=True):
        result[offset] = element
    return result


# --- slices ---


def max_copied(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The number of elements of a SLICE1 window along each dimension: the largest output sizes."""
    return tuple(1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True))


def slice1(
    input: Tensor[T],
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Tensor[T]:
    """SLICE1: a negative stride goes back from the END of the window."""
    start = [offset if stride > 0 else offset + size - 1 for offset, size, stride in zip(offsets, sizes, strides, strict=True)]
    return _walk(input, start, strides, output_sizes)


def slice_(input: Tensor[T], offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Tensor[T]:
    """SLICE: the sizes are those of the output."""
    return _walk(input, offsets, strides, sizes)


def _walk(input: Tensor[T], start: Sequence[int], strides: Sequence[int], output_sizes: Sequence[int]) -> Tensor[T]:
    elements = []
    for coordinate in product(*(range(size) for size in output_sizes)):
        source = [s + stride * c for s, stride, c in zip(start, strides, coordinate, strict=True)]
        elements.append(input.at(source))
    return Tensor(tuple(output_sizes), tuple(elements))


# --- numbers ---


@cache
def float32_parts(bits: int) -> tuple[int, int]:
    """A finite float32 bit pattern as (significand, exponent): significand * 2**exponent, both integers."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if not 0 <= bits < 1 << 32 or exponent == 0xFF:
        raise ValueError(f"{bits:#010x} is not the bit pattern of a finite float32")
    if exponent == 0:  # zero and the subnormal numbers: no hidden bit
        exponent = 1
    else:
        fraction |= 1 << 23
    return -fraction if sign else fraction, exponent - 150


def float32_fraction(bits: int) -> Fraction:
    """The exact value of a finite float32 bit pattern. No float is used, so that no flush-to-zero mode can affect it."""
    significand, exponent = float32_parts(bits)
    return Fraction(significand << max(exponent, 0), 1 << max(-exponent, 0))


def is_usable_scale(bits: int) -> bool:
    """Whether a scale is valid: not zero, infinite or NaN. Subnormal and negative ones are valid."""
    return bits & 0x7FFFFFFF != 0 and bits >> 23 & 0xFF != 0xFF


def round_half_even(x: Fraction) -> int:
    """The nearest integer, half to even."""
    floor = x.numerator // x.denominator
    rest = x - floor
    if rest == HALF:
        return floor if floor % 2 == 0 else floor + 1
    return floor if rest < HALF else floor + 1


def dequantize(x: int, scale: Fraction, zero_point: int) -> Fraction:
    """The real number that a quantized one represents."""
    return (x - zero_point) * scale


def quantize(x: Fraction, scale: Fraction, zero_point: int, lo: int, hi: int) -> int:
    """The quantized number nearest to a real one."""
    return min(max(round_half_even(x / scale) + zero_point, lo), hi)


# --- products, literally ---


def accumulate(a: Array, a_zero_point: Array | None, b: Array, b_zero_point: Array | None) -> NDArray[np.int64]:
    """The integer sums of (A - za) * (B - zb) over K, of any size: none of them wraps."""
    batches, m_size, k_size, n_size = _extents(a, b)
    at_a, at_b, at_za, at_zb = _reader(a), _reader(b), _reader(a_zero_point), _reader(b_zero_point)
    result = [
        sum((at_a(*batch, m, k) - at_za(*batch, m, n)) * (at_b(*batch, k, n) - at_zb(*batch, m, n)) for k in range(k_size))
        for batch in batches
        for m in range(m_size)
        for n in range(n_size)
    ]
    return np.array(result, np.int64).reshape(_output_shape(a, b))


def matrix_multiply_integer(a: Array, a_zero_point: Array | None, b: Array, b_zero_point: Array | None) -> NDArray[np.int32]:
    """MATRIX_MULTIPLY_INTEGER: the sums modulo 2**32, read as INT32."""
    sums = accumulate(a, a_zero_point, b, b_zero_point)
    wrapped = [(q + 2**31) % 2**32 - 2**31 for q in sums.ravel().tolist()]
    return np.array(wrapped, np.int32).reshape(sums.shape)


def quantized_linear_matrix_multiply(
    a: Array,
    a_scale: Array,
    a_zero_point: Array | None,
    b: Array,
    b_scale: Array,
    b_zero_point: Array | None,
    output_scale: Array,
    output_zero_point: Array | None,
    lo: int,
    hi: int,
) -> NDArray[np.int64]:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY as on its page: quantize(dequantize(A) @ dequantize(B)), in fractions.

    Scales are float32 arrays, or uint32 arrays of their bit patterns. `lo` and `hi` are the output type's limits.
    """
    batches, m_size, k_size, n_size = _extents(a, b)
    at_a, at_b, at_za, at_zb = _reader(a), _reader(b), _reader(a_zero_point), _reader(b_zero_point)
    at_sa, at_sb, at_sy = (_reader(_scale_bits(scale)) for scale in (a_scale, b_scale, output_scale))
    at_zy = _reader(output_zero_point)
    result = []
    for batch in batches:
        for m, n in product(range(m_size), range(n_size)):
            here = (*batch, m, n)
            sa, sb, sy = (float32_fraction(at(*here)) for at in (at_sa, at_sb, at_sy))
            real = sum(
                (
                    dequantize(at_a(*batch, m, k), sa, at_za(*here)) * dequantize(at_b(*batch, k, n), sb, at_zb(*here))
                    for k in range(k_size)
                ),
                start=Fraction(0),
            )
            result.append(quantize(real, sy, at_zy(*here), lo, hi))
    return np.array(result, np.int64).reshape(_output_shape(a, b))


def _scale_bits(scale: Array) -> Array:
    if scale.dtype not in (np.dtype(np.float32), np.dtype(np.uint32)):
        raise TypeError(f"a scale is float32 or its bit pattern, not {scale.dtype}")
    return scale.view(np.uint32)


def _extents(a: Array, b: Array) -> tuple[list[tuple[int, int]], int, int, int]:
    """The batch coordinates, M, K and N."""
    (*a_batch, m, k), (*b_batch, k_of_b, n) = _four(a.shape), _four(b.shape)
    if k != k_of_b:
        raise ValueError(f"K is {k} in A and {k_of_b} in B")
    first, second = (range(max(sizes)) for sizes in zip(a_batch, b_batch, strict=True))
    return list(product(first, second)), m, k, n


def _output_shape(a: Array, b: Array) -> tuple[int, ...]:
    batch = [max(sizes) for sizes in zip(_four(a.shape)[:2], _four(b.shape)[:2], strict=True)]
    rank = max(a.ndim, b.ndim)
    return (*batch, a.shape[-2], b.shape[-1])[4 - rank :]


def _four(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes extended to four dimensions by leading ones."""
    return (1,) * (4 - len(sizes)) + sizes


def _reader(array: Array | None) -> Callable[[int, int, int, int], int]:
    """A function that reads one element as a Python integer; along a size of 1, it is the same for all; an absent one is 0."""
    if array is None:
        return lambda *coordinate: 0
    tensor: Tensor[int] = Tensor(_four(array.shape), tuple(array.ravel().tolist()))

    def read(*coordinate: int) -> int:
        return tensor.at([0 if size == 1 else c for c, size in zip(coordinate, tensor.sizes, strict=True)])

    return read


# --- the same products, faster ---


def accumulate_bulk(a: Array, a_zero_point: Array | None, b: Array, b_zero_point: Array | None) -> NDArray[np.int64]:
    """The result of `accumulate`, by a float64 product, which is exact: up to K = 2**37 every product and every partial sum, in
    any order, is an integer below 2**53."""

    def widened(array: Array | None) -> Array:
        wide = np.zeros(1) if array is None else array.astype(np.float64, order="C")
        return wide.reshape(_four(wide.shape))

    sums: Array = ((widened(a) - widened(a_zero_point)) @ (widened(b) - widened(b_zero_point))).astype(np.int64)
    return sums.reshape(_output_shape(a, b))


def quantized_linear_matrix_multiply_bulk(
    a: Array,
    a_scale: Array,
    a_zero_point: Array | None,
    b: Array,
    b_scale: Array,
    b_zero_point: Array | None,
    output_scale: Array,
    output_zero_point: Array | None,
    lo: int,
    hi: int,
) -> NDArray[np.int64]:
    """The result of `quantized_linear_matrix_multiply`: the sums by NumPy, the rounding by one integer division each."""
    sums = accumulate_bulk(a, a_zero_point, b, b_zero_point)
    four = _four(sums.shape)

    def everywhere(array: Array) -> list[int]:
        values: list[int] = np.broadcast_to(array.reshape(_four(array.shape)), four).ravel().tolist()
        return values

    scales = [everywhere(_scale_bits(scale)) for scale in (a_scale, b_scale, output_scale)]
    zero_points = everywhere(np.zeros(1, np.int64) if output_zero_point is None else output_zero_point)
    result = [
        min(max(_rounded_quotient(q, a_bits, b_bits, y_bits) + zero_point, lo), hi)
        for q, a_bits, b_bits, y_bits, zero_point in zip(sums.ravel().tolist(), *scales, zero_points, strict=True)
    ]
    return np.array(result, np.int64).reshape(sums.shape)


def _rounded_quotient(q: int, a_bits: int, b_bits: int, y_bits: int) -> int:
    (a, a_exponent), (b, b_exponent), (y, y_exponent) = map(float32_parts, (a_bits, b_bits, y_bits))
    exponent = a_exponent + b_exponent - y_exponent
    numerator, denominator = q * a * b << max(exponent, 0), y << max(-exponent, 0)
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    floor, rest = divmod(numerator, denominator)
    return floor + (2 * rest > denominator or (2 * rest == denominator and floor % 2 == 1))


def quantize_sums(
    sums: NDArray[np.int64], a_bits: int, b_bits: int, y_bits: int, zero_point: int, lo: int, hi: int
) -> NDArray[np.int64]:
    """Quantizes many sums with one set of scales, by searching each among the sums at which the result changes.

    This is a third independent way, for exhaustive tests: the result is a step function of the sum, so that the 255 sums at
    which it changes determine it, and they are found exactly.
    """
    ratio = float32_fraction(a_bits) * float32_fraction(b_bits) / float32_fraction(y_bits)
    steps = _steps(abs(ratio), lo - zero_point, hi - zero_point)
    return lo + np.searchsorted(steps, sums if ratio > 0 else -sums, side="right").astype(np.int64)


@cache
def _steps(ratio: Fraction, lo: int, hi: int) -> NDArray[np.int64]:
    """For each value above lo, the smallest integer q for which q * ratio rounds to it or higher."""
    steps = []
    for value in range(lo + 1, hi + 1):
        boundary = (value - HALF) / ratio
        at_or_above = -(-boundary.numerator // boundary.denominator)
        # A tie is rounded to the even side, which is up only if the value is even.
        on_boundary = boundary.denominator == 1
        steps.append(at_or_above + 1 if on_boundary and value % 2 == 1 else at_or_above)
    # No sum is close to 2**62, so that a step above may be stored as this; int64 could not represent it.
    return np.array([min(max(step, -(2**62)), 2**62) for step in steps], np.int64)
