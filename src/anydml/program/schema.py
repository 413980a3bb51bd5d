"""The JSON Schema of programs, for editors and for programs that write programs: what `parse` takes, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anydml import operators
from anydml.devices.device import ExecutionFlags
from anydml.schema.field import Field
from anydml.schema.kinds import BOOL, FLOAT, INT, UINT, Enumerated, Kind, OperatorDesc, Pair, Scalar
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorFlags

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
PREFIX, TYPE = "DML_OPERATOR_", "DML_TENSOR_DATA_TYPE_"
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}


def program_schema() -> Schema:
    """The schema of a program (JSON Schema, draft 2020-12), with a definition of the desc of every operator.

    It says what can be said of each value alone. What `check` says of values together, such as equal sizes, it does not.
    """
    every = list(operators.every())
    cases = [
        {
            "if": {"properties": {"type": _named(o.spec.name, PREFIX)}, "required": ["type"]},
            "then": {"properties": {name: {"$ref": f"#/$defs/{o.spec.name}"} for name in ("desc", "Desc")}},
        }
        for o in every
    ]
    names = [name for o in every for name in _named(o.spec.name, PREFIX)["enum"]]
    return {
        "$schema": DRAFT,
        "title": "A program of DxDispatch, as anydml runs it",
        "type": "object",
        "required": ["resources", "dispatchables", "commands"],
        "properties": {
            "resources": {"type": "object", "additionalProperties": {"$ref": "#/$defs/resource"}},
            "dispatchables": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {
                        "type": {"enum": names},
                        "executionFlags": _flags(ExecutionFlags, "DML_EXECUTION_FLAG_"),
                        "dmlCompileType": {"enum": ["DmlCompileOp", "DmlCompileGraph"]},
                        "bindings": {"$ref": "#/$defs/bindings"},
                    },
                    "allOf": cases,
                },
            },
            "commands": {"type": "array", "items": {"$ref": "#/$defs/command"}},
        },
        "$defs": {
            **_common(),
            **{o.spec.name: _desc(o) for o in every},
            **{f"{o.spec.name}-fused": _fused(o) for o in _fusable()},
        },
    }


def _named(name: str, prefix: str) -> Schema:
    return {"enum": [name, prefix + name]}


def _choice(names: Iterable[str], prefix: str) -> Schema:
    return {"enum": [spelled for name in names for spelled in (name, prefix + name)]}


def _flags(flags: Any, prefix: str) -> Schema:
    one = _choice(flags.__members__, prefix)
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _fusable() -> list[type[Desc]]:
    return [o for o in operators.every() if o.spec.fusable]


def _desc(operator: type[Desc]) -> Schema:
    required = [f.wire for f in operator.spec.fields if not f.optional]
    return {"type": "object", "required": required, "properties": {f.wire: _field(f) for f in operator.spec.fields}}


def _fused(operator: type[Desc]) -> Schema:
    """An activation as a field: its fields beside its type, or under Desc; without tensors."""
    fields = {f.wire: _field(f) for f in operator.spec.fields if not f.is_tensor}
    return {"type": "object", "properties": {"Type": _named(operator.spec.name, PREFIX), **fields, "Desc": {"type": "object"}}}


def _field(f: Field) -> Schema:
    one = {"$ref": "#/$defs/tensor"} if f.is_tensor or f.kind is None else _value(f.kind)
    found: Schema = {"type": "array", "items": one} if f.sized_by else one
    if f.optional:
        found = {"anyOf": [found, {"type": "null"}]}
    return {**found, "description": f.meaning}


def _value(kind: Kind) -> Schema:
    if kind in (UINT, INT):
        low, high = (0, 2**32 - 1) if kind is UINT else (-(2**31), 2**31 - 1)
        return {"type": "integer", "minimum": low, "maximum": high}
    if kind is FLOAT:
        return NUMBER
    if kind is BOOL:
        return {"enum": [True, False, 0, 1]}
    if isinstance(kind, Enumerated):
        return _choice(kind.enumeration.__members__, f"{kind.wire}_")
    if isinstance(kind, Pair):
        of = _value(UINT if kind.wire == "DML_SIZE_2D" else FLOAT)
        names = [name.capitalize() for name in kind._made._fields]
        return {"type": "object", "required": names, "properties": dict.fromkeys(names, of)}
    if isinstance(kind, OperatorDesc):
        return {"anyOf": [{"$ref": f"#/$defs/{o.spec.name}-fused"} for o in _fusable()]}
    assert isinstance(kind, Scalar), kind
    return {"anyOf": [NUMBER, {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": NUMBER}]}


def _common() -> dict[str, Schema]:
    sizes: Schema = {"type": "array", "items": {"type": "integer"}}
    binding: Schema = {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "elementOffset": {"type": "integer", "minimum": 0},
                    "elementSizeInBytes": {"type": "integer", "minimum": 0},
                },
            },
        ]
    }
    types = [t.name for t in DataType if t.element_bits != 4]
    tensor: Schema = {
        "type": "object",
        "required": ["DataType", "Sizes"],
        "properties": {
            "DataType": _choice(DataType.__members__, TYPE),
            "Sizes": sizes,
            "Strides": sizes,
            "DimensionCount": {"type": "integer"},
            "Flags": _flags(TensorFlags, "DML_TENSOR_FLAG_"),
            "TotalTensorSizeInBytes": {"type": "integer", "minimum": 0},
            "GuaranteedBaseOffsetAlignment": {"type": "integer", "minimum": 0},
        },
    }
    return {
        "tensor": {
            "anyOf": [tensor, {"type": "object", "required": ["Desc"], "properties": {"Type": _buffer(), "Desc": tensor}}]
        },
        "bindings": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"$ref": "#/$defs/binding"}, {"type": "array", "items": {"$ref": "#/$defs/binding"}}]
            },
        },
        "binding": binding,
        "resource": {
            "type": "object",
            "required": ["initialValues"],
            "properties": {
                "initialValuesDataType": _choice(types, TYPE),
                "initialValues": {
                    "anyOf": [
                        {"type": "array", "minItems": 1},
                        {"type": "object", "required": ["value", "valueCount"]},
                        {"type": "object", "required": ["valueStart", "valueDelta", "valueCount"]},
                        {"type": "object", "required": ["sourcePath"]},
                    ]
                },
                "sizeInBytes": {"type": "integer", "minimum": 0},
                "initialValuesOffsetInBytes": {"type": "integer", "minimum": 0},
                "resampleSize": sizes,
                "resampleMode": {"const": "scale"},
            },
        },
        "command": {
            "anyOf": [
                {
                    "type": "object",
                    "required": ["type", "dispatchable", "bindings"],
                    "properties": {
                        "type": {"pattern": "^[Dd]ispatch$"},
                        "dispatchable": {"type": "string"},
                        "bindings": {"$ref": "#/$defs/bindings"},
                    },
                },
                {
                    "type": "object",
                    "required": ["type", "resource"],
                    "properties": {
                        "type": {"pattern": "^[Pp]rint$"},
                        "resource": {"type": "string"},
                        "verbose": {"type": "boolean"},
                    },
                },
                {
                    "type": "object",
                    "required": ["type", "resource", "targetPath"],
                    "properties": {
                        "type": {"pattern": "^[Ww]rite[Ff]ile$"},
                        "resource": {"type": "string"},
                        "targetPath": {"type": "string"},
                        "dimensions": sizes,
                    },
                },
            ]
        },
    }


def _buffer() -> Schema:
    return _choice(["BUFFER"], "DML_TENSOR_TYPE_")
