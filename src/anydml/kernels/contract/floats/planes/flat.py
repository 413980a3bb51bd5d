"""Narrow planes as single lines: vectors go on from one line of the output to the next.

Lines that are no multiple of a vector leave lanes idle. Where lines have no gaps between them, in the input and in the output,
the outputs of a plane are one line, and so are the elements that each term reads. A plane is converted to float64 once, into
scratch, with zeros before and after it for lines that do not exist. At the ends of lines, a term reads elements of the line
before or after its own: masks, the same for all planes, leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.planes import kernel
from anydml.kernels.contract.floats.planes.seen import FilterKey
from anydml.kernels.contract.floats.reads import single

I64, WIDE = Kind("i64"), Kind("double")
TOGETHER = 4  # planes
TAPS = 9  # of a filter, at most
# converted: room for a plane; before: the place there of its first element; origin: that of the first term of the first output;
# size: places in all; masks: for each vector of float64, a byte for each column of the filter that does not always count
ARGUMENTS = Signature("*converted before origin size *masks")


class Room(NamedTuple):
    """The places of a plane in scratch, in elements. partial: the columns of the filter that do not always count; masks:
    for each vector of float64, and each of these columns, the lanes that it counts for. Others: as in ARGUMENTS."""

    before: int
    origin: int
    size: int
    partial: tuple[bool, ...]
    masks: NDArray[np.uint8]


def pays(target: Target, most: int, taps: int, count: int, width: int) -> bool:
    """Whether planes of `count` lines are computed faster as single lines: line by line, over a seventh of the lanes are idle.

    most: elements of a plane; taps: of a filter. A term of more taps is read from the first cache too often.
    """
    lanes = target.vector_bytes // 4
    line = -(-2 * width // lanes) * lanes // 2
    return target.vector_bytes == 64 and taps <= TAPS and lanes <= count * width <= most and 7 * width < 6 * line


def room(
    lines: tuple[int, int], high: int, width: int, first: int, ends: Sequence[tuple[int, int]], count: int, lanes: int = 8
) -> Room:
    """The room for a plane. lines: the half-open range of lines that exist, counted from the first window's first line; high:
    lines of the filter; first: the place in a line that the filter's first column reads for the first output; ends: the
    half-open ranges of outputs that each column counts for.
    """
    low, stop = lines
    before = -(-max(low * width - first, 0) // lanes) * lanes
    origin = before - low * width + first
    read = origin + (high - 1) * width + len(ends) - 1 + count * width
    size = (-(-max(before + (stop - low) * width, read) // lanes) + 2) * lanes
    partial = tuple(end != (0, width) for end in ends)
    x = np.arange(-(-count * width // (2 * lanes)) * 2 * lanes).reshape(-1, 1, lanes) % width
    some = np.array([end for end in ends if end != (0, width)], np.int64).reshape(1, -1, 2, 1)
    counts = (some[:, :, 0] <= x) & (x < some[:, :, 1])
    return Room(before, origin, size, partial, np.packbits(counts, axis=-1, bitorder="little").reshape(-1))


def signature(kinds: FilterKey) -> Signature:
    """The arguments of the kernel."""
    return kernel.signature(kinds) + ARGUMENTS


def summed(target: Target, kinds: FilterKey) -> str:
    """The kernel that computes planes, of which all lines are given; arguments: `signature`."""
    return _PlanesAsLines(target, kinds).text()


class _PlanesAsLines(kernel.Planes):
    converted: str

    def _signature(self) -> Signature:
        return signature(self.kinds)

    def _planes(self) -> None:
        """Compute all planes, some at a time.

        These are measured and converted before the first is summed, so that no step waits for the one before.
        """
        body = self.body
        zero = body.constant(Kind("double", self.half), 0.0)
        # in the order of planes: their bounds, and whether they have elements that are not finite
        errors, specials = body.op(f"alloca [{TOGETHER} x double], align 64"), body.op(f"alloca [{TOGETHER} x i64], align 64")
        end = body.op("add i64 %first, %lines")

        def blank(i: str, _: list[Value]) -> list[Value]:
            body.stored(zero, "%converted", body.op(f"mul i64 {i}, 8"))
            return []

        def place(first: str, k: str) -> None:
            self._place(body.op(f"add i64 {first}, {k}"))
            self.converted = body.at("%converted", body.op(f"mul i64 {body.op(f'mul i64 {k}, %size')}, 8"))

        def some(first: str, _: list[Value]) -> list[Value]:
            def measure(k: str, _: list[Value]) -> list[Value]:
                place(first, k)
                error, special = self._measure("%first", end)
                body.stored(error, body.at(errors, body.op(f"mul i64 {k}, 8")))
                body.stored(special.converted("zext", I64), body.at(specials, body.op(f"mul i64 {k}, 8")))
                self._convert()
                return []

            def compute(k: str, _: list[Value]) -> list[Value]:
                place(first, k)
                self._lines("%first", end)
                error = body.loaded(WIDE, body.at(errors, body.op(f"mul i64 {k}, 8")))
                special = body.loaded(I64, body.at(specials, body.op(f"mul i64 {k}, 8"))).compared("ne", 0)
                self._bounded(error, special)
                self._again(self._summed())
                return []

            left = self._word("%planes") - self._word(first)
            count = body.intrinsic("umin", left, f"i64 {TOGETHER}").name
            body.loop("0", count, 1, [], measure)
            body.loop("0", count, 1, [], compute)
            return []

        body.loop("0", body.op(f"mul i64 %size, {TOGETHER}"), self.half, [], blank)
        up = body.op(f"and i64 {body.op(f'add i64 %planes, {TOGETHER - 1}')}, {-TOGETHER}")
        body.loop("0", up, TOGETHER, [], some)

    def _summed(self) -> str:
        """Compute a plane. -> the number of noted vectors"""
        body, kinds, lanes = self.body, self.kinds, self.lanes
        of_masks = sum(kinds.flat)
        lines = [body.op(f"add i64 %origin, {body.op(f'mul i64 %columns, {u}')}") for u in range(kinds.high)]
        terms = [body.at(self.converted, body.op(f"mul i64 {line}, 8")) for line in lines]
        start = body.splat(self.filter.start, self.half)
        if self.plain:
            start = start - self.error

        def vector(i: str, noted: Value, inside: list[Value] | None) -> Value:
            groups = body.op(f"mul i64 {body.op(f'udiv i64 {i}, {self.half}')}, {of_masks}")
            at = body.at("%masks", groups)
            counts = [
                [body.loaded(Kind("i8"), at, of_masks * h + n).cast(Kind("i1", self.half)) for h in self.parts]
                for n in range(of_masks)
            ]
            sums = [start for _ in self.parts]
            here = [body.at(term, body.op(f"mul i64 {i}, 8")) for term in terms]
            for u, v in product(range(kinds.high), range(kinds.wide)):
                factor = self.filter.factors[u * kinds.wide + v]
                for h in self.parts:
                    x = body.loaded(factor.kind, here[u], 8 * (v + h * self.half))
                    made = body.fused(x, factor, sums[h])
                    sums[h] = body.chosen(counts[sum(kinds.flat[:v])][h], made, sums[h]) if kinds.flat[v] else made
            return self._finished(sums, "0", i, noted, inside)

        count = body.op("mul i64 %columns, %lines")
        i, noted = body.loop("0", count, lanes, [body.constant(I64, 0)], lambda i, given: [vector(i, given[0], None)])
        left = body.op(f"sub i64 {count}, {i}")
        parts = [(self.half, h * self.half) for h in self.parts] if self.halved else [(lanes, 0)]
        inside = [below(body, left, *some) for some in parts]
        rest = body.op(f"zext i1 {body.op(f'icmp ne i64 {left}, 0')} to i64")
        return body.loop("0", rest, 1, noted, lambda _, given: [vector(i, given[0], inside)])[1][0].name

    def _convert(self) -> None:
        """Convert the lines that exist."""
        body, kinds, half = self.body, self.kinds, self.half
        at = body.at(body.at(self.b, body.op(f"mul i64 {self.low}, %b_line")), "%from")
        count = body.op(f"mul i64 {body.op(f'sub i64 {self.high}, {self.low}')}, %columns")
        into = body.at(self.converted, body.op("mul i64 %before, 8"))

        def some(i: str, mask: Value | None) -> None:
            x = single(self.reader.read(at, i, mask), kinds.b).converted("fpext", Kind("double", half))
            body.stored(x, into, body.op(f"mul i64 {i}, 8"))

        def whole(i: str, _: list[Value]) -> list[Value]:
            some(i, None)
            return []

        i, _ = body.loop("0", count, half, [], whole)
        some(i, below(body, body.op(f"sub i64 {count}, {i}"), half))

    def _entered(self, y: str, x: str, zeros: str, some: Value, noted: Value) -> Value:
        """Note the strips of lines in which a vector has elements, if `some` is set. x: its first element in the plane."""
        body, word = self.body, self._word
        width, first = word("%columns"), word(x)
        last = width * word(self.stop) - 1
        end = body.intrinsic("umin", first + (self.lanes - 1), last)
        begin, stop = (word(body.op(f"udiv i64 {place.name}, %columns")) for place in (first, end))
        stop = body.chosen(some, stop + 1, begin)
        up = (width + (self.lanes - 1)) & -self.lanes

        def line(y: str, given: list[Value]) -> list[Value]:
            from_ = width * word(y) - first

            def strip(column: str, given: list[Value]) -> list[Value]:
                return [self._of_strip(y, column, from_ + word(column), word(zeros), given[0])]

            return body.loop("0", up.name, self.lanes, given, strip)[1]

        return body.loop(begin.name, stop.name, 1, [noted], line)[1][0]

    def _of_strip(self, y: str, column: str, from_: Value, zeros: Value, noted: Value) -> Value:
        """Note a strip that begins `from_` lanes after a vector, or add the vector's lanes to its note.

        zeros: the lanes of the vector that may be sums of zeros if no others are undecided; else 0.
        """
        body, word, none = self.body, self._word, zeros.compared("eq", 0)
        inside = body.intrinsic("smin", word("%columns") - word(column), f"i64 {self.lanes}")
        after, before = (body.intrinsic("smax", by, "i64 0") for by in (from_, 0 - from_))
        own = (zeros.shifted_right(after, signed=False) << before) & ((word("1") << inside) - 1)
        wanted = (none | own.compared("ne", 0)) & from_.compared("slt", self.lanes) & (from_ + inside).compared("sgt", 0)

        def note() -> list[Value]:
            entry = word(body.op(f"or i64 {body.op(f'shl i64 {y}, 32')}, {column}"))
            # the vector before may have noted it
            last = body.intrinsic("umax", noted, "i64 1") - 1
            at = body.at("%noted", (last * 16).name)
            told = body.loaded(I64, at, 8)
            same = body.loaded(I64, at).compared("eq", entry) & noted.compared("ne", 0)
            both = body.chosen(told.compared("eq", 0), told, told | own)
            lanes = body.chosen(none, 0, body.chosen(same, both, own))
            slot = body.chosen(same, last, noted)
            to = body.at("%noted", (slot * 16).name)
            body.stored(entry, to)
            body.stored(lanes, to, 8)
            return [slot + 1]

        return body.either(wanted.name, note, lambda: [noted], seldom=True)[0]
