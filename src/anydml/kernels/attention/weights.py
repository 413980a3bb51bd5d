"""The weights of a query's keys: e^(score - top), and what is known about their errors.

u is 2^-53. A score is scale * sum + added, of which the sum is off by u |q| |k| (see `rows`). Its own rounding and that of what
is added (two numbers, of which one is 0 or read) are off by u of themselves, so by u (2 |score| + |scale * sum|); the difference
from the top is off by u of itself, too. The top may be any number: it is a factor of all weights, and of their sum.

With |score| <= |top| + |d|, a weight w has the relative error EXP_REL + u (|scale| |q| |k| (1 + 3 / 4) + 2 |top| + 3 |d|), for a norm
counts every term 4 times at least. What the weights of a row have on average of this is what counts: the mean of |k| is
summed beside the weights, and that of |d| is at most the logarithm of their number, as entropy is.

This holds as long as the errors of all scores are small, also those of keys that hardly count, and for weights that are not
below 2^-1000, which are off by less than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.shape import (
    ABOUT,
    BETWEEN,
    COEFFICIENT,
    LARGEST_KEY,
    SUM,
    TOP,
    TRUTHS,
    ZERO,
    Shape,
)
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.elementwise.functions.approximate import at_least
from anydml.kernels.elementwise.functions.exponentials import EXP_REL, LOWEST, exponential
from anydml.kernels.elementwise.functions.pairs import two_sum
from anydml.kernels.elementwise.numbers import U

SMALL = 2.0**-10  # errors of scores up to which e^x - 1 is x but for the slack
SLACK = 1 + 2.0**-6
LOG_COUNT = 14.0  # the logarithm of the most keys, 2^20
DEPTH = 64  # terms that are added up before they are added to others
ZEROED = -708.0  # what is below counts as 0


def weighed(target: Target, shape: Shape) -> Function:
    """The weights in place of the sums of products of a query, and what is known about the query.

    added: what is added to each score, if anything is; end: the keys that are seen; norm: the query's.
    """
    f = Function(target, shape, "weighed", ["ptr scores", "ptr added", "i64 end", "ptr norm", "ptr about"])
    lanes, wide = f.lanes, f.wide
    scale, keys, norms, pitch = f.real("scale"), f.argument("keys"), f.argument("key_norms"), f.argument("key_row")
    infinite = f.constant(DOUBLE, -math.inf)

    def scores(i: str, lanes_: int, values: list[Value]) -> list[Value]:
        at = f.times(i, 8)
        x = f.loaded_real("%scores", at, lanes_)
        factor = f.splat(scale, lanes_) if lanes_ else scale
        x = f.fused(x, factor, f.loaded_real("%added", at, lanes_)) if shape.adds else x * factor
        f.stored(x, "%scores", at)
        low, high = values
        return [f.chosen(x.compared("olt", low), x, low), f.chosen(x.compared("ogt", high), x, high)]

    ends = [f.constant(wide, math.inf), f.constant(wide, -math.inf)]
    low, high = f.run("%end", "true", ends, scores)
    padded = f.over(pitch, 8)
    f.each("%end", padded, lambda i: f.stored(infinite, "%scores", f.times(i, 8)))
    top = f.combined(high, lambda a, b: f.chosen(b.compared("ogt", a), b, a))
    bottom = f.combined(low, lambda a, b: f.chosen(b.compared("olt", a), b, a))
    tops = f.all(top)

    def weights(i: str, values: list[Value]) -> list[Value]:
        d = f.loaded(wide, "%scores", i) - tops
        w = exponential(at_least(d, LOWEST))
        f.stored(w, "%scores", i)
        return [values[0] + w, f.fused(w, f.loaded(wide, norms, i), values[1])]

    zero = f.constant(wide, 0.0)
    _, (total, mean) = f.loop("0", pitch, 8 * lanes, [zero, zero], weights)
    total, mean = (f.combined(x, lambda a, b: a + b) for x in (total, mean))

    count = f.word(keys).converted("uitofp", DOUBLE)
    product = f.loaded_real("%norm") * (scale.magnitude() * U)
    size = top.magnitude() * (3 * U)
    mean_error = f.fused(product * 1.75, mean / total, size + (EXP_REL + 3 * U * LOG_COUNT))
    # additions of values: in a block, of blocks; of weights: in a lane, of lanes. Then the reciprocal, its product, the ends
    blocks, groups = count * (U / DEPTH), count * (U / lanes)
    coefficient = (mean_error * 2 + (blocks + groups + (DEPTH + lanes + 14) * U)) * SLACK + count * 2.0**-900
    worst = f.fused(product * 1.75, f.loaded_real(f.argument("state"), LARGEST_KEY), size)
    coefficient = f.chosen(worst.compared("ole", SMALL), coefficient, math.inf)
    all_seen = f.value(f"icmp uge i64 %end, {keys}", Kind("i1"))
    none_zero = (bottom - top).compared("ogt", ZEROED) & all_seen
    # of a sum that is NaN, nothing else matters
    plain = none_zero | total.compared("uno", total)
    f.stored(total, "%about", SUM)
    f.stored(coefficient, "%about", COEFFICIENT)
    f.stored(f.chosen(plain, f.constant(DOUBLE, 0.0), 1.0), "%about", ZERO)
    f.stored(top, "%about", TOP)
    return f


assert TOP == 8 * (ABOUT - 1)


def added(target: Target, shape: Shape) -> Function:
    """What is added to the scores of a query: what is read for each, and where a mask leaves it out, the filter.

    Where it leaves out all that are seen, a finite filter is a factor of all weights, and nothing is added.
    """
    f = Function(target, shape, "added", ["ptr into", "i64 end", "i64 o", "i64 p", "i64 r", "i64 s"])
    at = {axis: f"%{axis}" for axis in "oprs"}
    infinity, rests = f.constant(DOUBLE, math.inf), f.argument("rests")

    kept, side_by_side = _kept(f, at) if shape.mask else (None, "")
    number: Value | None = None
    if kept is not None:
        test = kept
        nothing = f.constant(Kind("i64", f.lanes), 0)
        (some,) = f.run(
            "%end", side_by_side, [nothing], lambda i, lanes, x: [x[0] | test(i, lanes).converted("zext", x[0].kind)]
        )
        given = f.real("filter")
        finite = given.magnitude().compared("olt", infinity)
        none = f.combined(some, lambda a, b: a | b).compared("eq", 0)
        number = f.chosen(finite & none, f.constant(DOUBLE, 0.0), given)
    if shape.has("term"):
        step = f.argument("term_t")
        f.call_of("filled", "ptr %into", f"ptr {f.place('term', **at)}", "i64 1", "i64 0", f"i64 {step}", "i64 %end", "i64 0")

    def one(i: str, lanes: int, _: list[Value]) -> list[Value]:
        assert kept is not None
        assert number is not None
        eight, left_out = f.times(i, 8), f.splat(number, lanes) if lanes else number
        more = f.chosen(kept(i, lanes), 0.0, left_out)
        if shape.has("term"):
            more, rest = two_sum(f.loaded_real("%into", eight, lanes), more)
            # of infinities, NaN is left over
            f.stored(f.chosen(rest.compared("ord", rest), rest, 0.0), rests, eight)
        f.stored(more, "%into", eight)
        return []

    if kept is not None:
        f.run("%end", side_by_side, [], one)
    return f


def _kept(f: Function, at: dict[str, str]) -> tuple[Callable[[str, int], Value], str]:
    """Whether a mask leaves the scores of keys as they are, and whether those of several are found at once."""
    shape, word = f.shape, Kind("i64")
    if shape.mask == TRUTHS:
        row, step = f.place("truths", **at), f.argument("truths_t")

        def truth(i: str, lanes: int) -> Value:
            return f.loaded(Kind("i32", lanes), row, f.times(i, step)).compared("ne", 0)

        return truth, f.op(f"icmp eq i64 {step}, 4")
    end = f.loaded(Kind("i32"), f.place("below", **at)).converted("sext", word)
    first = f.constant(word, 0)
    if shape.mask == BETWEEN:
        first = f.loaded(Kind("i32"), f.place("least", **at)).converted("sext", word)

    def within(i: str, lanes: int) -> Value:
        if not lanes:
            place = f.word(i)
            return place.compared("slt", end) & place.compared("sge", first)
        places = f.splat(f.word(i), lanes) + f.lane_numbers()
        return places.compared("slt", f.splat(end, lanes)) & places.compared("sge", f.splat(first, lanes))

    return within, "true"
