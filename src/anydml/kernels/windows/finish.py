"""The last part of the kernel of windows: lines are united, and results are stored or listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from anydml.kernels.code.emit import when
from anydml.kernels.code.gather import gathered
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.match.windows import LENGTH, MAX, MEAN
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.kernels.undecided.state import OWN
from anydml.kernels.windows import results
from anydml.kernels.windows.counts import within
from anydml.kernels.windows.key import WindowsKey
from anydml.kernels.windows.kinds import Reduction, Total
from anydml.kernels.windows.lines import Lines
from anydml.tensor import DataType

WORD = Kind("i64")


class Met(NamedTuple):
    """The input lines of the windows of an output line. terms: their number; counted: the number of lines that a mean counts.

    offset: the place of the t-th of them in scratch; place: the position of its first element; row: its address in the input.
    """

    terms: Value
    counted: Value
    offset: Callable[[Value], Value]
    place: Callable[[Value], Value]
    row: Callable[[Value], str]


class Finish:
    """The results of output lines. row: the number of the current output line. parameters: the addresses of its scales and zero
    points."""

    def __init__(self, body: Body, key: WindowsKey, kind: Reduction, lines: Lines) -> None:
        self.body, self.key, self.kind, self.lines = body, key, kind, lines
        self.row = body.constant(WORD, 0)
        self.list = UndecidedList(body)
        self.parameters: dict[int, str] = {}
        self.inverted = ""  # the address of the `line_code` for which `inverses` are stored

    def begin(self) -> None:
        """Store for each element of a line the number of elements that its window has along the line."""
        body, key = self.body, self.key
        if key.divides:
            self.inverted = body.at("%state", 8 * OWN)
            body.store("i64", "-1", self.inverted)
        if key.kind == MAX and key.indices is None:
            return
        size, stride, window, dilation, start, limit = (
            Value(body, f"%{name}", WORD) for name in ("n", "stride", "window", "dilation", "start", "limit")
        )

        def one(i: str, _: list[Value]) -> list[Value]:
            o = Value(body, i, WORD)
            r = within(body, o, size, stride, window, dilation, start, limit, padded=key.padded, dense=False)
            for name, value in (("counts", r.terms), ("divisors", r.counted)):
                body.stored(value.converted("trunc", Kind("i32")), body.at(f"%{name}", (o * 4).name))
            return []

        body.loop("0", "%m", 1, [], one)

    def line(self, met: Met, out: list[str]) -> None:
        """Unite the input lines of an output line, and store the results."""
        body, few = self.body, self.key.lines
        if self.key.divides:
            self.invert(met)
        if few <= 1:
            self._line(met, None, out)
            return
        usual = met.terms.compared("eq", few)
        if self.key.divides:
            assert isinstance(self.kind, Total)
            usual = usual & self.kind.close
        when(body, usual.name, lambda: self._line(met, few, out))
        when(body, (~usual).name, lambda: self._line(met, None, out))

    def _line(self, met: Met, few: int | None, out: list[str]) -> None:
        """Unite lines. few: the number of lines, where it is known and sums have at most 47 bits."""
        body, key = self.body, self.key
        known = [self._one(met, body.constant(WORD, t)) for t in range(few or 1)]

        def group(i: Value, _: list[Value]) -> list[Value]:
            made = self._with(known[0], i)
            for one in known[1:]:
                made = self.kind.across(made, self._with(one, i))
            if few is None:

                def one_more(t: str, values: list[Value]) -> list[Value]:
                    return self.kind.across(values, self._with(self._one(met, Value(body, t, WORD)), i))

                made = body.loop("1", met.terms.name, 1, made, one_more)[1]
            self.finished(met, made, i, out, close=few is not None)
            return []

        self.lines.groups("%m", key.lanes, [], group)

    def _one(self, met: Met, t: Value) -> tuple[Value, Value]:
        """The offset of the t-th line, and the position of its first element."""
        offset = met.offset(t)
        return offset, met.place(t) if self.key.indices is not None else offset

    def _with(self, line: tuple[Value, Value], i: Value) -> list[Value]:
        offset, place = line
        parts = self.lines.load(offset + i)
        if self.key.indices is not None:
            kind = parts[-1].kind
            parts[-1] = parts[-1] + self.body.splat(place.converted("trunc", Kind(kind.element)), kind.lanes)
        return parts

    def _count(self, name: str, times: Value, i: Value, lanes: int) -> Value:
        """The number of elements of each window of a group: its elements along the line, times the number of lines."""
        body = self.body
        found = body.loaded(Kind("i32", lanes), body.at(f"%{name}", (i * 4).name))
        return found * body.splat(times.converted("trunc", Kind("i32")), lanes)

    def invert(self, met: Met) -> None:
        """Store the divisors of sums and their inverses, if they differ from those of the line before."""
        body, lanes = self.body, self.key.lanes
        code = self.line_code(met.counted, met.terms)
        known = body.op(f"icmp eq i64 {body.load('i64', self.inverted)}, {code.name}")

        def group(i: Value, _: list[Value]) -> list[Value]:
            for name, value in zip(("numbers", "inverses"), self.noted(met, i, lanes), strict=True):
                body.stored(value, body.at(f"%{name}", (i * (value.kind.bits // 8)).name))
            return []

        def anew() -> None:
            body.store("i64", code.name, self.inverted)
            self.lines.groups("%m", lanes, [], group)

        when(body, body.op(f"xor i1 {known}, true"), anew)

    def inverted_for(self, counted: int) -> Value:
        """Whether the stored inverses are those of lines with `counted` lines."""
        body = self.body
        lines = body.constant(WORD, counted)
        code = self.line_code(lines, lines)
        return Value(body, body.op(f"icmp eq i64 {body.load('i64', self.inverted)}, {code.name}"), Kind("i1"))

    def line_code(self, counted: Value, terms: Value) -> Value:
        """A number that identifies the inverses of a line: the counted lines, and whether there are none."""
        return counted * 2 + Value(self.body, self.body.op(f"zext i1 {terms.compared('eq', 0).name} to i64"), WORD)

    def noted(self, met: Met, i: Value, lanes: int) -> tuple[Value, Value]:
        """The divisors of a group and their inverses; the divisor is -1 for a window without elements, whose sum is -0."""
        number = results.number_of(self._count("divisors", met.counted, i, lanes))
        none = self._count("counts", met.terms, i, lanes).compared("eq", 0)
        number = self.body.chosen(none, -1.0, number)
        return number, 1.0 / number

    def finished(self, met: Met, parts: list[Value], i: Value, out: list[str], *, close: bool) -> None:
        """Store the results of a group of windows from their reduced elements. close: see `results.mean`."""
        body, key = self.body, self.key
        lanes = key.lanes
        if key.kind == MAX:
            values = parts[: len(self.kind.raw)]
            self._store(values[-1].bits() if values[-1].kind.floating else values[-1], i, out[0], 1)
            if key.indices is not None:
                none = self._count("counts", met.terms, i, lanes).compared("eq", 0)
                self._store(body.chosen(none, 0, parts[-1]), i, out[1], 2)
            return
        if key.kind == MEAN:
            kind, at = parts[0].kind, (i * 8).name
            number, inverse = (body.loaded(kind, body.at(f"%{name}", at)) for name in ("numbers", "inverses"))
            self._store(results.mean(key, parts[0], number, inverse, close=close), i, out[0], 1)
            return
        terms = self._count("counts", met.terms, i, lanes)
        divisors = self._count("divisors", met.counted, i, lanes)
        made, undecided = results.line(key, parts[0], terms, divisors, self._parameters(i))
        self._store(made, i, out[0], 1)
        if undecided is not None:
            undecided = left_by_first_stage(undecided)
            if key.kind == LENGTH:
                self._any(undecided, lambda: self._ties(met, parts[0], made, undecided, i, out))
            else:
                self._note(undecided, i)

    def _parameters(self, i: Value) -> list[Value | None]:
        """The scales and zero points of a group."""
        body, key = self.body, self.key
        found: list[Value | None] = []
        for q, there in enumerate(key.parameters):
            if not there:
                found.append(None)
                continue
            element = Kind("float") if q in (0, 2) else Kind("i8")
            if key.slides:  # the line has one channel
                vector = body.splat(body.loaded(element, self.parameters[q]), key.lanes)
            else:
                at = body.at(self.parameters[q], (i * Value(body, f"%gs{q}", WORD)).name)
                vector = body.undefined(Kind(element.element, key.lanes))
                for lane in range(key.lanes):
                    vector = vector.replaced(lane, body.loaded(element, at))
                    at = body.at(at, f"%gs{q}")
            if q not in (0, 2):
                signed = key.types[0 if q == 1 else 1].dtype.kind == "i"
                vector = vector.converted("sext" if signed else "zext", vector.kind.of("i32"))
            found.append(vector)
        return found

    def _store(self, made: Value, i: Value, line: str, which: int) -> None:
        """Store a group of results; which: the output, 1 or 2."""
        body, size = self.body, made.kind.bits // 8
        if self.key.contiguous[which]:
            body.stored(made, body.at(line, (i * size).name))
            return
        stride = "%ys" if which == 1 else "%zs"
        at = body.at(line, (i * Value(body, stride, WORD)).name)
        for lane in range(made.kind.lanes):
            body.stored(made.lane(lane), at)
            at = body.at(at, stride)

    # --- undecided elements ---

    def _note(self, undecided: Value, i: Value) -> None:
        """List the undecided lanes of a group."""
        body, row = self.body, self.row.name

        def put(lane: str) -> None:
            self.list.append(row, (i + Value(body, lane, WORD)).name)

        each_bit(body, lanes_as_bits(undecided), put, seldom=True)

    # --- sums with the errors of additions, and roots next to ties ---

    def careful(self, met: Met, out: list[str]) -> None:
        """Compute a line of sums together with the rounding error of each addition."""

        def group(i: Value, _: list[Value]) -> list[Value]:
            self._closely(met, i, out)
            return []

        self.lines.groups("%m", self.key.lanes, [], group)

    def _closely(self, met: Met, i: Value, out: list[str]) -> None:
        """Compute a group of results of a line, from sums with the rounding error of each addition."""
        body, key, kind, lanes = self.body, self.key, self.kind, self.key.lanes
        assert isinstance(kind, Total)
        neutral, zero = (body.constant(Kind("double", lanes), x) for x in (kind.neutral[0], 0.0))

        def line(t: str, values: list[Value]) -> list[Value]:
            count = body.constant(WORD, 0)
            for end, element in self._elements(met, Value(body, t, WORD), i, neutral):

                def term(k: str, values: list[Value], element: Callable[[Value], Value] = element) -> list[Value]:
                    return _added(values, element(Value(body, k, WORD)))

                values = body.loop(count.name, end.name, 1, values, term)[1]
                count = end
            return values

        total, left, lost = body.loop("0", met.terms.name, 1, [neutral, zero, zero], line)[1]
        total = body.chosen(self._count("counts", met.terms, i, lanes).compared("eq", 0), 0.0, total)
        made, undecided = results.careful(key, total, left, lost, self._count("divisors", met.counted, i, lanes))
        self._store(made, i, out[0], 1)
        self._note(left_by_second_stage(undecided), i)

    def _ties(self, met: Met, total: Value, made: Value, undecided: Value, i: Value, out: list[str]) -> None:
        """Decide a group of lengths next to ties: most are ties, of exact sums."""
        body = self.body
        if self.key.types[0] == DataType.FLOAT16 and not body.target.exact:
            # squares are multiples of 2^-48, and so are their sums, of which those below 2^5 have 53 bits
            known = total.compared("olt", 32.0)
            root, unknown = results.root(self.key, total, total.lift(0.0), total.lift(0.0))
            self._store(body.chosen(undecided & known, root, made), i, out[0], 1)
            undecided = undecided & (~known | unknown)
        self._any(undecided, lambda: self._closely(met, i, out))

    def _any(self, lanes: Value, do: Callable[[], None]) -> None:
        """Emit `do` for the case that some lane of a mask is set."""
        when(self.body, self.body.op(f"icmp ne i64 {lanes_as_bits(lanes)}, 0"), do)

    def _elements(self, met: Met, t: Value, i: Value, neutral: Value) -> Iterator[tuple[Value, Callable[[Value], Value]]]:
        """The k-th elements of a group of windows in their t-th line: pairs of an end and a function for each k before it."""
        body, key, lines, lanes = self.body, self.key, self.lines, self.key.lanes
        names = ("n", "stride", "dilation", "start", "window", "xs")
        size, stride, dilation, start, window, step = (Value(body, f"%{name}", WORD) for name in names)
        if not key.slides:
            yield body.constant(WORD, 1), lambda _: lines.load(met.offset(t) + i)[0]
            return
        if not key.down:  # the line is kept
            kept = Value(body, body.op(f"udiv i64 {met.offset(t).name}, %pitch"), WORD) * Value(body, "%length", WORD)
            yield window, lambda k: lines.windowed(kept, i, k)[0]
            return
        row, first = met.row(t), i * stride - start
        # where all windows are inside, one load reads the elements
        inside = first.compared("sge", 0) & (first + window + (key.step * lanes - 1)).compared("sle", size)
        mask = ", ".join(f"i32 {key.step * lane}" for lane in range(lanes))

        def beside(k: Value) -> Value:
            both = lines.bits(row, first + k, key.step * lanes)
            kind = both.kind._replace(lanes=lanes)
            picked = f"shufflevector {both!r}, {both.kind.text} poison, <{lanes} x i32> <{mask}>"
            return self.kind.read(body.value(picked, kind))[0]

        yield body.chosen(inside, window, 0), beside
        places = body.splat(first, lanes) + body.constants("i64", range(lanes)) * body.splat(stride, lanes)

        def apart(k: Value) -> Value:
            at = places + body.splat(k * dilation, lanes)
            there = at.compared("ult", body.splat(size, lanes))
            offsets = body.chosen(there, at, 0) * body.splat(step, lanes)
            bits = gathered(body, Kind(f"i{8 * lines.itemsize}"), row, offsets)
            return body.chosen(there, self.kind.read(bits)[0], neutral)

        yield window, apart


def _added(values: list[Value], x: Value) -> list[Value]:
    total, left, lost = values
    total, more = two_sum(total, x)
    left, rest = two_sum(left, more)
    return [total, left, lost + rest.magnitude()]
