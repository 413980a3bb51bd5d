"""DML_OPERATOR_ELEMENT_WISE_IS_INFINITY: whether an element is infinite.

Sources: ns-directml-dml_element_wise_is_infinity_operator_desc, ne-directml-dml_is_infinity_mode.
"""

from __future__ import annotations

import math

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))
FOUR_TRUTHS = TensorDesc(DataType.UINT8, (4,))
ELEMENTS: dict[str, Any] = {"input_tensor": np.array([-np.inf, 1, np.inf, np.nan], np.float32)}


def infinite(mode: IsInfinityMode, x: Expr) -> Expr:
    """Whether a number is one of the infinities that a mode names."""
    if mode == IsInfinityMode.EITHER:
        return equal(absolute(x), math.inf)
    return equal(x, math.inf if mode == IsInfinityMode.POSITIVE else -math.inf)


@operator("DML_OPERATOR_ELEMENT_WISE_IS_INFINITY", 100, since=FeatureLevel.FL_2_1)
class ElementWiseIsInfinity(Desc):
    """Tells which elements are infinite: Output = 1 where x is infinite and has the sign asked for, else 0."""

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The truths, 1 or 0.")
    infinity_mode: IsInfinityMode = field.attribute(
        "InfinityMode", field.IS_INFINITY_MODE, "The infinity to look for, or either.", default=IsInfinityMode.EITHER
    )

    rows = (
        support("2_1", "InputTensor", (4, 4), FLOATS),
        support("2_1", "OutputTensor", (4, 4), (DataType.UINT8,)),
        support("3_0", "InputTensor", (1, 8), FLOATS),
        support("3_0", "OutputTensor", (1, 8), (DataType.UINT8,)),
    )
    same = same("DimensionCount Sizes", BOTH)

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, DataType.UINT8)}

    statement = elementwise(lambda d, x: select(infinite(d.infinity_mode, x), 1, 0))

    examples = (
        Example(
            "Either infinity",
            dict(input_tensor=FOUR, output_tensor=FOUR_TRUTHS),
            ELEMENTS,
            np.array([1, 0, 1, 0], np.uint8),
        ),
        Example(
            "The negative one alone",
            dict(input_tensor=FOUR, output_tensor=FOUR_TRUTHS, infinity_mode="NEGATIVE"),
            ELEMENTS,
            np.array([1, 0, 0, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say whether the output may be the input; it is smaller, and may not (our decision).",
        "The page asks for the Windows of feature level 2_0; the operator came with 2_1.",
    )
