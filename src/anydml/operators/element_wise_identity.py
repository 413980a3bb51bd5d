"""DML_OPERATOR_ELEMENT_WISE_IDENTITY: every element unchanged, or scaled and biased.

Source: ns-directml-dml_element_wise_identity_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
COLUMNS = TensorDesc(DataType.FLOAT32, (3, 2))
INTEGERS = TensorDesc(DataType.INT8, (4,))


@operator("DML_OPERATOR_ELEMENT_WISE_IDENTITY", 1, since=FeatureLevel.FL_1_0, in_place=("InputTensor",))
class ElementWiseIdentity(Desc):
    """Copies every element: Output = x, or x * Scale + Bias where there is a ScaleBias.

    Without a ScaleBias, bits are copied unchanged, also those of NaN; input and output may have different strides. With a
    ScaleBias, integers are truncated toward zero and saturate.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    scale_bias: ScaleBias | None = field.attribute(
        "ScaleBias", field.SCALE_BIAS, "A factor and a term, applied exactly to every x; if absent, x is used.", default=None
    )

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 5), FLOATS),
        support("2_1", BOTH, (4, 5), EIGHT),
        support("3_0", BOTH, (1, 8), EIGHT),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DataType DimensionCount Sizes", BOTH)

    outputs = like("input_tensor")

    def statement(d, x: Tensor) -> Nest:
        i = each(x.sizes)
        return move(i, x[i]) if d.scale_bias is None else nest(i, scaled(d, x[i]))

    examples = (
        Example(
            "A transposition: the input's strides step along rows, the output is packed",
            dict(input_tensor=TensorDesc(DataType.FLOAT32, (3, 2), strides=(1, 3)), output_tensor=COLUMNS),
            dict(input_tensor=np.array([[1, 2, 3], [4, 5, 6]], np.float32).T),
            np.array([[1, 4], [2, 5], [3, 6]], np.float32),
        ),
        Example(
            "Integers times 2.5 plus 0.25: toward zero, and saturated",
            dict(input_tensor=INTEGERS, output_tensor=INTEGERS, scale_bias=ScaleBias(2.5, 0.25)),
            dict(input_tensor=np.array([-100, -1, 1, 100], np.int8)),
            np.array([-128, -2, 2, 127], np.int8),
        ),
    )
    rejecting = ()
    errata = (
        "The page does not say what a ScaleBias does to integers: the exact result is truncated toward zero and saturates "
        "(our decision).",
    )
