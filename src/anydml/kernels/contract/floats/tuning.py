"""Thresholds of contractions of floats, from the machine's caches: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor
from anydml.kernels.code.tuned import tuned

CACHE, FAR = processor.caches().second, processor.last_is_far()


class FloatTuning(NamedTuple):
    """Thresholds for the choice of algorithm and of the number of threads, and for the sizes of blocks."""

    short: int = 1 << 16  # products so few that other threads can wait for them
    alone: int = 1 << 18  # products below which a second thread does not pay
    long: int = 1 << 32  # products that take about a tenth of a second

    # packed rows and columns
    group: int = 192  # columns of a block of sums
    listed: int = 1 << 14  # elements of a block, at most
    block: int = CACHE // 4  # bytes of the rows of a block, which meets one panel after the other
    chunk: int = CACHE // 4  # bytes of columns that are packed at once, if all rows are packed
    # bytes of an element of columns when they are multiplied: 8 if columns are converted before they meet the rows, since
    # conversions would take the place of multiply-adds; else 4
    column_bytes: int = 8 if processor.conversions_share_units() else 4
    few_panels: int = 4  # of columns: with so few, the rows of a block stay in the cache without K-blocking
    depth: int = 128  # terms of a block of K-blocking
    most_columns: int = 32 << 20  # bytes of the columns of a block of sums, which has at least one panel
    far_columns: int = 8 << 20  # bytes of a chunk if rows are packed again for every chunk; and bytes of a block of these rows
    many: int = 32  # magnitudes are summed if more than 1 / many of a block is listed: then deciding these costs as much,
    very_many: int = 12  # and pairs if more than 1 / very_many is
    at_once_terms: int = 384  # most terms of `packed.at_once`: longer panels fill the first-level cache
    listed_in_place: int = 1 << 15  # elements of a block whose columns are read in place
    at_once_listed: int = 256  # of a block's elements stored so far, 1 / at_once_listed may be on the list

    # places that become rows at most, so that owned filters become columns, which take half as much memory as rows do. That
    # pays where the second cache does not hold the filters and the last one is far: of 7 x 7 places, 320 to 1280 channels take
    # 0.73 of their time in a network; of 14 x 14, 96 to 576 channels take 1.4 times as long
    few_places: int = 64 if FAR else 4

    # slices, where tile registers multiply them: what they cost, in products of float64 of which the same sums are made
    sliced_product: float = 0.4  # a product, with those that fill the registers
    sliced_column: float = 21.0  # an element of columns, which is sliced
    sliced_owned: float = 12.0  # one that is read from memory further away, since it is owned
    sliced_row: float = 20.0  # an element of rows, which is sliced
    sliced_sum: float = 60.0  # an element of the output, which is stored from a sum in memory
    sliced_most: float = 0.75  # of the cost of float64, since other kernels are a few percent slower after tile registers
    slices_tiles: int = 16  # of rows in a block
    slices_group: int = 384  # columns of a block
    slices_listed: int = 64  # a block is computed without slices if more than 1 / slices_listed of it is listed

    # few rows
    rows: int = 4  # at most
    rows_of_matrix: int = 16  # the same, of a matrix whose rows or columns are contiguous
    rows_at_once: int = 8  # of these rows, computed at once
    few_terms: int = 48
    strip: int = 4096  # columns of a strip: their sums stay in the cache while terms are added
    row_block: int = 2048  # factors of rows that are kept in float64, for all rows together

    # planes
    listed_of_planes: int = 1 << 15  # elements of a step, at least a line
    band: int = 1 << 15  # bytes of lines that are read twice, the first time for their largest element
    # elements of a plane that is computed as a single line, at most: four planes, as float64, stay in the first cache. It was
    # measured on Intel's processors only: others read vectors of 64 bytes more slowly
    flat: int = 1024 if processor.conversions_share_units() else 0

    # Winograd's algorithm
    # bytes of transformed tiles that are kept at once: in the second cache, with all else, or beyond it if the last one is near
    tiles: int = CACHE // 4 if FAR else CACHE * 9 // 8
    fewest_tiles: int = 28 if FAR else 16  # for which transforming filters pays
    # of 3 x 3 windows; where conversions replace multiply-adds, 8 channels take 1.2 to 1.3 times as long as by plain sums
    fewest_channels: int = 9 if processor.conversions_share_units() else 5
    # of 5 x 5 windows; of a single channel, plain sums take 0.4 to 0.9 of the time (1.06 with 8 filters at 28 x 28)
    fewest_channels_of_5: int = 2 if processor.conversions_share_units() else 1
    products: int = CACHE // 8  # bytes of products
    # the same, of the fewest filters that are multiplied at once: of 5 x 5 windows of one channel, products take 24 times the
    # memory of tiles
    fewest_products: int = CACHE // 2
    sums: int = CACHE // 8  # bytes of sums
    many_listed: int = 24  # all sums of a block are computed again if more than 1 / many_listed of its elements are listed


TUNING = tuned("contract.floats", FloatTuning())
