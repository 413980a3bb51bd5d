"""The steps of planes: contractions whose windows of few terms slide over planes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Step
from anydml.kernels.code import engine
from anydml.kernels.contract.floats.few.plan import FewRowsPlan
from anydml.kernels.contract.floats.layout import FAR, FloatLayout, StreamPlace
from anydml.kernels.contract.floats.plan import FloatMemory, FloatProblem, Steps
from anydml.kernels.contract.floats.planes import flat
from anydml.kernels.contract.floats.planes import kernel as planes
from anydml.kernels.contract.floats.planes.seen import NARROW, FilterKey
from anydml.kernels.contract.floats.shares import ThreadShare
from anydml.kernels.contract.repeats import repeated

MOST = 8  # the most lines and columns of a filter: the sums of this many lines are accumulated at once
MOST_DOWN = 4
FEW = 3


class Slide(NamedTuple):
    """The geometry of a sliding window. line: the distance of its lines in bytes; start: the offset of the first line.

    down: the stride in lines; turns: if windows are dilated, output line i belongs to turn i modulo `turns`, and each
    turn reads other lines. ways: for each column of the filter, the offset of its elements, and the columns that it counts
    for. factors: the offsets of the filter's elements. valid: the lines of the output that each line of the filter counts for.
    """

    line: int
    start: int
    down: int
    turns: int
    ways: tuple[tuple[int, int, int], ...]
    factors: tuple[int, ...]
    valid: tuple[tuple[int, int], ...]

    def valid_in(self, turn: int) -> list[range]:
        """For each line of the filter, the lines of a turn that it counts for."""
        return [range(*(max(-(-(n - turn) // self.turns), 0) for n in ends)) for ends in self.valid]

    def lines(self, turn: int) -> tuple[int, int]:
        """The half-open range of input lines that exist, counted from the first line of the turn's first window."""
        ends = [(r.start * self.down + u, (r.stop - 1) * self.down + u + 1) for u, r in enumerate(self.valid_in(turn)) if r]
        return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)


def slide(p: FloatProblem) -> Slide | None:
    """The geometry of a contraction's window, if it slides over a plane and the output is contiguous along columns."""
    layout, output = p.layout, p.layout.output
    if p.target.later or layout.rows > p.tuning.rows or layout.columns >= 1 << 31:
        return None  # planes have no stages: they are one kernel
    size, stored = p.factors[1].dtype.itemsize, p.formula.types[-1].dtype.itemsize
    apart = [(output, (stored,)), (layout.b, (size, 2 * size))]
    if layout.sizes[2] > 1 and any(place.columns[2] not in steps for place, steps in apart):
        return None
    if any(step and n > 1 for place in p.places[:-1] for step, n in zip(place.columns, layout.sizes, strict=True)):
        return None
    if layout.sizes[1] == 1 and not layout.padded and layout.terms > MOST:
        return None  # a matrix
    found = _windows(layout)
    if found is None or (layout.sizes[2] == 1 and len(found.ways) > 1) or not _counted(found, layout, size):
        return None
    return found


def _counted(found: Slide, layout: FloatLayout, size: int) -> bool:
    """Whether a column of the filter counts for all outputs for which the element that it reads exists.

    Of columns that are beside one another, the kernel asks no more. A column that is always in the padding may not count where
    the next line's elements lie: a plane of width 1 has its lines as columns.
    """
    apart, width = layout.b.columns[2], layout.sizes[2]
    low, high = _read(found, apart, size)
    for c, x0, x1 in found.ways if apart > 0 else ():
        exists = range(max(-((c - low) // apart), 0), min(-((c - high) // apart), width))
        if exists and exists != range(x0, x1):
            return False
    return True


def _read(found: Slide, apart: int, size: int) -> tuple[int, int]:
    """The offsets at which the elements of a line that are read begin and end."""
    used = [way for way in found.ways if way[1] < way[2]]
    return (
        min((c + x0 * apart for c, x0, _ in used), default=0),
        max((c + (x1 - 1) * apart + size for c, _, x1 in used), default=0),
    )


def _windows(found: FloatLayout) -> Slide | None:
    """The geometry of a contraction's window, if it is small and slides over a plane; else None."""
    if not 0 < found.terms <= MOST * MOST:
        return None
    entries = [
        (b + c * found.b_term, a + c * found.a_term, *ranges)
        for c in range(found.channels)
        for b, a, *ranges in found.table.tolist()
    ]
    for high in range(MOST, 0, -1) if found.sizes[1] > 1 else range(1, MOST + 1):
        wide, rest = divmod(len(entries), high)
        if rest or wide > MOST:
            continue
        for grid in ([entries[u * wide : (u + 1) * wide] for u in range(high)], [entries[u::high] for u in range(high)]):
            for order in (grid, grid[::-1]):
                made = _slide(found, order)
                if made is not None:
                    return made
    return None


def _slide(found: FloatLayout, grid: Sequence[Sequence[tuple[int, ...]]]) -> Slide | None:
    """The geometry of a window with these terms, line by line; None if it does not slide."""
    images, count, _ = found.sizes
    start = grid[0][0][0]
    columns = [entry[0] - start for entry in grid[0]]
    pitch = found.b.columns[1]
    line = grid[1][0][0] - start if len(grid) > 1 else pitch
    if count == 1:
        pitch = line
    if len(grid) > 1 and (line <= 0 or pitch <= 0 or (pitch % line and line % pitch)):
        return None
    down, turns = (max(x // y, 1) if y else 1 for x, y in ((pitch, line), (line, pitch)))
    if down > MOST_DOWN or turns > MOST:
        return None
    valid, ways = [(0, 0)] * len(grid), [(c, 0, 0) for c in columns]
    for (u, row), (v, c) in product(enumerate(grid), enumerate(columns)):
        b, _, z0, z1, y0, y1, x0, x1 = row[v]
        if b != start + u * line + c:
            return None
        if z0 < z1:
            if (z0, z1) != (0, images):
                return None
            if valid[u] not in ((0, 0), (y0, y1)) or ways[v][1:] not in ((0, 0), (x0, x1)):
                return None
            valid[u], ways[v] = (y0, y1), (c, x0, x1)
    made = Slide(line, start, down, turns, tuple(ways), tuple(e[1] for row in grid for e in row), tuple(valid))
    # a term counts if its line and its column do, and a line counts for all outputs that read it
    for turn in range(min(turns, count)):
        low, high = made.lines(turn)
        most = -(-(count - turn) // turns)
        for u, seen in enumerate(made.valid_in(turn)):
            first, end = (min(max(-(-(n - u) // down), 0), most) for n in (low, high))
            if seen != range(first, end) and (seen or first < end):
                return None
    every = product(zip(grid, valid, strict=True), enumerate(ways))
    good = all((row[v][2] < row[v][3]) == (lines[0] < lines[1] and way[1] < way[2]) for (row, lines), (v, way) in every)
    return made if good else None


class PlanesPlan(FewRowsPlan):
    """The steps of a sliding window; partial lines are computed by `FewRowsPlan`."""

    def __init__(self, p: FloatProblem, memory: FloatMemory, found: Slide) -> None:
        super().__init__(p, memory)
        self.slide, layout, size = found, p.layout, p.factors[1].dtype.itemsize
        across = 2 if layout.sizes[2] > 1 and layout.b.columns[2] == 2 * size else 1
        high = len(found.valid)
        wide, width = len(found.ways), layout.sizes[2]
        narrow = width <= self.lanes >= NARROW
        single = narrow and across == 1 and width + wide - 1 <= self.lanes
        # of few columns, each is converted on its own: this is as fast as shuffling lanes
        beside = (across == 2 or wide > FEW or single) and all(
            c == found.ways[0][0] + v * size for v, (c, _, _) in enumerate(found.ways)
        )
        self.kinds = FilterKey(*p.factors, high, wide, found.down, across, beside, narrow, single and beside, (), p.formula)
        self.room = self._flat_room()
        if self.room is not None:
            self.masks = self.constants.add(self.room.masks)
            self.flat_kinds = self.kinds._replace(beside=True, narrow=False, single=False, flat=self.room.partial)
        self.taps = self.constants.add(np.array([*found.factors, *(n for way in found.ways for n in way)], np.int64))
        # for the second stage, planes are the columns' outermost dimension, of any size
        whole = layout.table.copy()
        whole[:, 3] = np.where(whole[:, 2] < whole[:, 3], FAR, 0)
        self.whole = self.constants.add(whole)

    def _flat_room(self) -> flat.Room | None:
        """The room of a plane that is computed as a single line; None if it cannot be one, or is faster line by line."""
        layout, s = self.layout, self.slide
        _, count, width = layout.sizes
        size, stored = self.factors[1].dtype.itemsize, self.formula.types[-1].dtype.itemsize
        apart = layout.b.columns[2]
        start, end = _read(s, apart, size)
        beside = all(c == s.ways[0][0] + v * size for v, (c, _, _) in enumerate(s.ways))
        gapless = end - start == s.line == layout.b.columns[1] == width * size and layout.output.columns[1] == width * stored
        if (s.turns, s.down, apart) != (1, 1, size) or not beside or not gapless:
            return None
        if not flat.pays(self.target, self.tuning.flat, len(s.valid) * len(s.ways), count, width):
            return None
        return flat.room(s.lines(0), len(s.valid), width, (s.ways[0][0] - start) // size, [way[1:] for way in s.ways], count)

    def _piece(self, piece: ThreadShare) -> list[Step | Repeat]:
        scratch, columns, listed = self.scratch, piece.columns, self.tuning.listed_of_planes
        _, count, width = self.layout.sizes
        lines = range(-(-columns.start // width), columns.stop // width)
        made: list[Step | Repeat] = []
        parts = [range(columns.start, min(lines.start * width, columns.stop))]
        parts += [range(max(lines.stop * width, parts[0].stop), columns.stop)]
        for part in parts:  # partial lines
            if part:
                made += super()._piece(piece._replace(columns=part))
        if not lines:
            return made
        longest = min(len(lines), count)
        vectors = -(-width // (self.target.vector_bytes // 4))
        most = max(listed // width, 1)
        at_once = max(listed // (min(longest, most) * width), 1)
        elements = min(at_once, len(piece.batches)) * min(longest, most) * width
        self.band = max(self.tuning.band // max(abs(self.slide.line) * self.slide.down, 1), 4)
        self.noted = scratch.take((min(self.band, longest) * vectors + 1) * 16)
        self.entries, self.counter = scratch.take((elements + 64) * 8), scratch.take(64)
        self.converted = scratch.take(0 if self.room is None else self.room.size * 8 * flat.TOGETHER)

        def of(outer: tuple[int, ...], some: range) -> Iterator[Step | Repeat]:
            turns = range(min(self.slide.turns, count))
            for (images, own), row, turn in product(_images(lines, count), piece.rows, turns):
                of_turn = range(*(max(-(-(y - turn) // len(turns)), 0) for y in (own.start, own.stop)))
                steps = partial(self._some, outer, row, turn)

                def few(n: range, z: int, steps: Any = steps, own: range = of_turn) -> Steps:
                    return self.along(own, most, lambda part: steps(z, n, part))

                def image(z: int, few: Any = few) -> Steps:
                    return self.along(some, at_once, lambda n: few(n, z))

                yield from repeated(self.target, images, image)

        return made + self._batches(piece, ranges=of)

    def _some(self, outer: tuple[int, ...], row: int, turn: int, z: int, some: range, lines: range) -> Iterator[Step]:
        """The steps of some lines of a turn, in some planes of an image."""
        found, s = self.layout, self.slide
        batch = (*outer, some.start) if found.batches else ()
        _, count, width = found.sizes
        plane, b = count * width, found.b.of(batch) + z * found.b.columns[0]

        def at(p: StreamPlace) -> At:
            return p.of(batch, row) + z * p.columns[0]

        pitch, apart = found.b.columns[1:]

        def next_(p: StreamPlace) -> int:
            return p.batches[-1] if found.batches else 0

        read = _read(s, apart, self.factors[1].dtype.itemsize)
        every = (max(x0 for _, x0, _ in s.ways), min(x1 for _, _, x1 in s.ways))
        output = found.output
        a, (low, high) = found.a.of(batch, row), s.lines(turn)
        read_from = Arguments(b=b + s.start + turn * pitch, b_plane=next_(found.b), b_line=s.line)
        of_lines = Arguments(planes=len(some), first=lines.start, lines=len(lines), low=low, high=high, band=self.band)
        of_columns = Arguments(columns=width, inner=every[0], outer=every[1], until=read[1], **{"from": read[0]})
        listed = Arguments(noted=self.noted, list=self.entries, counter=self.counter)
        numbered = Arguments(column=turn * width, column_line=s.turns * width, column_plane=plane)
        line = output.columns[1]
        into = Arguments(to=at(output) + turn * line, to_plane=next_(output), to_line=s.turns * line)
        streams = Arguments()
        for k, p in zip(self.formula.others, self.places, strict=False):
            streams |= {f"p{k}": at(p), f"r{k}": next_(p)}
        factors = Arguments(a=a, a_plane=next_(found.a), taps=self.taps) | read_from
        if self.room is not None and len(lines) == count <= self.band:
            code, arguments = engine.compiled(flat.summed, self.target, self.flat_kinds), flat.signature(self.kinds)
            listed |= Arguments(converted=self.converted, masks=self.masks)
            listed |= Arguments(before=self.room.before, origin=self.room.origin, size=self.room.size)
        else:
            code, arguments = engine.compiled(planes.summed, self.target, self.kinds), planes.signature(self.kinds)
        yield arguments.step(code, **factors, **of_lines, **of_columns, **listed, **numbered, **into, **streams)
        bit = (self._number(batch) * found.rows + row) * found.columns + z * plane
        marked = Arguments(first=0, f1=count, f2=width, bit=bit, columns=found.rows * found.columns - plane)
        factors = Arguments(a=a, a_row=next_(found.a), b=b, n1=count, n2=width, b0=next_(found.b), table=self.whole)
        places = (x for p in self.places for x in (at(p), next_(p), 0, *p.columns[1:]))
        all_of = Arguments(zip(self.stream_names, places, strict=True))
        none = self.unpacked(self.counter, 0, self.counter)  # there are no sums in memory
        yield self.refined(self.key, {**self.of_tensors, **factors, **none, **marked, **all_of})


def _images(lines: range, count: int) -> list[tuple[range, range]]:
    """Lines as parts of the first image, of all complete images, and of the last one: for each, the images and their lines."""
    whole = range(-(-lines.start // count), lines.stop // count)
    first, last = lines.start // count, lines.stop // count
    if first == last:
        return [(range(first, first + 1), range(lines.start % count, lines.stop % count))]
    parts = [(range(first, whole.start), range(lines.start % count, count)), (whole, range(count))]
    return [part for part in (*parts, (range(last, last + 1), range(lines.stop % count))) if part[0] and part[1]]
