"""What makes a dataclass an operator: its wire name, fields, support rows, rules, examples, and the page's errata."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from numpy.typing import NDArray

from anydml.computed import computed_once
from anydml.feature_level import FeatureLevel
from anydml.names import snake_case
from anydml.spec.constraint import Constraint, DataRule
from anydml.spec.fields import ATTRIBUTE, INPUT, OUTPUT, RANGES, Field
from anydml.spec.support import Support, Table, tabulate
from anydml.tensor import DataType, TensorDesc, integer, integers

D = TypeVar("D", bound="Desc")


class Example(NamedTuple):
    """Field values, input data and the output that must come of them: a test, and the documentation's example."""

    title: str
    fields: Mapping[str, Any]
    inputs: Mapping[str, NDArray[Any]]
    output: NDArray[Any]


class Rejects(NamedTuple):
    """Changes to the first example's fields that break exactly one rule; `at` is the level, `strict` as for `check`."""

    constraint: str
    fields: Mapping[str, Any]
    at: FeatureLevel = FeatureLevel.FL_6_4
    strict: bool = False


def rejects(constraint: str, *, at: FeatureLevel = FeatureLevel.FL_6_4, strict: bool = False, **fields: Any) -> Rejects:
    return Rejects(constraint, fields, at, strict)


@dataclass(frozen=True, kw_only=True)
class Desc(ABC):
    """The desc of an operator: frozen and hashable. Construction converts; `check` judges."""

    spec: ClassVar[OperatorSpec]

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:  # the class is frozen, and conversion is part of construction
            object.__setattr__(self, name, value)

        for field in self.spec.fields:
            value = getattr(self, field.name)
            if field.is_tensor:
                if not (isinstance(value, TensorDesc) or (value is None and field.optional)):
                    raise TypeError(f"{field.name} takes a TensorDesc, not {value!r}")
            elif field.sized_by:
                put(field.name, integers(value, field.name))
            elif value is not None:
                put(field.name, integer(value, field.name))
        for count, sized in self.spec.counts.items():
            if getattr(self, count) is None:
                put(count, len(getattr(self, sized)))

    def __repr__(self) -> str:
        """The call that makes this desc, without absent tensors and counts that are the length of what they count."""
        said = {field.name: getattr(self, field.name) for field in self.spec.fields}
        for count, sized in self.spec.counts.items():
            if said[count] == len(said[sized]):
                said[count] = None
        shown = ", ".join(f"{name}={value!r}" for name, value in said.items() if value is not None)
        return f"{type(self).__name__}({shown})"

    def as_newest(self) -> Desc:
        """The same call as a desc of the operator's newest version; only descs that passed `check` have one."""
        return self

    @abstractmethod
    def reference(self, **arrays: NDArray[Any]) -> NDArray[Any]:
        """The documented result, plainly computed: from input arrays of the descs' sizes, by field name, to the output."""

    def reference_bytes(self) -> int:
        """The bytes that `reference` takes at least: an integer of 64 bits for each element of each tensor."""
        tensors = (getattr(self, field.name) for field in self.spec.tensors)
        return sum(8 * math.prod(t.sizes) for t in tensors if t is not None)


@dataclass(frozen=True)
class OperatorSpec:
    """Everything an operator file says about one operator. Source of check, documentation, tests and `describe`."""

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

    @property
    def wire_name(self) -> str:
        return f"DML_OPERATOR_{self.name}"

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
    def counts(self) -> Mapping[str, str]:
        """Count field -> the first array it counts, both in snake_case."""
        return {snake_case(f.sized_by): f.name for f in reversed(self.fields) if f.sized_by}

    @computed_once
    def table(self) -> Table:
        return tabulate(self.rows)

    @computed_once
    def takes(self) -> Mapping[FeatureLevel, tuple[tuple[str, str, range, frozenset[DataType]], ...]]:
        """Level -> (name, role, dimension counts, data types) of each tensor field: the table, laid out for `check`."""
        return {
            level: tuple(
                (f.name, f.role, row[f.wire].dimension_counts, frozenset(row[f.wire].data_types)) for f in self.tensors
            )
            for level, row in self.table.items()
        }

    @computed_once
    def predicates(self) -> tuple[Callable[..., bool], ...]:
        return tuple(rule.predicate for rule in self.rules if not rule.each_dimension)

    @computed_once
    def predicates_by_dimension(self) -> tuple[Callable[..., bool], ...]:
        return tuple(rule.predicate for rule in self.rules if rule.each_dimension)

    @computed_once
    def rules(self) -> tuple[Constraint, ...]:
        """Every rule about the desc, in the order it is judged in: wire types first, then the file's constraints."""
        return (*self.field_rules, *self.constraints)

    @computed_once
    def field_rules(self) -> tuple[Constraint, ...]:
        """The rules that follow from wire types alone: numbers fit, and arrays have as many entries as is said."""
        return tuple(
            rule
            for f in self.fields
            if f.role == ATTRIBUTE
            for rule in ((_fits(f), _counted(f)) if f.sized_by else (_fits(f),))
        )


def _fits(field: Field) -> Constraint:
    name, allowed = field.name, RANGES[field.wire_type]
    low, high, carried = allowed[0], allowed[-1], allowed.__contains__

    def fits(d: Any) -> bool:
        value = getattr(d, name)
        if not field.sized_by:
            return bool(low <= value <= high)
        return all(map(carried, value))

    return Constraint(f"{name}_fits", f"`{field.wire}` fits {field.wire_type}, {low}..{high}.", fits, carries=True)


def _counted(field: Field) -> Constraint:
    assert field.sized_by is not None
    name, count = field.name, snake_case(field.sized_by)
    sentence = f"`{field.wire}` has `{field.sized_by}` entries."
    return Constraint(f"{name}_counted", sentence, lambda d: len(getattr(d, name)) == getattr(d, count))


def operator(wire_name: str, number: int, since: FeatureLevel) -> Callable[[type[D]], type[D]]:
    """Make a dataclass the desc of an operator; its body holds rows, rules, examples, rejecting and errata."""

    def declare(cls: type[D]) -> type[D]:
        members = vars(cls)
        cls.__repr__ = Desc.__repr__  # type: ignore[method-assign]  # in place of the one that @dataclass makes
        cls.spec = OperatorSpec(
            wire_name.removeprefix("DML_OPERATOR_"),
            number,
            since,
            (cls.__doc__ or "").strip(),
            tuple(f.metadata["field"] for f in dataclasses.fields(cls)),
            members["rows"],
            tuple(m for m in members.values() if isinstance(m, Constraint)),
            tuple(m for m in members.values() if isinstance(m, DataRule)),
            members["examples"],
            members["rejecting"],
            members["errata"],
        )
        return cls

    return declare


def example_desc(cls: type[D], changes: Mapping[str, Any] | None = None) -> D:
    """The desc of the operator's first example, with some fields changed."""
    desc = cls(**cls.spec.examples[0].fields)
    return replace(desc, **changes) if changes else desc


def right_aligned(sizes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Sizes read as {BatchCount, ChannelCount, Height, Width}, missing leading ones being 1; ValueError past four."""
    if len(sizes) > 4:
        raise ValueError(f"{sizes} has no reading as batch, channel, height, width")
    batch, channel, height, width = (1, 1, 1, *sizes)[-4:] if len(sizes) < 4 else sizes
    return batch, channel, height, width


def aligned(array: NDArray[Any], dimension_count: int) -> NDArray[Any]:
    """A scale or zero point with no more dimensions than the tensor it goes with: the surplus leading sizes are 1."""
    return array.reshape(array.shape[-dimension_count:]) if array.ndim > dimension_count else array


def granular(wire: str, axis: str, of: str) -> tuple[Constraint, Constraint]:
    """The two rules of a scale or zero point: per tensor, or per "row" or "column" of `of`; and not by batch (extension).

    Sizes are read right-aligned against {BatchCount, ChannelCount, Height, Width}.
    """
    name, data = snake_case(wire), snake_case(of)
    short = name.removesuffix("_tensor")

    def fits(d: Any) -> bool:
        t = getattr(d, name)
        if t is None or t.sizes.count(1) == len(t.sizes):
            return True
        batch, channel, height, width = right_aligned(t.sizes)
        b, c, m, n = right_aligned(getattr(d, data).sizes)
        finer = width == 1 and height in (1, m) if axis == "row" else height == 1 and width in (1, n)
        return bool(finer and batch in (1, b) and channel in (1, c))

    def not_by_batch(d: Any) -> bool:
        t = getattr(d, name)
        return t is None or len(t.sizes) <= 2 or right_aligned(t.sizes)[:2] == (1, 1)

    def would_fit(d: Any) -> Mapping[str, Any]:
        count = len(getattr(d, name).sizes)
        _, _, m, n = right_aligned(getattr(d, data).sizes)
        finest = (1, 1, m, 1) if axis == "row" else (1, 1, 1, n)
        return {f"{wire}.Sizes": list(dict.fromkeys([(1,) * count, finest[4 - count :]]))}

    noun = "zero point" if "zero_point" in short else "scale"
    size = "second last" if axis == "row" else "last"
    sentence = f"`{wire}.Sizes` are ones, or have the {size} of `{of}.Sizes` there: per tensor or per {axis}."
    beyond = f"`{wire}.Sizes` lead with ones: the {noun} is the same for every batch."
    return (
        Constraint(f"{short}_sizes", sentence, fits, expected=would_fit),
        Constraint(f"{short}_not_by_batch", beyond, not_by_batch, extension=True),
    )
