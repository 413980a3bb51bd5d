"""The tile of float64 sums: rows of one packed factor times panels of the other, held in registers along all terms.

A product of two float32 has at most 48 digits: float64 holds it, and a fused multiply-add rounds as a multiplication and an
addition do.
"""

from __future__ import annotations

from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.inexact import Note

ARGUMENTS = ("a", "a_tile", "tiles", "b", "b_panel", "panels", "terms", "sums", "sums_row", "counter")
BOUND = 8  # where the counter has the factor of the sums' bounds: 0 where they are exact, else 1


def height(target: Target) -> int:
    """Rows of a tile."""
    return 8 if target.vector_bytes == 64 else 6 if target.architecture == "aarch64" else 4


def vectors(target: Target) -> int:
    """Vectors of float64 of a panel's row: with those of the tile, they fill the registers."""
    return 4 if target.architecture == "aarch64" else 3 if target.vector_bytes >= 32 else 2


def width(target: Target) -> int:
    """Columns of a panel."""
    return vectors(target) * target.vector_bytes // 8


def sums(target: Target, rows: int, across: int) -> str:
    """Sums of tiles of so many rows and panels of so many vectors; arguments: ARGUMENTS.

    a: tile after tile, `a_tile` bytes apart, float64, term by term; b: panels, float32, row by row. sums: rows of float64,
    `sums_row` bytes apart. counter: as `epilogue` has it, of which BOUND is written.
    """
    body = Body(target)
    lanes = target.vector_bytes // 8
    wide, single = Kind("double", lanes), Kind("float", lanes)
    arguments(body, ARGUMENTS, {"a", "b", "sums", "counter"})
    row_bytes = across * lanes * 4
    note = Note(body)

    def panel(p: str, _: list[Value]) -> list[Value]:
        b = body.at("%b", body.op(f"mul i64 {p}, %b_panel"))
        columns = body.at("%sums", body.op(f"mul i64 {p}, {across * lanes * 8}"))

        def tile(t: str, _: list[Value]) -> list[Value]:
            a = body.at("%a", body.op(f"mul i64 {t}, %a_tile"))

            def step(k: str, carried: list[Value]) -> list[Value]:
                at = body.at(b, body.op(f"mul i64 {k}, {row_bytes}"))
                right = [body.loaded(single, at, 4 * lanes * n).converted("fpext", wide) for n in range(across)]
                left = body.at(a, body.op(f"mul i64 {k}, {8 * rows}"))
                made = []
                for m in range(rows):
                    x = body.splat(body.loaded(Kind("double"), left, 8 * m), lanes)
                    made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
                return made

            # a sum is -0 where all of its terms are
            zero = body.constant(wide, -0.0)
            found = body.loop("0", "%terms", 1, [zero] * (rows * across), step)[1]
            into = body.at(columns, body.op(f"mul i64 {body.op(f'mul i64 {t}, {rows}')}, %sums_row"))
            for m in range(rows):
                at = body.at(into, body.op(f"mul i64 %sums_row, {m}"))
                for n in range(across):
                    body.stored(found[m * across + n], at, 8 * lanes * n)
            return []

        body.loop("0", "%tiles", 1, [], tile)
        return []

    body.loop("0", "%panels", 1, [], panel)
    body.stored(note.rounded().converted("uitofp", Kind("double")), "%counter", BOUND)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))
