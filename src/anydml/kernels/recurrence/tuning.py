"""Thresholds of recurrences: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.tuned import tuned


class RecurrenceTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 16  # products; below that, one thread computes while the others wait
    sequences: int = 8  # the fewest sequences of a piece: fewer would not share the weights that are read
    sums: int = 1 << 20  # bytes of sums of an input that are computed at once; twice as many by tile registers
    few: int = 8  # steps of a single sequence for which weights are not packed
    digits: int = 64  # rows that must be gained by tile registers, for which weights become digits
    budget: int = 1 << 31  # products of a call; signals are handled after each call


TUNING = tuned("recurrence", RecurrenceTuning())
