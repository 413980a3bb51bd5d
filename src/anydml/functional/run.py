"""The steps that eager functions share: arguments to arrays, arrays to descs, and the call itself.

Calls are cached by the shapes, strides and dtypes of their arrays and by their attributes: a second call of the same kind makes
no descs, checks nothing and compiles nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anydml import operators
from anydml.devices.binding import WRAP, as_array, refused_by_name, share_memory
from anydml.devices.compiled import CompiledOperator
from anydml.devices.memory import memory_bytes
from anydml.errors import BindingError, Fault
from anydml.int4_tensors import pack
from anydml.kernels.call.address import address_of
from anydml.schema.operator import Desc
from anydml.tensor import TensorDesc

Signature = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]
HUGE = 2 << 20  # bytes of a huge page, which NumPy requests for arrays of 4 MB or more


def fail(name: str, message: str) -> BindingError:
    """The error about an argument: its name followed by `message`."""
    return BindingError([Fault(name, f"{name} {message}")])


def tensor(name: str, value: Any, takes: str = "an array") -> NDArray[Any]:
    """An argument as an array of at least one element and one dimension; BindingError for other values."""
    if not (isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")) or isinstance(value, np.generic):
        wrap = f": {WRAP}" if isinstance(value, (list, tuple)) else ""
        raise fail(name, f"takes {takes}, not {type(value).__name__}{wrap}")
    array = as_array(value)
    if isinstance(array, str):
        raise fail(name, array)
    if (reason := refused_by_name(array)) is not None:
        raise fail(name, reason)
    if array.ndim == 0:
        raise fail(name, "has no dimensions, and a tensor has 1 to 8")
    if array.size == 0:
        raise fail(name, f"has shape {array.shape}, and no dimension of a tensor is empty")
    return array


def unspellable(array: NDArray[Any]) -> bool:
    """Whether no desc can express the array's layout: a stride is negative, or not a multiple of the element size."""
    if array.flags.c_contiguous:
        return False
    itemsize = array.itemsize
    return any(n > 1 and (s < 0 or s % itemsize) for n, s in zip(array.shape, array.strides, strict=True))


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """A packed copy of an array whose layout no desc can express; MemoryError if it does not fit in memory."""
    if array.nbytes > memory_bytes():
        raise MemoryError(f"a copy of shape {array.shape} takes {array.nbytes} bytes, and this machine has {memory_bytes()}")
    return np.ascontiguousarray(array)


def signature(array: NDArray[Any]) -> Signature:
    return array.shape, array.strides, array.dtype


def output_signature(out: Any, **inputs: NDArray[Any]) -> Signature | None:
    """The layout of `out` if results can be written directly to it; None for a new array.

    BindingError if it cannot be written or shares memory with one of the caller's inputs.
    """
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise fail("out", f"takes an array, not {type(out).__name__}")
    array = as_array(out)
    if (reason := array if isinstance(array, str) else refused_by_name(array)) is not None:
        raise fail("out", reason)
    for name, array in inputs.items():
        if (how := share_memory(out, array)) is not None:
            raise fail("out", f"{how} {name}, and the operator does not work in place")
    return None if unspellable(out) else signature(out)


def output_desc(packed: TensorDesc, out: Signature | None) -> TensorDesc:
    """The desc of the output, with the layout of `out` if it has the result's shape and type, else packed."""
    if out is None or out[0] != packed.sizes or out[2] != packed.data_type.dtype:
        return packed
    return TensorDesc.of_layout(*out)


@lru_cache(maxsize=1024)
def operator_of(name: str) -> type[Desc]:
    """The desc class of an operator, by its name without DML_OPERATOR_."""
    found = operators.find(name)
    assert found is not None, name
    return found


class _Described(Exception):
    """Ends an eager call that is only described, at the point where it would be executed."""


# while a call is described: the packed bytes that replace arrays of 4-bit elements, by the addresses of these arrays
_describing: ContextVar[Mapping[int, NDArray[Any]] | None] = ContextVar("describing", default=None)


def described(
    function: Callable[..., Any], *arguments: Any, **keywords: Any
) -> tuple[Desc, dict[str, NDArray[Any]], dict[str, tuple[int, ...]]]:
    """The desc, the inputs and the shapes of the results, by field name, of an eager call that is checked and not executed.

    TypeError for a function that is not an eager function of anydml; other errors are the call's.
    """
    if not str(getattr(function, "__module__", "")).startswith("anydml.functional."):
        if isinstance(function, (np.ndarray, np.generic)):  # the call was made
            raise TypeError(
                "an array is neither a desc nor an eager function of anydml: give the function and its arguments apart, not "
                "what it returns"
            )
        raise TypeError(f"{function!r} is neither a desc nor an eager function of anydml")
    found = announced_by(lambda: function(*arguments, **keywords))
    assert found is not None, f"{function.__name__} returns nothing"
    desc, inputs, outputs = found
    several = (o if isinstance(o, list) else [o] for o in outputs if o is not None)
    return desc, inputs, {name: shape for these in several for name, _, shape in these}


def announced_by(
    call: Callable[[], Any], packed: Mapping[int, NDArray[Any]] = MappingProxyType({})
) -> tuple[Desc, dict[str, NDArray[Any]], Sequence[Any]] | None:
    """The desc, the inputs and the outputs of an eager call that is not executed, as passed to `announced`.

    packed: the bytes that replace an array of 4-bit elements, by its address. None if there is nothing to execute.
    """
    token = _describing.set(packed)
    try:
        call()
    except _Described as found:
        desc, inputs, outputs = found.args
        return desc, inputs, outputs
    finally:
        _describing.reset(token)
    return None


def as_node(call: Callable[[Any, Any], Any], tensors: Sequence[Any], out: Any, device: Any) -> Any:
    """The outputs of a call as tensors of a graph; None if none of its tensors belongs to one. call: see `traced`."""
    module = sys.modules.get("anydml.functional.tracing")
    return None if module is None else module.traced(call, tensors, out, device)


def describing() -> bool:
    """Whether the call is only described, not executed."""
    return _describing.get() is not None


def packed_bytes(x: NDArray[Any]) -> NDArray[Any]:
    """The packed bytes of an array of 4-bit elements; while a call is described, the bytes that replace it."""
    known = (_describing.get() or {}).get(address_of(x))
    return known if known is not None and x.flags.c_contiguous and 2 * known.size >= x.size else pack(x)


def announced(desc: Desc, inputs: dict[str, NDArray[Any]], outputs: Sequence[Any]) -> None:
    """End the call here if it is only described.

    outputs: for each, its name, its desc and the shape that is returned; a list of those, or None.
    """
    if describing():
        raise _Described(desc, inputs, outputs)


def deliver(operator: CompiledOperator, out: NDArray[Any] | None, inputs: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Execute into a new array or into `out`, and return it; BindingError if `out` has another shape or type."""
    desc: TensorDesc = operator.desc.output_tensor  # all four operators have it
    sizes, dtype = desc.sizes, desc.data_type.dtype
    announced(operator.desc, inputs, [("output_tensor", desc, sizes)])
    if out is not None:
        if out.shape != sizes or out.dtype != dtype:
            raise fail("out", f"is {out.dtype}, shape {out.shape}, where the result is {dtype}, shape {sizes}")
        if not unspellable(out):
            operator.bind(**inputs, output_tensor=out).execute()
            return out
        if not out.flags.writeable:
            raise fail("out", "is not writable")
    result = allocate(sizes, dtype, operator.binding_properties.temporary_resource_size)
    operator.execute_described({**inputs, "output_tensor": result})
    if out is None:
        return result
    out[...] = result
    return out


def allocate(sizes: tuple[int, ...], dtype: np.dtype[Any], scratch: int) -> NDArray[Any]:
    """A new output; MemoryError if the machine has no memory for it and for `scratch` bytes of scratch."""
    needed = math.prod(sizes, start=dtype.itemsize)
    if needed + scratch > memory_bytes():
        beside = f" beside {scratch} bytes of scratch" if scratch else ""
        raise MemoryError(f"an output of sizes {sizes} takes {needed} bytes{beside}, and this machine has {memory_bytes()}")
    result = np.empty(sizes, dtype)
    if needed >= 2 * HUGE:
        _take_pages(result)
    return result


def _take_pages(array: NDArray[Any]) -> None:
    """Write the last byte of each huge page of new memory.

    Linux fills a page with zeros at the first write, and begins with the bytes farthest from the byte written. A copy writes
    the first byte first, so that huge pages would be filled backwards, which takes more than twice as long as forwards. With
    this, a copy of 64 MB is 1.5 times as fast. On other systems it costs nothing.
    """
    memory = array.reshape(-1).view(np.uint8)
    memory[(-1 - memory.ctypes.data) % HUGE :: HUGE] = 0
