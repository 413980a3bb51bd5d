"""The third stage of contractions: it decides the elements that two stages leave undecided, whose bits are set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.steps import At
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.contraction import Contraction
from anydml.kernels.undecided.decision import Decision
from anydml.schema.node import Variable


class ContractionBits(NamedTuple):
    """The bits of a contraction, one for each element. bits: their first word in the scratch; order: numbers the elements."""

    contraction: Contraction
    order: tuple[Variable, ...]
    bits: int
    counters: Sequence[At]

    @property
    def words(self) -> int:
        count = 1
        for v in self.order:
            count *= v.size
        return -(-count // 64)


def deciding(
    undecided: Sequence[ContractionBits], name: str, decision: Decision
) -> Callable[[NDArray[np.int64], Arrays], None]:
    """A function that decides the elements whose bits are set in a scratch."""
    return partial(_decide, undecided, name, decision)


def _decide(
    undecided: Sequence[ContractionBits], name: str, decision: Decision, scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    places = []
    for found in undecided:
        bits = np.unpackbits(scratch[found.bits : found.bits + found.words].view(np.uint8), bitorder="little")
        sizes = tuple(v.size for v in found.order) or (1,)
        for n in np.flatnonzero(bits):
            value = dict(zip(found.order, np.unravel_index(n, sizes), strict=False))
            c = found.contraction
            at = [
                start + sum(int(value.get(v, 0)) * step[d] for v, step in zip(c.variables, c.steps, strict=True))
                for d, start in enumerate(c.start)
            ]
            places.append(at)
    decision.store(arrays[name], arrays, places)
