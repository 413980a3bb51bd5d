"""The statements of regions between bytes have the bits of their operators; operators that end no region have reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import TensorDesc
from anydml.graphs.between import between_bytes
from anydml.graphs.check import check_graph
from anydml.graphs.plan import operators_of
from anydml.kernels import reference
from anydml.kernels.kernel import Built, Machine
from every_kernel import Ran
from quantised_graphs import problems_of

Array = NDArray[Any]
S, Z = np.float32(0.1), np.uint8(3)
FILTERS = dml.TensorDesc("FLOAT32", (3, 2, 3, 3))


def floats(x: Any) -> Any:
    return dml.element_wise_dequantize_linear(x, S, Z)


def bytes_of(x: Any, scale: float = 0.3) -> Any:
    return dml.element_wise_quantize_linear(x, np.float32(scale), np.uint8(9))


def convolved(x: Any) -> Any:
    rng = np.random.default_rng(3)
    filters = floats(rng.integers(0, 256, FILTERS.sizes).astype(np.uint8))
    return dml.convolution(floats(x), filters, rng.standard_normal((1, 3, 1, 1)).astype(np.float32), start_padding=(1, 1))


def added(x: Any) -> Any:
    y = dml.element_wise_add(
        dml.max_pooling(floats(x), (1, 1), window_size=(2, 2)), floats(dml.slice1(x, (0, 0, 0, 0), (1, 2, 4, 5)))
    )
    return bytes_of(dml.element_wise_clip(y, min=0.0, max=20.0))


LAYERS: Mapping[str, Callable[[Any], Any]] = {
    "sums": lambda x: bytes_of(dml.activation_relu(convolved(x)), 40.0),
    "means": lambda x: bytes_of(dml.average_pooling1(floats(x), window_size=(3, 2), start_padding=(1, 1))),
    "largest": lambda x: dml.element_wise_quantize_linear(
        dml.max_pooling(floats(x), (2, 2), window_size=(2, 2), start_padding=(1, 1), end_padding=(2, 2)), S, Z
    ),
    "in other sizes": lambda x: bytes_of(dml.reduce(floats(x), function="AVERAGE", axes=(2, 3)).reshape(1, 2)),
    "of a part": lambda x: bytes_of(dml.reduce(floats(x).reshape(2, 30), function="AVERAGE", axes=(1,))),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_statements_have_the_bits_of_their_operators(layer: str, ran: Ran) -> None:
    x = np.random.default_rng(1).integers(0, 256, (1, 2, 5, 6)).astype(np.uint8)
    graph = dml.graph(LAYERS[layer], x=TensorDesc.of(x))
    (problem,) = problems_of(graph.desc)
    made = reference.lower(problem, Machine(None, 1))
    assert isinstance(made, Built)
    arrays = {name: np.broadcast_to(found, problem.tensors[name].sizes) for name, found in problem.promises.constants.items()}
    (output,) = problem.statement
    arrays[output] = np.zeros(problem.tensors[output].sizes, np.uint8)
    (name,) = problem.tensors.keys() - arrays.keys()
    arrays[name] = x.reshape(problem.tensors[name].sizes)
    made.bind(arrays)()
    wanted = np.zeros(next(iter(graph.outputs.values())).sizes, np.uint8)
    dml.Device("reference").compile(graph.desc).bind(x=x, output=wanted).execute()
    assert arrays[output].tobytes() == wanted.tobytes()
    assert len(np.unique(wanted)) > 1
    ran(wanted.size, 2)


def an_output(x: Any) -> Any:
    y = convolved(x)
    return bytes_of(y), y


def two_sums(x: Any) -> Any:
    return bytes_of(dml.element_wise_add(convolved(x), convolved(x)))


REASONS: Mapping[str, tuple[Callable[[Any], Any], str | None]] = {
    "an output": (an_output, "what convolution computes has other readers, or is an output of the graph"),
    "a map": (
        lambda x: bytes_of(dml.activation_relu(floats(x))),
        "element_wise_quantize_linear reads no floats that are reduced before",
    ),
    "two sums": (two_sums, "element_wise_add reads several tensors of floats"),
    "a region": (added, None),
    "no floats": (lambda x: dml.element_wise_add(x, x), None),
}


@pytest.mark.parametrize("case", REASONS)
def test_operators_that_end_no_region_have_a_reason(case: str) -> None:
    function, reason = REASONS[case]
    graph = dml.graph(function, x=TensorDesc("UINT8", (1, 2, 5, 6)))
    checked = check_graph(graph.desc)
    passed = between_bytes(checked, operators_of(checked))
    assert [found.text for found in passed.reasons] == ([] if reason is None else [reason])
    assert len(passed.operators) == (case == "a region")
