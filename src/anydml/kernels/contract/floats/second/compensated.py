"""A sum in three float64: what each addition leaves over is added up, too, and so is what that leaves over."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Kind, Value
from anydml.kernels.numbers import halves
from anydml.kernels.numbers.floats.numbers import SLACK
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.tensor import DataType


def wide(bits: Value, data_type: DataType) -> Value:
    """An element as float64."""
    single = halves.widened(bits) if data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))
    return single.converted("fpext", bits.kind.of("double"))


def plus(values: list[Value], x: Value) -> list[Value]:
    """A sum with one more term: head, what its additions left over, what those did, .., and last, what is lost."""
    *sums, lost = values
    made = []
    for one in sums:
        total, x = two_sum(one, x)
        made.append(total)
    return [*made, lost + x.magnitude()]


def together(values: list[Value]) -> list[Value]:
    """The sum of all lanes' sums."""
    lanes = values[0].kind.lanes
    while lanes > 1:
        lanes //= 2
        values = joined(*([_part(v, first, lanes) for v in values] for first in (0, lanes)))
    return [v.lane(0) for v in values]


def joined(values: list[Value], others: list[Value]) -> list[Value]:
    """The sum of two sums."""
    total, left, rest, lost = others
    ends = total.magnitude().compared("olt", math.inf)  # infinities leave NaN over
    values = plus([*values[:3], values[3] + lost], total)
    # added to the head, zeros would change a zero's sign
    values[1:] = plus(values[1:], total.body.chosen(ends, left, 0.0))
    values[2:] = plus(values[2:], total.body.chosen(ends, rest, 0.0))
    return values


def _part(x: Value, first: int, count: int) -> Value:
    indices = ", ".join(f"i32 {first + n}" for n in range(count))
    text = f"shufflevector {x.kind.text} {x.name}, {x.kind.text} poison, <{count} x i32> <{indices}>"
    return x.body.value(text, Kind(x.kind.element, count))


def result(values: list[Value]) -> tuple[Value, Value, Value, Value, Value]:
    """A sum in float64, what is missing, whether its sign may be another one; a tail, and what lacks of the sum with it."""
    total, left, rest, lost = values
    body = total.body
    head, low = two_sum(total, left)
    low, least = two_sum(low, rest)
    head, low = two_sum(head, low)
    remainder = low + least
    open_ = remainder.magnitude().compared("ole", lost * 4.0) & lost.compared("une", 0.0)
    # zeros keep their sign, and infinities leave NaN over
    alone = (left.compared("oeq", 0.0) & rest.compared("oeq", 0.0)) | ~total.magnitude().compared("olt", math.inf)
    zero = remainder.lift(0.0)
    ends = total.magnitude().compared("olt", math.inf)
    tail, lack = two_sum(low, least)
    # a sum that left nothing over lacks what is lost as well
    tails = (body.chosen(alone, zero, tail), body.chosen(ends, (lack.magnitude() + lost) * SLACK, zero))
    return body.chosen(alone, total, head), body.chosen(alone, zero, remainder), open_ & ends, *tails
