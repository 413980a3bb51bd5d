"""Sums of scaled bytes that are quantised again, estimated in float32: which of its integers are certain, and these.

With c_k = fl(s_k / y), the sum r of x_k s_k / y is estimated by v, the sum of the x_k c_k in float32, one after another. Each
x_k is an integer of at most REACH in magnitude. A term is rounded once in c_k, once as a product, and once or less in each of
the sums that it goes through, each time by a factor within 1 +- 2^-24: |v - r| <= (n + 2) 2^-24 REACH sum |c_k|, but for
squares of 2^-24, and for what a quotient loses that is no normal number. The bound that is used is twice that, and 2^-20
more. Where v is nearer than 1/2, less this, to an integer, no other one can come out. A v that is no number is near to
nothing, and so is one whose bound is 1/2: hence |v| < 2^23 wherever something is certain, and its integer is an int32.

Where this leaves a lane of a group undecided, its sums are made again in float64, of quotients in float64: the same holds there
with 2^-53 and 2^-52 for 2^-24 and 2^-23, and 2^-40 in place of 2^-20.

Where every c_k is the quotient itself and a multiple of 2^-13, and they add up to 8 or less, v is r, ties included: each
partial sum is a multiple of 2^-13 of at most 2^11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits
from anydml.kernels.match.maps import Formula
from anydml.kernels.numbers.floats.rounding import rounded_to_whole
from anydml.kernels.numbers.known import known_of
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits

REACH = 255
BYTES = (DataType.UINT8, DataType.INT8)
FINEST, MOST = 2.0**13, 8.0  # of quotients whose sums are exact


class ScaledTerm(NamedTuple):
    """The streams of a term: its integer, what is taken off it, and its scale."""

    read: int
    zero: int | None
    scale: int


class ScaledSum(NamedTuple):
    """The terms of a sum of scaled bytes; the streams of the scale that divides it, and of what is added to its integer."""

    terms: tuple[ScaledTerm, ...]
    scale: int
    zero: int | None
    reads: tuple[DataType, ...]  # of the streams, in order

    @property
    def constants(self) -> set[int]:
        """The streams that have to be the same for all elements."""
        found = {self.scale, self.zero, *(x for t in self.terms for x in (t.zero, t.scale))}
        return {x for x in found if x is not None}


def quantised_sum(formula: Formula, data_type: DataType) -> ScaledSum | None:
    """The sum that a formula is, saturating in a type of 8 bits, with the limit for what is no number; or None."""
    return _Match(formula, data_type).found() if data_type in BYTES else None


class _Match:
    def __init__(self, formula: Formula, data_type: DataType) -> None:
        self.formula, self.data_type = formula, data_type
        self.reads = {n.data[0]: n.data[1] for n in formula if n.op == "stream"}

    def found(self) -> ScaledSum | None:
        last = self.formula[-1]
        low, high = limits(self.data_type)
        if last.op != "select" or self.formula[last.args[0]].op != "is_nan" or self._constant(last.args[1]) != low:
            return None
        (divided,) = self.formula[last.args[0]].args
        inner = self._beside("min", last.args[2], high)
        rounded = None if inner is None else self._beside("max", inner, low)
        if rounded is None or self.formula[divided].op != "div":
            return None
        zero = None
        if self.formula[rounded].op == "add":
            (*parts,) = self.formula[rounded].args
            zeros = [x for x in parts if self._byte(x) is not None]
            if len(zeros) != 1:
                return None
            zero = self._byte(zeros[0])
            (rounded,) = (x for x in parts if x != zeros[0])
        if self.formula[rounded].op != "half_to_even" or self.formula[rounded].args != (divided,):
            return None
        total, by = self.formula[divided].args
        scale, terms = self._single(by), self._terms(total)
        if scale is None or terms is None:
            return None
        return ScaledSum(terms, scale, zero, tuple(self.reads[k] for k in sorted(self.reads)))

    def _constant(self, place: int) -> object:
        data = self.formula[place].data
        return data.value if isinstance(data, Constant) else None

    def _beside(self, op: str, place: int, limit: int) -> int | None:
        """The other argument of an extreme of a limit and something."""
        node = self.formula[place]
        if node.op != op:
            return None
        a, b = node.args
        return b if self._constant(a) == limit else a if self._constant(b) == limit else None

    def _stream(self, place: int) -> int | None:
        node = self.formula[place]
        return int(node.data[0]) if node.op == "stream" else None

    def _byte(self, place: int) -> int | None:
        found = self._stream(place)
        return found if found is not None and self.reads[found] in BYTES else None

    def _single(self, place: int) -> int | None:
        found = self._stream(place)
        return found if found is not None and self.reads[found] == DataType.FLOAT32 else None

    def _terms(self, place: int) -> tuple[ScaledTerm, ...] | None:
        node = self.formula[place]
        if node.op == "add":
            parts = [self._terms(x) for x in node.args]
            return None if None in parts else tuple(t for part in parts for t in part or ())
        if node.op != "mul":
            return None
        for integer, scale in (node.args, node.args[::-1]):
            factor, made = self._single(scale), self.formula[integer]
            if factor is None:
                continue
            if (read := self._byte(integer)) is not None:
                return (ScaledTerm(read, None, factor),)
            if made.op == "sub":
                read, zero = (self._byte(x) for x in made.args)
                if read is not None and zero is not None and self.reads[read] == self.reads[zero]:
                    return (ScaledTerm(read, zero, factor),)
        return None


class EstimateCode:
    """The estimate's code. Made where a row begins: of constants, as vectors, come scalars, which every group spreads again."""

    def __init__(self, body: Body, of: ScaledSum, constants: Mapping[int, Value], lanes: int, data_type: DataType) -> None:
        self.body, self.of, self.lanes, self.data_type = body, of, lanes, data_type
        single, wide = Kind("float"), Kind("double")

        def scale(k: int) -> Value:
            return constants[k].lane(0).cast(single)

        divisor = scale(of.scale)
        self.factors = [scale(t.scale) / divisor for t in of.terms]
        doubled = divisor.converted("fpext", wide)
        self.wide_factors = [scale(t.scale).converted("fpext", wide) / doubled for t in of.terms]
        exact, reach = None, body.constant(single, 0.0)
        for term, factor in zip(of.terms, self.factors, strict=True):
            product = factor.converted("fpext", wide) * doubled  # of 48 bits
            fine = factor * FINEST
            same = product.compared("oeq", scale(term.scale).converted("fpext", wide))
            same = same & fine.magnitude().compared("olt", 2.0**22) & self._whole(fine)
            exact = same if exact is None else exact & same
            reach = reach + factor.magnitude()
        assert exact is not None
        exact = exact & reach.compared("ole", MOST)
        terms = REACH * (len(of.terms) + 2)
        self.threshold = body.chosen(exact, body.constant(single, 2.0), (0.5 - 2.0**-20) - reach * (terms * 2.0**-23))
        self.wide_threshold = (0.5 - 2.0**-40) - reach.converted("fpext", wide) * (terms * 2.0**-52)
        self.taken = [None if t.zero is None else self._integer(constants[t.zero].lane(0), t.zero) for t in of.terms]
        self.added = None if of.zero is None else self._integer(constants[of.zero].lane(0), of.zero)

    def _whole(self, x: Value) -> Value:
        """Whether a number below 2^22 is an integer: nothing of it is lost beside 2^23 and its half."""
        return ((x + 1.5 * 2.0**23) - 1.5 * 2.0**23).compared("oeq", x)

    def _integer(self, bits: Value, k: int) -> Value:
        return WholeNumber(bits, known_of(self.of.reads[k])).resized(32)

    def element(self, streams: Sequence[Value]) -> tuple[Value, Value]:
        """The bits that are stored, and the lanes that are left undecided."""
        body, lanes = self.body, self.lanes
        made, undecided = self._estimated(streams, "float", self.factors, self.threshold)
        bits = lanes_as_bits(undecided)
        before, again, after = (body.name(x) for x in ("before", "again", "after"))
        body.jump(before)
        body.label(before)
        body.branch(body.op(f"icmp ne i64 {bits}, 0"), again, after)
        body.label(again)
        finer, undecided = self._estimated(streams, "double", self.wide_factors, self.wide_threshold)
        left, end = lanes_as_bits(undecided), body.name("made")
        body.jump(end)
        body.label(end)
        body.jump(after)
        body.label(after)
        kind = made.kind
        made = body.value(f"phi {kind.text} [ {made.name}, %{before} ], [ {finer.name}, %{end} ]", kind)
        return made, bits_as_lanes(body, body.op(f"phi i64 [ {bits}, %{before} ], [ {left}, %{end} ]"), lanes)

    def _estimated(
        self, streams: Sequence[Value], element: str, factors: Sequence[Value], threshold: Value
    ) -> tuple[Value, Value]:
        """The same in floats of a kind."""
        body, total = self.body, None
        for term, factor, zero in zip(self.of.terms, factors, self.taken, strict=True):
            x = self._integer(streams[term.read], term.read)
            if zero is not None:
                x = x - body.splat(zero, self.lanes)
            number, by = x.converted("sitofp", x.kind.of(element)), body.splat(factor, self.lanes)
            total = number * by if total is None else body.fused(number, by, total)
        assert total is not None
        nearest = rounded_to_whole("half_to_even", total)
        certain = (total - nearest).magnitude().compared("olt", body.splat(threshold, self.lanes))
        made = nearest.converted("fptosi", nearest.kind.of("i32"))
        if self.added is not None:
            made = made + body.splat(self.added, self.lanes)
        low, high = limits(self.data_type)
        made = body.intrinsic("smin", body.intrinsic("smax", made, made.lift(low)), made.lift(high))
        return made.converted("trunc", made.kind.of("i8")), ~certain
