"""Margins of sines and cosines in pairs of float32, with both tables: each part of one is next to errors of some angles.

`python tests/kernels/elementwise/test_paired_angles.py` prints the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray

import number_kernels
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Value
from anydml.kernels.numbers.functions import paired, paired_circular
from anydml.kernels.numbers.functions.paired_circular import FAR
from every_kernel import without_dot_products
from number_kernels import columns

Array = NDArray[Any]
SERVED = [t for t in without_dot_products() if paired.serves(Body(t))]
COUNT = 3000


def entries(rng: np.random.Generator) -> Array:
    """Angles next to those of the tables, where only what sines and cosines of these miss counts."""
    shifts = [paired_circular.EIGHT.shifts, paired_circular.THIRTY_TWO.shifts]
    angles = np.concatenate([np.arange(len(d)) * math.pi / len(d) + d for d in shifts])
    return rng.choice(angles[angles > 0.05], COUNT) + rng.uniform(-(2.0**-9), 2.0**-9, COUNT)


def close(rng: np.random.Generator) -> Array:
    """Large angles that are close to multiples of half a turn or, for cosines, of a quarter."""
    return np.concatenate([np.arange(2000, 10000) * math.pi, np.arange(4001, 20000, 2) * math.pi / 2])


ANGLES: Mapping[str, Callable[[np.random.Generator], Array]] = {
    "entries": entries,
    "any": lambda rng: rng.uniform(-40, 40, COUNT),
    "close": close,
}
# the largest ratio of an error and the margin, with eight and with 32 entries
RECORDS: Mapping[str, tuple[float, float]] = {
    "sin, entries": (0.641, 0.275),
    "sin, any": (0.63, 0.484),
    "sin, close": (0.857, 0.857),
    "cos, entries": (0.624, 0.331),
    "cos, any": (0.474, 0.559),
    "cos, close": (0.858, 0.858),
}


def ratios(name: str, target: Target, x: Array) -> Array:
    """The errors of pairs as shares of their margins; of angles that are not served, 0."""
    lanes = 16 if "avx512f" in target.features else 8

    def of(wide: Value) -> list[Value]:
        made = paired.FUNCTIONS[name](wide.converted("fptrunc", wide.kind.of("float")))
        assert made.sign is not None
        assert made.outside is not None
        negative = made.sign.compared("slt", 0)
        return [*(v.converted("fpext", wide.kind) for v in (made.head, made.low, made.high)), negative, made.outside]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(number_kernels, "LANES", lanes)
        rows = zip(x.tolist(), *(column.tolist() for column in columns(target, of, x)), strict=True)
    found = []
    with gmpy2.context(precision=120):
        function = getattr(gmpy2, name)
        for t, head, low, high, negative, outside in rows:
            exact = function(gmpy2.mpfr(t)) * (-1 if negative else 1) - head
            found.append(0.0 if outside else float(abs(exact - (low + high) / 2) / ((high - low) / 2)))
    return np.array(found)


def largest(name: str, kind: str, target: Target) -> float:
    x = ANGLES[kind](np.random.default_rng(5)).astype(np.float32).astype(np.float64)
    return float(ratios(name, target, x).max())


@pytest.mark.parametrize("target", SERVED, ids=lambda t: t.name)
@pytest.mark.parametrize("kind", ANGLES)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_margins_are_next_to_errors(name: str, kind: str, target: Target) -> None:
    found = largest(name, kind, target)
    assert found < 1
    assert found == pytest.approx(RECORDS[f"{name}, {kind}"]["avx512f" in target.features], rel=0.25), "a margin has changed"


@pytest.mark.parametrize("target", SERVED[-1:], ids=lambda t: t.name)
def test_the_farthest_angles(target: Target) -> None:
    x = np.array([FAR, np.nextafter(np.float32(FAR), np.float32(np.inf)), np.inf, np.nan])
    served = ratios("sin", target, np.array([*x, *-x])) > 0
    assert served.tolist() == [True, False, False, False] * 2


if __name__ == "__main__":
    for function in ("sin", "cos"):
        for what in ANGLES:
            one = [largest(function, what, t) for t in (SERVED[0], SERVED[-1])]
            print(f'    "{function}, {what}": ({one[0]:.3g}, {one[1]:.3g}),')
