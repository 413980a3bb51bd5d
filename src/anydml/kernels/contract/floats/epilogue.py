"""The epilogue of a block of sums: it stores the elements, and lists those that the bounds of their sums leave undecided.

A sum of n float64 terms, accumulated in blocks of m, goes through at most m + n / m roundings. So it differs from the exact
sum by at most (m + n / m + 8) u |a| |b|, where |a| and |b| are the norms of its row and of its column (Cauchy and Schwarz). It
is exact if the inexact flag is not set. If many elements are undecided, the epilogue runs again with better bounds, and then
with sums as pairs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value, left_by_first_stage
from anydml.kernels.contract.floats.few.sums import LEAST
from anydml.kernels.contract.floats.formula import Stored, bounded, stored, stored_rounded, walked
from anydml.kernels.contract.floats.packed.doubled import lost
from anydml.kernels.contract.floats.packed.lines import lines, start
from anydml.kernels.contract.floats.packed.magnitudes import DENSE
from anydml.kernels.contract.floats.packed.tile import BOUND
from anydml.kernels.contract.floats.second import exactly
from anydml.kernels.contract.floats.stores import list_of, listed
from anydml.kernels.copy.text import prefetch
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.elementwise.streams import CONSTANT, CONTIGUOUS, Streams
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.floats.rounding import between_ends
from anydml.kernels.numbers.lanes import either
from anydml.tensor import DataType

AHEAD = 4  # rows whose elements are fetched before they are written
OWN = 2  # streams before those of the formula: the sums, and the norms of the columns
MAGNITUDES, PAIRS, ERRORS = "magnitudes", "pairs", "errors"
# counter: the number of entries on the list, then BOUND, DENSE and others. done: as in `tile`. rests: the low parts of pairs,
# or sums of magnitudes, or error bounds of the sums. a_low, b_low: as in `doubled`
ARGUMENTS = Signature(
    "rows first count n1 n2 *sums sums_row factor *a_norms *b_norms *list *counter terms *rests *a_low *b_low *done"
)


class EpilogueKey(NamedTuple):
    """layouts: of each stream along a run of columns; the output's is last. padded: the norms of columns for which some
    terms do not count are negative.
    measured: instead of norms, each sum has the sum of its terms' magnitudes, in rows `sums_row` bytes apart. mixed: sums
    are combined from other sums: they take over infinities, and zeros have lost their signs. again: what is stored beside
    each sum when the kernel runs again; it does nothing unless the counter's DENSE is set."""

    stored: Stored
    layouts: tuple[str, ...]
    padded: bool
    measured: bool = False
    mixed: bool = False
    again: str = ""


@lru_cache(maxsize=256)
def streams(count: int) -> Signature:
    """The arguments of streams: the address of each, and its strides in bytes along rows and along the columns' dimensions."""
    return Signature(" ".join(f"*p{k} r{k} z{k} y{k} s{k}" for k in range(OWN, OWN + count)))


@lru_cache(maxsize=256)
def with_streams(arguments: Signature, count: int) -> Signature:
    """A kernel's arguments, and those of streams."""
    return arguments + streams(count)


def block(target: Target, key: EpilogueKey) -> str:
    """The kernel that stores a block of elements from their sums; arguments: ARGUMENTS, and streams."""
    return _Block(target, key).text()


class _Block:
    def __init__(self, target: Target, key: EpilogueKey) -> None:
        self.body, self.key = Body(target), key
        self.lanes = target.vector_bytes // 4
        s = key.stored
        types = (
            [DataType.FLOAT64, DataType.FLOAT32 if key.measured else DataType.FLOAT64]
            + [s.types[k] for k in s.others]
            + [s.types[-1]]
        )
        self.kinds = [Kind(f"i{t.element_bits}", self.lanes) for t in types]
        self.layouts = ("contiguous",) * OWN + key.layouts
        self.streams = Streams(self.body, self.kinds, self.layouts)

    def text(self) -> str:
        body = self.body
        with_streams(ARGUMENTS, len(self.key.layouts)).load(body)
        body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.streams.begin()

        def rows() -> None:
            self.begun = start(body, "%first", "%count", ("%n1", "%n2"))  # the same for every row
            list_of(body).counted("0")
            body.loop("0", "%rows", 1, [], self._row)

        if self.key.again:
            when(body, body.op(f"icmp ne i64 {body.load('i64', '%counter', DENSE)}, 0"), rows)
        else:
            when(body, body.op(f"icmp eq i64 {body.load('i64', '%done')}, 0"), rows)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _row(self, r: str, _: list[Value]) -> list[Value]:
        body, lanes = self.body, self.lanes
        self.r = r
        wide = Kind("double")
        factor = Value(body, body.op("bitcast i64 %factor to double"), wide)
        sums = body.at("%sums", body.op(f"mul i64 {r}, %sums_row"))
        sizes = "%b_norms"
        if self.key.measured:
            factor = factor * body.loaded(wide, "%counter", BOUND)
            self.factor = body.splat(factor * (1 + 2.0**-2), lanes)  # for the roundings of the magnitudes
            self.least = body.splat(Value(body, "%terms", Kind("i64")).converted("uitofp", wide) * LEAST, lanes)
            sizes = body.at(sizes, body.op(f"mul i64 {r}, %sums_row"))
        else:
            size = body.loaded(wide, "%a_norms", body.op(f"mul i64 {r}, 8")) * factor
            self.small = body.splat(factor, lanes)
            if self.key.again:
                self.rests = body.at("%rests", body.op(f"mul i64 {r}, %sums_row"))
                if self.key.again == PAIRS:
                    self.low = body.splat(body.loaded(wide, "%a_low", body.op(f"mul i64 {r}, 8")), lanes)
            elif not self.key.mixed:
                size = size * body.loaded(wide, "%counter", BOUND)
            self.factor = body.splat(size, lanes)
        self.later = body.op(f"mul i64 %r{len(self.layouts) - 1}, {AHEAD}")
        starts = [body.at(f"%p{k}", body.op(f"mul i64 {r}, %r{k}")) for k in range(OWN, len(self.layouts))]

        def run(_: str, done: str, length: str, z: str, y: str, x: str) -> None:
            offset = body.op(f"mul i64 {done}, 8")
            of_sizes = body.op(f"mul i64 {done}, {self.kinds[1].bits // 8}")
            bases = [body.at(sums, offset), body.at(sizes, of_sizes)]
            self.run = offset
            for k, row in zip(range(OWN, len(self.layouts)), starts, strict=True):
                offset = body.op(f"add i64 {body.op(f'mul i64 {z}, %z{k}')}, {body.op(f'mul i64 {y}, %y{k}')}")
                bases.append(body.at(row, body.op(f"add i64 {offset}, {body.op(f'mul i64 {x}, %s{k}')}")))
            self.streams.bases = bases
            self._elements(done, length)

        lines(body, "%first", "%count", ("%n1", "%n2"), run, self.begun)
        return []

    def _elements(self, done: str, length: str) -> None:
        body, lanes, streams = self.body, self.lanes, self.streams
        constants = streams.constants(k for k in range(len(self.layouts) - 1) if self.layouts[k] == CONSTANT)

        up = body.op(f"and i64 {body.op(f'add i64 {length}, {lanes - 1}')}, {-lanes}")

        def group(i: str, _: list[Value]) -> list[Value]:
            left = body.op(f"sub i64 {length}, {i}")
            whole = body.op(f"icmp uge i64 {left}, {lanes}")
            quick, store, careful, after = (body.name(x) for x in ("quick", "store", "careful", "after"))
            body.branch(whole, quick, careful)
            body.label(quick)
            if self.layouts[-1] == CONTIGUOUS:
                prefetch(body, 1, streams.place(streams.last, i), self.later)
            made, doubtful = self._quick(i, {**streams.whole(i), **constants})
            body.branch(body.op(f"icmp eq i64 {lanes_as_bits(doubtful)}, 0"), store, careful)
            body.label(store)
            streams.store(i, made)
            body.jump(after)
            body.label(careful)
            take = body.op(f"select i1 {whole}, i64 {lanes}, i64 {left}")
            made, undecided = self._group(i, {**streams.partial(i, take), **constants})
            streams.store_partial(i, take, made)
            if undecided is not None:
                inside = body.op(f"xor i64 {body.op(f'shl i64 -1, {take}')}, -1")
                bits = body.op(f"and i64 {lanes_as_bits(undecided)}, {inside}")
                listed(body, self.r, body.op(f"add i64 {done}, {i}"), bits)
            body.jump(after)
            body.label(after)
            return []

        body.loop("0", up, lanes, [], group)

    def _quick(self, i: str, loaded: dict[int, Value]) -> tuple[Value, Value]:
        """The bits of elements, and the lanes that may be wrong: if there are any, `_group` computes the elements again."""
        found = self._between(*self._loaded(loaded)) if not (self.key.again or self.body.target.later) else None
        if found is None:
            made, undecided = self._group(i, loaded)
            return made, self.body.constant(Kind("i1", self.lanes), False) if undecided is None else undecided
        return found

    def _between(self, total: Value, size: Value, read: dict[int, Value]) -> tuple[Value, Value] | None:
        """The bits of the rounded upper end of the formula's interval, and the lanes where the lower end rounds differently."""
        key, odd = self.key, None
        if key.measured or key.mixed:
            number = self._number(total, size, read)
        else:
            number = bounded(total, self.factor * size.magnitude(), None)
            if key.padded:
                odd = size.bits().compared("slt", 0) & exactly.signed(key.stored, total, read)  # also of -0
        place, limited = key.stored.rounded(), None
        first = key.stored if place is None else key.stored.until(place)
        if place is None and (limited := key.stored.limited()) is not None:
            place, first = limited, key.stored.before(limited)
        item = walked(self.body, first, read, number, self.lanes)
        if not isinstance(item, Number):
            return None
        if item is number and number.guard is None:  # the bound includes the roundings of the ends
            item = replace(number, err=None, ends=lambda: self._ends(total, size))
        found = between_ends(replace(item, guard=either(item.guard, odd)), first.types[-1])
        if found is None or place is None:
            return found
        made, undecided = stored_rounded(self.body, key.stored, read, place, found[0], self.lanes)
        if limited is not None:
            undecided = either(undecided, found[0].compared("eq", -(1 << 31)))
        return made, found[1] if undecided is None else found[1] | undecided

    def _ends(self, total: Value, size: Value) -> tuple[Value, Value]:
        """The lower and upper end of a sum; swapped where the size is negative."""
        return self.body.fused(-self.factor, size, total), self.body.fused(self.factor, size, total)

    def _loaded(self, loaded: dict[int, Value]) -> tuple[Value, Value, dict[int, Value]]:
        """The sums, the norms or magnitudes for their bounds, and the formula's other streams."""
        wide = Kind("double", self.lanes)
        total = loaded[0].cast(wide)
        read = {k: loaded[OWN + n] for n, k in enumerate(self.key.stored.others)}
        if self.key.measured:
            return total, loaded[1].cast(wide.of("float")).converted("fpext", wide) + self.least, read
        return total, loaded[1].cast(wide), read

    def _group(self, i: str, loaded: dict[int, Value]) -> tuple[Value, Value | None]:
        made, undecided = self._bounded(i, loaded)
        return made, None if undecided is None else left_by_first_stage(undecided)

    def _bounded(self, i: str, loaded: dict[int, Value]) -> tuple[Value, Value | None]:
        """The bits of elements, and the lanes that their bounds leave undecided."""
        total, size, read = self._loaded(loaded)
        key, number = self.key, self._number(total, size, read)
        if key.again:
            offset = self.body.op(f"add i64 {self.run}, {self.body.op(f'mul i64 {i}, 8')}")
            beside = self.body.loaded(total.kind, self.rests, offset)
            if key.again == PAIRS:
                low = self.low * self.body.loaded(total.kind, "%b_low", offset)
                values = [total, beside, beside.lift(0.0), lost(number.error(), self.small, low)]
                return exactly.paired(self.body, key.stored, values, read, number.guard)
            if key.again == ERRORS:  # an infinity or NaN in the row's norm may belong to no term
                spoilt = ~beside.compared("olt", math.inf) & total.magnitude().compared("olt", math.inf)
                number = bounded(total, beside, spoilt)
                return exactly.added(key.stored, number, read, *stored(self.body, key.stored, read, number, self.lanes))
            number = bounded(total, self.small * beside, number.guard)
        found = stored(self.body, key.stored, read, number, self.lanes)
        return found if key.again or key.measured or key.mixed else exactly.added(key.stored, number, read, *found)

    def _number(self, total: Value, size: Value, read: dict[int, Value]) -> Number:
        """A sum with its bound."""
        guard = None
        if self.key.measured:
            if self.key.padded:  # a sum without terms is +0
                guard = total.bits().compared("eq", -(1 << 63))
            return bounded(total, size * self.factor, guard)
        if self.key.padded:
            # terms that do not count may have made the sum +0 instead of -0, or NaN
            odd = exactly.signed(self.key.stored, total, read) | total.compared("uno", total)
            guard = size.bits().compared("slt", 0) & odd  # also of -0
            size = size.magnitude()
        if self.key.mixed:
            error = self.factor * size
            guard = exactly.signed(self.key.stored, total, read) | ~((total.magnitude() + error).compared("olt", math.inf))
            return bounded(total, error, guard)
        return bounded(total, self.factor * size, guard)
