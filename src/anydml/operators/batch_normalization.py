"""DML_OPERATOR_BATCH_NORMALIZATION: elements normalised by a mean and a variance that are given.

Source: ns-directml-dml_batch_normalization_operator_desc.
"""

from __future__ import annotations

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.shared.normalization import broadcast, normalized
from anydml.operators.shared.vocabulary import *

PARAMETERS = "MeanTensor VarianceTensor ScaleTensor BiasTensor"
ALL = f"InputTensor {PARAMETERS} OutputTensor"
FOUR, CHANNELS = TensorDesc(DataType.FLOAT32, (1, 2, 1, 2)), TensorDesc(DataType.FLOAT32, (1, 2, 1, 1))


def channels(*values: float) -> NDArray[Any]:
    return np.array(values, np.float32).reshape(1, -1, 1, 1)


TENSORS: dict[str, Any] = dict(
    input_tensor=FOUR, mean_tensor=CHANNELS, variance_tensor=CHANNELS, scale_tensor=CHANNELS, bias_tensor=CHANNELS,
    output_tensor=FOUR,
)  # fmt: skip
DATA: dict[str, Any] = dict(
    input_tensor=np.array([[[[1, 2]], [[3, 4]]]], np.float32), mean_tensor=channels(2.5, 3), variance_tensor=channels(1.25, 4),
    scale_tensor=channels(2, -3), bias_tensor=channels(1, 0.5),
)  # fmt: skip


@operator("DML_OPERATOR_BATCH_NORMALIZATION", 72, since=FeatureLevel.FL_1_0)
class BatchNormalization(Desc):
    """Normalises by a given mean and variance: Output = f(Scale * (x - Mean) / sqrt(Variance + Epsilon) + Bias).

    Each size of Mean, Variance, Scale and Bias is the input's, or 1 and broadcast. The result is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    mean_tensor: TensorDesc = field.input("MeanTensor", "The means, usually {1, ChannelCount, 1, 1}.")
    variance_tensor: TensorDesc = field.input("VarianceTensor", "The variances.")
    scale_tensor: TensorDesc = field.input("ScaleTensor", "The factors of the normalised elements.")
    bias_tensor: TensorDesc = field.input("BiasTensor", "The numbers added to them.")
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    spatial: bool = field.attribute(
        "Spatial", field.BOOL, "Below feature level 4_0: whether Mean and Variance may be broadcast in space.", default=True
    )
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to every variance, so that it is not zero.", default=1e-5
    )
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact result; if absent, none.", default=None
    )

    vectors = dict.fromkeys(("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor"), 1)
    rows = (support("1_0", ALL, (4, 4), FLOATS), support("3_1", ALL, (1, 8), FLOATS))
    same = (
        *same("DataType DimensionCount Sizes", "InputTensor OutputTensor"),
        *same("DataType DimensionCount", f"InputTensor {PARAMETERS}", name="parameters"),
    )
    broadcasts = broadcast(PARAMETERS)

    @constraint(
        "`Spatial` must not be FALSE below feature level 4_0 unless the last two of `MeanTensor.Sizes` and of "
        "`VarianceTensor.Sizes` are those of `InputTensor.Sizes`.",
        before=FeatureLevel.FL_4_0,
    )
    def spatial_sizes(d) -> bool:
        space = d.input_tensor.sizes[-2:]
        return d.spatial or d.mean_tensor.sizes[-2:] == d.variance_tensor.sizes[-2:] == space

    fusable = fusable_activation()

    outputs = like("input_tensor")

    def statement(d, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Nest:
        i = each(x.sizes)
        result = normalized(d, i, x[i] - mean.broadcast(i), variance.broadcast(i), scale, bias)
        return nest(i, activated(d.fused_activation, result))

    examples = (
        Example(
            "Two channels, and RELU of them",
            dict(**TENSORS, epsilon=0.0, fused_activation=ActivationRelu()),
            DATA,
            np.array([[[[0, 0.10557281]], [[0.5, 0]]]], np.float32),
        ),
        Example(
            "With the usual Epsilon", TENSORS, DATA, np.array([[[[-1.6832708, 0.10557639]], [[0.5, -0.99999815]]]], np.float32)
        ),
    )
    rejecting = (
        rejects("spatial_sizes", at=FeatureLevel.FL_3_1, spatial=False),
        rejects("fused_activation_without_tensors", fused_activation=ActivationRelu(input_tensor=FOUR, output_tensor=FOUR)),
    )
    errata = (
        "The tensors are bound in the order Input, Mean, Variance, Scale, Bias; that of ONNX is X, scale, B, mean, var.",
        "The page does not say what a negative Variance + Epsilon gives: NaN (our decision).",
        "The page speaks of height and width, which tensors of other than four dimensions may lack: they are the last two "
        "dimensions (our decision). From 4_0 on Spatial says nothing.",
    )
