"""`requantize`: the last step of quantised products on sums that the caller has, with the rounding of the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.chunking.part import Stated, built
from anydml.devices.binding import as_array
from anydml.devices.device import Device, device_of
from anydml.devices.judging import data_check
from anydml.errors import BindingError, Fault
from anydml.exact.float32 import round_to_float32
from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply
from anydml.schema.constraint import DataRule
from anydml.schema.expression import Tensor, clamp, each, half_to_even
from anydml.schema.statement import nest
from anydml.tensor import DataType, TensorDesc, as_data_type, limits

SUMS = (np.dtype(np.int32), np.dtype(np.int64))
QUANTISED = (DataType.UINT8, DataType.INT8)


def requantize(
    sums: NDArray[Any],
    a_scale: NDArray[Any] | float,
    b_scale: NDArray[Any] | float,
    output_scale: NDArray[Any] | float,
    output_zero_point: NDArray[Any] | int | None = None,
    *,
    output_data_type: Any = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """The bytes that QUANTIZED_LINEAR_MATRIX_MULTIPLY makes of its sums of products.

    They are sums * a_scale * b_scale / output_scale, exactly, rounded once, half to even, plus the zero point, saturated to
    INT8 or UINT8. So sums over parts of K, added up as integers, give the bits of the whole product.
    sums: int32 or int64, of products of elements minus zero points. Scales (float32) and the zero point broadcast against them.
    output_data_type: by default that of the zero point's array, else UINT8.
    BindingError for arguments that do not fit; DataError for a scale that is 0, infinite or NaN.
    """
    faults: list[Fault] = []
    x = _array("sums", sums, faults)
    if x is not None and x.dtype not in SUMS:
        faults.append(Fault("sums", f"sums is {x.dtype}, and takes int32 or int64"))
    scales: dict[str, Any] = {"a_scale": a_scale, "b_scale": b_scale, "output_scale": output_scale}
    found = {name: _scale(name, value, faults) for name, value in scales.items()}
    data_type = _output_type(output_zero_point, output_data_type, faults)
    if output_zero_point is not None:
        found["output_zero_point"] = _zero_point(output_zero_point, data_type, faults)
    if faults or x is None:
        raise BindingError(faults)
    for name, value in found.items():
        try:
            fits = np.broadcast_shapes(x.shape, value.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            faults.append(Fault(name, f"{name} has shape {value.shape}, which does not broadcast to that of sums, {x.shape}"))
    if faults:
        raise BindingError(faults)
    for name in scales:
        if found[name].size:
            (rule,) = (r for r in vars(QuantizedLinearMatrixMultiply).values() if isinstance(r, DataRule))
            scale = np.atleast_1d(found[name])
            data_check(None, name, rule, scale, DataType.FLOAT32)()  # type: ignore[arg-type]  # the rule reads no desc
    if not x.size:
        return np.empty(x.shape, data_type.dtype)
    arrays = {"sums": x, **found}
    arrays = {name: np.broadcast_to(np.ascontiguousarray(value), x.shape or (1,)) for name, value in arrays.items()}
    result = np.empty(x.shape or (1,), data_type.dtype)
    made = device_of(device).cached(built, *_stated(result.shape, data_type, arrays))
    made.bind({**arrays, "output": result})()
    return result.reshape(x.shape)


def _stated(sizes: tuple[int, ...], data_type: DataType, arrays: dict[str, NDArray[Any]]) -> tuple[Any, ...]:
    """The arguments of `built`: the statement, its tensors and those that a rule about data judges."""
    i = each(sizes)
    read = {name: Tensor(name, sizes, DataType.of(x.dtype))[i] for name, x in arrays.items()}
    quotient = read["sums"] * read["a_scale"] * read["b_scale"] / read["output_scale"]
    body = clamp(half_to_even(quotient) + read.get("output_zero_point", 0), *limits(data_type))
    tensors = {name: TensorDesc.of(x).spelled_out() for name, x in arrays.items()}
    tensors["output"] = TensorDesc(data_type, sizes).spelled_out()
    ruled = frozenset(("a_scale", "b_scale", "output_scale"))
    return Stated("requantize", "output", nest(i, body)), tuple(tensors.items()), ruled


def _array(name: str, value: Any, faults: list[Fault]) -> NDArray[Any] | None:
    found = as_array(value) if hasattr(value, "__dlpack__") and not isinstance(value, np.generic) else "takes an array"
    if isinstance(found, str):
        faults.append(Fault(name, f"{name} {found}"))
        return None
    return found


def _scale(name: str, value: Any, faults: list[Fault]) -> NDArray[Any]:
    x = np.asarray(value)
    if x.dtype.kind not in "iuf" or (isinstance(value, np.ndarray) and x.dtype not in (np.float32, np.float64)):
        faults.append(Fault(name, f"{name} is {x.dtype}, and takes float32"))
        return np.ones((), np.float32)
    return x if x.dtype == np.float32 else round_to_float32(x.astype(np.float64))


def _output_type(zero_point: Any, asked: Any, faults: list[Fault]) -> DataType:
    found = DataType.UINT8
    try:
        own = DataType.of(zero_point.dtype) if isinstance(zero_point, np.ndarray) else None
        found = own or DataType.UINT8 if asked is None else as_data_type(asked)
    except (TypeError, ValueError) as error:
        faults.append(Fault("output_data_type", f"output_data_type: {error}"))
        return found
    if found not in QUANTISED:
        faults.append(Fault("output_data_type", f"output_data_type is {found}, and may be INT8 or UINT8"))
        return DataType.UINT8
    if own is not None and own != found:
        faults.append(Fault("output_data_type", f"output_data_type is {found}, and output_zero_point {own}"))
    return found


def _zero_point(value: Any, data_type: DataType, faults: list[Fault]) -> NDArray[Any]:
    low, high = limits(data_type)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        faults.append(Fault("output_zero_point", f"output_zero_point is {value!r}, and takes an integer from {low} to {high}"))
        return np.zeros((), data_type.dtype)
    return np.array(value, data_type.dtype)
