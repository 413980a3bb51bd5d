"""ONNX's Attention, and functions for onnxruntime's attentions too.

An attention is one MULTIHEAD_ATTENTION1: scores, masks, softmax and the sum of values are one formula, rounded once. The score
of a key that a query must not see has a term of -infinity. MULTIHEAD_ATTENTION1 has no softcap between scores and masks, no
sink in the softmax, and no output of scores: these are composed of products and a softmax, each of which rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.attending import after, attend_or_zero, both, heads_first, joined, places, terms, up_to
from anydml.onnx.errors import UseBody
from anydml.onnx.nodes import Node
from anydml.onnx.types import BOOL
from anydml.onnx.values import Value, converted, padded, reshape, symbolic, transpose

INT32 = np.dtype(np.int32)


def attention(
    n: Node, q: Value, k: Value, v: Value, mask: Value = None, past_k: Value = None, past_v: Value = None, lengths: Value = None
) -> Any:
    """ONNX's Attention. The scale multiplies sums of products, masks are terms of the scores; a query that sees no key gives 0.

    The positions of queries follow the past keys, or are the last of the keys that `lengths` counts. A mask that is shorter
    than the keys excludes the rest. With a softcap, or scores as an output, ONNX's own definition is used.
    """
    if n.get("softcap", 0.0) or n.wants(3):
        raise UseBody
    flat = q.ndim == 3
    if flat:
        count, own = n.get("q_num_heads", 0), n.get("kv_num_heads", 0)
        q, k, v = heads_first(q, count), heads_first(k, own), heads_first(v, own)
    k, v = joined(past_k, k), joined(past_v, v)
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    behind = places(queries, keys)
    offset: Any = 0 if past_k is None else past_k.shape[2]
    seen = bias = None
    if mask is not None:
        mask = padded(_lengthened(mask, keys, n.types[3] == BOOL), 4)
        seen, bias = (mask, None) if n.types[3] == BOOL else (None, converted(mask, q.dtype))
    if lengths is not None:
        counts = reshape(converted(lengths, INT32), (batch, 1, 1, 1))
        offset = _difference(counts, queries)
        seen = both(seen, after_all(np.arange(keys, dtype=np.int32), counts))
    if n.get("is_causal", 0):
        seen = both(seen, up_to(offset, behind))
    if (left := n.get("left_window_size", -1)) >= 0:
        seen = both(seen, after(_difference(offset, left + 1), behind))
    if (right := n.get("right_window_size", -1)) >= 0:
        seen = both(seen, up_to(_difference(offset, -right), behind))
    made = attend_or_zero(q, k, v, n.get("scale"), terms(bias, seen, q.dtype))
    if not flat:
        made = transpose(reshape(made, (batch, queries, heads, v.shape[3])), (0, 2, 1, 3))
    return made, k, v


def after_all(places_of_keys: Any, counts: Value) -> Value:
    """Whether a key is one of the first `counts` keys."""
    if symbolic(counts):
        return dml.element_wise_logical_less_than(places_of_keys[None, None, None], counts)
    return (places_of_keys < counts).view(np.uint8)


def _difference(a: Value, b: int) -> Value:
    return dml.element_wise_subtract(a, np.array(b, np.int32)) if symbolic(a) else a - b


def _lengthened(mask: Value, keys: int, truth: bool) -> Value:
    """A mask extended to all keys; the keys that it lacks are excluded."""
    lacking = keys - mask.shape[-1]
    if lacking <= 0 or mask.shape[-1] == 1:
        return mask
    return dml.padding1(
        mask, "CONSTANT", padding_value_data_type=mask.dtype, padding_value=0 if truth else float("-inf"),
        start_padding=[0] * mask.ndim, end_padding=[*[0] * (mask.ndim - 1), lacking],
    )  # fmt: skip


TABLE: dict[str, Callable[..., Any]] = {"Attention": attention}
