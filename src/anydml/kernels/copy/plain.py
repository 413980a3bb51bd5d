"""Strided copies of contiguous rows, and of rows of elements with any strides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anydml.kernels.code.emit import Text
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.emit import FETCHED, along, kernel, region
from anydml.kernels.copy.text import LINE, Prefetch, loop, prefetch, short, to_multiple, when

PAGE = 4096
PAGES = 4  # that are copied in turns


def contiguous(target: Target, stream: bool, dense: bool = False, ahead: Prefetch | None = None) -> str:
    """Rows of n contiguous bytes, n >= 1.

    Vectors of the output are aligned to their width. With `stream`, whole cache lines of the output are written by non-temporal
    stores alone: a line that is written by both kinds of stores is fetched back from memory.
    """
    width = target.vector_bytes
    vector, block = f"<{width} x i8>", 4 * width

    def body(text: Text, s: str, d: str) -> None:
        def move(i: str, count: int, *, past_cache: bool) -> None:
            source, into = text.at(s, i), text.at(d, i)
            if count > 1 and ahead:
                along(text, ahead, s, i, "%n", count * width)
            values = [text.load(vector, source, width * j) for j in range(count)]
            for j, value in enumerate(values):
                text.store(vector, value, into, width * j, stream=width if past_cache else 0)

        def blocks(start: str, count: int, *, past_cache: bool) -> str:
            def fits(i: str) -> str:
                return text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {count * width}')}, %n")

            return loop(text, start, count * width, fits, lambda i: move(i, count, past_cache=past_cache))

        def pages(start: str) -> str:
            """Some pages at a time, two or four lines of each in turn: more lines are then on their way from memory."""
            count, size = max(4, 2 * LINE // width), PAGES * PAGE

            def in_turns(i: str) -> None:
                def lines(j: str) -> None:
                    for page in range(PAGES):
                        move(text.op(f"add i64 {j}, {page * PAGE}"), count, past_cache=True)

                end = text.op(f"add i64 {i}, {PAGE}")
                loop(text, i, count * width, lambda j: text.op(f"icmp ult i64 {j}, {end}"), lines)

            return loop(text, start, size, lambda i: text.op(f"icmp ule i64 {text.op(f'add i64 {i}, {size}')}, %n"), in_turns)

        def long() -> None:
            move("0", 1, past_cache=False)
            blocks(blocks(to_multiple(text, d, width), 4, past_cache=False), 1, past_cache=False)
            move(text.op(f"sub i64 %n, {width}"), 1, past_cache=False)

        def long_past_cache() -> None:
            head = to_multiple(text, d, LINE)
            short(text, s, d, head, LINE, width)
            end = blocks(blocks(pages(head), 4, past_cache=True), LINE // width, past_cache=True)
            short(text, text.at(s, end), text.at(d, end), text.op(f"sub i64 %n, {end}"), LINE, width)

        def row() -> None:
            few = text.op(f"icmp ule i64 %n, {block}")
            when(text, few, lambda: short(text, s, d, "%n", block + 1, width), long_past_cache if stream else long)

        if dense:
            row()
        else:  # in place, there is nothing to copy
            when(text, text.op(f"icmp ne ptr {s}, {d}"), row)

    fetch = partial(_row_region, ahead.cache) if ahead else None
    return kernel(body, fetch, dense=int(dense), width=width)


def _row_region(cache: int, text: Text, source: str) -> None:
    region(text, cache, source, "%n")


def elements(target: Target, itemsize: int, ahead: Prefetch | None = None) -> str:
    """Rows of n elements, with any stride in source and target."""
    kind = f"i{8 * itemsize}"

    def body(text: Text, s: str, d: str) -> None:
        def single(i: str) -> None:
            source = text.at(s, text.op(f"mul i64 {i}, %source_stride"))
            into = text.at(d, text.op(f"mul i64 {i}, %target_stride"))
            text.store(kind, text.load(kind, source), into)

        further = _elements_along(text, s, ahead) if ahead else None

        def four(i: str) -> None:
            if further:
                further(i)
            for j in range(4):
                single(text.op(f"add i64 {i}, {j}"))

        end = loop(text, "0", 4, lambda i: text.op(f"icmp ule i64 {text.op(f'add i64 {i}, 4')}, %n"), four)
        loop(text, end, 1, lambda i: text.op(f"icmp ult i64 {i}, %n"), single)

    return kernel(body, partial(_elements_region, ahead.cache) if ahead else None)


def _elements_along(text: Text, s: str, ahead: Prefetch) -> Callable[[str], None]:
    """The instructions that prefetch four elements ahead of the i-th, in a long row, or in the next row."""
    stride = text.op("call i64 @llvm.abs.i64(i64 %source_stride, i1 false)")
    stride = text.op(f"call i64 @llvm.umax.i64(i64 {stride}, i64 1)")
    lines = text.op(f"udiv i64 {ahead.along}, {stride}")
    lines = text.op(f"call i64 @llvm.umax.i64(i64 {lines}, i64 {ahead.along // LINE})")
    long = text.op(f"icmp ugt i64 {text.op(f'mul i64 {stride}, %n')}, {FETCHED}")

    def fetch_four(i: str) -> None:
        further = text.op(f"add i64 {i}, {lines}")
        beyond = text.op(f"sub i64 {further}, %n")
        inside = text.op(f"icmp slt i64 {beyond}, 0")
        row = text.op(f"select i1 {inside}, ptr {s}, ptr %fs")
        number = text.op(f"select i1 {inside}, i64 {further}, i64 {beyond}")
        for j in range(4):  # a line with several elements is prefetched several times: that costs less than a check
            prefetch(text, ahead.cache, row, text.op(f"mul i64 {text.op(f'add i64 {number}, {j}')}, %source_stride"))

    return lambda i: when(text, long, lambda: fetch_four(i))


def _elements_region(cache: int, text: Text, source: str) -> None:
    """Prefetch the first elements of a row."""
    far = text.op("call i64 @llvm.abs.i64(i64 %source_stride, i1 false)")
    each_line = text.op(f"icmp ult i64 {far}, {LINE}")
    size = text.op(f"mul i64 {far}, %n")
    down = text.op("icmp slt i64 %source_stride, 0")

    def near() -> None:  # neighbouring elements share cache lines
        start = text.at(source, text.op(f"select i1 {down}, i64 {text.op(f'sub i64 0, {size}')}, i64 0"))
        region(text, cache, start, size)

    def apart() -> None:  # each element has a cache line of its own
        end = text.op(f"call i64 @llvm.umin.i64(i64 %n, i64 {FETCHED // LINE})")
        inside = partial(prefetch, text, cache, source)
        loop(
            text,
            "0",
            1,
            lambda i: text.op(f"icmp ult i64 {i}, {end}"),
            lambda i: inside(text.op(f"mul i64 {i}, %source_stride")),
        )

    when(text, each_line, near, apart)
