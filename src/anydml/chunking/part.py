"""Parts of an operator's call: each computes one window of an output from windows of the inputs, with the bits of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.shifting import Part, shifted
from anydml.chunking.windows import Needed, Window, nest_of, sizes_of
from anydml.chunking.worker import device_of_worker
from anydml.devices.choice import linked
from anydml.devices.device import Device
from anydml.devices.families import families_of
from anydml.devices.judging import data_check
from anydml.devices.slow import left_undecided, not_compiled
from anydml.errors import BindingError, Fault
from anydml.graphs.plan import spelled
from anydml.kernels.kernel import Built, Lowered, Refused, Unfit
from anydml.kernels.lower import lowerings, tried
from anydml.kernels.problem import Problem, Promises
from anydml.lazy import computed_once
from anydml.schema.desc import Desc
from anydml.schema.expression import Tensor
from anydml.schema.statement import Nest
from anydml.tensor import DataType, TensorDesc


class Stated:
    """A nest with the name of its output. Equal ones differ at most in their variables."""

    def __init__(self, title: str, output: str, nest: Nest) -> None:
        self.title, self.output, self.nest = title, output, nest
        self._key = (title, output, spelled(nest))
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stated) and self._key == other._key


def built(device: Device, stated: Stated, tensors: tuple[tuple[str, TensorDesc], ...], ruled: frozenset[str]) -> Built:
    """The call of a nest on a device, by the first family that takes it."""
    problem = Problem({stated.output: stated.nest}, dict(tensors), Promises(ruled=ruled))
    refused: list[dict[str, str]] = []
    for name, made in lowerings(families_of(device.name), problem, device.machine):
        found: Built | Refused
        if isinstance(made, Lowered):
            found = tried(name, partial(linked, made, left_undecided(stated.title, name)))
        elif isinstance(made, Built) and refused and not made.bare:
            found = not_compiled(stated.title, refused).watching(made)
        else:
            found = made
        if isinstance(found, Built):
            return found
        refused.append({"kernel": name, "reason": found.reason})
    raise AssertionError("the reference takes every statement")


@dataclass(frozen=True)
class Chunk:
    """A window of one output, and what it is computed from; calling it on these parts of the inputs computes it.

    desc: of the whole call, in the operator's newest version. output: the output's name. window: of the output. reads: what is
    read of each input, by name. computed: the window that is computed, which contains `window`: a row of a softmax is computed
    as a whole. It can be pickled.
    """

    desc: Desc
    output: str
    window: Window
    reads: Mapping[str, Needed]
    computed: Window

    @property
    def inputs(self) -> Mapping[str, Window]:
        """The window of each input that is read; an empty one if all that the chunk reads lies outside of the input."""
        return {name: read.window for name, read in self.reads.items()}

    @computed_once
    def stated(self) -> Stated:
        """The statement of this part alone."""
        parts = parts_of(self.desc, self.reads)
        nest = shifted(nest_of(self.desc, self.output), [w.start for w in self.computed], sizes_of(self.computed), parts)
        return Stated(type(self.desc).__name__, self.output, nest)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("desc", "output", "window", "reads", "computed")}

    def __call__(self, *, device: Device | None = None, **arrays: NDArray[Any]) -> NDArray[Any]:
        """The elements of the window. arrays: the windows of the inputs, by name.

        device: by default the cpu with one thread, unless ANYDML_NUM_THREADS says otherwise. BindingError for arrays of other
        sizes and data types, DataError if a value breaks a data rule.
        """
        views = viewed(arrays, self.desc, self.reads)
        data_type = next(found.desc.data_type for found in self.desc.tensors() if found.name == self.output)
        result = computed(self.desc, self.stated, views, self.reads, sizes_of(self.computed), data_type, device)
        if self.computed == self.window:
            return result
        return result[
            tuple(slice(w.start - c.start, w.stop - c.start) for w, c in zip(self.window, self.computed, strict=True))
        ]


def computed(
    desc: Desc,
    stated: Stated,
    views: Mapping[str, NDArray[Any]],
    reads: Mapping[str, Needed],
    sizes: tuple[int, ...],
    data_type: DataType,
    device: Device | None,
) -> NDArray[Any]:
    """The elements of a statement of a part of an operator, on arrays that fit. DataError if a value breaks a data rule."""
    device = device_of_worker() if device is None else device
    tensors = {name: TensorDesc.of(x).spelled_out() for name, x in views.items()}
    tensors[stated.output] = TensorDesc(data_type, sizes).spelled_out()
    fields = {f.name for f in desc.spec.inputs if f.wire in desc.spec.ruled}
    ruled = frozenset(name for name in views if name.partition("[")[0] in fields)
    result = np.empty(sizes, data_type.dtype)
    made: Built = device.cached(built, stated, tuple(tensors.items()), ruled)
    if not made.judges:
        judge(desc, views, reads)
    try:
        made.bind({**views, stated.output: result})()
    except Unfit:
        judge(desc, views, reads)
        # no value breaks a rule: the kernel takes indices into the whole for indices into this part
        device.cached(built, stated, tuple(tensors.items()), frozenset()).bind({**views, stated.output: result})()
    return result


def judge(desc: Desc, views: Mapping[str, NDArray[Any]], reads: Mapping[str, Needed]) -> None:
    """Check the rules about the values of inputs that are read. DataError if one is broken."""
    types = {found.name: found.desc.data_type for found in desc.tensors()}
    for f in desc.spec.inputs:
        for rule in desc.spec.data_rules:
            if f.wire in rule.tensors:
                for name, view in views.items():
                    if name.partition("[")[0] == f.name and not reads[name].beyond:
                        data_check(desc, name, rule, view, types[name])()


def viewed(arrays: Mapping[str, NDArray[Any]], desc: Desc, reads: Mapping[str, Needed]) -> dict[str, NDArray[Any]]:
    """The arrays of the windows that are read; BindingError if one does not fit."""
    whole = {found.name: found.desc for found in desc.tensors()}
    faults, views = [], {}
    for name, read in reads.items():
        dtype, sizes = whole[name].data_type.dtype, sizes_of(read.window)
        if read.beyond:
            views[name] = np.zeros([1] * len(sizes), dtype)
            continue
        x = arrays.get(name)
        if x is None or x.shape != sizes or x.dtype != dtype:
            given = "is missing" if x is None else f"has shape {x.shape} and dtype {x.dtype}"
            faults.append(Fault(name, f"{name} {given}, where the window takes {sizes} of {dtype}"))
        else:
            views[name] = x if _spellable(x) else np.ascontiguousarray(x)
    if faults:
        raise BindingError(faults)
    return views


def _spellable(x: NDArray[Any]) -> bool:
    """Whether a desc can express the array's layout."""
    return all(n == 1 or (s >= 0 and s % x.itemsize == 0) for n, s in zip(x.shape, x.strides, strict=True))


def parts_of(desc: Desc, reads: Mapping[str, Needed]) -> dict[str, Part]:
    """The parts of the inputs that are read."""
    whole = {found.name: found.desc for found in desc.tensors()}
    parts = {}
    for name, read in reads.items():
        starts, sizes = tuple(w.start for w in read.window), sizes_of(read.window)
        if read.beyond:  # one element of a tensor that lies beyond all indices
            starts, sizes = read.beyond, (1,) * len(starts)
        parts[name] = Part(starts, Tensor(name, sizes, whole[name].data_type), read.complete)
    return parts
