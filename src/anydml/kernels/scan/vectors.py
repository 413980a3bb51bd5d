"""A line in blocks of vectors: their addresses, and prefixes within one vector."""

from __future__ import annotations

from anydml.kernels.code.emit import along
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.scan.emit import lanes_of
from anydml.kernels.scan.group import ScanKey, picked


def loaded_lanes(target: Target, key: ScanKey) -> int:
    """The number of elements of a vector: for floats, that of float32."""
    return lanes_of(target) if key.floating else target.vector_bytes // key.size


def block(target: Target, key: ScanKey) -> int:
    """The number of elements that are computed together."""
    return (2 if key.floating else 4) * loaded_lanes(target, key)


class LineVectors:
    """The vectors of a line. at: the addresses of its first element, or of its last, in source and target."""

    def __init__(self, body: Body, key: ScanKey, at: list[str], backward: bool) -> None:
        self.body, self.key, self.backward = body, key, backward
        self.source, self.target = at
        self.lanes, self.block = loaded_lanes(body.target, key), block(body.target, key)
        self.element = Kind(f"i{8 * key.size}", self.lanes)
        # the sums of one vector of floats take two registers
        self.sum = Kind("double", self.lanes // 2) if key.floating else self.element
        self.neutral = body.constant(self.sum, -0.0 if key.floating else int(key.product))

    def vector(self, base: str, k: int) -> str:
        k = self.block // self.lanes - 1 - k if self.backward else k
        return self.body.at(base, k * self.lanes * self.key.size)

    def loaded(self, base: str, k: int) -> Value:
        return self.in_direction(self.body.loaded(self.element, self.vector(base, k)))

    def in_direction(self, x: Value) -> Value:
        return picked(x, x, range(x.kind.lanes)[::-1]) if self.backward else x

    def moved(self, x: Value, by: int) -> Value:
        """The lanes moved up by `by`, after neutral ones."""
        lanes = x.kind.lanes
        return picked(x, self.neutral, [lanes + i if i < by else i - by for i in range(lanes)])

    def joined(self, x: Value, y: Value) -> Value:
        return x * y if self.key.product else x + y

    def prefixes(self, x: Value) -> Value:
        """The sum or product of the lanes up to each one."""
        by = 1
        while by < x.kind.lanes:
            x, by = self.joined(x, self.moved(x, by)), 2 * by
        return x

    def last(self, x: Value) -> Value:
        """The last lane, broadcast to all lanes."""
        return picked(x, x, [x.kind.lanes - 1] * x.kind.lanes)

    def half(self, x: Value, first: int) -> Value:
        """Half of the lanes, beginning at lane `first`."""
        return picked(x, x, range(first, first + self.lanes // 2))

    def whole(self, parts: list[Value]) -> Value:
        return picked(parts[0], parts[1], range(self.lanes))

    def whole_block(self, i: str) -> tuple[str, str]:
        """The addresses of a whole block in source and target."""
        body = self.body
        first = body.op(f"add i64 {i}, {self.block - 1}") if self.backward else i
        return along(body, self.source, "%source_step", first), along(body, self.target, "%target_step", first)
