"""Train a 64-32-10 ReLU network on scikit-learn's digits, quantise it, write weights.npz beside this file.

Run twice on one machine, it writes the same bytes; another BLAS or scikit-learn may train slightly other weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

WEIGHTS = Path(__file__).with_name("weights.npz")
HIDDEN = 32
LARGEST_INK = 16  # pixels are 0..16: as uint8 with scale 1/16 they are exact, and so is a constant column of 16 = 1.0

Array = npt.NDArray[Any]


def train(images: Array, labels: Array) -> tuple[Array, Array, Array, Array]:
    """The float network: weights and biases of both layers, float32."""
    model = MLPClassifier((HIDDEN,), alpha=0.1, max_iter=500, random_state=0)
    model.fit(images / LARGEST_INK, labels)
    w1, w2 = (np.asarray(x, np.float32) for x in model.coefs_)
    b1, b2 = (np.asarray(x, np.float32) for x in model.intercepts_)
    return w1, b1, w2, b2


def quantize_columns(weights: Array) -> tuple[Array, Array]:
    """int8 weights and one float32 scale per column, such that the largest weight of each column becomes +-127."""
    scale = (np.abs(weights).max(axis=0) / 127).astype(np.float32)
    return np.rint(weights / scale).astype(np.int8), scale


def quantize(w1: Array, b1: Array, w2: Array, b2: Array, calibration: Array) -> dict[str, Array]:
    """The integer network, its two output ranges taken from the float network's values on the calibration images."""
    hidden = np.maximum(calibration / LARGEST_INK @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    hidden_scale = np.float32(hidden.max() / 255)  # uint8, zero point 0: what is negative saturates at 0, which is ReLU
    logits_scale = np.float32((logits.max() - logits.min()) / 255)
    logits_zero_point = np.int8(np.rint(-128 - logits.min() / logits_scale))

    # The second layer's constant column is a power of two of hidden steps, as close to 1.0 as that allows: then the
    # float32 product below is exact, and an int8 bias keeps the precision that the weights have.
    constant = np.float32(2 ** np.rint(np.log2(1 / hidden_scale)))
    w1_int8, w1_scale = quantize_columns(np.vstack([w1, b1]))
    w2_int8, w2_scale = quantize_columns(np.vstack([w2, b2 / (constant * hidden_scale)]))

    # The column that makes it: 1 * (16 * 1/16) * scale / hidden_scale = constant, whatever the image.
    makes_constant = np.zeros((len(w1_int8), 1), np.int8)
    makes_constant[-1] = 1
    return {
        "w1": np.hstack([w1_int8, makes_constant]),
        "w1_scale": np.append(w1_scale, constant * hidden_scale),
        "hidden_scale": hidden_scale.reshape(1, 1),
        "w2": w2_int8,
        "w2_scale": w2_scale,
        "logits_scale": logits_scale.reshape(1, 1),
        "logits_zero_point": logits_zero_point.reshape(1, 1),
    }


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    training = np.arange(len(images)) % 5 != 0  # every fifth image is held out, for classify.py
    w1, b1, w2, b2 = train(images[training], labels[training])
    arrays: dict[str, Any] = quantize(w1, b1, w2, b2, images[training])
    arrays |= {"float_w1": w1, "float_b1": b1, "float_w2": w2, "float_b2": b2}
    np.savez(WEIGHTS, **arrays)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
