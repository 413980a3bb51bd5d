"""The family of contractions of floats on OpenCL devices: matrix products and convolutions, correctly rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats.family import MOST_TERMS
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, layout
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.evaluate.tally import Counted
from anydml.kernels.kernel import Built, DeviceMemory, Machine, Refused
from anydml.kernels.match.contraction import SUM, Contraction, contractions
from anydml.kernels.matched import lowers
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.opencl.calls import Workspace, unbound
from anydml.kernels.opencl.contract.calls import ContractionCall, Part
from anydml.kernels.opencl.contract.text import TextKey
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Numbering

FEW = 8  # rows or columns; with no more of them, and few terms, each element is a work item's
FEW_TERMS = 64
MOST = 1 << 30  # rows or columns, which kernels number in 32 bits


@lowers(contractions)
def lower(found: list[Contraction], host: Target, problem: Problem, machine: Machine) -> Built | Refused:
    """A statement of sums of products, in tiles."""
    ((name, nest),) = problem.statement.items()
    output = problem.tensors[name]
    if any(f.data_type not in SINGLES for f in found[0].factors) or output.data_type not in SINGLES:
        return Refused("the factors are no floats of 32 or 16 bits")
    if any(f.name in problem.promises.in_place for c in found for f in c.factors):
        return Refused("the output may overwrite a factor")
    decision = Decision(nest, output.data_type, host)
    parts = []
    for c in found:
        if not all(v.size for v in c.variables):
            continue
        made = layout(c, problem)
        if isinstance(made, str):
            return Refused(made)
        if made.terms > MOST_TERMS:
            return Refused(f"sums have more than {MOST_TERMS} terms")
        if max(made.rows, made.columns) > MOST:
            return Refused(f"there are more than {MOST} rows or columns")
        parts.append(_part(c, made, output.data_type))
    if not parts or all(p.layout.terms <= FEW_TERMS and min(p.layout.rows, p.layout.columns) <= FEW for p in parts):
        return Refused("there are few products")
    counted = Counted()

    def bound(workspace: Workspace, memory: Mapping[str, DeviceMemory]) -> Sequence[ContractionCall]:
        return [ContractionCall(workspace, part, machine.stage, output, decision, memory) for part in parts]

    return Built(unbound, counted=counted, on_device=bound)


def _part(c: Contraction, made: FloatLayout, output: Any) -> Part:
    at = next(k for k, s in enumerate(c.streams) if s.name == SUM)
    formula = Stored(combined(c.formula), (*(s.data_type for s in c.streams), output), at)
    factors = [f.data_type for f in c.factors]
    if made.a.at.base == c.factors[1].name and made.b.at.base == c.factors[0].name:
        factors.reverse()
    key = TextKey(
        formula,
        (factors[0], factors[1]),
        (0 < abs(made.a_term) < abs(made.a.row), 0 < abs(made.b_term) < abs(made.b.columns[2])),
        len(made.table) == 1,
        made.padded,
    )
    return Part(key, made, numbering(c, made), names_of(c))


def numbering(c: Contraction, made: FloatLayout) -> Numbering:
    """The elements of a contraction, numbered by batches, rows and columns."""
    by_variable = dict(zip(c.variables, c.steps, strict=True))
    steps = [by_variable.get(v, [0] * len(c.start)) for v in made.order]
    return Numbering([v.size for v in made.order], steps, c.start)


def names_of(c: Contraction) -> tuple[str, ...]:
    """The tensors that a contraction reads."""
    return tuple(sorted({f.name for f in c.factors} | {str(s.name) for s in c.streams if s.name not in (None, SUM)}))
