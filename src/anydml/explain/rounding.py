"""Bounds of ordinary arithmetic in a graph: the ranges of an output's elements, computed through all operators before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from anydml.explain.bounded import Number, Range, Unbounded, exactly
from anydml.explain.bounded_states import MOST_TERMS
from anydml.explain.bounds import ranges, unit_of
from anydml.explain.forms import FORMS, Form
from anydml.explain.precision import LESS, PRECISIONS, Less
from anydml.feature_level import FeatureLevel
from anydml.graphs.check import check_graph
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.desc import GraphDesc
from anydml.int4_tensors import array_dtype, unpacked
from anydml.schema.operator import Desc
from anydml.schema.statement import Nest, stated
from anydml.schema.traversal import most_terms
from anydml.tensor import TensorDesc

Array = NDArray[Any]


class Operation:
    """An operator of a graph on known inputs: its newest desc, and its inputs by field name, each with its bounds.

    dequantised: the inputs that an operator computes from constants alone, as weights; other runtimes' are nearly the same.
    """

    def __init__(self, desc: Desc, inputs: dict[str, Number], dequantised: frozenset[str]) -> None:
        self.desc, self.inputs, self.dequantised = desc, inputs, dequantised
        self.tensors = {found.name: found.desc for found in desc.tensors()}

    def ranges(self, output: str, nest: Nest, at: Array, unit: float | None = None) -> Range:
        """The ranges of an output's elements at some indices. unit: of each rounding, if not the types'."""
        own = unit_of([t.data_type for t in self.tensors.values()])
        return ranges(nest, self.tensors[output].data_type, self.inputs, at, unit or own)


class Rounding:
    """A graph on known inputs, by name, and the ranges that rounding in every operator allows for its outputs' elements.

    form: the form of the operators' statements, if it is not their own; see `forms`. precision: a name of `PRECISIONS`, where
    the implementation is said to compute in another type than the tensors have. less: the way to compute in it.
    """

    def __init__(
        self,
        desc: GraphDesc,
        inputs: Mapping[str, Array],
        form: Form | None = None,
        precision: str | None = None,
        less: Less | None = None,
    ) -> None:
        self.desc, self.inputs, self.form, self.precision, self.less = desc, inputs, form, precision, less
        self.unit = PRECISIONS["float32"] if precision == "float32" else None if less is None else less.unit
        self.checked: CheckedGraph = check_graph(desc, FeatureLevel.EXTENDED)
        self._buffers: dict[int, Number] = {}  # elements in memory's order
        for bound in self.checked.inputs:
            self._buffers[bound.buffer] = exactly(_in_memory(inputs[bound.name], bound.tensor))
        self._last = {buffer: node for node in self.checked.order for buffer in self.checked.writes[node].values()}

    def operation(self, output: str) -> tuple[Operation, str]:
        """The operator that writes an output of the graph, and the output's name there; operators before it are computed."""
        buffer = next(b.buffer for b in self.checked.outputs if b.name == output)
        return self._operation(buffer)

    def explained(self, output: str, flat: Array) -> Range:
        """The ranges of an output's elements at these row-major positions; Unbounded if none are known."""
        bound = next(b for b in self.checked.outputs if b.name == output)
        operation, name = self._operation(bound.buffer)
        places = _offsets(bound.tensor)[flat]
        own = operation.tensors[name]
        logical = np.zeros(max(_span(own), int(places.max(initial=0)) + 1), np.int64)
        logical[_offsets(own)] = np.arange(len(_offsets(own)))
        at = np.stack(np.unravel_index(logical[places], own.sizes), axis=-1)
        return operation.ranges(name, self._nest(operation.desc, name), at, self.unit)

    def in_forms(self) -> Iterator[tuple[str, Rounding]]:
        """The same graph by each form that one of its operators has, with the form's sentence; then in the precision."""
        descs = [checked.desc.as_newest() for checked in self.checked.nodes if checked is not None]
        nests = [nest for desc in descs for nest in stated(desc).values()]
        forms = [form for form in FORMS if any(form.of(nest) is not None for nest in nests)]
        for form in forms:
            yield form.sentence, Rounding(self.desc, self.inputs, form, self.precision)
        for less in LESS.get(self.precision or "", ()):
            if less.unit is None and not any(less.form.of(nest) for nest in nests):
                continue
            yield less.sentence, Rounding(self.desc, self.inputs, None, self.precision, less)
            for form in forms:
                yield f"{less.sentence} and {form.sentence}", Rounding(self.desc, self.inputs, form, self.precision, less)

    def _nest(self, desc: Desc, output: str) -> Nest:
        nest = stated(desc)[output]
        nest = (None if self.form is None else self.form.of(nest)) or nest
        return nest if self.less is None else self.less.of(nest)

    def _operation(self, buffer: int) -> tuple[Operation, str]:
        node = self._last[buffer]
        checked = self.checked.nodes[node]
        assert checked is not None
        name = next(name for name, b in self.checked.writes[node].items() if b == buffer)
        desc = checked.desc.as_newest()
        inputs = {}
        tensors = {found.name: found.desc for found in checked.desc.tensors()}
        dequantised = set()
        for field, read in self.checked.reads[node].items():
            inputs[field] = self._read(read, tensors[field])
            if read in self._last and all(map(self.checked.constant, self.checked.reads[self._last[read]].values())):
                dequantised.add(field)
        return Operation(desc, inputs, frozenset(dequantised)), name

    def _read(self, buffer: int, t: TensorDesc) -> Number:
        if t.data_type.element_bits == 4:
            if (packed := self.checked.constant(buffer)) is None:
                raise Unbounded("4-bit elements")
            return exactly(unpacked(packed.data, t))
        dtype = array_dtype(t.data_type)
        if (constant := self.checked.constant(buffer)) is not None:
            whole = constant.data[: constant.data.nbytes // dtype.itemsize * dtype.itemsize]
            return exactly(_laid_out(whole.view(dtype), t))
        if buffer not in self._buffers:
            self._buffers[buffer] = self._computed(buffer)
        held = self._buffers[buffer]
        if held.value.dtype != dtype:
            raise Unbounded("elements read as another type")
        return exactly(_laid_out(held.value, t)) if held.exact else Number(*(_laid_out(x, t) for x in held))

    def _computed(self, buffer: int) -> Number:
        """An intermediate tensor: its elements and their bounds."""
        operation, name = self._operation(buffer)
        t, nest = operation.tensors[name], self._nest(operation.desc, name)
        if len(_offsets(t)) * most_terms(nest.body) > MOST_TERMS:
            raise Unbounded("too many terms")
        at = np.stack(np.unravel_index(np.arange(len(_offsets(t))), t.sizes), axis=-1)
        found = operation.ranges(name, nest, at, self.unit)
        ends = []
        for x in found:
            held = np.zeros(_span(t), array_dtype(t.data_type))
            held[_offsets(t)] = x
            ends.append(held)
        same = np.array_equal(found.low, found.high, equal_nan=t.data_type.is_float)
        return exactly(ends[0]) if same else Number(*ends)


def _span(t: TensorDesc) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(t.sizes, t.explicit_strides, strict=True))


def _offsets(t: TensorDesc) -> Array:
    """The offset in memory of each element, in row-major order."""
    at = np.zeros((), np.int64)
    for n, s in zip(t.sizes, t.explicit_strides, strict=True):
        at = at[..., None] + np.arange(n) * s
    return at.reshape(-1)


def _in_memory(array: Array, t: TensorDesc) -> Array:
    held = np.zeros(_span(t), array.dtype)
    held[_offsets(t)] = array.reshape(-1)
    return held


def _laid_out(held: Array, t: TensorDesc) -> Array:
    if _span(t) > len(held):
        raise Unbounded("a tensor read beyond its end")
    strides = [s * held.itemsize for s in t.explicit_strides]
    return as_strided(held, t.sizes, strides, writeable=False)
