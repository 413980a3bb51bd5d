"""The steps of a region whose x has 16 bits: two planes of bytes, their sums by tiles of bytes, and outputs from both.

The weights must be known when the region is compiled: their norms bound what roundings of dequantised numbers change, and a
second copy, column by column, serves the outputs that the bounds leave undecided.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds
from anydml.kernels.code import engine
from anydml.kernels.code.targets import wanted
from anydml.kernels.contract import tuning
from anydml.kernels.contract.epilogue import estimates
from anydml.kernels.contract.epilogue.estimates import STATE, begun
from anydml.kernels.contract.family import contraction, planned
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.contract.plan import CONSTANTS
from anydml.kernels.contract.problem import WRAPS
from anydml.kernels.contract.quantised.ending import ending
from anydml.kernels.contract.quantised.finish import CHANNEL_ROWS, FINISH, finish
from anydml.kernels.contract.quantised.planes import MARGIN, NORMS, PLANES, planes
from anydml.kernels.contract.quantised.sums import SUMS, QuantisedSums
from anydml.kernels.contract.rounds import based
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.product import MatrixProduct
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Bitmap, NumberedElements, in_order, of_bitmaps
from anydml.tensor import DataType, TensorDesc, limits

FAR = 2.0**60
UNKNOWN = 1e30  # the bound that leaves every output undecided, for a slack of 1
MOST = 2**31
ROUNDINGS = 2.0**-50  # of the estimate, of its factor, and of its ends: four of 2^-53, and a margin
FEW = 1 << 14  # with fewer outputs, one thread makes them


def of_planes(problem: Problem, region: QuantisedSums, machine: Machine, slack: float) -> Lowered | Refused:
    """The steps, or the reason why there are none. slack: is added to bounds, as a share of UNKNOWN."""
    name, _, output, other = region.names
    x, y = problem.tensors[name], problem.tensors[output]
    found = contraction(Problem({SUMS: region.sums}, region.tensors))
    if not isinstance(found, MatrixProduct) or found.a.name != name:
        return Refused("sums of 16-bit elements are no product from the left")
    if region.integers is None or other is not None:
        return Refused("the weights are not known, or a tensor is added")
    terms, columns = found.b.desc.sizes[-2:]
    rows = math.prod(y.sizes[:-1])
    packed = all(t.explicit_strides == TensorDesc(t.data_type, t.sizes).explicit_strides for t in (x, y))
    if not packed or math.prod(x.sizes) != rows * terms or region.integers.size != terms * columns:
        return Refused("tensors are not packed, or weights differ between batches")
    if terms > WRAPS or rows * columns >= MOST:
        return Refused(f"K = {terms}: int32 does not hold the sums, or there are too many outputs")
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    scales = np.array([region.x[0], region.rounding[0]])
    if not ((scales > 1 / FAR) & (scales < FAR)).all() or not (np.abs(region.weights[0]) < FAR).all():
        return Refused("a scale is not positive, or extreme")
    zeros = ((x.data_type, region.x[1]), (y.data_type, region.rounding[1]))
    if not all(low <= zero <= most for (low, most), zero in ((limits(kind), zero) for kind, zero in zeros)):
        return Refused("a zero point is beyond its type")  # they are INT32
    if not np.isfinite(region.bias).all():
        return Refused("the bias is not finite")
    plan = planned(found, region.tensors, target, machine.threads)
    if isinstance(plan, Refused):
        return plan
    constants = ConstantTables(CONSTANTS.tobytes())
    signed = x.data_type is DataType.INT16
    by_column = np.ascontiguousarray(region.integers.reshape(terms, columns).T)
    table, pitch = _channels(region, by_column, 1 << 15 if signed else 0, target.vector_bytes // 8)
    rule = np.zeros(8, np.int32)
    rule[:3] = np.array([*region.bounds, region.rounding[0]], np.float32).view(np.int32)
    rule[3:6] = region.rounding[1], *limits(y.data_type)
    rule[6:] = np.array([(terms + 16) * 2.0**-52]).view(np.int32)  # twice the roundings of a sum
    scratch, passing = Scratch("scratch"), Scratch("passing")
    scratch.size, passing.size = plan.scratch.size, plan.passing.size
    high, low = (passing.take(rows * terms) for _ in range(2))
    sums = [passing.take(4 * rows * columns + target.vector_bytes) for _ in range(2)]
    norms = passing.take(NORMS * rows)
    pieces = 1 if rows * columns < FEW else min(plan.threads, rows)
    states, bits = scratch.take(STATE * pieces), scratch.take(-(-rows * columns // 8))
    cut = [*pairwise(rows * i // pieces for i in range(pieces + 1))]
    scale = int(np.float32(region.x[0]).view(np.uint32))
    numbers = Arguments(terms=terms, zero=region.x[1], scale=scale)
    split = engine.compiled(planes, target, signed)
    first = [
        [
            PLANES.step(
                split,
                x=At(name, 2 * a * terms),
                high=high + a * terms,
                low=low + a * terms,
                norms=norms + NORMS * a,
                rows=b - a,
                **numbers,
            )
        ]
        for a, b in cut
    ]
    tables = Arguments(weights=constants.add(by_column), channels=constants.add(table), pitch=pitch, rule=constants.add(rule))
    unsure = (UNKNOWN * (slack + later) for later in (target.later, target.exact))
    first_bound, second_bound = (int(np.float64(v).view(np.int64)) for v in unsure)
    last = engine.compiled(finish, target, f"i{y.data_type.element_bits}", signed, by_column.dtype == np.int8)
    ends = []
    for i, (a, b) in enumerate(cut):
        state = states + STATE * i
        begin = estimates.BEGUN.step(engine.compiled(begun, target), state=state, list=state, room=0)
        tensors = Arguments(high=sums[0], low=sums[1], x=At(name), norms=norms, output=At(output), bits=bits, state=state)
        some = Arguments(first=a, end=b, columns=columns, slack=first_bound, more=second_bound)
        ends.append([begin, FINISH.step(last, **tensors, **tables, **some, **numbers)])

    def summed(plane: At, into: At) -> list[Rounds]:
        return [based(r, lambda _: {name: plane, SUMS: into}) for r in plan.rounds]

    rounds = [Rounds([first]), *summed(high, sums[0]), *summed(low, sums[1])]
    ((_, nest),) = problem.statement.items()
    elements = NumberedElements(output, in_order(y.sizes, range(len(y.sizes))), Decision(nest, y.data_type, target))
    return Lowered(
        target,
        [*rounds, *ending(constants, target, states, ends)],
        scratch.size,
        passing.size,
        constants=constants.array(),
        packing=plan.packing if plan.owned else (),
        packed=plan.packed.size,
        spare=plan.spare.size,
        short=plan.at.problem.products < tuning.TUNING.short,
        decide=of_bitmaps([Bitmap(elements, bits.offset // 8, -(-rows * columns // 64))]),
        once=True,
        own=region.own,
    )


def _channels(
    region: QuantisedSums,
    by_column: NDArray[Any],
    offset: int,
    lanes: int,
) -> tuple[NDArray[np.float64], int]:
    """The table of `finish`, and the bytes of a row."""
    columns, terms = by_column.shape
    (x_scale, x_zero), (scales, zeros) = region.x, (np.broadcast_to(v, columns) for v in region.weights)
    bias = np.broadcast_to(region.bias, columns).astype(np.float64)
    wide = scales.astype(np.float64)
    table = np.zeros((CHANNEL_ROWS, columns + lanes))
    centred = by_column.astype(np.float64) - zeros[:, None]
    exact = centred * wide[:, None]  # 24 bits and 9
    rounded = round_to_float32(exact).astype(np.float64)
    off = rounded - exact
    factor = x_scale * wide
    errors = np.sqrt((off * off).sum(1)) * MARGIN
    largest = float(terms << 24)  # the most that a sum of integers may be
    # the estimate is exact if neither it nor a dequantised number is rounded
    integers = np.arange(1 << 16, dtype=np.float64) - offset - x_zero
    unrounded = (round_to_float32(integers * x_scale).astype(np.float64) == integers * x_scale).all()
    mantissa = np.abs(np.frexp(factor)[0]) * 2.0**14
    short = (mantissa == np.rint(mantissa)) & (factor != 0)
    unit = np.ldexp(1.0, np.frexp(factor)[1] - 14)
    units = bias / unit
    whole = (units == np.rint(units)) & (np.abs(units) + largest * 2.0**14 < 2.0**53)
    table[:, :columns] = [
        factor,
        bias,
        np.sqrt((rounded * rounded).sum(1)) * MARGIN,
        errors,
        np.where(unrounded & (errors == 0) & short & whole, 0.0, ROUNDINGS),
        (offset + x_zero) * centred.sum(1),
        wide,
        zeros,
    ]
    return table, table.shape[1] * 8
