"""Differences that rounding certainly explains, known from a statement alone: nothing is evaluated for such elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.bounded import MONOTONE, SLOPE_ONE
from anydml.explain.evaluation import FUNCTION_ULPS
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import free, integral, walk

MOST = 2.0**-9  # of an element: below it, the squares of errors do not count
MARGIN = 1 - 2.0**-6  # for the errors of float64 in bounds, and of products of errors
FUNCTIONS = (*MONOTONE, *SLOPE_ONE, "erf", "erfc", "cosh")


def within(body: Expr, unit: float, expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_]:
    """The elements whose bounds certainly include the actual one: normal numbers that are near enough.

    expected: the exact elements, rounded once, which is one of the roundings.
    """
    info = np.finfo(expected.dtype)
    share = min((roundings(body) - 1) * unit, MOST) * MARGIN
    if not share > 0:
        return np.zeros(expected.shape, np.bool_)
    one, other = (x.astype(np.float32, copy=False) for x in (expected, actual))
    size = np.abs(one)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(other - one) <= size * np.float32(share)
    near &= (size > np.float32(info.tiny) / np.float32(share)) & (size <= np.float32(info.max))
    return np.asarray(near)


def roundings(body: Expr) -> float:
    """By how many roundings of its own size, at least, `Evaluation` bounds an element to either side."""
    found: dict[Expr, float] = {}
    for node in walk(body):
        found[node] = _roundings(node, [found[a] for a in node.args])
    return found[body]


def _roundings(e: Expr, args: list[float]) -> float:
    if e.op == "constant":
        return math.inf if e.data.value == 0 else 0.0
    if integral(e) or e.op in ("read", "position"):
        return 0.0
    if e.op in ("add", "sub"):  # the errors of two numbers are at least that share of their sum
        return min(args) + 1
    if e.op == "mul":
        return args[0] + args[1] + 1
    if e.op == "div":
        return args[0] + args[1] + 2
    if e.op in ("neg", "absolute"):
        return args[0]
    if e.op in ("max", "min"):
        return min(args)
    if e.op == "select":
        return min(args[1:])
    if e.op == "power":
        return float(abs(e.data))
    if e.op in FUNCTIONS:
        return 2.0 * FUNCTION_ULPS
    if e.op == "reduce":
        return _of_reduction(e, args[0])
    return 0.0


def _of_reduction(e: Expr, term: float) -> float:
    kind, bound = e.data
    if kind in ("max", "min"):
        return term
    doubtful: set[Variable] = set()  # those that decide whether a term is there; if no term is, the element is 0 or 1
    for node in walk(e.args[0]):
        if node.op == "read" and node.data[1] == "skipped":
            for a, n in zip(node.args, node.data[0].sizes, strict=False):
                if not _inside(a, n):
                    doubtful |= free(a)[a]
    terms = 1 if len(e.args) > 1 else math.prod(v.size for v in bound if v not in doubtful)
    return terms - 1 + (term if kind == "sum" else 0.0)


def _inside(index: Expr, size: int) -> bool:
    ends = _ends(index)
    return ends is not None and ends[0] >= 0 and ends[1] < size


def _ends(e: Expr) -> tuple[int, int] | None:
    """The least and the largest value that an index may have; None if they are not known."""
    if e.op == "variable":
        return 0, e.data.size - 1
    if e.op == "constant":
        return int(e.data.value), int(e.data.value)
    args = [_ends(a) for a in e.args]
    known = [x for x in args if x is not None]
    if e.op not in ("add", "sub", "mul") or len(known) < len(args):
        return None
    (a, b), (c, d) = known
    corners = {"add": (a + c, b + d), "sub": (a - d, b - c), "mul": (a * c, a * d, b * c, b * d)}[e.op]
    return min(corners), max(corners)
