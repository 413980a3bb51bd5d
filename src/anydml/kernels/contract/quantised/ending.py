"""The last steps of regions that are quantised: the pieces, and the check whether some output is still undecided."""

from __future__ import annotations

import numpy as np

from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.epilogue.estimates import LEFT, STATE
from anydml.kernels.contract.geometry import ConstantTables
from anydml.kernels.undecided.lists import COUNTERS, any_undecided


def ending(constants: ConstantTables, target: Target, states: At, pieces: list[list[Step]]) -> list[Rounds]:
    """The rounds of all pieces, each with a state, and of the check."""
    counters = [states.offset + STATE * i + LEFT for i in range(len(pieces))]
    table = constants.add(np.array(counters, np.int64))
    last = COUNTERS.step(engine.compiled(any_undecided, target), table=table, count=len(counters), base=At("scratch"))
    if len(pieces) == 1:
        return [Rounds([[[*pieces[0], last]]])]
    return [Rounds([pieces, [[last]]])]
