"""Norms of 16-bit windows, and segments of images, beside sums and lists that are made in Python."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from anydml.kernels.call.signature import Signature
from anydml.kernels.call.steps import prepared, table
from anydml.kernels.code import engine
from anydml.kernels.contract.images import image
from anydml.kernels.contract.quantised import planes
from every_kernel import SOAK, Ran, without_dot_products

pytestmark = pytest.mark.skipif(not without_dot_products(), reason="no code is emitted for this processor")
Axis = tuple[int, int, int, int, int]  # taps, dilation, stride, start and size
PLAIN: Axis = (1, 1, 1, 0, 1)


def executed(emit: Any, signature: Signature, isa: Any, *arguments: Any, **given: Any) -> None:
    """Call a kernel once. given: its arguments, arrays by themselves."""
    numbers = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in (given[name] for name in signature.names)]
    code = engine.compiled(emit, isa, *arguments)
    assert not prepared([table(code, np.array([numbers], np.int64))], isa, tuple(given.values()))()


def places_of(axis: Axis, end: int) -> list[list[int]]:
    """The elements of each window along an axis that are inside of the tensor; end: the padding behind it."""
    taps, dilation, stride, start, size = axis
    count = 1 + (size + start + end - 1 - (taps - 1) * dilation) // stride
    all_ = ([o * stride + t * dilation - start for t in range(taps)] for o in range(count))
    return [[p for p in window if 0 <= p < size] for window in all_]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("target", without_dot_products(), ids=lambda t: t.name)
def test_norms_count_the_elements_of_each_window(target: Any, signed: bool, ran: Ran) -> None:
    """No norm is too small, and none counts an element beyond the end of a line or of a plane: all elements are large."""
    rng, compared = np.random.default_rng(7), 0
    dtype, zero, scale, unit = np.dtype("i2" if signed else "u2"), 100, np.float32(0.7), 2.0**-9
    axes: list[tuple[Axis, int]] = [((3, 1, 1, 1, 5), 1), ((2, 2, 2, 1, 6), 2), ((3, 1, 2, 0, 4), 3), ((1, 1, 3, 2, 5), 2)]
    for (y, behind_y), (x, behind_x) in product(axes, repeat=2):
        z, behind_z = ((2, 1, 1, 1, 3), 1) if y is x else (PLAIN, 0)
        windows = [places_of(axis, end) for axis, end in ((z, behind_z), (y, behind_y), (x, behind_x))]
        sizes, counts = (z[4], y[4], x[4]), [len(w) for w in windows]
        pixels, places, images, channels = int(np.prod(sizes)), int(np.prod(counts)), 2, 2
        values = rng.integers(9_000, 30_000, (images, channels, *sizes)) * (
            rng.choice([-1, 1], (1, 1, *sizes)) if signed else 1
        )
        data = values.astype(dtype)
        words = np.array([[*axis, n, 1] for axis, n in zip((z, y, x), counts, strict=True)], np.int64)
        high, low = np.empty((2, data.size), np.uint8)
        norms, squares = np.empty((images, 2, *counts)), np.full(2 * (pixels + places) + 16, 1e30, np.float32)
        executed(
            planes.planes_of_images, planes.IMAGES, target, signed, x=data, high=high, low=low, norms=norms, squares=squares,
            windows=words, images=images, channels=channels, pixels=pixels, zero=zero, scale=int(scale.view(np.int32)),
            unit=int(np.float64(unit).view(np.int64)),
        )  # fmt: skip
        assert (high.astype(np.int64) * 256 + low - (32768 if signed else 0) == data.reshape(-1)).all()
        rounded = (values - zero).astype(np.float32) * scale
        off = (values - zero) * float(scale) - rounded
        for i, *at in np.ndindex(images, *counts):
            inside = np.ix_(*(windows[d][at[d]] for d in range(3)))
            for k, x_ in enumerate((rounded, off)):
                some = [Fraction(float(v)) for c in range(channels) for v in x_[i, c][inside].reshape(-1)]
                exact = sum((v * v for v in some), Fraction()) * Fraction(unit) ** 2
                square = Fraction(float(norms[i, k][tuple(at)])) ** 2
                assert exact <= square <= exact * Fraction(101, 100), (y, x, at, k)
                compared += 1
    ran(compared, 100)


@pytest.mark.parametrize("target", without_dot_products()[-1:], ids=lambda t: t.name)
def test_segments_of_a_panel_end_with_its_columns(target: Any, ran: Ran) -> None:
    """The records of contiguous columns, of a whole line of outputs or a part of it; NEVER for those that a panel lacks."""
    rng, compared = np.random.default_rng(8), 0
    for _ in range(60 * SOAK):
        x, y, z = (int(n) for n in rng.integers(1, (9, 4, 4)))
        columns, width, unit_y = x * y * z, int(rng.choice([4, 8, 16])), int(rng.integers(9, 30))
        unit_z = unit_y * int(rng.integers(y, y + 3))
        last = max(columns - width, 0)
        first = int(rng.integers(0, last + 1))
        panels, segments = 1 - -(last - first) // width, width // x + 2
        found = np.zeros((panels, segments, 2), np.int64)
        executed(
            image.places, image.PLACES, target, first=first, last=last, panels=panels, columns=columns, width=width,
            segments=segments, places=found, outputs_x=x, outputs_y=y, unit_y=unit_y, unit_z=unit_z,
        )  # fmt: skip
        for p in range(panels):
            begin = min(first + p * width, last)
            starts = [n for n in range(begin, min(begin + width, columns)) if n == begin or n % x == 0]
            wanted = [(n // (x * y) * unit_z + n // x % y * unit_y + n % x - (n - begin), n - begin) for n in starts]
            wanted += [(wanted[-1][0], image.NEVER)] * (segments - len(wanted))
            assert found[p].tolist() == [list(record) for record in wanted], (x, y, z, width, first, p)
            compared += segments
    ran(compared, 100)
