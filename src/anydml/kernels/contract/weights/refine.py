"""The second stage of few rows times weights: listed elements are summed again, with the rounding errors of the additions."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.elements import streams
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.formula import bounded, stored
from anydml.kernels.contract.floats.second.compensated import joined, plus, together
from anydml.kernels.contract.floats.second.refine import LANES, Refining
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.contract.weights.packing import WORD, WeightsKey
from anydml.kernels.contract.weights.rows import sum_of_lanes
from anydml.kernels.contract.weights.vectors import WeightsBlock, along
from anydml.tensor import DataType

# f1, f2, bits, bit, columns, open: as in `floats.second.refine`; factor, a_norms, b_norms: as in `floats.epilogue`, for sums of
# float64; the others as in `rows`
ARGUMENTS = Signature(
    "*a a_row *words group_words *scales group_scales *zeros group_zeros units blocks block_units *list *counter first f1 "
    "f2 *bits bit columns *open factor *a_norms *b_norms"
)
STARTS = (-0.0, 0.0, 0.0, 0.0)
CHAINS = 2  # sums that hide each other's latency
PLAIN_CHAINS = 4


Term = Callable[[int, list[Value], Value, Value], list[Value]]  # of a vector's number, what is carried, factors and weights


def refined(target: Target, key: EpilogueKey, weights: WeightsKey) -> str:
    """The kernel that decides listed elements; arguments: ARGUMENTS, and those of the key's streams."""
    return _RefiningWeights(target, key, weights).text()


class _RefiningWeights(Refining):
    def __init__(self, target: Target, key: EpilogueKey, weights: WeightsKey) -> None:
        super().__init__(target, key, (DataType.FLOAT32, DataType.FLOAT32))
        self.weights = weights

    def text(self) -> str:
        body = self.body
        with_streams(ARGUMENTS, len(self.key.layouts)).load(body)
        self.list = list_of(body)
        body.loop("0", self.list.count(), 1, [], self._entry)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _entry(self, e: str, _: list[Value]) -> list[Value]:
        body = self.body
        if self.weights.word != WORD or body.target.later:
            return super()._entry(e, _)
        # the first stage's bound was that of integers: a sum of float64 decides nearly all of these elements
        entry = body.load("i64", self.list.slot(e))
        row, column = body.op(f"lshr i64 {entry}, 32"), body.op(f"and i64 {entry}, {0xFFFFFFFF}")
        c = body.op(f"add i64 %first, {column}")
        read, output = streams(body, self.key, LANES, row, c)
        total, wide = self._plain(row, c), Kind("double")
        a_norm = body.loaded(wide, "%a_norms", body.op(f"mul i64 {row}, 8"))
        norms = a_norm * body.loaded(wide, "%b_norms", body.op(f"mul i64 {column}, 8"))
        error = Value(body, body.op("bitcast i64 %factor to double"), wide) * norms
        number = bounded(body.splat(total, LANES), body.splat(error, LANES), None)
        made, undecided = stored(body, self.key.stored, read, number, LANES)

        def store() -> list[Value]:
            body.stored(made.lane(0), output)
            return []

        def decide() -> list[Value]:
            return super(_RefiningWeights, self)._entry(e, [])

        if undecided is None:
            return store()
        return body.either(undecided.lane(0).name, decide, store, seldom=True)

    def _plain(self, row: str, c: str) -> Value:
        """The sum in float64."""
        kind = Kind("double", self.body.target.vector_bytes // 8)

        def term(n: int, carried: list[Value], x: Value, w: Value) -> list[Value]:
            carried[n % PLAIN_CHAINS] = self.body.fused(x, w, carried[n % PLAIN_CHAINS])
            return carried

        first, *others = self._along(row, c, [self.body.constant(kind, -0.0)] * PLAIN_CHAINS, term)
        for other in others:
            first = first + other
        return sum_of_lanes(first)

    def _known(self, row: str, column: str, c: str) -> list[Value]:
        """The compensated sum."""
        kind, count = Kind("double", self.body.target.vector_bytes // 8), len(STARTS)

        def term(n: int, carried: list[Value], x: Value, w: Value) -> list[Value]:
            first = n % CHAINS * count
            carried[first : first + count] = plus(carried[first : first + count], x * w)
            return carried

        found = self._along(row, c, [self.body.constant(kind, x) for x in STARTS * CHAINS], term)
        return together(joined(found[:count], found[count:]))

    def _along(self, row: str, c: str, starts: list[Value], term: Term) -> list[Value]:
        """The values that `term` carries along the terms of an element."""
        body, lanes = self.body, self.body.target.vector_bytes // 8
        left = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        group = self.weights.group
        g, r = body.op(f"udiv i64 {c}, {group}"), body.op(f"urem i64 {c}, {group}")
        words, scales, zeros = (body.at(f"%{x}", body.op(f"mul i64 {g}, %group_{x}")) for x in ("words", "scales", "zeros"))
        words = body.at(words, body.op(f"mul i64 {r}, {lanes * self.weights.word // 8}"))
        scales, zeros = body.at(scales, body.op(f"mul i64 {r}, 4")), body.at(zeros, r)

        def steps(first: str, n: int, rows: list[str], blocks: list[WeightsBlock], carried: list[Value]) -> list[Value]:
            place = body.op(f"mul i64 {body.op(f'add i64 {first}, {n}')}, {8 * lanes}")
            return term(n, list(carried), body.loaded(Kind("double", lanes), left, place), blocks[0].wide(rows[0], n))

        return along(body, self.weights, words, scales, zeros, starts, steps, rows=1)


def plain_additions(terms: int, target: Target) -> int:
    """The most additions that a term of `_plain`'s sum goes through."""
    lanes = target.vector_bytes // 8
    return -(-terms // (lanes * PLAIN_CHAINS)) + PLAIN_CHAINS + lanes.bit_length()
