"""Elements of states that are left open, decided exactly: all states before them are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anydml.forks import guard
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.recurrences import definition
from anydml.kernels.recurrence.plan import Open
from anydml.kernels.recurrence.shape import COUNT, DONE, ENTRIES, POSITION
from anydml.schema.expression import Expr, Tensor, make, walk
from anydml.schema.statement import Nest
from anydml.tensor import DataType


class Deciding:
    """What a call does when pieces have stopped."""

    def __init__(self, tensors: Sequence[Tensor], data_type: DataType, opens: Sequence[Open]) -> None:
        self.tensors, self.data_type, self.opens = tensors, data_type, opens

    def __call__(self, scratch: NDArray[np.int64], arrays: Arrays) -> None:
        """Decide what is on the lists, and keep pieces that have ended from being begun again."""
        for found in self.opens:
            state = scratch[found.state // 8 :]
            if state[POSITION] == 0:
                state[POSITION] = DONE
            elif state[POSITION] != DONE and state[COUNT]:
                step, operation = divmod(int(state[POSITION]) - 1, len(found.shape.operations))
                stage = found.shape.stages[found.shape.operations[operation][1]]
                assert stage.state is not None
                entries = state[ENTRIES : ENTRIES + int(state[COUNT])]
                self._exactly(found, stage.state, step, entries, scratch, arrays)
                state[COUNT] = 0

    def _exactly(
        self, found: Open, state: int, step: int, entries: NDArray[np.int64], scratch: NDArray[np.int64], arrays: Arrays
    ) -> None:
        """Elements as the reference gives them, from the states of this piece."""
        with guard:
            from anydml.kernels.evaluate.evaluator import evaluators

        histories = [self._history(found, n, scratch) for n in range(len(self.tensors))]
        kept = [Tensor(f"(state {n})", h.shape, self.data_type) for n, h in enumerate(histories)]
        nest = self._of_kept(definition(self.tensors[state]), kept, found.sequences.start)
        known = {tensor.name: history for tensor, history in zip(kept, histories, strict=True)}
        evaluator = evaluators({"": nest}, {"": self.data_type}, {**arrays, **known})[""]
        bits = histories[state].view(f"u{histories[state].itemsize}")
        for entry in entries.tolist():
            sequence, unit = entry >> 32, entry & 0xFFFFFFFF
            bits[step + 1, sequence, unit] = evaluator.stored(step, found.direction, found.sequences[sequence], unit)

    def _history(self, found: Open, state: int, scratch: NDArray[np.int64]) -> NDArray[np.generic]:
        """A state of a piece before the first step and after each."""
        dtype, count = self.data_type.dtype, len(found.sequences)
        steps = self.tensors[state].sizes[0] + 1
        start = found.histories[state]
        raw = scratch.view(np.uint8)[start : start + steps * found.slot]
        return raw.view(dtype).reshape(steps, count, found.row // dtype.itemsize)

    def _of_kept(self, nest: Nest, kept: Sequence[Tensor], first: int) -> Nest:
        """A definition that reads the states of a piece in place of what is defined."""
        made: dict[Expr, Expr] = {}
        for node in walk(nest.body):
            args = tuple(made[a] for a in node.args)
            if node.op == "read" and node.data[0] in self.tensors:
                step, _, sequence, unit = args
                made[node] = kept[self.tensors.index(node.data[0])][(step + 1, sequence - first, unit)]
            else:
                made[node] = node if args == node.args else make(node.op, args, node.data, node.sort)
        return Nest(nest.index, made[nest.body])
