"""The computation of a node by its mapping. Errors of DirectML's operators become refusals."""

from __future__ import annotations

import numpy as np
from onnx.defs import OpSchema

from anydml.functional.tracing import GraphTensor
from anydml.onnx.calling import called
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
        return called(MAPPINGS[node.key], node, values)
    symbols = [x for x in values if isinstance(x, GraphTensor)]
    if symbols and any(x is not None and x.size == 0 for x in values if not isinstance(x, GraphTensor)):
        return _of_nothing(node, values)
    return called(MAPPINGS[node.key], node, values)


def _of_nothing(node: Node, values: list[Value]) -> list[Value]:
    """The outputs for empty inputs, which graphs do not support: the outputs are empty too, or the node runs by itself."""
    try:
        return called(MAPPINGS[node.key], node, values)
    except Refused:
        pass
    stand_ins = [np.zeros(x.sizes, x.dtype) if isinstance(x, GraphTensor) else x for x in values]
    try:
        results = called(MAPPINGS[node.key], node, stand_ins)
    except Refused:
        raise RunsAlone from None
    if any(x is not None and x.size for x in results):
        raise RunsAlone
    return results
