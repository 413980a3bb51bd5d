"""The tile of integer products: a block of the output in registers, from the first product to the last byte.

`multiply` walks over panels of packed B and tiles of rows of A. A tile starts with its correction terms, adds the dot products
of A's rows, four bytes of which are broadcast at a time, with the panel's vectors, and ends in an epilogue: int32 sums are
stored, or rounded to saturated bytes (`rounding`).
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import tile_registers
from anydml.kernels.code.emit import Text, along, kernel, shuffle, splat
from anydml.kernels.code.targets import Target
from anydml.kernels.contract import amx
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import estimates, rounding
from anydml.kernels.contract.epilogue.functions import functions
from anydml.kernels.contract.epilogue.rule import A_ZERO_POINT, ROW, TERM


class TileKey(NamedTuple):
    """The key of a tile's code.

    a_signed, b_signed: whether A, and B as it is packed, are INT8. output: "i32", "u8" or "i8". full: whether zero points
    differ by row or by column. biased: whether rows have a bias. estimated: "row" or "column" if outputs are estimated by
    numbers of these; clamped: whether estimates are clamped, too. column_biased: whether columns have a bias; then A has one
    zero point.
    """

    a_signed: bool
    b_signed: bool
    output: str
    full: bool
    biased: bool = False
    estimated: str = ""
    clamped: bool = False
    column_biased: bool = False


MULTIPLY = Signature("*a a_row *b b_panel *c c_row groups tiles block panels *rows *columns *modes last")  # fmt: skip


def panel_columns(target: Target) -> int:
    return dot_of(target).vectors * target.vector_bytes // 4


def column_bytes(target: Target) -> int:
    """The bytes of the record of a panel: for each column its term i32, its BScale f32, its shifted BZeroPoint i32, and the
    part of its bias that is not in the term, i32."""
    return 16 * panel_columns(target)


def multiply(target: Target, kind: TileKey, height: int, multiplied: bool = False) -> str:
    """The kernel of tiles of `height` rows: `block` tiles of every panel, then the next `block`, until `tiles` of all panels
    are done.

    Arguments: MULTIPLY, int64 each. a_row, b_panel, c_row: bytes from row to row or panel to panel. groups: steps of K. last:
    the offset in a row of C at which the last panel begins, in bytes; it may overlap the one before. multiplied: whether b has
    int32 sums of products instead of B, panel by panel, in rows a_row bytes apart; one tile.
    """
    dot = dot_of(target)
    size = 4 if kind.output == "i32" else 1
    columns = panel_columns(target)
    text = Text()
    estimates.estimating(MULTIPLY, kind.estimated).load(text)
    slots = rounding.slots(text, target, height) if size == 1 and not kind.estimated else None
    waiting = estimates.waiting(text, target, height) if kind.estimated else None
    buffers = amx.begin(text, height) if dot.amx and not multiplied else None
    text.jump("blocks")
    text.label("blocks")
    text.do("%t0 = phi i64 [ 0, %entry ], [ %t1, %blocksnext ]")
    text.do("%t1wish = add i64 %t0, %block")
    text.do("%t1 = call i64 @llvm.umin.i64(i64 %t1wish, i64 %tiles)")
    text.do(f"%t0rows = mul i64 %t0, {height}")
    a0 = text.at("%a", text.op("mul i64 %t0rows, %a_row"))
    c0 = text.at("%c", text.op("mul i64 %t0rows, %c_row"))
    r0 = text.at("%rows", text.op(f"mul i64 %t0rows, {ROW}"))
    a_step = text.op(f"mul i64 %a_row, {height}")
    c_step = text.op(f"mul i64 %c_row, {height}")
    n0, n_step = "%numbers", "0"
    if kind.estimated == estimates.BY_ROW:
        n0, n_step = text.at(n0, text.op("mul i64 %t0rows, %step")), text.op(f"mul i64 %step, {height}")
    if buffers is not None:
        amx.fill(text, buffers, "%t0", a0, "%b", height)
    text.jump("begun")
    text.label("begun")
    text.jump("panel")
    text.label("panel")
    text.do("%p = phi i64 [ 0, %begun ], [ %p1, %panelnext ]")
    text.do("%p1 = add i64 %p, 1")
    bp = text.at("%b", text.op("mul i64 %p, %b_panel"))
    col = text.at("%columns", text.op(f"mul i64 %p, {column_bytes(target)}"))
    inside = text.op("icmp ult i64 %p1, %panels")
    across = text.op(f"select i1 {inside}, i64 {text.op(f'mul i64 %p, {columns * size}')}, i64 %last")
    cp = text.at(c0, across)
    np = text.at(n0, text.op(f"mul i64 {across}, 4")) if kind.estimated == estimates.BY_COLUMN else n0
    text.jump("tile")
    text.label("tile")
    text.do("%t = phi i64 [ %t0, %panel ], [ %tnext, %tilenext ]")
    text.do(f"%at = phi ptr [ {a0}, %panel ], [ %atnext, %tilenext ]")
    text.do(f"%ct = phi ptr [ {cp}, %panel ], [ %ctnext, %tilenext ]")
    text.do(f"%rt = phi ptr [ {r0}, %panel ], [ %rtnext, %tilenext ]")
    if kind.estimated:
        text.do(f"%nt = phi ptr [ {np}, %panel ], [ %ntnext, %tilenext ]")
    if buffers is not None:
        amx.advance(text, buffers, (a0, "%at"), bp, inside, height)
    sums = _start(text, target, kind, height, "%rt", col)
    if multiplied:
        sums = _added(text, target, sums, bp, "%a_row")
    elif buffers is not None:
        sums = _added(text, target, sums, amx.sums_of_tile(text, buffers, height), str(amx.LINE))
        a, b = amx.rest(text, buffers, "%at", bp)
        sums = _sums(text, target, kind, height, sums, a, b, buffers.rest)
    else:
        sums = _sums(text, target, kind, height, sums, "%at", bp, "%groups")
    if waiting is not None:
        _estimated(text, target, kind, sums, waiting)
    elif slots is None:
        for m, row in enumerate(sums):
            into = text.at("%ct", text.op(f"mul i64 %c_row, {m}"))
            for n, value in enumerate(row):
                text.store(f"<{target.vector_bytes // 4} x i32>", value, into, n * target.vector_bytes)
    else:
        rounding.epilogue(text, target, kind.output == "i8", sums, slots, "%rt", col, "%ct", "%c_row", kind.biased)
    text.jump("tilenext")
    text.label("tilenext")
    text.do("%tnext = add i64 %t, 1")
    text.do(f"%atnext = getelementptr i8, ptr %at, i64 {a_step}")
    text.do(f"%ctnext = getelementptr i8, ptr %ct, i64 {c_step}")
    text.do(f"%rtnext = getelementptr i8, ptr %rt, i64 {ROW * height}")
    if kind.estimated:
        text.do(f"%ntnext = getelementptr i8, ptr %nt, i64 {n_step}")
    text.branch(text.op("icmp ult i64 %tnext, %t1"), "tile", "panelnext")
    text.label("panelnext")
    text.branch(inside, "panel", "blocksnext")
    text.label("blocksnext")
    text.branch(text.op("icmp ult i64 %t1, %tiles"), "blocks", "end")
    text.label("end")
    if buffers is not None:
        tile_registers.release(text)
    text.do("ret i64 0")
    others = ["declare i64 @llvm.umin.i64(i64, i64)", *dot.declarations]
    if buffers is not None:
        others += amx.functions(kind.a_signed)
    bias_at = 8 * columns if kind.column_biased else None  # from BScale
    return kernel(text, [*others, *functions(target, kind.output, kind.biased, kind.estimated, bias_at)])


def _estimated(text: Text, target: Target, kind: TileKey, sums: list[list[str]], waiting: estimates.Waiting) -> None:
    """Store the estimated bytes of a tile, and list the places whose estimates are not certain."""

    def of(m: int, n: int) -> estimates.Channel:
        if kind.estimated == estimates.BY_COLUMN:
            return estimates.of_columns(text, target, "%nt", n)
        return estimates.of_row(text, target, along(text, "%nt", "%step", str(m)) if m else "%nt")

    def listed(m: str, sums: str) -> None:
        numbers = along(text, "%nt", "%step", m) if kind.estimated == estimates.BY_ROW else "%nt"
        estimates.list_row(text, sums, numbers, along(text, "%ct", "%c_row", m))

    by, signed = kind.estimated, kind.output == "i8"
    estimates.epilogue(text, target, signed, kind.clamped, sums, waiting, by, of, "%ct", "%c_row", listed)


def _start(text: Text, target: Target, kind: TileKey, height: int, row: str, column: str) -> list[list[str]]:
    """The correction terms of a tile, row by row: vectors of int32."""
    dot, width = dot_of(target), target.vector_bytes
    vector = f"<{width // 4} x i32>"

    start: list[list[str]] = []
    terms = [text.load(vector, column, n * width) for n in range(dot.vectors)]
    by_column = kind.full and not kind.biased
    zero_points = [text.load(vector, column, (2 * dot.vectors + n) * width) for n in range(dot.vectors)] if by_column else []
    for m in range(height):
        term = splat(text, text.load("i32", row, ROW * m + TERM), vector)
        if kind.full:
            left = terms
            if not kind.column_biased:
                a_zero_point = splat(text, text.load("i32", row, ROW * m + A_ZERO_POINT), vector)
                left = [text.op(f"mul {vector} {a_zero_point}, {x}") for x in terms]
            right = [text.op(f"mul {vector} {term}, {x}") for x in zero_points] if by_column else [term] * dot.vectors
            start.append([text.op(f"add {vector} {x}, {y}") for x, y in zip(left, right, strict=True)])
        else:
            start.append([text.op(f"add {vector} {term}, {x}") for x in terms])
    return start


def _added(text: Text, target: Target, start: list[list[str]], sums: str, row_bytes: str) -> list[list[str]]:
    """The terms, plus sums of products that are in memory."""
    vector = f"<{target.vector_bytes // 4} x i32>"
    found = []
    for m, row in enumerate(start):
        at = text.at(sums, text.op(f"mul i64 {row_bytes}, {m}"))
        loads = [text.load(vector, at, n * target.vector_bytes) for n in range(len(row))]
        found.append([text.op(f"add {vector} {x}, {y}") for x, y in zip(row, loads, strict=True)])
    return found


def _sums(
    text: Text, target: Target, kind: TileKey, height: int, start: list[list[str]], a: str, b: str, groups: str
) -> list[list[str]]:
    """The sums of the tile's products, which begin at the terms. groups: the steps of K."""
    dot = dot_of(target)
    # a pointer serves three rows: addressing modes scale the stride for the two others
    pointers = [text.at(a, text.op(f"mul i64 %a_row, {m}")) if m else a for m in range(0, height, 3)] + [b]
    if dot.square:
        start = [_halves(text, target, start[m], start[min(m + 1, height - 1)]) for m in range(0, height, 2)]
    sums = _products(text, target, kind, height, start, pointers, groups)
    if dot.square:
        split = [_halves(text, target, pair[::2], pair[1::2]) for pair in sums]
        sums = [x[at::2] for x in split for at in (0, 1)]
    return sums[:height]


def _halves(text: Text, target: Target, first: list[str], second: list[str]) -> list[str]:
    """Convert between four columns of a row in each vector, and two columns of two rows; the function is its own inverse."""
    vector = f"<{target.vector_bytes // 4} x i32>"
    orders = (0, 1, 4, 5), (2, 3, 6, 7)
    return [shuffle(text, x, y, vector, order) for x, y in zip(first, second, strict=True) for order in orders]


def _products(
    text: Text, target: Target, kind: TileKey, height: int, start: list[list[str]], pointers: list[str], groups: str
) -> list[list[str]]:
    """start, the sums of rows or of pairs of rows, plus the dot products of all groups."""
    dot, vector = dot_of(target), f"<{target.vector_bytes // 4} x i32>"
    many_rows, vectors = len(start), len(start[0])
    # several chains of sums if the tile is too small to keep the dot-product units busy with one
    chains = 1 << max(1, dot.chains // (many_rows * vectors)).bit_length() - 1  # a power of two, since halves are added
    if chains == 1:
        return _loop(text, target, kind, height, start, pointers, 1, groups)[0]
    zero = [[["zeroinitializer"] * vectors for _ in range(many_rows)] for _ in range(chains - 1)]
    many = text.op(f"udiv i64 {groups}, {chains}")
    rest = text.op(f"urem i64 {groups}, {chains}")
    flat = [row for sums in (start, *zero) for row in sums]
    flat, pointers = _loop(text, target, kind, height, flat, pointers, chains, many)
    while len(flat) > many_rows:  # add the chains up
        flat = [
            [text.op(f"add {vector} {x}, {y}") for x, y in zip(flat[m], flat[m + len(flat) // 2], strict=True)]
            for m in range(len(flat) // 2)
        ]
    return _loop(text, target, kind, height, flat, pointers, 1, rest)[0]


def _loop(
    text: Text,
    target: Target,
    kind: TileKey,
    height: int,
    start: list[list[str]],
    pointers: list[str],
    chains: int,
    count: str,
) -> tuple[list[list[str]], list[str]]:
    """`count` times `chains` steps of K; start: the sums of the first chain's rows, then of the next one's."""
    dot, width = dot_of(target), target.vector_bytes
    vector = f"<{width // 4} x i32>"
    rows, vectors = len(start) // chains, len(start[0])
    emit = dot.square or dot.emit
    origin, head, body, after = (text.name(x) for x in ("from", "head", "body", "after"))
    text.jump(origin)
    text.label(origin)
    # otherwise there is at least one step, and one branch is enough
    tested_first = chains > 1 or rows * vectors <= dot.chains // 2 or dot.amx
    latch = body
    text.jump(head)
    text.label(head)
    old = [[f"%{text.name('c')}" for _ in row] for row in start]
    new = [[f"%{text.name('d')}" for _ in row] for row in start]
    for row in zip(start, old, new, strict=True):
        for x, y, z in zip(*row, strict=True):
            text.do(f"{y} = phi {vector} [ {x}, %{origin} ], [ {z}, %{latch} ]")
    here = [f"%{text.name('p')}" for _ in pointers]
    further = [f"%{text.name('q')}" for _ in pointers]
    for x, y, z in zip(pointers, here, further, strict=True):
        text.do(f"{y} = phi ptr [ {x}, %{origin} ], [ {z}, %{latch} ]")
    i, j = f"%{text.name('i')}", f"%{text.name('j')}"
    text.do(f"{i} = phi i64 [ {count}, %{origin} ], [ {j}, %{latch} ]")
    if tested_first:
        text.branch(text.op(f"icmp eq i64 {i}, 0"), after, body)
    else:
        text.jump(body)
    text.label(body)
    for u in range(chains):
        panel = [text.load(vector, here[-1], (u * vectors + n) * width) for n in range(vectors)]
        for m in range(rows):
            if dot.square:
                a = _pair(text, *(_row(text, here, row, "i64", u) for row in (2 * m, min(2 * m + 1, height - 1))))
            else:
                a = splat(text, _row(text, here, m, "i32", u), vector)
            for n in range(vectors):
                value = emit(text, old[u * rows + m][n], a, panel[n], kind.a_signed, kind.b_signed)
                text.do(f"{new[u * rows + m][n]} = bitcast {vector} {value} to {vector}")
    for at, (x, y) in enumerate(zip(here, further, strict=True)):
        step = chains * (vectors * width if at == len(here) - 1 else dot.depth)
        text.do(f"{y} = getelementptr i8, ptr {x}, i64 {step}")
    text.do(f"{j} = add i64 {i}, -1")
    if tested_first:
        text.jump(head)
    else:
        text.branch(text.op(f"icmp eq i64 {j}, 0"), after, head)
    text.label(after)
    return (old, here) if tested_first else (new, further)


def _row(text: Text, pointers: list[str], m: int, kind: str, step: int) -> str:
    """The operand that a step takes of a row."""
    pointer = pointers[m // 3]
    if m % 3:
        pointer = text.op(f"getelementptr [{m % 3} x i8], ptr {pointer}, i64 %a_row")
    return text.load(kind, pointer, int(kind[1:]) // 8 * step)


def _pair(text: Text, first: str, second: str) -> str:
    low = text.op(f"insertelement <2 x i64> poison, i64 {first}, i32 0")
    both = text.op(f"insertelement <2 x i64> {low}, i64 {second}, i32 1")
    return text.op(f"bitcast <2 x i64> {both} to <4 x i32>")
