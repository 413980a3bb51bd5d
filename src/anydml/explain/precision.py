"""Arithmetic of less precision than the tensors' type, by name: what a device is said to compute in, as forms of statements.

TF32 cuts the factors of products to 11 significant bits, and adds up in float32. bfloat16 and float16 are either the type of
the factors alone, with sums in float32, or that of everything: inputs, and the result of every step.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.explain.forms import Form, Rule, in_tf32
from anydml.schema.expression import absolute
from anydml.schema.node import NUMBER, Expr, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import integral, walk

PRECISIONS = {"float32": 2.0**-24, "tf32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # with rounding units
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-118}  # times the rounding unit, the error of tiny numbers; see `LEAST`
OF_ORDER = ("rank", "first_largest", "first_smallest")


class Less(NamedTuple):
    """A way to compute with less precision. sentence: what it is, after "explained by". form: how statements are rewritten.

    unit: what every step is rounded by, relative to its result; None for that of the operator's floats.
    """

    sentence: str
    form: Form
    unit: float | None = None

    def of(self, nest: Nest) -> Nest:
        """The rewritten statement, or the statement itself where there is nothing to rewrite.

        Where elements are put in order, they are compared as they are.
        """
        if self.unit is not None and any(e.op in OF_ORDER for e in walk(nest.body)):
            return nest
        return self.form.of(nest) or nest


def _widened(x: Expr, name: str, units: float) -> Expr:
    size = absolute(x) + TINY[name] if name in TINY else x
    return make("widened", (x, size), units, NUMBER)


def _factors_in(name: str) -> Rule:
    """A sum of products whose factors are rounded to a type."""
    units = PRECISIONS[name] / 2.0**-24

    def rule(e: Expr) -> Expr | None:
        if e.op != "reduce" or e.data[0] != "sum" or e.args[0].op != "mul" or integral(e):
            return None
        product = make("mul", tuple(_widened(x, name, units) for x in e.args[0].args))
        return make("reduce", (product, *e.args[1:]), e.data)

    return rule


def _inputs_in(name: str) -> Rule:
    """Elements of float inputs, rounded to a type by which every step rounds."""

    def rule(e: Expr) -> Expr | None:
        if e.op != "read" or e.sort != NUMBER or e.data[0].definition is not None or not e.data[0].data_type.is_float:
            return None
        return _widened(e, name, 1)

    return rule


def _types(name: str) -> tuple[Less, ...]:
    factors = Form(f"{name}_factors", f"products of factors rounded to {name}", (_factors_in(name),))
    steps = Form(f"{name}_arithmetic", f"arithmetic in {name}", (_inputs_in(name),))
    plain = Less(steps.sentence, steps._replace(rules=()), PRECISIONS[name])  # where no bound is known of rounded inputs
    return Less(factors.sentence, factors), Less(steps.sentence, steps, PRECISIONS[name]), plain


TF32 = Less("products in TF32", Form("tf32", "products in TF32", (in_tf32,)))

LESS = {"float32": (), "tf32": (TF32,), "bfloat16": _types("bfloat16"), "float16": _types("float16")}
"""By name, the narrower first."""


def widest(nest: Nest, precision: str | None) -> list[Nest]:
    """The statement as it is computed in a precision, inputs and all; after it, without them, in case that has no bound."""
    return [less.of(nest) for less in LESS[precision or "float32"] if less is TF32 or less.unit is not None] or [nest]


def check_precision(name: str | None) -> None:
    """Raise ValueError for what is neither None nor one of `PRECISIONS`."""
    if name not in (None, *PRECISIONS):
        raise ValueError(f"precision is {name!r}; it must be one of {', '.join(map(repr, PRECISIONS))}")
