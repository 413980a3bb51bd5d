"""Traversal of expressions, and properties of nodes: bound and free variables, numbers of terms, integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.schema.node import INDEX, TRUTH, Expr, Variable, make

KEPT = 256  # the largest number of nodes below one for which their list is kept; most statements have fewer


def walk(e: Expr) -> Sequence[Expr]:
    """Every node below and including `e`, each once, arguments before the nodes that use them."""
    below = e.below
    if below is None:
        below = _below(e)
        if len(below) <= KEPT:
            e.below = below
    return (*below, e)


def _below(e: Expr) -> tuple[Expr, ...]:
    seen: set[Expr] = set()
    found: list[Expr] = []
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            if not node.args:
                found.append(node)
                continue
            stack.append((node, True))
            stack += [(a, False) for a in reversed(node.args)]
    return tuple(found[:-1])


def _contents(e: Expr, kind: int) -> tuple[Expr, ...]:
    """The nodes of a kind (see `_KINDS`) below and including `e`, in the order of `walk`."""
    contents = e.contents
    if contents is None:
        below = walk(e)[:-1]
        contents = tuple([tuple([node for node in below if node.op in ops]) for ops in _KINDS])
        if len(below) <= KEPT:
            e.contents = contents
    return (*contents[kind], e) if e.op in _KINDS[kind] else contents[kind]


_KINDS = (("reduce", "first_largest", "first_smallest", "rank"), ("read",), ("floordiv", "mod"))


def loops_in(e: Expr) -> tuple[Expr, ...]:
    """The nodes below and including `e` that bind variables."""
    return tuple([node for node in _contents(e, 0) if bound_by(node)])


def reads_in(e: Expr) -> tuple[Expr, ...]:
    """The nodes below and including `e` that read elements."""
    return _contents(e, 1)


def divisions_in(e: Expr) -> tuple[Expr, ...]:
    """The quotients and remainders of indices below and including `e`."""
    return _contents(e, 2)


def rebuilt(e: Expr, replaced: Callable[[Expr, tuple[Expr, ...]], Expr | None], made: dict[Expr, Expr] | None = None) -> Expr:
    """An expression with some nodes replaced, and those above them made anew.

    replaced: gives a node's replacement, from the node and its new arguments; None leaves the operation as it is. made: the
    replacements that are known; all others are added to it.
    """
    made = {} if made is None else made
    for node in walk(e):
        if node not in made:
            args = tuple([made[a] for a in node.args])
            found = replaced(node, args)
            if found is None:
                found = node if args == node.args else make(node.op, args, node.data, node.sort)
            made[node] = found
    return made[e]


def with_nodes(e: Expr, made: dict[Expr, Expr]) -> Expr:
    """An expression with other nodes in the place of some; made: these, to which the nodes above them are added."""
    return rebuilt(e, lambda _node, _args: None, made)


def bound_by(e: Expr) -> tuple[Variable, ...]:
    """The variables that a node binds; only reductions bind any."""
    if e.op == "reduce":
        return tuple(e.data[1])
    if e.op in ("first_largest", "first_smallest", "rank"):
        return tuple(e.data[0])
    return ()


def free(e: Expr) -> dict[Expr, frozenset[Variable]]:
    """For every node below and including `e`, the index variables that its value depends on."""
    nodes = walk(e)
    if e.depends is not None:
        return dict(zip(nodes, e.depends, strict=True))
    found: dict[Expr, frozenset[Variable]] = {}
    for node in nodes:
        if node.op == "variable":
            found[node] = frozenset((node.data,))
        elif node.op == "rank":
            key, place = node.args
            found[node] = (found[key] - set(bound_by(node))) | found[place]
        else:
            found[node] = frozenset().union(*(found[a] for a in node.args)).difference(bound_by(node))
    if len(nodes) <= KEPT:
        e.depends = tuple(found.values())
    return found


def most_terms(body: Expr) -> int:
    """The largest number of terms that nested reductions go through for one element."""
    found: dict[Expr, int] = {}
    for node in walk(body):
        most = max((found[a] for a in node.args), default=1)
        for v in bound_by(node):
            most *= v.size
        found[node] = most
    return found[body]


def integral(e: Expr) -> bool:
    """Whether a node is an integer in kind: made of integer tensors, constants and indices by operations that keep integers."""
    if e.integral is None:
        for node in walk(e):
            if node.integral is None:
                node.integral = _is_integral(node)
    return bool(e.integral)


def _is_integral(node: Expr) -> bool:
    if node.op == "constant":
        return bool(node.data.integral)
    if node.op == "read":
        otherwise = node.args[-1:] if node.data[1] == "otherwise" else ()
        return not node.data[0].data_type.is_float and all(a.integral for a in otherwise)
    if node.op == "select":
        return bool(node.args[1].integral and node.args[2].integral)
    if node.op in _KEEPS_INTEGERS:
        return all(a.integral for a in node.args if a.sort != TRUTH)
    return node.sort == INDEX or node.op in _MAKES_INTEGERS


_KEEPS_INTEGERS = {"add", "sub", "mul", "neg", "max", "min", "absolute", "reduce", "power", "fmod", "floor_mod"}
_MAKES_INTEGERS = {
    "position",
    "philox",
    "floor",
    "ceil",
    "truncate",
    "half_to_even",
    "half_away",
    "bit_count",
    "integer_power",
    "held",
}
