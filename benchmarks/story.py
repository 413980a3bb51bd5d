"""The matmul from NumPy to the kernel, one step at a time: python -m benchmarks.story [PART ..]

Every step runs, and its result is compared with exact numbers. The tables are those of docs/kernels/matmul.md.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.devices import device
from anydml.devices.families import DEVICES
from anydml.exact.requantization import Requantize
from anydml.fork_safety import guard
from anydml.kernels.code import engine
from anydml.kernels.code.llvm import binding
from anydml.kernels.code.targets import Target, named
from anydml.kernels.contract import tuning
from anydml.kernels.contract.dot import dot_of
from anydml.kernels.contract.epilogue import records as matmul_records
from anydml.kernels.contract.panels import work as matmul_work
from anydml.kernels.contract.tile import TileKey, multiply
from benchmarks.limits import dots
from benchmarks.matmul_cases import Array, Case, Data, bound, data
from benchmarks.matmuls import _one_thread
from benchmarks.timing import best
from benchmarks.variants import dot_with, patched

FEW = 8  # rows in the slowest step; its speed does not depend on their number


class Step(NamedTuple):
    """A call that is timed. macs: multiply-accumulates of one call."""

    name: str
    call: Callable[[], object]
    macs: int


def optimised(target: Target, kind: TileKey, height: int) -> str:
    """The tile after LLVM's own O3 pipeline."""
    llvm = binding()
    with guard:
        module = llvm.parse_assembly(multiply(target, kind, height), llvm.create_context())
        passes = llvm.create_pass_builder(engine._machine(target), llvm.create_pipeline_tuning_options(speed_level=3))
        passes.getModulePassManager().run(module, passes)
        return str(module)


def exact_sums(d: Data) -> Array:
    """The exact sums, in float64, which represents them."""
    a, b = (
        d.inputs[f"{x}_tensor"].astype(np.float64) - d.inputs[f"{x}_zero_point_tensor"].astype(np.float64) for x in ("a", "b")
    )
    sums: Array = a @ b
    return sums


def exact_bytes(d: Data) -> Array:
    sums = exact_sums(d)
    scales = [d.inputs[f"{x}_scale_tensor"] for x in ("a", "b", "output")]
    steps = Requantize(*scales)(sums) + d.inputs["output_zero_point_tensor"]
    limits = np.iinfo(np.uint8 if d.case.types[2] == "u8" else np.int8)
    found: Array = np.clip(steps, limits.min, limits.max).astype(limits.dtype)
    return found


class Steps:
    """The steps for n cubed, uint8 by int8, with scales by row and by column unless a step says otherwise."""

    def __init__(self, target: Target, n: int) -> None:
        self.target = target
        self.case = Case(n, n, n, ("u8", "s8", "u8"), granularity="scales")
        self.sums = self.case._replace(types=("u8", "s8", "s32"), granularity="tensor")

    def __iter__(self) -> Iterator[Step]:
        yield self._few_rows()
        with patched(device, DEVICES={"cpu": {"contract:numpy": DEVICES["cpu"]["contract:numpy"]}}):
            yield self._made("float32 products of exact blocks, NumPy's BLAS; rounded", self.case)
        yield self._made("machine code: tiles of one row, B packed once", self.sums, rows=1, chains=1)
        yield self._made("one row, its sums in eight parts", self.sums, rows=1)
        for rows in (2, 4, 6, 8, 14):
            yield self._made(f"tiles of {rows} rows", self.sums, rows=rows, chains=1)
        yield self._in_numpy()
        with patched(matmul_records, FAR=-1):
            yield self._made("rounded in the tile, every element by the rule", self.case)
        yield self._made("rounded in the tile: the estimate, and the rule where it cannot tell", self.case)
        with patched(matmul_work, multiply=optimised):
            yield self._made("the same after LLVM's O3 pipeline", self.case)
        yield self._made("zero points by row and by column too", self.case._replace(granularity="scales and zero points"))
        yield self._made("scales that are powers of two", self.case._replace(data="powers"))
        yield self._made("int8 by int8", self.case._replace(types=("s8", "s8", "s8")))
        yield self._made("B packed at every call", self.case._replace(owned=False))
        yield self._made("two threads", self.case, threads=2)

    def _few_rows(self) -> Step:
        d = data(self.sums)
        a, b = (d.inputs[f"{x}_tensor"].astype(np.int32) - d.inputs[f"{x}_zero_point_tensor"] for x in ("a", "b"))
        few = a[:FEW]
        np.testing.assert_array_equal(few @ b, exact_sums(d)[:FEW])
        return Step(
            f"int32 product by NumPy (measured on {FEW} rows)", partial(np.matmul, few, b), FEW * self.case.k * self.case.n
        )

    def _in_numpy(self) -> Step:
        """The int32 product in NumPy, and then the operations of the tile."""
        d, sums = data(self.case), data(self.sums)
        product, q, _ = bound(sums, dml.Device(threads=1, isa=self.target.name))
        scales = [d.inputs[f"{x}_scale_tensor"] for x in ("a", "b", "output")]
        zero_point, output = d.inputs["output_zero_point_tensor"], np.empty(q.shape, np.uint8)

        def call() -> None:
            product()
            steps = Requantize(*scales)(q.astype(np.float64))
            steps += zero_point
            output[...] = np.clip(steps, 0, 255, out=steps)

        call()
        np.testing.assert_array_equal(output, exact_bytes(d))
        return Step("int32 sums, then rounded in NumPy", call, self.case.macs)

    def _made(self, name: str, case: Case, *, threads: int = 1, **fields: Any) -> Step:
        d = data(case)
        with dot_with(self.target, **fields) if fields else contextlib.nullcontext():
            call, output, _ = bound(d, dml.Device(threads=threads, isa=self.target.name))
        call()
        np.testing.assert_array_equal(output, exact_bytes(d) if case.quantized else exact_sums(d))
        return Step(name, call, case.macs)


def story(target: Target, seconds: float) -> None:
    speeds: dict[str, list[str]] = {}
    sizes = (512, 1024)
    for n in sizes:
        steps = list(Steps(target, n))
        for step, speed, share in _timed(steps, target, seconds):
            speeds.setdefault(step.name, []).append(
                f"{speed:.3g} | {share:.3f}" if share < 0.1 else f"{speed:.0f} | {share:.2f}"
            )
    _table([f"{n} cubed: GMAC/s | of the limit" for n in sizes], speeds)


def blocks(target: Target, seconds: float) -> None:
    """4096 cubed, with each panel of B for all of A, and for one block of A at a time."""
    case, steps = Case(4096, 4096, 4096, ("u8", "s8", "u8")), []
    for name, nbytes in (("all of A for each panel of B", 1 << 40), ("blocks of A", tuning.TUNING.block)):
        for rows in (dot_of(target).rows, 14):
            with patched(tuning, TUNING=tuning.TUNING._replace(block=nbytes)), dot_with(target, rows=rows):
                call, output, _ = bound(data(case), dml.Device(threads=1, isa=target.name))
            steps.append(Step(f"{name}, tiles of {rows} rows", call, case.macs))
            call()
            if len(steps) == 1:
                wanted = output.copy()
            np.testing.assert_array_equal(output, wanted)
    found = {step.name: [f"{speed:.0f} | {share:.2f}"] for step, speed, share in _timed(steps, target, seconds)}
    _table(["4096 cubed: GMAC/s | of the limit"], found)


def _timed(steps: list[Step], target: Target, seconds: float) -> Iterator[tuple[Step, float, float]]:
    """Each step with its speed and its share of the bare loop's; steps on one thread are timed by the thread's own clock."""
    limit, macs = dots(target.name)
    alone = {step.name: step.call for step in steps if step.name != "two threads"}
    with _one_thread():
        t = best({**alone, "limit": limit}, seconds=seconds, slow=0.5, clock=time.thread_time)
        together = {step.name: step.call for step in steps if step.name not in alone}
        t |= best(together, seconds=4 * seconds)
    bare = macs / t["limit"] / 1e9
    print(f"bare dot products, {target.name}: {bare:.0f} GMAC/s")
    for step in steps:
        speed = step.macs / t[step.name] / 1e9
        yield step, speed, speed / bare


def _table(columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n| | {' | '.join(columns)} |\n|---|{'---:|---:|' * len(columns)}")
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(values)} |")


PARTS = {"story": story, "blocks": blocks}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.story", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each step")
    arguments = parser.parse_args()
    target = named(None)
    assert target is not None
    for part in arguments.parts or PARTS:
        PARTS[part](target, arguments.seconds)


if __name__ == "__main__":
    main()
