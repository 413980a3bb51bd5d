"""Knowledge of numbers that holds in every lane before anything is computed: ranges, signs, binary digits.

It does not depend on the representation that holds a number in machine code (a pair of float32, float64, an integer). An
operation derives it by one rule of `Known`, whichever representation computes the result. The ends of ranges are float64 or
integers; an end that is rounded is moved outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import add, mul, sub, truediv
from typing import Any, TypeVar

from anydml.exact.formats import FORMATS
from anydml.kernels.code.engine import Uncompilable
from anydml.tensor import EIGHT_BIT_FLOATS, DataType, limits

T = TypeVar("T")

ANY = 1 << 20  # digits of a number that may have any number of them
FAR = 2.0**900  # for numbers up to this, and down to its reciprocal, float64 holds products and their rounding errors


@dataclass(frozen=True)
class Known:
    """Knowledge of a number t: if it is finite, low <= t <= high.

    quantum: t is a multiple of 2^quantum; digits: its largest number of significant bits. least: it is 0 or at least 2^least
    in magnitude. Up to rounding, quantum and least also hold for t in float64. constant: all lanes have the same finite number.
    ordered: no lane is NaN, or NaN makes no difference. finite: no lane is infinite or NaN.
    """

    low: float = -math.inf
    high: float = math.inf
    quantum: int | None = None
    digits: int = ANY
    least: int | None = None
    constant: bool = False
    ordered: bool = False
    finite: bool = False

    @property
    def positive(self) -> bool:
        return self.low >= 0

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def least_magnitude(self) -> float:
        """A magnitude below which the number is 0; 0 if none is known."""
        return math.ldexp(1.0, self.least) if self.least is not None and self.least > -1022 else 0.0

    @property
    def integers(self) -> tuple[int, int]:
        """The least and the greatest integer that it may be."""
        return math.ceil(self.low), math.floor(self.high)

    @property
    def only(self) -> float | None:
        """The constant, if float64 holds it; else None."""
        return self.low if self.constant and self.low == self.high else None

    def within(self, largest: float) -> Known:
        """The knowledge of the number if its magnitude is also at most `largest`."""
        return replace(self, low=max(self.low, -largest), high=min(self.high, largest))

    def agrees(self, other: Known) -> bool:
        """Whether two numbers have the same sign, or are 0."""
        return (self.positive and other.positive) or (self.high <= 0 and other.high <= 0)

    def has_quantum(self, least: int) -> bool:
        """Whether the number is a multiple of 2^least."""
        return self.quantum is not None and self.quantum >= least

    # --- operations ---

    def __neg__(self) -> Known:
        return replace(self, low=-self.high, high=-self.low)

    def __abs__(self) -> Known:
        low = 0.0 if self.low < 0 < self.high else min(abs(self.low), abs(self.high))
        return replace(self, low=low, high=self.largest)

    def __add__(self, other: Known) -> Known:
        low, high = _outward(add, (self.low, other.low), (self.high, other.high))
        quantum = _least_of(self.quantum, other.quantum)
        least = quantum
        if self.agrees(other):
            least = _largest_of(quantum, _least_of(self.least, other.least), *(_exponent(x.low) for x in (self, other)))
        digits = places(low, high, quantum)
        return _made(low, high, quantum, digits, least, self, other)

    def __sub__(self, other: Known) -> Known:
        return self + -other

    def __mul__(self, other: Known) -> Known:
        low, high = _outward(_product, *((x, y) for x in (self.low, self.high) for y in (other.low, other.high)))
        quantum = _sum_of(self.quantum, other.quantum)
        digits = min(self.digits + other.digits, places(low, high, quantum))
        return _made(low, high, quantum, digits, _sum_of(self.least, other.least), self, other)

    def squared(self) -> Known:
        """The product of a number and itself."""
        made = self * self
        return replace(made, low=max(made.low, 0.0))

    def __truediv__(self, other: Known) -> Known:
        smallest = max(other.low, -other.high, other.least_magnitude)
        largest = _outward(truediv, (self.largest, smallest))[1] if smallest > 0 else math.inf
        least = None
        if self.least is not None and other.largest < math.inf:
            least = self.least - math.frexp(other.largest)[1] - 1
        finite = other if other.constant else replace(other, finite=False)
        return _made(0.0 if self.agrees(other) else -largest, largest, None, ANY, least, self, finite)

    def summed(self, count: int) -> Known:
        """The knowledge of a sum of at most `count` such numbers."""
        low, high = (_outward(_product, (end, count))[0] for end in (min(0.0, self.low), max(0.0, self.high)))
        least = _largest_of(self.quantum, self.least if self.positive else None)
        return _made(low, high, self.quantum, places(low, high, self.quantum), least, self, self)

    def root(self) -> Known:
        high = outward(0.0, math.sqrt(self.high))[1] if self.high > 0 else 0.0
        return Known(0.0, high, least=None if self.least is None else self.least // 2 - 1)

    def scaled(self, k: int) -> Known:
        """The product with 2^k, which has the same digits."""
        return replace(
            self,
            low=self.low * 2.0**k,
            high=self.high * 2.0**k,
            quantum=_sum_of(self.quantum, k),
            least=_sum_of(self.least, k),
        )

    def rounded(self, data_type: DataType) -> Known:
        """The number as a tensor of a float type stores it: infinite beyond the type's largest number."""
        made = known_of(data_type)
        largest = outward(0.0, self.largest)[1] * (1 + 2.0**-made.digits) + made.least_magnitude
        finite = self.finite and largest < made.largest / 2
        return replace(made.within(largest), finite=finite)

    def whole(self) -> Known:
        """The number rounded to an integer, up or down."""
        low = self.low if math.isinf(self.low) else float(math.floor(self.low))
        high = self.high if math.isinf(self.high) else float(math.ceil(self.high))
        return Known(low, high, 0, min(53, places(low, high, 0)), 0, finite=self.finite)

    # --- one of two numbers ---

    def __or__(self, other: Known) -> Known:
        """The knowledge of a number that is one of two."""
        return self._joined(other, min(self.low, other.low), max(self.high, other.high))

    def larger(self, other: Known) -> Known:
        return self._extreme(other, max)

    def smaller(self, other: Known) -> Known:
        return self._extreme(other, min)

    def _extreme(self, other: Known, pick: Callable[[float, float], float]) -> Known:
        made = self._joined(other, pick(self.low, other.low), pick(self.high, other.high))
        return replace(made, ordered=all(x.ordered or x.constant for x in (self, other)))

    def _joined(self, other: Known, low: float, high: float) -> Known:
        quantum = _least_of(self.quantum, other.quantum)
        digits = min(max(self.digits, other.digits), places(low, high, quantum))
        finite = self.finite and other.finite
        return Known(low, high, quantum, digits, _least_of(self.least, other.least), finite=finite)


ANYTHING = Known()
# operators, which apply to knowledge and to values
RING: Mapping[str, Callable[..., Any]] = {"add": add, "sub": sub, "mul": mul}


def whole_power(x: T, exponent: int, multiply: Callable[[T, T], T]) -> T:
    """x to the power of a positive integer, by repeated multiplication."""
    if exponent < 1:
        raise Uncompilable("a power with an exponent below 1")
    made = x
    for bit in bin(exponent)[3:]:
        made = multiply(made, made)
        if bit == "1":
            made = multiply(made, x)
    return made


def known_of(data_type: DataType) -> Known:
    """The knowledge of an element of a tensor."""
    if data_type == DataType.FLOAT32:
        return Known(-(2.0**128), 2.0**128, -149, 24, -149)
    if data_type == DataType.FLOAT16:
        return Known(-(2.0**16), 2.0**16, -24, 11, -24)
    if data_type in (DataType.BFLOAT16, *EIGHT_BIT_FLOATS):
        form = FORMATS[data_type]
        end = 2.0**form.highest
        return Known(-end, end, form.lowest, form.precision, form.lowest)
    if data_type == DataType.FLOAT64:
        return Known(quantum=-1074, digits=53, least=-1074)
    return known_integer(*limits(data_type))


def known_integer(low: int, high: int) -> Known:
    """The knowledge of an integer within limits."""
    return Known(low, high, 0, max(abs(low), abs(high), 1).bit_length(), 0, finite=True)


def known_constant(value: Fraction) -> Known:
    """The knowledge of a constant within float64's range; if float64 does not hold it, its neighbours are the ends."""
    nearest = float(value)
    if Fraction(nearest) != value:
        low, high = outward(nearest, nearest)
        return Known(low, high, least=math.frexp(nearest)[1] - 2, constant=True, finite=True)
    m, q = value.numerator, 1 - value.denominator.bit_length()
    zeros = (m & -m).bit_length() - 1 if m else 0
    digits, quantum = max(1, abs(m).bit_length() - zeros), q + zeros
    return Known(nearest, nearest, quantum, digits, quantum + digits - 1, constant=True, finite=True)


def places(low: float, high: float, quantum: int | None) -> int:
    """The number of significant bits that hold every multiple of 2^quantum in an interval."""
    top = max(abs(low), abs(high))
    if quantum is None or math.isinf(top):
        return ANY
    return max(1, math.frexp(top)[1] - quantum) if top else 1


def outward(low: float, high: float) -> tuple[float, float]:
    """The interval, enlarged by more than the rounding of its ends."""
    return low - abs(low) * 2.0**-50, high + abs(high) * 2.0**-50


def _outward(op: Callable[[float, float], float], *pairs: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest result of an operation on pairs of ends, moved outward if float64 does not hold it."""
    made = [(op(x, y), x, y) for x, y in pairs]
    return _rounded(op, *min(made), -math.inf), _rounded(op, *max(made), math.inf)


def _rounded(op: Callable[..., float], made: float, x: float, y: float, toward: float) -> float:
    """A result for two ends, or its neighbour in a direction if it is not exact."""
    if math.isinf(x) or math.isinf(y) or (not math.isinf(made) and op(Fraction(x), Fraction(y)) == made):
        return made
    return math.nextafter(made, toward)


def _product(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else mul(x, y)


def _made(low: float, high: float, quantum: int | None, digits: int, least: int | None, a: Known, b: Known) -> Known:
    """The knowledge of an operation's result: it may be infinite if an operand may be, or if it may be too large."""
    finite = a.finite and b.finite and max(abs(low), abs(high)) < FAR
    return Known(low, high, quantum, digits, least, finite=finite)


def _least_of(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _sum_of(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _largest_of(*exponents: int | None) -> int | None:
    return max((e for e in exponents if e is not None), default=None)


def _exponent(low: float) -> int | None:
    """The exponent of the lower end of a range, if that is above 0."""
    return math.frexp(low)[1] - 1 if 0 < low < math.inf else None
