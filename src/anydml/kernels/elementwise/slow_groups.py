"""Groups with elements that a processor is slow with: 1 replaces these elements at first, and they are computed again later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits
from anydml.kernels.elementwise.slow_elements import SlowElements
from anydml.kernels.elementwise.streams import CONSTANT, POSITION, Streams
from anydml.tensor import DataType

SAMPLED = 32  # lanes of a function for each one that is checked before a group is computed: its latency hides the checks
ONE = 127 << 23  # the bits of 1


class SlowGroups:
    """The checks of a row's groups for slow elements. To check all elements would cost ordinary data a few percent of the time.

    A whole group is checked if one of a few samples is slow, or if the group before had slow elements. Slow elements that are
    missed have correct results, but take longer.
    """

    def __init__(self, body: Body, key: MapKey, slow: SlowElements) -> None:
        self.body, self.key, self.slow = body, key, slow
        self.singles = [k for k, t in enumerate(key.types[:-1]) if t == DataType.FLOAT32 and key.layouts[k] != POSITION]
        self.samples = max(1, key.lanes // SAMPLED) if key.listed else 1

    def begin(self, before: str, latch: str) -> None:
        """Begin a group, which control enters from these labels."""
        self.doubt, self.next = (f"%{self.body.name('doubt')}" for _ in range(2))
        self.body.do(f"{self.doubt} = phi i1 [ false, %{before} ], [ {self.next}, %{latch} ]")

    def benign(
        self, places: Streams, streams: Sequence[Value], i: str, take: str, within: Callable[[str, str], str]
    ) -> tuple[list[Value], str]:
        """A group with 1 in place of slow elements, and the lanes of these; within: leaves only lanes that hold elements."""
        body, singles = self.body, self.singles
        doubt = body.op(f"or i1 {self.doubt}, {self.slow.any(self._some(places, streams, i, take)).name}")

        def look() -> list[Value]:
            bits = within(take, lanes_as_bits(reduce(or_, (self.slow.found(streams[k]) for k in singles))))
            lanes = bits_as_lanes(body, bits, self.key.lanes)
            return [*(body.chosen(lanes, ONE, streams[k]) for k in singles), Value(body, bits, Kind("i64"))]

        none = Value(body, "0", Kind("i64"))
        *benign, slow = body.either(doubt, look, lambda: [*(streams[k] for k in singles), none], seldom=True)
        found = [*streams]
        for k, value in zip(singles, benign, strict=True):
            found[k] = value
        body.do(f"{self.next} = icmp ne i64 {slow.name}, 0")
        return found, slow.name

    def _some(self, places: Streams, streams: Sequence[Value], i: str, take: str) -> list[Value]:
        """A few elements of each stream."""
        body, found = self.body, []
        for k in self.singles:
            if self.key.layouts[k] == CONSTANT:
                found.append(streams[k].lane(0))
                continue
            for by in range(self.samples):
                at = body.op(f"add i64 {i}, {body.op(f'lshr i64 {take}, {by}')}") if by else i
                found.append(body.loaded(Kind("i32"), places.place(k, at)))
        return found

    def again(self, made: Value, bits: str, compute: Callable[[], Value]) -> Value:
        """The results made or, in a group with slow elements, those computed instead."""
        body = self.body
        some = body.op(f"icmp ne i64 {bits}, 0")
        return body.either(some, lambda: [compute()], lambda: [made], seldom=True)[0]
