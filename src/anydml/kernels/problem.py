"""Problems: the statements that families of kernels take, with their tensors and what is guaranteed about these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from anydml.schema.check import Checked
from anydml.schema.statement import Statement, meaning
from anydml.tensor import TensorDesc


class Promises(NamedTuple):
    """The guarantees of a desc or a graph about tensors, by name.

    in_place: the inputs whose memory the output may reuse. ruled: the tensors whose elements a rule about data judges.
    constants: the elements of tensors that are known; a dimension of stride 0 has size 1.
    """

    in_place: frozenset[str] = frozenset()
    ruled: frozenset[str] = frozenset()
    constants: Mapping[str, NDArray[Any]] = {}


class Problem(NamedTuple):
    """A statement to compute. tensors: by name, with explicit strides."""

    statement: Statement
    tensors: Mapping[str, TensorDesc]
    promises: Promises = Promises()


def problem_of(checked: Checked[Any], statement: Statement | None = None) -> Problem:
    """The problem of a desc of an operator's newest version. statement: by default the desc's."""
    spec = checked.desc.spec

    def named(wires: Collection[str]) -> frozenset[str]:
        return frozenset([name for name, found in checked.fields.items() if found.field.wire in wires] if wires else ())

    promises = Promises(named(spec.in_place), named(spec.ruled))
    return Problem(meaning(checked.desc) if statement is None else statement, checked.tensors, promises)
