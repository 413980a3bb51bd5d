"""Outputs from two planes' sums: estimates of the quotients, which are stored, and a list of those that are not certain.

Let S be the sum of d e, where an element of x is the integer d times the scale s, rounded to float32: X, and a weight is e
times t, rounded: W. Then X W - s t d e = s d (W - t e) + (X - s d) W, so that the sum A of X W differs from s t S by at most

    E = |s d| |W - t e| + |X - s d| |W|        (Euclidean norms of what is summed)

As stated, an output rounds A plus the bias to float32, clamps, divides by the output's scale y, rounds, and rounds to an
integer. The estimate of the quotient is v = S s t / y + bias / y in float64; the two roundings to float32 change the quotient
by at most 2^-23 |v|. Since what is stated never decreases with A, clamps may be applied to v.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import along, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.epilogue.estimates import list_of
from anydml.kernels.contract.quantised.planes import NORMS
from anydml.kernels.undecided.lists import each_bit

FINISH = Signature("*high *low *norms filters *channels pitch count *output *ends *state first end columns slack")
# the rows of the channels' table, float64: s t, the bias, the norms of W and of W - t e, the factor of the estimate's
# roundings, what the planes' offset and the zero point of x add to sums, t, and the weights' zero point; of the quotient,
# s t / y, what is added to it, both norms over y, and the bound of what is left
FACTOR, BIAS, WEIGHTS, ERRORS, ROUNDINGS, SHIFT, SCALE, ZERO, QUOTIENT, TERM, OF_WEIGHTS, OF_ERRORS, LEFT_OVER = range(13)
CHANNEL_ROWS = 13
LOWEST, HIGHEST, ADDED = 0, 8, 16  # of the ends: float64 limits of quotients, and the zero point, int32
MAGIC = 1.5 * 2.0**52  # adding it rounds to an integer, which is then in the low bits
OF_QUOTIENTS = 2.0**-23 * (1 + 2.0**-10)


def finish(target: Target, output: str, by_column: bool) -> str:
    """The kernel of the rows from `first` to `end`. Arguments: FINISH.

    high, low: int32 sums of the planes. norms: of each row, or of each column, the same for `filters` rows. channels: the
    table of `count` channels, whose rows are `pitch` bytes apart and padded by a vector: by column, or by row, in turn. output:
    "i8" or "i16". slack: the bits of a float64 that is added to bounds.
    """
    body = Body(target)
    FINISH.load(body)
    lanes, size = target.vector_bytes // 8, 1 if output == "i8" else 2
    double, doubles, rows = Kind("double"), Kind("double", lanes), (QUOTIENT, TERM, OF_WEIGHTS, OF_ERRORS, LEFT_OVER)
    spare = body.op(f"alloca [{lanes} x i16], align 64")
    slack = body.value("bitcast i64 %slack to double", double)
    noted = list_of(body, "%state")
    lowest, highest = (body.splat(body.loaded(double, "%ends", at), lanes) for at in (LOWEST, HIGHEST))
    added = body.splat(body.loaded(Kind("i32"), "%ends", ADDED), lanes)

    def numbers(channel: str, lanes: int) -> list[Value]:
        places = (body.at("%channels", body.op(f"mul i64 %pitch, {row}")) for row in rows)
        return [body.loaded(Kind("double", lanes), along(body, place, "8", channel)) for place in places]

    def row(r: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {r}, %columns")
        more = body.splat(slack, lanes)
        if by_column:
            at = along(body, "%norms", str(NORMS), r)
            x, off = (body.splat(body.loaded(double, at, 8 * k), lanes) for k in range(2))
            both = x + off
        else:
            image = body.op(f"mul i64 {body.op(f'udiv i64 {r}, %filters')}, %columns")
            of_x = along(body, "%norms", str(NORMS), image)
            of_off = along(body, of_x, "8", "%columns")
            splats = [body.splat(v, lanes) for v in numbers(body.op(f"urem i64 {r}, %count"), 0)]

        def some(column: str, count: str | None) -> None:
            """The outputs of a vector of columns; count: how many these are, if fewer than its lanes."""
            number = body.op(f"add i64 {first}, {column}")
            high, low = (
                body.loaded(Kind("i32", lanes), along(body, name, "4", number)).converted("sitofp", doubles)
                for name in ("%high", "%low")
            )
            factor, term, of_weights, of_errors, left = numbers(column, lanes) if by_column else splats
            if by_column:
                sum_, alone = both, off
            else:
                alone = body.loaded(doubles, along(body, of_off, "8", column))
                sum_ = body.loaded(doubles, along(body, of_x, "8", column)) + alone
            bound = body.fused(sum_, of_errors, body.fused(alone, of_weights, left + more))
            v = body.fused(body.fused(high, 256.0, low), factor, term)
            v = body.chosen(v.compared("olt", lowest), lowest, v)
            v = body.chosen(v.compared("ogt", highest), highest, v)
            large = v + MAGIC
            distance = (v - (large - MAGIC)).magnitude()
            bound = body.fused(v.magnitude(), OF_QUOTIENTS, bound)
            whole = large.bits().converted("trunc", Kind("i32", lanes)) + added
            narrow = whole.converted("trunc", Kind(output, lanes))
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
            # a bound that is no number leaves an output undecided
            mask = body.op(f"bitcast <{lanes} x i1> {(distance + bound).compared('uge', 0.5).name} to i{lanes}")
            bits = body.op(f"zext i{lanes} {mask} to i64")
            if count is not None:
                beyond = body.op(f"shl i64 1, {count}")
                bits = body.op(f"and i64 {bits}, {body.op(f'sub i64 {beyond}, 1')}")
            each_bit(body, bits, lambda k: noted(body.op(f"add i64 {number}, {k}")))

        def all_of(column: str, _: list[Value]) -> list[Value]:
            some(column, None)
            return []

        end, _ = body.loop("0", "%columns", lanes, [], all_of)
        rest = body.op(f"sub i64 %columns, {end}")
        when(body, body.op(f"icmp ne i64 {rest}, 0"), lambda: some(end, rest))
        return []

    body.loop("%first", "%end", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, [*body.declared])
