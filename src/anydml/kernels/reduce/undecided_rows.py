"""Functions for rows with undecided elements: passes along the row once more, then these elements one by one.

They are functions of their own, so that they take no registers of the kernel's. What they leave undecided stays listed.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_second_stage
from anydml.kernels.reduce.key import ALL, ReductionKey, same_along, signature
from anydml.kernels.reduce.lines import Row
from anydml.kernels.undecided.lists import UndecidedList

NAME = "finer"


class UndecidedRow:
    """`i64 @finer(ptr arguments, i64 r, i64 staged, i64 noted, i64 count)`: decide the row's entries on the list.

    r: the row, counted from the kernel's first; staged: the first of those in memory of the kernel's own; noted, count: where
    its entries begin and end. It returns where those end that are left. read: the streams' values of a group of elements.
    """

    def __init__(self, target: Target, key: ReductionKey) -> None:
        self.body = Body(target)
        self.lanes = target.vector_bytes // 8
        self.key = key._replace(lanes=self.lanes)
        self.row = Row(self.body, self.key)
        self.streams = self.row.streams
        self.read: list[Value] = [self.body.undefined(kind) for kind in self.row.kinds[:-1]]

    def begin(self) -> None:
        """The row's place, and what is the same along it."""
        body, key, streams = self.body, self.key, self.streams
        signature(key).load(body)
        streams.begin()
        self.row.number = body.op("add i64 %r, %first")
        streams.bases = self.row.starts("%r")
        for k in key.staged:
            number = body.op("sub i64 %r, %staged")
            streams.bases[k] = body.at(f"%t{k}", body.op(f"mul i64 {number}, %w{k}"))
        for k, value in streams.constants(sorted(same_along(key))).items():
            self.read[k] = value

    def ended(self, left: str) -> tuple[str, list[str]]:
        """The function's text, and what it declares; left: where the entries end that stay."""
        body = self.body
        body.do(f"ret i64 {left}")
        head = f"define internal i64 @{NAME}(ptr %arguments, i64 %r, i64 %staged, i64 %noted, i64 %count) noinline {{"
        return "\n".join([head, "entry:", *body.lines, "}"]), [*body.declared]

    def put(self, i: str, loaded: dict[int, Value]) -> None:
        for k, value in {**self.streams.positions(i), **loaded}.items():
            self.read[k] = value

    def along(self, starts: list[Value], step: Callable[[list[Value], Value], list[Value]]) -> list[Value]:
        """The values carried through all groups of elements; step: with a group, of which some lanes are active."""
        body, lanes = self.body, self.lanes
        up = body.op(f"and i64 {body.op(f'add i64 %n, {lanes - 1}')}, {-lanes}")

        def group(i: str, values: list[Value]) -> list[Value]:
            left = body.op(f"sub i64 %n, {i}")
            take = body.op(f"select i1 {body.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")
            self.put(i, self.streams.partial(i, take))
            return step(values, self.streams.first(take))

        return self.row.lines(starts, lambda v: body.loop("0", up, lanes, v, group)[1])

    def decided(self, made: Callable[[], tuple[Value, Value | None]]) -> str:
        """The end of the entries that are left; made: the bits of the element that is read, and its undecided lanes."""
        body, streams, key = self.body, self.streams, self.key
        row = streams.bases
        length = "1"
        if key.mapped:
            length = body.op("mul i64 %n, %lines") if key.inner else "%n"

        def stays(slot: str) -> str:
            place = body.load("i64", slot, 8)
            all_ = body.op(f"icmp eq i64 {place}, {ALL}")
            first = body.op(f"select i1 {all_}, i64 0, i64 {place}")
            behind = body.op(f"select i1 {all_}, i64 {length}, i64 {body.op(f'add i64 {first}, 1')}")
            _, (entries,) = body.loop(first, behind, 1, [Value(body, "0", Kind("i64"))], element)
            return body.op(f"zext i1 {entries.compared('ne', 0).name} to i64")

        def element(at: str, entries: list[Value]) -> list[Value]:
            if key.inner:
                streams.bases = self.row.line_starts(row, body.op(f"udiv i64 {at}, %n"))
                at = body.op(f"urem i64 {at}, %n")
            self.put(at, streams.alone(at))
            bits, undecided = made()
            stays = "false" if undecided is None else left_by_second_stage(undecided).lane(0).name
            target = streams.place(streams.last, at) if key.mapped else row[-1]
            when(body, body.op(f"xor i1 {stays}, true"), lambda: body.stored(bits.lane(0), target))
            return [entries[0] + Value(body, body.op(f"zext i1 {stays} to i64"), Kind("i64"))]

        return UndecidedList(body).sift("%noted", "%count", stays)
