"""x^y in float64, for any real y. u is 2^-53.

|x| = 2^e m as for the logarithm, and log2 |x| = e + 2 s / log 2 + s^3 q(s^2) as the sum of two numbers, since its error counts
|y| times. s is also a sum of two numbers, with an error of 2^-75.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import INFINITY, ROUNDER, Approximate, at_least, at_most, product
from anydml.kernels.numbers.functions.coefficients import EXP2, LOG2_TAIL
from anydml.kernels.numbers.functions.logarithms import parts
from anydml.kernels.numbers.functions.polynomials import U

# 2 / log 2, and its rounding error
FACTOR, FACTOR_TAIL = float.fromhex("0x1.71547652b82fep+1"), float.fromhex("0x1.777d0ffda0d24p-55")
LARGEST = 2.0**80  # beyond this, any x but 1 gives 0 or infinity, since |log x| is at least 2^-53

# s^3 q is at most 0.01 of log2 |x|: if e is not 0, log2 |x| is at least 1/2. Its error is LOG2_TAIL.rel, 9 u for s^3 and 3 u
# for products; sums of such small terms and their product with y have an error of 4 u of them
_LOG2_REL = 0.01 * (LOG2_TAIL.rel + 16.2 * U) + 2.0**-68
# 2^z: the error of z times log 2, at |z| <= 1000; its fraction is rounded near 1/2
POW_REL = EXP2.rel + math.log(2) * (1000 * _LOG2_REL + 0.6 * U)


def _log2(x: Value) -> tuple[Value, Value]:
    """The logarithm of a positive x to base 2 as a sum of two numbers, the second below 0.0101 of the first."""
    body = x.body
    exponent, m, _ = parts(x)
    f = m - 1
    below = f + 2
    inverse = 1 / below
    s = f * inverse
    s_tail = _rest(f, s, below, f - (below - 2)) * inverse
    square = s * s
    first, rest = product(s, s.lift(FACTOR))
    rest = rest + body.fused(s, FACTOR_TAIL, s_tail * FACTOR)
    head = exponent + first
    return head, body.fused(s * square, LOG2_TAIL(square), first - (head - exponent) + rest)


def _rest(f: Value, s: Value, below: Value, below_tail: Value) -> Value:
    """f - s (below + below_tail), where s is f / below, rounded."""
    body = f.body
    if body.has_fma:
        return body.fused(-s, below_tail, body.fused(-s, below, f))
    head, tail = product(s, below)
    return (f - head) - tail - s * below_tail


def _of_positive(x: Value, y: Value) -> Value:
    """x^y for a positive finite x: 2^k times 2 to the power of the rest, or 0 or infinity."""
    body = x.body
    log, log_tail = _log2(x)
    z, z_tail = product(y, log)
    z_tail = body.fused(y, log_tail, z_tail)
    # above this, the sum is above 1000; below it, below 1023
    z_tail = body.chosen(z.magnitude().compared("olt", 1012.0), z_tail, 0.0)
    z = at_most(at_least(z, -1023.4), 1024.4)
    shifted = z + z_tail + (ROUNDER + 1023)
    r = z - (shifted - (ROUNDER + 1023)) + z_tail
    return EXP2(r) * (shifted.bits() << 52).cast(x.kind)


def pow(x: Value, y: Value) -> Approximate:
    """IEEE 754's pow: 1 for x = 1 or y = 0, even with NaN; a negative x needs an integer y. Subnormal x are guarded."""
    body = x.body
    size, y_size = x.magnitude(), y.magnitude()
    found = _of_positive(size, at_most(at_least(y, -LARGEST), LARGEST))
    # 0 and infinity
    extreme = body.chosen(
        y.compared("olt", 0.0) & size.compared("oeq", 0.0) | (y.compared("ogt", 0.0) & size.compared("oeq", INFINITY)),
        INFINITY,
        x.lift(0.0),
    )
    finite = size.compared("olt", INFINITY)
    found = body.chosen(finite & size.compared("ogt", 0.0), found, extreme)
    # negative x: the last bit of y, moved to the place of 1
    small = y_size.compared("olt", 2.0**52)
    moved = body.chosen(small, y_size + 2.0**52, y_size)
    whole = body.chosen(small, moved - 2.0**52, y_size).compared("oeq", y_size)
    odd = (moved.bits() & body.chosen(y_size.compared("olt", 2.0**53) & whole, body.constant(x.kind.integer, 1), 0)) << 63
    found = (found.bits() ^ (odd & x.bits())).cast(x.kind)
    invalid = (x.compared("olt", 0.0) & finite) & ~whole
    found = body.chosen(invalid, math.nan, found)
    found = body.chosen(x.compared("ord", y), found, x + y)
    found = body.chosen(x.compared("oeq", 1.0) | y.compared("oeq", 0.0), 1.0, found)
    return Approximate(found, POW_REL, size.compared("olt", 2.0**-1022) & size.compared("ogt", 0.0))
