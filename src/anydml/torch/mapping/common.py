"""Functions that several groups of mappings share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.values import Value, converted
from anydml.torch.read import Node, dtype_of

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
Mapping = Callable[..., Any]


def typed(x: Any, dtype: np.dtype[Any]) -> Value:
    """A tensor with elements of a type, or a number as a tensor of one element, rounded to the type."""
    if isinstance(x, (bool, int, float)):
        with np.errstate(over="ignore"):
            return np.array(x).astype(dtype)
    return converted(x, dtype)


def common(n: Node) -> np.dtype[Any]:
    """The dtype in which torch computes with the first two arguments."""
    return dtype_of(torch.result_type(*map(_stand_in, n.inner.args[:2])))


def _stand_in(given: Any) -> Any:
    value = given.meta["val"] if isinstance(given, torch.fx.Node) else given
    if isinstance(value, torch.SymInt):
        return 1
    return 1.0 if isinstance(value, torch.SymFloat) else value


def truth(x: Value) -> Value:
    """Whether elements are not 0."""
    return dml.element_wise_logical_not(dml.element_wise_logical_equals(x, np.zeros((), x.dtype)))


def cast(x: Value, own: Any, to: Any) -> Value:
    """A tensor of a torch type as one of another; elements that are not 0 become true."""
    if own == to:
        return x
    if to is torch.bool:
        return truth(x)
    return converted(x, dtype_of(to))


def floating(n: Node, x: Value) -> Value:
    """An input with elements of the result's type: torch computes functions of integers in float32."""
    return typed(x, n.dtype)


def dims_of(dims: Any, rank: int) -> list[int]:
    """Dimensions counted from the first one; all, if none are given."""
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return [*range(rank)]
    given: Iterable[int] = [dims] if isinstance(dims, int) else dims
    return [dim_of(d, rank) for d in given]


def dim_of(dim: int, rank: int) -> int:
    """A dimension counted from the first one."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise Refused(f"dimension {dim} is outside of {rank} dimensions", INVALID)
    return dim % max(rank, 1)


def each(values: Any, count: int) -> tuple[int, ...]:
    """A number for each of `count` dimensions, of which one may be given for all."""
    given = (values,) if isinstance(values, int) else tuple(values)
    return given * count if len(given) == 1 else given


def unsigned(x: Value) -> Value:
    """The bits of integers as unsigned integers."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))
