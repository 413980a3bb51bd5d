"""The end of a block of sums: elements are stored, and what the bounds of their sums leave open goes on a list.

A sum of n float64 terms is at most (n + 8) u |a| |b| away from the real one, where |a| and |b| are the norms of its row and of
its column (Cauchy and Schwarz). It is exact where nothing has been rounded, which the processor notes. Where many elements are
left open, it comes again, with better bounds, and with pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats import compensated
from anydml.kernels.contract.floats.direct import LEAST
from anydml.kernels.contract.floats.doubled import lost
from anydml.kernels.contract.floats.formula import Stored, bounded, rounded, stored
from anydml.kernels.contract.floats.lines import lines
from anydml.kernels.contract.floats.magnitudes import DENSE
from anydml.kernels.contract.floats.tile import BOUND
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.streams import CONSTANT, Streams
from anydml.tensor import DataType

OWN = 2  # streams before those of the formula: the sums, and the columns' norms
MAGNITUDES, PAIRS = "magnitudes", "pairs"
# counter: entries on the list, then what is known of the sums. rests: of pairs, or magnitudes; a_low, b_low: of pairs
ARGUMENTS = (
    "rows", "first", "count", "n1", "n2", "sums", "sums_row", "factor", "a_norms", "b_norms", "list", "counter", "terms",
    "rests", "a_low", "b_low",
)  # fmt: skip
POINTERS = {"sums", "a_norms", "b_norms", "list", "counter", "rests", "a_low", "b_low"}


class Shape(NamedTuple):
    """lies: how each stream that is read lies along a run of columns, and the output, last. padded: some norms are negative,
    where terms do not count.
    measured: each sum has one of its terms' magnitudes, in rows as far apart, in the norms' place. mixed: sums are made of
    others, whose infinities they have, and whose zeros have lost their signs. again: what there is beside each sum, where the
    counter says so; nothing is done elsewhere."""

    stored: Stored
    lies: tuple[str, ...]
    padded: bool
    measured: bool = False
    mixed: bool = False
    again: str = ""


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    return [*ARGUMENTS, *places(len(shape.lies))]


def places(count: int) -> list[str]:
    """The arguments of streams: where each begins, and bytes along rows and the columns' dimensions, the innermost last."""
    return [f"{x}{k}" for k in range(OWN, OWN + count) for x in "przys"]


def block(target: Target, shape: Shape) -> str:
    """A block of elements from their sums; arguments: `names`."""
    return _Block(target, shape).text()


class _Block:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.body, self.shape = Body(target), shape
        self.lanes = target.vector_bytes // 4
        s = shape.stored
        types = (
            [DataType.FLOAT64, DataType.FLOAT32 if shape.measured else DataType.FLOAT64]
            + [s.types[k] for k in s.others]
            + [s.types[-1]]
        )
        self.kinds = [Kind(f"i{t.element_bits}", self.lanes) for t in types]
        self.lies = ("contiguous",) * OWN + shape.lies
        self.streams = Streams(self.body, self.kinds, self.lies)

    def text(self) -> str:
        body = self.body
        arguments(body, names(self.shape), POINTERS | {f"p{k}" for k in range(OWN, len(self.lies))})
        self.streams.begin()

        def rows() -> None:
            body.store("i64", "0", "%counter")
            body.loop("0", "%rows", 1, [], self._row)

        if self.shape.again:
            when(body, body.op(f"icmp ne i64 {body.load('i64', '%counter', DENSE)}, 0"), rows)
        else:
            rows()
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _row(self, r: str, _: list[Value]) -> list[Value]:
        body, lanes = self.body, self.lanes
        self.r = r
        wide = Kind("double")
        factor = Value(body, body.op("bitcast i64 %factor to double"), wide)
        sums = body.at("%sums", body.op(f"mul i64 {r}, %sums_row"))
        sizes = "%b_norms"
        if self.shape.measured:
            self.factor = body.splat(factor * (1 + 2.0**-2), lanes)  # the magnitudes' own roundings
            self.least = body.splat(Value(body, "%terms", Kind("i64")).converted("uitofp", wide) * LEAST, lanes)
            sizes = body.at(sizes, body.op(f"mul i64 {r}, %sums_row"))
        else:
            size = body.loaded(wide, "%a_norms", body.op(f"mul i64 {r}, 8")) * factor
            self.small = body.splat(factor, lanes)
            if self.shape.again:
                self.rests = body.at("%rests", body.op(f"mul i64 {r}, %sums_row"))
                self.low = body.splat(body.loaded(wide, "%a_low", body.op(f"mul i64 {r}, 8")), lanes)
            elif not self.shape.mixed:
                size = size * body.loaded(wide, "%counter", BOUND)
            self.factor = body.splat(size, lanes)
        starts = [body.at(f"%p{k}", body.op(f"mul i64 {r}, %r{k}")) for k in range(OWN, len(self.lies))]

        def run(_: str, done: str, length: str, z: str, y: str, x: str) -> None:
            offset = body.op(f"mul i64 {done}, 8")
            of_sizes = body.op(f"mul i64 {done}, {self.kinds[1].bits // 8}")
            bases = [body.at(sums, offset), body.at(sizes, of_sizes)]
            self.run = offset
            for k, start in zip(range(OWN, len(self.lies)), starts, strict=True):
                offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %z{k}')}, {body.op(f'mul i64 {y}, %y{k}')}")
                bases.append(body.at(start, body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s{k}')}")))
            self.streams.bases = bases
            self._elements(done, length)

        lines(body, "%first", "%count", ("%n1", "%n2"), run)
        return []

    def _elements(self, done: str, length: str) -> None:
        body, lanes, streams = self.body, self.lanes, self.streams
        constants = streams.constants(k for k in range(len(self.lies) - 1) if self.lies[k] == CONSTANT)

        def group(i: str, loaded: dict[int, Value], take: str | None) -> None:
            made, undecided = self._group(i, {**loaded, **constants})
            if take is None:
                streams.store(i, made)
            else:
                streams.store_partial(i, take, made)
            if undecided is None:
                return
            bits = lanes_as_bits(undecided)
            if take is not None:
                inside = body.op(f"xor i64 {body.op(f'shl i64 -1, {take}')}, -1")
                bits = body.op(f"and i64 {bits}, {inside}")
            self._note(body.op(f"add i64 {done}, {i}"), bits)

        def whole(i: str, _: list[Value]) -> list[Value]:
            group(i, streams.whole(i), None)
            return []

        i, _ = body.loop("0", length, lanes, [], whole)
        left = body.op(f"sub i64 {length}, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: group(i, streams.partial(i, left), left))

    def _group(self, i: str, loaded: dict[int, Value]) -> tuple[Value, Value | None]:
        body, wide = self.body, Kind("double", self.lanes)
        total = loaded[0].cast(wide)
        guard = None
        read = {k: loaded[OWN + n] for n, k in enumerate(self.shape.stored.others)}
        if self.shape.measured:
            if self.shape.padded:  # the sum of nothing is +0
                guard = total.bits().compared("eq", -(1 << 63))
            size = loaded[1].cast(wide.of("float")).converted("fpext", wide) + self.least
            return stored(body, self.shape.stored, read, bounded(total, size * self.factor, guard), self.lanes)
        size = norm = loaded[1].cast(wide)
        if self.shape.padded:
            size = norm.magnitude()
            # zeros and infinities beside what does not count: the sum's sign, or NaN, may come from there
            odd = total.compared("oeq", 0.0) | total.compared("uno", total)
            guard = norm.bits().compared("slt", 0) & odd  # which -0 is, too
        if self.shape.mixed:
            error = self.factor * size
            guard = total.compared("oeq", 0.0) | ~((total.magnitude() + error).compared("olt", math.inf))
            return stored(body, self.shape.stored, read, bounded(total, error, guard), self.lanes)
        error = self.factor * size
        if self.shape.again:
            offset = body.op(f"add i64 {self.run}, {body.op(f'mul i64 {i}, 8')}")
            beside = body.loaded(wide, self.rests, offset)
            if self.shape.again == PAIRS:
                low = self.low * body.loaded(wide, "%b_low", offset)
                return self._pairs([total, beside, beside.lift(0.0), lost(error, self.small, low)], read, guard)
            error = self.small * beside
        return stored(body, self.shape.stored, read, bounded(total, error, guard), self.lanes)

    def _pairs(self, values: list[Value], read: dict[int, Value], guard: Value | None) -> tuple[Value, Value | None]:
        body, s, total = self.body, self.shape.stored, values[0]
        added = s.added()
        if added is not None:
            values = compensated.plus(values, compensated.wide(read[added[1]], s.types[added[1]]))
        head, remainder, open_, _, _ = compensated.result(values)
        open_ = open_ | ~total.magnitude().compared("olt", math.inf)  # no pair: a factor is not finite
        number = rounded(head, remainder, open_ if guard is None else open_ | guard)
        return stored(body, s, read, number, self.lanes, added=added is not None)

    def _note(self, column: str, bits: str) -> None:
        """Put the undecided lanes on the list: the row, and the column in 32 bits."""
        body = self.body
        before, head, after = (body.name(x) for x in ("before", "note", "after"))
        body.jump(before)
        body.label(before)
        body.branch(body.op(f"icmp ne i64 {bits}, 0"), head, after)
        body.label(head)
        left, rest, end = f"%{body.name('l')}", f"%{body.name('r')}", body.name("noted")
        body.do(f"{left} = phi i64 [ {bits}, %{before} ], [ {rest}, %{end} ]")
        count = body.load("i64", "%counter")
        lane = body.call("llvm.cttz.i64", Kind("i64"), f"i64 {left}", "i1 true").name
        entry = body.op(f"or i64 {body.op(f'shl i64 {self.r}, 32')}, {body.op(f'add i64 {column}, {lane}')}")
        body.store("i64", entry, "%list", body.op(f"mul i64 {count}, 8"))
        body.store("i64", body.op(f"add i64 {count}, 1"), "%counter")
        body.do(f"{rest} = and i64 {left}, {body.op(f'sub i64 {left}, 1')}")
        body.jump(end)
        body.label(end)
        body.branch(body.op(f"icmp ne i64 {rest}, 0"), head, after)
        body.label(after)
