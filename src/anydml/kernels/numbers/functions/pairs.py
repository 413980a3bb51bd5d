"""Numbers in twice float64's precision: the exact sum of a head and a tail that is below 2^-52 of it.

u is 2^-53. Products, quotients, roots and sums of numbers of one sign have an error of at most 2^-98 of the result, differences
one of 2^-98 of the larger operand, with and without fused operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from anydml.kernels.code.values import Value


class Pair:
    """head + tail; floats and Values as operands are numbers without a tail."""

    __slots__ = ("head", "tail")

    def __init__(self, head: Value, tail: Value) -> None:
        self.head, self.tail = head, tail

    def _lift(self, x: Pair | Value | float | Fraction) -> Pair:
        if isinstance(x, Pair):
            return x
        if isinstance(x, Value):
            return Pair(x, self.head.lift(0.0))
        exact = Fraction(x)
        head = float(exact)
        return Pair(self.head.lift(head), self.head.lift(float(exact - Fraction(head))))

    def __add__(self, other: Pair | Value | float | Fraction) -> Pair:
        other = self._lift(other)
        head, tail = two_sum(self.head, other.head)
        return quick_sum(head, tail + (self.tail + other.tail))

    def __neg__(self) -> Pair:
        return Pair(-self.head, -self.tail)

    def __sub__(self, other: Pair | Value | float | Fraction) -> Pair:
        return self + -self._lift(other)

    def __rsub__(self, other: float | Fraction) -> Pair:
        return self._lift(other) - self

    def __mul__(self, other: Pair | Value | float | Fraction) -> Pair:
        other = self._lift(other)
        body = self.head.body
        head, tail = exact_product(self.head, other.head)
        return quick_sum(head, body.fused(self.head, other.tail, body.fused(self.tail, other.head, tail)))

    def __truediv__(self, other: Pair) -> Pair:
        first = self.head / other.head
        rest = self - other * first
        return quick_sum(first, rest.head / other.head)

    def __rtruediv__(self, other: float) -> Pair:
        return self._lift(other) / self

    def scaled(self, power: Value | float) -> Pair:
        """The product with a power of two."""
        return Pair(self.head * power, self.tail * power)

    def root(self) -> Pair:
        """The square root; of 0 it is 0."""
        first = self.head.root()
        rest = self - Pair(*exact_product(first, first))
        correction = rest.head / (first * 2)
        return quick_sum(first, first.body.chosen(first.compared("ogt", 0.0), correction, 0.0))

    def where(self, condition: Value, other: Pair | float) -> Pair:
        """This pair where a condition holds, else the other."""
        other = self._lift(other)
        chosen = self.head.body.chosen
        return Pair(chosen(condition, self.head, other.head), chosen(condition, self.tail, other.tail))

    def negated(self, condition: Value) -> Pair:
        """The negated pair where a condition holds, else this one."""
        return (-self).where(condition, self)

    def magnitude(self) -> Pair:
        return self.negated(self.head.bits().compared("slt", 0))


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b exactly: the rounded sum, and its rounding error."""
    head = a + b
    of_b = head - a
    return head, (a - (head - of_b)) + (b - of_b)


def quick_sum(a: Value, b: Value) -> Pair:
    """a + b exactly, where a is 0 or |a| >= |b|."""
    head = a + b
    return Pair(head, b - (head - a))


def exact_product(a: Value, b: Value) -> tuple[Value, Value]:
    """a b: rounded, and its rounding error; exact with fused operations or a factor of 26 bits, else up to 2^-105 of it."""
    head = a * b
    if a.body.has_fma:
        return head, a.body.fused(a, b, -head)
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return head, (((a1 * b1 - head) + a1 * b2) + a2 * b1) + a2 * b2


def lost_product(a: Value, b: Value, head: Value) -> Value:
    """A bound of the error of `exact_product`; head: its first part."""
    zero = head.lift(0.0)
    if a.body.has_fma:
        return zero
    short = [(x.bits() & ((1 << 27) - 1)).compared("eq", 0) for x in (a, b)]  # its second half is 0
    return a.body.chosen(short[0] | short[1], zero, head.magnitude() * 2.0**-104)


def halves(x: Value) -> tuple[Value, Value]:
    """x as the sum of numbers of 26 and 27 bits."""
    head = (x.bits() & -(1 << 27)).cast(x.kind)
    return head, x - head


def series(x: Pair, terms: Sequence[Fraction], exact: int) -> Pair:
    """The sum of terms[i] x^i; the terms from `exact` on are so small that float64 suffices for them."""
    *others, last = terms[exact:]
    small = x.head.lift(float(last))
    for c in reversed(others):
        small = x.head.body.fused(small, x.head, float(c))
    found = Pair(*two_sum(x.head.lift(0.0), small))
    for c in reversed(terms[:exact]):
        found = found * x + c
    return found
