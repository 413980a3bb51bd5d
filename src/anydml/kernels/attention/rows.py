"""Rows of queries, keys and values as float64, with their biases; panels of keys, norms, and the largest values.

A norm is made for the bound of a sum of products that are added one after the other: the error of a sum of n products is at
most u times the sum of the magnitudes of all partial sums, and each of these is at most the product of the norms of the terms
so far. So a bound is u times the product of the roots of the sums of (n - j + c) x[j]^2, where c is the number of other
roundings of the size of products: those of the biases' additions, of products without fused operations, and of additions to the
score.
"""

from __future__ import annotations

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import LOST, AttentionKey
from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.copy.text import prefetch
from anydml.kernels.numbers.functions.pairs import two_sum

AHEAD = 4  # how many rows ahead to prefetch rows that are not contiguous
NORM_SLACK = 1 + 2.0**-20  # for the roundings of norms themselves, of up to 2^30 numbers


def filled(target: Target, key: AttentionKey, *, biased: bool) -> Function:
    """Rows of float64, with zeros up to whole vectors.

    into: rows `pitch` bytes apart; from: `count` rows, `row` bytes apart, of `width` elements, `step` bytes apart.
    bias: a row of float64; the rounding errors of its addition are recorded in the state.
    """
    parameters = ["ptr into", "ptr from", "i64 count", "i64 row", "i64 step", "i64 width", "i64 pitch"]
    f = Function(target, key, "filled_biased" if biased else "filled", [*parameters, *(["ptr bias"] if biased else [])])
    side_by_side = f.op(f"icmp eq i64 %step, {f.itemsize}")
    zero = f.constant(f.wide, 0.0)

    f.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    ahead = f.times("%row", AHEAD)

    def row(r: str, lost: list[Value]) -> list[Value]:
        source, to = f.at("%from", f.times(r, "%row")), f.at("%into", f.times(r, "%pitch"))

        def some(i: str, lanes: int, lost: list[Value]) -> list[Value]:
            place = f.at(source, f.times(i, "%step"))
            if lanes:
                prefetch(f, 1, place, ahead)
            x = f.element(place, lanes)
            eight = f.times(i, 8)
            if biased:
                x, rest = two_sum(x, f.loaded_real("%bias", eight, lanes))
                size = rest.magnitude()
                lost = [f.chosen(size.compared("ogt", lost[0]), size, lost[0])]
            f.stored(x, to, eight)
            return lost

        found = f.run("%width", side_by_side, lost, some)
        f.each("%width", f.over("%pitch", 8), lambda i: f.stored(f.constant(DOUBLE, 0.0), to, f.times(i, 8)))
        return found

    _, found = f.loop("0", "%count", 1, [zero] if biased else [], row)
    if biased:
        state = f.argument("state")
        before = f.loaded_real(state, LOST)
        largest = f.combined(found[0], lambda a, b: f.chosen(b.compared("ogt", a), b, a))
        f.stored(f.chosen(largest.compared("ogt", before), largest, before), state, LOST)
    return f


def normed(target: Target, key: AttentionKey) -> Function:
    """The norms of `count` rows of `width` numbers: see above. They are at least 0, or NaN."""
    f = Function(target, key, "normed", ["ptr rows", "i64 count", "i64 width", "i64 pitch", "ptr into"])
    more = 2 * int(key.biased) + 2 * int(not f.has_fma) + int(key.both)
    width = f.word("%width").converted("uitofp", DOUBLE) + float(more)
    first = f.all(width) - f.lane_numbers("double")

    def row(r: str) -> None:
        start = f.at("%rows", f.times(r, "%pitch"))

        def some(i: str, values: list[Value]) -> list[Value]:
            x = f.loaded(f.wide, start, i)
            return [f.fused(x * x, values[1], values[0]), values[1] - float(f.lanes)]

        _, (square, _) = f.loop("0", "%pitch", 8 * f.lanes, [f.constant(f.wide, 0.0), first], some)
        found = f.combined(square, lambda a, b: a + b)
        f.stored(found.root() * NORM_SLACK, "%into", f.times(r, 8))

    f.each("0", "%count", row)
    return f


def panel(target: Target, key: AttentionKey) -> Function:
    """A panel of a number of vectors of rows: the first elements of all rows, then the second elements, and so on."""
    f = Function(target, key, "panel", ["ptr rows", "i64 pitch", "ptr into", "i64 vectors"])
    lanes = f.lanes

    def vector(v: str) -> None:
        start = f.at("%rows", f.times(f.times(v, lanes), "%pitch"))
        to = f.at("%into", f.times(v, 8 * lanes))

        def square(i: str) -> None:  # bytes along a row
            found = [f.loaded(f.wide, f.at(f.at(start, f.times("%pitch", k)), i)) for k in range(lanes)]
            across = f.times(i, f.times("%vectors", lanes))
            for k, x in enumerate(_transposed(f, found)):
                f.stored(x, f.at(to, f.plus(across, f.times("%vectors", 8 * lanes * k))))

        f.each("0", "%pitch", square, 8 * lanes)

    f.each("0", "%vectors", vector)
    return f


def _transposed(f: Function, rows: list[Value]) -> list[Value]:
    """The transposition of as many vectors as each has lanes."""
    lanes, step = f.lanes, 1
    while step < lanes:
        made = list(rows)
        for i in range(lanes):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [k if not k & step else lanes + k - step for k in range(lanes)]
            high = [k + step if not k & step else lanes + k for k in range(lanes)]
            for to, order in ((i, low), (i + step, high)):
                made[to] = Value(f, shuffle(f, a.name, b.name, f.wide.text, order), f.wide)
        rows, step = made, 2 * step
    return rows


def largest(target: Target, key: AttentionKey) -> Function:
    """The largest magnitude in each column of `count` rows, and the root of the sum of squares, to `norms`.

    The first has a minus sign where any element has one. width: the bytes of a row's columns.
    """
    f = Function(target, key, "largest", ["ptr rows", "i64 count", "i64 pitch", "i64 width", "ptr into", "ptr norms"])

    def column(i: str) -> None:
        zero = f.constant(f.wide, 0.0)

        def row(r: str, values: list[Value]) -> list[Value]:
            x = f.loaded(f.wide, f.at(f.at("%rows", f.times(r, "%pitch")), i))
            size = x.magnitude()
            most = f.chosen(size.compared("ogt", values[0]), size, values[0])
            return [most, (values[1].bits() | x.bits()).cast(f.wide), f.fused(x, x, values[2])]

        _, (size, signs, square) = f.loop("0", "%count", 1, [zero, zero, zero], row)
        f.stored(size.signed_as(signs), "%into", i)
        f.stored(square.root() * NORM_SLACK, "%norms", i)

    f.each("0", "%width", column, 8 * f.lanes)
    return f


def cleared(target: Target, key: AttentionKey) -> Function:
    """Fill a number of bytes, a multiple of 8, with zeros."""
    f = Function(target, key, "cleared", ["ptr into", "i64 count"])
    zeros = f.constant(f.wide, 0.0)
    end = f.each("0", "%count", lambda i: f.stored(zeros, "%into", i), 8 * f.lanes)
    f.each(end, "%count", lambda i: f.store("i64", "0", "%into", i), 8)
    return f
