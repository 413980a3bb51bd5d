"""Views of a graph's tensors: other sizes, strides and types of the same elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml
from every_kernel import Ran

X = np.arange(-3, 3, dtype=np.float32).reshape(1, 2, 3)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape((x.shape[0], int(np.prod(x.shape[1:])), 1)),
    "transpose": lambda x: x.transpose((2, 0, 1)),
    "broadcast": lambda x: (
        np.broadcast_to(x, (2, *x.shape[1:])) if isinstance(x, np.ndarray) else x.broadcast_to((2, *x.shape[1:]))
    ),
    "relu": dml.activation_relu,
}


def test_views_are_numpys(ran: Ran) -> None:
    """Random chains of views and operators have the results of the same chains of NumPy's arrays."""
    cases = 0
    for steps in itertools.product(VIEWS, repeat=3):

        def function(x: Any, steps: tuple[str, ...] = steps) -> Any:
            for step in steps:
                if step == "broadcast" and x.shape[0] != 1:
                    x = x.transpose((1, 2, 0))
                else:
                    x = VIEWS[step](x)
            return x

        np.testing.assert_array_equal(dml.graph(function, x=dml.TensorDesc.of(X))(x=X), function(X))
        cases += 1
    ran(cases, 64)


def test_views_compute_nothing() -> None:
    graph = dml.graph(lambda x: dml.activation_relu(x.reshape((6,)).reshape((3, 2)).transpose((1, 0))), x=dml.TensorDesc.of(X))
    assert len(graph.desc.nodes) == 1
    bits = dml.graph(lambda x: dml.element_wise_bit_not(x.view("UINT32")), x=dml.TensorDesc.of(X))
    np.testing.assert_array_equal(bits(x=X), ~X.view(np.uint32))


@pytest.mark.parametrize(
    "view",
    [lambda x: x.reshape((5,)), lambda x: x.broadcast_to((2, 2, 4)), lambda x: x.view("UINT8")],
    ids=["sizes", "broadcast", "type"],
)
def test_views_that_are_none(view: Any) -> None:
    with pytest.raises(ValueError, match="<GraphTensor x: FLOAT32"):
        dml.graph(view, x=dml.TensorDesc.of(X))
