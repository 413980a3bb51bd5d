"""A formula whose elements have much in common with those of the same line: the nodes that `regrouping` makes, as items."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise import sloped, standardised
from anydml.kernels.elementwise.formula import Walk
from anydml.kernels.elementwise.items import Element, Item, as_number
from anydml.kernels.elementwise.numbers import Number, settled
from anydml.kernels.elementwise.regrouping import ELEMENT, LINE, SLOPED, SLOPED_LINE, differing
from anydml.kernels.match.maps import Formula
from anydml.tensor import DataType


class LineWalk(Walk):
    """last: a standardised element that is the last node. asks_last: it is looked at, and that item does without its doubt."""

    def __init__(
        self,
        body: Body,
        formula: Formula,
        streams: Sequence[Value],
        data_type: DataType,
        lanes: int,
        level: str,
        moves: bool,
    ) -> None:
        super().__init__(body, formula, streams, data_type, lanes, level, moves)
        self.asks_last = False
        self.last: standardised.Standardised | None = None

    def run_line(self, constant: Collection[int]) -> dict[int, Item]:
        """The items of the nodes that are the same along a line, for groups anywhere in it; constant: the streams that are."""
        for place, inside in enumerate(differing(self.formula, constant)):
            if not inside:
                op, args, data = self.formula[place]
                self.items[place] = self._settled(self._item(place, op, args, data))
        return self.items

    def _settled(self, item: Item) -> Item:
        """An item that may be used in any block that follows."""
        if isinstance(item, Element) and item.data_type.dtype.kind == "f":
            item = as_number(item, self.like)
        return settled(item) if isinstance(item, Number) else item

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if op not in (LINE, SLOPED_LINE, ELEMENT, SLOPED):
            return super()._item(place, op, args, data)
        roles = cast("str", data)
        if op == LINE:
            return standardised.line(self.like, roles, [self.number(a) for a in args])
        if op == SLOPED_LINE:
            return sloped.line(roles, [self.number(a) for a in args])
        made = self._element(self.items[args[0]], roles, [self.number(a) for a in args[1:]])
        if self.asks_last and place == len(self.formula) - 1:
            self.last = made
            return made.number
        return made.guarded()

    def _element(self, shared: Item, roles: str, numbers: Sequence[Number]) -> standardised.Standardised:
        if isinstance(shared, sloped.SlopedLine):
            return standardised.Standardised(sloped.element(shared, *numbers), None, None)
        assert isinstance(shared, standardised.Line)
        return standardised.element(shared, roles, numbers)
