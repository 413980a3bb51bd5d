"""DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1 and DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD: the gradient of clipping.

Sources: ns-directml-dml_element_wise_clip_grad1_operator_desc, ns-directml-dml_element_wise_clip_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.vocabulary import *

ALL = "InputTensor InputGradientTensor OutputGradientTensor"
INPUTS = ("InputTensor", "InputGradientTensor")
BYTES, HALVES = TensorDesc(DataType.UINT8, (5,)), TensorDesc(DataType.FLOAT16, (5,))


def three(t: TensorDesc) -> dict[str, Any]:
    return dict(input_tensor=t, input_gradient_tensor=t, output_gradient_tensor=t)


FIVE = three(TensorDesc(DataType.FLOAT32, (5,)))
PASSES = elementwise(lambda d, x, gradient: select(either(x <= d.min, x >= d.max), 0, gradient), moves=True)


@operator("DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1", 154, since=FeatureLevel.FL_5_0, in_place=INPUTS)
class ElementWiseClipGrad1(Desc):
    """Passes the gradient where clipping keeps an element: OutputGradient = 0 if x <= Min or x >= Max, else InputGradient.

    The gradient passes if x is NaN. Its bits are copied unchanged.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x that were clipped.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The gradient of what clipping gave.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    min_max_data_type: DataType = field.attribute("MinMaxDataType", field.DATA_TYPE, "The type of Min and Max.")
    min: float = field.scalar("Min", "MinMaxDataType", "The lower bound.")
    max: float = field.scalar("Max", "MinMaxDataType", "The upper bound.")

    rows = (support("5_0", ALL, (1, 8), TEN),)
    same = same("DataType DimensionCount Sizes", ALL)
    typed = scalar_type("MinMaxDataType", "OutputGradientTensor")

    eager = defaults(min_max_data_type=("the input's", lambda d: d.input_tensor.data_type))

    def outputs(d) -> Outputs:
        return {"output_gradient_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    statement = PASSES

    examples = (
        Example(
            "Between 0 and 2, where the bounds themselves are beyond",
            FIVE | dict(min_max_data_type=DataType.FLOAT32, min=0.0, max=2.0),
            dict(
                input_tensor=np.array([-1, 0, 1, 2, np.nan], np.float32),
                input_gradient_tensor=np.array([5, 6, 7, 8, 9], np.float32),
            ),
            np.array([0, 0, 7, 0, 9], np.float32),
        ),
    )
    rejecting = (
        rejects("same_data_type", input_tensor=HALVES, input_gradient_tensor=HALVES),
        rejects("min_fits", **three(BYTES), min_max_data_type=DataType.UINT8, min=-1, max=1),
        rejects("max_fits", **three(BYTES), min_max_data_type=DataType.UINT8, min=0, max=256),
    )
    errata = (
        "The page says of an OutputTensor that it may be the input; the field is OutputGradientTensor, and it may be either "
        "input (our decision).",
        "The page does not say what becomes of the gradient where x is NaN: it passes (our decision).",
    )


@operator("DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD", 142, since=FeatureLevel.FL_3_1, in_place=INPUTS)
class ElementWiseClipGrad(Desc):
    """Passes the gradient where clipping keeps an element: OutputGradient = 0 if x <= Min or x >= Max, else InputGradient.

    The gradient passes if x is NaN. Its bits are copied unchanged. Min and Max are floats, and are compared with integers
    without conversion to their type; CLIP_GRAD1 cannot do that, so this operator has a statement of its own.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x that were clipped.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The gradient of what clipping gave.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    min: float = field.attribute("Min", field.FLOAT, "The lower bound.")
    max: float = field.attribute("Max", field.FLOAT, "The upper bound.")

    rows = (support("3_1", ALL, (1, 8), EIGHT), support("5_0", ALL, (1, 8), TEN))
    same = same("DataType DimensionCount Sizes", ALL)

    def outputs(d) -> Outputs:
        return {"output_gradient_tensor": (d.input_tensor.sizes, d.input_tensor.data_type)}

    statement = PASSES

    examples = (
        Example(
            "Between 0 and 2, where the bounds themselves are beyond",
            FIVE | dict(min=0.0, max=2.0),
            dict(
                input_tensor=np.array([-1, 0, 1, 2, np.nan], np.float32),
                input_gradient_tensor=np.array([5, 6, 7, 8, 9], np.float32),
            ),
            np.array([0, 0, 7, 0, 9], np.float32),
        ),
        Example(
            "Integers between -0.5 and 2.5, of which no element is below",
            three(BYTES) | dict(min=-0.5, max=2.5),
            dict(
                input_tensor=np.array([0, 1, 2, 3, 255], np.uint8),
                input_gradient_tensor=np.array([5, 6, 7, 8, 9], np.uint8),
            ),
            np.array([5, 6, 7, 0, 0], np.uint8),
        ),
    )
    rejecting = ()
    errata = (
        "The page says of an OutputTensor that it may be the input; the field is OutputGradientTensor, and it may be either "
        "input (our decision).",
        "The page does not say what becomes of the gradient where x is NaN: it passes (our decision).",
        "The page does not say how integers compare with Min and Max, which are floats: exactly, without conversion (our "
        "decision).",
    )
