"""DML_OPERATOR_ELEMENT_WISE_THRESHOLD: every element, or a lower bound if it is below.

Source: ns-directml-dml_element_wise_threshold_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))
INTEGERS = TensorDesc(DataType.INT32, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_THRESHOLD", 32, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseThreshold(Desc):
    """Raises every element to a lower bound: Output = max(x, Min).

    Where there is a ScaleBias, it is max(x * Scale + Bias, Min). In an integer tensor, the result is truncated toward zero
    and saturates.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )
    min: float = field.attribute("Min", field.FLOAT, "The lower bound.")

    rows = (
        support("1_0", BOTH, (4, 4), FLOATS),
        support("2_1", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x: maximum(scaled(d, x), d.min))

    examples = (
        Example(
            "At least 0.5",
            dict(input_tensor=FOUR, output_tensor=FOUR, min=0.5),
            dict(input_tensor=np.array([-1, 0.25, 0.75, np.nan], np.float32)),
            np.array([0.5, 0.5, 0.75, np.nan], np.float32),
        ),
        Example(
            "Integers of at least 0.5: what 0.5 takes the place of becomes 0",
            dict(input_tensor=INTEGERS, output_tensor=INTEGERS, min=0.5),
            dict(input_tensor=np.array([-7, 0, 1, 7], np.int32)),
            np.array([0, 0, 1, 7], np.int32),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what becomes of NaN: as element or bound it gives NaN (our decision).",
        "The page does not say what a fraction as bound does to integers: the exact result is truncated toward zero and "
        "saturates, and NaN is 0 (our decision).",
    )
