"""The rules of an array of tensors that are the parts of another tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anydml.schema.constraint import Constraint
from anydml.spelling import snake_case
from anydml.tensor import TensorDesc


def parts(of: str, field: str, count: str) -> tuple[Constraint, ...]:
    """The tensors of an array are the parts of a tensor along `Axis`: there the sizes add up, elsewhere they are equal."""
    whole, name = snake_case(of), snake_case(field)

    def comparable(a: TensorDesc, b: TensorDesc) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if len(a.sizes) != len(b.sizes):
            raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
        return a.sizes, b.sizes

    def equal_elsewhere(d: Any, k: int) -> bool:
        part, total = comparable(getattr(d, name)[k], getattr(d, whole))
        return part == (*total[: d.axis], part[d.axis], *total[d.axis + 1 :])

    def complete(d: Any) -> bool:
        pairs = [comparable(part, getattr(d, whole)) for part in getattr(d, name)]
        return not pairs or sum(part[d.axis] for part, _ in pairs) == getattr(d, whole).sizes[d.axis]

    def one_longer(d: Any, axis: int) -> Mapping[str, Any]:
        *others, last = getattr(d, name)
        longer = tuple(n + (i == axis) for i, n in enumerate(last.sizes))
        return {name: (*others, replace(last, sizes=longer, strides=None))}

    return (
        Constraint(
            f"{snake_case(count)}_at_least_one",
            f"`{count}` must be at least 1.",
            lambda d: getattr(d, snake_case(count)) >= 1,
            expected=lambda d: {count: range(1, 2**32)},
            breaks=lambda d: {name: (), snake_case(count): 0},
        ),
        Constraint(
            "sizes_equal_off_axis",
            f"`{field}.Sizes` must equal `{of}.Sizes` in every dimension but `Axis`.",
            equal_elsewhere,
            each=field,
            breaks=lambda d: one_longer(d, 0 if d.axis else 1),
        ),
        Constraint(
            "axis_sizes_sum",
            f"`{field}.Sizes` must add up to `{of}.Sizes` along `Axis`.",
            complete,
            breaks=lambda d: one_longer(d, d.axis),
        ),
    )
