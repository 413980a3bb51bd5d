"""The lines that windows meet, taken together, and the results of that: stored, or put on the list."""

from __future__ import annotations

from anydml.kernels.code.emit import when
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.functions.pairs import two_sum
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.match.windows import MAX, SUM
from anydml.kernels.windows import results
from anydml.kernels.windows.counts import within
from anydml.kernels.windows.kinds import Reduction, Total
from anydml.kernels.windows.lines import Lines
from anydml.kernels.windows.shape import Shape

WORD = Kind("i64")


class Finish:
    """row: the number of the line of the output that the kernel is at. terms: for it, the elements that lie in the input
    of those dimensions that lines lie across; divisor: those that a mean counts. parameters: where the line's scales and
    zero points begin."""

    def __init__(self, body: Body, shape: Shape, kind: Reduction, lines: Lines) -> None:
        self.body, self.shape, self.kind, self.lines = body, shape, kind, lines
        self.row = self.terms = self.divisor = body.constant(WORD, 0)
        self.parameters: dict[int, str] = {}

    def begin(self) -> None:
        """Note for each element of a line how many elements of the input its window has along the line."""
        body, shape = self.body, self.shape
        if shape.kind == MAX and shape.indices is None:
            return
        size, stride, window, dilation, start, limit = (
            Value(body, f"%{name}", WORD) for name in ("n", "stride", "window", "dilation", "start", "limit")
        )

        def one(i: str, _: list[Value]) -> list[Value]:
            o = Value(body, i, WORD)
            r = within(body, o, size, stride, window, dilation, start, limit, padded=shape.padded)
            for name, value in (("counts", r.count), ("divisors", r.counted)):
                body.stored(value.converted("trunc", Kind("i32")), body.at(f"%{name}", (o * 4).name))
            return []

        body.loop("0", "%m", 1, [], one)

    def line(self, count: Value, out: list[str]) -> None:
        """Take so many lines together, and store what that comes to."""
        body, few = self.body, self.shape.lines
        if few <= 1:
            self._line(count, None, out)
            return
        usual = count.compared("eq", few)
        when(body, usual.name, lambda: self._line(count, few, out))
        when(body, (~usual).name, lambda: self._line(count, None, out))

    def _line(self, count: Value, few: int | None, out: list[str]) -> None:
        """few: how many lines there are, where that is known."""
        body, shape = self.body, self.shape
        known = {} if few is None else {t: self._met(body.constant(WORD, t)) for t in range(few)}

        def group(i: Value, _: list[Value]) -> list[Value]:
            made = self._with(known.get(0) or self._met(body.constant(WORD, 0)), i)
            if few is not None:
                for t in range(1, few):
                    made = self.kind.across(made, self._with(known[t], i))
            else:

                def one(t: str, values: list[Value]) -> list[Value]:
                    return self.kind.across(values, self._with(self._met(Value(body, t, WORD)), i))

                made = body.loop("1", count.name, 1, made, one)[1]
            self._finished(made, i, out)
            return []

        self.lines.groups("%m", shape.lanes, [], group)

    def _met(self, t: Value) -> tuple[Value, Value]:
        """Where the t-th line that windows meet is kept, and the position of its first element."""
        at = (t * 8).name
        offset = body_word(self.body, "%offsets", at)
        return offset, body_word(self.body, "%positions", at) if self.shape.indices is not None else offset

    def _with(self, met: tuple[Value, Value], i: Value) -> list[Value]:
        offset, place = met
        parts = self.lines.load(offset + i)
        if self.shape.indices is not None:
            kind = parts[-1].kind
            parts[-1] = parts[-1] + self.body.splat(place.converted("trunc", Kind(kind.element)), kind.lanes)
        return parts

    def _count(self, name: str, times: Value, i: Value, lanes: int) -> Value:
        """The elements of each window of a group."""
        body = self.body
        found = body.loaded(Kind("i32", lanes), body.at(f"%{name}", (i * 4).name))
        return found * body.splat(times.converted("trunc", Kind("i32")), lanes)

    def _finished(self, parts: list[Value], i: Value, out: list[str]) -> None:
        body, shape = self.body, self.shape
        lanes = shape.lanes
        if shape.kind == MAX:
            values = parts[: len(self.kind.raw)]
            self._store(values[-1].bits() if values[-1].kind.floating else values[-1], i, out[0], 1)
            if shape.indices is not None:
                none = self._count("counts", self.terms, i, lanes).compared("eq", 0)
                self._store(body.chosen(none, 0, parts[-1]), i, out[1], 2)
            return
        terms = self._count("counts", self.terms, i, lanes)
        divisors = self._count("divisors", self.divisor, i, lanes)
        made, undecided = results.line(shape, parts, terms, divisors, self._parameters(i))
        self._store(made, i, out[0], 1)
        if undecided is not None:
            self._note(undecided, i)

    def _parameters(self, i: Value) -> list[Value | None]:
        """Scales and zero points of a group."""
        body, shape = self.body, self.shape
        found: list[Value | None] = []
        for q, there in enumerate(shape.parameters):
            if not there:
                found.append(None)
                continue
            element = Kind("float") if q in (0, 2) else Kind("i8")
            at = body.at(self.parameters[q], (i * Value(body, f"%gs{q}", WORD)).name)
            vector = body.undefined(Kind(element.element, shape.lanes))
            for lane in range(shape.lanes):
                vector = vector.replaced(lane, body.loaded(element, at))
                at = body.at(at, f"%gs{q}")
            if q not in (0, 2):
                signed = shape.types[0 if q == 1 else 1].dtype.kind == "i"
                vector = vector.converted("sext" if signed else "zext", vector.kind.of("i32"))
            found.append(vector)
        return found

    def _store(self, made: Value, i: Value, line: str, which: int) -> None:
        """Store a group of results; which: the stream, 1 or 2."""
        body, size = self.body, made.kind.bits // 8
        if self.shape.contiguous[which]:
            body.stored(made, body.at(line, (i * size).name))
            return
        stride = "%ys" if which == 1 else "%zs"
        at = body.at(line, (i * Value(body, stride, WORD)).name)
        for lane in range(made.kind.lanes):
            body.stored(made.lane(lane), at)
            at = body.at(at, stride)

    # --- what is left open ---

    def _note(self, undecided: Value, i: Value) -> None:
        """Put the undecided lanes of a group on the list."""
        body = self.body
        bits = lanes_as_bits(undecided)

        def note() -> None:
            def one(lane: str, _: list[Value]) -> list[Value]:
                open_ = body.op(f"and i64 {body.op(f'lshr i64 {bits}, {lane}')}, 1")
                place = i + Value(body, lane, WORD)
                when(body, body.op(f"icmp ne i64 {open_}, 0"), lambda: self._append(place))
                return []

            body.loop("0", str(undecided.kind.lanes), 1, [], one)

        when(body, body.op(f"icmp ne i64 {bits}, 0"), note)

    def _append(self, place: Value) -> None:
        body = self.body
        count = body.load("i64", "%state", 16)
        slot = body.at("%list", body.op(f"mul i64 {count}, 16"))
        body.store("i64", self.row.name, slot)
        body.store("i64", place.name, slot, 8)
        body.store("i64", body.op(f"add i64 {count}, 1"), "%state", 16)

    # --- sums of elements far apart ---

    def careful(self, count: Value, terms: Value, out: list[str]) -> None:
        """A line's sums one by one, with what each addition leaves over."""
        body, shape, kind = self.body, self.shape, self.kind
        assert isinstance(kind, Total)
        names = ("n", "stride", "window", "dilation", "start", "limit")
        size, stride, window, dilation, start, limit = (Value(body, f"%{name}", WORD) for name in names)
        one_lane = Kind("double", 1)
        xs = Value(body, "%xs", WORD)
        # where no line is met, there is none to read
        met = body.chosen(terms.compared("eq", 0), 0, count)

        def element(i: str, _: list[Value]) -> list[Value]:
            o = Value(body, i, WORD)
            r = within(body, o, size, stride, window, dilation, start, limit, padded=shape.padded)

            def line(t: str, values: list[Value]) -> list[Value]:
                row = body.load("ptr", body.at("%rows_at", body.op(f"mul i64 {t}, 8")))

                def term(k: str, values: list[Value]) -> list[Value]:
                    p = r.first + Value(body, k, WORD) * dilation
                    bits = body.loaded(Kind(f"i{8 * self.lines.itemsize}", 1), body.at(row, (p * xs).name))
                    return _added(values, kind.read(bits)[0])

                return body.loop(r.low.name, r.high.name, 1, values, term)[1]

            neutral, zero = (body.constant(one_lane, x) for x in (0.0 if shape.kind == SUM else -0.0, 0.0))
            total, left, lost = body.loop("0", met.name, 1, [neutral, zero, zero], line)[1]
            empty = self._count("counts", self.terms, o, 1).compared("eq", 0)
            total = body.chosen(empty, 0.0, total)
            divisors = self._count("divisors", self.divisor, o, 1)
            made, undecided = results.careful(shape, total, left, lost, divisors)
            self._store(made, o, out[0], 1)
            assert undecided is not None
            self._note(undecided, o)
            return []

        body.loop("0", "%m", 1, [], element)


def _added(values: list[Value], x: Value) -> list[Value]:
    total, left, lost = values
    total, more = two_sum(total, x)
    left, rest = two_sum(left, more)
    return [total, left, lost + rest.magnitude()]


def body_word(body: Body, base: str, at: str) -> Value:
    return body.loaded(WORD, body.at(base, at))
