"""Rows by machine code: elements that are sums, extremes or places of rows, or that these map back to; correctly rounded."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from anydml.forks import guard
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.elementwise.geometry import Dimension, merged
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, PLACE, POSITION, STRIDED
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.maps import Stream
from anydml.kernels.match.rows import Rows, rows
from anydml.kernels.reduce import emit, softmax
from anydml.kernels.reduce.shape import Shape, same_along
from anydml.kernels.reduce.stages import stages
from anydml.kernels.reduce.staging import pitch, together
from anydml.kernels.reduce.undecided import STATE_WORDS, deciding, words
from anydml.schema.check import Checked
from anydml.schema.statement import Statement
from anydml.tensor import TensorDesc

SHORT = 1 << 14  # elements below which other threads can wait
ALONE = 1 << 15  # elements below which one thread computes
ROOM = 1 << 10  # elements on the list of a piece
KEPT = 1 << 15  # elements of a row up to which values are kept from one pass to the next
STAGED = 1 << 22  # bytes of rows that are copied to memory at once, at most
LONGEST = 1 << 20  # elements of a row; of longer ones, sums would have no bounds of use


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """Steps for the statement of a reduction."""
    r = rows(statement)
    if isinstance(r, str):
        return Refused(r)
    r = r._replace(formula=softmax.with_rests(r.formula))
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    output = checked.tensors[r.output]
    types = (*(s.data_type for s in r.streams), output.data_type)
    if any(t.element_bits < 8 for t in types):
        return Refused("elements are of four bits")
    placed = [_placed(s, checked) for s in (*r.streams, r.result)]
    strides = [s for _, s in placed]
    sizes = (*r.kept, *r.reduced)
    dims = [Dimension(n, tuple(s[d] for s in strides)) for d, n in enumerate(sizes)]
    outer, inner = merged(dims[: len(r.kept)]), merged(dims[len(r.kept) :])
    *around, row = inner or [Dimension(1, tuple(0 for _ in strides))]
    lines = prod(d.size for d in around)
    if lines * row.size > LONGEST:
        return Refused(f"rows are longer than {LONGEST} elements")
    shape = _shape(target, r, types, row, outer, around)
    with guard:
        code = engine.compiled(emit.emitted, target, shape)
    kept = (row.size + 2 * shape.lanes) * lines * _keeps(shape) + 8
    room = min(ROOM, 2 * prod(r.kept) * (lines * row.size if r.mapped else 1)) + 2
    own = [pitch(row.size, types[k].dtype.itemsize) for k in shape.staged]
    kept = -(-kept // 8) * 8
    size = words(room, kept + sum(own) * shape.together // 8)
    count = prod(d.size for d in outer)
    pieces: list[list[Step]] = []
    shares = min(machine.threads if count * lines * row.size >= ALONE else 1, count)
    for first, end in pairwise(count * k // shares for k in range(shares + 1)):
        scratch = At("scratch", 8 * size * len(pieces))
        memory = scratch + 8 * (-(-(STATE_WORDS + 2 * (room + 1)) // 8) * 8)
        numbers: list[At | int] = [scratch, scratch + 8 * STATE_WORDS, memory, room, first, end - first, row.size]
        numbers += [base for base, _ in placed]
        numbers += row.strides
        for d in outer:
            numbers += [d.size, *d.strides]
        if around:
            numbers.append(lines)
        for d in around:
            numbers += [d.size, *d.strides]
        staged = memory + 8 * kept
        for bytes_ in own:
            numbers += [staged, bytes_]
            staged += bytes_ * shape.together
        pieces.append([Step(code, tuple(numbers))])
    (nest,) = statement.values()
    return Lowered(
        target,
        [Rounds([pieces])],
        scratch=8 * size * len(pieces),
        short=count * lines * row.size < SHORT,
        decide=deciding(r, nest, output.data_type, len(pieces), size),
    )


def _keeps(shape: Shape) -> int:
    """The nodes whose values are kept for a whole row."""
    return len(stages(shape.formula, same_along(shape), mapped=shape.mapped).kept) if shape.keeps else 0


def _shape(
    target: Target, r: Rows, types: tuple[Any, ...], row: Dimension, outer: list[Dimension], around: list[Dimension]
) -> Shape:
    moves = [any(d.strides[k] for d in (*around, row)) for k in range(len(types))]
    lies = tuple(
        (POSITION if moves[k] else PLACE)
        if k < len(r.streams) and r.streams[k].name is None
        else CONSTANT
        if not moves[k] and k < len(r.streams)
        else CONTIGUOUS
        if row.strides[k] == t.dtype.itemsize or (row.size == 1 and k == len(r.streams))
        else STRIDED
        for k, t in enumerate(types)
    )
    lines = prod(d.size for d in around)
    staged, rows_together = _staged(target, r, types, row, outer) if lines == 1 else ((), 1)
    lies = tuple(CONTIGUOUS if k in staged else x for k, x in enumerate(lies))
    lanes = target.vector_bytes // 4
    most = _power_of_two(lines * row.size)
    additions = _power_of_two(lines * (-(-row.size // lanes) + 1))
    keeps = lines * (row.size + 2 * lanes) <= 2 * KEPT
    return Shape(
        r.formula, r.mapped, r.integral, types, lies, len(outer), lanes, 4, most, additions, len(around), keeps,
        staged, rows_together,
    )  # fmt: skip


def _staged(
    target: Target, r: Rows, types: tuple[Any, ...], row: Dimension, outer: list[Dimension]
) -> tuple[tuple[int, ...], int]:
    """The streams whose rows lie side by side, element by element, and how many rows are copied to memory at once."""
    sizes = [t.dtype.itemsize for t in types]
    found = [
        k
        for k, size in enumerate(sizes)
        if (r.streams[k].name is not None if k < len(r.streams) else r.mapped)
        and outer
        and outer[-1].strides[k] == size
        and abs(row.strides[k]) > size
        and row.size * size >= target.vector_bytes
        and outer[-1].size * size >= target.vector_bytes
    ]
    if not found:
        return (), 1
    rows_together = together([sizes[k] for k in found])
    if sum(pitch(row.size, sizes[k]) for k in found) * rows_together > STAGED:
        return (), 1
    return tuple(found), rows_together


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def _placed(s: Stream, checked: Checked[Any]) -> tuple[At | int, list[int]]:
    """Where a stream begins, and its strides in bytes along the dimensions; positions count one by one."""
    if s.name is None:
        return s.start[0], [step[0] for step in s.steps]
    t: TensorDesc = checked.tensors[s.name]
    itemsize = t.data_type.dtype.itemsize
    base = At(s.name, sum(i * stride for i, stride in zip(s.start, t.explicit_strides, strict=True)) * itemsize)
    return base, [sum(a * b for a, b in zip(step, t.explicit_strides, strict=True)) * itemsize for step in s.steps]
