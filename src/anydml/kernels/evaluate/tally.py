"""Elements that are left undecided, and evaluated in Python: how many, and since when."""

import threading
import time


class _Tally(threading.local):
    elements = 0  # evaluated by this thread
    left = 0  # on lists that machine code goes through again
    began: float | None = None  # where whoever asks for it has set it to None, when the next element was begun

    def note(self, elements: int) -> None:
        """Count elements that are about to be evaluated."""
        if self.began is None:
            self.began = time.perf_counter()
        self.elements += elements

    def leave(self, elements: int) -> None:
        """Count elements that a kernel left undecided, and that another one is about to look at."""
        self.left += elements


TALLY = _Tally()


class Counted:
    """The elements of a kernel's calls that it left undecided, and those of them that were evaluated exactly."""

    undecided = exact = 0

    def add(self, left: int, exact: int) -> None:
        """Count those of a call. left: where another kernel looks at elements before."""
        self.undecided += max(left, exact)
        self.exact += exact
