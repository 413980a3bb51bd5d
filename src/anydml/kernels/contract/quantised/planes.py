"""16-bit elements as two planes of bytes, and norms of their rows.

An element is 256 high + low - offset, with bytes that are unsigned in both planes; the offset of INT16 is 2^15. The norms of a
row bound, by the inequality of Cauchy and Schwarz, what the roundings of dequantised elements change in sums of products.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, part

PLANES = Signature("*x *high *low *norms rows terms zero scale")
NORMS = 16  # bytes of a row's norms: float64
MARGIN = 1 + 2.0**-20  # covers the roundings of the norms


def planes(target: Target, signed: bool) -> str:
    """The kernel that splits `rows` packed rows of `terms` elements. Arguments: PLANES.

    norms: for each row, upper bounds of the Euclidean norms of x = fl(scale * centred) and of the difference of x and
    scale * centred, whose bits are exact in float64. scale: the bits of a float32. signed: the elements are INT16.
    """
    body = Body(target)
    PLANES.load(body)
    scale = body.value(f"bitcast i32 {body.op('trunc i64 %scale to i32')} to float", Kind("float"))
    zero = body.value("trunc i64 %zero to i32", Kind("i32"))
    lanes, double = target.vector_bytes // 8, Kind("double")

    def some(at: str, first: str, lanes: int, sums: list[Value]) -> list[Value]:
        """Split some elements of a row, and add their squares to the sums."""
        place = body.op(f"add i64 {at}, {first}")
        x = body.loaded(Kind("i16", lanes), along(body, "%x", "2", place))
        high = x.shifted_right(8, signed=False).converted("trunc", Kind("i8", lanes))
        body.stored(high ^ -128 if signed else high, body.at("%high", place))
        body.stored(x.converted("trunc", Kind("i8", lanes)), body.at("%low", place))
        exact, rounded = dequantised(body, x, signed, zero, scale)
        off = rounded - exact
        return [sums[0] + rounded * rounded, sums[1] + off * off]

    def row(r: str, _: list[Value]) -> list[Value]:
        at = body.op(f"mul i64 {r}, %terms")
        none = body.constant(Kind("double", lanes), 0.0)
        end, sums = body.loop("0", "%terms", lanes, [none, none], lambda i, sums: some(at, i, lanes, sums))
        sums = body.loop(end, "%terms", 1, [total(v) for v in sums], lambda i, sums: some(at, i, 0, sums))[1]
        into = along(body, "%norms", str(NORMS), r)
        for k, v in enumerate(sums):
            body.stored(v.root() * body.constant(double, MARGIN), into, 8 * k)
        return []

    body.loop("0", "%rows", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])


def dequantised(body: Body, x: Value, signed: bool, zero: Value, scale: Value) -> tuple[Value, Value]:
    """The products of centred integers and a scale, exactly and rounded to float32, as float64."""
    lanes = x.kind.lanes
    wide = x.converted("sext" if signed else "zext", Kind("i32", lanes))
    factor = scale if not lanes else body.splat(scale, lanes)
    centred = (wide - (zero if not lanes else body.splat(zero, lanes))).converted("sitofp", factor.kind)
    double = Kind("double", lanes)
    exact = centred.converted("fpext", double) * factor.converted("fpext", double)
    return exact, (centred * factor).converted("fpext", double)


def total(v: Value) -> Value:
    """The sum of all lanes."""
    while v.kind.lanes > 1:
        half = v.kind.lanes // 2
        v = part(v, 0, half) + part(v, half, half)
    return v.lane(0)
