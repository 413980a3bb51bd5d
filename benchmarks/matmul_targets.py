"""The targets of the matmuls, each compared with the worst figure of a run that it applies to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.matmul_peers import ONNXRUNTIME, TORCH

Row = dict[str, Any]
FINE, FINEST = "scales", "scales and zero points"


def _cube(row: Row) -> int:
    """The size of a cube of at least 512, else 0."""
    sizes = {int(n) for n in row["shape"].split(" x ")}
    return size if len(sizes) == 1 and (size := sizes.pop()) >= 512 else 0


def _share(row: Row) -> float | None:
    share: float | None = row["share_of_limit"]
    return share


def _peer(name: str) -> Callable[[Row], float | None]:
    return lambda row: row["peers"].get(name)


def _key(name: str) -> Callable[[Row], float | None]:
    return lambda row: row[name]


def _ordinary(row: Row) -> bool:
    return bool(row["data"] == "random" and row["operator"] == "quantized")


def _types(row: Row, a_and_b: str) -> bool:
    return bool(row["types"].startswith(a_and_b) and row["operator"] == "quantized")


def _k(row: Row) -> int:
    return int(row["shape"].split(" x ")[-2])


Target = tuple[str, float, Callable[[Row], bool], Callable[[Row], float | None]]
TARGETS: tuple[Target, ...] = (
    (
        "of the limit, B owned, 512 cubed",
        0.92,
        lambda r: _ordinary(r) and r["owned"] and r["granularity"] != FINEST and _cube(r) == 512,
        _share,
    ),
    (
        "of the limit, B owned, from 1024 cubed",
        0.93,
        lambda r: _ordinary(r) and r["owned"] and r["granularity"] != FINEST and _cube(r) > 512,
        _share,
    ),
    (
        "of the limit, B bound, from 512 cubed",
        0.85,
        lambda r: _ordinary(r) and not r["owned"] and _cube(r) > 0,
        _share,
    ),
    ("x oneDNN's linear layer, B owned, every shape", 0.97, lambda r: r["owned"], _peer(TORCH)),
    ("x torch._int_mm, B bound, every shape", 0.97, lambda r: not r["owned"], _peer(TORCH)),
    ("x onnxruntime, u8 by s8, from 512 cubed", 1.08, lambda r: _types(r, "u8 s8") and _cube(r) > 0, _peer(ONNXRUNTIME)),
    ("x onnxruntime, u8 by u8, from 512 cubed", 2.2, lambda r: _types(r, "u8 u8") and _cube(r) > 0, _peer(ONNXRUNTIME)),
    ("x onnxruntime, s8 by s8, from 512 cubed", 14.0, lambda r: _types(r, "s8 s8") and _cube(r) > 0, _peer(ONNXRUNTIME)),
    ("of the rate at which B can be read, M = 1", 0.8, lambda r: True, _key("share_of_read_rate")),
    ("x one thread on two, from 512 cubed", 1.8, lambda r: _cube(r) > 0, _key("two_threads")),
    ("of ordinary speed, powers of two", 0.95, lambda r: r["data"] == "powers", _key("of_ordinary_speed")),
    (
        "of ordinary speed, nothing but ties, K = 256",
        0.75,
        lambda r: r["data"] == "ties" and _k(r) == 256,
        _key("of_ordinary_speed"),
    ),
    (
        "of ordinary speed, nothing but ties, from K = 512",
        0.85,
        lambda r: r["data"] == "ties" and _k(r) >= 512,
        _key("of_ordinary_speed"),
    ),
)


def summary(rows: list[Row]) -> list[Row]:
    """One line, and one row, for each target that applies to figures of the run."""
    best = [row for row in rows if row["isa"] is None] or rows
    found = [*_judged(best), *_zero_points(best)]
    for row in found:
        print(
            f"{'met   ' if row['met'] else 'MISSED'} {row['wanted']:6.2f} {row['target']:52}"
            f" worst {row['worst']:6.2f} of {row['figures']:3} ({row['case']})"
        )
    return found


def _judged(rows: list[Row]) -> Iterator[Row]:
    for target, wanted, speaks_of, figure in TARGETS:
        figures = [(value, row["case"]) for row in rows if speaks_of(row) and (value := figure(row)) is not None]
        if figures:
            yield _verdict(target, wanted, figures)


def _zero_points(rows: list[Row]) -> Iterator[Row]:
    """Zero points per row and per column, compared with zero points per tensor."""
    fine = {
        (row["shape"], row["types"], row["owned"]): _share(row) for row in rows if row["granularity"] == FINE and _ordinary(row)
    }
    figures = [
        (share - before, row["case"])
        for row in rows
        if row["granularity"] == FINEST and (share := _share(row)) is not None
        if (before := fine.get((row["shape"], row["types"], row["owned"]))) is not None
    ]
    if figures:
        yield _verdict("of the limit more with zero points per row and column", -0.03, figures)


def _verdict(target: str, wanted: float, figures: list[tuple[float, str]]) -> Row:
    worst, case = min(figures)
    return {"target": target, "wanted": wanted, "worst": worst, "case": case, "figures": len(figures), "met": worst >= wanted}
