"""The project's own kernels with other constants, and LLVM's code for them; only for measurements."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.dot import DOTS, dot_of
from anydml.kernels.contract.epilogue.rule import ROW
from anydml.kernels.contract.tile import TileKey, column_bytes, multiply, panel_columns
from benchmarks.limits import aligned
from benchmarks.matmul_cases import Array

PLAIN = TileKey(a_signed=False, b_signed=True, output="i32", full=False)


@contextlib.contextmanager
def patched(module: Any, **values: Any) -> Iterator[None]:
    """Names of a module with other values. Code compiled before or within it is not shared."""
    before = {name: getattr(module, name) for name in values}
    engine.compiled.cache_clear()
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
        engine.compiled.cache_clear()


@contextlib.contextmanager
def dot_with(target: Target, **fields: Any) -> Iterator[None]:
    """The target's dot product with other fields: rows, vectors, chains."""
    key = target.architecture, target.name
    before = DOTS[key]
    engine.compiled.cache_clear()
    DOTS[key] = before._replace(**fields)
    try:
        yield
    finally:
        DOTS[key] = before
        engine.compiled.cache_clear()


class Loop(NamedTuple):
    """The inner loop of a tile: instructions by kind. stack: loads and stores of spilled registers."""

    dots: int
    vector_loads: int
    broadcasts: int
    stack: int
    instructions: int

    def __str__(self) -> str:
        spilled = f", {self.stack} ON THE STACK" if self.stack else ""
        return f"{self.dots} dots, {self.vector_loads} loads, {self.broadcasts} broadcasts of {self.instructions}{spilled}"


def inner_loop(target: Target, height: int) -> Loop:
    """The instructions that LLVM made of the tile that multiplies, on x86."""
    assembly = engine.assembly(multiply(target, PLAIN, height), target)
    # from a label to the jump back to it: the shortest loop with the most dot products
    found = []
    for label in re.finditer(r"^(\.LBB\w+):.*\n", assembly, re.MULTILINE):
        jumps = list(re.finditer(rf"\sj\w+\s+{re.escape(label[1])}\b", assembly[label.end() :]))
        if jumps:
            lines = assembly[label.end() : label.end() + jumps[-1].end()].splitlines()
            found.append([line.strip() for line in lines if re.match(r"\s+(\{vex\}\s*)?[a-z]", line)])
    body = max(found, key=lambda lines: (sum("pdpbusd" in x or "pmadd" in x for x in lines), -len(lines)))
    return Loop(
        sum("pdpbusd" in x or "pmadd" in x for x in body),
        sum(bool(re.match(r"v?mov(dq|u|a)\S*\s+\S*\(", x)) for x in body),
        sum("broadcast" in x or "pshufd" in x or "{1to" in x for x in body),
        sum("%rsp" in x for x in body),
        len(body),
    )


class Tiles:
    """Tiles of one height over B in panels, with plain sums; operands are random, and a result is checked."""

    def __init__(self, target: Target, height: int, tiles: int, k: int, panels: int) -> None:
        dot, rng = dot_of(target), np.random.default_rng(0)
        bytes_ = dot.group == 4
        columns, m = panel_columns(target), tiles * height
        lanes = columns // dot.vectors
        groups = k // dot.group
        a, b, c = (self._memory(n) for n in (m * groups * 4, panels * groups * columns * 4, m * panels * columns * 4))
        self.a = a.view(np.uint8 if bytes_ else np.int16).reshape(m, k)
        self.a[:] = rng.integers(0, 256, self.a.shape)
        shape = (panels, groups, dot.vectors, *((dot.group, lanes) if dot.planar else (lanes, dot.group)))
        packed = b.view(np.int8 if bytes_ else np.int16).reshape(shape)
        packed[:] = rng.integers(-128, 128, shape)
        order = (1, 3, 0, 2, 4) if dot.planar else (1, 4, 0, 2, 3)
        self.b: Array = packed.transpose(order).reshape(k, panels * columns)
        self.c = c.view(np.int32).reshape(m, panels * columns)
        records, cols = self._memory(m * ROW), self._memory(panels * column_bytes(target))
        records[:], cols[:] = 0, 0
        last = (panels - 1) * columns * 4
        arguments = np.zeros((1, 16), np.int64)
        pointers = [x.ctypes.data for x in (a, b, c, records, cols, records)]
        arguments[0, :14] = [
            *(pointers[0], groups * 4, pointers[1], groups * columns * 4, pointers[2], panels * columns * 4),
            *(groups, tiles, tiles, panels, *pointers[3:], last),
        ]
        code = engine.compiled(multiply, target, PLAIN, height)
        self.call = prepared([table(code, arguments)], target, (a, b, c, records, cols))
        self.macs = m * k * panels * columns

    @staticmethod
    def _memory(nbytes: int) -> Array:
        return aligned(-(-nbytes // 4096) * 4096)[:nbytes]

    def check(self) -> None:
        self.call()
        np.testing.assert_array_equal(self.c, self.a.astype(np.float64) @ self.b.astype(np.float64))
