"""Weights of 4 or 8 bits in the order in which kernels read them, made once, while a graph is compiled.

Four rows of the weights, a group, are read together; eight by `integers`. A unit of a row is a vector of words, as many as a
vector register has float64: the first elements of the words are consecutive terms, then come the second elements, and so on. So
a shift gives consecutive terms, which share a scale, and their factors are read from memory in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats.packed.rows import NORM_SLACK
from anydml.kernels.contract.weights.factor import WeightsFactor
from anydml.tensor import DataType

GROUP = 4  # rows of the weights that are computed together
LINE = 64  # bytes of a cache line
SLACK = 64  # bytes that are read beyond the last word
LONG_BLOCK = 64  # terms that share a table, for which making it of float64 pays

# of `integers`
ROWS = 8  # of a group
WORD, TERMS = 16, 32  # bits of a word, and terms of a unit
CENTRE = 8  # the zero point
CHUNK = 2  # units of a chunk, at most
INEXACT = (3, 5, 6, 7)  # differences from the zero point whose products with a scale may be rounded
SCALES = 2.0**-60, 2.0**60  # the range of scales but for zeros


class WeightsKey(NamedTuple):
    """The key of kernels. word: bits of a word. zero: the zero point, if all are equal. run: vectors of terms that share a
    scale, at most those of a unit. several: whether more than one unit shares a scale. group: rows."""

    data_type: DataType
    bits: int
    word: int
    zero: int | None
    run: int
    several: bool
    group: int = GROUP

    @property
    def vectors(self) -> int:
        """Vectors of terms in a unit."""
        return self.word // self.bits


class PackedWeights(NamedTuple):
    """words: group after group, and in it unit after unit, a vector for each row; scales and zeros: group after group, block
    after block, one for each row. norms: of each row, rounded up. unit: terms of a unit; units, blocks: of a row.

    factors: of `integers`, for each group and chunk: the scales, and then, of each row, twice the errors of the products of
    INEXACT with the scale, in last places of the scale, as bytes. If zero points are not all CENTRE (`general`): the scales,
    the zero points, and errors of all 16 elements, plus `integers.MIDDLE`. span: units of a chunk, or 0. of_errors, of_scales:
    the most that the norm of a row's rounding errors, and that of its terms' scales, is of its norm in `norms`.
    """

    key: WeightsKey
    words: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zeros: NDArray[np.uint8]
    norms: NDArray[np.float64]
    unit: int
    units: int
    blocks: int
    factors: NDArray[np.uint8]
    span: int = 0
    of_errors: float = 0.0
    of_scales: float = 0.0

    @property
    def general(self) -> bool:
        """Whether zero points are not all CENTRE."""
        return self.key.zero != CENTRE

    @property
    def group_bytes(self) -> int:
        """The bytes of a group's words."""
        return self.key.group * self.units * self.unit * self.key.bits // 8


def fitting(w: WeightsFactor, target: Target) -> str:
    """The reason why the weights cannot be packed, or an empty string."""
    if not _whole(w, target, 32):
        return f"{w.elements.shape[1]} terms in blocks of {w.block} are not whole vectors of words"
    return ""


def _whole(w: WeightsFactor, target: Target, word: int) -> bool:
    """Whether rows are whole units of these words, and units whole blocks or the other way around."""
    lanes, terms, block = target.vector_bytes // 8, w.elements.shape[1], w.block
    unit = lanes * word // w.bits
    return not (terms % unit or block % lanes or (unit % block and block % unit))


def looked_up(target: Target, bits: int) -> bool:
    """Whether weights are looked up in a table of 16."""
    return "avx512vl" in target.features and bits == 4


def word_of(w: WeightsFactor, target: Target) -> int:
    """The bits of a word: 64 where a table of float64, whose indices these are, pays."""
    return 64 if looked_up(target, w.bits) and w.block >= LONG_BLOCK and _whole(w, target, 64) else 32


def as_integers(w: WeightsFactor, target: Target) -> bool:
    """Whether `integers` has kernels for these weights: rounded to float32, in blocks of whole units."""
    sizes = np.abs(w.scales[w.scales != 0])
    return (
        "avx512vnni" in target.features
        and w.bits == 4
        and w.data_type is DataType.FLOAT32
        and w.block % TERMS == 0
        and bool(((sizes >= SCALES[0]) & (sizes <= SCALES[1])).all())
    )


def packed(w: WeightsFactor, target: Target, *, integers: bool = False) -> PackedWeights:
    """The weights in the order of a target's kernels, or of `integers`. Missing rows of the last group are zeros."""
    lanes, (rows, terms), block = target.vector_bytes // 8, w.elements.shape, w.block
    word, group = (WORD, ROWS) if integers else (word_of(w, target), GROUP)
    vectors = word // w.bits
    unit, units, blocks, groups = lanes * vectors, terms // (lanes * vectors), terms // block, -(-rows // group)
    alone = w.zeros.flat[0] if (w.zeros == w.zeros.flat[0]).all() else None
    elements = np.zeros((groups * group, terms), np.uint8)
    elements[:rows] = w.elements
    scales, zeros = (np.zeros((groups * group, blocks), x.dtype) for x in (w.scales, w.zeros))
    scales[:rows], zeros[:rows] = w.scales, w.zeros
    by_place = elements.reshape(groups, group, units, vectors, lanes)
    integer = np.dtype(f"u{word // 8}")
    words = np.zeros((groups, units, group, lanes), integer)
    for n in range(vectors):
        words |= by_place[:, :, :, n].transpose(0, 2, 1, 3).astype(integer) << integer.type(w.bits * n)
    raw = aligned(words.nbytes + SLACK)
    raw[: words.nbytes] = words.view(np.uint8).reshape(-1)
    run = min(block // lanes, vectors)
    key = WeightsKey(w.data_type, w.bits, word, None if alone is None else int(alone), run, block > unit, group)
    arrays = raw, _grouped(scales, group), _grouped(zeros, group)
    if not integers:
        return PackedWeights(key, *arrays, norms(w, groups * group), unit, units, blocks, np.zeros(0, np.uint8))
    span = CHUNK if block % (CHUNK * unit) == 0 else 1
    of_scales = np.zeros(groups * group + SLACK)
    of_scales[:rows] = np.sqrt((w.scales.astype(np.float64) ** 2).sum(1) * block)
    bounds = np.hypot(norms(w, groups * group), of_scales) * NORM_SLACK
    errors = _errors(scales, zeros)
    of_errors = _error_norms(w, errors)
    shares = [float((x / bounds[:rows]).max()) * NORM_SLACK for x in (of_errors, of_scales[:rows])]
    factors = _factors(scales, None if key.zero == CENTRE else zeros, errors, group, block // (unit * span))
    return PackedWeights(key, *arrays, bounds, unit, units, blocks, factors, span, *shares)


def _error_norms(w: WeightsFactor, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The norm of the rounding errors of each row's weights."""
    found = np.empty(len(w.elements))
    for first in range(0, len(found), 256):
        some = slice(first, min(first + 256, len(found)))
        elements = w.elements[some].reshape(-1, w.scales.shape[1], w.block).astype(np.intp)
        found[some] = np.sqrt((np.take_along_axis(errors[some], elements, 2) ** 2).sum((1, 2)))
    return found


def _errors(scales: NDArray[np.float32], zeros: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The errors of rounding the weights of the 16 elements, {rows, blocks, 16}."""
    found = np.empty((*scales.shape, 16))
    for element in range(16):
        differences = element - zeros.astype(np.float32)
        found[:, :, element] = (differences * scales).astype(np.float64) - differences * scales.astype(np.float64)
    return found


def _factors(
    scales: NDArray[np.float32], zeros: NDArray[np.uint8] | None, errors: NDArray[np.float64], group: int, times: int
) -> NDArray[np.uint8]:
    """`PackedWeights.factors`; times: chunks of a block."""
    count, blocks = scales.shape
    places = np.ldexp(1.0, np.frexp(scales.astype(np.float64))[1] - np.finfo(np.float32).nmant - 1)[:, :, None]
    parts = [scales.view(np.uint8).reshape(count, blocks, 4)]
    if zeros is None:
        inexact = errors[:, :, [CENTRE + n for n in INEXACT]]
        parts.append((2 * inexact / places).astype(np.int8).view(np.uint8))
    else:  # four bytes of each row, so that a chunk's factors are whole lines
        parts += [np.repeat(zeros[:, :, None], 4, 2), (2 * errors / places + 2 * CENTRE).astype(np.uint8)]
    by_chunk = []
    for x in parts:
        grouped = np.repeat(x, times, 1).reshape(count // group, group, -1, x.shape[2]).transpose(0, 2, 1, 3)
        by_chunk.append(grouped.reshape(-1, group * x.shape[2]))
    found = np.concatenate(by_chunk, 1)
    made = aligned(found.nbytes + SLACK)
    made[: found.nbytes] = found.reshape(-1)
    return made


def aligned(size: int) -> NDArray[np.uint8]:
    """Bytes, zeros, that begin with a cache line."""
    memory = np.zeros(size + LINE, np.uint8)
    first = -address_of(memory) % LINE
    return memory[first : first + size]


def _grouped(x: NDArray[Any], group: int) -> NDArray[Any]:
    """By group, block and row."""
    rows, blocks = x.shape
    return np.ascontiguousarray(x.reshape(rows // group, group, blocks).transpose(0, 2, 1))


def norms(w: WeightsFactor, count: int) -> NDArray[np.float64]:
    """The norm of each row, rounded up; zeros behind the last row."""
    found = np.zeros(count + SLACK)
    largest = np.finfo(w.data_type.dtype).smallest_subnormal
    for first in range(0, len(w.elements), 256):
        some = slice(first, first + 256)
        blocks = w.elements[some].reshape(-1, w.scales.shape[1], w.block).astype(np.int32) - w.zeros[some, :, None]
        squares = (blocks * blocks).sum(2).astype(np.float64)  # exact; rounding a weight adds at most 2^-10 of it, or a half
        sizes = np.sqrt(squares) * np.abs(w.scales[some].astype(np.float64)) * (1 + 2.0**-10)
        sizes += float(largest) * np.sqrt(w.block)
        found[first : first + len(sizes)] = np.sqrt((sizes * sizes).sum(1)) * NORM_SLACK
    return found
