"""Random contractions of floats: descs of any layout with hostile data, whose results are compared with the oracle's bits.

The first compilation of a kernel takes long, so each desc is bound once and executed with several kinds of data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hostile_data
from agreement import expected
from anydml import DataType, Device, TensorDesc, operators
from anydml.kernels.undecided import places
from anydml.schema.operator import Desc
from guard_pages import place

Rng = np.random.Generator
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
NAME = "contract.floats:compiled"
CANARY = 0xA5
FACTORS = (*[1.0] * 6, 0.0, -0.0, -1.0, 0.5, 0.1, 3.0, 2.0**-149, 3e38, float("inf"), float("nan"))


def named(name: str) -> Any:
    """The desc class of an operator."""
    found = operators.find(name)
    assert found is not None, f"there is no {name}"
    return found


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(0, len(values)))]


def some(rng: Rng, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(low, high + 1, count))


def activations() -> tuple[Desc, ...]:
    """Every function that can be fused to a convolution, with attributes that change its result."""
    given: dict[str, dict[str, float]] = {
        "CELU": {"alpha": 0.7}, "ELU": {"alpha": 0.7}, "GELU": {}, "HARD_SIGMOID": {}, "LEAKY_RELU": {"alpha": 0.1},
        "LINEAR": {"alpha": -2.0, "beta": 1.0}, "PARAMETRIC_SOFTPLUS": {"alpha": 0.3, "beta": 1.5}, "RELU": {},
        "SCALED_ELU": {}, "SCALED_TANH": {"alpha": 0.9, "beta": 0.4}, "SHRINK": {}, "SIGMOID": {}, "SOFTPLUS": {},
        "SOFTSIGN": {}, "TANH": {}, "THRESHOLDED_RELU": {},
    }  # fmt: skip
    made = [named("ACTIVATION_" + name)(**attributes) for name, attributes in given.items()]
    return (*made, named("ELEMENT_WISE_CLIP")(min=-1.0, max=2.5))


def activation(rng: Rng) -> Desc | None:
    """A fused activation, or None in half of all cases. Functions of which Python decides some elements are rare."""
    choice = rng.random()
    if choice < 0.5:
        return None
    every: tuple[Desc, ...] = activations()
    cheap = [x for x in every if x.spec.name.endswith(("RELU", "LINEAR", "CLIP", "SIGMOID"))]
    found: Desc = pick(rng, every if choice > 0.9 else cheap)
    return found


# --- layouts ---


def strides_of(rng: Rng, sizes: Sequence[int], *, output: bool) -> tuple[int, ...] | None:
    """None for a packed tensor, or strides in any order of dimensions, with gaps; zeros too, if it is an input."""
    choice = rng.random()
    if choice < 0.4:
        return None
    found, reach = [0] * len(sizes), 1
    order = rng.permutation(len(sizes)) if rng.random() < 0.5 else [1, *range(len(sizes) - 1, 1, -1), 0]  # NHWC
    for d in map(int, order):
        if not output and rng.random() < 0.08:
            continue
        found[d] = reach + (int(rng.integers(0, 3)) if choice > 0.8 else 0)
        reach = (sizes[d] - 1) * found[d] + reach
    return tuple(found)


def tensor(rng: Rng, data_type: DataType, sizes: Sequence[int], *, output: bool = False, packed: bool = False) -> TensorDesc:
    return TensorDesc(data_type, tuple(sizes), strides=None if packed else strides_of(rng, sizes, output=output))


def with_lines(rng: Rng, data_type: DataType, sizes: Sequence[int]) -> TensorDesc:
    """A tensor whose last dimension is contiguous, with gaps between the lines."""
    found, reach = [1], sizes[-1]
    for n in sizes[:-1][::-1]:
        found.insert(0, reach + int(rng.integers(0, 3)))
        reach = (n - 1) * found[0] + reach
    return TensorDesc(data_type, tuple(sizes), strides=tuple(found))


# --- descs ---


def gemm(rng: Rng, most: tuple[int, int, int] = (20, 64, 30), **given: Any) -> Desc:
    """A GEMM. most: the largest M, K and N."""
    data_type, count = pick(rng, FLOATS), int(rng.integers(2, 5))
    batch, (m, k, n) = some(rng, 1, 3, count - 2), (int(rng.integers(1, x + 1)) for x in most)
    trans_a, trans_b, plain = (bool(rng.random() < 0.5) for _ in range(3))
    c = None
    if rng.random() < 0.5:
        c = tensor(rng, data_type, (*batch, m, n))
        if rng.random() < 0.5:  # broadcast along some dimensions, mostly along rows
            c = TensorDesc(data_type, c.sizes, strides=(*[0] * (count - 1), 1))
    fields = dict(
        a_tensor=tensor(rng, data_type, (*batch, k, m) if trans_a else (*batch, m, k)),
        b_tensor=tensor(rng, data_type, (*batch, n, k) if trans_b else (*batch, k, n)),
        c_tensor=c,
        output_tensor=tensor(rng, data_type, (*batch, m, n), output=True),
        trans_a="TRANSPOSE" if trans_a else "NONE",
        trans_b="TRANSPOSE" if trans_b else "NONE",
        alpha=1.0 if plain else pick(rng, FACTORS),
        beta=1.0 if plain else pick(rng, FACTORS),
        fused_activation=activation(rng),
    )
    made: Desc = named("GEMM")(**(fields | given))
    return made


def rows_times_columns(m: int, k: int, n: int, **fields: Any) -> Desc:
    """A GEMM of packed matrices of FLOAT32."""
    a, b, output = (TensorDesc(DataType.FLOAT32, sizes) for sizes in ((m, k), (k, n), (m, n)))
    made: Desc = named("GEMM")(a_tensor=a, b_tensor=b, output_tensor=output, **fields)
    return made


def convolution(rng: Rng, most: int = 9, channels: int = 4, *, square: bool = False, **given: Any) -> Desc:
    """A convolution of one to three dimensions.

    most: the largest input size of two-dimensional ones; channels: the most channels of a group. square: a forward convolution
    with a 3 x 3 filter, strides of 1, and contiguous lines in input and filter.
    """
    data_type, spatial = pick(rng, FLOATS), 2 if square else pick(rng, (1, 2, 2, 2, 3))
    backward = not square and given.get("direction", pick(rng, ("FORWARD", "FORWARD", "BACKWARD"))) == "BACKWARD"
    groups = pick(rng, (1, 1, 2, 3, 4))
    read, written = some(rng, 1, channels if groups == 1 else min(channels, 2), 2)
    reach = {1: 2 * most, 2: most, 3: max(most // 2, 2)}[spatial]
    inner, taps = some(rng, 1, reach, spatial), (3, 3) if square else some(rng, 1, 3, spatial)
    steps = rng.random(2) < (0 if square else 0.6)
    strides, dilations = (some(rng, 1, m, spatial) if step else (1,) * spatial for step, m in zip(steps, (4, 3), strict=True))
    start, end = ([int(n) for n in rng.integers(0, 4, spatial)] for _ in range(2))
    outer = []
    for a, (size, stride) in enumerate(zip(inner, strides, strict=True)):
        extent = 1 + (taps[a] - 1) * dilations[a]
        if backward:
            full = (size - 1) * stride + extent
            cut = max(min(start[a] + end[a], full - 1), 0)  # so that at least one element remains
            start[a] = min(start[a], cut)
            end[a] = cut - start[a]
            outer.append(full - cut + int(rng.integers(0, stride)))
        else:
            end[a] += max(extent - size - start[a] - end[a], 0)
            outer.append(1 + (size + start[a] + end[a] - extent) // stride)
    batches = int(rng.integers(1, 4))
    shape = (groups * read, written) if backward else (groups * written, read)
    bias = None
    if rng.random() < 0.5:
        bias = tensor(rng, data_type, (1, groups * written, *(1,) * spatial), packed=True)
    make = with_lines if square else tensor
    fields = dict(
        input_tensor=make(rng, data_type, (batches, groups * read, *inner)),
        filter_tensor=make(rng, data_type, (*shape, *taps)),
        bias_tensor=bias,
        output_tensor=tensor(rng, data_type, (batches, groups * written, *outer), output=True),
        mode="CROSS_CORRELATION" if square else pick(rng, ("CONVOLUTION", "CROSS_CORRELATION")),
        direction="BACKWARD" if backward else "FORWARD",
        strides=strides,
        dilations=dilations,
        start_padding=tuple(start),
        end_padding=tuple(end),
        group_count=groups,
        fused_activation=activation(rng),
    )
    made: Desc = named("CONVOLUTION")(**(fields | {"output_padding": (0,) * spatial} | given))
    return made


# --- data ---


def fill(rng: Rng, array: NDArray[Any], kind: str, *, special: bool = False) -> None:
    """Fill an array with elements of one kind; special: also with some infinities, NaN and other extremes."""
    with np.errstate(all="ignore"):
        name = f"FLOAT{8 * array.itemsize}"
        made = hostile_data.values(name, array.shape, rng, kind)
        if special:
            flat = made.reshape(-1)
            count = int(rng.integers(1, 4))
            flat[rng.integers(0, flat.size, count)] = hostile_data.values(name, count, rng, "specials")
    bits = f"u{array.itemsize}"
    array.view(bits)[...] = made.view(bits)


class Bound:
    """A desc bound to tensors between guard pages. executed: the number of outputs that were compared."""

    def __init__(self, desc: Desc, device: Device, *, at_end: bool, kernel_name: str = NAME) -> None:
        self.desc, self.device = desc, device
        self.compiled = device.compile(desc)
        assert self.compiled.kernel_name == kernel_name, f"{self.compiled.kernel_name}: {desc}"
        self.arrays: dict[str, NDArray[Any]] = {}
        self.executed = 0
        for name, field, t in desc.tensors():
            array, buffer = place(t.sizes, strides(t), t.data_type.dtype, at_end=at_end, canary=CANARY)
            self.arrays[name] = array
            if field.role == "output":
                self.output, self.buffer = array, buffer
        (self.name,) = (f.name for f in desc.spec.outputs)
        self.inputs = {name: array for name, array in self.arrays.items() if name != self.name}
        self.bound = self.compiled.bind(**self.arrays)

    def fill(self, rng: Rng, kind: str) -> None:
        special = rng.random() < 0.25
        for array in self.inputs.values():
            fill(
                rng,
                array,
                kind if rng.random() < 0.8 else pick(rng, hostile_data.KINDS),
                special=special and rng.random() < 0.5,
            )

    def check(self) -> None:
        """Execute, and compare all bytes of the output's memory: elements with the oracle's, other bytes with those before."""
        self.buffer[:] = CANARY
        self.bound.execute()
        got = self.buffer.copy()
        self.buffer[:] = CANARY
        # copied after the execution: elements may overlap
        given = {name: np.ascontiguousarray(array) for name, array in self.inputs.items()}
        wanted = expected(self.desc, given)[self.name]
        bits = f"u{wanted.itemsize}"
        self.output.view(bits)[...] = wanted.view(bits)
        self.executed += wanted.size
        if (got == self.buffer).all():
            return
        want = self.buffer.copy()
        self.buffer[:] = got
        different = np.argwhere(self.output.view(bits) != wanted.view(bits))
        self.buffer[:] = want
        assert len(different), f"bytes between the elements are written: {self.device.machine}, {self.desc}"
        at = tuple(different[0])
        self.buffer[:] = got
        raise AssertionError(
            f"{len(different)} of {wanted.size} differ on {self.device.machine}; at {at} is {self.output[at]!r} where the "
            f"oracle has {wanted[at]!r}: {self.desc}"
        )


def strides(t: TensorDesc) -> tuple[int, ...]:
    return tuple(0 if n == 1 else s for n, s in zip(t.sizes, t.explicit_strides, strict=True))


def run(desc: Desc, rng: Rng, device: Device, kinds: Sequence[str] = hostile_data.KINDS) -> int:
    """Assert that a kernel gives the oracle's bits for every kind of data, and return the number of outputs compared."""
    bound = Bound(desc, device, at_end=bool(rng.random() < 0.5))
    for kind in rng.permutation(list(kinds)).tolist():
        bound.fill(rng, kind)
        bound.check()
    return bound.executed


@contextmanager
def left_undecided(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A list with the number of elements that Python decides in each call of an operator that is compiled within."""
    counts: list[int] = []
    decide = places._decide

    def counting(bitmaps: Sequence[places.Bitmap], scratch: Any, arrays: Mapping[str, Any]) -> None:
        words = [scratch[found.first : found.first + found.words].view(np.uint8) for found in bitmaps]
        counts.append(sum(int(np.unpackbits(w).sum()) for w in words))
        decide(bitmaps, scratch, arrays)

    with patch.context() as within:
        within.setattr(places, "_decide", counting)
        yield counts
