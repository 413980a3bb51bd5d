"""Public test vectors of other projects, for the operators: both devices agree with all except those that are wrong.

The vectors are in a folder beside the project; without it, nothing is tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.devices.device import NAMES as DEVICES

VECTORS = Path(__file__).parents[2] / "shared" / "vectors"

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason="the public vectors are not beside this checkout")

by_device = pytest.mark.parametrize("device", DEVICES)

USABLE = {  # the number of usable vectors in each file
    "slice_baseline": 8,
    "slice_dxdispatch": 1,
    "slice_onnx_node": 7,
    "slice_ort": 38,
    "slice_ort_js": 3,
    "slice_wpt": 18,
    "qlinearmatmul_onnx": 10,
    "qlinearmatmul_ort": 12,
    "matmulinteger_onnx": 1,
    "matmulinteger_ort": 11,
    "quantizelinear_baseline": 5,
    "quantizelinear_onnx": 3,
    "quantizelinear_ort": 14,
    "quantizelinear_wpt": 14,
}

# 3 / 5 is 0.6, which is closer to 1; the vector has 0 there. (A copy of onnxruntime's Slice1D_ReverseAllAxes_1, which
# contradicts ONNX, is not usable.)
WRONG = {"webnn-baseline/quantizeLinear 2D to uint8": {10: 1}}


def vectors(name: str) -> list[dict[str, Any]]:
    with (VECTORS / f"{name}.json").open(encoding="utf-8") as file:
        loaded: list[dict[str, Any]] = json.load(file)["vectors"]
    return loaded


def counted(record_property: Callable[[str, object], None], name: str, used: int) -> None:
    record_property("vectors", used)
    print(f"{used} vectors of {name}")
    assert used == USABLE[name]


def of_kind(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name in USABLE if name.startswith(kind)])


def test_every_file_is_used() -> None:
    assert {path.stem for path in VECTORS.glob("*.json")} == set(USABLE)


@by_device
@of_kind("slice")
def test_slices(name: str, device: str, record_property: Callable[[str, object], None]) -> None:
    used = 0
    for vector in vectors(name):
        call = vector["slice1"]
        if call is None:
            assert vector["unmappable"]
            continue
        x = np.array(vector["input"], vector["dtype"]).reshape(vector["input_shape"])
        window = (call["offsets"], call["sizes"], call["strides"])
        result = dml.slice1(x, *window, output_sizes=call["output_sizes"], device=device)
        wanted = np.array(vector["expected"], vector["dtype"])
        np.testing.assert_array_equal(result.ravel(), wanted.ravel(), err_msg=vector["id"], strict=True)
        assert result.size == int(np.prod(vector["expected_shape"]))
        if min(call["strides"]) > 0:  # the same as SLICE
            again = dml.slice(x, call["offsets"], call["output_sizes"], call["strides"], device=device)
            np.testing.assert_array_equal(again, result, err_msg=vector["id"], strict=True)
        used += 1
    counted(record_property, name, used)


def parameter(values: list[float] | None, dtype: Any, axis: int) -> NDArray[Any] | None:
    """A scale or zero point of four dimensions: an element per row (2) or column (3), or one for all."""
    if values is None:
        return None
    sizes = [1, 1, 1, 1]
    sizes[axis] = len(values)
    return np.array(values, dtype).reshape(sizes)


@by_device
@pytest.mark.parametrize("name", [name for name in USABLE if not name.startswith("slice")])
def test_quantized_products(name: str, device: str, record_property: Callable[[str, object], None]) -> None:
    used = outputs = 0
    for vector in vectors(name):
        if not vector["dml_calls"]:
            assert vector["unmappable"]
            continue
        for call in vector["dml_calls"]:
            result = dml.quantized_linear_matrix_multiply(
                np.array(call["a"], call["a_dtype"]).reshape(call["a_shape"]),
                scale(call["a_scale"], 2),
                parameter(call["a_zero_point"], call["a_dtype"], 2),
                np.array(call["b"], call["b_dtype"]).reshape(call["b_shape"]),
                scale(call["b_scale"], 3),
                parameter(call["b_zero_point"], call["b_dtype"], 3),
                scale(call["output_scale"], 2),
                parameter(call["output_zero_point"], call["output_dtype"], 2),
                output_data_type=call["output_dtype"],
                device=device,
            )
            wanted = list(call["expected"])
            for at, right in WRONG.get(vector["id"], {}).items():
                assert wanted[at] != right
                wanted[at] = right
            assert result.shape == tuple(call["expected_shape"])
            assert result.dtype == call["output_dtype"]
            assert result.ravel().tolist() == wanted, vector["id"]
            outputs += result.size
        used += 1
    print(f"{outputs} outputs")
    counted(record_property, name, used)


def scale(values: list[float], axis: int) -> NDArray[Any]:
    array = parameter(values, np.float64, axis)
    assert array is not None
    return array  # rounded once to float32 by the function under test; the vectors have float32 values


@by_device
@of_kind("matmulinteger")
def test_integer_products(name: str, device: str, record_property: Callable[[str, object], None]) -> None:
    used = 0
    for vector in vectors(name):
        if not vector["dml_calls"]:
            continue
        a, b, y = (np.array(vector[x]["data"], vector[x]["dtype"]).reshape(vector[x]["shape"]) for x in ("a", "b", "y"))
        a = a[np.newaxis] if a.ndim == 1 else a  # ONNX takes vectors for matrices, DirectML does not
        b = b[:, np.newaxis] if b.ndim == 1 else b
        zero_points = [
            np.array(vector[x]["data"], vector[x]["dtype"]).reshape(vector[x]["shape"]) if vector[x] else None
            for x in ("a_zero_point", "b_zero_point")
        ]
        result = dml.matrix_multiply_integer(a, b, zero_points[0], zero_points[1], device=device)
        assert result.dtype == y.dtype
        assert result.ravel().tolist() == y.ravel().tolist(), vector["id"]
        used += 1
    counted(record_property, name, used)
