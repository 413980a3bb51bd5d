"""Sums of pairs of a softmax's second stage: the error of many additions, beside its bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from anydml.kernels.reduce.doubled import added, lost

U = 2.0**-53
RECORDS = {64: 0.0746, 1000: 0.0825, 4096: 0.0805}  # by the number of terms, the error divided by the bound


@pytest.mark.parametrize("count", RECORDS)
def test_the_error_of_many_additions_stays_below_its_bound(count: int) -> None:
    """Terms below half a place of the head, each of which makes the tail lose nearly half a place, always downwards."""
    zero: Any = np.float64(0)  # NumPy's numbers serve as a kernel's values
    total: Any = (zero + 1, zero)
    exact = Fraction(1)
    for _ in range(count):
        place = np.spacing(total[1]) if total[1] > 4 * U else 0.0
        term: Any = (0.97 * U // place * place + place / 2 - U * U) if place else np.float64(0.97 * U)
        total = added(total, (term, zero))
        exact += Fraction(float(term))
    assert total[0] == 1
    error = float(exact - Fraction(float(total[0])) - Fraction(float(total[1])))
    assert error / lost(count) == pytest.approx(RECORDS[count], rel=0.02)
