"""Random bits beside the reference: of every length up to some vectors, and where a counter carries into its next word."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml

FULL = (1 << 32) - 1
STATES = ((1, 2, 3, 4, 5, 6), (FULL - 1, FULL, 0, 0, 7, 8), (FULL, FULL, FULL, FULL, 9, FULL))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 31, 67])
def test_bits_are_those_of_the_reference(count: int) -> None:
    for state in STATES:
        given = np.array(state, np.uint32)
        made = [
            dml.random_generator(given, output_sizes=(count,), device=dml.Device(d, threads=1)) for d in ("reference", "cpu")
        ]
        for a, b in zip(*made, strict=True):
            assert np.array_equal(a, b)
