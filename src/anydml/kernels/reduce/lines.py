"""The row that a kernel is at: its address, its lines, and its elements as the streams of a walk."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.streams import CONTIGUOUS, Streams, starts
from anydml.kernels.reduce.key import ReductionKey
from anydml.kernels.reduce.walk import RowWalk


class Row:
    """The row that a kernel is at, and its streams.

    number: of the row among all; line: of the one that is read, None where the row is one.
    """

    def __init__(self, body: Body, key: ReductionKey) -> None:
        self.body, self.key = body, key
        self.kinds = [Kind(f"i{t.element_bits}", key.lanes) for t in key.types]
        self.streams = Streams(body, self.kinds, key.layouts)
        self.number = ""
        self.line: str | None = None

    def starts(self, r: str) -> list[str]:
        """Where each stream's row begins, of one counted from the kernel's first."""
        row = self.body.op(f"add i64 {r}, %first")
        bases = [f"%p{k}" for k in range(len(self.kinds))]
        return starts(self.body, self.key.layouts, bases, row, self.key.outer, "n", "o")

    def line_starts(self, row: list[str], number: str) -> list[str]:
        """Where each stream's line begins, from where its row does."""
        return starts(self.body, self.key.layouts, row, number, self.key.inner, "m", "q")

    def lines(self, carried: list[Value], each: Callable[[list[Value]], list[Value]]) -> list[Value]:
        """Every line of the row; most rows are one."""
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
        """The place in the row of one in a line; length: of what lines count."""
        if self.line is None:
            return i
        return self.body.op(f"add i64 {i}, {self.body.op(f'mul i64 {self.line}, {length}')}")

    def places(self, i: str) -> Value:
        """The places in the row of a group's lanes."""
        return self.body.splat(Value(self.body, self.in_row(i), Kind("i64")), self.key.lanes) + self.streams.iota

    def put(self, walk: RowWalk, i: str, loaded: dict[int, Value]) -> None:
        """Give a walk a group of elements that are loaded, and its positions."""
        for k, value in {**self.streams.positions(i), **loaded}.items():
            walk.streams[k] = value

    def fetch_next(self, i: str) -> None:
        """Ask for what the next row has in this place, which is read at once when it begins."""
        body = self.body
        if not self.key.outer:
            return
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        for k in self.streams.inside:
            if self.key.layouts[k] == CONTIGUOUS:
                step = f"%w{k}" if k in self.key.staged else f"%o{self.key.outer - 1}_{k}"
                at = body.at(self.streams.place(k, i), step)
                body.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")
