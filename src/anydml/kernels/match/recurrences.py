"""Statements of states: tensors that are computed step by step, each element from sums of products over the step before.

A state's index is {step, direction, sequence, unit}. Each direction is matched by itself. Its formula is the same for all
steps; only the initial values, which take the place of the step before the first, are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anydml.kernels.match.affine import Affine
from anydml.kernels.match.directions import InDirection
from anydml.kernels.match.states import Recurrence, StateOutput, definition
from anydml.kernels.match.stepped import LENGTH, StepLoop, SteppedElement, in_direction, linear, place
from anydml.kernels.match.structure import is_whole
from anydml.kernels.match.unmatched import Unmatched, need, pattern
from anydml.schema.expression import Tensor
from anydml.schema.node import INDEX, Expr, Variable
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import reads_in, walk
from anydml.tensor import DataType

NO_STATES = "no tensor is computed step by step"


@pattern
def recurrence(statement: Statement) -> Recurrence:
    """The recurrence that a statement computes, or the reason why it is none."""
    tensors = _states(statement)
    need(tensors, NO_STATES)
    return _Matched(statement, tensors).found()


def _states(statement: Statement) -> list[Tensor]:
    """The tensors with definitions that outputs and definitions read. Each comes after those that it reads at its own step."""
    found: dict[Tensor, None] = {}
    waiting = [nest.body for nest in statement.values()]
    while waiting:
        for e in reads_in(waiting.pop()):
            if (tensor := e.data[0]).definition is not None and tensor not in found:
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
    return {e.data[0] for e in reads_in(tensor.definition.body) if e.args[0] is first}


class _Matched:
    def __init__(self, statement: Statement, tensors: Sequence[Tensor]) -> None:
        self.statement, self.tensors = statement, tensors
        self.sizes, self.data_type = tensors[0].sizes, tensors[0].data_type
        if len(self.sizes) != 4 or any(t.sizes != self.sizes or t.data_type != self.data_type for t in tensors):
            raise Unmatched("states have other sizes than {steps, directions, sequences, units}, or not the same")
        self.lengths: SteppedElement | None = None

    def found(self) -> Recurrence:
        steps, directions, sequences, units = self.sizes
        for tensor in self.tensors:
            self._lengths_in(definition(tensor))
        made = tuple(InDirection(self, number).found() for number in range(directions))
        results = tuple(self._result(name, nest) for name, nest in self.statement.items())
        sizes = (steps, directions, sequences, units)
        return Recurrence(sizes, self.data_type, self.lengths, made, results, tuple(self.tensors))

    def _lengths_in(self, nest: Nest) -> None:
        """Find the reads of the sequences' lengths."""
        for e in walk(nest.body):
            if (read := self._limited(e)) is not None:
                found = place(read, {nest.variables[2]: "sequence"})
                if self.lengths not in (None, found) or found.data_type != DataType.UINT32:
                    raise Unmatched("sequences have several lengths, or none of UINT32")
                self.lengths = found

    def _limited(self, e: Expr) -> Expr | None:
        """The read of a length: an element of an input, limited to the number of steps."""
        if e.op != "min" or e.sort != INDEX or e.args[0].op != "index" or e.args[0].args[0].op != "read":
            return None
        limit = e.args[1]
        return e.args[0].args[0] if limit.op == "constant" and limit.data.value == self.sizes[0] else None

    def is_length(self, sequence: Variable, e: Expr) -> bool:
        """Whether a node is the length of a sequence."""
        read = self._limited(e)
        return read is not None and place(read, {sequence: "sequence"}) == self.lengths

    def _result(self, name: str, nest: Nest) -> StateOutput:
        found = [self._of_direction(nest, r) for r in range(self.sizes[1])]
        if len({(state, last) for state, last, _ in found}) > 1:
            raise Unmatched("directions have different results")
        return StateOutput(name, found[0][0], found[0][1], tuple(backward for _, _, backward in found))

    def _of_direction(self, nest: Nest, direction: int) -> tuple[int, bool, bool]:
        """The state that an output holds, whether only its last step, and whether steps are counted from the end."""
        if nest.moves or len(nest.index) != 4 or nest.sizes[1:] != self.sizes[1:]:
            raise Unmatched("an output has other sizes than the states")
        t, r, b, j = nest.variables
        is_length = partial(self.is_length, b)
        value = self.within(in_direction(nest.body, r, direction), t, b)
        if value.op != "read" or value.data[0] not in self.tensors or value.data[1] != "inside":
            raise Unmatched("an output is not a state")
        at, *others = (linear(a, is_length) for a in value.args)
        if others != [Affine(direction, {}), Affine(0, {b: 1}), Affine(0, {j: 1})]:
            raise Unmatched("an output is another element of a state")
        state = self.tensors.index(value.data[0])
        if t.size == 1 and at == (Affine(-1, {LENGTH: 1}) if self.lengths else Affine(self.sizes[0] - 1, {})):
            return state, True, False
        if t.size != self.sizes[0]:
            raise Unmatched("an output has other steps than the states")
        return state, False, StepLoop(t, self.sizes[0], is_length).backward(at)

    def within(self, e: Expr, t: Variable, b: Variable) -> Expr:
        """The value of a node at the steps of a sequence; after its end, the node has to be 0."""
        if self.lengths is None:
            return e
        if e.op == "select" and e.args[0].op == "less" and is_whole(e.args[2], 0):
            at, end = e.args[0].args
            first = is_whole(at, 0) or (at.op == "variable" and at.data is t)
            if first and self.is_length(b, end):
                return e.args[1]
        raise Unmatched("elements beyond a sequence's end are not 0")
