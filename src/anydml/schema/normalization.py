"""Normalisations: the rules of parameters that are broadcast, and the formula, shared by their operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anydml.names import snake_case
from anydml.schema.constraint import DIMENSION, Constraint
from anydml.schema.expression import Expr, Indices, Tensor, number, sqrt


def broadcast(tensors: str, of: str = "InputTensor") -> tuple[Constraint, ...]:
    """Parameters, each of whose sizes is 1 or that of the normalised tensor; absent ones may be."""
    whole = snake_case(of)

    def rule(wire: str) -> Constraint:
        name = snake_case(wire)

        def fits(d: Any, i: int) -> bool:
            t, sizes = getattr(d, name), getattr(d, whole).sizes
            if t is not None and len(t.sizes) != len(sizes):
                raise ValueError("the rule about dimension counts is broken, and sizes cannot be compared")
            return t is None or t.sizes[i] in (1, sizes[i])

        def larger(d: Any) -> Mapping[str, Any]:
            t = getattr(d, name)
            return {name: replace(t, sizes=(*t.sizes[:-1], getattr(d, whole).sizes[-1] + 1), strides=None)}

        return Constraint(
            f"{name.removesuffix('_tensor')}_broadcasts",
            f"`{wire}.Sizes` must be 1 or equal `{of}.Sizes`.",
            fits,
            each=DIMENSION,
            expected=lambda d, i: {f"{wire}.Sizes[{i}]": sorted({1, getattr(d, whole).sizes[i]})},
            breaks=larger,
        )

    return tuple(map(rule, tensors.split()))


def normalized(
    d: Any, i: Indices, centred: Expr, variance: Expr | None, scale: Tensor | None = None, bias: Tensor | None = None
) -> Expr:
    """Scale * centred / sqrt(variance + Epsilon) + Bias, without what is absent."""
    body = centred if scale is None else scale.broadcast(i) * centred
    if variance is not None:
        body = body / sqrt(variance + d.epsilon)
    return number(body if bias is None else body + bias.broadcast(i))
