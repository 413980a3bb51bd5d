"""The stages of a recurrence's step in one direction, from the definitions of its states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from anydml.kernels.match.affine import Affine
from anydml.kernels.match.normal_form import Nodes
from anydml.kernels.match.states import (
    Before,
    Direction,
    Leaf,
    New,
    Old,
    Scaled,
    Source,
    StateFormula,
    StateProduct,
    definition,
)
from anydml.kernels.match.stepped import StepLoop, SteppedElement, in_direction, joined, linear, place
from anydml.kernels.match.structure import Differences, is_whole
from anydml.kernels.match.unmatched import Unmatched
from anydml.schema.expression import Tensor
from anydml.schema.identities import rewritten
from anydml.schema.node import INDEX, Expr, Variable
from anydml.schema.traversal import walk
from anydml.tensor import DataType


class PartialRecurrence(Protocol):
    """The part of a recurrence that is known first: its states, and the lengths of its sequences."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def data_type(self) -> DataType: ...

    def is_length(self, sequence: Variable, e: Expr) -> bool: ...

    def within(self, e: Expr, t: Variable, b: Variable) -> Expr: ...


class InDirection:
    """The stages of one direction of a recurrence. whole: the states of all directions."""

    def __init__(self, whole: PartialRecurrence, number: int) -> None:
        self.whole, self.number = whole, number
        self.starts: dict[Tensor, SteppedElement | None] = {}
        self.stages: list[StateFormula] = []

    def found(self) -> Direction:
        for number, tensor in enumerate(self.whole.tensors):
            nest = definition(tensor)
            self.t, r, self.b, j = nest.variables
            if nest.moves:
                raise Unmatched("the bits of a state are moved")
            self.steps = StepLoop(self.t, self.whole.sizes[0], partial(self.whole.is_length, self.b))
            body = self.whole.within(in_direction(nest.body, r, self.number), self.t, self.b)
            self._stage(number, rewritten(joined(body, self.t, self._is_any_before, self._started)), j)
        return Direction(tuple(self.stages), tuple(self.starts.get(t) for t in self.whole.tensors))

    def _stage(self, state: int | None, body: Expr, unit: Variable) -> int:
        made = _UnitFormula(self, unit)
        stage = StateFormula(state, made.nodes.ended(made.place(body)), tuple(made.nodes.streams))
        if stage not in self.stages:
            self.stages.append(stage)
        return self.stages.index(stage)

    def _started(self, starts: Differences) -> None:
        """Record the initial values of states."""
        for read, start, renamed in starts:
            tensor, unit = read.data[0], read.args[3].data
            if is_whole(start, 0):
                found = None
            else:
                units = [v for v, meant in renamed.items() if meant is unit] or [unit]
                found = place(start, {self.b: "sequence", units[0]: "unit"})
                if found.data_type != tensor.data_type:
                    raise Unmatched("the initial values of a state have another type")
            if self.starts.setdefault(tensor, found) != found:
                raise Unmatched("a state has several initial values")

    def _is_any_before(self, e: Expr) -> bool:
        """Whether a node is an element of a state at the step before, of any unit."""
        return e.op == "read" and e.args[-1].op == "variable" and self._reads(e, e.args[-1].data, -1)

    def _reads(self, e: Expr, unit: Variable, step: int) -> bool:
        if e.op != "read" or e.data[0] not in self.whole.tensors or e.data[1] != "inside":
            return False
        wanted = [Affine(step, {self.t: 1}), Affine(self.number, {}), Affine(0, {self.b: 1}), Affine(0, {unit: 1})]
        return [linear(a, self.steps.is_length) for a in e.args] == wanted

    def leaf(self, e: Expr, unit: Variable) -> Leaf:
        """The operand of a unit's formula that a read or a sum is."""
        if e.op == "reduce":
            return self._product(e, unit)
        tensor = e.data[0]
        if tensor.definition is None:
            return self._own_type(place(e, {unit: "unit"}))
        if self._reads(e, unit, -1):
            return Old(self.whole.tensors.index(tensor))
        if self._reads(e, unit, 0):
            return New(self.whole.tensors.index(tensor))
        raise Unmatched("an element depends on other elements of its step, or on steps earlier than the one before")

    def _own_type(self, found: SteppedElement) -> SteppedElement:
        if found.data_type != self.whole.data_type:
            raise Unmatched("an input has another type than the states")
        return found

    def _product(self, e: Expr, unit: Variable) -> StateProduct:
        kind, bound = e.data
        if kind != "sum" or len(bound) != 1 or len(e.args) != 1 or e.args[0].op != "mul":
            raise Unmatched("a reduction is not a sum of products")
        (term,) = bound
        for a, b in (e.args[0].args, e.args[0].args[::-1]):
            if b.op == "read" and b.data[0].definition is None and not self._moves(b):
                weights = self._own_type(place(b, {unit: "unit", term: "term"}))
                return StateProduct(self._source(a, term), weights, int(term.size))
        raise Unmatched("a sum is not of elements times weights")

    def _moves(self, e: Expr) -> bool:
        return any(node.op == "variable" and node.data in (self.t, self.b) for node in walk(e))

    def _source(self, e: Expr, term: Variable) -> Source:
        if self._reads(e, term, -1):
            return Before(self.whole.tensors.index(e.data[0]))
        if e.op == "read" and e.data[0].definition is None:
            return self._own_type(place(e, {term: "term", self.b: "sequence"}, self.steps))
        return Scaled(self._stage(None, e, term))


class _UnitFormula:
    """The nodes of a unit's formula, and its operands."""

    def __init__(self, direction: InDirection, unit: Variable) -> None:
        self.direction, self.unit = direction, unit
        self.nodes = Nodes()
        self.places: dict[Expr, int] = {}

    def place(self, e: Expr) -> int:
        if e not in self.places:
            self.places[e] = self._add(e)
        return self.places[e]

    def _add(self, e: Expr) -> int:
        if e.op in ("read", "reduce"):
            return self.nodes.stream(self.direction.leaf(e, self.unit), self.direction.whole.data_type)
        if e.sort == INDEX or e.op in ("position", "philox", "rank", "first_largest", "first_smallest"):
            raise Unmatched("an element depends on its position")
        return self.nodes.add(e.op, tuple(self.place(a) for a in e.args), e.data)
