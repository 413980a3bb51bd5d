"""Angles close to multiples of pi / n whose sine and cosine are both nearly float32, for the tables of `paired.py`.

Such angles are found among the multiples of 2^-(22 + log2 n), so that differences of them and float32 are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

SEARCHED = {8: 0.012, 32: 0.006}  # the largest distance from a multiple; r grows by it
PI = np.longdouble(3.141592653589793116) + np.longdouble(1.2246467991473532e-16)
Wide = NDArray[np.longdouble]


def shifts(count: int) -> list[float]:
    """The distances of `count` angles from multiples of pi / count; those beyond a quarter of a turn mirror the others."""
    unit = np.longdouble(2) ** -(22 + count.bit_length() - 1)
    most = int(SEARCHED[count] / float(unit))
    by = np.arange(-most, most + 1) * unit
    found = [0.0] * count
    for j in range(1, count // 2):
        sine, cosine = (f(PI * j / count + by) for f in (np.sin, np.cos))
        reach, least = float(PI) / count / 2, np.sin(PI * (j - 0.5) / count)
        error = (
            (_lost(sine) + (reach + abs(by)) * _lost(cosine)) / least * (1 + abs(by) / reach * 2)
        )  # short distances are better
        found[j] = float(by[np.argmin(error)])
        found[count - j] = -found[j]
    return found


def _lost(x: Wide) -> Wide:
    """The distance from the nearest float32."""
    return np.abs(x - x.astype(np.float32))


def angles(count: int, distances: Sequence[float]) -> list[Any]:
    return [arb.pi() * j / count + d for j, d in enumerate(distances)]
