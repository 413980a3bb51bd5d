"""Rows that run across those of a tensor: several at a time are copied to memory where they are contiguous, and back."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import Text, fold, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Value
from anydml.kernels.copy import tiles
from anydml.kernels.copy.text import LINE
from anydml.kernels.reduce.lines import Row


def together(itemsizes: list[int]) -> int:
    """The number of rows that are staged together: the elements of a cache line, of the smallest type."""
    return LINE // min(itemsizes)


def pitch(size: int, itemsize: int) -> int:
    """Bytes from one staged row to the next: an odd number of cache lines, so that rows do not fall into few sets of a
    cache."""
    return (size * itemsize // LINE // 2 * 2 + 3) * LINE


def transposed(
    text: Text, target: Target, source: tuple[str, str], into: tuple[str, str], itemsize: int, rows: str, columns: str
) -> None:
    """Copy rows with so many columns, transposed.

    source, into: an address, and the bytes from one row to the next; elements of a row are contiguous.
    """
    width, span = tiles.spans(target, itemsize)[0]
    tall, wide = width // itemsize, span // itemsize
    (a, a_row), (b, b_row) = source, into

    def place(base: str, stride: str, row: str, column: str) -> str:
        return text.at(text.at(base, text.op(f"mul i64 {row}, {stride}")), text.op(f"mul i64 {column}, {itemsize}"))

    def one(r: str, c: str) -> None:
        element = f"i{8 * itemsize}"
        text.store(element, text.load(element, place(a, a_row, r, c)), place(b, b_row, c, r))

    def several(r: str, c: str) -> None:
        read = [place(a, a_row, text.op(f"add i64 {r}, {k}"), c) for k in range(tall)]
        written = [place(b, b_row, text.op(f"add i64 {c}, {k}"), r) for k in range(wide)]
        for vector, at in zip(tiles.transposed(text, read, itemsize, width, span), written, strict=True):
            text.store(f"<{width} x i8>", vector, at)

    down = text.op(f"and i64 {rows}, {-tall}")
    across = text.op(f"and i64 {columns}, {-wide}")
    _each(text, "0", down, tall, lambda r: _each(text, "0", across, wide, lambda c: several(r, c)))
    _each(text, "0", down, 1, lambda r: _each(text, across, columns, 1, lambda c: one(r, c)))
    _each(text, down, rows, 1, lambda r: _each(text, "0", columns, 1, lambda c: one(r, c)))


def _each(text: Text, start: str, end: str, step: int, body: Callable[[str], None]) -> None:
    def one(i: str, _: list[str]) -> list[str]:
        body(i)
        return []

    fold(text, start, end, step, [], one)


class Staging:
    """The rows that are copied to memory before they are read, and back after they are written.

    first, end: the half-open range of the staged rows, counted from the kernel's first.
    """

    def __init__(self, body: Body, row: Row) -> None:
        self.body, self.row, self.key = body, row, row.key
        self.first = self.end = "0"

    @property
    def writes(self) -> bool:
        return self.row.streams.last in self.key.staged

    def resume(self, rows: list[Value]) -> None:
        """Set the range of staged rows to the one that the row before ended with."""
        self.first, self.end = (v.name for v in rows)

    def begin(self, r: str) -> None:
        """Copy the inputs' next rows to memory if the staged ones end at row r; at most to the end of a dimension."""
        body, d = self.body, self.key.outer - 1
        first, end = self.first, self.end
        anew = body.op(f"icmp eq i64 {r}, {end}")
        at = body.op(f"urem i64 {body.op(f'add i64 {r}, %first')}, %n{d}")
        count = str(self.key.together)
        for room in (body.op(f"sub i64 %n{d}, {at}"), body.op(f"sub i64 %rows, {r}")):
            count = body.op(f"select i1 {body.op(f'icmp ult i64 {room}, {count}')}, i64 {room}, i64 {count}")
        ends = body.op(f"add i64 {r}, {count}")
        self.first, self.end = (body.op(f"select i1 {anew}, i64 {x}, i64 {y}") for x, y in ((r, first), (ends, end)))

        def copy() -> None:
            there = self.row.starts(r)
            for k in self.row.streams.inside:
                if k in self.key.staged:
                    size = self.row.kinds[k].bits // 8
                    transposed(body, body.target, (there[k], f"%s{k}"), (f"%t{k}", f"%w{k}"), size, "%n", count)

        when(body, anew, copy)

    def put_back(self, end: str) -> None:
        """Copy the staged rows of the output before row `end` to the tensor."""
        body, k = self.body, self.row.streams.last
        there, count = self.row.starts(self.first)[k], body.op(f"sub i64 {end}, {self.first}")
        transposed(body, body.target, (f"%t{k}", f"%w{k}"), (there, f"%s{k}"), self.row.kinds[k].bits // 8, count, "%n")

    def bases(self, r: str) -> dict[int, str]:
        """The address of row r in memory, for each staged stream."""
        found = {}
        for k in self.key.staged:
            number = self.body.op(f"sub i64 {r}, {self.first}")
            found[k] = self.body.at(f"%t{k}", self.body.op(f"mul i64 {number}, %w{k}"))
        return found
