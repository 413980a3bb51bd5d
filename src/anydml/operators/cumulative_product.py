"""DML_OPERATOR_CUMULATIVE_PRODUCT: the products of the elements up to each one.

Source: ns-directml-dml_cumulative_product_operator_desc.
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


@operator("DML_OPERATOR_CUMULATIVE_PRODUCT", 145, since=FeatureLevel.FL_3_1, in_place=("InputTensor",))
class CumulativeProduct(Desc):
    """Multiplies the elements of each line up to every position: Output[i] = product of Input[k] over k <= i, or over k >= i.

    With HasExclusiveProduct the element itself is left out, so that the first product is 1. Each product is exact, and
    rounded once; integers wrap modulo 2^bits.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The products.")
    axis: int = field.attribute("Axis", field.UINT, "The axis along which the lines lie.")
    axis_direction: AxisDirection = field.attribute(
        "AxisDirection", field.AXIS_DIRECTION, "INCREASING: from the line's first element on; DECREASING: from its last.",
        default=INCREASING,
    )  # fmt: skip
    has_exclusive_product: bool = field.attribute(
        "HasExclusiveProduct", field.BOOL, "Whether the element itself is left out.", default=False
    )

    eager = defaults(axis=("the last", lambda d: d.input_tensor.dimension_count - 1))

    rows = (
        support("3_1", BOTH, (4, 4), WORDS),
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
        return nest(i, Product(k, x[k], first < last if d.has_exclusive_product else first <= last))

    examples = (
        along("rows", 3, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
        along(
            "rows, without the element itself", 3, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]], has_exclusive_product=True
        ),
        along("rows, from their ends", 3, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]], axis_direction="DECREASING"),
        along("columns", 2, [[2, 1, 3, 5], [6, 8, 21, 15], [54, 48, 42, 60]]),
    )
    rejecting = ()
    errata = (
        "The text about InputTensor has a sentence about BATCH_NORMALIZATION, which has nothing to do with it.",
        "Example 4 calls axis 2 the second dimension.",
        "The page does not say how products of floats are rounded: each is the exact product, rounded once (our decision).",
        "The page does not say what becomes of a product that an integer tensor cannot hold: it wraps (our decision).",
    )
