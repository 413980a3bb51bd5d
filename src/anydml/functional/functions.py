"""The eager function of every operator: arrays in, arrays out, sizes inferred, every rule checked.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.functional import matrix_multiply as _matmuls
from anydml.functional import slice as _slices
from anydml.functional.call import call

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from anydml.devices.device import Device
    from anydml.schema.enumerations import (
        AxisDirection,
        ConvolutionDirection,
        ConvolutionMode,
        PaddingMode,
        QuantizationType,
        RandomGeneratorType,
        RecurrentNetworkDirection,
        ReduceFunction,
    )
    from anydml.schema.operator import Desc
    from anydml.tensor import DataType


def activation_celu(
    input: NDArray[Any],
    alpha: float = 1.0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the continuously differentiable exponential linear unit to every element.

    Output = max(0, x) + min(0, Alpha * (exp(x / Alpha) - 1)).

        Output = max(0, Input) + min(0, Alpha * (exp(Input / Alpha) - 1))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        What the result tends to below 0, with the opposite sign.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_celu_operator_desc>

    Examples
    --------
    >>> dml.activation_celu(np.array([-1, 0, 2], np.float32), alpha=2.0)
    array([-0.78693867,  0.        ,  2.        ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_CELU", (input,), (alpha,), out, device)
    return result


def activation_elu(
    input: NDArray[Any],
    alpha: float = 1.0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the exponential linear unit to every element: Output = x if x >= 0, else Alpha * (exp(x) - 1).

        Output = Input if Input >= 0, else Alpha * (exp(Input) - 1)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        What the result tends to below 0, with the opposite sign.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_elu_operator_desc>

    Examples
    --------
    >>> dml.activation_elu(np.array([-1, 0, 2], np.float32), alpha=2.0)
    array([-1.2642411,  0.       ,  2.       ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_ELU", (input,), (alpha,), out, device)
    return result


def activation_gelu(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the Gaussian error linear unit to every element: Output = 0.5 * x * (1 + erf(x / sqrt(2))).

        Output = 0.5 * Input * (1 + erf(Input / sqrt(2)))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_gelu_operator_desc>

    Examples
    --------
    >>> dml.activation_gelu(np.array([-1, 0, 2], np.float32))
    array([-0.15865526,  0.        ,  1.9544997 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_GELU", (input,), (), out, device)
    return result


def activation_hardmax(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Marks the first of the largest elements of the last dimension, as HARDMAX1 does with that axis alone.

        Output[i, j, k, l] = 1 if l = position of the largest over l' < Input.Sizes[3] of Input[i, j, k, l'], else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The marks, 1 and 0. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_hardmax_operator_desc>

    Examples
    --------
    >>> dml.activation_hardmax(np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32))
    array([[[[0., 0., 1.],
             [1., 0., 0.]]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_HARDMAX", (input,), (), out, device)
    return result


def activation_hardmax1(
    input: NDArray[Any],
    axes: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Marks the largest element over all listed axes together: Output = 1 for the first of the largest, else 0.

    The first is that in row-major order of the axes. NaN counts as larger than all, and zeros of both signs are equal.

        Output[i, j, k] = 1 if j = position of the largest over j' < Input.Sizes[1] of Input[i, j', k], else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int], optional
        The axes among whose elements one is the largest. By default, the last.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The marks, 1 and 0. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_hardmax1_operator_desc>

    Examples
    --------
    >>> dml.activation_hardmax1(
    ...     np.array([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]], np.float32),
    ...     axes=(1,),
    ... )
    array([[[1., 0.],
            [0., 1.]],
    <BLANKLINE>
           [[1., 1.],
            [0., 0.]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_HARDMAX1", (input,), (axes,), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_hard_sigmoid_operator_desc>

    Examples
    --------
    >>> dml.activation_hard_sigmoid(np.array([-1, 0, 3], np.float32), alpha=0.25)
    array([0.25, 0.5 , 1.  ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_HARD_SIGMOID", (input,), (alpha, beta), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_hard_swish_operator_desc>

    Examples
    --------
    >>> dml.activation_hard_swish(np.array([-2, -1, 1, 3], np.float32), alpha=0.25)
    array([-0.  , -0.25,  0.75,  3.  ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_HARD_SWISH", (input,), (alpha, beta), out, device)
    return result


def activation_identity(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Gives every element as it is: Output = x. Its bits are moved, those of a NaN too.

        Output = Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_identity_operator_desc>

    Examples
    --------
    >>> dml.activation_identity(np.array([-1, 0, 2.5], np.float32))
    array([-1. ,  0. ,  2.5], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_IDENTITY", (input,), (), out, device)
    return result


def activation_leaky_relu(
    input: NDArray[Any],
    alpha: float = 0.01,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the leaky rectified linear unit to every element: Output = x if x >= 0, else Alpha * x.

        Output = Input if Input >= 0, else Alpha * Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 0.01
        The slope below 0.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_leaky_relu_operator_desc>

    Examples
    --------
    >>> dml.activation_leaky_relu(np.array([-1, 0, 2.5], np.float32), alpha=0.25)
    array([-0.25,  0.  ,  2.5 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_LEAKY_RELU", (input,), (alpha,), out, device)
    return result


def activation_linear(
    input: NDArray[Any],
    alpha: float,
    beta: float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_linear_operator_desc>

    Examples
    --------
    >>> dml.activation_linear(np.array([-1, 0, 2], np.float32), 2.0, 1.0)
    array([-1.,  1.,  5.], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_LINEAR", (input,), (alpha, beta), out, device)
    return result


def activation_log_softmax(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the logarithm of SOFTMAX over the last dimension, as LOG_SOFTMAX1 does with that axis alone.

        Output[i, j, k, l] = Input[i, j, k, l] - P[i, j, k] - log(sum over l' < Input.Sizes[3] of exp(Input[i, j, k, l']
            - P[i, j, k]))     where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_log_softmax_operator_desc>

    Examples
    --------
    >>> dml.activation_log_softmax(np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32))
    array([[[[-2.407606  , -1.407606  , -0.40760598],
             [-1.0986123 , -1.0986123 , -1.0986123 ]]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_LOG_SOFTMAX", (input,), (), out, device)
    return result


def activation_log_softmax1(
    input: NDArray[Any],
    axes: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the logarithm of SOFTMAX over all listed axes together: Output = x - max - ln(sum(exp(x - max))).

    It is exact and rounded once; max, the largest x of the sum, changes infinities alone: with +infinity in it, with NaN, or
    with -infinity alone, all results are NaN.

        Output[i, j, k, l] = Input[i, j, k, l] - P[i, j, k] - log(sum over l' < Input.Sizes[3] of exp(Input[i, j, k, l']
            - P[i, j, k]))     where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int], optional
        The axes that a sum runs over. By default, the last.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_log_softmax1_operator_desc>

    Examples
    --------
    >>> dml.activation_log_softmax1(np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32), axes=(3,))
    array([[[[-2.407606  , -1.407606  , -0.40760598],
             [-1.0986123 , -1.0986123 , -1.0986123 ]]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_LOG_SOFTMAX1", (input,), (axes,), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32, float16, int32, int16 or int8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_parameterized_relu_operator_desc>

    Examples
    --------
    >>> dml.activation_parameterized_relu(
    ...     np.array([-2, -2, 0, 2], np.float32),
    ...     np.array([0.25, -1, 0.25, 0.25], np.float32),
    ... )
    array([-0.5,  2. ,  0. ,  2. ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_PARAMETERIZED_RELU", (input, slope), (), out, device)
    return result


def activation_parametric_softplus(
    input: NDArray[Any],
    alpha: float,
    beta: float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_parametric_softplus_operator_desc>

    Examples
    --------
    >>> dml.activation_parametric_softplus(np.array([-1, 0, 2], np.float32), 0.5, 2.0)
    array([0.06346401, 0.3465736 , 2.009075  ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_PARAMETRIC_SOFTPLUS", (input,), (alpha, beta), out, device)
    return result


def activation_relu(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the rectified linear unit to every element: Output = max(0, x).

        Output = max(0, Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32, float16, int32, int16 or int8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_relu_operator_desc>

    Examples
    --------
    >>> dml.activation_relu(np.array([-1, 0, 2.5], np.float32))
    array([0. , 0. , 2.5], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_RELU", (input,), (), out, device)
    return result


def activation_relu_grad(
    input: NDArray[Any] | float,
    input_gradient: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Passes the gradient of every element that RELU passes: OutputGradient = InputGradient if x > 0, else 0.

    A gradient that passes is moved bit by bit. NaN is not greater than 0.

        OutputGradient = InputGradient if Input > 0, else 0

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements x that RELU was applied to. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    input_gradient : NDArray[Any] | float
        The gradient of each of RELU's results. 1 to 8 dimensions of float32, float16, int32, int16 or int8.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output_gradient : array
        The gradient of each element. 1 to 8 dimensions of float32, float16, int32, int16 or int8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_relu_grad_operator_desc>

    Examples
    --------
    >>> dml.activation_relu_grad(np.array([-1, 0, 2], np.float32), np.array([3, 4, 5], np.float32))
    array([0., 0., 5.], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_RELU_GRAD", (input, input_gradient), (), out, device)
    return result


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
        What the result tends to below 0, before it is scaled, with the opposite sign.
    gamma : float, default 1.0507010221481323
        The factor of the whole.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_scaled_elu_operator_desc>

    Examples
    --------
    >>> dml.activation_scaled_elu(np.array([-1, 0, 2], np.float32))
    array([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SCALED_ELU", (input,), (alpha, gamma), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_scaled_tanh_operator_desc>

    Examples
    --------
    >>> dml.activation_scaled_tanh(np.array([-1, 0, 2], np.float32))
    array([-0.46211717,  0.        ,  0.7615942 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SCALED_TANH", (input,), (alpha, beta), out, device)
    return result


def activation_shrink(
    input: NDArray[Any],
    bias: float = 0.0,
    threshold: float = 0.5,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Moves every element toward 0 by Bias, and gives 0 for what lies within Threshold of it.

    Output = x - Bias if x > Threshold; x + Bias if x < -Threshold; else 0. In integer tensors, the result is truncated
    toward zero and saturated.

        Output = Input - Bias if Input > Threshold, else Input + Bias if Input < -Threshold, else Input if
            is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.
    bias : float, default 0.0
        How far an element is moved.
    threshold : float, default 0.5
        Below this magnitude, the result is 0.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16 or uint8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_shrink_operator_desc>

    Examples
    --------
    >>> dml.activation_shrink(np.array([-3, -1.5, 1, 2.5], np.float32), bias=1.0, threshold=1.5)
    array([-2. ,  0. ,  0. ,  1.5], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SHRINK", (input,), (bias, threshold), out, device)
    return result


def activation_sigmoid(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the logistic function to every element: Output = 1 / (1 + exp(-x)).

        Output = 1 / (1 + exp(-Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_sigmoid_operator_desc>

    Examples
    --------
    >>> dml.activation_sigmoid(np.array([-1, 0, 2], np.float32))
    array([0.26894143, 0.5       , 0.8807971 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SIGMOID", (input,), (), out, device)
    return result


def activation_softmax(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Divides e^x by the sum of e^x over the last dimension, as SOFTMAX1 does with that axis alone.

        Output[i, j, k, l] = exp(Input[i, j, k, l] - P[i, j, k]) / (sum over l' < Input.Sizes[3] of exp(Input[i, j, k,
            l'] - P[i, j, k]))     where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x, {1, .., 1, BatchCount, Width}. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_softmax_operator_desc>

    Examples
    --------
    >>> dml.activation_softmax(np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32))
    array([[[[0.09003057, 0.24472848, 0.66524094],
             [0.33333334, 0.33333334, 0.33333334]]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SOFTMAX", (input,), (), out, device)
    return result


def activation_softmax1(
    input: NDArray[Any],
    axes: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Divides e^x by the sum of e^x over all listed axes together: Output = exp(x - max) / sum(exp(x - max)).

    The quotient is exact and rounded once; max, the largest x of the sum, changes infinities alone: with +infinity in it,
    with NaN, or with -infinity alone, all results are NaN.

        Output[i, j, k, l] = exp(Input[i, j, k, l] - P[i, j, k]) / (sum over l' < Input.Sizes[3] of exp(Input[i, j, k,
            l'] - P[i, j, k]))     where P[i, j, k] = max over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    axes : Sequence[int], optional
        The axes that a sum runs over. By default, the last.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_softmax1_operator_desc>

    Examples
    --------
    >>> dml.activation_softmax1(np.array([[[[-1, 0, 1], [2, 2, 2]]]], np.float32), axes=(3,))
    array([[[[0.09003057, 0.24472848, 0.66524094],
             [0.33333334, 0.33333334, 0.33333334]]]], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SOFTMAX1", (input,), (axes,), out, device)
    return result


def activation_softplus(
    input: NDArray[Any],
    steepness: float = 1.0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the softplus function to every element: Output = ln(1 + exp(Steepness * x)) / Steepness.

        Output = log(1 + exp(Steepness * Input)) / Steepness

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    steepness : float, default 1.0
        How sharply the curve bends at 0.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_softplus_operator_desc>

    Examples
    --------
    >>> dml.activation_softplus(np.array([-1, 0, 2], np.float32))
    array([0.3132617, 0.6931472, 2.126928 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SOFTPLUS", (input,), (steepness,), out, device)
    return result


def activation_softsign(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the softsign function to every element: Output = x / (1 + |x|).

        Output = Input / (1 + abs(Input))

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_softsign_operator_desc>

    Examples
    --------
    >>> dml.activation_softsign(np.array([-1, 0, 3], np.float32))
    array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SOFTSIGN", (input,), (), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_swish_operator_desc>

    Examples
    --------
    >>> dml.activation_swish(np.array([-1, 0, 2], np.float32))
    array([-0.26894143,  0.        ,  1.7615942 ], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_SWISH", (input,), (sigmoid_input_scale,), out, device)
    return result


def activation_tanh(
    input: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the hyperbolic tangent to every element: Output = tanh(x) = (1 - exp(-2x)) / (1 + exp(-2x)).

        Output = tanh(Input)

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_tanh_operator_desc>

    Examples
    --------
    >>> dml.activation_tanh(np.array([-1, 0, 0.5], np.float32))
    array([-0.7615942 ,  0.        ,  0.46211717], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_TANH", (input,), (), out, device)
    return result


def activation_thresholded_relu(
    input: NDArray[Any],
    alpha: float = 1.0,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Applies the thresholded rectified linear unit to every element: Output = x if x > Alpha, else 0.

        Output = Input if Input > Alpha or is_nan(Input), else 0

    Parameters
    ----------
    input : NDArray[Any]
        The elements x. 1 to 8 dimensions of float32 or float16.
    alpha : float, default 1.0
        The threshold.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_activation_thresholded_relu_operator_desc>

    Examples
    --------
    >>> dml.activation_thresholded_relu(np.array([-1, 1, 2.5], np.float32))
    array([0. , 0. , 2.5], dtype=float32)
    """
    result: NDArray[Any] = call("ACTIVATION_THRESHOLDED_RELU", (input,), (alpha,), out, device)
    return result


def cast(
    input: NDArray[Any],
    *,
    output_data_type: DataType | DTypeLike,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Converts every element to the output's data type: Output = Input, as nearly as the type holds it.

    A float in an integer type is truncated toward zero and saturates, and NaN becomes 0. An integer in another integer type
    wraps modulo 2^bits. What becomes a float is rounded half to even. Bits of the same type are moved as they are.

        Output = Input

    Parameters
    ----------
    input : NDArray[Any]
        The elements to convert. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    output_data_type : DataType | DTypeLike
        The data type of the output.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The same elements in the output's data type. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_cast_operator_desc>

    Examples
    --------
    >>> dml.cast(np.array([2.7, -0.9, -3, 300, np.nan], np.float32), output_data_type='UINT8')
    array([  2,   0,   0, 255,   0], dtype=uint8)
    """
    result: NDArray[Any] = call("CAST", (input,), (), out, device, output_data_type=output_data_type)
    return result


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
    spatial dimension. What lies outside the input is no term; at the end, OutputPadding positions have no terms at all.

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
        A number for each output channel, {1, OutputChannelCount, 1, ..}. 3 to 5 dimensions of float32 or float16.
    mode : ConvolutionMode | str, default "CROSS_CORRELATION"
        Whether the filter is flipped. One of CONVOLUTION, CROSS_CORRELATION.
    direction : ConvolutionDirection | str, default "FORWARD"
        FORWARD, or BACKWARD: transposed. One of FORWARD, BACKWARD.
    strides : Sequence[int], optional
        Elements from one position of the filter to the next. By default, ones.
    dilations : Sequence[int], optional
        Elements from one element of the filter to the next. By default, ones.
    start_padding : Sequence[int], optional
        Elements before the input that are no terms. By default, zeros.
    end_padding : Sequence[int], optional
        Elements after the input that are no terms. By default, zeros.
    output_padding : Sequence[int], optional
        Positions at the output's end without terms. By default, zeros.
    group_count : int, default 1
        Groups that the channels are divided into.
    fused_activation : Desc, optional
        The function f of the exact sum; without it, the sum.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        {BatchCount, OutputChannelCount, .., OutputWidth}. 3 to 5 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_convolution_operator_desc>

    Examples
    --------
    >>> dml.convolution(
    ...     np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3),
    ...     np.array([[[[1, 2], [3, 4]]]], np.float32),
    ...     np.array([[[[-47]]]], np.float32),
    ...     strides=(1, 1),
    ...     dilations=(1, 1),
    ...     start_padding=(0, 0),
    ...     end_padding=(0, 0),
    ...     output_padding=(0, 0),
    ...     fused_activation=dml.ActivationRelu(),
    ... )
    array([[[[ 0.,  0.],
             [20., 30.]]]], dtype=float32)
    """
    result: NDArray[Any] = call(
        "CONVOLUTION",
        (input, filter, bias),
        (mode, direction, strides, dilations, start_padding, end_padding, output_padding, group_count, fused_activation),
        out,
        device,
    )
    return result


def dequantize(
    input: NDArray[Any],
    quantizations: Sequence[NDArray[Any]],
    quantization_type: QuantizationType | str | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Dequantizes every element by its block: Output = (Input - ZeroPoint) * Scale.

    A dimension in which the quantization tensors have n elements is cut into n blocks of equal size: 1 is a scale for all,
    and the input's own size is one for each. The product is exact and rounded once. Without a zero point, it is 0 in a signed
    type, and the middle of an unsigned one: 128 in UINT8, 8 in UINT4. (ONNX's would be 0, which is given as a tensor.)

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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The numbers that the elements stand for. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_dequantize_operator_desc>

    Examples
    --------
    >>> dml.dequantize(
    ...     np.array([[0, 1, 2, 3], [98, 102, 106, 110]], np.uint8),
    ...     [np.array([[2], [0.5]], np.float32), np.array([[0], [100]], np.uint8)],
    ...     quantization_type='SCALE_ZERO_POINT',
    ... )
    array([[ 0.,  2.,  4.,  6.],
           [-1.,  1.,  3.,  5.]], dtype=float32)
    """
    result: NDArray[Any] = call("DEQUANTIZE", (input, quantizations), (quantization_type,), out, device)
    return result


class DynamicQuantizeLinearOutputs(NamedTuple):
    """The outputs of `dynamic_quantize_linear`."""

    output: NDArray[Any]
    output_scale: NDArray[Any]
    output_zero_point: NDArray[Any]


def dynamic_quantize_linear(
    input: NDArray[Any],
    *,
    output_data_type: DataType | DTypeLike,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> DynamicQuantizeLinearOutputs:
    """Quantizes a tensor by the range of its elements, and gives the scale and the zero point that it used.

    OutputScale = (max - min) / (Max - Min), OutputZeroPoint = clamp(round(Min - min / OutputScale), Min, Max), and
    Output = clamp(round(Input / OutputScale) + OutputZeroPoint, Min, Max). Here min and max are the smallest and the largest
    element, 0 being counted as one and NaN as none; Min and Max are the limits of the output's type. The three quotients are
    rounded to FLOAT32, as ONNX does it, and round takes ties to even. Where the scale would be 0, it is 1, and the zero
    point 0. A quotient that is NaN gives Min.

        Output[i] = 0 if is_nan(float32(Input[i] / Scale[0])), else min(255, max(0, round(float32(Input[i] / Scale[0]))
            + ZeroPoint[0]))
        OutputScale[i] = Scale[0]
        OutputZeroPoint[i] = ZeroPoint[0]
        ZeroPoint[t] = uint8(0 if float32((max(0, max over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a]))
            - min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a]))) / 255) = 0, else 0 if
            is_nan(float32(min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else Input[a])) / Scale[0])),
            else min(255, max(0, round(0 - float32(min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else
            Input[a])) / Scale[0])))))
        Scale[t] = float32(1 if P = 0, else P)     where P = float32((max(0, max over a < Input.Sizes[0] of (0 if
            is_nan(Input[a]), else Input[a])) - min(0, min over a < Input.Sizes[0] of (0 if is_nan(Input[a]), else
            Input[a]))) / 255)

    Parameters
    ----------
    input : NDArray[Any]
        The elements to quantize. 1 to 8 dimensions of float32 or float16.
    output_data_type : DataType | DTypeLike
        The data type of the output.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The quantized elements. 1 to 8 dimensions of int8 or uint8.
    output_scale : array
        The scale, one element. 1 to 8 dimensions of float32.
    output_zero_point : array
        The zero point, one element of the output's type. 1 to 8 dimensions of int8 or uint8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_dynamic_quantize_linear_operator_desc>

    Examples
    --------
    >>> result = dml.dynamic_quantize_linear(
    ...     np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32),
    ...     output_data_type='UINT8',
    ... )
    >>> result.output
    array([153, 255,   0,  26, 221, 179], dtype=uint8)
    >>> result.output_scale
    array([0.01960784], dtype=float32)
    >>> result.output_zero_point
    array([153], dtype=uint8)
    """
    return DynamicQuantizeLinearOutputs(
        *call("DYNAMIC_QUANTIZE_LINEAR", (input,), (), out, device, output_data_type=output_data_type)
    )


def element_wise_add(
    a: NDArray[Any] | float,
    b: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The sums. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_add_operator_desc>

    Examples
    --------
    >>> dml.element_wise_add(np.array([1, 1.6777216e+07], np.float32), np.array([2, 1], np.float32))
    array([3.0000000e+00, 1.6777216e+07], dtype=float32)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_ADD", (a, b), (), out, device)
    return result


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
        The function f of the exact sum; without it, the sum.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The sums. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_add1_operator_desc>

    Examples
    --------
    >>> dml.element_wise_add1(
    ...     np.array([1, 2], np.float32),
    ...     np.array([0.5, -3], np.float32),
    ...     fused_activation=dml.ActivationRelu(),
    ... )
    array([1.5, 0. ], dtype=float32)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_ADD1", (a, b), (fused_activation,), out, device)
    return result


def element_wise_atan_yx(
    a: NDArray[Any] | float,
    b: NDArray[Any] | float,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Takes the angle of every point (B, A) from the x axis, in radians from -pi to pi: Output = atan2(A, B).

        Output = atan2(A, B)

    Parameters
    ----------
    a : NDArray[Any] | float
        The y coordinates. 1 to 8 dimensions of float32 or float16.
    b : NDArray[Any] | float
        The x coordinates. 1 to 8 dimensions of float32 or float16.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The angles in radians. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_atan_yx_operator_desc>

    Examples
    --------
    >>> dml.element_wise_atan_yx(np.array([1, -2, 0, 0], np.float32), np.array([1, -2, -1, 0], np.float32))
    array([ 0.7853982, -2.3561945,  3.1415927,  0.       ], dtype=float32)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_ATAN_YX", (a, b), (), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The numbers that the elements stand for. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_dequantize_linear_operator_desc>

    Examples
    --------
    >>> dml.element_wise_dequantize_linear(
    ...     np.array([0, 3, 128, 255], np.uint8),
    ...     np.array([2, 2, 2, 2], np.float32),
    ...     np.array([128, 128, 128, 128], np.uint8),
    ... )
    array([-256., -250.,    0.,  254.], dtype=float32)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_DEQUANTIZE_LINEAR", (input, scale, zero_point), (), out, device)
    return result


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
        A factor and a term for every x, exactly applied; without it, x.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 1 to 8 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_exp_operator_desc>

    Examples
    --------
    >>> dml.element_wise_exp(np.array([-0.5, 0, 1], np.float32), scale_bias=(2, 1))
    array([ 1.       ,  2.7182817, 20.085537 ], dtype=float32)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_EXP", (input,), (scale_bias,), out, device)
    return result


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

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). All of it is
    exact but the one rounding, half to even. An absent zero point is 0; a quotient that is NaN gives Min.

        Output[i] = 0 if is_nan(P[i]), else min(255, max(0, round(P[i]) + OutputZeroPoint[0]))     where P[i] = ((A[i] -
            AZeroPoint[0]) * AScale[0] + (B[i] - BZeroPoint[0]) * BScale[0]) / OutputScale[0]

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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The sums. 1 to 8 dimensions of int8 or uint8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantized_linear_add_operator_desc>

    Examples
    --------
    >>> dml.element_wise_quantized_linear_add(
    ...     np.array([0, 100, 200, 255], np.uint8),
    ...     np.array([0.1], np.float32),
    ...     np.array([10, 20, 30, 100], np.uint8),
    ...     np.array([0.5], np.float32),
    ...     np.array([0.2], np.float32),
    ...     np.array([128], np.uint8),
    ...     np.array([0], np.uint8),
    ...     np.array([64], np.uint8),
    ... )
    array([ 25, 100, 175, 255], dtype=uint8)
    """
    result: NDArray[Any] = call(
        "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
        (a, a_scale, a_zero_point, b, b_scale, b_zero_point, output_scale, output_zero_point),
        (),
        out,
        device,
    )
    return result


def element_wise_quantize_linear(
    input: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    zero_point: NDArray[Any] | float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Quantizes every element: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    The quotient is rounded to FLOAT32, as ONNX does it, and round takes ties to even. Min and Max are the
    limits of the output's type. An absent zero point is 0; a quotient that is NaN gives Min.

        Output = 0 if is_nan(float32(Input / Scale)), else min(255, max(0, round(float32(Input / Scale)) + ZeroPoint))

    Parameters
    ----------
    input : NDArray[Any] | float
        The elements to quantize. 1 to 8 dimensions of float32, float16 or int32.
    scale : NDArray[Any] | float
        A scale for each element. 1 to 8 dimensions of float32 or float16.
    zero_point : NDArray[Any] | float, optional
        A zero point for each element, of the output's type. 1 to 8 dimensions of int8 or uint8.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The quantized elements. 1 to 8 dimensions of int8 or uint8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantize_linear_operator_desc>

    Examples
    --------
    >>> dml.element_wise_quantize_linear(
    ...     np.array([0, 2, 3, 1000, -254, -1000], np.float32),
    ...     np.full((6,), 2, np.float32),
    ...     np.full((6,), 128, np.uint8),
    ... )
    array([128, 129, 130, 255,   1,   0], dtype=uint8)
    """
    result: NDArray[Any] = call("ELEMENT_WISE_QUANTIZE_LINEAR", (input, scale, zero_point), (), out, device)
    return result


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
        The sizes of the output, which do not follow from the inputs.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The tensor to fill. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_fill_value_constant_operator_desc>

    Examples
    --------
    >>> dml.fill_value_constant('FLOAT32', 13.0, output_sizes=(1, 1, 2, 4))
    array([[[[13., 13., 13., 13.],
             [13., 13., 13., 13.]]]], dtype=float32)
    """
    result: NDArray[Any] = call("FILL_VALUE_CONSTANT", (), (value_data_type, value), out, device, output_sizes=output_sizes)
    return result


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
        What each number adds to the one before.
    output_sizes : Sequence[int]
        The sizes of the output, which do not follow from the inputs.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The numbers; strides do not change their order. 1 to 8 dimensions of float32, float16, int32, int16, int8,
        uint32, uint16, uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_fill_value_sequence_operator_desc>

    Examples
    --------
    >>> dml.fill_value_sequence('FLOAT32', 3.0, 2.0, output_sizes=(3,))
    array([3., 5., 7.], dtype=float32)
    """
    result: NDArray[Any] = call(
        "FILL_VALUE_SEQUENCE", (), (value_data_type, value_start, value_delta), out, device, output_sizes=output_sizes
    )
    return result


def gather(
    input: NDArray[Any],
    indices: NDArray[Any],
    axis: int | None = None,
    index_dimensions: int | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copies the slices of Input along an axis that Indices name: NumPy's take(Input, Indices, Axis).

    The last IndexDimensions sizes of Indices stand in Input's sizes in the place of the axis; ones before them make as
    many dimensions as the tensors have. A negative index counts from the end.

        Output[i] = Input[Indices[i]]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to copy from. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    indices : NDArray[Any]
        The positions along Axis. 1 to 8 dimensions of uint32, int32, uint64 or int64.
    axis : int, optional
        The axis of Input that the indices count along. By default, 0.
    index_dimensions : int, optional
        How many dimensions of Indices count, the last ones; those before have size 1. By default, as many as the
        indices have.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The tensor to copy to. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.
    DataError
        an index lies between minus the size of the axis and that size, which it does not reach.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_operator_desc>

    Examples
    --------
    >>> dml.gather(
    ...     np.array([11, 12, 13, 14], np.float32),
    ...     np.array([3, 1, 3, 0, 2], np.uint32),
    ...     axis=0,
    ...     index_dimensions=1,
    ... )
    array([14., 12., 14., 11., 13.], dtype=float32)
    """
    result: NDArray[Any] = call("GATHER", (input, indices), (axis, index_dimensions), out, device)
    return result


def join(
    inputs: Sequence[NDArray[Any]],
    axis: int,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Lays tensors one after another along an axis: Output[.., o + i, ..] = `Input[n][.., i, ..]`.

    Here o is the sum of the sizes along the axis of the inputs before n. Bits are moved as they are.

        Output[i, j, k, l] = Input[0][i, j, k, l] if l < Input[0].Sizes[3], else Input[1][i, j, k, l -
            Input[0].Sizes[3]]

    Parameters
    ----------
    inputs : Sequence[NDArray[Any]]
        The tensors to join, alike in every dimension but Axis. 1 to 8 dimensions of float64, float32, float16, int32,
        int16, int8, uint32, uint16, uint8, int64 or uint64.
    axis : int
        The dimension to join along.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The tensors together. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_join_operator_desc>

    Examples
    --------
    >>> dml.join(
    ...     [np.array([[[[1, 2, 3], [4, 5, 6]]]], np.float32), np.arange(7, 15,
    ...         dtype=np.float32).reshape(1, 1, 2, 4)],
    ...     3,
    ... )
    array([[[[ 1.,  2.,  3.,  7.,  8.,  9., 10.],
             [ 4.,  5.,  6., 11., 12., 13., 14.]]]], dtype=float32)
    """
    result: NDArray[Any] = call("JOIN", (inputs,), (axis,), out, device)
    return result


class LstmOutputs(NamedTuple):
    """The outputs of `lstm`."""

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

    With X the step's input, i = f(X Wi + H Ri + Pi * C + Wbi + Rbi), F likewise, c = g(X Wc + H Rc + Wbc + Rbc), and
    o = f(X Wo + H Ro + Po * C' + Wbo + Rbo). CoupleInputForget makes F = 1 - i. ClipThreshold clips what f and g are
    applied to. H' and C' are rounded at each step, and nothing else is. BACKWARD goes from a sequence's end to its start,
    and every H' stands in OutputSequence at its own step; what lies beyond a sequence's length is 0.

        OutputSequence[i, j, k, l] = H[i, j, k, l] if i < min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]), else 0
        OutputSingle[i, j, k, l] = H[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        OutputCellSingle[i, j, k, l] = C[min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) - 1, j, k, l] if
            min(SequenceLengths[0, 0, 0, k], Input.Sizes[1]) > 0, else 0
        C[t, i, j, k] = float32(1 / (1 + exp(-((sum over k' < Input.Sizes[3] of Input[0, t, j, k'] * Weight[0, i, (2 *
            Recurrence.Sizes[3]) + k, k']) + (sum over u < Recurrence.Sizes[3] of H[t - 1, i, j, u] * Recurrence[0, i,
            (2 * Recurrence.Sizes[3]) + k, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, i, j, u]
            * Recurrence[0, i, (2 * Recurrence.Sizes[3]) + k, u]) + Peephole[0, 0, i, (2 * Recurrence.Sizes[3]) + k] *
            (C[t - 1, i, j, k] if t > 0, else CellMemInit[0, i, j, k]) + Bias[0, 0, i, (2 * Recurrence.Sizes[3]) + k] +
            Bias[0, 0, i, (2 * Recurrence.Sizes[3]) + k + (4 * Recurrence.Sizes[3])]))) * (C[t - 1, i, j, k] if t > 0,
            else CellMemInit[0, i, j, k]) + 1 / (1 + exp(-((sum over k' < Input.Sizes[3] of Input[0, t, j, k'] *
            Weight[0, i, k, k']) + (sum over u < Recurrence.Sizes[3] of H[t - 1, i, j, u] * Recurrence[0, i, k, u] if t
            > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, i, j, u] * Recurrence[0, i, k, u]) + Peephole[0,
            0, i, k] * (C[t - 1, i, j, k] if t > 0, else CellMemInit[0, i, j, k]) + Bias[0, 0, i, k] + Bias[0, 0, i, k +
            (4 * Recurrence.Sizes[3])]))) * tanh((sum over k' < Input.Sizes[3] of Input[0, t, j, k'] * Weight[0, i, (3 *
            Recurrence.Sizes[3]) + k, k']) + (sum over u < Recurrence.Sizes[3] of H[t - 1, i, j, u] * Recurrence[0, i,
            (3 * Recurrence.Sizes[3]) + k, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, i, j, u]
            * Recurrence[0, i, (3 * Recurrence.Sizes[3]) + k, u]) + Bias[0, 0, i, (3 * Recurrence.Sizes[3]) + k] +
            Bias[0, 0, i, (3 * Recurrence.Sizes[3]) + k + (4 * Recurrence.Sizes[3])]) if t < min(SequenceLengths[0, 0,
            0, j], Input.Sizes[1]), else 0)
        H[t, i, j, k] = float32(1 / (1 + exp(-((sum over k' < Input.Sizes[3] of Input[0, t, j, k'] * Weight[0, i,
            Recurrence.Sizes[3] + k, k']) + (sum over u < Recurrence.Sizes[3] of H[t - 1, i, j, u] * Recurrence[0, i,
            Recurrence.Sizes[3] + k, u] if t > 0, else sum over u < Recurrence.Sizes[3] of HiddenInit[0, i, j, u] *
            Recurrence[0, i, Recurrence.Sizes[3] + k, u]) + Peephole[0, 0, i, Recurrence.Sizes[3] + k] * C[t, i, j, k] +
            Bias[0, 0, i, Recurrence.Sizes[3] + k] + Bias[0, 0, i, Recurrence.Sizes[3] + k + (4 *
            Recurrence.Sizes[3])]))) * tanh(C[t, i, j, k]) if t < min(SequenceLengths[0, 0, 0, j], Input.Sizes[1]), else
            0)

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
        H before the first step, {1, num_directions, batch_size, hidden_size}; absent, 0. 4 dimensions of float32 or
        float16.
    cell_mem_init : NDArray[Any], optional
        C before the first step, {1, num_directions, batch_size, hidden_size}; absent, 0. 4 dimensions of float32 or
        float16.
    sequence_lengths : NDArray[Any], optional
        How many steps each sequence has, {1, 1, 1, batch_size}; absent, all. 4 dimensions of uint32.
    peephole : NDArray[Any], optional
        The weights P of gates i, o, f, {1, 1, num_directions, 3 * hidden_size}; absent, 0. 4 dimensions of float32 or
        float16.
    activation_descs : Sequence[Desc], optional
        The functions f, g, h of each direction. By default, SIGMOID, TANH, TANH for each direction.
    direction : RecurrentNetworkDirection | str, default "FORWARD"
        FORWARD, BACKWARD, or BIDIRECTIONAL: forward, then backward. One of FORWARD, BACKWARD, BIDIRECTIONAL.
    clip_threshold : float, default 0.0
        The limit of magnitudes.
    use_clip_threshold : bool, default False
        Whether it limits.
    couple_input_forget : bool, default False
        Whether F is 1 - i.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output_sequence : array or None
        H' of every step, {seq_length, num_directions, batch_size, hidden_size}. 4 dimensions of float32 or float16.
    output_single : array or None
        H' of the last step, {1, num_directions, batch_size, hidden_size}. 4 dimensions of float32 or float16.
    output_cell_single : array or None
        C' of the last step, {1, num_directions, batch_size, hidden_size}. 4 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_lstm_operator_desc>

    Examples
    --------
    >>> result = dml.lstm(
    ...     np.array([[[[1]], [[2]]]], np.float32),
    ...     np.array([[[[0.1], [0.2], [0.3], [0.4]]]], np.float32),
    ...     np.array([[[[0.5], [0.6], [0.7], [0.8]]]], np.float32),
    ...     np.array([[[[0.01, 0.02, 0.03, 0.04, 0, 0, 0, 0]]]], np.float32),
    ...     np.array([[[[0.1]]]], np.float32),
    ...     np.array([[[[0.2]]]], np.float32),
    ...     np.array([[[[2]]]], np.uint32),
    ...     np.array([[[[0.05, 0.06, 0.07]]]], np.float32),
    ...     activation_descs=[dml.ActivationSigmoid(), dml.ActivationTanh(), dml.ActivationTanh()],
    ... )
    >>> result.output_sequence
    array([[[[0.20835686]]],
    <BLANKLINE>
    <BLANKLINE>
           [[[0.39145184]]]], dtype=float32)
    >>> result.output_single
    array([[[[0.39145184]]]], dtype=float32)
    >>> result.output_cell_single
    array([[[[0.70732635]]]], dtype=float32)
    """
    return LstmOutputs(
        *call(
            "LSTM",
            (input, weight, recurrence, bias, hidden_init, cell_mem_init, sequence_lengths, peephole),
            (activation_descs, direction, clip_threshold, use_clip_threshold, couple_input_forget),
            out,
            device,
        )
    )


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

    A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point is 0. A sum that INT32 lacks wraps modulo 2^32.

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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The products, {BatchCount, ChannelCount, M, N}. 2 to 4 dimensions of int32.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_matrix_multiply_integer_operator_desc>

    Examples
    --------
    >>> dml.matrix_multiply_integer(
    ...     np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8),
    ...     np.array([[1, 4], [2, 5], [3, 6]], np.uint8),
    ...     np.array([12], np.uint8),
    ...     np.array([0], np.uint8),
    ... )
    array([[ -38,  -83],
           [ -44,  -98],
           [ -50, -113],
           [ -56, -128]], dtype=int32)
    """
    return _matmuls.matrix_multiply_integer(a, b, a_zero_point, b_zero_point, out=out, device=device)


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
    """Surrounds a tensor with more elements: Output[c] = Input[c - StartPadding], and by the mode beyond the input.

    CONSTANT is PaddingValue there, in an integer tensor truncated toward zero and saturated. EDGE is the nearest element.
    REFLECTION goes back and forth with the ends once each, SYMMETRIC with the ends twice each, and WRAP starts again.

        Output[i, j, k, l] = Input[i - StartPadding[0], j - StartPadding[1], k - StartPadding[2], l - StartPadding[3]]
            where it exists, else PaddingValue

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to pad. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    padding_mode : PaddingMode | str, default "CONSTANT"
        What lies beyond the input. One of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP.
    padding_value : float, default 0.0
        What CONSTANT pads with; other modes ignore it.
    start_padding : Sequence[int]
        Elements before the input, in each dimension.
    end_padding : Sequence[int]
        Elements after the input, in each dimension.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The padded tensor. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_padding_operator_desc>

    Examples
    --------
    >>> dml.padding(
    ...     np.array([[[[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]]], np.float32),
    ...     padding_value=9.0,
    ...     start_padding=(0, 0, 1, 2),
    ...     end_padding=(0, 0, 3, 4),
    ... )
    array([[[[9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 1., 2., 3., 4., 9., 9., 9., 9.],
             [9., 9., 5., 6., 7., 8., 9., 9., 9., 9.],
             [9., 9., 1., 2., 3., 4., 9., 9., 9., 9.],
             [9., 9., 5., 6., 7., 8., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.]]]], dtype=float32)
    """
    result: NDArray[Any] = call("PADDING", (input,), (padding_mode, padding_value, start_padding, end_padding), out, device)
    return result


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
    """Surrounds a tensor with more elements: Output[c] = Input[c - StartPadding], and by the mode beyond the input.

    CONSTANT is PaddingValue there. EDGE is the nearest element. REFLECTION goes back and forth with the ends once each,
    SYMMETRIC with the ends twice each, and WRAP starts again. Bits are moved as they are.

        Output[i, j, k, l] = Input[i - StartPadding[0], j - StartPadding[1], k - StartPadding[2], l - StartPadding[3]]
            where it exists, else PaddingValue

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to pad. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    padding_mode : PaddingMode | str, default "CONSTANT"
        What lies beyond the input. One of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP.
    padding_value_data_type : DataType | DTypeLike, optional
        The type of PaddingValue. By default, the input's.
    padding_value : float, default 0
        What CONSTANT pads with; other modes ignore it.
    start_padding : Sequence[int]
        Elements before the input, in each dimension.
    end_padding : Sequence[int]
        Elements after the input, in each dimension.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The padded tensor. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_padding1_operator_desc>

    Examples
    --------
    >>> dml.padding1(
    ...     np.array([[[[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]]], np.float32),
    ...     padding_value_data_type='FLOAT32',
    ...     padding_value=9.0,
    ...     start_padding=(0, 0, 1, 2),
    ...     end_padding=(0, 0, 3, 4),
    ... )
    array([[[[9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 1., 2., 3., 4., 9., 9., 9., 9.],
             [9., 9., 5., 6., 7., 8., 9., 9., 9., 9.],
             [9., 9., 1., 2., 3., 4., 9., 9., 9., 9.],
             [9., 9., 5., 6., 7., 8., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.],
             [9., 9., 9., 9., 9., 9., 9., 9., 9., 9.]]]], dtype=float32)
    """
    result: NDArray[Any] = call(
        "PADDING1", (input,), (padding_mode, padding_value_data_type, padding_value, start_padding, end_padding), out, device
    )
    return result


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

    A dimension in which the quantization tensors have n elements is cut into n blocks of equal size: 1 is a scale for all,
    and the input's own size is one for each. The quotient is rounded to FLOAT32, as ONNX does it, and round takes ties to
    even. Min and Max are the limits of the output's type; a quotient that is NaN gives Min. Without a zero point, it is 0 in
    a signed type, and the middle of an unsigned one: 128 in UINT8, 8 in UINT4. (ONNX's would be 0, which is given as a
    tensor.)

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
        The data type of the output, where no input says it.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The quantized elements. 1 to 8 dimensions of int8, int4, uint8 or uint4.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_quantize_operator_desc>

    Examples
    --------
    >>> dml.quantize(
    ...     np.array([[0, 2, 4, 6], [-1, 1, 3, 5]], np.float32),
    ...     [np.array([[2], [0.5]], np.float32), np.array([[0], [100]], np.uint8)],
    ...     quantization_type='SCALE_ZERO_POINT',
    ... )
    array([[  0,   1,   2,   3],
           [ 98, 102, 106, 110]], dtype=uint8)
    """
    result: NDArray[Any] = call(
        "QUANTIZE", (input, quantizations), (quantization_type,), out, device, output_data_type=output_data_type
    )
    return result


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

    dequantize(x) = (x - ZeroPoint) * Scale; quantize(x) = clamp(round(x / Scale) + ZeroPoint, Min, Max). All of it is
    exact but the one rounding, half to even. A is {.., M, K}, B {.., K, N}, Output {.., M, N}. An absent zero point is 0.

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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The products, {BatchCount, ChannelCount, M, N}. 2 to 4 dimensions of int8 or uint8.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.
    DataError
        a scale must not be 0, infinite or NaN.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_quantized_linear_matrix_multiply_operator_desc>

    Examples
    --------
    >>> dml.quantized_linear_matrix_multiply(
    ...     np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8),
    ...     np.array([0.0066], np.float32),
    ...     np.array([113], np.uint8),
    ...     np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8),
    ...     np.array([0.00705], np.float32),
    ...     np.array([114], np.uint8),
    ...     np.array([0.0107], np.float32),
    ...     np.array([118], np.uint8),
    ... )
    array([[168, 115, 255],
           [  1,  66, 151]], dtype=uint8)
    """
    return _matmuls.quantized_linear_matrix_multiply(
        a,
        a_scale,
        a_zero_point,
        b,
        b_scale,
        b_zero_point,
        output_scale,
        output_zero_point,
        output_data_type=output_data_type,
        out=out,
        device=device,
    )


class RandomGeneratorOutputs(NamedTuple):
    """The outputs of `random_generator`."""

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

    The state is a counter of four words, least significant first, and a key of two. Step n has the counter n further on,
    modulo 2^128, and the same key. The output state is that after the steps that were taken: go on from there.

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
        The sizes of the output, which do not follow from the inputs.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The random bits. 1 to 8 dimensions of uint32.
    output_state : array or None
        The state to go on from, as large as the input state. 1 to 8 dimensions of uint32.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_random_generator_operator_desc>

    Examples
    --------
    >>> result = dml.random_generator(np.array([[[[0, 0, 0, 0, 1, 2]]]], np.uint32), output_sizes=(5,))
    >>> result.output
    array([  93904442, 2563932206,  655331230, 3937864147, 1593998110],
          dtype=uint32)
    >>> result.output_state
    array([[[[2, 0, 0, 0, 1, 2]]]], dtype=uint32)
    """
    return RandomGeneratorOutputs(*call("RANDOM_GENERATOR", (input_state,), (type,), out, device, output_sizes=output_sizes))


def reduce(
    input: NDArray[Any],
    function: ReduceFunction | str,
    axes: Sequence[int] | None = None,
    *,
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
    axes : Sequence[int], optional
        The axes that are reduced. By default, all.
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results; reduced axes have size 1. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32,
        uint16, uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc>

    Examples
    --------
    >>> dml.reduce(np.array([[[[1, 2, 3], [3, 0, 4], [2, 4, 2]]]], np.float32), 'SUM', axes=(2,))
    array([[[[6., 6., 9.]]]], dtype=float32)
    """
    result: NDArray[Any] = call("REDUCE", (input,), (function, axes), out, device)
    return result


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The tensor to copy to. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_slice_operator_desc>

    Examples
    --------
    >>> dml.slice(
    ...     np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4),
    ...     (0, 0, 1, 2),
    ...     (1, 1, 3, 2),
    ...     strides=(1, 1, 1, 1),
    ... )
    array([[[[ 7.,  8.],
             [11., 12.],
             [15., 16.]]]], dtype=float32)
    """
    return _slices.slice(input, offsets, sizes, strides, out=out, device=device)


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
    """Copies the elements that a window with a signed stride in each dimension meets.

    Output[c] = Input[start + stride * c], where start is the window's first element, or its last where the stride is
    negative. The output may be smaller than the window allows: it is then the leading part.

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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The tensor to copy to. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_slice1_operator_desc>

    Examples
    --------
    >>> dml.slice1(
    ...     np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4),
    ...     (0, 0, 0, 1),
    ...     (1, 1, 4, 3),
    ...     input_window_strides=(1, 1, 2, 2),
    ... )
    array([[[[ 2.,  4.],
             [10., 12.]]]], dtype=float32)
    """
    return _slices.slice1(
        input, input_window_offsets, input_window_sizes, input_window_strides, output_sizes=output_sizes, out=out, device=device
    )


def split(
    input: NDArray[Any],
    axis: int | None = None,
    *,
    output_sizes: Sequence[Sequence[int]],
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
) -> list[NDArray[Any]]:
    """Cuts a tensor into parts along an axis: `Output[n][.., i, ..]` = Input[.., o + i, ..].

    Here o is the sum of the sizes along the axis of the outputs before n. Bits are moved as they are.

        Output[0] = Input
        Output[1][i, j, k, l] = Input[i, j, k + Output[0].Sizes[2], l]
        Output[2][i, j, k, l] = Input[i, j, k + (Output[0].Sizes[2] + Output[1].Sizes[2]), l]

    Parameters
    ----------
    input : NDArray[Any]
        The tensor to cut. 1 to 8 dimensions of float64, float32, float16, int32, int16, int8, uint32, uint16, uint8,
        int64 or uint64.
    axis : int, optional
        The dimension to cut along. By default, 0.
    output_sizes : Sequence[Sequence[int]]
        The sizes of the output, which do not follow from the inputs.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    outputs : list of arrays
        The parts, alike in every dimension but Axis. 1 to 8 dimensions of float64, float32, float16, int32, int16,
        int8, uint32, uint16, uint8, int64 or uint64.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_split_operator_desc>

    Examples
    --------
    >>> result = dml.split(
    ...     np.arange(1, 13, dtype=np.float32).reshape(1, 1, 6, 2),
    ...     axis=2,
    ...     output_sizes=[(1, 1, 2, 2), (1, 1, 1, 2), (1, 1, 3, 2)],
    ... )
    >>> result[0]
    array([[[[1., 2.],
             [3., 4.]]]], dtype=float32)
    >>> result[1]
    array([[[[5., 6.]]]], dtype=float32)
    >>> result[2]
    array([[[[ 7.,  8.],
             [ 9., 10.],
             [11., 12.]]]], dtype=float32)
    """
    result: list[NDArray[Any]] = call("SPLIT", (input,), (axis,), out, device, output_sizes=output_sizes)
    return result


class TopKOutputs(NamedTuple):
    """The outputs of `top_k`."""

    output_value: NDArray[Any]
    output_index: NDArray[Any]


def top_k(
    input: NDArray[Any],
    axis: int,
    k: int,
    *,
    out: Sequence[Any] | None = None,
    device: Device | str | None = None,
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
        The axis along which the lines lie.
    k : int
        How many elements of a line are selected.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output_value : array
        The selected elements, in order. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    output_index : array
        The position of each along Axis. 1 to 8 dimensions of uint64 or uint32.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_top_k_operator_desc>

    Examples
    --------
    >>> result = dml.top_k(np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32), 3, 2)
    >>> result.output_value
    array([[[[11., 10.],
             [ 9.,  8.],
             [ 7.,  6.]]]], dtype=float32)
    >>> result.output_index
    array([[[[3, 2],
             [2, 3],
             [3, 2]]]], dtype=uint32)
    """
    return TopKOutputs(*call("TOP_K", (input,), (axis, k), out, device))


class TopK1Outputs(NamedTuple):
    """The outputs of `top_k1`."""

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

    OutputValue is Input at OutputIndex, bit by bit. Equal elements keep the order of their positions in both directions;
    zeros of both signs are equal, and NaN counts above +infinity.

        OutputValue[i, j, k, l] = Input[i, j, k, position l in increasing order over l' < Input.Sizes[3] of Input[i, j,
            k, l']]
        OutputIndex[i, j, k, l] = position l in increasing order over l' < Input.Sizes[3] of Input[i, j, k, l']

    Parameters
    ----------
    input : NDArray[Any]
        The lines. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16, uint8, int64 or uint64.
    axis : int
        The axis along which the lines lie.
    k : int
        How many elements of a line are selected.
    axis_direction : AxisDirection | str, default "DECREASING"
        INCREASING: the smallest, smallest first; DECREASING: the largest. One of INCREASING, DECREASING.
    out : Sequence[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output_value : array
        The selected elements, in order. 1 to 8 dimensions of float32, float16, int32, int16, int8, uint32, uint16,
        uint8, int64 or uint64.
    output_index : array
        The position of each along Axis. 1 to 8 dimensions of uint64 or uint32.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_top_k1_operator_desc>

    Examples
    --------
    >>> result = dml.top_k1(
    ...     np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32),
    ...     3,
    ...     3,
    ...     axis_direction='INCREASING',
    ... )
    >>> result.output_value
    array([[[[1., 2., 2.],
             [3., 4., 5.],
             [6., 6., 6.]]]], dtype=float32)
    >>> result.output_index
    array([[[[0, 1, 2],
             [0, 1, 2],
             [0, 1, 2]]]], dtype=uint32)
    """
    return TopK1Outputs(*call("TOP_K1", (input,), (axis, k, axis_direction), out, device))


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
    out : NDArray[Any], optional
        Where to write: an array of the result's sizes and data type; without it, a fresh one.
    device : Device | str, optional
        Where to compute: a device, or "cpu" or "reference"; without it, the cpu.

    Returns
    -------
    output : array
        The results. 4 dimensions of float32 or float16.

    Raises
    ------
    BindingError
        Arguments do not fit one another, or an array is none that DirectML has.
    DescError
        A documented rule of the operator is broken.

    Notes
    -----
    DirectML's page: <https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_value_scale_2d_operator_desc>

    Examples
    --------
    >>> dml.value_scale_2d(
    ...     np.array([[[[0, 128]], [[64, 192]], [[128, 255]]]], np.float32),
    ...     0.0078125,
    ...     (-1, -1, -0.5),
    ... )
    array([[[[-1.       ,  0.       ]],
    <BLANKLINE>
            [[-0.5      ,  0.5      ]],
    <BLANKLINE>
            [[ 0.5      ,  1.4921875]]]], dtype=float32)
    """
    result: NDArray[Any] = call("VALUE_SCALE_2D", (input,), (scale, bias), out, device)
    return result
