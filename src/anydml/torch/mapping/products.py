"""Matrix products, by GEMM, and attention, by MULTIHEAD_ATTENTION1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from anydml.functional import functions as dml
from anydml.onnx.attending import attend, attend_or_zero, places, terms
from anydml.onnx.errors import NOT_YET, Refused
from anydml.onnx.values import Value, expand, is_float, padded, part, reshape, transpose
from anydml.torch.mapping.common import Mapping
from anydml.torch.mapping.normalization import over_last
from anydml.torch.read import Node


def product(a: Value, b: Value, c: Value = None, alpha: Any = 1, beta: Any = 1, transposed: bool = False) -> Value:
    """GEMM of matrices, or of batches of them; c broadcasts to the result. transposed: b has its rows and columns exchanged."""
    if not is_float(a.dtype):
        raise Refused(f"it multiplies matrices of {a.dtype.name}, and GEMM takes floats", NOT_YET)
    if 0 in (*a.shape, *b.shape):
        return np.zeros((*a.shape[:-1], b.shape[-2 if transposed else -1]), a.dtype)
    batch = (*a.shape[:-2],)
    sizes = (*batch, a.shape[-2], b.shape[-2 if transposed else -1])
    wide = None if c is None else expand(c, sizes)

    def matrices(x: Value) -> Value:
        return reshape(x, (math.prod(batch), *x.shape[-2:])) if x.ndim > 3 else x

    transform = "TRANSPOSE" if transposed else "NONE"
    made = dml.gemm(matrices(a), matrices(b), None if wide is None else matrices(wide), "NONE", transform, alpha, beta)
    return reshape(made, sizes)


def linear(n: Node, x: Value, weight: Value, bias: Value = None) -> Value:
    """GEMM of all rows with the weight, whose rows are the outputs', and the bias: one rounding."""
    rows = reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    made = product(rows, weight, None if bias is None else reshape(bias, (1, bias.size)), transposed=True)
    return reshape(made, (*x.shape[:-1], weight.shape[0]) if weight.ndim > 1 else x.shape[:-1])


def matmul(n: Node, a: Value, b: Value) -> Value:
    """GEMM of the last two dimensions; the others are broadcast as in np.matmul."""
    left, right = (reshape(a, (1, *a.shape)) if a.ndim == 1 else a), (reshape(b, (*b.shape, 1)) if b.ndim == 1 else b)
    batch = np.broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    sizes = (*batch, left.shape[-2], right.shape[-1])
    if math.prod(right.shape[:-2]) == 1 and tuple(left.shape[:-2]) == batch:  # all rows multiply one matrix
        rows = reshape(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        made = product(rows, reshape(right, right.shape[-2:]))
    else:
        made = product(*(expand(x, (*batch, *x.shape[-2:])) for x in (left, right)))
    return reshape(made, (*sizes[:-2], *(() if a.ndim == 1 else sizes[-2:-1]), *(() if b.ndim == 1 else sizes[-1:])))


def mm(n: Node, a: Value, b: Value) -> Value:
    return product(a, b)


def added(n: Node, c: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """GEMM with a term; a beta of 0 leaves it out, as torch documents."""
    return product(a, b, c if beta else None, alpha, beta)


def dot(n: Node, a: Value, b: Value) -> Value:
    return reshape(product(reshape(a, (1, a.size)), reshape(b, (b.size, 1))), ())


def mv(n: Node, a: Value, b: Value) -> Value:
    return reshape(product(a, reshape(b, (b.size, 1))), (a.shape[0],))


def attention(
    n: Node, q: Value, k: Value, v: Value, mask: Value = None, dropout: Any = 0.0, causal: bool = False, *,
    scale: Any = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """MULTIHEAD_ATTENTION1: one rounding. Masks are terms of the scores; a query that sees no key gives 0.

    In torch a causal mask begins at the first key, however many there are.
    """
    if dropout:
        raise Refused("it drops weights at random, in training mode; module.eval() ends it")
    lead, queries = q.shape[:-3], q.shape[-2]
    if q.ndim < 3 or 0 in (*q.shape, *k.shape):
        raise Refused(f"its queries have sizes {tuple(q.shape)}, and its keys {tuple(k.shape)}", NOT_YET)
    q, k, v = (reshape(expand(x, (*lead, *x.shape[-3:])), (math.prod(lead), *x.shape[-3:])) for x in (q, k, v))
    seen = bias = None
    if causal:
        seen = (places(queries, k.shape[2]) <= 0).view(np.uint8)
    if mask is not None:
        wide = padded(mask, 4)
        if mask.ndim > 4:
            wide = reshape(expand(mask, (*lead, *mask.shape[-3:])), (math.prod(lead), *mask.shape[-3:]))
        seen, bias = (wide, None) if n.types["attn_mask"] is torch.bool else (None, wide)
    term = terms(bias, seen, q.dtype)
    factor = None if scale is None else float(scale)
    made = attend(q, k, v, factor) if term is None else attend_or_zero(q, k, v, factor, term)
    batch, heads = q.shape[:2]
    result = transpose(reshape(made, (batch, queries, heads, v.shape[3])), (0, 2, 1, 3))
    return reshape(result, (*lead, heads, queries, v.shape[3]))


def _heads(x: Value, heads: int) -> Value:
    """{batch, length, heads * size} as {batch, heads, length, size}."""
    batch, length, width = x.shape
    return transpose(reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def _self_attention(
    n: Node, x: Value, heads: int, weight: Value, bias: Value, out_weight: Value, out_bias: Value, mask: Value, kind: Any
) -> Value:  # fmt: skip
    """Attention of a sequence {batch, length, width} to itself, as torch.nn.MultiheadAttention composes it.

    kind: 0 for a mask of queries and keys, 1 for one of the keys of each batch; elements that are true are not seen.
    """
    if mask is not None:
        if n.types["mask"] is not torch.bool or kind not in (0, 1):
            raise Refused(f"it has a mask of kind {kind} and of {n.types['mask']}", NOT_YET)
        wide = reshape(mask, (mask.shape[0], 1, 1, mask.shape[-1]) if kind else (1, 1, *mask.shape[-2:]))
        mask = dml.element_wise_logical_not(wide)
    width = x.shape[-1]
    whole = linear(n, x, weight, bias)
    q, k, v = (_heads(part(whole, [slice(None), slice(None), slice(i * width, (i + 1) * width)]), heads) for i in range(3))
    term = terms(None, mask, x.dtype)
    made = attend(q, k, v, None) if term is None else attend_or_zero(q, k, v, None, term)
    return linear(n, made, out_weight, out_bias)


def encoder_layer(
    n: Node, x: Value, width: int, heads: int, weight: Value, bias: Value, out_weight: Value, out_bias: Value, use_gelu: bool,
    norm_first: bool, eps: float, weight_1: Value, bias_1: Value, weight_2: Value, bias_2: Value, first: Value,
    first_bias: Value, second: Value, second_bias: Value, mask: Value = None, kind: Any = None,
) -> Value:  # fmt: skip
    """A layer of torch.nn.TransformerEncoder: attention, two linear maps, two normalisations and two sums, each rounded."""

    def attended(y: Value) -> Value:
        return _self_attention(n, y, heads, weight, bias, out_weight, out_bias, mask, kind)

    def fed(y: Value) -> Value:
        inner = linear(n, y, first, first_bias)
        return linear(n, dml.activation_gelu(inner) if use_gelu else dml.activation_relu(inner), second, second_bias)

    def normal(y: Value, scale: Value, shift: Value) -> Value:
        return over_last(y, 1, scale, shift, eps)

    add = dml.element_wise_add
    if norm_first:
        x = add(x, attended(normal(x, weight_1, bias_1)))
        return add(x, fed(normal(x, weight_2, bias_2)))
    x = normal(add(x, attended(x)), weight_1, bias_1)
    return normal(add(x, fed(x)), weight_2, bias_2)


def native_attention(
    n: Node, q: Value, k: Value, v: Value, width: int, heads: int, weight: Value, bias: Value, out_weight: Value,
    out_bias: Value, mask: Value = None, need_weights: bool = True, average: bool = True, kind: Any = None,
) -> Any:  # fmt: skip
    """torch.nn.MultiheadAttention of a sequence to itself, without its weights as a result."""
    if need_weights or q is not k or q is not v:
        raise Refused("its keys are not its queries, or its weights are a result", NOT_YET)
    return [_self_attention(n, q, heads, weight, bias, out_weight, out_bias, mask, kind), None]


TABLE: dict[str, Mapping] = {
    "aten._native_multi_head_attention.default": native_attention,
    "aten._transformer_encoder_layer_fwd.default": encoder_layer,
    "aten.addmm.default": added,
    "aten.addmv.default": lambda n, c, a, b, *, beta=1, alpha=1: reshape(
        added(n, reshape(expand(c, (a.shape[0],)), (a.shape[0], 1)), a, reshape(b, (b.size, 1)), beta=beta, alpha=alpha),
        (a.shape[0],),
    ),
    "aten.baddbmm.default": added,
    "aten.bmm.default": mm,
    "aten.dot.default": dot,
    "aten.linear.default": linear,
    "aten.matmul.default": matmul,
    "aten.mm.default": mm,
    "aten.mv.default": mv,
    "aten.scaled_dot_product_attention.default": attention,
}
