"""Reverse-mode differentiation on NumPy arrays: the operations that the digits' networks are made of, and Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Array = npt.NDArray[Any]


class Value:
    """An array, and how its gradient becomes gradients of the values that it was made of."""

    def __init__(self, data: Array, parents: Sequence[tuple[Value, Callable[[Array], Array]]] = ()) -> None:
        self.data, self.parents = data, parents
        self.gradient: Array | None = None

    def backward(self) -> None:
        """Set `gradient` of everything that this number was made of."""
        order: list[Value] = []
        seen: set[int] = set()

        def visit(value: Value) -> None:
            if id(value) not in seen:
                seen.add(id(value))
                for parent, _ in value.parents:
                    visit(parent)
                order.append(value)

        visit(self)
        self.gradient = np.ones_like(self.data)
        for value in reversed(order):
            assert value.gradient is not None
            for parent, pull in value.parents:
                found = _summed(pull(value.gradient), parent.data.shape)
                parent.gradient = found if parent.gradient is None else parent.gradient + found

    def __add__(self, other: Value) -> Value:
        return Value(self.data + other.data, [(self, lambda g: g), (other, lambda g: g)])

    def __mul__(self, factor: float) -> Value:
        return Value(self.data * np.float32(factor), [(self, lambda g: g * np.float32(factor))])

    def __matmul__(self, other: Value) -> Value:
        a, b = self.data, other.data
        return Value(a @ b, [(self, lambda g: g @ b.swapaxes(-2, -1)), (other, lambda g: a.swapaxes(-2, -1) @ g)])

    def reshape(self, *shape: int) -> Value:
        return Value(self.data.reshape(shape), [(self, lambda g: g.reshape(self.data.shape))])

    def transpose(self, *axes: int) -> Value:
        return Value(self.data.transpose(axes), [(self, lambda g: g.transpose(np.argsort(axes)))])


def _summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """A gradient over the dimensions that were broadcast."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    summed: Array = gradient.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1 != gradient.shape[i]), keepdims=True)
    return summed


def relu(x: Value) -> Value:
    return Value(np.maximum(x.data, 0), [(x, lambda g: g * (x.data > 0))])


def gelu(x: Value) -> Value:
    below = ((1 + erf(x.data / np.sqrt(2))) / 2).astype(np.float32)
    density = np.exp(-x.data * x.data / 2) / np.float32(np.sqrt(2 * np.pi))
    return Value(x.data * below, [(x, lambda g: g * (below + x.data * density))])


def softmax(x: Value) -> Value:
    powers = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    y = powers / powers.sum(axis=-1, keepdims=True)
    return Value(y, [(x, lambda g: y * (g - (g * y).sum(axis=-1, keepdims=True)))])


def layer_normalization(x: Value, scale: Value, bias: Value, epsilon: float = 1e-5) -> Value:
    centred = x.data - x.data.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(epsilon))
    y = centred / deviation

    def pull(g: Array) -> Array:
        g = g * scale.data
        g = g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)
        return np.asarray(g / deviation)

    return Value(y * scale.data + bias.data, [(x, pull), (scale, lambda g: g * y), (bias, lambda g: g)])


def mean(x: Value, axis: int) -> Value:
    n = x.data.shape[axis]
    return Value(x.data.mean(axis=axis), [(x, lambda g: np.repeat(np.expand_dims(g, axis), n, axis) / np.float32(n))])


def patches(x: Value, size: int) -> Value:
    """The size x size neighbourhood of every pixel of (N, C, H, W), zeros outside, as (N, H, W, C * size * size)."""
    edge = size // 2
    margins = ((0, 0), (0, 0), (edge, edge), (edge, edge))
    padded = np.pad(x.data, margins)
    n, c, h, w = x.data.shape
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))

    def pull(g: Array) -> Array:
        g = g.reshape(n, h, w, c, size, size)
        whole = np.zeros_like(padded)
        for i in range(size):
            for j in range(size):
                whole[:, :, i : i + h, j : j + w] += g[..., i, j].transpose(0, 3, 1, 2)
        return whole[:, :, edge : edge + h, edge : edge + w]

    return Value(windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * size * size), [(x, pull)])


def convolution(x: Value, filters: Value, bias: Value) -> Value:
    """The convolution of (N, C, H, W) with (M, C, size, size) that keeps height and width."""
    m, c, size, _ = filters.data.shape
    products = patches(x, size) @ filters.reshape(m, c * size * size).transpose(1, 0) + bias
    return products.transpose(0, 3, 1, 2)


def max_pooling(x: Value) -> Value:
    """The largest of every 2 x 2 pixels."""
    n, c, h, w = x.data.shape
    blocks = x.data.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max(axis=(3, 5), keepdims=True)
    chosen = blocks == y
    chosen = chosen / chosen.sum(axis=(3, 5), keepdims=True, dtype=np.float32)

    def pull(g: Array) -> Array:
        moved: Array = (chosen * g.reshape(y.shape)).reshape(x.data.shape)
        return moved

    return Value(y.reshape(n, c, h // 2, w // 2), [(x, pull)])


def cross_entropy(logits: Value, labels: Array) -> Value:
    """The mean negative logarithm of the probability of the labels."""
    shifted = logits.data - logits.data.max(axis=-1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    each = np.arange(len(labels))

    def pull(g: Array) -> Array:
        wrong = np.exp(logarithms)
        wrong[each, labels] -= 1
        return np.asarray(g * wrong / np.float32(len(labels)))

    return Value(np.asarray(-logarithms[each, labels].mean()), [(logits, pull)])


class Adam:
    """Adam with decoupled weight decay, on float32 arrays that it changes in place."""

    def __init__(self, parameters: dict[str, Array], decay: float) -> None:
        self.parameters, self.decay, self.step = parameters, np.float32(decay), 0
        self.moments = {name: (np.zeros_like(p), np.zeros_like(p)) for name, p in parameters.items()}

    def update(self, gradients: dict[str, Array], rate: float) -> None:
        self.step += 1
        for name, p in self.parameters.items():
            g, (first, second) = gradients[name], self.moments[name]
            first += (g - first) * np.float32(0.1)
            second += (g * g - second) * np.float32(0.001)
            mean, variance = (m / np.float32(1 - b**self.step) for m, b in ((first, 0.9), (second, 0.999)))
            p -= np.float32(rate) * (mean / (np.sqrt(variance) + np.float32(1e-8)) + self.decay * p)
