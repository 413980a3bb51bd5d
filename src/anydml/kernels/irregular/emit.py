"""The kernels of gathers and scatters: one that checks every index, and those that move elements.

All indices are checked before anything is stored, so that no address depends on an index that is out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, fold, kernel, splat, when
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.text import short
from anydml.kernels.irregular.loops import walk

FAILED = 1  # the status if an index is out of range
AHEAD = 8  # rows that are prefetched before they are moved
FETCHED = (64, 128, 256)  # bytes of a row that are prefetched at most
VECTORS = 4  # vectors up to which a row is moved without a loop, if it consists of whole vectors
LINE = 64
CHECKED, MOVED = Signature("size *indices"), Signature("*source *target bytes")


def checks(target: Target, bits: int, wraps: bool, wide: bool) -> str:
    """The kernel that checks that every index is in 0 .. size - 1, or in -size .. size - 1 if it wraps; else returns FAILED.

    Arguments: CHECKED, loops over the indices. bits: those of an index. wide: a size may exceed 31 bits of a 32-bit index.
    """
    text = Text()
    CHECKED.load(text)
    within = max(bits, 64 if wide else 32)
    lanes = 2 * target.vector_bytes * 8 // within
    failed = text.op("alloca i64, align 8")
    text.do(f"store i64 0, ptr {failed}, align 8")
    size = "%size" if within == 64 else text.op(f"trunc i64 %size to i{within}")
    limit = text.op(f"shl i{within} {size}, 1") if wraps else size

    def outside(place: str, count: int) -> str:
        """All ones for every index that is out of range."""
        narrow, kind = (f"i{bits}", f"i{within}") if count == 1 else (f"<{count} x i{bits}>", f"<{count} x i{within}>")
        value = text.load(narrow, place)
        if within > bits:
            value = text.op(f"{'s' if wraps else 'z'}ext {narrow} {value} to {kind}")
        if wraps:
            value = text.op(f"add {kind} {value}, {size if count == 1 else splat(text, size, kind)}")
        bad = text.op(f"icmp uge {kind} {value}, {limit if count == 1 else splat(text, limit, kind)}")
        return text.op(f"sext {'i1' if count == 1 else f'<{count} x i1>'} {bad} to {kind}")

    def fail() -> None:
        text.do(f"store i64 {FAILED}, ptr {failed}, align 8")

    def row(places: list[str], count: str, strides: list[str]) -> None:
        vector = f"<{lanes} x i{within}>"
        dense = text.op(f"icmp eq i64 {strides[0]}, {bits // 8}")
        end = text.op(f"select i1 {dense}, i64 {count}, i64 0")

        def block(i: str, found: list[str]) -> list[str]:
            return [text.op(f"or {vector} {found[0]}, {outside(along(text, places[0], strides[0], i), lanes)}")]

        def single(i: str, found: list[str]) -> list[str]:
            return [text.op(f"or i{within} {found[0]}, {outside(along(text, places[0], strides[0], i), 1)}")]

        done, (many,) = fold(text, "0", end, lanes, [(vector, "zeroinitializer")], block)
        _, (rest,) = fold(text, done, count, 1, [(f"i{within}", "0")], single)
        bad = text.op(f"bitcast <{lanes} x i1> {text.op(f'icmp ne {vector} {many}, zeroinitializer')} to i{lanes}")
        any_ = text.op(f"or i1 {text.op(f'icmp ne i{lanes} {bad}, 0')}, {text.op(f'icmp ne i{within} {rest}, 0')}")
        when(text, any_, fail)

    walk(text, text.at("%arguments", CHECKED.end), ["%indices"], row)
    text.do(f"ret i64 {text.op(f'load i64, ptr {failed}, align 8')}")
    return kernel(text)


class IndexLayout(NamedTuple):
    """The layout of indices.

    tuples: the number of indices of an element. bits: those of an index. wraps: negative ones count from the end. parts: the
    number of dimensions whose row-major position an index is; 1 if it is the index of one dimension.
    """

    tuples: int
    bits: int
    wraps: bool
    parts: int


class KnownStrides(NamedTuple):
    """Strides in bytes that are compiled in, or None.

    along: those of the innermost loop in source, target and indices. named: that of the dimension whose index is read.
    """

    along: tuple[int | None, int | None, int | None]
    named: int | None


ROW_STEPS = KnownStrides((None, None, None), None)
Displaced = Callable[[str, str], str]
Row = Callable[[Text, list[str], str, list[str], Displaced], None]


def _mover(columns: IndexLayout, row: Row, steps: KnownStrides = ROW_STEPS) -> str:
    """The common part of both kernels that move elements.

    Arguments: MOVED; for each column the indices, their size, and the size and stride of each part, the innermost first; loops
    over source, target and indices. `row(text, places, count, strides, displaced)` is the innermost loop.
    displaced(indices, place) is the address `place` plus the distance that the indices give. The innermost loop is a function
    of its own, so that its addresses do not take the registers of the loops around it.
    """
    inner = Text()
    words = 2 + 2 * columns.parts
    named = [
        [inner.load("ptr" if j == 0 else "i64", "%named", 8 * (words * q + j)) for j in range(words)]
        for q in range(columns.tuples)
    ]
    first = named[0][0]
    apart = [
        inner.op(f"sub i64 {inner.op(f'ptrtoint ptr {place} to i64')}, {inner.op(f'ptrtoint ptr {first} to i64')}")
        for place, *_ in named
    ]

    def displaced(indices: str, place: str) -> str:
        for (_, size, *parts), offset in zip(named, apart, strict=True):
            value = inner.load(f"i{columns.bits}", indices, offset if len(named) > 1 else 0)
            if columns.bits < 64:
                value = inner.op(f"{'s' if columns.wraps else 'z'}ext i{columns.bits} {value} to i64")
            if columns.wraps:
                above = inner.op(f"add i64 {value}, {size}")
                value = inner.op(f"select i1 {inner.op(f'icmp slt i64 {value}, 0')}, i64 {above}, i64 {value}")
            while len(parts) > 2:
                count, stride, *parts = parts
                quotient = inner.op(f"udiv i64 {value}, {count}")
                rest = inner.op(f"sub i64 {value}, {inner.op(f'mul i64 {quotient}, {count}')}")
                place, value = along(inner, place, stride, rest), quotient
            place = along(inner, place, parts[1] if steps.named is None else str(steps.named), value)
        return place

    strides = [f"%stride{k}" if step is None else str(step) for k, step in enumerate(steps.along)]
    row(inner, [f"%place{k}" for k in range(3)], "%count", strides, displaced)
    parameters = [*(f"ptr %place{k}" for k in range(3)), "i64 %count", *(f"i64 %stride{k}" for k in range(3)), "ptr %bytes_at"]
    lines = ["  %bytes = load i64, ptr %bytes_at, align 8", *inner.lines, "  ret void", "}"]
    function = "\n".join([f"define internal void @row({', '.join(parameters)}, ptr %named) noinline {{", "entry:", *lines])

    text = Text()
    MOVED.load(text)
    base = text.at("%arguments", MOVED.end)
    loops = text.at(base, 8 * words * columns.tuples)

    def innermost(places: list[str], count: str, strides: list[str]) -> None:
        given = [*(f"ptr {place}" for place in places), f"i64 {count}", *(f"i64 {stride}" for stride in strides)]
        bytes_at = text.at("%arguments", 8 * MOVED.names.index("bytes"))
        text.do(f"call void @row({', '.join(given)}, ptr {bytes_at}, ptr {base})")

    walk(text, loops, ["%source", "%target", text.load("ptr", base)], innermost)
    text.do("ret i64 0")
    return kernel(text, ["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)", function])


def elements(target: Target, itemsize: int, columns: IndexLayout, scatters: bool, steps: KnownStrides) -> str:
    """The kernel that moves elements one by one."""
    kind = f"i{8 * itemsize}"

    def row(text: Text, places: list[str], count: str, strides: list[str], displaced: Displaced) -> None:
        def single(i: str, _: list[str]) -> list[str]:
            source, into, indices = (along(text, place, stride, i) for place, stride in zip(places, strides, strict=True))
            if scatters:
                into = displaced(indices, into)
            else:
                source = displaced(indices, source)
            text.store(kind, text.load(kind, source), into)
            return []

        def four(i: str, _: list[str]) -> list[str]:
            for j in range(4):
                single(text.op(f"add i64 {i}, {j}"), [])
            return []

        done, _ = fold(text, "0", count, 4, [], four)
        fold(text, done, count, 1, [], single)

    return _mover(columns, row, steps)


def moved_row(text: Text, target: Target, source: str, into: str, nbytes: str) -> None:
    """Move a row of contiguous bytes, at least one."""
    width = target.vector_bytes
    vector = f"<{width} x i8>"

    def blocks(i: str, _: list[str], count: int) -> list[str]:
        s, d = text.at(source, i), text.at(into, i)
        values = [text.load(vector, s, width * j) for j in range(count)]
        for j, value in enumerate(values):
            text.store(vector, value, d, width * j)
        return []

    def long() -> None:
        done, _ = fold(text, "0", nbytes, 4 * width, [], lambda i, x: blocks(i, x, 4))
        fold(text, done, nbytes, width, [], lambda i, x: blocks(i, x, 1))
        blocks(text.op(f"sub i64 {nbytes}, {width}"), [], 1)

    few = text.op(f"icmp ule i64 {nbytes}, {4 * width}")
    when(text, few, lambda: short(text, source, into, nbytes, 4 * width + 1, width))
    when(text, text.op(f"xor i1 {few}, true"), long)


def rows(target: Target, columns: IndexLayout, scatters: bool, fetched: int, vectors: int) -> str:
    """The kernel that moves rows of `bytes` contiguous bytes, at least one. vectors: the row's number of vectors, 0 for any.

    fetched: the bytes of an indexed row that are prefetched before it is moved.
    """

    def row(text: Text, places: list[str], count: str, strides: list[str], displaced: Displaced) -> None:
        last = text.op(f"sub i64 {count}, 1")

        def single(i: str, _: list[str]) -> list[str]:
            source, into, indices = (along(text, place, stride, i) for place, stride in zip(places, strides, strict=True))
            later = text.op(f"add i64 {i}, {AHEAD}")
            later = text.op(f"select i1 {text.op(f'icmp ult i64 {later}, {count}')}, i64 {later}, i64 {last}")
            which = 1 if scatters else 0
            ahead = displaced(along(text, places[2], strides[2], later), along(text, places[which], strides[which], later))
            for line in range(0, fetched, LINE):
                offset = text.op(f"select i1 {text.op(f'icmp ugt i64 %bytes, {line}')}, i64 {line}, i64 0")
                text.do(f"call void @llvm.prefetch.p0(ptr {text.at(ahead, offset)}, i32 {which}, i32 3, i32 1)")
            if scatters:
                into = displaced(indices, into)
            else:
                source = displaced(indices, source)
            if vectors:
                kind = f"<{target.vector_bytes} x i8>"
                values = [text.load(kind, source, target.vector_bytes * j) for j in range(vectors)]
                for j, value in enumerate(values):
                    text.store(kind, value, into, target.vector_bytes * j)
            else:
                moved_row(text, target, source, into, "%bytes")
            return []

        fold(text, "0", count, 1, [], single)

    return _mover(columns, row)
