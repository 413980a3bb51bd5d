"""The call of attention on an OpenCL device: pieces of batches and queries, and the last decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.attention import weights
from anydml.kernels.attention.key import ABOUT, AttentionKey, KeptKey
from anydml.kernels.attention.layout import Numbers
from anydml.kernels.call.steps import At
from anydml.kernels.code import opencl
from anydml.kernels.code.targets import EXACT, THIRD
from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.attention import text
from anydml.kernels.opencl.attention.text import ENTRY, SIDE, STATE, THREADS
from anydml.kernels.opencl.calls import Workspace, store
from anydml.kernels.opencl.overlap import Copies
from anydml.kernels.opencl.platform import GROUP, UNITS
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering
from anydml.tensor import TensorDesc

Arrays = Callable[[str], NDArray[Any]]
SCRATCH = 1 << 28  # bytes of scratch, at most, unless a single query needs more
FINER = 1 << 24  # bytes of the second stage's work items
LATER = (THIRD, EXACT)


class Output(NamedTuple):
    """An output of attention: its name, its desc, the tensors that it reads, the numbering of its elements, and their last
    decision."""

    name: str
    desc: TensorDesc
    inputs: tuple[str, ...]
    places: Numbering
    decision: Decision


class Piece(NamedTuple):
    """Batches, and queries of each, which are numbered through the groups."""

    batches: range
    rows: range


class AttentionCall:
    """The kernels of attention. The count of the call is the number of queries that have undecided elements."""

    def __init__(
        self, workspace: Workspace, key: AttentionKey, numbers: Numbers, batches: int, stage: str, output: Output, own: Copies
    ) -> None:
        self.workspace, self.opened = workspace, workspace.opened
        self._key, self._numbers, self._batches, self._stage = key, numbers, batches, stage
        self._output, self._own = output, own
        self.number = workspace.call(0)
        self._n = n = whole(numbers)
        self._rows = n["groups"] * n["queries"]
        self._open_row = -(-n["columns"] // 64) * 8
        self._words = batches * self._rows * self._open_row // 4
        self._pieces = list(self._cut())
        self._kernels: dict[str, Any] = {}
        self._finer: Any = None
        self._ranges: tuple[int, ...] | None = None  # the piece that the kernels' arguments are of
        self._listed = 0  # elements that the first stage left undecided, of pieces whose second stage is done

    # --- the work partition ---

    def _memory(self, batches: int, rows: int) -> dict[str, int]:
        """The bytes of each memory for a piece of so many batches and queries of each."""
        n, key = self._n, self._key
        head, column, keys = 8 * n["head"], 8 * n["columns"], 8 * n["keys"]
        of_batch = dict(
            state=STATE, own_query_bias=n["groups"] * head, own_key_bias=head, own_value_bias=column, panels=n["keys"] * head,
            key_norms=keys, value_rows=n["keys"] * column, largest=column, norms=column, key_states=n["keys"] * STATE,
        )  # fmt: skip
        of_row = dict(
            query_rows=head, query_norms=8, scores=keys, added=keys if key.adds else 0, rests=keys if key.both else 0,
            sums=column, about=8 * ABOUT, line=column, query_states=STATE,
        )  # fmt: skip
        of_worker = dict(heads=keys, tails=keys, losses=keys, row=64, list=ENTRY)
        workers = self._workers(batches * rows)
        found = {name: batches * size for name, size in of_batch.items()}
        found |= {name: batches * rows * size for name, size in of_row.items()}
        return found | {name: workers * size for name, size in of_worker.items()}

    def _workers(self, rows: int) -> int:
        """The work items of the second stage."""
        return max(1, min(rows, FINER // (24 * self._n["keys"] + 64 + ENTRY)))

    def _cut(self) -> Iterator[Piece]:
        """Pieces of whole batches, or of some queries of a batch, whose memory and work are within limits."""
        n = self._n
        work = self._rows * n["keys"] * (n["head"] + n["columns"])

        def fits(batches: int, rows: int) -> bool:
            return sum(self._memory(batches, rows).values()) <= SCRATCH and batches * work * rows // self._rows <= UNITS

        some, rows = self._batches, self._rows
        while some > 1 and not fits(some, rows):
            some = -(-some // 2)
        while some == 1 and rows > 1 and not fits(1, rows):
            rows = -(-rows // 2)
        for first in range(0, self._batches, some):
            for row in range(0, self._rows, rows):
                yield Piece(range(first, min(first + some, self._batches)), range(row, min(row + rows, self._rows)))

    # --- a call ---

    def launch(self) -> None:
        """Enqueue the kernels. Long work is waited for in pieces."""
        if not self._kernels:
            self._make()
        self._listed = 0
        for piece in self._pieces:
            self._launch(piece)
            if len(self._pieces) > 1 and self.workspace.counts()[self.number, 0]:  # the next one overwrites the scratch
                self._listed += self._refine(piece)

    def _launch(self, piece: Piece) -> None:
        opened, n = self.opened, self._n
        batches, rows = len(piece.batches), len(piece.rows)
        ranges = (piece.batches.start, batches, piece.rows.start, rows)
        if ranges != self._ranges:
            self._ranges = None  # an interrupt may come between these lines
            for kernel in self._kernels.values():
                self._set(kernel, piece)
            self._ranges = ranges
        head, keys, columns = n["head"], n["keys"], n["columns"]
        items = dict(
            biases=batches * n["groups"], keys=batches * keys, columns=batches * columns, queries=batches * rows, ends=batches,
            weigh=batches * rows, finish=batches * rows,
        )  # fmt: skip
        at = self._places
        for name, kernel in self._kernels.items():
            if name == "weigh":
                a, b = (at["query_rows"], 8 * head, 8 * head * rows), (at["panels"], 8 * head, 8, 8 * head * keys)
                self._tiles(batches, (rows, keys, head), a, b, (at["scores"], 8 * keys, 8 * keys * rows), 1 << 30)
            if name == "finish":
                a, b = (at["scores"], 8 * keys, 8 * keys * rows), (at["value_rows"], 8, 8 * columns, 8 * columns * keys)
                self._tiles(batches, (rows, columns, keys), a, b, (at["sums"], 8 * columns, 8 * columns * rows), weights.DEPTH)
            opened.launch(kernel, items[name])
        opened.paced(batches * rows * keys * (head + columns + 64))

    def _tiles(
        self,
        batches: int,
        sizes: tuple[int, int, int],
        a: tuple[int, int, int],
        b: tuple[int, int, int, int],
        to: tuple[int, int, int],
        together: int,
    ) -> None:
        """Enqueue products. sizes: rows, columns, terms; then places, strides of rows or of columns and terms, of batches."""
        rows, columns, terms = sizes
        places = (a[0], b[0], to[0]), (a[1], b[1], b[2], to[1]), (a[2], b[3], to[2])
        longs = [[np.int64(x) for x in some] for some in places]
        self._products.set_args(
            self._scratch, *longs[0], np.int32(rows), np.int32(columns), np.int32(terms), *longs[1], *longs[2],
            np.int32(together),
        )  # fmt: skip
        groups = batches * -(-rows // SIDE) * -(-columns // SIDE)
        self.opened.launch(self._products, groups * self._threads, self._threads)

    def _set(self, kernel: Any, piece: Piece) -> None:
        for k, x in enumerate((piece.batches.start, len(piece.batches), piece.rows.start, len(piece.rows))):
            kernel.set_arg(self._first + k, np.int64(x))

    def _refine(self, piece: Piece) -> int:
        """The second stage of a piece. Returns how many elements the first one left undecided."""
        number = len(self._undecided(piece))
        self.workspace.reset(self.number)
        if self._stage in LATER:
            return number
        if self._finer is None:
            program = self.opened.program(_finer_text(self._stage, self._key))
            self._finer = self.opened.kernel(program, "refine")
            self._finer.set_args(*self._given, *(np.int64(0) for _ in text.RANGES))
        self._set(self._finer, piece)
        self.opened.launch(self._finer, self._workers(len(piece.batches) * len(piece.rows)))
        self.opened.wait()
        return number

    def _undecided(self, piece: Piece | None = None) -> NDArray[np.int64]:
        """The numbers of all undecided elements, or of those of a piece."""
        bits = np.zeros(self._words, np.uint32)
        self.opened.read(self._bits, bits)
        if piece is not None:
            rows = bits.reshape(self._batches, self._rows, -1)
            bits = rows[piece.batches.start : piece.batches.stop, piece.rows.start : piece.rows.stop].reshape(-1)
        return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))

    def is_open(self, counts: NDArray[np.int32]) -> bool:
        """Whether elements are still undecided, by the counts of all calls after they have ended."""
        return bool(self._listed or counts[self.number, 0])

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        """Decide all elements that are still undecided, after the call has ended and before another one begins."""
        if not self._listed:
            self._listed = self._refine(self._pieces[0])
        numbers = self._undecided()
        if len(numbers):
            name, desc, inputs, places, decision = self._output
            at, arrays = places.at(numbers), self._own.arrays(arrays)
            elements = decision.at({x: arrays(x) for x in inputs}, at)
            itemsize = desc.data_type.dtype.itemsize
            offsets = at @ (np.array(desc.explicit_strides, np.int64) * itemsize)
            store(self.opened, self._own.memory[name], offsets, elements, itemsize)
        return self._listed, len(numbers)

    def _make(self) -> None:
        opened, n, key = self.opened, self._n, self._key
        most = self._pieces[0]
        sizes = self._memory(len(most.batches), len(most.rows))
        self._places: dict[str, int] = {}
        end = 0
        for name, size in sizes.items():
            self._places[name] = end
            end += -(-size // 64) * 64
        self._scratch = opened.allocate(end)
        self._bits = opened.allocate(4 * self._words)
        work = dict(
            head_row=8 * n["head"], column_row=8 * n["columns"], key_row=8 * n["keys"], score_row=8 * n["keys"],
            open_row=self._open_row,
        )  # fmt: skip
        known = n | work | {f"{name}_place": at for name, at in self._places.items()}
        arguments, tensors = _bound(key.tensors, self._numbers, self._own.memory)
        known |= arguments
        numbers = np.array([known.get(name, 0) for name in text.numbers(key)], np.int64)
        memory = opened.allocate(numbers.nbytes)
        opened.write(memory, numbers)
        program = opened.program(_text(self._stage, key))
        given = [memory, self._scratch, self._bits, self.workspace.memory[0], *tensors, np.int64(2 * self.number)]
        self._first = len(given)
        self._given = given  # a kernel's arguments do not keep their memory
        self._threads = 1 if opened.is_processor else THREADS
        self._products = opened.kernel(opened.program(text.tiles_text(processor=opened.is_processor)), "tiles")
        kernels = {}
        for name in text.KERNELS:
            if key.biased or name != "biases":
                kernels[name] = opened.kernel(program, name)
                kernels[name].set_args(*given, *(np.int64(0) for _ in text.RANGES))
        self._kernels = kernels


class KeptCall:
    """The kernel of an output of joined rows."""

    number = -1

    def __init__(self, workspace: Workspace, key: KeptKey, numbers: Numbers, batches: int, memory: Mapping[str, DeviceMemory]):
        self.opened = workspace.opened
        self._key, self._numbers, self._memory = key, numbers, memory
        self._count = batches * whole(numbers)["keys"]
        self._kernel: Any = None

    def launch(self) -> None:
        """Enqueue the kernel."""
        if self._kernel is None:
            opened, key = self.opened, self._key
            known, tensors = _bound(key.tensors, self._numbers, self._memory)
            known |= whole(self._numbers)
            numbers = np.array([known.get(name, 0) for name in key.signature.names], np.int64)
            own = opened.allocate(numbers.nbytes)
            opened.write(own, numbers)
            kernel = opened.kernel(opened.program(_kept_text(key)), "present")
            self._given = [own, *tensors]
            kernel.set_args(*self._given, np.int64(self._count))
            self._kernel = kernel
        self.opened.launch(self._kernel, self._count, GROUP)

    def is_open(self, counts: object) -> bool:
        return False

    def settle(self, arrays: Arrays) -> tuple[int, int]:
        return 0, 0


def whole(numbers: Numbers) -> dict[str, int]:
    """The numbers that are no addresses."""
    return {name: x for name, x in numbers.items() if not isinstance(x, At)}


def _bound(names: tuple[str, ...], numbers: Numbers, memory: Mapping[str, DeviceMemory]) -> tuple[dict[str, int], list[Any]]:
    """The first bytes of a kernel's tensors in their memories, and these."""
    places = {name: numbers[name] for name in names}
    offsets, memories = {}, []
    for name, at in places.items():
        assert isinstance(at, At)
        offsets[name] = memory[at.base].offset + at.offset
        memories.append(memory[at.base].data)
    return offsets, memories


@lru_cache(maxsize=256)
def _text(stage: str, key: AttentionKey) -> str:
    return text.text(opencl.target(stage), key)


@lru_cache(maxsize=256)
def _finer_text(stage: str, key: AttentionKey) -> str:
    return text.finer_text(opencl.target(stage), key)


@lru_cache(maxsize=256)
def _kept_text(key: KeptKey) -> str:
    return text.kept_text(opencl.target(), key)
