"""The kernel's current row: its addresses, its lines, and its elements as the streams of a walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.copy.text import LINE
from anydml.kernels.elementwise.streams import CONTIGUOUS, Streams, starts
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.walk import RowWalk


class Row:
    """The kernel's current row, and its streams.

    number: the row's number among all; line: the number of the current line, None if a row is one line.
    """

    def __init__(self, body: Body, key: ReductionKey) -> None:
        self.body, self.key = body, key
        self.kinds = [Kind(f"i{t.element_bits}", key.lanes) for t in key.types]
        self.streams = Streams(body, self.kinds, key.layouts)
        self.number = ""
        self.line: str | None = None

    def starts(self, r: str) -> list[str]:
        """The address of the row in each stream; r: the row's number, counted from the kernel's first."""
        row = self.body.op(f"add i64 {r}, %first")
        bases = [f"%p{k}" for k in range(len(self.kinds))]
        return starts(self.body, self.key.layouts, bases, row, self.key.outer, "n", "o")

    def line_starts(self, row: list[str], number: str) -> list[str]:
        """The address of a line in each stream, from those of its row."""
        return starts(self.body, self.key.layouts, row, number, self.key.inner, "m", "q")

    def lines(self, carried: list[Value], each: Callable[[list[Value]], list[Value]]) -> list[Value]:
        """Emit `each` for every line of the row; most rows have one."""
        if not self.key.inner:
            return each(carried)
        row = self.streams.bases

        def one(q: str, values: list[Value]) -> list[Value]:
            self.line, self.streams.bases = q, self.line_starts(row, q)
            return each(values)

        _, values = self.body.loop("0", "%lines", 1, carried, one)
        self.line, self.streams.bases = None, row
        return values

    def in_row(self, i: str, length: str = "%n") -> str:
        """The position in the row of element i of the line; length: the elements of a line."""
        if self.line is None:
            return i
        return self.body.op(f"add i64 {i}, {self.body.op(f'mul i64 {self.line}, {length}')}")

    def places(self, i: str) -> Value:
        """The positions in the row of a group's lanes."""
        return self.body.splat(Value(self.body, self.in_row(i), Kind("i64")), self.key.lanes) + self.streams.iota

    def put(self, walk: RowWalk, i: str, loaded: dict[int, Value]) -> None:
        """Give a walk a group of loaded elements, and its positions."""
        for k, value in {**self.streams.positions(i), **loaded}.items():
            walk.streams[k] = value

    def fetch_next(self, i: str) -> None:
        """Prefetch the elements of the next row at this position, since they are read right when it begins."""
        if not self.key.outer:
            return
        for k in self.streams.inside:
            if self.key.layouts[k] == CONTIGUOUS:
                step = f"%w{k}" if k in self.key.staged else f"%o{self.key.outer - 1}_{k}"
                self._fetch(self.body.at(self.streams.place(k, i), step))

    def fetch_ahead(self, i: str, streams: Iterable[int], times: int) -> None:
        """Prefetch the lines of so many groups of these streams, `ahead` bytes from here on."""
        for k in streams:
            size = self.kinds[k].bits // 8 * self.key.lanes * times
            if self.key.layouts[k] == CONTIGUOUS and k not in self.key.staged:
                at = self.streams.place(k, i)
                for line in range(0, size, LINE):
                    self._fetch(self.body.at(at, self.key.ahead + line))

    def fetch_output(self, i: str) -> None:
        """Prefetch the line of the output that a later pass writes at this position."""
        if (
            self.key.mapped
            and self.key.ahead
            and self.key.layouts[-1] == CONTIGUOUS
            and self.streams.last not in self.key.staged
        ):
            self._fetch(self.streams.place(self.streams.last, i), writes=True)

    def _fetch(self, at: str, *, writes: bool = False) -> None:
        self.body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.body.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 {int(writes)}, i32 3, i32 1)")
