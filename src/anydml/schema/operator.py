"""Operator descs as classes: wire name, fields, support rows, rules, statement, examples, and the page's errata."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from numpy.typing import NDArray

from anydml.computed import computed_once
from anydml.feature_level import FeatureLevel
from anydml.names import snake_case
from anydml.schema import field as fields
from anydml.schema.constraint import DIMENSION, Constraint, DataRule
from anydml.schema.field import ATTRIBUTE, INPUT, OUTPUT, Field
from anydml.schema.kinds import Scalar
from anydml.schema.support import Support, Table, tabulate
from anydml.tensor import DataType, TensorDesc

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    from anydml.schema.statement import State
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda decorator: decorator


D = TypeVar("D", bound="Desc")
Sizes = tuple[int, ...]
Predicate = Callable[..., bool]
_ByEntry = tuple[tuple[str, Predicate], ...]  # each with its array
Outputs = Mapping[str, Any]  # output field -> (sizes, data type), or a tuple of those for an array of tensors


class Example(NamedTuple):
    """Field values, input data and the outputs that must come of them: a test, and the documentation's example.

    outputs: by field name; an array alone where the operator has one output.
    """

    title: str
    fields: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Any

    @property
    def output(self) -> NDArray[Any]:
        """The output of an operator that has one."""
        (output,) = self.outputs.values()
        return output  # type: ignore[no-any-return]  # the mapping is the decorator's


class Rejects(NamedTuple):
    """Changes to the first example's fields that break exactly one rule; `at` is the level, `strict` as for `check`."""

    constraint: str
    fields: Mapping[str, Any]
    at: FeatureLevel = FeatureLevel.FL_6_4
    strict: bool = False


def rejects(constraint: str, *, at: FeatureLevel = FeatureLevel.FL_6_4, strict: bool = False, **fields: Any) -> Rejects:
    return Rejects(constraint, fields, at, strict)


class TensorField(NamedTuple):
    """A tensor that a desc has. name: of its field, with the index in an array of tensors, `input_tensors[1]`."""

    name: str
    field: Field
    desc: TensorDesc


@dataclass(frozen=True, kw_only=True, eq=False)
class Desc(ABC):
    """The desc of an operator: frozen and hashable, equal where all fields are, floats by their bits.

    Construction converts; `check` judges.
    """

    spec: ClassVar[OperatorSpec]
    statement: ClassVar[State]
    eager: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {}  # attribute -> its default in an eager call: in
    # words, and from the inputs

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the class is frozen, and conversion is part of construction
            object.__setattr__(self, name, value)

        spec = self.spec
        for f in spec.fields:
            name = f.name
            value = getattr(self, name)
            if value is None and (f.optional or name in spec.counts or (f.is_tensor and spec.fusable)):
                continue
            if f.is_tensor:
                put(name, _tensors(f, value) if f.sized_by else _tensor(f, value))
                continue
            assert f.kind is not None
            if f.sized_by:
                put(name, entries(f, value))
            else:
                data_type = getattr(self, snake_case(f.kind.typed_by)) if isinstance(f.kind, Scalar) else None
                put(name, f.kind.convert(value, name, data_type))
        for count, sized in spec.counts.items():
            if getattr(self, count) is None and getattr(self, sized) is not None:
                put(count, len(getattr(self, sized)))

    @property
    def _key(self) -> tuple[Any, ...]:
        return tuple(f.key(getattr(self, f.name)) for f in self.spec.keyed)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Desc) and self._key == other._key

    def __hash__(self) -> int:
        return hash((type(self), self._key))

    def __repr__(self) -> str:
        shown = []
        for f, made in zip(self.spec.fields, dataclasses.fields(self), strict=True):
            value = getattr(self, f.name)
            counted = f.name in self.spec.counts and value == len(getattr(self, self.spec.counts[f.name]) or ())
            if not (counted or (value is None and made.default is None)):
                shown.append(f"{f.name}={_shown(f, value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def tensors(self) -> Iterator[TensorField]:
        """Every tensor that is there, in wire order, those of arrays one by one."""
        for f in self.spec.tensors:
            value = getattr(self, f.name)
            if value is None:
                continue
            if f.sized_by:
                yield from (TensorField(f"{f.name}[{i}]", f, t) for i, t in enumerate(value))
            else:
                yield TensorField(f.name, f, value)

    def activations(self) -> Iterator[tuple[str, Desc]]:
        """Every operator desc that is an attribute, such as a fused activation, with its path."""
        for f in self.spec.activations:
            value = getattr(self, f.name)
            if f.sized_by:
                yield from ((f"{f.wire}[{i}]", entry) for i, entry in enumerate(value or ()))
            elif value is not None:
                yield f.wire, value

    def document(self) -> dict[str, Any]:
        """The fields that are there as the JSON format has them, by wire name."""
        found: dict[str, Any] = {}
        for f in self.spec.fields:
            value = getattr(self, f.name)
            if value is not None:
                one = tensor_document if f.kind is None else f.kind.json
                found[f.wire] = [one(v) for v in value] if f.sized_by else one(value)
        return found

    def as_newest(self) -> Desc:
        """The same call as a desc of the operator's newest version; only descs that passed `check` have one."""
        return self

    def outputs(d: Any) -> Outputs:
        """Each output's sizes and data type, from inputs and attributes alone.

        What does not follow from them is None; an output of which nothing follows is left out.
        """
        raise NotImplementedError


def _shown(f: Field, value: Any) -> str:
    """A field's value as Python spells it in a call."""
    if f.kind is None or value is None:
        return repr(value)
    if not f.sized_by:
        return f.kind.show(value)
    entries = [f.kind.show(v) for v in value]
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"


def tensor_document(t: TensorDesc) -> dict[str, Any]:
    members: dict[str, Any] = {"DataType": t.data_type.name, "Sizes": list(t.sizes)}
    if t.strides is not None:
        members["Strides"] = list(t.strides)
    if t.flags:
        members["Flags"] = "OWNED_BY_DML"
    if t.total_tensor_size_in_bytes:
        members["TotalTensorSizeInBytes"] = t.total_tensor_size_in_bytes
    if t.guaranteed_base_offset_alignment:
        members["GuaranteedBaseOffsetAlignment"] = t.guaranteed_base_offset_alignment
    return members


def _tensor(f: Field, value: Any) -> TensorDesc:
    if not isinstance(value, TensorDesc):
        raise TypeError(f"{f.name} takes a TensorDesc, not {value!r}")
    return value


def _tensors(f: Field, values: Any) -> tuple[TensorDesc, ...]:
    try:
        found = tuple(values)
    except TypeError:
        raise TypeError(f"{f.name} takes a sequence of TensorDescs, not {values!r}") from None
    return tuple(_tensor(f, value) for value in found)


def entries(f: Field, values: Any) -> tuple[Any, ...]:
    """The values of an array attribute, converted; TypeError or ValueError naming the field."""
    assert f.kind is not None
    try:
        found = tuple(values)
    except TypeError:
        noun = "integers" if f.kind.python == "int" else "numbers" if f.kind.python == "float" else "values"
        raise TypeError(f"{f.name} takes a sequence of {noun}, not {values!r}") from None
    name, convert = f.name, f.kind.convert
    return tuple([convert(value, name) for value in found])


class _Keyed(NamedTuple):
    """A field with the key of its value in the comparison of descs."""

    name: str
    key: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class OperatorSpec:
    """Everything an operator file says about one operator. Source of check, documentation, tests and `describe`.

    in_place: the inputs, by wire name, that the output may be identical to. fusable: a desc without tensors may be the
    FusedActivation of another operator. fused_by: those others, by name, each from a feature level on; empty for all.
    page_name: that of the desc's page, where it does not follow from the operator's.
    """

    name: str
    number: int
    since: FeatureLevel
    summary: str
    fields: tuple[Field, ...]
    rows: tuple[Support, ...]
    constraints: tuple[Constraint, ...]
    data_rules: tuple[DataRule, ...]
    examples: tuple[Example, ...]
    rejecting: tuple[Rejects, ...]
    errata: tuple[str, ...]
    in_place: tuple[str, ...] = ()
    fusable: bool = False
    fused_by: Mapping[str, FeatureLevel] = dataclasses.field(default_factory=dict)
    page_name: str = ""

    @property
    def wire_name(self) -> str:
        return f"DML_OPERATOR_{self.name}"

    @property
    def page(self) -> str:
        """The address of the documentation page; those of 5_1 and later are elsewhere."""
        place = "windows/ai/directml/api" if self.since >= FeatureLevel.FL_5_1 else "windows/win32/api/directml"
        return f"https://learn.microsoft.com/{place}/ns-directml-{self.page_name or f'dml_{self.name.lower()}_operator_desc'}"

    @computed_once
    def tensors(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.is_tensor)

    @computed_once
    def inputs(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.role == INPUT)

    @computed_once
    def outputs(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.role == OUTPUT)

    @computed_once
    def attributes(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.role == ATTRIBUTE)

    @computed_once
    def activations(self) -> tuple[Field, ...]:
        """The attributes whose values are operator descs."""
        return tuple(f for f in self.fields if f.kind is fields.OPERATOR)

    @computed_once
    def counts(self) -> Mapping[str, str]:
        """Count field -> the first array it counts, both in snake_case."""
        return {snake_case(f.sized_by): f.name for f in reversed(self.fields) if f.sized_by}

    @computed_once
    def ruled(self) -> frozenset[str]:
        """The tensor fields that data rules are about, by wire name."""
        return frozenset(wire for rule in self.data_rules for wire in rule.tensors)

    @computed_once
    def keyed(self) -> tuple[_Keyed, ...]:
        """The fields with the keys of their values in comparisons."""
        return tuple(_Keyed(f.name, _key_of(f)) for f in self.fields)

    @computed_once
    def table(self) -> Table:
        return tabulate(self.rows)

    @computed_once
    def takes(self) -> Mapping[FeatureLevel, tuple[tuple[str, bool, str, range, frozenset[DataType]], ...]]:
        """Level -> (name, array or not, role, dimension counts, data types) of each tensor field: the table for `check`."""
        return {
            level: tuple(
                (f.name, f.sized_by is not None, f.role, row[f.wire].dimension_counts, frozenset(row[f.wire].data_types))
                for f in self.tensors
            )
            for level, row in self.table.items()
        }

    @computed_once
    def rules(self) -> tuple[Constraint, ...]:
        """Every rule about the desc, in the order it is judged in: wire types first, then the file's constraints."""
        return (*self.field_rules, *self.constraints)

    @computed_once
    def field_rules(self) -> tuple[Constraint, ...]:
        """The rules that follow from kinds alone: tensors are there, numbers fit, arrays have as many entries as is said."""
        return tuple(rule for f in self.fields for rule in _field_rules(f, self))

    @computed_once
    def judged(self) -> Mapping[FeatureLevel, tuple[Constraint, ...]]:
        """Level -> the rules that hold there."""
        return {level: tuple(r for r in self.rules if r.before is None or level < r.before) for level in FeatureLevel}

    @computed_once
    def predicates(self) -> Mapping[FeatureLevel, tuple[tuple[Predicate, ...], tuple[Predicate, ...], _ByEntry]]:
        """Level -> the predicates of its rules: asked once, for each dimension, for each entry of an array."""
        return {
            level: (
                tuple(r.predicate for r in rules if r.each is None),
                tuple(r.predicate for r in rules if r.each == DIMENSION),
                tuple((snake_case(r.each), r.predicate) for r in rules if r.each not in (None, DIMENSION)),
            )
            for level, rules in self.judged.items()
        }

    @computed_once
    def judged_fused(self) -> Mapping[FeatureLevel, tuple[Constraint, ...]]:
        """Level -> the rules that hold there of the operator as an activation without tensors."""
        tensors = {f.wire for f in self.tensors}
        rules = [r for r in self.rules if tensors.isdisjoint(path.split(".")[0] for path in r.paths)]
        return {level: tuple(r for r in rules if r.before is None or level < r.before) for level in FeatureLevel}


def _key_of(f: Field) -> Callable[[Any], Any]:
    if f.kind is None or f.kind.key.__func__ is fields.UINT.key.__func__:  # type: ignore[attr-defined]  # a method
        return _same
    key = f.kind.key
    if f.sized_by:
        return lambda values: None if values is None else tuple(map(key, values))
    return lambda value: None if value is None else key(value)


def _field_rules(f: Field, spec: OperatorSpec) -> Iterator[Constraint]:
    name, kind = f.name, f.kind
    if f.is_tensor:
        if spec.fusable and not f.optional:
            yield Constraint(
                f"{name}_present",
                f"`{f.wire}` must be there.",
                lambda d: getattr(d, name) is not None,
                breaks=lambda d: {name: None},
            )
    elif isinstance(kind, Scalar):
        typed_by = snake_case(kind.typed_by)
        yield Constraint(
            f"{name}_fits", f"`{f.wire}` must fit the type that `{kind.typed_by}` names.",
            lambda d: kind.fits_type(getattr(d, name), getattr(d, typed_by)), carries=True,
            breaks=lambda d: {name: 2**64, typed_by: DataType.UINT8},
        )  # fmt: skip
    elif kind is not None and kind.misfit is not None:
        sentence = f"{'Each of ' if f.sized_by else ''}`{f.wire}` must fit {kind.wire}, {kind.carried}."

        def fits(d: Any) -> bool:
            value = getattr(d, name)
            return value is None or kind.fits(value)

        def all_fit(d: Any) -> bool:
            values = getattr(d, name)
            return values is None or all(map(kind.fits, values))

        def misfit(d: Any) -> Mapping[str, Any]:
            value = getattr(d, name)
            return {name: (*(value or (0,))[:-1], kind.misfit) if f.sized_by else kind.misfit}

        yield Constraint(f"{name}_fits", sentence, all_fit if f.sized_by else fits, carries=True, breaks=misfit)
    if f.sized_by:
        count = snake_case(f.sized_by)

        def counted(d: Any) -> bool:
            values = getattr(d, name)
            return values is None or len(values) == getattr(d, count)

        def miscounted(d: Any) -> Mapping[str, Any]:
            if sum(g.sized_by == f.sized_by for g in spec.fields) == 1:
                return {count: getattr(d, count) + 1}
            return {name: (*getattr(d, name), *getattr(d, name)[-1:])}

        sentence = f"`{f.wire}` must have as many entries as `{f.sized_by}` says."
        yield Constraint(f"{name}_counted", sentence, counted, breaks=miscounted)


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
    """Make a class the desc of an operator; its body holds fields, rows, rules, statement, examples, rejecting and errata."""

    def declare(cls: type[D]) -> type[D]:
        made_class = dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        members = vars(cls)
        declared = tuple(f.metadata["field"] for f in dataclasses.fields(made_class))
        if fusable:  # as a fused activation it has no tensors; by itself it has all
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
        )
        return made_class

    return declare


def defaults(**entries: tuple[str, Callable[[Any], Any]]) -> Mapping[str, tuple[str, Callable[[Any], Any]]]:
    """The `eager` of an operator: attribute -> its default in words, and as a function of the inputs."""
    return entries


def like(name: str) -> Callable[[Any], Outputs]:
    """The `outputs` of an operator with one output, of an input's sizes and data type."""

    def outputs(d: Any) -> Outputs:
        t = getattr(d, name)
        return {"output_tensor": (t.sizes, t.data_type)}

    return outputs


def example_desc(cls: type[D], changes: Mapping[str, Any] | None = None) -> D:
    """The desc of the operator's first example, with some fields changed."""
    desc = cls(**cls.spec.examples[0].fields)
    return replace(desc, **changes) if changes else desc


def rejections(cls: type[Desc]) -> tuple[Rejects, ...]:
    """An example that breaks each rule of an operator: those of its file, and those that follow from its rules and level."""
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
    """The newest level below another; the newest of all below none."""
    return max(other for other in FeatureLevel if level is None or other < level)


__all__ = [
    "Desc", "Example", "OperatorSpec", "Rejects", "TensorField", "defaults", "entries", "example_desc", "like", "operator",
    "rejections", "rejects",
]  # fmt: skip
