"""Arrays with hostile data: sums of few terms are ties, cancel to zero, underflow and overflow."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
KINDS = ("ordinary", "specials", "ties", "cancelling", "wide", "small")


def values(data_type_name: str, size: int | tuple[int, ...], rng: np.random.Generator, kind: str) -> Array:
    """An array of a data type ("FLOAT32", "INT8", ...).

    ordinary: normally distributed floats; integers with equal probability. specials: NaN with payloads, infinities, zeros,
    subnormals, the largest numbers; the limits of integers. ties: significands of few bits, with exponents one precision apart.
    cancelling: few magnitudes; every second element is the negative of the one before. wide: any finite bit pattern. small:
    integers near zero, among them -0.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
    dtype = np.dtype(data_type_name.lower())
    count = prod(size) if isinstance(size, tuple) else size
    draw = _integers if dtype.kind in "iu" else _floats
    drawn: Array = draw(dtype, count, rng, kind)
    return drawn.reshape(size)


def _floats(dtype: np.dtype[Any], count: int, rng: np.random.Generator, kind: str) -> Any:
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # it has NumPy's types, too
    precision = info.nmant + 1
    if kind == "ordinary":
        return rng.standard_normal(count).astype(dtype)
    if kind == "specials":
        return rng.choice(_special_bits(dtype), count).view(dtype)
    if kind == "ties":
        # k * 2**-e and numbers one precision below it: sums of two or three are halfway between neighbours, or close to that
        distance = rng.choice([0, 0, precision - 1, precision, precision + 1], count)
        integers = rng.integers(1, 8, count) * rng.choice([-1, 1], count)
        return np.ldexp(integers.astype(np.float64), 2 - distance).astype(dtype)
    if kind == "cancelling":
        pool = rng.standard_normal(5)
        drawn = rng.choice(pool, count).astype(dtype)
        drawn[1::2] = -drawn[: len(drawn[1::2]) * 2 : 2]
        return drawn
    if kind == "wide":
        unsigned = np.dtype(f"u{dtype.itemsize}")
        drawn = rng.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True)
        infinity = np.array(np.inf, dtype).view(unsigned)
        return np.where(drawn & infinity == infinity, drawn ^ infinity, drawn).view(dtype)
    integers = rng.integers(-4, 5, count).astype(np.float64)
    return np.copysign(integers, rng.choice([-1, 1], count)).astype(dtype)


def _special_bits(dtype: np.dtype[Any]) -> Array:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # it has NumPy's types, too
    numbers = [0.0, info.smallest_subnormal, info.tiny, np.nextafter(info.tiny, dtype.type(0)), 1.0, 0.5, 2.0]
    numbers += [info.max, info.max / dtype.type(2), np.inf]
    positive = np.array(numbers, dtype).view(unsigned)
    nan = np.array(np.inf, dtype).view(unsigned) | np.array([1 << (info.nmant - 1), (1 << info.nmant) - 1, 1], unsigned)
    patterns = np.concatenate([positive, positive, nan[:1], nan])
    sign = unsigned.type(1 << (8 * dtype.itemsize - 1))
    return np.concatenate([patterns, patterns | sign])


def _integers(dtype: np.dtype[Any], count: int, rng: np.random.Generator, kind: str) -> Any:
    info = np.iinfo(dtype)
    lo, hi = int(info.min), int(info.max)
    if kind == "specials":
        return rng.choice(np.array([lo, lo + 1, max(lo, -1), 0, 1, hi // 2, hi - 1, hi], dtype), count)
    if kind == "small":
        return rng.integers(max(lo, -4), 5, count).astype(dtype)
    drawn = rng.integers(lo, hi, count, dtype, endpoint=True)
    if kind in ("ties", "wide"):
        drawn = drawn >> rng.integers(0, info.bits, count).astype(dtype)
        return drawn & ~(drawn >> 2) if kind == "ties" else drawn
    if kind == "cancelling":
        drawn[1::2] = ~drawn[: len(drawn[1::2]) * 2 : 2] + dtype.type(1)
    return drawn
