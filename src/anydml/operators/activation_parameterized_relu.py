"""DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU: a rectifier with a slope below 0 for each element.

Source: ns-directml-dml_activation_parameterized_relu_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor SlopeTensor OutputTensor"
FOUR = TensorDesc(DataType.FLOAT32, (4,))


@operator("DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU", 42, since=FeatureLevel.FL_1_0, in_place=("InputTensor", "SlopeTensor"))
class ActivationParameterizedRelu(Desc):
    """Multiplies every negative element by a slope of its own: Output = x if x >= 0, else Slope * x.

    Products of integers wrap modulo 2^bits.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    slope_tensor: TensorDesc = field.input("SlopeTensor", "The slope below 0, for each element.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")

    rows = (
        support("1_0", ALL, (4, 4), FLOATS),
        support("2_0", ALL, (4, 5), FLOATS),
        support("3_0", ALL, (1, 8), FLOATS),
        support("5_1", ALL, (1, 8), (*FLOATS, *SIGNED)),
    )
    same = same("DataType DimensionCount Sizes", ALL)

    outputs = like("input_tensor")

    statement = elementwise(lambda d, x, slope: select(x >= 0, x, slope * x))

    examples = (
        Example(
            "Below 0, each element has a slope of its own",
            dict(input_tensor=FOUR, slope_tensor=FOUR, output_tensor=FOUR),
            dict(input_tensor=np.array([-2, -2, 0, 2], np.float32), slope_tensor=np.array([0.25, -1, 0.25, 0.25], np.float32)),
            np.array([-0.5, 2, 0, 2], np.float32),
        ),
    )
    rejecting = ()
    errata = ("The page does not say what becomes of a product that an integer tensor cannot hold: it wraps (our decision).",)
