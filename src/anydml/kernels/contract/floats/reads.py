"""Elements of a line, as its columns read them: side by side, every second one, or at any distance."""

from __future__ import annotations

from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers import halves
from anydml.tensor import DataType


class Reader:
    """step: elements from one column to the next, 1 or 2; 0: the argument `s2` is the distance in bytes."""

    def __init__(self, body: Body, data_type: DataType, step: int, lanes: int) -> None:
        self.body, self.data_type, self.step, self.lanes = body, data_type, step, lanes

    def read(self, from_: str, i: str, active: Value | None) -> Value:
        body, lanes, size = self.body, self.lanes, self.data_type.dtype.itemsize
        kind = Kind(f"i{8 * size}", lanes)
        if self.step == 1:
            place = body.at(from_, body.op(f"mul i64 {i}, {size}"))
            return body.loaded(kind, place) if active is None else body.masked(kind, place, active)
        if self.step == 2:
            place = body.at(from_, body.op(f"mul i64 {i}, {2 * size}"))
            double = Kind(kind.element, 2 * lanes)
            if active is None:
                active = self._spread(body.constant(kind.of("i1"), True))
            both = body.masked(double, place, active)
            return Value(body, shuffle(body, both.name, "poison", double.text, range(0, 2 * lanes, 2)), kind)
        active = body.constant(kind.of("i1"), True) if active is None else active
        at = body.splat(Value(body, i, Kind("i64")), lanes) + body.constants("i64", range(lanes))
        offsets = at * body.splat(Value(body, "%s2", Kind("i64")), lanes)
        places = body.op(f"getelementptr i8, ptr {from_}, {offsets!r}")
        name, pointers = f"llvm.masked.gather.v{lanes}{kind.element}.v{lanes}p0", f"<{lanes} x ptr>"
        body.declared[f"declare {kind.text} @{name}({pointers}, i32, <{lanes} x i1>, {kind.text})"] = None
        return body.value(
            f"call {kind.text} @{name}({pointers} {places}, i32 1, {active!r}, {kind.text} zeroinitializer)", kind
        )

    def to_read(self, active: Value) -> Value:
        """The elements that columns read."""
        return self._spread(active) if self.step == 2 else active

    def _spread(self, active: Value) -> Value:
        """The lanes of every second element, and no others."""
        body, lanes = self.body, self.lanes
        none = body.constant(active.kind, False)
        order = [k // 2 if k % 2 == 0 else lanes for k in range(2 * lanes)]
        made = shuffle(body, active.name, none.name, active.kind.text, order)
        return Value(body, made, Kind("i1", 2 * lanes))


def single(bits: Value, data_type: DataType) -> Value:
    """A float of either type as float32."""
    return halves.widened(bits) if data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))
