"""Thresholds of windows: one object, which a test replaces as a whole."""

from __future__ import annotations

from typing import NamedTuple

from anydml.kernels.code.tuned import tuned


class WindowTuning(NamedTuple):
    """When threads share the work, when calls are cut, and how much is done at once."""

    general: int = 1 << 11  # elements read below which a kernel serves that is compiled for any strides and windows
    short: int = 1 << 14  # elements read below which other threads can wait
    alone: int = 1 << 15  # elements read below which one thread computes
    most_summed: int = 1 << 8  # elements of an image up to which one that is not exactly summed is a rare one
    longest: int = 1 << 20  # elements of a line with its padding, and of a window
    budget: int = 1 << 28  # elements taken together between which signals are handled
    room: int = 1 << 24  # bytes of the lines that are kept
    wide: int = 8  # elements of a dimension without windows from which lines run along it, if they are contiguous
    listed: int = 1 << 10  # elements on the list of a piece, beside those of two lines
    near: int = 32 << 10  # bytes that a processor keeps next to it
    band: int = 16  # lines of the output that are made together


TUNING = tuned("windows", WindowTuning())
