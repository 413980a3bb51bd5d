"""The thresholds of integer contractions, derived from the machine's caches: one object, which tests replace as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor
from anydml.kernels.code.tuned import tuned

CACHE = processor.caches().second


class IntegerTuning(NamedTuple):
    """The choice of an algorithm, the number of threads, and the amounts that are computed at once."""

    short: int = 1 << 20  # products so few that other threads can wait for them
    # products of fours in vectors of 64 bytes, below which a second thread costs more than it brings (10 us); some take longer:
    alone: int = 2 << 20
    products_by_channel: int = 16  # one of a group with one channel and one filter: these take 8 to 16 times as long
    rows_of_fetching: int = 12  # an element of B in a product of few rows, as long as that many rows take
    long: int = 1 << 32  # products, of 16 bits in vectors of 128, that take about a tenth of a second
    most_rows: int = 1 << 16  # rows of A that have records at once: each takes as much memory as a row of 64 elements

    # terms of a convolution of 16-bit elements below which floats are faster: two planes' sums are stored and read again; to 16
    # bits also with fewer than a fourth as many channels, since undecided outputs read these side by side
    planes: int = 32
    # outputs of such a convolution from which floats are faster by Winograd's algorithm, at a stride of 1. Of 3 x 3 windows, to
    # 16 bits, with dot products of bytes and without these; and of 5 x 5 windows, to 8 bits only without these
    outputs_by_dots: int = 1 << 15
    outputs_by_pairs: int = 1 << 12
    outputs_of_five: int = 1 << 10

    # panels
    # bytes of A that stay in a core's second-level cache while the panels of B pass by: nearly all of it. benchmarks.tiles
    # block, for 1 MB: 4096 cubed 0.945 of the limit with 1000 KB, 0.93 with 800, 0.91 with 400; without blocks 0.96 while no
    # other core needs the last cache, else 0.86; others equal. For 2 MB (Emerald Rapids): 2048 cubed takes 0.89 of the time
    # with 1000 KB instead of 2000, and 0.98, 0.89 and 0.94 with 1500, 500 and 250
    block: int = min(CACHE, 1 << 20) // 1024 * 1000
    # bytes of B that are packed before they are multiplied, and still in a cache then; benchmarks.tiles chunk: nothing between
    # 16 KB and 768 KB is better by more than the noise, for any M
    chunk: int = 256 << 10
    thin_rows: int = 4  # most rows of A for which panels are multiplied without packing
    thin_columns: int = 4096  # columns at once, so that their sums stay in the nearest caches

    written: int = CACHE // 2  # bytes of a thread's output that are fetched for writing before they are computed

    # places
    many_places: int = 512  # with this many places, filters are packed even for one call
    filters: int = 256 << 10  # bytes of packed filters that each tile of places is multiplied with
    strip: int = 256 << 10  # bytes of an image
    filters_of_term: int = 4  # filters for each term of a window, above which places are faster than panels by AMX

    # channels
    fours: int = 128 << 10  # bytes of fours that are made before they are multiplied
    images: int = 96 << 10  # bytes of images and results that are made before the next ones, by taps

    # Winograd's algorithm
    fewest_filters: int = 16
    tiles: int = CACHE // 2  # bytes of transformed tiles
    products: int = CACHE // 4  # bytes of products


TUNING = tuned("contract", IntegerTuning())
