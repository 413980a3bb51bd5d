"""Forms of a statement: other formulas for the same real numbers, by which correct runtimes compute.

Rounding at each step of a form may give other elements than rounding at each step of the statement, so that a correct output
can lie outside of the statement's bounds. A form's bounds are those of the same evaluation, of the rewritten statement: its
errors are derived from its own steps, and are as wide as these make them. Sums in another order, in blocks or with fused
multiplication and addition need no form: their errors are at most those of the statement's bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from anydml.explain.forms_of_integers import by_16_bits, in_fixed_point
from anydml.schema.expression import Tensor, absolute, clamp, exp, maximum, tanh
from anydml.schema.node import NUMBER, Expr, Variable, lift, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import free, integral, rebuilt, walk

HALF = Fraction(1, 2)

Rule = Callable[[Expr], Expr | None]  # a node whose arguments are rewritten -> another node for the same number, or None


class Form(NamedTuple):
    """A way to compute. sentence: what it is, after "explained by". rules: tried in order on every node, arguments first.

    together: whether every rule must find a node; otherwise one of them.
    """

    name: str
    sentence: str
    rules: tuple[Rule, ...]
    together: bool = False

    def of(self, nest: Nest) -> Nest | None:
        """The rewritten statement; None if it has nothing to rewrite."""
        found = _Rewriting(self.rules)
        made = found.nest(nest)
        return made if len(found.used) >= (len(self.rules) if self.together else 1) else None


class _Rewriting:
    """A statement's rewriting; internal tensors are replaced by others with rewritten definitions."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self.used: set[Rule] = set()
        self._tensors: dict[Tensor, Tensor] = {}
        self._made: dict[Expr, Expr] = {}

    def nest(self, nest: Nest) -> Nest:
        return Nest(nest.index, self._rewritten(nest.body), nest.moves)

    def _rewritten(self, body: Expr) -> Expr:
        for e in walk(body):
            if e not in self._made:
                self._made[e] = self._node(e)
        return self._made[body]

    def _node(self, e: Expr) -> Expr:
        args = tuple(self._made[a] for a in e.args)
        data = (self._tensor(e.data[0]), e.data[1]) if e.op == "read" else e.data
        same = args == e.args and (e.op != "read" or data[0] is e.data[0])
        made = e if same else make(e.op, args, data, e.sort)
        for rule in self.rules:
            other = rule(made)
            if other is not None:
                self.used.add(rule)
                made = other
        return made

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.definition is None:
            return tensor
        if tensor not in self._tensors:
            made = self._tensors[tensor] = Tensor(tensor.name, tensor.sizes, tensor.data_type)
            inner = tensor.definition
            own = _Rewriting(self.rules)
            own._tensors = self._tensors
            made.definition = own.nest(inner)  # it may read the tensor itself, at steps before
            self.used |= own.used
        return self._tensors[tensor]


# --- normalisation ---


def folded(e: Expr) -> Expr | None:
    """scale * (x - mean) / root as x * s - mean * s with s = scale / root; scale may be absent.

    Both products have the same s, whose error is that of the quotient by the root. But each of them is rounded by itself,
    relative to its own size, and bias - mean * s, which is the result minus x * s, is rounded before x * s is added. So where
    the products cancel, the errors are at most 2 units of |x * s| and 1 of |mean * s| more than those of the statement; 2 of
    both are allowed.
    """
    if e.op != "div" or e.args[1].op != "sqrt":
        return None
    over, root = e.args
    if over.op == "mul" and over.args[1].op == "sub":
        (x, mean), scale = over.args[1].args, over.args[0] / root
    elif over.op == "sub":
        (x, mean), scale = over.args, 1 / root
    else:
        return None
    return make("widened", (e, absolute(x * scale) + absolute(mean * scale)), 2, NUMBER)


def one_pass(e: Expr) -> Expr | None:
    """The mean of (x - mean)^2 as the mean of x^2 minus mean^2, or 0 where rounding makes that negative.

    With n elements the mean of the squares has an error of up to n + 2 units of its own size, and the square of the mean has
    2 n + 3 of its own, next to a variance that may be far smaller. So the form admits more than the statement where the mean
    is large beside the deviation, and little more elsewhere.
    """
    if e.op != "div" or e.args[0].op != "reduce" or e.args[0].data[0] != "sum" or len(e.args[0].args) > 1:
        return None
    total, count = e.args
    (square,), bound = total.args, total.data[1]
    centred = square.args[0]
    if not (square.op == "power" and square.data == 2) and not (square.op == "mul" and square.args[1] is centred):
        return None
    if centred.op != "sub" or not _is_mean(centred.args[1], centred.args[0], bound, count):
        return None
    x, mean = centred.args
    return maximum(make("reduce", (x * x,), total.data) / count - mean * mean, 0)


def _is_mean(mean: Expr, x: Expr, bound: tuple[Variable, ...], count: Expr) -> bool:
    """Whether a node is the mean of x over the bound variables."""
    if mean.op != "div" or mean.args[0].op != "reduce" or mean.args[0].data[0] != "sum" or len(mean.args[0].args) > 1:
        return False
    own = mean.args[0].data[1]
    if mean.args[1] is not count or [v.size for v in own] != [v.size for v in bound] or free(mean)[mean] & set(bound):
        return False
    variables = {e.data: e for e in walk(x) if e.op == "variable"}
    return _renamed(mean.args[0].args[0], {a: variables[b] for a, b in zip(own, bound, strict=True) if b in variables}) is x


def _renamed(e: Expr, names: Mapping[Variable, Expr]) -> Expr:
    return rebuilt(e, lambda node, _: names.get(node.data) if node.op == "variable" else None)


# --- functions whose errors are relative to 1, not to their results ---


def sigmoid_by_tanh(e: Expr) -> Expr | None:
    """1 / (1 + exp(-x)) as 1/2 + tanh(x / 2) / 2, between 0 and 1.

    A tanh with an error of four units in the last place is wrong by up to 8 * 2^-24, so half of it by 2^-22. This is the error
    of a sigmoid that is 1/2 plus a quotient of polynomials, as in vector code, and is 0 or 1 from some x on.
    """
    if e.op != "div" or e.args[1].op != "add" or not _is_one(e.args[0]):
        return None
    one, power = e.args[1].args
    if power.op != "exp" or not _is_one(one):
        return None
    negated = power.args[0]
    x = negated.args[0] if negated.op == "neg" else -negated
    return clamp(HALF + HALF * tanh(HALF * x), 0, 1)


def tanh_by_exp(e: Expr) -> Expr | None:
    """tanh(x) as 2 / (1 + exp(-2 x)) - 1, between -1 and 1.

    The quotient has an error relative to itself, and it is 1 where x is 0. The difference has the same error, of up to
    8 * 2^-24 there, next to a result that may be tiny.
    """
    if e.op != "tanh":
        return None
    return clamp(2 / (1 + exp(-(2 * e.args[0]))) - 1, -1, 1)


def erf_by_exp(e: Expr) -> Expr | None:
    """erf(x) as 1 - p(t) exp(-x^2) with t = 1 / (1 + 0.3275911 |x|), between -1 and 1 (Abramowitz and Stegun, 7.1.26).

    The polynomial errs by up to 1.5e-7, which is 2.5 * 2^-24, and product and difference are rounded relative to 1. Twice that
    is allowed, 8 * 2^-24. It counts in GELU for x below -2, where 1 + erf is small, and for tiny x.
    """
    return clamp(make("widened", (e, lift(1)), 8, NUMBER), -1, 1) if e.op == "erf" else None


def _is_one(e: Expr) -> bool:
    return e.op == "constant" and bool(e.data.value == 1)


# --- sums ---


def from_bias(e: Expr) -> Expr | None:
    """A sum of floats that begins with its bias: every addition is rounded relative to the bias, too."""
    if e.op != "add" or integral(e):
        return None
    for total, bias in (e.args, e.args[::-1]):
        if total.op == "reduce" and total.data[0] == "sum" and bias.op != "reduce":
            return make("widened", (e, absolute(bias)), math.prod(v.size for v in total.data[1]), NUMBER)
    return None


# --- factors of less precision ---


def in_tf32(e: Expr) -> Expr | None:
    """A sum of products with each factor cut to 11 significant bits, as in TF32, by up to 2^-10 of it."""
    if e.op != "reduce" or e.data[0] != "sum" or e.args[0].op != "mul" or integral(e):
        return None
    factors = (make("widened", (x, x), 2**14, NUMBER) for x in e.args[0].args)
    product = make("mul", tuple(factors))
    return make("reduce", (product, *e.args[1:]), e.data)


FOLDED = Form("folded", "the normalisation folded into scale and shift", (folded,))
FORMS = (
    FOLDED,
    Form("one_pass", "the variance computed in one pass", (one_pass,)),
    Form(
        "one_pass_folded",
        "the variance computed in one pass and the normalisation folded into scale and shift",
        (one_pass, folded),
        together=True,
    ),
    Form("absolute", "sigmoid, tanh and erf with an absolute error", (sigmoid_by_tanh, tanh_by_exp, erf_by_exp)),
    Form("fixed_point", "requantisation in fixed point", (in_fixed_point,)),
    Form("fixed_point_16_bits", "requantisation in fixed point by a multiplier of 16 bits", (by_16_bits,)),
    Form("from_bias", "sums that begin with the bias", (from_bias,)),
)
