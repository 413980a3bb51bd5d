"""Functions that are nearly s x near zero: at a tie of s x, the sign of the difference decides.

s x is an exact float64 whose last bit is 0, and the difference is less than the last place. So the float64 next to s x, on the
side of the difference, rounds as the function does.

HARD_SWISH of an argument of few digits, such as an integer, is an exact float64, and may be a tie itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.schema.node import Constant
from anydml.tensor import DataType

TINY = 2.0**-60  # of arguments
STEEP = 64  # the difference is at most this times s x^2, which is less than 2^-53 of s x
DIGITS = 28  # of s; an element has 24


class Line(NamedTuple):
    """a x + b, clamped to 0 and 1; the result is x times this."""

    a: float
    b: float

    def exact(self, x: Value) -> tuple[Value, Value]:
        """The product in float64, and the lanes where it is exact and not 0: there, ties are certain."""
        body, term = x.body, x * self.a
        total = term + self.b
        other = total - term
        lost = (term - (total - other)) + (self.b - other)
        share = at_most(at_least(total, 0.0), 1.0)
        product = share * x
        whole = lost.compared("oeq", 0.0) & body.fused(share, x, -product).compared("oeq", 0.0)
        return product, whole & product.compared("one", 0.0)


class NearZero(NamedTuple):
    """A function s x + c x^2 + .. of a small x. slope: s; sign: that of c, or None if the added terms have the sign of -s x.

    line: the line that HARD_SWISH multiplies x by.
    """

    slope: float
    sign: int | None
    line: Line | None = None

    def settled(self, bits: Value) -> tuple[Value, Value]:
        """The bits of results, and the lanes in which these are known; bits: of the arguments."""
        x = bits.cast(bits.kind.of("float"))
        size, wide = x.magnitude(), x.converted("fpext", x.kind.of("double"))
        product = wide * self.slope
        beside = product.bits()
        if self.sign is None:
            beside = beside - 1
        else:  # away from 0 where s x has the sign of what is added
            below = beside.shifted_right(63, signed=True)
            beside = beside + ((below | 1) if self.sign > 0 else -(below | 1))
        made, tiny = beside.cast(product.kind), size.compared("olt", TINY) & size.compared("ogt", 0.0)
        if self.line is None or not x.body.has_fma:
            return made.converted("fptrunc", x.kind).bits(), tiny
        exact, known = self.line.exact(wide)
        return x.body.chosen(tiny, made, exact).converted("fptrunc", x.kind).bits(), tiny | known


def near_zero(key: MapKey) -> NearZero | None:
    """The first terms of a formula that is a function of one FLOAT32 element; None where they are not known."""
    if key.types != (DataType.FLOAT32, DataType.FLOAT32) or key.moves:
        return None
    return _SeriesMatch(key.formula).found()


def lines_within(formula: NormalForm) -> dict[int, tuple[int, Line]]:
    """The nodes x max(0, min(a x + b, 1)) of a formula that a short a and b make exact for x of few digits: x, and the line."""
    match, made = _SeriesMatch(formula), {}
    for place in range(len(formula)):
        if (found := match.times_line(place)) is not None and _short(found[1]) and _short(found[2]):
            made[place] = found[0], Line(float(found[1]), float(found[2]))
    return made


class _SeriesMatch:
    def __init__(self, formula: NormalForm) -> None:
        self.formula = formula

    def found(self) -> NearZero | None:
        last = len(self.formula) - 1
        while self.formula[last].op in ("same", "limits"):
            last = self.formula[last].args[-1]
        return self._hard_swish(last) or self._tanh(last)

    def _constant(self, place: int) -> Fraction | None:
        data = self.formula[place].data
        return data.value if isinstance(data, Constant) and isinstance(data.value, Fraction) else None

    def _scaled(self, op: str, place: int) -> tuple[Fraction, int] | None:
        """The constant operand of an operation, and the place of its other operand."""
        node = self.formula[place]
        if node.op == op:
            for one, other in (node.args, node.args[::-1]):
                if (constant := self._constant(one)) is not None:
                    return constant, other
        return None

    def _line(self, place: int) -> Fraction | None:
        """The constant k of a node k x, where x is an element."""
        if self.formula[place].op == "stream":
            return Fraction(1)
        found = self._scaled("mul", place)
        return found[0] if found and self.formula[found[1]].op == "stream" else None

    def times_line(self, place: int) -> tuple[int, Fraction, Fraction] | None:
        """The place of x, and a and b, of a node x max(0, min(a x + b, 1))."""
        node = self.formula[place]
        for one, other in (node.args, node.args[::-1]) if node.op == "mul" else ():
            above = self._scaled("max", other)
            below = self._scaled("min", above[1]) if above and above[0] == 0 else None
            sum_ = self._scaled("add", below[1]) if below and below[0] == 1 else None
            scaled = (Fraction(1), sum_[1]) if sum_ and sum_[1] == one else self._scaled("mul", sum_[1]) if sum_ else None
            if sum_ and scaled and scaled[0] and scaled[1] == one:
                return one, scaled[0], sum_[0]
        return None

    def _hard_swish(self, place: int) -> NearZero | None:
        """x max(0, min(a x + b, 1)) for 0 < b < 1, which is b x + a x^2."""
        if (found := self.times_line(place)) is None:
            return None
        x, a, b = found
        if self.formula[x].op == "stream" and 0 < b < 1 and abs(a) <= STEEP * b and _short(b):
            return NearZero(float(b), 1 if a > 0 else -1, Line(float(a), float(b)) if _short(a) else None)
        return None

    def _tanh(self, place: int) -> NearZero | None:
        """a tanh(b x), which is a b x - a b^3 x^3 / 3 and is nearer to 0 than a b x."""
        scaled = self._scaled("mul", place)
        a, inner = scaled or (Fraction(1), place)
        while self.formula[inner].op == "same":
            inner = self.formula[inner].args[0]
        if self.formula[inner].op != "tanh":
            return None
        b = self._line(self.formula[inner].args[0])
        return NearZero(float(a * b), None) if a and b and abs(b) <= STEEP and _short(a * b) else None


def _short(slope: Fraction) -> bool:
    """Whether products of elements and a slope are exact, with a last bit of 0."""
    numerator, denominator = abs(slope.numerator), slope.denominator
    return (numerator // (numerator & -numerator)).bit_length() <= DIGITS and denominator & (denominator - 1) == 0
