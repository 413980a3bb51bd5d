"""The error of one node carried to the outputs of a model in which everything else is exact."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anydml.onnx.compare_judge import Cut, deviation, worst
from anydml.onnx.compare_results import Deviation
from anydml.onnx.values import Array

if TYPE_CHECKING:
    from anydml.onnx.compare_whole import Part


def carried(
    cut: Callable[[Sequence[Part], Mapping[str, Array], Sequence[str]], Cut],
    nodes: Sequence[Part],
    exact: Mapping[str, Array],
    off: Mapping[str, Array],
    outputs: Container[str],
) -> Deviation:
    """The deviation of the model's outputs if the tensors `off` are as given, and all nodes after them are exact.

    cut: makes a model of a few nodes. exact: all other tensors.
    """
    reached, after = set(off), []
    for node in nodes:
        if not off.keys() & set(node.writes) and reached.intersection(node.reads):
            after.append(node)
            reached.update(node.writes)
    found = dict(off)
    wanted = [name for node in after for name in node.writes if name in outputs]
    if wanted:
        found |= cut(after, {**exact, **off}, wanted).exact
    written = [name for node in nodes for name in node.writes if name in outputs]
    return worst([deviation(exact[name], found.get(name, exact[name])) for name in written])


def with_error(exact: Array, due: Array, actual: Array) -> Array:
    """A tensor of the exact model with the own error of a node, actual - due. An infinity or NaN replaces the element."""
    if exact.dtype.kind == "b":
        return np.asarray(exact ^ due ^ actual)
    if exact.dtype.kind in "iu":
        limits = np.iinfo(exact.dtype)
        moved = exact.astype(object) + actual.astype(object) - due.astype(object)
        return np.asarray(np.clip(moved, limits.min, limits.max).astype(exact.dtype))
    with np.errstate(all="ignore"):
        moved = (exact.astype(np.float64) + actual.astype(np.float64) - due.astype(np.float64)).astype(exact.dtype)
    same = (due == actual) | (np.isnan(due) & np.isnan(actual))
    return np.where(same, exact, np.where(np.isfinite(actual) & np.isfinite(due), moved, actual)).astype(exact.dtype)
