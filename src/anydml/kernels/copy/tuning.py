"""Thresholds of copies, from the machine's caches: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor
from anydml.kernels.code.tuned import tuned


class CopyTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    small: int = 1 << 15  # bytes of output below which NumPy's copy is as fast as compiled code
    alone: int = 3 << 20  # bytes of output below which a second thread costs more than it saves
    stream: int = processor.past_caches()  # bytes read and written from which non-temporal stores are used
    stream_tiles: int = 1 << 20  # the same for transpositions, in bytes written: fetching lines of distant rows is slow
    near: int = 1 << 18  # bytes read and written below which nothing is prefetched
    places: int = 1024  # calls at most, for the dimensions that exceed those of a kernel
    long_row: int = 1024  # bytes of a row from which non-temporal stores are used
    follows: int = 512  # gap in bytes between two rows up to which the processor prefetches the second by itself
    near_output: int = 1 << 17  # bytes of an output that stay in a near cache while several moves write to them
    most_moves: int = 1024  # moves at most, if an output is written part by part


TUNING = tuned("copy", CopyTuning())
