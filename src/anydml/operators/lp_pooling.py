"""DML_OPERATOR_LP_POOLING1 and its older version DML_OPERATOR_LP_POOLING: the p-norm of each position of a window.

Sources: ns-directml-dml_lp_pooling1_operator_desc, ns-directml-dml_lp_pooling_operator_desc.
"""

from __future__ import annotations

from fractions import Fraction

from anydml.operators.average_pooling import plane, squares
from anydml.operators.shared.vocabulary import *
from anydml.schema.windows import (
    COUNT,
    DILATED,
    DILATED_ERRATA,
    DILATIONS,
    EAGER,
    END_PADDING,
    START_PADDING,
    STRIDES,
    WINDOW_ERRATA,
    WINDOW_SIZE,
    pooled,
    positions,
    undilated,
    window_rules,
)

BOTH = "InputTensor OutputTensor"
ERRATA = (
    *WINDOW_ERRATA,
    "The formula has powers of the elements themselves; they are of magnitudes, as in ONNX: with an odd P, sums could "
    "otherwise be negative.",
    "The page does not say what P is legal: one of at least 1 (our decision).",
    "The norm of a window without elements is 0 (our decision).",
    "Implementations of FLOAT16 that raise to powers in FLOAT16 overflow where the norm itself would not; here nothing does.",
)


def p_at_least_one() -> Constraint:
    return Constraint(
        "p_at_least_one",
        "`P` must be at least 1.",
        lambda d: d.p >= 1,
        expected=lambda d: {"P": range(1, 2**32)},
        breaks=lambda d: {"p": 0},
    )


def norm(k: Indices, x: Expr, p: int) -> Expr:
    """The p-norm of the elements at positions k; for p = 1 and 2, by operations that are faster than powers."""
    if p == 1:
        return Sum(k, absolute(x))
    if p == 2:
        return sqrt(Sum(k, x * x))
    return pow(Sum(k, pow(absolute(x), p)), Fraction(1, p))


@operator("DML_OPERATOR_LP_POOLING1", 165, since=FeatureLevel.FL_6_2)
class LpPooling1(Desc):
    """Computes the p-norm of every position of a window that slides over the spatial dimensions: (sum of |x|^P)^(1/P).

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1. Elements
    outside of the input are left out. The norm is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The norms.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")
    p: int = field.attribute("P", field.UINT, "The norm's exponent: 1 for sums of magnitudes, 2 for lengths.", default=2)

    eager = DILATED

    rows = (support("6_2", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules()
    p_rule = p_at_least_one()

    outputs = pooled

    def statement(d, x: Tensor) -> Nest:
        n, c, *o = i = each(d.output_tensor.sizes)
        k = each(d.window_size, "uvw")
        return nest(i, norm(k, x.skipped([n, c, *positions(d, o, k)]), d.p))

    examples = (
        Example(
            "Lengths of every second element of 3 x 3",
            squares(3, 1, 2, 1, dilations=(2, 2), p=2),
            dict(input_tensor=plane([[1, 0, 1], [0, 9, 0], [-3, 0, 5]])),
            plane([[6]]),
        ),
        Example(
            "The cube root of sums of cubes",
            squares(2, 1, 2, 1, dilations=(1, 1), p=3),
            dict(input_tensor=plane([[3, -4], [0, 5]])),
            plane([[6]]),
        ),
    )
    rejecting = ()
    errata = (
        *ERRATA,
        *DILATED_ERRATA,
    )


@operator("DML_OPERATOR_LP_POOLING", 57, since=FeatureLevel.FL_1_0)
class LpPooling(Desc):
    """Computes the p-norm of every position of a window that slides over the spatial dimensions: (sum of |x|^P)^(1/P).

    It is LP_POOLING1 with Dilations of 1.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The norms.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    p: int = field.attribute("P", field.UINT, "The norm's exponent: 1 for sums of magnitudes, 2 for lengths.", default=2)

    eager = EAGER

    rows = (support("1_0", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules(dilated=False)
    p_rule = p_at_least_one()

    outputs = pooled

    def as_newest(d) -> LpPooling1:
        return LpPooling1(input_tensor=d.input_tensor, output_tensor=d.output_tensor, p=d.p, **undilated(d))

    examples = (
        Example(
            "Lengths of squares of 2 x 2 side by side",
            squares(4, 2, 2, 2, p=2),
            dict(input_tensor=plane(np.arange(1, 17).reshape(4, 4))),
            plane([[8.1240384, 11.74734012], [23.36664289, 27.31300057]]),
        ),
        Example(
            "Sums of magnitudes",
            squares(4, 2, 2, 2, p=1),
            dict(input_tensor=plane(np.arange(-7, 9).reshape(4, 4))),
            plane([[18, 10], [14, 22]]),
        ),
    )
    rejecting = ()
    errata = ERRATA
