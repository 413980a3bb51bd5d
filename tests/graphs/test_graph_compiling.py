"""Compiling graphs: equal layers are compiled once, and another batch size compiles nothing."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices import choice
from anydml.devices import graph as graphs
from anydml.graphs import check as graph_check
from anydml.graphs.plan import spelled
from anydml.kernels.code import engine, llvm
from anydml.schema.expression import Sum, Tensor, each, exp, over
from anydml.schema.statement import Nest, nest
from anydml.tensor import DataType

FILTERS = np.random.default_rng(1).normal(size=(24, 24, 3, 3)).astype(np.float32)
LAYERS = 3


def layers(x: Any) -> Any:
    """Three equal layers of convolutions, maps, rows, windows and moves."""
    once: Any = {"start_padding": (1, 1), "end_padding": (1, 1)}
    for _ in range(LAYERS):
        seen: Any = dml.activation_sigmoid(dml.element_wise_add(dml.convolution(x, FILTERS, **once), x))
        seen = dml.activation_softmax1(dml.max_pooling(seen, window_size=(3, 3), strides=(1, 1), **once), axes=(1,))
        x = dml.join(
            [
                dml.slice1(seen, (0, 12, 0, 0), (*seen.sizes[:1], 12, 20, 20)),
                dml.slice1(seen, (0,) * 4, (*seen.sizes[:1], 12, 20, 20)),
            ],
            1,
        )
    return x


@pytest.mark.skipif(llvm.unavailable() is not None, reason="nothing can be compiled")
def test_layers_are_compiled_once_and_for_every_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    device = dml.Device(threads=1)
    lowered: list[Any] = []
    made: list[Any] = []

    def spied(notes: list[Any], function: Any) -> Any:
        def noting(*arguments: Any) -> Any:
            notes.append(arguments[0])
            return function(*arguments)

        return noting

    monkeypatch.setattr(graphs, "chosen", spied(lowered, choice.chosen))
    monkeypatch.setattr(graphs, "linked", spied(lowered, choice.linked))
    monkeypatch.setattr(engine, "_compiled", spied(made, engine._compiled))
    counts = {}
    for batch in (5, 6, 7):
        lowered.clear()
        graph: Any = device.compile(dml.graph(layers, x=TensorDesc("FLOAT32", (batch, 24, 20, 20))).desc)
        counts[batch] = len(lowered)
        if batch == 5:
            made.clear()
    assert not made
    assert counts[5] == counts[7] <= len(graph.call.parts) / LAYERS + 2  # the last layer's join is an output


def test_descs_that_are_equal_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal layers are checked once; a fault is reported for each of them."""
    asked: list[Any] = []

    def noting(desc: Any, level: Any) -> Any:
        asked.append(desc)
        return dml.check(desc, level)

    desc = dml.graph(layers, x=TensorDesc("FLOAT32", (5, 24, 20, 20))).desc
    monkeypatch.setattr(graph_check, "check", noting)
    assert len(graph_check.check_graph(desc).nodes) == len(desc.nodes)
    operators = [node.desc for node in desc.nodes if isinstance(node, dml.OperatorNode)]
    assert len(asked) == len(set(operators)) < len(operators) / 2
    first: Any = operators[0]
    wrong = dml.OperatorNode(replace(first, strides=(0, 1)))
    nodes = tuple(wrong if isinstance(n, dml.OperatorNode) and n.desc == first else n for n in desc.nodes)
    with pytest.raises(dml.GraphError) as error:
        graph_check.check_graph(replace(desc, nodes=nodes))
    assert len(error.value.faults) >= LAYERS


def test_equal_descs_stay_equal_elsewhere() -> None:
    """A copy as another process gets it: without the cached hash, since hashes of strings differ between processes."""
    t = TensorDesc("FLOAT32", (2, 3))
    desc = dml.ActivationRelu(input_tensor=t, output_tensor=t)
    known = {desc: 1}
    copied = pickle.loads(pickle.dumps(desc))
    assert "_hash" in vars(desc)
    assert "_hash" not in vars(copied)
    assert known[copied] == 1


def test_statements_are_spelled_by_what_they_say() -> None:
    def made(name: str, factor: float, size: int = 4) -> Nest:
        x = Tensor(name, (3, size), DataType.FLOAT32)
        i = each((3, 1))
        k = over(i, (3, size), (1,))
        return nest(i, Sum(k, exp(x[k]) * factor))

    first = spelled(made("x", 2.0))
    assert first == spelled(made("x", 2.0))
    assert (
        len({first, spelled(made("y", 2.0)), spelled(made("x", -0.0)), spelled(made("x", 0.0)), spelled(made("x", 2.0, 5))})
        == 5
    )
