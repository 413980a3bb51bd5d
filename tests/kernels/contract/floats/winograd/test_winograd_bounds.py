"""The bounds of Winograd's sums, and of sums that are computed again, compared with exact fractions before they are stored.

A kernel that stores elements is compiled as a probe, which stores their estimates and bounds in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_winograd import ISAS, convolution, drawn

from anydml import Device
from anydml.kernels.code import engine, probe
from anydml.kernels.code.targets import Target
from anydml.kernels.contract.floats import epilogue, family, tuning
from anydml.kernels.contract.floats.winograd import plan, redo
from bound_probes import Records
from drawn_contractions import NAME
from tuned import tuned

# the largest ratios of an error to its bound: of sums, of those of blocks that are made again, and of single elements that are
RECORDS = {
    ("sums", 3): 0.023, ("again", 3): 0.035, ("single", 3): 0.044,
    ("sums", 5): 0.0026, ("again", 5): 0.0122, ("single", 5): 0.032,
}  # fmt: skip
FILTERS, CHANNELS, HEIGHT, WIDTH = 8, 3, 10, 9
Array = NDArray[Any]


def is_probed(way: str, emit: Callable[..., str], key: tuple[Any, ...]) -> bool:
    """Whether a kernel stores the elements of a way."""
    if emit is epilogue.block:
        return bool(key[0].again) == (way == "again") and way != "single"
    return emit is redo.summed and way == "single"


def exact(x: Array, f: Array) -> list[Fraction]:
    """The sums of a convolution with a padding of half a filter."""
    taps = f.shape[2]
    edge = taps // 2
    padded = np.zeros((CHANNELS, HEIGHT + 2 * edge, WIDTH + 2 * edge), np.float32)
    padded[:, edge:-edge, edge:-edge] = x[0]
    windows, filters = (np.array([Fraction(float(e)) for e in a.ravel()], object).reshape(a.shape) for a in (padded, f))
    shifted = [windows[c, p : p + HEIGHT, q : q + WIDTH] for c in range(CHANNELS) for p in range(taps) for q in range(taps)]
    return [Fraction(e) for one in filters for e in sum(w * s for w, s in zip(one.ravel(), shifted, strict=True)).ravel()]


def cases(taps: int) -> Iterator[tuple[str, Array, Array]]:
    """Inputs and filters of several kinds."""
    kinds = ("ordinary", "cancelling", "ties", "wide", "edges", "small") if taps == 3 else ("ordinary", "cancelling", "edges")
    for n, kind in enumerate(kinds):
        rng = np.random.default_rng((17, n))
        x = drawn(rng, "float32", (1, CHANNELS, HEIGHT, WIDTH), kind)
        f = drawn(rng, "float32", (FILTERS, CHANNELS, taps, taps), "ordinary" if kind == "small" else kind)
        if kind == "ordinary":  # windows whose transforms are mostly 0
            x[...] = 1 + x * np.float32(2.0**-20)
        yield kind, x, f


@pytest.mark.parametrize(("way", "taps"), RECORDS)
@pytest.mark.parametrize("isa", ISAS)
def test_no_error_exceeds_its_bound(isa: str, way: str, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """again, single: all sums are listed, and so computed again, by blocks or one by one."""
    real: Callable[..., Any] = engine.compiled

    def compiled(emit: Callable[..., str], target: Target, *key: Any) -> Any:
        return real(emit, replace(target, stage=probe.stage("first")) if is_probed(way, emit, key) else target, *key)

    monkeypatch.setattr(engine, "compiled", compiled)
    monkeypatch.setattr(family, "pays", lambda *found: True)
    if way != "sums":
        monkeypatch.setattr(plan, "SLACK", 2.0**60)
    if way == "single":
        tuned(monkeypatch, tuning, many_listed=1)
    closest, inexact, unclaimed = 0.0, 0, 0
    for kind, x, f in cases(taps):
        call = Device(isa=isa, threads=1).compile(convolution(x, f, (taps // 2,) * 4))
        assert call.kernel_name == NAME
        output = np.empty((1, FILTERS, HEIGHT, WIDTH), np.float32)
        found = Records.of(call.bind(input_tensor=x, filter_tensor=f, output_tensor=output).execute, output)
        assert found.stored.all()
        for head, tail, error, wanted in zip(*(a.tolist() for a in found[:3]), exact(x, f), strict=True):
            if error != error:  # the sign of a zero, or an infinity: nothing is claimed
                unclaimed += 1
                continue
            off = abs(Fraction(head) + Fraction(tail) - wanted)
            assert off <= Fraction(error), (kind, head, error, float(off))
            if error:
                closest, inexact = max(closest, float(off / Fraction(error))), inexact + 1
    print(f"the largest error is {closest:.3f} of its bound, of {inexact} sums that may be inexact")
    assert unclaimed * 10 < inexact > 1000
    assert abs(closest / RECORDS[way, taps] - 1) < 0.25, "a bound has changed"
