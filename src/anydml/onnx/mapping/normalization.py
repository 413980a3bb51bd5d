"""Normalisations: by the mean and variance of the elements, by given ones, and by norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axes_of, axis_of, converted, padded, reshape

FLOAT32 = np.dtype(np.float32)
TINY = 1e-18  # is added to a variance: ONNX adds 1e-9 to the deviation, which may be 0


def _by_channel(p: Value, x: Value) -> Value:
    """A parameter of each channel, with sizes that broadcast to the image."""
    return reshape(p, (1, p.shape[0], *[1] * (x.ndim - 2)))


def batch_normalization(n: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Any:
    if n.get("training_mode", 0) and n.opset >= 14:
        return _trained(n, x, scale, bias, mean, variance)
    if any(n.wants(i) for i in range(1, 5)) or (n.opset < 7 and not n.get("is_test", 0)):
        raise Refused("it is trained", NOT_YET)
    m, v, s, b = (_by_channel(converted(p, x.dtype), x) for p in (mean, variance, scale, bias))
    return dml.batch_normalization(x, m, v, s, b, epsilon=n.get("epsilon", 1e-5))


def _trained(n: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> list[Value]:
    """BATCH_NORMALIZATION_TRAINING, and running means and variances, which are rounded at each step."""
    s, b = (_by_channel(converted(p, x.dtype), x) for p in (scale, bias))
    found = dml.batch_normalization_training(x, s, b, epsilon=n.get("epsilon", 1e-5))
    momentum = n.get("momentum", 0.9)

    def going_on(before: Value, now: Value) -> Value:
        now = converted(reshape(now, before.shape), before.dtype)
        old = dml.element_wise_multiply(before, np.array(momentum, before.dtype))
        return dml.element_wise_add(old, dml.element_wise_multiply(now, np.array(1 - momentum, before.dtype)))

    return [found.output, going_on(mean, found.output_mean), going_on(variance, found.output_variance)]


def instance_normalization(n: Node, x: Value, scale: Value, bias: Value) -> Value:
    axes = [*range(2, x.ndim)]
    return dml.mean_variance_normalization1(
        x, _by_channel(scale, x), _by_channel(bias, x), axes=axes, epsilon=n.get("epsilon", 1e-5)
    )


def normalized(x: Value, scale: Value, bias: Value, axes: Sequence[int], epsilon: float, use_mean: bool = True) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 over the last dimensions, with a scale and a bias of the same dimensions."""
    factor, term = (None if p is None else padded(converted(p, x.dtype), x.ndim) for p in (scale, bias))
    return dml.mean_variance_normalization2(x, factor, term, axes=[*axes], use_mean=use_mean, epsilon=epsilon)


def mean_of(x: Value, axes: Sequence[int]) -> Value:
    """The means as FLOAT32, by REDUCE; FLOAT16 elements are converted first."""
    return dml.reduce(converted(x, FLOAT32), "AVERAGE", [*axes])


def inverse_deviation(x: Value, axes: Sequence[int], epsilon: float, use_mean: bool = True) -> Value:
    """1 / sqrt(v + epsilon) as FLOAT32, where v is the variance or the mean square.

    A mean square is a REDUCE and a division by the count; a variance is that of BATCH_NORMALIZATION_TRAINING, rounded once.
    Either is rounded before ELEMENT_WISE_CONSTANT_POW.
    """
    wide = converted(x, FLOAT32)
    if use_mean:
        ones = np.ones([1 if i in axes else size for i, size in enumerate(x.shape)], np.float32)
        v = dml.batch_normalization_training(wide, ones, np.zeros_like(ones), epsilon=epsilon).output_variance
    else:
        count = math.prod(x.shape[a] for a in axes)
        v = dml.element_wise_divide(dml.reduce(wide, "SUM_SQUARE", [*axes]), np.float32(count))
    return dml.element_wise_constant_pow(v, scale_bias=(1, epsilon), exponent=-0.5)


def layer_normalization(n: Node, x: Value, scale: Value, bias: Value = None) -> Any:
    """MEAN_VARIANCE_NORMALIZATION2 over the last dimensions; means and inverse deviations separately, if they are outputs."""
    axes = range(axis_of(n.get("axis", -1), x.ndim), x.ndim)
    epsilon = n.get("epsilon", 1e-5)
    x = converted(x, scale.dtype)  # onnxruntime's operator also takes float16 with a scale of float32, and gives float32
    y = normalized(x, scale, bias, axes, epsilon)
    return [
        y, mean_of(x, axes) if n.wants(1) else None, inverse_deviation(x, axes, epsilon) if n.wants(2) else None
    ]  # fmt: skip


def rms_normalization(n: Node, x: Value, scale: Value) -> Any:
    """The same without a mean. onnxruntime's SimplifiedLayerNormalization also has the inverse deviations as an output."""
    axes, epsilon = range(axis_of(n.get("axis", -1), x.ndim), x.ndim), n.get("epsilon", 1e-5)
    y = normalized(x, scale, None, axes, epsilon, False)
    return [y, inverse_deviation(x, axes, epsilon, False) if n.wants(1) else None]


def in_groups(x: Value, scale: Value, bias: Value, groups: int, epsilon: float) -> Value:
    """An image {batch, channels, ..} normalised in groups of channels, with a scale and bias for each channel or each group."""
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise Refused(f"{groups} groups do not divide {channels} channels", INVALID)
    sizes = (x.shape[0], groups, channels // groups, *x.shape[2:])
    of_channels = (1, groups, channels // groups, *[1] * (x.ndim - 2))
    of_groups = (1, groups, 1, *[1] * (x.ndim - 2))
    factor, term = (reshape(converted(p, x.dtype), of_channels if p.shape[0] == channels else of_groups) for p in (scale, bias))
    axes = [*range(2, x.ndim + 1)]
    return reshape(dml.mean_variance_normalization2(reshape(x, sizes), factor, term, axes=axes, epsilon=epsilon), x.shape)


def group_normalization(n: Node, x: Value, scale: Value, bias: Value) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 in groups of channels; in operator sets before 21, each group has a scale and a bias."""
    return in_groups(x, scale, bias, n.get("num_groups", 0), n.get("epsilon", 1e-5))


def mean_variance_normalization(n: Node, x: Value) -> Value:
    axes = axes_of(n.get("axes", (0, 2, 3)), x.ndim)
    return dml.mean_variance_normalization1(x, axes=axes, epsilon=TINY)


def local_response_normalization(n: Node, x: Value) -> Value:
    return dml.local_response_normalization(
        x, local_size=n.get("size"), alpha=n.get("alpha", 1e-4), beta=n.get("beta", 0.75), bias=n.get("bias", 1.0)
    )


def lp_normalization(n: Node, x: Value) -> Value:
    return dml.lp_normalization(x, axis_of(n.get("axis", -1), x.ndim), epsilon=0.0, p=n.get("p", 2))


TABLE: dict[str, Callable[..., Any]] = {
    "GroupNormalization": group_normalization,
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": local_response_normalization,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
    "SimplifiedLayerNormalization": rms_normalization,
}
