"""Graphs whose samples do not depend on one another, so that any batch gives the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from anydml.errors import UnsupportedError
from anydml.graphs.checked import CheckedGraph
from anydml.graphs.show import called
from anydml.schema.expression import Tensor
from anydml.schema.node import Variable
from anydml.schema.statement import Nest, meaning
from anydml.schema.traversal import walk
from anydml.tensor import TensorDesc


class InMemory(NamedTuple):
    """Samples in memory: element o belongs to sample (o // stride) % samples. stride: in elements."""

    stride: int
    samples: int


class Along(NamedTuple):
    """A dimension whose index i is that of a sample: i // ratio."""

    dimension: int
    ratio: int = 1


class Mixed(Exception):
    """Samples cannot be told apart, for this reason."""


def batch_axes(checked: CheckedGraph, name: str, axis: int) -> dict[str, int]:
    """The dimension of each output along which the samples of an input lie. axis: that of the input of this name.

    UnsupportedError, with the node's name, if samples depend on one another or do not lie along one dimension of each output.
    """
    where: dict[int, InMemory] = {}
    for bound in checked.inputs:
        if bound.name == name:
            where[bound.buffer] = InMemory(bound.tensor.explicit_strides[axis], bound.tensor.sizes[axis])
    for node in checked.order:
        operator = checked.nodes[node]
        if operator is None or not any(b in where for b in checked.reads[node].values()):
            continue
        tensors = operator.tensors
        try:
            inputs = {n: _along(tensors[n], where[b]) for n, b in checked.reads[node].items() if b in where}
            of_input = next(where[b] for b in checked.reads[node].values() if b in where)
            for output, nest in meaning(operator.desc.as_newest()).items():
                if (found := _carried(nest, inputs)) is not None:
                    stride = tensors[output].explicit_strides[found.dimension] * found.ratio
                    where[checked.writes[node][output]] = InMemory(stride, of_input.samples)
        except Mixed as mixed:
            raise UnsupportedError(f"{called(checked, node)}: {mixed}, so that batches are not computed alone") from None
    found_axes = {}
    for bound in checked.outputs:
        try:
            if bound.buffer not in where:
                raise Mixed("no sample has a part in it")
            along = _along(bound.tensor, where[bound.buffer])
            if along.ratio > 1:
                raise Mixed("its samples lie along no dimension of their own")
        except Mixed as mixed:
            raise UnsupportedError(f"{bound.name}: {mixed}, so that batches are not computed alone") from None
        found_axes[bound.name] = along.dimension
    return found_axes


def _along(t: TensorDesc, known: InMemory) -> Along:
    """The dimension of a tensor along which samples lie."""
    found = None
    within = 1  # elements that the dimensions inside of a sample reach
    for d, (n, stride) in enumerate(zip(t.sizes, t.explicit_strides, strict=True)):
        if n == 1 or stride == 0:
            continue
        if stride >= known.stride * known.samples and stride % (known.stride * known.samples) == 0:
            continue
        if stride < known.stride and (n - 1) * stride < known.stride:
            within += (n - 1) * stride
            continue
        ratio = known.stride // stride
        if found is None and ratio and known.stride % stride == 0 and n == known.samples * ratio:
            found = Along(d, ratio)
            continue
        raise Mixed("its samples lie along several dimensions")
    if found is None or within > known.stride:
        raise Mixed("its samples lie along several dimensions")
    return found


def _carried(nest: Nest, inputs: Mapping[str, Along]) -> Along | None:
    """The dimension of a nest along which samples lie; None if it does not depend on them."""
    internal: dict[Tensor, Along | None] = {}
    found = _variable(nest, inputs, internal)
    return None if found is None else Along(nest.variables.index(found[0]), found[1])


def _variable(nest: Nest, inputs: Mapping[str, Along], internal: dict[Tensor, Along | None]) -> tuple[Variable, int] | None:
    """The variable of a nest that is a sample's, and its ratio."""
    found: dict[tuple[Variable, int], None] = {}
    reads = [node for node in walk(nest.body) if node.op == "read"]
    states = [node for node in reads if node.data[0].definition is not None]
    for node in states:
        _learn(node.data[0], inputs, internal)
    for node in reads:
        tensor = node.data[0]
        along = internal.get(tensor) if tensor.definition is not None else inputs.get(tensor.name)
        if along is None:
            continue
        e = node.args[along.dimension]
        if e.op != "variable" or e.data not in nest.variables or e.data.size != tensor.sizes[along.dimension]:
            raise Mixed("an element depends on several samples")
        found[e.data, along.ratio] = None
    if len(found) > 1:
        raise Mixed("samples lie along several dimensions")
    return next(iter(found), None)


def _learn(tensor: Tensor, inputs: Mapping[str, Along], internal: dict[Tensor, Along | None]) -> None:
    """Note along which dimension of a state samples lie: first from what it reads of inputs, then of states themselves."""
    if tensor in internal:
        return
    internal[tensor] = None
    definition = tensor.definition
    assert definition is not None
    first = _variable(definition, inputs, internal)
    if first is not None:
        internal[tensor] = Along(definition.variables.index(first[0]), first[1])
        _variable(definition, inputs, internal)  # its own elements, read at the same sample
