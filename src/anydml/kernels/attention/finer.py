"""The second stage, for what float64 leaves undecided, in sums of two float64: a query's weights, then `finer_elements`.

u is 2^-53. A sum of products is kept as a head and a tail, and the rounding errors of the tail's additions are added up: if
they are 0, the sum is exact. Keys whose scores are exactly the largest one have the weight 1 exactly. If all keys that count
have it, the element is a quotient of exact numbers, which may be a tie, or 0. By definition, terms below 2^-1024 of the others
do not decide a rounding; weights below e^-1000 are such terms, for values are between 2^-149 and 2^128.
"""

from __future__ import annotations

import math

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import LOST, AttentionKey
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.numbers.floats.numbers import U
from anydml.kernels.numbers.functions import doubled
from anydml.kernels.numbers.functions.pairs import Pair, exact_product, two_sum

SLACK = 1 + 2.0**-20
NONE = -690.0  # scores that are this far below the largest: weights of 0
NOTHING = -1000.0  # weights below e to this power do not decide anything
EXPONENTS = 0x7FF << 52  # of the bits of float64
TINY = 2.0**-54  # for differences d up to this, e^d is computed as 1 + d: the error is at most d^2
# offsets of a row's numbers: the sum of its weights, the tail of the sum, the mean of the relative errors; whether all are
# exact, whether some do not decide, whether some are 0, and the number of weights that are not 0, whose keys are listed in the
# memory of rounding errors
TOTAL, REST, ERROR, EXACT, LITTLE, ZERO, COUNT = range(0, 56, 8)


def added_to(tail: Value, more: Value, lost: Value) -> tuple[Value, Value]:
    """A tail with a term added to it, and the sum of the rounding errors so far."""
    total, rest = two_sum(tail, more)
    return total, lost + rest.magnitude()


def weights(target: Target, key: AttentionKey) -> Function:
    """Replace a query's sums of products by its weights, and store what is known about them in `row`.

    norm: the query's. The rounding errors of the biases of queries and keys count at most once for each element of a head.
    """
    f = Function(target, key, "precise_weights", ["i64 end", "ptr norm"])
    if not f.on_device:
        f.lanes *= 2  # so that two long chains of operations are executed in parallel
    lanes, wide = f.lanes, f.kind("double")
    f.wide = wide
    scale, row = f.real("scale"), f.argument("row")
    # which may be half a vector longer than a row: the rest is not seen
    pitch = f.times(f.over(f.plus(f.argument("key_row"), 8 * lanes - 1), 8 * lanes), 8 * lanes)
    heads, tails, losses = (f.argument(x) for x in ("heads", "tails", "losses"))
    ends = f.all(f.word("%end"))
    numbers = f.lane_numbers()
    zero, infinite = f.constant(wide, 0.0), f.constant(wide, -math.inf)
    if key.biased:
        elements_ = f.word(f.argument("head")).converted("uitofp", DOUBLE)
        lost_by_biases = f.loaded_real(f.argument("state"), LOST) * (1 + 2.0**-10)
        share, norm = f.all(lost_by_biases * elements_.root()), f.all(f.loaded_real("%norm"))

    def score(i: str) -> tuple[list[Value], Value, Value, Value, Value]:
        """A score as a head and a tail, its error, and whether the key is seen; also the terms that it is made of."""
        high, low, lost = (f.loaded(wide, x, i) for x in (heads, tails, losses))
        scales = f.all(scale)
        head, rest = exact_product(high, scales)
        more = low * scales
        made = [high, low]
        if key.biased:
            lost = f.fused(share, f.loaded(wide, f.argument("key_norms"), i) + norm, lost)
        size = rest.magnitude() + more.magnitude()
        tail = rest + more
        if key.adds:
            added = f.loaded(wide, f.argument("added"), i)
            made.append(added)
            head, left = two_sum(head, added)
            tail, size = tail + left, size + left.magnitude()
        if key.both:
            rest = f.loaded(wide, f.argument("rests"), i)
            made.append(rest)
            tail, size = tail + rest, size + rest.magnitude()
        error = f.fused(lost, scales.magnitude(), size * (8 * U))
        places = f.all(f.word(f.over(i, 8))) + numbers
        seen = places.compared("slt", ends)
        return [*made, lost], f.chosen(seen, head, infinite), tail, error, seen

    def highest(i: str, values: list[Value]) -> list[Value]:
        made, head, tail, error, _ = score(i)
        above = head.compared("ogt", values[0])
        return [f.chosen(above, x, y) for x, y in zip((head, tail, error, *made), values, strict=True)]

    count = 5 + key.adds + key.both
    found = f.loop("0", pitch, 8 * lanes, [infinite, *[zero] * count], highest)[1]
    top, *parts = [x.lane(0) for x in found]
    for n in range(1, lanes):
        others = [x.lane(n) for x in found]
        above = others[0].compared("ogt", top)
        top, *parts = [f.chosen(above, x, y) for x, y in zip(others, (top, *parts), strict=True)]
    tops, top_tail, top_error, *of_top = (f.all(x) for x in (top, *parts[:-1]))
    top_exact = f.all(parts[-1]).compared("oeq", 0.0)

    def weight(i: str, values: list[Value]) -> list[Value]:
        total, rest, sizes, mean, others, little, zeros = values
        made, head, tail, error, _ = score(i)
        same = top_exact & made[-1].compared("oeq", 0.0)
        for x, y in zip(made, of_top, strict=False):
            same = same & x.compared("oeq", y)
        d, left = two_sum(head, -tops)
        difference = Pair(*two_sum(d, left + (tail - top_tail)))
        error = f.fused(left.magnitude() + tail.magnitude() + top_tail.magnitude(), 4 * U, error + top_error)
        none = ~(d.compared("ogt", NONE))
        made_ = doubled.UNARY["exp"](f.chosen(none, zero, difference.head), f.chosen(none, zero, difference.tail))
        one, size = made_.head.lift(1.0), difference.head.magnitude()
        tiny = size.compared("ole", TINY)
        high = f.chosen(none, zero, f.chosen(same | tiny, one, made_.head))
        low = f.chosen(none | same, zero, f.chosen(tiny, difference.head, made_.tail))
        f.stored(high, heads, i)
        f.stored(low, tails, i)
        total, left = two_sum(total, high)
        more = left + low
        rest, sizes = rest + more, sizes + more.magnitude()
        relative = f.chosen(none | same, zero, error + f.chosen(tiny, size * (2 * U), doubled.REL))
        infinite_ = head.compared("oeq", -math.inf)
        little_ = none & ~infinite_
        # a weight between both limits is neither 1 nor nothing
        counts = ~(same | infinite_ | d.compared("olt", NOTHING))
        mark = [f.chosen(x, one, y) for x, y in ((counts, others), (little_, little), (none, zeros))]
        return [total, rest, sizes, f.fused(high, relative, mean), *mark]

    total, rest, sizes, mean, *marks = f.loop("0", pitch, 8 * lanes, [zero] * 7, weight)[1]
    mean, size = (f.combined(x, lambda a, b: a + b) for x in (mean, sizes))
    sums, tail = total.lane(0), f.combined(rest, lambda a, b: a + b)
    for n in range(1, lanes):
        sums, left = two_sum(sums, total.lane(n))
        tail, size = tail + left, size + left.magnitude()
    sums, tail = two_sum(sums, tail)
    counting, nothing, none = (f.combined(x, lambda a, b: a + b) for x in marks)
    terms = f.word(f.argument("keys")).converted("uitofp", DOUBLE)
    exact = counting.compared("oeq", 0.0)
    # the rounding errors of the tails' additions, within a lane and between lanes
    lost_by_tails = (terms * (1 / lanes) + float(3 * lanes)) * (2 * U) * size
    mean = (lost_by_tails + mean * 2) / sums * 1.25
    for at, x in (
        (TOTAL, sums),
        (REST, tail),
        (ERROR, f.chosen(exact, f.constant(DOUBLE, 0.0), mean)),
        (EXACT, f.chosen(exact, f.constant(DOUBLE, 1.0), 0.0)),
        (LITTLE, nothing),
        (ZERO, none),
    ):
        f.stored(x, row, at)

    def listed(t: str, values: list[Value]) -> list[Value]:
        f.stored(f.word(t), losses, f.times(values[0].name, 8))
        some = f.loaded(DOUBLE, heads, f.times(t, 8)).compared("une", 0.0)
        return [values[0] + some.converted("zext", values[0].kind)]

    (count_,) = f.loop("0", f.argument("keys"), 1, [f.word("0")], listed)[1]
    f.stored(count_, row, COUNT)
    return f


def refined(target: Target, key: AttentionKey) -> Function:
    """Decide what is on the list; what stays undecided stays there."""
    f = Function(target, key, "refined", [*(f"i64 {x}" for x in "oprs")])
    head_row = f.argument("head_row")

    def another(row: str, before: str) -> str:
        """Whether two queries have different elements; rows of padding have the same."""
        kind = f.kind("i64")

        def some(i: str, values: list[Value]) -> list[Value]:
            x, y = (f.loaded(kind, place, i) for place in (row, before))
            return [values[0] | (x ^ y)]

        (found,) = f.loop("0", head_row, 8 * f.lanes, [f.constant(kind, 0)], some)[1]
        return f.combined(found, lambda a, b: a | b).compared("ne", 0).name

    def entry(k: str, values: list[Value]) -> list[Value]:
        at = f.undecided().slot(k)
        number, place = (f.load("i64", at, 8 * n) for n in range(2))
        s = f.plus("%s", number)
        end = f.seen(s)
        query = f.at(f.argument("query_rows"), f.times(number, head_row))
        unlike = f.op(f"icmp ne i64 {number}, {values[0].name}")
        if not key.adds:  # for the first entry of the list, the row is compared with itself
            first = f.op(f"icmp eq i64 {k}, 0")
            before = f.at(f.argument("query_rows"), f.times(values[0].name, head_row))
            unlike = f.op(f"or i1 {first}, {f.op(f'icmp ne i64 {end}, {values[1].name}')}")
            unlike = f.op(f"or i1 {unlike}, {another(query, before)}")

        def prepare() -> None:
            if key.adds:
                f.call_of("added", f"ptr {f.argument('added')}", f"i64 {end}", *(f"i64 %{x}" for x in "opr"), f"i64 {s}")
            norm = f.at(f.argument("query_norms"), f.times(number, 8))
            f.call_of("precise_sums", f"ptr {query}", f"ptr {norm}")
            f.call_of("precise_weights", f"i64 {end}", f"ptr {norm}")

        f.when(unlike, prepare)
        out = f.place("output", o="%o", p="%p", r="%r", s=s)
        f.call_of("precise_elements", f"i64 {place}", f"ptr {at}", f"ptr {out}")
        return [f.word(number), f.word(end)]

    begun = -1 if key.adds else 0
    starts = [f.constant(Kind("i64"), x) for x in (begun, 0)]
    f.loop("0", f.undecided().count(), 1, starts, entry)
    return f
