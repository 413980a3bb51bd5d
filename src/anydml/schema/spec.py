"""Specs: the contents of an operator's file, and the rules that follow from the kinds of its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from anydml.feature_level import FeatureLevel
from anydml.lazy import computed_once
from anydml.schema import field as fields
from anydml.schema.constraint import DIMENSION, Constraint, DataRule
from anydml.schema.field import ATTRIBUTE, INPUT, OUTPUT, Field
from anydml.schema.kinds import Scalar
from anydml.schema.support import Support, Table, tabulate
from anydml.spelling import snake_case
from anydml.tensor import DataType

Predicate = Callable[..., bool]
_ByEntry = tuple[tuple[str, Predicate], ...]  # each with the name of its array


class Example(NamedTuple):
    """Field values, input data and the expected outputs: a test, and the documentation's example.

    outputs: arrays by field name, or one array if the operator has one output.
    """

    title: str
    fields: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Any

    @property
    def output(self) -> NDArray[Any]:
        """The output of an operator with one output."""
        output: NDArray[Any]
        (output,) = self.outputs.values()
        return output


class Rejects(NamedTuple):
    """Changes to the first example's fields that break exactly one rule; `at`: the feature level; `strict`: as in `check`."""

    constraint: str
    fields: Mapping[str, Any]
    at: FeatureLevel = FeatureLevel.FL_6_4
    strict: bool = False


class _Keyed(NamedTuple):
    """A field with the key of its value in the comparison of descs."""

    name: str
    key: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class OperatorSpec:
    """The contents of an operator's file for one operator. Used by check, documentation, tests and `describe`.

    in_place: the inputs, by wire name, that the output may be identical to. fusable: whether a desc without tensors may be the
    FusedActivation of another operator. fused_by: the names of those operators, each with its first feature level; empty for
    all. page_name: the name of the desc's page, if it does not follow from the operator's name. eight_bit_floats: the tensors,
    by wire name, that may have 8-bit floats at `FeatureLevel.EXTENDED`.
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
    eight_bit_floats: tuple[str, ...] = ()

    @property
    def wire_name(self) -> str:
        return f"DML_OPERATOR_{self.name}"

    @property
    def page(self) -> str:
        """The address of the documentation page; operators of 5_1 and later have theirs on another site."""
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
        """The wire names of the tensor fields that have data rules."""
        return frozenset(wire for rule in self.data_rules for wire in rule.tensors)

    @computed_once
    def keyed(self) -> tuple[_Keyed, ...]:
        """The fields with the functions that give their values' keys in comparisons."""
        return tuple(_Keyed(f.name, _key_of(f)) for f in self.fields)

    @computed_once
    def table(self) -> Table:
        return tabulate(self.rows, self.eight_bit_floats)

    @computed_once
    def takes(self) -> Mapping[FeatureLevel, tuple[tuple[str, bool, str, range, frozenset[DataType]], ...]]:
        """Level -> (name, whether an array, role, dimension counts, data types) of each tensor field, as `check` uses it."""
        return {
            level: tuple(
                (f.name, f.sized_by is not None, f.role, row[f.wire].dimension_counts, frozenset(row[f.wire].data_types))
                for f in self.tensors
            )
            for level, row in self.table.items()
        }

    @computed_once
    def rules(self) -> tuple[Constraint, ...]:
        """Every rule about the desc, in the order of judgement: wire types first, then the file's constraints."""
        return (*self.field_rules, *self.constraints)

    @computed_once
    def field_rules(self) -> tuple[Constraint, ...]:
        """The rules that follow from the kinds of fields: tensors are present, numbers fit, counts match arrays."""
        return tuple(rule for f in self.fields for rule in _field_rules(f, self))

    @computed_once
    def judged(self) -> Mapping[FeatureLevel, tuple[Constraint, ...]]:
        """Level -> the rules that hold there."""
        return {level: tuple(r for r in self.rules if r.before is None or level < r.before) for level in FeatureLevel}

    @computed_once
    def predicates(self) -> Mapping[FeatureLevel, tuple[tuple[Predicate, ...], tuple[Predicate, ...], _ByEntry]]:
        """Level -> the predicates of its rules: those judged once, for each dimension, and for each entry of an array."""
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
        """Level -> the rules that hold there for the operator as an activation without tensors."""
        tensors = {f.wire for f in self.tensors}
        rules = [r for r in self.rules if tensors.isdisjoint(path.split(".")[0] for path in r.paths)]
        return {level: tuple(r for r in rules if r.before is None or level < r.before) for level in FeatureLevel}


def _key_of(f: Field) -> Callable[[Any], Any]:
    if f.kind is None or type(f.kind).key is type(fields.UINT).key:
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
