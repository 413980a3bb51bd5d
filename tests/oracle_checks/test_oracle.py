"""The oracle, compared with examples computed by hand and with its own variants; and the hard cases, which must be hard."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

import hard_cases
import oracle
from hard_cases import INT8, UINT8, QuantizedCase, nearest_float32, quantized_cases, scales_of
from oracle import Tensor
from oracle_many import BEYOND, quantize_many

SQUARE = Tensor((1, 1, 4, 4), tuple(range(1, 17)))


# --- tensors and slices ---


def test_a_layout_is_what_one_writes_down_by_hand() -> None:
    assert oracle.layout((2, 3)) == [0, 1, 2, 3, 4, 5]
    assert oracle.layout((2, 3), (4, 1)) == [0, 1, 2, 4, 5, 6]
    assert oracle.layout((2, 3), (1, 2)) == [0, 2, 4, 1, 3, 5]
    assert oracle.layout((2, 3), (0, 5)) == [0, 5, 10, 0, 5, 10]
    assert oracle.nested_strides((2, 3, 4)) == (12, 4, 1)
    assert oracle.nested_strides((2, 3, 4), order=(2, 0, 1)) == (3, 1, 6)
    assert oracle.nested_strides((2, 3), gap=1) == (4, 1)
    assert oracle.span((2, 3), (4, 1)) == 7
    assert oracle.span((5, 1), (0, 99)) == 1


def test_gather_takes_up_what_scatter_put_down() -> None:
    tensor = Tensor((2, 3), (1, 2, 3, 4, 5, 6))
    assert oracle.scatter(tensor, (1, 3), [0] * 9) == [1, 4, 0, 2, 5, 0, 3, 6, 0]
    assert oracle.gather([1, 4, 0, 2, 5, 0, 3, 6, 0], (2, 3), (1, 3)) == tensor
    assert oracle.gather([7, 8, 9], (2, 3), (0, 1)) == Tensor((2, 3), (7, 8, 9, 7, 8, 9))


def test_a_tensor_refuses_coordinates_outside() -> None:
    assert SQUARE.at((0, 0, 3, 1)) == 14
    for outside in ((0, 0, 4, 0), (0, 0, 0, -1)):
        with pytest.raises(IndexError):
            SQUARE.at(outside)
    with pytest.raises(ValueError, match="cannot have the sizes"):
        Tensor((2, 2), (1, 2, 3))


def test_bits_of_keeps_what_arithmetic_would_not() -> None:
    array = np.array([0x7F800001, 0x80000000, 0xFFC12345], np.uint32).view(np.float32)
    assert oracle.bits_of(array[::-1]) == Tensor((3,), (0xFFC12345, 0x80000000, 0x7F800001))


@pytest.mark.parametrize(
    ("offsets", "sizes", "strides", "output_sizes", "elements"),
    [
        ((0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2), (1, 1, 2, 2), (2, 4, 10, 12)),
        ((0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2), (1, 1, 2, 2), (14, 16, 6, 8)),
        ((0, 0, 0, 1), (1, 1, 4, 3), (1, 1, 2, 2), (1, 1, 1, 1), (2,)),
        ((0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2), (1, 1, 1, 1), (14,)),
        ((0, 0, 0, 0), (1, 1, 1, 4), (1, 1, -(2**31), -3), (1, 1, 1, 2), (4, 1)),
    ],
)
def test_slice1(
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    output_sizes: tuple[int, ...],
    elements: tuple[int, ...],
) -> None:
    assert oracle.slice1(SQUARE, offsets, sizes, strides, output_sizes) == Tensor(output_sizes, elements)
    largest = oracle.max_copied(sizes, strides)
    assert all(size <= limit for size, limit in zip(output_sizes, largest, strict=True))
    oracle.slice1(SQUARE, offsets, sizes, strides, largest)  # the largest output stays inside


@pytest.mark.parametrize(
    ("offsets", "sizes", "strides", "elements"),
    [
        ((0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1), (7, 8, 11, 12, 15, 16)),
        ((0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), (5, 8, 13, 16)),
    ],
)
def test_slice(offsets: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], elements: tuple[int, ...]) -> None:
    assert oracle.slice_(SQUARE, offsets, sizes, strides) == Tensor(sizes, elements)


# --- numbers ---


def test_float32_bits_are_decoded_exactly() -> None:
    assert oracle.float32_fraction(0x3F800000) == 1
    assert oracle.float32_fraction(0xC0490FDB) == -Fraction(13176795, 4194304)
    assert oracle.float32_fraction(0x00000001) == Fraction(1, 2**149)
    assert oracle.float32_fraction(0x807FFFFF) == -Fraction(2**23 - 1, 2**149)
    assert oracle.float32_fraction(0x00800000) == Fraction(1, 2**126)
    assert oracle.float32_fraction(0x7F7FFFFF) == 2**128 - 2**104
    assert oracle.float32_fraction(0x80000000) == 0
    for bits in (0x7F800000, 0xFF800000, 0x7FC00000, 1 << 32, -1):
        with pytest.raises(ValueError, match="finite float32"):
            oracle.float32_fraction(bits)


def test_float32_bits_agree_with_the_processor() -> None:
    rng = random.Random(0)
    bits = np.array([rng.getrandbits(32) for _ in range(20_000)], np.uint32)
    values = bits.view(np.float32)
    finite = np.isfinite(values)
    for pattern, value in zip(bits[finite].tolist(), values[finite].tolist(), strict=True):
        assert oracle.float32_fraction(pattern) == Fraction(value)
        assert oracle.is_usable_scale(pattern) == (value != 0)
        assert nearest_float32(Fraction(value)) == pattern
    assert not any(oracle.is_usable_scale(pattern) for pattern in bits[~finite].tolist())


def test_usable_scales() -> None:
    for bits in (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0xFFFFFFFF):
        assert not oracle.is_usable_scale(bits)
    for bits in (0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000):
        assert oracle.is_usable_scale(bits)


def test_nearest_float32_is_nearest_and_always_usable() -> None:
    assert nearest_float32(Fraction("0.1")) == 0x3DCCCCCD
    assert nearest_float32(Fraction(-2)) == 0xC0000000
    assert nearest_float32(Fraction(2**25 - 1)) == 0x4C000000  # carries into the next power of two
    assert nearest_float32(Fraction(2**24 - 1, 2**150)) == 0x00800000  # from subnormal into normal
    assert nearest_float32(Fraction(1, 2**300)) == 0x00000001
    assert nearest_float32(-Fraction(2**300)) == 0xFF7FFFFF


def test_round_half_even() -> None:
    rounded = {"-2.5": -2, "-1.5": -2, "-0.51": -1, "-0.5": 0, "0": 0, "0.5": 0, "0.51": 1, "1.5": 2, "2.5": 2, "7": 7}
    for decimal, result in rounded.items():
        assert oracle.round_half_even(Fraction(decimal)) == result
    for numerator, denominator in product(range(-50, 50), range(1, 13)):
        x = Fraction(numerator, denominator)
        assert oracle.round_half_even(x) == round(x)


# --- products ---


def test_the_page_example() -> None:
    operands = (
        np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
        scales_of(nearest_float32(Fraction("0.0066"))),
        np.array([[113]], np.uint8),
        np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
        scales_of(nearest_float32(Fraction("0.00705"))),
        np.array([[114]], np.uint8),
        scales_of(nearest_float32(Fraction("0.0107"))),
        np.array([[118]], np.uint8),
    )
    result = oracle.quantized_linear_matrix_multiply(*operands, 0, 255)
    assert result.tolist() == [[168, 115, 255], [1, 66, 151]]


@pytest.mark.parametrize(("zero_point", "result"), [(None, [0, 2, 2, 0]), (0, [0, 2, 2, 0]), (1, [1, 3, 3, 1])])
def test_ties_go_to_even_before_the_zero_point_is_added(zero_point: int | None, result: list[int]) -> None:
    one = scales_of(0x3F800000, (1,))
    half = np.array([0x3F000000], np.uint32)  # a scale may be given by its bits
    a, b = np.array([[1], [3], [5], [-1]], np.int8), np.array([[1]], np.int8)
    output_zero_point = None if zero_point is None else np.array([zero_point], np.int8)
    for multiply in (oracle.quantized_linear_matrix_multiply, oracle.quantized_linear_matrix_multiply_bulk):
        assert multiply(a, half, None, b, one, None, one, output_zero_point, -128, 127).ravel().tolist() == result
    # A step of two halves the products too.
    two = np.array([[0x40000000]], np.uint32)
    assert (
        oracle.quantized_linear_matrix_multiply(a, one, None, b, one, None, two, output_zero_point, -128, 127).ravel().tolist()
        == result
    )


def test_scales_must_come_as_float32() -> None:
    a, one = np.ones((1, 1), np.int8), scales_of(0x3F800000)
    with pytest.raises(TypeError, match="float64"):
        oracle.quantized_linear_matrix_multiply(a, one.astype(np.float64), None, a, one, None, one, None, -128, 127)


def test_integer_products_over_rows_columns_and_batches() -> None:
    a = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.uint8)
    b = np.array([[[-1, 0, 2], [3, -128, 127]]], np.int8)  # one batch, for both of A's
    rows, columns = np.array([[1], [3]], np.uint8), np.array([0, -128, 127], np.int8)
    # By hand: row 0 of batch 0 minus 1 is (0, 1); row 1 minus 3 is (0, 1); in batch 1 they are (4, 5) and (4, 5).
    # The columns minus their zero points are (-1, 3), (128, 0) and (-125, 0).
    assert oracle.matrix_multiply_integer(a, rows, b, columns).tolist() == [
        [[3, 0, 0], [3, 0, 0]],
        [[11, 512, -500], [11, 512, -500]],
    ]
    per_batch = np.array([1, 5], np.uint8).reshape(2, 1, 1)
    assert oracle.matrix_multiply_integer(a, per_batch, b, None).tolist() == [
        [[3, -128, 127], [7, -384, 385]],
        [[3, -128, 127], [7, -384, 385]],
    ]
    with pytest.raises(ValueError, match="K is 2 in A and 1 in B"):
        oracle.accumulate(a, None, b[:, :1], None)


@pytest.mark.parametrize(("k", "wrapped"), [(33_025, 2_147_450_625), (33_026, -2_147_451_646)])
def test_a_sum_wraps_only_where_the_output_is_int32(k: int, wrapped: int) -> None:
    a, b = np.full((1, k), 255, np.uint8), np.full((k, 1), 255, np.uint8)
    assert oracle.accumulate(a, None, b, None).item() == 65025 * k
    assert oracle.matrix_multiply_integer(a, None, b, None).item() == wrapped
    scale = scales_of(hard_cases.float32_bits(1, 24))
    one = scales_of(0x3F800000)
    assert oracle.quantized_linear_matrix_multiply_bulk(a, one, None, b, one, None, scale, None, 0, 255).item() == 128


# --- all variants agree ---


def by_the_million(case: QuantizedCase) -> hard_cases.Array:
    sums = oracle.accumulate_bulk(case.a, case.a_zero_point, case.b, case.b_zero_point)
    scales = case.a_scale, case.b_scale, case.output_scale
    return quantize_many(sums, *scales, case.output_zero_point, *hard_cases.limits(case.output_type))


def assert_roads_meet(case: QuantizedCase) -> None:
    lo, hi = hard_cases.limits(case.output_type)
    literal = oracle.quantized_linear_matrix_multiply(*case.operands, lo, hi)
    bulk = oracle.quantized_linear_matrix_multiply_bulk(*case.operands, lo, hi)
    np.testing.assert_array_equal(literal, bulk, err_msg=case.name)
    np.testing.assert_array_equal(literal, hard_cases.expected(case), err_msg=case.name)
    np.testing.assert_array_equal(literal, by_the_million(case), err_msg=case.name)
    matrices = (case.a, case.a_zero_point, case.b, case.b_zero_point)
    np.testing.assert_array_equal(oracle.accumulate(*matrices), oracle.accumulate_bulk(*matrices), err_msg=case.name)


@settings(max_examples=250, deadline=None)
@given(quantized_cases())
def test_roads_meet_on_drawn_cases(case: QuantizedCase) -> None:
    assert_roads_meet(case)
    literal = oracle.quantized_linear_matrix_multiply(*case.operands, *hard_cases.limits(case.output_type))
    in_four = hard_cases.expected(case.in_four_dimensions())
    assert in_four.ndim == 4
    np.testing.assert_array_equal(in_four.reshape(literal.shape), literal)


def test_roads_meet_on_every_granularity() -> None:
    for case in hard_cases.granularities(seed=1, count=40):
        assert_roads_meet(case)


def test_roads_meet_at_extreme_scales() -> None:
    for case in hard_cases.extreme_scales(seed=1):
        assert_roads_meet(case)


def test_roads_meet_next_to_ties() -> None:
    for case in hard_cases.near_ties(seed=1, count=12):
        corner = replace(
            case,
            a=case.a[:1],
            a_scale=case.a_scale[:1],
            b=case.b[:, :1],
            b_scale=case.b_scale[:, :1],
            output_scale=case.output_scale[:1],
        )
        if case.a.shape[1] <= 4096:
            assert_roads_meet(corner)


def test_roads_meet_on_all_hard_cases() -> None:
    generators = (
        *(hard_cases.near_ties, hard_cases.exact_ties, hard_cases.extreme_scales),
        *(hard_cases.long_sums, hard_cases.granularities),
    )
    outputs = 0
    for case in (case for generate in generators for case in generate()):
        np.testing.assert_array_equal(by_the_million(case), hard_cases.expected(case), err_msg=case.name)
        outputs += case.a.shape[-2] * case.b.shape[-1]
    assert outputs > 20_000


def test_long_division_agrees_with_fractions_on_any_scales() -> None:
    """Sums of up to 46 bits with scales of every magnitude; half of the quotients are made close to a half-integer."""
    rng = random.Random(0)
    rows, wanted = [], []
    for at in range(20_000):
        bits = [rng.choice(SCALE_BITS)(rng) | rng.getrandbits(1) << 31 for _ in range(3)]
        q = rng.choice((rng.getrandbits(rng.randrange(1, 46)), rng.randrange(5), 1 << rng.randrange(46))) * rng.choice((1, -1))
        a, b, y = map(oracle.float32_fraction, bits)
        if at % 2 and q:
            bits[2] = nearest_float32(q * a * b * 2 / rng.randrange(1, 600))
            y = oracle.float32_fraction(bits[2])
        rows.append((q, *bits))
        wanted.append(min(max(oracle.round_half_even(q * a * b / y), -BEYOND), BEYOND))
    sums = np.array([row[0] for row in rows], np.int64)
    a_scale, b_scale, output_scale = (np.array([row[i] for row in rows], np.uint32) for i in (1, 2, 3))
    assert quantize_many(sums, a_scale, b_scale, output_scale, None, -2 * BEYOND, 2 * BEYOND).tolist() == wanted
    assert sum(0 < abs(x) < BEYOND for x in wanted) > 7_000


SCALE_BITS: tuple[Callable[[random.Random], int], ...] = (
    lambda rng: rng.randrange(1, 1 << rng.randrange(1, 24)),  # subnormal, down to the smallest
    lambda rng: rng.randrange(1 << 23, 0x7F800000),
    lambda rng: rng.randrange(1, 255) << 23,
    lambda rng: rng.randrange(0x3A000000, 0x42000000),
)


def test_what_long_division_does_not_take_is_refused() -> None:
    one = scales_of(0x3F800000)
    with pytest.raises(ValueError, match=r"2\*\*46"):
        quantize_many(np.array([[1 << 46]]), one, one, one, None, 0, 255)
    for bits in (0, 0x80000000, 0x7F800000, 0x7FC00000):
        with pytest.raises(ValueError, match="a scale is"):
            quantize_many(np.array([[1]]), one, scales_of(bits), one, None, 0, 255)


def test_roads_meet_on_one_element_products() -> None:
    # Every eighth number by every ninth; all numbers are only tested in the fast variant.
    for case in list(hard_cases.exhaustive_one_element())[::47]:
        lo, hi = hard_cases.limits(case.output_type)
        thinned = replace(case, a=case.a[::8], b=case.b[:, ::9])
        literal = oracle.quantized_linear_matrix_multiply(*thinned.operands, lo, hi)
        np.testing.assert_array_equal(literal, hard_cases.expected(case)[::8, ::9], err_msg=case.name)


# --- the hard cases are hard ---


def real_values(case: QuantizedCase) -> Iterator[tuple[int, Fraction, Fraction, Fraction]]:
    """The sum and the three scales of every output element of a two-dimensional case."""
    sums = oracle.accumulate_bulk(case.a, case.a_zero_point, case.b, case.b_zero_point)
    scales = (
        np.broadcast_to(scale.view(np.uint32), sums.shape).ravel().tolist()
        for scale in (case.a_scale, case.b_scale, case.output_scale)
    )
    for q, *bits in zip(sums.ravel().tolist(), *scales, strict=True):
        a, b, y = map(oracle.float32_fraction, bits)
        yield q, a, b, y


def distance_to_tie(x: Fraction) -> Fraction:
    return abs(x - (x.numerator // x.denominator) - Fraction(1, 2))


@pytest.mark.parametrize("largest_bits", [8, 20, 33, 47])
def test_near_ties_are_as_near_as_they_say(largest_bits: int) -> None:
    rng = random.Random(largest_bits)
    for region in hard_cases.NEAR_TIE_REGIONS:
        tie = hard_cases.near_tie(rng, 1 << largest_bits, region, tries=20)
        assert abs(tie.q) <= 1 << largest_bits
        a, b, y = map(oracle.float32_fraction, (tie.a_bits, tie.b_bits, tie.y_bits))
        assert 0 < abs(tie.q * a * b / y - tie.half) == tie.distance < abs(tie.half) / (1 << largest_bits + 19)


def test_near_ties_lie_in_the_regions_they_name() -> None:
    tie = hard_cases.near_tie(random.Random(0), 1 << 28, "a and output scale subnormal", tries=5)
    assert 0 < tie.a_bits & 0x7FFFFFFF < 0x00800000
    assert 0 < tie.y_bits & 0x7FFFFFFF < 0x00800000
    tie = hard_cases.near_tie(random.Random(0), 1 << 28, "product of scales underflows", tries=5)
    product_of_scales = oracle.float32_fraction(tie.a_bits) * oracle.float32_fraction(tie.b_bits)
    assert abs(product_of_scales) < Fraction(1, 2**126)


def test_float64_gets_near_ties_wrong() -> None:
    """Otherwise the cases would not be hard. (Python's float is a float64, and its round() rounds half to even.)"""
    formulas: dict[str, Callable[[float, float, float, float], float]] = {
        "q * (a * b / y)": lambda q, a, b, y: q * (a * b / y),
        "q * (a * b) / y": lambda q, a, b, y: q * (a * b) / y,
        "q * a / y * b": lambda q, a, b, y: q * a / y * b,
    }
    wrong: Counter[str] = Counter()
    cases = list(hard_cases.near_ties())
    hidden = 0
    for case in cases:
        assert case.distance_to_tie is not None
        assert 0 < case.distance_to_tie < Fraction(1, 10**13)
        values = set(real_values(case))
        assert all(distance_to_tie(q * a * b / y) == case.distance_to_tie for q, a, b, y in values)
        q, a, b, y = next(real_values(case))
        exact = oracle.round_half_even(q * a * b / y)
        for name, formula in formulas.items():
            wrong[name] += round(formula(float(q), float(a), float(b), float(y))) != exact
        # Neither neighbour of the tie saturates, so that a wrong choice is visible.
        assert case.output_zero_point is not None
        lo, hi = hard_cases.limits(case.output_type)
        hidden += not lo <= exact + int(case.output_zero_point.item()) <= hi
    assert hidden == 0
    assert set(wrong) == set(formulas)
    assert all(count >= len(cases) // 8 for count in wrong.values()), wrong


def test_ties_are_ties() -> None:
    chosen = Counter[str]()
    for case in hard_cases.exact_ties():
        assert case.distance_to_tie == 0
        assert all(distance_to_tie(q * a * b / y) == 0 for q, a, b, y in set(real_values(case)))
        zero_point = 0 if case.output_zero_point is None else int(case.output_zero_point.item())
        parity, side = "odd" if zero_point % 2 else "even", "below" if zero_point < 0 else "not"
        chosen[f"{case.output_type}, {parity}, {side}"] += 1
        significand = oracle.float32_parts(int(case.output_scale.view(np.uint32).flat[0]))[0]
        chosen["power of two"] += significand & (significand - 1) == 0
    assert {"int8, odd, below", "int8, even, below", "int8, odd, not", "int8, even, not"} < set(chosen)
    assert {"uint8, odd, not", "uint8, even, not"} < set(chosen)
    assert chosen["power of two"] < 12


@pytest.mark.parametrize("types", list(product((INT8, UINT8), (INT8, UINT8))))
@pytest.mark.parametrize("k", [8, 9, 64, 1000])
def test_vectors_sum_to_what_was_asked_for(types: tuple[hard_cases.DType, hard_cases.DType], k: int) -> None:
    rng = random.Random(k)
    sums = [rng.randint(-bound, bound) for bound in (3, 1000 * k, 2000 * k, 40_000 * k) for _ in range(8)]
    for q in (*sums, 48_000 * k, -48_000 * k):
        row, a_zero_point, column, b_zero_point = hard_cases.vectors_with_sum(q, k, rng, *types)
        assert (row.dtype, column.dtype) == types
        assert row.shape == column.shape == (k,)
        deviations = row.astype(np.int64) - a_zero_point, column.astype(np.int64) - b_zero_point
        assert int(deviations[0] @ deviations[1]) == q
    with pytest.raises(ValueError, match="no sum of"):
        hard_cases.vectors_with_sum(65025 * k + 1, k, rng, *types)


def test_long_sums_exceed_int32_and_come_back_into_range() -> None:
    beyond = 0
    for case in hard_cases.long_sums():
        sums = oracle.accumulate_bulk(case.a, case.a_zero_point, case.b, case.b_zero_point)
        beyond += abs(int(sums[0, 0])) >= 2**31
        result, (lo, hi) = hard_cases.expected(case), hard_cases.limits(case.output_type)
        assert np.all((lo < result) & (result < hi)), case.name
    assert beyond == 64  # 4 of 5 cases for each combination of types, at two of the three K


def test_all_combinations_and_kinds_occur() -> None:
    generators = (
        *(hard_cases.near_ties, hard_cases.exact_ties, hard_cases.extreme_scales),
        *(hard_cases.long_sums, hard_cases.granularities),
    )
    for generate in generators:
        cases = list(generate())
        assert {(c.a.dtype, c.b.dtype, c.output_type) for c in cases} == set(hard_cases.TYPE_COMBINATIONS)
        assert len({c.name for c in cases}) == len(cases)
    cases = list(hard_cases.granularities())
    assert {case.a.ndim for case in cases} == {2, 3, 4}
    assert {case.a_scale.ndim for case in cases} == {1, 2, 3, 4}
    for field in ("a_scale", "b_scale", "output_scale", "a_zero_point", "b_zero_point", "output_zero_point"):
        values = [getattr(case, field) for case in cases]
        assert any(value is None for value in values) == field.endswith("zero_point")
        fours = [(1,) * (4 - value.ndim) + value.shape for value in values if value is not None]
        assert any(max(sizes[:2]) > 1 for sizes in fours), f"{field} never varies by batch"
        assert any(max(sizes[2:]) > 1 for sizes in fours), f"{field} is never per row or column"


def test_the_same_seed_gives_the_same_cases() -> None:
    for first, second in zip(hard_cases.granularities(3, 8), hard_cases.granularities(3, 8), strict=True):
        assert first.name == second.name
        for x, y in zip(first.operands, second.operands, strict=True):
            assert (x is None and y is None) or np.array_equal(np.asarray(x), np.asarray(y))
