"""x * s + b in float64, rounded once: by the processor's fused multiply-add, or by error-free sums and products."""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats.numbers import odd_of
from anydml.kernels.numbers.functions.pairs import exact_product, two_sum

FAR = 2.0**500  # x beyond it, or below its reciprocal, is scaled by MOVED, so that both parts of a product are normal numbers
MOVED = 2.0**300


def rounded_once(x: Value, s: float, b: float) -> Value:
    """The float64 nearest to x * s + b, where s and b are float32."""
    body = x.body
    if body.has_fma:
        return body.fused(x, s, b)
    plain, finite = x * s + b, x.magnitude().compared("olt", math.inf)
    if not math.isfinite(s) or s == 0:
        return plain
    if not math.isfinite(b):  # x * s is finite, even if float64 overflows
        return body.chosen(finite, b, plain)
    if b == 0:  # a product that is rounded to 0 keeps its sign
        return body.chosen((x * s).compared("oeq", 0.0) & x.compared("one", 0.0), x * s, plain)
    return body.chosen(finite, _of_finite(x, s, b), plain)


def _of_finite(x: Value, s: float, b: float) -> Value:
    """x * s + b as the sum of four numbers; the smallest two, rounded to odd, decide the rounding of the largest.

    Where x is small, the sum that is scaled back is as large as b, so that it is not rounded again.
    """
    body = x.body
    large, small = x.magnitude().compared("ogt", FAR), x.magnitude().compared("olt", 1 / FAR)
    factor = body.chosen(large, 1 / MOVED, body.chosen(small, MOVED, x.lift(1.0)))
    back = body.chosen(large, MOVED, body.chosen(small, 1 / MOVED, x.lift(1.0)))
    product, rest = exact_product(x * factor, x.lift(s))  # s has 24 bits
    second, third = two_sum(factor * b, rest)
    first, fourth = two_sum(product, second)
    least, lost = two_sum(third, fourth)
    return (first + odd_of(least, lost)) * back
