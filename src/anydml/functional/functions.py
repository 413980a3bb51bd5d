"""The eager function of every operator: arrays in, arrays out, sizes inferred, every rule checked.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anydml.functional import matrix_multiply as _matmuls
from anydml.functional import slice as _slices
from anydml.functional.call import call

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from anydml.devices.device import Device
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


def element_wise_quantize_linear(
    input: NDArray[Any] | float,
    scale: NDArray[Any] | float,
    zero_point: NDArray[Any] | float | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Quantizes every element: Output = clamp(round(Input / Scale) + ZeroPoint, Min, Max).

    The quotient is rounded to the scale's type, as ONNX defines it, and round takes ties to even. Min and Max are the
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
        a scale is not 0, infinite or NaN.

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
