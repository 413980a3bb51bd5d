"""The elements that compiled contractions of floats leave to Python: few elements, each decided exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurting
from anydml import DataType, Device, TensorDesc
from anydml.kernels.code import llvm
from contracted import Bound, left_open, named, rows_times_columns
from guarded import AVAILABLE

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]


def test_sums_that_three_float64_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four powers far apart, three of which cancel: the one that is left is lost, and an exact evaluation finds it."""
    powers, signs = np.array([120, 60, 0, -60, 120, 60, 0]), np.array([1, 1, 1, 1, -1, -1, -1], np.float32)
    row = np.ldexp(signs, powers)
    with left_open(monkeypatch) as counts:
        bound = Bound(rows_times_columns(3, 7, 30), Device(threads=1), at_end=True)
        bound.arrays["a_tensor"][...] = [row, np.ones(7), row]
        bound.arrays["b_tensor"][...] = 1
        bound.check()
        assert counts == [60]
        assert (bound.output[0] == 2.0**-60).all()
        bound.arrays["a_tensor"][...] = 1
        bound.check()  # nothing is left open, and nothing marked still
        assert counts == [60]


MOST_LEFT = {"small": 0.06}  # with factors: sums of few terms, which are ties
FUNCTIONS = ("ACTIVATION_SIGMOID", "ACTIVATION_GELU", "ACTIVATION_TANH")
FUNCTIONS_LEFT = {"ties": 0.02}  # large sums, of which GELU is all but the sum itself


def left_of(kind: str, patch: pytest.MonkeyPatch, **fields: Any) -> float:
    """The share of elements that machine code leaves open."""
    size, c = 48, TensorDesc(DataType.FLOAT32, (48, 48)) if "beta" in fields else None
    with left_open(patch) as counts:
        bound = Bound(rows_times_columns(size, size, size, c_tensor=c, **fields), Device(threads=1), at_end=True)
        for seed in range(2):
            rng = np.random.default_rng(seed)
            for array in bound.inputs.values():
                array[...] = hurting.values("FLOAT32", array.shape, rng, kind)
            bound.check()
    share = sum(counts) / bound.executed
    print(f"{kind}, {fields}: {sum(counts)} of {bound.executed}, {share:.4%}")
    return share


@pytest.mark.parametrize("kind", hurting.KINDS)
def test_python_decides_few(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (None, named("ACTIVATION_RELU")()):
        assert left_of(kind, monkeypatch, fused_activation=function) == 0
        assert left_of(kind, monkeypatch, alpha=0.1, beta=0.7, fused_activation=function) <= MOST_LEFT.get(kind, 0)


@pytest.mark.parametrize("kind", [k for k in hurting.KINDS if k != "wide"])
def test_python_decides_few_of_functions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FUNCTIONS:
        assert left_of(kind, monkeypatch, fused_activation=named(name)()) <= FUNCTIONS_LEFT.get(kind, 0.001)
