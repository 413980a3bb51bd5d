"""A stage of a step:

a formula for every unit of every sequence, whose results are stored as a state or kept as numbers with bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from anydml.kernels.code.emit import when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.contract.floats.formula import KNOWN_SUM
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.elementwise import magnitudes
from anydml.kernels.elementwise.items import Item, number_of, stored_item
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.doubled.arithmetic import finite
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import Known
from anydml.kernels.numbers.lanes import either
from anydml.kernels.recurrence.gates import GateWalk
from anydml.kernels.recurrence.key import (
    INPUT,
    NEW,
    NUMBERS,
    OLD,
    SUM,
    Leaf,
    RecurrenceKey,
    lanes,
    signature,
)
from anydml.kernels.recurrence.rows import defined
from anydml.kernels.undecided.lists import UndecidedList, each_bit
from anydml.tensor import DataType

# factors of sums are between these, or 0, so that neither products nor squares over- or underflow in float64
FAR = 2.0**400
FAR_SUM_OF_NUMBERS = 2.0**600


def length(body: Body, key: RecurrenceKey, b: str) -> str:
    """The steps of a sequence."""
    if not key.lengths:
        return "%steps"
    found = body.load("i32", "%lengths", body.op(f"mul i64 {b}, %length_step"))
    return body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'zext i32 {found} to i64')}", "i64 %steps").name


def function(target: Target, key: RecurrenceKey, number: int) -> tuple[str, list[str]]:
    """`i64 @stage{number}(arguments, t)`: whether elements are left undecided, which are on the list."""
    return _Stage(target, key, number).text()


def settled(target: Target, key: RecurrenceKey, number: int) -> tuple[str, list[str]]:
    """The text and arguments of code that decides elements of a state by signs and magnitudes: see `_Stage.settled`."""
    return _Stage(target, key, number, settled_lanes(target, key, number)).settled()


def settled_lanes(target: Target, key: RecurrenceKey, number: int) -> int:
    """The number of units that `settled` decides together: fewer, since their values need more of the stack frame."""
    return min(lanes(target, key.stages[number].formula), max(1, target.vector_bytes // 16))


def sum_of(formula: NormalForm, total: Value, error: Value, undecided: Value | None) -> Number:
    """A sum with the bound of its error. undecided: the lanes where factors have no bound; None if all have one."""
    body = total.body
    if any(node.op in ("max", "min") for node in formula):  # the limit at an infinity needs no bound
        error = body.chosen(finite(total), error, 0.0)
    known = KNOWN_SUM if undecided is None else Known(-FAR_SUM_OF_NUMBERS, FAR_SUM_OF_NUMBERS)
    return replace(Number(body, lambda: total, known, guard=undecided), err=lambda: error)


def walked(
    body: Body, formula: NormalForm, streams: list[Value], sums: Mapping[int, Number], stored_as: DataType, lanes: int
) -> GateWalk:
    """All nodes of a formula. sums: those streams that are sums."""
    walk = GateWalk(body, formula, streams, stored_as, lanes, "wide", False)
    walk.gates = {}
    walk.known = {
        place: sums[node.data[0]] for place, node in enumerate(formula) if node.op == "stream" and node.data[0] in sums
    }
    walk.run()
    return walk


def as_factor(body: Body, walk: GateWalk, lanes: int) -> tuple[Value, Value, Value]:
    """A formula's result as a factor of sums: the number, the bound of its error, and the lanes where it has none."""
    x = number_of(body, walk.items[len(walk.nodes) - 1], lanes)
    value, error = x.wide(), x.wide().lift(0.0) if x.exact else x.error()
    x, error = _of_zero(body, walk, x, error)
    size = value.magnitude()
    ends = size.compared("one", math.inf)
    small = size.compared("olt", 1 / FAR) & (value.compared("une", 0.0) | error.compared("une", 0.0))
    value, error = body.chosen(small, 0.0, value), body.chosen(small, error + 1 / FAR, error)
    near = error.compared("olt", FAR)
    undecided = either(x.guard, size.compared("ogt", FAR) & ends, ~near & ends)
    assert undecided is not None
    return value, body.chosen(ends & near, error, 0.0), undecided


def _of_zero(body: Body, walk: GateWalk, x: Number, error: Value) -> tuple[Number, Value]:
    """A number with its bound: 0 times a number of unknown sign is a tiny number instead of an undecided one."""
    op, args, _ = walk.nodes[-1]
    if op != "mul" or x.guard is None:
        return x, error
    guard = x.guard
    for one, other in (args, args[::-1]):
        zero, factor = walk.number(one), walk.number(other)
        if zero.exact:
            nothing = zero.wide().compared("oeq", 0.0) & factor.wide().magnitude().compared("olt", math.inf)
            nothing = nothing if factor.guard is None else nothing & ~factor.guard
            error = body.chosen(nothing & guard, 1 / FAR, error)
            x = replace(x, guard=guard & ~nothing)
    return x, error


class _Stage:
    def __init__(self, target: Target, key: RecurrenceKey, number: int, together: int | None = None) -> None:
        self.body, self.key, self.number = Body(target), key, number
        self.list = UndecidedList(self.body, 1)
        self.stage = key.stages[number]
        self.lanes = together or lanes(target, self.stage.formula)
        self.size = key.data_type.dtype.itemsize
        self.element = Kind(f"i{8 * self.size}", self.lanes)
        self.wide = Kind("double", self.lanes)

    def text(self) -> tuple[str, list[str]]:
        body = self.body
        signature(self.key).load(body)
        self._at("%t")
        self.list.counted("0")
        body.loop("0", "%sequences", 1, [], self._sequence)
        some = body.op(f"icmp ne i64 {self.list.count()}, 0")
        body.do(f"ret i64 {body.op(f'zext i1 {some} to i64')}")
        return defined(body, f"i64 @stage{self.number}(ptr %arguments, i64 %t)"), [*body.declared]

    def _at(self, t: str) -> None:
        body = self.body
        self.before, self.after = body.op(f"mul i64 {t}, %slot"), body.op(f"mul i64 {body.op(f'add i64 {t}, 1')}, %slot")

    def _of(self, b: str) -> None:
        self.b, self.row = b, self.body.op(f"mul i64 {b}, %row")

    def _sequence(self, b: str, _: list[Value]) -> list[Value]:
        body = self.body
        self._of(b)
        inside = body.op(f"icmp ult i64 %t, {length(body, self.key, b)}")
        when(body, inside, self._units if self.stage.state is not None else self._numbers)
        when(body, body.op(f"xor i1 {inside}, true"), self._nothing)
        return []

    def _nothing(self) -> None:
        """Zeros, beyond the end of the sequence."""
        body = self.body
        if self.stage.state is not None:
            body.do(f"call void @copied(ptr null, i64 0, i64 %units, ptr {self._place(self.after)}, i64 {self.size})")

    def _place(self, slot: str) -> str:
        body = self.body
        return body.at(body.at(f"%history{self.stage.state}", slot), self.row)

    # --- operands ---

    def _begin(self) -> None:
        """Load the bounds of a sequence's rows, and the addresses of what its units read."""
        body, key = self.body, self.key
        self.bounds: dict[int, Value] = {}
        self.undecided: dict[int, Value] = {}
        self.starts: dict[Leaf, str] = {}
        for leaf in self.stage.leaves:
            if leaf.kind != SUM:
                name = {OLD: "history", NEW: "history"}.get(leaf.kind, "kept") + str(leaf.number)
                start = f"%{name}"
                if leaf.kind in (OLD, NEW):
                    start = body.at(body.at(start, self.before if leaf.kind == OLD else self.after), self.row)
                self.starts[leaf] = start
                continue
            n, source = leaf.number, key.sources[leaf.number]
            row = self.b
            if source.kind == INPUT:
                step = body.op("urem i64 %t, %chunk")
                row = body.op(f"add i64 {body.op(f'mul i64 {step}, %sequences')}, {row}")
            start = body.at(f"%sums{n}", body.op(f"mul i64 {row}, %sums_row{n}"))
            self.starts[leaf] = body.at(start, body.op(f"mul i64 {leaf.block}, %block{n}"))
            if n not in self.bounds:
                at = body.op(f"mul i64 {row}, 8")
                factor = Value(body, body.op(f"bitcast i64 %factor{n} to double"), Kind("double"))
                bound = body.loaded(Kind("double"), f"%norms{n}", at) * factor
                if source.kind == NUMBERS:
                    bound = bound + body.loaded(Kind("double"), f"%lost{n}", at)
                    flag = body.op(f"icmp ne i64 {body.load('i64', f'%open{n}', at)}, 0")
                    self.undecided[n] = body.splat(Value(body, flag, Kind("i1")), self.lanes)
                self.bounds[n] = body.splat(bound, self.lanes)

    def _sum(self, leaf: Leaf, i: str) -> Number:
        body, n = self.body, leaf.number
        offset = body.op(f"mul i64 {i}, 8")
        total = body.loaded(self.wide, self.starts[leaf], offset)
        column = body.op(f"add i64 {offset}, {body.op(f'mul i64 {leaf.block}, %block{n}')}")
        error = self.bounds[n] * body.loaded(self.wide, f"%columns{n}", column)
        return sum_of(self.stage.formula, total, error, self.undecided.get(n))

    def settled(self) -> tuple[str, list[str]]:
        """`i64 @settled(arguments, t, b, i)`: those of a group that are 0, infinite or NaN, and the other lanes."""
        body = self.body
        signature(self.key).load(body)
        self._at("%t")
        self._of("%b")
        self._begin()
        made, undecided = magnitudes.stored(body, self._walk("%i"), self.stage.formula, self.key.data_type)
        body.stored(made, "%made")
        body.do(f"ret i64 {lanes_as_bits(undecided)}")
        return defined(body, "i64 @settled(ptr %arguments, i64 %t, i64 %b, i64 %i)"), [*body.declared]

    def _item(self, i: str) -> Item:
        """The formula for a group of units."""
        walk = self._walk(i)
        return walk.items[len(self.stage.formula) - 1]

    def _walk(self, i: str) -> GateWalk:
        """All nodes of the formula for a group of units."""
        body, stage = self.body, self.stage
        streams: list[Value] = []
        sums: dict[int, Number] = {}
        for leaf in stage.leaves:
            if leaf.kind == SUM:
                sums[len(streams)] = self._sum(leaf, i)
                streams.append(body.undefined(self.element))
            else:
                streams.append(body.loaded(self.element, self.starts[leaf], body.op(f"mul i64 {i}, {self.size}")))
        stored_as = self.key.data_type if stage.state is not None else DataType.FLOAT32
        return walked(body, stage.formula, streams, sums, stored_as, self.lanes)

    # --- states ---

    def _units(self) -> None:
        body = self.body
        self._begin()
        into = self._place(self.after)

        def group(i: str, _: list[Value]) -> list[Value]:
            made, undecided = stored_item(body, self._item(i), self.key.data_type, self.lanes, integral=False)
            body.stored(made, into, body.op(f"mul i64 {i}, {self.size}"))
            if undecided is not None:
                bits = self._within(i, lanes_as_bits(left_by_first_stage(undecided)))
                when(body, body.op(f"icmp ne i64 {bits}, 0"), lambda: self._note(i, bits))
            return []

        body.loop("0", self._up(), self.lanes, [], group)

    def _up(self) -> str:
        """The number of units, rounded up to whole groups."""
        return self.body.op(f"and i64 {self.body.op(f'add i64 %units, {self.lanes - 1}')}, {-self.lanes}")

    def _within(self, i: str, bits: str) -> str:
        """The lanes of existing units."""
        body = self.body
        left = body.op(f"sub i64 %units, {i}")
        take = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", f"i64 {self.lanes}").name
        beyond = body.op(f"shl i64 -1, {take}")
        return body.op(f"and i64 {bits}, {body.op(f'xor i64 {beyond}, -1')}")

    def _note(self, i: str, bits: str) -> None:
        """Put lanes on the list, as words: the sequence in the upper half, the unit in the lower."""
        body = self.body
        high = body.op(f"shl i64 {self.b}, 32")
        each_bit(body, bits, lambda lane: self.list.append(body.op(f"or i64 {high}, {body.op(f'add i64 {i}, {lane}')}")))

    # --- factors of sums ---

    def _numbers(self) -> None:
        """The numbers, the norm of their bounds, and whether one has no bound."""
        body = self.body
        n = next(n for n, s in enumerate(self.key.sources) if s.kind == NUMBERS and s.number == self.number)
        self._begin()
        into = body.at(f"%numbers{n}", body.op(f"mul i64 {self.b}, %numbers_row{n}"))

        def group(i: str, carried: list[Value]) -> list[Value]:
            squares, undecided = carried
            walk = self._walk(i)
            value, error, undecided_ = as_factor(body, walk, self.lanes)
            body.stored(value, into, body.op(f"mul i64 {i}, 8"))
            bits = self._within(i, lanes_as_bits(undecided_))
            error = body.chosen(self._there(i), error, 0.0)
            return [body.fused(error, error, squares), undecided | Value(body, bits, Kind("i64"))]

        zeros = [body.constant(self.wide, 0.0), body.constant(Kind("i64"), 0)]
        _, (squares, undecided) = body.loop("0", self._up(), self.lanes, zeros, group)
        total = squares.lane(0)
        for lane in range(1, self.lanes):
            total = total + squares.lane(lane)
        at = body.op(f"mul i64 {self.b}, 8")
        body.stored(total.root() * NORM_SLACK, f"%lost{n}", at)
        body.stored(undecided, f"%open{n}", at)

    def _there(self, i: str) -> Value:
        """The lanes of existing units, as a mask."""
        body = self.body
        left = body.splat(Value(body, body.op(f"sub i64 %units, {i}"), Kind("i64")), self.lanes)
        return body.constants("i64", range(self.lanes)).compared("slt", left)
