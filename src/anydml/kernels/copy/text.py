"""The vocabulary of the copies' emitters: loops and branches, prefetches, and moves of a few bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.code.emit import Text

LINE = 64  # bytes of a cache line


class Prefetch(NamedTuple):
    """A prefetch: into which cache, 1 (the nearest) or 2, and how many bytes ahead.

    along: the bytes ahead within a row that is too long to be prefetched as a whole. rows: the bytes ahead of short rows.
    """

    cache: int
    along: int
    rows: int


def when(text: Text, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    yes, no, end = text.name("then"), text.name("else"), text.name("end")
    text.branch(condition, yes, no if otherwise else end)
    text.label(yes)
    then()
    text.jump(end)
    if otherwise:
        text.label(no)
        otherwise()
        text.jump(end)
    text.label(end)


def loop(text: Text, start: str, step: int, condition: Callable[[str], str], body: Callable[[str], None]) -> str:
    """A counting loop from `start` while the condition holds. -> the value at which it ends"""
    before, head, inside, done = (text.name(stem) for stem in ("before", "while", "do", "done"))
    text.jump(before)
    text.label(before)
    text.jump(head)
    text.label(head)
    i, after, latch = "%" + text.name("i"), "%" + text.name("j"), text.name("latch")
    text.do(f"{i} = phi i64 [ {start}, %{before} ], [ {after}, %{latch} ]")
    text.branch(condition(i), inside, done)
    text.label(inside)
    body(i)
    text.jump(latch)
    text.label(latch)
    text.do(f"{after} = add i64 {i}, {step}")
    text.jump(head)
    text.label(done)
    return i


def each(text: Text, single: Callable[[str], None]) -> None:
    """`single` for 0 .. n-1, four at a time."""

    def four(i: str) -> None:
        for j in range(4):
            single(text.op(f"add i64 {i}, {j}") if j else i)

    end = loop(text, "0", 4, lambda i: text.op(f"icmp ule i64 {text.op(f'add i64 {i}, 4')}, %n"), four)
    loop(text, end, 1, lambda i: text.op(f"icmp ult i64 {i}, %n"), single)


def to_multiple(text: Text, place: str, of: int) -> str:
    """The bytes from an address to the next multiple of a power of two."""
    address = text.op(f"ptrtoint ptr {place} to i64")
    return text.op(f"and i64 {text.op(f'sub i64 0, {address}')}, {of - 1}")


def prefetch(text: Text, cache: int, place: str, offset: int | str = 0) -> None:
    text.do(f"call void @llvm.prefetch.p0(ptr {text.at(place, offset)}, i32 0, i32 {4 - cache}, i32 1)")


def short(text: Text, s: str, d: str, n: str, below: int, width: int) -> None:
    """Copy fewer than `below` contiguous bytes, perhaps none. Each class of lengths has straight-line code.

    It copies some pieces from the front, and as many up to the end; in the middle they overlap.
    """
    classes = [(piece, count) for piece in (width, 32, 16, 8, 4, 2, 1) for count in (2, 1) if piece <= width]
    classes = [c for c in dict.fromkeys(classes) if c[0] * c[1] < below and (c[1] == 1 or c[0] == width)]

    def emit(piece: int, count: int) -> None:
        kind = f"<{piece} x i8>" if piece > 8 else f"i{8 * piece}"
        back = text.op(f"sub i64 {n}, {piece * count}")
        places = [(s, d, piece * i) for i in range(count)]
        end = (text.at(s, back), text.at(d, back))
        places += [(*end, piece * i) for i in range(count)]
        values = [text.load(kind, at, offset) for at, _, offset in places]
        for value, (_, at, offset) in zip(values, places, strict=True):
            text.store(kind, value, at, offset)

    def descend(rungs: list[tuple[int, int]]) -> None:
        if rungs:
            (piece, count), *rest = rungs
            enough = text.op(f"icmp uge i64 {n}, {piece * count}")
            when(text, enough, lambda: emit(piece, count), lambda: descend(rest))

    descend(classes)
