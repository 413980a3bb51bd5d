"""Strategies for tensor descs of every layout, and for the arrays and buffers that are bound to them.

All are valid by construction: none is drawn and thrown away.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # the import makes dtypes of the names int4 and uint4
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import guard_pages
from anydml import DataType, TensorDesc, TensorFlags
from anydml.schema.types import ELEVEN
from anydml.tensor import EXTENSIONS

# without deadlines, since machines may do other work; `make test` draws the same cases every time
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="ANYDML_SOAK" not in os.environ)

assert ml_dtypes

SEEDS = st.integers(0, 2**16)
"""Seeds of random choices, such as a layout or the bytes in a buffer: drawing each choice would take most of the time."""


# --- tensor descs ---


# by number of dimensions; in `make soak`, some rows have several vectors
MOST = {1: 9, 2: 6, 3: 4, 4: 3} if "ANYDML_SOAK" not in os.environ else {1: 70, 2: 19, 3: 8, 4: 5, 5: 3}
SIZES = {rank: st.tuples(*[st.integers(1, MOST.get(rank, 2))] * rank) for rank in range(9)}


def sizes_of(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes of a small tensor with any number of dimensions."""
    return SIZES[rank]


def nested_strides(rng: random.Random, sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides in any order of the dimensions and with gaps, but without overlap, so that outputs may have them."""
    strides = [0] * len(sizes)
    reach = 0
    for dimension in rng.sample(range(len(sizes)), len(sizes)):
        if sizes[dimension] == 1:  # this stride has no effect
            strides[dimension] = rng.choice((1, 0, 7, 2**32 - 1))
            continue
        strides[dimension] = reach + 1 + rng.choice((0, 0, 1, 2))
        reach += (sizes[dimension] - 1) * strides[dimension]
    return tuple(strides)


def loose_strides(rng: random.Random, sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides that only an input may have: zero, interleaved, overlapping."""
    return tuple(rng.choice((0, 0, 1, 2, 5)) for _ in sizes)


def tensor_desc(draw: st.DrawFn, data_type: DataType, sizes: tuple[int, ...], *, output: bool = False) -> TensorDesc:
    """A legal desc of a tensor with these sizes: packed, strided, padded, aligned, owned."""
    seed = draw(SEEDS)
    if seed == 0:  # the result that a failing example shrinks to
        return TensorDesc(data_type, sizes)
    rng = random.Random(seed)
    ways = [None, nested_strides] if output else [None, nested_strides, loose_strides]
    if output and data_type.element_bits == 4:
        ways = [None]
    way = rng.choice(ways)
    strides = None if way is None else way(rng, sizes)
    smallest = TensorDesc(data_type, sizes, strides=strides).smallest_total
    return TensorDesc(
        data_type,
        sizes,
        strides=strides,
        flags=TensorFlags.NONE if output else rng.choice((TensorFlags.NONE,) * 3 + (TensorFlags.OWNED_BY_DML,)),
        total_tensor_size_in_bytes=rng.choice((0, 0, smallest, smallest + 4, smallest + 17)),
        guaranteed_base_offset_alignment=rng.choice((0, 0, 0, data_type.element_bits // 8, 16, 64)),
    )


# --- arrays and buffers ---


@dataclass(frozen=True, eq=False)
class Binding:
    """An array or buffer for a tensor.

    value: the argument of `bind`. tensor: the elements, in the desc's sizes. memory: every byte around them, with gaps and
    padding. form: the kind of `value`, for messages.
    """

    value: Any
    tensor: NDArray[Any]
    memory: NDArray[np.uint8]
    form: str


def is_four_bit(t: TensorDesc) -> bool:
    return t.data_type.element_bits == 4


def bound_as(t: TensorDesc) -> np.dtype[Any]:
    """The dtype of the array to bind: bytes, if two elements share one, and unsigned integers for floats that NumPy lacks."""
    return np.dtype(np.uint8) if is_four_bit(t) else t.data_type.dtype


def array_for(t: TensorDesc) -> NDArray[Any]:
    """A packed array to bind to an output."""
    return np.full((t.element_bytes,) if is_four_bit(t) else t.sizes, 85, bound_as(t))


def elements_of(t: TensorDesc, bound: NDArray[Any]) -> NDArray[Any]:
    """The elements of a bound array, in the desc's sizes: an array of ml_dtypes if NumPy has no such type."""
    if t.data_type.name.lower() in EXTENSIONS:
        return bound.view(t.data_type.name.lower())
    if not is_four_bit(t):
        return bound
    made = np.zeros(t.sizes, np.int8)
    for c in np.ndindex(t.sizes):
        at = sum(i * s for i, s in zip(c, t.explicit_strides, strict=True))
        half = int(bound[at // 2]) // (16 if at % 2 else 1) % 16
        made[c] = half - 16 if t.data_type == DataType.INT4 and half > 7 else half
    return made.astype(t.data_type.name.lower())


def bytes_of(t: TensorDesc, elements: NDArray[Any]) -> NDArray[Any]:
    """The array to bind to a packed tensor with these elements; an unused half byte is 0."""
    if not is_four_bit(t):
        return elements.view(bound_as(t))
    made = np.zeros(t.element_bytes, np.uint8)
    for at, x in enumerate(elements.astype(np.int64).ravel().tolist()):
        made[at // 2] += x % 16 * (16 if at % 2 else 1)
    return made


def laid_over(t: TensorDesc, memory: NDArray[np.uint8], offset: int = 0) -> NDArray[Any]:
    """A view of the tensor's elements in a buffer; if they have 4 bits, of their bytes."""
    if is_four_bit(t):
        return memory[offset : offset + t.element_bytes]
    dtype = t.data_type.dtype
    # the stride of a dimension of size 1 has no effect, and NumPy may refuse it
    strides = [0 if n == 1 else s * dtype.itemsize for n, s in zip(t.sizes, t.explicit_strides, strict=True)]
    tensor: NDArray[Any] = np.ndarray(t.sizes, dtype, memory.data, offset, strides)
    return tensor


def binding(draw: st.DrawFn, t: TensorDesc, *, writable: bool = False, elements: NDArray[Any] | None = None) -> Binding:
    """An array or buffer for a tensor desc, of any kind, at any offset that its alignment allows.

    Half of the arrays are directly before or after an unmapped page, so that reads beyond them end the process. elements: of
    the tensor's data type, repeated as often as needed; random bytes without them.
    """
    dtype, alignment = bound_as(t), t.guaranteed_base_offset_alignment
    itemsize = dtype.itemsize
    forms = ["uint8 buffer"] if is_four_bit(t) else ["tensor", "typed buffer", "uint8 buffer"]
    if not alignment:  # the address of such an object cannot be chosen
        forms += ["bytearray", "memoryview"] if writable else ["bytes", "bytearray", "memoryview"]
    seed = draw(SEEDS)
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    form = rng.choice(forms) if seed else forms[0]  # the one that a failing example shrinks to
    # odd offsets, unless the desc has an alignment
    lead = alignment * rng.randint(0, 2) if alignment else rng.choice((0, 1, 3, itemsize, 16))
    needed = max(t.element_bytes, t.total_tensor_size_in_bytes)
    needed = -(-needed // itemsize) * itemsize
    if guard_pages.AVAILABLE and rng.random() < 0.5 and form not in ("bytes", "bytearray", "memoryview"):
        lead = 0
        memory = guard_pages.guarded(needed, at_end=rng.random() < 0.7 and needed % max(alignment, 1) == 0)
        memory[...] = generator.integers(0, 256, needed, np.uint8)
    else:
        needed += itemsize * rng.randint(0, 2)
        room: NDArray[np.uint8] = generator.integers(0, 256, needed + lead + 64 + 16, np.uint8)
        memory = room[-room.ctypes.data % 64 :]  # at an address that is a multiple of 64, so that offsets are alignments
    tensor = laid_over(t, memory, lead)
    if elements is not None:
        bits = f"u{itemsize}"
        # overlapping elements are written several times
        tensor.view(bits)[...] = np.resize(elements.view(bits), tensor.shape)
    buffer = memory[lead : lead + needed]
    if form in ("bytes", "bytearray", "memoryview"):
        content = bytes(buffer) if form == "bytes" else bytearray(buffer)
        held = np.frombuffer(content, np.uint8)
        return Binding(memoryview(content) if form == "memoryview" else content, laid_over(t, held), held, form)
    values = {"tensor": tensor, "uint8 buffer": buffer, "typed buffer": buffer.view(dtype)}
    return Binding(values[form], tensor, memory, form)


# --- any tensor ---

NONSENSE = st.one_of(
    st.integers(-2, 9),
    st.sampled_from(
        (-(2**64), -(2**32), -(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**70)
    ),
)
"""Valid numbers and others."""


ANY_SIZES = st.lists(st.one_of(st.integers(1, 4), NONSENSE), max_size=9)
ANY_STRIDES = st.one_of(st.none(), st.sampled_from(("zeros", "as many")), st.lists(NONSENSE, max_size=9))
ANY_FLAGS = st.sampled_from((TensorFlags.NONE, TensorFlags.OWNED_BY_DML))
ANY_DATA_TYPE = st.sampled_from(DataType)
ANY_NUMBER = st.one_of(st.just(0), NONSENSE)


@st.composite
def any_tensor(draw: st.DrawFn) -> TensorDesc:
    """Any tensor desc that can be constructed."""
    sizes, strides = draw(ANY_SIZES), draw(ANY_STRIDES)
    if isinstance(strides, str):  # with strides of zero, sizes can be huge
        strides = [0 if strides == "zeros" else draw(NONSENSE) for _ in sizes]
    return TensorDesc(
        draw(ANY_DATA_TYPE),
        tuple(sizes),
        strides=None if strides is None else tuple(strides),
        flags=draw(ANY_FLAGS),
        total_tensor_size_in_bytes=draw(ANY_NUMBER),
        guaranteed_base_offset_alignment=draw(ANY_NUMBER),
    )


ANY_TENSOR = any_tensor()


# --- arrays of users ---


@st.composite
def strided_arrays(draw: st.DrawFn) -> NDArray[Any]:
    """An array with any layout that NumPy has: permuted, stepped, broadcast, reversed, at odd addresses."""
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
