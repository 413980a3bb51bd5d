"""The family of compiled attention of FLOAT32 and FLOAT16: values weighted by exponentials of scores, correctly rounded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anydml.fork_safety import guard
from anydml.kernels.attention import emit, kept, tuning
from anydml.kernels.attention.key import LEFT, AttentionKey, KeptKey
from anydml.kernels.attention.layout import AttentionPlan, count, placed
from anydml.kernels.attention.layout import kept as kept_placed
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.attention import Attention, attention
from anydml.kernels.matched import lowers
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.lists import COUNTERS, any_undecided
from anydml.kernels.undecided.places import Bitmap, NumberedElements, Numbering, of_bitmaps


@lowers(attention)
def lower(found: Attention, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for a statement of attention."""
    tensors = problem.tensors
    made = placed(found, tensors)
    if isinstance(made, str):
        return Refused(made)
    plan = AttentionPlan(target, made, count(*found.variables[:2]), machine.threads)
    key = made.key
    assert isinstance(key, AttentionKey)
    with guard:
        code = engine.compiled(emit.emitted, target, key)
    phases = [[[key.signature.step(code, **values)] for values in pieces] for pieces in plan.phases()]
    for k in found.kept:
        more = kept_placed(k, tensors)
        if isinstance(more, str):
            return Refused(more)
        (own, numbers), batches = more
        assert isinstance(own, KeptKey)
        with guard:
            code = engine.compiled(kept.emitted, target, own)
        for first, end in pairwise(batches * i // plan.threads for i in range(plan.threads + 1)):
            phases[0].append([own.signature.step(code, **numbers, first=first, end=end)])
    counters = np.array([place + LEFT for place in plan.states()], np.int64)
    with guard:
        ending = engine.compiled(any_undecided, target)
    # the last thing to check: no phase ends the call before the next one
    phases.append([[COUNTERS.step(ending, table=At("constants"), count=len(counters), base=At("scratch"))]])
    name = found.output.name
    places = numbered(found, plan.undecided_row)
    elements = NumberedElements(name, places, Decision(problem.statement[name], tensors[name].data_type, target))
    bitmap = Bitmap(elements, plan.undecided // 8, plan.undecided_rows * plan.undecided_row // 8)
    return Lowered(
        target,
        [Rounds(phases)],
        scratch=plan.scratch,
        constants=counters.view(np.uint8),
        short=plan.work < tuning.TUNING.short,
        decide=of_bitmaps([bitmap]),
        once=True,
        interruptible=len(phases) > 2,
    )


def numbered(found: Attention, row: int) -> Numbering:
    """The elements of the output by the bits of rows of so many bytes, which are more than the columns."""
    *outer, column = found.variables
    sizes = (*(1 if v is None else v.size for v in outer), 8 * row)
    steps = [[0 if v is None else x.factors.get(v, 0) for x in found.output.at] for v in (*outer, column)]
    return Numbering(sizes, steps, [x.constant for x in found.output.at])
