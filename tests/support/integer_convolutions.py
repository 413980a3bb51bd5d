"""Convolutions of 8-bit integers with any layout and given numbers, and the oracle's exact results.

Like the oracle, this module imports nothing of anydml.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oracle_many
from matmul_cases import PLACES, Placed, place, strides_of
from oracle import contractions

Array = NDArray[Any]
EIGHT_BIT = (np.dtype(np.uint8), np.dtype(np.int8))
LAYOUTS = ("packed", "packed", "padded", "stepped", "permuted")


@dataclass(frozen=True)
class Recipe:
    """The description of a case.

    windows: for each spatial dimension, the sizes of input and filter, stride, dilation and both paddings. by_channel: whether
    the filter's scale, and its zero point, differ by output channel.
    """

    types: tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]
    batch: int
    groups: int
    read: int
    written: int
    windows: tuple[tuple[int, int, int, int, int, int], ...]
    quantized: bool = True
    by_channel: tuple[bool, bool] = (True, True)
    absent: frozenset[str] = frozenset()
    bias: str = "as large as the sums"
    scales: str = "any"
    layouts: dict[str, str] = field(default_factory=dict)
    place: str = PLACES[2]
    seed: int = 0

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(1 + (n + p + q - 1 - (t - 1) * d) // s for n, t, s, d, p, q in self.windows)


@dataclass(frozen=True)
class Case:
    """A recipe with its arrays."""

    recipe: Recipe
    attributes: dict[str, Any]
    inputs: dict[str, Placed]
    output: Placed
    expected: Array


def random_recipe(rng: random.Random) -> Recipe:
    """Any recipe: mostly small, sometimes with many channels, many filters or long rows."""
    windows = []
    for _ in range(rng.choice((1, 2, 2, 2))):
        taps, stride, dilation = (
            rng.choice((1, 2, 3, 3, 5)),
            rng.choice((1, 1, 1, 2, 2, 3, 4, 5)),
            rng.choice((1, 1, 1, 2, 3, 4)),
        )
        start, end = rng.choice((0, 0, 1, 2, 7)), rng.choice((0, 1, 2, 9))
        least = max(1, 1 + (taps - 1) * dilation - start - end)
        windows.append((least + rng.randint(0, 30 if rng.random() < 0.7 else 70), taps, stride, dilation, start, end))
    optional = ("input_zero_point_tensor", "filter_zero_point_tensor", "output_zero_point_tensor", "bias_tensor")
    return Recipe(
        (rng.choice(EIGHT_BIT), rng.choice(EIGHT_BIT), rng.choice(EIGHT_BIT)),
        *(rng.choice((1, 1, 2)), rng.choice((1, 1, 2, 3))),
        read=rng.randint(1, 5) if rng.random() < 0.9 else rng.randint(20, 70),
        written=rng.randint(1, 4) if rng.random() < 0.7 else rng.randint(5, 40),
        windows=tuple(windows),
        quantized=rng.random() < 0.6,
        by_channel=(rng.random() < 0.5, rng.random() < 0.5),
        absent=frozenset(x for x in optional if rng.random() < 0.25),
        bias=rng.choice(("as large as the sums", "as large as the sums", "any", "ends")),
        scales=rng.choice(("any", "any", "powers")),
        layouts={x: rng.choice(LAYOUTS) for x in ("input_tensor", "filter_tensor", "output_tensor")},
        place=rng.choice(PLACES),
        seed=rng.getrandbits(32),
    )


def make(r: Recipe) -> Case:
    """The case that a recipe describes."""
    rng, numbers = random.Random(r.seed), np.random.default_rng(r.seed)
    placed: dict[str, Placed] = {}
    spatial = len(r.windows)
    channels = r.groups * r.written

    def put(name: str, values: Array) -> None:
        strides = strides_of(r.layouts.get(name, "packed"), values.shape, rng)
        placed[name] = place(values.shape, values.dtype, strides, r.place, rng.choice((0xFF, 0x00)))
        placed[name].tensor[...] = values

    def any_of(dtype: np.dtype[Any], sizes: Sequence[int]) -> Array:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if rng.random() < 0.2:
            return numbers.choice((low, high), sizes).astype(dtype)
        return numbers.integers(low, high, sizes, dtype, endpoint=True)

    of_channel = (1, channels, *(1,) * spatial)
    single = (1,) * len(of_channel)
    x_type, f_type, y_type = r.types
    sizes, taps, strides, dilations, starts, ends = zip(*r.windows, strict=True)
    put("input_tensor", any_of(x_type, (r.batch, r.groups * r.read, *sizes)))
    put("filter_tensor", any_of(f_type, (channels, r.read, *taps)))
    put("input_zero_point_tensor", any_of(x_type, single))
    put("filter_zero_point_tensor", any_of(f_type, of_channel if r.by_channel[0] else single))
    attributes = dict(
        strides=strides, dilations=dilations, start_padding=starts, end_padding=ends, group_count=r.groups
    )  # fmt: skip
    for name in r.absent & placed.keys():
        del placed[name]
    shape = (r.batch, channels, *r.outputs)
    sums = contractions.convolved(attributes, {name: x.tensor for name, x in placed.items()}, shape)
    expected = sums.astype(np.int32)  # with wrapping
    if r.quantized:
        if "bias_tensor" not in r.absent:
            most = max(1, int(np.abs(sums).max())) if r.bias == "as large as the sums" else 2**31 - 1
            bias = numbers.integers(-most, most, of_channel, np.int64, endpoint=True)
            if r.bias == "ends":
                bias[...] = numbers.choice((-(2**31), 2**31 - 1))
            put("bias_tensor", bias.astype(np.int32))
            sums = sums + bias
        if "output_zero_point_tensor" not in r.absent:
            put("output_zero_point_tensor", any_of(y_type, single))
        scales = _scales(numbers, r, sums, of_channel if r.by_channel[1] else single, single)
        for of, scale in zip(("filter", "input", "output"), scales, strict=True):
            put(f"{of}_scale_tensor", scale)
        expected = _quantized(r, sums, scales, placed.get("output_zero_point_tensor"))
    output = place(shape, expected.dtype, strides_of(r.layouts.get("output_tensor", "packed"), shape, rng), r.place, 0xA5)
    return Case(r, attributes, placed, output, expected)


def _scales(
    numbers: np.random.Generator, r: Recipe, sums: Array, of_filter: Sequence[int], single: Sequence[int]
) -> list[Array]:
    """The scales of filter, input and output, with which most results are in the output's range or not far outside of it."""
    f = numbers.uniform(0.1, 1.1, of_filter).astype(np.float32)
    x = numbers.uniform(0.01, 3, single).astype(np.float32)
    if r.scales == "powers":
        f, x = np.ones_like(f), np.ones_like(x)
    wanted = numbers.choice((4, 60, 100, 300, 3000))
    y = (float(x.max()) * float(f.max()) * max(1, int(np.abs(sums).max())) / wanted * np.ones(single)).astype(np.float32)
    if r.scales == "powers":
        y = np.exp2(np.round(np.log2(y))).astype(np.float32)
    return [f, x, y]


def _quantized(r: Recipe, sums: Array, scales: Sequence[Array], zero_point: Placed | None) -> Array:
    """The quantised sums, by the oracle of matrices with channels as rows."""
    rows = sums.reshape(r.batch, 1, sums.shape[1], -1)
    f, x, y = (s.reshape(1, 1, -1, 1) for s in scales)
    low, high = np.iinfo(r.types[2]).min, np.iinfo(r.types[2]).max
    added = None if zero_point is None else np.array(zero_point.tensor).reshape(1, 1, 1, 1)
    made: Array = oracle_many.quantize_many(rows, f, x, y, added, low, high).astype(r.types[2]).reshape(sums.shape)
    return made
