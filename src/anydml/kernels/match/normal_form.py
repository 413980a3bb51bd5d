"""The normalised form of statements: operations in order, equal ones once, and reductions as loops that bind variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from anydml.lazy import computed_once
from anydml.tensor import DataType

LOOPS = ("reduce", "first_largest")  # nodes that bind variables; those of rows bind the row's, without naming them


class Node(NamedTuple):
    """An operation. args: the places of its arguments, which are earlier nodes.

    The data of a "stream" are its number and data type, those of a "variable" its number, those of a loop its kind and the
    variables that it binds.
    """

    op: str
    args: tuple[int, ...]
    data: Any


class NormalForm(tuple[Node, ...]):
    """Nodes, each after its arguments. Where no roots are named, the last one is stored.

    It is hashed once, since it is part of the keys of kernels.
    """

    @computed_once
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    @computed_once
    def free(self) -> tuple[frozenset[int], ...]:
        """For each node, the variables that it depends on: the scope in which it is computed."""
        found: list[frozenset[int]] = []
        for op, args, data in self:
            if op == "variable":
                found.append(frozenset((data,)))
                continue
            here: frozenset[int] = frozenset().union(*(found[a] for a in args))
            found.append(here.difference(bound(op, data)))
        return tuple(found)

    @computed_once
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the nodes that have it as an argument."""
        found: list[dict[int, None]] = [{} for _ in self]
        for place, (_, args, _) in enumerate(self):
            for a in args:
                found[a][place] = None
        return tuple(map(tuple, found))

    def varying(self, varies: Callable[[Node], bool]) -> tuple[bool, ...]:
        """For each node, whether it depends on a node for which `varies` holds other than through the reduction of a row."""
        found: list[bool] = []
        for node in self:
            found.append(varies(node) or (not node.op.startswith("row_") and any(found[a] for a in node.args)))
        return tuple(found)

    def operands(self, place: int, op: str) -> list[int]:
        """The operands of an operation, and of the same operations inside it: the conditions that "both" joins, for example."""
        node = self[place]
        return [x for a in node.args for x in self.operands(a, op)] if node.op == op else [place]

    def rewritten(self, *rules: Callable[[list[Node], Node], Node | None]) -> NormalForm:
        """The form with the first rule that applies to each node. A rule may add nodes, and returns the node's replacement."""
        made: list[Node] = []
        places: list[int] = []
        for node in self:
            moved = node._replace(args=tuple([places[a] for a in node.args]))
            found = next((new for rule in rules if (new := rule(made, moved)) is not None), moved)
            made.append(found)
            places.append(len(made) - 1)
        return used(made)


@lru_cache(maxsize=1024)
def _normal_form(nodes: tuple[Node, ...]) -> NormalForm:
    return NormalForm(nodes)


def normal_form(nodes: Sequence[Node]) -> NormalForm:
    """The form of these nodes; equal ones are one object."""
    return _normal_form(tuple(nodes))


def used(nodes: Sequence[Node]) -> NormalForm:
    """The form of these nodes without those that the last one does not need."""
    needed = {len(nodes) - 1}
    for place in range(len(nodes) - 1, -1, -1):
        if place in needed:
            needed.update(nodes[place].args)
    places = {old: new for new, old in enumerate(sorted(needed))}
    return normal_form([nodes[old]._replace(args=tuple([places[a] for a in nodes[old].args])) for old in places])


def bound(op: str, data: Any) -> tuple[int, ...]:
    """The variables that a node binds."""
    if op == "reduce":
        return tuple(data[1])
    return tuple(data[0]) if op == "first_largest" else ()


class Nodes:
    """A normal form in the making: equal nodes are added once, and so are the elements that it reads as streams."""

    def __init__(self) -> None:
        self.made: list[Node] = []
        self.streams: dict[Any, int] = {}
        self._places: dict[Node, int] = {}

    def add(self, op: str, args: tuple[int, ...] = (), data: Any = None) -> int:
        """The place of a node."""
        node = Node(op, args, data)
        place = self._places.get(node)
        if place is None:
            place = self._places[node] = len(self.made)
            self.made.append(node)
        return place

    def stream(self, elements: Hashable, data_type: DataType) -> int:
        """The place of a stream of elements."""
        return self.add("stream", (), (self.streams.setdefault(elements, len(self.streams)), data_type))

    def ended(self, *roots: int, op: str = "same") -> NormalForm:
        """The form whose last node is the only root, or a node of this operation on all roots."""
        if op != "same" or roots != (len(self.made) - 1,):
            self.made.append(Node(op, roots, None))
        return normal_form(self.made)
