"""Other runtimes: runs of onnxruntime, and recorded tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from anydml.devices.device import Device
from anydml.errors import BindingError, Error, Fault
from anydml.onnx import compare_files as files
from anydml.onnx.model import Model, load
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


def on_device(device: Device) -> Run:
    """A device of anydml's own, such as "opencl", as a runtime. ModelError if it does not run a model."""
    return lambda model, inputs: load(model).run(inputs, device=device)


def onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model, computed by onnxruntime's CPU provider with its default optimisations."""
    made = onnxruntime_on("CPU")(model, inputs)
    assert isinstance(made, dict)
    return made


def recorded(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Recorded tensors by name, as in `compare_files.recorded`; .pb files have a TensorProto, by its own name."""
    return files.recorded(path, _of_proto)


def _of_proto(data: bytes) -> tuple[str, Array]:
    try:
        tensor = TensorProto.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return tensor.name, numpy_helper.to_array(tensor)


def drawn(model: Model, seed: int, sizes: Mapping[str, Any]) -> dict[str, Array]:
    """Random inputs: normally distributed floats, 8-bit integers of the whole range, other integers from 0 to 7, and booleans.

    Integers that a Gather of a constant reads as indices are drawn from all that it has. sizes: numbers by name, or all sizes
    of an input by its name; a size that is not given is 1. BindingError if an input has another number of sizes.
    """
    from anydml.onnx.types import BOOL, DTYPES
    from anydml.onnx.values import is_float

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
        elif is_float(dtype):
            found[name] = random.standard_normal(shape).astype(dtype)
        elif dtype.itemsize == 1:
            limits = np.iinfo(dtype)
            found[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        else:
            found[name] = random.integers(0, min(indices.get(name, RANDOM_INDICES), np.iinfo(dtype).max), shape).astype(dtype)
    return found


def _indices(proto: ModelProto) -> dict[str, int]:
    """The number of elements to choose from, by the name of an input that holds indices of them."""
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
