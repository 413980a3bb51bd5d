"""The weights of a query's keys: e^(score - top), and what is known about their errors.

u is 2^-53. A score is scale * sum + added, where the error of the product is u |scale| |q| |k| (see `rows`), and that of the
addition u |score|. If two numbers are added, there is a further error of u (|score| + |scale * sum|); its second part is
included in the norms. The relative error of the difference from the top is u. The top may be any number: it is a common factor
of all weights and of their sum.

With |score| <= |top| + |d|, a weight has the relative error of its power and u (|scale| |q| |k| + a |top| + (a + 1) |d|), where
a is how many roundings are of the score's size. Only the mean of this over the weights of a row matters: the mean
of |k| is summed beside the weights, and the mean of |d| is at most the logarithm of their number, as entropy is. There are two
bounds of an element's error. One is this mean times the largest value. The other is a product of norms, as a bound of a sum of
products: the norms of the weights and of their products with |k| are computed anyway, and w^2 d^2 <= w * 4 / e^2.

This holds if the errors of all scores are small, also those of keys with small weights, and for weights of at least 2^-1000;
the errors of smaller ones are below 2^-1000, far less than the slack of bounds, which are above 2^-70.

If the errors are not small, one score may still be far above all others. The error of a score is E + (a + 1) u |d|, where E is
the largest error of a score of the top's size; that of the top itself is E. So if d < -(AHEAD + 3 E), up to slack, the exact
difference is below -AHEAD: all weights but one together are below 2^20 e^-200 < 2^-268 of that one, which is taken as 1, and
they as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import BETWEEN, LARGEST_KEY, NORMS, OWN, SIZES, SUM, TRUTHS, VALUES, ZERO, AttentionKey
from anydml.kernels.attention.powers import ZEROED, error, power
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.numbers.floats.numbers import U
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.functions.pairs import two_sum

AHEAD = 200.0  # how far a score must be above others for these not to count
LINEAR = 2.0**-10  # errors of scores up to which e^x - 1 is x but for the slack
SLACK = 1 + 2.0**-6
LOG_COUNT = 14.0  # the logarithm of the most keys, 2^20
TOGETHER = 4  # vectors in an iteration of the loops
DEPTH = 64  # terms in a block of the sum


def weighed(target: Target, key: AttentionKey) -> Function:
    """Replace a query's sums of products by its weights, and store what is known about the query.

    added: what is added to each score, if anything; end: the number of keys that are seen; norm: the query's.
    """
    f = Function(target, key, "weighed", ["ptr scores", "ptr added", "i64 end", "ptr norm", "ptr about"])
    lanes, wide = f.lanes, f.wide
    scale, keys, norms, pitch = f.real("scale"), f.argument("keys"), f.argument("key_norms"), f.argument("key_row")
    scales = f.all(scale)
    infinite = -math.inf

    def score(i: str, mask: Value | None, values: list[Value]) -> list[Value]:
        at = f.times(i, 8)
        x = f.loaded(wide, "%scores", at)
        if key.adds:
            x = f.fused(x, scales, f.loaded(wide, "%added", at))
            f.stored(x, "%scores", at)
        low, high = x, x
        if mask is not None:
            low, high = f.chosen(mask, x, math.inf), f.chosen(mask, x, infinite)
        return [at_most(values[0], low), at_least(values[1], high)]

    low, high = _through(f, "%end", [f.constant(wide, math.inf), f.constant(wide, infinite)], score)
    top, bottom = f.combined(high, at_least), f.combined(low, at_most)
    if not key.adds:
        ends = top * scale, bottom * scale
        top, bottom = at_least(*ends), at_most(*ends)
    minus = f.all(-top)

    sized = int(key.adds) + int(key.both)  # roundings of a score's size
    product = f.loaded_real("%norm") * (scale.magnitude() * U)
    size = top.magnitude() * (sized * U)
    worst = f.fused(product, f.loaded_real(f.argument("state"), LARGEST_KEY), size)

    def difference(i: str, mask: Value | None, *, near: bool = False) -> Value:
        x = f.loaded(wide, "%scores", f.times(i, 8))
        d = x + minus if key.adds else f.fused(x, scales, minus)
        if not near and not key.adds:  # the top's own rounding matters only where the errors are not small
            d = at_most(d, 1.0)
        return d if mask is None else f.chosen(mask, d, infinite)

    limit = f.all(-(f.fused(worst, 3.0, f.constant(DOUBLE, AHEAD)) * SLACK))
    one, none = f.constant(wide, 1.0), f.constant(f.kind("i64"), -1)

    def beside(i: str, mask: Value | None, values: list[Value]) -> list[Value]:
        near = difference(i, mask).compared("oge", limit)
        places = f.all(f.word(i)) + f.lane_numbers()
        return [values[0] + f.chosen(near, one, 0.0), f.chosen(near, places, values[1])]

    large = f.op(f"zext i1 {worst.compared('ogt', LINEAR).name} to i64")
    starts = [f.constant(wide, 0.0), none]
    found = f.loop("0", large, 1, starts, lambda _, values: _through(f, "%end", values, beside))[1]
    near = f.combined(found[0], lambda a, b: a + b)
    place = f.combined(found[1], lambda a, b: f.chosen(a.compared("sgt", b), a, b))

    def weight(i: str, mask: Value | None, values: list[Value], *, near: bool = False) -> list[Value]:
        at = f.times(i, 8)
        near = near and mask is None
        w = power(difference(i, mask, near=near), near=near)
        f.stored(w, "%scores", at)
        sized = w * f.loaded(wide, norms, at)
        return [values[0] + w, values[1] + sized, f.fused(w, w, values[2]), f.fused(sized, sized, values[3])]

    zero = f.constant(wide, 0.0)
    small = worst.compared("ole", LINEAR)
    no_zero = (bottom - top).compared("ogt", ZEROED + 1)

    def summed(*, near: bool) -> list[Value]:
        return _through(f, "%end", [zero, zero, zero, zero], partial(weight, near=near))

    # by far the most queries have no weights of 0
    sums = (
        summed(near=False)
        if f.on_device
        else f.either((small & no_zero).name, lambda: summed(near=True), lambda: summed(near=False))
    )
    total, mean, squares, errors = (f.combined(x, lambda a, b: a + b) for x in sums)
    seen = f.times(f.over(f.plus("%end", lanes - 1), lanes), lanes)
    f.each(seen, f.over(pitch, 8), lambda i: f.stored(zero, "%scores", f.times(i, 8)), lanes)

    count = f.word(keys).converted("uitofp", DOUBLE)
    rel, share = error(f, lanes)
    share += (sized + 1) * U
    mean_error = f.fused(product, mean / total, size + (rel + share * LOG_COUNT))
    # additions of values: in a block, of blocks; of weights: in a lane, of lanes. Then the reciprocal, its product, the ends
    added_up = count * (U / DEPTH) + (DEPTH + 4) * U
    values = (mean_error + added_up) * SLACK
    by_norms = f.fused(product, errors.root(), (size + (added_up + rel)) * squares.root())
    by_norms = f.fused(total.root(), 0.74 * share, by_norms) * SLACK / total
    own = (mean_error + (count * (U / lanes) + (lanes + 8) * U)) * SLACK
    # each weight of the sum may have the error of one of them
    sizes = (f.fused(at_most(top - bottom, -ZEROED), share, worst) + (rel + added_up)) * SLACK
    values, by_norms, sizes = (f.chosen(small, x, math.inf) for x in (values, by_norms, sizes))
    all_seen = f.value(f"icmp uge i64 %end, {keys}", Kind("i1"))
    none_zero = no_zero & all_seen
    # if a sum is NaN, or has no terms, nothing else matters
    nothing = f.value("icmp eq i64 %end, 0", Kind("i1"))
    plain = (none_zero & small) | nothing | total.compared("uno", total)
    alone = near.compared("oeq", 1.0) & total.compared("ord", total)
    total = f.chosen(alone, f.constant(DOUBLE, 1.0), total)
    values, own = f.chosen(alone, f.constant(DOUBLE, 2.0**-260), values), f.chosen(alone, f.constant(DOUBLE, 2.0**-48), own)
    by_norms, sizes = (f.chosen(alone, f.constant(DOUBLE, math.inf), x) for x in (by_norms, sizes))

    def only() -> None:
        f.each("0", f.over(pitch, 8), lambda i: f.stored(zero, "%scores", f.times(i, 8)), lanes)
        f.stored(f.constant(DOUBLE, 1.0), "%scores", f.times(place.name, 8))

    f.when(alone.name, only)
    f.stored(total, "%about", SUM)
    f.stored(values, "%about", VALUES)
    f.stored(by_norms, "%about", NORMS)
    f.stored(sizes, "%about", SIZES)
    f.stored(own, "%about", OWN)
    f.stored(f.chosen(plain, f.constant(DOUBLE, 0.0), 1.0), "%about", ZERO)
    return f


def _through(
    f: Function, end: str, carried: Sequence[Value], body: Callable[[str, Value | None, list[Value]], list[Value]]
) -> list[Value]:
    """Call `body(i, mask, values)` for each vector up to an end; the last vector may be partial and has a mask."""

    def several(i: str, values: list[Value]) -> list[Value]:
        for n in range(TOGETHER):
            values = body(f.plus(i, n * f.lanes), None, values)
        return values

    i, values = f.loop("0", end, TOGETHER * f.lanes, carried, several)
    i, values = f.loop(i, end, f.lanes, values, lambda i, values: body(i, None, values))
    left = f.minus(end, i)
    mask = f.lane_numbers().compared("slt", f.all(f.word(left)))
    some = f.op(f"icmp ne i64 {left}, 0")
    stop = f.plus(i, f.op(f"select i1 {some}, i64 {f.lanes}, i64 0"))
    return f.loop(i, stop, f.lanes, values, lambda i, values: body(i, mask, values))[1]


def added(target: Target, key: AttentionKey) -> Function:
    """The terms that are added to a query's scores: an element for each key, or the filter value where a mask excludes the key.

    If the mask excludes all keys that are seen, a finite filter is a common factor of all weights, and nothing is added.
    """
    f = Function(target, key, "added", ["ptr into", "i64 end", "i64 o", "i64 p", "i64 r", "i64 s"])
    at = {axis: f"%{axis}" for axis in "oprs"}
    infinity, rests = f.constant(DOUBLE, math.inf), f.argument("rests")

    kept, side_by_side = _kept(f, key, at) if key.mask else (None, "")
    number: Value | None = None
    if kept is not None:
        test = kept
        nothing = f.constant(f.kind("i64"), 0)
        (some,) = f.run(
            "%end", side_by_side, [nothing], lambda i, lanes, x: [x[0] | test(i, lanes).converted("zext", x[0].kind)]
        )
        given = f.real("filter")
        finite = given.magnitude().compared("olt", infinity)
        none = f.combined(some, lambda a, b: a | b).compared("eq", 0)
        number = f.chosen(finite & none, f.constant(DOUBLE, 0.0), given)
    if key.has("term"):
        step = f.argument("term_t")
        f.call_of("filled", "ptr %into", f"ptr {f.place('term', **at)}", "i64 1", "i64 0", f"i64 {step}", "i64 %end", "i64 0")

    def one(i: str, lanes: int, _: list[Value]) -> list[Value]:
        assert kept is not None
        assert number is not None
        eight, left_out = f.times(i, 8), f.splat(number, lanes) if lanes else number
        more = f.chosen(kept(i, lanes), 0.0, left_out)
        if key.has("term"):
            more, rest = two_sum(f.loaded_real("%into", eight, lanes), more)
            # a difference of infinities is NaN
            f.stored(f.chosen(rest.compared("ord", rest), rest, 0.0), rests, eight)
        f.stored(more, "%into", eight)
        return []

    if kept is not None:
        f.run("%end", side_by_side, [], one)
    return f


def _kept(f: Function, key: AttentionKey, at: dict[str, str]) -> tuple[Callable[[str, int], Value], str]:
    """Whether a mask leaves the scores of keys as they are, and whether those of several are found at once."""
    word = Kind("i64")
    if key.mask == TRUTHS:
        row, step = f.place("truths", **at), f.argument("truths_t")

        def truth(i: str, lanes: int) -> Value:
            return f.loaded(Kind("i32", lanes), row, f.times(i, step)).compared("ne", 0)

        return truth, f.op(f"icmp eq i64 {step}, 4")
    end = f.loaded(Kind("i32"), f.place("below", **at)).converted("sext", word)
    first = f.constant(word, 0)
    if key.mask == BETWEEN:
        first = f.loaded(Kind("i32"), f.place("least", **at)).converted("sext", word)

    def within(i: str, lanes: int) -> Value:
        if not lanes:
            place = f.word(i)
            return place.compared("slt", end) & place.compared("sge", first)
        places = f.splat(f.word(i), lanes) + f.lane_numbers()
        return places.compared("slt", f.splat(end, lanes)) & places.compared("sge", f.splat(first, lanes))

    return within, "true"
