"""The scales and zero points of eager functions, converted to arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anydml.errors import BindingError, Fault, show
from anydml.exact.float32 import round_to_float32, round_to_odd
from anydml.functional.run import contiguous, fail, tensor, unspellable
from anydml.tensor import as_data_type

Axis = Literal["row", "column"]


def scale(name: str, value: Any, axis: Axis) -> NDArray[np.float32]:
    """A scale as a float32 array of at least two dimensions, from a Python number or a float32 or float64 array, rounded once.

    A one-dimensional array has an entry per row (or column), or a single one.
    """
    if isinstance(value, (int, float)) and not isinstance(value, (np.generic, bool)):
        return _of_number(value)
    array = array_of(name, value)
    if array.dtype == np.float64:
        array = round_to_float32(contiguous(array))
    elif array.dtype != np.float32:
        raise fail(name, f"is {array.dtype}; a scale is a Python number or a float32 or float64 array")
    return _placed(array, axis)


def zero_point(name: str, value: Any, axis: Axis, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A zero point as an array of at least two dimensions, from an integer that fits `dtype`, or from an array.

    A NumPy scalar keeps its own type, as an array does.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _of_integer(name, value, dtype)
    if isinstance(value, np.integer):
        return _of_integer(name, int(value), value.dtype)
    array = array_of(name, value)
    if array.dtype.kind not in "iu":
        raise fail(name, f"is {array.dtype}; a zero point is an integer, or an array of its tensor's type")
    return _placed(array, axis)


def output_dtypes(zero_point: Any, asked: Any, out: Any) -> dict[str, np.dtype[Any]]:
    """The output's type by each argument that gives it; BindingError if they differ."""
    said: dict[str, np.dtype[Any]] = {}
    if isinstance(zero_point, (np.ndarray, np.generic)):
        said["output_zero_point"] = zero_point.dtype
    if asked is not None:
        try:
            said["output_data_type"] = as_data_type(asked).dtype
        except (TypeError, ValueError):
            raise fail("output_data_type", f"= {asked!r} is not a data type of the result, which is int8 or uint8") from None
    if isinstance(out, np.ndarray):
        said["out"] = out.dtype
    if len(set(said.values())) > 1:
        given = ", ".join(f"{name} is {dtype}" for name, dtype in said.items())
        raise BindingError([Fault(next(iter(said)), f"{given}: two different types are given for the output")])
    return said


def array_of(name: str, value: Any) -> NDArray[Any]:
    """A parameter's array; unlike a tensor's, it may have no dimension."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = np.array(value, ndmin=1, subok=True)
    return tensor(name, value, "an integer or an array" if name.endswith("zero_point") else "a number or an array")


def _placed(array: NDArray[Any], axis: Axis) -> NDArray[Any]:
    if unspellable(array):
        array = contiguous(array)
    if array.ndim > 1:
        return array
    return array.reshape(-1, 1) if axis == "row" else array.reshape(1, -1)


def same_dimension_count(inputs: dict[str, NDArray[Any]]) -> None:
    """Give every scale and zero point the largest dimension count among the inputs, by leading ones."""
    count = max([array.ndim for array in inputs.values()])
    if count == 2:
        return  # each has at least two
    for name, array in inputs.items():
        if array.ndim < count and name not in ("a_tensor", "b_tensor"):
            inputs[name] = array.reshape((1,) * (count - array.ndim) + array.shape)


@lru_cache(maxsize=1024)
def _of_integer(name: str, value: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind not in "iu":
        raise fail(name, f"= {show(value)} goes with a tensor of {dtype}, and only integers have zero points")
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise fail(name, f"= {show(value)} does not fit {dtype}, {limits.min}..{limits.max}")
    result = np.full((1, 1), value, dtype)
    result.flags.writeable = False
    return result


@lru_cache(maxsize=1024)
def _of_number(value: float) -> NDArray[np.float32]:
    if isinstance(value, int):
        value = round_to_odd(value)
    result = round_to_float32(np.array([[value]], np.float64))
    result.flags.writeable = False
    return result
