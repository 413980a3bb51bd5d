"""The measurements behind the tiles of `contract/dot.py` and the thresholds of `contract/tuning.py`: python -m benchmarks.tiles
[PART ..]

tiles: rows by vectors of a tile, compared with the bare dot products, operands in cache. heights: rows, in the whole quantised
product. chains: sums at the same time in low tiles. block, chunk, alone: of the tuning.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping

import anydml as dml
from anydml.kernels.code.targets import Target, named, targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.tile import panel_columns
from benchmarks.limits import dots, instruction_sets
from benchmarks.matmul_cases import Case, bound, check_corners, data
from benchmarks.timing import best
from benchmarks.variants import Tiles, dot_with, inner_loop, patched

Calls = dict[str, Callable[[], object]]
DEPTHS = (256, 1024, 4096)
TYPES = ("u8", "s8", "u8")
KIB = 1 << 10


def registers(target: Target) -> int:
    return 32 if target.vector_bytes == 64 or target.architecture == "aarch64" else 16


def needed(target: Target, rows: int, vectors: int) -> int:
    """The number of registers: sums, B, A, and for pairs the product."""
    return rows * vectors + vectors + (1 if dot_of(target).group == 4 else 2)


def shares(calls: Calls, macs: Mapping[str, int], target: Target, seconds: float) -> dict[str, float]:
    """Multiply-accumulates per second of each call, as shares of the bare loop's; all take turns."""
    limit, limit_macs = dots(target.name)
    t = best({**calls, "limit": limit}, seconds=seconds, clock=time.thread_time)
    return {name: macs[name] / t[name] / (limit_macs / t["limit"]) for name in calls}


def _line(values: Iterable[float | None]) -> str:
    return "  ".join("    -" if x is None else f"{x:5.3f}" for x in values)


def tiles(target: Target, seconds: float) -> None:
    print(f"\n{target.name}: rows x vectors, share of the limit at K = {', '.join(map(str, DEPTHS))}, and the loop")
    sizes = [(r, v) for v in range(1, 5) for r in range(2, 17) if needed(target, r, v) <= registers(target) + v]
    calls: Calls = {}
    macs: dict[str, int] = {}
    for rows, vectors in sizes:
        with dot_with(target, rows=rows, vectors=vectors, chains=1):
            for k in DEPTHS:
                column = 4 * k // dot_of(target).group
                panels = max(1, (256 * KIB // column) // (vectors * target.vector_bytes // 4))
                made = Tiles(target, rows, max(1, 112 // rows), k, panels)
                made.check()
                name = f"{rows} x {vectors}, {k}"
                calls[name], macs[name] = made.call, made.macs
    share = shares(calls, macs, target, seconds)
    for rows, vectors in sizes:
        found = [share[f"{rows} x {vectors}, {k}"] for k in DEPTHS]
        with dot_with(target, rows=rows, vectors=vectors, chains=1):
            loop = inner_loop(target, rows)
        print(f"{rows:3} x {vectors}  {_line(found)}   {loop}", flush=True)


def heights(target: Target, seconds: float) -> None:
    """All tiles have this height, and two vectors."""
    print(f"\n{target.name}: rows, the whole quantised product, share of the limit at K = {', '.join(map(str, DEPTHS))}")
    most = registers(target) // 2
    wanted = range(max(2, most // 2 - 2), most)
    calls: Calls = {}
    macs: dict[str, int] = {}
    for rows in wanted:
        with dot_with(target, rows=rows):
            for k in DEPTHS:
                case = Case(-(-768 // rows) * rows, k, max(512, k // 2), TYPES)
                name = f"{rows}, {k}"
                calls[name], macs[name] = _bound(case, target), case.macs
    share = shares(calls, macs, target, seconds)
    for rows in wanted:
        print(f"{rows:3}  {_line(share[f'{rows}, {k}'] for k in DEPTHS)}", flush=True)


def chains(target: Target, seconds: float) -> None:
    print(f"\n{target.name}: chains, share of the limit of M = 1, 2, 3, 4, B of 512 KB")
    values = (1, 4, 8, 12, 16, 20, 24)
    calls: Calls = {}
    macs: dict[str, int] = {}
    for value in values:
        with dot_with(target, chains=value):
            for m in range(1, 5):
                made = Tiles(target, m, 1, 1024, 512 * KIB // (1024 * panel_columns(target)))
                made.check()
                calls[f"{value}, {m}"], macs[f"{value}, {m}"] = made.call, made.macs
    share = shares(calls, macs, target, seconds)
    for value in values:
        print(f"{value:3}  {_line(share.get(f'{value}, {m}') for m in range(1, 5))}", flush=True)


def block(target: Target, seconds: float) -> None:
    sizes = (100, 200, 300, 400, 500, 600, 700, 800, 1000, 1500, 1 << 20)
    cases = [Case(2048, 2048, 2048, TYPES), Case(1024, 4096, 4096, TYPES), Case(4096, 512, 1024, TYPES)]
    _constant(target, "block", sizes, cases, seconds)


def chunk(target: Target, seconds: float) -> None:
    sizes = (16, 32, 64, 128, 192, 256, 384, 512, 768)
    cases = [Case(m, 1024, 1024, TYPES, owned=False) for m in (1, 4, 16, 64, 128, 512)]
    cases += [Case(m, 4096, 1024, TYPES, owned=False) for m in (1, 16, 128, 512)]
    _constant(target, "chunk", sizes, cases, seconds)


def _constant(target: Target, constant: str, kilobytes: tuple[int, ...], cases: list[Case], seconds: float) -> None:
    print(f"\n{target.name}: {constant} in KB, share of the limit of {'; '.join(case.shape for case in cases)}")
    calls: Calls = {}
    macs: dict[str, int] = {}
    for value in kilobytes:
        with patched(tuning, TUNING=tuning.TUNING._replace(**{constant: value * KIB})):
            for case in cases:
                name = f"{value}, {case}"
                calls[name], macs[name] = _bound(case, target), case.macs
    share: dict[str, float] = {}
    for case in cases:
        share |= shares({name: call for name, call in calls.items() if name.endswith(f", {case}")}, macs, target, seconds)
    for value in kilobytes:
        print(f"{value:8}  {_line(share[f'{value}, {case}'] for case in cases)}", flush=True)


def alone(target: Target, seconds: float) -> None:
    """The factor by which a second thread makes small products faster."""
    print(f"\n{target.name}: products in 2^20, two threads against one, M = 32 and cubes")
    for n in (64, 96, 128, 160, 192, 224, 256, 320, 384):
        for case in (Case(n, n, n, TYPES), Case(32, n, max(64, n * n // 32), TYPES)):
            with patched(tuning, TUNING=tuning.TUNING._replace(alone=0)):
                calls = {str(threads): _bound(case, target, threads) for threads in (1, 2)}
            t = best(calls, seconds=seconds)
            print(f"{case.macs / 2**20:8.2f}  {case.shape:20} {t['1'] / t['2']:5.2f}  {t['1'] * 1e6:8.1f} us", flush=True)


def _bound(case: Case, target: Target, threads: int = 1) -> Callable[[], object]:
    d = data(case)
    call, output, kernel = bound(d, dml.Device(threads=threads, isa=target.name))
    assert kernel.endswith(":compiled"), kernel
    call()
    check_corners(d, output)
    return call


PARTS: dict[str, Callable[[Target, float], None]] = {
    "tiles": tiles, "heights": heights, "chains": chains, "block": block, "chunk": chunk, "alone": alone,
}  # fmt: skip


def main() -> None:
    names = [target.name for target in targets() if target.name in instruction_sets()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiles", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--isa", choices=names, help="default: tiles, heights and chains for all, the rest for the widest")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each variant that is timed")
    arguments = parser.parse_args()
    for part in arguments.parts or PARTS:
        every = part in ("tiles", "heights", "chains")
        for name in [arguments.isa] if arguments.isa else names if every else names[-1:]:
            target = named(name)
            assert target is not None
            PARTS[part](target, arguments.seconds)


if __name__ == "__main__":
    main()
