"""onnxruntime's normalisations and embeddings for transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, Refused
from anydml.onnx.mapping.normalization import in_groups, inverse_deviation, mean_of, normalized
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, gathered, part, reshape, transpose


def skip_normalization(use_mean: bool) -> Callable[..., Any]:
    """The mapping of SkipLayerNormalization, or of the simplified one, which has no mean and no beta.

    MEAN_VARIANCE_NORMALIZATION2 of the sum input + skip + bias, which is rounded after each addition, from left to right.
    """

    def mapping(n: Node, x: Value, skip: Value, gamma: Value, *rest: Value) -> list[Value]:
        beta, bias = (*rest, None, None)[:2] if use_mean else (None, (*rest, None)[0])
        total = dml.element_wise_add(x, skip)
        if bias is not None:
            total = dml.element_wise_add(total, bias)
        epsilon, last = n.get("epsilon", 1e-12), [x.ndim - 1]
        y = normalized(total, gamma, beta, last, epsilon, use_mean)
        mean = mean_of(total, last) if n.wants(1) and use_mean else None
        inverse = inverse_deviation(total, last, epsilon, use_mean) if n.wants(2) else None
        return [y, mean, inverse, total]

    return mapping


def embed_layer_normalization(
    n: Node, words: Value, segments: Value, word_table: Value, place_table: Value, segment_table: Value, gamma: Value,
    beta: Value, mask: Value = None, at: Value = None,
) -> list[Value]:  # fmt: skip
    """The sum of rows of three tables, with MEAN_VARIANCE_NORMALIZATION2; and the count of ones in the mask of each batch.

    Without positions, a word's position is its index in the sentence. Without a mask, the counts are 0.
    """
    batch, length = words.shape
    if at is None:
        if length > place_table.shape[0]:
            raise Refused(f"there are {length} words, and a table of {place_table.shape[0]} positions", INVALID)
        by_place = part(place_table, [slice(0, length), slice(None)])
    else:
        by_place = gathered(place_table, at)
    total = dml.element_wise_add(gathered(word_table, words), by_place)
    if segment_table is not None and segments is not None:
        total = dml.element_wise_add(total, gathered(segment_table, segments))
    y = normalized(total, gamma, beta, [2], n.get("epsilon", 1e-12), True)
    counts: Value = np.zeros(batch, np.int32)
    if mask is not None and n.wants(1):
        ones = dml.element_wise_logical_equals(mask, np.ones((), mask.dtype))
        counts = reshape(dml.reduce(dml.cast(ones, output_data_type="INT32"), "SUM", [1]), (batch,))
    return [y, counts, total]


def group_norm(n: Node, x: Value, gamma: Value, beta: Value) -> Value:
    """GroupNorm: MEAN_VARIANCE_NORMALIZATION2 in groups of channels, by strides; then SWISH if its activation is SiLU."""
    last = bool(n.get("channels_last", 1))
    image = transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1))) if last else x
    y = in_groups(image, gamma, beta, n.get("groups", 0), n.get("epsilon", 1e-5))
    if n.get("activation", 0):
        y = dml.activation_swish(y)
    return transpose(y, (0, *range(2, x.ndim), 1)) if last else y


TABLE: dict[str, Callable[..., Any]] = {
    "com.microsoft.EmbedLayerNormalization": embed_layer_normalization,
    "com.microsoft.GroupNorm": group_norm,
    "com.microsoft.SkipLayerNormalization": skip_normalization(True),
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalization(False),
}
