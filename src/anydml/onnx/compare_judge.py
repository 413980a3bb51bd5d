"""The judgement of a few nodes on known inputs: the distance of their outputs from the exact ones, and its cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from anydml.errors import Error
from anydml.exact.formats import float_limits
from anydml.explain.bounded import Range, Unbounded
from anydml.explain.causes import causes
from anydml.explain.compare import ordered
from anydml.explain.comparison import Cause
from anydml.explain.rounding import Operation, Rounding
from anydml.functional.graph import Graph
from anydml.onnx.compare_results import Deviation
from anydml.onnx.errors import ModelError
from anydml.onnx.values import Array, is_float
from anydml.schema.statement import stated
from anydml.tensor import DataType

ALLOWED = 8  # times the largest change of an output that an estimate saw; beyond this, an error is not one of rounding
JUDGED = 1 << 16  # elements at most whose bounds are computed: those with the largest differences
WIDE = (
    64  # units in the last place of the largest element; an error beyond it is estimated, where bounds of many nodes allow it
)


def deviation(expected: Array, actual: Array) -> Deviation:
    """The distance of a tensor from the exact tensor."""
    differs, step = steps(expected, actual)
    count = int(np.count_nonzero(differs))
    unit = " ULP" if _floats(expected) else ""
    if not count:
        return Deviation(expected.size, 0, 0, unit)
    away = relative = 0.0
    rank = step
    if unit:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(actual.astype(np.float64) - expected)
        rank = np.where(np.isnan(off), np.where(differs, np.inf, 0.0), off)
        away = float(np.max(rank))
        relative = away / max(_largest(expected), float_limits(DataType.of(expected.dtype)).tiny)
    worst = np.unravel_index(int(np.argmax(np.where(differs, rank, -1))), expected.shape)
    at = tuple(int(i) for i in worst)
    largest = float(np.max(np.where(differs, step, 0)))
    return Deviation(expected.size, count, largest, unit, away, at, str(expected[worst]), str(actual[worst]), relative)


def _largest(x: Array) -> float:
    """The largest finite magnitude."""
    return float(np.max(np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64)), initial=0.0))


def _unit(x: Array) -> float:
    """A unit in the last place of the largest element; 1 for integers."""
    if not _floats(x):
        return 1.0
    ends = float_limits(DataType.of(x.dtype))
    return max(ends.eps * _largest(x), ends.tiny)


def _floats(x: Array) -> bool:
    return is_float(x.dtype)


def steps(expected: Array, actual: Array) -> tuple[Array, Array]:
    """The elements that differ, and by how many steps."""
    a, b = np.ascontiguousarray(expected), np.ascontiguousarray(actual)
    if not _floats(a):
        return np.asarray(a != b), np.abs(a.astype(np.float64) - b.astype(np.float64))
    one, other = np.isnan(a), np.isnan(b)
    differs = (a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")) & ~(one & other)
    step = np.abs(ordered(a).astype(np.float64) - ordered(b).astype(np.float64))
    return differs, np.where(one != other, math.inf, step)


def worst(found: Sequence[Deviation]) -> Deviation:
    """The deviation of several outputs: the largest one, with the element counts of all."""
    total, differing = sum(d.total for d in found), sum(d.differing for d in found)
    return replace(max(found, key=lambda d: d.largest), total=total, differing=differing)


Explain = Literal["all", "beyond", "none"]


class Judgement(NamedTuple):
    """own: the largest deviation of an output. beyond: the number of elements that rounding does not explain, None if no bound
    is known. excess: how far they are off, see `NodeComparison`. cause: what explains the differences. forms: the forms that
    explain elements which rounding at each step does not, as sentences. estimated: whether an estimate tells this."""

    own: Deviation
    beyond: int | None
    excess: float
    cause: Cause | None
    forms: tuple[str, ...] = ()
    estimated: bool = False


class Beyond(NamedTuple):
    """The part that rounding does not explain: the number of elements, None if no bound is known.

    excess: as in `NodeComparison`. forms, estimated: as in `Judgement`.
    """

    elements: int | None
    excess: float
    forms: tuple[str, ...] = ()
    estimated: bool = False


class Runs(Protocol):
    """A model of any format."""

    def run(self, inputs: Mapping[str, Array], /) -> dict[str, Array]:
        """The outputs by name."""

    def graph(self) -> Graph:
        """The model as one graph."""


def _no_estimate() -> dict[str, float]:
    return {}


class Cut:
    """A few nodes as a model of their own, with the inputs that they had.

    estimate: gives the largest change of each output that errors of rounding made, by name. many: whether they are several.
    precision: a name of `PRECISIONS`, see `Rounding`.
    """

    def __init__(
        self,
        model: Runs,
        inputs: Mapping[str, Array],
        estimate: Callable[[], dict[str, float]] = _no_estimate,
        many: bool = False,
        precision: str | None = None,
    ) -> None:
        self.model, self._estimate, self._many, self._precision = model, estimate, many, precision
        self._moved: dict[str, float] | None = None
        self.inputs = {name: x.view(np.uint8) if x.dtype == np.bool_ else x for name, x in inputs.items()}
        self.exact = self.model.run(inputs)

    def judged(self, actual: Mapping[str, Array], explain: Explain) -> Judgement:
        """The judgement of another runtime's outputs for the same inputs. explain: which differences' cause is sought."""
        beyond: int | None = 0
        excess = 0.0
        estimated = False
        forms: dict[str, None] = {}
        cause = None
        deviations = []
        rounding = None
        for name, expected in self.exact.items():
            found = deviation(expected, actual[name])
            deviations.append(found)
            if not found.differing:
                continue
            rounding = rounding or self._rounding()
            unexplained = self._beyond(rounding, name, expected, actual[name])
            estimated |= unexplained.estimated
            beyond = None if beyond is None or unexplained.elements is None else beyond + unexplained.elements
            excess = max(excess, unexplained.excess)
            forms |= dict.fromkeys(unexplained.forms)
            sought = explain == "all" or (explain == "beyond" and unexplained.elements != 0)
            if sought and cause is None and rounding is not None:
                cause = _cause(rounding, name, expected, actual[name])
        return Judgement(worst(deviations), beyond, excess, cause, tuple(forms), estimated)

    def _beyond(self, rounding: Rounding | None, name: str, expected: Array, actual: Array) -> Beyond:
        """The elements that rounding does not explain, by an estimate if bounds are unknown, or too wide to tell."""
        found = _beyond(rounding, name, expected, actual)
        many = self._many
        floats = _floats(expected)
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.nan_to_num(np.abs(expected.astype(np.float64) - actual.astype(np.float64)), nan=math.inf)
        away = np.where(steps(expected, actual)[0], away, 0)
        unit = _unit(expected)
        large = many and found.elements == 0 and float(np.max(away, initial=0)) > (WIDE * unit if floats else 1)
        unknown = found.elements is None or (many and not floats and found.elements == np.count_nonzero(away))
        if not (large or unknown):
            return found
        if self._moved is None:
            self._moved = self._estimate()
        allowed = ALLOWED * self._moved.get(name, math.inf)
        if not math.isfinite(allowed) or (floats and not allowed):
            return found if unknown else Beyond(None, float(np.max(away)) / unit)
        outside = away[away > allowed]
        return Beyond(outside.size, float(np.max(outside, initial=0)) / unit, (), True)

    def operation(self, name: str) -> tuple[Operation, str]:
        """The operator that writes an output, and the output's name there; Unbounded if it is not known."""
        rounding = self._rounding()
        if rounding is None:
            raise Unbounded("nodes that are no graph")
        return rounding.operation(name)

    def cause(self, name: str, actual: Array) -> Cause | None:
        """The known deviation that explains most of the differing elements of an output."""
        rounding = self._rounding()
        return None if rounding is None else _cause(rounding, name, self.exact[name], actual)

    def _rounding(self) -> Rounding | None:
        """The nodes as one graph on their inputs; None if values determine sizes, or nothing is left to compute."""
        try:
            graph = self.model.graph()
            inputs = {name: x.reshape(graph.inputs[name].sizes) for name, x in self.inputs.items()}
            return Rounding(graph.desc, inputs, precision=self._precision)
        except (ModelError, Error):
            return None


def _beyond(rounding: Rounding | None, name: str, expected: Array, actual: Array) -> Beyond:
    """The elements that rounding does not explain. Infinite elements must be exact."""
    differs, step = steps(expected, actual)
    at = np.flatnonzero(differs)
    flat, got = expected.reshape(-1), actual.reshape(-1)
    unit = _unit(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.nan_to_num(np.abs(flat[at].astype(np.float64) - got[at].astype(np.float64)), nan=np.inf)
    unbounded = Beyond(None if _floats(expected) else len(at), float(np.max(away, initial=0.0)) / unit)
    if rounding is None:
        return unbounded
    if len(at) > JUDGED:
        farthest = np.argsort(-step.reshape(-1)[at], kind="stable")[: JUDGED // 2]
        largest = np.argsort(-away, kind="stable")[: JUDGED // 2]
        at = at[np.unique(np.concatenate([farthest, largest]))]
    try:
        found = rounding.explained(name, at)
    except Unbounded:
        return unbounded
    outside = _outside(flat[at], got[at], found)
    rest = np.flatnonzero(outside)
    forms = []
    for sentence, other in rounding.in_forms() if rest.size else ():
        with suppress(Unbounded):
            left = _outside(flat[at[rest]], got[at[rest]], other.explained(name, at[rest]))
            if not left.any():  # this form alone explains them
                return Beyond(0, 0.0, (sentence,))
            if ((left == 0) & (outside[rest] > 0)).any():
                forms.append(sentence)
            outside[rest] = np.fmin(outside[rest], left)
    return Beyond(int(np.count_nonzero(outside)), float(np.max(outside, initial=0.0)) / unit, tuple(forms))


def _outside(expected: Array, actual: Array, found: Range) -> Array:
    """The distance of each element from its range; 0 for those inside."""
    wide, low, high = (x.astype(np.float64) for x in (actual, found.low, found.high))
    with np.errstate(invalid="ignore"):
        inside = (low <= wide) & (wide <= high)
        outside = np.nan_to_num(np.maximum(low - wide, wide - high), nan=np.inf)
    if _floats(expected):
        inside &= np.isfinite(expected) | np.isfinite(wide)
    outside = np.where(outside > 0, outside, np.inf)
    return np.where(inside, 0.0, outside)


def _cause(rounding: Rounding, name: str, expected: Array, actual: Array) -> Cause | None:
    """The known deviation, of the operator that writes the output, that explains most of the differing elements."""
    try:
        operation, output = rounding.operation(name)
    except Unbounded:
        return None
    sizes = operation.tensors[output].sizes
    unknown = [field for field, x in operation.inputs.items() if not x.exact and field not in operation.dequantised]
    if unknown or not stated(operation.desc)[output]:
        return None
    inputs = {field: x.value for field, x in operation.inputs.items()}
    found = causes(operation.desc, inputs, expected.reshape(sizes), np.ascontiguousarray(actual).reshape(sizes))
    return found[0] if found else None
