"""Requantisation in integers, as phones do it: the quotient before it is rounded, with the errors of a multiplier and a shift.

A product's quotient is sum * (a_scale * b_scale / output_scale). TFLite, CMSIS-NN and NPUs multiply the sum by an integer of 31
bits (or 15), round the product to an integer, shift it to the right and round again. A mean of a window may be scaled in the
same way, and the terms of an addition are brought to a common grid first.
"""

from __future__ import annotations

from anydml.explain.deviations.fixed_point import GRID
from anydml.schema.expression import absolute, maximum
from anydml.schema.node import NUMBER, Expr, make
from anydml.schema.traversal import integral


def in_fixed_point(e: Expr) -> Expr | None:
    """Rounding half to even, of a quotient by an integer of 31 bits and a shift."""
    return _requantised(e, 31)


def by_16_bits(e: Expr) -> Expr | None:
    """Rounding half to even, of a quotient by an integer of 15 bits and a shift."""
    return _requantised(e, 15)


def _requantised(e: Expr, bits: int) -> Expr | None:
    if e.op != "half_to_even" or e.args[0].op != "div":
        return None
    quotient = e.args[0]
    over, scale = quotient.args
    for multiplier in (_of_product(over, scale), _of_mean(over, scale), _of_sum(over, scale)):
        if multiplier is not None:
            return make("half_to_even", (make("multiplied", (quotient, multiplier), bits, NUMBER),))
    return None


def _of_product(over: Expr, scale: Expr) -> Expr | None:
    """The multiplier of integers times two scales."""
    if over.op != "mul" or over.args[0].op != "mul" or not integral(over.args[0].args[0]):
        return None
    return over.args[0].args[1] * over.args[1] / scale


def _of_mean(over: Expr, scale: Expr) -> Expr | None:
    """The multiplier of a sum of integers, each times the same scale, divided by their number."""
    if over.op != "div" or over.args[0].op != "reduce" or over.args[0].args[0].op != "mul":
        return None
    return over.args[0].args[0].args[1] / over.args[1] / scale


def _of_sum(over: Expr, scale: Expr) -> Expr | None:
    """A multiplier with the error of the sum of two terms on TFLite's grid, of at most three steps of it."""
    if over.op != "add" or any(term.op != "mul" or not integral(term.args[0]) for term in over.args):
        return None
    larger: Expr = maximum(*(absolute(term.args[1]) for term in over.args))
    multiplier: Expr = larger * 8 / 2**GRID / absolute(scale)
    return multiplier
