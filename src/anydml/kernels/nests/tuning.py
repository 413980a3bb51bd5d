"""Thresholds of nests: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple


class NestTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    room: int = 1 << 11  # elements on the list of a piece
    short: int = 1 << 14  # terms below which other threads can wait
    alone: int = 1 << 16  # terms below which one thread computes
    budget: int = 1 << 28  # terms between which signals are handled
    guessed: int = 64  # terms of a loop, about, that data end
    longer: int = 3  # times as long as those of the output are rows that are added up, at most
    near: int = 2  # the same, of rows of which a few vectors are permuted
    longest: int = 1 << 28  # terms of one element; the reference leaves out those of huge windows that are outside


TUNING = NestTuning()
