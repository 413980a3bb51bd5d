"""Rows that lie across those of a tensor, copied to memory where they are contiguous, some of them together, and back."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import Text, fold
from anydml.kernels.code.targets import Target
from anydml.kernels.copy import tiles
from anydml.kernels.copy.text import LINE


def together(itemsizes: list[int]) -> int:
    """The rows that are staged together: those of a cache line, of the smallest elements."""
    return LINE // min(itemsizes)


def pitch(size: int, itemsize: int) -> int:
    """Bytes from one staged row to the next: an odd number of cache lines, so that rows don't meet in a few sets of a cache."""
    return (size * itemsize // LINE // 2 * 2 + 3) * LINE


def turned(
    text: Text, target: Target, source: tuple[str, str], into: tuple[str, str], itemsize: int, rows: str, columns: str
) -> None:
    """Copy so many rows of so many elements, to as many columns.

    source, into: an address, and the bytes from one row to the next; elements of a row lie side by side.
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
        for vector, at in zip(tiles.turned(text, read, itemsize, width, span), written, strict=True):
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
