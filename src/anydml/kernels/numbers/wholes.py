"""Integers in machine code: exact within known limits, or modulo 2^bits of the type that stores them."""

from __future__ import annotations

from dataclasses import dataclass

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.known import RING, Known, known_integer

WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True, eq=False)
class WholeNumber:
    """An integer in every lane, zero-extended if it is known to be at least 0. modular: it is only known modulo 2^bits."""

    value: Value
    known: Known
    modular: bool = False

    @property
    def low(self) -> int:
        return self.known.integers[0]

    @property
    def high(self) -> int:
        return self.known.integers[1]

    @property
    def bits(self) -> int:
        return self.value.kind.bits

    def exactly(self) -> WholeNumber:
        """The integer itself; Uncompilable if it is only known modulo 2^bits."""
        if self.modular:
            raise Uncompilable("an integer of more than 64 bits is compared or divided")
        return self

    def resized(self, bits: int) -> Value:
        """The value in more or fewer bits."""
        if bits == self.bits:
            return self.value
        how = "trunc" if bits < self.bits else "sext" if self.low < 0 else "zext"
        return self.value.converted(how, self.value.kind.of(f"i{bits}"))


def width(known: Known) -> int | None:
    """The number of bits that hold an integer; None if 64 do not."""
    low, high = known.integers
    for bits in WIDTHS:
        if (low >= 0 and high < 1 << bits) or (low >= -(1 << bits - 1) and high < 1 << bits - 1):
            return bits
    return None


def ring(op: str, args: list[WholeNumber], modulus: int | None) -> WholeNumber:
    """A sum, difference, product or negation; modulus: the number of bits, if only the result modulo 2^bits is used."""
    a, b = args[0], args[-1]
    known = -a.known if op == "neg" else RING[op](a.known, b.known)
    bits = modulus or (None if any(x.modular for x in args) else width(known))
    if bits is None:
        raise Uncompilable("an integer takes more than 64 bits")
    values = [x.resized(bits) for x in args]
    if op == "neg":
        made = 0 - values[0]
    else:
        x, y = values
        made = RING[op](x, y)
    return WholeNumber(made, known, modular=modulus is not None)


def together(a: WholeNumber, b: WholeNumber) -> tuple[Value, Value, str]:
    """Two integers in one width, and how they compare there: "s" for signed, "u" for unsigned."""
    a, b = a.exactly(), b.exactly()
    known = a.known | b.known
    bits = width(known)
    if bits is None:
        raise Uncompilable("integers that take more than 64 bits are compared")
    return a.resized(bits), b.resized(bits), "u" if known.positive else "s"


def compare(op: str, a: WholeNumber, b: WholeNumber) -> Value:
    """A comparison: "less", "less_equal" or "equal"."""
    x, y, sign = together(a, b)
    return x.compared("eq" if op == "equal" else sign + {"less": "lt", "less_equal": "le"}[op], y)


def extreme(op: str, a: WholeNumber, b: WholeNumber) -> WholeNumber:
    """The larger ("max") or smaller ("min") integer."""
    x, y, sign = together(a, b)
    made = x.body.chosen(x.compared(f"{sign}{'gt' if op == 'max' else 'lt'}", y), x, y)
    return WholeNumber(made, a.known.larger(b.known) if op == "max" else a.known.smaller(b.known))


def absolute(a: WholeNumber) -> WholeNumber:
    a = a.exactly()
    if a.known.positive:
        return a
    made = a.value.body.chosen(a.value.compared("slt", 0), 0 - a.value, a.value)
    return WholeNumber(made, abs(a.known))  # as an unsigned number, 2^(bits - 1) fits


def select(condition: Value, a: WholeNumber, b: WholeNumber, modulus: int | None) -> WholeNumber:
    """a in the lanes where the condition holds, else b."""
    known = a.known | b.known
    bits = modulus or (None if a.modular or b.modular else width(known))
    if bits is None:
        raise Uncompilable("an integer takes more than 64 bits")
    made = a.value.body.chosen(condition, a.resized(bits), b.resized(bits))
    return WholeNumber(made, known, modular=modulus is not None)


def quotient(a: WholeNumber, b: WholeNumber) -> WholeNumber:
    """a / b rounded toward zero; arbitrary where b is 0."""
    x, y, signed = _divisible(a, b)
    made = x.body.value(f"{signed}div {x.kind.text} {x.name}, {y.name}", x.kind)
    most = max(abs(a.low), abs(a.high))
    return WholeNumber(made, known_integer(0 if a.known.positive and b.known.positive else -most, most))


def remainder(op: str, a: WholeNumber, b: WholeNumber) -> WholeNumber:
    """The remainder of the quotient rounded toward zero ("fmod") or down ("floor_mod"); arbitrary where b is 0."""
    x, y, signed = _divisible(a, b)
    made = x.body.value(f"{signed}rem {x.kind.text} {x.name}, {y.name}", x.kind)
    most = max(abs(b.low), abs(b.high)) - 1
    if op == "floor_mod" and signed == "s":
        other = (made ^ y).compared("slt", 0) & made.compared("ne", 0)
        made = x.body.chosen(other, made + y, made)
    low = -most if a.low < 0 or (op == "floor_mod" and b.low < 0) else 0
    return WholeNumber(made, known_integer(low, max(most, 0)))


def power(x: WholeNumber, y: WholeNumber, bits: int) -> WholeNumber:
    """x^y modulo 2^bits; for y < 0 the reciprocal rounded toward zero, and 0 for x = 0."""
    x, y = x.exactly(), y.exactly()
    body, base, exponent = x.value.body, x.resized(bits), y.value
    minus = body.chosen((exponent & 1).compared("ne", 0), base, 1)  # for x = -1 or 1, and y < 0
    none = base.compared("ne", 1) & base.compared("ne", -1) if x.low < 0 else base.compared("ne", 1)
    even = (base & 1).compared("eq", 0)
    made = base.lift(1)
    for _ in range(min(bits, y.bits)):
        made = body.chosen((exponent & 1).compared("ne", 0), made * base, made)
        base, exponent = base * base, exponent.shifted_right(1, signed=False)
    if y.bits > bits:  # after this many squarings, even numbers are 0 and odd ones 1
        made = body.chosen(exponent.compared("ne", 0) & even, 0, made)
    if y.low < 0:
        made = body.chosen(y.value.compared("slt", 0), body.chosen(none, 0, minus), made)
    return WholeNumber(made, known_integer(0, (1 << bits) - 1), modular=True)


def _divisible(a: WholeNumber, b: WholeNumber) -> tuple[Value, Value, str]:
    """The operands of a division, changed where it would trap: division by 0, and of the least number by -1."""
    x, y, signed = together(a, b)
    wrong = y.compared("eq", 0)
    if signed == "s" and a.low <= -(1 << x.kind.bits - 1):
        # the quotient of the least number by -1 is 2^(bits - 1), which wraps to the least number: division by 1 gives the same
        wrong = wrong | (y.compared("eq", -1) & x.compared("eq", -(1 << x.kind.bits - 1)))
    return x, x.body.chosen(wrong, 1, y), signed


def shifted(op: str, x: Value, y: Value) -> Value:
    """Bits shifted to the left ("shift_left") or right by y places; 0 if y is the width or more."""
    body, kind = x.body, x.kind
    beyond = y.compared("uge", kind.bits)
    by = body.chosen(beyond, 0, y)
    made = x << by if op == "shift_left" else x.shifted_right(by, signed=False)
    return body.chosen(beyond, 0, made)


def counted(x: Value) -> Value:
    """The number of ones in each element."""
    return x.body.intrinsic("ctpop", x)


def constant(value: int, like: Value) -> WholeNumber:
    """An integer constant in as few bits as hold it, with the lanes of a value."""
    known = known_integer(value, value)
    bits = width(known)
    if bits is None:
        raise Uncompilable("an integer constant takes more than 64 bits")
    shown = value - (1 << bits) if value >= 1 << bits - 1 else value
    return WholeNumber(like.body.constant(like.kind.of(f"i{bits}"), shown), known)
