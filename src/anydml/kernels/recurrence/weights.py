"""The weights of units, packed: float32, panel by panel, term by term; and their norms."""

from __future__ import annotations

from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.packed.rows import AT_ONCE, SQUARES, norm, transposed
from anydml.kernels.numbers import halves
from anydml.tensor import DataType

# unit, term: bytes from one to the next; panel: bytes from one panel to the next; first: the vector where they begin
ARGUMENTS = ("weights", "unit", "term", "units", "terms", "into", "panel", "first", "norms")


def packed(target: Target, data_type: DataType, across: int) -> str:
    """Pack panels of a number of vectors of float64; arguments: ARGUMENTS. Units beyond the last one are copies of it.

    norms: of each unit's weights, the root of the sum of squares, rounded up.
    """
    body, size = Body(target), data_type.dtype.itemsize
    arguments(body, ARGUMENTS, {"weights", "into", "norms"})
    lanes = target.vector_bytes // 8
    width, wide = across * lanes, Kind("double", lanes)
    last = body.op("sub i64 %units, 1")
    near = body.op(f"icmp eq i64 %term, {size}")
    together = body.op(f"select i1 {near}, i64 %terms, i64 0")

    def single(bits: Value) -> Value:
        return halves.widened(bits) if data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))

    def group(g: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {g}, {lanes}")
        rows = []
        for m in range(lanes):
            unit = body.call("llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {first}, {m}')}", f"i64 {last}").name
            rows.append(body.at("%weights", body.op(f"mul i64 {unit}, %unit")))
        vector = body.op(f"add i64 {g}, %first")
        panel = body.at("%into", body.op(f"mul i64 {body.op(f'udiv i64 {vector}, {across}')}, %panel"))
        into = body.at(panel, body.op(f"mul i64 {body.op(f'urem i64 {vector}, {across}')}, {4 * lanes}"))

        def put(k: str, columns: list[Value], squares: list[Value]) -> list[Value]:
            made, to = list(squares), body.at(into, body.op(f"mul i64 {k}, {4 * width}"))
            for n, column in enumerate(columns):
                body.stored(column, to, 4 * width * n)
                x = column.converted("fpext", wide)
                made[n % SQUARES] = body.fused(x, x, made[n % SQUARES])
            return made

        def several(k: str, squares: list[Value]) -> list[Value]:
            at = body.op(f"mul i64 {k}, {size}")
            lines = [single(body.loaded(Kind(f"i{8 * size}", AT_ONCE), body.at(row, at))) for row in rows]
            return put(k, transposed(lines), squares)

        def one(k: str, squares: list[Value]) -> list[Value]:
            at, column = body.op(f"mul i64 {k}, %term"), body.undefined(wide.of("float"))
            for m, row in enumerate(rows):
                column = column.replaced(m, single(body.loaded(Kind(f"i{8 * size}"), body.at(row, at))))
            return put(k, [column], squares)

        begun, squares = body.loop("0", together, AT_ONCE, [body.constant(wide, 0.0)] * SQUARES, several)
        squares = body.loop(begun, "%terms", 1, squares, one)[1]
        body.stored(norm(squares), body.at("%norms", body.op(f"mul i64 {vector}, {8 * lanes}")))
        return []

    body.loop("0", body.op(f"udiv i64 {body.op(f'add i64 %units, {lanes - 1}')}, {lanes}"), 1, [], group)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
