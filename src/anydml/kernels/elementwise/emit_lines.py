"""The kernel of a map whose elements are standardised by row: values that a row's elements share are computed once per row."""

from __future__ import annotations

from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value
from anydml.kernels.elementwise.emit import Kernel
from anydml.kernels.elementwise.key import MapKey
from anydml.kernels.elementwise.levels import of_line, standardised_element


def emitted(target: Target, key: MapKey) -> str:
    """The kernel of a regrouped formula, which is otherwise like that of `emit`."""
    return _LinesKernel(target, key).text()


class _LinesKernel(Kernel):
    """The groups of a row follow one another; the list is checked only after a group that leaves lanes undecided."""

    def _groups(self, place: str, head: str | None) -> None:
        body, lanes = self.body, self.key.lanes
        known = of_line(body, self.key, self.constants)

        def group(i: str, take: str | None) -> None:
            streams = self.streams
            loaded = streams.whole(i) if take is None else streams.partial(i, take)
            found = {**self.constants, **loaded, **streams.positions(i)}
            made, bits = standardised_element(body, self.key, [found[k] for k in range(self.count - 1)], known)
            if take is not None:
                bits = self._within(take, bits)
            some = body.op(f"icmp ne i64 {bits}, 0")
            when(body, some, lambda: self._note(i, bits))  # before the store, which may overwrite inputs
            if take is None:
                streams.store(i, made, past_cache=body.target.vector_bytes if self.key.stream else 0)
            else:
                streams.store_partial(i, take, made)
            when(body, some, lambda: self._stop_if_full(body.op(f"add i64 {i}, {lanes if take is None else take}")))

        def whole(i: str, _: list[Value]) -> list[Value]:
            group(i, None)
            return []

        def first(most: str) -> str:
            """Emit a shorter first group, up to an aligned address for non-temporal stores, and return the index behind it."""
            left = body.op(f"sub i64 %n, {place}")
            take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {most}')}, i64 {left}, i64 {most}")
            some = body.op(f"and i1 {body.op(f'icmp eq i64 {place}, 0')}, {body.op(f'icmp ne i64 {take}, {lanes}')}")
            when(body, some, lambda: group(place, take))
            return body.op(f"select i1 {some}, i64 {take}, i64 {place}")

        start = place if head is None else first(head)
        i, _ = body.loop(start, "%n", lanes, [], whole)
        left = body.op(f"sub i64 %n, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: group(i, left))
