"""The computation of a node by its mapping. Errors of DirectML's operators become refusals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from onnx.defs import OpSchema

from anydml.errors import BindingError, DataError, DescError
from anydml.functional.tracing import GraphTensor
from anydml.onnx.errors import INVALID, Refused, RunsAlone
from anydml.onnx.mapping import MAPPINGS
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value


def evaluate(node: Node, values: list[Value]) -> list[Value]:
    """The outputs of a node for its inputs; Refused, NeedsValue or RunsAlone if there are none."""
    slots = node.schema.inputs if node.schema else ()
    for i, x in enumerate(values if slots else ()):
        slot = slots[min(i, len(slots) - 1)]
        if x is None and slot.option != OpSchema.FormalParameterOption.Optional:
            raise Refused(f"its input {slot.name} is absent, and is not optional", INVALID)
    if any(isinstance(x, tuple) for x in values):
        return _called(MAPPINGS[node.key], node, values)
    symbols = [x for x in values if isinstance(x, GraphTensor)]
    if symbols and any(x is not None and x.size == 0 for x in values if not isinstance(x, GraphTensor)):
        return _of_nothing(node, values)
    return _called(MAPPINGS[node.key], node, values)


def _of_nothing(node: Node, values: list[Value]) -> list[Value]:
    """The outputs for empty inputs, which graphs do not support: the outputs are empty too, or the node runs by itself."""
    try:
        return _called(MAPPINGS[node.key], node, values)
    except Refused:
        pass
    stand_ins = [np.zeros(x.sizes, x.dtype) if isinstance(x, GraphTensor) else x for x in values]
    try:
        results = _called(MAPPINGS[node.key], node, stand_ins)
    except Refused:
        raise RunsAlone from None
    if any(x is not None and x.size for x in results):
        raise RunsAlone
    return results


@lru_cache(maxsize=1024)
def _inputs(mapping: Callable[..., Any]) -> tuple[list[str], float]:
    """The names of the inputs that a mapping requires, and the largest number of inputs that it takes."""
    parameters = [*inspect.signature(mapping).parameters.values()][1:]
    named = [p for p in parameters if p.kind != p.VAR_POSITIONAL]
    return [p.name for p in named if p.default is p.empty], len(named) if len(named) == len(parameters) else math.inf


def _fitting(mapping: Callable[..., Any], node: Node, values: list[Value]) -> list[Value]:
    """The inputs without absent ones at the end. Their number is checked, since operators of other domains have no schema."""
    while values and values[-1] is None:
        values = values[:-1]
    needed, most = _inputs(mapping)
    if len(values) < len(needed) or len(values) > most:
        many = (
            f"{len(needed)}"
            if most == len(needed)
            else f"{len(needed)} or more"
            if most == math.inf
            else f"{len(needed)} to {most}"
        )
        raise Refused(f"it has {len(values)} inputs, and takes {many}", INVALID)
    return values


def _called(mapping: Callable[..., Any], node: Node, values: list[Value]) -> list[Value]:
    values = _fitting(mapping, node, values)
    try:
        result = mapping(node, *values)
    except DescError as error:
        raise Refused("; ".join(map(str, error.violations))) from None
    except BindingError as error:
        raise Refused("; ".join(map(str, error.faults))) from None
    except DataError as error:
        raise Refused(str(error), INVALID) from None
    except MemoryError as error:
        raise Refused(str(error) or "there is not enough memory", INVALID) from None
    return list(result) if isinstance(result, (tuple, list)) else [result]
