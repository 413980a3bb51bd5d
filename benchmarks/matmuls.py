"""The integer matmuls compared with the processor's bare dot product, with reading of B, and with onnxruntime, oneDNN and
NumPy."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import anydml as dml
from anydml.kernels.code.targets import targets
from benchmarks import matmul_targets
from benchmarks.limits import dots, instruction_sets, reads
from benchmarks.matmul_cases import Case, bound, check_corners, data
from benchmarks.matmul_peers import HELD, peers
from benchmarks.timing import best

Rows = list[dict[str, Any]]
CUBES = (512, 1024, 2048, 4096)
SHAPES: tuple[tuple[int, int, int, int], ...] = (  # batch, M, K, N
    (1, 1, 1024, 1024),
    (1, 1, 4096, 4096),
    (1, 16, 768, 768),
    (1, 128, 768, 3072),
    (1, 100, 37, 53),
    (12, 384, 64, 384),
    *((1, n, n, n) for n in CUBES),
)
SLOW = 0.6  # seconds; longer calls are timed once


def cases() -> list[Case]:
    """Not all combinations: each question for the shapes that can answer it."""
    found = []
    four = list(itertools.product(("u8", "s8"), ("u8", "s8")))
    for (batch, m, k, n), (a, b) in itertools.product(SHAPES, four):
        found.append(Case(m, k, n, (a, b, a), batch))
    for n, (a, b), y in itertools.product((512, 1024), four, ("u8", "s8")):
        fineness = ("tensor", "scales", "scales and zero points")
        found += [Case(n, n, n, (a, b, y), granularity=g) for g in fineness if g != "tensor" or y != a]
    for (batch, m, k, n), (a, b) in itertools.product(SHAPES, four):
        if (a, b) == ("s8", "s8") or m in CUBES:
            found.append(Case(m, k, n, (a, b, a), batch, owned=False))
    for (batch, m, k, n), owned in itertools.product(SHAPES, (True, False)):
        if n < 2048:
            found.append(Case(m, k, n, ("s8", "s8", "s32"), batch, owned=owned))
    for k in (64, 256, 512, 1024, 4096):
        found += [Case(512, k, 512, ("u8", "s8", "u8"), granularity=g, data="powers") for g in ("tensor", "scales")]
    for k, types in itertools.product((256, 512, 1024), (("u8", "s8", "u8"), ("s8", "s8", "s8"))):
        found.append(Case(512, k, 512, types, data="ties"))
    return found


def run(shapes: Iterable[str] | None = None, seconds: float = 0.15, isa: str | None = None) -> Rows:
    """shapes: by their names in the table ("512 x 512 x 512"), by default all. isa: an instruction set, by default the best.

    A process is limited to an instruction set when it starts (`HELD`), so that the other libraries use it too.
    """
    chosen = None if shapes is None else {s.replace(" ", "").replace("x", " x ") for s in shapes}
    if unknown := (chosen or set()) - {c.shape for c in cases()}:
        raise ValueError(f"no case has the shape {', '.join(sorted(unknown))}; there are {sorted({c.shape for c in cases()})}")
    known = instruction_sets()
    for name in known:
        print(f"bare dot products, {name:12} {_limit(name):7.1f} GMAC/s", flush=True)
    print(f"{'':62}{'GMAC/s':>8}{'of limit':>9}{'of reads':>9}{'2 threads':>10}  others, x")
    wanted = [c for c in cases() if chosen is None or c.shape in chosen]
    with _one_thread():
        rows = [_shown(_row(c, seconds, isa)) for c in wanted]
    if isa is None and (chosen is None or "1024 x 1024 x 1024" in chosen):
        for name in known:
            rows += [_shown(row) for row in _held(name, seconds)]
    return rows + matmul_targets.summary(rows)


def one_instruction_set(isa: str, seconds: float) -> Rows:
    """The products that are timed on each instruction set."""
    chosen = [Case(1024, 1024, 1024, ("u8", "s8", "u8")), Case(1024, 1024, 1024, ("s8", "s8", "s32"), owned=False)]
    with _one_thread():
        return [_row(c, seconds, isa) for c in chosen]


def _held(isa: str, seconds: float) -> Rows:
    """The same in a process of its own, in which the other libraries are limited to the instruction set."""
    if isa not in {row.name for row in targets()}:
        print(f"{isa}: no kernels are compiled for it")
        return []
    command = f"import json; from benchmarks import matmuls; print(json.dumps(matmuls.one_instruction_set({isa!r}, {seconds})))"
    done = subprocess.run(
        [sys.executable, "-c", command], env=os.environ | HELD[isa], check=True, stdout=subprocess.PIPE, text=True
    )
    found: Rows = json.loads(done.stdout.splitlines()[-1])
    return found


def _one_thread() -> contextlib.AbstractContextManager[object]:
    """Limit NumPy's matmul to one thread; it would use all processors, also within our kernel."""
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limited: contextlib.AbstractContextManager[object] = threadpool_limits(1, "blas")
        return limited
    return contextlib.nullcontext()


@cache
def _limit(isa: str) -> float:
    call, macs = dots(isa)
    return macs / best({"": call}, seconds=0.2)[""] / 1e9


@cache
def _reads(nbytes: int, isa: str) -> dict[str, Callable[[], object]]:
    """The three fastest ways to read this many bytes."""
    calls = reads(nbytes, isa)
    seconds = best(calls, seconds=0.03)
    return {name: calls[name] for name in sorted(calls, key=lambda name: seconds[name])[:3]}


def _row(case: Case, seconds: float, isa: str | None) -> dict[str, Any]:
    best_known = instruction_sets()[-1:]
    held_to = isa or next(iter(best_known), None)
    d = data(case)
    one, output, kernel = bound(d, dml.Device(threads=1, isa=isa))
    calls = {"one": one}
    results = [(one, output)]
    if min(case.m, case.n) >= 512 and case.data == "random":
        two, output, _ = bound(d, dml.Device(threads=2, isa=isa))
        calls["two"] = two
        results.append((two, output))
    for call, result in results:
        call()
        check_corners(d, result)
    macs = 0
    if held_to in instruction_sets():
        calls["limit"], macs = dots(held_to)
        if case.m == 1:
            calls |= _reads(case.k * case.n, held_to)
    refused: list[str] = []
    others: list[str] = []
    if case.data != "random":
        calls["ordinary"] = bound(data(case._replace(data="random")), dml.Device(threads=1, isa=isa))[0]
    elif case.granularity == "tensor":
        made, refused = peers(d, onnxruntime=isa is None or [isa] == best_known)
        calls |= made
        others = list(made)
    t = best(calls, seconds=seconds, slow=SLOW <= 512**3)
    limit = macs / t["limit"] / 1e9 if macs else None
    speed = case.macs / t["one"] / 1e9
    reading = min((s for name, s in t.items() if name.startswith("read")), default=None)
    return {
        "case": str(case),
        "shape": case.shape,
        "types": " ".join(case.types),
        "operator": "quantized" if case.quantized else "integer",
        "granularity": case.granularity,
        "owned": case.owned,
        "data": case.data,
        "isa": isa,
        "kernel": kernel,
        "microseconds": t["one"] * 1e6,
        "gigamacs_per_second": speed,
        "limit": limit,
        "share_of_limit": speed / limit if limit else None,
        "read_gigabytes_per_second": case.k * case.n / reading / 1e9 if reading else None,
        "share_of_read_rate": reading / t["one"] if reading else None,
        "two_threads": t["one"] / t["two"] if "two" in t else None,
        "of_ordinary_speed": t["ordinary"] / t["one"] if "ordinary" in t else None,
        "peers": {name: t[name] / t["one"] for name in others},
        "peers_gigamacs_per_second": {name: case.macs / t[name] / 1e9 for name in others},
        "refused": refused,
    }


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    def number(key: str, width: int) -> str:
        return f"{'':{width}}" if row[key] is None else f"{row[key]:{width}.2f}"

    others = [f"{name} {ratio:.2f}" for name, ratio in row["peers"].items()] + [f"{name} refuses" for name in row["refused"]]
    if row["of_ordinary_speed"] is not None:
        others.append(f"ordinary data {row['of_ordinary_speed']:.2f}")
    name = row["case"] + ("" if row["isa"] is None else f", {row['isa']}")
    print(
        f"{name:62}{row['gigamacs_per_second']:8.1f}{number('share_of_limit', 9)}{number('share_of_read_rate', 9)}"
        f"{number('two_threads', 10)}  {'  '.join(others)}  {row['kernel']}",
        flush=True,
    )
    return row
