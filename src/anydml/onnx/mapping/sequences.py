"""Sequences of tensors. Their lengths are known while a graph is built, so only joins and splits are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.mapping.moves import concat, split
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axis_of, ints, number, reshape

Tensors = tuple[Value, ...]


def _place(at: Value, count: int) -> int:
    """A position among `count` tensors; negative ones count from the end."""
    place = int(number(at))
    if not -count <= place < count:
        raise Refused(f"position {place} is outside of {count} tensors", INVALID)
    return place % count


def inserted(n: Node, sequence: Tensors, x: Value, at: Value = None) -> list[Tensors]:
    place = (
        len(sequence) if at is None else _place(at, len(sequence) + 1) if int(number(at)) >= 0 else _place(at, len(sequence))
    )
    return [(*sequence[:place], x, *sequence[place:])]


def erased(n: Node, sequence: Tensors, at: Value = None) -> list[Tensors]:
    place = len(sequence) - 1 if at is None else _place(at, len(sequence))
    return [(*sequence[:place], *sequence[place + 1 :])]


def joined(n: Node, sequence: Tensors) -> Value:
    """ConcatFromSequence: along an axis, or along a new one."""
    if not sequence:
        raise Refused("the sequence has no tensors", INVALID)
    if not n.get("new_axis", 0):
        return concat(n, *sequence)
    rank = sequence[0].ndim + 1
    axis = axis_of(n.get("axis", 0), rank)
    return concat(n.having(axis=axis), *(reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in sequence))


def parts(n: Node, x: Value, sizes: Value = None) -> list[Tensors]:
    """SplitToSequence: parts of given sizes, of one size (the last may be smaller), or of size 1 with or without the axis."""
    axis = axis_of(n.get("axis", 0), x.ndim)
    whole = x.shape[axis]
    if sizes is None or sizes.ndim == 0:
        step = 1 if sizes is None else int(number(sizes))
        if step < 1:
            raise Refused(f"parts of size {step}", INVALID)
        given = [min(step, whole - start) for start in range(0, whole, step)]
    else:
        given = [*ints(sizes)]
    found = split(n, x, np.array(given, np.int64))
    if sizes is None and not n.get("keepdims", 1):
        found = [reshape(y, (*y.shape[:axis], *y.shape[axis + 1 :])) for y in found]
    return [tuple(found)]


TABLE: dict[str, Callable[..., Any]] = {
    "ConcatFromSequence": joined,
    "SequenceAt": lambda n, sequence, at: sequence[_place(at, len(sequence))],
    "SequenceConstruct": lambda n, *tensors: [tensors],
    "SequenceEmpty": lambda n: [()],
    "SequenceErase": erased,
    "SequenceInsert": inserted,
    "SequenceLength": lambda n, sequence: np.array(len(sequence), np.int64),
    "SplitToSequence": parts,
}
