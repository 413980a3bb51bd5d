"""Sums of products of slices: AMX multiplies the bytes of rows by those of columns, and float64 adds the sums of each weight.

Bytes are counted from the highest, which is byte 0. Of the 25 products of slices, the 19 with the largest weights are computed:
byte i of a row by byte j of a column for i + j <= 5. For each sum of i and j, a register has sums of 32 bits, which are exact
for up to `MOST` terms.

The other products are of bytes without a sign. For bytes 3, x and y, the sum of (x - 128) (y - 128) is at most the product of
the norms of x - 128 and of y - 128; the rest of x y is a middle of the row plus one of the column, which are added. Products
with a byte 4 are below 2^24 times this byte, in units of the product of both lowest bits.

Each block of terms is rounded once, apart from roundings of much smaller numbers, and added to those before. So the error of a
sum of n terms, of a row below 2^E and a column below 2^F, is at most the product of their sizes, where a row's is

    max(2^E (2^-31 |x - 128| + least sqrt(n)), 2^-22 |a|) + 2^E 2^-54 (sum of bytes 4) / (least sqrt(n)) + 2^22 |lost|,

|a| is the norm of the row, |lost| that of what its integers lose, and least^2 is (blocks + 5/4) 2^-53, which includes another
addition (`left_out`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Signature
from anydml.kernels.code import tile_registers
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import ROWS, TILE
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed.at_once import DONE
from anydml.kernels.contract.floats.packed.tile import BOUND, LINE
from anydml.kernels.contract.floats.slices.slicing import DEPTH, SLICES, STEP
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.copy.text import prefetch

WEIGHTS = 6  # sums of i and j: each has a register
A, B = 6, 7  # registers of rows and of columns
MOST = 8 * DEPTH  # terms of a block: 4 * 255^2 times so many are below 2^31, and 16 columns of them fill the first cache
# a, b: slices of the block's rows and columns, `step` bytes of 64 terms of 16 of them, those of the next 16 behind all terms
# vectors: of eight columns; off: nothing is done if this is not 0
ARGUMENTS = Signature("*a *b rows vectors terms *a_scales *b_scales *a_middles *b_middles *sums sums_row *off")
ENOUGH = Signature("*list *counter *off most")
BEGIN = Signature("*off")
WIDE = Kind("double", 8)


def least(terms: int) -> int:
    """The bits of what a row's size has at least, over its power of two and the root of the number of terms."""
    blocks = -(-terms // MOST)
    return int(np.float64(math.sqrt((blocks + 1.25) * 2.0**-53)).view(np.int64))


def order() -> list[tuple[int, int]]:
    """The pairs of slices that are multiplied, so that one register is loaded for each."""
    made: list[tuple[int, int]] = []
    for i in range(SLICES):
        js = range(min(SLICES, WEIGHTS - i))
        made += [(i, j) for j in (js if i % 2 == 0 else reversed(js))]
    return made


def sums(target: Target) -> str:
    """The kernel that stores sums in float64; arguments: ARGUMENTS."""
    body = Body(target)
    ARGUMENTS.load(body)
    buffer = body.op(f"alloca [{WEIGHTS * ROWS * 64} x i8], align 64")
    shapes = body.op("alloca [64 x i8], align 64")
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    steps = body.op(f"udiv i64 {body.op(f'add i64 %terms, {DEPTH - 1}')}, {DEPTH}")
    blocks = body.op(f"udiv i64 {body.op(f'add i64 %terms, {MOST - 1}')}, {MOST}")
    before = body.op(f"sub i64 {blocks}, 1")
    each = body.op(f"udiv i64 {body.op(f'add i64 {steps}, {before}')}, {blocks}")
    of_sixteen = body.op(f"mul i64 {steps}, {STEP}")
    groups = body.op(f"lshr i64 {body.op(f'add i64 %rows, {ROWS - 1}')}, 4")
    pairs = body.op(f"lshr i64 {body.op('add i64 %vectors, 1')}, 1")

    def block(n: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {n}, {each}")
        count = body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'sub i64 {steps}, {first}')}", f"i64 {each}").name
        done = body.op(f"mul i64 {first}, {STEP}")

        def pair(j: str, _: list[Value]) -> list[Value]:
            b = body.at("%b", body.op(f"add i64 {body.op(f'mul i64 {j}, {of_sixteen}')}, {done}"))

            def group(g: str, _: list[Value]) -> list[Value]:
                a = body.at("%a", body.op(f"add i64 {body.op(f'mul i64 {g}, {of_sixteen}')}, {done}"))
                further = body.at(a, body.op(f"mul i64 {count}, {STEP}"))
                _multiply(body, a, b, count, buffer, [_Ahead(further, j, pairs), _Ahead(body.at(b, of_sixteen), g, groups)])
                _add(body, buffer, g, j, first)
                return []

            body.loop("0", groups, 1, [], group)
            return []

        body.loop("0", pairs, 1, [], pair)
        return []

    def all_() -> None:
        tile_registers.configure(body, shapes)
        body.loop("0", blocks, 1, [], block)
        tile_registers.release(body)

    when(body, body.op(f"icmp eq i64 {body.load('i64', '%off')}, 0"), all_)
    body.do("ret i64 0")
    return kernel(body, [*body.declared, *tile_registers.DECLARATIONS])


class _Ahead(NamedTuple):
    """Slices that are fetched before they are read, in as many parts as there are products until then.

    part: the number of a part.
    """

    at: str
    part: str
    parts: str

    def fetch(self, body: Body, step: str, steps: str) -> None:
        """Fetch a step's share of the part."""
        rest = body.op(f"sub i64 {self.parts}, 1")
        lines = body.op(f"udiv i64 {body.op(f'add i64 {rest}, {STEP // LINE}')}, {self.parts}")
        number = body.op(f"add i64 {body.op(f'mul i64 {self.part}, {steps}')}, {step}")
        first = body.at(self.at, body.op(f"mul i64 {body.op(f'mul i64 {number}, {lines}')}, {LINE}"))

        def line(n: str, _: list[Value]) -> list[Value]:
            prefetch(body, 2, first, body.op(f"mul i64 {n}, {LINE}"))
            return []

        body.loop("0", lines, 1, [], line)


def _multiply(body: Body, a: str, b: str, count: str, buffer: str, ahead: list[_Ahead]) -> None:
    """Store the sums of each weight, of `count` times 64 terms."""
    for register in range(WEIGHTS):
        tile_registers.clear(body, register)

    def step(n: str, _: list[Value]) -> list[Value]:
        at = body.op(f"mul i64 {n}, {STEP}")
        left, right = body.at(a, at), body.at(b, at)
        for some in ahead:
            some.fetch(body, n, count)
        before = (-1, -1)
        for i, j in order():
            if i != before[0]:
                tile_registers.load(body, A, body.at(left, i * TILE))
            if j != before[1]:
                tile_registers.load(body, B, body.at(right, j * TILE))
            tile_registers.multiply(body, i + j, A, B, (i == 0, j == 0))
            before = i, j
        return []

    body.loop("0", count, 1, [], step)
    for register in range(WEIGHTS):
        tile_registers.store(body, register, body.at(buffer, register * TILE))


def _add(body: Body, buffer: str, group: str, pair: str, first: str) -> None:
    """Store the sums of 16 rows and columns, those that exist, or add them to those of the blocks before."""
    row = body.op(f"mul i64 {group}, {ROWS}")
    left = body.op(f"sub i64 %rows, {row}")
    rows = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", f"i64 {ROWS}").name
    column = body.op(f"mul i64 {pair}, {8 * ROWS}")
    of_columns, middles = (
        [body.loaded(WIDE, body.at(f"%b_{name}", column), 64 * half) for half in range(2)] for name in ("scales", "middles")
    )
    into = body.at(body.at("%sums", column), body.op(f"mul i64 {row}, %sums_row"))
    of_rows = [body.at(f"%a_{name}", body.op(f"mul i64 {row}, 8")) for name in ("scales", "middles")]
    second = body.op(f"add i64 {body.op(f'mul i64 {pair}, 2')}, 1")
    beside = body.op(f"icmp ult i64 {second}, %vectors")
    begun = body.op(f"icmp ne i64 {first}, 0")

    def line(m: str, _: list[Value]) -> list[Value]:
        at, of_row = body.at(into, body.op(f"mul i64 {m}, %sums_row")), body.at(buffer, body.op(f"mul i64 {m}, 64"))
        place = body.op(f"mul i64 {m}, 8")
        scale, middle = (body.splat(body.loaded(Kind("double"), x, place), 8) for x in of_rows)

        def half(side: int) -> None:
            total = middle + middles[side]
            (total,) = body.either(begun, lambda: [body.constant(WIDE, 0.0)], lambda: [total])
            for weight in range(WEIGHTS - 1, -1, -1):
                some = body.loaded(Kind("i32", 8), of_row, weight * TILE + 32 * side).converted("sitofp", WIDE)
                total = body.fused(some, 2.0 ** (8 * (2 * SLICES - 2 - weight)), total)
            total = total * (scale * of_columns[side])
            (total,) = body.either(begun, lambda: [body.loaded(WIDE, at, 64 * side) + total], lambda: [total])
            body.stored(total, at, 64 * side)

        half(0)
        when(body, beside, lambda: half(1))
        return []

    body.loop("0", rows, 1, [], line)


def enough(target: Target) -> str:
    """The kernel that says whether the block is stored, but for listed elements; arguments: ENOUGH.

    If more than `most` elements are listed, slices are not used from then on.
    """
    body = Body(target)
    ENOUGH.load(body)
    few = body.op(f"icmp ule i64 {list_of(body).count()}, %most")
    used = body.op(f"icmp eq i64 {body.load('i64', '%off')}, 0")
    done = body.op(f"zext i1 {body.op(f'and i1 {few}, {used}')} to i64")
    body.store("i64", done, "%counter", DONE)
    body.store("i64", body.op(f"xor i64 {done}, 1"), "%off")
    body.stored(body.constant(Kind("double"), 1.0), "%counter", BOUND)  # listed sums do not count as exact
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def begin(target: Target) -> str:
    """The kernel that lets slices be used; arguments: BEGIN."""
    body = Body(target)
    BEGIN.load(body)
    body.store("i64", "0", "%off")
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
