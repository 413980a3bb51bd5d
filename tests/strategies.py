"""Strategies for descs and for what is bound to them. Valid by construction: nothing is drawn and thrown away.

What a level takes is typed in here by hand, from the documentation, and not read from the operator files: otherwise a row
that is missing there would be missing here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import oracle
from anydml import (
    DataType,
    FeatureLevel,
    MatrixMultiplyInteger,
    QuantizedLinearMatrixMultiply,
    Slice,
    Slice1,
    TensorDesc,
    TensorFlags,
)
from anydml.schema.operator import Desc
from hard_cases import SCALE_BITS, nearest_float32, parameter_sizes

DescAndLevel = tuple[Desc, FeatureLevel]

SIX = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16)
EIGHT = (*SIX, DataType.INT8, DataType.UINT8)
ELEVEN = (*EIGHT, DataType.FLOAT64, DataType.INT64, DataType.UINT64)
EIGHT_BIT = (DataType.INT8, DataType.UINT8)

# A case takes as long as it takes, on machines that do other work besides; and a failure in CI is to be had again.
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ)

SEEDS = st.integers(0, 2**16)  # of the bytes in a buffer: drawing each byte would take most of the time


# --- tensor descs ---


def sizes_of(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes that keep a tensor small, whatever its rank."""
    largest = {1: 9, 2: 6, 3: 4, 4: 3}.get(rank, 2)
    return st.tuples(*[st.integers(1, largest)] * rank)


@st.composite
def nested_strides(draw: st.DrawFn, sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides in any order of the dimensions and with gaps, so that no two elements meet: legal for an output too."""
    strides = [0] * len(sizes)
    reach = 0
    for dimension in draw(st.permutations(range(len(sizes)))):
        if sizes[dimension] == 1:  # counts nowhere
            strides[dimension] = draw(st.sampled_from((1, 0, 7, 2**32 - 1)))
            continue
        strides[dimension] = reach + 1 + draw(st.sampled_from((0, 0, 1, 2)))
        reach += (sizes[dimension] - 1) * strides[dimension]
    return tuple(strides)


def loose_strides(sizes: Sequence[int]) -> st.SearchStrategy[tuple[int, ...]]:
    """Strides that only an input may have: zero, interleaved, overlapping."""
    return st.tuples(*[st.sampled_from((0, 0, 1, 2, 5))] * len(sizes))


@st.composite
def tensor_descs(draw: st.DrawFn, data_type: DataType, sizes: tuple[int, ...], *, output: bool = False) -> TensorDesc:
    """Every legal desc of a tensor with these sizes: packed, strided, padded, aligned, owned."""
    strided = (nested_strides(sizes),) if output else (nested_strides(sizes), loose_strides(sizes))
    strides = draw(st.one_of(st.none(), *strided))
    smallest = TensorDesc(data_type, sizes, strides=strides).smallest_total
    return TensorDesc(
        data_type,
        sizes,
        strides=strides,
        flags=TensorFlags.NONE if output else draw(st.sampled_from((TensorFlags.NONE,) * 3 + (TensorFlags.OWNED_BY_DML,))),
        total_tensor_size_in_bytes=draw(st.sampled_from((0, 0, smallest, smallest + 4, smallest + 17))),
        guaranteed_base_offset_alignment=draw(st.sampled_from((0, 0, 0, data_type.element_bits // 8, 16, 64))),
    )


# --- valid descs ---


def _levels(since: FeatureLevel) -> st.SearchStrategy[FeatureLevel]:
    return st.sampled_from([level for level in FeatureLevel if level >= since])


def _slice_ranks(level: FeatureLevel) -> st.SearchStrategy[int]:
    return st.integers(4, 5) if level < FeatureLevel.FL_3_0 else st.integers(1, 8)


@st.composite
def _slice1(draw: st.DrawFn) -> DescAndLevel:
    level = draw(_levels(FeatureLevel.FL_2_1))
    data_type = draw(st.sampled_from(EIGHT if level < FeatureLevel.FL_4_1 else ELEVEN))
    sizes = draw(_slice_ranks(level).flatmap(sizes_of))
    offsets, windows, strides, output_sizes = [], [], [], []
    for size in sizes:
        offset = draw(st.integers(0, size - 1))
        window = draw(st.integers(1, size - offset))
        stride = draw(st.one_of(st.integers(1, window + 1), st.sampled_from((1, 2**31 - 1, 2**31))))
        # an INT has one number more below zero than above
        stride = -stride if stride == 2**31 or draw(st.booleans()) else stride
        offsets.append(offset)
        windows.append(window)
        strides.append(stride)
        output_sizes.append(draw(st.integers(1, 1 + (window - 1) // abs(stride))))
    desc = Slice1(
        input_tensor=draw(tensor_descs(data_type, sizes)),
        output_tensor=draw(tensor_descs(data_type, tuple(output_sizes), output=True)),
        dimension_count=draw(st.sampled_from((None, len(sizes)))),
        input_window_offsets=tuple(offsets),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(strides),
    )
    return desc, level


@st.composite
def _slice(draw: st.DrawFn) -> DescAndLevel:
    level = draw(_levels(FeatureLevel.FL_1_0))
    if level < FeatureLevel.FL_2_1:
        data_types: tuple[DataType, ...] = SIX
    else:
        data_types = EIGHT if level < FeatureLevel.FL_4_1 else ELEVEN
    data_type = draw(st.sampled_from(data_types))
    input_sizes = draw(_slice_ranks(level).flatmap(sizes_of))
    offsets, sizes, strides = [], [], []
    for extent in input_sizes:
        offset = draw(st.integers(0, extent - 1))
        room = extent - 1 - offset
        size = draw(st.integers(1, room + 1))
        # the only element of its dimension may be followed by any stride
        stride = draw(st.sampled_from((1, 2, 2**31, 2**32 - 1)) if size == 1 else st.integers(1, room // (size - 1)))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    desc = Slice(
        input_tensor=draw(tensor_descs(data_type, input_sizes)),
        output_tensor=draw(tensor_descs(data_type, tuple(sizes), output=True)),
        dimension_count=draw(st.sampled_from((None, len(sizes)))),
        offsets=tuple(offsets),
        sizes=tuple(sizes),
        strides=tuple(strides),
    )
    return desc, level


@dataclass(frozen=True)
class _Product:
    """The sizes of a matrix product, and tensor descs that go with them."""

    draw: st.DrawFn
    batch: tuple[int, ...]
    m: int
    k: int
    n: int

    @classmethod
    def drawn(cls, draw: st.DrawFn, rank: int) -> _Product:
        batch = draw(st.tuples(*[st.integers(1, 3)] * (rank - 2)))
        return cls(draw, batch, *draw(st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 5))))

    def parameter(self, data_type: DataType, rank: int, **axis: int) -> TensorDesc:
        """A scale or zero point: per tensor or finer, by batch or not."""
        per_batch = self.draw(st.sampled_from(((False, False), (False, True), (True, False), (True, True))))
        finer = axis if self.draw(st.booleans()) else {}
        sizes = parameter_sizes(rank, **finer, batch=self.batch, per_batch=per_batch)
        return self.draw(tensor_descs(data_type, sizes))

    def zero_point(self, data_type: DataType, rank: int, **axis: int) -> TensorDesc | None:
        return self.parameter(data_type, rank, **axis) if self.draw(st.booleans()) else None

    def matrices(self, a: DataType, b: DataType, output: DataType) -> dict[str, TensorDesc]:
        return {
            "a_tensor": self.draw(tensor_descs(a, (*self.batch, self.m, self.k))),
            "b_tensor": self.draw(tensor_descs(b, (*self.batch, self.k, self.n))),
            "output_tensor": self.draw(tensor_descs(output, (*self.batch, self.m, self.n), output=True)),
        }


@st.composite
def _matrix_multiply_integer(draw: st.DrawFn) -> DescAndLevel:
    level = draw(_levels(FeatureLevel.FL_2_1))
    smallest = 4 if level < FeatureLevel.FL_4_0 else 2
    product = _Product.drawn(draw, draw(st.integers(smallest, 4)))
    a, b = draw(st.sampled_from(EIGHT_BIT)), draw(st.sampled_from(EIGHT_BIT))
    a_rank = draw(st.integers(4 if level < FeatureLevel.FL_4_0 else 1, 4))
    b_rank = draw(st.integers(smallest if level < FeatureLevel.FL_5_2 else 1, 4))
    desc = MatrixMultiplyInteger(
        a_zero_point_tensor=product.zero_point(a, a_rank, rows=product.m),
        b_zero_point_tensor=product.zero_point(b, b_rank, columns=product.n),
        **product.matrices(a, b, DataType.INT32),
    )
    return desc, level


@st.composite
def _quantized_linear_matrix_multiply(draw: st.DrawFn) -> DescAndLevel:
    level = draw(_levels(FeatureLevel.FL_2_1))
    old = level < FeatureLevel.FL_4_0
    product = _Product.drawn(draw, draw(st.integers(4 if old else 2, 4)))
    a, b, output = (draw(st.sampled_from(EIGHT_BIT)) for _ in range(3))
    rank = draw(st.integers(4 if old else 1, 4))
    rows, columns = {"rows": product.m}, {"columns": product.n}
    desc = QuantizedLinearMatrixMultiply(
        a_scale_tensor=product.parameter(DataType.FLOAT32, rank, **rows),
        a_zero_point_tensor=product.zero_point(a, rank, **rows),
        b_scale_tensor=product.parameter(DataType.FLOAT32, rank, **columns),
        b_zero_point_tensor=product.zero_point(b, rank, **columns),
        output_scale_tensor=product.parameter(DataType.FLOAT32, rank, **rows),
        output_zero_point_tensor=product.zero_point(output, rank, **rows),
        **product.matrices(a, b, output),
    )
    return desc, level


_VALID: Mapping[str, Callable[[], st.SearchStrategy[DescAndLevel]]] = {
    "SLICE1": _slice1,
    "SLICE": _slice,
    "MATRIX_MULTIPLY_INTEGER": _matrix_multiply_integer,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _quantized_linear_matrix_multiply,
}


def descs(operator: type[Desc]) -> st.SearchStrategy[DescAndLevel]:
    """A legal desc of an operator, and a feature level that takes it. A new operator needs a strategy here: KeyError."""
    return _VALID[operator.spec.name]()


# --- what is bound ---


@dataclass(frozen=True, eq=False)
class Binding:
    """Something to bind to a tensor.

    value: what is bound. tensor: the elements, in the desc's sizes, wherever they lie. memory: every byte near them that
    can be looked at, gaps, padding and surroundings included. form: how it is bound, for messages.
    """

    value: Any
    tensor: NDArray[Any]
    memory: NDArray[np.uint8]
    form: str


def laid_over(t: TensorDesc, memory: NDArray[np.uint8], offset: int = 0) -> NDArray[Any]:
    """The tensor's elements where they lie in a buffer."""
    dtype = t.data_type.dtype
    # of a dimension of size 1 the stride counts nowhere, and need not be one that NumPy would take
    strides = [0 if n == 1 else s * dtype.itemsize for n, s in zip(t.sizes, t.explicit_strides, strict=True)]
    tensor: NDArray[Any] = np.ndarray(t.sizes, dtype, memory.data, offset, strides)
    return tensor


@st.composite
def bindings(draw: st.DrawFn, t: TensorDesc, *, writable: bool = False, elements: Sequence[int] = ()) -> Binding:
    """An array or buffer for a tensor desc, in every form there is, at any offset that its alignment allows.

    elements: the tensor's, as bit patterns, repeated as often as needed; without them, whatever lies in memory.
    """
    dtype, alignment = t.data_type.dtype, t.guaranteed_base_offset_alignment
    itemsize = dtype.itemsize
    forms = ["tensor", "typed buffer", "uint8 buffer"]
    if not alignment:  # where the bytes of an object lie is not for us to choose
        forms += ["bytearray", "memoryview"] if writable else ["bytes", "bytearray", "memoryview"]
    form = draw(st.sampled_from(forms))
    # odd offsets on purpose: no alignment is asked
    lead = alignment * draw(st.integers(0, 2)) if alignment else draw(st.sampled_from((0, 1, 3, itemsize, 16)))
    needed = max(t.element_bytes, t.total_tensor_size_in_bytes)
    needed = -(-needed // itemsize) * itemsize + itemsize * draw(st.integers(0, 2))
    room: NDArray[np.uint8] = np.random.default_rng(draw(SEEDS)).integers(0, 256, needed + lead + 64 + 16, np.uint8)
    memory = room[-room.ctypes.data % 64 :]  # from here on, offsets say how far the address is aligned
    tensor = laid_over(t, memory, lead)
    if elements:
        bits = f"u{itemsize}"
        # overlapping elements are written over one another, each time with one of these
        tensor.view(bits)[...] = np.resize(np.array(elements, bits), t.sizes)
    buffer = memory[lead : lead + needed]
    if form in ("bytes", "bytearray", "memoryview"):
        content = bytes(buffer) if form == "bytes" else bytearray(buffer)
        held = np.frombuffer(content, np.uint8)
        return Binding(memoryview(content) if form == "memoryview" else content, laid_over(t, held), held, form)
    values = {"tensor": tensor, "uint8 buffer": buffer, "typed buffer": buffer.view(dtype)}
    return Binding(values[form], tensor, memory, form)


@st.composite
def arrays_for(draw: st.DrawFn, desc: Desc) -> dict[str, Binding]:
    """Something to bind to each input of a desc; scales are usable, and what lies between them need not be."""
    bound = {}
    one_step = Fraction(1)  # what a product of one by one is worth
    for field in desc.spec.inputs:
        t: TensorDesc | None = getattr(desc, field.name)
        if t is None:
            continue
        elements: list[int] = []
        if field.name.endswith("_scale_tensor"):
            if field.name == "output_scale_tensor" and draw(st.booleans()):
                # scales drawn apart nearly always lead to zeros or to saturation; these are a few products apart
                steps = draw(st.lists(st.integers(1, 3000), min_size=1, max_size=4))
                elements = [nearest_float32(one_step * n) for n in steps]
            else:
                elements = draw(st.lists(SCALE_BITS, min_size=1, max_size=4))
            one_step *= oracle.float32_fraction(elements[0])
        bound[field.name] = draw(bindings(t, elements=elements))
    return bound


def outputs_for(desc: Desc) -> st.SearchStrategy[Binding]:
    """Something to bind to the output of a desc."""
    return bindings(getattr(desc, desc.spec.outputs[0].name), writable=True)


# --- any desc whatever ---

NONSENSE = st.one_of(
    st.integers(-2, 9),
    st.sampled_from(
        (-(2**64), -(2**32), -(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**70)
    ),
)
"""Numbers that fit and numbers that do not."""


@st.composite
def any_tensor(draw: st.DrawFn) -> TensorDesc:
    """Any tensor desc that can be constructed."""
    sizes = draw(st.lists(st.one_of(st.integers(1, 4), NONSENSE), max_size=9))
    same_count = st.lists(NONSENSE, min_size=len(sizes), max_size=len(sizes))
    zeros = st.just([0] * len(sizes))  # under which sizes may be huge
    strides = draw(st.one_of(st.none(), zeros, same_count, st.lists(NONSENSE, max_size=9)))
    return TensorDesc(
        draw(st.sampled_from(DataType)),
        tuple(sizes),
        strides=None if strides is None else tuple(strides),
        flags=draw(st.sampled_from((TensorFlags.NONE, TensorFlags.OWNED_BY_DML))),
        total_tensor_size_in_bytes=draw(st.one_of(st.just(0), NONSENSE)),
        guaranteed_base_offset_alignment=draw(st.one_of(st.just(0), NONSENSE)),
    )


@st.composite
def any_desc(draw: st.DrawFn, operator: type[Desc]) -> Desc:
    """Any desc that can be constructed: nonsense throughout, or a legal desc with nonsense in a few of its fields."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in operator.spec.fields:
        if field.is_tensor:
            fields[field.name] = st.one_of(st.none(), any_tensor()) if field.optional else any_tensor()
        elif field.sized_by:
            fields[field.name] = st.lists(NONSENSE, max_size=9)
        else:
            fields[field.name] = st.one_of(st.none(), NONSENSE)
    if draw(st.booleans()):
        return operator(**{name: draw(values) for name, values in fields.items()})
    desc, _ = draw(descs(operator))
    spoilt = draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3, unique=True))
    changes: dict[str, Any] = {}
    for name in spoilt:
        there = getattr(desc, name)
        if isinstance(there, tuple) and there and draw(st.booleans()):  # one entry of an array
            at = draw(st.integers(0, len(there) - 1))
            changes[name] = (*there[:at], draw(NONSENSE), *there[at + 1 :])
        elif isinstance(there, TensorDesc) and draw(st.booleans()):  # one field of a tensor
            other = draw(any_tensor())
            part = draw(st.sampled_from(("data_type", "sizes", "strides", "flags", "total_tensor_size_in_bytes")))
            changes[name] = replace(there, **{part: getattr(other, part)})
        else:
            changes[name] = draw(fields[name])
    return replace(desc, **changes)


# --- arrays as they come ---


@st.composite
def strided_arrays(draw: st.DrawFn) -> NDArray[Any]:
    """An array that lies in memory in any way NumPy knows: permuted, stepped, broadcast, backwards, at odd addresses."""
    sizes = draw(st.integers(1, 5).flatmap(sizes_of))
    dtype = draw(st.sampled_from(ELEVEN)).dtype
    steps = tuple(draw(st.sampled_from((1, 1, 2, -1, -2))) for _ in sizes)
    order = draw(st.permutations(range(len(sizes))))
    stored = [sizes[i] * abs(steps[i]) for i in order]
    lead, count = draw(st.integers(0, 3)), int(np.prod(stored))
    memory = np.resize(np.arange(251, dtype=np.uint8), lead + count * dtype.itemsize)
    x: NDArray[Any] = np.ndarray(stored, dtype, memory.data, lead)
    x = x.transpose(np.argsort(order))[tuple(slice(None, None, step) for step in steps)]
    assert x.shape == sizes
    if draw(st.booleans()):
        return x
    at = draw(st.integers(0, x.ndim - 1))
    return np.broadcast_to(x[(slice(None),) * at + (slice(0, 1),)], sizes)
