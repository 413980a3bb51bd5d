"""Resampling: images read between their elements; the rules and statements of RESAMPLE and its gradients.

Output o of a dimension is at x = (o - OutputPixelOffset) / Scale - InputPixelOffset among the elements of the input, whose
first and last elements extend beyond the edges. NEAREST_NEIGHBOR and antialiasing compute x in float32 operations, as every
implementation does; the weights of LINEAR are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

from anydml.schema.constraint import Constraint
from anydml.schema.enumerations import AxisDirection, InterpolationMode
from anydml.schema.expression import (
    Indices,
    Sum,
    Tensor,
    both,
    ceil,
    clamp,
    each,
    equal,
    floor,
    half_to_even,
    index,
    maximum,
    minimum,
    rounded,
    select,
)
from anydml.schema.node import Expr, number
from anydml.schema.operator import defaults
from anydml.schema.statement import Nest, move, named, nest
from anydml.tensor import DataType

MODE = "NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension."
DIRECTION = "NEAREST_NEIGHBOR rounds positions up (INCREASING) or down (DECREASING)."
SCALES = "The factors by which dimensions are enlarged."
INPUT_OFFSETS = "Offsets of positions in the input; 0.5 for centres of pixels."
OUTPUT_OFFSETS = "Offsets of positions in the output; -0.5 for centres of pixels."
COUNT = "Entries of the arrays."
NEAREST = InterpolationMode.NEAREST_NEIGHBOR
LARGEST = float(2**128 - 2**104)  # of float32

SAMPLING_ERRATA = (
    "The page does not say which scales are legal: finite ones above 0 (our decision).",
    "The page does not say which offsets are legal: finite ones (our decision).",
    "The page says that DECREASING is RESAMPLE1's rounding with OutputPixelOffsets less 0.5; it is InputPixelOffsets less 0.5.",
)

Rounding = Callable[[Expr], Expr]


def halves_up(x: Expr) -> Expr:
    """The nearest integer; at a tie, the larger one: the rounding of RESAMPLE, RESAMPLE1 and RESAMPLE_GRAD."""
    return floor(x + Fraction(1, 2))


def in_direction(d: Any) -> Rounding:
    """The rounding that a RoundingDirection names."""
    return ceil if d.rounding_direction == AxisDirection.INCREASING else floor


def _each(value: float, tensor: str) -> Callable[[Any], tuple[float, ...]]:
    return lambda d: (value,) * getattr(d, tensor).dimension_count


def centres(tensor: str = "input_tensor") -> Any:
    """The `eager` of an operator whose offsets are by default those of pixel centres."""
    return defaults(
        input_pixel_offsets=("0.5 for each dimension", _each(0.5, tensor)),
        output_pixel_offsets=("-0.5 for each dimension", _each(-0.5, tensor)),
    )


def sampling_rules(*, offsets: bool = True) -> tuple[Constraint, ...]:
    """The rules about Scales and, if the operator has them, about the offsets."""

    def finite(wire: str, name: str) -> Constraint:
        return Constraint(
            f"{name}_finite",
            f"`{wire}` must be finite.",
            lambda d, i: math.isfinite(getattr(d, name)[i]),
            each=wire,
            breaks=lambda d: {name: (*getattr(d, name)[:-1], math.inf)},
        )

    return (
        Constraint(
            "scales_positive",
            "`Scales` must be above 0 and finite.",
            lambda d, i: 0 < d.scales[i] < math.inf,
            each="Scales",
            breaks=lambda d: {"scales": (*d.scales[:-1], 0.0)},
        ),
        *((finite("InputPixelOffsets", "input_pixel_offsets"), finite("OutputPixelOffsets", "output_pixel_offsets"))
          if offsets else ()),
    )  # fmt: skip


class Axis(NamedTuple):
    """A dimension, by its index. size: the input's size; outputs: the output's."""

    scale: Any
    input_offset: Any
    output_offset: Any
    size: Any
    outputs: Any
    dimension: int

    @property
    def is_same(self) -> bool:
        """Whether x equals o, also in float32: the offsets are small multiples of 1/2 that cancel."""
        a, b = self.input_offset, self.output_offset
        return bool(self.scale == 1 and a + b == 0 and a * 2 % 1 == 0 and -1024 <= a <= 1024 and self.outputs <= 1 << 20)

    def place(self, o: Expr) -> Expr:
        """The exact position x."""
        return named(f"X{self.dimension}", "o", self._place, (o,))

    def _place(self, o: Expr) -> Expr:
        place: Expr = (number(o) - self.output_offset) / self.scale - self.input_offset
        return place

    def place_in_float32(self, o: Expr) -> Expr:
        """The position x with each operation rounded to float32."""

        def step(x: Expr) -> Expr:
            return rounded(x, DataType.FLOAT32)

        return step(step(step(number(o) - self.output_offset) / self.scale) - self.input_offset)

    def within(self, place: Expr) -> Expr:
        """A position moved to the nearest edge if it is outside."""
        return clamp(place, 0, self.size - 1)

    def nearest(self, o: Expr, rounding: Rounding) -> Expr:
        """The index of the nearest element."""
        if self.is_same:
            return o if self.outputs <= self.size else minimum(o, self.size - 1)
        counted = self._counted(o, rounding)
        return counted if counted is not None else index(self.within(rounding(self.place_in_float32(o))))

    def _counted(self, o: Expr, rounding: Rounding) -> Expr | None:
        """The index in integer arithmetic, where float32 operations give the same; None elsewhere.

        This needs a Scale p or 1/q and offsets that are multiples of 1/2. Then x is a multiple of 1 / (2 Scale), and the
        float32 result differs from x by less than half of that.
        """
        numbers = self.scale, self.input_offset, self.output_offset, self.size, self.outputs
        if not all(isinstance(n, int | float) for n in numbers):
            return None
        scale = Fraction(self.scale)
        p, q = scale.numerator, scale.denominator
        before, after = Fraction(self.input_offset) * 2, Fraction(self.output_offset) * 2
        if min(p, q) > 1 or max(p, q) > 64 or self.outputs * q > 1 << 20:
            return None
        if before.denominator * after.denominator > 1 or max(abs(before), abs(after)) > 128:
            return None
        # x is (2 q o + first) / (2 p)
        first = int(-after * q - before * p) + (0 if rounding is floor else p if rounding is halves_up else 2 * p - 1)
        common = math.gcd(2 * q, 2 * p)
        step, first, by = 2 * q // common, first // common, 2 * p // common
        found = (o * step + first) // by
        inside = first >= 0 and ((self.outputs - 1) * step + first) // by < self.size
        return found if inside else clamp(found, 0, self.size - 1)


class Tap(NamedTuple):
    """An element of a weighted mean. weight: its weight; counts: the condition for the term to exist; total: of all weights.

    The sum is divided once, by the totals of all dimensions: so it is one of exact products, and a mean that is a tie is known.
    """

    at: Expr
    weight: Expr
    counts: Expr
    total: Expr | None = None  # 1


def linear(axis: Axis, o: Expr, k: Expr) -> Tap:
    """The element before (k = 0) or after (k = 1) the position of output o."""
    x = axis.place(o)
    before = floor(x)
    weight = select(equal(k, 0), 1 - (x - before), x - before)
    return Tap(index(axis.within(before + k)), weight, weight > 0)


def box_size(axis: Axis) -> int:
    """The largest number of elements of a window."""
    most: int = min(math.ceil(1 / Fraction(getattr(axis.scale, "value", axis.scale))), axis.size)
    return most


def box(axis: Axis, o: Expr, k: Expr) -> Tap:
    """Element k of those from x - 1 / (2 Scale) to x + 1 / (2 Scale), whose mean is taken; edges extend outwards."""
    x, half = clamp(axis.place_in_float32(o), -LARGEST, LARGEST), number(1) / axis.scale / 2
    first, end = ceil(x - half), ceil(x + half)
    at = index(axis.within(first)) + k
    start = select(equal(at, 0), first, maximum(first, at))
    times = select(equal(at, axis.size - 1), end, minimum(end, at + 1)) - start
    return Tap(at, times, both(at < axis.size, times > 0), end - first)


def axes(d: Any, source: Sequence[Any], target: Sequence[Any]) -> list[Axis]:
    """The dimensions of a resampling from the sizes `source` to the sizes `target`."""
    found = zip(d.scales, d.input_pixel_offsets, d.output_pixel_offsets, source, target, strict=True)
    return [Axis(*each_, at) for at, each_ in enumerate(found)]


def resampled(d: Any, x: Tensor, rounding: Rounding, *, antialiased: bool = False) -> Nest:
    """The statement of RESAMPLE's versions."""
    i = each(d.output_tensor.sizes)
    dimensions = axes(d, x.sizes, d.output_tensor.sizes)
    if d.interpolation_mode == NEAREST:
        return move(i, x[[axis.nearest(o, rounding) for axis, o in zip(dimensions, i, strict=True)]])
    filters = [box if antialiased and axis.scale < 0.5 else linear for axis in dimensions]
    sizes = [1 if axis.is_same else 2 if f is linear else box_size(axis) for axis, f in zip(dimensions, filters, strict=True)]
    moved = [at for at, axis in enumerate(dimensions) if not axis.is_same]
    k = each([sizes[at] for at in moved], "uvwxyz")
    taps = {at: filters[at](dimensions[at], i[at], u) for at, u in zip(moved, k, strict=True)}
    body = x[[taps[at].at if at in taps else axis.nearest(i[at], floor) for at, axis in enumerate(dimensions)]]
    if taps:
        weight = reduce(mul, (tap.weight for tap in taps.values()))
        body = Sum(k, body * weight, reduce(both, (tap.counts for tap in taps.values())))
        totals = [tap.total for tap in taps.values() if tap.total is not None]
        body = body / reduce(mul, totals) if totals else body
    return nest(i, body if x.data_type.is_float else half_to_even(body))


def scattered(d: Any, g: Tensor, rounding: Rounding) -> Nest:
    """The statement of the gradients: each element of InputGradient is added where the forward operator read its output."""
    i = each(d.output_gradient_tensor.sizes)
    dimensions = axes(d, d.output_gradient_tensor.sizes, g.sizes)
    same = [axis.is_same and axis.outputs == axis.size for axis in dimensions]
    o = [
        p if unchanged else each([size], name)[0]
        for p, unchanged, size, name in zip(i, same, g.sizes, "uvwxyz"[: len(i)], strict=True)
    ]
    body = g[o]
    for at in reversed(range(len(i))):
        if same[at]:
            continue
        axis, k = dimensions[at], Indices([o[at]])
        k.bound = (o[at].data,)
        if d.interpolation_mode == NEAREST:
            body = Sum(k, body, equal(axis.nearest(o[at], rounding), i[at]))
        else:
            x = axis.place(o[at])
            before, share = floor(x), x - floor(x)
            near = [select(equal(axis.within(before + u), i[at]), part, 0) for u, part in ((0, 1 - share), (1, share))]
            weight = near[0] + near[1]
            body = Sum(k, body * weight, weight > 0)
    return nest(i, body)
