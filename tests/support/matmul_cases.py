"""Matrix products of any size and layout, with numbers for which kernels are likely to be wrong.

A `Recipe` and its seed determine a case, so that a case can be made again, and recipes can be drawn and shrunk. Scales are
chosen when the sums are known, so that results are in range, ties, or close to ties. Like the oracle, this module imports
nothing of anydml.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import guard_pages
import hard_cases
import matmul_scales
import oracle
import oracle_many
from hard_cases import DType, NearTie, limits, parameter_sizes

Array = NDArray[Any]

SCALES = ("a_scale_tensor", "b_scale_tensor", "output_scale_tensor")
ZERO_POINTS = ("a_zero_point_tensor", "b_zero_point_tensor", "output_zero_point_tensor")
DATA = ("any", "ends", "corners", "near zero", "coarse", "sparse")
"""Kinds of elements of A and B. The kinds "near tie" and "sweep" belong to scales of the same names."""
INPUT_LAYOUTS = ("packed", "padded", "transposed", "stepped", "permuted", "one row", "one column", "one batch", "overlapping")
OUTPUT_LAYOUTS = INPUT_LAYOUTS[:5]
UNEVEN_LAYOUTS = ("one outer batch", "batches apart", "batches crossed", "packed")
"""Layouts of four dimensions in which batches are not evenly spaced."""
LONG = (33_025, 33_026, 65_536, 65_537, 65_793, 65_794, 66_051, 66_052, 131_071, 131_072, 131_073, 140_000)
"""K near the largest value with which int32, or uint32, holds the sums: of 255 by 255, of 255 by 128, of 128 by 128."""
PLACES = ("behind a guard page", "before a guard page", "at an odd address")


@dataclass(frozen=True)
class Recipe:
    """The description of a case. Scales and zero points are per tensor unless they are named in `finer` or `per_batch`."""

    quantized: bool
    types: tuple[DType, DType, DType]
    m: int
    k: int
    n: int
    batch: tuple[int, ...] = ()
    data: str = "any"
    scales: str = "ordinary"
    finer: frozenset[str] = frozenset()
    per_batch: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    ends: bool = False
    layouts: Mapping[str, str] = field(default_factory=dict)
    owned: frozenset[str] = frozenset()
    place: str = PLACES[2]
    threads: int = 1
    seed: int = 0

    @property
    def tensors(self) -> tuple[str, ...]:
        """The inputs, in binding order."""
        of = [(x, f"{x}_tensor", f"{x}_scale_tensor", f"{x}_zero_point_tensor") for x in ("a", "b", "output")]
        names = [name for x, *each in of for name in (each if x != "output" else each[1:])]
        kinds = names if self.quantized else [name for name in names if name not in SCALES and "output" not in name]
        return tuple(name for name in kinds if name not in self.absent)


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor in memory: strides in elements, and all bytes around it."""

    tensor: Array
    strides: tuple[int, ...]
    memory: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Case:
    """A recipe with its arrays."""

    recipe: Recipe
    inputs: dict[str, Placed]
    output: Placed
    expected: Array

    def __str__(self) -> str:
        return f"{self.recipe}"


# --- layouts ---


def strides_of(layout: str, sizes: Sequence[int], rng: random.Random) -> tuple[int, ...]:
    """The strides of a layout; packed, if the tensor has too few dimensions for it."""
    rank = len(sizes)
    order, gap, inner = list(range(rank)), 0, 1
    if layout == "padded":
        gap = rng.choice((1, 3, 4, 13))
    elif layout == "transposed" and rank > 1:
        order[-2:] = order[:-3:-1]
        gap = rng.choice((0, 0, 1, 6))
    elif layout == "stepped":
        inner = rng.choice((2, 3, 4))
    elif layout == "permuted":
        rng.shuffle(order)
    strides, step = [0] * rank, inner
    for at, dimension in enumerate(reversed(order)):
        strides[dimension] = step
        step = step * sizes[dimension] + (gap if at == 0 else 0)
    if layout == "one row" and rank > 1:
        strides[-2] = 0
    elif layout == "one column":
        strides[-1] = 0
    elif layout == "one batch":
        strides[: max(rank - 2, 0)] = [0] * max(rank - 2, 0)
    elif layout == "overlapping" and rank > 1:
        strides[-2] = 1
    elif layout == "one outer batch" and rank > 3:
        strides[0] = 0
    elif layout == "batches apart" and rank > 3:
        strides[0] += rng.choice((1, 7, 64))
    elif layout == "batches crossed" and rank > 3:
        strides[:2] = strides[1], strides[1] * sizes[0]
    return tuple(strides)


def place(sizes: Sequence[int], dtype: DType, strides: tuple[int, ...], where: str, gaps: int) -> Placed:
    """Memory for a tensor, with every byte equal to `gaps`."""
    if where != PLACES[2] and guard_pages.AVAILABLE:
        tensor, memory = guard_pages.place(sizes, strides, dtype, at_end=where == "before a guard page", canary=gaps)
        return Placed(tensor, strides, memory)
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    memory = np.full(span * dtype.itemsize + 80, gaps, np.uint8)
    lead = -memory.ctypes.data % 16 + 7
    return Placed(np.ndarray(tuple(sizes), dtype, memory.data, lead, [s * dtype.itemsize for s in strides]), strides, memory)


# --- a case from a recipe ---


def make(r: Recipe) -> Case:
    """The case that a recipe describes."""
    rng, numbers = random.Random(r.seed), np.random.default_rng(r.seed)
    placed: dict[str, Placed] = {}

    def put(name: str, values: Array) -> Array:
        strides = strides_of(r.layouts.get(name, "packed"), values.shape, rng)
        # bytes in gaps are not valid scales: all ones is NaN, all zeros is zero
        placed[name] = place(values.shape, values.dtype, strides, r.place, rng.choice((0xFF, 0x00)))
        placed[name].tensor[...] = values
        return placed[name].tensor  # which differs from the values if elements overlap

    def sizes(name: str, rank: int) -> tuple[int, ...]:
        rows = r.m if name in r.finer and name[0] != "b" else 1
        columns = r.n if name in r.finer and name[0] == "b" else 1
        vary = name in r.per_batch
        return parameter_sizes(rank, rows, columns, r.batch, (vary, vary))

    rank = len(r.batch) + 2
    low_rank = not (r.finer or r.per_batch) and rng.random() < 0.3  # a single parameter needs only one dimension
    parameter_rank = 1 if low_rank else rank
    tie = _near_tie(rng, r) if r.scales == "near tie" else None
    operands: list[Array | None] = []
    vectors = _vectors(rng, r, tie)
    for x, (name, shape, dtype) in enumerate(
        (("a", (*r.batch, r.m, r.k), r.types[0]), ("b", (*r.batch, r.k, r.n), r.types[1]))
    ):
        parameter, zero_point = f"{name}_zero_point_tensor", None
        if parameter not in r.absent:
            wanted = None if vectors is None else int(vectors[2 * x + 1])
            zero_point = put(parameter, _zero_points(numbers, sizes(parameter, parameter_rank), dtype, r.ends, wanted))
        values = _matrix(numbers, shape, dtype, zero_point, r.data, x)
        if vectors is not None:
            _insert(numbers, values, np.asarray(vectors[2 * x]), x)
            if r.scales == "sweep" and x == 1:
                values[..., -1, :] = _matrix(numbers, values[..., -1, :].shape, dtype, None, "any", x)
        operands += [put(f"{name}_tensor", values), zero_point]
    a, a_zero_point, b, b_zero_point = operands
    assert a is not None
    assert b is not None
    sums = oracle.accumulate_bulk(a, a_zero_point, b, b_zero_point)
    if r.quantized:
        three = matmul_scales.chosen(numbers, r.scales, sums, [sizes(name, parameter_rank) for name in SCALES], tie)
        a_scale, b_scale, output_scale = (put(name, x) for name, x in zip(SCALES, three, strict=True))
        zero_point = None
        if "output_zero_point_tensor" not in r.absent:
            shape = sizes("output_zero_point_tensor", parameter_rank)
            wanted = _room(r, sums, three, tie)
            zero_point = put("output_zero_point_tensor", _zero_points(numbers, shape, r.types[2], r.ends, wanted))
        expected = oracle_many.quantize_many(sums, a_scale, b_scale, output_scale, zero_point, *limits(r.types[2]))
        expected = expected.astype(r.types[2])
    else:
        expected = sums.astype(np.int32)  # with wrapping
    strides = strides_of(r.layouts.get("output_tensor", "packed"), expected.shape, rng)
    output = place(expected.shape, expected.dtype, strides, r.place, 0xA5)
    return Case(r, {name: placed[name] for name in r.tensors}, output, expected)


def _vectors(rng: random.Random, r: Recipe, tie: NearTie | None) -> tuple[Array, int, Array, int] | None:
    """A row, its zero point, a column and its zero point with a certain sum; None if any sum will do.

    In a sweep, the last of the K products is one step times the column's element, so that sums differ by one around a large
    sum.
    """
    if tie is not None:
        return hard_cases.vectors_with_sum(tie.q, r.k, rng, *r.types[:2])
    if r.scales != "sweep":
        return None
    most = rng.choice((100, 2000, 48_000, 48_000)) * (r.k - 1)
    sum_ = rng.choice((1, -1)) * rng.randint(most // 4, most)
    row, a_zero_point, column, b_zero_point = hard_cases.vectors_with_sum(sum_, r.k - 1, rng, *r.types[:2])
    step = 1 if a_zero_point < limits(r.types[0])[1] else -1
    return np.append(row, row.dtype.type(a_zero_point + step)), a_zero_point, np.append(column, column[:1]), b_zero_point


def _room(r: Recipe, sums: Array, scales: tuple[Array, Array, Array], tie: NearTie | None) -> int | None:
    """The output's zero point with which results on neither side of the near-ties saturate; None if it may be any."""
    lo, hi = limits(r.types[2])
    if tie is not None:
        return min(max((lo + hi) // 2 - int(tie.half), lo), hi)
    if r.scales != "sweep":
        return None
    sign = np.sign(np.median(sums)) * np.prod([np.sign(x.flat[0]) for x in scales])
    return lo if sign > 0 else hi


def _near_tie(rng: random.Random, r: Recipe) -> NearTie:
    region = rng.choice(list(hard_cases.NEAR_TIE_REGIONS))
    # with sums up to 2,000 * K zero points can be in the middle; up to 48,000 * K, a row and a column exist in any case
    return _near_ties_of(1 << (r.k * rng.choice((2000, 48_000))).bit_length() - 1, region, rng.randrange(2))


@cache
def _near_ties_of(largest: int, region: str, seed: int) -> NearTie:
    return hard_cases.near_tie(random.Random(seed), largest, region, tries=150)


def _zero_points(numbers: np.random.Generator, sizes: tuple[int, ...], dtype: DType, ends: bool, value: int | None) -> Array:
    lo, hi = limits(dtype)
    if value is not None:
        return np.full(sizes, value, dtype)
    return numbers.choice((lo, hi), sizes).astype(dtype) if ends else numbers.integers(lo, hi + 1, sizes).astype(dtype)


def _matrix(
    numbers: np.random.Generator, sizes: tuple[int, ...], dtype: DType, zero_point: Array | None, kind: str, inner: int
) -> Array:
    """The elements of A or B, of a kind; inner: 0 if K is the last dimension, else 1."""
    lo, hi = limits(dtype)
    if kind == "ends":
        return numbers.choice((lo, hi), sizes).astype(dtype)
    if kind == "corners":  # equal except for the last row or column: the largest possible sums
        values = np.full(sizes, numbers.choice((lo, hi)), dtype)
        edge = values[..., -1, :] if inner == 0 else values[..., :, -1]
        edge[...] = numbers.integers(lo, hi + 1, edge.shape)
        return values
    if kind in ("any", "near tie", "sweep"):
        return numbers.integers(lo, hi + 1, sizes).astype(dtype)
    centre = np.zeros(1, np.int64) if zero_point is None else zero_point.astype(np.int64)
    step = int(numbers.choice((2, 8, 6, 16))) if kind == "coarse" else 1
    reach = 3 if kind == "near zero" else 255
    least = np.maximum(-((centre - lo) // step), -reach)
    most = np.minimum((hi - centre) // step, reach)
    deviations = (numbers.random(sizes) * (most - least + 1)).astype(np.int64) + least
    if kind == "sparse":  # one of the K products is not 0
        alone = np.arange(sizes[-1 - inner]) == numbers.integers(sizes[-1 - inner])
        deviations *= alone.reshape((-1, 1) if inner else (1, -1))
    return np.asarray(np.clip(centre + step * deviations, lo, hi), dtype)


def _insert(numbers: np.random.Generator, values: Array, vector: Array, inner: int) -> None:
    """Write a vector into most rows of A or columns of B."""
    across = np.moveaxis(values, -1, -2) if inner else values
    across[..., numbers.random(across.shape[-2]) < 0.8, :] = vector


# --- recipes ---


def random_recipe(rng: random.Random, *, quantized: bool, large_share: float = 0.0, longest: int = 140_000) -> Recipe:
    """Any recipe. large_share: the share of recipes with hundreds of thousands of outputs."""
    chance = rng.random()
    if chance < large_share:
        m, k, n = rng.randint(200, 900), rng.randint(1, 48), rng.randint(200, 900)
    elif chance < large_share + 0.03:
        m, k, n = rng.randint(1, 3), rng.randint(1, 16), rng.randint(1000, 6000)
    elif chance < large_share + 0.05:
        m, k, n = rng.randint(500, 3000), rng.randint(1, 16), rng.randint(1, 40)
    elif chance < large_share + 0.20:
        m, k, n = rng.randint(1, 16), rng.choice((255, 256, 257, 258, 259, 260, 1023, 1024, 1025, 4096)), rng.randint(1, 70)
    elif chance < large_share + 0.22:
        m, k, n = rng.randint(1, 3), min(rng.choice(LONG), longest), rng.randint(1, 34)
    else:
        m, k, n = rng.randint(1, 40), rng.randint(1, 300), rng.randint(1, 100)
    batch = tuple(rng.randint(1, 3) for _ in range(rng.choice((0, 0, 1, 2)))) if m * n < 20_000 else ()
    kind = rng.choice((*matmul_scales.KINDS, "near tie", "near tie", "sweep", "odd", "mixed"))
    if kind in ("near tie", "sweep") and m * n < 5000:
        k = rng.choice((k, 1024, 4096, 4096))  # a longer sum can be closer to a tie
    r = Recipe(
        quantized,
        rng.choice(hard_cases.TYPE_COMBINATIONS),
        *(m, k, n, batch),
        data=rng.choice(DATA),
        scales=kind,
        finer=frozenset(x for x in (*SCALES, *ZERO_POINTS) if rng.random() < 0.4),
        per_batch=frozenset(x for x in (*SCALES, *ZERO_POINTS) if rng.random() < 0.15),
        absent=frozenset(x for x in ZERO_POINTS if rng.random() < 0.15),
        ends=rng.random() < 0.25,
        place=rng.choice(PLACES),
        threads=rng.randint(1, 4),
        seed=rng.getrandbits(32),
    )
    inputs = {x: rng.choice(INPUT_LAYOUTS) for x in r.tensors if rng.random() < 0.4}
    output = {"output_tensor": rng.choice(OUTPUT_LAYOUTS)}
    owned = frozenset(x for x in r.tensors if rng.random() < (0.4 if x.startswith("b") else 0.1))
    return fitting(replace(r, layouts={**inputs, **output}, owned=owned))


def fitting(r: Recipe) -> Recipe:
    """The recipe with the changes that its kind of scales needs."""
    steered = ("near tie", "sweep")
    if not r.quantized or r.scales not in steered:
        return replace(r, scales="ordinary" if r.scales in steered else r.scales)
    apart, one = {"a_tensor", "b_tensor"}, {"b_scale_tensor"} if r.scales == "sweep" else set()
    return replace(
        r,
        k=min(max(r.k, 9), 4096),
        data=r.scales,
        finer=r.finer - {*ZERO_POINTS, *one},
        per_batch=r.per_batch - {*ZERO_POINTS, *one},
        absent=frozenset(),
        layouts={x: layout for x, layout in r.layouts.items() if x not in apart or layout in OUTPUT_LAYOUTS},
    )


@st.composite
def recipes(draw: st.DrawFn, *, quantized: bool) -> Recipe:
    """Strategy: any small recipe. It shrinks to a packed product of one element."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    m, k, n = draw(st.integers(1, 34)), draw(st.integers(1, 70)), draw(st.integers(1, 70))
    parameters = (*SCALES, *ZERO_POINTS)
    names = ("a_tensor", "b_tensor", *parameters)
    layouts = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(INPUT_LAYOUTS), max_size=4))
    recipe = Recipe(
        quantized,
        draw(st.sampled_from(hard_cases.TYPE_COMBINATIONS)),
        *(m, k, n, batch),
        data=draw(st.sampled_from(DATA)),
        scales=draw(st.sampled_from(matmul_scales.KINDS)),
        finer=draw(st.frozensets(st.sampled_from(parameters))),
        per_batch=draw(st.frozensets(st.sampled_from(parameters))),
        absent=draw(st.frozensets(st.sampled_from(ZERO_POINTS))),
        ends=draw(st.booleans()),
        layouts={**layouts, "output_tensor": draw(st.sampled_from(OUTPUT_LAYOUTS))},
        owned=draw(st.frozensets(st.sampled_from(names), max_size=3)),
        place=draw(st.sampled_from(PLACES)),
        threads=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 2**16)),
    )
    return fitting(recipe)
