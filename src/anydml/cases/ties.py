"""Inputs moved until exact results lie at a rounding boundary, or next to one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import ctx, fmpq
from numpy.typing import NDArray

from anydml.exact.reals import CUTOFF, Undecided, as_arb
from anydml.kernels.evaluate.evaluator import Evaluator
from anydml.kernels.evaluate.source import FunctionSource
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, stated
from anydml.schema.traversal import most_terms, walk
from anydml.tensor import DataType

Array = NDArray[Any]

TARGETS = 16  # elements of an output that are moved to a tie
TERMS = 1 << 20  # terms of sums at most that are evaluated for one output
BITS = 256  # of exact values; an error of 2^-200 is far below the steps of inputs
CLOSE = Fraction(1, 1 << 16)  # of a step: what counts as next to a tie, so that no further input is moved
NEIGHBOURS = 24  # floats on both sides of an input that are tried, if no other input moves the output


class _Output(NamedTuple):
    """An output: the evaluator of its elements before they are rounded, and the type whose numbers they are rounded to."""

    exact: Evaluator
    source: FunctionSource
    views: Mapping[str, Array]
    sizes: tuple[int, ...]
    step: np.finfo[Any] | None
    """The float type; None if elements are rounded to integers."""
    cost: int


def move_to_ties(desc: Desc, bases: Mapping[str, Array], views: Mapping[str, Array], random: np.random.Generator) -> None:
    """Change elements of inputs so that a few elements of each output lie at a tie or next to one.

    bases: the arrays that may be changed, by field. views: the same memory as the operator reads it.
    """
    newest = desc.as_newest()
    for output in _outputs(newest, views):
        movable = [
            name for name, x in bases.items() if x.dtype.kind == "f" and x.size and not ("scale" in name and not output.step)
        ]
        if movable:
            _Mover(output, {name: bases[name] for name in movable}, random).run()
        elif not output.step:
            _scales(output, {name: x for name, x in bases.items() if "scale" in name}, random)


def _outputs(desc: Desc, views: Mapping[str, Array]) -> Iterator[_Output]:
    tensors = {found.name: found.desc for found in desc.tensors()}
    for name, nest in stated(desc).items():
        data_type = tensors[name].data_type
        if nest.moves or not nest.index:
            continue
        quotient = next((e.args[0] for e in reversed(list(walk(nest.body))) if e.op == "half_to_even"), None)
        floats = data_type.name.startswith("FLOAT")
        if not floats and quotient is None:
            continue  # integers that are computed as integers have no ties
        body = nest.body if floats else quotient
        assert body is not None
        shown = Nest(nest.index, body)
        step = np.finfo(data_type.dtype) if floats else None
        form = data_type if floats else DataType.FLOAT32
        source = FunctionSource(views)
        yield _Output(Evaluator(shown, form, source), source, views, tuple(tensors[name].sizes), step, most_terms(body))


def value(output: _Output, at: Sequence[int]) -> Fraction | None:
    """An element before it is rounded; None if it is infinite or NaN."""
    bits = BITS
    if not output.source.read(output.views):  # since they have changed
        return None
    while True:
        ctx.prec = bits
        try:
            found = output.exact.number(*at)
        except Undecided:
            bits *= 4
            if bits > CUTOFF:
                return None
            continue
        if type(found) is fmpq:
            return Fraction(int(found.p), int(found.q))
        if type(found) is float:
            return Fraction(0) if found == 0 else None
        ball = as_arb(found)
        if not ball.is_finite():
            return None
        m, e = ball.mid().man_exp()
        if abs(int(e)) > CUTOFF:  # far beyond every float
            return None
        return Fraction(int(m)) * Fraction(2) ** int(e)


def boundary(x: Fraction, step: np.finfo[Any] | None) -> tuple[Fraction, Fraction]:
    """The tie that is nearest to a number, and the step between the numbers beside it."""
    unit = Fraction(1)
    if step is not None:
        size = abs(x)
        exponent = step.minexp
        if size:
            exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), exponent)
            exponent -= Fraction(2) ** exponent > size
        unit = Fraction(2) ** (max(exponent, step.minexp) - step.nmant)
    return (math.floor(x / unit) + Fraction(1, 2)) * unit, unit


class _Mover:
    """Moves elements of float inputs, a few for each target, and no element that an earlier target depends on."""

    def __init__(self, output: _Output, bases: Mapping[str, Array], random: np.random.Generator) -> None:
        self.output, self.random = output, random
        self.flat = {name: x.reshape(-1) for name, x in bases.items()}  # views, since the bases are contiguous
        self.done: list[tuple[tuple[int, ...], Fraction]] = []

    def run(self) -> None:
        targets = _targets(self.output.sizes, self.random)
        for at in targets[: max(1, TERMS // (64 * self.output.cost))]:
            if len(self.done) == TARGETS:
                break
            kept = {name: x.copy() for name, x in self.flat.items()}
            if (found := self._moved(at)) is None or not self._others_stay():
                for name, x in self.flat.items():
                    x[:] = kept[name]
            else:
                self.done.append((at, found))

    def _others_stay(self) -> bool:
        return all(value(self.output, at) == x for at, x in self.done)

    def _moved(self, at: tuple[int, ...]) -> Fraction | None:
        """The value of a target, moved to a tie; None if nothing moves it."""
        places = [place for name in self.random.permutation([*self.flat]) if (place := self._place(str(name), at, set()))]
        if places and len(places) < 3 and (more := self._place(places[0][0], at, {places[0]})):
            places.append(more)
        places = [p for p in places if math.isfinite(self.flat[p[0]][p[1]])]
        if not places or value(self.output, at) is None:
            return None
        for depth, (name, i) in enumerate(places[1:3], 1):  # smaller numbers move the output by smaller steps
            x = self.flat[name]
            x[i] = np.ldexp(x[i], -9 * depth) or x[i]
        tie = None
        for name, i in places[:3]:
            tie = self._towards(at, self.flat[name], i, tie)
            if tie is None:
                return None
            found = value(self.output, at)
            if found is not None and abs(found - tie) < CLOSE * boundary(found, self.output.step)[1]:
                return found
        self._nearest(at, self.flat[places[-1][0]], places[-1][1])
        return value(self.output, at)

    def _towards(self, at: tuple[int, ...], x: Array, i: int, tie: Fraction | None) -> Fraction | None:
        """Move an input so that an output comes close to a tie: the nearest one, or the given one. Returns the tie."""
        for _ in range(3):
            here = value(self.output, at)
            if here is None:
                return None
            tie = boundary(here, self.output.step)[0] if tie is None else tie
            start = x[i]
            moved = np.nextafter(start, start.dtype.type(np.inf)) if tie == here else start * start.dtype.type(1 + 2.0**-6)
            x[i] = moved if moved != start else np.nextafter(start, start.dtype.type(np.inf))
            there = value(self.output, at)
            if there is None or there == here:
                x[i] = start
                return tie
            slope = (there - here) / (Fraction(float(x[i])) - Fraction(float(start)))
            goal = Fraction(float(start)) + (tie - here) / slope
            with np.errstate(over="ignore"):
                x[i] = float(goal) if abs(goal) < Fraction(10) ** 300 else start
            last = value(self.output, at)
            if not np.isfinite(x[i]) or last is None or abs(last - tie) >= abs(here - tie):
                x[i] = start
                return tie
        return tie

    def _nearest(self, at: tuple[int, ...], x: Array, i: int) -> None:
        """Keep the one of an input's neighbours whose output is nearest to a tie of its own."""
        start, near = x[i], []
        for tried in _neighbours(start):
            x[i] = tried
            if (found := value(self.output, at)) is not None:
                tie, unit = boundary(found, self.output.step)
                near.append((abs(found - tie) / unit, float(tried)))
        x[i] = min(near)[1] if near else start

    def _place(self, name: str, at: tuple[int, ...], without: set[tuple[str, int]]) -> tuple[str, int] | None:
        """An element of an input that a target depends on, found by halving; None if there is none."""
        x = self.flat[name]
        left = np.array([i for i in self.random.permutation(x.size) if (name, int(i)) not in without], np.int64)
        here = value(self.output, at)
        if not self._changes(x, left, at, here):
            return None
        while len(left) > 1:
            half = left[: len(left) // 2]
            left = half if self._changes(x, half, at, here) else left[len(left) // 2 :]
        return (name, int(left[0])) if len(left) and self._changes(x, left, at, here) else None

    def _changes(self, x: Array, places: Array, at: tuple[int, ...], here: Fraction | None) -> bool:
        """Whether a target depends on any of some elements."""
        kept = x[places]
        with np.errstate(over="ignore", invalid="ignore"):
            x[places] = np.where(kept == 0, x.dtype.type(2.0**-10), kept * x.dtype.type(1 + 2.0**-6))
        found = value(self.output, at)
        x[places] = kept
        return found != here


def _neighbours(start: Any) -> Iterator[Any]:
    """A float and those beside it."""
    yield start
    for end in (np.inf, -np.inf):
        x = start
        for _ in range(NEIGHBOURS):
            x = np.nextafter(x, start.dtype.type(end))
            yield x


def _targets(sizes: tuple[int, ...], random: np.random.Generator) -> list[tuple[int, ...]]:
    """Coordinates in random order; those come first that differ from one another in all dimensions, as far as they can."""
    drawn = [tuple(map(int, np.unravel_index(i, sizes))) for i in random.permutation(math.prod(sizes))[: 16 * TARGETS]]
    apart: list[tuple[int, ...]] = []
    for at in drawn:
        if all(a != b or n == 1 for other in apart for a, b, n in zip(at, other, sizes, strict=True)):
            apart.append(at)
    return (apart + [at for at in drawn if at not in apart])[: 3 * TARGETS]


def _scales(output: _Output, scales: Mapping[str, Array], random: np.random.Generator) -> None:
    """Make scales powers of two, or the floats beside them, so that many quotients are ties or next to one.

    The quotients are made to reach about 50, by the scale of the output.
    """
    if not scales:
        return
    for x in scales.values():
        x[...] = 1
    reached = [abs(v) for at in _targets(output.sizes, random)[:TARGETS] if (v := value(output, at)) is not None]
    largest = max([*reached, Fraction(1)])
    by = 2 + max(0, round(math.log2(largest / 50)))
    name = next((n for n in scales if n.startswith("output")), next(iter(scales)))
    exponent = by if name.startswith("output") else -by
    powers = np.ldexp(1.0, exponent + random.integers(-1, 2, scales[name].shape))
    scales[name][...] = powers * (1 + random.choice([0, 0, 1, -1], powers.shape) * float(np.finfo(np.float32).eps))
