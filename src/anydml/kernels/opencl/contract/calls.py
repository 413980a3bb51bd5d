"""The call of a contraction on an OpenCL device: tiles, blocks again as pairs, single elements, and the last decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.code import opencl
from anydml.kernels.contract.floats.layout import ENTRY, FloatLayout, StreamPlace
from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.calls import Workspace, store
from anydml.kernels.opencl.contract import text
from anydml.kernels.opencl.contract.text import BLOCK, COLUMNS, ROWS, SINGLES, THREADS, WORDS, TextKey
from anydml.kernels.opencl.platform import LONG, UNITS
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering
from anydml.tensor import TensorDesc

Arrays = Callable[[str], NDArray[Any]]


class Part(NamedTuple):
    """A contraction with a layout. names: the tensors it reads. numbering: of elements by batches, rows and columns."""

    key: TextKey
    layout: FloatLayout
    numbering: Numbering
    names: tuple[str, ...]

    @property
    def places(self) -> list[StreamPlace]:
        """The places of the streams that the formula reads beside the sums, and of the output."""
        return [*(self.layout.streams[k] for k in self.key.formula.others), self.layout.output]


class TiledCall:
    """The kernels of a contraction. The count of the call is the number of elements that the kernels leave undecided."""

    def __init__(
        self,
        workspace: Workspace,
        part: Any,
        stage: str,
        output: TensorDesc,
        decision: Decision,
        memory: Mapping[str, DeviceMemory],
    ) -> None:
        """part: a `Part`, or one of integers."""
        self.workspace, self.opened, self.part = workspace, workspace.opened, part
        self._stage, self._output, self._decision, self._memory = stage, output, decision, memory
        self.number = workspace.call(0)
        found = part.layout
        self._batches: int = prod(found.batches)
        self._words = -(-self._batches * found.rows * found.columns // 32)
        self._kernels: list[Any] = []
        self._first = 0  # the place of the argument that says where a launch begins

    def _plan(self, sizes: Sequence[tuple[int, int]], units: int) -> None:
        """The groups of each kernel, and the work items of a group; units: of work for a tile."""
        self._sizes, self._units = sizes, units
        self._begins = [0 for _ in sizes]  # the first group of each kernel's next launch
        tiles = max(1, UNITS // units)
        self._at_once = [64 * tiles if items == SINGLES else tiles for _, items in sizes]  # groups in a launch

    def _groups(self, height: int) -> int:
        """The tiles of so many rows and of COLUMNS columns."""
        found: FloatLayout = self.part.layout
        return self._batches * -(-found.columns // COLUMNS) * -(-found.rows // height)

    def _tiles(self) -> tuple[int, int]:
        """The groups of the first kernel, and the work items of a group: on a processor, one computes a block."""
        return (self._groups(BLOCK), 1) if self.opened.is_processor else (self._groups(ROWS), THREADS)

    def launch(self) -> None:
        """Enqueue the kernels. Long work is waited for in pieces."""
        if not self._kernels:
            self._make()
        for k, (groups, items) in enumerate(self._sizes):
            self._in_pieces(k, groups, items)

    def is_open(self, counts: NDArray[np.int32]) -> bool:
        """Whether elements are still undecided, by the counts of all calls after they have ended."""
        return bool(counts[self.number, 0])

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        """Decide all elements that are still undecided, after the call has ended and before another one begins."""
        bits = np.zeros(self._words, np.uint32)
        self.opened.read(self._bitmap, bits)
        numbers = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
        if len(numbers):
            at = self.part.numbering.at(numbers)
            elements = self._decision.at({name: arrays(name) for name in self.part.names}, at)
            itemsize = self._output.data_type.dtype.itemsize
            offsets = at @ (np.array(self._output.explicit_strides, np.int64) * itemsize)
            place = self._memory[self.part.layout.output.at.base]
            store(self.opened, place, offsets, elements, itemsize)
            bits[...] = 0
            self.opened.write(self._bitmap, bits)
        self.workspace.reset(self.number)
        return len(numbers), len(numbers)

    def _make(self) -> None:
        """Make the kernels."""
        raise NotImplementedError

    def _arguments(self) -> list[Any]:
        """The first arguments of all kernels: tensors, numbers, batches, positions. They have to be kept."""
        found, places = self.part.layout, self.part.places
        base = {name: memory.offset for name, memory in self._memory.items()}
        every = (found.a, found.b, *places)
        offsets = [[base[p.at.base] + p.of(batch).offset for p in every] for batch in product(*map(range, found.batches))]
        numbers = [found.rows, found.columns, *found.sizes[1:], found.a.row, *found.b.columns, found.channels, len(found.table)]
        numbers += [found.a_term, found.b_term, *found.inside]
        for p in places:
            numbers += [p.row, *p.columns]
        table = found.table if found.table.size else np.zeros(ENTRY, np.int64)
        self._bitmap = self._filled(np.zeros(self._words, np.uint32))
        own = [self._filled(np.array(x, np.int64)) for x in (numbers, offsets, table)]
        return [*(self._memory[p.at.base].data for p in every), *own]

    def _filled(self, array: NDArray[Any]) -> Any:
        memory = self.opened.allocate(array.nbytes)
        self.opened.write(memory, array)
        return memory

    def _in_pieces(self, k: int, groups: int, items: int) -> None:
        """Launch so many groups of a kernel; more at once if that is quick."""
        kernel, first = self._kernels[k], 0
        while first < groups:
            end = min(groups, first + self._at_once[k])
            if first != self._begins[k]:
                self._begins[k] = -1  # an interrupt may come between these lines
                kernel.set_arg(self._first, np.int64(first))
                self._begins[k] = first
            began = time.perf_counter()
            self.opened.launch(kernel, (end - first) * items, items)
            if end == groups:
                self.opened.paced((end - first) * self._units if not k else 0)  # the others usually have nothing to do
            else:
                self.opened.wait()
                if time.perf_counter() - began < LONG / 4:
                    self._at_once[k] *= 2
            first = end


class ContractionCall(TiledCall):
    """The kernels of a contraction of floats: tiles, blocks again as pairs, and single elements."""

    def __init__(self, workspace: Workspace, part: Part, *others: Any) -> None:
        super().__init__(workspace, part, *others)
        found = part.layout
        self._blocks = self._groups(BLOCK)
        singles = -(-self._words // WORDS), SINGLES
        pairs = self._blocks, 1 if self.opened.is_processor else THREADS
        self._plan((self._tiles(), pairs, singles), ROWS * COLUMNS * max(1, found.terms))

    def _make(self) -> None:
        opened, found = self.opened, self.part.layout
        given = self._arguments()
        norms = opened.allocate(8 * self._batches * (found.rows + found.columns))
        dense = opened.allocate(4 * self._blocks)
        program = opened.program(_text(self._stage, self.part.key, processor=opened.is_processor))
        products, pairs, singles = (opened.kernel(program, name) for name in ("products", "pairs", "singles"))
        for kernel in (products, pairs):
            kernel.set_args(*given, norms, self._bitmap, dense, np.int64(0))
        counts = self.workspace.memory[0]
        singles.set_args(*given, self._bitmap, counts, np.int64(2 * self.number), np.int64(0), np.int64(self._words))
        self._first = len(given) + 3
        self._own = (given, norms, dense)  # a kernel's arguments do not keep their memory
        self._kernels = [products, pairs, singles]


@lru_cache(maxsize=256)
def _text(stage: str, key: TextKey, *, processor: bool) -> str:
    return text.text(opencl.target(stage), key, processor=processor)
