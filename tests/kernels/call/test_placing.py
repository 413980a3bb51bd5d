"""The addresses of arrays among the numbers of steps, put there by machine code or by Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anydml.kernels.call import placing
from step_kernels import TARGET


@pytest.mark.parametrize("known", [True, False], ids=["machine code", "python"])
def test_addresses_of_arrays(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if known:
        assert placing._known()  # CPython 3.10 to 3.14
    monkeypatch.setattr(placing, "_known", lambda: known)
    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    kinds: tuple[Any, ...] = (whole, whole[2:, 3:], whole[::-1, ::-1], np.array(1.5), np.frombuffer(b"abcd", np.uint8), None)
    numbers = np.full(12, -1, np.int64)
    uses = [(0, [(0, 0), (3, 64)]), (1, [(5, 2)]), (2, [(6, 0)]), (3, [(7, -8)]), (4, [(11, 1 << 40)])]
    put, table, _ = placing.placing(TARGET, memoryview(numbers.data), uses)
    for arrays in (kinds, (np.zeros(3), *kinds[1:]), kinds):
        put(arrays, table)
        expected = np.full(12, -1, np.int64)
        for k, places in uses:
            for place, offset in places:
                expected[place] = arrays[k].__array_interface__["data"][0] + offset
        assert np.array_equal(numbers, expected)


def test_no_address() -> None:
    numbers = np.full(2, 5, np.int64)
    put, table, _ = placing.placing(TARGET, memoryview(numbers.data), [])
    put((np.zeros(3),), table)
    assert numbers.tolist() == [5, 5]
