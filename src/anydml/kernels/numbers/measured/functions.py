"""Powers of real numbers, and what elementwise kernels know of functions and roundings, for these."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.numbers.floats import rounding, transcendental
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.floats.numbers import constant as exact_constant
from anydml.kernels.numbers.lanes import broadcast, either, in_lanes
from anydml.kernels.numbers.measured import arithmetic
from anydml.kernels.numbers.measured.real import Real
from anydml.tensor import DataType


def rounded(x: Real, data_type: DataType) -> Real:
    """A number as a tensor of a float type holds it."""
    if data_type != DataType.FLOAT32:
        raise Uncompilable("a number is rounded inside to another type than FLOAT32")
    bits, guard = rounding.nearest_single(as_number(x))
    value = bits.converted("fpext", bits.kind.of("double"))
    return Real(value, None, x.known.rounded(data_type), guard=either(x.guard, guard))


def power(x: Real, y: Real) -> Real:
    """x^y, as IEEE 754 defines it."""
    x, y = arithmetic.plain(x), y
    lanes = x.value.kind.lanes
    if y.constant is not None:
        like = x.value
        exponent = float(y.constant)
        if Fraction(exponent) != y.constant:
            raise Uncompilable("an exponent that float64 does not hold")
        second = exact_constant(y.constant, like)
        simple = transcendental.simple_power(as_number(x), y.constant)
        if simple is not None:
            return of_number(_settled(simple, x))
    elif y.known.largest == 0 and y.known.finite:
        second = exact_constant(Fraction(0), x.value)
    else:
        y = arithmetic.plain(y)
        lanes = max(lanes, y.value.kind.lanes)
        second = as_number(y, lanes)
    first = as_number(x, lanes)
    return of_number(_settled(transcendental.function("pow", [first, second], "wide"), x))


def _settled(made: Number, x: Real) -> Number:
    """A power that is undecided where float64 has 0 or an infinity, or nearly so, and x is neither: it may be divided by."""
    if not made.saturated:
        return made
    size, far = made.wide().magnitude(), 2.0**made.saturated
    base = in_lanes(x.value, size.kind.lanes)
    ordinary = base.compared("une", 0.0)
    if x.err is not None:
        ordinary = ordinary | in_lanes(x.err, size.kind.lanes).compared("une", 0.0)
    ordinary = ordinary & base.magnitude().compared("olt", math.inf)  # an infinity is one, whatever its bound
    beyond = size.compared("ogt", far) | size.compared("olt", 1 / far)
    return replace(made.guarded(beyond & ordinary), saturated=0)


def as_number(x: Real, lanes: int = 0) -> Number:
    """A number with the factor 1, as functions and roundings need it, in at least `lanes` lanes."""
    value, err = in_lanes(x.value, max(lanes, x.value.kind.lanes)), x.err
    if err is None:
        return Number(x.body, lambda: value, x.known, exact=True, odd=lambda: value, guard=x.guard)
    value, bound = broadcast(value, err)
    return Number(x.body, lambda: value, x.known, err=lambda: bound, guard=x.guard)


def of_number(x: Number) -> Real:
    value = x.wide()
    return Real(value, None if x.exact else x.error(), x.known, guard=x.guard)
