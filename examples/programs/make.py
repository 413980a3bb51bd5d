"""Write the files that the programs read, from the digits network and scikit-learn: python examples/programs/make.py

Run again, it writes the same bytes; another version of Pillow may pack the same pixels otherwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

HERE = Path(__file__).parent
WEIGHTS = HERE.parent / "digits" / "weights.npz"
READ = ("w1", "w1_scale", "hidden_scale", "w2", "w2_scale", "logits_scale", "logits_zero_point")
BATCH = 32  # images


def make(folder: Path) -> list[Path]:
    """Write all files below a folder; their paths."""
    for name in ("digits", "photo"):
        (folder / name).mkdir(parents=True, exist_ok=True)

    # every fifth image is held out from training; the constant column is that of digits/classify.py
    images = load_digits().data[::5][:BATCH].astype(np.uint8)
    arrays = {"pixels": np.hstack([images, np.full((BATCH, 1), 16, np.uint8)])}
    with np.load(WEIGHTS) as weights:
        arrays |= {name: weights[name] for name in READ}
    written = [folder / "digits" / f"{name}.npy" for name in arrays]
    for path, array in zip(written, arrays.values(), strict=True):
        np.save(path, array)

    photo = folder / "photo" / "china.png"
    Image.fromarray(np.ascontiguousarray(load_sample_image("china.jpg")[::3, ::3])).save(photo, optimize=True)
    return [*written, photo]


if __name__ == "__main__":
    for path in make(HERE):
        print(f"{path.relative_to(HERE).as_posix()}: {path.stat().st_size} bytes")
