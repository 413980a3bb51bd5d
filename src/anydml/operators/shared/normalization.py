"""Normalisations: the rules of broadcast parameters and the formula that their operators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anydml.schema.constraint import DIMENSION, Constraint
from anydml.schema.expression import Indices, Mean, Sum, Tensor, each, over, sqrt
from anydml.schema.node import Expr, number
from anydml.schema.operator import Rejects, rejects
from anydml.schema.rules import same
from anydml.schema.statement import Nest, nest
from anydml.spelling import snake_case
from anydml.tensor import DataType, TensorDesc


def broadcast(tensors: str, of: str = "InputTensor") -> tuple[Constraint, ...]:
    """Parameters, which may be absent; each of their sizes is 1 or that of the normalised tensor."""
    whole = snake_case(of)

    def rule(wire: str) -> Constraint:
        name = snake_case(wire)

        def fits(d: Any, i: int) -> bool:
            t, sizes = getattr(d, name), getattr(d, whole).sizes
            if t is not None and len(t.sizes) != len(sizes):
                raise ValueError("the rule about dimension counts is broken, so that sizes cannot be compared")
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
    """Scale * centred / sqrt(variance + Epsilon) + Bias; absent operands are left out."""
    body = centred if scale is None else scale.broadcast(i) * centred
    if variance is not None:
        body = body / sqrt(variance + d.epsilon)
    return number(body if bias is None else body + bias.broadcast(i))


# --- over batches, and gradients ---

EPSILON = "A number added to every variance, so that it is not zero."
BATCH_ERRATA = (
    "The page does not say what Variance + Epsilon of 0 or less gives: the quotient by its square root, which is an infinity "
    "or NaN (our decision).",
)


def batch_rules(images: str, parameters: str) -> tuple[Constraint, ...]:
    """The rules of tensors like InputTensor and of parameters like ScaleTensor, both named in blank-separated strings."""
    return (
        *same("DataType DimensionCount Sizes", images),
        *same("DataType DimensionCount Sizes", parameters, name="parameters"),
        *same("DataType DimensionCount", "InputTensor ScaleTensor", name="scale"),
        *broadcast("ScaleTensor"),
    )


def batch_rejects(parameters: str, sizes: tuple[int, ...]) -> tuple[Rejects, ...]:
    """Examples that break the rules between images and parameters; sizes: the parameters' in the first example."""

    def all_are(data_type: DataType, sizes: tuple[int, ...]) -> dict[str, Any]:
        return dict.fromkeys(map(snake_case, parameters.split()), TensorDesc(data_type, sizes))

    return (
        rejects("same_data_type_scale", **all_are(DataType.FLOAT16, sizes)),
        rejects("same_dimension_count_scale", **all_are(DataType.FLOAT32, (1, *sizes))),
        rejects("scale_broadcasts", **all_are(DataType.FLOAT32, (*sizes[:-1], sizes[-1] + 4))),
    )


def averaged(sizes: tuple[Any, ...]) -> list[int]:
    """The dimensions over which statistics are computed: those in which parameters of these sizes have one element."""
    return [axis for axis, n in enumerate(sizes) if n == 1]


def mean_of(x: Tensor, place: Indices, axes: list[int]) -> Expr:
    """The mean of the elements along the axes."""
    k = over(place, x.sizes, axes)
    return Mean(k, x[k]) if axes else x[k]


def variance_of(x: Tensor, place: Indices, axes: list[int]) -> Expr:
    """The mean of the squared differences from the mean along the axes."""
    k = over(place, x.sizes, axes)
    square = (x[k] - mean_of(x, place, axes)) ** 2
    return Mean(k, square) if axes else square


def parameter_gradients(
    d: Any, x: Tensor, g: Tensor, mean: Tensor | None, variance: Tensor, sizes: tuple[Any, ...]
) -> tuple[Nest, Nest]:
    """The gradients of scale and bias, with these sizes: sums of g * (x - mean) / sqrt(variance + Epsilon), and of g.

    mean: a tensor of means; if it is None, the input's own means.
    """
    p, axes = each(sizes), averaged(sizes)
    k = over(p, x.sizes, axes)
    middle = mean_of(x, p, axes) if mean is None else mean[p]
    q = each(sizes)
    other = over(q, x.sizes, axes)
    total, bias = (Sum(*pair) if axes else pair[1] for pair in ((k, g[k] * (x[k] - middle)), (other, g[other])))
    return nest(p, total / sqrt(shifted(d, variance[p]))), nest(q, bias)


def shifted(d: Any, variance: Expr) -> Expr:
    """A variance plus the desc's Epsilon, which is 0 if absent: so a variance of -0 becomes +0."""
    return variance + (0.0 if d.epsilon is None else d.epsilon)
