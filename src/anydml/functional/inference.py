"""Inference from an operator's spec: the names of arguments, which tensors have equal sizes or types, what must be given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from anydml.schema.desc import Desc
from anydml.schema.field import Field
from anydml.schema.kinds import DATA_TYPE
from anydml.schema.spec import OperatorSpec
from anydml.spelling import snake_case
from anydml.tensor import DataType

SPECIAL = ("SLICE", "SLICE1", "MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY")  # with plans of their own


def argument(field: Field) -> str:
    """The name of a tensor in calls: `InputTensors` is `inputs`, `AScaleTensor` is `a_scale`."""
    return field.name.removesuffix("_tensor").replace("_tensors", "s")


def equal(spec: OperatorSpec, aspect: str) -> list[tuple[str, ...]]:
    """The sets of tensors, by field, that must have equal "Sizes", "DataType" or another aspect."""
    rules = [r for r in spec.constraints if r.name.startswith(f"same_{snake_case(aspect)}")]
    return [
        tuple(snake_case(p.removesuffix(f".{aspect}")) for p in r.paths)
        for r in rules
        if all(p.endswith(f".{aspect}") for p in r.paths)
    ]


def outputs_name(cls: type[Desc]) -> str:
    """The name of the class of an operator's outputs, if it has several."""
    return f"{cls.__name__}Outputs"


@cache
def outputs_type(cls: type[Desc]) -> Any:
    """The class of an operator's outputs, a named tuple."""
    arrays = "NDArray[Any]", "list[NDArray[Any]]"
    members = [(argument(f), arrays[f.sized_by is not None] + (" | None" if f.optional else "")) for f in cls.spec.outputs]
    made = NamedTuple(outputs_name(cls), members)  # type: ignore[misc]  # the members are known at run time
    made.__doc__ = f"The outputs of `{cls.spec.name.lower()}`."
    made.__module__ = "anydml.functional.functions"
    return made


def axis_fields(spec: OperatorSpec) -> Mapping[str, str]:
    """The attributes that are axes -> the tensors whose dimensions they name, by wire name."""
    found = {}
    for rule in spec.constraints:
        if rule.name == "axis_in_range":  # of `schema/rules.py`, where all axes are
            wire, counted = rule.paths
            found[wire] = counted.removesuffix(".DimensionCount")
    return found


def leaves_open(cls: type[Desc], fields: Mapping[str, Any] | None = None) -> tuple[bool, bool]:
    """Whether `outputs` does not determine the sizes of an output, and its data type, so that a call has to give them.

    fields: those of the desc; by default, the first example's.
    """
    desc = cls(**(fields or cls.spec.examples[0].fields))
    known = SimpleNamespace(**{f.name: getattr(desc, f.name) for f in cls.spec.fields if f.role != "output"})
    try:
        inferred: Any = cls.outputs(known)
    except NotImplementedError:
        inferred = {}
    sizes, data_type = False, False
    for f in cls.spec.outputs:
        if f.name in inferred:
            entry = inferred[f.name]
            sizes |= not f.sized_by and entry[0] is None
            data_type |= not f.sized_by and entry[1] is None
        elif not f.optional:
            sizes = True
            data_type |= type_source(cls, f) is None
    return sizes, data_type


def type_source(cls: type[Desc], f: Field) -> DataType | str | None:
    """The data type of an output that is not inferred: the only one allowed, or the field that names or shares it."""
    takes = {t for row in cls.spec.rows if f.wire in row.tensors for t in row.data_types}
    if len(takes) == 1:
        return takes.pop()
    for a in cls.spec.attributes:
        if a.kind is DATA_TYPE:
            return a.name
    inputs = {i.name for i in cls.spec.inputs}
    return next((n for group in equal(cls.spec, "DataType") if f.name in group for n in group if n in inputs), None)
