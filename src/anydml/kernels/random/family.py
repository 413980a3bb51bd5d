"""The family of random words, in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import mul

from anydml.kernels.call.signature import Arguments, stepped
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.copy.copies import copy
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.random_words import WORDS, Words, random_words
from anydml.kernels.matched import lowers
from anydml.kernels.problem import Problem
from anydml.kernels.random import emit, tuning
from anydml.kernels.random.emit import RANDOM
from anydml.schema.node import Expr
from anydml.tensor import DataType, TensorDesc


@lowers(random_words)
def lower(found: Words, target: Target, problem: Problem, machine: Machine) -> Lowered | Refused:
    """The steps that compute the words in row-major order, and copy them to the output if it has another layout."""
    into, state = problem.tensors[found.target], problem.tensors[found.state]
    after = None if found.after is None else problem.tensors[found.after]
    if any(t is not None and t.data_type != DataType.UINT32 for t in (into, after, None if after is None else state)):
        return Refused("random bits or the state are stored as another type than UINT32")
    named: list[Expr] = []
    kernel_key = emit.RandomKey(emit.arithmetic(found.counter, named), emit.arithmetic(found.key, named))
    code = engine.compiled(emit.emitted, target, kernel_key)
    count = prod(into.sizes)
    packed = TensorDesc(into.data_type, into.sizes).explicit_strides
    in_order = all(n == 1 or a == b for n, a, b in zip(into.sizes, into.explicit_strides, packed, strict=True))
    base = At(found.target) if in_order else At("scratch")
    threads = machine.threads if count >= tuning.TUNING.alone else 1
    share = -(-count // (WORDS * tuning.TUNING.piece * threads)) * tuning.TUNING.piece  # counters per thread
    places = [_place(e, state) for e in named]
    nothing = Arguments(after=0, after_step=0, state=0, state_step=0, words=0)
    afterwards = nothing
    if after is not None and found.after is not None:
        steps = [4 * t.explicit_strides[-1] for t in (after, state)]
        afterwards = Arguments(**stepped("after", At(found.after), steps[0]), **stepped("state", At(found.state), steps[1]))
        afterwards["words"] = after.sizes[-1]
    pieces: list[Sequence[Step]] = []
    for first in range(0, -(-count // WORDS), share):
        words = min(WORDS * share, count - WORDS * first)
        here = afterwards if first == 0 else nothing
        pieces.append([RANDOM.step(code, *places, target=base + 16 * first, first=first, count=words, all=count, **here)])
    phases: list[Sequence[Sequence[Step]]] = [pieces]
    scratch = 0
    if not in_order:
        scratch = -(-4 * count // 64) * 64
        made = copy(target, into.sizes, [4 * s for s in packed], [4 * s for s in into.explicit_strides], 4)
        phases.append([made.steps(base, At(found.target), At("scratch", scratch))])
        scratch += made.scratch * len(made.pieces)
    return Lowered(target, [Rounds(phases)], scratch=scratch, short=count < tuning.TUNING.short)


def _place(e: Expr, state: TensorDesc) -> At:
    """The address of an element of the state, whose indices are constants."""
    index = [int(a.data.value) for a in e.args]
    return At(e.data[0].name, sum(map(mul, index, state.explicit_strides)) * state.data_type.dtype.itemsize)
