"""The number of elements that a thread has evaluated in Python, and since when, for those who tell how long a call takes."""

import threading
import time


class _Tally(threading.local):
    elements = 0
    began: float | None = None  # where whoever asks for it has set it to None, when the next element was begun

    def note(self, elements: int) -> None:
        """Count elements that are about to be evaluated."""
        if self.began is None:
            self.began = time.perf_counter()
        self.elements += elements


TALLY = _Tally()
