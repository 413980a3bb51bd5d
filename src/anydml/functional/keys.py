"""Keys of eager calls: calls with equal keys share a compiled operator. Arguments that no call takes are refused here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.binding import WRAP, as_array, refused_by_name
from anydml.functional.inputs import BOOL, fault
from anydml.functional.run import contiguous, signature, unspellable
from anydml.tensor import four_bit

Array = NDArray[Any]


def taken(value: Any) -> Any:
    """A tensor's argument as an array whose layout a desc can express, or as a Python number; BindingError for other values."""
    if type(value) is not np.ndarray:
        if isinstance(value, (int, float)) and not isinstance(value, np.generic):
            return value
        array = np.asarray(value) if isinstance(value, np.generic) else _memory(value)
        if isinstance(array, str):
            raise fault("", array)
        value = array
    if value.dtype != BOOL and four_bit(value.dtype) is None and (reason := refused_by_name(value)) is not None:
        raise fault("", reason)
    return contiguous(value) if unspellable(value) else value


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
    return value if value is None else type(value)


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


def keyed(value: Any) -> Any:
    """An attribute in a form that can be hashed, compared exactly and still converted."""
    kind = type(value)
    if value is None or kind is int or kind is str or kind is bool:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return keyed(value.tolist())
    if isinstance(value, float):
        return Exactly(value)
    return tuple(map(keyed, value)) if isinstance(value, (list, tuple, range)) else value


def lies(out: Any) -> Any:
    """The layouts of given outputs, without strides if results are copied to them; None for new arrays."""
    if out is None:
        return None
    if isinstance(out, (list, tuple)):
        return tuple(map(lies, out))
    if not isinstance(out, np.ndarray):
        raise fault("out", f"takes an array, not {type(out).__name__}")
    array = as_array(out)
    if isinstance(array, str):
        raise fault("out", array)
    if four_bit(array.dtype) is None and (reason := refused_by_name(array)) is not None:
        raise fault("out", reason)
    afterwards = four_bit(array.dtype) is not None or unspellable(out)
    return (out.shape, None, out.dtype) if afterwards else signature(out)
