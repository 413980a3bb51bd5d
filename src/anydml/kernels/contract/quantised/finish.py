"""Outputs from two planes' sums: each is decided by the bounds of its number before rounding, else summed again in float64.

Let S be the sum of d e, where an element of x is the integer d times the scale s, rounded to float32: X, and a weight is e
times t, rounded: W. Then X W - s t d e = s d (W - t e) + (X - s d) W, so that the sum A of X W differs from s t S by at most

    E = |s d| |W - t e| + |X - s d| |W|        (Euclidean norms of a row of x and of a column of weights)

As stated, an output rounds A plus the bias to float32, clamps, divides, rounds, and rounds to an integer: it never decreases
with A. So it is known if it is the same for both ends of the interval; float64 holds S exactly.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.epilogue.estimates import LEFT
from anydml.kernels.contract.quantised.planes import NORMS, dequantised, total
from anydml.kernels.undecided.lists import each_bit, mark

FINISH = Signature(
    "*high *low *x *norms *weights *channels pitch *output *rule *bits *state first end columns terms zero scale slack more"
)
# the rows of the channels' table, float64: s t, the bias, the norms of W and of W - t e, the factor of the estimate's
# roundings, what the planes' offset and the zero point of x add to sums, t, and the weights' zero point
FACTOR, BIAS, WEIGHTS, ERRORS, ROUNDINGS, SHIFT, SCALE, ZERO = range(8)
CHANNEL_ROWS = 8
LOW, HIGH, DIVISOR, ADDED, LEAST, MOST = range(6)  # words of the rule: float32, and three of int32
MAGIC = 1.5 * 2.0**23
SIDE = 4  # vectors that are summed side by side
BEYOND = 2.0**18  # quotients beyond this saturate


def finish(target: Target, output: str, x_signed: bool, weights_signed: bool) -> str:
    """The kernel of the rows from `first` to `end`. Arguments: FINISH.

    high, low: int32 sums of the planes. weights: bytes, column by column. channels: the table, whose rows are `pitch` bytes
    apart and padded by a vector. output: "i8" or "i16". slack: the bits of a float64 that is added to the first bound; `more`,
    to that of sums in float64, whose factor is in `rule`'s last word.
    """
    body = Body(target)
    FINISH.load(body)
    lanes, size = target.vector_bytes // 8, 1 if output == "i8" else 2
    double = Kind("double")
    spare = body.op(f"alloca [{lanes} x i16], align 64")
    scale = body.value(f"bitcast i32 {body.op('trunc i64 %scale to i32')} to float", Kind("float"))
    zero = body.value("trunc i64 %zero to i32", Kind("i32"))
    slack, more = (body.value(f"bitcast i64 %{name} to double", double) for name in ("slack", "more"))
    growth = body.loaded(double, "%rule", 24)

    def channel(row: int, column: str, lanes: int) -> Value:
        place = body.at("%channels", body.op(f"mul i64 %pitch, {row}"))
        return body.loaded(Kind("double", lanes), along(body, place, "8", column))

    def in_lanes(v: Value, lanes: int) -> Value:
        return body.splat(v, lanes) if lanes else v

    def stated(a: Value) -> Value:
        """The outputs of sums: int32."""
        n = a.kind.lanes
        low, high, divisor = (in_lanes(body.loaded(Kind("float"), "%rule", 4 * k), n) for k in (LOW, HIGH, DIVISOR))
        added, least, most = (in_lanes(body.loaded(Kind("i32"), "%rule", 4 * k), n) for k in (ADDED, LEAST, MOST))

        def between(v: Value, below: Value, above: Value, less: str) -> Value:
            v = body.chosen(v.compared(less, below), below, v)
            return body.chosen(above.compared(less, v), above, v)

        v = between(a.converted("fptrunc", Kind("float", n)), low, high, "olt") / divisor
        v = between(v, v.lift(-BEYOND), v.lift(BEYOND), "olt")
        whole = (v + MAGIC) - MAGIC
        return between(whole.converted("fptosi", Kind("i32", n)) + added, least, most, "slt")

    def ends(a: Value, bound: Value) -> tuple[Value, Value]:
        return stated(a - bound), stated(a + bound)

    def some(r: str, column: str, count: str | None) -> None:
        """The outputs of a vector of columns; count: how many these are, if fewer than its lanes."""
        number = body.op(f"add i64 {body.op(f'mul i64 {r}, %columns')}, {column}")
        high, low = (
            body.loaded(Kind("i32", lanes), along(body, name, "4", number)).converted("sitofp", Kind("double", lanes))
            for name in ("%high", "%low")
        )
        sums = high * 256.0 + low - channel(SHIFT, column, lanes)
        product, bias = sums * channel(FACTOR, column, lanes), channel(BIAS, column, lanes)
        at = along(body, "%norms", str(NORMS), r)
        x, off = (in_lanes(body.loaded(double, at, 8 * k), lanes) for k in range(2))
        bound = (x + off) * channel(ERRORS, column, lanes) + off * channel(WEIGHTS, column, lanes)
        rounded = (product.magnitude() + bias.magnitude()) * channel(ROUNDINGS, column, lanes)
        least, most = ends(product + bias, bound + rounded + in_lanes(slack, lanes))
        narrow = least.converted("trunc", Kind(output, lanes))
        into = along(body, "%output", str(size), number)
        if count is None:
            body.stored(narrow, into)
        else:
            body.stored(narrow, spare)

            def one(i: str, _: list[Value]) -> list[Value]:
                element = body.loaded(Kind(output), along(body, spare, str(size), i))
                body.stored(element, along(body, into, str(size), i))
                return []

            body.loop("0", count, 1, [], one)
        mask = body.op(f"bitcast <{lanes} x i1> {least.compared('ne', most).name} to i{lanes}")
        bits = body.op(f"zext i{lanes} {mask} to i64")
        if count is not None:
            beyond = body.op(f"shl i64 1, {count}")
            bits = body.op(f"and i64 {bits}, {body.op(f'sub i64 {beyond}, 1')}")
        each_bit(body, bits, lambda k: closely(r, body.op(f"add i64 {column}, {k}"), at))

    def closely(r: str, column: str, norms: str) -> None:
        """The output from a sum of dequantised products in float64; its bit is set if that does not decide it either."""
        xs = along(body, "%x", "2", body.op(f"mul i64 {r}, %terms"))
        ws = along(body, "%weights", "%terms", column)
        factor = channel(SCALE, column, 0).converted("fptrunc", Kind("float"))
        centre = channel(ZERO, column, 0).converted("fptosi", Kind("i32"))

        def term(k: str, lanes: int, sums: list[Value]) -> list[Value]:
            _, x = dequantised(body, body.loaded(Kind("i16", lanes), along(body, xs, "2", k)), x_signed, zero, scale)
            _, w = dequantised(body, body.loaded(Kind("i8", lanes), body.at(ws, k)), weights_signed, centre, factor)
            return [body.fused(x, w, sums[0]), *sums[1:]]

        def terms(k: str, sums: list[Value]) -> list[Value]:
            for n in range(SIDE):
                sums = [*sums[1:], *term(body.op(f"add i64 {k}, {n * lanes}") if n else k, lanes, sums[:1])]
            return sums

        none = body.constant(Kind("double", lanes), 0.0)
        end, sums = body.loop("0", "%terms", SIDE * lanes, [none] * SIDE, terms)
        several = reduce(add, sums)
        _, (found,) = body.loop(end, "%terms", 1, [total(several)], lambda k, sums: term(k, 0, sums))
        bias = channel(BIAS, column, 0)
        magnitudes = body.loaded(double, norms) * channel(WEIGHTS, column, 0) + bias.magnitude()
        least, most = ends(found + bias, magnitudes * growth + more)
        number = body.op(f"add i64 {body.op(f'mul i64 {r}, %columns')}, {column}")
        body.stored(least.converted("trunc", Kind(output)), along(body, "%output", str(size), number))
        when(body, least.compared("ne", most).name, lambda: mark(body, "%bits", number, "%state", LEFT))

    def row(r: str, _: list[Value]) -> list[Value]:
        def whole(column: str, _: list[Value]) -> list[Value]:
            some(r, column, None)
            return []

        end, _ = body.loop("0", "%columns", lanes, [], whole)
        rest = body.op(f"sub i64 %columns, {end}")
        when(body, body.op(f"icmp ne i64 {rest}, 0"), lambda: some(r, end, rest))
        return []

    body.loop("%first", "%end", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])
