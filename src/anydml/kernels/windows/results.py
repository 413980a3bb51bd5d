"""Results of sums over windows: quotients, roots and quantised means, correctly rounded.

u is 2^-53. A quotient v of exact numbers, rounded once, is rounded again to fewer digits. This gives the same as one rounding,
unless v is a tie b of the second rounding and the exact quotient t is not. This does not happen:

- t = N / n for a float64 N and an integer n up to 2^20, and b has at most 25 digits: N and n b are then multiples of the last
place of N, so that t and b differ by more than half of the last place of b.
- If b is a tie of subnormal numbers, it and N are multiples of 2^-150, so that t and b differ by at least 2^-170, and v is
within 2^-126 u of t, or 2^-175 without its last four bits.
- t = N / D where N has 47 digits, D 39 and b 11: as integers on a common scale, N and b D differ by 2^-50 of themselves.
"""

from __future__ import annotations

import math

from anydml.kernels.code.values import Value
from anydml.kernels.match.windows import LENGTH, MEAN, QUANTIZED
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.floats.numbers import SLACK, Number, U, odd_of
from anydml.kernels.numbers.floats.rounding import rounded_to_whole, stored
from anydml.kernels.numbers.functions.pairs import two_sum
from anydml.kernels.numbers.known import Known
from anydml.kernels.windows.key import WindowsKey
from anydml.tensor import DataType, limits


def as_bits(x: Value, data_type: DataType) -> Value:
    """The bits of numbers that are rounded to a data type; x may be any number that rounds to the same as the exact one."""
    if data_type != DataType.FLOAT32:
        return singles.narrowed(x, data_type)
    y = x.converted("fptrunc", x.kind.of("float"))
    return x.body.chosen(y.compared("ord", y), y, math.nan).bits()


def number_of(counts: Value) -> Value:
    """The divisor of a mean in float64: the count, or 1 if it is 0."""
    least = counts.body.chosen(counts.compared("eq", 0), 1, counts)
    return least.converted("sitofp", counts.kind.of("double"))


def mean(key: WindowsKey, total: Value, number: Value, inverse: Value, *, close: bool) -> Value:
    """The bits of exact sums divided by a number of elements; inverse: the float64 nearest to its reciprocal.

    close: sums have at most 47 bits. Then no quotient is nearer to a tie of float32 than 2^-47 of itself, unless it is the tie.
    The product with the inverse is within 2 u of the quotient; without its last four bits it is the tie in that case, too.
    """
    if total.body.target.probe is not None:
        v = total * inverse if key.halves or close else total / number
        return recorded.claimed(v, v.lift(0.0), v.magnitude() * (-4 * U), None, key.types[1].element_bits)[0]
    if key.halves and key.types[1] == DataType.FLOAT32:  # the product is exact
        return as_bits(total * inverse, key.types[1])
    if close and key.types[1] == DataType.FLOAT32:  # an infinity stays one, and so does NaN
        return as_bits((((total * inverse).bits() + 8) & -16).cast(total.kind), key.types[1])
    return as_bits(total / number, key.types[1])


def careful(key: WindowsKey, total: Value, left: Value, lost: Value, counts: Value) -> tuple[Value, Value]:
    """The bits of results from sums with the rounding errors of their additions, and the undecided lanes.

    total: the sums; left: the sums of the errors; lost: the sum of the magnitudes of the errors of the latter.
    """
    body = total.body
    finite = total.magnitude().compared("olt", math.inf)  # the error of an infinite sum is NaN
    high, low = two_sum(total, left)
    high = body.chosen(finite & left.compared("une", 0.0), high, total)  # keeps -0
    low, lost = (body.chosen(finite, x, 0.0) for x in (low, lost))
    inexact = lost.compared("une", 0.0)
    if key.kind == LENGTH:
        return root(key, high, low, lost)
    if key.kind == MEAN:
        made = v = high / number_of(counts)
        inexact = inexact | low.compared("une", 0.0)
    else:
        made, v = odd_of(high, low), high
    # t is within u of v; the low part adds another u, and `lost` adds itself
    e = body.fused(v.magnitude(), 4 * U, lost)
    if body.target.probe is not None:
        bound = body.chosen(inexact, e, v.magnitude() * (-2 * U))  # if sums are exact, v is rounded once
        return recorded.claimed(v, v.lift(0.0), bound, None, key.types[1].element_bits)
    ends = [as_bits(end, key.types[1]) for end in (v - e, v + e)]
    return as_bits(made, key.types[1]), inexact & ends[0].compared("ne", ends[1])


def root(key: WindowsKey, high: Value, low: Value, lost: Value) -> tuple[Value, Value]:
    """The bits of the roots of high + low, which is known up to `lost`, and the undecided lanes.

    The root of high has a relative error of u, and low adds as much. If both ends of this interval round to different results,
    the middle b between these has at most 25 digits, so that its square is exact in float64, and so is its difference from
    high, which is near. The sign of (high - b^2) + low, which one rounding keeps, says on which side of b the root is, or that
    it is b.
    """
    near, data_type, share = high.root(), key.types[1], 4 * U
    if high.body.target.probe is not None:
        return recorded.claimed(near, near.lift(0.0), near * share, None, data_type.element_bits)
    ends = [as_bits(end, data_type) for end in (near * (1 - share), near * (1 + share))]
    differ = ends[0].compared("ne", ends[1])
    first, second = (_number(end, data_type) for end in ends)
    middle = (first + second) * 0.5
    rest = (high - middle * middle) + low
    sure = lost.compared("oeq", 0.0) | rest.magnitude().compared("ogt", lost * SLACK)
    made = high.body.chosen(differ, odd_of(middle, rest), near)
    return as_bits(made, data_type), differ & ~(sure & middle.compared("olt", math.inf))


def _number(bits: Value, data_type: DataType) -> Value:
    """Elements as float64."""
    single = singles.widened(bits, data_type)
    return single.converted("fpext", bits.kind.of("double"))


def length(key: WindowsKey, total: Value) -> tuple[Value, Value | None]:
    """The bits of the roots of sums of squares, and the undecided lanes."""
    root = total.root()
    rel = (key.additions / 2 + 2) * U * SLACK
    return stored(Number(total.body, lambda: root, Known(0.0), rel=rel), key.types[1], integral=False)


def quantized(
    key: WindowsKey, total: Value, terms: Value, counts: Value, parameters: list[Value | None]
) -> tuple[Value, Value | None]:
    """The bits of quantised means, and the undecided lanes; parameters: scales (float32) and zero points (i32), as in
    `WindowReduction`."""
    body = total.body
    x_scale, x_zero, y_scale, y_zero = parameters
    assert x_scale is not None
    assert y_scale is not None
    if x_zero is not None:
        total = total - terms * x_zero
    wide = total.kind.of("double")
    n = total.converted("sitofp", wide) * x_scale.converted("fpext", wide)
    d = number_of(counts) * y_scale.converted("fpext", wide)
    v = n / d
    low, high = limits(key.types[1])
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
    # with an infinite scale, the sum of the scaled elements is not the scaled sum
    undecided = ~x_scale.magnitude().compared("olt", math.inf)
    return steps.converted("trunc", total.kind.of("i8")), undecided


def line(
    key: WindowsKey, total: Value, terms: Value, counts: Value, parameters: list[Value | None]
) -> tuple[Value, Value | None]:
    """The bits of a group of results, and the undecided lanes.

    terms: the number of elements of each window; counts: the divisors of means.
    """
    if key.kind == LENGTH:
        return length(key, total)
    if key.kind == QUANTIZED:
        return quantized(key, total, terms, counts, parameters)
    return as_bits(total, key.types[1]), None
