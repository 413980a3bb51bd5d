"""Sums over pairs of rows and columns: weighted rows are added up first, then a few weighted elements of their sum.

For a row of the output, whole rows of the tensor are added up in float64, in the scratch; an element is then a sum of as many
products as there are columns. The largest magnitude of the elements and the smallest that is not 0 are found on the way: if
they are near enough, all products and sums are multiples of a number such that 53 bits hold them, and nothing is rounded.
Otherwise the bound of all roundings follows from the largest element, or from the sum itself. Only finite elements count for
that: if a row has others, or a -0, then vectors with a sum that is 0 or not finite are computed term by term, like vectors that
the bound leaves undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from anydml.exact.formats import FORMATS
from anydml.kernels.code.gather import gathered
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import BIT, WORD, Index, Item
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.separable import Separable, SeparablePart
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.numbers.known import Known, known_integer, outward, places
from anydml.kernels.numbers.lanes import Truth, chosen, either, in_lanes
from anydml.kernels.numbers.measured import arithmetic, real
from anydml.kernels.numbers.measured.real import DOUBLE, ONE, SLACK, Real, U
from anydml.kernels.numbers.singles import SINGLES

PADDING = 16  # elements after a sum of rows that are read but not used
SPAN = 14  # exact sums are used if the exponents of a row's elements may differ by this much


class Unseparated(Exception):
    """Raised if sums of rows are of no use: weights are not known exactly."""


class Weights(NamedTuple):
    """The weights of all rows, or of all columns.

    quantum: the weights are multiples of 2^quantum; top: a bound of the sum of their magnitudes. Both are to be multiplied by
    the factor.
    """

    values: list[Value]
    factor: Fraction
    quantum: int
    top: float


@dataclass(frozen=True)
class _Format:
    """The format of a float type. bits: its size; start: the exponent's first bit; least: the exponent of the last place."""

    bits: int
    start: int
    least: int

    @property
    def infinite(self) -> int:
        return ((1 << self.bits - 1) - 1) >> self.start << self.start


_FORMATS = {t: _Format(form.bits, form.precision - 1, form.lowest) for t, form in FORMATS.items() if t in SINGLES}


class RowSums(Frame):
    """The code that adds up rows, and computes vectors of elements from the sums."""

    def __init__(self, body: Body, key: NestKey, walk: NestWalk, lanes: int, found: Separable) -> None:
        super().__init__(body, key, walk, lanes)
        self.found = found
        self.type = key.program.types[found.tensor]
        self.size = self.type.element_bits // 8
        self.format = _FORMATS.get(self.type)
        self.held: Value | None = None  # whether the sums of a row are exact, if that depends on the row's elements
        self.special: Value | None = None  # whether a row has an infinity, a NaN or a -0
        self.permuted = found.near and lanes == 8 and "avx512f" in body.target.features
        # contiguous columns are loaded as vectors
        nodes = key.program.nodes
        self.identical = [nodes[nodes[part.offsets[0]].args[0]] == ("variable", (), key.lane) for part in found.columns]
        self.permuted = self.permuted and not all(self.identical)
        if self.type.is_float and self.format is None:
            raise Unseparated

    # --- weights ---

    def _weighed(self, parts: tuple[SeparablePart, ...]) -> tuple[Weights, Value | None]:
        """The weights of parts, 0 if one does not count, and the lanes in which they are undecided."""
        walk, made = self.walk, []
        guards: list[Value | None] = []
        for part in parts:
            weight = real.fraction(self.body, ONE)
            for w in part.weights:
                weight = arithmetic.multiply(weight, walk.real(w)) if weight.constant is None else walk.real(w)
            guards += [weight.guard, *(walk.index(o).guard for o in part.offsets)]
            for c in part.conditions:
                there = walk.truth(c)
                guards.append(there.guard)
                if not there.known:
                    zero = weight.value.lift(0.0)
                    weight = replace(weight, value=chosen(there.mask, weight.value, zero), constant=None)
            made.append(weight)
        factors, quanta = {w.factor for w in made}, [w.known.quantum for w in made]
        top = sum(w.known.largest for w in made)
        if len(factors) > 1 or any(not w.exact or not w.known.finite for w in made) or not top < 2.0**200:
            raise Unseparated
        least = min(q if q is not None else -1000 for q in quanta)
        if least < -200:
            raise Unseparated
        return Weights([w.value for w in made], factors.pop(), least, top), either(*guards)

    def columns(self) -> list[Item]:
        """The items of columns that are kept for all rows: for each column its offset and its weight; and the undecided
        lanes."""
        body, columns = self.body, self.found.columns
        weights, guard = self._weighed(columns)
        self.across = weights
        items: list[Item] = []
        offsets = [
            in_lanes(self.walk.index(part.offsets[0]).value.shifted_right(self.size.bit_length() - 1, signed=False), self.lanes)
            for part in columns
        ]
        if self.permuted:
            low, high = offsets[0], offsets[0]
            for offset in offsets[1:]:
                low, high = body.intrinsic("umin", low, offset), body.intrinsic("umax", high, offset)
            suffix = f"v{self.lanes}i64"
            first = in_lanes(body.call(f"llvm.vector.reduce.umin.{suffix}", WORD, low), self.lanes)
            items.append(Index(first, known_integer(0, 1 << 62)))
            guard = either(guard, (high - first).compared("uge", 2 * self.lanes))
            offsets = [offset - first for offset in offsets]
        for part, offset, weight in zip(columns, offsets, weights.values, strict=True):
            items.append(Index(offset, known_integer(0, 1 << 62)))
            if part.weights:
                items.append(Real(in_lanes(weight, self.lanes)))
        self.guarded = guard is not None
        if guard is not None:
            items.append(Truth(in_lanes(guard, self.lanes)))
        return items

    # --- a row of the output ---

    def add_up(self) -> Value:
        """Add up the rows for a row of the output; the result says whether its elements may be computed from the sums."""
        body, walk, found = self.body, self.walk, self.found
        self.down, guard = self._weighed(found.rows)
        self._judge()
        rows = []
        for part in found.rows:
            at = f"%tensor{found.tensor}"
            for o in part.offsets:
                at = body.at(at, walk.index(o).value.name)
            rows.append(at)
        weights = [in_lanes(w, self.lanes) for w in self.down.values]
        count = body.op(f"add i64 %last{found.tensor}_{found.dimension}, 1")
        behind = Value(body, body.op(f"sub i64 {count}, {self.lanes}"), WORD)
        word = Kind(f"i{self.type.element_bits}", self.lanes)

        def place(i: str) -> str:
            here = Value(body, i, WORD)
            return body.chosen(here.compared("ult", behind), here, behind).name  # the last vector ends with the row

        def loaded(at: str) -> list[Value]:
            return [body.loaded(word, row, body.op(f"mul i64 {at}, {self.size}")) for row in rows]

        def turn(i: str, seen: list[Value]) -> list[Value]:
            at = place(i)
            total: Value | None = None
            for bits, weight, part in zip(loaded(at), weights, found.rows, strict=True):
                value = self._element(bits)
                if not part.weights:
                    total = value if total is None else total + value
                else:
                    total = value * weight if total is None else body.fused(value, weight, total)
                seen = self._looked(bits, seen)
            assert total is not None
            body.stored(total, "%rowsums", body.op(f"mul i64 {at}, 8"))
            return seen

        limit = body.op(f"add i64 {count}, {self.lanes - 1}")
        first = [] if self.format is None else [body.constant(word, x) for x in (0, -1, 0)]
        _, seen = body.loop("0", limit, self.lanes, first, turn)
        self._judge_row(seen, limit, lambda i: loaded(place(i)))
        return body.constant(BIT, True) if guard is None else ~guard

    def _element(self, bits: Value) -> Value:
        item = self.walk._element(bits, self.type, None)
        if isinstance(item, Real):
            return item.value
        return bits.converted("sitofp" if self.type.dtype.kind == "i" else "uitofp", bits.kind.of("double"))

    def _judge(self) -> None:
        """Set `exact` and `span`: whether sums can be exact, and how far exponents of a row's elements may differ; None:
        any."""
        down, across = self.down, self.across
        self.top = down.top * across.top
        factor = self.factor = down.factor * across.factor
        # dividing by a power of two is exact; a quotient by a small number rounds to the same, if there are spare digits
        small = factor.numerator == 1 and factor.denominator < 1 << 20 and factor.denominator & (factor.denominator - 1)
        self.divisor = factor.denominator if small else 1
        spare = 3 if small else 0
        # a sum is less than 2^room times the largest element, in units of its quantum
        room = places(0.0, self.top, down.quantum + across.quantum)
        if self.format is None:
            self.exact, self.span = room + self.type.element_bits <= 53 - spare, None
            if not self.exact:
                raise Unseparated
            return
        digits = self.format.start + 1
        self.span = 53 - spare - digits - room
        self.exact = self.span >= SPAN
        if 53 - spare - room >= (1 << self.format.bits - 1 - self.format.start) + digits:
            self.exact, self.span = True, None

    def _looked(self, bits: Value, seen: list[Value]) -> list[Value]:
        """Update the largest magnitude, the smallest above 0, minus 1, and the smallest word, which is that of -0 if there is
        one."""
        if self.format is None:
            return seen
        body = self.body
        size = bits & ((1 << self.format.bits - 1) - 1)
        largest = body.intrinsic("umax", seen[0], size)
        smallest = body.intrinsic("umin", seen[1], size - 1) if self.exact and self.span is not None else seen[1]
        return [largest, smallest, body.intrinsic("smin", seen[2], bits)]

    def _judge_row(self, seen: list[Value], limit: str, loaded: Callable[[str], list[Value]]) -> None:
        """Emit the test whether the sums of a row are exact. loaded: the elements of all rows at an index."""
        body, f = self.body, self.format
        if f is None:
            return
        kind, suffix = Kind(f"i{f.bits}"), f"v{self.lanes}i{f.bits}"
        largest = body.call(f"llvm.vector.reduce.umax.{suffix}", kind, seen[0])
        word = body.call(f"llvm.vector.reduce.smin.{suffix}", kind, seen[2])
        beyond = largest.compared("uge", f.infinite)
        self.special = beyond | word.compared("eq", -(1 << f.bits - 1))

        def again(i: str, most: list[Value]) -> list[Value]:
            for bits in loaded(i):
                size = bits & ((1 << f.bits - 1) - 1)
                most = [body.intrinsic("umax", most[0], body.chosen(size.compared("ult", f.infinite), size, 0))]
            return most

        # Then the finite elements are examined again; the smallest magnitude is finite if any is.
        turns = body.chosen(beyond, Value(body, limit, WORD), 0).name
        _, most = body.loop("0", turns, self.lanes, [body.constant(seen[0].kind, 0)], again)
        largest = body.chosen(beyond, body.call(f"llvm.vector.reduce.umax.{suffix}", kind, most[0]), largest)
        if not self.exact or self.span is not None:
            top = self._element(largest)
            # if no element is negative, the sum equals the sum of magnitudes; 3: for the factor
            bound = U * (len(self.found.rows) + len(self.found.columns) + 5) * SLACK
            above = word.compared("sge", 0)
            self.share = body.chosen(above, top.lift(bound), 0.0)
            self.rest = body.chosen(above, top.lift(0.0), top * (bound * float(self.factor) * outward(0.0, self.top)[1]))
        if self.exact and self.span is not None:
            smallest = body.call(f"llvm.vector.reduce.umin.{suffix}", kind, seen[1]) + 1
            least = smallest.shifted_right(f.start, signed=False)
            # subnormal numbers have the last place of the least normal one
            least = body.chosen(least.compared("ugt", 1), least, 1)
            self.held = (largest.shifted_right(f.start, signed=False) - least).compared("sle", self.span)

    # --- vectors ---

    def _gathered(self, places: Value) -> Value:
        """Elements of the sum of rows at these indices."""
        return gathered(self.body, DOUBLE, "%rowsums", places << 3)

    def _permuted(self, start: Item) -> Callable[[Value], Value]:
        """A function that reads elements from the two vectors that begin at index `start`."""
        assert isinstance(start, Index)
        body, kind = self.body, Kind("double", self.lanes)
        first = body.op(f"mul i64 {start.value.lane(0).name}, 8")
        low = body.loaded(kind, "%rowsums", first)
        high = body.loaded(kind, body.at("%rowsums", first), 8 * self.lanes)
        return lambda places: body.call("llvm.x86.avx512.vpermi2var.pd.512", kind, low, places, high)

    def sums(self, kept: list[Item], x: str) -> tuple[Value, Value | None]:
        """A vector of sums from the kept items of columns, and the lanes in which nothing is known."""
        body = self.body
        total: Value | None = None
        items = iter(kept)
        read = self._permuted(next(items)) if self.permuted else self._gathered
        for part, identical in zip(self.found.columns, self.identical, strict=True):
            place = next(items)
            assert isinstance(place, Index)
            if identical:
                value = body.loaded(place.value.kind.of("double"), "%rowsums", body.op(f"mul i64 {x}, 8"))
            else:
                value = read(place.value)
            if not part.weights:
                total = value if total is None else total + value
            else:
                weight = next(items)
                assert isinstance(weight, Real)
                total = value * weight.value if total is None else body.fused(value, weight.value, total)
        assert total is not None
        guard = next(items) if self.guarded else None
        assert guard is None or isinstance(guard, Truth)
        return total + 0.0, None if guard is None else guard.mask  # a sum is -0 only if all elements are

    def unsettled(self, total: Value) -> Value:
        """The lanes of a row with special elements in which the sum may depend on these: it is 0 or not finite."""
        size = total.magnitude()
        return ~(size.compared("olt", math.inf) & size.compared("ogt", 0.0))

    def exactly(self, total: Value) -> Real:
        """The number that a sum is if nothing was rounded."""
        least = 0 if self.format is None else self.format.least
        largest = self.type.element_bits if self.format is None else (1 << self.format.bits - 2 - self.format.start) + 1
        top, quantum = self.top * math.ldexp(1.0, largest), least + self.down.quantum + self.across.quantum
        if self.divisor > 1:
            most = outward(0.0, top * float(self.factor))[1]
            return Real(self._divided(total), None, Known(-most, most, finite=True))
        digits = 53 if self.format is not None else min(53, places(0.0, top, quantum))
        return Real(total, None, Known(-top, top, quantum, digits, finite=True), self.factor)

    def nearly(self, total: Value) -> Real:
        """The number that a sum is, with the bound of all roundings."""
        total = total * float(self.factor)
        err = self.body.fused(total.magnitude(), in_lanes(self.share, self.lanes), in_lanes(self.rest, self.lanes))
        return Real(total, err, Known(finite=True))

    def _divided(self, total: Value) -> Value:
        """An exact sum divided by the divisor, rounded so that it compares with all floats and half integers as the quotient
        does.

        The sum has 50 bits. So has its distance from a multiple of such a number, so that the quotient is further from it than
        the roundings of float64 move it.
        """
        divisor = float(self.divisor)
        if not self.body.has_fma:
            return total / divisor
        share = total * (1 / divisor)
        return self.body.fused(self.body.fused(share, -divisor, total), 1 / divisor, share)
