"""Comparisons of numbers and of integers, in every lane, with guards where bounds do not decide."""

from __future__ import annotations

import math
from fractions import Fraction

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats import numbers
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.lanes import Truth, either
from anydml.kernels.numbers.wholes import WholeNumber


def compared(op: str, x: Number, y: Number) -> Truth:
    """x op y; op: "less", "less_equal" or "equal"."""
    how = {"less": "olt", "less_equal": "ole", "equal": "oeq"}[op]
    guard = either(x.guard, y.guard)
    if x.single is not None and y.single is not None:
        return Truth(x.single.compared(how, y.single), guard)
    if x.exact and y.exact:
        return Truth(x.wide().compared(how, y.wide()), guard)
    if (x.exact or x.odd) and (y.exact or y.odd) and (x.exact or y.exact):
        exact, other = (x, y) if x.exact else (y, x)
        if exact.known.digits <= 52:  # a number rounded to odd is on the same side of the exact one as t
            odd = numbers.once(lambda: other.odd() if other.odd else other.wide())()
            left, right = (exact.wide(), odd) if exact is x else (odd, exact.wide())
            return Truth(left.compared(how, right), guard)
    x, y = numbers.decided_size(x), numbers.decided_size(y)
    errors = [n.error() for n in (x, y) if not n.exact]
    bound = errors[0] if len(errors) == 1 else errors[0] + errors[1]
    distance = (x.wide() - y.wide()).magnitude()
    # with a bound of 0, numbers are exact, and so are infinities, whose bounds are infinite; NaN compares as usual
    near = distance.compared("ule", bound * numbers.SLACK) & bound.compared("une", 0.0)
    for n in (x, y):
        if not n.known.constant:
            near = near & n.wide().magnitude().compared("olt", math.inf)
    return Truth(x.wide().compared(how, y.wide()), either(guard, near, x.guard, y.guard))


def against(op: str, a: WholeNumber, c: Fraction | float, *, swapped: bool) -> Value:
    """a op c, or c op a if swapped, for a constant c that need not be an integer."""
    body, known = a.value.body, a.value.kind.of("i1")
    if c != c or (op == "equal" and (math.isinf(c) or math.floor(c) != c)):
        return body.constant(known, False)
    # a < c means a < ceil(c), a <= c means a < floor(c) + 1; swapped ones are negations of such
    up = op == "equal" or (op == "less") != swapped
    limit = (1 << 99 if c > 0 else -1 << 99) if math.isinf(c) else math.ceil(c) if up else math.floor(c) + 1
    if not a.low <= limit <= a.high:
        return body.constant(known, op != "equal" and (limit > a.high) != swapped)
    constant = a.value.lift(limit - (1 << a.bits) if limit >= 1 << a.bits - 1 else limit)
    if op == "equal":
        return a.value.compared("eq", constant)
    return a.value.compared(("s" if a.low < 0 else "u") + ("ge" if swapped else "lt"), constant)
