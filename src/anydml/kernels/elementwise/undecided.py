"""Elements that a kernel's bounds leave undecided, decided exactly, in Python, from the list that it made."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.elementwise.levels import FINER
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.match.maps import over_streams
from anydml.kernels.match.normal_form import NormalForm
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.state import UndecidedLists
from anydml.schema.expression import Tensor, each
from anydml.schema.statement import Nest
from anydml.tensor import DataType

LONGEST_LIST = 1 << 30


class UndecidedElements(NamedTuple):
    """The elements that a map's kernels leave undecided, and the means to decide them.

    formula: of the elements; types: of its inputs and of the output. finer: compiles a kernel that decides most elements of a
    list (`levels.FINER`), if there is one. An entry of a list is the address of an element, and the bits of its inputs.
    """

    formula: NormalForm
    types: tuple[DataType, ...]
    target: Target
    finer: Callable[[], engine.Code] | None

    def lists(self, starts: Sequence[int]) -> UndecidedLists:
        """The lists of pieces, which begin at these words of the scratch."""
        return UndecidedLists(starts, len(self.types), self._resolve)

    def _resolve(self, _: int, entries: NDArray[np.int64], scratch: object, arrays: object) -> None:
        left = entries[: self._finer(entries, len(entries))]
        if len(left):
            _store(left[:, 0], exactly(self.formula, self.types, self.target, left[:, 1:]))

    def _finer(self, entries: NDArray[np.int64], count: int) -> int:
        """Decide elements in machine code, and return how many are left."""
        if self.finer is None:
            return count
        TALLY.leave(count)
        code = self.finer()
        arguments = np.array([FINER.in_order({"list": address_of(entries), "count": count})], np.int64)
        left: int = prepared([table(code, arguments)], self.target, (entries, arguments), keeps_gil=True)()
        return left


def exactly(formula: NormalForm, types: tuple[DataType, ...], target: Target, inputs: NDArray[np.int64]) -> NDArray[Any]:
    """The elements that a formula gives for rows of inputs, each a word with the bits of its type."""
    with guard:
        decision, tensors = _decision(formula, types[-1], target)
    arrays = {t.name: _elements(inputs[:, int(t.name)], t.data_type) for t in tensors}
    return decision.at(arrays, np.arange(len(inputs)).reshape(-1, 1))


@lru_cache(maxsize=64)
def _decision(formula: NormalForm, data_type: DataType, target: Target) -> tuple[Decision, tuple[Tensor, ...]]:
    """The decision of a formula's elements over streams as long as the longest list, and the tensors of these streams."""
    i = each((LONGEST_LIST,))
    body, tensors = over_streams(formula, (LONGEST_LIST,), i)
    return Decision(Nest(tuple(i), body), data_type, target), tuple(tensors)


def _elements(words: NDArray[np.int64], data_type: DataType) -> NDArray[Any]:
    dtype = data_type.dtype
    return words.astype(f"u{dtype.itemsize}").view(dtype)


def _store(addresses: NDArray[np.int64], elements: NDArray[Any]) -> None:
    itemsize, raw = elements.itemsize, np.ascontiguousarray(elements).tobytes()
    for k, address in enumerate(addresses.tolist()):
        ctypes.memmove(address, raw[k * itemsize : (k + 1) * itemsize], itemsize)
