"""A contraction as rows and columns: the offsets of every tensor's elements for a row, a column and a term, in bytes.

Rows are the indices of one factor, columns those of the other; only the columns' factor may be read outside of its tensor.
Indices of both factors are batches: each is a matrix product of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.kernels.match.contraction import SUM, Contraction, Factor
from anydml.kernels.problem import Problem
from anydml.schema.node import Variable

FAR = 1 << 62
DIMENSIONS = 3  # of columns, at most
MOST_POSITIONS = 1 << 14  # entries of the table of terms
ENTRY = 8  # int64 of an entry: offsets in the factor of columns and in that of rows, and ranges of columns that count


class StreamPlace(NamedTuple):
    """A tensor or stream: the place of its first element, and its strides in bytes along batches, rows and the columns."""

    at: At
    batches: tuple[int, ...]
    row: int
    columns: tuple[int, int, int]

    def of(self, batch: Sequence[int], row: int = 0) -> At:
        along = sum(i * s for i, s in zip(batch, self.batches, strict=True)) if batch else 0
        return self.at + (along + row * self.row)


class FloatLayout(NamedTuple):
    """rows x columns for each batch. sizes: the columns' three dimensions; flat: the same, merged where the streams allow it.

    a, b: the factors of rows and columns; a_term, b_term: bytes from one channel to the next. table: an entry for each
    position of the filter. padded: whether some terms do not count for some columns; inside: the range of columns, in each
    dimension, for which all terms count. order: the variables in the order of batches, rows and columns, which numbers them.
    """

    batches: tuple[int, ...]
    rows: int
    sizes: tuple[int, int, int]
    flat: tuple[int, int, int]
    a: StreamPlace
    b: StreamPlace
    streams: tuple[StreamPlace, ...]
    output: StreamPlace
    channels: int
    a_term: int
    b_term: int
    table: NDArray[np.int64]
    padded: bool
    inside: tuple[int, ...]
    order: tuple[Variable, ...]

    @property
    def columns(self) -> int:
        return math.prod(self.sizes)

    @property
    def terms(self) -> int:
        return self.channels * len(self.table)


class _Test(NamedTuple):
    """0 <= constant + the sum of factors * variables < size."""

    constant: int
    factors: Mapping[Variable, int]
    size: int


def layout(c: Contraction, problem: Problem, columns_of: int | None = None) -> FloatLayout | str:
    """The layout of a contraction, or the reason why it has none. columns_of: the factor of columns, if both are possible."""
    tests = [_tests(f) for f in c.factors]
    if all(tests):
        return "both factors are read outside of their tensors"
    names = {c.output, *(f.name for f in c.factors), *(s.name for s in c.streams if s.name)} - {SUM}
    steps = {name: _bytes(name, problem) for name in names}
    out = _output_strides(c, steps[c.output])
    strides = [_strides(f, steps[f.name]) for f in c.factors]
    in_factor = [{v for i in f.at for v in i.factors} for f in c.factors]
    live = [v for v in c.variables if v.size > 1]
    alone = [[v for v in live if v in in_factor[k] and v not in in_factor[1 - k]] for k in (0, 1)]
    side = _innermost(alone, out) if columns_of is None else columns_of
    side = next((k for k in (1, 0) if tests[k]), side)
    columns, rows = (sorted(alone[k], key=lambda v: -abs(out[v])) for k in (side, 1 - side))
    places = [(strides[1 - side], c.factors[1 - side]), (strides[side], c.factors[side])]
    tested = {v for t in tests[side] for v in t.factors}
    if any(v in tested for v in rows) or any(sum(v in t.factors for v in columns) > 1 for t in tests[side]):
        return "what is read outside depends on several positions"
    streams = [_stream(s, steps, c.variables) for s in c.streams]
    others = [s for s in streams if s is not None]
    kept = _merged(columns, [places[1][0], out, *(s for _, s in others)], tested)
    row = _merged(rows, [places[0][0], out, *(s for _, s in others)], set())
    # too many dimensions: the outermost become batches, except those that are tested
    free = [k for k, d in enumerate(kept) if not any(v in tested for v in d.variables)][: max(len(kept) - DIMENSIONS, 0)]
    taken, row_taken = [d for k, d in enumerate(kept) if k not in free], row[-1:]
    beyond = [*(kept[k] for k in free), *row[:-1]]
    if len(taken) > DIMENSIONS:
        return "what is read outside depends on too many positions"
    batches = [_Dimension(v.size, (v,), v) for v in live if not any(v in a for a in alone)] + beyond
    if any(v in tested for d in batches for v in d.variables):
        return "what is read outside depends on what numbers products"
    dims = [_Dimension(1, (), None)] * (DIMENSIONS - len(taken)) + taken
    terms = _terms(c, places, tests[side], dims)
    if isinstance(terms, str):
        return terms
    channels, a_term, b_term, table, inside = terms

    def place(at: At, own: Mapping[Variable, int]) -> StreamPlace:
        def of(d: _Dimension) -> int:
            return own.get(d.step, 0) if d.step is not None else 0

        first, second, third = (of(d) for d in dims)
        return StreamPlace(at, tuple(of(d) for d in batches), of(row_taken[0]) if row_taken else 0, (first, second, third))

    bases = [At(f.name, sum(i.constant * s for i, s in zip(f.at, steps[f.name], strict=True))) for _, f in places]
    start = sum(i * s for i, s in zip(c.start, steps[c.output], strict=True))
    sizes = tuple(d.size for d in dims)
    made = [StreamPlace(At(SUM), (0,) * len(batches), 0, (0, 0, 0)) if s is None else place(*s) for s in streams]
    output = place(At(c.output, start), out)
    flat = _flat(sizes, [output, *(p for p, s in zip(made, streams, strict=True) if s is not None)])
    return FloatLayout(
        tuple(d.size for d in batches),
        row_taken[0].size if row_taken else 1,
        (sizes[0], sizes[1], sizes[2]),
        flat,
        place(bases[0], places[0][0]),
        place(bases[1], places[1][0]),
        tuple(made),
        output,
        channels,
        a_term,
        b_term,
        table,
        bool(tests[side]) or not channels * len(table),
        inside,
        tuple(v for d in (*batches, *row_taken, *taken) for v in d.variables),
    )


class _Dimension(NamedTuple):
    """Variables merged to one dimension. step: the innermost one, which has the dimension's strides; None without variables."""

    size: int
    variables: tuple[Variable, ...]
    step: Variable | None


def _bytes(name: str, problem: Problem) -> list[int]:
    t = problem.tensors[name]
    size = t.data_type.dtype.itemsize
    return [s * size for s in t.explicit_strides]


def _strides(f: Factor, steps: Sequence[int]) -> dict[Variable, int]:
    found: dict[Variable, int] = {}
    for index, stride in zip(f.at, steps, strict=True):
        for v, factor in index.factors.items():
            found[v] = found.get(v, 0) + factor * stride
    return found


def _output_strides(c: Contraction, strides: Sequence[int]) -> dict[Variable, int]:
    return {v: sum([a * b for a, b in zip(step, strides, strict=True)]) for v, step in zip(c.variables, c.steps, strict=True)}


def _stream(s: Any, steps: Mapping[str, Sequence[int]], variables: Sequence[Variable]) -> tuple[At, dict[Variable, int]] | None:
    """The place of a stream's first element, and its strides along the variables; None for the sum."""
    if s.name == SUM:
        return None
    strides = steps[s.name]
    at = At(s.name, sum(i * x for i, x in zip(s.start, strides, strict=True)))
    return at, {v: sum(a * b for a, b in zip(step, strides, strict=True)) for v, step in zip(variables, s.steps, strict=True)}


def _tests(f: Factor) -> list[_Test]:
    """The dimensions in which a factor may be read outside of its tensor."""
    found = []
    for index, size in zip(f.at, f.sizes, strict=True):
        ends = [factor * (v.size - 1) for v, factor in index.factors.items() if v.size]
        low = index.constant + sum([e for e in ends if e < 0])
        high = index.constant + sum([e for e in ends if e > 0])
        if low < 0 or high >= size:
            found.append(_Test(index.constant, {v: n for v, n in index.factors.items() if v.size != 1}, size))
    return found


def _innermost(alone: Sequence[Sequence[Variable]], out: Mapping[Variable, int]) -> int:
    """The factor one of whose variables has the output's smallest stride."""
    least = [min((abs(out[v]) for v in vs), default=FAR) for vs in alone]
    return 1 if least[1] <= least[0] else 0


def _merged(
    variables: Sequence[Variable], strides: Sequence[Mapping[Variable, int]], tested: set[Variable]
) -> list[_Dimension]:
    """Dimensions, the outermost first; adjacent variables are merged if all tensors' strides permit it and none is tested."""
    made: list[_Dimension] = []
    for v in variables:
        last = made[-1] if made else None
        if (
            last is not None
            and v not in tested
            and not any(x in tested for x in last.variables)
            and last.step is not None
            and all(s.get(last.step, 0) == s.get(v, 0) * v.size for s in strides)
        ):
            made[-1] = _Dimension(last.size * v.size, (*last.variables, v), v)
        else:
            made.append(_Dimension(v.size, (v,), v))
    return made


def _flat(sizes: Sequence[int], places: Sequence[StreamPlace]) -> tuple[int, int, int]:
    """The columns' sizes, with dimensions merged where the output and the streams are contiguous across them."""
    z, y, x = sizes
    if all(p.columns[1] == p.columns[2] * x for p in places) or y == 1:
        if all(p.columns[0] == p.columns[2] * x * y for p in places) or z == 1:
            return 1, 1, x * y * z
        return z, 1, x * y
    return z, y, x


def _terms(
    c: Contraction, places: Sequence[tuple[Mapping[Variable, int], Factor]], tests: Sequence[_Test], dims: Sequence[_Dimension]
) -> tuple[int, int, int, NDArray[np.int64], tuple[int, ...]] | str:
    """The number of channels, their strides, the table of the other terms, and the columns for which all terms count."""
    (a, _), (b, _) = places
    tested = {v for t in tests for v in t.factors}
    free = [v for v in c.terms if v not in tested]
    # rather a channel than a position of a window
    along = [{v for v in i.factors if v.size > 1} for i in c.factors[0].at + c.factors[1].at]
    moves = {v for several in along if len(several) > 1 for v in several}
    channel = max(free, key=lambda v: (v.size > 1 and v not in moves, v.size), default=None)
    rest = [v for v in c.terms if v is not channel]
    if math.prod(v.size for v in rest) > MOST_POSITIONS:
        return f"filters have more than {MOST_POSITIONS} positions"
    sizes = [d.size for d in dims]
    entries = []
    moving = [_moving(t, dims) for t in tests]
    inside = [0, sizes[0], 0, sizes[1], 0, sizes[2]]
    for at in product(*(range(v.size) for v in rest)):
        value = dict(zip(rest, at, strict=True))
        ranges = [0, sizes[0], 0, sizes[1], 0, sizes[2]]
        for t, (k, factor) in zip(tests, moving, strict=True):
            constant = t.constant + sum([f * value[v] for v, f in t.factors.items() if v in value])
            low, high = _range(constant, factor, t.size, sizes[k])
            ranges[2 * k] = max(ranges[2 * k], low)
            ranges[2 * k + 1] = max(min(ranges[2 * k + 1], high), ranges[2 * k])
        if ranges[0] >= ranges[1] or ranges[2] >= ranges[3] or ranges[4] >= ranges[5]:
            ranges = [0] * 6
        inside[::2], inside[1::2] = map(max, inside[::2], ranges[::2]), map(min, inside[1::2], ranges[1::2])
        offsets = [sum([s.get(v, 0) * n for v, n in value.items()]) for s in (b, a)]
        entries.append((*offsets, *ranges))
    count = 1 if channel is None else channel.size
    a_term, b_term = (0, 0) if channel is None else (a.get(channel, 0), b.get(channel, 0))
    if not count * len(entries):
        inside = [0] * len(inside)
    return count, a_term, b_term, np.array(entries, np.int64).reshape(-1, ENTRY), tuple(inside)


def _moving(test: _Test, dims: Sequence[_Dimension]) -> tuple[int, int]:
    """The dimension with which a test's value moves, and by how much."""
    found = [(k, test.factors[v]) for k, d in enumerate(dims) for v in d.variables if v in test.factors]
    (only,) = found or [(0, 0)]
    return only


def _range(constant: int, factor: int, size: int, count: int) -> tuple[int, int]:
    """The half-open range of n, 0 <= n < count, for which 0 <= constant + factor * n < size."""
    if factor == 0:
        return (0, count) if 0 <= constant < size else (0, 0)
    if factor < 0:
        low, high = -(-(constant - size + 1) // -factor), constant // -factor
        return max(low, 0), min(high + 1, count)
    return max(-(constant // factor), 0), min((size - 1 - constant) // factor + 1, count)
