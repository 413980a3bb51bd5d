"""Mistaken formulas: rules that rewrite a statement into that of an implementation with a well-known mistake.

They are like those of `forms`, but for other real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from anydml.explain.forms import Form, Rule
from anydml.schema.expression import exp, sqrt, tanh
from anydml.schema.node import Expr, lift, make

EPSILONS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
OF_GELU = (Fraction(math.sqrt(2 / math.pi)), Fraction(0.044715), Fraction(1.702))


def formulas(epsilon: float | None) -> Iterator[Form]:
    """The mistaken formulas of a statement with this epsilon, if it has one; the name of each is that of the mistake."""
    if epsilon is not None:
        for other in dict.fromkeys((*EPSILONS, epsilon * 10, epsilon / 10)):
            if other != epsilon:
                yield Form(
                    "epsilon", f"the result with epsilon {other:g} instead of {epsilon:g}", (with_epsilon(epsilon, other),)
                )
        yield Form("epsilon_outside_root", "the result with epsilon outside of the root", (_outside(epsilon),))
    yield Form("unbiased_variance", "the result with the unbiased variance, divided by n - 1", (unbiased,))
    yield Form("tanh_gelu", "the tanh approximation of GELU", (by_tanh,))
    yield Form("sigmoid_gelu", "the sigmoid approximation of GELU", (by_sigmoid,))


def with_epsilon(own: float, other: float) -> Rule:
    """A root of a sum with another epsilon."""

    def rule(e: Expr) -> Expr | None:
        inside = _beside_epsilon(e, own)
        return None if inside is None else sqrt(inside + Fraction(other))

    return rule


def _outside(own: float) -> Rule:
    def rule(e: Expr) -> Expr | None:
        inside = _beside_epsilon(e, own)
        return None if inside is None else sqrt(inside) + Fraction(own)

    return rule


def _beside_epsilon(e: Expr, epsilon: float) -> Expr | None:
    """The term to which epsilon is added under a root."""
    if e.op != "sqrt" or e.args[0].op != "add":
        return None
    a, b = e.args[0].args
    for x, constant in ((a, b), (b, a)):
        if constant.op == "constant" and constant.data.value == epsilon:
            return x
    return None


def unbiased(e: Expr) -> Expr | None:
    """A mean of squares of differences, with their number less one."""
    if e.op != "div" or e.args[0].op != "reduce" or e.args[0].data[0] != "sum" or e.args[1].op != "constant":
        return None
    square = e.args[0].args[0]
    if not (square.op == "power" and square.data == 2) and not (square.op == "mul" and square.args[0] is square.args[1]):
        return None
    if square.args[0].op != "sub" or e.args[1].data.value < 2:
        return None
    return make("div", (e.args[0], lift(int(e.args[1].data.value) - 1)))


def by_tanh(e: Expr) -> Expr | None:
    """erf(z) as tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) for x = z * sqrt(2)."""
    if e.op != "erf":
        return None
    x = e.args[0] * sqrt(2)
    return tanh(OF_GELU[0] * (x + OF_GELU[1] * (x * x * x)))


def by_sigmoid(e: Expr) -> Expr | None:
    """erf(z) as 2 * sigmoid(1.702 * x) - 1 for x = z * sqrt(2)."""
    if e.op != "erf":
        return None
    return 2 / (1 + exp(-(OF_GELU[2] * (e.args[0] * sqrt(2))))) - 1
