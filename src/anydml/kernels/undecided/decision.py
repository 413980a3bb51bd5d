"""The last decision of undecided elements: by the third compiled stage in one batch, then by exact evaluation in Python.

The third stage computes with 250 bits, and what these leave undecided again with 1,210 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.code.targets import EXACT, Target
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.third.balls import FIRST, PRECISIONS
from anydml.schema.statement import Nest
from anydml.tensor import DataType

if TYPE_CHECKING:
    from anydml.kernels.evaluate.evaluator import Evaluators


class Decision:
    """Correctly rounded elements of one output, for any arrays."""

    def __init__(self, nest: Nest, data_type: DataType, target: Target) -> None:
        self._nest, self._data_type, self._target = nest, data_type, target
        self._evaluators: Evaluators | None = None  # made when it is first needed

    def store(
        self, output: NDArray[Any], arrays: Mapping[str, NDArray[Any]], indices: Sequence[Sequence[int]] | NDArray[np.int64]
    ) -> None:
        """Store the elements at these indices, a row for each."""
        if len(indices):
            places = np.array(indices, np.int64).reshape(len(indices), output.ndim)
            bits = f"u{output.itemsize}"
            output.view(bits)[tuple(places.T)] = self.at(arrays, places).view(bits)

    def at(self, arrays: Mapping[str, NDArray[Any]], indices: Sequence[Sequence[int]] | NDArray[np.int64]) -> NDArray[Any]:
        """The elements at these indices, a row for each, in order."""
        places = np.array(indices, np.int64).reshape(len(indices), len(self._nest.index))
        dtype = self._data_type.unpacked_dtype
        shown = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "f" else dtype
        found = np.zeros(len(places), shown)
        left = np.arange(len(places))
        if self._target.stage != EXACT:
            for precision in PRECISIONS:
                with guard:
                    from anydml.kernels.third.elements import taped

                    tape = taped(self._nest, self._data_type, precision)
                if tape is None:
                    break
                if precision is FIRST:
                    TALLY.leave(len(places))
                bits, decided = tape.at(arrays, places[left])
                found[left[decided]] = bits[decided].astype(shown)
                left = left[~decided]
                if not len(left):
                    break
        if len(left):
            if self._evaluators is None:
                with guard:
                    from anydml.kernels.evaluate.evaluator import Evaluators

                    self._evaluators = Evaluators({"": self._nest}, {"": self._data_type})
            with self._evaluators.reading(arrays) as evaluators:
                for k in left.tolist():
                    found[k] = evaluators[""].stored(*places[k].tolist())
        return found.view(dtype)
