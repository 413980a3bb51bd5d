"""Numbers that are stored and known as a head with a tail that is one of two, or lies between them."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number, odd_of
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.lanes import either


def between(head: Value, low: Value, high: Value, guard: Value | None, rel: float = 1.0) -> Number:
    """A number between head + low and head + high; a head that is infinite or NaN, or beside a tail of 0 or NaN, is it.

    A number of which the sign is not known is undecided.
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
