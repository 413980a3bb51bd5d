"""Sums of few rows times weights: four columns at once, along the terms, so that weights are read once and in order."""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.contract.weights.packing import GROUP, WeightsKey
from anydml.kernels.contract.weights.vectors import WeightsBlock, along

# a: rows of float64, a_row bytes apart; group_words, group_scales, group_zeros: bytes of a group; sums: rows of float64,
# sums_row bytes apart; counter: as in `tile`
ARGUMENTS = Signature(
    "*a a_row *words group_words *scales group_scales *zeros group_zeros groups units blocks block_units *sums sums_row "
    "*counter"
)
MOST_ROWS = 4  # computed at once: with more, the sums do not fit in the registers
CHAINS = 8  # independent additions that hide their latency


def chains(rows: int) -> int:
    """The partial sums of each sum."""
    return max(1, CHAINS // (GROUP * rows))


def additions(terms: int, rows: int, target: Target) -> int:
    """The most additions that a term goes through."""
    lanes, parts = target.vector_bytes // 8, chains(rows)
    return -(-terms // (lanes * parts)) + parts + lanes.bit_length()


def summed(target: Target, key: WeightsKey, rows: int) -> str:
    """The kernel that sums rows times groups of columns; arguments: ARGUMENTS."""
    body = Body(target)
    ARGUMENTS.load(body)
    note = Note(body)
    lanes, parts = target.vector_bytes // 8, chains(rows)
    wide = Kind("double", lanes)
    starts = [body.at("%a", body.op(f"mul i64 %a_row, {m}")) for m in range(rows)]

    def steps(first: str, n: int, words: list[str], blocks: list[WeightsBlock], carried: list[Value]) -> list[Value]:
        place = body.op(f"mul i64 {body.op(f'add i64 {first}, {n}')}, {target.vector_bytes}")
        factors = [body.loaded(wide, at, place) for at in starts]
        found = list(carried)
        for r, (block, at) in enumerate(zip(blocks, words, strict=True)):
            weights = block.wide(at, n)
            for m, factor in enumerate(factors):
                k = (r * rows + m) * parts + n % parts
                found[k] = body.fused(factor, weights, found[k])
        return found

    def group(g: str, _: list[Value]) -> list[Value]:
        at = [body.at(f"%{name}", body.op(f"mul i64 {g}, %group_{name}")) for name in ("words", "scales", "zeros")]
        zero = body.constant(wide, -0.0)  # a sum is -0 if all of its terms are
        words, scales, zeros = at
        found = along(body, key, words, scales, zeros, [zero] * (GROUP * rows * parts), steps)
        for m in range(rows):
            into = body.at(body.at("%sums", body.op(f"mul i64 %sums_row, {m}")), body.op(f"mul i64 {g}, {8 * GROUP}"))
            for r in range(GROUP):
                first = (r * rows + m) * parts
                total = found[first]
                for other in found[first + 1 : first + parts]:
                    total = total + other
                body.stored(sum_of_lanes(total), into, 8 * r)
        return []

    body.loop("0", "%groups", 1, [], group)
    body.stored(note.rounded().converted("uitofp", Kind("double")), "%counter", BOUND)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def sum_of_lanes(x: Value) -> Value:
    """The sum of a vector's lanes."""
    body = x.body
    while x.kind.lanes > 1:
        n = x.kind.lanes // 2
        halves = []
        for first in (0, n):
            mask = ", ".join(f"i32 {first + k}" for k in range(n))
            halves.append(body.value(f"shufflevector {x!r}, {x.kind.text} poison, <{n} x i32> <{mask}>", Kind("double", n)))
        x = halves[0] + halves[1]
    return x.lane(0)
