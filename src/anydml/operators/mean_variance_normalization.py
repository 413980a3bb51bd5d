"""DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2 and its older versions: elements normalised by their own mean and variance.

Sources: ns-directml-dml_mean_variance_normalization2_operator_desc, ns-directml-dml_mean_variance_normalization1_operator_desc,
ns-directml-dml_mean_variance_normalization_operator_desc.
"""

from __future__ import annotations

from dataclasses import replace

from anydml.operators.activation_relu import ActivationRelu
from anydml.operators.shared.normalization import broadcast, normalized
from anydml.operators.shared.vocabulary import *
from anydml.schema.desc import AXES

BOTH, PARAMETERS = "InputTensor OutputTensor", "ScaleTensor BiasTensor"
ALL = f"InputTensor {PARAMETERS} OutputTensor"
EAGER = defaults(axes=("all but the second", lambda d: [a for a in range(d.input_tensor.dimension_count) if a != 1]))
VECTORS = dict.fromkeys(("scale_tensor", "bias_tensor"), AXES)
ERRATA = (
    "The page does not say which variance is meant: that of a population, the mean of squares (our decision).",
    "The page does not say what a negative variance + Epsilon gives: NaN, as 0 / 0 where both are 0 (our decision).",
    "Epsilon has no part where the variance has none.",
)
AXES_ERRATA = (
    *ERRATA,
    "The text still speaks of four dimensions; the table has 1 to 8.",
    "The page does not forbid an empty list of axes or one that names an axis twice; both are refused (our decision).",
)
ONE_TO_FOUR = np.array([[[[1, 2, 3, 4]]]], np.float32)
ROW, ONE = TensorDesc(DataType.FLOAT32, (1, 1, 1, 4)), TensorDesc(DataType.FLOAT32, (1, 1, 1, 1))
SCALED: dict[str, Any] = dict(input_tensor=ROW, scale_tensor=ONE, bias_tensor=ONE, output_tensor=ROW)
DATA: dict[str, Any] = dict(
    input_tensor=ONE_TO_FOUR,
    scale_tensor=np.array([[[[2]]]], np.float32),
    bias_tensor=np.array([[[[1]]]], np.float32),
)
BARE, BARE_DATA = dict(input_tensor=ROW, output_tensor=ROW), dict(input_tensor=ONE_TO_FOUR)

WITH_TENSORS = (
    rejects("fused_activation_without_tensors", fused_activation=ActivationRelu(input_tensor=ROW, output_tensor=ROW)),
)


def row(*values: float) -> Any:
    return np.array([[[values]]], np.float32)


def tensors_agree() -> tuple[Constraint, ...]:
    return (
        *same("DataType DimensionCount Sizes", BOTH),
        *same("DataType DimensionCount", f"InputTensor {PARAMETERS}", name="parameters"),
    )


def together() -> Constraint:
    @constraint(
        "`ScaleTensor` and `BiasTensor` must both be there, or both be absent, below feature level 5_2.",
        before=FeatureLevel.FL_5_2,
        breaks=lambda d: {"bias_tensor": None},
    )
    def scale_and_bias_together(d: Any) -> bool:
        return (d.scale_tensor is None) == (d.bias_tensor is None)

    return scale_and_bias_together


def as_second(d: Any, axes: tuple[int, ...]) -> MeanVarianceNormalization2:
    """The call of the newest version that an older version's call equals."""
    return MeanVarianceNormalization2(
        input_tensor=d.input_tensor,
        scale_tensor=d.scale_tensor,
        bias_tensor=d.bias_tensor,
        output_tensor=d.output_tensor,
        axes=axes,
        use_mean=True,
        use_variance=d.normalize_variance,
        epsilon=d.epsilon,
        fused_activation=d.fused_activation,
    )


@operator("DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2", 171, since=FeatureLevel.FL_6_3)
class MeanVarianceNormalization2(Desc):
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    Here m is the mean of the elements along all the axes together, or 0 without UseMean, and v the mean of (x - m)^2. Without
    UseVariance, there is no division. An absent Scale is 1, and an absent Bias 0; each of their sizes is the input's, or 1 and
    broadcast. Without UseMean this is RMS normalisation. The result is exact, and rounded once.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    scale_tensor: TensorDesc | None = field.input("ScaleTensor", "The factors of the normalised elements.", default=None)
    bias_tensor: TensorDesc | None = field.input("BiasTensor", "The numbers added to them.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that means run over.", sized_by="AxisCount")
    use_mean: bool = field.attribute("UseMean", field.BOOL, "Whether the mean is subtracted.", default=True)
    use_variance: bool = field.attribute("UseVariance", field.BOOL, "Whether the variance divides.", default=True)
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to every variance, so that it is not zero.", default=1e-5
    )
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact result; if absent, none.", default=None
    )

    eager = EAGER
    vectors = VECTORS

    rows = (support("6_3", ALL, (1, 8), FLOATS),)
    same = tensors_agree()
    axis_rules = axis_rules()
    broadcasts = broadcast(PARAMETERS)
    fusable = fusable_activation()

    outputs = like("input_tensor")

    def statement(d, x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Nest:
        i = each(x.sizes)
        k = over(i, x.sizes, d.axes)
        mean = Mean(k, x[k]) if d.use_mean else None

        def centred(element: Expr) -> Expr:
            return element if mean is None else element - mean

        variance = Mean(k, centred(x[k]) * centred(x[k])) if d.use_variance else None
        return nest(i, activated(d.fused_activation, normalized(d, i, centred(x[i]), variance, scale, bias)))

    examples = (
        Example(
            "A row with a factor and a term, and RELU of it",
            dict(**SCALED, axes=(3,), fused_activation=ActivationRelu()),
            DATA,
            row(0, 0.10557639, 1.8944236, 3.6832709),
        ),
        Example(
            "RMS normalisation: by the mean of squares",
            dict(**BARE, axes=(3,), use_mean=False),
            BARE_DATA,
            row(0.36514813, 0.73029626, 1.0954444, 1.4605925),
        ),
        Example("Neither", dict(**BARE, axes=(3,), use_mean=False, use_variance=False), BARE_DATA, ONE_TO_FOUR),
    )
    rejecting = WITH_TENSORS
    errata = (
        "The page leaves most fields undescribed; UseVariance without UseMean is the mean of squares (our decision, as clients "
        "use it for RMS normalisation).",
        "The page repeats notes on feature levels 4_0 and 5_2, below which there is no such operator.",
        *AXES_ERRATA,
    )


@operator("DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1", 115, since=FeatureLevel.FL_2_1)
class MeanVarianceNormalization1(Desc):
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    It is MEAN_VARIANCE_NORMALIZATION2 with UseMean; NormalizeVariance is UseVariance.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x.")
    scale_tensor: TensorDesc | None = field.input("ScaleTensor", "The factors of the normalised elements.", default=None)
    bias_tensor: TensorDesc | None = field.input("BiasTensor", "The numbers added to them.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    axis_count: int | None = field.count("AxisCount", "Entries of Axes.", default=None)
    axes: tuple[int, ...] = field.attribute("Axes", field.UINT, "The axes that means run over.", sized_by="AxisCount")
    normalize_variance: bool = field.attribute("NormalizeVariance", field.BOOL, "Whether the variance divides.", default=True)
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to every variance, so that it is not zero.", default=1e-5
    )
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact result; if absent, none.", default=None
    )

    eager = EAGER
    vectors = VECTORS

    rows = (support("2_1", ALL, (4, 4), FLOATS), support("3_1", ALL, (1, 8), FLOATS))
    same = tensors_agree()
    axis_rules = axis_rules()
    broadcasts = broadcast(PARAMETERS)
    together = together()

    @constraint(
        "The second of `ScaleTensor.Sizes` and of `BiasTensor.Sizes` must be that of `InputTensor.Sizes` below feature level "
        "4_0.",
        before=FeatureLevel.FL_4_0,
        breaks=lambda d: {
            name: replace(t, sizes=(1, 2, *t.sizes[2:])) for name, t in (("input_tensor", ROW), ("output_tensor", ROW))
        },
    )
    def channels_match(d) -> bool:
        parameters = [t for t in (d.scale_tensor, d.bias_tensor) if t is not None]
        return all(t.sizes[1:2] == d.input_tensor.sizes[1:2] for t in parameters)

    fusable = fusable_activation()

    outputs = like("input_tensor")

    def as_newest(d) -> MeanVarianceNormalization2:
        return as_second(d, d.axes)

    examples = (
        Example(
            "A row with a factor and a term",
            dict(**SCALED, axes=(3,)),
            DATA,
            row(-1.6832708, 0.10557639, 1.8944236, 3.6832709),
        ),
        Example(
            "Without the variance", dict(**BARE, axes=(3,), normalize_variance=False), BARE_DATA, row(-1.5, -0.5, 0.5, 1.5)
        ),
    )
    rejecting = WITH_TENSORS
    errata = AXES_ERRATA


@operator("DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION", 73, since=FeatureLevel.FL_1_0)
class MeanVarianceNormalization(Desc):
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    It is MEAN_VARIANCE_NORMALIZATION1 along axes 2 and 3, with CrossChannel along axis 1 as well.
    """

    input_tensor: TensorDesc = field.input("InputTensor", "The elements x, {BatchCount, ChannelCount, Height, Width}.")
    scale_tensor: TensorDesc | None = field.input("ScaleTensor", "The factors of the normalised elements.", default=None)
    bias_tensor: TensorDesc | None = field.input("BiasTensor", "The numbers added to them.", default=None)
    output_tensor: TensorDesc = field.output("OutputTensor", "The results.")
    cross_channel: bool = field.attribute(
        "CrossChannel", field.BOOL, "Whether means run over the channels, too.", default=False
    )
    normalize_variance: bool = field.attribute("NormalizeVariance", field.BOOL, "Whether the variance divides.", default=True)
    epsilon: float = field.attribute(
        "Epsilon", field.FLOAT, "A number added to every variance, so that it is not zero.", default=1e-5
    )
    fused_activation: Desc | None = field.attribute(
        "FusedActivation", field.OPERATOR, "The function f, applied to the exact result; if absent, none.", default=None
    )

    vectors = VECTORS

    rows = (support("1_0", ALL, (4, 4), FLOATS),)
    same = (*same("DataType Sizes", BOTH), *same("DataType", f"InputTensor {PARAMETERS}", name="parameters"))
    broadcasts = broadcast(PARAMETERS)
    together = together()
    fusable = fusable_activation()

    outputs = like("input_tensor")

    def as_newest(d) -> MeanVarianceNormalization2:
        return as_second(d, (1, 2, 3) if d.cross_channel else (2, 3))

    examples = (
        Example("A row with a factor and a term", SCALED, DATA, row(-1.6832708, 0.10557639, 1.8944236, 3.6832709)),
        Example("A row alone", BARE, BARE_DATA, row(-1.3416355, -0.4472118, 0.4472118, 1.3416355)),
        Example(
            "Two channels together",
            dict(
                input_tensor=TensorDesc(DataType.FLOAT32, (1, 2, 1, 2)),
                output_tensor=TensorDesc(DataType.FLOAT32, (1, 2, 1, 2)),
                cross_channel=True,
                normalize_variance=False,
            ),
            dict(input_tensor=ONE_TO_FOUR.reshape(1, 2, 1, 2)),
            np.array([[[[-1.5, -0.5]], [[0.5, 1.5]]]], np.float32),
        ),
    )
    rejecting = WITH_TENSORS
    errata = (*ERRATA, "The page has no rule that dimension counts are equal; all tensors have four.")
