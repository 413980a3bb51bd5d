"""ROI_POOLING, ROI_ALIGN and its gradient: bins and samples of regions, in fractions.

The sizes of ROI_ALIGN's regions and its numbers of samples are computed in float32; nothing else is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, divide, greater, is_nan, maximum, multiply, subtract
from .numbers import Value, bits, exact, rounded, stored, values
from .resampling import MOST, grid

Weights = dict[int, Any]


def fraction(x: Value) -> Any:
    return mpq(0) if type(x) is float else x


def half_away(x: Any) -> int:
    return int(math.copysign(math.floor(abs(x) + mpq(1, 2)), x)) if x else 0


def pooling(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    elements, patterns = grid(x), bits(x)
    scale = fraction(exact(attributes["spatial_scale"]))
    made = np.zeros(sizes, patterns.dtype)
    for r, row in enumerate(inputs["roi_tensor"][0, 0]):
        batch, *corners = map(fraction, values(row))
        x1, y1, x2, y2 = (half_away(c * scale) for c in corners)
        for oy, ox in np.ndindex(*sizes[2:]):
            lines = []
            for first, last, o, parts, size in ((y1, y2, oy, sizes[2], x.shape[2]), (x1, x2, ox, sizes[3], x.shape[3])):
                length = max(last - first + 1, 1)
                start, end = o * length // parts + first, ((o + 1) * length + parts - 1) // parts + first
                lines.append(range(min(max(start, 0), size), min(max(end, 0), size)))
            for c in range(sizes[1]):
                best = None
                for place in product(*lines):
                    at = (int(batch), c, *place)
                    here = elements[at]
                    if best is None or greater(here, elements[best]) or (is_nan(here) and not is_nan(elements[best])):
                        best = at
                if best is not None:
                    made[r, c, oy, ox] = patterns[best]
    return {"output_tensor": made.view(dtype)}


def float32(x: Any) -> Any:
    """A number rounded to float32; overflow gives the largest number."""
    found = rounded(exact(x), np.float32)
    if type(found) is float:
        return mpq(0) if found == 0 else mpq(math.copysign(1, found)) * MOST
    return found


class Side:
    """A dimension of a region, with the samples of each output."""

    def __init__(self, a: Attributes, corners: tuple[Value, Value], axis: str, size: int, outputs: int) -> None:
        scale = fraction(exact(a[f"spatial_scale_{axis}"]))
        first, last = (fraction(c) * scale for c in corners)
        self.size, self.scale = size, scale
        extent = float32(float32(last) - float32(first))
        needed = math.ceil(float32(abs(extent) / outputs))
        self.samples = min(a["maximum_samples_per_output"], max(a["minimum_samples_per_output"], needed))
        before, after = (
            fraction(exact(a.get(name, default)))
            for name, default in (("input_pixel_offset", 0.5), ("output_pixel_offset", -0.5))
        )
        self.nearest = a["interpolation_mode"] == "NEAREST_NEIGHBOR"
        every = outputs * self.samples
        self.shares, self.places = [], []
        for s in range(every):
            share = (s - after) / mpq(every)
            if a.get("align_regions_to_corners"):
                share = (s - after) / mpq(every - 1) if every > 1 else mpq(1, 2)
            self.shares.append(share)
            self.places.append(extent * share + first - before)

    def of(self, output: int) -> range:
        return range(output * self.samples, (output + 1) * self.samples)

    def inside(self, s: int) -> bool:
        return bool(-1 <= self.places[s] <= self.size)

    def weights(self, s: int) -> Weights:
        """The elements that a sample reads, with their weights."""
        x = min(max(self.places[s], mpq(0)), mpq(self.size - 1))
        if self.nearest:
            return {min(math.floor(x + mpq(1, 2)), self.size - 1): mpq(1)}
        low = math.floor(x)
        return {p: w for p, w in ((low, 1 - (x - low)), (low + 1, x - low)) if w}


class Region:
    def __init__(self, a: Attributes, inputs: Inputs, r: int, image: Any, outputs: Any) -> None:
        x1, y1, x2, y2 = values(inputs["roi_tensor"].reshape(-1, 4)[r])
        self.batch = int(inputs["batch_indices_tensor"].ravel()[r])
        self.y, self.x = Side(a, (y1, y2), "y", image[2], outputs[2]), Side(a, (x1, x2), "x", image[3], outputs[3])

    def samples(self, oy: int, ox: int) -> list[tuple[int, int]]:
        return list(product(self.y.of(oy), self.x.of(ox)))

    def inside(self, s: tuple[int, int]) -> bool:
        return self.y.inside(s[0]) and self.x.inside(s[1])

    def reads(self, s: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Any]]:
        for (p, wy), (q, wx) in product(self.y.weights(s[0]).items(), self.x.weights(s[1]).items()):
            yield (p, q), wy * wx

    def value(self, image: Any, c: int, s: tuple[int, int]) -> Value:
        one = image[self.batch, c]
        return reduce(add, (multiply(one[at], w) for at, w in self.reads(s)))

    def winner(self, image: Any, c: int, oy: int, ox: int) -> list[tuple[int, int]]:
        """The first of the largest samples inside of the image, in a list; NaN counts as the largest."""
        best: list[tuple[tuple[int, int], Value]] = []
        for s in self.samples(oy, ox):
            if not self.inside(s):
                continue
            here = self.value(image, c, s)
            if not best or (not is_nan(best[0][1]) and (is_nan(here) or greater(here, best[0][1]))):
                best = [(s, here)]
        return [s for s, _ in best]


def align(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    sizes, dtype = outputs["output_tensor"]
    image = grid(inputs["input_tensor"])
    outside = exact(attributes["out_of_bounds_input_value"])
    regions = [Region(attributes, inputs, r, image.shape, sizes) for r in range(sizes[0])]
    results = []
    for r, c, oy, ox in np.ndindex(*sizes):
        one = regions[r]
        read = [one.value(image, c, s) if one.inside(s) else outside for s in one.samples(oy, ox)]
        if attributes["reduction_function"] == "MAX":
            results.append(reduce(maximum, read))
        else:
            results.append(divide(reduce(add, read), mpq(len(read))))
    return {"output_tensor": stored(results, sizes, dtype)}


def sum_of(terms: list[Value]) -> Value:
    return reduce(add, terms) if terms else 0.0


def gradient(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    g = grid(inputs["input_gradient_tensor"])
    image = None if inputs.get("input_tensor") is None else grid(inputs["input_tensor"])
    whole = image.shape if image is not None else outputs["output_gradient_tensor"][0]
    largest = attributes["reduction_function"] == "MAX"
    to_image: dict[Any, list[Value]] = {}
    to_corners: list[list[list[Value]]] = []
    for r in range(g.shape[0]):
        one = Region(attributes, inputs, r, whole, g.shape)
        corners: list[list[Value]] = [[], [], [], []]
        to_corners.append(corners)
        for c, oy, ox in np.ndindex(*g.shape[1:]):
            incoming: Value = g[r, c, oy, ox]
            every = one.samples(oy, ox)
            chosen = one.winner(image, c, oy, ox) if largest else [s for s in every if one.inside(s)]
            part = mpq(1) if largest else mpq(1, len(every))
            passed: dict[Any, Any] = {}
            for s in chosen:
                for at, w in one.reads(s):
                    passed[at] = passed.get(at, 0) + w * part
            for at, w in passed.items():
                to_image.setdefault((one.batch, c, *at), []).append(multiply(incoming, w))
            for s in chosen if image is not None and not one.x.nearest else []:
                for first, axis in ((0, 1), (1, 0)):
                    slope = derivative(one, image, c, s, axis)
                    if slope is None:
                        continue
                    side = (one.y, one.x)[axis]
                    for corner, chain in ((first, 1 - side.shares[s[axis]]), (first + 2, side.shares[s[axis]])):
                        if factor := chain * side.scale * part:
                            corners[corner].append(multiply(multiply(incoming, factor), slope))
    results: Results = {}
    if "output_gradient_tensor" in outputs:
        sizes, dtype = outputs["output_gradient_tensor"]
        results["output_gradient_tensor"] = stored((sum_of(to_image.get(i, [])) for i in np.ndindex(*sizes)), sizes, dtype)
    if "output_roi_gradient_tensor" in outputs:
        sizes, dtype = outputs["output_roi_gradient_tensor"]
        results["output_roi_gradient_tensor"] = stored((sum_of(t) for row in to_corners for t in row), sizes, dtype)
    return results


def derivative(one: Region, image: Any, c: int, s: tuple[int, int], axis: int) -> Value | None:
    """The image's derivative at a sample, along rows (0) or columns (1); None if the sample was moved to the edge, or is
    there."""
    side, other = ((one.y, one.x), (one.x, one.y))[axis]
    place = side.places[s[axis]]
    if not 0 <= place < side.size - 1:
        return None
    low, terms = math.floor(place), []
    for across, w in other.weights(s[1 - axis]).items():
        line = image[one.batch, c, :, across] if axis == 0 else image[one.batch, c, across]
        before, after = line[low], line[low + 1]
        terms.append(multiply(subtract(after, before), w))
    return sum_of(terms)


OPERATORS: dict[str, Any] = {
    "ROI_POOLING": pooling,
    **dict.fromkeys(("ROI_ALIGN", "ROI_ALIGN1"), align),
    "ROI_ALIGN_GRAD": gradient,
}
