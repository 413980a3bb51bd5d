"""Thresholds of gathers and scatters: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple


class IrregularTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    alone: int = 3 << 20  # bytes of output below which a second thread costs more than it saves
    short: int = 1 << 18
    budget: int = 1 << 28  # bytes of updates after which signals are handled
    alone_reversing: int = 1 << 18  # elements below which a second thread costs more than it saves
    short_reversing: int = 1 << 14  # elements below which the GIL is kept


TUNING = IrregularTuning()
