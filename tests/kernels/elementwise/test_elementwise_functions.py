"""The compiled elementary functions, compared with MPFR: bounds, limits, zeros; and new proofs of their polynomials."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

from anydml.kernels.code.targets import Target, targets
from anydml.kernels.code.values import Body, Kind
from anydml.kernels.numbers.functions import coefficients
from anydml.kernels.numbers.functions.polynomials import Polynomial, Quotient
from anydml.kernels.numbers.functions.wide import BINARY, UNARY
from every_kernel import SOAK, without_dot_products
from function_kernels import Doubles, applied

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import approximations

INF, NAN = math.inf, math.nan
MPFR = gmpy2.context(precision=150, emax=1 << 40, emin=-(1 << 40))
PARTS = 600  # the number of arguments of each kind
every_target = pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)


def by_turns(names: Iterable[str]) -> pytest.MarkDecorator:
    """Each function on the widest instruction set and on another one, which take turns; in `make soak` on all."""
    every = without_dot_products()
    others = len(every) - 1
    chosen = [
        pytest.param(name, target, id=f"{name}-{target.name}")
        for turn, name in enumerate(names)
        for k, target in enumerate(every)
        if SOAK > 1 or k in (turn % max(others, 1), others)
    ]
    return pytest.mark.parametrize(("name", "target"), chosen)


SPECIAL: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
    "gelu": lambda x: x / 2 * gmpy2.erfc(-x / gmpy2.sqrt(mpfr(2))),
    "pow": lambda x, y: x**y,
    "softplus": lambda x: gmpy2.log1p(gmpy2.exp(x)),
}
# f(inf), f(-inf), f(0), f(-0), where they are 0, an infinity or NaN, or a number that the value has to be
LIMITS: dict[str, tuple[float, float, float | None, float | None]] = {
    "exp": (INF, 0.0, None, None),
    "expm1": (INF, -1.0, 0.0, -0.0),
    "sinh": (INF, -INF, 0.0, -0.0),
    "cosh": (INF, INF, None, None),
    "tanh": (1.0, -1.0, 0.0, -0.0),
    "sigmoid": (1.0, 0.0, None, None),
    "softplus": (INF, 0.0, None, None),
    "log": (INF, NAN, -INF, -INF),
    "log1p": (INF, NAN, 0.0, -0.0),
    "sin": (NAN, NAN, 0.0, -0.0),
    "cos": (NAN, NAN, None, None),
    "asinh": (INF, -INF, 0.0, -0.0),
    "acosh": (INF, NAN, NAN, NAN),
    "atanh": (NAN, NAN, 0.0, -0.0),
    "tan": (NAN, NAN, 0.0, -0.0),
    "asin": (NAN, NAN, 0.0, -0.0),
    "acos": (NAN, NAN, None, None),
    "atan": (math.pi / 2, -math.pi / 2, 0.0, -0.0),
    "erf": (1.0, -1.0, 0.0, -0.0),
    "erfc": (0.0, 2.0, None, None),
    "gelu": (INF, NAN, 0.0, -0.0),
}
# the relative bounds, in units of 2^-53
BOUNDS: dict[str, float] = {
    "exp": 6.9,
    "expm1": 26.374,
    "sinh": 29.474,
    "cosh": 9,
    "tanh": 28.474,
    "sigmoid": 9,
    "softplus": 34.812,
    "log": 13.641,
    "log1p": 14.941,
    "asinh": 22.041,
    "acosh": 19.541,
    "atanh": 17.041,
    "sin": 15.858,
    "cos": 15.858,
    "tan": 44.044,
    "asin": 16.361,
    "acos": 8.1805,
    "atan": 18.494,
    "erf": 73.425,
    "erfc": 73.425,
    "gelu": 76.425,
    "atan2": 20.294,
    "pow": 139.83,
}
# arguments on both sides of limits, and whether they are left to a later stage
BESIDE_LIMITS: dict[str, list[tuple[tuple[float, ...], bool]]] = {
    "log": [((2.0**-1022,), False), ((2.0**-1023,), True)],
    "pow": [((2.0**-1022, 0.5), False), ((2.0**-1023, 0.5), True)],
    "atan2": [((2.0**-1002, 2.0**-1000), False), ((2.0**-1002, 2.0**-1001), True)],
    # next to multiples of pi: their distances are 2^-62.98 and 2^-63.02 of them
    "sin": [((315814.88468742114,), False), ((52442.60616637442,), True)],
}


def exactly(name: str) -> Callable[..., Any]:
    return SPECIAL.get(name) or getattr(gmpy2, name)


def arguments(seed: int) -> Doubles:
    """Arguments over the whole range, close to zeros, and close to the borders of every range reduction."""
    random = np.random.default_rng(seed)
    n = PARTS
    sign = random.choice([-1.0, 1.0], n)
    steps = random.integers(-4, 5, n) * 2.0**-52 + 1
    halves = random.integers(-2000, 2000, n) / 2
    return np.concatenate(
        [
            random.standard_normal(n),
            random.uniform(-745, 745, n),
            sign * 2.0 ** random.uniform(-1000, 1000, n),
            sign * 2.0 ** random.uniform(-40, 12, n),
            sign * (1 + random.standard_normal(n) * 2.0 ** random.uniform(-52, 0, n)),
            halves * math.pi * steps,
            halves * math.log(2) * steps,
            2.0 ** np.round(halves / 20) * math.sqrt(2) * steps,
            sign * random.choice([0.5, 26.63, 4.0, 1.0, 709.0, 709.3, 710.0, 22.0, 2.0**21], n) * steps,
            random.integers(-600_000, 600_000, n).astype(np.float32).astype(np.float64) * np.float32(math.pi / 2),
            random.integers(-100, 100, n).astype(np.float64),
        ]
    )


def bound(name: str) -> float:
    one = Body(targets()[0]).constant(Kind("double"), 1.0)
    return UNARY[name](one).rel if name in UNARY else BINARY[name](one, one).rel


def check(name: str, x: tuple[float, ...], value: float, rel: float) -> bool:
    """Whether a value has a bound that is compared. A value beyond the range must be on the right side."""
    with gmpy2.context(MPFR):
        exact = exactly(name)(*map(mpfr, x))
        if gmpy2.is_nan(exact):
            assert value != value, (name, x, value)
        elif exact == 0 or gmpy2.is_infinite(exact):
            assert value == exact, (name, x, value)
            assert math.copysign(1, value) == math.copysign(1, float(exact)), (name, x, value)
        elif abs(gmpy2.get_exp(exact)) > 1000:
            assert (value < 0) == (exact < 0) or value == 0, (name, x, value)
            assert abs(value) > 2.0**990 if abs(exact) > 1 else abs(value) < 2.0**-990, (name, x, value)
        else:
            assert math.isfinite(value), (name, x)
            assert abs(mpfr(value) - exact) <= rel * abs(exact), (name, x, value, float(exact))
            return True
    return False


@by_turns(UNARY)
def test_the_bound_of_a_function_holds(name: str, target: Target) -> None:
    xs = arguments(len(name))
    if name == "softplus":
        xs = xs[np.abs(xs) < 1000]
    rel = bound(name)
    assert rel <= 2.0**-46
    for lanes in (target.vector_bytes // 8, 0, 8):
        values, guards = applied(UNARY[name], target, lanes, xs)
        assert not (guards & (np.abs(xs) < 2.0**20) & (np.abs(xs) > 2.0**-1000)).any()
        if lanes == target.vector_bytes // 8:
            first = values
            compared = sum(check(name, (x,), v, rel) for x, v, g in zip(xs, values, guards, strict=True) if not g)
            assert compared > 1500
        assert values.tobytes() == first.tobytes()


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_the_bound_of_a_function_is_the_recorded_one(name: str) -> None:
    assert bound(name) * 2.0**53 == pytest.approx(BOUNDS[name], rel=2.0**-10), "a term of the bound has changed"


@pytest.mark.parametrize("name", BESIDE_LIMITS)
def test_a_function_is_served_up_to_its_limit(name: str) -> None:
    given = [x for x, _ in BESIDE_LIMITS[name]]
    columns = [np.array(column) for column in zip(*given, strict=True)]
    values, guards = applied((UNARY.get(name) or BINARY[name]), targets()[0], 2, *columns)
    assert guards.tolist() == [guarded for _, guarded in BESIDE_LIMITS[name]], "a limit has changed"
    rel = bound(name)
    assert all(check(name, x, value, rel) for x, value, guarded in zip(given, values, guards, strict=True) if not guarded)


@by_turns(UNARY)
def test_limits_and_zeros_are_exact(name: str, target: Target) -> None:
    payloads = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFF12345FFF], np.uint64)
    xs = np.concatenate([np.array([INF, -INF, 0.0, -0.0]), payloads.view(np.float64)])
    values, guards = applied(UNARY[name], target, target.vector_bytes // 8, xs)
    assert np.isnan(values[4:]).all()
    for value, wanted in zip(values[:4].tolist(), LIMITS[name], strict=True):
        if wanted is not None:
            assert value == wanted or (value != value and wanted != wanted)
            assert wanted != wanted or math.copysign(1, value) == math.copysign(1, wanted)
    assert not guards[2:].any()


def pairs(name: str, seed: int) -> tuple[Doubles, Doubles]:
    """Pairs of arguments: of all magnitudes, close to each other, with results of all magnitudes, floats and small integers."""
    random = np.random.default_rng(seed)
    a, b = (x[np.abs(x) < 1e290] for x in (arguments(seed), arguments(seed + 1)))
    a, b = a[: min(len(a), len(b))], b[: min(len(a), len(b))]
    n = len(a)
    if name == "atan2":
        random.shuffle(b)
        ratios = random.choice([1.0, 0.414215, 2.41421, 1.0 + 2**-50, 3e10], n)
        return np.concatenate([a, b, a]), np.concatenate([b, np.abs(a) * ratios, b * 0])
    base = 2.0 ** random.uniform(-100, 100, n)
    close = 1 + random.standard_normal(n) * 2.0 ** random.uniform(-52, -1, n)
    xs = [base, np.abs(close), base.astype(np.float32).astype(np.float64), np.round(base % 50) - 25, np.abs(a)]
    exponents = [random.uniform(-1010, 1010, n) / np.abs(np.log2(np.where(x == 0, 1.5, np.abs(x))) + 1e-300) for x in xs]
    exponents[3] = np.round(b % 64) - 32
    exponents[4] = b
    return np.concatenate(xs), np.concatenate(exponents)


@every_target
@pytest.mark.parametrize("name", BINARY)
def test_the_bound_of_a_function_of_two_holds(name: str, target: Target) -> None:
    xs, ys = pairs(name, 5)
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[keep], ys[keep]
    rel = bound(name)
    assert rel <= 2.0**-45.8
    values, guards = applied(BINARY[name], target, target.vector_bytes // 8, xs, ys)
    assert guards.sum() < len(xs) // 100
    compared = sum(check(name, (x, y), v, rel) for x, y, v, g in zip(xs, ys, values, guards, strict=True) if not g)
    assert compared > 15_000
    for lanes in (0, 8):
        again, _ = applied(BINARY[name], target, lanes, xs, ys)
        assert again.tobytes() == values.tobytes()


@every_target
@pytest.mark.parametrize("name", BINARY)
def test_limits_of_a_function_of_two_are_those_of_c(name: str, target: Target) -> None:
    payloads = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.float64)
    whole = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 2.0**52 - 1, 2.0**52 + 1, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 2.0**54 + 4, 1e300, INF]
    values = np.concatenate([whole, np.negative(whole), payloads])
    xs, ys = (x.ravel() for x in np.meshgrid(values, values))
    found, guards = applied(BINARY[name], target, target.vector_bytes // 8, xs, ys)
    with np.errstate(all="ignore"):
        wanted = (np.power if name == "pow" else np.arctan2)(xs, ys)
    if name == "pow":
        wanted[(xs == 1) | (ys == 0)] = 1  # in C, a signaling NaN gives NaN
    within = np.isfinite(wanted) & (np.abs(wanted) > 2.0**-1000) & (np.abs(wanted) < 2.0**1000)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    exact = np.isin(wanted, (0, 1, -1, INF, -INF)) & ~guards
    assert exact.sum() > 300 if name == "pow" else exact.sum() > 30
    assert (found[exact] == wanted[exact]).all()
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted) & ~guards].all()
    close = within & ~guards
    assert (np.abs(found[close] - wanted[close]) <= 2.0**-46 * np.abs(wanted[close])).all()


@pytest.mark.parametrize("name", approximations.WANTED)
def test_a_polynomial_is_the_one_that_is_proven(name: str) -> None:
    wanted = approximations.WANTED[name]
    made: Polynomial = getattr(coefficients, name)
    # a first stage, which leaves some elements to the second
    first = {"LOG2_NEAR": 45, "EXP2_NEAR": 38.5, "LOG2_NEAR_EIGHTHS": 45, "EXP2_NEAR_EIGHTHS": 41.6}
    least = 2.0 ** -first.get(name, 46)
    assert approximations.proved(wanted, made.coefficients) <= made.rel < least
    assert (made.low, made.high) == (wanted.low**wanted.step, wanted.high**wanted.step)
    assert (made.argument, made.chains) == (wanted.argument, wanted.chains)


@pytest.mark.parametrize("name", approximations.QUOTIENTS)
def test_a_quotient_is_the_one_that_is_proven(name: str) -> None:
    wanted = approximations.QUOTIENTS[name]
    made: Quotient = getattr(coefficients, name)
    assert approximations.proved_quotient(wanted, made.above, made.below) <= made.rel < 2.0**-46
    assert (made.low, made.high, made.chains) == (0, wanted.high, wanted.chains)
