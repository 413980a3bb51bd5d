"""Parts of a recurrence: states, the sums over them and over inputs, and the stages of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from anydml.kernels.match.maps import Formula
from anydml.kernels.match.stepped import SteppedElement
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.statement import Nest
from anydml.tensor import DataType


@dataclass(frozen=True)  # which differs from others with equal fields
class Before:
    """A state, by its number, of the step before: what sums are over."""

    state: int


@dataclass(frozen=True)
class Scaled:
    """The numbers that a stage gives, by its number, which are stored nowhere: what sums are over."""

    stage: int


Source = SteppedElement | Before | Scaled


@dataclass(frozen=True)
class StateProduct:
    """Sums of so many terms: of a source's elements by the weights of each unit."""

    source: Source
    weights: SteppedElement
    terms: int


@dataclass(frozen=True)
class Old:
    """The same element of a state, by its number, after the step before."""

    state: int


@dataclass(frozen=True)
class New:
    """The same element of a state, by its number, after this step."""

    state: int


Leaf = StateProduct | Old | New | SteppedElement


class StateFormula(NamedTuple):
    """A formula for each unit. state: which one it gives, by its number; None for numbers that sums are over."""

    state: int | None
    formula: Formula
    leaves: tuple[Leaf, ...]


class Direction(NamedTuple):
    """The stages of a step, in order, and what each state begins with: None for zeros."""

    stages: tuple[StateFormula, ...]
    starts: tuple[SteppedElement | None, ...]


class StateOutput(NamedTuple):
    """An output: a state, by its number, at every step, or `last` after the last one. backward: of each direction."""

    name: str
    state: int
    last: bool
    backward: tuple[bool, ...]


class Recurrence(NamedTuple):
    """sizes: of the states. lengths: of the sequences, where they differ; zeros are stored beyond. tensors: the states'."""

    sizes: tuple[int, int, int, int]
    data_type: DataType
    lengths: SteppedElement | None
    directions: tuple[Direction, ...]
    results: tuple[StateOutput, ...]
    tensors: tuple[Tensor, ...]


def definition(tensor: Tensor) -> Nest:
    """The definition of a state's elements."""
    assert tensor.definition is not None
    return tensor.definition


def is_zero(e: Expr) -> bool:
    """Whether a node is the integer 0, which stands for an input that is not there."""
    return e.op == "constant" and e.data.value == 0 and e.data.integral
