"""A compensated sum in three float64: the rounding errors of its additions are summed, and so are the errors of these."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Kind, Value
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.tensor import DataType


def wide(bits: Value, data_type: DataType) -> Value:
    """An element as float64."""
    single = singles.widened(bits, data_type)
    return single.converted("fpext", bits.kind.of("double"))


def plus(values: list[Value], x: Value) -> list[Value]:
    """A sum with one more term: the head, its rounding errors, the errors of those, .., and last a bound of what is lost."""
    *sums, lost = values
    made = []
    for one in sums:
        total, x = two_sum(one, x)
        made.append(total)
    return [*made, lost + x.magnitude()]


def together(values: list[Value]) -> list[Value]:
    """The sum of the sums of all lanes."""
    lanes = values[0].kind.lanes
    while lanes > 1:
        lanes //= 2
        values = joined(*([_part(v, first, lanes) for v in values] for first in (0, lanes)))
    return [v.lane(0) for v in values]


def joined(values: list[Value], others: list[Value]) -> list[Value]:
    """The sum of two sums."""
    total, left, rest, lost = others
    ends = total.magnitude().compared("olt", math.inf)  # the rounding error beside an infinity is NaN
    values = plus([*values[:3], values[3] + lost], total)
    # not added to the head, where zeros would change a zero's sign
    values[1:] = plus(values[1:], total.body.chosen(ends, left, 0.0))
    values[2:] = plus(values[2:], total.body.chosen(ends, rest, 0.0))
    return values


def _part(x: Value, first: int, count: int) -> Value:
    indices = ", ".join(f"i32 {first + n}" for n in range(count))
    text = f"shufflevector {x.kind.text} {x.name}, {x.kind.text} poison, <{count} x i32> <{indices}>"
    return x.body.value(text, Kind(x.kind.element, count))


def result(values: list[Value]) -> tuple[Value, Value, Value, Value, Value]:
    """A sum in float64, its remainder, whether the remainder's sign is undecided; then a tail, and the bound of sum + tail."""
    total, left, rest, lost = values
    body = total.body
    head, low = two_sum(total, left)
    low, least = two_sum(low, rest)
    head, low = two_sum(head, low)
    remainder = low + least
    undecided = remainder.magnitude().compared("ole", lost * 4.0) & lost.compared("une", 0.0)
    # zeros keep their sign; the remainder beside an infinity is NaN
    alone = (left.compared("oeq", 0.0) & rest.compared("oeq", 0.0)) | ~total.magnitude().compared("olt", math.inf)
    zero = remainder.lift(0.0)
    ends = total.magnitude().compared("olt", math.inf)
    tail, lack = two_sum(low, least)
    # `lost` counts for exact sums, too
    tails = (body.chosen(alone, zero, tail), body.chosen(ends, (lack.magnitude() + lost) * SLACK, zero))
    return body.chosen(alone, total, head), body.chosen(alone, zero, remainder), undecided & ends, *tails
