"""Scores in the second stage of attention: the sums of products of a query with all keys, in two float64."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.attention.finer import EXPONENTS, SLACK, added_to
from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import AttentionKey
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum

HUGE = 2.0**1000  # norms of products


def sums_of_products(target: Target, key: AttentionKey) -> Function:
    """The sums of products of a query with all keys: heads, tails, and bounds of their errors.

    query: the address of its row; norm: its norm.
    """
    f = Function(target, key, "precise_sums", ["ptr query", "ptr norm"])
    across, lanes, wide = f.across, f.lanes, f.wide
    pitch, head, head_row, panels = (f.argument(x) for x in ("key_row", "head", "head_row", "panels"))
    heads, tails, losses = (f.argument(x) for x in ("heads", "tails", "losses"))
    size = 8 * lanes
    terms, zero = f.word(head).converted("uitofp", DOUBLE), f.constant(wide, 0.0)

    def panel(number: str) -> None:
        start = f.times(number, size * across)  # bytes along a row
        width = f.least(f.minus(pitch, start), str(size * across))
        last = f.minus(pitch, size)
        # a smaller panel has its last vector several times
        along = [start, *(f.least(f.plus(start, size * n), last) for n in range(1, across))]
        first = f.at(panels, f.times(f.over(start, 8), head_row))
        places = [f.at(first, f.minus(i, start)) for i in along]

        def factors(h: str) -> list[tuple[Value, Value]]:
            x = f.all(f.loaded(DOUBLE, "%query", f.times(h, 8)))
            return [(x, f.loaded(wide, place, f.times(h, width))) for place in places]

        def in_any_order() -> list[Value]:
            def term(h: str, sums: list[Value]) -> list[Value]:
                return [
                    x
                    for n, pair in enumerate(factors(h))
                    for x in _in_any_order(pair, sums[3 * n : 3 * n + 3], biased=key.biased)
                ]

            return f.loop("0", head, 1, [zero] * (3 * len(along)), term)[1]

        if key.biased or f.on_device:
            found = in_any_order()
        else:
            keys, norm = f.argument("key_norms"), f.all(f.loaded_real("%norm"))
            norms = [f.loaded(wide, keys, i) * norm for i in along]
            huge = ~norms[0].compared("olt", HUGE)  # or NaN
            for x in norms[1:]:
                huge = huge | ~x.compared("olt", HUGE)
            some = f.op(f"icmp ne i64 {lanes_as_bits(huge)}, 0")
            found = f.either(some, in_any_order, lambda: _below(f, factors, head, norms, terms), seldom=True)
        for n, i in enumerate(along):
            high, low, lost = found[3 * n : 3 * n + 3]
            high, low = two_sum(high, low)
            for to, x in ((heads, high), (tails, low), (losses, lost * SLACK)):
                f.stored(x, to, i)

    f.each("0", f.over(f.plus(pitch, size * across - 1), size * across), panel)
    return f


def _in_any_order(factors: tuple[Value, Value], sums: list[Value], *, biased: bool) -> list[Value]:
    """A sum, its tail and the rounding errors, with one more product."""
    x, y = factors
    high, low, lost = sums
    if not biased:  # products of two elements are exact
        high, left = two_sum(high, x * y)
        low, lost = added_to(low, left, lost)
        return [high, low, lost]
    product, rest = exact_product(x, y)
    high, left = two_sum(high, product)
    low, lost = added_to(low, left, lost)
    low, lost = added_to(low, rest, lost)
    return [high, low, lost + lost_product(x, y, product)]


def _below(
    f: Function, factors: Callable[[str], list[tuple[Value, Value]]], head: str, norms: list[Value], terms: Value
) -> list[Value]:
    """The same for all terms, if products are exact: in fewer operations, with bounds of the sums of their magnitudes.

    b is the power of two below such a bound, a product of norms. Sums that begin with 8 b stay above all terms and below
    16 b, so that a subtraction finds what each addition loses: at most 2^-50 b. The sums of these begin with 8 2^-50 b times a
    power of two above their number. What they lose in turn is added up with roundings.
    """
    starts, zero = [], f.constant(f.wide, 0.0)
    for x in norms:
        least = (x.bits() & EXPONENTS).cast(f.wide)
        starts += [least * 8.0, least * f.all((terms.bits() & EXPONENTS).cast(DOUBLE) * 2.0**-46), zero, zero]

    def term(h: str, values: list[Value]) -> list[Value]:
        made = []
        for n, (x, y) in enumerate(factors(h)):
            high, low, lost, some = values[4 * n : 4 * n + 4]
            total = f.fused(x, y, high)
            rest = f.fused(x, y, high - total)
            small = low + rest
            left = rest - (small - low)
            made += [total, small, lost + left, (some.bits() | left.magnitude().bits()).cast(f.wide)]
        return made

    found, made = f.loop("0", head, 1, starts, term)[1], []
    share = terms * terms * 2.0**-104  # each of the lost numbers is at most 2^-52 of the start of the sum that loses it
    for n in range(0, len(found), 4):
        high, low = two_sum(found[n] - starts[n], found[n + 1] - starts[n + 1])
        low, left = two_sum(low, found[n + 2])
        rounded = f.chosen(found[n + 3].compared("oeq", 0.0), zero, starts[n + 1] * f.all(share))
        made += [high, low, left.magnitude() + rounded]
    return made
