"""Strips of a plane: as many columns as a vector has float32 lanes, through the lines that a band of the output reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code import probe
from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.formula import bounded, stored, stored_rounded
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.planes.seen import FilterKey, FilterReads
from anydml.kernels.contract.floats.stores import masked_store
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

I64 = Kind("i64")


class Filter(NamedTuple):
    """A plane's filter. factors: in order; norm: the sum of their magnitudes; start: the term that is added to sums, or -0."""

    factors: list[Value]
    norm: Value
    start: Value
    streams: dict[int, Value]


class Strips(FilterReads):
    """The part of the kernel that computes strips. The attributes of the plane and of the band are set by `kernel`.

    filter: the plane's; b, to: line 0 of the input, and of the output. begin, stop: lines of the output; low, high: lines of
    the input that exist and that these read. error: the bound of every sum; odd: whether it is useless. blank: all elements
    read, and the added term, are 0; special: some elements are infinite or NaN; the bound ignores them.
    """

    filter: Filter
    b: str
    to: str
    begin: str
    stop: str
    low: str
    high: str
    error: Value
    twice: Value
    odd: str
    blank: str
    special: str

    def __init__(self, target: Target, kinds: FilterKey) -> None:
        super().__init__(target, kinds)
        self.size = kinds.b.dtype.itemsize
        # plain: a sum, with the term that is added to it, is stored, or rounded first; halved: it is stored
        added = kinds.stored.added()
        self.added = None if added is None else added[1]
        self.rounded = kinds.stored.rounded()
        first = kinds.stored if self.rounded is None else kinds.stored.until(self.rounded)
        last = len(first.formula) - 1
        self.plain = first.formula[last].op == "stream" or (added is not None and added[0] == last)
        self.halved = self.plain and self.rounded is None

    def _word(self, name: str) -> Value:
        return Value(self.body, name, I64)

    def _inside(self, x: str, lanes: int, first: int = 0) -> Value:
        """The lanes of a strip that are inside of the lines."""
        return below(self.body, self.body.op(f"sub i64 %columns, {x}"), lanes, first)

    def _out(self, y: str, x: str) -> str:
        body = self.body
        line = body.at(self.to, body.op(f"mul i64 {y}, %to_line"))
        return body.at(line, body.op(f"mul i64 {x}, {self.kinds.stored.types[-1].element_bits // 8}"))

    # --- a strip ---

    def _strip(self, x: str, noted: Value, *, masked: bool) -> Value:
        body, kinds, half, parts = self.body, self.kinds, self.half, len(self.parts)
        masks, inside = None, None
        if masked:
            lanes = [(half, h * half) for h in self.parts] if self.halved else [(self.lanes, 0)]
            inside = [self._inside(x, *some) for some in lanes]
            masks = self._masks(x)
        offset = body.op(f"mul i64 {x}, {kinds.across * self.size}")
        starts = [body.at(body.at(self.b, offset), way) for way, _, _ in self.ways]
        ahead = -(-kinds.high // kinds.down)  # lines of sums that are accumulated at once
        start = body.splat(self.filter.start, half)
        if self.plain:
            start = start - self.error
        end = body.op(f"add i64 {self.stop}, {ahead - 1}")

        def step(s: str, carried: list[Value], *, sure: bool) -> list[Value]:
            """sure: all its lines exist, and a line of the output is finished."""
            noted, *flat = carried
            sums = [[start] * parts, *(flat[parts * j : parts * (j + 1)] for j in range(ahead - 1))]
            for i in range(min(kinds.down, kinds.high)):
                line = body.op(f"add i64 {body.op(f'mul i64 {s}, {kinds.down}')}, {i}")

                def add(given: list[list[Value]], i: int = i, line: str = line) -> list[list[Value]]:
                    return self._line(starts, line, i, given, masks)

                if sure:
                    sums = add(sums)
                else:
                    low, high = body.op(f"icmp sge i64 {line}, {self.low}"), body.op(f"icmp slt i64 {line}, {self.high}")
                    sums = self._where(body.op(f"and i1 {low}, {high}"), sums, add)
            y = body.op(f"sub i64 {s}, {ahead - 1}")

            def finish(given: list[list[Value]]) -> list[list[Value]]:
                return [[self._finished(sums[-1], y, x, given[0][0], inside)]]

            if sure:
                ((noted,),) = finish([[noted]])
            else:
                done = body.op(f"icmp uge i64 {s}, {body.op(f'add i64 {self.begin}, {ahead - 1}')}")
                ((noted,),) = self._where(done, [[noted]], finish)
            return [noted, *(v for pair in sums[:-1] for v in pair)]

        # the steps in the middle are sure
        down = kinds.down
        late = self._word(body.op(f"add i64 {self.begin}, {ahead - 1}"))
        up = self._word(body.op(f"sdiv i64 {body.op(f'add i64 {self.low}, {down - 1}')}, {down}"))
        middle = body.intrinsic("smin", body.intrinsic("smax", late, up), self._word(end))
        past = body.intrinsic("smin", self._word(body.op(f"sdiv i64 {self.high}, {down}")), self._word(end))
        past = body.intrinsic("smax", past, middle)

        def part(k: str, carried: list[Value]) -> list[Value]:
            head = body.op(f"icmp eq i64 {k}, 0")
            ends = [
                body.op(f"select i1 {head}, i64 {a}, i64 {b}")
                for a, b in ((self.begin, past.name), (middle.name, end), (past.name, end))
            ]
            _, carried = body.loop(ends[0], ends[1], 1, carried, lambda s, given: step(s, given, sure=False))
            return body.loop(ends[1], ends[2], 1, carried, lambda s, given: step(s, given, sure=True))[1]

        carried = [noted, *[start] * (parts * (ahead - 1))]
        return body.loop("0", "2", 1, carried, part)[1][0]

    def _where(
        self, condition: str, sums: Sequence[Sequence[Value]], do: Callable[[list[list[Value]]], list[list[Value]]]
    ) -> list[list[Value]]:
        """The result of `do` for the sums if the condition holds, else the sums."""
        body = self.body
        width = len(sums[0])

        def changed() -> list[Value]:
            return [v for pair in do([list(pair) for pair in sums]) for v in pair]

        found = body.either(condition, changed, lambda: [v for pair in sums for v in pair])
        return [found[k : k + width] for k in range(0, len(found), width)]

    def _line(
        self, starts: list[str], line: str, i: int, sums: list[list[Value]], masks: list[Value] | None
    ) -> list[list[Value]]:
        """The sums with one more line of the input, the i-th of this step."""
        body, kinds = self.body, self.kinds
        offset = body.op(f"mul i64 {line}, %b_line")
        for v, halves_ in enumerate(self._elements([body.at(start, offset) for start in starts], masks)):
            for h, x in enumerate(halves_):
                for j, pair in enumerate(sums):
                    u = j * kinds.down + i
                    if u < kinds.high:
                        pair[h] = body.fused(x, self.filter.factors[u * kinds.wide + v], pair[h])
        return sums

    def _finished(self, sums: list[Value], y: str, x: str, noted: Value, inside: list[Value] | None) -> Value:
        """Store a vector of elements, and note it if some are undecided. -> the number of noted vectors"""
        body = self.body
        if self.kinds.across == 2:
            places = [self.order.index(n) for n in range(self.lanes)]
            low, high = sums[0], sums[-1]
            ends = (places[h * self.half : (h + 1) * self.half] for h in self.parts)
            sums = [Value(body, shuffle(body, low.name, high.name, low.kind.text, end), low.kind) for end in ends]
        # few vectors are noted needlessly
        some = "true" if body.target.careful else body.op(f"or i1 {self.odd}, {self.special}")
        found = self._elements_of(sums)
        undecided_lanes, sides = [], []
        for k, (made, undecided, both) in enumerate(found):
            lanes = made.kind.lanes
            to = body.at(self._out(y, x), k * lanes * made.kind.bits // 8)
            if inside is None:
                body.stored(made, to)
            else:
                masked_store(body, made, to, inside[k])
                undecided = undecided & inside[k]
            undecided_lanes.append(undecided)
            sides.append(both)
            some = body.op(f"or i1 {some}, {body.op(f'icmp ne i64 {lanes_as_bits(undecided)}, 0')}")

        def more() -> list[Value]:
            return [self._noted(sums, undecided_lanes, sides, y, x, noted)]

        return body.either(some, more, lambda: [noted], seldom=True)[0]

    def _noted(
        self,
        sums: list[Value],
        undecided_lanes: list[Value],
        ends: list[tuple[Value, Value] | None],
        y: str,
        x: str,
        noted: Value,
    ) -> Value:
        """Note a vector if necessary: its place, and the lanes that may be sums of zeros if no others are undecided."""
        body = self.body
        undecided, others, strange = self._word("0"), self._word("0"), body.constant(Kind("i1"), False)
        for k, (lanes, both) in enumerate(zip(undecided_lanes, ends, strict=True)):
            # the ends of a sum that may be 0 have different signs
            if both is not None:
                around = (both[0] ^ both[1]).compared("slt", 0)
            else:
                around = self._whole(sums).magnitude().compared("ole", self._whole([self.error] * len(sums)))
            rest = lanes & ~around
            by = str(k * lanes.kind.lanes)
            undecided, others = (
                v | self._word(body.op(f"shl i64 {lanes_as_bits(w)}, {by}")) for v, w in ((undecided, lanes), (others, rest))
            )
        for v in sums:
            infinite = lanes_as_bits(~v.magnitude().compared("olt", math.inf))
            strange = strange | Value(body, body.op(f"icmp ne i64 {infinite}, 0"), Kind("i1"))
        odd = Value(body, self.odd, Kind("i1"))
        careful = odd | strange | others.compared("ne", 0)
        if body.target.careful:
            careful = careful | True
        zeros = body.op(f"select i1 {careful.name}, i64 0, i64 {undecided.name}")
        zeros = body.op(f"select i1 {self.blank}, i64 -1, i64 {zeros}")
        return self._entered(y, x, zeros, careful | undecided.compared("ne", 0), noted)

    def _entered(self, y: str, x: str, zeros: str, some: Value, noted: Value) -> Value:
        """Note the vector that begins at line y and column x, if `some` is set. -> the number of noted vectors"""
        body, at = self.body, (noted * 16).name
        body.store("i64", body.op(f"or i64 {body.op(f'shl i64 {y}, 32')}, {x}"), "%noted", at)
        body.store("i64", zeros, body.at("%noted", at), 8)
        return noted + some.converted("zext", I64)

    def _elements_of(self, sums: list[Value]) -> list[tuple[Value, Value, tuple[Value, Value] | None]]:
        """For each half or for the whole: the bits of elements, the undecided lanes, and the bits of both ends."""
        body, s, added = self.body, self.kinds.stored, self.added is not None
        if not self.plain:
            total = self._whole(sums)
            guard = total.bits().compared("eq", -(1 << 63))  # a sum without terms is +0
            number = bounded(total, self._whole([self.error] * len(self.parts)), guard)
            made, undecided = stored(body, s, self.filter.streams, number, self.lanes, added=added)
            assert undecided is not None
            return [(made, undecided, None)]
        if body.target.probe is not None and self.rounded is None:
            bits = s.types[-1].element_bits
            records = [probe.record_of_ends(v, v + self.twice, None, bits) for v in sums]
            return [(made, body.constant(made.kind.of("i1"), False), (made, made)) for made in records]
        highs, lows = ([self._rounded(v) for v in end] for end in ([v + self.twice for v in sums], sums))  # sums are the lows
        if self.rounded is None:
            return [(high, high.compared("ne", low), (high, low)) for high, low in zip(highs, lows, strict=True)]
        high, low = self._whole(highs), self._whole(lows)
        # an end is NaN only if the band's bound is useless: the vector is summed again
        made, left = stored_rounded(body, s, self.filter.streams, self.rounded, high, self.lanes, number=True)
        differ = high.compared("ne", low)
        return [(made, differ if left is None else differ | left, (high, low))]

    def _rounded(self, total: Value) -> Value:
        """The bits of elements from sums in float64."""
        return singles.narrowed(total, DataType.FLOAT32 if self.rounded is not None else self.kinds.stored.types[-1])

    def _whole(self, pair: list[Value]) -> Value:
        """The vector of both halves."""
        if len(pair) == 1:
            return pair[0]
        kind = pair[0].kind
        order = ", ".join(f"i32 {k}" for k in range(self.lanes))
        return self.body.value(
            f"shufflevector {pair[0]!r}, {pair[1]!r}, <{self.lanes} x i32> <{order}>", Kind(kind.element, self.lanes)
        )
