"""Packed copies of A and B, for tiles that cannot read their own layouts: B in panels, and A in 16 bits."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, extend, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of, shift_of
from anydml.kernels.contract.fours import FLIP, by_column
from anydml.kernels.contract.images.image import RECORD
from anydml.kernels.contract.tile import panel_columns

# --- B in panels ---

ROWS = 32  # rows of B that pass through all panels before the next ones: each has half a cache line in a panel
PACK = Signature("*b b_row k panels *packed panel *sums last *pad *offsets *places")
MULTIPLY = PACK + Signature("*a a_row *products products_row")


Rows = Callable[[str, list[str]], list[str]]


def summed(
    text: Text, kind: str, places: list[tuple[str, int]], rows: tuple[str, str, int], whole: Rows, partial: Rows
) -> None:
    """Add groups of rows to sums in memory. rows: the half-open range of rows, and the number of rows in a group."""
    begin, end, group = rows
    sums = [text.load(kind, *place) for place in places]
    k, sums = fold(text, begin, end, group, [(kind, x) for x in sums], whole)
    # once more, for a last group that is not whole
    left = text.op(f"select i1 {text.op(f'icmp ult i64 {k}, {end}')}, i64 {text.op(f'add i64 {k}, {group}')}, i64 {k}")
    sums = fold(text, k, left, group, [(kind, x) for x in sums], partial)[1]
    for x, place in zip(sums, places, strict=True):
        text.store(kind, x, *place)


def pack(target: Target, a_signed: bool, b_signed: bool, segments: int = 0, height: int = 0) -> str:
    """The kernel that packs panels of B, {k, n} with contiguous rows: a vector holds the same few elements of K for each of its
    columns.

    Arguments: PACK. panel: bytes of a packed panel. sums: int32, for each panel those of its columns of packed B. last: the
    column at which the last panel begins. pad: a row of a panel's width that stands for the rows of B beyond the k-th; it is 0
    once packed.

    segments: b is an image that windows are read from. Its row k begins at offsets[k], and a panel's columns consist of so many
    segments of it, which `image.places` lists.

    height: panels are not stored, but multiplied with so many rows of A. Arguments: PACK, or MULTIPLY; products: int32, for
    each row those of all panels, in order.
    """
    dot, width = dot_of(target), target.vector_bytes
    columns = panel_columns(target)
    vector = f"<{width // 4} x i32>"
    packed_signed = dot.b_signed(a_signed, b_signed)
    ones = f"splat (i32 {dot.ones})"
    kind = f"<{columns} x i8>"
    text = Text()
    (MULTIPLY if height else PACK).load(text)
    a_rows = [along(text, "%a", "%a_row", str(m)) for m in range(height)]
    numbers = ", ".join(f"i8 {i}" for i in range(columns))
    if segments:
        text.do("%last_k = sub i64 %k, 1")

    def segment(record: str) -> tuple[str, str]:
        """The offset of a segment, and a mask of the columns from its begin on."""
        begin = splat(text, text.op(f"trunc i64 {text.load('i64', record, 8)} to i8"), kind)
        return text.load("i64", record), text.op(f"icmp uge {kind} <{numbers}>, {begin}")

    def row_of(row: str, found: list[tuple[str, str]]) -> str:
        """A row of a panel: each segment's columns replace those of the segments before."""
        value = text.load(kind, text.at(row, found[0][0]) if found else row)
        for place, there in found[1:]:
            value = text.op(f"select <{columns} x i1> {there}, {kind} {text.load(kind, text.at(row, place))}, {kind} {value}")
        return value

    def places_of(p: str) -> list[tuple[str, int]]:
        """The addresses of a panel's sums: those of its columns, and its products by row, vector by vector."""
        across = text.op(f"mul i64 {p}, {columns * 4}")
        first = text.at("%products", across) if height else ""
        starts = [text.at("%sums", across), *(along(text, first, "%products_row", str(m)) for m in range(height))]
        return [(start, n * width) for start in starts for n in range(dot.vectors)]

    def group(k: str, loads: list[str], into: str, sums: list[str]) -> list[str]:
        parts = interleaved(text, loads, target, a_signed, b_signed)
        at = text.op(f"mul i64 {k}, {dot.depth // dot.group}") if height else ""
        for j, part in enumerate(parts):
            factors = [ones, *(splat(text, text.load("i32", text.at(row, at), 4 * j), vector) for row in a_rows)]
            each = zip(sums, [(f, x) for f in factors for x in part], strict=True)
            sums = [dot.emit(text, s, f, x, a_signed, packed_signed) for s, (f, x) in each]
        if height:
            return sums
        ready = parts[0]
        if dot.square:  # a column's eight bytes become contiguous
            orders = (0, 4, 1, 5), (2, 6, 3, 7)
            ready = [shuffle(text, x, y, vector, o) for x, y in zip(*parts, strict=True) for o in orders]
        for n, packed in enumerate(ready):
            text.store(vector, packed, into, n * width)
        return sums

    def panel(p: str, begin: str, end: str) -> None:
        inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
        column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
        b = "%b" if segments else text.at("%b", column)
        listed = text.at("%places", text.op(f"mul i64 {p}, {RECORD * segments}")) if segments else ""
        found = [segment(text.at(listed, RECORD * s)) for s in range(segments)]
        packed = along(text, "%packed", "%panel", p)
        places = places_of(p)

        def row(k: str) -> str:
            if segments:
                return text.at(b, text.load("i64", text.at("%offsets", text.op(f"mul i64 {k}, 8"))))
            return along(text, b, "%b_row", k)

        def into(k: str) -> str:
            return text.at(packed, text.op(f"mul i64 {k}, {columns * dot.depth // dot.group}"))

        def whole(k: str, sums: list[str]) -> list[str]:
            if segments:
                rows = [row(text.op(f"add i64 {k}, {r}")) for r in range(dot.group)]
            else:
                rows = [row(k)]
                for _ in range(dot.group - 1):
                    rows.append(text.at(rows[-1], "%b_row"))
            return group(k, [row_of(x, found) for x in rows], into(k), sums)

        def partial(k: str, sums: list[str]) -> list[str]:
            loads = []
            for r in range(dot.group):
                at = text.op(f"add i64 {k}, {r}")
                inside = text.op(f"icmp ult i64 {at}, %k")
                if segments:  # the last row again, since it exists
                    value = row_of(row(text.op(f"call i64 @llvm.umin.i64(i64 {at}, i64 %last_k)")), found)
                    padding = text.load(kind, "%pad")
                    loads.append(text.op(f"select i1 {inside}, {kind} {value}, {kind} {padding}"))
                else:
                    loads.append(text.load(kind, text.op(f"select i1 {inside}, ptr {row(at)}, ptr %pad")))
            return group(k, loads, into(k), sums)

        summed(text, vector, places, (begin, end, dot.group), whole, partial)

    def clear(p: str, _: list[str]) -> list[str]:
        for place in places_of(p):
            text.store(vector, "zeroinitializer", *place)
        return []

    def block(i: str, _: list[str]) -> list[str]:
        begin = text.op(f"mul i64 {i}, {ROWS}")
        end = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'add i64 {begin}, {ROWS}')}, i64 %k)")

        def each(p: str, _: list[str]) -> list[str]:
            panel(p, begin, end)
            return []

        fold(text, "0", "%panels", 1, [], each)
        return []

    fold(text, "0", "%panels", 1, [], clear)
    fold(text, "0", text.op(f"udiv i64 {text.op(f'add i64 %k, {ROWS - 1}')}, {ROWS}"), 1, [], block)
    text.do("ret i64 0")
    return kernel(text, ["declare i64 @llvm.umin.i64(i64, i64)", *dot.declarations])


def interleaved(text: Text, rows: list[str], target: Target, a_signed: bool, b_signed: bool) -> list[list[str]]:
    """The rows of a group of a panel of B in the form that dot products take: for each four elements of K (or two), the
    columns' vectors."""
    vector = f"<{target.vector_bytes // 4} x i32>"
    if dot_of(target).group == 2:
        parts = [_twos(text, rows, target, b_signed)]
    else:
        parts = [by_column(text, x, target) for x in _by_four(rows)]
    if shift_of(target, a_signed, b_signed):
        parts = [[text.op(f"xor {vector} {x}, {FLIP}") for x in part] for part in parts]
    return parts


def _by_four(rows: list[str]) -> list[list[str]]:
    return [rows[i : i + 4] for i in range(0, len(rows), 4)]


def _twos(text: Text, rows: list[str], target: Target, signed: bool) -> list[str]:
    """Two rows of bytes widened to 16 bits, a vector's columns at a time: interleaved, or one row after the other."""
    lanes = target.vector_bytes // 4
    columns = panel_columns(target)
    vectors = []
    for at in range(0, columns, lanes):
        sides = [(at + c, columns + at + c) for c in range(lanes)]
        order = (
            [i for rank in zip(*sides, strict=True) for i in rank] if dot_of(target).planar else [i for c in sides for i in c]
        )
        mixed = shuffle(text, rows[0], rows[1], f"<{columns} x i8>", order)
        wide = extend(text, mixed, signed, f"<{2 * lanes} x i8>", f"<{2 * lanes} x i16>")
        vectors.append(text.op(f"bitcast <{2 * lanes} x i16> {wide} to <{lanes} x i32>"))
    return vectors


# --- A in 16 bits ---

WIDEN = Signature("*a a_row k m *wide wide_row")


def widen(target: Target, a_signed: bool) -> str:
    """The kernel that widens m rows of k contiguous bytes to 16-bit integers. Arguments: WIDEN."""
    count = target.vector_bytes // 2
    text = Text()
    WIDEN.load(text)

    def row(i: str, _: list[str]) -> list[str]:
        a, wide = along(text, "%a", "%a_row", i), along(text, "%wide", "%wide_row", i)

        def move(kind: str, into: str) -> Callable[[str, list[str]], list[str]]:
            def step(at: str, _: list[str]) -> list[str]:
                value = extend(text, text.load(kind, text.at(a, at)), a_signed, kind, into)
                text.store(into, value, text.at(wide, text.op(f"mul i64 {at}, 2")))
                return []

            return step

        at, _none = fold(text, "0", "%k", count, [], move(f"<{count} x i8>", f"<{count} x i16>"))
        fold(text, at, "%k", 1, [], move("i8", "i16"))
        return []

    fold(text, "0", "%m", 1, [], row)
    text.do("ret i64 0")
    return kernel(text)
