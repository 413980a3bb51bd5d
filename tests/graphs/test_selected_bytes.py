"""Graphs that dequantise, select the largest of windows, and quantise again: bytes are selected, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices.graph import CompiledGraph
from anydml.kernels.code import llvm

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = np.ndarray[Any, Any]
SMALLEST, LARGEST = 2.0**-149, np.float32(3.4028234e38)


def pooled(x: Any, scales: tuple[Any, Any], zeros: tuple[Any, Any], **fields: Any) -> Any:
    floats = dml.element_wise_dequantize_linear(x, np.float32(scales[0]), zeros[0])
    made = dml.max_pooling(floats, **fields)
    return dml.element_wise_quantize_linear(made, np.float32(scales[1]), zeros[1])


def results(x: Array, scales: tuple[Any, Any], zeros: tuple[Any, Any], **fields: Any) -> tuple[list[str], Array, Array]:
    """The kernels of the graph, and its outputs fused and unfused."""
    graph = dml.graph(lambda x: pooled(x, scales, zeros, **fields), x=TensorDesc.of(x))
    (t,) = graph.outputs.values()
    found = []
    for fuse in (True, False):
        compiled = dml.Device("cpu", threads=1).compile(graph.desc, fuse=fuse)
        assert isinstance(compiled, CompiledGraph)
        y = np.full(t.sizes, 0x55, t.data_type.dtype)
        compiled.bind(x=x, output=y).execute()
        found.append(([part.title for part in compiled.call.parts], y))
    return found[0][0], found[0][1], found[1][1]


AROUND: dict[str, Any] = dict(window_size=(3, 3), strides=(2, 2), start_padding=(1, 1), end_padding=(1, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scale", [0.1, 1 / 255, SMALLEST, 3 * SMALLEST, LARGEST / np.float32(255.5)])
def test_bytes_are_picked(dtype: Any, scale: float) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max + 1, (1, 3, 21, 40)).astype(dtype)
    for zero in (limits.min, 7, limits.max):
        given = dtype(zero)
        titles, fused, unfused = results(x, (scale, scale), (given, given), **AROUND)
        assert len(titles) == 1
        np.testing.assert_array_equal(fused, unfused)
        assert len(np.unique(fused)) > 1 or scale == SMALLEST


def test_every_byte_comes_back() -> None:
    """Windows of one element: every byte is unchanged, for several zero points."""
    x = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    for zero in (0, 1, 127, 128, 255):
        titles, fused, unfused = results(x, (0.3, 0.3), (np.uint8(zero), np.uint8(zero)), window_size=(1, 1))
        assert len(titles) == 1
        np.testing.assert_array_equal(fused, x)
        np.testing.assert_array_equal(unfused, x)


def test_windows_of_nothing_but_padding() -> None:
    x = np.full((1, 1, 2, 2), 9, np.uint8)
    fields: dict[str, Any] = dict(window_size=(1, 1), start_padding=(2, 2), end_padding=(1, 1))
    titles, fused, unfused = results(x, (0.3, 0.3), (np.uint8(100), np.uint8(100)), **fields)
    assert len(titles) == 1
    np.testing.assert_array_equal(fused, unfused)
    assert set(np.unique(fused)) == {0, 9}


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        ((0.1, 0.2), (np.uint8(3), np.uint8(3))),
        ((0.1, 0.1), (np.uint8(3), np.uint8(4))),
        ((-0.1, -0.1), (np.uint8(3), np.uint8(3))),
        ((0.1, 0.1), (np.uint8(3), np.int8(3))),
        ((LARGEST / np.float32(200), LARGEST / np.float32(200)), (np.uint8(0), np.uint8(0))),
    ],
    ids=["another scale", "another zero point", "a negative scale", "another type", "infinities"],
)
def test_what_is_quantised_otherwise_stays(scales: tuple[Any, Any], zeros: tuple[Any, Any]) -> None:
    x = np.random.default_rng(2).integers(0, 256, (1, 3, 12, 12)).astype(np.uint8)
    titles, fused, unfused = results(x, scales, zeros, **AROUND)
    assert len(titles) > 1
    np.testing.assert_array_equal(fused, unfused)


def test_floats_that_others_read_are_kept() -> None:
    """The dequantised tensor is also an output."""
    x = np.random.default_rng(4).integers(0, 256, (1, 2, 9, 9)).astype(np.uint8)

    def graph(x: Any) -> dict[str, Any]:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.1), np.uint8(3))
        made = dml.max_pooling(floats, window_size=(2, 2))
        return {"floats": floats, "y": dml.element_wise_quantize_linear(made, np.float32(0.1), np.uint8(3))}

    found = []
    for fuse in (True, False):
        arrays = {"floats": np.zeros(x.shape, np.float32), "y": np.zeros((1, 2, 8, 8), np.uint8)}
        dml.Device("cpu").compile(dml.graph(graph, x=TensorDesc.of(x)).desc, fuse=fuse).bind(x=x, **arrays).execute()
        found.append(arrays)
    for name in ("floats", "y"):
        np.testing.assert_array_equal(found[0][name], found[1][name])
