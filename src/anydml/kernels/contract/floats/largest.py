"""The largest magnitude in a band of lines: with the norm of a filter, it bounds all sums of the band."""

from __future__ import annotations

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.reads import Reader, single
from anydml.tensor import DataType

I64 = Kind("i64")
INFINITE = 0x7F800000  # the bits of infinity
ABREAST = 4  # vectors per iteration, each with a maximum of its own


def below(body: Body, count: str, lanes: int, first: int = 0) -> Value:
    """The mask of the lanes whose number is below a count; first: the number of the first lane."""
    most = body.intrinsic(
        "smin", body.intrinsic("smax", Value(body, count, I64), body.constant(I64, -1)), body.constant(I64, 1 << 20)
    )
    number = most.converted("trunc", Kind("i32"))
    return body.constants("i32", range(first, first + lanes)).compared("slt", body.splat(number, lanes))


def largest(body: Body, data_type: DataType, plane: str, low: str, high: str, *, finite: bool = False) -> Value:
    """The bits, as float32, of the largest magnitude of the lines low .. high - 1; a NaN counts as larger than infinity.

    finite: of the finite elements only.
    Of the kernel's arguments, b_line is the distance of two lines, and from and until bound the bytes of a line that are read.
    """
    lanes, size = body.target.vector_bytes // 4, data_type.dtype.itemsize
    kind = Kind("i32", lanes)
    reader = Reader(body, data_type, 1, lanes)
    count = body.op(f"udiv i64 {body.op('sub i64 %until, %from')}, {size}")
    # lines without gaps between them are read as one
    lines = body.intrinsic("smax", Value(body, body.op(f"sub i64 {high}, {low}"), I64), body.constant(I64, 0)).name
    together = body.op(f"icmp eq i64 {body.op(f'mul i64 {count}, {size}')}, %b_line")
    count = body.op(f"mul i64 {count}, {body.op(f'select i1 {together}, i64 {lines}, i64 1')}")
    one = body.op(f"zext i1 {body.op(f'icmp ne i64 {lines}, 0')} to i64")
    lines = body.op(f"select i1 {together}, i64 {one}, i64 {lines}")
    whole = body.op(f"and i64 {count}, {-lanes}")
    some = below(body, body.op(f"sub i64 {count}, {whole}"), lanes)
    first = body.at(body.at(plane, body.op(f"mul i64 {low}, %b_line")), "%from")

    def larger(most: Value, at: str, i: str, mask: Value | None) -> Value:
        bits = single(reader.read(at, i, mask), data_type).bits()
        bits = bits & 0x7FFFFFFF
        return body.intrinsic("umax", most, body.chosen(bits.compared("ult", INFINITE), bits, 0) if finite else bits)

    def line(y: str, carried: list[Value]) -> list[Value]:
        at = body.at(first, body.op(f"mul i64 {y}, %b_line"))

        def several(i: str, most: list[Value]) -> list[Value]:
            return [larger(m, at, body.op(f"add i64 {i}, {k * lanes}"), None) for k, m in enumerate(most)]

        i, carried = body.loop("0", whole, ABREAST * lanes, carried, several)
        _, carried = body.loop(i, whole, lanes, carried, lambda i, most: [larger(most[0], at, i, None), *most[1:]])
        return [larger(carried[0], at, whole, some), *carried[1:]]

    _, found = body.loop("0", lines, 1, [body.constant(kind, 0)] * ABREAST, line)
    most = found[0]
    for other in found[1:]:
        most = body.intrinsic("umax", most, other)
    return body.call(f"llvm.vector.reduce.umax.v{lanes}i32", Kind("i32"), most)
