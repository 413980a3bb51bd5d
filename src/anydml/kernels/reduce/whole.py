"""Statements in stages: extremes of whole inputs, found by all threads, and maps that read these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from anydml.fork_safety import guard
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.elementwise.family import mapped
from anydml.kernels.elementwise.geometry import MapDimension, merged
from anydml.kernels.elementwise.runs import LINE, Run, TensorStart, in_order
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.maps import Stream
from anydml.kernels.match.normal_form import Nodes
from anydml.kernels.match.rows import Rows
from anydml.kernels.match.staged import staged
from anydml.kernels.problem import Problem
from anydml.kernels.reduce import emit, tuning
from anydml.kernels.reduce.key import row_arguments, signature
from anydml.kernels.reduce.layout import shape_of
from anydml.schema.expression import Tensor
from anydml.tensor import DataType, TensorDesc

PARTIAL = "partial extremes"


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps for the stages of a statement."""
    statement = problem.statement
    found = staged(statement)
    if isinstance(found, str):
        return Refused(found)
    if problem.promises.in_place:
        return Refused("an output that others come after may lie in an input's place")
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    if any(t.data_type.element_bits < 8 for t in problem.tensors.values()):
        return Refused("elements are of four bits")
    places = {name: TensorStart(At(name), t) for name, t in problem.tensors.items()}
    places |= {t.name: _kept(t) for t in found.inner}
    runs, shares = _extremes(found.extremes, found.inner[0], places, target, machine.threads)
    for m in found.maps:
        run = mapped(m, places, target, machine.threads)
        if isinstance(run, Refused):
            return run
        runs.append(run)
    inner = {t.name: places[t.name].tensor.total for t in found.inner}
    inner[PARTIAL] = shares * inner[found.inner[0].name]
    size = max(prod(t.sizes) for t in problem.tensors.values())
    return in_order(target, runs, inner, short=size < tuning.TUNING.short)


def _kept(t: Tensor) -> TensorStart:
    return TensorStart(At(t.name), TensorDesc(t.data_type, t.sizes))


def _extremes(
    r: Rows, result: Tensor, places: Mapping[str, TensorStart], target: Target, threads: int
) -> tuple[list[Run], int]:
    """The runs that find extremes, and the number of shares: first the extremes of each share, then those of all."""
    placed = [places[str(s.name)].of(s) for s in r.streams]
    types = (*(s.data_type for s in r.streams), result.data_type)
    # the order of elements, and reading one twice, make no difference
    dims = [MapDimension(n, (*(s[d] for _, s in placed), 0)) for d, n in enumerate(r.reduced)]
    dims = [d for d in dims if any(d.strides)]
    dims.sort(key=lambda d: sum(map(abs, d.strides)), reverse=True)
    dims = merged(dims) or [MapDimension(1, (0,) * len(types))]
    bases = [base for base, _ in placed]
    cut = max(range(len(dims)), key=lambda d: dims[d].size)
    shares = min(threads if prod(d.size for d in dims) >= tuning.TUNING.alone_whole else 1, dims[cut].size)
    if shares == 1:
        return [_found(r, types, target, [(bases, dims)], [places[result.name].base])], 1
    partial = _kept(Tensor(PARTIAL, (shares, *result.sizes), result.data_type))
    width = len(r.formula[-1].args) * result.data_type.dtype.itemsize
    first = _found(r, types, target, list(_shares(bases, dims, cut, shares)), [partial.base + k * width for k in range(shares)])
    again = _again(r, partial.tensor)
    placed = [partial.of(s) for s in again.streams]
    dims = [MapDimension(shares, (*(s[0] for _, s in placed), 0))]
    bases = [base for base, _ in placed]
    types = (*(s.data_type for s in again.streams), result.data_type)
    return [first, _found(again, types, target, [(bases, dims)], [places[result.name].base])], shares


def _shares(
    bases: Sequence[At], dims: Sequence[MapDimension], cut: int, count: int
) -> Iterator[tuple[list[At], list[MapDimension]]]:
    """The elements in `count` boxes, cut across one dimension."""
    d = dims[cut]
    for first, end in pairwise(d.size * k // count for k in range(count + 1)):
        moved = [base + first * stride for base, stride in zip(bases, d.strides, strict=False)]
        yield moved, [*dims[:cut], MapDimension(end - first, d.strides), *dims[cut + 1 :]]


def _again(r: Rows, partial: TensorDesc) -> Rows:
    """The rows that reduce the extremes of all shares."""
    nodes = Nodes()
    roots = []
    for k, place in enumerate(r.formula[-1].args):
        read = nodes.stream(Stream(PARTIAL, partial.data_type, (0, k), ((1, 0),)), partial.data_type)
        roots.append(nodes.add(r.formula[place].op, (read,), r.formula[place].data))
    return r._replace(reduced=partial.sizes[:1], streams=tuple(nodes.streams), formula=nodes.ended(*roots, op="several"))


def _found(
    r: Rows,
    types: tuple[DataType, ...],
    target: Target,
    boxes: Sequence[tuple[Sequence[At], Sequence[MapDimension]]],
    results: Sequence[At],
) -> Run:
    """A run with a row for each box of elements, by the same kernel."""
    *around, row = max((dims for _, dims in boxes), key=lambda dims: prod(d.size for d in dims))
    key = shape_of(target, r, types, row, [], around)
    with guard:
        code = engine.compiled(emit.emitted, target, key)
    pieces = []
    for k, ((bases, dims), result) in enumerate(zip(boxes, results, strict=True)):
        *around, row = dims
        state = At("scratch", LINE * k)  # no element is undecided: there is neither a list nor anything that is kept
        lists = Arguments(state=state, list=state, memory=state, room=2, first=0, rows=1, between=1)
        places = {f"p{k}": base for k, base in enumerate((*bases, result))}
        pieces.append([signature(key).step(code, **lists, **places, **row_arguments(row, around))])
    return Run([pieces], LINE * len(pieces))
