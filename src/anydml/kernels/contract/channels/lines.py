"""Convolutions of one channel with one filter each: lines of the output, from fours of elements.

A dot product takes four neighbours in a line of the filter, which are the same for all outputs of a channel, and for each
output the four elements of the input that they multiply. These fours are assembled once for every line of the image, and used
for all lines of the output that read it.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import Text, along, fold, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import estimates, rounding, rule
from anydml.kernels.contract.epilogue.functions import functions
from anydml.kernels.contract.tile import TileKey, panel_columns

ROWS = 4  # rows of a tile: each is 32 outputs of a line, or 16 outputs of each of two lines
MULTIPLY = Signature(
    "*fours channels channel line *offsets *weights of_channel tiles width *c c_row c_line *rows *column *modes"
)


def multiply(target: Target, kind: TileKey, height: int, narrow: bool) -> str:
    """Tiles of `height` lines of every channel: 32 outputs of each line, or 16 if two lines share a row.

    Arguments: MULTIPLY. channel, line: bytes between channels and between lines of fours. weights: for each channel, of_channel
    bytes apart, the number of steps and four bytes for each step. offsets: of a step's fours from the line. width: outputs of a
    line. c_row: bytes between channels. rows: the channels' records. column: the record of a panel without terms.
    """
    dot, bytes_ = dot_of(target), target.vector_bytes
    size = 4 if kind.output == "i32" else 1
    vector, columns = f"<{bytes_ // 4} x i32>", panel_columns(target)
    lanes = columns // 2
    text = Text()
    estimates.estimating(MULTIPLY, kind.estimated).load(text)
    rows = -(-height // 2) if narrow else height
    # for each row and vector: its line, and the number of the vector in that line; the last line may not exist
    parts = [[(2 * r + n, 0) if narrow else (r, n) for n in range(2)] for r in range(rows)]
    slots = rounding.slots(text, target, rows) if size == 1 and not kind.estimated else None
    waiting = estimates.waiting(text, target, rows) if kind.estimated else None

    def tile(from_: str, into: str, x: str, row: str, numbers: str, steps: str, weights: str) -> None:
        left = text.op(f"sub i64 %width, {x}")
        lines = [along(text, from_, "%line", str(m)) if m else from_ for m in range(height)]
        term = splat(text, text.load("i32", row, rule.TERM), vector)
        there = [(r, n) for r in range(rows) for n in range(2) if parts[r][n][0] < height]

        def step(k: str, sums: list[str]) -> list[str]:
            offset = text.load("i64", text.op(f"getelementptr i64, ptr %offsets, i64 {k}"))
            weight = splat(text, text.load("i32", text.op(f"getelementptr i32, ptr {weights}, i64 {k}")), vector)
            sources = [text.at(line, offset) for line in lines]
            found = []
            for (r, n), value in zip(there, sums, strict=True):
                line, at = parts[r][n]
                found.append(dot.emit(text, value, text.load(vector, sources[line], at * bytes_), weight, False, True))
            return found

        found = dict(zip(there, fold(text, "0", steps, 1, [(vector, term)] * len(there), step)[1], strict=True))
        if size == 4:
            for (r, n), value in found.items():
                line, at = parts[r][n]
                mask = _below(text, text.op(f"call i64 @llvm.usub.sat.i64(i64 {left}, i64 {16 * at})"), 16)
                place = text.at(along(text, into, "%c_line", str(line)), bytes_ * at)
                text.do(f"call void @llvm.masked.store.v16i32.p0({vector} {value}, ptr {place}, i32 1, <16 x i1> {mask})")
            return
        sums = [[found[r, n] if (r, n) in found else found[r, 0] for n in range(2)] for r in range(rows)]

        def stored(value: str, place: str, row: int | str) -> None:
            if not narrow:
                _masked(text, value, place, columns, _below(text, left, columns))
                return
            for n in range(2):
                there = left
                if n:
                    place = text.at(place, "%c_line")
                    line = text.op(f"add i64 {text.op(f'mul i64 {row}, 2')}, 1")
                    there = text.op(f"select i1 {text.op(f'icmp ult i64 {line}, {height}')}, i64 {left}, i64 0")
                half = shuffle(text, value, value, f"<{columns} x i8>", range(n * lanes, (n + 1) * lanes))
                _masked(text, half, place, lanes, _below(text, there, lanes))

        def listed(r: str, sums: str) -> None:
            place = along(text, into, "%c_tile_row", r)
            if not narrow:
                estimates.list_row(text, sums, numbers, place, inside=_lowest(text, left, columns))
                return
            below = _lowest(text, left, lanes)
            estimates.list_row(text, sums, numbers, place, inside=below)
            second = text.op(f"add i64 {text.op(f'mul i64 {r}, 2')}, 1")
            below = text.op(f"select i1 {text.op(f'icmp ult i64 {second}, {height}')}, i64 {below}, i64 0")
            place = text.at(text.at(place, "%c_line"), -lanes)
            estimates.list_row(text, sums, numbers, place, inside=text.op(f"shl i64 {below}, {lanes}"))

        signed = kind.output == "i8"
        if waiting is not None:
            channel = estimates.of_row(text, target, numbers)
            estimates.epilogue(
                text, target, signed, kind.clamped, sums, waiting, kind.estimated, lambda m, n: channel,
                into, "%c_tile_row", listed, stored,
            )  # fmt: skip
        elif slots is not None:
            rounding.epilogue(
                text, target, signed, sums, slots, row, "%column", into, "%c_tile_row", kind.biased, row_step=0, stored=stored
            )

    text.do(f"%c_tile_row = mul i64 %c_line, {2 if narrow else 1}")

    def channel(c: str, _: list[str]) -> list[str]:
        weights = along(text, "%weights", "%of_channel", c)
        steps, four = text.load("i64", weights), text.at(weights, 8)
        row = text.at("%rows", text.op(f"mul i64 {c}, {rule.ROW}"))
        numbers = along(text, "%numbers", "%step", c) if kind.estimated else ""
        of_fours, of_c = along(text, "%fours", "%channel", c), along(text, "%c", "%c_row", c)

        def lines(t: str, _: list[str]) -> list[str]:
            first = text.op(f"mul i64 {t}, {height}")
            from_, into = along(text, of_fours, "%line", first), along(text, of_c, "%c_line", first)

            def across(x: str) -> None:
                tile(
                    text.at(from_, text.op(f"mul i64 {x}, 4")),
                    text.at(into, text.op(f"mul i64 {x}, {size}")),
                    x, row, numbers, steps, four,
                )  # fmt: skip

            places = lanes if narrow else columns
            count = text.op(f"udiv i64 {text.op(f'add i64 %width, {places - 1}')}, {places}")

            def one(i: str, _: list[str]) -> list[str]:
                across(text.op(f"mul i64 {i}, {places}"))
                return []

            fold(text, "0", count, 1, [], one)
            return []

        fold(text, "0", "%tiles", 1, [], lines)
        return []

    fold(text, "0", "%channels", 1, [], channel)
    text.do("ret i64 0")
    others = [*dot.declarations, "declare i64 @llvm.usub.sat.i64(i64, i64)", "declare i64 @llvm.umin.i64(i64, i64)"]
    others += [f"declare void @llvm.masked.store.v{n}i8.p0(<{n} x i8>, ptr, i32, <{n} x i1>)" for n in (lanes, columns)]
    others.append(f"declare void @llvm.masked.store.v16i32.p0({vector}, ptr, i32, <16 x i1>)")
    return kernel(text, [*others, *functions(target, kind.output, kind.biased, kind.estimated)])


def _below(text: Text, count: str, lanes: int) -> str:
    """A mask of the first `count` lanes, at most all."""
    bits = _lowest(text, count, lanes)
    return text.op(f"bitcast i{lanes} {text.op(f'trunc i64 {bits} to i{lanes}')} to <{lanes} x i1>")


def _lowest(text: Text, count: str, lanes: int) -> str:
    """An int64 whose lowest `count` bits are set, at most one per lane."""
    most = text.op(f"call i64 @llvm.umin.i64(i64 {count}, i64 {lanes})")
    return text.op(f"sub i64 {text.op(f'shl i64 1, {most}')}, 1")


def _masked(text: Text, value: str, place: str, lanes: int, mask: str) -> None:
    kind = f"<{lanes} x i8>"
    text.do(f"call void @llvm.masked.store.v{lanes}i8.p0({kind} {value}, ptr {place}, i32 1, <{lanes} x i1> {mask})")
