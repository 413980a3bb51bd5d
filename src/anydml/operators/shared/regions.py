"""Regions of images, sampled on grids: the statements of ROI_ALIGN and its gradient.

A desc has ROITensor, with a row x1, y1, x2, y2 for each region, BatchIndicesTensor, and the attributes of ROI_ALIGN1. In each
dimension, the scaled corners X1 and X2 of a region are `size` apart, each of `outputs` cells has n samples, and sample s is at
x = (s - OutputPixelOffset) * size / (outputs * n) + X1 - InputPixelOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

from anydml.schema.enumerations import InterpolationMode, ReduceFunction
from anydml.schema.expression import (
    Indices,
    Max,
    Sum,
    Tensor,
    absolute,
    both,
    ceil,
    clamp,
    each,
    equal,
    first_largest,
    floor,
    index,
    minimum,
    negation,
    pieces,
    rounded,
    select,
    unraveled,
)
from anydml.schema.node import Expr, number
from anydml.schema.statement import Nest, named, nest
from anydml.tensor import DataType

LARGEST = float(2**128 - 2**104)  # of float32


@dataclass(frozen=True)
class Side:
    """A dimension of a region. size: the images' size; outputs: the number of a region's outputs.

    axis: its letter in the names of formulas. of: the same dimension of any region.
    """

    d: Any
    axis: str
    of: Callable[[Expr], Side]
    region: Expr
    first: Expr
    last: Expr
    scale: Any
    size: Any
    outputs: Any

    def part(self, name: str, letters: str, element: Callable[..., Expr], *at: Expr) -> Expr:
        """`element(side, ..)` of this dimension, which formulas show by its name and the dimension's letter."""
        return named(f"{name}{self.axis}", f"r{letters}", lambda r, *rest: element(self.of(r), *rest), (self.region, *at))

    @property
    def extent(self) -> Expr:
        """X2 - X1 in float32 operations, which give the largest number on overflow."""
        return self.part("Extent", "", Side._extent)

    def _extent(self) -> Expr:
        def step(x: Expr) -> Expr:
            return clamp(rounded(x, DataType.FLOAT32), -LARGEST, LARGEST)

        return step(step(self.last * self.scale) - step(self.first * self.scale))

    @property
    def count(self) -> Expr:
        """The number of samples of an output."""
        return self.part("Samples", "", Side._count)

    def _count(self) -> Expr:
        needed = ceil(rounded(absolute(self.extent) / self.outputs, DataType.FLOAT32))
        return index(clamp(needed, self.d.minimum_samples_per_output, self.d.maximum_samples_per_output))

    def share(self, s: Expr) -> Expr:
        """The position of sample s as a fraction of the distance from X1 to X2."""
        samples, place = number(self.count * self.outputs), number(s) - self.d.output_pixel_offset
        if not self.d.align_regions_to_corners:
            return number(place / samples)
        return select(equal(samples, 1), 0.5, place / (samples - 1))

    def place(self, s: Expr) -> Expr:
        """The position x of sample s."""
        return self.part("Place", "s", Side._place, s)

    def _place(self, s: Expr) -> Expr:
        return number(self.extent * self.share(s) + self.first * self.scale - self.d.input_pixel_offset)

    def inside(self, x: Expr) -> Expr:
        """Whether a sample's position is within bounds."""
        return both(x >= -1, x <= self.size)

    def tap(self, s: Expr, k: Expr) -> tuple[Expr, Expr]:
        """One of the two elements around sample s, by k of 0 and 1, and its weight."""
        return self.part("Index", "sp", Side._index, s, k), self.part("Weight", "sp", Side._weight, s, k)

    def moved(self, s: Expr) -> Expr:
        """The position of sample s, moved to the nearest edge if it is outside."""
        return self.part("Moved", "s", lambda side, s: clamp(side.place(s), 0, side.size - 1), s)

    def _index(self, s: Expr, k: Expr) -> Expr:
        moved = self.moved(s)
        if self.d.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR:
            return index(clamp(floor(moved + 0.5), 0, self.size - 1))
        return minimum(index(floor(moved)) + k, self.size - 1)

    def _weight(self, s: Expr, k: Expr) -> Expr:
        if self.d.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR:
            return number(select(equal(k, 0), 1, 0))
        share = self.part("Fraction", "s", lambda side, s: side.moved(s) - floor(side.moved(s)), s)
        return select(equal(k, 0), 1 - share, share)


class Sample(NamedTuple):
    """A sample: its number among its output's samples and its position, in each dimension."""

    s: tuple[Expr, Expr]
    at: tuple[Expr, Expr]
    inside: Expr


class Grid:
    """The samples of region r: rows first, then columns."""

    def __init__(self, d: Any, roi: Tensor, r: Expr, sizes: Sequence[Any], outputs: Sequence[Any]) -> None:
        lead = [0] * (len(roi.sizes) - 2)
        scales = d.spatial_scale_y, d.spatial_scale_x
        self.d = d

        def side(axis: str, at: int, scale: Any, size: Any, out: Any, region: Expr) -> Side:
            first, last = roi[[*lead, region, at]], roi[[*lead, region, at + 2]]
            return Side(d, axis, partial(side, axis, at, scale, size, out), region, first, last, scale, size, out)

        self.sides = tuple(
            side(axis, at, scale, size, out, r)
            for axis, at, scale, size, out in zip("YX", (1, 0), scales, sizes[2:], outputs[2:], strict=True)
        )

    @property
    def samples(self) -> Expr:
        """The number of an output's samples."""
        y, x = self.sides
        return number(y.count) * number(x.count)

    def each(self, names: str = "uv") -> tuple[Indices, Expr]:
        """Indices of samples, and the condition for an output to have the sample."""
        k = each((self.d.maximum_samples_per_output,) * 2, names)
        return k, both(k[0] < self.sides[0].count, k[1] < self.sides[1].count)

    def sample(self, out: Sequence[Expr], k: Sequence[Expr]) -> Sample:
        """Sample k of an output."""
        y, x = (side.count * o + u for side, o, u in zip(self.sides, out, k, strict=True))
        at = self.sides[0].place(y), self.sides[1].place(x)
        return Sample((y, x), at, both(self.sides[0].inside(at[0]), self.sides[1].inside(at[1])))

    def taps(self, sample: Sample, t: Sequence[Expr]) -> tuple[list[Expr], Expr]:
        """One of the four elements around a sample, by rows and columns, and its weight."""
        (y, wy), (x, wx) = (side.tap(s, k) for side, s, k in zip(self.sides, sample.s, t, strict=True))
        return [y, x], wy * wx

    def value(self, image: Tensor, b: Expr, c: Expr, sample: Sample) -> Expr:
        """The image's value at a sample within bounds."""
        t = each((2, 2), "pq")
        at, weight = self.taps(sample, t)
        return Sum(t, image[[b, c, *at]] * weight, weight > 0)

    def winner(self, image: Tensor, b: Expr, c: Expr, out: Sequence[Expr]) -> list[Expr]:
        """The first of an output's samples within bounds with the largest value."""
        k, there = self.each("yx")
        sample = self.sample(out, k)
        most = self.d.maximum_samples_per_output
        place = first_largest(k, self.value(image, b, c, sample), where=both(there, sample.inside))
        return unraveled(place, (most, most))


def of_region(batches: Tensor, r: Expr) -> Expr:
    """A region's image."""
    return index(batches[[*[0] * (len(batches.sizes) - 1), r]])


def pooled_regions(d: Any, x: Tensor, roi: Tensor, batches: Tensor) -> Nest:
    """The statement of ROI_ALIGN1."""
    r, c, *out = i = each(d.output_tensor.sizes)
    grid = Grid(d, roi, r, x.sizes, d.output_tensor.sizes)
    k, there = grid.each()
    sample = grid.sample(out, k)
    value = select(sample.inside, grid.value(x, of_region(batches, r), c, sample), d.out_of_bounds_input_value)
    if d.reduction_function == ReduceFunction.MAX:
        return nest(i, Max(k, value, there))
    return nest(i, Sum(k, value, there) / grid.samples)


def _reached(side: Side, out: Expr, place: Expr, u: Expr, where: Callable[[Side, Expr], list[Expr]], k: Sequence[Expr]) -> Expr:
    """The sum of an element's weights, along a dimension, in the samples u of an output."""
    (t,) = tap = each((2,), "p")
    s = side.count * out + u
    at, weight = side.tap(s, t)
    bound = Indices((*k, t))
    bound.bound = (*(v.data for v in k), *tap.bound)
    return Sum(bound, weight, reduce(both, [*where(side, u), side.inside(side.place(s)), equal(at, place), weight > 0]))


def image_gradient(d: Any, image: Tensor | None, g: Tensor, roi: Tensor, batches: Tensor) -> Nest:
    """The gradient of the images, as ROI_ALIGN_GRAD computes it."""
    n, c, *places = i = each(d.output_gradient_tensor.sizes)
    (r,), out = regions, cells = each(g.sizes[:1], "r"), each(g.sizes[2:], "yx")
    grid = Grid(d, roi, r, d.output_gradient_tensor.sizes, g.sizes)
    gradient = g[[r, c, *out]]
    weights = []
    if d.reduction_function == ReduceFunction.MAX:
        assert image is not None
        chosen = grid.winner(image, of_region(batches, r), c, out)
        for side, o, p, u in zip(grid.sides, out, places, chosen, strict=True):
            weights.append(_reached(side, o, p, u, lambda side, u: [], ()))
    else:
        gradient = gradient / grid.samples
        for side, o, p in zip(grid.sides, out, places, strict=True):
            (u,) = each((d.maximum_samples_per_output,), "u")
            weights.append(_reached(side, o, p, u, lambda side, u: [u < side.count], (u,)))
    weight = weights[0] * weights[1]
    bound = Indices((*regions, *cells))
    bound.bound = (*regions.bound, *cells.bound)
    return nest(i, Sum(bound, gradient * weight, both(equal(of_region(batches, r), n), weight > 0)))


def _slope(grid: Grid, axis: int, image: Tensor, at: tuple[Expr, Expr], sample: Sample) -> tuple[Expr, Expr]:
    """The image's derivative at a sample along a dimension (0 is rows), and whether there is one."""
    side, other = grid.sides[axis], grid.sides[1 - axis]
    place = sample.at[axis]
    (t,) = taps = each((2,), "p")
    across, weight = other.tap(sample.s[1 - axis], t)
    low = index(floor(clamp(place, 0, side.size - 1)))
    ends = [[along, across] if axis == 0 else [across, along] for along in (low, minimum(low + 1, side.size - 1))]
    before, after = (image[[*at, *end]] for end in ends)
    interior = reduce(both, [sample.inside, place >= 0, place < side.size - 1])
    return Sum(taps, weight * (after - before), weight > 0), interior


def region_gradient(d: Any, image: Tensor, g: Tensor, roi: Tensor, batches: Tensor) -> Nest:
    """The gradient of the regions' corners, as ROI_ALIGN_GRAD computes it."""
    *_, r, corner = i = each(roi.sizes)
    if d.interpolation_mode == InterpolationMode.NEAREST_NEIGHBOR:
        return nest(i, 0)
    b, made = of_region(batches, r), []
    for last in (False, True):
        for axis in (1, 0):  # x, then y
            c, *out = cells = each((g.sizes[1], *g.sizes[2:]), "cyx")
            grid = Grid(d, roi, r, image.sizes, g.sizes)
            gradient, there = g[[r, c, *out]], []
            if d.reduction_function == ReduceFunction.MAX:
                k: Any = grid.winner(image, b, c, out)
                bound = cells
            else:
                k, within = grid.each()
                gradient, there = gradient / grid.samples, [within]
                bound = Indices((*cells, *k))
                bound.bound = (*cells.bound, *k.bound)
            sample = grid.sample(out, k)
            slope, interior = _slope(grid, axis, image, (b, c), sample)
            side = grid.sides[axis]
            share = side.share(sample.s[axis])
            part = (share if last else 1 - share) * side.scale
            where = reduce(both, [*there, interior, negation(equal(part, 0))])
            made.append(Sum(bound, gradient * part * slope, where))
    return nest(i, pieces(corner, range(4), made))
