"""The magnitudes of a block's terms, summed, where many of its elements are left open: each sum's own bound.

The norms of a row and of a column may belong to terms that do not meet; then they are far above what is summed.
"""

from __future__ import annotations

from anydml.kernels.code.emit import arguments, kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats import tile

# most: entries on the list up to which nothing is done
ARGUMENTS = (*tile.ARGUMENTS, "most")
DENSE = 16  # where the counter says whether they have been made; so it does of pairs
NEAR = 24  # where it has the number of listed sums that may be zero: where these are most, magnitudes are of no use


def sums(target: Target, rows: int, across: int) -> str:
    """Sums of magnitudes in place of `sums`; arguments: ARGUMENTS."""
    body = Body(target)
    arguments(body, ARGUMENTS, {"a", "b", "sums", "counter"})
    lanes = target.vector_bytes // 8
    wide, single, row = Kind("double", lanes), Kind("float", lanes), across * lanes * 4
    listed = body.load("i64", "%counter")
    twice = body.op(f"shl i64 {body.load('i64', '%counter', NEAR)}, 1")
    many = body.op(f"icmp ugt i64 {listed}, %most")
    many = body.op(f"and i1 {many}, {body.op(f'icmp ult i64 {twice}, {listed}')}")
    body.store("i64", body.op(f"zext i1 {many} to i64"), "%counter", DENSE)

    def panel(p: str, _: list[Value]) -> list[Value]:
        b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
        columns = body.at("%sums", body.op(f"mul i64 {p}, {2 * row}"))

        def tile(t: str, _: list[Value]) -> list[Value]:
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))

            def step(k: str, carried: list[Value]) -> list[Value]:
                at = body.at(b, body.op(f"mul i64 {k}, {row}"))
                right = [body.loaded(single, at, 4 * lanes * n).magnitude().converted("fpext", wide) for n in range(across)]
                left = body.at(a, body.op(f"mul i64 {k}, {8 * rows}"))
                made = []
                for m in range(rows):
                    x = body.splat(body.loaded(Kind("double"), left, 8 * m).magnitude(), lanes)
                    made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
                return made

            found = body.loop("0", "%terms", 1, [body.constant(wide, 0.0)] * (rows * across), step)[1]
            into = body.at(columns, body.op(f"mul i64 {body.op(f'mul i64 {t}, {rows}')}, %sums_row"))
            for m in range(rows):
                at = body.at(into, body.op(f"mul i64 %sums_row, {m}"))
                for n in range(across):
                    body.stored(found[m * across + n], at, 8 * lanes * n)
            return []

        body.loop("0", "%tiles", 1, [], tile)
        return []

    def all_() -> None:
        body.loop("0", "%panels", 1, [], panel)

    when(body, many, all_)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
