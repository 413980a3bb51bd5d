"""Identities of the real numbers that all evaluations share; they avoid small results as differences of large numbers.

For example, 1 + erf(-1e30) cancels completely, and erfc(1e30) does not. The identities hold for signed zeros, infinities
and NaN, too, unless their docstrings say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anydml.schema.expression import equal, erfc, expm1, log1p, negation, row_major
from anydml.schema.node import Expr, lift, make
from anydml.schema.traversal import rebuilt, walk

Identity = Callable[[Expr], Expr | None]


def _is_one(e: Expr) -> bool:
    return e.op == "constant" and e.data.value == 1


def one_plus_erf(e: Expr) -> Expr | None:
    """1 + erf(x) = erfc(-x), and 1 - erf(x) = erfc(x)."""
    if e.op in ("add", "sub") and _is_one(e.args[0]) and e.args[1].op == "erf":
        return erfc(-e.args[1].args[0] if e.op == "add" else e.args[1].args[0])
    return None


def exp_minus_one(e: Expr) -> Expr | None:
    """exp(x) - 1 = expm1(x), except for the sign of a zero: at -0, expm1 gives -0 and the difference gives +0."""
    if e.op == "sub" and e.args[0].op == "exp" and _is_one(e.args[1]):
        return make("add", (expm1(e.args[0].args[0]), lift(0)))
    return None


def log_of_one_plus(e: Expr) -> Expr | None:
    """ln(1 + x) = log1p(x), except for the sign of a zero."""
    if e.op == "log" and e.args[0].op == "add":
        one, x = e.args[0].args
        if _is_one(x):
            one, x = x, one
        if _is_one(one):
            return make("add", (log1p(x), lift(0)))
    return None


def log_of_powers(e: Expr) -> Expr | None:
    """ln(sum of e^(x - m)), where m is the largest x, = log1p(sum without the first x that is m) + (m - m).

    The last term is 0 where m is a number, and NaN where there is no result.
    """
    if e.op != "log" or e.args[0].op != "reduce" or e.args[0].data[0] != "sum" or len(e.args[0].args) > 1:
        return None
    (power,), (_, bound) = e.args[0].args, e.args[0].data
    if power.op != "exp" or power.args[0].op != "sub":
        return None
    x, m = power.args[0].args
    if m.op != "reduce" or m.data != ("max", bound) or m.args != (x,):
        return None
    first = make("first_largest", (x,), (bound, False))
    place = row_major([make("variable", (), v) for v in bound], [v.size for v in bound])
    rest = make("reduce", (power, negation(equal(place, first))), ("sum", bound))
    return log1p(rest) + (m - m)


IDENTITIES: tuple[Identity, ...] = (one_plus_erf, exp_minus_one, log_of_one_plus, log_of_powers)
_OF: Mapping[str, tuple[Identity, ...]] = {  # by the operation at their root
    "add": (one_plus_erf,),
    "sub": (one_plus_erf, exp_minus_one),
    "log": (log_of_one_plus, log_of_powers),
}


def rewritten(e: Expr) -> Expr:
    """The expression with every identity applied wherever it can be."""
    if e.rewritten is None:
        nodes = list(walk(e))
        # if no identity applies to any node as it is, nothing changes
        changes = any(_identity_of(node) is not None for node in nodes)
        e.rewritten = rebuilt(e, _applied) if changes else False
    return e.rewritten if isinstance(e.rewritten, Expr) else e


def _identity_of(e: Expr) -> Expr | None:
    for identity in _OF.get(e.op, ()):
        if (found := identity(e)) is not None:
            return found
    return None


def _applied(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    return _identity_of(node if args == node.args else make(node.op, args, node.data, node.sort))
