"""Contractions that store tiles from registers, compared with the oracle, also with maps that follow in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml
import hostile_data
from anydml import DataType, Device, TensorDesc
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import Target, targets
from anydml.kernels.contract.floats import tuning
from anydml.kernels.contract.floats.epilogue import EpilogueKey
from anydml.kernels.contract.floats.packed import at_once, in_place
from anydml.kernels.contract.floats.packed.columns import Columns
from anydml.kernels.contract.floats.packed.filled import Filled
from anydml.schema.operator import Desc
from drawn_contractions import Rng, named, pick, run
from every_kernel import SOAK, Compared, without_dot_products
from guard_pages import AVAILABLE
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None or not AVAILABLE, reason="nothing can be compiled, or guarded"),
    pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:underflow"),
]
ISAS = [t.name for t in without_dot_products()]
TYPES = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16)


@pytest.fixture(params=["packed", "in place"])
def emitted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[EpilogueKey]:
    """The keys of the kernels that store tiles from registers, of packed columns, or of columns that are read in place."""
    found: list[EpilogueKey] = []
    if request.param == "packed":
        monkeypatch.setattr(in_place, "step", lambda *_: None)
    real: Callable[..., Any] = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *key: Any) -> Any:
        if emit in (at_once.stored, in_place.stored):
            found.extend(k for k in key if isinstance(k, EpilogueKey))
        return real(emit, target, *key)

    monkeypatch.setattr(engine, "compiled", compiled)
    return found


def product(rng: Rng) -> Desc:
    """A product with 17 rows or more. C, if present, is equal for all elements of a row. There are rarely many terms."""
    t, m, k = (
        pick(rng, TYPES),
        int(rng.integers(17, 24)),
        int(rng.integers(1, 49 if rng.random() < 0.9 else tuning.TUNING.at_once_terms + 1)),
    )
    n = 24 * int(rng.integers(1, 4)) if rng.random() < 0.5 else int(rng.integers(1, 73))
    c = TensorDesc(t, (m, n), strides=(1, 0)) if rng.random() < 0.5 else None
    a, b, y = (TensorDesc(t, sizes) for sizes in ((m, k), (k, n), (m, n)))
    factors = {} if rng.random() < 0.7 else {"alpha": pick(rng, (-2.0, 0.1, 1.0)), "beta": pick(rng, (1.0, 0.3))}
    made: Desc = named("GEMM")(a_tensor=a, b_tensor=b, c_tensor=c, output_tensor=y, **factors, **following(rng))
    return made


def convolution(rng: Rng) -> Desc:
    """A convolution with 5 filters or more, of 1 x 1 or 3 x 3, with and without padding and strides, and 48 or 49 outputs per
    plane."""
    t, taps, stride = pick(rng, TYPES), pick(rng, (1, 3)), pick(rng, (1, 2))
    read, written = int(rng.integers(1, 49 if taps == 1 else 6)), int(rng.integers(17 if taps == 1 else 5, 24))
    high, wide = pick(rng, ((6, 8), (7, 7)))
    sizes = (1, read, (high - 1) * stride + 1, (wide - 1) * stride + 1)
    bias = TensorDesc(t, (1, written, 1, 1)) if rng.random() < 0.7 else None
    around = (taps // 2,) * 2
    made: Desc = named("CONVOLUTION")(
        input_tensor=TensorDesc(t, sizes), filter_tensor=TensorDesc(t, (written, read, taps, taps)), bias_tensor=bias,
        output_tensor=TensorDesc(t, (1, written, high, wide)), mode="CROSS_CORRELATION", direction="FORWARD",
        strides=(stride,) * 2, dilations=(1, 1), start_padding=around, end_padding=around, output_padding=(0, 0), group_count=1,
        **following(rng),
    )  # fmt: skip
    return made


def following(rng: Rng) -> dict[str, Any]:
    made = (None, None, named("ACTIVATION_RELU")(), named("ELEMENT_WISE_CLIP")(min=-1.0, max=2.5))
    return {"fused_activation": pick(rng, made)}


@pytest.mark.parametrize("few", [tuning.TUNING.at_once_listed, tuning.TUNING.many])  # the longest lists
@pytest.mark.parametrize("isa", ISAS)
def test_generated(isa: str, few: int, emitted: list[EpilogueKey], compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, tuning, at_once_listed=few, column_bytes=8 if few == tuning.TUNING.many else 4)
    outputs = cases = 0
    wanted = 2_000 * SOAK
    while outputs < wanted:
        rng = np.random.default_rng((len(isa), few, cases))
        emitted.clear()
        desc = (product, convolution)[cases % 2](rng)
        outputs += run(desc, rng, Device(isa=isa, threads=1 + cases % 2))
        assert emitted, desc
        cases += 1
    compared("outputs of tiles that are stored at once", outputs, wanted)


@pytest.mark.parametrize("isa", ISAS)
def test_columns_that_are_packed_several_panels_at_a_time(isa: str, emitted: list[EpilogueKey]) -> None:
    """Whole groups of panels, a group in which the next image begins, and remaining panels. Read in place, every panel is
    whole but the last."""
    for images, read, sizes in ((1, 5, (1, 230)), (2, 2, (4, 29)), (2, 1, (4, 24))):
        rng = np.random.default_rng(images)
        x, f, y = (TensorDesc(DataType.FLOAT32, (*outer, *inner)) for outer, inner in (
            ((images, read), sizes), ((17, read), (1, 1)), ((images, 17), sizes)
        ))  # fmt: skip
        fields = dict(strides=(1, 1), dilations=(1, 1), start_padding=(0, 0), end_padding=(0, 0), output_padding=(0, 0))
        desc: Desc = named("CONVOLUTION")(
            input_tensor=x, filter_tensor=f, output_tensor=y, mode="CROSS_CORRELATION", direction="FORWARD", group_count=1,
            **fields,
        )  # fmt: skip
        assert run(desc, rng, Device(isa=isa, threads=1), ["ordinary"]) > 0
    assert emitted


@pytest.mark.parametrize("kind", hostile_data.KINDS)
def test_maps_that_follow_round_once_more(kind: str, emitted: list[EpilogueKey]) -> None:
    """A clip, and a product with a scalar, after the rounded sum; with special values in all factors."""
    rng = np.random.default_rng(5)
    x, f, b = (hostile_data.values("FLOAT32", sizes, rng, kind) for sizes in ((1, 3, 12, 16), (9, 3, 3, 3), (1, 9, 1, 1)))
    for special in (False, True):
        if special:
            for array in (x, f, b):
                array.reshape(-1)[rng.integers(0, array.size, 2)] = hostile_data.values("FLOAT32", 2, rng, "specials")
        for isa in ISAS:
            for follow in (lambda y: dml.element_wise_clip(y, min=0.0, max=6.0), lambda y: dml.element_wise_multiply(y, 0.1)):

                def layer(x: Any, follow: Any = follow) -> Any:
                    return follow(dml.convolution(x, f, b, start_padding=(1, 1), end_padding=(1, 1)))

                emitted.clear()
                desc = dml.graph(layer, x=TensorDesc.of(x)).desc
                found = {}
                for fuse in (True, False):
                    found[fuse] = np.full((1, 9, 12, 16), 7, np.float32)
                    Device(isa=isa, threads=1).compile(desc, fuse=fuse).bind(x=x, output=found[fuse]).execute()
                assert any(shape.stored.rounded() is not None for shape in emitted)
                np.testing.assert_array_equal(found[True].view(np.uint32), found[False].view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
def test_sums_of_few_terms_beside_the_edge_keep_their_sign(
    isa: str, emitted: list[EpilogueKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a corner of -0, with positive filters, all terms inside of the image are -0. So is the sum, although zeros are
    packed."""
    tuned(monkeypatch, tuning, at_once_listed=tuning.TUNING.many)
    rng = np.random.default_rng(8)
    x, f = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((1, 3, 12, 16), (9, 3, 3, 3)))
    f[4] = np.abs(f[4])
    desc = dml.graph(lambda x: dml.convolution(x, f, start_padding=(1, 1), end_padding=(1, 1)), x=TensorDesc.of(x)).desc
    found = []
    for device in (Device(isa=isa, threads=1), Device("reference")):
        read, made = x.copy(), np.full((1, 9, 12, 16), 7, np.float32)
        read[0, 0, -1, -1] = np.inf  # leaves sums in memory that are not zeros
        bound = device.compile(desc).bind(x=read, output=made)
        if device.name != "reference":
            bound.execute()
        read[:, :, :2, :2], read[0, 0, -1, -1] = -0.0, 1
        bound.execute()
        found.append(made.view(np.uint32))
    assert emitted
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0, 4, 0, 0] == 1 << 31


LAYERS = {  # of images: channels, filters, taps, strides, sizes, padding, and how elements are read on AVX-512
    "lines, every second element": (3, 9, (3, 3), (2, 2), (9, 32), (1, 1), 2),
    "lines that the padding ends": (2, 17, (3, 5), (1, 1), (5, 24), (1, 2), 1),
    "elements of short lines": (1, 33, (10, 4), (2, 2), (49, 10), (4, 1), 0),
    "every fourth element": (3, 33, (5, 5), (4, 4), (21, 33), (2, 2), 0),
}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Columns, bool]]:
    """The columns that emitted kernels read in place, and whether some terms do not count."""
    found: list[tuple[Columns, bool]] = []
    real = in_place.stored

    def stored(target: Target, rows: int, across: int, key: EpilogueKey, columns: Columns) -> str:
        found.append((columns, key.padded))
        return real(target, rows, across, key, columns)

    engine.compiled.cache_clear()
    monkeypatch.setattr(in_place, "stored", stored)
    return found


def layer(data_type: DataType, sizes: tuple[tuple[int, ...], ...], padding: tuple[int, ...], **more: Any) -> Desc:
    """A convolution of an image with a bias, and RELU. sizes: of the input, the filter and the output."""
    x, f, y = (TensorDesc(data_type, n) for n in sizes)
    made: Desc = named("CONVOLUTION")(
        input_tensor=x, filter_tensor=f, bias_tensor=TensorDesc(data_type, (1, sizes[2][1], 1, 1)), output_tensor=y,
        mode="CROSS_CORRELATION", dilations=(1, 1), start_padding=padding, end_padding=padding, output_padding=(0, 0),
        group_count=1, fused_activation=named("ACTIVATION_RELU")(), **more,
    )  # fmt: skip
    return made


def lanes_of(isa: str) -> int:
    return next(t for t in without_dot_products() if t.name == isa).vector_bytes // 8


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("isa", ISAS)
def test_layers_whose_columns_are_read_in_place(isa: str, name: str, used: list[tuple[Columns, bool]]) -> None:
    """Vectors of one line where lines consist of whole vectors, else gathered ones; some data are left to packed panels."""
    read, written, taps, strides, sizes, padding, step = LAYERS[name]
    outer = tuple((n + 2 * p - t) // s + 1 for n, p, t, s in zip(sizes, padding, taps, strides, strict=True))
    shapes = (1, read, *sizes), (written, read, *taps), (1, written, *outer)
    types = DataType.FLOAT32, DataType.FLOAT16
    for data_type in types if SOAK > 1 else types[len(name) % 2 :][:1]:
        desc, rng = layer(data_type, shapes, padding, strides=strides, direction="FORWARD"), np.random.default_rng(len(name))
        assert run(desc, rng, Device(isa=isa, threads=1), ["ordinary", "specials", pick(rng, hostile_data.KINDS)]) > 0
    lanes = lanes_of(isa)
    expected = step if lanes >= 4 and step and outer[1] % lanes == 0 else 0 if lanes == 8 else None
    assert {(columns.step, padded) for columns, padded in used} == ({(expected, True)} if expected is not None else set())
    assert not any(columns.alternate for columns, _ in used)


@pytest.mark.parametrize("isa", ISAS)
def test_transposed_layers_whose_outputs_are_alternate_elements(isa: str, used: list[tuple[Columns, bool]]) -> None:
    """Four contractions write every second element of every second line, from registers where lines are whole vectors."""
    compared = 0
    for wide, written in ((8, 17), (24, 5), (9, 6)):
        shapes = (1, 3, 5, wide), (3, written, 2, 2), (1, written, 10, 2 * wide)
        desc = layer(DataType.FLOAT32, shapes, (0, 0), strides=(2, 2), direction="BACKWARD")
        used.clear()
        engine.compiled.cache_clear()
        kinds = ["ordinary", *hostile_data.KINDS[written % 2 :: 2], "specials"]
        compared += run(desc, np.random.default_rng(written), Device(isa=isa, threads=1 + written % 2), kinds)
        assert [columns.alternate for columns, _ in used] == [True] * len(used)
        assert bool(used) == (lanes_of(isa) >= 4 and wide % lanes_of(isa) == 0)
    assert compared > 0


def test_rows_of_panels_are_at_least_as_wide_as_their_vectors() -> None:
    """A wider vector would be moved back to before the first row, and so write to memory beside the panels."""
    for target in targets():
        for across in range(1, 5):
            for step in (0, 1, 2, 4):
                found = Filled(target, DataType.FLOAT32, across, step, padded=False)
                assert 0 < found.lanes <= found.width
