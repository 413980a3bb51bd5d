"""Rows of numbers as digits: bytes of a common exponent, whose products tile registers add without rounding.

A row is divided by a power of two above its largest magnitude, and each number x becomes the sum of d[i] 2^(-7 - 8 i) for
digits from -128 to 127, and of a rest. With digits e[j] of weights, a sum of products is the sum of d[i] e[j] 2^(-14 - 8 (i +
j)), of which those with i + j <= LAST are computed. Eight rows are the lanes of a vector.

The bound of a sum's error is 2^-50 times a number of the row and one of the weights, as that of float64 sums is a product of
norms. R and S are the sums of the magnitudes of the rests of a row and of weights, X and W are their norms, all with the scales
divided out, so that all numbers are below 1. For n terms, the error is at most the sum of

- R + S, where a float32 has a rest only if it is far below the largest one; for numbers that all have rests, N W instead of R,
  where N is the norm of these,
- n 2^14 2^(-14 - 8 (i + j)) for each pair of digits with i + j > LAST: at most three pairs at 2^-70, and others below,
- a little more than 2^-47 for what `products` drops, and 2^-53 X W for its rounding.

By Cauchy's inequality, this is at most the product of the norms of two vectors, whose components may be weighted against one
another: R is (R 2^55) 2^7 2^-62, and N W is (N 2^55) (W 2^7) 2^-62.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import TILE, WIDTH
from anydml.kernels.code.together import bytes_together
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.recurrence.rows import defined

LANES = 8  # rows that become digits together
AT_ONCE = 8  # terms whose digits are stored together
SINGLE, DOUBLE = 5, 6  # digits of a float32, and of a number that is known to more digits
LAST = 6  # the last i + j of products that are computed
MOST = 1 << 14  # terms of a sum in int32
UNIT = 2.0**-46  # of the sums of `products`
FACTOR = 2.0**-50  # of the bound
LARGE = 16.0  # how much rests may increase the square of a number for bounds
FEW = 2  # of 16 rows, how many may have larger ones; of 8 columns, 1
FAR = 2.0**200  # norms are between this and its reciprocal
# the squares of the components of a row, as shares of those of its rests, of the number of terms, and of 1
OF_REST, OF_TERMS, OF_ONE = 2.0**110, 3 * 2.0**6 * (1 + 2.0**-6), 2.0**14 + 2.0**15 * (1 + 2.0**-6)
SLACK = 1 + 2.0**-10

ARGUMENTS = Signature("*panels panel vectors terms *into *norms *scales *plain")


class ShareOfBound(NamedTuple):
    """The parts of a bound that rests and norms make.

    share: of the vector's norm. row: of the square of the row's norm. all: whether all numbers have rests, whose norm counts
    instead of their sum.
    """

    share: float
    row: float
    all: bool = False


# by the digits of rows; errors of numbers are multiplied by the number of weights, which is not much above their norm
OF_ROWS = {SINGLE: ShareOfBound(2.0**-6, 2.0**9), DOUBLE: ShareOfBound(2.0**-4, 2.0**9, True)}
OF_WEIGHTS = {SINGLE: ShareOfBound(2.0**-6, 2.0**9), DOUBLE: ShareOfBound(2.0**-8, 2.0**14 + 2.0**9)}
assert all(OF_ROWS[n].share * OF_WEIGHTS[n].share * FACTOR == 2.0**-62 for n in (SINGLE, DOUBLE))


class Digits(NamedTuple):
    """The power of two by which rows are divided, and the number of a row for bounds.

    none: the lanes that have no digits; far: those whose bound is large, since there are numbers far below the largest one.
    """

    scale: Value
    norm: Value
    none: Value
    far: Value


def made(
    body: Body,
    terms: str,
    count: int,
    bound: ShareOfBound,
    norm: Value,
    load: Callable[[str], Value],
    store: Callable[[int, str, Value], None],
) -> Digits:
    """Make `count` digits of each number.

    load: a term of all rows. store: a digit of eight terms, as a word of each row. norm: of each row, 0 or more, or NaN.
    """
    wide = Kind("double", LANES)

    def largest(k: str, found: list[Value]) -> list[Value]:
        size = load(k).magnitude()
        return [body.chosen(size.compared("ogt", found[0]), size, found[0])]

    zero = body.constant(wide, 0.0)
    most = body.loop("0", terms, 1, [zero], largest)[1][0]
    # below 1 - 2^-7 if divided by it, so that digits of either sign suffice
    exponent = ((most * (1 + 2.0**-6)).bits() & (0x7FF << 52)) + (1 << 52)
    places = 8 * count - 1
    inverse = (((2046 + places) << 52) - exponent).cast(wide)
    # a sum with it has the number, rounded to an integer, in its lowest bits, and 128 more in all bytes but the first digit
    shift = 1.5 * 2.0**52 + sum(128 << 8 * b for b in range(count - 1))

    def several(k: str, rests: list[Value], last: Value | None = None) -> list[Value]:
        numbers, total = [], rests[0]
        for n in range(AT_ONCE):
            at = body.op(f"add i64 {k}, {n}")
            if last is None:
                x = load(at)
            else:  # zeros beyond the last term
                inside = Value(body, at, Kind("i64")).compared("ule", last)
                x = load(body.chosen(inside, Value(body, at, Kind("i64")), last).name)
                x = body.chosen(body.splat(inside, LANES), x, 0.0)
            shifted = body.fused(x, inverse, shift)
            rest = body.fused(x, inverse, shift - shifted)
            total = body.fused(rest, rest, total) if bound.all else total + rest.magnitude()
            numbers.append(shifted.bits())
        for digit, found in enumerate(bytes_together(numbers, count)):
            store(digit, k, (found ^ -128 if digit else found).cast(numbers[0].kind))
        return [total]

    begun, found = body.loop("0", terms, AT_ONCE, [zero], several)
    some = body.op(f"icmp ult i64 {begun}, {terms}")
    up = body.op(f"add i64 {begun}, {body.op(f'select i1 {some}, i64 {AT_ONCE}, i64 0')}")
    last = Value(body, body.op(f"sub i64 {terms}, 1"), Kind("i64"))
    rests = body.loop(begun, up, AT_ONCE, found, lambda k, values: several(k, values, last))[1][0]
    scale = exponent.cast(wide)
    row = norm / scale
    constant = Value(body, terms, Kind("i64")).converted("uitofp", Kind("double")) * OF_TERMS + OF_ONE
    plain = body.fused(row * row, bound.row, body.splat(constant, LANES))
    squares = (rests if bound.all else rests * rests) * (OF_REST * 2.0 ** (-2 * places))
    own = ((squares + plain) * SLACK).root() * scale * bound.share
    far = squares.compared("ogt", math.inf if bound.all else plain * LARGE)
    none = ~(norm.compared("olt", FAR) & norm.compared("ogt", 1 / FAR))
    return Digits(scale, body.chosen(norm.compared("ogt", own) | none, norm, own), none, far)


def blocks(body: Body, terms: str) -> str:
    """The tile registers that a row's terms fill."""
    return body.op(f"udiv i64 {body.op(f'add i64 {terms}, {WIDTH - 1}')}, {WIDTH}")


def of_rows(target: Target, count: int) -> tuple[str, list[str]]:
    """`i64 @digits{count}(packed, tile, terms, rows, norms, into, scales)`: the digits of 16 packed rows.

    It returns 0, or 1 if a row has none, or several have large bounds. into: for each 64 terms, a tile register of each digit.
    scales: of the rows, in units of the sums of `products`; behind them is room for as many numbers. norms: of the rows; they
    become the numbers of bounds, if there are digits. rows: how many there are.
    """
    body = Body(target)
    wide, own = Kind("double", LANES), body.at("%scales", 16 * LANES)

    def half(h: str, found: list[Value]) -> list[Value]:
        from_ = body.at("%packed", body.op(f"mul i64 {h}, %tile"))
        first = body.op(f"mul i64 {h}, {8 * LANES}")
        start = body.at("%into", body.op(f"mul i64 {h}, {WIDTH * LANES}"))

        def store(digit: int, k: str, value: Value) -> None:
            block = body.op(f"mul i64 {body.op(f'lshr i64 {k}, 6')}, {count * TILE}")
            at = body.at(body.at(start, block), body.op(f"and i64 {k}, {WIDTH - 1}"))
            for lane in range(LANES):
                body.stored(value.lane(lane), at, digit * TILE + lane * WIDTH)

        norms = body.loaded(wide, "%norms", first)
        digits = made(
            body, "%terms", count, OF_ROWS[count], norms,
            lambda k: body.loaded(wide, from_, body.op(f"mul i64 {k}, {8 * LANES}")), store,
        )  # fmt: skip

        def clear(k: str, _: list[Value]) -> list[Value]:
            for digit in range(count):
                store(digit, k, body.constant(Kind("i64", LANES), 0))
            return []

        filled = body.op(f"and i64 {body.op(f'add i64 %terms, {AT_ONCE - 1}')}, {-AT_ONCE}")
        body.loop(filled, body.op(f"mul i64 {blocks(body, '%terms')}, {WIDTH}"), AT_ONCE, [], clear)
        body.stored(digits.norm, own, first)
        body.stored(digits.scale * UNIT, "%scales", first)
        left = Value(body, body.op(f"sub i64 %rows, {body.op(f'mul i64 {h}, {LANES}')}"), Kind("i64"))
        there = body.constants("i64", range(LANES)).compared("slt", body.splat(left, LANES))
        return [found[0] + _count(digits.none & there) * (FEW + 1) + _count(digits.far & there)]

    (found,) = body.loop("0", "2", 1, [body.constant(Kind("i64"), 0)], half)[1]
    none = found.compared("ugt", FEW)
    when(body, (~none).name, lambda: _copied(body, own, "%norms", "2"))
    body.do(f"ret i64 {none.converted('zext', Kind('i64')).name}")
    head = f"i64 @digits{count}(ptr %packed, i64 %tile, i64 %terms, i64 %rows, ptr %norms, ptr %into, ptr %scales)"
    return defined(body, head), [*body.declared]


def _copied(body: Body, own: str, norms: str, vectors: str) -> None:
    """Replace norms by the numbers of bounds: not where products are computed without digits."""

    def one(v: str, _: list[Value]) -> list[Value]:
        place = body.op(f"mul i64 {v}, {8 * LANES}")
        body.stored(body.loaded(Kind("double", LANES), own, place), norms, place)
        return []

    body.loop("0", vectors, 1, [], one)


def _count(lanes: Value) -> Value:
    """The number of lanes that are true."""
    return lanes.body.intrinsic("ctpop", lanes.cast(Kind("i8"))).converted("zext", Kind("i64"))


def of_weights(target: Target, across: int, count: int) -> str:
    """The kernel of the digits of packed weights, for rows of `count` digits; arguments: ARGUMENTS.

    panels: of `across` vectors. into: for each 16 columns, and each 64 terms of these, a tile register of each digit.
    scales: of the columns; behind them is room for as many numbers. norms: of the columns; they become the numbers of bounds,
    unless `plain` is not 0, because a column has no digits, or too many have large bounds.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    wide, single = Kind("double", LANES), Kind("float", LANES)
    fours = Kind("i32", LANES)
    filled = body.op(f"mul i64 {blocks(body, '%terms')}, {SINGLE * TILE}")
    own = body.at("%scales", body.op(f"mul i64 %vectors, {8 * LANES}"))

    def vector(v: str, found: list[Value]) -> list[Value]:
        panel = body.at("%panels", body.op(f"mul i64 {body.op(f'udiv i64 {v}, {across}')}, %panel"))
        panel = body.at(panel, body.op(f"mul i64 {body.op(f'urem i64 {v}, {across}')}, {4 * LANES}"))
        start = body.at("%into", body.op(f"mul i64 {body.op(f'lshr i64 {v}, 1')}, {filled}"))
        start = body.at(start, body.op(f"mul i64 {body.op(f'and i64 {v}, 1')}, {4 * LANES}"))
        place = body.op(f"mul i64 {v}, {8 * LANES}")

        def load(k: str) -> Value:
            return body.loaded(single, panel, body.op(f"mul i64 {k}, {4 * LANES * across}")).converted("fpext", wide)

        def store(digit: int, k: str, value: Value) -> None:
            block = body.op(f"mul i64 {body.op(f'lshr i64 {k}, 6')}, {SINGLE * TILE}")
            at = body.at(body.at(start, block), body.op(f"mul i64 {body.op(f'and i64 {k}, {WIDTH - 1}')}, {WIDTH // 4}"))
            # four terms of a column are in a row of a register
            body.stored(value.converted("trunc", fours), at, digit * TILE)
            body.stored(value.shifted_right(32, signed=False).converted("trunc", fours), at, digit * TILE + WIDTH)

        norms = body.loaded(wide, "%norms", place)
        digits = made(body, "%terms", SINGLE, OF_WEIGHTS[count], norms, load, store)
        body.stored(digits.norm, own, place)
        body.stored(digits.scale, "%scales", place)
        return [found[0] + _count(digits.none), found[1] + _count(digits.far)]

    none, far = body.loop("0", "%vectors", 1, [body.constant(Kind("i64"), 0)] * 2, vector)[1]
    plain = none.compared("ne", 0) | far.compared("ugt", Value(body, "%vectors", far.kind))
    body.stored(plain.converted("zext", far.kind), "%plain")
    when(body, (~plain).name, lambda: _copied(body, own, "%norms", "%vectors"))
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
