"""Maps between quantised tensors: bytes are looked up in a table, 16 bits stay in float32, with the bits of the operators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.devices.graph import CompiledGraph
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import STAGES, targets
from anydml.kernels.elementwise import byte_tables, tuning
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE, place
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = NDArray[Any]
BYTES, WORDS = ("uint8", "int8"), ("uint16", "int16")
FUNCTIONS = ("identity", "sigmoid", "tanh", "gelu", "hard_swish", "leaky_relu", "elu", "softplus")
MAPS = 9 if SOAK == 1 else 40 * SOAK


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of elements that were looked up in the kernels made so far."""
    counts, made = list[int](), byte_tables.looked_up

    def noted(m: Any, *others: Any) -> Any:
        counts.append(int(np.prod(m.sizes)))
        return made(m, *others)

    monkeypatch.setattr(byte_tables, "looked_up", noted)
    return counts


def activation(name: str, x: Any) -> Any:
    return x if name == "identity" else getattr(dml, f"activation_{name}")(x)


def graph_of(name: str, x: Array, scales: tuple[float, float], zeros: tuple[int, int], to: str) -> dml.Graph:
    """An activation between a dequantisation and a quantisation; that of 16 bits as ONNX states it."""
    one = (1,) * x.ndim
    sx, sy = (np.full(one, s, np.float32) for s in scales)

    def whole(zero: int, kind: str) -> Array:
        return np.full(one, zero, np.dtype(kind) if kind in BYTES else np.int32)

    def layer(x: Any) -> Any:
        held = x if str(x.data_type).lower() in BYTES else dml.cast(x, output_data_type="INT32")
        made = activation(name, dml.element_wise_dequantize_linear(held, sx, whole(zeros[0], str(x.data_type).lower())))
        if to in BYTES:
            return dml.element_wise_quantize_linear(made, sy, whole(zeros[1], to))
        near = dml.element_wise_clip(dml.element_wise_round(dml.element_wise_divide(made, sy)), min=-131072.0, max=131072.0)
        total = dml.element_wise_add(dml.cast(near, output_data_type="INT32"), whole(zeros[1], to))
        ends = np.iinfo(to)
        limited = dml.element_wise_clip1(total, min_max_data_type=np.dtype(np.int32), min=int(ends.min), max=int(ends.max))
        return dml.cast(limited, output_data_type=to.upper())

    return dml.graph(layer, x=dml.TensorDesc.of(x))


def outputs(graph: dml.Graph, x: Array, to: str, **how: Any) -> tuple[Array, Array]:
    """Of the fused graph, on a device, and of its operators."""
    made = []
    for device, fuse in ((dml.Device("cpu", **how), True), (dml.Device("cpu", threads=1), False)):
        compiled = device.compile(graph.desc, fuse=fuse)
        assert isinstance(compiled, CompiledGraph)
        assert (len(compiled.call.parts) == 1) == fuse
        y = np.zeros(x.shape, to)
        bound = compiled.bind(x=x, output=y)
        for _ in range(2):
            y[...] = 0x55
            bound.execute()
        made.append(y)
    return made[0], made[1]


def elements(kind: str, count: int, rng: np.random.Generator) -> Array:
    """Every byte, or random words with both ends, in any order."""
    ends = np.iinfo(kind)
    x = rng.integers(ends.min, ends.max + 1, count)
    x[: min(256, count)] = np.arange(256)[:count] + ends.min if kind in BYTES else np.linspace(ends.min, ends.max, 256)[:count]
    return rng.permutation(x.astype(kind)).reshape(1, -1)


def test_maps_have_the_bits_of_their_operators(looked_up: list[int], ran: Ran) -> None:
    """Random activations, types, scales and zero points, on each instruction set, from some stages, with one or two threads."""
    rng, isas, count, tables = random.Random(7), [target.name for target in targets()], 0, 0
    for seed in range(MAPS):
        numbers = np.random.default_rng(seed)
        name, kind, to = (
            rng.choice(FUNCTIONS),
            rng.choice(BYTES if seed % 2 else WORDS),
            rng.choice((*BYTES, *WORDS)),
        )
        x = elements(kind, rng.choice((1023, 1024, 1100, 5000)), numbers)
        scales = [2.0 ** rng.uniform(-7, -3) * (1 if k in BYTES else 2.0**-8) for k in (kind, to)]
        if rng.random() < 0.3:
            scales = [2.0 ** np.rint(np.log2(s)) for s in scales]
        if rng.random() < 0.1:
            scales[rng.randrange(2)] = rng.choice((0.0, np.inf, -0.01, 2.0**-149, np.nan))
        zeros = [rng.choice((np.iinfo(k).min, np.iinfo(k).max, 3)) for k in (kind, to)]
        before = len(looked_up)
        how = {"isa": rng.choice(isas), "threads": rng.choice((1, 2)), "stage": rng.choice((STAGES[0], STAGES[0], STAGES[2]))}
        fused, apart = outputs(graph_of(name, x, (scales[0], scales[1]), (zeros[0], zeros[1]), to), x, to, **how)
        np.testing.assert_array_equal(fused, apart, str((seed, name, kind, to, scales, zeros, how)))
        assert (len(looked_up) > before) == (kind in BYTES and to in BYTES and x.size >= 1024)
        count, tables = count + x.size, tables + len(looked_up) - before
    assert tables
    ran(count, 1023 * MAPS)


def test_threads_share_the_elements(looked_up: list[int], ran: Ran) -> None:
    x = elements("int8", (1 << 17) + 77, np.random.default_rng(1))
    fused, apart = outputs(graph_of("tanh", x, (0.031, 0.0079), (-3, 5), "int8"), x, "int8", threads=2)
    np.testing.assert_array_equal(fused, apart)
    assert looked_up == [x.size]
    ran(x.size, 1 << 17)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 130, 1031])
@pytest.mark.skipif(not AVAILABLE, reason="no page can be made inaccessible here")
def test_nothing_beside_the_tensors_is_read_or_written(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, tabled=1)
    x = elements("uint8", n, np.random.default_rng(n))
    graph = graph_of("leaky_relu", x, (0.031, 0.033), (100, 120), "uint8")
    for isa in (target.name for target in targets()):
        compiled = dml.Device("cpu", isa=isa, threads=1).compile(graph.desc)
        near, wanted = [], outputs(graph, x, "uint8")[1]
        for _ in range(2):
            array, _ = place(x.shape, [n, 1], x.dtype, at_end=True)
            near.append(array)
        near[0][...] = x
        compiled.bind(x=near[0], output=near[1]).execute()
        np.testing.assert_array_equal(near[1], wanted)


def test_other_maps_have_no_table(looked_up: list[int]) -> None:
    """A scale for each channel, two inputs, few elements, floats, and elements that do not lie side by side."""
    one, scales = np.ones((1, 1), np.float32), np.full((1, 2048), 0.03, np.float32)
    x, y = (dml.TensorDesc("UINT8", (2, 2048)) for _ in range(2))

    def quantised(x: Any, scale: Any = one) -> Any:
        return dml.element_wise_quantize_linear(dml.activation_relu(dml.element_wise_dequantize_linear(x, scale)), one)

    def both(x: Any, y: Any) -> Any:
        a, b = (dml.element_wise_dequantize_linear(v, one) for v in (x, y))
        return dml.element_wise_quantize_linear(dml.element_wise_multiply(a, b), one)

    device = dml.Device("cpu", threads=1)
    device.compile(dml.graph(lambda x: quantised(x, scales), x=x).desc)
    device.compile(dml.graph(both, x=x, y=y).desc)
    device.compile(dml.graph(quantised, x=dml.TensorDesc("UINT8", (1, 1023))).desc)
    device.compile(dml.graph(quantised, x=dml.TensorDesc("UINT8", (2, 2048), strides=(1, 2))).desc)
    device.compile(dml.graph(lambda x: dml.element_wise_dequantize_linear(x, one), x=x).desc)
    assert not looked_up
    device.compile(dml.graph(quantised, x=x).desc)
    assert looked_up == [4096]


@pytest.mark.parametrize("zero", [-(1 << 31), -32769, -32768, -1, 0, 65535, 65536, (1 << 31) - 1])
def test_constants_are_read_as_16_bits_if_they_fit(zero: int, ran: Ran) -> None:
    """Zero points as INT32 constants, within 16 bits and beyond, where float32 does not hold the differences."""
    x = elements("uint16", 3000, np.random.default_rng(0))
    scale = 1e-4 if abs(zero) < 1 << 17 else 1e-9
    fused, apart = outputs(graph_of("identity", x, (scale, scale), (zero, 77), "int16"), x, "int16")
    np.testing.assert_array_equal(fused, apart)
    ran(x.size, 3000)


@pytest.mark.parametrize("kind", ["uint8", "int16"])
def test_ties_of_exact_products_are_decided_at_once(kind: str, ran: Ran) -> None:
    """With scales that are powers of two, x (x / 6 + 1/2) has elements in the middle of two FLOAT32."""
    x = np.arange(1 << 16, dtype=np.uint16).astype(kind).reshape(1, -1)
    scale = 2.0**-5 if kind == "uint8" else 2.0**-13
    graph = graph_of("hard_swish", x, (scale, scale), (128 if kind == "uint8" else 0,) * 2, kind)
    fused, apart = outputs(graph, x, kind, threads=1)
    np.testing.assert_array_equal(fused, apart)
    for isa in ("avx2", "avx512_vnni"):
        if isa in [target.name for target in targets()]:  # with fused multiply-adds
            compiled = dml.Device("cpu", threads=1, isa=isa).compile(graph.desc)
            compiled.bind(x=x, output=fused).execute()
            np.testing.assert_array_equal(fused, apart)
            assert compiled.counters().undecided == 0
    ran(x.size, 1 << 16)


def test_maps_of_16_bits_need_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, compiled = list[str](), engine.compiled

    def noted(emitter: Any, *arguments: Any) -> Any:
        if "emit" in emitter.__module__:
            texts.append(emitter(*arguments).partition("define i64 @kernel")[2])  # without what is called for slow elements
        return compiled(emitter, *arguments)

    monkeypatch.setattr(engine, "compiled", noted)
    x = elements("uint16", 3000, np.random.default_rng(0))
    for name in ("leaky_relu", "identity"):
        dml.Device("cpu", threads=1).compile(graph_of(name, x, (1e-4, 1e-4), (30000, 31000), "uint16").desc)
    assert len(texts) == 2
    assert all(" x float>" in text and " x double>" not in text for text in texts)
