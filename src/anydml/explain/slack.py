"""Differences that rounding certainly explains, known from a statement alone: nothing is evaluated for such elements."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.formats import float_limits
from anydml.explain.bounded import MONOTONE, SLOPE_ONE
from anydml.explain.evaluation import FUNCTION_ULPS
from anydml.explain.nearness import FEWEST, near
from anydml.schema.node import Expr, Variable
from anydml.schema.traversal import free, integral, walk
from anydml.tensor import EXTENSIONS, DataType

MOST = 2.0**-9  # of an element: below it, the squares of errors do not count
MARGIN = 1 - 2.0**-6  # for the errors of float64 in bounds, and of products of errors
FUNCTIONS = (*MONOTONE, *SLOPE_ONE, "erf", "erfc", "cosh", "tan")
BOUNDED = (
    *FUNCTIONS, "constant", "read", "add", "sub", "mul", "div", "neg", "absolute", "max", "min", "power", "reduce", "select",
    "less", "less_equal", "equal", "not", "both", "either",
)  # fmt: skip
OF_INDICES = ("variable", "constant", "add", "sub", "mul", "neg", "floordiv", "mod", "max", "min")
PIECE = 1 << 16  # elements of one turn


def within(body: Expr, unit: float, expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_]:
    """The elements whose bounds certainly include the actual one: normal numbers that are near enough.

    expected: the exact elements, rounded once, which is one of the roundings.
    """
    info = float_limits(DataType.of(expected.dtype))
    share = _share(body, unit)
    if not share > 0:
        return np.zeros(expected.shape, np.bool_)
    one, other = (x.astype(np.float32, copy=False) for x in (expected, actual))
    size = np.abs(one)
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.subtract(other, one)
        near = np.abs(away, out=away) <= size * np.float32(share)
        least, most = np.float32(info.tiny) / np.float32(share), np.float32(info.max)
        if not (size.min(initial=most) > least and size.max(initial=0) <= most):
            near &= (size > least) & (size <= most)
    return np.asarray(near)


def left(body: Expr, unit: float, expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.int64]:
    """The row-major positions of elements that differ and are not certainly within their bounds."""
    one, other = (np.ascontiguousarray(x).reshape(-1) for x in (expected, actual))
    share = _share(body, unit)
    if share > 0 and one.size >= FEWEST and one.dtype == other.dtype == np.float32:
        close = near(one, other, share)
        if close.all():
            return np.zeros(0, np.int64)
        far = np.flatnonzero(~close)
        return far[differs(one[far], other[far])]
    whole, nearness = not share > 0, _Nearness(share, one.dtype, min(PIECE, one.size))
    parts = []
    for begin in range(0, one.size, PIECE):  # which fits the processor's caches
        x, y = one[begin : begin + PIECE], other[begin : begin + PIECE]
        if whole:
            parts.append(np.flatnonzero(differs(x, y)) + begin)
            continue
        within_share = nearness(x, y)
        if within_share is None:
            within_share = within(body, unit, x, y)
        if not within_share.all():
            far = np.flatnonzero(~within_share)
            parts.append(far[differs(x[far], y[far])] + begin)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class _Nearness:
    """The elements of a piece that are certainly within their bounds, in memory that is used again for the next piece.

    None if an element is so small, or so large, that `within` must decide for each.
    """

    def __init__(self, share: float, dtype: np.dtype[Any], size: int) -> None:
        info = float_limits(DataType.of(dtype))
        self.share = np.float32(share)
        with np.errstate(divide="ignore"):
            self.least, self.most = np.float32(info.tiny) / self.share, np.float32(info.max)
        self._away, self._size = (np.empty(size, np.float32) for _ in range(2))
        self._near = np.empty(size, np.bool_)

    def __call__(self, expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_] | None:
        away, size = (x[: expected.size] for x in (self._away, self._size))
        near = self._near[: expected.size]
        with np.errstate(invalid="ignore", over="ignore"):
            np.abs(np.subtract(actual, expected, out=away, dtype=np.float32), out=away)
            np.abs(expected, out=size)
            if not (size.min() > self.least and size.max() <= self.most):
                return None
            np.less_equal(away, np.multiply(size, self.share, out=size), out=near)
        return near


def differs(expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[np.bool_]:
    """The elements with other bits, but for NaN that are NaN in both."""
    if expected.dtype.kind != "f" and expected.dtype.name not in EXTENSIONS:
        return np.asarray(expected != actual)
    bits = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (expected, actual)]
    found = np.asarray(bits[0] != bits[1])
    return found & ~(np.isnan(expected) & np.isnan(actual)) if found.any() else found


def always_bounded(body: Expr) -> bool:
    """Whether a bound is known for a statement whatever its data are."""
    known: set[Expr] = set()  # of statements of internal tensors, which may read themselves
    left = [body]
    while left:
        known.add(one := left.pop())
        for e in walk(one):
            if not _always_bounded(e):
                return False
            inner = e.data[0].definition if e.op == "read" else None
            if inner is not None and inner.body not in known:
                left.append(inner.body)
    return True


def _always_bounded(e: Expr) -> bool:
    if e.sort == "index":
        return e.op in OF_INDICES
    if e.op == "power":
        return bool(e.data >= 0)
    if e.op == "reduce":  # a condition must not depend on rounded numbers
        return all(a.sort != "number" or a.op == "constant" for condition in e.args[1:] for a in walk(condition))
    return e.op in BOUNDED


def _share(body: Expr, unit: float) -> float:
    """The share of an element by which, at least, its bounds lie to either side."""
    return min((_of_body(body) - 1) * unit, MOST) * MARGIN


@lru_cache(64)
def _of_body(body: Expr) -> float:
    return roundings(body)


def roundings(body: Expr, within: frozenset[Expr] = frozenset()) -> float:
    """By how many roundings of its own size, at least, `Evaluation` bounds an element to either side.

    within: statements of internal tensors that are done already; what these tensors read of themselves counts as exact.
    """
    found: dict[Expr, float] = {}
    for node in walk(body):
        inner = node.data[0].definition if node.op == "read" else None
        if inner is None or inner.body in within or node.data[1] == "otherwise":
            found[node] = _roundings(node, [found[a] for a in node.args])
        else:  # the ends of its bounds are rounded to its type
            found[node] = max(0.0, roundings(inner.body, within | {inner.body}) - 1)
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
    kind, _ = e.data
    if kind in ("max", "min"):
        return term
    return _terms(e) - 1 + (term if kind == "sum" else 0.0)


def certain_terms(body: Expr) -> int:
    """The least number of terms of the only sum in a statement."""
    (found,) = (e for e in walk(body) if e.op == "reduce")
    return _terms(found)


def _terms(e: Expr) -> int:
    """The least number of terms of a reduction."""
    _, bound = e.data
    doubtful: set[Variable] = set()  # those that decide whether a term is there; if no term is, the element is 0 or 1
    for node in walk(e.args[0]):
        if node.op == "read" and node.data[1] == "skipped":
            for a, n in zip(node.args, node.data[0].sizes, strict=False):
                if not _inside(a, n):
                    doubtful |= free(a)[a]
    return 1 if len(e.args) > 1 else math.prod(v.size for v in bound if v not in doubtful)


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
