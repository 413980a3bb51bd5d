"""The tile of float64 sums: rows of one packed factor times panels of the other, accumulated in registers.

A product of two float32 has at most 48 bits and is exact in float64, so that a fused multiply-add gives the same result as a
multiplication and an addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.emit import kernel, when
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.contract.floats.inexact import Note
from anydml.kernels.copy.text import prefetch
from anydml.kernels.undecided.state import OWN

SUMMED = Signature("*a a_tile tiles *b b_panel panels terms *sums sums_row *counter")
ARGUMENTS = SUMMED + Signature("depth ahead *done *wide")
LINE = 64  # bytes that one prefetch loads
BOUND = 8 * OWN  # offset in `counter` of the factor of the sums' bounds: 0 if they are exact, else 1


def height(target: Target) -> int:
    """Rows of a tile."""
    return 8 if target.vector_bytes == 64 else 6 if target.architecture == "aarch64" else 4


def vectors(target: Target) -> int:
    """Vectors of float64 of a panel's row: a tile of this width fills the registers."""
    return 4 if target.architecture == "aarch64" else 3 if target.vector_bytes >= 32 else 2


def width(target: Target) -> int:
    """Columns of a panel."""
    return vectors(target) * target.vector_bytes // 8


def heights(target: Target, rows: range) -> Iterator[tuple[range, int]]:
    """Groups of rows and the heights of their tiles: two heights that differ by one, so that no tile is partial."""
    tiles = -(-len(rows) // height(target))
    least, taller = divmod(len(rows), tiles)
    middle = rows.start + taller * (least + 1)
    for group, h in ((range(rows.start, middle), least + 1), (range(middle, rows.stop), least)):
        if group:
            yield group, h


def sums(target: Target, rows: int, across: int, widened: bool) -> str:
    """The kernel that sums tiles of `rows` rows and panels of `across` vectors; arguments: ARGUMENTS.

    a: tile after tile, `a_tile` bytes apart, float64, term by term; b: panels, float32, row by row. sums: rows of float64,
    `sums_row` bytes apart. counter: as in `epilogue`; the kernel writes BOUND.
    done: the address of a number that is not 0 if all elements are stored already; then the kernel does nothing.
    ahead: the distance in bytes from a tile to the data that is prefetched during the last terms of the last panel.
    depth: terms of a block of K-blocking: parts of tiles and panels stay in the caches, and errors grow with the terms of a
    block instead of all terms.
    widened: whether a panel's part in a block is converted once for all tiles; wide: room for it.
    """
    body = Body(target)
    ARGUMENTS.load(body)
    when(body, body.op(f"icmp ne i64 {body.load('i64', '%done')}, 0"), lambda: leave(body))
    note = Note(body)
    body.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    before = body.op("sub i64 %depth, 1")
    up = body.op(f"udiv i64 {body.op(f'add i64 %terms, {before}')}, %depth")
    blocks = body.call("llvm.umax.i64", Kind("i64"), f"i64 {up}", "i64 1").name  # at least 1: sums without terms are stored

    def part(number: str, _: list[Value]) -> list[Value]:
        first = body.op(f"mul i64 {number}, %depth")
        left = body.op(f"sub i64 %terms, {first}")
        count = body.call("llvm.umin.i64", Kind("i64"), f"i64 {left}", "i64 %depth").name
        block(body, rows, across, first, count, widened=widened)
        return []

    body.loop("0", blocks, 1, [], part)
    body.stored(note.rounded().converted("uitofp", Kind("double")), "%counter", BOUND)
    body.do("ret i64 0")
    return kernel(body, list(body.declared))


def leave(body: Body) -> None:
    """Return from the kernel."""
    body.do("ret i64 0")
    body.label(body.name("never"))


def block(body: Body, rows: int, across: int, first: str, count: str, ahead: str = "%ahead", *, widened: bool) -> None:
    """Sum `count` terms, beginning at `first`: the first block stores its sums, later blocks add theirs.

    widened: whether `%wide` is room for a panel of float64, for which it is converted before its tiles.

    While a tile is summed, the next one and a part of the next panel are prefetched. The last panel prefetches the next terms
    instead, or after the last terms the data `ahead` bytes from a tile; 0 if nothing is known to follow.
    """
    lanes = body.target.vector_bytes // 8
    wide, row_bytes = Kind("double", lanes), across * lanes * 4
    a_first = body.at("%a", body.op(f"mul i64 {first}, {8 * rows}"))
    b_first = body.at("%b", body.op(f"mul i64 {first}, {row_bytes}"))
    a_after, b_after = body.op(f"mul i64 {count}, {8 * rows}"), body.at(b_first, body.op(f"mul i64 {count}, {row_bytes}"))
    done = body.op(f"icmp eq i64 {body.op(f'add i64 {first}, {count}')}, %terms")
    a_ahead = body.op(f"sub i64 {ahead}, {body.op(f'mul i64 {first}, {8 * rows}')}")
    a_after = body.op(f"select i1 {done}, i64 {a_ahead}, i64 {a_after}")

    def panel(p: str, _: list[Value]) -> list[Value]:
        b = body.at(b_first, body.op(f"mul i64 {p}, %b_panel"))
        columns = body.at("%sums", body.op(f"mul i64 {p}, {across * lanes * 8}"))
        last = body.op(f"icmp eq i64 {body.op(f'add i64 {p}, 1')}, %panels")
        a_next = body.op(f"select i1 {last}, i64 {a_after}, i64 %a_tile")
        b_next = body.op(f"select i1 {last}, ptr {b_after}, ptr {body.at(b, '%b_panel')}")

        if widened:
            widen(body, across, count, b)

        def tile(t: str, _: list[Value]) -> list[Value]:
            a = body.at(a_first, body.op(f"mul i64 {t}, %a_tile"))
            # a sum is -0 if all of its terms are
            zero = body.constant(wide, -0.0)
            right = Right("%wide" if widened else b, widened, b_next, t)
            found = multiplied(body, rows, across, count, a, a_next, right, [zero] * (rows * across))
            into = body.at(columns, body.op(f"mul i64 {body.op(f'mul i64 {t}, {rows}')}, %sums_row"))

            def store(*, add: bool) -> None:
                for m in range(rows):
                    at = body.at(into, body.op(f"mul i64 %sums_row, {m}"))
                    for n in range(across):
                        value, offset = found[m * across + n], 8 * lanes * n
                        body.stored(body.loaded(wide, at, offset) + value if add else value, at, offset)

            when(body, body.op(f"icmp ne i64 {first}, 0"), lambda: store(add=True))
            when(body, body.op(f"icmp eq i64 {first}, 0"), lambda: store(add=False))
            return []

        body.loop("0", "%tiles", 1, [], tile)
        return []

    body.loop("0", "%panels", 1, [], panel)


class Right(NamedTuple):
    """The panel of a tile, as float64 if it is widened. panel: the next one; number: of the tile, which determines the part of
    the next panel that it prefetches."""

    at: str
    widened: bool
    panel: str
    number: str


def widen(body: Body, across: int, count: str, b: str) -> None:
    """Convert `count` rows of a panel to float64, into `%wide`."""
    lanes = body.target.vector_bytes // 8

    def one(k: str, _: list[Value]) -> list[Value]:
        body.stored(
            body.loaded(Kind("float", lanes), b, body.op(f"mul i64 {k}, {4 * lanes}")).converted(
                "fpext", Kind("double", lanes)
            ),
            "%wide",
            body.op(f"mul i64 {k}, {8 * lanes}"),
        )
        return []

    body.loop("0", body.op(f"mul i64 {count}, {across}"), 1, [], one)


def multiplied(
    body: Body, rows: int, across: int, count: str, a: str, a_next: str, b: Right, begun: list[Value]
) -> list[Value]:
    """The sums of a tile, row by row, with `count` more terms. a_next: bytes from this tile to the next one."""
    lanes = body.target.vector_bytes // 8
    wide, row_bytes = Kind("double", lanes), across * lanes * 4
    part = body.at(b.panel, body.op(f"mul i64 {body.op(f'mul i64 {b.number}, {count}')}, {LINE}"))
    each = body.op(f"select i1 {body.op(f'icmp ult i64 {b.number}, {-(-row_bytes // LINE)}')}, i64 {LINE}, i64 0")

    def element(k: str, n: int) -> Value:
        if b.widened:
            return body.loaded(wide, body.at(b.at, body.op(f"mul i64 {k}, {2 * row_bytes}")), 8 * lanes * n)
        return body.loaded(wide.of("float"), body.at(b.at, body.op(f"mul i64 {k}, {row_bytes}")), 4 * lanes * n).converted(
            "fpext", wide
        )

    def step(k: str, carried: list[Value]) -> list[Value]:
        right = [element(k, n) for n in range(across)]
        left = body.at(a, body.op(f"mul i64 {k}, {8 * rows}"))
        prefetch(body, 1, left, a_next)
        prefetch(body, 2, part, body.op(f"mul i64 {k}, {each}"))
        made = []
        for m in range(rows):
            x = body.splat(body.loaded(Kind("double"), left, 8 * m), lanes)
            made += [body.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
        return made

    return body.loop("0", count, 1, begun, step)[1]
