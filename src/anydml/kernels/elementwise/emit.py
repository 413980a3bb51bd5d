"""The kernel of a map: rows of elements, a vector at a time; what a bound leaves open goes on a list.

Its text depends on the formula, on the types, and on how streams lie along a row, never on sizes or strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import precise
from anydml.kernels.elementwise.formula import computed
from anydml.kernels.elementwise.items import Element, Truth, number_of
from anydml.kernels.elementwise.rounding import stored
from anydml.kernels.elementwise.wholes import Whole
from anydml.kernels.match.maps import Formula
from anydml.tensor import DataType, limits

CONTIGUOUS, CONSTANT, STRIDED, POSITION = "contiguous", "constant", "strided", "position"
REMAINDERS = ("fmod", "floor_mod")  # which have finer stages of their own
MANY = 8  # undecided lanes of a group are many if they are more than this part of it
STATE = ("row", "place", "count")  # int64 each: where a kernel that stopped goes on, and how many are on its list


class Shape(NamedTuple):
    """A map, but for its sizes and strides. lies: how each stream lies along a row, the output last; outer: dimensions of rows.

    stream: whether stores go past the cache. levels: how elements are computed, and how those that this leaves open are,
    one after the other (`formula.LEVELS`); listed: whether the first leaves any open.
    """

    formula: Formula
    moves: bool
    integral: bool
    types: tuple[DataType, ...]
    lies: tuple[str, ...]
    outer: int
    lanes: int
    stream: bool
    levels: tuple[str, ...]
    listed: bool


def lanes_in_pairs(target: Target) -> int:
    """Elements of a group of pairs of float32: four vectors beside each other hide that each operation waits for another."""
    return target.vector_bytes


def element(body: Body, shape: Shape, streams: Sequence[Value], level: str) -> tuple[Value, Value | None]:
    """The bits that are stored, and the lanes that have to be decided elsewhere."""
    data_type = shape.types[-1]
    if level == "doubled" and not any(node.op in REMAINDERS for node in shape.formula):
        return precise.stored(body, shape.formula, streams, data_type, shape.lanes)
    item = computed(body, shape.formula, streams, data_type, shape.lanes, level, shape.moves)
    if shape.moves:
        assert isinstance(item, Element)
        return item.bits, None
    assert not isinstance(item, Truth)
    if isinstance(item, Element) and item.data_type.dtype.kind in "iu":
        item = Whole(item.bits, *limits(item.data_type))
    if isinstance(item, Whole) and data_type.dtype.kind in "iu":
        low, high = limits(data_type)
        if shape.integral or (low <= item.low and item.high <= high):
            return stored(item, data_type, integral=True)
    return stored(number_of(body, item, shape.lanes), data_type, integral=shape.integral)


def names(shape: Shape) -> list[str]:
    """The arguments of the kernel, in order."""
    count = len(shape.types)
    found = ["state", "list", "room", "first", "rows", "n"]
    found += [f"p{k}" for k in range(count)]
    found += [f"s{k}" for k in range(count)]
    for d in range(shape.outer):
        found += [f"n{d}", *(f"o{d}_{k}" for k in range(count))]
    return found


def emitted(target: Target, shape: Shape) -> str:
    """The kernel; arguments: `names`. It returns 1 where it stopped, or has something on its list."""
    return _Kernel(target, shape).text()


class _Kernel:
    def __init__(self, target: Target, shape: Shape) -> None:
        self.body = Body(target)
        self.shape, self.count = shape, len(shape.types)
        self.kinds = [Kind(f"i{t.element_bits}", shape.lanes) for t in shape.types]

    def text(self) -> str:
        body, shape = self.body, self.shape
        pointers = {"state", "list", *(f"p{k}" for k, lies in enumerate(shape.lies) if lies != POSITION)}
        arguments(body, names(shape), pointers)
        self.spare = [
            "" if lies in (CONSTANT, POSITION) else body.op(f"alloca {kind.text}, align 64")
            for kind, lies in zip(self.kinds, shape.lies, strict=True)
        ]
        for spare, kind in zip(self.spare, self.kinds, strict=True):
            if spare:
                body.do(f"store {kind.text} zeroinitializer, ptr {spare}, align 64")
        if shape.listed and shape.levels[1:]:
            self.group = [body.op(f"alloca {kind.text}, align 64") for kind in self.kinds]
        if shape.listed:
            self._listed_rows()
        else:
            body.loop("0", "%rows", 1, [], lambda r, _: self._row(r, "0"))
            self._fence()
            body.do("ret i64 0")
        finer = [finer_stage(body.target, shape, level) for level in shape.levels[1:]] if shape.listed else []
        if finer:
            finer.append(again(body.target, shape))
        declared = dict.fromkeys([*body.declared, *(line for _, lines in finer for line in lines)])
        return kernel(body, [*declared, *(text for text, _ in finer)])

    def _fence(self) -> None:
        if self.shape.stream:  # stores past the cache become visible before the call returns
            self.body.do("fence seq_cst")

    def _finer(self) -> str:
        """Decide what is on the list; how many are still on it."""
        body = self.body
        count = body.load("i64", "%state", 16)
        for level in self.shape.levels[1:]:
            count = body.op(f"call i64 @{level}(ptr %list, i64 {count})")
        if self.shape.levels[1:]:
            body.store("i64", count, "%state", 16)
        return count

    def _listed_rows(self) -> None:
        """From where the last call stopped to the end, or until the list is full."""
        body = self.body
        row, place = body.load("i64", "%state"), body.load("i64", "%state", 8)

        def one(r: str, carried: list[Value]) -> list[Value]:
            self._row(r, carried[0].name)
            return [body.constant(Kind("i64"), 0)]

        body.loop(row, "%rows", 1, [Value(body, place, Kind("i64"))], one)
        self._fence()
        pending = body.op(f"icmp ne i64 {self._finer()}, 0")
        # a call that began behind the end has nothing left to do, and stays there
        over = body.op(f"icmp uge i64 {row}, %rows")
        end = body.op(f"select i1 {body.op(f'or i1 {pending}, {over}')}, i64 %rows, i64 0")
        body.store("i64", end, "%state")
        body.store("i64", "0", "%state", 8)
        body.do(f"ret i64 {body.op(f'zext i1 {pending} to i64')}")

    # --- a row ---

    def _row(self, r: str, place: str) -> list[Value]:
        body, shape = self.body, self.shape
        self.row = r
        self.bases = self._bases(body.op(f"add i64 {r}, %first"))
        self.constants = {
            k: body.splat(body.loaded(Kind(kind.element), self.bases[k]), shape.lanes)
            for k, (kind, lies) in enumerate(zip(self.kinds, shape.lies, strict=True))
            if lies == CONSTANT and k < self.count - 1
        }
        head = None
        if shape.stream:
            boundary, size = body.target.vector_bytes, self.kinds[-1].bits // 8
            address = body.op(f"ptrtoint ptr {self.bases[-1]} to i64")
            left = body.op(f"and i64 {body.op(f'sub i64 0, {address}')}, {boundary - 1}")
            left = body.op(f"udiv i64 {left}, {size}")
            none = body.op(f"icmp eq i64 {left}, 0")
            head = body.op(f"select i1 {none}, i64 {shape.lanes}, i64 {left}")
        self._groups(place, head)
        return []

    def _bases(self, r: str) -> list[str]:
        """Where each stream's row begins."""
        body, outer = self.body, self.shape.outer
        at: list[str] = []
        left = r
        for d in range(outer - 1, 0, -1):
            at.insert(0, body.op(f"urem i64 {left}, %n{d}"))
            left = body.op(f"udiv i64 {left}, %n{d}")
        at.insert(0, left)
        found = []
        for k, lies in enumerate(self.shape.lies):
            offset = "0"
            for d in range(outer):
                offset = body.op(f"add i64 {offset}, {body.op(f'mul i64 {at[d]}, %o{d}_{k}')}")
            found.append(body.op(f"add i64 %p{k}, {offset}") if lies == POSITION else body.at(f"%p{k}", offset))
        return found

    def _groups(self, place: str, head: str | None) -> None:
        body, lanes = self.body, self.shape.lanes
        before, top, done = (body.name(x) for x in ("before", "group", "done"))
        body.jump(before)
        body.label(before)
        body.jump(top)
        body.label(top)
        i, j, latch = f"%{body.name('i')}", f"%{body.name('j')}", body.name("latch")
        body.do(f"{i} = phi i64 [ {place}, %{before} ], [ {j}, %{latch} ]")
        if self.shape.listed:
            self._stop_if_full(i)
        left = body.op(f"sub i64 %n, {i}")
        most = str(lanes)
        if head is not None:
            most = body.op(f"select i1 {body.op(f'icmp eq i64 {i}, 0')}, i64 {head}, i64 {lanes}")
        some = body.op(f"icmp ult i64 {left}, {most}")
        take = body.op(f"select i1 {some}, i64 {left}, i64 {most}")
        full = body.op(f"icmp eq i64 {take}, {lanes}")
        streams = self._loads(i, take, full)
        made, undecided = element(body, self.shape, streams, self.shape.levels[0])
        if undecided is not None:
            assert self.shape.listed
            bits = self._within(take, undecided)
            if self.shape.levels[1:]:
                made, bits = self._dense(streams, made, bits)
            self._note(i, bits)
        self._stores(i, take, full, made)
        body.jump(latch)
        body.label(latch)
        body.do(f"{j} = add i64 {i}, {take}")
        body.branch(body.op(f"icmp ult i64 {j}, %n"), top, done)
        body.label(done)

    def _stop_if_full(self, i: str) -> None:
        body = self.body
        count = body.load("i64", "%state", 16)

        def stop() -> None:
            body.store("i64", self.row, "%state")
            body.store("i64", i, "%state", 8)
            self._fence()
            body.do("ret i64 1")
            body.label(body.name("never"))

        def make_room() -> None:
            left = self._finer()
            when(body, body.op(f"icmp ugt i64 {body.op(f'shl i64 {left}, 1')}, %room"), stop)

        when(body, body.op(f"icmp ugt i64 {count}, %room"), make_room)

    # --- memory ---

    def _place(self, k: int, i: str) -> str:
        """The address of an element of a row, or its position."""
        body = self.body
        lies = self.shape.lies[k]
        if lies == CONSTANT:
            return self.bases[k]
        offset = body.op(f"mul i64 {i}, {self.kinds[k].bits // 8 if lies == CONTIGUOUS else f'%s{k}'}")
        return body.op(f"add i64 {self.bases[k]}, {offset}") if lies == POSITION else body.at(self.bases[k], offset)

    def _either(self, full: str, whole: Callable[[], list[Value]], partial: Callable[[], list[Value]]) -> list[Value]:
        """Two ways to some values."""
        body = self.body
        one, two, after = (body.name(x) for x in ("whole", "partial", "both"))
        body.branch(full, one, two)
        ends, found = [], []
        for label, make in ((one, whole), (two, partial)):
            body.label(label)
            found.append(make())
            end = body.name("end")
            body.jump(end)
            body.label(end)
            ends.append(end)
            body.jump(after)
        body.label(after)
        return [
            body.value(f"phi {x.kind.text} [ {x.name}, %{ends[0]} ], [ {y.name}, %{ends[1]} ]", x.kind)
            for x, y in zip(*found, strict=True)
        ]

    def _loads(self, i: str, take: str, full: str) -> list[Value]:
        body, shape = self.body, self.shape
        inside = [k for k in range(self.count - 1) if shape.lies[k] in (CONTIGUOUS, STRIDED)]

        def whole() -> list[Value]:
            found = []
            for k in inside:
                at, kind = self._place(k, i), self.kinds[k]
                if shape.lies[k] == CONTIGUOUS:
                    found.append(body.loaded(kind, at))
                    continue
                vector = body.undefined(kind)
                for lane in range(shape.lanes):
                    vector = vector.replaced(lane, body.loaded(Kind(kind.element), at))
                    at = body.at(at, f"%s{k}")
                found.append(vector)
            return found

        def partial() -> list[Value]:
            for k in inside:
                self._copy(k, i, take, out=False)
            return [body.loaded(self.kinds[k], self.spare[k]) for k in inside]

        loaded = dict(zip(inside, self._either(full, whole, partial) if inside else [], strict=True))
        for k, lies in enumerate(shape.lies[:-1]):
            if lies == POSITION:
                steps = body.splat(Value(body, f"%s{k}", Kind("i64")), shape.lanes)
                first = body.splat(Value(body, self._place(k, i), Kind("i64")), shape.lanes)
                loaded[k] = first + steps * body.constants("i64", range(shape.lanes))
        return [self.constants[k] if k in self.constants else loaded[k] for k in range(self.count - 1)]

    def _copy(self, k: int, i: str, take: str, *, out: bool) -> None:
        """Some elements of a row to or from spare memory, one by one."""
        body, element = self.body, self.kinds[k].element

        def one(lane: str, _: list[Value]) -> list[Value]:
            there = self._place(k, body.op(f"add i64 {i}, {lane}"))
            spare = body.at(self.spare[k], body.op(f"mul i64 {lane}, {self.kinds[k].bits // 8}"))
            source, target = (spare, there) if out else (there, spare)
            body.stored(body.loaded(Kind(element), source), target)
            return []

        body.loop("0", take, 1, [], one)

    def _stores(self, i: str, take: str, full: str, made: Value) -> None:
        body, shape, k = self.body, self.shape, self.count - 1

        def whole() -> list[Value]:
            at = self._place(k, i)
            if shape.lies[k] == CONTIGUOUS:
                if shape.stream:
                    size = body.target.vector_bytes
                    lanes = size * 8 // made.kind.bits
                    for part in range(0, shape.lanes, lanes):
                        mask = ", ".join(f"i32 {part + lane}" for lane in range(lanes))
                        kind = Kind(made.kind.element, lanes)
                        piece = body.value(
                            f"shufflevector {made.kind.text} {made.name}, {made.kind.text} poison, <{lanes} x i32> <{mask}>",
                            kind,
                        )
                        body.store(kind.text, piece.name, at, part * made.kind.bits // 8, stream=size)
                else:
                    body.stored(made, at)
                return []
            for lane in range(shape.lanes):
                body.stored(made.lane(lane), at)
                at = body.at(at, f"%s{k}")
            return []

        def partial() -> list[Value]:
            body.stored(made, self.spare[k])
            self._copy(k, i, take, out=True)
            return []

        self._either(full, whole, partial)

    # --- undecided lanes ---

    def _within(self, take: str, undecided: Value) -> str:
        """The undecided lanes of a group, as bits."""
        body, lanes = self.body, self.shape.lanes
        bits = _bits(undecided)
        beyond = body.op(f"shl i64 -1, {take}") if lanes < 64 else "0"
        return body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")

    def _dense(self, streams: Sequence[Value], made: Value, bits: str) -> tuple[Value, str]:
        """The group computed again at the next level, at once, where many lanes are undecided."""
        body = self.body
        many = body.op(
            f"icmp ugt i64 {body.call('llvm.ctpop.i64', Kind('i64'), f'i64 {bits}').name}, {self.shape.lanes // MANY}"
        )
        before, again, after = (body.name(x) for x in ("before", "again", "after"))
        body.jump(before)
        body.label(before)
        body.branch(many, again, after, seldom=True)
        body.label(again)
        pointers = self.group
        for value, pointer in zip(streams, pointers, strict=False):
            body.stored(value, pointer)
        mask = body.op(f"and i64 {bits}, {_again(body, pointers, self.shape.lanes)}")
        second = body.loaded(made.kind, pointers[-1])
        body.jump(after)
        body.label(after)
        value = body.value(f"phi {made.kind.text} [ {made.name}, %{before} ], [ {second.name}, %{again} ]", made.kind)
        return value, body.op(f"phi i64 [ {bits}, %{before} ], [ {mask}, %{again} ]")

    # --- the list ---

    def _note(self, i: str, bits: str) -> None:
        """Put the undecided lanes on the list: the address of the output, and the bits of every input."""
        body = self.body
        before, head, after = (body.name(x) for x in ("before", "note", "after"))
        body.jump(before)
        body.label(before)
        count = body.load("i64", "%state", 16)
        body.branch(body.op(f"icmp ne i64 {bits}, 0"), head, after)
        body.label(head)
        left, rest, entry, next_ = (f"%{body.name(x)}" for x in "lrcd")
        loop_end = body.name("noted")
        body.do(f"{left} = phi i64 [ {bits}, %{before} ], [ {rest}, %{loop_end} ]")
        body.do(f"{entry} = phi i64 [ {count}, %{before} ], [ {next_}, %{loop_end} ]")
        lane = body.call("llvm.cttz.i64", Kind("i64"), f"i64 {left}", "i1 true").name
        at = body.op(f"add i64 {i}, {lane}")
        width = 8 * self.count  # an entry: the address, and one word for each input
        slot = body.at("%list", body.op(f"mul i64 {entry}, {width}"))
        target = body.op(f"ptrtoint ptr {self._place(self.count - 1, at)} to i64")
        body.store("i64", target, slot)
        for k in range(self.count - 1):
            element = self.kinds[k].element
            place = self._place(k, at)
            word = place if self.shape.lies[k] == POSITION else body.load(element, place)
            if element != "i64":
                word = body.op(f"zext {element} {word} to i64")
            body.store("i64", word, slot, 8 + 8 * k)
        body.do(f"{next_} = add i64 {entry}, 1")
        body.store("i64", next_, "%state", 16)
        body.do(f"{rest} = and i64 {left}, {body.op(f'sub i64 {left}, 1')}")
        body.jump(loop_end)
        body.label(loop_end)
        body.branch(body.op(f"icmp ne i64 {rest}, 0"), head, after)
        body.label(after)


FINER = ("list", "count")


def finer_kernel(target: Target, shape: Shape, level: str) -> str:
    """`finer_stage` as a kernel; arguments: FINER. It returns how many elements are still on the list."""
    stage, declared = finer_stage(target, shape, level)
    body = Body(target)
    arguments(body, FINER, {"list"})
    body.do(f"ret i64 {body.op(f'call i64 @{level}(ptr %list, i64 %count)')}")
    return kernel(body, [*declared, stage])


def _bits(mask: Value) -> str:
    """Lanes as bits of an integer."""
    lanes, body = mask.kind.lanes, mask.body
    bits = body.op(f"bitcast {mask.kind.text} {mask.name} to i{lanes}")
    return bits if lanes == 64 else body.op(f"zext i{lanes} {bits} to i64")


def again(target: Target, shape: Shape) -> tuple[str, list[str]]:
    """`i64 @again(ptr stream, .., ptr made, i64 n)`: n elements computed at the second level, and which it leaves undecided."""
    body = Body(target)
    lanes = min(shape.lanes, target.vector_bytes // 4)
    pointers = [f"%p{k}" for k in range(len(shape.types))]

    def group(first: str, carried: list[Value]) -> list[Value]:
        def at(k: int) -> str:
            return body.at(pointers[k], body.op(f"mul i64 {first}, {shape.types[k].element_bits // 8}"))

        streams = [body.loaded(Kind(f"i{t.element_bits}", lanes), at(k)) for k, t in enumerate(shape.types[:-1])]
        made, undecided = element(body, shape._replace(lanes=lanes), streams, shape.levels[1])
        body.stored(made, at(-1))
        if undecided is None:
            return carried
        moved = body.op(f"shl i64 {_bits(undecided)}, {first}")
        return [carried[0] | Value(body, moved, Kind("i64"))]

    _, (open_,) = body.loop("0", "%n", lanes, [Value(body, "0", Kind("i64"))], group)
    body.do(f"ret i64 {open_.name}")
    head = f"define internal i64 @again({', '.join(f'ptr {p}' for p in pointers)}, i64 %n) noinline {{"
    return "\n".join([head, "entry:", *body.lines, "}"]), [*body.declared]


def _again(body: Body, pointers: Sequence[str], count: int) -> str:
    return body.op(f"call i64 @again({', '.join(f'ptr {p}' for p in pointers)}, i64 {count})")


def finer_stage(target: Target, shape: Shape, level: str) -> tuple[str, list[str]]:
    """`i64 @level(ptr list, i64 count)`: decide listed elements, keep the others on the list, and say how many these are."""
    body = Body(target)
    count = len(shape.types)
    # of float64, two registers
    lanes, width = min(shape.lanes, target.vector_bytes // 4), 8 * count
    shape = shape._replace(lanes=lanes)
    kinds = [Kind(f"i{t.element_bits}", lanes) for t in shape.types]
    spares = [body.op(f"alloca {kind.text}, align 64") for kind in kinds]
    spare = spares[-1]
    last = body.op("sub i64 %count, 1")
    zero = Value(body, "0", Kind("i64"))

    def group(e: str, carried: list[Value]) -> list[Value]:
        streams = [body.undefined(kind) for kind in kinds[:-1]]
        for lane in range(lanes):
            at = body.op(f"add i64 {e}, {lane}")
            inside = body.op(f"icmp ult i64 {at}, {last}")
            at = body.op(f"select i1 {inside}, i64 {at}, i64 {last}")
            slot = body.at("%list", body.op(f"mul i64 {at}, {width}"))
            for k, kind in enumerate(kinds[:-1]):
                word = body.loaded(Kind("i64"), slot, 8 + 8 * k)
                streams[k] = streams[k].replaced(lane, word.converted("trunc", Kind(kind.element)))
        bits = "0"
        if level in shape.levels[1:2]:  # there is code for it
            for value, place in zip(streams, spares, strict=False):
                body.stored(value, place)
            bits = _again(body, spares, lanes)
        else:
            made, undecided = element(body, shape, streams, level)
            body.do(f"store {made.kind.text} {made.name}, ptr {spare}, align 64")
            if undecided is not None:
                bits = _bits(undecided)
        left = body.op(f"sub i64 %count, {e}")
        take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")

        def one(lane: str, kept: list[Value]) -> list[Value]:
            slot = body.at("%list", body.op(f"mul i64 {body.op(f'add i64 {e}, {lane}')}, {width}"))
            open_ = body.op(f"and i64 {body.op(f'lshr i64 {bits}, {lane}')}, 1")
            # an entry that is decided is written over by the next one, or is the last
            to = body.at("%list", body.op(f"mul i64 {kept[0].name}, {width}"))
            address = body.load("ptr", slot)
            size = kinds[-1].bits // 8
            element_ = body.loaded(Kind(kinds[-1].element), body.at(spare, body.op(f"mul i64 {lane}, {size}")))

            def store() -> None:
                body.stored(element_, address)

            when(body, body.op(f"icmp eq i64 {open_}, 0"), store)
            for word in range(count):
                body.store("i64", body.load("i64", slot, 8 * word), to, 8 * word)
            return [kept[0] + Value(body, open_, Kind("i64"))]

        _, kept = body.loop("0", take, 1, carried, one)
        return kept

    up = body.op(f"add i64 %count, {lanes - 1}")
    groups = body.op(f"and i64 {up}, {-lanes}")
    _, (kept,) = body.loop("0", groups, lanes, [zero], group)
    body.do(f"ret i64 {kept.name}")
    text = "\n".join([f"define internal i64 @{level}(ptr %list, i64 %count) {{", "entry:", *body.lines, "}"])
    return text, [*body.declared]
