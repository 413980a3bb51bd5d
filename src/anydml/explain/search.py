"""The search for causes: deviations tried on one output, in how many places each gives it."""

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

KEPT = 5  # causes
PATCHES = 2**24  # elements of a convolution's patches; no cause is looked for in a larger one


class Search:
    """Deviations tried on one output; those that explain more than half of what differs, on balance, are causes."""

    def __init__(self, expected: Array, actual: Array) -> None:
        self.bits = f"u{expected.itemsize}"
        self.actual = np.ascontiguousarray(actual).view(self.bits)
        self.right = np.ascontiguousarray(expected).view(self.bits) == self.actual
        self.exact = int(np.count_nonzero(self.right))
        self.causes: list[Cause] = []

    def tried(self, deviation: Deviation, output: Array, more_than: int = 0) -> int:
        """In how many outputs the actual one equals that of a deviation (masked where it is not known); it may be a cause.

        more_than: no cause is kept that equals no more than these.
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
        """The causes, the one that explains most first, of equal ones the first in its table."""
        return tuple(sorted(self.causes, key=lambda cause: -cause.equal)[:KEPT])


def three(x: Array) -> Array:
    """The array with its leading dimensions as one."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
