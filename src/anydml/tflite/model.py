"""`anydml.tflite.load`: a TensorFlow Lite model as operators on exact numbers, quantised once by each node."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from anydml.devices.device import Device, device_of, usual
from anydml.errors import BindingError, Fault
from anydml.functional.graph import Graph
from anydml.onnx.calls import Known, computed
from anydml.onnx.errors import INVALID, ModelError, Refusal
from anydml.onnx.segments import Segment
from anydml.onnx.values import Array
from anydml.tflite.build import Walk, stored
from anydml.tflite.read import Quantisation, Read, Tensor, read

CACHED = 16  # graphs of a model, by the sizes of its inputs


class Signature(NamedTuple):
    """An input or an output of a model. sizes: numbers, or None for a size that may change.

    dtype: of its elements. quantisation: the scales and zero points of integers that stand for other numbers, else None.
    """

    name: str
    dtype: np.dtype[Any]
    sizes: tuple[int | None, ...]
    quantisation: Quantisation | None

    def __str__(self) -> str:
        sizes = ", ".join("?" if n is None else str(n) for n in self.sizes)
        text = f"{self.dtype.name.upper()} ({sizes}{',' * (len(self.sizes) == 1)})"
        q = self.quantisation
        if q is None:
            return text
        return f"{text}, scale {q.scales[0]:.9g}, zero point {q.zero_points[0]}" if q.scales.size == 1 else f"{text}, scales"


class Model:
    """A TensorFlow Lite model, made by `load`. inputs, outputs: their names, types, sizes and scales.

    notes: sentences about what is not run. aliases: names that the file's signature gives to tensors.
    """

    def __init__(self, found: Read) -> None:
        self.notes: tuple[str, ...] = found.notes
        self.inputs: dict[str, Signature] = {t.name: _signature(t) for t in found.inputs}
        self.outputs: dict[str, Signature] = {t.name: _signature(t) for t in found.outputs}
        self.aliases: Mapping[str, str] = dict(found.aliases)
        self.read = found
        self.tensors: dict[str, Tensor] = {t.name: t for t in found.tensors}
        self.constants: dict[str, Array] = {t.name: t.data for t in found.tensors if t.data is not None}
        self._segments: OrderedDict[Any, Segment] = OrderedDict()
        self._calls = Known(tuple(self.inputs), tuple(self.outputs))

    def __repr__(self) -> str:
        ends = (", ".join(f"{s.name} {s}" for s in side.values()) for side in (self.inputs, self.outputs))
        return f"<Model: {len(self.read.nodes)} nodes; {' -> '.join(ends)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The contents of the file. A copy, in another process too, makes its graphs anew."""
        return _loaded, (self.read.data,)

    @property
    def operators(self) -> dict[str, int]:
        """The number of nodes of each operator."""
        return dict(sorted(Counter(node.operator for node in self.read.nodes).items()))

    def graph(self, **sizes: Any) -> Graph:
        """The model as one graph. sizes: those of an input by its name, if they are not the file's.

        ModelError if a node is refused.
        """
        segment = self._segment(self._sizes(sizes), False)
        if segment.graph is None or set(segment.graph.outputs) != set(self.outputs):
            raise ModelError([Refusal("", "", INVALID, "outputs of the model are inputs or constants, not results of nodes")])
        return segment.graph

    def check(self, **sizes: Any) -> tuple[Refusal, ...]:
        """The refusals for these sizes; empty if the model runs. sizes: as in `graph`."""
        try:
            self._segment(self._sizes(sizes), False)
        except ModelError as error:
            return error.refusals
        return ()

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        device: Device | str | None = None,
        keep: Literal["outputs", "all"] = "outputs",
        **named: Any,
    ) -> dict[str, Array]:
        """The outputs by name, for inputs by name or by a name of the signature; with keep="all", every tensor of a node.

        Integers are as the file stores them, with its scales. The graphs for the last 16 combinations of input sizes are kept.
        BindingError for inputs that do not fit, ModelError for nodes that are refused.
        """
        from anydml.onnx.values import by_name

        given = {**by_name(inputs), **named} if inputs is not None else named
        if keep == "outputs" and (again := self._calls.again(given, device)) is not None:
            return again
        if keep not in ("outputs", "all"):
            raise ValueError(f'keep is {keep!r}, and may be "outputs" or "all"')
        on = device_of(device)
        with usual(on):
            env = self._given(given)
            sizes = {name: x.shape for name, x in env.items()}
            segment = self._segment(sizes, keep == "all", on)
            held = {name: stored(x) for name, x in env.items()}
            found: dict[str, Array] = dict(segment.known)
            if segment.graph is not None:
                found |= computed(segment, held, on)
            for name, other in segment.aliases.items():
                found[name] = (found[other] if other in found else held[other]).copy()
            for name in segment.known:
                found[name] = found[name].copy()
            for name in held.keys() & self.outputs.keys():
                found[name] = held[name].copy()
        wanted = [*self.outputs, *sorted(found.keys() - self.outputs.keys())] if keep == "all" else [*self.outputs]
        made = {name: self._as_typed(found[name], self.tensors[name]) for name in wanted}
        as_given = given.keys() == self.inputs.keys() and all(held[name] is given[name] for name in held)
        plain = all(made[name].dtype != np.bool_ and made[name].ndim for name in self.outputs)
        if keep == "outputs" and as_given and plain:
            self._calls.keep(given, device, segment, on)
        return made

    @staticmethod
    def _as_typed(x: Array, t: Tensor) -> Array:
        """An array as users get it: booleans, and no dimensions where the file has none."""
        typed = x.view(np.bool_) if t.dtype == np.bool_ else x
        return typed.reshape(()) if not t.sizes and typed.size == 1 else typed

    def _given(self, given: Mapping[str, Any]) -> dict[str, Array]:
        named = {self.aliases.get(name, name) if name not in self.inputs else name: x for name, x in given.items()}
        faults = [
            Fault(name, f"the model has no input {name!r}; its inputs are {', '.join(self.inputs)}")
            for name in named
            if name not in self.inputs
        ]
        found = {}
        for name, signature in self.inputs.items():
            if name not in named:
                faults.append(Fault(name, "is an input of the model, and was not given"))
                continue
            array = np.asarray(named[name])
            fits = len(signature.sizes) == array.ndim and all(
                n in (None, m) for n, m in zip(signature.sizes, array.shape, strict=True)
            )
            if array.dtype != signature.dtype or not fits:
                faults.append(Fault(name, f"takes {signature}, not {array.dtype} {array.shape}"))
            found[name] = array
        if faults:
            raise BindingError(faults)
        return found

    def _sizes(self, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """The sizes of every input, from the file and the caller."""
        named = {self.aliases.get(name, name) if name not in self.inputs else name: n for name, n in given.items()}
        faults = [Fault(name, "is no input of the model") for name in named if name not in self.inputs]
        found = {}
        for name, signature in self.inputs.items():
            own = self.tensors[name].sizes
            wanted = tuple(int(n) for n in named[name]) if name in named else own
            if len(wanted) != len(own) or any(n not in (None, m) for n, m in zip(signature.sizes, wanted, strict=False)):
                faults.append(Fault(name, f"has sizes {signature}, not {wanted}"))
            found[name] = wanted
        if faults:
            raise BindingError(faults)
        return found

    def _segment(self, sizes: Mapping[str, tuple[int, ...]], keep_all: bool, device: Device | None = None) -> Segment:
        key = (tuple(sizes.items()), keep_all, device)
        if (found := self._segments.get(key)) is not None:
            self._segments.move_to_end(key)
            return found
        as_in_file = all(n == self.tensors[name].sizes for name, n in sizes.items())
        constants = {name: x for name, x in self.constants.items() if name not in sizes}
        walk = Walk(self.read, self.read.nodes, sizes, as_in_file=as_in_file, constants=constants)
        made = self._segments[key] = walk.run({name: self.tensors[name] for name in self.outputs}, keep_all)
        if len(self._segments) > CACHED:
            self._segments.popitem(last=False)
        return made


def _signature(t: Tensor) -> Signature:
    sizes = tuple(None if n < 0 else n for n in t.signature)
    return Signature(t.name, t.dtype, sizes, t.quantisation if t.is_quantised else None)


def _loaded(data: bytes) -> Model:
    return Model(read(data))


def load(model: str | os.PathLike[str] | bytes) -> Model:
    """The model of a .tflite file, or of its contents; ModelError if it cannot be read."""
    return Model(read(model))
