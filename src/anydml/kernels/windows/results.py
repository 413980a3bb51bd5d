"""Results of sums over windows: quotients, roots and quantised means, correctly rounded.

u is 2^-53. A quotient v of exact numbers N and D is within u of t = N / D, and no double lies between them: only where v
itself is half between two elements, with few digits, does it matter on which side of it t is. The sign of N - v D says so,
which is exact there: D is taken in two parts, so that its products by v are, and N and v D are close.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.elementwise import halves
from anydml.kernels.elementwise.functions.pairs import two_sum
from anydml.kernels.elementwise.numbers import SLACK, Number, U, odd_of
from anydml.kernels.elementwise.rounding import rounded_to_whole, stored
from anydml.kernels.match.windows import LENGTH, MEAN, QUANTIZED
from anydml.kernels.windows.shape import Shape
from anydml.tensor import DataType, limits

FEW_DIGITS = (1 << 28) - 1  # bits of a float64 that are 0 in a number of 25 digits


def quotient(n: Value, d: Value) -> Value:
    """A number that every type of up to 24 digits rounds as it does n / d."""
    v = n / d
    bits = v.bits()
    high = (d.bits() & -(1 << 27)).cast(d.kind)
    left = (n - v * high) - v * (d - high)
    few = (bits & FEW_DIGITS).compared("eq", 0)
    toward = (bits ^ left.bits()).shifted_right(63, signed=True) | 1  # -1 where t lies toward 0
    return v.body.chosen(few & left.compared("one", 0.0), bits + toward, bits).cast(v.kind)


def as_bits(x: Value, data_type: DataType) -> Value:
    """A number that stands for one that rounds alike, rounded."""
    if data_type == DataType.FLOAT16:
        return halves.narrowed(halves.odd_single(x))
    y = x.converted("fptrunc", x.kind.of("float"))
    return x.body.chosen(y.compared("ord", y), y, math.nan).bits()


def number_of(counts: Value) -> Value:
    """How many elements a mean divides by."""
    least = counts.body.chosen(counts.compared("eq", 0), 1, counts)
    return least.converted("sitofp", counts.kind.of("double"))


def mean(shape: Shape, total: Value, number: Value, inverse: Value, *, close: bool) -> Value:
    """The bits of exact sums divided by a number of elements; inverse: what is nearest to its reciprocal.

    The product by the reciprocal is within 2 u of the quotient, and of FLOAT32 that is no subnormal number here: it is next
    to what is half between two elements alone that the side matters on which the quotient is. close: of sums of up to 47
    bits no quotient is nearer to that than 2^-47 of itself, unless it is just that: then so is the product without its last
    four bits.
    """
    body = total.body
    if shape.types[1] == DataType.FLOAT16:
        return as_bits(quotient(total, number), shape.types[1])
    v = total * inverse
    single = v.kind.of("float")
    if shape.halves:  # the product is exact
        return v.converted("fptrunc", single).bits()
    if close:
        return ((v.bits() + 8) & -16).cast(v.kind).converted("fptrunc", single).bits()
    bits = v.bits() + 8
    near = (bits & FEW_DIGITS).compared("ult", 17)
    half = bits & ~FEW_DIGITS
    boundary = half.cast(v.kind)
    left = body.fused(-boundary, number, total)  # its product by the number is exact
    toward = (half ^ left.bits()).shifted_right(63, signed=True) | 1
    moved = body.chosen(left.compared("one", 0.0), half + toward, half)
    return body.chosen(near, moved.cast(v.kind), v).converted("fptrunc", single).bits()


def careful(shape: Shape, total: Value, left: Value, lost: Value, counts: Value) -> tuple[Value, Value | None]:
    """The bits of what a sum comes to that is known with what its additions left over, and the lanes that are open.

    lost: the magnitudes of what the additions of that left over.
    """
    body = total.body
    finite = total.magnitude().compared("olt", math.inf)  # of infinities, NaN is left over
    high, low = two_sum(total, left)
    high = body.chosen(finite & left.compared("une", 0.0), high, total)  # which may be -0
    low, lost = (body.chosen(finite, x, 0.0) for x in (low, lost))
    inexact = lost.compared("une", 0.0)
    if shape.kind == MEAN:
        number = number_of(counts)
        made, v = quotient(high, number), high / number
        inexact = inexact | low.compared("une", 0.0)
    else:
        made, v = odd_of(high, low), high
    # t is within u of v, what is left is another u, and what is lost as it says
    e = body.fused(v.magnitude(), 4 * U, lost)
    ends = [as_bits(end, shape.types[1]) for end in (v - e, v + e)]
    return as_bits(made, shape.types[1]), inexact & ends[0].compared("ne", ends[1])


def length(shape: Shape, total: Value) -> tuple[Value, Value | None]:
    """The bits of the root of a sum of squares, and the lanes that are open."""
    root = total.root()
    rel = (shape.additions / 2 + 2) * U * SLACK
    return stored(Number(total.body, lambda: root, low=0.0, rel=rel), shape.types[1], integral=False)


def quantized(
    shape: Shape, total: Value, terms: Value, counts: Value, parameters: list[Value | None]
) -> tuple[Value, Value | None]:
    """The bits of a mean that is quantised, and the lanes that are open; parameters: as `Windows` has them, float32 or i32."""
    body = total.body
    x_scale, x_zero, y_scale, y_zero = parameters
    assert x_scale is not None
    assert y_scale is not None
    if x_zero is not None:
        total = total - terms * x_zero
    wide = total.kind.of("double")
    n = total.converted("sitofp", wide) * x_scale.converted("fpext", wide)
    d = number_of(counts) * y_scale.converted("fpext", wide)
    v = quotient(n, d)
    low, high = limits(shape.types[1])
    none = v.compared("uno", v)
    far = 1024.0
    v = body.chosen(v.compared("olt", far), v, far)
    v = body.chosen(v.compared("ogt", -far), v, -far)
    steps = rounded_to_whole("half_to_even", v).converted("fptosi", total.kind)
    if y_zero is not None:
        steps = steps + y_zero
    steps = body.chosen(steps.compared("slt", low), low, steps)
    steps = body.chosen(steps.compared("sgt", high), high, steps)
    steps = body.chosen(none, low, steps)
    # a sum of infinite terms is not the sum of the elements times infinity
    open_ = ~x_scale.magnitude().compared("olt", math.inf)
    return steps.converted("trunc", total.kind.of("i8")), open_


def line(shape: Shape, total: Value, terms: Value, counts: Value, parameters: list[Value | None]) -> tuple[Value, Value | None]:
    """The bits of a group of results, and the lanes that are open.

    terms: how many elements each has; counts: how many a mean divides by.
    """
    if shape.kind == LENGTH:
        return length(shape, total)
    if shape.kind == QUANTIZED:
        return quantized(shape, total, terms, counts, parameters)
    return as_bits(total, shape.types[1]), None
