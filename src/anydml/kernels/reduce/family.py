"""The family of rows: elements that are sums, extremes or positions of rows, or maps of a row with these; correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile, pairwise
from math import prod

from anydml.fork_safety import guard
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.elementwise.family import mapped
from anydml.kernels.elementwise.geometry import MapDimension, merged
from anydml.kernels.elementwise.regrouping import regrouped
from anydml.kernels.elementwise.runs import Run, TensorStart, in_order, in_turns
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.maps import Map
from anydml.kernels.match.rows import Rows, rows
from anydml.kernels.match.several import several
from anydml.kernels.matched import lowers
from anydml.kernels.problem import Problem
from anydml.kernels.reduce import across, emit, groups, softmax, tuning, whole
from anydml.kernels.reduce.joint import JOINT, with_joint
from anydml.kernels.reduce.key import ReductionKey, row_arguments, same_along, signature
from anydml.kernels.reduce.layout import shape_of
from anydml.kernels.reduce.moments import MOMENTS, MOMENTS_OF, with_moments
from anydml.kernels.reduce.stages import stages
from anydml.kernels.reduce.staging import pitch
from anydml.kernels.reduce.undecided import undecided_rows
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.state import STATE_WORDS, state_and_list
from anydml.schema.statement import Nest


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps of a statement that reduces rows."""
    statement = problem.statement
    if len(statement) > 1:
        made = whole.lower(problem, machine)
        return _outputs(problem, machine) if isinstance(made, Refused) else made
    return _of_rows(problem, machine)


@lowers(rows)
def _of_rows(r: Rows, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    (nest,) = problem.statement.values()
    run = _reduced(r, nest, {name: TensorStart(At(name), t) for name, t in problem.tensors.items()}, target, machine.threads)
    if isinstance(run, Refused):
        return run
    decide = None if run.undecided is None else run.undecided.decide
    return Lowered(
        target, [Rounds(run.phases)], scratch=run.scratch, short=prod(r.kept + r.reduced) < tuning.TUNING.short, decide=decide
    )


def _outputs(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps of several outputs, some of them reductions of rows, one after another."""
    statement = problem.statement
    if problem.promises.in_place:
        return Refused("an output that others come after may lie in an input's place")
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    places = {name: TensorStart(At(name), t) for name, t in problem.tensors.items()}
    found = several(statement)
    if isinstance(found, str):
        return Refused(found)
    runs: list[Run] = []
    block = _block(list(found.values()), problem)
    for name, f in found.items():
        if isinstance(f, Rows):
            made = _reduced(f, statement[name], places, target, machine.threads, block)
        else:
            made = mapped(f, places, target, machine.threads)
        if isinstance(made, Refused):
            return made
        runs.append(made)
    size = max(prod(t.sizes) for t in problem.tensors.values())
    if block is not None:
        return in_turns(target, runs, short=False)
    return in_order(target, runs, {}, short=size < tuning.TUNING.short)


def _block(outputs: Sequence[Rows | Map], problem: Problem) -> int | None:
    """The rows of a block that stays in a cache until every output has been computed for it; None if outputs do not take
    turns."""
    kept = [f.kept for f in outputs if isinstance(f, Rows)]
    nbytes = sum(t.total for t in problem.tensors.values())
    if len(kept) < len(outputs) or len(set(kept)) > 1 or nbytes < tuning.TUNING.turns:
        return None
    if max(prod(f.kept + f.reduced) for f in outputs if isinstance(f, Rows)) > tuning.TUNING.in_turns:
        return None
    return max(1, tuning.TUNING.block * prod(kept[0]) // nbytes)


def _reduced(
    r: Rows, nest: Nest, places: Mapping[str, TensorStart], target: Target, threads: int, block: int | None = None
) -> Run | Refused:
    """The steps of the rows of tensors at these addresses; block: the most rows of a step."""
    r = r._replace(formula=softmax.with_rests(r.formula))
    output = places[r.output].tensor
    types = (*(s.data_type for s in r.streams), output.data_type)
    if any(t.element_bits < 8 for t in types):
        return Refused("elements are of four bits")
    placed = [
        (s.start[0], [step[0] for step in s.steps]) if s.name is None else places[s.name].of(s) for s in (*r.streams, r.result)
    ]
    strides = [s for _, s in placed]
    sizes = (*r.kept, *r.reduced)
    dims = [MapDimension(n, tuple(s[d] for s in strides)) for d, n in enumerate(sizes)]
    outer, inner = merged(dims[: len(r.kept)]), merged(_counting(r, dims[len(r.kept) :]))
    *around, row = inner or [MapDimension(1, tuple(0 for _ in strides))]
    lines = prod(d.size for d in around)
    ops = {node.op for node in r.formula}
    if lines * row.size > tuning.TUNING.longest and ops & {"row_sum", "row_product", "row_rest"}:
        return Refused(f"rows are longer than {tuning.TUNING.longest} elements")
    key = shape_of(target, r, types, row, outer, around)
    count = lines * row.size
    plain = with_moments(with_joint(r.formula, count), count)
    if count > MOMENTS_OF and any(node.op in (MOMENTS, JOINT) for node in plain):
        return Refused(f"rows whose moments are taken are longer than {MOMENTS_OF} elements")
    key = key._replace(formula=regrouped(plain, same_along(key)), plain=plain)
    key = key._replace(ahead=tuning.TUNING.ahead)
    lanes_are_rows = across.key_across(key, row, outer)
    if lanes_are_rows is None:
        shared = [k for k, s in enumerate(r.streams) if s.name is not None and not any(d.strides[k] for d in outer)]
        key = groups.with_common(groups.grouped(key, tuning.TUNING.group), shared if tuning.TUNING.common else [])
    with guard:
        if lanes_are_rows is None:
            code = engine.compiled(emit.emitted, target, key)
        else:
            key = lanes_are_rows
            code = engine.compiled(across.emitted, target, key, across.depth_of(key.most, key.lines))
    kept = (row.size + 2 * key.lanes) * lines * _keeps(key) + groups.words(key, row.size) + 8
    room = tuning.TUNING.room if block is None else tuning.TUNING.room_of_block
    if r.mapped:  # of long rows, some elements are left undecided, and the row is not to be done as a whole
        room = max(room, lines * row.size >> 10)
    room = min(room, 2 * prod(r.kept) * (lines * row.size if r.mapped else 1)) + 2
    if lanes_are_rows is not None:
        room = max(room, 2 * key.lanes)  # a group of rows may be listed at once
    own = [pitch(row.size, types[k].dtype.itemsize) for k in key.staged]
    kept = -(-kept // 8) * 8
    listed = state_and_list(2 * (room + 1))
    size = listed + -(-(kept + sum(own) * key.together // 8) // 8) * 8
    count = prod(d.size for d in outer)
    between = max(tuning.TUNING.budget // (lines * row.size), 1) if block is None else count
    pieces: list[list[Step]] = []
    shares = min(threads if count * lines * row.size >= tuning.TUNING.alone else 1, count)
    steps = 0

    def step(first: int, end: int) -> Step:
        nonlocal steps
        scratch = At("scratch", 8 * size * steps)
        steps += 1
        memory = scratch + 8 * listed
        lists = Arguments(state=scratch, list=scratch + 8 * STATE_WORDS, memory=memory, room=room)
        rows_ = Arguments(first=first, rows=end - first, between=between)
        places = {f"p{k}": base for k, (base, _) in enumerate(placed)}
        around_ = {name: x for d, dim in enumerate(outer) for name, x in dim.arguments(f"n{d}", f"o{d}").items()}
        staged, memory = Arguments(), memory + 8 * kept
        for k, bytes_ in zip(key.staged, own, strict=True):
            staged |= {f"t{k}": memory, f"w{k}": bytes_}
            memory += bytes_ * key.together
        return signature(key).step(code, **lists, **rows_, **places, **around_, **row_arguments(row, around), **staged)

    for first, end in pairwise(count * k // shares for k in range(shares + 1)):
        ends = [*range(first, end, block or count), end]
        pieces.append([step(*pair) for pair in pairwise(ends)])
    starts = range(0, size * steps, size)
    undecided = undecided_rows(r, Decision(nest, output.data_type, target), starts, turns=block is not None)
    return Run([pieces], 8 * size * steps, undecided)


def _counting(r: Rows, inner: Sequence[MapDimension]) -> list[MapDimension]:
    """The dimensions of a row, without those that repeat elements where this makes no difference to the reduction.

    It makes none to extremes, nor to their first position if the repeating dimensions are the outermost: then it is in the
    first repetition. Their last position is in the last one.
    """
    ops = {node.op for node in r.formula if node.op.startswith("row_")}
    if ops <= {"row_max", "row_min"}:
        return [d for d in inner if any(d.strides)]
    last = any(node.data for node in r.formula if node.op in ("row_first_largest", "row_first_smallest"))
    if not last and ops <= {"row_max", "row_min", "row_first_largest", "row_first_smallest"}:
        return [*dropwhile(lambda d: not any(d.strides), inner)]
    return list(inner)


def _keeps(key: ReductionKey) -> int:
    """The number of nodes whose values are kept for a whole row."""
    return len(stages(key.formula, same_along(key), mapped=key.mapped).kept) if key.keeps else 0
