"""Functions as instructions of a tape: arguments are reduced, and the remainder of a series widens the result's radius."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import count
from math import factorial, isqrt

from anydml.kernels.third.balls import FINITE, INFINITE, NAN, NEGATIVE_INFINITE, NEGATIVE_ZERO
from anydml.kernels.third.operations import TRUNCATE
from anydml.kernels.third.tape import IntegerRegister, Label, NumberRegister, Tape, record

FAR = 1 << 36  # below -FAR, of e^x only the logarithm is computed
# ln(1 + t) for t from 0 to 1, within 2^-15
ROUGH = (0.0, 0.99949556, -0.49190896, 0.28947478, -0.13606275, 0.03215845)
SIMPLE = 2  # the height of 0, 1, -1 and 2, the only rational values that functions have here

Function = Callable[[Tape, NumberRegister], NumberRegister]


def terms(bound: Callable[[int], Fraction], t: Tape) -> int:
    """The least number of terms of a series such that a bound of its remainder is below that of `series`."""
    return next(n for n in count(1) if bound(n) < Fraction(1, 1 << remainder(t)))


def remainder(t: Tape) -> int:
    """The remainder of a series is less than 2 to the negative of this."""
    return t.precision.bits + 30


def is_kind(t: Tape, x: NumberRegister, kind: int) -> IntegerRegister:
    return t.count("iequal", t.count("kind", x), t.fixed(kind))


def has_sign(t: Tape, x: NumberRegister, sign: int) -> IntegerRegister:
    """Whether the sign of a finite number is 1, -1, or 0 for an exact zero. A sign that is undecided is none of these."""
    return t.count("iequal", t.count("sign", x), t.fixed(sign))


def within(t: Tape, x: NumberRegister, bound: Fraction | int) -> None:
    """Leave the element undecided unless a finite number is smaller in magnitude than a bound."""
    passed = Label()
    t.unless(t.count("not", t.count("is_less", absolute(t, x), t.value(bound))), passed)
    t.do("fail")
    t.place(passed)


def absolute(t: Tape, x: NumberRegister) -> NumberRegister:
    return t.make("maximum", x, t.make("negate", x))


def cases(
    t: Tape,
    x: NumberRegister,
    ends: Mapping[int, float | int | Function],
    finite: Function,
    zero: float | Function,
    *,
    rational: bool = False,
) -> NumberRegister:
    """f(x) by cases: `ends` by kind of number, `zero` for exact zeros, `finite` for other finite numbers; f(NaN) is NaN.

    rational: whether f(x) may be rational for a rational x, beside simple values such as f(1) = 0.
    """
    out, done = t.number(), Label()

    def give(found: float | Function) -> None:
        t.assign(out, found(t, x) if callable(found) else t.value(found))
        t.jump(done)

    for kind, found in {NAN: float("nan"), **ends}.items():
        other = Label()
        t.unless(is_kind(t, x, kind), other)
        give(found)
        t.place(other)
    if NEGATIVE_ZERO not in ends:
        other = Label()
        t.unless(is_kind(t, x, NEGATIVE_ZERO), other)
        give(zero)
        t.place(other)
    known, some = Label(), Label()
    t.unless(t.count("not", is_kind(t, x, FINITE)), known)
    t.do("fail")
    t.place(known)
    t.unless(has_sign(t, x, 0), some)
    give(zero)
    t.place(some)
    t.assign(out, finite(t, x))
    if not rational:
        t.do("bound_height", out, t.fixed(SIMPLE))
    t.place(done)
    return out


def _same(_: Tape, x: NumberRegister) -> NumberRegister:
    return x


def polynomial(t: Tape, x: NumberRegister, coefficients: tuple[Fraction | float | int, ...]) -> NumberRegister:
    """A polynomial by Horner's rule, its constant coefficient first."""
    *others, last = (t.value(Fraction(c)) for c in coefficients)
    total = last
    for c in reversed(others):
        total = t.make("add", t.make("multiply", total, x), c)
    return total


# --- exponentials and logarithms ---


def _exp(t: Tape, x: NumberRegister) -> NumberRegister:
    """e^x of a finite number."""
    out, done, near = t.number(), Label(), Label()
    t.unless(t.count("is_less", x, t.value(-FAR)), near)
    t.assign(out, t.make("decay", x))
    t.jump(done)
    t.place(near)
    n = t.count("nearest_integer", t.make("multiply", x, t.named("inverse of log2")))
    rest = t.make("subtract", x, t.make("multiply", t.make("position", n), t.named("log2")))
    u = t.scaled(rest, -8)
    within(t, u, Fraction(1, 512))
    many = terms(lambda n: Fraction(1, 1 << 9 * n) / factorial(n), t)
    y = polynomial(t, u, tuple(Fraction(1, factorial(k)) for k in range(many)))
    y = t.make("widen", y, -remainder(t))
    for _ in range(8):
        y = t.make("multiply", y, y)
    t.assign(out, t.scaled(y, n))
    t.place(done)
    return out


def exp(t: Tape, x: NumberRegister) -> NumberRegister:
    return cases(t, x, {INFINITE: float("inf"), NEGATIVE_INFINITE: 0}, _exp, 1)


def _log(t: Tape, x: NumberRegister) -> NumberRegister:
    """The logarithm of a finite number that is not 0."""
    out, done, positive, other = t.number(), Label(), Label(), Label()
    t.unless(has_sign(t, x, -1), positive)
    t.assign(out, t.value(float("nan")))
    t.jump(done)
    t.place(positive)
    t.unless(has_sign(t, t.make("subtract", x, t.value(1)), 0), other)
    t.assign(out, t.value(0))
    t.jump(done)
    t.place(other)
    n = t.count("exponent", x)
    part = t.scaled(t.make("middle", x), t.count("isub", t.fixed(0), n))
    rough = polynomial(t, t.make("subtract", part, t.value(1)), ROUGH)
    near = t.make("add", t.make("multiply", t.make("position", n), t.named("log2")), rough)
    near = t.make("middle", near)
    z = t.make("multiply", x, _exp(t, t.make("negate", near)))
    w = t.make("divide", t.make("subtract", z, t.value(1)), t.make("add", z, t.value(1)))
    within(t, w, Fraction(1, 1 << 12))
    square = t.make("multiply", w, w)
    many = terms(lambda n: Fraction(1, 1 << 12 * (2 * n + 1)), t)
    series = polynomial(t, square, tuple(Fraction(2, 2 * k + 1) for k in range(many)))
    t.assign(out, t.make("add", near, t.make("widen", t.make("multiply", series, w), -remainder(t))))
    t.place(done)
    return out


def log(t: Tape, x: NumberRegister) -> NumberRegister:
    return cases(t, x, {INFINITE: float("inf"), NEGATIVE_INFINITE: float("nan")}, _log, float("-inf"))


def _odd(function: Function, ends: Mapping[int, float | int | Function]) -> Function:
    """A function f with f(0) = 0 and f(-0) = -0."""
    return lambda t, x: cases(t, x, ends, function, _same)


def _of_exponentials(name: str) -> Function:
    def found(t: Tape, x: NumberRegister) -> NumberRegister:
        y = _exp(t, x)
        return t.scaled(t.make(name, y, t.make("divide", t.value(1), y)), -1)

    return found


def _tanh(t: Tape, x: NumberRegister) -> NumberRegister:
    one, y = t.value(1), _exp(t, t.make("negate", t.scaled(absolute(t, x), 1)))
    return with_sign(t, t.make("divide", t.make("subtract", one, y), t.make("add", one, y)), x)


def with_sign(t: Tape, magnitude: NumberRegister, x: NumberRegister) -> NumberRegister:
    """A magnitude with the sign of a finite number. If this sign is undecided, so is the element."""
    out, above, done = t.number(), Label(), Label()
    t.unless(t.count("is_less", x, t.value(0)), above)
    t.assign(out, t.make("negate", magnitude))
    t.jump(done)
    t.place(above)
    t.assign(out, magnitude)
    t.place(done)
    return out


def _asinh(t: Tape, x: NumberRegister) -> NumberRegister:
    size = absolute(t, x)
    root = t.make("root", t.make("add", t.make("multiply", x, x), t.value(1)))
    return with_sign(t, log(t, t.make("add", size, root)), x)


def acosh(t: Tape, x: NumberRegister) -> NumberRegister:
    return log(t, t.make("add", x, t.make("root", t.make("subtract", t.make("multiply", x, x), t.value(1)))))


def _atanh(t: Tape, x: NumberRegister) -> NumberRegister:
    one = t.value(1)
    return t.scaled(log(t, t.make("divide", t.make("add", one, x), t.make("subtract", one, x))), -1)


# --- circular functions ---


def _sine_and_cosine(t: Tape, x: NumberRegister) -> tuple[NumberRegister, NumberRegister, IntegerRegister]:
    """An angle minus the nearest multiple of pi / 2: the sine and cosine of the rest, and the multiple modulo 4."""
    n = t.count("nearest_integer", t.make("multiply", x, t.named("inverse of half pi")))
    u = t.make("subtract", x, t.make("multiply", t.make("position", n), t.named("half pi")))
    within(t, u, Fraction(4, 5))
    square = t.make("multiply", u, u)
    many = terms(lambda n: Fraction(4, 5) ** (2 * n) / factorial(2 * n), t)
    sines = tuple(Fraction((-1) ** k, factorial(2 * k + 1)) for k in range(many))
    cosines = tuple(Fraction((-1) ** k, factorial(2 * k)) for k in range(many))
    sine = t.make("widen", t.make("multiply", polynomial(t, square, sines), u), -remainder(t))
    return sine, t.make("widen", polynomial(t, square, cosines), -remainder(t)), t.count("imod", n, t.fixed(4))


def _quarter(t: Tape, sine: NumberRegister, cosine: NumberRegister, n: IntegerRegister) -> NumberRegister:
    """The sine of an angle from the results of `_sine_and_cosine`."""
    out, done = t.number(), Label()
    for k in range(4):
        other = Label()
        t.unless(t.count("iequal", n, t.fixed(k)), other)
        chosen = cosine if k & 1 else sine
        t.assign(out, t.make("negate", chosen) if k & 2 else chosen)
        t.jump(done)
        t.place(other)
    t.place(done)
    return out


def _sin(t: Tape, x: NumberRegister) -> NumberRegister:
    return _quarter(t, *_sine_and_cosine(t, x))


def _cos(t: Tape, x: NumberRegister) -> NumberRegister:
    sine, cosine, n = _sine_and_cosine(t, x)
    return _quarter(t, sine, cosine, t.count("imod", t.count("iadd", n, t.fixed(1)), t.fixed(4)))


def _tan(t: Tape, x: NumberRegister) -> NumberRegister:
    sine, cosine, n = _sine_and_cosine(t, x)
    next_ = t.count("imod", t.count("iadd", n, t.fixed(1)), t.fixed(4))
    return t.make("divide", _quarter(t, sine, cosine, n), _quarter(t, sine, cosine, next_))


def _atan(t: Tape, x: NumberRegister) -> NumberRegister:
    out, small, done = t.number(), Label(), Label()
    one = t.value(1)
    t.unless(t.count("is_less", one, t.make("middle", absolute(t, x))), small)  # either formula holds on both sides of 1
    rest = _atan_small(t, t.make("divide", one, x))
    t.assign(out, t.make("subtract", with_sign(t, t.named("half pi"), x), rest))
    t.jump(done)
    t.place(small)
    t.assign(out, _atan_small(t, x))
    t.place(done)
    return out


def _atan_small(t: Tape, x: NumberRegister) -> NumberRegister:
    """atan of a number up to about 1: the angle is halved four times, and what the series gives is multiplied by 16."""
    one, y = t.value(1), x
    for _ in range(4):
        root = t.make("root", t.make("add", one, t.make("multiply", y, y)))
        y = t.make("divide", y, t.make("add", one, root))
    within(t, y, Fraction(1, 16))
    square = t.make("multiply", y, y)
    many = terms(lambda n: Fraction(1, 1 << 4 * (2 * n + 1)), t)
    series = polynomial(t, square, tuple(Fraction((-1) ** k, 2 * k + 1) for k in range(many)))
    return t.scaled(t.make("widen", t.make("multiply", series, y), -remainder(t)), 4)


def _right_angle(sign: int) -> Function:
    def found(t: Tape, _: NumberRegister) -> NumberRegister:
        angle = t.named("half pi")
        return angle if sign > 0 else t.make("negate", angle)

    return found


atan = _odd(_atan, {INFINITE: _right_angle(1), NEGATIVE_INFINITE: _right_angle(-1)})


def _asin(t: Tape, x: NumberRegister) -> NumberRegister:
    root = t.make("root", t.make("subtract", t.value(1), t.make("multiply", x, x)))
    return atan(t, t.make("divide", x, root))


def acos(t: Tape, x: NumberRegister) -> NumberRegister:
    one = t.value(1)
    ratio = t.make("divide", t.make("subtract", one, x), t.make("add", one, x))
    return t.scaled(atan(t, t.make("root", ratio)), 1)


# --- error functions ---


def _erf(t: Tape, x: NumberRegister) -> NumberRegister:
    """2 / sqrt(pi) x e^(-x^2) (1 + 2 x^2 / 3 + (2 x^2)^2 / 15 + ...), whose terms are all positive."""
    out, near, done, again = t.number(), Label(), Label(), Label()
    one, bits = t.value(1), t.precision.bits
    t.unless(t.count("is_less", t.value(_where_below(2 * bits)), absolute(t, x)), near)
    t.assign(out, with_sign(t, t.make("subtract", one, t.beside_zero(-2 * bits)), x))
    t.jump(done)
    t.place(near)
    square = t.make("multiply", x, x)
    twice, n = t.scaled(square, 1), t.fixed(1)
    term, total = t.value(1), t.value(1)
    least = t.make("middle", t.scaled(square, 2))
    t.place(again)
    t.do("iadd", n, n, t.fixed(2))
    divisor = t.make("position", n)
    t.do("multiply", term, term, twice)
    t.do("divide", term, term, divisor)
    t.do("add", total, total, term)
    # once terms are less than half of the ones before them, all further terms add up to less than the last one
    late = t.count("is_less", least, divisor)
    small = t.count("is_less", term, t.value(Fraction(1, 1 << bits + 70)))
    t.unless(t.count("both", late, small), again)
    total = t.make("widen", total, -bits - 68)
    found = t.make("multiply", t.make("multiply", x, t.named("erf")), _exp(t, t.make("negate", square)))
    t.assign(out, t.make("multiply", found, total))
    t.place(done)
    return out


def _where_below(bits: int) -> int:
    """An integer x for which e^(-x^2), of which erfc(x) is less, is below 2^-bits."""
    return isqrt(bits * 7 // 10) + 1  # ln 2 < 0.7


def _erfc(t: Tape, x: NumberRegister) -> NumberRegister:
    """1 - erf(x); far away e^(-x^2) / (x sqrt(pi)) (1 - 1 / (2 x^2) + 1 * 3 / (2 x^2)^2 - ...).

    This series does not converge, but what its first terms omit is less than the next one.
    """
    out, near, done, again = t.number(), Label(), Label(), Label()
    t.unless(t.count("is_less", t.value(_where_below(t.precision.bits - 10)), x), near)
    square = t.make("multiply", x, x)
    twice, n = t.scaled(square, 1), t.fixed(-1)
    term, total, last = t.value(1), t.value(0), t.make("middle", twice)
    t.place(again)
    t.do("add", total, total, term)
    t.do("iadd", n, n, t.fixed(2))
    factor = t.make("position", n)
    t.do("multiply", term, term, factor)
    t.do("divide", term, term, twice)
    t.do("negate", term, term)
    growing = t.count("is_less", last, factor)
    small = t.count("is_less", absolute(t, t.make("middle", term)), t.value(Fraction(1, 1 << remainder(t))))
    t.unless(t.count("either", growing, small), again)
    around_zero = t.constant(record(0, 1, precision=t.precision))
    total = t.make("add", total, t.make("multiply", term, around_zero))
    scale = t.scaled(t.make("divide", t.named("erf"), x), -1)
    t.assign(out, t.make("multiply", t.make("multiply", scale, total), _exp(t, t.make("negate", square))))
    t.jump(done)
    t.place(near)
    t.assign(out, t.make("subtract", t.value(1), _erf(t, x)))
    t.place(done)
    return out


def _shifted(function: Function, before: int, after: int) -> Function:
    """The function x -> function(x + before) + after."""

    def found(t: Tape, x: NumberRegister) -> NumberRegister:
        made = function(t, t.make("add", x, t.value(before)) if before else x)
        return t.make("add", made, t.value(after)) if after else made

    return found


_NAN, _INF = float("nan"), float("inf")
UNARY: dict[str, Function] = {
    "exp": exp,
    "log": log,
    "expm1": _odd(_shifted(_exp, 0, -1), {INFINITE: _INF, NEGATIVE_INFINITE: -1}),
    "log1p": _odd(_shifted(log, 1, 0), {INFINITE: _INF, NEGATIVE_INFINITE: _NAN}),
    "sin": _odd(_sin, {INFINITE: _NAN, NEGATIVE_INFINITE: _NAN}),
    "cos": lambda t, x: cases(t, x, {INFINITE: _NAN, NEGATIVE_INFINITE: _NAN}, _cos, 1),
    "tan": _odd(_tan, {INFINITE: _NAN, NEGATIVE_INFINITE: _NAN}),
    "asin": _odd(_asin, {INFINITE: _NAN, NEGATIVE_INFINITE: _NAN}),
    "acos": acos,
    "atan": atan,
    "sinh": _odd(_of_exponentials("subtract"), {INFINITE: _INF, NEGATIVE_INFINITE: -_INF}),
    "cosh": lambda t, x: cases(t, x, {INFINITE: _INF, NEGATIVE_INFINITE: _INF}, _of_exponentials("add"), 1),
    "tanh": _odd(_tanh, {INFINITE: 1, NEGATIVE_INFINITE: -1}),
    "asinh": _odd(_asinh, {INFINITE: _INF, NEGATIVE_INFINITE: -_INF}),
    "acosh": acosh,
    "atanh": _odd(_atanh, {INFINITE: _NAN, NEGATIVE_INFINITE: _NAN}),
    "erf": _odd(_erf, {INFINITE: 1, NEGATIVE_INFINITE: -1}),
    "erfc": lambda t, x: cases(t, x, {INFINITE: 0, NEGATIVE_INFINITE: 2}, _erfc, 1),
    "sqrt": lambda t, x: t.make("root", x),
    "absolute": absolute,
    "neg": lambda t, x: t.make("negate", x),
}

# --- powers ---


def whole_power(t: Tape, x: NumberRegister, n: int) -> NumberRegister:
    """x^n as a product; 1 / x^-n for negative n."""
    if n < 0:
        return t.make("divide", t.value(1), whole_power(t, x, -n))
    if n == 0:
        return t.value(1)
    half = whole_power(t, x, n // 2) if n > 1 else None
    square = None if half is None else t.make("multiply", half, half)
    return x if square is None else t.make("multiply", square, x) if n & 1 else square


def rational_power(t: Tape, x: NumberRegister, y: Fraction) -> NumberRegister:
    """x^y for a constant y whose denominator is a power of two: by products, and square roots that are exact if possible."""
    if y.denominator == 1:
        return whole_power(t, x, int(y))

    def finite(t: Tape, x: NumberRegister) -> NumberRegister:
        root = x
        for _ in range(y.denominator.bit_length() - 1):
            root = t.make("root", root)
        return whole_power(t, root, y.numerator)

    large = float("inf") if y > 0 else 0
    at_zero = 0 if y > 0 else float("inf")
    return cases(t, x, {INFINITE: large, NEGATIVE_INFINITE: large}, finite, at_zero, rational=True)


def power(t: Tape, x: NumberRegister, y: NumberRegister) -> NumberRegister:
    """x^y for positive x and finite y."""
    out, done = t.number(), Label()
    one = t.value(1)
    _finite(t, x, y)
    for is_one in (has_sign(t, y, 0), has_sign(t, t.make("subtract", x, one), 0)):
        other = Label()
        t.unless(is_one, other)
        t.assign(out, one)
        t.jump(done)
        t.place(other)
    positive = Label()
    t.unless(t.count("not", has_sign(t, x, 1)), positive)
    t.do("fail")
    t.place(positive)
    t.assign(out, _exp(t, t.make("multiply", y, _log(t, x))))
    # a rational x^y has at most |y| times as many digits as x
    size = t.count("nearest_integer", t.make("minimum", absolute(t, y), t.value(1 << 20)))
    t.do("bound_height", out, t.count("imul", t.count("height", x), t.count("iadd", size, t.fixed(1))))
    t.place(done)
    return out


def _finite(t: Tape, *numbers: NumberRegister) -> None:
    """Leave the element undecided unless all numbers are finite and not -0."""
    for x in numbers:
        known = Label()
        t.unless(t.count("not", is_kind(t, x, FINITE)), known)
        t.do("fail")
        t.place(known)


def _not_zero(t: Tape, x: NumberRegister) -> None:
    some = Label()
    t.unless(has_sign(t, x, 0), some)
    t.do("fail")
    t.place(some)


def atan2(t: Tape, y: NumberRegister, x: NumberRegister) -> NumberRegister:
    """The angle of (x, y). If one of them is zero or infinite, the element stays undecided."""
    out, right, done = t.number(), Label(), Label()
    for number in (y, x):
        _finite(t, number)
        _not_zero(t, number)
    angle = _atan(t, t.make("divide", y, x))
    t.unless(t.count("is_less", x, t.value(0)), right)
    t.assign(out, t.make("add", angle, with_sign(t, t.named("pi"), y)))
    t.jump(done)
    t.place(right)
    t.assign(out, angle)
    t.place(done)
    return out


def fmod(t: Tape, x: NumberRegister, y: NumberRegister) -> NumberRegister:
    """C's fmod. If the remainder is zero, the element stays undecided."""
    _finite(t, x, y)
    _not_zero(t, y)
    whole = t.make("to_whole", t.make("divide", x, y), TRUNCATE)
    rest = t.make("difference", x, t.make("multiply", y, whole))
    _finite(t, rest)
    _not_zero(t, rest)
    return rest


def floor_mod(t: Tape, x: NumberRegister, y: NumberRegister) -> NumberRegister:
    """Python's %. If the remainder is zero, the element stays undecided."""
    rest, out, same, done = fmod(t, x, y), t.number(), Label(), Label()
    t.unless(t.count("is_less", t.make("multiply", rest, y), t.value(0)), same)
    t.assign(out, t.make("sum", rest, y))
    t.jump(done)
    t.place(same)
    t.assign(out, rest)
    t.place(done)
    return out


BINARY: dict[str, Callable[[Tape, NumberRegister, NumberRegister], NumberRegister]] = {
    "pow": power, "atan2": atan2, "fmod": fmod, "floor_mod": floor_mod,
}  # fmt: skip
