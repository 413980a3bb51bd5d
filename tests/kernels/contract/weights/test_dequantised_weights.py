"""Products of dequantised weights: fused, they have the bits of separate operators, and these have the oracle's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
import hostile_data
import oracle
from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.weights import packing, panels, plan
from anydml.kernels.contract.weights.factor import WeightsFactor
from drawn_contractions import Rng, pick
from every_kernel import SOAK, Compared, Ran, without_dot_products

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
Array = np.ndarray[Any, np.dtype[Any]]
ISAS = [t.name for t in without_dot_products()]
PARTS = 4 if SOAK > 1 else 1
OUTPUTS = 10_000_000 if SOAK > 1 else 2_000
MOST_ROWS = 1500 if SOAK > 1 else 100  # of weights
ELEMENTS = {"uint4": (0, 15), "int4": (-8, 7), "uint8": (0, 255), "int8": (-128, 127)}


class Weights:
    """Weights {rows, terms}, or {terms, rows} if transposed, in blocks of terms that share a scale and a zero point."""

    def __init__(
        self, rng: Rng, rows: int, terms: int, block: int, dtype: str, kind: str, transposed: bool, single: Any
    ) -> None:
        low, high = ELEMENTS[dtype]
        drawn = rng.integers(low, high + 1, (rows, terms))
        blocks = terms // block
        if kind == "specials":
            scales = rng.choice([2.0**-149, 2.0**-130, 1e-3, 1.0, -0.5, 3e-39], (rows, blocks)).astype(np.float32)
        else:
            scales = (rng.random((rows, blocks)) * 0.02 + 0.001).astype(np.float32)
        if kind == "ties":
            scales = np.exp2(rng.integers(-3, 3, (rows, blocks))).astype(np.float32)
        zeros = np.full((rows, blocks), (low + high + 1) // 2)
        if rng.random() < 0.5:
            zeros = rng.integers(low, high + 1, (rows, blocks))
        of = np.dtype(getattr(ml_dtypes, dtype) if dtype.endswith("4") else dtype)
        arrays = drawn.astype(of), scales.astype(single), zeros.astype(of)
        self.elements, self.scales, self.zeros = (np.ascontiguousarray(x.T) if transposed else x for x in arrays)
        self.transposed, self.rows, self.terms, self.single = transposed, rows, terms, np.dtype(single)

    def graph(self, m: int, bias: Array | None = None) -> dml.Graph:
        def product(x: Any) -> Any:
            w = dml.dequantize(x.constant(self.elements), [self.scales, self.zeros])
            made = dml.gemm(x, w if self.transposed else w.transpose(1, 0), bias)
            return made if bias is None else dml.activation_relu(made)

        return dml.graph(product, x=dml.TensorDesc(str(dml.DataType.of(self.single)), (m, self.terms)))


def computed(graph: dml.Graph, x: Array, device: dml.Device, *, fuse: bool = True) -> tuple[Array, list[str]]:
    """The output, and the kernels of the graph's calls."""
    compiled = graph.compile(device, fuse=fuse)
    output = np.empty(graph.outputs["output"].sizes, x.dtype)
    compiled.bind(x=x, output=output).execute()
    return output, [part.kernel_name for part in compiled.call.parts]


def drawn(rng: Rng) -> Weights:
    block = int(pick(rng, [16, 32, 64, 128]))
    terms = block * int(rng.integers(1, 1 + 1024 // block)) * (128 // block if rng.random() < 0.8 else 1)
    rows = max(int(rng.integers(1, MOST_ROWS)), -(-4096 // terms))
    kind = pick(rng, ["ordinary", "ordinary", "ties", "specials"])
    dtype, single = pick(rng, list(ELEMENTS)), pick(rng, [np.float32, np.float32, np.float16])
    return Weights(rng, rows, terms, block, dtype, kind if single is np.float32 else "ordinary", rng.random() < 0.3, single)


@pytest.mark.parametrize("part", range(PARTS))
def test_fused_and_unfused(part: int, ran: Ran, compared: Compared) -> None:
    outputs = cases = fused = 0
    while outputs < OUTPUTS // PARTS:
        rng = np.random.default_rng((part, cases))
        weights, m = drawn(rng), int(pick(rng, [1, 1, 2, 3, 4, 7, 8, 9, 30]))
        bias = rng.standard_normal((m, weights.rows)).astype(weights.single) if rng.random() < 0.3 else None
        graph = weights.graph(m, bias)
        device = dml.Device(isa=ISAS[cases % len(ISAS)], threads=1 + cases % 2)
        for kind in hostile_data.KINDS[cases % 2 :: 2]:
            x = hostile_data.values(weights.single.name, (m, weights.terms), rng, kind)
            one, kernels = computed(graph, x, device)
            other, _ = computed(graph, x, device, fuse=False)
            assert one.tobytes() == other.tobytes(), f"part {part}, case {cases}: {weights.__dict__}, {kind}, {device}"
            outputs += one.size
            fused += "contract.weights:compiled" in kernels
        cases += 1
    ran(cases, 3)
    assert fused > cases
    compared("outputs of products of weights", outputs, OUTPUTS // PARTS)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("m", [1, plan.FEW_ROWS + 1])
def test_oracle(dtype: str, m: int) -> None:
    rng = np.random.default_rng(m)
    weights = Weights(rng, 64, 64, 32, dtype, "ordinary", False, np.float32)
    x = rng.standard_normal((m, 64)).astype(np.float32)
    made, kernels = computed(weights.graph(m), x, dml.Device(threads=1))
    assert kernels == ["contract.weights:compiled"]
    differences = weights.elements.astype(np.float32) - np.repeat(weights.zeros.astype(np.float32), 32, 1)
    w = differences * np.repeat(weights.scales, 32, 1)  # one IEEE product each
    asked = {"output_tensor": ((m, 64), np.dtype(np.float32))}
    attributes = {"trans_a": "NONE", "trans_b": "TRANSPOSE", "alpha": 1.0, "beta": 0.0}
    wanted = oracle.compute("GEMM", attributes, {"a_tensor": x, "b_tensor": w}, asked)["output_tensor"]
    assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)
def test_a_panel_has_zeros_behind_the_last_group(target: Target, bits: int) -> None:
    """Not the weights that follow in memory, which belong to no column of the panel."""
    rng = np.random.default_rng(bits)
    across = 2 * packing.GROUP // (target.vector_bytes // 8) * (1 if target.vector_bytes < 64 else 2)
    width, groups, rows, terms = across * target.vector_bytes // 8, 3, 5 * packing.GROUP, 128
    elements = rng.integers(1, 1 << bits, (rows, terms)).astype(np.uint8)
    scales = (rng.random((rows, 4)) + 0.5).astype(np.float32)
    w = WeightsFactor(dml.DataType.FLOAT32, (rows, terms), False, bits, elements, scales, np.zeros((rows, 4), np.uint8))
    packed = packing.packed(w, target)
    panels_ = -(-groups * packing.GROUP // width)
    into, norms = np.full((panels_, terms, width), np.nan, np.float32), np.zeros(rows)
    given = dict(words=packed.words, scales=packed.scales, zeros=packed.zeros, into=into, norms=norms, groups=groups)
    given |= {"from": packed.norms, "units": packed.units, "blocks": packed.blocks, "panels": panels_, "panel": into[0].nbytes}
    given |= {"group_words": packed.group_bytes, "group_scales": packing.GROUP * packed.blocks * 4}
    given |= {"group_zeros": packing.GROUP * packed.blocks, "block_units": max(1, w.block // packed.unit)}
    numbers = [address_of(x) if isinstance(x, np.ndarray) else x for x in (given[n] for n in panels.ARGUMENTS.names)]
    code = engine.compiled(panels.packed, target, packed.key, across)
    assert not prepared([table(code, np.array([numbers], np.int64))], target, (packed, into, norms))()
    wanted = np.zeros((panels_ * width, terms), np.float32)
    wanted[: groups * packing.GROUP] = w.dequantised()[: groups * packing.GROUP]
    assert panels_ * width > groups * packing.GROUP
    assert (into.transpose(0, 2, 1).reshape(-1, terms) == wanted).all()


@pytest.mark.parametrize("stage", ["second", "third", "exact"])
@pytest.mark.parametrize("m", [2, plan.FEW_ROWS + 1])
def test_later_stages(stage: str, m: int) -> None:
    rng = np.random.default_rng(5)
    weights = Weights(rng, 32, 128, 32, "uint4", "ordinary", False, np.float32)
    x = rng.standard_normal((m, 128)).astype(np.float32)
    one, _ = computed(weights.graph(m), x, dml.Device(threads=1))
    later, kernels = computed(weights.graph(m), x, dml.Device(threads=1, stage=stage))
    assert kernels == ["contract.weights:compiled"]
    assert one.tobytes() == later.tobytes()


def test_weights_that_are_read_elsewhere_are_kept() -> None:
    """The dequantised weights are an output, too, and a sum of them is read."""
    rng = np.random.default_rng(6)
    weights = Weights(rng, 64, 128, 32, "uint4", "ordinary", False, np.float32)

    def both(x: Any) -> Any:
        w = dml.dequantize(x.constant(weights.elements), [weights.scales, weights.zeros])
        return {"output": dml.gemm(x, w.transpose(1, 0)), "twice": dml.element_wise_add(w, w)}

    x = rng.standard_normal((2, 128)).astype(np.float32)
    graph = dml.graph(both, x=dml.TensorDesc("FLOAT32", (2, 128)))
    made = graph(x=x)
    assert made["output"].tobytes() == computed(weights.graph(2), x, dml.Device(threads=1))[0].tobytes()
    wanted = dml.dequantize(weights.elements, [weights.scales, weights.zeros]) * np.float32(2)
    assert made["twice"].tobytes() == wanted.tobytes()


def test_one_row_among_many_has_its_bits() -> None:
    """A row's result does not depend on how many rows there are."""
    rng = np.random.default_rng(7)
    weights = Weights(rng, 100, 256, 32, "uint4", "ordinary", False, np.float32)
    x = rng.standard_normal((40, 256)).astype(np.float32)
    whole, _ = computed(weights.graph(40), x, dml.Device(threads=1))
    for m in (1, 3, 8):
        assert computed(weights.graph(m), x[:m].copy(), dml.Device(threads=1))[0].tobytes() == whole[:m].tobytes()
