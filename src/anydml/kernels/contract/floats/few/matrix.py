"""Products of few rows with a matrix that is read once, in its own layout: along its rows, or along its columns.

A sum is bounded by the norm of its row times its column's largest magnitude. This takes one operation for a vector of
elements, while a sum of magnitudes takes as long as the sum. If the inexact flag is not set, sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, shuffle, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.contract.floats.largest import below
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.contract.floats.reads import Reader, single
from anydml.tensor import DataType

ABREAST = 8  # terms that are accumulated before they are added to the sums
COLUMNS = 8  # times rows that are summed at once along the terms; the registers hold this many accumulators
LARGER = 1 + 2.0**-20  # for the roundings in norms
# a_row, a_term: strides in bytes along rows and terms; b_term, b_column: strides of the matrix; sums, sizes: sums and largest
# magnitudes, then bounds, in rows block_row bytes apart; values: room for `block` float64 and a vector for each row;
# counter: as in `tile`
ARGUMENTS = Signature("*a a_row a_term *b b_term b_column terms columns *sums *sizes block_row *values *counter")
I64, WIDE = Kind("i64"), Kind("double")


class FewKey(NamedTuple):
    """The factors' types; rows; along: whether the matrix is contiguous along terms; room: for factors of rows in float64."""

    a: DataType
    b: DataType
    rows: int
    along: bool
    room: int

    @property
    def block(self) -> int:
        """Terms whose factors are converted to float64 at once."""
        return max(self.room // self.rows // 16, 1) * 16 if self.along else ABREAST

    def additions(self, terms: int, target: Target) -> int:
        """The most additions that a term of a sum goes through."""
        blocks = -(-terms // self.block)
        if not self.along:
            return ABREAST + blocks + ABREAST  # the last terms are added one by one
        lanes = target.vector_bytes // 4
        return -(-min(terms, self.block) // lanes) + 2 + lanes.bit_length() + blocks  # partial vectors at both ends


def summed(target: Target, kinds: FewKey) -> str:
    """The kernel that computes the sums of columns, each with a bound of its terms' magnitudes; arguments: ARGUMENTS."""
    return (_Along if kinds.along else _Across)(target, kinds).text()


class _Few:
    """The base of both kernels: factors in float64, their norms, and the sums in memory."""

    def __init__(self, target: Target, kinds: FewKey) -> None:
        self.body, self.kinds = Body(target), kinds
        self.lanes = target.vector_bytes // 4
        self.half = self.lanes // 2
        self.size = kinds.b.dtype.itemsize
        self.reader = Reader(self.body, kinds.b, 1, self.lanes)

    def text(self) -> str:
        body, rows = self.body, self.kinds.rows
        ARGUMENTS.load(body)
        note = Note(body)
        self._begin()
        norms = self._terms([body.constant(WIDE, 0.0)] * rows)
        norms = [(norm * LARGER).converted("fptrunc", Kind("float")) for norm in norms]
        kind = Kind("float", self.lanes)

        def sizes(i: str) -> None:
            most = body.loaded(kind, self._size(i))
            for m in range(rows):
                body.stored(most * body.splat(norms[m], self.lanes), self._size(i, m))

        self._every(sizes)
        body.stored(note.rounded().converted("uitofp", WIDE), "%counter", BOUND)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _terms(self, norms: list[Value]) -> list[Value]:
        raise NotImplementedError

    def _every(self, do: Callable[[str], None]) -> None:
        """Call `do` for each group of columns; the last one may extend beyond the columns."""
        body = self.body

        def group(i: str, _: list[Value]) -> list[Value]:
            do(i)
            return []

        up = body.op(f"and i64 {body.op(f'add i64 %columns, {self.lanes - 1}')}, {-self.lanes}")
        body.loop("0", up, self.lanes, [], group)

    def _sum(self, i: str, m: int) -> str:
        return self.body.at(self.body.at("%sums", self.body.op(f"mul i64 %block_row, {m}")), self.body.op(f"mul i64 {i}, 8"))

    def _size(self, i: str, m: int = 0) -> str:
        return self.body.at(self.body.at("%sizes", self.body.op(f"mul i64 %block_row, {m}")), self.body.op(f"mul i64 {i}, 4"))

    def _begin(self) -> None:
        body = self.body
        # a sum is -0 if all of its terms are
        zero, none = body.constant(Kind("double", self.lanes), -0.0), body.constant(Kind("i32", self.lanes), 0)

        def group(i: str) -> None:
            for m in range(self.kinds.rows):
                body.stored(zero, self._sum(i, m))
            body.stored(none, self._size(i))

        self._every(group)

    def _factor(self, term: str, m: int) -> Value:
        """The m-th row's factor of a term, in float64."""
        body, a = self.body, self.kinds.a
        at = body.at(body.at("%a", body.op(f"mul i64 {term}, %a_term")), body.op(f"mul i64 %a_row, {m}"))
        return single(body.loaded(Kind(f"i{a.element_bits}"), at), a).converted("fpext", WIDE)

    def _before(self, first: str, apart: str, count: str) -> str:
        """The number of elements before the first aligned vector; 0 if the lines are not all aligned alike."""
        body, width = self.body, self.lanes * self.size
        address = body.op(f"ptrtoint ptr {first} to i64")
        over = body.op(f"and i64 {body.op(f'sub i64 0, {address}')}, {width - 1}")
        even = body.op(f"icmp eq i64 {body.op(f'and i64 {apart}, {width - 1}')}, 0")
        elements = body.op(f"udiv i64 {body.op(f'select i1 {even}, i64 {over}, i64 0')}, {self.size}")
        return body.intrinsic("umin", Value(body, elements, I64), Value(body, count, I64)).name

    def _wide(self, bits: Value) -> list[Value]:
        """A vector's elements in float64, in two halves."""
        body, x = self.body, single(bits, self.kinds.b)
        order = (range(self.half), range(self.half, self.lanes))
        halves = (Value(body, shuffle(body, x.name, "poison", x.kind.text, o), Kind("float", self.half)) for o in order)
        return [h.converted("fpext", h.kind.of("double")) for h in halves]

    def _soon(self, line: str, i: str, ahead: str) -> None:
        """Prefetch what is read next, `ahead` bytes from here, into the second-level cache: lines whose distance is a power
        of two would evict one another from the first."""
        body = self.body
        at = body.at(body.at(line, ahead), body.op(f"mul i64 {i}, {self.size}"))
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        body.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")

    def _larger(self, most: Value, bits: Value) -> Value:
        """The larger magnitude, as the bits of a float32; a NaN counts as larger than infinity."""
        return self.body.intrinsic("umax", most, single(bits, self.kinds.b).bits() & 0x7FFFFFFF)


class _Across(_Few):
    """The matrix is contiguous along columns: some terms at once are added to the sums of all columns, which are in memory."""

    def _terms(self, norms: list[Value]) -> list[Value]:
        body = self.body

        def some(first: str, norms: list[Value]) -> list[Value]:
            return self._added(first, norms, ABREAST)

        i, norms = body.loop("0", "%terms", ABREAST, norms, some)
        return body.loop(i, "%terms", 1, norms, lambda k, norms: self._added(k, norms, 1))[1]

    def _added(self, first: str, norms: list[Value], count: int) -> list[Value]:
        """Add `count` terms from `first` on to the sums of all columns. -> the norms with these terms"""
        body, rows = self.body, self.kinds.rows
        for t in range(count):
            term = body.op(f"add i64 {first}, {t}")
            for m in range(rows):
                factor = self._factor(term, m)
                norms[m] = norms[m] + factor.magnitude()
                body.stored(factor, "%values", 8 * (t * rows + m))
        b = body.at("%b", body.op(f"mul i64 {first}, %b_term"))
        lines = [body.at(b, body.op(f"mul i64 %b_term, {t}")) for t in range(count)]
        ahead = body.op(f"mul i64 %b_term, {count}")

        def group(i: str, count_: str | None) -> None:
            mask = None if count_ is None else below(body, count_, self.lanes)
            most = body.loaded(Kind("i32", self.lanes), self._size(i))
            sums = [[body.constant(Kind("double", self.half), -0.0)] * 2 for _ in range(rows)]
            for t, line in enumerate(lines):
                bits = self.reader.read(line, i, mask)
                self._soon(line, i, ahead)
                most = self._larger(most, bits)
                wide = self._wide(bits)
                for m in range(rows):
                    factor = body.splat(body.loaded(WIDE, "%values", 8 * (t * rows + m)), self.half)
                    sums[m] = [body.fused(factor, x, s) if t else factor * x for x, s in zip(wide, sums[m], strict=True)]
            for m in range(rows):
                for h, value in enumerate(sums[m]):
                    at = body.at(self._sum(i, m), 8 * self.half * h)
                    before = body.loaded(value.kind, at)
                    counts = None if count_ is None else below(body, count_, self.half, h * self.half)
                    body.stored(before + value if counts is None else body.chosen(counts, before + value, before), at)
            body.stored(most, self._size(i))

        def whole(i: str, _: list[Value]) -> list[Value]:
            group(i, None)
            return []

        uneven = self._before("%b", "%b_term", "%columns")
        when(body, body.op(f"icmp ne i64 {uneven}, 0"), lambda: group("0", uneven))
        i, _ = body.loop(uneven, "%columns", self.lanes, [], whole)
        left = body.op(f"sub i64 %columns, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: group(i, left))
        return norms


class _Along(_Few):
    """The matrix is contiguous along terms: some columns at once are summed along them."""

    def _terms(self, norms: list[Value]) -> list[Value]:
        body, block = self.body, self.kinds.block
        rows = self.kinds.rows
        room = 8 * (block + self.lanes)  # bytes of a row

        def part(first: str, norms: list[Value]) -> list[Value]:
            left = Value(body, body.op(f"sub i64 %terms, {first}"), I64)
            count = body.intrinsic("umin", left, body.constant(I64, block)).name

            def one(k: str, norms: list[Value]) -> list[Value]:
                term = body.op(f"add i64 {first}, {k}")
                found = []
                for m, norm in enumerate(norms):
                    factor = self._factor(term, m)
                    body.stored(factor, body.at("%values", room * m), body.op(f"mul i64 {k}, 8"))
                    found.append(norm + factor.magnitude())
                return found

            _, norms = body.loop("0", count, 1, norms, one)
            b = body.at("%b", body.op(f"mul i64 {first}, {self.size}"))
            at_once = max(COLUMNS // rows, 1)
            i, _ = body.loop("0", "%columns", at_once, [], lambda i, _: self._columns(b, i, count, at_once, room))
            body.loop(i, "%columns", 1, [], lambda i, _: self._columns(b, i, count, 1, room))
            return norms

        blocks = body.op(f"udiv i64 {body.op(f'add i64 %terms, {block - 1}')}, {block}")
        return body.loop("0", blocks, 1, norms, lambda n, norms: part(body.op(f"mul i64 {n}, {block}"), norms))[1]

    def _columns(self, b: str, first: str, count: str, at_once: int, room: int) -> list[Value]:
        """Add a block of terms to the sums of `at_once` columns."""
        body, rows, lanes = self.body, self.kinds.rows, self.lanes
        columns = [body.op(f"add i64 {first}, {c}") for c in range(at_once)]
        lines = [body.at(b, body.op(f"mul i64 {column}, %b_column")) for column in columns]
        ahead = body.op(f"mul i64 %b_column, {at_once}")
        wide = Kind("double", self.half)
        per = 1 + 2 * rows
        begin = [body.constant(Kind("i32", lanes), 0), *[body.constant(wide, -0.0)] * (2 * rows)] * at_once

        def terms(k: str, carried: list[Value], some: str | None) -> list[Value]:
            mask = None if some is None else below(body, some, lanes)
            parts = [None if some is None else below(body, some, self.half, h * self.half) for h in (0, 1)]
            factors = [
                body.loaded(wide, body.at("%values", room * m + 8 * self.half * h), body.op(f"mul i64 {k}, 8"))
                for m in range(rows)
                for h in (0, 1)
            ]
            found = []
            for c, line in enumerate(lines):
                most, *sums = carried[c * per : (c + 1) * per]
                bits = self.reader.read(line, k, mask)
                self._soon(line, k, ahead)
                x = self._wide(bits)
                found.append(self._larger(most, bits))
                for n, (f, s) in enumerate(zip(factors, sums, strict=True)):
                    more, part = body.fused(f, x[n % 2], s), parts[n % 2]
                    found.append(more if part is None else body.chosen(part, more, s))
            return found

        uneven = self._before(lines[0], "%b_column", count)
        begin = terms("0", begin, uneven)
        k, found = body.loop(uneven, count, lanes, begin, lambda k, carried: terms(k, carried, None))
        found = terms(k, found, body.op(f"sub i64 {count}, {k}"))
        for c, column in enumerate(columns):
            most, *sums = found[c * per : (c + 1) * per]
            at = self._size(column)
            largest = body.call(f"llvm.vector.reduce.umax.v{lanes}i32", Kind("i32"), most)
            body.stored(body.intrinsic("umax", largest, body.loaded(Kind("i32"), at)), at)
            for m in range(rows):
                at = self._sum(column, m)
                body.stored(body.loaded(WIDE, at) + self._together(sums[2 * m] + sums[2 * m + 1]), at)
        return []

    def _together(self, x: Value) -> Value:
        """The sum of a vector's lanes."""
        body = self.body
        while x.kind.lanes > 1:
            n = x.kind.lanes // 2
            parts = (shuffle(body, x.name, "poison", x.kind.text, range(k, k + n)) for k in (0, n))
            low, high = (Value(body, part, Kind("double", n)) for part in parts)
            x = low + high
        return x.lane(0)
