"""The kernels of Winograd's algorithm beside that of its inputs: filters transformed, products, and sums made of them.

All is float64. Filters lie as the tile of sums wants its rows, position by position of the transform; products are rows of
tiles of outputs, position by position, too.
"""

from __future__ import annotations

import numpy as np

from anydml.kernels.code.emit import arguments, kernel
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats import winograd
from anydml.kernels.contract.floats.rows import NORM_SLACK
from anydml.kernels.contract.floats.winograd import (
    AMPLIFIED,
    BLOCK,
    FILTER,
    FILTER_NORMS,
    INPUT_NORMS,
    POSITIONS,
    READ,
    SLACK,
    TILE,
)
from anydml.kernels.elementwise import halves
from anydml.tensor import DataType

AHEAD = 2048  # bytes of filters that are asked for before they are read
TRANSFORM = ("a", "row", "tiles", "channels", "term", "line", "into", "position", "norms", "plain", "part")
PRODUCTS = (
    "a", "a_position", "a_tile", "tiles", "b", "b_position", "b_panel", "panels", "terms", "into", "position", "row",
)  # fmt: skip
SUMS = ("from", "position", "row", "rows", "tile_rows", "tiles", "width", "sums", "sums_row")


def wide(bits: Value, data_type: DataType) -> Value:
    """Elements as float64."""
    single = halves.widened(bits) if data_type == DataType.FLOAT16 else bits.cast(bits.kind.of("float"))
    return single.converted("fpext", bits.kind.of("double"))


def transformed(target: Target, data_type: DataType, height: int) -> str:
    """Filters transformed, in tiles of so many rows; arguments: TRANSFORM.

    row, term, line: bytes from one filter, channel, line of a filter to the next. into: for each position, `position` bytes
    apart, tile by tile, term by term. plain: of each row, the root of the sum of its squares, rounded up; norms: what the
    bounds of its sums are made of; part: of plain norms in these, a float64.
    """
    body = Body(target)
    arguments(body, TRANSFORM, {"a", "into", "norms", "plain"})
    part = body.splat(Value(body, body.op("bitcast i64 %part to double"), Kind("double")), height)
    size = data_type.dtype.itemsize
    lanes, element = Kind("double", height), Kind(f"i{8 * size}")
    squares_at = body.op(f"alloca [{POSITIONS * height} x double], align 64")

    def tile(t: str, _: list[Value]) -> list[Value]:
        first = body.at("%a", body.op(f"mul i64 {body.op(f'mul i64 {t}, {height}')}, %row"))
        filters = [body.at(first, body.op(f"mul i64 %row, {r}")) for r in range(height)]
        to = body.at("%into", body.op(f"mul i64 {body.op(f'mul i64 {t}, %channels')}, {8 * height}"))

        for n in range(POSITIONS):
            body.stored(body.constant(lanes, 0.0), squares_at, 8 * height * n)

        def channel(c: str, carried: list[Value]) -> list[Value]:
            offset = body.op(f"mul i64 {c}, %term")
            lines: list[list[Value]] = []
            squares = carried[0]
            for p in range(FILTER):
                at = body.op(f"add i64 {offset}, {body.op(f'mul i64 %line, {p}')}")
                lines.append([])
                for q in range(FILTER):
                    bits = body.undefined(Kind(element.element, height))
                    for r, place in enumerate(filters):
                        bits = bits.replaced(r, body.loaded(element, body.at(place, at), size * q))
                    x = wide(bits, data_type)
                    squares = body.fused(x, x, squares)
                    lines[p].append(x)
            down = [winograd.filters([lines[p][q] for p in range(FILTER)]) for q in range(FILTER)]
            place = body.at(to, body.op(f"mul i64 {c}, {8 * height}"))
            for i in range(READ):
                for j, x in enumerate(winograd.filters([down[q][i] for q in range(FILTER)])):
                    body.stored(x, place)
                    place = body.at(place, "%position")
                    before = body.loaded(lanes, squares_at, 8 * height * (i * READ + j))
                    body.stored(body.fused(x, x, before), squares_at, 8 * height * (i * READ + j))
            return [squares]

        squares = body.loop("0", "%channels", 1, [body.constant(lanes, 0.0)], channel)[1][0]
        at = body.op(f"mul i64 {t}, {8 * height}")
        body.stored(squares.root() * NORM_SLACK, body.at("%plain", at))
        made = [[body.loaded(lanes, squares_at, 8 * height * (i * READ + j)) for j in range(READ)] for i in range(READ)]
        made = winograd.norms(made, squares, FILTER_NORMS, part)
        largest = body.constant(lanes, 0.0)
        for i, line in enumerate(winograd.weighted(made, INPUT_NORMS / FILTER_NORMS)):
            for j, x in enumerate(line):
                x = x.root() * float(SLACK / np.sqrt(AMPLIFIED[i] * AMPLIFIED[j]))
                # NaN stays
                largest = body.chosen(x.compared("olt", largest) | largest.compared("uno", largest), largest, x)
        body.stored(largest, body.at("%norms", at))
        return []

    body.loop("0", "%tiles", 1, [], tile)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def products(target: Target, rows: int, across: int) -> str:
    """At each position, the sums of tiles of so many rows and panels of so many vectors; arguments: PRODUCTS.

    Both are float64. Terms are added up in blocks.
    """
    body = Body(target)
    lanes = target.vector_bytes // 8
    kind = Kind("double", lanes)
    arguments(body, PRODUCTS, {"a", "b", "into"})
    row_bytes = across * lanes * 8

    def position(n: str, _: list[Value]) -> list[Value]:
        a_here, b_here, to_here = (
            body.at(f"%{base}", body.op(f"mul i64 {n}, %{step}"))
            for base, step in (("a", "a_position"), ("b", "b_position"), ("into", "position"))
        )

        def panel(p: str, _: list[Value]) -> list[Value]:
            b = body.at(b_here, body.op(f"mul i64 {p}, %b_panel"))
            columns = body.at(to_here, body.op(f"mul i64 {p}, {row_bytes}"))

            def tile(t: str, _: list[Value]) -> list[Value]:
                a = body.at(a_here, body.op(f"mul i64 {t}, %a_tile"))
                into = body.at(columns, body.op(f"mul i64 {body.op(f'mul i64 {t}, {rows}')}, %row"))

                def step(k: str, carried: list[Value]) -> list[Value]:
                    right = [
                        body.loaded(kind, body.at(b, body.op(f"mul i64 {k}, {row_bytes}")), 8 * lanes * n)
                        for n in range(across)
                    ]
                    left = body.at(a, body.op(f"mul i64 {k}, {8 * rows}"))
                    # filters are read once for each panel, from far away
                    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
                    body.do(f"call void @llvm.prefetch.p0(ptr {body.at(left, AHEAD)}, i32 0, i32 3, i32 1)")
                    made = []
                    for m in range(rows):
                        x = body.splat(body.loaded(Kind("double"), left, 8 * m), lanes)
                        made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
                    return made

                def block(first: str, _: list[Value]) -> list[Value]:
                    end = body.call(
                        "llvm.umin.i64", Kind("i64"), f"i64 {body.op(f'add i64 {first}, {BLOCK}')}", "i64 %terms"
                    ).name
                    zero = body.constant(kind, 0.0)
                    found = body.loop(first, end, 1, [zero] * (rows * across), step)[1]
                    begun = Value(body, body.op(f"icmp eq i64 {first}, 0"), Kind("i1"))
                    for m in range(rows):
                        at = body.at(into, body.op(f"mul i64 %row, {m}"))
                        for n in range(across):
                            before = body.loaded(kind, at, 8 * lanes * n)
                            before = body.value(f"select i1 {begun.name}, {kind.text} {zero.name}, {before!r}", kind)
                            body.stored(found[m * across + n] + before, at, 8 * lanes * n)
                    return []

                body.loop("0", body.op(f"and i64 {body.op(f'add i64 %terms, {BLOCK - 1}')}, {-BLOCK}"), BLOCK, [], block)
                return []

            body.loop("0", "%tiles", 1, [], tile)
            return []

        body.loop("0", "%panels", 1, [], panel)
        return []

    body.loop("0", str(POSITIONS), 1, [], position)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def sums(target: Target) -> str:
    """Sums of windows from products; arguments: SUMS.

    from: rows of products, `row` bytes apart, for each position, `position` bytes apart. tile_rows x tiles: of outputs, in
    lines of `width` columns. sums: rows of float64, `sums_row` bytes apart, with room for a vector of tiles behind the last.
    """
    body = Body(target)
    lanes = target.vector_bytes // 8
    kind = Kind("double", lanes)
    arguments(body, SUMS, {"from", "sums"})
    vectors = body.op(f"udiv i64 {body.op(f'add i64 %tiles, {lanes - 1}')}, {lanes}")
    last, line = body.op(f"sub i64 {vectors}, 1"), body.op("mul i64 %width, 8")

    def row(r: str, _: list[Value]) -> list[Value]:
        from_ = body.at("%from", body.op(f"mul i64 {r}, %row"))
        to = body.at("%sums", body.op(f"mul i64 {r}, %sums_row"))

        def tile_row(y: str, _: list[Value]) -> list[Value]:
            first = body.op(f"mul i64 {y}, %tiles")
            lines = body.at(to, body.op(f"mul i64 {body.op(f'mul i64 {y}, {TILE}')}, {line}"))

            def vector(n: str, _: list[Value]) -> list[Value]:
                # from the last to the first: what the last one writes behind its line, the first of the next writes over
                v = body.op(f"mul i64 {body.op(f'sub i64 {last}, {n}')}, {lanes}")
                at = body.at(from_, body.op(f"mul i64 {body.op(f'add i64 {first}, {v}')}, 8"))
                read: list[list[Value]] = []
                for _i in range(READ):
                    read.append([])
                    for _j in range(READ):
                        read[-1].append(body.loaded(kind, at))
                        at = body.at(at, "%position")
                down = [winograd.outputs([read[i][j] for i in range(READ)]) for j in range(READ)]
                into = body.at(lines, body.op(f"mul i64 {v}, {8 * TILE}"))
                for i in range(TILE):
                    made = winograd.outputs([down[j][i] for j in range(READ)])
                    body.stored(interleaved(body, made), into)
                    into = body.at(into, line)
                return []

            body.loop("0", vectors, 1, [], vector)
            return []

        body.loop("0", "%tile_rows", 1, [], tile_row)
        return []

    body.loop("0", "%rows", 1, [], row)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def interleaved(body: Body, xs: list[Value]) -> Value:
    """Four vectors as one: the first lanes of all, then the second ones, .."""
    one = xs[0].kind
    two, four = Kind(one.element, 2 * one.lanes), Kind(one.element, 4 * one.lanes)

    def joined(x: Value, y: Value, kind: Kind, order: list[int]) -> Value:
        mask = ", ".join(f"i32 {n}" for n in order)
        return body.value(f"shufflevector {x!r}, {y!r}, <{len(order)} x i32> <{mask}>", kind)

    low = joined(xs[0], xs[1], two, list(range(two.lanes)))
    high = joined(xs[2], xs[3], two, list(range(two.lanes)))
    return joined(low, high, four, [n * one.lanes + lane for lane in range(one.lanes) for n in range(4)])
