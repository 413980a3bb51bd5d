"""Elements in the second stage of attention: quotients of sums of two float64, some columns at a time."""

from __future__ import annotations

import math

from anydml.kernels.attention.finer import COUNT, ERROR, EXACT, EXPONENTS, LITTLE, REST, SLACK, TOTAL, ZERO, added_to
from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import LOST, AttentionKey
from anydml.kernels.code import probe
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers.floats.numbers import Number, U, odd_of
from anydml.kernels.numbers.floats.rounding import stored
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.undecided.lists import each_bit


def elements(target: Target, key: AttentionKey) -> Function:
    """The elements of a vector of columns, `place` bytes along a row; those of `mask` are stored at `out`, and left in `left`.

    Elements that cannot be decided stay in the mask of the list's entry.
    """
    f = Function(target, key, "precise_elements", ["i64 place", "ptr listed", "ptr out"])
    wide = f.wide
    keys, pitch, row = f.argument("keys"), f.argument("column_row"), f.argument("row")
    values_ = f.at(f.argument("value_rows"), "%place")
    heads, tails = f.argument("heads"), f.argument("tails")

    losses = f.argument("losses")

    def term(n: str, values: list[Value]) -> list[Value]:
        high, low, lost, size = values
        t = f.load("i64", losses, f.times(n, 8))
        eight = f.times(t, 8)
        w, w_rest = (f.all(f.loaded(DOUBLE, x, eight)) for x in (heads, tails))
        v = f.loaded(wide, values_, f.times(t, pitch))
        product, rest = exact_product(w, v)
        more = w_rest * v
        high, left = two_sum(high, product)
        small, lost = added_to(left, rest + more, lost)
        low, lost = added_to(low, small, lost)
        lost = f.fused(rest.magnitude() + more.magnitude(), 4 * U, lost)
        return [high, low, lost + lost_product(w, v, product), size + product.magnitude()]

    zero = f.constant(wide, 0.0)
    some = f.load("i64", row, COUNT)
    total, rest, error, exact, little, zeros = (
        f.all(f.loaded_real(row, at)) for at in (TOTAL, REST, ERROR, EXACT, LITTLE, ZERO)
    )
    most = f.loaded(wide, f.argument("largest"), "%place")
    numbers = f.loaded(wide, f.argument("norms"), "%place").compared("olt", math.inf)

    def in_any_order() -> list[Value]:
        return f.loop("0", some, 1, [f.constant(wide, -0.0), zero, zero, zero], term)[1]

    def below() -> list[Value]:
        return [*_below(f, total * most.magnitude(), some), most]  # instead of sizes, which only tell zeros from others

    def decide(quick: str | None) -> None:
        high, low, lost, size = in_any_order() if quick is None else f.either(quick, below, in_any_order)
        split = low.compared("une", 0.0)
        head, tail = two_sum(high, low)
        high, low = f.chosen(split, head, high), f.chosen(split, tail, low)
        all_exact = exact.compared("ogt", 0.0)
        y = high / total
        product, left = exact_product(y, total)
        of_rest = y * rest
        remainder = ((high - product) - left) + (low - of_rest)  # the first of them is exact
        correction = remainder / total
        count = f.all(f.word(keys).converted("uitofp", DOUBLE))
        by_tails = (low.magnitude() + of_rest.magnitude()) * (4 * U) / total
        inexact = (correction.magnitude() * 2.0**-48 + by_tails) + most.magnitude() * (error * 2 + count * 2.0**-900)
        loss = lost * SLACK / total
        bound = loss + f.chosen(all_exact, correction.magnitude() * 2.0**-48, inexact)
        if key.biased:
            bound = bound + f.all(f.loaded_real(f.argument("state"), LOST) * (1 + 2.0**-10))
        ends = [two_sum(*_moved(y, correction, side)) for side in (-bound, bound)]
        odd = [odd_of(*end) for end in ends]
        plain = correction.compared("oeq", 0.0) & bound.compared("oeq", 0.0)
        bits = [_bits(f, f.chosen(plain, y, x)) for x in odd]
        undecided = bits[0].compared("ne", bits[1]) | ~(bound.compared("olt", math.inf))
        # the sign of a 0 depends on terms that decide nothing else, also where values cancel; among zeros alone, even on one
        # that is not a term. Without minus signs, every 0 is +0
        cancelled = high.compared("oeq", 0.0) & most.bits().compared("slt", 0)
        made_little = little.compared("ogt", 0.0) & most.compared("one", 0.0)
        made_none = zeros.compared("ogt", 0.0) & size.compared("oeq", 0.0)
        # terms with the weight 0 are left out; where a value is infinite or NaN, and so the norm is, they are not known
        left_out = zeros.compared("ogt", 0.0) & ~numbers
        undecided = undecided | (cancelled & (made_little | made_none)) | left_out
        if f.target.probe is not None:
            bits[0] = probe.record(y, correction, bound, f.key.data_type.element_bits)
            undecided = f.constant(undecided.kind, False)
        asked = f.load("i64", "%listed", 16)
        left_bits = f.op(f"and i64 {asked}, {lanes_as_bits(undecided)}")
        f.store("i64", left_bits, "%listed", 16)
        made = f.op(f"and i64 {asked}, {f.op(f'xor i64 {left_bits}, -1')}")
        line, step = f.argument("line"), f.argument("output_c")
        f.stored(bits[0], line)

        def lane(n: str) -> None:
            column = f.plus(f.over("%place", 8), n)
            x = f.loaded(f.bits_kind(), f.at(line, f.times(n, f.itemsize)))
            f.stored(x, f.at("%out", f.times(column, step)))

        each_bit(f, made, lane)

    if f.on_device or not f.has_fma:
        decide(None)
        return f
    # exact sums, and those of zeros, need every rounding error
    others = lanes_as_bits(exact.compared("ogt", 0.0) | ~numbers | most.compared("oeq", 0.0))
    all_asked = f.load("i64", "%listed", 16)
    slow = f.op(f"icmp ne i64 {f.op(f'and i64 {others}, {all_asked}')}, 0")

    def turn(n: str) -> None:
        some_left = f.op(f"icmp ne i64 {f.load('i64', '%listed', 16)}, 0")
        f.when(some_left, lambda: decide(f.op(f"icmp eq i64 {n}, 0")))

    f.each(f.op(f"zext i1 {slow} to i64"), "2", turn)
    return f


def _below(f: Function, largest: Value, some: str) -> list[Value]:
    """Sums of the weighted values in fewer operations: heads, tails, and bounds of their errors.

    largest: about the largest possible sum of magnitudes. b is the power of two below it, and sums begin with 8 b, as in
    `finer_sums`. A rest is rounded, since weights have 53 bits: at most 2^-103 b is lost, and with its weight's tail 2^-102 b.
    Sums of n such terms are below 2^-49 n b.
    """
    values, pitch = f.at(f.argument("value_rows"), "%place"), f.argument("column_row")
    heads, tails, losses = (f.argument(x) for x in ("heads", "tails", "losses"))
    power = ((largest * (1 + 2.0**-20)).bits() & EXPONENTS).cast(f.wide)
    start = power * 8.0

    def term(n: str, sums: list[Value]) -> list[Value]:
        high, low = sums
        t = f.load("i64", losses, f.times(n, 8))
        w, w_rest = (f.all(f.loaded(DOUBLE, x, f.times(t, 8))) for x in (heads, tails))
        v = f.loaded(f.wide, values, f.times(t, pitch))
        total = f.fused(w, v, high)
        return [total, low + f.fused(w_rest, v, f.fused(w, v, high - total))]

    high, low = f.loop("0", some, 1, [start, f.constant(f.wide, 0.0)], term)[1]
    count = f.all(f.word(some).converted("uitofp", DOUBLE))
    return [high - start, low, power * (count * (count + 4.0) * 2.0**-102)]


def _bits(f: Function, x: Value) -> Value:
    """The bits that an exact number is stored as."""
    return stored(Number(f, lambda: x, exact=True), f.key.data_type, integral=False)[0]


def _moved(y: Value, correction: Value, side: Value) -> tuple[Value, Value]:
    """A quotient and its correction as two numbers; the second is moved by its error in one direction."""
    head, tail = two_sum(y, correction)
    return head, tail + side
