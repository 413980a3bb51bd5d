"""Elements that two stages leave open, decided exactly, in Python: each has a bit that is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.contraction import Contraction
from anydml.schema.node import Variable
from anydml.schema.statement import Nest
from anydml.tensor import DataType


class ContractionBits(NamedTuple):
    """The bits of a contraction: from a word of the scratch on, one for all values of the variables in order."""

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
    opens: Sequence[ContractionBits], nest: Nest, name: str, data_type: DataType
) -> Callable[[NDArray[np.int64], Arrays], None]:
    """A function that decides the elements whose bits are set in a scratch."""
    return partial(_decide, opens, nest, name, data_type)


def _decide(
    opens: Sequence[ContractionBits], nest: Nest, name: str, data_type: DataType, scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    with guard:
        from anydml.kernels.evaluate.evaluator import evaluators

    evaluator = evaluators({name: nest}, {name: data_type}, arrays)[name]
    output = arrays[name]
    elements = output.view(f"u{output.itemsize}") if output.dtype.kind == "f" else output
    for found in opens:
        bits = np.unpackbits(scratch[found.bits : found.bits + found.words].view(np.uint8), bitorder="little")
        sizes = tuple(v.size for v in found.order) or (1,)
        for n in np.flatnonzero(bits):
            value = dict(zip(found.order, np.unravel_index(n, sizes), strict=False))
            c = found.contraction
            at = [
                start + sum(int(value.get(v, 0)) * step[d] for v, step in zip(c.variables, c.steps, strict=True))
                for d, start in enumerate(c.start)
            ]
            elements[tuple(at)] = evaluator.stored(*at)
