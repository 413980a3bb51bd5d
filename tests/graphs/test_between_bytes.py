"""Every operator of floats between DEQUANTIZE_LINEAR and QUANTIZE_LINEAR: the same bits fused, unfused and alone."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml import DataType, TensorDesc, operators
from anydml.graphs.desc import tensor_names
from anydml.kernels.code import llvm
from anydml.schema.operator import Desc
from every_kernel import SOAK, Ran
from fitting_graphs import fit_to, given_to
from quantised_graphs import DECIMALS
from wired_graphs import Made, Wired, Wiring, example_of, tensor_of, valid, with_tensors

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
TRIES = 200  # descs that are tried before an operator is said to have none with floats
EACH = 6  # examples of each operator; by default a sixth of them, in turn
MOST = 512  # the most elements of a tensor
FLOAT32 = DataType.FLOAT32


def of_floats(rng: random.Random, name: str) -> Desc | None:
    """A random desc of an operator with inputs and outputs of FLOAT32; None if there is none."""
    for _ in range(TRIES):
        desc, _ = example_of(rng, name)
        if valid(changed := _in_floats(desc)):
            desc = changed
        if rng.random() < 0.7 and (found := fit_to(rng, desc, None)) is not None:
            desc = found[0]
        if (
            valid(desc)
            and may_be_floats(desc)
            and float_outputs(desc)
            and all(prod(t.desc.sizes) <= MOST for t in desc.tensors())
        ):
            return desc
    return None


def _in_floats(desc: Desc) -> Desc:
    """The desc with tensors of FLOAT32 instead of those of the first one's type."""
    old = next(desc.tensors()).desc.data_type
    changed = with_tensors(
        desc, {t.name: replace(t.desc, data_type=FLOAT32) for t in desc.tensors() if t.desc.data_type == old}
    )
    named: dict[str, Any] = {f.name: FLOAT32 for f in desc.spec.fields if getattr(desc, f.name) is old}
    return replace(changed, **named)


def may_be_floats(desc: Desc) -> list[str]:
    """The inputs that can be dequantised."""
    return [
        name
        for name in tensor_names(desc, "input")
        if name is not None
        and (t := tensor_of(desc, name)).data_type is FLOAT32
        and t.strides is None
        and not _ruled(desc, name)
    ]


def _ruled(desc: Desc, name: str) -> bool:
    return any(t.field.wire in desc.spec.ruled for t in desc.tensors() if t.name == name)


def float_outputs(desc: Desc) -> list[tuple[int, str]]:
    return [
        (slot, name)
        for slot, name in enumerate(tensor_names(desc, "output"))
        if name is not None and tensor_of(desc, name).data_type is FLOAT32
    ]


def sandwich(rng: random.Random, device: dml.Device, desc: Desc) -> Wired:
    """The operator between bytes: all of its float inputs are dequantised, and its float outputs quantised."""
    wiring = Wiring(rng, device)
    scale = np.float32(rng.choice((*DECIMALS, 2.0**-4, rng.uniform(0.001, 0.2))))
    x, y = (rng.choice((np.int8, np.uint8)) for _ in range(2))
    zero = x(rng.randint(np.iinfo(x).min, np.iinfo(x).max) if rng.random() < 0.7 else 0)
    sources: dict[str, Made] = {}
    for name in may_be_floats(desc):
        t = replace(tensor_of(desc, name), flags=dml.TensorFlags.NONE, total_tensor_size_in_bytes=0)
        desc = with_tensors(desc, {name: t})
        sources[name] = linear(rng, wiring, t, None, scale, zero)
    given, constants = given_to(rng, wiring, desc, sources)
    wiring.add(desc, given, sources, constants)
    made = [m for m in wiring.made if m.node == len(wiring.nodes) - 1]
    if rng.random() < 0.5:
        scale = np.float32(rng.choice((*DECIMALS, 2.0**-4, 1 / 127)))
    zero = zero if x is y and rng.random() < 0.5 else y(rng.randint(np.iinfo(y).min, np.iinfo(y).max))
    wiring.made.clear()
    wiring.output_edges.clear()
    wiring.outputs.clear()
    for slot, name in float_outputs(desc):
        (one,) = (m for m in made if m.slot == slot)
        linear(rng, wiring, tensor_of(desc, name), one, scale, zero)
    return wiring.wired()


def linear(rng: random.Random, wiring: Wiring, t: TensorDesc, source: Made | None, scale: Any, zero: Any) -> Made:
    """A tensor that is dequantised from bytes, which are an input or a constant; or the bytes of `source`, quantised."""
    still = [0] * len(t.sizes)
    bytes_ = TensorDesc(DataType.of(np.dtype(type(zero))), t.sizes)
    beside = dict(
        scale_tensor=TensorDesc(FLOAT32, t.sizes, strides=still),
        zero_point_tensor=TensorDesc(bytes_.data_type, t.sizes, strides=still),
    )
    given = {"scale_tensor": np.array([scale]), "zero_point_tensor": np.array([zero])}
    desc: Desc
    if source is not None:
        desc = dml.ElementWiseQuantizeLinear(input_tensor=t, output_tensor=bytes_, **beside)
        wiring.add(desc, given, {"input_tensor": source}, given.keys())
    else:
        desc = dml.ElementWiseDequantizeLinear(input_tensor=bytes_, output_tensor=t, **beside)
        ends = np.iinfo(type(zero))
        x = np.random.default_rng(rng.getrandbits(32)).integers(ends.min, ends.max + 1, t.sizes).astype(type(zero))
        constant = ["input_tensor"] if rng.random() < (0.7 if wiring.made else 0.1) else []  # often constant, like weights
        wiring.add(desc, {"input_tensor": x, **given}, {}, [*given, *constant])
    return wiring.made[-1]


def outputs_of(device: dml.Device, wired: Wired, *, fuse: bool) -> tuple[set[str], dict[str, NDArray[Any]]]:
    """The kernels of a graph, and its outputs."""
    compiled: Any = device.compile(wired.desc, fuse=fuse)
    if wired.owned:
        compiled.initialize(**wired.owned)
    outputs = {name: np.zeros_like(x) for name, x in wired.outputs.items()}
    compiled.bind(**wired.inputs, **outputs).execute()
    return {part.kernel_name for part in compiled.call.parts}, outputs


def takes_floats(operator: type[Desc]) -> bool:
    """Whether the operator has inputs of FLOAT32 without rules about their values, and an output of FLOAT32."""
    table, spec = operator.spec.table[max(operator.spec.table)], operator.spec
    inputs = any(FLOAT32 in table[f.wire].data_types for f in spec.inputs if f.wire not in spec.ruled)
    return inputs and any(FLOAT32 in table[f.wire].data_types for f in spec.outputs)


@pytest.mark.parametrize("turn", range(EACH if SOAK > 1 else 1))
def test_every_operator_between_bytes(turn: int, ran: Ran) -> None:
    """With constant and other data, one scale or two, and several outputs."""
    device = dml.Device("cpu", threads=1)
    wanted = [operator.spec.name for operator in operators.every() if takes_floats(operator)]
    kernels: set[str] = set()
    for name in wanted:
        rng = random.Random(f"{name} {turn}")
        desc = of_floats(rng, name)
        assert desc is not None, name
        wired = sandwich(rng, device, desc)
        for fuse in (True, False):
            names, outputs = outputs_of(device, wired, fuse=fuse)
            kernels |= names
            for output, x in outputs.items():
                assert x.tobytes() == wired.outputs[output].tobytes(), (desc, output, fuse)
    assert "windows.quantised:compiled" in kernels  # sums are tested with graphs of their own, of layers that are large enough
    ran(len(wanted), 148)
