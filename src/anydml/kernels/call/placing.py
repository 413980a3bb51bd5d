"""The addresses of a call's arrays, put among the numbers of its steps.

Python takes 0.15 us for each address. In CPython the items of a tuple follow its header, as data pointers follow the header of
an array (see `address`), so that machine code finds them: 0.24 us for all. This is compared with what Python finds before it is
used, and Python puts the addresses if they differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.kernels.call.address import address_of, from_object
from anydml.kernels.code import engine
from anydml.kernels.code.emit import Text, along, fold, module
from anydml.kernels.code.targets import Target

ROW = 24  # bytes of a row of the table
Uses = Sequence[tuple[int, Sequence[tuple[int, int]]]]


class Placing(NamedTuple):
    """`put(arrays, table)` puts the addresses of a tuple of arrays. keep: what the table points to."""

    put: Callable[[tuple[NDArray[Any], ...], Any], None]
    table: Any
    keep: Any


def placing(target: Target, numbers: memoryview, uses: Uses) -> Placing:
    """The call that puts, for each (k, places), the address of the k-th array plus an offset at places among the numbers.

    numbers: int64, which the caller keeps.
    """
    first = address_of(np.asarray(numbers))
    rows = [word for k, places in uses for place, offset in places for word in (k, first + 8 * place, offset)]
    if not (rows and _known()):
        return Placing(_put, (numbers, uses), None)
    table = np.array([len(rows) // 3, *rows], np.int64)
    function, code = _function(target)
    return Placing(function, ctypes.c_void_p(address_of(table)), (code, table))


def put(target: Target, items: int, data: int) -> str:
    """`i64 kernel(ptr tuple, ptr table)`: the address of each array's data, plus an offset, as an int64.

    items, data: the bytes before a tuple's items and before an array's data pointer. table: int64, the number of rows, at
    least 1, then rows (which item, where its address is put, offset).
    """
    text = Text()
    end = text.op(f"mul i64 {text.load('i64', '%table')}, {ROW}")

    def row(i: str, _: list[str]) -> list[str]:
        at = text.at(text.at("%table", 8), i)
        item = text.load("ptr", text.at(along(text, "%tuple", "8", text.load("i64", at)), items))
        address = text.op(f"add i64 {text.load('i64', item, data)}, {text.load('i64', at, 16)}")
        text.store("i64", address, text.load("ptr", at, 8))
        return []

    fold(text, "0", end, ROW, [], row)
    text.do("ret i64 0")
    return module(["define i64 @kernel(ptr %tuple, ptr %table) {", "entry:", *text.lines, "}"])


@lru_cache(maxsize=32)
def _function(target: Target) -> tuple[Any, engine.Code]:
    code = engine.compiled(put, target, tuple.__basicsize__, object.__basicsize__)
    return ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(code.address), code


@cache
def _known() -> bool:
    """Whether items and data pointers are where they are expected."""
    if from_object() is None or not tuple.__itemsize__ == ctypes.sizeof(ctypes.c_size_t) == 8:
        return False
    items = object(), object()
    word, first = ctypes.c_size_t.from_address, id(items) + tuple.__basicsize__
    return all(word(first + 8 * i).value == id(item) for i, item in enumerate(items))


def _put(arrays: tuple[NDArray[Any], ...], table: Any) -> None:
    numbers, uses = table
    for k, places in uses:
        at = address_of(arrays[k])
        for place, offset in places:
            numbers[place] = at + offset
