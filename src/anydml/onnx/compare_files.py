"""Files of recorded tensors."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from anydml.errors import BindingError, Fault
from anydml.onnx.values import Array


def recorded(path: str | os.PathLike[str], of_pb: Callable[[bytes], tuple[str, Array]] | None = None) -> dict[str, Array]:
    """Recorded tensors by name: a folder of files, or one file.

    .npy: a tensor with the file's name, in which a / may be a folder or %2F. .npz: tensors by their names there. .json: the
    first results that Polygraphy has saved. of_pb: reads the name and the elements of a .pb file; without it, such files are
    passed over. BindingError for what cannot be read.
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
        except (OSError, ValueError, TypeError, EOFError, BadZipFile) as error:
            faults.append(Fault(str(file), f"cannot be read as tensors: {error}"))
    if not root.exists():
        faults = [Fault(str(root), "is neither a folder nor a file")]
    elif not found and not faults:
        faults.append(Fault(str(root), "has no tensors: neither .npy, .npz or .pb files, nor a .json file of Polygraphy"))
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


def named_as(found: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """Recorded tensors under a model's names. A file may have _ in place of characters that file systems do not allow."""
    plain: dict[str, list[str]] = {}
    for name in names:
        plain.setdefault(_plain(name), []).append(name)
    made = {}
    for name, x in found.items():
        meant = plain.get(_plain(name), [])
        made[name if name in meant or len(meant) != 1 else meant[0]] = x
    return made


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", name).strip("_")
