"""Elements that hurt, drawn for one array of a data type."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Kind = Literal["ties", "cancel", "range", "special"]
KINDS: tuple[Kind, ...] = ("ties", "cancel", "range", "special")


def elements(dtype: np.dtype[Any], shape: tuple[int, ...], kind: Kind, random: np.random.Generator, sign: bool) -> Array:
    """An array of elements of a kind. sign: whether neighbours of "cancel" have different signs; else they are nearly equal."""
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(np.bool_)
    if kind == "cancel":
        return _cancelling(dtype, shape, random, sign)
    return {"ties": _few_bits, "range": _wide, "special": _special}[kind](dtype, shape, random)


def _few_bits(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers of three bits, at distances of a precision: sums of two or three lie halfway between floats, or one step off.

    Integers are so small that sums of products are, too, and quotients by a power of two are often ties.
    """
    if dtype.kind != "f":
        return random.integers(max(int(np.iinfo(dtype).min), -4), 8, shape).astype(dtype)
    precision = np.finfo(dtype).nmant + 1
    distance = random.choice([0, 0, 0, precision - 1, precision, precision + 1], shape)
    found: Array = np.ldexp(random.integers(1, 8, shape) * random.choice([-1.0, 1.0], shape), -distance).astype(dtype)
    return found


def _cancelling(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator, sign: bool) -> Array:
    """Numbers that are equal up to a few steps, with alternating signs or not."""
    parity = np.where(np.indices(shape).sum(axis=0) % 2 == 1, -1, 1) if sign and shape else np.ones(shape, np.int64)
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        middle = 0 if info.min < 0 else min(info.max // 2 + 1, 1 << 40)
        most = min(info.max - middle, 1 << 40) // 2
        return (middle + parity * (most - random.integers(0, 3, shape))).astype(dtype)
    steps = random.integers(-8, 9, shape) * float(np.finfo(dtype).eps)
    return (parity * random.uniform(1, 2) * (1 + steps)).astype(dtype)


def _wide(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers of all magnitudes from the smallest subnormal to the largest, half of them near 1; integers of all lengths."""
    if dtype.kind != "f":
        found = _integers(dtype, shape, random)
        return np.asarray(found >> random.integers(0, np.iinfo(dtype).bits, shape).astype(dtype))
    info = np.finfo(dtype)
    exponent = random.integers(info.minexp - info.nmant, info.maxexp, shape)
    exponent = np.where(random.random(shape) < 0.5, exponent, random.integers(-6, 7, shape))
    with np.errstate(under="ignore"):
        drawn = np.ldexp(random.uniform(1, 2, shape) * random.choice([-1.0, 1.0], shape), exponent)
    return np.asarray(np.clip(drawn, float(info.min), float(info.max)).astype(dtype))


def _special(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """NaN of both signs, infinities, both zeros, the limits of normal and subnormal numbers; the limits of integers."""
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        limits = [info.min, info.min + 1, max(info.min, -1), 0, 1, info.max // 2, info.max - 1, info.max]
        return random.choice(np.array(limits, dtype), shape)
    floats = np.finfo(dtype)
    below = np.nextafter(floats.tiny, dtype.type(0))
    positive = [0, floats.smallest_subnormal, below, floats.tiny, 1, 0.5, 2, 3, floats.max, np.inf, np.nan]
    numbers = np.array([*positive, *positive], dtype)
    numbers[len(positive) :] = -numbers[: len(positive)]
    weights = np.where(np.isfinite(numbers), 1.0, 0.25)  # so that not every sum is NaN
    return random.choice(numbers, shape, p=weights / weights.sum())


def _integers(dtype: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array:
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)
