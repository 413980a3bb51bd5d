"""Sums of the terms' magnitudes of a block with many undecided elements: they give each sum a bound of its own.

If a row and a column are large in different terms, the product of their norms far exceeds these sums. Magnitudes do not help
with sums that cancel; the first tile shows whether most of the undecided sums are of this kind.
"""

from __future__ import annotations

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.stores import list_of
from anydml.kernels.elementwise.levels import lanes_as_bits
from anydml.kernels.undecided.state import OWN

# most: with no more entries on the list, nothing is done; elements: of the block; factor: bound of a sum / magnitudes
ARGUMENTS = tile.SUMMED + Signature("*rests most elements factor")
DENSE = 8 * (OWN + 1)  # offset in `counter` of a flag: whether magnitudes, and later pairs, were computed


def sums(target: Target, rows: int, across: int) -> str:
    """The kernel that stores sums of magnitudes in `rests`; arguments: ARGUMENTS."""
    return _Magnitudes(target, rows, across).text()


class _Magnitudes:
    def __init__(self, target: Target, rows: int, across: int) -> None:
        self.body, self.rows, self.across = Body(target), rows, across
        self.lanes = target.vector_bytes // 8
        self.wide = Kind("double", self.lanes)

    def text(self) -> str:
        body = self.body
        ARGUMENTS.load(body)
        listed = list_of(body).count()
        many = body.op(f"icmp ugt i64 {listed}, %most")
        rounded = body.op(f"icmp ne i64 {body.load('i64', '%counter', tile.BOUND)}, 0")
        many = body.op(f"and i1 {many}, {rounded}")
        body.store("i64", "0", "%counter", DENSE)
        # what is in memory then may be subnormal numbers, which take long
        when(body, body.op(f"xor i1 {many}, true"), lambda: tile.leave(body))
        sampled = self.rows * self.across * self.lanes

        def part(all_: str, carried: list[Value]) -> list[Value]:
            """One tile, or all of them."""
            some = body.op(f"icmp ne i64 {all_}, 0")
            panels, tiles = (body.op(f"select i1 {some}, i64 %{name}, i64 1") for name in ("panels", "tiles"))
            panels = body.op(f"select i1 {carried[0].name}, i64 {panels}, i64 0")
            body.loop("0", panels, 1, [], lambda p, _: self._panel(p, tiles))
            few = body.op(f"mul i64 {self._cancelling()}, %elements")
            others = body.op(f"icmp ult i64 {body.op(f'shl i64 {few}, 1')}, {body.op(f'mul i64 {listed}, {sampled}')}")
            return [carried[0] & Value(body, others, carried[0].kind)]

        (done,) = body.loop("0", "2", 1, [body.constant(Kind("i1"), True)], part)[1]
        body.store("i64", body.op(f"zext i1 {done.name} to i64"), "%counter", DENSE)
        body.do("ret i64 0")
        return kernel(body, list(body.declared))

    def _cancelling(self) -> str:
        """The number of sums of the first tile that do not exceed their bounds."""
        body = self.body
        factor = body.splat(Value(body, body.op("bitcast i64 %factor to double"), Kind("double")), self.lanes)

        def row(m: str, carried: list[Value]) -> list[Value]:
            count = carried[0]
            for n in range(self.across):
                at = body.op(f"add i64 {body.op(f'mul i64 {m}, %sums_row')}, {8 * self.lanes * n}")
                bound = body.loaded(self.wide, "%rests", at) * factor
                below = body.loaded(self.wide, "%sums", at).magnitude().compared("ole", bound)
                count = count + body.call("llvm.ctpop.i64", count.kind, f"i64 {lanes_as_bits(below)}")
            return [count]

        return body.loop("0", str(self.rows), 1, [body.constant(Kind("i64"), 0)], row)[1][0].name

    def _panel(self, p: str, tiles: str) -> list[Value]:
        body, lanes, across, rows = self.body, self.lanes, self.across, self.rows
        b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
        columns = body.at("%rests", body.op(f"mul i64 {p}, {across * lanes * 8}"))

        def tile(t: str, _: list[Value]) -> list[Value]:
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))

            def step(k: str, carried: list[Value]) -> list[Value]:
                at = body.at(b, body.op(f"mul i64 {k}, {across * lanes * 4}"))
                right = [body.loaded(Kind("float", lanes), at, 4 * lanes * n).magnitude() for n in range(across)]
                right = [y.converted("fpext", self.wide) for y in right]
                left = body.at(a, body.op(f"mul i64 {k}, {8 * rows}"))
                made = []
                for m in range(rows):
                    x = body.splat(body.loaded(Kind("double"), left, 8 * m).magnitude(), lanes)
                    made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
                return made

            found = body.loop("0", "%terms", 1, [body.constant(self.wide, 0.0)] * (rows * across), step)[1]
            into = body.at(columns, body.op(f"mul i64 {body.op(f'mul i64 {t}, {rows}')}, %sums_row"))
            for m in range(rows):
                at = body.at(into, body.op(f"mul i64 %sums_row, {m}"))
                for n in range(across):
                    body.stored(found[m * across + n], at, 8 * lanes * n)
            return []

        body.loop("0", tiles, 1, [], tile)
        return []
