"""DML_OPERATOR_ARGMIN: the position of the smallest element along chosen axes.

Source: ns-directml-dml_argmin_operator_desc.
"""

from __future__ import annotations

from anydml.operators.argmax import BOTH, DECREASING, EAGER, ERRATA, INCREASING, ROWS, along, output_sizes, places, ties
from anydml.operators.shared.vocabulary import *


@operator("DML_OPERATOR_ARGMIN", 137, since=FeatureLevel.FL_3_0)
class Argmin(Desc):
    """Finds the row-major position of the smallest element along all listed axes together.

    Of equal elements it is the first, with DECREASING the last; zeros of both signs are equal, and NaN is less than all.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The places; reduced axes have size 1.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that are reduced.", sized_by="AxisCount")
    axis_direction: AxisDirection = field.attribute(
        "AxisDirection", field.AXIS_DIRECTION, "INCREASING: the first of equal elements; DECREASING: the last.",
        default=INCREASING,
    )  # fmt: skip

    eager = EAGER

    rows = ROWS
    same = same("DimensionCount", BOTH)
    axis_rules = axis_rules()
    output_sizes = output_sizes()

    outputs = places

    def statement(d, x: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        k = over(i, x.sizes, d.axes)
        return nest(i, first_smallest(k, x[k], d.axis_direction == DECREASING))

    examples = (
        along([0, 1, 2], (0,), 1, 3),
        along([0, 1, 0], (1,), 3, 1),
        along([4], (0, 1), 1, 1),
        ties([1, 2, 3, 2, 1], INCREASING, 0),
        ties([1, 2, 3, 2, 1], DECREASING, 4),
    )
    rejecting = ()
    errata = (*ERRATA, "The page repeats the declaration of AxisDirection in its text.")
