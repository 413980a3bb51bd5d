"""Transpositions: the output's innermost dimension is strided in the input, where another one is contiguous."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anydml.kernels.code.emit import Text, shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.emit import kernel, scratch_memory
from anydml.kernels.copy.text import LINE, loop, prefetch, to_multiple, when

LANE = 16  # instructions that interleave do so within lanes of 16 bytes
BLOCK = 256  # bytes of an input row that a block takes
WRITTEN = 128  # bytes of an output row
PITCH = BLOCK + LINE  # bytes between rows in scratch
BROAD = 4  # cache lines of an output row that are written before those of the next rows


def spans(target: Target, itemsize: int) -> list[tuple[int, int]]:
    """(bytes of an output row, bytes of an input row) of a tile, the best first: the largest that registers hold."""
    widths = [w for w in (64, 32, 16) if w <= target.vector_bytes]
    most = {64: 32, 32: 8, 16: 16}
    sizes = []
    for width in widths:
        span = max(s for s in (16, 32, 64) if s <= width and (s == 16 or s // itemsize <= most[width]))
        sizes += [(width, s) for s in (64, 32, 16) if s <= span]
    return sizes


def tiles(target: Target, itemsize: int, width: int, span: int) -> str:
    """Output rows of n elements that are `source_stride` apart in the input; along outer[0], input elements are contiguous.

    A tile reads `span` bytes of each of the input rows that fill `width` bytes of output rows. Tiles fill blocks that are a
    cache line long in both directions, and aligned to cache lines where strides allow it; the first and the last block are
    shifted back into the tensor.
    """
    tall, wide, line = width // itemsize, span // itemsize, LINE // itemsize

    def body(text: Text, s: str, d: str) -> None:
        across = text.load("i64", "%outer", 0)
        target_row = text.load("i64", "%outer", 16)
        source_rows = [text.op(f"mul i64 %source_stride, {k}") for k in range(4)]
        target_rows = [text.op(f"mul i64 {target_row}, {k}") for k in range(4)]

        def tile(i: str, j: str) -> None:
            i, j = _clamped(text, i, across, wide), _clamped(text, j, "%n", tall)
            rows = _several(text, _place(text, s, i, j, "%source_stride", itemsize), tall, source_rows)
            into = _several(text, _place(text, d, j, i, target_row, itemsize), wide, target_rows)
            for vector, place in zip(transposed(text, rows, itemsize, width, span), into, strict=True):
                text.store(f"<{width} x i8>", vector, place)

        def upto(start: str, step: int, end: str, emit: Callable[[str], None]) -> None:
            loop(text, start, step, lambda x: text.op(f"icmp slt i64 {x}, {end}"), emit)

        def within(start: str, size: int, emit: Callable[[str], None], extent: int = line) -> None:
            upto(start, size, text.op(f"add i64 {start}, {extent}"), emit)

        first_i, first_j = _first(text, s, "%source_stride", itemsize), _first(text, d, target_row, itemsize)

        def block(i0: str, j0: str) -> None:
            within(i0, wide, lambda i: within(j0, tall, lambda j: tile(i, j)))

        def several(j1: str) -> None:
            upto(first_i, line, across, lambda i: within(j1, line, lambda j: block(i, j), BROAD * line))

        upto(first_j, BROAD * line, "%n", several)

    return kernel(body, first=1)


def blocks(target: Target, itemsize: int, width: int, span: int, cache: int, ahead: int) -> str:
    """The same for tensors that exceed the caches, through scratch.

    Rows are prefetched into cache 1 or 2, `ahead` rows in advance.

    A block is 256 bytes of each of the input rows that make 128 bytes of an output row: single lines of distant rows are read
    and written at a quarter of the memory's speed. While one block is transposed from scratch to the output, with non-temporal
    stores, the next one is copied into the other half of scratch, a few rows with each tile, so that reading and writing
    overlap. Rows in the input may be a power of two apart, and would then compete for a few sets of the caches; in scratch they
    are not.
    """
    tall, wide = width // itemsize, span // itemsize
    rows, columns = block_rows(itemsize), BLOCK // itemsize
    tiles_down = rows // tall
    tiles_in_all = tiles_down * (columns // wide)
    per_tile = max(1, rows // tiles_in_all)
    kind = f"<{target.vector_bytes} x i8>"

    def body(text: Text, s: str, d: str) -> None:
        across = text.load("i64", "%outer", 0)
        target_row = text.load("i64", "%outer", 16)
        target_rows = [text.op(f"mul i64 {target_row}, {k}") for k in range(4)]
        scratch = scratch_memory(text)
        scratch_size = rows * PITCH

        def row_of(i: str, j: str, r: str) -> str:
            return text.at(_place(text, s, i, j, "%source_stride", itemsize), text.op(f"mul i64 {r}, %source_stride"))

        def copy(source: str, soon: str, into: str, r: str) -> None:
            """Copy row r of a block to scratch; prefetch a later row of it, or one of the first rows of the next block."""
            further = text.op(f"add i64 {r}, {ahead}")
            here = text.op(f"icmp ult i64 {further}, {rows}")
            base = text.op(f"select i1 {here}, ptr {source}, ptr {soon}")
            number = text.op(f"select i1 {here}, i64 {further}, i64 {text.op(f'sub i64 {further}, {rows}')}")
            near = text.at(base, text.op(f"mul i64 {number}, %source_stride"))
            row = text.at(source, text.op(f"mul i64 {r}, %source_stride"))
            place = text.at(into, text.op(f"mul i64 {r}, {PITCH}"))
            for at in range(0, BLOCK, LINE):
                prefetch(text, cache, near, at)
            values = [text.load(kind, row, at) for at in range(0, BLOCK, target.vector_bytes)]
            for at, value in zip(range(0, BLOCK, target.vector_bytes), values, strict=True):
                text.store(kind, value, place, at)

        first_i = _first(text, s, "%source_stride", itemsize)
        first_j = _first(text, d, target_row, itemsize)

        def after(i: str, j: str) -> tuple[str, str]:
            on = text.op(f"add i64 {i}, {columns}")
            more = text.op(f"icmp slt i64 {on}, {across}")
            down = text.op(f"add i64 {j}, {rows}")
            return text.op(f"select i1 {more}, i64 {on}, i64 {first_i}"), text.op(f"select i1 {more}, i64 {j}, i64 {down}")

        def corner(i: str, j: str) -> tuple[str, str, str]:
            i, j = _clamped(text, i, across, columns), _clamped(text, j, "%n", rows)
            return i, j, _place(text, s, i, j, "%source_stride", itemsize)

        _, _, start = corner(first_i, first_j)
        second = corner(*after(first_i, first_j))[2]
        loop(text, "0", 1, lambda r: text.op(f"icmp ult i64 {r}, {rows}"), lambda r: copy(start, second, scratch, r))
        head, again, done = (text.name(stem) for stem in ("blocks", "again", "done"))
        text.jump("before_blocks")
        text.label("before_blocks")
        text.jump(head)
        text.label(head)
        text.do(f"%block_i = phi i64 [ {first_i}, %before_blocks ], [ %block_i2, %{again} ]")
        text.do(f"%block_j = phi i64 [ {first_j}, %before_blocks ], [ %block_j2, %{again} ]")
        text.do(f"%half = phi i64 [ 0, %before_blocks ], [ %half2, %{again} ]")
        text.do(f"%half2 = sub i64 {scratch_size}, %half")
        i, j, _ = corner("%block_i", "%block_j")
        next_i, next_j = after("%block_i", "%block_j")
        _, _, source = corner(next_i, next_j)
        _, _, soon = corner(*after(next_i, next_j))
        out = _place(text, d, j, i, target_row, itemsize)
        taken, filled = text.at(scratch, "%half"), text.at(scratch, "%half2")

        def emit(past_cache: bool) -> None:
            def tile(q: str) -> None:
                x = text.op(f"mul i64 {text.op(f'udiv i64 {q}, {tiles_down}')}, {wide}")
                y = text.op(f"mul i64 {text.op(f'urem i64 {q}, {tiles_down}')}, {tall}")
                base = _place(text, taken, x, y, str(PITCH), itemsize)
                vectors = transposed(text, [text.at(base, PITCH * k) for k in range(tall)], itemsize, width, span)
                into = _several(text, _place(text, out, y, x, target_row, itemsize), wide, target_rows)
                for vector, place in zip(vectors, into, strict=True):
                    text.store(f"<{width} x i8>", vector, place, stream=width if past_cache else 0)
                for k in range(per_tile):
                    r = text.op(f"add i64 {text.op(f'mul i64 {q}, {per_tile}')}, {k}")
                    if per_tile * tiles_in_all == rows:
                        copy(source, soon, filled, r)
                    else:
                        when(text, text.op(f"icmp ult i64 {r}, {rows}"), partial(copy, source, soon, filled, r))

            loop(text, "0", 1, lambda q: text.op(f"icmp ult i64 {q}, {tiles_in_all}"), tile)

        when(text, text.op(f"icmp eq i64 {j}, %block_j"), lambda: emit(True), lambda: emit(False))
        text.jump(again)
        text.label(again)
        text.do(f"%block_i2 = add i64 {next_i}, 0")
        text.do(f"%block_j2 = add i64 {next_j}, 0")
        text.branch(text.op("icmp slt i64 %block_j2, %n"), head, done)
        text.label(done)

    return kernel(body, first=1)


def block_rows(itemsize: int) -> int:
    """The number of input rows of a block, each of which contributes one element to 128 bytes of an output row."""
    return WRITTEN // itemsize


def scratch_bytes(itemsize: int) -> int:
    """The bytes of scratch of `blocks`."""
    return 2 * block_rows(itemsize) * PITCH + LINE


def _place(text: Text, base: str, along: str, across: str, stride: str, itemsize: int) -> str:
    return text.at(text.at(base, text.op(f"mul i64 {across}, {stride}")), text.op(f"mul i64 {along}, {itemsize}"))


def _several(text: Text, base: str, count: int, steps: list[str]) -> list[str]:
    """The addresses of `count` rows. `steps`: 0, 1, 2 and 3 times the stride."""
    four = text.op(f"shl i64 {steps[1]}, 2")
    places = []
    for k in range(count):
        if k and k % 4 == 0:
            base = text.at(base, four)
        places.append(text.at(base, steps[k % 4]) if k % 4 else base)
    return places


def _first(text: Text, base: str, stride: str, itemsize: int) -> str:
    """The element, at or before 0, at which blocks begin, so that they are aligned to cache lines if the stride allows it."""
    head = text.op(f"lshr i64 {to_multiple(text, base, LINE)}, {itemsize.bit_length() - 1}")
    even = text.op(f"icmp eq i64 {text.op(f'and i64 {stride}, {LINE - 1}')}, 0")
    shifted = text.op(f"and i1 {even}, {text.op(f'icmp ne i64 {head}, 0')}")
    return text.op(f"select i1 {shifted}, i64 {text.op(f'sub i64 {head}, {LINE // itemsize}')}, i64 0")


def _clamped(text: Text, x: str, end: str, size: int) -> str:
    """x, moved so that `size` elements from x on are between 0 and the end."""
    last = text.op(f"sub i64 {end}, {size}")
    return text.op(f"call i64 @llvm.smax.i64(i64 0, i64 {text.op(f'call i64 @llvm.smin.i64(i64 {x}, i64 {last})')})")


def transposed(text: Text, rows: list[str], itemsize: int, width: int, span: int) -> list[str]:
    """The output vectors of a tile, from the addresses of its input rows.

    Each vector of the input holds `span` bytes of one row, or of several rows, side by side. The elements within the 16-byte
    lanes are transposed, then the lanes.
    """
    per_lane, lanes = LANE // itemsize, span // LANE
    pieces = width // span
    groups = []
    for g in range(lanes):
        vectors = []
        for r in range(per_lane):
            parts = [text.load(f"<{span} x i8>", rows[(g * pieces + p) * per_lane + r]) for p in range(pieces)]
            while len(parts) > 1:
                size = width // len(parts)
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [shuffle(text, low, high, f"<{size} x i8>", range(2 * size)) for low, high in pairs]
            vectors.append(parts[0])
        groups.append(_transposed(text, vectors, itemsize, width))
    columns = [_lanes_transposed(text, [group[k] for group in groups], width) for k in range(per_lane)]
    return [columns[k][lane] for lane in range(lanes) for k in range(per_lane)]


def _lanes_transposed(text: Text, vectors: list[str], width: int) -> list[str]:
    """1, 2 or 4 vectors as the same number: the lanes whose number is 0 modulo the count, those whose number is 1, .."""
    if len(vectors) == 1:
        return vectors
    per_vector = width // LANE
    kind = f"<{width // 8} x i64>"
    taken = []
    for parity in range(2):
        indices = [2 * lane + half for lane in range(parity, 2 * per_vector, 2) for half in range(2)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        merged = []
        for a, b in pairs:
            x, y = (text.op(f"bitcast <{width} x i8> {v} to {kind}") for v in (a, b))
            merged.append(text.op(f"bitcast {kind} {shuffle(text, x, y, kind, indices)} to <{width} x i8>"))
        taken.append(_lanes_transposed(text, merged, width))
    return [taken[parity][i] for i in range(len(taken[0])) for parity in range(2)]


def _transposed(text: Text, rows: list[str], itemsize: int, width: int) -> list[str]:
    """The transposition of as many rows as columns of elements, in each 16-byte lane: log2 steps that interleave pairs."""
    count = width // itemsize
    per_lane = LANE // itemsize
    element = f"<{count} x i{8 * itemsize}>"
    current = [text.op(f"bitcast <{width} x i8> {row} to {element}") for row in rows]
    half = len(current) // 2
    low = [lane + i // 2 + (count if i % 2 else 0) for lane in range(0, count, per_lane) for i in range(per_lane)]
    high = [x + per_lane // 2 for x in low]
    for _ in range(half.bit_length()):
        current = [shuffle(text, current[i // 2], current[i // 2 + half], element, (low, high)[i % 2]) for i in range(2 * half)]
    return [text.op(f"bitcast {element} {row} to <{width} x i8>") for row in current]
