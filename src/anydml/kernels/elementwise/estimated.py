"""Sums of scaled bytes that are requantised, estimated in float32: the integers, and the lanes where these are certain.

Let c_k = fl(s_k / y). The sum r of the x_k s_k / y is estimated by v, the float32 sum of the x_k c_k, added one after another.
Each x_k is an integer of magnitude REACH or less. A term is rounded once in c_k, once as a product, and at most once in each
sum that includes it, each time by a factor within 1 +- 2^-24. So |v - r| <= (n + 2) 2^-24 REACH sum |c_k|, except for squares
of 2^-24 and for the error of a subnormal quotient. The code uses twice this bound, plus 2^-20. Where v is nearer to an integer
than 1/2 minus the bound, r rounds to this integer. An infinite or NaN v is near no integer, and the test fails if the bound
reaches 1/2. Hence |v| < 2^23 wherever a lane is certain, and its integer fits int32.

If a lane of a group stays undecided, the group's sums are computed again in float64, from quotients in float64. The same bound
holds there with 2^-53 and 2^-52 for 2^-24 and 2^-23, and 2^-40 in place of 2^-20. There, |v| < 2^52, and v is clamped to what
fits int32 with a zero point.

If every c_k is exact and a multiple of 2^-13, and their magnitudes add up to 8 or less, then v = r, ties included: each partial
sum is a multiple of 2^-13 of magnitude 2^11 or less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import bits_as_lanes, lanes_as_bits
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers.floats.rounding import rounded_to_whole
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.known import known_of
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.schema.node import Constant
from anydml.tensor import DataType, limits

REACH = 255
BYTES = (DataType.UINT8, DataType.INT8)
FINEST, MOST = 2.0**13, 8.0  # of quotients whose sums are exact


class ScaledTerm(NamedTuple):
    """The streams of a term: its integer, the zero point that is subtracted, and its scale."""

    read: int
    zero: int | None
    scale: int


class ScaledSum(NamedTuple):
    """The terms of a sum of scaled bytes, and the streams of the scale that divides it and of the output's zero point."""

    terms: tuple[ScaledTerm, ...]
    scale: int
    zero: int | None
    reads: tuple[DataType, ...]  # of the streams, in order

    @property
    def constants(self) -> set[int]:
        """The streams that have to be the same for all elements."""
        found = {self.scale, self.zero, *(x for t in self.terms for x in (t.zero, t.scale))}
        return {x for x in found if x is not None}


def quantised_sum(formula: NormalForm, data_type: DataType) -> ScaledSum | None:
    """The sum that a formula computes, if it saturates to an 8-bit type and gives the lower limit for NaN; else None."""
    return _Match(formula, data_type).found() if data_type in BYTES else None


class _Match:
    def __init__(self, formula: NormalForm, data_type: DataType) -> None:
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
        """The other argument of a max or min that has this limit as one argument, else None."""
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
    """The estimate's code, begun at the start of a row: it has scalars of the row's constants that groups broadcast."""

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
            product = factor.converted("fpext", wide) * doubled  # exact: it has 48 bits
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
        """Whether a number of magnitude below 2^22 is an integer: then adding 1.5 * 2^23 loses nothing."""
        return ((x + 1.5 * 2.0**23) - 1.5 * 2.0**23).compared("oeq", x)

    def _integer(self, bits: Value, k: int) -> Value:
        return WholeNumber(bits, known_of(self.of.reads[k])).resized(32)

    def element(self, streams: Sequence[Value]) -> tuple[Value, Value]:
        """The bits that are stored, and the lanes that are left undecided."""
        body, lanes = self.body, self.lanes
        made, undecided = self._estimated(streams, "float", self.factors, self.threshold)
        bits = lanes_as_bits(undecided)

        def again() -> list[Value]:
            finer, undecided = self._estimated(streams, "double", self.wide_factors, self.wide_threshold)
            return [finer, Value(body, lanes_as_bits(undecided), Kind("i64"))]

        some = body.op(f"icmp ne i64 {bits}, 0")
        made, left = body.either(some, again, lambda: [made, Value(body, bits, Kind("i64"))])
        return made, bits_as_lanes(body, left.name, lanes)

    def _estimated(
        self, streams: Sequence[Value], element: str, factors: Sequence[Value], threshold: Value
    ) -> tuple[Value, Value]:
        """`element` with sums in one kind of floats."""
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
        if element == "double":
            nearest = at_most(at_least(nearest, -(2.0**30)), 2.0**30)
        made = nearest.converted("fptosi", nearest.kind.of("i32"))
        if self.added is not None:
            made = made + body.splat(self.added, self.lanes)
        low, high = limits(self.data_type)
        made = body.intrinsic("smin", body.intrinsic("smax", made, made.lift(low)), made.lift(high))
        return made.converted("trunc", made.kind.of("i8")), ~certain
