"""Pages to load in a browser: of descs, of comparisons, of a large and of a hostile model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper

from anydml.onnx.compare_details import NodeDetails, TensorDetails, Worst
from anydml.onnx.compare_results import BEYOND, EQUAL, ROUNDING, Deviation, ModelComparison, NodeComparison
from anydml.onnx.comparing import compare

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\x1b[31m"
OPERATORS = ("LayerNormalization", "MatMul", "Add", "Reshape", "Transpose", "MatMul", "Softmax", "MatMul", "Add", "Gelu")


def large(layers: int = 200) -> ModelComparison:
    """A comparison of ten nodes in each layer, in which rounding differs everywhere, and one node beyond it."""
    rows: list[NodeComparison] = []
    details: dict[tuple[str, ...], NodeDetails] = {}
    before = "x"
    for layer in range(layers):
        for k, operator in enumerate(OPERATORS):
            name = f"/encoder/layer.{layer}/{operator.lower()}_{k}"
            verdict = BEYOND if (layer, k) == (layers // 3, 5) else ROUNDING if k % 3 == 1 else EQUAL
            share = 0 if verdict == EQUAL else 40 + layer
            own = Deviation(1024, share, 3 + k, " ULP", 1e-6 * (k + 1), (3, 5), "0.125", "0.12500001", 1e-7 * (1 + k))
            far = Deviation(1024, 700, 900, " ULP", 1e-5, (1, 2), "0.5", "0.50001", 1e-7 * (1 + layer * 10 + k))
            rows.append(
                NodeComparison((name,), (operator,), (before,), (f"{name}_out",), own, far, verdict,
                               7 if verdict == BEYOND else 0,
                               "It equals the result with bfloat16 inputs in 1024 of 1024 outputs" if verdict == BEYOND else "",
                               excess=12.0 if verdict == BEYOND else 0.0)
            )  # fmt: skip
            if share:
                bins = (("0", 984), ("1", 25), ("2", 10), ("3 to 4", 5))
                worst = tuple(Worst((3, i), "0.125", "0.12500001", 4.0 - i) for i in range(4))
                tensor = TensorDetails(f"{name}_out", (32, 32), "float32", "ULP", bins, worst)
                details[name,] = NodeDetails((tensor,), "print('the node alone')\n", "<ir_version: 8>")
            before = f"{name}_out"
    return ModelComparison(tuple(rows), ("A note about the whole",), details)


def hostile_model() -> ModelProto:
    """A model whose names are markup."""
    x = helper.make_tensor_value_info(f"x{HOSTILE}", onnx.TensorProto.FLOAT, (2, 3))
    y = helper.make_tensor_value_info(f"y{HOSTILE}", onnx.TensorProto.FLOAT, (2, 3))
    nodes = [
        helper.make_node("Relu", [x.name], [f"a{HOSTILE}"], name=f"first{HOSTILE}"),
        helper.make_node("Add", [f"a{HOSTILE}", f"a{HOSTILE}"], [y.name], name=f"second{HOSTILE}"),
    ]
    return helper.make_model(
        helper.make_graph(nodes, f"g{HOSTILE}", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def hostile() -> dict[str, ModelComparison]:
    """Two comparisons of the hostile model, of which one has another result and one lacks a tensor."""
    x = np.array([[-1, 2, 3], [4, 5, 6]], np.float32)
    model = hostile_model()
    right = {f"a{HOSTILE}": np.maximum(x, 0), f"y{HOSTILE}": 2 * np.maximum(x, 0)}
    wrong: dict[str, Any] = {**right, f"y{HOSTILE}": right[f"y{HOSTILE}"] + np.float32(1)}
    given = {f"x{HOSTILE}": x}
    return {
        f"phone{HOSTILE}": compare(model, given, actual=wrong, details=True),
        f"npu{HOSTILE}": compare(model, given, actual={f"y{HOSTILE}": right[f"y{HOSTILE}"]}, details=True),
    }
