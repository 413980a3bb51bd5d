"""Sums and sums of products, as integers with a common scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gmpy2 import mpq

from .numbers import INFINITY, NAN, Array, Value, parts


@dataclass(frozen=True)
class Scaled:
    """An array of floating-point numbers: integers * 2**exponent, with 0 for elements that are not finite, and the kinds of
    `parts`."""

    integers: Array
    exponent: int
    kinds: Array

    def apply(self, *index: Any) -> Scaled:
        return Scaled(self.integers[index], self.exponent, self.kinds[index])

    def swap(self) -> Scaled:
        """The first two axes exchanged."""
        return Scaled(self.integers.swapaxes(0, 1), self.exponent, self.kinds.swapaxes(0, 1))

    def reshape(self, *sizes: int) -> Scaled:
        return Scaled(self.integers.reshape(sizes), self.exponent, self.kinds.reshape(sizes))


def scale(array: Array) -> Scaled:
    """The array, exactly, with the scale of its smallest unit."""
    significands, exponents, kinds = parts(array)
    there = significands != 0
    least = int(exponents[there].min()) if there.any() else 0
    shifts = np.where(there, exponents - least, 0)
    return Scaled(significands.astype(object) << shifts.astype(object), least, kinds)


def number(integer: int, exponent: int) -> Any:
    """integer * 2**exponent."""
    return mpq(integer) * (mpq(1 << exponent) if exponent >= 0 else mpq(1, 1 << -exponent))


def kind_of_sums(kinds: Array) -> Array:
    """Along the last axis: NaN or an infinity if the sum is one, -0.0 if all terms are, else 0.0."""
    up, down = (kinds == np.inf).any(-1), (kinds == -np.inf).any(-1)
    nan = np.isnan(kinds).any(-1) | (up & down)
    minus_zero = ((kinds == 0) & np.signbit(kinds)).all(-1) & (kinds.shape[-1] > 0)
    finite = np.where(minus_zero, -0.0, 0.0)
    return np.where(nan, NAN, np.where(up, INFINITY, np.where(down, -INFINITY, finite)))


def as_values(integers: Array, exponent: int, kinds: Array) -> list[Value]:
    """Sums as values; `kinds` has the sums that are not finite, and the signs of zeros."""
    return [
        number(integer, exponent) if integer and kind == 0 else kind
        for integer, kind in zip(integers.ravel().tolist(), kinds.ravel().tolist(), strict=True)
    ]


def sums(terms: Scaled) -> list[Value]:
    """The sums along the last axis, in row-major order."""
    return as_values(terms.integers.sum(-1), terms.exponent, kind_of_sums(terms.kinds))


def products(a: Scaled, b: Scaled) -> list[Value]:
    """The sums over k of a[i, k] * b[j, k], for each i and each j in turn."""
    with np.errstate(invalid="ignore"):  # infinity times zero is meant to be NaN
        kinds = kind_of_sums(a.kinds[:, None, :] * b.kinds[None, :, :])
    if a.integers.shape[1] == 0:
        return [0.0] * kinds.size
    return as_values(a.integers @ b.integers.T, a.exponent + b.exponent, kinds)
