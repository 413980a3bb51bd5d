"""Statements of states: tensors that are computed step by step, each element from products of sums over the step before.

A state's index is {step, direction, sequence, unit}. A direction is looked at by itself, and what the first step has in place
of the step before is told apart from what all have in common: there is one formula for every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from anydml.kernels.match.affine import Affine
from anydml.kernels.match.maps import Formula, Node, formula
from anydml.kernels.match.stepped import LENGTH, Place, Starts, Steps, Unmatched, in_direction, joined, linear, place
from anydml.schema.expression import INDEX, Expr, Tensor, Variable, walk
from anydml.schema.identities import rewritten
from anydml.schema.statement import Nest, Statement
from anydml.tensor import DataType


@dataclass(frozen=True)  # which differs from others with equal fields
class Before:
    """A state, by its number, of the step before: what sums are over."""

    state: int


@dataclass(frozen=True)
class Scaled:
    """The numbers that a stage gives, by its number, which are stored nowhere: what sums are over."""

    stage: int


Source = Place | Before | Scaled


@dataclass(frozen=True)
class Product:
    """Sums of so many terms: of a source's elements by the weights of each unit."""

    source: Source
    weights: Place
    terms: int


@dataclass(frozen=True)
class Old:
    """The same element of a state, by its number, after the step before."""

    state: int


@dataclass(frozen=True)
class New:
    """The same element of a state, by its number, after this step."""

    state: int


Leaf = Product | Old | New | Place


class Stage(NamedTuple):
    """A formula for each unit. state: which one it gives, by its number; None for numbers that sums are over."""

    state: int | None
    formula: Formula
    leaves: tuple[Leaf, ...]


class Direction(NamedTuple):
    """The stages of a step, in order, and what each state begins with: None for zeros."""

    stages: tuple[Stage, ...]
    starts: tuple[Place | None, ...]


class Result(NamedTuple):
    """An output: a state, by its number, at every step, or `last` after the last one. backward: of each direction."""

    name: str
    state: int
    last: bool
    backward: tuple[bool, ...]


class Recurrence(NamedTuple):
    """sizes: of the states. lengths: of the sequences, where they differ; zeros are stored beyond. tensors: the states'."""

    sizes: tuple[int, int, int, int]
    data_type: DataType
    lengths: Place | None
    directions: tuple[Direction, ...]
    results: tuple[Result, ...]
    tensors: tuple[Tensor, ...]


NO_STATES = "no tensor is computed step by step"


def recurrence(statement: Statement) -> Recurrence | str:
    """The recurrence that a statement comes to, or why it is none."""
    tensors = _states(statement)
    if not tensors:
        return NO_STATES
    try:
        return _Matched(statement, tensors).found()
    except Unmatched as error:
        return str(error)


def _states(statement: Statement) -> list[Tensor]:
    """The tensors with definitions that outputs and definitions read, those first that others read at their own step."""
    found: dict[Tensor, None] = {}
    waiting = [nest.body for nest in statement.values()]
    while waiting:
        for e in walk(waiting.pop()):
            if e.op == "read" and (tensor := e.data[0]).definition is not None and tensor not in found:
                found[tensor] = None
                waiting.append(tensor.definition.body)
    ordered: list[Tensor] = []
    left = list(found)
    while left:
        free = [t for t in left if not any(o is not t and o in _of_same_step(t) for o in left)]
        if not free:
            return []
        ordered += free
        left = [t for t in left if t not in free]
    return ordered


def _of_same_step(tensor: Tensor) -> set[Tensor]:
    """The tensors that a definition reads at the step that it defines."""
    assert tensor.definition is not None
    first = tensor.definition.index[0]
    return {e.data[0] for e in walk(tensor.definition.body) if e.op == "read" and e.args[0] is first}


class _Matched:
    def __init__(self, statement: Statement, tensors: Sequence[Tensor]) -> None:
        self.statement, self.tensors = statement, tensors
        self.sizes, self.data_type = tensors[0].sizes, tensors[0].data_type
        if len(self.sizes) != 4 or any(t.sizes != self.sizes or t.data_type != self.data_type for t in tensors):
            raise Unmatched("states have other sizes than {steps, directions, sequences, units}, or not the same")
        self.lengths: Place | None = None

    def found(self) -> Recurrence:
        steps, directions, sequences, units = self.sizes
        for tensor in self.tensors:
            self._lengths_in(definition(tensor))
        made = tuple(_InDirection(self, number).found() for number in range(directions))
        results = tuple(self._result(name, nest) for name, nest in self.statement.items())
        sizes = (steps, directions, sequences, units)
        return Recurrence(sizes, self.data_type, self.lengths, made, results, tuple(self.tensors))

    def _lengths_in(self, nest: Nest) -> None:
        """Note where the lengths of the sequences are read."""
        for e in walk(nest.body):
            if (read := self._limited(e)) is not None:
                found = place(read, {nest.variables[2]: "sequence"})
                if self.lengths not in (None, found) or found.data_type != DataType.UINT32:
                    raise Unmatched("sequences have several lengths, or none of UINT32")
                self.lengths = found

    def _limited(self, e: Expr) -> Expr | None:
        """What is read of a length: an element of an input, but no more than there are steps."""
        if e.op != "min" or e.sort != INDEX or e.args[0].op != "index" or e.args[0].args[0].op != "read":
            return None
        limit = e.args[1]
        return e.args[0].args[0] if limit.op == "constant" and limit.data.value == self.sizes[0] else None

    def is_length(self, sequence: Variable, e: Expr) -> bool:
        """Whether a node is the length of a sequence."""
        read = self._limited(e)
        return read is not None and place(read, {sequence: "sequence"}) == self.lengths

    def _result(self, name: str, nest: Nest) -> Result:
        found = [self._of_direction(nest, r) for r in range(self.sizes[1])]
        if len({(state, last) for state, last, _ in found}) > 1:
            raise Unmatched("directions have other results")
        return Result(name, found[0][0], found[0][1], tuple(backward for _, _, backward in found))

    def _of_direction(self, nest: Nest, direction: int) -> tuple[int, bool, bool]:
        """The state, whether it is the last one, and whether its steps are counted from the end."""
        if nest.moves or len(nest.index) != 4 or nest.sizes[1:] != self.sizes[1:]:
            raise Unmatched("an output has other sizes than a state")
        t, r, b, j = nest.variables
        is_length = partial(self.is_length, b)
        value = self.within(in_direction(nest.body, r, direction), t, b)
        if value.op != "read" or value.data[0] not in self.tensors or value.data[1] != "inside":
            raise Unmatched("an output is no state")
        at, *others = (linear(a, is_length) for a in value.args)
        if others != [Affine(direction, {}), Affine(0, {b: 1}), Affine(0, {j: 1})]:
            raise Unmatched("an output is another element of a state")
        state = self.tensors.index(value.data[0])
        if t.size == 1 and at == (Affine(-1, {LENGTH: 1}) if self.lengths else Affine(self.sizes[0] - 1, {})):
            return state, True, False
        if t.size != self.sizes[0]:
            raise Unmatched("an output has other steps than a state")
        return state, False, Steps(t, self.sizes[0], is_length).backward(at)

    def within(self, e: Expr, t: Variable, b: Variable) -> Expr:
        """What a sequence has of a node at its own steps; beyond, it has to be 0."""
        if self.lengths is None:
            return e
        if e.op == "select" and e.args[0].op == "less" and _is_zero(e.args[2]):
            at, end = e.args[0].args
            first = _is_zero(at) or (at.op == "variable" and at.data is t)
            if first and self.is_length(b, end):
                return e.args[1]
        raise Unmatched("what is beyond a sequence's end is not 0")


def _is_zero(e: Expr) -> bool:
    return e.op == "constant" and e.data.value == 0 and e.data.integral


def definition(tensor: Tensor) -> Nest:
    """What the elements of a state are."""
    assert tensor.definition is not None
    return tensor.definition


class _InDirection:
    """The stages of one direction."""

    def __init__(self, whole: _Matched, number: int) -> None:
        self.whole, self.number = whole, number
        self.starts: dict[Tensor, Place | None] = {}
        self.stages: list[Stage] = []

    def found(self) -> Direction:
        for number, tensor in enumerate(self.whole.tensors):
            nest = definition(tensor)
            self.t, r, self.b, j = nest.variables
            if nest.moves:
                raise Unmatched("a state is moved")
            self.steps = Steps(self.t, self.whole.sizes[0], partial(self.whole.is_length, self.b))
            body = self.whole.within(in_direction(nest.body, r, self.number), self.t, self.b)
            self._stage(number, rewritten(joined(body, self.t, self._is_any_before, self._started)), j)
        return Direction(tuple(self.stages), tuple(self.starts.get(t) for t in self.whole.tensors))

    def _stage(self, state: int | None, body: Expr, unit: Variable) -> int:
        made = _Formula(self, unit)
        stage = Stage(state, formula(made.of(body)), tuple(made.leaves))
        if stage not in self.stages:
            self.stages.append(stage)
        return self.stages.index(stage)

    def _started(self, starts: Starts) -> None:
        """Note what states begin with."""
        for read, start, renamed in starts:
            tensor, unit = read.data[0], read.args[3].data
            if _is_zero(start):
                found = None
            else:
                units = [v for v, meant in renamed.items() if meant is unit] or [unit]
                found = place(start, {self.b: "sequence", units[0]: "unit"})
                if found.data_type != tensor.data_type:
                    raise Unmatched("a state begins with elements of another type")
            if self.starts.setdefault(tensor, found) != found:
                raise Unmatched("a state has several beginnings")

    def _is_any_before(self, e: Expr) -> bool:
        """Whether a node is an element, of any unit, after the step before."""
        return e.op == "read" and e.args[-1].op == "variable" and self._reads(e, e.args[-1].data, -1)

    def _reads(self, e: Expr, unit: Variable, step: int) -> bool:
        if e.op != "read" or e.data[0] not in self.whole.tensors or e.data[1] != "inside":
            return False
        wanted = [Affine(step, {self.t: 1}), Affine(self.number, {}), Affine(0, {self.b: 1}), Affine(0, {unit: 1})]
        return [linear(a, self.steps.is_length) for a in e.args] == wanted

    def leaf(self, e: Expr, unit: Variable) -> Leaf:
        """What a read, or a sum, is of the formula of a unit."""
        if e.op == "reduce":
            return self._product(e, unit)
        tensor = e.data[0]
        if tensor.definition is None:
            return self._own_type(place(e, {unit: "unit"}))
        if self._reads(e, unit, -1):
            return Old(self.whole.tensors.index(tensor))
        if self._reads(e, unit, 0):
            return New(self.whole.tensors.index(tensor))
        raise Unmatched("an element depends on others of its own step, or of an earlier one")

    def _own_type(self, found: Place) -> Place:
        if found.data_type != self.whole.data_type:
            raise Unmatched("an input has another type than the states")
        return found

    def _product(self, e: Expr, unit: Variable) -> Product:
        kind, bound = e.data
        if kind != "sum" or len(bound) != 1 or len(e.args) != 1 or e.args[0].op != "mul":
            raise Unmatched("a reduction is no sum of products")
        (term,) = bound
        for a, b in (e.args[0].args, e.args[0].args[::-1]):
            if b.op == "read" and b.data[0].definition is None and not self._moves(b):
                weights = self._own_type(place(b, {unit: "unit", term: "term"}))
                return Product(self._source(a, term), weights, int(term.size))
        raise Unmatched("a sum is of no elements by weights")

    def _moves(self, e: Expr) -> bool:
        return any(node.op == "variable" and node.data in (self.t, self.b) for node in walk(e))

    def _source(self, e: Expr, term: Variable) -> Source:
        if self._reads(e, term, -1):
            return Before(self.whole.tensors.index(e.data[0]))
        if e.op == "read" and e.data[0].definition is None:
            return self._own_type(place(e, {term: "term", self.b: "sequence"}, self.steps))
        return Scaled(self._stage(None, e, term))


class _Formula:
    """The nodes of a formula for a unit, and what it reads."""

    def __init__(self, direction: _InDirection, unit: Variable) -> None:
        self.direction, self.unit = direction, unit
        self.leaves: list[Leaf] = []
        self.nodes: list[Node] = []
        self.known: dict[Node, int] = {}
        self.places: dict[Expr, int] = {}

    def of(self, e: Expr) -> tuple[Node, ...]:
        last = self._place(e)
        if last != len(self.nodes) - 1:
            self.nodes.append(Node("same", (last,), None))
        return tuple(self.nodes)

    def _place(self, e: Expr) -> int:
        if e not in self.places:
            self.places[e] = self._add(self._node(e))
        return self.places[e]

    def _node(self, e: Expr) -> Node:
        if e.op in ("read", "reduce"):
            leaf = self.direction.leaf(e, self.unit)
            if leaf not in self.leaves:
                self.leaves.append(leaf)
            return Node("stream", (), (self.leaves.index(leaf), self.direction.whole.data_type))
        if e.sort == INDEX or e.op in ("position", "philox", "rank", "first_largest", "first_smallest"):
            raise Unmatched("an element depends on its position")
        return Node(e.op, tuple(self._place(a) for a in e.args), e.data)

    def _add(self, node: Node) -> int:
        if node not in self.known:
            self.known[node] = len(self.nodes)
            self.nodes.append(node)
        return self.known[node]
