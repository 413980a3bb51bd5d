"""The family of compiled contractions of FLOAT32 and FLOAT16: matrix products and convolutions, correctly rounded."""

from __future__ import annotations

from math import prod

import numpy as np

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, arguments, fold, kernel
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.few.plan import FewRowsPlan, serves
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, layout
from anydml.kernels.contract.floats.packed.plan import PackedPlan
from anydml.kernels.contract.floats.plan import FloatMemory, FloatPlan, FloatProblem, FloatTables
from anydml.kernels.contract.floats.planes.plan import PlanesPlan, slide
from anydml.kernels.contract.floats.undecided import ContractionBits, deciding
from anydml.kernels.contract.floats.winograd.plan import WinogradPlan
from anydml.kernels.contract.floats.winograd.windows import WinogradWindows, pays, windowed, windows
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.contraction import SUM, contractions
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.tensor import DataType, TensorFlags

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
MOST_TERMS = 1 << 20  # the bounds of longer sums are useless
SHORT = 1 << 16  # calls with fewer products, for which other threads can wait


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for a statement of sums of products."""
    statement = problem.statement
    found = contractions(statement)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    ((name, nest),) = statement.items()
    output = problem.tensors[name].data_type
    if any(f.data_type not in FLOATS for f in found[0].factors) or output not in FLOATS:
        return Refused("the factors are no floats of 32 or 16 bits")
    memory = FloatMemory(Scratch("scratch"), Scratch("passing"), Scratch("packed"), FloatTables())
    plans, undecided, work = [], [], 0
    for c in found:
        if not all(v.size for v in c.variables):
            continue
        made = layout(c, problem)
        if isinstance(made, str):
            return Refused(made)
        if made.terms > MOST_TERMS:
            return Refused(f"sums have more than {MOST_TERMS} terms")
        square = windows(made) if pays(made) else None
        side = windowed(c)
        if square is None and side is not None and not made.padded:  # the default may be the other way around
            other = layout(c, problem, side)
            if isinstance(other, FloatLayout) and pays(other):
                square = windows(other)
                made = other if square is not None else made
        formula = combined(c.formula)
        types = (*(s.data_type for s in c.streams), output)
        at = next(k for k, s in enumerate(c.streams) if s.name == SUM)
        factors = [c.factors[k].data_type for k in (0, 1)]
        if made.a.at.base == c.factors[1].name and made.b.at.base == c.factors[0].name:
            factors.reverse()
        p = FloatProblem(target, made, Stored(formula, types, at), (factors[0], factors[1]), machine.threads, tuning.TUNING)
        owned = [bool(problem.tensors[x.at.base].flags & TensorFlags.OWNED_BY_DML) for x in (made.a, made.b)]
        with guard:
            plan = _plan(p, memory, (owned[0], owned[1]), square)
            plan.plan_phases()
        plans.append(plan)
        undecided.append(ContractionBits(c, made.order, plan.bits.offset // 8, plan.undecided_counts))
        work += prod(made.batches) * made.rows * made.columns * made.terms
    counters = np.array([at.offset for plan in plans for at in plan.undecided_counts], np.int64)
    with guard:
        ending = Step(engine.compiled(any_undecided, target), (memory.constants.add(counters), len(counters), At("scratch")))
    phases = [phase for plan in plans for phase in plan.phases]
    return Lowered(
        target,
        [Rounds([*phases, [[ending]]])],
        scratch=memory.kept.size,
        passing=memory.scratch.size,
        constants=memory.constants.array(),
        packing=[step for plan in plans for step in plan.packing],
        packed=memory.packed.size,
        short=work < SHORT,
        decide=deciding(undecided, name, Decision(nest, output, target)),
        once=True,
        interruptible=any(len(plan.phases) > 1 for plan in plans),
    )


def _plan(p: FloatProblem, memory: FloatMemory, owned: tuple[bool, bool], square: WinogradWindows | None) -> FloatPlan:
    """The plan of a contraction, by the fastest algorithm. owned: whether its rows, and its columns, can be packed once."""
    if square is not None:
        return WinogradPlan(p, memory, owned[0], square)
    if not serves(p.layout, p.factors[1].dtype.itemsize, owned[1], p.tuning):
        return PackedPlan(p, memory, owned)
    found = slide(p)
    return FewRowsPlan(p, memory) if found is None else PlanesPlan(p, memory, found)


def any_undecided(target: Target) -> str:
    """A kernel that returns 1 if a counter is not 0; arguments: the table of their offsets, its length, the base address."""
    text = Text()
    arguments(text, ("table", "count", "base"), {"table", "base"})

    def one(i: str, found: list[str]) -> list[str]:
        at = text.load("i64", "%table", text.op(f"mul i64 {i}, 8"))
        return [text.op(f"or i64 {found[0]}, {text.load('i64', text.at('%base', at))}")]

    _, (found,) = fold(text, "0", "%count", 1, [("i64", "0")], one)
    some = text.op(f"icmp ne i64 {found}, 0")
    text.do(f"ret i64 {text.op(f'zext i1 {some} to i64')}")
    return kernel(text)
