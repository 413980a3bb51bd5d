"""Makes the polynomials of the compiled functions and proves their bounds: `make approximations`.

Each polynomial is the best one of its degree for the relative error, by Remez' algorithm; quotients of polynomials
interpolate. Their coefficients are then rounded to float64. The bound is proven for these: balls of real numbers enclose the
polynomial's distance from the function and the errors of every operation that evaluates it, in the order of
`polynomials.evaluated`. A test proves the bounds in the file again.
"""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, arb_mat, arb_poly, arb_series, ctx

from anydml.kernels.numbers.functions.polynomials import Polynomial, Quotient, U, evaluated

TARGET = Path(__file__).parent.parent / "src" / "anydml" / "kernels" / "numbers" / "functions" / "coefficients.py"
HEAD = '''"""Polynomials of the elementary functions with proven bounds.

Made by tools/approximations.py (`make approximations`): change that, not this file.
"""

from anydml.kernels.numbers.functions.polynomials import Polynomial, Quotient, floats

'''
ORDER = 14  # terms of a Taylor series
NEAR = 2.0**-6  # distance from a zero of the function within which the series at the zero is used


class Wanted(NamedTuple):
    """A polynomial p of a degree with p(x^step) x^zero close to a function of x on low..high.

    function: takes power series. argument: the relative error of the polynomial's argument. pieces: the number of intervals
    into which a proof divides low..high.
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


def _scaled_erfc(z: Any) -> Any:
    """e^(z^2) erfc(z), which is the integral of 2 / sqrt(pi) e^(-x^2 - 2 x z) over x > 0, for a series z + x.

    Each of its derivatives is monotonic, so the values at the ends of an interval enclose those within it.
    """
    ends = [_of_point(arb(end)) for end in (z[0].lower(), z[0].upper())]
    return arb_series([x.union(y) for x, y in zip(*ends, strict=True)])


def _of_point(z: Any) -> list[Any]:
    at = arb_series([z, 1])
    found = (at * at).exp() * at.erfc()
    return [found[k] for k in range(ctx.cap)]


def _log2_tail(s: Any) -> Any:
    """The logarithm to the base 2 of (1 + s) / (1 - s) without its first term."""
    return (((1 + s) / (1 - s)).log() - 2 * s) / arb.const_log2()


HALF_LN2 = 0.34660
WANTED = {
    "EXP": Wanted("e^x", lambda x: x.exp(), -HALF_LN2, HALF_LN2, 10, chains=2),
    "EXP_NEAR": Wanted("e^x", lambda x: x.exp(), -0.02168, 0.02168, 5),
    "EXPM1": Wanted("(e^x - 1) / x", lambda x: x.exp() - 1, -HALF_LN2, HALF_LN2, 9, zero=1, chains=2),
    "LOG": Wanted(
        "log((1 + s) / (1 - s)) / s of s^2", lambda s: ((1 + s) / (1 - s)).log(), 0, 0.1716, 6, 2, 1, 8 * U, chains=2
    ),
    "LOG_WIDE": Wanted(
        "log((1 + s) / (1 - s)) / s of s^2", lambda s: ((1 + s) / (1 - s)).log(), 0, 0.33334, 8, 2, 1, 32 * U, chains=2
    ),
    "LOG2_TAIL": Wanted(
        "(log2((1 + s) / (1 - s)) - 2 s / log 2) / s^3 of s^2", _log2_tail, 0, 0.1716, 7, 2, 3, 8 * U, chains=2
    ),
    "LOG2_NEAR": Wanted("log2(1 + x) / x", lambda x: (1 + x).log() / arb.const_log2(), -0.0335, 0.0335, 7, zero=1),
    "LOG2_NEAR_EIGHTHS": Wanted("log2(1 + x) / x", lambda x: (1 + x).log() / arb.const_log2(), -0.06251, 0.06251, 8, zero=1),
    "EXP2_NEAR": Wanted("2^x", lambda x: (x * arb.const_log2()).exp(), -0.03126, 0.03126, 4),
    "EXP2_NEAR_EIGHTHS": Wanted("2^x", lambda x: (x * arb.const_log2()).exp(), -0.06251, 0.06251, 5),
    "EXP2": Wanted("2^x", lambda x: (x * arb.const_log2()).exp(), -0.5001, 0.5001, 10, chains=4),
    "SIN": Wanted("sin(x) / x of x^2", lambda x: x.sin(), 0, 1.5709, 7, 2, 1, 10 * U),
    "TAN": Wanted("tan(x) / x of x^2", lambda x: x.tan(), 0, 0.7855, 12, 2, 1, 10 * U, chains=2),
    "ASIN": Wanted("asin(x) / x of x^2", lambda x: x.asin(), 0, 0.5, 11, 2, 1, 3 * U, chains=2),
    "ATAN": Wanted("atan(x) / x of x^2", lambda x: x.atan(), 0, 0.41422, 9, 2, 1, 8 * U, chains=2),
    "ERF": Wanted("erf(x) / x of x^2", lambda x: x.erf(), 0, 0.5, 7, 2, 1, U),
}


class WantedQuotient(NamedTuple):
    """A quotient of polynomials that equals a function of x >= 0 at the Chebyshev points of (x - centre) / (x + centre)."""

    text: str
    function: Callable[[Any], Any]
    high: float
    centre: float
    degree_above: int
    degree_below: int
    chains: int = 1
    pieces: int = 384

    def at(self, angle: float) -> float:
        """A number between 0 and high, for an angle between 0 and pi."""
        t = -1 + self.high / (self.high + self.centre) * (1 - math.cos(angle))
        return min(self.centre * (1 + t) / (1 - t), self.high)


QUOTIENTS = {"ERFC": WantedQuotient("e^(z^2) erfc(z)", _scaled_erfc, 26.64, 2.6, 8, 9, chains=2)}


def fitted_quotient(wanted: WantedQuotient) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The coefficients, rounded to float64; the constant term of the denominator is 1."""
    ctx.prec, ctx.cap = 700, 1
    n = wanted.degree_above + wanted.degree_below + 1
    points = [arb(wanted.at(math.pi * (2 * i + 1) / (2 * n))) for i in range(n)]
    values = [wanted.function(arb_series([x, 1]))[0].mid() for x in points]
    powers = [[x**k for k in range(max(wanted.degree_above, wanted.degree_below) + 1)] for x in points]
    rows = [
        p[: wanted.degree_above + 1] + [-g * x for x in p[1 : wanted.degree_below + 1]]
        for p, g in zip(powers, values, strict=True)
    ]
    solved = arb_mat(rows).solve(arb_mat([[g] for g in values]))
    found = [float(solved[k, 0].mid()) for k in range(n)]
    return tuple(found[: wanted.degree_above + 1]), (1.0, *found[wanted.degree_above + 1 :])


def proved_quotient(wanted: WantedQuotient, above: Sequence[float], below: Sequence[float]) -> float:
    """A bound of the relative error of both polynomials together."""
    ctx.prec, ctx.cap = 300, ORDER + 1
    p, q = (arb_poly([arb(c) for c in part]) for part in (above, below))
    worst = arb(0)
    for a, b in pairwise([wanted.at(math.pi * i / wanted.pieces) for i in range(wanted.pieces + 1)]):
        x = arb(a).union(arb(b))

        def difference(at: Any) -> Any:
            moved = arb_poly([at, 1])
            return arb_series(p(moved).coeffs()) - arb_series(q(moved).coeffs()) * wanted.function(arb_series([at, 1]))

        distance = _relative(_enclosed(difference, x), p(x))
        parts = [
            evaluated(Bounded(x, arb(0)), c, wanted.chains, _twice_rounded, lambda v: _times(v, v)) for c in (above, below)
        ]
        up, down = (part.error / abs(part.value) for part in parts)
        bound = ((1 + distance) * (1 + up) / (1 - down) - 1).upper()
        worst = bound if bound > worst else worst
    assert worst.is_finite()
    return _above(worst)


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
    """n points with large errors of alternating signs."""
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
    """The result of an operation on real numbers, and a bound on the distance of the float64 result from it."""

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
    """A float64 with few digits that is at least x."""
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

    def difference(at: Any) -> Any:
        moved = arb_series(p(arb_poly([at, 1])).coeffs()) * arb_series([at, 1]) ** wanted.zero
        return moved - wanted.function(arb_series([at, 1]))

    return _relative(_enclosed(difference, x), p(x) * x**wanted.zero)


def _enclosed(function: Callable[[Any], Any], x: Any) -> Any:
    """A bound of a function on an interval: its series at the middle, and Lagrange's remainder."""
    half = x.rad()
    near, wide = function(x.mid()), function(x)
    return sum((abs(near[k]) * half**k for k in range(ORDER)), abs(wide[ORDER]) * half**ORDER)


def _distance_at_zero(wanted: Wanted, p: Any, x: Any) -> Any:
    """The same at the function's zero, from its series there."""
    at_zero, wide = (wanted.function(arb_series([at, 1])) for at in (arb(0), x))
    far = abs(x).upper()
    mine, rest = p.coeffs(), abs(wide[ORDER + wanted.zero]) * far**ORDER
    series = [at_zero[k + wanted.zero] for k in range(ORDER)]
    mine, padded = (part + [arb(0)] * (max(len(mine), ORDER) - len(part)) for part in (mine, series))
    error = sum((abs(a - b) * far**k for k, (a, b) in enumerate(zip(mine, padded, strict=True))), rest)
    return _relative(error, p(x))


def _relative(error: Any, approximation: Any) -> Any:
    """A bound of the error relative to the function, from the error relative to its approximation."""
    smallest = abs(approximation) - error
    assert smallest > 0, (error, approximation)
    return (error / smallest).upper()


def made(name: str, wanted: Wanted) -> Polynomial:
    coefficients = fitted(wanted)
    return _described(wanted, coefficients, proved(wanted, coefficients))


def _described(wanted: Wanted, coefficients: tuple[float, ...], rel: float) -> Polynomial:
    low, high = wanted.low**wanted.step, wanted.high**wanted.step
    return Polynomial(wanted.text, low, high, wanted.argument, rel, wanted.chains, coefficients)


def made_quotient(wanted: WantedQuotient) -> Quotient:
    above, below = fitted_quotient(wanted)
    return Quotient(wanted.text, 0.0, wanted.high, proved_quotient(wanted, above, below), wanted.chains, above, below)


def table(values: Sequence[float | int]) -> str:
    """Numbers as the text of a table of floats, or of integers."""
    kind, shown = ("integers", str) if isinstance(values[0], int) else ("floats", float.hex)
    first, *others = textwrap.wrap(" ".join(map(shown, values)), 100)
    return f'{kind}("{first}"' + "".join(f'\n    " {line}"' for line in others) + ")"


def text(found: dict[str, Polynomial | Quotient]) -> str:
    """The module, in which a tuple of floats is a table of hexadecimal ones."""
    parts = []
    for name, p in found.items():
        fields = [table(value) if isinstance(value, tuple) else repr(value).replace("'", '"') for value in p]
        degrees = " and ".join(str(len(value) - 1) for value in p if isinstance(value, tuple))
        comment = f"  # degree {degrees}, proven to 2^{math.log2(p.rel):.2f}"
        parts.append(f"{name} = {type(p).__name__}({comment}\n" + "".join(f"    {x},\n" for x in fields) + ")\n")
    return HEAD + "".join(parts)


if __name__ == "__main__":
    found: dict[str, Polynomial | Quotient] = {name: made(name, wanted) for name, wanted in WANTED.items()}
    found |= {name: made_quotient(wanted) for name, wanted in QUOTIENTS.items()}
    for name, p in found.items():
        print(f"{name}: 2^{math.log2(p.rel):.2f}")
    TARGET.write_text(text(found))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", TARGET], check=True)
