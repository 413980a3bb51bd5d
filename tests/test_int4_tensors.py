"""Elements of 4 bits through the whole library: two per byte in bound arrays, ml_dtypes' int4 and uint4 in eager calls."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anydml as dml
from anydml import BindingError, DataType, DescError, TensorDesc
from anydml.int4_tensors import pack, unpacked
from anydml.schema.enumerations import QuantizationType
from anydml.testing import assert_exact
from tensors import SEEDS, SETTINGS, bytes_of, elements_of, nested_strides, sizes_of

INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
TYPES = [DataType.INT4, DataType.UINT4]
X = np.array([[0, 2, 4, 6], [-1, 1, 3, 5]], np.float32)
SCALE = np.array([[1, 2], [0.5, 1]], np.float32)
by_type = pytest.mark.parametrize("data_type", TYPES, ids=str)


def four_bit(data_type: DataType, values: Any) -> NDArray[Any]:
    return np.array(values, np.int8).astype(data_type.name.lower())


@by_type
def test_every_byte_is_two_elements(data_type: DataType) -> None:
    memory = np.arange(256, dtype=np.uint8)
    t = TensorDesc(data_type, (256, 2))
    found = unpacked(memory, t)
    low = [byte % 16 - 16 * (byte % 16 > 7 and data_type == DataType.INT4) for byte in range(256)]
    assert found[:, 0].tolist() == low
    assert found[::16, 1].tolist() == low[:16]
    assert (pack(found) == memory).all()
    assert pack(found[:1, :1]).tolist() == [0], "a half byte that is left is 0"


@settings(SETTINGS, max_examples=100)
@given(st.data(), st.sampled_from(TYPES))
def test_elements_lie_where_strides_say_in_half_bytes(data: st.DataObject, data_type: DataType) -> None:
    sizes = data.draw(st.integers(1, 4).flatmap(sizes_of))
    t = TensorDesc(data_type, sizes, strides=nested_strides(random.Random(data.draw(SEEDS)), sizes))
    memory = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, t.element_bytes, np.uint8)
    found, wanted = unpacked(memory, t), elements_of(t, memory)
    assert found.tolist() == wanted.astype(np.int8).tolist()
    packed = TensorDesc(data_type, sizes)
    assert pack(found).tolist() == bytes_of(packed, wanted).tolist()


@by_type
def test_a_tensor_of_a_graph_has_the_dtype_of_its_arrays(data_type: DataType) -> None:
    seen = []

    def function(q: Any) -> Any:
        seen.append(q.dtype)
        return dml.dequantize(q, [np.float32(0.5)])

    dml.graph(function, q=TensorDesc(data_type, (2, 4)))
    assert seen == [four_bit(data_type, 0).dtype]


@by_type
def test_an_output_of_odd_size_ends_with_half_a_byte_of_zero(data_type: DataType) -> None:
    desc = dml.Quantize(
        input_tensor=TensorDesc("float32", (3,)),
        quantization_type=QuantizationType.SCALE,
        quantization_tensors=(TensorDesc("float32", (1,)),),
        output_tensor=TensorDesc(data_type, (3,)),
    )
    output = np.full(9, 0xFF, np.uint8)
    inputs: dict[str, Any] = dict(input_tensor=np.full(3, -1, np.float32), quantization_tensors=[np.ones(1, np.float32)])
    dml.Device().compile(desc).bind(**inputs, output_tensor=output).execute()
    half = 15 if data_type == DataType.INT4 else 7
    assert output.tolist() == [half * 17, half, *[0xFF] * 7]


def test_strides_of_an_output_are_packed() -> None:
    fields: dict[str, Any] = dict(quantization_type="SCALE", quantization_tensors=(TensorDesc("float32", (1, 1)),))
    for strides, fits in (((3, 1), True), ((4, 1), False), ((1, 2), False)):
        desc = dml.Quantize(
            input_tensor=TensorDesc("float32", (2, 3)), output_tensor=TensorDesc("INT4", (2, 3), strides=strides), **fields
        )
        if fits:
            dml.check(desc)
            continue
        with pytest.raises(DescError, match="four_bit_output_packed") as refused:
            dml.check(desc)
        assert len(refused.value.violations) == 1


# --- eager calls ---


@by_type
def test_quantize_returns_arrays_of_ml_dtypes(data_type: DataType) -> None:
    found = dml.quantize(X, [SCALE], output_data_type=data_type)
    middle = 0 if data_type == DataType.INT4 else 8
    assert found.dtype == data_type.name.lower()
    assert found.astype(int).tolist() == [[middle + n for n in row] for row in ([0, 2, 2, 3], [-2, 2, 3, 5])]
    assert_exact(found, dml.quantize, X, [SCALE], output_data_type=data_type)
    found[1, 0] = four_bit(data_type, 1)
    with pytest.raises(AssertionError, match="1 of 8 differs"):
        assert_exact(found, dml.quantize, X, [SCALE], output_data_type=data_type)


@by_type
def test_a_zero_point_says_the_output_s_type(data_type: DataType) -> None:
    zero_point = four_bit(data_type, [[1, 2], [3, 4]])
    found = dml.quantize(X, [SCALE, zero_point])
    low, high = (-8, 7) if data_type == DataType.INT4 else (0, 15)
    assert found.dtype == zero_point.dtype
    assert found.astype(int).tolist() == [[1, 3, 4, 5], [max(low, 1), 5, 7, min(high, 9)]]
    with pytest.raises(BindingError, match=f"output_data_type is UINT8, but the inputs make the result {data_type}"):
        dml.quantize(X, [SCALE, zero_point], output_data_type="uint8")


@by_type
def test_what_is_quantized_comes_back(data_type: DataType) -> None:
    q = four_bit(data_type, np.arange(24).reshape(2, 3, 4) % 16 - (8 if data_type == DataType.INT4 else 0))
    scale = np.array([[[0.5]], [[2]]], np.float32)
    x = dml.dequantize(q, [scale])
    assert x.tolist() == ((q.astype(np.float32) - (0 if data_type == DataType.INT4 else 8)) * scale).tolist()
    assert (dml.quantize(x, [scale], output_data_type=q.dtype) == q).all()
    assert (dml.dequantize(q[::-1, :, ::2], [scale[::-1]]) == x[::-1, :, ::2]).all(), "whatever lies in memory"


def test_a_zero_point_without_dimensions_is_one_for_all() -> None:
    q = four_bit(DataType.UINT4, [[0, 8], [9, 15]])
    found = dml.dequantize(q, [np.array([[0.5]], np.float32), four_bit(DataType.UINT4, 8)])
    assert found.tolist() == [[-4, 0], [0.5, 3.5]]
    assert dml.dequantize(q, [np.float32(0.5), four_bit(DataType.UINT4, 8)]).tolist() == found.tolist()


def test_results_go_to_out() -> None:
    out = np.zeros((2, 8), INT4)[:, ::2]
    assert dml.quantize(X, [SCALE], output_data_type="int4", out=out) is out
    assert out.astype(int).tolist() == [[0, 2, 2, 3], [-2, 2, 3, 5]]
    with pytest.raises(BindingError, match=r"out is int4, shape \(2, 2\)"):
        dml.quantize(X, [SCALE], output_data_type="int4", out=out[:, :2])
    with pytest.raises(BindingError, match="out is int4"):
        dml.quantize(X, [SCALE], output_data_type="uint4", out=out)


def test_no_elements_make_none() -> None:
    found = dml.quantize(np.zeros((0, 4), np.float32), [np.ones((1, 1), np.float32)], output_data_type="int4")
    assert (found.shape, found.dtype) == ((0, 4), INT4)


def test_what_is_not_said_is_asked_for() -> None:
    with pytest.raises(BindingError, match=r"^output_data_type must be given: no input determines") as refused:
        dml.quantize(X, [SCALE])
    assert len(refused.value.faults) == 1
    with pytest.raises(BindingError, match="output_data_type"):
        dml.quantize(X, [SCALE])
    with pytest.raises(BindingError, match="input is int4; feature level 6_4 takes float32 or float16"):
        dml.quantize(four_bit(DataType.INT4, [1, 2]), [np.ones(1, np.float32)], output_data_type="int4")


def test_what_is_bound_is_bytes() -> None:
    desc = dml.Dequantize(
        input_tensor=TensorDesc("int4", (2,)), quantization_type=QuantizationType.SCALE,
        quantization_tensors=(TensorDesc("float32", (1,)),), output_tensor=TensorDesc("float32", (2,)),
    )  # fmt: skip
    bound: dict[str, Any] = dict(quantization_tensors=[np.ones(1, np.float32)], output_tensor=np.zeros(2, np.float32))
    compiled = dml.Device().compile(desc)
    with pytest.raises(BindingError, match="is int4 with an element in each byte"):
        compiled.bind(input_tensor=four_bit(DataType.INT4, [1, 2]), **bound)


def test_names_and_dtypes_say_the_data_type() -> None:
    for said in ("int4", "INT4", "DML_TENSOR_DATA_TYPE_INT4", 13, INT4, ml_dtypes.int4, DataType.INT4):
        assert TensorDesc(said, (3,)).data_type == DataType.INT4
    assert TensorDesc(UINT4, (3,)).element_bytes == 2


def test_without_ml_dtypes_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ModuleNotFoundError, match="ml_dtypes"):
        dml.quantize(X, [SCALE], output_data_type="INT4")


@by_type
def test_graphs_of_functions_are_their_calls(data_type: DataType, tmp_path: Path) -> None:
    """An input, a constant and an intermediate tensor, each with an odd number of elements."""
    low = -8 if data_type == DataType.INT4 else 0
    q, scale = four_bit(data_type, np.arange(15).reshape(3, 5) + low), np.full((3, 5), 0.5, np.float32)
    known = four_bit(data_type, [[3, 1, 2, 7, 4]] * 3)

    def function(q: Any, scale: Any) -> Any:
        number = dml.dequantize(q, [scale])
        again = dml.quantize(dml.element_wise_add(number, dml.dequantize(known, [scale])), [scale], output_data_type=data_type)
        return again, dml.dequantize(again, [scale])

    graph = dml.graph(function, q=TensorDesc(data_type, (3, 5)), scale=scale)
    wanted = function(q, scale)
    graph.save(tmp_path / "graph")
    for made in (graph, dml.Graph.load(tmp_path / "graph")):
        for found, due in zip(made(q=q), wanted, strict=True):
            assert (found.dtype, found.shape, found.tolist()) == (due.dtype, due.shape, due.tolist())
    assert graph.run({"q": pack(q)}, keep="all")["output_0"].tolist() == wanted[0].tolist()
