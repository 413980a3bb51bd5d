"""Fusion in graphs: which operators become one call, which do not and why; results have the bits of single operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hostile_data
from anydml import GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, TensorDesc
from anydml.devices.graph import CompiledGraph

T = TensorDesc("FLOAT32", (6, 50))
add, times, relu, exp = dml.element_wise_add, dml.element_wise_multiply, dml.activation_relu, dml.element_wise_exp


def compiled_of(desc: GraphDesc, *, fuse: bool = True) -> CompiledGraph:
    made = dml.Device("cpu").compile(desc, fuse=fuse)
    assert isinstance(made, CompiledGraph)
    return made


def operators(desc: GraphDesc) -> list[tuple[str, str]]:
    """The calls of a graph: their nodes and kernels."""
    return [(part.title, part.kernel_name) for part in compiled_of(desc).call.parts]


def halves(x: Any, y: Any) -> Any:
    half = times(dml.cast(x, output_data_type="FLOAT16"), dml.cast(y, output_data_type="FLOAT16"))
    return dml.cast(half, output_data_type="INT8")


def twice_read(x: Any, y: Any) -> Any:
    total = add(x, y)
    return dml.element_wise_subtract(dml.activation_softmax(relu(total)), dml.activation_softmax(total))


ADD, ADD_2, TIMES, RELU, EXP, GELU, MINUS, CAST, SOFTMAX, SLICE = (
    *("element_wise_add", "element_wise_add_2", "element_wise_multiply", "activation_relu", "element_wise_exp"),
    *("activation_gelu", "element_wise_subtract", "cast", "activation_softmax", "slice"),
)
FUSED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a chain": (lambda x, y: times(exp(add(x, y)), y), [f"{ADD} + {EXP} + {TIMES}"]),
    "two producers": (lambda x, y: add(exp(x), relu(y)), [f"{EXP} + {RELU} + {ADD}"]),
    "an element that is read twice": (lambda x, y: times(add(x, y), add(x, y)), [f"{ADD} + {ADD_2} + {TIMES}"]),
    "one reader that reads it twice": (lambda x, y: (lambda s: times(s, s))(add(x, y)), [f"{ADD} + {TIMES}"]),
    "an activation with a table of its own": (lambda x, y: dml.activation_gelu(add(x, y)), [f"{ADD} + {GELU}"]),
    "types that change": (halves, [f"{CAST} + {CAST}_2 + {TIMES} + {CAST}_3"]),
}
PRODUCTS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a product and maps of arithmetic": (
        lambda x, y: relu(add(dml.gemm(x, y, trans_b="TRANSPOSE"), 1.0)),
        [f"gemm + {ADD} + {RELU}"],
    ),
    "a product and a function": (lambda x, y: exp(dml.gemm(x, y, trans_b="TRANSPOSE")), ["gemm", EXP]),
    "a product between maps": (lambda x, y: relu(dml.gemm(relu(x), y, trans_b="TRANSPOSE")), [RELU, f"gemm + {RELU}_2"]),
}
ALONE: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "an output of the graph": (lambda x, y: (s := add(x, y), relu(s)), [ADD, RELU]),
    "two readers": (twice_read, [ADD, RELU, SOFTMAX, f"{SOFTMAX}_2", MINUS]),
    "a read at other places": (lambda x, y: add(x, relu(dml.slice(y, (0, 0), (6, 1)))), [SLICE, RELU, ADD]),
    "a sum of no products": (lambda x, y: add(relu(dml.reduce(x, function="SUM", axes=(1,))), y), ["reduce", RELU, ADD]),
    "a move of some elements": (lambda x, y: dml.slice(add(x, y), (0, 0), (6, 1)), [ADD, SLICE]),
}


@pytest.mark.parametrize("case", [*FUSED, *PRODUCTS, *ALONE])
def test_the_bits_are_those_of_the_operators(case: str) -> None:
    """Fused, unfused, and as eager calls, on 300 elements of each kind of hostile data."""
    function, titles = {**FUSED, **PRODUCTS, **ALONE}[case]
    made = dml.graph(function, x=T, y=T)
    found = operators(made.desc)
    if case in FUSED:
        assert found == [(title, "elementwise:compiled") for title in titles]
    else:
        assert [title for title, _ in found] == titles
    rng = np.random.default_rng(1)
    for kind in hostile_data.KINDS:
        x, y = (hostile_data.values("FLOAT32", 300, rng, kind).reshape(6, 50) for _ in "xy")
        wanted = function(x, y)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for fuse in (True, False):
            outputs = {name: np.empty(t.sizes, t.data_type.dtype) for name, t in made.outputs.items()}
            compiled_of(made.desc, fuse=fuse).bind(x=x, y=y, **outputs).execute()
            for a, b in zip(outputs.values(), wanted, strict=True):
                assert a.tobytes() == b.tobytes(), (kind, fuse)


def test_a_tensor_that_is_read_as_it_does_not_lie_stays() -> None:
    """The reader uses six rows of 50 as 50 rows of 6, and adds them to others."""
    turned = TensorDesc("FLOAT32", (50, 6))
    nodes = (
        OperatorNode(dml.ActivationRelu(input_tensor=T, output_tensor=T), "relu"),
        OperatorNode(dml.ElementWiseAdd(a_tensor=turned, b_tensor=turned, output_tensor=turned), "sum"),
    )
    graph = GraphDesc(
        nodes,
        (InputEdge(0, 0, 0, "x"), InputEdge(1, 1, 1, "y")),
        (OutputEdge(1, 0, 0, "z"),),
        (IntermediateEdge(0, 0, 1, 0),),
    )
    assert [title for title, _ in operators(graph)] == ["relu", "sum"]
    x, y = np.arange(-150, 150, dtype=np.float32).reshape(6, 50), np.ones((50, 6), np.float32)
    z = np.empty((50, 6), np.float32)
    compiled_of(graph).bind(x=x, y=y, z=z).execute()
    np.testing.assert_array_equal(z, np.maximum(x, 0).reshape(50, 6) + 1)


def test_a_rounding_is_kept_between_two_sums() -> None:
    """In FLOAT32, (1 + 2^-24) + 2^-24 is 1; without the rounding in between it would be 1 + 2^-23."""
    made = dml.graph(lambda x, y: add(add(x, y), y), x=TensorDesc("FLOAT32", (1,)), y=TensorDesc("FLOAT32", (1,)))
    assert len(operators(made.desc)) == 1
    assert made(x=np.ones(1, np.float32), y=np.full(1, 2.0**-24, np.float32))[0] == 1


def test_long_chains_are_cut() -> None:
    """A hundred operators become several kernels, since each keeps its values in registers."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(100):
            x = dml.element_wise_max(add(x, y), x)
        return x

    made = dml.graph(chain, x=TensorDesc("FLOAT32", (40,)), y=TensorDesc("FLOAT32", (40,)))
    found = operators(made.desc)
    assert 1 < len(found) <= 100
    x, y = np.linspace(-1, 1, 40, dtype=np.float32), np.full(40, 0.25, np.float32)
    np.testing.assert_array_equal(made(x=x, y=y), chain(x, y))


def test_maps_work_in_the_place_of_what_they_read_last() -> None:
    """Unfused, a chain takes one buffer of whole cache lines; if a tensor is read again later, it takes two."""

    def chain(x: Any, y: Any) -> Any:
        x = exp(relu(add(x, y)))
        return dml.element_wise_abs(times(x, y))

    def twice(x: Any, y: Any) -> Any:
        total = add(x, y)
        return dml.activation_softmax(times(exp(total), total))

    for function, buffers in ((chain, 1), (twice, 2)):
        made = dml.graph(function, x=T, y=T)
        compiled = compiled_of(made.desc, fuse=False)
        assert compiled.call.layout.bytes == buffers * -(-T.total // 64) * 64
        x, y = np.linspace(-2, 2, 300, dtype=np.float32).reshape(6, 50), np.full((6, 50), 0.3, np.float32)
        output = np.empty((6, 50), np.float32)
        compiled.bind(x=x, y=y, output=output).execute()
        np.testing.assert_array_equal(output, function(x, y))


@pytest.mark.parametrize("fuse", [True, False])
def test_layers_of_one_kind_take_turns_in_one_scratch(fuse: bool) -> None:
    """Six convolutions with activations need little more scratch than two, and have the bits of eager calls."""
    rng = np.random.default_rng(2)
    filters = (rng.normal(size=(8, 8, 3, 3)) / 8).astype(np.float32)
    x = rng.normal(size=(1, 8, 12, 13)).astype(np.float32)
    around: Any = {"start_padding": (1, 1), "end_padding": (1, 1)}

    def network(x: Any, layers: int) -> Any:
        for _ in range(layers):
            x = dml.activation_sigmoid(dml.convolution(x, filters, **around))
        return x

    taken = {}
    for layers in (2, 6):
        made = dml.graph(lambda x, n=layers: network(x, n), x=TensorDesc.of(x))
        compiled = compiled_of(made.desc, fuse=fuse)
        taken[layers] = compiled.binding_properties.temporary_resource_size
        output = np.empty(x.shape, np.float32)
        bound = compiled.bind(x=x, output=output)
        for _ in range(2):
            bound.execute()
            np.testing.assert_array_equal(output, network(x, layers))
    assert taken[6] <= taken[2] + x.nbytes


def test_weights_that_are_owned_are_packed_once() -> None:
    """After a product: initialize takes the weights, which may change afterwards; constants are taken at compile."""
    x, w = (np.random.default_rng(k).normal(size=(40, 40)).astype(np.float32) for k in (3, 4))
    t = TensorDesc("FLOAT32", (40, 40))
    wanted = relu(dml.gemm(x, w))
    owned = dml.graph(lambda x, w: relu(dml.gemm(x, w)), x=t, w=TensorDesc("FLOAT32", (40, 40), flags="OWNED_BY_DML"))
    constant = dml.graph(lambda x, w: relu(dml.gemm(x, w)), x=t, w=w)
    assert operators(owned.desc) == operators(constant.desc) == [("gemm + activation_relu", "contract.floats:compiled")]
    given = w.copy()
    compiled = compiled_of(owned.desc)
    compiled.initialize(w=given)
    given[:] = 0
    output = np.empty((40, 40), np.float32)
    compiled.bind(x=x, output=output).execute()
    np.testing.assert_array_equal(output, wanted)
    assert compiled.binding_properties.persistent_resource_size > 2 * w.nbytes  # itself, and a packed copy
    w[:] = 0
    np.testing.assert_array_equal(constant(x=x), wanted)
