"""A writer of .tflite files, from the builders of the package `tflite`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import ArrayLike, DTypeLike, NDArray

TYPES = {
    np.dtype(np.float32): "FLOAT32", np.dtype(np.float16): "FLOAT16", np.dtype(np.float64): "FLOAT64",
    np.dtype(np.int8): "INT8", np.dtype(np.uint8): "UINT8", np.dtype(np.int16): "INT16", np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64", np.dtype(np.bool_): "BOOL", np.dtype(np.uint32): "UINT32",
}  # fmt: skip
VERSION = 3


class Writer:
    """Tensors and nodes in order; `model` gives the file."""

    def __init__(self) -> None:
        self.out = flatbuffers.Builder(1024)
        self.buffers: list[bytes] = [b""]
        self.tensors: list[dict[str, Any]] = []
        self.nodes: list[tuple[str, Sequence[int], Sequence[int], tuple[str, dict[str, Any]] | None]] = []

    def tensor(
        self,
        name: str,
        dtype: DTypeLike | str,
        sizes: Sequence[int],
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        axis: int = 0,
        data: NDArray[Any] | bytes | None = None,
        signature: Sequence[int] = (),
    ) -> int:
        """The number of a new tensor. dtype: also the name of a type in the schema. data: the elements of a constant."""
        kind = dtype if isinstance(dtype, str) and dtype in vars(tflite.TensorType) else TYPES[np.dtype(dtype)]
        buffer = 0
        if data is not None:
            self.buffers.append(data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes())
            buffer = len(self.buffers) - 1
        scales = None if scale is None else np.atleast_1d(np.asarray(scale, np.float32))
        zeros = None if scales is None else np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
        self.tensors.append(
            dict(
                name=name, kind=kind, sizes=[*sizes], scales=scales, zeros=zeros, axis=axis, buffer=buffer,
                signature=[*signature],
            )
        )  # fmt: skip
        return len(self.tensors) - 1

    def constant(self, name: str, data: ArrayLike, dtype: DTypeLike | None = None, **more: Any) -> int:
        array = np.asarray(data, dtype)
        return self.tensor(name, array.dtype, array.shape, data=array, **more)

    def node(self, operator: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **members: Any) -> None:
        """Add a node. operator: its name in the schema, or another one for a custom operator; options: their table's name."""
        self.nodes.append((operator, inputs, outputs, (options, members) if options else None))

    def model(self, inputs: Sequence[int], outputs: Sequence[int], names: Sequence[str] = ()) -> bytes:
        """The file. names: those that a signature gives to the inputs and outputs."""
        codes = [*dict.fromkeys(node[0] for node in self.nodes)]
        made = {
            "OperatorCodes": self._tables([self._code(code) for code in codes]),
            "Subgraphs": self._tables([self._graph(codes, inputs, outputs)]),
            "Description": self.out.CreateString("written by a test"),
            "Buffers": self._tables([self._table("Buffer", Data=self._bytes(b)) for b in self.buffers]),
        }
        if names:
            pairs = [*zip(names, (*inputs, *outputs), strict=True)]
            maps = [
                self._tables([self._table("TensorMap", Name=self.out.CreateString(n), TensorIndex=i) for n, i in some])
                for some in (pairs[: len(inputs)], pairs[len(inputs) :])
            ]
            made["SignatureDefs"] = self._tables([self._table("SignatureDef", Inputs=maps[0], Outputs=maps[1])])
        self.out.Finish(self._table("Model", Version=VERSION, **made), b"TFL3")
        return bytes(self.out.Output())

    def _table(self, name: str, **members: Any) -> int:
        module = import_module(f"tflite.{name}")
        getattr(module, f"{name}Start")(self.out)
        for member, value in members.items():
            if value is not None:
                getattr(module, f"{name}Add{member}")(self.out, value)
        return int(getattr(module, f"{name}End")(self.out))

    def _tables(self, offsets: Sequence[int]) -> int:
        self.out.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.out.PrependUOffsetTRelative(offset)
        return int(self.out.EndVector())

    def _vector(self, values: Any, dtype: DTypeLike) -> int:
        array = np.asarray(values, dtype).reshape(-1)
        return int(self.out.CreateNumpyVector(array))

    def _bytes(self, data: bytes) -> int | None:
        return int(self.out.CreateByteVector(data)) if data else None

    def _code(self, operator: str) -> int:
        number = getattr(tflite.BuiltinOperator, operator, tflite.BuiltinOperator.CUSTOM)
        custom = self.out.CreateString(operator) if number == tflite.BuiltinOperator.CUSTOM else None
        return self._table("OperatorCode", DeprecatedBuiltinCode=min(number, 127), CustomCode=custom, BuiltinCode=number)

    def _graph(self, codes: Sequence[str], inputs: Sequence[int], outputs: Sequence[int]) -> int:
        members = {
            "Tensors": self._tables([self._tensor(t) for t in self.tensors]),
            "Operators": self._tables([self._node(codes, *node) for node in self.nodes]),
            "Inputs": self._vector(inputs, np.int32),
            "Outputs": self._vector(outputs, np.int32),
        }
        return self._table("SubGraph", **members)

    def _tensor(self, t: dict[str, Any]) -> int:
        quantisation = None
        if t["scales"] is not None:
            scale, zero = self._vector(t["scales"], np.float32), self._vector(t["zeros"], np.int64)
            quantisation = self._table("QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=t["axis"])
        members = {
            "Shape": self._vector(t["sizes"], np.int32),
            "Name": self.out.CreateString(t["name"]),
            "ShapeSignature": self._vector(t["signature"], np.int32) if t["signature"] else None,
        }
        kind = getattr(tflite.TensorType, t["kind"])
        return self._table("Tensor", Type=kind, Buffer=t["buffer"], Quantization=quantisation, **members)

    def _node(
        self,
        codes: Sequence[str],
        operator: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: tuple[str, dict[str, Any]] | None,
    ) -> int:
        table, kind = None, 0
        if options is not None:
            name, members = options
            held = {k: self._vector(v, np.int32) if isinstance(v, (list, tuple)) else v for k, v in members.items()}
            table, kind = self._table(name, **held), getattr(tflite.BuiltinOptions, name)
        ends = {"Inputs": self._vector(inputs, np.int32), "Outputs": self._vector(outputs, np.int32)}
        return self._table("Operator", OpcodeIndex=codes.index(operator), BuiltinOptionsType=kind, BuiltinOptions=table, **ends)
