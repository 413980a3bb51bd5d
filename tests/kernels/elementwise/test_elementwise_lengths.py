"""Maps of every length: nothing after the last element is written, also by the stages for undecided elements."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from anydml.kernels.code import llvm
from every_kernel import without_dot_products

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")
ISAS = [row.name for row in without_dot_products()]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", ["log", "exp", "quantize_linear"])
def test_nothing_behind_the_last_element_is_written(name: str, isa: str) -> None:
    device, rng = dml.Device("cpu", isa=isa, threads=1), np.random.default_rng(4)
    function = getattr(dml, f"element_wise_{name}")
    parameters = (np.full(1, 0.1, np.float32), np.zeros(1, np.uint8)) if name == "quantize_linear" else ()
    for n in range(1, 200):
        x = np.exp(rng.standard_normal(n)).astype(np.float32)
        held = np.full(n + 256, 85, np.uint8 if parameters else np.float32)
        function(x, *parameters, out=held[:n], device=device)
        assert (held[n:] == 85).all(), n
