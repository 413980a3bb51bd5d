"""Elements decided by the interpreter: their bits, and which of them stay undecided."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import named
from anydml.kernels.third import interpreter
from anydml.kernels.third.balls import FIRST, Precision
from anydml.kernels.third.translation import Translated, Untranslatable, translated
from anydml.schema.statement import Nest
from anydml.tensor import DataType

BUDGET = 1 << 24  # instructions of the first precision for an element, about a second; if it needs more, it stays undecided
PATIENCE = 0.05  # approximate seconds of a call; signals are handled between calls


class TapedElements:
    """Elements of a nest, computed by running its tape."""

    def __init__(self, made: Translated) -> None:
        self._made = made
        self._code, self._constants = made.tape.code(), made.tape.constants()

    def at(self, arrays: Mapping[str, NDArray[Any]], indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The bits of elements, one word each, and whether they are decided. indices: a row for each element.

        The code is the same for all instruction sets, since it computes with integers alone. On a processor for which no code
        can be made, no element is decided.
        """
        tape, count = self._made.tape, len(indices)
        results, decided = np.zeros(count, np.int64), np.zeros(count, np.int64)
        integers = np.zeros(tape.integers + 1, np.int64)
        numbers = np.zeros((tape.numbers + 1) * tape.precision.size, np.uint8)
        for tensor, first in self._made.reads:
            array = arrays[tensor.name]
            integers[first : first + 1 + array.ndim] = (address_of(array), *array.strides)
        target = named("generic")  # of this processor, even if a kernel for another one is emulated
        if target is None:
            return results, decided.astype(bool)
        places = np.ascontiguousarray(indices, np.int64)
        code = engine.compiled(interpreter.emitted, target, tape.precision)
        budget = BUDGET // (tape.precision.stored // FIRST.stored) ** 4  # an instruction takes longer, the more bits it has
        start, take = 0, 1
        while start < count:
            many = min(take, count - start)
            memory: dict[str, NDArray[Any]] = {
                "tape": self._code,
                "constants": self._constants,
                "numbers": numbers,
                "integers": integers,
            }
            memory |= {"places": places[start:], "results": results[start:], "decided": decided[start:]}
            numbered = {name: address_of(array) for name, array in memory.items()}
            row = interpreter.ARGUMENTS.in_order({**numbered, "dims": tape.dims, "count": many, "budget": budget})
            arguments = np.array([row], np.int64)
            began = time.perf_counter()
            prepared([table(code, arguments)], target, (memory, arguments), keeps_gil=False)()
            take = take * 2 if time.perf_counter() - began < PATIENCE else take
            start += many
        return results, decided.astype(bool)


@lru_cache(maxsize=64)
def taped(nest: Nest, data_type: DataType, precision: Precision) -> TapedElements | None:
    """The elements of a nest by its tape, with numbers of a precision; None if the nest cannot be translated to a tape."""
    try:
        return TapedElements(translated(nest, data_type, precision))
    except Untranslatable:
        return None
