"""The elements of a query: sums of weighted values over the sum of weights. What the bound leaves undecided is listed."""

from __future__ import annotations

import math
from dataclasses import replace

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import LEFT, NORMS, OWN, SIZES, SUM, VALUES, ZERO, AttentionKey
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value, left_by_first_stage
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.floats.rounding import between_ends, stored
from anydml.kernels.numbers.functions.approximate import at_most
from anydml.kernels.undecided.lists import each_bit
from anydml.tensor import DataType

LEAST = 2.0**-880  # the error of all weights below 2^-1000 together, as a share of the largest value


def results(target: Target, key: AttentionKey) -> Function:
    """The elements of a query, from its sums, to `out`; weights: the address of its row; number: the query's index in its
    block.

    Where the largest value leaves an element undecided, the sum of magnitudes may decide it: it is far less if large values
    have little weight.
    """
    f = Function(target, key, "results", ["ptr sums", "ptr weights", "ptr about", "ptr out", "i64 number"])
    lanes, wide = f.lanes, f.wide
    line, largest, norms, columns, pitch = (f.argument(x) for x in ("line", "largest", "norms", "columns", "column_row"))
    total = f.loaded_real("%about", SUM)
    reciprocal = f.all(1.0 / total)
    # the bound of the error: shares of the largest value or of the column's norm, and of the element
    shares = [f.all(f.loaded_real("%about", at)) for at in (VALUES, NORMS, OWN)]
    share_of_sizes, columns_row = f.all(f.loaded_real("%about", SIZES)), f.argument("column_row")
    zero = f.all(f.loaded_real("%about", ZERO)).compared("one", 0.0)

    step = f.argument("output_c")
    side_by_side = f.op(f"icmp eq i64 {step}, {f.itemsize}")
    whole = f.op(f"icmp eq i64 {f.op(f'urem i64 {columns}, {lanes}')}, 0")
    at_once = f.op(f"and i1 {side_by_side}, {whole}")
    into = f.op(f"select i1 {at_once}, ptr %out, ptr {line}")

    def group(i: str) -> None:  # bytes along a row of float64
        x = f.loaded(wide, "%sums", i) * reciprocal
        most = f.loaded(wide, largest, i)
        error = at_most(shares[0] * most.magnitude(), shares[1] * f.loaded(wide, norms, i))
        error = f.fused(shares[2], x.magnitude(), error)
        place = f.at(into, f.over(i, 8 // f.itemsize))
        number = Number(f, lambda: x, err=lambda: error)
        # the element's share includes the roundings of the ends
        quick = between_ends(replace(number, err=None, ends=lambda: (x - error, x + error)), key.data_type)
        assert quick is not None
        f.stored(quick[0], place)
        left = left_by_first_stage(quick[1] | _doubtful(x, most, zero))
        if f.target.careful:
            careful(i, place, number, most)
        elif f.target.probe is None or f.target.later:  # a probe keeps the first stage's record
            f.when(f.op(f"icmp ne i64 {lanes_as_bits(left)}, 0"), lambda: careful(i, place, number, most))

    def magnitudes(i: str) -> Value:
        """The sums of the magnitudes of the terms."""
        values = f.at(f.argument("value_rows"), i)

        def term(t: str, carried: list[Value]) -> list[Value]:
            w = f.all(f.loaded(DOUBLE, "%weights", f.times(t, 8)))
            return [f.fused(w, f.loaded(wide, values, f.times(t, columns_row)).magnitude(), carried[0])]

        return f.loop("0", f.argument("keys"), 1, [f.constant(wide, 0.0)], term)[1][0]

    def careful(i: str, place: str, number: Number, most: Value) -> None:
        x = number.wide()
        by_size = f.fused(share_of_sizes, magnitudes(i) * reciprocal, most.magnitude() * LEAST)
        by_size = f.fused(shares[2], x.magnitude(), by_size)
        less = by_size.compared("olt", number.error())
        error = f.chosen(less, by_size, number.error())
        bits, undecided = rounded(f, Number(f, lambda: x, err=lambda: error), most, zero)
        f.stored(bits, place)
        left = f.minus(columns, f.over(i, 8))
        inside = f.splat(f.word(left), lanes).compared("sgt", f.lane_numbers())
        mask = lanes_as_bits(undecided & inside)
        f.when(f.op(f"icmp ne i64 {mask}, 0"), lambda: f.undecided().append("%number", i, mask))

    f.each("0", pitch, group, 8 * lanes)

    def element(i: str, width: int, _: list[Value]) -> list[Value]:
        x = f.loaded(f.bits_kind(width), f.at(line, f.times(i, f.itemsize)))
        f.stored(x, f.at("%out", f.times(i, step)))
        return []

    def one_by_one() -> None:
        f.run(columns, side_by_side, [], element)

    f.when(f.op(f"xor i1 {at_once}, true"), one_by_one)
    return f


def rounded(f: Function, number: Number, most: Value, zero: Value) -> tuple[Value, Value]:
    """The bits of quotients, and the lanes that are left undecided.

    most: the largest values of the columns, see `rows.largest`. zero: whether some weights are 0, because they are so
    small or because their keys are no terms: an infinite value may have had such a weight, and a zero that is no term may have
    changed a sign.
    """
    bits, left = stored(number, f.key.data_type, integral=False)
    x = number.wide()
    doubtful = _doubtful(x, most, zero)
    undecided = left_by_first_stage(doubtful if left is None else left | doubtful)
    if f.target.later and not f.target.exact:
        # an infinite score makes NaN, which the second stage does not handle; an infinite value with a weight of 0 does, too
        undecided = undecided & (x.compared("ord", x) | doubtful)
    return bits, undecided


def _doubtful(x: Value, most: Value, zero: Value) -> Value:
    """The lanes of quotients that a weight of 0 may have changed: zeros, and what is not finite."""
    signs = x.compared("oeq", 0.0) & most.bits().compared("slt", 0)
    return zero & (signs | ~(x.magnitude().compared("olt", math.inf)))


def mark_undecided(target: Target, key: AttentionKey) -> Function:
    """Set the bits of the elements on the list; %open: of the first query's row, `open_row` bytes from one to the next."""
    f = Function(target, key, "left_open", ["ptr open"])
    state, row = f.argument("state"), f.argument("open_row")

    def entry(k: str) -> None:
        at = f.undecided().slot(k)
        number, place, mask = (f.load("i64", at, 8 * n) for n in range(3))
        bits = f.at("%open", f.times(number, row))

        def lane(n: str) -> None:
            column = f.plus(f.over(place, 8), n)
            to = f.at(bits, f.over(column, 8))
            moved = f.op(f"shl i64 1, {f.op(f'and i64 {column}, 7')}")
            old = f.loaded(Kind("i8"), to)
            f.stored(old | Value(f, f.op(f"trunc i64 {moved} to i8"), Kind("i8")), to)

        each_bit(f, mask, lane)
        some = f.op(f"zext i1 {f.op(f'icmp ne i64 {mask}, 0')} to i64")
        f.store("i64", f.plus(f.load("i64", state, LEFT), some), state, LEFT)

    f.each("0", f.undecided().count(), entry)
    f.undecided().counted("0")
    return f


assert DataType.FLOAT16.dtype.itemsize * 4 == 8
