"""Rows in groups: what is the same for a row is computed at once for all rows of a group, each of which is a lane.

Roots and quotients have long latencies, and each waits for the one before: a row alone waits some 230 cycles for them. So one
pass goes along each row of the group, and stores its sums; then come the values of all rows; then the elements of each row.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import when
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.elementwise.regrouping import ELEMENT, LINE
from anydml.kernels.elementwise.standardised import LineMoments
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.reduce.key import ReductionKey, same_along
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.moments import MOMENTS
from anydml.kernels.reduce.passes import Passes, merged_sets
from anydml.kernels.reduce.stages import stages
from anydml.kernels.reduce.walk import RowWalk
from anydml.tensor import DataType

SUMS = (MOMENTS, "row_sum")
FEWEST = 4  # rows of a group
FIELDS = 32  # vectors of a group's rows that are kept, at most


def grouped(key: ReductionKey, group: int) -> ReductionKey:
    """The key with groups of rows, if the formula allows it; group: bytes of the rows of one."""
    rows = min(key.lanes, group // (key.most * 4))
    return key._replace(grouped=rows) if rows >= FEWEST and _is_by_lines(key) else key


def with_common(key: ReductionKey, streams: list[int]) -> ReductionKey:
    """The key of rows that all read these streams; those that are standardised elements' own factors and terms are common."""
    if key.grouped == 1:
        return key
    used = {a for op, args, _ in key.formula if op == ELEMENT for a in args[2:]}
    found = {key.formula[a].data[0] for a in used if key.formula[a].op == "stream"}
    return key._replace(common=tuple(k for k in streams if k in found))


def _is_by_lines(key: ReductionKey) -> bool:
    """Whether sums in one pass and the lines of standardised elements are all that is known of a row."""
    if not key.mapped or key.inner or key.staged or {*key.types} != {DataType.FLOAT32}:
        return False
    formula: NormalForm = key.formula
    if formula[-1].op != ELEMENT or [node.op for node in formula].count(LINE) > 1:  # a function may need more of a row
        return False
    found = stages(formula, same_along(key), mapped=True)
    if (
        found.kept
        or len(found.passes) != 1
        or any(formula[p].op not in SUMS or len(formula[p].args) > 1 for p in found.passes[0])
    ):
        return False
    return all(
        formula[a].op == LINE or found.within[a] or not found.after[a]
        for p, node in enumerate(formula)
        if found.within[p]
        for a in node.args
    )


def words(key: ReductionKey, length: int) -> int:
    """The 64-bit words of memory for a group, and for streams that are common to rows of so many elements."""
    if key.grouped == 1:
        return 0
    return (FIELDS + len(key.common) * -(-length // key.lanes)) * key.lanes


class RowGroups:
    """The emitter of groups of rows. The kernel's memory begins with the vectors that are kept of a group."""

    def __init__(self, row: Row, passes: Passes) -> None:
        self.body, self.row, self.key, self.passes = row.body, row, row.key, passes
        self.kept: list[Kind] = []  # of the vectors
        self.found: dict[int, tuple[LineMoments, int]] = {}  # lines, and where their vectors begin

    def all(self, start: str, until: str, sums: Callable[[str, str], None], elements: Callable[[str, str], None]) -> None:
        """Emit the groups of a range of rows; sums, elements: the steps of a row, given it and its number in the group."""
        body, size = self.body, self.key.grouped
        self.convert()

        def group(g: str, _: list[Value]) -> list[Value]:
            begin = body.op(f"add i64 {start}, {body.op(f'mul i64 {g}, {size}')}")
            behind = body.op(f"add i64 {begin}, {size}")
            end = body.call("llvm.umin.i64", Kind("i64"), f"i64 {behind}", f"i64 {until}").name

            def each(step: Callable[[str, str], None]) -> None:
                def one(r: str, _: list[Value]) -> list[Value]:
                    step(r, body.op(f"sub i64 {r}, {begin}"))
                    return []

                body.loop(begin, end, 1, [], one)

            each(sums)
            self.lines(RowWalk(body, self.key, same_along(self.key), careful=False))
            each(elements)
            return []

        # a call that has ended begins behind all rows
        count = body.call("llvm.usub.sat.i64", Kind("i64"), f"i64 {until}", f"i64 {start}").name
        groups = body.op(f"udiv i64 {body.op(f'add i64 {count}, {size - 1}')}, {size}")
        body.loop("0", groups, 1, [], group)

    # --- vectors with a lane for each row ---

    def _field(self, kind: Kind) -> str:
        self.kept.append(kind._replace(lanes=self.key.lanes))
        assert len(self.kept) <= FIELDS
        return self._place(len(self.kept) - 1)

    def _place(self, k: int) -> str:
        return self.body.at("%memory", k * self.key.lanes * 8)

    def _put(self, value: Value, number: str) -> None:
        """Keep the first lane of a row's value; number: of the row in the group."""
        value = _whole(value.lane(0))
        at = self._field(value.kind)
        self.body.stored(value, self.body.at(at, self.body.op(f"mul i64 {number}, {value.kind.bits // 8}")))

    def _vectors(self) -> list[Value]:
        return [self.body.loaded(kind, self._place(k)) for k, kind in enumerate(self.kept)]

    def _of_row(self, k: int, number: str) -> Value:
        """A row's lane of a vector, in all lanes."""
        kind = Kind(self.kept[k].element)
        at = self.body.at(self._place(k), self.body.op(f"mul i64 {number}, {kind.bits // 8}"))
        return self.body.splat(self.body.loaded(kind, at), self.key.lanes)

    # --- the steps of a group ---

    def sums(self, walk: RowWalk, number: str) -> None:
        """Go along a row, and keep its sums, its first elements, and what is read once for it."""
        self.kept = []
        walk.fill_row(0)
        accumulators, sets = self.passes.along(walk, 0)
        values = merged_sets(accumulators, sets)
        for a in accumulators:
            for value in a.of_lanes(values[: len(a.starts)]):
                self._put(value, number)
            values = values[len(a.starts) :]
        for p in sorted(walk.first):
            self._put(walk.first[p], number)
        for k in sorted(same_along(self.key)):
            self._put(walk.streams[k], number)

    def lines(self, walk: RowWalk) -> None:
        """Compute the lines of all rows of the group, each in its lane, and keep them; walk: a new one."""
        vectors = self._vectors()
        constant = sorted(same_along(self.key))
        for k in reversed(constant):
            walk.streams[k] = vectors.pop()
        places = walk.moved()
        for p in reversed(places):
            walk.first[p] = vectors.pop()
        walk.fill_row(0)
        accumulators = self.passes.accumulators(walk, 0)
        starts = [start for a in accumulators for start in a.starts]
        sums = [v if v.kind == x.kind else v.compared("ne", 0) for v, x in zip(vectors, starts, strict=True)]
        walk.finish(0, accumulators, [sums], across=True)
        walk.fill_row(1)
        for p, node in enumerate(self.key.formula):
            if node.op == LINE:
                line = walk.items[p]
                assert isinstance(line, LineMoments)
                self.found[p] = line, len(self.kept)
                for value in _values(line):
                    self.body.stored(_whole(value), self._field(_whole(value).kind))

    def resume(self, walk: RowWalk, number: str) -> None:
        """Give a row's walk its lines."""
        walk.fill_row(0)
        for p, (line, first) in self.found.items():
            values = [
                found if v.kind.element != "i1" else found.compared("ne", 0)
                for k, v in enumerate(_values(line), first)
                for found in [self._of_row(k, number)]
            ]
            walk.put(p, _with_values(line, values))

    # --- streams that all rows share ---

    def convert(self) -> None:
        """Store the elements of common streams as float64."""
        body, streams, lanes = self.body, self.row.streams, self.key.lanes
        if not self.key.common:
            return
        streams.bases = self.row.starts("0")

        def group(i: str, loaded: dict[int, Value]) -> None:
            for k in self.key.common:
                wide = loaded[k].cast(Kind("float", lanes)).converted("fpext", Kind("double", lanes))
                body.stored(wide, self._converted(k, i))

        def one(i: str, _: list[Value]) -> list[Value]:
            group(i, streams.whole(i))
            return []

        i, _ = body.loop("0", "%n", lanes, [], one)
        left = body.op(f"sub i64 %n, {i}")
        when(body, body.op(f"icmp ne i64 {left}, 0"), lambda: group(i, streams.partial(i, left)))

    def _converted(self, k: int, i: str) -> str:
        body, lanes = self.body, self.key.lanes
        up = body.op(f"and i64 {body.op(f'add i64 %n, {lanes - 1}')}, {-lanes}")
        at = body.op(f"add i64 {i}, {body.op(f'mul i64 {up}, {self.key.common.index(k)}')}")
        return body.at("%memory", body.op(f"mul i64 {body.op(f'add i64 {at}, {FIELDS * lanes}')}, 8"))

    def put_common(self, walk: RowWalk, i: str) -> None:
        """Give a walk the converted elements of a group."""
        for p, node in enumerate(self.key.formula):
            if node.op == "stream" and node.data[0] in self.key.common:
                walk.fill([p])
                walk.put_wide(p, self.body.loaded(Kind("double", self.key.lanes), self._converted(node.data[0], i)))


def _whole(value: Value) -> Value:
    """A value of whole bytes."""
    return value.converted("zext", value.kind.of("i8")) if value.kind.element == "i1" else value


def _values(line: LineMoments) -> list[Value]:
    """The values of a line that decide its float32 elements, but for constants."""
    found = (line.m, line.near, line.a, line.b, line.share, line.off, line.base, line.guard, line.shift, *line.limits)
    return [x for x in found if x is not None and x.name.startswith("%")]


def _with_values(line: LineMoments, values: list[Value]) -> LineMoments:
    """A line with other values in the places of `_values`."""
    left = iter(values)

    def other(x: Value) -> Value:
        return next(left) if x.name.startswith("%") else x

    def perhaps(x: Value | None) -> Value | None:
        return None if x is None else other(x)

    m, near, a, b = (perhaps(x) for x in (line.m, line.near, line.a, line.b))
    share = other(line.share)
    off, base, guard, shift = (perhaps(x) for x in (line.off, line.base, line.guard, line.shift))
    of_term, of_factor, least = (other(x) for x in line.limits)
    return line._replace(
        m=m, near=near, a=a, b=b, share=share, off=off, base=base, guard=guard, shift=shift, limits=(of_term, of_factor, least)
    )
