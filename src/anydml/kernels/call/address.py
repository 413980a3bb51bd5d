"""The address of an array's first element.

`__array_interface__` makes a dict for each answer, which takes a microsecond, and a matmul asks for ten. CPython's objects
lie where `id` says, and NumPy's array begins, behind what every object begins with, with that address. No document promises
it, so it is compared with the interface for arrays of several kinds when this module is imported, and the interface serves
wherever it does not hold.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def by_interface(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def from_object(
    implementation: str = sys.implementation.name, offset: int = object.__basicsize__
) -> Callable[[Any], int] | None:
    """Reading the address where an array object keeps it; None where that is not known to be there."""
    if implementation != "cpython" or not 0 < offset <= np.ndarray.__basicsize__ - ctypes.sizeof(ctypes.c_size_t):
        return None
    word = ctypes.c_size_t.from_address

    def read(array: NDArray[Any]) -> int:
        return word(id(array) + offset).value

    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    fixed = whole[1:]
    fixed.flags.writeable = False
    kinds = (
        whole,
        whole[2:, 3:],
        whole[::-1, ::-1],
        whole.T,
        fixed,
        whole[:0],
        np.array(1.5),
        np.frombuffer(b"abcd", np.uint8),
    )
    return read if all(read(array) == by_interface(array) for array in kinds) else None


address_of: Callable[[NDArray[Any]], int] = from_object() or by_interface
