"""Graphs that dequantise, average and quantise again: integers are averaged, with the bits of the float operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, TensorDesc
from anydml.devices.families import BETWEEN
from anydml.devices.graph import CompiledGraph
from anydml.exact.float32 import round_to_float32
from anydml.kernels.code import llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.kernel import Refused
from anydml.kernels.match.between import QuantisedMeans
from anydml.kernels.windows import estimate, quantised
from anydml.kernels.windows.key import DEQUANTIZED, ESTIMATED
from anydml.schema.expression import Mean, Tensor, each, over
from anydml.schema.statement import nest
from every_kernel import SOAK, Ran
from guard_pages import AVAILABLE, place

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
Array = NDArray[Any]
NAME = "windows.quantised:compiled"
ISAS = [target.name for target in targets()]
Averaged = Callable[[Any], Any]


def graph_of(x: Array, scales: tuple[Any, Any], zeros: tuple[Any, Any], averaged: Averaged) -> Any:
    def function(x: Any) -> Any:
        floats = dml.element_wise_dequantize_linear(x, np.float32(scales[0]), zeros[0])
        return dml.element_wise_quantize_linear(averaged(floats), np.float32(scales[1]), zeros[1])

    return dml.graph(function, x=TensorDesc.of(x))


def executed(graph: Any, x: Array, *, fuse: bool, isa: str | None = None, threads: int = 1) -> tuple[list[str], Array]:
    """The kernels of a graph and its output, after two calls that agree."""
    (t,) = graph.outputs.values()
    compiled = dml.Device("cpu", isa=isa, threads=threads).compile(graph.desc, fuse=fuse)
    assert isinstance(compiled, CompiledGraph)
    y, again = (np.full(t.sizes, 0x55, t.data_type.dtype) for _ in range(2))
    for output in (y, again):
        compiled.bind(x=x, output=output).execute()
    np.testing.assert_array_equal(y, again)
    return [part.kernel_name for part in compiled.call.parts], y


def same(graph: Any, x: Array, isa: str | None = None, threads: int = 1) -> Array:
    names, fused = executed(graph, x, fuse=True, isa=isa, threads=threads)
    assert names == [NAME]
    names, unfused = executed(graph, x, fuse=False)
    assert NAME not in names
    np.testing.assert_array_equal(fused, unfused)
    return fused


def pooled(clamp: float | None = None, **fields: Any) -> Averaged:
    """The mean of windows; clamped, if `clamp` is given."""

    def averaged(x: Any) -> Any:
        made = dml.average_pooling1(x, **fields)
        return made if clamp is None else dml.element_wise_clip(made, min=0.0, max=clamp)

    return averaged


def over_all(*axes: int) -> Averaged:
    return lambda x: dml.reduce(x, function="AVERAGE", axes=axes)


def bytes_of(sizes: tuple[int, ...], dtype: Any = np.uint8, seed: int = 1) -> Array:
    limits = np.iinfo(dtype)
    found: Array = np.random.default_rng(seed).integers(limits.min, limits.max + 1, sizes).astype(dtype)
    return found


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[estimate.Numbers]:
    """The numbers of all kernels that are made."""
    found: list[estimate.Numbers] = []
    numbers = estimate.numbers

    def noted(*arguments: Any) -> Any:
        made = numbers(*arguments)
        if not isinstance(made, str):
            found.append(made)
        return made

    monkeypatch.setattr(quantised, "numbers", noted)
    return found


def asked_for(monkeypatch: pytest.MonkeyPatch, kind: str, slack: float = 0.0) -> None:
    """Use this kind of sums; slack: an addition to the bounds of estimates."""

    def numbers(p: Any, x: Any, y: Any, counts: Any, _: float) -> Any:
        made = estimate.numbers(p, x, y, counts, slack)
        assert not isinstance(made, str)
        return made._replace(kind=kind)

    monkeypatch.setattr(quantised, "numbers", numbers)


SHAPES: Mapping[str, tuple[tuple[int, ...], Averaged]] = {
    "2 x 2": ((1, 64, 112, 112), pooled(strides=(2, 2), window_size=(2, 2))),
    "3 x 3": (
        (1, 96, 40, 40),
        pooled(strides=(1, 1), window_size=(3, 3), start_padding=(1, 1), end_padding=(1, 1), include_padding=False),
    ),
    "7 x 7": ((3, 10000, 7, 7), over_all(2, 3)),
}


def left_undecided(x: Array, window: int, made: estimate.Numbers) -> float:
    """The share of adjacent squares whose means an estimate leaves undecided; zero points are 3 and 9."""
    n, c, h, w = (size // window if at > 1 else size for at, size in enumerate(x.shape))
    squares = x.reshape(n, c, h, window, w, window).astype(np.int32) - 3
    record = made.record.view(estimate.RECORD)[0]
    v = squares.sum((3, 5)).astype(np.float32) * np.float32(record["ratio"] / window**2)
    v = np.clip(v, record["low_end"], record["high_end"])
    return float((np.abs(v - np.rint(v)) >= record["limit"]).mean())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scales", [(0.1, 0.1), (1 / 255, 0.0047), (0.125, 0.125), (0.1, 0.025)])
def test_many_outputs(shape: str, scales: tuple[float, float], kinds: list[estimate.Numbers], ran: Ran) -> None:
    """Layers of ordinary data, with ties and without: every output is the same fused and unfused."""
    sizes, averaged = SHAPES[shape]
    count = 0
    for seed in range(SOAK):
        x = bytes_of(sizes, seed=seed)
        y = same(graph_of(x, scales, (np.uint8(3), np.uint8(9)), averaged), x, threads=1 + (scales == (0.1, 0.1)))
        count += y.size
    (made, *_) = kinds
    share = f"{left_undecided(x, int(shape[0]), made):.1e}" if shape != "3 x 3" else "some"
    print(f"{made.kind}: {share} of the outputs are left open by an estimate, by {made.share:.1e} in advance")
    assert (made.share > 0.2) == (shape == "2 x 2" and scales == (0.1, 0.1))
    assert made.kind == (DEQUANTIZED if made.share > 0.01 else ESTIMATED)
    ran(count, 29_000 * SOAK)


def random_case(rng: random.Random, seed: int) -> tuple[Any, Array]:
    """A small random graph with hostile data, and its input."""
    dimensions = rng.choice((2, 2, 2, 3))
    spatial = [rng.choice((1, 2, 3, 7, 8, 17, 33) if dimensions == 2 else (1, 2, 4, 6)) for _ in range(dimensions)]
    given, taken = (rng.choice((np.uint8, np.int8)) for _ in range(2))
    zeros = tuple(t(rng.randint(np.iinfo(t).min, np.iinfo(t).max)) for t in (given, taken))
    s = rng.choice((0.1, 0.05, 1 / 255, 2.0**-5, 3 * 2.0**-6, 2.0 ** rng.uniform(-20, 5)))
    scales = s, rng.choice((s, s, s / 2, s * 1.5, s * rng.uniform(0.3, 2)))
    x = bytes_of((rng.choice((1, 2)), rng.choice((1, 3, 8, 20)), *spatial), given, seed)
    if rng.random() < 0.3:
        averaged = over_all(*rng.choice(((2, 3), (1, 2), (3,), (0, 2))))
    else:
        window = [rng.choice((1, 2, 2, 3, 3, n)) for n in spatial]
        ends = [[rng.choice((0, 0, 1, w - 1)) if w > 1 else 0 for w in window] for _ in range(2)]
        dilations = [rng.choice((1, 1, 2)) if (w - 1) * 2 < n else 1 for n, w in zip(spatial, window, strict=True)]
        averaged = pooled(
            rng.choice((None, None, 60 * s)), window_size=window, strides=[rng.choice((1, 1, 2, 3)) for _ in window],
            start_padding=ends[0], end_padding=ends[1], dilations=dilations, include_padding=rng.random() < 0.4,
        )  # fmt: skip
    return graph_of(x, scales, cast(tuple[Any, Any], zeros), averaged), x


@pytest.mark.parametrize("isa", ISAS)
def test_windows_of_all_kinds(isa: str, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    rng, count = random.Random(14), 0
    for seed in range(6 * SOAK):
        asked_for(monkeypatch, (ESTIMATED, DEQUANTIZED)[seed % 2])
        graph, x = random_case(rng, seed)
        count += same(graph, x, isa, rng.choice((1, 3))).size
    ran(count, 200 * SOAK)


def stated(x: Array, scales: tuple[float, float], zeros: tuple[int, int], window: int) -> Array:
    """Adjacent squares, averaged in fractions, with every rounding of the float operators."""
    s, y = (np.float32(scale) for scale in scales)
    floats = round_to_float32((x.astype(np.float64) - zeros[0]) * np.float64(s))
    n, c, h, w = (m // k for m, k in zip(x.shape, (1, 1, window, window), strict=True))
    made = np.zeros((n, c, h, w), np.uint8)
    for at in np.ndindex(n, c, h, w):
        rows, columns = (slice(window * k, window * (k + 1)) for k in at[2:])
        total = sum(map(Fraction, floats[at[0], at[1], rows, columns].astype(float).ravel().tolist()), Fraction(0))
        # in float64, the sum of so few elements is never so close to a half that its quotient is rounded to the wrong side
        mean = round_to_float32(np.array([float(total) / window**2]))
        made[at] = int(np.clip(np.rint(mean / y)[0] + zeros[1], 0, 255))
    return made


@pytest.mark.parametrize("kind", [ESTIMATED, DEQUANTIZED])
@pytest.mark.parametrize("slack", [0.0, 0.75])
def test_each_way_gives_what_is_stated(kind: str, slack: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of sums, and estimates that decide nothing: windows along lines, with few and many elements."""
    asked_for(monkeypatch, kind, slack)
    scales, zeros = (0.1, 0.1), (np.uint8(3), np.uint8(9))
    for window in (2, 12):
        x = bytes_of((1, 2, 24, 60))
        averaged = pooled(strides=(window,) * 2, window_size=(window,) * 2)
        np.testing.assert_array_equal(same(graph_of(x, scales, zeros, averaged), x), stated(x, scales, (3, 9), window))
    for x, averaged in (
        (bytes_of((2, 9, 5, 5)), over_all(2, 3)),  # whole images
        (bytes_of((2, 9, 5, 40), np.int8), over_all(1, 2)),  # lines along which no window slides
        (
            bytes_of((1, 1, 3, 5, 6)),
            pooled(strides=(1,) * 3, window_size=(2,) * 3, start_padding=(1,) * 3, end_padding=(1,) * 3),
        ),
    ):
        same(graph_of(x, scales, (x.dtype.type(3), zeros[1]), averaged), x)


@pytest.mark.parametrize(
    "averaged",
    [
        lambda x: dml.reduce(x, function="AVERAGE", axes=(2, 3)).reshape((18,)),
        lambda x: dml.reduce(x.transpose((0, 2, 3, 1)), function="AVERAGE", axes=(1, 2)),
        lambda x: dml.element_wise_clip(
            dml.average_pooling(x.reshape((2, 9, 8, 7)), window_size=(3, 3)).reshape((2, 3, 3, 30)), min=0.0, max=14.0
        ),
    ],
    ids=["flattened", "channels last", "other sizes"],
)
def test_tensors_that_are_read_otherwise(averaged: Averaged) -> None:
    """Means with contiguous elements and other sizes; and transposed dequantised tensors."""
    x = bytes_of((2, 9, 7, 8))
    graph = graph_of(x, (0.1, 0.1), (np.uint8(3), np.uint8(9)), averaged)
    names, fused = executed(graph, x, fuse=True)
    assert names[-1] == NAME
    np.testing.assert_array_equal(fused, executed(graph, x, fuse=False)[1])
    assert len(np.unique(fused)) > 5


def test_tensors_of_few_dimensions(ran: Ran) -> None:
    """Means along any dimensions of tensors with one to three dimensions and different layouts."""
    count = 0
    for sizes in ((3, 5), (7,), (1, 9), (4, 2, 6)):
        for dtype in (np.int8, np.uint8):
            x = bytes_of(sizes, dtype)
            for reduced in range(1, len(sizes) + 1):
                for axes in combinations(range(len(sizes)), reduced):
                    graph = graph_of(x, (0.1, 0.1), (dtype(3), np.uint8(9)), over_all(*axes))
                    names, fused = executed(graph, x, fuse=True)
                    assert names == [NAME] or max(sizes[d] for d in axes) == 1
                    np.testing.assert_array_equal(fused, executed(graph, x, fuse=False)[1])
                    count += 1
    ran(count, 28)


def pooling(x: tuple[float, int], rounding: tuple[float, int]) -> QuantisedMeans:
    """A region with means of rows."""
    t = Tensor("x", (1, 1, 4), DataType.FLOAT32)
    i = each((1, 1, 1))
    k = over(i, t.sizes, (2,))
    return QuantisedMeans(nest(i, Mean(k, t[k])), "x", x, (-np.inf, np.inf), rounding)


def test_bounds_hold(ran: Ran) -> None:
    """Elements whose roundings have the same direction: quotients are no farther from the estimate than its limit allows."""
    count, most = 0, 0.0
    rng = np.random.default_rng(5)
    for scale in np.exp2(rng.uniform(-10, 3, 40)).astype(np.float32):
        y = float(np.float32(scale * rng.uniform(0.5, 2)))
        made = estimate.numbers(
            pooling((float(scale), 0), (y, 0)), DataType.UINT8, DataType.UINT8, estimate.Counts({7: 1.0}, True, 1.0)
        )
        assert not isinstance(made, str)
        record = made.record.view(estimate.RECORD)[0]
        d = np.arange(256)
        floats = round_to_float32(np.float64(scale) * d).astype(np.float64)
        mean = round_to_float32(floats).astype(np.float64)  # of seven equal elements
        quotient = (mean.astype(np.float32) / np.float32(y)).astype(np.float64)
        factor = np.float64(np.float32(record["ratio"] / 7))
        away = np.abs(quotient - (7 * d * factor).astype(np.float32))[quotient < 255].max()
        bound = 0.5 - float(record["limit"])
        assert away <= bound
        most = max(most, away / bound)
        count += 1
    print(f"{most:.2f} of a bound at most")
    assert most > 0.2
    ran(count, 40)


@pytest.mark.parametrize(
    ("scales", "window", "exact"),
    [
        ((0.5, 0.5), 4, True),
        ((0.375, 0.375), 4, True),
        ((0.375, 0.125), 64, True),
        ((0.375, 0.25), 4, True),
        ((0.5, 0.5), 9, False),
        ((0.5, 0.375), 4, False),
        ((0.1, 0.1), 4, False),
    ],
)
def test_sums_that_are_exact_leave_nothing_open(scales: tuple[float, float], window: int, exact: bool) -> None:
    """A quarter of these means are ties, and none is undecided."""
    region = pooling((float(np.float32(scales[0])), 7), (float(np.float32(scales[1])), 7))
    for all_of in (True, False):
        made = estimate.numbers(region, DataType.UINT8, DataType.UINT8, estimate.Counts({window: 1.0}, all_of, 1.0))
        assert not isinstance(made, str)
        assert (float(made.record.view(estimate.RECORD)[0]["limit"]) > 1) == (exact and all_of)


@pytest.mark.skipif(not AVAILABLE, reason="no page can be made inaccessible here")
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("kind", [ESTIMATED, DEQUANTIZED])
def test_nothing_beside_the_tensors_is_read_or_written(kind: str, at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for(monkeypatch, kind, 0.4)
    around: dict[str, Any] = dict(window_size=(3, 2), start_padding=(1, 1), end_padding=(1, 0), dilations=(1, 2))
    for given, averaged in (
        (bytes_of((2, 3, 9, 11)), pooled(strides=(2, 1), **around)),
        (bytes_of((2, 9, 3, 3)), over_all(2, 3)),
    ):
        graph = graph_of(given, (0.1, 0.1), (np.uint8(3), np.uint8(9)), averaged)
        (t,) = graph.outputs.values()
        x, _ = place(given.shape, [s // given.itemsize for s in given.strides], given.dtype, at_end=at_end)
        y, _ = place(t.sizes, t.explicit_strides, np.dtype(np.uint8), at_end=at_end)
        x[...] = given
        for isa in (ISAS[0], None):
            y[...] = 0x55
            dml.Device("cpu", isa=isa, threads=1).compile(graph.desc).bind(x=x, output=y).execute()
            np.testing.assert_array_equal(y, executed(graph, given, fuse=False)[1])


# --- which regions exist ---


@pytest.mark.parametrize(
    ("scales", "averaged"),
    [
        ((-0.1, 0.1), over_all(2, 3)),
        ((0.1, 2.0**-70), over_all(2, 3)),
        ((0.1, 0.1), lambda x: dml.reduce(x, function="SUM", axes=(2, 3))),
        ((0.1, 0.1), lambda x: dml.activation_tanh(dml.reduce(x, function="AVERAGE", axes=(2, 3)))),
        ((0.1, 0.1), lambda x: dml.average_pooling(dml.activation_tanh(x), window_size=(2, 2))),
        ((0.1, 0.1), lambda x: dml.activation_softmax1(x, axes=(3,))),
        ((0.1, 0.1), lambda x: dml.activation_log_softmax1(x, axes=(1,))),
        ((0.1, 0.1), lambda x: dml.local_response_normalization(x, local_size=3, cross_channel=True, alpha=0.1, bias=2)),
        ((0.1, 0.1), lambda x: dml.mean_variance_normalization1(x, axes=(2, 3))),
    ],
    ids=[
        *("a negative scale", "an extreme one", "a sum", "a function of means", "means of a function"),
        *("exponentials over their sum", "their logarithms", "responses", "normalised"),
    ],
)
def test_what_is_averaged_otherwise_stays(scales: tuple[Any, Any], averaged: Averaged) -> None:
    x = bytes_of((1, 3, 6, 6))
    graph = graph_of(x, scales, (np.uint8(3), np.uint8(9)), averaged)
    names, fused = executed(graph, x, fuse=True)
    assert NAME not in names
    np.testing.assert_array_equal(fused, executed(graph, x, fuse=False)[1])


def test_floats_that_others_read_are_kept() -> None:
    """The dequantised tensor is an output; if the means are one, nothing is fused."""
    x = bytes_of((1, 3, 6, 6))
    for kept in ("floats", "means"):

        def function(x: Any, kept: str = kept) -> dict[str, Any]:
            floats = dml.element_wise_dequantize_linear(x, np.float32(0.1), np.uint8(3))
            means = dml.average_pooling(floats, window_size=(2, 2))
            y = dml.element_wise_quantize_linear(means, np.float32(0.1), np.uint8(9))
            return {"y": y, kept: floats if kept == "floats" else means}

        graph = dml.graph(function, x=TensorDesc.of(x))
        found = []
        for fuse in (True, False):
            arrays = {name: np.zeros(t.sizes, t.data_type.dtype) for name, t in graph.outputs.items()}
            compiled = dml.Device("cpu").compile(graph.desc, fuse=fuse)
            assert isinstance(compiled, CompiledGraph)
            assert (NAME in [part.kernel_name for part in compiled.call.parts]) == (fuse and kept == "floats")
            compiled.bind(x=x, **arrays).execute()
            found.append(arrays)
        for name in graph.outputs:
            assert found[0][name].tobytes() == found[1][name].tobytes()


def test_families_that_refuse_leave_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, Any], BETWEEN), NAME, lambda: lambda *_: Refused("for once"))
    x = bytes_of((1, 3, 6, 6))
    names, _ = executed(graph_of(x, (0.1, 0.1), (np.uint8(3), np.uint8(9)), over_all(2, 3)), x, fuse=True)
    assert NAME not in names
