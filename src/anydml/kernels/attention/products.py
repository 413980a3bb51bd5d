"""Tiles of sums of products in float64: rows of one factor, a panel of vectors of the other."""

from __future__ import annotations

from anydml.kernels.attention.function import DOUBLE, Function
from anydml.kernels.attention.key import AttentionKey
from anydml.kernels.code.targets import Target
from anydml.kernels.code.values import Value


def title(across: int, height: int) -> str:
    return f"products{across}" if height > 1 else f"products{across}_of_rows"


def products(target: Target, key: AttentionKey, height: int, across: int) -> Function:
    """The function for tiles of a number of rows and vectors.

    a: rows `a_row` bytes apart, each with the factors of one term after the other; b: the other factors, a term's `b_row` bytes
    from the one before. sums: rows `row` bytes apart. more: whether the products are added to the sums in memory.
    """
    parameters = ["ptr a", "i64 a_row", "i64 tiles", "ptr b", "i64 b_row", "i64 terms", "ptr sums", "i64 row", "i64 more"]
    f = Function(target, key, title(across, height), parameters)
    lanes, wide = f.lanes, f.wide

    def tile(t: str) -> None:
        first = f.times(t, height)
        start = f.at("%a", f.times(first, "%a_row"))
        rows = [f.at(start, f.times("%a_row", m)) for m in range(height)]

        def term(k: str, carried: list[Value]) -> list[Value]:
            at, eight = f.at("%b", f.times(k, "%b_row")), f.times(k, 8)
            right = [f.loaded(wide, at, 8 * lanes * n) for n in range(across)]
            made = []
            for m in range(height):
                x = f.splat(f.loaded(DOUBLE, rows[m], eight), lanes)
                made += [f.fused(x, y, carried[m * across + n]) for n, y in enumerate(right)]
            return made

        # a sum is -0 if all of its terms are
        zero = f.constant(wide, -0.0)
        found = f.loop("0", "%terms", 1, [zero] * (height * across), term)[1]
        into = f.at("%sums", f.times(first, "%row"))

        def store(*, add: bool) -> None:
            for m in range(height):
                to = f.at(into, f.times("%row", m))
                for n in range(across):
                    x, offset = found[m * across + n], 8 * lanes * n
                    f.stored(f.loaded(wide, to, offset) + x if add else x, to, offset)

        f.when(f.op("icmp ne i64 %more, 0"), lambda: store(add=True))
        f.when(f.op("icmp eq i64 %more, 0"), lambda: store(add=False))

    f.each("0", "%tiles", tile)
    return f
