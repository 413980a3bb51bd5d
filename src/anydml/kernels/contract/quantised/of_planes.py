"""The steps of a region whose x has 16 bits: two planes of bytes, their sums by tiles of bytes, and outputs from both.

The weights must be known when the region is compiled: their norms bound what roundings of dequantised numbers change, and a
second copy, channel by channel, serves the outputs that the bounds leave undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.exact.float32 import round_to_float32
from anydml.kernels.call.signature import Arguments
from anydml.kernels.call.steps import At, Repeat, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target, wanted
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import estimates
from anydml.kernels.contract.epilogue.estimates import STATE, begun
from anydml.kernels.contract.family import contraction, planned
from anydml.kernels.contract.geometry import ConstantTables, Scratch
from anydml.kernels.contract.plan import CONSTANTS, IntegerPlan
from anydml.kernels.contract.problem import WRAPS
from anydml.kernels.contract.quantised.bounds import of_magnitudes, quantised
from anydml.kernels.contract.quantised.closely import CLOSELY, closely
from anydml.kernels.contract.quantised.ending import ending
from anydml.kernels.contract.quantised.finish import CHANNEL_ROWS, FINISH, finish
from anydml.kernels.contract.quantised.planes import IMAGES, MARGIN, NORMS, PLANES, SPATIAL, planes, planes_of_images
from anydml.kernels.contract.quantised.sums import SUMS, QuantisedSums
from anydml.kernels.contract.rounds import based
from anydml.kernels.copy import copies
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.convolution import Beside, Convolution
from anydml.kernels.match.product import MatrixProduct, Operand
from anydml.kernels.problem import Problem
from anydml.kernels.undecided.decision import Decision
from anydml.kernels.undecided.places import Bitmap, NumberedElements, in_order, of_bitmaps
from anydml.tensor import DataType, TensorDesc, TensorFlags, limits

FAR = 2.0**60
UNKNOWN = 1e30  # the bound that leaves every output undecided, for a slack of 1
MOST = 2**31
ROUNDINGS = 2.0**-50  # of the estimate, of its factor, and of its ends: four of 2^-53, and a margin
LEFT_OVER = 2.0**-40  # of quotients: more than what the comparison of a distance rounds
FEW = 1 << 14  # with fewer outputs, one thread makes them
SHARE, LEAST = 8, 256  # a list has room for one in SHARE outputs, plus LEAST
DENSE = 8  # with this many channels, an output that is summed again reads them side by side, from a copy of x
FEWEST_CHANNELS = 5  # of Winograd's algorithm for floats
STILL = (1, 1, 1, 0, 1, 1, 0)
HIGH_ZERO, LOW_ZERO = "high zero point", "low zero point"  # tensors that the kernel brings along


class PlanesShape(NamedTuple):
    """The sums by numbers. Rows of outputs have `columns`; each `filters` rows sum elements of one of `images`.

    An image has `channels` planes of `pixels` in x, of which an output sums `taps`. windows: those of `closely`, without the
    words of an image. order: the dimensions of weights, those of channels first, and then as an output reads terms.
    """

    images: int
    filters: int
    columns: int
    channels: int
    pixels: int
    taps: int
    windows: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    by_column: bool

    @property
    def rows(self) -> int:
        return self.images * self.filters


def of_planes(problem: Problem, region: QuantisedSums, machine: Machine, slack: float) -> Lowered | Refused:
    """The steps, or the reason why there are none. slack: is added to bounds, as a share of UNKNOWN."""
    name, _, output, other = region.names
    x, y = problem.tensors[name], problem.tensors[output]
    found = contraction(Problem({SUMS: region.sums}, region.tensors))
    if isinstance(found, str):
        return Refused(found)
    if region.integers is None or other is not None or not isinstance(found, Convolution | MatrixProduct):
        return Refused("the weights are not known, or a tensor is added")
    fewest, narrow = tuning.TUNING.planes, y.data_type.element_bits == 8
    if isinstance(found, Convolution) and (found.terms < fewest or (found.filters.desc.sizes[1] * 4 < fewest and not narrow)):
        return Refused("with few terms or channels, floats are faster than planes of bytes")
    shape = _of_convolution(found) if isinstance(found, Convolution) else _of_product(found, name, region.integers.size)
    if shape is None:
        return Refused("sums of 16-bit elements are no convolution and no product from the left")
    packed = all(t.explicit_strides == TensorDesc(t.data_type, t.sizes).explicit_strides for t in (x, y))
    if not packed or math.prod(x.sizes) != shape.images * shape.channels * shape.pixels:
        return Refused("tensors are not packed, or weights differ between batches")
    count = shape.rows * shape.columns
    if found.terms > WRAPS or count >= MOST:
        return Refused(f"K = {found.terms}: int32 does not hold the sums, or there are too many outputs")
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    if isinstance(found, Convolution) and _faster_by_winograd(found, count, narrow, dot_of(target).group > 2):
        return Refused("floats are faster by Winograd's algorithm than planes of bytes")
    scales = np.array([region.x[0], region.rounding[0]])
    if not ((scales > 1 / FAR) & (scales < FAR)).all() or not (np.abs(region.weights[0]) < FAR).all():
        return Refused("a scale is not positive, or extreme")
    zeros = ((x.data_type, region.x[1]), (y.data_type, region.rounding[1]))
    if not all(low <= zero <= most for (low, most), zero in ((limits(kind), zero) for kind, zero in zeros)):
        return Refused("a zero point is beyond its type")  # they are INT32
    if not np.isfinite(region.bias).all():
        return Refused("the bias is not finite")
    made = _PlanesOfBytes(problem, region, found, shape, target, machine.threads, slack)
    return made.refused or made.lowered()


def _faster_by_winograd(p: Convolution, outputs: int, narrow: bool, dots: bool) -> bool:
    """Whether floats take less time, by measurement. narrow: outputs have 8 bits; dots: there are dot products of bytes."""
    filters, taps = p.filters.desc.sizes[:2], {*p.filters.desc.sizes[2:]}
    moved = any(n != 1 for n in (*p.strides, *p.dilations))
    if moved or len(p.strides) != 2 or len(taps) > 1 or min(filters[0] // p.groups, filters[1]) < FEWEST_CHANNELS:
        return False
    t = tuning.TUNING
    if taps == {3}:
        return not narrow and outputs >= (t.outputs_by_dots if dots else t.outputs_by_pairs)
    return taps == {5} and not (narrow and dots) and outputs >= t.outputs_of_five


def _of_product(p: Any, name: str, weights: int) -> PlanesShape | None:
    """The shape of a product of x and weights; None if x is not on the left, or weights differ between batches."""
    if not isinstance(p, MatrixProduct) or p.a.name != name:
        return None
    terms, columns = (int(n) for n in p.b.desc.sizes[-2:])
    rank, rows = len(p.b.desc.sizes), math.prod(p.output.desc.sizes[:-1])
    order = (*range(rank - 2), rank - 1, rank - 2)
    return PlanesShape(rows, 1, columns, terms, 1, 1, (STILL,) * SPATIAL, order, True) if weights == terms * columns else None


def _of_convolution(p: Convolution) -> PlanesShape:
    """The shape of a convolution: images are those of all groups, and columns the places of an output's plane."""
    x, f, y = p.x.desc, p.filters.desc, p.output.desc
    channels, filters, rank = int(f.sizes[1]), int(f.sizes[0]) // p.groups, len(f.sizes)
    steps = [math.prod(x.sizes[k + 1 :]) for k in range(2, rank)]
    each = zip(f.sizes[2:], p.dilations, p.strides, p.starts, x.sizes[2:], y.sizes[2:], steps, strict=True)
    windows = (*[STILL] * (SPATIAL + 2 - rank), *each)
    images, places, taps = x.sizes[0] * p.groups, math.prod(y.sizes[2:]), math.prod(f.sizes[2:])
    return PlanesShape(images, filters, places, channels, math.prod(x.sizes[2:]), taps, windows, (0, *range(2, rank), 1), False)


class _PlanesOfBytes:
    """The plans of both planes, and the steps before and after them. refused: the reason if there are none."""

    def __init__(
        self,
        problem: Problem,
        region: QuantisedSums,
        found: MatrixProduct | Convolution,
        shape: PlanesShape,
        target: Target,
        threads: int,
        slack: float,
    ) -> None:
        self.problem, self.region, self.shape, self.target = problem, region, shape, target
        self.x, self.y = (problem.tensors[name] for name in (region.names[0], region.names[2]))
        self.signed, self.own = self.x.data_type is DataType.INT16, dict(region.own)
        self.offset = (1 << 15 if self.signed else 0) + region.x[1]  # the integer of the planes that stands for 0
        self.unsure = [UNKNOWN * (slack + later) for later in (target.later, target.exact)]
        self.constants = ConstantTables(CONSTANTS.tobytes())
        self.centred = isinstance(found, Convolution) and _is_padded(found)
        self.plans: list[IntegerPlan] = []
        self.refused: Refused | None = None
        equal = not self.centred or self.offset >> 8 == self.offset & 255
        for zero, name in ((self.offset >> 8, HIGH_ZERO), (self.offset & 255, LOW_ZERO))[: 1 if equal else 2]:
            if isinstance(found, Convolution) and self.centred and zero:
                self.own[name] = np.full((1,) * len(self.x.sizes), zero, np.uint8)
                desc = replace(TensorDesc.of(self.own[name]).spelled_out(), flags=TensorFlags.OWNED_BY_DML)
                plan = planned(found._replace(x_zero_point=Beside(Operand(name, desc), None)), region.tensors, target, threads)
            else:
                plan = planned(found, region.tensors, target, threads)
            if isinstance(plan, Refused):
                self.refused = plan
                return
            self.plans.append(plan)

    def lowered(self) -> Lowered:
        shape, target, plans = self.shape, self.target, self.plans
        rows, columns = shape.rows, shape.columns
        count, elements = rows * columns, shape.images * shape.channels * shape.pixels
        scratch, passing = Scratch("scratch"), Scratch("passing")
        # the planes are summed one after the other, in the same memory
        scratch.size, passing.size = (
            max(s.size for s in some) for some in zip(*((p.scratch, p.passing) for p in plans), strict=True)
        )
        name, output = self.region.names[0], self.region.names[2]
        high, low = (passing.take(elements) for _ in range(2))
        sums = [passing.take(4 * count + target.vector_bytes) for _ in range(2)]
        norms, threads = passing.take(NORMS * count // (shape.columns if shape.by_column else shape.filters)), plans[0].threads
        pieces = 1 if count < FEW else min(threads, rows)
        states, bits = scratch.take(STATE * pieces), scratch.take(-(-count // 8))
        cut = [*pairwise(rows * i // pieces for i in range(pieces + 1))]
        dense = shape.pixels == 1 or (self.y.data_type.element_bits == 16 and shape.channels >= DENSE)
        source, windows = At(name), self.constants.add(self._windows(dense))
        first = self._first(high, low, norms, passing, windows, 1 if elements < FEW else min(threads, shape.images))
        if dense and shape.pixels > 1:
            source = passing.take(2 * elements)
            first = [[*piece, *more] for piece, more in zip(first, self._side_by_side(source, len(first)), strict=True)]
        table, pitch, weights = self._channels()
        y, rounding = self.y.data_type, self.region.rounding
        rule = np.zeros(8, np.int32)
        rule[:3] = np.array([*self.region.bounds, rounding[0]], np.float32).view(np.int32)
        rule[3:6] = rounding[1], *limits(y)
        rule[6:] = np.array([of_magnitudes(shape.channels * shape.taps + 12)]).view(np.int32)  # 12: of the vectors' sum, too
        ends = np.zeros(3)
        ends[:2] = [quantised(bound, *rounding, y) - rounding[1] for bound in self.region.bounds]
        ends[2:] = np.array([rounding[1], 0], np.int32).view(np.float64)
        add = self.constants.add
        of_sums = Arguments(high=sums[0], low=sums[1], norms=norms, filters=shape.filters, columns=columns)
        of_channels = Arguments(channels=add(table), pitch=pitch, count=table.shape[1] - target.vector_bytes // 8)
        again = Arguments(x=source, weights=add(weights), terms=weights.shape[1], rule=add(rule), windows=windows)
        again |= Arguments(zero=self.region.x[1], scale=_bits(np.float32(self.region.x[0])), bits=bits)
        slack, more = (_bits(np.float64(v)) for v in self.unsure)
        kind, at = f"i{y.element_bits}", Arguments(output=At(output))
        quick = engine.compiled(finish, target, kind, shape.by_column)
        slow = engine.compiled(closely, target, kind, self.signed, weights.dtype == np.int8, shape.by_column)
        limits_ = add(ends)
        last = []
        for i, (a, b) in enumerate(cut):
            state, room = states + STATE * i, (b - a) * columns // SHARE + LEAST
            begin = estimates.BEGUN.step(engine.compiled(begun, target), state=state, list=passing.take(8 * room), room=room)
            piece = Arguments(state=state, first=a, end=b, slack=slack)
            finished = FINISH.step(quick, **of_sums, **of_channels, **at, **piece, ends=limits_)
            last.append([begin, finished, CLOSELY.step(slow, **of_sums, **of_channels, **at, **piece, **again, more=more)])
        rounds = [Rounds([first])]
        for k, plane in enumerate((high, low)):
            n = min(k, len(plans) - 1)
            rounds += self._rounds(n, {name: plane, SUMS: sums[k]}, plans[n].rounds)
        ((_, nest),) = self.problem.statement.items()
        numbered = NumberedElements(output, in_order(self.y.sizes, range(len(self.y.sizes))), Decision(nest, y, target))
        return Lowered(
            target,
            [*rounds, *ending(self.constants, target, states, last)],
            scratch.size,
            passing.size,
            constants=self.constants.array(),
            packing=self._packing(),
            packed=sum(p.packed.size for p in plans),
            spare=max(p.spare.size for p in plans),
            short=plans[0].at.problem.products < tuning.TUNING.short,
            decide=of_bitmaps([Bitmap(numbered, bits.offset // 8, -(-count // 64))]),
            once=True,
            own=self.own,
        )

    def _first(self, high: At, low: At, norms: At, passing: Scratch, windows: At, pieces: int) -> list[list[Step]]:
        """The steps that split x, by pieces of images."""
        shape, (name, *_), (scale, zero) = self.shape, self.region.names, self.region.x
        made: list[list[Step]] = []
        for a, b in pairwise(shape.images * i // pieces for i in range(pieces + 1)):
            begin = a * shape.channels * shape.pixels
            into = norms + NORMS * a * (1 if shape.by_column else shape.columns)
            at = Arguments(x=At(name, 2 * begin), high=high + begin, low=low + begin, norms=into, zero=zero)
            if shape.by_column:
                code = engine.compiled(planes, self.target, self.signed)
                made.append([PLANES.step(code, **at, rows=b - a, terms=shape.channels, scale=_bits(np.float32(scale)))])
                continue
            code, (mantissa, exponent) = (
                engine.compiled(planes_of_images, self.target, self.signed),
                np.frexp(np.float32(scale)),
            )
            squares = passing.take(8 * (shape.pixels + shape.columns))
            sizes = Arguments(images=b - a, channels=shape.channels, pixels=shape.pixels, windows=windows)
            numbers = Arguments(scale=_bits(mantissa), unit=_bits(np.ldexp(np.float64(1), int(exponent))))
            made.append([IMAGES.step(code, **at, squares=squares, **sizes, **numbers)])
        return made

    def _side_by_side(self, into: At, pieces: int) -> list[list[Step]]:
        """The steps that copy x, so that the channels of a pixel are side by side."""
        shape, made = self.shape, []
        channels, pixels = shape.channels, shape.pixels
        for a, b in pairwise(shape.images * i // pieces for i in range(pieces + 1)):
            begin, image = 2 * a * channels * pixels, 2 * channels * pixels
            found = copies.copy(self.target, (b - a, channels, pixels), (image, 2 * pixels, 2), (image, 2, 2 * channels), 2)
            made.append(found.steps(At(self.region.names[0], begin), into + begin, At("constants")))
        return made

    def _windows(self, dense: bool) -> NDArray[np.int64]:
        """The words of windows and of an image, for x as it is, or with channels side by side."""
        shape = self.shape
        pixel = 2 * shape.channels if dense else 2
        words = [n for *others, x in shape.windows for n in (*others, x * pixel)]
        image = 2 * shape.channels * shape.pixels
        return np.array([*words, image, shape.channels, 2 if dense else 2 * shape.pixels], np.int64)

    def _rounds(self, n: int, bases: dict[str, At], rounds: Sequence[Rounds]) -> list[Rounds]:
        """The rounds of the n-th plan, with some base addresses replaced."""
        others = bases | ({"packed": At("packed", self.plans[0].packed.size)} if n else {})
        return [based(r, lambda _: others) for r in rounds]

    def _packing(self) -> list[Step | Repeat]:
        found: list[Step | Repeat] = []
        for n, plan in enumerate(self.plans):
            if plan.owned:
                (rounds,) = self._rounds(n, {}, [Rounds([[plan.packing]])])
                found += rounds.phases[0][0]
        return found

    def _channels(self) -> tuple[NDArray[np.float64], int, NDArray[Any]]:
        """The table of `finish`, the bytes of a row, and the weights, channel by channel."""
        region, shape = self.region, self.shape
        assert region.integers is not None
        transposed = np.ascontiguousarray(np.transpose(region.integers, shape.order))
        by_channel = transposed.reshape(-1, shape.channels * shape.taps)
        channels, terms = by_channel.shape
        lanes = self.target.vector_bytes // 8
        scales, zeros = (np.broadcast_to(v, channels) for v in region.weights)
        bias = np.broadcast_to(region.bias, channels).astype(np.float64)
        x_scale, y_scale = region.x[0], region.rounding[0]
        wide = scales.astype(np.float64)
        centred = by_channel.astype(np.float64) - zeros[:, None]
        exact = centred * wide[:, None]  # 24 bits and 9
        rounded = round_to_float32(exact).astype(np.float64)
        off = rounded - exact
        factor = x_scale * wide
        errors = np.sqrt((off * off).sum(1)) * MARGIN
        largest = float(terms << 24)  # the most that a sum of integers may be
        # the estimate is exact if neither it nor a dequantised number is rounded
        integers = np.arange(1 << 16, dtype=np.float64) - self.offset
        unrounded = (round_to_float32(integers * x_scale).astype(np.float64) == integers * x_scale).all()
        mantissa = np.abs(np.frexp(factor)[0]) * 2.0**14
        short = (mantissa == np.rint(mantissa)) & (factor != 0)
        unit = np.ldexp(1.0, np.frexp(factor)[1] - 14)
        units = bias / unit
        whole = (units == np.rint(units)) & (np.abs(units) + largest * 2.0**14 < 2.0**53)
        shift = np.zeros(channels) if self.centred else self.offset * centred.sum(1)
        weights, quotient, term = np.sqrt((rounded * rounded).sum(1)) * MARGIN, factor / y_scale, bias / y_scale
        moved = shift * quotient
        left_over = ((largest + np.abs(shift)) * np.abs(quotient) + np.abs(term)) * ROUNDINGS + LEFT_OVER
        table = np.zeros((CHANNEL_ROWS, channels + lanes))
        table[:, :channels] = [
            factor,
            bias,
            weights,
            errors,
            np.where(unrounded & (errors == 0) & short & whole, 0.0, ROUNDINGS),
            shift,
            wide,
            zeros,
            quotient,
            term - moved,
            *((weights / y_scale) * MARGIN, (errors / y_scale) * MARGIN),
            left_over,
        ]
        return table, table.shape[1] * 8, by_channel


def _is_padded(p: Convolution) -> bool:
    """Whether a window reads beyond the image."""
    x, f, y = p.x.desc.sizes[2:], p.filters.desc.sizes[2:], p.output.desc.sizes[2:]
    each = zip(x, f, y, p.strides, p.dilations, p.starts, strict=True)
    return any(
        start > 0 or (n - 1) * stride + (k - 1) * dilation - start >= size for size, k, n, stride, dilation, start in each
    )


def _bits(x: np.floating[Any]) -> int:
    """The bits of a float as an integer."""
    return int(x.view(f"i{x.itemsize}"))
