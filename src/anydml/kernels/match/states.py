"""Parts of a recurrence: states, the sums over them and over inputs, and the stages of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.stepped import SteppedElement
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest
from anydml.tensor import DataType


@dataclass(frozen=True)  # not a named tuple: those of different classes with equal fields would be equal
class Before:
    """A state at the step before, by its number, as a factor in sums."""

    state: int


@dataclass(frozen=True)
class Scaled:
    """The results of a stage, by its number, as a factor in sums; they are not stored in a tensor."""

    stage: int


Source = SteppedElement | Before | Scaled


@dataclass(frozen=True)
class StateProduct:
    """Sums over a source's elements times the weights of each unit, and the number of their terms."""

    source: Source
    weights: SteppedElement
    terms: int


@dataclass(frozen=True)
class Old:
    """The same element of a state, by its number, at the step before."""

    state: int


@dataclass(frozen=True)
class New:
    """The same element of a state, by its number, at this step."""

    state: int


Leaf = StateProduct | Old | New | SteppedElement


class StateFormula(NamedTuple):
    """A formula for each unit. state: the number of the state that it computes; None for results that only enter sums."""

    state: int | None
    formula: NormalForm
    leaves: tuple[Leaf, ...]


class Direction(NamedTuple):
    """The stages of a step, in order, and the initial values of each state: None for zeros."""

    stages: tuple[StateFormula, ...]
    starts: tuple[SteppedElement | None, ...]


class StateOutput(NamedTuple):
    """An output: a state, by its number, at every step, or at the `last` one. backward: of each direction, whether steps are
    counted from the end."""

    name: str
    state: int
    last: bool
    backward: tuple[bool, ...]


class Recurrence(NamedTuple):
    """A recurrence. sizes: the states'. lengths: the sequences', if they differ; zeros are stored after the end. tensors: the
    states."""

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
