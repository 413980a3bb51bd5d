"""Indices and branches of recurrences: steps counted from either end, a single direction, and the first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from anydml.kernels.match.affine import Affine, affine_in
from anydml.kernels.match.structure import Differences, differences, reads_input
from anydml.kernels.match.unmatched import Unmatched
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable, is_integer, lift
from anydml.schema.traversal import rebuilt
from anydml.tensor import DataType

LENGTH = Variable("length", None)  # the length of a sequence, in indices that depend on it
ROLES = ("unit", "term", "sequence", "step")


class SteppedElement(NamedTuple):
    """The elements of an input that a recurrence reads. start: the index of the first.

    unit, term, sequence, step: the steps of each index with the unit, with a sum's term, with the sequence, and with the step,
    which is counted from the sequence's end if `backward`.
    """

    name: str
    data_type: DataType
    start: tuple[int, ...]
    unit: tuple[int, ...]
    term: tuple[int, ...]
    sequence: tuple[int, ...]
    step: tuple[int, ...]
    backward: bool

    def inside(self, sizes: tuple[int, ...], extents: Mapping[str, int]) -> bool:
        """Whether all indices are inside a tensor of these sizes, if units, terms, .. have these extents."""
        for d, (first, size) in enumerate(zip(self.start, sizes, strict=True)):
            moves = [getattr(self, role)[d] * (extents[role] - 1) for role in ROLES]
            if first + sum(min(m, 0) for m in moves) < 0 or first + sum(max(m, 0) for m in moves) >= size:
                return False
        return True


class StepLoop(NamedTuple):
    """The variable of steps, their largest number, and a test whether a node is the length of the sequence."""

    variable: Variable
    longest: int
    is_length: Callable[[Expr], bool]

    def backward(self, at: Affine) -> bool:
        """Whether an index is the step counted from the end, or (False) counted from the beginning."""
        if at == Affine(0, {self.variable: 1}):
            return False
        if at in (Affine(-1, {LENGTH: 1, self.variable: -1}), Affine(self.longest - 1, {self.variable: -1})):
            return True
        raise Unmatched("a step reads an input at another step")


def linear(e: Expr, is_length: Callable[[Expr], bool]) -> Affine:
    """An index as an affine function of variables and of `LENGTH`."""
    return affine_in(e, lambda node: Affine(0, {LENGTH: 1}) if is_length(node) else None)


def place(e: Expr, roles: Mapping[Variable, str], steps: StepLoop | None = None) -> SteppedElement:
    """The elements of an input that a read gives."""
    tensor: Tensor = e.data[0]
    if not reads_input(e, "inside"):
        raise Unmatched("an element is not one of an input")
    moves = {role: [0] * len(tensor.sizes) for role in ROLES}
    start, backward = [], False
    for d, index in enumerate(e.args):
        at = linear(index, steps.is_length if steps else lambda _: False)
        if steps and (LENGTH in at.factors or steps.variable in at.factors):
            if any(moves["step"]):
                raise Unmatched("an input is read at the step in two dimensions")
            backward = steps.backward(at)
            moves["step"][d] = 1
            at = Affine(0, {})
        for v, factor in at.factors.items():
            if v not in roles:
                raise Unmatched("an index depends on another variable")
            moves[roles[v]][d] += factor
        start.append(at.constant)
    unit, term, sequence, step = (tuple(moves[role]) for role in ROLES)
    return SteppedElement(tensor.name, tensor.data_type, tuple(start), unit, term, sequence, step, backward)


def in_direction(e: Expr, variable: Variable, number: int) -> Expr:
    """A node for a known direction, without the branches of other directions."""

    def known(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if node.op == "variable" and node.data is variable:
            return lift(number)
        if node.op == "select" and args[0].op == "equal" and all(is_integer(a) for a in args[0].args):
            one, two = (a.data.value for a in args[0].args)
            return args[1] if one == two else args[2]
        return None

    return rebuilt(e, known)


def joined(e: Expr, step: Variable, is_before: Callable[[Expr], bool], note: Callable[[Differences], None]) -> Expr:
    """A node without the branches of the first step, if these have initial values in the place of elements of the step before.

    is_before: whether a node is an element of the step before. note: is called with such elements, the initial values in their
    place, and the variables that are renamed in these.
    """

    def begins(x: Expr, y: Expr) -> bool:
        return is_before(x) and (y.op == "constant" or (y.op == "read" and y.data[0].definition is None))

    def later(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if node.op != "select" or not _after_first(args[0], step):
            return None
        found = differences(args[1], args[2], {}, begins)
        if found is None:
            raise Unmatched("the first step differs from the others in more than its initial values")
        note(found)
        return args[1]

    return rebuilt(e, later)


def _after_first(e: Expr, step: Variable) -> bool:
    """Whether a condition says that a step is not the first."""
    if e.op != "less":
        return False
    zero, at = e.args
    return zero.op == "constant" and zero.data.value == 0 and at.op == "variable" and at.data is step
