"""The base of the classes that emit parts of a nest's kernel."""

from __future__ import annotations

from dataclasses import replace

from anydml.kernels.code.values import Body, Value
from anydml.kernels.nests import items
from anydml.kernels.nests.items import WORD, Index
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import known_integer
from anydml.kernels.numbers.lanes import in_lanes


class Frame:
    """The body that code is emitted to, the kernel's key, and the walk over the program; lanes: of a vector of elements."""

    def __init__(self, body: Body, key: NestKey, walk: NestWalk, lanes: int) -> None:
        self.body, self.key, self.walk, self.lanes = body, key, walk, lanes

    def index(self, d: int, value: Value) -> Index:
        return Index(value, known_integer(0, (1 << self.key.program.bits[d]) - 1))

    def column(self, x: str, d: int | None = None) -> Index:
        """The indices of a vector of elements along a dimension from x on; those beyond the last index are replaced by it."""
        body = self.body
        d = self.key.lane if d is None else d
        value = in_lanes(Value(body, x, WORD), self.lanes) + body.constants("i64", range(self.lanes))
        last = in_lanes(Value(body, body.op(f"sub i64 %size{d}, 1"), WORD), self.lanes)
        return replace(self.index(d, items.extreme("min", value, last)), side=(x, d))
