"""Running sums and products by machine code, exact and rounded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.exact.formats import FLOAT16, FLOAT32, Format
from anydml.kernels.call.steps import At, Rounds, Step
from anydml.kernels.code import engine
from anydml.kernels.code.targets import wanted
from anydml.kernels.irregular.loops import Loop, described
from anydml.kernels.kernel import Arrays, Lowered, Machine, Refused
from anydml.kernels.match.scans import Scan, scan
from anydml.kernels.scan import emit, exact
from anydml.schema.check import Checked
from anydml.schema.statement import Statement
from anydml.tensor import DataType

SHORT = 1 << 14  # elements below which other threads can wait
_FORMATS: Mapping[DataType, Format] = {DataType.FLOAT16: FLOAT16, DataType.FLOAT32: FLOAT32}


def lower(statement: Statement, checked: Checked[Any], machine: Machine) -> Lowered | Refused:
    """One step, which goes from line to line."""
    found = scan(statement)
    if isinstance(found, str):
        return Refused(found)
    target = wanted(machine.isa)
    if isinstance(target, str):
        return Refused(target)
    if found.data_type.dtype.kind == "f" and found.data_type not in _FORMATS:
        return Refused("elements are of FLOAT64")
    source, into = checked.tensors[found.source], checked.tensors[found.target]
    itemsize = found.data_type.dtype.itemsize
    strides = [(a * itemsize, b * itemsize) for a, b in zip(source.explicit_strides, into.explicit_strides, strict=True)]
    lane = _side_by_side(found, strides, itemsize)
    others = [d for d in range(len(found.sizes)) if d not in (found.axis, lane)]
    lines, beside = (1, (itemsize, itemsize)) if lane is None else (found.sizes[lane], strides[lane])
    along, n = strides[found.axis], found.sizes[found.axis]
    last = [(n - 1) * step if found.backward else 0 for step in along]
    along = (-along[0], -along[1]) if found.backward else along
    lanes = emit.lanes_of(target)
    together = lanes if lines >= lanes else 1
    shape = emit.Shape(found.data_type, found.product, found.exclusive, beside == (itemsize, itemsize))
    code = engine.compiled(emit.emitted, target, shape)
    loops = [*(Loop(found.sizes[d], strides[d]) for d in others), Loop(1, (0, 0))]
    state = At("scratch")
    numbers: tuple[At | int, ...] = (
        *(state, state + 8 * emit.STATE_WORDS, At(found.source, last[0]), At(found.target, last[1]), n),
        *(*along, lines, *beside, *described(loops, 2)),
    )
    words = emit.STATE_WORDS + -(-n * together * itemsize // 8)
    floating = found.data_type in _FORMATS
    return Lowered(
        target,
        [Rounds([[[Step(code, numbers)]]])],
        scratch=8 * words,
        short=prod(found.sizes) < SHORT,
        decide=partial(_decide, found, lane, others, lanes) if floating else None,
    )


def _side_by_side(found: Scan, strides: Sequence[tuple[int, int]], itemsize: int) -> int | None:
    """The dimension whose lines are computed together: a contiguous one, else the longest; None where there is one line."""
    others = [d for d, size in enumerate(found.sizes) if d != found.axis and size > 1]
    return max(others, key=lambda d: (strides[d] == (itemsize, itemsize), found.sizes[d]), default=None)


def _decide(
    found: Scan, lane: int | None, others: Sequence[int], lanes: int, scratch: NDArray[np.int64], arrays: Arrays
) -> None:
    """Store the lines of the group that stopped the call, of which an element is open, exactly."""
    form = _FORMATS[found.data_type]
    number, mask = int(scratch[0]) - 1, int(scratch[2])
    scratch[2] = 0
    lines = 1 if lane is None else found.sizes[lane]
    full, single = divmod(lines, lanes)
    turn, group = divmod(number, full + single)
    first, count = (group * lanes, lanes) if group < full else (full * lanes + group - full, 1)
    outer = np.unravel_index(turn, [found.sizes[d] for d in others]) if others else ()
    bits = f"u{found.data_type.dtype.itemsize}"
    n = found.sizes[found.axis]
    kept = scratch[emit.STATE_WORDS :].view(np.uint8).view(bits)[: n * count].reshape(n, count)
    output = arrays[found.target].view(bits)
    running = exact.products if found.product else exact.sums
    for i in range(count):
        if mask >> i & 1:
            index: list[Any] = [0] * len(found.sizes)
            for d, at in zip(others, outer, strict=True):
                index[d] = at
            if lane is not None:
                index[lane] = first + i
            index[found.axis] = slice(None, None, -1 if found.backward else 1)
            output[tuple(index)] = list(running(kept[:, i].tolist(), form, exclusive=found.exclusive))
