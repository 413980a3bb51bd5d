"""Refusals of a model: all nodes that cannot be computed with DirectML's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.errors import Error

NOT_YET, NOT_IN_DIRECTML, INVALID = "not in anydml yet", "not in DirectML", "invalid"


class Refusal(NamedTuple):
    """A node that is refused. node: its name. operator: its ONNX operator. kind: "not in anydml yet", "not in DirectML" or
    "invalid", which is a fault of the model."""

    node: str
    operator: str
    kind: str
    reason: str

    def __str__(self) -> str:
        at = f"{self.node} ({self.operator})" if self.node else self.operator
        return f"{at}: {self.kind}: {self.reason}" if at else f"{self.kind}: {self.reason}"


class ModelError(Error, ValueError):
    """A model cannot be read or run. refusals: every node that is refused, and why."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(refusals)
        self.refusals = tuple(refusals)

    def __str__(self) -> str:
        shown = [str(r) for r in self.refusals[:MOST_SHOWN]]
        more = len(self.refusals) - len(shown)
        return "\n".join(shown + [f"and {more} more"] * bool(more))


MOST_SHOWN = 50  # refusals that a message names


def invalid(reason: str, node: str = "", operator: str = "") -> ModelError:
    """The error about an invalid model."""
    return ModelError([Refusal(node, operator, INVALID, reason)])


class Refused(Exception):
    """Raised by a mapping: the node cannot be mapped. kind, reason: as in `Refusal`."""

    def __init__(self, reason: str, kind: str = NOT_IN_DIRECTML) -> None:
        super().__init__(reason)
        self.reason, self.kind = reason, kind


class NeedsValue(Exception):
    """Raised by a mapping: the elements of a tensor determine sizes or attributes, and are not known before the run."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


class RunsAlone(Exception):
    """Raised by a mapping: the node cannot be part of a graph, and is computed by itself when its inputs are known."""


class UseBody(Exception):
    """Raised by a mapping: the node is computed by ONNX's own definition of its operator by other operators."""
