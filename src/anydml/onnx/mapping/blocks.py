"""Weights of a few bits in blocks that share a scale: onnxruntime's MatMulNBits and GatherBlockQuantized.

Elements are packed in bytes, the first in the lowest bits. They become UINT8, whose differences from zero points are the same
numbers, and DEQUANTIZE multiplies by the scale, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.int4_tensors import array_dtype
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.mapping.products import batched
from anydml.onnx.nodes import Node
from anydml.onnx.values import (
    Array,
    Value,
    axis_of,
    converted,
    expand,
    gathered,
    is_float,
    known,
    part,
    reshape,
    symbolic,
    transpose,
)
from anydml.tensor import DataType

TYPES = (np.dtype(np.float32), np.dtype(np.float16))


def unpacked(packed: Array, bits: int) -> Array:
    """The elements of bytes along the last dimension, as UINT8."""
    if bits == 8:
        return packed
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    elements: Array = ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*packed.shape[:-1], -1)
    return elements


def dequantized(x: Array, scales: Value, zeros: Value, bits: int) -> Value:
    """Elements {rows, blocks, size} as floats, with a scale and a zero point {rows, blocks} for each block.

    Without zero points, the middle of the range is 0. If zero points are floats, the difference is rounded before the scale
    multiplies.
    """
    by_block = (*scales.shape, 1)
    scale = reshape(scales, by_block)
    if zeros is not None and is_float(zeros.dtype):
        real = dml.cast(x, output_data_type=scales.dtype)
        return dml.element_wise_multiply(dml.element_wise_subtract(real, reshape(zeros, by_block)), scale)
    zero = np.full(by_block, 1 << (bits - 1), np.uint8) if zeros is None else reshape(zeros, by_block)
    return dml.dequantize(x, [scale, zero])


def by_element(x: Value, scales: Value, zeros: Value, bits: int, groups: Value) -> Value:
    """Elements {rows, columns} as floats, with the scale and zero point of each column's group."""
    scale, zero = (p if p is None else gathered(p, groups, 1) for p in (scales, zeros))
    return reshape(dequantized(reshape(x, (*x.shape, 1)), scale, zero, bits), x.shape)


def _kept(a: Value, weights: Array, scale: Value, zeros: Value, bits: int) -> Value:
    """Elements {rows, blocks, size} as floats {rows, blocks * size}; if they are read in a graph, as a part of it.

    a: the tensor that they are multiplied with. A graph keeps their few bits, and dequantises while it multiplies.
    """
    rows, blocks, size = weights.shape
    floats = zeros is not None and is_float(zeros.dtype)
    if not symbolic(a) or any(symbolic(p) for p in (scale, zeros)) or floats or scale.dtype not in TYPES:
        return reshape(dequantized(weights, scale, zeros, bits), (rows, blocks * size))
    zero = np.full((rows, blocks), 1 << (bits - 1), np.uint8) if zeros is None else zeros.reshape(rows, blocks)
    flat, data_type = weights.reshape(rows, -1), array_dtype(DataType.UINT8 if bits == 8 else DataType.UINT4)
    return dml.dequantize(a.constant(flat.astype(data_type)), [scale, zero.astype(data_type)])


def matmul_n_bits(
    n: Node, a: Value, b: Value, scales: Value, zeros: Value = None, groups: Value = None, bias: Value = None
) -> Value:
    """MatMulNBits: DEQUANTIZE, which rounds the weights, and GEMM with them.

    g_idx gives the group of each row of the weights, and so its scale and zero point. Without it, groups are blocks.
    """
    if n.get("weight_prepacked", 0):
        raise Refused("its weights are packed for a device", NOT_YET)
    bits, size, k, rows = n.get("bits", 4), n.get("block_size", 0), n.get("K", 0), n.get("N", 0)
    if bits not in (2, 4, 8) or size < 1 or k < 1 or rows < 1:
        raise Refused(f"{rows} x {k} weights of {bits} bits in blocks of {size} are not supported", INVALID)
    blocks = -(-k // size)
    packed = known(b)
    if packed.size != rows * blocks * size * bits // 8:
        raise Refused(f"packed weights of sizes {packed.shape} do not hold {rows} x {k} in blocks of {size}", INVALID)
    weights = unpacked(packed.reshape(rows, blocks, -1), bits)
    if zeros is not None and zeros.dtype == np.uint8:
        zeros = unpacked(known(zeros).reshape(rows, -1), bits)[:, :blocks]
    scale = reshape(converted(scales, a.dtype), (rows, blocks))
    if groups is not None:
        if groups.ndim != 1 or groups.shape[0] not in (k, blocks * size):
            raise Refused(f"g_idx has sizes {tuple(groups.shape)}, and there are {k} rows in blocks of {size}", INVALID)
        if zeros is not None:
            zeros = reshape(zeros, (rows, blocks))
        flat = by_element(weights.reshape(rows, -1)[:, :k], scale, zeros, bits, part(groups, [slice(0, k)]))
    else:
        flat = _kept(a, weights, scale, zeros, bits)
    if flat.shape[1] != k:
        flat = known(flat)[:, :k] if isinstance(flat, np.ndarray) else dml.slice1(flat, (0, 0), (rows, k), (1, 1))
    width = a.shape[-1]
    if width != k:
        raise Refused(f"A has {width} columns, and the weights {k}", INVALID)

    def product(x: Value, y: Value) -> Value:
        return dml.gemm(x, y, None if bias is None else expand(bias, (*x.shape[:-1], rows)))

    return batched(a, transpose(flat, (1, 0)), product)


def _packed(data: Array, bits: int) -> Array:
    """Elements as bytes along the last dimension, as they are kept and gathered; the same array if these would not be whole."""
    each = 8 // bits
    if data.shape[-1] % each or each == 1:
        return data
    parts = data.reshape(*data.shape[:-1], -1, each) << (np.arange(each, dtype=np.uint8) * np.uint8(bits))
    found: Array = np.bitwise_or.reduce(parts, -1)
    return found


def _elements(rows: Value, bits: int) -> Value:
    """`unpacked` of gathered bytes."""
    each, mask = 8 // bits, np.full((), (1 << bits) - 1, np.uint8)
    parts = []
    for k in range(each):
        shifted = dml.element_wise_bit_shift_right(rows, np.full((), bits * k, np.uint8)) if k else rows
        parts.append(reshape(dml.element_wise_bit_and(shifted, mask), (*rows.shape, 1)))
    return reshape(dml.join(parts, axis=rows.ndim), (*rows.shape[:-1], rows.shape[-1] * each))


def _gathered(data: Value, scales: Value, zeros: Value, indices: Value, along: int) -> tuple[Value, list[Value]]:
    rows, scale, zero = (gathered(t, indices, along) for t in (data, scales, zeros))
    return rows, [scale, zero]


def gather_block_quantized(n: Node, x: Value, indices: Value, scales: Value, zeros: Value = None) -> Value:
    """GatherBlockQuantized: GATHER of packed elements, scales and zero points, then DEQUANTIZE.

    Scales and zero points are gathered by the blocks of the elements.
    """
    bits, size = n.get("bits", 4), n.get("block_size", 128)
    data = known(x)
    own = data.dtype.itemsize == 1 and data.dtype.kind == "u"
    middle = 1 << (bits - 1)
    if own and bits != 8:
        data, zeros = unpacked(data, bits), None if zeros is None else unpacked(known(zeros), bits)
    elif not own:  # INT4 and UINT4 elements have a zero point of 0
        sign = 8 if data.dtype.name == "int4" else 0
        data = (data.astype(np.int8) + np.int8(sign)).view(np.uint8)
        middle, zeros = sign, None if zeros is None else (known(zeros).astype(np.int8) + np.int8(sign)).view(np.uint8)
    along, by = axis_of(n.get("gather_axis", 0), data.ndim), axis_of(n.get("quantize_axis", 1), data.ndim)
    blocks = -(-data.shape[by] // size)
    if scales.ndim != data.ndim or scales.shape[by] != blocks:
        raise Refused(f"scales {tuple(scales.shape)} do not fit data {tuple(data.shape)} in blocks of {size}", INVALID)
    if zeros is None:
        zeros = np.full(scales.shape, middle, np.uint8)
    elif zeros.shape[by] != blocks:
        zeros = np.take(zeros, np.arange(blocks), by)
    if along == by:  # each element has a scale of its own
        each = np.arange(data.shape[by]) // size
        scales, zeros = (gathered(p, each, by) for p in (scales, zeros))
        return dml.dequantize(*_gathered(data, scales, zeros, indices, along))
    if blocks * size != data.shape[by]:
        ends = [(0, blocks * size - data.shape[by] if i == by else 0) for i in range(data.ndim)]
        data = np.pad(data, ends)
    axis = by if by < along else by + indices.ndim - 1
    packed = _packed(data, bits) if along < data.ndim - 1 else data
    rows, parameters = _gathered(packed, scales, zeros, indices, along)
    made = dml.dequantize(rows if packed is data else _elements(rows, bits), parameters)
    if made.shape[axis] != (width := x.shape[by] * (8 // bits if own and by == data.ndim - 1 and bits != 8 else 1)):
        sizes = [width if i == axis else s for i, s in enumerate(made.shape)]
        made = dml.slice1(made, [0] * len(sizes), sizes, [1] * len(sizes))
    return made


TABLE: dict[str, Callable[..., Any]] = {
    "com.microsoft.GatherBlockQuantized": gather_block_quantized,
    "com.microsoft.MatMulNBits": matmul_n_bits,
}
