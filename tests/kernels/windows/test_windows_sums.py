"""Sums over windows of very different elements, and results halfway between two floats: what the kernel leaves undecided."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_windows import F16, F32, ISAS, executed, pooling, same

from anydml import DataType, TensorDesc
from anydml.kernels.code import llvm
from anydml.kernels.windows import tuning as windows_tuning
from tuned import tuned

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here")


def far_apart(kind: str, sizes: tuple[int, ...]) -> NDArray[Any]:
    """Elements whose sums need more than 53 bits, or are close to the middle of two results."""
    rng = np.random.default_rng(4)
    ordinary = rng.standard_normal(sizes)
    if kind == "wide":
        return (ordinary * 2.0 ** rng.integers(-120, 120, sizes)).astype(np.float32)
    if kind == "tiny":
        return (ordinary * 2.0**-140).astype(np.float32)
    if kind == "cancelling":
        return np.where(rng.random(sizes) < 0.3, 2.0**60, np.where(rng.random(sizes) < 0.4, -(2.0**60), ordinary)).astype(
            np.float32
        )
    if kind == "infinite":
        return np.where(rng.random(sizes) < 0.05, np.inf * np.sign(ordinary), ordinary).astype(np.float32)
    if kind == "halves":  # the middle of two results, or close to it
        return (1 + rng.integers(0, 8, sizes) * 2.0**-23 + np.where(rng.random(sizes) < 0.2, 2.0**-40, 0)).astype(np.float32)
    if kind == "a little apart":
        return np.where(rng.random(sizes) < 0.1, 2.0**-24 * ordinary, ordinary).astype(np.float32)
    return np.where(rng.random(sizes) < 0.5, -0.0, 0.0).astype(np.float32)


@pytest.mark.parametrize("kind", ["wide", "tiny", "cancelling", "infinite", "halves", "a little apart", "zeros"])
def test_sums_that_need_more_bits_or_are_halves(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, windows_tuning, general=0)
    sizes = (1, 2, 9, 33)
    x = {"input_tensor": far_apart(kind, sizes)}
    for window in ((3, 3), (2, 2)):
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("AVERAGE_POOLING1", {}),
            ("LP_POOLING1", {"p": 1}),
            ("LP_POOLING1", {"p": 2}),
        ]
        for name, fields in kinds:
            desc = pooling(name, F32, sizes, window, start=(1, 1), end=(1, 1), **fields)
            same(desc, x, executed(desc, x))


def test_what_is_left_open_goes_to_the_reference_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths halfway between two elements: 2048^2 + 64^2 + 1 = 2049^2."""
    tuned(monkeypatch, windows_tuning, listed=2)
    x = np.zeros((2, 3, 8, 80), np.float16)
    x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2] = 2048, 64, 1
    desc = pooling("LP_POOLING1", F16, x.shape, (2, 2), strides=(2, 2), p=2)
    for threads in (1, 2):
        found = executed(desc, {"input_tensor": x}, threads=threads)["output_tensor"]
        assert (found == 2048).all()
    scale = np.array([np.inf], np.float32)
    y = np.random.default_rng(1).integers(0, 3, (1, 3, 9, 40)).astype(np.uint8)
    given: dict[str, NDArray[Any]] = {
        "input_tensor": y,
        "input_scale_tensor": scale,
        "output_scale_tensor": np.ones(1, np.float32),
    }
    one = TensorDesc(F32, (1,))
    quantized = pooling(
        "QUANTIZED_LINEAR_AVERAGE_POOLING", DataType.UINT8, y.shape, (3, 3), input_scale_tensor=one, output_scale_tensor=one
    )
    same(quantized, given, executed(quantized, given))


def halves(count: int) -> NDArray[Any]:
    """Windows of 3 x 3 whose means are halfway between two elements, which six elements of each determine; the other three are
    0."""
    rng = np.random.default_rng(9)
    found = np.zeros((count, 9), np.float32)
    for window in found:
        total = 9 * (1 + (2 * int(rng.integers(0, 2**20)) + 1) * Fraction(1, 2**24))
        window[:4] = 1.5 + rng.integers(0, 2**20, 4) * 2.0**-23
        rest = total - sum(map(Fraction, window[:4].tolist()))
        window[4] = float(0.75 + rest % Fraction(1, 2**22))
        window[5] = float(rest - Fraction(float(window[4])))
        assert sum(map(Fraction, window.tolist())) == total
    return found


ASIDE = {  # the sum of the last three elements, so that sums need up to 47 bits, up to 53, or more
    "nothing": (0, 0, 0),
    "a little": (2.0**-20, -(2.0**-20), 2.0**-20),
    "a little less": (-(2.0**-20), 0, 0),
    "the last of 51 bits": (2.0**-23 * (1 + 2.0**-23), -(2.0**-23), 0),
    "less than nothing, in the last of 51 bits": (-(2.0**-23) * (1 + 2.0**-23), 2.0**-23, 0),
    "nothing, of 51 bits": (2.0**-23, -(2.0**-23), 0),
    "more": (2.0**-55, 0, 0),
    "less": (-(2.0**-55), 0, 0),
    "what is lost": (2.0**-60, 2.0**-120, -(2.0**-60)),
    "what is lost, less": (2.0**-60, -(2.0**-120), -(2.0**-60)),
}


@pytest.mark.parametrize("aside", ASIDE)
def test_means_that_are_half_between_two_elements_or_next_to_that(aside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(monkeypatch, windows_tuning, general=0)
    windows = halves(96)
    windows[:, 6:] = ASIDE[aside]
    x = np.ascontiguousarray(windows.reshape(2, 48, 3, 3).swapaxes(1, 2).reshape(1, 1, 6, 144))
    desc = pooling("AVERAGE_POOLING1", F32, x.shape, (3, 3), strides=(3, 3))
    for isa in ISAS:
        same(desc, {"input_tensor": x}, executed(desc, {"input_tensor": x}, isa))
