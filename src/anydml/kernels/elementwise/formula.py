"""A formula as instructions: each node becomes a real number with a bound, an integer, a truth, or the bits of an element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import cast

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import scaled
from anydml.kernels.elementwise.items import Item, LoadedElement, as_bits, as_number, as_whole, value_of
from anydml.kernels.elementwise.modular import RING, integral_at, modular
from anydml.kernels.elementwise.near_zero import Line
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.match.scopes import FormWalk, Scopes
from anydml.kernels.numbers import wholes
from anydml.kernels.numbers.floats import arithmetic, choices, numbers, rounding, transcendental
from anydml.kernels.numbers.floats.comparisons import against, compared
from anydml.kernels.numbers.floats.numbers import Number, U
from anydml.kernels.numbers.known import known_integer, known_of, whole_power
from anydml.kernels.numbers.lanes import Truth
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits

TIES = "ties"  # as "wide", of elements that may be ties


@dataclass(eq=False)
class FormulaWalk(FormWalk[Item]):
    """The emission of a formula that is stored as a data type, node by node.

    streams: a vector of bits for each stream. moves: whether elements are stored as the bits that were read.
    """

    body: Body
    nodes: NormalForm
    streams: Sequence[Value]
    data_type: DataType
    lanes: int
    level: str
    moves: bool

    def __post_init__(self) -> None:
        formula, data_type = self.nodes, self.data_type
        self.items: Scopes[int, Item] = Scopes()
        self.converted: dict[int, Number] = {}
        wraps = data_type.is_integer and integral_at(formula, len(formula) - 1)  # else the result saturates
        self.modular = modular(formula) if wraps else frozenset()
        # nothing but max and min of integers and constants, truncated toward zero when they are stored
        self.cut = data_type.is_integer and {n.op for n in formula} <= {"stream", "constant", "max", "min", "same"}
        self.cut_at_32_bits = data_type.is_integer and data_type.element_bits <= 32
        self.like = self.body.undefined(Kind("i8", self.lanes))  # constants have as many lanes
        # the undecided lanes of integers inside the formula, which have no guards; None: such integers become numbers
        self.left: list[Value] | None = None
        self.lines: Mapping[int, tuple[int, Line]] = {}  # products of which it is looked whether they are exact

    # --- conversions of items ---

    def number(self, place: int) -> Number:
        if place not in self.converted:
            item = self.items[place]
            found = as_number(item, self.like)
            if self.level == "float64" and isinstance(item, LoadedElement) and item.data_type == DataType.FLOAT32:
                found = replace(found, single=None)
            self.converted[place] = found
        return self.converted[place]

    def whole(self, place: int) -> WholeNumber | None:
        """An item as an integer; None if it is not integral."""
        return as_whole(self.items[place], self.like)

    def truth(self, place: int) -> Truth:
        item = self.items[place]
        assert isinstance(item, Truth)
        return item

    # --- nodes ---

    def _item(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if op == "stream":
            stream, data_type = cast("tuple[int, DataType]", data)
            return LoadedElement(self.streams[stream], data_type)
        if op == "same":
            return self.items[args[0]]
        if op == "constant":
            assert isinstance(data, Constant)
            return data
        if op in ("less", "less_equal", "equal"):
            return self._comparison(op, *args)
        if op in ("both", "either", "not", "is_nan"):
            return self._logic(op, args)
        if op == "select":
            return self._select(place, *args)
        if op in _BITS:
            return self._bitwise(op, args)
        if op == "held":
            assert isinstance(data, DataType)
            return self._held(args[0], data)
        if op in ("max", "min") and self.cut and (found := self._cut_extreme(op, *args)) is not None:
            return found
        if op == "add" and (rounded := self._scaled(place, *args)) is not None:
            return rounded
        integers = [self.whole(a) for a in args]
        if integers and None not in integers and not all(isinstance(self.items[a], Constant) for a in args):
            made = self._of_integers(place, op, [x for x in integers if x is not None], data)
            if made is not None:
                return made
        if op == "pow" and self.cut_at_32_bits and place == len(self.nodes) - 1:
            return transcendental.cut_power(self.number(args[0]), self.number(args[1]), self.level)
        return self._of_numbers(place, op, args, data)

    def _cut_extreme(self, op: str, a: int, b: int) -> WholeNumber | None:
        """The max or min of an integer and a constant, which is truncated toward zero first: that keeps the order."""
        for x, y in ((a, b), (b, a)):
            whole, other = self.whole(x), self.items[y]
            if whole is not None and not isinstance(self.items[x], Constant) and isinstance(other, Constant):
                value = value_of(other)
                if value != value:
                    return None
                limit = (1 << 99 if value > 0 else -1 << 99) if math.isinf(value) else math.trunc(value)
                if limit <= whole.low if op == "max" else limit >= whole.high:
                    return whole
                return wholes.extreme(op, whole, wholes.constant(limit, self.like)) if abs(limit) < 1 << 63 else None
        return None

    def _scaled(self, place: int, product: int, bias: int) -> Number | None:
        """x * s + b that is stored as FLOAT64, for constants s and b."""
        op, args, _ = self.nodes[product]
        if self.data_type != DataType.FLOAT64 or place < len(self.nodes) - 1 or op != "mul":
            return None
        x, s, b = self.number(args[0]), self.items[args[1]], self.items[bias]
        if not (x.exact and isinstance(s, Constant) and isinstance(b, Constant)):
            return None
        value = scaled.rounded_once(x.wide(), float(value_of(s)), float(value_of(b)))
        return Number(self.body, lambda: value, nearest=True, rel=U, guard=x.guard)

    def _of_integers(self, place: int, op: str, args: list[WholeNumber], data: object) -> Item | None:
        modulus = self.data_type.element_bits if place in self.modular else None
        if op in RING:
            return wholes.ring(op, args, modulus)
        if op in ("max", "min"):
            return wholes.extreme(op, *args)
        if op == "absolute":
            return wholes.absolute(*args)
        if op in ("fmod", "floor_mod"):
            return wholes.remainder(op, *args)
        if op in ("floor", "ceil", "truncate", "half_to_even", "half_away"):
            return args[0]
        if op == "integer_power":
            assert isinstance(data, int)
            return wholes.power(args[0], args[1], data)
        if op == "power" and isinstance(data, int) and data >= 1:
            made = args[0]
            for _ in range(data - 1):
                made = wholes.ring("mul", [made, args[0]], modulus)
            return made
        return None

    def _held(self, place: int, data_type: DataType) -> Item:
        """An integer as a tensor holds it."""
        item = self.whole(place)
        low, high = limits(data_type)
        wraps = integral_at(self.nodes, place)
        if item is not None and low <= item.low and item.high <= high:
            return item.exactly()
        if item is not None and wraps:
            return WholeNumber(item.exactly().resized(data_type.element_bits), known_of(data_type))
        number = self.number(place)
        bits, undecided = rounding.stored(number, data_type, integral=wraps)
        known = number.known
        if not wraps:  # NaN becomes 0
            low = max(low, min(0, math.floor(known.low))) if known.low > low else low
            high = min(high, max(0, math.ceil(known.high))) if known.high < high else high
        whole = WholeNumber(bits, known_integer(low, high))
        if undecided is not None and self.left is None:
            return numbers.whole_number(whole).guarded(undecided)
        if undecided is not None and self.left is not None:
            self.left.append(undecided)
        return whole

    def _of_numbers(self, place: int, op: str, args: tuple[int, ...], data: object) -> Item:
        if op == "truncate" and (found := self._integer_quotient(args[0])) is not None:
            return found
        x = [self.number(a) for a in args]
        if op == "pow" and isinstance(exponent := self.items[args[1]], Constant):
            simple = transcendental.simple_power(x[0], value_of(exponent))
            if simple is not None:
                return simple
        if op in _ARITHMETIC:
            made = _ARITHMETIC[op](*x)
            return self._exactly(made, *self.lines[place]) if place in self.lines else made
        if op == "power":
            assert isinstance(data, int)
            return whole_power(x[0], data, arithmetic.multiply)
        if op == "round":
            assert isinstance(data, DataType)
            return rounding.as_rounded(x[0], data)
        if op in ("floor", "ceil", "truncate", "half_to_even", "half_away"):
            narrowed = place == len(self.nodes) - 1 and self.data_type in SINGLES
            return rounding.to_whole(op, x[0], narrowed=narrowed)
        if op == "limits":
            return self._limits(x[0], x[1], cast("tuple[tuple[str, str], ...]", data))
        return transcendental.function(op, x, self.level)

    def _exactly(self, made: Number, place: int, line: Line) -> Number:
        """x times a line with a bound of 0 in the lanes where it is exact."""
        x = self.number(place)
        if x.single is None or made.exact or not self.body.has_fma:
            return made
        whole = line.exact(x.wide())[1]
        return replace(made, rel=0.0, err=numbers.once(lambda: self.body.chosen(whole, 0.0, made.error())))

    def _integer_quotient(self, place: int) -> WholeNumber | None:
        """The quotient, truncated toward zero, of integers of more than 32 bits, which float64 may not hold."""
        op, args, _ = self.nodes[place]
        if op != "div":
            return None
        a, b = (self.whole(x) for x in args)
        return wholes.quotient(a, b) if a is not None and b is not None and max(a.bits, b.bits) > 32 else None

    def _limits(self, x: Number, made: Number, values: tuple[tuple[str, str], ...]) -> Number:
        for name, text in values:
            argument = x.wide() if x.single is None else x.single
            at = argument.compared("oeq", math.inf if name == "high" else -math.inf)
            value = float(text)
            special = not math.isfinite(value) or value == 0
            constant = numbers.constant(value if special else Fraction(value), self.like)
            made = choices.select(Truth(at, x.guard), constant, made)  # in the guard's lanes, x may be infinite by mistake
        return made

    def _comparison(self, op: str, a: int, b: int) -> Truth:
        one, two = self.whole(a), self.whole(b)
        if one is not None and two is not None:
            return Truth(wholes.compare(op, one, two))
        for whole, other, swapped in ((one, self.items[b], False), (two, self.items[a], True)):
            if whole is not None and isinstance(other, Constant):
                return Truth(against(op, whole.exactly(), value_of(other), swapped=swapped))
        return compared(op, self.number(a), self.number(b))

    def _logic(self, op: str, args: tuple[int, ...]) -> Truth:
        if op == "is_nan":
            x = self.number(args[0])
            value = x.single if x.single is not None else x.wide()
            return Truth(value.compared("uno", value), x.guard)
        truths = [self.truth(a) for a in args]
        return ~truths[0] if op == "not" else truths[0].joined(op, truths[1])

    def _select(self, place: int, condition: int, a: int, b: int) -> Item:
        truth = self.truth(condition)
        mask, guard = truth.mask, truth.guard
        one, two = self.items[a], self.items[b]
        if self.moves:
            one, two = (as_bits(x, self.data_type, self.like) for x in (one, two))
        if (
            isinstance(one, LoadedElement)
            and isinstance(two, LoadedElement)
            and one.data_type == two.data_type
            and guard is None
        ):
            return LoadedElement(self.body.chosen(mask, one.bits, two.bits), one.data_type)
        x, y = self.whole(a), self.whole(b)
        if x is not None and y is not None and guard is None:
            modulus = self.data_type.element_bits if place in self.modular else None
            return wholes.select(mask, x, y, modulus)
        return choices.select(truth, self.number(a), self.number(b))

    def _bitwise(self, op: str, args: tuple[int, ...]) -> Item:
        elements = [self.items[a] for a in args]
        bits = [e.bits for e in elements if isinstance(e, LoadedElement)]
        if len(bits) != len(elements) or len({v.kind for v in bits}) != 1:
            raise Uncompilable("bits of something else than elements of one type")
        first = elements[0]
        assert isinstance(first, LoadedElement)
        if op == "bit_count":
            return WholeNumber(wholes.counted(bits[0]), known_integer(0, bits[0].kind.bits))
        return LoadedElement(_BITS[op](*bits), first.data_type)


_ARITHMETIC: Mapping[str, Callable[..., Number]] = {
    "add": arithmetic.add,
    "sub": partial(arithmetic.add, sign=-1),
    "mul": arithmetic.multiply,
    "div": arithmetic.divide,
    "neg": choices.negative,
    "absolute": choices.absolute,
    "sqrt": arithmetic.root,
    "max": partial(choices.extreme, which="maximum"),
    "min": partial(choices.extreme, which="minimum"),
}
_BITS: Mapping[str, Callable[..., Value]] = {
    "bit_and": lambda x, y: x & y,
    "bit_or": lambda x, y: x | y,
    "bit_xor": lambda x, y: x ^ y,
    "bit_not": lambda x: ~x,
    "bit_count": wholes.counted,
    "shift_left": partial(wholes.shifted, "shift_left"),
    "shift_right": partial(wholes.shifted, "shift_right"),
}
