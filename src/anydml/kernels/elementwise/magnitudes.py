"""Numbers by their signs and orders of magnitude alone: which results are 0, infinite or NaN, or are stored as one of these.

In addition to a float64 with its bound, each node of a formula has a sign and an interval of its magnitude's logarithm, which
does not underflow: e^-1e30 times -2 is negative, and stored as -0. No function is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from anydml.exact.formats import FORMATS
from anydml.kernels.code.values import Body, Value
from anydml.kernels.elementwise.formula import FormulaWalk
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.numbers import singles
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.functions.approximate import at_least, at_most
from anydml.kernels.numbers.lanes import Truth, either
from anydml.tensor import DataType

LOG2_E = 1 / math.log(2)
ROOM = (
    2.0**-40
)  # relative room for roundings of logarithms: a few operations, each with an error of 2^-52 of the largest operand
LARGEST = 2.0**200  # logarithms beyond it count as infinite
LOG_ROOM = 0.0875  # log2(1 + f) is at most 0.0861 above f
SMALLEST = 2.0**-1000
APART = 2.0**-10  # logarithms that differ by more make a difference of certain sign: it is at least 2^-10.6 of the larger
NEARNESS = -1024.0  # a number within 2^NEARNESS of 1 counts as 1, and its difference from 1 as 0
# logarithms below which a number is stored as 0, and above which it is infinite, with room to spare
ENDS: Mapping[DataType, tuple[float, float]] = {t: (form.lowest - 3.0, form.highest + 2.0) for t, form in FORMATS.items()}


class Size(NamedTuple):
    """A number's sign (1, -1, or NaN for NaN), and the bounds of the logarithm to base 2 of its magnitude.

    Both bounds are -infinity for 0 and infinity for infinity; guard: lanes where this is not known.
    """

    sign: Value
    low: Value
    high: Value
    guard: Value | None

    def where(self, mask: Value, other: Size, guard: Value | None = None) -> Size:
        """This where a mask holds, else another; guard: of the mask."""
        sign, low, high = (mask.body.chosen(mask, x, y) for x, y in zip(self[:3], other[:3], strict=True))
        return Size(sign, low, high, Truth(mask, guard).guards(self.guard, other.guard))


def stored(body: Body, walk: FormulaWalk, formula: NormalForm, data_type: DataType) -> tuple[Value, Value]:
    """The bits of a formula's result where it is stored as 0, infinity or NaN, and the mask of the other lanes.

    walk: of the same formula; it has computed all nodes in float64.
    """
    sizes: dict[int, Size] = {}
    for place, node in enumerate(formula):
        known = _of_number(walk.number(place)) if not isinstance(walk.items[place], Truth) else None
        made = _made(walk, formula, place, sizes) if node.op not in ("stream", "constant") else None
        if known is None:
            continue
        undecided = known.guard
        sizes[place] = known if made is None or undecided is None else made.where(undecided, known._replace(guard=None))
    found = sizes[len(formula) - 1]
    least, most = ENDS[data_type]
    zero, beyond = found.high.compared("olt", least), found.low.compared("ogt", most)
    nan = found.sign.compared("uno", found.sign)
    value = body.chosen(beyond, math.inf, found.low.lift(0.0)).signed_as(found.sign)
    value = body.chosen(nan, math.nan, value)
    bits = singles.narrowed(value, data_type)
    undecided = ~(zero | beyond | nan)
    return bits, undecided if found.guard is None else undecided | found.guard


def _of_number(x: Number) -> Size:
    """The sign and magnitude of a number, where its bound leaves the sign certain."""
    v = x.wide()
    body, size = v.body, v.magnitude()
    finite = size.compared("olt", math.inf)
    error = v.lift(0.0) if x.exact else x.error()
    low, high = _below_logarithm(size - error * 1.125), _below_logarithm(size + error * 1.125) + LOG_ROOM
    end = body.chosen(finite, -math.inf, low.lift(math.inf))
    special = ~finite | size.compared("oeq", 0.0)
    low, high = body.chosen(special, end, low), body.chosen(special, end, high)
    sign = body.chosen(v.compared("uno", v), math.nan, v.lift(1.0).signed_as(v))
    if x.exact:
        return Size(sign, low, high, x.guard)
    sure = (error * 2.0).compared("ole", size) | ~finite
    if x.saturated:
        sure = sure & size.compared("olt", 2.0**x.saturated) & size.compared("ogt", 2.0**-x.saturated)
    return Size(sign, low, high, either(~sure, x.guard))


def _below_logarithm(x: Value) -> Value:
    """A number between log2(x) - LOG_ROOM and log2(x), for x > 0: the exponent plus f, in place of log2(1 + f)."""
    body, bits = x.body, x.bits()
    small = x.compared("olt", SMALLEST)
    bits = body.chosen(small, (x * 2.0**100).bits(), bits)  # a subnormal number has no exponent
    one = body.constant(bits.kind, 1023 << 52)
    # 2^52 and the exponent's bits are a float64 from which 2^52 is subtracted
    exponent = ((bits.shifted_right(52, signed=False) & 2047) | (0x433 << 52)).cast(x.kind) - (2.0**52 + 1023)
    found = exponent + (((bits & ((1 << 52) - 1)) | one).cast(x.kind) - 1.0)
    return body.chosen(small, found - 100.0, found)


def _made(walk: FormulaWalk, formula: NormalForm, place: int, sizes: Mapping[int, Size]) -> Size | None:
    """A node from what is known of its arguments; None where there is no rule."""
    op, args, data = formula[place]
    if op == "select":
        truth = walk.truth(args[0])
        return sizes[args[1]].where(truth.mask, sizes[args[2]], truth.guard)
    if any(a not in sizes for a in args):
        return None
    if op in ("sigmoid", "exp", "softplus"):
        return _exponential(walk.number(args[0]), op)
    if op == "erfc":
        return _of_erfc(walk.number(args[0]))
    if op == "sub" and (found_beside := _beside_one(walk, formula, args)) is not None:
        return found_beside
    operands = [sizes[a] for a in args]
    if op == "gelu":
        return _of_gelu(walk.number(args[0]), operands[0])
    if op == "same":
        return operands[0]
    if op == "neg":
        return operands[0]._replace(sign=-operands[0].sign)
    if op in ("add", "sub"):
        a, b = operands
        return _sum(a, b if op == "add" else b._replace(sign=-b.sign))
    if op in ("mul", "div"):
        a, b = operands
        low, high = (a.low + b.low, a.high + b.high) if op == "mul" else (a.low - b.high, a.high - b.low)
        sign = a.sign * b.sign  # the logarithms of 0 times infinity are NaN, and so is the sign
        sign = sign.body.chosen(low.compared("uno", high), math.nan, sign)
        return Size(sign, low, high, either(a.guard, b.guard))
    if op in ("max", "min"):
        return _extreme(*operands, larger=op == "max")
    if op == "expm1":  # its magnitude is between |x| / 2 and 2 |x| where |x| is below 1
        (x,) = operands
        return Size(x.sign, x.low - 1.0, x.high + 1.0, either(x.guard, x.high.compared("oge", 0.0)))
    if op == "tanh":  # its magnitude is between min(|x|, 1) / 2 and min(|x|, 1)
        (x,) = operands
        return Size(x.sign, at_most(x.low, 0.0) - 1.0, at_most(x.high, 0.0), x.guard)
    if op == "limits":
        argument, made = walk.number(args[0]), operands[1]
        for name, text in data:
            limit = _of_value(argument.wide(), float(text))
            made = limit.where(argument.wide().compared("oeq", math.inf if name == "high" else -math.inf), made)
        return made._replace(guard=either(made.guard, argument.guard))
    return None


def _of_value(like: Value, value: float) -> Size:
    """The sign and magnitude of a constant."""
    if value != value:
        return Size(like.lift(math.nan), like.lift(0.0), like.lift(0.0), None)
    log = math.inf if math.isinf(value) else math.frexp(value)[1] if value else -math.inf
    return Size(like.lift(math.copysign(1.0, value)), like.lift(log - 1), like.lift(log), None)


def _exponential(x: Number, op: str) -> Size:
    """e^x, 1 / (1 + e^-x), or log(1 + e^x) for x < 0: the latter two are between min(e^x, 1) / 2 and min(e^x, 1)."""
    v = x.wide()
    body, finite = v.body, v.magnitude().compared("olt", math.inf)
    error = v.lift(0.0) if x.exact else body.chosen(finite, x.error(), 0.0)
    low, high = (v - error) * LOG2_E, (v + error) * LOG2_E
    # room for roundings, of -infinity as well
    low, high = (end + at_most(end.magnitude(), LARGEST) * room for end, room in ((low, -ROOM), (high, ROOM)))
    guard = ~error.compared("olt", math.inf)
    if op == "softplus":
        guard = guard | (v + error).compared("oge", 0.0)
    if op != "exp":
        # 1 + e^x is at most 2, and nearly 1 far out
        low = at_most(low, 0.0) - body.chosen(low.compared("olt", -24.0), 2.0**-23, low.lift(1.0))
        high = at_most(high, 0.0)
    else:
        low, high = low - 2.0**-23, high + 2.0**-23
    sign = body.chosen(v.compared("uno", v), math.nan, v.lift(1.0))
    return Size(sign, low, high, either(x.guard, guard))


def _of_erfc(x: Number) -> Size:
    """erfc(x) for x > 2: between e^(-x^2) / (2 x sqrt(pi)) and e^(-x^2)."""
    v = x.wide()
    error = v.lift(0.0) if x.exact else x.error()
    near, far = v - error, v + error  # ROOM is also for their roundings
    guard = ~near.compared("ogt", 2.0) | ~far.compared("olt", LARGEST)
    low = -(far * far) * (LOG2_E * (1 + ROOM)) - _below_logarithm(far) - 2.0
    return Size(v.lift(1.0), low, -(near * near) * (LOG2_E * (1 - ROOM)), either(x.guard, guard))


def _of_gelu(x: Number, size: Size) -> Size:
    """x erfc(z) / 2 for z = -x / sqrt(2): erfc is between 1 and 2 above 0, and from 2^-8 to 1 for z from 0 to 2.03."""
    body, z = x.body, -x.wide() * math.sqrt(0.5)
    error = z.magnitude() * 2.0**-50
    error = error if x.exact else error + x.error()
    far = _of_erfc(Number(body, lambda: z, err=lambda: error))
    near, above = (z + error).compared("olt", 2.03), size.sign.compared("ogt", 0.0)
    low = body.chosen(above, 0.0, body.chosen(near, -8.0, far.low))
    high = body.chosen(above, 1.0, body.chosen(near, 0.0, far.high))
    undecided = far.guard and far.guard & ~(near | above | size.sign.compared("uno", size.sign))
    return Size(size.sign, size.low + low - 1.0, size.high + high - 1.0, either(size.guard, undecided))


def _beside_one(walk: FormulaWalk, formula: NormalForm, args: tuple[int, ...]) -> Size | None:
    """1 - sigmoid(x), which is sigmoid(-x) unless that counts as 0."""
    one, other = (formula[a] for a in args)
    if one.op != "constant" or one.data.value != 1 or other.op != "sigmoid":
        return None
    x = walk.number(other.args[0])
    found = _exponential(_negated(x), "sigmoid")
    body = found.low.body
    nothing = found.high.compared("olt", NEARNESS - 2)
    between = found.low.compared("olt", NEARNESS + 2) & ~nothing
    low, high = (body.chosen(nothing, -math.inf, end) for end in (found.low, found.high))
    return Size(found.sign, low, high, either(found.guard, between))


def _negated(x: Number) -> Number:
    error = x.wide().lift(0.0) if x.exact else x.error()
    return Number(x.body, lambda: -x.wide(), err=lambda: error, guard=x.guard)


def _above(a: Size, b: Size) -> Value:
    """The lanes where a's magnitude is known to be the larger by far more than roundings."""
    room = at_most(a.low.magnitude(), LARGEST) + at_most(b.high.magnitude(), LARGEST)
    return a.low.compared("ogt", b.high + (room * ROOM + APART))


def _sum(a: Size, b: Size) -> Size:
    body = a.sign.body
    same = a.sign.compared("oeq", b.sign)
    most = at_least(a.high, b.high)
    first, second = _above(a, b), _above(b, a)
    zero = most.compared("oeq", -math.inf)
    infinite = a.low.compared("oeq", math.inf) & b.low.compared("oeq", math.inf)
    least = at_least(a.low, b.low)
    low, high = body.chosen(same, least, least - 12.0), body.chosen(same, most + 1.0, most)
    sign = body.chosen(same | first, a.sign, body.chosen(second, b.sign, 1.0))
    sign = body.chosen((infinite & ~same) | a.sign.compared("uno", b.sign), math.nan, sign)
    known = same | first | second | zero | sign.compared("uno", sign)
    return Size(sign, low, high, either(~known, a.guard, b.guard))


def _extreme(a: Size, b: Size, *, larger: bool) -> Size:
    """The larger or the smaller; -0 is less than +0, and NaN stays."""
    body = a.sign.body
    same = a.sign.compared("oeq", b.sign)
    equal = a.low.compared("oeq", b.high) & a.high.compared("oeq", b.low)  # equal, both 0 or both infinite
    upper = _above(a, b)  # in magnitude
    known = ~same | upper | _above(b, a) | equal
    above = body.chosen(same, a.sign, 0.0).compared("ogt", 0.0)  # both are positive
    takes = (same & ((upper & above) | (~upper & ~above))) | (~same & a.sign.compared("ogt", 0.0))
    if not larger:
        takes = ~takes
    found = a.where(takes, b)
    sign = body.chosen(a.sign.compared("uno", b.sign), math.nan, found.sign)
    return found._replace(sign=sign, guard=either(a.guard, b.guard, ~known & sign.compared("ord", sign)))
