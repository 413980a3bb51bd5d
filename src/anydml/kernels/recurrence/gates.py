"""Formulas of gates in float64: the difference of a gate from 0 or 1 is known, however small it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.formula import FormulaWalk
from anydml.kernels.elementwise.items import Item
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, once
from anydml.kernels.numbers.functions.exponentials import exp

CLOSED = 2.0**-500  # gates below this count as nearly 0; products of larger ones with two float32 do not underflow
WIDE_OPEN = 100.0  # arguments from which on gates are 1 up to 2^-144; below -100, erfc is 2 up to 2^-144
SHUT = 350.0  # arguments from which on 1 - sigmoid(x) is below CLOSED


class GateWalk(FormulaWalk):
    """known: the known ranges of nodes."""

    known: Mapping[int, Number]
    gates: dict[int, Number]  # sigmoids, as they are computed

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if place in self.known:
            return self.known[place]
        if op == "sub" and (gate := self.gates.get(args[1])) is not None:
            one = self.nodes[args[0]]
            if one.op == "constant" and one.data.value == 1:
                return _rest(gate, self.number(self.nodes[args[1]].args[0]))
        found = super()._item(place, op, args, data)
        if op == "expm1" and isinstance(found, Number) and not found.exact:
            return _levelled(found, self.number(args[0]))
        if op not in ("sigmoid", "softplus", "erfc") or place == len(self.nodes) - 1 or not isinstance(found, Number):
            return found
        if op == "sigmoid":
            self.gates[place] = found
        return _closed(found, self.number(args[0]))


def _off(argument: Number) -> Value:
    """The bound of an argument's error; 0 if the argument is infinite or NaN."""
    x = argument.wide()
    if argument.exact:
        return x.lift(0.0)
    return x.body.chosen(x.magnitude().compared("olt", math.inf), argument.error(), 0.0)


def _beyond(x: Number) -> Number:
    size = x.wide().magnitude()
    return x.guarded(size.compared("ogt", 2.0**x.saturated) & size.compared("olt", math.inf))


def _closed(x: Number, argument: Number) -> Number:
    """A gate that may be too near to 0 for float64: 0 with a bound, so that sums with its products are decided.

    It may be larger than its estimate, by the estimate's error. The error of a large argument of a gate does not matter either,
    though slope times error would be a large bound.
    """
    size, body = x.wide().magnitude(), x.body
    small = size.compared("olt", CLOSED)
    value = body.chosen(small, 0.0, x.wide())

    def bound() -> Value:
        found = x.error() + body.chosen(small, CLOSED, size.lift(0.0))
        if x.known.high > 2:
            return found
        distance = (argument.wide() if x.known.high == 1 else -argument.wide()) - _off(argument)  # erfc is nearly 2 below 0
        return body.chosen(distance.compared("ogt", WIDE_OPEN), 2.0**-50, found)

    return replace(_beyond(x), wide=lambda: value, saturated=0, rel=0.0, err=once(bound))


def _levelled(x: Number, argument: Number) -> Number:
    """e^x - 1. Far below 0 its bound is that of -1, since slope times the error of x would be too large there."""
    far = (-argument.wide() - _off(argument)).compared("ogt", WIDE_OPEN)
    error = once(lambda: x.body.chosen(far, 2.0**-50, x.error()))
    return replace(_beyond(x), saturated=0, rel=0.0, err=error)


def _rest(gate: Number, argument: Number) -> Number:
    """1 - y for y = sigmoid(x): for y >= 1/2 it is y e^-x, as precise as y, not a difference of nearly equal numbers.

    Its derivative is -y (1 - y). An error of x below STEEP changes 1 - y by at most SLACK times the error and the slope; lanes
    with larger errors are guarded, as those of y are, up to SHUT.
    """
    body, y, x = gate.body, gate.wide(), argument.wide()
    off = _off(argument)
    shut = (x - off).compared("ogt", SHUT)
    low = y.compared("olt", 0.5)
    value = body.chosen(low, 1.0 - y, body.chosen(shut, 0.0, exp(-x).value * y))

    def bound() -> Value:
        high = value * (2 * gate.rel + 4 * U) + off * value * SLACK
        # for an infinite argument, it is 0
        high = body.chosen(shut, body.chosen(x.compared("oeq", math.inf), 0.0, high.lift(CLOSED)), high)
        return body.chosen(low, gate.error() + U, high) * SLACK

    return replace(_beyond(gate), wide=lambda: value, saturated=0, rel=0.0, err=once(bound))
