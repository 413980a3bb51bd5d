"""Sums of few rows, without packing: the columns' factor is read once, in its own layout, and magnitudes are summed, too.

The error of a sum of n terms is at most (n + 8) u times the sum of their magnitudes. Magnitudes are float32, each at least
`LEAST`; their sum is computed in float32, and falls short of the exact one by less than n 2^-23 of it. Terms that do not count
are skipped, so that only terms that count produce zeros and infinities. If the inexact flag is not set, which an underflow
of magnitudes would also set, sums and magnitudes are exact.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.few.masks import Masks
from anydml.kernels.contract.floats.few.terms import TERM, Terms, TermsKey
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.contract.floats.packed.lines import lines
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.contract.floats.reads import single

LEAST = 2.0**-126  # below this, the relative error of a product in float32 is larger
# sizes: sums of magnitudes; block_row: bytes from one row of sums, or of sizes, to the next. from0 .. end1: the lines for
# which every term counts somewhere. counter: as in `tile`
ARGUMENTS = Signature(
    "*a a_row a_term *b n1 n2 s0 s1 s2 b_term channels positions *table first count *sums *sizes block_row from0 end0 from1 "
    "end1 *counter"
)


def slack(target: Target) -> int:
    """Bytes that are written behind the last sum of a row."""
    return 2 * target.vector_bytes


def sums(target: Target, kinds: TermsKey) -> str:
    """The kernel that computes the sums of `count` columns, beginning at `first`; arguments: ARGUMENTS."""
    return _Direct(target, kinds).text()


class _Direct(Terms):
    def text(self) -> str:
        body, rows = self.body, self.kinds.rows
        ARGUMENTS.load(body)
        self.values = body.op(f"alloca [{self.kinds.at_once * rows} x double], align 64")
        self.all = body.op(f"alloca [{self.kinds.at_once * TERM} x i8], align 64")
        self.line = body.op(f"alloca [{self.kinds.at_once * TERM} x i8], align 64")
        if self.masks is not None:
            self.masks.begin()
        note = Note(body)
        total = body.op("mul i64 %channels, %positions")
        none = body.op(f"icmp eq i64 {total}, 0")
        # without terms, the sums are still initialised
        end = body.op(f"add i64 {total}, {body.op(f'zext i1 {none} to i64')}")
        most = self.kinds.at_once
        up = body.op(f"udiv i64 {body.op(f'add i64 {end}, {most - 1}')}, {most}")

        def terms(n: str, _: list[Value]) -> list[Value]:
            first = body.op(f"mul i64 {n}, {most}")
            left = body.op(f"sub i64 {total}, {first}")
            self.count = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {most}')}, i64 {left}, i64 {most}")
            self.begun = body.op(f"icmp ne i64 {n}, 0")
            body.loop("0", self.count, 1, [], lambda t, _: self._term(t, first))
            lines(body, "%first", "%count", ("%n1", "%n2"), self._run)
            return []

        body.loop("0", up, 1, [], terms)
        body.stored(note.rounded().converted("uitofp", Kind("double")), "%counter", BOUND)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _run(self, _: str, done: str, length: str, z: str, y: str, x: str) -> None:
        """The columns of a run."""
        body = self.body
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %s0')}, {body.op(f'mul i64 {y}, %s1')}")
        base = body.at("%b", body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s2')}"))
        if self.masks is None:
            self._columns(base, done, length, *self._counting(z, y, x, length))
            return
        inside = self.masks.fits("%n2")
        for condition in (
            f"icmp eq i64 {length}, %n2",  # a whole line
            f"icmp eq i64 {self.count}, {self.kinds.at_once}",
            *(f"icmp sge i64 {value}, %from{k}" for k, value in enumerate((z, y))),
            *(f"icmp slt i64 {value}, %end{k}" for k, value in enumerate((z, y))),
        ):
            inside = body.op(f"and i1 {inside}, {body.op(condition)}")
        even, uneven, after = (body.name(x) for x in ("even", "uneven", "after"))
        body.branch(inside, even, uneven)
        body.label(even)
        self._masked_columns(self.masks, base, done, length)
        body.jump(after)
        body.label(uneven)
        self._columns(base, done, length, *self._counting(z, y, x, length))
        body.jump(after)
        body.label(after)

    def _masked_columns(self, masks: Masks, base: str, done: str, length: str) -> None:
        """All columns of a line, with the table of masks."""
        body, lanes, rows = self.body, self.lanes, self.kinds.rows

        def group(i: str, _: list[Value]) -> list[Value]:
            places, starts = self._so_far(done, i)
            g, found = body.op(f"udiv i64 {i}, {lanes}"), starts
            for t in range(self.kinds.at_once):
                from_ = body.at(base, body.load("i64", self.all, t * TERM))
                read, active = masks.of(g, t)
                found = self._more(self.reader.read(from_, i, read), body.at(self.values, 8 * rows * t), found, active)
            for value, place in zip(found, places, strict=True):
                body.stored(value, place)
            return []

        up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")
        body.loop("0", up, lanes, [], group)

    def _columns(self, base: str, done: str, length: str, terms: str, low: str, high: str) -> None:
        """All columns of a run, in groups; the last group may write beyond the run, where the next run's sums follow.

        low, high: for the columns low .. high - 1, all terms count.
        """
        body, lanes = self.body, self.lanes
        up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")

        def group(i: str, _: list[Value]) -> list[Value]:
            self._group(base, done, i, terms, low, high)
            return []

        body.loop("0", up, lanes, [], group)

    def _so_far(self, done: str, i: str) -> tuple[list[str], list[Value]]:
        """The addresses of a group's sums, first of all rows, then of their magnitudes, and the values so far."""
        body, rows = self.body, self.kinds.rows
        wide = Kind("double", self.lanes)
        columns = body.op(f"add i64 {done}, {i}")
        places = []
        for block, size in (("%sums", 8), ("%sizes", 4)):
            offset = body.op(f"mul i64 {columns}, {size}")
            for m in range(rows):
                row = body.op(f"mul i64 %block_row, {m}")
                places.append(body.at(block, body.op(f"add i64 {offset}, {row}")))
        kinds = [wide] * rows + [wide.of("float")] * rows
        return places, [self._start(at, kind, -0.0 if kind is wide else 0.0) for at, kind in zip(places, kinds, strict=True)]

    def _group(self, base: str, done: str, i: str, terms: str, first: str, last: str) -> None:
        """A group of columns, from the i-th of a run on."""
        body, lanes, rows = self.body, self.lanes, self.kinds.rows
        end = body.op(f"add i64 {i}, {lanes}")
        places, starts = self._so_far(done, i)

        def term(t: str, carried: list[Value]) -> list[Value]:
            record = body.at(self.line, body.op(f"mul i64 {t}, {TERM}"))
            low, high = body.load("i64", record, 16), body.load("i64", record, 24)
            covers = body.op(f"and i1 {body.op(f'icmp sle i64 {low}, {i}')}, {body.op(f'icmp sge i64 {high}, {end}')}")
            from_ = body.at(base, body.load("i64", record))
            values = body.at(self.values, body.load("i64", record, 8))
            return body.either(
                covers,
                lambda: self._added(from_, i, values, carried, None),
                lambda: self._added(from_, i, values, carried, (low, high)),
            )

        def at_once() -> list[Value]:
            found = starts
            for t in range(self.kinds.at_once):
                from_ = body.at(base, body.load("i64", self.line, t * TERM))
                found = self._added(from_, i, body.at(self.values, 8 * rows * t), found, None)
            return found

        covers = body.op(f"and i1 {body.op(f'icmp sge i64 {i}, {first}')}, {body.op(f'icmp sle i64 {end}, {last}')}")
        made = body.either(covers, at_once, lambda: body.loop("0", terms, 1, starts, term)[1])
        for value, place in zip(made, places, strict=True):
            body.stored(value, place)

    def _added(self, from_: str, i: str, values: str, carried: list[Value], range_: tuple[str, str] | None) -> list[Value]:
        """The sums of a group with one more term; range_: the columns for which it counts, by default all."""
        body, lanes = self.body, self.lanes
        active = None
        if range_ is not None:
            low, high = (
                body.splat(Value(body, body.op(f"trunc i64 {body.op(f'sub i64 {x}, {i}')} to i32"), Kind("i32")), lanes)
                for x in range_
            )
            active = self.iota.compared("sge", low) & self.iota.compared("slt", high)
        bits = self.reader.read(from_, i, None if active is None else self.reader.to_read(active))
        return self._more(bits, values, carried, active)

    def _more(self, bits: Value, values: str, carried: list[Value], active: Value | None) -> list[Value]:
        """The sums with one more term. bits: the term's elements; active: the lanes for which it counts, by default all."""
        body, lanes, rows = self.body, self.lanes, self.kinds.rows
        x = single(bits, self.kinds.b)
        wide, size = x.converted("fpext", x.kind.of("double")), x.magnitude()
        totals, sizes = [], []
        for m in range(rows):
            a = body.loaded(Kind("double"), values, 8 * m)
            of_a = a.magnitude().converted("fptrunc", Kind("float"))
            totals.append(body.fused(body.splat(a, lanes), wide, carried[m]))
            sizes.append(body.fused(body.splat(of_a, lanes), size, carried[rows + m]))
        if active is None:
            return totals + sizes
        return [body.chosen(active, new, old) for new, old in zip(totals + sizes, carried, strict=True)]

    def _start(self, place: str, wide: Kind, start: float) -> Value:
        """The sums so far, loaded from `place`; the constant `start` before the first terms."""
        body = self.body
        return body.either(self.begun, lambda: [body.loaded(wide, place)], lambda: [body.constant(wide, start)])[0]
