"""The family of nests, compiled: any sums, extremes and places of elements read at computed places, correctly rounded."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from anydml.forks import guard
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.nests import Matched, nests
from anydml.kernels.nests import emit
from anydml.kernels.nests.shape import STATE_WORDS, Shape, narrowed
from anydml.kernels.nests.undecided import Piece, deciding
from anydml.schema.check import Checked
from anydml.schema.statement import Statement

ROOM = 1 << 11  # elements on the list of a piece
SHORT = 1 << 14  # terms below which other threads can wait
ALONE = 1 << 16  # terms below which one thread computes
BUDGET = 1 << 28  # terms between which signals are handled
LONGEST = 1 << 36  # terms of one element


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """A step for each output and each thread."""
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    if checked.desc.spec.in_place and len(statement) > 1:
        return Refused("several outputs may be inputs")
    pieces: list[list[Piece]] = []
    phases: list[list[list[Step]]] = []
    scratch, work = 0, 0
    for name, nest in statement.items():
        found = nests(nest, checked.tensors[name].data_type)
        if isinstance(found, str):
            return Refused(found)
        types = (*found.program.types, checked.tensors[name].data_type)
        if any(t.element_bits < 8 for t in types):
            return Refused("elements are of four bits")
        try:
            made = _Output(target, name, found, checked, machine)
        except engine.Uncompilable as reason:
            return Refused(str(reason))
        steps, here, scratch = made.steps(scratch)
        phases.append(steps)
        pieces.append(here)
        work += made.work
    types_ = {name: checked.tensors[name].data_type for name in statement}
    return Lowered(
        target,
        [Rounds(phases)],
        scratch=8 * scratch,
        short=work < SHORT,
        decide=deciding(statement, types_, pieces),
    )


class _Output:
    """The kernel of one output, and its arguments."""

    def __init__(self, target: Target, name: str, found: Matched, checked: Checked[Any], machine: Machine) -> None:
        self.name, self.found, self.tensors = name, found, checked.tensors
        output = checked.tensors[name]
        sizes, dims = found.sizes, found.program.dims
        lanes = emit.lanes_of(target)
        itemsize = output.data_type.dtype.itemsize
        self.steps_ = [s * itemsize for s in output.explicit_strides]
        wide = [d for d in range(dims) if sizes[d] >= lanes]
        lane = (
            max(wide, key=lambda d: (self.steps_[d] == itemsize, d)) if wide else max(range(dims), key=lambda d: (sizes[d], d))
        )
        self.shape = Shape(found.program, output.data_type, lane, self.steps_[lane] == itemsize, narrowed(found.program, sizes))
        limited = found.program.limited()
        self.terms = prod(n for v, n in enumerate(sizes) if v >= dims and v not in limited)
        if self.terms > LONGEST:
            raise engine.Uncompilable("elements are reductions of too many terms")
        with guard:
            self.code = engine.compiled(emit.emitted, target, self.shape)
        self.lanes = lanes
        self.kept = emit.slots(target, self.shape)
        self.rows = prod(sizes[d] for d in self.shape.outer)
        self.work = prod(sizes)
        self.threads = min(machine.threads if self.work >= ALONE else 1, self.rows)

    def steps(self, start: int) -> tuple[list[list[Step]], list[Piece], int]:
        """A piece for each thread, in scratch from a word on; and the word behind."""
        shape, sizes = self.shape, self.found.sizes
        width = sizes[shape.lane]
        pitch = -(-width // self.lanes) * self.lanes
        room = min(ROOM, self.rows * width) + self.lanes
        words = -(-(STATE_WORDS + room) // 8) * 8
        size = words + -(-(pitch * self.kept) // 8) * 8
        ranges = [size]
        for found in shape.narrowed:
            ranges.append(ranges[-1] + 2 * 8 * -(-sizes[found.dimension] // 8))
        size = ranges.pop()
        budget = max(1, BUDGET // max(1, width * self.terms))
        steps: list[list[Step]] = []
        pieces: list[Piece] = []
        for first, end in pairwise(self.rows * k // self.threads for k in range(self.threads + 1)):
            state = At("scratch", 8 * start)
            numbers: list[At | int] = [
                state, state + 8 * STATE_WORDS, state + 8 * words, 8 * pitch, room, budget, first, end, At(self.name),
                self.steps_[shape.lane], *sizes, *(self.steps_[d] for d in shape.outer),
            ]  # fmt: skip
            numbers += [At(name) for name in self.found.tensors]
            for t, d in shape.places:
                tensor = self.tensors[self.found.tensors[t]]
                numbers += [tensor.sizes[d] - 1, tensor.explicit_strides[d] * tensor.data_type.dtype.itemsize]
            numbers += [state + 8 * at for at in ranges]
            steps.append([Step(self.code, tuple(numbers))])
            pieces.append(Piece(self.name, start, sizes[: shape.program.dims], (*shape.outer, shape.lane)))
            start += size
        return steps, pieces, start
