"""Convolutions by Winograd's algorithm have the bits of direct sums, for all data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_undecided_contractions import counting

import hostile_data
from agreement import SOAK, bits
from anydml import DataType, Device, TensorDesc, TensorFlags, operators
from anydml.kernels.call.steps import At, Step
from anydml.kernels.code import engine, targets
from anydml.kernels.contract.floats import family, tuning
from anydml.kernels.contract.floats.packed import tile
from anydml.kernels.contract.floats.packed.magnitudes import DENSE
from anydml.kernels.contract.floats.winograd import again, inputs, kernels, plan, redo, transform
from anydml.kernels.contract.floats.winograd import filters as packing
from anydml.kernels.contract.floats.winograd.plan import WinogradPlan
from anydml.kernels.contract.floats.winograd.windows import LEAST_OUTPUTS
from anydml.kernels.undecided.state import COUNT
from anydml.schema.operator import Desc
from drawn_contractions import NAME, run
from guard_pages import AVAILABLE
from tensors import array_for
from tuned import tuned

Array = NDArray[Any]
# one for each size of vectors: the others differ only in integer instructions
ISAS = list({t.vector_bytes: t.name for t in reversed(targets.targets())}.values())
KINDS = (*hostile_data.KINDS, "spoilt", "zeros", "edges", "signs")


def described(x: TensorDesc, f: TensorDesc, y: TensorDesc, padding: Sequence[int], groups: int = 1, **more: Any) -> Desc:
    """A convolution with padding above, left, below and right."""
    make: Any = operators.find("CONVOLUTION")
    made: Desc = make(
        input_tensor=x, filter_tensor=f, output_tensor=y, mode="CROSS_CORRELATION", direction="FORWARD", strides=(1, 1),
        dilations=(1, 1), start_padding=padding[:2], end_padding=padding[2:], output_padding=(0, 0), group_count=groups, **more,
    )  # fmt: skip
    return made


def convolution(x: Array, f: Array, padding: Sequence[int], groups: int = 1, **more: Any) -> Desc:
    """The convolution of packed arrays."""
    sizes = [n + padding[k] + padding[k + 2] - f.shape[k + 2] + 1 for k, n in enumerate(x.shape[2:])]
    y = TensorDesc(DataType[x.dtype.name.upper()], (x.shape[0], f.shape[0], *sizes))
    return described(TensorDesc.of(x), TensorDesc.of(f), y, padding, groups, **more)


def drawn(rng: np.random.Generator, dtype: str, sizes: tuple[int, ...], kind: str) -> Array:
    """Elements of a kind.

    spoilt: some infinities and NaN; zeros: lines of zeros of both signs; edges: from tiny to huge; signs: 1 and -1.
    """
    if kind in hostile_data.KINDS:
        return hostile_data.values(dtype.upper(), sizes, rng, kind)
    made = rng.standard_normal(sizes)
    if kind == "spoilt":
        made[rng.random(sizes) < 0.002] = rng.choice([np.inf, -np.inf, np.nan])
    elif kind == "zeros":
        made[rng.random((*sizes[:2], 1, 1)).repeat(sizes[2], 2).repeat(sizes[3], 3) < 0.5] = -0.0
        made[..., : sizes[2] // 2, :] = rng.choice([0.0, -0.0])
    elif kind == "signs":
        made = np.sign(made)
    else:
        made = np.ldexp(made, rng.integers(-14, 14, sizes) * (1 if dtype == "float16" else 9))
    with np.errstate(over="ignore"):
        return made.astype(dtype)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[WinogradPlan]:
    """The plans of all layouts for which the algorithm is possible, whether or not it would be chosen."""
    made: list[WinogradPlan] = []

    class Noted(WinogradPlan):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(family, "WinogradPlan", Noted)
    monkeypatch.setattr(family, "pays", lambda *found: True)
    return made


def executed(desc: Desc, inputs: dict[str, Array], isa: str, threads: int = 1) -> Array:
    compiled = Device(isa=isa, threads=threads).compile(desc)
    assert compiled.kernel_name == NAME
    output = array_for(desc.output_tensor)  # type: ignore[attr-defined]
    compiled.bind(**inputs, output_tensor=output).execute()
    return output


def both(desc: Desc, inputs: dict[str, Array], isa: str, plans: list[WinogradPlan], threads: int = 1) -> Array:
    """The output of Winograd's algorithm, after a comparison with the direct sums."""
    plans.clear()
    found = executed(desc, inputs, isa, threads)
    assert len(plans) == 1, "another algorithm was taken"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family, "pays", lambda *found: False)
        direct = executed(desc, inputs, isa, threads)
    assert len(plans) == 1
    different = np.flatnonzero(bits(found) != bits(direct))
    assert not different.size, f"{different.size} of {found.size} differ, first {different[0]}: {desc}"
    return found


@pytest.mark.parametrize("taps", transform.TRANSFORMS)
def test_the_transforms_multiply_polynomials(taps: int) -> None:
    """A ((G g) * (B d)) is the filter's result for each window, in fractions; the points' own G is rounded."""
    winograd = transform.TRANSFORMS[taps]
    points = [Fraction(0), *(Fraction(x) for p in winograd.points for x in (p, -p))]
    scales = []
    for p in points:
        scale = Fraction(1)
        for other in points:
            scale *= p - other if other != p else 1
        scales.append(scale)
    exact = [[p**n / scale for n in range(taps)] for p, scale in zip(points, scales, strict=True)]
    exact.append([Fraction(n == taps - 1) for n in range(taps)])
    for made, wanted in zip(winograd.filters, exact, strict=True):
        for x, y in zip(made, wanted, strict=True):
            assert abs(Fraction(float(x)) - y) <= abs(y) * Fraction(1, 2**51)
    inner = [[Fraction(float(x)) for x in row] for row in winograd.inputs]
    outer = [[Fraction(float(x)) for x in row] for row in winograd.outputs]
    for i in range(4):
        for g in range(taps):
            for d in range(winograd.read):
                found = sum(outer[i][t] * exact[t][g] * inner[t][d] for t in range(winograd.read))
                assert found == (d == i + g)


@pytest.mark.parametrize("isa", ISAS if SOAK > 1 else ISAS[-1:])
def test_random_and_hostile_data(isa: str, plans: list[WinogradPlan]) -> None:
    """Borders, sizes that are not multiples of 4, images, groups and both types, compared with direct sums."""
    for n in range(len(KINDS) * SOAK):
        rng = np.random.default_rng(n)
        kind, dtype = KINDS[n % len(KINDS)], "float16" if rng.random() < 0.25 else "float32"
        images, groups = (int(k) for k in rng.integers(1, 3, 2))
        # with fewer channels, the kernel of small planes is chosen
        channels, filters = int(rng.integers(5, 20)), int(rng.integers(8, 10))
        taps = 3 if n % 2 else 5
        height, width = (int(k) for k in rng.integers(taps + 1, 22, 2))
        padding = [int(k) for k in rng.integers(0, 3, 4)]
        x = drawn(rng, dtype, (images, groups * channels, height, width), kind)
        f = drawn(rng, dtype, (groups * filters, channels, taps, taps), "ordinary" if kind == "zeros" else kind)
        inputs = dict(input_tensor=x, filter_tensor=f)
        more: dict[str, Any] = {}
        if rng.random() < 0.5:
            inputs["bias_tensor"] = drawn(rng, dtype, (1, groups * filters, 1, 1), "ordinary")
            more["bias_tensor"] = TensorDesc.of(inputs["bias_tensor"])
        if rng.random() < 0.3:
            relu: Any = operators.find("ACTIVATION_RELU")
            more["fused_activation"] = relu()
        both(convolution(x, f, padding, groups, **more), inputs, isa, plans, int(rng.integers(1, 4)))


def spread(rng: np.random.Generator, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor with gaps between lines, channels and images; channels are planes, lines or innermost."""
    _, channels, height, width = sizes
    gaps = [int(n) for n in rng.integers(0, 4, 3)]
    kind = rng.random()
    if kind < 0.2:  # lines of the channels alternate
        line = channels * width + gaps[0]
        return line * height + gaps[1], width, line, 1
    if kind < 0.6:  # all channels of a position, with or without steps
        channel = 1 + int(kind < 0.3)
        place = channel * channels + gaps[0]
        line = place * width + gaps[1]
        return line * height + gaps[2], channel, line, place
    line = width + gaps[0]
    plane = line * height + gaps[1]
    return plane * channels + gaps[2], plane, line, 1


@pytest.mark.skipif(not AVAILABLE, reason="pages cannot be guarded")
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow")
@pytest.mark.parametrize("isa", ISAS)
def test_the_oracle_has_the_same_bits(isa: str, plans: list[WinogradPlan]) -> None:
    """Tensors next to unmapped pages, with gaps between lines; nothing else is written."""
    compared = 0
    for n in range(5 * SOAK):
        rng = np.random.default_rng((11, n))
        data_type, groups = (DataType.FLOAT16 if n % 4 == 3 else DataType.FLOAT32), 1 + n % 2
        taps = 5 if n % 3 == 1 else 3
        height, width = (int(k) for k in rng.integers(taps + 1, 10, 2))
        padding = [0] * 4 if n % 5 == 0 else [int(k) for k in rng.integers(0, 4, 4)]
        sizes: list[tuple[int, ...]] = [
            (2, 4 * groups, height, width),
            (2 * groups, 4, taps, taps),
        ]  # channels that are not taken for positions
        sizes.append((2, 2 * groups, *(n + padding[k] + padding[k + 2] - taps + 1 for k, n in enumerate((height, width)))))
        outputs = sizes[2][2:]
        if 2 * math.prod(outputs) < math.prod(4 * -(-n // 4) for n in outputs) or math.prod(outputs) < LEAST_OUTPUTS:
            continue  # transforms do not pay: other kernels compute it
        x, f, y = (TensorDesc(data_type, s, strides=spread(rng, s)) for s in sizes)
        desc = described(x, f, y, padding, groups)
        plans.clear()
        compared += run(desc, rng, Device(isa=isa, threads=1), ["ordinary", "specials", "ties", "cancelling", "small"])
        assert len(plans) == 1, desc
    assert compared > 1000


@pytest.mark.parametrize("isa", ISAS)
def test_zeros_keep_their_signs_and_infinities_their_windows(isa: str, plans: list[WinogradPlan]) -> None:
    """The sum is -0 if all terms are, also at the borders; elements that no window contains affect no output."""
    rng = np.random.default_rng(3)
    x, f = np.zeros((1, 3, 10, 11), np.float32), -np.abs(rng.standard_normal((8, 3, 3, 3))).astype(np.float32)
    f[0] = -f[0]
    inputs = dict(input_tensor=x, filter_tensor=f)
    found = both(convolution(x, f, (1, 1, 1, 1)), inputs, isa, plans)
    assert not found.any()
    assert np.signbit(found[:, 1:]).all()
    assert not np.signbit(found[:, 0]).any()
    f[1, 2, 1, 1], f[2, 2, 1, 1], f[3, 2] = np.inf, np.nan, 1.0
    found = both(convolution(x, f, (1, 1, 1, 1)), inputs, isa, plans)
    assert np.isnan(found[:, 1:3]).all()
    assert not np.signbit(found[:, 3]).any()
    f[1:4] = -1.0
    x[...] = rng.standard_normal(x.shape)
    for value in (np.inf, -np.inf, np.nan):
        for row, column in ((4, 4), (5, 6), (0, 10)):
            x[0, 1, row, column] = value
            found = both(convolution(x, f, (1, 1, 1, 1)), inputs, isa, plans)
            near = (abs(np.arange(10)[:, None] - row) <= 1) & (abs(np.arange(11) - column) <= 1)
            assert (np.isfinite(found) == ~near).all()
            assert (np.isnan(found) == (near & np.isnan(value))).all()
            x[0, 1, row, column] = 1


@pytest.mark.parametrize("isa", ISAS)
def test_layers_of_zeros_and_ones_are_decided_in_sums(
    isa: str, plans: list[WinogradPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bias, a zero needs no sign, and no sum of zeros is computed directly.

    Sums of a few elements of the filter are often ties; they are exact, with signs of zeros. For these, whole blocks are
    summed, and no sum needs three float64.
    """
    counts, stored = np.zeros(3, np.int64), WinogradPlan._stored

    def counted(self: WinogradPlan, *where: Any) -> Iterator[Step]:
        def count(place: At, n: int) -> Step:
            return Step(engine.compiled(counting, self.target), (place, counts[n:].ctypes.data))

        first, redo, *again, last = stored(self, *where)
        listed = self.counter + 8 * COUNT
        yield from (first, count(listed, 0), redo, count(self.counter + DENSE, 1), *again, count(listed, 2), last)

    monkeypatch.setattr(WinogradPlan, "_stored", counted)
    rng = np.random.default_rng(5)
    f = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    bias = rng.standard_normal((1, 16, 1, 1)).astype(np.float32)
    for kind in ("zeros", "ones", "zeros without a bias", "padding without a bias", "normal"):
        x = rng.standard_normal((2, 16, 20, 20)).astype(np.float32)
        x[..., 10 if "padding" in kind else x.shape[2] if kind == "normal" else 0 :, :] = 0
        if kind == "ones":
            np.put_along_axis(x, rng.integers(0, 20, (2, 16, 20, 1)), 1, -1)
        counts[:] = 0
        inputs = dict(input_tensor=x, filter_tensor=f)
        more: dict[str, Any] = {}
        if "without" not in kind:
            inputs["bias_tensor"], more["bias_tensor"] = bias, TensorDesc.of(bias)
        both(convolution(x, f, (1, 1, 1, 1), **more), inputs, isa, plans)
        if kind in ("zeros", "normal"):
            assert counts[0] <= 3, kind
            assert not counts[1], kind
        else:
            assert counts[1], kind
        assert counts[2] <= (3 if kind == "normal" or "padding" in kind else 0), f"{kind}: {counts}"


@pytest.mark.parametrize("isa", ISAS)
def test_blocks_that_are_summed_again(isa: str, plans: list[WinogradPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, because the bounds decide nothing: at edges, with few filters, with gaps between lines."""
    monkeypatch.setattr(plan, "SLACK", 2.0**60)
    for n, kind in enumerate(("ordinary", "spoilt", "zeros", "signs", "specials", "edges") * SOAK):
        rng = np.random.default_rng((2, n))
        dtype, groups, channels, filters = ("float32", "float16")[n % 2], 1 + n % 2, 4 + n % 3, int(rng.integers(5, 12))
        taps = 5 if n % 4 < 2 else 3
        padding = [int(k) for k in rng.integers(0, 3, 4)]
        x = drawn(rng, dtype, (2, groups * channels, *(int(k) for k in rng.integers(5, 40, 2))), kind)
        f = drawn(rng, dtype, (groups * filters, channels, taps, taps), "ordinary" if kind == "zeros" else kind)
        inputs = dict(input_tensor=x, filter_tensor=f)
        more: dict[str, Any] = {}
        if n % 3 == 0:
            inputs["bias_tensor"] = drawn(rng, dtype, (1, groups * filters, 1, 1), "ordinary")
            more["bias_tensor"] = TensorDesc.of(inputs["bias_tensor"])
        both(convolution(x, f, padding, groups, **more), inputs, isa, plans)


def test_long_calls_are_cut(plans: list[WinogradPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller can be interrupted between phases."""
    tuned(monkeypatch, tuning, long=1 << 16)
    rng = np.random.default_rng(9)
    for images, groups in ((3, 1), (1, 5)):
        x = drawn(rng, "float32", (images, 4 * groups, 13, 14), "ordinary")
        f = drawn(rng, "float32", (8 * groups, 4, 3, 3), "ordinary")
        for threads in (1, 2):
            both(convolution(x, f, (1, 1, 1, 1), groups), dict(input_tensor=x, filter_tensor=f), ISAS[0], plans, threads)
            assert len(plans[0].phases) > 1


@pytest.mark.parametrize("isa", ISAS)
def test_many_channels_and_tiles(isa: str, plans: list[WinogradPlan]) -> None:
    """Several blocks of terms, panels of every width, and several chunks of tiles and filters."""
    rng = np.random.default_rng(7)
    for channels, filters, height, width in ((150, 40, 9, 13), (16, 40, 40, 50)):
        x = drawn(rng, "float32", (1, channels, height, width), "ordinary")
        f = drawn(rng, "float32", (filters, channels, 3, 3), "edges")
        desc, inputs = convolution(x, f, (1, 0, 1, 2)), dict(input_tensor=x, filter_tensor=f)
        assert (bits(both(desc, inputs, isa, plans)) == bits(both(desc, inputs, isa, plans, 3))).all()


@pytest.mark.parametrize("isa", ISAS)
def test_owned_filters_are_packed_once(isa: str, plans: list[WinogradPlan]) -> None:
    """In every group, for all threads; packed filters take about as much memory as the filters, plus their norms."""
    rng = np.random.default_rng(5)
    for dtype, images, groups, threads in (("float32", 1, 1, 1), ("float32", 3, 2, 2), ("float16", 1, 3, 3)):
        x = drawn(rng, dtype, (images, groups * 40, 9, 10), "ordinary")
        f = drawn(rng, dtype, (groups * 27, 40, 3, 3), "ordinary")
        desc = convolution(x, f, (1, 1, 1, 1), groups)
        expected = both(desc, dict(input_tensor=x, filter_tensor=f), isa, plans)
        owned = TensorDesc(DataType[dtype.upper()], f.shape, flags=TensorFlags.OWNED_BY_DML)
        change: dict[str, Any] = dict(filter_tensor=owned)
        compiled = Device(isa=isa, threads=threads).compile(dataclasses.replace(desc, **change))
        assert len(plans) == 2
        compiled.initialize(filter_tensor=f)
        f[...] = 0  # not read again
        found = np.empty_like(expected)
        for _ in range(2):
            compiled.bind(input_tensor=x, output_tensor=found).execute()
            assert (bits(found) == bits(expected)).all()
        packed = groups * 32 * (40 * 9 * 4 + 2 * 8)
        assert compiled.binding_properties.persistent_resource_size <= f.nbytes + packed + 36 * 64 + 1024


def test_channels_may_be_innermost(plans: list[WinogradPlan]) -> None:
    """With and without padding, in the input, the filter and the output."""
    rng = np.random.default_rng(12)
    x, f = drawn(rng, "float32", (2, 6, 9, 11), "ordinary"), drawn(rng, "float32", (10, 6, 3, 3), "ordinary")
    for padding in ((1, 1, 1, 1), (0, 0, 0, 0)):
        desc = convolution(x, f, padding)
        expected = executed(desc, dict(input_tensor=x, filter_tensor=f), ISAS[0])
        last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, f, expected)]
        of = [TensorDesc(DataType.FLOAT32, a.shape, strides=tuple(n // a.itemsize for n in a.strides)) for a in last]
        for isa in ISAS:
            plans.clear()
            compiled = Device(isa=isa, threads=1).compile(described(of[0], of[1], of[2], padding))
            assert compiled.kernel_name == NAME
            assert len(plans) == 1, padding
            last[2][...] = 0
            compiled.bind(input_tensor=last[0], filter_tensor=last[1], output_tensor=last[2]).execute()
            assert (bits(np.ascontiguousarray(last[2])) == bits(expected)).all()


def test_images_of_planes_share_owned_filters(plans: list[WinogradPlan]) -> None:
    """Five dimensions and a filter of one plane: planes are batches with the same filters, which are packed once."""
    rng = np.random.default_rng(8)
    x, f = drawn(rng, "float32", (3, 5, 4, 9, 8), "ordinary"), drawn(rng, "float32", (9, 5, 1, 3, 3), "ordinary")
    y = TensorDesc(DataType.FLOAT32, (3, 9, 4, 9, 8))
    desc = convolution(x[:, :, 0], f[:, :, 0], (1, 1, 1, 1))
    owned = TensorDesc(DataType.FLOAT32, f.shape, flags=TensorFlags.OWNED_BY_DML)
    change: dict[str, Any] = dict(
        input_tensor=TensorDesc.of(x), filter_tensor=owned, output_tensor=y, strides=(1, 1, 1), dilations=(1, 1, 1),
        start_padding=(0, 1, 1), end_padding=(0, 1, 1), output_padding=(0, 0, 0), dimension_count=3,
    )  # fmt: skip
    plans.clear()
    compiled = Device(threads=1).compile(dataclasses.replace(desc, **change))
    assert compiled.kernel_name == NAME
    assert len(plans) == 1
    compiled.initialize(filter_tensor=f)
    found = np.empty(y.sizes, np.float32)
    compiled.bind(input_tensor=x, output_tensor=found).execute()
    assert compiled.binding_properties.persistent_resource_size < 5 * f.nbytes
    for plane in range(4):
        inputs = dict(input_tensor=np.ascontiguousarray(x[:, :, plane]), filter_tensor=np.ascontiguousarray(f[:, :, 0]))
        expected = executed(convolution(inputs["input_tensor"], inputs["filter_tensor"], (1, 1, 1, 1)), inputs, ISAS[0])
        assert (bits(found[:, :, plane]) == bits(expected)).all()


@pytest.mark.parametrize("isa", ISAS)
def test_frames_are_smaller_than_a_page(isa: str, plans: list[WinogradPlan]) -> None:
    """Larger ones need a function on Windows that is not linked. Those of 5 x 5 and FLOAT16 are the largest."""
    x, f = np.zeros((1, 6, 9, 9), np.float16), np.zeros((8, 6, 5, 5), np.float16)
    Device(isa=isa).compile(convolution(x, f, (2, 2, 2, 2)))
    target, key, half = plans[0].target, plans[0].key._replace(padded=False), DataType.FLOAT16
    emitted: list[tuple[Any, ...]] = [
        (packing.packed, half, 5),
        (inputs.transformed, half, tile.height(target) // (target.vector_bytes // 8), True, 5),
        (kernels.products, tile.height(target), 1, tile.vectors(target), 5),
        (kernels.sums, 5),
        (redo.summed, key, (half, half), True, 5),
        (again.summed, (half, half), True, 5),
    ]
    for emit, *arguments in emitted:
        assert engine.within(emit, target, 4096, *arguments) is not None, emit


def test_which_convolutions_are_transformed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with enough channels, filters and outputs."""
    made = []

    class Noted(WinogradPlan):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(family, "WinogradPlan", Noted)
    least, of_5 = tuning.TUNING.fewest_channels, tuning.TUNING.fewest_channels_of_5
    taken = ((64, 64, 56, 3), (256, 256, 14, 3), (64, 64, 7, 3), (least, 64, 56, 3), (of_5, 8, 28, 5), (8, 16, 14, 5))
    others = ((512, 512, 4, 3), (least - 1, 64, 56, 3), (64, 4, 56, 3), (8, 8, 12, 3), (64, 4, 28, 5), (1, 5, 8, 5))
    sizes = [(*size, size in taken) for size in (*taken, *others)]
    for channels, filters, size, taps, wanted in sizes:
        made.clear()
        x, f = np.zeros((1, channels, size, size), np.float32), np.zeros((filters, channels, taps, taps), np.float32)
        Device().compile(convolution(x, f, (taps // 2,) * 4))
        assert len(made) == wanted, (channels, filters, size, taps)
