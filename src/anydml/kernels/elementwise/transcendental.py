"""Functions of numbers with bounds: the bound of a result follows from the argument's and from the function's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import functions, numbers, paired
from anydml.kernels.elementwise.numbers import SLACK, Number, either, once
from anydml.kernels.elementwise.rounding import to_whole

STEEP = 2.0**-20  # bounds of arguments above which slopes at their middle say too little


class _Kind(NamedTuple):
    """A function's values: where they lie, the exponent of the least that is not 0, for arguments that are 0 or at least
    2^-150; slope: from x and f(x), at least the derivative's magnitude near x, None where that is not known."""

    low: float
    high: float
    least: int | None
    slope: Callable[[Value, Value], Value | float] | None = None
    saturated: bool = False  # beyond 2^1000, and below 2^-1000 if it is never 0


_BIG = 2.0**1023
_KINDS = {
    "exp": _Kind(0, _BIG, None, lambda x, y: y, saturated=True),
    "expm1": _Kind(-1, _BIG, -152, lambda x, y: y.magnitude() + 1.0, saturated=True),
    "log": _Kind(-800, 800, -55, lambda x, y: 1.0 / x.magnitude()),
    "log1p": _Kind(-800, 800, -152),
    "sin": _Kind(-1, 1, -160, lambda x, y: 1.0),
    "cos": _Kind(-1, 1, -160, lambda x, y: 1.0),
    "tan": _Kind(-(2.0**160), 2.0**160, -160, lambda x, y: y * y + 1.0),
    "asin": _Kind(-2, 2, -152),
    "acos": _Kind(0, 4, -30),
    "atan": _Kind(-2, 2, -152, lambda x, y: 1.0),
    "sinh": _Kind(-_BIG, _BIG, -152, lambda x, y: y.magnitude() + 1.0, saturated=True),
    "cosh": _Kind(1, _BIG, 0, lambda x, y: y, saturated=True),
    "tanh": _Kind(-1, 1, -152, lambda x, y: 1.0),
    "asinh": _Kind(-800, 800, -152, lambda x, y: 1.0),
    "acosh": _Kind(0, 800, -30),
    "atanh": _Kind(-40, 40, -152),
    "erf": _Kind(-1, 1, -152, lambda x, y: 1.2),
    "erfc": _Kind(0, 2, None, lambda x, y: 1.2, saturated=True),
    "sigmoid": _Kind(0, 1, None, lambda x, y: y, saturated=True),
    "softplus": _Kind(0, _BIG, None, lambda x, y: 1.0, saturated=True),
    "pow": _Kind(-_BIG, _BIG, None, saturated=True),
    "atan2": _Kind(-4, 4, None),
}


def function(op: str, args: list[Number], level: str) -> Number:
    """A function by its name; Uncompilable where its bound is not known for such arguments."""
    if op in ("fmod", "floor_mod"):
        return remainder(op, *args)
    if level == "paired":
        if op not in paired.FUNCTIONS or args[0].single is None:
            raise Uncompilable(f"{op} is not compiled in pairs of float32")
        return numbers.of_pair(paired.FUNCTIONS[op](args[0].single), args[0].guard)
    kind, emit = _KINDS.get(op), getattr(functions, op, None)
    if kind is None or emit is None:
        raise Uncompilable(f"{op} is not compiled")
    args = [numbers.decided_size(a) for a in args]
    found = emit(*(a.wide() for a in args))
    guard = either(found.guard, *(a.guard for a in args))
    made = Number(
        args[0].body,
        lambda: found.value,
        low=kind.low,
        high=kind.high,
        least=kind.least,
        rel=found.rel,
        saturated=kind.saturated,
        guard=guard,
    )
    if all(a.exact for a in args):
        # an argument that is no float32 may be smaller than 2^-150
        least = args[0].least
        return made if kind.least is None or (least is not None and least >= -150) else numbers.ranged(made, args[0])
    if kind.slope is None or len(args) > 1:
        raise Uncompilable(f"{op} of a number that is rounded inside")
    x = args[0]
    slope = kind.slope(x.wide(), found.value)
    delta = x.error()
    absolute = delta * slope * (2 * SLACK)
    far = delta.compared("uge", STEEP) & x.wide().magnitude().compared("one", math.inf)
    if op == "log":
        far = either(far, delta.compared("uge", x.wide().magnitude() * STEEP)) or far
    return replace(made, err=lambda: absolute, least=None).guarded(far)


def whole_power(x: Number, exponent: int) -> Number:
    """A product of equal factors."""
    if exponent < 1:
        raise Uncompilable("a power that is not positive")
    made = x
    for bit in bin(exponent)[3:]:
        made = numbers.multiply(made, made)
        if bit == "1":
            made = numbers.multiply(made, x)
    return made


def remainder(op: str, x: Number, y: Number) -> Number:
    """The remainder of x / y: exact, of numbers that are float32, where the quotient is below 2^29."""
    if x.single is None or y.single is None:
        raise Uncompilable("a remainder of numbers that are rounded inside")
    body = x.body
    a, b = x.wide(), y.wide().magnitude()
    size = a.magnitude()
    quotient = size / b
    whole = to_whole("truncate", Number(body, lambda: quotient, exact=True, low=0, high=2.0**300, quantum=-1074)).wide()
    rest = size - whole * b  # exact: 29 and 24 bits
    rest = body.chosen(rest.compared("olt", 0.0), rest + b, rest)
    # a quotient rounded up to an integer; of infinite y, x itself; of y = 0 or infinite x, NaN
    rest = body.chosen(b.compared("oeq", math.inf) & size.compared("olt", math.inf), size, rest)
    large = quotient.compared("oge", 2.0**29) & size.compared("olt", math.inf) & b.compared("one", 0.0)
    made = rest.signed_as(a)
    if op == "floor_mod":
        signs = (a.bits() ^ y.wide().bits()).compared("slt", 0)
        other = signs & rest.compared("one", 0.0)
        # toward the divisor's side: an infinite divisor is then the remainder itself
        moved = body.chosen(other, b - rest, rest)
        made = moved.signed_as(y.wide())
    low, high = -y.largest, y.largest
    quantum = min(x.quantum or 0, y.quantum or 0)
    digits = 24 if op == "fmod" else 53
    found = Number(
        body, once(lambda: made), exact=op == "fmod", low=low, high=high, quantum=quantum, digits=digits, least=quantum
    )
    guard = either(x.guard, y.guard, large)
    if op == "fmod":
        single = made.converted("fptrunc", made.kind.of("float"))
        return replace(found, single=single, guard=guard)
    # b - rest has one rounding, which its remainder tells
    sign = y.wide().bits() & -(1 << 63)
    error = body.chosen(other, (b - moved) - rest, 0.0)
    odd = numbers.odd_of(made, (error.bits() ^ sign).cast(made.kind))
    return replace(found, rel=numbers.U, odd=lambda: odd, guard=guard)
