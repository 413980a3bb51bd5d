"""The products of a few rows of A with B in its own layout: one pass over B, which is only rearranged in registers.

Packing pays if a panel serves many rows. For up to four, it would write and read all of B once more.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of, shift_of
from anydml.kernels.contract.fours import FLIP
from anydml.kernels.contract.panels.packing import interleaved, summed
from anydml.kernels.contract.tile import panel_columns
from anydml.kernels.copy.text import prefetch

AHEAD = 512  # bytes that are prefetched along every row, into the second-level cache
# rows of B that are read together, all columns of them, before the next ones. Rows at a multiple of 4 KB from each other fall
# into one set of the first-level cache, which holds eight
ROWS, MEETING_ROWS, MEETING = 32, 8, 4096
THIN = Signature("*a a_row *b b_row k panels *products products_row *sums last *pad")


def serves(target: Target) -> bool:
    """Whether dot products take four bytes and a row of two panels is one vector."""
    dot = dot_of(target)
    return dot.depth == dot.group == 4 and dot.vectors == 2


def rows_at_once(b_row: int) -> int:
    return ROWS if b_row % MEETING else MEETING_ROWS


def thin(target: Target, a_signed: bool, b_signed: bool, height: int, rows: int) -> str:
    """The kernel for products of `height` rows of A with panels of B, {k, n} with contiguous rows, and the sums of B's columns.

    Arguments: THIN. products: int32, for each row those of all panels, in order. sums, last, pad: as in `packing.pack`; a_row:
    as in the tile.
    """
    dot, width = dot_of(target), target.vector_bytes
    columns = panel_columns(target)
    vector = f"<{width // 4} x i32>"
    ones = f"splat (i32 {dot.ones})"
    packed_signed = dot.b_signed(a_signed, b_signed)
    text = Text()
    THIN.load(text)
    a_rows = [along(text, "%a", "%a_row", str(m)) for m in range(height)]

    def sums_of(panel: str, count: int) -> list[tuple[str, int]]:
        """The addresses of the sums of `count` panels' columns, and of their products by row, vector by vector."""
        across = text.op(f"mul i64 {panel}, {columns * 4}")
        first = text.at("%products", across)
        starts = [text.at("%sums", across), *(along(text, first, "%products_row", str(m)) for m in range(height))]
        return [(start, n * width) for start in starts for n in range(count * dot.vectors)]

    def group(k: str, rows: list[str], state: list[str]) -> list[str]:
        count = len(state) // (dot.vectors * (height + 1))
        loads = [text.load(f"<{count * columns} x i8>", row) for row in rows]
        parts = (_by_lanes if count == 2 else _by_columns)(text, target, loads, a_signed, b_signed)
        factors = [ones, *(splat(text, text.load("i32", row, k), vector) for row in a_rows)]
        each = [(factor, part) for factor in factors for part in parts]
        return [dot.emit(text, x, factor, part, a_signed, packed_signed) for x, (factor, part) in zip(state, each, strict=True)]

    def panels(p: str, count: int, begin: str, end: str) -> None:
        """Add rows `begin` .. `end` - 1 of a panel, or of two consecutive ones."""
        b = text.at("%b", text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last)"))
        places = sums_of(p, count)

        def whole(k: str, state: list[str]) -> list[str]:
            rows = [along(text, b, "%b_row", k)]
            for _ in range(dot.group - 1):
                rows.append(text.at(rows[-1], "%b_row"))
            for row in rows:
                prefetch(text, 2, row, AHEAD)
            return group(k, rows, state)

        def partial(k: str, state: list[str]) -> list[str]:
            rows: list[str] = []
            for r in range(dot.group):
                at = text.op(f"add i64 {k}, {r}")
                there = along(text, b, "%b_row", at)
                rows.append(text.op(f"select i1 {text.op(f'icmp ult i64 {at}, %k')}, ptr {there}, ptr %pad"))
            return group(k, rows, state)

        summed(text, vector, places, (begin, end, dot.group), whole, partial)

    def clear(p: str, _: list[str]) -> list[str]:
        for place in sums_of(p, 1):
            text.store(vector, "zeroinitializer", *place)
        return []

    def block(i: str, _: list[str]) -> list[str]:
        begin = text.op(f"mul i64 {i}, {rows}")
        end = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'add i64 {begin}, {rows}')}, i64 %k)")

        def two(p: str, _: list[str]) -> list[str]:
            panels(p, 2, begin, end)
            return []

        def one(p: str, _: list[str]) -> list[str]:
            panels(p, 1, begin, end)
            return []

        p, _none = fold(text, "0", even, 2, [], two)
        fold(text, p, "%panels", 1, [], one)
        return []

    def order(p: str, _: list[str]) -> list[str]:
        places = sums_of(p, 2)
        for at in range(0, len(places), 4):
            four = [text.load(vector, *place) for place in places[at : at + 4]]
            for x, place in zip(_in_order(text, target, four), places[at : at + 4], strict=True):
                text.store(vector, x, *place)
        return []

    # the last panel may overlap the one before
    rest = text.op("sub i64 %panels, 1")
    moved = text.op(f"icmp ne i64 %last, {text.op(f'mul i64 {rest}, {columns}')}")
    even = text.op(f"select i1 {moved}, i64 {rest}, i64 %panels")
    fold(text, "0", "%panels", 1, [], clear)
    fold(text, "0", text.op(f"udiv i64 {text.op(f'add i64 %k, {rows - 1}')}, {rows}"), 1, [], block)
    fold(text, "0", even, 2, [], order)
    text.do("ret i64 0")
    declarations = ["declare i64 @llvm.umin.i64(i64, i64)", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"]
    return kernel(text, [*declarations, *dot.declarations])


def _by_columns(text: Text, target: Target, rows: list[str], a_signed: bool, b_signed: bool) -> list[str]:
    """Four rows of a panel: a column's four bytes contiguous, in the order of the columns."""
    (vectors,) = interleaved(text, rows, target, a_signed, b_signed)
    return vectors


def _by_lanes(text: Text, target: Target, rows: list[str], a_signed: bool, b_signed: bool) -> list[str]:
    """Four rows of two panels: a column's four bytes contiguous; each vector has four columns of every lane of 16.

    Interleaving within lanes takes two thirds of the instructions that the order of the columns would take.
    """
    width = target.vector_bytes
    bytes_, shorts = f"<{width} x i8>", f"<{width // 2} x i16>"

    def mixed(first: str, second: str, kind: str, lane: int, half: int, into: str) -> str:
        """Elements of two vectors interleaved, of one half of every group of `lane` elements."""
        count = int(kind[1:].split(" ")[0])
        starts = range(half * lane // 2, count, lane)
        order = [start + i + which * count for start in starts for i in range(lane // 2) for which in range(2)]
        return text.op(f"bitcast {kind} {shuffle(text, first, second, kind, order)} to {into}")

    vectors = []
    for half in (0, 1):
        even, odd = (mixed(rows[i], rows[i + 1], bytes_, 16, half, shorts) for i in (0, 2))
        vectors += [mixed(even, odd, shorts, 8, low, f"<{width // 4} x i32>") for low in (0, 1)]
    if shift_of(target, a_signed, b_signed):
        vectors = [text.op(f"xor <{width // 4} x i32> {x}, {FLIP}") for x in vectors]
    return vectors


def _in_order(text: Text, target: Target, vectors: list[str]) -> list[str]:
    """The columns of `_by_lanes` in order, int32 each."""
    count = target.vector_bytes // 4
    kind = f"<{count} x i32>"
    found = []
    for n in range(4):
        wanted = [(c % 16 // 4, c // 16 * 4 + c % 4) for c in range(n * count, (n + 1) * count)]  # (vector, place in it)
        chosen = {pair: [at + count * (v - pair) for v, at in wanted if v // 2 == pair // 2] for pair in (0, 2)}
        parts = [
            (shuffle(text, vectors[pair], vectors[pair + 1], kind, places), len(places))
            for pair, places in chosen.items()
            if places
        ]
        (first, size), *rest = parts
        found.append(shuffle(text, first, rest[0][0], f"<{size} x i32>", range(count)) if rest else first)
    return found
