"""The search for causes in quantised elements: other ways to divide by the scale, to round and to clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.explain.changes import Deviation
from anydml.explain.comparison import Cause
from anydml.explain.known import EXACT, REQUANTISATIONS
from anydml.explain.search import Array, Arrays, Search

OF_QUOTIENTS = {  # the requantisations that round the exact quotient in another way
    "half_away_from_zero", "half_up", "truncation", "rounding_down", "zero_point_before_rounding", "wrapping_output",
}  # fmt: skip
OF_SCALES = {"reciprocal_output_scale"}
UNROUNDED = Deviation(EXACT.name, "a quotient that is not rounded to float32", EXACT.function, True)


def of_quantisation(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    """The causes of differences where floats are divided by scales, rounded to float32 and quantised."""
    x, scale = arrays["input_tensor"], arrays["scale_tensor"]
    if x.dtype.kind != "f" or expected.dtype.itemsize != 1:
        return ()
    zero_point = arrays.get("zero_point_tensor", np.zeros((), expected.dtype))
    numbers, scales = (np.broadcast_to(a, expected.shape).astype(np.float32) for a in (x, scale))
    with np.errstate(all="ignore"):
        quotient = numbers / scales
    known = np.isfinite(numbers) & np.isfinite(scales) & (scales != 0) & np.isfinite(quotient)
    search = Search(expected, actual)

    def tried(deviation: Deviation, values: Array, divisors: Array) -> None:
        """Try a requantisation, on accumulators 1, 0 and -1 with the values' magnitudes as scales."""
        plain = np.where(known, values, 0)
        magnitudes = np.where(plain != 0, np.abs(plain), 1).astype(np.float32)
        found = deviation.function(
            np.sign(plain).astype(np.int64), magnitudes, np.float32(1), np.where(known, divisors, 1).astype(np.float32),
            zero_point, output_data_type=expected.dtype,
        )  # fmt: skip
        search.tried(deviation, np.where(known, found, expected))  # infinities and NaN are not rounded

    for deviation in REQUANTISATIONS:
        if deviation.name in OF_QUOTIENTS:
            tried(deviation, quotient, np.ones_like(scales))
        elif deviation.name in OF_SCALES:
            tried(deviation, numbers, scales)
    tried(UNROUNDED, numbers, scales)
    return search.found()
