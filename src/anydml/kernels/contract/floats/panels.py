"""The factor of columns, packed: float32, panel by panel, term by term, with zeros where there is no term.

Columns lie in runs: those of one line of the innermost dimension. A line is never read but where a term counts.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.lines import lines
from anydml.kernels.contract.floats.rows import NORM_SLACK
from anydml.kernels.contract.floats.tile import LINE
from anydml.kernels.copy.text import prefetch
from anydml.kernels.elementwise import halves
from anydml.tensor import DataType

# the last ones: the columns for which all terms count, from .. to before .. in each dimension
ARGUMENTS = (
    "b", "first", "count", "n1", "n2", "s0", "s1", "s2", "channels", "term", "positions", "table", "into", "panel", "norms",
    "from0", "end0", "from1", "end1", "from2", "end2",
)  # fmt: skip
POINTERS = {"b", "table", "into", "norms"}
RUN = 40  # bytes of a run: where it begins in the panel, its length, its place in the outer dimensions and its first column


def packed(target: Target, data_type: DataType, across: int, step: int, padded: bool) -> str:
    """Pack panels of so many vectors of float64; arguments: ARGUMENTS.

    first: the first column; count: so many, the last panel perhaps in part. panel: bytes from one panel to the next. norms: of
    each column, the root of the sum of squares, rounded up; negative where terms do not count. step: elements from one of a run
    to the next, 1 or 2, or 0 for any number. padded: whether there are such columns.
    """
    return Panels(target, data_type, across, step, padded).text()


class Panels:
    def __init__(self, target: Target, data_type: DataType, across: int, step: int, padded: bool) -> None:
        self.body, self.target = Body(target), target
        self.data_type, self.step, self.padded = data_type, step, padded
        self.wide = target.vector_bytes // 8  # float64 of a vector
        self.width, self.across = across * self.wide, across
        # that are stored at once: of each other element, a vector that is read has half as many
        self.lanes = target.vector_bytes // 4 // max(step, 1)
        self.places = [n // max(step, 1) for n in range(self.lanes * max(step, 1))]

    def text(self) -> str:
        body, width = self.body, self.width
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        arguments(body, ARGUMENTS, POINTERS)
        self.runs = body.op(f"alloca [{RUN * width} x i8], align 64")
        up = body.op(f"add i64 %count, {width - 1}")

        def panel(p: str, _: list[Value]) -> list[Value]:
            done = body.op(f"mul i64 {p}, {width}")
            left = body.op(f"sub i64 %count, {done}")
            columns = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {width}')}, i64 {left}, i64 {width}")
            norms = body.at("%norms", body.op(f"mul i64 {done}, 8"))
            into = body.at("%into", body.op(f"mul i64 {p}, %panel"))
            count = self._cut(body.op(f"add i64 %first, {done}"), columns, norms)
            if not self.step:
                self._fill(into, count)
                self._measure(into, norms)
                return []
            self.one = body.op(f"and i1 {body.op(f'icmp eq i64 {count}, 1')}, {body.op(f'icmp eq i64 {columns}, {width}')}")
            straight = body.op(f"and i1 {self.one}, {str(not self.padded and self.step == 1).lower()}")
            when(body, straight, lambda: self._copy(into, norms))

            def others() -> None:
                self._fill(into, count)
                self._measure(into, norms)

            when(body, body.op(f"xor i1 {straight}, true"), others)
            return []

        body.loop("0", body.op(f"udiv i64 {up}, {width}"), 1, [], panel)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _cut(self, first: str, columns: str, norms: str) -> str:
        """Write down the runs of a panel, and the signs of its norms; how many runs there are."""
        body = self.body

        def run(n: str, done: str, length: str, z: str, y: str, x: str) -> None:
            record = body.at(self.runs, body.op(f"mul i64 {n}, {RUN}"))
            for k, value in enumerate((done, length, z, y, x)):
                body.store("i64", value, record, 8 * k)
            if self.padded:
                self._flag(body.at(norms, body.op(f"mul i64 {done}, 8")), length, z, y, x)

        return lines(body, first, columns, ("%n1", "%n2"), run)

    def _flag(self, norms: str, length: str, z: str, y: str, x: str) -> None:
        """1 for the columns of a run for which all terms count, -1 for the others."""
        body = self.body

        def all_count(value: str, k: int) -> str:
            above = body.op(f"icmp sge i64 {value}, %from{k}")
            return body.op(f"and i1 {above}, {body.op(f'icmp slt i64 {value}, %end{k}')}")

        outer = body.op(f"and i1 {all_count(z, 0)}, {all_count(y, 1)}")

        def one(i: str, _: list[Value]) -> list[Value]:
            inside = body.op(f"and i1 {outer}, {all_count(body.op(f'add i64 {x}, {i}'), 2)}")
            flag = body.op(f"select i1 {inside}, double 1.0, double -1.0")
            body.store("double", flag, norms, body.op(f"mul i64 {i}, 8"))
            return []

        body.loop("0", length, 1, [], one)

    def _terms(self, into: str, carried: list[Value], term: Callable[[str, str, str, list[Value]], list[Value]]) -> list[Value]:
        """`term` for each of them: its entry, where the tensor's elements of it lie from, and where they go."""
        body = self.body

        def channel(c: str, carried: list[Value]) -> list[Value]:
            base = body.at("%b", body.op(f"mul i64 {c}, %term"))

            def position(p: str, inner: list[Value]) -> list[Value]:
                entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
                made = term(entry, body.at(base, body.load("i64", entry)), body.at(into, inner[0].name), inner[1:])
                return [inner[0] + self.width * 4, *made]

            return body.loop("0", "%positions", 1, carried, position)[1]

        return body.loop("0", "%channels", 1, [body.constant(Kind("i64"), 0), *carried], channel)[1][1:]

    def _copy(self, into: str, norms: str) -> None:
        """A panel of one run, all of whose terms count; its columns' norms are made with it."""
        body, wide = self.body, Kind("double", self.wide)
        row = self.width * self.data_type.dtype.itemsize
        offset = self._offset(*(body.load("i64", self.runs, 8 * k) for k in range(2, 5)))

        def term(_: str, from_: str, to: str, squares: list[Value]) -> list[Value]:
            from_ = body.at(from_, offset)
            for place in range(row, 2 * row, LINE):  # what the next panel has of it
                prefetch(body, 2, from_, place)
            xs = [single.converted("fpext", wide) for single in self._straight(from_, to)]
            return [body.fused(x, x, square) for x, square in zip(xs, squares, strict=True)]

        squares = self._terms(into, [body.constant(wide, 0.0)] * self.across, term)
        for n, square in enumerate(squares):
            body.stored(square.root() * NORM_SLACK, norms, 8 * self.wide * n)

    def _straight(self, from_: str, to: str) -> list[Value]:
        """The elements of a panel's row, which lie side by side or are every second one, from one place to another."""
        body, size = self.body, self.data_type.dtype.itemsize
        kind = Kind(f"i{8 * size}", self.wide)

        def read(n: int) -> Value:
            place = size * self.wide * n * self.step
            if self.step == 1:
                return body.loaded(kind, from_, place)
            active = body.constants("i1", [k % 2 == 0 for k in range(2 * self.wide)])  # the last one may be behind the tensor
            return self._every_second(self._masked(Kind(kind.element, 2 * self.wide), body.at(from_, place), active))

        singles = [self._single(read(n)) for n in range(self.across)]
        for n, single in enumerate(singles):
            body.stored(single, to, 4 * self.wide * n)
        return singles

    def _ahead(self, from_: str) -> None:
        """Fetch what the next line's columns read in the places of these."""
        next_ = self.body.at(from_, "%s1")
        for place in range(0, self.width * self.step * self.data_type.dtype.itemsize, LINE):
            prefetch(self.body, 2, next_, place)

    def _every_second(self, bits: Value) -> Value:
        order, lanes = ", ".join(f"i32 {n}" for n in range(0, bits.kind.lanes, 2)), bits.kind.lanes // 2
        text = f"shufflevector {bits!r}, {bits!r}, <{lanes} x i32> <{order}>"
        return self.body.value(text, Kind(bits.kind.element, lanes))

    def _single(self, bits: Value) -> Value:
        return halves.widened(bits) if self.data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))

    def _offset(self, z: str, y: str, x: str) -> str:
        body = self.body
        offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %s0')}, {body.op(f'mul i64 {y}, %s1')}")
        return body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s2')}")

    def _fill(self, into: str, runs: str) -> None:
        body = self.body

        def term(entry: str, from_: str, to: str, _: list[Value]) -> list[Value]:
            def run(n: str, _: list[Value]) -> list[Value]:
                self._run(body.at(self.runs, body.op(f"mul i64 {n}, {RUN}")), entry, from_, to)
                return []

            body.loop("0", runs, 1, [], run)
            return []

        self._terms(into, [], term)

    def _run(self, record: str, entry: str, from_: str, to: str) -> None:
        """The elements of a run for one term; in vectors, so that zeros, or what the next run writes over, follow."""
        body, lanes, size = self.body, self.lanes, self.data_type.dtype.itemsize
        done, length, z, y, x = (body.load("i64", record, 8 * k) for k in range(5))
        start, end = "0", length
        if self.padded:
            inside = []
            for k, value in ((0, z), (1, y)):
                low, high = body.load("i64", entry, 16 + 16 * k), body.load("i64", entry, 24 + 16 * k)
                inside.append(body.op(f"icmp sge i64 {value}, {low}"))
                inside.append(body.op(f"icmp slt i64 {value}, {high}"))
            all_ = inside[0]
            for condition in inside[1:]:
                all_ = body.op(f"and i1 {all_}, {condition}")
            low, high = (body.op(f"sub i64 {body.load('i64', entry, at)}, {x}") for at in (48, 56))
            start, high = (body.call("llvm.smax.i64", Kind("i64"), f"i64 {x}", "i64 0").name for x in (low, high))
            start, high = (body.call("llvm.smin.i64", Kind("i64"), f"i64 {x}", f"i64 {length}").name for x in (start, high))
            end = body.op(f"select i1 {all_}, i64 {high}, i64 0")
        from_ = body.at(from_, self._offset(z, y, x))
        to = body.at(to, body.op(f"mul i64 {done}, 4"))
        kind, many = Kind(f"i{8 * size}", lanes), len(self.places)

        def group(i: str, _: list[Value]) -> list[Value]:
            numbers = body.constants("i32", self.places)

            def beside(bound: str) -> Value:
                short = body.op(f"trunc i64 {body.op(f'sub i64 {bound}, {i}')} to i32")
                return body.splat(Value(body, short, Kind("i32")), many)

            active = numbers.compared("slt", beside(end))
            if self.padded:
                active = active & numbers.compared("sge", beside(start))
            if self.step:
                place = body.at(from_, body.op(f"mul i64 {i}, {size * self.step}"))
                if self.step > 1:
                    active = active & body.constants("i1", [n % self.step == 0 for n in range(many)])
                bits = self._masked(Kind(kind.element, many), place, active)
                if self.step > 1:
                    bits = self._every_second(bits)
            else:
                at = body.splat(Value(body, i, Kind("i64")), many) + body.constants("i64", self.places)
                bits = self._gathered(kind, from_, at, active)
            body.stored(self._single(bits), to, body.op(f"mul i64 {i}, 4"))
            return []

        # the last group may be a part: it is counted up to whole ones
        up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")
        if self.step and (self.padded or self.step > 1):  # the whole panel, all of which counts, is copied as it lies
            self._ahead(from_)
            all_ = body.op(f"and i1 {self.one}, {body.op(f'icmp eq i64 {start}, 0')}")
            all_ = body.op(f"and i1 {all_}, {body.op(f'icmp eq i64 {end}, {self.width}')}")

            def straight() -> None:
                self._straight(from_, to)

            when(body, all_, straight)
            up = body.op(f"select i1 {all_}, i64 0, i64 {up}")
        body.loop("0", up, lanes, [], group)

    def _masked(self, kind: Kind, place: str, active: Value) -> Value:
        body = self.body
        name = f"llvm.masked.load.v{kind.lanes}{kind.element}.p0"
        body.declared[f"declare {kind.text} @{name}(ptr, i32, <{kind.lanes} x i1>, {kind.text})"] = None
        call = f"call {kind.text} @{name}(ptr {place}, i32 1, {active!r}, {kind.text} zeroinitializer)"
        return body.value(call, kind)

    def _gathered(self, kind: Kind, from_: str, at: Value, active: Value) -> Value:
        body = self.body
        offsets = at * body.splat(Value(body, "%s2", Kind("i64")), kind.lanes)
        places = body.op(f"getelementptr i8, ptr {from_}, {offsets!r}")
        name = f"llvm.masked.gather.v{kind.lanes}{kind.element}.v{kind.lanes}p0"
        pointers = f"<{kind.lanes} x ptr>"
        body.declared[f"declare {kind.text} @{name}({pointers}, i32, <{kind.lanes} x i1>, {kind.text})"] = None
        call = f"call {kind.text} @{name}({pointers} {places}, i32 1, {active!r}, {kind.text} zeroinitializer)"
        return body.value(call, kind)

    def _measure(self, panel: str, norms: str) -> None:
        """The norms of a panel's columns, with the signs that are there."""
        body, wide = self.body, Kind("double", self.wide)
        terms = body.op("mul i64 %channels, %positions")

        def step(k: str, squares: list[Value]) -> list[Value]:
            at = body.at(panel, body.op(f"mul i64 {k}, {4 * self.width}"))
            found = []
            for n, square in enumerate(squares):
                x = body.loaded(wide.of("float"), at, 4 * self.wide * n).converted("fpext", wide)
                found.append(body.fused(x, x, square))
            return found

        _, squares = body.loop("0", terms, 1, [body.constant(wide, 0.0)] * self.across, step)
        for n, square in enumerate(squares):
            made = square.root() * NORM_SLACK
            if self.padded:
                made = made.signed_as(body.loaded(wide, norms, 8 * self.wide * n))
            body.stored(made, norms, 8 * self.wide * n)
