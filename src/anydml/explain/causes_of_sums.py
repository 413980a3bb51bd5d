"""The search for causes in additions and means of quantised tensors: other roundings, and the arithmetic of phones."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from anydml.exact.float32 import significands
from anydml.explain import patches
from anydml.explain.causes_of_quantisation import OF_QUOTIENTS
from anydml.explain.changes import Deviation
from anydml.explain.comparison import Cause
from anydml.explain.compiled import compiled
from anydml.explain.known import ADDITIONS, MEANS, REQUANTISATIONS
from anydml.explain.search import PATCHES, Array, Arrays, Search

APART = 20  # binary exponents by which the scales of two terms may differ, so that their sum is an integer of 53 bits


def of_addition(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    search = Search(expected, actual)
    terms = [_parts(arrays, name, expected.dtype) for name in ("a", "b")]
    _, y, zero_point = _parts(arrays, "output", expected.dtype)
    if not all(np.isfinite(scale) and scale > 0 for scale in (terms[0][1], terms[1][1], y)):
        return ()
    for name, (x, _, own) in zip("ab", terms, strict=True):
        if (x != own).any():
            without = {**arrays, f"{name}_tensor": np.full_like(x, own)}
            search.tried(_mistake("missing_term", f"the sum without {name.upper()}"), _computed(d, without, expected))
    for deviation in ADDITIONS:
        found = deviation.function(*terms[0], *terms[1], y, zero_point, output_data_type=expected.dtype)
        search.tried(deviation, found)
    (m, n), (e, f) = (np.concatenate(x) for x in zip(*(significands(s.reshape(1)) for _, s, _ in terms), strict=True))
    low = min(e, f)
    if max(e, f) - low <= APART and -126 <= low <= 127:
        weights = (int(m) << int(e - low), int(n) << int(f - low))
        q = sum(w * (x.astype(np.int64) - int(z)) for w, (x, _, z) in zip(weights, terms, strict=True))
        if max(weights) < 2**43:
            _rounded(search, np.asarray(q), np.float32(2.0 ** int(low)), y, zero_point, expected)
    return search.found()


def of_mean(d: Any, arrays: Arrays, expected: Array, actual: Array) -> tuple[Cause, ...]:
    """The causes in a mean of windows: padding counted, and others where elements and result have the same scale."""
    search = Search(expected, actual)
    counted = replace(d, include_padding=not d.include_padding)
    said = f"the mean with padding {'left out' if d.include_padding else 'counted'}"
    search.tried(_mistake("padding_counted", said), _computed(counted, arrays, expected))
    return _of_equal_scales(search, d, arrays, expected) or search.found()


def _of_equal_scales(search: Search, d: Any, arrays: Arrays, expected: Array) -> tuple[Cause, ...]:
    x, scale, x_zero_point = _parts(arrays, "input", expected.dtype)
    _, y, zero_point = _parts(arrays, "output", expected.dtype)
    same = scale.size == y.size == x_zero_point.size == zero_point.size == 1 and scale == y
    if not same or expected.size * math.prod(d.window_size) > PATCHES:
        return ()
    window = SimpleNamespace(
        filter_tensor=SimpleNamespace(sizes=(x.shape[1], 1, *d.window_size)), output_tensor=d.output_tensor, strides=d.strides,
        dilations=d.dilations, start_padding=d.start_padding, group_count=x.shape[1],
    )  # fmt: skip

    def summed(values: Array) -> Array:
        """The sums of each window, in the output's order."""
        sums = patches.patches(window, values.astype(np.int64), 0).sum(axis=-1)
        by_channel = sums.reshape(x.shape[1], x.shape[0], *expected.shape[2:])
        return np.ascontiguousarray(by_channel.swapaxes(0, 1))

    there = summed(np.ones_like(x))
    count = np.full_like(there, math.prod(d.window_size)) if d.include_padding else there
    if not count.all():
        return ()
    if zero_point == x_zero_point and not d.include_padding:
        for deviation in MEANS:
            search.tried(deviation, deviation.function(summed(x), count, output_data_type=expected.dtype))
    centred = summed(x.astype(np.int64) - int(x_zero_point))
    _rounded(search, centred, np.float32(1), count.astype(np.float32), zero_point, expected)
    return search.found()


def _mistake(name: str, sentence: str) -> Deviation:
    return Deviation(name, sentence, lambda: None)


def _computed(d: Any, arrays: Arrays, like: Array) -> Array:
    """The exact output of another desc, or for other inputs."""
    made = np.empty_like(like)
    compiled(d).bind(**arrays, output_tensor=made).execute()
    return made


def _rounded(search: Search, q: Array, scale: Any, y: Array, zero_point: Array, expected: Array) -> None:
    """Try other roundings of the quotients q * scale / y."""
    for deviation in REQUANTISATIONS:
        if deviation.name in OF_QUOTIENTS:
            search.tried(deviation, deviation.function(q, scale, np.float32(1), y, zero_point, output_data_type=expected.dtype))


def _parts(arrays: Arrays, name: str, dtype: Any) -> tuple[Array, Array, Array]:
    """A tensor, its scale and its zero point, which are single elements if there is one for the tensor."""
    x = arrays.get(f"{name}_tensor", np.zeros(0, dtype))
    scale, zero_point = arrays[f"{name}_scale_tensor"], arrays.get(f"{name}_zero_point_tensor")
    zero_point = np.zeros((), x.dtype) if zero_point is None else zero_point
    scale, zero_point = (p.reshape(()) if p.size == 1 else p for p in (scale, zero_point))
    return x, scale, zero_point
