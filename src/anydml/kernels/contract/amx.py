"""Sums of products of bytes by AMX: a tile register holds 16 rows of 64 bytes, and one instruction multiplies two of them.

Rows of A are read as they are, 64 bytes of K at a time, and packed B as the dot products of VNNI have it: a row of a tile
register has four elements of each of 16 columns. Two registers of A by two of B fill four registers of sums, which are stored
in a buffer on the stack. A tile adds its terms to them, and the few products of K that are left. While it does so, the
processor computes the sums of the next tiles, for which there is a second buffer.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import tile_registers
from anydml.kernels.code.emit import Text, along, fold, when
from anydml.kernels.code.tile_registers import COUNT

MOST, DEPTH = 4, 16  # tiles in the buffer; steps of K in a tile register, four elements each
LINE = 128  # bytes of a row of sums, and of a step of K in a panel
_SUMS, _A, _B = (0, 1, 2, 3), (4, 5), (6, 7)  # tile registers


class Buffers(NamedTuple):
    """Two buffers, each with the sums of up to MOST tiles: one is filled while the other's sums are rounded.

    sums: their memory; first: the number of each one's first tile. filled, used: which was filled last, and which is rounded.
    size: the bytes of one. depth: steps of K in a tile register; steps: how often it is filled; rest: the steps of K that are
    left.
    """

    sums: str
    first: str
    filled: str
    used: str
    size: int
    depth: str
    steps: str
    rest: str


def begin(text: Text, height: int) -> Buffers:
    """Configure the tile registers for tiles of `height` rows. Uses %groups and %tiles."""
    size = MOST * height * LINE
    sums, first = text.op(f"alloca [{2 * size} x i8], align 64"), text.op("alloca [2 x i64], align 8")
    filled, used = text.op("alloca i64, align 8"), text.op("alloca i64, align 8")
    shapes = text.op("alloca [64 x i8], align 64")
    steps = text.op(f"udiv i64 {text.op(f'add i64 %groups, {DEPTH - 1}')}, {DEPTH}")
    depth = text.op(f"udiv i64 %groups, {steps}")
    rest = text.op(f"sub i64 %groups, {text.op(f'mul i64 {steps}, {depth}')}")
    # two tiles fill the rows of a register, if there are two
    rows = text.op(f"select i1 {text.op('icmp ugt i64 %tiles, 1')}, i64 {2 * height}, i64 {height}")
    text.do(f"store i64 0, ptr {filled}, align 8")
    rows_of_a, rows_of_b = (text.op(f"trunc i64 {x} to i8") for x in (rows, depth))
    width = text.op(f"trunc i64 {text.op(f'mul i64 {depth}, 4')} to i16")
    of = [(rows_of_b if n in _B else rows_of_a, width if n in _A else "64") for n in range(COUNT)]
    tile_registers.configure(text, shapes, of)
    return Buffers(sums, first, filled, used, size, depth, steps, rest)


def fill(text: Text, buffers: Buffers, t: str, a: str, b: str, height: int) -> None:
    """Fill the buffer that is not in use with the sums of tiles from `t` on: of MOST, or of all that are left of a block, which
    ends before %t1. a: the rows of tile t; b: the panel."""
    wide, narrow, done = (text.name(x) for x in ("wide", "narrow", "filled"))
    other = text.op(f"xor i64 {text.op(f'load i64, ptr {buffers.filled}, align 8')}, 1")
    text.do(f"store i64 {other}, ptr {buffers.filled}, align 8")
    sums, first = along(text, buffers.sums, str(buffers.size), other), along(text, buffers.first, "8", other)
    left = text.op(f"sub i64 %t1, {t}")
    text.branch(text.op(f"icmp ugt i64 {left}, 2"), wide, narrow)

    text.label(wide)  # the second register begins at the third tile, or earlier if there is no fourth
    text.do(f"store i64 {t}, ptr {first}, align 8")
    second = text.op(f"call i64 @llvm.umin.i64(i64 {text.op(f'sub i64 {left}, 2')}, i64 2)")
    rows = along(text, a, "%a_row", text.op(f"mul i64 {second}, {height}"))
    into = along(text, sums, str(height * LINE), second)
    of_k = f"i64 {buffers.steps}, i64 {buffers.depth}"
    text.do(f"call void @four(ptr {a}, ptr {rows}, i64 %a_row, ptr {b}, {of_k}, ptr {sums}, ptr {into})")
    text.jump(done)

    text.label(narrow)  # it ends with the last tile, and may begin with one that was computed before
    begun = text.op("call i64 @llvm.usub.sat.i64(i64 %t1, i64 2)")
    text.do(f"store i64 {begun}, ptr {first}, align 8")
    back = text.op(f"mul i64 {text.op(f'sub i64 {begun}, {t}')}, {height}")
    text.do(f"call void @two(ptr {along(text, a, '%a_row', back)}, i64 %a_row, ptr {b}, {of_k}, ptr {sums})")
    text.jump(done)
    text.label(done)


def advance(text: Text, buffers: Buffers, a: tuple[str, str], b: str, inside: str, height: int) -> None:
    """If tile %t is the first of a buffer, use that buffer, and fill the other one with the tiles that come next: of the same
    panel, or else of the next one. a: the rows of the block, and of tile %t. b: the panel. inside: whether there is another."""

    def turn() -> None:
        text.do(f"store i64 {text.op(f'load i64, ptr {buffers.filled}, align 8')}, ptr {buffers.used}, align 8")
        further = text.op(f"add i64 %t, {MOST}")
        here = text.op(f"icmp ult i64 {further}, %t1")
        t = text.op(f"select i1 {here}, i64 {further}, i64 %t0")
        rows = text.op(f"select i1 {here}, ptr {along(text, a[1], '%a_row', str(MOST * height))}, ptr {a[0]}")
        panel = text.op(f"select i1 {here}, ptr {b}, ptr {text.at(b, '%b_panel')}")
        when(text, text.op(f"or i1 {here}, {inside}"), lambda: fill(text, buffers, t, rows, panel, height))

    place = text.op(f"urem i64 {text.op('sub i64 %t, %t0')}, {MOST}")
    when(text, text.op(f"icmp eq i64 {place}, 0"), turn)


def sums_of_tile(text: Text, buffers: Buffers, height: int) -> str:
    """The address of the sums of tile %t."""
    used = text.op(f"load i64, ptr {buffers.used}, align 8")
    first = text.op(f"load i64, ptr {along(text, buffers.first, '8', used)}, align 8")
    sums = along(text, buffers.sums, str(buffers.size), used)
    return along(text, sums, str(height * LINE), text.op(f"sub i64 %t, {first}"))


def rest(text: Text, buffers: Buffers, a: str, b: str) -> tuple[str, str]:
    """The addresses of a row and of a panel at the steps of K that are left."""
    done = text.op(f"sub i64 %groups, {buffers.rest}")
    return text.at(a, text.op(f"mul i64 {done}, 4")), text.at(b, text.op(f"mul i64 {done}, {LINE}"))


def functions(a_signed: bool) -> list[str]:
    """The functions `four` and `two`, which store the sums of two registers or of one register of rows with a panel."""
    return [
        *tile_registers.DECLARATIONS,
        "declare i64 @llvm.usub.sat.i64(i64, i64)",
        *_function("four", "ptr %a0, ptr %a1, i64 %a_row, ptr %b, i64 %steps, i64 %count, ptr %c0, ptr %c1", 2, a_signed),
        *_function("two", "ptr %a0, i64 %a_row, ptr %b, i64 %steps, i64 %count, ptr %c0", 1, a_signed),
    ]


def _function(name: str, parameters: str, many: int, a_signed: bool) -> list[str]:
    """The function that multiplies `many` registers of rows."""
    text = Text()
    for register in _SUMS[: 2 * many]:
        tile_registers.clear(text, register)
    a_step, b_step = (text.op(f"mul i64 %count, {x}") for x in (4, LINE))

    def step(_: str, pointers: list[str]) -> list[str]:
        *a, b = pointers
        for n in range(2):
            tile_registers.load(text, _B[n], text.at(b, 64 * n), LINE)
        for m in range(many):
            tile_registers.load(text, _A[m], a[m], "%a_row")
            for n in range(2):
                tile_registers.multiply(text, _SUMS[2 * m + n], _A[m], _B[n], (a_signed, not a_signed))
        return [*(text.at(x, a_step) for x in a), text.at(b, b_step)]

    fold(text, "0", "%steps", 1, [("ptr", x) for x in (*(f"%a{m}" for m in range(many)), "%b")], step)
    for m in range(many):
        for n in range(2):
            tile_registers.store(text, _SUMS[2 * m + n], text.at(f"%c{m}", 64 * n), LINE)
    text.do("ret void")
    return [f"define internal void @{name}({parameters}) {{", "entry:", *text.lines, "}"]
