"""Tiles whose columns are read in place: they are not packed before, and elements are stored directly from registers.

The first tile of a panel reads the columns from the tensor, with masks where terms do not count, and keeps them as float64 for
the tiles below it. It also finds their largest element, x: the norm of a column of n terms is at most sqrt(n) x. While a tile
is summed, the elements of the one before are rounded, tested and stored: its sums wait in the cache, since the registers are
full, and conversions and multiplications have units of their own. Everything else is as in `at_once`: a sum t of the terms, and
of the term that is added, goes through at most n + 1 roundings, and the exact sum is between t - e and t + e.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.layout import FloatLayout, StreamPlace
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.at_once import DONE, StoredTiles, emits
from anydml.kernels.contract.floats.packed.columns import ColumnReader, Columns
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.second.refine import Refining
from anydml.kernels.contract.floats.stores import list_of, masked_store
from anydml.tensor import DataType

# b: the element of the first column, from which each of `offsets` leads to that of a term; n2: columns of a line; norm:
# `factor` times the root of `terms`, rounded up; wide: room for a panel as float64, and for its masks; from1 .. end2: as in
# `panels`
ARGUMENTS = Signature(
    "*a a_tile tiles *b panels terms columns first n2 b1 b2 channels positions *table *offsets factor norm *a_norms *list most "
    "few *counter *begun *twice *wide from1 end1 from2 end2"
)
I64, WIDE = Kind("i64"), Kind("double")


def alternates(target: Target, found: FloatLayout, key: EpilogueKey, others: Sequence[StreamPlace], most: int) -> bool:
    """Whether outputs of at most `most` terms are every second element of lines of whole vectors, as in a transposed
    convolution. others: the places of streams, which must be constant along columns.
    """
    if found.terms > most or key.stored.types[-1].element_bits != 32 or found.sizes[2] % (target.vector_bytes // 8):
        return False
    return found.output.columns[2] == 8 and not any(any(p.columns) for p in others) and emits(target, key)


def step(target: Target, found: FloatLayout, size: int) -> int | None:
    """The distance of columns in elements, 1 or 2, if vectors of columns can be read from single lines; 0 if their elements are
    gathered; None if columns must be packed. size: bytes of an element.
    """
    (images, lines, width), lanes = found.sizes, target.vector_bytes // 8
    if target.vector_bytes < 32 or images > 1:
        return None
    if found.b.columns[2] in (size, 2 * size) and ((lines == 1 and not found.padded) or width % lanes == 0):
        return found.b.columns[2] // size
    # packing reads elements that lie side by side faster, and so do others that few tiles read
    gathered = target.vector_bytes == 64 and found.b.columns[2] != size and found.rows >= 4 * tile.height(target)
    return 0 if gathered else None


def norm(factor: int, terms: int) -> int:
    """The bits of a number that bounds the factor, of these bits, times the root of the number of terms."""
    found = np.int64(factor).view(np.float64) * math.sqrt(terms) * NORM_SLACK
    return int(np.float64(found).view(np.int64))


def stored(target: Target, rows: int, across: int, key: EpilogueKey, columns: Columns) -> str:
    """The kernel that computes and stores tiles of `rows` rows and panels of `across` vectors; arguments: ARGUMENTS, and
    streams.

    It sets DONE in the counter if all elements are stored.
    """
    return _InPlace(target, rows, across, key, columns).text()


def decided(target: Target, key: EpilogueKey, factors: tuple[DataType, DataType]) -> str:
    """The kernel that decides listed elements, and empties the list; arguments: as of `refine`."""
    return _Decided(target, key, factors).text()


class _Decided(Refining):
    def _ended(self) -> None:
        self.list.counted("0")


class _InPlace(StoredTiles):
    def __init__(self, target: Target, rows: int, across: int, key: EpilogueKey, columns: Columns) -> None:
        super().__init__(target, rows, across, columns.cut, key)
        self.columns = columns

    def text(self) -> str:
        body, key, lanes = self.body, self.key, self.lanes
        with_streams(ARGUMENTS, len(key.layouts)).load(body)
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self._begin()
        self.lower, self.upper = (body.op(f"alloca [{self.rows} x double], align 64") for _ in range(2))
        # of the tile that waits: its row, its column, and the number of tiles up to it; if elements are alternate, where its
        # vectors are
        self.place = body.op("alloca [6 x i64], align 8")
        self.norm = Value(body, body.op("bitcast i64 %norm to double"), WIDE)
        if self.cut:
            self.inside = [below(body, "%columns", lanes, n * lanes) for n in range(self.across)]
        masks = body.at("%wide", body.op(f"mul i64 %terms, {self.across * lanes * 8}"))
        self.reader = ColumnReader(body, self.columns, masks, padded=key.padded, inside=self.inside)

        def begun(t: str, _: list[Value]) -> list[Value]:
            self._starts(body.op(f"mul i64 {t}, {self.rows}"))
            return []

        body.store("i64", "0", self.place, 16)
        body.loop("0", "%tiles", 1, [], begun)
        body.loop("0", "%panels", 1, [], self._panel)
        noted = body.loop("0", str(self.rows), 1, [body.constant(I64, 0)], lambda m, carried: [self._row(m, carried[0])])[1]
        self._list(noted[0])
        body.store("i64", "1", "%counter", DONE)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _starts(self, row: str) -> None:
        """Store the start of the rows' sums, and the part of their bounds that does not depend on the columns."""
        body, rows = self.body, Kind("double", self.rows)
        offset = body.op(f"mul i64 {row}, 8")
        begun = body.constant(rows, -0.0)  # a sum is -0 if all of its terms are
        if self.added is not None:
            begun = self._added_to(row, self.added)
        body.stored(begun, body.at("%begun", offset))
        body.stored(begun.magnitude() * body.splat(self.factor, self.rows), body.at("%twice", offset))

    # --- a panel ---

    def _panel(self, p: str, _: list[Value]) -> list[Value]:
        body, lanes, across = self.body, self.lanes, self.across
        column = body.op(f"mul i64 {p}, {across * lanes}")
        vectors = [body.op(f"add i64 %first, {body.op(f'add i64 {column}, {n * lanes}')}") for n in range(across)]
        numbers = self.reader.begin(vectors)
        self.outputs = [self._output(y, x) for y, x in numbers] if self.columns.alternate else []
        before = body.op(f"mul i64 {p}, %tiles")
        begun = self._begun("0")
        most, sums = self._first_tile(begun)
        bound = body.call(f"llvm.vector.reduce.umax.v{lanes}i32", Kind("i32"), most).cast(Kind("float"))
        bound = bound.converted("fpext", WIDE) * self.norm
        self._wait("0", column, body.op(f"add i64 {before}, 1"), bound, sums)

        def tile(t: str, _: list[Value]) -> list[Value]:
            row = body.op(f"mul i64 {t}, {self.rows}")
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))

            def step(k: str, carried: list[Value]) -> list[Value]:
                at = body.at("%wide", body.op(f"mul i64 {k}, {across * lanes * 8}"))
                right = [body.loaded(Kind("double", lanes), at, 8 * lanes * n) for n in range(across)]
                return self._multiplied(k, a, right, carried)

            sums = self._through(self._begun(row), step)
            self._wait(row, column, body.op(f"add i64 {before}, {body.op(f'add i64 {t}, 1')}"), bound, sums)
            return []

        if self.columns.kept:
            body.loop("1", "%tiles", 1, [], tile)
        return []

    def _begun(self, row: str) -> list[Value]:
        return [self._splat("%begun", row, m) for m in range(self.rows) for _ in range(self.across)]

    def _multiplied(self, k: str, a: str, right: list[Value], carried: list[Value]) -> list[Value]:
        """The sums of a tile with one more term."""
        body = self.body
        left = body.at(a, body.op(f"mul i64 {k}, {8 * self.rows}"))
        made = []
        for m in range(self.rows):
            x = body.splat(body.loaded(WIDE, left, 8 * m), self.lanes)
            made += [body.fused(x, y, carried[m * self.across + n]) for n, y in enumerate(right)]
        return made

    def _through(self, carried: list[Value], step: Callable[[str, list[Value]], list[Value]]) -> list[Value]:
        """`step` of all terms; in between, the elements of the tile that waits are stored, row by row."""
        body = self.body
        part = body.op(f"udiv i64 %terms, {self.rows}")

        def row(m: str, given: list[Value]) -> list[Value]:
            noted = self._row(m, given[-1])
            first = body.op(f"mul i64 {m}, {part}")
            return [*body.loop(first, body.op(f"add i64 {first}, {part}"), 1, given[:-1], step)[1], noted]

        *found, noted = body.loop("0", str(self.rows), 1, [*carried, body.constant(I64, 0)], row)[1]
        found = body.loop(body.op(f"mul i64 {part}, {self.rows}"), "%terms", 1, found, step)[1]
        self._list(noted)
        return found

    def _first_tile(self, begun: list[Value]) -> tuple[Value, list[Value]]:
        """The sums of the first tile of a panel, whose columns are kept; and their largest magnitudes, as bits of float32."""
        body, lanes, across = self.body, self.lanes, self.across

        def step(k: str, carried: list[Value]) -> list[Value]:
            most, *sums = carried
            offset = body.load("i64", "%offsets", body.op(f"mul i64 {k}, 8"))
            at = body.at("%wide", body.op(f"mul i64 {k}, {across * lanes * 8}"))
            right = []
            for n in range(across):
                x = self.reader.elements(n, k, offset)
                most = body.intrinsic("umax", most, x.bits() & 0x7FFFFFFF)
                right.append(x.converted("fpext", Kind("double", lanes)))
                if self.columns.kept:
                    body.stored(right[n], at, 8 * lanes * n)
            return [most, *self._multiplied(k, "%a", right, sums)]

        most, *sums = self._through([body.constant(Kind("i32", lanes), 0), *begun], step)
        return most, sums

    # --- a tile that waits ---

    def _wait(self, row: str, column: str, tiles: str, bound: Value, sums: list[Value]) -> None:
        """Keep a tile's sums, and the bounds of its rows; leave the kernel if a bound is useless."""
        body, rows = self.body, Kind("double", self.rows)
        offset = body.op(f"mul i64 {row}, 8")
        own = body.loaded(rows, body.at("%twice", offset))
        error = body.fused(body.loaded(rows, body.at("%a_norms", offset)), body.splat(bound, self.rows), own)
        usual = error.compared("olt", math.inf)
        if self.key.padded:  # the sign of a zero may come from terms that do not count
            usual = usual & error.compared("ogt", 0.0)
        self._unless(~usual)
        # a sum of zeros has no error, and -0 + -0 keeps its sign
        some = error.compared("ogt", 0.0)
        body.stored(body.chosen(some, -error, -0.0), self.lower)
        body.stored(body.chosen(some, error, -0.0), self.upper)
        for n, word in enumerate((row, column, tiles)):
            body.store("i64", word, self.place, 8 * n)
        for n, output in enumerate(self.outputs):
            body.store("i64", output, self.place, 24 + 8 * n)
        for n, total in enumerate(sums):
            body.stored(total, self.kept, 8 * self.lanes * n)

    def _row(self, m: str, noted: Value) -> Value:
        """Store a row of the tile that waits, if there is one. -> `noted`, with the row's bit set if any is undecided"""
        body = self.body
        waits = body.op(f"icmp ne i64 {body.load('i64', self.place, 16)}, 0")

        def store() -> list[Value]:
            row, column = (body.load("i64", self.place, 8 * n) for n in range(2))
            some = self._put_row(self._line(row, m, column), self._ends(row, m), *self._beside(row, m))
            bit = Value(body, body.op(f"shl i64 1, {m}"), I64)
            return [body.either(some.name, lambda: [noted | bit], lambda: [noted], seldom=True)[0]]

        return body.either(waits, store, lambda: [noted])[0]

    def _line(self, row: str, m: int | str, column: str) -> str:
        if not self.columns.alternate:
            return super()._line(row, m, column)
        return self.body.at(f"%p{self.last}", self.body.op(f"mul i64 {self._number(row, m)}, %r{self.last}"))

    def _output(self, y: str, x: str) -> str:
        """The offset of an output that has this line and place."""
        body = self.body
        return body.op(f"add i64 {body.op(f'mul i64 {y}, %y{self.last}')}, {body.op(f'mul i64 {x}, %s{self.last}')}")

    def _write(self, bits: Value, at: str, n: int) -> None:
        if not self.columns.alternate:
            super()._write(bits, at, n)
            return
        body, kind = self.body, bits.kind
        apart = bits.converted("zext", kind.of(f"i{2 * kind.bits}")).cast(Kind(kind.element, 2 * kind.lanes))
        every = body.constants("i1", [k % 2 == 0 for k in range(2 * kind.lanes)])
        masked_store(body, apart, body.at(at, body.load("i64", self.place, 24 + 8 * n)), every)

    def _ends(self, row: str, m: str) -> list[tuple[Value, Value]]:
        body, lanes = self.body, self.lanes
        at = body.at(self.kept, body.op(f"mul i64 {m}, {8 * lanes * self.across}"))
        lower, upper = (self._splat(place, "0", m) for place in (self.lower, self.upper))
        sums = [body.loaded(lower.kind, at, 8 * lanes * n) for n in range(self.across)]
        return [(total + lower, total + upper) for total in sums]

    def _beside(self, row: str, m: int | str) -> tuple[Value, dict[int, Value]]:
        return self._splat(self.upper, "0", m) * 2.0, self._streams(row, m)

    def _listed(self, row: str, column: str) -> None:
        pass  # the second stage reads terms from the tensors

    def _leave(self) -> None:
        list_of(self.body).counted("0")
        super()._leave()

    def _list(self, noted: Value) -> None:
        """List the undecided elements of the tile that waits."""
        body = self.body

        def some() -> None:
            row, column, tiles = (body.load("i64", self.place, 8 * n) for n in range(3))
            self._note(row, column, tiles, noted)

        when(body, body.op(f"icmp ne i64 {noted.name}, 0"), some)
