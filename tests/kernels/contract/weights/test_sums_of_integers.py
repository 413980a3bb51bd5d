"""Rows times weights of 4 bits as sums of integers: bounds hold, and the bits are those of separate operators."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
import hostile_data
from anydml.kernels.call.address import address_of
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import named
from anydml.kernels.contract.weights import integers, packing
from anydml.kernels.contract.weights.factor import WeightsFactor
from anydml.tensor import DataType
from drawn_contractions import Rng, pick
from every_kernel import SOAK, Compared

Array = np.ndarray[Any, np.dtype[Any]]
pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here"),
    pytest.mark.skipif(named("avx512_vnni") is None, reason="this processor has no 512-bit dot products of bytes"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
OUTPUTS = 10_000_000 if SOAK > 1 else 4_000
SCALES = ["any", "halves", "apart", "zeros"]


def scales_of(kind: str, rng: Rng, sizes: tuple[int, int]) -> Array:
    """Scales. halves: of 11 bits, so that no weight is rounded; apart: of very different sizes."""
    drawn = (rng.random(sizes) + 0.01) * rng.choice([-1, 1], sizes)
    if kind == "halves":
        drawn = drawn.astype(np.float16)
    if kind == "apart":
        drawn = np.ldexp(drawn, rng.integers(-50, 50, sizes))
    if kind == "zeros":
        drawn[rng.random(sizes) < 0.4] = 0
    found: Array = drawn.astype(np.float32)
    return found


def shares_of_bounds(w: WeightsFactor, x: Array) -> Array:
    """The error of each sum of the kernels, as a part of its bound."""
    target = named("avx512_vnni")
    assert target is not None
    assert packing.as_integers(w, target)
    packed = packing.packed(w, target, integers=True)
    count, terms = w.elements.shape
    row, sums, counter = packing.aligned(8 * terms).view(np.float64), np.empty(count), np.empty(8)
    row[:] = x.astype(np.float32)
    chunks = packed.units // packed.span
    sizes = packed.units * integers.DIGIT_BYTES, chunks * integers.NUMBERS, integers.FACTS
    digits, numbers, facts = (np.empty(n, np.uint8) for n in sizes)
    errors, scales = (int(np.float64(s).view(np.int64)) for s in (packed.of_errors, packed.of_scales))
    made = {"digits": address_of(digits), "numbers": address_of(numbers), "facts": address_of(facts)}
    given: dict[str, int] = {"row": address_of(row), "units": packed.units, "errors": errors, "scales": scales}
    given |= {"words": address_of(packed.words), "factors": address_of(packed.factors), "groups": count // 8, "chunks": chunks}
    given |= {"sums": address_of(sums), "counter": address_of(counter), **made}
    first = engine.compiled(integers.digits, target, packed.span, packed.general)
    second = engine.compiled(integers.summed, target, packed.span, packed.of_errors > 0, packed.general)
    for code, signature in ((first, integers.DIGIT_ARGUMENTS), (second, integers.SUM_ARGUMENTS)):
        arguments = np.array([[given[name] for name in signature.names]], np.int64)
        prepared([table(code, arguments)], target, (row, digits, numbers, facts, packed, sums, counter))()
    bound = facts.view(np.float64)[0] * packed.norms[:count]
    exact = [math.fsum(products) for products in w.dequantised().astype(np.float64) * row]
    found: Array = np.abs(sums - exact) / bound
    return found


def drawn(kind: str, rng: Rng, terms: int, block: int, zero: int | None = 8) -> WeightsFactor:
    scales = scales_of(kind, rng, (24, terms // block))
    elements = rng.integers(0, 16, (24, terms)).astype(np.uint8)
    zeros = np.full(scales.shape, zero or 0, np.uint8)
    if zero is None:
        zeros[:] = rng.integers(0, 16, scales.shape)
    return WeightsFactor(DataType.FLOAT32, (24, terms), False, 4, elements, scales, zeros)


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize(("block", "zero"), [(32, 8), (32, None), (128, 8), (128, None)])
def test_bounds(kind: str, block: int, zero: int | None) -> None:
    """The kernels' sums differ from the exact ones by less than the norms say."""
    rng, largest = np.random.default_rng(block), 0.0
    for terms, x in (
        (1024, rng.standard_normal(1024)),
        (256, np.ldexp(rng.random(256) - 0.5, rng.integers(-90, 90, 256))),
        (128, np.ldexp(rng.random(128), -140)),
        (4096, rng.standard_normal(4096) * np.where(rng.random(4096) < 0.01, 1000, 1)),
        (256, rng.random(256) * (rng.random(256) < 0.1)),
    ):
        shares = shares_of_bounds(drawn(kind, rng, terms, block, zero), x)
        assert (shares <= 1).all()
        largest = max(largest, float(shares.max()))
    assert largest > 0.01


@pytest.mark.parametrize(("block", "zero"), [(32, 8), (128, 8), (32, None)])
def test_bounds_are_reached(block: int, zero: int | None) -> None:
    """Errors of weights that all meet the largest rest of two digits, with the same sign, are a good part of the bound."""
    rng = np.random.default_rng(block)
    w = drawn("any", rng, 1024, block, zero)
    scales, zeros = (np.repeat(x[0], block).astype(np.float64) for x in (w.scales, w.zeros))
    errors = w.dequantised()[0] - (w.elements[0] - zeros) * scales
    shares = shares_of_bounds(w, 0.75 + np.sign(errors) * (2.0**-15 - 2.0**-21))
    assert 0.3 < shares[0] < 0.6  # more if a part of the bound were missing


@pytest.mark.parametrize("terms", [256, 65536])
def test_additions_are_counted(terms: int) -> None:
    """Of a row that its digits hold, and of weights that are not rounded, additions of chunks alone lose something."""
    target = named("avx512_vnni")
    assert target is not None
    row = packing.aligned(8 * terms).view(np.float64)
    row[:] = np.random.default_rng(9).choice([-1.0, 0.0, 1.0], terms)
    units, span = terms // packing.TERMS, packing.CHUNK
    digits, numbers, facts = (
        np.empty(n, np.uint8) for n in (units * integers.DIGIT_BYTES, units * integers.NUMBERS, integers.FACTS)
    )
    made = {"digits": address_of(digits), "numbers": address_of(numbers), "facts": address_of(facts)}
    given = {"row": address_of(row), "units": units, "errors": 0, "scales": 0, **made}
    code = engine.compiled(integers.digits, target, span, False)
    arguments = np.array([[given[name] for name in integers.DIGIT_ARGUMENTS.names]], np.int64)
    prepared([table(code, arguments)], target, (row, digits, numbers, facts))()
    lost = np.linalg.norm(row) * (units / span + 20) * 2.0**-53
    assert lost / 2 <= facts.view(np.float64)[0] <= lost * 2


def test_fused_and_unfused(compared: Compared) -> None:
    """Also with a residual behind the product, and for several rows and threads."""
    outputs = case = 0
    while outputs < OUTPUTS:
        rng = np.random.default_rng(case)
        block, m = int(pick(rng, [32, 64, 96, 128, 256])), int(pick(rng, [1, 1, 2, 4]))
        terms, rows = block * int(rng.integers(1, 9)), int(rng.integers(1, 600)) + 4096 // block
        dtype, low = pick(rng, [("uint4", 0), ("int4", -8)])
        kind = SCALES[case % len(SCALES)]
        elements = rng.integers(low, low + 16, (rows, terms)).astype(getattr(ml_dtypes, dtype))
        scales, zeros = scales_of(kind, rng, (rows, terms // block)), np.full((rows, terms // block), low + 8)
        if case % 3 == 0:
            zeros = rng.integers(low, low + 16, zeros.shape)
        added = rng.standard_normal((m, rows)).astype(np.float32) if rng.random() < 0.3 else None

        def product(x: Any) -> Any:
            w = dml.dequantize(x.constant(elements), [scales, zeros.astype(elements.dtype)])  # noqa: B023
            made = dml.gemm(x, w.transpose(1, 0))
            return made if added is None else dml.activation_relu(dml.element_wise_add(made, added))  # noqa: B023

        graph = dml.graph(product, x=dml.TensorDesc("FLOAT32", (m, terms)))
        device = dml.Device(isa="avx512_vnni", threads=1 + case % 2)
        one, other = (graph.compile(device, fuse=fuse) for fuse in (True, False))
        assert "contract.weights:compiled" in [part.kernel_name for part in one.call.parts]
        for data in hostile_data.KINDS[case % 3 :: 3]:
            x = hostile_data.values("float32", (m, terms), rng, data)
            made = [np.empty((m, rows), np.float32) for _ in range(2)]
            for compiled, output in zip((one, other), made, strict=True):
                compiled.bind(x=x, output=output).execute()
            assert made[0].tobytes() == made[1].tobytes(), (case, kind, data, block, m, terms, rows, dtype)
            outputs += made[0].size
        case += 1
    compared("outputs of sums of integers", outputs, OUTPUTS)
