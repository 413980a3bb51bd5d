"""Functions of extended real numbers, with rational results where these exist, else intervals, and limits at infinities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, fmpq

from anydml.exact.reals import (
    INFINITY,
    NAN,
    NEGATIVE_ZERO,
    ONE,
    ZERO,
    Real,
    Undecided,
    add,
    as_arb,
    divide,
    is_infinite,
    is_nan,
    is_zero,
    less,
    multiply,
    negative,
    sign,
    subtract,
    truncate,
    whole,
)

Function = Callable[[Real], Real]
LONGEST_POWER = 1 << 14  # bits of a power that is computed exactly; longer ones cannot be ties


def _function(
    of_interval: Callable[[Any], Any],
    at: dict[float, Any],
    *,
    low: float = -INFINITY,
    high: float = INFINITY,
    keeps_zero: bool = False,
) -> Function:
    """A function from its interval version and its values at some numbers and infinities; NaN outside low..high.

    keeps_zero: f(-0) is -0; otherwise it is f(0).
    """
    exact = {fmpq(int(x)): value for x, value in at.items() if math.isfinite(x)}
    least, most = (fmpq(int(x)) if math.isfinite(x) else None for x in (low, high))

    def apply(a: Real) -> Real:
        if type(a) is float:
            if a == 0:
                return NEGATIVE_ZERO if keeps_zero else apply(ZERO)
            return at.get(a, NAN)
        if type(a) is fmpq and a in exact:
            return exact[a]
        if (least is not None and less(a, least)) or (most is not None and less(most, a)):
            return NAN
        if type(a) is arb and any(a.contains(x) for x in ((least,) if most is None else (least, most)) if x is not None):
            raise Undecided  # near the border of the domain
        return of_interval(as_arb(a))

    return apply


def _odd(of_interval: Callable[[Any], Any], at: dict[float, Any], low: float = -INFINITY, high: float = INFINITY) -> Function:
    return _function(of_interval, {0: ZERO, **at}, low=low, high=high, keeps_zero=True)


def _erfc(a: Any) -> Any:
    """erfc; for large a, where arb's interval includes 0, the interval e^(-a^2) / (a sqrt(pi)) (1 - 1 / (2 a^2) .. 1)."""
    found = a.erfc()
    if found > 0 or not a > 1 << 10:
        return found
    return (-(a * a)).exp() / (a * arb.pi().sqrt()) * (1 - 1 / (2 * a * a)).union(arb(1))


exp = _function(arb.exp, {0: ONE, INFINITY: INFINITY, -INFINITY: ZERO})
expm1 = _odd(arb.expm1, {INFINITY: INFINITY, -INFINITY: -ONE})
log = _function(arb.log, {0: -INFINITY, 1: ZERO, INFINITY: INFINITY}, low=0)
log1p = _odd(arb.log1p, {-1: -INFINITY, INFINITY: INFINITY}, low=-1)
sin, tan = _odd(arb.sin, {}), _odd(arb.tan, {})
cos = _function(arb.cos, {0: ONE})
asin, atanh = _odd(arb.asin, {}, -1, 1), _odd(arb.atanh, {-1: -INFINITY, 1: INFINITY}, -1, 1)
acos = _function(arb.acos, {1: ZERO}, low=-1, high=1)
acosh = _function(arb.acosh, {1: ZERO, INFINITY: INFINITY}, low=1)
sinh, asinh = (_odd(f, {INFINITY: INFINITY, -INFINITY: -INFINITY}) for f in (arb.sinh, arb.asinh))
cosh = _function(arb.cosh, {0: ONE, INFINITY: INFINITY, -INFINITY: INFINITY})
tanh, erf = (_odd(f, {INFINITY: ONE, -INFINITY: -ONE}) for f in (arb.tanh, arb.erf))
erfc = _function(_erfc, {0: ONE, INFINITY: ZERO, -INFINITY: fmpq(2)})


def atan(a: Real) -> Real:
    if is_infinite(a):
        return arb.pi() / 2 if a > 0 else -arb.pi() / 2
    return a if is_zero(a) or is_nan(a) else as_arb(a).atan()


def atan2(y: Real, x: Real) -> Real:
    """C's atan2: the angle of (x, y), with signed zeros and infinities."""
    if is_nan(y) or is_nan(x):
        return NAN
    below = math.copysign(1, sign(y)) < 0
    if is_infinite(y):
        angle = arb.pi() / 2 if not is_infinite(x) else arb.pi() / 4 if x > 0 else 3 * arb.pi() / 4
    elif is_zero(y) or is_infinite(x):
        if math.copysign(1, sign(x)) > 0:
            return NEGATIVE_ZERO if below else ZERO
        angle = arb.pi()
    elif is_zero(x):
        angle = arb.pi() / 2
    else:
        return arb.atan2(as_arb(y), as_arb(x))
    return -angle if below else angle


def sqrt(a: Real) -> Real:
    """The square root: rational if it can be, -0 at -0, NaN for negative numbers."""
    if type(a) is float:
        return NAN if a < 0 else a
    if type(a) is fmpq:
        if a < 0:
            return NAN
        p, q = a.p.isqrt(), a.q.isqrt()
        return fmpq(p, q) if p * p == a.p and q * q == a.q else arb(a).sqrt()
    if a < 0:
        return NAN
    if not a > 0:
        raise Undecided
    return a.sqrt()


def power(x: Real, y: Real) -> Real:
    """IEEE 754's pow: 1 at x = 1 or y = 0 even for NaN; negative x only with an integer y."""
    if (type(x) is fmpq and x == 1) or is_zero(y):
        return ONE
    if is_nan(x) or is_nan(y):
        return NAN
    integral = type(y) is fmpq and y.q == 1
    odd = integral and bool(y.p & 1)
    if type(x) is float or is_zero(x) or type(y) is float:
        base = abs(sign(x)) if type(x) is float or is_zero(x) else 0.5 if less(absolute_(x), ONE) else 2.0
        if type(y) is float and type(x) is fmpq and x == -1:
            return ONE
        exponent = sign(y)
        size = 0.0 if (base < 1) == (exponent > 0) else INFINITY
        below = odd and math.copysign(1, sign(x)) < 0
        return (-INFINITY if size else NEGATIVE_ZERO) if below else (INFINITY if size else ZERO)
    if sign(x) < 0:
        if type(y) is not fmpq:
            raise Undecided
        if not integral:
            return NAN
        found = power(negative(x), y)
        return negative(found) if odd else found
    if type(x) is fmpq and type(y) is fmpq and (exactly := _rational_power(x, y)) is not None:
        return exactly
    return exp(multiply(y, log(x)))


def absolute_(x: Real) -> Real:
    return negative(x) if sign(x) < 0 else x


def _rational_power(x: Any, y: Any) -> Any:
    """x^y if it is rational and not too long to compute exactly; x is positive, and y's denominator is a power of two."""
    while y.q > 1:
        root = sqrt(x)
        if type(root) is not fmpq:
            return None
        x, y = root, 2 * y
    if abs(int(y.p)) * x.height_bits() > LONGEST_POWER:
        return None
    return x ** int(y.p)


def whole_power(n: int) -> Function:
    """x^n as a product, as in formulas such as (x - mean)^2."""

    def apply(a: Real) -> Real:
        if type(a) is fmpq and a:
            return a**n
        if type(a) is arb:
            return a**n if n > 0 else divide(ONE, a**-n)
        return power(a, fmpq(n))

    return apply


def fmod(x: Real, y: Real) -> Real:
    """C's fmod: x - y * trunc(x / y); a zero has the sign of x, and x mod inf is x."""
    if is_nan(x) or is_nan(y) or is_infinite(x) or is_zero(y):
        return NAN
    if is_infinite(y) or is_zero(x):
        return x
    rest = subtract(x, multiply(y, truncate(divide(x, y))))
    if is_zero(rest):
        return NEGATIVE_ZERO if sign(x) < 0 else ZERO
    return rest


def floor_mod(x: Real, y: Real) -> Real:
    """Python's %: x - y * floor(x / y); a zero has the sign of y, and -x mod inf is inf."""
    rest = fmod(x, y)
    if is_nan(rest):
        return NAN
    if is_zero(rest):
        return NEGATIVE_ZERO if sign(y) < 0 else ZERO
    return add(rest, y) if (sign(rest) < 0) != (sign(y) < 0) else rest


def integer_power(bits: int) -> Callable[[Real, Real], Real]:
    """x^y of integers modulo 2^bits; for y < 0, the reciprocal of x^-y rounded toward zero, and 0 at x = 0."""

    def apply(x: Real, y: Real) -> Real:
        base, exponent = whole(x), whole(y)
        if exponent < 0:
            return fmpq(base if exponent & 1 else 1) if abs(base) == 1 else ZERO
        return fmpq(pow(base, exponent, 1 << bits))

    return apply
