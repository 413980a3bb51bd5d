"""Nodes that are one operator of DirectML: their results are exact, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import anydml.onnx

Array = Any  # of NumPy
FLOAT16 = np.dtype(np.float16)


def model(operator: str, inputs: dict[str, Array], outputs: int, opset: int, **attributes: Any) -> ModelProto:
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in inputs.items()
    ]
    made = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    for info in made:
        info.ClearField("type")
    node = helper.make_node(operator, [*inputs], [info.name for info in made], **attributes)
    graph = helper.make_graph([node], "single", infos, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def drawn(*sizes: int, seed: int = 0, dtype: Any = FLOAT16) -> Array:
    return np.random.default_rng(seed).normal(size=sizes).astype(dtype)


def attended(q: Array, k: Array, v: Array, mask: Array | None, causal: bool) -> Array:
    """Attention in float64; arrays are {batch, heads, length, size}."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    seen = np.ones(scores.shape[2:], bool)
    if causal:
        seen = np.tril(seen, scores.shape[3] - scores.shape[2])
    scores = np.where(seen, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    weights = np.exp(scores - np.max(scores, -1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", ["none", "truths", "terms", "given truths"])
def test_attention_is_one_operator(kind: str, causal: int, heads: int) -> None:
    q, k, v = (drawn(2, n, 6, 8, seed=i) for i, n in enumerate((4, heads, heads)))
    truths = np.random.default_rng(9).random((6, 6)) < 0.7
    truths |= np.eye(6, dtype=bool)
    mask = {"none": None, "terms": drawn(2, 1, 6, 6, seed=3)}.get(kind, truths)
    given = dict(q=q, k=k, v=v) | ({} if mask is None else dict(mask=mask))
    found = anydml.onnx.load(model("Attention", given, 1, 24, is_causal=causal))
    graph = str(found.graph())
    assert graph.count("multihead_attention1(") == 1
    assert all(word not in graph for word in ("gemm(", "softmax", "element_wise_multiply("))
    np.testing.assert_array_equal(found.run(given)["y0"], attended(q, k, v, mask, bool(causal)).astype(FLOAT16))


def test_a_query_that_sees_nothing_is_0() -> None:
    q, k, v = (drawn(1, 2, 3, 4, seed=i, dtype=np.float32) for i in range(3))
    mask = np.array([[True, False, True], [False] * 3, [True] * 3])
    y = anydml.onnx.load(model("Attention", dict(q=q, k=k, v=v, mask=mask), 1, 24)).run(q=q, k=k, v=v, mask=mask)["y0"]
    assert not y[:, :, 1].any()
    with np.errstate(invalid="ignore"):
        wanted = attended(q, k, v, mask, False)
    np.testing.assert_allclose(y[:, :, ::2], wanted[:, :, ::2], rtol=1e-6)


def test_layer_normalization_has_its_means_and_deviations() -> None:
    x, scale, bias = drawn(3, 4, 10, dtype=np.float32), drawn(10, seed=1, dtype=np.float32), drawn(10, seed=2, dtype=np.float32)
    found = anydml.onnx.load(model("LayerNormalization", dict(x=x, scale=scale, bias=bias), 3, 17, axis=-1))
    assert str(found.graph()).count("mean_variance_normalization2(") == 1
    y, mean, inverse = found.run(x=x, scale=scale, bias=bias).values()
    wide = x.astype(np.float64)
    m, v = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    root = 1 / np.sqrt(v + np.float32(1e-5))
    np.testing.assert_array_equal(y, ((wide - m) * root * scale + bias).astype(np.float32))
    np.testing.assert_array_equal(mean, m.astype(np.float32))
    np.testing.assert_allclose(inverse, root, rtol=1e-7)


@pytest.mark.parametrize(
    ("operator", "attributes", "one"),
    [
        ("RMSNormalization", {}, "mean_variance_normalization2"),
        ("GroupNormalization", dict(num_groups=2), "mean_variance_normalization2"),
        ("Gelu", {}, "activation_gelu"),
        ("HardSwish", {}, "activation_hard_swish"),
        ("Swish", {}, "activation_swish"),
    ],
)
def test_others_are_one_operator(operator: str, attributes: dict[str, Any], one: str) -> None:
    given = dict(x=drawn(2, 4, 6, dtype=np.float32))
    if "Normalization" in operator:
        given["scale"] = drawn(4 if attributes else 6, seed=1, dtype=np.float32)
    if attributes:
        given["bias"] = drawn(4, seed=2, dtype=np.float32)
    graph = str(anydml.onnx.load(model(operator, given, 1, 24, **attributes)).graph())
    assert "1 operator," in graph
    assert f"{one}(" in graph
