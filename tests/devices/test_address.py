"""Addresses of arrays: read from NumPy's objects, or found otherwise if these have another layout."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from anydml.kernels.call import address


class Subclass(np.ndarray[Any, Any]):
    pass


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 3), (2, 5)])
def test_addresses_are_those_of_the_first_elements(offsets: tuple[int, int]) -> None:
    whole = np.arange(48, dtype=np.int32).reshape(6, 8)
    row, column = offsets
    for array in (whole[row:, column:], whole[row:, column:].view(Subclass), whole[row:, column:][::-1]):
        assert address.address_of(array) == array.ctypes.data
        assert ctypes.c_int32.from_address(address.address_of(array)).value == array[0, 0]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="objects do not lie where their id says")
def test_they_are_read_from_the_object_here() -> None:
    assert address.address_of is not address.by_interface


@pytest.mark.parametrize(
    "wrong", [("pypy", object.__basicsize__), ("cpython", object.__basicsize__ + 8), ("cpython", 0), ("cpython", 4096)]
)
def test_what_does_not_hold_is_not_used(wrong: tuple[str, int]) -> None:
    assert address.from_object(*wrong) is None
