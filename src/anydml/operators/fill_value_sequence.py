"""DML_OPERATOR_FILL_VALUE_SEQUENCE: a tensor of evenly spaced numbers.

Source: ns-directml-dml_fill_value_sequence_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

BYTES = TensorDesc(DataType.UINT8, (3,))


@operator("DML_OPERATOR_FILL_VALUE_SEQUENCE", 104, since=FeatureLevel.FL_2_1)
class FillValueSequence(Desc):
    """Fills a tensor with evenly spaced numbers: Output = ValueStart + k * ValueDelta for element k in row-major order.

    Floats are rounded once, from the exact sum; integers wrap modulo 2^bits.
    """

    output_tensor: TensorDesc = field.output("OutputTensor", "The numbers; strides do not change their order.")
    value_data_type: DataType = field.attribute("ValueDataType", field.DATA_TYPE, "The type of ValueStart and ValueDelta.")
    value_start: float = field.scalar("ValueStart", "ValueDataType", "The first number.")
    value_delta: float = field.scalar("ValueDelta", "ValueDataType", "The difference between neighbouring numbers.")

    rows = (support("2_1", "OutputTensor", (4, 4), EIGHT), support("5_0", "OutputTensor", (1, 8), TEN))
    typed = scalar_type("ValueDataType")

    def statement(d) -> Nest:
        i = each(d.output_tensor.sizes)
        k = row_major(i, d.output_tensor.sizes)
        return nest(i, select(equal(k, 0), d.value_start, d.value_start + k * d.value_delta))

    examples = (
        Example(
            "Page: from 3 in steps of 2",
            dict(
                output_tensor=TensorDesc(DataType.FLOAT32, (3,)),
                value_data_type=DataType.FLOAT32,
                value_start=3.0,
                value_delta=2.0,
            ),
            {},
            np.array([3, 5, 7], np.float32),
        ),
        Example(
            "Page: downwards in UINT8, where a step of -2 is one of 254",
            dict(
                output_tensor=TensorDesc(DataType.UINT8, (1, 1, 2, 2)),
                value_data_type=DataType.UINT8,
                value_start=10,
                value_delta=254,
            ),
            {},
            np.array([[[[10, 8], [6, 4]]]], np.uint8),
        ),
    )
    rejecting = (
        rejects("value_start_fits", output_tensor=BYTES, value_data_type=DataType.UINT8, value_start=256, value_delta=1),
        rejects("value_delta_fits", output_tensor=BYTES, value_data_type=DataType.UINT8, value_start=1, value_delta=-2),
    )
    errata = (
        "Nothing is added for k = 0, not even 0 times an infinite ValueDelta: the first number is ValueStart (our decision).",
        "The page adds ValueDelta again and again, which would round each time; the multiple is exact (our decision).",
        "The page's example has a ValueDelta of -2 in UINT8, which is the 254 that the union holds.",
        "The page's pseudocode calls the two values Value and Delta.",
    )
