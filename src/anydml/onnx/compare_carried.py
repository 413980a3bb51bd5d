"""The error of one node carried to the outputs of a model in which everything else is exact."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto

from anydml.onnx import compare_models as models
from anydml.onnx.compare_judge import deviation, worst
from anydml.onnx.compare_results import Deviation
from anydml.onnx.model import load
from anydml.onnx.values import Array


def carried(
    proto: ModelProto,
    nodes: Sequence[NodeProto],
    exact: Mapping[str, Array],
    constants: Mapping[str, Array],
    off: Mapping[str, Array],
    outputs: Container[str],
) -> Deviation:
    """The deviation of the model's outputs if the tensors `off` are as given, and all nodes after them are exact."""
    reached, after = set(off), []
    for node in nodes:
        if not off.keys() & set(node.output) and reached.intersection(models.reads(node)):
            after.append(node)
            reached.update(node.output)
    found = dict(off)
    wanted = [name for node in after for name in node.output if name in outputs]
    if wanted:
        made, given = models.cut(proto, after, {**exact, **off}, constants, wanted)
        found |= load(made).run(given)
    written = [name for node in nodes for name in node.output if name in outputs]
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
