"""RESAMPLE and its gradients: the weights along each dimension in fractions, and sums of products of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from gmpy2 import mpq

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, multiply
from .numbers import Array, Value, bits, exact, half_even, rounded, stored, to_integer_array, values

Weights = list[tuple[int, Any]]  # of one output along a dimension: elements of the input with their weights
MOST = (1 << 128) - (1 << 104)


def single(x: Any) -> Any:
    """A fraction rounded to float32; overflow gives infinity."""
    found = rounded(exact(x), np.float32)
    return found if type(found) is not float or math.isinf(found) else mpq(0)


class Dimension:
    def __init__(self, attributes: Attributes, axis: int, size: int) -> None:
        self.size = size
        self.scale = mpq(attributes["scales"][axis])
        self.before, self.after = (
            mpq(attributes[name][axis]) if name in attributes else mpq(default)
            for name, default in (("input_pixel_offsets", 0.5), ("output_pixel_offsets", -0.5))
        )
        self.direction = attributes.get("rounding_direction")
        self.box = bool(attributes.get("antialiased")) and 1 / self.scale > 2

    def edge(self, place: Any) -> int:
        return int(max(0, min(self.size - 1, place)))

    def float32_place(self, o: int) -> Any:
        quotient = single(single(o - self.after) / self.scale)
        if type(quotient) is float:
            return MOST if quotient > 0 else -MOST
        x = single(quotient - self.before)
        return x if type(x) is not float else MOST if x > 0 else -MOST

    def nearest(self, o: int) -> Weights:
        x = self.float32_place(o)
        if self.direction is None:
            x = math.floor(x + mpq(1, 2))
        return [(self.edge(math.ceil(x) if self.direction == "INCREASING" else math.floor(x)), mpq(1))]

    def linear(self, o: int) -> Weights:
        if self.box:
            x, half = self.float32_place(o), 1 / self.scale / 2
            lo, hi = math.ceil(x - half), math.ceil(x + half)
            times = [0] * self.size
            if hi > 0 and lo < self.size:
                for p in range(max(lo, 0), min(hi, self.size)):
                    times[p] += 1
            times[0] += max(0, min(hi, 0) - lo)
            times[-1] += max(0, hi - max(lo, self.size))
            return [(p, mpq(t, hi - lo)) for p, t in enumerate(times) if t]
        x = (o - self.after) / self.scale - self.before
        low = math.floor(x)
        both = [(self.edge(low), 1 - (x - low)), (self.edge(low + 1), x - low)]
        return [(p, weight) for p, weight in both if weight]


def every_weight(attributes: Attributes, source: Sequence[int], target: Sequence[int]) -> list[list[Weights]]:
    """The weights for each dimension and each of its outputs."""
    found = []
    for axis, (size, many) in enumerate(zip(source, target, strict=True)):
        one = Dimension(attributes, axis, size)
        weigh: Callable[[int], Weights] = one.nearest if attributes["interpolation_mode"] == "NEAREST_NEIGHBOR" else one.linear
        found.append([weigh(o) for o in range(many)])
    return found


def grid(array: Array) -> Any:
    made = np.empty(array.shape, object)
    made.ravel()[:] = values(array)
    return made


def forward(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    x = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    weights = every_weight(attributes, x.shape, sizes)
    if attributes["interpolation_mode"] == "NEAREST_NEIGHBOR":
        picked = np.ix_(*([line[0][0] for line in axis] for axis in weights))
        return {"output_tensor": np.ascontiguousarray(bits(x)[picked]).view(dtype)}
    elements, results = grid(x), []
    for o in np.ndindex(*sizes):
        terms: list[Value] = []
        for taps in product(*(axis[at] for axis, at in zip(weights, o, strict=True))):
            weight = reduce(mpq.__mul__, (w for _, w in taps), mpq(1))
            terms.append(multiply(elements[tuple(p for p, _ in taps)], weight))
        results.append(reduce(add, terms))
    if np.dtype(dtype).kind not in "iu":
        return {"output_tensor": stored(results, sizes, dtype)}
    whole = [0 if type(value) is float else half_even(value) for value in results]
    return {"output_tensor": to_integer_array(whole, sizes, dtype)}


def backward(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    g = inputs["input_gradient_tensor"]
    sizes, dtype = outputs["output_gradient_tensor"]
    weights = every_weight(attributes, sizes, g.shape)
    elements = grid(g)
    totals: dict[tuple[int, ...], Value] = {}
    for o in np.ndindex(*g.shape):
        for taps in product(*(axis[at] for axis, at in zip(weights, o, strict=True))):
            weight = reduce(mpq.__mul__, (w for _, w in taps), mpq(1))
            place = tuple(p for p, _ in taps)
            term = multiply(elements[o], weight)
            totals[place] = add(totals[place], term) if place in totals else term
    return {"output_gradient_tensor": stored((totals.get(p, 0.0) for p in np.ndindex(*sizes)), sizes, dtype)}


OPERATORS: dict[str, Any] = {
    **dict.fromkeys(("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), forward),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), backward),
}
