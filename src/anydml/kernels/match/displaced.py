"""Statements that move elements from or to indices that are read from data: gathers, and scatters over other elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple, NoReturn

from anydml.kernels.match.affine import Affine, affine
from anydml.kernels.match.moves import Move, moves
from anydml.kernels.match.structure import is_whole, operands, reads_input
from anydml.kernels.match.unmatched import Unmatched, need, only, pattern
from anydml.schema.expression import Tensor, as_number, unraveled
from anydml.schema.node import Expr, Variable, make
from anydml.schema.statement import Nest, Statement
from anydml.schema.traversal import walk, with_nodes


class Named(NamedTuple):
    """A dimension whose index is read from data; None if the data are row-major positions over all dimensions.

    start: the index, in the tensor of indices, of the first one. size: indices must be below it. wraps: indices of -size to -1
    count from the end; else they must be at least 0.
    """

    dimension: int | None
    start: tuple[int, ...]
    size: int
    wraps: bool


class DisplacedElement(NamedTuple):
    """The elements in a tensor: the index of the first one, and each loop's step in each index."""

    tensor: str
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


class Displaced(NamedTuple):
    """The elements that loops of these sizes move; later ones overwrite earlier ones.

    named: the dimensions whose index is data: the source's or, if `scatters`, the target's. ordered: the number of innermost
    loops that must keep their order. before: moves to the target that come first.
    """

    sizes: tuple[int, ...]
    source: DisplacedElement
    target: DisplacedElement
    indices: DisplacedElement
    named: tuple[Named, ...]
    scatters: bool
    ordered: int
    before: tuple[Move, ...]


def _refuse(reason: str) -> NoReturn:
    raise Unmatched(reason)


NO_MOVE = "elements are computed, not moved"
NEITHER = "an index is neither affine nor read from data"
NONE_NAMED = "no index is read from data"


@pattern
def displaced(statement: Statement) -> Displaced:
    """The moves from or to indices in data that compute a statement's only output, or the reason why it is none."""
    name, nest = only(statement)
    need(nest.moves, NO_MOVE)
    return _scattered(name, nest) if nest.body.op == "select" else _gathered(name, nest)


def _gathered(name: str, nest: Nest) -> Displaced:
    tensor, at = _read(nest.body)
    variables = nest.variables
    named: list[Callable[..., Named]] = []
    reads, plain = list[Expr](), list[Affine]()
    for dimension, e in enumerate(at):
        found = affine(e)
        if found is None:
            value, wraps = _wrapped(e, tensor.sizes[dimension])
            if value.op != "index":
                _refuse(NEITHER)
            reads.append(value.args[0])
            named.append(partial(Named, dimension, size=tensor.sizes[dimension], wraps=wraps))
        plain.append(found or Affine(0, {}))
    indices, starts = _indices(reads, variables)
    return Displaced(
        tuple([v.size for v in variables]),
        _place(tensor.name, plain, variables),
        _place(name, [_affine(i) for i in nest.index], variables),
        indices,
        tuple([make(start=start) for make, start in zip(named, starts, strict=True)]),
        False,
        0,
        (),
    )


def _scattered(name: str, nest: Nest) -> Displaced:
    """The moves of select(an index is that of this element, the update, another element); the last such index counts."""
    condition, update, otherwise = nest.body.args
    bound, condition, update = _by_position(condition, update)
    named: list[Callable[..., Named]] = []
    reads, taken = list[Expr](), set[Variable]()
    for met in operands(condition, "both"):
        if met.op != "equal" or met.args[1].op != "position":
            _refuse("the condition does not compare an index that is read with the output's index")
        value, place = met.args
        dimension, size, variables = _named_place(place.args[0], nest)
        value, wraps = _wrapped(value, size)
        reads.append(value)
        named.append(partial(Named, dimension, size=size, wraps=wraps))
        taken.update(variables)
    loops = [*(v for v in nest.variables if v not in taken), *bound]
    tensor, at = _read(update)
    indices, starts = _indices(reads, loops)
    into = [Affine(0, {} if v in taken else {v: 1}) for v in nest.variables]
    before = moves({name: Nest(nest.index, otherwise, moves=True)}, tensor.data_type)
    if isinstance(before, str):
        _refuse(before)
    return Displaced(
        tuple([v.size for v in loops]),
        _place(tensor.name, [_affine(e) for e in at], loops),
        _place(name, into, loops),
        indices,
        tuple([make(start=start) for make, start in zip(named, starts, strict=True)]),
        True,
        len(bound),
        tuple(before),
    )


def _by_position(condition: Expr, update: Expr) -> tuple[tuple[Variable, ...], Expr, Expr]:
    """The variables over which the last position that meets the condition is searched; condition and update in them."""
    sought = {e for e in walk(condition) if e.op in ("first_largest", "first_smallest")}
    if not sought:
        return (), condition, update
    last = sought.pop()
    bound, is_last = last.data
    key = last.args[0]
    if sought or last.op != "first_largest" or not is_last or key.op != "select" or as_number(key.args[0]) is not key:
        _refuse("duplicates are not decided by the last position")
    found, variables = unraveled(last, [v.size for v in bound]), _variables_in(key, bound)
    # the indices of dimensions of size 1 may be the same node; any variable may replace them, since they are 0
    update = with_nodes(update, dict(zip(found, variables, strict=True)))
    is_met = with_nodes(key.args[0], dict(zip(variables, found, strict=True))) is condition
    if not is_met or any(e is last for e in walk(update)):
        _refuse("the update is not the last one that meets the condition")
    return bound, key.args[0], update


def _variables_in(e: Expr, bound: Sequence[Variable]) -> list[Expr]:
    """The nodes of variables. Nodes in the expression are reused, since two nodes of one variable are not equal."""
    nodes = {node.data: node for node in walk(e) if node.op == "variable"}
    return [nodes[v] if v in nodes else make("variable", (), v, "index") for v in bound]


def _named_place(e: Expr, nest: Nest) -> tuple[int | None, int, Sequence[Variable]]:
    """The dimension of the output whose index an expression is, or None for the row-major position.

    -> (dimension, number of values, the variables that it determines)
    """
    variables = nest.variables
    if e.op == "variable" and e.data in variables:
        return variables.index(e.data), e.data.size, (e.data,)
    found, step, factors = affine(e), 1, dict[Variable, int]()
    for v in reversed(variables):
        factors[v] = step
        step *= v.size
    if found is None or found.constant or found.factors != factors:
        _refuse("an index that is read is not compared with the output's index")
    return None, prod(nest.sizes), variables


def _wrapped(e: Expr, size: int) -> tuple[Expr, bool]:
    """An index that is data, and whether negative ones count from the end of `size` elements."""
    if e.op != "select":
        return e, False
    condition, above, value = e.args
    negative = condition.op == "less" and condition.args[0] is value and is_whole(condition.args[1], 0)
    if not negative or above.op != "add" or above.args[0] is not value or not is_whole(above.args[1], size):
        _refuse(NEITHER)
    return value, True


def _read(e: Expr) -> tuple[Tensor, tuple[Expr, ...]]:
    if not reads_input(e, "inside"):
        _refuse("an element is not one of an input")
    return e.data[0], e.args


def _indices(reads: Sequence[Expr], loops: Sequence[Variable]) -> tuple[DisplacedElement, list[tuple[int, ...]]]:
    """The tensor of indices, and in it the place of each index of the first element that is moved."""
    if not reads:
        _refuse(NONE_NAMED)
    found = [_read(e) for e in reads]
    places = [_place(t.name, [_affine(a) for a in at], loops) for t, at in found]
    if len({(p.tensor, p.steps) for p in places}) > 1:
        _refuse("indices are read from several tensors, or at different places")
    if found[0][0].data_type.is_float:
        _refuse("indices are not integers")
    return places[0], [p.start for p in places]


def _affine(e: Expr) -> Affine:
    return affine(e) or _refuse(NEITHER)


def _place(tensor: str, at: Sequence[Affine], loops: Sequence[Variable]) -> DisplacedElement:
    if any(v not in loops for index in at for v in index.factors):
        _refuse("an index depends on a variable that no loop counts")
    return DisplacedElement(
        tensor,
        tuple([index.constant for index in at]),
        tuple([tuple([index.factors.get(v, 0) for index in at]) for v in loops]),
    )
