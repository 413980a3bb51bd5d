"""Results of a sum that is known as a total with a remainder: its quotient by a constant, its root, its logarithm.

Each result is a head with a tail and a bound; from the total alone, it would have a rounding error. u is 2^-53.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import Number, U
from anydml.kernels.numbers.functions import logarithms
from anydml.kernels.numbers.functions.pairs import exact_product, lost_product, two_sum
from anydml.kernels.numbers.lanes import either
from anydml.kernels.reduce.ends import between
from anydml.kernels.reduce.sums import Over

DIGITS = 26  # of a divisor whose product with a float64 has two float64 parts
NEAR = 2.0**-20  # distance from 1 within which a logarithm may come too near to a tie for its bound


def refined(op: str, x: Over, others: Sequence[Number]) -> Number | None:
    """The result of an operation on a sum; None for other operations. others: its other operands."""
    if op == "div":
        (n,) = others
        c = n.known.only
        if n.exact and c is not None and c > 0 and n.known.digits <= DIGITS:
            return _quotient(x, c)
    if op == "sqrt":
        return _root(x)
    if op == "log":
        return _logarithm(x)
    return None


def _number(x: Over, head: Value, low: Value, high: Value, guard: Value | None = None) -> Number:
    # a total of 0 with an unknown error says nothing about the sum
    unknown = x.total.compared("oeq", 0.0) & x.lost.compared("one", 0.0)
    return between(head, low, high, either(x.guard, guard, unknown))


def _quotient(x: Over, n: float) -> Number:
    """The remainder of a quotient is a float64. Adding the sum's remainder, dividing, and adding the bound round once each."""
    head = x.total / n
    high, low = exact_product(head, head.lift(n))
    tail = ((x.total - high) - low + x.left) / n
    err = tail.magnitude() * (4 * U) + x.lost * (2 / n)
    return _number(x, head, tail - err, tail + err)


def _root(x: Over) -> Number:
    """sqrt(q^2 + d) is q + d / 2 q - ..; the rest is below (d / 2 q)^2 / q."""
    head = x.total.root()
    high, low = exact_product(head, head)
    tail = ((x.total - high) - low + x.left) / (head * 2.0)
    err = tail.magnitude() * (4 * U) + (tail * tail + x.lost + lost_product(head, head, high)) / head
    return _number(x, head, tail - err, tail + err)


def _logarithm(x: Over) -> Number:
    """log (total + left) is log total + y - y^2 / 2 + .., where y = left / total is below u; near 1, see `_beside_one`."""
    body = x.total.body
    found = logarithms.log(x.total)
    tail = x.left / x.total
    err = found.value.magnitude() * (found.rel + 2 * U) + tail.magnitude() * (4 * U) + (tail * tail + x.lost / x.total)
    near = (x.total - 1.0).magnitude().compared("olt", NEAR)
    head, rest, off = _beside_one(x)
    low, high = (body.chosen(near, *pair) for pair in ((rest - off, tail - err), (rest + off, tail + err)))
    return _number(x, body.chosen(near, head, found.value), low, high, found.guard)


def _beside_one(x: Over) -> tuple[Value, Value, Value]:
    """log (1 + s) = s - s^2 / 2 + s^3 / 3 - .., where |s| is below 2^-20, and s = total - 1 + left equals head + rest exactly.

    Roundings are below 2 u (|rest| + s^2): of the square, of the rest's share in it, and of the sums. The omitted terms are
    below s^4. If the total is 1, the rest is 0: so even a head that is a tie is known to be more than the logarithm.
    """
    head, rest = two_sum(x.total - 1.0, x.left)
    square = head * head
    tail = rest - square * (0.5 - head * (1 / 3))
    return head, tail, (rest.magnitude() + square) * (4 * U) + (square * square + x.lost)
