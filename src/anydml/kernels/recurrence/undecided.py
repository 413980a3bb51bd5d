"""The exact decision of undecided elements of states: all states before them are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.evaluate.tally import TALLY
from anydml.kernels.kernel import Arrays
from anydml.kernels.match.states import definition
from anydml.kernels.recurrence import finer
from anydml.kernels.recurrence.plan import UndecidedPiece
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.state import COUNT, ROW, UndecidedLists
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr
from anydml.schema.statement import Nest
from anydml.schema.traversal import rebuilt
from anydml.tensor import DataType


class Deciding:
    """Decisions of a call whose pieces have stopped."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        data_type: DataType,
        target: Target,
        undecided: Sequence[UndecidedPiece],
        codes: NDArray[np.int64],
    ) -> None:
        """codes: the codes of each piece's stages, shared by all calls."""
        self.tensors, self.data_type, self.target, self.undecided, self.codes = tensors, data_type, target, undecided, codes
        self._kept: set[engine.Code] = set()  # keeps the code at the addresses alive
        self._decisions = StateDecisions(tensors, data_type, target)

    def lists(self) -> UndecidedLists:
        """The lists of all pieces."""
        return UndecidedLists([piece.state // 8 for piece in self.undecided], 1, self._resolve)

    def _resolve(self, k: int, entries: NDArray[np.int64], scratch: NDArray[np.int64], arrays: Arrays) -> None:
        found = self.undecided[k]
        state = scratch[found.state // 8 :]
        step, operation = divmod(int(state[ROW]) - 1, len(found.key.operations))
        stage = found.key.operations[operation][1]
        state_number = found.key.stages[stage].state
        assert state_number is not None
        self._finer(found, stage, self.codes[k], scratch, arrays)
        left = entries[: int(state[COUNT]), 0]
        if len(left):
            self._exactly(found, state_number, step, left, scratch, arrays)

    def _finer(
        self, found: UndecidedPiece, stage: int, codes: NDArray[np.int64], scratch: NDArray[np.int64], arrays: Arrays
    ) -> None:
        """Decide most of them in machine code, which is compiled when it is first needed; later the piece calls it itself."""
        if self.target.exact:
            return
        try:
            code = engine.compiled(finer.emitted, self.target, found.key, stage)
        except engine.Uncompilable:  # a function that does not exist in that precision
            return
        if codes[stage] == code.address:
            return
        TALLY.leave(int(scratch[found.state // 8 + COUNT]))
        codes[stage] = code.address
        self._kept.add(code)
        bases = {**arrays, "scratch": scratch, "constants": self.codes}
        numbers = [x if isinstance(x, int) else x.offset + address_of(bases[x.base]) for x in found.arguments]
        arguments = np.array([numbers], np.int64)
        prepared([table(code, arguments)], self.target, (scratch, arrays, arguments), keeps_gil=True)()

    def _exactly(
        self,
        found: UndecidedPiece,
        state: int,
        step: int,
        entries: NDArray[np.int64],
        scratch: NDArray[np.int64],
        arrays: Arrays,
    ) -> None:
        """Elements as the reference computes them, from the states of this piece."""
        histories = [self._history(found, n, scratch) for n in range(len(self.tensors))]
        sequences, units = entries >> 32, entries & 0xFFFFFFFF
        place = step, found.direction, found.sequences.start
        histories[state][step + 1, sequences, units] = self._decisions.at(state, place, (sequences, units), histories, arrays)

    def _history(self, found: UndecidedPiece, state: int, scratch: NDArray[np.int64]) -> NDArray[np.generic]:
        """A state of a piece before the first step and after each."""
        dtype, count = self.data_type.dtype, len(found.sequences)
        steps = self.tensors[state].sizes[0] + 1
        start = found.histories[state]
        raw = scratch.view(np.uint8)[start : start + steps * found.slot]
        return raw.view(dtype).reshape(steps, count, found.row // dtype.itemsize)


class StateDecisions:
    """Correctly rounded elements of states, from the states that are known: all before them, and at their step."""

    def __init__(self, tensors: Sequence[Tensor], data_type: DataType, target: Target) -> None:
        self.tensors, self.data_type, self.target = tensors, data_type, target
        self._made: dict[tuple[int, int, tuple[int, ...]], Decision] = {}  # when they are first needed

    def at(
        self,
        state: int,
        place: tuple[int, int, int],
        elements: tuple[NDArray[np.int64], NDArray[np.int64]],
        histories: Sequence[NDArray[np.generic]],
        arrays: Arrays,
    ) -> NDArray[np.generic]:
        """Elements of a state.

        place: the step, the direction, and the first sequence of the histories. elements: by their sequences, counted from that
        one, and units. histories: of each state, its elements before the first step and after each.
        """
        step, direction, first = place
        sequences, units = elements
        kept = [Tensor(f"(state {n})", h.shape, self.data_type) for n, h in enumerate(histories)]
        key = state, first, histories[0].shape
        if key not in self._made:
            nest = self._of_kept(definition(self.tensors[state]), kept, first)
            self._made[key] = Decision(nest, self.data_type, self.target)
        known = {tensor.name: history for tensor, history in zip(kept, histories, strict=True)}
        at = np.stack([np.full_like(units, step), np.full_like(units, direction), first + sequences, units], 1)
        return self._made[key].at({**arrays, **known}, at)

    def _of_kept(self, nest: Nest, kept: Sequence[Tensor], first: int) -> Nest:
        """A definition that reads the states of a piece instead of computing them."""

        def replaced(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if node.op != "read" or node.data[0] not in self.tensors:
                return None
            step, _, sequence, unit = args
            return kept[self.tensors.index(node.data[0])][(step + 1, sequence - first, unit)]

        return Nest(nest.index, rebuilt(nest.body, replaced))
