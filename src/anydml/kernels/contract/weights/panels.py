"""Panels of dequantised weights: the packed columns of products with many rows, as `floats.packed.panels` has them."""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.weights.packing import GROUP, WeightsKey
from anydml.kernels.contract.weights.vectors import WeightsBlock, along, columns_of

# groups: those that the panels hold; panel: bytes from one panel to the next; from: the columns' norms, which are copied
ARGUMENTS = Signature(
    "*words group_words *scales group_scales *zeros group_zeros groups units blocks block_units *into panel panels *norms *from"
)


def packed(target: Target, key: WeightsKey, across: int) -> str:
    """The kernel that writes panels of `across` vectors of float64: float32, term by term, with zeros behind the last group.

    arguments: ARGUMENTS.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    lanes = target.vector_bytes // 8
    width, four = across * lanes, Kind("float", GROUP)
    per = width // GROUP

    def group(place: str, g: str) -> None:
        words, scales, zeros = (body.at(f"%{x}", body.op(f"mul i64 {g}, %group_{x}")) for x in ("words", "scales", "zeros"))

        def steps(first: str, n: int, rows: list[str], blocks: list[WeightsBlock], _: list[Value]) -> list[Value]:
            term = body.op(f"mul i64 {body.op(f'add i64 {first}, {n}')}, {lanes * width * 4}")
            at = body.at(place, term)
            columns = columns_of(body, [block.of(row, n) for block, row in zip(blocks, rows, strict=True)])
            for k, column in enumerate(columns):
                body.stored(column, at, 4 * width * k)
            return []

        along(body, key, words, scales, zeros, [], steps)

    def none(place: str) -> None:
        """Zeros for a group that is missing."""
        zero = body.constant(four, 0.0)
        terms = body.op(f"mul i64 %units, {key.vectors * lanes}")

        def term(k: str, _: list[Value]) -> list[Value]:
            body.stored(zero, place, body.op(f"mul i64 {k}, {4 * width}"))
            return []

        body.loop("0", terms, 1, [], term)

    def panel(p: str, _: list[Value]) -> list[Value]:
        into = body.at("%into", body.op(f"mul i64 {p}, %panel"))
        first = body.op(f"mul i64 {p}, {per}")

        def one(k: str, _: list[Value]) -> list[Value]:
            g, place = body.op(f"add i64 {first}, {k}"), body.at(into, body.op(f"mul i64 {k}, {4 * GROUP}"))

            def there() -> list[Value]:
                group(place, g)
                return []

            def missing() -> list[Value]:
                none(place)
                return []

            body.either(body.op(f"icmp ult i64 {g}, %groups"), there, missing)
            return []

        body.loop("0", str(per), 1, [], one)
        return []

    def norm(k: str, _: list[Value]) -> list[Value]:
        place = body.op(f"mul i64 {k}, {8 * GROUP}")
        wide = Kind("double", GROUP)
        body.stored(body.loaded(wide, body.at("%from", place)), body.at("%norms", place))
        return []

    body.loop("0", "%panels", 1, [], panel)
    body.loop("0", "%groups", 1, [], norm)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
