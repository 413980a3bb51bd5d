"""Pooling: the reference compared with the oracle for windows of every kind, and with results that are written here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from agreement import SOAK, agree, computed
from anydml import DataType, TensorDesc, operators
from anydml.errors import DescError
from anydml.schema.operator import Desc
from anydml.schema.types import EIGHT_BIT, FLOATS, TEN

Rng = np.random.Generator
NEWEST = ("AVERAGE_POOLING1", "LP_POOLING1", "MAX_POOLING2", "QUANTIZED_LINEAR_AVERAGE_POOLING")


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def windows(rng: Rng, most: int = 7) -> dict[str, Any]:
    """The arrays of a window, and the sizes of the input and of the output along the spatial dimensions."""
    count = int(rng.integers(2, 4))
    most = most if count == 2 else 4
    found: dict[str, list[int]] = {
        name: [] for name in ("strides", "window_size", "start_padding", "end_padding", "dilations", "sizes", "outputs")
    }
    for _ in range(count):
        size, width, stride, dilation = (int(rng.integers(1, n + 1)) for n in (most, 3, 3, 3))
        start, end = (int(n) for n in rng.integers(0, 3, 2))
        room = size + start + end - 1 - (width - 1) * dilation
        output = max(1 + pick(rng, (room // stride, -(-room // stride))), 1)
        for values, value in zip(found.values(), (stride, width, start, end, dilation, size, output), strict=True):
            values.append(value)
    return found


def case(name: str, rng: Rng) -> tuple[Desc, dict[str, Any]]:
    fields = windows(rng)
    batch, channels = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    x, y = (batch, channels, *fields.pop("sizes")), (batch, channels, *fields.pop("outputs"))
    data_type = pick(rng, {"MAX_POOLING2": TEN, "QUANTIZED_LINEAR_AVERAGE_POOLING": EIGHT_BIT}.get(name, FLOATS))
    to, inputs = data_type, {"input_tensor": hostile_data.values(data_type.name, x, rng, pick(rng, hostile_data.KINDS))}
    if "AVERAGE" in name:
        fields["include_padding"] = bool(rng.integers(0, 2))
    if name.startswith("LP"):
        fields["p"] = pick(rng, (1, 2, 2, 3, 4, 5))
    if name == "MAX_POOLING2" and rng.random() < 0.8:
        fields["output_indices_tensor"] = TensorDesc(pick(rng, (DataType.UINT32, DataType.UINT64)), y)
    if name.startswith("QUANTIZED"):
        to = pick(rng, EIGHT_BIT)
        for side, of in (("input", data_type), ("output", to)):
            sizes = pick(rng, ((1,), (1, channels, *(1,) * (len(x) - 2)), (1, 1, 1)))
            scales = 2.0 ** rng.integers(-4, 2, sizes) * pick(rng, (1.0, 0.1, 3.0))
            inputs[f"{side}_scale_tensor"] = scales.astype(np.float32)
            if rng.random() < 0.7:
                sizes = pick(rng, ((1, 1), (1, channels, 1, 1), (channels, 1, 1)))
                inputs[f"{side}_zero_point_tensor"] = rng.integers(0, 256, sizes).astype(np.uint8).view(of.dtype)
    tensors = {name: TensorDesc.of(array) for name, array in inputs.items()}
    return named(name)(**tensors, output_tensor=TensorDesc(to, y), **fields), inputs


@pytest.mark.parametrize("name", NEWEST)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_reference_gives_the_oracles_bits(name: str) -> None:
    rng = np.random.default_rng(5)
    compared = 0
    while compared < 4_000 * SOAK:
        compared += agree(*case(name, rng))


def pooled(name: str, x: NDArray[Any], output: tuple[int, ...], **fields: Any) -> dict[str, Any]:
    """An operator's output for one batch and channel, on the reference device."""
    image = x.reshape(1, 1, *x.shape)
    ones = (1,) * x.ndim
    arrays = dict(strides=ones, start_padding=(0,) * x.ndim, end_padding=(0,) * x.ndim, dilations=ones) | fields
    t = TensorDesc(TensorDesc.of(image).data_type, (1, 1, *output))
    desc = named(name)(input_tensor=TensorDesc.of(image), output_tensor=t, **arrays)
    found = computed(desc, {"input_tensor": image})
    return {name: array[0, 0] for name, array in found.items()}


def test_the_first_nan_is_the_largest_with_all_its_bits() -> None:
    x = np.array([[0x7F800000, 0xFFC00001, 0x7F800001, 0x3F800000]], np.uint32).view(np.float32)
    indices = TensorDesc(DataType.UINT32, (1, 1, 1, 2))
    found = pooled("MAX_POOLING2", x, (1, 2), window_size=(1, 3), output_indices_tensor=indices)
    assert found["output_tensor"].view(np.uint32).tolist() == [[0xFFC00001, 0xFFC00001]]
    assert found["output_indices_tensor"].tolist() == [[1, 1]]


def test_of_zeros_the_first_is_the_largest() -> None:
    x = np.array([[-0.0, 0.0, -0.0, -1.0]], np.float32)
    found = pooled("MAX_POOLING2", x, (1, 3), window_size=(1, 2))
    assert np.signbit(found["output_tensor"]).tolist() == [[True, False, True]]


def test_windows_without_elements() -> None:
    around = dict(window_size=(1, 1), start_padding=(0, 2), end_padding=(0, 1))
    x = np.array([[7]], np.int16)
    indices = TensorDesc(DataType.UINT64, (1, 1, 1, 4))
    found = pooled("MAX_POOLING2", x, (1, 4), **around, output_indices_tensor=indices)
    assert found["output_tensor"].tolist() == [[-(2**15), -(2**15), 7, -(2**15)]]
    assert found["output_indices_tensor"].tolist() == [[0, 0, 0, 0]]
    real = x.astype(np.float32)
    assert pooled("MAX_POOLING2", real, (1, 4), **around)["output_tensor"].tolist() == [[-math.inf, -math.inf, 7, -math.inf]]
    for include in (False, True):
        found = pooled("AVERAGE_POOLING1", -0.0 * real, (1, 4), **around, include_padding=include)["output_tensor"]
        assert np.signbit(found).tolist() == [[False, False, True, False]]
    assert pooled("LP_POOLING1", -real, (1, 4), **around, p=3)["output_tensor"].tolist() == [[0, 0, 7, 0]]


def test_what_lies_beyond_the_padding_does_not_count() -> None:
    x = np.array([[3, 3, 3]], np.float32)
    found = pooled("AVERAGE_POOLING1", x, (1, 2), window_size=(1, 4), strides=(1, 3), end_padding=(0, 2), include_padding=True)
    assert found["output_tensor"].tolist() == [[2.25, 0]]


@pytest.mark.parametrize("p", [64, 1000, 2**31, 2**32 - 1])
def test_large_norms_are_close_to_the_largest_element(p: int) -> None:
    x = np.array([[3, -3e38, 1e-40, 3e38]], np.float32)
    found = pooled("LP_POOLING1", x, (1, 1), window_size=(1, 4), p=p)["output_tensor"]
    want = float(x[0, 3]) * 2 ** (1 / p)
    assert found.item() == np.float32(want)


def test_a_window_longer_than_the_padded_input_gives_one_output() -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    assert dml.max_pooling2(x, window_size=(5, 9)).output.tolist() == [[[[5]]]]
    desc = named("MAX_POOLING")(
        input_tensor=TensorDesc.of(x), output_tensor=TensorDesc(DataType.FLOAT32, (1, 1, 2, 1)), strides=(1, 1),
        window_size=(5, 9), start_padding=(0, 0), end_padding=(0, 0),
    )  # fmt: skip
    with pytest.raises(DescError, match=r"would fit: output_tensor.sizes\[2\] = 1"):
        dml.check(desc)


def test_scales_of_zero_infinity_and_nan() -> None:
    x = np.array([[[[1, 3]]]], np.uint8)
    for input_scale, output_scale, want in [(0, 0, 0), (1, 0, 255), (math.inf, 1, 255), (1, math.inf, 9), (math.nan, 1, 0)]:
        found = dml.quantized_linear_average_pooling(
            x,
            np.array([input_scale], np.float32),
            np.array([output_scale], np.float32),
            output_zero_point=np.array([9], np.uint8),
            window_size=(1, 2),
        )
        assert found.tolist() == [[[[want]]]], (input_scale, output_scale)
