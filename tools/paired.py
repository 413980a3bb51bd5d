"""Makes the tables and the polynomials of functions in pairs of float32: `make approximations`.

A table has eight or 32 entries, as many as one instruction can select from. A polynomial has the least sum of weighted squared
distances at Chebyshev's nodes; each coefficient is rounded to float32 before those of higher degree are fitted. The pairs are
proven on all arguments (`tools/prove_pairs.py`), so that no bounds are needed here.
"""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flint import arb, arb_mat, ctx

import circles
from approximations import table

TARGET = Path(__file__).parent.parent / "src" / "anydml" / "kernels" / "numbers" / "functions" / "paired_tables.py"
HEAD = '''"""Tables and polynomials of functions in pairs of float32, by their bits or as hexadecimal floats.

Made by tools/paired.py (`make approximations`): change that, not this file.
"""

from anydml.kernels.numbers.functions.polynomials import floats, integers

'''
NODES = 120


def single(x: Any) -> float:
    """The nearest float32; no number here is a tie in float64."""
    return float(struct.unpack("<f", struct.pack("<f", float(x)))[0])


def word(x: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", x))[0])


def fitted(function: Callable[[Any], Any], weight: Callable[[Any], Any], low: float, high: float, count: int) -> list[float]:
    """The coefficients in float32 of a polynomial of `count` terms."""
    middle, half = (low + high) / 2, (high - low) / 2
    xs = [arb(middle + half * math.cos(math.pi * (2 * i + 1) / (2 * NODES))) for i in range(NODES)]
    found: list[float] = []
    while len(found) < count:
        rest = [(function(x) - sum((c * x**k for k, c in enumerate(found)), arb(0))) * weight(x) for x in xs]
        terms = arb_mat([[x**k * weight(x) for k in range(len(found), count)] for x in xs])
        turned = terms.transpose()
        solved = (turned * terms).solve(turned * arb_mat([[y] for y in rest]))
        found.append(single(solved[0, 0].mid()))
    return found


def centered(function: Callable[[Any], Any], weight: Callable[[Any], Any], high: float, count: int) -> list[float]:
    """The coefficients in float64 of a polynomial of the distance from the middle of 0 .. high."""
    half = arb(high) / 2
    xs = [half * math.cos(math.pi * (2 * i + 1) / (2 * NODES)) for i in range(NODES)]
    weights = [weight(x + half) for x in xs]
    terms = arb_mat([[x**k * w for k in range(count)] for x, w in zip(xs, weights, strict=True)])
    turned = terms.transpose()
    wanted = arb_mat([[function(x + half) * w] for x, w in zip(xs, weights, strict=True)])
    solved = (turned * terms).solve(turned * wanted)
    return [float(solved[k, 0].mid()) for k in range(count)]


def split(x: Any) -> tuple[float, float]:
    """A number as the sum of two float32."""
    head = single(x)
    return head, single(x - head)


def exponentials(bits: int, terms: int) -> dict[str, Sequence[float | int] | float]:
    """e^x = 2^k h (1 + l) e^r: h and l for every 2^-bits of k; the bits of h miss what the bits of k will add."""
    count = 1 << bits
    step = arb.const_log2() / count
    heads = [single((step * j).exp()) for j in range(count)]
    head, tail = split(step)
    width = float(step) / 2 * 1.0001
    return {
        f"EXP{count}_HEADS": [word(h) - (j << 23 - bits) for j, h in enumerate(heads)],
        f"EXP{count}_TAILS": [single((step * j).exp() / h - 1) for j, h in enumerate(heads)],
        f"EXP{count}_INVERSE": single(1 / step),
        f"EXP{count}_STEP": head,
        f"EXP{count}_STEP_TAIL": tail,
        # (e^r - 1 - r - r^2 / 2) / r^3
        f"EXP{count}_TERMS": fitted(lambda r: (r.exp() - 1 - r - r**2 / 2) / r**3, lambda r: r**3, -width, width, terms),
    }


def hyperbolic() -> dict[str, Sequence[float | int] | float]:
    """(tanh(x) - x) / x^3 of x^2, for x below a sixteenth."""

    def tail(v: Any) -> Any:
        x = v.sqrt()
        return (x.tanh() - x) / x**3

    return {"TANH": fitted(tail, lambda v: v, 0.0, 1 / 256, 3)}


def circle(count: int, terms: tuple[int, int]) -> dict[str, Sequence[float | int] | float]:
    """Angles k pi / count + d, their sines and cosines, and polynomials of r^2 for the sine and the cosine of the rest r.

    These are (sin(r) - r) / r^3 and -2 (cos(r) - 1 + r^2 / 2) / r^4.
    """
    step, shifts = arb.pi() / count, circles.shifts(count)
    angles = circles.angles(count, shifts)
    reach = (float(step) / 2 * 1.0005 + max(map(abs, shifts))) ** 2

    def sine(v: Any) -> Any:
        return (v.sqrt().sin() - v.sqrt()) / (v * v.sqrt())

    def cosine(v: Any) -> Any:
        return -2 * (v.sqrt().cos() - 1 + v / 2) / v**2

    head, tail = split(step)
    return {
        f"CIRCLE{count}_SHIFTS": shifts,
        f"CIRCLE{count}_SINES": [single(a.sin()) if k else 0.0 for k, a in enumerate(angles)],
        f"CIRCLE{count}_COSINES": [single(a.cos()) if 2 * k != count else 0.0 for k, a in enumerate(angles)],
        f"CIRCLE{count}_INVERSE": single(1 / step),
        f"CIRCLE{count}_STEP": head,
        f"CIRCLE{count}_STEP_TAIL": tail,
        f"SIN{count}_TERMS": fitted(sine, lambda v: v * v.sqrt(), 0.0, reach, terms[0]),
        f"COS{count}_TERMS": fitted(cosine, lambda v: v**2, 0.0, reach, terms[1]),
    }


ERF_FAR = 3.9375  # erf rounds to 1 beyond
GELU_FAR = 5.625  # GELU rounds to x beyond


def errors() -> dict[str, Sequence[float | int] | float]:
    """erf(x) / x of x^2 and (Phi(x) - 1/2) / x of x^2, each of the distance of x^2 from the middle: in float64."""

    def erf(v: Any) -> Any:
        return v.sqrt().erf() / v.sqrt()

    def normal(v: Any) -> Any:
        return (v / 2).sqrt().erf() / v.sqrt() / 2

    return {
        "ERF_FAR": ERF_FAR,
        "ERF": centered(erf, lambda v: 1 / erf(v), ERF_FAR**2, ERF_TERMS),
        "GELU_FAR": GELU_FAR,
        "GELU": centered(normal, lambda v: v.sqrt() + 0.01, GELU_FAR**2, GELU_TERMS),
    }


ERF_TERMS, GELU_TERMS = 20, 21
FIRST = 0x3F355556  # the bits of the least m: eight cells of 2^20 float32 follow, of which the fifth has 1 in its middle


def logarithms() -> dict[str, Sequence[float | int] | float]:
    """log m = g + l + log(1 + r) with r = m c - 1 for a c of five bits, so that r is exact; g is a multiple of 2^-17."""
    factors, heads, tails = [], [], []
    for j in range(8):
        low, high = (struct.unpack("<f", struct.pack("<i", FIRST + (k << 20)))[0] for k in (j, j + 1))
        step = 16 if low < 1 else 32
        reach, c = min((max(abs(low * k / step - 1), abs(high * k / step - 1)), k / step) for k in range(8, 48))
        if low < 1 < high:
            reach, c = max(1 - low, high - 1), 1.0
        assert reach < LOG_REACH * (1 + 2**-19)
        # of the cells beside that of 1, log2(1 + r) and log2 c are at most 2.5 times the logarithm; of others, they are less
        nearest = min(abs(math.log2(low)), abs(math.log2(high)))
        assert c == 1 or nearest * 2.5 > max(reach / math.log(2), abs(math.log2(c)))
        value = -arb(c).log()
        head = round(float(value) * 2**17) / 2**17
        factors.append(c)
        heads.append(head)
        tails.append(single(value - head))
    ln2 = round(math.log(2) * 2**17) / 2**17
    return {
        "LOG_FIRST": FIRST,
        "LOG_FACTORS": factors,
        "LOG_HEADS": heads,
        "LOG_TAILS": tails,
        "LOG2_VALUES_8": [float((-arb(c).log() / arb.const_log2()).mid()) for c in factors],
        "LN2_HEAD": ln2,
        "LN2_TAIL": single(arb.const_log2() - ln2),
        # (log(1 + r) - r + r^2 / 2) / r^3
        "LOG": fitted(lambda r: ((1 + r).log() - r + r**2 / 2) / r**3, lambda r: abs(r) ** 2.5, -LOG_REACH, LOG_REACH, 5),
    }


LOG_REACH = 2.0**-4


def doubles(x: int) -> float:
    """The float64 numbers with the bits of x."""
    return float(struct.unpack("<d", struct.pack("<q", x))[0])


def bits_of(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


FIRST_16 = bits_of(1.0) - (
    15 << 47
)  # the least m: sixteen cells of 2^48 float64 follow, of which the eighth has 1 in its middle


def powers() -> dict[str, Sequence[float | int] | float]:
    """In float64, log2 m = log2(1 + r) + g with r = m c - 1 for a c of eight bits; and 2^(j / 16), but for j's bits."""
    factors, values = [], []
    for j in range(16):
        low, high = (doubles(FIRST_16 + (k << 48)) for k in (j, j + 1))
        reach, c = min((max(abs(low * k / 128 - 1), abs(high * k / 128 - 1)), k / 128) for k in range(64, 192))
        if low < 1 < high:
            reach, c = max(1 - low, high - 1), 1.0
        assert reach <= 0.0335
        # of the cells beside that of 1, log2(1 + r) and log2 c are at most 2.2 times the logarithm; of others, they are less
        assert c == 1 or min(abs(math.log2(low)), abs(math.log2(high))) * 2.2 > max(reach / math.log(2), abs(math.log2(c)))
        factors.append(c)
        values.append(float((-arb(c).log() / arb.const_log2()).mid()))
    return {
        "LOG2_FIRST": FIRST_16,
        "LOG2_FACTORS": factors,
        "LOG2_VALUES": values,
        "SIXTEENTHS": [doubles(bits_of(float((arb(2) ** (arb(j) / 16)).mid())) - (j << 48)) for j in range(16)],
        "EIGHTHS": [doubles(bits_of(float((arb(2) ** (arb(j) / 8)).mid())) - (j << 49)) for j in range(8)],
    }


def text(found: dict[str, Sequence[float | int] | float]) -> str:
    def number(x: float | int) -> str:
        return f'float.fromhex("{x.hex()}")' if isinstance(x, float) else str(x)

    return HEAD + "".join(f"{name} = {number(x) if isinstance(x, (float, int)) else table(x)}\n" for name, x in found.items())


if __name__ == "__main__":
    ctx.prec = 400
    TARGET.write_text(
        text(
            {
                **exponentials(3, 3),
                **exponentials(5, 2),
                **hyperbolic(),
                **circle(8, (3, 2)),
                **circle(32, (2, 1)),
                **logarithms(),
                **errors(),
                **powers(),
            }
        )
    )
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", TARGET], check=True)
