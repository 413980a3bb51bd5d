"""Thresholds of attention: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.tuned import tuned


class AttentionTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    short: int = 1 << 16  # products; below that, one thread computes while the others wait
    scores: int = 1 << 18  # the most bytes of scores in a block of queries, unless the block has only one tile
    alone: int = 1 << 19  # products below which one thread computes
    cut: int = 1 << 31  # products between which signals are handled
    most_phases: int = 64


TUNING = tuned("attention", AttentionTuning())
