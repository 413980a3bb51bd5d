"""Functions of numbers with bounds: the bound of a result follows from the argument's bound and the function's own error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import NamedTuple

from anydml.kernels.code.engine import Uncompilable
from anydml.kernels.code.values import Value
from anydml.kernels.numbers.floats import arithmetic, choices, numbers
from anydml.kernels.numbers.floats.numbers import SLACK, Number, once
from anydml.kernels.numbers.floats.rounding import rounded_to_whole, to_whole
from anydml.kernels.numbers.functions import far_angles, paired, paired_powers, wide
from anydml.kernels.numbers.functions.approximate import at_most
from anydml.kernels.numbers.functions.circular import FARTHEST
from anydml.kernels.numbers.known import ANY, Known, known_constant, whole_power
from anydml.kernels.numbers.lanes import Truth, either

FAR_OUT = 1024.0  # beyond this, functions that saturate have saturated
STEPS = 11  # of 29 bits each, for the quotient of any two float32
STEEP = 2.0**-20  # for larger bounds of arguments, the slope in the middle says too little
_BIG = 2.0**1023


class FunctionRange(NamedTuple):
    """The range of a function's values, and bounds of its slope.

    low, high: the range. least: the exponent of the least nonzero value, for arguments that are 0 or at least 2^-150. slope: a
    function of x and f(x), at least the magnitude of the derivative near x; None if it is not known. everywhere: whether it is
    so at every x. room: a function of x, the distance within which the derivative is at most twice the slope; None: any
    distance. outside: a function of x and its rest, above 0 outside of the domain. local: a function of x, half of the
    derivative's largest magnitude within |x| / 4 of x, for functions where this is far below the slope. level: beyond it, f is
    its limit within 2^-70. steeper: the factor by which the derivative may exceed the slope, wherever the argument may be.
    smooth: another slope, for bounds of arguments below `STEEP`.
    """

    low: float
    high: float
    least: int | None
    slope: Callable[[Value, Value], Value | float] | None = None
    everywhere: bool = False
    saturated: int = 0  # an exponent: see `Number`
    room: Callable[[Value], Value] | None = None
    outside: Callable[[Value, Value], Value] | None = None
    local: Callable[[Value], Value] | None = None
    level: float = math.inf
    steeper: float = 2.0
    smooth: Callable[[Value, Value], Value] | None = None


def _beside_one(x: Value) -> Value:
    """The distance of a magnitude from 1, where a derivative is infinite."""
    return (x.magnitude() - 1.0).magnitude()


def _of_squares(x: Value) -> Value:
    """|1 - x^2|, computed so that it is accurate for x^2 near 1; less, if the square is beyond float64."""
    return at_most(((1.0 - x) * (x + 1.0)).magnitude(), _BIG)


def _beyond_one(x: Value, rest: Value) -> Value:
    """|x + rest| - 1, where rest is less than a unit of x."""
    toward = (rest.bits() ^ (x.bits() & -(1 << 63))).cast(rest.kind)
    return (x.magnitude() - 1.0) + toward


def _below_one(x: Value, rest: Value) -> Value:
    return (1.0 - x) - rest


def _of_asinh(x: Value) -> Value:
    """1 / (x^2 + 1)^(1/2), or more, if the square is beyond float64."""
    return 1.0 / at_most(x * x + 1.0, _BIG).root()


def _of_tanh(x: Value, y: Value) -> Value:
    """1 - y^2, with an error below 2^-48; its logarithm changes by at most 2 when x changes by 1."""
    return ((1.0 - y * y) + 2.0**-48) * (1 + 2.0**-18)


KINDS = {
    "exp": FunctionRange(0, _BIG, None, lambda x, y: y, saturated=1000),
    "expm1": FunctionRange(-1, _BIG, -152, lambda x, y: y.magnitude() + 1.0, saturated=1000),
    "log": FunctionRange(-800, 800, -55, lambda x, y: 1.0 / x.magnitude()),
    "log1p": FunctionRange(-800, 800, -152),
    "sin": FunctionRange(-1, 1, -160, lambda x, y: 1.0, everywhere=True),
    "cos": FunctionRange(-1, 1, -160, lambda x, y: 1.0, everywhere=True),
    "tan": FunctionRange(-(2.0**160), 2.0**160, -160, lambda x, y: y * y + 1.0),
    "asin": FunctionRange(-2, 2, -152, lambda x, y: 1.0 / _of_squares(x).root(), room=_beside_one, outside=_beyond_one),
    "acos": FunctionRange(0, 4, -30, lambda x, y: 1.0 / _of_squares(x).root(), room=_beside_one, outside=_beyond_one),
    "atan": FunctionRange(-2, 2, -152, lambda x, y: 1.0, everywhere=True, local=lambda x: 1.0 / (x * x + 1.0)),
    "sinh": FunctionRange(-_BIG, _BIG, -152, lambda x, y: y.magnitude() + 1.0, saturated=1000),
    "cosh": FunctionRange(1, _BIG, 0, lambda x, y: y, saturated=1000),
    "tanh": FunctionRange(-1, 1, -152, lambda x, y: 1.0, everywhere=True, level=30.0, steeper=1.0, smooth=_of_tanh),
    "asinh": FunctionRange(-800, 800, -152, lambda x, y: 1.0, everywhere=True, local=_of_asinh),
    "acosh": FunctionRange(0, 800, -30, lambda x, y: 1.0 / _of_squares(x).root(), room=_beside_one, outside=_below_one),
    "atanh": FunctionRange(-40, 40, -152, lambda x, y: 1.0 / _of_squares(x), room=_beside_one, outside=_beyond_one),
    "erf": FunctionRange(-1, 1, -152, lambda x, y: 1.2, everywhere=True, level=30.0),
    "erfc": FunctionRange(0, 2, None, lambda x, y: at_most(y * (x.magnitude() * 2.0 + 1.5), 1.2), saturated=1000),
    "gelu": FunctionRange(-1, _BIG, None, saturated=1000),
    # y (1 - y), where 1 - y has an error below 2^-48; near x, it may be larger by a factor of 1 + 2^-19
    "sigmoid": FunctionRange(0, 1, None, lambda x, y: y * ((1.0 - y) + 2.0**-48), saturated=1000, steeper=1 + 2.0**-18),
    # e^x / (1 + e^x), which is at most log(1 + e^x)
    "softplus": FunctionRange(
        0, _BIG, None, lambda x, y: 1.0, everywhere=True, saturated=1000, smooth=lambda x, y: at_most(y, 1.0)
    ),
    "pow": FunctionRange(-_BIG, _BIG, None, saturated=1000),
    "atan2": FunctionRange(-4, 4, None),
}


def function(op: str, args: list[Number], level: str) -> Number:
    """The result of a function, by its name; Uncompilable if its bound is not known for such arguments."""
    if op in ("fmod", "floor_mod"):
        return remainder(op, args[0], args[1], STEPS if level == "doubled" else 1)
    if level == "paired" and op == "pow":
        singles = [a.single for a in args if a.single is not None]
        if len(singles) == 2:
            return numbers.of_pair(paired_powers.pow(*singles), either(*(a.guard for a in args)))
    if level == "paired":
        if op not in paired.FUNCTIONS or args[0].single is None:
            raise Uncompilable(f"{op} is not compiled in pairs of float32")
        return numbers.of_pair(paired.FUNCTIONS[op](args[0].single), args[0].guard)
    kind, emit = KINDS.get(op), getattr(wide, op, None)
    if kind is None or emit is None:
        raise Uncompilable(f"{op} is not compiled")
    args = [numbers.decided_size(a) for a in args]
    found = emit(*(a.wide() for a in args))
    if op in far_angles.FUNCTIONS and args[0].single is not None and args[0].known.largest >= FARTHEST:
        found = far_angles.completed(op, args[0].single, found)
    # at infinity, functions are known
    undecided = found.guard and found.guard & args[0].wide().magnitude().compared("one", math.inf)
    guard = either(undecided, *(a.guard for a in args))
    made = Number(
        args[0].body,
        lambda: found.value,
        Known(kind.low, kind.high, least=kind.least),
        rel=found.rel,
        saturated=kind.saturated,
        guard=guard,
    )
    if op == "pow" and args[0].single is not None and args[1].exact:  # squares are often ties
        return choices.select(
            Truth(args[1].wide().compared("oeq", 2.0), args[1].guard), arithmetic.multiply(args[0], args[0]), made
        )
    if all(a.exact for a in args):
        # an argument that is no float32 may be smaller than 2^-150
        least = args[0].known.least
        return made if kind.least is None or (least is not None and least >= -150) else numbers.ranged(made, args[0])
    if op == "log1p" and args[0].known.positive and args[0].err is None:  # its condition is at most 1
        return numbers.ranged(replace(made, known=Known(0.0, kind.high), rel=found.rel + args[0].rel * SLACK), args[0])
    if op == "pow" and args[1].exact:
        return _power_of_rounded(args[0], args[1], made)
    if kind.slope is None or len(args) > 1:
        raise Uncompilable(f"{op} of a number that is rounded inside")
    return _of_rounded(op, kind, args[0], made)


def _of_rounded(op: str, kind: FunctionRange, x: Number, made: Number) -> Number:
    """The result `made` from x, with the bound that follows from that of x added."""
    assert kind.slope is not None
    delta = _error_in_lanes(x) if kind.room else x.error()
    size = x.wide().magnitude()
    finite = size.compared("one", math.inf)
    slope = kind.slope(x.wide(), made.wide())
    if kind.smooth is not None:
        slope = x.body.chosen(delta.compared("olt", STEEP), kind.smooth(x.wide(), made.wide()), slope)
    change = delta * slope * (kind.steeper * SLACK)
    if kind.room:  # the slope may be infinite where the argument is exact
        change = x.body.chosen(delta.compared("une", 0.0), change, 0.0)
    if kind.local is not None:
        change = delta * x.body.chosen((delta * 4.0).compared("ole", size), kind.local(x.wide()), size.lift(1.0)) * (2 * SLACK)
    if kind.level < math.inf:
        level = size.compared("ogt", 2 * kind.level) & delta.compared("olt", size * 0.5)
        change = x.body.chosen(level, 0.0, change)
    absolute = x.body.chosen(finite, change, 0.0)
    made = replace(made, known=replace(made.known, least=None), err=lambda: absolute)
    if kind.everywhere:
        return made
    if kind.room:
        steep = delta.compared("ogt", kind.room(x.wide()) * STEEP) & finite
        if x.rest is None or x.err is not None or kind.outside is None:
            return made.guarded(steep)
        outside = kind.outside(x.wide(), x.rest()).compared("ogt", 0.0)  # the rounding of x keeps the order
        value = x.body.chosen(outside, math.nan, made.wide())
        return replace(made, wide=lambda: value).guarded(steep & ~outside)
    near = size.compared("olt", FAR_OUT if kind.saturated else math.inf)
    if kind.saturated and x.err is not None:  # its error may exceed its value
        near = near | (delta.compared("uge", size * 0.25) & finite)
    far = delta.compared("uge", STEEP) & near
    if op == "log":
        # the logarithm of an exact zero is known
        far = delta.compared("uge", size * STEEP) & size.compared("olt", math.inf) & delta.compared("une", 0.0)
    return made.guarded(far)


def _error_in_lanes(x: Number) -> Value:
    """The bound of a number in each lane: for a sum, its rest, which is often 0."""
    if x.exact:
        return x.wide().lift(0.0)
    return x.error() if x.rest is None or x.err is not None else x.rest().magnitude() * SLACK


def _power_of_rounded(x: Number, y: Number, made: Number) -> Number:
    """The power `made` from x, with the bound that follows from that of x added: |y| times the relative bound of x."""
    body, value, size, power = x.body, made.wide(), x.wide().magnitude(), y.wide()
    delta = _error_in_lanes(x)
    relative = body.chosen(delta.compared("une", 0.0), power.magnitude() * (delta / size), 0.0)
    # if the power is far outside the range, its exponent has an error of at most 0.3 of itself, for x this far from 1
    apart = ((size - 1.0).magnitude() * 0.25).compared("oge", delta) & delta.compared("olt", size * STEEP)
    sure = apart & (value.magnitude().compared("ogt", numbers.FAR) | value.magnitude().compared("olt", 1 / numbers.FAR))
    sure = sure | (apart & value.compared("uno", value))
    if x.rest is not None:  # near 1, a power is e^(y (x - 1)); with y = NaN it is NaN, but 1 for x = 1
        rest = (x.rest().bits() ^ (x.wide().bits() & -(1 << 63))).cast(value.kind)
        distance = (size - 1.0) + rest
        beside = (size - 1.0).magnitude().compared("olt", STEEP) & distance.compared("one", 0.0)
        exponent = power * distance
        far = beside & exponent.magnitude().compared("ogt", 480.0)  # decided even for such large float32
        value = body.chosen(far, body.chosen(exponent.compared("ogt", 0.0), math.inf, value.lift(0.0)), value)
        none = beside & power.compared("uno", 0.0)
        value = body.chosen(none, math.nan, value)
        sure = sure | far | none
    some = size.compared("one", math.inf) & relative.compared("une", 0.0) & ~sure
    absolute = body.chosen(some, value.magnitude() * relative * (2 * SLACK), 0.0)
    made = replace(made, wide=lambda: value, known=replace(made.known, least=None), err=lambda: absolute, saturated=690)
    loose = delta.compared("ugt", size * 0.5)  # x may be 0 or have another sign, however small the exponent is
    return made.guarded(some & (relative.compared("uge", STEEP) | loose))


def simple_power(x: Number, exponent: Fraction | float) -> Number | None:
    """x^y by operations that are rounded once, for a few constants y; None for others."""
    if exponent in (1, 2, 3, 4):
        return whole_power(x, int(exponent), arithmetic.multiply)
    if exponent == -1:
        return arithmetic.divide(_unit(x.wide()), x)
    if exponent == 0.5 and x.single is not None:  # pow(-0, 0.5) is +0, pow(-inf, 0.5) is +inf
        found = arithmetic.root(numbers.of_single(x.single + 0.0, x.known, x.guard))
        infinite = numbers.of_single(x.body.constant(x.single.kind, math.inf))
        return choices.select(Truth(x.single.compared("oeq", -math.inf), x.guard), infinite, found)
    return None


def _unit(like: Value) -> Number:
    """The number 1, with the lanes of a value."""
    made = numbers.of_single(like.body.constant(like.kind.of("float"), 1.0), known_constant(Fraction(1)))
    return replace(made, wide=lambda: like.lift(1.0))


def cut_power(x: Number, y: Number, level: str) -> Number:
    """x^y for an integer y of at most 32 bits: computed as a product if x and y are integers."""
    base, size = x.wide(), y.wide().magnitude()
    body = base.body
    half = size * 0.5
    odd = rounded_to_whole("floor", half).compared("one", half)
    # beyond 2^62, all powers saturate alike, so larger exponents are reduced to 62 or 63; those beyond 2^53 are rounded
    left = body.chosen(size.compared("ogt", 63.0), body.chosen(odd, 63.0, base.lift(62.0)), size)
    made = base.lift(1.0)
    for _ in range(6):
        under = rounded_to_whole("floor", left * 0.5)
        made = body.chosen((under + under).compared("one", left), made * base, made)
        base, left = base * base, under
    made = body.chosen(y.wide().compared("olt", 0.0), 1.0 / made, made)
    product = Number(body, lambda: made, exact=True, guard=either(x.guard, y.guard))
    whole = [n for n in (x, y) if not (n.exact and n.known.has_quantum(0))]
    if not whole:
        return product
    masks = [rounded_to_whole("floor", n.wide()).compared("oeq", n.wide()) for n in whole if n.exact]
    power = function("pow", [x, y], level)
    if power.pair is None:  # with a bound, a result of 1 could not be told from smaller ones
        unit = y.wide().compared("oeq", 0.0)
        if x.exact or x.rest is not None:
            unit = unit | (x.wide().compared("oeq", 1.0) & _error_in_lanes(x).compared("oeq", 0.0))
        power = choices.select(Truth(unit, either(x.guard, y.guard)), _unit(base), power)
    if len(masks) < len(whole):
        return power
    return choices.select(Truth(reduce(and_, masks)), product, power)


def remainder(op: str, x: Number, y: Number, steps: int) -> Number:
    """The remainder of x / y: exact, for float32 numbers with a quotient below 2^(29 steps)."""
    if x.single is None or y.single is None:
        raise Uncompilable("a remainder of numbers that are rounded inside")
    body = x.body
    a, b = x.wide(), y.wide().magnitude()
    size = a.magnitude()

    def cut(part: Value) -> Value:
        return to_whole("truncate", Number(body, lambda: part, Known(0, 2.0**30), exact=True)).wide()

    quotient = size / b
    rest = size
    for step in range(steps - 1, -1, -1):
        by = b * 2.0 ** (29 * step)
        rest = rest - cut(rest / by) * by  # exact: 29 and 24 bits
        # where the quotient was rounded up to an integer
        rest = body.chosen(rest.compared("olt", 0.0), rest + by, rest)
    # infinite y: x itself; y = 0 or infinite x: NaN
    rest = body.chosen(b.compared("oeq", math.inf) & size.compared("olt", math.inf), size, rest)
    large = quotient.compared("oge", 2.0 ** (29 * steps)) & size.compared("olt", math.inf) & b.compared("one", 0.0)
    made = rest.signed_as(a)
    if op == "floor_mod":
        signs = (a.bits() ^ y.wide().bits()).compared("slt", 0)
        other = signs & rest.compared("one", 0.0)
        # toward the divisor's side: with an infinite divisor, the result is the divisor
        moved = body.chosen(other, b - rest, rest)
        made = moved.signed_as(y.wide())
    largest, quantum = y.known.largest, min(x.known.quantum or 0, y.known.quantum or 0)
    known = Known(-largest, largest, quantum, 24 if op == "fmod" else ANY, quantum)
    found = Number(body, once(lambda: made), known, exact=op == "fmod")
    guard = either(x.guard, y.guard, large)
    if op == "fmod":
        single = made.converted("fptrunc", made.kind.of("float"))
        return replace(found, single=single, guard=guard)
    # b - rest is rounded once, and its remainder is known
    sign = y.wide().bits() & -(1 << 63)
    error = body.chosen(other, (b - moved) - rest, 0.0)
    odd = numbers.odd_of(made, (error.bits() ^ sign).cast(made.kind))
    return replace(found, rel=numbers.U, odd=lambda: odd, guard=guard)
