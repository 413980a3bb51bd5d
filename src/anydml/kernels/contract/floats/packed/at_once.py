"""Tiles whose elements are stored directly from registers: for sums of few terms, whose bound leaves few elements undecided.

Each row has one bound for all columns of a block, e = (n + 12) u (|a| max |b| + |c|), where c is the term that is added to the
sum, such as a bias. A sum t begins with c - e and goes through at most n + 3 roundings, so that the exact sum is between t and
t + 2 e. Undecided elements go on a list and are decided one by one. If there are many, or if a bound is not finite, the kernel
returns, and the block is computed like any other: with its sums in memory, and with the inexact flag.
"""

from __future__ import annotations

import math
from functools import lru_cache

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import engine, probe
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.epilogue import OWN, EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import bounded, stored_rounded, walked
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.layout import FloatLayout
from anydml.kernels.contract.floats.packed.tile import BOUND, Right, multiplied, widen
from anydml.kernels.contract.floats.reads import single
from anydml.kernels.contract.floats.stores import list_of, listed, masked_store
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.floats.rounding import between_ends
from anydml.kernels.undecided import state
from anydml.tensor import DataType

SURE = 4  # elements that may be on the list in any case
DONE = 8 * (state.OWN + 2)  # offset in `counter` of a flag: whether all elements are stored
# columns: those of the block, of which the last panel may have fewer; first: the block's first column in the output
# ahead: as in `tile`; most: the most entries of the list; few: stored elements per allowed entry
ARGUMENTS = Signature(
    "*a a_tile tiles *b b_panel panels terms columns first ahead factor *a_norms *b_norms *list most few *counter *begun "
    "*twice *sums sums_row *wide"
)
WIDE = Kind("double")
Differ = list[tuple[Value, Value | None]]


def serves(target: Target, found: FloatLayout, key: EpilogueKey, most: int) -> bool:
    """Whether the kernel applies: contiguous elements of sums of at most `most` terms, and other streams constant along rows.

    Streams that vary along rows could share memory with the output.
    """
    if found.terms > most or found.flat[:2] != (1, 1):
        return False
    *read, written = key.layouts
    return written == CONTIGUOUS and all(how == CONSTANT for how in read) and emits(target, key)


@lru_cache(maxsize=256)
def emits(target: Target, key: EpilogueKey) -> bool:
    """Whether the formula can be computed as an interval."""
    try:
        stored(target, 1, 1, False, key, False)
    except engine.Uncompilable:
        return False
    return True


def stored(target: Target, rows: int, across: int, cut: bool, key: EpilogueKey, widened: bool) -> str:
    """The kernel that computes and stores tiles of `rows` rows and panels of `across` vectors; arguments: ARGUMENTS,
    and streams.

    It sets DONE in the counter if all elements are stored.

    begun, twice: room for the start of each row's sums, and for twice their bound. sums: as in `tile`; NaN is stored for listed
    elements whose sum may have no terms. cut: whether the last panel is partial. widened, wide: as in `tile`, of all terms.
    """
    return StoredTiles(target, rows, across, cut, key, widened).text()


class StoredTiles:
    inside: list[Value] | None = None  # the lanes of each vector that are columns; None if all are

    def __init__(self, target: Target, rows: int, across: int, cut: bool, key: EpilogueKey, widened: bool = False) -> None:
        self.body, self.rows, self.across, self.cut, self.key = Body(target), rows, across, cut, key
        self.lanes, self.widened = target.vector_bytes // 8, widened
        s = key.stored
        added = s.added()
        self.added = None if added is None or not s.types[added[1]].is_float else added[1]

    def text(self) -> str:
        body, key = self.body, self.key
        with_streams(ARGUMENTS, len(key.layouts)).load(body)
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self._begin()
        most = self._largest() * self.factor

        def bounds(t: str, _: list[Value]) -> list[Value]:
            self._bounds(body.op(f"mul i64 {t}, {self.rows}"), most)
            return []

        body.loop("0", "%tiles", 1, [], bounds)
        body.loop("0", "%panels", 1, [], self._panel)
        body.store("i64", "1", "%counter", DONE)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _begin(self) -> None:
        """Emit the part before all loops."""
        body = self.body
        self.kept = body.op(f"alloca [{self.rows * self.across * self.lanes} x double], align 64")
        list_of(body).counted("0")
        body.store("i64", "0", "%counter", DONE)
        body.stored(body.constant(WIDE, 1.0), "%counter", BOUND)  # listed sums do not count as exact
        self.factor = Value(body, body.op("bitcast i64 %factor to double"), WIDE)
        self.last = OWN + len(self.key.layouts) - 1

    def _panel(self, p: str, _: list[Value]) -> list[Value]:
        body = self.body
        b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
        column = body.op(f"mul i64 {p}, {self.across * self.lanes}")
        last = body.op(f"icmp eq i64 {body.op(f'add i64 {p}, 1')}, %panels")
        a_next = body.op(f"select i1 {last}, i64 %ahead, i64 %a_tile")
        left = body.op(f"sub i64 %columns, {column}")
        self.inside = [below(body, left, self.lanes, n * self.lanes) for n in range(self.across)] if self.cut else None

        if self.widened:
            widen(body, self.across, "%terms", b)

        def tile(t: str, _: list[Value]) -> list[Value]:
            row = body.op(f"mul i64 {t}, {self.rows}")
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))
            begun = [self._splat("%begun", row, m) for m in range(self.rows) for _ in range(self.across)]
            right = Right("%wide" if self.widened else b, self.widened, body.at(b, "%b_panel"), t)
            done = body.op(f"add i64 {body.op(f'mul i64 {p}, %tiles')}, {body.op(f'add i64 {t}, 1')}")
            self._store(row, column, done, multiplied(body, self.rows, self.across, "%terms", a, a_next, right, begun))
            return []

        body.loop("0", "%tiles", 1, [], tile)
        return []

    def _largest(self) -> Value:
        """The largest norm of all columns; a NaN counts as larger than infinity."""
        body, kind = self.body, Kind("i64", self.lanes)

        def larger(n: str, most: list[Value]) -> list[Value]:
            norms = body.loaded(kind, "%b_norms", body.op(f"mul i64 {n}, {8 * self.lanes}"))
            return [body.intrinsic("umax", most[0], norms & ((1 << 63) - 1))]

        vectors = body.op(f"mul i64 %panels, {self.across}")
        (most,) = body.loop("0", vectors, 1, [body.constant(kind, 0)], larger)[1]
        return body.call(f"llvm.vector.reduce.umax.v{self.lanes}i64", Kind("i64"), most).cast(WIDE)

    def _number(self, row: str, m: int | str) -> str:
        return self.body.op(f"add i64 {row}, {m}")

    def _read(self, row: str, m: int | str, k: int) -> Value:
        """A stream's element for a row."""
        body, kind = self.body, Kind(f"i{self.key.stored.types[k].element_bits}")
        n = OWN + self.key.stored.others.index(k)
        return body.loaded(kind, body.at(f"%p{n}", body.op(f"mul i64 {self._number(row, m)}, %r{n}")))

    def _bounds(self, row: str, most: Value) -> None:
        """Store the start of the rows' sums, and twice their bounds; leave the kernel if a bound is useless."""
        body, rows = self.body, Kind("double", self.rows)
        offset = body.op(f"mul i64 {row}, 8")
        error = body.loaded(rows, body.at("%a_norms", offset)) * body.splat(most, self.rows)
        begun = body.constant(rows, -0.0)  # a sum is -0 if all of its terms are
        if self.added is not None:
            begun = self._added_to(row, self.added)
            error = body.fused(begun.magnitude(), body.splat(self.factor, self.rows), error)
        usual = error.compared("olt", math.inf)
        if self.key.padded:  # the sign of a zero may come from terms that do not count
            usual = usual & error.compared("ogt", 0.0)
        self._unless(~usual)
        body.stored(begun - error, body.at("%begun", offset))
        # a sum of zeros has no error, and -0 + -0 keeps its sign
        body.stored(body.chosen(error.compared("ogt", 0.0), error * 2.0, -0.0), body.at("%twice", offset))

    def _added_to(self, row: str, stream: int) -> Value:
        """The terms that are added to a tile's rows."""
        added = self.body.undefined(Kind("float", self.rows))
        for m in range(self.rows):
            added = added.replaced(m, single(self._read(row, m, stream), self.key.stored.types[stream]))
        return added.converted("fpext", added.kind.of("double"))

    def _splat(self, place: str, row: str, m: int | str) -> Value:
        body = self.body
        at = body.at(place, body.op(f"mul i64 {self._number(row, m)}, 8"))
        return body.splat(body.loaded(WIDE, at), self.lanes)

    def _unless(self, doubtful: Value) -> None:
        """Leave the kernel if any lane is set."""
        body, lost, kept = self.body, self.body.name("lost"), self.body.name("kept")
        lanes = doubtful.kind.lanes
        any_ = body.op(f"bitcast {doubtful.kind.text} {doubtful.name} to i{lanes}")
        body.branch(body.op(f"icmp ne i{lanes} {any_}, 0"), lost, kept, seldom=True)
        body.label(lost)
        self._leave()
        body.label(kept)

    def _leave(self) -> None:
        self.body.do("ret i64 0")

    def _store(self, row: str, column: str, tiles: str, sums: list[Value]) -> None:
        """Store a tile's elements, undecided ones, too: these are overwritten later. tiles: the number of tiles up to it."""
        body, across = self.body, self.across
        noted = body.constant(Kind("i64"), 0)
        for m in range(self.rows):
            at = self._line(row, m, column)
            twice, read = self._beside(row, m)
            mine = sums[m * across : (m + 1) * across]
            some = self._put_row(at, [(total, total + twice) for total in mine], twice, read)
            noted = self._keep(some, m, mine, noted)
        when(body, body.op(f"icmp ne i64 {noted.name}, 0"), lambda: self._note(row, column, tiles, noted))

    def _line(self, row: str, m: int | str, column: str) -> str:
        """The address of the elements of a tile's row."""
        body, size = self.body, self.key.stored.types[-1].element_bits // 8
        line = body.at(f"%p{self.last}", body.op(f"mul i64 {self._number(row, m)}, %r{self.last}"))
        return body.at(line, body.op(f"mul i64 {body.op(f'add i64 %first, {column}')}, {size}"))

    def _put_row(self, at: str, sums: list[tuple[Value, Value]], twice: Value, read: dict[int, Value]) -> Value:
        """Store elements. -> whether any is undecided. sums: both ends of each."""
        differing: list[Value] = []
        for n, (low, high) in enumerate(sums):
            bits, ends = self._element(low, high, twice, read)
            differ = [x if y is None else x ^ y for x, y in ends]  # not 0 in undecided lanes
            self._write(bits, at, n)
            if self.inside is not None:
                mask = self.inside[n]
                differ = [x & (mask if x.kind == mask.kind else mask.converted("sext", x.kind)) for x in differ]
            # masks of the same kind are merged
            differing = [x | y for x, y in zip(differing, differ, strict=True)] if differing else differ
        some = self.body.constant(Kind("i1"), False)
        for x in differing:
            some = some | self._any(x)
        return some

    def _write(self, bits: Value, at: str, n: int) -> None:
        """Store the n-th vector of a row."""
        place = self.body.at(at, bits.kind.bits // 8 * self.lanes * n)
        if self.inside is None:
            self.body.stored(bits, place)
        else:
            masked_store(self.body, bits, place, self.inside[n])

    def _keep(self, some: Value, m: int, sums: list[Value], noted: Value) -> Value:
        """Keep the sums of a row if some elements are undecided. -> `noted`, with the row's bit set then"""
        body = self.body

        def keep() -> list[Value]:
            for n, total in enumerate(sums):
                body.stored(total, self.kept, 8 * self.lanes * (m * self.across + n))
            return [noted | 1 << m]

        return body.either(some.name, keep, lambda: [noted], seldom=True)[0]

    def _any(self, x: Value) -> Value:
        """Whether any lane is not 0. With masks, that is one comparison; LLVM takes a wide integer apart."""
        lanes = x if x.kind.element == "i1" else x.compared("ne", 0)
        return self.body.value(f"icmp ne i64 {lanes_as_bits(lanes)}, 0", Kind("i1"))

    def _note(self, row: str, column: str, tiles: str, noted: Value) -> None:
        """List the undecided elements of the noted rows of a tile; leave the kernel if the list gets too long."""
        body, lanes, across = self.body, self.lanes, self.across

        def some(m: str, _: list[Value]) -> list[Value]:
            bit = body.op(f"and i64 {body.op(f'lshr i64 {noted.name}, {m}')}, 1")
            body.loop(m, body.op(f"add i64 {m}, {bit}"), 1, [], line)
            return []

        def line(m: str, _: list[Value]) -> list[Value]:
            twice, read = self._beside(row, m)
            for n, (low, high) in enumerate(self._ends(row, m)):
                undecided = body.constant(Kind("i1", lanes), False)
                for x, y in self._element(low, high, twice, read)[1]:
                    undecided = undecided | (x if y is None else x.compared("ne", y))
                if self.inside is not None:
                    undecided = undecided & self.inside[n]
                r, c = self._number(row, m), body.op(f"add i64 {column}, {n * lanes}")
                listed(body, r, c, lanes_as_bits(undecided))
                self._listed(r, c)
            return []

        body.loop("0", str(self.rows), 1, [], some)
        done = body.op(f"mul i64 {tiles}, {self.rows * across * lanes}")
        most = body.op(f"add i64 {body.op(f'udiv i64 {done}, %few')}, {SURE}")
        most = body.call("llvm.umin.i64", Kind("i64"), f"i64 {most}", "i64 %most").name

        def leave() -> None:
            self._leave()
            body.label(body.name("never"))

        when(body, body.op(f"icmp ugt i64 {list_of(body).count()}, {most}"), leave)

    def _ends(self, row: str, m: str) -> list[tuple[Value, Value]]:
        """Both ends of the sums of a row that are kept."""
        body, lanes = self.body, self.lanes
        at = body.at(self.kept, body.op(f"mul i64 {m}, {8 * lanes * self.across}"))
        sums = [body.loaded(Kind("double", lanes), at, 8 * lanes * n) for n in range(self.across)]
        twice = self._splat("%twice", row, m)
        return [(total, total + twice) for total in sums]

    def _listed(self, row: str, column: str) -> None:
        """Prepare the second stage of a vector of which some elements are listed: it tests whether sums may have no terms."""
        if self.key.padded:
            body = self.body
            place = body.at(body.at("%sums", body.op(f"mul i64 {row}, %sums_row")), body.op(f"mul i64 {column}, 8"))
            body.stored(body.constant(Kind("double", self.lanes), math.nan), place)

    def _beside(self, row: str, m: int | str) -> tuple[Value, dict[int, Value]]:
        """Twice the bound of a row's sums, and the row's elements of the other streams."""
        return self._splat("%twice", row, m), self._streams(row, m)

    def _streams(self, row: str, m: int | str) -> dict[int, Value]:
        return {k: self.body.splat(self._read(row, m, k), self.lanes) for k in self.key.stored.others}

    def _element(self, total: Value, high: Value, twice: Value, read: dict[int, Value]) -> tuple[Value, Differ]:
        """The bits of a vector of elements, and the undecided lanes: as masks, or as pairs that differ in these lanes.

        total, high: both ends of the sum. twice: how far they are apart at most.
        """
        body, s = self.body, self.key.stored
        number = bounded(high, twice, None)
        place = s.rounded()
        first = s if place is None else s.until(place)
        item = walked(body, first, read, number, self.lanes, added=self.added is not None)
        if not isinstance(item, Number):
            raise engine.Uncompilable("elements that no interval decides")
        if item is number and place is None and body.target.probe is not None:
            bits = probe.record_of_ends(total, high, None, s.types[-1].element_bits)
            differ: Differ = [(body.constant(bits.kind.of("i1"), False), None)]
        elif item is number and first.types[-1] == DataType.FLOAT32:
            low, bits = (x.converted("fptrunc", x.kind.of("float")).bits() for x in (total, high))
            differ = [(low, bits)]
        elif (between := between_ends(item, first.types[-1])) is not None:
            bits, differ = between[0], [(between[1], None)]
        else:
            raise engine.Uncompilable("elements that no interval decides")
        if place is None:
            return bits, differ
        made, undecided = stored_rounded(body, s, read, place, bits, self.lanes, number=item is number)
        return made, differ if undecided is None else [*differ, (undecided, None)]
