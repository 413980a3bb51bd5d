"""Tables of values that depend on one dimension alone: computed once per call, used for all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anydml.kernels.code.emit import fold
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import Bits, Index, Item
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.lanes import Truth, in_lanes
from anydml.kernels.numbers.measured.real import Real


class Tables(Frame):
    """A table. slots: rows of words, each with a word for every index of the dimension. items: the items of nodes, with slot
    numbers as values.

    others: items that belong to no node.
    """

    def __init__(self, body: Body, key: NestKey, walk: NestWalk, lanes: int, dimension: int) -> None:
        super().__init__(body, key, walk, lanes)
        self.dimension, self.slots = dimension, 0
        self.start, self.pitch = "%memory", ""
        self.items: dict[int, Item] = {}
        self.others: list[Item] = []

    def make(self, start: str, others: Callable[[], list[Item]] | None = None) -> str:
        """Compute the values that depend on the dimension's variable alone; others: a function that makes further vectors.

        start: the address of the table; returned is the address behind it.
        """
        body, walk, d = self.body, self.walk, self.dimension
        places = self.key.tabled(d)
        if not places and others is None:
            return start
        size = body.op(f"and i64 {body.op(f'add i64 %size{d}, {self.lanes - 1}')}, {-self.lanes}")
        self.start, self.pitch = start, body.op(f"mul i64 {size}, 8")

        def turn(i: str, _: list[str]) -> list[str]:
            with walk.scope({d: self.column(i, d)}):
                walk.fill_known(*places)
                for p in places:
                    item = walk.item(p)
                    if isinstance(item, Bits):
                        raise Uncompilable("bits that depend on one dimension alone")
                    made = self._kept(item, i)
                    if made is not None:
                        self.items[p] = made
                for item in others() if others is not None else ():
                    made = self._kept(item, i)
                    assert made is not None
                    self.others.append(made)
            return []

        fold(body, "0", body.op(f"add i64 %size{d}, {self.lanes - 1}"), self.lanes, [], turn)
        return body.at(start, body.op(f"mul i64 {self.pitch}, {self.slots}"))

    def _slot(self, value: Value, i: str) -> Value:
        """Store a vector; the returned value's name is the number of its slot."""
        body = self.body
        row = body.at(self.start, body.op(f"mul i64 {self.pitch}, {self.slots}"))
        at = body.at(row, body.op(f"mul i64 {i}, 8"))
        word = value if value.kind.element != "i1" else value.converted("zext", value.kind.of("i64"))
        body.stored(word, at)
        made = Value(body, str(self.slots), value.kind)
        self.slots += 1
        return made

    def _kept(self, item: Item, i: str) -> Item | None:
        assert not isinstance(item, Bits)
        main = item.mask if isinstance(item, Truth) else item.value
        if not main.kind.lanes:
            return None
        kept = self._slot(main, i)
        guard = None if item.guard is None else self._slot(in_lanes(item.guard, self.lanes), i)
        if isinstance(item, Truth):
            return Truth(kept, guard, item.known)
        if isinstance(item, Index):
            return Index(kept, item.known, guard)
        err = None if item.err is None else self._slot(in_lanes(item.err, self.lanes), i)
        return replace(item, value=kept, err=err, guard=guard)

    def loaded(self, x: str) -> dict[int, Item]:
        """The items of nodes for a vector along the lane's dimension, or for an index of another dimension."""
        return dict(zip(self.items, self._loaded(list(self.items.values()), x), strict=True))

    def others_loaded(self, x: str) -> list[Item]:
        """The items that belong to no node."""
        return self._loaded(self.others, x)

    def _loaded(self, items: list[Item], x: str) -> list[Item]:
        body = self.body
        offset = body.op(f"mul i64 {x}, 8") if items else "0"

        lanes = self.lanes if self.dimension == self.key.lane else 0

        def load(slot: Value) -> Value:
            at = body.at(body.at(self.start, body.op(f"mul i64 {self.pitch}, {slot.name}")), offset)
            word = Kind(slot.kind.element if slot.kind.element != "i1" else "i64", lanes)
            value = body.loaded(word, at)
            return value if slot.kind.element != "i1" else value.compared("ne", 0)

        found: list[Item] = []
        for item in items:
            guard = None if item.guard is None else load(item.guard)
            if isinstance(item, Truth):
                found.append(Truth(load(item.mask), guard, item.known))
            elif isinstance(item, Index):
                found.append(Index(load(item.value), item.known, guard))
            elif isinstance(item, Real):
                err = None if item.err is None else load(item.err)
                found.append(replace(item, value=load(item.value), err=err, guard=guard))
        return found
