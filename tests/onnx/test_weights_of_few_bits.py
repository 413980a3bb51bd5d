"""ONNX's ways to have weights of few bits: each becomes one call, with the bits of the float model."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anydml.onnx
from anydml import Device
from anydml.graphs.desc import ConstantNode
from anydml.kernels.code import llvm

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
K, N, BLOCK = 256, 64, 32
RNG = np.random.default_rng(0)


def model(nodes: list[onnx.NodeProto], constants: dict[str, Any], kind: int = TensorProto.FLOAT) -> anydml.onnx.Model:
    """A model of a product: x {rows, K} to y {rows, N}."""
    tensor = helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(c, name) for name, c in constants.items()]
    graph = helper.make_graph(nodes, "g", [tensor("x", kind, ["rows", K])], [tensor("y", kind, ["rows", N])], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return anydml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def n_bits(bits: int, *, zeros: bool, dtype: Any) -> anydml.onnx.Model:
    """MatMulNBits, with and without zero points."""
    blocks = K // BLOCK
    constants = {
        "w": RNG.integers(0, 256, (N, blocks, BLOCK * bits // 8), np.uint8),
        "s": (RNG.random((N, blocks)) * 0.01 + 0.001).astype(dtype),
    }
    if zeros:
        constants["z"] = RNG.integers(0, 256, (N, blocks * bits // 8), np.uint8)
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=K, N=N, bits=bits, block_size=BLOCK
    )
    return model([node], constants, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def dequantised(axis: int, dtype: Any) -> anydml.onnx.Model:
    """DequantizeLinear in blocks before a MatMul, of weights {K, N}, or {N, K} that are transposed."""
    low, high = (0, 16) if dtype is ml_dtypes.uint4 else (-8, 8) if dtype is ml_dtypes.int4 else (-128, 128)
    sizes, blocks = ((K, N), (K // BLOCK, N)) if axis == 0 else ((N, K), (N, K // BLOCK))
    constants = {
        "w": RNG.integers(low, high, sizes).astype(dtype),
        "s": (RNG.random(blocks) * 0.01 + 0.001).astype(np.float32),
        "z": RNG.integers(low, high, blocks).astype(dtype),
    }
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis, block_size=BLOCK)]
    if axis == 1:
        nodes.append(helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", "f" if axis == 0 else "t"], ["y"]))
    return model(nodes, constants)


MODELS = {
    "4 bits": n_bits(4, zeros=False, dtype=np.float32),
    "4 bits with zero points": n_bits(4, zeros=True, dtype=np.float32),
    "4 bits of FLOAT16": n_bits(4, zeros=True, dtype=np.float16),
    "8 bits": n_bits(8, zeros=True, dtype=np.float32),
    "2 bits": n_bits(2, zeros=True, dtype=np.float32),
    "UINT4 {K, N}": dequantised(0, ml_dtypes.uint4),
    "INT4 {N, K}": dequantised(1, ml_dtypes.int4),
    "INT8 {K, N}": dequantised(0, np.int8),
}


@pytest.mark.parametrize(("name", "rows"), [*((name, 1) for name in MODELS), ("4 bits with zero points", 20)])
def test_one_call(name: str, rows: int) -> None:
    graph = MODELS[name].graph(rows=rows)
    x = np.random.default_rng(1).standard_normal((rows, K)).astype(graph.inputs["x"].data_type.dtype)
    outputs = []
    for fuse in (True, False):
        compiled = graph.compile(Device(threads=1, feature_level="EXTENDED"), fuse=fuse)
        if fuse:
            assert [part.kernel_name for part in compiled.call.parts] == ["contract.weights:compiled"]
        outputs.append(np.empty((rows, N), x.dtype))
        compiled.bind(x=x, y=outputs[-1]).execute()
    assert outputs[0].tobytes() == outputs[1].tobytes()


def test_maps_behind_a_dynamically_quantised_product_are_one_call() -> None:
    """The other calls are the quantisation, the sums, and the product of scales."""
    constants = {"w": RNG.integers(-127, 128, (K, N)).astype(np.int8), "s": np.array(0.01, np.float32)}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "w", "qz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["qs", "s"], ["scale"]),
        helper.make_node("Mul", ["floats", "scale"], ["y"]),
    ]
    graph = model(nodes, constants).graph(rows=5)
    compiled = graph.compile(Device(threads=1, feature_level="EXTENDED"))
    titles = [part.title for part in compiled.call.parts]
    assert len(titles) == 4
    assert titles[-1] == "cast + element_wise_multiply_2"


def test_embeddings_stay_packed() -> None:
    """The graph's constants are the bytes of the file; elements are unpacked after rows are gathered."""
    data, scales = RNG.integers(0, 256, (512, 32), np.uint8), np.ones((512, 2), np.float32)
    constants = [onnx.numpy_helper.from_array(x, name) for name, x in (("w", data), ("s", scales))]
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, [3])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])]
    node = helper.make_node(
        "GatherBlockQuantized", ["w", "i", "s"], ["y"], domain="com.microsoft", bits=4, block_size=32, quantize_axis=1
    )
    graph = helper.make_graph([node], "g", given, made, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    loaded = anydml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    held = [n.data.nbytes for n in loaded.graph().desc.nodes if isinstance(n, ConstantNode)]
    assert data.nbytes + scales.nbytes <= sum(held) < data.nbytes * 1.5 + scales.nbytes
    rows = np.array([5, 0, 511])
    elements = np.stack([data[rows] & 15, data[rows] >> 4], -1).reshape(3, 64)
    assert np.array_equal(loaded.run(i=rows)["y"], elements.astype(np.float32) - 8)
