"""The family of compiled contractions of FLOAT32 and FLOAT16: matrix products and convolutions, correctly rounded."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.few.plan import FewRowsPlan, serves
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, layout
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem
from anydml.kernels.contract.floats.planes.plan import PlanesPlan, slide
from anydml.kernels.contract.floats.slices.plan import SlicedPlan
from anydml.kernels.contract.floats.slices.plan import serves as slices
from anydml.kernels.contract.floats.winograd.plan import WinogradPlan
from anydml.kernels.contract.floats.winograd.windows import WinogradWindows, pays, windowed, windows
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.contraction import SUM, Contraction, contractions
from anydml.kernels.matched import lowers
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.lists import COUNTERS, any_undecided
from anydml.kernels.undecided.places import Bitmap, NumberedElements, Numbering, of_bitmaps
from anydml.tensor import TensorFlags

MOST_TERMS = 1 << 20  # the bounds of longer sums are useless


@lowers(contractions)
def lower(found: list[Contraction], target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for a statement of sums of products."""
    ((name, nest),) = problem.statement.items()
    output = problem.tensors[name].data_type
    if any(f.data_type not in SINGLES for f in found[0].factors) or output not in SINGLES:
        return Refused("the factors are no floats of 32 or 16 bits")
    memory = FloatMemory(Scratch("scratch"), Scratch("passing"), Scratch("packed"), ConstantTables())
    plans, bitmaps, work = [], [], 0
    decision = Decision(nest, output, target)
    for c in found:
        if not all(v.size for v in c.variables):
            continue
        made = layout(c, problem)
        if isinstance(made, str):
            return Refused(made)
        if made.terms > MOST_TERMS:
            return Refused(f"sums have more than {MOST_TERMS} terms")
        square = _square(made)
        side = windowed(c)
        if square is None and side is not None and not made.padded:  # the default may be the other way around
            other = layout(c, problem, side)
            square = _square(other) if isinstance(other, FloatLayout) else None
            made = other if isinstance(other, FloatLayout) and square is not None else made
        formula = combined(c.formula)
        types = (*(s.data_type for s in c.streams), output)
        at = next(k for k, s in enumerate(c.streams) if s.name == SUM)
        factors = [c.factors[k].data_type for k in (0, 1)]
        if made.a.at.base == c.factors[1].name and made.b.at.base == c.factors[0].name:
            factors.reverse()
        owned = [bool(problem.tensors[x.at.base].flags & TensorFlags.OWNED_BY_DML) for x in (made.a, made.b)]
        if square is None and _rows_as_columns(made, owned, factors[1].dtype.itemsize):
            other = layout(c, problem, 0 if made.a.at.base == c.factors[0].name else 1)
            if isinstance(other, FloatLayout) and other.a.at.base == made.b.at.base:
                made, factors, owned = other, factors[::-1], owned[::-1]
        p = FloatProblem(target, made, Stored(formula, types, at), (factors[0], factors[1]), machine.threads, tuning.TUNING)
        with guard:
            plan = _plan(p, memory, (owned[0], owned[1]), square)
            plan.plan_phases()
        plans.append(plan)
        by_variable = dict(zip(c.variables, c.steps, strict=True))
        steps = [by_variable.get(v, [0] * len(c.start)) for v in made.order]
        elements = NumberedElements(name, Numbering([v.size for v in made.order], steps, c.start), decision)
        bitmaps.append(Bitmap(elements, plan.bits.offset // 8, -(-prod(v.size for v in made.order) // 64)))
        work += prod(made.batches) * made.rows * made.columns * made.terms
    counters = np.array([at.offset for plan in plans for at in plan.undecided_counts], np.int64)
    with guard:
        table = memory.constants.add(counters)
        ending = COUNTERS.step(engine.compiled(any_undecided, target), table=table, count=len(counters), base=At("scratch"))
    phases = [phase for plan in plans for phase in plan.phases]
    return Lowered(
        target,
        [Rounds([*phases, [[ending]]])],
        scratch=memory.kept.size,
        passing=memory.scratch.size,
        constants=memory.constants.array(),
        packing=[step for plan in plans for step in plan.packing],
        packed=memory.packed.size,
        short=work < tuning.TUNING.short,
        decide=of_bitmaps(bitmaps),
        once=True,
        interruptible=any(len(plan.phases) > 1 for plan in plans),
    )


def _rows_as_columns(found: FloatLayout, owned: Sequence[bool], size: int) -> bool:
    """Whether rows should be columns: owned ones, which take half as much memory then, if few places meet them.

    size: bytes of a place's element; places that are contiguous are packed fast as rows.
    """
    contiguous = not found.padded and found.sizes[:2] == (1, 1) and found.b.columns[2] == size
    few = tuning.TUNING.rows < found.columns <= min(found.rows // 2, tuning.TUNING.few_places)
    return list(owned) == [True, False] and contiguous and few


def _square(found: FloatLayout) -> WinogradWindows | None:
    """The windows of a layout, if transforms pay."""
    return windows(found) if pays(found) else None


def _plan(p: FloatProblem, memory: FloatMemory, owned: tuple[bool, bool], square: WinogradWindows | None) -> FloatPlan:
    """The plan of a contraction, by the fastest algorithm. owned: whether its rows, and its columns, can be packed once."""
    if square is not None:
        return WinogradPlan(p, memory, owned[0], square)
    if not serves(p.layout, p.factors[1].dtype.itemsize, owned[1], p.tuning):
        return (SlicedPlan if slices(p, owned) else PackedPlan)(p, memory, owned)
    found = slide(p)
    return FewRowsPlan(p, memory) if found is None else PlanesPlan(p, memory, found)
