"""Thresholds of maps, from the machine's caches: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor
from anydml.kernels.code.tuned import tuned


class MapTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 14  # elements below which other threads can wait
    alone: int = 1 << 16  # elements below which one thread computes
    room: int = 1 << 12  # elements on the list of a piece
    stream: int = processor.past_caches()  # bytes read and written from which stores are non-temporal
    long_row: int = 1024  # least bytes of a row with non-temporal stores
    packed_apart: int = 16  # most elements of a tensor's span for each element that it has
    packed_share: int = 1 << 14  # least bytes of a thread
    tabled: int = 1 << 10  # least elements of bytes that are looked up in a table of 256


TUNING = tuned("elementwise", MapTuning())
