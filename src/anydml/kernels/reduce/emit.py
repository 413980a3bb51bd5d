"""The kernel of rows: passes along each row, each a reduction or several, and the elements that are made of them.

Its text depends on the formula, on the types, on how streams lie along a row, and on how long rows are within a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.elementwise.formula import Item, number_of
from anydml.kernels.elementwise.numbers import Number
from anydml.kernels.elementwise.rounding import stored
from anydml.kernels.match.maps import Formula
from anydml.kernels.reduce import doubled
from anydml.kernels.reduce.accumulators import Accumulator
from anydml.kernels.reduce.pool import PoolingBody
from anydml.kernels.reduce.staging import turned
from anydml.kernels.reduce.walk import RowWalk
from anydml.tensor import DataType, limits

CONTIGUOUS, CONSTANT, STRIDED, POSITION = "contiguous", "constant", "strided", "position"
PLACE = "place"  # a position that is the same along a row
STATE = ("row", "unused", "count")  # int64 each: the row where a kernel that stopped goes on, and how many are on its list
ALL = -1  # a place in a row that means every one


class Shape(NamedTuple):
    """Rows, but for their sizes and strides. lies: how each stream lies along a row, the output last.

    outer: dimensions of rows; unroll: groups of elements that a pass without functions takes together; most: a power of
    two, at least a row's length; additions: one that is at least those of a lane's sum; inner: dimensions within rows beside
    the one that lines run along; keeps: whether there is memory for a row of values that several passes need; staged: the
    streams whose rows lie side by side, element by element, and are copied to memory, where they are contiguous, `together`
    at a time.
    """

    formula: Formula
    mapped: bool
    integral: bool
    types: tuple[DataType, ...]
    lies: tuple[str, ...]
    outer: int
    lanes: int
    unroll: int
    most: int
    additions: int
    inner: int
    keeps: bool
    staged: tuple[int, ...]
    together: int


def same_along(shape: Shape) -> frozenset[int]:
    """The streams that are the same along a row."""
    return frozenset(k for k, lies in enumerate(shape.lies[:-1]) if lies in (CONSTANT, PLACE))


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    count = len(shape.types)
    found = ["state", "list", "memory", "room", "first", "rows", "n"]
    found += [f"p{k}" for k in range(count)]
    found += [f"s{k}" for k in range(count)]
    for d in range(shape.outer):
        found += [f"n{d}", *(f"o{d}_{k}" for k in range(count))]
    if shape.inner:
        found.append("lines")
    for d in range(shape.inner):
        found += [f"m{d}", *(f"q{d}_{k}" for k in range(count))]
    for k in shape.staged:
        found += [f"t{k}", f"w{k}"]
    return found


def emitted(target: Target, shape: Shape) -> str:
    """The kernel; arguments: `names`. It returns 1 where it stopped, or has something on its list."""
    return _Kernel(target, shape).text()


class _Kernel:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.body = PoolingBody(target, shape.lanes)
        self.shape, self.last = shape, len(shape.types) - 1
        self.kinds = [Kind(f"i{t.element_bits}", shape.lanes) for t in shape.types]
        self.inside = [k for k in range(self.last) if shape.lies[k] in (CONTIGUOUS, STRIDED)]
        self.iota = self.body.constants("i64", range(shape.lanes))

    def text(self) -> str:
        body, shape = self.body, self.shape
        pointers = {"state", "list", "memory", *(f"p{k}" for k, lies in enumerate(shape.lies) if lies not in (POSITION, PLACE))}
        pointers |= {f"t{k}" for k in shape.staged}
        arguments(body, names(shape), pointers)
        self.spare = {k: body.op(f"alloca {self.kinds[k].text}, align 64") for k in (*self.inside, self.last)}
        for k, spare in self.spare.items():
            body.do(f"store {self.kinds[k].text} zeroinitializer, ptr {spare}, align 64")
        zero = body.constant(Kind("i64"), 0)

        def row(r: str, staged: list[Value]) -> list[Value]:
            self.staged = [v.name for v in staged]
            self._stop_if_full(r)
            if shape.staged:
                self._stage(r)
            self._row(r)
            if self.last in shape.staged:
                after = body.op(f"add i64 {r}, 1")
                when(body, body.op(f"icmp eq i64 {after}, {self.staged[1]}"), lambda: self._put_back(after))
            return [Value(body, x, zero.kind) for x in self.staged]

        start = body.load("i64", "%state")
        first = Value(body, start, zero.kind)
        body.loop(start, "%rows", 1, [first, first], row)
        pending = body.op(f"icmp ne i64 {body.load('i64', '%state', 16)}, 0")
        # a call that began behind the end has nothing left to do, and stays there
        over = body.op(f"icmp uge i64 {start}, %rows")
        end = body.op(f"select i1 {body.op(f'or i1 {pending}, {over}')}, i64 %rows, i64 0")
        body.store("i64", end, "%state")
        body.do(f"ret i64 {body.op(f'zext i1 {pending} to i64')}")
        body.begin()
        return kernel(body, list(body.declared))

    def _stop_if_full(self, r: str) -> None:
        body = self.body

        def stop() -> None:
            if self.last in self.shape.staged:
                # where all rows are staged that were to be together, they are back already
                none = body.op(f"icmp eq i64 {r}, {self.staged[1]}")
                when(body, body.op(f"xor i1 {none}, true"), lambda: self._put_back(r))
            body.store("i64", r, "%state")
            body.do("ret i64 1")
            body.label(body.name("never"))

        half = body.op("lshr i64 %room, 1")
        self.noted = body.load("i64", "%state", 16)
        when(body, body.op(f"icmp ugt i64 {self.noted}, {half}"), stop)

    # --- rows that are staged ---

    def _stage(self, r: str) -> None:
        """Copy the inputs' next rows to memory, if those there end before a row: at most to the end of a dimension."""
        body, d = self.body, self.shape.outer - 1
        first, end = self.staged
        anew = body.op(f"icmp eq i64 {r}, {end}")
        at = body.op(f"urem i64 {body.op(f'add i64 {r}, %first')}, %n{d}")
        count = str(self.shape.together)
        for room in (body.op(f"sub i64 %n{d}, {at}"), body.op(f"sub i64 %rows, {r}")):
            count = body.op(f"select i1 {body.op(f'icmp ult i64 {room}, {count}')}, i64 {room}, i64 {count}")
        ends = body.op(f"add i64 {r}, {count}")
        self.staged = [body.op(f"select i1 {anew}, i64 {x}, i64 {y}") for x, y in ((r, first), (ends, end))]

        def copy() -> None:
            there = self._starts(r)
            for k in self.inside:
                if k in self.shape.staged:
                    size = self.kinds[k].bits // 8
                    turned(body, body.target, (there[k], f"%s{k}"), (f"%t{k}", f"%w{k}"), size, "%n", count)

        when(body, anew, copy)

    def _put_back(self, end: str) -> None:
        """Copy the output's rows that are staged, before one, to where they belong."""
        body, k = self.body, self.last
        first, _ = self.staged
        there, count = self._starts(first)[k], body.op(f"sub i64 {end}, {first}")
        turned(body, body.target, (f"%t{k}", f"%w{k}"), (there, f"%s{k}"), self.kinds[k].bits // 8, count, "%n")

    def _starts(self, r: str) -> list[str]:
        """Where each stream's row begins."""
        row = self.body.op(f"add i64 {r}, %first")
        return self._bases([f"%p{k}" for k in range(self.last + 1)], row, self.shape.outer, "n", "o")

    # --- a row ---

    def _row(self, r: str) -> None:
        body, shape = self.body, self.shape
        self.row = body.op(f"add i64 {r}, %first")
        self.line: str | None = None
        self.bases = self._starts(r)
        for k in shape.staged:
            number = body.op(f"sub i64 {r}, {self.staged[0]}")
            self.bases[k] = body.at(f"%t{k}", body.op(f"mul i64 {number}, %w{k}"))
        walk = self._walk(careful=False)
        self._reduce(walk)
        if shape.mapped:
            walk.prepare(self._depth())
            self._along(walk, self._map)
            if walk.powers is not None:
                count = body.load("i64", "%state", 16)
                when(body, body.op(f"icmp ugt i64 {count}, {self.noted}"), lambda: self._decide(walk, count))
            return
        made, undecided = self._element(walk)
        if undecided is None:
            self._store_one(made)
            return
        found = undecided.lane(0)

        def again() -> None:
            other = self._walk(careful=True)
            self._reduce(other)
            made, undecided = self._element(other)
            self._store_one(made)
            if undecided is not None:
                when(body, undecided.lane(0).name, lambda: self._append("0"))

        def note() -> None:
            self._store_one(made)
            when(body, found.name, lambda: self._append("0"))

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

    def _walk(self, *, careful: bool) -> RowWalk:
        shape = self.shape
        constant = same_along(shape)
        walk = RowWalk(self.body, shape, constant, careful=careful)
        for k in constant:
            kind = Kind(self.kinds[k].element)
            place = shape.lies[k] == PLACE
            value = Value(self.body, self.bases[k], kind) if place else self.body.loaded(kind, self.bases[k])
            walk.streams[k] = self.body.splat(value, shape.lanes)
        return walk

    def _reduce(self, walk: RowWalk) -> None:
        """Every pass, and what is the same for the whole row."""
        for s in range(len(walk.stages.passes)):
            walk.fill_row(s)
            self._pass(walk, s)
        walk.fill_row(len(walk.stages.passes))

    def _bases(self, starts: list[str], r: str, dims: int, sizes: str, strides: str) -> list[str]:
        """Where each stream's row, or line, of a number begins; the names of the dimensions' arguments."""
        body = self.body
        at: list[str] = []
        left = r
        for d in range(dims - 1, 0, -1):
            at.insert(0, body.op(f"urem i64 {left}, %{sizes}{d}"))
            left = body.op(f"udiv i64 {left}, %{sizes}{d}")
        at.insert(0, left)
        found = []
        for k, lies in enumerate(self.shape.lies):
            offset = "0"
            for d in range(dims):
                offset = body.op(f"add i64 {offset}, {body.op(f'mul i64 {at[d]}, %{strides}{d}_{k}')}")
            place = lies in (POSITION, PLACE)
            found.append(body.op(f"add i64 {starts[k]}, {offset}") if place else body.at(starts[k], offset))
        return found

    def _lines(self, carried: list[Value], each: Callable[[list[Value]], list[Value]]) -> list[Value]:
        """Every line of the row; most rows are one."""
        if not self.shape.inner:
            return each(carried)
        row = self.bases

        def one(q: str, values: list[Value]) -> list[Value]:
            self.line, self.bases = q, self._bases(row, q, self.shape.inner, "m", "q")
            return each(values)

        _, values = self.body.loop("0", "%lines", 1, carried, one)
        self.line, self.bases = None, row
        return values

    def _in_row(self, i: str, length: str = "%n") -> str:
        """The place in the row of one in a line; length: of what lines count."""
        if self.line is None:
            return i
        return self.body.op(f"add i64 {i}, {self.body.op(f'mul i64 {self.line}, {length}')}")

    # --- passes ---

    def _pass(self, walk: RowWalk, s: int) -> None:
        body, shape = self.body, self.shape
        mark = len(body.lines)
        self._set_streams(walk, "0", {k: body.undefined(self.kinds[k]) for k in self.inside})
        for p in walk.kept_before(s):
            walk.put(p, body.undefined(Kind("double", shape.lanes)))
        accumulators = walk.accumulators(s, self._depth())
        del body.lines[mark:]  # nothing of it is used but the accumulators' kinds
        walk.forget()
        times = 1 if walk.costly(s) else shape.unroll
        starts = [v for a in accumulators for v in a.starts]

        def step(i: str, values: list[Value], active: Value | None, loaded: dict[int, Value]) -> list[Value]:
            with body.pooled() if walk.costly(s) else nullcontext():
                self._set_streams(walk, i, loaded)
                at = self._places(i)
                self._load_kept(walk, s, i)
                for p, value in walk.fill_pass(s):
                    body.stored(value, self._memory(p, walk, i))
                made = walk.stepped(s, accumulators, values, active, at)
            walk.forget()
            return made

        def several(i: str, values: list[Value]) -> list[Value]:
            found = []
            for u in range(times):
                at = i if not u else body.op(f"add i64 {i}, {u * shape.lanes}")
                found += step(at, values[u * len(starts) : (u + 1) * len(starts)], None, self._loads(at))
            return found

        shares = walk.halved(s)

        def ended(i: str, values: list[Value]) -> list[Value]:
            """The second halves of the group before."""
            walk.ended(values[-2:])
            before = body.op(f"sub i64 {i}, {shape.lanes}")
            for p, value in walk.fill_pass(s):
                body.stored(value, self._memory(p, walk, before))
            made = walk.stepped(s, accumulators, values[:-2], None, self._places(before))
            walk.forget()
            return made

        def overlapping(i: str, values: list[Value]) -> list[Value]:
            with body.pooled():
                made = ended(i, values)
                self._fetch_next(i)
                self._set_streams(walk, i, self._loads(i))
                made += walk.begun()
            walk.forget()
            return made

        def line(values: list[Value]) -> list[Value]:
            if shares is None:
                i, values = self._blocks(shape.lanes * times, accumulators * times, values, several)
            else:
                halves = shares.nothing()
                i, values = self._blocks(shape.lanes, accumulators, [*values, *halves], overlapping)
                values = ended(i, values)
            own, others = values[: len(starts)], values[len(starts) :]
            if times > 1:
                i, own = body.loop(i, "%n", shape.lanes, own, lambda i, v: step(i, v, None, self._loads(i)))
            left = body.op(f"sub i64 %n, {i}")
            some = body.op(f"zext i1 {body.op(f'icmp ne i64 {left}, 0')} to i64")

            def rest(_: str, values: list[Value]) -> list[Value]:
                active = self._first(left)
                return step(i, values, active, self._partial(i, left))

            _, own = body.loop("0", some, 1, own, rest)
            return own + others

        values = self._lines(starts * times, line)
        walk.finish(s, accumulators, [values[u * len(starts) : (u + 1) * len(starts)] for u in range(times)])

    def _blocks(
        self,
        step: int,
        accumulators: list[Accumulator],
        carried: list[Value],
        group: Callable[[str, list[Value]], list[Value]],
    ) -> tuple[str, list[Value]]:
        """A loop over a line, in blocks whose values are merged: so that a term goes through few additions.

        Values that are carried beyond those of the accumulators go through all blocks.
        """
        body = self.body
        starts = [v for a in accumulators for v in a.starts]
        size = self._block() * step

        def block(i: str, values: list[Value]) -> list[Value]:
            end = body.op(f"add i64 {i}, {size}")
            _, made = body.loop(i, end, step, [*starts, *values[len(starts) :]], group)
            found: list[Value] = []
            for a in accumulators:
                first = len(found)
                last = first + len(a.starts)
                found += a.merged(values[first:last], made[first:last])
            return found + made[len(starts) :]

        i, values = body.loop("0", "%n", size, carried, block)
        return body.loop(i, "%n", step, values, group)

    def _block(self) -> int:
        """Groups of a block."""
        return 1 << max(self.shape.additions.bit_length() // 2, 2)

    def _depth(self) -> int:
        """Additions that a term of a sum goes through, at most: in its lane, then among lanes and sets of them.

        They are those of a block, then of blocks, and of groups after the last block of a line.
        """
        shape, block = self.shape, self._block()
        after = shape.additions if shape.inner else block + shape.unroll + 2
        return block + shape.additions // block + after + 2 * shape.lanes.bit_length() + shape.unroll + 2

    def _along(self, walk: RowWalk, group: Callable[[RowWalk, str, str | None], None]) -> None:
        """Groups of elements of the row, the last one perhaps in part."""
        body, lanes = self.body, self.shape.lanes

        def one(i: str, _: list[Value]) -> list[Value]:
            self._set_streams(walk, i, self._loads(i))
            group(walk, i, None)
            walk.forget()
            return []

        def line(values: list[Value]) -> list[Value]:
            i, _ = body.loop("0", "%n", lanes, [], one)
            left = body.op(f"sub i64 %n, {i}")

            def some() -> None:
                self._set_streams(walk, i, self._partial(i, left))
                group(walk, i, left)
                walk.forget()

            when(body, body.op(f"icmp ne i64 {left}, 0"), some)
            return values

        self._lines([], line)

    def _map(self, walk: RowWalk, i: str, take: str | None) -> None:
        body, k = self.body, self.last
        self._load_kept(walk, len(walk.stages.passes), i)
        made, undecided = self._element(walk)
        if take is not None and self._masks(k):
            masked = f"void @llvm.masked.store.v{made.kind.lanes}{made.kind.element}.p0"
            body.declared[f"declare {masked}({made.kind.text}, ptr, i32, <{made.kind.lanes} x i1>)"] = None
            active = self._first(take)
            body.do(f"call {masked}({made!r}, ptr {self._place(k, i)}, i32 1, {active!r})")
        elif take is not None:
            body.stored(made, self.spare[k])
            self._copy(k, i, take, out=True)
        elif self.shape.lies[k] == CONTIGUOUS:
            body.stored(made, self._place(k, i))
        else:
            at = self._place(k, i)
            for lane in range(self.shape.lanes):
                body.stored(made.lane(lane), at)
                at = body.at(at, f"%s{k}")
        if undecided is not None:
            self._note(i, take, undecided)

    def _element(self, walk: RowWalk) -> tuple[Value, Value | None]:
        """The bits that are stored, and the lanes that have to be decided elsewhere."""
        data_type, integral = self.shape.types[-1], self.shape.integral
        item: Item = walk.root()
        whole = walk.whole_of(item)
        if whole is not None and data_type.dtype.kind in "iu":
            low, high = limits(data_type)
            if integral or (low <= whole.low and whole.high <= high):
                return stored(whole, data_type, integral=True)
        number = number_of(self.body, item, self.shape.lanes) if not isinstance(item, Number) else item
        return stored(number, data_type, integral=integral)

    def _memory(self, p: int, walk: RowWalk, i: str) -> str:
        """Where the kept values of a node lie."""
        body = self.body
        which = sorted(walk.stages.kept).index(p)
        # before the first group there is room for one more, in which nothing is kept
        room = body.op(f"add i64 %n, {2 * self.shape.lanes}")
        at = self._in_row(body.op(f"add i64 {i}, {self.shape.lanes}"), room)
        if which:
            lines = "%lines" if self.shape.inner else "1"
            before = body.op(f"mul i64 {lines}, {which}")
            at = body.op(f"add i64 {at}, {body.op(f'mul i64 {room}, {before}')}")
        return body.at("%memory", body.op(f"mul i64 {at}, 8"))

    def _load_kept(self, walk: RowWalk, s: int, i: str) -> None:
        for p in walk.kept_before(s):
            walk.put(p, self.body.loaded(Kind("double", self.shape.lanes), self._memory(p, walk, i)))

    # --- memory ---

    def _set_streams(self, walk: RowWalk, i: str, loaded: dict[int, Value]) -> None:
        body, lanes = self.body, self.shape.lanes
        for k, lies in enumerate(self.shape.lies[:-1]):
            if lies == POSITION:
                steps = body.splat(Value(body, f"%s{k}", Kind("i64")), lanes)
                first = body.splat(Value(body, self._place(k, i), Kind("i64")), lanes)
                walk.streams[k] = first + steps * self.iota
        for k, value in loaded.items():
            walk.streams[k] = value

    def _places(self, i: str) -> Value:
        """The places in the row of a group's lanes."""
        return self.body.splat(Value(self.body, self._in_row(i), Kind("i64")), self.shape.lanes) + self.iota

    def _place(self, k: int, i: str) -> str:
        """The address of an element of a row, or its position."""
        body, lies = self.body, self.shape.lies[k]
        offset = body.op(f"mul i64 {i}, {self.kinds[k].bits // 8 if lies == CONTIGUOUS else f'%s{k}'}")
        return body.op(f"add i64 {self.bases[k]}, {offset}") if lies == POSITION else body.at(self.bases[k], offset)

    def _loads(self, i: str) -> dict[int, Value]:
        body = self.body
        found = {}
        for k in self.inside:
            at, kind = self._place(k, i), self.kinds[k]
            if self.shape.lies[k] == CONTIGUOUS:
                found[k] = body.loaded(kind, at)
                continue
            vector = body.undefined(kind)
            for lane in range(self.shape.lanes):
                vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
                at = body.at(at, f"%s{k}")
            found[k] = vector
        return found

    def _fetch_next(self, i: str) -> None:
        """Ask for what the next row has in this place, which is read at once when it begins."""
        body = self.body
        if not self.shape.outer:
            return
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        for k in self.inside:
            if self.shape.lies[k] == CONTIGUOUS:
                step = f"%w{k}" if k in self.shape.staged else f"%o{self.shape.outer - 1}_{k}"
                at = body.at(self._place(k, i), step)
                body.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def _masks(self, k: int) -> bool:
        """Whether instructions read and write some of a stream's elements, and nothing beside them."""
        return self.shape.lies[k] == CONTIGUOUS and "avx512bw" in self.body.target.features

    def _first(self, take: str) -> Value:
        """The first lanes."""
        return self.iota.compared("ult", self.body.splat(Value(self.body, take, Kind("i64")), self.shape.lanes))

    def _partial(self, i: str, take: str) -> dict[int, Value]:
        body, found = self.body, {}
        for k in self.inside:
            kind = self.kinds[k]
            if self._masks(k):
                name = f"llvm.masked.load.v{kind.lanes}{kind.element}.p0"
                nothing = f"{kind.text} zeroinitializer"
                signature = f"ptr, i32, <{kind.lanes} x i1>, {kind.text}"
                body.declared[f"declare {kind.text} @{name}({signature})"] = None
                active = self._first(take)
                call = f"call {kind.text} @{name}(ptr {self._place(k, i)}, i32 1, {active!r}, {nothing})"
                found[k] = body.value(call, kind)
                continue
            self._copy(k, i, take, out=False)
            found[k] = body.loaded(kind, self.spare[k])
        return found

    def _copy(self, k: int, i: str, take: str, *, out: bool) -> None:
        """Some elements of a row to or from spare memory, one by one."""
        body, kind = self.body, self.kinds[k]

        def one(lane: str, _: list[Value]) -> list[Value]:
            there = self._place(k, body.op(f"add i64 {i}, {lane}"))
            spare = body.at(self.spare[k], body.op(f"mul i64 {lane}, {kind.bits // 8}"))
            source, target = (spare, there) if out else (there, spare)
            body.stored(body.loaded(Kind(kind.element), source), target)
            return []

        body.loop("0", take, 1, [], one)

    def _store_one(self, made: Value) -> None:
        self.body.stored(made.lane(0), self.bases[-1])

    # --- what is left open of a softmax ---

    def _decide(self, walk: RowWalk, count: str) -> None:
        """Decide what this row has on the list in pairs of float64 values; what they leave open stays there."""
        body, lanes, k = self.body, self.shape.lanes, self.last
        zero = body.constant(Kind("double", lanes), 0.0)

        def line(values: list[Value]) -> list[Value]:
            def group(i: str, values: list[Value]) -> list[Value]:
                self._set_streams(walk, i, self._loads(i))
                return list(doubled.added((values[0], values[1]), walk.doubled()))

            i, values = body.loop("0", "%n", lanes, values, group)
            left = body.op(f"sub i64 %n, {i}")

            def one(j: str, values: list[Value]) -> list[Value]:
                at = body.op(f"add i64 {i}, {j}")
                self._set_streams(walk, at, self._alone(at))
                first = self.iota.compared("eq", 0)
                more = tuple(body.chosen(first, x, 0.0) for x in walk.doubled())
                return list(doubled.added((values[0], values[1]), (more[0], more[1])))

            return body.loop("0", left, 1, values, one)[1]

        high, low = self._lines([zero, zero], line)
        total = high.lane(0), low.lane(0)
        for lane in range(1, lanes):
            total = doubled.added(total, (high.lane(lane), low.lane(lane)))
        spread = body.splat(total[0], lanes), body.splat(total[1], lanes)
        row = self.bases

        def entry(e: str, kept: list[Value]) -> list[Value]:
            slot = body.at("%list", body.op(f"mul i64 {e}, 16"))
            place = body.load("i64", slot, 8)
            all_ = body.op(f"icmp eq i64 {place}, {ALL}")
            at = body.op(f"select i1 {all_}, i64 0, i64 {place}")
            if self.shape.inner:
                self.bases = self._bases(row, body.op(f"udiv i64 {at}, %n"), self.shape.inner, "m", "q")
                at = body.op(f"urem i64 {at}, %n")
            self._set_streams(walk, at, self._alone(at))
            number = doubled.share(walk.doubled(), spread)
            made, undecided = stored(number, self.shape.types[-1], integral=self.shape.integral)
            assert undecided is not None
            stays = body.op(f"or i1 {all_}, {undecided.lane(0).name}")

            def store() -> None:
                target = self.bases[k] if self.shape.lies[k] == CONSTANT else self._place(k, at)
                body.stored(made.lane(0), target)

            when(body, body.op(f"xor i1 {stays}, true"), store)
            to = body.at("%list", body.op(f"mul i64 {kept[0].name}, 16"))
            body.store("i64", self.row, to)
            body.store("i64", place, to, 8)
            return [kept[0] + Value(body, body.op(f"zext i1 {stays} to i64"), Kind("i64"))]

        _, (left,) = body.loop(self.noted, count, 1, [Value(body, self.noted, Kind("i64"))], entry)
        self.bases = row
        body.store("i64", left.name, "%state", 16)

    def _alone(self, i: str) -> dict[int, Value]:
        """One element of every stream, in every lane."""
        return {
            k: self.body.splat(self.body.loaded(Kind(self.kinds[k].element), self._place(k, i)), self.shape.lanes)
            for k in self.inside
        }

    # --- the list ---

    def _append(self, place: str) -> None:
        """Put a place of the row on the list; where the list is full, the whole row instead of all its places."""
        body = self.body
        count = body.load("i64", "%state", 16)
        full = body.op(f"icmp uge i64 {count}, %room")
        count = body.op(f"select i1 {full}, i64 {self.noted}, i64 {count}")
        place = body.op(f"select i1 {full}, i64 {ALL}, i64 {place}")
        slot = body.at("%list", body.op(f"mul i64 {count}, 16"))
        body.store("i64", self.row, slot)
        body.store("i64", place, slot, 8)
        body.store("i64", body.op(f"add i64 {count}, 1"), "%state", 16)

    def _note(self, i: str, take: str | None, undecided: Value) -> None:
        body, lanes = self.body, self.shape.lanes
        bits = body.op(f"bitcast {undecided.kind.text} {undecided.name} to i{lanes}")
        if lanes < 64:
            bits = body.op(f"zext i{lanes} {bits} to i64")
        if take is not None:
            beyond = body.op(f"shl i64 -1, {take}")
            bits = body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")

        def note() -> None:
            def one(lane: str, _: list[Value]) -> list[Value]:
                open_ = body.op(f"and i64 {body.op(f'lshr i64 {bits}, {lane}')}, 1")
                at = self._in_row(body.op(f"add i64 {i}, {lane}"))
                when(body, body.op(f"icmp ne i64 {open_}, 0"), lambda: self._append(at))
                return []

            body.loop("0", str(lanes), 1, [], one)

        when(body, body.op(f"icmp ne i64 {bits}, 0"), note)
