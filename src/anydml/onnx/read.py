"""A model read by the onnx package: its graph, its constants, its functions; ModelError if the file holds no model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto, ValueInfoProto

from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, NOT_YET, ModelError, Refusal, Refused, invalid
from anydml.onnx.mend import checkable, mended
from anydml.onnx.nodes import Scope, array_of
from anydml.onnx.types import DTYPES, type_name
from anydml.onnx.values import Array

OLDEST = 6  # opset: many operators have other attributes in older ones
MOST_NODES = 20_000  # nodes of a model at most


class Signature(NamedTuple):
    """An input or an output of a model. sizes: numbers, names, or None for an unknown size; None if all are unknown.

    element_type: UNDEFINED for an output whose type the file does not give.
    """

    name: str
    element_type: int
    sizes: tuple[int | str | None, ...] | None


class Read(NamedTuple):
    """A model that was read.

    constants: the initializers, booleans as UINT8. types: their element types. inputs: those that are not constants. notes:
    what was mended. scope: the names and attributes of its nodes.
    """

    proto: ModelProto
    opsets: dict[str, int]
    constants: dict[str, Array]
    types: dict[str, int]
    inputs: dict[str, Signature]
    outputs: dict[str, Signature]
    functions: dict[tuple[str, str], Any]
    notes: tuple[str, ...] = ()
    scope: Scope = Scope()


def read(source: str | os.PathLike[str] | ModelProto) -> Read:
    """The model of a ModelProto or of a file, whose external data must be in the file's folder."""
    proto = source if isinstance(source, ModelProto) else _file(Path(source))
    if (count := len(proto.graph.node)) > MOST_NODES:
        raise invalid(f"the model has {count} nodes; {MOST_NODES} at most are read")
    if (odd := next((text for text in _texts(proto) if isinstance(text, bytes)), None)) is not None:
        raise invalid(f"{odd!r} is not UTF-8 text")
    proto, notes = mended(proto, not isinstance(source, ModelProto))
    try:
        seen, unseen = checkable(proto)
        onnx.checker.check_model(seen)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise invalid(_first(error)) from None
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if "" in opsets and not OLDEST <= opsets[""] <= newest:
        raise ModelError([Refusal("", "", NOT_YET, f"the model is of opset {opsets['']}; {OLDEST} to {newest} are read")])
    graph = proto.graph
    refusals: list[Refusal] = []
    constants: dict[str, Array] = {}
    types: dict[str, int] = {}
    if graph.sparse_initializer:
        refusals.append(Refusal("", "", NOT_IN_DIRECTML, "the model has sparse constants"))
    for tensor in graph.initializer:
        try:
            constants[tensor.name], types[tensor.name] = _constant(tensor), tensor.data_type
        except Refused as refused:
            refusals.append(Refusal(tensor.name, "initializer", refused.kind, refused.reason))
    inputs = _signatures(graph.input, refusals)
    outputs = {info.name: Signature(info.name, TensorProto.UNDEFINED, None) for info in graph.output}
    outputs |= _signatures([info for info in graph.output if info.type.WhichOneof("value")], refusals, True)
    if refusals:
        raise ModelError(refusals)
    needed = {name: s for name, s in inputs.items() if name not in constants}
    functions = {(f.domain, f.name): f for f in proto.functions}
    return Read(proto, opsets, constants, types, needed, outputs, functions, (*notes, *unseen))


def _constant(tensor: TensorProto) -> Array:
    if tensor.data_location == TensorProto.EXTERNAL:
        raise Refused("its data are in a file, and the model was not read from one", INVALID)
    try:
        return array_of(tensor)
    except (ValueError, TypeError) as error:
        raise Refused(_first(error), INVALID) from None


def constants_of(tensors: Iterable[TensorProto]) -> tuple[dict[str, Array], dict[str, int]]:
    """The constants of a body by name, and their element types; Refused if one cannot be read."""
    found = [(t.name, _constant(t), t.data_type) for t in tensors]
    return {name: x for name, x, _ in found}, {name: kind for name, _, kind in found}


def _file(path: Path) -> ModelProto:
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise invalid(f"{path} is not an ONNX model: {_first(error)}") from None
    if not proto.HasField("graph"):
        raise invalid(f"{path} is not an ONNX model: it has no graph")
    try:
        onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent.resolve()))
    except (onnx.checker.ValidationError, ValueError, OSError) as error:
        raise invalid(f"external data cannot be read: {_first(error)}") from None
    return proto


def _texts(message: Message) -> Iterator[object]:
    """Every text of a message and of the messages in it: str, or bytes if it is not UTF-8."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for one in (value,) if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(one, Message):
                yield from _texts(one)
            else:
                yield one


def _signatures(infos: Any, refusals: list[Refusal], output: bool = False) -> dict[str, Signature]:
    found = {}
    for info in infos:
        if not info.type.HasField("tensor_type"):
            kind = info.type.WhichOneof("value") or "nothing"
            refusals.append(Refusal(info.name, "tensor", NOT_IN_DIRECTML, f"it is {kind.replace('_type', '')}, not a tensor"))
        elif output and not info.type.tensor_type.elem_type:
            found[info.name] = _signature(info)
        elif info.type.tensor_type.elem_type not in DTYPES:
            named = type_name(info.type.tensor_type.elem_type)
            refusals.append(Refusal(info.name, "tensor", NOT_IN_DIRECTML, f"it has elements of {named}"))
        else:
            found[info.name] = _signature(info)
    return found


def _signature(info: ValueInfoProto) -> Signature:
    tensor = info.type.tensor_type
    sizes = None
    if tensor.HasField("shape"):
        sizes = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None for d in tensor.shape.dim
        )
    return Signature(info.name, tensor.elem_type, sizes)


def _first(error: Exception) -> str:
    """The beginning of a message, which may contain a whole node."""
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= 400 else text[:400] + ".."


def given_array(signature: Signature, value: Any) -> Array:
    """An input's array as graphs take it; TypeError or ValueError if it does not fit the model."""
    array = np.asarray(value)
    dtype = DTYPES[signature.element_type]
    if array.dtype == np.bool_ and dtype == np.uint8:
        array = array.view(np.uint8)
    if array.dtype != dtype:
        raise ValueError(f"takes {type_name(signature.element_type)}, not {array.dtype}")
    if signature.sizes is not None:
        fits = len(signature.sizes) == array.ndim and all(
            not isinstance(n, int) or n == m for n, m in zip(signature.sizes, array.shape, strict=False)
        )
        if not fits:
            raise ValueError(f"takes sizes {shown(signature.sizes)}, not {array.shape}")
    return array


def shown(sizes: tuple[int | str | None, ...]) -> str:
    """Sizes as messages print them: (N, 3, ?)."""
    return f"({', '.join('?' if n is None else str(n) for n in sizes)}{',' * (len(sizes) == 1)})"
