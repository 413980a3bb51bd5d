"""Well-known mistakes in operators of floats, each as another desc, other inputs or another formula, whose result they give."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydml.errors import DescError
from anydml.explain.forms import Form
from anydml.explain.formulas import formulas
from anydml.operators.batch_normalization import BatchNormalization
from anydml.operators.convolution import Convolution
from anydml.operators.element_wise_add import ElementWiseAdd1
from anydml.operators.gemm import Gemm
from anydml.operators.reduce import Reduce
from anydml.schema.check import check
from anydml.schema.enumerations import ConvolutionMode, MatrixTransform
from anydml.schema.kinds import BOOL
from anydml.schema.operator import Desc
from anydml.tensor import DataType, TensorDesc

Array = NDArray[Any]
Arrays = Mapping[str, Array]

BLOCKS = (16, 32, 64, 128)  # elements along K that share a scale where activations are quantised
BITS = {"tf32": ("TF32", 11), "bfloat16": ("bfloat16", 8), "float16": ("float16", 11)}


class Mistake(NamedTuple):
    """sentence: a noun phrase. desc, inputs: those whose exact result the mistake gives. formula: how the desc's statement is
    rewritten, if it is. rounding: whether it is less precise arithmetic rather than another result."""

    name: str
    sentence: str
    desc: Desc
    inputs: Arrays
    formula: Form | None = None
    rounding: bool = False


def mistakes(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """The mistakes that are possible in an operator, those named more specifically first."""
    for made in (_of_products, _of_axes, _of_absent, _of_layouts, _of_exchanged, _of_fields, _of_terms):
        for mistake in made(d, inputs):
            if mistake.desc is d or _holds(mistake.desc):
                yield mistake
    for formula in formulas(getattr(d, "epsilon", None)):
        yield Mistake(formula.name, formula.sentence, d, inputs, formula)
    yield from _of_precision(d, inputs)


def _with(d: Desc, **changes: Any) -> Desc:
    return replace(d, **changes)


def _holds(d: Desc) -> bool:
    try:
        check(d)
    except DescError:
        return False
    return True


def _of_products(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    if isinstance(d, Convolution):
        modes = ConvolutionMode.CONVOLUTION, ConvolutionMode.CROSS_CORRELATION
        other = modes[1] if d.mode == modes[0] else modes[0]
        yield Mistake("filter_flipped", "the result with the filter flipped", replace(d, mode=other), inputs)
        if d.start_padding != d.end_padding:
            changed = replace(d, start_padding=d.end_padding, end_padding=d.start_padding)
            yield Mistake("paddings_swapped", "the result with start and end paddings swapped", changed, inputs)
    if isinstance(d, Gemm):
        for names, kind in ((("a",), "a_transposed"), (("b",), "b_transposed"), (("a", "b"), "both_transposed")):
            tensors = [f"{name}_tensor" for name in names]
            if all(1 not in inputs[name].shape[-2:] for name in tensors):
                read = {name: _transposed(inputs[name]) for name in tensors}
                said = f"the result with {' and '.join(name.upper() for name in names)} transposed"
                yield Mistake(kind, said, d, {**inputs, **read})


def _transposed(x: Array) -> Array:
    """A matrix with its elements read as if they were stored column by column; a square one is transposed."""
    *lead, rows, columns = x.shape
    return np.asarray(np.ascontiguousarray(x).reshape(*lead, columns, rows).swapaxes(-2, -1))


def _of_axes(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    axes, axis = getattr(d, "axes", None), getattr(d, "axis", None)
    count = len(next(t.desc for t in d.tensors()).sizes)
    if isinstance(axes, tuple):
        # as many axes first, then any others
        own = tuple(sorted(axes))
        every = [c for n in sorted(range(1, count + 1), key=lambda n: abs(n - len(own))) for c in combinations(range(count), n)]
        for other in every:
            if other != own:
                shown = ", ".join(map(str, other))
                one = "axis" if len(other) == 1 else "axes"
                said = f"the result along {one} {shown} instead of {', '.join(map(str, own))}"
                yield Mistake("wrong_axis", said, _along(d, other), inputs)
    elif isinstance(axis, int):
        for place in range(count):
            if place != axis:
                yield Mistake("wrong_axis", f"the result along axis {place} instead of {axis}", _with(d, axis=place), inputs)


def _along(d: Desc, axes: tuple[int, ...]) -> Desc:
    """The operator with other axes; a reduction with the sizes that it then gives."""
    changes: dict[str, Any] = {"axes": axes}
    if "axis_count" in d.spec.counts:
        changes["axis_count"] = len(axes)
    if isinstance(d, Reduce):
        sizes = tuple(1 if i in axes else n for i, n in enumerate(d.input_tensor.sizes))
        if math.prod(sizes) == math.prod(d.output_tensor.sizes):
            changes["output_tensor"] = TensorDesc(d.output_tensor.data_type, sizes)
    return replace(d, **changes)


def _of_absent(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """Optional tensors that are left out, factors and terms that are 1 and 0, and no fused activation."""
    for f in d.spec.inputs:
        if f.optional and f.name in inputs:
            name = f.name.removesuffix("_tensor")
            left = {n: x for n, x in inputs.items() if n != f.name}
            called = "C" if name == "c" else f"the {name.replace('_', ' ')}"
            yield Mistake(f"no_{name}", f"the result without {called}", replace(d, **{f.name: None}), left)
    if isinstance(d, ElementWiseAdd1):
        for name in ("a", "b"):
            repeats = any(
                n > 1 and s == 0 for n, s in zip(inputs[f"{name}_tensor"].shape, inputs[f"{name}_tensor"].strides, strict=True)
            )
            kind, said = ("no_bias", f"the bias {name.upper()}") if repeats else ("missing_term", name.upper())
            zeros = {**inputs, f"{name}_tensor": np.zeros_like(inputs[f"{name}_tensor"])}
            yield Mistake(kind, f"the result without {said}", d, zeros)
    if isinstance(d, BatchNormalization):
        for name, value in (("scale", 1), ("bias", 0), ("mean", 0), ("variance", 1)):
            plain = np.full_like(inputs[f"{name}_tensor"], value)
            yield Mistake(f"no_{name}", f"the result without the {name}", d, {**inputs, f"{name}_tensor": plain})
    if getattr(d, "fused_activation", None) is not None:
        yield Mistake("no_activation", "the result without the fused activation", _with(d, fused_activation=None), inputs)


def _of_layouts(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """Images read with their channels last, written so, or with their channels in the reverse order."""
    for name in ("input_tensor", "filter_tensor"):
        x = inputs.get(name)
        if x is None or x.ndim != 4 or x.shape[1] == 1:
            continue
        n, c, h, w = x.shape
        shown = f"the result with the {name.removesuffix('_tensor')}"
        read, written = np.ascontiguousarray(x).reshape(n, h, w, c), np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        for kind, said, changed in (
            ("channel_order", ", NCHW, read as NHWC", read.transpose(0, 3, 1, 2)),
            ("channel_order", ", NHWC, read as NCHW", written.reshape(x.shape)),
            ("channel_order", "'s channels in the reverse order", x[:, ::-1]),
            ("height_and_width", "'s height and width swapped", _transposed(x)),
        ):
            yield Mistake(kind, f"{shown}{said}", d, {**inputs, name: changed})


def _of_exchanged(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """Two inputs of the same sizes that are exchanged."""
    for one, other in combinations(inputs, 2):
        x, y = inputs[one], inputs[other]
        if (x.shape, x.dtype) == (y.shape, y.dtype) and x.size and not np.array_equal(x, y):
            a, b = (name.removesuffix("_tensor").replace("_", " ") for name in (one, other))
            a, b = (name.upper() if len(name) == 1 else name for name in (a, b))
            yield Mistake("inputs_swapped", f"the result with {a} and {b} swapped", d, {**inputs, one: y, other: x})


def _of_fields(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """Attributes with another value: flags, enumerations and numbers."""
    for f in d.spec.attributes:
        value = getattr(d, f.name)
        if f.kind is BOOL:
            name = "padding_counted" if f.name == "include_padding" else f.name
            said = "padding counted" if f.name == "include_padding" and not value else f"{f.name} {not value}"
            yield Mistake(name, f"the result with {said}", replace(d, **{f.name: not value}), inputs)
        elif isinstance(value, enum.Enum) and not isinstance(value, (MatrixTransform, DataType)):
            for other in type(value):
                if other is not value and not (isinstance(d, Convolution) and f.name == "mode"):
                    yield Mistake(f.name, f"the result with {f.name} {other.name}", replace(d, **{f.name: other}), inputs)
        elif isinstance(value, float) and f.name != "epsilon" and math.isfinite(value):
            for number in dict.fromkeys((0.0, 1.0, 0.01, 0.1, 0.2, 1 / 6, 0.5, 2.0, -value)):
                if np.float32(number) != np.float32(value):
                    said = f"the result with {f.name} {number:.4g} instead of {value:g}"
                    yield Mistake(f.name, said, replace(d, **{f.name: number}), inputs)


def _of_terms(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """A sum without its first or last term."""
    where: dict[str, int] = {}
    if isinstance(d, Gemm):
        where["a_tensor"] = -2 if d.trans_a == MatrixTransform.TRANSPOSE else -1
    elif isinstance(d, Convolution):
        where["filter_tensor"] = 1
    elif isinstance(d, Reduce) and d.function.name == "SUM" and len(d.axes) == 1:
        where["input_tensor"] = d.axes[0]
    for name, axis in where.items():
        for place, said in ((-1, "last"), (0, "first")):
            x = inputs[name].copy()
            np.moveaxis(x, axis, 0)[place] = 0
            term = "channel" if isinstance(d, Convolution) else "term"
            yield Mistake("missing_term", f"the result without the {said} {term}", d, {**inputs, name: x})
    if isinstance(d, Convolution):
        for axis in range(2, inputs["filter_tensor"].ndim):
            for place, said in ((-1, "last"), (0, "first")):
                x = inputs["filter_tensor"].copy()
                np.moveaxis(x, axis, 0)[place] = 0
                changed = {**inputs, "filter_tensor": x}
                yield Mistake(
                    "missing_term", f"the result without the {said} place of the filter's dimension {axis}", d, changed
                )


def _of_precision(d: Desc, inputs: Arrays) -> Iterator[Mistake]:
    """Inputs that are rounded to fewer bits."""
    floats = {name: x for name, x in inputs.items() if x.dtype == np.float32}
    factors = {name: x for name, x in floats.items() if name in ("a_tensor", "b_tensor", "input_tensor", "filter_tensor")}
    products = isinstance(d, (Gemm, Convolution))
    for name, (said, bits) in BITS.items():
        for cut in (False, True):
            how = "cut" if cut else "rounded"
            changed = {n: narrowed(x, bits, cut=cut) for n, x in (factors if products else floats).items()}
            if name == "float16":
                if cut:
                    continue
                with np.errstate(over="ignore"):
                    changed = {n: x.astype(np.float16).astype(np.float32) for n, x in (factors if products else floats).items()}
            yield Mistake(f"{name}_inputs", f"the result of inputs {how} to {said}", d, {**inputs, **changed}, rounding=True)
    if isinstance(d, Gemm):
        k = -2 if d.trans_a == MatrixTransform.TRANSPOSE else -1
        for size in (*BLOCKS, d.a_tensor.sizes[k]):
            if d.a_tensor.sizes[k] % size == 0:
                a = np.moveaxis(quantised(np.moveaxis(inputs["a_tensor"], k, -1), size), -1, k)
                said = f"the result with A quantised to int8 in blocks of {size}"
                yield Mistake("int8_activations", said, d, {**inputs, "a_tensor": a}, rounding=True)


def narrowed(x: Array, bits: int, *, cut: bool = False) -> Array:
    """float32 numbers rounded half to even, or cut, to so many significant bits; the range stays that of float32."""
    raw = np.ascontiguousarray(x).view(np.uint32)
    lost = 24 - bits
    nudge = np.uint32(0) if cut else np.uint32((1 << (lost - 1)) - 1) + (raw >> np.uint32(lost) & np.uint32(1))
    made = (raw + nudge & ~np.uint32((1 << lost) - 1)).view(np.float32)
    return np.where(np.isfinite(x), made, x)


def quantised(x: Array, size: int) -> Array:
    """float32 numbers as int8 times the largest magnitude of their block of the last dimension, divided by 127."""
    blocks = x.reshape(*x.shape[:-1], -1, size)
    scale = (np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(127)).astype(np.float32)
    whole = np.rint(blocks / np.where(scale > 0, scale, np.float32(1)))
    return np.asarray((np.clip(whole, -127, 127) * scale).astype(np.float32).reshape(x.shape))
