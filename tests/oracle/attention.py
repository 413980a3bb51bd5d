"""MULTIHEAD_ATTENTION: scores in fractions, and sums of values weighted by their exponentials; no intermediate rounding."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from .activation import Attributes, Inputs, Outputs, Results
from .arithmetic import add, is_nan, maximum, multiply, subtract
from .functions import exponential
from .normalization import quotient
from .numbers import NAN, Array, Value, bits, exact, stored
from .resampling import grid


def heads_of(array: Array, heads: int) -> Any:
    """The values of {.., batch, length, heads * size}, by batch, length, head and element."""
    batch, length, width = array.shape[-3:]
    return grid(array).reshape(batch, length, heads, width // heads)


def biased(x: Any, bias: Any) -> Any:
    """New queries, keys or values plus their biases."""
    if bias is None:
        return x
    made, terms = np.empty(x.shape, object), bias.reshape(x.shape[2:])
    for at in np.ndindex(*x.shape):
        made[at] = add(x[at], terms[at[2:]])
    return made


def sources(attributes: Attributes, inputs: Inputs) -> tuple[Any, Any, Any]:
    """Queries, keys and values as they are given; None for absent ones."""
    queries, keys = counts(attributes)
    found = [
        None if inputs.get(f"{name}_tensor") is None else heads_of(inputs[f"{name}_tensor"], count)
        for name, count in (("query", queries), ("key", keys), ("value", keys))
    ]
    for name, places in (("query_key", (0, 1)), ("key_value", (1, 2)), ("query_key_value", (0, 1, 2))):
        stacked = inputs.get(f"stacked_{name}_tensor")
        if stacked is not None:
            for at, place in enumerate(places):
                found[place] = grid(stacked)[:, :, :, at]
    return found[0], found[1], found[2]


def counts(attributes: Attributes) -> tuple[int, int]:
    if "head_count" in attributes:
        return attributes["head_count"], attributes["head_count"]
    return attributes["query_head_count"], attributes["key_value_head_count"]


def with_past(new: Any, past: Array | None, lengths: list[int] | None) -> Any:
    """Values by batch, head, key and element; 0 after the last key of a batch with a length."""
    after = None if new is None else new.transpose(0, 2, 1, 3)
    if past is None:
        return after
    before = grid(past).reshape(past.shape[-4:])
    if after is None:
        return before
    if lengths is None:
        return np.concatenate([before, after], axis=2)
    made = np.full((*before.shape[:2], before.shape[2] + after.shape[2], before.shape[3]), 0.0, object)
    for b, length in enumerate(lengths):
        made[b, :, :length] = before[b, :, :length]
        made[b, :, length : length + after.shape[2]] = after[b]
    return made


def masked(attributes: Attributes, mask: Array | None, place: tuple[int, int, int, int], sizes: tuple[int, ...]) -> bool:
    """Whether a mask excludes a score."""
    if mask is None:
        return False
    b, _, _, t = place
    kind = attributes["mask_type"]
    if kind == "BOOLEAN":
        whole = np.broadcast_to(mask.reshape(mask.shape[-4:] if mask.ndim > 4 else mask.shape), sizes)
        return not whole[place]
    flat = mask.ravel().tolist()
    if kind == "KEY_SEQUENCE_END_START":
        return not flat[sizes[0] + b] <= t < flat[b]
    return not t < flat[b]


def attention(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Results:
    queries, keys = counts(attributes)
    q, k, v = sources(attributes, inputs)
    bias = None if inputs.get("bias_tensor") is None else grid(inputs["bias_tensor"]).ravel()
    past = inputs.get("past_key_tensor")
    size = q.shape[3]
    new = 0 if k is None else k.shape[1]
    if bias is not None:
        edges = (queries * size, (queries + keys) * size)
        q = biased(q, bias[: edges[0]])
        k = None if k is None else biased(k, bias[edges[0] : edges[1]])
        v = None if v is None else biased(v, bias[edges[1] :])
    lengths = None
    if inputs.get("past_sequence_lengths_tensor") is not None and past is not None:
        lengths = [min(max(n, 0), past.shape[-2]) for n in inputs["past_sequence_lengths_tensor"].ravel().tolist()]
    k, v = with_past(k, past, lengths), with_past(v, inputs.get("past_value_tensor"), lengths)
    relative = None if (given := inputs.get("relative_position_bias_tensor")) is None else grid(given).reshape(given.shape[-4:])
    scale, filtered = exact(attributes["scale"]), exact(attributes["mask_filter_value"])
    sizes = (q.shape[0], queries, q.shape[1], k.shape[2])
    made = np.empty((sizes[0], sizes[2], queries, v.shape[3]), object)
    for b, n, s in np.ndindex(*sizes[:3]):
        m = n * keys // queries
        seen = range(sizes[3])
        if lengths is not None:
            seen = range(min(lengths[b] + s + 1, lengths[b] + new))
        scores = []
        for t in seen:
            found = multiply(scale, reduce(add, map(multiply, q[b, s, n], k[b, m, t])))
            if relative is not None:
                found = add(found, relative[b, n, s, t])
            if masked(attributes, inputs.get("mask_tensor"), (b, n, s, t), sizes):
                found = add(found, filtered)
            scores.append(found)
        for h in range(v.shape[3]):
            made[b, s, n, h] = weighted(scores, [v[b, m, t, h] for t in seen])
    results: Results = {"output_tensor": stored(made.ravel().tolist(), *outputs["output_tensor"])}
    for name, used, old in (("key", k, "key"), ("value", v, "value")):
        if (asked := outputs.get(f"output_present_{name}_tensor")) is not None:
            results[f"output_present_{name}_tensor"] = stored(used.ravel().tolist(), *asked)
            if bias is None:
                results[f"output_present_{name}_tensor"] = moved(attributes, inputs, old, lengths, asked)
    return results


def moved(attributes: Attributes, inputs: Inputs, name: str, lengths: list[int] | None, asked: Any) -> Array:
    """Keys or values whose bits are copied, as integers."""
    as_bits = {n: bits(x) for n, x in inputs.items() if x is not None and x.dtype.kind not in "iu"}
    sizes, dtype = asked
    _, k, v = sources(attributes, as_bits)
    past = as_bits.get(f"past_{name}_tensor")
    used = with_past(k if name == "key" else v, past, lengths)
    flat = np.array([int(x) for x in used.ravel().tolist()], f"u{np.dtype(dtype).itemsize}")
    made: Array = flat.view(dtype).reshape(sizes)
    return made


def weighted(scores: list[Value], terms: list[Value]) -> Value:
    """The sum of terms times the exponentials of scores, divided by the sum of exponentials; 0 / 0 without scores."""
    if not scores:
        return NAN
    top = reduce(maximum, scores)
    if type(top) is float and (is_nan(top) or math.isinf(top)):
        return NAN
    weights = [exponential(subtract(score, top)) for score in scores]
    there = [multiply(w, x) for w, x, score in zip(weights, terms, scores, strict=True) if score != -math.inf]
    return quotient(reduce(add, there), reduce(add, weights))


OPERATORS = dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), attention)
