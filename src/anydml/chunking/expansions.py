"""Exact sums of floats in parts: each sum as float64 numbers that add up to it exactly, so that only the last step rounds.

Elements of FLOAT32 and FLOAT16 and their products are exact in float64. A row of terms is cut into slices of so few bits that
the sum of a slice is exact in float64 in any order (the scheme of Ozaki and others, Numerical Algorithms 59, 2012). Sums of
parts are added with error-free additions (Knuth's TwoSum).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Sums:
    """Exact sums, one for each output.

    pieces: along their last dimension, numbers that add up to the sum of the finite terms. special: the IEEE sum of infinite
    and NaN terms, 0 where there are none. negative: whether all terms are -0.
    """

    __slots__ = ("negative", "pieces", "special")

    def __init__(self, pieces: Doubles, special: Doubles | None, negative: NDArray[np.bool_] | None) -> None:
        self.pieces, self.special, self.negative = pieces, special, negative

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (self.pieces, self.special, self.negative) if x is not None)

    def as_pieces(self) -> Doubles:
        """Numbers along the last dimension whose sum, as IEEE 754 and SEMANTICS define it, is that of all terms."""
        pieces = self.pieces
        if self.special is not None:
            pieces = np.concatenate([pieces, self.special[..., None]], -1)
        if self.negative is not None and self.negative.any():
            pieces = np.where((self.negative & ~pieces.any(-1))[..., None], -0.0, pieces)
        return pieces


def added(parts: Sequence[Sums]) -> Sums:
    """The exact sums of parts of the terms together."""
    special = None
    negative = None
    with np.errstate(invalid="ignore"):  # infinities of both signs
        for part in parts:
            if part.special is not None:
                special = part.special if special is None else special + part.special
    minus = [part.negative for part in parts if part.negative is not None]
    if len(minus) == len(parts):
        negative = np.logical_and.reduce(minus)
    return Sums(_distilled([part.pieces for part in parts]), special, negative)


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _distilled(pieces: Sequence[Doubles]) -> Doubles:
    """The same sums in fewer pieces: Shewchuk's expansions, grown by one piece at a time."""
    grown: list[Doubles] = []
    for one in np.moveaxis(np.concatenate(pieces, -1), -1, 0):
        q = one
        for i, e in enumerate(grown):
            q, grown[i] = _two_sum(q, e)
        if q.any():
            grown.append(q)
        if len(grown) > 12:  # the significands of all terms span less than 620 bits: most of these are 0
            grown = _without_zeros(grown)
    found = _without_zeros(grown) if grown else [np.zeros(pieces[0].shape[:-1])]
    return np.stack(found, -1)


def _without_zeros(grown: Sequence[Doubles]) -> list[Doubles]:
    """The components of expansions in ascending order, without those that are 0 in all of them."""
    stacked = np.stack(grown)
    order = np.argsort(stacked != 0, axis=0, kind="stable")  # zeros first; the others keep their order
    ordered = np.take_along_axis(stacked, order, 0)
    first = int(np.argmax(ordered.any(axis=tuple(range(1, ordered.ndim)))))
    return list(ordered[first:])


# --- parts of terms ---


def sums_of(x: Doubles) -> Sums:
    """The exact sums of the terms along the last dimension, each a product of at most two elements of FLOAT32."""
    finite = np.isfinite(x)
    special = None
    if not finite.all():
        with np.errstate(invalid="ignore"):
            special = np.where(finite, 0.0, x).sum(-1)
        x = np.where(finite, x, 0.0)
    pieces = [np.ldexp(s.sum(-1), e) for s, e in _slices(x, -1, _bits(x.shape[-1], 1))]
    negative = (np.signbit(x) & (x == 0) & finite).all(-1)
    return Sums(np.stack(pieces, -1), special, negative if negative.any() else None)


def products_of(a: Doubles, b: Doubles) -> Sums:
    """The exact sums of products a[.., m, k] * b[.., k, n] over k, of elements of FLOAT32."""
    finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
    special = None
    if not finite:
        signs = [np.where(np.isfinite(x), np.sign(x), x) for x in (a, b)]
        with np.errstate(invalid="ignore"):
            special = np.matmul(*signs)
        special = np.where(np.isfinite(special), 0.0, special)
        a, b = (np.where(np.isfinite(x), x, 0.0) for x in (a, b))
    bits = _bits(a.shape[-1], 2)
    left, right = list(_slices(a, -1, bits)), list(_slices(b, -2, bits))
    pieces = [np.ldexp(np.matmul(s, t), e[..., :, None] + f[..., None, :]) for s, e in left for t, f in right]
    stacked = np.stack(pieces, -1)
    negative = None
    if not stacked.any(-1).all():
        negative = _all_negative_zeros(a, b)
        if not finite and special is not None:
            negative &= special == 0
    return Sums(_distilled([stacked]) if len(pieces) > 6 else stacked, special, negative)


def _all_negative_zeros(a: Doubles, b: Doubles) -> NDArray[np.bool_]:
    """Whether every product of a sum is -0."""

    def of(x: Doubles, *, zero: bool, minus: bool) -> NDArray[np.float32]:
        taken: NDArray[np.bool_] = (x == 0 if zero else x != 0) & (np.signbit(x) == minus)
        return taken.astype(np.float32)

    kinds = [(p, q, s) for p in (True, False) for q in (True, False) for s in (True, False) if p or q]
    count: Any = sum(np.matmul(of(a, zero=p, minus=s), of(b, zero=q, minus=not s)) for p, q, s in kinds)
    made: NDArray[np.bool_] = count == a.shape[-1]
    return made


def _bits(terms: int, factors: int) -> int:
    """The bits of a slice's integers, so that a sum of their products is less than 2^53."""
    return (53 - max(terms, 1).bit_length()) // factors


def _slices(x: Doubles, axis: int, bits: int) -> Iterator[tuple[Doubles, NDArray[np.int64]]]:
    """Slices of rows along an axis: integers of at most `bits` bits, and the exponents of their units, one for each row.

    Together they are x, exactly. There is at least one.
    """
    largest = np.abs(x).max(axis)
    exponents = np.frexp(largest)[1].astype(np.int64)  # below 2^exponent in magnitude
    rest = np.ldexp(x, -np.expand_dims(exponents, axis))
    units = exponents
    while True:
        rest = np.ldexp(rest, bits)
        whole = np.rint(rest)
        units = units - bits
        yield whole, units
        rest = rest - whole
        if not rest.any():
            return
