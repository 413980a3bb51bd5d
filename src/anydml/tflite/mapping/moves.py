"""Operators that move elements, and those of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.functional import functions as dml
from anydml.functional.call import call
from anydml.onnx.errors import INVALID, NOT_YET, Refused
from anydml.onnx.values import (
    Value,
    axes_of,
    axis_of,
    expand,
    gathered,
    known,
    padded,
    part,
    reshape,
    symbolic,
    transpose,
)
from anydml.tflite.mapping.values import converted, integer, ints, moved, parameters, same_quantisation, squeezed
from anydml.tflite.mapping.windows import FIRST, LAST, rank
from anydml.tflite.read import Node

MOST_FILLED = 2**26  # elements of a constant that a node may make


def concatenation(n: Node, first: Value, *others: Value) -> Value:
    """JOIN of the inputs, those with another quantisation than the output's quantised again."""
    if n.option("FusedActivationFunction"):
        raise Refused("it has a fused activation", NOT_YET)
    joined = []
    for x, of in zip((first, *others), n.inputs, strict=True):
        assert of is not None
        joined.append(x if same_quantisation(of, n.outputs[0]) else converted(x, of, n.outputs[0]))
    return join(joined, axis_of(n.option("Axis"), first.ndim))


def join(values: Sequence[Value], axis: int) -> Value:
    """Tensors joined along an axis."""
    kept = [tuple(size for a, size in enumerate(x.shape) if a != axis) for x in values]
    if len({*kept}) > 1 or len({x.ndim for x in values}) > 1:
        raise Refused(f"sizes {[tuple(x.shape) for x in values]} do not join along axis {axis}", INVALID)
    if not any(map(symbolic, values)):
        return np.concatenate(values, axis)
    return values[0] if len(values) == 1 else dml.join([*values], axis=axis)


def pack(n: Node, first: Value, *others: Value) -> Value:
    values = (first, *others)
    of, to = n.inputs[0], n.outputs[0]
    assert of is not None
    sizes = tuple(of.sizes) if not of.sizes else tuple(values[0].shape)
    axis = axis_of(n.option("Axis"), len(sizes) + 1)
    if any(math.prod(x.shape) != math.prod(sizes) for x in values):
        raise Refused("its inputs have different sizes", INVALID)
    if any(t is None or not same_quantisation(t, to) for t in n.inputs):
        raise Refused("its tensors have different scales", NOT_YET)
    return join([reshape(x, (*sizes[:axis], 1, *sizes[axis:])) for x in values], axis)


def unpack(n: Node, x: Value) -> list[Value]:
    axis = axis_of(n.option("Axis"), x.ndim)
    if x.shape[axis] != len(n.outputs):
        raise Refused(f"{x.shape[axis]} parts do not fit {len(n.outputs)} outputs", INVALID)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [squeezed(y, rest) for y in parts(x, [1] * len(n.outputs), axis)]


def parts(x: Value, counts: Sequence[int], axis: int) -> list[Value]:
    """Consecutive parts of a tensor along an axis."""
    if sum(counts) != x.shape[axis] or min(counts, default=0) < 1:
        raise Refused(f"parts of {tuple(counts)} do not add up to {x.shape[axis]}", INVALID)
    if not symbolic(x):
        return np.split(x, np.cumsum(counts)[:-1], axis)
    if len(counts) == 1:
        return [x]
    return dml.split(x, axis=axis, output_sizes=[(*x.shape[:axis], k, *x.shape[axis + 1 :]) for k in counts])


def split(n: Node, axis: Value, x: Value) -> list[Value]:
    along, count = axis_of(integer(axis), x.ndim), len(n.outputs)
    if x.shape[along] % count:
        raise Refused(f"{x.shape[along]} elements are not divisible into {count} parts", INVALID)
    return [moved(n, y, 1) for y in parts(x, [x.shape[along] // count] * count, along)]


def split_v(n: Node, x: Value, counts: Value, axis: Value) -> list[Value]:
    along, given = axis_of(integer(axis), x.ndim), [*ints(counts)]
    if given.count(-1) == 1:
        given[given.index(-1)] = x.shape[along] - sum(given) - 1
    return [moved(n, y) for y in parts(x, given, along)]


def reshaped(n: Node, x: Value, sizes: Value = None) -> Value:
    """RESHAPE to sizes from its second input or else from its options; one may be -1."""
    if sizes is not None:
        wanted = [*ints(sizes)]
    else:
        given = n.option("NewShapeAsNumpy", None)
        wanted = [int(k) for k in given] if isinstance(given, np.ndarray) else [*n.outputs[0].sizes]
    if wanted.count(-1) == 1:
        rest = math.prod(k for k in wanted if k != -1)
        if rest == 0 or math.prod(x.shape) % rest:
            raise Refused(f"sizes {tuple(x.shape)} cannot become {tuple(wanted)}", INVALID)
        wanted[wanted.index(-1)] = math.prod(x.shape) // rest
    if min(wanted, default=1) < 0:
        raise Refused(f"sizes {tuple(wanted)} are negative", INVALID)
    return moved(n, squeezed(x, wanted))


def expand_dims(n: Node, x: Value, axis: Value) -> Value:
    of = n.inputs[0]
    assert of is not None
    own = tuple(x.shape) if of.sizes else ()
    at = axis_of(integer(axis), len(own) + 1)
    return moved(n, squeezed(x, (*own[:at], 1, *own[at:])))


def squeeze(n: Node, x: Value) -> Value:
    """The tensor without dimensions of size 1: those of the options, or all."""
    axes = n.option("SqueezeDimsAsNumpy", None)
    along = axes_of([int(a) for a in axes], x.ndim) if isinstance(axes, np.ndarray) and axes.size else None
    gone = [a for a, size in enumerate(x.shape) if size == 1] if along is None else along
    if any(x.shape[a] != 1 for a in gone):
        raise Refused(f"sizes {tuple(x.shape)} are not 1 along {tuple(gone)}", INVALID)
    return moved(n, squeezed(x, [size for a, size in enumerate(x.shape) if a not in gone]))


def transposed(n: Node, x: Value, order: Value) -> Value:
    axes = axes_of(ints(order), x.ndim)
    if len(axes) != x.ndim:
        raise Refused(f"{tuple(axes)} is no order of {x.ndim} dimensions", INVALID)
    return moved(n, transpose(x, axes))


def pad(n: Node, x: Value, widths: Value, value: Value = None) -> Value:
    """PADDING with a number's element: the zero point, or the elements of PADV2's third input."""
    of = n.inputs[0]
    assert of is not None
    ends = _widths(x, widths)
    constant = 0 if not of.is_quantised else int(parameters(of)[1][0])
    if value is not None:
        filler = n.inputs[2]
        if filler is None or not same_quantisation(of, filler) or value.dtype != x.dtype or value.size != 1:
            raise Refused("its value is not one element of the input's type and scale", INVALID)
        constant = known(value).reshape(-1)[0].item()
    return moved(n, _padded(x, ends, "CONSTANT", constant))


def mirror_pad(n: Node, x: Value, widths: Value) -> Value:
    ends = _widths(x, widths)
    mode = n.option("Mode")
    if mode not in (0, 1):
        raise Refused(f"its mode is number {mode}", INVALID)
    for (before, after), size in zip(ends, x.shape, strict=True):
        if max(before, after) > size - (mode == 0):
            raise Refused(f"padding of {max(before, after)} elements is more than {size} elements have", INVALID)
    return moved(n, _padded(x, ends, "SYMMETRIC" if mode else "REFLECTION", 0))


def _widths(x: Value, widths: Value) -> list[tuple[int, int]]:
    if tuple(widths.shape) != (x.ndim, 2):
        raise Refused(f"its paddings have sizes {tuple(widths.shape)}, and must have {(x.ndim, 2)}", INVALID)
    flat = ints(widths)
    ends = [*zip(flat[::2], flat[1::2], strict=True)]
    if min(min(e) for e in ends) < 0:
        raise Refused("its padding is negative", INVALID)
    return ends


def _padded(x: Value, ends: Sequence[tuple[int, int]], mode: str, value: Any) -> Value:
    return dml.padding1(
        x,
        mode,
        x.dtype,
        value,
        start_padding=[a for a, _ in ends],
        end_padding=[b for _, b in ends],
    )


def strided_slice(n: Node, x: Value, begin: Value, end: Value, strides: Value) -> Value:
    """A part of a tensor by NumPy's rules. Masks are bits: of begins and ends that are left out, and of dimensions that go."""
    starts, ends, steps = ints(begin), ints(end), ints(strides)
    masks = {name: n.option(f"{name}Mask") for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    if masks["Ellipsis"] or masks["NewAxis"]:
        raise Refused("it has an ellipsis or a new axis", NOT_YET)
    if not len(starts) == len(ends) == len(steps) or len(starts) > x.ndim or 0 in steps:
        raise Refused("its begins, ends and strides differ in length, or a stride is 0", INVALID)
    slices, kept = [], []
    for a, (first, last, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if masks["ShrinkAxis"] >> a & 1:
            at = first + x.shape[a] * (first < 0)
            if not 0 <= at < x.shape[a]:
                raise Refused(f"index {first} is outside of {x.shape[a]} elements", INVALID)
            slices.append(slice(at, at + 1))
        else:
            slices.append(slice(None if masks["Begin"] >> a & 1 else first, None if masks["End"] >> a & 1 else last, step))
            kept.append(a)
    made = part(x, slices)
    sizes = [made.shape[a] for a in kept] + [*made.shape[len(starts) :]]
    return moved(n, squeezed(made, sizes))


def sliced(n: Node, x: Value, begin: Value, size: Value) -> Value:
    starts, counts = ints(begin), ints(size)
    if not len(starts) == len(counts) == x.ndim:
        raise Refused("its begins and sizes have other lengths than the sizes of its input", INVALID)
    ends = [whole if k == -1 else s + k for s, k, whole in zip(starts, counts, x.shape, strict=True)]
    if any(not 0 <= s <= e <= whole for s, e, whole in zip(starts, ends, x.shape, strict=True)):
        raise Refused(f"a part from {starts} to {tuple(ends)} is outside of sizes {tuple(x.shape)}", INVALID)
    return moved(n, part(x, [slice(s, e) for s, e in zip(starts, ends, strict=True)]))


def gather(n: Node, x: Value, indices: Value) -> Value:
    if n.option("BatchDims", 0):
        raise Refused("it has batch dimensions", NOT_YET)
    axis = axis_of(n.option("Axis"), x.ndim)
    if indices.dtype.kind not in "iu":
        raise Refused(f"its indices are {indices.dtype}", INVALID)
    of = n.inputs[1]
    assert of is not None
    places = indices if of.sizes or symbolic(indices) else indices.reshape(())
    return moved(n, gathered(x, places, axis))


def gather_nd(n: Node, x: Value, indices: Value) -> Value:
    last = indices.shape[-1]
    if indices.dtype.kind not in "iu" or last > x.ndim:
        raise Refused(f"indices of {indices.dtype} with {last} parts do not fit {x.ndim} dimensions", INVALID)
    sizes = (*indices.shape[:-1], *x.shape[last:])
    wide = max(x.ndim, indices.ndim, len(sizes))
    made = dml.gather_nd1(
        padded(x, wide), padded(indices, wide), input_dimension_count=x.ndim, indices_dimension_count=indices.ndim
    )
    return moved(n, squeezed(made, sizes))


def tile(n: Node, x: Value, repeats: Value) -> Value:
    times = ints(repeats)
    if len(times) != x.ndim or min(times, default=1) < 1:
        raise Refused(f"repeats {times} do not fit {x.ndim} dimensions", INVALID)
    _affordable([a * b for a, b in zip(x.shape, times, strict=True)])
    return moved(n, dml.tile(x, times) if symbolic(x) else np.tile(x, times))


def broadcast_to(n: Node, x: Value, sizes: Value) -> Value:
    wanted = ints(sizes)
    _affordable(wanted)
    return moved(n, expand(x, wanted))


def _affordable(sizes: Sequence[int]) -> None:
    if min(sizes, default=1) < 1 or math.prod(sizes) > MOST_FILLED:
        raise Refused(f"sizes {tuple(sizes)} are no elements or too many", INVALID)


def fill(n: Node, sizes: Value, value: Value) -> Value:
    wanted = ints(sizes)
    _affordable(wanted)
    return moved(n, np.full(wanted or (1,), known(value).reshape(-1)[0], value.dtype), 1)


def shape(n: Node, x: Value) -> Value:
    of = n.inputs[0]
    assert of is not None
    return np.array(x.shape if of.sizes else (), n.outputs[0].dtype)


def zeros_like(n: Node, x: Value) -> Value:
    to = n.outputs[0]
    _affordable(x.shape)
    return np.full(tuple(x.shape), int(parameters(to)[1][0]) if to.is_quantised else 0, x.dtype)


def reverse(n: Node, x: Value, axes: Value) -> Value:
    along = axes_of(ints(axes), x.ndim)
    return moved(n, part(x, [slice(None, None, -1) if a in along else slice(None) for a in range(x.ndim)]))


def depth_to_space(n: Node, x: Value) -> Value:
    return _blocks(n, x, lambda image, size: dml.depth_to_space1(image, size))


def space_to_depth(n: Node, x: Value) -> Value:
    return _blocks(n, x, lambda image, size: dml.space_to_depth1(image, size))


def _blocks(n: Node, x: Value, function: Callable[[Value, int], Value]) -> Value:
    rank(x, 4, "its input")
    if (size := n.option("BlockSize")) < 1:
        raise Refused(f"its block size is {size}", INVALID)
    return moved(n, transpose(function(transpose(x, FIRST), size), LAST))


def resize_bilinear(n: Node, x: Value, sizes: Value) -> Value:
    """TFLITE_RESIZE, at exact positions."""
    height, width, corners, centres = _resized(n, x, sizes)
    of = n.inputs[0]
    assert of is not None
    zero = parameters(of)[1] if of.is_quantised else np.zeros(1, x.dtype) if x.dtype.kind in "iu" else None
    made = call("TFLITE_RESIZE", (transpose(x, FIRST), zero), (height, width, corners, centres))
    return transpose(made, LAST)


def resize_nearest(n: Node, x: Value, sizes: Value) -> Value:
    """GATHER of rows and of columns, at the indices nearest to exact positions."""
    *wanted, corners, centres = _resized(n, x, sizes)
    for axis, count in zip((1, 2), wanted, strict=True):
        own, o = x.shape[axis], np.arange(count, dtype=np.int64)
        if corners and count > 1:
            at = (2 * o * (own - 1) + count - 1) // (2 * (count - 1))  # halves go up
        elif centres:
            at = (2 * o + 1) * own // (2 * count)
        else:
            at = o * own // count
        x = gathered(x, np.minimum(at, own - 1), axis)
    return x


def _resized(n: Node, x: Value, sizes: Value) -> tuple[int, int, bool, bool]:
    rank(x, 4, "its input")
    of = n.inputs[0]
    assert of is not None
    if not same_quantisation(of, n.outputs[0]):
        raise Refused("its input and output have different scales", INVALID)
    wanted = ints(sizes)
    if len(wanted) != 2 or min(wanted) < 1:
        raise Refused(f"its sizes are {wanted}", INVALID)
    _affordable((x.shape[0], *wanted, x.shape[3]))
    corners, centres = bool(n.option("AlignCorners", False)), bool(n.option("HalfPixelCenters", False))
    if corners and centres:
        raise Refused("it aligns corners and has half pixel centres", INVALID)
    return wanted[0], wanted[1], corners, centres


TABLE: dict[str, tuple[Callable[..., Any], str]] = {
    "BROADCAST_TO": (broadcast_to, ""),
    "CONCATENATION": (concatenation, "ConcatenationOptions"),
    "DEPTH_TO_SPACE": (depth_to_space, "DepthToSpaceOptions"),
    "EXPAND_DIMS": (expand_dims, ""),
    "FILL": (fill, ""),
    "GATHER": (gather, "GatherOptions"),
    "GATHER_ND": (gather_nd, ""),
    "MIRROR_PAD": (mirror_pad, "MirrorPadOptions"),
    "PACK": (pack, "PackOptions"),
    "PAD": (pad, ""),
    "PADV2": (pad, ""),
    "RESHAPE": (reshaped, "ReshapeOptions"),
    "RESIZE_BILINEAR": (resize_bilinear, "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": (resize_nearest, "ResizeNearestNeighborOptions"),
    "REVERSE_V2": (reverse, ""),
    "SHAPE": (shape, ""),
    "SLICE": (sliced, ""),
    "SPACE_TO_DEPTH": (space_to_depth, "SpaceToDepthOptions"),
    "SPLIT": (split, "SplitOptions"),
    "SPLIT_V": (split_v, "SplitVOptions"),
    "SQUEEZE": (squeeze, "SqueezeOptions"),
    "STRIDED_SLICE": (strided_slice, "StridedSliceOptions"),
    "TILE": (tile, ""),
    "TRANSPOSE": (transposed, ""),
    "UNPACK": (unpack, "UnpackOptions"),
    "ZEROS_LIKE": (zeros_like, ""),
}
