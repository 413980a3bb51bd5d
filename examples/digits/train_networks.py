"""Train the convolutional network and the encoder, and write them as .onnx files beside this one: about a minute.

In the folder examples: python -m digits.train_networks

Run twice on one machine, it writes the same bytes; another BLAS may train slightly other weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from sklearn.datasets import load_digits

from digits import export, gradients, networks
from digits.gradients import Value

FOLDER = Path(__file__).parent
Array = npt.NDArray[Any]


def ranges(p: networks.Parameters, images: Array) -> dict[str, tuple[float, float]]:
    """The least and the largest values on calibration images of what is quantised; those behind RELU begin at 0."""
    values = {name: Value(x) for name, x in p.items()}
    found, x = {"image": (0.0, 255 / 16)}, Value(images)  # in steps of 1/16 pixels are exact
    for name in ("conv1", "conv2"):
        x = gradients.relu(gradients.convolution(x, values[f"{name}.weight"], values[f"{name}.bias"]))
        found[name] = (0.0, float(x.data.max()))
        x = gradients.max_pooling(x)
    logits = networks.cnn(values, Value(images)).data
    return found | {"logits": (float(logits.min()), float(logits.max()))}


def main() -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)  # exact: pixels are 0..16
    training = np.arange(len(images)) % 5 != 0  # every fifth image is held out
    maps, rows = images.reshape(-1, 1, 8, 8), images.reshape(-1, 8, 8)

    made = networks.cnn_parameters(np.random.default_rng(0))
    cnn = networks.trained(networks.cnn, made, maps[training], labels[training], epochs=60, seed=1)
    made = networks.encoder_parameters(np.random.default_rng(0))
    encoder = networks.trained(networks.encoder, made, rows[training], labels[training], epochs=60, seed=1)
    integers = export.quantised(cnn, ranges(cnn, maps[training]))

    models = {
        "cnn": export.cnn(cnn),
        "cnn-qlinear": export.qlinear_cnn(integers),
        "cnn-qdq": export.qdq_cnn(integers),
        "encoder": export.encoder(encoder),
    }
    for name, model in models.items():
        path = FOLDER / f"{name}.onnx"
        onnx.save(model, path)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
