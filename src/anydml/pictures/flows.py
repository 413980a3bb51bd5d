"""The flow of data in a statement: tensors, named parts, internal states and reductions, each with its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from anydml.pictures.grids import wire
from anydml.pictures.model import Flow, Node
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.statement import Nest, Parts, naming, stated
from anydml.schema.traversal import bound_by, walk

MOST = 36  # boxes
NAMES = {"first_largest": "place of the largest", "first_smallest": "place of the smallest", "rank": "sorted order"}


def flow(desc: Any) -> Flow | None:
    """The flow of a valid desc of the newest version; None for a statement that is a formula of single elements."""
    parts = Parts()
    token = naming.set(parts)
    try:
        statement = stated(desc)
    finally:
        naming.reset(token)
    made = _Flow(desc, parts)
    for name, nest in statement.items():
        made.output(name, nest)
    return made.drawn()


class _Flow:
    def __init__(self, desc: Any, parts: Parts) -> None:
        self._desc, self._parts = desc, parts
        self._sizes = {f.name: f.desc.sizes for f in desc.tensors()}
        self._boxes: dict[Any, int] = {}
        self._nodes: list[Node] = []
        self._computed = False  # whether anything but tensors is met

    def drawn(self) -> Flow | None:
        if not self._computed:
            return None
        if len(self._nodes) <= MOST:
            return Flow("The flow of data", tuple(self._nodes))
        outputs = [n for n in self._nodes if n.tone == "window"]
        kept = self._nodes[: MOST - len(outputs) - 1]
        rest = len(self._nodes) - len(kept) - len(outputs)
        more = Node(f"and {rest} more", "", tuple(range(max(0, len(kept) - 1), len(kept))))
        ends = [n for n in outputs if n not in kept]
        return Flow("The flow of data", (*kept, more, *(Node(n.text, n.detail, (len(kept),), n.tone) for n in ends)))

    def output(self, name: str, nest: Nest) -> None:
        reads = self._below(nest)
        self._add(("output", name), wire(self._desc, name), _shown(self._sizes.get(name, nest.sizes)), reads, "window")

    def _add(self, key: Any, text: str, detail: str, reads: Mapping[int, None], tone: Any = "plain") -> int:
        if key not in self._boxes:
            self._boxes[key] = len(self._nodes)
            self._nodes.append(Node(text, detail, tuple(reads), tone))
        return self._boxes[key]

    def _below(self, nest: Nest) -> dict[int, None]:
        """The boxes that a statement's element is computed from; they are made if they are new."""
        direct: dict[Expr, dict[int, None]] = {}
        for e in walk(nest.body):
            under: dict[int, None] = {}
            for a in e.args:
                under |= direct[a]
            direct[e] = self._box(e, under, nest)
        return direct[nest.body]

    def _box(self, e: Expr, under: dict[int, None], nest: Nest) -> dict[int, None]:
        if e.op == "read":
            return {self._tensor(e.data[0]): None} | under
        if e in self._parts.uses and e is not nest.body:
            name, at = self._parts.uses[e]
            self._computed = True
            known = all(i.op == "variable" for i in at)
            detail = _shown([i.data.size for i in at]) if known else ""
            return {self._add(("part", name), name, detail, under): None}
        if bound := bound_by(e):
            self._computed = True
            sizes = [v.size for v in bound]
            kind = e.data[0] if e.op == "reduce" else NAMES[e.op]
            of = f"of {prod(sizes)}" + (f" ({_shown(sizes)})" if len(sizes) > 1 else "")
            return {self._add((kind, tuple(sizes), tuple(under)), str(kind), of, under): None}
        return under

    def _tensor(self, t: Tensor) -> int:
        if t.definition is None:
            return self._add(t.name, wire(self._desc, t.name), _shown(t.sizes), {}, "read")
        if t not in self._boxes:
            self._computed = True
            place = self._boxes[t] = len(self._nodes)
            self._nodes.append(Node(t.name, "", ()))  # so that a state that reads its own step before finds itself
            reads = self._below(t.definition)
            said = f"{_shown(t.sizes)}, rounded at each step" if place in reads else _shown(t.sizes)
            # it is drawn after what it reads
            self._nodes[place] = Node(t.name, said, tuple(i for i in reads if i < place))
            later = [i for i in reads if i > place]
            if later:
                self._boxes[t] = len(self._nodes)
                self._nodes.append(Node(t.name, said, tuple(i for i in reads if i != place)))
                self._nodes[place] = Node(f"{t.name}, step before", _shown(t.sizes[1:]), ())
        return self._boxes[t]


def _shown(sizes: Any) -> str:
    return " × ".join(map(str, sizes))
