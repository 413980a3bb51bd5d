"""The bounds of quantised outputs: those whose quotients are just within them from a tie are listed, and then summed again."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from anydml.kernels.code import engine
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.epilogue.estimates import LIST, ROOM
from anydml.kernels.contract.quantised import finish
from anydml.kernels.contract.quantised.closely import CLOSELY, INNER, closely
from anydml.kernels.contract.quantised.planes import NORMS, SPATIAL, WINDOW
from anydml.kernels.undecided.state import COUNT
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")

OF_QUOTIENTS = 2.0**-23 * (1 + 2.0**-10)  # what the roundings of a quotient may move it, as the bound has it
EIGHTHS = np.array([1, 7, 9, 15, 100, 7, 9, 1, 7, 9])  # of the bound, by which quotients are below 10.5


@pytest.mark.parametrize("errors", [0.0, 2.0**-10])
@pytest.mark.parametrize("weights", [0.0, 2.0**-11])
@pytest.mark.parametrize("left", [0.0, 2.0**-9])
def test_the_first_bound_is_that_of_norms(errors: float, weights: float, left: float) -> None:
    columns, x, off = len(EIGHTHS), 3.0, 0.5
    bound = (x + off) * errors + off * weights + left + 10.5 * OF_QUOTIENTS
    channels = np.zeros((finish.CHANNEL_ROWS, columns + 16))
    channels[finish.TERM, :columns] = 10.5 - EIGHTHS / 8 * bound
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
    assert listed[: state[COUNT]].tolist() == np.flatnonzero(EIGHTHS < 8).tolist()


@pytest.mark.parametrize(
    ("errors", "weights", "roundings", "slack"),
    [
        (2.0**-10, 0.0, 0.0, 0.0),
        (0.0, 2.0**-8, 0.0, 0.0),
        (2.0**-10, 2.0**-8, 0.0, 0.0),
        (0.0, 0.0, 2.0**-12, 0.0),
        (0.0, 0.0, 0.0, 2.0**-9),
    ],
)
def test_the_bound_of_numbers_before_rounding_is_that_of_norms(
    errors: float, weights: float, roundings: float, slack: float
) -> None:
    """Outputs that are summed again have no terms, so that they are the bias."""
    columns, x, off, bias = len(EIGHTHS), 3.0, 0.5, -2.0
    bound = (x + off) * errors + off * weights + (12.5 - bias) * roundings + slack
    channels = np.zeros((finish.CHANNEL_ROWS, columns))
    channels[finish.FACTOR], channels[finish.BIAS] = 12.5 - EIGHTHS / 8 * bound, bias
    channels[finish.ERRORS], channels[finish.WEIGHTS], channels[finish.ROUNDINGS] = errors, weights, roundings
    norms, rule, windows = np.zeros(NORMS // 8), np.zeros(4), np.zeros((SPATIAL, len(WINDOW)), np.int64)
    norms[:2] = x, off
    rule.view(np.float32)[:3], rule.view(np.int32)[3:6] = (-1000, 1000, 1), (0, -128, 127)
    windows[:, WINDOW.index("places")] = 1
    words = np.array([*windows.ravel(), *(0 for _ in INNER)])
    high, low, output = np.zeros(columns, np.int32), np.ones(columns, np.int32), np.zeros(columns, np.int8)
    nothing, listed, state = (np.zeros(64, np.int64) for _ in range(3))
    listed[:columns] = range(columns)
    state[LIST // 8], state[ROOM // 8], state[COUNT] = listed.ctypes.data, 60, columns
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "high": high,
        "low": low,
        "norms": norms,
        "channels": channels,
        "output": output,
        "rule": rule,
    }
    arrays |= {"windows": words, "state": state, "x": nothing, "weights": nothing, "bits": nothing}
    given = {name: array.ctypes.data for name, array in arrays.items()}
    given |= {"filters": 1, "pitch": channels.strides[0], "count": 1, "end": 1, "columns": columns}
    given["slack"] = int(np.float64(slack).view(np.int64))
    code = engine.compiled(closely, targets()[0], "i8", True, True, True)
    numbers = np.array([given.get(name, 0) for name in CLOSELY.names], np.int64)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(numbers.ctypes.data)
    assert output.tolist() == np.where(EIGHTHS < 8, bias, 10).tolist()
