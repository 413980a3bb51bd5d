"""Compares one call on the reference device with the oracle's result for the same desc and inputs, bit by bit."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anydml as dml
import oracle
from anydml.schema.operator import Desc
from anydml.tensor import DataType
from every_kernel import SOAK, flat, nested
from tensors import array_for, bytes_of, elements_of

Arrays = Mapping[str, NDArray[Any]]
__all__ = ["SOAK", "agree", "agree_on", "attributes", "bits", "bits_of", "computed", "expected", "matches"]


def attribute(value: Any) -> Any:
    """An attribute in the oracle's form: enums by name, operator descs as a name and their attributes."""
    if isinstance(value, Desc):
        return value.spec.name, attributes(value)
    if isinstance(value, tuple) and any(isinstance(v, Desc) for v in value):
        return [attribute(v) for v in value]
    if isinstance(value, DataType):
        return value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(attribute, value))
    return value.name if isinstance(value, enum.Enum) else value


def attributes(desc: Desc) -> dict[str, Any]:
    return {f.name: attribute(getattr(desc, f.name)) for f in desc.spec.attributes}


def expected(desc: Desc, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The oracle's outputs as arrays to bind. Here and in the result, names are those of `Desc.tensors`."""
    if desc.spec.name in OWN:
        (t,) = (getattr(desc, f.name) for f in desc.spec.outputs)
        made = np.ascontiguousarray(OWN[desc.spec.name](desc, inputs)).view(t.data_type.dtype)
        return {desc.spec.outputs[0].name: made.reshape(t.sizes)}
    asked: dict[str, Any] = {}
    for f in desc.spec.outputs:
        value = getattr(desc, f.name)
        if value is not None:
            pairs = [(t.sizes, oracle_dtype(t)) for t in (value if f.sized_by else (value,))]
            asked[f.name] = pairs if f.sized_by else pairs[0]
    tensors = {t.name: t.desc for t in desc.tensors()}
    inputs = {name: elements_of(tensors[name], x) for name, x in inputs.items()}
    found = flat(desc, oracle.compute(desc.spec.name, attributes(desc), nested(desc, inputs), asked))
    return {name: bytes_of(tensors[name], x) for name, x in found.items()}


def oracle_dtype(t: dml.TensorDesc) -> np.dtype[Any]:
    """The dtype of the oracle's array of a tensor: 4-bit elements are ml_dtypes', one in each byte."""
    return np.dtype(t.data_type.name.lower())


def _moved(tensor: oracle.Tensor[int], t: dml.TensorDesc) -> NDArray[Any]:
    return np.array(tensor.elements, f"u{t.data_type.dtype.itemsize}")


def _slice1(d: Any, inputs: Arrays) -> NDArray[Any]:
    window = (d.input_window_offsets, d.input_window_sizes, d.input_window_strides)
    return _moved(oracle.slice1(oracle.bits_of(inputs["input_tensor"]), *window, d.output_tensor.sizes), d.output_tensor)


def _slice(d: Any, inputs: Arrays) -> NDArray[Any]:
    return _moved(oracle.slice_(oracle.bits_of(inputs["input_tensor"]), d.offsets, d.sizes, d.strides), d.output_tensor)


def _matrix_multiply_integer(d: Any, inputs: Arrays) -> NDArray[Any]:
    zero_points = inputs.get("a_zero_point_tensor"), inputs.get("b_zero_point_tensor")
    return oracle.matrix_multiply_integer(inputs["a_tensor"], zero_points[0], inputs["b_tensor"], zero_points[1])


def _quantized_linear_matrix_multiply(d: Any, inputs: Arrays) -> NDArray[Any]:
    limits = np.iinfo(d.output_tensor.data_type.dtype)
    operands: list[Any] = [inputs.get(f.name) for f in d.spec.inputs]
    result = oracle.quantized_linear_matrix_multiply_bulk(*operands, lo=int(limits.min), hi=int(limits.max))  # type: ignore[misc]
    return result.astype(limits.dtype)


OWN = {  # operators whose oracle's functions have arguments of their own
    "MATRIX_MULTIPLY_INTEGER": _matrix_multiply_integer,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _quantized_linear_matrix_multiply,
    "SLICE": _slice,
    "SLICE1": _slice1,
}


def computed(desc: Desc, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of the reference device: arrays, or lists of them, by field name."""
    compiled = dml.Device("reference", feature_level="EXTENDED").compile(desc)
    assert compiled.kernel_name == "reference"
    outputs: dict[str, Any] = {}
    for f in desc.spec.outputs:
        value = getattr(desc, f.name)
        if value is not None:
            outputs[f.name] = [array_for(t) for t in value] if f.sized_by else array_for(value)
    compiled.bind(**inputs, **outputs).execute()
    return outputs


def agree(desc: Desc, inputs: Mapping[str, Any]) -> int:
    """Assert that device and oracle agree in every bit of every output; return the number of elements."""
    found, wanted = flat(desc, computed(desc, inputs)), expected(desc, flat(desc, inputs))
    sizes = {t.name: t.desc.sizes for t in desc.tensors()}
    assert found.keys() == wanted.keys()
    compared = 0
    for name, have in found.items():
        want = wanted[name]
        different = np.flatnonzero(bits(have) != bits(want))
        assert not different.size, (
            f"{name} differs at {different.size} of {have.size} elements; element {different[0]} of "
            f"{ {k: at(v, int(different[0])) for k, v in inputs.items()} } is {have.ravel()[different[0]]!r} "
            f"where the oracle has {want.ravel()[different[0]]!r}: {desc}"
        )
        compared += math.prod(sizes[name])
    return compared


def agree_on(case: Callable[[np.random.Generator], tuple[Desc, Mapping[str, Any]]], count: int, *, seed: int) -> int:
    """Assert that device and oracle agree on random calls with so many elements; return the number of elements."""
    rng = np.random.default_rng(seed)
    compared = 0
    while compared < count * SOAK:
        compared += agree(*case(rng))
    return compared


def bits_of(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the elements as unsigned integers."""
    return array.view(f"u{array.itemsize}")


def bits(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).ravel().view(f"u{array.itemsize}")


def at(array: Any, place: int) -> Any:
    return array.ravel()[place] if isinstance(array, np.ndarray) and place < array.size else "..."


def matches(desc: Desc, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Assert that the reference device gives exactly these outputs."""
    found = computed(desc, inputs)
    for name, want in outputs.items():
        pairs = zip(found[name], want, strict=True) if isinstance(want, (list, tuple)) else [(found[name], want)]
        for have, expected in pairs:
            assert have.dtype == expected.dtype
            assert have.shape == expected.shape
            assert bits(have).tobytes() == bits(expected).tobytes(), f"{have!r} is not {expected!r}"
