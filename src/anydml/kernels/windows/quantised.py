"""Means between 8-bit tensors in regions of graphs: elements are dequantised, averaged and quantised again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from anydml.kernels.code.targets import wanted
from anydml.kernels.kernel import Lowered, Machine, Refused
from anydml.kernels.match.between import quantised_means
from anydml.kernels.match.means import means
from anydml.kernels.match.windows import MEAN, WindowAxis, WindowReduction, windows
from anydml.kernels.problem import Problem
from anydml.kernels.windows import family
from anydml.kernels.windows.estimate import Counts, numbers
from anydml.schema.statement import Nest
from anydml.schema.types import EIGHT_BIT
from anydml.tensor import TensorDesc

PLAIN = 2  # dimensions without windows, at least
WINDOWED = 2  # dimensions with windows, at least: lines run along the last one, and the others are beside them
LOOKED_AT = 1 << 12  # the most outputs along a dimension whose windows are counted
MOST = 1 << 15  # elements of a window


def lower(problem: Problem, machine: Machine, slack: float = 0.0) -> Lowered | Refused:
    """The steps of means between 8-bit tensors. slack: see `estimate.numbers`."""
    region = quantised_means(problem)
    if isinstance(region, str):
        return Refused(region)
    target = wanted(machine.isa, machine.stage)
    if isinstance(target, str):
        return Refused(target)
    (output,) = problem.statement
    found = _windows(region.means, output, {name: problem.tensors[name] for name in (region.source, output)})
    if isinstance(found, str):
        return Refused(found)
    w, views = found
    x, y = views[w.source], views[w.output]
    if {x.data_type, y.data_type} - {*EIGHT_BIT}:
        return Refused("means are not between bytes")
    window = prod(a.window for a in w.axes)
    if window > MOST:
        return Refused(f"windows have more than {MOST} elements")
    made = numbers(region, x.data_type, y.data_type, _counts(w), slack)
    if isinstance(made, str):
        return Refused(made)
    return family.between(w._replace(kind=made.kind), views, target, machine.threads, made.record)


def _counts(w: WindowReduction) -> Counts:
    """The numbers of elements that windows have; of large dimensions, a sample of the outputs is counted."""
    found, all_of = {1: 1.0}, True
    for a in w.axes:
        step = -(-a.output // LOOKED_AT)
        inside = a.start == 0 and (a.output - 1) * a.stride + (a.window - 1) * a.dilation < a.size
        all_of &= inside or step == 1
        first = np.arange(0, a.output, step) * a.stride - a.start
        low = np.zeros_like(first) if w.padded else np.clip(-(first // a.dilation), 0, None)
        high = np.clip(-(-(a.counted - first) // a.dilation), 0, a.window)
        numbers, times = np.unique(np.clip(high - low, 0, None), return_counts=True)
        each = dict(zip(numbers.tolist(), (times / first.size).tolist(), strict=True))
        before, found = found, {}
        for n, part in before.items():
            for m, share in each.items():
                found[n * m] = found.get(n * m, 0.0) + part * share
    read = prod(a.size for a in w.axes) / prod(a.output for a in w.axes)
    return Counts({max(n, 1): part for n, part in found.items()}, all_of, read)


def _windows(nest: Nest, output: str, tensors: Mapping[str, TensorDesc]) -> tuple[WindowReduction, dict[str, TensorDesc]] | str:
    """The means as windows, and the tensors with their dimensions in the windows' order."""
    found = windows({output: nest})
    if not isinstance(found, str):
        return (found, dict(tensors)) if found.kind == MEAN else "no means are computed"
    all_of = means(nest)
    if isinstance(all_of, str):
        return all_of
    x = tensors[all_of.source]
    axes = [WindowAxis(1, 1, counted=1)] * (PLAIN - len(all_of.kept))
    axes += [WindowAxis(x.sizes[d], x.sizes[d], counted=x.sizes[d]) for d in all_of.kept]
    beside = max(0, WINDOWED - len(all_of.reduced) - max(0, len(all_of.kept) - PLAIN))
    axes += [WindowAxis(1, 1, counted=1)] * beside
    axes += [WindowAxis(x.sizes[d], 1, window=x.sizes[d], counted=x.sizes[d]) for d in all_of.reduced]
    order = (*[None] * (PLAIN - len(all_of.kept)), *all_of.kept, *[None] * beside, *all_of.reduced)
    views = {name: _view(t, order) for name, t in tensors.items()}
    return WindowReduction(MEAN, all_of.source, output, None, tuple(axes)), views


def _view(t: TensorDesc, order: Sequence[int | None]) -> TensorDesc:
    """A tensor with its dimensions in another order; None stands for a dimension of size 1."""
    sizes = [1 if d is None else t.sizes[d] for d in order]
    return TensorDesc(t.data_type, sizes, strides=[0 if d is None else t.explicit_strides[d] for d in order]).spelled_out()
