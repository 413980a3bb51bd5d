"""Sums in a program whose weights do not depend on the lane: their terms, from sums nested in any way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.match.nests import Program
from anydml.kernels.match.unmatched import Unmatched
from anydml.kernels.nests.separable import above_zero, shares

LEAST = 4  # fewer terms are not worth a list


class WeightedTerm(NamedTuple):
    """An element that counts if conditions hold. offsets: its address except for the lane; weights: its factors.

    positive: numbers that also have to be above 0, and are known to be at least 0.
    """

    offsets: tuple[int, ...]
    weights: tuple[int, ...]
    conditions: tuple[int, ...]
    positive: tuple[int, ...]


class Weighted(NamedTuple):
    """A sum of terms. place: its node. along: the lane's offset in the tensor, which all terms share."""

    place: int
    tensor: int
    along: int
    terms: tuple[WeightedTerm, ...]


def weighted(program: Program, lane: int) -> Weighted | None:
    """The sum that a program's element equals, or is computed from with values that do not depend on the lane; else None."""
    if len(program.roots) != 1 or program.ring or program.moves:
        return None
    nodes, free = program.nodes, program.nodes.free
    place = program.roots[0]
    while nodes[place].op == "half_to_even" or (nodes[place].op in ("mul", "div") and lane not in free[nodes[place].args[1]]):
        place = nodes[place].args[0]
    if nodes[place].op != "terms":
        return None
    try:
        found = list(_terms(program, lane, place, (), ()))
    except Unmatched:
        return None
    along = {o for read, _, _ in found for o in nodes[read].args if lane in free[o]}
    tensors = {nodes[read].data for read, _, _ in found}
    if len(along) != 1 or len(tensors) != 1 or len(found) < LEAST:
        return None
    between = shares(program)
    terms = []
    for read, weights, conditions in found:
        offsets = tuple(o for o in nodes[read].args if lane not in free[o])
        factors = tuple(f for w in weights for f in program.nodes.operands(w, "mul"))
        others, positive = list[int](), list[int]()
        for c in (c for condition in conditions for c in program.nodes.operands(condition, "both")):
            above = above_zero(nodes, c)
            parts = [] if above is None else program.nodes.operands(above, "mul")
            # a product of such numbers is above 0 if all of them are
            if parts and between.issuperset(parts):
                positive += parts
            elif nodes[c].op != "truth":
                others.append(c)
        terms.append(WeightedTerm(offsets, factors, tuple(dict.fromkeys(others)), tuple(dict.fromkeys(positive))))
    return Weighted(place, tensors.pop(), along.pop(), tuple(terms))


def _terms(
    program: Program, lane: int, place: int, weights: tuple[int, ...], conditions: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """The read, the weights and the conditions of each term."""
    free, (op, args, data) = program.nodes.free, program.nodes[place]
    if any(lane in free[c] for c in conditions):
        raise Unmatched
    if op == "terms" and data == "sum":
        for term, condition in zip(args[::2], args[1::2], strict=True):
            yield from _terms(program, lane, term, weights, (*conditions, condition))
    elif op == "mul":
        first, second = args if lane in free[args[0]] else reversed(args)
        if lane in free[second]:
            raise Unmatched
        yield from _terms(program, lane, first, (*weights, second), conditions)
    elif op == "select" and (otherwise := program.nodes[args[2]]).op == "constant" and otherwise.data.value == 0:
        if isinstance(otherwise.data.value, float):  # -0
            raise Unmatched
        yield from _terms(program, lane, args[1], weights, (*conditions, args[0]))
    elif op == "read" and lane in free[place]:
        yield place, weights, conditions
    else:
        raise Unmatched
