"""DML_OPERATOR_FILL_VALUE_CONSTANT: a tensor of one number.

Source: ns-directml-dml_fill_value_constant_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *


@operator("DML_OPERATOR_FILL_VALUE_CONSTANT", 103, since=FeatureLevel.FL_2_1)
class FillValueConstant(Desc):
    """Fills a tensor with one number: Output = Value."""

    output_tensor: TensorDesc = field.output("OutputTensor", "The tensor to fill.")
    value_data_type: DataType = field.attribute("ValueDataType", field.DATA_TYPE, "The type of Value.")
    value: float = field.scalar("Value", "ValueDataType", "The number.")

    eight_bit_floats = "OutputTensor"
    rows = (
        support("2_1", "OutputTensor", (4, 4), EIGHT),
        support("4_0", "OutputTensor", (1, 8), EIGHT),
        support("4_1", "OutputTensor", (1, 8), ELEVEN),
    )
    typed = scalar_type("ValueDataType")

    def statement(d) -> Nest:
        return nest(each(d.output_tensor.sizes), d.value)

    examples = (
        Example(
            "Page: 13, eight times",
            dict(output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 4)), value_data_type=DataType.FLOAT32, value=13.0),
            {},
            np.full((1, 1, 2, 4), 13, np.float32),
        ),
    )
    rejecting = (
        rejects(
            "value_fits",
            output_tensor=TensorDesc(DataType.UINT8, (3,)),
            value_data_type=DataType.UINT8,
            value=256,
        ),
    )
    errata = ()
