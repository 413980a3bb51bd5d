"""The statement of a part of an output, which reads parts of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.schema.expression import Tensor, each
from anydml.schema.node import INDEX, Expr, Variable, is_integer, lift, make
from anydml.schema.statement import Nest
from anydml.schema.traversal import walk


class Part(NamedTuple):
    """A part of an input: where it begins in each dimension, and the tensor of its elements.

    complete: an index of any read is inside the part if and only if it is inside the input.
    """

    starts: tuple[int, ...]
    tensor: Tensor
    complete: bool


class _Place(NamedTuple):
    """A dimension that an index reads. start: where the part begins; size, of_part: those of the input and of the part."""

    start: int
    size: int
    of_part: int


def shifted(
    whole: Nest,
    starts: Sequence[int],
    sizes: Sequence[int],
    parts: Mapping[str, Part],
    terms: Mapping[Variable, slice] | None = None,
) -> Nest:
    """The elements of a window of a nest, as a nest of their own. parts: of the inputs, by name.

    terms: the values of variables of reductions, which then run over these terms alone.
    """
    i = each(sizes)
    moved = {v: (x, start) for v, x, start in zip(whole.variables, i, starts, strict=True)}
    for v, kept in (terms or {}).items():
        (x,) = each((kept.stop - kept.start,), v.name)
        moved[v] = x, kept.start
    nodes = walk(whole.body)
    places: dict[Expr, _Place] = {}
    for node in nodes:
        if node.op == "read" and (part := parts[node.data[0].name]).complete:
            every = zip(node.args, part.starts, node.data[0].sizes, part.tensor.sizes, strict=False)
            places |= {e: _Place(*place) for e, *place in every if not is_integer(e) and e not in places}
    made: dict[Expr, Expr] = {}
    for node in nodes:
        made[node] = _again(node, made, moved, parts, places)
    return Nest(tuple(i), made[whole.body], whole.moves)


def _again(
    node: Expr,
    made: Mapping[Expr, Expr],
    moved: Mapping[Variable, tuple[Expr, int]],
    parts: Mapping[str, Part],
    places: Mapping[Expr, _Place],
) -> Expr:
    if node.op == "variable":
        if node.data not in moved:
            return node
        i, start = moved[node.data]
        return i + start
    args = tuple([made[a] for a in node.args])
    if node.op == "read":
        tensor, outside = node.data
        part = parts[tensor.name]
        at = [plain(a, start) for a, start in zip(args, part.starts, strict=False)]
        return make("read", (*at, *args[len(at) :]), (part.tensor, outside), node.sort)
    if node.op in ("less", "less_equal"):
        for k in (0, 1):
            if is_integer(node.args[1 - k]) and (place := places.get(node.args[k])) is not None:
                return _compared(node, k, args[k], place)
    if node.op == "reduce" and any(v in moved for v in node.data[1]):
        kind, bound = node.data
        return make("reduce", args, (kind, tuple([moved[v][0].data if v in moved else v for v in bound])), node.sort)
    if node.op in ("first_largest", "first_smallest") and any(v in moved for v in node.data[0]):
        bound, last = node.data
        return make(node.op, args, (tuple([moved[v][0].data if v in moved else v for v in bound]), last), node.sort)
    if args == node.args:
        return node
    if node.sort == INDEX and node.op in ("floordiv", "mod"):
        return _divided(node.op, args)
    return make(node.op, args, node.data, node.sort)


def _compared(node: Expr, k: int, index: Expr, place: _Place) -> Expr:
    """A comparison of an index that is read at with a number, in the part's indices: kernels know them by those."""
    bound = int(node.args[1 - k].data.value)
    if bound == place.size and node.op == "less" and k == 0:
        bound = place.of_part
    elif not (bound == 0 and node.op == "less_equal" and k == 1):
        bound -= place.start
    at = plain(index, place.start)
    return make(node.op, (at, lift(bound)) if k == 0 else (lift(bound), at))


def _divided(op: str, args: tuple[Expr, ...]) -> Expr:
    """A quotient or remainder, with whole multiples of a constant divisor taken out of the dividend."""
    dividend, divisor = args
    if is_integer(divisor) and (n := int(divisor.data.value)):
        constant, terms = linear(dividend)
        times, rest = divmod(constant, n)
        if times:
            less = _spelled(terms, rest)
            return make("mod", (less, divisor)) if op == "mod" else make("floordiv", (less, divisor)) + times
    return make(op, (plain(dividend), divisor))


def plain(e: Expr, less: int = 0) -> Expr:
    """An index, less a number, in the form in which statements are written, so that kernels recognise it."""
    constant, terms = linear(e)
    return _spelled(terms, constant - less)


def linear(e: Expr) -> tuple[int, dict[Expr, int]]:
    """An index as a constant and a sum of nodes that are no sums, each with a factor."""
    terms: dict[Expr, int] = {}
    constant = _added(e, 1, terms)
    return constant, {node: factor for node, factor in terms.items() if factor}


def _added(e: Expr, times: int, terms: dict[Expr, int]) -> int:
    if is_integer(e):
        return times * int(e.data.value)
    if e.sort == INDEX:
        if e.op == "neg":
            return _added(e.args[0], -times, terms)
        if e.op in ("add", "sub"):
            first = _added(e.args[0], times, terms)
            return first + _added(e.args[1], times if e.op == "add" else -times, terms)
        if e.op == "mul":
            for x, y in (e.args, e.args[::-1]):
                if is_integer(y):
                    return _added(x, times * int(y.data.value), terms)
    terms[e] = terms.get(e, 0) + times
    return 0


def _spelled(terms: Mapping[Expr, int], constant: int) -> Expr:
    total: Expr | None = None
    for node, factor in terms.items():
        if total is None:
            total = node * factor
        else:
            total = total + node * factor if factor > 0 else total - node * -factor
    if total is None:
        return lift(constant)
    return total + constant if constant >= 0 else total - -constant
