"""Products of stacked matrices with each of them transposed, which a product of one long matrix does not show."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto

from anydml.errors import Error
from anydml.explain.comparison import Cause
from anydml.onnx import compare_models as models
from anydml.onnx.compare_judge import Cut
from anydml.onnx.model import load
from anydml.onnx.values import Array


def cause(
    proto: ModelProto,
    node: NodeProto,
    values: Mapping[str, Array],
    constants: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> Cause | None:
    """The cause, if a MatMul's output is that of one of its inputs with each matrix read column by column."""
    if node.op_type != "MatMul" or node.domain not in ("", "ai.onnx"):
        return None
    output = node.output[0]
    for place, letter in enumerate("AB"):
        name = node.input[place]
        x = values[name]
        if x.ndim < 3 or min(x.shape[-2:]) == 1:
            continue
        *lead, rows, columns = x.shape
        changed = np.ascontiguousarray(x.reshape(*lead, columns, rows).swapaxes(-2, -1))
        try:
            made, given = models.cut(proto, [node], {**values, name: changed}, constants, [output])
            found = Cut(load(made), given).judged(actual, "none")
        except Error:
            continue
        if found.beyond == 0:
            total = actual[output].size
            said = f"the result with the matrices of {letter} transposed"
            return Cause(f"{letter.lower()}_transposed", said, total, total, 0, total, near=True)
    return None
