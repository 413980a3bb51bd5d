"""Passes along a row: each computes what its reductions need, stores values for later passes, and carries accumulators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from anydml.kernels.code.values import Kind, Value, part
from anydml.kernels.reduce.accumulator import Accumulator, Compensated
from anydml.kernels.reduce.key import SHORT
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.pool import PoolingBody
from anydml.kernels.reduce.walk import RowWalk


class Passes:
    """The emitter of a row's passes."""

    def __init__(self, body: PoolingBody, row: Row) -> None:
        self.body, self.row, self.key = body, row, row.key

    def run(self, walk: RowWalk, s: int) -> None:
        """Emit pass s along the row, and give the walk its results."""
        walk.finish(s, *self.along(walk, s))
        for p in walk.stages.passes[s]:
            if p in walk.infinite:
                walk.tell_total(p, *self._of_infinities(walk, p))
        for p in walk.unsigned_totals(s):
            walk.sign_total(p, self._adds_up_to_plus_zero(walk, p))

    def _adds_up_to_plus_zero(self, walk: RowWalk, p: int) -> Value:
        """For a total of 0 of terms g (x - mean of x): whether not all terms are -0; this takes a pass of its own.

        Terms whose sign is not certain count as -0. If some terms are not 0, the sum of the others need not be 0.
        """
        body, lanes = self.body, self.key.lanes
        mean, total = walk.total(p)
        off, none = mean.error(), body.constant(Kind("double", lanes), -0.0)

        def group(values: list[Value], x: Value, g: Value, active: Value) -> list[Value]:
            d = x - mean.wide()
            certain = d.magnitude().compared("ogt", off) | off.compared("oeq", 0.0)
            return [values[0] + body.chosen(certain & active, g * d, none)]

        (found,) = self._again(walk, p, total.wide().compared("oeq", 0.0), [none], group)
        while found.kind.lanes > 1:
            half = found.kind.lanes // 2
            found = part(found, 0, half) + part(found, half, half)
        return part(found, 0, 1, lanes).bits().compared("ne", -(1 << 63))

    def _of_infinities(self, walk: RowWalk, p: int) -> tuple[Value, Value]:
        """The sum of the infinite terms g (x - mean of x), and whether one of them is not certain; this takes a pass of its
        own."""
        body, lanes = self.body, self.key.lanes
        mean, _ = walk.total(p)
        off, zero = mean.error(), body.constant(Kind("double", lanes), 0.0)

        def group(values: list[Value], x: Value, g: Value, active: Value) -> list[Value]:
            d = x - mean.wide()
            certain = d.magnitude().compared("ogt", off) | off.compared("oeq", 0.0)
            infinite = active & g.magnitude().compared("oeq", math.inf)
            return [values[0] + body.chosen(infinite, g * d, zero), values[1] | (infinite & ~certain)]

        total, unsure = self._again(walk, p, walk.infinite[p], [zero, body.constant(Kind("i1", lanes), False)], group)
        while total.kind.lanes > 1:
            half = total.kind.lanes // 2
            total = part(total, 0, half) + part(total, half, half)
            unsure = part(unsure, 0, half) | part(unsure, half, half)
        return part(total, 0, 1, lanes), part(unsure, 0, 1, lanes)

    def _again(
        self,
        walk: RowWalk,
        p: int,
        condition: Value,
        starts: list[Value],
        group: Callable[[list[Value], Value, Value, Value], list[Value]],
    ) -> list[Value]:
        """Values carried along the row once more, if a condition holds; group: is given elements x and g, and the active
        lanes."""
        body, lanes = self.body, self.key.lanes
        up = body.op(f"and i64 {body.op(f'add i64 %n, {lanes - 1}')}, {-lanes}")

        def one(i: str, values: list[Value]) -> list[Value]:
            left = body.op(f"sub i64 %n, {i}")
            take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")
            self.row.put(walk, i, self.row.streams.partial(i, take))
            x, g = walk.both(p)
            walk.forget()
            return group(values, x, g, self.row.streams.first(take))

        def again(_: str, values: list[Value]) -> list[Value]:
            return self.row.lines(values, lambda v: body.loop("0", up, lanes, v, one)[1])

        some = body.op(f"zext i1 {condition.lane(0).name} to i64")
        return body.loop("0", some, 1, starts, again)[1]

    def accumulators(self, walk: RowWalk, s: int) -> list[Accumulator]:
        """The accumulators of a pass."""
        body, key = self.body, self.key
        mark = len(body.lines)
        self.row.put(walk, "0", {k: body.undefined(self.row.kinds[k]) for k in self.row.streams.inside})
        for p in walk.kept_before(s):
            walk.put_kept(p, body.undefined(Kind("double", key.lanes)))
        made = walk.accumulators(s, key.depth(walk.groups(s)))
        del body.lines[mark:]  # this code only served to find the types of the accumulators
        walk.forget()
        return made

    def along(self, walk: RowWalk, s: int) -> tuple[list[Accumulator], list[list[Value]]]:
        """Emit pass s along the row: its accumulators, and the values of each set."""
        body, key = self.body, self.key
        times = walk.groups(s)
        accumulators = self.accumulators(walk, s)
        starts = [v for a in accumulators for v in a.starts]

        def step(i: str, values: list[Value], active: Value | None, loaded: dict[int, Value]) -> list[Value]:
            with body.pooled() if walk.costly(s) else nullcontext():
                self.row.put(walk, i, loaded)
                at = self.row.places(i)
                self.load_kept(walk, s, i)
                for p, value in walk.fill_pass(s):
                    body.stored(value, self._memory(p, walk, i))
                made = walk.stepped(s, accumulators, values, active, at)
            walk.forget()
            return made

        def several(i: str, values: list[Value]) -> list[Value]:
            found = []
            if s == 0 and key.ahead:
                self.row.fetch_ahead(i, walk.read(s), times)
            for u in range(times):
                at = i if not u else body.op(f"add i64 {i}, {u * key.lanes}")
                found += step(at, values[u * len(starts) : (u + 1) * len(starts)], None, self.row.streams.whole(at))
            return found

        shares = walk.halved(s)
        measured = [] if walk.most is None else [walk.most]

        def measure(values: list[Value]) -> None:
            if measured:
                walk.most = values[-1]

        def ended(i: str, values: list[Value]) -> list[Value]:
            """Compute the second halves for the previous group."""
            halves, measures = values[-len(measured) - 2 :][:2], len(measured) + 2
            walk.ended(halves)
            before = body.op(f"sub i64 {i}, {key.lanes}")
            for p, value in walk.fill_pass(s):
                body.stored(value, self._memory(p, walk, before))
            made = walk.stepped(s, accumulators, values[:-measures], None, self.row.places(before))
            walk.forget()
            return made

        def overlapping(i: str, values: list[Value]) -> list[Value]:
            with body.pooled():
                made = ended(i, values)
                self.row.fetch_next(i)
                self.row.fetch_output(i)
                self.row.put(walk, i, self.row.streams.whole(i))
                measure(values)
                made += walk.begun()
                made += [walk.most] if measured and walk.most is not None else []
            walk.forget()
            return made

        def line(values: list[Value]) -> list[Value]:
            """The values of all lines so far, with those of one more."""
            made = alone(starts * times)
            own = merged_sets(accumulators, [made[u * len(starts) : (u + 1) * len(starts)] for u in range(times)])
            return joined(accumulators, values, own)

        def alone(values: list[Value]) -> list[Value]:
            if shares is None:
                i, values = self._blocks(key.lanes * times, accumulators, times, values, several)
            else:
                halves = [*shares.nothing(), *measured]
                i, values = self._blocks(key.lanes, accumulators, 1, [*values, *halves], overlapping)
                measure(values)
                values = ended(i, values)
            own, others = values[: len(starts)], values[len(starts) :]
            if times > 1:
                i, own = body.loop(i, "%n", key.lanes, own, lambda i, v: step(i, v, None, self.row.streams.whole(i)))
            left = body.op(f"sub i64 %n, {i}")
            some = body.op(f"zext i1 {body.op(f'icmp ne i64 {left}, 0')} to i64")
            if measured:
                walk.measure_rest(self.row.streams.partial(i, left), self.row.streams.first(left))

            def rest(_: str, values: list[Value]) -> list[Value]:
                active = self.row.streams.first(left)
                return step(i, values, active, self.row.streams.partial(i, left))

            _, own = body.loop("0", some, 1, own, rest)
            return own + others

        if not key.inner:
            values = alone(starts * times)
            return accumulators, [values[u * len(starts) : (u + 1) * len(starts)] for u in range(times)]
        values = self.row.lines([v for a in accumulators for v in a.over_lines], line)
        return accumulators, [of_lines(accumulators, values)]

    def _blocks(
        self,
        step: int,
        accumulators: list[Accumulator],
        times: int,
        carried: list[Value],
        group: Callable[[str, list[Value]], list[Value]],
    ) -> tuple[str, list[Value]]:
        """A loop over a line in blocks whose values are merged, so that a term goes through few additions.

        times: the sets of accumulators. Values that are carried besides those of the accumulators pass through all blocks.
        """
        body = self.body
        own = [v for a in accumulators for v in a.starts]
        starts = own * times
        if all(a.any_order for a in accumulators):
            return body.loop("0", "%n", step, carried, group)
        if all(isinstance(a, Compensated) for a in accumulators):
            size = SHORT * step

            def exact(i: str, kept: list[Value]) -> list[Value]:
                _, made = body.loop(i, body.op(f"add i64 {i}, {size}"), step, starts, group)
                sets = [made[u * len(own) : (u + 1) * len(own)] for u in range(times)]
                return joined(accumulators, kept, merged_sets(accumulators, sets))

            i, kept = body.loop("0", "%n", size, [v for a in accumulators for v in a.over_lines], exact)
            return body.loop(i, "%n", step, [*of_lines(accumulators, kept), *own * (times - 1)], group)
        size = self.key.block(step // self.key.lanes) * step

        def block(i: str, values: list[Value]) -> list[Value]:
            end = body.op(f"add i64 {i}, {size}")
            _, made = body.loop(i, end, step, [*starts, *values[len(starts) :]], group)
            return _merged(accumulators * times, values, made)

        i, values = body.loop("0", "%n", size, carried, block)
        return body.loop(i, "%n", step, values, group)

    def _memory(self, p: int, walk: RowWalk, i: str) -> str:
        """The address of a node's stored values for a group."""
        body = self.body
        which = sorted(walk.stages.kept).index(p)
        # there is room before the first group, which `ended` writes for the group before it
        room = body.op(f"add i64 %n, {2 * self.key.lanes}")
        at = self.row.in_row(body.op(f"add i64 {i}, {self.key.lanes}"), room)
        if which:
            lines = "%lines" if self.key.inner else "1"
            before = body.op(f"mul i64 {lines}, {which}")
            at = body.op(f"add i64 {at}, {body.op(f'mul i64 {room}, {before}')}")
        return body.at("%memory", body.op(f"mul i64 {at}, 8"))

    def load_kept(self, walk: RowWalk, s: int, i: str) -> None:
        """Give the walk the values of a group that earlier passes have stored."""
        for p in walk.kept_before(s):
            walk.put_kept(p, self.body.loaded(Kind("double", self.key.lanes), self._memory(p, walk, i)))


def _merged(accumulators: list[Accumulator], a: list[Value], b: list[Value]) -> list[Value]:
    """The accumulators' values of two sets of terms, merged; any further values are those of the second set."""
    found: list[Value] = []
    for accumulator in accumulators:
        first = len(found)
        last = first + len(accumulator.starts)
        found += accumulator.merged(a[first:last], b[first:last])
    return found + b[len(found) :]


def merged_sets(accumulators: list[Accumulator], sets: Sequence[list[Value]]) -> list[Value]:
    """The accumulators' values of all sets of terms, merged."""
    own, *others = sets
    for other in others:
        own = _merged(accumulators, own, other)
    return own


def joined(accumulators: Sequence[Accumulator], kept: list[Value], values: list[Value]) -> list[Value]:
    """The values that accumulators carry from line to line, after one more line."""
    found: list[Value] = []
    first = 0
    for a in accumulators:
        found += a.joined(kept[len(found) : len(found) + len(a.over_lines)], values[first : first + len(a.starts)])
        first += len(a.starts)
    return found


def of_lines(accumulators: Sequence[Accumulator], kept: list[Value]) -> list[Value]:
    """The accumulators' values from those that they carry from line to line."""
    found: list[Value] = []
    first = 0
    for a in accumulators:
        found += a.of_lines(kept[first : first + len(a.over_lines)])
        first += len(a.over_lines)
    return found
