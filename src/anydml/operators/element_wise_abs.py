"""DML_OPERATOR_ELEMENT_WISE_ABS: the magnitude.

Source: ns-directml-dml_element_wise_abs_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
TRIPLE = TensorDesc(DataType.FLOAT32, (3,))
INTEGERS = TensorDesc(DataType.INT8, (3,))


@operator("DML_OPERATOR_ELEMENT_WISE_ABS", 2, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseAbs(Desc):
    """Takes the magnitude of every element: Output = |x|, or |x * Scale + Bias| where there is a ScaleBias.

    The magnitude of the lowest integer of a type wraps to that integer itself. With a ScaleBias, an integer is truncated
    toward zero and saturates.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The magnitudes.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_1", BOTH, (4, 4), (*FLOATS, *SIGNED)),
        support("3_0", BOTH, (1, 8), (*FLOATS, *SIGNED)),
        support("4_1", BOTH, (1, 8), (*FLOATS, *SIGNED, DataType.INT64)),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: absolute(scaled(d, x)))

    examples = (
        Example(
            "The magnitudes of -1.5, -0 and infinity",
            dict(input_tensor=TRIPLE, output_tensor=TRIPLE),
            dict(input_tensor=np.array([-1.5, -0.0, np.inf], np.float32)),
            np.array([1.5, 0, np.inf], np.float32),
        ),
        Example(
            "Of integers, among which the lowest has none",
            dict(input_tensor=INTEGERS, output_tensor=INTEGERS),
            dict(input_tensor=np.array([-128, -127, 5], np.int8)),
            np.array([-128, 127, 5], np.int8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what becomes of the lowest integer: it wraps to itself (our decision).",
        "The page does not say what a ScaleBias does to integers: the exact result is truncated toward zero and saturates "
        "(our decision).",
    )
