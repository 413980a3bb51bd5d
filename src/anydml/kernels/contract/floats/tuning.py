"""Thresholds of contractions of floats, from the machine's caches: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor

CACHE = processor.caches().second


class FloatTuning(NamedTuple):
    """Which algorithm a contraction takes, how many threads, and how much of it is computed at once."""

    alone: int = 1 << 18  # products below which a second thread costs more than it brings
    long: int = 1 << 32  # products that take about a tenth of a second

    # packed rows and columns
    group: int = 192  # columns whose sums are there at once
    listed: int = 1 << 14  # elements of a block at most
    block: int = CACHE // 4  # bytes of rows that are summed with one panel after the other
    chunk: int = CACHE // 2  # bytes of columns that are packed at once, where the rows are all packed
    few_panels: int = 4  # of columns that come in between
    depth: int = 128  # terms of a sum that are added up before they are added to others
    most_columns: int = 32 << 20  # bytes of columns whose sums are there at once, where they are as many as one panel has
    far_columns: int = 8 << 20  # the same where rows are packed again for every chunk, block by block; and bytes of these rows
    many: int = 32  # magnitudes are summed where more than this part of a block is listed, which costs about as much,
    very_many: int = 12  # and pairs where it is more than this part
    at_once_terms: int = (
        384  # of tiles that are stored as they leave the registers: longer panels leave the first cache no room
    )
    at_once_listed: int = 256  # the part of a block's elements, as far as it is stored, that may be on the list

    # few rows
    rows: int = 4  # at most
    rows_of_matrix: int = 16  # the same, of a matrix whose rows or columns are contiguous
    rows_at_once: int = 8  # of these rows
    few_terms: int = 48
    strip: int = 4096  # columns: their sums stay near while the terms pass by
    row_block: int = 2048  # terms whose factors are at hand in float64, for all rows together

    # planes
    listed_of_planes: int = 1 << 15  # elements of a step, unless a line has more
    band: int = 1 << 15  # bytes of lines that are read twice, first for their largest element

    # Winograd's algorithm
    tiles: int = CACHE * 9 // 8  # bytes of transformed tiles that are kept at once
    fewest_tiles: int = 16  # for which filters are worth to be transformed
    products: int = CACHE // 8  # bytes of products
    sums: int = CACHE // 8  # bytes of sums
    many_listed: int = 24  # all sums of a block are made again where more than this part of its elements is listed


TUNING = FloatTuning()
