"""The signatures of the eager functions. Their whole docstrings, which `help` shows, are made at run time.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import DTypeLike, NDArray

from anydml.devices.device import Device
from anydml.schema.enumerations import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
)
from anydml.schema.operator import Desc
from anydml.tensor import DataType

def activation_celu(
    input: NDArray[Any], alpha: float = 1.0, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the continuously differentiable exponential linear unit to every element.

    Output = max(0, x) + min(0, Alpha * (exp(x / Alpha) - 1)).

        Output = max(0, Input) + min(0, Alpha * (exp(Input / Alpha) - 1))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        The negated limit of the result at -infinity.
    """

def activation_elu(
    input: NDArray[Any], alpha: float = 1.0, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the exponential linear unit to every element: Output = x if x >= 0, else Alpha * (exp(x) - 1).

        Output = Input if Input >= 0, else Alpha * (exp(Input) - 1)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        The negated limit of the result at -infinity.
    """

def activation_gelu(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the Gaussian error linear unit to every element: Output = 0.5 * x * (1 + erf(x / sqrt(2))).

        Output = 0.5 * Input * (1 + erf(Input / sqrt(2)))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def activation_hardmax(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Marks the first of the largest elements of the last dimension, as HARDMAX1 does with that axis alone.

        Output[i, j, k, l] = 1 if l = (position of the largest over l' < Input.Sizes[3] of Input[i, j, k, l']), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    """

def activation_hardmax1(
    input: NDArray[Any],
    axes: Sequence[int] | int | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Marks the largest element over all listed axes together: Output = 1 for the first of the largest, else 0.

    The first is the one with the least row-major position along the axes. NaN is larger than all numbers, and zeros of both
    signs are equal.

        Output[i, j, k] = 1 if j = (position of the largest over j' < Input.Sizes[1] of Input[i, j', k]), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int] | int, optional
        The axes among whose elements one is the largest. Negative ones count from the end. By default, the last.
    axis : int, optional
        A single axis.
    """

def activation_hard_sigmoid(
    input: NDArray[Any],
    alpha: float = 0.2,
    beta: float = 0.5,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the hard sigmoid to every element: Output = max(0, min(Alpha * x + Beta, 1)).

        Output = max(0, min(Alpha * Input + Beta, 1))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 0.2
        The slope.
    beta : float, default 0.5
        The value at 0.
    """

def activation_hard_swish(
    input: NDArray[Any],
    alpha: float = 0.16666666666666666,
    beta: float = 0.5,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies every element by a hard sigmoid: Output = x * max(0, min(Alpha * x + Beta, 1)).

    At the infinity where the sigmoid is 0, the result is the limit, a zero with the sign of x.

        Output = Input * max(0, min(Alpha * Input + Beta, 1))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 0.16666666666666666
        The slope of the sigmoid.
    beta : float, default 0.5
        The sigmoid at 0.
    """

def activation_identity(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Copies every element: Output = x. Bits are copied, also those of a NaN.

        Output = Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def activation_leaky_relu(
    input: NDArray[Any], alpha: float = 0.01, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the leaky rectified linear unit to every element: Output = x if x >= 0, else Alpha * x.

        Output = Input if Input >= 0, else Alpha * Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 0.01
        The slope below 0.
    """

def activation_linear(
    input: NDArray[Any], alpha: float, beta: float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies a linear function to every element: Output = Alpha * x + Beta.

        Output = Alpha * Input + Beta

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float
        The factor.
    beta : float
        The term.
    """

def activation_log_softmax(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the logarithm of SOFTMAX over the last dimension, as LOG_SOFTMAX1 does with that axis alone.

        Output[i, j, k, l] = Input[i, j, k, l] - P[i, j, k] - log(sum over l' < Input.Sizes[3] of exp(Input[i, j, k, l']
            - P[i, j, k]))
            where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    """

def activation_log_softmax1(
    input: NDArray[Any],
    axes: Sequence[int] | int | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the logarithm of SOFTMAX over all listed axes together: Output = x - max - ln(sum(exp(x - max))).

    The result is exact and rounded once. The largest x of the sum, max, only matters for infinities: all results are NaN if
    an element is +infinity or NaN, or if all are -infinity.

        Output[i, j, k, l] = Input[i, j, k, l] - P[i, j, k] - log(sum over l' < Input.Sizes[3] of exp(Input[i, j, k, l']
            - P[i, j, k]))
            where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int] | int, optional
        The axes that a sum runs over. Negative ones count from the end. By default, the last.
    axis : int, optional
        A single axis.
    """

def activation_parameterized_relu(
    input: NDArray[Any] | float,
    slope: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies every negative element by a slope of its own: Output = x if x >= 0, else Slope * x.

    Products of integers wrap modulo 2^bits.

        Output = Input if Input >= 0, else Slope * Input

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    slope : NDArray[Any] | float
        The slope below 0, for each element. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    """

def activation_parametric_softplus(
    input: NDArray[Any], alpha: float, beta: float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the parametric softplus function to every element: Output = Alpha * ln(1 + exp(Beta * x)).

        Output = Alpha * log(1 + exp(Beta * Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float
        The factor of the logarithm.
    beta : float
        The factor of x.
    """

def activation_relu(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the rectified linear unit to every element: Output = max(0, x).

        Output = max(0, Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    """

def activation_relu_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the gradient of every element that RELU keeps: OutputGradient = InputGradient if x > 0, else 0.

    The bits of a gradient are copied unchanged. NaN is not greater than 0.

        OutputGradient = InputGradient if Input > 0, else 0

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x that RELU was applied to. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    input_gradient : NDArray[Any] | float
        The gradient of each of RELU's results. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    """

def activation_scaled_elu(
    input: NDArray[Any],
    alpha: float = 1.6732631921768188,
    gamma: float = 1.0507010221481323,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the scaled exponential linear unit to every element.

    Output = Gamma * x if x > 0, else Gamma * (Alpha * exp(x) - Alpha).

        Output = Gamma * Input if Input > 0, else Gamma * (Alpha * exp(Input) - Alpha)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.6732631921768188
        The negated limit of the unscaled result at -infinity.
    gamma : float, default 1.0507010221481323
        The factor of the whole.
    """

def activation_scaled_tanh(
    input: NDArray[Any],
    alpha: float = 1.0,
    beta: float = 0.5,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the scaled hyperbolic tangent to every element: Output = Alpha * tanh(Beta * x).

        Output = Alpha * tanh(Beta * Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        The factor of the tangent.
    beta : float, default 0.5
        The factor of x.
    """

def activation_shrink(
    input: NDArray[Any],
    bias: float = 0.0,
    threshold: float = 0.5,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Moves every element toward 0 by Bias, and gives 0 for elements within Threshold of it.

    Output = x - Bias if x > Threshold; x + Bias if x < -Threshold; else 0. In integer tensors, the result is truncated
    toward zero and saturated.

        Output = Input - Bias if Input > Threshold, else Input + Bias if Input < -Threshold, else Input if
            is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    bias : float, default 0.0
        The amount by which an element is moved.
    threshold : float, default 0.5
        Below this magnitude, the result is 0.
    """

def activation_sigmoid(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the logistic function to every element: Output = 1 / (1 + exp(-x)).

        Output = 1 / (1 + exp(-Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def activation_softmax(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Divides e^x by the sum of e^x over the last dimension, as SOFTMAX1 does with that axis alone.

    GEMM takes it as a fused activation from feature level 6_1 on.

        Output[i, j, k, l] = exp(Input[i, j, k, l] - P[i, j, k]) / (sum over l' < Input.Sizes[3] of exp(Input[i, j, k,
            l'] - P[i, j, k]))
            where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    """

def activation_softmax1(
    input: NDArray[Any],
    axes: Sequence[int] | int | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Divides e^x by the sum of e^x over all listed axes together: Output = exp(x - max) / sum(exp(x - max)).

    The quotient is exact and rounded once. The largest x of the sum, max, only matters for infinities: all results are NaN if
    an element is +infinity or NaN, or if all are -infinity. GEMM takes it as a fused activation from feature level 6_1 on.

        Output[i, j, k, l] = exp(Input[i, j, k, l] - P[i, j, k]) / (sum over l' < Input.Sizes[3] of exp(Input[i, j, k,
            l'] - P[i, j, k]))
            where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int] | int, optional
        The axes that a sum runs over. Negative ones count from the end. By default, the last.
    axis : int, optional
        A single axis.
    """

def activation_softplus(
    input: NDArray[Any], steepness: float = 1.0, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the softplus function to every element: Output = ln(1 + exp(Steepness * x)) / Steepness.

        Output = log(1 + exp(Steepness * Input)) / Steepness

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    steepness : float, default 1.0
        How sharply the curve bends at 0.
    """

def activation_softsign(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the softsign function to every element: Output = x / (1 + |x|).

        Output = Input / (1 + abs(Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def activation_swish(
    input: NDArray[Any],
    sigmoid_input_scale: float = 1.0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies every element by a sigmoid: Output = x / (1 + e^(-SigmoidInputScale * x)).

    At the infinity where the sigmoid goes to 0, the result is the limit, a zero with the sign of x.

        Output = Input * 1 / (1 + exp(-(SigmoidInputScale * Input)))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    sigmoid_input_scale : float, default 1.0
        The factor of x in the sigmoid.
    """

def activation_tanh(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the hyperbolic tangent to every element: Output = tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x)).

        Output = tanh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def activation_thresholded_relu(
    input: NDArray[Any], alpha: float = 1.0, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Applies the thresholded rectified linear unit to every element: Output = x if x > Alpha, else 0.

        Output = Input if Input > Alpha or is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        The threshold.
    """

class AdamOptimizerOutputs(NamedTuple):
    output_parameters: NDArray[Any]
    output_first_moment: NDArray[Any]
    output_second_moment: NDArray[Any]

def adam_optimizer(
    input_parameters: NDArray[Any] | float,
    input_first_moment: NDArray[Any] | float,
    input_second_moment: NDArray[Any] | float,
    gradient: NDArray[Any] | float,
    training_step: NDArray[Any] | float,
    learning_rate: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> AdamOptimizerOutputs:
    """Moves parameters X by a step of the Adam optimiser: X' = X - LearningRate * Alpha * M' / (sqrt(V') + Epsilon).

    With the gradient G, M' = Beta1 * M + (1 - Beta1) * G, V' = Beta2 * V + (1 - Beta2) * G^2, and
    Alpha = sqrt(1 - Beta2^T) / (1 - Beta1^T), where T is the number of the step. X' is computed from the exact M' and V', and
    each output is rounded once. The first step is T = 1; for T = 0, Alpha is NaN.

        OutputParameters[i, j, k, l] = InputParameters[i, j, k, l] - LearningRate * sqrt(1 - pow(Beta2, TrainingStep[0,
            0, 0, 0])) / (1 - pow(Beta1, TrainingStep[0, 0, 0, 0])) * (Beta1 * InputFirstMoment[i, j, k, l] + (1 -
            Beta1) * Gradient[i, j, k, l]) / (sqrt(Beta2 * InputSecondMoment[i, j, k, l] + (1 - Beta2) * Gradient[i, j,
            k, l]^2) + Epsilon)
        OutputFirstMoment = Beta1 * InputFirstMoment + (1 - Beta1) * Gradient
        OutputSecondMoment = Beta2 * InputSecondMoment + (1 - Beta2) * Gradient^2

    Parameters
    ----------
    input_parameters : NDArray[Any] | float
        The parameters X. 1 to 8 dimensions of float32 or float16.
    input_first_moment : NDArray[Any] | float
        The first moments M. 1 to 8 dimensions of float32 or float16.
    input_second_moment : NDArray[Any] | float
        The second moments V. 1 to 8 dimensions of float32 or float16.
    gradient : NDArray[Any] | float
        The gradient G of the parameters. 1 to 8 dimensions of float32 or float16.
    training_step : NDArray[Any] | float
        The number T of the step, one element. 1 to 8 dimensions of uint32.
    learning_rate : float, default 0.001
        The factor of the step.
    beta1 : float, default 0.9
        The decay rate of M, 0 to 1.
    beta2 : float, default 0.999
        The decay rate of V, 0 to 1.
    epsilon : float, default 1e-08
        A number added to the divisor, so that it is not zero.
    """

def argmax(
    input: NDArray[Any],
    axes: Sequence[int] | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Finds the row-major position of the largest element along all listed axes together.

    Of equal elements it is the first, with DECREASING the last; zeros of both signs are equal, and NaN is larger than all.

        Output[i, j] = position of the largest over i' < Input.Sizes[0] of Input[i', j]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    axes : Sequence[int] | int, optional
        The axes that are reduced. Negative ones count from the end. By default, all.
    axis_direction : AxisDirection | str, default "INCREASING"
        INCREASING: the first of equal elements; DECREASING: the last. One of INCREASING, DECREASING.
    axis : int, optional
        A single axis.
    """

def argmin(
    input: NDArray[Any],
    axes: Sequence[int] | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Finds the row-major position of the smallest element along all listed axes together.

    Of equal elements it is the first, with DECREASING the last; zeros of both signs are equal, and NaN is less than all.

        Output[i, j] = position of the smallest over i' < Input.Sizes[0] of Input[i', j]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    axes : Sequence[int] | int, optional
        The axes that are reduced. Negative ones count from the end. By default, all.
    axis_direction : AxisDirection | str, default "INCREASING"
        INCREASING: the first of equal elements; DECREASING: the last. One of INCREASING, DECREASING.
    axis : int, optional
        A single axis.
    """

def average_pooling(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool = False,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Averages every position of a window that slides over the spatial dimensions: Output = sum of elements / their number.

    It is AVERAGE_POOLING1 with Dilations of 1.

        Output[i, j, k, l] = (sum over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k * Strides[0] + u *
            Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]) / max(sum over u <
            WindowSize[0], v < WindowSize[1] where k * Strides[0] + u * Dilations[0] - StartPadding[0] >= 0 and k *
            Strides[0] + u * Dilations[0] - StartPadding[0] < Input.Sizes[2] and l * Strides[1] + v * Dilations[1] -
            StartPadding[1] >= 0 and l * Strides[1] + v * Dilations[1] - StartPadding[1] < Input.Sizes[3] of 1, 1)

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    include_padding : bool, default False
        Whether the padding counts in the number of elements.
    """

def average_pooling1(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool = False,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Averages every position of a window that slides over the spatial dimensions: Output = sum of elements / their number.

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1. Those
    outside of the input are left out of the sum. The number counts the terms of the sum or, with IncludePadding, all elements
    in the padded input. The quotient is exact, and rounded once.

        Output[i, j, k, l] = (sum over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k * Strides[0] + u *
            Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]) / max(sum over u <
            WindowSize[0], v < WindowSize[1] where k * Strides[0] + u * Dilations[0] - StartPadding[0] >= 0 and k *
            Strides[0] + u * Dilations[0] - StartPadding[0] < Input.Sizes[2] and l * Strides[1] + v * Dilations[1] -
            StartPadding[1] >= 0 and l * Strides[1] + v * Dilations[1] - StartPadding[1] < Input.Sizes[3] of 1, 1)

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    dilations : Sequence[int], optional
        Elements of the input from one element of a window to the next. By default, ones.
    include_padding : bool, default False
        Whether the padding counts in the number of elements.
    """

def average_pooling_grad(
    input_gradient: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool = False,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds to every element the gradients of the means that it is part of, each divided by the mean's number of elements.

    The elements at position o of the window are those at o * Stride + k - StartPadding, for k from 0 to WindowSize - 1, that
    are inside the tensor. As in AVERAGE_POOLING, their number includes those in the padding if there is IncludePadding. Sums
    are exact, and rounded once.

        OutputGradient[i, j, k, l] = sum over u < WindowSize[0], v < WindowSize[1] where (k + StartPadding[0] - u) //
            Strides[0] >= 0 and (k + StartPadding[0] - u) // Strides[0] < InputGradient.Sizes[2] and (l +
            StartPadding[1] - v) // Strides[1] >= 0 and (l + StartPadding[1] - v) // Strides[1] < InputGradient.Sizes[3]
            of InputGradient[i, j, (k + StartPadding[0] - u) // Strides[0], (l + StartPadding[1] - v) // Strides[1]] /
            max(sum over x < WindowSize[0], y < WindowSize[1] where (k + StartPadding[0] - u) // Strides[0] * Strides[0]
            + x - StartPadding[0] >= 0 and (k + StartPadding[0] - u) // Strides[0] * Strides[0] + x - StartPadding[0] <
            OutputGradient.Sizes[2] and (l + StartPadding[1] - v) // Strides[1] * Strides[1] + y - StartPadding[1] >= 0
            and (l + StartPadding[1] - v) // Strides[1] * Strides[1] + y - StartPadding[1] < OutputGradient.Sizes[3] of
            1, 1)

    Parameters
    ----------
    input_gradient : NDArray[Any]
        The gradient of the means, {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or
        float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    include_padding : bool, default False
        Whether the padding counts in the number of elements.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def batch_normalization(
    input: NDArray[Any],
    mean: NDArray[Any],
    variance: NDArray[Any],
    scale: NDArray[Any],
    bias: NDArray[Any],
    spatial: bool = True,
    epsilon: float = 1e-05,
    fused_activation: Desc | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Normalises by a given mean and variance: Output = f(Scale * (x - Mean) / sqrt(Variance + Epsilon) + Bias).

    Each size of Mean, Variance, Scale and Bias is the input's, or 1 and broadcast. The result is exact, and rounded once.

        Output[i, j, k, l] = max(0, Scale[0, j, 0, 0] * (Input[i, j, k, l] - Mean[0, j, 0, 0]) / sqrt(Variance[0, j, 0,
            0] + Epsilon) + Bias[0, j, 0, 0])

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    mean : NDArray[Any]
        The means, usually {1, ChannelCount, 1, 1}. A vector lies along the channel. 1 to 8 dimensions of float32 or
        float16.
    variance : NDArray[Any]
        The variances. A vector lies along the channel. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any]
        The factors of the normalised elements. A vector lies along the channel. 1 to 8 dimensions of float32 or
        float16.
    bias : NDArray[Any]
        The numbers added to them. A vector lies along the channel. 1 to 8 dimensions of float32 or float16.
    spatial : bool, default True
        Below feature level 4_0: whether Mean and Variance may be broadcast in space.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    fused_activation : Desc, optional
        The function f, applied to the exact result; if absent, none.
    """

class BatchNormalizationGradOutputs(NamedTuple):
    output_gradient: NDArray[Any]
    output_scale_gradient: NDArray[Any]
    output_bias_gradient: NDArray[Any]

def batch_normalization_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    mean: NDArray[Any] | float,
    variance: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    epsilon: float | None = None,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> BatchNormalizationGradOutputs:
    """Computes the gradients of the input, the scale and the bias of BATCH_NORMALIZATION from that of its output, g.

    With S = sqrt(Variance + Epsilon), these are g * Scale / S, (sum of g * (x - Mean)) / S, and the sum of g. Sums run over
    the dimensions in which the parameters have size 1. Mean and Variance are constants. Results are exact, and rounded once.

        OutputGradient[i, j] = InputGradient[i, j] * Scale[0, 0] / sqrt(Variance[0, 0] + 0)
        OutputScaleGradient[i, j] = (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of InputGradient[i', j'] *
            (Input[i', j'] - Mean[i, j])) / sqrt(Variance[i, j] + 0)
        OutputBiasGradient[i, j] = sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of InputGradient[i', j']

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x. 1 to 8 dimensions of float32 or float16.
    input_gradient : NDArray[Any] | float
        The incoming gradient g. 1 to 8 dimensions of float32 or float16.
    mean : NDArray[Any] | float
        The means. 1 to 8 dimensions of float32 or float16.
    variance : NDArray[Any] | float
        The variances. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any] | float
        The factors of the normalised elements. 1 to 8 dimensions of float32 or float16.
    epsilon : float, optional
        A number added to every variance, so that it is not zero; 0 if absent.
    """

class BatchNormalizationTrainingOutputs(NamedTuple):
    output: NDArray[Any]
    output_mean: NDArray[Any]
    output_variance: NDArray[Any]

def batch_normalization_training(
    input: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    bias: NDArray[Any] | float,
    fused_add: NDArray[Any] | float | None = None,
    epsilon: float = 1e-05,
    fused_activation: Desc | None = None,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> BatchNormalizationTrainingOutputs:
    """Normalises by the batch's mean m and variance v: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias + FusedAdd).

    Means run over the dimensions in which the parameters have size 1; v is the mean of (x - m)^2. The outputs include m and v.
    Results are exact, and rounded once.

        Output[i, j] = Scale[0, 0] * (Input[i, j] - (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j'])
            / (Input.Sizes[0] * Input.Sizes[1])) / sqrt((sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of (Input[i',
            j'] - (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] *
            Input.Sizes[1]))^2) / (Input.Sizes[0] * Input.Sizes[1]) + Epsilon) + Bias[0, 0]
        OutputMean[i, j] = (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] *
            Input.Sizes[1])
        OutputVariance[i, j] = (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of (Input[i', j'] - (sum over i' <
            Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] * Input.Sizes[1]))^2) /
            (Input.Sizes[0] * Input.Sizes[1])

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any] | float
        The factors of the normalised elements. A vector lies along the channel. 1 to 8 dimensions of float32 or
        float16.
    bias : NDArray[Any] | float
        The numbers added to them. A vector lies along the channel. 1 to 8 dimensions of float32 or float16.
    fused_add : NDArray[Any] | float, optional
        A tensor to add, with one number for each element; 0 if absent. 1 to 8 dimensions of float32 or float16.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    fused_activation : Desc, optional
        The function f, applied to the exact result; if absent, none.
    """

class BatchNormalizationTrainingGradOutputs(NamedTuple):
    output_gradient: NDArray[Any]
    output_scale_gradient: NDArray[Any]
    output_bias_gradient: NDArray[Any]

def batch_normalization_training_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    mean: NDArray[Any] | float,
    variance: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    epsilon: float = 1e-05,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> BatchNormalizationTrainingGradOutputs:
    """Computes the gradients of the input, the scale and the bias of BATCH_NORMALIZATION_TRAINING from that of its output, g.

    With c = x - Mean and V = Variance + Epsilon, these are Scale * (g - mean(g) - c * mean(g * c) / V) / sqrt(V),
    (sum of g * c) / sqrt(V), and the sum of g. Means and sums run over the dimensions in which the parameters have size 1.
    Results are exact, and rounded once.

        OutputGradient[i, j] = Scale[0, 0] * (InputGradient[i, j] - (sum over i' < InputGradient.Sizes[0], j' <
            InputGradient.Sizes[1] of InputGradient[i', j']) / (InputGradient.Sizes[0] * InputGradient.Sizes[1]) -
            (Input[i, j] - (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] *
            Input.Sizes[1])) * (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of InputGradient[i', j'] * (Input[i',
            j'] - (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] *
            Input.Sizes[1]))) / (Input.Sizes[0] * Input.Sizes[1]) / (Variance[0, 0] + Epsilon)) / sqrt(Variance[0, 0] +
            Epsilon)
        OutputScaleGradient[i, j] = (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of InputGradient[i', j'] *
            (Input[i', j'] - (sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of Input[i', j']) / (Input.Sizes[0] *
            Input.Sizes[1]))) / sqrt(Variance[i, j] + Epsilon)
        OutputBiasGradient[i, j] = sum over i' < Input.Sizes[0], j' < Input.Sizes[1] of InputGradient[i', j']

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x. 1 to 8 dimensions of float32 or float16.
    input_gradient : NDArray[Any] | float
        The incoming gradient g. 1 to 8 dimensions of float32 or float16.
    mean : NDArray[Any] | float
        The means that the training gave; formulas have the exact ones. 1 to 8 dimensions of float32 or float16.
    variance : NDArray[Any] | float
        The variances that the training gave. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any] | float
        The factors of the normalised elements. 1 to 8 dimensions of float32 or float16.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    """

def cast(
    input: NDArray[Any],
    output_data_type: DataType | DTypeLike,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Converts every element to the output's data type: Output = Input, as nearly as the type holds it.

    A float becomes an integer by truncation toward zero, and saturates; NaN becomes 0. An integer becomes one of another type
    modulo 2^bits. Numbers become floats by rounding half to even. If both types are the same, bits are copied unchanged.

    At `FeatureLevel.EXTENDED`, both may be BFLOAT16 or 8-bit floats. A number beyond the largest becomes infinite, or NaN in a
    type without infinities; ELEMENT_WISE_CLIP before the cast makes it saturate.

        Output = Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements to convert. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    output_data_type : DataType | DTypeLike
        The data type of the output.
    """

def convolution(
    input: NDArray[Any],
    filter: NDArray[Any],
    bias: NDArray[Any] | None = None,
    mode: ConvolutionMode | str = "CROSS_CORRELATION",
    direction: ConvolutionDirection | str = "FORWARD",
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group_count: int = 1,
    fused_activation: Desc | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Convolves an input with filters, forward or transposed, in groups, and applies a fused activation to the exact sums.

    FORWARD: Output[n, m, o] = f(sum of Input[n, c, o * Stride + k * Dilation - StartPadding] * Filter[m, c, k] + Bias[m]),
    over the positions k of the filter and the channels c of m's group. BACKWARD adds Input[n, c, i] * Filter[c, m, k] to
    Output[n, m, i * Stride + k * Dilation - StartPadding]. In the mode CONVOLUTION, the filter is flipped along every
    spatial dimension. Elements outside of the input are left out. The last OutputPadding positions of the output have no terms.

        Output[i, j, k, l] = max(0, (sum over c < Input.Sizes[1], u < Filter.Sizes[2], v < Filter.Sizes[3] of Input[i,
            c, k * Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]
            * Filter[j, c, u, v]) + Bias[0, j, 0, 0])

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, InputChannelCount, `[Depth,] [Height,]` Width}. 3 to 5 dimensions of float32 or float16.
    filter : NDArray[Any]
        {FilterBatchCount, FilterChannelCount, .., FilterWidth}. 3 to 5 dimensions of float32 or float16.
    bias : NDArray[Any], optional
        A number for each output channel, {1, OutputChannelCount, 1, ..}. A vector lies along the channel. 3 to 5
        dimensions of float32 or float16.
    mode : ConvolutionMode | str, default "CROSS_CORRELATION"
        Whether the filter is flipped. One of CONVOLUTION, CROSS_CORRELATION.
    direction : ConvolutionDirection | str, default "FORWARD"
        FORWARD, or BACKWARD: transposed. One of FORWARD, BACKWARD.
    strides : Sequence[int], optional
        Elements from one position of the filter to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements from one element of the filter to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements of padding before the input, which add nothing. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input, which add nothing. By default, zeros.
    output_padding : Sequence[int], optional
        Positions at the output's end without terms. By default, zeros.
    group_count : int, default 1
        Groups that the channels are divided into.
    fused_activation : Desc, optional
        The function f, applied to the exact sum; if absent, none.
    """

def convolution_integer(
    input: NDArray[Any],
    filter: NDArray[Any],
    input_zero_point: NDArray[Any] | float | None = None,
    filter_zero_point: NDArray[Any] | float | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int = 1,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Convolves 8-bit integers with filters, in groups: Output = sum of (Input - InputZeroPoint) * (Filter - FilterZeroPoint).

    Output[n, m, o] sums over the positions k of the filter and the channels c of m's group, with Input at o * Stride +
    k * Dilation - StartPadding. Elements outside of the input are left out, as if they were the zero point. An absent zero
    point is 0. Sums outside of INT32 wrap modulo 2^32.

        Output[i, j, k, l] = sum over c < Input.Sizes[1], u < Filter.Sizes[2], v < Filter.Sizes[3] of (Input[i, c, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]] -
            InputZeroPoint[0]) * (Filter[j, c, u, v] - FilterZeroPoint[0])

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, InputChannelCount, [Height,] Width}. 3 to 4 dimensions of int8 or uint8.
    filter : NDArray[Any]
        {OutputChannelCount, InputChannelCount / GroupCount, [FilterHeight,] FilterWidth}. 3 to 4 dimensions of int8 or
        uint8.
    input_zero_point : NDArray[Any] | float, optional
        The input's zero point, one element. 1 to 4 dimensions of int8 or uint8.
    filter_zero_point : NDArray[Any] | float, optional
        The filter's zero point; {1, OutputChannelCount, 1, 1} per output channel. 1 to 4 dimensions of int8 or uint8.
    strides : Sequence[int], optional
        Elements from one position of the filter to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements from one element of the filter to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements of padding before the input, which add nothing. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input, which add nothing. By default, zeros.
    group_count : int, default 1
        Groups that the channels are divided into.
    """

def cumulative_product(
    input: NDArray[Any],
    axis: int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    has_exclusive_product: bool = False,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies the elements of each line up to every position: Output[i] = product of Input[k] over k <= i, or over k >= i.

    With HasExclusiveProduct the element itself is left out, so that the first product is 1. Each product is exact, and
    rounded once; integers wrap modulo 2^bits.

        Output[i, j, k, l] = product over l' < Input.Sizes[3] where l' <= l of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32, float16, int32, uint32, int64 or uint64.
    axis : int, optional
        The axis along which the lines lie. A negative one counts from the end. By default, the last.
    axis_direction : AxisDirection | str, default "INCREASING"
        INCREASING: from the line's first element on; DECREASING: from its last. One of INCREASING, DECREASING.
    has_exclusive_product : bool, default False
        Whether the element itself is left out.
    """

def cumulative_summation(
    input: NDArray[Any],
    axis: int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    has_exclusive_sum: bool = False,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds up the elements of each line up to every position: Output[i] = sum of Input[k] over k <= i, or over k >= i.

    With HasExclusiveSum the element itself is left out, so that the first sum is 0. Each sum is exact, and
    rounded once; integers wrap modulo 2^bits.

        Output[i, j, k, l] = sum over l' < Input.Sizes[3] where l' <= l of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32, float16, int32, uint32, int64 or uint64.
    axis : int, optional
        The axis along which the lines lie. A negative one counts from the end. By default, the last.
    axis_direction : AxisDirection | str, default "INCREASING"
        INCREASING: from the line's first element on; DECREASING: from its last. One of INCREASING, DECREASING.
    has_exclusive_sum : bool, default False
        Whether the element itself is left out.
    """

def depth_to_space(
    input: NDArray[Any], block_size: int, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Rearranges channels to blocks of an image: Output[n, c, h * B + i, w * B + j] = Input[n, (i * B + j) * C + c, h, w].

    It is DEPTH_TO_SPACE1 in the order DEPTH_COLUMN_ROW.

        Output[i, j, k, l] = Input[i, (k mod 2 * 2 + l mod 2) * Output.Sizes[1] + j, k // 2, l // 2]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount * BlockSize^2, Height, Width}. 4 dimensions of float64, float32, float16, int32,
        int16, int8, uint32, uint16, uint8, int64 or uint64.
    block_size : int
        Height and width of a block.
    """

def depth_to_space1(
    input: NDArray[Any],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Rearranges channels to blocks of an image: Output[n, c, h * B + i, w * B + j] = Input[n, k, h, w].

    B is BlockSize, and C the output's number of channels. The channel k is (i * B + j) * C + c in the order DEPTH_COLUMN_ROW,
    and (c * B + i) * B + j in the order COLUMN_ROW_DEPTH. Bits are copied unchanged.

        Output[i, j, k, l] = Input[i, (k mod 2 * 2 + l mod 2) * Output.Sizes[1] + j, k // 2, l // 2]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount * BlockSize^2, Height, Width}. 4 dimensions of float64, float32, float16, int32,
        int16, int8, uint32, uint16, uint8, int64 or uint64.
    block_size : int
        Height and width of a block.
    order : DepthSpaceOrder | str, default "DEPTH_COLUMN_ROW"
        The order of the channels of a block. One of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH.
    """

def dequantize(
    input: NDArray[Any],
    quantizations: Sequence[NDArray[Any]],
    quantization_type: QuantizationType | str | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Dequantizes every element by its block: Output = (Input - ZeroPoint) * Scale.

    In each dimension, the quantization tensors have a size n, and the input is divided into n blocks of equal size: with n = 1
    all elements share a scale, and with the input's size each has its own. The product is exact and rounded once. An absent
    zero point is 0 for a signed type, and the middle of an unsigned one: 128 for UINT8, 8 for UINT4. (In ONNX it is 0; give
    a tensor for that.)

    At `FeatureLevel.EXTENDED`, the input may have 8-bit floats.

    Elements of 4 bits are bound as bytes, two in each, the first in the low half. The eager function takes arrays of
    ml_dtypes' int4 and uint4.

        Output[i, j] = (Input[i, j] - Quantization[1][i // (Input.Sizes[0] // Quantization[1].Sizes[0]), j //
            (Input.Sizes[1] // Quantization[1].Sizes[1])]) * Quantization[0][i // (Input.Sizes[0] //
            Quantization[0].Sizes[0]), j // (Input.Sizes[1] // Quantization[0].Sizes[1])]

    Parameters
    ----------
    input : NDArray[Any]
        The elements to dequantize. 1 to 8 dimensions of int8, int4, uint8 or uint4.
    quantizations : Sequence[NDArray[Any]]
        The scale of each block, of the output's type, and its zero point, of the input's type. 1 to 8 dimensions of
        float32, float16, int8, int4, uint8 or uint4.
    quantization_type : QuantizationType | str, optional
        SCALE, or SCALE_ZERO_POINT: what the quantization tensors are. By default, SCALE for one quantization tensor,
        SCALE_ZERO_POINT for two.
    """

def diagonal_matrix(
    offset: int = 0,
    value: float = 1.0,
    *,
    output_sizes: Sequence[int],
    output_data_type: DataType | DTypeLike,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Fills a diagonal of matrices with a number, and the rest with 0: Output[y, x] = Value where x = y + Offset, else 0.

    It is DIAGONAL_MATRIX1 without an input, from Offset to Offset + 1. In integer tensors Value is truncated and saturated.

        Output[i, j, k, l] = Value if l - k >= 0 and l - k < 1, else 0

    Parameters
    ----------
    offset : int, default 0
        The diagonal: above the main one if positive.
    value : float, default 1.0
        The number.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    output_data_type : DataType | DTypeLike
        The data type of the output.
    """

def diagonal_matrix1(
    input: NDArray[Any] | None = None,
    *,
    value_data_type: DataType | DTypeLike,
    value: float,
    diagonal_fill_begin: int,
    diagonal_fill_end: int,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Fills diagonals of matrices with a number, and copies the other elements from an input, or fills them with 0.

    Element [y, x] is on diagonal t = x - y. Diagonals with DiagonalFillBegin <= t < DiagonalFillEnd are filled; if the begin
    is greater than the end, those with t < DiagonalFillEnd or t >= DiagonalFillBegin. Bits are copied unchanged.

        Output[i, j, k, l] = Value if l - k >= -2147483648 and l - k < 1, else Input[i, j, k, l]

    Parameters
    ----------
    input : NDArray[Any], optional
        The other elements; without it, 0. 2 to 4 dimensions of float64, float32, float16, int32, int16, int8, uint32,
        uint16, uint8, int64 or uint64.
    value_data_type : DataType | DTypeLike
        The type of Value.
    value : float
        The number.
    diagonal_fill_begin : int
        The first diagonal that is filled.
    diagonal_fill_end : int
        The diagonal behind the last one that is filled.
    """

class DynamicQuantizeLinearOutputs(NamedTuple):
    output: NDArray[Any]
    output_scale: NDArray[Any]
    output_zero_point: NDArray[Any]

def dynamic_quantize_linear(
    input: NDArray[Any],
    output_data_type: DataType | DTypeLike,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> DynamicQuantizeLinearOutputs:
    """Quantizes a tensor by the range of its elements, and gives the scale and the zero point that it used.

    OutputScale = (max - min) / (Max - Min), OutputZeroPoint = clamp(round(Min - min / OutputScale), Min, Max), and
    Output = clamp(round(Input / OutputScale) + OutputZeroPoint, Min, Max). Here min and max are the smallest and the largest
    number among the elements and 0, without NaN; Min and Max are the limits of the output's type. The three quotients are
    rounded to FLOAT32, as in ONNX, and round takes ties to even. If the scale were 0, it is 1, and the zero point 0. A
    quotient that is NaN gives Min.

        Output[i] = 0 if is_nan(float32(Input[i] / Scale[0])), else min(255, max(0, round(float32(Input[i] / Scale[0]))
            + ZeroPoint[0]))
        OutputScale[i] = Scale[0]
        OutputZeroPoint[i] = ZeroPoint[0]
        ZeroPoint[t] = uint8(0 if float32((max(0, max over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a]))
            - min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a]))) / 255) = 0, else 0 if
            is_nan(float32(min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a])) / Scale[0])),
            else min(255, max(0, round(0 - float32(min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else
            Input[a])) / Scale[0])))))
        Scale[t] = float32(1 if P = 0, else P)
            where P = float32((max(0, max over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a])) - min(0,
            min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a]))) / 255)

    Parameters
    ----------
    input : NDArray[Any]
        The elements to quantize. 1 to 8 dimensions of float32 or float16.
    output_data_type : DataType | DTypeLike
        The data type of the output.
    """

def element_wise_abs(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the magnitude of every element: Output = |x|, or |x * Scale + Bias| where there is a ScaleBias.

    The magnitude of the lowest integer of a type wraps to that integer itself. With a ScaleBias, an integer is truncated
    toward zero and saturates.

        Output = abs(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8 or int64.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_acos(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the arc cosine of every element, in radians from 0 to pi: Output = acos(x).

    Where there is a ScaleBias, it is acos(x * Scale + Bias).

        Output = acos(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_acosh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the inverse hyperbolic cosine of every element: Output = acosh(x).

    Where there is a ScaleBias, it is acosh(x * Scale + Bias).

        Output = acosh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_add(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Adds two tensors element by element: Output = A + B. Sums of integers wrap modulo 2^bits.

        Output = A + B

    Parameters
    ----------
    a : NDArray[Any] | float
        The left terms. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    b : NDArray[Any] | float
        The right terms. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    """

def element_wise_add1(
    a: NDArray[Any] | float,
    b: NDArray[Any] | float,
    fused_activation: Desc | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds two tensors element by element, and applies a fused activation to the exact sum: Output = f(A + B).

        Output = max(0, A + B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The left terms. 1 to 8 dimensions of float32 or float16.
    b : NDArray[Any] | float
        The right terms. 1 to 8 dimensions of float32 or float16.
    fused_activation : Desc, optional
        The function f, applied to the exact sum; if absent, none.
    """

def element_wise_asin(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the arc sine of every element, in radians from -pi / 2 to pi / 2: Output = asin(x).

    Where there is a ScaleBias, it is asin(x * Scale + Bias).

        Output = asin(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_asinh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the inverse hyperbolic sine of every element: Output = asinh(x).

    Where there is a ScaleBias, it is asinh(x * Scale + Bias).

        Output = asinh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_atan(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the arc tangent of every element, in radians from -pi / 2 to pi / 2: Output = atan(x).

    Where there is a ScaleBias, it is atan(x * Scale + Bias).

        Output = atan(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_atanh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the inverse hyperbolic tangent of every element: Output = atanh(x).

    Where there is a ScaleBias, it is atanh(x * Scale + Bias).

        Output = atanh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_atan_yx(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the angle of every point (B, A) from the x axis, in radians from -pi to pi: Output = atan2(A, B).

        Output = atan2(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The y coordinates. 1 to 8 dimensions of float32 or float16.
    b : NDArray[Any] | float
        The x coordinates. 1 to 8 dimensions of float32 or float16.
    """

def element_wise_bit_and(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Combines the bits of every two elements: Output = A & B. Floats are combined by their encodings.

        Output = bit_and(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    """

def element_wise_bit_count(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Counts the ones among the bits of every element: Output = popcount(x).

    The bits are those of the encoding: -1 as INT8 has 8, and 1 as FLOAT32 has 7. The output is UINT8 or UINT32.

        Output = bit_count(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8, int64
        or uint64.
    """

def element_wise_bit_not(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Inverts the bits of every element: Output = ~x. Floats are inverted by their encodings.

        Output = bit_not(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8, int64
        or uint64.
    """

def element_wise_bit_or(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Combines the bits of every two elements: Output = A | B. Floats are combined by their encodings.

        Output = bit_or(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    """

def element_wise_bit_shift_left(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Shifts the bits of every element of A to the left by B places: Output = A << B.

    Bits that exceed the width of the type are lost; the result is 0 if B is that width or more.

        Output = shift_left(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements whose bits are moved. 1 to 8 dimensions of uint32, uint16, uint8 or uint64.
    b : NDArray[Any] | float
        The number of places. 1 to 8 dimensions of uint32, uint16, uint8 or uint64.
    """

def element_wise_bit_shift_right(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Shifts the bits of every element of A to the right by B places: Output = A >> B.

    Zeros are shifted in from the left; the result is 0 if B is the width of the type or more.

        Output = shift_right(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements whose bits are moved. 1 to 8 dimensions of uint32, uint16, uint8 or uint64.
    b : NDArray[Any] | float
        The number of places. 1 to 8 dimensions of uint32, uint16, uint8 or uint64.
    """

def element_wise_bit_xor(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Combines the bits of every two elements: Output = A ^ B. Floats are combined by their encodings.

        Output = bit_xor(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    """

def element_wise_ceil(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Rounds every element up to an integer: Output = ceil(x), or ceil(x * Scale + Bias) where there is a ScaleBias.

        Output = ceil(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_clip(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    min: float | None = None,
    max: float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Keeps every element within two bounds: Output = min(Max, max(Min, x)), which is Max where Min > Max.

    Where there is a ScaleBias, x * Scale + Bias takes the place of x. In an integer tensor, the result is truncated toward
    zero and saturates. CONVOLUTION and GEMM take it as a fused activation from feature level 6_0 on.

        Output = min(Max, max(Min, Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    min : float, optional
        The lower bound. By default, no bound.
    max : float, optional
        The upper bound. By default, no bound.
    """

def element_wise_clip1(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    min_max_data_type: DataType | DTypeLike | None = None,
    min: float | None = None,
    max: float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Keeps every element within two bounds: Output = min(Max, max(Min, x)), which is Max where Min > Max.

    Where there is a ScaleBias, x * Scale + Bias takes the place of x; an integer is then truncated toward zero.

        Output = min(Max, max(Min, Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    min_max_data_type : DataType | DTypeLike, optional
        The type of Min and Max. By default, the input's.
    min : float, optional
        The lower bound. By default, no bound.
    max : float, optional
        The upper bound. By default, no bound.
    """

def element_wise_clip_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    min: float,
    max: float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Passes the gradient where clipping keeps an element: OutputGradient = 0 if x <= Min or x >= Max, else InputGradient.

    The gradient passes if x is NaN. Its bits are copied unchanged. Min and Max are floats, and are compared with integers
    without conversion to their type; CLIP_GRAD1 cannot do that, so this operator has a statement of its own.

        OutputGradient = 0 if Input <= Min or Input >= Max, else InputGradient

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x that were clipped. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    input_gradient : NDArray[Any] | float
        The gradient of what clipping gave. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    min : float
        The lower bound.
    max : float
        The upper bound.
    """

def element_wise_clip_grad1(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    min_max_data_type: DataType | DTypeLike | None = None,
    *,
    min: float,
    max: float,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Passes the gradient where clipping keeps an element: OutputGradient = 0 if x <= Min or x >= Max, else InputGradient.

    The gradient passes if x is NaN. Its bits are copied unchanged.

        OutputGradient = 0 if Input <= Min or Input >= Max, else InputGradient

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x that were clipped. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    input_gradient : NDArray[Any] | float
        The gradient of what clipping gave. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    min_max_data_type : DataType | DTypeLike, optional
        The type of Min and Max. By default, the input's.
    min : float
        The lower bound.
    max : float
        The upper bound.
    """

def element_wise_constant_pow(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    exponent: float,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Raises every element to one power: Output = pow(x, Exponent).

    With a ScaleBias, it is pow(x * Scale + Bias, Exponent). The function is IEEE 754's pow: a power of a negative number is
    NaN unless the exponent is an integer, and x^0 and 1^y are 1 for all x and y.

        Output = pow(Input, Exponent)

    Parameters
    ----------
    input : NDArray[Any]
        The bases x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    exponent : float
        The exponent of every power.
    """

def element_wise_cos(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the cosine of every element, an angle in radians: Output = cos(x).

    Where there is a ScaleBias, it is cos(x * Scale + Bias).

        Output = cos(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_cosh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the hyperbolic cosine of every element: Output = cosh(x), or cosh(x * Scale + Bias) where there is a ScaleBias.

        Output = cosh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_dequantize_linear(
    input: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    zero_point: NDArray[Any] | float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Dequantizes every element: Output = (Input - ZeroPoint) * Scale.

    The product is exact and rounded once. An absent zero point is 0.

        Output = (Input - ZeroPoint) * Scale

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements to dequantize. 1 to 8 dimensions of int32, int16, int8, uint32, uint16 or uint8.
    scale : NDArray[Any] | float
        A scale for each element, of the output's type. 1 to 8 dimensions of float32 or float16.
    zero_point : NDArray[Any] | float, optional
        A zero point for each element, of the input's type. 1 to 8 dimensions of int32, int16, int8, uint32, uint16 or
        uint8.
    """

def element_wise_difference_square(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Squares the difference of every two elements: Output = (A - B) * (A - B).

    The difference is exact and the square rounded once. Squares of integers wrap modulo 2^bits.

        Output = (A - B) * (A - B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements to subtract from. 1 to 8 dimensions of float32, float16, int32 or uint32.
    b : NDArray[Any] | float
        The elements to subtract. 1 to 8 dimensions of float32, float16, int32 or uint32.
    """

def element_wise_divide(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Divides two tensors element by element: Output = A / B.

    The quotient of integers is truncated toward zero, and is 0 if B is 0. The lowest integer divided by -1 wraps to itself.

        Output = A / B

    Parameters
    ----------
    a : NDArray[Any] | float
        The dividends. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    b : NDArray[Any] | float
        The divisors. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    """

def element_wise_erf(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the error function to every element: Output = erf(x), or erf(x * Scale + Bias) where there is a ScaleBias.

    erf(x) is 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

        Output = erf(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_exp(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Raises e to the power of every element: Output = exp(x), or exp(x * Scale + Bias) where there is a ScaleBias.

        Output = exp(Input * Scale + Bias)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_floor(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Rounds every element down to an integer: Output = floor(x), or floor(x * Scale + Bias) where there is a ScaleBias.

        Output = floor(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_identity(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies every element: Output = x, or x * Scale + Bias where there is a ScaleBias.

    Without a ScaleBias, bits are copied unchanged, also those of NaN; input and output may have different strides. With a
    ScaleBias, integers are truncated toward zero and saturate.

        Output = Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8, int64
        or uint64.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_if(
    condition: NDArray[Any] | float,
    a: NDArray[Any] | float,
    b: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Selects every element from one of two tensors: Output = A where Condition is not 0, else B.

    The bits of the element are moved, those of a NaN too.

        Output = A if Condition != 0, else B

    Parameters
    ----------
    condition : NDArray[Any] | float
        The conditions: 0 selects B, all else A. 1 to 8 dimensions of uint8 or bool.
    a : NDArray[Any] | float
        The elements to take where the condition is true. 1 to 8 dimensions of float64, float32, float16, int32, int16,
        int8, uint32, uint16, uint8, int64 or uint64.
    b : NDArray[Any] | float
        The elements to take where the condition is false. 1 to 8 dimensions of float64, float32, float16, int32, int16,
        int8, uint32, uint16, uint8, int64 or uint64.
    """

def element_wise_is_infinity(
    input: NDArray[Any],
    infinity_mode: IsInfinityMode | str = "EITHER",
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Tells which elements are infinite: Output = 1 where x is infinite and has the sign asked for, else 0.

        Output = 1 if abs(Input) = inf, else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    infinity_mode : IsInfinityMode | str, default "EITHER"
        The infinity to look for, or either. One of EITHER, POSITIVE, NEGATIVE.
    """

def element_wise_is_nan(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Tells which elements are NaN: Output = 1 where x is NaN, else 0.

        Output = 1 if is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    """

def element_wise_log(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the natural logarithm of every element: Output = ln(x), or ln(x * Scale + Bias) where there is a ScaleBias.

        Output = log(Input * Scale + Bias)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_logical_and(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Says where both elements are true: Output = A && B. Any element but 0 is true; results are 1 and 0.

        Output = 1 if A != 0 and B != 0, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The truth values on the left. 1 to 8 dimensions of uint32, uint8 or bool.
    b : NDArray[Any] | float
        The truth values on the right. 1 to 8 dimensions of uint32, uint8 or bool.
    """

def element_wise_logical_equals(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Compares two tensors element by element: Output = (A == B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.

        Output = 1 if A = B, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_logical_greater_than(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Compares two tensors element by element: Output = (A > B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.

        Output = 1 if B < A, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_logical_greater_than_or_equal(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Compares two tensors element by element: Output = (A >= B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.

        Output = 1 if B <= A, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_logical_less_than(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Compares two tensors element by element: Output = (A < B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.

        Output = 1 if A < B, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_logical_less_than_or_equal(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Compares two tensors element by element: Output = (A <= B), 1 or 0.

    A comparison with NaN is false, and -0 equals +0. The output is UINT8 or UINT32, whatever the inputs are.

        Output = 1 if A <= B, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_logical_not(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Negates every truth value: Output = !x. Any element but 0 is true; results are 1 and 0.

        Output = 1 if Input = 0, else 0

    Parameters
    ----------
    input : NDArray[Any]
        The truth values x. 1 to 8 dimensions of uint32, uint8 or bool.
    """

def element_wise_logical_or(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Says where at least one element is true: Output = A || B. Any element but 0 is true; results are 1 and 0.

        Output = 1 if A != 0 or B != 0, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The truth values on the left. 1 to 8 dimensions of uint32, uint8 or bool.
    b : NDArray[Any] | float
        The truth values on the right. 1 to 8 dimensions of uint32, uint8 or bool.
    """

def element_wise_logical_xor(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Says where exactly one element is true: Output = (!!A) != (!!B). Any element but 0 is true; results are 1 and 0.

        Output = 1 if A != 0 and B = 0 or A = 0 and B != 0, else 0

    Parameters
    ----------
    a : NDArray[Any] | float
        The truth values on the left. 1 to 8 dimensions of uint32, uint8 or bool.
    b : NDArray[Any] | float
        The truth values on the right. 1 to 8 dimensions of uint32, uint8 or bool.
    """

def element_wise_max(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the larger of every two elements: Output = max(A, B). NaN where either is NaN, and -0 is below +0.

        Output = max(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_mean(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the mean of every two elements: Output = (A + B) / 2.

    The sum is exact and does not overflow. The mean of integers is truncated toward zero.

        Output = (A + B) / 2

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32 or uint32.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32 or uint32.
    """

def element_wise_min(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the smaller of every two elements: Output = min(A, B). NaN where either is NaN, and -0 is below +0.

        Output = min(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements on the left. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements on the right. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_modulus_floor(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Computes the remainder of a quotient that is rounded down: Output = A - B * floor(A / B), as Python's %.

    The exact remainder is rounded once, and has the sign of B even if it is 0; -3 modulo +infinity is +infinity. If B is 0,
    the result is NaN, or 0 for integers.

        Output = floor_mod(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The dividends. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    b : NDArray[Any] | float
        The divisors. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    """

def element_wise_modulus_truncate(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Computes the remainder of a quotient that is truncated toward zero: Output = A - B * trunc(A / B), as C's fmod.

    The remainder is exact, and has the sign of A even if it is 0. If B is infinite, the result is A; if B is 0, it is NaN, or
    0 for integers.

        Output = fmod(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The dividends. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    b : NDArray[Any] | float
        The divisors. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    """

def element_wise_multiply(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Multiplies two tensors element by element: Output = A * B. Products of integers wrap modulo 2^bits.

        Output = A * B

    Parameters
    ----------
    a : NDArray[Any] | float
        The left factors. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    b : NDArray[Any] | float
        The right factors. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    """

def element_wise_negate(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Negates every element: Output = -x. The sign of a zero changes too; the lowest integer of a type wraps to itself.

        Output = -Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8 or int64.
    """

def element_wise_pow(
    input: NDArray[Any] | float,
    exponent: NDArray[Any] | float,
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Raises every element to a power: Output = pow(x, Exponent), or pow(x * Scale + Bias, Exponent) with a ScaleBias.

    The function is IEEE 754's pow: a power of a negative number is NaN unless the exponent is an integer, and x^0 and 1^y are
    1 for all x and y. Powers of integers with integer exponents wrap modulo 2^bits; with negative exponents they are 0, except
    for bases of 1 and -1. For an integer with a ScaleBias or a float exponent, the exact result is truncated toward zero and
    saturates.

        Output = pow(Input, Exponent)

    Parameters
    ----------
    input : NDArray[Any] | float
        The bases x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    exponent : NDArray[Any] | float
        The exponents. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every base; if absent, x is used.
    """

def element_wise_quantized_linear_add(
    a: NDArray[Any] | float,
    a_scale: NDArray[Any] | float,
    b: NDArray[Any] | float,
    b_scale: NDArray[Any] | float,
    output_scale: NDArray[Any] | float,
    a_zero_point: NDArray[Any] | float | None = None,
    b_zero_point: NDArray[Any] | float | None = None,
    output_zero_point: NDArray[Any] | float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds two quantized tensors element by element: Output = quantize(dequantize(A) + dequantize(B)).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is exact
    except for this one rounding, half to even. An absent zero point is 0; a quotient that is NaN gives Min.

        Output[i] = 0 if is_nan(P[i]), else min(255, max(0, round(P[i]) + OutputZeroPoint[0]))
            where P[i] = ((A[i] - AZeroPoint[0]) * AScale[0] + (B[i] - BZeroPoint[0]) * BScale[0]) / OutputScale[0]

    Parameters
    ----------
    a : NDArray[Any] | float
        The left terms. 1 to 8 dimensions of int8 or uint8.
    a_scale : NDArray[Any] | float
        A's scale, one element. 1 to 8 dimensions of float32.
    b : NDArray[Any] | float
        The right terms. 1 to 8 dimensions of int8 or uint8.
    b_scale : NDArray[Any] | float
        B's scale, one element. 1 to 8 dimensions of float32.
    output_scale : NDArray[Any] | float
        The output's scale, one element. 1 to 8 dimensions of float32.
    a_zero_point : NDArray[Any] | float, optional
        A's zero point, one element. 1 to 8 dimensions of int8 or uint8.
    b_zero_point : NDArray[Any] | float, optional
        B's zero point, one element. 1 to 8 dimensions of int8 or uint8.
    output_zero_point : NDArray[Any] | float, optional
        The output's zero point, one element. 1 to 8 dimensions of int8 or uint8.
    """

def element_wise_quantize_linear(
    input: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    zero_point: NDArray[Any] | float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Quantizes every element: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    The quotient is rounded to FLOAT32, as in ONNX, and round takes ties to even. Min and Max are the limits of the output's
    type. An absent zero point is 0; a quotient that is NaN gives Min.

        Output = 0 if is_nan(float32(Input / Scale)), else min(255, max(0, round(float32(Input / Scale)) + ZeroPoint))

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements to quantize. 1 to 8 dimensions of float32, float16 or int32.
    scale : NDArray[Any] | float
        A scale for each element. 1 to 8 dimensions of float32 or float16.
    zero_point : NDArray[Any] | float, optional
        A zero point for each element, of the output's type. 1 to 8 dimensions of int8 or uint8.
    """

def element_wise_recip(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the reciprocal of every element: Output = 1 / x, or 1 / (x * Scale + Bias) where there is a ScaleBias.

        Output = 1 / Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_round(
    input: NDArray[Any],
    rounding_mode: RoundingMode | str = "HALVES_TO_NEAREST_EVEN",
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Rounds every element to an integer: Output = round(x), in the direction that the mode names.

    HALVES_TO_NEAREST_EVEN and TOWARD_INFINITY take the nearest integer; of a tie, the first takes the even integer, and the
    second the one away from zero. TOWARD_ZERO truncates. Negative numbers that round to 0 give -0.

        Output = round(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    rounding_mode : RoundingMode | str, default "HALVES_TO_NEAREST_EVEN"
        The integer that is taken. One of HALVES_TO_NEAREST_EVEN, TOWARD_ZERO, TOWARD_INFINITY.
    """

def element_wise_sign(
    input: NDArray[Any], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Takes the sign of every element: Output = 1 if x > 0, -1 if x < 0, else 0. That of -0 is 0, and NaN stays.

        Output = 1 if Input > 0, else -1 if Input < 0, else Input if is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    """

def element_wise_sin(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the sine of every element, an angle in radians: Output = sin(x).

    Where there is a ScaleBias, it is sin(x * Scale + Bias).

        Output = sin(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_sinh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the hyperbolic sine of every element: Output = sinh(x), or sinh(x * Scale + Bias) where there is a ScaleBias.

        Output = sinh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_sqrt(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the square root of every element: Output = sqrt(x), or sqrt(x * Scale + Bias) where there is a ScaleBias.

        Output = sqrt(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_subtract(
    a: NDArray[Any] | float, b: NDArray[Any] | float, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Subtracts two tensors element by element: Output = A - B. Differences of integers wrap modulo 2^bits.

        Output = A - B

    Parameters
    ----------
    a : NDArray[Any] | float
        The elements to subtract from. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    b : NDArray[Any] | float
        The elements to subtract. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    """

def element_wise_tan(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the tangent of every element, an angle in radians: Output = tan(x).

    Where there is a ScaleBias, it is tan(x * Scale + Bias).

        Output = tan(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_tanh(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the hyperbolic tangent of every element: Output = tanh(x).

    Where there is a ScaleBias, it is tanh(x * Scale + Bias).

        Output = tanh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    """

def element_wise_threshold(
    input: NDArray[Any],
    scale_bias: tuple[float, float] | None = None,
    *,
    min: float,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Raises every element to a lower bound: Output = max(x, Min).

    Where there is a ScaleBias, it is max(x * Scale + Bias, Min). In an integer tensor, the result is truncated toward zero
    and saturates.

        Output = max(Input, Min)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    scale_bias : tuple[float, float], optional
        A factor and a term, applied exactly to every x; if absent, x is used.
    min : float
        The lower bound.
    """

def fill_value_constant(
    value_data_type: DataType | DTypeLike,
    value: float,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Fills a tensor with one number: Output = Value.

        Output = Value

    Parameters
    ----------
    value_data_type : DataType | DTypeLike
        The type of Value.
    value : float
        The number.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def fill_value_sequence(
    value_data_type: DataType | DTypeLike,
    value_start: float,
    value_delta: float,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Fills a tensor with evenly spaced numbers: Output = ValueStart + k * ValueDelta for element k in row-major order.

    Floats are rounded once, from the exact sum; integers wrap modulo 2^bits.

        Output[i] = ValueStart if i = 0, else ValueStart + i * ValueDelta

    Parameters
    ----------
    value_data_type : DataType | DTypeLike
        The type of ValueStart and ValueDelta.
    value_start : float
        The first number.
    value_delta : float
        The difference between neighbouring numbers.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def fold(
    input: NDArray[Any],
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds up columns, each the elements of a window, at their positions in an image: the reverse of UNFOLD.

    Output[n, c, p] = sum of Input[n, c * K + k, b] over all b and k with p = b * Stride + k * Dilation - StartPadding. Here b
    is a position of the window and k one of its K elements, each counted in row-major order. Elements outside of the image
    are left out. Sums are exact, and rounded once; integers wrap modulo 2^bits.

        Output[i, j, k, l] = sum over u < WindowSizes[0], v < WindowSizes[1] where (k + StartPadding[0] - u *
            Dilations[0]) // Strides[0] >= 0 and (k + StartPadding[0] - u * Dilations[0]) // Strides[0] <
            (Output.Sizes[2] + StartPadding[0] + EndPadding[0] - (Dilations[0] * (WindowSizes[0] - 1)) - 1) //
            Strides[0] + 1 and (l + StartPadding[1] - v * Dilations[1]) // Strides[1] >= 0 and (l + StartPadding[1] - v
            * Dilations[1]) // Strides[1] < (Output.Sizes[3] + StartPadding[1] + EndPadding[1] - (Dilations[1] *
            (WindowSizes[1] - 1)) - 1) // Strides[1] + 1 of Input[i, j * (WindowSizes[0] * WindowSizes[1]) + u *
            WindowSizes[1] + v, (k + StartPadding[0] - u * Dilations[0]) // Strides[0] * ((Output.Sizes[3] +
            StartPadding[1] + EndPadding[1] - (Dilations[1] * (WindowSizes[1] - 1)) - 1) // Strides[1] + 1) + (l +
            StartPadding[1] - v * Dilations[1]) // Strides[1]]

    Parameters
    ----------
    input : NDArray[Any]
        The columns, {BatchCount, ChannelCount * K, places}. 3 dimensions of float64, float32, float16, int32, int16,
        int8, uint32, uint16, uint8, int64 or uint64.
    window_sizes : Sequence[int]
        Elements of a window.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements of the image from one element of a window to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements before the image, for windows to begin in. By default, zeros.
    end_padding : Sequence[int], optional
        Elements after the image, for windows to end in. By default, zeros.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def gather(
    input: NDArray[Any],
    indices: NDArray[Any],
    axis: int | None = None,
    index_dimensions: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the slices of Input at indices along an axis: NumPy's take(Input, Indices, Axis).

    The output's sizes are Input's, in which the axis is replaced by the last IndexDimensions sizes of Indices, after leading
    sizes of 1 up to the dimension count. A negative index counts from the end.

        Output[i] = Input[Indices[i]]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The positions along Axis. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    axis : int, optional
        The axis of Input that the indices count along. A negative one counts from the end. By default, 0.
    index_dimensions : int, optional
        How many dimensions of Indices count, the last ones; those before have size 1. By default, as many as the
        indices have.
    """

def gather_elements(
    input: NDArray[Any],
    indices: NDArray[Any],
    axis: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the elements at indices along an axis: Output[.., i, ..] = Input[.., Indices[.., i, ..], ..].

    A negative index counts from the end. Bits are copied unchanged.

        Output[i, j] = Input[Indices[i, j], j]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The positions along Axis, for every element of the output. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    axis : int, optional
        The axis of Input that the indices count along. A negative one counts from the end. By default, 0.
    """

def gather_nd(
    input: NDArray[Any],
    indices: NDArray[Any],
    input_dimension_count: int | None = None,
    indices_dimension_count: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the subtensors of Input that tuples of indices name: Output[c, ..] = Input[Indices[c], ..].

    It is GATHER_ND1 without batches.

        Output[i, j, k, l] = Input[0, Indices[0, 0, k, 0], Indices[0, 0, k, 1], l]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The tuples of indices. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    input_dimension_count : int, optional
        How many dimensions of Input count, the last ones; those before have size 1. By default, as many as the input
        has.
    indices_dimension_count : int, optional
        How many dimensions of Indices count, the last ones; those before have size 1. By default, as many as the
        indices have.
    """

def gather_nd1(
    input: NDArray[Any],
    indices: NDArray[Any],
    input_dimension_count: int | None = None,
    indices_dimension_count: int | None = None,
    batch_dimension_count: int = 0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the subtensors of Input at tuples of indices: Output[c, ..] = Input[b, Indices[c], ..].

    The last dimension of Indices holds tuples of indices in the dimensions of Input that follow those of batches. b is the
    first BatchDimensionCount indices of c. A negative index counts from the end. Bits are copied unchanged.

        Output[i, j, k, l] = Input[0, k, Indices[0, k, l, 0], Indices[0, k, l, 1]]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The tuples of indices. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    input_dimension_count : int, optional
        How many dimensions of Input count, the last ones; those before have size 1. By default, as many as the input
        has.
    indices_dimension_count : int, optional
        How many dimensions of Indices count, the last ones; those before have size 1. By default, as many as the
        indices have.
    batch_dimension_count : int, default 0
        How many of the first dimensions that count are batches.
    """

def gemm(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None = None,
    trans_a: MatrixTransform | str = "NONE",
    trans_b: MatrixTransform | str = "NONE",
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: Desc | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies matrices, batch by batch: Output = f(Alpha * A @ B + Beta * C), with a fused activation f.

    A is {.., M, K}, B {.., K, N}, C and Output {.., M, N}; TransA and TransB swap the last two dimensions of A and B before
    they are multiplied. Without C, Beta has no effect. Everything is exact, f included, and rounded once. An Alpha or Beta of
    0 multiplies like any other factor: its product with an infinity is NaN.

        Output[i, j] = Alpha * (sum over k < A.Sizes[1] of A[i, k] * B[k, j]) + Beta * C[i, j]

    Parameters
    ----------
    a : NDArray[Any]
        The left matrices, {BatchCount, ChannelCount, M, K}; transposed, K, M. 2 to 4 dimensions of float32 or float16.
    b : NDArray[Any]
        The right matrices, {BatchCount, ChannelCount, K, N}; transposed, N, K. 2 to 4 dimensions of float32 or float16.
    c : NDArray[Any], optional
        A matrix to add, {BatchCount, ChannelCount, M, N}; strides of 0 broadcast. 2 to 4 dimensions of float32 or
        float16.
    trans_a : MatrixTransform | str, default "NONE"
        Whether A is transposed. One of NONE, TRANSPOSE.
    trans_b : MatrixTransform | str, default "NONE"
        Whether B is transposed. One of NONE, TRANSPOSE.
    alpha : float, default 1.0
        The factor of the products.
    beta : float, default 1.0
        The factor of C.
    fused_activation : Desc, optional
        The function f, applied to the exact sum; if absent, none.
    """

class GruOutputs(NamedTuple):
    output_sequence: NDArray[Any] | None
    output_single: NDArray[Any] | None

def gru(
    input: NDArray[Any],
    weight: NDArray[Any],
    recurrence: NDArray[Any],
    bias: NDArray[Any] | None = None,
    hidden_init: NDArray[Any] | None = None,
    sequence_lengths: NDArray[Any] | None = None,
    activation_descs: Sequence[Desc] | None = None,
    direction: RecurrentNetworkDirection | str = "FORWARD",
    linear_before_reset: bool = False,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> GruOutputs:
    """Computes one layer of gated recurrent units, step by step: H' = (1 - z) * h + z * H.

    X is the step's input, and H the state before it. The update gate is z = f(X Wz + H Rz + Wbz + Rbz), and the reset gate
    is r = f(X Wr + H Rr + Wbr + Rbr). The candidate is h = g(X Wh + (r * H) Rh + Wbh + Rbh) or, with LinearBeforeReset,
    h = g(X Wh + r * (H Rh + Rbh) + Wbh). Only H' is rounded, once at each step.

    BACKWARD goes from a sequence's end to its start. OutputSequence has every H' at its own step. Elements after the end of
    a sequence are 0.

        OutputSequence[i, j, k, l] = H[i, j, k, l] if i < min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]), else 0
        OutputSingle[i, j, k, l] = H[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        H[t, i, j, k] = float32((1 - Update[t, i, j, k]) * Candidate[t, i, j, k] + Update[t, i, j, k] * (H[t - 1, i, j,
            k] if t > 0, else HiddenInit[0, i, j, k]) if t < min(SequenceLengths[0, 0, 0, j], Input.Sizes[1]), else 0)
            where Update[t, r, b, j] = 1 / (1 + exp(-((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0, r,
            j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Recurrence[0, r, j, u] if t > 0, else sum
            over u < Recurrence.Sizes[3] of HiddenInit[0, r, b, u] * Recurrence[0, r, j, u]) + Bias[0, 0, r, j] +
            Bias[0, 0, r, j + (3 * Recurrence.Sizes[3])])))
            where Candidate[t, r, b, j] = tanh((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0, r, (2 *
            Recurrence.Sizes[3]) + j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Reset[t, r, b, u] *
            Recurrence[0, r, (2 * Recurrence.Sizes[3]) + j, u] if t > 0, else sum over u < Recurrence.Sizes[3] of
            Reset[t, r, b, u] * HiddenInit[0, r, b, u] * Recurrence[0, r, (2 * Recurrence.Sizes[3]) + j, u]) + Bias[0,
            0, r, (2 * Recurrence.Sizes[3]) + j] + Bias[0, 0, r, (2 * Recurrence.Sizes[3]) + j + (3 *
            Recurrence.Sizes[3])])
            where Reset[t, r, b, j] = 1 / (1 + exp(-((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0, r,
            Recurrence.Sizes[3] + j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Recurrence[0, r,
            Recurrence.Sizes[3] + j, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, r, b, u] *
            Recurrence[0, r, Recurrence.Sizes[3] + j, u]) + Bias[0, 0, r, Recurrence.Sizes[3] + j] + Bias[0, 0, r,
            Recurrence.Sizes[3] + j + (3 * Recurrence.Sizes[3])])))

    Parameters
    ----------
    input : NDArray[Any]
        The sequences X, {1, seq_length, batch_size, input_size}. 4 dimensions of float32 or float16.
    weight : NDArray[Any]
        The weights W of gates z, r, h, {1, num_directions, 3 * hidden_size, input_size}. 4 dimensions of float32 or
        float16.
    recurrence : NDArray[Any]
        The weights R of gates z, r, h, {1, num_directions, 3 * hidden_size, hidden_size}. 4 dimensions of float32 or
        float16.
    bias : NDArray[Any], optional
        Wb of gates z, r, h, and Rb of them, {1, 1, num_directions, 6 * hidden_size}; 0 if absent. 4 dimensions of
        float32 or float16.
    hidden_init : NDArray[Any], optional
        H before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent. 4 dimensions of float32 or
        float16.
    sequence_lengths : NDArray[Any], optional
        The number of steps of each sequence, {1, 1, 1, batch_size}; if absent, all. 4 dimensions of uint32.
    activation_descs : Sequence[Desc], optional
        The functions f and g of each direction. By default, SIGMOID, TANH for each direction.
    direction : RecurrentNetworkDirection | str, default "FORWARD"
        FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward. One of FORWARD, BACKWARD, BIDIRECTIONAL.
    linear_before_reset : bool, default False
        Whether r is a factor of H Rh + Rbh, and not of H.
    """

def join(
    inputs: Sequence[NDArray[Any]], axis: int, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Concatenates tensors along an axis: Output[.., o + i, ..] = `Input[n][.., i, ..]`.

    Here o is the sum of the sizes along the axis of the inputs before n. Bits are copied unchanged.

        Output[i, j, k, l] = Input[0][i, j, k, l] if l < Input[0].Sizes[3], else Input[1][i, j, k, l -
            Input[0].Sizes[3]]

    Parameters
    ----------
    inputs : Sequence[NDArray[Any]]
        The tensors to join, alike in every dimension but Axis. 1 to 8 dimensions of float64, float32, float16, int32,
        int16, int8, uint32, uint16, uint8, int64 or uint64.
    axis : int
        The dimension to join along. A negative one counts from the end.
    """

def local_response_normalization(
    input: NDArray[Any],
    cross_channel: bool = True,
    *,
    local_size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Divides by a power of a sum of squares: Output = x / (Bias + (Alpha / LocalSize) * sum of squares)^Beta.

    The sum runs over a window around x: LocalSize channels with CrossChannel, else LocalSize x LocalSize elements of the
    channel. The window around index i begins at i - (LocalSize - 1) / 2, rounded up. Elements outside of the input are left
    out. The result is exact, and rounded once.

        Output[i, j, k, l] = Input[i, j, k, l] / pow(Alpha / 3 * (sum over u < 3 of Input[i, j + u - 1, k, l] * Input[i,
            j + u - 1, k, l]) + Bias, Beta)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    cross_channel : bool, default True
        Whether the window lies across channels.
    local_size : int
        Elements of the window, for each of its dimensions.
    alpha : float, default 0.0001
        A factor of the sum, divided by LocalSize.
    beta : float, default 0.75
        The exponent.
    bias : float, default 1.0
        A term of the sum.
    """

def local_response_normalization_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    cross_channel: bool = True,
    *,
    local_size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION's input from that of its output, g.

    With s[j] = Bias + (Alpha / LocalSize) * (sum of squares in the window around j), it is
    g[i] / s[i]^Beta - 2 * Alpha * Beta / LocalSize * x[i] * (sum of g[j] * x[j] / s[j]^(Beta + 1)), over all j whose window
    contains i. The result is exact, and rounded once.

        OutputGradient[i, j, k, l] = InputGradient[i, j, k, l] / pow(Alpha / 3 * (sum over s < 3 of Input[i, j + s - 1,
            k, l] * Input[i, j + s - 1, k, l]) + Bias, Beta) - Alpha / 3 * Beta * 2 * Input[i, j, k, l] * (sum over u <
            3 of InputGradient[i, j - u + 1, k, l] * Input[i, j - u + 1, k, l] / pow(Alpha / 3 * (sum over y < 3 of
            Input[i, j - u + 1 + y - 1, k, l] * Input[i, j - u + 1 + y - 1, k, l]) + Bias, Beta + 1))

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    input_gradient : NDArray[Any] | float
        The incoming gradient g. 4 dimensions of float32 or float16.
    cross_channel : bool, default True
        Whether the window lies across channels.
    local_size : int
        Elements of the window, for each of its dimensions.
    alpha : float, default 0.0001
        A factor of the sum, divided by LocalSize.
    beta : float, default 0.75
        The exponent.
    bias : float, default 1.0
        A term of the sum.
    """

def lp_normalization(
    input: NDArray[Any],
    axis: int | None = None,
    epsilon: float = 1e-05,
    p: int = 2,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Divides each line along an axis by its norm: Output = x / (sum of |x|^P + Epsilon)^(1/P).

    A line of zeros is copied unchanged. The quotient is exact, and rounded once.

        Output[i, j] = Input[i, j] if P[i] = 0, else Input[i, j] / sqrt(P[i] + Epsilon)
            where P[i] = sum over j' < Input.Sizes[1] of Input[i, j'] * Input[i, j']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    axis : int, optional
        The axis along which the lines lie. A negative one counts from the end. By default, the last.
    epsilon : float, default 1e-05
        A number added to every sum, so that it is not zero.
    p : int, default 2
        1: the sum of magnitudes; 2: the length.
    """

def lp_pooling(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    p: int = 2,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Computes the p-norm of every position of a window that slides over the spatial dimensions: (sum of |x|^P)^(1/P).

    It is LP_POOLING1 with Dilations of 1.

        Output[i, j, k, l] = sqrt(sum over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k * Strides[0] + u *
            Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]] * Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]])

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    p : int, default 2
        The norm's exponent: 1 for sums of magnitudes, 2 for lengths.
    """

def lp_pooling1(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    p: int = 2,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Computes the p-norm of every position of a window that slides over the spatial dimensions: (sum of |x|^P)^(1/P).

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1. Elements
    outside of the input are left out. The norm is exact, and rounded once.

        Output[i, j, k, l] = sqrt(sum over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k * Strides[0] + u *
            Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]] * Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]])

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    dilations : Sequence[int], optional
        Elements of the input from one element of a window to the next. By default, ones.
    p : int, default 2
        The norm's exponent: 1 for sums of magnitudes, 2 for lengths.
    """

class LstmOutputs(NamedTuple):
    output_sequence: NDArray[Any] | None
    output_single: NDArray[Any] | None
    output_cell_single: NDArray[Any] | None

def lstm(
    input: NDArray[Any],
    weight: NDArray[Any],
    recurrence: NDArray[Any],
    bias: NDArray[Any] | None = None,
    hidden_init: NDArray[Any] | None = None,
    cell_mem_init: NDArray[Any] | None = None,
    sequence_lengths: NDArray[Any] | None = None,
    peephole: NDArray[Any] | None = None,
    activation_descs: Sequence[Desc] | None = None,
    direction: RecurrentNetworkDirection | str = "FORWARD",
    clip_threshold: float = 0.0,
    use_clip_threshold: bool = False,
    couple_input_forget: bool = False,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> LstmOutputs:
    """Computes one layer of long short-term memory, step by step: C' = F * C + i * c and H' = o * h(C').

    X is the step's input; H and C are the states before it. The input gate is i = f(X Wi + H Ri + Pi * C + Wbi + Rbi), the
    forget gate is F = f(X Wf + H Rf + Pf * C + Wbf + Rbf) or, with CoupleInputForget, 1 - i. The cell gate is
    c = g(X Wc + H Rc + Wbc + Rbc), and the output gate o = f(X Wo + H Ro + Po * C' + Wbo + Rbo). ClipThreshold clips the
    arguments of f and g. Only H' and C' are rounded, once at each step.

    BACKWARD goes from a sequence's end to its start. OutputSequence has every H' at its own step. Elements after the end of
    a sequence are 0.

        OutputSequence[i, j, k, l] = H[i, j, k, l] if i < min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]), else 0
        OutputSingle[i, j, k, l] = H[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        OutputCellSingle[i, j, k, l] = C[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        C[t, i, j, k] = float32(ForgetGate[t, i, j, k] * (C[t - 1, i, j, k] if t > 0, else CellMemInit[0, i, j, k]) +
            InputGate[t, i, j, k] * CellGate[t, i, j, k] if t < min(SequenceLengths[0, 0, 0, j], Input.Sizes[1]), else
            0)
            where ForgetGate[t, r, b, j] = 1 / (1 + exp(-((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0,
            r, (2 * Recurrence.Sizes[3]) + j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] *
            Recurrence[0, r, (2 * Recurrence.Sizes[3]) + j, u] if t > 0, else sum over u < Recurrence.Sizes[3] of
            HiddenInit[0, r, b, u] * Recurrence[0, r, (2 * Recurrence.Sizes[3]) + j, u]) + Peephole[0, 0, r, (2 *
            Recurrence.Sizes[3]) + j] * (C[t - 1, r, b, j] if t > 0, else CellMemInit[0, r, b, j]) + Bias[0, 0, r, (2 *
            Recurrence.Sizes[3]) + j] + Bias[0, 0, r, (2 * Recurrence.Sizes[3]) + j + (4 * Recurrence.Sizes[3])])))
            where InputGate[t, r, b, j] = 1 / (1 + exp(-((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0,
            r, j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Recurrence[0, r, j, u] if t > 0, else
            sum over u < Recurrence.Sizes[3] of HiddenInit[0, r, b, u] * Recurrence[0, r, j, u]) + Peephole[0, 0, r, j]
            * (C[t - 1, r, b, j] if t > 0, else CellMemInit[0, r, b, j]) + Bias[0, 0, r, j] + Bias[0, 0, r, j + (4 *
            Recurrence.Sizes[3])])))
            where CellGate[t, r, b, j] = tanh((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0, r, (3 *
            Recurrence.Sizes[3]) + j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Recurrence[0, r, (3
            * Recurrence.Sizes[3]) + j, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, r, b, u] *
            Recurrence[0, r, (3 * Recurrence.Sizes[3]) + j, u]) + Bias[0, 0, r, (3 * Recurrence.Sizes[3]) + j] + Bias[0,
            0, r, (3 * Recurrence.Sizes[3]) + j + (4 * Recurrence.Sizes[3])])
        H[t, i, j, k] = float32(OutputGate[t, i, j, k] * tanh(C[t, i, j, k]) if t < min(SequenceLengths[0, 0, 0, j],
            Input.Sizes[1]), else 0)
            where OutputGate[t, r, b, j] = 1 / (1 + exp(-((sum over k < Input.Sizes[3] of Input[0, t, b, k] * Weight[0,
            r, Recurrence.Sizes[3] + j, k]) + (sum over u < Recurrence.Sizes[3] of H[t - 1, r, b, u] * Recurrence[0, r,
            Recurrence.Sizes[3] + j, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, r, b, u] *
            Recurrence[0, r, Recurrence.Sizes[3] + j, u]) + Peephole[0, 0, r, Recurrence.Sizes[3] + j] * C[t, r, b, j] +
            Bias[0, 0, r, Recurrence.Sizes[3] + j] + Bias[0, 0, r, Recurrence.Sizes[3] + j + (4 *
            Recurrence.Sizes[3])])))

    Parameters
    ----------
    input : NDArray[Any]
        The sequences X, {1, seq_length, batch_size, input_size}. 4 dimensions of float32 or float16.
    weight : NDArray[Any]
        The weights W of gates i, o, f, c, {1, num_directions, 4 * hidden_size, input_size}. 4 dimensions of float32 or
        float16.
    recurrence : NDArray[Any]
        The weights R of gates i, o, f, c, {1, num_directions, 4 * hidden_size, hidden_size}. 4 dimensions of float32 or
        float16.
    bias : NDArray[Any], optional
        Wb of gates i, o, f, c, and Rb of them, {1, 1, num_directions, 8 * hidden_size}. 4 dimensions of float32 or
        float16.
    hidden_init : NDArray[Any], optional
        H before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent. 4 dimensions of float32 or
        float16.
    cell_mem_init : NDArray[Any], optional
        C before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent. 4 dimensions of float32 or
        float16.
    sequence_lengths : NDArray[Any], optional
        The number of steps of each sequence, {1, 1, 1, batch_size}; if absent, all. 4 dimensions of uint32.
    peephole : NDArray[Any], optional
        The weights P of gates i, o, f, {1, 1, num_directions, 3 * hidden_size}; 0 if absent. 4 dimensions of float32 or
        float16.
    activation_descs : Sequence[Desc], optional
        The functions f, g, h of each direction. By default, SIGMOID, TANH, TANH for each direction.
    direction : RecurrentNetworkDirection | str, default "FORWARD"
        FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward. One of FORWARD, BACKWARD, BIDIRECTIONAL.
    clip_threshold : float, default 0.0
        The largest magnitude.
    use_clip_threshold : bool, default False
        Whether ClipThreshold is applied.
    couple_input_forget : bool, default False
        Whether the forget gate F is 1 - i.
    """

def matrix_multiply_integer(
    a: NDArray[Any],
    b: NDArray[Any],
    a_zero_point: NDArray[Any] | int | None = None,
    b_zero_point: NDArray[Any] | int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies 8-bit matrices, batch by batch: Output = sum over k of (A - AZeroPoint) * (B - BZeroPoint), in INT32.

    A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point is 0. Sums outside of INT32 wrap modulo 2^32.

        Output[i, j] = sum over k < A.Sizes[1] of (A[i, k] - AZeroPoint[0]) * (B[k, j] - BZeroPoint[0])

    Parameters
    ----------
    a : NDArray[Any]
        The left matrices, {BatchCount, ChannelCount, M, K}. 2 to 4 dimensions of int8 or uint8.
    b : NDArray[Any]
        The right matrices, {BatchCount, ChannelCount, K, N}. 2 to 4 dimensions of int8 or uint8.
    a_zero_point : NDArray[Any] | int, optional
        A's zero point; {.., M, 1} per row. 1 to 4 dimensions of int8 or uint8.
    b_zero_point : NDArray[Any] | int, optional
        B's zero point; {.., 1, N} per column. 1 to 4 dimensions of int8 or uint8.
    """

def matrix_multiply_integer_to_float(
    a: NDArray[Any],
    a_scale: NDArray[Any] | float,
    b: NDArray[Any],
    b_scale: NDArray[Any] | float,
    a_zero_point: NDArray[Any] | float | None = None,
    b_zero_point: NDArray[Any] | float | None = None,
    bias: NDArray[Any] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies matrices of integers, batch by batch, into floats: Output = dequantize(A) @ dequantize(B) + Bias.

    dequantize(x) = (x - ZeroPoint) * Scale. The result, AScale * BScale * (the sum over k of (A - AZeroPoint) *
    (B - BZeroPoint)) + Bias, is exact, and rounded once. A is {.., M, K}, B {.., K, N}, Bias and Output {.., M, N}. An absent
    zero point is 0.

        Output[i, j] = (sum over k < A.Sizes[1] of (A[i, k] - AZeroPoint[0]) * (B[k, j] - BZeroPoint[0])) * AScale[0] *
            BScale[j] + Bias[i, j]

    Parameters
    ----------
    a : NDArray[Any]
        The left matrices, {BatchCount, ChannelCount, M, K}. 2 to 4 dimensions of int32, int16, int8, uint32, uint16 or
        uint8.
    a_scale : NDArray[Any] | float
        A's scale; {.., M, 1} per row. 1 to 4 dimensions of float32 or float16.
    b : NDArray[Any]
        The right matrices, {BatchCount, ChannelCount, K, N}. 2 to 4 dimensions of int32, int16, int8, uint32, uint16 or
        uint8.
    b_scale : NDArray[Any] | float
        B's scale; {.., 1, N} per column. 1 to 4 dimensions of float32 or float16.
    a_zero_point : NDArray[Any] | float, optional
        A's zero point; {.., M, 1} per row. 1 to 4 dimensions of int32, int16, int8, uint32, uint16 or uint8.
    b_zero_point : NDArray[Any] | float, optional
        B's zero point; {.., 1, N} per column. 1 to 4 dimensions of int32, int16, int8, uint32, uint16 or uint8.
    bias : NDArray[Any], optional
        A matrix to add, {BatchCount, ChannelCount, M, N}; strides of 0 broadcast. 2 to 4 dimensions of float32 or
        float16.
    """

def max_pooling(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Selects the largest element at every position of a window that slides over the spatial dimensions.

    It is MAX_POOLING2 with Dilations of 1, and without indices.

        Output[i, j, k, l] = Input[i, j, k * Strides[0] + P[i, j, k, l] // WindowSize[1] * Dilations[0] -
            StartPadding[0], l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] - StartPadding[1]] where it
            exists, else -inf
            where P[i, j, k, l] = position of the largest over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    """

class MaxPooling1Outputs(NamedTuple):
    output: NDArray[Any]
    output_indices: NDArray[Any] | None

def max_pooling1(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> MaxPooling1Outputs:
    """Selects the largest element at every position of a window that slides over the spatial dimensions, and its index.

    It is MAX_POOLING2 with Dilations of 1.

        Output[i, j, k, l] = Input[i, j, k * Strides[0] + P[i, j, k, l] // WindowSize[1] * Dilations[0] -
            StartPadding[0], l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] - StartPadding[1]] where it
            exists, else -inf
            where P[i, j, k, l] = position of the largest over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]
        OutputIndices[i, j, k, l] = ((i * Input.Sizes[1] + j) * Input.Sizes[2] + k * Strides[0] + P[i, j, k, l] //
            WindowSize[1] * Dilations[0] - StartPadding[0]) * Input.Sizes[3] + l * Strides[1] + P[i, j, k, l] mod
            WindowSize[1] * Dilations[1] - StartPadding[1] if k * Strides[0] + P[i, j, k, l] // WindowSize[1] *
            Dilations[0] - StartPadding[0] >= 0 and k * Strides[0] + P[i, j, k, l] // WindowSize[1] * Dilations[0] -
            StartPadding[0] < Input.Sizes[2] and l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] -
            StartPadding[1] >= 0 and l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] - StartPadding[1] <
            Input.Sizes[3], else 0
            where P[i, j, k, l] = position of the largest over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    """

class MaxPooling2Outputs(NamedTuple):
    output: NDArray[Any]
    output_indices: NDArray[Any] | None

def max_pooling2(
    input: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> MaxPooling2Outputs:
    """Selects the largest element at every position of a window that slides over the spatial dimensions, and its index.

    The elements at position o are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to WindowSize - 1, that are
    inside the input. The largest is the first NaN or, if there is none, the first of the largest numbers; zeros of both signs
    are equal. The output has the bits of this element. Its index is its row-major position in the whole input, modulo 2^32 if
    it is UINT32.

        Output[i, j, k, l] = Input[i, j, k * Strides[0] + P[i, j, k, l] // WindowSize[1] * Dilations[0] -
            StartPadding[0], l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] - StartPadding[1]] where it
            exists, else -inf
            where P[i, j, k, l] = position of the largest over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]
        OutputIndices[i, j, k, l] = ((i * Input.Sizes[1] + j) * Input.Sizes[2] + k * Strides[0] + P[i, j, k, l] //
            WindowSize[1] * Dilations[0] - StartPadding[0]) * Input.Sizes[3] + l * Strides[1] + P[i, j, k, l] mod
            WindowSize[1] * Dilations[1] - StartPadding[1] if k * Strides[0] + P[i, j, k, l] // WindowSize[1] *
            Dilations[0] - StartPadding[0] >= 0 and k * Strides[0] + P[i, j, k, l] // WindowSize[1] * Dilations[0] -
            StartPadding[0] < Input.Sizes[2] and l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] -
            StartPadding[1] >= 0 and l * Strides[1] + P[i, j, k, l] mod WindowSize[1] * Dilations[1] - StartPadding[1] <
            Input.Sizes[3], else 0
            where P[i, j, k, l] = position of the largest over u < WindowSize[0], v < WindowSize[1] of Input[i, j, k *
            Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    dilations : Sequence[int], optional
        Elements of the input from one element of a window to the next. By default, ones.
    """

def max_pooling_grad(
    input: NDArray[Any],
    input_gradient: NDArray[Any],
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds up, for every element, the gradients of the windows in which it is the largest; 0 if there are none.

    The elements at position o of the window are Input[o * Stride + k * Dilation - StartPadding], for k from 0 to
    WindowSize - 1, that are inside the input. The largest is the first NaN or, if there is none, the first of the largest
    numbers. Sums are exact, and rounded once.

        OutputGradient[i, j, k, l] = sum over u < WindowSize[0], v < WindowSize[1] where (k + StartPadding[0] - u *
            Dilations[0]) // Strides[0] >= 0 and (k + StartPadding[0] - u * Dilations[0]) // Strides[0] <
            InputGradient.Sizes[2] and (l + StartPadding[1] - v * Dilations[1]) // Strides[1] >= 0 and (l +
            StartPadding[1] - v * Dilations[1]) // Strides[1] < InputGradient.Sizes[3] and (position of the largest over
            x < WindowSize[0], y < WindowSize[1] of Input[i, j, (k + StartPadding[0] - u * Dilations[0]) // Strides[0] *
            Strides[0] + x * Dilations[0] - StartPadding[0], (l + StartPadding[1] - v * Dilations[1]) // Strides[1] *
            Strides[1] + y * Dilations[1] - StartPadding[1]]) = u * WindowSize[1] + v of InputGradient[i, j, (k +
            StartPadding[0] - u * Dilations[0]) // Strides[0], (l + StartPadding[1] - v * Dilations[1]) // Strides[1]]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    input_gradient : NDArray[Any]
        The gradient of the largest elements. 4 to 5 dimensions of float32 or float16.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    dilations : Sequence[int], optional
        Elements of the input from one element of a window to the next. By default, ones.
    """

def max_unpooling(
    input: NDArray[Any],
    indices: NDArray[Any],
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Stores elements at indices, and 0 elsewhere: Output has Input[c] at the row-major position Indices[c].

    An index counts elements of the whole output in row-major order. Of several elements with one index, the last is stored.
    Bits are copied unchanged.

        Output[i, j, k, l] = Input[Q[i, j, k, l] // Input.Sizes[3] // Input.Sizes[2] // Input.Sizes[1], Q[i, j, k, l] //
            Input.Sizes[3] // Input.Sizes[2] mod Input.Sizes[1], Q[i, j, k, l] // Input.Sizes[3] mod Input.Sizes[2],
            Q[i, j, k, l] mod Input.Sizes[3]] if Indices[Q[i, j, k, l] // Input.Sizes[3] // Input.Sizes[2] //
            Input.Sizes[1], Q[i, j, k, l] // Input.Sizes[3] // Input.Sizes[2] mod Input.Sizes[1], Q[i, j, k, l] //
            Input.Sizes[3] mod Input.Sizes[2], Q[i, j, k, l] mod Input.Sizes[3]] = P[i, j, k, l], else 0
            where P[i, j, k, l] = ((i * Output.Sizes[1] + j) * Output.Sizes[2] + k) * Output.Sizes[3] + l
            where Q[i, j, k, l] = position of the largest over a < Input.Sizes[0], b < Input.Sizes[1], c <
            Input.Sizes[2], d < Input.Sizes[3] of (1 if Indices[a, b, c, d] = P[i, j, k, l], else 0)

    Parameters
    ----------
    input : NDArray[Any]
        The elements, such as MAX_POOLING's. 4 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The place of each in the output, from 0 on. 4 dimensions of uint64 or uint32.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def mean_variance_normalization(
    input: NDArray[Any],
    scale: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    cross_channel: bool = False,
    normalize_variance: bool = True,
    epsilon: float = 1e-05,
    fused_activation: Desc | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    It is MEAN_VARIANCE_NORMALIZATION1 along axes 2 and 3, with CrossChannel along axis 1 as well.

        Output[i, j, k, l] = Scale[0, 0, 0, 0] * (Input[i, j, k, l] - (sum over k' < Input.Sizes[2], l' < Input.Sizes[3]
            of Input[i, j, k', l']) / (Input.Sizes[2] * Input.Sizes[3])) / sqrt((sum over k' < Input.Sizes[2], l' <
            Input.Sizes[3] of (Input[i, j, k', l'] - (sum over k' < Input.Sizes[2], l' < Input.Sizes[3] of Input[i, j,
            k', l']) / (Input.Sizes[2] * Input.Sizes[3])) * (Input[i, j, k', l'] - (sum over k' < Input.Sizes[2], l' <
            Input.Sizes[3] of Input[i, j, k', l']) / (Input.Sizes[2] * Input.Sizes[3]))) / (Input.Sizes[2] *
            Input.Sizes[3]) + Epsilon) + Bias[0, 0, 0, 0]

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    scale : NDArray[Any], optional
        The factors of the normalised elements. A vector lies along the axis if there is one, else the channel. 4
        dimensions of float32 or float16.
    bias : NDArray[Any], optional
        The numbers added to them. A vector lies along the axis if there is one, else the channel. 4 dimensions of
        float32 or float16.
    cross_channel : bool, default False
        Whether means run over the channels, too.
    normalize_variance : bool, default True
        Whether the variance divides.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    fused_activation : Desc, optional
        The function f, applied to the exact result; if absent, none.
    """

def mean_variance_normalization1(
    input: NDArray[Any],
    scale: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    axes: Sequence[int] | int | None = None,
    normalize_variance: bool = True,
    epsilon: float = 1e-05,
    fused_activation: Desc | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    It is MEAN_VARIANCE_NORMALIZATION2 with UseMean; NormalizeVariance is UseVariance.

        Output[i, j, k, l] = Scale[0, 0, 0, 0] * (Input[i, j, k, l] - (sum over l' < Input.Sizes[3] of Input[i, j, k,
            l']) / Input.Sizes[3]) / sqrt((sum over l' < Input.Sizes[3] of (Input[i, j, k, l'] - (sum over l' <
            Input.Sizes[3] of Input[i, j, k, l']) / Input.Sizes[3]) * (Input[i, j, k, l'] - (sum over l' <
            Input.Sizes[3] of Input[i, j, k, l']) / Input.Sizes[3])) / Input.Sizes[3] + Epsilon) + Bias[0, 0, 0, 0]

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any], optional
        The factors of the normalised elements. A vector lies along the axis if there is one, else the channel. 1 to 8
        dimensions of float32 or float16.
    bias : NDArray[Any], optional
        The numbers added to them. A vector lies along the axis if there is one, else the channel. 1 to 8 dimensions of
        float32 or float16.
    axes : Sequence[int] | int, optional
        The axes that means run over. Negative ones count from the end. By default, all but the second.
    normalize_variance : bool, default True
        Whether the variance divides.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    fused_activation : Desc, optional
        The function f, applied to the exact result; if absent, none.
    axis : int, optional
        A single axis.
    """

def mean_variance_normalization2(
    input: NDArray[Any],
    scale: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    axes: Sequence[int] | int | None = None,
    use_mean: bool = True,
    use_variance: bool = True,
    epsilon: float = 1e-05,
    fused_activation: Desc | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Normalises by the elements' own mean and variance: Output = f(Scale * (x - m) / sqrt(v + Epsilon) + Bias).

    Here m is the mean of the elements along all the axes together, or 0 without UseMean, and v the mean of (x - m)^2. Without
    UseVariance, there is no division. An absent Scale is 1, and an absent Bias 0; each of their sizes is the input's, or 1 and
    broadcast. Without UseMean this is RMS normalisation. The result is exact, and rounded once.

        Output[i, j, k, l] = max(0, Scale[0, 0, 0, 0] * (Input[i, j, k, l] - (sum over l' < Input.Sizes[3] of Input[i,
            j, k, l']) / Input.Sizes[3]) / sqrt((sum over l' < Input.Sizes[3] of (Input[i, j, k, l'] - (sum over l' <
            Input.Sizes[3] of Input[i, j, k, l']) / Input.Sizes[3]) * (Input[i, j, k, l'] - (sum over l' <
            Input.Sizes[3] of Input[i, j, k, l']) / Input.Sizes[3])) / Input.Sizes[3] + Epsilon) + Bias[0, 0, 0, 0])

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    scale : NDArray[Any], optional
        The factors of the normalised elements. A vector lies along the axis if there is one, else the channel. 1 to 8
        dimensions of float32 or float16.
    bias : NDArray[Any], optional
        The numbers added to them. A vector lies along the axis if there is one, else the channel. 1 to 8 dimensions of
        float32 or float16.
    axes : Sequence[int] | int, optional
        The axes that means run over. Negative ones count from the end. By default, all but the second.
    use_mean : bool, default True
        Whether the mean is subtracted.
    use_variance : bool, default True
        Whether the variance divides.
    epsilon : float, default 1e-05
        A number added to every variance, so that it is not zero.
    fused_activation : Desc, optional
        The function f, applied to the exact result; if absent, none.
    axis : int, optional
        A single axis.
    """

class MultiheadAttentionOutputs(NamedTuple):
    output: NDArray[Any]
    output_present_key: NDArray[Any] | None
    output_present_value: NDArray[Any] | None

def multihead_attention(
    query: NDArray[Any] | None = None,
    key: NDArray[Any] | None = None,
    value: NDArray[Any] | None = None,
    stacked_query_key: NDArray[Any] | None = None,
    stacked_key_value: NDArray[Any] | None = None,
    stacked_query_key_value: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    mask: NDArray[Any] | None = None,
    relative_position_bias: NDArray[Any] | None = None,
    past_key: NDArray[Any] | None = None,
    past_value: NDArray[Any] | None = None,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    *,
    head_count: int,
    mask_type: MultiheadAttentionMaskType | str = "NONE",
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> MultiheadAttentionOutputs:
    """Computes attention of several heads: Output = softmax(Scale * Q K + RelativePositionBias + mask) V, for each head.

    It is MULTIHEAD_ATTENTION1 with as many heads of keys and values as of queries.

        Output[i, j, k] = (sum over t < PastKey.Sizes[2] + Key.Sizes[1] where Scores[i, k // Output.Sizes[2], j, t] !=
            -inf of Weights[i, k // Output.Sizes[2], j, t] * Values[i, k // Output.Sizes[2], t, k mod Output.Sizes[2]])
            / (sum over u < PastKey.Sizes[2] + Key.Sizes[1] of Weights[i, k // Output.Sizes[2], j, u])
            where Scores[b, n, s, t] = Scale * (sum over h < Query.Sizes[2] of Queries[b, n, s, h] * Keys[b, n, t, h]) +
            RelativePositionBias[b, n, s, t] + (0 if Mask[0, t] != 0, else MaskFilterValue)
            where Weights[b, n, s, t] = exp(Scores[b, n, s, t] - Largest[b, n, s])
            where Values[b, m, t, h] = PastValue[b, m, t, h] if t < PastKey.Sizes[2], else Value[b, t -
            PastKey.Sizes[2], m * Output.Sizes[2] + h] + Bias[m * Output.Sizes[2] + h + (2 * Query.Sizes[2])]
            where Queries[b, n, s, h] = Query[b, s, n * Query.Sizes[2] + h] + Bias[n * Query.Sizes[2] + h]
            where Keys[b, m, t, h] = PastKey[b, m, t, h] if t < PastKey.Sizes[2], else Key[b, t - PastKey.Sizes[2], m *
            Query.Sizes[2] + h] + Bias[m * Query.Sizes[2] + h + Query.Sizes[2]]
            where Largest[b, n, s] = max over v < PastKey.Sizes[2] + Key.Sizes[1] of Scores[b, n, s, v]
        OutputPresentKey[i, j, k, l] = PastKey[i, j, k, l] if k < PastKey.Sizes[2], else Key[i, k - PastKey.Sizes[2], j
            * Query.Sizes[2] + l] + Bias[j * Query.Sizes[2] + l + Query.Sizes[2]]
        OutputPresentValue[i, j, k, l] = PastValue[i, j, k, l] if k < PastKey.Sizes[2], else Value[i, k -
            PastKey.Sizes[2], j * Output.Sizes[2] + l] + Bias[j * Output.Sizes[2] + l + (2 * Query.Sizes[2])]

    Parameters
    ----------
    query : NDArray[Any], optional
        The queries, {.., BatchSize, Queries, Heads * HeadSize}. 3 to 5 dimensions of float32 or float16.
    key : NDArray[Any], optional
        The keys, {.., BatchSize, Keys, Heads * HeadSize}. 3 to 5 dimensions of float32 or float16.
    value : NDArray[Any], optional
        The values, {.., BatchSize, Keys, Heads * ValueHeadSize}. 3 to 5 dimensions of float32 or float16.
    stacked_query_key : NDArray[Any], optional
        Queries and keys, {BatchSize, Queries, Heads, 2, HeadSize}. 5 dimensions of float32 or float16.
    stacked_key_value : NDArray[Any], optional
        Keys and values, {BatchSize, Keys, Heads, 2, HeadSize}. 5 dimensions of float32 or float16.
    stacked_query_key_value : NDArray[Any], optional
        Queries, keys and values, {BatchSize, Queries, Heads, 3, HeadSize}. 5 dimensions of float32 or float16.
    bias : NDArray[Any], optional
        Biases of the new queries, keys and values, one after another; 0 if absent. 1 to 5 dimensions of float32 or
        float16.
    mask : NDArray[Any], optional
        The mask, as MaskType says. 1 to 5 dimensions of int32.
    relative_position_bias : NDArray[Any], optional
        Numbers added to the scores, {.., BatchSize, Heads, Queries, Keys}; 0 if absent. 4 to 5 dimensions of float32 or
        float16.
    past_key : NDArray[Any], optional
        Keys before the new ones, {.., BatchSize, Heads, PastKeys, HeadSize}. 4 to 5 dimensions of float32 or float16.
    past_value : NDArray[Any], optional
        Values before the new ones, {.., BatchSize, Heads, PastKeys, ValueHeadSize}. 4 to 5 dimensions of float32 or
        float16.
    scale : float, optional
        The factor of the scores. By default, 1 / sqrt(HeadSize).
    mask_filter_value : float, default -10000.0
        A number added to the scores that the mask leaves out.
    head_count : int
        Heads.
    mask_type : MultiheadAttentionMaskType | str, default "NONE"
        The meaning of the mask. One of NONE, KEY_SEQUENCE_LENGTH, KEY_SEQUENCE_END_START,
        KEY_QUERY_SEQUENCE_LENGTH_START_END, BOOLEAN.
    """

class MultiheadAttention1Outputs(NamedTuple):
    output: NDArray[Any]
    output_present_key: NDArray[Any] | None
    output_present_value: NDArray[Any] | None

def multihead_attention1(
    query: NDArray[Any] | None = None,
    key: NDArray[Any] | None = None,
    value: NDArray[Any] | None = None,
    stacked_query_key: NDArray[Any] | None = None,
    stacked_key_value: NDArray[Any] | None = None,
    stacked_query_key_value: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    mask: NDArray[Any] | None = None,
    relative_position_bias: NDArray[Any] | None = None,
    past_key: NDArray[Any] | None = None,
    past_value: NDArray[Any] | None = None,
    past_sequence_lengths: NDArray[Any] | None = None,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    *,
    query_head_count: int,
    key_value_head_count: int,
    mask_type: MultiheadAttentionMaskType | str = "NONE",
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> MultiheadAttention1Outputs:
    """Computes attention of several heads: Output = softmax(Scale * Q K + RelativePositionBias + mask) V, for each head.

    Q, K and V are the queries, keys and values, plus their parts of Bias; keys and values of the past come before the new
    ones. Q K is the sum of products over the elements of a head, and the softmax runs over the keys. Head n of the queries uses
    head n * KeyValueHeadCount / QueryHeadCount, rounded down, of the keys and values. With PastSequenceLengths L, the new keys
    follow the first L past keys, and query i sees keys up to L + i. The result is exact, and rounded once.

        Output[i, j, k] = (sum over t < PastKey.Sizes[2] + Key.Sizes[1] where Scores[i, k // Output.Sizes[2], j, t] !=
            -inf of Weights[i, k // Output.Sizes[2], j, t] * Values[i, k // Output.Sizes[2], t, k mod Output.Sizes[2]])
            / (sum over u < PastKey.Sizes[2] + Key.Sizes[1] of Weights[i, k // Output.Sizes[2], j, u])
            where Scores[b, n, s, t] = Scale * (sum over h < Query.Sizes[2] of Queries[b, n, s, h] * Keys[b, n, t, h]) +
            RelativePositionBias[b, n, s, t] + (0 if Mask[0, t] != 0, else MaskFilterValue)
            where Weights[b, n, s, t] = exp(Scores[b, n, s, t] - Largest[b, n, s])
            where Values[b, m, t, h] = PastValue[b, m, t, h] if t < PastKey.Sizes[2], else Value[b, t -
            PastKey.Sizes[2], m * Output.Sizes[2] + h] + Bias[m * Output.Sizes[2] + h + (2 * Query.Sizes[2])]
            where Queries[b, n, s, h] = Query[b, s, n * Query.Sizes[2] + h] + Bias[n * Query.Sizes[2] + h]
            where Keys[b, m, t, h] = PastKey[b, m, t, h] if t < PastKey.Sizes[2], else Key[b, t - PastKey.Sizes[2], m *
            Query.Sizes[2] + h] + Bias[m * Query.Sizes[2] + h + Query.Sizes[2]]
            where Largest[b, n, s] = max over v < PastKey.Sizes[2] + Key.Sizes[1] of Scores[b, n, s, v]
        OutputPresentKey[i, j, k, l] = PastKey[i, j, k, l] if k < PastKey.Sizes[2], else Key[i, k - PastKey.Sizes[2], j
            * Query.Sizes[2] + l] + Bias[j * Query.Sizes[2] + l + Query.Sizes[2]]
        OutputPresentValue[i, j, k, l] = PastValue[i, j, k, l] if k < PastKey.Sizes[2], else Value[i, k -
            PastKey.Sizes[2], j * Output.Sizes[2] + l] + Bias[j * Output.Sizes[2] + l + (2 * Query.Sizes[2])]

    Parameters
    ----------
    query : NDArray[Any], optional
        The queries, {.., BatchSize, Queries, Heads * HeadSize}. 3 to 5 dimensions of float32 or float16.
    key : NDArray[Any], optional
        The keys, {.., BatchSize, Keys, Heads * HeadSize}. 3 to 5 dimensions of float32 or float16.
    value : NDArray[Any], optional
        The values, {.., BatchSize, Keys, Heads * ValueHeadSize}. 3 to 5 dimensions of float32 or float16.
    stacked_query_key : NDArray[Any], optional
        Queries and keys, {BatchSize, Queries, Heads, 2, HeadSize}. 5 dimensions of float32 or float16.
    stacked_key_value : NDArray[Any], optional
        Keys and values, {BatchSize, Keys, Heads, 2, HeadSize}. 5 dimensions of float32 or float16.
    stacked_query_key_value : NDArray[Any], optional
        Queries, keys and values, {BatchSize, Queries, Heads, 3, HeadSize}. 5 dimensions of float32 or float16.
    bias : NDArray[Any], optional
        Biases of the new queries, keys and values, one after another; 0 if absent. 1 to 5 dimensions of float32 or
        float16.
    mask : NDArray[Any], optional
        The mask, as MaskType says. 1 to 5 dimensions of int32.
    relative_position_bias : NDArray[Any], optional
        Numbers added to the scores, {.., BatchSize, Heads, Queries, Keys}; 0 if absent. 4 to 5 dimensions of float32 or
        float16.
    past_key : NDArray[Any], optional
        Keys before the new ones, {.., BatchSize, Heads, PastKeys, HeadSize}. 4 to 5 dimensions of float32 or float16.
    past_value : NDArray[Any], optional
        Values before the new ones, {.., BatchSize, Heads, PastKeys, ValueHeadSize}. 4 to 5 dimensions of float32 or
        float16.
    past_sequence_lengths : NDArray[Any], optional
        The number of past keys used in each batch, {.., BatchSize}; if absent, all. 1 to 5 dimensions of int32.
    scale : float, optional
        The factor of the scores. By default, 1 / sqrt(HeadSize).
    mask_filter_value : float, default -10000.0
        A number added to the scores that the mask leaves out.
    query_head_count : int
        The number of query heads.
    key_value_head_count : int
        The number of key and value heads.
    mask_type : MultiheadAttentionMaskType | str, default "NONE"
        The meaning of the mask. One of NONE, KEY_SEQUENCE_LENGTH, KEY_SEQUENCE_END_START,
        KEY_QUERY_SEQUENCE_LENGTH_START_END, BOOLEAN.
    """

class NonzeroCoordinatesOutputs(NamedTuple):
    output_count: NDArray[Any]
    output_coordinates: NDArray[Any]

def nonzero_coordinates(
    input: NDArray[Any], *, out: Sequence[Any] | None = None, device: Device | str | None = None
) -> NonzeroCoordinatesOutputs:
    """Lists the coordinates of the elements that are not 0, in row-major order, and counts them.

    A row of OutputCoordinates holds an element's coordinates along the last dimensions, as many as there are columns. Rows
    after the last element are 0. Zeros of both signs are 0; NaN is not.

        OutputCount[i, j, k, l] = sum over a < Input.Sizes[0], b < Input.Sizes[1], c < Input.Sizes[2], d <
            Input.Sizes[3] of (1 if Input[a, b, c, d] != 0, else 0)
        OutputCoordinates[i, j, k, l] = P[k] // Input.Sizes[3] // Input.Sizes[2] // Input.Sizes[1] if l < 1, else P[k]
            // Input.Sizes[3] // Input.Sizes[2] mod Input.Sizes[1] if l < 2, else P[k] // Input.Sizes[3] mod
            Input.Sizes[2] if l < 3, else P[k] mod Input.Sizes[3] if k < (sum over a < Input.Sizes[0], b <
            Input.Sizes[1], c < Input.Sizes[2], d < Input.Sizes[3] of (1 if Input[a, b, c, d] != 0, else 0)), else 0
            where P[k] = position k in decreasing order over q < ((Input.Sizes[0] * Input.Sizes[1]) * Input.Sizes[2]) *
            Input.Sizes[3] of (1 if Input[q // Input.Sizes[3] // Input.Sizes[2] // Input.Sizes[1], q // Input.Sizes[3]
            // Input.Sizes[2] mod Input.Sizes[1], q // Input.Sizes[3] mod Input.Sizes[2], q mod Input.Sizes[3]] != 0,
            else 0)

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    """

def one_hot(
    indices: NDArray[Any],
    values: NDArray[Any],
    axis: int | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Writes the value On at the index of each line along an axis, and the value Off elsewhere in the line.

    Off is the first element of Values, and On the next one along the last dimension with more than one element. A negative
    index counts from the end; an index that is out of range leaves its line without On. Bits are copied unchanged.

        Output[i, j, k, l] = Values[0, 0, 0, 1] if Indices[i, j, k, 0] = l, else Values[0, 0, 0, 0]

    Parameters
    ----------
    indices : NDArray[Any]
        The place in each line; of size 1 along Axis. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    values : NDArray[Any]
        Off and On; further elements do not count. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.
    axis : int, optional
        The axis along which the lines lie. A negative one counts from the end. By default, the last.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def padding(
    input: NDArray[Any],
    padding_mode: PaddingMode | str = "CONSTANT",
    padding_value: float = 0.0,
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds elements around a tensor: Output[c] = Input[c - StartPadding] inside the input, and by the mode outside.

    CONSTANT gives PaddingValue, which is truncated toward zero and saturated in an integer tensor, and EDGE the nearest
    element. REFLECTION mirrors the input at its first and last elements, which are not repeated; SYMMETRIC repeats them. WRAP
    repeats the input from its beginning.

        Output[i, j, k, l] = Input[i - StartPadding[0], j - StartPadding[1], k - StartPadding[2], l - StartPadding[3]]
            where it exists, else PaddingValue

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to pad. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    padding_mode : PaddingMode | str, default "CONSTANT"
        The elements outside of the input. One of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP.
    padding_value : float, default 0.0
        What CONSTANT pads with; other modes ignore it.
    start_padding : Sequence[int]
        Elements before the input, in each dimension.
    end_padding : Sequence[int]
        Elements after the input, in each dimension.
    """

def padding1(
    input: NDArray[Any],
    padding_mode: PaddingMode | str = "CONSTANT",
    padding_value_data_type: DataType | DTypeLike | None = None,
    padding_value: float = 0,
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds elements around a tensor: Output[c] = Input[c - StartPadding] inside the input, and by the mode outside.

    CONSTANT gives PaddingValue, and EDGE the nearest element. REFLECTION mirrors the input at its first and last elements,
    which are not repeated; SYMMETRIC repeats them. WRAP repeats the input from its beginning. Bits are copied unchanged.

        Output[i, j, k, l] = Input[i - StartPadding[0], j - StartPadding[1], k - StartPadding[2], l - StartPadding[3]]
            where it exists, else PaddingValue

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to pad. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    padding_mode : PaddingMode | str, default "CONSTANT"
        The elements outside of the input. One of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP.
    padding_value_data_type : DataType | DTypeLike, optional
        The type of PaddingValue. By default, the input's.
    padding_value : float, default 0
        What CONSTANT pads with; other modes ignore it.
    start_padding : Sequence[int]
        Elements before the input, in each dimension.
    end_padding : Sequence[int]
        Elements after the input, in each dimension.
    """

def quantize(
    input: NDArray[Any],
    quantizations: Sequence[NDArray[Any]],
    quantization_type: QuantizationType | str | None = None,
    *,
    output_data_type: DataType | DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Quantizes every element by its block: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    In each dimension, the quantization tensors have a size n, and the input is divided into n blocks of equal size: with n = 1
    all elements share a scale, and with the input's size each has its own. The quotient is rounded to FLOAT32, as in ONNX, and
    round takes ties to even. Min and Max are the limits of the output's type; a quotient that is NaN gives Min. An absent zero
    point is 0 for a signed type, and the middle of an unsigned one: 128 for UINT8, 8 for UINT4. (In ONNX it is 0; give a
    tensor for that.)

    At `FeatureLevel.EXTENDED`, the output may have 8-bit floats. Then the sum of the quotient and the zero point is not rounded
    to an integer, numbers beyond the largest become the largest, and NaN stays NaN: ONNX's saturation, which CAST lacks.

    Elements of 4 bits are bound as bytes, two in each, the first in the low half. The eager function takes and returns arrays
    of ml_dtypes' int4 and uint4.

        Output[i, j] = 0 if is_nan(float32(Input[i, j] / Quantization[0][i // (Input.Sizes[0] //
            Quantization[0].Sizes[0]), j // (Input.Sizes[1] // Quantization[0].Sizes[1])])), else min(255, max(0,
            round(float32(Input[i, j] / Quantization[0][i // (Input.Sizes[0] // Quantization[0].Sizes[0]), j //
            (Input.Sizes[1] // Quantization[0].Sizes[1])])) + Quantization[1][i // (Input.Sizes[0] //
            Quantization[1].Sizes[0]), j // (Input.Sizes[1] // Quantization[1].Sizes[1])]))

    Parameters
    ----------
    input : NDArray[Any]
        The elements to quantize. 1 to 8 dimensions of float32 or float16.
    quantizations : Sequence[NDArray[Any]]
        The scale of each block, of the input's type, and its zero point, of the output's type. 1 to 8 dimensions of
        float32, float16, int8, int4, uint8 or uint4.
    quantization_type : QuantizationType | str, optional
        SCALE, or SCALE_ZERO_POINT: what the quantization tensors are. By default, SCALE for one quantization tensor,
        SCALE_ZERO_POINT for two.
    output_data_type : DataType | DTypeLike, optional
        The data type of the output, if no input determines it.
    """

def quantized_linear_average_pooling(
    input: NDArray[Any],
    input_scale: NDArray[Any] | float,
    output_scale: NDArray[Any] | float,
    input_zero_point: NDArray[Any] | float | None = None,
    output_zero_point: NDArray[Any] | float | None = None,
    strides: Sequence[int] | None = None,
    *,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool = False,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Averages a quantized tensor in a window that slides: Output = quantize(sum of dequantized elements / their number).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. The elements and their number are those of AVERAGE_POOLING1; padding is
    the real number 0. An absent zero point is 0; a quotient that is NaN gives Min.

        Output[i, j, k, l] = 0 if is_nan(P[i, j, k, l]), else min(255, max(0, round(P[i, j, k, l]) +
            OutputZeroPoint[0]))
            where P[i, j, k, l] = (sum over u < WindowSize[0], v < WindowSize[1] of (Input[i, j, k * Strides[0] + u *
            Dilations[0] - StartPadding[0], l * Strides[1] + v * Dilations[1] - StartPadding[1]] - InputZeroPoint[0]) *
            InputScale[0]) / max(sum over u < WindowSize[0], v < WindowSize[1] where k * Strides[0] + u * Dilations[0] -
            StartPadding[0] >= 0 and k * Strides[0] + u * Dilations[0] - StartPadding[0] < Input.Sizes[2] and l *
            Strides[1] + v * Dilations[1] - StartPadding[1] >= 0 and l * Strides[1] + v * Dilations[1] - StartPadding[1]
            < Input.Sizes[3] of 1, 1) / OutputScale[0]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of int8 or uint8.
    input_scale : NDArray[Any] | float
        The input's scale, or one for each channel. 1 to 5 dimensions of float32.
    output_scale : NDArray[Any] | float
        The output's scale, or one for each channel. 1 to 5 dimensions of float32.
    input_zero_point : NDArray[Any] | float, optional
        The input's zero point, or one for each channel. 1 to 5 dimensions of int8 or uint8.
    output_zero_point : NDArray[Any] | float, optional
        The output's zero point, or one for each channel. 1 to 5 dimensions of int8 or uint8.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    window_size : Sequence[int]
        Elements of a window.
    start_padding : Sequence[int], optional
        Elements of padding before the input. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input. By default, zeros.
    dilations : Sequence[int], optional
        Elements of the input from one element of a window to the next. By default, ones.
    include_padding : bool, default False
        Whether the padding counts in the number of elements.
    """

def quantized_linear_convolution(
    input: NDArray[Any],
    input_scale: NDArray[Any] | float,
    filter: NDArray[Any],
    filter_scale: NDArray[Any] | float,
    output_scale: NDArray[Any] | float,
    input_zero_point: NDArray[Any] | float | None = None,
    filter_zero_point: NDArray[Any] | float | None = None,
    bias: NDArray[Any] | None = None,
    output_zero_point: NDArray[Any] | float | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int = 1,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Convolves quantized numbers, in groups: Output = quantize(dequantize(Input) convolved with dequantize(Filter) + Bias).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. Bias is in units of InputScale * FilterScale. Elements outside of the
    input are left out, as if they were the zero point. An absent zero point is 0.

        Output[i, j, k, l] = min(255, max(0, round(((sum over c < Input.Sizes[1], u < Filter.Sizes[2], v <
            Filter.Sizes[3] of (Input[i, c, k * Strides[0] + u * Dilations[0] - StartPadding[0], l * Strides[1] + v *
            Dilations[1] - StartPadding[1]] - InputZeroPoint[0]) * (Filter[j, c, u, v] - FilterZeroPoint[0])) + Bias[0,
            j, 0, 0]) * InputScale[0] * FilterScale[0] / OutputScale[0]) + OutputZeroPoint[0]))

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, InputChannelCount, [Height,] Width}. 3 to 4 dimensions of int8 or uint8.
    input_scale : NDArray[Any] | float
        The input's scale, one element. 1 to 4 dimensions of float32.
    filter : NDArray[Any]
        {OutputChannelCount, InputChannelCount / GroupCount, [FilterHeight,] FilterWidth}. 3 to 4 dimensions of int8 or
        uint8.
    filter_scale : NDArray[Any] | float
        The filter's scale; {1, OutputChannelCount, 1, 1} per output channel. 1 to 4 dimensions of float32.
    output_scale : NDArray[Any] | float
        The output's scale, one element. 1 to 4 dimensions of float32.
    input_zero_point : NDArray[Any] | float, optional
        The input's zero point, one element. 1 to 4 dimensions of int8 or uint8.
    filter_zero_point : NDArray[Any] | float, optional
        The filter's zero point; {1, OutputChannelCount, 1, 1} per output channel. 1 to 4 dimensions of int8 or uint8.
    bias : NDArray[Any], optional
        An integer for each output channel, {1, OutputChannelCount, 1, 1}. A vector lies along the channel. 3 to 4
        dimensions of int32.
    output_zero_point : NDArray[Any] | float, optional
        The output's zero point, one element. 1 to 4 dimensions of int8 or uint8.
    strides : Sequence[int], optional
        Elements from one position of the filter to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements from one element of the filter to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements of padding before the input, which add nothing. By default, zeros.
    end_padding : Sequence[int], optional
        Elements of padding after the input, which add nothing. By default, zeros.
    group_count : int, default 1
        Groups that the channels are divided into.
    """

def quantized_linear_matrix_multiply(
    a: NDArray[Any],
    a_scale: NDArray[Any] | float,
    a_zero_point: NDArray[Any] | int | None,
    b: NDArray[Any],
    b_scale: NDArray[Any] | float,
    b_zero_point: NDArray[Any] | int | None,
    output_scale: NDArray[Any] | float,
    output_zero_point: NDArray[Any] | int | None,
    *,
    output_data_type: DataType | DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Multiplies quantized matrices, batch by batch: Output = quantize(dequantize(A) @ dequantize(B)).

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). Everything is
    exact except for this one rounding, half to even. A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point
    is 0.

    The eager function `quantized_linear_matrix_multiply` takes its arguments in the order of ONNX's QLinearMatMul.

        Output[i, j] = min(255, max(0, round((sum over k < A.Sizes[1] of (A[i, k] - AZeroPoint[0]) * (B[k, j] -
            BZeroPoint[0])) * AScale[0] * BScale[0] / OutputScale[0]) + OutputZeroPoint[0]))

    Parameters
    ----------
    a : NDArray[Any]
        The left matrices, {BatchCount, ChannelCount, M, K}. 2 to 4 dimensions of int8 or uint8.
    a_scale : NDArray[Any] | float
        A's scale; {.., M, 1} per row. 1 to 4 dimensions of float32.
    a_zero_point : NDArray[Any] | int
        A's zero point; {.., M, 1} per row. 1 to 4 dimensions of int8 or uint8.
    b : NDArray[Any]
        The right matrices, {BatchCount, ChannelCount, K, N}. 2 to 4 dimensions of int8 or uint8.
    b_scale : NDArray[Any] | float
        B's scale; {.., 1, N} per column. 1 to 4 dimensions of float32.
    b_zero_point : NDArray[Any] | int
        B's zero point; {.., 1, N} per column. 1 to 4 dimensions of int8 or uint8.
    output_scale : NDArray[Any] | float
        The output's scale; {.., M, 1} per row. 1 to 4 dimensions of float32.
    output_zero_point : NDArray[Any] | int
        The output's zero point; {.., M, 1} per row. 1 to 4 dimensions of int8 or uint8.
    output_data_type : DataType | DTypeLike, optional
        The data type of the output.
    """

class RandomGeneratorOutputs(NamedTuple):
    output: NDArray[Any]
    output_state: NDArray[Any] | None

def random_generator(
    input_state: NDArray[Any],
    type: RandomGeneratorType | str = "PHILOX_4X32_10",
    *,
    output_sizes: Sequence[int],
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> RandomGeneratorOutputs:
    """Fills a tensor with random bits: element k in row-major order is word k mod 4 of Philox 4x32-10 at step k // 4.

    The state is a counter of four words, least significant first, and a key of two words. Step n uses the counter + n, modulo
    2^128, and the same key. The output state has the counter after the last step, at which the next call continues.

        Output[i] = philox(InputState[0, 0, 0, 0] + InputState[0, 0, 0, 1] * 2^32 + InputState[0, 0, 0, 2] * 2^64 +
            InputState[0, 0, 0, 3] * 2^96 + i // 4, InputState[0, 0, 0, 4] + InputState[0, 0, 0, 5] * 2^32, i mod 4)
        OutputState[i, j, k, l] = (InputState[0, 0, 0, 0] + InputState[0, 0, 0, 1] * 2^32 + InputState[0, 0, 0, 2] *
            2^64 + InputState[0, 0, 0, 3] * 2^96 + ((Output.Sizes[0] + 3) // 4)) mod 2^32 if l < 1, else (InputState[0,
            0, 0, 0] + InputState[0, 0, 0, 1] * 2^32 + InputState[0, 0, 0, 2] * 2^64 + InputState[0, 0, 0, 3] * 2^96 +
            ((Output.Sizes[0] + 3) // 4)) // 2^32 mod 2^32 if l < 2, else (InputState[0, 0, 0, 0] + InputState[0, 0, 0,
            1] * 2^32 + InputState[0, 0, 0, 2] * 2^64 + InputState[0, 0, 0, 3] * 2^96 + ((Output.Sizes[0] + 3) // 4)) //
            2^64 mod 2^32 if l < 3, else (InputState[0, 0, 0, 0] + InputState[0, 0, 0, 1] * 2^32 + InputState[0, 0, 0,
            2] * 2^64 + InputState[0, 0, 0, 3] * 2^96 + ((Output.Sizes[0] + 3) // 4)) // 2^96 mod 2^32 if l < 4, else
            InputState[i, j, k, l]

    Parameters
    ----------
    input_state : NDArray[Any]
        The state {1, 1, 1, 6}: counter and key. 1 to 8 dimensions of uint32.
    type : RandomGeneratorType | str, default "PHILOX_4X32_10"
        The generator. One of PHILOX_4X32_10.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def reduce(
    input: NDArray[Any],
    function: ReduceFunction | str,
    axes: Sequence[int] | int | None = None,
    *,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Reduces the elements along all listed axes together to one, by one of twelve functions.

    ARGMAX and ARGMIN give the row-major position of the first NaN, else of the first extreme element. Sums and products of
    integers wrap modulo 2^bits. Results of floats are exact and rounded once.

        Output[i, j, k, l] = sum over k' < Input.Sizes[2] of Input[i, j, k', l]

    Parameters
    ----------
    input : NDArray[Any]
        The elements to reduce. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64
        or uint64.
    function : ReduceFunction | str
        The function. One of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, MIN, MULTIPLY, SUM, SUM_SQUARE.
    axes : Sequence[int] | int, optional
        The axes that are reduced. Negative ones count from the end. By default, all.
    axis : int, optional
        A single axis.
    """

def resample(
    input: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    scales: Sequence[float],
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Resizes a tensor: RESAMPLE1 with the offsets of centres, 0.5 and -0.5.

        Output[i, j, k, l] = sum over u < 2, v < 2 where P[k, u] > 0 and Q[l, v] > 0 of Input[i, j, min(Input.Sizes[2] -
            1, max(0, floor(X2[k]) + u)), min(Input.Sizes[3] - 1, max(0, floor(X3[l]) + v))] * P[k, u] * Q[l, v]
            where P[k, u] = 1 - (X2[k] - floor(X2[k])) if u = 0, else X2[k] - floor(X2[k])
            where Q[l, v] = 1 - (X3[l] - floor(X3[l])) if v = 0, else X3[l] - floor(X3[l])
            where X2[o] = (o - OutputPixelOffsets[2]) / Scales[2] - InputPixelOffsets[2]
            where X3[o] = (o - OutputPixelOffsets[3]) / Scales[3] - InputPixelOffsets[3]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 4 dimensions of float32, float16, int8 or uint8.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def resample1(
    input: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Resizes a tensor: output o is read at x = (o - OutputPixelOffset) / Scale - InputPixelOffset in each dimension.

    NEAREST_NEIGHBOR copies the element at floor(x + 1/2). LINEAR interpolates in each dimension: the element at floor(x) has
    the weight 1 - (x - floor(x)), and the next one x - floor(x). Positions outside of the tensor have the element at the
    nearest edge. For NEAREST_NEIGHBOR, x is computed in float32 operations. Everything else is exact, and rounded once,
    integers half to even.

        Output[i, j, k, l] = sum over u < 2, v < 2 where P[k, u] > 0 and Q[l, v] > 0 of Input[i, j, min(Input.Sizes[2] -
            1, max(0, floor(X2[k]) + u)), min(Input.Sizes[3] - 1, max(0, floor(X3[l]) + v))] * P[k, u] * Q[l, v]
            where P[k, u] = 1 - (X2[k] - floor(X2[k])) if u = 0, else X2[k] - floor(X2[k])
            where Q[l, v] = 1 - (X3[l] - floor(X3[l])) if v = 0, else X3[l] - floor(X3[l])
            where X2[o] = (o - OutputPixelOffsets[2]) / Scales[2] - InputPixelOffsets[2]
            where X3[o] = (o - OutputPixelOffsets[3]) / Scales[3] - InputPixelOffsets[3]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 4 dimensions of float32, float16, int8 or uint8.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    input_pixel_offsets : Sequence[float], optional
        Offsets of positions in the input; 0.5 for centres of pixels. By default, 0.5 for each dimension.
    output_pixel_offsets : Sequence[float], optional
        Offsets of positions in the output; -0.5 for centres of pixels. By default, -0.5 for each dimension.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def resample2(
    input: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Resizes a tensor: RESAMPLE3 without antialiasing.

        Output[i, j] = Input[min(Input.Sizes[0] - 1, max(0, floor(float32(float32(float32(i - OutputPixelOffsets[0]) /
            Scales[0]) - InputPixelOffsets[0])))), min(Input.Sizes[1] - 1, max(0, floor(float32(float32(float32(j -
            OutputPixelOffsets[1]) / Scales[1]) - InputPixelOffsets[1]))))]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 4 dimensions of float32, float16, int8 or uint8.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    rounding_direction : AxisDirection | str
        NEAREST_NEIGHBOR rounds positions up (INCREASING) or down (DECREASING). One of INCREASING, DECREASING.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    input_pixel_offsets : Sequence[float], optional
        Offsets of positions in the input; 0.5 for centres of pixels. By default, 0.5 for each dimension.
    output_pixel_offsets : Sequence[float], optional
        Offsets of positions in the output; -0.5 for centres of pixels. By default, -0.5 for each dimension.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def resample3(
    input: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool = False,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Resizes a tensor: output o is read at x = (o - OutputPixelOffset) / Scale - InputPixelOffset in each dimension.

    NEAREST_NEIGHBOR copies the element at x, rounded in the RoundingDirection. LINEAR interpolates in each dimension: the
    element at floor(x) has the weight 1 - (x - floor(x)), and the next one x - floor(x). Positions outside of the tensor have
    the element at the nearest edge. With Antialiased, in dimensions where 1 / Scale is above 2, LINEAR takes the mean of the
    elements from x - 1 / (2 * Scale) to before x + 1 / (2 * Scale) instead.

    For NEAREST_NEIGHBOR and these means, x is computed in float32 operations. Everything else is exact, and rounded once,
    integers half to even.

        Output[i, j] = sum over u < 2, v < 2 where P[i, u] > 0 and Q[j, v] > 0 of Input[min(Input.Sizes[0] - 1, max(0,
            floor(X0[i]) + u)), min(Input.Sizes[1] - 1, max(0, floor(X1[j]) + v))] * P[i, u] * Q[j, v]
            where P[i, u] = 1 - (X0[i] - floor(X0[i])) if u = 0, else X0[i] - floor(X0[i])
            where Q[j, v] = 1 - (X1[j] - floor(X1[j])) if v = 0, else X1[j] - floor(X1[j])
            where X0[o] = (o - OutputPixelOffsets[0]) / Scales[0] - InputPixelOffsets[0]
            where X1[o] = (o - OutputPixelOffsets[1]) / Scales[1] - InputPixelOffsets[1]

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 4 dimensions of float32, float16, int8 or uint8.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    rounding_direction : AxisDirection | str
        NEAREST_NEIGHBOR rounds positions up (INCREASING) or down (DECREASING). One of INCREASING, DECREASING.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    input_pixel_offsets : Sequence[float], optional
        Offsets of positions in the input; 0.5 for centres of pixels. By default, 0.5 for each dimension.
    output_pixel_offsets : Sequence[float], optional
        Offsets of positions in the output; -0.5 for centres of pixels. By default, -0.5 for each dimension.
    antialiased : bool, default False
        Whether LINEAR averages elements in dimensions that become smaller.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def resample_grad(
    input_gradient: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds up, for every element that RESAMPLE1 reads, the gradients of the results times the element's weight in each.

    Elements that are not read get 0. Sums are exact, and rounded once.

        OutputGradient[i, j, k, l] = sum over u < InputGradient.Sizes[0] where min(OutputGradient.Sizes[0] - 1, max(0,
            floor(float32(float32(float32(u - OutputPixelOffsets[0]) / Scales[0]) - InputPixelOffsets[0]) + 0.5))) = i
            of (sum over v < InputGradient.Sizes[1] where min(OutputGradient.Sizes[1] - 1, max(0,
            floor(float32(float32(float32(v - OutputPixelOffsets[1]) / Scales[1]) - InputPixelOffsets[1]) + 0.5))) = j
            of (sum over w < InputGradient.Sizes[2] where min(OutputGradient.Sizes[2] - 1, max(0,
            floor(float32(float32(float32(w - OutputPixelOffsets[2]) / Scales[2]) - InputPixelOffsets[2]) + 0.5))) = k
            of (sum over x < InputGradient.Sizes[3] where min(OutputGradient.Sizes[3] - 1, max(0,
            floor(float32(float32(float32(x - OutputPixelOffsets[3]) / Scales[3]) - InputPixelOffsets[3]) + 0.5))) = l
            of InputGradient[u, v, w, x])))

    Parameters
    ----------
    input_gradient : NDArray[Any]
        The gradient of the elements read. 1 to 4 dimensions of float32 or float16.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    input_pixel_offsets : Sequence[float], optional
        Offsets of positions in the input; 0.5 for centres of pixels. By default, 0.5 for each dimension.
    output_pixel_offsets : Sequence[float], optional
        Offsets of positions in the output; -0.5 for centres of pixels. By default, -0.5 for each dimension.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def resample_grad1(
    input_gradient: NDArray[Any],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str,
    scales: Sequence[float],
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Adds up, for every element that RESAMPLE2 reads, the gradients of the results times the element's weight in each.

    Elements that are not read get 0. Sums are exact, and rounded once.

        OutputGradient[i, j, k, l] = sum over u < InputGradient.Sizes[0] where u = i of (sum over v <
            InputGradient.Sizes[1] where v = j of (sum over w < InputGradient.Sizes[2] where min(OutputGradient.Sizes[2]
            - 1, max(0, floor(float32(float32(float32(w - OutputPixelOffsets[2]) / Scales[2]) - InputPixelOffsets[2]))))
            = k of (sum over x < InputGradient.Sizes[3] where min(OutputGradient.Sizes[3] - 1, max(0,
            floor(float32(float32(float32(x - OutputPixelOffsets[3]) / Scales[3]) - InputPixelOffsets[3])))) = l of
            InputGradient[u, v, w, x])))

    Parameters
    ----------
    input_gradient : NDArray[Any]
        The gradient of the elements read. 1 to 4 dimensions of float32 or float16.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR, or LINEAR: interpolation between the two nearest elements in each dimension. One of
        NEAREST_NEIGHBOR, LINEAR.
    rounding_direction : AxisDirection | str
        NEAREST_NEIGHBOR rounds positions up (INCREASING) or down (DECREASING). One of INCREASING, DECREASING.
    scales : Sequence[float]
        The factors by which dimensions are enlarged.
    input_pixel_offsets : Sequence[float], optional
        Offsets of positions in the input; 0.5 for centres of pixels. By default, 0.5 for each dimension.
    output_pixel_offsets : Sequence[float], optional
        Offsets of positions in the output; -0.5 for centres of pixels. By default, -0.5 for each dimension.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def reverse_subsequences(
    input: NDArray[Any],
    sequence_lengths: NDArray[Any],
    axis: int,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Reverses the first elements of each line along an axis and copies the others: Output[i] = Input[L - 1 - i] where i < L.

    L is the line's length in SequenceLengths, or the size of the axis if that is less. Bits are copied unchanged.

        Output[i, j, k, l] = Input[i, j, k, min(SequenceLengths[i, j, k, 0], Input.Sizes[3]) - 1 - l if l <
            min(SequenceLengths[i, j, k, 0], Input.Sizes[3]), else l]

    Parameters
    ----------
    input : NDArray[Any]
        The lines. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    sequence_lengths : NDArray[Any]
        How many elements of each line are reversed; of size 1 along Axis. 1 to 8 dimensions of uint64 or uint32.
    axis : int
        The axis along which the lines lie. A negative one counts from the end.
    """

class RnnOutputs(NamedTuple):
    output_sequence: NDArray[Any] | None
    output_single: NDArray[Any] | None

def rnn(
    input: NDArray[Any],
    weight: NDArray[Any],
    recurrence: NDArray[Any],
    bias: NDArray[Any] | None = None,
    hidden_init: NDArray[Any] | None = None,
    sequence_lengths: NDArray[Any] | None = None,
    activation_descs: Sequence[Desc] | None = None,
    direction: RecurrentNetworkDirection | str = "FORWARD",
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> RnnOutputs:
    """Computes one layer of a simple recurrent network, step by step: H' = f(X W + H R + Wb + Rb).

    X is the step's input, and H the state before it. Only H' is rounded, once at each step. BACKWARD goes from a sequence's
    end to its start. OutputSequence has every H' at its own step. Elements after the end of a sequence are 0.

        OutputSequence[i, j, k, l] = H[i, j, k, l] if i < min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]), else 0
        OutputSingle[i, j, k, l] = H[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        H[t, i, j, k] = float32(tanh((sum over k' < Input.Sizes[3] of Input[0, t, j, k'] * Weight[0, i, k, k']) + (sum
            over u < Recurrence.Sizes[3] of H[t - 1, i, j, u] * Recurrence[0, i, k, u] if t > 0, else sum over u <
            Recurrence.Sizes[3] of HiddenInit[0, i, j, u] * Recurrence[0, i, k, u]) + Bias[0, 0, i, k] + Bias[0, 0, i, k
            + Recurrence.Sizes[3]]) if t < min(SequenceLengths[0, 0, 0, j], Input.Sizes[1]), else 0)

    Parameters
    ----------
    input : NDArray[Any]
        The sequences X, {1, seq_length, batch_size, input_size}. 4 dimensions of float32 or float16.
    weight : NDArray[Any]
        The weights W, {1, num_directions, hidden_size, input_size}. 4 dimensions of float32 or float16.
    recurrence : NDArray[Any]
        The weights R, {1, num_directions, hidden_size, hidden_size}. 4 dimensions of float32 or float16.
    bias : NDArray[Any], optional
        Wb, then Rb, {1, 1, num_directions, 2 * hidden_size}; 0 if absent. 4 dimensions of float32 or float16.
    hidden_init : NDArray[Any], optional
        H before the first step, {1, num_directions, batch_size, hidden_size}; 0 if absent. 4 dimensions of float32 or
        float16.
    sequence_lengths : NDArray[Any], optional
        The number of steps of each sequence, {1, 1, 1, batch_size}; if absent, all. 4 dimensions of uint32.
    activation_descs : Sequence[Desc], optional
        The function f of each direction. By default, TANH for each direction.
    direction : RecurrentNetworkDirection | str, default "FORWARD"
        FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward. One of FORWARD, BACKWARD, BIDIRECTIONAL.
    """

def roi_align(
    input: NDArray[Any],
    roi: NDArray[Any],
    batch_indices: NDArray[Any],
    reduction_function: ReduceFunction | str,
    interpolation_mode: InterpolationMode | str,
    spatial_scale_x: float = 1.0,
    spatial_scale_y: float = 1.0,
    out_of_bounds_input_value: float = 0.0,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = 4294967295,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Reads samples of each region of an image: ROI_ALIGN1 with offsets of 0.5 and -0.5, and without AlignRegionsToCorners.

        Output[i, j, k, l] = (sum over u < 2, v < 2 where u < SamplesY[i] and v < SamplesX[i] of (sum over p < 2, q < 2
            where P[i, k, l, p, q, u, v] > 0 of Input[BatchIndices[i], j, IndexY[i, SamplesY[i] * k + u, p], IndexX[i,
            SamplesX[i] * l + v, q]] * P[i, k, l, p, q, u, v] if PlaceY[i, SamplesY[i] * k + u] >= -1 and PlaceY[i,
            SamplesY[i] * k + u] <= Input.Sizes[2] and PlaceX[i, SamplesX[i] * l + v] >= -1 and PlaceX[i, SamplesX[i] *
            l + v] <= Input.Sizes[3], else OutOfBoundsInputValue)) / (SamplesY[i] * SamplesX[i])
            where P[i, k, l, p, q, u, v] = WeightY[i, SamplesY[i] * k + u, p] * WeightX[i, SamplesX[i] * l + v, q]
            where SamplesY[r] = min(2, max(2, ceil(float32(abs(ExtentY[r]) / Output.Sizes[2]))))
            where SamplesX[r] = min(2, max(2, ceil(float32(abs(ExtentX[r]) / Output.Sizes[3]))))
            where PlaceY[r, s] = ExtentY[r] * (s - OutputPixelOffset) / (SamplesY[r] * Output.Sizes[2]) + ROI[r, 1] *
            SpatialScaleY - InputPixelOffset
            where PlaceX[r, s] = ExtentX[r] * (s - OutputPixelOffset) / (SamplesX[r] * Output.Sizes[3]) + ROI[r, 0] *
            SpatialScaleX - InputPixelOffset
            where IndexY[r, s, p] = min(floor(MovedY[r, s]) + p, Input.Sizes[2] - 1)
            where IndexX[r, s, p] = min(floor(MovedX[r, s]) + p, Input.Sizes[3] - 1)
            where WeightY[r, s, p] = 1 - FractionY[r, s] if p = 0, else FractionY[r, s]
            where WeightX[r, s, p] = 1 - FractionX[r, s] if p = 0, else FractionX[r, s]
            where ExtentY[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 3] *
            SpatialScaleY))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 1] * SpatialScaleY))))))
            where ExtentX[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 2] *
            SpatialScaleX))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 0] * SpatialScaleX))))))
            where MovedY[r, s] = min(Input.Sizes[2] - 1, max(0, PlaceY[r, s]))
            where MovedX[r, s] = min(Input.Sizes[3] - 1, max(0, PlaceX[r, s]))
            where FractionY[r, s] = MovedY[r, s] - floor(MovedY[r, s])
            where FractionX[r, s] = MovedX[r, s] - floor(MovedX[r, s])

    Parameters
    ----------
    input : NDArray[Any]
        The images, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    roi : NDArray[Any]
        The regions, rows of x1, y1, x2, y2, {[1, [1,]] R, 4}. 2 to 4 dimensions of float32 or float16.
    batch_indices : NDArray[Any]
        The image of each region, {[1, [1, [1,]]] R}. 1 to 4 dimensions of uint64 or uint32.
    reduction_function : ReduceFunction | str
        AVERAGE or MAX: the reduction of an output's samples. One of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM,
        LOG_SUM_EXP, MAX, MIN, MULTIPLY, SUM, SUM_SQUARE.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR or LINEAR, for each sample. One of NEAREST_NEIGHBOR, LINEAR.
    spatial_scale_x : float, default 1.0
        The factor of x1 and x2.
    spatial_scale_y : float, default 1.0
        The factor of y1 and y2.
    out_of_bounds_input_value : float, default 0.0
        The value of samples that are out of bounds.
    minimum_samples_per_output : int, default 1
        The smallest number of samples of an output in each dimension.
    maximum_samples_per_output : int, default 4294967295
        The largest number of samples of an output in each dimension.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def roi_align1(
    input: NDArray[Any],
    roi: NDArray[Any],
    batch_indices: NDArray[Any],
    reduction_function: ReduceFunction | str,
    interpolation_mode: InterpolationMode | str,
    spatial_scale_x: float = 1.0,
    spatial_scale_y: float = 1.0,
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    out_of_bounds_input_value: float = 0.0,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = 4294967295,
    align_regions_to_corners: bool = False,
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Reads samples of each region of an image, on a grid, and takes the mean or the largest of those of each output.

    In each dimension, the region goes from X1 = x1 * SpatialScale to X2 = x2 * SpatialScale. Its size, X2 - X1, may be
    negative, which mirrors the region. Each output has n samples: size / outputs, rounded up, and limited by the minimum and
    maximum. Sample s is at x = (s - OutputPixelOffset) * size / (outputs * n) + X1 - InputPixelOffset; with
    AlignRegionsToCorners the divisor is outputs * n - 1.

    LINEAR interpolates in both dimensions: the element at floor(x) has the weight 1 - (x - floor(x)), and the next one
    x - floor(x). NEAREST_NEIGHBOR takes the element at floor(x + 1/2). A sample with x below -1 or above the image's size has
    OutOfBoundsInputValue; other samples outside of the image are moved to its edge. Size and n are computed in float32
    operations; everything else is exact, and rounded once.

        Output[i, j, k, l] = (sum over u < 1, v < 1 where u < SamplesY[i] and v < SamplesX[i] of (sum over p < 2, q < 2
            where WeightY[i, SamplesY[i] * k + u, p] * WeightX[i, SamplesX[i] * l + v, q] > 0 of Input[BatchIndices[i],
            j, IndexY[i, SamplesY[i] * k + u, p], IndexX[i, SamplesX[i] * l + v, q]] * WeightY[i, SamplesY[i] * k + u,
            p] * WeightX[i, SamplesX[i] * l + v, q] if PlaceY[i, SamplesY[i] * k + u] >= -1 and PlaceY[i, SamplesY[i] *
            k + u] <= Input.Sizes[2] and PlaceX[i, SamplesX[i] * l + v] >= -1 and PlaceX[i, SamplesX[i] * l + v] <=
            Input.Sizes[3], else OutOfBoundsInputValue)) / (SamplesY[i] * SamplesX[i])
            where SamplesY[r] = min(1, max(1, ceil(float32(abs(ExtentY[r]) / Output.Sizes[2]))))
            where SamplesX[r] = min(1, max(1, ceil(float32(abs(ExtentX[r]) / Output.Sizes[3]))))
            where PlaceY[r, s] = ExtentY[r] * (s - OutputPixelOffset) / (SamplesY[r] * Output.Sizes[2]) + ROI[r, 1] *
            SpatialScaleY - InputPixelOffset
            where PlaceX[r, s] = ExtentX[r] * (s - OutputPixelOffset) / (SamplesX[r] * Output.Sizes[3]) + ROI[r, 0] *
            SpatialScaleX - InputPixelOffset
            where WeightY[r, s, p] = 1 if p = 0, else 0
            where WeightX[r, s, p] = 1 if p = 0, else 0
            where IndexY[r, s, p] = min(Input.Sizes[2] - 1, max(0, floor(MovedY[r, s] + 0.5)))
            where IndexX[r, s, p] = min(Input.Sizes[3] - 1, max(0, floor(MovedX[r, s] + 0.5)))
            where ExtentY[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 3] *
            SpatialScaleY))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 1] * SpatialScaleY))))))
            where ExtentX[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 2] *
            SpatialScaleX))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 0] * SpatialScaleX))))))
            where MovedY[r, s] = min(Input.Sizes[2] - 1, max(0, PlaceY[r, s]))
            where MovedX[r, s] = min(Input.Sizes[3] - 1, max(0, PlaceX[r, s]))

    Parameters
    ----------
    input : NDArray[Any]
        The images, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    roi : NDArray[Any]
        The regions, rows of x1, y1, x2, y2, {[1, [1,]] R, 4}. 2 to 4 dimensions of float32 or float16.
    batch_indices : NDArray[Any]
        The image of each region, {[1, [1, [1,]]] R}. 1 to 4 dimensions of uint64 or uint32.
    reduction_function : ReduceFunction | str
        AVERAGE or MAX: the reduction of an output's samples. One of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM,
        LOG_SUM_EXP, MAX, MIN, MULTIPLY, SUM, SUM_SQUARE.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR or LINEAR, for each sample. One of NEAREST_NEIGHBOR, LINEAR.
    spatial_scale_x : float, default 1.0
        The factor of x1 and x2.
    spatial_scale_y : float, default 1.0
        The factor of y1 and y2.
    input_pixel_offset : float, default 0.5
        The offset of positions in the input.
    output_pixel_offset : float, default -0.5
        The offset of samples in a region.
    out_of_bounds_input_value : float, default 0.0
        The value of samples that are out of bounds.
    minimum_samples_per_output : int, default 1
        The smallest number of samples of an output in each dimension.
    maximum_samples_per_output : int, default 4294967295
        The largest number of samples of an output in each dimension.
    align_regions_to_corners : bool, default False
        Whether the first and the last sample of a region lie on its corners.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

class RoiAlignGradOutputs(NamedTuple):
    output_gradient: NDArray[Any] | None
    output_roi_gradient: NDArray[Any] | None

def roi_align_grad(
    input_gradient: NDArray[Any],
    roi: NDArray[Any],
    batch_indices: NDArray[Any],
    input: NDArray[Any] | None = None,
    *,
    reduction_function: ReduceFunction | str,
    interpolation_mode: InterpolationMode | str,
    spatial_scale_x: float = 1.0,
    spatial_scale_y: float = 1.0,
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = 4294967295,
    align_regions_to_corners: bool = False,
    output_sizes: Sequence[int],
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> RoiAlignGradOutputs:
    """Computes the gradients of the images and of the regions' corners from that of ROI_ALIGN1's output.

    OutputGradient is, for each element, the sum of the gradients of the outputs that read it, each times the element's weight.
    With AVERAGE, this is its weight in a sample, divided by the number of samples; with MAX, its weight in the first of the
    largest samples. Samples out of bounds are left out.

    OutputROIGradient is, for each corner x1, y1, x2, y2, the sum of the gradients, each times the derivative of a sample's
    position by the corner, where n is constant, and times the derivative of the image at that position. The latter is 0 with
    NEAREST_NEIGHBOR, and where a position was moved to the edge. Results are exact, and rounded once.

        OutputGradient[i, j, k, l] = sum over r < InputGradient.Sizes[0], y < InputGradient.Sizes[2], x <
            InputGradient.Sizes[3] where BatchIndices[r] = i and P[k, l, r, x, y] > 0 of InputGradient[r, j, y, x] /
            (SamplesY[r] * SamplesX[r]) * P[k, l, r, x, y]
            where P[k, l, r, x, y] = (sum over u < 1, p < 2 where u < SamplesY[r] and PlaceY[r, SamplesY[r] * y + u] >=
            -1 and PlaceY[r, SamplesY[r] * y + u] <= OutputGradient.Sizes[2] and IndexY[r, SamplesY[r] * y + u, p] = k
            and WeightY[r, SamplesY[r] * y + u, p] > 0 of WeightY[r, SamplesY[r] * y + u, p]) * (sum over u < 1, p < 2
            where u < SamplesX[r] and PlaceX[r, SamplesX[r] * x + u] >= -1 and PlaceX[r, SamplesX[r] * x + u] <=
            OutputGradient.Sizes[3] and IndexX[r, SamplesX[r] * x + u, p] = l and WeightX[r, SamplesX[r] * x + u, p] > 0
            of WeightX[r, SamplesX[r] * x + u, p])
            where SamplesY[r] = min(1, max(1, ceil(float32(abs(ExtentY[r]) / InputGradient.Sizes[2]))))
            where SamplesX[r] = min(1, max(1, ceil(float32(abs(ExtentX[r]) / InputGradient.Sizes[3]))))
            where PlaceY[r, s] = ExtentY[r] * (s - OutputPixelOffset) / (SamplesY[r] * InputGradient.Sizes[2]) + ROI[r,
            1] * SpatialScaleY - InputPixelOffset
            where IndexY[r, s, p] = min(OutputGradient.Sizes[2] - 1, max(0, floor(MovedY[r, s] + 0.5)))
            where WeightY[r, s, p] = 1 if p = 0, else 0
            where PlaceX[r, s] = ExtentX[r] * (s - OutputPixelOffset) / (SamplesX[r] * InputGradient.Sizes[3]) + ROI[r,
            0] * SpatialScaleX - InputPixelOffset
            where IndexX[r, s, p] = min(OutputGradient.Sizes[3] - 1, max(0, floor(MovedX[r, s] + 0.5)))
            where WeightX[r, s, p] = 1 if p = 0, else 0
            where ExtentY[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 3] *
            SpatialScaleY))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 1] * SpatialScaleY))))))
            where ExtentX[r] = min(FLT_MAX, max(-FLT_MAX, float32(min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 2] *
            SpatialScaleX))) - min(FLT_MAX, max(-FLT_MAX, float32(ROI[r, 0] * SpatialScaleX))))))
            where MovedY[r, s] = min(OutputGradient.Sizes[2] - 1, max(0, PlaceY[r, s]))
            where MovedX[r, s] = min(OutputGradient.Sizes[3] - 1, max(0, PlaceX[r, s]))
        OutputROIGradient = 0

    Parameters
    ----------
    input_gradient : NDArray[Any]
        The incoming gradient, {R, ChannelCount, .., ..}. 4 dimensions of float32 or float16.
    roi : NDArray[Any]
        The regions, rows of x1, y1, x2, y2, {[1, [1,]] R, 4}. 2 to 4 dimensions of float32 or float16.
    batch_indices : NDArray[Any]
        The image of each region, {[1, [1, [1,]]] R}. 1 to 4 dimensions of uint32.
    input : NDArray[Any], optional
        The images, {BatchCount, ChannelCount, Height, Width}; absent where they are not needed. 4 dimensions of float32
        or float16.
    reduction_function : ReduceFunction | str
        AVERAGE or MAX: the reduction of an output's samples. One of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM,
        LOG_SUM_EXP, MAX, MIN, MULTIPLY, SUM, SUM_SQUARE.
    interpolation_mode : InterpolationMode | str
        NEAREST_NEIGHBOR or LINEAR, for each sample. One of NEAREST_NEIGHBOR, LINEAR.
    spatial_scale_x : float, default 1.0
        The factor of x1 and x2.
    spatial_scale_y : float, default 1.0
        The factor of y1 and y2.
    input_pixel_offset : float, default 0.5
        The offset of positions in the input.
    output_pixel_offset : float, default -0.5
        The offset of samples in a region.
    minimum_samples_per_output : int, default 1
        The smallest number of samples of an output in each dimension.
    maximum_samples_per_output : int, default 4294967295
        The largest number of samples of an output in each dimension.
    align_regions_to_corners : bool, default False
        Whether the first and the last sample of a region lie on its corners.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def roi_pooling(
    input: NDArray[Any],
    roi: NDArray[Any],
    spatial_scale: float = 1.0,
    *,
    pooled_size: tuple[int, int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Selects the largest element of each part of each region of an image; the parts may overlap.

    A region's first and last elements are its corners times SpatialScale, rounded half away from 0. If it has L elements in a
    dimension and P parts, part o goes from element o * L / P, rounded down, to the one before (o + 1) * L / P, rounded up.
    Elements outside of the image are left out; a part without elements gives 0. The largest is the first NaN or, if there is
    none, the first of the largest numbers. Its bits are copied unchanged.

        Output[i, j, k, l] = Input[ROI[0, 0, i, 0], j, BeginY[i, k] + P[i, j, k, l] // Input.Sizes[3], BeginX[i, l] +
            P[i, j, k, l] mod Input.Sizes[3]] if BeginY[i, k] < EndY[i, k] and BeginX[i, l] < EndX[i, l], else 0
            where P[i, j, k, l] = position of the largest over y < Input.Sizes[2], x < Input.Sizes[3] where y < EndY[i,
            k] - BeginY[i, k] and x < EndX[i, l] - BeginX[i, l] of Input[ROI[0, 0, i, 0], j, BeginY[i, k] + y, BeginX[i,
            l] + x]
            where BeginY[r, o] = min(Input.Sizes[2], max(0, o * ExtentY[r] // 2 + StartY[r]))
            where EndY[r, o] = min(Input.Sizes[2], max(0, ((o + 1) * ExtentY[r] + 2 - 1) // 2 + StartY[r]))
            where BeginX[r, o] = min(Input.Sizes[3], max(0, o * ExtentX[r] // 2 + StartX[r]))
            where EndX[r, o] = min(Input.Sizes[3], max(0, ((o + 1) * ExtentX[r] + 2 - 1) // 2 + StartX[r]))
            where ExtentY[r] = max(round_half_away(ROI[0, 0, r, 4] * SpatialScale) - StartY[r] + 1, 1)
            where StartY[r] = round_half_away(ROI[0, 0, r, 2] * SpatialScale)
            where ExtentX[r] = max(round_half_away(ROI[0, 0, r, 3] * SpatialScale) - StartX[r] + 1, 1)
            where StartX[r] = round_half_away(ROI[0, 0, r, 1] * SpatialScale)

    Parameters
    ----------
    input : NDArray[Any]
        The images, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    roi : NDArray[Any]
        The regions, rows of batch index, x1, y1, x2, y2, {1, 1, R, 5}. 4 dimensions of float32 or float16.
    spatial_scale : float, default 1.0
        The factor of the corners.
    pooled_size : tuple[int, int]
        The parts of a region in width and height.
    """

def scatter_elements(
    input: NDArray[Any],
    indices: NDArray[Any],
    updates: NDArray[Any],
    axis: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies Input and replaces the elements at indices along an axis: Output[.., Indices[.., i, ..], ..] = Updates[.., i, ..].

    A negative index counts from the end. Of several updates of one element, the last counts. Bits are copied unchanged.

        Output[i, j] = Updates[P[i, j], j] if Indices[P[i, j], j] = i, else Input[i, j]
            where P[i, j] = position of the largest over k < Indices.Sizes[0] of (1 if Indices[k, j] = i, else 0)

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The position along Axis of every update. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    updates : NDArray[Any]
        The elements to write. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    axis : int, optional
        The axis that the indices count along. A negative one counts from the end. By default, 0.
    """

def scatter_nd(
    input: NDArray[Any],
    indices: NDArray[Any],
    updates: NDArray[Any],
    input_dimension_count: int | None = None,
    indices_dimension_count: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies Input and replaces the subtensors at tuples of indices: Output[Indices[c], ..] = Updates[c, ..].

    The last dimension of Indices holds tuples of indices in the first of Input's last InputDimensionCount dimensions. A
    negative index counts from the end. Of several updates of one element, the last counts. Bits are copied unchanged.

        Output[i, j, k, l] = Updates[0, 0, P[j, k], l] if Indices[0, 0, P[j, k], 0] = j and Indices[0, 0, P[j, k], 1] =
            k, else Input[i, j, k, l]
            where P[j, k] = position of the largest over k' < Indices.Sizes[2] of (1 if Indices[0, 0, k', 0] = j and
            Indices[0, 0, k', 1] = k, else 0)

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The tuples of indices. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    updates : NDArray[Any]
        The subtensors to write. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    input_dimension_count : int, optional
        How many dimensions of Input count, the last ones; those before have size 1. By default, as many as the input
        has.
    indices_dimension_count : int, optional
        How many dimensions of Indices count, the last ones; those before have size 1. By default, as many as the
        indices have.
    """

def slice(
    input: NDArray[Any],
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies every stride-th element from an offset on: Output[c] = Input[offset + stride * c].

    Sizes counts elements of the output, not of the input as SLICE1's InputWindowSizes does.

        Output[i, j, k, l] = Input[InputWindowOffsets[0] + InputWindowStrides[0] * i, InputWindowOffsets[1] +
            InputWindowStrides[1] * j, InputWindowOffsets[2] + InputWindowStrides[2] * k, InputWindowOffsets[3] +
            InputWindowStrides[3] * l]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    offsets : Sequence[int]
        The first element copied.
    sizes : Sequence[int]
        Elements copied: the sizes of the output.
    strides : Sequence[int], optional
        Elements to advance in the input.
    """

def slice1(
    input: NDArray[Any],
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
    *,
    output_sizes: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the elements of a window, with a signed stride in each dimension: Output[c] = Input[start + stride * c].

    Here start is the window's first element, or its last one if the stride is negative. If the output is smaller than the
    window allows, it has the first of the elements.

        Output[i, j, k, l] = Input[InputWindowOffsets[0] + InputWindowStrides[0] * i, InputWindowOffsets[1] +
            InputWindowStrides[1] * j, InputWindowOffsets[2] + InputWindowStrides[2] * k, InputWindowOffsets[3] +
            InputWindowStrides[3] * l]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    input_window_offsets : Sequence[int]
        Where the window begins, in elements.
    input_window_sizes : Sequence[int]
        Extent of the window, in elements of the input.
    input_window_strides : Sequence[int], optional
        Elements to advance; negative: from the window's end backwards.
    output_sizes : Sequence[int], optional
        The output's sizes.
    """

def slice_grad(
    input_gradient: NDArray[Any],
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    output_sizes: Sequence[int],
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the gradients of SLICE1's outputs to the elements that it read, and 0 to the others.

    OutputGradient[start + stride * c] = InputGradient[c], where start is the window's first element, or its last one if the
    stride is negative. Bits are copied unchanged.

        OutputGradient[i, j, k, l] = InputGradient[(i - InputWindowOffsets[0]) // InputWindowStrides[0], (j -
            InputWindowOffsets[1]) // InputWindowStrides[1], (k - InputWindowOffsets[2]) // InputWindowStrides[2], (l -
            InputWindowOffsets[3]) // InputWindowStrides[3]] where it exists, else 0 if (i - InputWindowOffsets[0]) mod
            InputWindowStrides[0] = 0 and (j - InputWindowOffsets[1]) mod InputWindowStrides[1] = 0 and (k -
            InputWindowOffsets[2]) mod InputWindowStrides[2] = 0 and (l - InputWindowOffsets[3]) mod
            InputWindowStrides[3] = 0, else 0

    Parameters
    ----------
    input_gradient : NDArray[Any]
        The gradient of the slice. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    input_window_offsets : Sequence[int]
        Where the window begins, in elements.
    input_window_sizes : Sequence[int]
        Extent of the window, in elements.
    input_window_strides : Sequence[int]
        Elements to advance; negative: from the window's end backwards.
    output_sizes : Sequence[int]
        The sizes of the output, which the inputs do not determine.
    """

def space_to_depth(
    input: NDArray[Any], block_size: int, *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Rearranges blocks of an image to channels: Output[n, (i * B + j) * C + c, h, w] = Input[n, c, h * B + i, w * B + j].

    It is SPACE_TO_DEPTH1 in the order DEPTH_COLUMN_ROW.

        Output[i, j, k, l] = Input[i, j mod Input.Sizes[1], k * 2 + j // Input.Sizes[1] // 2, l * 2 + j //
            Input.Sizes[1] mod 2]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}. 4 dimensions of float64, float32, float16,
        int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    block_size : int
        Height and width of a block.
    """

def space_to_depth1(
    input: NDArray[Any],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Rearranges blocks of an image to channels: Output[n, k, h, w] = Input[n, c, h * B + i, w * B + j].

    B is BlockSize, and C the input's number of channels. The channel k is (i * B + j) * C + c in the order DEPTH_COLUMN_ROW,
    and (c * B + i) * B + j in the order COLUMN_ROW_DEPTH. Bits are copied unchanged.

        Output[i, j, k, l] = Input[i, j mod Input.Sizes[1], k * 2 + j // Input.Sizes[1] // 2, l * 2 + j //
            Input.Sizes[1] mod 2]

    Parameters
    ----------
    input : NDArray[Any]
        {BatchCount, ChannelCount, Height * BlockSize, Width * BlockSize}. 4 dimensions of float64, float32, float16,
        int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    block_size : int
        Height and width of a block.
    order : DepthSpaceOrder | str, default "DEPTH_COLUMN_ROW"
        The order of the channels of a block. One of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH.
    """

def split(
    input: NDArray[Any],
    axis: int | None = None,
    *,
    output_sizes: Sequence[Sequence[int]],
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> list[NDArray[Any]]:
    """Splits a tensor along an axis: `Output[n][.., i, ..]` = Input[.., o + i, ..].

    Here o is the sum of the sizes along the axis of the outputs before n. Bits are copied unchanged.

        Output[0] = Input
        Output[1][i, j, k, l] = Input[i, j, k + Output[0].Sizes[2], l]
        Output[2][i, j, k, l] = Input[i, j, k + (Output[0].Sizes[2] + Output[1].Sizes[2]), l]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to cut. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    axis : int, optional
        The dimension to cut along. A negative one counts from the end. By default, 0.
    output_sizes : Sequence[Sequence[int]]
        The sizes of the output, which the inputs do not determine.
    """

def tile(
    input: NDArray[Any], repeats: Sequence[int], *, out: NDArray[Any] | None = None, device: Device | str | None = None
) -> NDArray[Any]:
    """Repeats a tensor along each dimension: Output[.., i, ..] = Input[.., i mod Input.Sizes, ..].

    Bits are copied unchanged.

        Output[i, j, k, l] = Input[i, j, k mod Input.Sizes[2], l mod Input.Sizes[3]]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to repeat. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or
        uint64.
    repeats : Sequence[int]
        The number of times the input is repeated, for each dimension.
    """

class TopKOutputs(NamedTuple):
    output_value: NDArray[Any]
    output_index: NDArray[Any]

def top_k(
    input: NDArray[Any], axis: int, k: int, *, out: Sequence[Any] | None = None, device: Device | str | None = None
) -> TopKOutputs:
    """Selects the K largest elements of each line along an axis, largest first, and their positions in the line.

    It is TOP_K1 in the direction DECREASING.

        OutputValue[i, j, k, l] = Input[i, j, k, position l in decreasing order over l' < Input.Sizes[3] of Input[i, j,
            k, l']]
        OutputIndex[i, j, k, l] = position l in decreasing order over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The lines. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    axis : int
        The axis along which the lines lie. A negative one counts from the end.
    k : int
        The number of elements selected from a line.
    """

class TopK1Outputs(NamedTuple):
    output_value: NDArray[Any]
    output_index: NDArray[Any]

def top_k1(
    input: NDArray[Any],
    axis: int,
    k: int,
    axis_direction: AxisDirection | str = "DECREASING",
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> TopK1Outputs:
    """Selects the K largest or smallest elements of each line along an axis, sorted, and their positions in the line.

    OutputValue has the bits of Input at OutputIndex. Equal elements keep the order of their positions in both directions;
    zeros of both signs are equal, and NaN is larger than +infinity.

        OutputValue[i, j, k, l] = Input[i, j, k, position l in increasing order over l' < Input.Sizes[3] of Input[i, j,
            k, l']]
        OutputIndex[i, j, k, l] = position l in increasing order over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The lines. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    axis : int
        The axis along which the lines lie. A negative one counts from the end.
    k : int
        The number of elements selected from a line.
    axis_direction : AxisDirection | str, default "DECREASING"
        INCREASING: the smallest, smallest first; DECREASING: the largest. One of INCREASING, DECREASING.
    """

def unfold(
    input: NDArray[Any],
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the elements of each position of a window to a column: Output[n, c * K + k, b] = Input[n, c, p].

    Here p = b * Stride + k * Dilation - StartPadding, where b is a position of the window and k one of its K elements, each
    counted in row-major order. Elements outside of the input are 0. Bits are copied unchanged.

        Output[i, j, k] = Input[i, j // (WindowSizes[0] * WindowSizes[1]), k // ((Input.Sizes[3] + StartPadding[1] +
            EndPadding[1] - (Dilations[1] * (WindowSizes[1] - 1)) - 1) // Strides[1] + 1) * Strides[0] + j mod
            (WindowSizes[0] * WindowSizes[1]) // WindowSizes[1] * Dilations[0] - StartPadding[0], k mod ((Input.Sizes[3]
            + StartPadding[1] + EndPadding[1] - (Dilations[1] * (WindowSizes[1] - 1)) - 1) // Strides[1] + 1) *
            Strides[1] + j mod (WindowSizes[0] * WindowSizes[1]) mod WindowSizes[1] * Dilations[1] - StartPadding[1]]
            where it exists, else 0

    Parameters
    ----------
    input : NDArray[Any]
        The image, {BatchCount, ChannelCount, ..}. 3 to 8 dimensions of float64, float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.
    window_sizes : Sequence[int]
        Elements of a window.
    strides : Sequence[int], optional
        Elements from one window to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements of the image from one element of a window to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements before the image, for windows to begin in. By default, zeros.
    end_padding : Sequence[int], optional
        Elements after the image, for windows to end in. By default, zeros.
    """

def upsample_2d(
    input: NDArray[Any],
    scale_size: tuple[int, int],
    interpolation_mode: InterpolationMode | str = "NEAREST_NEIGHBOR",
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Enlarges images by integer factors, with the nearest element or by interpolation of the two nearest in both dimensions.

    Output o is read at x = (o + 1/2) / Scale - 1/2; positions outside of the image have the element at the nearest edge. With
    LINEAR, the element at floor(x) has the weight 1 - (x - floor(x)), and the next one x - floor(x); sums are exact, and
    rounded once. With NEAREST_NEIGHBOR, bits are copied unchanged.

        Output[i, j, k, l] = sum over u < 2, v < 2 where P[k, u] * Q[l, v] > 0 of Input[i, j, min(Input.Sizes[2] - 1,
            max(0, (k * 2 + 1 - 2) // 4 + u)), min(Input.Sizes[3] - 1, max(0, (l * 2 + 1 - 2) // 4 + v))] * P[k, u] *
            Q[l, v]
            where P[k, u] = (4 - (k * 2 + 1 - 2) mod 4 if u = 0, else (k * 2 + 1 - 2) mod 4) / 4
            where Q[l, v] = (4 - (l * 2 + 1 - 2) mod 4 if v = 0, else (l * 2 + 1 - 2) mod 4) / 4

    Parameters
    ----------
    input : NDArray[Any]
        The images, {BatchCount, ChannelCount, [Depth,] Height, Width}. 4 to 5 dimensions of float32 or float16.
    scale_size : tuple[int, int]
        The factors of width and height.
    interpolation_mode : InterpolationMode | str, default "NEAREST_NEIGHBOR"
        NEAREST_NEIGHBOR, or LINEAR. One of NEAREST_NEIGHBOR, LINEAR.
    """

def value_scale_2d(
    input: NDArray[Any],
    scale: float,
    bias: Sequence[float],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Scales every element and adds a term for each channel: Output[n, c, h, w] = Input[n, c, h, w] * Scale + Bias[c].

        Output[i, j, k, l] = Input[i, j, k, l] * Scale + (Bias[0] if j < 1, else Bias[1] if j < 2, else Bias[2])

    Parameters
    ----------
    input : NDArray[Any]
        The images, {BatchCount, ChannelCount, Height, Width}. 4 dimensions of float32 or float16.
    scale : float
        The factor of every element.
    bias : Sequence[float]
        A term for each channel.
    """
