"""A large output compared with the exact one by a compiled graph, in one pass over both."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.graph import CompiledGraph
from anydml.functional import functions as dml
from anydml.functional.graph import graph
from anydml.tensor import DataType, TensorDesc

FEWEST = 1 << 18  # elements, below which NumPy takes no longer
KEPT = 8
TINY, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@lru_cache(KEPT)
def _compiled(size: int) -> CompiledGraph:
    t = TensorDesc(DataType.FLOAT32, (size,))

    def near(expected: Any, actual: Any, share: Any) -> Any:
        """|actual - expected| <= |expected| * share, where that is no subnormal number; elsewhere only equal ones."""
        away = dml.element_wise_abs(dml.element_wise_subtract(actual, expected))
        room = dml.element_wise_multiply(dml.element_wise_abs(expected), share)
        room = dml.element_wise_clip(room, min=0.0, max=LARGEST, scale_bias=(1.0, -TINY))
        return dml.element_wise_logical_less_than_or_equal(away, room)

    return graph(near, expected=t, actual=t, share=TensorDesc(DataType.FLOAT32, (size,), strides=(0,))).compile()


def near(expected: NDArray[Any], actual: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """A mask of the elements of packed float32 arrays of one dimension that are within a share of the exact element, or equal.

    Infinite and NaN elements are not among them.
    """
    found = np.empty(expected.size, np.uint8)
    wide = np.broadcast_to(np.float32(share), (expected.size,))
    _compiled(expected.size).bind(expected=expected, actual=actual, share=wide, output=found).execute()
    return found.view(np.bool_)
