"""DML_OPERATOR_MAX_POOLING_GRAD: the gradients of the largest elements of windows.

Source: ns-directml-dml_max_pooling_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.average_pooling import float32, plane
from anydml.operators.shared.vocabulary import *
from anydml.schema.windows import (
    COUNT,
    DILATIONS,
    END_PADDING,
    START_PADDING,
    STRIDES,
    WINDOW_SIZE,
    places,
    positions,
    window_defaults,
    window_rules,
)

IMAGES, ALL = "InputTensor OutputGradientTensor", "InputTensor InputGradientTensor OutputGradientTensor"


@operator("DML_OPERATOR_MAX_POOLING_GRAD", 131, since=FeatureLevel.FL_3_0)
class MaxPoolingGrad(Desc):
    """Adds up, for every element, the gradients of the windows in which it is the largest; 0 if there are none.

    The elements at position o of the window are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to
    WindowSize - 1, that are inside the input. The largest is the first NaN or, if there is none, the first of the largest
    numbers. Sums are exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "{BatchCount, ChannelCount, [Depth,] Height, Width}.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The gradient of the largest elements.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the input.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    window_size: tuple[int, ...] = field.attribute("WindowSize", field.UINT, WINDOW_SIZE, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")

    eager = window_defaults(dilated=True)

    rows = (support("3_0", ALL, (4, 4), FLOATS), support("4_0", ALL, (4, 5), FLOATS))
    same = (
        *same("DataType DimensionCount Sizes", IMAGES),
        *same("DataType DimensionCount", "InputTensor InputGradientTensor", name="gradient"),
    )
    windows = window_rules(output="InputGradientTensor")

    def outputs(d) -> Outputs:
        return {"output_gradient_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    def statement(d, x: Tensor, g: Tensor) -> Nest:
        n, c, *p = i = each(x.sizes)
        k, u = each(d.window_size, "uvw"), each(d.window_size, "xyz")
        o, met = places(d, p, k, g.sizes[2:])
        largest = first_largest(u, x.skipped([n, c, *positions(d, o, u)]))
        return nest(i, Sum(k, g[[n, c, *o]], both(met, equal(largest, row_major(k, d.window_size)))))

    examples = (
        Example(
            "Page: windows of 2 x 2",
            dict(
                input_tensor=float32(1, 1, 3, 3), input_gradient_tensor=float32(1, 1, 2, 2),
                output_gradient_tensor=float32(1, 1, 3, 3), strides=(1, 1), window_size=(2, 2), start_padding=(0, 0),
                end_padding=(0, 0), dilations=(1, 1),
            ),
            dict(input_tensor=plane([[1, 2, 3], [2, 4, 2], [5, 6, 7]]), input_gradient_tensor=plane([[1, 2], [4, 5]])),
            plane([[0, 0, 0], [0, 3, 0], [0, 4, 5]]),
        ),
    )  # fmt: skip
    rejecting = ()
    errata = (
        "The text speaks of four dimensions alone; the table has five, too.",
        "The page says nothing about sizes that are rounded up; they are legal, as those of MAX_POOLING (our decision).",
        "The page does not say what strides, windows and dilations are legal: those of at least 1 (our decision).",
        "The page does not say what NaN does: the first one in a window is its largest element (our decision).",
    )
