"""Sums of weighted elements: the terms that count are listed once per row, and all vectors loop over the short lists.

The first loops add products in float64, and bound their error by the sum of magnitudes; about one element in thousands stays
undecided. Contiguous elements are loaded as one vector. The last loop adds up the rounding error of each addition.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import or_

from anydml.kernels.code.gather import gathered
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.nests import items
from anydml.kernels.nests.folds import NestSum
from anydml.kernels.nests.frame import Frame
from anydml.kernels.nests.items import BIT, WORD
from anydml.kernels.nests.key import NestKey
from anydml.kernels.nests.walk import NestWalk
from anydml.kernels.nests.weighted import Weighted, WeightedTerm
from anydml.kernels.numbers.lanes import Truth, either, in_lanes
from anydml.kernels.numbers.measured import arithmetic, decisions, real
from anydml.kernels.numbers.measured.real import DOUBLE, ONE, SLACK, Real, U

ENTRY = 24  # bytes of an entry: an offset, a weight and its bound; or an offset and two weights
LISTS = 3  # lists: of all terms, of pairs of contiguous terms, and of the other terms


class Unlisted(Exception):
    """Raised if weights have no common form."""


class Lists(Frame):
    """The code that lists terms at %rowsums and computes vectors of their sums."""

    def __init__(self, body: Body, key: NestKey, walk: NestWalk, lanes: int, found: Weighted) -> None:
        super().__init__(body, key, walk, lanes)
        self.found = found
        self.type = key.program.types[found.tensor]
        self.floating = self.type.is_float

    # --- the lists of a row of the output ---

    def write(self) -> Value:
        """List the terms that count, for the first loops; the result says whether it is certain which ones count."""
        body, walk = self.body, self.walk
        entries: list[tuple[Value, Value, Value]] = []
        guards: list[Value | None] = []
        factors: dict[int, Real] = {}
        above: dict[int, Value] = {}
        for term in self.found.terms:
            for f in (*term.weights, *term.positive):
                if f not in factors:
                    factors[f] = self._scalar(f)
                    guards.append(factors[f].guard)
            for f in term.positive:
                if f not in above:
                    above[f], undecided, _ = self._above(factors[f])
                    guards.append(undecided)
            guards += [walk.truth(c).guard for c in term.conditions] + [walk.index(o).guard for o in term.offsets]
            there = body.constant(BIT, True)
            for mask in (*(walk.truth(c).mask for c in term.conditions), *(above[f] for f in term.positive)):
                there = there & mask
            weight = body.constant(DOUBLE, 1.0)
            for f in term.weights:
                weight = weight * factors[f].value
            entries.append((self._offset(term), weight, there))
        if len({self._factor(term, factors) for term in self.found.terms}) > 1:
            raise Unlisted
        self.factor = self._factor(self.found.terms[0], factors)
        self._limits(factors)
        self._pair(entries)
        guard = either(*guards)
        return body.constant(BIT, True) if guard is None else ~guard

    def _scalar(self, place: int) -> Real:
        found = self.walk.real(place)
        if found.value.kind.lanes:
            raise Unlisted
        return found

    def _above(self, x: Real) -> Truth:
        """Whether a number is positive."""
        return decisions.compared("less", real.fraction(self.body, ONE * 0), x)

    def _factor(self, term: WeightedTerm, factors: dict[int, Real]) -> Fraction:
        return math.prod((factors[f].factor for f in term.weights), start=ONE)

    def _offset(self, term: WeightedTerm) -> Value:
        offset = self.body.constant(WORD, 0)
        for o in term.offsets:
            offset = offset + self.walk.index(o).value
        return offset

    def _limits(self, factors: dict[int, Real]) -> None:
        """Set `heaviest` and `lost`: an upper bound of the weights, and of the error of a weight; from the largest factors of
        all terms."""
        zero = self.body.constant(DOUBLE, 0.0)
        self.heaviest, self.lost = self.body.constant(DOUBLE, 1.0), zero
        for k in range(max(len(term.weights) for term in self.found.terms)):
            here = dict.fromkeys(term.weights[k] for term in self.found.terms if k < len(term.weights))
            most, err = zero, zero
            for x in (factors[f] for f in here):
                most = self._larger(most, x.value.magnitude())
                err = err if x.err is None else self._larger(err, x.err)
            if any(k >= len(term.weights) for term in self.found.terms):
                most = self._larger(most, zero + 1.0)
            # (h + l) (m + e) - h m, and the rounding of the product
            lost = (self.heaviest + self.lost) * err + self.lost * most
            self.heaviest = self.heaviest * most
            self.lost = (lost + self.heaviest * (2 * U)) * SLACK

    def _larger(self, most: Value, x: Value) -> Value:
        """The larger one, or NaN if x is NaN."""
        return self.body.chosen(x.compared("ule", most) & x.compared("ord", x), most, x)

    def _pair(self, entries: list[tuple[Value, Value, Value]]) -> None:
        """List pairs of terms with contiguous elements, and the other terms."""
        body = self.body
        pairs = singles = body.constant(WORD, 0)
        single = [there for *_, there in entries]
        if self.type.element_bits == 32:
            for k in range(0, len(entries) - 1, 2):
                (first, one, there), (second, two, also) = entries[k : k + 2]
                both = there & also & (second - first).compared("eq", 4)
                self._put(1, pairs, first, one, two)
                pairs = pairs + both.converted("zext", WORD)
                single[k], single[k + 1] = there & ~both, also & ~both
        for (offset, weight, _), there in zip(entries, single, strict=True):
            self._put(2, singles, offset, weight)
            singles = singles + there.converted("zext", WORD)
        self.pairs, self.singles = pairs, singles

    def _put(self, part: int, count: Value, *values: Value) -> None:
        """Write an entry to a list after `count` entries."""
        body = self.body
        start = part * ENTRY * len(self.found.terms)
        at = body.at("%rowsums", body.op(f"add i64 {body.op(f'mul i64 {count.name}, {ENTRY}')}, {start}"))
        for k, value in enumerate(values):
            body.stored(value, at, 8 * k)

    def _write_all(self) -> tuple[Value, Real, Value | None]:
        """List the terms that count with the bounds of their weights: their number, the form of the weights, the undecided
        lanes."""
        body = self.body
        count = body.constant(WORD, 0)
        made: list[Real] = []
        guards: list[Value | None] = []
        for term in self.found.terms:
            weight, there, guard = self._term(term)
            made.append(weight)
            guards.append(guard)
            err = body.constant(DOUBLE, 0.0) if weight.err is None else weight.err
            self._put(0, count, self._offset(term), weight.value, err)
            count = count + (1 if there.known else there.mask.converted("zext", WORD))
        exact = all(w.exact for w in made)
        if {w.factor for w in made} != {self.factor}:
            raise Unlisted
        form = replace(
            made[0],
            err=None if exact else body.constant(DOUBLE, 0.0),
            known=reduce(or_, (w.known for w in made)),
            guard=None,
            constant=None,
        )
        return count, form, either(*guards)

    def _term(self, term: WeightedTerm) -> tuple[Real, Truth, Value | None]:
        """The weight of a term, whether it counts, and the undecided lanes."""
        walk = self.walk
        weight = real.fraction(self.body, ONE)
        for w in term.weights:
            weight = arithmetic.multiply(weight, walk.real(w)) if weight.constant is None else walk.real(w)
        there = items.truth(self.body, True)
        for truth in (*map(walk.truth, term.conditions), *(self._above(walk.real(f)) for f in term.positive)):
            there = there.joined("both", truth)
        own = either(weight.guard, *(walk.index(o).guard for o in term.offsets))
        if own is not None and not there.known:
            own = own & there.mask
        return weight, there, either(own, there.guard)

    # --- vectors ---

    def _entry(self, part: int, j: str, along: Value, element: Kind) -> tuple[Value, Value, Value]:
        """The elements at the offset of a list's entry, and the entry's two numbers."""
        body = self.body
        place = body.op(f"add i64 {body.op(f'mul i64 {j}, {ENTRY}')}, {part * ENTRY * len(self.found.terms)}")
        at = body.at("%rowsums", place)
        base = body.at(f"%tensor{self.found.tensor}", body.loaded(WORD, at).name)
        return gathered(body, element, base, along), body.loaded(DOUBLE, at, 8), body.loaded(DOUBLE, at, 16)

    def _number(self, bits: Value) -> Real:
        item = self.walk._element(bits, self.type, None)
        if isinstance(item, items.Index):
            item = items.position(item)
        assert isinstance(item, Real)
        return item

    def _along(self) -> Value:
        return in_lanes(self.walk.index(self.found.along).value, self.lanes)

    def _other(self, bits: Value, others: Value) -> Value:
        """Bits that stay 0 as long as all elements are -0."""
        return others | (bits ^ (1 << bits.kind.bits - 1)) if self.floating else others

    def _unsigned(self, others: Value, count: Value) -> Value | None:
        """The lanes in which a sum of `count` terms may be -0: those in which all elements are."""
        if not self.floating:
            return None
        some = count.compared("ne", 0)
        return others.compared("eq", 0) & in_lanes(some, self.lanes)

    def roughly(self) -> tuple[Real, Value | None]:
        """A vector of sums with bounds from the sums of magnitudes, and the lanes in which nothing is known."""
        body, along = self.body, self._along()
        kind = Kind("double", self.lanes)
        word = Kind(f"i{self.type.element_bits}", self.lanes)

        def added(bits: Value, weight: Value, carried: list[Value]) -> list[Value]:
            x = self._number(bits).value
            total = body.fused(x, in_lanes(weight, self.lanes), carried[0])
            return [total, carried[1] + x.magnitude(), self._other(bits, carried[2])]

        def pair(j: str, carried: list[Value]) -> list[Value]:
            bits, one, two = self._entry(1, j, along, WORD)
            carried = added(bits.converted("trunc", word), one, carried)
            return added(bits.shifted_right(32, signed=False).converted("trunc", word), two, carried)

        def single(j: str, carried: list[Value]) -> list[Value]:
            bits, weight, _ = self._entry(2, j, along, word._replace(lanes=0))
            return added(bits, weight, carried)

        sums = [body.constant(kind, 0.0), body.constant(kind, 0.0), body.constant(word, 0)]
        if self.type.element_bits == 32:
            _, sums = body.loop("0", self.pairs.name, 1, sums, pair)
        _, (total, size, others) = body.loop("0", self.singles.name, 1, sums, single)
        # a product and a sum for each term, with the heaviest weight; 3: for the sum of magnitudes, and for this computation
        share = self.heaviest * (U * (2 * len(self.found.terms) + 3) * SLACK) + self.lost * SLACK
        err = size * in_lanes(share, self.lanes)
        guard = either(~size.compared("olt", math.inf), self._unsigned(others, self.pairs + self.singles))
        return Real(total, err, factor=self.factor), guard

    def closely(self) -> Real:
        """A vector of sums with bounds from the rounding errors of the additions."""
        body, along = self.body, self._along()
        word = Kind(f"i{self.type.element_bits}", self.lanes)
        always = items.truth(body, True)
        count, form, undecided = self._write_all()
        with self.walk.aside():
            sample = self._product("0", along, form)[0]
        fold = NestSum(body, sample, always, self.lanes, len(self.found.terms))

        def turn(j: str, carried: list[Value]) -> list[Value]:
            term, bits = self._product(j, along, form)
            return [*fold.step(carried[:-1], term, always, None), self._other(bits, carried[-1])]

        _, carried = body.loop("0", count.name, 1, [*fold.starts(), body.constant(word, 0)], turn)
        made = fold.finished(carried[:-1])
        assert isinstance(made, Real)
        return replace(made, guard=either(made.guard, undecided, self._unsigned(carried[-1], count)))

    def _product(self, j: str, along: Value, form: Real) -> tuple[Real, Value]:
        bits, weight, err = self._entry(0, j, along, Kind(f"i{self.type.element_bits}"))
        x = self._number(bits)
        known = replace(form, value=weight, err=None if form.exact else err)
        return arithmetic.multiply(x, known), bits
