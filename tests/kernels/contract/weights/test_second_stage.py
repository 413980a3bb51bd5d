"""The second stage of rows times weights of 4 bits: the bound of its plain sum decides which elements are summed again."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest

from anydml.kernels.call.address import address_of
from anydml.kernels.code import engine
from anydml.kernels.code.targets import named
from anydml.kernels.contract.floats.epilogue import EpilogueKey
from anydml.kernels.contract.floats.formula import Stored
from anydml.kernels.contract.weights import packing, refine
from anydml.kernels.contract.weights.factor import WeightsFactor
from anydml.kernels.match.normal_form import Node, normal_form
from anydml.kernels.undecided.state import COUNT
from anydml.tensor import DataType

F32, F64 = DataType.FLOAT32, DataType.FLOAT64
SUM = normal_form([Node("stream", (), (0, F64)), Node("same", (0,), None)])
KEY = EpilogueKey(Stored(SUM, (F64, F32), 0), ("contiguous",), False)
TIE = 1 + Fraction(1, 1 << 24)


@pytest.mark.skipif(named("avx512_vnni") is None, reason="this processor has no 512-bit dot products of bytes")
def test_the_bound_of_a_plain_sum_is_that_of_norms() -> None:
    """Sums are beside a tie of float32, by some eighths of the bound. Other terms, beyond float32, cancel one another in the
    four partial sums of the plain sum, and make the two of the compensated one infinite: an element that reaches it is NaN."""
    target = named("avx512_vnni")
    assert target is not None
    eighths, factor, a_norm, b_norm = (1, 7, 9, 15, 100, -7, -9), 2.0**-40, 0.5, 3.0
    elements, scales, zeros = np.full((8, 128), 9, np.uint8), np.ones((8, 4), np.float32), np.full((8, 4), 8, np.uint8)
    packed = packing.packed(WeightsFactor(F32, (8, 128), False, 4, elements, scales, zeros), target, integers=True)
    assert packed.key.word == packing.WORD
    for n in eighths:
        row = packing.aligned(8 * 128).view(np.float64)[:128]
        row[0] = float(TIE + Fraction(n, 8) * Fraction(factor * a_norm * b_norm))
        row[7:32:8] = 1.5e308, -1.5e308, 1.5e308, -1.5e308
        listed, counter, bits, still, output = (np.zeros(8, np.int64) for _ in range(5))
        counter[COUNT], listed[0] = 1, 3  # the third column of the first row
        norms = np.array([a_norm]), np.full(8, b_norm)
        given = {"a": address_of(row), "words": address_of(packed.words), "group_words": packed.group_bytes}
        given |= {"scales": address_of(packed.scales), "zeros": address_of(packed.zeros), "units": packed.units}
        given |= {"blocks": packed.blocks, "block_units": 1, "list": address_of(listed), "counter": address_of(counter)}
        given |= {"f1": 1, "f2": 8, "columns": 8}
        given |= {"bits": address_of(bits), "open": address_of(still), "factor": int(np.float64(factor).view(np.int64))}
        given |= {"a_norms": address_of(norms[0]), "b_norms": address_of(norms[1])}
        streams = [address_of(output), 0, 0, 0, 4]
        arguments = np.array([*(given.get(name, 0) for name in refine.ARGUMENTS.names), *streams], np.int64)
        code = engine.compiled(refine.refined, target, KEY, packed.key)
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address)(arguments.ctypes.data)
        made = output.view(np.float32)
        assert not made[:3].any()
        assert not made[4:].any()
        assert not still.any()
        assert np.array_equal(made[3], np.float32(np.nan if abs(n) < 8 else row[0]), equal_nan=True), n
