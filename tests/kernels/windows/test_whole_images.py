"""Windows that are whole images, several at a time; and windows reduced down their columns, whose lines are made together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_windows import F16, F32, ISAS, between_unmapped_pages, drawn, executed, pooling, same
from test_windows_sums import far_apart

import anydml as dml
from anydml import DataType, TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.kernel import Arrays
from anydml.kernels.undecided.places import NumberedElements
from anydml.kernels.windows import tuning as windows_tuning
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")

# sizes of images: few and many of them, fewer elements than a vector has lanes, an end that does not fill one
IMAGES = [(2, 9, 7, 7), (1, 1, 4, 4), (3, 1, 1, 3), (1, 21, 5, 13), (1, 3, 3, 2, 5), (1, 2, 17, 16)]
KINDS = ("ordinary", "specials", "ties")
FAR = ("wide", "tiny", "cancelling", "infinite", "a little apart", "zeros")


def with_zeros(x: NDArray[Any]) -> NDArray[Any]:
    """Numbers whose largest ones are zeros of both signs."""
    rng = np.random.default_rng(5)
    found = np.where(rng.random(x.shape) < 0.5, -np.abs(x), np.where(rng.random(x.shape) < 0.5, x.dtype.type(-0.0), 0))
    return found.astype(x.dtype)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_images(isa: str) -> None:
    compared = 0
    for name, types in (
        ("MAX_POOLING2", (F32, F16, DataType.INT8, DataType.UINT8, DataType.UINT16, DataType.INT64)),
        ("AVERAGE_POOLING1", (F32, F16)),
    ):
        for data_type in types:
            for at, sizes in enumerate(IMAGES):
                desc = pooling(name, data_type, sizes, sizes[2:])
                data = [drawn(data_type, sizes, at, kind) for kind in KINDS]
                if data_type in (F32, F16):
                    data.append(with_zeros(data[0]))
                if data_type == F32:
                    data += [far_apart(kind, sizes) for kind in FAR]
                for x in data:
                    compared += same(desc, {"input_tensor": x}, executed(desc, {"input_tensor": x}, isa, 1 + at % 2))
    assert compared > 1500


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_images_of_bytes(isa: str) -> None:
    """Means that are quantised: bytes of all types, ties, with and without zero points, and scales that are not valid."""
    compared, one = 0, np.float32
    for at, (x_scale, y_scale) in enumerate(
        [(0.5, 0.5), (0.1, 0.1), (-0.3, 0.2), (1e30, 1e-30), (np.inf, 1), (0, 1), (1, np.nan)]
    ):
        sizes = IMAGES[at % len(IMAGES)]
        given, taken = ((DataType.UINT8, DataType.INT8)[at >> k & 1] for k in range(2))
        scales = {"input_scale_tensor": np.array([x_scale], one), "output_scale_tensor": np.array([y_scale], one)}
        zeros = {
            "input_zero_point_tensor": np.array([100], given.dtype),
            "output_zero_point_tensor": np.array([3], taken.dtype),
        }
        for parameters in (scales, scales | zeros):
            fields: dict[str, Any] = {name: TensorDesc.of(value) for name, value in parameters.items()}
            desc = pooling("QUANTIZED_LINEAR_AVERAGE_POOLING", given, sizes, sizes[2:], **fields)
            desc = replace(desc, output_tensor=TensorDesc(taken, desc.output_tensor.sizes))
            inputs = {"input_tensor": drawn(given, sizes, at), **parameters}
            compared += same(desc, inputs, executed(desc, inputs, isa, 1 + at % 2))
    assert compared > 120


def test_images_between_unmapped_pages() -> None:
    sizes = (2, 5, 3, 7)
    for name in ("AVERAGE_POOLING1", "MAX_POOLING2"):
        for layout, out in ((None, None), ((150, 30, 7, 1), (10, 2, 1, 1)), ((0, 0, 7, 1), (5, 1, 1, 1))):
            desc = pooling(name, F32, sizes, (3, 7), layout=layout, out=out)
            compiled = dml.Device("cpu", threads=1).compile(desc)
            assert compiled.kernel_name == "windows:compiled"
            between_unmapped_pages(desc, compiled)


def test_images_whose_means_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """More undecided images than the list has space for: the sums lose digits that decide a half."""
    tuned(monkeypatch, windows_tuning, listed=2)
    x = np.zeros((2, 40, 2, 4), np.float32)
    x[..., 0, :] = np.array([8, 2.0**-21, 2.0**-75, 2.0**-140])  # eight times 1 + 2^-24 and smaller terms
    x[..., 1, 0] = -(2.0**-110)
    desc = pooling("AVERAGE_POOLING1", F32, x.shape, (2, 4))
    decided, decide = set[int](), NumberedElements.decide

    def noted(self: NumberedElements, numbers: NDArray[np.int64], arrays: Arrays) -> None:
        decided.update(numbers.tolist())
        decide(self, numbers, arrays)

    monkeypatch.setattr(NumberedElements, "decide", noted)
    for threads in (1, 2):
        same(desc, {"input_tensor": x}, executed(desc, {"input_tensor": x}, threads=threads))
    assert len(decided) == 80


LINES: list[tuple[tuple[int, ...], dict[str, Any]]] = [  # more lines than are made together
    ((1, 2, 45, 37), dict(window=(3, 3), start=(1, 1), end=(1, 1))),
    ((1, 2, 45, 37), dict(window=(3, 3), strides=(2, 2), start=(1, 1), end=(1, 1))),
    ((1, 1, 50, 41), dict(window=(2, 3), strides=(3, 2), start=(0, 2), end=(1, 1))),
    ((1, 1, 40, 33), dict(window=(5, 2), strides=(2, 1), start=(4, 0), end=(3, 1))),
    ((1, 1, 6, 20), dict(window=(7, 4), strides=(1, 2), start=(6, 3), end=(6, 3))),  # higher than the image
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_lines_that_are_made_together(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, windows_tuning, general=0)
    compared = 0
    for at, (sizes, given) in enumerate(LINES):
        for name, fields in (
            ("AVERAGE_POOLING1", {"include_padding": at % 2 == 1}),
            ("MAX_POOLING2", {}),
            ("LP_POOLING1", {"p": 2}),
        ):
            desc = pooling(name, F32, sizes, **given, **fields)
            x = drawn(F32, sizes, at)
            few = x.copy()
            few[0, 0, 30 % sizes[2], 7] = np.nan  # in one of the groups of lines
            for values in (x, few, with_zeros(x)):
                compared += same(desc, {"input_tensor": values}, executed(desc, {"input_tensor": values}, isa))
    assert compared > 20_000
