"""The packing of the factor of columns: float32, panel by panel, term by term, with zeros where a term does not count.

Consecutive columns in one line of the innermost dimension form a run. Only elements whose terms count are read.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.layout import ENTRY
from anydml.kernels.contract.floats.packed.filled import RUN, Filled
from anydml.kernels.contract.floats.packed.lines import lines
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.floats.packed.tile import LINE
from anydml.kernels.copy.text import prefetch
from anydml.tensor import DataType

# from0 .. end2: in each dimension, the half-open range of the columns for which all terms count
ARGUMENTS = (
    "b", "first", "count", "n1", "n2", "s0", "s1", "s2", "channels", "term", "positions", "table", "into", "panel", "norms",
    "from0", "end0", "from1", "end1", "from2", "end2",
)  # fmt: skip
POINTERS = {"b", "table", "into", "norms"}


def packed(target: Target, data_type: DataType, across: int, step: int, padded: bool) -> str:
    """The kernel that packs panels of `across` vectors of float64; arguments: ARGUMENTS.

    first, count: the columns; the last panel may be partial. panel: bytes from one panel to the next. norms: the root of the
    sum of squares of each column, rounded up; negative if some terms do not count. step: the stride in elements along a run,
    1 or 2, or 0 for any stride. padded: whether some terms do not count for some columns.
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
        arguments(body, ARGUMENTS, POINTERS)
        self.runs = body.op(f"alloca [{RUN * width} x i8], align 64")
        self.channel = body.op(f"mul i64 %positions, {4 * width}")  # bytes of a channel's terms in a panel
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

        panels = body.op(f"udiv i64 {up}, {width}")
        if self.padded or self.step != 1:
            body.loop("0", panels, 1, [], panel)
        else:
            self._in_groups(panels, panel)
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
            straight = body.op(f"and i1 {in_run}, {whole}")
            first = body.op(f"mul i64 {g}, {self.abreast}")

            def together() -> None:
                self._cut(body.op(f"add i64 %first, {done}"), str(self.width), "%norms")
                into = body.at("%into", body.op(f"mul i64 {first}, %panel"))
                self._copy(into, body.at("%norms", body.op(f"mul i64 {done}, 8")), self.abreast)

            when(body, straight, together)
            end = body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {first}, {self.abreast}')}", f"i64 {panels}")
            body.loop(first, body.op(f"select i1 {straight}, i64 {first}, i64 {end.name}"), 1, [], panel)
            return []

        up = body.op(f"add i64 {panels}, {self.abreast - 1}")
        body.loop("0", body.op(f"udiv i64 {up}, {self.abreast}"), 1, [], group)

    def _cut(self, first: str, columns: str, norms: str) -> str:
        """Write the records of a panel's runs, and the signs of its norms. -> the number of runs"""
        body = self.body

        def run(n: str, done: str, length: str, z: str, y: str, x: str) -> None:
            record = body.at(self.runs, body.op(f"mul i64 {n}, {RUN}"))
            for k, value in enumerate((done, length, z, y, x)):
                body.store("i64", value, record, 8 * k)
            if self.padded:
                self._flag(body.at(norms, body.op(f"mul i64 {done}, 8")), length, z, y, x)

        return lines(body, first, columns, ("%n1", "%n2"), run)

    def _flag(self, norms: str, length: str, z: str, y: str, x: str) -> None:
        """Store 1 for the columns of a run for which all terms count, -1 for the others."""
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
        row = self.width * self.data_type.dtype.itemsize
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
