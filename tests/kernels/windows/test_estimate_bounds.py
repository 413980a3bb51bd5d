"""The bound of an estimate of quantised means, beside the means as they are stated, in float32 step by step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from anydml.kernels.match.between import QuantisedMeans
from anydml.kernels.windows.estimate import RECORD, Counts, numbers
from anydml.tensor import DataType
from every_kernel import SOAK, Ran

UINT8 = DataType.UINT8
CHANGED = 1.25
# scale and zero point of the input and of the output, the number of elements, and the largest ratio of an error to the bound
CASES = (
    ((0.02, 7), (0.03, 11), 9, 0.211),
    ((0.7, 0), (0.3, 0), 49, 0.174),
    ((0.11, 128), (0.06, 128), 4, 0.21),
    ((0.9, 3), (0.9, 200), 25, 0.209),
)


@pytest.mark.parametrize(("x", "y", "count", "record"), CASES)
def test_estimates_are_within_their_bound(
    x: tuple[float, int], y: tuple[float, int], count: int, record: float, ran: Ran
) -> None:
    x_scale, y_scale = np.float32(x[0]), np.float32(y[0])
    statement: Any = None  # is not read
    means = QuantisedMeans(statement, "x", (float(x_scale), x[1]), (-math.inf, math.inf), (float(y_scale), y[1]))
    found = numbers(means, UINT8, UINT8, Counts({count: 1.0}, True, float(count)))
    assert not isinstance(found, str)
    bound = 0.5 - float(found.record.view(RECORD)["limit"][0])
    rng, largest, cases = np.random.RandomState(count), 0.0, 0
    for _ in range(400 * SOAK):
        middle = rng.randint(0, 256)
        centred = np.clip(rng.randint(middle - 40, middle + 40, count), 0, 255) - x[1]
        stated = sum((Fraction(float(x_scale * np.float32(d))) for d in centred), Fraction()) / count
        quotient = np.float32(np.float32(float(stated)) / y_scale)
        if abs(quotient) > 256:
            continue
        factor = np.float32(float(found.record.view(RECORD)["ratio"][0]) / count)
        estimate = np.float32(np.float32(int(centred.sum())) * factor)
        largest, cases = max(largest, abs(float(estimate) - float(quotient)) / bound), cases + 1
    print(f"the largest error is {largest:.4f} of the bound")
    assert largest <= 1
    if SOAK == 1:
        assert record / CHANGED <= largest <= record * CHANGED, f"the largest ratio is {largest:.3g}, and was {record}"
    ran(cases, 150 * SOAK)
