"""The kernel of a nest: rows of vectors of elements, of which those that bounds leave open are listed."""

from __future__ import annotations

import re
from functools import lru_cache

from anydml.kernels.code import engine
from anydml.kernels.code.emit import along, arguments, kernel, when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import rounding
from anydml.kernels.nests import arithmetic, items
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.functions import as_number
from anydml.kernels.nests.items import WORD, Bits, Index, Item
from anydml.kernels.nests.loops import reduced
from anydml.kernels.nests.ranges import Ranges
from anydml.kernels.nests.real import Real, either, spread
from anydml.kernels.nests.shape import DONE, Shape
from anydml.kernels.nests.tables import Tables
from anydml.kernels.nests.walk import Walk
from anydml.tensor import DataType

LONG = 600  # lines of code that take no large frame
PAGE, SAVED = 4096, 256  # bytes of the stack, and those of registers that are saved
POINTERS = {"state", "list", "memory"}


def emitted(target: Target, shape: Shape) -> str:
    return _made(target, shape)[0]


def slots(target: Target, shape: Shape) -> int:
    """The rows of the table of what is kept for the lane's variable."""
    return _made(target, shape)[1]


@lru_cache(maxsize=64)
def fits(target: Target, shape: Shape) -> bool:
    """Whether the code takes less than a page of the stack.

    A larger frame would have to be probed, on Windows by a function that is not there.
    """
    text = emitted(target, shape)
    if text.count("\n") < LONG:
        return True
    try:
        code = engine.assembly(text, target)
    except RuntimeError as error:
        raise Uncompilable(f"LLVM does not take the code: {error}") from error
    taken = re.findall(r"^\s+(?:subq\s+\$(\d+), %rsp|sub\s+sp, sp, #(\d+)(, lsl #12)?)", code, re.MULTILINE)
    bytes_ = [int(x or y) << (12 if shift else 0) for x, y, shift in taken]
    return sum(bytes_) < PAGE - SAVED and "chkstk" not in code


@lru_cache(maxsize=32)
def _made(target: Target, shape: Shape) -> tuple[str, int]:
    made = _Kernel(target, shape)
    text = made.text()
    return text, made.tables.slots


class _Kernel(Frame):
    def __init__(self, target: Target, shape: Shape) -> None:
        body, program, lanes = Body(target), shape.program, shape.lanes
        walk = Walk(
            body,
            program,
            shape.data_types[0],
            {v: f"%size{v}" for v in range(len(program.bits))},
            {(t, d): (f"%last{t}_{d}", f"%stride{t}_{d}") for t, d in shape.places},
            {t: f"%tensor{t}" for t in range(len(program.types))},
            lanes,
            reduced,
        )
        super().__init__(body, shape, walk, lanes)
        self.tables = Tables(body, shape, walk, lanes)
        self.ranges = Ranges(body, shape, walk, lanes)
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
        self.tables.make()
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
        with walk.scope(variables):
            self.ranges.load(variables)
            walk.fill(*roots)
            body.jump("beforecolumns")
            body.label("beforecolumns")
            body.jump("columns")
            body.label("columns")
            body.do("%x = phi i64 [ %start, %beforecolumns ], [ %nextx, %columnend ]")
            body.branch(body.op(f"icmp uge i64 %x, {self.width}"), "rowend", "incolumn")
            body.label("incolumn")
            column = {shape.lane: self.column("%x")}
            with walk.scope(column, self.tables.loaded("%x")):
                self.ranges.load(column)
                walk.fill(*roots)
                made = [self._stored(walk.item(p), data_type) for p, data_type in zip(roots, shape.data_types, strict=True)]
                guard = either(*(open_ for _, open_ in made))
                for k, (bits, _) in enumerate(made):
                    self._store(k, bits, rows[k])
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

    # --- elements ---

    def _stored(self, item: Item, data_type: DataType) -> tuple[Value, Value | None]:
        """The bits of elements, and the lanes that are open."""
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
        x = arithmetic.plain(item)
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

    def _store(self, output: int, bits: Value, row: str) -> None:
        body, shape = self.body, self.shape
        step = f"%step{output}_{shape.lane}"
        at = along(body, row, step, "%x")
        room = body.op(f"sub i64 {self.width}, %x")

        def singly() -> None:
            for k in range(self.lanes):
                there = body.op(f"icmp ugt i64 {room}, {k}")
                place = along(body, at, step, str(k))

                def one(k: int = k, place: str = place) -> None:
                    body.stored(bits.lane(k), place)

                when(body, there, one)

        if not shape.dense[output]:
            singly()
            return
        whole = body.op(f"icmp uge i64 {room}, {self.lanes}")
        when(body, whole, lambda: body.store(bits.kind.text, bits.name, at))
        when(body, body.op(f"xor i1 {whole}, true"), singly)

    def _list(self, guard: Value) -> None:
        """Append the open elements of a vector to the list; end the call where it may not hold those of the next."""
        body = self.body
        kept = [spread(self.walk.bits[t], self.lanes) for t in self.shape.kept]
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
                    at = body.at("%list", body.op(f"mul i64 {count}, {8 * (1 + len(kept))}"))
                    place = body.op(f"add i64 {first}, {body.op(f'add i64 %x, {k}')}")
                    body.do(f"store i64 {place}, ptr {at}, align 8")
                    for j, value in enumerate(kept):
                        body.stored(value.lane(k).converted("zext", WORD), at, 8 * (j + 1))
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
