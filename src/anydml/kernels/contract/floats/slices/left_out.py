"""Listed elements again, with the products of slices that were left out: these decide nearly all.

To a sum that has the middles of its row and column in place of the products of bytes 2 and 4, 3 and 3, 4 and 2, come these
products less the middles. What is still left out is below 2^16 times the bytes 4.
"""

from __future__ import annotations

import math

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import ROWS, TILE
from anydml.kernels.code.together import BYTES
from anydml.kernels.code.values import Body, Kind, Value, part
from anydml.kernels.contract.floats.elements import streams
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import bounded, stored
from anydml.kernels.contract.floats.packed.at_once import DONE
from anydml.kernels.contract.floats.second import exactly
from anydml.kernels.contract.floats.slices.slicing import DEPTH, INTS, SLICES, STEP
from anydml.kernels.contract.floats.stores import list_of

PAIRS = ((2, 4), (3, 3), (4, 2))  # bytes of rows, and of columns
LANES = 2  # all hold the same element
HALVES = Kind("i16", 32)
ARGUMENTS = Signature(
    "*a *b terms *a_scales *b_scales *a_middles *b_middles *a_nearer *b_nearer *sums sums_row factor *list *counter first f1 f2"
)


def decided(target: Target, key: EpilogueKey) -> str:
    """The kernel that decides listed elements, or leaves them on the list; arguments: ARGUMENTS, and streams.

    It does nothing unless DONE is set.
    """
    body = Body(target)
    with_streams(ARGUMENTS, len(key.layouts)).load(body)
    steps = body.op(f"udiv i64 {body.op(f'add i64 %terms, {DEPTH - 1}')}, {DEPTH}")
    list_ = list_of(body)

    def all_() -> None:
        list_.counted(list_.sift("0", list_.count(), lambda slot: _stays(body, key, steps, slot)))

    when(body, body.op(f"icmp ne i64 {body.load('i64', '%counter', DONE)}, 0"), all_)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def _stays(body: Body, key: EpilogueKey, steps: str, slot: str) -> str:
    """Decide an entry of the list. Returns 1 if it stays undecided, else 0."""
    double = Kind("double")
    entry = body.load("i64", slot)
    row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
    offsets = {side: body.op(f"mul i64 {number}, 8") for side, number in (("a", row), ("b", column))}
    scale, middle, bound = (
        [body.loaded(double, f"%{side}_{name}", offset) for side, offset in offsets.items()]
        for name in ("scales", "middles", "nearer")
    )
    place = body.op(f"add i64 {body.op(f'mul i64 {row}, %sums_row')}, {body.op(f'mul i64 {column}, 8')}")
    rest = _products(body, steps, row, column).converted("sitofp", double) * 2.0**16 - (middle[0] + middle[1])
    total = body.loaded(double, "%sums", place) + rest * (scale[0] * scale[1])
    error = bound[0] * bound[1].magnitude() * Value(body, body.op("bitcast i64 %factor to double"), double)
    read, output = streams(body, key, LANES, row, body.op(f"add i64 %first, {column}"))
    sums, errors = body.splat(total, LANES), body.splat(error, LANES)
    guard = exactly.signed(key.stored, sums, read) | ~(sums.magnitude() + errors).compared("olt", math.inf)
    made, undecided = stored(body, key.stored, read, bounded(sums, errors, guard), LANES)
    assert undecided is not None
    is_undecided = undecided.lane(0)
    when(body, (~is_undecided).name, lambda: body.stored(made.lane(0), output))
    return is_undecided.converted("zext", Kind("i64")).name


def _products(body: Body, steps: str, row: str, column: str) -> Value:
    """The sum of the products of `PAIRS`."""
    of_sixteen = body.op(f"mul i64 {steps}, {STEP}")

    def place(base: str, number: str, size: int) -> str:
        sixteen = body.at(base, body.op(f"mul i64 {body.op(f'udiv i64 {number}, {ROWS}')}, {of_sixteen}"))
        return body.at(sixteen, body.op(f"mul i64 {body.op(f'urem i64 {number}, {ROWS}')}, {size}"))

    left, right = place("%a", row, DEPTH), place("%b", column, 4)
    fours, all_ = body.constants("i64", range(0, TILE, TILE // ROWS)), body.constant(Kind("i1", ROWS), True)

    def step(n: str, sums: list[Value]) -> list[Value]:
        at = body.op(f"mul i64 {n}, {STEP}")
        a, b = body.at(left, at), body.at(right, at)
        some = range(SLICES - len(PAIRS), SLICES)
        rows = {p: body.loaded(BYTES, a, p * TILE) for p in some}
        columns = {p: body.masked(INTS, body.at(b, p * TILE), all_, fours).cast(BYTES) for p in some}
        (total,) = sums
        for i, j in PAIRS:
            for half in (0, 32):
                x, y = (part(v, half, 32).converted("zext", HALVES) for v in (rows[i], columns[j]))
                total = total + body.call("llvm.x86.avx512.pmaddw.d.512", INTS, x, y)
        return [total]

    (total,) = body.loop("0", steps, 1, [body.constant(INTS, 0)], step)[1]
    wide = total.converted("zext", Kind("i64", ROWS))
    return body.call(f"llvm.vector.reduce.add.v{ROWS}i64", Kind("i64"), wide)
