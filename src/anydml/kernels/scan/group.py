"""Running sums and products of lines in the lanes of vectors, for any elements.

A running sum of floats is held as a head, a tail (the sum of the rounding errors of the head's additions), and a bound of the
tail's own rounding errors; a product likewise, scaled by 2^512 if it leaves the middle of float64's range. If the bound is 0,
rounding to odd and then to the output's type is exact; otherwise both ends of the interval of the result must round to the same
element. The function returns a mask of the lines with an undecided element. Their elements are kept in scratch, since the
output may overwrite the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.code.emit import along, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, odd_of
from anydml.kernels.numbers.floats.recorded import claimed
from anydml.kernels.numbers.floats.rounding import stored
from anydml.kernels.numbers.functions.pairs import exact_product, two_sum
from anydml.tensor import DataType

FAR, NEAR = 2.0**500, 2.0**12  # where a product is scaled, and where a scaled one is scaled back
SCALE = 2.0**512
POINTERS = ("begun", "kept", "source", "target")
NUMBERS = ("kept_step", "row", "n", "source_step", "target_step", "source_line", "target_line")


class ScanKey(NamedTuple):
    """The kernel's key. dense: elements of neighbouring lines are contiguous in source and target."""

    data_type: DataType
    product: bool
    exclusive: bool
    dense: bool

    @property
    def floating(self) -> bool:
        return self.data_type.is_float

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return self.data_type.dtype.itemsize


def lefts(target: Target) -> int:
    """The bytes from the sums at which groups begin to their tails."""
    return 2 * target.vector_bytes


def group(target: Target, key: ScanKey, lanes: int) -> tuple[str, list[str]]:
    """`i64 @group<lanes>(POINTERS, NUMBERS)`: computes the rest of `lanes` lines and returns a mask of the undecided ones.

    begun: the sums of the `row` elements before and, `lefts` bytes further, their tails. The other n elements of each line are
    kept in scratch.
    """
    body = Body(target)
    body.do("%open = alloca i64, align 8")
    body.do("store i64 0, ptr %open, align 8")
    _Group(body, key, lanes).compute()
    body.do(f"ret i64 {body.op('load i64, ptr %open, align 8')}")
    head = (
        f"define internal i64 @group{lanes}({', '.join([*(f'ptr %{p}' for p in POINTERS), *(f'i64 %{x}' for x in NUMBERS)])})"
    )
    return "\n".join([f"{head} noinline {{", "entry:", *body.lines, "}"]), [*body.declared]


def finished(body: Body, groups: Sequence[tuple[str, list[str]]]) -> str:
    """The module of a kernel, with the group functions that it calls."""
    declared = dict.fromkeys([*body.declared, *(x for _, others in groups for x in others)])
    return kernel(body, [*declared, *(text for text, _ in groups)])


def called(body: Body, lanes: int, pointers: Sequence[str], numbers: Sequence[str | int]) -> str:
    """A call of a group function, which returns its mask."""
    given = [*(f"ptr {p}" for p in pointers), *(f"i64 {x}" for x in numbers)]
    return body.op(f"call i64 @group{lanes}({', '.join(given)})")


def picked(x: Value, y: Value, which: Sequence[int]) -> Value:
    """The chosen lanes of two vectors, whose lanes are numbered consecutively."""
    kind = x.kind.text
    mask = ", ".join(f"i32 {i}" for i in which)
    made = Kind(x.kind.element, len(which))
    return x.body.value(f"shufflevector {kind} {x.name}, {kind} {y.name}, <{len(which)} x i32> <{mask}>", made)


def zero_of_none(body: Body, value: Value, row: str) -> Value:
    """The sum before the element of a row: +0, the sum of nothing, before the first."""
    first, kind = body.op(f"icmp eq i64 {row}, 0"), value.kind.text
    return body.value(f"select i1 {first}, {kind} {value.lift(0.0).name}, {kind} {value.name}", value.kind)


class _Group:
    """The lines of a group function, one in each lane."""

    def __init__(self, body: Body, key: ScanKey, lanes: int) -> None:
        self.body, self.key, self.lanes = body, key, lanes
        self.element = Kind(f"i{key.data_type.element_bits}", lanes)

    def compute(self) -> None:
        body, key = self.body, self.key
        starts = self._starts()

        def step(i: str, values: list[Value]) -> list[Value]:
            bits = self._loaded(i)
            body.stored(bits, along(body, "%kept", "%kept_step", i))
            after = self._next(values, bits)
            self._store(i, values if key.exclusive else after)
            return after

        body.loop("0", "%n", 1, starts, step)

    def _starts(self) -> list[Value]:
        body, key = self.body, self.key
        if not key.floating:
            return [body.constant(self.element, int(key.product))]
        wide = Kind("double", self.lanes)
        zero = body.constant(wide, 0.0)
        if key.product:
            return [body.constant(wide, 1.0), zero, zero, zero]
        return [body.loaded(wide, "%begun"), body.loaded(wide, "%begun", lefts(body.target)), zero]

    def _loaded(self, i: str) -> Value:
        body = self.body
        place = along(body, "%source", "%source_step", i)
        if self.key.dense or self.lanes == 1:
            return body.loaded(self.element, place)
        found = body.undefined(self.element)
        for lane in range(self.lanes):
            at = body.at(place, body.op(f"mul i64 %source_line, {lane}"))
            found = found.replaced(lane, body.loaded(Kind(self.element.element), at))
        return found

    def _number(self, bits: Value) -> Value:
        """Float elements as float64."""
        x = singles.widened(bits, self.key.data_type)
        return x.converted("fpext", bits.kind.of("double"))

    def _next(self, values: list[Value], bits: Value) -> list[Value]:
        if len(values) == 1:
            return [values[0] * bits if self.key.product else values[0] + bits]
        x = self._number(bits)
        return self._multiplied(values, x) if self.key.product else self._added(values, x)

    def _added(self, values: list[Value], x: Value) -> list[Value]:
        head, left, lost = values
        head, more = two_sum(head, x)
        left, rest = two_sum(left, more)
        return [head, left, lost + rest.magnitude()]

    def _multiplied(self, values: list[Value], x: Value) -> list[Value]:
        """The product so far times x. The last value counts the factors SCALE that were taken out of the others. A product that
        is 0, infinite or NaN is exact."""
        body = self.body
        head, left, lost, scale = values
        made, more = exact_product(head, x)  # x has no more than 24 bits
        rest = left * x
        total = more + rest
        # the rounding errors of these two; the bound's own errors are covered by its slack
        more_lost = body.chosen(left.compared("oeq", 0.0), 0.0, (rest.magnitude() + total.magnitude()) * U)
        lost = lost * x.magnitude() + more_lost
        plain = made.magnitude().compared("olt", float("inf")) & made.compared("une", 0.0)
        total, lost = body.chosen(plain, total, 0.0), body.chosen(plain, lost, 0.0)
        size, factor = made.magnitude(), made.lift(1.0)
        down = body.chosen(scale.compared("olt", 0.0), NEAR, made.lift(FAR))
        up = body.chosen(scale.compared("ogt", 0.0), 1 / NEAR, made.lift(1 / FAR))
        large, small = size.compared("ogt", down) & plain, size.compared("olt", up) & plain
        factor = body.chosen(large, 1 / SCALE, body.chosen(small, SCALE, factor))
        scale = scale + body.chosen(large, 1.0, body.chosen(small, -1.0, scale.lift(0.0)))
        scale = body.chosen(plain, scale, 0.0)
        return [made * factor, total * factor, lost * factor, scale]

    def _store(self, i: str, values: list[Value]) -> None:
        body, key = self.body, self.key
        if len(values) == 1:
            self._put(i, values[0])
            return
        head, left, lost = values[:3]
        total, rest = two_sum(head, left)
        # the tail of an infinity is NaN; a zero keeps its sign
        split = left.compared("one", 0.0)
        total, rest = body.chosen(split, total, head), body.chosen(split, rest, 0.0)
        value = odd_of(total, rest)
        if key.product:
            value = self._scaled(value, values[3])
        elif key.exclusive:
            value = zero_of_none(body, value, body.op(f"add i64 {i}, %row"))

        def bound() -> Value:
            return lost * SLACK

        if body.target.probe is not None:
            self._put(i, self._record(total, rest, bound(), values[3] if key.product else None))
            return
        self._put(i, self._bits(value))
        # where the bound is NaN, so is the tail: that of an infinity or a NaN, which are decided
        unsure = lost.compared("ogt", 0.0) & head.magnitude().compared("olt", float("inf"))

        def twice() -> None:
            error = bound()
            # a bound far below the tail is rounded when added to it, but the result is on the same side of the total
            ends = [odd_of(*two_sum(total, rest + side)) for side in (-error, error)]
            if key.product:
                ends = [self._scaled(end, values[3]) for end in ends]
            first, second = map(self._bits, ends)
            undecided = left_by_first_stage(first.compared("ne", second) & unsure)
            bits = body.op(f"or i64 {body.op('load i64, ptr %open, align 8')}, {lanes_as_bits(undecided)}")
            body.do(f"store i64 {bits}, ptr %open, align 8")

        when(body, body.op(f"icmp ne i64 {lanes_as_bits(left_by_first_stage(unsure))}, 0"), twice)

    def _record(self, head: Value, tail: Value, bound: Value, scale: Value | None) -> Value:
        """The record that a probe stores; a product with a scale, which is infinite or 0, has no bound."""
        unclaimed = None if scale is None else scale.compared("une", 0.0)
        return claimed(head, tail, bound, unclaimed, self.key.data_type.element_bits)[0]

    def _scaled(self, value: Value, scale: Value) -> Value:
        """A product, scaled. If its scale is not 1, it is so large or so small that it is infinite or 0 in the output."""
        body = self.body
        beyond = body.chosen(scale.compared("ogt", 0.0), float("inf"), value.lift(0.0)).signed_as(value)
        return body.chosen(scale.compared("one", 0.0), beyond, value)

    def _bits(self, odd: Value) -> Value:
        """The bits of the element that stores a number that was rounded to odd."""
        return stored(Number(self.body, lambda: odd, exact=True), self.key.data_type, integral=False)[0]

    def _put(self, i: str, bits: Value) -> None:
        body = self.body
        place = along(body, "%target", "%target_step", i)
        bits = bits.cast(self.element) if bits.kind != self.element else bits
        if self.key.dense or self.lanes == 1:
            body.stored(bits, place)
            return
        for lane in range(self.lanes):
            body.stored(bits.lane(lane), body.at(place, body.op(f"mul i64 %target_line, {lane}")))
