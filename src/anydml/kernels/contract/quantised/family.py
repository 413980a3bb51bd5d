"""The steps of a region: sums of integers, estimates of the outputs, and the decision of outputs that these leave undecided."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract import tuning
from anydml.kernels.contract.epilogue import estimates
from anydml.kernels.contract.epilogue.estimates import STATE, begun
from anydml.kernels.contract.epilogue.rule import fused
from anydml.kernels.contract.family import contraction, planned
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.contract.plan import CONSTANTS, IntegerPlan
from anydml.kernels.contract.problem import OPEN, OUTPUTS, WRAPS, Estimated
from anydml.kernels.contract.quantised import bounds
from anydml.kernels.contract.quantised.ending import ending
from anydml.kernels.contract.quantised.estimate import ESTIMATE, SIDE, estimate
from anydml.kernels.contract.quantised.geometry import Geometry, of_convolution, of_product
from anydml.kernels.contract.quantised.of_planes import of_planes
from anydml.kernels.contract.quantised.refine import REFINE, refine
from anydml.kernels.contract.quantised.sums import SUMS, QuantisedSums, quantised_sums, sums_of_planes
from anydml.kernels.contract.rounds import based
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.convolution import Convolution
from anydml.kernels.match.product import MatrixProduct, Operand
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Bitmap, NumberedElements, in_order, of_bitmaps
from anydml.tensor import DataType, TensorDesc, limits

FEW = 1 << 14  # with fewer outputs, one thread rounds
FARTHEST = 2.0**30  # estimates below this are int32
FEW_TERMS = 64  # sums with at most this many terms are short
SHARE, LEAST = 8, 256  # a list has room for one in SHARE outputs, plus LEAST
FAR = 1e30  # the bound that leaves every sum undecided, for a slack of 1
MOST = 2**31  # most outputs, whose numbers are int32


def lower(problem: Problem, machine: Machine, slack: float = 0.0) -> Lowered | Refused:
    """The steps of sums between 8-bit tensors. slack: is added to the factor of bounds."""
    region = quantised_sums(problem)
    if isinstance(region, str):
        wide = sums_of_planes(problem)
        return Refused(region) if isinstance(wide, str) else of_planes(problem, wide, machine, slack)
    x, output, other = (None if n is None else region.tensors[n] for n in (region.names[0], *region.names[2:]))
    assert x is not None
    assert output is not None
    found = contraction(Problem({SUMS: region.sums}, region.tensors))
    if isinstance(found, str):
        return Refused(found)
    if not isinstance(found, Convolution | MatrixProduct):
        return Refused("the sums are no product or convolution")
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    if found.terms > WRAPS:
        return Refused(f"K = {found.terms}: int32 does not hold sums of more than {WRAPS} products")
    count = math.prod(output.sizes)
    if output.explicit_strides != TensorDesc(output.data_type, output.sizes).explicit_strides or count >= MOST:
        return Refused("the output is not packed, or has too many elements")
    if other is not None and other.explicit_strides != output.explicit_strides:
        return Refused("the added tensor and the output differ in their strides")
    geometry = of_convolution(found) if isinstance(found, Convolution) else of_product(found, found.a.name == region.names[1])
    other_type = None if other is None else other.data_type
    numbers = bounds.estimate(region, x.data_type, other_type, output.data_type, fused(target))
    if isinstance(numbers, str) or geometry is None:
        return Refused(numbers if isinstance(numbers, str) else "weights differ between batches")
    constants = ConstantTables(CONSTANTS.tobytes())
    rounding = _Rounding(region, target, constants, numbers, geometry, slack)
    made = in_tiles(rounding, found, machine.threads) or of_sums(rounding, found, machine.threads)
    if isinstance(made, Refused):
        return made
    plan, rounds, scratch, passing, bits = made
    ((name, nest),) = problem.statement.items()
    places = in_order(output.sizes, range(len(output.sizes)))
    elements = NumberedElements(name, places, Decision(nest, output.data_type, target))
    return Lowered(
        target,
        rounds,
        scratch.size,
        passing.size,
        constants=constants.array(),
        packing=plan.packing if plan.owned else (),
        packed=plan.packed.size,
        spare=plan.spare.size,
        short=plan.at.problem.products < tuning.TUNING.short,
        decide=of_bitmaps([Bitmap(elements, bits.offset // 8, -(-count // 64))]),
        once=True,
        own=region.own,
    )


class _Made(NamedTuple):
    """The plan of the sums, all rounds, their memory, and the bitmap of undecided outputs."""

    plan: IntegerPlan
    rounds: list[Rounds]
    scratch: Scratch
    passing: Scratch
    bits: At


def _memory(plan: IntegerPlan) -> tuple[Scratch, Scratch]:
    """Memory after that of a plan."""
    scratch, passing = Scratch("scratch"), Scratch("passing")
    scratch.size, passing.size = plan.scratch.size, plan.passing.size
    return scratch, passing


def in_tiles(rounding: _Rounding, found: Convolution | MatrixProduct, threads: int) -> _Made | None:
    """The rounds of sums that tiles round themselves; None if they cannot."""
    output = found.output
    name = rounding.names[2]
    of_bytes = Operand(name, TensorDesc(rounding.tensors[name].data_type, output.desc.sizes))
    if rounding.kind or output.desc.explicit_strides != of_bytes.desc.explicit_strides:
        return None
    estimated = rounding.estimated(found)
    if estimated is None:
        return None
    plan = planned(found._replace(output=of_bytes), rounding.tensors, rounding.target, threads, estimated)
    if isinstance(plan, Refused):
        return None
    scratch, passing = _memory(plan)
    count, pieces = rounding.count, max(len(phase) for rounds in plan.rounds for phase in rounds.phases)
    states, bits = scratch.take(STATE * pieces), scratch.take(-(-count // 8))
    room = count // (SHARE * pieces) + LEAST
    lists = [passing.take(8 * room) for _ in range(pieces)]
    ends = [count * i // pieces for i in range(pieces + 1)]
    code = engine.compiled(begun, rounding.target)
    first = [estimates.BEGUN.step(code, state=states + STATE * i, list=at, room=room) for i, at in enumerate(lists)]
    rounds = [based(rounds, lambda i: {OPEN.base: states + STATE * i}) for rounds in plan.rounds]
    phase = rounds[0].phases[0]
    if not rounds[0].times and len(phase) == pieces:
        begins = [[[step, *piece] for step, piece in zip(first, phase, strict=True)], *rounds[0].phases[1:]]
        rounds[0] = Rounds(begins)
    else:
        rounds.insert(0, Rounds([[first]]))
    refined = [[rounding.refined(states, i, pieces, bits, range(*ends[i : i + 2]))] for i in range(pieces)]
    return _Made(plan, [*rounds, *ending(rounding.constants, rounding.target, states, refined)], scratch, passing, bits)


def of_sums(rounding: _Rounding, found: Convolution | MatrixProduct, threads: int) -> _Made | Refused:
    """The rounds that write sums, followed by those that round them."""
    plan = planned(found, rounding.tensors, rounding.target, threads)
    if isinstance(plan, Refused):
        return plan
    scratch, passing = _memory(plan)
    sums = passing.take(4 * rounding.count + 4 * SIDE * rounding.target.vector_bytes)
    rounds = [based(rounds, lambda i: {SUMS: sums}) for rounds in plan.rounds]
    rows = rounding.cut(1 if rounding.count < FEW else plan.threads)
    states, bits = scratch.take(STATE * len(rows)), scratch.take(-(-rounding.count // 8))
    code = engine.compiled(begun, rounding.target)
    pieces = []
    for i, (some, columns) in enumerate(rows):
        outputs = range(some.start * columns, some.stop * columns)
        state, room = states + STATE * i, len(outputs) // SHARE + LEAST
        estimated = rounding.of_sums(some, columns, sums + 4 * outputs.start, state)
        begin = estimates.BEGUN.step(code, state=state, list=passing.take(8 * room), room=room)
        pieces.append([begin, estimated, rounding.refined(state, 0, 1, bits, outputs)])
    return _Made(plan, [*rounds, *ending(rounding.constants, rounding.target, states, pieces)], scratch, passing, bits)


class _Rounding:
    """The steps that make outputs from sums, and their tables."""

    def __init__(
        self,
        region: QuantisedSums,
        target: Target,
        constants: ConstantTables,
        numbers: bounds.EstimateNumbers,
        geometry: Geometry,
        slack: float,
    ) -> None:
        if target.later:
            numbers = numbers._replace(limit=np.zeros_like(numbers.limit))
        self.region, self.target, self.constants, self.numbers = region, target, constants, numbers
        self.tensors, self.names = region.tensors, region.names
        x, weights, output, other = region.names
        self.count, self.table = math.prod(region.tensors[output].sizes), At("")
        x_type, weights_type, output_type = (region.tensors[name].data_type for name in (x, weights, output))
        channels = len(region.bias)
        self.channels = channels
        zero = region.rounding[1]
        ends = np.array([numbers.low - zero, numbers.high - zero], np.float32).view(np.int32)
        self.bounds = np.array([*ends, zero], np.int32)
        self.geometry = constants.add(geometry.words())
        self.elements = constants.add(bounds.elements_of(x_type, *region.x)[1].astype(np.float64))
        terms = geometry.inner[0] * math.prod(window[0] for window in geometry.windows)
        fields = [("scale", np.float32), ("zero", np.int32), ("bias", np.float32), ("bound", np.float32)]
        records = np.zeros(channels, np.dtype(fields))
        records["scale"], records["zero"], records["bias"] = *region.weights, region.bias
        records["bound"] = bounds.of_sums(region, x_type, terms) + np.float32(FAR * (slack + target.later))
        self.records = constants.add(records)
        rule = np.zeros(6, np.int32)
        rule[:3] = np.array([*region.bounds, region.rounding[0]], np.float32).view(np.int32)
        rule[3:] = zero, *limits(output_type)
        self.rule = constants.add(rule)
        self.slack = int(np.float64((terms + 4) * 2.0**-52 + slack + target.exact).view(np.int64))
        self.signed, self.few = weights_type is DataType.INT8, terms <= FEW_TERMS
        self.kind, self.more, self.added = "", (At("constants"), 0), At("constants")
        if other is not None and region.other is not None:
            other_type = region.tensors[other].data_type
            self.kind, self.more = OUTPUTS[other_type], (At(other), int(numbers.other.view(np.uint32)))
            self.added = constants.add(bounds.elements_of(other_type, *region.other)[1])

    def cut(self, threads: int) -> list[tuple[range, int]]:
        """The rows for each thread, and the columns of a row."""
        at, sizes = self.region.channel, self.tensors[self.names[2]].sizes
        last = at == len(sizes) - 1
        split = len(sizes) - 1 if at is None or last else at + 1
        rows, columns = math.prod(sizes[:split]), math.prod(sizes[split:])
        ends = [rows * i // threads for i in range(threads + 1)]
        return [(range(a, b), columns) for a, b in pairwise(ends) if a < b]

    def estimated(self, found: Convolution | MatrixProduct) -> Estimated | None:
        """The numbers by which a tile estimates outputs; None if channels are not all filters."""
        region, numbers = self.region, self.numbers
        channels = self.channels
        if isinstance(found, Convolution):
            channels = int(found.filters.desc.sizes[0])
        if self.channels not in (1, channels):
            return None
        ends, limit = self.constants.add(self.bounds), limits(self.tensors[self.names[2]].data_type)
        clamped = (numbers.low, numbers.high) != limit or numbers.most >= FARTHEST
        row, column = (4 * (channels > 1 and region.channel == len(region.tensors[SUMS].sizes) - n) for n in (2, 1))
        pitch = 4 * (channels + 2 * self.target.vector_bytes // 4)
        table = np.zeros((3, pitch // 4), np.float32)
        table[:, :channels] = numbers.factor, numbers.term, numbers.limit
        return Estimated(self.constants.add(table), pitch, row, column, ends, clamped)

    def of_sums(self, some: range, columns: int, sums: At, state: At) -> Step:
        """The step that estimates some rows of sums."""
        by_column = self.region.channel == len(self.region.tensors[SUMS].sizes) - 1
        rows = np.zeros((3, self.channels + SIDE * self.target.vector_bytes // 4), np.float32)
        rows[:, : self.channels] = self.numbers.factor, self.numbers.term, self.numbers.limit
        if not self.table.base:
            self.table = self.constants.add(rows)
        first = some.start * columns
        channel = 0 if by_column else some.start % self.channels
        code = engine.compiled(estimate, self.target, by_column, self.kind)
        other, factor = self.more
        low, high, zero = (int(x) for x in self.bounds)
        sizes = Arguments(rows=len(some), columns=columns, first=first, channel=channel, channels=self.channels)
        added = Arguments(other=other + first * bool(self.kind), factor=factor)
        ends, at = Arguments(low=low, high=high, zero=zero), Arguments(sums=sums, output=At(self.names[2], first))
        return ESTIMATE.step(code, **at, **sizes, table=self.table, state=state, **ends, **added)

    def refined(self, states: At, piece: int, pieces: int, bits: At, outputs: range) -> Step:
        """The step that decides the outputs that a piece has listed."""
        code = engine.compiled(refine, self.target, self.signed, bool(self.kind), self.few)
        x, weights, output, _ = self.names
        lists = Arguments(state=states + STATE * piece, states=states, pieces=pieces, bits=bits)
        tables = Arguments(geometry=self.geometry, elements=self.elements, channels=self.records, rule=self.rule)
        tensors = Arguments(x=At(x), weights=At(weights), output=At(output), other=self.more[0], added=self.added)
        return REFINE.step(code, **lists, first=outputs.start, end=outputs.stop, **tables, **tensors, slack=self.slack)
