"""DML_OPERATOR_FOLD: columns added up to the image whose windows they are.

Source: ns-directml-dml_fold_operator_desc.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *
from anydml.operators.unfold import (
    BOTH,
    COUNT,
    DILATIONS,
    EAGER,
    END_PADDING,
    ERRATA,
    START_PADDING,
    STRIDES,
    WINDOW_SIZES,
    blocks,
    count,
    float32,
    fold_rules,
    square,
)
from anydml.schema.windows import places


@operator("DML_OPERATOR_FOLD", 176, since=FeatureLevel.FL_6_4)
class Fold(Desc):
    """Adds up columns, each the elements of a window, at their positions in an image: the reverse of UNFOLD.

    Output[n, c, p] = sum of Input[n, c * K + k, b] over all b and k with p = b * Stride + k * Dilation - StartPadding. Here b
    is a position of the window and k one of its K elements, each counted in row-major order. Elements outside of the image
    are left out. Sums are exact, and rounded once; integers wrap modulo 2^bits.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The columns, {BatchCount, ChannelCount * K, places}.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The image, {BatchCount, ChannelCount, ..}.")
    dimension_count: int | None = field.count("DimensionCount", COUNT, default=None)
    window_sizes: tuple[int, ...] = field.attribute("WindowSizes", field.UINT, WINDOW_SIZES, sized_by="DimensionCount")
    strides: tuple[int, ...] = field.attribute("Strides", field.UINT, STRIDES, sized_by="DimensionCount")
    dilations: tuple[int, ...] = field.attribute("Dilations", field.UINT, DILATIONS, sized_by="DimensionCount")
    start_padding: tuple[int, ...] = field.attribute("StartPadding", field.UINT, START_PADDING, sized_by="DimensionCount")
    end_padding: tuple[int, ...] = field.attribute("EndPadding", field.UINT, END_PADDING, sized_by="DimensionCount")

    eager = EAGER

    rows = (support("6_4", "InputTensor", (3, 3), ELEVEN), support("6_4", "OutputTensor", (3, 8), ELEVEN))
    same = same("DataType", BOTH)
    folding = fold_rules("OutputTensor", "InputTensor")

    def statement(d, x: Tensor) -> Nest:
        n, c, *p = i = each(d.output_tensor.sizes)
        k = each(d.window_sizes, "uvwxyz")
        sizes = blocks(d, d.output_tensor.sizes[2:])
        at, met = places(d, p, k, sizes)
        row = c * math.prod(d.window_sizes) + row_major(k, d.window_sizes)
        return nest(i, Sum(k, x[[n, row, row_major(at, sizes)]], met))

    examples = (
        Example(
            "Page: 2 x 2 places of 3 x 3",
            dict(input_tensor=float32(1, 9, 4), output_tensor=float32(1, 1, 4, 4)) | square(),
            dict(input_tensor=count(1, 9, 4)),
            np.array([[[[0, 5, 13, 9], [14, 38, 54, 32], [38, 86, 102, 56], [26, 57, 65, 35]]]], np.float32),
        ),
        Example(
            "Page: with padding, and two channels",
            dict(input_tensor=float32(1, 18, 8), output_tensor=float32(1, 2, 4, 4))
            | square(start_padding=(1, 0), end_padding=(1, 0)),
            dict(input_tensor=count(1, 18, 8)),
            np.array(
                [
                    [
                        [[26, 70, 102, 60], [78, 183, 231, 129], [84, 195, 243, 135], [82, 182, 214, 116]],
                        [[170, 358, 390, 204], [294, 615, 663, 345], [300, 627, 675, 351], [226, 470, 502, 260]],
                    ]
                ],
                np.float32,
            ),
        ),
    )
    rejecting = ()
    errata = (
        "The page speaks of the spatial dimensions of InputTensor; they are those of the output.",
        "The page does not say in which order is added: sums are exact (our decision).",
        *ERRATA,
    )
