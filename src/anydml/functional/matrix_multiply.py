"""Eager QUANTIZED_LINEAR_MATRIX_MULTIPLY and MATRIX_MULTIPLY_INTEGER."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import Device, device_of
from anydml.errors import BindingError, DataError, DescError, Error
from anydml.fork_safety import guard
from anydml.functional.parameters import output_dtypes, same_dimension_count, scale, zero_point
from anydml.functional.run import (
    Signature,
    as_node,
    contiguous,
    deliver,
    fail,
    operator_of,
    output_desc,
    output_signature,
    signature,
    tensor,
    unspellable,
)
from anydml.tensor import DataType, TensorDesc

Number = float | np.floating[Any]
ZeroPoint = int | np.integer[Any] | NDArray[Any] | None


def matrix_multiply_integer(
    a: NDArray[Any],
    b: NDArray[Any],
    a_zero_point: ZeroPoint = None,
    b_zero_point: ZeroPoint = None,
    *,
    out: NDArray[np.int32] | None = None,
    device: Device | str | None = None,
) -> NDArray[np.int32]:
    """(a - a_zero_point) @ (b - b_zero_point) in int32, wrapping modulo 2^32: DML_OPERATOR_MATRIX_MULTIPLY_INTEGER.

    a {.., M, K} and b {.., K, N}, int8 or uint8, 2 to 4 dimensions; leading ones broadcast as np.matmul's do. Zero points:
    None, a Python integer, or in its matrix's type a scalar, an array of one entry per row of a or column of b, or one of
    full DirectML sizes. BindingError for arguments that do not fit one another, DescError for other rules.
    Source: ns-directml-dml_matrix_multiply_integer_operator_desc.
    """
    try:
        left, right, into = _matrices(a, b, out)
        inputs = {"a_tensor": left, "b_tensor": right}
        if a_zero_point is not None:
            inputs["a_zero_point_tensor"] = zero_point("a_zero_point", a_zero_point, "row", left.dtype)
        if b_zero_point is not None:
            inputs["b_zero_point_tensor"] = zero_point("b_zero_point", b_zero_point, "column", right.dtype)
        same_dimension_count(inputs)
        operator = device_of(device).cached(_integer, into, tuple([(name, signature(x)) for name, x in inputs.items()]))
        return deliver(operator, out, inputs)
    except (BindingError, DescError) as error:
        arguments = {"a": a, "b": b, "a_zero_point": a_zero_point, "b_zero_point": b_zero_point}
        node: NDArray[np.int32] | None = as_node(
            lambda given, on: matrix_multiply_integer(*given, device=on), [*arguments.values()], out, device
        )
        if node is not None:
            return node
        raise _explained(error, "MATRIX_MULTIPLY_INTEGER", device, arguments, out) from None


def _integer(device: Device, out: Signature | None, inputs: tuple[tuple[str, Signature], ...]) -> CompiledOperator:
    descs: dict[str, Any] = {name: TensorDesc.of_layout(*x) for name, x in inputs}
    packed = TensorDesc(DataType.INT32, (*descs["a_tensor"].sizes[:-1], descs["b_tensor"].sizes[-1]))
    made: Any = operator_of("MATRIX_MULTIPLY_INTEGER")
    return device.compile(made(**descs, output_tensor=output_desc(packed, out)))


def quantized_linear_matrix_multiply(
    a: NDArray[Any],
    a_scale: Number | NDArray[Any],
    a_zero_point: ZeroPoint,
    b: NDArray[Any],
    b_scale: Number | NDArray[Any],
    b_zero_point: ZeroPoint,
    output_scale: Number | NDArray[Any],
    output_zero_point: ZeroPoint,
    *,
    output_data_type: DataType | DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """quantize(dequantize(a) @ dequantize(b)), exact: DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY.

    Rounded once, half to even. a {.., M, K} and b {.., K, N}, int8 or uint8, 2 to 4 dimensions; leading ones broadcast as
    np.matmul's do. A scale is a Python number, or an array or scalar of float32 or float64, rounded once to float32; a zero
    point is None, a Python integer, or an array or scalar of its tensor's type. Arrays are one value, an entry per row (a,
    output) or column (b), or of full DirectML sizes. The result is int8 or uint8: output_zero_point's type where that is not
    a Python integer, else output_data_type, out's, or a's; those given must agree. BindingError for arguments that do not fit
    one another, DescError for other rules; DataError for a scale that is 0, infinite or NaN.
    Source: ns-directml-dml_quantized_linear_matrix_multiply_operator_desc.
    """
    try:
        left, right, into = _matrices(a, b, out)
        dtype = next(iter(output_dtypes(output_zero_point, output_data_type, out).values()), left.dtype)
        inputs = {
            "a_tensor": left,
            "a_scale_tensor": scale("a_scale", a_scale, "row"),
            "b_tensor": right,
            "b_scale_tensor": scale("b_scale", b_scale, "column"),
            "output_scale_tensor": scale("output_scale", output_scale, "row"),
        }
        if a_zero_point is not None:
            inputs["a_zero_point_tensor"] = zero_point("a_zero_point", a_zero_point, "row", left.dtype)
        if b_zero_point is not None:
            inputs["b_zero_point_tensor"] = zero_point("b_zero_point", b_zero_point, "column", right.dtype)
        if output_zero_point is not None:
            inputs["output_zero_point_tensor"] = zero_point("output_zero_point", output_zero_point, "row", dtype)
        same_dimension_count(inputs)
        described = tuple([(name, signature(x)) for name, x in inputs.items()])
        operator = device_of(device).cached(_quantized, dtype, into, described)
        return deliver(operator, out, inputs)
    except (BindingError, DataError, DescError) as error:
        arguments = {
            "a": a,
            "a_scale": a_scale,
            "a_zero_point": a_zero_point,
            "b": b,
            "b_scale": b_scale,
            "b_zero_point": b_zero_point,
            "output_scale": output_scale,
            "output_zero_point": output_zero_point,
        }
        node: NDArray[Any] | None = as_node(
            lambda given, on: quantized_linear_matrix_multiply(*given, output_data_type=output_data_type, device=on),
            [*arguments.values()],
            out,
            device,
        )
        if node is not None:
            return node
        raise _explained(error, "QUANTIZED_LINEAR_MATRIX_MULTIPLY", device, arguments, out, output_data_type) from None


def _quantized(
    device: Device, dtype: np.dtype[Any], out: Signature | None, inputs: tuple[tuple[str, Signature], ...]
) -> CompiledOperator:
    descs: dict[str, Any] = {name: TensorDesc.of_layout(*x) for name, x in inputs}
    sizes = (*descs["a_tensor"].sizes[:-1], descs["b_tensor"].sizes[-1])
    made: Any = operator_of("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
    return device.compile(made(**descs, output_tensor=output_desc(TensorDesc(DataType.of(dtype), sizes), out)))


def _explained(error: Error, operator: str, *call: Any) -> Error:
    with guard:  # here and not above: only a call that fails needs it
        from anydml.functional.faults import matmul_error
    desc: Any = operator_of(operator)
    return matmul_error(error, desc, *call)


def _matrices(a: Any, b: Any, out: Any) -> tuple[NDArray[Any], NDArray[Any], Signature | None]:
    """A and B with their leading sizes broadcast by strides of 0, and the layout of `out`."""
    a, b = tensor("a", a), tensor("b", b)
    into = output_signature(out, a=a, b=b)
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 2:
            raise fail(name, f"has shape {x.shape}, and a matrix has 2 to 4 dimensions")
    a, b = (contiguous(x) if unspellable(x) else x for x in (a, b))
    if a.shape[:-2] == b.shape[:-2]:
        return a, b, into
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise fail("b", f"has shape {b.shape}, whose leading sizes do not broadcast with those of a, {a.shape}") from None
    return np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:])), into
