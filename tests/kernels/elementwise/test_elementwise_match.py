"""Which statements are maps and which are not; and every element is visited once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import DataType, operators
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.elementwise.geometry import SHORT, TILE, Box, parts, shares
from anydml.kernels.match.maps import OF_MORE, Map, Stream, maps, over_streams
from anydml.kernels.match.normal_form import Node
from anydml.schema.expression import (
    Sum,
    Tensor,
    at_limits,
    clamp,
    each,
    erf,
    erfc,
    exp,
    floor,
    half_to_even,
    log1p,
    maximum,
    minimum,
    over,
    rounded,
    select,
    sqrt,
)
from anydml.schema.node import Constant, number
from anydml.schema.operator import example_desc
from anydml.schema.statement import Nest, move, nest, stated
from tensors import SETTINGS

F32 = DataType.FLOAT32
SIZES = (3, 5)
I = each(SIZES)  # noqa: E741  # an index
X, Y = Tensor("x", SIZES, F32), Tensor("y", SIZES, F32)
ALONG = over(I, SIZES, (1,))
BY_ONE = ((1, 0), (0, 1))


def the_map(made: Nest) -> Map:
    found = maps({"output": made})
    assert not isinstance(found, str), found
    return found[0]


def named(name: str) -> Any:
    operator = operators.find(name)
    assert operator is not None
    return operator


# --- maps ---


def test_a_map_has_streams_and_a_formula() -> None:
    found = the_map(nest(I, X[I] * 2.0 + Y[I]))
    assert found.streams == (Stream("x", F32, (0, 0), BY_ONE), Stream("y", F32, (0, 0), BY_ONE))
    assert [node.op for node in found.formula] == ["stream", "constant", "mul", "stream", "add"]
    assert [node.args for node in found.formula] == [(), (), (0, 1), (), (2, 3)]
    assert (found.target.name, found.sizes, found.moves, found.integral) == ("output", SIZES, False, False)


def test_equal_reads_are_one_stream_and_equal_nodes_one_node() -> None:
    found = the_map(nest(I, exp(X[I]) + X[I] * exp(X[I])))
    assert len(found.streams) == 1
    assert [node.op for node in found.formula].count("exp") == 1


def test_reads_elsewhere_are_streams_of_their_own() -> None:
    i, j = I
    found = the_map(nest(I, X[i, j] + X[2 - i, 4 - j] + X[0, j]))
    assert found.streams == (
        Stream("x", F32, (0, 0), BY_ONE),
        Stream("x", F32, (2, 4), ((-1, 0), (0, -1))),
        Stream("x", F32, (0, 0), ((0, 0), (0, 1))),
    )


def test_positions_are_streams_without_a_tensor() -> None:
    found = the_map(nest(I, number(I[0] * 10 + I[1] + 3) / 2.0))
    assert found.streams == (Stream(None, DataType.INT64, (3,), ((10,), (1,))),)


def test_a_move_is_a_map_that_stores_bits() -> None:
    found = the_map(move(I, X[I]))
    assert found.moves
    assert [node.op for node in found.formula] == ["stream"]


def test_formulas_written_in_two_ways_are_equal() -> None:
    """They share compiled code."""
    j = each(SIZES)
    assert the_map(nest(I, exp(X[I]) + 1.0)) == the_map(nest(j, exp(X[j]) + 1.0))
    assert hash(the_map(nest(I, exp(X[I]) + 1.0)).formula) == hash(the_map(nest(j, exp(X[j]) + 1.0)).formula)


def test_what_is_stored_comes_last() -> None:
    """Also if other nodes use the last node of a formula."""
    found = the_map(nest(I, X[I]))
    assert found.formula[-1].op in ("stream", "same")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (nest(I, Sum(ALONG, X[ALONG])), OF_MORE),
        (nest(I, X[I[0], (I[1] + 1) // 2]), "an index is not affine"),
    ],
    ids=["a sum", "half an index"],
)
def test_what_is_no_map(made: Nest, reason: str) -> None:
    assert maps({"output": made}) == reason


def test_what_is_not_chosen_is_inside_too() -> None:
    """A joined tensor: at every index, one of its two halves is outside."""
    halves = [Tensor(name, (2, 5), DataType.FLOAT32) for name in "ab"]
    i = each((4, 5))
    joined = nest(i, select(i[0] < 2, halves[0][i], halves[1][i[0] - 2, i[1]]))
    assert maps({"output": joined}) == "an element that is not selected is outside of its input"


def test_a_choice_by_index_reads_the_position() -> None:
    found = maps({"output": nest(I, select(I[0] < 2, X[I], Y[I]))})
    assert isinstance(found, list)
    (position,) = (stream for stream in found[0].streams if stream.name is None)
    assert (position.start, position.steps) == ((0,), ((1,), (0,)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ACTIVATION_SOFTMAX1", OF_MORE),
        ("REDUCE", OF_MORE),
        ("CONVOLUTION", "an element depends on more than one element of an input"),
        ("MATRIX_MULTIPLY_INTEGER", OF_MORE),
        ("TOP_K1", OF_MORE),
        ("GATHER", "an index is not affine"),
        ("PADDING1", "an element is not one of an input"),
    ],
)
def test_operators_that_are_no_maps(name: str, reason: str) -> None:
    found = maps(stated(example_desc(named(name)).as_newest()))
    assert found == reason


def test_a_formula_is_an_expression_again() -> None:
    found = the_map(nest(I, exp(X[I]) / (1.0 + sqrt(Y[I]))))
    i = each((7,))
    body, tensors = over_streams(found.formula, (7,), i)
    assert [(t.name, t.data_type) for t in tensors] == [("0", F32), ("1", F32)]
    again = the_map(nest(i, body))
    assert [(n.op, n.args) for n in again.formula] == [(n.op, n.args) for n in found.formula]


@pytest.mark.parametrize(
    ("body", "op"),
    [
        (1.0 / (1.0 + exp(-X[I])), "sigmoid"),
        (1.0 / (exp(-X[I]) + 1.0), "sigmoid"),
        (log1p(exp(X[I])), "softplus"),
        (at_limits(X[I], 0.5 * X[I] * (1 + erf(X[I] / sqrt(2))), low=-0.0), "gelu"),
        (at_limits(X[I], X[I] * 0.5 * erfc(-(X[I] / sqrt(2))), low=-0.0), "gelu"),
        (0.5 * X[I] * (1 + erf(X[I] / sqrt(2))), None),
        (at_limits(X[I], X[I] / (1 + X[I]), low=-1.0), None),
        (at_limits(X[I], 0.5 * X[I] * (1 + erf(X[I] / sqrt(3))), low=-0.0), None),
        (at_limits(X[I], 0.25 * X[I] * (1 + erf(X[I] / sqrt(2))), low=-0.0), None),
        (at_limits(X[I], 0.5 * Y[I] * (1 + erf(X[I] / sqrt(2))), low=-0.0), None),
        (at_limits(X[I], 0.5 * X[I] * (1 + erf(Y[I] / sqrt(2))), low=-0.0), None),
        (1.0 / (2.0 + exp(-X[I])), None),
        (1.0 / (1.0 + exp(X[I])), None),
        (2.0 / (1.0 + exp(-X[I])), None),
        (log1p(exp(X[I]) * 2.0), None),
    ],
)
def test_functions_that_are_computed_together(body: Any, op: str | None) -> None:
    found = the_map(nest(I, body))
    made = combined(found.formula)
    assert {"sigmoid", "softplus", "gelu"} & {node.op for node in made} == ({op} if op else set())
    if op:
        assert len(made) < len(found.formula)
        assert all(a < place for place, node in enumerate(made) for a in node.args)
    else:
        assert made == found.formula


Z, WIDE = Tensor("z", SIZES, DataType.UINT8), Tensor("w", SIZES, DataType.INT32)
ROUNDED = half_to_even(rounded(X[I] / Y[I], F32))


@pytest.mark.parametrize(("body", "bounds"), [
    (clamp(ROUNDED + Z[I], 0, 255), (-255, 255)),
    (clamp(3 + half_to_even(X[I]), -8, 7), (-11, 4)),
    (minimum(maximum(Z[I] + ROUNDED, -128), 127), (-383, 127)),
    (clamp(ROUNDED + WIDE[I], 0, 255), None),
    (clamp(ROUNDED + X[I], 0, 255), None),
    (clamp(half_to_even(X[I] / Y[I]) + Z[I], 0, 255), None),
    (clamp(floor(X[I]) + Z[I], 0, 255), None),
    (clamp(ROUNDED + Z[I], 0, 0.5), None),
    (clamp(ROUNDED + Z[I], Y[I], 255), None),
    (maximum(minimum(ROUNDED + Z[I], 255), 0), None),
    (minimum(ROUNDED + Z[I], 255), None),
])  # fmt: skip
def test_what_is_clamped_behind_a_small_integer_is_clamped_before_it(body: Any, bounds: tuple[int, int] | None) -> None:
    """The numbers are equal for every quotient, if sums stay in the range in which float32 has all integers."""
    found = the_map(nest(I, body))
    made = combined(found.formula)
    if bounds is None:
        assert made == found.formula
        return
    low, high = (Node("constant", (), Constant(Fraction(n), True)) for n in bounds)
    inner = [node for node in made if node.op == "min" and high in [made[a] for a in node.args]]
    assert any(low in [made[b] for b in made[a].args] for node in inner for a in node.args)
    assert all(a < place for place, node in enumerate(made) for a in node.args)
    values = [math.nan, math.inf, -math.inf, -0.0, *map(float, range(-700, 700)), 2.0**100, -(2.0**60)]
    for z in (0, 1, 100, 254, 255):
        assert [repr(clamped(made, x, z)) for x in values] == [repr(clamped(found.formula, x, z)) for x in values]


def clamped(formula: Any, x: float, z: float) -> float:
    """A formula of this kind in Python; x is the rounded quotient."""
    found: list[float] = []
    for op, args, data in formula:
        a = [found[k] for k in args]
        if op == "half_to_even":
            found.append(x)
        elif op == "constant":
            found.append(float(data.value))
        elif op in ("max", "min"):
            found.append(math.nan if math.isnan(sum(map(abs, a))) else (max if op == "max" else min)(a))
        elif op == "add":
            found.append(sum(a))
        else:
            found.append(z)
    return found[-1]


# --- the order of elements ---

Places = Counter[tuple[int, ...]]


def visited(part: Box, first: int, rows: int) -> Iterator[tuple[int, ...]]:
    """The offsets in every stream of each element of some rows."""
    for row, at in enumerate(product(*(range(d.size) for d in part.outer))):
        if first <= row < first + rows:
            for k in range(part.row.size):
                where = zip(part.outer, at, strict=True)
                moved = [[n * s for s in d.strides] for d, n in (*where, (part.row, k))]
                yield tuple(sum(x) for x in zip(part.offsets, *moved, strict=True))


SIDES = st.sampled_from((1, 2, 3, 5, SHORT - 1, SHORT, TILE, TILE + 1, 2 * TILE + 3))


@st.composite
def boxes(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int]]:
    """Sizes, strides in bytes (those of the output differ for any two elements), item sizes."""
    sizes = draw(st.lists(SIDES, max_size=3)) + draw(st.lists(st.sampled_from((1, 2, 3)), max_size=3))
    while prod(sizes) > 3000:
        sizes.remove(min(n for n in sizes if n > 1))
    itemsizes = draw(st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=3))

    def packed(itemsize: int) -> list[int]:
        strides, step = [0] * len(sizes), itemsize
        for d in draw(st.permutations(range(len(sizes)))):
            strides[d] = step
            step *= sizes[d] + draw(st.sampled_from((0, 0, 1)))
        return strides

    def any_of(itemsize: int) -> list[int]:
        signs = draw(st.lists(st.sampled_from((1, 1, 0, -1)), min_size=len(sizes), max_size=len(sizes)))
        return [s * sign for s, sign in zip(packed(itemsize), signs, strict=True)]

    return sizes, [*map(any_of, itemsizes[:-1]), packed(itemsizes[-1])], itemsizes


@settings(SETTINGS, max_examples=60)
@given(boxes(), st.sampled_from((1, 2, 3, 7)), st.sampled_from((1, 8, 64)))
def test_every_element_is_visited_once(box: tuple[list[int], list[list[int]], list[int]], count: int, grain: int) -> None:
    sizes, strides, itemsizes = box
    wanted: Places = Counter()
    for at in product(*map(range, sizes)):
        wanted[tuple(sum(n * s for n, s in zip(at, of, strict=True)) for of in strides)] += 1
    found: Places = Counter()
    every = parts(sizes, strides, itemsizes)
    assert len(every) <= 2
    for part in every:
        made = list(shares(part, count, grain))
        assert len(made) <= max(1, count)
        for share, first, rows in made:
            assert rows > 0
            assert share.row.size > 0
            found.update(visited(share, first, rows))
    assert found == wanted


def test_rows_are_what_runs_on() -> None:
    (part,) = parts((4, 5, 6), [[120, 24, 4], [120, 24, 4]], [4, 4])
    assert (part.outer, part.row.size, part.row.strides) == ((), 120, (4, 4))
    (part,) = parts((4, 5, 6), [[0, 24, 4], [120, 24, 4]], [4, 4])
    assert ([d.size for d in part.outer], part.row.size) == ([4], 30)


def test_a_short_row_gives_way_to_a_long_one() -> None:
    found = parts((1000, 3), [[16, 4], [16, 4]], [4, 4])
    assert all(part.row.strides == (16, 16) and part.outer[-1].size == 3 for part in found)
    assert sum(part.row.size * part.rows for part in found) == 3000


def test_rows_across_an_input_s_are_taken_in_tiles() -> None:
    n = 3 * TILE + 7
    whole, rest = parts((500, n), [[4, 2000], [4 * n, 4]], [4, 4])
    assert (whole.row.size, [d.size for d in whole.outer]) == (TILE, [3, 500])
    assert (rest.row.size, [d.size for d in rest.outer]) == (7, [500])
    assert rest.offsets == (2000 * 3 * TILE, 4 * 3 * TILE)
