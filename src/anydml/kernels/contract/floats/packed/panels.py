"""The packing of the factor of columns: float32, panel by panel, term by term, with zeros where a term does not count.

Consecutive columns in one line of the innermost dimension form a run. Only elements whose terms count are read.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.packed.filled import RUN, Filled
from anydml.kernels.contract.floats.packed.lines import lines
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.packed.tile import LINE, leave
from anydml.kernels.copy.text import prefetch
from anydml.tensor import DataType

# from0 .. end2: in each dimension, the half-open range of the columns for which all terms count
INSIDE = ("from0", "end0", "from1", "end1", "from2", "end2")
ARGUMENTS = Signature(
    "*b first count n1 n2 s0 s1 s2 channels term positions *table *into panel *norms *done " + " ".join(INSIDE)
)
STEPS = (1, 2, 4)  # strides of columns, in elements, that are read without gathers


def packed(target: Target, data_type: DataType, across: int, step: int, padded: bool) -> str:
    """The kernel that packs panels of `across` vectors of float64; arguments: ARGUMENTS.

    first, count: the columns; the last panel may be partial. panel: bytes from one panel to the next. norms: the root of the
    sum of squares of each column, rounded up; negative if some terms do not count. step: the stride in elements along a run,
    one of STEPS, or 0 for any stride. done: as in `tile`. padded: whether some terms do not count for some columns.
    """
    return Panels(target, data_type, across, step, padded).text()


class Panels(Filled):
    @property
    def abreast(self) -> int:
        """The number of panels that are copied at once, whose sums of squares fit in the registers."""
        return 4 if self.target.vector_bytes == 64 else 2

    def text(self) -> str:
        body, width = self.body, self.width
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        ARGUMENTS.load(body)
        when(body, body.op(f"icmp ne i64 {body.load('i64', '%done')}, 0"), lambda: leave(body))
        self.runs = body.op(f"alloca [{RUN * width} x i8], align 64")
        self.channel = body.op(f"mul i64 %positions, {4 * width}")  # bytes of a channel's terms in a panel
        up = body.op(f"add i64 %count, {width - 1}")

        def panel(p: str, _: list[Value]) -> list[Value]:
            done = body.op(f"mul i64 {p}, {width}")
            left = body.op(f"sub i64 %count, {done}")
            columns = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {width}')}, i64 {left}, i64 {width}")
            norms = body.at("%norms", body.op(f"mul i64 {done}, 8"))
            into = body.at("%into", body.op(f"mul i64 {p}, %panel"))
            count = self._cut(body.op(f"add i64 %first, {done}"), columns)
            if not self.step:
                self._flags(count, norms)
                self._fill(into, count)
                self._measure(into, norms)
                return []
            self.one = body.op(f"and i1 {body.op(f'icmp eq i64 {count}, 1')}, {body.op(f'icmp eq i64 {columns}, {width}')}")
            straight = body.op(f"and i1 {self.one}, {self._all_count(width)}")
            when(body, straight, lambda: self._copy(into, norms))

            def others() -> None:
                self._flags(count, norms)
                self._fill(into, count)
                self._measure(into, norms)

            when(body, body.op(f"xor i1 {straight}, true"), others)
            return []

        panels = body.op(f"udiv i64 {up}, {width}")
        if self.step:
            self._in_groups(panels, panel)
        else:
            body.loop("0", panels, 1, [], panel)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _in_groups(self, panels: str, panel: Callable[[str, list[Value]], list[Value]]) -> None:
        """Copy several panels of one run at a time, so that fewer passes over a line of the tensor are needed."""
        body, many = self.body, self.abreast * self.width

        def group(g: str, _: list[Value]) -> list[Value]:
            done = body.op(f"mul i64 {g}, {many}")
            x = body.op(f"urem i64 {body.op(f'add i64 %first, {done}')}, %n2")
            in_run = body.op(f"icmp ule i64 {body.op(f'add i64 {x}, {many}')}, %n2")
            whole = body.op(f"icmp ule i64 {body.op(f'add i64 {done}, {many}')}, %count")
            possible = body.op(f"and i1 {in_run}, {whole}")
            first = body.op(f"mul i64 {g}, {self.abreast}")
            (straight,) = body.either(possible, lambda: self._counting(done, many), lambda: [body.constant(Kind("i1"), False)])

            def together() -> None:
                into = body.at("%into", body.op(f"mul i64 {first}, %panel"))
                self._copy(into, body.at("%norms", body.op(f"mul i64 {done}, 8")), self.abreast)

            when(body, straight.name, together)
            end = body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {first}, {self.abreast}')}", f"i64 {panels}")
            body.loop(first, body.op(f"select i1 {straight.name}, i64 {first}, i64 {end.name}"), 1, [], panel)
            return []

        up = body.op(f"add i64 {panels}, {self.abreast - 1}")
        body.loop("0", body.op(f"udiv i64 {up}, {self.abreast}"), 1, [], group)

    def _counting(self, done: str, many: int) -> list[Value]:
        """Whether all terms count for `many` columns of one run, whose record is written."""
        self._cut(self.body.op(f"add i64 %first, {done}"), str(self.width))
        return [Value(self.body, self._all_count(many), Kind("i1"))]

    def _cut(self, first: str, columns: str) -> str:
        """Write the records of a panel's runs. -> the number of runs"""
        body = self.body

        def run(n: str, done: str, length: str, z: str, y: str, x: str) -> None:
            record = body.at(self.runs, body.op(f"mul i64 {n}, {RUN}"))
            for k, value in enumerate((done, length, z, y, x)):
                body.store("i64", value, record, 8 * k)

        return lines(body, first, columns, ("%n1", "%n2"), run)

    def _all_count(self, many: int) -> str:
        """Whether all terms count for `many` columns from the start of the first run on."""
        if not self.padded:
            return "true"
        body = self.body
        outer, x = self._in_lines(self.runs)
        low = body.op(f"icmp sge i64 {x}, %from2")
        high = body.op(f"icmp sle i64 {body.op(f'add i64 {x}, {many}')}, %end2")
        return body.op(f"and i1 {outer}, {body.op(f'and i1 {low}, {high}')}")

    def _in_lines(self, record: str) -> tuple[str, str]:
        """Whether all terms count for a run's line, apart from its ends; and the place of the run's first column."""
        body = self.body
        z, y, x = (body.load("i64", record, 8 * k) for k in range(2, 5))
        tests = []
        for k, value in enumerate((z, y)):
            tests += [body.op(f"icmp sge i64 {value}, %from{k}"), body.op(f"icmp slt i64 {value}, %end{k}")]
        found = tests[0]
        for test in tests[1:]:
            found = body.op(f"and i1 {found}, {test}")
        return found, x

    def _flags(self, runs: str, norms: str) -> None:
        """Store 1 as the norms of the columns for which all terms count, -1 for the others, run by run, in vectors."""
        if not self.padded:
            return
        body, lanes = self.body, self.wide
        wide = Kind("double", lanes)

        def run(n: str, _: list[Value]) -> list[Value]:
            record = body.at(self.runs, body.op(f"mul i64 {n}, {RUN}"))
            outer, x = self._in_lines(record)
            done, length = (body.load("i64", record, 8 * k) for k in (0, 1))
            from_, end = (body.splat(Value(body, f"%{name}2", Kind("i64")), lanes) for name in ("from", "end"))
            line = body.chosen(
                body.splat(Value(body, outer, Kind("i1")), lanes), body.constant(wide, 1.0), body.constant(wide, -1.0)
            )
            up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")

            def some(i: str, _: list[Value]) -> list[Value]:  # beyond the run, the next one writes its own
                place = Value(body, body.op(f"add i64 {x}, {i}"), Kind("i64"))
                columns = body.splat(place, lanes) + body.constants("i64", range(lanes))
                inside = columns.compared("sge", from_) & columns.compared("slt", end)
                at = body.op(f"mul i64 {body.op(f'add i64 {done}, {i}')}, 8")
                body.stored(body.chosen(inside, line, body.constant(wide, -1.0)), norms, at)
                return []

            body.loop("0", up, lanes, [], some)
            return []

        body.loop("0", runs, 1, [], run)

    def _terms(self, into: str, carried: list[Value], term: Callable[[str, str, str, list[Value]], list[Value]]) -> list[Value]:
        """Call `term` for each term, with its entry of the table, the address of its first element, and the destination."""
        body = self.body

        def channel(c: str, carried: list[Value]) -> list[Value]:
            base = body.at("%b", body.op(f"mul i64 {c}, %term"))

            def position(p: str, inner: list[Value]) -> list[Value]:
                entry = body.at("%table", body.op(f"mul i64 {p}, {8 * ENTRY}"))
                made = term(entry, body.at(base, body.load("i64", entry)), body.at(into, inner[0].name), inner[1:])
                return [inner[0] + self.width * 4, *made]

            return body.loop("0", "%positions", 1, carried, position)[1]

        return body.loop("0", "%channels", 1, [body.constant(Kind("i64"), 0), *carried], channel)[1][1:]

    def _copy(self, into: str, norms: str, panels: int = 1) -> None:
        """Copy panels of one run for which all terms count, and compute their columns' norms."""
        body, wide = self.body, Kind("double", self.wide)
        row = self.width * self.step * self.data_type.dtype.itemsize
        offset = self._offset(*(body.load("i64", self.runs, 8 * k) for k in range(2, 5)))

        def term(_: str, from_: str, to: str, squares: list[Value]) -> list[Value]:
            from_ = body.at(from_, offset)
            for ahead in range(panels * row, 2 * panels * row, LINE):  # the elements of the next panels
                prefetch(body, 2, from_, ahead)
            xs = []
            for n in range(panels):
                place = body.at(to, body.op(f"mul i64 %panel, {n}"))
                xs += [single.converted("fpext", wide) for single in self._straight(body.at(from_, n * row), place)]
            return [body.fused(x, x, square) for x, square in zip(xs, squares, strict=True)]

        squares = self._terms(into, [body.constant(wide, 0.0)] * (self.across * panels), term)
        for n, square in enumerate(squares):
            body.stored(square.root() * NORM_SLACK, norms, 8 * self.wide * n)

    def _measure(self, panel: str, norms: str) -> None:
        """Compute the norms of a panel's columns; keep the signs that are stored in their place."""
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
