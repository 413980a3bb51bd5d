"""DML_OPERATOR_CUMULATIVE_SUMMATION: the sums of the elements up to each one.

Source: ns-directml-dml_cumulative_summation_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
INCREASING = AxisDirection.INCREASING
TWELVE = TensorDesc(DataType.FLOAT32, (1, 1, 3, 4))
DATA = dict(input_tensor=np.array([[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]], np.float32))


def along(title: str, axis: int, want: Any, **others: Any) -> Example:
    fields = dict(input_tensor=TWELVE, output_tensor=TWELVE, axis=axis) | others
    return Example(f"Page: {title}", fields, DATA, np.array([[want]], np.float32))


@operator("DML_OPERATOR_CUMULATIVE_SUMMATION", 105, since=FeatureLevel.FL_2_1, in_place=("InputTensor",))
class CumulativeSummation(Desc):
    """Adds up the elements of each line up to every position: Output[i] = sum of Input[k] over k <= i, or over k >= i.

    With HasExclusiveSum the element itself is left out, so that the first sum is 0. Each sum is exact, and
    rounded once; integers wrap modulo 2^bits.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The sums.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")
    axis_direction: AxisDirection = field.attribute(
        "AxisDirection", field.AXIS_DIRECTION, "INCREASING: from the line's first element on; DECREASING: from its last.",
        default=INCREASING,
    )  # fmt: skip
    has_exclusive_sum: bool = field.attribute(
        "HasExclusiveSum", field.BOOL, "Whether the element itself is left out.", default=False
    )

    eager = defaults(axis=("the last", lambda d: d.input_tensor.dimension_count - 1))

    rows = (
        support("2_1", BOTH, (4, 4), WORDS),
        support("4_0", BOTH, (1, 8), WORDS),
        support("5_0", BOTH, (1, 8), (*WORDS, *SIXTY_FOUR)),
    )
    same = same("DataType DimensionCount Sizes", BOTH)
    axis_in_range = axis_in_range()

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, [d.axis])
        first, last = (k[d.axis], i[d.axis]) if d.axis_direction == INCREASING else (i[d.axis], k[d.axis])
        return nest(i, Sum(k, x[k], first < last if d.has_exclusive_sum else first <= last))

    examples = (
        along("rows", 3, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
        along("rows, without the element itself", 3, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]], has_exclusive_sum=True),
        along("rows, from their ends", 3, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]], axis_direction="DECREASING"),
        along("columns", 2, [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]),
        Example(
            "A sum beyond the largest number, and less of it",
            dict(input_tensor=TensorDesc(DataType.FLOAT16, (3,)), output_tensor=TensorDesc(DataType.FLOAT16, (3,)), axis=0),
            dict(input_tensor=np.array([60000, 60000, -60000], np.float16)),
            np.array([60000, np.inf, 60000], np.float16),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say how sums of floats are rounded: each is the exact sum, rounded once (our decision).",
        "The page does not say what becomes of a sum that an integer tensor cannot hold: it wraps (our decision).",
    )
