"""Thresholds of random numbers: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple


class RandomTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    alone: int = 1 << 16  # words below which a second thread costs more than it saves
    short: int = 1 << 14  # words below which the GIL is kept
    piece: int = 64  # counters: each thread's share but the last is a multiple of it


TUNING = RandomTuning()
