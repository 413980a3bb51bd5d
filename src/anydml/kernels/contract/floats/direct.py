"""Sums of few rows, without packing: the columns' factor is read where it lies, once, and each sum has one of magnitudes.

A sum of n terms is at most (n + 8) u of the sum of their magnitudes away from the real one. What does not count is left out,
so that zeros and infinities are those of the terms that do.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.emit import arguments, kernel, shuffle, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.elementwise import halves
from anydml.tensor import DataType

AT_ONCE = 16  # terms that are added before sums are put back
# sizes: sums of magnitudes; block_row: bytes from one row of these and of the sums to the next
ARGUMENTS = (
    "a", "a_row", "a_term", "b", "n1", "n2", "s0", "s1", "s2", "b_term", "channels", "positions", "table",
    "first", "count", "sums", "sizes", "block_row",
)  # fmt: skip
POINTERS = {"a", "b", "table", "sums", "sizes"}
TERM = 32  # bytes of a term of a line: to its elements, to its values of rows, and the columns that it counts for


class Kinds(NamedTuple):
    """The factors' types; rows; elements of a line from one column to the next, 0 for any; whether some terms do not count."""

    a: DataType
    b: DataType
    rows: int
    step: int
    padded: bool


def slack(target: Target) -> int:
    """Bytes that are written behind the last sum of a row."""
    return 2 * target.vector_bytes


def sums(target: Target, kinds: Kinds) -> str:
    """Sums of so many columns, from the first one on; arguments: ARGUMENTS."""
    return _Direct(target, kinds).text()


class _Direct:
    def __init__(self, target: Target, kinds: Kinds) -> None:
        self.body, self.kinds = Body(target), kinds
        self.lanes = target.vector_bytes // 4
        self.iota = self.body.constants("i64", range(self.lanes))

    def text(self) -> str:
        body, rows = self.body, self.kinds.rows
        arguments(body, ARGUMENTS, POINTERS)
        self.values = body.op(f"alloca [{AT_ONCE * rows} x double], align 64")
        self.all = body.op(f"alloca [{AT_ONCE * TERM} x i8], align 64")
        self.line = body.op(f"alloca [{AT_ONCE * TERM} x i8], align 64")
        total = body.op("mul i64 %channels, %positions")
        none = body.op(f"icmp eq i64 {total}, 0")
        # of no terms, sums are begun all the same
        end = body.op(f"add i64 {total}, {body.op(f'zext i1 {none} to i64')}")
        up = body.op(f"udiv i64 {body.op(f'add i64 {end}, {AT_ONCE - 1}')}, {AT_ONCE}")

        def terms(n: str, _: list[Value]) -> list[Value]:
            first = body.op(f"mul i64 {n}, {AT_ONCE}")
            left = body.op(f"sub i64 {total}, {first}")
            self.count = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {AT_ONCE}')}, i64 {left}, i64 {AT_ONCE}")
            self.begun = body.op(f"icmp ne i64 {n}, 0")
            body.loop("0", self.count, 1, [], lambda t, _: self._term(t, first))
            body.loop("0", "%count", 1, [body.constant(Kind("i64"), 0)], self._run)
            return []

        body.loop("0", up, 1, [], terms)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _term(self, t: str, first: str) -> list[Value]:
        """Write down a term: where its elements are, and what they are multiplied by."""
        body = self.body
        n = body.op(f"add i64 {first}, {t}")
        c, p = body.op(f"udiv i64 {n}, %positions"), body.op(f"urem i64 {n}, %positions")
        entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
        offset = body.op(f"add i64 {body.op(f'mul i64 {c}, %b_term')}, {body.load('i64', entry)}")
        record = body.at(self.all, body.op(f"mul i64 {t}, {TERM}"))
        body.store("i64", offset, record)
        body.store("i64", body.op(f"ptrtoint ptr {entry} to i64"), record, 8)
        a = body.at("%a", body.op(f"add i64 {body.op(f'mul i64 {c}, %a_term')}, {body.load('i64', entry, 8)}"))
        for m in range(self.kinds.rows):
            bits = body.loaded(Kind(f"i{self.kinds.a.element_bits}"), a, body.op(f"mul i64 %a_row, {m}"))
            into = body.at(self.values, body.op(f"mul i64 {t}, {8 * self.kinds.rows}"))
            body.stored(_single(bits, self.kinds.a).converted("fpext", Kind("double")), into, 8 * m)
        return []

    def _run(self, _: str, carried: list[Value]) -> list[Value]:
        """The columns of a line, as many of them as there are."""
        body = self.body
        done = carried[0].name
        more = body.op(f"icmp ult i64 {done}, %count")
        before, inside, after = (body.name(x) for x in ("before", "run", "after"))
        body.jump(before)
        body.label(before)
        body.branch(more, inside, after)
        body.label(inside)
        c = body.op(f"add i64 %first, {done}")
        x, line = body.op(f"urem i64 {c}, %n2"), body.op(f"udiv i64 {c}, %n2")
        y, z = body.op(f"urem i64 {line}, %n1"), body.op(f"udiv i64 {line}, %n1")
        room, left = body.op(f"sub i64 %n2, {x}"), body.op(f"sub i64 %count, {done}")
        length = body.op(f"select i1 {body.op(f'icmp ult i64 {room}, {left}')}, i64 {room}, i64 {left}")
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %s0')}, {body.op(f'mul i64 {y}, %s1')}")
        base = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s2')}"))
        self._columns(base, done, length, self._counting(z, y, x))
        end = body.name("end")
        body.jump(end)
        body.label(end)
        body.jump(after)
        body.label(after)
        taken = body.op(f"phi i64 [ 0, %{before} ], [ {length}, %{end} ]")
        return [carried[0] + Value(body, taken, Kind("i64"))]

    def _counting(self, z: str, y: str, x: str) -> str:
        """Write down the terms that count for a line, and for which of its columns; how many these are."""
        body = self.body

        def one(t: str, found: list[Value]) -> list[Value]:
            record = body.at(self.all, body.op(f"mul i64 {t}, {TERM}"))
            into = body.at(self.line, body.op(f"mul i64 {found[0].name}, {TERM}"))
            counts = body.constant(Kind("i64"), 1)
            body.store("i64", body.load("i64", record), into)
            body.store("i64", body.op(f"mul i64 {t}, {8 * self.kinds.rows}"), into, 8)
            if self.kinds.padded:
                entry = body.load("ptr", record, 8)
                inside = body.constant(Kind("i1"), True)
                for k, value in ((0, z), (1, y)):
                    at = Value(body, value, Kind("i64"))
                    inside = inside & at.compared("sge", body.loaded(at.kind, entry, 16 + 16 * k))
                    inside = inside & at.compared("slt", body.loaded(at.kind, entry, 24 + 16 * k))
                for k in (0, 1):
                    edge = body.op(f"sub i64 {body.load('i64', entry, 48 + 8 * k)}, {x}")
                    body.store("i64", edge, into, 16 + 8 * k)
                counts = inside.converted("zext", Kind("i64"))
            return [found[0] + counts]

        return body.loop("0", self.count, 1, [body.constant(Kind("i64"), 0)], one)[1][0].name

    def _columns(self, base: str, done: str, length: str, terms: str) -> None:
        body, lanes = self.body, self.lanes

        def whole(i: str, _: list[Value]) -> list[Value]:
            self._group(base, done, i, None, terms)
            return []

        i, _ = body.loop("0", length, lanes, [], whole)
        left = body.op(f"sub i64 {length}, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: self._group(base, done, i, length, terms))

    def _group(self, base: str, done: str, i: str, length: str | None, terms: str) -> None:
        """A group of columns from the i-th of a line on: all of them, or those before the length."""
        body, lanes, rows = self.body, self.lanes, self.kinds.rows
        wide = Kind("double", lanes)
        at = body.splat(Value(body, i, Kind("i64")), lanes) + self.iota
        there = None if length is None else at.compared("ult", body.splat(Value(body, length, Kind("i64")), lanes))
        offset = body.op(f"mul i64 {body.op(f'add i64 {done}, {i}')}, 8")
        places = [
            body.at(block, body.op(f"add i64 {offset}, {body.op(f'mul i64 %block_row, {m}')}"))
            for m in range(rows)
            for block in ("%sums", "%sizes")
        ]
        starts = [self._start(place, wide, -0.0 if k % 2 == 0 else 0.0) for k, place in enumerate(places)]

        def term(t: str, carried: list[Value]) -> list[Value]:
            record = body.at(self.line, body.op(f"mul i64 {t}, {TERM}"))
            active = there
            if self.kinds.padded:
                low, high = (body.splat(body.loaded(Kind("i64"), record, 16 + 8 * k), lanes) for k in (0, 1))
                counts = at.compared("sge", low) & at.compared("slt", high)
                active = counts if active is None else counts & active
            from_ = body.at(base, body.load("i64", record))
            x = _single(self._read(from_, i, at, active), self.kinds.b).converted("fpext", wide)
            size = x.magnitude()
            values = body.at(self.values, body.load("i64", record, 8))
            made = []
            for m in range(rows):
                a = body.splat(body.loaded(Kind("double"), values, 8 * m), lanes)
                total = body.fused(a, x, carried[2 * m])
                most = body.fused(a.magnitude(), size, carried[2 * m + 1])
                if active is not None:
                    total, most = (
                        body.chosen(active, new, old) for new, old in ((total, carried[2 * m]), (most, carried[2 * m + 1]))
                    )
                made += [total, most]
            return made

        found = body.loop("0", terms, 1, starts, term)[1]
        for value, place in zip(found, places, strict=True):
            body.stored(value, place)

    def _start(self, place: str, wide: Kind, start: float) -> Value:
        """What the sums are so far."""
        body = self.body
        before, load, after = (body.name(x) for x in ("before", "load", "after"))
        body.jump(before)
        body.label(before)
        body.branch(self.begun, load, after)
        body.label(load)
        found = body.loaded(wide, place)
        body.jump(after)
        body.label(after)
        first = body.constant(wide, start)
        return body.value(f"phi {wide.text} [ {first.name}, %{before} ], [ {found.name}, %{load} ]", wide)

    # --- elements of a line ---

    def _read(self, from_: str, i: str, at: Value, active: Value | None) -> Value:
        body, lanes, size = self.body, self.lanes, self.kinds.b.dtype.itemsize
        kind = Kind(f"i{8 * size}", lanes)
        if self.kinds.step == 1:
            place = body.at(from_, body.op(f"mul i64 {i}, {size}"))
            return body.loaded(kind, place) if active is None else self._masked(kind, place, active)
        if self.kinds.step == 2:
            place = body.at(from_, body.op(f"mul i64 {i}, {2 * size}"))
            active = body.constant(kind.of("i1"), True) if active is None else active
            double = Kind(kind.element, 2 * lanes)
            mask = self._spread(active)
            both = self._masked(double, place, mask)
            return Value(body, shuffle(body, both.name, "poison", double.text, range(0, 2 * lanes, 2)), kind)
        active = body.constant(kind.of("i1"), True) if active is None else active
        offsets = at * body.splat(Value(body, "%s2", Kind("i64")), lanes)
        places = body.op(f"getelementptr i8, ptr {from_}, {offsets!r}")
        name, pointers = f"llvm.masked.gather.v{lanes}{kind.element}.v{lanes}p0", f"<{lanes} x ptr>"
        body.declared[f"declare {kind.text} @{name}({pointers}, i32, <{lanes} x i1>, {kind.text})"] = None
        return body.value(
            f"call {kind.text} @{name}({pointers} {places}, i32 1, {active!r}, {kind.text} zeroinitializer)", kind
        )

    def _spread(self, active: Value) -> Value:
        """The lanes of every second element, and no others."""
        body, lanes = self.body, self.lanes
        none = body.constant(active.kind, False)
        order = [k // 2 if k % 2 == 0 else lanes for k in range(2 * lanes)]
        made = shuffle(body, active.name, none.name, active.kind.text, order)
        return Value(body, made, Kind("i1", 2 * lanes))

    def _masked(self, kind: Kind, place: str, active: Value) -> Value:
        body = self.body
        name = f"llvm.masked.load.v{kind.lanes}{kind.element}.p0"
        body.declared[f"declare {kind.text} @{name}(ptr, i32, <{kind.lanes} x i1>, {kind.text})"] = None
        call = f"call {kind.text} @{name}(ptr {place}, i32 1, {active!r}, {kind.text} zeroinitializer)"
        return body.value(call, kind)


def _single(bits: Value, data_type: DataType) -> Value:
    return halves.widened(bits) if data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))
