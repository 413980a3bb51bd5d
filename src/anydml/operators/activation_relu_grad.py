"""DML_OPERATOR_ACTIVATION_RELU_GRAD: the gradient of the rectified linear unit.

Source: ns-directml-dml_activation_relu_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor InputGradientTensor OutputGradientTensor"
THREE = TensorDesc(DataType.FLOAT32, (3,))


@operator("DML_OPERATOR_ACTIVATION_RELU_GRAD", 129, since=FeatureLevel.FL_3_0)
class ActivationReluGrad(Desc):
    """Copies the gradient of every element that RELU keeps: OutputGradient = InputGradient if x > 0, else 0.

    The bits of a gradient are copied unchanged. NaN is not greater than 0.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x that RELU was applied to.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The gradient of each of RELU's results.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of each element.")

    rows = (support("3_0", ALL, (1, 8), FLOATS), support("5_1", ALL, (1, 8), (*FLOATS, *SIGNED)))
    same = same("DataType DimensionCount Sizes", ALL)

    def outputs(d) -> Outputs:
        return {"output_gradient_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    statement = elementwise(lambda d, x, gradient: select(x > 0, gradient, 0), moves=True)

    examples = (
        Example(
            "The gradient passes where the element is positive",
            dict(input_tensor=THREE, input_gradient_tensor=THREE, output_gradient_tensor=THREE),
            dict(input_tensor=np.array([-1, 0, 2], np.float32), input_gradient_tensor=np.array([3, 4, 5], np.float32)),
            np.array([0, 0, 5], np.float32),
        ),
    )
    rejecting = ()
    errata = (
        "The page calls the third field OutputTensor; the header says OutputGradientTensor.",
        "The feature level history has 1 to 8 dimensions from 3_1 on, and the page from 3_0; the page's table holds.",
        "The page does not say what becomes of the gradient of a NaN: 0, since NaN is not greater than 0 (our decision).",
    )
