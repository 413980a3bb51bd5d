"""Sums that a fused function limits: zeros of either sign, underflow, and rows with norms beyond float32."""

from __future__ import annotations

import numpy as np
import pytest

import hostile_data
from anydml import Device
from anydml.kernels.code import llvm
from anydml.kernels.contract.floats.formula import Stored
from drawn_contractions import Bound, Rng, convolution, gemm, named, pick, rows_times_columns
from every_kernel import SOAK, Ran, without_dot_products
from guard_pages import AVAILABLE

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
LIMITS = [(-1.0, 2.5), (0.0, 6.0), (-0.0, 0.0), (-3.0, -0.0), (-1.0, 0.0), (0.1, 0.2)]
ENDS = {4: (2.0**-80, 2.0**-149, 0.0, 3e38, 1.0), 2: (2.0**-24, 0.0, 6e4, 1.0)}  # by the size of an element


def drawn(rng: Rng, case: int) -> Bound:
    """A product or convolution with such data."""
    limits = [named("ELEMENT_WISE_CLIP")(min=low, max=high) for low, high in LIMITS]
    function = [named("ACTIVATION_RELU")(), *limits][case % (len(limits) + 1)]
    makes = (
        lambda: rows_times_columns(*(int(n) for n in rng.integers(1, (30, 6, 60))), fused_activation=function),
        lambda: gemm(rng, fused_activation=function),
        lambda: convolution(rng, fused_activation=function),
    )
    return Bound(pick(rng, makes)(), Device(isa=ISAS[case % len(ISAS)], threads=1), at_end=True)


def test_limited_sums(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    found: list[bool] = []
    real = Stored.limited

    def noted(s: Stored) -> int | None:
        place = real(s)
        found.append(place is not None)
        return place

    monkeypatch.setattr(Stored, "limited", noted)
    compared = 0
    for case in range(14 * SOAK):
        rng = np.random.default_rng((31, case))
        bound = drawn(rng, case)
        for kind in ("small", "wide", "specials", "ends"):
            bound.fill(rng, pick(rng, hostile_data.KINDS) if kind == "ends" else kind)
            if kind == "ends":
                for array in bound.inputs.values():
                    ends = np.array(ENDS[array.itemsize])
                    array[...] = rng.choice([*ends, *-ends], array.shape)
            bound.check()
        compared += bound.executed
    assert any(found)
    ran(compared, 5_000)


@pytest.mark.parametrize("rows", [1, 15, 24])
def test_zeros_beside_norms_that_float32_does_not_hold(rows: int) -> None:
    """The bound of such a sum is NaN, and decides nothing, with and without a limit."""
    for limits in LIMITS:
        clip = named("ELEMENT_WISE_CLIP")(min=limits[0], max=limits[1])
        bound = Bound(rows_times_columns(rows, 3, 5, fused_activation=clip), Device(threads=1), at_end=True)
        bound.arrays["a_tensor"][...] = [2.0**-149, -3e38, 3e38]
        bound.arrays["b_tensor"][...] = np.array([-0.0, 0.0, -0.0])[:, None]
        bound.check()
