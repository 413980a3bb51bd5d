"""onnxruntime's own operators, compared with onnxruntime on CPU or, if it lacks one there, with its formula in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import anydml.onnx

MICROSOFT = "com.microsoft"
Array = Any  # of NumPy


class Case(NamedTuple):
    """A node with its inputs, None if absent. given: the indices of the model's inputs; the others are constants."""

    operator: str
    inputs: tuple[Any, ...]
    outputs: int = 1
    attributes: Mapping[str, Any] = {}
    given: tuple[int, ...] = (0,)
    tolerance: float = 2e-5
    formula: Callable[..., Any] | None = None
    title: str = ""
    skip: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.operator}-{self.title}" if self.title else self.operator


def model_of(case: Case, domain: str = MICROSOFT) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    outputs = ["" if i in case.skip else f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, domain=domain, **case.attributes)
    inputs = [
        helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(case.inputs[i].dtype), case.inputs[i].shape)
        for i in case.given
    ]
    constants = [
        onnx.numpy_helper.from_array(x, names[i]) for i, x in enumerate(case.inputs) if x is not None and i not in case.given
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs if name]
    for info in made:
        info.ClearField("type")
    graph = helper.make_graph([node], "one", inputs, made, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def results(case: Case) -> tuple[list[Array], list[Array]]:
    """Our results, and onnxruntime's or the formula's."""
    proto = model_of(case, "" if case.operator == "SimplifiedLayerNormalization" else MICROSOFT)
    given = {f"x{i}": case.inputs[i] for i in case.given}
    if case.formula is None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        wanted = session.run(None, given)
    else:
        found = case.formula(*case.inputs)
        wanted = list(found) if isinstance(found, tuple) else [found]
    return [*anydml.onnx.load(proto).run(given).values()], wanted


R = np.random.default_rng(2027)


def f(*sizes: int, scale: float = 1.0) -> Array:
    return (R.normal(size=sizes) * scale).astype(np.float32)


def u8(*sizes: int) -> Array:
    return R.integers(0, 256, sizes).astype(np.uint8)


def i8(*sizes: int) -> Array:
    return R.integers(-128, 128, sizes).astype(np.int8)


def s(value: float) -> Array:
    return np.array(value, np.float32)


def z(value: int, dtype: Any = np.uint8) -> Array:
    return np.array(value, dtype)


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def erf(x: Array) -> Array:
    from math import erf as one

    return np.vectorize(one)(x)


def single(x: Array) -> Array:
    return x.astype(np.float32)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def group_norm(channels_last: bool, silu: bool, groups: int) -> Callable[..., Array]:
    def formula(x: Array, gamma: Array, beta: Array) -> Array:
        image = x.astype(np.float64)
        image = image.transpose(0, 3, 1, 2) if channels_last else image
        n, c, h, w = image.shape
        parts = image.reshape(n, groups, -1)
        parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
        y = parts.reshape(n, c, h, w) * gamma[:, None, None] + beta[:, None, None]
        y = y / (1 + np.exp(-y)) if silu else y
        return (y.transpose(0, 2, 3, 1) if channels_last else y).astype(np.float32)

    return formula


def packed_attention(n_heads: int) -> Callable[..., Array]:
    """Attention with packed queries, keys and values, {batch, length, heads, 3, size}, or with packed keys and values."""

    def formula(query: Array, key: Array | None = None) -> Array:
        x = query.astype(np.float64)
        if key is None:
            q, k, v = (x[:, :, :, i] for i in range(3))
        else:
            q, (k, v) = x.reshape(*x.shape[:2], n_heads, -1), (key.astype(np.float64)[:, :, :, i] for i in range(2))
        scores = np.einsum("bsnh,btnh->bnst", q, k) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("bnst,btnh->bsnh", weights / weights.sum(-1, keepdims=True), v)
        return y.reshape(*y.shape[:2], -1).astype(np.float32)

    return formula


def caches(length: int, pairs: int) -> tuple[Array, Array]:
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(pairs) / pairs)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def nibbles(rows: int, blocks: int, size: int) -> Array:
    return u8(rows, blocks, size // 2)


COS, SIN = caches(16, 4)
PLACES = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], np.int64)
X3, SKIP = f(2, 5, 12), f(2, 5, 12)
GAMMA, BETA, BIAS = f(12), f(12), f(12)
QKV = [f(2, 5, 16) for _ in range(3)]
TABLES = [f(30, 12), f(20, 12), f(3, 12)]
WORDS = R.integers(0, 30, (2, 5)).astype(np.int32)
SEGMENTS = R.integers(0, 3, (2, 5)).astype(np.int32)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
PAST = [f(2, 4, 3, 4) for _ in range(2)]
CHANNELS = f(2, 4, 5, 8)
GQ = [f(2, 3, 64), f(2, 3, 32), f(2, 3, 32)]
PASTS = [f(2, 2, 7, 16) for _ in range(2)]
ONE = [f(1, 4, 64), f(1, 4, 32), f(1, 4, 32)]
COS8, SIN8 = caches(16, 8)
QIN, QW = u8(2, 5, 12), i8(12, 24)
PAST5 = f(2, 2, 4, 3, 4)

CASES = [
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24)), attributes=dict(num_heads=2)),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), MASK), attributes=dict(num_heads=2), title="mask"),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), i32(3, 5)), attributes=dict(num_heads=2), title="lengths"),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), i32(3, 5, 1, 0)), attributes=dict(num_heads=2), title="ends"),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24)), attributes=dict(num_heads=2, unidirectional=1), title="causal"),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24), MASK), attributes=dict(num_heads=2, unidirectional=1), title="both"),
    Case(
        "Attention", (f(2, 5, 12), f(12, 24), f(24), None, f(2, 2, 2, 3, 4)), 2, dict(num_heads=2, unidirectional=1),
        (0, 4), title="past",
    ),
    Case(
        "Attention", (f(2, 5, 12), f(12, 20), f(20), None, None, f(2, 2, 5, 5)), 1,
        dict(num_heads=2, qkv_hidden_sizes=[8, 8, 4], scale=0.3), (0, 5), title="bias",
    ),
    Case("Attention", (f(2, 5, 12), f(12, 24), f(24)), 2, dict(num_heads=2), title="present"),
    Case("BiasAdd", (f(2, 6, 8), f(8), f(2, 6, 8)), given=(0, 2), formula=lambda x, b, skip: x + b + skip),
    Case("BiasGelu", (f(2, 3, 8), f(8))),
    Case("BiasSplitGelu", (f(2, 3, 8), f(8)), formula=lambda x, b: single((x + b)[..., :4] * gelu((x + b)[..., 4:]))),
    Case(
        "ConvTransposeWithDynamicPads", (f(1, 2, 4, 4), f(2, 3, 3, 3), np.array([1, 0, 1, 0])), 1,
        dict(strides=[2, 2], kernel_shape=[3, 3]),
    ),
    Case("DequantizeLinear", (u8(3, 4), s(0.5), z(7))),
    Case("DequantizeLinear", (i8(3, 4), f(4), i8(4)), attributes=dict(axis=1), title="axis"),
    Case("QuantizeLinear", (f(3, 4, scale=9), s(0.5), z(7))),
    Case("DynamicQuantizeMatMul", (f(3, 8), i8(8, 5), f(5), None, f(5)), tolerance=1e-4),
    Case("DynamicQuantizeMatMul", (f(2, 3, 8), u8(8, 5), s(0.02), z(100)), tolerance=1e-4, title="zero"),
    Case("EmbedLayerNormalization", (WORDS, SEGMENTS, *TABLES, GAMMA, BETA, MASK), 3, given=(0, 1, 7)),
    Case(
        "EmbedLayerNormalization", (WORDS, None, *TABLES[:2], None, GAMMA, BETA, None, SEGMENTS + 4), 2, dict(epsilon=1e-5),
        (0, 8), title="places",
    ),
    Case("FastGelu", (f(3, 40, scale=3), f(40))),
    Case("FastGelu", (f(3, 40, scale=3),), title="alone"),
    Case("FusedMatMul", (f(2, 3, 4), f(2, 3, 5)), 1, dict(transA=1, alpha=0.3), (0, 1)),
    Case("FusedMatMul", (f(3, 2, 4), f(5, 2, 4)), 1, dict(transBatchA=1, transBatchB=1, transB=1), (0, 1), title="batches"),
    Case("TransposeMatMul", (f(3, 4), f(5, 4)), 1, dict(transB=1), (0, 1)),
    Case(
        "FusedMatMulActivation", (f(3, 4), f(4, 5)), 1, dict(activation="LeakyRelu", activation_alpha=0.2, alpha=2.0), (0, 1),
        formula=lambda a, b: np.where(a @ b > 0, 2 * (a @ b), 0.4 * (a @ b)),
    ),
    Case("FusedGemm", (f(3, 4), f(4, 5), f(5)), attributes=dict(activation="Relu", alpha=0.5)),
    Case("FusedGemm", (f(3, 4), f(4, 5), f(5)), attributes=dict(activation="LeakyRelu", activation_alpha=0.1), title="leaky"),
    Case("Gelu", (f(3, 40, scale=3),)),
    Case("QuickGelu", (f(3, 40, scale=3),)),
    Case("QuickGelu", (f(3, 40, scale=3),), attributes=dict(alpha=1.0), title="alpha"),
    *(
        Case(
            "GroupNorm", (f(2, 4, 5, 8) if last else f(2, 8, 4, 5), f(8), f(8)),
            attributes=dict(channels_last=int(last), activation=int(silu), groups=4),
            formula=group_norm(last, silu, 4), title=f"{last}-{silu}",
        )
        for last in (True, False) for silu in (True, False)
    ),
    Case("GroupQueryAttention", (*GQ, None, None, i32(2, 2), i32(3)), 3, dict(num_heads=4, kv_num_heads=2), (0, 1, 2)),
    Case(
        "GroupQueryAttention", (f(2, 3, 128), None, None, None, None, i32(2, 2), i32(3)), 3,
        dict(num_heads=4, kv_num_heads=2), title="packed",
    ),
    Case(
        "GroupQueryAttention", (f(2, 3, 128), None, None, None, None, i32(2, 2), i32(3), COS8, SIN8), 3,
        dict(num_heads=4, kv_num_heads=2, do_rotary=1), title="rotary",
    ),
    Case(
        "GroupQueryAttention", (f(1, 4, 128), None, None, None, None, i32(3), i32(4), COS8, SIN8), 3,
        dict(num_heads=4, kv_num_heads=2, do_rotary=1, rotary_interleaved=1, local_window_size=2), title="window",
    ),
    Case(
        "GroupQueryAttention", (*(x[:, :1] for x in GQ), *PASTS, i32(7, 7), i32(8), COS8, SIN8), 3,
        dict(num_heads=4, kv_num_heads=2, do_rotary=1), (0, 1, 2, 3, 4, 5), title="step",
    ),
    Case(
        "GroupQueryAttention", (*(x[:, :1] for x in GQ), *PASTS, i32(7, 7), i32(8)), 3,
        dict(num_heads=4, kv_num_heads=2, local_window_size=3, scale=0.2), (0, 1, 2, 3, 4, 5), title="step-window",
    ),
    Case(
        "GroupQueryAttention", (*(x[:, :1] for x in GQ), *PASTS, i32(7, 7), i32(8)), 3,
        dict(num_heads=4, kv_num_heads=2, softcap=2.5), (0, 1, 2, 3, 4, 5), title="softcap",
    ),
    Case(
        "GroupQueryAttention", (*(x[:, :1] for x in GQ), *PASTS, i32(7, 7), i32(8)), 3,
        dict(num_heads=4, kv_num_heads=2, smooth_softmax=1), (0, 1, 2, 3, 4, 5), title="smooth",
    ),
    Case(
        "GroupQueryAttention", (*ONE, None, None, i32(3), i32(4), None, None, None, f(1, 1, 4, 4), f(4)), 3,
        dict(num_heads=4, kv_num_heads=2), (0, 1, 2), title="sink",
    ),
    Case("MatMulIntegerToFloat", (u8(3, 8), i8(8, 5), s(0.02), f(5), z(100), i8(5), f(5)), tolerance=1e-4),
    *(
        Case(
            "MatMulNBits", (f(3, k), u8(6, -(-k // 16), 16 * bits // 8), f(6, -(-k // 16), scale=0.1), zeros, None, bias), 1,
            dict(K=k, N=6, bits=bits, block_size=16), title=f"{bits}-{k}-{what}", tolerance=1e-4,
        )
        for bits, k, zeros, bias, what in (
            (4, 32, None, None, "plain"), (4, 40, u8(6, 2), None, "zeros"), (4, 40, None, f(6), "bias"),
            (8, 32, None, None, "plain"), (8, 40, u8(6, 3), None, "zeros"), (4, 48, f(6, 3, scale=9), None, "floats"),
            (2, 32, None, None, "plain"),
        )
    ),
    Case("MultiHeadAttention", tuple(QKV), attributes=dict(num_heads=4), given=(0, 1, 2)),
    Case("MultiHeadAttention", (*QKV, f(48)), attributes=dict(num_heads=4), given=(0, 1, 2), title="bias"),
    Case("MultiHeadAttention", (*QKV, None, MASK), 1, dict(num_heads=4), (0, 1, 2, 4), title="mask"),
    Case("MultiHeadAttention", (*QKV, None, i32(3, 4)), 1, dict(num_heads=4), (0, 1, 2), title="lengths"),
    Case(
        "MultiHeadAttention", (*QKV, None, None, f(1, 4, 5, 5)), 1, dict(num_heads=4, unidirectional=1), (0, 1, 2, 5),
        title="causal",
    ),
    Case(
        "MultiHeadAttention", (*QKV, None, None, None, *PAST), 3, dict(num_heads=4, scale=0.7), (0, 1, 2, 6, 7), title="past"
    ),
    Case("MultiHeadAttention", tuple(QKV), 3, dict(num_heads=4), (0, 1, 2), title="present"),
    Case(
        "MultiHeadAttention", (QKV[0], f(2, 4, 7, 4), f(2, 4, 7, 4)), 1, dict(num_heads=4), (0, 1, 2), title="cross",
    ),
    Case("MultiHeadAttention", (f(2, 5, 4, 3, 4),), 1, dict(num_heads=4), formula=packed_attention(4), title="packed"),
    Case(
        "MultiHeadAttention", (QKV[0], f(2, 5, 4, 2, 4)), 1, dict(num_heads=4), (0, 1), formula=packed_attention(4),
        title="packed-keys",
    ),
    Case(
        "NhwcConv", (CHANNELS, f(6, 3, 3, 8), f(6)), 1, dict(pads=[1, 1, 1, 1]),
        formula=lambda x, w, b: np.array(
            [[[[np.sum(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))[n, i : i + 3, j : j + 3] * w[m]) + b[m]
                for m in range(6)] for j in range(5)] for i in range(4)] for n in range(2)], np.float32,
        ),
    ),
    Case("QAttention", (QIN, QW, f(24), s(0.02), s(0.01), None, z(120), z(3, np.int8)), 1, dict(num_heads=2), tolerance=1e-4),
    Case(
        "QAttention", (QIN, QW, f(24), s(0.02), s(0.01), i32(3, 5), z(120), z(3, np.int8)), 1, dict(num_heads=2),
        tolerance=1e-4, title="lengths",
    ),
    Case(
        "QAttention", (QIN, QW, f(24), s(0.02), f(24, scale=0.01), None, z(120), i8(24), f(2, 2, 2, 3, 4)), 2,
        dict(num_heads=2, unidirectional=1), (0, 8), tolerance=1e-4, title="past",
    ),
    Case("RotaryEmbedding", (f(2, 5, 24), PLACES, COS, SIN), given=(0, 1)),
    Case("RotaryEmbedding", (f(2, 5, 24), np.array([3]), COS, SIN), 1, dict(interleaved=1), (0, 1), title="interleaved"),
    Case("RotaryEmbedding", (f(2, 3, 5, 8), PLACES, COS, SIN), given=(0, 1), title="four"),
    Case(
        "RotaryEmbedding", (f(2, 5, 36), PLACES, COS, SIN), 1, dict(num_heads=3, rotary_embedding_dim=8), (0, 1), title="part"
    ),
    Case("SkipLayerNormalization", (X3, SKIP, GAMMA, BETA, BIAS), 4, dict(epsilon=1e-5), (0, 1), skip=(1, 2)),
    Case("SkipLayerNormalization", (X3, SKIP, GAMMA, BETA), given=(0, 1), title="plain"),
    Case("SkipLayerNormalization", (X3, SKIP[0], GAMMA, BETA), given=(0, 1), title="broadcast"),
    Case("SkipSimplifiedLayerNormalization", (X3, SKIP, GAMMA, BIAS), 4, dict(epsilon=1e-5), (0, 1), skip=(1, 2)),
    Case("SkipSimplifiedLayerNormalization", (X3, SKIP, GAMMA), given=(0, 1), title="plain"),
    Case("SimplifiedLayerNormalization", (X3, GAMMA), attributes=dict(epsilon=1e-5)),
    Case("FusedConv", (f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)), 1, dict(activation="Relu", pads=[1, 1, 1, 1])),
    Case("FusedConv", (f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 4, 4)), 1, dict(activation="Relu"), (0, 3), title="sum"),
    Case(
        "FusedConv", (f(1, 3, 6, 6), f(4, 3, 3, 3)), 1, dict(activation="Clip", activation_params=[-0.5, 0.5]), title="clip"
    ),
    Case(
        "FusedConv", (f(1, 3, 6, 6), f(4, 3, 3, 3)), 1, dict(activation="HardSigmoid", activation_params=[0.3, 0.4]),
        title="hard",
    ),
    *(
        Case(
            "GatherBlockQuantized", (u8(9, 16), np.array([[1, 8], [-1, 0]]), f(9, blocks), zeros), 1,
            dict(bits=bits, block_size=16, quantize_axis=1), (1,), title=f"{bits}-{zeros is not None}",
        )
        for bits, blocks, zeros in ((4, 2, None), (4, 2, u8(9, 1)), (8, 1, None), (8, 1, u8(9, 1)))
    ),
    Case("QLinearAdd", (u8(3, 4), s(0.02), z(7), u8(4), s(0.05), z(100), s(0.04), z(30)), given=(0, 3)),
    Case("QLinearMul", (u8(3, 40), s(0.02), z(7), u8(40), s(0.05), z(100), s(0.4), z(30)), given=(0, 3)),
    Case(
        "QLinearMul", (i8(3, 40), s(0.02), z(4, np.int8), i8(3, 40), s(0.05), z(-9, np.int8), s(0.4)), given=(0, 3),
        title="signed",
    ),
    *(
        Case(
            "QGemm", (u8(3, 8), s(0.02), z(100), i8(8, 5), scale, zero, c, *y), 1, dict(alpha=alpha), title=title,
            tolerance=1e-4,
        )
        for scale, zero, c, y, alpha, title in (
            (s(0.03), z(3, np.int8), None, (s(0.1), z(128)), 1.0, "plain"),
            (s(0.03), z(3, np.int8), R.integers(-999, 999, 5).astype(np.int32), (s(0.1), z(128)), 1.0, "bias"),
            (f(5, scale=0.03), i8(5), R.integers(-999, 999, (3, 5)).astype(np.int32), (s(0.1), z(128)), 0.5, "columns"),
            (s(0.03), z(3, np.int8), None, (), 1.0, "float"),
            (s(0.03), z(3, np.int8), R.integers(-999, 999, 5).astype(np.int32), (), 1.0, "float-bias"),
        )
    ),
    Case("QLinearSoftmax", (u8(3, 10), s(0.03), z(100), s(1 / 256), z(0)), attributes=dict(opset=13, axis=-1)),
    Case("QLinearSoftmax", (u8(3, 2, 5), s(0.03), z(100), s(1 / 256), z(0)), 1, dict(opset=11, axis=1), title="old"),
    Case("QLinearLeakyRelu", (u8(3, 40), s(0.03), z(100), s(0.02), z(40)), attributes=dict(alpha=0.1)),
    Case("QLinearSigmoid", (i8(3, 40), s(0.03), z(10, np.int8), s(1 / 256), z(-128, np.int8))),
    Case(
        "QLinearWhere",
        (R.integers(0, 2, (3, 4)).astype(bool), u8(3, 4), s(0.03), z(100), u8(4), s(0.02), z(3), s(0.025), z(80)),
        given=(0, 1, 4),
    ),
    Case(
        "QLinearReduceMean", (u8(2, 3, 5), s(0.03), z(100), s(0.0117), z(90)), 1, dict(axes=[1], keepdims=0),
        formula=lambda x, sx, zx, sy, zy: np.rint((x.astype(float) - zx).mean(1) * sx / sy + zy).clip(0, 255).astype(np.uint8),
    ),
    Case("QLinearConcat", (s(0.04), z(8), u8(2, 3), s(0.02), z(10), u8(2, 4), s(0.05), z(9)), 1, dict(axis=1), (2, 5)),
    Case("QLinearAveragePool", (u8(1, 2, 6, 6), s(0.03), z(10), s(0.0217), z(9)), 1, dict(kernel_shape=[3, 3], strides=[2, 2])),
    Case(
        "QLinearAveragePool", (u8(1, 6, 6, 2), s(0.03), z(10), s(0.0217), z(9)), 1,
        dict(kernel_shape=[2, 2], pads=[1, 1, 1, 1], channels_last=1), title="last",
    ),
    Case("QLinearGlobalAveragePool", (u8(1, 6, 6, 2), s(0.03), z(10), s(0.0217), z(9)), 1, dict(channels_last=1)),
    Case(
        "QLinearConv", (u8(1, 6, 6, 2), s(0.03), z(10), i8(4, 2, 3, 3), s(0.02), z(0, np.int8), s(0.1), z(9)), 1,
        dict(channels_last=1),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_beside_onnxruntime(case: Case) -> None:
    found, wanted = results(case)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance * max(1, np.abs(theirs).max()))
        else:
            apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
            assert apart.max(initial=0) <= (1 if theirs.dtype.itemsize == 1 else 0)
            assert np.count_nonzero(apart) <= 0.05 * apart.size + 1  # close to ties
