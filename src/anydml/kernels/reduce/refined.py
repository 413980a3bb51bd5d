"""Results of a sum that has a remainder beside its total: its quotient by a constant, its root, its logarithm.

Each is a head with a tail, and a bound, where the sum alone would be off by a rounding. u is 2^-53.
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

DIGITS = 26  # of a divisor whose product with a float64 is two of them
NEAR = 2.0**-20  # of 1, where a logarithm may come so near a tie that its bound is of no use


def refined(op: str, x: Over, others: Sequence[Number]) -> Number | None:
    """The number that an operation makes of a sum; None for other operations. others: its other operands."""
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
    # of a sum of which only what was lost says whether it is 0, nothing is known
    unknown = x.total.compared("oeq", 0.0) & x.lost.compared("one", 0.0)
    return between(head, low, high, either(x.guard, guard, unknown))


def _quotient(x: Over, n: float) -> Number:
    """The remainder of a quotient is a float64; adding what is left over, dividing and adding the bound round once each."""
    head = x.total / n
    high, low = exact_product(head, head.lift(n))
    tail = ((x.total - high) - low + x.left) / n
    err = tail.magnitude() * (4 * U) + x.lost * (2 / n)
    return _number(x, head, tail - err, tail + err)


def _root(x: Over) -> Number:
    """sqrt(q^2 + d) is q + d / 2 q - ..: what follows is below the square of that over q."""
    head = x.total.root()
    high, low = exact_product(head, head)
    tail = ((x.total - high) - low + x.left) / (head * 2.0)
    err = tail.magnitude() * (4 * U) + (tail * tail + x.lost + lost_product(head, head, high)) / head
    return _number(x, head, tail - err, tail + err)


def _logarithm(x: Over) -> Number:
    """log (total + left) is log total + y - y^2 / 2 + .., where y = left / total is below u; beside 1, see `_beside_one`."""
    body = x.total.body
    found = logarithms.log(x.total)
    tail = x.left / x.total
    err = found.value.magnitude() * (found.rel + 2 * U) + tail.magnitude() * (4 * U) + (tail * tail + x.lost / x.total)
    near = (x.total - 1.0).magnitude().compared("olt", NEAR)
    head, rest, off = _beside_one(x)
    low, high = (body.chosen(near, *pair) for pair in ((rest - off, tail - err), (rest + off, tail + err)))
    return _number(x, body.chosen(near, head, found.value), low, high, found.guard)


def _beside_one(x: Over) -> tuple[Value, Value, Value]:
    """log (1 + s) = s - s^2 / 2 + s^3 / 3 - .., where |s| is below 2^-20 and s = total - 1 + left, a head and a rest exactly.

    Roundings are below 2 u (|rest| + s^2): of the square, of what the rest adds to it, and of the sums. What is left out is
    below s^4. Where the total is 1, the rest is 0: so even a head that is a tie is known to be more than the logarithm.
    """
    head, rest = two_sum(x.total - 1.0, x.left)
    square = head * head
    tail = rest - square * (0.5 - head * (1 / 3))
    return head, tail, (rest.magnitude() + square) * (4 * U) + (square * square + x.lost)
