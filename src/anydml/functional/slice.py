"""Eager SLICE1 and SLICE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anydml.devices.compiled import CompiledOperator
from anydml.devices.device import Device, device_of
from anydml.errors import BindingError, DescError, Error
from anydml.fork_safety import guard
from anydml.functional.run import (
    Signature,
    as_node,
    contiguous,
    deliver,
    output_desc,
    output_signature,
    signature,
    tensor,
    unspellable,
)
from anydml.schema.check import check
from anydml.tensor import TensorDesc, integers

if TYPE_CHECKING:
    from anydml.operators.slice import Slice, Slice1


def slice1(
    input: NDArray[Any],
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
    *,
    output_sizes: Sequence[int] | None = None,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copy the elements of `input` that a window selects: DML_OPERATOR_SLICE1.

    Each argument has an entry per dimension, 1 to 8, in elements. Strides (default 1) are signed and not 0: a negative one
    starts at the window's end. output_sizes: at most 1 + (size - 1) // |stride|, which is the default. Any of DirectML's 8-
    to 64-bit types, any array strides. DescError, BindingError. Source: ns-directml-dml_slice1_operator_desc.
    """
    try:
        x = tensor("input", input)
        into = output_signature(out, input=x)
        flipped: tuple[int, ...] = ()
        if unspellable(x):
            flipped = tuple(i for i, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if n > 1 and s < 0)
            x = np.flip(x, flipped)  # a view; the window is mirrored too
            if unspellable(x):
                x = contiguous(x)
        sizes = integers(input_window_sizes, "input_window_sizes")
        operator = device_of(device).cached(
            _slice1,
            signature(x),
            flipped,
            integers(input_window_offsets, "input_window_offsets"),
            sizes,
            (1,) * len(sizes) if input_window_strides is None else integers(input_window_strides, "input_window_strides"),
            None if output_sizes is None else integers(output_sizes, "output_sizes"),
            into,
        )
        return deliver(operator, out, {"input_tensor": x})
    except (BindingError, DescError) as error:
        window = (input_window_offsets, input_window_sizes, input_window_strides)
        node: NDArray[Any] | None = as_node(
            lambda given, on: slice1(given[0], *window, output_sizes=output_sizes, device=on), (input,), out, device
        )
        if node is not None:
            return node
        numbers = {
            "input_window_offsets": input_window_offsets,
            "input_window_sizes": input_window_sizes,
            "input_window_strides": input_window_strides,
            "output_sizes": output_sizes,
        }
        raise _explained(error, device, input, numbers, out, _slice1_desc) from None


def _slice1(
    device: Device,
    x: Signature,
    flipped: tuple[int, ...],
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    output_sizes: tuple[int, ...] | None,
    out: Signature | None,
) -> CompiledOperator:
    input_tensor = TensorDesc.of_layout(*x)
    desc = _slice1_desc(input_tensor, offsets, sizes, strides, output_sizes, out)
    checked = check(desc, device.feature_level)
    if not flipped:
        return device.compile(checked)
    return device.compile(
        type(desc)(
            input_tensor=input_tensor,
            output_tensor=desc.output_tensor,
            input_window_offsets=tuple(
                n - offset - size if i in flipped else offset
                for i, (n, offset, size) in enumerate(zip(x[0], offsets, sizes, strict=True))
            ),
            input_window_sizes=sizes,
            input_window_strides=tuple(-stride if i in flipped else stride for i, stride in enumerate(strides)),
        )
    )


def _slice1_desc(
    input_tensor: TensorDesc,
    input_window_offsets: tuple[int, ...],
    input_window_sizes: tuple[int, ...],
    input_window_strides: tuple[int, ...] | None,
    output_sizes: tuple[int, ...] | None,
    out: Signature | None = None,
) -> Slice1:
    with guard:  # here and not above: the other functions do not need it
        from anydml.operators.slice import Slice1, max_copied
    strides = (1,) * len(input_window_sizes) if input_window_strides is None else input_window_strides
    if output_sizes is None:
        # if a window is invalid and has no largest output, 1 is used and the check reports the fault
        output_sizes = tuple(
            1 if size < 1 or stride == 0 else max_copied(size, stride)
            for size, stride in zip(input_window_sizes, strides, strict=False)
        )
    return Slice1(
        input_tensor=input_tensor,
        output_tensor=output_desc(TensorDesc(input_tensor.data_type, output_sizes), out),
        dimension_count=len(input_tensor.sizes),
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=strides,
    )


def _explained(error: Error, *call: Any) -> Error:
    with guard:  # here and not above: only a call that fails needs it
        from anydml.functional.faults import slice_error
    return slice_error(error, *call)


def slice(
    input: NDArray[Any],
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    out: NDArray[Any] | None = None,
    device: Device | str | None = None,
) -> NDArray[Any]:
    """Copy every stride-th element of `input`, starting at an offset: DML_OPERATOR_SLICE. `sizes` are the result's.

    Each argument has an entry per dimension, 1 to 8, in elements; strides (default 1) are positive. Any of DirectML's 8- to
    64-bit types, any array strides. DescError, BindingError. Source: ns-directml-dml_slice_operator_desc.
    """
    try:
        x = tensor("input", input)
        into = output_signature(out, input=x)
        if unspellable(x):
            x = contiguous(x)
        size = integers(sizes, "sizes")
        operator = device_of(device).cached(
            _slice,
            signature(x),
            integers(offsets, "offsets"),
            size,
            (1,) * len(size) if strides is None else integers(strides, "strides"),
            into,
        )
        return deliver(operator, out, {"input_tensor": x})
    except (BindingError, DescError) as error:
        node: NDArray[Any] | None = as_node(
            lambda given, on: slice(given[0], offsets, sizes, strides, device=on), (input,), out, device
        )
        if node is not None:
            return node
        numbers = {"offsets": offsets, "sizes": sizes, "strides": strides}
        raise _explained(error, device, input, numbers, out, _slice_desc) from None


def _slice(
    device: Device,
    x: Signature,
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    out: Signature | None,
) -> CompiledOperator:
    return device.compile(_slice_desc(TensorDesc.of_layout(*x), offsets, sizes, strides, out))


def _slice_desc(
    input_tensor: TensorDesc,
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None,
    out: Signature | None = None,
) -> Slice:
    with guard:
        from anydml.operators.slice import Slice
    return Slice(
        input_tensor=input_tensor,
        output_tensor=output_desc(TensorDesc(input_tensor.data_type, sizes), out),
        dimension_count=len(input_tensor.sizes),
        offsets=offsets,
        sizes=sizes,
        strides=(1,) * len(sizes) if strides is None else strides,
    )
