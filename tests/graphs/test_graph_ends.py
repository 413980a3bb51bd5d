"""Graphs at the very ends of ranges, where `<` and `<=` differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from anydml import DataType, TensorDesc
from anydml.devices.graph_call import GraphCall
from anydml.graphs import show
from anydml.graphs.between import with_regions
from anydml.graphs.plan import Use, Work, unread_outputs
from anydml.graphs.weights import _Product
from anydml.schema.node import lift

FLOATS = TensorDesc(DataType.FLOAT32, (1, 4, 3))


def test_the_only_dequantisation_is_left_out_once_nothing_reads_it() -> None:
    integers, floats, result = (Use(k, FLOATS) for k in range(3))
    dequantisation = Work((0,), {"input_tensor": integers}, {"output_tensor": floats})
    product = Work((1,), {"input_tensor": floats}, {"output_tensor": result})
    region: Any = Work((1,), {"input_tensor": integers}, {"output_tensor": result}, floats=(1,))
    checked: Any = SimpleNamespace(outputs=[SimpleNamespace(buffer=2)])
    assert with_regions(checked, [dequantisation, product], [region]) == (region,)


def test_outputs_of_a_node_are_absent_but_for_one() -> None:
    operator = SimpleNamespace(fields={name: SimpleNamespace(field=SimpleNamespace(optional=True)) for name in "ab"})
    checked: Any = SimpleNamespace(outputs=[SimpleNamespace(buffer=1)], nodes=[operator])
    for buffers, absent in (((1, 2), {0: {"b"}}), ((2, 3), {})):
        work = Work((0,), {}, {name: Use(buffer, FLOATS) for name, buffer in zip("ab", buffers, strict=True)})
        assert unread_outputs(checked, [work]) == absent


def test_the_one_output_of_a_node_has_the_node_s_name() -> None:
    nodes = [SimpleNamespace(name="one"), SimpleNamespace(name="two")]
    desc = SimpleNamespace(nodes=nodes)
    checked: Any = SimpleNamespace(inputs=[], desc=desc, buffers=[], writes=[{"y": 0}, {"y": 1, "z": 2}])
    assert show._names(checked) == {0: "one", 1: "two.y", 2: "two.z"}


def test_a_graph_takes_no_scratch_where_its_parts_take_none() -> None:
    nothing = SimpleNamespace(temporary_resource_size=0, persistent_resource_size=0, initialize_resource_size=0, passing=0)
    call: Any = SimpleNamespace(
        _shared=[0], parts=[SimpleNamespace(built=nothing)], layout=SimpleNamespace(bytes=0), _passing=lambda: 0,
        _once=[], fixed=[], bind=None, initialize=None,
    )  # fmt: skip
    assert GraphCall.built(call).temporary_resource_size == 0


def test_weights_may_have_dimensions_of_size_1() -> None:
    use: Any = SimpleNamespace(tensor=FLOATS, offset=0)
    product: Any = SimpleNamespace()
    args = [lift(k) for k in (7, 8, 9)]
    assert _Product._as_written(product, args, use, use) == (lift(0), *args[1:])
