"""Thresholds of running sums: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple


class ScanTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 14  # elements below which the GIL is kept
    alone: int = 1 << 17  # elements below which a second thread costs more than it saves
    apart: int = 256  # threads get multiples of so many neighbouring lines: whole cache lines of source and target


TUNING = ScanTuning()
