"""Bound calls that have ended and are kept for the next call of their kind, with the memory that they work in.

New memory costs more than the memory itself: Linux fills each page with zeros at the first access, which takes as long as many
kernels do, and a call must be bound to it. So it is kept, up to a number of bytes that all kinds of calls of a process share.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

SMALL = 1 << 15  # bytes of memory that every kind of call keeps for the next one
KEPT = 1 << 28  # bytes that calls with more memory keep in all


class Spare(list[Any]):
    """The calls of one kind that have ended. `pop` takes one: it is atomic, so that two threads never get the same call.

    nbytes: the memory of each.
    """

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes
        self.listed = nbytes <= SMALL

    def give(self, call: Any) -> None:
        """Keep a call that has ended. If all calls together keep too much, those of kinds that came first are dropped."""
        self.append(call)
        if not self.listed:
            self.listed = True
            _large[id(self)] = ref(self, partial(_forget, id(self)))
            kept = [spare for x in tuple(_large.values()) if (spare := x()) is not None]
            total = sum(spare.nbytes * len(spare) for spare in kept)
            for spare in kept:
                if total <= KEPT:
                    break
                total -= spare.nbytes * len(spare)
                _large.pop(id(spare), None)
                spare.listed = False  # it is listed again when another call of its kind ends
                spare.clear()


_large: dict[int, ref[Spare]] = {}  # the kinds whose memory is not small, those that came first at the beginning


def _forget(key: int, _: ref[Spare]) -> None:
    _large.pop(key, None)
