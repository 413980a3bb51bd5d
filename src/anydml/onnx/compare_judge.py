"""The judgement of a few nodes on known inputs: the distance of their outputs from the exact ones, and its cause."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx

from anydml.errors import Error
from anydml.explain.bounded import Unbounded
from anydml.explain.causes import causes
from anydml.explain.compare import ordered
from anydml.explain.comparison import Cause
from anydml.explain.rounding import Rounding
from anydml.onnx.compare_results import Deviation
from anydml.onnx.errors import ModelError
from anydml.onnx.model import Model, load
from anydml.onnx.values import Array
from anydml.schema.statement import stated

JUDGED = 1 << 16  # elements at most whose bounds are computed: those with the largest differences


def deviation(expected: Array, actual: Array) -> Deviation:
    """The distance of a tensor from the exact tensor."""
    differs, step = _steps(expected, actual)
    count = int(np.count_nonzero(differs))
    unit = " ULP" if _floats(expected) else ""
    if not count:
        return Deviation(expected.size, 0, 0, unit)
    worst = np.unravel_index(int(np.argmax(np.where(differs, step, -1))), expected.shape)
    at = tuple(int(i) for i in worst)
    away = 0.0
    if unit:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(actual.astype(np.float64) - expected)
        away = float(np.max(np.where(np.isnan(off), np.where(differs, np.inf, 0.0), off)))
    return Deviation(expected.size, count, float(step[worst]), unit, away, at, str(expected[worst]), str(actual[worst]))


def _floats(x: Array) -> bool:
    return x.dtype.kind == "f"


def _steps(expected: Array, actual: Array) -> tuple[Array, Array]:
    """Which elements differ, and by how many steps."""
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


class Judgement(NamedTuple):
    """own: the largest deviation of an output. beyond: the number of elements that rounding does not explain, None if no bound
    is known. cause: what explains the differences."""

    own: Deviation
    beyond: int | None
    cause: Cause | None


class Cut:
    """A few nodes as a model of their own, with the inputs that they had."""

    def __init__(self, proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> None:
        self.model: Model = load(proto)
        self.inputs = {name: x.view(np.uint8) if x.dtype == np.bool_ else x for name, x in inputs.items()}
        self.exact = self.model.run(inputs)

    def judged(self, actual: Mapping[str, Array], explain: bool) -> Judgement:
        """The judgement of another runtime's outputs for the same inputs."""
        beyond: int | None = 0
        cause = None
        deviations = []
        rounding = None
        for name, expected in self.exact.items():
            found = deviation(expected, actual[name])
            deviations.append(found)
            if not found.differing:
                continue
            rounding = rounding or self._rounding()
            unexplained = _beyond(rounding, name, expected, actual[name])
            beyond = None if beyond is None or unexplained is None else beyond + unexplained
            if explain and cause is None and rounding is not None:
                cause = _cause(rounding, name, expected, actual[name])
        return Judgement(worst(deviations), beyond, cause)

    def cause(self, name: str, actual: Array) -> Cause | None:
        """The known deviation that explains most of the differing elements of an output."""
        rounding = self._rounding()
        return None if rounding is None else _cause(rounding, name, self.exact[name], actual)

    def _rounding(self) -> Rounding | None:
        """The nodes as one graph on their inputs; None if values determine sizes, or nothing is left to compute."""
        try:
            graph = self.model.graph()
            return Rounding(graph.desc, {name: x.reshape(graph.inputs[name].sizes) for name, x in self.inputs.items()})
        except (ModelError, Error):
            return None


def _beyond(rounding: Rounding | None, name: str, expected: Array, actual: Array) -> int | None:
    """The number of elements that rounding does not explain; None if no bound is known. Infinite elements must be exact."""
    differs, step = _steps(expected, actual)
    at = np.flatnonzero(differs)
    if rounding is None:
        return None if _floats(expected) else len(at)
    flat, got = expected.reshape(-1), actual.reshape(-1)
    if len(at) > JUDGED:
        farthest = np.argsort(-step.reshape(-1)[at], kind="stable")[: JUDGED // 2]
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(flat[at].astype(np.float64) - got[at].astype(np.float64))
        largest = np.argsort(-np.nan_to_num(away, nan=np.inf), kind="stable")[: JUDGED // 2]
        at = at[np.unique(np.concatenate([farthest, largest]))]
    try:
        found = rounding.explained(name, at)
    except Unbounded:
        return None if _floats(expected) else len(at)
    wide = got[at].astype(np.float64)
    with np.errstate(invalid="ignore"):
        inside = (found.low.astype(np.float64) <= wide) & (wide <= found.high.astype(np.float64))
    if _floats(expected):
        inside &= np.isfinite(flat[at]) | np.isfinite(wide)
    return int(np.count_nonzero(~inside))


def _cause(rounding: Rounding, name: str, expected: Array, actual: Array) -> Cause | None:
    """The known deviation, of the operator that writes the output, that explains most of the differing elements."""
    try:
        operation, output = rounding.operation(name)
    except Unbounded:
        return None
    sizes = operation.tensors[output].sizes
    if not all(x.exact for x in operation.inputs.values()) or not stated(operation.desc)[output]:
        return None
    inputs = {field: x.value for field, x in operation.inputs.items()}
    found = causes(operation.desc, inputs, expected.reshape(sizes), np.ascontiguousarray(actual).reshape(sizes))
    return found[0] if found else None
