"""Files of recorded tensors."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from anydml.errors import BindingError, Fault
from anydml.onnx.values import Array


def recorded(path: str | os.PathLike[str], of_pb: Callable[[bytes], tuple[str, Array]] | None = None) -> dict[str, Array]:
    """Recorded tensors by name: a folder of files, or one file.

    .npy: a tensor with the file's name, in which a / may be a folder or %2F. .npz: tensors by their names there. .json: the
    first results that Polygraphy has saved. .pt, .pth: a dict of tensors that torch.save has written; torch reads it. of_pb:
    reads the name and the elements of a .pb file; without it, such files are passed over. BindingError for what cannot be read.
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
            elif file.suffix == ".pb" and of_pb is not None:
                own, array = of_pb(file.read_bytes())
                found[own or name] = array
            elif file.suffix == ".json":
                found |= _of_polygraphy(json.loads(file.read_bytes()))
            elif file.suffix in (".pt", ".pth"):
                found |= _of_torch(file)
        except (OSError, ValueError, TypeError, EOFError, BadZipFile, RuntimeError, UnpicklingError) as error:
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
