"""`check`: every documented rule of an operator, judged at once. All knowledge of an operator is in its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Generic, TypeVar

from anydml.errors import BindingError, DescError, Fault, UnsupportedError, Violation
from anydml.feature_level import FeatureLevel
from anydml.lazy import computed_once
from anydml.schema.constraint import UNJUDGED, judge
from anydml.schema.desc import TensorField
from anydml.schema.field import OUTPUT
from anydml.schema.operator import Desc
from anydml.schema.spec import OperatorSpec
from anydml.schema.support import unsupported
from anydml.schema.tensor_rules import broken, flawless
from anydml.tensor import TensorDesc

D = TypeVar("D", bound=Desc)
D_co = TypeVar("D_co", bound=Desc, covariant=True)


@dataclass(frozen=True)
class Checked(Generic[D_co]):
    """A desc that keeps every documented rule of its operator at `feature_level`; only `check` makes it.

    extensions: documented rules that it breaks and that anydml does not require.
    """

    desc: D_co
    feature_level: FeatureLevel
    extensions: tuple[Violation, ...] = ()

    @computed_once
    def fields(self) -> Mapping[str, TensorField]:
        """Every present tensor by its name (`input_tensors[1]` in an array), with explicit strides and total."""
        return {name: TensorField(name, field, t.spelled_out()) for name, field, t in self.desc.tensors()}

    @computed_once
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that are present."""
        return tuple(name for name, found in self.fields.items() if found.field.role == OUTPUT)

    @computed_once
    def tensors(self) -> Mapping[str, TensorDesc]:
        """Name -> tensor desc with explicit strides and total, without absent tensors."""
        return {name: found.desc for name, found in self.fields.items()}


def as_feature_level(value: FeatureLevel | str) -> FeatureLevel:
    """A feature level from itself, its wire value or its name (see FeatureLevel.parse); UnsupportedError otherwise."""
    try:
        return FeatureLevel.parse(value) if isinstance(value, str) else FeatureLevel(value)
    except ValueError:
        levels = ", ".join(map(str, FeatureLevel))
        raise UnsupportedError(f"there is no feature level {value!r}; the levels are {levels}") from None


def check(desc: D, feature_level: FeatureLevel | str = FeatureLevel.FL_6_4, *, strict: bool = False) -> Checked[D]:
    """Check that a desc keeps every documented rule of its operator at a feature level, which may be a name such as "4_0".

    DescError holds every violation that was found. With `strict`, an extension counts as one; otherwise it is listed in
    `Checked.extensions`. BindingError if `desc` is not an operator's desc; UnsupportedError if there is no such level.
    Source: the operator's page, and ns-directml-dml_buffer_tensor_desc.
    """
    if type(feature_level) is not FeatureLevel:
        feature_level = as_feature_level(feature_level)
    if not isinstance(desc, Desc):
        raise BindingError([Fault("desc", f"desc takes an operator's desc, such as a Slice1, not {_kind(desc)}")])
    if _keeps_everything(desc, feature_level):
        return Checked(desc, feature_level)
    spec = desc.spec
    operator = spec.name
    violations: list[tuple[Violation, bool]] = []  # and whether the rule is that a number fits its wire type
    extensions: list[Violation] = []
    if feature_level < spec.since:
        violations.append((unavailable(operator, spec, feature_level), False))
    supported = spec.table.get(feature_level)
    uncarried: set[str] = set()  # wire paths whose numbers do not fit their wire types
    dimensions = 0
    for name, field, t in desc.tensors():
        dimensions = dimensions or len(t.sizes)
        general = set()
        within = field.wire + name[len(field.name) :]
        for rule, at in broken(t, field.role):
            general.add(rule.name)
            violations.append((rule.violation(operator, t, at, within=within), rule.carries))
            if rule.carries:
                uncarried.add(f"{within}.{rule.paths[0]}")
        if supported is not None:
            here = supported[field.wire]
            if len(t.sizes) not in here.dimension_counts or t.data_type not in here.data_types:
                refused = unsupported(operator, spec.table, feature_level, field.wire, within, t, general)
                violations += [(violation, False) for violation in refused]
    for rule, at in judge(spec.judged[feature_level], desc, dimensions, failed=bool(violations)):
        if rule.extension and not strict:
            extensions.append(rule.violation(operator, desc, at))
        else:
            violations.append((rule.violation(operator, desc, at), rule.carries))
            if rule.carries:
                uncarried.add(rule.paths[0])
    for within, activation in desc.activations():
        for violation, carries in _fused(operator, activation, feature_level, within):
            violations.append((violation, carries))
            if carries:
                uncarried.update(map(_bare, violation.values))
    if violations:
        raise DescError([v for v, carries in violations if carries or not _reads(v, uncarried)])
    return Checked(desc, feature_level, tuple(extensions))


def unavailable(operator: str, spec: OperatorSpec, level: FeatureLevel, within: str = "") -> Violation:
    """The violation at a level that lacks the operator, or the operator that is its activation."""
    since = spec.fused_by.get(operator, spec.since) if within else spec.since
    sentence = f"`FeatureLevel` must be at least {since}, with which {spec.name} came."
    read: dict[str, Any] = {"FeatureLevel": level}
    if within:
        what = "it" if since == spec.since else "it as an activation"
        sentence, read = f"`FeatureLevel` does not have {what}, which came with {since}.", {within: spec.name, **read}
    return Violation(operator, "available", sentence, None, read, {"FeatureLevel": since})


def _fused(operator: str, activation: Desc, level: FeatureLevel, within: str) -> Iterator[tuple[Violation, bool]]:
    """The broken rules about a fused activation's attributes, each with whether it is that a number fits its wire type."""
    spec = activation.spec
    if level < spec.fused_by.get(operator, spec.since):
        yield unavailable(operator, spec, level, within), False
    for rule, at in judge(spec.judged_fused[level], activation, 0, failed=True):
        yield rule.violation(operator, activation, at, within=within), rule.carries


def _kind(value: object) -> str:
    return "None" if value is None else f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _keeps_everything(desc: Desc, feature_level: FeatureLevel) -> bool:
    """Whether a desc keeps the same rules, without a report; most calls need only this, in a third of the time."""
    spec = desc.spec
    dimensions = 0
    for name, array, role, counts, data_types in spec.takes.get(feature_level, ()):
        value = getattr(desc, name)
        if value is None:
            continue
        for t in value if array else (value,):
            count = len(t.sizes)
            if count not in counts or t.data_type not in data_types or not flawless(t, role):
                return False
            dimensions = dimensions or count
    once, by_dimension, by_entry = spec.predicates[feature_level]
    try:
        for predicate in once:
            if not predicate(desc):
                return False
        for predicate in by_dimension:
            if not all(map(predicate, repeat(desc), range(dimensions))):
                return False
        for name, predicate in by_entry:
            if not all(map(predicate, repeat(desc), range(len(getattr(desc, name))))):
                return False
    except UNJUDGED:
        return False
    for _, activation in desc.activations():
        if next(_fused(spec.name, activation, feature_level, ""), None) is not None:
            return False
    return dimensions > 0


def _reads(violation: Violation, uncarried: set[str]) -> bool:
    """Whether a violation read a number that does not fit its wire type, and is therefore meaningless."""
    return any(path in uncarried or _bare(path) in uncarried for path in violation.values)


def _bare(path: str) -> str:
    """A path without the index at its end."""
    return path[: path.rindex("[")] if path.endswith("]") else path
