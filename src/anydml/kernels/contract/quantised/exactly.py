"""Outputs that bounds leave undecided, decided in Python: sums of fractions, rounded step by step."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.kernels.contract.quantised.bounds import as_stated, elements_of
from anydml.kernels.contract.quantised.geometry import Geometry
from anydml.kernels.contract.quantised.sums import QuantisedSums
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.kernel import Arrays
from anydml.tensor import DataType


class Listed(NamedTuple):
    """A list of outputs. counter: the scratch word with its count; first: its first int32 in `passing`; room: its capacity;
    outputs: those that it may list."""

    counter: int
    first: int
    room: int
    outputs: range


def decide(
    region: QuantisedSums,
    geometry: Geometry,
    x_type: DataType,
    lists: Sequence[Listed],
    scratch: NDArray[np.int64],
    arrays: Arrays,
) -> None:
    """Decide the outputs on each list, or all outputs that it may list if these are more than it has room for."""
    *_, name, of_other_name = region.names
    output, small = arrays[name], arrays["passing"].view(np.int32)
    elements = elements_of(x_type, *region.x)[1]
    other = None if of_other_name is None else arrays[of_other_name]
    of_other = None if other is None or region.other is None else elements_of(DataType.of(other.dtype), *region.other)[1]
    for counter, first, room, outputs in lists:
        count = int(scratch[counter])
        for number in outputs if count > room else small[first : first + count].tolist():
            TALLY.note(1)
            total = _sum(region, geometry, elements, arrays, number)
            place = np.unravel_index(number, output.shape)
            added = Fraction(0)
            if other is not None and of_other is not None:
                added = Fraction(float(of_other[other[place].view(np.uint8)]))
            output[place] = as_stated(total, added, region, DataType.of(output.dtype))


def _sum(region: QuantisedSums, g: Geometry, elements: NDArray[np.float32], arrays: Arrays, number: int) -> Fraction:
    """The sum of one output, including the bias."""
    x = w = channel = 0
    rest, places = number, list[int]()
    for size, of_x, of_w, of_channel in g.dimensions[::-1]:
        rest, place = divmod(rest, size)
        x, w, channel = x + place * of_x, w + place * of_w, channel + place * of_channel
        places.insert(0, place)
    a, b = (np.lib.stride_tricks.as_strided(arrays[n], (_span(arrays[n]),), (1,)) for n in region.names[:2])
    scales, zeros = region.weights
    total = Fraction(float(region.bias[channel]))
    inner = np.arange(g.inner[0])
    for taps in product(*(range(window[0]) for window in g.windows)):
        at_x, at_w = x, w
        for tap, place, (_, dilation, stride, start, size, of_x, of_w) in zip(taps, places[-3:], g.windows, strict=True):
            at = place * stride - start + tap * dilation
            if not 0 <= at < size:
                break
            at_x, at_w = at_x + at * of_x, at_w + tap * of_w
        else:
            left = elements[a[at_x + inner * g.inner[1]].view(np.uint8)]
            integers = b[at_w + inner * g.inner[2]].astype(np.int64) - int(zeros[channel])
            right = round_to_float32(np.float64(scales[channel]) * integers)
            total += sum((Fraction(float(p)) * Fraction(float(q)) for p, q in zip(left, right, strict=True)), Fraction(0))
    return total


def _span(array: NDArray[np.uint8]) -> int:
    """Bytes from the first element to the last."""
    return 1 + sum(int((n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True))
