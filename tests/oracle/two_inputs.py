"""ELEMENT_WISE_SUBTRACT, MULTIPLY, DIVIDE, MAX, MIN, MEAN, MODULUS_TRUNCATE, MODULUS_FLOOR and DIFFERENCE_SQUARE.

Each has a function of integers, whose results wrap, and one of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gmpy2 import mpq

from .activation import Attributes, Inputs, Operator, Outputs, Results
from .arithmetic import add, divide, is_nan, maximum, minimum, multiply, sign, subtract
from .numbers import NAN, Value, stored, to_integer_array, values

HALF = mpq(1, 2)


def quotient(a: int, b: int) -> int:
    """a / b toward zero; 0 where b is 0."""
    if b == 0:
        return 0
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def half(total: int) -> int:
    return quotient(total, 2)


def remainder(a: Value, b: Value, *, down: bool) -> Value:
    """a - b * q, where q is a / b rounded down, or else toward zero. It has the sign of b, or of a."""
    if is_nan(a) or is_nan(b) or b == 0 or (type(a) is float and a != 0):
        return NAN
    zero = math.copysign(0.0, sign(b) if down else sign(a))
    if a == 0:
        return zero
    if type(b) is float:  # infinite
        return b if down and (sign(a) < 0) != (b < 0) else a
    rest = abs(a) % abs(b)  # from 0 to |b|, without |b|
    if rest == 0:
        return zero
    if sign(a) < 0:
        rest = -rest
    return rest + b if down and (rest < 0) != (b < 0) else rest


def difference_square(a: Value, b: Value) -> Value:
    difference = subtract(a, b)
    return multiply(difference, difference)


def of_two(whole: Callable[[int, int], int], real: Callable[[Value, Value], Value]) -> Operator:
    """An operator that uses `whole` for integers and `real` for floats."""

    def operate(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
        a, b = inputs["a_tensor"], inputs["b_tensor"]
        sizes, dtype = outputs["output_tensor"]
        if a.dtype.kind in "iu":
            results = map(whole, a.ravel().tolist(), b.ravel().tolist())
            return {"output_tensor": to_integer_array(results, sizes, dtype)}
        return {"output_tensor": stored(map(real, values(a), values(b)), sizes, dtype)}

    return operate


OPERATORS = {
    "ELEMENT_WISE_SUBTRACT": of_two(lambda a, b: a - b, subtract),
    "ELEMENT_WISE_MULTIPLY": of_two(lambda a, b: a * b, multiply),
    "ELEMENT_WISE_DIVIDE": of_two(quotient, divide),
    "ELEMENT_WISE_MAX": of_two(max, maximum),
    "ELEMENT_WISE_MIN": of_two(min, minimum),
    "ELEMENT_WISE_MEAN": of_two(lambda a, b: half(a + b), lambda a, b: multiply(add(a, b), HALF)),
    "ELEMENT_WISE_MODULUS_TRUNCATE": of_two(
        lambda a, b: a - b * quotient(a, b) if b else 0, lambda a, b: remainder(a, b, down=False)
    ),
    "ELEMENT_WISE_MODULUS_FLOOR": of_two(lambda a, b: a % b if b else 0, lambda a, b: remainder(a, b, down=True)),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": of_two(lambda a, b: (a - b) ** 2, difference_square),
}
