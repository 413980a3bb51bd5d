"""Functions of batches on Dask arrays: a graph or a model, applied to the samples of each block.

Dask is not imported here: the arrays that are given bring what is needed.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml import progress
from anydml.chunking.worker import device_of_worker
from anydml.devices.device import Device
from anydml.errors import BindingError, Fault, UnsupportedError
from anydml.fork_safety import guard

KEPT = 16  # graphs and models that a process keeps for tasks
Run = Callable[[Any, NDArray[Any], Device], Mapping[str, NDArray[Any]]]


class Output(NamedTuple):
    """An output for a batch of `batch` samples. axis: the dimension along which its samples lie."""

    sizes: tuple[int, ...]
    dtype: np.dtype[Any]
    axis: int


class Shared:
    """A graph or a model that is pickled once, and of which a process keeps one for all tasks."""

    def __init__(self, value: Any) -> None:
        self.pickled = pickle.dumps(value)
        self.digest = hashlib.sha256(self.pickled).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self.pickled, self.digest)

    @property
    def value(self) -> Any:
        """The graph or model of this process."""
        with guard:
            if self.digest not in _kept:
                _kept[self.digest] = pickle.loads(self.pickled)
                if len(_kept) > KEPT:
                    _kept.popitem(last=False)
            return _kept[self.digest]


_kept: OrderedDict[str, Any] = OrderedDict()


def _shared(pickled: bytes, digest: str) -> Shared:
    made = object.__new__(Shared)
    made.pickled, made.digest = pickled, digest
    return made


class Batch:
    """A task: the outputs for the samples of a block.

    most: the samples that are computed at a time, all of them if it is None; fewer are filled up with the last one. axes: the
    dimension of each output along which samples lie.
    """

    def __init__(self, run: Run, most: int | None, axis: int, axes: Mapping[str, int]) -> None:
        self.run, self.most, self.axis, self.axes = run, most, axis, dict(axes)

    def __call__(self, shared: Shared, block: Any) -> dict[str, NDArray[Any]]:
        x = np.asarray(block)
        count, device = x.shape[self.axis], device_of_worker()
        if self.most is None:
            return dict(self.run(shared.value, x, device))
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in self.axes}
        with progress.shown() as report:
            for at in range(0, count, self.most):
                report("computing samples", at, count)
                part = np.take(x, np.minimum(np.arange(at, at + self.most), count - 1), self.axis)
                for name, y in self.run(shared.value, part, device).items():
                    found[name].append(np.take(y, np.arange(min(self.most, count - at)), self.axes[name]))
        return {name: np.concatenate(ys, self.axes[name]) for name, ys in found.items()}


class Pick:
    """A task: one of the outputs."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return outputs[self.name]


def mapped(
    value: Any,
    run: Run,
    x: Any,
    axis: int,
    sizes: Sequence[int],
    dtype: np.dtype[Any],
    outputs: Mapping[str, Output],
    most: int | None,
) -> dict[str, Any]:
    """The outputs as arrays of the class of x, by name. sizes, dtype: what the input takes, of any batch.

    Blocks are joined along all dimensions but `axis`. BindingError if x does not fit.
    """
    if not hasattr(x, "chunks") or not hasattr(x, "rechunk"):
        raise BindingError([Fault("x", f"x takes a Dask array, not {type(x).__name__}")])
    if any(math.isnan(n) for n in x.shape):
        raise BindingError([Fault("x", "x has chunks of unknown size; its compute_chunk_sizes() finds them")])
    wanted = [x.shape[axis] if d == axis else n for d, n in enumerate(sizes)]
    if len(x.shape) != len(sizes) or list(x.shape) != wanted or x.dtype != dtype:
        shown = ", ".join("any" if d == axis else str(n) for d, n in enumerate(sizes))
        raise BindingError([Fault("x", f"x has shape {x.shape} and dtype {x.dtype}, where ({shown}) of {dtype} is taken")])
    x = x.rechunk({d: -1 for d in range(len(sizes)) if d != axis})
    shared = Shared(value)
    token = hashlib.sha256(f"{x.name} {shared.digest} {axis} {most}".encode()).hexdigest()[:32]
    layers, array = type(x.dask), type(x)
    task = Batch(run, most, axis, {name: o.axis for name, o in outputs.items()})
    model, batches = f"model-{token}", f"batches-{token}"
    graph: dict[Any, Any] = {model: shared}
    count = len(x.chunks[axis])
    for k in range(count):
        graph[batches, k] = (task, model, (x.name, *(k if d == axis else 0 for d in range(len(sizes)))))
    of_all = layers.from_collections(batches, graph, dependencies=[x])
    made = {}
    for name, o in outputs.items():
        own = f"{name}-{token}"
        chunks = tuple(x.chunks[axis] if d == o.axis else (n,) for d, n in enumerate(o.sizes))
        keys = product(*(range(len(c)) for c in chunks))
        picked = {(own, *place): (Pick(name), (batches, place[o.axis])) for place in keys}
        every = layers({**of_all.layers, own: picked}, {**of_all.dependencies, own: {batches}})
        made[name] = array(every, own, chunks, dtype=o.dtype, meta=np.empty((0,) * len(chunks), o.dtype))
    return made


def axis_of(axis: int, sizes: Sequence[Any]) -> int:
    """A dimension counted from the first one; BindingError if there is no such dimension."""
    if not -len(sizes) <= axis < len(sizes):
        raise BindingError([Fault("batch_axis", f"batch_axis is {axis}, and the input has {len(sizes)} dimensions")])
    return axis % len(sizes)


def alone(sizes: Sequence[int], axis: int, name: str) -> int:
    """The dimension of an output along which the sample of a batch of one lies: the same as the input's, if it can be."""
    if axis < len(sizes) and sizes[axis] == 1:
        return axis
    if 1 in sizes:
        return list(sizes).index(1)
    raise UnsupportedError(f"{name} has sizes {tuple(sizes)}, none of which is 1: its samples lie along no dimension")
