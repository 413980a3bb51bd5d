"""The family of integer matrix products in NumPy: float32 products of blocks so short that every sum is exact, then exact
rounding.

A centred element has a magnitude of at most 255, a product of 65,025, so that float32 holds the sum of 256 of them
without rounding (16,646,400 < 2^24), in any order of summation; float64 holds the sum of the blocks (|q| < 2^48).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.requantization import Requantize
from anydml.kernels.kernel import Arrays, Built, Execute, Machine, Refused
from anydml.kernels.match.product import MatrixProduct, Operand, product
from anydml.kernels.problem import Problem

ROWS, COLUMNS, INNER = 1024, 1024, 256  # blocks of M and N limit the scratch; blocks of K keep float32 exact


def _blocks(size: int, step: int) -> list[slice]:
    return [slice(at, min(at + step, size)) for at in range(0, size, step)]


def _at(batch: tuple[int, ...], rows: slice, columns: slice) -> tuple[Any, ...]:
    return (*batch, rows, columns)


def _index(array: NDArray[Any] | None, batch: tuple[int, ...], rows: slice, columns: slice) -> Any:
    """The index of a scale's or zero point's block that belongs to a block of the output; sizes of 1 are broadcast."""
    if array is None:
        return 0
    if array.size == 1:
        return array.reshape(1, 1)
    *lead, height, width = array.shape
    outer = tuple(0 if n == 1 else at for n, at in zip(lead, batch, strict=True))
    return array[_at(outer, rows if height > 1 else slice(None), columns if width > 1 else slice(None))]


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """The sums block by block, stored or requantised."""
    found = product(problem)
    if isinstance(found, str):
        return Refused(found)
    bind = _sums_alone if found.scales is None else _requantised
    m, k, n = _capped(found)
    return Built(partial(bind, found), 4 * (m * k + k * n + m * n) + 8 * m * n)


def _parameter(arrays: Arrays, operand: Operand | None, rank: int) -> NDArray[Any] | None:
    """A scale or zero point as an array with the matrices' dimension count; None if it is absent."""
    if operand is None:
        return None
    array = arrays[operand.name]
    if array.ndim == rank:
        return array
    array = aligned(array, rank)
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


class _BlockSums:
    """The exact sums of (A - AZeroPoint) * (B - BZeroPoint), block by block of the output."""

    def __init__(self, p: MatrixProduct, arrays: Arrays) -> None:
        self.a, self.b = arrays[p.a.name], arrays[p.b.name]
        rank = self.a.ndim
        self.a_zero_point = _parameter(arrays, p.a_zero_point, rank)
        self.b_zero_point = _parameter(arrays, p.b_zero_point, rank)
        m, k, n = _capped(p)
        self.left, self.right = np.empty((m, k), np.float32), np.empty((k, n), np.float32)
        self.product, self.total = np.empty((m, n), np.float32), np.empty((m, n), np.float64)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], slice, slice, NDArray[np.float64]]]:
        """Batch, rows, columns and their sums as integers in float64. The array is reused for the next block."""
        *lead, m, k = self.a.shape
        n = self.b.shape[-1]
        for batch in np.ndindex(*lead):
            for rows in _blocks(m, ROWS):
                for columns in _blocks(n, COLUMNS):
                    yield batch, rows, columns, self._sum(batch, rows, columns, k)

    def _sum(self, batch: tuple[int, ...], rows: slice, columns: slice, k: int) -> NDArray[np.float64]:
        m, n = rows.stop - rows.start, columns.stop - columns.start
        a_zero_point = _index(self.a_zero_point, batch, rows, slice(None))
        b_zero_point = _index(self.b_zero_point, batch, slice(None), columns)
        product, total = self.product[:m, :n], self.total[:m, :n]
        for at, inner in enumerate(_blocks(k, INNER)):
            width = inner.stop - inner.start
            left, right = self.left[:m, :width], self.right[:width, :n]
            np.subtract(self.a[_at(batch, rows, inner)], a_zero_point, out=left, dtype=np.float32)
            np.subtract(self.b[_at(batch, inner, columns)], b_zero_point, out=right, dtype=np.float32)
            np.matmul(left, right, out=product)
            if at:
                total += product
            else:
                total[...] = product
        return total


def _capped(p: MatrixProduct) -> tuple[int, int, int]:
    (*_, m, k), n = p.a.desc.sizes, p.b.desc.sizes[-1]
    return min(m, ROWS), min(k, INNER), min(n, COLUMNS)


def _sums_alone(p: MatrixProduct, arrays: Arrays) -> Execute:
    sums, output = _BlockSums(p, arrays), arrays[p.output.name]

    def execute() -> None:
        for batch, rows, columns, q in sums:
            output[_at(batch, rows, columns)] = q.astype(np.int64).astype(np.int32)  # the second cast wraps

    return execute


def _requantised(p: MatrixProduct, arrays: Arrays) -> Execute:
    sums, output = _BlockSums(p, arrays), arrays[p.output.name]
    limits = np.iinfo(output.dtype)
    parameters = [_parameter(arrays, operand, output.ndim) for operand in (*(p.scales or ()), p.output_zero_point)]

    def execute() -> None:
        for batch, rows, columns, q in sums:
            a, b, y, zero_point = (_index(x, batch, rows, columns) for x in parameters)
            rounded = Requantize(a, b, y)(q)
            rounded += zero_point
            np.clip(rounded, limits.min, limits.max, out=rounded)
            output[_at(batch, rows, columns)] = rounded  # integers in range: the cast is exact

    return execute


def aligned(array: NDArray[Any], dimension_count: int) -> NDArray[Any]:
    """A scale or zero point without the leading dimensions that exceed its tensor's; their sizes are 1."""
    return array.reshape(array.shape[-dimension_count:]) if array.ndim > dimension_count else array
