"""The functions in activations and other operators, from exact values to values."""

from __future__ import annotations

import math

from gmpy2 import mpfr, mpq

from .arithmetic import is_nan, sign
from .numbers import INFINITY, NAN, ONE, Value
from .reals import Arithmetic, Interval, Real


def exponential(x: Value) -> Value:
    if type(x) is float:
        return ONE if x == 0 else 0.0 if x == -INFINITY else x
    return Real(lambda k: k.rising("exp", k.of(x)), lambda k: k.of(x))


def exponential_less_one(x: Value) -> Value:
    if type(x) is float:
        return 0.0 if x == 0 else -ONE if x == -INFINITY else x

    def log(k: Arithmetic) -> Interval:
        """An interval of ln(e^x - 1), with e^x - 1 = e^x (1 - e^-x)."""
        return k.add(k.of(x), k.rising("log1p", k.negative(k.rising("exp", k.of(-x)))))

    return Real(lambda k: k.rising("expm1", k.of(x)), log if x > 1 else None)


def hyperbolic_tangent(x: Value) -> Value:
    if type(x) is float:
        return x if x == 0 or x != x else mpq(int(math.copysign(1, x)))
    return Real(lambda k: k.rising("tanh", k.of(x)))


def logistic(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    if type(x) is float:
        if x != x:
            return NAN
        return mpq(1, 2) if x == 0 else ONE if x > 0 else 0.0

    def bounds(k: Arithmetic) -> Interval:
        power = k.rising("exp", k.of(-abs(x)))
        return k.divide(k.one if x > 0 else power, k.add(k.one, power))

    def log(k: Arithmetic) -> Interval:
        rest = k.negative(k.rising("log1p", k.rising("exp", k.of(-abs(x)))))
        return rest if x > 0 else k.add(k.of(x), rest)

    return Real(bounds, log)


def softplus(x: Value) -> Value:
    """ln(1 + e^x)."""
    if type(x) is float and x != 0:
        return 0.0 if x == -INFINITY else x
    if type(x) is float:
        return logarithm(mpq(2))

    def bounds(k: Arithmetic) -> Interval:
        rest = k.rising("log1p", k.rising("exp", k.of(-abs(x))))
        return k.add(k.of(x), rest) if x > 0 else rest

    def log(k: Arithmetic) -> Interval:
        """An interval of ln(ln(1 + t)), with t = e^x, between x + ln(1 - t / 2) and x."""
        t = k.rising("exp", k.of(x))
        return k.down.sub(k.of(x)[0], t[1]), k.of(x)[1]

    return Real(bounds, log if x < 0 else None)


def logarithm(x: Value) -> Value:
    if type(x) is float:
        return -INFINITY if x == 0 else x if x > 0 else NAN
    if x == 1:
        return 0.0
    return Real(lambda k: k.rising("log", k.of(x))) if x > 0 else NAN


def gaussian_linear_unit(x: Value) -> Value:
    """x (1 + erf(x / sqrt 2)) / 2, where 1 + erf(a) = erfc(-a)."""
    if type(x) is float:
        return -0.0 if x == -INFINITY else x

    def bounds(k: Arithmetic) -> Interval:
        argument = k.divide(k.of(abs(x)), k.root_of_two)
        return k.multiply(k.of(x / 2), k.falling("erfc", k.negative(argument) if x > 0 else argument))

    def log(k: Arithmetic) -> Interval:
        """erfc(a) is e^(-a^2) / (a sqrt pi), minus at most the part 1 / (2 a^2) of it."""
        pi = (k.down.const_pi(), k.up.const_pi())
        main = k.add(k.of(-x * x / 2), k.negative(k.rising("log", k.rising("sqrt", k.multiply(k.of(mpq(2)), pi)))))
        return k.add(main, (k.down.log1p(k.of(-1 / (x * x))[0]), k.of(mpq(0))[1]))

    return Real(bounds, log if x < -2 else None)


def angle(y: Value, x: Value) -> Value:
    """atan2 as in C."""
    if is_nan(y) or is_nan(x):
        return NAN
    side = math.copysign(1.0, sign(y))
    left = math.copysign(1.0, sign(x)) < 0
    if type(y) is float and y == 0:
        return _quarters(4 * side) if left else y
    if type(y) is float:  # infinite
        both = type(x) is float and x != 0
        return _quarters(side * (2 if not both else 3 if left else 1))
    if type(x) is float:
        if x == 0:
            return _quarters(2 * side)
        return _quarters(4 * side) if left else math.copysign(0.0, side)
    length = max(z.numerator.bit_length() + z.denominator.bit_length() for z in (y, x))
    there = mpfr(y, length), mpfr(x, length)  # exact

    def bounds(k: Arithmetic) -> Interval:
        return k.down.atan2(*there), k.up.atan2(*there)

    return Real(bounds)


def _quarters(of_pi: float) -> Real:
    return Real(lambda k: k.multiply(k.of(mpq(of_pi) / 4), (k.down.const_pi(), k.up.const_pi())))
