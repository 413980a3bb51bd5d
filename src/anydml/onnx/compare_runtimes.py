"""Other runtimes: runs of onnxruntime, and recorded tensors."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from anydml.errors import BindingError, Error, Fault
from anydml.onnx.model import Model
from anydml.onnx.values import Array

RANDOM_INDICES = 8  # indices are drawn below this where the model does not tell how many there are

Run = Callable[[ModelProto, Mapping[str, Array]], Mapping[str, Array] | Sequence[Array]]


class RuntimeFailed(Error):
    """The other runtime does not run a model. The message is its own."""


def onnxruntime_on(provider: str) -> Run:
    """onnxruntime with one of its execution providers, such as CPUExecutionProvider or DmlExecutionProvider.

    RuntimeFailed if there is no such provider, or if it does not run the model.
    """
    import onnxruntime as ort

    names = {name.removesuffix("ExecutionProvider").lower(): name for name in ort.get_available_providers()}
    found = names.get(provider.removesuffix("ExecutionProvider").lower())
    if found is None:
        raise RuntimeFailed(f"onnxruntime has no provider {provider} here; it has {', '.join(names.values())}")

    def run(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=[found])
            outputs = [output.name for output in session.get_outputs()]
            read = {x.name for x in session.get_inputs()}
            made = session.run(outputs, {name: x for name, x in inputs.items() if name in read})
        except Exception as error:  # classes of onnxruntime's own, which have no common base
            raise RuntimeFailed(f"onnxruntime ({found}) does not run the model: {error}") from None
        return dict(zip(outputs, made, strict=True))

    return run


def onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model, computed by onnxruntime's CPU provider with its default optimisations."""
    made = onnxruntime_on("CPU")(model, inputs)
    assert isinstance(made, dict)
    return made


def recorded(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Recorded tensors by name: a folder of files, or one file.

    .npy: a tensor with the file's name, in which a / may be a folder or %2F. .pb: a TensorProto, by its own name. .npz: tensors
    by their names there. .json: the first results that Polygraphy has saved. .pt, .pth: a dict of tensors that torch.save has
    written; torch reads it. BindingError for what cannot be read.
    """
    root = Path(path)
    found: dict[str, Array] = {}
    faults = []
    for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
        name = (file.relative_to(root) if root.is_dir() else Path(file.name)).with_suffix("").as_posix().replace("%2F", "/")
        try:
            if file.suffix == ".npy":
                found[name] = np.load(file, allow_pickle=False)
            elif file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as arrays:
                    found |= {key.replace("%2F", "/"): arrays[key] for key in arrays.files}
            elif file.suffix == ".pb":
                tensor = TensorProto.FromString(file.read_bytes())
                found[tensor.name or name] = numpy_helper.to_array(tensor)
            elif file.suffix == ".json":
                found |= _of_polygraphy(json.loads(file.read_bytes()))
            elif file.suffix in (".pt", ".pth"):
                found |= _of_torch(file)
        except (OSError, ValueError, TypeError, EOFError, BadZipFile, DecodeError, RuntimeError, UnpicklingError) as error:
            faults.append(Fault(str(file), f"cannot be read as tensors: {error}"))
    if not root.exists():
        faults = [Fault(str(root), "is neither a folder nor a file")]
    elif not found and not faults:
        kinds = ".npy, .npz, .pb, .pt or Polygraphy's .json"
        faults.append(Fault(str(root), f"has no tensors: there is no file of the kinds {kinds}"))
    if faults:
        raise BindingError(faults)
    return found


def _of_polygraphy(saved: Any) -> dict[str, Array]:
    """The outputs of the first iteration of the first runner in `RunResults` that Polygraphy has saved."""
    if not isinstance(saved, dict) or saved.get("polygraphy_class") != "RunResults":
        raise ValueError("it is not a RunResults of Polygraphy")
    found = {}
    try:
        for name, x in saved["lst"][0][1][0]["outputs"].items():
            found[name] = np.load(BytesIO(b64decode(x.get("values", x)["array"])), allow_pickle=False)
    except (LookupError, AttributeError):
        raise ValueError("its results lack a runner, an iteration or an array") from None
    return found


def _of_torch(file: Path) -> dict[str, Array]:
    """The tensors of a dict that torch.save has written."""
    if find_spec("torch") is None:
        raise ValueError("torch, which reads it, is not installed (pip install torch); .npz files need nothing")
    import torch

    saved = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(saved, Mapping) or not all(isinstance(x, torch.Tensor) for x in saved.values()):
        raise ValueError("it is not a dict of tensors by name")
    return {str(name): x.detach().contiguous().numpy() for name, x in saved.items()}


def named_as(found: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Recorded tensors under a model's names.

    A file may have _ in place of characters that file systems do not allow. The names of TensorFlow's tensors may lack their
    end, such as :0. The output of a module of PyTorch may have the module's name, layer1.0.conv1, for
    /layer1/layer1.0/conv1/Conv_output_0.
    """
    plain: dict[str, list[str]] = {}
    modules: dict[str, str] = {}  # a module's output is the last tensor that it computes
    for name in names:
        for key in dict.fromkeys((_plain(name), _plain(name.split(";")[0].split(":")[0]))):
            plain.setdefault(key, []).append(name)
        if (module := _module(name)) is not None:
            modules[module] = name
    taken = set(found)
    made = {}
    for name, x in found.items():
        meant = plain.get(_plain(name)) or plain.get(_plain(name.split(";")[0].split(":")[0])) or []
        other = meant[0] if len(meant) == 1 else modules.get(name) if not meant else None
        made[name if name in meant or other is None or other in taken else other] = x
    return made


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", name).strip("_")


def _module(name: str) -> str | None:
    """The module of PyTorch that computes a tensor of an exported model."""
    if (found := re.fullmatch(r"/(.+)/\w+_output_\d+", name)) is None:
        return None
    module = ""
    for part in found[1].split("/"):
        module = part if not module or part.startswith(f"{module}.") else f"{module}.{part}"
    return module


def drawn(model: Model, seed: int, sizes: Mapping[str, Any]) -> dict[str, Array]:
    """Random inputs: normally distributed floats, 8-bit integers of the whole range, other integers from 0 to 7, and booleans.

    Integers that a Gather of a constant reads as indices are drawn from all that it has. sizes: numbers by name, or all sizes
    of an input by its name; a size that is not given is 1. BindingError if an input has another number of sizes.
    """
    from anydml.onnx.types import BOOL, DTYPES

    random = np.random.default_rng(seed)
    indices = _indices(model.proto)
    found: dict[str, Any] = {}
    for name, signature in model.inputs.items():
        shape = [n if isinstance(n, int) else sizes.get(n or "", 1) for n in signature.sizes or ()]
        if name in sizes and name not in (signature.sizes or ()):
            own = np.atleast_1d(sizes[name]).tolist()
            if signature.sizes is not None and len(own) != len(shape):
                raise BindingError([Fault(name, f"has {len(shape)} sizes; --size {name}= gives {len(own)}")])
            shape = own
        dtype = np.dtype(DTYPES[signature.element_type])
        if signature.element_type == BOOL:
            found[name] = random.integers(0, 2, shape).astype(np.bool_)
        elif dtype.kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        elif dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            found[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        else:
            found[name] = random.integers(0, min(indices.get(name, RANDOM_INDICES), np.iinfo(dtype).max), shape).astype(dtype)
    return found


def _indices(proto: ModelProto) -> dict[str, int]:
    """How many elements there are to choose from, by the name of an input that holds indices of them."""
    dims = {t.name: tuple(t.dims) for t in proto.graph.initializer}
    source = {x.name: x.name for x in proto.graph.input}  # the input that a tensor's elements come from
    found: dict[str, int] = {}
    for node in proto.graph.node:
        if node.op_type in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze") and node.input[0] in source:
            source[node.output[0]] = source[node.input[0]]
        elif node.op_type == "Gather" and node.input[0] in dims and node.input[1] in source:
            sizes, axis = dims[node.input[0]], next((a.i for a in node.attribute if a.name == "axis"), 0)
            name = source[node.input[1]]
            if -len(sizes) <= axis < len(sizes):
                found[name] = min(found.get(name, sizes[axis]), sizes[axis])
    return {name: max(n, 1) for name, n in found.items()}
