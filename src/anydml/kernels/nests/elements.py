"""The elements of outputs: rounding, the lanes that bounds leave undecided, and the stores of vectors."""

from __future__ import annotations

from anydml.exact.formats import FORMATS
from anydml.kernels.code.emit import along, when
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.nests import items
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import Bits, Index, Item
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.floats import recorded, rounding
from anydml.kernels.numbers.lanes import either, in_lanes
from anydml.kernels.numbers.measured import arithmetic
from anydml.kernels.numbers.measured.functions import as_number
from anydml.kernels.numbers.measured.real import Real
from anydml.kernels.numbers.singles import NARROW
from anydml.tensor import DataType


class NestElements(Frame):
    """The code that rounds and stores a vector of elements."""

    def __init__(self, body: Body, key: NestKey, walk: NestWalk, lanes: int) -> None:
        super().__init__(body, key, walk, lanes)
        self.width = f"%size{key.lane}"

    def stored(self, item: Item, data_type: DataType) -> tuple[Value, Value | None]:
        """The bits of elements, and the undecided lanes."""
        element = Kind(f"i{data_type.element_bits}", self.lanes)
        if isinstance(item, Bits):
            return in_lanes(item.value, self.lanes), item.guard
        floating = data_type.is_float
        if isinstance(item, Index):
            if not floating:
                return in_lanes(item.value.converted("trunc", item.value.kind.of(element.element)), self.lanes), item.guard
            item = items.position(item)
        if not isinstance(item, Real):
            raise Uncompilable("a truth is stored")
        x = arithmetic.plain(item)
        if not floating:
            whole = items.index(x)
            return in_lanes(whole.value.converted("trunc", whole.value.kind.of(element.element)), self.lanes), whole.guard
        if self.body.target.probe is not None:
            number = as_number(x)
            bits, undecided = rounding.stored(number, data_type, integral=False)
            if number.exact:  # also a number that stands for a quotient and rounds to the same
                y = number.wide()
                bits, undecided = recorded.claimed(y, y.lift(0.0), y.magnitude() * -(2.0**-52), x.guard, data_type.element_bits)
            return in_lanes(bits, self.lanes), undecided
        if data_type == DataType.FLOAT32:
            single, undecided = rounding.nearest_single(as_number(x))
            bits = single.bits()
        elif data_type in NARROW:
            bits, undecided = rounding.nearest_half(as_number(x), data_type)
        else:
            raise Uncompilable("elements have type FLOAT64")
        nan = x.value.compared("uno", x.value)
        bits = self.body.chosen(nan, bits.lift(FORMATS[data_type].quiet_nan), bits)
        return in_lanes(bits, self.lanes), either(x.guard, undecided)

    def store(self, output: int, bits: Value, row: str) -> None:
        body, key = self.body, self.key
        step = f"%step{output}_{key.lane}"
        at = along(body, row, step, "%x")
        room = body.op(f"sub i64 {self.width}, %x")

        def singly() -> None:
            for k in range(self.lanes):
                there = body.op(f"icmp ugt i64 {room}, {k}")
                place = along(body, at, step, str(k))

                def one(k: int = k, place: str = place) -> None:
                    body.stored(bits.lane(k), place)

                when(body, there, one)

        if not key.dense[output]:
            singly()
            return
        whole = body.op(f"icmp uge i64 {room}, {self.lanes}")
        when(body, whole, lambda: body.store(bits.kind.text, bits.name, at))
        when(body, body.op(f"xor i1 {whole}, true"), singly)

    def any(self, mask: Value) -> str:
        """Whether a mask is set in some lane."""
        word = f"i{self.lanes}"
        mask = in_lanes(mask, self.lanes)
        return self.body.op(f"icmp ne {word} {self.body.op(f'bitcast {mask.kind.text} {mask.name} to {word}')}, 0")

    def settle(self, place: int, found: Real, row: str) -> None:
        """Store a vector of elements in which node `place` has the value `found`, and go to the next vector; if the bound
        leaves a lane undecided, go to the block "byterms"."""
        body, key, walk = self.body, self.key, self.walk
        with walk.scope({}, {place: found}):
            bits, guard = self.stored(walk.item(key.program.roots[0]), key.data_types[0])
        if guard is not None:
            guard = left_by_first_stage(guard)
            decided = body.name("decided")
            body.branch(self.any(guard), "byterms", decided, seldom=True)
            body.label(decided)
        self.store(0, bits, row)
        body.jump("columnend")
