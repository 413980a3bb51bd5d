"""Tensors of 4-bit elements on OpenCL devices: a byte for each element in scratch. A work item packs both halves of a byte."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from anydml.kernels.code import opencl
from anydml.kernels.code.opencl import Argument
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise.int4 import BYTES
from anydml.kernels.kernel import DeviceMemory
from anydml.kernels.opencl.calls import RANGE, WORD, ExactCall, Launch, Workspace, end, number
from anydml.tensor import DataType, TensorDesc

BYTE = Kind("i8")
ARGUMENTS = [Argument("ptr", "from"), Argument("i64", "at"), Argument("ptr", "to"), Argument("i64", "past_to")]
COUNT = [Argument("i64", "count")]


@lru_cache(maxsize=2)
def unpacking(*, signed: bool) -> str:
    """The program of "unpacked": each half of a byte as a byte, the low half first. Arguments: both places in bytes."""
    body = Body(opencl.target())
    i = number(body)
    both = body.loaded(BYTE, body.at("%from", (Value(body, "%at", WORD) + i).name))
    to = body.at("%to", (Value(body, "%past_to", WORD) + (i << 1)).name)
    body.stored((both << 4).shifted_right(4, signed=signed), to)
    body.stored(both.shifted_right(4, signed=signed), to, 1)
    end(body)
    return opencl.program([opencl.kernel("unpacked", [*ARGUMENTS, *RANGE], body)])


@lru_cache(maxsize=1)
def packing() -> str:
    """The program of "packed": two bytes as the halves of one, of `count` elements; a half without an element is 0."""
    body = Body(opencl.target())
    i = number(body)
    at = body.at("%from", (Value(body, "%at", WORD) + (i << 1)).name)
    low, high = body.loaded(BYTE, at), body.loaded(BYTE, at, 1)  # scratch has two bytes for each packed one
    there = ((i << 1) + 1).compared("ult", Value(body, "%count", WORD))
    made = (low & 15) | body.chosen(there, high << 4, 0)
    body.stored(made, body.at("%to", (Value(body, "%past_to", WORD) + i).name))
    end(body)
    return opencl.program([opencl.kernel("packed", [*ARGUMENTS, *COUNT, *RANGE], body)])


def in_bytes(t: TensorDesc) -> TensorDesc:
    """The tensor with a byte for each element."""
    return TensorDesc(BYTES[t.data_type], t.sizes, strides=t.explicit_strides)


def unpacked(workspace: Workspace, t: TensorDesc, packed: DeviceMemory, memory: DeviceMemory) -> ExactCall:
    """The call that unpacks a tensor."""
    text = unpacking(signed=t.data_type == DataType.INT4)
    arguments = [packed.data, np.int64(packed.offset), memory.data, np.int64(memory.offset)]
    return ExactCall(workspace, lambda: [Launch(text, "unpacked", arguments, t.element_bytes)])


def repacked(workspace: Workspace, t: TensorDesc, memory: DeviceMemory, packed: DeviceMemory) -> ExactCall:
    """The call that packs a tensor."""
    arguments = [memory.data, np.int64(memory.offset), packed.data, np.int64(packed.offset), np.int64(t.span)]
    return ExactCall(workspace, lambda: [Launch(packing(), "packed", arguments, t.element_bytes)])
