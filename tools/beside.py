"""Times the same calls with two source trees, in turns: `python tools/beside.py OLD_CHECKOUT [PART ...]`.

OLD_CHECKOUT is a checkout of another commit, such as one that `git worktree add FOLDER COMMIT` makes. Two processes make the
same calls on one thread, one with its `src`, one with the `src` of this checkout. They take turns for a fraction of a second
each, and the best of many turns counts. A case that seems slower is timed again, with arrays at other places. The ratio is the
old time divided by the new one; cases that the old code refuses and outputs that differ are named.

It takes about a quarter of an hour on an idle machine, where it should run. --busy counts the thread's own time instead, which
other processes affect less. Without names, all parts run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
SLOWER = 0.97  # a smaller ratio is asked about again, and then named
WINDOW = 0.04  # seconds of a turn
ROUNDS = 8  # turns of each process
AGAIN = 12  # times that a case is timed again
Case = Callable[[], tuple[Callable[[], object], list[Any]]]  # makes a call, and the arrays that it writes


# --- the process that times one of the source trees: it imports that tree's anydml, and the cases of this checkout ---


def _parts() -> dict[str, Mapping[str, Case]]:
    sys.path.insert(0, str(ROOT))
    from benchmarks import cliff_cases, networks
    from benchmarks.network_layers import CLASSES

    import anydml as dml

    rng = np.random.default_rng(0)

    def normal(*sizes: int) -> Any:
        return rng.standard_normal(sizes).astype(np.float32)

    def integers(*sizes: int) -> Any:
        return rng.integers(-128, 128, sizes).astype(np.int8)

    def of_graph(function: Callable[..., Any], *inputs: Any) -> Case:
        """The bound call of a graph whose inputs are arrays."""

        def made() -> tuple[Callable[[], object], list[Any]]:
            named = dict(zip("abcdefgh", inputs, strict=False))
            graph = dml.graph(
                lambda **found: function(*(found[name] for name in named)),
                **{name: dml.TensorDesc.of(x) for name, x in named.items()},
            )
            outputs = {name: np.zeros(t.sizes, t.data_type.dtype) for name, t in graph.outputs.items()}
            return graph.compile(dml.Device(threads=1)).bind(**named, **outputs).execute, list(outputs.values())

        return made

    def product(m: int, k: int, n: int) -> Case:
        return of_graph(lambda a, b: dml.gemm(a, b), normal(1, 1, m, k), normal(1, 1, k, n))

    def of_integers(m: int, k: int, n: int) -> Case:
        return of_graph(lambda a, b: dml.matrix_multiply_integer(a, b), integers(1, 1, m, k), integers(1, 1, k, n))

    def layer(read: int, written: int, taps: int, stride: int, side: int, groups: int = 1) -> Case:
        x, f, padding = normal(1, read, side, side), normal(written, read // groups, taps, taps), (taps // 2,) * 2
        options: dict[str, Any] = {"start_padding": padding, "end_padding": padding, "group_count": groups}
        return of_graph(lambda a, b: dml.convolution(a, b, strides=(stride, stride), **options), x, f)

    def of_table(call: cliff_cases.Call, dtype: type) -> Case:
        """An operator's call from the table of data."""

        def made() -> tuple[Callable[[], object], list[Any]]:
            desc, inputs, outputs = call(cliff_cases.Data("normal", dtype))
            each = [
                o for several in outputs if several is not None for o in (several if isinstance(several, list) else [several])
            ]
            arrays = {name: np.zeros(d.sizes, d.data_type.dtype) for name, d, _ in each}
            compiled = dml.Device("cpu", threads=1).compile(desc)
            return compiled.bind_described({**inputs, **arrays}).execute, list(arrays.values())

        return made

    def network(name: str, quantised: bool) -> Case:
        def made() -> tuple[Callable[[], object], list[Any]]:
            found = networks.network(name, quantised=quantised)
            output = np.empty((1, CLASSES, 1, 1), np.float32)
            return found.graph.compile(dml.Device(threads=1)).bind(x=found.image, output=output).execute, [output]

        return made

    def eager(function: Callable[..., Any], *inputs: Any) -> Case:
        return lambda: (lambda: function(*inputs), [function(*inputs)])

    image = normal(1, 32, 56, 56)
    tables: dict[str, Mapping[str, Case]] = {
        "contractions": {
            **{f"GEMM {m} x {k} x {n}": product(m, k, n) for m, k, n in PRODUCTS},
            **{f"convolution {title}": layer(*made) for title, made in LAYERS.items()},
        },
        "integers": {f"integers {m} x {k} x {n}": of_integers(m, k, n) for m, k, n in PRODUCTS},
        "copies": {
            "joined along channels": of_graph(lambda a, b: dml.join([a, b], 1), image, image),
            "padded": of_graph(lambda a: dml.padding(a, start_padding=(0, 0, 1, 1), end_padding=(0, 0, 1, 1)), image),
            "tiled": of_graph(lambda a: dml.tile(a, (1, 2, 1, 1)), image),
            "space to depth": of_graph(lambda a: dml.space_to_depth1(a, 2), image),
            "every other column": of_graph(lambda a: dml.slice1(a, (0, 0, 0, 0), (1, 32, 56, 56), (1, 1, 1, 2)), image),
            "float16 of float32": of_graph(lambda a: dml.cast(a, np.float16), image),
        },
        "small": {
            "add of 16, eager": eager(lambda x: dml.element_wise_add(x, x), normal(1, 1, 4, 4)),
            "GEMM 16 cubed, eager": eager(lambda a, b: dml.gemm(a, b), normal(1, 1, 16, 16), normal(1, 1, 16, 16)),
            "softmax of 64, eager": eager(lambda x: dml.activation_softmax(x), normal(1, 1, 1, 64)),
            "add of 1024": of_graph(lambda a: dml.element_wise_add(a, a), normal(1, 1, 1, 1024)),
            "GEMM 32 cubed": product(32, 32, 32),
            "3 x 3, 8 to 8, 14 x 14": layer(8, 8, 3, 1, 14),
        },
        "networks": {
            f"{name}{', int8' * quantised}": network(name, quantised)
            for name in ("ResNet-18", "MobileNetV2")
            for quantised in (False, True)
        },
    }
    for title, (dtype, suffix) in {"operators": (np.float32, ""), "halves": (np.float16, ", FLOAT16")}.items():
        tables[title] = {name + suffix: of_table(call, dtype) for name, call in cliff_cases.CASES.items()}
    return tables


PRODUCTS = [(1, 768, 768), (4, 768, 768), (16, 768, 768), (128, 768, 768), (512, 512, 512), (350, 640, 512), (1024, 1024, 1024)]
LAYERS = {  # channels read and written, size, stride, height and width, groups
    "1 x 1, 64 to 256, 28 x 28": (64, 256, 1, 1, 28),
    "3 x 3, 64 to 64, 56 x 56": (64, 64, 3, 1, 56),
    "3 x 3 / 2, 3 to 32, 224 x 224": (3, 32, 3, 2, 224),
    "depthwise 3 x 3, 64, 56 x 56": (64, 64, 3, 1, 56, 64),
    "5 x 5, 32 to 32, 28 x 28": (32, 32, 5, 1, 28),
}


def work() -> None:
    """Answer the requests of the other process: the cases, a case that is made, the best time of a window."""
    answers, sys.stdout = sys.stdout, sys.stderr
    parts, random = _parts(), np.random.default_rng()
    call: Callable[[], object] = int
    clock = time.perf_counter
    held: list[Any] = []  # earlier calls of a case and memory between them, so that arrays are at other places each time
    last = ""

    def made(part: str, name: str) -> dict[str, Any]:
        nonlocal call, last
        if name != last:
            held.clear()
        last = name
        try:
            held.append((call, np.ones(4096 * int(random.integers(1, 256)), np.uint8)))
            call, outputs = parts[part][name]()
            call()
        except Exception as error:  # of any version of the code
            return {"refused": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
        digest = hashlib.blake2b(digest_size=8)
        for x in outputs:
            digest.update(np.ascontiguousarray(x).tobytes())
        return {"digest": digest.hexdigest()}

    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any
        if asked[0] == "parts":
            clock = time.thread_time if asked[1] else time.perf_counter
            answer = {part: [*cases] for part, cases in parts.items()}
        elif asked[0] == "make":
            answer = made(*asked[1:])
        else:
            answer = _best(call, asked[1], clock)
        print(json.dumps(answer), file=answers, flush=True)


def _best(call: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The smallest time of a call within a window; short calls are timed several together."""
    call()
    began = clock()
    call()
    together = max(1, int(1e-4 / max(clock() - began, 1e-7)))
    smallest, end = math.inf, time.perf_counter() + seconds
    while True:
        began = clock()
        for _ in range(together):
            call()
        smallest = min(smallest, (clock() - began) / together)
        if time.perf_counter() >= end:
            return smallest


# --- the process that asks both ---


class Worker:
    """A process that makes calls with a source tree."""

    def __init__(self, source: Path, cache: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source), "ANYDML_CACHE": cache}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that timed {what} ended")
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def workers(old: Path) -> Iterator[tuple[Worker, Worker]]:
    with tempfile.TemporaryDirectory() as cache:
        found = [Worker(source, cache) for source in (old / "src", ROOT / "src")]
        try:
            yield found[0], found[1]
        finally:
            for one in found:
                one.end()


class Row(NamedTuple):
    """Seconds of a case by the old and the new code."""

    name: str
    old: float
    new: float

    @property
    def ratio(self) -> float:
        return self.old / self.new


def timed(both: tuple[Worker, Worker]) -> list[float]:
    """The best time of each process; which of them begins alternates."""
    smallest = [math.inf, math.inf]
    for turn in range(ROUNDS):
        for at in (0, 1) if turn % 2 else (1, 0):
            smallest[at] = min(smallest[at], both[at].ask("time", WINDOW))
    return smallest


def compared(both: tuple[Worker, Worker], part: str, name: str) -> Row | str:
    """A row, or what keeps a case from being compared."""
    answers = [one.ask("make", part, name) for one in both]
    for which, answer in zip(("old", "new"), answers, strict=True):
        if "refused" in answer:
            return f"the {which} code refuses {name}: {answer['refused']}"
    if answers[0] != answers[1]:
        return f"the outputs of {name} differ"
    found = timed(both)
    for _ in range(AGAIN):  # with other arrays: where these lie changes the time of short calls
        if found[0] / found[1] >= SLOWER:
            break
        for one in both:
            one.ask("make", part, name)
        found = [min(pair) for pair in zip(found, timed(both), strict=True)]
    return Row(name, *found)


def mean(rows: list[Row]) -> float:
    return math.exp(sum(math.log(row.ratio) for row in rows) / len(rows)) if rows else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout of the other commit")
    parser.add_argument("parts", nargs="*", help="names of parts; PART/TEXT: only cases whose name begins with a text")
    parser.add_argument("--busy", action="store_true", help="count the thread's own time, on a machine that is not idle")
    asked = parser.parse_args()
    if not (asked.old / "src" / "anydml").is_dir():
        parser.error(f"{asked.old} is no checkout")
    print(f"load {os.getloadavg()[0]:.1f}; {'the own time of threads' if asked.busy else 'elapsed time'}")
    rows: list[Row] = []
    others: list[str] = []
    with workers(asked.old) as both:
        cases = [one.ask("parts", asked.busy) for one in both][1]
        chosen = dict(name.partition("/")[::2] for name in asked.parts) if asked.parts else dict.fromkeys(cases, "")
        if unknown := chosen.keys() - cases.keys():
            parser.error(f"no part is named {', '.join(unknown)}; there are {', '.join(cases)}")
        for part, begins in chosen.items():
            print(f"\n| {part} | old, us | new, us | old / new |\n|---|--:|--:|--:|")
            of_part = []
            for name in cases[part]:
                if name.startswith(begins):
                    found = compared(both, part, name)
                    if isinstance(found, str):
                        others.append(found)
                        continue
                    of_part.append(found)
                    mark = " slower" if found.ratio < SLOWER else ""
                    print(f"| {name} | {found.old * 1e6:.1f} | {found.new * 1e6:.1f} | {found.ratio:.2f}{mark} |", flush=True)
            print(f"| mean of {len(of_part)} | | | {mean(of_part):.3f} |")
            rows += of_part
    slower = [row for row in rows if row.ratio < SLOWER]
    print(f"\n{len(rows)} cases: geometric mean {mean(rows):.3f}; {len(slower)} below {SLOWER}", *others, sep="\n")
    for row in sorted(slower, key=lambda one: one.ratio):
        print(f"{row.ratio:.2f} {row.name}")
    return int(bool(slower) or mean(rows) < 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        sys.exit(main())
