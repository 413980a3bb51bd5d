"""The command `run` for ONNX and TensorFlow Lite models."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from anydml.cli.compare_models import Source, inputs_of
from anydml.cli.models import model_of
from anydml.cli.output import note, result
from anydml.devices.device import Device
from anydml.errors import BindingError, Fault
from anydml.spelling import printable

LONGEST_NAME = 200  # characters of a file's name


def run_model(file: str, device: Device, source: Source, output_path: str, turns: int | None, keep: str | None) -> int:
    """Run a model, and write an .npy file for each output, for all tensors, or for those of some names (`keep`)."""
    model = model_of(file, turns)
    given = inputs_of(file, model, source) if model.inputs or source.given or source.inputs else {}
    with source.explained(given):
        found = model.run(given, device=device, keep="outputs" if keep is None else "all")
    if keep not in (None, "all"):
        names = [name.strip() for name in keep.split(",")]
        if missing := [name for name in names if name not in found]:
            raise BindingError([Fault(name, "is not a tensor that the model computes") for name in missing])
        found = {name: found[name] for name in names}
    Path(output_path).mkdir(parents=True, exist_ok=True)
    written: set[str] = set()
    for i, (name, array) in enumerate(found.items()):
        title = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        title = title[:LONGEST_NAME]
        title = title if title not in written else f"{title}_{i}"
        written.add(title)
        at = Path(output_path) / f"{title}.npy"
        np.save(at, array)
        result(printable(f"{name}: {array.dtype} {array.shape}"))
        note(printable(f"Wrote {at}"))
    return 0
