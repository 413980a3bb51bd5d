"""The table of a graph: the phases of all its kernels in few calls, and the functions that Python runs between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from anydml.kernels.call.steps import StepTable, parts
from anydml.kernels.kernel import Execute, Placed, Unfit

LONG = 0.1  # seconds: a call of machine code may take this long, and signals wait
FEW = 8  # at most this many short kernels run without releasing the GIL
MANY = 1000  # this many short kernels take less than LONG


class Entry(NamedTuple):
    """A kernel's phases. judges: checks that find the value, if the kernel's status says that one breaks a rule."""

    placed: Placed
    judges: Sequence[Execute] = ()


class Section(NamedTuple):
    """The phases `first` to `past` - 1, run in one call; or a function that Python runs."""

    first: int
    past: int
    run: Execute | None = None


class Table:
    """The phases of kernels, and the functions that Python runs between them, in order.

    Consecutive phases run in one call. If a kernel has undecided elements, the call returns early; once they are decided,
    another call runs the phases that remain.
    Long calls are split so that signals are handled: the first execution runs each phase alone and measures its time.
    """

    def __init__(self, entries: Sequence[Entry | Execute]) -> None:
        self._kernels = [e for e in entries if isinstance(e, Entry)]
        phases: list[Sequence[StepTable]] = []
        self._owners: list[tuple[Entry, int]] = []  # for each phase, its kernel and the first phase of this kernel
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
        """Run all sections in order. After the first run, sections that take at most LONG together are merged."""
        spent: list[float] = []
        done, measured = 0, self._measured
        try:
            for first, past, run in self._sections:
                began = 0.0 if measured else time.perf_counter()
                if run is None:
                    done = self._run(max(first, done) if done else first, past)
                else:
                    run()
                if not measured:
                    spent.append(time.perf_counter() - began)
        except BaseException:  # an interrupt may come anywhere, and the next call must find the scratch cleared
            self._clear()
            raise
        if not measured:
            self._sections, self._measured = merged(self._sections, spent), True

    def _run(self, first: int, past: int) -> int:
        """Run the phases before `past`. Returns the next phase, which may be a later one if a stopped kernel was completed."""
        while first < past and self._some(first, past):
            first = self._settled(self._last())
        return first if first > past else past

    def _settled(self, stopped: int) -> int:
        """Complete the kernel that stopped in a phase. Returns the first phase after this kernel."""
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
    """The sections, merged to as few calls as possible. A merged call takes at most LONG."""
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
