"""Small planes, compared with the oracle: convolutions with lines shorter than a vector, and windows that tile narrow lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_whole_images import with_zeros
from test_windows import executed, pooling, same

import anydml as dml
import hostile_data
from anydml import DataType, TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.packed import flat_panels
from anydml.kernels.contract.floats.planes import flat as flat_planes
from anydml.kernels.contract.floats.planes import plan as planes_plan
from anydml.kernels.contract.floats.planes import seen
from anydml.kernels.windows import narrow
from anydml.kernels.windows import tuning as windows_tuning
from drawn_contractions import Bound, Rng, activation, left_undecided, named, pick, run, some
from every_kernel import SOAK, Ran, without_dot_products
from guard_pages import AVAILABLE
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
WIDEST = [t.name for t in without_dot_products() if t.vector_bytes == 64]
F32 = DataType.FLOAT32


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each plan, whether its columns are small planes."""
    found: list[bool] = []
    serves = flat_panels.serves

    def noted(*arguments: Any) -> bool:
        found.append(serves(*arguments))
        return found[-1]

    monkeypatch.setattr(flat_panels, "serves", noted)
    return found


def planes(rng: Rng, **given: Any) -> Any:
    """A convolution of small planes that keeps their sizes: any odd filter, several images and channels, with gaps."""
    data_type, batches = pick(rng, (F32, F32, DataType.FLOAT16)), int(rng.integers(1, 7))
    inner, taps = some(rng, 2, pick(rng, (4, 9, 20)), 2), pick(rng, ((3, 3), (3, 3), (1, 3), (5, 5), (3, 1)))
    read, written = int(rng.integers(1, 4)), int(rng.integers(5, 19))
    apart = inner[0] * inner[1] + int(rng.integers(0, 2))
    dilations = pick(rng, ((1, 1), (1, 1), (2, 1)))
    padding = tuple((taps[a] - 1) * dilations[a] // 2 for a in range(2))
    fields = dict(
        input_tensor=TensorDesc(data_type, (batches, read, *inner), strides=(read * apart, apart, inner[1], 1)),
        filter_tensor=TensorDesc(data_type, (written, read, *taps)),
        bias_tensor=TensorDesc(data_type, (1, written, 1, 1)) if rng.random() < 0.7 else None,
        output_tensor=TensorDesc(data_type, (batches, written, *inner)),
        mode=pick(rng, ("CONVOLUTION", "CROSS_CORRELATION")), strides=(1, 1), dilations=dilations,
        start_padding=padding, end_padding=padding, output_padding=(0, 0), fused_activation=activation(rng),
    )  # fmt: skip
    return named("CONVOLUTION")(**(fields | given))


@pytest.mark.parametrize("isa", ISAS)
def test_planes_as_columns(isa: str, flat: list[bool], ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, alone=0)
    compared = 0
    for case in range(6 * SOAK):
        rng = np.random.default_rng((21, case))
        kinds = ["ordinary", pick(rng, hostile_data.KINDS), "specials"]
        compared += run(planes(rng), rng, dml.Device(isa=isa, threads=1 + case % 2), kinds)
    assert sum(flat) >= 0.5 * len(flat) > 0
    ran(compared, 5_000)


def test_planes_one_behind_another(flat: list[bool], ran: Ran) -> None:
    """In three dimensions, a position of the filter is inside for some planes only."""
    compared = 0
    for case, taps in enumerate(((3, 3, 1), (3, 1, 3), (2, 3, 3), (1, 3, 3))):
        rng = np.random.default_rng((22, case))
        sizes, padding = (4, 5, 7), tuple(n // 2 for n in taps)
        end = tuple(n - 1 - before for n, before in zip(taps, padding, strict=True))
        desc = planes(
            rng, input_tensor=TensorDesc(F32, (2, 2, *sizes)), filter_tensor=TensorDesc(F32, (6, 2, *taps)), bias_tensor=None,
            output_tensor=TensorDesc(F32, (2, 6, *sizes)), strides=(1,) * 3, dilations=(1,) * 3, output_padding=(0,) * 3,
            start_padding=padding, end_padding=end, fused_activation=None,
        )  # fmt: skip
        compared += run(desc, rng, dml.Device(isa=ISAS[case % len(ISAS)], threads=1), ["ordinary", "specials"])
    assert flat
    assert all(flat)
    ran(compared, 4 * 2 * 6 * 140)


@pytest.mark.parametrize("isa", ISAS)
def test_exact_sums_with_a_bias(isa: str, flat: list[bool], ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such sums are often halfway between two floats; with a bias, a sum of 0 has no sign."""
    rng, relu = np.random.default_rng(5), named("ACTIVATION_RELU")()
    x, filters = TensorDesc(F32, (3, 1, 8, 8)), TensorDesc(F32, (8, 1, 3, 3))
    desc = planes(
        rng, input_tensor=x, filter_tensor=filters, bias_tensor=TensorDesc(F32, (1, 8, 1, 1)), mode="CROSS_CORRELATION",
        output_tensor=TensorDesc(F32, (3, 8, 8, 8)), dilations=(1, 1), start_padding=(1, 1), end_padding=(1, 1),
        fused_activation=relu,
    )  # fmt: skip
    with left_undecided(monkeypatch) as counts:
        bound = Bound(desc, dml.Device(isa=isa, threads=1), at_end=True)
        for zeros in (0, 0.7):
            image = np.where(rng.random((3, 1, 8, 8)) < zeros, 0, rng.integers(0, 17, (3, 1, 8, 8))) / 16
            bound.arrays["input_tensor"][...] = image
            bound.arrays["filter_tensor"][...] = rng.integers(-99, 99, (8, 1, 3, 3)) * 2.0**-6 + 2.0**-20
            bound.arrays["bias_tensor"][...] = np.where(np.arange(8) % 4, rng.integers(1, 99, 8) * 2.0**-17, -0.0)[
                :, None, None
            ]
            bound.check()
    assert all(flat)
    assert not sum(counts)
    ran(bound.executed, 2 * 3 * 8 * 64)


@pytest.mark.parametrize("isa", ISAS if SOAK > 1 else ISAS[-1:])
def test_whole_strips_leave_no_half_strip_to_note(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a band of zeros, all vectors of all strips are noted; others would be written over the list of the band before.

    There, sums of 1, 2^-24 and 2^-70 are listed: float64 has them as ties.
    """
    tuned(monkeypatch, tuning, alone=0, band=16 * 32 * 4)
    x, f = TensorDesc(F32, (1, 2, 48, 32)), TensorDesc(F32, (2, 1, 3, 3))
    desc = planes(
        np.random.default_rng(0), input_tensor=x, filter_tensor=f, bias_tensor=None, output_tensor=x, dilations=(1, 1),
        mode="CROSS_CORRELATION", start_padding=(1, 1), end_padding=(1, 1), group_count=2, fused_activation=None,
    )  # fmt: skip
    bound = Bound(desc, dml.Device(isa=isa, threads=1), at_end=True)
    for array in bound.inputs.values():
        array[...] = 0
    bound.arrays["input_tensor"][:, :, :14] = 1
    bound.arrays["filter_tensor"][:, :, 1] = 2.0**-24, 1, 2.0**-70
    bound.check()


@pytest.mark.parametrize("isa", ISAS)
def test_lines_that_are_read_as_one_vector(isa: str, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depthwise filters over lines of a few elements, with and without padding on either side."""
    keys: list[seen.FilterKey] = []

    def noted(*fields: Any) -> seen.FilterKey:
        keys.append(seen.FilterKey(*fields))
        return keys[-1]

    monkeypatch.setattr(planes_plan, "FilterKey", noted)
    compared = 0
    for case in range(6 * SOAK):
        rng = np.random.default_rng((23, case))
        data_type, channels, high = pick(rng, (F32, F32, DataType.FLOAT16)), int(rng.integers(1, 7)), int(rng.integers(1, 9))
        taps = pick(rng, ((3, 3), (3, 2), (1, 2), (2, 4)))
        before, after = ((int(rng.integers(0, n)), int(rng.integers(0, n))) for n in taps), int(rng.integers(1, 7))
        (top, bottom), (left, right) = before
        wide = max(after + taps[1] - 1 - left - right, 1)
        output = high + top + bottom - taps[0] + 1, wide + left + right - taps[1] + 1
        if min(output) < 1:
            continue
        desc = planes(
            rng, input_tensor=TensorDesc(data_type, (2, channels, high, wide)),
            filter_tensor=TensorDesc(data_type, (channels, 1, *taps)), bias_tensor=TensorDesc(data_type, (1, channels, 1, 1)),
            output_tensor=TensorDesc(data_type, (2, channels, *output)), dilations=(1, 1), start_padding=(top, left),
            end_padding=(bottom, right), group_count=channels,
        )  # fmt: skip
        kinds = ["ordinary", pick(rng, hostile_data.KINDS), "specials"]
        compared += run(desc, rng, dml.Device(isa=isa, threads=1 + case % 2), kinds)
    assert any(key.single for key in keys) or not any(key.narrow for key in keys)
    ran(compared, 500)


def depthwise(rng: Rng, data_type: DataType, high: int, wide: int) -> Any:
    """A depthwise convolution that keeps the size of its planes, with padding at any of their edges."""
    channels, taps = int(rng.integers(1, 11)), pick(rng, ((3, 3), (3, 3), (1, 3), (3, 1), (2, 3), (3, 2)))
    top, left = (int(rng.integers(0, n)) for n in taps)
    x = TensorDesc(data_type, (2, channels, high, wide))
    return named("CONVOLUTION")(
        input_tensor=x, filter_tensor=TensorDesc(data_type, (channels, 1, *taps)), output_tensor=x, mode="CROSS_CORRELATION",
        bias_tensor=TensorDesc(data_type, (1, channels, 1, 1)) if rng.random() < 0.7 else None, strides=(1, 1),
        dilations=(1, 1), start_padding=(top, left), end_padding=(taps[0] - 1 - top, taps[1] - 1 - left), output_padding=(0, 0),
        group_count=channels, fused_activation=activation(rng),
    )  # fmt: skip


# narrower vectors have hardly any idle lanes: planes are never computed as single lines with them
@pytest.mark.skipif(not WIDEST, reason="no vectors of 64 bytes")
def test_planes_as_single_lines(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes of lines that leave lanes idle, of whole vectors or not; zeros, of which each line is noted once."""
    rooms: list[Any] = []
    real = flat_planes.room

    def noted(*arguments: Any) -> Any:
        rooms.append(real(*arguments))
        return rooms[-1]

    monkeypatch.setattr(flat_planes, "room", noted)
    tuned(monkeypatch, tuning, alone=0, flat=1 << 12)
    compared = 0
    for case in range(3 * SOAK):
        rng = np.random.default_rng((24, case))
        wide = pick(rng, (3, 4, 5, 6, 9, 10, 11, 12, 13, 17, 18, 19, 20, 25, 33))
        high = int(rng.integers(-(-16 // wide), pick(rng, (8, 8, 40)) + -(-16 // wide)))
        desc = depthwise(rng, pick(rng, (F32, F32, DataType.FLOAT16)), high, wide)
        bound = Bound(desc, dml.Device(isa=WIDEST[0], threads=1 + case % 2), at_end=bool(case % 3))
        for kind in ("ordinary", pick(rng, hostile_data.KINDS), "specials", "small"):
            bound.fill(rng, kind)
            if kind in ("ordinary", "small"):
                bound.arrays["input_tensor"][rng.random((2, len(bound.arrays["filter_tensor"]), high)) < 0.6] = 0
            bound.check()
        compared += bound.executed
    assert len(rooms) >= 2 * SOAK
    ran(compared, 3_000)


# --- pooling ---

TILES = [  # sizes and windows: lines of one element and of a whole vector, one plane, windows of three, of one line, in depth
    ((3, 2, 8, 8), (2, 2)),
    ((1, 5, 4, 4), (2, 2)),
    ((2, 3, 6, 4), (3, 2)),
    ((2, 1, 3, 12), (1, 3)),
    ((5, 3, 2, 2), (2, 1)),
    ((1, 1, 2, 2), (1, 2)),
    ((7, 3, 9, 24), (3, 3)),
    ((2, 2, 4, 32), (2, 2)),
    ((1, 3, 3, 4, 8), (1, 2, 2)),
]


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each window, whether it is compiled for narrow lines."""
    found: list[bool] = []
    real = narrow.narrow

    def noted(*arguments: Any) -> Any:
        made = real(*arguments)
        found.append(made is not None)
        return made

    monkeypatch.setattr(narrow, "narrow", noted)
    tuned(monkeypatch, windows_tuning, alone=0)
    return found


@pytest.mark.parametrize("isa", ISAS)
def test_windows_that_tile_narrow_lines(isa: str, tiled: list[bool], ran: Ran) -> None:
    compared = 0
    for data_type in (F32, DataType.FLOAT16, DataType.INT8, DataType.UINT8, DataType.INT32, DataType.UINT64):
        for at, (sizes, window) in enumerate(TILES):
            rng = np.random.default_rng(at)
            desc = pooling("MAX_POOLING2", data_type, sizes, window, strides=window)
            for kind in ("ordinary", "specials"):
                x = hostile_data.values(data_type.name, sizes, rng, kind)
                compared += same(desc, {"input_tensor": x}, executed(desc, {"input_tensor": x}, isa, 1 + at % 3))
            if data_type.dtype.kind == "f":
                x = with_zeros(hostile_data.values(data_type.name, sizes, rng, "ordinary"))
                compared += same(desc, {"input_tensor": x}, executed(desc, {"input_tensor": x}, isa, 2))
    assert sum(tiled) > 0.8 * len(tiled)
    ran(compared, 5_000)


def test_windows_that_do_not_tile(tiled: list[bool]) -> None:
    """Padding, overlaps, gaps, and lines that are left out or cut: these use the usual kernel."""
    sizes = (2, 3, 4, 8)
    for fields in (
        dict(window=(2, 2), strides=(2, 2), start=(1, 1)),
        dict(window=(2, 2), strides=(1, 2)),
        dict(window=(2, 2), strides=(2, 2), dilations=(2, 1)),
        dict(window=(2, 2), strides=(2, 3)),
        dict(window=(3, 2), strides=(3, 2)),
        dict(window=(2, 2), strides=(2, 2), layout=(100, 33, 8, 1)),
        dict(window=(2, 2), strides=(2, 2), out=(30, 8, 4, 1)),
        dict(window=(2, 2), strides=(2, 2), indices=True),
    ):
        desc = pooling("MAX_POOLING2", F32, sizes, **fields)
        assert dml.Device("cpu").compile(desc).kernel_name == "windows:compiled"
    assert tiled
    assert not any(tiled)
