"""Formulas with functions of their own for what is often computed together, so that no part is rounded or overflows."""

from __future__ import annotations

from anydml.kernels.match.maps import Formula, Node


def combined(formula: Formula) -> Formula:
    """1 / (1 + exp(-x)) as "sigmoid", log1p(exp(x)) as "softplus", x times 1 as x; nodes that nothing uses are left out."""
    made = list(formula)
    for place, node in enumerate(formula):
        found = _itself(made, node) or _sigmoid(made, node) or _softplus(made, node)
        if found is not None:
            made[place] = found
    return _used(made)


def _is_one(node: Node) -> bool:
    return node.op == "constant" and node.data.value == 1


def _itself(nodes: list[Node], node: Node) -> Node | None:
    """x times 1, and x by 1."""
    if node.op == "mul" and _is_one(nodes[node.args[0]]):
        return Node("same", node.args[1:], None)
    if node.op in ("mul", "div") and _is_one(nodes[node.args[1]]):
        return Node("same", node.args[:1], None)
    return None


def _sigmoid(nodes: list[Node], node: Node) -> Node | None:
    if node.op != "div" or not _is_one(nodes[node.args[0]]):
        return None
    total = nodes[node.args[1]]
    if total.op != "add":
        return None
    for one, power in (total.args, total.args[::-1]):
        if _is_one(nodes[one]) and nodes[power].op == "exp":
            inner = nodes[power].args[0]
            if nodes[inner].op == "neg":
                return Node("sigmoid", nodes[inner].args, None)
    return None


def _softplus(nodes: list[Node], node: Node) -> Node | None:
    if node.op == "log1p" and nodes[node.args[0]].op == "exp":
        return Node("softplus", nodes[node.args[0]].args, None)
    return None


def _used(nodes: list[Node]) -> Formula:
    needed = {len(nodes) - 1}
    for place in range(len(nodes) - 1, -1, -1):
        if place in needed:
            needed.update(nodes[place].args)
    places = {old: new for new, old in enumerate(sorted(needed))}
    return tuple(Node(nodes[old].op, tuple(places[a] for a in nodes[old].args), nodes[old].data) for old in sorted(needed))
