"""Sets of rules that many operators share. Each rule makes an example that breaks it from the operator's first example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anydml.schema.constraint import Constraint
from anydml.spelling import snake_case
from anydml.tensor import DataType, TensorDesc, TensorFlags


def same(aspects: str, tensors: str, *, name: str = "") -> tuple[Constraint, ...]:
    """The tensors of a blank-separated string agree in each aspect: "DataType", "DimensionCount", "Sizes".

    Absent tensors are ignored. name: the end of the rules' names, if an operator has several such sets.
    """
    counted = "DimensionCount" in aspects.split()
    return tuple(_same(aspect, tuple(tensors.split()), name, counted) for aspect in aspects.split())


def _same(aspect: str, wires: tuple[str, ...], suffix: str, counted: bool) -> Constraint:
    python, names = snake_case(aspect), tuple(map(snake_case, wires))

    def agree(d: Any) -> bool:
        found = {getattr(t, python) for t in _present(d, names)}
        if counted and aspect == "Sizes" and len(set(map(len, found))) > 1:
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return len(found) <= 1

    def expected(d: Any) -> Mapping[str, Any]:
        first = _present(d, names)[0]
        wire = next(w for w, n in zip(wires, names, strict=True) if getattr(d, n) is not None)
        return {
            f"{w}.{aspect}": getattr(first, python)
            for w, n in zip(wires, names, strict=True)
            if w != wire and isinstance(t := getattr(d, n), TensorDesc) and getattr(t, python) != getattr(first, python)
        }

    listed = " and ".join((", ".join(f"`{w}.{aspect}`" for w in wires[:-1]), f"`{wires[-1]}.{aspect}`")).removeprefix(" and ")
    rule = f"same_{python}{suffix and '_' + suffix}"
    return Constraint(
        rule,
        f"{listed} must be {'equal' if len(wires) > 1 else 'the same for all'}.",
        agree,
        expected=expected,
        breaks=_different(python, names),
    )


def _present(d: Any, names: tuple[str, ...]) -> list[TensorDesc]:
    found: list[TensorDesc] = []
    for name in names:
        value = getattr(d, name)
        if value is not None:
            found.extend(value if isinstance(value, tuple) else (value,))
    return found


def _different(aspect: str, names: tuple[str, ...]) -> Callable[[Any], Mapping[str, Any]]:
    """Changes to the last present tensor: another type that its level takes, or another size."""

    def changes(d: Any) -> Mapping[str, Any]:
        name = next(n for n in reversed(names) if getattr(d, n) is not None)
        value = getattr(d, name)
        t = value[-1] if isinstance(value, tuple) else value
        made = _altered(d, name, t, aspect)
        return {name: (*value[:-1], made) if isinstance(value, tuple) else made}

    return changes


def _altered(d: Any, name: str, t: TensorDesc, aspect: str) -> TensorDesc:
    if aspect == "data_type":
        row = next(row for row in reversed(list(d.spec.table.values())) for w in row if snake_case(w) == name)
        wire = next(f.wire for f in d.spec.tensors if f.name == name)
        other = next((x for x in row[wire].data_types if x != t.data_type), DataType.FLOAT64)
        return replace(t, data_type=other, strides=None)
    if aspect == "dimension_count":
        return replace(t, sizes=(1, *t.sizes) if len(t.sizes) < 8 else t.sizes[1:], strides=None)
    return replace(t, sizes=(*t.sizes[:-1], t.sizes[-1] + 1), strides=None)


def axis_in_range(tensor: str = "InputTensor") -> Constraint:
    """An axis is from 0 to DimensionCount - 1."""
    of = snake_case(tensor)
    return Constraint(
        "axis_in_range",
        f"`Axis` must be less than `{tensor}.DimensionCount`.",
        lambda d: d.axis < getattr(d, of).dimension_count,
        expected=lambda d: {"Axis": range(getattr(d, of).dimension_count)},
        breaks=lambda d: {"axis": getattr(d, of).dimension_count},
    )


def axes(tensor: str = "InputTensor", field: str = "Axes", *, empty: bool = False) -> tuple[Constraint, ...]:
    """A list of axes: all in range, none twice, and not empty unless `empty`."""
    of, name = snake_case(tensor), snake_case(field)

    def in_range(d: Any, i: int) -> bool:
        return bool(getattr(d, name)[i] < getattr(d, of).dimension_count)

    singular = f"{field.removesuffix('Axes')}Axis"
    rules = (
        Constraint(
            f"{snake_case(singular)}_in_range",
            f"`{field}` must be less than `{tensor}.DimensionCount`.",
            in_range,
            each=field,
            expected=lambda d, i: {f"{field}[{i}]": range(getattr(d, of).dimension_count)},
            breaks=lambda d: {name: (*getattr(d, name)[:-1], getattr(d, of).dimension_count)},
        ),
        Constraint(
            f"{name}_unique",
            f"`{field}` must name no axis twice.",
            lambda d: len(set(getattr(d, name))) == len(getattr(d, name)),
            breaks=lambda d: _counted(d, name, (*getattr(d, name), getattr(d, name)[0])),
        ),
        Constraint(
            f"{name}_not_empty",
            f"`{field}` must name at least one axis.",
            lambda d: len(getattr(d, name)) > 0,
            breaks=lambda d: _counted(d, name, ()),
        ),
    )
    return rules[:2] if empty else rules


def _counted(d: Any, name: str, value: tuple[int, ...]) -> Mapping[str, Any]:
    """An array and its count, changed together."""
    field = next(f for f in d.spec.fields if f.name == name)
    return {name: value, snake_case(field.sized_by): len(value)}


def effective_rank_at_most_two() -> Constraint:
    """InputTensor is {1, .., 1, BatchCount, Width}; the output has the same sizes."""

    def larger(d: Any) -> Mapping[str, Any]:
        made = replace(d.input_tensor, sizes=(2, *d.input_tensor.sizes[1:]), strides=None)
        return {"input_tensor": made, "output_tensor": made}

    return Constraint(
        "effective_rank_at_most_two",
        "`InputTensor.Sizes` must be 1 before the last two.",
        lambda d: all(n == 1 for n in d.input_tensor.sizes[:-2]),
        breaks=larger,
    )


def sizes_are(wire: str, sentence: str, sizes: Callable[[Any], tuple[int, ...]]) -> Constraint:
    """The sizes of a tensor, if it is present, follow from other fields, which `sentence` names."""
    name = snake_case(wire)

    def fit(d: Any) -> bool:
        t = getattr(d, name)
        if t is None:
            return True
        wanted = sizes(d)
        if len(t.sizes) != len(wanted):
            raise ValueError("a rule about dimension counts is broken, so that sizes cannot be compared")
        return bool(t.sizes == wanted)

    def changes(d: Any) -> Mapping[str, Any]:
        t = getattr(d, name)
        return {name: replace(t, sizes=(*t.sizes[:-1], t.sizes[-1] + 1), strides=None)}

    return Constraint(
        f"{name.removesuffix('_tensor')}_sizes", sentence, fit, expected=lambda d: {f"{wire}.Sizes": sizes(d)}, breaks=changes
    )


def single_element(tensors: str) -> tuple[Constraint, ...]:
    """The tensors have one element each."""

    def rule(wire: str) -> Constraint:
        name = snake_case(wire)

        def single(d: Any) -> bool:
            t = getattr(d, name)
            return t is None or all(n == 1 for n in t.sizes)

        def more(d: Any) -> Mapping[str, Any]:
            t = getattr(d, name)
            return {name: replace(t, sizes=(*t.sizes[:-1], 2), strides=None)}

        return Constraint(
            f"{name.removesuffix('_tensor')}_single_element",
            f"`{wire}.Sizes` must be all 1.",
            single,
            expected=lambda d: {f"{wire}.Sizes": (1,) * len(getattr(d, name).sizes)},
            breaks=more,
        )

    return tuple(map(rule, tensors.split()))


def not_owned(tensors: str) -> tuple[Constraint, ...]:
    """The operator does not take these inputs with DML_TENSOR_FLAG_OWNED_BY_DML."""

    def rule(wire: str) -> Constraint:
        name = snake_case(wire)
        return Constraint(
            f"{name.removesuffix('_tensor')}_not_owned",
            f"`{wire}.Flags` must not have OWNED_BY_DML: the operator does not take it on this input.",
            lambda d: getattr(d, name) is None or not getattr(d, name).flags & TensorFlags.OWNED_BY_DML,
            expected=lambda d: {f"{wire}.Flags": TensorFlags.NONE},
            breaks=lambda d: {name: replace(getattr(d, name), flags=TensorFlags.OWNED_BY_DML)},
        )

    return tuple(map(rule, tensors.split()))


def count_is_dimension_count(tensor: str = "InputTensor", count: str = "DimensionCount") -> Constraint:
    """A count field repeats the tensors' dimension count."""
    of, name = snake_case(tensor), snake_case(count)

    def one_more(d: Any) -> Mapping[str, Any]:
        counted = {f.name: getattr(d, f.name) for f in d.spec.fields if f.sized_by == count}
        return {name: getattr(d, name) + 1, **{n: (*entries, entries[-1]) for n, entries in counted.items()}}

    return Constraint(
        f"{name}_matches",
        f"`{count}` must equal `{tensor}.DimensionCount`.",
        lambda d: getattr(d, name) == getattr(d, of).dimension_count,
        expected=lambda d: {count: getattr(d, of).dimension_count},
        breaks=one_more,
    )


def scalar_type(field: str, tensor: str = "OutputTensor") -> Constraint:
    """The data type of a DML_SCALAR_UNION is a tensor's."""
    name, of = snake_case(field), snake_case(tensor)

    def other(d: Any) -> Mapping[str, Any]:
        return {name: next(t for t in (DataType.FLOAT32, DataType.FLOAT64) if t != getattr(d, of).data_type)}

    return Constraint(
        f"{name}_matches",
        f"`{field}` must equal `{tensor}.DataType`.",
        lambda d: getattr(d, name) == getattr(d, of).data_type,
        expected=lambda d: {field: getattr(d, of).data_type},
        breaks=other,
    )


def fusable_activation(field: str = "FusedActivation", *, each: bool = False) -> tuple[Constraint, ...]:
    """A fused activation is an operator that can be fused, without tensors of its own; with `each`, all of an array of them.

    `check` judges the rules about its attributes.
    """
    name = snake_case(field)

    def activation(d: Any, i: tuple[int, ...]) -> Any:
        return getattr(d, name)[i[0]] if i else getattr(d, name)

    def allowed(d: Any, *i: int) -> bool:
        found = activation(d, i)
        return found is None or (found.spec.fusable and (not found.spec.fused_by or d.spec.name in found.spec.fused_by))

    def bare(d: Any, *i: int) -> bool:
        found = activation(d, i)
        return found is None or not found.spec.fusable or next(found.tensors(), None) is None

    def changed(d: Any, value: Any) -> Mapping[str, Any]:
        return {name: (*getattr(d, name)[:-1], value) if each else value}

    return (
        Constraint(
            f"{name}_fusable",
            f"`{field}` must be an activation that can be fused.",
            allowed,
            each=field if each else None,
            breaks=lambda d: changed(d, d),  # an operator that takes an activation cannot be one
        ),
        Constraint(
            f"{name}_without_tensors",
            f"`{field}` must have no tensors of its own.",
            bare,
            each=field if each else None,
        ),
    )


__all__ = [
    "axes", "axis_in_range", "count_is_dimension_count", "effective_rank_at_most_two", "fusable_activation", "not_owned",
    "same", "scalar_type", "single_element", "sizes_are",
]  # fmt: skip
