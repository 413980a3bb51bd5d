"""The bound of a quantised output's first estimate: outputs whose quotients are just within it from a tie are listed."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.epilogue.estimates import LIST, ROOM
from anydml.kernels.contract.quantised import finish
from anydml.kernels.contract.quantised.planes import NORMS
from anydml.kernels.undecided.state import COUNT
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")


@pytest.mark.parametrize("errors", [0.0, 2.0**-10])
@pytest.mark.parametrize("weights", [0.0, 2.0**-11])
@pytest.mark.parametrize("left", [0.0, 2.0**-9])
def test_the_first_bound_is_that_of_norms(errors: float, weights: float, left: float) -> None:
    """The quotient is below 10.5 by some eighths of the bound."""
    eighths = np.array([1, 7, 9, 15, 100, 7, 9, 1, 7, 9])
    columns, x, off = len(eighths), 3.0, 0.5
    bound = (x + off) * errors + off * weights + left + 10.5 * finish.OF_QUOTIENTS
    channels = np.zeros((finish.CHANNEL_ROWS, columns + 16))
    channels[finish.TERM, :columns] = 10.5 - eighths / 8 * bound
    channels[finish.OF_ERRORS], channels[finish.OF_WEIGHTS], channels[finish.LEFT_OVER] = errors, weights, left
    norms = np.zeros((2, NORMS // 8))
    norms[0, :2] = x, off
    ends = np.zeros(32, np.uint8)
    ends[:16].view(np.float64)[:] = -128, 127
    nothing, output, listed, state = (np.zeros(256, t) for t in (np.int64, np.int8, np.int64, np.int64))
    state[LIST // 8], state[ROOM // 8] = listed.ctypes.data, 200
    no = nothing.ctypes.data
    numbers = [no, no, norms.ctypes.data, 1, channels.ctypes.data, channels.strides[0], columns, output.ctypes.data]
    numbers += [ends.ctypes.data, state.ctypes.data, 0, 1, columns, 0]
    code = engine.compiled(finish.finish, targets()[0], "i8", True)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(np.array(numbers, np.int64).ctypes.data)
    assert output[:columns].tolist() == [10] * columns
    assert not output[columns:].any()
    assert listed[: state[COUNT]].tolist() == np.flatnonzero(eighths < 8).tolist()
