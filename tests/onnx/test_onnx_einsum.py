"""Einsum with diagonals and with equal terms, of integers, whose sums are exact; compared with NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anydml.onnx

R = np.random.default_rng(31)


def einsum(equation: str, sizes: Sequence[Sequence[int]]) -> tuple[Any, list[Any]]:
    arrays = [R.integers(-9, 9, s).astype(np.float32) for s in sizes]
    names = [f"x{i}" for i in range(len(arrays))]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, arrays, strict=True)]
    out = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph([node], "one", infos, [out])
    model = anydml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    return model.run(dict(zip(names, arrays, strict=True)))["y"], arrays


@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("iji->ji", [(3, 5, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("...ii->...i", [(2, 3, 4, 4)]),
        ("ijij->ij", [(2, 3, 2, 3)]),
        ("ii,ij->j", [(4, 4), (4, 3)]),
        ("bii,bjj->bij", [(2, 3, 3), (2, 4, 4)]),
        ("ii->i", [(1, 1)]),
        ("i,i->", [(7,), (7,)]),
        ("i,i", [(7,), (7,)]),
        ("i,i->i", [(7,), (7,)]),
        ("ii,ii->", [(3, 3), (3, 3)]),
        ("i,j->", [(3,), (4,)]),
    ],
)
def test_sums(equation: str, sizes: Sequence[Sequence[int]]) -> None:
    found, arrays = einsum(equation, sizes)
    np.testing.assert_array_equal(found, np.einsum(equation, *arrays))


@pytest.mark.parametrize(("equation", "sizes"), [("ii->i", [(3, 4)]), ("ij->ijj", [(3, 4)]), ("ij->k", [(3, 4)])])
def test_what_has_no_such_sum_is_refused(equation: str, sizes: Sequence[Sequence[int]]) -> None:
    with pytest.raises(anydml.onnx.ModelError, match="invalid"):
        einsum(equation, sizes)
