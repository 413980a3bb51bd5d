"""Attention as a MULTIHEAD_ATTENTION1, and composed of products and a softmax, for the mappings of several operators.

The score of a key that a query must not see has a term of -infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.values import Value, expand, known, part, reshape, symbolic, transpose


def heads_last(x: Value) -> Value:
    """Queries {batch, heads, length, size} as {batch, length, heads * size}."""
    batch, heads, length, size = x.shape
    return reshape(transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def heads_first(x: Value, heads: int) -> Value:
    """A tensor {batch, length, heads * size} as {batch, heads, length, size}."""
    batch, length, width = x.shape
    if heads < 1 or width % heads:
        raise Refused(f"{width} elements are not divisible by {heads} heads", INVALID)
    return transpose(reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def places(queries: int, keys: int) -> Any:
    """The position of each key minus that of each query, {1, 1, queries, keys}."""
    return (np.arange(keys, dtype=np.int32) - np.arange(queries, dtype=np.int32)[:, None])[None, None]


def up_to(offset: Value, behind: Value) -> Value:
    """Whether a key's position minus the query's, `behind`, is at most an offset."""
    if symbolic(offset):
        return dml.element_wise_logical_less_than_or_equal(behind, offset)
    return (behind <= offset).view(np.uint8)


def after(offset: Value, behind: Value) -> Value:
    """Whether a key's position minus the query's, `behind`, is above an offset."""
    if symbolic(offset):
        return dml.element_wise_logical_greater_than(behind, offset)
    return (behind > offset).view(np.uint8)


def both(a: Value, b: Value) -> Value:
    """Whether a query sees a key by both masks; None means all keys."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a & b
    return dml.element_wise_logical_and(a, b)


def terms(bias: Value, seen: Value, dtype: Any) -> Value:
    """The terms of scores: a bias if a query sees a key, else -infinity."""
    if seen is None:
        return bias
    low = np.array(-np.inf, dtype)
    if isinstance(seen, np.ndarray) and not symbolic(bias):
        return np.where(seen.astype(np.bool_), np.zeros((), dtype) if bias is None else bias, low)
    return dml.element_wise_if(seen, np.zeros((), dtype) if bias is None else bias, low)


def attend(q: Value, k: Value, v: Value, scale: float | None, term: Value = None) -> Value:
    """The attention of queries {batch, heads, length, size} to keys and values, as {batch, length, heads * size}.

    term: is added to the scores, and broadcasts to {batch, heads, queries, keys}.
    """
    batch, heads, queries, _ = q.shape
    wide = None if term is None else expand(term, (batch, heads, queries, k.shape[2]))
    found = dml.multihead_attention1(
        heads_last(q), past_key=k, past_value=v, relative_position_bias=wide, scale=scale,
        query_head_count=heads, key_value_head_count=k.shape[1],
    )  # fmt: skip
    return found.output


def spelled(
    q: Value, k: Value, v: Value, scale: float | None, term: Value = None, cap: float = 0.0, sink: Value = None
) -> tuple[Value, Value, Value]:
    """The same, composed of products and a softmax; also the scores, and their weights.

    cap: scores become cap * tanh(score / cap) before the term is added. sink: a score for each head, {heads} or {}, which takes
    part in the softmax and has no value.
    """
    batch, heads, queries, size = q.shape
    if k.shape[1] != heads:
        k, v = (_repeated(x, heads) for x in (k, v))
    scores = dml.gemm(q, k, trans_b="TRANSPOSE", alpha=size**-0.5 if scale is None else scale)
    if cap:
        scores = dml.activation_scaled_tanh(dml.element_wise_divide(scores, np.array(cap, q.dtype)), alpha=cap, beta=1.0)
    if term is not None:
        scores = dml.element_wise_add(scores, term)
    if sink is None:
        weights = dml.activation_softmax1(scores, axes=[3])
    else:
        column = expand(reshape(sink, (1, *sink.shape, 1, 1) if sink.ndim else (1, 1, 1, 1)), (batch, heads, queries, 1))
        together = dml.activation_softmax1(dml.join([scores, column], axis=3), axes=[3])
        weights = part(together, [slice(None)] * 3 + [slice(0, k.shape[2])])
    return heads_last(dml.gemm(weights, v)), scores, weights


def _repeated(x: Value, heads: int) -> Value:
    """Keys or values repeated so that there is one head for each head of queries."""
    batch, own, length, size = x.shape
    if heads % own:
        raise Refused(f"{heads} heads of queries are not divisible by {own} heads of keys", INVALID)
    wide = expand(reshape(x, (batch, own, 1, length, size)), (batch, own, heads // own, length, size))
    return reshape(wide, (batch, heads, length, size))


def joined(past: Value, new: Value) -> Value:
    """Past keys or values, followed by the new ones."""
    if past is None or 0 in past.shape:
        return new
    if isinstance(past, np.ndarray) and isinstance(new, np.ndarray):
        return np.concatenate((past, new), 2)
    return dml.join([past, new], axis=2)


def attend_or_zero(q: Value, k: Value, v: Value, scale: float | None, term: Value) -> Value:
    """The attention, and 0 for a query whose terms are all -infinity: its softmax would be NaN."""
    if term is None:
        return attend(q, k, v, scale)
    batch, heads, queries, _ = q.shape
    if isinstance(term, np.ndarray):
        some = (np.max(expand(term, (*term.shape[:-1], k.shape[2])), -1, keepdims=True) > -np.inf).view(np.uint8)
        if some.all():
            return attend(q, k, v, scale, term)
    else:
        highest = dml.reduce(term, "MAX", [3])
        some = dml.element_wise_logical_greater_than(highest, np.array(-np.inf, q.dtype))
    made = attend(q, k, v, scale, terms_or_none(some, term, q.dtype))
    by_query = transpose(expand(some, (batch, heads, queries, 1)), (0, 2, 1, 3))
    four = reshape(made, (batch, queries, heads, v.shape[3]))
    return reshape(dml.element_wise_if(by_query, four, np.zeros((), q.dtype)), made.shape)


def terms_or_none(some: Value, term: Value, dtype: Any) -> Value:
    """The terms of queries that see a key; for other queries 0."""
    if isinstance(some, np.ndarray):
        return np.where(some.astype(np.bool_), known(term), np.zeros((), dtype))
    return dml.element_wise_if(some, term, np.zeros((), dtype))
