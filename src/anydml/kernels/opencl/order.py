"""Order on OpenCL devices: the first elements of sorted lines and their positions, and lists of nonzero elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.irregular.loops import Loop, merged
from anydml.kernels.kernel import Built, DeviceCall, DeviceMemory, Machine, Refused
from anydml.kernels.match.nonzeros import Nonzeros, nonzeros
from anydml.kernels.match.ranked import Ranked, ranked
from anydml.kernels.opencl.calls import ExactCall, Launch, Workspace, unbound
from anydml.kernels.order.keys import keys
from anydml.kernels.problem import Problem
from anydml.tensor import DataType, TensorDesc

SHORT = 128  # elements up to which the place of each in its line is counted
MOST = 1 << 31  # elements of a line
AT_ONCE = 1 << 25  # elements that are sorted at once, if they are not one line
BLOCK = 256  # counts that a work item adds up
LEAST, PIECES = 64, 1 << 14  # elements of a chunk, at least; chunks, if these are longer
RADIX, DIGIT = 16, 4
UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}


class LinesKey(NamedTuple):
    """The data types; None for an absent output. dims: the dimensions of lines."""

    element: DataType
    positions: DataType | None
    values: bool
    decreasing: bool
    dims: int


class ListKey(NamedTuple):
    """The data types, the dimensions of the source, and the number of coordinates of an element."""

    element: DataType
    total: DataType
    coordinates: DataType
    dims: int
    columns: int


def lower(problem: Problem, machine: Machine) -> Built | Refused:
    """Sorted lines or a list, which leave nothing undecided."""
    tensors = problem.tensors
    listed = nonzeros(problem.statement)
    if not isinstance(listed, str):
        if tensors[listed.source].data_type.element_bits < 8:
            return Refused("elements are not whole bytes")
        if prod(tensors[listed.source].sizes) >= MOST:
            return Refused("there are too many elements")
        return Built(unbound, on_device=partial(_listed, listed, tensors))
    found = ranked(problem.statement)
    if isinstance(found, str):
        return Refused(found)
    if found.source.sizes[found.axis] >= MOST:
        return Refused("positions take more than 32 bits")
    if found.source.data_type.element_bits < 8:
        return Refused("elements are not whole bytes")
    return Built(unbound, on_device=partial(_ranked, found, tensors))


# --- sums of counts ---


class RunningSums(NamedTuple):
    """The levels of exclusive sums: where in scratch, in bytes, the counts of each begin, and their number."""

    starts: Sequence[int]
    counts: Sequence[int]
    past: int

    def launches(self, text: str, workspace: Workspace) -> list[Launch]:
        """The kernels that replace counts by the sums of those before them."""
        parts = [workspace.part(start, 4 * n) for start, n in zip(self.starts, self.counts, strict=True)]
        made, levels = list[Launch](), len(parts)
        for level in range(levels - 1):
            size, up = np.int64(self.counts[level]), self.counts[level + 1]
            made.append(Launch(text, "summed", [parts[level], parts[level + 1], size], up, BLOCK))
        for level in reversed(range(levels)):
            up = self.counts[level + 1] if level + 1 < levels else 1
            above = parts[min(level + 1, levels - 1)]
            made.append(Launch(text, "spread", [parts[level], above, np.int64(up), np.int64(self.counts[level])], up, BLOCK))
        return made


def sums(start: int, count: int) -> RunningSums:
    """The levels of sums of so many counts, in scratch from a byte on."""
    starts, counts = [start], [count]
    past = start + _whole(4 * count)
    while counts[-1] > BLOCK:
        starts.append(past)
        counts.append(-(-counts[-1] // BLOCK))
        past += _whole(4 * counts[-1])
    return RunningSums(starts, counts, past)


def chunk_of(n: int, lines: int) -> int:
    """The elements of a chunk: so many that there are chunks enough for all work items, and not too many counts."""
    return min(n, max(LEAST, -(-n * lines // PIECES)))


def _whole(nbytes: int) -> int:
    """The bytes after which other memory may begin on any device."""
    return -(-nbytes // 4096) * 4096


def shape_of(workspace: Workspace, rows: Sequence[Sequence[int]]) -> Any:
    """Sizes and strides in memory of the device."""
    array = np.array(rows or [[0]], np.int64).ravel()
    memory = workspace.opened.allocate(array.nbytes)
    workspace.opened.write(memory, array)
    return memory


@lru_cache(maxsize=64)
def program(key: LinesKey | ListKey) -> str:
    """The program of sorted lines, or of a list."""
    lines = [f"#define BLOCK {BLOCK}", f"#define ELEMENT {UNSIGNED[key.element.element_bits]}", f"#define DIMS {key.dims}"]
    functions = []
    if isinstance(key, LinesKey):
        body, kind = Body(opencl.target()), Kind(f"i{key.element.element_bits}")
        wide = Kind(f"i{max(32, kind.bits)}")
        made = keys(Value(body, "%bits", kind), key.element, decreasing=key.decreasing).converted("zext", wide)
        functions.append(opencl.function("key_of", [Argument(kind.element, "bits")], body, made))
        lines += ["#define RANKED", f"#define KEY {UNSIGNED[wide.bits]}"]
        lines += ["#define VALUES"] if key.values else []
        lines += [] if key.positions is None else [f"#define POSITION {UNSIGNED[key.positions.element_bits]}"]
    else:
        lines += ["#define LISTED", f"#define SIGNED_ZEROS {int(key.element.is_float)}", f"#define COLUMNS {key.columns}"]
        lines += [f"#define TOTAL {UNSIGNED[key.total.element_bits]}"]
        lines += [f"#define COORDINATE {UNSIGNED[key.coordinates.element_bits]}"]
    own = Path(__file__).with_name("order.cl").read_text()
    return opencl.program([*functions, "\n".join(lines), "", own])


# --- sorted lines ---


def _ranked(
    found: Ranked, tensors: Mapping[str, TensorDesc], workspace: Workspace, memory: Mapping[str, DeviceMemory]
) -> Sequence[DeviceCall]:
    n, k = found.source.sizes[found.axis], found.sizes[found.axis]
    names = (found.source.name, found.values, found.positions)
    given = [None if name is None else tensors[name] for name in names]
    itemsizes = [0 if t is None else t.data_type.dtype.itemsize for t in given]
    strides = [
        (0,) * len(found.sizes) if t is None else tuple([s * size for s in t.explicit_strides])
        for t, size in zip(given, itemsizes, strict=True)
    ]
    loops = merged([Loop(m, tuple([s[d] for s in strides])) for d, m in enumerate(found.sizes) if d != found.axis])
    lines = prod(loop.turns for loop in loops)
    positions = given[2]
    key = LinesKey(
        found.source.data_type,
        None if positions is None else positions.data_type,
        found.values is not None,
        found.decreasing,
        len(loops),
    )
    text = program(key)
    steps = [np.int64(s[found.axis]) for s in strides]
    absent = memory[found.source.name]  # of the arguments for an absent output
    places = [absent._replace(offset=0) if name is None else memory[name] for name in names]
    ends = [x for place in places for x in (place.data, np.int64(place.offset))]
    shape = shape_of(workspace, [(loop.turns, *loop.strides) for loop in loops])
    if n <= SHORT:
        whole = [*ends, shape, *steps, np.int64(n), np.int64(k)]
        return [ExactCall(workspace, lambda: [Launch(text, "placed", whole, lines * n, 4 * n)])]
    together = max(1, min(lines, AT_ONCE // n))
    chunk = chunk_of(n, together)
    chunks = -(-n // chunk)
    wide = max(32, key.element.element_bits) // 8
    starts = [0]
    for size in (wide, wide, 4, 4):
        starts.append(starts[-1] + _whole(size * together * n))
    levels = sums(starts[-1], together * RADIX * chunks)
    workspace.needs(levels.past)

    def launches() -> list[Launch]:
        one, two = workspace.part(starts[0], wide * together * n), workspace.part(starts[1], wide * together * n)
        three, four = (workspace.part(start, 4 * together * n) for start in starts[2:4])
        made = list[Launch]()
        for begin in range(0, lines, together):
            count = min(together, lines - begin)
            own = sums(starts[-1], count * RADIX * chunks)
            counts = workspace.part(starts[-1], 4 * count * RADIX * chunks)
            held, other = (one, three), (two, four)
            source = [*ends[:2], shape, steps[0], np.int64(n), np.int64(begin)]
            made.append(Launch(text, "keyed", [*source, *held], count * n, 8))
            cut = [np.int64(n), np.int64(chunk), np.int64(chunks)]
            for shift in range(0, key.element.element_bits, DIGIT):
                made.append(Launch(text, "counted", [held[0], counts, *cut, np.int32(shift)], count * chunks, 4 * chunk))
                made += own.launches(text, workspace)
                moved = [*held, *other, counts, *cut, np.int32(shift)]
                made.append(Launch(text, "ordered", moved, count * chunks, 8 * chunk))
                held, other = other, held
            results = [*ends, shape, *steps, np.int64(n), np.int64(k), np.int64(begin), held[1]]
            made.append(Launch(text, "results", results, count * k, 8))
        return made

    return [ExactCall(workspace, launches)]


# --- lists ---


def _listed(
    found: Nonzeros, tensors: Mapping[str, TensorDesc], workspace: Workspace, memory: Mapping[str, DeviceMemory]
) -> Sequence[DeviceCall]:
    source, total, coordinates = (tensors[name] for name in (found.source, found.total, found.coordinates))
    itemsize, size = source.data_type.dtype.itemsize, coordinates.data_type.dtype.itemsize
    key = ListKey(source.data_type, total.data_type, coordinates.data_type, len(source.sizes), found.columns)
    text, n = program(key), prod(source.sizes)
    chunk = chunk_of(n, 1)
    chunks = -(-n // chunk)
    levels = sums(0, chunks + 1)
    workspace.needs(levels.past)
    rows = [(m, s * itemsize) for m, s in zip(source.sizes, source.explicit_strides, strict=True)]
    shape = shape_of(workspace, rows)
    steps = [np.int64(s * size) for s in coordinates.explicit_strides[-2:]]

    def launches() -> list[Launch]:
        counts = workspace.part(0, 4 * (chunks + 1))
        at = [memory[found.source].data, np.int64(memory[found.source].offset), shape, counts]
        cut = [np.int64(n), np.int64(chunk)]
        out = [x for name in (found.total, found.coordinates) for x in (memory[name].data, np.int64(memory[name].offset))]
        return [
            Launch(text, "nonzeros", [*at, *cut], chunks + 1, 8 * chunk),
            *levels.launches(text, workspace),
            Launch(text, "listed", [*at, *cut, np.int64(chunks), *out, *steps], chunks, 16 * chunk),
        ]

    return [ExactCall(workspace, launches)]
