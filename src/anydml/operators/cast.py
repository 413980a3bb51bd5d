"""DML_OPERATOR_CAST: elements in another data type.

Source: ns-directml-dml_cast_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BOTH = "InputTensor OutputTensor"
FIVE = TensorDesc(DataType.FLOAT32, (5,))
FOUR_WORDS = TensorDesc(DataType.INT32, (4,))


@operator("DML_OPERATOR_CAST", 61, since=FeatureLevel.FL_1_0)
class Cast(Desc):
    """Converts every element to the output's data type: Output = Input, as nearly as the type holds it.

    A float becomes an integer by truncation toward zero, and saturates; NaN becomes 0. An integer becomes one of another type
    modulo 2^bits. Numbers become floats by rounding half to even. If both types are the same, bits are copied unchanged.

    At `FeatureLevel.EXTENDED`, both may be BFLOAT16 or 8-bit floats. A number beyond the largest becomes infinite, or NaN in a
    type without infinities; ELEMENT_WISE_CLIP before the cast makes it saturate.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements to convert.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The same elements in the output's data type.")

    eight_bit_floats = BOTH
    rows = (
        support("1_0", BOTH, (4, 4), EIGHT),
        support("3_0", BOTH, (4, 4), TEN),
        support("3_1", BOTH, (1, 8), TEN),
        support("4_1", BOTH, (1, 8), ELEVEN),
    )
    same = same("DimensionCount Sizes", BOTH)

    def outputs(d) -> Outputs:
        return {"output_tensor": (d.input_tensor.sizes, None)}

    def statement(d, x: Tensor) -> Nest:
        i = each(d.output_tensor.sizes)
        return (move if d.output_tensor.data_type == d.input_tensor.data_type else nest)(i, x[i])

    examples = (
        Example(
            "Floats are truncated toward zero, saturate, and NaN becomes 0",
            dict(input_tensor=FIVE, output_tensor=TensorDesc(DataType.UINT8, (5,))),
            dict(input_tensor=np.array([2.7, -0.9, -3, 300, np.nan], np.float32)),
            np.array([2, 0, 0, 255, 0], np.uint8),
        ),
        Example(
            "Integers wrap",
            dict(input_tensor=FOUR_WORDS, output_tensor=TensorDesc(DataType.INT8, (4,))),
            dict(input_tensor=np.array([127, 128, 256, -129], np.int32)),
            np.array([127, -128, 0, 127], np.int8),
        ),
        Example(
            "Integers are rounded half to even where a float has no room for them",
            dict(input_tensor=FOUR_WORDS, output_tensor=TensorDesc(DataType.FLOAT32, (4,))),
            dict(input_tensor=np.array([-1, 2**24, 2**24 + 1, 2**24 + 3], np.int32)),
            np.array([-1, 2**24, 2**24, 2**24 + 4], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The table of 1_0 lacks INT32 and UINT32, which were taken then, too; they are in it here (our decision).",
        "The page has no rules of conversion. Floats that become integers are truncated, saturate, and NaN is 0; integers "
        "that become integers wrap; the rest is rounded half to even (our decision).",
        "The page describes InputTensor as the tensor to write the results to.",
    )
