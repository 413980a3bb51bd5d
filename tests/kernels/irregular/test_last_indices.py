"""Indices at the end of a page: none behind the last one is read, not even to prefetch a row."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
import guard_pages


@pytest.mark.skipif(not guard_pages.AVAILABLE, reason="pages cannot be protected here")
def test_no_index_behind_the_last_one_is_read() -> None:
    indices, _ = guard_pages.place((1, 64), (64, 1), np.dtype(np.uint32), at_end=True)
    indices[...] = np.arange(64) % 7
    x = np.arange(7 * 200, dtype=np.float32).reshape(7, 200)
    assert (dml.gather(x, indices, axis=0, index_dimensions=1) == x[indices[0]]).all()
