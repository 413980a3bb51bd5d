"""ONNX's element types: those that DirectML has, and the types of a node's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from anydml.onnx.errors import Refused

BOOL = TensorProto.BOOL
DTYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.DOUBLE: np.dtype(np.float64),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.UINT32: np.dtype(np.uint32),
    TensorProto.UINT64: np.dtype(np.uint64),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.BOOL: np.dtype(np.uint8),  # booleans are 0 and 1
    TensorProto.INT4: np.dtype(ml_dtypes.int4),
    TensorProto.UINT4: np.dtype(ml_dtypes.uint4),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
EIGHT_BIT_FLOATS = frozenset(
    {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ}
)
FOUR_BIT = frozenset({TensorProto.INT4, TensorProto.UINT4})
_BY_DTYPE = {dtype: kind for kind, dtype in DTYPES.items() if kind != BOOL} | {np.dtype(np.bool_): BOOL}


def type_name(element_type: int) -> str:
    """ONNX's name of an element type, FLOAT for instance."""
    try:
        return str(TensorProto.DataType.Name(element_type))
    except ValueError:
        return f"element type {element_type}"


def dtype_of(element_type: int) -> np.dtype[Any]:
    """The dtype of an element type; Refused if there is no such type here."""
    if (dtype := DTYPES.get(element_type)) is None:
        raise Refused(f"it has tensors of {type_name(element_type)}")
    return dtype


def type_of(array: NDArray[Any]) -> int:
    """The element type of an array; Refused if there is no such type here."""
    if (found := _BY_DTYPE.get(array.dtype)) is None:
        raise Refused(f"it has tensors of {array.dtype}")
    return found


ANY_TYPES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators whose schema does not relate the types of their inputs and outputs."""


@lru_cache(maxsize=4096)
def schema_of(domain: str, operator: str, version: int) -> Any:
    """The schema of an operator in an operator set; None if ONNX has none."""
    try:
        return onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return None


def output_types(schema: Any, attributes: Mapping[str, Any], given: Sequence[int | None], count: int) -> list[int | None]:
    """The element types of a node's outputs by its schema; None for those that the schema does not determine.

    given: the element types of its inputs.
    """
    if schema is None or schema.name in ANY_TYPES:
        return [None] * count
    bound: dict[str, int] = {}
    for i, element_type in enumerate(given):
        slot = schema.inputs[min(i, len(schema.inputs) - 1)] if schema.inputs else None
        if slot is not None and element_type is not None:
            bound.setdefault(slot.type_str, element_type)
    found: list[int | None] = []
    for i in range(count):
        slot = schema.outputs[min(i, len(schema.outputs) - 1)]
        if slot.type_str in bound:
            found.append(bound[slot.type_str])
        elif len(slot.types) == 1 and (named := next(iter(slot.types))).startswith("tensor("):
            found.append(_NAMED.get(named))
        elif isinstance(attributes.get("to"), int) and schema.name == "Cast":
            found.append(attributes["to"])
        else:
            found.append(None)
    return found


_NAMED = {
    f"tensor({name})": kind
    for name, kind in (
        ("bool", TensorProto.BOOL), ("float", TensorProto.FLOAT), ("int64", TensorProto.INT64),
        ("int32", TensorProto.INT32), ("uint8", TensorProto.UINT8),
    )
}  # fmt: skip
