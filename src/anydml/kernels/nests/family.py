"""The family of nests: any sums, extremes and arg-extremes of elements read at computed indices, correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod

from anydml.fork_safety import guard
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.nests import FEW, MANY, Matched, together
from anydml.kernels.nests import emit, tuning
from anydml.kernels.nests.key import NestKey, narrowed
from anydml.kernels.nests.lists import ENTRY, LISTS
from anydml.kernels.nests.row_sums import PADDING
from anydml.kernels.nests.separable import Separable, separable
from anydml.kernels.nests.undecided import undecided_nests
from anydml.kernels.nests.weighted import weighted
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import in_order
from anydml.kernels.undecided.state import STATE_WORDS, UndecidedLists, in_phases, state_and_list
from anydml.schema.statement import Nest


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps of all outputs, or a refusal."""
    statement = problem.statement
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    own = problem.promises.in_place
    groups = [list(statement)] if own else [[name] for name in statement]
    undecided: list[UndecidedLists] = []
    phases: list[list[list[Step]]] = []
    scratch, work = 0, 0
    for names in groups:
        made = _made(target, [statement[name] for name in names], tuple(names), own, problem, machine)
        if isinstance(made, str):
            return Refused(made)
        decisions = {name: Decision(statement[name], problem.tensors[name].data_type, target) for name in names}
        steps, lists, scratch = made.steps(scratch, decisions)
        phases.append(steps)
        undecided.append(lists)
        work += made.work
    return Lowered(
        target,
        [Rounds(phases)],
        scratch=8 * scratch,
        short=work < tuning.TUNING.short,
        decide=in_phases(undecided),
    )


def _made(
    target: Target, nests: list[Nest], names: tuple[str, ...], own: frozenset[str], problem: Problem, machine: Machine
) -> _Outputs | str:
    """The kernel of outputs that are computed together: the first form whose stack frame is small; or the reason for a
    refusal."""
    types = [problem.tensors[name].data_type for name in names]
    for many in (MANY, FEW, 1):
        found = together(nests, types, many)
        if isinstance(found, str):
            reason = found
            continue
        if any(t.element_bits < 8 for t in (*found.program.types, *types)):
            return "elements are of four bits"
        kept = tuple(k for k, tensor in enumerate(found.tensors) if tensor in own)
        if own and not found.program.in_its_place(kept):
            return "elements of an input that an output may lie in are read elsewhere"
        try:
            for lanes in sorted({target.vector_bytes // 8, max(2, target.vector_bytes // 16)}, reverse=True):
                made = _Outputs(target, names, found, kept, problem, lanes)
                if made.compile(machine):
                    return made
        except engine.Uncompilable as error:
            return str(error)
        reason = "the code takes more than a page of the stack"
    return reason


class _Outputs:
    """The kernel of outputs that are computed together, and the steps that call it."""

    def __init__(
        self,
        target: Target,
        names: tuple[str, ...],
        found: Matched,
        kept: tuple[int, ...],
        problem: Problem,
        lanes: int,
    ) -> None:
        self.target, self.lanes = target, lanes
        self.names, self.found, self.tensors = names, found, problem.tensors
        outputs = [problem.tensors[name] for name in names]
        sizes, dims = found.sizes, found.program.dims
        itemsizes = [t.data_type.dtype.itemsize for t in outputs]
        self.strides = [[s * n for s in t.explicit_strides] for t, n in zip(outputs, itemsizes, strict=True)]
        wide = [d for d in range(dims) if sizes[d] >= lanes]
        dense = [all(s[d] == n for s, n in zip(self.strides, itemsizes, strict=True)) for d in range(dims)]
        lane = max(wide or range(dims), key=lambda d: (dense[d] if wide else sizes[d], d))
        rows, terms = (None, None) if kept else (self._separable(lane), weighted(found.program, lane))
        if rows is None and terms is None and not kept:
            # if there is a dimension that weights do not depend on, it becomes the lane
            others = (d for d in reversed(wide) if weighted(found.program, d) is not None)
            lane = next(others, lane)
            terms = weighted(found.program, lane)
        self.key = NestKey(
            found.program,
            tuple(t.data_type for t in outputs),
            lane,
            lanes,
            tuple(s[lane] == n for s, n in zip(self.strides, itemsizes, strict=True)),
            kept,
            narrowed(found.program, sizes),
            rows,
            None if rows is not None else terms,
            self._contiguous(),
        )
        self.key = emit.settled(target, self.key)
        # of loops that are ended by what is known within the call, more than once in these
        if prod(sizes[dims:]) * sizes[lane] > tuning.TUNING.budget and self.key.pausable():
            self.key = self.key._replace(paused=True)
        self.limited = found.program.limited()
        if prod(n for v, n in enumerate(sizes) if v >= dims and v not in self.limited) > tuning.TUNING.longest:
            raise engine.Uncompilable("elements are reductions of too many terms")

    def _contiguous(self) -> tuple[tuple[int, int], ...]:
        """The pairs (tensor, dimension) along which elements are contiguous."""
        tensors = [self.tensors[name] for name in self.found.tensors]
        return tuple((t, d) for t, tensor in enumerate(tensors) for d, s in enumerate(tensor.explicit_strides) if s == 1)

    def _separable(self, lane: int) -> Separable | None:
        """The sum of row sums, if rows are contiguous and not much longer than the output's; else None."""
        found = separable(self.found.program, lane)
        if found is None:
            return None
        tensor = self.tensors[self.found.tensors[found.tensor]]
        length = tensor.sizes[found.dimension]
        contiguous = tensor.explicit_strides[found.dimension] == 1
        width = self.found.sizes[lane]
        near = length <= tuning.TUNING.near * width
        return found._replace(near=near) if contiguous and self.lanes <= length <= tuning.TUNING.longer * width else None

    def compile(self, machine: Machine) -> bool:
        """Compile the kernel; False if its stack frame is too large."""
        sizes = self.found.sizes
        if emit.is_long(self.target, self.key):
            return False
        with guard:
            code = engine.within(emit.emitted, self.target, emit.FRAME, self.key)
        if code is None:
            return False
        self.code = code
        self.kept = emit.slots(self.target, self.key)
        self.rows = prod(sizes[d] for d in self.key.outer)
        self.work = prod(sizes)
        self.threads = min(machine.threads if self.work >= tuning.TUNING.alone else 1, self.rows)
        return True

    def steps(self, start: int, decisions: Mapping[str, Decision]) -> tuple[list[list[Step]], UndecidedLists, int]:
        """A piece for each thread, in scratch from a word on, the lists of these, and the word behind."""
        key, sizes = self.key, self.found.sizes
        width = sizes[key.lane]
        room = min(tuning.TUNING.room, self.rows * width) + self.lanes
        kept = tuple(self.found.tensors[t] for t in key.kept)
        words = state_and_list(room * (1 + len(kept)))
        tables = sum(-(-sizes[d] // self.lanes) * self.lanes * slots for d, slots in self.kept.items())
        size = words + -(-tables // 8) * 8
        ranges = [size]
        for found in key.narrowed:
            ranges.append(ranges[-1] + 2 * 8 * -(-sizes[found.dimension] // 8))
        if key.separable is not None:
            tensor = self.tensors[self.found.tensors[key.separable.tensor]]
            ranges.append(ranges[-1] + -(-tensor.sizes[key.separable.dimension] // 8) * 8 + PADDING)
        if key.weighted is not None:
            ranges.append(ranges[-1] + -(-LISTS * ENTRY * len(key.weighted.terms) // 64) * 8)
        size = ranges.pop()
        known = {found.variable for found in key.narrowed}
        # the kernel divides the budget by the turns of the loops whose ends it finds
        variables = range(key.program.dims, len(sizes))
        terms = prod(
            min(sizes[v], tuning.TUNING.guessed) if v in self.limited else sizes[v] for v in variables if v not in known
        )
        budget = max(1, tuning.TUNING.budget // (terms if key.paused else width * terms))
        steps: list[list[Step]] = []
        starts: list[int] = []
        signature, fixed = key.signature, self._fixed()
        for first, end in pairwise(self.rows * k // self.threads for k in range(self.threads + 1)):
            state = At("scratch", 8 * start)
            values = Arguments(state=state, list=state + 8 * STATE_WORDS, memory=state + 8 * words, room=room, budget=budget)
            ends = Arguments({f"range{k}": state + 8 * at for k, at in enumerate(ranges)}, begin=first, end=end)
            ends["rowsums"] = ends.pop(f"range{len(key.narrowed)}", 0)
            steps.append([signature.step(self.code, **values, **ends, **fixed)])
            starts.append(start)
            start += size
        places = in_order(sizes[: key.program.dims], (*key.outer, key.lane))
        return steps, undecided_nests(decisions, places, kept, starts), start

    def _fixed(self) -> Arguments:
        """The arguments that are the same for all pieces: sizes, strides and addresses of tensors."""
        found: Arguments = {f"size{v}": n for v, n in enumerate(self.found.sizes)}
        for k, (name, strides) in enumerate(zip(self.names, self.strides, strict=True)):
            found |= {f"output{k}": At(name), **{f"step{k}_{d}": s for d, s in enumerate(strides)}}
        found |= {f"tensor{t}": At(name) for t, name in enumerate(self.found.tensors)}
        for t, d in self.key.places:
            tensor = self.tensors[self.found.tensors[t]]
            stride = tensor.explicit_strides[d] * tensor.data_type.dtype.itemsize
            found |= {f"last{t}_{d}": tensor.sizes[d] - 1, f"stride{t}_{d}": stride}
        return found
