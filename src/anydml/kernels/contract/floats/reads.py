"""Reads of a line's elements for consecutive columns: contiguous, every second one, or at any stride."""

from __future__ import annotations

from anydml.kernels.code.emit import shuffle
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.numbers import singles
from anydml.tensor import DataType


class Reader:
    """step: the stride of columns in elements, 1 or 2; 0: the argument `s2` is the stride in bytes."""

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
                active = self._dilated(body.constant(kind.of("i1"), True))
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
        """The mask of the elements that are loaded for a mask of columns."""
        return self._dilated(active) if self.step == 2 else active

    def _dilated(self, active: Value) -> Value:
        """The mask with a false lane inserted after each lane."""
        body, lanes = self.body, self.lanes
        none = body.constant(active.kind, False)
        order = [k // 2 if k % 2 == 0 else lanes for k in range(2 * lanes)]
        made = shuffle(body, active.name, none.name, active.kind.text, order)
        return Value(body, made, Kind("i1", 2 * lanes))


def single(bits: Value, data_type: DataType) -> Value:
    """A float of either type as float32."""
    return singles.widened(bits, data_type)
