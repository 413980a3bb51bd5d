"""Columns line by line: the runs of consecutive columns in one line of the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anydml.kernels.code.values import Body, Kind, Value

Run = Callable[[str, str, str, str, str, str], None]


class Start(NamedTuple):
    """The index of the first column in three dimensions, computed by divisions; runs: the number of runs."""

    z: str
    y: str
    x: str
    runs: str


def start(body: Body, first: str, count: str, sizes: tuple[str, str]) -> Start:
    """The start of `count` columns, beginning at `first`. sizes: those of the two inner dimensions."""
    middle, inner = sizes
    x, line = body.op(f"urem i64 {first}, {inner}"), body.op(f"udiv i64 {first}, {inner}")
    y, z = body.op(f"urem i64 {line}, {middle}"), body.op(f"udiv i64 {line}, {middle}")
    rest = body.op(f"add i64 {body.op(f'sub i64 {inner}, 1')}, {x}")
    return Start(z, y, x, body.op(f"udiv i64 {body.op(f'add i64 {count}, {rest}')}, {inner}"))


def lines(body: Body, first: str, count: str, sizes: tuple[str, str], run: Run, begun: Start | None = None) -> str:
    """Emit `run(number, done, length, z, y, x)` for each run of `count` columns, beginning at `first`. -> the number of runs

    sizes: those of the two inner dimensions. done: columns in earlier runs. z, y, x: the index of a run's first column. begun:
    the result of `start`, if it is known.
    """
    middle, inner = sizes
    i64 = Kind("i64")
    begun = begun or start(body, first, count, sizes)

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

    body.loop("0", begun.runs, 1, [Value(body, name, i64) for name in ("0", begun.x, begun.y, begun.z)], one)
    return begun.runs
