"""Strategies for descs of any operator, valid by construction or with any values, and for arrays to bind to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import hostile_data
import oracle
from anydml import FeatureLevel, TensorDesc
from anydml.schema.field import INPUT, OUTPUT
from anydml.schema.kinds import Integer, Scalar
from anydml.schema.operator import Desc
from anydml.spelling import snake_case
from drawn_descs import FLOATS, activations, laid_out
from generators import plan_of
from hard_cases import SCALE_BITS, nearest_float32
from tensors import ANY_TENSOR, NONSENSE, SEEDS, Binding, binding, bound_as, is_four_bit

DescAndLevel = tuple[Desc, FeatureLevel]


@st.composite
def descs(draw: st.DrawFn, operator: type[Desc]) -> DescAndLevel:
    """A legal desc of an operator, and a feature level that allows it."""
    level = draw(st.sampled_from([level for level in FeatureLevel if level >= operator.spec.since]))
    return laid_out(draw, operator, plan_of(draw, operator, level)), level


# --- what is bound ---


@st.composite
def arrays_for(draw: st.DrawFn, desc: Desc) -> dict[str, Binding]:
    """Arrays or buffers for the inputs of a desc, by the names of `Desc.tensors`, with elements that keep the data rules."""
    special = VALUES[desc.spec.name](draw, desc) if desc.spec.name in VALUES else {}
    bound = {}
    for found in desc.tensors():
        if found.field.role == INPUT:
            elements = special.get(found.name)
            if elements is None:
                elements = hurtful(draw, desc, found.field.wire, found.desc)
            bound[found.name] = binding(draw, found.desc, elements=elements)
    return bound


def hurtful(draw: st.DrawFn, desc: Desc, wire: str, t: TensorDesc) -> NDArray[Any]:
    """Hostile data for an input; elements that break a data rule are replaced."""
    seed = draw(SEEDS)
    kind, rng = hostile_data.KINDS[seed % len(hostile_data.KINDS)], np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if is_four_bit(t):  # as bytes
            return rng.integers(0, 256, t.element_bytes, np.uint8)
        drawn = hostile_data.values(t.data_type.name, t.sizes, rng, kind)
    for rule in desc.spec.data_rules:
        for fit in (1, 0, 2) if wire in rule.tensors else ():
            drawn[rule.breaks(desc, drawn)] = fit
    return drawn.view(bound_as(t))


def matmul_scales(draw: st.DrawFn, desc: Desc) -> Mapping[str, NDArray[Any]]:
    """Valid scales of every kind; independent scales would nearly always lead to zeros or to saturation."""
    found = {}
    one_step = Fraction(1)  # the real value of a product of 1 by 1
    for f in desc.spec.inputs:
        if not f.name.endswith("_scale_tensor"):
            continue
        if f.name == "output_scale_tensor" and draw(st.booleans()):
            bits = [nearest_float32(one_step * n) for n in draw(st.lists(st.integers(1, 3000), min_size=1, max_size=4))]
        else:
            bits = draw(st.lists(SCALE_BITS, min_size=1, max_size=4))
        one_step *= oracle.float32_fraction(bits[0])
        found[f.name] = np.array(bits, np.uint32).view(np.float32)
    return found


def indices(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Positions along the axis, and negative ones from its end if the type is signed."""
    dtype, size = desc.indices_tensor.data_type.dtype, desc.input_tensor.sizes[desc.axis]
    low = -size if dtype.kind == "i" else 0
    return {"indices_tensor": np.array(draw(st.lists(st.integers(low, size - 1), min_size=1, max_size=9)), dtype)}


def tuple_indices(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Positions that are valid in each of the dimensions that a tuple names, since a stride of 0 may repeat them."""
    dtype, x = desc.indices_tensor.data_type.dtype, desc.input_tensor.sizes
    first = len(x) - desc.input_dimension_count + getattr(desc, "batch_dimension_count", 0)
    size = min(x[first : first + desc.indices_tensor.sizes[-1]])
    low = -size if dtype.kind == "i" else 0
    return {"indices_tensor": np.array(draw(st.lists(st.integers(low, size - 1), min_size=1, max_size=9)), dtype)}


def hot_places(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Positions along the axis, and just beyond its ends."""
    dtype, size = desc.indices_tensor.data_type.dtype, desc.output_tensor.sizes[desc.axis]
    low = -size - 1 if dtype.kind == "i" else 0
    return {"indices_tensor": np.array(draw(st.lists(st.integers(low, size + 1), min_size=1, max_size=9)), dtype)}


def lengths(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Lengths up to that of a line, and one above."""
    most = desc.input_tensor.sizes[desc.axis] + 1
    drawn = draw(st.lists(st.integers(0, most), min_size=1, max_size=9))
    return {"sequence_lengths_tensor": np.array(drawn, desc.sequence_lengths_tensor.data_type.dtype)}


def regions(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Corners in and around the image, mostly divided by the scale."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    t, rng = desc.roi_tensor, np.random.default_rng(draw(SEEDS))
    coordinates = rng.integers(-8, 24, t.sizes) / draw(st.sampled_from((4, 1, 3)))
    for at, scale in enumerate((desc.spatial_scale_x, desc.spatial_scale_y) if hasattr(desc, "spatial_scale_x") else ()):
        if 2.0**-10 < abs(scale) < 2.0**10:
            coordinates[..., at::2] /= scale
    if desc.spec.name == "ROI_POOLING":
        coordinates[..., 0] = rng.integers(0, desc.input_tensor.sizes[0], t.sizes[:-1])
    return {"roi_tensor": coordinates.astype(t.data_type.name.lower()).view(bound_as(t))}


def key_lengths(draw: st.DrawFn, desc: Any) -> Mapping[str, NDArray[Any]]:
    """Masks and lengths up to the number of keys, and beyond; 0 or 1 for masks of truth values."""
    found = {}
    for name in ("mask_tensor", "past_sequence_lengths_tensor"):
        if getattr(desc, name, None) is not None:
            truths = name == "mask_tensor" and desc.mask_type.name == "BOOLEAN"
            drawn = st.integers(0, 1) if truths else st.integers(-1, 5)
            found[name] = np.array(draw(st.lists(drawn, min_size=1, max_size=9)), np.int32)
    return found


VALUES: Mapping[str, Callable[[st.DrawFn, Desc], Mapping[str, NDArray[Any]]]] = {
    "GATHER": indices,
    "GATHER_ELEMENTS": indices,
    "SCATTER_ELEMENTS": indices,
    **dict.fromkeys(("GATHER_ND", "GATHER_ND1", "SCATTER_ND"), tuple_indices),
    "ONE_HOT": hot_places,
    **dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), key_lengths),
    "REVERSE_SUBSEQUENCES": lengths,
    **dict.fromkeys(("ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD", "ROI_POOLING"), regions),
    "QUANTIZED_LINEAR_CONVOLUTION": matmul_scales,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": matmul_scales,
}
"""Operators with inputs that need special elements."""


@st.composite
def outputs_for(draw: st.DrawFn, desc: Desc) -> dict[str, Binding]:
    """Arrays or buffers for the outputs of a desc, by the names of `Desc.tensors`."""
    return {t.name: binding(draw, t.desc, writable=True) for t in desc.tensors() if t.field.role == OUTPUT}


# --- any desc ---


def any_value(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that the constructor accepts for an attribute of a kind."""
    if isinstance(kind, Integer):
        return NONSENSE
    if kind.wire == "FLOAT":
        return st.one_of(FLOATS, NONSENSE)
    if kind.wire == "DML_OPERATOR_DESC":
        return activations(max(FeatureLevel))
    if kind.wire == "DML_SIZE_2D":
        return st.tuples(NONSENSE, NONSENSE)
    if kind.wire == "DML_SCALE_BIAS":
        return st.tuples(FLOATS, FLOATS)
    return NONSENSE if kind.wire == "DML_SCALAR_UNION" else st.sampled_from(kind.samples)


@cache
def any_fields(operator: type[Desc]) -> Mapping[str, st.SearchStrategy[Any]]:
    """Any value of each field."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for f in operator.spec.fields:
        one = ANY_TENSOR if f.is_tensor else any_value(f.kind)
        values = st.lists(one, max_size=9 if f.kind is not None else 3) if f.sized_by else one
        absent = f.optional or f.name in operator.spec.counts or (f.is_tensor and operator.spec.fusable)
        fields[f.name] = st.one_of(st.none(), values) if absent else values
    return fields


@st.composite
def any_desc(draw: st.DrawFn, operator: type[Desc]) -> Desc:
    """Any desc that can be constructed: with nonsense in all fields, or a legal one with nonsense in a few fields."""
    fields = any_fields(operator)
    if draw(st.booleans()):
        return operator(**{name: draw(values) for name, values in fields.items()})
    desc, _ = draw(descs(operator))
    spoilt = draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3, unique=True))
    changes: dict[str, Any] = {}
    for name in spoilt:
        there = getattr(desc, name)
        if isinstance(there, tuple) and there and isinstance(there[0], int) and draw(st.booleans()):  # one entry of an array
            at = draw(st.integers(0, len(there) - 1))
            changes[name] = (*there[:at], draw(NONSENSE), *there[at + 1 :])
        elif isinstance(there, TensorDesc) and draw(st.booleans()):  # one field of a tensor
            other = draw(ANY_TENSOR)
            part = draw(st.sampled_from(("data_type", "sizes", "strides", "flags", "total_tensor_size_in_bytes")))
            changes[name] = replace(there, **{part: getattr(other, part)})
        else:
            changes[name] = draw(fields[name])
    for f in operator.spec.attributes:  # a number for a changed data type is an integer, which any type accepts
        if isinstance(f.kind, Scalar) and snake_case(f.kind.typed_by) in changes:
            changes[f.name] = draw(NONSENSE)
    return replace(desc, **changes)
