"""The second stage, for what float64 leaves open, in sums of two float64: a query's weights, then elements of some columns.

u is 2^-53. A sum of products is kept as a head and a tail, and what the tail's additions lose is added up: where that is 0, the
sum is exact. Keys whose sums are exactly those of the largest score have the weight 1 exactly, so that where all that count
have it, the element is a quotient of exact numbers, which may be a tie, or 0. By definition, a term that is 2^-1024 of others
does not decide either; weights below e^-1000 are such terms, for values are between 2^-149 and 2^128.
"""

from __future__ import annotations

import math

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.results import ENTRY
from anydml.kernels.attention.shape import LIST, LOST, AttentionKey
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats import tile
from anydml.kernels.elementwise.functions import doubled
from anydml.kernels.elementwise.functions.pairs import Pair, exact_product, lost_product, two_sum
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.numbers import Number, U, odd_of
from anydml.kernels.elementwise.rounding import stored

SLACK = 1 + 2.0**-20
NONE = -690.0  # weights of scores so far below the top are taken as 0
NOTHING = -1000.0  # and those below do not decide anything
# about the weights of a row: their sum, its tail, the mean of their relative errors; whether all are exact, whether there are
# some that do not decide, whether some are 0, and how many are not, whose keys are listed in the place of losses
TOTAL, REST, ERROR, EXACT, LITTLE, ZERO, COUNT = range(0, 56, 8)


def _added(tail: Value, more: Value, lost: Value) -> tuple[Value, Value]:
    """A tail with something added to it, and what has been lost by then."""
    total, rest = two_sum(tail, more)
    return total, lost + rest.magnitude()


def sums_of_products(target: Target, shape: AttentionKey) -> Function:
    """The sums of products of a query with all keys: heads, tails, and bounds of their errors.

    query: its row.
    """
    f = Function(target, shape, "precise_sums", ["ptr query"])
    across, lanes, wide = tile.vectors(target), f.lanes, f.wide
    pitch, head, head_row, panels = (f.argument(x) for x in ("key_row", "head", "head_row", "panels"))
    heads, tails, losses = (f.argument(x) for x in ("heads", "tails", "losses"))
    size = 8 * lanes

    def vector(i: str) -> None:  # bytes along a row
        start = f.times(f.over(i, size * across), size * across)
        width = f.least(f.minus(pitch, start), str(size * across))
        place = f.at(f.at(panels, f.times(f.over(start, 8), head_row)), f.minus(i, start))

        def term(h: str, values: list[Value]) -> list[Value]:
            high, low, lost = values
            x = f.all(f.loaded(DOUBLE, "%query", f.times(h, 8)))
            y = f.loaded(wide, place, f.times(h, width))
            if not shape.biased:  # products of two elements are exact
                high, left = two_sum(high, x * y)
                low, lost = _added(low, left, lost)
                return [high, low, lost]
            product, rest = exact_product(x, y)
            high, left = two_sum(high, product)
            low, lost = _added(low, left, lost)
            low, lost = _added(low, rest, lost)
            return [high, low, lost + lost_product(x, y, product)]

        zero = f.constant(wide, 0.0)
        high, low, lost = f.loop("0", head, 1, [zero, zero, zero], term)[1]
        high, low = two_sum(high, low)
        for to, x in ((heads, high), (tails, low), (losses, lost * SLACK)):
            f.stored(x, to, i)

    f.each("0", pitch, vector, size)
    return f


def weights(target: Target, shape: AttentionKey) -> Function:
    """The weights of a query in place of its sums of products, and what is known about them, to `row`.

    norm: the query's. What the biases of queries and keys have lost counts at most as often as there are elements.
    """
    f = Function(target, shape, "precise_weights", ["i64 end", "ptr norm"])
    lanes = f.lanes = 2 * f.lanes  # so that two long chains of operations run beside each other
    wide = f.wide = Kind("double", lanes)
    scale, row = f.real("scale"), f.argument("row")
    # which may be half a vector more than a row has: it is not seen
    pitch = f.times(f.over(f.plus(f.argument("key_row"), 8 * lanes - 1), 8 * lanes), 8 * lanes)
    heads, tails, losses = (f.argument(x) for x in ("heads", "tails", "losses"))
    ends = f.all(f.word("%end"))
    numbers = f.lane_numbers()
    zero, infinite = f.constant(wide, 0.0), f.constant(wide, -math.inf)
    if shape.biased:
        elements_ = f.word(f.argument("head")).converted("uitofp", DOUBLE)
        lost_by_biases = f.loaded_real(f.argument("state"), LOST) * (1 + 2.0**-10)
        share, norm = f.all(lost_by_biases * elements_.root()), f.all(f.loaded_real("%norm"))

    def score(i: str) -> tuple[list[Value], Value, Value, Value, Value]:
        """Of what a score is made; it as a head and a tail, its error, and whether the key is seen."""
        high, low, lost = (f.loaded(wide, x, i) for x in (heads, tails, losses))
        scales = f.all(scale)
        head, rest = exact_product(high, scales)
        more = low * scales
        made = [high, low]
        if shape.biased:
            lost = f.fused(share, f.loaded(wide, f.argument("key_norms"), i) + norm, lost)
        size = rest.magnitude() + more.magnitude()
        tail = rest + more
        if shape.adds:
            added = f.loaded(wide, f.argument("added"), i)
            made.append(added)
            head, left = two_sum(head, added)
            tail, size = tail + left, size + left.magnitude()
        if shape.both:
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

    count = 5 + shape.adds + shape.both
    found = f.loop("0", pitch, 8 * lanes, [infinite, *[zero] * count], highest)[1]
    top, *parts = [x.lane(0) for x in found]
    for n in range(1, lanes):
        others = [x.lane(n) for x in found]
        above = others[0].compared("ogt", top)
        top, *parts = [f.chosen(above, x, y) for x, y in zip(others, (top, *parts), strict=True)]
    tops, top_tail, top_error, *alike = (f.all(x) for x in (top, *parts[:-1]))
    top_exact = f.all(parts[-1]).compared("oeq", 0.0)

    def weight(i: str, values: list[Value]) -> list[Value]:
        total, rest, mean, others, little, zeros = values
        made, head, tail, error, _ = score(i)
        same = top_exact & made[-1].compared("oeq", 0.0)
        for x, y in zip(made, alike, strict=False):
            same = same & x.compared("oeq", y)
        d, left = two_sum(head, -tops)
        difference = Pair(*two_sum(d, left + (tail - top_tail)))
        error = f.fused(left.magnitude() + tail.magnitude() + top_tail.magnitude(), 4 * U, error + top_error)
        none = ~(d.compared("ogt", NONE))
        made_ = doubled.UNARY["exp"](f.chosen(none, zero, difference.head), f.chosen(none, zero, difference.tail))
        one = made_.head.lift(1.0)
        high = f.chosen(none, zero, f.chosen(same, one, made_.head))
        low = f.chosen(none | same, zero, made_.tail)
        f.stored(high, heads, i)
        f.stored(low, tails, i)
        total, left = two_sum(total, high)
        rest = rest + (left + low)
        relative = f.chosen(none | same, zero, error + doubled.REL)
        infinite_ = head.compared("oeq", -math.inf)
        little_ = none & ~infinite_
        # a weight between both limits is neither 1 nor nothing
        counts = ~(same | infinite_ | d.compared("olt", NOTHING))
        mark = [f.chosen(x, one, y) for x, y in ((counts, others), (little_, little), (none, zeros))]
        return [total, rest, f.fused(high, relative, mean), *mark]

    total, rest, mean, *marks = f.loop("0", pitch, 8 * lanes, [zero] * 6, weight)[1]
    mean = f.combined(mean, lambda a, b: a + b)
    sums, tail = total.lane(0), f.combined(rest, lambda a, b: a + b)
    for n in range(1, lanes):
        sums, left = two_sum(sums, total.lane(n))
        tail = tail + left
    sums, tail = two_sum(sums, tail)
    counting, nothing, none = (f.combined(x, lambda a, b: a + b) for x in marks)
    terms = f.word(f.argument("keys")).converted("uitofp", DOUBLE)
    exact = counting.compared("oeq", 0.0)
    mean = f.fused(terms, 2.0**-102, mean * 2 / sums) * 1.25
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


def elements(target: Target, shape: AttentionKey) -> Function:
    """The elements of a vector of columns, `place` bytes along a row; those of `mask` are stored at `out`, and left in `left`.

    What cannot be decided stays in the mask, which is that of the list's entry.
    """
    f = Function(target, shape, "precise_elements", ["i64 place", "ptr listed", "ptr out"])
    wide, lanes = f.wide, f.lanes
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
        small, lost = _added(left, rest + more, lost)
        low, lost = _added(low, small, lost)
        lost = f.fused(rest.magnitude() + more.magnitude(), 4 * U, lost)
        return [high, low, lost + lost_product(w, v, product), size + product.magnitude()]

    zero = f.constant(wide, 0.0)
    some = f.load("i64", row, COUNT)
    high, low, lost, size = f.loop("0", some, 1, [f.constant(wide, -0.0), zero, zero, zero], term)[1]
    split = low.compared("une", 0.0)
    head, tail = two_sum(high, low)
    high, low = f.chosen(split, head, high), f.chosen(split, tail, low)
    total, rest, error, exact, little, zeros = (
        f.all(f.loaded_real(row, at)) for at in (TOTAL, REST, ERROR, EXACT, LITTLE, ZERO)
    )
    most = f.loaded(wide, f.argument("largest"), "%place")
    all_exact = exact.compared("ogt", 0.0)
    y = high / total
    product, left = exact_product(y, total)
    remainder = ((high - product) - left) + (low - y * rest)
    correction = remainder / total
    count = f.all(f.word(keys).converted("uitofp", DOUBLE))
    inexact = (correction.magnitude() * 2.0**-48 + y.magnitude() * 2.0**-100) + most.magnitude() * (
        error * 2 + count * 2.0**-900
    )
    loss = lost * SLACK / total
    bound = loss + f.chosen(all_exact, correction.magnitude() * 2.0**-48, inexact)
    if shape.biased:
        bound = bound + f.all(f.loaded_real(f.argument("state"), LOST) * (1 + 2.0**-10))
    ends = [two_sum(*_moved(y, correction, side)) for side in (-bound, bound)]
    odd = [odd_of(*end) for end in ends]
    plain = correction.compared("oeq", 0.0) & bound.compared("oeq", 0.0)
    bits = [_bits(f, f.chosen(plain, y, x)) for x in odd]
    open_ = bits[0].compared("ne", bits[1]) | ~(bound.compared("olt", math.inf))
    # a term that does not decide otherwise gives a 0 its sign, also one of values that cancel; of zeros alone, so may one that
    # is no term. Without minus signs, all that is 0 is +0
    cancelled = high.compared("oeq", 0.0) & most.bits().compared("slt", 0)
    made_little = little.compared("ogt", 0.0) & most.compared("one", 0.0)
    made_none = zeros.compared("ogt", 0.0) & size.compared("oeq", 0.0)
    # terms of weights that are 0 are left out, and not known where a value is infinite or NaN, by which the norm is
    numbers = f.loaded(wide, f.argument("norms"), "%place").compared("olt", math.inf)
    left_out = zeros.compared("ogt", 0.0) & ~numbers
    open_ = open_ | (cancelled & (made_little | made_none)) | left_out
    asked = f.load("i64", "%listed", 16)
    left_bits = f.op(f"and i64 {asked}, {lanes_as_bits(open_)}")
    f.store("i64", left_bits, "%listed", 16)
    made = f.op(f"and i64 {asked}, {f.op(f'xor i64 {left_bits}, -1')}")
    line, step = f.argument("line"), f.argument("output_c")
    f.stored(bits[0], line)

    def lane(n: str) -> None:
        bit = f.op(f"and i64 {f.op(f'lshr i64 {made}, {n}')}, 1")

        def store() -> None:
            column = f.plus(f.over("%place", 8), n)
            x = f.loaded(f.bits_kind(), f.at(line, f.times(n, f.itemsize)))
            f.stored(x, f.at("%out", f.times(column, step)))

        f.when(f.op(f"icmp ne i64 {bit}, 0"), store)

    f.each("0", str(lanes), lane)
    return f


def _bits(f: Function, x: Value) -> Value:
    """The bits that an exact number is stored as."""
    return stored(Number(f, lambda: x, exact=True), f.shape.data_type, integral=False)[0]


def _moved(y: Value, correction: Value, side: Value) -> tuple[Value, Value]:
    """A quotient and its correction as two numbers, of which the second is moved to one side."""
    head, tail = two_sum(y, correction)
    return head, tail + side


def refined(target: Target, shape: AttentionKey) -> Function:
    """Decide what is on the list; what stays open stays there."""
    f = Function(target, shape, "refined", [*(f"i64 {x}" for x in "oprs")])

    def entry(k: str, values: list[Value]) -> list[Value]:
        at = f.at(f.argument("list"), f.times(k, ENTRY))
        number, place = (f.load("i64", at, 8 * n) for n in range(2))
        s = f.plus("%s", number)

        def prepare() -> None:
            end = f.seen(s)
            if shape.adds:
                f.call_of("added", f"ptr {f.argument('added')}", f"i64 {end}", *(f"i64 %{x}" for x in "opr"), f"i64 {s}")
            query = f.at(f.argument("query_rows"), f.times(number, f.argument("head_row")))
            f.call_of("precise_sums", f"ptr {query}")
            norm = f.at(f.argument("query_norms"), f.times(number, 8))
            f.call_of("precise_weights", f"i64 {end}", f"ptr {norm}")

        f.when(f.op(f"icmp ne i64 {number}, {values[0].name}"), prepare)
        out = f.place("output", o="%o", p="%p", r="%r", s=s)
        f.call_of("precise_elements", f"i64 {place}", f"ptr {at}", f"ptr {out}")
        return [f.word(number)]

    f.loop("0", f.load("i64", f.argument("state"), LIST), 1, [f.constant(Kind("i64"), -1)], entry)
    return f
