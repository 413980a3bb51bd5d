"""Windows of inputs: what a window of an output is computed from, derived from the operator's statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.coordinates import Ranges, nothing, reached, value_along
from anydml.errors import UnsupportedError
from anydml.schema.desc import Desc
from anydml.schema.expression import Tensor
from anydml.schema.node import Expr, Variable
from anydml.schema.statement import Nest, meaning
from anydml.schema.traversal import bound_by, walk

Window = tuple[slice, ...]
Sizes = tuple[int, ...]
Chunks = tuple[tuple[int, ...], ...]  # the sizes of the chunks along each dimension, as Dask has them


class Reads(NamedTuple):
    """The reads of one input by an output's nest: the indices of each."""

    tensor: Tensor
    indices: tuple[tuple[Expr, ...], ...]


class Needed(NamedTuple):
    """The part of one input that an output's window reads.

    window: the smallest that has it all, empty where nothing is read. blocks: in each dimension, those that are read. beyond:
    an index in each dimension that is above every index that is read, if nothing is. complete: see `shifting.Part`.
    """

    window: Window
    blocks: tuple[tuple[int, ...], ...]
    beyond: tuple[int, ...] = ()
    complete: bool = True


def reads_of(nest: Nest) -> dict[str, Reads]:
    """The reads of every input, by its name; UnsupportedError for states that are kept from step to step, and random bits."""
    found: dict[Tensor, dict[tuple[Expr, ...], None]] = {}
    for node in walk(nest.body):
        if node.op == "philox":
            raise UnsupportedError("random bits follow one another")
        if node.op == "read":
            tensor = node.data[0]
            if tensor.definition is not None:
                raise UnsupportedError(f"an element depends on {tensor.name}, which is computed from others of its kind")
            found.setdefault(tensor, {})[node.args[: len(tensor.sizes)]] = None
    return {t.name: Reads(t, tuple(indices)) for t, indices in found.items()}


def ranges_of(nest: Nest, window: Window) -> dict[Variable, range]:
    """The values of every index variable for the elements of a window."""
    ranges = {v: range(w.start, w.stop) for v, w in zip(nest.variables, window, strict=True)}
    return ranges | {v: range(v.size) for node in walk(nest.body) for v in bound_by(node)}


def needed(reads: Reads, ranges: Ranges, ends: Sequence[NDArray[np.int64]]) -> Needed:
    """The part of an input that is read for variables in ranges. ends: where its blocks end, in each dimension."""
    sizes = reads.tensor.sizes
    found = [nothing(n) for n in sizes]
    highest = [n - 1 for n in sizes]
    complete = True
    for index in reads.indices:
        each = [reached(e, ranges, n, end) for e, n, end in zip(index, sizes, ends, strict=True)]
        if any(r.empty for r in each):  # an index that is always outside reads nothing along other dimensions, either
            highest = [max(h, r.highest) for h, r in zip(highest, each, strict=True)]
            complete = False
            continue
        found = [r | s for r, s in zip(found, each, strict=True)]
    if not found[0].empty:
        window, blocks = zip(*((slice(r.first, r.last + 1), tuple(sorted(r.blocks))) for r in found), strict=True)
        return Needed(window, blocks, complete=complete)
    return Needed(tuple(slice(0, 0) for _ in sizes), tuple(() for _ in sizes), tuple(h + 1 for h in highest), False)


def ends_of(chunks: Chunks) -> list[NDArray[np.int64]]:
    """The ends of the chunks in each dimension."""
    return [np.cumsum(c, dtype=np.int64) for c in chunks]


def windows_of(chunks: Sequence[int]) -> list[slice]:
    """The chunks along a dimension as slices."""
    ends = np.cumsum(chunks).tolist()
    return [slice(end - n, end) for n, end in zip(chunks, ends, strict=True)]


def rows_of(nest: Nest, reads: Mapping[str, Reads]) -> frozenset[Variable]:
    """The output's variables along which an element depends on a row that is the same for all: those of a softmax's axes.

    A row is computed whole: its elements have more in common than what they read.
    """
    found = set()
    conditions = [node.args[1] for node in walk(nest.body) if bound_by(node) and len(node.args) > 1 and node.op != "rank"]
    for condition in conditions:  # a sum so far
        below = {node.data for node in walk(condition) if node.op == "variable"}
        rows = {node.data for node in walk(condition) if node.op == "variable" and _is_row(node, reads)}
        found |= (below & set(nest.variables)) if rows else set()
    for read in reads.values():
        for d in range(len(read.tensor.sizes)):
            at = [index[d] for index in read.indices]
            if any(_is_row(e, reads) and e.data not in nest.variables for e in at):
                found |= {e.data for e in at if e.op == "variable" and e.data in nest.variables}
    return frozenset(found)


def _is_row(e: Expr, reads: Mapping[str, Reads]) -> bool:
    """Whether an index is a variable that runs over a whole dimension of an input."""
    if e.op != "variable":
        return False
    return any(
        e is at and e.data.size == n
        for read in reads.values()
        for index in read.indices
        for at, n in zip(index, read.tensor.sizes, strict=True)
    )


def natural_chunks(nest: Nest, reads: Mapping[str, Reads], chunks: Mapping[str, Chunks]) -> Chunks:
    """Chunks of an output that follow those of its inputs: a chunk begins where the first element that is read is in another.

    chunks: of the inputs, by name; an input without is not considered.
    """
    rows = rows_of(nest, reads)
    return tuple([(v.size,) if v in rows else along(v, reads, chunks) for v in nest.variables])


def along(v: Variable, reads: Mapping[str, Reads], chunks: Mapping[str, Chunks]) -> tuple[int, ...]:
    best: NDArray[np.int64] | None = None
    for name, found in reads.items():
        if name not in chunks:
            continue
        for index in found.indices:
            for e, n, sizes in zip(index, found.tensor.sizes, chunks[name], strict=True):
                if len(sizes) == 1 or (at := value_along(e, v)) is None or (v.size > 1 and at.min() == at.max()):
                    continue
                blocks = np.searchsorted(np.cumsum(sizes), at, side="right")
                blocks[(at < 0) | (at >= n)] = -1
                if best is None:
                    best = blocks
        if best is not None:
            break
    if best is None:
        return (v.size,)
    inside = best >= 0  # what is outside belongs to its neighbour
    if not inside.any():
        return (v.size,)
    place = np.maximum.accumulate(np.where(inside, np.arange(v.size), -1))
    place[place < 0] = int(np.argmax(inside))
    best = best[place]
    starts = np.flatnonzero(np.diff(best)) + 1
    bounds = [0, *starts.tolist(), v.size]
    return tuple(b - a for a, b in pairwise(bounds))


def nest_of(desc: Desc, output: str) -> Nest:
    """The nest of an output of an operator's newest desc."""
    return meaning(desc)[output]


def sizes_of(window: Window) -> Sizes:
    """The sizes of a window."""
    return tuple(w.stop - w.start for w in window)


def whole(sizes: Sizes) -> Chunks:
    """One chunk along each dimension."""
    return tuple((n,) for n in sizes)
