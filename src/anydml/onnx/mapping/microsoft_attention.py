"""onnxruntime's attentions: MultiHeadAttention, Attention, QAttention and GroupQueryAttention.

The first three are MULTIHEAD_ATTENTION1, whose mask adds mask_filter_value; causal ones have terms of -infinity as well, where
onnxruntime has the least float, which gives the same weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.attending import after, attend, both, heads_first, places, spelled, terms, up_to
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.mapping.attention import INT32
from anydml.onnx.mapping.quantised import matmul_integer_to_float
from anydml.onnx.mapping.rotary import at_places, counted, rotated
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, converted, expand, number, part, reshape, symbolic, transpose


class Mask(NamedTuple):
    """A mask as MULTIHEAD_ATTENTION1 takes it, and its type."""

    values: Value = None
    kind: str = "NONE"


def mask_of(mask: Value, batch: int, keys: int, queries: int = 0) -> Mask:
    """onnxruntime's mask, whose kind follows from its sizes.

    {batch} are lengths of keys; {2 * batch} their ends and starts; {3 * batch + 2} lengths, starts and ends; {batch, keys} has
    an element for each key, {batch, queries, keys} for each query and key. {batch or 1, 1} is ignored. In a mask {batch, 1,
    length, length}, the rows of the queries are the last ones up to the number of keys.
    """
    if mask is None:
        return Mask()
    if mask.ndim == 1:
        kinds = {batch: "KEY_SEQUENCE_LENGTH", 2 * batch: "KEY_SEQUENCE_END_START"}
        kinds[3 * batch + 2] = "KEY_QUERY_SEQUENCE_LENGTH_START_END"
        if (kind := kinds.get(mask.shape[0])) is None:
            raise Refused(f"its mask has {mask.shape[0]} elements, which do not fit a batch of {batch}", INVALID)
        rows = 2 if kind == "KEY_SEQUENCE_END_START" else 1
        return Mask(reshape(mask, (rows, mask.shape[0] // rows)), kind)
    if mask.ndim == 2 and mask.shape[0] in (1, batch) and mask.shape[1] == 1 and (keys > 1 or mask.shape[0] != batch):
        return Mask()
    if mask.ndim == 4 and mask.shape[1] == 1 and mask.shape[2] == mask.shape[3] >= keys >= queries > 0:
        return Mask(part(mask, [slice(None), slice(None), slice(keys - queries, keys), slice(0, keys)]), "BOOLEAN")
    if mask.ndim == 4 or mask.shape[-1] != keys:
        raise Refused(f"its mask has sizes {tuple(mask.shape)}, which do not fit {keys} keys", NOT_YET)
    sizes = (mask.shape[0], 1, mask.shape[1] if mask.ndim == 3 else 1, keys)
    return Mask(reshape(mask, sizes), "BOOLEAN")


def _causal(n: Node, bias: Value, queries: int, keys: int, dtype: Any) -> Value:
    """The terms of the scores. If the attention is causal, they are -infinity for keys after the query; queries are last."""
    if not n.get("unidirectional", 0):
        return bias
    return terms(bias, up_to(keys - queries, places(queries, keys)), dtype)


def _refuse_names(n: Node, first: int, *names: str) -> None:
    """Raise Refused if one of these inputs is present. first: the index of the first."""
    for i, name in enumerate(names, first):
        if i < len(n.inputs) and n.inputs[i]:
            raise Refused(f"it has {name}", NOT_YET)


def multi_head_attention(
    n: Node, query: Value, key: Value = None, value: Value = None, bias: Value = None, mask: Value = None,
    term: Value = None, past_key: Value = None, past_value: Value = None, *others: Value,
) -> Any:  # fmt: skip
    """onnxruntime's MultiHeadAttention: MULTIHEAD_ATTENTION1 with biases, mask and past.

    Keys and values {batch, heads, length, size} include the past, and have no bias. Buffers that past and present share are
    refused, and so is an output of weights.
    """
    _refuse_names(n, 8, "past_sequence_length", "cache_indirection")
    if n.wants(3):
        raise Refused("its weights are an output", NOT_YET)
    heads = n.get("num_heads", 0)
    batch, queries = query.shape[0], query.shape[1]
    past = past_key is not None and 0 not in past_key.shape
    given: dict[str, Value] = dict(bias=bias)
    if query.ndim == 5:
        given["stacked_query_key_value"], new = query, query.shape[1]
    elif key is not None and key.ndim == 5:
        given |= dict(query=query, stacked_key_value=key)
        new = key.shape[1]
    elif key is not None and key.ndim == 4:
        if value is None or value.ndim != 4 or past:
            raise Refused(f"keys of sizes {tuple(key.shape)} do not fit its values and past", INVALID)
        given |= dict(query=query, past_key=key, past_value=value)
        new = key.shape[2]
        if bias is not None:  # a bias for queries only: MULTIHEAD_ATTENTION1's bias also has parts for new keys and values
            own = part(bias, [slice(0, query.shape[2])])
            given |= dict(query=dml.element_wise_add(query, own), bias=None)
    elif key is None or value is None:
        raise Refused("it has no keys or no values", INVALID)
    else:
        given |= dict(query=query, key=key, value=value)
        new = key.shape[1]
    if past:
        given |= dict(past_key=past_key, past_value=past_value)
        new += past_key.shape[2]
    found = mask_of(mask, batch, new)
    dtype = query.dtype
    bias_of_scores = _causal(n, term, queries, new, dtype)
    made = dml.multihead_attention1(
        **given, mask=found.values, mask_type=found.kind, scale=n.get("scale"),
        mask_filter_value=n.get("mask_filter_value", -10000.0), query_head_count=heads, key_value_head_count=heads,
        relative_position_bias=None if bias_of_scores is None else expand(bias_of_scores, (batch, heads, queries, new)),
    )  # fmt: skip
    return list(made)


def _parts(n: Node, together: Value) -> list[Value]:
    """Queries, keys and values {batch, heads, length, size}, which are side by side in one tensor."""
    heads, width = n.get("num_heads", 0), together.shape[2]
    sizes = [*n.get("qkv_hidden_sizes", (width // 3,) * 3)]
    if len(sizes) != 3 or sum(sizes) != width or min(sizes) < 1:
        raise Refused(f"{width} elements are not queries, keys and values of sizes {tuple(sizes)}", INVALID)
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    return [
        heads_first(part(together, [slice(None), slice(None), slice(at, at + size)]), heads)
        for at, size in zip(starts, sizes, strict=True)
    ]


def _attended(n: Node, together: Value, mask: Value, past: Value, term: Value) -> list[Value]:
    """The attention of queries, keys and values in one tensor, and its present {2, batch, heads, length, size}."""
    if n.get("do_rotary", 0):
        raise Refused("it has do_rotary", NOT_YET)
    if n.get("past_present_share_buffer", 0):
        raise Refused("its past and present share a buffer", NOT_YET)
    q, k, v = _parts(n, together)
    batch, heads, queries, _ = q.shape
    present = None
    if n.wants(1) or past is not None:
        present = dml.join([reshape(x, (1, *x.shape)) for x in (k, v)], axis=0)
        if past is not None and 0 not in past.shape:
            present = dml.join([past, present], axis=3)
            k, v = (reshape(part(present, [slice(i, i + 1)] + [slice(None)] * 4), present.shape[1:]) for i in (0, 1))
    keys = k.shape[2]
    found = mask_of(mask, batch, keys, queries)
    bias = _causal(n, term, queries, keys, q.dtype)
    made = dml.multihead_attention1(
        reshape(transpose(q, (0, 2, 1, 3)), (batch, queries, heads * q.shape[3])), past_key=k, past_value=v,
        mask=found.values, mask_type=found.kind, scale=n.get("scale"),
        mask_filter_value=n.get("mask_filter_value", -10000.0), query_head_count=heads, key_value_head_count=heads,
        relative_position_bias=None if bias is None else expand(bias, (batch, heads, queries, keys)),
    )  # fmt: skip
    return [made.output, present]


def attention(
    n: Node, x: Value, weights: Value, bias: Value = None, mask: Value = None, past: Value = None, term: Value = None,
    *others: Value,
) -> list[Value]:  # fmt: skip
    """onnxruntime's Attention: GEMM computes queries, keys and values with their biases, MULTIHEAD_ATTENTION1 the rest."""
    _refuse_names(n, 6, "past_sequence_length")
    batch, length, width = x.shape
    together = weights.shape[-1]
    wide = None if bias is None else expand(bias, (batch * length, together))
    made = dml.gemm(reshape(x, (batch * length, width)), weights, wide)
    return _attended(n, reshape(made, (batch, length, together)), mask, past, term)


def q_attention(
    n: Node, x: Value, weights: Value, bias: Value, sx: Value, sw: Value, mask: Value = None, zx: Value = None,
    zw: Value = None, past: Value = None,
) -> list[Value]:  # fmt: skip
    """onnxruntime's QAttention: MATRIX_MULTIPLY_INTEGER_TO_FLOAT computes queries, keys and values; the rest is Attention's."""
    return _attended(n, matmul_integer_to_float(n, x, weights, sx, sw, zx, zw, bias), mask, past, None)


def group_query_attention(
    n: Node, query: Value, key: Value, value: Value, past_key: Value, past_value: Value, lengths: Value, total: Value,
    cosines: Value = None, sines: Value = None, at: Value = None, term: Value = None, sink: Value = None, *others: Value,
) -> Any:  # fmt: skip
    """onnxruntime's GroupQueryAttention: causal, with fewer heads of keys than of queries, and with rotary embeddings.

    lengths: for each batch, the number of valid keys, new ones included, minus 1. New keys follow the valid past ones; in the
    first step, when all valid keys are new, there are no past ones. This is MULTIHEAD_ATTENTION1 with PastSequenceLengths. A
    window excludes keys that are further back. Softcap, smooth softmax and sinks are composed of products and a softmax.
    Queries after the end of a batch's sequence are padding; their results are undefined. In the present, elements after the
    valid keys are those of the past if it has room for the new keys, which then replace rows of it, and else 0.
    """
    _refuse_names(n, 12, "k_scale", "v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens")
    if n.get("sliding_window_cache", 0) or n.get("qk_output", 0):
        raise Refused("it has sliding_window_cache or qk_output", NOT_YET)
    heads, own = n.get("num_heads", 0), n.get("kv_num_heads", 0)
    if heads < 1 or own < 1 or heads % own:
        raise Refused(f"{heads} heads of queries are not divisible by {own} heads of keys", INVALID)
    batch, length, width = query.shape
    if key is None:
        size = width // (heads + 2 * own)
        ends = [0, heads * size, (heads + own) * size, (heads + 2 * own) * size]
        query, key, value = (part(query, [slice(None), slice(None), slice(a, b)]) for a, b in itertools.pairwise(ends))
    size = query.shape[2] // heads
    every = int(number(total))
    past = None if past_key is None or 0 in past_key.shape else past_key.shape[2]
    first = past is None or every == length
    before = np.zeros(batch, np.int32) if first else _less(converted(lengths, INT32), length - 1)
    before = reshape(before, (batch,))
    if n.get("do_rotary", 0):
        if cosines is None or sines is None:
            raise Refused("it has do_rotary, but no tables of cosines and sines", INVALID)
        found = _placed(before, length) if at is None else counted(at, length) if at.ndim < 2 else at
        cosine, sine = at_places(cosines, found), at_places(sines, found)
        beside = bool(n.get("rotary_interleaved", 0))
        query, key = (
            reshape(rotated(reshape(x, (batch, length, count, size)), cosine, sine, beside), x.shape)
            for x, count in ((query, heads), (key, own))
        )
    seen = None
    special = n.get("softcap", 0.0) or n.get("smooth_softmax", -1) == 1 or sink is not None
    causal = bool(n.get("causal", 1))
    fixed = past is not None and every <= past  # a cache of fixed length, whose unused rows are after the valid ones
    composed = past is None or special or not causal
    keys = (0 if fixed and composed else length) + (past or 0)
    if fixed and not first:
        before = _not_negative(before)
    window, behind = n.get("local_window_size", -1), places(length, keys)
    offset = reshape(before, (batch, 1, 1, 1))
    if window > 0:
        seen = after(_less(offset, window), behind)
    if composed:
        k, v = (heads_first(x, own) for x in (key, value))
        if past is not None:
            more = _replaced if fixed else _appended
            k, v = (more(p, x, before) for p, x in ((past_key, k), (past_value, v)))
        seen = both(seen, up_to(offset if causal else _less(offset, 1 - length), behind if causal else behind[:, :, :1]))
        wide = terms(_term(term, keys), seen, query.dtype)
        four = heads_first(query, heads)
        if special:
            none = np.zeros((), query.dtype) if sink is None else sink
            sinks = none if n.get("smooth_softmax", -1) == 1 or sink is not None else None
            made = spelled(four, k, v, n.get("scale") or None, wide, n.get("softcap", 0.0), sinks)[0]
        else:
            made = attend(four, k, v, n.get("scale") or None, wide)
        return [made, *(_of_length(x, max(past or 0, every)) for x in (k, v))]
    bias = terms(_term(term, keys), seen, query.dtype)
    made, k, v = dml.multihead_attention1(
        query, key, value, past_key=past_key, past_value=past_value, past_sequence_lengths=before,
        scale=n.get("scale") or None, query_head_count=heads, key_value_head_count=own,
        relative_position_bias=None if bias is None else expand(bias, (batch, heads, length, keys)),
    )  # fmt: skip
    if fixed:
        return [made, *(_replaced(p, heads_first(x, own), before) for p, x in ((past_key, key), (past_value, value)))]
    return [made, *(_of_length(x, max(past or 0, every)) for x in (k, v))]


def _less(x: Value, by: int) -> Value:
    """INT32 numbers minus an integer."""
    if symbolic(x):
        return dml.element_wise_subtract(x, np.array(by, np.int32))
    return (x - np.int32(by)).astype(np.int32)


def _not_negative(x: Value) -> Value:
    """INT32 numbers, or 0 where they are below."""
    return dml.element_wise_max(x, np.zeros((1,) * x.ndim, np.int32)) if symbolic(x) else np.maximum(x, 0)


def _replaced(cache: Value, new: Value, before: Value) -> Value:
    """A cache of keys or values, with the new ones in place of the rows that follow the valid ones."""
    batch, _, length, _ = new.shape
    places = reshape(_placed(before, length), (batch, 1, length, 1))
    return dml.scatter_elements(cache, expand(places, tuple(new.shape)), new, axis=2)


def _placed(before: Value, length: int) -> Value:
    """The positions of new keys, {batch, length}."""
    own = np.arange(length, dtype=np.int32)[None]
    if symbolic(before):
        return dml.element_wise_add(reshape(before, (before.shape[0], 1)), own)
    return before[:, None] + own


def _appended(past: Value, new: Value, before: Value) -> Value:
    """The valid past, followed by the new keys or values and zeros: MULTIHEAD_ATTENTION1's present."""
    batch, own, length, size = new.shape
    flat = reshape(transpose(new, (0, 2, 1, 3)), (batch, length, own * size))
    made = dml.multihead_attention1(
        flat, flat, flat, past_key=past, past_value=past, past_sequence_lengths=before, query_head_count=own,
        key_value_head_count=own,
    )  # fmt: skip
    return made.output_present_key


def _term(term: Value, keys: int) -> Value:
    """The terms of scores for all keys. Those that are missing are 0 and have no effect."""
    if term is None or term.shape[3] >= keys:
        return term if term is None else part(term, [slice(None)] * 3 + [slice(0, keys)])
    return dml.padding1(
        term, "CONSTANT", padding_value_data_type=term.dtype, padding_value=0.0, start_padding=(0, 0, 0, 0),
        end_padding=(0, 0, 0, keys - term.shape[3]),
    )  # fmt: skip


def _of_length(x: Value, length: int) -> Value:
    """The first `length` keys, followed by zeros if there are fewer."""
    if x.shape[2] >= length:
        return part(x, [slice(None), slice(None), slice(0, length)])
    return dml.padding1(
        x, "CONSTANT", padding_value_data_type=x.dtype, padding_value=0.0, start_padding=(0, 0, 0, 0),
        end_padding=(0, 0, length - x.shape[2], 0),
    )  # fmt: skip


TABLE: dict[str, Callable[..., Any]] = {
    "com.microsoft.Attention": attention,
    "com.microsoft.GroupQueryAttention": group_query_attention,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.QAttention": q_attention,
}
