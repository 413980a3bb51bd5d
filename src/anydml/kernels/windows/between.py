"""Arithmetic of means between 8-bit tensors: elements are dequantised, averaged, perhaps clamped, and quantised again.

A dequantised element is a multiple of the last place u of the scale, and below 2^32 u. So a sum of n <= 2^15 elements has at
most 47 bits, and is exact in float64. The alternative sums the integers and estimates the result (see `estimate`); elements
that the estimate leaves undecided are computed again, one by one, in float64.
"""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.undecided.lists import each_bit
from anydml.kernels.windows.estimate import RECORD
from anydml.kernels.windows.key import WindowsKey
from anydml.tensor import DataType

WORD = Kind("i64")
MAGIC = 1.5 * 2.0**23  # adding it rounds to an integer, which is then in the low bits
MAGIC_BITS = 0x4B400000
SATURATED = 1024.0  # quotients are clamped to this magnitude, which saturates in every type
ELEMENTS = {"f4": "float", "f8": "double", "i4": "i32"}


class Between:
    """The values of a `RECORD`, loaded once, and the arithmetic with them."""

    def __init__(self, body: Body, key: WindowsKey) -> None:
        self.body, self.key = body, key
        self._numbers: dict[str, Value] = {}

    def begin(self) -> None:
        """Load the values, at the start of the kernel."""
        assert RECORD.fields is not None
        for name, (kind, offset, *_) in RECORD.fields.items():
            self._numbers[name] = self.body.loaded(Kind(ELEMENTS[kind.str[1:]]), "%rule", offset)

    def splat(self, name: str, lanes: int) -> Value:
        """A value of the record in all lanes."""
        return self.body.splat(self._numbers[name], lanes)

    def wide(self, bits: Value) -> Value:
        """Bytes as int32."""
        signed = self.key.types[0] == DataType.INT8
        return bits.converted("sext" if signed else "zext", bits.kind.of("i32"))

    def nothing(self) -> Value:
        """The byte that dequantises to 0: the input's zero point."""
        return self._numbers["x_zero"].converted("trunc", Kind("i8"))

    def dequantised(self, bits: Value) -> Value:
        """Dequantised bytes, in float64."""
        lanes = bits.kind.lanes
        centred = (self.wide(bits) - self.splat("x_zero", lanes)).converted("sitofp", bits.kind.of("float"))
        return (centred * self.splat("x_scale", lanes)).converted("fpext", bits.kind.of("double"))

    def factors(self, number: Value) -> Value:
        """The factors of estimates, float32; number: the divisors of the means, float64."""
        return (self.splat("ratio", number.kind.lanes) / number).converted("fptrunc", number.kind.of("float"))

    def centre(self, terms: Value) -> Value:
        """The zero point times the number of terms: what to subtract from a sum of bytes."""
        return terms * self.splat("x_zero", terms.kind.lanes)

    def stated(self, mean: Value) -> Value:
        """The output's bytes for means that are rounded to float32, by the steps of the statement."""
        lanes = mean.kind.lanes
        quotient = self._clamped(mean, self.splat("low", lanes), self.splat("high", lanes)) / self.splat("y_scale", lanes)
        large = self._clamped(quotient, quotient.lift(-SATURATED), quotient.lift(SATURATED)) + MAGIC
        steps = large.bits() - MAGIC_BITS + self.splat("y_zero", lanes)
        for how, end in (("smax", "least"), ("smin", "most")):
            steps = self.body.intrinsic(how, steps, self.splat(end, lanes))
        return steps.converted("trunc", steps.kind.of("i8"))

    def estimated(self, total: Value, factor: Value) -> tuple[Value, Value]:
        """The output's bytes for sums of centred integers, by the estimate, and the undecided lanes."""
        lanes = total.kind.lanes
        v = total.converted("sitofp", factor.kind) * factor
        v = self._clamped(v, self.splat("low_end", lanes), self.splat("high_end", lanes))
        large = v + MAGIC
        steps = large.bits() - MAGIC_BITS + self.splat("y_zero", lanes)
        undecided = (v - (large - MAGIC)).magnitude().compared("oge", self.splat("limit", lanes))
        return steps.converted("trunc", steps.kind.of("i8")), undecided

    def _clamped(self, x: Value, low: Value, high: Value) -> Value:
        x = self.body.chosen(x.compared("olt", low), low, x)
        return self.body.chosen(x.compared("ogt", high), high, x)

    def decided(self, undecided: Value, decide: Callable[[Value], None]) -> None:
        """Call `decide` with each undecided lane."""
        each_bit(self.body, lanes_as_bits(undecided), lambda lane: decide(Value(self.body, lane, WORD)))

    def exactly(self, total: Value, number: Value) -> Value:
        """The output's byte for a sum of dequantised elements over a number of elements, both float64."""
        return self.stated((total / number).converted("fptrunc", total.kind.of("float")))
