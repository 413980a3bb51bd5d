"""The family of products with weights of 4 or 8 bits: matrix products of floats whose columns are dequantised constants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.fork_safety import guard
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code import engine
from anydml.kernels.code.targets import wanted
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.floats.layout import FloatLayout, layout
from anydml.kernels.contract.floats.plan import FloatMemory, FloatProblem
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.contract.weights.factor import WEIGHTS, Dequantisation, WeightsFactor, dequantised_factor
from anydml.kernels.contract.weights.packing import as_integers, fitting, packed
from anydml.kernels.contract.weights.plan import FACTORS, NORMS, ROWS_OF_INTEGERS, SCALES, WORDS, ZEROS, plan_of, serves
from anydml.kernels.elementwise.combined import combined
from anydml.kernels.kernel import Arrays, Decide, Lowered, Machine, Refused
from anydml.kernels.match.contraction import SUM, contractions
from anydml.kernels.match.unmatched import Unmatched
from anydml.kernels.numbers.singles import SINGLES
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.lists import COUNTERS, any_undecided
from anydml.kernels.undecided.places import Bitmap, NumberedElements, Numbering, of_bitmaps
from anydml.tensor import TensorDesc

MOST_TERMS = 1 << 20  # as in contractions of floats


def lower(problem: Problem, machine: Machine) -> Lowered | Refused:
    """Steps for a statement of sums of products with dequantised weights."""
    try:
        statement, weighed = dequantised_factor(problem)
    except Unmatched as error:
        return Refused(str(error))
    weights_desc = TensorDesc(weighed.data_type, weighed.sizes).spelled_out()
    floats = Problem(statement, {**problem.tensors, WEIGHTS: weights_desc})
    found, target = contractions(statement), wanted(machine.isa, machine.stage)
    if isinstance(found, str):
        return Refused(found)
    if isinstance(target, str):
        return Refused(target)
    ((name, nest),) = statement.items()
    output = problem.tensors[name].data_type
    if len(found) != 1 or any(f.data_type not in SINGLES for f in found[0].factors) or output not in SINGLES:
        return Refused("the sums are not one product of floats of 32 or 16 bits")
    (c,) = found
    side = next(k for k, f in enumerate(c.factors) if f.name == WEIGHTS)
    made = layout(c, floats, side)
    if isinstance(made, str):
        return Refused(made)
    if (transposed := _transposed(made, weighed)) is None or made.terms > MOST_TERMS:
        return Refused("the product does not read whole rows or columns of the weights, of at most 2^20 terms")
    factor = weighed.factor(transposed=transposed)
    integers = made.rows <= ROWS_OF_INTEGERS and as_integers(factor, target)
    if not integers and (reason := fitting(factor, target)):
        return Refused(reason)
    formula = combined(c.formula)
    types = (*(s.data_type for s in c.streams), output)
    at = next(k for k, s in enumerate(c.streams) if s.name == SUM)
    factors = c.factors[1 - side].data_type, factor.data_type
    made = made._replace(b=made.b._replace(at=At("constants")))  # the tensor of floats does not exist
    p = FloatProblem(target, made, Stored(formula, types, at), factors, machine.threads, tuning.TUNING)
    if not serves(p):
        return Refused("panels are not whole groups of columns")
    memory = FloatMemory(Scratch("scratch"), Scratch("passing"), Scratch("packed"), ConstantTables())
    weights = packed(factor, target, integers=integers)
    with guard:
        plan = plan_of(p, memory, weights)
        plan.plan_phases()
        counters = np.array([at.offset for at in plan.undecided_counts], np.int64)
        table = memory.constants.add(counters)
        ending = COUNTERS.step(engine.compiled(any_undecided, target), table=table, count=len(counters), base=At("scratch"))
    by_variable = dict(zip(c.variables, c.steps, strict=True))
    steps = [by_variable.get(v, [0] * len(c.start)) for v in made.order]
    numbering = Numbering([v.size for v in made.order], steps, c.start)
    elements = NumberedElements(name, numbering, Decision(nest, output, target))
    bitmap = Bitmap(elements, plan.bits.offset // 8, -(-prod(v.size for v in made.order) // 64))
    work = prod(made.batches) * made.rows * made.columns * made.terms
    return Lowered(
        target,
        [Rounds([*plan.phases, [[ending]]])],
        scratch=memory.kept.size,
        passing=memory.scratch.size,
        constants=memory.constants.array(),
        short=work < tuning.TUNING.short,
        decide=partial(_decide, of_bitmaps([bitmap]), factor),
        once=True,
        interruptible=len(plan.phases) > 1,
        own=_arrays(weights.words, weights.scales, weights.zeros, weights.norms, weights.factors),
    )


def _arrays(*arrays: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    return dict(zip((WORDS, SCALES, ZEROS, NORMS, FACTORS), arrays, strict=True))


def _decide(decide: Decide, factor: WeightsFactor, scratch: NDArray[np.int64], arrays: Arrays) -> None:
    """Decide elements that machine code left undecided, from dequantised weights."""
    decide(scratch, {**arrays, WEIGHTS: factor.dequantised()})


def _transposed(found: FloatLayout, weighed: Dequantisation) -> bool | None:
    """Whether the product's columns are the columns of the weights; False for the rows, None for anything else."""
    size = weighed.data_type.dtype.itemsize
    if len(found.table) != 1 or found.padded or found.sizes[:2] != (1, 1) or any(found.b.batches) or found.b.at.offset:
        return None
    if tuple(found.table[0, :2]) != (0, 0):
        return None
    rows, columns = weighed.elements.shape
    strides = found.b.columns[2], found.b_term
    if (found.columns, found.terms) == (rows, columns) and strides == (size * columns, size):
        return False
    return True if (found.terms, found.columns) == (rows, columns) and strides == (size, size * columns) else None
