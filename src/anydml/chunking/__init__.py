"""Chunks of an operator's output, each computed alone from windows of the inputs, with the bits of the whole.

What a chunk reads follows from the operator's statement, for every operator in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.part import Chunk
from anydml.chunking.windows import (
    Chunks,
    Reads,
    Window,
    ends_of,
    needed,
    ranges_of,
    reads_of,
    rows_of,
    sizes_of,
    whole,
    windows_of,
)
from anydml.errors import BindingError, Fault, UnsupportedError
from anydml.rule_messages import listed
from anydml.schema.check import Checked, check
from anydml.schema.desc import Desc
from anydml.schema.node import Variable
from anydml.schema.statement import Nest, meaning

Ends = Mapping[str, Sequence[NDArray[np.int64]]]


class Piece(NamedTuple):
    """One chunk of an output.

    chunk: computes it, when it is called with the windows of the inputs by name. inputs: the window of each input that is read,
    as slices; empty ones if all that the chunk reads lies outside of the input. output: the chunk, as slices of the output.
    """

    chunk: Chunk
    inputs: Mapping[str, Window]
    output: Window


def chunks(
    desc: Desc | Checked[Desc],
    chunks: Sequence[int | Sequence[int]] | None = None,
    *,
    output: str | None = None,
    max_memory: int | None = None,
) -> Iterator[Piece]:
    """The chunks of an operator's output: for each, what computes it, the windows of the inputs, and its window of the output.

    chunks: for each dimension of the output the size of its chunks, of which the last may be smaller, or the sizes of all.
    max_memory: instead of chunks, the bytes that a chunk and its windows may have together. output: the output's name, if the
    operator has several. Nothing is computed. A chunk can be pickled and called in another process; its bits are those of the
    whole call.
    DescError if the desc breaks rules; BindingError for chunks that do not add up to the output's sizes, and if one element
    takes more than max_memory; UnsupportedError for an operator that computes elements from others, such as LSTM, for random
    bits, and for elements of 4 bits.
    """
    checked = desc if isinstance(desc, Checked) else check(desc)
    newest = checked.desc.as_newest()
    names = list(meaning(newest))
    if output is None and len(names) > 1:
        raise BindingError([Fault("output", f"output must be given: {listed(names)}")])
    name = names[0] if output is None else output
    if name not in names:
        raise BindingError([Fault("output", f"output is {name!r}, and may be {listed(names)}")])
    if any(found.desc.data_type.element_bits < 8 for found in newest.tensors()):
        raise UnsupportedError(f"{newest.spec.name.lower()}: chunks of elements of 4 bits are not computed alone")
    sizes = meaning(newest)[name].sizes
    reads_of(meaning(newest)[name])  # UnsupportedError now, not at the first chunk
    if (chunks is None) == (max_memory is None):
        raise BindingError([Fault("chunks", "chunks or max_memory must be given, and not both")])
    if chunks is None:
        return pieces(newest, name, _fitting(newest, name, max_memory or 0))
    return pieces(newest, name, spelled_chunks(chunks, sizes))


def _fitting(desc: Desc, output: str, most: int) -> Chunks:
    """The largest chunks, halved from the first dimension on, that take at most so many bytes with their windows."""
    items = {found.name: found.desc.data_type.dtype.itemsize for found in desc.tensors()}
    nest = meaning(desc)[output]
    whole_rows = rows_of(nest, reads_of(nest))
    sizes = list(nest.sizes)
    while True:
        made = spelled_chunks(sizes, nest.sizes)

        def taken(one: Piece) -> int:
            windows = sum(prod(sizes_of(w)) * items[name] for name, w in one.inputs.items())
            return windows + prod(sizes_of(one.chunk.computed)) * items[output]

        if all(taken(one) <= most for one in pieces(desc, output, made)):
            return made
        at = next((d for d, v in enumerate(nest.variables) if sizes[d] > 1 and v not in whole_rows), None)
        if at is None:
            text = f"max_memory is {most}, and a chunk of sizes {tuple(sizes)} takes more with its windows"
            raise BindingError([Fault("max_memory", text)])
        sizes[at] = -(-sizes[at] // 2)


def spelled_chunks(given: Sequence[int | Sequence[int]], sizes: Sequence[int]) -> Chunks:
    """The sizes of all chunks along each dimension; BindingError if they do not add up to the dimension's size."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) != len(sizes):
        raise BindingError([Fault("chunks", f"chunks is {given!r}, and takes an entry for each of {len(sizes)} dimensions")])
    made = []
    for i, (entry, n) in enumerate(zip(given, sizes, strict=True)):
        if isinstance(entry, (int, np.integer)):
            if entry < 1:
                raise BindingError([Fault("chunks", f"chunks[{i}] is {entry}, and a chunk has at least one element")])
            each = [int(entry)] * (n // int(entry)) + ([n % int(entry)] if n % int(entry) else [])
        else:
            each = [int(m) for m in entry]
        if sum(each) != n or min(each, default=0) < 1:
            raise BindingError([Fault("chunks", f"chunks[{i}] is {entry!r}, whose sizes must be at least 1 and add up to {n}")])
        made.append(tuple(each))
    return tuple(made)


def pieces(desc: Desc, output: str, chunks: Chunks) -> Iterator[Piece]:
    """The chunks of an output of an operator's newest desc, in row-major order."""
    nest = meaning(desc)[output]
    reads = reads_of(nest)
    ends = {name: ends_of(whole(found.tensor.sizes)) for name, found in reads.items()}
    rows = rows_of(nest, reads)
    for window in product(*map(windows_of, chunks)):
        yield piece(desc, output, window, nest, reads, rows, ends)


def piece(
    desc: Desc, output: str, window: Window, nest: Nest, reads: Mapping[str, Reads], rows: Collection[Variable], ends: Ends
) -> Piece:
    """One chunk of an output. ends: where the blocks of the inputs end. The other arguments follow from desc and output."""
    computed = tuple(slice(0, v.size) if v in rows else w for v, w in zip(nest.variables, window, strict=True))
    ranges = ranges_of(nest, computed)
    made = Chunk(desc, output, window, {name: needed(read, ranges, ends[name]) for name, read in reads.items()}, computed)
    return Piece(made, made.inputs, window)


__all__ = ["Chunk", "Piece", "chunks"]
