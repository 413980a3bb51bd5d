"""Maps of maps: two operators in one kernel have the bits of both, also if the first one has undecided elements."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
import hostile_data
from anydml import DataType, GraphDesc, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, TensorDesc, operators
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from every_kernel import SOAK, Ran
from wired_graphs import tensor_of

COUNT = 1024
KINDS = ("ordinary", "specials", "ties", "wide", "wide", "wide", "small", "wide")
# angles above 2^21, which are undecided, with any value instead; and functions that are undefined or have limits
ANGLES = ("ELEMENT_WISE_TAN", "ELEMENT_WISE_COS")
SENSITIVE = (
    *("ACTIVATION_SWISH", "ACTIVATION_GELU", "ACTIVATION_SOFTSIGN", "ACTIVATION_SOFTPLUS", "ELEMENT_WISE_CONSTANT_POW"),
    *("ELEMENT_WISE_LOG", "ELEMENT_WISE_SQRT", "ELEMENT_WISE_ACOSH", "ELEMENT_WISE_ATANH", "ELEMENT_WISE_ASIN"),
)
SOME = 24  # pairs of operators; in `make soak`, 100 times as many


def maps(data_type: DataType) -> Iterator[Desc]:
    """Operators that compute every element from one element of one or two inputs of the type, with attributes of examples."""
    for operator in operators.every():
        name = operator.spec.name
        if not name.startswith(("ELEMENT_WISE", "ACTIVATION", "CAST")) or "SOFTMAX" in name or "HARDMAX" in name:
            continue  # softmax and hardmax are of rows
        for example in operator.spec.examples[:2]:
            desc = operator(**example.fields)
            floats = (DataType.FLOAT32, DataType.FLOAT16)
            tensors: dict[str, Any] = {
                t.field.name: TensorDesc(data_type if t.desc.data_type in floats else t.desc.data_type, (COUNT,))
                for t in desc.tensors()
                if not t.field.sized_by
            }
            desc = replace(desc, **tensors)
            try:
                dml.check(desc)
            except dml.DescError:
                continue
            inputs = [t for t in desc.tensors() if t.field.role == INPUT]
            if len(inputs) in (1, 2) and all(t.desc.data_type == data_type for t in inputs) and len(outputs_of(desc)) == 1:
                yield desc


def outputs_of(desc: Desc) -> list[str]:
    return [t.name for t in desc.tensors() if t.field.role == OUTPUT]


def pairs(data_type: DataType) -> Iterator[tuple[Desc, Desc]]:
    """Operators of the type, each with one that reads it: first those with undecided elements, then any."""
    every = list(maps(data_type))
    first = [d for d in every if tensor_of(d, outputs_of(d)[0]).data_type == data_type]
    angles = [d for name in ANGLES for d in first if d.spec.name == name]
    yield from product(angles, [d for d in every if d.spec.name in SENSITIVE])
    others = [*product(first, every)]
    random.Random(data_type.name).shuffle(others)
    yield from others


FOUND: dict[str, tuple[Callable[..., Any], list[list[float]]]] = {
    "swish of what may be any number": (lambda x: dml.activation_swish(dml.element_wise_cos(x)), [[3.4e38, -3.4e38, 1e30]]),
    "gelu of what may be any number": (lambda x: dml.activation_gelu(dml.element_wise_sin(x)), [[3.4e38, -3.4e38, 1e30]]),
    "a root of what may be any number": (
        lambda x: dml.element_wise_constant_pow(dml.element_wise_cos(x), exponent=0.5),
        [[3.4028235e38, -3.4e38, 1e30]],
    ),
    "acosh below -1": (
        lambda x: dml.element_wise_acosh(dml.element_wise_tan(x)),
        [[1.4472044e32, -2.7711336e20, -5.9449823e14]],
    ),
    "log below 0": (lambda x: dml.element_wise_log(dml.element_wise_tan(x)), [[1.4472044e32, -2.7711336e20, -5.9449823e14]]),
    "atanh beyond 1": (
        lambda x: dml.element_wise_atanh(dml.element_wise_tan(x)),
        [[1.4472044e32, -2.7711336e20, -5.9449823e14]],
    ),
    "atanh beyond 1 by next to nothing": (
        lambda x: dml.element_wise_atanh(dml.activation_hard_swish(x, alpha=0.25, beta=0.5), scale_bias=ScaleBias(0.1, 1.0)),
        [[2.0**-126, 2.0**-149, 3 * 2.0**-149, -(2.0**-149)]],
    ),
    "a power of 2^-24 that is no eighth": (
        lambda x, y: dml.element_wise_pow(dml.activation_hard_swish(x, alpha=0.25, beta=0.5), y),
        [[2.0**-23, 2.0**-23, 2.0**-23, 2.0**-23], [2.0**-20, -(2.0**-21), 1.5 * 2.0**-20, 0.125]],
    ),
}
"""Functions that had other bits after a fusion, each with its arguments."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    function, values = FOUND[name]
    inputs = {f"x{k}": np.array(x, np.float32) for k, x in enumerate(values)}
    graph = dml.graph(lambda **given: function(*given.values()), **{name: TensorDesc.of(x) for name, x in inputs.items()})
    made: list[NDArray[Any]] = []
    for device in ("cpu", "reference"):
        compiled: Any = dml.Device(device).compile(graph.desc)
        assert [part.kernel_name for part in compiled.call.parts] == ["elementwise:compiled"] or device == "reference"
        outputs = {name: np.zeros(t.sizes, np.float32) for name, t in graph.outputs.items()}
        compiled.bind(**inputs, **outputs).execute()
        made += outputs.values()
    np.testing.assert_array_equal(made[0].view(np.uint32), made[1].view(np.uint32))


def elements(data_type: DataType, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return np.concatenate([hostile_data.values(data_type.name, COUNT // len(KINDS), rng, kind) for kind in KINDS])


@pytest.mark.parametrize("data_type", [DataType.FLOAT32, DataType.FLOAT16])
def test_two_maps_as_one_are_both(data_type: DataType, ran: Ran) -> None:
    device = dml.Device("cpu", threads=1)
    fused = 0
    chosen = [*islice(pairs(data_type), (SOME if SOAK == 1 else 100 * SOME) // (1 if data_type == DataType.FLOAT32 else 2))]
    for case, (first, second) in enumerate(chosen):
        counts = [sum(t.field.role == INPUT for t in desc.tensors()) for desc in (first, second)]
        edges = [InputEdge(k, 0, k, f"a{k}") for k in range(counts[0])]
        edges += [InputEdge(counts[0] + k - 1, 1, k, f"b{k}") for k in range(1, counts[1])]
        graph = GraphDesc(
            (OperatorNode(first), OperatorNode(second)),
            tuple(edges),
            (OutputEdge(1, 0, 0, "y"),),
            (IntermediateEdge(0, 0, 1, 0),),
        )
        inputs = {e.name: elements(data_type, case + k) for k, e in enumerate(edges)}
        made: list[NDArray[Any]] = []
        for fuse in (True, False):
            compiled: Any = device.compile(graph, fuse=fuse)
            kernels = {part.kernel_name for part in compiled.call.parts}
            assert not fuse or kernels in ({"elementwise:compiled"}, {"copy:compiled"})  # two identities are a copy
            fused += fuse and len(compiled.call.parts) == 1
            made.append(np.zeros(COUNT, tensor_of(second, outputs_of(second)[0]).data_type.dtype))
            compiled.bind(**inputs, y=made[-1]).execute()
        bits = [x.view(f"u{x.itemsize}") for x in made]
        assert (bits[0] == bits[1]).all(), (first, second, np.flatnonzero(bits[0] != bits[1]))
    ran(fused, len(chosen) // 2)
