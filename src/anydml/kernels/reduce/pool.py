"""Constants of inner loops in memory, from where instructions take them: they are more than registers hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anydml.kernels.code.emit import real
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value


class PoolingBody(Body):
    """A body whose float64 constants, within `pooled`, are loads of one register, repeated to the number of lanes.

    Otherwise every turn of a loop would compute the address of each constant and broadcast it.
    """

    def __init__(self, target: Target, lanes: int) -> None:
        super().__init__(target)
        self._wide = Kind("double", lanes)
        self._register = Kind("double", min(lanes, target.vector_bytes // 8))
        self._places: dict[float, int] = {}
        self._pooling = False

    @contextmanager
    def pooled(self) -> Iterator[None]:
        before, self._pooling = self._pooling, True
        try:
            yield
        finally:
            self._pooling = before

    def constant(self, kind: Kind, x: float | int | bool) -> Value:
        if not self._pooling or kind != self._wide or x == 0 or x != x:
            return super().constant(kind, x)
        place = self._places.setdefault(float(x), len(self._places))
        value = self.loaded_from_pool(place)
        lanes = ", ".join(f"i32 {lane % self._register.lanes}" for lane in range(kind.lanes))
        register = self._register.text
        return self.value(f"shufflevector {register} {value}, {register} poison, <{kind.lanes} x i32> <{lanes}>", kind)

    def loaded_from_pool(self, place: int) -> str:
        size = self._register.lanes * 8
        return self.op(f"load {self._register.text}, ptr {self.at('%pool', place * size)}, align {size}")

    def begin(self) -> None:
        """Store the constants in memory, at the start of the function that has been emitted."""
        count, register = self._register.lanes, self._register.text
        lines = [f"  %pool = alloca [{max(len(self._places), 1)} x {register}], align 64"]
        for x, place in self._places.items():
            vector = f"<{', '.join([f'double {real(x)}'] * count)}>"
            lines.append(f"  %pool{place} = getelementptr i8, ptr %pool, i64 {place * count * 8}")
            lines.append(f"  store {register} {vector}, ptr %pool{place}, align {count * 8}")
        self.lines[:0] = lines
