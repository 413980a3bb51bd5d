"""The kinds of reductions over windows: how elements are read, their neutral element, and how elements and lines are united."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from anydml.exact.formats import FORMATS
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.match.windows import LENGTH, MAX, QUANTIZED, SUM
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.rounding import SIXTEEN_BIT
from anydml.kernels.windows.between import Between
from anydml.kernels.windows.key import DEQUANTIZED, WindowsKey, parts, raw
from anydml.tensor import DataType, limits

NAN_OR_NEGATIVE_ZERO = 0x23  # as in LLVM's `is.fpclass`


class Reduction(ABC):
    """A reduction. neutral: the element for positions outside of the input, in each part of a line that is read.

    plain: no element is NaN, nor -0 if windows are reduced down their columns first.
    """

    neutral: tuple[float, ...]
    plain = False

    def __init__(self, body: Body, key: WindowsKey) -> None:
        self.body, self.key = body, key
        self.raw = [Kind(element, key.lanes) for element in raw(key)]
        self.parts = [Kind(element, key.lanes) for element in parts(key)]

    @abstractmethod
    def read(self, bits: Value) -> list[Value]:
        """The parts of elements, from their bits."""

    def nothing(self, kind: Kind) -> Value:
        """The neutral element, in the type that is read from memory."""
        return self.body.constant(kind, self.neutral[0])

    def unknown(self, lanes: int) -> list[Value]:
        """The facts about no elements; lanes: of the groups that are read."""
        return []

    def noted(self, bits: Value, x: list[Value], values: list[Value]) -> list[Value]:
        """The facts about elements and those before; x: the parts of the elements; values: the facts so far."""
        return []

    def usual(self, values: list[Value]) -> Value | None:
        """Whether the facts allow the usual reduction; None if it needs none."""
        return None

    @abstractmethod
    def begun(self, x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        """The parts of windows of one element; at: its positions; there: the lanes in which it exists (None: all)."""

    @abstractmethod
    def along(self, a: list[Value], x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        """The parts of windows with the next element along the line."""

    @abstractmethod
    def across(self, a: list[Value], b: list[Value]) -> list[Value]:
        """The parts of two consecutive lines of a window, united."""


class WindowMaximum(Reduction):
    """The first of the largest elements, with all its bits, and its position if that is asked for.

    FLOAT16 and BFLOAT16 have two parts: an integer in the order of the numbers, where zeros are equal and NaN is above all, and
    the bits.
    """

    def __init__(self, body: Body, key: WindowsKey) -> None:
        super().__init__(body, key)
        data_type = key.types[0]
        if data_type in SIXTEEN_BIT:
            self.infinity = FORMATS[data_type].infinity
            self.neutral = (-self.infinity, self.infinity - (1 << 15))
        elif data_type == DataType.FLOAT32:
            self.neutral = (-math.inf,)
        else:
            self.neutral = (limits(data_type)[0],)
        self.signed = data_type.dtype.kind == "i"

    def read(self, bits: Value) -> list[Value]:
        data_type, kind = self.key.types[0], bits.kind
        if data_type == DataType.FLOAT32:
            return [bits.cast(kind.of("float"))]
        if data_type not in SIXTEEN_BIT:
            return [bits]
        size = bits & 0x7FFF
        key = self.body.chosen(bits.compared("slt", 0), -size, size)
        return [self.body.chosen(size.compared("ugt", self.infinity), 0x7FFF, key), bits]

    def unknown(self, lanes: int) -> list[Value]:
        if self.key.types[0] != DataType.FLOAT32:
            return []
        return [self.body.constant(Kind("i1", lanes), False)]

    def noted(self, bits: Value, x: list[Value], values: list[Value]) -> list[Value]:
        if not values:
            return []
        if not self.key.down:
            return [values[0] | x[0].compared("uno", x[0])]
        # reduced in another order, the first of several zeros could have the other sign
        kind = values[0].kind
        found = self.body.call(f"llvm.is.fpclass.v{kind.lanes}f32", kind, x[0], f"i32 {NAN_OR_NEGATIVE_ZERO}")
        return [values[0] | found]

    def usual(self, values: list[Value]) -> Value | None:
        if not values:
            return None
        return ~self.body.call(f"llvm.vector.reduce.or.v{values[0].kind.lanes}i1", Kind("i1"), values[0])

    def _beats(self, x: list[Value], y: list[Value]) -> Value:
        a, b = x[0], y[0]
        if a.kind.floating and self.plain:
            return a.compared("ogt", b)
        if a.kind.floating:  # NaN beats numbers, and nothing beats NaN
            return a.compared("ugt", b) & b.compared("ord", b)
        return a.compared("sgt" if self.signed or len(self.raw) > 1 else "ugt", b)

    def _chosen(self, which: Value, x: list[Value], y: list[Value]) -> list[Value]:
        return [self.body.chosen(which, a, b) for a, b in zip(x, y, strict=True)]

    def begun(self, x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        if at is None:
            return x
        return [*x, at] if there is None else [*x, at, ~there]

    def along(self, a: list[Value], x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        better = self._beats(x, a)
        if at is None:
            return self._chosen(better, x, a)
        assert there is not None
        none = a[-1]
        made = self._chosen((better | none) & there, [*x, at], a[:-1])
        return [*made, none & ~there]

    def across(self, a: list[Value], b: list[Value]) -> list[Value]:
        return self._chosen(self._beats(b, a), b, a)


class Total(Reduction):
    """A float64 sum of elements, magnitudes or squares; or a sum of integers."""

    def __init__(self, body: Body, key: WindowsKey) -> None:
        super().__init__(body, key)
        self.close = body.constant(Kind("i1"), False)
        # a sum of zeros is -0 if all of them are
        self.neutral = (0,) if key.kind in (QUANTIZED, LENGTH, SUM) else (-0.0,)

    def read(self, bits: Value) -> list[Value]:
        data_type, kind = self.key.types[0], bits.kind
        if self.key.kind == QUANTIZED:
            return [bits.converted("sext" if data_type == DataType.INT8 else "zext", kind.of("i32"))]
        x = self.single(bits)
        wide = (x.magnitude() if self.key.kind == SUM else x).converted("fpext", kind.of("double"))
        return [wide * wide if self.key.kind == LENGTH else wide]

    def single(self, bits: Value) -> Value:
        """The elements as float32."""
        return singles.widened(bits, self.key.types[0])

    def unknown(self, lanes: int) -> list[Value]:
        if not self.key.ranged:
            return []
        return [self.body.constant(Kind("i32", lanes), 0), self.body.constant(Kind("i32", lanes), -1)]

    def noted(self, bits: Value, x: list[Value], values: list[Value]) -> list[Value]:
        """The bits of the largest finite magnitude, with 1 more in its exponent; and of the least that is not 0, minus 1."""
        if not values:
            return []
        size = self.single(bits).bits() & 0x7FFFFFFF
        more = size + (1 << 23)  # negative for infinities and NaN, which is below all others
        less = size - 1  # 0 wraps around, which is above all others; those of infinities and NaN are above all other numbers
        return [self.body.intrinsic("smax", values[0], more), self.body.intrinsic("umin", values[1], less)]

    def usual(self, values: list[Value]) -> Value | None:
        """Whether float64 sums of the finite elements are exact; infinities and NaN have the right sums, except for NaN's bits.

        n numbers below 2^(e + 1) that are multiples of 2^(l - 23) need at most 53 bits if n 2^(e + 1) <= 2^(l + 30). `close`
        says whether they need at most 47.
        """
        if not values:
            return None
        body, word = self.body, Kind("i32")
        above, low = [
            body.call(f"llvm.vector.reduce.{how}.v{v.kind.lanes}i32", word, v).shifted_right(23, signed=False)
            for how, v in zip(("smax", "umin"), values, strict=True)
        ]
        bits = Value(body, "%terms", Kind("i64")).converted("trunc", word)  # n < 2^bits
        self.close = (above + bits).compared("ule", low + 24)
        return (above + bits).compared("ule", low + 30)

    def begun(self, x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        return x

    def along(self, a: list[Value], x: list[Value], at: Value | None, there: Value | None) -> list[Value]:
        return [a[0] + x[0]]

    def across(self, a: list[Value], b: list[Value]) -> list[Value]:
        return [a[0] + b[0]]


class OfBytes(Total):
    """A sum of bytes as integers, or of dequantised bytes in float64, which is exact."""

    def __init__(self, body: Body, key: WindowsKey) -> None:
        super().__init__(body, key)
        self.neutral = (0,)
        self.close = body.constant(Kind("i1"), True)
        self.between = Between(body, key)

    def nothing(self, kind: Kind) -> Value:
        return self.between.nothing() if self.key.kind == DEQUANTIZED else super().nothing(kind)

    def read(self, bits: Value) -> list[Value]:
        return [self.between.dequantised(bits) if self.key.kind == DEQUANTIZED else self.between.wide(bits)]


def reduction(body: Body, key: WindowsKey) -> Reduction:
    if key.between:
        return OfBytes(body, key)
    return WindowMaximum(body, key) if key.kind == MAX else Total(body, key)
