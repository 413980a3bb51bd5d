"""What models are taken for at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from anydml.onnx import compare_flat
from anydml.onnx.bodies import own_body


def test_a_function_s_body_is_that_of_the_model_s_operator_set() -> None:
    schema = onnx.defs.get_schema("MeanVarianceNormalization", 13)
    for opset, there in ((12, False), (13, True), (14, True)):
        node: Any = SimpleNamespace(schema=schema, opset=opset)
        assert (own_body(node, []) is not None) == there


def test_scans_are_judged_from_operator_set_9_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_flat, "body_of", lambda node: node)
    node: Any = SimpleNamespace(op_type="Scan", input=[], attribute=[])
    for opset, judged in ((8, False), (9, True)):
        flat: Any = SimpleNamespace(opset=opset, _scanned=lambda *_: True)
        assert compare_flat._Flat._expanded(flat, node, None) == judged
