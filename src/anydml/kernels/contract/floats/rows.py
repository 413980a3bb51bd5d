"""The factor of rows, packed: float64, tile by tile, term by term; and how large each row is."""

from __future__ import annotations

from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import halves
from anydml.tensor import DataType

ARGUMENTS = ("a", "row", "rows", "channels", "term", "positions", "table", "step", "into", "norms")
AT_ONCE = 8
NORM_SLACK = 1 + 2.0**-20  # for the roundings of a sum of squares, and of its root


def packed(target: Target, data_type: DataType, height: int, contiguous: bool) -> str:
    """Pack so many rows; arguments: ARGUMENTS. rows: a multiple of the height.

    term: bytes from one channel to the next; table: of each position, the bytes that it adds, `step` bytes apart. norms: of
    each row, the root of the sum of its squares, rounded up. contiguous: the channels lie side by side.
    """
    body = Body(target)
    arguments(body, ARGUMENTS, {"a", "table", "into", "norms"})
    size = data_type.dtype.itemsize
    terms = body.op("mul i64 %channels, %positions")
    tile = body.op(f"mul i64 {terms}, {8 * height}")
    channel = body.op(f"mul i64 %positions, {8 * height}")
    one, many = Kind("double"), Kind("double", AT_ONCE)

    def read(at: str, lanes: int) -> Value:
        bits = body.loaded(Kind(f"i{8 * size}", lanes), at)
        if data_type == DataType.FLOAT16:
            single = halves.widened(bits)
        else:
            single = bits.cast(bits.kind.of("float"))
        return single.converted("fpext", Kind("double", lanes))

    def row(r: str, _: list[Value]) -> list[Value]:
        from_ = body.at("%a", body.op(f"mul i64 {r}, %row"))
        to = body.at("%into", body.op(f"mul i64 {body.op(f'udiv i64 {r}, {height}')}, {tile}"))
        to = body.at(to, body.op(f"mul i64 {body.op(f'urem i64 {r}, {height}')}, 8"))

        def position(p: str, carried: list[Value]) -> list[Value]:
            at = body.at(from_, body.load("i64", "%table", body.op(f"mul i64 {p}, %step")))
            there = body.at(to, body.op(f"mul i64 {p}, {8 * height}"))

            def several(c: str, squares: list[Value]) -> list[Value]:
                x = read(body.at(at, body.op(f"mul i64 {c}, {size}")), AT_ONCE)
                place = body.at(there, body.op(f"mul i64 {c}, {channel}"))
                for lane in range(AT_ONCE):
                    body.stored(x.lane(lane), place)
                    place = body.at(place, channel)
                return [body.fused(x, x, squares[0])]

            def single(c: str, square: list[Value]) -> list[Value]:
                x = read(body.at(at, body.op(f"mul i64 {c}, %term")), 0)
                body.stored(x, body.at(there, body.op(f"mul i64 {c}, {channel}")))
                return [x * x + square[0]]

            first = "0"
            squares, square = carried[:1], carried[1:]
            if contiguous:
                first, squares = body.loop("0", "%channels", AT_ONCE, squares, several)
            _, square = body.loop(first, "%channels", 1, square, single)
            return squares + square

        starts = [body.constant(many, 0.0), body.constant(one, 0.0)]
        squares, square = body.loop("0", "%positions", 1, starts, position)[1]
        total = square
        for lane in range(AT_ONCE):
            total = total + squares.lane(lane)
        body.stored(total.root() * NORM_SLACK, body.at("%norms", body.op(f"mul i64 {r}, 8")))
        return []

    body.loop("0", "%rows", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
