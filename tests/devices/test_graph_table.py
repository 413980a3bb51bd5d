"""The table of a graph: its kernels run in one call, which stops if elements are undecided or a data rule is broken."""

from __future__ import annotations

from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import TensorDesc
from anydml.devices.compiled import BoundOperator
from anydml.devices.graph_table import LONG, Section, Table, merged
from anydml.kernels.elementwise import undecided
from every_kernel import without_dot_products

Array = NDArray[Any]
pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")

rng = np.random.default_rng(3)
# odd numbers whose cubes have one bit more than FLOAT32: each is a tie, and undecided
CUBED = rng.choice([k for k in range(1, 999, 2) if k**3 >> 24 == 1], (3, 40)).astype(np.float32)
CUBES = (CUBED.astype(np.float64) ** 3).astype(np.float32)


def table_of(bound: BoundOperator) -> Table:
    assert isinstance(bound._run, MethodType)
    found = bound._run.__self__
    assert isinstance(found, Table)
    return found


def bound_graph(function: Any, outputs: int, *, threads: int = 1, **inputs: Array) -> tuple[BoundOperator, list[Array]]:
    graph = dml.graph(function, **{name: TensorDesc.of(x) for name, x in inputs.items()})
    made = [np.zeros(t.sizes, t.data_type.dtype) for t in graph.outputs.values()]
    assert len(made) == outputs
    compiled = dml.Device("cpu", threads=threads).compile(graph.desc, fuse=False)
    return compiled.bind(**inputs, **dict(zip(graph.outputs, made, strict=True))), made


def root(x: Any) -> Any:
    return dml.element_wise_pow(x, np.full((3, 40), 3, np.float32))


def two_roots(x: Any, y: Any) -> Any:
    """Two kernels of the same steps, which use the same scratch in turn, with others before, between and after them."""
    first = root(dml.element_wise_abs(x))
    return dml.element_wise_negate(first), dml.element_wise_multiply(root(dml.slice1(y, (0, 0), (3, 40))), 1.0)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of elements that reach Python each time: all undecided ones, since the finer stage is off."""
    counts: list[int] = []
    real = undecided.exactly

    def exactly(formula: Any, types: Any, target: Any, inputs: Array) -> Array:
        counts.append(len(inputs))
        return real(formula, types, target, inputs)

    monkeypatch.setattr(undecided, "exactly", exactly)
    monkeypatch.setattr(undecided.UndecidedElements, "_finer", lambda self, entries, count: count)
    return counts


def test_kernels_that_stop_are_decided_and_the_call_goes_on(listed: list[int]) -> None:
    bound, (a, b) = bound_graph(two_roots, 2, x=-CUBED, y=CUBED)
    table = table_of(bound)
    assert [(section.run, section.first) for section in table._sections] == [(None, 0)]  # one call
    for _ in range(2):
        a[...] = b[...] = 7
        bound.execute()
        assert np.array_equal(a, -CUBES)
        assert np.array_equal(b, CUBES)
    assert sum(listed) == 4 * CUBED.size
    assert not any(e.placed.words.any() for e in table._kernels if e.placed.decide is not None)


def test_an_error_while_elements_are_decided_leaves_nothing_behind(listed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    bound, (a, b) = bound_graph(two_roots, 2, x=-CUBED, y=CUBED)
    with monkeypatch.context() as patched:
        patched.setattr(undecided, "_store", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            bound.execute()
    assert not any(e.placed.words.any() for e in table_of(bound)._kernels if e.placed.decide is not None)
    bound.execute()
    assert np.array_equal(a, -CUBES)
    assert np.array_equal(b, CUBES)


@pytest.mark.parametrize("threads", [1, 3])
def test_long_graphs_are_measured_and_cut(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long maps and products: each phase is a call at first; then calls have as many phases as take no longer than LONG."""
    x = rng.integers(-8, 8, (257, 300)).astype(np.float32)

    def net(x: Any) -> Any:
        y = dml.gemm(dml.activation_relu(x), x, trans_b="TRANSPOSE")
        return dml.element_wise_subtract(dml.element_wise_add(y, 0.5), y)

    bound, (y,) = bound_graph(net, 1, threads=threads, x=x)
    table = table_of(bound)
    phases = len(table._owners)
    assert len(table._sections) == phases > 3
    for cut, sections in ((-1.0, phases), (1e9, 1)):
        bound._make_ready()
        monkeypatch.setattr("anydml.devices.graph_table.LONG", cut)
        for _ in range(2):
            y[...] = 0
            bound.execute()
            assert (y == 0.5).all()
            assert len(table_of(bound)._sections) == sections


@pytest.mark.parametrize("cut", [False, True])
def test_products_that_are_left_open(cut: bool) -> None:
    """Powers of very different sizes, three of which cancel, which a kernel of several phases cannot decide. The graph
    continues after it."""
    row = np.ldexp(np.array([1, 1, 1, 1, -1, -1, -1], np.float32), [120, 60, 0, -60, 120, 60, 0]).astype(np.float32)
    x, ones = np.stack([row, np.ones(7, np.float32), row]), np.ones((7, 30), np.float32)
    bound, (y,) = bound_graph(lambda x, ones: dml.element_wise_negate(dml.gemm(x, ones)), 1, x=x, ones=ones)
    table = table_of(bound)
    products = table._kernels[0].placed
    assert isinstance(products.decide, partial)
    assert products.decide.keywords["once"]
    assert len(products.phases) > 1
    if cut:
        table._sections = [Section(k, k + 1) for k in range(len(table._owners))]
    for _ in range(2):
        bound.execute()
        assert np.array_equal(y, -np.repeat([[2.0**-60], [7], [2.0**-60]], 30, axis=1))
        assert not products.words.any()


def test_spans_are_merged_up_to_the_time_between_signals() -> None:
    run = print
    sections = [Section(0, 1), Section(1, 2), Section(0, 0, run), Section(2, 3), Section(3, 4), Section(4, 5), Section(5, 6)]
    spent = [LONG / 3, LONG / 3, 0.0, LONG / 2, LONG, LONG / 3, LONG / 3]
    assert merged(sections, spent) == [Section(0, 2), Section(0, 0, run), Section(2, 3), Section(3, 4), Section(4, 6)]
    assert merged([], []) == []


BYTES, SCALE = TensorDesc("INT8", (2, 2)), TensorDesc("FLOAT32", (1, 1))
EYE, ONE = np.eye(2, dtype=np.int8), np.ones((1, 1), np.float32)


def product(scale: Any, eye: Any, *, first: bool) -> Any:
    """A graph that writes an output before, or after, a node whose scale must not be zero."""
    made = dml.element_wise_add(eye, eye)
    return made, dml.quantized_linear_matrix_multiply(made if first else eye, ONE, None, eye, ONE, None, scale, None)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_rules_about_inputs_are_judged_before_anything_is_written(name: str) -> None:
    graph = dml.graph(lambda scale, eye: product(scale, eye, first=True), scale=SCALE, eye=BYTES)
    made = {output: np.full((2, 2), 5, np.int8) for output in graph.outputs}
    bound = dml.Device(name).compile(graph.desc).bind(scale=0 * ONE, eye=EYE, **made)
    with pytest.raises(dml.DataError, match=r"quantized_linear_matrix_multiply\.output_scale_tensor\[0, 0\] is 0"):
        bound.execute()
    assert all((x == 5).all() for x in made.values())
    bound.arrays["scale"][...] = 1
    bound.execute()
    assert [x.tolist() for x in made.values()] == [(2 * EYE).tolist(), (2 * EYE).tolist()]


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_rules_about_constants_are_judged_once(name: str) -> None:
    desc = dml.graph(lambda eye: product(ONE, eye, first=False), eye=BYTES).desc
    nodes = [dml.ConstantNode(0 * ONE) if isinstance(n, dml.ConstantNode) and n.data.nbytes == 4 else n for n in desc.nodes]
    broken = dml.GraphDesc(tuple(nodes), desc.input_edges, desc.output_edges, desc.intermediate_edges)
    with pytest.raises(dml.DataError, match=r"quantized_linear_matrix_multiply\.a_scale_tensor\[0, 0\] is 0"):
        dml.Device(name).compile(broken)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_rules_about_what_is_computed_are_judged_in_time(name: str) -> None:
    """A node computes the scale; earlier outputs are written by then."""

    def function(scale: Any, eye: Any) -> Any:
        return product(dml.element_wise_add(scale, 1.0), eye, first=False)

    graph = dml.graph(function, scale=SCALE, eye=BYTES)
    made = {output: np.full((2, 2), 5, np.int8) for output in graph.outputs}
    bound = dml.Device(name).compile(graph.desc).bind(scale=-ONE, eye=EYE, **made)
    for _ in range(2):
        with pytest.raises(dml.DataError, match=r"quantized_linear_matrix_multiply\.output_scale_tensor\[0, 0\] is 0"):
            bound.execute()
    assert (made["output_1"] == 5).all()
    bound.arrays["scale"][...] = 0
    bound.execute()
    assert made["output_1"].tolist() == EYE.tolist()
