"""DML_OPERATOR_BATCH_NORMALIZATION_TRAINING: elements normalised by their batch's own mean and variance, which are outputs.

Source: ns-directml-dml_batch_normalization_training_operator_desc.
"""

from __future__ import annotations

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.shared.normalization import (
    BATCH_ERRATA,
    EPSILON,
    averaged,
    batch_rejects,
    batch_rules,
    mean_of,
    variance_of,
)
from anydml.operators.shared.vocabulary import *

IMAGES = "InputTensor FusedAddTensor OutputTensor"
PARAMETERS = "ScaleTensor BiasTensor OutputMeanTensor OutputVarianceTensor"
PAIR, ONE = TensorDesc(DataType.FLOAT32, (2, 1)), TensorDesc(DataType.FLOAT32, (1, 1))
TENSORS: dict[str, Any] = dict(
    input_tensor=PAIR, scale_tensor=ONE, bias_tensor=ONE, output_tensor=PAIR, output_mean_tensor=ONE,
    output_variance_tensor=ONE, epsilon=0.0,
)  # fmt: skip


def column(*values: float) -> NDArray[Any]:
    return np.array([[v] for v in values], np.float32)


DATA: dict[str, Any] = dict(input_tensor=column(1, 3), scale_tensor=column(2), bias_tensor=column(1))


@operator("DML_OPERATOR_BATCH_NORMALIZATION_TRAINING", 151, since=FeatureLevel.FL_4_1)
class BatchNormalizationTraining(Desc):
    """Normalises by the batch's mean m and variance v: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias + FusedAdd).

    Means run over the dimensions in which the parameters have size 1; v is the mean of (x - m)^2. The outputs include m and v.
    Results are exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "The factors of the normalised elements.")
    bias_tensor: TensorDesc = field.input("BiasTensor", "The numbers added to them.")
    fused_add_tensor: TensorDesc | None = field.input(
        "FusedAddTensor", "A tensor to add, with one number for each element; 0 if absent.", default=None
    )
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    output_mean_tensor: TensorDesc = field.output("OutputMeanTensor", "The means m.")
    output_variance_tensor: TensorDesc = field.output("OutputVarianceTensor", "The variances v, of a population.")
    epsilon: float = field.attribute("Epsilon", field.FLOAT, EPSILON, default=1e-5)
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact result; if absent, none.", default=None
    )

    vectors = dict.fromkeys(("scale_tensor", "bias_tensor"), 1)
    rows = (support("4_1", f"{IMAGES} {PARAMETERS}", (1, 8), FLOATS),)
    same = batch_rules(IMAGES, PARAMETERS)
    fusable = fusable_activation()

    def outputs(d) -> Outputs:
        data_type, parameters = d.input_tensor.data_type, (d.scale_tensor.sizes, d.input_tensor.data_type)
        whole = d.input_tensor.sizes, data_type
        return {"output_tensor": whole, "output_mean_tensor": parameters, "output_variance_tensor": parameters}

    def statement(d, x: Tensor, scale: Tensor, bias: Tensor, added: Tensor | None) -> tuple[Nest, Nest, Nest]:
        axes, i, p, q = averaged(scale.sizes), each(x.sizes), each(scale.sizes), each(scale.sizes)
        result = scale.broadcast(i) * (x[i] - mean_of(x, i, axes)) / sqrt(variance_of(x, i, axes) + d.epsilon)
        result += bias.broadcast(i)
        if added is not None:
            result += added[i]
        return (
            nest(i, activated(d.fused_activation, result)),
            nest(p, mean_of(x, p, axes)),
            nest(q, variance_of(x, q, axes)),
        )

    examples = (
        Example(
            "Two elements",
            TENSORS,
            DATA,
            dict(output_tensor=column(-1, 3), output_mean_tensor=column(2), output_variance_tensor=column(1)),
        ),
        Example(
            "Other terms added, and RELU",
            TENSORS | dict(fused_add_tensor=PAIR, fused_activation=ActivationRelu()),
            DATA | dict(fused_add_tensor=column(-1, 2)),
            dict(output_tensor=column(0, 5), output_mean_tensor=column(2), output_variance_tensor=column(1)),
        ),
    )
    rejecting = (
        *batch_rejects(PARAMETERS, (1, 1)),
        rejects("fused_activation_without_tensors", fused_activation=ActivationRelu(input_tensor=PAIR, output_tensor=PAIR)),
    )
    errata = (
        *BATCH_ERRATA,
        "The page does not say which variance is meant: that of a population, the mean of squares, of which its gradient is.",
    )
