"""The third compiled stage: its numbers contain the exact ones, and it decides only elements that they determine."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm, targets
from anydml.kernels.evaluate.evaluator import Evaluators
from anydml.kernels.third import balls, functions, interpreter, operations
from anydml.kernels.third.balls import FIRST, LAST, Precision
from anydml.kernels.third.elements import TapedElements
from anydml.kernels.third.tape import NumberRegister, Tape, record
from anydml.kernels.third.translation import Untranslatable, translated
from anydml.schema import expression
from anydml.schema.expression import Sum, Tensor, each, over
from anydml.schema.statement import nest
from anydml.tensor import DataType
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
ISAS = [t.name for t in targets.targets()] or ["generic"]
PRECISION = 700
EACH = pytest.mark.parametrize(  # long integers take long to compile
    ("precision", "isa"),
    [*((FIRST, isa) for isa in ISAS), (LAST, ISAS[-1])],
    ids=lambda case: f"{case.bits} bits" if isinstance(case, Precision) else case,
)


class Ball(NamedTuple):
    """The contents of a register: the interval of a finite number, or its kind."""

    kind: int
    middle: Fraction
    radius: Fraction

    def holds(self, x: Fraction) -> bool:
        return self.kind == balls.FINITE and abs(x - self.middle) <= self.radius


def run(tape: Tape, isa: str | None = None) -> tuple[list[Ball], list[int], bool]:
    """The registers of numbers and of integers after a tape without indices, and whether it ran to its end."""
    target = targets.wanted(isa)
    assert isinstance(target, targets.Target)
    tape.do("end", 0, tape.fixed(0))
    code, constants = tape.code(), tape.constants()
    numbers, integers = np.zeros(tape.numbers * tape.precision.size + 64, np.uint8), np.zeros(tape.integers + 1, np.int64)
    places, results, decided = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    memory = (code, constants, numbers, integers, places)
    outputs = address_of(results), address_of(decided)
    arguments = np.array([[*(address_of(m) for m in memory), tape.dims, 1, *outputs, 1 << 20]], np.int64)
    made = engine.compiled(interpreter.emitted, target, tape.precision)
    prepared([table(made, arguments)], target, (memory, arguments))()
    found = []
    for k in range(tape.numbers):
        raw = numbers[k * tape.precision.size : (k + 1) * tape.precision.size].tobytes()
        kind, exponent, radius = struct.unpack("<qqq", raw[:24])
        unit = Fraction(2) ** max(min(exponent, 4000), -4000)
        found.append(Ball(kind, int.from_bytes(raw[balls.MIDPOINT :], "little", signed=True) * unit, radius * unit))
    return found, integers.tolist(), bool(decided[0])


def drawn(rng: np.random.Generator, precision: Precision) -> tuple[bytes, Fraction, Fraction]:
    """A finite number as a record, and the ends of its interval."""
    bits = int(rng.choice([1, 2, 24, 53, 100, precision.bits - 1, precision.bits]))
    middle = int.from_bytes(rng.bytes(precision.stored // 8), "little") >> (precision.stored - bits)
    middle = (middle | 1 << bits - 1) * int(rng.choice([-1, 1]))
    if rng.random() < 0.2:
        middle = int(rng.choice([-1, 1])) << bits - 1
    radius = 0 if rng.random() < 0.5 else int(rng.integers(1, 1 << int(rng.integers(1, 60))))
    exponent = int(rng.choice([0, -1, 1, -149, -bits, 100, int(rng.integers(-500, 500))]))
    unit = Fraction(2) ** exponent
    return record(middle, radius, exponent, precision=precision), (middle - radius) * unit, (middle + radius) * unit


BINARY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
}


@EACH
@pytest.mark.parametrize("name", BINARY)
def test_results_of_two_numbers_contain_the_exact_ones(name: str, isa: str, precision: Precision, ran: Ran) -> None:
    """At all ends of the operands' intervals; results of exact numbers that fit are exact; bounds are close."""
    rng, count = np.random.default_rng(len(name)), 0
    for _ in range(60 * SOAK):
        (a, *ends_a), (b, *ends_b) = drawn(rng, precision), drawn(rng, precision)
        tape = Tape(0, precision)
        made = tape.make(name, tape.constant(a), tape.constant(b))
        found = run(tape, isa)[0][made]
        if name == "divide" and ends_b[0] <= 0 <= ends_b[1]:
            assert found.kind == balls.UNKNOWN
            continue
        if found.kind == balls.UNKNOWN and name.startswith("m"):  # an order, by a difference of which few bits are left
            differences = [x - y for x in ends_a for y in ends_b]
            assert precision.settles
            assert max(differences) - min(differences) >= max(map(abs, differences)) / (1 << balls.SURE + 2)
            continue
        if found.kind == balls.UNKNOWN:  # the divisor's interval is close to 0
            assert name == "divide"
            assert (ends_b[1] - ends_b[0]) * 2 >= abs(ends_b[0] + ends_b[1]) / 2
            continue
        exact = [BINARY[name](x, y) for x in ends_a for y in ends_b]
        assert all(map(found.holds, exact)) or found.kind == balls.NEGATIVE_ZERO
        width = max(exact) - min(exact)
        if name != "maximum" and name != "minimum":
            loose = 16 if name == "divide" else 2
            assert found.radius <= loose * width + max(map(abs, exact)) * Fraction(1, 1 << 185)
        if width == 0 and name in ("add", "subtract", "multiply"):
            fits = exact[0].numerator.bit_length() <= precision.bits
            apart = 1 << 240
            near = name == "multiply" or not all((ends_a[0], ends_b[0])) or 1 < apart * abs(ends_a[0] / ends_b[0]) < apart**2
            if fits and near:
                assert found.radius == 0
        count += 1
    ran(count, 20)


@EACH
def test_roots_contain_the_exact_ones(isa: str, precision: Precision, ran: Ran) -> None:
    rng, count = np.random.default_rng(4), 0
    for k in range(60 * SOAK):
        a, low, high = drawn(rng, precision)
        if k % 4 == 0:  # a square
            whole = int.from_bytes(rng.bytes(15), "little")
            low = high = Fraction(whole * whole, 4 ** (k % 7))
            a = record(whole * whole, 0, -2 * (k % 7), precision=precision)
        tape = Tape(0, precision)
        made = tape.make("root", tape.constant(a))
        found = run(tape, isa)[0][made]
        if low <= 0:
            assert found.kind == (
                balls.NAN if high < 0 else balls.UNKNOWN if low < high else balls.FINITE if not high else balls.NAN
            )
            continue
        assert found.middle >= 0
        assert (found.middle - found.radius) ** 2 <= low or found.middle <= found.radius
        assert (found.middle + found.radius) ** 2 >= high
        if k % 4 == 0:
            assert found.radius == 0
        count += 1
    ran(count, 20)


WHOLE: dict[int, Callable[[Fraction], int]] = {
    operations.FLOOR: math.floor,
    operations.CEIL: math.ceil,
    operations.TRUNCATE: math.trunc,
    operations.HALF_TO_EVEN: round,
    operations.HALF_AWAY: lambda x: math.floor(abs(x) + Fraction(1, 2)) * (-1 if x < 0 else 1),
}


@pytest.mark.parametrize("how", WHOLE)
def test_integers_near_numbers(how: int, ran: Ran) -> None:
    """Known if all numbers of the interval have the same integer, with its sign if it is zero."""
    rng, count = np.random.default_rng(how), 0
    for _ in range(200 * SOAK):
        eighths = int(rng.integers(-40, 40))
        radius = int(rng.choice([0, 1, 1 << 20]))
        tape = Tape(0)
        made = tape.make("to_whole", tape.constant(record(eighths << 100, radius, -103)), how)
        found = run(tape)[0][made]
        ends = [Fraction((eighths << 100) + s * radius, 1 << 103) for s in (-1, 1)]
        low, high = (WHOLE[how](x) for x in ends)
        if low != high or (low == 0 and ends[0] < 0 < ends[1]):
            assert found.kind == balls.UNKNOWN
        elif low == 0 and ends[0] < 0:
            assert found.kind == balls.NEGATIVE_ZERO
        else:
            assert found == Ball(balls.FINITE, Fraction(low), Fraction(0))
        count += 1
    ran(count, 100)


@pytest.mark.parametrize("how", WHOLE)
def test_integers_are_rounded_to_themselves(how: int) -> None:
    tape = Tape(0)
    made = [tape.make("to_whole", tape.constant(record(n, 0, 0)), how) for n in (12345, -3, 1)]
    found = run(tape)[0]
    assert [found[k] for k in made] == [Ball(balls.FINITE, Fraction(n), Fraction(0)) for n in (12345, -3, 1)]


SPECIAL = [
    (0.0, record()), (-0.0, record(kind=balls.NEGATIVE_ZERO)), (1.5, record(3, 0, -1)), (-2.0, record(-1, 0, 1)),
    (math.inf, record(kind=balls.INFINITE)), (-math.inf, record(kind=balls.NEGATIVE_INFINITE)),
    (math.nan, record(kind=balls.NAN)),
]  # fmt: skip


def _as_float(found: Ball) -> float:
    named = {balls.NEGATIVE_ZERO: -0.0, balls.INFINITE: math.inf, balls.NEGATIVE_INFINITE: -math.inf, balls.NAN: math.nan}
    return named[found.kind] if found.kind != balls.FINITE else float(found.middle)


@pytest.mark.parametrize("name", BINARY)
def test_zeros_infinities_and_nan_are_ieee_754s(name: str) -> None:
    of_numpy = {"maximum": np.maximum, "minimum": np.minimum}
    with np.errstate(all="ignore"):
        for x, a in SPECIAL:
            for y, b in SPECIAL:
                tape = Tape(0)
                made = tape.make(name, tape.constant(a), tape.constant(b))
                wanted = float(of_numpy.get(name, getattr(np, name))(np.float64(x), np.float64(y)))
                if name in of_numpy and x == y == 0:
                    negative = [math.copysign(1, z) < 0 for z in (x, y)]
                    wanted = -0.0 if (all(negative) if name == "maximum" else any(negative)) else 0.0
                assert repr(_as_float(run(tape)[0][made])) == repr(wanted), (name, x, y)


def test_orders_are_ieee_754s() -> None:
    for name, of in (("is_less", np.less), ("is_less_equal", np.less_equal), ("is_equal", np.equal)):
        for x, a in SPECIAL:
            for y, b in SPECIAL:
                tape = Tape(0)
                made = tape.count(name, tape.constant(a), tape.constant(b))
                assert run(tape)[1][made] == int(of(x, y)), (name, x, y)
    tape = Tape(0)
    made = tape.count("is_less", tape.constant(record(8, 3)), tape.constant(record(10, 0)))
    assert run(tape)[1][made] == operations.UNDECIDED


UNARY: dict[str, Any] = {
    "exp": gmpy2.exp, "log": gmpy2.log, "expm1": gmpy2.expm1, "log1p": gmpy2.log1p, "sin": gmpy2.sin, "cos": gmpy2.cos,
    "tan": gmpy2.tan, "asin": gmpy2.asin, "acos": gmpy2.acos, "atan": gmpy2.atan, "sinh": gmpy2.sinh, "cosh": gmpy2.cosh,
    "tanh": gmpy2.tanh, "asinh": gmpy2.asinh, "acosh": gmpy2.acosh, "atanh": gmpy2.atanh, "erf": gmpy2.erf, "erfc": gmpy2.erfc,
    "sqrt": gmpy2.sqrt, "absolute": abs, "neg": lambda x: -x,
}  # fmt: skip
WORST = {"erfc": 60.0}  # the least number of bits that are exact, of 250: erfc(9) is 2^-120, and a difference from 1


def test_every_function_is_tested() -> None:
    assert UNARY.keys() == functions.UNARY.keys()


@pytest.mark.parametrize("name", UNARY)
def test_functions_contain_the_exact_values(name: str, ran: Ran) -> None:
    """Numbers of all magnitudes, and close to the zeros and ends of functions; widths are bounded."""
    rng, count = np.random.default_rng(len(name)), 0
    arguments = [*rng.normal(size=12 * SOAK), *np.exp(rng.normal(size=8 * SOAK) * 12), 1e-40, -1e-30, 1.0, -1.0, 0.5, 2.0,
                 1 + 2.0**-23, 1 - 2.0**-24, math.pi, 88.0, -103.9, 700.0, 3.0, 9.0, -6.0]  # fmt: skip
    for x in arguments:
        x = float(np.float32(x))
        if name in ("erf", "erfc") and x > 9.5:
            continue
        with gmpy2.context(precision=PRECISION, emax=1 << 40, emin=-(1 << 40)):
            wanted = UNARY[name](mpfr(x))
        tape = Tape(0)
        made = functions.UNARY[name](tape, tape.value(Fraction(x)))
        numbers, _, decided = run(tape)
        found = numbers[made]
        if gmpy2.is_nan(wanted) or gmpy2.is_infinite(wanted):
            if decided and abs(x) < 3000:  # above, mpfr overflows
                end = balls.INFINITE if wanted > 0 else balls.NEGATIVE_INFINITE
                assert found.kind == (balls.NAN if gmpy2.is_nan(wanted) else end)
            continue
        if not decided:  # e^x beyond every format
            assert abs(x) > 1e9
            assert name in ("exp", "expm1", "sinh", "cosh", "sin", "cos", "tan")
            continue
        if found.kind == balls.NEGATIVE_ZERO or abs(x) > 3000:
            continue
        exact = Fraction(*map(int, wanted.as_integer_ratio()))
        slack = abs(exact) * Fraction(1, 1 << PRECISION - 20)  # of the exact value, which is rounded itself
        assert abs(exact - found.middle) <= found.radius + slack, x
        if exact:
            kept = -math.log2(found.radius / abs(exact)) if found.radius else 250
            # a small result of a difference of numbers close to 1
            assert kept >= min(WORST.get(name, 190.0), 230 + min(0.0, math.log2(abs(exact)))) - 10, (x, kept)
        count += 1
    ran(count, 4)


OF_TWO: dict[str, Any] = {
    "pow": lambda x, y: x**y,
    "atan2": gmpy2.atan2,
    "fmod": gmpy2.fmod,
    "floor_mod": lambda x, y: gmpy2.fmod(x, y) + (y if gmpy2.fmod(x, y) * y < 0 else 0),
}


@pytest.mark.parametrize("name", functions.BINARY)
def test_functions_of_two_numbers_contain_the_exact_values(name: str, ran: Ran) -> None:
    rng, count = np.random.default_rng(len(name)), 0
    for scale in (1.0, 1.0, 30.0):
        for pair in rng.normal(size=(40 * SOAK, 2)) * scale:
            x, y = (float(np.float32(v)) for v in pair)
            tape = Tape(0)
            made = functions.BINARY[name](tape, tape.value(Fraction(x)), tape.value(Fraction(y)))
            numbers, _, decided = run(tape)
            assert decided == (name != "pow" or x > 0)
            if not decided:
                continue
            with gmpy2.context(precision=PRECISION):
                wanted = Fraction(*map(int, mpfr(OF_TWO[name](mpfr(x), mpfr(y))).as_integer_ratio()))
            found = numbers[made]
            assert abs(found.middle - wanted) <= found.radius + abs(wanted) * Fraction(1, 1 << 600), (x, y)
            assert found.radius <= abs(wanted) * Fraction(1, 1 << 190)
            count += 1
    ran(count, 40)


def test_rational_powers_are_exact_where_they_can_be(ran: Ran) -> None:
    count = 0
    for base, exponent in [(16, "3/4"), (81, "1/4"), (9, "5/2"), (2, "7"), (4, "-1/2"), (-3, "3"), (10, "1/16")]:
        tape = Tape(0)
        made = functions.rational_power(tape, tape.value(base), Fraction(exponent))
        found = run(tape)[0][made]
        with gmpy2.context(precision=PRECISION):
            wanted = Fraction(*map(int, (mpfr(base) ** mpfr(Fraction(exponent))).as_integer_ratio()))
        assert abs(found.middle - wanted) <= found.radius + abs(wanted) * Fraction(1, 1 << 600)
        assert (found.radius == 0) == (base != 10)
        count += 1
    ran(count, 7)


@pytest.mark.parametrize("isa", ISAS)
def test_numbers_beside_a_boundary_are_decided_and_numbers_on_one_are_not(isa: str) -> None:
    """A tie of FLOAT32 at 1 + 2^-24: exact, at a distance of more than its radius, and around it."""
    tie = (1 << 200) + (1 << 176)
    for middle, radius, wanted in [
        (tie, 0, 0x3F800000), (tie + 9, 8, 0x3F800001), (tie - 9, 8, 0x3F800000), (tie, 1, None), (tie + 5, 5, None),
        (3 * (1 << 200) >> 1, 1 << 55, 0x3FC00000),
    ]:  # fmt: skip
        tape = Tape(0)
        bits = tape.count("encode_FLOAT32", tape.constant(record(middle, radius, -200)))
        _, integers, decided = run(tape, isa)
        assert decided == (wanted is not None)
        if wanted is not None:
            assert integers[bits] == wanted


@pytest.mark.parametrize("isa", ISAS)
def test_numbers_beside_zero_keep_their_signs(isa: str) -> None:
    """Between 0 and an end, and not 0: what decays far away, products with it, quotients, and exponents out of range."""
    tape = Tape(0)
    tiny = functions.exp(tape, tape.value(-(1 << 60)))
    third, minus = (tape.make("divide", tape.value(n), tape.value(3)) for n in (1, -1))
    least = tape.constant(record(3, 0, -balls.FARTHEST))
    below = tape.make("multiply", tape.make("multiply", tiny, minus), third)
    signed = {
        tiny: 1, below: -1, tape.make("divide", below, minus): 1, tape.scaled(below, -7): -1, tape.make("negate", below): 1,
        tape.make("multiply", least, tape.make("negate", least)): -1,
        tape.make("multiply", tiny, tiny): 1, tape.make("add", below, tape.value(0)): -1, tape.make("maximum", tiny, below): 1,
        functions.UNARY["erfc"](tape, tape.value(1 << 30)): 1, tape.make("subtract", tape.value(1), tiny): 1,
    }  # fmt: skip
    open_ = [  # two zeros, and two that may be zeros
        tape.make("subtract", third, third), tape.make("add", minus, third), tape.make("add", tiny, below),
        tape.make("add", tape.make("multiply", tape.beside_zero(1), third), tape.scaled(minus, 1)),
    ]  # fmt: skip
    signs = {tape.count("sign", x): sign for x, sign in signed.items()} | {tape.count("sign", x): 2 for x in open_}
    bits = [tape.count("encode_FLOAT32", x) for x in (tiny, below)]
    _, integers, decided = run(tape, isa)
    assert {at: integers[at] for at in signs} == signs
    assert decided
    assert [integers[at] for at in bits] == [0, 1 << 31]


@pytest.mark.parametrize("data_type", [DataType.FLOAT32, DataType.FLOAT16])
def test_elements_are_read_and_rounded(data_type: DataType, ran: Ran) -> None:
    """All patterns of FLOAT16 and many of FLOAT32 are unchanged; the middles of neighbours round to even."""
    bits = np.uint16 if data_type == DataType.FLOAT16 else np.uint32
    rng = np.random.default_rng(3)
    patterns = np.arange(1 << 16, dtype=bits)[:: 1 if SOAK > 1 else 37]
    if bits is np.uint32:
        ends = np.array([0, 1, 1 << 31, 0x7F800000], bits)
        patterns = np.concatenate([rng.integers(0, 1 << 32, 3000, np.uint64).astype(bits), ends])
    x = patterns.view(data_type.dtype)
    t = Tensor("X", (len(x),), data_type)
    (i,) = each((len(x),))
    for body, wanted in ((t[[i]] * 1, x), (t[[i]] * Fraction(3, 2), None)):
        made = TapedElements(translated(nest((i,), body), data_type))
        found, decided = made.at({"X": x}, np.arange(len(x)).reshape(-1, 1))
        assert decided.all()
        if wanted is None:
            with np.errstate(all="ignore"):
                wanted = (x.astype(np.float64) * 1.5).astype(x.dtype)
        same = found.astype(bits).view(x.dtype)
        np.testing.assert_array_equal(same[~np.isnan(x)].view(bits), wanted[~np.isnan(x)].view(bits))
        assert np.isnan(same[np.isnan(x)]).all()
    ran(len(x), 1000)


def test_indices_outside_are_not_read() -> None:
    """An element that would be read outside of its tensor remains undecided, for any index."""
    t = Tensor("X", (4,), DataType.FLOAT32)
    (i,) = each((9,))
    made = TapedElements(translated(nest((i,), t[[i - 2]] + 0), DataType.FLOAT32))
    _, decided = made.at({"X": np.ones(4, np.float32)}, np.arange(9).reshape(-1, 1))
    assert decided.tolist() == [False] * 2 + [True] * 4 + [False] * 3


def test_ties_go_where_the_rounding_says() -> None:
    t = Tensor("X", (6,), DataType.FLOAT32)
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.5], np.float32)
    (i,) = each((6,))
    for rounding, exact in ((expression.half_to_even, np.rint(x)), (expression.half_away, np.trunc(x + np.copysign(0.5, x)))):
        made = TapedElements(translated(nest((i,), rounding(t[[i]])), DataType.FLOAT32))
        found, decided = made.at({"X": x}, np.arange(6).reshape(-1, 1))
        assert decided.all()
        assert found.tolist() == exact.view(np.uint32).tolist()


def test_long_elements_stay_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    t = Tensor("X", (1000,), DataType.FLOAT32)
    i = each((1,))
    k = over((i[0],), (1000,), (0,))
    made = TapedElements(translated(nest(i, Sum(k, t[[k[0]]])), DataType.FLOAT32))
    x = np.ones(1000, np.float32)
    found, decided = made.at({"X": x}, np.zeros((1, 1), np.int64))
    assert decided.all()
    assert found[0] == int(np.float32(1000).view(np.uint32))
    monkeypatch.setattr("anydml.kernels.third.elements.BUDGET", 500)
    assert not made.at({"X": x}, np.zeros((1, 1), np.int64))[1].any()


def test_what_tapes_do_not_have_is_said() -> None:
    t = Tensor("X", (4,), DataType.FLOAT32)
    (i,) = each((4,))
    with pytest.raises(Untranslatable, match="integer_power of numbers"):
        translated(nest((i,), expression.integer_power(t[[i]], 3, 32)), DataType.FLOAT32)
    words = Tensor("X", (4,), DataType.UINT32)
    for n, far in ((2**63 - 1, False), (-(2**63), False), (2**63, True), (2**96, True)):  # counters have 128 bits
        body = nest((i,), expression.index(words[[i]]) // n)
        if far:
            with pytest.raises(Untranslatable, match="an integer that no register holds"):
                translated(body, DataType.UINT32)
        else:
            assert n in translated(body, DataType.UINT32).tape.code()


@pytest.mark.parametrize("far", [2**37, 2**60, 2**410])
def test_the_larger_of_two_numbers_beside_zero_gives_a_sum_its_sign(far: int) -> None:
    """Differences of e^x far below -2^36, as they are and in products, quotients, powers of two and differences of these."""
    tape = Tape(0)
    more, less = (functions.exp(tape, tape.value(Fraction(-far - n))) for n in (0, far // 1000))
    three = tape.value(3)
    signed = {
        tape.make("subtract", more, less): 1,
        tape.make("subtract", less, more): -1,
        tape.make("subtract", tape.make("multiply", less, three), tape.make("divide", more, three)): -1,
        tape.make("add", tape.scaled(tape.make("negate", more), -9), tape.scaled(less, 9)): -1,
        tape.make("add", tape.make("subtract", less, more), tape.make("multiply", more, less)): -1,
        tape.make("subtract", tape.make("multiply", more, more), less): 1 if far // 1000 > far else -1,
        tape.make("subtract", more, more): 2,
        tape.make("subtract", tape.make("multiply", more, tape.value(1 + Fraction(1, 1 << 60))), more): 2,
        functions.UNARY["erfc"](tape, tape.value(1 << 30)): 1,
    }  # fmt: skip
    signs = {tape.count("sign", x): sign for x, sign in signed.items()}
    _, integers, decided = run(tape)
    assert {at: integers[at] for at in signs} == signs
    assert decided


def _beside(tape: Tape, x: NumberRegister, bits: int) -> NumberRegister:
    """x (1 + 2^-bits) - x"""
    return tape.make("difference", tape.make("multiply", x, tape.value(1 + Fraction(1, 1 << bits))), x)


def test_sums_are_zero_by_definition_where_hardly_anything_is_left() -> None:
    """Signs of sums: undecided with 250 bits; with 1,210, zero within 2^-1088, unless they may be a fraction that small."""
    for precision in (FIRST, LAST):
        tape = Tape(0, precision)
        two, three, six, one = (tape.value(n) for n in (2, 3, 6, 1))
        third = tape.make("divide", one, three)
        product = tape.make("multiply", tape.make("root", two), tape.make("root", three))
        e = functions.exp(tape, one)
        zero = {
            tape.make("difference", product, tape.make("root", six)): 0,
            tape.make("difference", tape.make("multiply", third, three), one): 0,
            tape.make("difference", functions.power(tape, two, tape.value(Fraction(1, 2))), tape.make("root", two)): 0,
            _beside(tape, e, 1150): 0,
        }
        unknown = [  # within 2^-1024 or not; a fraction that is not 0
            tape.count("kind", x)
            for x in (
                _beside(tape, e, 1060),
                tape.make("difference", third, tape.value(Fraction(1, 3) + Fraction(1, 1 << 1150))),
            )
        ]
        near = tape.count("sign", _beside(tape, e, 900))
        signs = [tape.count("sign", x) for x in zero]
        _, integers, decided = run(tape)
        assert decided
        assert [integers[at] for at in signs] == [0 if precision.settles else 2] * len(zero)
        assert [integers[at] for at in unknown] == [balls.UNKNOWN if precision.settles else balls.FINITE] * 2
        assert integers[near] == (1 if precision.settles else 2)


def _undecided_statements(x: Any, y: Any, data_type: DataType) -> dict[str, Any]:
    """Bodies that 250 bits leave undecided for positive integers, since roots cancel or are at a boundary."""
    root, tie = expression.sqrt, 1 + Fraction(1, 1 << (24 if data_type == DataType.FLOAT32 else 11))
    ratio = root(x) * root(y) / root(x * y)  # 1 by definition
    return {
        "zero": (root(x) * root(y) - root(x * y)) * 3,
        "order": expression.select(expression.equal(root(x) * root(y), root(x * y)), x, y),
        "less": expression.select(root(x) * root(y) < root(x * y), x, y),
        "tie": ratio * tie * x,
        "floor": expression.floor(ratio * x),
        "half": expression.half_to_even(ratio * (x + Fraction(1, 2))),
        "fractions": (x / 3 + y / 7) * 21 - 7 * x - 3 * y,
        "sign": 1 / ((x / 3) * 3 - x),
        "power": expression.pow(x, Fraction(7, 4)) - x * expression.pow(x, Fraction(3, 4)),
        "exponential": expression.exp(root(x) * root(y) - root(x * y)) * tie,
    }


@pytest.mark.parametrize("data_type", [DataType.FLOAT32, DataType.FLOAT16])
def test_more_bits_decide_as_the_exact_evaluation(data_type: DataType, ran: Ran) -> None:
    """Elements at a boundary by definition: those that 250 bits leave undecided, and what 1,210 bits make of them."""
    rng, count = np.random.default_rng(5), 0
    data = {name: rng.integers(2, 60, 40 * SOAK).astype(data_type.dtype) for name in "XY"}
    sizes = data["X"].shape
    (i,) = each(sizes)
    x, y = (Tensor(name, sizes, data_type)[[i]] for name in "XY")
    places = np.arange(*sizes).reshape(-1, 1)
    for name, body in _undecided_statements(x, y, data_type).items():
        made = nest((i,), body)
        left = ~TapedElements(translated(made, data_type)).at(data, places)[1]
        found, decided = TapedElements(translated(made, data_type, LAST)).at(data, places)
        assert left.any(), name
        assert decided.all(), name
        with Evaluators({"": made}, {"": data_type}).reading(data) as exact:
            wanted = [exact[""].stored(*at) for at in places.tolist()]
        assert found.tolist() == wanted, name
        count += int(left.sum())
    ran(count, 200)


def test_terms_far_below_those_that_cancelled_are_left_to_the_exact_evaluation() -> None:
    """A sum is 0 by definition if it is within 2^-1024 of its largest term, which may be one that was added long before."""
    float32 = DataType.FLOAT32
    x = np.array([[1, 1, -2000], [1, 1, -600], [1, 1, 1]], np.float32)
    y = np.array([[1, -1, -1]] * 3, np.float32)
    i = each((3, 1))
    k = over(i, (3, 3), (1,))
    powers, factors = (Tensor(name, (3, 3), float32)[k] for name in "XY")
    made = nest(i, Sum(k, expression.exp(powers) * factors))
    data, places = {"X": x, "Y": y}, np.array([[n, 0] for n in range(3)])
    assert TapedElements(translated(made, float32)).at(data, places)[1].tolist() == [False, False, True]
    found, decided = TapedElements(translated(made, float32, LAST)).at(data, places)
    assert decided.tolist() == [False, True, True]
    with Evaluators({"": made}, {"": float32}).reading(data) as exact:
        wanted = [exact[""].stored(n, 0) for n in range(3)]
    assert wanted[0] == 0
    assert found[1:].tolist() == wanted[1:]
