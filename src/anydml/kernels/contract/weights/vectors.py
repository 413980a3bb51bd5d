"""Vectors of weights: consecutive terms of a row, dequantised and rounded as if they were stored.

A weight has one of 16 values in its block if it has 4 bits, so AVX-512 computes these once and looks them up. All others are
computed one by one: a difference of integers is exact in float32, and its product with the scale is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.weights.packing import GROUP, WeightsKey, looked_up
from anydml.kernels.copy.text import prefetch
from anydml.kernels.numbers import singles

AHEAD, LINE = 4096, 64  # bytes from words to those that are prefetched
Steps = Callable[[str, int, list[str], "list[WeightsBlock]", list[Value]], list[Value]]


class WeightsBlock:
    """The weights of a row that share a scale and a zero point."""

    def __init__(self, body: Body, key: WeightsKey, scale: str, zero: str) -> None:
        """scale, zero: the addresses of the row's."""
        self.body, self.key, self.lanes = body, key, body.target.vector_bytes // 8
        self.single = Kind("float", self.lanes)
        self.scale = body.splat(body.loaded(Kind("float"), scale), self.lanes)
        self.middle: Value | None = None if not key.zero else body.constant(self.single, float(key.zero))
        if key.zero is None:
            number = body.loaded(Kind("i8"), zero).converted("zext", Kind("i32")).converted("sitofp", Kind("float"))
            self.middle = body.splat(number, self.lanes)
        self.table: list[Value] = []
        if looked_up(body.target, key.bits):
            for first in (0, 8):
                numbers = body.constants("float", [n - (key.zero or 0) for n in range(first, first + 8)])
                self.table.append(self._weights(numbers if key.zero is not None else self._centred(numbers)))
        self.wide_table = [t.converted("fpext", Kind("double", self.lanes)) for t in self.table if key.word == 64]

    def _centred(self, numbers: Value) -> Value:
        """Elements minus their zero point."""
        return numbers if self.middle is None else numbers - self.middle

    def _weights(self, differences: Value) -> Value:
        """The weights of elements minus their zero point, in float32."""
        made, data_type = differences * self.scale, self.key.data_type
        return singles.widened(singles.narrowed(made, data_type), data_type)

    def _read(self, words: str, n: int) -> Value:
        """The words whose lowest bits are the n-th vector of a unit; words: the unit's address."""
        bits = self.key.bits
        read = self.body.loaded(Kind(f"i{self.key.word}", self.lanes), words, bits * n // 8)
        return read.shifted_right(shift, signed=False) if (shift := bits * n % 8) else read

    def wide(self, words: str, n: int) -> Value:
        """The n-th vector of a unit, in float64."""
        kind = Kind("double", self.lanes)
        if not self.wide_table:
            return self.of(words, n).converted("fpext", kind)
        low, high = self.wide_table
        return self.body.call("llvm.x86.avx512.vpermi2var.pd.512", kind, low, self._read(words, n), high)

    def of(self, words: str, n: int) -> Value:
        """The n-th vector of a unit, in float32."""
        body, bits = self.body, self.key.bits
        how = {64: "trunc", 32: "bitcast", 16: "zext"}[self.key.word]
        read = self._read(words, n).converted(how, Kind("i32", self.lanes))
        if self.table:
            low, high = self.table
            return body.call("llvm.x86.avx512.vpermi2var.ps.256", self.single, low, read, high)
        return self._weights(self._centred((read & ((1 << bits) - 1)).converted("sitofp", self.single)))


def along(
    body: Body, key: WeightsKey, words: str, scales: str, zeros: str, carried: list[Value], steps: Steps, rows: int = GROUP
) -> list[Value]:
    """Go along all terms of a group: call `steps` for each vector of terms. It takes the number of the unit's first vector, the
    vector's number in the unit, the addresses of the rows' words, the rows' blocks, and what is carried, which it returns.

    words, scales, zeros: the addresses of the group's, or of its row's if rows is 1. Of the kernel's arguments, `units` and
    `blocks` are their numbers in a row, and `block_units` is the number of units of a block, if this is more than one.
    """
    size = body.target.vector_bytes * key.word // 64  # bytes of a vector of words
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None

    def of(block: str) -> list[WeightsBlock]:
        found = []
        for r in range(rows):
            number = body.op(f"add i64 {body.op(f'mul i64 {block}, {key.group}')}, {r}")
            found.append(WeightsBlock(body, key, body.at(scales, body.op(f"mul i64 {number}, 4")), body.at(zeros, number)))
        return found

    def unit(number: str, blocks: list[WeightsBlock], numbers: range, carried: list[Value]) -> list[Value]:
        at = body.at(words, body.op(f"mul i64 {number}, {key.group * size}"))
        places = [body.at(at, r * size) for r in range(rows)]
        first = body.op(f"mul i64 {number}, {key.vectors}")
        for line in range(0, rows * size, LINE):
            prefetch(body, 1, at, AHEAD + line)
        for n in numbers:
            carried = steps(first, n, places, blocks, carried)
        return carried

    def long(block: str, carried: list[Value]) -> list[Value]:
        blocks, start = of(block), body.op(f"mul i64 {block}, %block_units")

        def one(u: str, carried: list[Value]) -> list[Value]:
            return unit(body.op(f"add i64 {start}, {u}"), blocks, range(key.vectors), carried)

        return body.loop("0", "%block_units", 1, carried, one)[1]

    def short(number: str, carried: list[Value]) -> list[Value]:
        many = key.vectors // key.run
        for k in range(many):
            blocks = of(body.op(f"add i64 {body.op(f'mul i64 {number}, {many}')}, {k}"))
            carried = unit(number, blocks, range(k * key.run, (k + 1) * key.run), carried)
        return carried

    if key.several:
        return body.loop("0", "%blocks", 1, carried, long)[1]
    return body.loop("0", "%units", 1, carried, short)[1]


def columns_of(body: Body, lines: list[Value]) -> list[Value]:
    """Four vectors of terms, one for each row, transposed: for each term, the four rows' elements."""
    lanes = lines[0].kind.lanes
    kind = Kind("float", 2 * lanes)
    pairs = []
    for x, y in ((lines[0], lines[1]), (lines[2], lines[3])):
        order = [k + lanes * side for k in range(lanes) for side in (0, 1)]
        pairs.append(Value(body, shuffle(body, x.name, y.name, x.kind.text, order), kind))
    low, high = pairs
    found = []
    for k in range(lanes):
        order = [2 * k, 2 * k + 1, 2 * lanes + 2 * k, 2 * lanes + 2 * k + 1]
        found.append(Value(body, shuffle(body, low.name, high.name, kind.text, order), Kind("float", 4)))
    return found
