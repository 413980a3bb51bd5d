"""Regions of a graph that dequantise, multiply and quantise, with weights that are owned inputs: `initialize` packs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices.families import BETWEEN
from anydml.devices.graph import CompiledGraph
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.contract.quantised import family
from anydml.kernels.contract.quantised.norms import most_norms, norms
from every_kernel import SOAK
from quantised_graphs import sure_of_nothing

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
NAME = "contract.quantised:compiled"
Array = np.ndarray[Any, Any]


def convolution(dtype: Any, rng: np.random.Generator) -> tuple[Callable[..., Any], Array, Array]:
    x, w = rng.integers(0, 256, (2, 12, 9, 10), np.uint8), rng.integers(0, 256, (20, 12, 3, 3)).astype(np.uint8).view(dtype)
    b, scales = (
        rng.standard_normal((1, 20, 1, 1)).astype(np.float32),
        rng.uniform(0.001, 0.01, (20, 1, 1, 1)).astype(np.float32),
    )
    zeros = None if dtype == np.int8 else rng.integers(0, 256, (20, 1, 1, 1), np.uint8)

    def layer(x: Any, w: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.02), np.uint8(7))
        filters = dml.element_wise_dequantize_linear(w, scales, zeros)
        made = dml.activation_relu(dml.convolution(floats, filters, b, start_padding=(1, 1), end_padding=(1, 1)))
        return dml.element_wise_quantize_linear(made, np.float32(0.0712), np.uint8(0))

    return layer, x, w


def product(dtype: Any, rng: np.random.Generator) -> tuple[Callable[..., Any], Array, Array]:
    x, w = rng.integers(0, 256, (5, 70), np.uint8), rng.integers(0, 256, (70, 33)).astype(np.uint8).view(dtype)

    def layer(x: Any, w: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.02), np.uint8(128))
        weights = dml.element_wise_dequantize_linear(w, np.float32(0.013), dtype(3))
        return dml.element_wise_quantize_linear(dml.gemm(floats, weights), np.float32(0.0712), np.int8(-4))

    return layer, x, w


def result(layer: Callable[..., Any], x: Array, w: Array, *, fuse: bool = True, **how: Any) -> Array:
    """The output. The caller's weights are overwritten before it is computed."""
    graph = dml.graph(layer, x=TensorDesc.of(x), w=TensorDesc.of(w, flags=dml.TensorFlags.OWNED_BY_DML))
    (t,) = graph.outputs.values()
    compiled = dml.Device("cpu", **how).compile(graph.desc, fuse=fuse)
    assert isinstance(compiled, CompiledGraph)
    assert ([part.kernel_name for part in compiled.call.parts] == [NAME]) == fuse
    given = w.copy()
    compiled.initialize(w=given)
    given[...] = 0
    found = np.full(t.sizes, 0x55, t.data_type.dtype)
    compiled.bind(x=x, output=found).execute()
    return found


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("draw", [convolution, product])
def test_bits_are_those_of_floats(draw: Callable[..., Any], dtype: Any) -> None:
    layer, x, w = draw(dtype, np.random.default_rng(1))
    wanted = result(layer, x, w, fuse=False)
    assert len(np.unique(wanted)) > 40
    isas = [target.name for target in targets()]
    for isa in isas if SOAK > 1 else {isas[0], isas[-1]}:
        np.testing.assert_array_equal(result(layer, x, w, isa=isa, threads=2), wanted)


@pytest.mark.parametrize("in_python", [False, True])
@pytest.mark.parametrize("draw", [convolution, product])
def test_what_is_open_is_decided_with_the_weights_themselves(
    draw: Callable[..., Any], in_python: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an estimate that decides nothing, all outputs are decided by machine code, or by Python."""
    sure_of_nothing(monkeypatch)
    if in_python:
        monkeypatch.setitem(cast(dict[str, Any], BETWEEN), NAME, lambda: partial(family.lower, slack=1.0))
    layer, x, w = draw(np.int8, np.random.default_rng(2))
    x = np.ascontiguousarray(x[:1] if x.ndim == 2 else x[:1, :, :4, :5])
    np.testing.assert_array_equal(result(layer, x, w), result(layer, x, w, fuse=False))


def test_norms_of_any_weights_are_no_less_than_those_of_some() -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.int8, np.uint8):
        limits = np.iinfo(dtype)
        scales = rng.uniform(0.001, 0.1, 6).astype(np.float32)
        zeros = rng.integers(limits.min, limits.max + 1, 6)
        most = most_norms(dml.DataType.of(np.dtype(dtype)), zeros, scales, 50)
        for drawn in (
            rng.integers(limits.min, limits.max + 1, (6, 50)),
            np.full((6, 50), limits.min),
            np.full((6, 50), limits.max),
        ):
            for some, bound in zip(norms(drawn - zeros[:, None], scales, 0)[:2], most, strict=True):
                assert (some <= bound).all()
        assert (norms(np.full((6, 50), limits.min) - zeros[:, None], scales, 0)[0] <= most[0]).all()


def test_owned_biases_and_scales_stay_with_floats() -> None:
    """They are not known when the graph is compiled."""
    x, w = np.zeros((2, 8), np.uint8), np.zeros((8, 4), np.int8)

    def layer(x: Any, w: Any, s: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(0.02), np.uint8(128))
        made = dml.gemm(floats, dml.element_wise_dequantize_linear(w, s, np.int8(3)))
        return dml.element_wise_quantize_linear(made, np.float32(0.0712), np.int8(-4))

    owned = {
        "w": TensorDesc.of(w, flags=dml.TensorFlags.OWNED_BY_DML),
        "s": TensorDesc("FLOAT32", (1, 1), flags=dml.TensorFlags.OWNED_BY_DML),
    }
    compiled = dml.Device("cpu").compile(dml.graph(layer, x=TensorDesc.of(x), **owned).desc)
    assert isinstance(compiled, CompiledGraph)
    assert NAME not in [part.kernel_name for part in compiled.call.parts]
