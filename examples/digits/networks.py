"""A small convolutional network and a small transformer encoder for 8 x 8 digits, and their training in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from digits import gradients as on
from digits.gradients import Value

Array = npt.NDArray[Any]
Parameters = dict[str, Array]
Network = Callable[[dict[str, Value], Value], Value]

CHANNELS = (8, 16)  # of the two convolutions
WIDTH, HEADS, INNER = 32, 2, 64  # of the encoder's one block
PIXELS = 8  # in a row, and rows


def _normal(random: np.random.Generator, *shape: int, fan_in: int) -> Array:
    return np.asarray(random.standard_normal(shape) * np.sqrt(2 / fan_in), np.float32)


def cnn_parameters(random: np.random.Generator) -> Parameters:
    c, d = CHANNELS
    return {
        "conv1.weight": _normal(random, c, 1, 3, 3, fan_in=9),
        "conv1.bias": np.zeros(c, np.float32),
        "conv2.weight": _normal(random, d, c, 3, 3, fan_in=9 * c),
        "conv2.bias": np.zeros(d, np.float32),
        "classify.weight": _normal(random, 4 * d, 10, fan_in=4 * d),
    }


def cnn(p: dict[str, Value], images: Value) -> Value:
    """The logits of (N, 1, 8, 8): twice a convolution, RELU and pooling, then a matrix."""
    x = on.max_pooling(on.relu(on.convolution(images, p["conv1.weight"], p["conv1.bias"])))
    x = on.max_pooling(on.relu(on.convolution(x, p["conv2.weight"], p["conv2.bias"])))
    return x.reshape(len(x.data), -1) @ p["classify.weight"]


def encoder_parameters(random: np.random.Generator) -> Parameters:
    made = {
        "embed.weight": _normal(random, PIXELS, WIDTH, fan_in=PIXELS),
        "embed.position": _normal(random, PIXELS, WIDTH, fan_in=WIDTH),
        "inner.weight": _normal(random, WIDTH, INNER, fan_in=WIDTH),
        "inner.bias": np.zeros(INNER, np.float32),
        "outer.weight": _normal(random, INNER, WIDTH, fan_in=INNER),
        "outer.bias": np.zeros(WIDTH, np.float32),
        "classify.weight": _normal(random, WIDTH, 10, fan_in=WIDTH),
        "classify.bias": np.zeros(10, np.float32),
    }
    for name in ("query", "key", "value", "attended"):
        made[f"{name}.weight"] = _normal(random, WIDTH, WIDTH, fan_in=WIDTH)
    for name in ("norm1", "norm2", "norm3"):
        made |= {f"{name}.scale": np.ones(WIDTH, np.float32), f"{name}.bias": np.zeros(WIDTH, np.float32)}
    return made


def encoder(p: dict[str, Value], images: Value) -> Value:
    """The logits of (N, 8, 8), whose rows are the tokens: attention, two dense layers, the mean of the tokens."""
    n = len(images.data)

    def normal(x: Value, name: str) -> Value:
        return on.layer_normalization(x, p[f"{name}.scale"], p[f"{name}.bias"])

    def heads(x: Value) -> Value:
        return x.reshape(n, PIXELS, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    x = images @ p["embed.weight"] + p["embed.position"]
    y = normal(x, "norm1")
    query, key, value = (heads(y @ p[f"{name}.weight"]) for name in ("query", "key", "value"))
    weights = on.softmax((query @ key.transpose(0, 1, 3, 2)) * (HEADS / WIDTH) ** 0.5)
    x = x + (weights @ value).transpose(0, 2, 1, 3).reshape(n, PIXELS, WIDTH) @ p["attended.weight"]
    y = on.gelu(normal(x, "norm2") @ p["inner.weight"] + p["inner.bias"])
    x = x + (y @ p["outer.weight"] + p["outer.bias"])
    return on.mean(normal(x, "norm3"), 1) @ p["classify.weight"] + p["classify.bias"]


def trained(network: Network, parameters: Parameters, images: Array, labels: Array, *, epochs: int, seed: int) -> Parameters:
    """The parameters after training, in batches of 64 whose images are moved by up to a pixel."""
    random = np.random.default_rng(seed)
    optimizer = on.Adam(parameters, decay=0.01)
    batch, last = 64, epochs * (len(images) // 64)
    for step in range(last):
        if step % (len(images) // batch) == 0:
            order = random.permutation(len(images))
        chosen = order[step % (len(images) // batch) * batch :][:batch]
        values = {name: Value(p) for name, p in parameters.items()}
        loss = on.cross_entropy(network(values, Value(_moved(images[chosen], random))), labels[chosen])
        loss.backward()
        rate = 0.006 * (1 + np.cos(np.pi * step / last)) / 2
        optimizer.update({name: v.gradient for name, v in values.items() if v.gradient is not None}, rate)
    return parameters


def _moved(images: Array, random: np.random.Generator) -> Array:
    """The images, half of them moved by one pixel to the left or right."""
    by = random.choice([-1, 0, 0, 1], len(images))
    padded = np.pad(images, ((0, 0),) * (images.ndim - 1) + ((1, 1),))
    return np.stack([image[..., 1 + d : 1 + d + PIXELS] for image, d in zip(padded, by, strict=True)])
