"""The packing of the factor of rows: float64, tile by tile, term by term; and the norm of each row."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.copy.text import prefetch
from anydml.kernels.numbers import singles
from anydml.tensor import DataType

ARGUMENTS = Signature("*a row rows channels term positions *table step *into *norms")
AT_ONCE = 8  # channels, if these are contiguous; also the most rows of a tile
SQUARES = 4  # independent sums of squares, which hide the latency of additions
NORM_SLACK = 1 + 2.0**-20  # for the roundings in a sum of squares, and in its root
CHANNELS, ROWS, APART = "channels", "rows", "apart"  # layouts: the contiguous dimension


def packed(target: Target, data_type: DataType, height: int, layout: str) -> str:
    """The kernel that packs rows; arguments: ARGUMENTS. rows: a multiple of the height.

    term: bytes from one channel to the next; table: the offset of each position, in entries `step` bytes apart. norms: the
    root of the sum of squares of each row, rounded up.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    size = data_type.dtype.itemsize
    channel = body.op(f"mul i64 %positions, {8 * height}")
    tile = body.op(f"mul i64 %channels, {channel}")
    wide = Kind("double", height)
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    ahead = body.op(f"mul i64 %row, {height}")

    def read(at: str, lanes: int) -> Value:
        bits = body.loaded(Kind(f"i{8 * size}", lanes), at)
        return singles.widened(bits, data_type)

    def term(from_: str) -> Value:
        """A channel's elements of all rows of a tile."""
        if layout == ROWS:
            return read(from_, height)
        vector = body.undefined(wide.of("float"))
        for m in range(height):
            vector = vector.replaced(m, read(from_, 0))
            from_ = body.at(from_, "%row")
        return vector

    def put(terms: Sequence[Value], place: str, squares: list[Value]) -> list[Value]:
        made = list(squares)
        for k, single in enumerate(terms):
            x = single.converted("fpext", wide)
            body.stored(x, place)
            place = body.at(place, channel)
            made[k % SQUARES] = body.fused(x, x, made[k % SQUARES])
        return made

    def rows(t: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {t}, {height}")
        from_, to = body.at("%a", body.op(f"mul i64 {first}, %row")), body.at("%into", body.op(f"mul i64 {t}, {tile}"))

        def position(p: str, carried: list[Value]) -> list[Value]:
            at = body.at(from_, body.load("i64", "%table", body.op(f"mul i64 {p}, %step")))
            there = body.at(to, body.op(f"mul i64 {p}, {8 * height}"))

            def several(c: str, squares: list[Value]) -> list[Value]:
                place = body.at(at, body.op(f"mul i64 {c}, {size}"))
                lines = []
                for _ in range(height):
                    lines.append(read(place, AT_ONCE))
                    prefetch(body, 1, place, ahead)
                    place = body.at(place, "%row")
                return put(transposed(lines), body.at(there, body.op(f"mul i64 {c}, {channel}")), squares)

            def single(c: str, squares: list[Value]) -> list[Value]:
                place = body.at(there, body.op(f"mul i64 {c}, {channel}"))
                return put([term(body.at(at, body.op(f"mul i64 {c}, %term")))], place, squares)

            begin, squares = "0", carried
            if layout == CHANNELS:
                begin, squares = body.loop("0", "%channels", AT_ONCE, squares, several)
            return body.loop(begin, "%channels", 1, squares, single)[1]

        squares = body.loop("0", "%positions", 1, [body.constant(wide, 0.0)] * SQUARES, position)[1]
        body.stored(norm(squares), body.at("%norms", body.op(f"mul i64 {first}, 8")))
        return []

    body.loop("0", body.op(f"udiv i64 %rows, {height}"), 1, [], rows)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def norm(squares: Sequence[Value]) -> Value:
    """The norm, rounded up, from parts of the sum of squares."""
    total, *others = squares
    for square in others:
        total = total + square
    return total.root() * NORM_SLACK


def transposed(lines: Sequence[Value]) -> list[Value]:
    """At most eight lines of eight, transposed to eight columns: three perfect shuffles of the two halves."""
    body, kind, count = lines[0].body, lines[0].kind, len(lines)
    found = [*lines, *[body.undefined(kind)] * (AT_ONCE - count)]
    half = AT_ONCE // 2
    for _ in range(3):
        found = [
            _shuffled(x, y, [k + AT_ONCE * side for k in range(first, first + half) for side in (0, 1)])
            for x, y in zip(found[:half], found[half:], strict=True)
            for first in (0, half)
        ]
    return [_shuffled(x, x, list(range(count))) if count < AT_ONCE else x for x in found]


def _shuffled(x: Value, y: Value, lanes: Sequence[int]) -> Value:
    body, kind = x.body, x.kind
    mask = ", ".join(f"i32 {k}" for k in lanes)
    text = f"shufflevector {x!r}, {y!r}, <{len(lanes)} x i32> <{mask}>"
    return body.value(text, Kind(kind.element, len(lanes)))
