"""Quantized products that inexact implementations compute wrongly.

Random data rarely have ties, so these cases are constructed: ties and numbers close to ties, scales at the ends of float32,
sums that exceed int32, every granularity, every combination of types. All generators are deterministic: the same seed gives the
same cases. Like the oracle, this module imports nothing of anydml.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import oracle

Array = NDArray[Any]
DType = np.dtype[Any]

INT8: DType = np.dtype(np.int8)
UINT8: DType = np.dtype(np.uint8)
TYPE_COMBINATIONS: tuple[tuple[DType, DType, DType], ...] = tuple(product((INT8, UINT8), (INT8, UINT8), (INT8, UINT8)))
"""The types of A, B and the output: chosen independently."""


@dataclass(frozen=True, eq=False)
class QuantizedCase:
    """The operands of a QUANTIZED_LINEAR_MATRIX_MULTIPLY, with the sizes of their descs."""

    name: str
    a: Array
    a_scale: Array
    a_zero_point: Array | None
    b: Array
    b_scale: Array
    b_zero_point: Array | None
    output_scale: Array
    output_zero_point: Array | None
    output_type: DType
    distance_to_tie: Fraction | None = None
    """The distance of the real value of *every* output element from a tie, before the zero point; None if it is not known."""

    def __str__(self) -> str:
        return self.name

    @property
    def operands(self) -> tuple[Array, Array, Array | None, Array, Array, Array | None, Array, Array | None]:
        """The eight inputs in binding order."""
        return (
            *(self.a, self.a_scale, self.a_zero_point),
            *(self.b, self.b_scale, self.b_zero_point),
            *(self.output_scale, self.output_zero_point),
        )

    def in_four_dimensions(self) -> "QuantizedCase":
        """The same case with four dimensions, as the oldest feature level requires."""

        def four(array: Array) -> Array:
            return array.reshape((1,) * (4 - array.ndim) + array.shape)

        return replace(
            self,
            a=four(self.a),
            a_scale=four(self.a_scale),
            a_zero_point=None if self.a_zero_point is None else four(self.a_zero_point),
            b=four(self.b),
            b_scale=four(self.b_scale),
            b_zero_point=None if self.b_zero_point is None else four(self.b_zero_point),
            output_scale=four(self.output_scale),
            output_zero_point=None if self.output_zero_point is None else four(self.output_zero_point),
        )


def expected(case: QuantizedCase) -> Array:
    """The exact result, by the fastest function of the oracle that supports the case."""
    lo, hi = limits(case.output_type)
    per_tensor = (case.a_scale, case.b_scale, case.output_scale, case.output_zero_point)
    if any(array is not None and array.size > 1 for array in per_tensor):
        return oracle.quantized_linear_matrix_multiply_bulk(*case.operands, lo, hi).astype(case.output_type)
    sums = oracle.accumulate_bulk(case.a, case.a_zero_point, case.b, case.b_zero_point)
    scales = [int(scale.view(np.uint32).item()) for scale in (case.a_scale, case.b_scale, case.output_scale)]
    zero_point = 0 if case.output_zero_point is None else int(case.output_zero_point.item())
    return oracle.quantize_sums(sums, scales[0], scales[1], scales[2], zero_point, lo, hi).astype(case.output_type)


@cache
def with_expected(generate: Callable[[], Iterator[QuantizedCase]]) -> tuple[tuple[QuantizedCase, Array], ...]:
    """The cases of a generator with their exact results, made once for all kernels."""
    return tuple((case, expected(case)) for case in generate())


# --- building blocks ---


def limits(data_type: DType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    info = np.iinfo(data_type)
    return int(info.min), int(info.max)


def nearest_float32(x: Fraction) -> int:
    """The bits of the float32 scale nearest to x, which is neither zero nor infinite."""
    sign = 1 << 31 if x < 0 else 0
    x = abs(x)
    exponent = max(x.numerator.bit_length() - x.denominator.bit_length() - 24, -149)
    significand = oracle.round_half_even(x / Fraction(2) ** exponent)
    if significand >= 1 << 24:  # the exponent is exact or too low by one
        exponent += 1
        significand = oracle.round_half_even(x / Fraction(2) ** exponent)
    if significand == 1 << 24:
        significand, exponent = 1 << 23, exponent + 1
    if exponent > 104:
        return sign | 0x7F7FFFFF
    if significand < 1 << 23:
        return sign | max(significand, 1)
    return sign | (exponent + 150) << 23 | significand - (1 << 23)


def float32_bits(significand: int, exponent: int = 0) -> int:
    """The bits of significand * 2**exponent, which must be a float32."""
    x = significand * Fraction(2) ** exponent
    bits = nearest_float32(x)
    if oracle.float32_fraction(bits) != x:
        raise ValueError(f"{significand} * 2**{exponent} is no float32")
    return bits


def scales_of(bits: int | Iterable[int], sizes: Sequence[int] = (1, 1)) -> NDArray[np.float32]:
    """A float32 array from bit patterns; a single pattern is repeated for all elements."""
    patterns = [bits] * prod(sizes) if isinstance(bits, int) else list(bits)
    return np.array(patterns, np.uint32).view(np.float32).reshape(sizes)


def _zero_point(value: int, data_type: DType) -> Array:
    return np.full((1, 1), value, data_type)


def _random_array(rng: random.Random, sizes: Sequence[int], data_type: DType) -> Array:
    return np.frombuffer(rng.randbytes(prod(sizes)), data_type).reshape(sizes)


def vectors_with_sum(
    q: int, k: int, rng: random.Random, a_type: DType = UINT8, b_type: DType = UINT8
) -> tuple[Array, int, Array, int]:
    """A row, its zero point, a column and its zero point whose K products have the sum q exactly; K >= 8.

    The zero points are in the middle of their types if q is small enough, and at or near the ends of the types if it is large.
    ValueError if q is too large for K.
    """
    (a_lo, a_hi), (b_lo, b_hi) = limits(a_type), limits(b_type)
    if abs(q) <= 2000 * k:
        a_zero_point, b_zero_point = rng.randint(a_lo + 64, a_hi - 64), rng.randint(b_lo + 64, b_hi - 64)
    else:
        room = rng.randrange(16) if abs(q) <= 40000 * k else 0
        a_zero_point, b_zero_point = a_lo + room, b_lo + room if q > 0 else b_hi - room

    # From here on, a and b are numbers minus their zero points.
    ranges = ((a_lo - a_zero_point, a_hi - a_zero_point), (b_lo - b_zero_point, b_hi - b_zero_point))
    a, b = ([rng.randint(lo, hi) or (1 if hi > 0 else -1) for _ in range(k)] for lo, hi in ranges)
    # The first two products make the sum exact, one in steps of a hundred, one in steps of one. They use the longer side of
    # either range and begin near its middle, so that they can change in both directions.
    a_side, b_side = (1 if hi >= -lo else -1 for lo, hi in ranges)
    b[0], b[1] = 100 * b_side, b_side
    rest = q - 50 * a_side * b[0] - sum(x * y for x, y in zip(a[2:], b[2:], strict=True))
    for moved, fixed, (lo, hi) in ((a, b, ranges[0]), (b, a, ranges[1])) * 3:
        for i in range(2, k):
            if abs(rest) < 256:
                break
            if fixed[i]:
                step = abs(rest) // abs(fixed[i]) * (1 if (rest > 0) == (fixed[i] > 0) else -1)
                new = min(max(moved[i] + step, lo), hi)
                rest -= (new - moved[i]) * fixed[i]
                moved[i] = new
    rest = (rest + 50 * a_side * b[0]) * b_side
    a[0] = rest // 100 if a_side > 0 else -(-rest // 100)
    a[1] = rest - 100 * a[0]
    if not all(ranges[0][0] <= x <= ranges[0][1] for x in a[:2]):
        raise ValueError(f"no sum of {q} with K = {k}")

    order = rng.sample(range(k), k)
    row = np.array([a[i] + a_zero_point for i in order], a_type)
    column = np.array([b[i] + b_zero_point for i in order], b_type)
    return row, a_zero_point, column, b_zero_point


# --- close to ties ---


class NearTie(NamedTuple):
    """A sum and three scales (bits): q * a * b / y is `distance` away from the half-integer `half`."""

    q: int
    a_bits: int
    b_bits: int
    y_bits: int
    half: Fraction
    distance: Fraction


class _Region(NamedTuple):
    """Exponents of the scales of A and the output for a search of near-ties; the exponent of B's scale follows from them."""

    a_exponent: int
    y_exponent: int
    a_significand_bits: int = 24
    y_significand_bits: int = 24


NEAR_TIE_REGIONS = {
    "ordinary scales": _Region(-31, -28),
    "a scale subnormal": _Region(-149, -90, a_significand_bits=23),
    "output scale subnormal": _Region(-80, -149, y_significand_bits=23),
    "a and output scale subnormal": _Region(-149, -149, a_significand_bits=23, y_significand_bits=23),
    "product of scales underflows": _Region(-95, -149),
    "huge scales": _Region(60, 104),
}


def near_tie(rng: random.Random, largest_q: int, region: str = "ordinary scales", tries: int = 200) -> NearTie:
    """The near-tie with the least relative distance from the half-integer among several with |q| <= largest_q.

    With integer significands A, B and Y, q / Y should be close to x = h * 2**shift / (A * B). The best rational approximations
    with bounded terms are convergents of the continued fraction of x, with a relative error of about 1 / (q * Y).
    """
    where = NEAR_TIE_REGIONS[region]
    y_bound = 1 << where.y_significand_bits
    found: list[tuple[Fraction, tuple[int, int, int, int, int, int]]] = []
    while len(found) < tries:
        a = rng.randrange(1 << where.a_significand_bits - 1, 1 << where.a_significand_bits)
        b = rng.randrange(1 << 23, 1 << 24)
        twice_half = 2 * rng.randrange(250) + 1
        # For terms close to both bounds, x has to be largest_q / y_bound, up to a factor of two.
        shift = (2 * a * b * largest_q // (twice_half * y_bound)).bit_length() - 1
        x_numerator, x_denominator = twice_half << shift, 2 * a * b
        best = None
        for q, y in _convergents(x_numerator, x_denominator):
            if q > largest_q or y >= y_bound:
                break
            best = q, y
        if best is None or best[0] == 0:
            continue
        q, y = best
        difference = abs(q * x_denominator - y * x_numerator)
        if difference:  # without a difference it is a tie
            found.append((Fraction(difference, y * x_numerator), (q, a, b, y, twice_half, shift)))
    distance, (q, a, b, y, twice_half, shift) = min(found)
    sign_q, sign_a, sign_b, sign_y = (rng.choice((1, -1)) for _ in range(4))
    half = Fraction(twice_half, 2)
    return NearTie(
        sign_q * q,
        float32_bits(sign_a * a, where.a_exponent),
        float32_bits(sign_b * b, where.y_exponent - where.a_exponent - shift),
        float32_bits(sign_y * y, where.y_exponent),
        sign_q * sign_a * sign_b * sign_y * half,
        distance * half,
    )


def _convergents(numerator: int, denominator: int) -> Iterator[tuple[int, int]]:
    (p, p_before), (q, q_before) = (1, 0), (0, 1)
    while denominator:
        whole, rest = divmod(numerator, denominator)
        p, p_before = whole * p + p_before, p
        q, q_before = whole * q + q_before, q
        yield p, q
        numerator, denominator = denominator, rest


def near_ties(seed: int = 0, count: int = 48) -> Iterator[QuantizedCase]:
    """Products with every element close to a tie, mostly closer than float64 can tell."""
    rng = random.Random(seed)
    for i in range(count):
        a_type, b_type, output_type = TYPE_COMBINATIONS[i % 8]
        region = list(NEAR_TIE_REGIONS)[i // 2 % len(NEAR_TIE_REGIONS)]
        # With sums up to 2,000 * K, zero points can be in the middle of their types; this needs a larger K.
        central = i % 3 == 0
        k = 140_000 if i % 11 == 7 else rng.choice((4095, 4096) if central else (1023, 2048, 4095, 4096))
        tie = near_tie(rng, k * (2000 if central else 60_000), region)
        m, n = (2, 3) if k > 4096 else (rng.randint(1, 5), rng.randint(1, 40))
        name = f"{i}: near-tie, {region}, K={k}, {_type_names(a_type, b_type, output_type)}"
        yield _steered(name, tie, k, m, n, rng, (a_type, b_type, output_type))


def _steered(
    name: str, tie: NearTie, k: int, m: int, n: int, rng: random.Random, types: tuple[DType, DType, DType]
) -> QuantizedCase:
    """M equal rows and N equal columns, so that every lane and every remainder of a kernel has the near-tie.

    Scales of rows and of columns differ only in their signs: the negative of a near-tie is as close to a tie.
    """
    a_type, b_type, output_type = types
    row, a_zero_point, column, b_zero_point = vectors_with_sum(tie.q, k, rng, a_type, b_type)

    def signs(bits: int, count: int) -> list[int]:
        return [bits, *(bits ^ rng.choice((0, 1 << 31)) for _ in range(count - 1))]

    fine = rng.random() < 0.5
    a_scale = scales_of(signs(tie.a_bits, m), (m, 1)) if fine else scales_of(tie.a_bits)
    b_scale = scales_of(signs(tie.b_bits, n), (1, n)) if fine else scales_of(tie.b_bits)
    output_scale = scales_of(signs(tie.y_bits, m), (m, 1)) if fine else scales_of(tie.y_bits)
    # A zero point with which both neighbours of the tie are in range: saturation would hide a wrong rounding.
    lo, hi = limits(output_type)
    floor = tie.half.numerator // 2
    output_zero_point = rng.randint(max(lo, lo - floor), min(hi, hi - floor - 1))
    return QuantizedCase(
        name,
        np.tile(row, (m, 1)),
        a_scale,
        _zero_point(a_zero_point, a_type),
        np.tile(column[:, np.newaxis], (1, n)),
        b_scale,
        _zero_point(b_zero_point, b_type),
        output_scale,
        _zero_point(output_zero_point, output_type),
        output_type,
        tie.distance,
    )


def _type_names(*types: DType) -> str:
    return " ".join(str(t) for t in types)


# --- ties ---


def exact_ties(seed: int = 0) -> Iterator[QuantizedCase]:
    """Products with a tie in every element: a * b / y = 1 / (2 * odd), and all sums are odd multiples of odd."""
    rng = random.Random(seed)
    significands = ((1, 1, 1), (3, 5, 3), (-7, 9, 5), (11, -13, 7), (1023, 1021, 3))  # a, b, odd
    for i, (types, (a, b, odd)) in enumerate(product(TYPE_COMBINATIONS, significands)):
        a_exponent, b_exponent = rng.randint(-30, 30), rng.randint(-30, 30)
        a_bits, b_bits = float32_bits(a, a_exponent), float32_bits(b, b_exponent)
        sign = -1 if i % 4 == 3 else 1
        y_bits = float32_bits(sign * 2 * odd * abs(a * b), a_exponent + b_exponent)
        yield _tie_case(f"{i}: ties, 1/{2 * odd}, {_type_names(*types)}", a_bits, b_bits, y_bits, odd, i, rng, types)
    for i, types in enumerate(TYPE_COMBINATIONS):  # ties of large sums
        odd, half = 8191, Fraction(2 * rng.randint(-100, 100) + 1, 2)
        scales = float32_bits(3, -8), float32_bits(5, -9), float32_bits(3 * 5 * 2 * odd, -17)
        tie = NearTie(int(2 * half) * odd, *scales, half, Fraction(0))
        yield _steered(f"{i}: tie of {tie.q}, {_type_names(*types)}", tie, 300, 3, 19, rng, types)


def _tie_case(
    name: str,
    a_bits: int,
    b_bits: int,
    y_bits: int,
    odd: int,
    index: int,
    rng: random.Random,
    types: tuple[DType, DType, DType],
) -> QuantizedCase:
    """Sums that are odd multiples of `odd`: of the K products one is not 0; in the others, A equals its zero point."""
    m, k, n = 7, rng.randint(1, 70), 37
    zero_points = [rng.randint(limits(t)[0] + 64, limits(t)[1] - 64) for t in types[:2]]
    a = np.full((m, k), zero_points[0], types[0])
    b = _random_array(rng, (k, n), types[1]).copy()
    place = rng.randrange(k)
    largest = (64 // odd - 1) // 2
    a[:, place] = [zero_points[0] + odd * (2 * rng.randint(-largest, largest) + 1) for _ in range(m)]
    b[place, :] = [zero_points[1] + 2 * rng.choice((-31, -6, -2, -1, 0, 1, 5, 31)) + 1 for _ in range(n)]
    lo, hi = limits(types[2])
    output_zero_point = [None, lo, lo + 1, hi - 1, hi, (lo + hi) // 2, (lo + hi) // 2 + 1, lo + 100, lo + 155][index % 9]
    return QuantizedCase(
        name,
        a,
        scales_of(a_bits),
        _zero_point(zero_points[0], types[0]),
        b,
        scales_of(b_bits),
        _zero_point(zero_points[1], types[1]),
        scales_of(y_bits),
        None if output_zero_point is None else _zero_point(output_zero_point, types[2]),
        types[2],
        Fraction(0),
    )


# --- the ends of float32 ---

EXTREME_SCALES: dict[str, tuple[int, int, int]] = {
    "a subnormal": (float32_bits(1, -149), float32_bits(1, 120), float32_bits(1, -28)),
    "b subnormal": (float32_bits(1, 120), float32_bits(3, -149), float32_bits(3, -28)),
    "output subnormal": (float32_bits(1, -60), float32_bits(1, -80), float32_bits(3, -140)),
    "a and output subnormal": (float32_bits(5, -149), float32_bits(1, -1), float32_bits(5, -149)),
    "b and output subnormal": (float32_bits(1, -2), float32_bits(7, -149), float32_bits(7, -148)),
    "a and b subnormal": (0x007FFFFF, 0x007FFFFF, 0x00000001),
    "all subnormal": (0x00000001, 0x00000001, 0x00000001),
    "largest subnormal, ties": (0x007FFFFF, float32_bits(1), float32_bits(0x7FFFFF, -148)),
    "largest subnormal, near ties": (0x007FFFFF, float32_bits(1), float32_bits(0x7FFFFE, -148)),
    "product underflows to zero": (float32_bits(1, -76), float32_bits(1, -76), float32_bits(1, -149)),
    "product underflows to a neighbour": (float32_bits(3, -75), float32_bits(5, -75), float32_bits(15, -149)),
    "product overflows, ties": (float32_bits(3, 62), float32_bits(3, 63), float32_bits(3, 126)),
    "product overflows, near ties": (float32_bits(3, 63), float32_bits(1, 64), 0x7F7FFFFF),
    "output tiny, all saturate": (float32_bits(1), float32_bits(1), 0x00000001),
    "quotient beyond float32": (0x7F7FFFFF, 0x7F7FFFFF, 0x00000001),
    "quotient below float64": (0x00000001, 0x00000001, 0x7F7FFFFF),
    "largest": (0x7F7FFFFF, 0x7F7FFFFF, 0x7F7FFFFF),
    "smallest normal": (0x00800000, float32_bits(1, -1), 0x00800000),
    "decimal": (nearest_float32(Fraction("0.1")), nearest_float32(Fraction("0.05")), nearest_float32(Fraction("0.01"))),
}


def extreme_scales(seed: int = 0) -> Iterator[QuantizedCase]:
    """Scales at the ends of float32 with all eight combinations of signs, and sums so small that the results are in range."""
    rng = random.Random(seed)
    every = product(EXTREME_SCALES.items(), product((0, 1 << 31), repeat=3))
    for i, ((name, bits), signs) in enumerate(every):
        types = TYPE_COMBINATIONS[(i + i // 8) % 8]
        m, k, n = rng.randint(1, 4), rng.randint(1, 6), rng.randint(1, 20)
        zero_points = [rng.randint(*limits(t)) for t in types]
        # Differences of up to 12 from the zero point keep the sums small; they may be clipped at the ends of the type.
        a, b = (
            np.clip(np.array([z + rng.randint(-12, 12) for _ in range(prod(sizes))]), *limits(t)).astype(t).reshape(sizes)
            for z, t, sizes in zip(zero_points, types, ((m, k), (k, n)), strict=False)
        )
        a_scale, b_scale, output_scale = (scales_of(s ^ sign) for s, sign in zip(bits, signs, strict=True))
        yield QuantizedCase(
            f"{i}: {name}, signs {' '.join('-' if sign else '+' for sign in signs)}, {_type_names(*types)}",
            a,
            a_scale,
            _zero_point(zero_points[0], types[0]),
            b,
            b_scale,
            _zero_point(zero_points[1], types[1]),
            output_scale,
            _zero_point(zero_points[2], types[2]),
            types[2],
        )


# --- sums that exceed int32 ---


def long_sums(seed: int = 0) -> Iterator[QuantizedCase]:
    """K at and above the largest value for which int32 holds every sum, with an output scale that brings results into range.

    Each operand consists of one end of its type, and its zero point is the other end. If both are the same end, the sum is
    zero, although sums of products without zero points wrap. The last row and column are random.
    """
    rng = random.Random(seed)
    for k in (33_025, 33_026, 140_000):
        for a_type, b_type, output_type in TYPE_COMBINATIONS:
            (a_lo, a_hi), (b_lo, b_hi), (lo, hi) = map(limits, (a_type, b_type, output_type))
            corners = product(((a_lo, a_hi), (a_hi, a_lo)), ((b_lo, b_hi), (b_hi, b_lo)))
            for (a_value, a_zero_point), (b_value, b_zero_point) in (*corners, ((a_hi, a_hi), (b_hi, b_hi))):
                a, b = np.full((3, k), a_value, a_type), np.full((k, 3), b_value, b_type)
                a[-1, :], b[:, -1] = _random_array(rng, (k,), a_type), _random_array(rng, (k,), b_type)
                output_scale = nearest_float32(Fraction(65025 * k, rng.randint(60, 120)))
                yield QuantizedCase(
                    f"K={k}, {a_value} less {a_zero_point} by {b_value} less {b_zero_point}, "
                    f"{_type_names(a_type, b_type, output_type)}",
                    a,
                    scales_of(float32_bits(1)),
                    _zero_point(a_zero_point, a_type),
                    b,
                    scales_of(float32_bits(1)),
                    _zero_point(b_zero_point, b_type),
                    scales_of(output_scale),
                    _zero_point((lo + hi) // 2, output_type),
                    output_type,
                )


# --- granularities ---


def parameter_sizes(
    rank: int, rows: int = 1, columns: int = 1, batch: Sequence[int] = (), per_batch: Sequence[bool] = (True, True)
) -> tuple[int, ...]:
    """The sizes of a scale or zero point with this rank. Dimensions that do not fit into the rank have a single parameter.

    batch: that of the product, of up to two dimensions, right-aligned; per_batch: along which of them the parameter varies.
    """
    padded = (1,) * (2 - len(batch)) + tuple(batch)
    leading = [size if vary else 1 for size, vary in zip(padded, per_batch, strict=True)]
    return (*leading, rows, columns)[4 - rank :]


def granularities(seed: int = 0, count: int = 160) -> Iterator[QuantizedCase]:
    """Scales and zero points of every granularity, also by batch, for products of 2 to 4 dimensions."""
    rng = random.Random(seed)
    for i in range(count):
        types = TYPE_COMBINATIONS[i % 8]
        batch = [rng.randint(1, 3) for _ in range(i // 8 % 3)]
        m, k, n = rng.randint(1, 6), rng.randint(1, 9), rng.randint(1, 20)
        rank = rng.randint(1, 4)
        axes = ({"rows": m}, {"columns": n}, {"rows": m})

        def sizes(
            axis: dict[str, int], rank: int = rank, batch: Sequence[int] = tuple(batch), varies: bool = i % 2 == 1
        ) -> tuple[int, ...]:
            per_batch = [varies and rng.random() < 0.5 for _ in range(2)]
            return parameter_sizes(rank, **(axis if rng.random() < 0.7 else {}), batch=batch, per_batch=per_batch)

        a_scale, b_scale, output_scale = (
            scales_of((rng.randrange(low, high) | rng.getrandbits(1) << 31 for _ in range(prod(size))), size)
            for size, (low, high) in zip(
                map(sizes, axes),
                # about 0.01 for A and B, and for the output a scale that brings sums of a few products into range
                ((0x3C000000, 0x3C800000), (0x3C000000, 0x3C800000), (0x3C800000, 0x3D800000)),
                strict=True,
            )
        )
        a_zero_point, b_zero_point, output_zero_point = (
            None if rng.random() < 0.2 else _random_array(rng, size, t) for size, t in zip(map(sizes, axes), types, strict=True)
        )
        yield QuantizedCase(
            f"{i}: granularity, {len(batch) + 2}-D, parameters {rank}-D, {_type_names(*types)}",
            _random_array(rng, (*batch, m, k), types[0]),
            a_scale,
            a_zero_point,
            _random_array(rng, (*batch, k, n), types[1]),
            b_scale,
            b_zero_point,
            output_scale,
            output_zero_point,
            types[2],
        )


# --- all pairs of numbers ---

ONE_ELEMENT_SCALES: dict[str, tuple[int, int, int]] = {
    "1/2": (float32_bits(1), float32_bits(1, -1), float32_bits(1)),
    "1/6": (float32_bits(3), float32_bits(5, -7), float32_bits(90, -7)),
    "-1/10": (float32_bits(-1, 40), float32_bits(3, -50), float32_bits(30, -10)),
    # distributes all sums over the output's range
    "1/510": (float32_bits(1, -140), float32_bits(1, 20), float32_bits(510, -120)),
    "3/2": (float32_bits(3, -2), float32_bits(1, -1), float32_bits(1, -2)),
    "decimal": EXTREME_SCALES["decimal"],
}


def exhaustive_one_element(
    types: Iterable[tuple[DType, DType, DType]] = TYPE_COMBINATIONS,
    scales: Iterable[str] = tuple(ONE_ELEMENT_SCALES),
) -> Iterator[QuantizedCase]:
    """Every number times every number: each case has 65,536 products of one element, since A is a column of 256, B a row of
    256.

    The zero points are at both ends and in the middle of each type, and most scales cause ties. All types and scales together
    have 1,296 cases, 85 million products.
    """
    for (a_type, b_type, output_type), key in product(types, scales):
        every_a, every_b = (np.arange(256).astype(np.uint8).view(t) for t in (a_type, b_type))
        edges = ((lo, (lo + hi + 1) // 2, hi) for lo, hi in map(limits, (a_type, b_type, output_type)))
        a_scale, b_scale, output_scale = map(scales_of, ONE_ELEMENT_SCALES[key])
        for a_zero_point, b_zero_point, output_zero_point in product(*edges):
            yield QuantizedCase(
                f"every a by every b, {key}, zero points {a_zero_point} {b_zero_point} {output_zero_point}, "
                f"{_type_names(a_type, b_type, output_type)}",
                every_a.reshape(256, 1),
                a_scale,
                _zero_point(a_zero_point, a_type),
                every_b.reshape(1, 256),
                b_scale,
                _zero_point(b_zero_point, b_type),
                output_scale,
                _zero_point(output_zero_point, output_type),
                output_type,
            )


# --- any case ---

_POSITIVE_SCALE_BITS = st.one_of(
    st.integers(nearest_float32(Fraction(1, 1024)), nearest_float32(Fraction(64))),
    st.sampled_from([nearest_float32(Fraction(s)) for s in ("0.1", "0.05", "0.02", "0.01", "0.0066", "0.3", "1.1")]),
    st.integers(-24, 24).map(lambda exponent: float32_bits(1, exponent)),
    st.integers(0x00000001, 0x007FFFFF),  # subnormal
    st.integers(float32_bits(1, 100), 0x7F7FFFFF),  # huge
)
SCALE_BITS = st.builds(lambda bits, sign: bits | sign, _POSITIVE_SCALE_BITS, st.sampled_from((0, 1 << 31)))
"""Strategy: the bit patterns of valid scales of every kind."""

_OUTPUT_STEPS = st.one_of(st.sampled_from((1, 2, 4, 6, 10, 14, 100, 510)), st.integers(1, 3000))


@st.composite
def quantized_cases(draw: st.DrawFn) -> QuantizedCase:
    """Strategy: any legal small case, also with batches. It is valid by construction: nothing is filtered."""
    types = draw(st.sampled_from(TYPE_COMBINATIONS))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    m, k, n = draw(st.integers(1, 6)), draw(st.integers(1, 9)), draw(st.integers(1, 6))
    rank = draw(st.integers(1, 4))
    axes: tuple[dict[str, int], ...] = ({"rows": m}, {"columns": n}, {"rows": m})

    def sizes(axis: dict[str, int]) -> tuple[int, ...]:
        per_batch = draw(st.tuples(st.booleans(), st.booleans()))
        return parameter_sizes(rank, **(axis if draw(st.booleans()) else {}), batch=batch, per_batch=per_batch)

    def numbers(size: Sequence[int], data_type: DType) -> Array:
        content = draw(st.binary(min_size=prod(size), max_size=prod(size)))
        return np.frombuffer(content, data_type).reshape(size)

    def scales(size: Sequence[int], bits: st.SearchStrategy[int]) -> Array:
        return scales_of(draw(st.lists(bits, min_size=prod(size), max_size=prod(size))), size)

    a_scale, b_scale = (scales(sizes(axis), SCALE_BITS) for axis in axes[:2])
    output_bits = SCALE_BITS
    if draw(st.booleans()):
        # Independent scales would nearly always lead to zeros or to saturation; this one is the size of a few products.
        one_step = oracle.float32_fraction(int(a_scale.view(np.uint32).flat[0]))
        one_step *= oracle.float32_fraction(int(b_scale.view(np.uint32).flat[0]))
        output_bits = _OUTPUT_STEPS.map(lambda steps: nearest_float32(one_step * steps))
    return QuantizedCase(
        "drawn",
        numbers((*batch, m, k), types[0]),
        a_scale,
        numbers(sizes(axes[0]), types[0]) if draw(st.booleans()) else None,
        numbers((*batch, k, n), types[1]),
        b_scale,
        numbers(sizes(axes[1]), types[1]) if draw(st.booleans()) else None,
        scales(sizes(axes[2]), output_bits),
        numbers(sizes(axes[2]), types[2]) if draw(st.booleans()) else None,
        types[2],
    )


GENERATORS = (near_ties, exact_ties, extreme_scales, long_sums, granularities)
