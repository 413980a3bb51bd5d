"""The key that a map's kernel is made for, and the kernel's arguments."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from anydml.kernels.call.signature import Signature
from anydml.kernels.code.targets import Target
from anydml.kernels.elementwise.geometry import names
from anydml.kernels.elementwise.streams import POSITION
from anydml.kernels.match.normal_form import NormalForm
from anydml.tensor import DataType


class MapKey(NamedTuple):
    """A map without its sizes and strides. layouts: of each stream along a row, the output last; outer: dimensions of rows.

    stream: whether stores are non-temporal. levels: representations of numbers that are not float32, from "paired" to "wide",
    "float64" (of all numbers) and "doubled". The first computes all elements, each further one those that the one before leaves
    undecided. listed: whether the first leaves any undecided.
    """

    formula: NormalForm
    moves: bool
    integral: bool
    types: tuple[DataType, ...]
    layouts: tuple[str, ...]
    outer: int
    lanes: int
    stream: bool
    levels: tuple[str, ...]
    listed: bool


def lanes_in_pairs(target: Target) -> int:
    """Elements of a group in pairs of float32: four independent vectors hide the latency of dependent operations."""
    return target.vector_bytes


@lru_cache(maxsize=256)
def signature(key: MapKey) -> Signature:
    """The arguments of the kernel. p: where streams begin; s: from one element of a row to the next."""
    count = len(key.types)
    found = ["*state", "*list", "room", "first", "rows", "n"]
    found += [f"p{k}" if layout == POSITION else f"*p{k}" for k, layout in enumerate(key.layouts)]
    found += [f"s{k}" for k in range(count)]
    for d in range(key.outer):
        found += names(f"n{d}", f"o{d}", count)
    return Signature(" ".join(found))
