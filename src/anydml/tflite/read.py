"""A .tflite file as tensors and nodes; ModelError if the file holds no model that can be read."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np
import tflite
from numpy.typing import NDArray

from anydml.onnx.errors import INVALID, NOT_IN_DIRECTML, NOT_YET, ModelError, Refusal, Refused, invalid
from anydml.tflite.verify import verify

Array = NDArray[Any]
MOST_NODES = 20_000  # nodes of a model at most
MOST_TENSORS = 100_000  # tensors of a model at most
MOST_DIMENSIONS = 8
MOST_ELEMENTS = 2**46  # elements of a tensor at most
DTYPES: Mapping[int, np.dtype[Any]] = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.FLOAT16: np.dtype(np.float16),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.FLOAT64: np.dtype(np.float64),
    tflite.TensorType.UINT64: np.dtype(np.uint64),
    tflite.TensorType.UINT32: np.dtype(np.uint32),
    tflite.TensorType.UINT16: np.dtype(np.uint16),
    tflite.TensorType.INT4: np.dtype(np.int8),  # constants of 4 bits, unpacked
}


def _named(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


OPERATORS = _named(tflite.BuiltinOperator)
TYPES = _named(tflite.TensorType)
OPTIONS = _named(tflite.BuiltinOptions)
OPTIONS_2 = _named(tflite.BuiltinOptions2)


class Quantisation(NamedTuple):
    """real = (integer - zero_points) * scales, which have one element, or one for each index along the axis."""

    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int


class Tensor(NamedTuple):
    """A tensor. number: its place in the file. sizes: in the file; signature: the same with -1 for a size that may change.

    data: a constant's elements. variable: whether it keeps its elements from one run to the next.
    """

    number: int
    name: str
    type: int
    sizes: tuple[int, ...]
    signature: tuple[int, ...]
    data: Array | None
    quantisation: Quantisation | None
    variable: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """Refused if DirectML has no such type."""
        if (found := DTYPES.get(self.type)) is None:
            raise Refused(f"{self.name} has elements of {TYPES.get(self.type, f'type {self.type}')}")
        return found

    @property
    def quantised(self) -> Quantisation:
        """The quantisation of an integer tensor; Refused if it has none."""
        if self.quantisation is None:
            raise Refused(f"{self.name} has no scale", INVALID)
        return self.quantisation

    @property
    def is_quantised(self) -> bool:
        """Whether it holds integers that stand for other numbers."""
        return self.quantisation is not None and self.type in DTYPES and DTYPES[self.type].kind in "iu"


class Node(NamedTuple):
    """An operator of the graph. number: its place in the file. name: that of its first output.

    inputs, outputs: tensors, None for one that is absent. options: the name of their table, and the table.
    """

    number: int
    name: str
    operator: str
    version: int
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: tuple[str, Any]

    def option(self, name: str, default: Any = 0) -> Any:
        """A member of its options, such as StrideW; the default if it has no options, or none of this name."""
        kind, table = self.options
        if table is None:
            return default
        member = getattr(table, name, None)
        if member is None:
            raise Refused(f"its options are {kind}, which have no {name}", INVALID)
        try:
            return member()
        except (StructError, ValueError):
            raise Refused(f"{name} of its options lies beyond the file", INVALID) from None

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.name for t in self.inputs if t is not None))

    def __str__(self) -> str:
        return f'node "{self.name}" ({self.operator})'


class Read(NamedTuple):
    """A model that was read. inputs, outputs: tensors. aliases: tensors by the names of the file's first signature."""

    data: bytes
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    aliases: Mapping[str, str]
    description: str
    notes: tuple[str, ...]


def read(source: str | os.PathLike[str] | bytes) -> Read:
    """The model of a file or of its contents."""
    data = bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else Path(source).read_bytes()
    verify(data)
    try:
        return _read(data, tflite.Model.GetRootAs(data, 0))
    except (StructError, UnicodeDecodeError) as error:
        raise invalid(f"a part of it cannot be read: {error}") from None


def _read(data: bytes, model: Any) -> Read:
    if model.SubgraphsLength() < 1:
        raise invalid("it has no graph")
    graph = model.Subgraphs(0)
    counts = graph.OperatorsLength(), graph.TensorsLength()
    if counts[0] > MOST_NODES or counts[1] > MOST_TENSORS:
        raise invalid(f"it has {counts[0]} nodes and {counts[1]} tensors; {MOST_NODES} and {MOST_TENSORS} at most are read")
    refusals: list[Refusal] = []
    tensors = _tensors(data, model, graph, refusals)
    nodes = _nodes(model, graph, tensors, refusals)
    inputs, outputs = (_listed(ends, tensors, what, refusals) for ends, what in (
        (_integers(graph, "Inputs"), "input"), (_integers(graph, "Outputs"), "output")
    ))  # fmt: skip
    if refusals:
        raise ModelError(refusals)
    notes = []
    if model.SubgraphsLength() > 1:
        notes.append(f"it has {model.SubgraphsLength()} graphs, of which the first is run")
    aliases = _aliases(model, tensors, len(inputs) + len(outputs))
    return Read(data, tensors, nodes, inputs, outputs, aliases, _text(model.Description()), tuple(notes))


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8")


def _integers(table: Any, name: str) -> Array:
    """A vector of integers; empty if it is absent. The accessors then return 0."""
    found = getattr(table, f"{name}AsNumpy")()
    return found if isinstance(found, np.ndarray) else np.empty(0, np.int64)


def _tensors(data: bytes, model: Any, graph: Any, refusals: list[Refusal]) -> tuple[Tensor, ...]:
    found = []
    taken: set[str] = set()
    for i in range(graph.TensorsLength()):
        table = graph.Tensors(i)
        name = _text(table.Name()) or f"#{i}"
        name = name if name not in taken else f"{name}#{i}"
        taken.add(name)
        try:
            found.append(_tensor(data, model, table, i, name))
        except Refused as refused:
            refusals.append(Refusal(name, "tensor", refused.kind, refused.reason))
            found.append(Tensor(i, name, table.Type(), (), (), None, None, False))
    return tuple(found)


def _tensor(data: bytes, model: Any, table: Any, i: int, name: str) -> Tensor:
    sizes = tuple(map(int, _integers(table, "Shape")))
    signature = tuple(map(int, _integers(table, "ShapeSignature"))) or sizes
    if len(sizes) > MOST_DIMENSIONS:
        raise Refused(f"it has {len(sizes)} dimensions, and DirectML's tensors have {MOST_DIMENSIONS} at most")
    fits = len(signature) == len(sizes) and all(k in (-1, n) for k, n in zip(signature, sizes, strict=True))
    if min(sizes, default=0) < 0 or not fits:
        raise Refused(f"its sizes are {sizes}, its signature is {signature}", INVALID)
    if math.prod(sizes) > MOST_ELEMENTS:
        raise Refused(f"sizes {sizes} are too many elements", INVALID)
    if table.Sparsity() is not None:
        raise Refused("it is sparse")
    made = Tensor(i, name, table.Type(), sizes, signature, None, None, table.IsVariable())
    contents = _contents(data, model, table)
    return made._replace(data=None if contents is None else _elements(made, contents), quantisation=_quantisation(table, sizes))


def _contents(data: bytes, model: Any, table: Any) -> Array | None:
    """The bytes of a constant; None if the tensor is none."""
    number = table.Buffer()
    if number == 0:
        return None
    if number >= model.BuffersLength():
        raise Refused(f"it is in buffer {number}, and the file has {model.BuffersLength()}", INVALID)
    buffer = model.Buffers(number)
    if (offset := buffer.Offset()) > 1:
        if offset + buffer.Size() > len(data):
            raise Refused("its buffer ends beyond the file", INVALID)
        return np.frombuffer(data, np.uint8, buffer.Size(), offset)
    found = buffer.DataAsNumpy()
    return found if isinstance(found, np.ndarray) and found.size else None


def _elements(t: Tensor, contents: Array) -> Array | None:
    if t.type not in DTYPES:
        return None  # nodes that read it are refused
    count = math.prod(t.sizes)
    if t.type == tflite.TensorType.INT4:
        if contents.size != -(-count // 2):
            raise Refused(f"sizes {t.sizes} of INT4 take {-(-count // 2)} bytes, and it has {contents.size}", INVALID)
        halves = np.stack([contents << 4, contents & 0xF0], axis=-1).reshape(-1).view(np.int8) >> 4
        return halves[:count].reshape(t.sizes)
    if contents.size != count * t.dtype.itemsize:
        raise Refused(
            f"sizes {t.sizes} of {TYPES[t.type]} take {count * t.dtype.itemsize} bytes, and it has {contents.size}", INVALID
        )
    found = np.frombuffer(contents.tobytes(), t.dtype.newbyteorder("<")).astype(t.dtype).reshape(t.sizes)
    if t.type == tflite.TensorType.BOOL and contents.max(initial=0) > 1:
        raise Refused("a boolean is neither 0 nor 1", INVALID)
    return found


def _quantisation(table: Any, sizes: Sequence[int]) -> Quantisation | None:
    parameters = table.Quantization()
    scales = np.empty(0, np.float32) if parameters is None else _integers(parameters, "Scale").astype(np.float32)
    if scales.size == 0:
        return None
    zero_points = _integers(parameters, "ZeroPoint").astype(np.int64)
    zero_points = np.zeros(scales.shape, np.int64) if zero_points.size == 0 else zero_points
    axis = int(parameters.QuantizedDimension())
    if parameters.DetailsType() != 0:
        raise Refused("it has a quantisation that no schema describes", NOT_YET)
    if not (np.isfinite(scales) & (scales > 0)).all():
        if table.Type() in (tflite.TensorType.FLOAT32, tflite.TensorType.FLOAT16) or (scales.size == 1 and scales[0] == 0):
            return None  # converters write a scale of 0 for tensors that are not quantised
        raise Refused(f"a scale is {scales[~(np.isfinite(scales) & (scales > 0))][0]}, and must be above 0", INVALID)
    if len(sizes) == 1:
        axis = 0  # converters write the filter's dimension for a bias, too
    if scales.size > 1 and (not 0 <= axis < len(sizes) or sizes[axis] != scales.size):
        raise Refused(f"it has {scales.size} scales along dimension {axis}, and sizes {tuple(sizes)}", INVALID)
    if zero_points.size not in (1, scales.size):
        raise Refused(f"it has {scales.size} scales and {zero_points.size} zero points", INVALID)
    if table.Type() in DTYPES and DTYPES[table.Type()].kind in "iu":
        limits = np.iinfo(DTYPES[table.Type()])
        if zero_points.min() < limits.min or zero_points.max() > limits.max:
            raise Refused(f"its zero point {zero_points[0]} does not fit its type", INVALID)
    return Quantisation(scales, np.broadcast_to(zero_points, scales.shape), axis)


def _nodes(model: Any, graph: Any, tensors: Sequence[Tensor], refusals: list[Refusal]) -> tuple[Node, ...]:
    found: list[Node] = []
    for i in range(graph.OperatorsLength()):
        table = graph.Operators(i)
        if table.OpcodeIndex() >= model.OperatorCodesLength():
            refusals.append(
                Refusal(f"#{i}", "", INVALID, f"its operator is number {table.OpcodeIndex()}, which the file lacks")
            )
            continue
        code = model.OperatorCodes(table.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        operator = OPERATORS.get(number, f"operator {number}")
        if operator == "CUSTOM":
            operator = f"CUSTOM {_text(code.CustomCode())}"
        ends = [_integers(table, which) for which in ("Inputs", "Outputs")]
        if any(e.size and not (e.min() >= -1 and e.max() < len(tensors)) for e in ends) or (ends[1] < 0).any():
            refusals.append(Refusal(f"#{i}", operator, INVALID, "it names a tensor that the file lacks"))
            continue
        inputs, outputs = (tuple(None if k < 0 else tensors[k] for k in e) for e in ends)
        written = tuple(t for t in outputs if t is not None)
        name = written[0].name if written else f"#{i}"
        found.append(Node(i, name, operator, code.Version(), inputs, written, _options(table)))
    return tuple(found)


@lru_cache(maxsize=256)
def _options_class(name: str) -> Any:
    return getattr(tflite, name, None)


def _options(table: Any) -> tuple[str, Any]:
    """The name of a node's options, and their table; None if there are none."""
    for number, names, union in (
        (table.BuiltinOptionsType(), OPTIONS, table.BuiltinOptions()),
        (table.BuiltinOptions2Type(), OPTIONS_2, table.BuiltinOptions2()),
    ):
        made = _options_class(names.get(number, "")) if number and union is not None else None
        if inspect.isclass(made):
            options: Any = made()
            options.Init(union.Bytes, union.Pos)
            return names[number], options
    return "", None


def _listed(ends: Array, tensors: Sequence[Tensor], what: str, refusals: list[Refusal]) -> tuple[Tensor, ...]:
    found = []
    for k in dict.fromkeys(map(int, ends)):
        if not 0 <= k < len(tensors):
            refusals.append(Refusal("", what, INVALID, f"it is tensor {k}, and the file has {len(tensors)}"))
        elif tensors[k].type not in DTYPES:
            named = TYPES.get(tensors[k].type, f"type {tensors[k].type}")
            refusals.append(Refusal(tensors[k].name, what, NOT_IN_DIRECTML, f"it has elements of {named}"))
        else:
            found.append(tensors[k])
    return tuple(found)


def _aliases(model: Any, tensors: Sequence[Tensor], most: int) -> dict[str, str]:
    """The names that the first signature gives to inputs and outputs."""
    if model.SignatureDefsLength() < 1:
        return {}
    signature = model.SignatureDefs(0)
    found: dict[str, str] = {}
    for count, entry in (
        (signature.InputsLength(), signature.Inputs), (signature.OutputsLength(), signature.Outputs)
    ):  # fmt: skip
        for k in range(min(count, most)):
            index, name = entry(k).TensorIndex(), _text(entry(k).Name())
            if name and index < len(tensors):
                found.setdefault(name, tensors[index].name)
    return found
