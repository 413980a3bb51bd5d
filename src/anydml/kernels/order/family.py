"""The first elements of sorted lines and their positions, and lists of nonzero elements, by machine code."""

from __future__ import annotations

from itertools import accumulate
from math import prod

from anydml.kernels.call.rounds import in_rounds, shares
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.irregular.loops import Loop, described, merged
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.nonzeros import Nonzeros, nonzeros
from anydml.kernels.match.ranked import Ranked, ranked
from anydml.kernels.matched import lowers
from anydml.kernels.order import emit, listing, tuning
from anydml.kernels.problem import Problem
from anydml.schema.statement import Statement

MOST = 1 << 31  # elements of a line at most: counts and positions have 32 bits


def _pattern(statement: Statement) -> Ranked | Nonzeros | str:
    listed = nonzeros(statement)
    return ranked(statement) if isinstance(listed, str) else listed


@lowers(_pattern)
def lower(found: object, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """A step for each thread, which loops over lines."""
    if isinstance(found, Nonzeros):
        if problem.tensors[found.source].data_type.element_bits < 8:
            return Refused("elements are not whole bytes")
        return listing.lowered(found, target, problem.tensors)
    assert isinstance(found, Ranked)
    n, k = found.source.sizes[found.axis], found.sizes[found.axis]
    if n >= MOST:
        return Refused("positions take more than 32 bits")
    tensors = [None if name is None else problem.tensors[name] for name in (found.source.name, found.values, found.positions)]
    if any(t is not None and t.data_type.element_bits < 8 for t in tensors):
        return Refused("elements are not whole bytes")
    strides = [
        (0,) * len(found.sizes) if t is None else tuple([s * t.data_type.dtype.itemsize for s in t.explicit_strides])
        for t in tensors
    ]
    along = [each[found.axis] for each in strides]
    data_type, positions = found.source.data_type, tensors[2]
    kernel_key = emit.OrderKey(
        data_type,
        None if positions is None else positions.data_type,
        found.values is not None,
        found.decreasing,
        False,
        along[0] == data_type.dtype.itemsize,
    )
    groups = emit.groups(k, target, kernel_key)
    kernel_key = kernel_key._replace(selects=emit.selects(n, groups))
    code = engine.compiled(emit.emitted, target, kernel_key)
    others = [Loop(m, tuple([each[d] for each in strides])) for d, m in enumerate(found.sizes) if d != found.axis]
    loops = merged(sorted(others, key=_stride, reverse=True)) or [Loop(1, (0, 0, 0))]
    elements = n * prod(loop.turns for loop in loops)
    sizes = emit.scratch(n, groups, kernel_key)
    outer, *inner = loops
    names = found.source.name, found.values, found.positions
    threads = min(machine.threads if elements >= tuning.TUNING.alone else 1, outer.turns)

    def pieces(begin: int, behind: int) -> list[list[Step]]:
        made = []
        for at, (first, end) in enumerate(shares(begin, behind, threads)):
            part = [Loop(end - first, outer.strides), *inner]
            starts = (At("scratch", at * sum(sizes) + offset) for offset in accumulate(sizes[:-1], initial=0))
            values: Arguments = dict(zip(emit.MEMORY, starts, strict=True))
            for side, name, stride, step in zip(("source", "values", "positions"), names, outer.strides, along, strict=True):
                values |= {side: 0 if name is None else At(name, first * stride), f"{side}_step": step}
            made.append([emit.ORDER.step(code, *described(part, 3), **values, n=n, k=k, groups=groups)])
        return made

    most = max(1, tuning.TUNING.budget * outer.turns // elements) * threads
    rounds = in_rounds(outer.turns, most, pieces)
    return Lowered(target, rounds, scratch=sum(sizes) * threads, short=elements < tuning.TUNING.short)


def _stride(loop: Loop) -> int:
    return loop.strides[0]
