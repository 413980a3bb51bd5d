"""The kernel of a nest: rows of vectors of elements; elements that bounds leave undecided are listed."""

from __future__ import annotations

from functools import lru_cache

from anydml.kernels.code.emit import along, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Value, left_by_first_stage, left_by_second_stage
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.nests.elements import NestElements
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import WORD, Index, Item
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.lists import Lists, Unlisted
from anydml.kernels.nests.loops import reduced
from anydml.kernels.nests.ranges import Ranges
from anydml.kernels.nests.row_sums import RowSums, Unseparated
from anydml.kernels.nests.tables import Tables
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.lanes import either, in_lanes
from anydml.kernels.numbers.measured.real import Real
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.kernels.undecided.state import ENDED

# A larger frame than a page would have to be probed, on Windows by a function that is not there.
FRAME = 4096 - 256  # bytes of the stack, less those of registers that are saved
LONG = 20000  # elements of vectors that instructions make, from which on the code takes a larger frame, as experience has it


def emitted(target: Target, key: NestKey) -> str:
    return _made(target, key)[0]


def is_long(target: Target, key: NestKey) -> bool:
    """Whether the code is so long that its frame is too large, which spares compiling it."""
    vector = f" <{key.lanes} x "
    return sum("= " in line and vector in line for line in emitted(target, key).splitlines()) * key.lanes > LONG


def slots(target: Target, key: NestKey) -> dict[int, int]:
    """For each dimension, the number of rows in its table of values (see `Tables.slots`)."""
    return _made(target, key)[1]


def settled(target: Target, key: NestKey) -> NestKey:
    """The key, without sums of rows and without lists of terms if the kernel cannot use them."""
    try:
        _made(target, key)
    except Unseparated:
        return settled(target, key._replace(separable=None))
    except Unlisted:
        return key._replace(weighted=None)
    return key


@lru_cache(maxsize=32)
def _made(target: Target, key: NestKey) -> tuple[str, dict[int, int]]:
    made = _NestKernel(target, key)
    text = made.text()
    return text, {d: tables.slots for d, tables in made.tables.items()}


class _NestKernel(Frame):
    def __init__(self, target: Target, key: NestKey) -> None:
        body, program, lanes = Body(target), key.program, key.lanes
        walk = NestWalk(
            body,
            program,
            key.data_types[0],
            {v: f"%size{v}" for v in range(len(program.bits))},
            {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in key.places},
            {t: f"%tensor{t}" for t in range(len(program.types))},
            lanes,
            reduced,
            key.contiguous,
        )
        super().__init__(body, key, walk, lanes)
        # the lane's tables are made last, since the others are loaded by row
        self.tables = {d: Tables(body, key, walk, lanes, d) for d in (*key.outer, key.lane)}
        self.ranges = Ranges(body, key, walk, lanes)
        self.sums = None if key.separable is None else RowSums(body, key, walk, lanes, key.separable)
        self.lists = None if key.weighted is None else Lists(body, key, walk, lanes, key.weighted)
        self.elements = NestElements(body, key, walk, lanes)
        self.list = UndecidedList(body, 1 + len(key.kept))
        self.width = f"%size{key.lane}"

    def text(self) -> str:
        body, key, walk = self.body, self.key, self.walk
        key.signature.load(body)
        roots = key.program.roots
        begun, place = self.list.begun(), self.list.place()
        when(body, body.op(f"icmp eq i64 {begun}, {ENDED}"), lambda: self._return("0"))
        walk.fill_known(*roots)
        self._tables()
        self.ranges.rows([self.ranges.find(k) for k in range(len(key.narrowed))])
        body.do(f"%first = add i64 %begin, {begun}")
        body.do("%last = add i64 %first, %between")
        body.jump("before")
        body.label("before")
        body.jump("rows")
        body.label("rows")
        body.do("%row = phi i64 [ %first, %before ], [ %nextrow, %rowend ]")
        body.do(f"%start = phi i64 [ {place}, %before ], [ 0, %rowend ]")
        over = body.op("icmp uge i64 %row, %end")
        body.branch(over, "finished", "more")
        body.label("more")
        when(body, body.op("icmp uge i64 %row, %last"), lambda: self._stop("%row", "%start"))
        rows, variables = self._places()
        known: dict[int, Item] = {}
        for d, index in variables.items():
            known |= self.tables[d].loaded(index.value.name)
        with walk.scope(variables, known):
            self.ranges.load(variables)
            walk.fill_known(*roots, without=None if self.lists is None else self.lists.found.place)
            usable = None if self.sums is None else self.sums.add_up()
            certain = None if self.lists is None else self.lists.write()
            body.jump("beforecolumns")
            body.label("beforecolumns")
            body.jump("columns")
            body.label("columns")
            body.do("%x = phi i64 [ %start, %beforecolumns ], [ %nextx, %columnend ]")
            body.branch(body.op(f"icmp uge i64 %x, {self.width}"), "rowend", "incolumn")
            body.label("incolumn")
            if key.paused:
                late = body.op(f"icmp uge i64 {body.op('sub i64 %x, %start')}, %pace")
                when(body, late, lambda: self._stop("%row", "%x"))
            if self.sums is not None and usable is not None:
                self._of_rows(self.sums, usable, rows[0])
            column = {key.lane: self.column("%x")}
            with walk.scope(column, self.tables[key.lane].loaded("%x")):
                self.ranges.load(column)
                if self.lists is not None and certain is not None:
                    walk.items[self.lists.found.place] = self._of_list(self.lists, certain, rows[0])
                walk.fill_known(*roots)
                made = [
                    self.elements.stored(walk.item(p), data_type) for p, data_type in zip(roots, key.data_types, strict=True)
                ]
                guard = either(*(undecided for _, undecided in made))
                for k, (bits, _) in enumerate(made):
                    self.elements.store(k, bits, rows[k])
                if guard is not None:
                    alone = self.sums is None and self.lists is None  # there is no earlier stage
                    self._list(left_by_first_stage(guard) if alone else left_by_second_stage(guard))
        body.jump("columnend")
        body.label("columnend")
        body.do(f"%nextx = add i64 %x, {self.lanes}")
        body.jump("columns")
        body.label("rowend")
        body.do("%nextrow = add i64 %row, 1")
        body.jump("rows")
        body.label("finished")
        self.list.end(begun)
        return kernel(body, list(body.declared))

    def _tables(self) -> None:
        at = "%memory"
        for d, tables in self.tables.items():
            of_rows = self.sums.columns if self.sums is not None and d == self.key.lane else None
            at = tables.make(at, of_rows)

    def _of_rows(self, sums: RowSums, usable: Value, row: str) -> None:
        """Store a vector from the sums of rows; go to "byterms" if they cannot be used or leave an element undecided."""
        body, key = self.body, self.key
        body.branch(usable.name, "ofrows", "byterms")
        body.label("ofrows")
        total, undecided = sums.sums(self.tables[key.lane].others_loaded("%x"), "%x")
        if undecided is not None:
            body.branch(self.elements.any(undecided), "byterms", "known", seldom=True)
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
        """Store a vector from listed terms; go to "byterms" if the terms or an element are undecided."""
        body = self.body
        self.walk.fill_known(lists.found.along)
        body.branch(certain.name, "roughly", "byterms")
        body.label("roughly")
        total, undecided = lists.roughly()
        if undecided is not None:
            body.branch(self.elements.any(undecided), "byterms", "known", seldom=True)
            body.label("known")
        self.elements.settle(lists.found.place, total, row)
        body.label("byterms")
        return lists.closely()

    def _return(self, status: str) -> None:
        body = self.body
        body.do(f"ret i64 {status}")
        body.label(body.name("unreached"))

    def _stop(self, row: str, place: str) -> None:
        """Return from the kernel; the next call begins at this row and place."""
        self.list.stop(self.body.op(f"sub i64 {row}, %begin"), place)

    # --- indices ---

    def _places(self) -> tuple[list[str], dict[int, Index]]:
        """The address of the row in each output, and the indices of the row."""
        body, key = self.body, self.key
        rest, at = "%row", [f"%output{k}" for k in range(len(key.data_types))]
        found: dict[int, Index] = {}
        for d in reversed(key.outer):
            quotient = body.op(f"udiv i64 {rest}, %size{d}")
            i = body.op(f"sub i64 {rest}, {body.op(f'mul i64 {quotient}, %size{d}')}")
            found[d] = self.index(d, Value(body, i, WORD))
            at, rest = [along(body, place, f"%step{k}_{d}", i) for k, place in enumerate(at)], quotient
        return at, found

    # --- undecided elements ---

    def _list(self, guard: Value) -> None:
        """List the undecided elements of a vector; return from the kernel if the list may not hold those of the next vector."""
        body = self.body
        kept = [in_lanes(self.walk.bits[t], self.lanes) for t in self.key.kept]
        room = in_lanes(Value(body, body.op(f"sub i64 {self.width}, %x"), WORD), self.lanes)
        inside = body.constants("i64", range(self.lanes)).compared("ult", room)
        undecided = in_lanes(guard, self.lanes) & inside
        yes, after = body.name("yes"), body.name("after")
        body.branch(self.elements.any(undecided), yes, after, seldom=True)
        body.label(yes)
        first = body.op(f"add i64 {body.op(f'mul i64 %row, {self.width}')}, %x")

        def put(lane: str) -> None:
            at = body.op(f"trunc i64 {lane} to i32") if kept else ""
            inputs = (value.lane(at).converted("zext", WORD).name for value in kept)
            self.list.append(body.op(f"add i64 {first}, {lane}"), *inputs)

        each_bit(body, lanes_as_bits(undecided), put)
        full = body.op(f"icmp ugt i64 {body.op(f'add i64 {self.list.count()}, {self.lanes}')}, %room")
        when(body, full, lambda: self._stop("%row", body.op(f"add i64 %x, {self.lanes}")))
        body.jump(after)
        body.label(after)
