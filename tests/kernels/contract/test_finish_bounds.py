"""The bound of a quantised output's first estimate: just within it the sum in float64 decides, just beyond it the estimate."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.quantised import finish
from anydml.kernels.contract.quantised.planes import NORMS
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


@pytest.mark.parametrize("errors", [0.0, 2.0**-10])
@pytest.mark.parametrize("weights", [0.0, 2.0**-11])
def test_the_first_bound_is_that_of_norms(errors: float, weights: float) -> None:
    """The estimate is below 10.5 by some eighths of the bound, and the sum in float64, without terms, is 0."""
    eighths = np.array([1, 7, 9, 15, 100, 7, 9, 1, 7, 9])
    columns, x, off = len(eighths), 3.0, 0.5
    bound = (x + off) * errors + off * weights
    channels = np.zeros((finish.CHANNEL_ROWS, columns + 16))
    channels[finish.FACTOR, :columns] = 10.5 - eighths / 8 * bound
    channels[finish.ERRORS], channels[finish.WEIGHTS], channels[finish.SHIFT] = errors, weights, -1
    norms = np.zeros((2, NORMS // 8))
    norms[0, :2] = x, off
    rule = np.zeros(32, np.uint8)
    rule[:12].view(np.float32)[:] = -np.inf, np.inf, 1
    rule[12:24].view(np.int32)[:] = 0, -128, 127
    nothing, output = np.zeros(256, np.int64), np.zeros(columns + 64, np.int8)
    no = nothing.ctypes.data
    numbers = [no, no, no, norms.ctypes.data, no, channels.ctypes.data, channels.strides[0], output.ctypes.data]
    numbers += [rule.ctypes.data, no, no, 0, 1, columns, 0, 0, int(np.float32(1).view(np.int32)), 0, 0]
    code = engine.compiled(finish.finish, targets()[0], "i8", True, True)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(np.array(numbers, np.int64).ctypes.data)
    expected = np.where(eighths < 8, 0, 10) if bound else np.full(columns, 10)
    assert output[:columns].tolist() == expected.tolist()
    assert not output[columns:].any()
