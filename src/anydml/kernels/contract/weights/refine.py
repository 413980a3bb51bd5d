"""The second stage of few rows times weights: listed elements are summed again, with the rounding errors of the additions."""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Kind, Value
from anydml.kernels.contract.floats.epilogue import EpilogueKey, with_streams
from anydml.kernels.contract.floats.second.compensated import plus, together
from anydml.kernels.contract.floats.second.refine import Refining
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.contract.weights.packing import GROUP, WeightsKey
from anydml.kernels.contract.weights.vectors import WeightsBlock, along
from anydml.tensor import DataType

# f1, f2, bits, bit, columns, open: as in `floats.second.refine`; the others as in `rows`
ARGUMENTS = Signature(
    "*a a_row *words group_words *scales group_scales *zeros group_zeros units blocks block_units *list *counter first f1 "
    "f2 *bits bit columns *open"
)


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

    def _known(self, row: str, column: str, c: str) -> list[Value]:
        """The compensated sum."""
        body, lanes = self.body, self.body.target.vector_bytes // 8
        left = body.at("%a", body.op(f"mul i64 {row}, %a_row"))
        g, r = body.op(f"udiv i64 {c}, {GROUP}"), body.op(f"urem i64 {c}, {GROUP}")
        words, scales, zeros = (body.at(f"%{x}", body.op(f"mul i64 {g}, %group_{x}")) for x in ("words", "scales", "zeros"))
        words = body.at(words, body.op(f"mul i64 {r}, {lanes * self.weights.word // 8}"))
        scales, zeros = body.at(scales, body.op(f"mul i64 {r}, 4")), body.at(zeros, r)
        wide = Kind("double", lanes)

        def steps(first: str, n: int, rows: list[str], blocks: list[WeightsBlock], carried: list[Value]) -> list[Value]:
            place = body.op(f"mul i64 {body.op(f'add i64 {first}, {n}')}, {8 * lanes}")
            return plus(carried, body.loaded(wide, left, place) * blocks[0].wide(rows[0], n))

        starts = [body.constant(wide, x) for x in (-0.0, 0.0, 0.0, 0.0)]
        return together(along(body, self.weights, words, scales, zeros, starts, steps, rows=1))
