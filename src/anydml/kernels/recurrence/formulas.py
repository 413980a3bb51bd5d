"""Formulas of stages: a choice by sign replaces a sum in which one term is 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations

from anydml.kernels.elementwise.combined import combined
from anydml.kernels.match.normal_form import Node, NormalForm
from anydml.schema.node import Constant


def of_stage(formula: NormalForm) -> NormalForm:
    """The formula as `combined` gives it, with max(0, x) + min(0, f) as x where 0 < x, else f, for f = a (e^(x / b) - 1).

    So e^x of a large x, which overflows float64, is not computed. f has the sign of x; of 0, f is +0.
    """
    return combined(formula).rewritten(_chosen)


def _chosen(nodes: list[Node], node: Node) -> Node | None:
    for largest, least in permutations(node.args) if node.op == "add" and len(set(node.args)) == 2 else ():
        for zero, x in _beside_zero(nodes, largest, "max"):
            for _, found in _beside_zero(nodes, least, "min"):
                if _grows_from(nodes, found, x):
                    nodes.append(Node("less", (zero, x), None))
                    return Node("select", (len(nodes) - 1, x, found), None)
    return None


def _beside_zero(nodes: list[Node], place: int, op: str) -> list[tuple[int, int]]:
    """A constant 0 among the arguments of an operation, and the other argument."""
    pairs = permutations(nodes[place].args) if nodes[place].op == op else ()
    return [(one, other) for one, other in pairs if _value(nodes[one]) == 0]


def _grows_from(nodes: list[Node], place: int, x: int) -> bool:
    """Whether a node is a (e^(x / b) - 1) + 0 with positive a and b, which is never -0."""
    chain = [place, *_multiples(nodes, place)]
    last = chain[-1]
    if nodes[last].op != "expm1" or not any(nodes[p].op == "add" for p in chain):
        return False
    argument = nodes[last].args[0]
    return x in (argument, *_multiples(nodes, argument))


def _multiples(nodes: list[Node], place: int) -> Iterator[int]:
    """The chain of nodes of which each is a positive multiple of the next one, except for the sign of 0."""
    while (inner := _inner(nodes, place)) is not None:
        yield (place := inner)


def _inner(nodes: list[Node], place: int) -> int | None:
    op, args, _ = nodes[place]
    if op == "same" or (op == "div" and (_value(nodes[args[1]]) or 0) > 0):
        return args[0]
    for one, other in permutations(args) if op in ("add", "mul") else ():
        value = _value(nodes[one])
        if value is not None and (value == 0 if op == "add" else value > 0):
            return other
    return None


def _value(node: Node) -> Fraction | None:
    value = node.data.value if node.op == "constant" and isinstance(node.data, Constant) else None
    return value if isinstance(value, Fraction) else None
