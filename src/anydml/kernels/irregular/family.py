"""The compiled family of gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import mul

from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.strided import strided
from anydml.kernels.irregular import emit, reversing, tuning
from anydml.kernels.irregular.loops import OUTER, Loop, described, merged, parts, rounds
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.displaced import Displaced, DisplacedElement, Named, displaced
from anydml.kernels.match.reversed import ReversedLines, reversed_lines
from anydml.kernels.matched import lowers
from anydml.kernels.problem import Problem
from anydml.schema.statement import Statement
from anydml.tensor import TensorDesc

ROW = 16  # bytes from which a row is moved as a whole
PLACES = 3  # addresses of an element: in the source, in the target and among the indices


def _pattern(statement: Statement) -> Displaced | ReversedLines | str:
    lines = reversed_lines(statement)
    return displaced(statement) if isinstance(lines, str) else lines


@lowers(_pattern)
def lower(found: object, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """The phases: a check of every index, for a scatter the elements under the updates, and the moves by index."""
    if isinstance(found, ReversedLines):
        return reversing.lowered(found, target, problem.tensors, machine.threads)
    assert isinstance(found, Displaced)
    if found.indices.tensor not in problem.promises.ruled:
        return Refused("no data rule says that indices are in range")
    tensors = problem.tensors
    if tensors[found.target.tensor].data_type.element_bits < 8:
        return Refused("elements are not whole bytes")
    (name,) = problem.statement
    size = tensors[name].element_bytes
    threads = machine.threads if size >= tuning.TUNING.alone else 1
    phases: list[Sequence[Sequence[Step | Repeat]]] = [[_checks(target, found, tensors)]]
    scratch, constants = 0, None
    if found.before:
        made = strided(target, found.before, tensors, threads=threads, short=False)
        phases += made.rounds[0].phases
        scratch, constants = made.scratch, made.constants
    step, loops, size_moved = _moves(target, found, tensors)

    def pieces(loops: Sequence[Loop], offset: Sequence[int]) -> list[list[Step]]:
        return [[step(loop, at)] for loop, at in _parts(loops, offset, 1 if found.scatters else threads)]

    # a scatter may read few elements many times, by strides of 0; a gather writes each element of memory once
    times, inner = rounds(loops, max(tuning.TUNING.budget // size_moved, 1)) if found.scatters else ([], loops)
    nowhere = (0,) * PLACES
    moves = Rounds([pieces(inner, nowhere)])
    if times:
        moved = tuple([pieces(inner, loop.strides)] for loop in times)
        moves = moves._replace(times=tuple(loop.turns for loop in times), moved=moved)
    else:
        phases += moves.phases
    return Lowered(
        target,
        [Rounds(phases), moves] if times else [Rounds(phases)],
        scratch,
        constants=constants,
        fails=True,
        judges=problem.promises.ruled <= {found.indices.tensor},
        short=size < tuning.TUNING.short,
    )


def _parts_named(found: Displaced, named: Named, tensors: Mapping[str, TensorDesc]) -> list[int]:
    """Size and stride of each dimension that an index is of, the innermost first. Contiguous dimensions are merged."""
    t = tensors[(found.target if found.scatters else found.source).tensor]
    strides, itemsize = t.explicit_strides, t.data_type.dtype.itemsize
    if named.dimension is not None:
        return [named.size, strides[named.dimension] * itemsize]
    loops = merged([Loop(n, (stride * itemsize,)) for n, stride in zip(t.sizes, strides, strict=True)])
    return [x for loop in reversed(loops or [Loop(1, (itemsize,))]) for x in (loop.turns, *loop.strides)]


def _at(place: DisplacedElement, tensors: Mapping[str, TensorDesc], start: Sequence[int] | None = None) -> At:
    t = tensors[place.tensor]
    first = sum(map(mul, place.start if start is None else start, t.explicit_strides))
    return At(place.tensor, first * t.data_type.dtype.itemsize)


def _steps(place: DisplacedElement, tensors: Mapping[str, TensorDesc]) -> list[int]:
    """The step of a place with each loop, in bytes."""
    t = tensors[place.tensor]
    return [sum(map(mul, step, t.explicit_strides)) * t.data_type.dtype.itemsize for step in place.steps]


def _checks(target: Target, found: Displaced, tensors: Mapping[str, TensorDesc]) -> list[Step]:
    steps = _steps(found.indices, tensors)
    loops = merged(sorted([Loop(n, (step,)) for n, step in zip(found.sizes, steps, strict=True) if step], key=_stride)[::-1])
    if len(loops) > OUTER + 1:
        raise engine.Uncompilable(f"{len(loops)} loops are more than {OUTER + 1}")
    bits = tensors[found.indices.tensor].data_type.element_bits
    return [_check(target, found, named, bits, loops, tensors) for named in found.named]


def _stride(loop: Loop) -> int:
    return loop.strides[0]


def _check(
    target: Target, found: Displaced, named: Named, bits: int, loops: Sequence[Loop], tensors: Mapping[str, TensorDesc]
) -> Step:
    code = engine.compiled(emit.checks, target, bits, named.wraps, named.size >= 1 << 30)
    return emit.CHECKED.step(code, *described(loops, 1), size=named.size, indices=_at(found.indices, tensors, named.start))


def _moves(
    target: Target, found: Displaced, tensors: Mapping[str, TensorDesc]
) -> tuple[Callable[[Sequence[Loop], Sequence[int]], Step], list[Loop], int]:
    """A function that gives the step that moves the elements of loops at given offsets; the loops of all elements; and the
    bytes that are moved at once."""
    t = tensors[found.target.tensor]
    itemsize, bits = t.data_type.dtype.itemsize, tensors[found.indices.tensor].data_type.element_bits
    loops = merged(_ordered(found, tensors))
    if len(loops) > OUTER + 1:
        raise engine.Uncompilable(f"{len(loops)} loops are more than {OUTER + 1}")
    row = itemsize
    if loops and loops[-1].strides == (itemsize, itemsize, 0) and loops[-1].turns * itemsize >= ROW:
        row *= loops.pop().turns
    dimensions = [_parts_named(found, column, tensors) for column in found.named]
    columns = emit.IndexLayout(len(dimensions), bits, found.named[0].wraps, len(dimensions[0]) // 2)
    if row > itemsize:
        fetched = next((size for size in emit.FETCHED if size >= row), emit.FETCHED[-1])
        vectors, rest = divmod(row, target.vector_bytes)
        few = vectors if not rest and vectors <= emit.VECTORS else 0
        code = engine.compiled(emit.rows, target, columns, found.scatters, fetched, few)
    else:
        usual = [{0, itemsize}, {0, itemsize}, {0, bits // 8}]
        strides = loops[-1].strides if loops else (0, 0, 0)
        along = [stride if stride in few else None for stride, few in zip(strides, usual, strict=True)]
        plain = len(dimensions) == 1 and len(dimensions[0]) == 2 and dimensions[0][1] == itemsize
        steps = emit.KnownStrides((along[0], along[1], along[2]), itemsize if plain else None)
        code = engine.compiled(emit.elements, target, itemsize, columns, found.scatters, steps)
    named: list[At | int] = []
    for column, part in zip(found.named, dimensions, strict=True):
        named += [_at(found.indices, tensors, column.start), column.size, *part]

    def step(loops: Sequence[Loop], offset: Sequence[int]) -> Step:
        source, into = _at(found.source, tensors) + offset[0], _at(found.target, tensors) + offset[1]
        named_here = [x + offset[2] if isinstance(x, At) else x for x in named]
        return emit.MOVED.step(code, *named_here, *described(loops, PLACES), source=source, target=into, bytes=row)

    return step, loops, row


def _parts(loops: Sequence[Loop], offset: Sequence[int], threads: int) -> Iterator[tuple[list[Loop], list[int]]]:
    """The loops of each of at most `threads` threads, and the offsets at which they begin."""
    for loop, first in parts(loops, threads):
        moved = [first * stride for stride in loop[0].strides] if loop else [0] * PLACES
        yield loop, [a + b for a, b in zip(offset, moved, strict=True)]


def _ordered(found: Displaced, tensors: Mapping[str, TensorDesc]) -> list[Loop]:
    """The loops in the order of the layout of the elements that are not displaced, except for loops that keep their order."""
    places = zip(*(_steps(place, tensors) for place in (found.source, found.target, found.indices)), strict=True)
    loops = [Loop(n, steps) for n, steps in zip(found.sizes, places, strict=True)]
    plain = 0 if found.scatters else 1
    order = sorted(range(len(loops)), key=lambda i: -loops[i].strides[plain])
    kept = [i for i in order if i >= len(loops) - found.ordered and loops[i].turns > 1]
    return [loops[i] for i in order] if kept == sorted(kept) else loops
