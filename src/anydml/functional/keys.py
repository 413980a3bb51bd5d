"""Kinds of eager calls: calls with equal kinds share a plan and a compiled operator.

The kind of a tensor's argument is the layout of its array, the type of a number, None, or Several of these for a list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import WRAP, as_array, refused_by_name
from anydml.functional.inputs import Several, fault
from anydml.functional.run import signature
from anydml.tensor import four_bit

Array = NDArray[Any]


class Asked(NamedTuple):
    """The arguments of a call. tensors, attributes: in the order of the operator's fields; None where absent."""

    operator: str
    tensors: Sequence[Any]
    attributes: Sequence[Any]
    out: Any = None
    device: Any = None
    output_sizes: Any = None
    output_data_type: Any = None


def of_graph(value: Any) -> bool:
    """Whether a tensor belongs to a graph that is being built: `GraphTensor`."""
    return hasattr(type(value), "traced")


def taken(value: Any) -> Any:
    """A tensor's argument as an array, a Python number, or a tensor of a graph; BindingError for other values."""
    if type(value) is not np.ndarray:
        if (isinstance(value, (int, float)) and not isinstance(value, np.generic)) or of_graph(value):
            return value
        array = np.asarray(value) if isinstance(value, np.generic) else _memory(value)
        if isinstance(array, str):
            raise fault("", array)
        return array
    return value


def each(tensors: Sequence[Any]) -> list[Any]:
    """The arguments of all tensors, those of lists one by one."""
    return [x for value in tensors for x in (value if isinstance(value, (list, tuple)) else (value,))]


def taken_all(tensors: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The arguments of all tensors as `taken` returns them, those of lists one by one, and the kinds of all tensors."""
    flat: list[Any] = []
    kinds: list[Any] = []
    for value in tensors:
        if isinstance(value, (list, tuple)):
            several = [x if type(x) is np.ndarray else taken(x) for x in value]
            flat += several
            kinds.append(Several([(x.shape, x.strides, x.dtype) if type(x) is np.ndarray else kind_of(x) for x in several]))
        else:
            flat.append(None if value is None else taken(value))
            kinds.append(kind_of(flat[-1]))
    return flat, kinds


def _memory(value: Any) -> Array | str:
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return as_array(value)
    first = value
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    typed = WRAP.replace("...", "..., np.float32") if isinstance(first, float) else WRAP
    wrap = f": {typed}" if isinstance(value, (list, tuple)) else ""
    return f"takes an array, not {type(value).__name__}{wrap}"


def kind_of(value: Any) -> Any:
    """The key of a tensor's argument: an array's layout, or a number's type."""
    if isinstance(value, np.ndarray):
        return signature(value)
    if value is None:
        return None
    return value.layout if of_graph(value) else type(value)


class Exactly(float):
    """A float that is equal only to floats of the same bits, and to no integer."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Exactly):
            return False
        same = float.__eq__(self, other) or (self != self and other != other)
        return same and math.copysign(1, self) == math.copysign(1, other)

    def __ne__(self, other: object) -> bool:
        return float.__ne__(self, self) if other is self else not self == other

    def __hash__(self) -> int:
        return hash(float.hex(self))


class Unkeyed:
    """A value without a hash, which no attribute is; it equals nothing."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return repr(self._value)


LONGEST = 1 << 16  # elements of an array that may be an attribute
_INTEGERS = frozenset([int])


def keyed(value: Any) -> Any:
    """An attribute in a form that can be hashed, compared exactly and still converted."""
    kind = type(value)
    if kind is tuple or kind is list:
        return tuple(value) if _INTEGERS.issuperset(map(type, value)) else tuple(map(keyed, value))
    if value is None or kind is int or kind is str or kind is bool:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return keyed(value.tolist()) if value.size <= LONGEST else Unkeyed(value)
    if isinstance(value, float):
        return Exactly(value)
    if isinstance(value, (list, tuple, range)):
        return tuple(map(keyed, value))
    return Unkeyed(value) if kind.__hash__ is None else value


EXACT = frozenset([type(None), int, float, bool, str])  # types whose values are equal only if they are the same, but for zeros


def exact(attributes: Sequence[Any]) -> tuple[Any, ...]:
    """The attributes in a form that, beside their types, can be hashed and compared exactly."""
    found = []
    for x in attributes:
        kind = type(x)
        if kind is tuple:
            known = _INTEGERS.issuperset(map(type, x))
        else:
            known = kind in EXACT and (x or kind is not float)
        found.append(x if known else keyed(x))
    return tuple(found)


def laid(out: Any) -> Any:
    """The layouts of given outputs; None for new arrays."""
    if out is None:
        return None
    if isinstance(out, (list, tuple)):
        return tuple(map(laid, out))
    if not isinstance(out, np.ndarray):
        raise fault("out", f"takes an array, not {type(out).__name__}")
    array = as_array(out)
    if isinstance(array, str):
        raise fault("out", array)
    if four_bit(array.dtype) is None and (reason := refused_by_name(array)) is not None:
        raise fault("out", reason)
    return signature(out)
