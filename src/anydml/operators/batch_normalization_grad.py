"""DML_OPERATOR_BATCH_NORMALIZATION_GRAD: the gradients of normalisation by a given mean and variance.

Source: ns-directml-dml_batch_normalization_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.normalization import (
    BATCH_ERRATA,
    EPSILON,
    batch_rejects,
    batch_rules,
    parameter_gradients,
    shifted,
)
from anydml.operators.shared.vocabulary import *
from anydml.spelling import snake_case

IMAGES = "InputTensor InputGradientTensor OutputGradientTensor"
PARAMETERS = "MeanTensor VarianceTensor ScaleTensor OutputScaleGradientTensor OutputBiasGradientTensor"
PAIR, ONE = TensorDesc(DataType.FLOAT32, (2, 1)), TensorDesc(DataType.FLOAT32, (1, 1))
TENSORS: dict[str, Any] = dict.fromkeys(map(snake_case, IMAGES.split()), PAIR) | dict.fromkeys(
    map(snake_case, PARAMETERS.split()), ONE
)


def column(*values: float) -> NDArray[Any]:
    return np.array([[v] for v in values], np.float32)


@operator("DML_OPERATOR_BATCH_NORMALIZATION_GRAD", 146, since=FeatureLevel.FL_3_1)
class BatchNormalizationGrad(Desc):
    """Computes the gradients of the input, the scale and the bias of BATCH_NORMALIZATION from that of its output, g.

    With S = sqrt(Variance + Epsilon), these are g * Scale / S, (sum of g * (x - Mean)) / S, and the sum of g. Sums run over
    the dimensions in which the parameters have size 1. Mean and Variance are constants. Results are exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The incoming gradient g.")
    mean_tensor: TensorDesc = field.input("MeanTensor", "The means.")
    variance_tensor: TensorDesc = field.input("VarianceTensor", "The variances.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "The factors of the normalised elements.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    output_scale_gradient_tensor: TensorDesc = field.output("OutputScaleGradientTensor", "The gradient of the factors.")
    output_bias_gradient_tensor: TensorDesc = field.output("OutputBiasGradientTensor", "The gradient of the terms.")
    epsilon: float | None = field.attribute("Epsilon", field.FLOAT, f"{EPSILON[:-1]}; 0 if absent.", default=None)

    rows = (support("3_1", f"{IMAGES} {PARAMETERS}", (1, 8), FLOATS),)
    same = batch_rules(IMAGES, PARAMETERS)

    def outputs(d) -> Outputs:
        data_type, parameters = d.input_tensor.data_type, (d.scale_tensor.sizes, d.input_tensor.data_type)
        return {
            "output_gradient_tensor": (d.input_tensor.sizes, data_type),
            "output_scale_gradient_tensor": parameters,
            "output_bias_gradient_tensor": parameters,
        }

    def statement(d, x: Tensor, g: Tensor, mean: Tensor, variance: Tensor, scale: Tensor) -> tuple[Nest, Nest, Nest]:
        i = each(x.sizes)
        passed = g[i] * scale.broadcast(i) / sqrt(shifted(d, variance.broadcast(i)))
        return nest(i, passed), *parameter_gradients(d, x, g, mean, variance, scale.sizes)

    examples = (
        Example(
            "Two elements",
            TENSORS,
            dict(
                input_tensor=column(1, 3), input_gradient_tensor=column(1, 0), mean_tensor=column(2), variance_tensor=column(1),
                scale_tensor=column(2),
            ),
            dict(
                output_gradient_tensor=column(2, 0), output_scale_gradient_tensor=column(-1),
                output_bias_gradient_tensor=column(1),
            ),
        ),
    )  # fmt: skip
    rejecting = batch_rejects(PARAMETERS, (1, 1))
    errata = BATCH_ERRATA
