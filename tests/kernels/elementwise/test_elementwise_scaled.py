"""FLOAT64 with a ScaleBias, and SHRINK of integers: machine code, compared with exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_elementwise import COMPILED, ISAS, compiled_on, device

import anydml as dml
from agreement import bits
from anydml import DataType, TensorDesc
from anydml.kernels.elementwise import undecided
from anydml.schema.kinds import ScaleBias
from anydml.schema.operator import Desc
from anydml.tensor import limits
from every_kernel import SOAK, Ran
from map_operators import drawn

N = 180 * SOAK
INTEGERS = (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.UINT32)
SCALES = [float(np.float32(x)) for x in (0.1, -3.0, 2.0**-149, 2.0**127, 0.0, math.inf)]
BIASES = [float(np.float32(x)) for x in (0.7, -1e-30, 0.0, -0.0, 2.0**-149, -(2.0**127), math.inf)]
Array = NDArray[Any]

pytestmark = pytest.mark.skipif(not ISAS, reason="no code is emitted for this processor")


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*arguments: object) -> Array:
        raise AssertionError(f"{arguments} is left open")

    monkeypatch.setattr(undecided, "exactly", asked)


def run(isa: str, desc: Desc, x: Array) -> Array:
    compiled = device(isa).cached(compiled_on, desc)
    assert compiled.kernel_name == COMPILED
    made = np.empty_like(x)
    compiled.bind(input_tensor=x, output_tensor=made).execute()
    return made


def about(scale: float, bias: float, random: np.random.Generator) -> Array:
    """Elements of every kind, and those for which the sum cancels, is close to the bias or to a tie, or is at the limits."""
    x = drawn(random, DataType.FLOAT64, N)
    part, unit = N // 6, bias / scale if math.isfinite(bias) and math.isfinite(scale) and scale else 1.0
    with np.errstate(all="ignore"):
        near = 1 + random.integers(-4, 5, part) * 2.0 ** random.integers(-53, -20, part)
        x[:part] = -unit * near
        x[part : 2 * part] = unit * 2.0 ** random.integers(-120, 120, part)
        x[2 * part : 3 * part] = 2.0 ** random.integers(-1074, 1024, part).astype(float)
        x[3 * part : 4 * part] = float(np.finfo(np.float64).max) / max(abs(scale), 1.0) * near
    return x.reshape(1, 1, 1, N)


def sum_of(x: float, scale: float, bias: float) -> float:
    """x * scale + bias, rounded once."""
    product_ = x * scale
    if not (math.isfinite(x) and math.isfinite(scale) and math.isfinite(bias)):
        finite = math.isfinite(x) and math.isfinite(scale)
        return bias if finite else product_ + bias
    exact = Fraction(x) * Fraction(scale) + Fraction(bias)
    if exact == 0:
        return product_ + bias if x == 0 or scale == 0 else 0.0
    try:
        return float(exact) or (0.0 if exact > 0 else -0.0)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_float64_is_scaled_and_rounded_once(ran: Ran) -> None:
    random = np.random.default_rng(1)
    t = TensorDesc(DataType.FLOAT64, (1, 1, 1, N))
    cases = 0
    for scale, bias in product(SCALES, BIASES):
        desc = dml.ElementWiseIdentity(input_tensor=t, output_tensor=t, scale_bias=ScaleBias(scale, bias))
        x = about(scale, bias, random)
        wanted = np.array([sum_of(float(v), scale, bias) for v in x.ravel()])
        for isa in ISAS:
            found = run(isa, desc, x)
            nan = np.isnan(wanted)
            assert np.isnan(found.ravel()[nan]).all()
            different = np.flatnonzero((bits(found) != bits(wanted)) & ~nan)
            assert not different.size, (isa, scale, bias, x.ravel()[different[0]], found.ravel()[different[0]])
        cases += N
    ran(cases, 7560)


@pytest.mark.parametrize("data_type", INTEGERS)
def test_integers_shrink(data_type: DataType, ran: Ran) -> None:
    random = np.random.default_rng(2)
    low, high = (int(end) for end in limits(data_type))
    t = TensorDesc(data_type, (1, 1, 1, N))
    cases = 0
    for bias, threshold in ((1.0, 1.5), (0.3, 2.7), (-0.75, 0.0), (1e9, 0.0), (-3e9, 5e8), (0.1, -2.0), (3e38, 1.0)):
        desc = dml.ActivationShrink(input_tensor=t, output_tensor=t, bias=bias, threshold=threshold)
        x = drawn(random, data_type, N).reshape(1, 1, 1, N)
        moved, least = Fraction(desc.bias), Fraction(desc.threshold)
        exact = [v - moved if v > least else v + moved if v < -least else Fraction(0) for v in map(int, x.ravel())]
        wanted = [min(max(math.trunc(v), low), high) for v in exact]
        for isa in ISAS:
            assert run(isa, desc, x).ravel().tolist() == wanted, (isa, bias, threshold)
        cases += N
    ran(cases, 1260)
