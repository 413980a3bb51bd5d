"""Programs made in Python: descs as JSON, calls as programs, programs as folders."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import Slot
from anydml.errors import BindingError, Fault
from anydml.program.files import whole_or_nothing
from anydml.program.model import Given, Resource
from anydml.schema.field import OUTPUT
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc, TensorFlags

FILE = "program.json"
MOST_PRINTED = 256  # elements of an output; a larger one is written to a file
_NUMBERS = re.compile(r"\[\n[^\[\]{}\"]*\]")


def document_of(desc: Desc) -> dict[str, Any]:
    """A desc as a dispatchable of the JSON format, from which the parser makes the same desc."""
    return {"type": desc.spec.wire_name, "desc": desc.document()}


def call(desc: Desc, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """One call as a program's JSON, and the values of its resources; BindingError if the arrays do not fit."""
    resources: dict[str, Any] = {}
    values: dict[str, NDArray[Any]] = {}
    bindings: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    one_by_one = _one_by_one(desc, arrays)
    tensors = {found.name: found for found in desc.tensors()}
    bound = (name for name, array in one_by_one.items() if array is not None)
    faults = [Fault(name, "is not a tensor of the desc") for name in bound if name not in tensors]
    commands: list[dict[str, Any]] = []
    for name, field, tensor in tensors.values():
        wire = name.replace(field.name, field.wire, 1).replace("[", "_").replace("]", "")
        given = bindings[bool(tensor.flags & TensorFlags.OWNED_BY_DML)]
        given[field.wire] = [*given.get(field.wire, ()), wire] if field.sized_by else wire
        packed = tensor.data_type.element_bits == 4  # two elements in a byte
        resource = resources[wire] = {"initialValuesDataType": "UINT8" if packed else tensor.data_type.name}
        if tensor.total > tensor.smallest_total:
            resource["sizeInBytes"] = tensor.total
        if field.role == OUTPUT:
            count = tensor.element_bytes if packed else tensor.span
            resource["initialValues"] = {"value": 0, "valueCount": count}
            commands.append({"type": "print", "resource": wire})
            if count > MOST_PRINTED:
                commands[-1] = {"type": "writeFile", "resource": wire, "targetPath": f"{wire}.npy"}
            continue
        resource["initialValues"] = {"sourcePath": f"{wire}.npy"}
        found = _laid_out(name, tensor, one_by_one.get(name))
        if isinstance(found, Fault):
            faults.append(found)
        else:
            values[wire] = found
    if faults:
        raise BindingError(faults)
    name = desc.spec.name.lower()
    dispatchable = document_of(desc) | ({"bindings": bindings[True]} if bindings[True] else {})
    commands.insert(0, {"type": "dispatch", "dispatchable": name, "bindings": bindings[False]})
    return {"resources": resources, "dispatchables": {name: dispatchable}, "commands": commands}, values


def _one_by_one(desc: Desc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays by tensor; a list for an array of tensors is split into its entries."""
    found: dict[str, Any] = {}
    lists = {f.name for f in desc.spec.tensors if f.sized_by}
    for name, value in arrays.items():
        if name in lists and isinstance(value, (list, tuple)):
            found.update((f"{name}[{i}]", array) for i, array in enumerate(value))
        else:
            found[name] = value
    return found


def _laid_out(name: str, tensor: TensorDesc, array: Any) -> NDArray[Any] | Fault:
    """A copy of an array's elements in the desc's layout, from the first to the last; gaps are 0."""
    if array is None:
        return Fault(name, "is missing")
    explicit = replace(tensor, strides=tensor.explicit_strides, guaranteed_base_offset_alignment=0)
    view = Slot(name, explicit, tensor.total_tensor_size_in_bytes, writable=False).view(array)
    if tensor.data_type.element_bits == 4 and not isinstance(view, Fault):
        return np.array(view)
    elsewhere = isinstance(view, Fault)
    if isinstance(view, Fault):
        if not isinstance(array, np.ndarray) or array.dtype != tensor.data_type.dtype or array.shape != tensor.sizes:
            return view
        view = array  # the tensor's elements in another layout: the copy that initialize keeps of an owned input
    buffer = np.zeros(tensor.span, view.dtype)
    laid = np.ndarray(tensor.sizes, view.dtype, buffer, strides=tuple(s * view.itemsize for s in tensor.explicit_strides))
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in laid.strides)
    laid[once] = view[once]
    if elsewhere and not np.array_equal(laid.view(f"u{view.itemsize}"), view.view(f"u{view.itemsize}")):
        return Fault(name, "has different elements that the desc's strides make the same")
    return buffer


def save(document: dict[str, Any], resources: Mapping[str, Resource], sources: Mapping[str, Path], folder: Path) -> None:
    """Write a program as a folder: program.json, and the files of its resources, which are renamed if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    document = deepcopy(document)
    here = folder.resolve()
    taken = {FILE, *(source.name.lower() for source in sources.values() if source.parent == here)}
    for name, resource in resources.items():
        initial = document["resources"][name]["initialValues"]
        if not isinstance(initial, dict) or "sourcePath" not in initial:
            continue
        source = sources.get(name)
        if source is not None and source.parent == here:
            initial["sourcePath"] = source.name
            continue
        suffix = ".npy" if source is None else source.suffix.lower()
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"
        file = next(f for i in range(len(taken) + 1) if (f := f"{stem}{i or ''}{suffix}").lower() not in taken)
        taken.add(file.lower())
        initial["sourcePath"] = file
        if source is None:
            assert isinstance(resource.values, Given)
            data = resource.values.data
            whole_or_nothing(folder / file, partial(np.save, arr=data, allow_pickle=False))
        else:
            with source.open("rb") as original:
                whole_or_nothing(folder / file, partial(shutil.copyfileobj, original))
    text = _NUMBERS.sub(
        lambda m: re.sub(r"\s*\n\s*", " ", m[0]).replace("[ ", "[").replace(" ]", "]"), json.dumps(document, indent=2)
    )
    whole_or_nothing(folder / FILE, lambda f: f.write((text + "\n").encode()))
