"""The kernel of rows: passes along each row, each with one reduction or several, and the elements computed from these.

Its text depends on the formula, on data types, on the layout of streams along a row, and on the rows' length within a power of
two.
"""

from __future__ import annotations

from contextlib import suppress

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise.items import stored_item
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits, stored_quickly
from anydml.kernels.elementwise.regrouping import ELEMENT, SLOPED
from anydml.kernels.reduce import softmax
from anydml.kernels.reduce.far_ties import far_ties
from anydml.kernels.reduce.groups import RowGroups
from anydml.kernels.reduce.joint import JOINT
from anydml.kernels.reduce.key import ReductionKey, same_along, signature
from anydml.kernels.reduce.lines import Row
from anydml.kernels.reduce.listed import RowList
from anydml.kernels.reduce.moments import MOMENTS
from anydml.kernels.reduce.passes import Passes
from anydml.kernels.reduce.pool import PoolingBody
from anydml.kernels.reduce.precisely import finer_stage
from anydml.kernels.reduce.staging import Staging
from anydml.kernels.reduce.undecided_rows import NAME
from anydml.kernels.reduce.walk import RowWalk

FINE = (MOMENTS, JOINT, ELEMENT, SLOPED)  # nodes whose formulas have a stage in twice float64's precision


def emitted(target: Target, key: ReductionKey) -> str:
    """The kernel; arguments: `signature`. It returns 1 where it stopped, or has something on its list."""
    return _RowKernel(target, key).text()


class _RowKernel:
    def __init__(self, target: Target, key: ReductionKey) -> None:
        self.body = PoolingBody(target, key.lanes)
        self.key = key
        self.row = Row(self.body, key)
        self.streams = self.row.streams
        self.staging = Staging(self.body, self.row)
        self.passes = Passes(self.body, self.row)
        self.list = RowList(self.body, self.row)
        self.groups = RowGroups(self.row, self.passes)
        self.finer: tuple[str, list[str]] | None = None
        if any(node.op in FINE for node in key.formula):
            with suppress(Uncompilable):
                self.finer = finer_stage(target, key)
        elif key.mapped and not target.exact and (less := softmax.less(key.formula)) is not None:
            self.finer = far_ties(target, key, key.formula[less[0]].data[0])

    def text(self) -> str:
        body, key = self.body, self.key
        signature(key).load(body)
        self.streams.begin()
        start = self.list.begun()
        until = self.list.until(start)
        if key.grouped > 1:
            self.groups.all(start, until, self._sums, self._elements)
        else:
            self._one_by_one(start, until)
        self.list.pause(until, lambda: self._put_back(until))
        self.list.end(start)
        body.begin()
        finer, declared = self.finer or ("", [])
        return kernel(body, [*dict.fromkeys([*body.declared, *declared]), finer])

    def _one_by_one(self, start: str, until: str) -> None:
        body, key, staging = self.body, self.key, self.staging
        zero = body.constant(Kind("i64"), 0)

        def row(r: str, staged: list[Value]) -> list[Value]:
            staging.resume(staged)
            self.list.stop_if_full(r, lambda: self._put_back(r))
            if key.staged:
                staging.begin(r)
            self._row(r)
            if staging.writes:
                after = body.op(f"add i64 {r}, 1")
                when(body, body.op(f"icmp eq i64 {after}, {staging.end}"), lambda: staging.put_back(after))
            return [Value(body, x, zero.kind) for x in (staging.first, staging.end)]

        first = Value(body, start, zero.kind)
        _, staged = body.loop(start, until, 1, [first, first], row)
        staging.resume(staged)

    def _sums(self, r: str, number: str) -> None:
        """Go along row r, which is in a group."""
        self._begin(r)
        self.groups.sums(self._begun(), number)

    def _elements(self, r: str, number: str) -> None:
        """Compute the elements of row r, which is in a group."""
        self.list.stop_if_full(r)
        self._begin(r)
        walk = self._walk(careful=False)
        self.groups.resume(walk, number)
        self._map(walk)
        if self.finer is not None:
            self._decide_finer(r)

    def _put_back(self, r: str) -> None:
        """Write staged rows back before the call stops at row r, unless all of them have been written."""
        body, staging = self.body, self.staging
        if staging.writes:
            none = body.op(f"icmp eq i64 {r}, {staging.end}")
            when(body, body.op(f"xor i1 {none}, true"), lambda: staging.put_back(r))

    def _begin(self, r: str) -> None:
        """Take the addresses of row r."""
        self.row.number = self.body.op(f"add i64 {r}, %first")
        self.row.line = None
        self.streams.bases = self.row.starts(r)

    def _row(self, r: str) -> None:
        body, key = self.body, self.key
        self._begin(r)
        for k, base in self.staging.bases(r).items():
            self.streams.bases[k] = base
        walk = self._begun()
        self._reduce(walk)
        if key.mapped:
            walk.prepare(key.depth(1))
            self._map(walk)
            if self.finer is not None:
                self._decide_finer(r)
            elif walk.powers is not None and not body.target.exact:
                count = self.list.count()
                when(body, body.op(f"icmp ugt i64 {count}, {self.list.noted}"), lambda: self.list.decide(walk, count))
            return
        if key.formula[-1].op == "several":
            self._store_several(walk)
            return
        made, undecided = self._element(walk)
        if undecided is None:
            self._store_one(made)
            return
        found = left_by_first_stage(undecided).lane(0)
        if self.finer is not None:
            self._store_one(made)
            when(body, found.name, lambda: self.list.put("0"))
            self._decide_finer(r)
            return

        def again() -> None:
            other = self._begun(careful=True)
            self._reduce(other)
            made, undecided = self._element(other)
            self._store_one(made)
            if undecided is not None:
                when(body, left_by_second_stage(undecided).lane(0).name, lambda: self.list.put("0"))

        def note() -> None:
            self._store_one(made)
            when(body, found.name, lambda: self.list.put("0"))

        if not walk.improves:
            note()
            return
        yes, no, after = (body.name(x) for x in ("careful", "plain", "stored"))
        body.branch(found.name, yes, no)
        body.label(yes)
        again()
        body.jump(after)
        body.label(no)
        self._store_one(made)
        body.jump(after)
        body.label(after)

    def _decide_finer(self, r: str) -> None:
        """Decide the elements of this row that are on the list, in twice float64's precision."""
        body = self.body
        count = self.list.count()

        def decide() -> None:
            numbers = ", ".join(f"i64 {x}" for x in (r, self.staging.first, self.list.noted, count))
            self.list.counted(body.op(f"call i64 @{NAME}(ptr %arguments, {numbers})"))

        yes, after = body.name("open"), body.name("decided")
        body.branch(body.op(f"icmp ugt i64 {count}, {self.list.noted}"), yes, after, seldom=True)
        body.label(yes)
        decide()
        body.jump(after)
        body.label(after)

    def _walk(self, *, careful: bool) -> RowWalk:
        constant = same_along(self.key)
        walk = RowWalk(self.body, self.key, constant, careful=careful)
        for k, value in self.streams.constants(sorted(constant)).items():
            walk.streams[k] = value
        return walk

    def _begun(self, *, careful: bool = False) -> RowWalk:
        """The walk of a row, with its first elements if these are subtracted from all."""
        walk = self._walk(careful=careful)
        if walk.has_moments:
            self.row.put(walk, "0", self.streams.alone("0"))
            walk.begin_row()
        return walk

    def _reduce(self, walk: RowWalk) -> None:
        """Emit all passes, and what is the same for the whole row."""
        if not walk.careful and walk.tries():
            self._try(walk)
            return
        self._passes(walk)

    def _passes(self, walk: RowWalk) -> None:
        for s in range(len(walk.stages.passes)):
            walk.fill_row(s)
            self.passes.run(walk, s)
        walk.fill_row(len(walk.stages.passes))

    def _try(self, walk: RowWalk) -> None:
        """Emit the sum of a softmax's powers without a factor, and all passes for rows that are not moderate."""
        body = self.body
        quick = self._walk(careful=False)
        quick.try_moderate()
        quick.fill_row(1)
        quick.finish(1, *self.passes.along(quick, 1))

        def passes() -> list[Value]:
            other = self._walk(careful=False)
            other.below = quick.below
            self._passes(other)
            return other.reference()

        made = body.either(quick.immoderate(), passes, quick.reference, seldom=True)
        walk.take(quick, made)
        walk.fill_row(len(walk.stages.passes))

    def _map(self, walk: RowWalk) -> None:
        """Compute and store the elements of the row, in groups; the last group may be partial."""
        body, key, lanes = self.body, self.key, self.key.lanes

        def group(i: str, loaded: dict[int, Value], take: str | None) -> None:
            self.row.put(walk, i, loaded)
            self.passes.load_kept(walk, len(walk.stages.passes), i)
            self.groups.put_common(walk, i)
            made, bits = stored_quickly(walk, walk.root, lanes, integral=key.integral)
            store(i, take, made)
            if bits != "0" and walk.less is not None:
                when(body, body.op(f"icmp ne i64 {bits}, 0"), lambda: closely(i, take, made, bits))
            elif bits != "0":
                self.list.note(i, take, bits)
            walk.forget()

        def store(i: str, take: str | None, made: Value) -> None:
            if take is None:
                self.streams.store(i, made)
            else:
                self.streams.store_partial(i, take, made)

        def closely(i: str, take: str | None, made: Value, bits: str) -> None:
            other, undecided = walk.closely()
            undecided = left_by_second_stage(undecided)
            asked = bits_as_lanes(body, bits, lanes)
            store(i, take, body.chosen(asked, other, made))
            self.list.note(i, take, lanes_as_bits(asked & undecided))

        def one(i: str, _: list[Value]) -> list[Value]:
            group(i, self.streams.whole(i), None)
            return []

        def line(values: list[Value]) -> list[Value]:
            i, _ = body.loop("0", "%n", lanes, [], one)
            left = body.op(f"sub i64 %n, {i}")
            some = body.op(f"icmp ne i64 {left}, 0")
            when(body, some, lambda: group(i, self.streams.partial(i, left), left))
            return values

        self.row.lines([], line)

    def _element(self, walk: RowWalk) -> tuple[Value, Value | None]:
        """The bits that are stored, and the undecided lanes."""
        return stored_item(self.body, walk.root(), self.key.types[-1], self.key.lanes, integral=self.key.integral)

    def _store_one(self, made: Value) -> None:
        self.body.stored(made.lane(0), self.streams.bases[-1])

    def _store_several(self, walk: RowWalk) -> None:
        """Store the results of a row, which are contiguous."""
        data_type = self.key.types[-1]
        for k, place in enumerate(self.key.formula[-1].args):
            item = walk.items[place]
            made, undecided = stored_item(self.body, item, data_type, self.key.lanes, integral=self.key.integral)
            if undecided is not None:
                raise Uncompilable("one of several results of a row has to be decided elsewhere")
            self.body.stored(made.lane(0), self.streams.bases[-1], k * data_type.dtype.itemsize)
