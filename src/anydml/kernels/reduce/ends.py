"""Numbers that are known as a head and a tail, where the tail has a lower and an upper bound."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number, odd_of
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.lanes import either


def between(head: Value, low: Value, high: Value, guard: Value | None, rel: float = 1.0) -> Number:
    """A number between head + low and head + high; the head alone if it is infinite or NaN, or the tail is 0 or NaN.

    A number whose sign is not known is undecided.
    """
    body = head.body
    finite = head.magnitude().compared("olt", math.inf)
    ends = tuple(body.chosen(finite & tail.compared("one", 0.0), odd_of(*two_sum(head, tail)), head) for tail in (low, high))
    unsigned = (ends[0].bits() ^ ends[1].bits()).compared("slt", 0)
    return Number(
        body,
        lambda: head,
        rel=rel,
        ends=lambda: (ends[0], ends[1]),
        guard=either(guard, unsigned),
        finer=lambda: (head, (low + high) * 0.5, (high - low) * 0.5),
    )
