"""Rows whose exact reduction is a tie of FLOAT32, or at a relative distance of 2^-36 to 2^-59 from one.

A tie is drawn first, and then most elements of the row. The last elements are float32 numbers that make up the difference.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

Row = list[Any]  # mpq numbers that are float32
_CLOSE = gmpy2.context(precision=160, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
LEAST, MOST = -149, 128  # the exponents of the smallest float32, and of the first number that is too large


def _power(e: int) -> Any:
    return mpq(2) ** e


def _exponent(x: Any) -> int:
    """e with 2^e <= |x| < 2^(e + 1)."""
    n, d = abs(x.numerator), x.denominator
    e = int(n.bit_length() - d.bit_length())
    return e if n * _power(-e).numerator * 1 >= d * _power(-e).denominator else e - 1


def _cut(x: Any) -> Any:
    """A number rounded toward zero to float32: the relative error is at most 2^-23, unless the result is subnormal."""
    if not x:
        return x
    unit = _power(max(_exponent(x) - 23, LEAST))
    return mpq(int(x / unit)) * unit


def _single(rng: random.Random, low: int, high: int) -> Any:
    """A positive float32 between 2^low and 2^high."""
    return mpq(rng.randrange(1 << 23, 1 << 24)) * _power(rng.randrange(low, high) - 23)


def _target(rng: random.Random, low: int, high: int) -> Any:
    """A positive tie, or a number close to one."""
    tie = (2 * rng.randrange(1 << 23, 1 << 24) + 1) * _power(rng.randrange(low, high) - 24)
    if rng.random() < 0.25:
        return tie
    return tie * (1 + rng.choice((-1, 1)) * _power(-rng.randrange(36, 60)))


def _sum_to(total: Any, parts: int) -> Row:
    """Numbers with a given sum, nearly."""
    found = []
    for _ in range(parts):
        found.append(_cut(total))
        total -= found[-1]
    return found


def _signed(rng: random.Random, row: Iterable[Any]) -> Row:
    return [x if rng.random() < 0.5 else -x for x in row]


# --- rows ---


def _sum(rng: random.Random, width: int, factor: int = 1, *, sign: bool = True) -> Row:
    total = _target(rng, -30, 40) * factor * (rng.choice((-1, 1)) if sign else 1)
    e = _exponent(total)
    row = _signed(rng, (_single(rng, e - 30, e + rng.choice((0, 0, 12))) for _ in range(max(width - 4, 0))))
    return row + _sum_to(total - sum(row), min(width, 4))


def _magnitudes(rng: random.Random, width: int) -> Row:
    total = _target(rng, -30, 40)
    e = _exponent(total) - width.bit_length()
    row = [_single(rng, e - 30, e) for _ in range(max(width - 4, 0))]
    return _signed(rng, row + _sum_to(total - sum(row), min(width, 4)))


def _squares_to(total: Any, parts: int) -> Row:
    found = []
    for _ in range(parts):
        root = mpq(gmpy2.isqrt(int(total * _power(200)))) * _power(-100)
        found.append(_cut(root))
        total -= found[-1] ** 2
    return found


def _squares(rng: random.Random, width: int, *, root: bool = False) -> Row:
    total = _target(rng, -20, 20)
    total = total * total if root else total
    e = _exponent(total) // 2 - width.bit_length()
    row = [_single(rng, e - 8, e) for _ in range(max(width - 6, 0))]
    return _signed(rng, row + _squares_to(total - sum(x * x for x in row), min(width, 6)))


def _logarithm_of_sum(rng: random.Random, width: int) -> Row:
    with gmpy2.context(_CLOSE):
        total = mpq(gmpy2.exp(mpfr(_target(rng, *rng.choice(((-30, -1), (-24, -23), (-3, 6)))) * rng.choice((-1, 1)))))
    if _exponent(total) > 80 or _exponent(total) < -60:
        return _logarithm_of_sum(rng, width)
    e = _exponent(total)
    row = _signed(rng, (_single(rng, e - 30, e + 3) for _ in range(max(width - 4, 0))))
    return row + _sum_to(total - sum(row), min(width, 4))


def _logarithm_of_powers(rng: random.Random, width: int) -> Row:
    with gmpy2.context(_CLOSE):
        wanted = _target(rng, *rng.choice(((-24, -10), (-10, 0), (0, 6)))) * rng.choice((-1, 1))
        left = gmpy2.exp(mpfr(wanted))
        top = float(wanted) - math.log(2 * width)
        row = []
        for k in range(width):
            x = top - rng.random() * 8 if k < width - 4 else float(gmpy2.log(left))
            x = mpq(float(np.nextafter(np.float32(x), np.float32(-np.inf))))
            row.append(x)
            left -= gmpy2.exp(mpfr(x))
        return row


def _product(rng: random.Random, width: int) -> Row:
    """Factors whose product is close to a tie: mostly three integers of 24 bits; else two, or two of 12 and 13 bits. The others
    are 1."""
    kind = rng.random()
    if kind < 0.25 or width < 3:  # 25 bits: a tie
        a = rng.randrange((1 << 11) + 1, 1 << 12, 2)
        factors = [a, (((3 << 23) // a) | 1)]
    elif kind < 0.5:  # 48 bits
        a = rng.randrange((1 << 23) + 1, 1 << 24, 2)
        b = ((1 << 23) + rng.choice((-1, 1)) * rng.randrange(1, 1 << rng.randrange(1, 11))) * pow(a, -1, 1 << 24) % (1 << 24)
        factors = [a, b or 1]
    else:
        factors = _triple(rng)
    row = [mpq(x) for x in factors[:width]]
    row = [x * _power(-_exponent(x)) for x in row] + [mpq(1)] * (width - len(row))
    # exponents whose sum is moderate, although partial products may overflow
    places = [rng.randrange(-120, 120) for _ in range(width)]
    while abs(over := sum(places) - rng.choice((0, 0, 0, -140, 120))) > 0:
        at = rng.randrange(width)
        step = max(min(over, places[at] + 120), places[at] - 120)
        places[at] -= step
    return _signed(rng, (x * _power(p) for x, p in zip(row, places, strict=True)))


_LOW = np.arange(1 << 12, dtype=np.uint64)
_MASK = np.uint64((1 << 48) - 1)


def _triple(rng: random.Random) -> list[int]:
    a, b = (rng.randrange((1 << 23) + (1 << 22), 1 << 24) | 1 for _ in range(2))
    m = np.uint64(a * b)
    fine = (m * _LOW) & _MASK
    order = np.argsort(fine)
    fine = fine[order]
    high = np.arange(1 << 11, 1 << 12, dtype=np.uint64) << np.uint64(12)
    wanted = (np.uint64(1 << 47) - m * high) & _MASK
    at = np.searchsorted(fine, wanted) % fine.size
    off = ((fine[at] - wanted) & _MASK).astype(np.int64)
    best = int(np.argmin(np.minimum(off, (1 << 48) - off)))
    return [a, b, int(high[best]) + int(order[at[best]])]


def _neighbours(rng: random.Random, width: int) -> Row:
    """Elements that are equal or one or two units apart, with some zeros."""
    x = _single(rng, -3, 3) * rng.choice((-1, 1))
    unit = _power(_exponent(x) - 23)
    return [x + rng.choice((0, 0, 0, 1, -1, -2)) * unit if rng.random() < 0.9 else mpq(0) for _ in range(width)]


ROWS: dict[str, Callable[[random.Random, int], Row]] = {
    "SUM": _sum,
    "AVERAGE": lambda rng, width: _sum(rng, width, width),
    "L1": _magnitudes,
    "SUM_SQUARE": _squares,
    "L2": lambda rng, width: _squares(rng, width, root=True),
    "LOG_SUM": _logarithm_of_sum,
    "LOG_SUM_EXP": _logarithm_of_powers,
    "MULTIPLY": _product,
    **dict.fromkeys(("MIN", "MAX", "ARGMIN", "ARGMAX"), _neighbours),
}


def rows(function: str, count: int, width: int, seed: int) -> NDArray[Any]:
    """Random rows for a function of REDUCE."""
    rng = random.Random(f"{function} {width} {seed}")
    found = np.empty((count, width), np.float32)
    for row in found:
        made = ROWS[function](rng, width)
        rng.shuffle(made)
        row[:] = [float(x) if x else rng.choice((0.0, -0.0)) for x in made]
    return found


# --- distances ---

_EXACT: dict[str, Callable[[list[Fraction]], Fraction]] = {
    "SUM": lambda row: sum(row, Fraction()),
    "AVERAGE": lambda row: Fraction(sum(row), len(row)),
    "L1": lambda row: Fraction(sum(map(abs, row))),
    "SUM_SQUARE": lambda row: Fraction(sum(x * x for x in row)),
    "MULTIPLY": lambda row: Fraction(math.prod(row)),
}


def distance(function: str, row: NDArray[Any]) -> float:
    """The relative distance of a row's exact result from the nearest tie; infinite if the result is 0 or subnormal."""
    elements = [Fraction(float(x)) for x in row]
    if function in _EXACT:
        x = mpq(_EXACT[function](elements))
    else:
        with gmpy2.context(_CLOSE):
            if function == "L2":
                x = mpq(gmpy2.sqrt(mpfr(mpq(sum(e * e for e in elements)))))
            elif function == "LOG_SUM":
                x = mpq(gmpy2.log(mpfr(mpq(sum(elements)))))
            else:
                x = mpq(gmpy2.log(sum(gmpy2.exp(mpfr(mpq(e))) for e in elements)))
    if not x or not LEAST + 24 < _exponent(x) < MOST - 1:
        return math.inf
    unit = _power(_exponent(x) - 23)
    rest = abs(x) / unit % 1
    return float(abs(rest - mpq(1, 2)) * unit / abs(x))
