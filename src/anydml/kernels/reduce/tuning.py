"""Thresholds of rows, from the machine's caches: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code import processor
from anydml.kernels.code.tuned import tuned


class RowTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 14  # elements below which other threads can wait
    alone: int = 1 << 15  # elements below which one thread computes
    budget: int = 1 << 26  # elements of a thread between which signals are handled
    room: int = 1 << 10  # elements on the list of a piece
    room_of_block: int = 1 << 6  # the same, of rows that outputs take turns with
    block: int = processor.caches().second // 2  # bytes of all tensors of rows that outputs take turns with
    turns: int = processor.past_caches() if processor.last_is_far() else processor.caches().last  # bytes from which they do
    in_turns: int = 1 << 27  # elements up to which they do: signals are not handled in between
    longest: int = 1 << 28  # elements of a row that is added up or multiplied, which no signal ends
    alone_whole: int = 1 << 15  # elements below which one thread looks for extremes
    staged: int = 1 << 22  # bytes of rows that are copied to memory at once, at most
    group: int = processor.caches().second // 8  # bytes of a group of rows, whose roots and quotients are computed at once
    ahead: int = 1 << 12 if processor.last_is_far() else 0  # bytes from what is read first to what is prefetched then
    common: bool = processor.conversions_share_units()  # whether rows that others share are converted once, and kept


TUNING = tuned("reduce", RowTuning())
