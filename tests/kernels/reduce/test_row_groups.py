"""Rows in groups, streams that all rows share, and softmax without its largest element: the bits are those of rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anydml as dml
from anydml.kernels.code import engine, llvm
from anydml.kernels.code.targets import targets
from anydml.kernels.code.values import Body, Kind, Value
from anydml.kernels.elementwise import standardised
from anydml.kernels.numbers.floats.numbers import Number
from anydml.kernels.numbers.known import Known
from anydml.kernels.reduce import groups, tuning
from anydml.kernels.reduce.softmax_walk import SoftmaxWalk
from tuned import tuned

pytestmark = [
    pytest.mark.skipif(llvm.unavailable() is not None, reason="there is no LLVM here"),
    pytest.mark.usefixtures("own_code"),
]

Array = NDArray[np.float32]


def normalised(x: Array, scale: Array, bias: Array) -> Array:
    found = dml.mean_variance_normalization2(x, scale, bias, axes=(1,))
    return np.asarray(found).view(np.uint32)


def softmax(x: Array) -> Array:
    found = dml.activation_softmax1(x, axes=(1,))
    return np.asarray(found).view(np.uint32)


def anew(monkeypatch: pytest.MonkeyPatch, **thresholds: Any) -> None:
    """Let kernels be compiled again, with these thresholds."""
    tuned(monkeypatch, tuning, **thresholds)
    engine.compiled.cache_clear()


@pytest.mark.parametrize("decided", ["at once", "in pairs"])
def test_groups_have_the_bits_of_rows_alone(decided: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole and partial groups, and lists that are full within one; rows of equal elements, of infinities, far from 0."""
    if decided == "in pairs":
        monkeypatch.setattr(standardised, "ROUNDED", 2.0**-26)
    rng = np.random.default_rng(11)
    cases = []
    for rows, width in ((1, 70), (37, 70), (33, 5), (16, 16)):
        x = rng.standard_normal((rows, width), np.float32)
        for row, values in ((3, 1.5), (5, 0.0), (7, np.inf), (9, -0.0)):
            x[row : row + 1] = values
        x[11:12] += 1e6
        for first in (1, rows):
            scale, bias = (rng.standard_normal((first, width), np.float32) for _ in range(2))
            scale[:, :2], bias[:, 1:3] = (np.inf, 0), (0, np.nan)
            cases.append((x, scale, bias))
    anew(monkeypatch, group=0)
    alone = [normalised(*case) for case in cases]
    for thresholds in ({"common": True}, {"common": False, "ahead": 256}, {"room": 2, "common": True}):
        anew(monkeypatch, group=1 << 18, **thresholds)
        for case, wanted in zip(cases, alone, strict=True):
            np.testing.assert_array_equal(normalised(*case), wanted)


def test_a_line_that_is_kept_has_all_of_its_values() -> None:
    body = Body(targets()[0])
    x, near = (Value(body, f"%{name}", Kind("double", 8)) for name in "xe")
    guard = x.compared("ogt", 2.0)
    m, b = (Number(body, lambda: x, Known(-1.0, 1.0), err=lambda: near, guard=guard) for _ in range(2))
    line = standardised.line(x, "mab", [m, Number(body, lambda: x, Known(1.0, 2.0), rel=2.0**-50), b], fused=True)
    assert line.guard is not None
    assert groups._with_values(line, groups._values(line)) == line


def test_moderate_rows_need_no_largest_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose largest element is on either side of the limits, with elements that are not, NaN and infinities."""
    rng = np.random.default_rng(12)
    for width in (5, 16, 70, 129):
        x = rng.standard_normal((40, width), np.float32) * 3
        for row, moved in enumerate((280, -280, 296, -296, 300, -300, 304, -304, 600, -600, 900, -900, 1e30, -1e30)):
            x[row] += moved
        x[14, 1:], x[15, :-1], x[16, 1:], x[17, 2] = -np.inf, -500, -1e4, np.nan
        x[18, 0], x[19] = np.inf, -np.inf
        x[20:30, ::2] -= rng.uniform(0, 700, (10, 1)).astype(np.float32)
        made = softmax(x)
        with monkeypatch.context() as patched:
            patched.setattr(SoftmaxWalk, "tries", lambda walk: False)
            engine.compiled.cache_clear()
            np.testing.assert_array_equal(made, softmax(x))
        engine.compiled.cache_clear()
