"""The kernel of a map: rows of elements, a vector at a time; undecided elements are put on a list.

Its text depends on the formula, on the types, and on the layout of streams along a row, never on sizes or strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.elementwise import near_zero, settled
from anydml.kernels.elementwise.estimated import EstimateCode, quantised_sum
from anydml.kernels.elementwise.formula import TIES
from anydml.kernels.elementwise.key import MapKey, signature
from anydml.kernels.elementwise.levels import again, bits_as_lanes, called, element, finer_stage, known, lanes_as_bits, slowly
from anydml.kernels.elementwise.near_zero import NearZero
from anydml.kernels.elementwise.slow_elements import slow_elements
from anydml.kernels.elementwise.slow_groups import SlowGroups
from anydml.kernels.elementwise.streams import CONSTANT, POSITION, Streams, starts
from anydml.kernels.undecided.lists import UndecidedList, each_bit

MANY = 8  # a group has many undecided lanes if they are more than 1 / MANY of its lanes


def emitted(target: Target, key: MapKey) -> str:
    """The kernel; arguments: `signature`. It returns 1 if it stopped early, or if its list is not empty."""
    return Kernel(target, key).text()


class Kernel:
    def __init__(self, target: Target, key: MapKey) -> None:
        self.body = Body(target)
        self.key, self.count = key, len(key.types)
        self.kinds = [Kind(f"i{t.element_bits}", key.lanes) for t in key.types]
        self.streams = Streams(self.body, self.kinds, key.layouts)
        self.list = UndecidedList(self.body, self.count)
        self.estimate: EstimateCode | None = None  # of the current row
        slow = slow_elements(self.body, key)
        self.slow = None if slow is None else SlowGroups(self.body, key, slow)

    def text(self) -> str:
        body, key = self.body, self.key
        signature(key).load(body)
        self.streams.begin()
        if (key.listed and key.levels[1:]) or self.slow is not None:
            self.group = [body.op(f"alloca {kind.text}, align 64") for kind in self.kinds]
        if key.listed:
            self._listed_rows()
        else:
            body.loop("0", "%rows", 1, [], lambda r, _: self._row(r, "0"))
            self._fence()
            body.do("ret i64 0")
        finer = [finer_stage(body.target, key, level) for level in key.levels[1:]] if key.listed else []
        if finer:
            finer.append(again(body.target, key))
            if settled.function(key.formula) in settled.APART:
                finer.append(known(body.target, key))
        if self.slow is not None and not key.listed:
            finer.append(slowly(body.target, key))
        declared = dict.fromkeys([*body.declared, *(line for _, lines in finer for line in lines)])
        return kernel(body, [*declared, *(text for text, _ in finer)])

    def _fence(self) -> None:
        if self.key.stream:  # non-temporal stores are visible before the call returns
            self.body.do("fence seq_cst")

    def _finer(self) -> str:
        """Decide the elements on the list, and return how many are still on it."""
        body = self.body
        count = self.list.count()
        for level in self.key.levels[1:]:
            count = body.op(f"call i64 @{level}(ptr %list, i64 {count})")
        if self.key.levels[1:]:
            self.list.counted(count)
        return count

    def _listed_rows(self) -> None:
        """Compute rows from where the last call stopped to the end, or until the list is full."""
        body = self.body
        row, place = self.list.begun(), self.list.place()

        def one(r: str, carried: list[Value]) -> list[Value]:
            self._row(r, carried[0].name)
            return [body.constant(Kind("i64"), 0)]

        body.loop(row, "%rows", 1, [Value(body, place, Kind("i64"))], one)
        self._fence()
        self.list.end(row, self._finer())

    # --- a row ---

    def _row(self, r: str, place: str) -> list[Value]:
        body, key = self.body, self.key
        self.row = r
        number = body.op(f"add i64 {r}, %first")
        streams = self.streams
        streams.bases = starts(body, key.layouts, [f"%p{k}" for k in range(self.count)], number, key.outer, "n", "o")
        self.constants = streams.constants(k for k in range(self.count - 1) if key.layouts[k] == CONSTANT)
        if key.levels[0] == "estimated":
            found = quantised_sum(key.formula, key.types[-1])
            assert found is not None
            self.estimate = EstimateCode(body, found, self.constants, key.lanes, key.types[-1])
        head = None
        if key.stream:
            boundary, size = body.target.vector_bytes, self.kinds[-1].bits // 8
            address = body.op(f"ptrtoint ptr {streams.bases[-1]} to i64")
            left = body.op(f"and i64 {body.op(f'sub i64 0, {address}')}, {boundary - 1}")
            left = body.op(f"udiv i64 {left}, {size}")
            none = body.op(f"icmp eq i64 {left}, 0")
            head = body.op(f"select i1 {none}, i64 {key.lanes}, i64 {left}")
        self._groups(place, head)
        return []

    def _groups(self, place: str, head: str | None) -> None:
        body, key, lanes = self.body, self.key, self.key.lanes
        before, top, done = (body.name(x) for x in ("before", "group", "done"))
        body.jump(before)
        body.label(before)
        body.jump(top)
        body.label(top)
        i, j, latch = f"%{body.name('i')}", f"%{body.name('j')}", body.name("latch")
        body.do(f"{i} = phi i64 [ {place}, %{before} ], [ {j}, %{latch} ]")
        if self.slow is not None:
            self.slow.begin(before, latch)
        if self.key.listed:
            self._stop_if_full(i)
        left = body.op(f"sub i64 %n, {i}")
        most = str(lanes)
        if head is not None:
            most = body.op(f"select i1 {body.op(f'icmp eq i64 {i}, 0')}, i64 {head}, i64 {lanes}")
        some = body.op(f"icmp ult i64 {left}, {most}")
        take = body.op(f"select i1 {some}, i64 {left}, i64 {most}")
        full = body.op(f"icmp eq i64 {take}, {lanes}")
        streams = self._loads(i, take, full)
        found, late = streams, "0"
        if self.slow is not None:
            found, late = self.slow.benign(self.streams, streams, i, take, self._within)

        def again() -> list[Value]:
            return streams if self.slow is None else self._loads(i, take, full)  # keeping both copies would spill registers

        made, undecided = self._unless_all(late, found)
        if undecided is None and self.slow is not None:
            made = self.slow.again(made, late, lambda: self._slowly(again()))
        if undecided is not None:
            assert self.key.listed
            bits = self._within(take, lanes_as_bits(undecided))
            if self.slow is not None:
                bits = body.op(f"or i64 {bits}, {late}")
            if self.key.levels[1:]:
                made, bits = self._dense(again, made, bits)
            elif not self.body.target.later and (zero := near_zero.near_zero(key)) is not None:
                made, bits = self._near_zero(zero, streams, made, bits)
            elif not self.body.target.later and self.body.target.probe is None and near_zero.lines_within(key.formula):
                made, bits = self._ties(streams, made, bits)
            self._note(i, bits)
        self._stores(i, take, full, made)
        body.jump(latch)
        body.label(latch)
        body.do(f"{j} = add i64 {i}, {take}")
        body.branch(body.op(f"icmp ult i64 {j}, %n"), top, done)
        body.label(done)

    def _element(self, streams: Sequence[Value]) -> tuple[Value, Value | None]:
        if self.estimate is not None:
            made, undecided = self.estimate.element(streams)
            return made, None if undecided is None else left_by_first_stage(undecided)
        return element(self.body, self.key, streams, self.key.levels[0])

    def _unless_all(self, late: str, streams: Sequence[Value]) -> tuple[Value, Value | None]:
        """The group at the first level, and its undecided lanes: all of them, uncomputed, if all are computed again later."""
        body, lanes = self.body, self.key.lanes
        if self.slow is None or not self.key.listed or body.target.probe is not None:
            return self._element(streams)
        every = body.constant(Kind("i1", lanes), True)

        def made() -> list[Value]:
            found, undecided = self._element(streams)
            assert undecided is not None
            return [found, undecided]

        whole = body.op(f"icmp eq i64 {late}, {(1 << lanes) - 1 if lanes < 64 else -1}")
        found, undecided = body.either(whole, lambda: [body.constant(self.kinds[-1], 0), every], made, seldom=True)
        return found, undecided

    def _stop_if_full(self, i: str) -> None:
        body = self.body

        def stop() -> None:
            self._fence()
            self.list.stop(self.row, i)

        def make_room() -> None:
            left = self._finer()
            when(body, body.op(f"icmp ugt i64 {body.op(f'shl i64 {left}, 1')}, %room"), stop)

        when(body, body.op(f"icmp ugt i64 {self.list.count()}, %room"), make_room)

    def _slowly(self, streams: Sequence[Value]) -> Value:
        self._keep(streams)
        called(self.body, "slowly", self.group, self.key.lanes)
        return self.body.loaded(self.kinds[-1], self.group[-1])

    # --- memory ---

    def _loads(self, i: str, take: str, full: str) -> list[Value]:
        streams = self.streams
        found = dict(self.constants)
        if streams.inside:
            both = self.body.either(full, lambda: [*streams.whole(i).values()], lambda: [*streams.partial(i, take).values()])
            found |= zip(streams.inside, both, strict=True)
        found |= streams.positions(i)
        return [found[k] for k in range(self.count - 1)]

    def _stores(self, i: str, take: str, full: str, made: Value) -> None:
        past_cache = self.body.target.vector_bytes if self.key.stream else 0

        def whole() -> list[Value]:
            self.streams.store(i, made, past_cache=past_cache)
            return []

        def partial() -> list[Value]:
            self.streams.store_partial(i, take, made)
            return []

        self.body.either(full, whole, partial)

    # --- undecided lanes ---

    def _within(self, take: str, bits: str) -> str:
        """Those of the lanes in `bits` that hold elements: the first `take`."""
        body, lanes = self.body, self.key.lanes
        beyond = body.op(f"shl i64 -1, {take if lanes < 64 else body.op(f'and i64 {take}, 63')}")
        if lanes == 64:
            beyond = body.op(f"select i1 {body.op(f'icmp eq i64 {take}, 64')}, i64 0, i64 {beyond}")
        return body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")

    def _dense(self, streams_again: Callable[[], list[Value]], made: Value, bits: str) -> tuple[Value, str]:
        """The group computed again at the next level, if many lanes are undecided whose results are not known otherwise."""
        body = self.body
        pointers, lanes = self.group, self.key.lanes
        before, some, redo, after = (body.name(x) for x in ("before", "some", "redo", "after"))
        body.jump(before)
        body.label(before)
        found = [(made, bits, before)]
        body.branch(self._many(bits), some, after, seldom=True)
        body.label(some)
        streams = streams_again()
        first = body.name("again")
        body.jump(first)
        body.label(first)
        if (name := settled.function(self.key.formula)) is not None:
            if name in settled.APART:
                self._keep([*streams, made])
                there = called(body, "known", pointers, lanes)
                made = body.loaded(made.kind, pointers[-1])
            else:
                results, where = settled.settled(self.key.formula, streams)
                there, made = lanes_as_bits(where), body.chosen(where, results, made)
            bits = body.op(f"and i64 {bits}, {body.op(f'xor i64 {there}, -1')}")
            found.append((made, bits, first))
            body.branch(self._many(bits), redo, after)
        else:
            body.jump(redo)
        body.label(redo)
        if name not in settled.APART:
            self._keep(streams)
        mask = body.op(f"and i64 {bits}, {called(body, 'again', pointers, lanes)}")
        # lanes that are decided keep their results, which the next level may leave undecided
        made = body.chosen(bits_as_lanes(body, bits, lanes), body.loaded(made.kind, pointers[-1]), made)
        found.append((made, mask, redo))
        body.jump(after)
        body.label(after)
        values = ", ".join(f"[ {value.name}, %{label} ]" for value, _, label in found)
        masks = ", ".join(f"[ {mask}, %{label} ]" for _, mask, label in found)
        return body.value(f"phi {made.kind.text} {values}", made.kind), body.op(f"phi i64 {masks}")

    def _near_zero(self, zero: NearZero, streams: Sequence[Value], made: Value, bits: str) -> tuple[Value, str]:
        """The group, with those undecided lanes decided for which two terms of a series suffice."""
        body = self.body

        def settled() -> list[Value]:
            results, where = zero.settled(streams[0])
            left = body.op(f"and i64 {bits}, {body.op(f'xor i64 {lanes_as_bits(where)}, -1')}")
            return [body.chosen(where, results, made), Value(body, left, Kind("i64"))]

        some = body.op(f"icmp ne i64 {bits}, 0")
        found, left = body.either(some, settled, lambda: [made, Value(body, bits, Kind("i64"))], seldom=True)
        return found, left.name

    def _ties(self, streams: Sequence[Value], made: Value, bits: str) -> tuple[Value, str]:
        """The group, with those undecided lanes decided that are ties of exact products."""
        body = self.body

        def settled() -> list[Value]:
            results, undecided = element(body, self.key, streams, TIES)
            left = bits if undecided is None else body.op(f"and i64 {bits}, {lanes_as_bits(undecided)}")
            return [results, Value(body, left, Kind("i64"))]

        some = body.op(f"icmp ne i64 {bits}, 0")
        found, left = body.either(some, settled, lambda: [made, Value(body, bits, Kind("i64"))], seldom=True)
        return found, left.name

    def _keep(self, values: Sequence[Value]) -> None:
        for value, pointer in zip(values, self.group, strict=False):
            self.body.stored(value, pointer)

    def _many(self, bits: str) -> str:
        """Whether too many lanes are undecided to put them on the list."""
        body = self.body
        count = body.call("llvm.ctpop.i64", Kind("i64"), f"i64 {bits}").name
        return body.op(f"icmp ugt i64 {count}, {self.key.lanes // MANY}")

    # --- the list ---

    def _note(self, i: str, bits: str) -> None:
        """Put the undecided lanes on the list: the address of the output, and the bits of every input."""
        body = self.body

        def put(lane: str) -> None:
            at = body.op(f"add i64 {i}, {lane}")
            entry = [body.op(f"ptrtoint ptr {self.streams.place(self.count - 1, at)} to i64")]
            for k in range(self.count - 1):
                element, place = self.kinds[k].element, self.streams.place(k, at)
                word = place if self.key.layouts[k] == POSITION else body.load(element, place)
                entry.append(word if element == "i64" else body.op(f"zext {element} {word} to i64"))
            self.list.append(*entry)

        each_bit(body, bits, put)
