"""Classify the held-out digits by an int8 two-layer network: two quantised matmuls and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import anydml as dml

Array = npt.NDArray[Any]


def load() -> dict[str, Array]:
    """The trained weights, quantised and float."""
    with np.load(Path(__file__).with_name("weights.npz")) as weights:
        return dict(weights)


def held_out() -> tuple[Array, Array]:
    """Images (360 x 64, uint8, 0..16) and labels of every fifth digit: train.py has seen none of them."""
    from sklearn.datasets import load_digits  # here, for the network itself needs no scikit-learn

    images, labels = load_digits(return_X_y=True)
    return images[::5].astype(np.uint8), labels[::5]


def classify(images: Array, device: dml.Device) -> tuple[Array, Array, Array]:
    """Labels, logits and hidden values of uint8 images."""
    w = load()
    ones = np.full((len(images), 1), 16, np.uint8)  # 16/16 = 1.0: the weights of this column are the biases
    pixels = np.hstack([images, ones])
    hidden = dml.quantized_linear_matrix_multiply(
        pixels, 1 / 16, 0, w["w1"], w["w1_scale"], 0, w["hidden_scale"], 0, device=device
    )  # uint8 with zero point 0 saturates at 0, which is ReLU; its last column is constant again
    scale, zero_point = w["logits_scale"], w["logits_zero_point"]  # the zero point is int8: so are the logits
    logits = dml.quantized_linear_matrix_multiply(
        hidden, w["hidden_scale"], 0, w["w2"], w["w2_scale"], 0, scale, zero_point, device=device
    )
    return logits.argmax(axis=1), logits, hidden


def float_accuracy(images: Array, labels: Array) -> float:
    """The float32 network's share of right labels on the same images."""
    w = load()
    hidden = np.maximum(images / np.float32(16) @ w["float_w1"] + w["float_b1"], 0)
    return accuracy((hidden @ w["float_w2"] + w["float_b2"]).argmax(axis=1), labels)


def accuracy(predicted: Array, labels: Array) -> float:
    return float(np.mean(predicted == labels))


def checksum(arrays: Iterable[Array]) -> str:
    """The first 16 hex digits of the SHA-256 of the arrays' bytes."""
    return hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest()[:16]


def main() -> None:
    images, labels = held_out()
    print(f"float32:          {float_accuracy(images, labels):.2%} of {len(images)}")
    for name in ("reference", "cpu"):
        predicted, logits, hidden = classify(images, dml.Device(name))
        print(f"int8, {name + ':':11} {accuracy(predicted, labels):.2%}, checksum {checksum([hidden, logits])}")


if __name__ == "__main__":
    main()
