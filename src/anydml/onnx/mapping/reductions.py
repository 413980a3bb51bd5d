"""Reductions along axes, and the positions of the largest and smallest elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import Refused
from anydml.onnx.later import later
from anydml.onnx.nodes import Node
from anydml.onnx.types import BOOL
from anydml.onnx.values import Value, axes_of, axis_of, ints, reshape

FUNCTIONS = {
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
    "ReduceMax": "MAX",
    "ReduceMean": "AVERAGE",
    "ReduceMin": "MIN",
    "ReduceProd": "MULTIPLY",
    "ReduceSum": "SUM",
    "ReduceSumSquare": "SUM_SQUARE",
}
EMPTY = {"MULTIPLY": 1, "LOG_SUM": -math.inf, "LOG_SUM_EXP": -math.inf, "MAX": -math.inf, "MIN": math.inf, "AVERAGE": math.nan}


def kept(sizes: Sequence[int], axes: Sequence[int], keep: Any) -> list[int]:
    """The sizes of a reduction's result."""
    return [1 if i in axes else size for i, size in enumerate(sizes) if keep or i not in axes]


def reduction(n: Node, x: Value, axes: Value = None) -> Value:
    """REDUCE along axes. If none are given: along all, or, with noop_with_empty_axes, along none."""
    function = FUNCTIONS[n.operator]
    given = n.get("axes") if axes is None else ints(axes)
    if not given:
        if n.get("noop_with_empty_axes", 0):
            return x if function not in ALONE else dml.reduce(reshape(x, (*x.shape, 1)), function, [x.ndim]).reshape(x.shape)
        given = range(x.ndim)
    along = sorted(axes_of(given, x.ndim))
    sizes = kept(x.shape, along, n.get("keepdims", 1))
    if 0 in x.shape:
        return np.full(sizes, _of_none(function, n, x.dtype), x.dtype)
    if not x.ndim:
        return reshape(dml.reduce(reshape(x, (1,)), function, [0]), ())
    return reshape(dml.reduce(x, function, along), sizes)


ALONE = ("L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "SUM_SQUARE")  # functions that change a single element


def _of_none(function: str, n: Node, dtype: np.dtype[Any]) -> Any:
    value = EMPTY.get(function, 0)
    if function in ("MAX", "MIN") and dtype.kind in "iu":
        if n.types[0] == BOOL:
            return int(function == "MIN")
        ends = np.iinfo(dtype)
        return ends.min if function == "MAX" else ends.max
    if dtype.kind in "iu" and not float(value).is_integer():
        raise Refused(f"{function} of no integers has no value")
    return value


def place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The mapping of ArgMax or ArgMin."""

    def mapping(n: Node, x: Value) -> Value:
        axis = axis_of(n.get("axis", 0), x.ndim)
        direction = "DECREASING" if n.get("select_last_index", 0) else "INCREASING"
        found = dml.cast(function(x, [axis], direction), output_data_type="INT64")
        return reshape(found, kept(x.shape, [axis], n.get("keepdims", 1)))

    return mapping


TABLE: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(FUNCTIONS, reduction),
    "ArgMax": place(later.argmax),
    "ArgMin": place(later.argmin),
}
