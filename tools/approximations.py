"""Makes the polynomials of the compiled functions and proves their bounds: `make approximations`.

Each is the best one of its degree for the relative error, by Remez' algorithm, its coefficients then rounded to float64. The
bound is proven for these: balls of real numbers enclose the polynomial's distance from the function and the errors of every
operation that evaluates it, in the order of `polynomials.evaluated`. A test proves the bounds in the file again.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, arb_mat, arb_poly, arb_series, ctx

from anydml.kernels.elementwise.polynomials import Polynomial, U, evaluated

TARGET = Path(__file__).parent.parent / "src" / "anydml" / "kernels" / "elementwise" / "coefficients.py"
HEAD = '''"""Polynomials of the elementary functions with proven bounds.

Made by tools/approximations.py (`make approximations`): change that, not this file.
"""

from anydml.kernels.elementwise.polynomials import Polynomial

'''
ORDER = 14  # the terms of a Taylor series
NEAR = 2.0**-6  # within it of a zero of the function, the series at the zero


class Wanted(NamedTuple):
    """A polynomial p of a degree with p(x^step) x^zero close to a function of x on low..high.

    function: of power series. argument: the relative error that the polynomial's own argument has. pieces: into
    how many intervals a proof divides low..high.
    """

    text: str
    function: Callable[[Any], Any]
    low: float
    high: float
    degree: int
    step: int = 1
    zero: int = 0
    argument: float = 0.0
    chains: int = 1
    pieces: int = 192


ERFC_CENTRE = 4.0


def _scaled_erfc(t: Any) -> Any:
    """(1 + 2 z) F(z), where F(z) = e^(z^2) erfc(z) is the integral of 2 / sqrt(pi) e^(-x^2 - 2 x z) over x > 0.

    So each derivative of F is monotonic, and its values at the ends of an interval of z enclose it in between.
    """
    z = arb(ERFC_CENTRE) * (1 + t) / (1 - t)
    ends = [_of_series(end) for end in (arb(z[0].lower()), arb(z[0].upper()))]
    step, found = arb_series([0, *z.coeffs()[1:]]), arb_series([0])
    for k in reversed(range(ctx.cap)):
        found = found * step + ends[0][k].union(ends[1][k])
    return (1 + 2 * z) * found


def _of_series(z: Any) -> Any:
    at = arb_series([z, 1])
    return (at * at).exp() * at.erfc()


def _map(z: float) -> float:
    """Where the argument of `_scaled_erfc` is z."""
    return (z - ERFC_CENTRE) / (z + ERFC_CENTRE)


def _log2_tail(s: Any) -> Any:
    """What the logarithm to the base 2 of (1 + s) / (1 - s) has beside its first term."""
    return (((1 + s) / (1 - s)).log() - 2 * s) / arb.const_log2()


HALF_LN2 = 0.34660
WANTED = {
    "EXP": Wanted("e^x", lambda x: x.exp(), -HALF_LN2, HALF_LN2, 10, chains=2),
    "EXPM1": Wanted("(e^x - 1) / x", lambda x: x.exp() - 1, -HALF_LN2, HALF_LN2, 9, zero=1, chains=2),
    "LOG": Wanted(
        "log((1 + s) / (1 - s)) / s of s^2", lambda s: ((1 + s) / (1 - s)).log(), 0, 0.1716, 6, 2, 1, 8 * U, chains=2
    ),
    "LOG_WIDE": Wanted(
        "log((1 + s) / (1 - s)) / s of s^2", lambda s: ((1 + s) / (1 - s)).log(), 0, 0.33334, 8, 2, 1, 32 * U, chains=2
    ),
    "LOG2_TAIL": Wanted("(log2((1 + s) / (1 - s)) - 2 s / log 2) / s^3 of s^2", _log2_tail, 0, 0.1716, 7, 2, 3, 8 * U),
    "EXP2": Wanted("2^x", lambda x: (x * arb.const_log2()).exp(), -0.5001, 0.5001, 10, chains=2),
    "SIN": Wanted("sin(x) / x of x^2", lambda x: x.sin(), 0, 1.5709, 7, 2, 1, 10 * U),
    "TAN": Wanted("tan(x) / x of x^2", lambda x: x.tan(), 0, 0.7855, 12, 2, 1, 10 * U, chains=2),
    "ASIN": Wanted("asin(x) / x of x^2", lambda x: x.asin(), 0, 0.5, 11, 2, 1, 3 * U, chains=2),
    "ATAN": Wanted("atan(x) / x of x^2", lambda x: x.atan(), 0, 0.41422, 9, 2, 1, 8 * U, chains=2),
    "ERF": Wanted("erf(x) / x of x^2", lambda x: x.erf(), 0, 0.5, 7, 2, 1, U),
    "ERFC": Wanted(
        "(1 + 2 z) e^(z^2) erfc(z) of t = (z - 4) / (z + 4)",
        _scaled_erfc,
        -1,
        _map(27.5),
        19,
        argument=4 * U,
        chains=4,
        pieces=256,
    ),
}


def _at(wanted: Wanted, x: Any) -> Any:
    """The function divided by its zero, at a point."""
    return (wanted.function(arb_series([x, 1]))[0] / x**wanted.zero).mid()


def fitted(wanted: Wanted) -> tuple[float, ...]:
    """The coefficients of the polynomial whose largest relative error is least, rounded to float64."""
    ctx.prec, ctx.cap = 700, 1
    low, high = wanted.low**wanted.step, wanted.high**wanted.step
    n = wanted.degree + 2
    tiny = arb(2) ** -120  # 0 itself would divide by 0

    def point(angle: float) -> Any:
        v = arb((low + high) / 2 - (high - low) / 2 * math.cos(angle))
        v = tiny if abs(v) < tiny else v
        return v, _at(wanted, v.sqrt() if wanted.step == 2 else v)

    grid = [point(math.pi * i / (16 * n)) for i in range(16 * n + 1)]
    chosen = [16 * n * i // (n - 1) for i in range(n)]
    for _ in range(20):
        rows = [[grid[i][0] ** k for k in range(n - 1)] + [grid[i][1] * (-1) ** j] for j, i in enumerate(chosen)]
        solved = arb_mat(rows).solve(arb_mat([[grid[i][1]] for i in chosen]))
        found = [solved[k, 0].mid() for k in range(n - 1)]
        p = arb_poly(found)
        errors = [float(((p(v) - g) / g).mid()) for v, g in grid]
        exchanged = _extrema(errors, n)
        if exchanged == chosen:
            break
        chosen = exchanged
    return tuple(float(c) for c in found)


def _extrema(errors: Sequence[float], n: int) -> list[int]:
    """n places whose errors alternate in sign, large ones."""
    groups: list[int] = []
    for i, e in enumerate(errors):
        if groups and (errors[groups[-1]] < 0) == (e < 0):
            if abs(e) > abs(errors[groups[-1]]):
                groups[-1] = i
        else:
            groups.append(i)
    while len(groups) > n:
        groups.pop(0 if abs(errors[groups[0]]) < abs(errors[groups[-1]]) else -1)
    assert len(groups) == n, (len(groups), n)
    return groups


class Bounded(NamedTuple):
    """What an operation would give with real numbers, and how far what float64 gives may be from it."""

    value: Any
    error: Any


def _rounded(value: Any, error: Any) -> Bounded:
    return Bounded(value, (error + (abs(value) + error) * arb(U)).upper())


def _times(a: Bounded, b: Bounded) -> Bounded:
    return _rounded(a.value * b.value, abs(a.value) * b.error + abs(b.value) * a.error + a.error * b.error)


def _twice_rounded(a: Bounded, b: Bounded | float, c: Bounded | float) -> Bounded:
    """a * b + c without a fused operation, whose error is smaller."""
    b, c = (x if isinstance(x, Bounded) else Bounded(arb(x), arb(0)) for x in (b, c))
    product = _times(a, b)
    return _rounded(product.value + c.value, product.error + c.error)


def proved(wanted: Wanted, coefficients: Sequence[float]) -> float:
    """A bound of the relative error of the evaluated polynomial."""
    ctx.prec, ctx.cap = 300, ORDER + wanted.zero + 1
    spread = [arb(0)] * (wanted.step * (len(coefficients) - 1) + 1)
    spread[:: wanted.step] = [arb(c) for c in coefficients]
    p = arb_poly(spread)
    low, high = wanted.low, wanted.high
    near = NEAR if wanted.zero else 0.0
    ends = [low + (high - low) * i / wanted.pieces for i in range(wanted.pieces)] + [high]
    worst = arb(0)
    for a, b in pairwise(ends):
        if wanted.zero and -near <= a and b <= near:
            continue
        x = arb(a).union(arb(b))
        worst = _larger(worst, _distance(wanted, p, x), x, wanted, coefficients)
    if near:
        x = arb(max(low, -near)).union(arb(min(high, near)))
        worst = _larger(worst, _distance_at_zero(wanted, p, x), x, wanted, coefficients)
    return _above(worst)


def _above(x: Any) -> float:
    """A short float64 that is not below."""
    exponent = math.floor(math.log2(float(x)))
    return math.ceil(float(x) * 2.0 ** (10 - exponent) + 1) * 2.0 ** (exponent - 10)


def _larger(worst: Any, distance: Any, x: Any, wanted: Wanted, coefficients: Sequence[float]) -> Any:
    v = x if wanted.step == 1 else arb(0).union((x * x).upper()) if x.contains(0) else x * x
    argument = Bounded(v, (abs(v) * arb(wanted.argument)).upper())
    of = evaluated(argument, coefficients, wanted.chains, _twice_rounded, lambda a: _times(a, a))
    evaluation = of.error / abs(of.value)
    bound = (distance + evaluation * (1 + distance)).upper()
    assert bound.is_finite(), (wanted.text, x, distance, evaluation)
    return bound if bound > worst else worst


def _distance(wanted: Wanted, p: Any, x: Any) -> Any:
    """A bound of |p(x) x^zero / f(x) - 1| on an interval, by Taylor series at its middle with Lagrange's remainder."""
    middle, half = x.mid(), x.rad()

    def difference(at: Any) -> Any:
        moved = arb_series(p(arb_poly([at, 1])).coeffs()) * arb_series([at, 1]) ** wanted.zero
        return moved - wanted.function(arb_series([at, 1]))

    near, wide = difference(middle), difference(x)
    error = sum((abs(near[k]) * half**k for k in range(ORDER)), abs(wide[ORDER]) * half**ORDER)
    return _relative(error, p(x) * x**wanted.zero)


def _distance_at_zero(wanted: Wanted, p: Any, x: Any) -> Any:
    """The same where the function has its zero, from its series there."""
    at_zero, wide = (wanted.function(arb_series([at, 1])) for at in (arb(0), x))
    far = abs(x).upper()
    mine, rest = p.coeffs(), abs(wide[ORDER + wanted.zero]) * far**ORDER
    series = [at_zero[k + wanted.zero] for k in range(ORDER)]
    mine, padded = (part + [arb(0)] * (max(len(mine), ORDER) - len(part)) for part in (mine, series))
    error = sum((abs(a - b) * far**k for k, (a, b) in enumerate(zip(mine, padded, strict=True))), rest)
    return _relative(error, p(x))


def _relative(error: Any, approximation: Any) -> Any:
    """A bound of the relative error: of the function, which is so far from its approximation."""
    smallest = abs(approximation) - error
    assert smallest > 0, (error, approximation)
    return (error / smallest).upper()


def made(name: str, wanted: Wanted) -> Polynomial:
    coefficients = fitted(wanted)
    return _described(wanted, coefficients, proved(wanted, coefficients))


def _described(wanted: Wanted, coefficients: tuple[float, ...], rel: float) -> Polynomial:
    low, high = wanted.low**wanted.step, wanted.high**wanted.step
    return Polynomial(wanted.text, low, high, wanted.argument, rel, wanted.chains, coefficients)


def text(polynomials: dict[str, Polynomial]) -> str:
    parts = []
    for name, p in polynomials.items():
        lines = "".join(f'        float.fromhex("{c.hex()}"),\n' for c in p.coefficients)
        parts.append(
            f"{name} = Polynomial(  # degree {len(p.coefficients) - 1}, proven to 2^{math.log2(p.rel):.2f}\n"
            f'    "{p.function}",\n    {p.low!r},\n    {p.high!r},\n    {p.argument!r},\n    {p.rel!r},\n    {p.chains},\n'
            f"    (\n{lines}    ),\n)\n"
        )
    return HEAD + "".join(parts)


if __name__ == "__main__":
    polynomials = {name: made(name, wanted) for name, wanted in WANTED.items()}
    for name, p in polynomials.items():
        print(f"{name}: degree {len(p.coefficients) - 1}, 2^{math.log2(p.rel):.2f}")
    TARGET.write_text(text(polynomials))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", TARGET], check=True)
