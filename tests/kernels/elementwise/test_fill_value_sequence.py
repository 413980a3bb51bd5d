"""FILL_VALUE_SEQUENCE in machine code, for any start and step: the oracle's bits."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from agreement import bits, expected
from anydml import DataType, Device, TensorDesc
from anydml.operators.fill_value_sequence import FillValueSequence
from anydml.schema.types import TEN
from anydml.tensor import limits
from every_kernel import SOAK, Ran, without_dot_products

FLOATS = (0.0, -0.0, 1.0, -3.7, 2.0**-149, 2.0**-24, 65504.0, -3.4e38, math.inf, -math.inf, math.nan)

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


def extremes(data_type: DataType) -> list[float]:
    if data_type.dtype.kind == "f":
        return [x for x in FLOATS if not math.isfinite(x) or abs(x) <= float(np.finfo(data_type.dtype).max)]
    low, high = limits(data_type)
    return sorted({low, low + 1, low // 3, 0, 1, high // 3, high - 1, high})


@pytest.mark.parametrize("data_type", TEN, ids=str)
def test_any_start_and_any_step(data_type: DataType, ran: Ran) -> None:
    """64-bit integers wrap along the sequence, while the positions must not."""
    values = extremes(data_type)
    pairs = list(product(values, values))[:: 1 if SOAK > 1 else 2]
    for k, (start, delta) in enumerate(pairs):
        t = TensorDesc(data_type, ((37,), (2, 3, 7), (1,))[k % 3])
        desc = FillValueSequence(output_tensor=t, value_data_type=data_type, value_start=start, value_delta=delta)
        target = without_dot_products()[k % len(without_dot_products())]
        compiled = Device(isa=target.name).compile(desc)
        assert compiled.kernel_name == "elementwise:compiled", desc
        found = np.full(t.sizes, 85, data_type.dtype)
        compiled.bind(output_tensor=found).execute()
        np.testing.assert_array_equal(bits(found), bits(expected(desc, {})["output_tensor"]), str(desc))
    ran(len(pairs), 12)
