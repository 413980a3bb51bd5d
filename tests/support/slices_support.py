"""Tests of products by tile registers: on processors without AMX, its instructions are functions that compute in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anydml.kernels.code import detect, engine, targets
from anydml.kernels.contract.dot import dot_of
from emulated_tiles import emulated

ROW = next(row for row in targets.X86 if dot_of(row).amx)
ARCHITECTURE, FEATURES = detect.features()
NATIVE = FEATURES.issuperset(ROW.features)
# what stands around AMX's instructions, which alone are emulated, needs vectors of 64 bytes and their dot products
needed = [
    pytest.mark.skipif(not FEATURES.issuperset({*ROW.features} - detect.AMX), reason="this processor has no AVX-512 VNNI")
]


@pytest.fixture
def tile_registers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Emulate AMX where it is missing."""
    if NATIVE:
        yield
        return
    made = engine._compiled
    monkeypatch.setattr(engine, "_compiled", lambda text, target: made(emulated(text), target))
    monkeypatch.setattr(detect, "features", lambda: (ARCHITECTURE, FEATURES | detect.AMX))
    targets.targets.cache_clear()
    yield
    monkeypatch.undo()
    targets.targets.cache_clear()
