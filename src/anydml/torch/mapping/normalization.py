"""Normalisations: by running means and variances, and by those of the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.exact.formats import float_limits
from anydml.functional import functions as dml
from anydml.onnx.values import Value, converted, padded, reshape
from anydml.tensor import DataType
from anydml.torch.mapping.common import FLOAT32, Mapping
from anydml.torch.mapping.reductions import reduced, variance
from anydml.torch.read import Node, dtype_of


def _by_channel(p: Value, x: Value, otherwise: float) -> Value:
    """A parameter of each channel, with sizes that broadcast to the image; a number for all, if it is absent."""
    found = np.full((x.shape[1],), otherwise, x.dtype) if p is None else converted(p, x.dtype)
    return reshape(found, (1, x.shape[1], *[1] * (x.ndim - 2)))


def _batch(x: Value, weight: Value, bias: Value, mean: Value, var: Value, epsilon: float) -> Value:
    """BATCH_NORMALIZATION: (x - mean) / sqrt(variance + epsilon) * weight + bias, rounded once."""
    m, v, s, b = (_by_channel(p, x, d) for p, d in ((mean, 0.0), (var, 1.0), (weight, 1.0), (bias, 0.0)))
    return dml.batch_normalization(x, m, v, s, b, epsilon=epsilon)


def native_batch_norm(n: Node, x: Value, weight: Value, bias: Value, mean: Value, var: Value, momentum: Any, eps: float) -> Any:
    empty = np.empty((0,), dtype_of(n.inner.meta["val"][1].dtype))  # what training would save
    return [_batch(x, weight, bias, mean, var, eps), empty, empty]


def instance_norm(
    n: Node, x: Value, weight: Value, bias: Value, mean: Value, var: Value, use_input_stats: bool, momentum: Any, eps: float,
    *_: Any,
) -> Value:  # fmt: skip
    """MEAN_VARIANCE_NORMALIZATION2 of each channel of each image, or by running means and variances."""
    if not use_input_stats:
        return _batch(x, weight, bias, mean, var, eps)
    factor, term = (None if p is None else _by_channel(p, x, 0.0) for p in (weight, bias))
    return dml.mean_variance_normalization2(x, factor, term, axes=[*range(2, x.ndim)], epsilon=eps)


def over_last(x: Value, count: int, weight: Value, bias: Value, epsilon: float, use_mean: bool = True) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 over the last dimensions: one rounding."""
    factor, term = (None if p is None else padded(converted(p, x.dtype), x.ndim) for p in (weight, bias))
    axes = [*range(x.ndim - count, x.ndim)]
    return dml.mean_variance_normalization2(x, factor, term, axes=axes, use_mean=use_mean, epsilon=epsilon)


def layer_norm(
    n: Node, x: Value, sizes: Sequence[int], weight: Value = None, bias: Value = None, eps: float = 1e-5, *_: Any
) -> Value:
    return over_last(x, len(sizes), weight, bias, eps)


def native_layer_norm(n: Node, x: Value, sizes: Sequence[int], weight: Value, bias: Value, eps: float) -> Any:
    """layer_norm, and the means and inverse deviations where they are used."""
    over = [*range(x.ndim - len(sizes), x.ndim)]
    made = over_last(x, len(sizes), weight, bias, eps)
    return [made, *_statistics(n, x, over, eps)]


def _statistics(n: Node, x: Value, over: Sequence[int], eps: float) -> list[Value]:
    """Means, and 1 / sqrt(variance + epsilon) of rounded variances; None for those that no node reads."""
    used = {user.args[1] for user in n.inner.users if len(user.args) > 1 and isinstance(user.args[1], int)}
    wide = converted(x, FLOAT32)
    mean = reduced(wide, "AVERAGE", over, True) if 1 in used else None
    if 2 not in used:
        return [mean, None]
    var = variance(n, wide, [*over], correction=0, keepdim=True)
    return [mean, dml.element_wise_constant_pow(var, scale_bias=(1, eps), exponent=-0.5)]


def rms_norm(n: Node, x: Value, sizes: Sequence[int], weight: Value = None, eps: Any = None) -> Value:
    """The same without a mean. By default, epsilon is the distance from 1 to the next number of the type."""
    return over_last(x, len(sizes), weight, None, float_limits(DataType.of(x.dtype)).eps if eps is None else eps, False)


def _in_groups(x: Value, groups: int, weight: Value, bias: Value, eps: float) -> Value:
    channels = x.shape[1]
    sizes = (x.shape[0], groups, channels // groups, math.prod(x.shape[2:]))
    factor, term = (
        None if p is None else reshape(converted(p, x.dtype), (1, groups, channels // groups, 1)) for p in (weight, bias)
    )
    made = dml.mean_variance_normalization2(reshape(x, sizes), factor, term, axes=[2, 3], epsilon=eps)
    return reshape(made, x.shape)


def group_norm(n: Node, x: Value, groups: int, weight: Value = None, bias: Value = None, eps: float = 1e-5, *_: Any) -> Value:
    return _in_groups(x, groups, weight, bias, eps)


def native_group_norm(
    n: Node, x: Value, weight: Value, bias: Value, batch: int, channels: int, size: int, groups: int, eps: float
) -> Any:
    in_groups = reshape(x, (batch, groups, math.prod(x.shape[1:]) // groups))
    mean, inverse = (s if s is None else reshape(s, (batch, groups)) for s in _statistics(n, in_groups, [2], eps))
    return [_in_groups(x, groups, weight, bias, eps), mean, inverse]


TABLE: dict[str, Mapping] = {
    "aten._native_batch_norm_legit_no_training.default": native_batch_norm,
    "aten.group_norm.default": group_norm,
    "aten.instance_norm.default": instance_norm,
    "aten.layer_norm.default": layer_norm,
    "aten.native_group_norm.default": native_group_norm,
    "aten.native_layer_norm.default": native_layer_norm,
    "aten.rms_norm.default": rms_norm,
}
