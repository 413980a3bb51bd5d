"""Tiles whose elements are stored as they leave the registers: for sums of few terms, of which a bound leaves few open.

Each row has one bound for all columns of a panel, e = (n + 11) u (|a| max |b| + |c|), where c is what is added to the sum, such
as a bias. A sum t begins with c - e, so that it goes through n + 3 roundings at most, and what it should be lies between t and
t + 2 e. Where a tile has an element that this leaves open, or a bound that is not finite, the kernel ends, and the block is
summed and stored as any other is: with its sums in memory, and what the processor notes of them.
"""

from __future__ import annotations

import math
from functools import lru_cache

from anydml.kernels.code import engine
from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.epilogue import OWN, Shape, places
from anydml.kernels.contract.floats.formula import bounded, stored_rounded, walked
from anydml.kernels.contract.floats.layout import Layout
from anydml.kernels.contract.floats.reads import single
from anydml.kernels.contract.floats.tile import multiplied
from anydml.kernels.elementwise.numbers import Number
from anydml.kernels.elementwise.rounding import between_ends
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS
from anydml.tensor import DataType

MOST = 48  # terms: of longer sums, too many blocks would be summed twice
DONE = 24  # where the counter says whether all elements are stored
ARGUMENTS = (
    "a", "a_tile", "tiles", "b", "b_panel", "panels", "terms", "first", "factor", "a_norms", "b_norms", "counter",
    "begun", "twice",
)  # fmt: skip
POINTERS = {"a", "b", "a_norms", "b_norms", "counter", "begun", "twice"}
F32, WIDE = Kind("float"), Kind("double")


def serves(target: Target, found: Layout, shape: Shape, columns: range, width: int) -> bool:
    """Whether a block's elements are stored so: they lie side by side, and nothing differs along a row but the sums.

    What is read beside them could lie where they are stored.
    """
    if found.terms > MOST or found.flat[:2] != (1, 1) or len(columns) % width:
        return False
    *read, written = shape.lies
    return written == CONTIGUOUS and all(how == CONSTANT for how in read) and _emits(target, shape)


@lru_cache(maxsize=256)
def _emits(target: Target, shape: Shape) -> bool:
    """Whether the formula has an interval for a vector of elements."""
    try:
        stored(target, 1, 1, shape)
    except engine.Uncompilable:
        return False
    return True


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    return [*ARGUMENTS, *places(len(shape.lies))]


def stored(target: Target, rows: int, across: int, shape: Shape) -> str:
    """Tiles of so many rows and panels of so many vectors, stored; arguments: `names`. The counter says whether all are.

    begun, twice: room for what a row's sums begin with, and for twice their bound.
    """
    return _Tiles(target, rows, across, shape).text()


class _Tiles:
    def __init__(self, target: Target, rows: int, across: int, shape: Shape) -> None:
        self.body, self.rows, self.across, self.shape = Body(target), rows, across, shape
        self.lanes = target.vector_bytes // 8
        s = shape.stored
        added = s.added()
        self.added = None if added is None or s.types[added[1]].dtype.kind != "f" else added[1]

    def text(self) -> str:
        body, shape, lanes = self.body, self.shape, self.lanes
        arguments(body, names(shape), POINTERS | {f"p{k}" for k in range(OWN, OWN + len(shape.lies))})
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        for at in (0, DONE):
            body.store("i64", "0", "%counter", at)
        self.factor = Value(body, body.op("bitcast i64 %factor to double"), WIDE)
        self.last = OWN + len(shape.lies) - 1

        def panel(p: str, _: list[Value]) -> list[Value]:
            b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
            column = body.op(f"mul i64 {p}, {self.across * lanes}")
            most = self._largest(body.at("%b_norms", body.op(f"mul i64 {column}, 8"))) * self.factor

            def bounds(t: str, _: list[Value]) -> list[Value]:
                self._bounds(body.op(f"mul i64 {t}, {self.rows}"), most)
                return []

            def tile(t: str, _: list[Value]) -> list[Value]:
                row = body.op(f"mul i64 {t}, {self.rows}")
                a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))
                begun = [self._spread("%begun", row, m) for m in range(self.rows) for _ in range(self.across)]
                found = multiplied(body, self.rows, self.across, "%terms", a, "%a_tile", b, (body.at(b, "%b_panel"), t), begun)
                for m in range(self.rows):
                    self._store(row, column, m, found[m * self.across : (m + 1) * self.across])
                return []

            body.loop("0", "%tiles", 1, [], bounds)
            body.loop("0", "%tiles", 1, [], tile)
            return []

        body.loop("0", "%panels", 1, [], panel)
        body.store("i64", "1", "%counter", DONE)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _largest(self, norms: str) -> Value:
        """The largest norm of a panel's columns; that of a NaN is beyond infinity."""
        body, kind = self.body, Kind("i64", self.lanes)
        most = body.constant(kind, 0)
        for n in range(self.across):
            most = body.intrinsic("umax", most, body.loaded(kind, norms, 8 * self.lanes * n) & ((1 << 63) - 1))
        return body.call(f"llvm.vector.reduce.umax.v{self.lanes}i64", Kind("i64"), most).cast(WIDE)

    def _number(self, row: str, m: int) -> str:
        return self.body.op(f"add i64 {row}, {m}")

    def _read(self, row: str, m: int, k: int) -> Value:
        """The element of a stream that is read for a row."""
        body, kind = self.body, Kind(f"i{self.shape.stored.types[k].element_bits}")
        n = OWN + self.shape.stored.others.index(k)
        return body.loaded(kind, body.at(f"%p{n}", body.op(f"mul i64 {self._number(row, m)}, %r{n}")))

    def _bounds(self, row: str, most: Value) -> None:
        """Write down what the rows' sums begin with, and twice their bounds; return where these are of no use."""
        body, rows = self.body, Kind("double", self.rows)
        offset = body.op(f"mul i64 {row}, 8")
        error = body.loaded(rows, body.at("%a_norms", offset)) * body.splat(most, self.rows)
        begun = body.constant(rows, -0.0)  # a sum is -0 where all of its terms are
        if self.added is not None:
            added = body.undefined(rows.of("float"))
            for m in range(self.rows):
                added = added.replaced(m, single(self._read(row, m, self.added), self.shape.stored.types[self.added]))
            begun = added.converted("fpext", rows)
            error = body.fused(begun.magnitude(), body.splat(self.factor, self.rows), error)
        usual = error.compared("olt", math.inf)
        if self.shape.padded:  # a zero may come from what does not count
            usual = usual & error.compared("ogt", 0.0)
        self._unless(~usual)
        body.stored(begun - error, body.at("%begun", offset))
        body.stored(error * 2.0, body.at("%twice", offset))

    def _spread(self, place: str, row: str, m: int) -> Value:
        body = self.body
        at = body.at(place, body.op(f"mul i64 {self._number(row, m)}, 8"))
        return body.splat(body.loaded(WIDE, at), self.lanes)

    def _unless(self, doubtful: Value) -> None:
        """Return where a lane is doubtful."""
        body, lost, kept = self.body, self.body.name("lost"), self.body.name("kept")
        lanes = doubtful.kind.lanes
        any_ = body.op(f"bitcast {doubtful.kind.text} {doubtful.name} to i{lanes}")
        body.branch(body.op(f"icmp ne i{lanes} {any_}, 0"), lost, kept, seldom=True)
        body.label(lost)
        body.do("ret i64 0")
        body.label(kept)

    def _store(self, row: str, column: str, m: int, sums: list[Value]) -> None:
        """A row of a tile: what is stored before all is decided is stored again later."""
        body, lanes, s = self.body, self.lanes, self.shape.stored
        size = s.types[-1].element_bits // 8
        twice = self._spread("%twice", row, m)
        spread = {k: body.splat(self._read(row, m, k), lanes) for k in s.others}
        made = [self._element(total, twice, spread) for total in sums]
        doubtful = made[0][1]
        for _, open_ in made[1:]:
            doubtful = doubtful | open_
        self._unless(doubtful)
        line = body.at(f"%p{self.last}", body.op(f"mul i64 {self._number(row, m)}, %r{self.last}"))
        at = body.at(line, body.op(f"mul i64 {body.op(f'add i64 %first, {column}')}, {size}"))
        for n, (bits, _) in enumerate(made):
            body.stored(bits, at, size * lanes * n)

    def _element(self, total: Value, twice: Value, read: dict[int, Value]) -> tuple[Value, Value]:
        """The bits of a vector of elements, and the lanes in which these may be others. total: the lower end of the sum."""
        body, s = self.body, self.shape.stored
        high = total + twice
        number = bounded(high, twice, None)
        place = s.rounded()
        first = s if place is None else s.until(place)
        item = walked(body, first, read, number, self.lanes, added=self.added is not None)
        if not isinstance(item, Number):
            raise engine.Uncompilable("elements that no interval decides")
        if item is number and first.types[-1] == DataType.FLOAT32:
            low, bits = (x.converted("fptrunc", x.kind.of("float")).bits() for x in (total, high))
            found = bits, low.compared("ne", bits)
        elif (between := between_ends(item, first.types[-1])) is not None:
            found = between
        else:
            raise engine.Uncompilable("elements that no interval decides")
        if place is None:
            return found
        bits, open_ = stored_rounded(body, s, read, place, found[0], self.lanes, number=item is number)
        return bits, found[1] if open_ is None else found[1] | open_
