"""The kernel of a nest: rows of vectors of elements, of which those that bounds leave open are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from anydml.kernels.code.emit import along, arguments, fold, kernel, when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import rounding
from anydml.kernels.nests import items, reals
from anydml.kernels.nests.items import WORD, Bits, Index, Item, Truth
from anydml.kernels.nests.reals import Real, either, spread
from anydml.kernels.nests.shape import DONE, Shape
from anydml.kernels.nests.walk import Walk, as_number
from anydml.tensor import DataType

POINTERS = {"state", "list", "memory", "output"}


def lanes_of(target: Target) -> int:
    return target.vector_bytes // 8


def emitted(target: Target, shape: Shape) -> str:
    return _made(target, shape)[0]


def slots(target: Target, shape: Shape) -> int:
    """The rows of the table of what is kept for the lane's variable."""
    return _made(target, shape)[1]


@lru_cache(maxsize=32)
def _made(target: Target, shape: Shape) -> tuple[str, int]:
    made = _Kernel(target, shape)
    text = made.text()
    return text, made.slots


class _Kernel:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.shape, self.body = shape, Body(target)
        self.lanes = lanes_of(target)
        self.slots = 0
        program = shape.program
        self.walk = Walk(
            self.body,
            program,
            shape.data_type,
            {v: f"%size{v}" for v in range(len(program.bits))},
            {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in shape.places},
            {t: f"%tensor{t}" for t in range(len(program.types))},
            self.lanes,
        )

    def text(self) -> str:
        body, shape, walk = self.body, self.shape, self.walk
        pointers = {name for name in shape.arguments if name in POINTERS or name.startswith(("tensor", "range"))}
        arguments(body, shape.arguments, pointers)
        self.width = f"%size{shape.lane}"
        root = len(shape.program.nodes) - 1
        body.do("%row0 = load i64, ptr %state, align 8")
        body.do(f"%place0 = load i64, ptr {body.at('%state', 8)}, align 8")
        body.do("%countat = getelementptr i8, ptr %state, i64 16")
        done = body.op(f"icmp eq i64 %row0, {DONE}")
        when(body, done, lambda: self._return("0"))
        walk.fill(root)
        tables = self._tables()
        for k in range(len(shape.narrowed)):
            self._find_range(k)
        body.do("%first = add i64 %begin, %row0")
        body.do("%last = add i64 %first, %budget")
        body.jump("before")
        body.label("before")
        body.jump("rows")
        body.label("rows")
        body.do("%row = phi i64 [ %first, %before ], [ %nextrow, %rowend ]")
        body.do("%start = phi i64 [ %place0, %before ], [ 0, %rowend ]")
        over = body.op("icmp uge i64 %row, %end")
        body.branch(over, "finished", "more")
        body.label("more")
        late = body.op("icmp uge i64 %row, %last")
        body.branch(late, "pause", "inrow")
        body.label("pause")
        self._stop("%row", "%start")
        body.label("inrow")
        output, variables = self._places()
        with walk.scope(variables):
            self._ranges(variables)
            walk.fill(root)
            body.jump("beforecolumns")
            body.label("beforecolumns")
            body.jump("columns")
            body.label("columns")
            body.do("%x = phi i64 [ %start, %beforecolumns ], [ %nextx, %columnend ]")
            body.branch(body.op(f"icmp uge i64 %x, {self.width}"), "rowend", "incolumn")
            body.label("incolumn")
            column = {shape.lane: self._column("%x")}
            with walk.scope(column, self._loaded(tables, "%x")):
                self._ranges(column)
                walk.fill(root)
                bits, guard = self._stored(walk.item(root))
                self._store(bits, output)
                if guard is not None:
                    self._list(guard)
        body.jump("columnend")
        body.label("columnend")
        body.do(f"%nextx = add i64 %x, {self.lanes}")
        body.jump("columns")
        body.label("rowend")
        body.do("%nextrow = add i64 %row, 1")
        body.jump("rows")
        body.label("finished")
        count = body.op("load i64, ptr %countat, align 8")
        some = body.op(f"icmp ne i64 {count}, 0")
        resumed = body.op("icmp ne i64 %row0, 0")
        again = body.op(f"or i1 {resumed}, {body.op('icmp ne i64 %place0, 0')}")
        ended = body.op(f"or i1 {some}, {again}")
        when(body, ended, lambda: body.do(f"store i64 {DONE}, ptr %state, align 8"))
        body.do(f"ret i64 {body.op(f'zext i1 {some} to i64')}")
        return kernel(body, list(body.declared))

    def _return(self, status: str) -> None:
        body = self.body
        body.do(f"ret i64 {status}")
        body.label(body.name("unreached"))

    def _stop(self, row: str, place: str) -> None:
        """End the call here; the next one goes on from there."""
        body = self.body
        body.do(f"store i64 {body.op(f'sub i64 {row}, %begin')}, ptr %state, align 8")
        body.do(f"store i64 {place}, ptr {body.at('%state', 8)}, align 8")
        body.do("ret i64 1")

    # --- where ---

    def _places(self) -> tuple[str, dict[int, Index]]:
        """Where a row of the output begins, and its indices."""
        body, shape = self.body, self.shape
        at, rest = "%output", "%row"
        found: dict[int, Index] = {}
        for d in reversed(shape.outer):
            quotient = body.op(f"udiv i64 {rest}, %size{d}")
            i = body.op(f"sub i64 {rest}, {body.op(f'mul i64 {quotient}, %size{d}')}")
            found[d] = self._index(d, Value(body, i, WORD))
            at, rest = along(body, at, f"%step{d}", i), quotient
        return at, found

    def _index(self, d: int, value: Value) -> Index:
        return Index(value, 0, (1 << self.shape.program.bits[d]) - 1)

    def _column(self, x: str, d: int | None = None) -> Index:
        """The indices of a vector of elements along a dimension; behind the last one, that one again."""
        body = self.body
        d = self.shape.lane if d is None else d
        value = spread(Value(body, x, WORD), self.lanes) + body.constants("i64", range(self.lanes))
        last = spread(Value(body, body.op(f"sub i64 %size{d}, 1"), WORD), self.lanes)
        return self._index(d, items.extreme("min", value, last))

    # --- ranges ---

    def _padded(self, d: int) -> str:
        """The bytes of a word for each index of a dimension, in whole vectors."""
        size = self.body.op(f"add i64 %size{d}, {self.lanes - 1}")
        return self.body.op(f"mul i64 {self.body.op(f'and i64 {size}, {-self.lanes}')}, 8")

    def _find_range(self, k: int) -> None:
        """For every index of a dimension, the first and last value of a loop's variable for which conditions may hold."""
        body, walk, found = self.body, self.walk, self.shape.narrowed[k]
        end = f"%size{found.variable}"
        beyond = self._padded(found.dimension)

        def column(x: str, _: list[str]) -> list[str]:
            index = self._column(x, found.dimension)
            first = spread(Value(body, end, WORD), self.lanes)

            def turn(i: str, ends: list[Value]) -> list[Value]:
                value = Value(body, i, WORD)
                with walk.scope({found.dimension: index, found.variable: self._index(found.variable, value)}):
                    walk.fill(*found.conditions)
                    may: Value | None = None
                    for c in found.conditions:
                        truth = walk.truth(c)
                        mask = spread(truth.mask, self.lanes)
                        if truth.guard is not None:
                            mask = mask | spread(truth.guard, self.lanes)
                        may = mask if may is None else may & mask
                    assert may is not None
                    here, behind = (spread(x, self.lanes) for x in (value, value + 1))
                    low = body.chosen(may & here.compared("slt", ends[0]), here, ends[0])
                    return [low, body.chosen(may, behind, ends[1])]

            _, ends = body.loop("0", end, 1, [first, first.lift(0)], turn)
            at = body.at(f"%range{k}", body.op(f"mul i64 {x}, 8"))
            body.stored(ends[0], at)
            body.stored(ends[1], at, beyond)
            return []

        last = body.op(f"add i64 %size{found.dimension}, {self.lanes - 1}")
        fold(body, "0", last, self.lanes, [], column)

    def _ranges(self, variables: Mapping[int, Index]) -> None:
        """Load the ends of the loops that are known with some variables."""
        body, walk = self.body, self.walk
        for k, narrowed in enumerate(self.shape.narrowed):
            if narrowed.dimension not in variables:
                continue
            index = variables[narrowed.dimension].value
            base = f"%range{k}"
            ends: list[Value] = []
            for part in ("0", self._padded(narrowed.dimension)):
                if index.kind.lanes:
                    word = body.loaded(index.kind, body.at(body.at(base, part), body.op("mul i64 %x, 8")))
                    ends.append(word)
                else:
                    ends.append(body.loaded(WORD, body.at(along(body, base, "8", index.name), part)))
            walk.ranges.setdefault((narrowed.reduction, narrowed.variable), []).append((ends[0], ends[1]))

    # --- tables ---

    def _tables(self) -> dict[int, Item]:
        """Compute what depends on the lane's variable alone, once for all rows; the items, with their slots as values."""
        body, walk = self.body, self.walk
        places = self.shape.tabled()
        found: dict[int, Item] = {}
        if not places:
            return found

        def turn(i: str, _: list[str]) -> list[str]:
            with walk.scope({self.shape.lane: self._column(i)}):
                walk.fill(*places)
                for p in places:
                    item = walk.item(p)
                    if isinstance(item, Bits):
                        raise Uncompilable("bits that depend on one dimension alone")
                    made = self._kept(item, i)
                    if made is not None:
                        found[p] = made
            return []

        end = body.op(f"add i64 {self.width}, {self.lanes - 1}")
        fold(body, "0", end, self.lanes, [], turn)
        return found

    def _slot(self, value: Value, i: str) -> Value:
        """Keep a vector; the value's name is its slot's number then."""
        body = self.body
        row = body.at("%memory", body.op(f"mul i64 %pitch, {self.slots}"))
        at = body.at(row, body.op(f"mul i64 {i}, 8"))
        word = value if value.kind.element != "i1" else value.converted("zext", value.kind.of("i64"))
        body.stored(word, at)
        made = Value(body, str(self.slots), value.kind)
        self.slots += 1
        return made

    def _kept(self, item: Item, i: str) -> Item | None:
        assert not isinstance(item, Bits)
        main = item.mask if isinstance(item, Truth) else item.value
        if not main.kind.lanes:
            return None
        kept = self._slot(main, i)
        guard = None if item.guard is None else self._slot(spread(item.guard, self.lanes), i)
        if isinstance(item, Truth):
            return Truth(kept, guard, item.known)
        if isinstance(item, Index):
            return Index(kept, item.low, item.high, guard)
        err = None if item.err is None else self._slot(spread(item.err, self.lanes), i)
        return replace(item, value=kept, err=err, guard=guard)

    def _loaded(self, tables: dict[int, Item], x: str) -> dict[int, Item]:
        body = self.body
        offset = body.op(f"mul i64 {x}, 8") if tables else "0"

        def load(slot: Value) -> Value:
            at = body.at(body.at("%memory", body.op(f"mul i64 %pitch, {slot.name}")), offset)
            word = slot.kind if slot.kind.element != "i1" else slot.kind.of("i64")
            value = body.loaded(word, at)
            return value if word == slot.kind else value.compared("ne", 0)

        found: dict[int, Item] = {}
        for p, item in tables.items():
            guard = None if item.guard is None else load(item.guard)
            if isinstance(item, Truth):
                found[p] = Truth(load(item.mask), guard, item.known)
            elif isinstance(item, Index):
                found[p] = Index(load(item.value), item.low, item.high, guard)
            elif isinstance(item, Real):
                err = None if item.err is None else load(item.err)
                found[p] = replace(item, value=load(item.value), err=err, guard=guard)
        return found

    # --- elements ---

    def _stored(self, item: Item) -> tuple[Value, Value | None]:
        """The bits of elements, and the lanes that are open."""
        data_type = self.shape.data_type
        element = Kind(f"i{data_type.element_bits}", self.lanes)
        if isinstance(item, Bits):
            return spread(item.value, self.lanes), item.guard
        floating = data_type.dtype.kind == "f"
        if isinstance(item, Index):
            if not floating:
                return spread(item.value.converted("trunc", item.value.kind.of(element.element)), self.lanes), item.guard
            item = items.position(item)
        if not isinstance(item, Real):
            raise Uncompilable("a truth is stored")
        x = reals.plain(item)
        if not floating:
            whole = items.index(x)
            return spread(whole.value.converted("trunc", whole.value.kind.of(element.element)), self.lanes), whole.guard
        if data_type == DataType.FLOAT32:
            single, undecided = rounding.nearest_single(as_number(x))
            bits = single.bits()
        elif data_type == DataType.FLOAT16:
            bits, undecided = rounding.nearest_half(as_number(x))
        else:
            raise Uncompilable("elements are of FLOAT64")
        nan = x.value.compared("uno", x.value)
        quiet = 0x7FC00000 if data_type == DataType.FLOAT32 else 0x7E00
        bits = self.body.chosen(nan, bits.lift(quiet), bits)
        return spread(bits, self.lanes), either(x.guard, undecided)

    def _store(self, bits: Value, row: str) -> None:
        body, shape = self.body, self.shape
        size = shape.data_type.element_bits // 8
        at = along(body, row, "%step", "%x")
        room = body.op(f"sub i64 {self.width}, %x")

        def singly() -> None:
            for k in range(self.lanes):
                there = body.op(f"icmp ugt i64 {room}, {k}")
                place = along(body, at, "%step", str(k))

                def one(k: int = k, place: str = place) -> None:
                    body.stored(bits.lane(k), place)

                when(body, there, one)

        if not shape.dense:
            singly()
            return
        whole = body.op(f"icmp uge i64 {room}, {self.lanes}")
        when(body, whole, lambda: body.store(bits.kind.text, bits.name, at))
        when(body, body.op(f"xor i1 {whole}, true"), singly)
        assert size

    def _list(self, guard: Value) -> None:
        """Append the open elements of a vector to the list; end the call where it may not hold those of the next."""
        body = self.body
        guard = spread(guard, self.lanes)
        room = spread(Value(body, body.op(f"sub i64 {self.width}, %x"), WORD), self.lanes)
        inside = body.constants("i64", range(self.lanes)).compared("ult", room)
        open_ = guard & inside
        word = f"i{self.lanes}"
        any_ = body.op(f"icmp ne {word} {body.op(f'bitcast {open_.kind.text} {open_.name} to {word}')}, 0")

        def append() -> None:
            first = body.op(f"mul i64 %row, {self.width}")
            for k in range(self.lanes):

                def one(k: int = k) -> None:
                    count = body.op("load i64, ptr %countat, align 8")
                    at = body.at("%list", body.op(f"mul i64 {count}, 8"))
                    place = body.op(f"add i64 {first}, {body.op(f'add i64 %x, {k}')}")
                    body.do(f"store i64 {place}, ptr {at}, align 8")
                    body.do(f"store i64 {body.op(f'add i64 {count}, 1')}, ptr %countat, align 8")

                when(body, open_.lane(k).name, one)
            count = body.op("load i64, ptr %countat, align 8")
            full = body.op(f"icmp ugt i64 {body.op(f'add i64 {count}, {self.lanes}')}, %room")

            def stop() -> None:
                self._stop("%row", body.op(f"add i64 %x, {self.lanes}"))
                body.label(body.name("unreached"))

            when(body, full, stop)

        yes, after = body.name("yes"), body.name("after")
        body.branch(any_, yes, after, seldom=True)
        body.label(yes)
        append()
        body.jump(after)
        body.label(after)
