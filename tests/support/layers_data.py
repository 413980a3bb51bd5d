"""Arrays that resemble those of layers in real models: after RELU, saturated, one-hot, constant, padded, with infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Sizes = tuple[int, ...]
WEIGHTS = ("weight_tensor", "recurrence_tensor")
# for recurrences, by the contents of their tensors
KINDS = (
    "normal", "after RELU", "zeros", "zeros but for weights", "zeros but for biases", "equal", "one-hot", "integers",
    "weights x 10", "weights x 100", "biases 30", "biases 100", "biases 600", "states and gates of 1", "an infinity",
    "infinities", "inputs 1e-40", "all 1e-40", "inputs 1e30", "all 1e30", "padding",
)  # fmt: skip


def recurrent(name: str, sizes: Sizes, dtype: Any, rng: np.random.Generator, kind: str) -> Array:
    """The elements of a float input of a recurrence, by its field's name."""
    drawn = rng.standard_normal(sizes) * 0.5
    weights, bias, inputs = name in WEIGHTS, name == "bias_tensor", name == "input_tensor"
    if kind == "after RELU" and not weights and not bias:
        drawn = np.maximum(drawn, 0)
    if kind == "zeros" or (kind == "zeros but for weights" and not weights) or (kind == "zeros but for biases" and not bias):
        drawn[...] = 0
    if kind == "equal":
        drawn[...] = 0.1
    if kind == "one-hot" and inputs:
        drawn[...] = np.eye(sizes[-1])[rng.integers(0, sizes[-1], sizes[:-1])]
    if kind == "integers":
        drawn = rng.integers(-3, 4, sizes).astype(float)
    if kind.startswith("weights x") and weights:
        drawn *= int(kind[10:])
    if (kind.startswith("biases ") and bias) or (kind == "states and gates of 1" and bias):
        drawn = rng.choice([-1.0, 1.0], sizes) * (int(kind[7:]) if kind[7:].isdigit() else 20)
    if kind == "states and gates of 1" and "init" in name:
        drawn = rng.choice([-1.0, 1.0], sizes) * (1 + rng.integers(0, 8, sizes) * 2.0**-23)
    small, large = (1e-40, 1e30) if dtype == np.float32 else (1e-7, 3e4)
    if kind.startswith("all 1e") or (kind.startswith("inputs 1e") and inputs):
        drawn *= small if kind.endswith("-40") else large
    if kind == "an infinity" and inputs:
        drawn[0, sizes[1] // 2, 0, 0] = np.inf
    if kind == "infinities" and inputs:
        drawn[rng.random(sizes) < 0.1] = rng.choice([-np.inf, np.inf])
    if kind == "padding" and inputs:
        drawn[:, sizes[1] // 2 :] = 0
    return np.asarray(drawn.astype(dtype))
