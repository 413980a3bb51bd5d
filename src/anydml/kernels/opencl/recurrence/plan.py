"""A direction of a recurrence: what its program depends on, the numbers that its kernels read, and its memory on the device."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from anydml.kernels.match import states as match
from anydml.kernels.match.states import Recurrence
from anydml.kernels.match.stepped import SteppedElement
from anydml.kernels.recurrence.key import INPUT, NUMBERS, STATE, StepFormula, StepOutput
from anydml.kernels.recurrence.operands import Operands
from anydml.kernels.recurrence.plan import ONE, ROUNDINGS, moves
from anydml.tensor import DataType, TensorDesc

DEPTH = 64  # terms in a block of a sum: errors grow with this number
ROWS = 4  # steps of sequences whose sums over an input a work item adds up together
SUMS = 1 << 26  # bytes of sums over an input that are computed at once
NUMBER, PAIR = 24, 32  # bytes of a factor of sums: number, bound and flag; or a sum of two, bound and flags
LINE = 64


class SumSource(NamedTuple):
    """Factors of sums. number: of the state, or of the stage. blocks: for each block of weights, the tensor that has it.

    tensor: of an input. backward: its steps are counted from the end.
    """

    kind: str
    number: int
    blocks: tuple[int, ...]
    tensor: int = 0
    backward: bool = False


class DirectionKey(NamedTuple):
    """All that a program depends on; tensors are given by their numbers.

    starts: of the states' initial values, None for zeros. lengths: of the sequences' lengths.
    """

    data_type: DataType
    stages: tuple[StepFormula, ...]
    sources: tuple[SumSource, ...]
    starts: tuple[int | None, ...]
    parameters: tuple[int, ...]
    results: tuple[tuple[StepOutput, int], ...]
    lengths: int | None
    tensors: int


class DirectionPlan:
    """numbers: what kernels read, by name, with offsets of tensors counted from their first elements. nbytes: of memory."""

    def __init__(self, found: Recurrence, number: int, tensors: Mapping[str, TensorDesc]) -> None:
        direction = found.directions[number]
        self.found, self.number, self._tensors = found, number, tensors
        self.names: list[str] = []  # of the tensors
        self.places: dict[str, str] = {}  # the tensor from whose first element a number is counted
        self.nbytes = 0
        steps, _, sequences, units = found.sizes
        self.numbers: dict[str, int] = {"steps": steps, "sequences": sequences, "units": units}
        operands = Operands(direction)
        stages, size = operands.stages(), found.data_type.dtype.itemsize
        self.numbers |= {
            "slot": 0,  # of the call's counts
            "listed": self._memory(8 * steps * len(stages)),
            "list": self._memory(4 * sequences * units),
            "kept": self._memory(4 * sequences * units),
            "wanted": self._memory(4 * sequences),
        }
        for n, start in enumerate(direction.starts):
            self.numbers[f"history{n}"] = self._memory((steps + 1) * sequences * units * size)
            if start is not None:
                self._moves(f"start{n}", start, ("sequence", "unit"))
        if found.lengths is not None:
            self._moves("lengths", found.lengths, ("sequence",))
        for n, parameter in enumerate(operands.parameters):
            self._moves(f"parameter{n}", parameter, ("unit",))
        rows = sum(len(b) for s, b in operands.blocks.items() if isinstance(s, SteppedElement))
        self.chunk = max(1, min(steps, SUMS // (8 * sequences * (units * max(rows, 1) + 1))))
        self.numbers["chunk"] = self.chunk
        sources = tuple(self._source(n, s, blocks, operands.terms[s]) for n, (s, blocks) in enumerate(operands.blocks.items()))
        results = []
        for n, result in enumerate(found.results):
            step, apart, sequence, unit = (s * size for s in tensors[result.name].explicit_strides)
            self.numbers |= {
                f"result{n}": number * apart,
                f"result{n}_step": step,
                f"result{n}_sequence": sequence,
                f"result{n}_unit": unit,
            }
            self.places[f"result{n}"] = result.name
            results.append((StepOutput(result.state, result.last, result.backward[number]), self._tensor(result.name)))
        self.key = DirectionKey(
            found.data_type,
            stages,
            sources,
            tuple(None if s is None else self._tensor(s.name) for s in direction.starts),
            tuple(self._tensor(p.name) for p in operands.parameters),
            tuple(results),
            None if found.lengths is None else self._tensor(found.lengths.name),
            len(self.names),
        )
        self.terms = [operands.terms[s] for s in operands.blocks]

    def _source(self, n: int, source: match.Source, weights: list[SteppedElement], terms: int) -> SumSource:
        _, _, sequences, units = self.found.sizes
        size, count = self.found.data_type.dtype.itemsize, len(weights)
        additions = min(DEPTH, terms) + -(-terms // DEPTH) + ROUNDINGS
        self.numbers |= {
            f"terms{n}": terms,
            f"factor{n}": struct.unpack("<q", struct.pack("<d", additions * ONE))[0],
            f"weights{n}": self._memory(count * terms * units * size),
            f"columns{n}": self._memory(8 * count * units),
        }
        for k, place in enumerate(weights):
            self._moves(f"from{n}_{k}", place, ("unit", "term"))
        blocks = tuple(self._tensor(place.name) for place in weights)
        if isinstance(source, match.Before):
            return SumSource(STATE, source.state, blocks)
        if isinstance(source, match.Scaled):
            self.numbers[f"numbers{n}"] = self._memory(NUMBER * sequences * units)
            self.numbers[f"pairs{n}"] = self._memory(PAIR * sequences * units)
            return SumSource(NUMBERS, source.stage, blocks)
        self._moves(f"input{n}", source, ("step", "sequence", "term"))
        rows = sequences * self.chunk
        self.numbers[f"sums{n}"] = self._memory(8 * rows * count * units)
        self.numbers[f"norms{n}"] = self._memory(8 * rows)
        return SumSource(INPUT, 0, blocks, self._tensor(source.name), source.backward)

    def _moves(self, name: str, place: SteppedElement, roles: tuple[str, ...]) -> None:
        at = moves(place, self._tensors)
        self.numbers[name], self.places[name] = at.at.offset, place.name
        self.numbers |= {f"{name}_{role}": getattr(at, role) for role in roles}

    def _tensor(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _memory(self, nbytes: int) -> int:
        """The offset of so many more bytes of memory."""
        begin = self.nbytes
        self.nbytes += -(-nbytes // LINE) * LINE
        return begin
