"""Valid random descs of any operator, made from its file: kinds of fields, support rows, and the rules that files share.

Shared rules are known by their names in schema.rules. For operators with rules of their own, `generators` has functions that
change the plan made here, or make another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import strategies as st

from anydml import DataType, FeatureLevel, TensorDesc, TensorFlags, operators
from anydml.functional.inference import leaves_open
from anydml.schema import field, kinds
from anydml.schema.constraint import Constraint
from anydml.schema.field import Field
from anydml.schema.operator import Desc
from anydml.schema.support import Supported
from anydml.spelling import snake_case
from tensors import sizes_of, tensor_desc

Plan = dict[str, Any]
"""Field -> its value: a Plain for a tensor, a tuple of Plain for an array of tensors, None if absent. Outputs may be
missing."""


class Plain(NamedTuple):
    """A tensor without a layout."""

    data_type: DataType
    sizes: tuple[int, ...]


FLOATS = st.one_of(
    st.sampled_from((1.0, 0.5, -1.0, 2.0, 0.0, -0.0, 0.1, 3.0, 2.0**-149, -(2.0**-126), 3.4028234663852886e38, 1e-20)),
    st.sampled_from((math.inf, -math.inf, math.nan, 1.0, -0.3, 7.25)),
    st.floats(width=32),
)
"""Values of FLOAT attributes: usual ones, extreme ones, and any."""


# --- plans ---


def table_of(name: str, level: FeatureLevel, wire: str) -> Supported:
    operator = operators.find(name)
    assert operator is not None
    return operator.spec.table[level][wire]


def rules_at(operator: type[Desc], level: FeatureLevel) -> Mapping[str, Constraint]:
    return {rule.name: rule for rule in operator.spec.rules if rule.before is None or level < rule.before}


def planned(draw: st.DrawFn, operator: type[Desc], level: FeatureLevel) -> Plan:
    """A value for every field, except for outputs that follow from other fields."""
    spec, rules = operator.spec, rules_at(operator, level)
    infers = operator.outputs is not Desc.outputs and not leaves_open(operator)[1]
    plan: Plan = {}
    counts: dict[str, int] = {}

    def counted(f: Field) -> int:
        assert f.sized_by is not None
        matches = rules.get(f"{snake_case(f.sized_by)}_matches")
        if matches is not None:
            return len(_first(plan[snake_case(matches.paths[1].split(".")[0])]).sizes)
        return counts.setdefault(f.sized_by, draw(st.integers(1, 3)))

    needed = {path for name, rule in rules.items() if name.endswith("_present") for path in rule.paths}
    there = [f for f in spec.tensors if not f.optional or f.wire in needed or draw(st.booleans())]
    drawn = shapes(draw, operator, level, there, rules)
    for f in spec.tensors:
        if f not in there:
            plan[f.name] = None
        elif f.role == field.OUTPUT and infers:
            continue
        else:
            plan[f.name] = (drawn[f.wire],) * counted(f) if f.sized_by else drawn[f.wire]
    for f in spec.attributes:
        if f.name in spec.counts:
            continue
        if f.optional and draw(st.booleans()):
            plan[f.name] = None
        elif f.sized_by and f"{f.name}_unique" not in rules:
            plan[f.name] = tuple(draw(attribute(f, plan, rules, level)) for _ in range(counted(f)))
        else:
            plan[f.name] = draw(attribute(f, plan, rules, level))
    return plan


def _first(value: Any) -> Plain:
    return value if isinstance(value, Plain) else value[0]


def shapes(
    draw: st.DrawFn,
    operator: type[Desc],
    level: FeatureLevel,
    there: Iterable[Field],
    rules: Mapping[str, Constraint],
) -> dict[str, Plain]:
    """Data types and sizes that the level allows, equal where the rules of `same` require it."""
    takes = {f.wire: operator.spec.table[level][f.wire] for f in there}
    types, counts, sizes = (groups(takes, rules, *aspects) for aspects in (("DataType",), COUNTS, ("Sizes",)))
    data_type = {}
    for group in types:
        common = [t for t in takes[group[0]].data_types if all(t in takes[wire].data_types for wire in group)]
        data_type.update(dict.fromkeys(group, draw(st.sampled_from(common))))
    rank = {}
    for group in counts:
        low, high = (
            pick(pick_of(takes[wire].dimension_counts) for wire in group) for pick, pick_of in ((max, min), (min, max))
        )
        rank.update(dict.fromkeys(group, draw(st.integers(low, high))))
    size: dict[str, tuple[int, ...]] = {}
    single = {path.split(".")[0] for name, rule in rules.items() if name.endswith("_single_element") for path in rule.paths}
    for group in sizes:
        ones = (1,) * rank[group[0]]
        size.update(dict.fromkeys(group, ones if single.intersection(group) else draw(sizes_of(rank[group[0]]))))
    return {wire: Plain(data_type[wire], size[wire]) for wire in takes}


COUNTS = ("DimensionCount", "Sizes")  # tensors of equal sizes have equally many


def groups(wires: Iterable[str], rules: Mapping[str, Constraint], *aspects: str) -> list[list[str]]:
    """The tensors in groups of those that must agree in an aspect."""
    found = [{wire} for wire in wires]
    for name, rule in rules.items():
        for aspect in aspects if name.startswith("same_") else ():
            named = {path.split(".")[0] for path in rule.paths if path.endswith(f".{aspect}")}
            met = [group for group in found if group & named]
            found = [group for group in found if not group & named] + ([set().union(*met)] if met else [])
    return [sorted(group) for group in found]


# --- attributes ---


def attribute(f: Field, plan: Plan, rules: Mapping[str, Constraint], level: FeatureLevel) -> st.SearchStrategy[Any]:
    """A value of an attribute, or of one entry if it is an array: by the rules with its name, or by its kind."""

    def rank(rule: Constraint) -> int:
        return len(_first(plan[snake_case(rule.paths[1].split(".")[0])]).sizes)

    if f"{f.name}_in_range" in rules:
        return st.integers(0, rank(rules[f"{f.name}_in_range"]) - 1)
    if f"{f.name}_unique" in rules:
        in_range = next(rule for name, rule in rules.items() if rule.each == f.wire and name.endswith("_in_range"))
        least = 1 if f"{f.name}_not_empty" in rules else 0
        return st.lists(st.integers(0, rank(in_range) - 1), min_size=least, unique=True).map(tuple)
    if f"{f.name}_fusable" in rules:
        return activations(level)
    if isinstance(f.kind, kinds.Scalar):
        return scalars(plan[snake_case(f.kind.typed_by)])
    assert f.kind is not None
    if f.kind is field.DATA_TYPE and f"{f.name}_matches" in rules:
        return st.just(next(_first(t).data_type for t in plan.values() if isinstance(t, tuple)))
    return of_kind(f.kind)


def of_kind(kind: kinds.Kind) -> st.SearchStrategy[Any]:
    if isinstance(kind, kinds.Float):
        return FLOATS
    if isinstance(kind, kinds.Integer):
        return st.integers(0 if kind.wire == "UINT" else -3, 3)
    if kind is kinds.SCALE_BIAS:
        return st.tuples(FLOATS, FLOATS)
    if kind is kinds.SIZE_2D:
        return st.tuples(st.integers(1, 3), st.integers(1, 3))
    if not kind.samples:
        raise NotImplementedError(f"{kind.wire} is a kind that needs a generator")
    return st.sampled_from(kind.samples)


def scalars(data_type: DataType) -> st.SearchStrategy[Any]:
    """A number of a data type, as a DML_SCALAR_UNION contains it."""
    if data_type.name.startswith("FLOAT"):
        return FLOATS
    bits, signed = data_type.element_bits, data_type.name.startswith("INT")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.one_of(st.integers(max(low, -3), 3), st.integers(low, high))


@st.composite
def activations(draw: st.DrawFn, level: FeatureLevel, names: Iterable[str] = ()) -> Desc:
    """The desc of a fused activation that a level has: one that all operators allow, or one of `names`."""
    able = [operator for operator in operators.every() if operator.spec.fusable and operator.spec.since <= level]
    taken = [operator for operator in able if (operator.spec.name in names if names else not operator.spec.fused_by)]
    chosen = draw(st.sampled_from(taken))
    drawn = {f.name: draw(attribute(f, {}, {}, level)) for f in chosen.spec.attributes}
    if "steepness" in drawn and not drawn["steepness"] >= 1:
        drawn["steepness"] = 1.5  # which every level allows
    return chosen(**drawn)


# --- from plans to descs ---


def laid_out(draw: st.DrawFn, operator: type[Desc], plan: Plan) -> Desc:
    """The desc of a plan, with random layouts for its tensors. Missing outputs are those of `Desc.outputs`."""

    names = {rule.name for rule in operator.spec.rules}

    def of(f: Field, value: Any) -> Any:
        if value is None:
            return None
        made = [tensor(draw, t, output=f.role == field.OUTPUT) for t in (value if f.sized_by else (value,))]
        if f"{f.name.removesuffix('_tensor')}_not_owned" in names:
            made = [replace(t, flags=TensorFlags.NONE) for t in made]
        return tuple(made) if f.sized_by else made[0]

    inferred = [f for f in operator.spec.tensors if f.name not in plan]
    stand_in = TensorDesc(DataType.FLOAT32, (1,))
    fields = {f.name: (stand_in,) if f.sized_by else stand_in for f in inferred}
    fields |= {f.name: of(f, plan[f.name]) for f in operator.spec.tensors if f.name in plan}
    desc = operator(**fields, **{f.name: plan[f.name] for f in operator.spec.attributes if f.name in plan})
    if not inferred:
        return desc
    found = desc.outputs()
    changes = {
        f.name: of(f, [Plain(t, n) for n, t in found[f.name]] if f.sized_by else Plain(*reversed(found[f.name])))
        for f in inferred
    }
    counts = {snake_case(f.sized_by): len(changes[f.name]) for f in inferred if f.sized_by}
    return replace(desc, **changes, **counts)


def tensor(draw: st.DrawFn, t: Plain | TensorDesc, *, output: bool = False) -> TensorDesc:
    """A desc of a tensor with a random layout; a TensorDesc is returned unchanged."""
    return t if isinstance(t, TensorDesc) else tensor_desc(draw, t.data_type, t.sizes, output=output)
