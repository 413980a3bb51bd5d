"""Formulas of stages in a form whose numbers stay in float64's range: min(0, e^x - 1) with x clamped first."""

from __future__ import annotations

from fractions import Fraction

from anydml.kernels.elementwise.combined import combined, used
from anydml.kernels.match.maps import Formula, Node


def of_stage(formula: Formula) -> Formula:
    """The formula with functions of its own for what is often computed together, and with e^x - 1 of x <= 0 alone.

    Where min(0, a (e^x - 1)) is taken with a > 0, as of CELU, it is a (e^min(0, x) - 1), which does not overflow.
    """
    made: list[Node] = []
    places: list[int] = []
    for node in combined(formula):
        moved = Node(node.op, tuple(places[a] for a in node.args), node.data)
        made.append(_clamped(made, moved) or moved)
        places.append(len(made) - 1)
    return used(made)


def _clamped(nodes: list[Node], node: Node) -> Node | None:
    if node.op != "min":
        return None
    for zero, found in (node.args, node.args[::-1]):
        if _value(nodes[zero]) != 0:
            continue
        chain: list[int] = []  # from the argument of min to e^x - 1, each growing with the next, and 0 where that is
        while nodes[found].op != "expm1" and (inner := _growing(nodes, found)) is not None:
            chain.append(found)
            found = inner
        if nodes[found].op != "expm1":
            continue
        nodes.append(Node("min", (zero, nodes[found].args[0]), None))
        nodes.append(Node("expm1", (len(nodes) - 1,), None))
        for place in reversed(chain):
            args = tuple(len(nodes) - 1 if a == found else a for a in nodes[place].args)
            nodes.append(Node(nodes[place].op, args, nodes[place].data))
            found = place
        return Node("min", tuple(zero if a == zero else len(nodes) - 1 for a in node.args), None)
    return None


def _growing(nodes: list[Node], place: int) -> int | None:
    """The node that this one is a positive multiple of."""
    op, args, _ = nodes[place]
    if op == "same":
        return args[0]
    if op not in ("add", "mul"):
        return None
    for one, other in (args, args[::-1]):
        value = _value(nodes[one])
        if value is not None and (value == 0 if op == "add" else value > 0):
            return other
    return None


def _value(node: Node) -> Fraction | None:
    value = node.data.value if node.op == "constant" else None
    return value if isinstance(value, Fraction) else None
