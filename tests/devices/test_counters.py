"""Counters of undecided elements: those that kernels leave, and those that Python decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.kernels.code import llvm

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
SIZE = 1000
T = dml.TensorDesc("FLOAT32", (SIZE,))


def compiled(desc: Any, kernel: str, stage: str) -> Any:
    made = dml.Device(threads=1, stage=stage).compile(desc)
    assert made.kernel_name == kernel
    return made


@pytest.mark.parametrize(
    ("stage", "undecided", "exact"), [("first", 0, 0), ("second", SIZE, 0), ("third", SIZE, 0), ("exact", SIZE, SIZE)]
)
def test_maps(stage: str, undecided: int, exact: int) -> None:
    made = compiled(dml.ElementWiseExp(input_tensor=T, output_tensor=T), "elementwise:compiled", stage)
    assert made.counters() == (SIZE, 0, 0)
    x = np.linspace(-3, 3, SIZE, dtype=np.float32)
    bound = made.bind(input_tensor=x, output_tensor=np.empty_like(x))
    for times in (1, 2):
        bound.execute()
        found = made.counters()
        assert found.elements == SIZE
        assert times * undecided <= found.undecided <= times * (undecided + 2)
        assert times * exact <= found.exact <= times * (exact + 2)


def test_products_of_floats() -> None:
    """Products of floats, whose kernel runs its second stage within the same call."""
    t, y = dml.TensorDesc("FLOAT32", (1, 2)), dml.TensorDesc("FLOAT32", (1, 1))
    column = dml.TensorDesc("FLOAT32", (2, 1))
    made = compiled(dml.Gemm(a_tensor=t, b_tensor=column, output_tensor=y), "contract.floats:compiled", "exact")
    ones = np.ones(2, np.float32)
    made.bind(a_tensor=ones, b_tensor=ones, output_tensor=np.empty(1, np.float32)).execute()
    assert made.counters() == (1, 1, 1)


def test_graphs() -> None:
    """A graph counts all of its calls together."""

    def network(x: Any) -> Any:
        return dml.element_wise_exp(dml.reduce(dml.element_wise_sin(x), function="SUM", axes=(1,)))

    x = np.linspace(0.5, 1, 60, dtype=np.float32).reshape(6, 10)
    graph = dml.graph(network, x=dml.TensorDesc.of(x))
    made = dml.Device(threads=1, stage="exact").compile(graph.desc, fuse=False)
    before = made.counters()
    assert before == (60 + 6 + 6, 0, 0)
    ((name, t),) = graph.outputs.items()
    made.bind(x=x, **{name: np.empty(t.sizes, np.float32)}).execute()
    assert made.counters() == (72, 72, 72)
