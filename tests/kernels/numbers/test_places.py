"""Numbers that are moved by a place or more: what is rounded beside ties, and the ends of known ranges."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest

from anydml import DataType
from anydml.exact.formats import FORMATS
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Value
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import outward
from number_kernels import columns


@pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.FLOAT8_E4M3FN, DataType.FLOAT8_E5M2], ids=str)
def test_a_place_beside_a_tie_decides_nothing_and_four_places_do(data_type: DataType) -> None:
    """Of ties whose even neighbour is above, and below."""

    def undecided(wide: Value) -> list[Value]:
        return [singles.near(wide.converted("fptrunc", wide.kind.of("float")), data_type)[1]]

    half = 2.0 ** -FORMATS[data_type].precision
    ties = [s * (1 + k * half) * 2.0**e for s in (1, -1) for k in (1, 3) for e in (0, 3)]
    beside = np.array(
        [math.copysign(abs(t) + n * 2.0**-23 * 2.0 ** math.floor(math.log2(abs(t))), t) for t in ties for n in (0, 4, -4)]
    )
    assert columns(targets()[0], undecided, beside)[0].tolist() == [1, 0, 0] * len(ties)


@pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
@pytest.mark.parametrize("size", [1.0, 2.0**-70])
def test_a_record_of_a_product_of_float32_is_within_its_rounding(size: float) -> None:
    """Of normal products, and of subnormal ones, whose errors are up to 2^-150."""

    def told(x: Value, y: Value) -> list[Value]:
        a, b = (v.converted("fptrunc", v.kind.of("float")) for v in (x, y))
        found: list[Value] = []
        with patch.object(recorded, "claimed", lambda head, tail, bound, *_: found.extend((head, bound))):
            recorded.number(Number(x.body, lambda: x * y, native=lambda: a * b), lambda _: (x, y), 32)
        return found

    x, y = (np.random.default_rng(k).uniform(size, 2 * size, 200).astype(np.float32).astype(float) for k in (1, 2))
    head, bound = columns(targets()[0], told, x, y)
    used = abs(head - x * y) / -bound  # float64 holds the products
    assert 0.5 < used.max() <= 1


@pytest.mark.parametrize("x", [1.0, -1.0, 1.75, -3e40])
def test_ends_are_moved_by_some_places(x: float) -> None:
    low, high = outward(x, x)
    assert low < math.nextafter(x, -math.inf)
    assert math.nextafter(x, math.inf) < high
    assert high - low < 2.0**-47 * abs(x)
