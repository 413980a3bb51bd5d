"""Other runtimes: runs of onnxruntime, and recorded tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from anydml.errors import BindingError, Fault
from anydml.onnx.model import Model
from anydml.onnx.values import Array

Run = Callable[[ModelProto, Mapping[str, Array]], Mapping[str, Array] | Sequence[Array]]


def onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model, computed by onnxruntime's CPU provider with its default optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    read = {x.name for x in session.get_inputs()}
    made = session.run(names, {name: x for name, x in inputs.items() if name in read})
    return dict(zip(names, made, strict=True))


RUNTIMES: Mapping[str, Run] = {"onnxruntime": onnxruntime}


def recorded(folder: str | os.PathLike[str]) -> dict[str, Array]:
    """The tensors of a folder: NAME.npy, where a / in a tensor's name is a folder, and .pb files of TensorProto, by their name.

    BindingError for files that cannot be read.
    """
    root = Path(folder)
    found: dict[str, Array] = {}
    faults = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).with_suffix("").as_posix()
        try:
            if path.suffix == ".npy":
                found[name] = np.load(path, allow_pickle=False)
            elif path.suffix == ".pb":
                tensor = TensorProto.FromString(path.read_bytes())
                found[tensor.name or name] = numpy_helper.to_array(tensor)
        except (OSError, ValueError, TypeError, DecodeError) as error:
            faults.append(Fault(str(path), f"cannot be read as a tensor: {error}"))
    if not root.is_dir():
        faults.append(Fault(str(root), "is not a folder"))
    elif not found and not faults:
        faults.append(Fault(str(root), "has neither .npy nor .pb files"))
    if faults:
        raise BindingError(faults)
    return found


def drawn(model: Model, seed: int, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Random inputs: normally distributed floats, 8-bit integers of the whole range, other integers from 0 to 7, and booleans.

    sizes: by name; a named size that is not given is 1.
    """
    from anydml.onnx.types import BOOL, DTYPES

    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name, signature in model.inputs.items():
        shape = [n if isinstance(n, int) else sizes.get(n or "", 1) for n in signature.sizes or ()]
        dtype = np.dtype(DTYPES[signature.element_type])
        if signature.element_type == BOOL:
            found[name] = random.integers(0, 2, shape).astype(np.bool_)
        elif dtype.kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        elif dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            found[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        else:
            found[name] = random.integers(0, 8, shape).astype(dtype)
    return found
