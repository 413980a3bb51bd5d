"""The kernel of running sums and products: lines side by side in the lanes of vectors, or one by one.

A running sum of floats is held as a head, what its additions left over, and a bound of what the additions of that left over;
a product likewise, scaled by 2^512 where it leaves float64's middle. Where the bound is 0, rounding to odd and then to the
output's type is exact; elsewhere both ends of where the result may lie have to round to the same element. A group of lines of
which an element is left open stops the call, when it is done: its elements are in scratch memory, whatever lies in their place.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.emit import along, arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.functions.pairs import exact_product, two_sum
from anydml.kernels.elementwise.halves import widened
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.numbers import SLACK, Number, U, odd_of
from anydml.kernels.elementwise.rounding import stored
from anydml.kernels.irregular.loops import walk
from anydml.tensor import DataType

# state: the group to go on with, not used, which lanes of the group before are open; kept: that group's elements
NAMES = ("state", "kept", "source", "target", "n", "source_step", "target_step", "lines", "source_line", "target_line")
STATE_WORDS = 8
DONE = (1 << 63) - 1
FAR, NEAR = 2.0**500, 2.0**12  # a scaled product is taken back once it is nearer to 1 than this
SCALE = 2.0**512


class Shape(NamedTuple):
    """dense: elements of neighbouring lines lie side by side, on both sides."""

    data_type: DataType
    product: bool
    exclusive: bool
    dense: bool


def lanes_of(target: Target) -> int:
    """Lines that are computed together."""
    return target.vector_bytes // 4


def emitted(target: Target, shape: Shape) -> str:
    """The kernel. Arguments: NAMES, loops of (source, target) around the lines."""
    body = Body(target)
    arguments(body, NAMES, {"state", "kept", "source", "target"})
    number = body.op("alloca i64, align 8")
    body.do(f"store i64 0, ptr {number}, align 8")
    begun = body.load("i64", "%state")

    def group(at: list[str], lanes: int) -> None:
        now = body.op(f"load i64, ptr {number}, align 8")
        body.do(f"store i64 {body.op(f'add i64 {now}, 1')}, ptr {number}, align 8")

        def compute() -> None:
            _Group(body, shape, at, lanes).compute()
            open_ = body.op(f"icmp ne i64 {body.load('i64', '%state', 16)}, 0")

            def stop() -> None:
                body.store("i64", body.op(f"add i64 {now}, 1"), "%state")
                body.do("ret i64 1")
                body.label(body.name("dead"))

            when(body, open_, stop)

        when(body, body.op(f"icmp uge i64 {now}, {begun}"), compute)

    def line(at: list[str], count: str, strides: list[str]) -> None:
        """The innermost of the loops, which is of one turn: the lines lie along it."""
        lanes = lanes_of(target)

        def lines_from(i: str) -> list[str]:
            steps = (along(body, place, step, i) for place, step in zip(at, ("%source_line", "%target_line"), strict=True))
            return list(steps)

        def together(i: str, _: list[Value]) -> list[Value]:
            group(lines_from(i), lanes)
            return []

        def alone(i: str, _: list[Value]) -> list[Value]:
            group(lines_from(i), 1)
            return []

        done, _ = body.loop("0", "%lines", lanes, [], together)
        body.loop(done, "%lines", 1, [], alone)

    walk(body, body.at("%arguments", 8 * len(NAMES)), ["%source", "%target"], line)
    resumed = body.op(f"icmp ne i64 {begun}, 0")
    when(body, resumed, lambda: body.store("i64", str(DONE), "%state"))
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


class _Group:
    """Lines side by side: at: where the first one begins on both sides."""

    def __init__(self, body: Body, shape: Shape, at: list[str], lanes: int) -> None:
        self.body, self.shape, self.lanes = body, shape, lanes
        self.source, self.target = at
        self.size = shape.data_type.element_bits // 8
        self.element = Kind(f"i{shape.data_type.element_bits}", lanes)

    def compute(self) -> None:
        body, shape = self.body, self.shape
        starts = self._starts()

        def step(i: str, values: list[Value]) -> list[Value]:
            bits = self._loaded(i)
            body.stored(bits, "%kept", body.op(f"mul i64 {i}, {self.size * self.lanes}"))
            after = self._next(values, bits)
            self._store(i, values if shape.exclusive else after)
            return after

        body.loop("0", "%n", 1, starts, step)

    def _starts(self) -> list[Value]:
        body, shape = self.body, self.shape
        if shape.data_type.dtype.kind != "f":
            return [body.constant(self.element, int(shape.product))]
        wide = Kind("double", self.lanes)
        zero = body.constant(wide, 0.0)
        # the sum of zeros is -0 where all of them are
        return [body.constant(wide, 1.0 if shape.product else -0.0), zero, zero] + [zero] * shape.product

    def _loaded(self, i: str) -> Value:
        body = self.body
        place = along(body, self.source, "%source_step", i)
        if self.shape.dense or self.lanes == 1:
            return body.loaded(self.element, place)
        found = body.undefined(self.element)
        for lane in range(self.lanes):
            at = body.at(place, body.op(f"mul i64 %source_line, {lane}"))
            found = found.replaced(lane, body.loaded(Kind(self.element.element), at))
        return found

    def _number(self, bits: Value) -> Value:
        """Elements of floats as float64."""
        single = bits.kind.of("float")
        x = widened(bits) if bits.kind.bits == 16 else bits.cast(single)
        return x.converted("fpext", bits.kind.of("double"))

    def _next(self, values: list[Value], bits: Value) -> list[Value]:
        if len(values) == 1:
            return [values[0] * bits if self.shape.product else values[0] + bits]
        x = self._number(bits)
        return self._multiplied(values, x) if self.shape.product else self._added(values, x)

    def _added(self, values: list[Value], x: Value) -> list[Value]:
        head, left, lost = values
        head, more = two_sum(head, x)
        left, rest = two_sum(left, more)
        return [head, left, lost + rest.magnitude()]

    def _multiplied(self, values: list[Value], x: Value) -> list[Value]:
        """The last value counts how often SCALE was taken out of the others. A product that is 0 or no number is exact."""
        body = self.body
        head, left, lost, scale = values
        made, more = exact_product(head, x)  # x has no more than 24 bits
        rest = left * x
        total = more + rest
        # the roundings of these two; the slack of the bound is for its own
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
        body, shape = self.body, self.shape
        if len(values) == 1:
            self._put(i, values[0])
            return
        head, left, lost = values[:3]
        total, rest = two_sum(head, left)
        # of an infinity, NaN is left over; a zero keeps its sign
        split = left.compared("one", 0.0)
        total, rest = body.chosen(split, total, head), body.chosen(split, rest, 0.0)
        value = odd_of(total, rest)
        if shape.product:
            value = self._scaled(value, values[3])
        elif shape.exclusive:  # of nothing, it is +0
            first = body.op(f"icmp eq i64 {i}, 0")
            kind = value.kind.text
            value = body.value(f"select i1 {first}, {kind} {value.lift(0.0).name}, {kind} {value.name}", value.kind)
        self._put(i, self._bits(value))
        # where the bound is NaN, so is what is left over of an infinity or a NaN, which are decided
        unsure = lost.compared("ogt", 0.0) & head.magnitude().compared("olt", float("inf"))

        def twice() -> None:
            bound = lost * SLACK
            # where the bound is far below the rest, its sum with it is rounded, but on the same side of the total
            ends = [odd_of(*two_sum(total, rest + side)) for side in (-bound, bound)]
            if shape.product:
                ends = [self._scaled(end, values[3]) for end in ends]
            first, second = map(self._bits, ends)
            open_ = first.compared("ne", second) & unsure
            bits = body.op(f"or i64 {body.load('i64', '%state', 16)}, {lanes_as_bits(open_)}")
            body.store("i64", bits, "%state", 16)

        when(body, body.op(f"icmp ne i64 {lanes_as_bits(unsure)}, 0"), twice)

    def _scaled(self, value: Value, scale: Value) -> Value:
        """A product whose scale is not 1 is so large, or so small, that it is infinite or 0 in the output."""
        body = self.body
        beyond = body.chosen(scale.compared("ogt", 0.0), float("inf"), value.lift(0.0)).signed_as(value)
        return body.chosen(scale.compared("one", 0.0), beyond, value)

    def _bits(self, odd: Value) -> Value:
        """The bits of the element that stores a number, which is rounded to odd."""
        return stored(Number(self.body, lambda: odd, exact=True), self.shape.data_type, integral=False)[0]

    def _put(self, i: str, bits: Value) -> None:
        body = self.body
        place = along(body, self.target, "%target_step", i)
        bits = bits.cast(self.element) if bits.kind != self.element else bits
        if self.shape.dense or self.lanes == 1:
            body.stored(bits, place)
            return
        for lane in range(self.lanes):
            body.stored(bits.lane(lane), body.at(place, body.op(f"mul i64 %target_line, {lane}")))
