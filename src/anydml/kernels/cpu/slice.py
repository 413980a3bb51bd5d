"""SLICE1: compiled copies for what is large enough to pay for them, NumPy's copy between views for the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from anydml.checked import Checked
from anydml.kernels.cpu import copy_emit
from anydml.kernels.cpu.copy_plan import Dimension, Plan, canonical, plan
from anydml.kernels.cpu.jit import compile as jit
from anydml.kernels.cpu.jit.steps import prepared, table
from anydml.kernels.cpu.jit.targets import Target, named
from anydml.kernels.kernel import Arrays, Built, Execute, Kernel, Machine, takes_all
from anydml.operators.slice import Slice1

SMALL = 1 << 15  # bytes of output below which NumPy's copy costs no more than the call into compiled code saves
ALONE = 3 << 20  # bytes of output below which a second thread costs more than it brings
STREAM = 12 << 20  # bytes of output from which stores go past the cache
LONG_ROW = 1024  # bytes of a row that stores past the cache are used for


def _window(d: Slice1) -> tuple[slice, ...]:
    window = []
    for start, stride, size in zip(d.start(), d.input_window_strides, d.output_tensor.sizes, strict=True):
        end = start + stride * size
        window.append(slice(start, None if end < 0 else end, stride) if size > 1 else slice(start, start + 1))
    return tuple(window)


def _build_view(c: Checked[Any], machine: Machine) -> Built:
    window = _window(c.desc)
    bits = f"u{c.desc.input_tensor.data_type.dtype.itemsize}"  # copied as integers, so that every NaN keeps its payload

    def bind(arrays: Arrays) -> Execute:
        source = arrays["input_tensor"].view(bits)[window]
        return partial(np.copyto, arrays["output_tensor"].view(bits), source)

    return Built(bind)


def _refuses_compiled(c: Checked[Any], machine: Machine) -> str | None:
    d: Slice1 = c.desc
    if d.output_tensor.element_bytes < SMALL:
        return f"an output of {d.output_tensor.element_bytes} bytes: below {SMALL}, NumPy's copy is as fast"
    if (reason := jit.unavailable()) is not None:
        return reason
    if named(machine.isa) is None:
        return f"this processor has no {machine.isa or 'known'} instructions"
    return None


def _plan(d: Slice1) -> Plan:
    itemsize = d.input_tensor.data_type.dtype.itemsize
    sources = [s * t * itemsize for s, t in zip(d.input_tensor.explicit_strides, d.input_window_strides, strict=True)]
    targets = [s * itemsize for s in d.output_tensor.explicit_strides]
    return plan(canonical(d.output_tensor.sizes, sources, targets), itemsize)


def _function(target: Target, p: Plan, *, stream: bool) -> jit.Code:
    """The code that a plan asks for; the same for all plans of a kind."""
    if p.kind == "rows":
        return jit.compiled(copy_emit.rows, target, stream)
    if p.kind == "groups":
        # the largest blocks that are no longer than the row; past the cache they are a line each
        width = target.vector_bytes
        blocks = [(width, copy_emit.LINE // width if stream else 2), (width, 1), (16, 1)]
        fitting = [b for b in blocks if copy_emit.groups_per_block(len(p.pattern), *b) <= p.row.size]
        return jit.compiled(copy_emit.groups, target, p.pattern, p.step, *(fitting or blocks[-1:])[0], stream)
    if p.kind == "tiles":
        return jit.compiled(copy_emit.tiles, target, len(p.pattern))
    return jit.compiled(copy_emit.elements, target, len(p.pattern))


def _build_compiled(c: Checked[Any], machine: Machine) -> Built:
    d: Slice1 = c.desc
    target = named(machine.isa)
    assert target is not None  # refused otherwise
    p = _plan(d)
    itemsize = d.input_tensor.data_type.dtype.itemsize
    size = d.output_tensor.element_bytes
    start = sum(at * s for at, s in zip(d.start(), d.input_tensor.explicit_strides, strict=True)) * itemsize
    plain = _function(target, p, stream=False)
    streaming = _function(target, p, stream=True) if size >= STREAM and _may_stream(p) else plain
    boundary = len(p.pattern) if p.kind == "groups" else 1
    blocks = np.array([(*part, _ahead(p)) for part in _split(p, machine.threads if size >= ALONE else 1)], np.int64)
    keeps_gil = size < SMALL * 8

    def bind(arrays: Arrays) -> Execute:
        input, output = arrays["input_tensor"], arrays["output_tensor"]
        source, into = input.ctypes.data + start + p.base[0], output.ctypes.data + p.base[1]
        code = streaming if into % boundary == 0 else plain
        arguments = blocks.copy()
        arguments[:, :2] += np.array((source, into), np.int64)
        return prepared([table(code, arguments)], target, (input, output), keeps_gil=keeps_gil)

    return Built(bind)


def _ahead(p: Plan) -> int:
    """How far ahead in the input to prefetch, in bytes: a step of the innermost dimension that has a kilobyte within it."""
    span = p.row.size * abs(p.row.source)
    for d in p.outer:
        if span >= 1024 or d is p.outer[-1]:
            return d.source
        span *= d.size
    return 0


def _may_stream(p: Plan) -> bool:
    """Whether stores past the cache can serve: not for short rows, nor groups that do not make up cache lines."""
    if p.kind == "rows":
        return p.row.size >= LONG_ROW
    group = len(p.pattern)
    aligned = copy_emit.LINE % group == 0 and all(d.target % group == 0 for d in p.outer)
    return p.kind == "groups" and aligned and p.row.size * group >= LONG_ROW


def _split(p: Plan, threads: int) -> list[tuple[int, ...]]:
    """The plan cut along one dimension: (offset in the input, in the output, the row, the outer dimensions)."""
    dims = [p.row, *p.outer]
    # the outermost that has enough for everyone, else the longest
    at = max(range(len(dims)), key=lambda i: (True, i) if dims[i].size >= 8 * threads else (False, dims[i].size))
    whole = dims[at].size
    # what a kernel runs along by itself is cut at whole cache lines, and no end is left that is shorter than a tile
    grain = {"rows": 64, "tiles": 64}.get(p.kind, 1) if at < (2 if p.kind == "tiles" else 1) else 1
    step = max(grain, -(-whole // threads // grain) * grain)
    starts = list(range(0, whole, step))
    if len(starts) > 1 and whole - starts[-1] < grain:
        starts.pop()
    pieces = []
    for first, end in zip(starts, [*starts[1:], whole], strict=True):
        part = Dimension(end - first, dims[at].source, dims[at].target)
        cut = [*dims[:at], part, *dims[at + 1 :]]
        outer = [x for d in cut[1:] for x in d] + [1, 0, 0] * (copy_emit.DIMENSIONS - len(cut) + 1)
        pieces.append((first * part.source, first * part.target, *cut[0], *outer))
    return pieces


VIEW = Kernel("numpy:slice1:view", Slice1, takes_all, _build_view)
COMPILED = Kernel("cpu:slice1:compiled", Slice1, _refuses_compiled, _build_compiled)
