"""Products of 16-bit activations and 8-bit weights in graphs: two planes of bytes, with the bits of the float operators."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper

import anydml as dml
import anydml.onnx
from anydml import TensorDesc
from anydml.devices.graph import CompiledGraph
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.contract import tuning
from anydml.kernels.contract.quantised import finish, of_planes
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE, place
from quantised_graphs import Building, real
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
NAME = "contract.quantised:compiled"
LAYERS = 2 if SOAK == 1 else 10 * SOAK
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def planes_of_few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of few terms, which floats compute faster, by planes as well."""
    tuned(monkeypatch, tuning, planes=1)


class Window(NamedTuple):
    """The image and the windows of a convolution."""

    image: tuple[int, ...] = (9, 7)
    taps: tuple[int, ...] = (3, 3)
    stride: int = 1
    dilation: int = 1
    padding: int = 1
    groups: int = 1

    @property
    def places(self) -> tuple[int, ...]:
        span = ((n + 2 * self.padding - (k - 1) * self.dilation - 1) for n, k in zip(self.image, self.taps, strict=True))
        return tuple(n // self.stride + 1 for n in span)


class Layer(NamedTuple):
    """x of 16 bits (rows, terms) times weights of 8 bits (terms, columns). scales: "any", "powers" or "extreme"; zero: "ends",
    "any" or "none"; data: "any", "ends" or "small"; ways: "matmul", "gemm" or "transposed". With a window: images, channels and
    filters of a group."""

    x: str = "uint16"
    w: str = "int8"
    y: str = "uint16"
    sizes: tuple[int, int, int] = (7, 40, 19)
    scales: str = "any"
    zero: str = "any"
    data: str = "any"
    way: str = "gemm"
    by_column: bool = True
    batch: int = 0
    relu: bool = False
    window: Window | None = None


def random_layer(rng: random.Random) -> Layer:
    choice = rng.choice
    way = choice(("matmul", "gemm", "transposed"))
    sizes = choice((1, 2, 9, 40)), choice((1, 3, 8, 33, 100, 700)), choice((1, 2, 8, 19, 70))
    return Layer(
        choice(("uint16", "int16")), choice(("int8", "uint8")), choice(("uint16", "int16", "uint8", "int8")), sizes,
        choice(("any", "any", "powers", "extreme")), choice(("ends", "any", "none")), choice(("any", "any", "ends", "small")),
        way, rng.random() < 0.6, 2 * (way == "matmul" and rng.random() < 0.3), rng.random() < 0.3,
    )  # fmt: skip


def random_convolution(rng: random.Random) -> Layer:
    choice = rng.choice
    taps, groups = choice(((1, 1), (3, 3), (3, 3), (1, 3), (5, 5), (3,), (1,), (2, 2, 2))), choice((1, 1, 2, 8))
    image = tuple(choice((5, 7, 9, 14, 17)) for _ in taps)
    window = Window(image, taps, choice((1, 1, 2)), choice((1, 1, 2)) if max(taps) < 4 else 1, choice((0, 1, 2)), groups)
    sizes = choice((1, 2)), choice((1, 1, 3, 8, 16, 33)), choice((1, 1, 4, 16, 33))
    return random_layer(rng)._replace(sizes=sizes, window=window, way="gemm", batch=0)


def elements(kind: str, sizes: tuple[int, ...], data: str, rng: np.random.Generator) -> Array:
    ends = np.iinfo(kind)
    if data == "ends":
        return rng.choice(np.array([ends.min, ends.max]), sizes).astype(kind)
    if data == "small":
        return (rng.integers(-3, 4, sizes) + (ends.min + ends.max + 1) // 2).astype(kind)
    return rng.integers(ends.min, ends.max + 1, sizes).astype(kind)


def made(layer: Layer, seed: int) -> tuple[ModelProto, Array]:
    """The model of a layer, and data for it."""
    rng, (m, k, n), window = np.random.default_rng(seed), layer.sizes, layer.window
    n *= window.groups if window else 1
    count = n if layer.by_column else 1
    sx, sw = rng.uniform(1e-5, 1e-3), rng.uniform(0.001, 0.1, count)
    if layer.scales == "powers":
        sx, sw = 2.0 ** rng.integers(-14, -8), np.ldexp(1.0, rng.integers(-9, -6, count))
    elif layer.scales == "extreme":
        sx *= 2.0**-30
    typical = sx * sw[0] * 74 * 18_919 * np.sqrt(k * (math.prod(window.taps) if window else 1))
    sy = typical / (8000 if "16" in layer.y else 40)
    if layer.scales == "powers":
        sy = 2.0 ** np.rint(np.log2(sy))

    def zero(kind: str) -> Array:
        ends = np.iinfo(kind)
        drawn = rng.choice((ends.min, ends.max)) if layer.zero == "ends" else rng.integers(ends.min, ends.max + 1)
        return np.array(0 if layer.zero == "none" else drawn, kind)

    wide: tuple[int, ...] = (n, k) if layer.way == "transposed" else (k, n)
    sizes: tuple[int, ...] = (*([layer.batch] if layer.batch else []), m, k)
    if window:
        wide, sizes = (n, k, *window.taps), (m, k * window.groups, *window.image)
    arrays = {
        "w": elements(layer.w, wide, layer.data, rng),
        "sx": np.float32(sx), "zx": zero(layer.x), "sy": np.float32(sy), "zy": zero(layer.y),
        "sw": sw.astype(np.float32) if layer.by_column else np.float32(sw[0]),
        # constants are dequantised when a model is read, and found again if 8 bits with a sign hold them
        "zw": np.full((count,) if layer.by_column else (), 128 * (layer.w == "uint8"), layer.w),
        "b": (np.rint(rng.standard_normal(n) * 20) * sy).astype(np.float32),
    }  # fmt: skip
    x = elements(layer.x, sizes, layer.data, rng)
    axis = 0 if layer.way == "transposed" or window else 1
    inputs = ["fx", "fw"] if layer.way == "matmul" else ["fx", "fw", "b"]
    product = (
        helper.make_node("MatMul", inputs, ["f"])
        if layer.way == "matmul"
        else helper.make_node("Gemm", inputs, ["f"], transB=1 - axis)
    )
    if window:
        around = [window.padding] * 2 * len(window.taps)
        strides, dilations = ([n] * len(window.taps) for n in (window.stride, window.dilation))
        product = helper.make_node(
            "Conv", inputs, ["f"], group=window.groups, pads=around, strides=strides, dilations=dilations
        )
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["fx"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["fw"], axis=axis),
        product,
        *([helper.make_node("Relu", ["f"], ["r"])] if layer.relu else []),
        helper.make_node("QuantizeLinear", ["r" if layer.relu else "f", "sy", "zy"], ["y"]),
    ]
    types = (helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in (layer.x, layer.y))
    of_x, of_y = types
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", of_x, x.shape)],
        [helper.make_tensor_value_info("y", of_y, outputs(layer, x).shape)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), x


def compiled(model: ModelProto, *, fuse: bool = True, isa: str | None = None, threads: int = 1) -> CompiledGraph:
    found = anydml.onnx.load(model).graph().compile(dml.Device("cpu", isa=isa, threads=threads), fuse=fuse)
    assert isinstance(found, CompiledGraph)
    return found


def kernels(graph: CompiledGraph) -> list[str]:
    return [part.kernel_name for part in graph.call.parts]


def run(graph: CompiledGraph, x: Array, y: Array) -> Array:
    graph.bind(x=x, y=y).execute()
    return y


def outputs(layer: Layer, x: Array) -> Array:
    if layer.window:
        return np.full((len(x), layer.sizes[2] * layer.window.groups, *layer.window.places), 0x55, layer.y)
    return np.full((*x.shape[:-1], layer.sizes[2]), 0x55, layer.y)


@pytest.mark.parametrize("random_one", [random_layer, random_convolution])
def test_layers_have_the_bits_of_their_operators(random_one: Callable[[random.Random], Layer], ran: Ran) -> None:
    """Random layers with hostile data, on each instruction set and some threads: every output is the same fused and unfused."""
    rng, count, taken, isas = random.Random(35), 0, 0, [target.name for target in targets()]
    for seed in range(LAYERS):
        layer = random_one(rng)
        model, x = made(layer, seed)
        fused = compiled(model, isa=rng.choice(isas), threads=rng.choice((1, 2)))
        taken += kernels(fused) == [NAME]
        wanted = run(compiled(model, fuse=False), x, outputs(layer, x))
        for _ in range(2):
            np.testing.assert_array_equal(run(fused, x, outputs(layer, x)), wanted, str((seed, layer)))
        count += wanted.size
    assert taken > 0.8 * LAYERS
    ran(count, 20 * LAYERS)


@pytest.mark.parametrize(("y", "window"), [("uint16", None), ("int8", None), ("int16", Window())])
@pytest.mark.parametrize("unsure", [0.0, of_planes.UNKNOWN])
def test_all_stages_decide_as_stated(y: str, unsure: float, window: Window | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a first bound that decides nothing, sums in float64 decide; with no second one either, the exact stages do."""
    layer = Layer("int16", "uint8", y, (1, 5, 2) if window else (5, 61, 21), window=window)
    model, x = made(layer, 3)
    wanted = run(compiled(model, fuse=False), x, outputs(layer, x))
    assert len(np.unique(wanted)) > 20
    channels = of_planes._PlanesOfBytes._channels

    def wider(planes: Any) -> Any:
        table, pitch, weights = channels(planes)
        # norms: of errors, which the first bounds have, and of weights, which all have
        table[[finish.OF_ERRORS, finish.WEIGHTS if unsure else finish.ERRORS]] = 1e30
        return table, pitch, weights

    monkeypatch.setattr(of_planes._PlanesOfBytes, "_channels", wider)
    found = compiled(model)
    assert kernels(found) == [NAME]
    np.testing.assert_array_equal(run(found, x, outputs(layer, x)), wanted)


@pytest.mark.parametrize("window", [None, Window()])
def test_powers_of_two_are_exact(window: Window | None, ran: Ran) -> None:
    """Nothing is rounded before the last step, a quarter of the quotients are ties, and nothing is summed again."""
    sizes = (1, 16, 12) if window else (20, 64, 33)
    layer = Layer(sizes=sizes, scales="powers", data="small", y="uint8", zero="none", by_column=False, window=window)
    model, x = made(layer, 1)
    wanted = run(compiled(model, fuse=False), x, outputs(layer, x))
    np.testing.assert_array_equal(run(compiled(model), x, outputs(layer, x)), wanted)
    ran(wanted.size, 660)


def test_few_terms_stay_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the threshold, each output costs more by two planes than its terms do as floats."""
    monkeypatch.undo()
    for channels, y, taken in ((3, "uint8", False), (4, "uint8", True), (7, "int16", False), (8, "int16", True)):
        model, _ = made(Layer(y=y, sizes=(1, channels, 8), window=Window()), 1)
        assert (kernels(compiled(model)) == [NAME]) == taken


def test_zero_points_of_weights(ran: Ran) -> None:
    """Weights that the graph dequantises, with zero points at both ends, by column."""
    count, t, m, k, n = 0, TensorDesc, 9, 130, 21
    for seed, (kind, middle) in enumerate((("INT16", 0), ("UINT16", 1 << 15))):
        rng, graph = np.random.default_rng(seed), Building()
        x = elements(kind.lower(), (m, k), "any", rng)
        whole = dml.Cast(input_tensor=t(kind, (m, k)), output_tensor=t("INT32", (m, k)))
        of_x = graph.dequantised(
            graph.call(whole, "cast", "x"),
            t("INT32", (m, k)),
            np.array([0.01], np.float32),
            np.array([middle - 7], np.int32),
            "of x",
        )
        w, zero = (elements("uint8", sizes, data, rng) for sizes, data in (((k, n), "any"), ((n,), "ends")))
        scale = rng.uniform(0.01, 0.02, n).astype(np.float32)
        of_w = graph.dequantised(graph.constant(w), t("UINT8", (k, n)), scale, zero, "of w", 1)
        desc = dml.Gemm(a_tensor=real((m, k)), b_tensor=real((k, n)), output_tensor=real((m, n)))
        sums = graph.call(desc, "sums", of_x, of_w, None)
        divisor, added = np.array([300.0], np.float32), np.array([100], np.uint8)
        graph.output(graph.quantised(sums, (m, n), divisor, added, np.uint8, "q"), "y")
        device = dml.Device("cpu", threads=1)
        fused, alone = (device.compile(graph.desc(), fuse=fuse) for fuse in (True, False))
        assert isinstance(fused, CompiledGraph)
        assert isinstance(alone, CompiledGraph)
        assert kernels(fused) == [NAME]
        wanted = run(alone, x, np.zeros((m, n), np.uint8))
        assert len(np.unique(wanted)) > 20
        np.testing.assert_array_equal(run(fused, x, np.zeros((m, n), np.uint8)), wanted)
        count += wanted.size
    ran(count, 378)


@pytest.mark.skipif(not AVAILABLE, reason="no page can be made inaccessible here")
@pytest.mark.parametrize("window", [None, Window()])
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_beside_the_tensors_is_read_or_written(at_end: bool, window: Window | None) -> None:
    for isa in [target.name for target in targets()][: None if SOAK > 1 else 1]:
        layer = Layer(sizes=(3, 9, 5) if window else (3, 37, 21), window=window)
        model, x = made(layer, 5)
        wanted = run(compiled(model, fuse=False), x, outputs(layer, x))
        arrays = []
        for like in (x, wanted):
            array, _ = place(like.shape, [s // like.itemsize for s in like.strides], like.dtype, at_end=at_end)
            array[...] = x if like is x else 0
            arrays.append(array)
        np.testing.assert_array_equal(run(compiled(model, isa=isa), *arrays), wanted)
