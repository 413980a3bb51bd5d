"""Graphs given by descs: every rule with a graph that breaks it, and results with the bits of single operators."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import ConstantNode, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, TensorDesc
from anydml.devices.graph import CompiledGraph
from anydml.graphs.order import ordered

T = TensorDesc("FLOAT32", (2, 3))
OWNED = TensorDesc("FLOAT32", (2, 3), flags="OWNED_BY_DML")
REFERENCE = dml.Device("reference")


def add(a: TensorDesc = T, b: TensorDesc = T, name: str = "") -> OperatorNode:
    return OperatorNode(dml.ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=T), name)


def relu(t: TensorDesc = T, name: str = "") -> OperatorNode:
    return OperatorNode(dml.ActivationRelu(input_tensor=t, output_tensor=t), name)


# x + y and its RELU, called z
CHAIN = GraphDesc(
    nodes=(add(name="sum"), relu()),
    input_edges=(InputEdge(0, 0, 0, "x"), InputEdge(1, 0, 1, "y")),
    output_edges=(OutputEdge(1, 0, 0, "z"),),
    intermediate_edges=(IntermediateEdge(0, 0, 1, 0),),
)

FAULTS: dict[str, tuple[GraphDesc, str]] = {
    "no operator": (GraphDesc(nodes=()), "nodes: has no operator"),
    "nodes in range": (
        replace(CHAIN, input_edges=(*CHAIN.input_edges, InputEdge(0, 2, 0))),
        "input_edges[2]: to_node_index is 2, and there are 2",
    ),
    "inputs in range": (
        replace(CHAIN, intermediate_edges=(IntermediateEdge(0, 0, 1, 1),)),
        "intermediate_edges[0]: to_node_input_index of nodes[1] is 1, and there are 1",
    ),
    "outputs in range": (
        replace(CHAIN, output_edges=(OutputEdge(1, 1, 0),)),
        "output_edges[0]: from_node_output_index of nodes[1] is 1, and there are 1",
    ),
    "graph inputs in range": (
        replace(CHAIN, input_edges=(InputEdge(0, 0, 0), InputEdge(1, 0, 1)), input_count=1),
        "input_edges[1]: graph_input_index is 1, and there are 1",
    ),
    "graph outputs in range": (
        replace(CHAIN, output_edges=(OutputEdge(1, 0, 1),), output_count=1),
        "output_edges[0]: graph_output_index is 1, and there are 1",
    ),
    "every input is fed": (replace(CHAIN, intermediate_edges=()), "nodes[1].input_tensor: has no edge that leads to it"),
    "by one edge": (
        replace(CHAIN, input_edges=(*CHAIN.input_edges, InputEdge(0, 1, 0))),
        "nodes[1].input_tensor: has 2 edges, input_edges[2] and intermediate_edges[0], and takes one",
    ),
    "every graph input leads on": (
        replace(CHAIN, input_count=2**40),
        "input_count: is 1099511627776, and no edge has graph input 2",
    ),
    "every graph output is written": (replace(CHAIN, output_count=2), "output_count: is 2, and no edge has graph output 1"),
    "by one node": (
        replace(CHAIN, output_edges=(OutputEdge(1, 0, 0), OutputEdge(0, 0, 0))),
        "graph output 0: has 2 edges, and takes one",
    ),
    "no cycle": (
        GraphDesc(
            nodes=(relu(name="a"), relu(name="b")),
            output_edges=(OutputEdge(1, 0, 0),),
            intermediate_edges=(IntermediateEdge(0, 0, 1, 0), IntermediateEdge(1, 0, 0, 0)),
        ),
        "nodes[0] 'a': reads what follows from it: nodes[0] 'a' -> nodes[1] 'b' -> nodes[0] 'a'",
    ),
    "totals are equal": (
        replace(CHAIN, nodes=(CHAIN.nodes[0], relu(TensorDesc("FLOAT32", (2, 2))))),
        "intermediate_edges[0]: leads from 24 bytes of nodes[0] 'sum' to nodes[1].input_tensor, a tensor of 16: "
        "TotalTensorSizeInBytes must be equal",
    ),
    "totals of an input are equal": (
        GraphDesc(
            nodes=(relu(), relu(TensorDesc("FLOAT32", (2, 2)))),
            input_edges=(InputEdge(0, 0, 0), InputEdge(0, 1, 0)),
            output_edges=(OutputEdge(0, 0, 0), OutputEdge(1, 0, 1)),
        ),
        "graph input 0: leads to tensors of 16 and 24 bytes: TotalTensorSizeInBytes must be equal",
    ),
    "only inputs are owned": (
        replace(CHAIN, nodes=(CHAIN.nodes[0], OperatorNode(dml.ActivationRelu(input_tensor=OWNED, output_tensor=T)))),
        "intermediate_edges[0]: leads to nodes[1].input_tensor, which is OWNED_BY_DML: only inputs of the graph lead there",
    ),
    "owned as a whole": (
        GraphDesc(
            nodes=(add(OWNED, T),),
            input_edges=(InputEdge(0, 0, 0), InputEdge(0, 0, 1)),
            output_edges=(OutputEdge(0, 0, 0),),
        ),
        "graph input 0: leads to tensors of which some are OWNED_BY_DML and others are not",
    ),
    "names are of one edge": (
        replace(CHAIN, input_edges=(InputEdge(0, 0, 0, "x"), InputEdge(1, 0, 1, "x"))),
        "two inputs or outputs are called 'x'; their names must differ",
    ),
    "edges agree on names": (
        GraphDesc(
            nodes=(add(),), input_edges=(InputEdge(0, 0, 0, "x"), InputEdge(0, 0, 1, "y")), output_edges=(OutputEdge(0, 0, 0),)
        ),
        "graph input 0: is called 'x' and 'y' by its edges",
    ),
    "nothing leads to a constant": (
        GraphDesc(
            nodes=(relu(), ConstantNode(np.zeros(6, np.float32), "w")),
            input_edges=(InputEdge(0, 0, 0), InputEdge(0, 1, 0)),
            output_edges=(OutputEdge(0, 0, 0),),
        ),
        "input_edges[1]: leads to nodes[1] 'w', which is a constant",
    ),
    "no constant is an output": (
        replace(
            CHAIN,
            nodes=(*CHAIN.nodes, ConstantNode(np.zeros(6, np.float32))),
            output_edges=(*CHAIN.output_edges, OutputEdge(2, 0, 1)),
        ),
        "output_edges[1]: leads from nodes[2], which is a constant: only operators have outputs",
    ),
    "constants have bytes": (
        replace(CHAIN, nodes=(*CHAIN.nodes, ConstantNode(np.zeros(0, np.float32)))),
        "nodes[2]: is a constant of no bytes",
    ),
    "absent tensors take no edge": (
        GraphDesc(
            nodes=(
                OperatorNode(
                    dml.Gemm(a_tensor=T, b_tensor=TensorDesc("FLOAT32", (3, 2)), output_tensor=TensorDesc("FLOAT32", (2, 2)))
                ),
            ),
            input_edges=tuple(InputEdge(i, 0, i) for i in range(3)),
            output_edges=(OutputEdge(0, 0, 0),),
        ),
        "input_edges[2]: to_node_input_index of nodes[0] is 2, a tensor that its desc leaves out",
    ),
    "descs keep their rules": (
        replace(CHAIN, nodes=(add(b=TensorDesc("FLOAT16", (2, 6)), name="sum"), relu())),
        "nodes[0] 'sum': ElementWiseAdd.same_data_type",
    ),
    "bound tensors have the bytes": (
        replace(CHAIN, input_tensors=(TensorDesc("FLOAT32", (2, 4)), None)),
        "input_tensors[0]: has 32 bytes of elements, 32 in all, and the tensor of the node has 24 and 24",
    ),
    "bound tensors are for all": (
        replace(CHAIN, input_tensors=(T,)),
        "input_tensors: has 1 entries, and the graph has 2",
    ),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_broken_rule_is_named(rule: str) -> None:
    graph, message = FAULTS[rule]
    with pytest.raises(dml.GraphError) as caught:
        dml.Device("reference").compile(graph)
    assert any(str(fault).startswith(message) for fault in caught.value.faults), str(caught.value)


def test_any_graph_is_compiled_or_refused() -> None:
    """600 legal graphs with up to two changes of nodes and edges, some of which are still legal."""
    rng = random.Random(3)
    no_operator: Any = T
    others = (relu(OWNED), ConstantNode(X), OperatorNode(dml.ActivationRelu()), OperatorNode(no_operator))
    legal = 0
    for _ in range(600):
        nodes: list[Any] = [rng.choice((add(), relu())) for _ in range(rng.randint(1, 4))]
        edges: list[Any] = []
        for node, one in enumerate(nodes):
            for slot in range(2 if isinstance(one.desc, dml.ElementWiseAdd) else 1):
                source = rng.randrange(-1, node)
                edges.append(InputEdge(0, node, slot) if source < 0 else IntermediateEdge(source, 0, node, slot))
        edges.append(OutputEdge(len(nodes) - 1, 0, 0))
        for _ in range(rng.randint(0, 2)):
            if rng.random() < 0.3:
                nodes[rng.randrange(len(nodes))] = rng.choice(others)
            else:
                at = rng.randrange(len(edges))
                numbers = list(edges[at][:-1])
                numbers[rng.randrange(len(numbers))] = rng.randint(-1, 4)
                edges[at] = type(edges[at])(*numbers, rng.choice(("", "x")))
        by_kind: list[Any] = [
            tuple(e for e in edges if isinstance(e, kind)) for kind in (InputEdge, OutputEdge, IntermediateEdge)
        ]
        try:
            compiled = REFERENCE.compile(GraphDesc(tuple(nodes), *by_kind))
        except dml.GraphError as error:
            legal -= not str(error)
        else:
            legal += isinstance(compiled, CompiledGraph)
    print(f"{legal} of 600 are legal")
    assert 100 < legal < 500


def test_every_fault_comes_at_once() -> None:
    broken = replace(CHAIN, nodes=(*CHAIN.nodes, relu(name="lonely")), input_edges=(InputEdge(0, 0, 7),), output_count=3)
    with pytest.raises(dml.GraphError) as caught:
        dml.Device("reference").compile(broken)
    assert len(caught.value.faults) == 5
    assert caught.value.hresult == 0x80070057


def test_levels() -> None:
    with_constant = replace(CHAIN, nodes=(*CHAIN.nodes, ConstantNode(np.zeros(6, np.float32))))
    for graph, level, message in (
        (CHAIN, "2_0", "graphs came with feature level 2_1; this is 2_0"),
        (with_constant, "6_1", "nodes[2]: is a constant, and these came with feature level 6_2; this is 6_1"),
    ):
        with pytest.raises(dml.GraphError) as caught:
            dml.Device("reference", feature_level=level).compile(graph)
        assert message in str(caught.value)
    fed = replace(
        with_constant, input_edges=CHAIN.input_edges[:1],
        intermediate_edges=(*CHAIN.intermediate_edges, IntermediateEdge(2, 0, 0, 1)),
    )  # fmt: skip
    dml.Device("reference", feature_level="6_2").compile(fed)


def test_an_order_and_a_cycle() -> None:
    assert ordered(4, [(3, 0), (0, 1)]) == (2, 3, 0, 1)
    assert ordered(5, [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)]) == [1, 2]
    count = 2000
    assert ordered(count, [(i, i - 1) for i in range(1, count)]) == tuple(range(count))[::-1]


@pytest.fixture(params=["cpu", "reference"])
def device(request: pytest.FixtureRequest) -> dml.Device:
    return dml.Device(request.param)


X, Y = (np.array(x, np.float32).reshape(2, 3) for x in ([1, -2, 3, -4, 5, -6], [-3, 1, 1, 9, -9, 0]))


def test_a_chain(device: dml.Device) -> None:
    compiled = device.compile(CHAIN)
    assert isinstance(compiled, CompiledGraph)
    assert device.compile(CHAIN, fuse=False).binding_properties.temporary_resource_size >= 24
    z = np.empty((2, 3), np.float32)
    bound = compiled.bind(x=X, y=Y, z=z)
    bound.execute()
    assert np.array_equal(z, np.maximum(X + Y, 0))
    z[:] = 7
    bound.execute()
    assert np.array_equal(z, np.maximum(X + Y, 0))


def test_binding_faults_name_edges() -> None:
    compiled = dml.Device("reference").compile(CHAIN)
    with pytest.raises(dml.BindingError) as caught:
        compiled.bind(x=X, w=Y, z=np.empty((2, 2), np.float32))
    assert [fault.pointer for fault in caught.value.faults] == ["y", "z", "w"]
    with pytest.raises(dml.BindingError, match="z: shares memory with x"):
        compiled.bind(x=X, y=Y, z=X)


def test_owned_inputs_and_constants_are_used_at_initialize(device: dml.Device) -> None:
    """w is owned, c is constant: relu(w) + c is computed once, and x + it at each execute."""
    c = np.array([0.5, 1, 2, 3, 4, 5], np.float32)
    graph = GraphDesc(
        nodes=(
            OperatorNode(dml.ActivationRelu(input_tensor=OWNED, output_tensor=T)),
            ConstantNode(c),
            add(name="fixed"),
            add(name="last"),
        ),
        input_edges=(InputEdge(0, 0, 0, "w"), InputEdge(1, 3, 0, "x")),
        output_edges=(OutputEdge(3, 0, 0, "z"), OutputEdge(2, 0, 1, "kept")),
        intermediate_edges=(IntermediateEdge(0, 0, 2, 0), IntermediateEdge(1, 0, 2, 1), IntermediateEdge(2, 0, 3, 1)),
    )
    compiled = device.compile(graph)
    assert isinstance(compiled, CompiledGraph)
    assert [part.title for part in compiled.call.parts] == ["last"]
    assert compiled.binding_properties.persistent_resource_size >= 4 * 24
    z, kept = np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
    with pytest.raises(dml.BindingError, match="initialize comes first: w is OWNED_BY_DML"):
        compiled.bind(x=X, z=z, kept=kept)
    w = Y.copy()
    compiled.initialize(w=w)
    w[:] = 100
    compiled.bind(x=X, z=z, kept=kept).execute()
    assert np.array_equal(kept, np.maximum(Y, 0) + c.reshape(2, 3))
    assert np.array_equal(z, X + kept)


def test_one_output_twice_and_one_that_is_read_on(device: dml.Device) -> None:
    graph = replace(CHAIN, output_edges=(OutputEdge(0, 0, 0, "sum"), OutputEdge(1, 0, 1, "z"), OutputEdge(1, 0, 2, "again")))
    found = {name: np.empty((2, 3), np.float32) for name in ("sum", "z", "again")}
    device.compile(graph).bind(x=X, y=Y, **found).execute()
    assert np.array_equal(found["sum"], X + Y)
    assert np.array_equal(found["z"], np.maximum(X + Y, 0))
    assert np.array_equal(found["again"], found["z"])


def test_an_edge_carries_bytes(device: dml.Device) -> None:
    """3 halves, and their 8 bytes as UINT8, the last two of which are padding."""
    halves, whole = TensorDesc("FLOAT16", (1, 3)), TensorDesc("UINT8", (1, 8))
    flipped = TensorDesc("FLOAT16", (3, 1), strides=(1, 1), total_tensor_size_in_bytes=8)
    graph = GraphDesc(
        nodes=(
            OperatorNode(dml.ActivationRelu(input_tensor=halves, output_tensor=halves)),
            OperatorNode(dml.ElementWiseIdentity(input_tensor=whole, output_tensor=whole)),
            OperatorNode(dml.ActivationRelu(input_tensor=flipped, output_tensor=flipped)),
        ),
        input_edges=(InputEdge(0, 0, 0, "x"),),
        output_edges=(OutputEdge(0, 0, 0, "y"), OutputEdge(1, 0, 1, "bytes"), OutputEdge(2, 0, 2, "flipped")),
        intermediate_edges=(IntermediateEdge(0, 0, 1, 0), IntermediateEdge(0, 0, 2, 0)),
    )
    x, y, z = np.array([[1, -2, 3]], np.float16), np.empty((1, 3), np.float16), np.empty((3, 1), np.float16)
    seen = np.empty((1, 8), np.uint8)
    device.compile(graph).bind(x=x, y=y, bytes=seen, flipped=z).execute()
    assert np.array_equal(y, [[1, 0, 3]])
    assert np.array_equal(z, [[1], [0], [3]])
    assert bytes(seen[0, :6]) == y.tobytes()


def test_arrays_of_other_sizes_are_bound(device: dml.Device) -> None:
    """The caller's tensors have two dimensions, the nodes' four."""
    four = TensorDesc("FLOAT32", (1, 1, 2, 3))
    graph = GraphDesc(
        nodes=(relu(four),),
        input_edges=(InputEdge(0, 0, 0),),
        output_edges=(OutputEdge(0, 0, 0),),
        input_tensors=(T,),
        output_tensors=(T,),
    )
    z = np.empty((2, 3), np.float32)
    device.compile(graph).bind(input_0=X, output_0=z).execute()
    assert np.array_equal(z, np.maximum(X, 0))


def test_a_rule_about_data_names_the_node(device: dml.Device) -> None:
    bytes_, scale = TensorDesc("INT8", (2, 2)), TensorDesc("FLOAT32", (1, 1))
    scales = {f"{name}_scale_tensor": scale for name in ("a", "b", "output")}
    matmul = dml.QuantizedLinearMatrixMultiply(a_tensor=bytes_, b_tensor=bytes_, output_tensor=bytes_, **scales)
    edges = (InputEdge(0, 0, 0, "s"), InputEdge(1, 1, 0, "a"), InputEdge(2, 1, 1, "as"), InputEdge(3, 1, 3, "b"))
    graph = GraphDesc(
        nodes=(OperatorNode(dml.ActivationRelu(input_tensor=scale, output_tensor=scale)), OperatorNode(matmul, "product")),
        input_edges=(*edges, InputEdge(4, 1, 4, "bs")),
        output_edges=(OutputEdge(1, 0, 0, "y"),),
        intermediate_edges=(IntermediateEdge(0, 0, 1, 6),),
    )
    one, eye, y = np.ones((1, 1), np.float32), np.eye(2, dtype=np.int8), np.zeros((2, 2), np.int8)
    compiled = device.compile(graph)
    compiled.bind(s=one, a=eye, b=eye, bs=one, y=y, **{"as": one}).execute()
    assert np.array_equal(y, eye)
    with pytest.raises(dml.DataError, match=r"^product\.output_scale_tensor\[0, 0\] is 0"):
        compiled.bind(s=-one, a=eye, b=eye, bs=one, y=y, **{"as": one}).execute()


@pytest.mark.parametrize("wrong", [T, "relu", relu().desc])
def test_what_is_no_node_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^nodes\[0\] takes an OperatorNode or a ConstantNode, not "):
        dml.Device("reference").compile(GraphDesc(nodes=(wrong,)))


def test_a_graph_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.devices.graph.memory_bytes", lambda: 20)
    with pytest.raises(
        MemoryError, match=r"the graph takes .* bytes of scratch and persistent memory, and this machine has 20"
    ):
        dml.Device("reference").compile(CHAIN)


def test_bound_graphs_run_side_by_side() -> None:
    """Four threads with their own arrays, and two with shared ones: each result is the same as alone."""
    compiled = dml.Device("cpu").compile(CHAIN, fuse=False)
    results = [np.empty((2, 3), np.float32) for _ in range(4)]
    bound = [compiled.bind(x=X + k, y=Y, z=z) for k, z in enumerate(results)]

    def work(one: dml.BoundOperator) -> None:
        for _ in range(100):
            one.execute()

    threads = [threading.Thread(target=work, args=(one,)) for one in (*bound, bound[0])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, z in enumerate(results):
        assert np.array_equal(z, np.maximum(X + k + Y, 0))


def test_a_graph_says_what_it_compiles_and_executes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANYDML_VERBOSE", "1")
    z = np.empty((2, 3), np.float32)
    dml.Device("reference").compile(CHAIN).bind(x=X, y=Y, z=z).execute()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["anydml"], line["operator"]) for line in lines] == [("compile", "DML_GRAPH"), ("execute", "DML_GRAPH")]
    assert lines[0]["kernels"] == ["reference", "reference"]
