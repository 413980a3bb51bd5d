"""Operators as classes of descs: wire name, fields, support rows, rules, statement, examples, and the page's errata."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from anydml.feature_level import FeatureLevel
from anydml.schema import field as fields
from anydml.schema.constraint import Constraint, DataRule
from anydml.schema.desc import Desc, Outputs
from anydml.schema.field import OUTPUT
from anydml.schema.spec import Example, OperatorSpec, Rejects

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda decorator: decorator


D = TypeVar("D", bound="Desc")


def rejects(constraint: str, *, at: FeatureLevel = FeatureLevel.FL_6_4, strict: bool = False, **fields: Any) -> Rejects:
    return Rejects(constraint, fields, at, strict)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(
    fields.input, fields.output, fields.attribute, fields.count, fields.scalar,
))  # fmt: skip
def operator(
    wire_name: str,
    number: int,
    since: FeatureLevel,
    *,
    in_place: tuple[str, ...] = (),
    fusable: bool = False,
    fused_by: Mapping[str, FeatureLevel] | None = None,
    page_name: str = "",
) -> Callable[[type[D]], type[D]]:
    """Make a class an operator's desc; its body holds fields, rows, rules, statement, examples, rejecting and errata.

    `eight_bit_floats`, if it is there, names the tensors that may have 8-bit floats at `FeatureLevel.EXTENDED`.
    """

    def declare(cls: type[D]) -> type[D]:
        made_class = dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        members = vars(cls)
        missing = [name for name in ("rows", "examples", "rejecting", "errata") if name not in members]
        if "statement" not in members and "as_newest" not in members:
            missing.append("statement")
        if missing:
            raise TypeError(
                f"{wire_name}: its class lacks {', '.join(missing)}; of rejecting and errata, () says that there are none"
            )
        declared = tuple(f.metadata["field"] for f in dataclasses.fields(made_class))
        if fusable:  # as a fused activation it has no tensors; otherwise it has all
            declared = tuple(f._replace(optional=False) if f.is_tensor else f for f in declared)
        constraints = tuple(
            rule for m in members.values() for rule in (m if isinstance(m, tuple) else (m,)) if isinstance(rule, Constraint)
        )
        outputs = [f.name for f in declared if f.role == OUTPUT]
        cls.spec = OperatorSpec(
            wire_name.removeprefix("DML_OPERATOR_"),
            number,
            since,
            (cls.__doc__ or "").strip(),
            declared,
            members["rows"],
            constraints,
            tuple(m for m in members.values() if isinstance(m, DataRule)),
            tuple(
                e if isinstance(e.outputs, Mapping) else e._replace(outputs={outputs[0]: e.outputs})
                for e in members["examples"]
            ),
            members["rejecting"],
            members["errata"],
            in_place,
            fusable,
            fused_by or {},
            page_name,
            tuple(members.get("eight_bit_floats", "").split()),
        )
        return made_class

    return declare


def defaults(**entries: tuple[str, Callable[[Any], Any]]) -> Mapping[str, tuple[str, Callable[[Any], Any]]]:
    """The `eager` of an operator: attribute -> its default, in words and as a function of the inputs."""
    return entries


def like(name: str) -> Callable[[Any], Outputs]:
    """The `outputs` of an operator whose one output has an input's sizes and data type."""

    def outputs(d: Any) -> Outputs:
        t = getattr(d, name)
        return {"output_tensor": (t.sizes, t.data_type)}

    return outputs


def example_desc(cls: type[D], changes: Mapping[str, Any] | None = None) -> D:
    """The desc of the operator's first example, with some fields changed."""
    desc = cls(**cls.spec.examples[0].fields)
    return replace(desc, **changes) if changes else desc


def rejections(cls: type[Desc]) -> tuple[Rejects, ...]:
    """Examples that each break one rule of an operator: those in its file, and those made from its rules and level."""
    spec = cls.spec
    given = {r.constraint for r in spec.rejecting}
    desc = example_desc(cls)
    made = [
        Rejects(r.name, r.breaks(desc), _level_below(r.before), r.extension)
        for r in spec.rules
        if r.breaks is not None and r.name not in given
    ]
    if "available" not in given and spec.since > min(FeatureLevel):
        made.insert(0, Rejects("available", {}, _level_below(spec.since)))
    return (*spec.rejecting, *made)


def _level_below(level: FeatureLevel | None) -> FeatureLevel:
    """The newest level below another; for None, the newest of all."""
    return max(other for other in FeatureLevel if level is None or other < level)


__all__ = [
    "Desc", "Example", "Outputs", "Rejects", "defaults", "example_desc", "like", "operator", "rejections", "rejects",
]  # fmt: skip
