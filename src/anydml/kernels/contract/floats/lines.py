"""Columns line by line: the runs of consecutive columns that lie along one line of the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable

from anydml.kernels.code.values import Body, Kind, Value

Run = Callable[[str, str, str, str, str, str], None]


def lines(body: Body, first: str, count: str, sizes: tuple[str, str], run: Run) -> str:
    """Emit `run(number, done, length, z, y, x)` for each run of so many columns, from the first one on; how many runs.

    sizes: of the two inner dimensions. done: columns in earlier runs; z, y, x: the place of a run's first column.
    """
    middle, inner = sizes
    i64 = Kind("i64")
    x0, line = body.op(f"urem i64 {first}, {inner}"), body.op(f"udiv i64 {first}, {inner}")
    y0, z0 = body.op(f"urem i64 {line}, {middle}"), body.op(f"udiv i64 {line}, {middle}")
    rest = body.op(f"add i64 {body.op(f'sub i64 {inner}, 1')}, {x0}")
    up = body.op(f"add i64 {count}, {rest}")
    runs = body.op(f"udiv i64 {up}, {inner}")

    def one(n: str, at: list[Value]) -> list[Value]:
        done, x, y, z = (v.name for v in at)
        room, left = body.op(f"sub i64 {inner}, {x}"), body.op(f"sub i64 {count}, {done}")
        length = body.op(f"select i1 {body.op(f'icmp ult i64 {room}, {left}')}, i64 {room}, i64 {left}")
        run(n, done, length, z, y, x)
        next_ = body.op(f"add i64 {y}, 1")
        over = body.op(f"icmp eq i64 {next_}, {middle}")
        further = (
            body.op(f"add i64 {done}, {length}"),
            "0",
            body.op(f"select i1 {over}, i64 0, i64 {next_}"),
            body.op(f"add i64 {z}, {body.op(f'zext i1 {over} to i64')}"),
        )
        return [Value(body, name, i64) for name in further]

    body.loop("0", runs, 1, [Value(body, name, i64) for name in ("0", x0, y0, z0)], one)
    return runs
