"""The benchmarks' parts that reach into kernels, which nothing else runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from anydml.kernels.code.targets import targets

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import limits


@pytest.mark.skipif(not targets(), reason="no code is emitted for this processor")
def test_the_limit_of_runs_copies_them() -> None:
    """Of 64 rows with 128 bytes each, which lie apart."""
    calls, count = limits.runs(np.zeros((64, 64), np.float32)[:, :32])
    assert count == 64 * 128
    assert len(calls) == len(limits.AHEAD)
    for call in calls.values():
        call()
