"""The table of a graph: the phases of all its kernels as one call, and what Python does between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.call.steps import Piece, parts
from anydml.kernels.kernel import Execute, Placed, Unfit

LONG = 0.1  # seconds after which signals are handled
FEW = 8  # kernels of little work each, for which other threads can wait
MANY = 1000  # kernels of little work each, which take less than LONG


class Entry(NamedTuple):
    """A kernel's phases. judges: what tells which value breaks a rule, where a status says that one does."""

    placed: Placed
    judges: Sequence[Execute] = ()


class Section(NamedTuple):
    """Phases of one call, from `first` to before `past`; or what Python does."""

    first: int
    past: int
    run: Execute | None = None


class Table:
    """Kernels' phases, and what Python does between them, in order.

    Phases that follow one another are one call. It ends where a kernel stops, which is decided before it goes on. Long calls
    are cut, so that signals are handled: the first execution runs each phase by itself and measures how long it takes.
    """

    def __init__(self, entries: Sequence[Entry | Execute]) -> None:
        self._kernels = [e for e in entries if isinstance(e, Entry)]
        phases: list[Sequence[Piece]] = []
        self._owners: list[tuple[Entry, int]] = []  # of each phase: its kernel, and that one's first phase
        self._sections: list[Section] = []
        for e in entries:
            if isinstance(e, Entry):
                first = len(phases)
                phases += e.placed.phases
                self._owners += [(e, first)] * (len(phases) - first)
                self._sections += [Section(at, at + 1) for at in range(first, len(phases))]
            else:
                self._sections.append(Section(0, 0, e))
        self._measured = all(e.placed.short for e in self._kernels) and len(self._kernels) <= MANY
        if self._measured:
            self._sections = merged(self._sections, [0] * len(self._sections))
        if phases:
            keeps_gil = self._measured and len(self._kernels) <= FEW
            keep = [e.placed.keep for e in self._kernels]
            self._some, self._last = parts(phases, self._kernels[0].placed.target, keep, keeps_gil=keeps_gil)

    def execute(self) -> None:
        """Run everything in order. The first time, the sections are then merged as far as they take no longer than LONG."""
        spent: list[float] = []
        done = 0
        try:
            for first, past, run in self._sections:
                began = time.perf_counter()
                if run is None:
                    done = self._run(max(first, done), past)
                else:
                    run()
                spent.append(time.perf_counter() - began)
        except BaseException:  # an interrupt may come anywhere, and the next call begins anew
            self._clear()
            raise
        if not self._measured:
            self._sections, self._measured = merged(self._sections, spent), True

    def _run(self, first: int, past: int) -> int:
        """Run phases up to one; the first that has not been run, which is a later one where a kernel was decided."""
        while first < past and self._some(first, past):
            first = self._settled(self._last())
        return max(first, past)

    def _settled(self, stopped: int) -> int:
        """Take up the kernel that stopped in a phase, until it is over; the first phase after it."""
        (placed, judges), begin = self._owners[stopped]
        if placed.decide is None:
            for judge in judges:
                judge()
            raise Unfit
        past = begin + len(placed.phases)
        placed.decide(lambda: any(self._some(at, at + 1) for at in range(begin + placed.again, past)))
        placed.words[...] = 0
        return past

    def _clear(self) -> None:
        for placed, _ in self._kernels:
            if placed.decide is not None:
                placed.words[...] = 0


def merged(sections: Sequence[Section], spent: Sequence[float]) -> list[Section]:
    """Sections as few calls, none of which takes longer than LONG if it is more than one of them."""
    found: list[Section] = []
    total = 0.0
    for section, seconds in zip(sections, spent, strict=True):
        if section.run is None and found and found[-1].run is None and total + seconds <= LONG:
            found[-1] = found[-1]._replace(past=section.past)
            total += seconds
        else:
            found.append(section)
            total = seconds
    return found
