"""The memory of a recurrence, and the steps of its call: weights are packed, then each piece computes its steps.

A piece is a direction with some of the sequences; no piece depends on another.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.code.tile_registers import ROWS, TILE, WIDTH
from anydml.kernels.contract.floats import tuning as floats
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.match import states as match
from anydml.kernels.match.states import Recurrence
from anydml.kernels.match.stepped import ROLES, SteppedElement
from anydml.kernels.recurrence import digits, kernel, registers, tuning
from anydml.kernels.recurrence.finer_sums import PARTS
from anydml.kernels.recurrence.key import (
    INPUT,
    NUMBERS,
    STATE,
    RecurrenceKey,
    RowSource,
    StepOutput,
    lanes_of,
    signature,
    tiles,
)
from anydml.kernels.recurrence.operands import Operands
from anydml.kernels.recurrence.rows import DEPTH
from anydml.kernels.recurrence.weights import WEIGHTS
from anydml.kernels.recurrence.weights import packed as packed_weights
from anydml.kernels.undecided.state import STATE_WORDS, state_and_list
from anydml.tensor import TensorDesc

ROUNDINGS = 4  # roundings of a sum besides those of its additions
ONE = 2.0**-53
OF_REGISTERS = 8  # rows whose sums take as long by multiply-adds as those of ROWS rows by tile registers
FEWEST = 5  # rows of a tile for which weights may be converted once: with fewer, storing them takes as long


class UndecidedPiece(NamedTuple):
    """The undecided elements of a piece: its direction, its sequences, and where its state and its states begin, in bytes.

    row, slot: as `key.signature` has them. arguments: of its kernel.
    """

    key: RecurrenceKey
    direction: int
    sequences: range
    state: int
    histories: tuple[int, ...]
    row: int
    slot: int
    arguments: tuple[At | int, ...]


class RecurrencePiece(NamedTuple):
    packing: list[Step]
    step: Step
    undecided: UndecidedPiece


class Moves(NamedTuple):
    """A tensor's elements by role: the address of the first one, and the stride along each role in bytes."""

    at: At
    unit: int
    term: int
    sequence: int
    step: int


def moves(place: SteppedElement, tensors: Mapping[str, TensorDesc]) -> Moves:
    t = tensors[place.name]
    strides = [stride * t.data_type.dtype.itemsize for stride in t.explicit_strides]

    def dot(steps: Sequence[int]) -> int:
        return sum(n * stride for n, stride in zip(steps, strides, strict=True))

    return Moves(At(place.name, dot(place.start)), *(dot(getattr(place, role)) for role in ROLES))


def fits(place: SteppedElement, found: Recurrence, tensors: Mapping[str, TensorDesc], terms: int = 1) -> bool:
    """Whether all elements that are read are within the tensor."""
    steps, _, sequences, units = found.sizes
    extents = {"unit": units, "term": terms, "sequence": sequences, "step": steps}
    return place.inside(tensors[place.name].sizes, extents)


def _bits(x: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return found


class Planner:
    """The layout of one piece."""

    def __init__(
        self, found: Recurrence, direction: int, sequences: range, tensors: Mapping[str, TensorDesc], target: Target,
        scratch: Scratch, codes: At,
    ) -> None:  # fmt: skip
        self.found, self.number, self.sequences = found, direction, sequences
        self.direction = found.directions[direction]
        self.tensors, self.target, self.scratch = tensors, target, scratch
        self.size = found.data_type.dtype.itemsize
        self.registers = "amx-int8" in target.features
        self.numbers: Arguments = {"codes": codes}
        self.operands = Operands(self.direction)
        self.parameters, self.blocks, self.terms = self.operands.parameters, self.operands.blocks, self.operands.terms

    def piece(self) -> RecurrencePiece:
        steps, _, _, units = self.found.sizes
        count = len(self.sequences)
        lanes = lanes_of(self.target)
        up = -(-units // lanes) * lanes
        self.up, self.row = up, up * self.size
        slot = count * self.row
        width = max((len(b) for s, b in self.blocks.items() if isinstance(s, SteppedElement)), default=1) * up * 8
        room = tuning.TUNING.sums << (self.registers and count > OF_REGISTERS)
        chunk = 1 if self._in_place() else max(1, min(steps, room // (count * width)))
        self.sources = {s: self._source(s, count, chunk if isinstance(s, SteppedElement) else 1) for s in self.blocks}
        key = RecurrenceKey(
            self.found.data_type,
            self.operands.stages(),
            tuple(self.sources.values()),
            tuple(start is not None for start in self.direction.starts),
            len(self.parameters),
            tuple(StepOutput(r.state, r.last, r.backward[self.number]) for r in self.found.results),
            self.found.lengths is not None,
        )
        work = sum(len(b) * self.terms[s] * units * count for s, b in self.blocks.items())
        most = max(1, tuning.TUNING.budget // max(1, work)) * len(key.operations)
        state, made = self.scratch.take(8 * state_and_list(count * units)), self.scratch.take(64)
        self.numbers |= dict(
            state=state,
            list=state + 8 * STATE_WORDS,
            steps=steps,
            sequences=count,
            units=units,
            most=most,
            row=self.row,
            slot=slot,
            chunk=chunk,
            made=made,
            wide=self.scratch.take(
                max((DEPTH * s.across * self.target.vector_bytes * s.widened for s in key.sources), default=0)
            ),
        )
        histories = [self.scratch.take((steps + 1) * slot) for _ in self.direction.starts]
        packing: list[Step] = []
        self._tensors(histories)
        for n, (source, weights) in enumerate(self.blocks.items()):
            rows = count * (chunk if isinstance(source, SteppedElement) else 1)
            packing += self._sums(n, source, weights, rows)
        code = engine.compiled(kernel.emitted, self.target, key)
        step = signature(key).step(code, **self.numbers)
        undecided = UndecidedPiece(
            key, self.number, self.sequences, state.offset, tuple(h.offset for h in histories), self.row, slot, step.arguments
        )
        return RecurrencePiece(packing, step, undecided)

    def _vectors(self) -> int:
        """The number of vectors of float64 that hold all units."""
        return -(-self.found.sizes[3] // (self.target.vector_bytes // 8))

    def _in_place(self) -> bool:
        """Whether weights are read a few times only, and in their order in memory: packing would take longer than sums do."""
        near = all(moves(place, self.tensors).term == self.size for places in self.blocks.values() for place in places)
        return near and len(self.sequences) == 1 and self.found.sizes[0] <= tuning.TUNING.few

    def _source(self, source: match.Source, count: int, chunk: int) -> RowSource:
        rows = count * chunk
        parts = self._digits(source, rows, -(-self.found.sizes[0] // chunk))
        height, across = tiles(self.target, digits.LANES if parts else rows, self._vectors() * len(self.blocks[source]))
        blocks = len(self.blocks[source]) if self._in_place() else 0
        if isinstance(source, SteppedElement):
            made = RowSource(INPUT, 0, height, across, source.backward, blocks)
        elif isinstance(source, match.Before):
            made = RowSource(STATE, source.state, height, across, blocks=blocks)
        else:
            made = RowSource(NUMBERS, source.stage, height, across, blocks=blocks)
        return made._replace(widened=floats.TUNING.column_bytes == 8 and height >= FEWEST and not blocks, digits=parts)

    def _digits(self, source: match.Source, rows: int, times: int) -> int:
        """The digits of a number, if tile registers take less time for `rows` rows, `times` times; else 0."""
        if not self.registers or not 0 < self.terms[source] <= digits.MOST or self._in_place():
            return 0
        gained = times * (rows - OF_REGISTERS * -(-rows // ROWS))
        return 0 if gained < tuning.TUNING.digits else digits.DOUBLE if isinstance(source, match.Scaled) else digits.SINGLE

    def _tensors(self, histories: Sequence[At]) -> None:
        """Set the addresses and strides of the tensors."""
        numbers, first = self.numbers, self.sequences.start
        if self.found.lengths is not None:
            lengths = moves(self.found.lengths, self.tensors)
            numbers |= dict(lengths=lengths.at + first * lengths.sequence, length_step=lengths.sequence)
        for n, (start, history) in enumerate(zip(self.direction.starts, histories, strict=True)):
            numbers[f"history{n}"] = history
            if start is not None:
                at = moves(start, self.tensors)
                numbers |= {
                    f"start{n}": at.at + first * at.sequence,
                    f"start{n}_sequence": at.sequence,
                    f"start{n}_unit": at.unit,
                }
        for n, parameter in enumerate(self.parameters):
            at = moves(parameter, self.tensors)
            kept = self.scratch.take(self.row)
            numbers |= {f"parameter{n}": at.at, f"parameter{n}_unit": at.unit, f"kept{n}": kept}
        for n, result in enumerate(self.found.results):
            step, direction, sequence, unit = (s * self.size for s in self.tensors[result.name].explicit_strides)
            numbers |= {
                f"result{n}": At(result.name, self.number * direction + first * sequence),
                f"result{n}_step": step,
                f"result{n}_sequence": sequence,
                f"result{n}_unit": unit,
            }

    def _sums(self, n: int, source: match.Source, weights: Sequence[SteppedElement], rows: int) -> list[Step]:
        """The memory of a source, and the steps that pack its weights."""
        units, terms, take = self.found.sizes[3], self.terms[source], self.scratch.take
        tile = list(self.sources.values())[n]
        lanes, vectors = self.target.vector_bytes // 8, self._vectors()
        count = -(-len(weights) * vectors // tile.across)
        panel, block, row = 4 * tile.across * lanes * terms, 8 * lanes * vectors, 8 * lanes * tile.across * count
        at_once = ROWS if tile.digits else tile.rows
        rows_up = -(-rows // at_once) * at_once
        if tile.digits:  # columns of a register
            row = -(-row // (16 * lanes)) * 16 * lanes
        packed, norms = take(8 * rows_up * terms), take(8 * rows_up)
        beyond = 8 * 2 * lanes_of(self.target)  # a group of units may extend into it
        sums, columns = take(rows_up * row + beyond), take(row + beyond)
        into, fine = take(0 if tile.blocks else count * panel), take(PARTS * row + beyond)
        deep = -(-terms // lanes) + 2 * lanes if tile.blocks else min(DEPTH, terms) + -(-terms // DEPTH)
        additions = deep + ROUNDINGS
        plainly = additions * 2.0**-53 / digits.FACTOR
        factor, plainly = (_bits(x) for x in (additions * ONE / (plainly if tile.digits else 1), plainly))
        self.numbers |= {
            f"packed{n}": packed, f"norms{n}": norms, f"sums{n}": sums, f"sums_row{n}": row,
            f"panels{n}": into, f"panel{n}": panel, f"panel_count{n}": count, f"terms{n}": terms,
            f"columns{n}": columns, f"block{n}": block, f"factor{n}": factor, f"depth{n}": DEPTH,
            f"fine{n}": fine, f"fine_part{n}": row,
        }  # fmt: skip
        if isinstance(source, SteppedElement):
            at = moves(source, self.tensors)
            self.numbers |= {
                f"input{n}": at.at + self.sequences.start * at.sequence, f"input_step{n}": at.step,
                f"input_sequence{n}": at.sequence, f"input_term{n}": at.term,
            }  # fmt: skip
        elif isinstance(source, match.Scaled):
            numbers = 8 * self.up
            self.numbers |= {
                f"numbers{n}": take(len(self.sequences) * numbers), f"numbers_row{n}": numbers,
                f"lost{n}": take(8 * rows_up), f"open{n}": take(8 * rows_up),
                f"pairs{n}": take(PARTS * numbers), f"pairs_part{n}": numbers,
            }  # fmt: skip
        if tile.blocks:
            for k, place in enumerate(weights):
                at = moves(place, self.tensors)
                self.numbers |= {f"weights{n}_{k}": at.at, f"unit{n}_{k}": at.unit}
            return []
        deep = -(-terms // WIDTH) * TILE
        pairs = -(-len(weights) * vectors // 2)
        if tile.digits:
            self.numbers |= {
                f"plainly{n}": plainly, f"digits{n}": take(pairs * deep * digits.SINGLE), f"scales{n}": take(2 * row),
                f"plain{n}": take(64),
                f"row_digits{n}": take(tile.digits * deep), f"row_scales{n}": take(16 * ROWS),
                f"registers{n}": take(registers.MEMORY), f"digit_columns{n}": pairs,
            }  # fmt: skip
        code = engine.compiled(packed_weights, self.target, self.found.data_type, tile.across)
        steps = []
        for k, place in enumerate(weights):
            at = moves(place, self.tensors)
            read = Arguments(weights=at.at, unit=at.unit, term=at.term, units=units, terms=terms)
            steps.append(WEIGHTS.step(code, **read, into=into, panel=panel, first=k * vectors, norms=columns))
        if tile.digits:
            code = engine.compiled(digits.of_weights, self.target, tile.across, tile.digits)
            to = {x: self.numbers[f"{x}{n}"] for x in ("scales", "plain")}
            read = Arguments(panels=into, panel=panel, vectors=len(weights) * vectors, terms=terms)
            steps.append(digits.ARGUMENTS.step(code, **read, **to, into=self.numbers[f"digits{n}"], norms=columns))
        return steps
