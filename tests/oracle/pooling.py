"""Pooling: means, largest elements and norms at each position of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from gmpy2 import iroot, mpq, mpz

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, divide, greater, is_nan, multiply
from .numbers import INFINITY, NAN, Array, Value, bits, exact, square_root, stored, to_integer_array, values
from .quantize import integers, stepped, to_array

Place = tuple[int, ...]


def taps(attributes: Attributes, sizes: Sequence[int], out: Place) -> tuple[list[Place], int]:
    """The elements of the window for an output, in order, and their number in the padded input."""
    count = len(sizes)
    dilations = attributes.get("dilations") or (1,) * count
    there: list[list[int]] = []
    padded = 1
    for axis in range(count):
        first = out[axis] * attributes["strides"][axis] - attributes["start_padding"][axis]
        line = [first + k * dilations[axis] for k in range(attributes["window_size"][axis])]
        padded *= sum(-attributes["start_padding"][axis] <= p < sizes[axis] + attributes["end_padding"][axis] for p in line)
        there.append([p for p in line if 0 <= p < sizes[axis]])
    return list(product(*there)), padded


def windows(attributes: Attributes, image: Array, sizes: Sequence[int]) -> Iterator[tuple[int, int, list[Place], int]]:
    """For each output in row-major order: its batch and channel, its elements, and the divisor of a mean."""
    by_place = {out: taps(attributes, image.shape[2:], out) for out in product(*map(range, sizes[2:]))}
    for n, c in product(range(sizes[0]), range(sizes[1])):
        for place, padded in by_place.values():
            number = padded if attributes.get("include_padding") else len(place)
            yield n, c, place, max(number, 1)


def total(terms: Sequence[Value]) -> Value:
    found: Value = 0.0
    for at, x in enumerate(terms):
        found = add(found, x) if at else x
    return found


class Elements:
    """The elements of a tensor as values, by index."""

    def __init__(self, array: Array) -> None:
        self._values, self._sizes = values(array), array.shape

    def at(self, n: int, c: int, place: Place) -> Value:
        flat = 0
        for i, size in zip((n, c, *place), self._sizes, strict=True):
            flat = flat * size + i
        return self._values[flat]


def average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    image = inputs["input_tensor"]
    x = Elements(image)
    sizes, dtype = outputs["output_tensor"]
    results = (
        divide(total([x.at(n, c, p) for p in places]), mpq(number))
        for n, c, places, number in windows(attributes, image, sizes)
    )
    return {"output_tensor": stored(results, sizes, dtype)}


def largest(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    """The bits of the first NaN, else of the first largest element, and its index."""
    image = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    flat = image.ravel()
    elements, patterns = flat.tolist(), bits(flat).tolist()
    lowest = np.array([np.iinfo(image.dtype).min if image.dtype.kind in "iu" else -np.inf], image.dtype)
    found: list[int] = []
    indices: list[int] = []
    for n, c, places, _ in windows(attributes, image, sizes):
        best = None
        for place in places:
            at = int(np.ravel_multi_index((n, c, *place), image.shape))
            here = elements[at]
            if best is None or here > elements[best] or (here != here and elements[best] == elements[best]):
                best = at
        found.append(int(bits(lowest)[0]) if best is None else patterns[best])
        indices.append(best or 0)
    made = np.array(found, bits(lowest).dtype).view(dtype).reshape(sizes)
    results: Results = {"output_tensor": made}
    if "output_indices_tensor" in outputs:
        results["output_indices_tensor"] = to_integer_array(indices, *outputs["output_indices_tensor"])
    return results


def root(x: Any, p: int) -> Any:
    """A number that every format rounds like the p-th root of x > 0, which may be irrational."""
    n, d = mpz(x.numerator), mpz(x.denominator)
    # the root of n / d is that of n * d^(p - 1), divided by d, with 70 bits more than d, and a last bit for the remainder
    shift = 70 + d.bit_length()
    found, whole = iroot((n * d ** (p - 1)) << p * shift, p)
    return mpq(2 * found + (not whole), d << (shift + 1))


def norm(terms: Sequence[Value], p: int) -> Value:
    if any(is_nan(x) for x in terms):
        return NAN
    if any(type(x) is float and x != 0 for x in terms):
        return INFINITY
    powers = sum((abs(x) ** p for x in terms if type(x) is not float), mpq(0))
    if not powers:
        return 0.0
    return powers if p == 1 else square_root(powers) if p == 2 else root(powers, p)


def lp(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    image = inputs["input_tensor"]
    x = Elements(image)
    sizes, dtype = outputs["output_tensor"]
    results = (norm([x.at(n, c, p) for p in places], attributes["p"]) for n, c, places, _ in windows(attributes, image, sizes))
    return {"output_tensor": stored(results, sizes, dtype)}


def by_channel(array: Any, channels: int, convert: Any, default: Any) -> list[Any]:
    """The scale or zero point of each channel."""
    found = [default] if array is None else convert(array)
    return found * channels if len(found) == 1 else found


def quantized_average(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    image = inputs["input_tensor"]
    sizes, dtype = outputs["output_tensor"]
    channels = image.shape[1]
    sx, sy = (by_channel(inputs[f"{name}_scale_tensor"], channels, values, None) for name in ("input", "output"))
    zx, zy = (by_channel(inputs.get(f"{name}_zero_point_tensor"), channels, integers, 0) for name in ("input", "output"))
    flat = integers(image)
    results = []
    for n, c, places, number in windows(attributes, image, sizes):
        elements = [flat[int(np.ravel_multi_index((n, c, *place), image.shape))] for place in places]
        mean = divide(total([multiply(exact(x - zx[c]), sx[c]) for x in elements]), mpq(number))
        results.append(stepped(divide(mean, sy[c]), zy[c], dtype))
    return {"output_tensor": to_array(results, sizes, dtype)}


def added_up(terms: Mapping[Any, list[Value]], sizes: Sequence[int], dtype: Any) -> Results:
    sums = (total(terms.get(at, [])) for at in product(*map(range, sizes)))
    return {"output_gradient_tensor": stored(sums, sizes, dtype)}


def average_gradient(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    g = inputs["input_gradient_tensor"]
    sizes, dtype = outputs["output_gradient_tensor"]
    found: dict[Any, list[Value]] = {}
    for gradient, (n, c, places, number) in zip(values(g), windows(attributes, np.empty(sizes), g.shape), strict=True):
        for place in places:
            found.setdefault((n, c, *place), []).append(divide(gradient, mpq(number)))
    return added_up(found, sizes, dtype)


def largest_gradient(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    image, g = inputs["input_tensor"], inputs["input_gradient_tensor"]
    elements = Elements(image)
    found: dict[Any, list[Value]] = {}
    for gradient, (n, c, places, _) in zip(values(g), windows(attributes, image, g.shape), strict=True):
        best = None
        for place in places:
            here = elements.at(n, c, place)
            if best is None or greater(here, elements.at(n, c, best)) or (is_nan(here) and not is_nan(elements.at(n, c, best))):
                best = place
        if best is not None:
            found.setdefault((n, c, *best), []).append(gradient)
    return added_up(found, *outputs["output_gradient_tensor"])


OPERATORS = {
    "AVERAGE_POOLING_GRAD": average_gradient,
    "MAX_POOLING_GRAD": largest_gradient,
    **dict.fromkeys(("AVERAGE_POOLING", "AVERAGE_POOLING1"), average),
    **dict.fromkeys(("LP_POOLING", "LP_POOLING1"), lp),
    **dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), largest),
    "QUANTIZED_LINEAR_AVERAGE_POOLING": quantized_average,
}
