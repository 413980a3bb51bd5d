"""The tile of a convolution whose columns are filters: some places of the output by a panel of filters, in registers.

Four bytes of A are four channels at one place of an image, which all filters of the panel multiply. So windows of any shape are
read without a copy, a place of the output needs no neighbours, and only filters are padded to whole panels. In the sums, lanes
are filters; they are transposed when they are stored, so that a filter's places are contiguous.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, fold, kernel, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import estimates, rounding
from anydml.kernels.contract.epilogue.filters import BIAS, COLUMN, SCALE, ZERO_POINT
from anydml.kernels.contract.epilogue.functions import functions
from anydml.kernels.contract.places import transposed_sums
from anydml.kernels.contract.tile import TileKey, panel_columns

MOST = 14  # places of a tile: with two vectors of filters each, and their factors, they fill the registers
MULTIPLY = Signature(
    "*image line *terms terms_line *offsets steps *b b_panel panels last *c c_row c_line line_tiles tiles *row *columns *modes"
)


def serves(target: Target) -> bool:
    """Whether there are masked stores, 32 registers, and dot products of four bytes."""
    dot = dot_of(target)
    return target.architecture == "x86" and target.vector_bytes == 64 and dot.group == dot.depth == 4


def lines_of(width: int) -> int:
    """The lines of a tile, for lines of `width` places."""
    return min(MOST // width, 4 if width <= 3 else 3 if width == 4 else 2) if width <= MOST // 2 else 1


def multiply(target: Target, kind: TileKey, lines: int, height: int) -> str:
    """The kernel of tiles of `lines` lines by `height` places: `line_tiles` tiles down, `tiles` across, each by all panels.

    Arguments: MULTIPLY. line, c_line, terms_line: bytes from line to line. offsets: for each step of K, the offset of its four
    channels in the image from a window's place. terms: int32, of every place. last: the filter at which the last panel begins.
    c_row: bytes from filter to filter.
    """
    dot, width = dot_of(target), target.vector_bytes
    size = 4 if kind.output == "i32" else 1
    vector, columns = f"<{width // 4} x i32>", panel_columns(target)
    text = Text()
    estimates.estimating(MULTIPLY, kind.estimated).load(text)
    places = [(line, i) for line in range(lines) for i in range(height)]
    slots = rounding.slots(text, target, len(places)) if size == 1 and not kind.estimated else None
    waiting = estimates.waiting(text, target, len(places)) if kind.estimated else None

    def tile(image: str, terms: str, c: str) -> None:
        images, from_lines, into_lines = (
            [text.at(x, text.op(f"mul i64 %{of}, {n}")) if n else x for n in range(lines)]
            for x, of in ((image, "line"), (terms, "terms_line"), (c, "c_line"))
        )

        def panel(p: str, _: list[str]) -> list[str]:
            inside = text.op(f"icmp ult i64 {text.op(f'add i64 {p}, 1')}, %panels")
            column = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 {p}, {columns}')}, i64 %last")
            record = text.at("%columns", text.op(f"mul i64 {p}, {COLUMN * columns}"))
            across = text.op(f"mul i64 {column}, %c_row")
            start = [_start(text, kind, text.load("i32", from_lines[n], 4 * i), record, vector) for n, i in places]
            sums = _sums(text, target, kind, start, images, places, text.at("%b", text.op(f"mul i64 {p}, %b_panel")))
            into = [text.at(x, across) for x in into_lines]
            if waiting is not None:
                numbers = text.at("%numbers", text.op(f"mul i64 {column}, 4"))
                transposed_sums.estimated(text, target, kind, sums, places, into, numbers, waiting)
            elif slots is None:
                transposed_sums.stored(text, sums, places, into)
            else:
                transposed_sums.rounded(text, target, kind, sums, places, into, record, slots)
            return []

        fold(text, "0", "%panels", 1, [], panel)

    def each(of_line: str, _: list[str]) -> list[str]:
        first = text.op(f"mul i64 {of_line}, {lines}")
        starts = [text.at(f"%{x}", text.op(f"mul i64 {first}, %{by}")) for x, by in _BY_LINE]

        def across(t: str, _: list[str]) -> list[str]:
            place = text.op(f"mul i64 {t}, {height}")
            far = [text.op(f"mul i64 {place}, {n}") for n in (4, 4, size)]
            tile(*(text.at(x, by) for x, by in zip(starts, far, strict=True)))
            return []

        fold(text, "0", "%tiles", 1, [], across)
        return []

    fold(text, "0", "%line_tiles", 1, [], each)
    text.do("ret i64 0")
    others = [*dot.declarations, "declare void @llvm.masked.store.v16i8.p0(<16 x i8>, ptr, i32, <16 x i1>)"]
    others.append("declare void @llvm.masked.store.v16i32.p0(<16 x i32>, ptr, i32, <16 x i1>)")
    bias = BIAS - SCALE if kind.biased else None
    return kernel(text, [*others, *functions(target, kind.output, False, kind.estimated, bias_at=bias)])


_BY_LINE = (("image", "line"), ("terms", "terms_line"), ("c", "c_line"))


def _start(text: Text, kind: TileKey, term: str, record: str, vector: str) -> list[str]:
    """The sums' initial values: the terms of a place and of its filters."""
    of_place, found = splat(text, term, vector), []
    for n in range(2):
        value = of_place
        if kind.full:
            value = text.op(f"mul {vector} {value}, {text.load(vector, record, ZERO_POINT + 64 * n)}")
        found.append(text.op(f"add {vector} {value}, {text.load(vector, record, 64 * n)}"))
    return found


def _sums(
    text: Text,
    target: Target,
    kind: TileKey,
    start: list[list[str]],
    images: list[str],
    places: list[tuple[int, int]],
    b: str,
) -> list[list[str]]:
    """The sums of the tile's products, which begin at the terms."""
    dot, vector = dot_of(target), f"<{target.vector_bytes // 4} x i32>"
    origin, body, after = (text.name(x) for x in ("from", "body", "after"))
    old, new = ([[f"%{text.name(x)}" for _ in row] for row in start] for x in "cd")
    i, j, here, further = (f"%{text.name(x)}" for x in "ijpq")
    text.jump(origin)
    text.label(origin)
    text.jump(body)
    text.label(body)
    for row in zip(start, old, new, strict=True):
        for x, y, z in zip(*row, strict=True):
            text.do(f"{y} = phi {vector} [ {x}, %{origin} ], [ {z}, %{body} ]")
    text.do(f"{here} = phi ptr [ {b}, %{origin} ], [ {further}, %{body} ]")
    text.do(f"{i} = phi i64 [ 0, %{origin} ], [ {j}, %{body} ]")
    offset = text.load("i64", text.op(f"getelementptr i64, ptr %offsets, i64 {i}"))
    filters = [text.load(vector, here, 64 * n) for n in range(2)]
    windows = [text.at(image, offset) for image in images]
    for (line, at), sums, into in zip(places, old, new, strict=True):
        a = splat(text, text.load("i32", windows[line], 4 * at), vector)
        for x, y, b_ in zip(sums, into, filters, strict=True):
            value = dot.emit(text, x, a, b_, kind.a_signed, kind.b_signed)
            text.do(f"{y} = bitcast {vector} {value} to {vector}")
    text.do(f"{further} = getelementptr i8, ptr {here}, i64 128")
    text.do(f"{j} = add i64 {i}, 1")
    text.branch(text.op(f"icmp eq i64 {j}, %steps"), after, body)
    text.label(after)
    return new
