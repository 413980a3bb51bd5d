"""Exact sums of float elements and of their squares in NumPy: significands are integers, added separately by exponent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.evaluate.places import NotFinite
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import bound_by
from anydml.tensor import DataType

FEW = 64  # terms below which NumPy's calls cost more than Python's loops
MOST = 1 << 26  # terms up to which halves of significands add up to less than 2^53
HALF = 26


def summed(
    e: Expr, variables: Sequence[Variable], arrays: Mapping[str, NDArray[Any]], places: int
) -> Callable[..., int] | None:
    """A sum as a function of the variables that it depends on, in units of 2^-places, or None if it is of another kind.

    The terms are elements of FLOAT32 or FLOAT16, indexed by constants and variables, or their squares; float64 holds both
    exactly. The function raises NotFinite if an element is infinite or NaN.
    """
    bound = bound_by(e)
    terms = math.prod(v.size for v in bound)
    squared = e.args[0].op == "mul" and e.args[0].args[0] is e.args[0].args[1]
    read = e.args[0].args[0] if squared else e.args[0]
    if len(e.args) != 1 or not FEW <= terms <= MOST or read.op != "read":
        return None
    tensor, outside = read.data
    if outside != "inside" or tensor.definition is not None or tensor.data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        return None
    if any(a.op not in ("variable", "constant") for a in read.args):
        return None
    found = [a.data for a in read.args if a.op == "variable" and a.data in bound]
    if sorted(map(id, found)) != sorted(map(id, bound)):
        return None
    return partial(_sum, arrays[tensor.name], read.args, tuple(variables), squared, places)


def _sum(
    array: NDArray[Any], index: Sequence[Expr], variables: Sequence[Variable], squared: bool, places: int, *values: int
) -> int:
    place = dict(zip(variables, values, strict=True))
    at = [int(a.data.value) if a.op == "constant" else place.get(a.data, slice(a.data.size)) for a in index]
    part = array[tuple(at)]
    if not np.isfinite(part).all():
        raise NotFinite
    x = np.asarray(part, np.float64).ravel()
    return total(x * x if squared else x, places)


def total(x: NDArray[np.float64], places: int) -> int:
    """The sum of finite numbers that are multiples of 2^-places, in that unit."""
    significands, exponents = np.frexp(x)
    whole = np.ldexp(significands, 2 * HALF + 1).astype(np.int64)
    least = int(exponents.min())
    high = np.bincount(exponents - least, weights=whole >> HALF)
    low = np.bincount(exponents - least, weights=whole & (1 << HALF) - 1)
    found = 0
    for i, (upper, lower) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
        part, shift = (int(upper) << HALF) + int(lower), least + i - (2 * HALF + 1) + places
        found += part << shift if shift >= 0 else part >> -shift
    return found
