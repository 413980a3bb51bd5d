"""The steps of a region: sums of integers, estimates of the outputs, and what these leave open decided as stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from anydml.graphs.plan import Region
from anydml.graphs.quantised import SUMS, WEIGHTS, X
from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract.family import SHORT, contraction, planned
from anydml.kernels.contract.floats.family import any_open
from anydml.kernels.contract.geometry import Scratch
from anydml.kernels.contract.layout import WRAPS
from anydml.kernels.contract.plan import CONSTANTS
from anydml.kernels.contract.problem import in_bytes
from anydml.kernels.contract.quantised import bounds
from anydml.kernels.contract.quantised.estimate import SIDE, STATE, estimate
from anydml.kernels.contract.quantised.exactly import decide
from anydml.kernels.contract.quantised.refine import refine
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.convolution import Convolution
from anydml.kernels.match.product import Product
from anydml.tensor import DataType, TensorDesc, limits

NAME = "contract.quantised:compiled"
FEW = 1 << 14  # outputs that one thread rounds
MOST = 2**31  # outputs, whose numbers are int32


class Geometry(NamedTuple):
    """Which elements an output is a sum of, as `refine` reads it, for the output's number in row-major order.

    dimensions: of the output, six, each with its size and the steps in bytes of x and weights, and that of channels. windows:
    of the last three: taps, dilation, stride, start, size of x, and the steps of x and weights. inner: count, and steps.
    """

    dimensions: tuple[tuple[int, int, int, int], ...]
    windows: tuple[tuple[int, int, int, int, int, int, int], ...]
    inner: tuple[int, int, int]

    def words(self) -> NDArray[np.int64]:
        return np.array([n for row in (*self.dimensions, *self.windows, self.inner) for n in row], np.int64)


ONE, STILL = (1, 0, 0, 0), (1, 0, 0, 0, 1, 0, 0)


def of_convolution(p: Convolution) -> Geometry:
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    xs, fs = in_bytes(x), in_bytes(f)
    channels, filters = f.sizes[1], f.sizes[0] // p.groups
    outer = (
        (y.sizes[0], xs[0], 0, 0),
        (p.groups, channels * xs[1], filters * fs[0], filters),
        (filters, 0, fs[0], 1),
    )
    missing = 3 - len(p.strides)
    places = (*[ONE] * missing, *((n, 0, 0, 0) for n in y.sizes[2:]))
    each = zip(f.sizes[2:], p.dilations, p.strides, p.starts, x.sizes[2:], xs[2:], fs[2:], strict=True)
    return Geometry((*outer, *places), (*[STILL] * missing, *each), (channels, xs[1], fs[1]))


def of_product(p: Product) -> Geometry | None:
    a, b = p.a.desc, p.b.desc
    at, bt = in_bytes(a), in_bytes(b)
    if len(a.sizes) > 6 or math.prod(b.sizes[:-2]) != 1:
        return None
    outer = tuple((n, s, 0, 0) for n, s in zip(a.sizes[:-1], at[:-1], strict=True))
    dimensions = (*[ONE] * (5 - len(outer)), *outer, (b.sizes[-1], 0, bt[-1], 1))
    return Geometry(dimensions, (STILL,) * 3, (a.sizes[-1], at[-1], bt[-2]))


def lower(region: Region, tensors: Mapping[str, TensorDesc], machine: Machine, slack: float = 0.0) -> Lowered | Refused:
    """The steps of a region. tensors: by name, as its work reads and writes them. slack: is added to the factor of bounds."""
    output, x, weights = tensors["output"], tensors[X], tensors[WEIGHTS]
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
    geometry = of_convolution(found) if isinstance(found, Convolution) else of_product(found)
    numbers = bounds.estimate(region, x.data_type, output.data_type)
    if isinstance(numbers, str) or geometry is None:
        return Refused(numbers if isinstance(numbers, str) else "weights differ between batches")
    plan = planned(found, {**tensors, SUMS: region.desc}, target, machine.threads)
    if isinstance(plan, Refused):
        return plan
    constants = _Constants()
    scratch = Scratch("scratch")
    scratch.size = plan.scratch.size
    sums = scratch.take(4 * count + 4 * SIDE * target.vector_bytes)
    rounding = _Rounding(
        region, target, constants, numbers, geometry, (x.data_type, weights.data_type, output.data_type), slack
    )
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
        types: tuple[DataType, DataType, DataType],
        slack: float,
    ) -> None:
        self.region, self.target = region, target
        x_type, weights_type, output_type = types
        channels = len(region.bias)
        lanes = SIDE * target.vector_bytes // 4
        self.channels = channels
        rows = np.zeros((3, channels + lanes), np.float32)
        rows[:, :channels] = numbers[:3]
        self.table = constants.add(rows)
        zero = region.rounding[1]
        ends = np.array([numbers.low - zero, numbers.high - zero], np.float32).view(np.uint32)
        self.ends = int(ends[0]), int(ends[1]), zero
        self.geometry = constants.add(geometry.words())
        self.elements = constants.add(bounds.elements_of(x_type, *region.x)[1].astype(np.float64))
        records = np.zeros(channels, np.dtype([("scale", np.float32), ("zero", np.int32), ("bias", np.float32)]))
        records["scale"], records["zero"], records["bias"] = *region.weights, region.bias
        self.records = constants.add(records)
        rule = np.zeros(6, np.int32)
        rule[:3] = np.array([*region.bounds, region.rounding[0]], np.float32).view(np.int32)
        rule[3:] = zero, *limits(output_type)
        self.rule = constants.add(rule)
        terms = geometry.inner[0] * math.prod(window[0] for window in geometry.windows)
        self.slack = int(np.float64((terms + 4) * 2.0**-52 + slack).view(np.int64))
        self.signed = weights_type is DataType.INT8

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
        code = engine.compiled(estimate, self.target, by_column)
        table = self.table, state, *self.ends
        estimated = (here, At("output", first), len(some), columns, first, channel, self.channels, *table)
        more = engine.compiled(refine, self.target, self.signed)
        tables = self.geometry, self.elements, self.records, self.rule
        refined = (state, here, *tables, At(X), At(WEIGHTS), At("output"), self.slack)
        return [Step(code, estimated), Step(more, refined)], state, here


def _moved(phases: Any, sums: At) -> Any:
    """Steps on the tensor of sums, which is in scratch memory."""
    return [[[_step(step, sums) for step in piece] for piece in phase] for phase in phases]


def _step(step: Step | Repeat, sums: At) -> Step | Repeat:
    if isinstance(step, Repeat):
        return step._replace(first=[_step(x, sums) for x in step.first], second=[_step(x, sums) for x in step.second])
    arguments = tuple(sums + x.offset if isinstance(x, At) and x.base == SUMS else x for x in step.arguments)
    return step._replace(arguments=arguments)
