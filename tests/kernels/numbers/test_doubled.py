"""Numbers in twice float64's precision: what each operation says of its result holds, and no bound or guard changes unseen.

Operands have every size, with bounds and without, also at the ends of domains. A result has to hold for both ends of a bound.
`python tests/kernels/numbers/test_doubled.py` prints the table of records.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from anydml import DataType
from anydml.kernels.code import engine
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import precise
from anydml.kernels.numbers.doubled.arithmetic import (
    Precise,
    absolute,
    add,
    all_signed,
    compared,
    divide,
    extreme,
    multiply,
    root,
    subtract,
    to_whole,
)
from anydml.kernels.numbers.doubled.functions import function
from anydml.kernels.numbers.doubled.levels import softsign
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.functions.pairs import Pair, exact_product, lost_product
from every_kernel import SOAK, Ran, without_dot_products
from number_kernels import applied, called

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")

Array = NDArray[Any]
DIGITS = gmpy2.context(precision=1400, emax=1 << 40, emin=-(1 << 40))
COUNT = 96 * SOAK
LARGEST = mpq(sys.float_info.max)


@pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)
def test_the_error_of_a_products_second_part_is_within_its_bound(target: Target) -> None:
    """Without fused operations, it is a part of the bound, unless a factor's second half is 0; else there is none."""
    other = 1 + 2.0**-26 + 2.0**-27 - 2.0**-52

    def part(k: int, x: Value) -> Value:
        head, rest = exact_product(x, x.lift(other))
        return (head, rest, lost_product(x, x.lift(other), head))[k]

    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(1, 2, 20_000), np.float32(rng.uniform(1, 2, 1_000)), other - rng.random(1_000) * 2.0**-30])
    head, rest, lost = (applied(target, partial(part, k), ("double", "double"), x) for k in range(3))
    largest = 0.0
    for a, *made, bound in zip(x.tolist(), head.tolist(), rest.tolist(), lost.tolist(), strict=True):
        error = abs(Fraction(a) * Fraction(other) - sum(map(Fraction, made)))
        assert error <= bound
        largest = max(largest, float(error / Fraction(bound)) if bound else 0.0)
    assert largest == 0 if Body(target).has_fma else largest > 1 / 16
    assert not lost[20_000:21_000].any()


def less(a: Precise, b: Precise, how: str = "less") -> Precise:
    found = compared(how, a, b)
    zero = a.err.lift(0.0)
    return Precise(Pair(zero.body.chosen(found.mask, zero.lift(1.0), 0.0), zero), zero, found.guard)


def as_integer(x: Precise) -> Precise:
    """A number that is stored as INT64."""
    bits, guard = precise._cut(x, DataType.INT64, False)
    made = bits.converted("sitofp", x.err.kind)
    return Precise(Pair(made, made.lift(0.0)), made.magnitude() * 2.0**-53, guard)


def as_recorded(x: Precise) -> Precise:
    """The claim that a probe stores of a number."""

    def told(head: Value, tail: Value, bound: Value, unclaimed: Value | None, bits: int) -> tuple[Value, Value]:
        found.append(Precise(Pair(head, tail), bound, unclaimed))
        return head, tail

    found: list[Precise] = []
    with patch.object(recorded, "claimed", told), patch.object(Target, "probe", 0):
        precise._rounded(x, DataType.FLOAT32, False)
    return found[0]


def of_fraction(exact: Callable[..., Any]) -> Callable[..., Any]:
    """A function of fractions; None where it is not defined."""

    def apply(*args: Any) -> Any:
        try:
            return mpq(exact(*args))
        except ZeroDivisionError:
            return None

    return apply


def of_real(exact: Callable[..., Any]) -> Callable[..., Any]:
    """A function of real numbers as a fraction within 2^-1400; None where it is not finite."""

    def apply(*args: Any) -> Any:
        found = exact(*map(mpfr, args))
        return mpq(found) if gmpy2.is_finite(found) else None

    return apply


def whole(op: str, t: Any) -> Any:
    if op in ("floor", "ceil"):
        return gmpy2.mpz(math.floor(t) if op == "floor" else math.ceil(t))
    if op == "truncate":
        return gmpy2.mpz(math.trunc(t))
    low, half = math.floor(t), mpq(1, 2)
    if t - low == half:
        return low + (low & 1 if op == "half_to_even" else t > 0)
    return math.floor(t + half)


def gelu(x: Any) -> Any:
    return x * gmpy2.erfc(-x / gmpy2.sqrt(mpfr(2))) / 2


class Operation(NamedTuple):
    """A function of numbers in machine code, of so many, and of exact ones."""

    emitted: Callable[..., Precise]
    operands: int
    exact: Callable[..., Any]


REAL: Mapping[str, Callable[..., Any]] = {
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
    "softplus": lambda x: max(x, mpfr(0)) + gmpy2.log1p(gmpy2.exp(-abs(x))),
    "gelu": gelu,
    "pow": lambda x, y: x**y,
}
FUNCTIONS = (
    *("exp", "expm1", "sinh", "cosh", "tanh", "sigmoid", "softplus", "log", "log1p", "asinh", "acosh", "atanh", "sin", "cos"),
    *("tan", "asin", "acos", "atan", "erf", "erfc", "gelu"),
)
OPERATIONS: dict[str, Operation] = {
    "add": Operation(add, 2, of_fraction(operator.add)),
    "subtract": Operation(subtract, 2, of_fraction(operator.sub)),
    "multiply": Operation(multiply, 2, of_fraction(operator.mul)),
    "divide": Operation(divide, 2, of_fraction(operator.truediv)),
    "absolute": Operation(absolute, 1, of_fraction(abs)),
    "less": Operation(less, 2, of_fraction(operator.lt)),
    "equal": Operation(partial(less, how="equal"), 2, of_fraction(operator.eq)),
    "max": Operation(partial(extreme, larger=True), 2, of_fraction(max)),
    "min": Operation(partial(extreme, larger=False), 2, of_fraction(min)),
    "to INT64": Operation(as_integer, 1, of_fraction(lambda x: max(min(math.trunc(x), 2**63 - 1), -(2**63)))),
    "recorded": Operation(as_recorded, 1, of_fraction(lambda x: x)),
    "root": Operation(root, 1, of_real(gmpy2.sqrt)),
    "softsign": Operation(softsign, 1, of_fraction(lambda x: x / (1 + abs(x)))),
    **{
        op: Operation(partial(to_whole, op), 1, of_fraction(partial(whole, op)))
        for op in ("floor", "ceil", "truncate", "half_to_even", "half_away")
    },
    **{
        op: Operation(lambda *args, op=op: function(op, [*args]), n, of_real(REAL.get(op) or getattr(gmpy2, op)))
        for names, n in ((FUNCTIONS, 1), (("atan2", "pow"), 2))
        for op in names
    },
}


# --- operands ---

EXPONENTS = (-1073, -1022, -1000, -600, -301, -299, -100, -60, -41, -39, -22, -10, 10, 20, 52, 60, 100, 699, 701, 1000)
HEADS = (
    *(s * 2.0**e * m for e in EXPONENTS for s, m in ((1, 1.0), (-1, 1.3))),
    *(1.0, -1.0, 1 - 2.0**-30, 1 + 2.0**-52, 2.0**-30 - 1, 0.5, 1.5, -2.5, 2 / 3, -3.7, 0.9, -0.99, 7.0, 8.0, -0.125),
    *(10.5, -10.5, 26.3, 27.0, 27.5, 30.0, 100.25, -100.25, 688.0, -688.0, 700.0, -700.0, 749.0, -749.0, 760.0, -760.0, 1e4),
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 0.0, math.pi, -math.pi / 2),
)
TAILS = (0.0, 0.0, 2.0**-54 * 0.7, -(2.0**-55) / 3)  # as parts of the head
ERRORS = (0.0, 0.0, 2.0**-104, 2.0**-80, 2.0**-40, 2.0**-19, 0.24, 0.5, 2.0)


def operands(rng: np.random.RandomState, count: int) -> Array:
    """Heads, tails and bounds of numbers."""
    heads = rng.choice(HEADS, count)
    size = np.where(np.isfinite(heads), heads, 0.0)
    tails = np.where(abs(heads) > 2.0**-900, size * rng.choice(TAILS, count), 0.0)
    errors = np.where(tails == 0, abs(size) * rng.choice(ERRORS, count), abs(size) * rng.choice(ERRORS[2:], count))
    return np.stack([heads, tails, errors])


def emitted(target: Target, name: str) -> str:
    """The kernel (count, heads, tails, bounds, guards, signs, and three addresses for each operand)."""
    body, (operation, count, _) = Body(target), OPERATIONS[name]
    lanes = target.vector_bytes // 8
    n = body.load("i64", "%arguments")
    places = [body.load("ptr", "%arguments", 8 * k) for k in range(1, 6 + 3 * count)]
    kind = Kind("double", lanes)

    def inside(i: str, carried: list[Value]) -> list[Value]:
        at = [body.at(p, body.op(f"shl i64 {i}, 3")) for p in places]
        x = [body.loaded(kind, p) for p in at[5:]]
        given = [Precise(Pair(x[k], x[k + 1]), x[k + 2], None, all_signed(x[k])) for k in range(0, 3 * count, 3)]
        made = operation(*given)
        body.stored(made.pair.head, at[0])
        body.stored(made.pair.tail, at[1])
        body.stored(made.err, at[2])
        for p, mask in ((at[3], made.guard), (at[4], made.signed)):
            zero = made.err.lift(0.0)
            body.stored(zero if mask is None else body.chosen(mask, zero.lift(1.0), 0.0), p)
        return carried

    body.loop("0", n, lanes, [], inside)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


class Told(NamedTuple):
    """Claims of results: the mean of the binary logarithms of bounds, and how many have one, none, guards and signs."""

    mean: float
    bounded: int
    exact: int
    guarded: int
    signed: int


def compute(name: str, target: Target) -> tuple[list[Array], Array]:
    count = OPERATIONS[name].operands
    given = [operands(np.random.RandomState(7 * k + len(name)), COUNT) for k in range(count)]
    if name in ("atan2", "pow"):  # which take exact numbers only
        for x in given:
            x[1:, ::2] = 0
    made = np.zeros((5, COUNT + 8))
    called(engine.compiled(emitted, target, name), [np.ascontiguousarray(row) for x in given for row in x], [*made])
    return given, made[:, :COUNT]


def told(made: Array) -> Told:
    claimed = (made[3] == 0) & np.isfinite(made[0]) & np.isfinite(made[2])
    wide = made[2][claimed & (made[2] > 0)]
    mean = float(np.log2(wide).mean()) if wide.size else 0.0
    none = int((claimed & (made[2] == 0)).sum())
    return Told(round(mean, 2), wide.size, none, int(made[3].sum()), int((made[4] * (made[0] == 0)).sum()))


def numbers(x: Array, lane: int) -> list[Any]:
    """The middle and the ends of an operand."""
    head, tail, error = (mpq(v) for v in x[:, lane].tolist())
    return [head + tail] if not error else [head + tail + k * error for k in (0, -1, 1)]


def judge(name: str, given: list[Array], made: Array, lane: int) -> bool:
    """Whether a result was compared with the exact one."""
    exact = OPERATIONS[name].exact
    head, tail, err, guard, signed = made[:, lane].tolist()
    if guard or not math.isfinite(err) or not all(np.isfinite(x[0, lane]) for x in given):
        return False
    compared_ = False
    for args in product(*(numbers(x, lane) for x in given)):
        t = exact(*args)
        said = f"{name} of {[x[:, lane].tolist() for x in given]} is {head!r} + {tail!r} within {err!r}"
        if t is None or abs(t) > LARGEST:  # not defined, or infinite
            assert not math.isfinite(head) or err > abs(head), said
            continue
        assert math.isfinite(head), said
        assert abs(t - (mpq(head) + mpq(tail))) <= mpq(err) + abs(t) / 2**1200, f"{said}, and not {float(t)!r}"
        compared_ = True
        if head == 0 and signed and name in ("multiply", "add", "subtract") and not any(x[2, lane] for x in given):
            plain = {"multiply": operator.mul, "add": operator.add, "subtract": operator.sub}[name]
            assert math.copysign(1, head) == math.copysign(1, plain(*(x[0, lane] for x in given))), said
    return compared_


RECORDS: dict[str, Told] = {
    "add": Told(80.41, 88, 1, 0, 0),
    "subtract": Told(56.64, 85, 5, 0, 1),
    "multiply": Told(-64.03, 80, 9, 2, 7),
    "divide": Told(-105.7, 54, 3, 34, 4),
    "absolute": Told(-51.47, 76, 17, 0, 3),
    "less": Told(0.0, 0, 85, 11, 0),
    "equal": Told(0.0, 0, 84, 12, 0),
    "max": Told(-26.99, 64, 16, 11, 3),
    "min": Told(-61.0, 72, 10, 11, 4),
    "to INT64": Told(-26.17, 21, 40, 35, 0),
    "recorded": Told(-102.17, 70, 11, 15, 0),
    "root": Told(-42.46, 34, 6, 56, 5),
    "softsign": Told(-246.22, 73, 3, 20, 3),
    "floor": Told(358.02, 14, 53, 29, 0),
    "ceil": Told(429.87, 10, 51, 35, 0),
    "truncate": Told(504.53, 9, 54, 33, 0),
    "half_to_even": Told(494.71, 10, 64, 22, 0),
    "half_away": Told(312.01, 8, 64, 24, 0),
    "exp": Told(-291.8, 49, 1, 42, 17),
    "expm1": Told(-385.39, 43, 5, 46, 6),
    "sinh": Told(-83.23, 31, 5, 59, 7),
    "cosh": Told(-59.84, 36, 0, 59, 0),
    "tanh": Told(-467.64, 72, 9, 14, 5),
    "sigmoid": Told(-586.59, 65, 8, 22, 12),
    "softplus": Told(-129.51, 87, 1, 6, 12),
    "log": Told(-63.46, 18, 0, 76, 0),
    "log1p": Told(-211.45, 16, 3, 75, 3),
    "asinh": Told(-86.74, 73, 3, 18, 3),
    "acosh": Told(-51.4, 6, 0, 88, 0),
    "atanh": Told(-222.71, 27, 3, 64, 3),
    "sin": Told(-55.39, 73, 1, 21, 15),
    "cos": Told(-28.68, 81, 0, 14, 0),
    "tan": Told(-117.98, 33, 1, 61, 15),
    "asin": Told(-152.98, 16, 5, 74, 5),
    "acos": Told(-73.59, 27, 0, 68, 1),
    "atan": Told(3.41, 81, 5, 9, 5),
    "erf": Told(-46.77, 73, 5, 17, 1),
    "erfc": Told(-525.74, 69, 2, 24, 19),
    "gelu": Told(-297.7, 65, 5, 23, 17),
    "atan2": Told(-111.56, 33, 0, 63, 0),
    "pow": Told(-72.08, 11, 7, 76, 0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_said_of_numbers_in_twice_the_precision_holds(name: str, ran: Ran) -> None:
    for target in without_dot_products() if SOAK > 1 else targets()[:1]:
        given, made = compute(name, target)
        with DIGITS:
            ran(sum(judge(name, given, made, lane) for lane in range(COUNT)), 5)
        if SOAK == 1 and target.architecture == "x86":
            assert told(made) == RECORDS[name], "a bound or a guard has changed"


if __name__ == "__main__":
    for operation_name in OPERATIONS:
        print(f'    "{operation_name}": Told{tuple(told(compute(operation_name, targets()[0])[1]))},')
