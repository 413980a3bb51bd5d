"""DML_OPERATOR_ARGMAX: the position of the largest element along chosen axes.

Source: ns-directml-dml_argmax_operator_desc.
"""

from __future__ import annotations

from anydml.operators.reduce import reduced
from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
INCREASING, DECREASING = AxisDirection.INCREASING, AxisDirection.DECREASING
EAGER = defaults(axes=("all", lambda d: range(d.input_tensor.dimension_count)))
ROWS = (
    support("3_0", "InputTensor", (1, 8), EIGHT),
    support("3_0", "OutputTensor", (1, 8), INDICES),
    support("4_1", "InputTensor", (1, 8), TEN),
)
ERRATA = (
    "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
    "The page does not say in which order several axes count: that of the dimensions, however they are listed (our decision).",
    "The page does not say what NaN is: the first NaN, or with DECREASING the last, is what is looked for (our decision).",
    "The page does not say what becomes of a place that the output's type cannot hold: it wraps (our decision).",
)
PAGE = np.array([[1, 2, 3], [3, 0, 4], [2, 5, 2]], np.float32)


def output_sizes() -> Constraint:
    def sizes(d: Any) -> tuple[int, ...]:
        if not d.axes:
            raise ValueError("no axis is named")
        return reduced(d)

    return sizes_are("OutputTensor", "`OutputTensor.Sizes` must be `InputTensor.Sizes` with 1 at each of `Axes`.", sizes)


def places(d: Any) -> Outputs:
    """The sizes and data types of the outputs of both operators."""
    return {"output_tensor": (reduced(d), DataType.UINT32)}


def along(want: Any, axes: tuple[int, ...], *sizes: int) -> Example:
    return Example(
        f"Page: along axes {axes}",
        dict(
            input_tensor=TensorDesc(DataType.FLOAT32, (3, 3)),
            output_tensor=TensorDesc(DataType.UINT32, sizes),
            axes=axes,
            axis_direction=INCREASING,
        ),
        dict(input_tensor=PAGE),
        np.array(want, np.uint32).reshape(sizes),
    )


def ties(row: Any, direction: AxisDirection, want: int) -> Example:
    return Example(
        f"Page: equal elements, {direction}",
        dict(
            input_tensor=TensorDesc(DataType.INT32, (5,)),
            output_tensor=TensorDesc(DataType.INT64, (1,)),
            axes=(0,),
            axis_direction=direction,
        ),
        dict(input_tensor=np.array(row, np.int32)),
        np.array([want], np.int64),
    )


@operator("DML_OPERATOR_ARGMAX", 138, since=FeatureLevel.FL_3_0)
class Argmax(Desc):
    """Finds the row-major position of the largest element along all listed axes together.

    Of equal elements it is the first, with DECREASING the last; zeros of both signs are equal, and NaN is larger than all.
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
        return nest(i, first_largest(k, x[k], d.axis_direction == DECREASING))

    examples = (
        along([1, 2, 1], (0,), 1, 3),
        along([2, 2, 1], (1,), 3, 1),
        along([7], (0, 1), 1, 1),
        ties([3, 2, 1, 2, 3], INCREASING, 0),
        ties([3, 2, 1, 2, 3], DECREASING, 4),
    )
    rejecting = ()
    errata = ERRATA
