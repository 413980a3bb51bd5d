"""Scales of every kind for sums that are known, so that results are in range, ties, or close to ties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hard_cases import NearTie, scales_of
from oracle_many import four_sizes

Array = NDArray[Any]
Generator = np.random.Generator

KINDS = ("ordinary", "powers", "odd", "close", "wide", "subnormal", "saturating", "vanishing", "mixed", "sweep", "near tie")


def chosen(
    numbers: Generator, kind: str, sums: NDArray[np.int64], sizes: Sequence[tuple[int, ...]], tie: NearTie | None
) -> tuple[Array, Array, Array]:
    """The scales of A, B and the output, of these sizes."""
    if tie is not None:
        # the negative of a near-tie is as close to a tie, but it may be out of range
        signs = (1.0, -1.0) if numbers.random() < 0.5 else (1.0,)
        a, b, y = (
            scales_of(bits, size) * numbers.choice(signs, size).astype(np.float32)
            for bits, size in zip((tie.a_bits, tie.b_bits, tie.y_bits), sizes, strict=True)
        )
        return a, b, y
    a, b = (_first(numbers, kind, size) for size in sizes[:2])
    if kind == "mixed":  # some rows and columns have scales at the ends of float32
        for x in (a, b):
            special = numbers.random(x.shape) < 0.25
            x[special] = _wide(numbers, x.shape, -149, 127)[special]
    elif kind == "wide":
        a, b = (_wide(numbers, size, -149, 127) for size in sizes[:2])
    elif kind == "subnormal":
        a, b = _wide(numbers, sizes[0], -149, -127), _wide(numbers, sizes[1], -20, 20)
    scale = _aligned(a).astype(np.float64) * _aligned(b).astype(np.float64)
    real = np.abs(sums.astype(np.float64).reshape(four_sizes(sums.shape)) * scale)
    shape = four_sizes(sizes[2])
    over = tuple(i for i in range(4) if shape[i] == 1)
    typical = np.maximum(np.median(real, axis=over, keepdims=True), 2.0**-300)
    y = _output(numbers, kind, real, typical, shape)
    if kind == "odd" or (kind == "mixed" and numbers.random() < 0.7):
        ties = _onto_ties(numbers, sums, abs(float(scale.flat[0])), typical, shape)
        y = ties if kind == "odd" else np.where(numbers.random(shape) < 0.5, ties, y)
    return a, b, _float32(y * numbers.choice((1.0, 1.0, -1.0), shape)).reshape(sizes[2])


def _output(numbers: Generator, kind: str, real: Array, typical: Array, shape: tuple[int, ...]) -> Array:
    if kind in ("close", "sweep") or (kind in ("wide", "mixed") and numbers.random() < 0.5):
        return _next_to_a_tie(numbers, real, shape)
    y = typical / np.exp(numbers.uniform(0.5, 4.5, shape))
    if kind == "powers":
        y = np.exp2(np.round(np.log2(y)))
    elif kind == "saturating":
        y = y * np.exp2(-numbers.integers(8, 140, shape).astype(np.float64))
    elif kind == "vanishing":
        y = y * np.exp2(numbers.integers(6, 100, shape).astype(np.float64))
    return y


def _float32(x: Array) -> Array:
    """The nearest valid scales in float32, which are exact if x has few digits."""
    bounded = np.clip(np.abs(x), 2.0**-149, float(np.finfo(np.float32).max))
    return np.where(x < 0, -bounded, bounded).astype(np.float32)


def _aligned(x: Array) -> Array:
    return x.reshape(four_sizes(x.shape))


def _first(numbers: Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """A scale of A or B."""
    if kind == "powers":
        scale = np.exp2(numbers.integers(-12, 4, sizes).astype(np.float64) - int(numbers.choice((0, 60, 120, -60))))
    elif kind in ("odd", "mixed"):
        # a small odd number times small ones, so that all products are exact
        steps = numbers.choice((1, 1, 1, 2, 3), sizes)
        scale = float(numbers.choice((1, 3, 5, 7, 11, 31))) * steps * 2.0 ** float(numbers.integers(-30, 30))
    else:
        scale = 10 ** numbers.uniform(-3, -1, sizes)
    return _float32(scale * numbers.choice((1.0, 1.0, 1.0, -1.0), sizes))


def _wide(numbers: Generator, sizes: tuple[int, ...], low: int, high: int) -> Array:
    """Any numbers with exponents from low to high."""
    exponents = numbers.integers(low, high + 1, sizes).astype(np.float64)
    return _float32(np.exp2(exponents) * numbers.uniform(1, 2, sizes) * numbers.choice((1.0, -1.0), sizes))


def _next_to_a_tie(numbers: Generator, real: Array, shape: tuple[int, ...]) -> Array:
    """For each output scale, the number with which some of its outputs are as close to a tie as float32 allows."""
    pairs = zip(real.shape, shape, strict=True)
    at = np.ix_(*(numbers.integers(whole, size=n) if n == 1 else np.arange(n) for whole, n in pairs))
    half = numbers.integers(0, 255, shape) + 0.5
    return np.asarray(np.maximum(real[at], 2.0**-300) / half)


def _onto_ties(numbers: Generator, sums: NDArray[np.int64], one: float, typical: Array, shape: tuple[int, ...]) -> Array:
    """Output scales with which sums that are odd multiples of a number are ties. one: the real value of a sum of 1."""
    unit = max(int(np.gcd.reduce(sums, axis=None)), 1)
    odd = numbers.choice((1, 1, 3, 5, 7, 9, 49), shape).astype(np.float64)
    least = 2.0 * unit * odd * one
    # the multiple by a power of two that keeps most outputs in range
    wanted = np.log2(np.maximum(typical / 50 / least, 1))
    return np.asarray(least * np.exp2(np.ceil(wanted)))
