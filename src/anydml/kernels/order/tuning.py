"""Thresholds of sorted elements: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple


class OrderTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 12  # elements below which the GIL is kept
    alone: int = 1 << 15  # elements below which a second thread costs more than it saves
    budget: int = 1 << 25  # elements of a thread after which signals are handled
    short_listing: int = 1 << 13  # elements below which the GIL is kept


TUNING = OrderTuning()
