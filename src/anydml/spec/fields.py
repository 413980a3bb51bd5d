"""The fields of an operator desc: role, wire type and meaning, attached to the dataclass that is the desc."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from anydml.names import snake_case

INPUT, OUTPUT, ATTRIBUTE = "input", "output", "attribute"
RANGES = {"UINT": range(2**32), "INT": range(-(2**31), 2**31)}


class Field(NamedTuple):
    """A field as the header declares it.

    wire: its name there. role: input, output or attribute. wire_type: DML_TENSOR_DESC, UINT or INT. sized_by: the count
    field of an array. optional: may be absent. meaning: one line.
    """

    wire: str
    role: str
    wire_type: str
    meaning: str
    optional: bool = False
    sized_by: str | None = None

    @property
    def name(self) -> str:
        return snake_case(self.wire)

    @property
    def is_tensor(self) -> bool:
        return self.role != ATTRIBUTE


def _declare(field: Field, default: Any = dataclasses.MISSING) -> Any:
    return dataclasses.field(default=default, metadata={"field": field})


def input_tensor(wire: str, meaning: str) -> Any:
    return _declare(Field(wire, INPUT, "DML_TENSOR_DESC", meaning))


def optional_input_tensor(wire: str, meaning: str) -> Any:
    return _declare(Field(wire, INPUT, "DML_TENSOR_DESC", meaning, optional=True), None)


def output_tensor(wire: str, meaning: str) -> Any:
    return _declare(Field(wire, OUTPUT, "DML_TENSOR_DESC", meaning))


def count(wire: str, meaning: str) -> Any:
    """A UINT that counts the entries of array fields; left out in Python, it is their length."""
    return _declare(Field(wire, ATTRIBUTE, "UINT", meaning), None)


def array(wire: str, wire_type: str, sized_by: str, meaning: str) -> Any:
    """An array of UINT or INT with as many entries as the field `sized_by` says."""
    return _declare(Field(wire, ATTRIBUTE, wire_type, meaning, sized_by=sized_by))
