"""The copying of an image's rows from the input: contiguous elements, or those of four channels at every place."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import Text, fold, shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.fours import FLIP, by_column
from anydml.kernels.copy.text import short

HOPS = (1, 2, 4)  # bytes between a row's elements for which vectors are shuffled


def rounded_up(text: Text, count: str, of: int) -> str:
    """A number rounded up to a multiple of a power of two."""
    return text.op(f"and i64 {text.op(f'add i64 {count}, {of - 1}')}, -{of}")


def copied(text: Text, width: int, hop: int, source: str, into: str, count: str, hop_x: str) -> None:
    """Copy `count` elements, at least one: in whole vectors if all reads are within the input."""
    bytes_ = f"<{width} x i8>"

    def one(i: str, _: list[str]) -> list[str]:
        text.store("i8", text.load("i8", text.at(source, text.op(f"mul i64 {i}, {hop_x}"))), text.at(into, i))
        return []

    if not hop:
        fold(text, "0", count, 1, [], one)
        return

    def vector(i: str, _: list[str]) -> list[str]:
        text.store(bytes_, _hopped(text, width, hop, source, i), text.at(into, i))
        return []

    def exactly() -> None:
        # a vector is read up to where another element would begin
        vectors = text.op(f"and i64 {count if hop == 1 else text.op(f'sub i64 {count}, 1')}, -{width}")
        i, _ = fold(text, "0", vectors, width, [], vector)
        if hop == 1:
            short(text, text.at(source, i), text.at(into, i), text.op(f"sub i64 {count}, {i}"), width, width)
        else:
            fold(text, i, count, 1, [], one)

    whole = rounded_up(text, count, width)
    last = text.at(source, text.op(f"mul i64 {whole}, {hop}"))
    _if_inside(text, last, lambda: fold(text, "0", whole, width, [], vector), exactly)


def copied_in_fours(
    text: Text, target: Target, hop: int, source: str, into: str, count: str, hop_x: str, flipped: bool
) -> None:
    """Copy `count` elements of four channels, at least one, interleaved by channel. flipped: whether their highest bits are
    flipped."""
    width, columns = target.vector_bytes, target.vector_bytes // 2
    sources = [source]
    for _ in range(3):
        sources.append(text.at(sources[-1], "%channel"))

    def one(i: str, _: list[str]) -> list[str]:
        at, place = text.op(f"mul i64 {i}, {hop_x}"), text.at(into, text.op(f"mul i64 {i}, 4"))
        for c, row in enumerate(sources):
            value = text.load("i8", text.at(row, at))
            text.store("i8", text.op(f"xor i8 {value}, -128") if flipped else value, place, c)
        return []

    def vector(i: str, _: list[str]) -> list[str]:
        rows = [_hopped(text, columns, hop, row, i) for row in sources]
        place = text.at(into, text.op(f"mul i64 {i}, 4"))
        ints = f"<{width // 4} x i32>"
        for n, value in enumerate(by_column(text, rows, target)):
            text.store(ints, text.op(f"xor {ints} {value}, {FLIP}") if flipped else value, place, n * width)
        return []

    def each() -> None:
        fold(text, "0", count, 1, [], one)

    if not hop:
        each()
        return
    whole = rounded_up(text, count, columns)
    last = text.at(sources[-1], text.op(f"mul i64 {whole}, {hop}"))
    _if_inside(text, last, lambda: fold(text, "0", whole, columns, [], vector), each)


def _hopped(text: Text, count: int, hop: int, source: str, i: str) -> str:
    """`count` elements, `hop` bytes apart, from the i-th on."""
    kind = f"<{hop * count} x i8>"
    value = text.load(kind, text.at(source, text.op(f"mul i64 {i}, {hop}")))
    return value if hop == 1 else shuffle(text, value, value, kind, range(0, hop * count, hop))


def _if_inside(text: Text, last: str, wide: Callable[[], object], exactly: Callable[[], object]) -> None:
    """Emit `wide` for the case that its reads, which end at `last`, are within the input; else `exactly`."""
    inside, outside, done = (text.name(x) for x in ("wide", "exact", "copied"))
    text.branch(text.op(f"icmp ule ptr {last}, %end"), inside, outside)
    for label, body in ((inside, wide), (outside, exactly)):
        text.label(label)
        body()
        text.jump(done)
    text.label(done)
