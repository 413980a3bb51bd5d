"""Normalisations: by the elements' own mean and variance, by given ones, by norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.functional import functions as dml
from anydml.onnx.errors import NOT_YET, Refused, UseBody
from anydml.onnx.mapping.maths import converted
from anydml.onnx.nodes import Node
from anydml.onnx.values import Value, axis_of, padded, reshape

TINY = 1e-18  # of a variance: ONNX adds 1e-9 to the deviation, against a zero


def _by_channel(p: Value, x: Value) -> Value:
    """A parameter of each channel, as it broadcasts with the image."""
    return reshape(p, (1, p.shape[0], *[1] * (x.ndim - 2)))


def batch_normalization(n: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Value:
    if n.get("training_mode", 0) or any(n.wants(i) for i in range(1, 5)) or (n.opset < 7 and not n.get("is_test", 0)):
        raise Refused("it is trained", NOT_YET)
    m, v, s, b = (_by_channel(converted(p, x.dtype), x) for p in (mean, variance, scale, bias))
    return dml.batch_normalization(x, m, v, s, b, epsilon=n.get("epsilon", 1e-5))


def instance_normalization(n: Node, x: Value, scale: Value, bias: Value) -> Value:
    axes = [*range(2, x.ndim)]
    return dml.mean_variance_normalization1(
        x, _by_channel(scale, x), _by_channel(bias, x), axes=axes, epsilon=n.get("epsilon", 1e-5)
    )


def layer_normalization(n: Node, x: Value, scale: Value, bias: Value = None) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 over the last dimensions; with the mean or the deviation asked for, ONNX's definition."""
    if n.wants(1) or n.wants(2):
        raise UseBody
    axis = axis_of(n.get("axis", -1), x.ndim)
    factor = padded(converted(scale, x.dtype), x.ndim)
    term = None if bias is None else padded(converted(bias, x.dtype), x.ndim)
    return dml.mean_variance_normalization2(x, factor, term, axes=[*range(axis, x.ndim)], epsilon=n.get("epsilon", 1e-5))


def rms_normalization(n: Node, x: Value, scale: Value) -> Value:
    axis = axis_of(n.get("axis", -1), x.ndim)
    factor = padded(converted(scale, x.dtype), x.ndim)
    axes = [*range(axis, x.ndim)]
    return dml.mean_variance_normalization2(x, factor, axes=axes, use_mean=False, epsilon=n.get("epsilon", 1e-5))


def mean_variance_normalization(n: Node, x: Value) -> Value:
    axes = [axis_of(a, x.ndim) for a in n.get("axes", (0, 2, 3))]
    return dml.mean_variance_normalization1(x, axes=axes, epsilon=TINY)


def local_response_normalization(n: Node, x: Value) -> Value:
    return dml.local_response_normalization(
        x, local_size=n.get("size"), alpha=n.get("alpha", 1e-4), beta=n.get("beta", 0.75), bias=n.get("bias", 1.0)
    )


def lp_normalization(n: Node, x: Value) -> Value:
    return dml.lp_normalization(x, axis_of(n.get("axis", -1), x.ndim), epsilon=0.0, p=n.get("p", 2))


TABLE: dict[str, Callable[..., Any]] = {
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": local_response_normalization,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}
