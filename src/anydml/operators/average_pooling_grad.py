"""DML_OPERATOR_AVERAGE_POOLING_GRAD: the gradients of means of windows.

Source: ns-directml-dml_average_pooling_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.average_pooling import float32, plane
from anydml.operators.shared.vocabulary import *
from anydml.schema.windows import (
    COUNT,
    END_PADDING,
    START_PADDING,
    STRIDES,
    WINDOW_SIZE,
    divisor,
    places,
    positions,
    window_defaults,
    window_rules,
)

BOTH = "InputGradientTensor OutputGradientTensor"


@operator("DML_OPERATOR_AVERAGE_POOLING_GRAD", 130, since=FeatureLevel.FL_3_0)
class AveragePoolingGrad(Desc):
    """Adds to every element the gradients of the means that it is part of, each divided by the mean's number of elements.

    The elements at position o of the window are those at o * Stride + k - StartPadding, for k from 0 to WindowSize - 1, that
    are inside the tensor. As in AVERAGE_POOLING, their number includes those in the padding if there is IncludePadding. Sums
    are exact, and rounded once.
    """

    input_gradient_tensor: TensorDesc = field.input(
        "InputGradientTensor", "The gradient of the means, {BatchCount, ChannelCount, [Depth,] Height, Width}."
    )
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    include_padding: bool = field.attribute(
        "IncludePadding", field.BOOL, "Whether the padding counts in the number of elements.", default=False
    )

    eager = window_defaults("input_gradient_tensor")

    rows = (support("3_0", BOTH, (4, 5), FLOATS),)
    same = same("DataType DimensionCount", BOTH)
    windows = window_rules(dilated=False, image="OutputGradientTensor", output="InputGradientTensor")

    def statement(d, g: Tensor) -> Nest:
        sizes = d.output_gradient_tensor.sizes
        n, c, *p = i = each(sizes)
        k, u = each(d.window_size, "uvw"), each(d.window_size, "xyz")
        o, met = places(d, p, k, g.sizes[2:])
        return nest(i, Sum(k, g[[n, c, *o]] / divisor(d, u, positions(d, o, u), sizes[2:]), met))

    examples = (
        Example(
            "Page: windows of 2 x 2",
            dict(
                input_gradient_tensor=float32(1, 1, 2, 2), output_gradient_tensor=float32(1, 1, 3, 3), strides=(1, 1),
                window_size=(2, 2), start_padding=(0, 0), end_padding=(0, 0),
            ),
            dict(input_gradient_tensor=plane([[1, 2], [3, 4]])),
            plane([[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]),
        ),
        Example(
            "Padding that does not count",
            dict(
                input_gradient_tensor=float32(1, 1, 1, 2), output_gradient_tensor=float32(1, 1, 1, 3), strides=(1, 2),
                window_size=(1, 3), start_padding=(0, 1), end_padding=(0, 1),
            ),
            dict(input_gradient_tensor=plane([[4, 6]])),
            plane([[2, 5, 3]]),
        ),
    )  # fmt: skip
    rejecting = (rejects("same_dimension_count", input_gradient_tensor=float32(1, 1, 1, 2, 2)),)
    errata = (
        "The page says nothing about sizes that are rounded up; they are legal, as those of AVERAGE_POOLING, and elements "
        "beyond EndPadding are not counted (our decision).",
        "The page does not say what strides and windows are legal: those of at least 1 (our decision).",
        "There are no Dilations: AVERAGE_POOLING1 with those has no gradient.",
    )
