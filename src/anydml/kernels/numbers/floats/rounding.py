"""Roundings of numbers with bounds: to the type that stores them, and to integers."""

from __future__ import annotations

import math
from dataclasses import replace

from anydml.exact.formats import FORMATS
from anydml.kernels.code import probe
from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats import recorded
from anydml.kernels.numbers.floats.numbers import SLACK, Lazy, Number, U, of_single, once
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.functions.pair_intervals import COARSE
from anydml.kernels.numbers.known import Known, known_of
from anydml.kernels.numbers.lanes import either
from anydml.kernels.numbers.singles import NARROW
from anydml.kernels.numbers.wholes import WholeNumber
from anydml.tensor import DataType, limits

SIXTEEN_BIT = (DataType.FLOAT16, DataType.BFLOAT16)
HALF_SINGLE = 1 << 28  # the low bits of a float64 that is a tie of float32


def nearest_single(x: Number) -> tuple[Value, Value | None]:
    """t rounded half to even to float32, and the undecided lanes."""
    if x.single is not None:
        return x.single, None
    if x.native is not None:
        return x.native(), None
    if x.pair is not None:
        ends = x.pair.ends()
        differ = ends[0].compared("une", ends[1])
        return ends[1] if x.pair.sign is None else (ends[1].bits() ^ x.pair.sign).cast(ends[1].kind), differ
    single = x.wide().kind.of("float")
    if (odd := x.wide if x.exact else x.odd) is not None:
        return odd().converted("fptrunc", single), None
    low, high = (end.converted("fptrunc", single) for end in _ends(x))
    if x.err is None:
        return high, low.compared("one", high)  # both ends have the sign of v
    # a decided lane is v rounded
    return x.wide().converted("fptrunc", single), _undecided(x, low.bits().compared("ne", high.bits()))


def nearest_half(x: Number, data_type: DataType) -> tuple[Value, Value | None]:
    """The bits of t rounded half to even to a type of `NARROW`, and the undecided lanes."""
    if x.single is not None:
        return singles.narrowed(x.single, data_type), None
    if x.native is not None and _rounded_twice_is_once(x.operands, data_type):
        return singles.narrowed(x.native(), data_type), None
    if x.pair is not None and x.pair.coarse is not None and data_type == DataType.BFLOAT16:
        return singles.brains_near(x.pair.coarse, COARSE)
    if x.pair is not None:
        ends = x.pair.ends()
        bits, differ = singles.near(ends[1], data_type) if x.pair.close else singles.between(*ends, data_type)
        if x.pair.sign is not None:
            top = data_type.element_bits - 1
            bits = bits ^ (x.pair.sign.shifted_right(31, signed=False).converted("trunc", bits.kind) << top)
        return bits, differ
    if (odd := x.wide if x.exact else x.odd) is not None:
        return singles.narrowed(odd(), data_type), None
    share = x.rel * SLACK + 2 * U
    if data_type == DataType.BFLOAT16 and x.err is None and x.ends is None and share <= 2.0**-26:
        return singles.brains_within(x.wide(), share)
    low, high = (singles.narrowed(end, data_type) for end in _ends(x))
    undecided = low.compared("ne", high)
    if x.err is None:
        return high, undecided
    return singles.narrowed(x.wide(), data_type), _undecided(x, undecided)


def _rounded_twice_is_once(operands: tuple[Known, ...], data_type: DataType) -> bool:
    """Whether a float32 operation of these operands rounds to FLOAT16 or BFLOAT16 as its exact result does.

    It does if the operands are numbers of that type: float32 has twice as many digits and two more. Then sums, products,
    quotients and roots that float32 does not hold are no nearer to a tie of the type than float32's rounding. BFLOAT16's
    subnormal numbers are float32's, too: there, sums are exact; a product of two integers below 2^8 is not next to a multiple
    of 2^16, and a quotient that is no tie is at least 2^-142 away from one, more than half of float32's last place, 2^-150.
    """
    if data_type not in SIXTEEN_BIT or not operands:
        return False
    form = FORMATS[data_type]
    return all(k.digits <= form.precision and k.has_quantum(form.lowest) and k.largest <= 2.0**form.highest for k in operands)


def _ends(x: Number) -> tuple[Value, Value]:
    """Two values that enclose t."""
    if x.ends is not None:
        return x.ends()
    v = x.wide()
    if x.err is None:
        share = x.rel * SLACK + 2 * U
        return v * (1 - share), v * (1 + share)
    e = x.error() * (1 + 4 * U)
    # covers the roundings of the ends themselves
    e = x.body.fused(v.magnitude(), 2 * U, e)
    return v - e, v + e


def _finite(x: Number) -> Value:
    return x.wide().magnitude().compared("one", math.inf)


def _undecided(x: Number, differ: Value) -> Value:
    """The undecided lanes of a number with an absolute bound: finite ones whose ends differ, or whose bound is NaN."""
    e = x.error()
    # for a bound of 0, the ends are v, up to the sign of a zero
    return (differ & e.compared("une", 0.0) | e.compared("uno", e)) & _finite(x)


def between_ends(x: Number, data_type: DataType) -> tuple[Value, Value] | None:
    """The bits of a float that stores a number with known ends, and the lanes where the ends store different bits.

    These lanes include all that `stored` leaves undecided, and are cheaper to find. None if the number is not known by its
    ends.
    """
    if x.single is not None or x.native is not None or x.pair is not None or x.exact or x.odd is not None:
        return None
    low, high = ends = _ends(x)
    if x.body.target.probe is not None:
        bits = probe.record_of_ends(low, high, x.guard, data_type.element_bits)
        return bits, x.body.constant(bits.kind.of("i1"), False)
    if data_type == DataType.FLOAT32:
        low, high = (end.converted("fptrunc", x.wide().kind.of("float")) for end in ends)
        differ = low.bits().compared("ne", high.bits()) | low.compared("uno", high)
        high = high.bits()
    elif data_type in NARROW:
        low, high = (singles.narrowed(end, data_type) for end in ends)
        differ = low.compared("ne", high) | ends[0].compared("uno", ends[1])
    else:
        return None
    return high, differ if x.guard is None else differ | x.guard


def as_rounded(x: Number, data_type: DataType) -> Number:
    """The number as a tensor of a float type stores it."""
    if data_type == DataType.FLOAT32:
        if x.single is not None:
            return of_single(x.single, x.known, x.guard)
        single, undecided = nearest_single(x)
        return of_single(single, guard=either(x.guard, undecided))
    if data_type in NARROW:
        bits, undecided = nearest_half(x, data_type)
        return of_single(singles.widened(bits, data_type), known_of(data_type), either(x.guard, undecided))
    if x.exact:
        return x
    raise Uncompilable("a definition rounds to FLOAT64")


# --- to integers ---


def to_whole(op: str, x: Number, *, narrowed: bool = False) -> Number:
    """A number rounded to an integer. op: floor, ceil, truncate, half_to_even or half_away; narrowed: the result is only stored
    as a type of `singles`.

    From 2^52 on, a number rounded to odd is on the same side of a tie of float32 as its integers are, or both are the tie,
    unless it is next to a tie.
    """
    known, guard = x.known.whole(), x.guard
    if x.single is not None:
        return of_single(rounded_to_whole(op, x.single), replace(known, digits=min(24, known.digits)), guard)
    value: Lazy
    if (odd := x.wide if x.exact else x.odd) is not None:
        value = once(lambda: rounded_to_whole(op, odd()))
    else:
        ends = [rounded_to_whole(op, end) for end in _ends(x)]
        differ = ends[0].bits().compared("ne", ends[1].bits())
        guard = either(guard, differ & _finite(x) if x.err is None else _undecided(x, differ))
        value = once(lambda: rounded_to_whole(op, x.wide()))
    near_half = op.startswith("half")  # half a unit has to be told from nearby numbers
    far = 2.0**51 if near_half else 2.0**52
    if x.known.largest >= far and not x.exact:
        if narrowed and odd is not None and not near_half:
            guard = either(guard, ((value().bits() + (HALF_SINGLE + 1)) & (2 * HALF_SINGLE - 3)).compared("eq", 0))
        else:
            guard = either(guard, x.wide().magnitude().compared("oge", far) & _finite(x))
    return Number(x.body, value, known, exact=True, guard=guard)


def rounded_to_whole(op: str, x: Value) -> Value:
    """A float rounded to an integer of the same type; a zero keeps the sign of x."""
    body = x.body
    if op == "half_away":
        size = x.magnitude()
        down = rounded_to_whole("floor", size)
        return body.chosen((size - down).compared("oge", 0.5), down + 1.0, down).signed_as(x)
    if body.has_rounding:
        return body.intrinsic({"truncate": "trunc", "half_to_even": "roundeven"}.get(op, op), x)
    size = x.magnitude()
    magic = 2.0**23 if x.kind.element == "float" else 2.0**52
    near = body.chosen(size.compared("olt", magic), (size + magic) - magic, size).signed_as(x)
    if op == "half_to_even":
        return near
    if op == "truncate":
        near = near.magnitude()
        return body.chosen(near.compared("ogt", size), near - 1.0, near).signed_as(x)
    if op == "floor":
        return body.chosen(near.compared("ogt", x), near - 1.0, near).signed_as(x)
    return body.chosen(near.compared("olt", x), near + 1.0, near).signed_as(x)


# --- to the type of the output ---


def stored(x: Number | WholeNumber, data_type: DataType, *, integral: bool) -> tuple[Value, Value | None]:
    """The bits of the element that stores a number, and the undecided lanes."""
    bits = data_type.element_bits
    if isinstance(x, WholeNumber):
        return x.resized(bits), None
    if x.body.target.probe is not None and data_type.is_float:
        return recorded.number(x, _ends, bits)
    if data_type in NARROW:
        half, undecided = nearest_half(x, data_type)
        return half, either(x.guard, undecided)
    if data_type in (DataType.FLOAT32, DataType.FLOAT64):
        if data_type == DataType.FLOAT32:
            y, undecided = nearest_single(x)
            if x.pair is not None:  # NaN is outside of pairs
                return y.bits(), either(x.guard, undecided)
        elif x.exact or x.nearest or (x.odd is not None and x.rel == U and x.err is None):
            y, undecided = x.wide(), None
        else:
            raise Uncompilable("a result of FLOAT64 that is more than one operation of exact numbers")
        return x.body.chosen(y.compared("ord", y), y, math.nan).bits(), either(x.guard, undecided)
    low, high = limits(data_type)
    guard = x.guard
    value: Value
    if x.single is not None and (bits <= 16 or (bits == 32 and low < 0)):
        value = x.single
    elif (odd := x.wide if x.exact else x.odd) is not None:
        value = odd()
    else:
        ends = [*_ends(x)]
        if not integral:  # numbers beyond the limits saturate
            ends = [at_most(at_least(end, float(low)), float(high)) for end in ends]
        ends = [rounded_to_whole("truncate", end) for end in ends]
        differ = ends[0].compared("one", ends[1])
        guard = either(guard, differ if x.err is None else _undecided(x, differ))
        value = rounded_to_whole("truncate", x.wide())
    if integral:
        if x.exact and low <= x.known.low and x.known.high <= high and data_type != DataType.UINT32:
            return _integer(value, bits, low < 0), guard
        if x.exact and x.known.largest < 2.0**51 and bits <= 32:  # the low bits of this sum are the integer modulo 2^bits
            return _narrow((x.wide() + 1.5 * 2.0**52).bits(), bits), guard
        raise Uncompilable("an integer that does not fit its type is made of real numbers")
    return saturated(value, bits, low, high), guard


def saturated(x: Value, bits: int, low: int, high: int) -> Value:
    """A float truncated to an integer; numbers beyond the limits saturate, and NaN gives 0."""
    body = x.body
    most, beyond = float(high), None
    if x.kind.element == "float" and bits == 32:
        most = 2.0**31 - 2.0**7  # the largest float32 below 2^31
    elif bits == 64:
        most = math.nextafter(most, 0)
    if most != high:
        beyond = x.compared("oge", float(high + 1))
    x = body.chosen(x.compared("ord", x), x, 0.0)  # Arm's maximum of 0 and a signalling NaN is a NaN
    x = body.chosen(x.compared("ogt", float(low)), x, float(low))
    x = body.chosen(x.compared("olt", most), x, most)
    found = _integer(x, bits, low < 0)
    return found if beyond is None else body.chosen(beyond, high if low < 0 else -1, found)


def _integer(x: Value, bits: int, signed: bool) -> Value:
    """A float within the type's range, as an integer of `bits` bits."""
    body, kind = x.body, x.kind
    if bits < 32 or (bits == 32 and signed):
        return x.converted("fptosi" if signed else "fptoui", kind.of(f"i{bits}"))
    if bits == 32:
        # truncated first: for x below 2^31 the difference is negative, and would be truncated in the other direction
        return (rounded_to_whole("truncate", x) - 2.0**31).converted("fptosi", kind.of("i32")) ^ -(1 << 31)
    if signed:
        return x.converted("fptosi", kind.of("i64"))
    large = x.compared("oge", 2.0**63)
    small = body.chosen(large, x - 2.0**63, x).converted("fptosi", kind.of("i64"))
    return small ^ body.chosen(large, body.constant(small.kind, -(1 << 63)), body.constant(small.kind, 0))


def _narrow(x: Value, bits: int) -> Value:
    return x.converted("trunc", x.kind.of(f"i{bits}"))
