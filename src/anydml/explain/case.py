"""A case to compare: an output of another implementation, and the exact one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from anydml.schema.operator import Desc

Arrays = Mapping[str, NDArray[Any]]


class Case(NamedTuple):
    """An output at hand and the exact one: the newest desc, its inputs in tensor form, both outputs, and the output's name."""

    desc: Desc
    inputs: Arrays
    expected: NDArray[Any]
    actual: NDArray[Any]
    output: str
