"""The error function and its complement in float64. u is 2^-53; relative errors add up, their products are below u / 100."""

from __future__ import annotations

from anydml.kernels.code.values import Value
from anydml.kernels.numbers.functions.approximate import Approximate, at_most, square
from anydml.kernels.numbers.functions.coefficients import ERF, ERFC, EXP
from anydml.kernels.numbers.functions.exponentials import exponential
from anydml.kernels.numbers.functions.polynomials import U

FARTHEST = 26.63  # from here on, the computed e^(-z^2) is 0
assert ERFC.high >= FARTHEST

GELU_FARTHEST = 37.66  # 26.63 sqrt(2): from here on, the computed e^(-x^2 / 2) is 0
HALF_ROOT = 0.5**0.5
# e^(-z^2): EXP.rel and 0.75 u of its argument; a product and a quotient
ERFC_REL = ERFC.rel + EXP.rel + 2.8 * U
# e^(z^2) erfc(z) falls more slowly than z grows, and z has an error of 1.5 u; one more difference and product
GELU_REL = ERFC_REL + 4 * U


def _of_positive(z: Value) -> Value:
    """erfc(z) for z >= 0: e^(-z^2) times a quotient of polynomials."""
    z = at_most(z, FARTHEST)
    head, tail = square(z)
    above, below = ERFC(z)
    return exponential(-head, -tail) * above / below


def erfc(x: Value) -> Approximate:
    far = _of_positive(x.magnitude())
    return Approximate(x.body.chosen(x.compared("olt", 0.0), 2 - far, far), ERFC_REL + U)


def gelu(x: Value) -> Approximate:
    """x erfc(-x / sqrt(2)) / 2; x^2 / 2 replaces the square of erfc's argument."""
    size = at_most(x.magnitude(), GELU_FARTHEST)
    head, tail = square(size)
    above, below = ERFC(size * HALF_ROOT)
    far = exponential(head * -0.5, tail * -0.5) * above / below
    return Approximate(x * 0.5 * x.body.chosen(x.compared("olt", 0.0), far, 2 - far), GELU_REL)


def erf(x: Value) -> Approximate:
    """x times a polynomial up to 1/2; above, 1 - erfc(|x|), where erfc is below 0.93 erf."""
    size = x.magnitude()
    far = (1 - _of_positive(size)).signed_as(x)
    near = x * ERF(x * x)
    return Approximate(x.body.chosen(size.compared("olt", 0.5), near, far), max(ERF.rel, ERFC_REL) + U)
