"""DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD: the gradients of normalisation by a batch's own mean and variance.

Source: ns-directml-dml_batch_normalization_training_grad_operator_desc.
"""

from __future__ import annotations

from anydml.operators.shared.normalization import (
    BATCH_ERRATA,
    EPSILON,
    averaged,
    batch_rejects,
    batch_rules,
    mean_of,
    parameter_gradients,
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


@operator("DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD", 152, since=FeatureLevel.FL_4_1)
class BatchNormalizationTrainingGrad(Desc):
    """Computes the gradients of the input, the scale and the bias of BATCH_NORMALIZATION_TRAINING from that of its output, g.

    With c = x - Mean and V = Variance + Epsilon, these are Scale * (g - mean(g) - c * mean(g * c) / V) / sqrt(V),
    (sum of g * c) / sqrt(V), and the sum of g. Means and sums run over the dimensions in which the parameters have size 1.
    Results are exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    input_gradient_tensor: TensorDesc = field.input("InputGradientTensor", "The incoming gradient g.")
    mean_tensor: TensorDesc = field.input("MeanTensor", "The means that the training gave; formulas have the exact ones.")
    variance_tensor: TensorDesc = field.input("VarianceTensor", "The variances that the training gave.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "The factors of the normalised elements.")
    output_gradient_tensor: TensorDesc = field.output("OutputGradientTensor", "The gradient of the elements.")
    output_scale_gradient_tensor: TensorDesc = field.output("OutputScaleGradientTensor", "The gradient of the factors.")
    output_bias_gradient_tensor: TensorDesc = field.output("OutputBiasGradientTensor", "The gradient of the terms.")
    epsilon: float = field.attribute("Epsilon", field.FLOAT, EPSILON, default=1e-5)

    rows = (support("4_1", f"{IMAGES} {PARAMETERS}", (1, 8), FLOATS),)
    same = batch_rules(IMAGES, PARAMETERS)

    def outputs(d) -> Outputs:
        data_type, parameters = d.input_tensor.data_type, (d.scale_tensor.sizes, d.input_tensor.data_type)
        return {
            "output_gradient_tensor": (d.input_tensor.sizes, data_type),
            "output_scale_gradient_tensor": parameters,
            "output_bias_gradient_tensor": parameters,
        }

    def statement(d, x: Tensor, g: Tensor, mean: Tensor, variance: Tensor, scale: Tensor) -> tuple[Nest, Nest, Nest]:
        i, axes = each(x.sizes), averaged(scale.sizes)
        middle, square = mean_of(x, i, axes), variance.broadcast(i) + d.epsilon
        k = over(i, x.sizes, axes)
        product = g[k] * (x[k] - middle)
        slope = (Mean(k, product) if axes else product) / square
        passed = scale.broadcast(i) * (g[i] - mean_of(g, i, axes) - (x[i] - middle) * slope) / sqrt(square)
        return nest(i, passed), *parameter_gradients(d, x, g, None, variance, scale.sizes)

    examples = (
        Example(
            "Two elements",
            TENSORS | dict(epsilon=0.0),
            dict(
                input_tensor=column(1, 3), input_gradient_tensor=column(1, 0), mean_tensor=column(2), variance_tensor=column(1),
                scale_tensor=column(2),
            ),
            dict(
                output_gradient_tensor=column(0, 0), output_scale_gradient_tensor=column(-1),
                output_bias_gradient_tensor=column(1),
            ),
        ),
        Example(
            "Two elements, and an Epsilon",
            TENSORS | dict(epsilon=3.0),
            dict(
                input_tensor=column(1, 3), input_gradient_tensor=column(1, 0), mean_tensor=column(2), variance_tensor=column(1),
                scale_tensor=column(2),
            ),
            dict(
                output_gradient_tensor=column(0.375, -0.375), output_scale_gradient_tensor=column(-0.5),
                output_bias_gradient_tensor=column(1),
            ),
        ),
    )  # fmt: skip
    rejecting = batch_rejects(PARAMETERS, (1, 1))
    errata = (
        *BATCH_ERRATA,
        "The page defines the centred input by itself; it is Input - mean(Input). So MeanTensor has no part in the results.",
    )
