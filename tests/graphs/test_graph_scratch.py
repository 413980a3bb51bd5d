"""The scratch of networks: little more than the tensors that are needed at the same time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import TensorDesc
from anydml.devices.graph import CompiledGraph
from anydml.graphs.fusing import read_at_index
from anydml.graphs.memory import laid_in_scratch, lives, most_alive
from anydml.graphs.plan import Work
from anydml.schema.traversal import bound_by, walk

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.dequantised import graphs
from benchmarks.network_layers import NETWORKS, Floats, Integers, Weights

PART = 8  # a divisor of the number of channels of all tensors but the image


def may_share_memory(work: Work) -> list[str]:
    maps = work.nest is not None and not any(bound_by(e) for e in walk(work.nest.body))
    return read_at_index(work) if maps else []


@pytest.mark.parametrize("writer", [Floats, Integers])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_take_what_is_alive_at_once(name: str, writer: type[Floats] | type[Integers]) -> None:
    """Images of 224 x 224. Little more than the most memory of buffers that are in use at the same time."""
    weights = Weights()
    image = TensorDesc("FLOAT32", (1, 3, 224, 224))
    graph = dml.graph(lambda x: NETWORKS[name](writer(weights), x, 224, PART), x=image)
    checked, _, operators = graph._planned()
    layout = laid_in_scratch(checked, operators, [may_share_memory(work) for work in operators])
    sizes = {buffer: checked.buffers[buffer].bytes for buffer in layout.offsets}
    least = most_alive(lives(operators, sizes, {}))
    print(f"{name}: {len(operators)} calls, {layout.bytes} bytes of scratch, {least} alive at once")
    assert len(operators) > 20
    assert np.prod((1, 64 // PART, 112, 112)) <= least
    assert layout.bytes <= 1.1 * least


def test_kernels_take_turns_in_what_they_leave_nothing_in() -> None:
    """The int32 sums of layers that are dequantised, convolved and quantised again: scratch has space for one layer's."""
    compiled = graphs("ResNet-18", size=64, part=8)["dequantised"].compile(dml.Device(threads=1))
    assert isinstance(compiled, CompiledGraph)
    every = [part.built.passing for part in compiled.call.parts]
    own = sum(part.built.temporary_resource_size + 64 for part in compiled.call.parts)
    taken = compiled.binding_properties.temporary_resource_size
    print(f"{taken} bytes of scratch, and {sum(every)} of sums in {sum(map(bool, every))} layers")
    assert 3 * max(every) < sum(every)
    assert taken <= compiled.call.layout.bytes + own + max(every) + 64


def test_what_is_left_open_is_read_before_it_is_written_over() -> None:
    """Biases that nearly cancel the elements, which are standardised in place, as in a detector of faces."""
    random = np.random.default_rng(0)
    channels, values = 16, random.normal(size=16).astype(np.float32)
    x = random.choice(values, (1, channels, 24, 40)).astype(np.float32)
    mean, scale = (random.normal(size=(1, channels, 1, 1)).astype(np.float32) for _ in range(2))
    variance = random.uniform(0.2, 2, (1, channels, 1, 1)).astype(np.float32)
    gone = (values.reshape(mean.shape).astype(float) - mean) / np.sqrt(variance + 2.0**-17) * scale
    bias = -gone.astype(np.float32)
    filters = np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)

    def layers(x: Any) -> Any:
        y = dml.batch_normalization(dml.convolution(x, filters), mean, variance, scale, bias, epsilon=2.0**-17)
        return dml.convolution(dml.activation_relu(y), filters)

    graph = dml.graph(layers, x=TensorDesc("FLOAT32", x.shape))
    compiled = graph.compile(dml.Device(threads=1))
    assert isinstance(compiled, CompiledGraph)
    (part,) = (part for part in compiled.call.parts if part.kernel_name == "elementwise:compiled")
    offsets = [compiled.call.layout.offsets[part.work.reads["t0"].buffer]]
    offsets += [compiled.call.layout.offsets[use.buffer] for use in part.work.writes.values()]
    assert len(set(offsets)) == 1  # in place
    made, wanted = np.empty_like(x), np.empty_like(x)
    for one, out in ((compiled, made), (graph.compile(fuse=False), wanted)):
        one.bind(x=x, **dict.fromkeys(graph.outputs, out)).execute()
    assert np.count_nonzero((wanted != 0) & (np.abs(wanted) < 1e-5)) > channels
    np.testing.assert_array_equal(made, wanted)
