"""Layouts of graphs: moves that are left out because other calls read or write their elements in place, and others."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, TensorDesc
from anydml.devices.graph import CompiledGraph
from anydml.graphs import layouts
from anydml.graphs.layouts import BufferLayout, within
from anydml.graphs.memory import in_place
from anydml.graphs.plan import Use, Work

T = TensorDesc("FLOAT32", (2, 4, 8, 16))
relu, absolute, join, slice1 = dml.activation_relu, dml.element_wise_abs, dml.join, dml.slice1
exp = dml.element_wise_exp


def halves(x: Any, axis: int) -> tuple[Any, Any]:
    """The two halves of a tensor along an axis."""
    sizes = [*x.sizes] if hasattr(x, "sizes") else [*x.shape]
    sizes[axis] //= 2
    second = [0] * len(sizes)
    second[axis] = sizes[axis]
    return slice1(x, [0] * len(sizes), sizes), slice1(x, second, sizes)


def dense(x: Any) -> Any:
    """Each layer reads the results of all layers before it."""
    for _ in range(3):
        x = join([x, exp(x)], axis=0)
    return absolute(x)


def skipped(x: Any) -> Any:
    first = relu(x)
    return exp(join([first, absolute(dml.activation_sigmoid(first))], axis=1))


def both_halves(axis: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        a, b = halves(x, axis)
        return dml.element_wise_add(relu(a), absolute(b))

    return function


def summed_parts(axis: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        a, b = halves(x, axis)
        return dml.reduce(a, function="SUM", axes=(3,)), dml.reduce(b, function="SUM", axes=(3,))

    return function


def twice(x: Any) -> Any:
    y = relu(x)
    return exp(join([y, y], axis=1))


def an_output_too(x: Any) -> Any:
    y = relu(x)
    return y, exp(join([y, absolute(y)], axis=1))


def slices_of_slices(x: Any) -> Any:
    a, _ = halves(x, 1)
    _, b = halves(a, 2)
    return dml.element_wise_multiply(b, 3.0)


# the function, and the number of its moves that are left out
LEFT_OUT: dict[str, tuple[Callable[[Any], Any], int]] = {
    "slices of the first dimension, which anything reads": (summed_parts(0), 2),
    "slices of channels, which maps read": (both_halves(1), 2),
    "slices of slices, of which two are read": (slices_of_slices, 4),
    "an identity": (lambda x: relu(dml.element_wise_identity(x)), 1),
    "an identity of what is computed, as an output": (lambda x: dml.element_wise_identity(exp(x)), 1),
    "a join of channels, which maps write": (skipped, 1),
    "joins of joins": (lambda x: join([join([relu(x), exp(x)], 0), absolute(x)], 0), 2),
    "what one join has and another one": (dense, 2),
    "a join as an output": (lambda x: join([relu(x), exp(x)], axis=1), 1),
}
STAY: dict[str, tuple[Callable[[Any], Any], int]] = {
    "slices of channels, which sums read": (summed_parts(1), 2),
    "short rows": (both_halves(3), 2),
    "a slice as an output": (lambda x: halves(relu(x), 0), 2),
    "a slice that goes backwards": (lambda x: relu(slice1(x, (0,) * 4, T.sizes, (-1, 1, 1, 1))), 1),
    "a join of an input": (lambda x: join([x, relu(x)], axis=1), 1),
    "a join of a tensor with itself": (twice, 1),
    "a join of an output": (an_output_too, 1),
}


def compiled_of(desc: GraphDesc, *, fuse: bool = True) -> CompiledGraph:
    made = dml.Device("cpu", threads=1).compile(desc, fuse=fuse)
    assert isinstance(made, CompiledGraph)
    return made


@pytest.mark.parametrize("case", [*LEFT_OUT, *STAY])
def test_moves_are_left_out_or_stay(case: str) -> None:
    function, count = {**LEFT_OUT, **STAY}[case]
    graph = dml.graph(function, x=T)
    compiled = compiled_of(graph.desc)
    computed = {node for part in compiled.call.parts for node in part.work.nodes}
    moving = ("SLICE1", "JOIN", "ELEMENT_WISE_IDENTITY")
    nodes = [k for k, n in enumerate(graph.desc.nodes) if isinstance(n, OperatorNode) and n.desc.spec.name in moving]
    left_out = [k for k in nodes if k not in computed]
    assert len(left_out) == (count if case in LEFT_OUT else 0), repr(graph)
    x = np.random.default_rng(1).normal(size=T.sizes).astype(np.float32)
    wanted = function(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for fuse in (True, False):
        outputs = {name: np.empty(t.sizes, np.float32) for name, t in graph.outputs.items()}
        compiled_of(graph.desc, fuse=fuse).bind(x=x, **outputs).execute()
        for a, b in zip(outputs.values(), wanted, strict=True):
            assert a.tobytes() == b.tobytes(), fuse
    assert all(f"  -  {graph.desc.nodes[k].name}(" in repr(graph) for k in left_out)
    assert graph.to_dot().count("dashed") == len(left_out)


def test_bytes_are_read_as_another_tensor() -> None:
    """The second half of 64 floats, read as 32 integers of 16 bits in its middle: contiguous bytes."""
    whole, half = TensorDesc("FLOAT32", (64,)), TensorDesc("FLOAT32", (32,))
    words = TensorDesc("INT16", (8, 8))
    nodes = (
        OperatorNode(dml.Slice1(input_tensor=whole, output_tensor=half, input_window_offsets=(32,), input_window_sizes=(32,),
                                input_window_strides=(1,))),
        OperatorNode(dml.ElementWiseAbs(input_tensor=words, output_tensor=words)),
    )  # fmt: skip
    edges = (InputEdge(0, 0, 0, "x"),), (OutputEdge(1, 0, 0, "y"),), (IntermediateEdge(0, 0, 1, 0),)
    graph = GraphDesc(nodes, *edges)
    compiled = compiled_of(graph)
    assert [part.work.nodes for part in compiled.call.parts] == [(1,)]
    x, y = np.random.default_rng(2).normal(size=64).astype(np.float32), np.zeros((8, 8), np.int16)
    compiled.bind(x=x, y=y).execute()
    assert np.array_equal(y.ravel(), np.abs(x[32:].view(np.int16)))


def test_every_tensor_over_a_slice_is_where_numpy_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random strides over a packed buffer whose elements are elsewhere: the result has the same elements, or there is none."""
    monkeypatch.setattr(layouts, "RUN", 1)
    rng = np.random.default_rng(5)
    found = refused = 0
    for _ in range(2000):
        sizes = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        home = np.arange(4096)
        strides = tuple(int(s) for s in rng.permutation([1, 5, 30])[: len(sizes)])
        if rng.random() < 0.5:
            packed = tuple(prod(sizes[k + 1 :]) for k in range(len(sizes)))
            strides = tuple(s * int(rng.choice([1, 1, 2])) for s in packed)
        lies = BufferLayout(TensorDesc("FLOAT32", sizes).spelled_out(), 7, 40, strides)
        buffer = np.lib.stride_tricks.as_strided(home[10:], sizes, [8 * s for s in strides]).ravel()
        read = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        steps = tuple(int(rng.choice([0, 1, 2, *(prod(sizes[k:]) for k in range(len(sizes)))])) for _ in read)
        offset = int(rng.integers(0, 3))
        u = TensorDesc("INT32", read, strides=steps).spelled_out()
        if offset + u.span > buffer.size:
            continue
        there = within(lies, Use(3, u, 4 * offset))
        if there is None:
            refused += 1
            continue
        found += 1
        assert (there.buffer, there.tensor.sizes) == (7, read)
        at = [8 * s for s in there.tensor.explicit_strides]
        elements = np.lib.stride_tricks.as_strided(home[there.offset // 4 :], read, at)
        wanted = np.lib.stride_tricks.as_strided(buffer[offset:], read, [8 * s for s in steps])
        assert np.array_equal(elements, wanted)
    print(f"{found} found, {refused} refused")
    assert min(found, refused) >= 100


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (Use(3, TensorDesc("FLOAT32", (9,)).spelled_out()), "it reads beyond the elements"),
        (Use(3, TensorDesc("UINT4", (8,)).spelled_out()), "elements of four bits"),
        (Use(3, TensorDesc("UINT16", (8,)).spelled_out()), "halves of elements that lie apart"),
        (Use(3, TensorDesc("FLOAT32", (3,)).spelled_out(), 2), "it begins within an element"),
    ],
)
def test_what_has_no_place_there(use: Use, why: str) -> None:
    assert within(BufferLayout(TensorDesc("FLOAT32", (2, 4)).spelled_out(), 7, 0, (20, 1)), use) is None, why


def test_no_buffer_that_is_begun_takes_the_place_of_another() -> None:
    """The second half of a join exists while the first one overwrites its input, which has as many bytes."""
    half = TensorDesc("FLOAT32", (8,)).spelled_out()
    operators = [
        Work((0,), {"x": Use(0, half)}, {"y": Use(2, half, 32)}),
        Work((1,), {"x": Use(1, half)}, {"y": Use(2, half)}),
    ]
    may = [["x"], ["x"]]
    assert in_place(operators, {1: 64, 2: 64}, may) == {}
    assert in_place(operators[1:], {1: 64, 2: 64}, may[1:]) == {2: 1}
