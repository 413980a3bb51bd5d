"""The steps of a region: sums of integers, estimates of the outputs, and what these leave open decided as stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from anydml.graphs.plan import Region
from anydml.graphs.quantised import OTHER, SUMS, WEIGHTS, X
from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract.family import SHORT, contraction, planned
from anydml.kernels.contract.floats.family import any_open
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.contract.layout import WRAPS
from anydml.kernels.contract.plan import CONSTANTS
from anydml.kernels.contract.problem import OUTPUTS
from anydml.kernels.contract.quantised import bounds
from anydml.kernels.contract.quantised.estimate import SIDE, STATE, estimate
from anydml.kernels.contract.quantised.exactly import decide
from anydml.kernels.contract.quantised.geometry import Geometry, of_convolution, of_product
from anydml.kernels.contract.quantised.refine import refine
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.convolution import Convolution
from anydml.kernels.match.product import Product
from anydml.tensor import DataType, TensorDesc, limits

NAME = "contract.quantised:compiled"
FEW = 1 << 14  # outputs that one thread rounds
FAR = 1e30  # a bound that leaves every sum open, where slack is 1
MOST = 2**31  # outputs, whose numbers are int32


def lower(region: Region, tensors: Mapping[str, TensorDesc], machine: Machine, slack: float = 0.0) -> Lowered | Refused:
    """The steps of a region. tensors: by name, as its work reads and writes them. slack: is added to the factor of bounds."""
    output, x, other = tensors["output"], tensors[X], tensors.get(OTHER)
    checked = cast(Any, SimpleNamespace(tensors={**tensors, SUMS: region.desc}))
    found = contraction({SUMS: region.sums}, checked)
    if isinstance(found, str):
        return Refused(found)
    if not isinstance(found, Convolution | Product):
        return Refused("the sums are no product or convolution")
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    if found.terms > WRAPS:
        return Refused(f"K = {found.terms}: int32 does not hold sums of more than {WRAPS} products")
    count = math.prod(output.sizes)
    if output.explicit_strides != TensorDesc(output.data_type, output.sizes).explicit_strides or count >= MOST:
        return Refused("the outputs do not lie one after the other, or are too many")
    if other is not None and other.explicit_strides != output.explicit_strides:
        return Refused("what is added does not lie as the outputs do")
    geometry = of_convolution(found) if isinstance(found, Convolution) else of_product(found)
    numbers = bounds.estimate(region, x.data_type, None if other is None else other.data_type, output.data_type)
    if isinstance(numbers, str) or geometry is None:
        return Refused(numbers if isinstance(numbers, str) else "weights differ between batches")
    plan = planned(found, {**tensors, SUMS: region.desc}, target, machine.threads)
    if isinstance(plan, Refused):
        return plan
    constants = _Constants()
    scratch = Scratch("scratch")
    scratch.size = plan.scratch.size
    passing = Scratch("passing")
    passing.size = plan.passing.size
    sums = passing.take(4 * count + 4 * SIDE * target.vector_bytes)
    rounding = _Rounding(region, target, constants, numbers, geometry, tensors, slack)
    threads = 1 if count < FEW else plan.threads
    pieces = [rounding.piece(rows, sums, scratch) for rows in rounding.cut(output.sizes, threads)]
    counters = [state.offset for _, state, _ in pieces]
    table = constants.add(np.array(counters, np.int64))
    ending = Step(engine.compiled(any_open, target), (table, len(counters), At("scratch")))
    before = [
        Rounds(_moved(rounds.phases, sums), rounds.times, tuple(_moved(phases, sums) for phases in rounds.moved))
        for rounds in plan.rounds
    ]
    last = Rounds([[steps for steps, _, _ in pieces], [[ending]]])
    if len(pieces) == 1:
        last = Rounds([[[*pieces[0][0], ending]]])
    listed = [(state.offset // 8, at.offset // 4) for _, state, at in pieces]
    return Lowered(
        target,
        [*before, last],
        scratch.size,
        passing.size,
        constants=constants.array(),
        packing=plan.packing if plan.owned else (),
        packed=plan.packed.size,
        spare=plan.spare.size,
        short=plan.at.problem.products < SHORT,
        decide=partial(decide, region, geometry, x.data_type, listed),
        once=True,
    )


class _Constants:
    """Tables that steps read, in one array, behind those of the sums."""

    def __init__(self) -> None:
        self.parts = [CONSTANTS.tobytes()]
        self.size = len(self.parts[0])

    def add(self, table: NDArray[Any]) -> At:
        raw, at = table.tobytes(), At("constants", self.size)
        self.parts.append(raw + bytes(-len(raw) % 64))
        self.size += len(self.parts[-1])
        return at

    def array(self) -> NDArray[np.uint8]:
        return np.frombuffer(bytearray().join(self.parts), np.uint8)


class _Rounding:
    """The steps that make outputs of sums, and their tables."""

    def __init__(
        self,
        region: Region,
        target: Target,
        constants: _Constants,
        numbers: bounds.Estimate,
        geometry: Geometry,
        tensors: Mapping[str, TensorDesc],
        slack: float,
    ) -> None:
        self.region, self.target = region, target
        x_type, weights_type, output_type = (tensors[name].data_type for name in (X, WEIGHTS, "output"))
        channels = len(region.bias)
        lanes = SIDE * target.vector_bytes // 4
        self.channels = channels
        rows = np.zeros((3, channels + lanes), np.float32)
        rows[:, :channels] = numbers.factor, numbers.term, numbers.limit
        self.table = constants.add(rows)
        zero = region.rounding[1]
        ends = np.array([numbers.low - zero, numbers.high - zero], np.float32).view(np.uint32)
        self.ends = int(ends[0]), int(ends[1]), zero
        self.geometry = constants.add(geometry.words())
        self.elements = constants.add(bounds.elements_of(x_type, *region.x)[1].astype(np.float64))
        terms = geometry.inner[0] * math.prod(window[0] for window in geometry.windows)
        fields = [("scale", np.float32), ("zero", np.int32), ("bias", np.float32), ("bound", np.float32)]
        records = np.zeros(channels, np.dtype(fields))
        records["scale"], records["zero"], records["bias"] = *region.weights, region.bias
        records["bound"] = bounds.of_sums(region, x_type, terms) + np.float32(FAR * slack)
        self.records = constants.add(records)
        rule = np.zeros(6, np.int32)
        rule[:3] = np.array([*region.bounds, region.rounding[0]], np.float32).view(np.int32)
        rule[3:] = zero, *limits(output_type)
        self.rule = constants.add(rule)
        self.slack = int(np.float64((terms + 4) * 2.0**-52 + slack).view(np.int64))
        self.signed = weights_type is DataType.INT8
        self.kind, self.more, self.added = "", (At("constants"), 0), At("constants")
        if region.other is not None:
            other_type = tensors[OTHER].data_type
            self.kind, self.more = OUTPUTS[other_type], (At(OTHER), int(numbers.other.view(np.uint32)))
            self.added = constants.add(bounds.elements_of(other_type, *region.other)[1])

    def cut(self, sizes: Sequence[int], threads: int) -> list[tuple[range, int]]:
        """Rows for each thread, and the columns of a row."""
        at = self.region.channel
        last = at == len(sizes) - 1
        split = len(sizes) - 1 if at is None or last else at + 1
        rows, columns = math.prod(sizes[:split]), math.prod(sizes[split:])
        ends = [rows * i // threads for i in range(threads + 1)]
        return [(range(a, b), columns) for a, b in pairwise(ends) if a < b]

    def piece(self, rows: tuple[range, int], sums: At, scratch: Scratch) -> tuple[list[Step | Repeat], At, At]:
        """The steps of some rows, where they count what is open, and where that is listed."""
        (some, columns), state = rows, scratch.take(STATE)
        by_column = self.region.channel == len(self.region.desc.sizes) - 1
        first = some.start * columns
        here = sums + 4 * first
        channel = 0 if by_column else some.start % self.channels
        code = engine.compiled(estimate, self.target, by_column, self.kind)
        table = self.table, state, *self.ends
        other, factor = self.more
        numbers = len(some), columns, first, channel, self.channels
        estimated = (here, At("output", first), *numbers, *table, other + first * bool(self.kind), factor)
        more = engine.compiled(refine, self.target, self.signed, bool(self.kind))
        tables = self.geometry, self.elements, self.records, self.rule
        refined = (state, here, *tables, At(X), At(WEIGHTS), At("output"), self.slack, other, self.added)
        return [Step(code, estimated), Step(more, refined)], state, here


def _moved(phases: Any, sums: At) -> Any:
    """Steps on the tensor of sums, which is in scratch memory."""
    return [[[_step(step, sums) for step in piece] for piece in phase] for phase in phases]


def _step(step: Step | Repeat, sums: At) -> Step | Repeat:
    if isinstance(step, Repeat):
        return step._replace(first=[_step(x, sums) for x in step.first], second=[_step(x, sums) for x in step.second])
    arguments = tuple(sums + x.offset if isinstance(x, At) and x.base == SUMS else x for x in step.arguments)
    return step._replace(arguments=arguments)
