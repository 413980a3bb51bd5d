"""Counts of elements that kernels leave undecided and that Python evaluates, and the time when it began."""

import threading
import time


class _Tally(threading.local):
    elements = 0  # evaluated by this thread
    left = 0  # left undecided to another stage of machine code
    began: float | None = None  # when the first element was begun since this was set to None

    def note(self, elements: int) -> None:
        """Count elements that are about to be evaluated."""
        if self.began is None:
            self.began = time.perf_counter()
        self.elements += elements

    def leave(self, elements: int) -> None:
        """Count elements that a kernel left undecided, for another kernel to compute."""
        self.left += elements


TALLY = _Tally()


class Counted:
    """The elements that a kernel's calls left undecided, and those of them that were evaluated exactly."""

    undecided = exact = 0

    def add(self, left: int, exact: int) -> None:
        """Count those of a call. left: elements that a second stage computed, if there is one."""
        self.undecided += max(left, exact)
        self.exact += exact
