"""The frame of a nest's code: its body, and the indices of vectors of elements."""

from __future__ import annotations

from dataclasses import replace

from anydml.kernels.code.values import Body, Value
from anydml.kernels.nests import items
from anydml.kernels.nests.items import WORD, Index
from anydml.kernels.nests.shape import NestKey
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.numbers.lanes import in_lanes


class Frame:
    """The code of a shape in the making; lanes: of a vector of elements."""

    def __init__(self, body: Body, shape: NestKey, walk: NestWalk, lanes: int) -> None:
        self.body, self.shape, self.walk, self.lanes = body, shape, walk, lanes

    def index(self, d: int, value: Value) -> Index:
        return Index(value, known_integer(0, (1 << self.shape.program.bits[d]) - 1))

    def column(self, x: str, d: int | None = None) -> Index:
        """The indices of a vector of elements along a dimension; behind the last one, that one again."""
        body = self.body
        d = self.shape.lane if d is None else d
        value = in_lanes(Value(body, x, WORD), self.lanes) + body.constants("i64", range(self.lanes))
        last = in_lanes(Value(body, body.op(f"sub i64 %size{d}, 1"), WORD), self.lanes)
        return replace(self.index(d, items.extreme("min", value, last)), side=(x, d))
