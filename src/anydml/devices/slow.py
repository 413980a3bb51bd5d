"""Warnings about calls that take more than a second in Python, with the kernel, the elements and the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from anydml.errors import PerformanceWarning, warn
from anydml.kernels.evaluate.tally import TALLY, Counted
from anydml.kernels.kernel import Arrays, Built, Execute

LONG = 1.0  # seconds in Python after which a call is reported as slow


class InPython:
    """The elements of a compiled operator that Python evaluates. what, why: parts of the warning, which is given once."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why, self.said = what, why, False
        self.counted = Counted()

    def settle(self, decide: Callable[[], None], run: Callable[[], int], *, once: bool) -> None:
        """Decide the undecided elements of a call and repeat it, until none are left."""
        spent, before, left = 0.0, TALLY.elements, TALLY.left
        while True:
            TALLY.began = None  # set when Python begins; machine code, which may have to be compiled, decides first
            decide()
            spent += 0.0 if TALLY.began is None else time.perf_counter() - TALLY.began
            if once or not run():
                break
        self.counted.add(TALLY.left - left, TALLY.elements - before)
        self._say(spent, TALLY.elements - before)

    def watching(self, built: Built) -> Built:
        """The kernel, with calls that measure their whole time."""
        bind = built.bind

        def watched(arrays: Arrays) -> Execute:
            run = bind(arrays)

            def execute() -> None:
                began, before = time.perf_counter(), TALLY.elements
                run()
                self.counted.add(0, TALLY.elements - before)
                self._say(time.perf_counter() - began, TALLY.elements - before)

            return execute

        return built._replace(bind=watched, counted=self.counted)

    def _say(self, spent: float, elements: int) -> None:
        if spent > LONG and elements and not self.said:
            self.said = True
            warn(
                PerformanceWarning,
                f"{self.what}: {elements} element{'s' * (elements > 1)} took {spent:.1f} s in Python, {self.why}",
            )


def left_undecided(what: str, kernel: str) -> InPython:
    """Elements whose rounding a compiled kernel leaves undecided."""
    return InPython(what, f"since {kernel} left their rounding undecided")


def not_compiled(what: str, refused: Sequence[Mapping[str, str]]) -> InPython:
    """Elements of an operator that no compiled kernel takes. refused: the kernels and their reasons."""
    kernels: dict[str, list[str]] = {}
    for one in refused:
        kernels.setdefault(one["reason"], []).append(one["kernel"])
    reasons = "".join(f"\n    {', '.join(names)}: {reason}" for reason, names in kernels.items())
    return InPython(what, f"since no other kernel takes the desc:{reasons}")
