"""Norms of rows of dequantised weights, beside exact ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from anydml import DataType
from anydml.kernels.contract.weights.factor import WeightsFactor
from anydml.kernels.contract.weights.packing import norms

NEXT = 1 + 2.0**-10  # three times this is between two FLOAT16 numbers, and rounded up


@pytest.mark.parametrize("scale", [NEXT, NEXT * 2.0**-12, 1.0, 2.0**-24])
def test_norms_are_just_above_those_of_rounded_weights(scale: float) -> None:
    zeros = np.full((2, 3), 8, np.uint8)
    elements = np.repeat(np.array([[11, 5, 11], [8, 15, 0]], np.uint8), 4, axis=1)
    weights = WeightsFactor(DataType.FLOAT16, (2, 12), False, 4, elements, np.full((2, 3), scale, np.float32), zeros)
    for found, row in zip(norms(weights, 2), weights.dequantised(), strict=False):
        ratio = Fraction(float(found)) ** 2 / sum(Fraction(float(w)) ** 2 for w in row)
        assert ratio >= 1
        if scale > 2.0**-14:  # else a half of the smallest number is added for each weight
            assert ratio < 1 + 2.0**-8
