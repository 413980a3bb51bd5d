"""The search for causes: deviations are tried on one output, and the elements that each gives are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.explain.changes import Deviation
from anydml.explain.comparison import Cause

Array = NDArray[Any]
Arrays = Mapping[str, Array]

KEPT = 8  # causes
PATCHES = 2**24  # elements of a convolution's patches; larger convolutions are not searched


class Search:
    """Deviations tried on one output; causes are those that on balance explain more than half of the differing elements."""

    def __init__(self, expected: Array, actual: Array) -> None:
        self.bits = f"u{expected.itemsize}"
        self.actual = np.ascontiguousarray(actual).view(self.bits)
        self.right = np.ascontiguousarray(expected).view(self.bits) == self.actual
        self.exact = int(np.count_nonzero(self.right))
        self.causes: list[Cause] = []

    def tried(self, deviation: Deviation, output: Array, more_than: int = 0) -> int:
        """The number of elements that a deviation gives (masked where unknown); it is recorded as a cause if it qualifies.

        more_than: a cause must give more elements than this.
        """
        same = np.ascontiguousarray(np.ma.getdata(output)).view(self.bits) == self.actual
        same &= ~np.ma.getmaskarray(output)
        equal, total = int(np.count_nonzero(same)), self.right.size
        if equal <= more_than or 2 * (equal - self.exact) <= total - self.exact:
            return equal
        explained = int(np.count_nonzero(same & ~self.right))
        self.causes.append(Cause(deviation.name, deviation.sentence, total, equal, self.exact, explained, deviation.rounding))
        return equal

    def found(self) -> tuple[Cause, ...]:
        """The causes, the one that explains most first; equally good ones in the order of their table."""
        best: dict[str, Cause] = {}
        for cause in sorted(self.causes, key=lambda cause: -cause.equal):
            best.setdefault(cause.sentence, cause)
        return tuple(best.values())[:KEPT]


def three(x: Array) -> Array:
    """The array with its leading dimensions merged into one."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
