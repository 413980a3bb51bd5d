"""The kernel of a nest: rows of vectors of elements, of which those that bounds leave open are listed."""

from __future__ import annotations

from functools import lru_cache

from anydml.kernels.code.emit import along, arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Value, opened, opened_exactly
from anydml.kernels.nests.elements import NestElements
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import WORD, Index, Item
from anydml.kernels.nests.lists import Lists, Unlisted
from anydml.kernels.nests.loops import reduced
from anydml.kernels.nests.ranges import Ranges
from anydml.kernels.nests.row_sums import RowSums, Unseparated
from anydml.kernels.nests.shape import DONE, NestKey
from anydml.kernels.nests.tables import Tables
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.lanes import either, in_lanes
from anydml.kernels.numbers.measured.real import Real

# A larger frame than a page would have to be probed, on Windows by a function that is not there.
FRAME = 4096 - 256  # bytes of the stack, less those of registers that are saved
LONG = 20000  # elements of vectors that instructions make, from which on the code takes a larger frame, as experience has it
POINTERS = {"state", "list", "memory", "rowsums"}


def emitted(target: Target, shape: NestKey) -> str:
    return _made(target, shape)[0]


def is_long(target: Target, shape: NestKey) -> bool:
    """Whether the code is so long that it need not be compiled to see that its frame is too large."""
    vector = f" <{shape.lanes} x "
    return sum("= " in line and vector in line for line in emitted(target, shape).splitlines()) * shape.lanes > LONG


def slots(target: Target, shape: NestKey) -> dict[int, int]:
    """The rows of the table of what is kept for the variable of each dimension."""
    return _made(target, shape)[1]


def settled(target: Target, shape: NestKey) -> NestKey:
    """A key, without separate sums of rows and without lists of terms if the kernel cannot use them."""
    try:
        _made(target, shape)
    except Unseparated:
        return settled(target, shape._replace(separable=None))
    except Unlisted:
        return shape._replace(weighted=None)
    return shape


@lru_cache(maxsize=32)
def _made(target: Target, shape: NestKey) -> tuple[str, dict[int, int]]:
    made = _NestKernel(target, shape)
    text = made.text()
    return text, {d: tables.slots for d, tables in made.tables.items()}


class _NestKernel(Frame):
    def __init__(self, target: Target, shape: NestKey) -> None:
        body, program, lanes = Body(target), shape.program, shape.lanes
        walk = NestWalk(
            body,
            program,
            shape.data_types[0],
            {v: f"%size{v}" for v in range(len(program.bits))},
            {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in shape.places},
            {t: f"%tensor{t}" for t in range(len(program.types))},
            lanes,
            reduced,
            shape.contiguous,
        )
        super().__init__(body, shape, walk, lanes)
        # the lane's last, since the others are loaded by row
        self.tables = {d: Tables(body, shape, walk, lanes, d) for d in (*shape.outer, shape.lane)}
        self.ranges = Ranges(body, shape, walk, lanes)
        self.sums = None if shape.separable is None else RowSums(body, shape, walk, lanes, shape.separable)
        self.lists = None if shape.weighted is None else Lists(body, shape, walk, lanes, shape.weighted)
        self.elements = NestElements(body, shape, walk, lanes)
        self.width = f"%size{shape.lane}"

    def text(self) -> str:
        body, shape, walk = self.body, self.shape, self.walk
        pointers = {name for name in shape.arguments if name in POINTERS or name.startswith(("tensor", "range", "output"))}
        arguments(body, shape.arguments, pointers)
        roots = shape.program.roots
        body.do("%row0 = load i64, ptr %state, align 8")
        body.do(f"%place0 = load i64, ptr {body.at('%state', 8)}, align 8")
        body.do("%countat = getelementptr i8, ptr %state, i64 16")
        done = body.op(f"icmp eq i64 %row0, {DONE}")
        when(body, done, lambda: self._return("0"))
        walk.fill(*roots)
        self._tables()
        self.ranges.rows([self.ranges.find(k) for k in range(len(shape.narrowed))])
        body.do("%first = add i64 %begin, %row0")
        body.do("%last = add i64 %first, %between")
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
        rows, variables = self._places()
        known: dict[int, Item] = {}
        for d, index in variables.items():
            known |= self.tables[d].loaded(index.value.name)
        with walk.scope(variables, known):
            self.ranges.load(variables)
            walk.fill(*roots, without=None if self.lists is None else self.lists.found.place)
            usable = None if self.sums is None else self.sums.add_up()
            certain = None if self.lists is None else self.lists.write()
            body.jump("beforecolumns")
            body.label("beforecolumns")
            body.jump("columns")
            body.label("columns")
            body.do("%x = phi i64 [ %start, %beforecolumns ], [ %nextx, %columnend ]")
            body.branch(body.op(f"icmp uge i64 %x, {self.width}"), "rowend", "incolumn")
            body.label("incolumn")
            if shape.paused:
                late = body.op(f"icmp uge i64 {body.op('sub i64 %x, %start')}, %pace")
                when(body, late, lambda: self._pause("%row", "%x"))
            if self.sums is not None and usable is not None:
                self._of_rows(self.sums, usable, rows[0])
            column = {shape.lane: self.column("%x")}
            with walk.scope(column, self.tables[shape.lane].loaded("%x")):
                self.ranges.load(column)
                if self.lists is not None and certain is not None:
                    walk.scopes[-1][self.lists.found.place] = self._of_list(self.lists, certain, rows[0])
                walk.fill(*roots)
                made = [
                    self.elements.stored(walk.item(p), data_type) for p, data_type in zip(roots, shape.data_types, strict=True)
                ]
                guard = either(*(open_ for _, open_ in made))
                for k, (bits, _) in enumerate(made):
                    self.elements.store(k, bits, rows[k])
                if guard is not None:
                    alone = self.sums is None and self.lists is None  # there is no stage before
                    self._list(opened(guard) if alone else opened_exactly(guard))
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

    def _tables(self) -> None:
        at = "%memory"
        for d, tables in self.tables.items():
            of_rows = self.sums.columns if self.sums is not None and d == self.shape.lane else None
            at = tables.make(at, of_rows)

    def _of_rows(self, sums: RowSums, usable: Value, row: str) -> None:
        """A vector of sums of rows, or what comes next where they may not be used, or leave an element open."""
        body, shape = self.body, self.shape
        body.branch(usable.name, "ofrows", "byterms")
        body.label("ofrows")
        total, open_ = sums.sums(self.tables[shape.lane].others_loaded("%x"), "%x")
        if open_ is not None:
            body.branch(self.elements.any(open_), "byterms", "known", seldom=True)
            body.label("known")

        if sums.special is not None:
            body.branch(sums.special.name, "special", "usual", seldom=True)
            body.label("special")
            body.branch(self.elements.any(sums.unsettled(total)), "byterms", "usual")
            body.label("usual")
        if sums.held is not None:
            body.branch(sums.held.name, "exactly", "nearly")
            body.label("exactly")
        if sums.exact:
            self.elements.settle(sums.found.place, sums.exactly(total), row)
        if sums.held is not None:
            body.label("nearly")
        if sums.held is not None or not sums.exact:
            self.elements.settle(sums.found.place, sums.nearly(total), row)
        body.label("byterms")

    def _of_list(self, lists: Lists, certain: Value, row: str) -> Real:
        """A vector of sums of listed terms, or what comes next where the terms are open, or leave an element open."""
        body = self.body
        self.walk.fill(lists.found.along)
        body.branch(certain.name, "roughly", "byterms")
        body.label("roughly")
        total, open_ = lists.roughly()
        if open_ is not None:
            body.branch(self.elements.any(open_), "byterms", "known", seldom=True)
            body.label("known")
        self.elements.settle(lists.found.place, total, row)
        body.label("byterms")
        return lists.closely()

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

    def _pause(self, row: str, place: str) -> None:
        """End the call here, within a block that others come after."""
        self._stop(row, place)
        self.body.label(self.body.name("unreached"))

    # --- where ---

    def _places(self) -> tuple[list[str], dict[int, Index]]:
        """Where a row of each output begins, and its indices."""
        body, shape = self.body, self.shape
        rest, at = "%row", [f"%output{k}" for k in range(len(shape.data_types))]
        found: dict[int, Index] = {}
        for d in reversed(shape.outer):
            quotient = body.op(f"udiv i64 {rest}, %size{d}")
            i = body.op(f"sub i64 {rest}, {body.op(f'mul i64 {quotient}, %size{d}')}")
            found[d] = self.index(d, Value(body, i, WORD))
            at, rest = [along(body, place, f"%step{k}_{d}", i) for k, place in enumerate(at)], quotient
        return at, found

    # --- what is open ---

    def _list(self, guard: Value) -> None:
        """Append the open elements of a vector to the list; end the call where it may not hold those of the next."""
        body = self.body
        kept = [in_lanes(self.walk.bits[t], self.lanes) for t in self.shape.kept]
        guard = in_lanes(guard, self.lanes)
        room = in_lanes(Value(body, body.op(f"sub i64 {self.width}, %x"), WORD), self.lanes)
        inside = body.constants("i64", range(self.lanes)).compared("ult", room)
        open_ = guard & inside
        any_ = self.elements.any(open_)

        def append() -> None:
            first = body.op(f"mul i64 %row, {self.width}")
            for k in range(self.lanes):

                def one(k: int = k) -> None:
                    count = body.op("load i64, ptr %countat, align 8")
                    at = body.at("%list", body.op(f"mul i64 {count}, {8 * (1 + len(kept))}"))
                    place = body.op(f"add i64 {first}, {body.op(f'add i64 %x, {k}')}")
                    body.do(f"store i64 {place}, ptr {at}, align 8")
                    for j, value in enumerate(kept):
                        body.stored(value.lane(k).converted("zext", WORD), at, 8 * (j + 1))
                    body.do(f"store i64 {body.op(f'add i64 {count}, 1')}, ptr %countat, align 8")

                when(body, open_.lane(k).name, one)
            count = body.op("load i64, ptr %countat, align 8")
            full = body.op(f"icmp ugt i64 {body.op(f'add i64 {count}, {self.lanes}')}, %room")

            when(body, full, lambda: self._pause("%row", body.op(f"add i64 %x, {self.lanes}")))

        yes, after = body.name("yes"), body.name("after")
        body.branch(any_, yes, after, seldom=True)
        body.label(yes)
        append()
        body.jump(after)
        body.label(after)
