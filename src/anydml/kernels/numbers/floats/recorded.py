"""Records of numbers, which probes store in place of elements: see `anydml/kernels/code/probe.py`."""

from __future__ import annotations

import math
from collections.abc import Callable

from anydml.kernels.code import probe
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.lanes import either

FLOAT32_REL, FLOAT32_ERR = 2.0**-24, 2.0**-150  # of a rounding to float32


def number(x: Number, ends: Callable[[Number], tuple[Value, Value]], element_bits: int) -> tuple[Value, Value]:
    """The record of a number that a float type stores, and a mask of no undecided lanes; ends: a function that gives both ends.

    A bound of 0 claims that the number is the estimate. A negative bound -b claims that the number is within b of the estimate;
    it stands for a rounding to odd, or by the processor.
    """
    if x.native is not None and x.single is None:
        y = x.native().converted("fpext", x.native().kind.of("double"))
        head, tail, bound = y, y.lift(0.0), y.magnitude() * -FLOAT32_REL - FLOAT32_ERR
    elif x.pair is not None:
        wide = x.pair.head.kind.of("double")
        head, low, high = (part.converted("fpext", wide) for part in (x.pair.head, x.pair.low, x.pair.high))
        tail, bound = (low + high) * 0.5, ((high - low) * 0.5).magnitude()
        if x.pair.sign is not None:
            flips = (x.pair.sign & -(1 << 31)).converted("zext", wide.integer) << 32
            head, tail = ((part.bits() ^ flips).cast(wide) for part in (head, tail))
    elif x.single is not None or x.exact:
        head = x.wide()
        tail = bound = head.lift(0.0)
    elif x.odd is not None:
        head = x.odd()
        tail, last = head.lift(0.0), (head.bits() & 1).compared("eq", 1)
        bound = head.body.chosen(last, head.magnitude() * -(2.0**-52), 0.0)
    elif x.finer is not None:
        head, tail, bound = x.finer()
    else:
        low, high = ends(x)
        head, tail = low, (high - low) * 0.5
        bound = tail.magnitude()  # for a negative number, the ends may be in reverse order
        if x.err is not None:  # a bound of 0 decides, whatever the ends are
            none = x.error().compared("oeq", 0.0)
            head, tail, bound = (
                head.body.chosen(none, part, other) for part, other in ((x.wide(), head), (0.0, tail), (0.0, bound))
            )
    return claimed(head, tail, bound, either(x.guard, _beyond(x)), element_bits)


def claimed(head: Value, tail: Value, bound: Value, unclaimed: Value | None, element_bits: int) -> tuple[Value, Value]:
    """The record of numbers, and a mask of no undecided lanes. unclaimed: the lanes in which nothing is claimed."""
    if unclaimed is not None:
        bound = head.body.chosen(unclaimed, math.nan, bound)
    bits = probe.record(head, tail, bound, element_bits)
    return bits, head.body.constant(bits.kind.of("i1"), False)


def _beyond(x: Number) -> Value | None:
    """The lanes where the estimate is saturated, so that it only says on which side of the limit the number is."""
    if not x.saturated:
        return None
    size, far = x.wide().magnitude(), 2.0**x.saturated
    beyond = size.compared("ogt", far)
    return beyond if x.known.least is not None else beyond | size.compared("olt", 1 / far)
