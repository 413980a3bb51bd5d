"""Thousands of tensors and nodes: the cost of compiling is proportional to their number, and joins and splits of 15,000 run.

Cost is counted in calls of Python and C functions: four times as many nodes need about four times as many calls.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices import device
from anydml.devices.binding import Near
from anydml.exact.float32 import _by_integers, products_in_float32, round_to_float32
from anydml.exact.formats import FLOAT32, nearest
from anydml.graphs import memory
from anydml.graphs.order import ordered
from anydml.kernels.code import llvm
from every_kernel import SOAK, Ran

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="without LLVM, each node is computed by itself")

MOST = 15_000 if SOAK > 1 else 1_500
SCALE, ZERO = np.array([[0.1]], np.float32), np.array([[3]], np.uint8)
ROW = TensorDesc("FLOAT32", (1, 16))
Function = Callable[..., Any]


def maps(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        for i in range(n):
            x = (dml.activation_relu if i % 2 else dml.element_wise_negate)(x)
        return x

    return function, {"x": ROW}


def quantised(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        for _ in range(n // 2):
            x = dml.element_wise_dequantize_linear(dml.element_wise_quantize_linear(x, SCALE, ZERO), SCALE, ZERO)
        return x

    return function, {"x": ROW}


def residual(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        for _ in range(n // 3):
            x = dml.element_wise_add(x, dml.activation_sigmoid(dml.activation_relu(x)))
        return x

    return function, {"x": ROW}


def joined(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        return dml.join([(dml.element_wise_abs if i % 2 else dml.element_wise_negate)(x) for i in range(n)], 0)

    return function, {"x": ROW}


def cut(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        return dml.join([dml.element_wise_abs(dml.slice1(x, (i, 0), (1, 16))) for i in reversed(range(n // 2))], 0)

    return function, {"x": TensorDesc("FLOAT32", (n // 2, 16))}


def of_inputs(n: int) -> tuple[Function, dict[str, Any]]:
    return lambda **inputs: dml.join([*inputs.values()], 0), {f"x{i}": ROW for i in range(n)}


def of_moves(n: int) -> tuple[Function, dict[str, Any]]:
    def function(x: Any) -> Any:
        for _ in range(n // 3):
            x = dml.join([dml.slice1(x, (0, 8), (1, 8)), dml.slice1(x, (0, 0), (1, 8))], 1)
        return dml.element_wise_abs(x)

    return function, {"x": ROW}


GRAPHS = [maps, quantised, residual, joined, cut, of_inputs, of_moves]


def computed(made: Function, inputs: dict[str, Any]) -> None:
    graph = dml.graph(made, **inputs)
    compiled: Any = graph.compile(dml.Device(threads=1))
    arrays = {name: np.ones(t.sizes, t.data_type.dtype) for name, t in graph.inputs.items()}
    outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in graph.outputs.items()}
    compiled.bind(**arrays, **outputs).execute()


def calls(function: Callable[[], object]) -> int:
    count = 0

    def noting(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(noting)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def assert_linear(some: Callable[[], object], fourfold: Callable[[], object]) -> None:
    counts = calls(some), calls(fourfold)
    assert counts[1] <= 5 * counts[0], counts


@pytest.mark.parametrize("of", GRAPHS, ids=lambda of: of.__name__)
def test_graphs_take_time_by_their_nodes(of: Callable[[int], tuple[Function, dict[str, Any]]]) -> None:
    computed(*of(100))  # imports and first compilations
    assert_linear(lambda: computed(*of(200)), lambda: computed(*of(800)))


def test_joins_and_splits_of_very_many(ran: Ran) -> None:
    parts = [np.full((1, 3), i, np.float32) for i in range(MOST)]
    whole = np.concatenate(parts)
    np.testing.assert_array_equal(dml.join(parts, 0), whole)
    np.testing.assert_array_equal(dml.split(whole, 0, output_sizes=[(1, 3)] * MOST), parts)
    one, part = TensorDesc("FLOAT32", (MOST, 16)), TensorDesc("FLOAT32", (1, 16))
    on = dml.Device(threads=1)
    for desc in (
        dml.Join(input_tensors=(part,) * MOST, output_tensor=one, axis=0),
        dml.Split(input_tensor=one, output_tensors=(part,) * MOST, axis=0),
    ):
        assert on.compile(desc).kernel_name == "copy:compiled"
    ran(4, 4)


def test_joins_and_splits_take_time_by_their_tensors() -> None:
    def both(n: int) -> None:
        on = dml.Device(threads=1)
        parts = [np.full((1, 32), i, np.float32) for i in range(n)]
        whole = dml.join(parts, 0, device=on)
        dml.split(whole, 0, output_sizes=[(1, 32)] * n, device=on, out=parts)
        one, part = TensorDesc("FLOAT32", (n, 32)), TensorDesc("FLOAT32", (1, 32))
        compiled = on.compile(dml.Split(input_tensor=one, output_tensors=(part,) * n, axis=0))
        compiled.bind(input_tensor=whole, output_tensors=parts).execute()

    both(40)
    assert_linear(lambda: both(400), lambda: both(1600))


def test_models_take_time_by_their_nodes() -> None:
    onnx = pytest.importorskip("onnx")
    from anydml.onnx import load  # imported after the check that it is installed

    def run(n: int) -> None:
        node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
        nodes = [node("Split", ["x"], [f"a{i}" for i in range(n)], axis=0)]
        nodes += [node("Relu" if i % 2 else "Neg", [f"a{i}"], [f"b{i}"]) for i in range(n)]
        nodes += [node("QuantizeLinear", [f"b{i}", "s", "z"], [f"c{i}"]) for i in range(n)]
        nodes += [node("DequantizeLinear", [f"c{i}", "s", "z"], [f"d{i}"]) for i in range(n)]
        nodes += [node("Concat", [f"d{i}" for i in range(n)], ["y"], axis=0)]
        constants = [onnx.numpy_helper.from_array(x, name) for x, name in ((np.float32(0.25), "s"), (np.uint8(7), "z"))]
        value = onnx.helper.make_tensor_value_info
        outputs = [value("y", kind, (n, 4)), *(value(f"b{i}", kind, (1, 4)) for i in range(n))]
        graph = onnx.helper.make_graph(nodes, "g", [value("x", kind, (n, 4))], outputs, constants)
        model = load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))
        assert not model.check()
        x = np.arange(n * 4, dtype=np.float32).reshape(n, 4) % 7
        signs = np.where(np.arange(n) % 2, 1, -1).astype(np.float32)[:, None]
        made = model.run({"x": x}, device=dml.Device(threads=1))
        np.testing.assert_array_equal(made["y"], np.maximum(x * signs, -1.75))

    run(40)
    assert_linear(lambda: run(80), lambda: run(320))


# --- reasons for this ---


def test_very_many_buffers_have_places_of_their_own(ran: Ran) -> None:
    """Buffers that are needed at the same time do not overlap, and memory is within a tenth of the least possible."""
    rng, count = random.Random(3), 0
    for n in (1, 20, memory.MANY, memory.MANY + 1, 2000):
        for longest in (1, 30, n):
            begins = [rng.randrange(n) for _ in range(n)]
            found = {b: memory.Life(at, min(n, at + rng.randint(0, longest)), 64 * rng.choice((1, 2, 9, 100)))
                     for b, at in enumerate(begins)}  # fmt: skip
            offsets, size = memory.laid_out(found)
            assert size <= 1.1 * memory.most_alive(found) + 6400
            assert all(at % memory.LINE == 0 and at + found[b].bytes <= size for b, at in offsets.items())
            lines = np.zeros(size // memory.LINE, np.int64)  # the time from which each line is free
            for b in sorted(found, key=lambda b: found[b].first):
                own = slice(offsets[b] // memory.LINE, (offsets[b] + found[b].bytes) // memory.LINE)
                assert (lines[own] <= found[b].first).all()
                lines[own] = found[b].last + 1
                count += 1
    ran(count, 9_000)


def test_arrays_that_may_share_memory_are_found(ran: Ran) -> None:
    rng = np.random.default_rng(4)
    whole = np.zeros(400, np.uint8)
    for _ in range(30):
        arrays = []
        for _ in range(20):
            begin, size = int(rng.integers(0, 380)), int(rng.integers(1, 60))
            arrays.append(whole[begin : begin + size : int(rng.choice([1, 2, 5]))][:: int(rng.choice([1, -1]))])
        near = Near(arrays)
        for i, x in enumerate(arrays):
            assert near.to(i) == [k for k, y in enumerate(arrays) if k != i and np.may_share_memory(x, y)]
    ran(600, 600)


def test_long_cycles_are_found() -> None:
    n = 20_000
    assert ordered(n, [(i, (i + 1) % n) for i in range(n)]) == [*range(n)]
    assert ordered(5, [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]) == [1, 2, 3]


def test_compiling_pauses_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """No garbage collection while a graph is traced and compiled; afterwards the collector's state is restored, even after
    errors."""
    enabled: list[bool] = []

    def checked(*_: object) -> None:
        enabled.append(gc.isenabled())
        raise ZeroDivisionError

    def function(x: Any) -> Any:
        enabled.append(gc.isenabled())
        return dml.element_wise_abs(x)

    monkeypatch.setattr(device, "check_graph", checked)
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            with pytest.raises(ZeroDivisionError):
                dml.graph(function, x=ROW).compile()
            assert gc.isenabled() == before
        finally:
            gc.enable()
    assert enabled == [False] * 4


def test_rounding_by_casts_is_rounding_by_integers(ran: Ran) -> None:
    """Bits of any numbers, ties and their neighbours, at both ends of the range."""
    rng = np.random.default_rng(5)
    anything = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    numbers = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        ties = (numbers.astype(np.float64) + np.nextafter(numbers, np.float32(np.inf))) / 2
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-150, 2.0**-149, 3.4028235677973362e38, 3.4028235677973366e38])
    for x in (anything, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), np.ldexp(ties, -130), ends):
        assert round_to_float32(x).tobytes() == _by_integers(x).tobytes()
        there = x[~np.isnan(x)]
        assert round_to_float32(there).tobytes() == _by_integers(there).tobytes()
    ran(500_000, 500_000)


def test_products_in_float32(ran: Ran) -> None:
    rng = np.random.default_rng(6)
    count = 0
    for bits, least in ((8, 2.0**-149), (8, 2.0**-126), (9, 0), (25, 0), (33, 0), (37, 0)):
        n = rng.integers(-(2**bits) + 1, 2**bits, 3000)
        x = rng.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32)
        x = np.where(np.isfinite(x), x, np.float32(0.75))
        x[::3] = np.exp2(rng.integers(-149, 100, 1000)).astype(np.float32)  # many of their products are ties
        if bits == 8:  # like bytes minus a zero point
            n, x = n.astype(np.int16), np.maximum(np.abs(x), np.float32(least))
        made = products_in_float32(n, x)
        for k, (whole, factor) in enumerate(zip(n.tolist(), x.tolist(), strict=True)):
            product = Fraction(factor) * whole
            wanted = nearest(product.numerator, product.denominator, FLOAT32) if product else 0
            assert made[k].view(np.uint32) == wanted, (whole, factor)
            count += 1
    ran(count, 18_000)


def test_comparisons_are_imported_when_they_are_asked_for() -> None:
    pytest.importorskip("onnx")
    said = (
        "import sys, anydml.onnx as o; late = ('anydml.onnx.comparing', 'anydml.explain', 'flint')\n"
        "assert not any(name in sys.modules for name in late), sys.modules.keys() & late\n"
        "from anydml.onnx import *; assert callable(o.compare) and callable(page) and o.NodeComparison is NodeComparison\n"
        "import anydml.onnx.comparing; assert callable(o.compare) and set(dir(o)) == set(o.__all__)\n"
        "try: o.nothing\nexcept AttributeError: print('well')"
    )
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, text=True).stdout == "well\n"
